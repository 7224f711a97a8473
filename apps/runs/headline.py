"""How a result reads to a person: number, unit, denominator, sensible digits. The exact value stays in the observation."""

from __future__ import annotations

from apps.core.evidence.observation import Observation
from apps.core.geo.scene import SceneInfo

UNIT_SIGNS = {"m2": "m²", "km2": "km²", "1": "", "percent": "%", "deg": "°"}


def number_text(value: float | int) -> str:
    """Four significant digits, whole numbers in full: 40574 → '40,574', 0.53029 → '0.5303', 302.351 → '302.4'."""
    if isinstance(value, int) or (float(value).is_integer() and abs(value) < 1e15):
        return f"{int(value):,}"
    magnitude = abs(value)
    if magnitude >= 1000:
        return f"{value:,.1f}"
    if magnitude < 1e-4:
        return f"{value:.3e}"
    text = f"{value:.4g}"
    return text


def value_text(value: object, unit: str = "1") -> str:
    """The value with its unit; booleans as Yes and No, fractions of kind share are left to the caller."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "Yes" if value else "No"
    text = number_text(value) if isinstance(value, int | float) else str(value)
    sign = UNIT_SIGNS.get(unit, unit)
    return f"{text} {sign}".strip()


def headline(observation: Observation) -> tuple[str, str]:
    """(the number with its unit, what it is of) for the head of a page or a line of the trace."""
    result = observation.result
    if observation.status.state == "failed":
        return "No result", observation.status.reason or "the tool failed"
    what = result.quantity.replace("_", " ")
    if result.kind == "layer":
        layers = [layer for layer in result.layers if layer.label != "candidates"]
        if not layers:
            return "Empty layer", what
        n = layers[0].n
        noun = {"mask": "px", "classes": "px", "raster": "px"}.get(layers[0].kind, "")
        label = layers[0].label or what
        return (f"{n:,} {noun}".strip() if n is not None else layers[0].kind), label
    if result.kind == "ratio" and isinstance(result.value, float | int) and result.unit == "1":
        return f"{100 * float(result.value):.2f} %", what or "share"
    return value_text(result.value, result.unit), what or result.kind


def detail_text(observation: Observation) -> str:
    """One line under the headline: denominators and counts, as the evidence tells them."""
    middle = observation.evidence.intermediate
    parts = []
    num, den = middle.get("numerator"), middle.get("denominator")
    if isinstance(num, int | float) and isinstance(den, int | float) and observation.result.kind in ("ratio", "area"):
        parts.append(f"{number_text(num)} of {number_text(den)}")
    valid = middle.get("valid_px")
    if isinstance(valid, int):
        parts.append(f"{valid:,} valid px")
    kept, candidates = middle.get("kept"), middle.get("candidates")
    if isinstance(kept, int) and isinstance(candidates, int):
        parts.append(f"{kept:,} kept of {candidates:,} candidates")
    interval = observation.result.interval
    if interval:
        parts.append(f"{number_text(interval[0])} to {number_text(interval[1])}")
    return " · ".join(parts)


def scene_title(scene: SceneInfo) -> str:
    """The date where it is known, else the file's name."""
    return f"{scene.acquired_at:%-d %b %Y}" if scene.acquired_at else scene.name


def scene_detail(scene: SceneInfo) -> str:
    gsd = scene.effective_gsd_m
    return " · ".join(filter(None, [scene.sensor or scene.name, f"{gsd:.3g} m" if gsd else "GSD unknown"]))
