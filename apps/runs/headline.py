"""How a result reads to a person: number, unit, denominator, sensible digits. The exact value stays in the observation."""

from __future__ import annotations

import re
from typing import get_args

from apps.agent.plurals import things_text
from apps.agent.units import carried_text, number_text, without_noise
from apps.core.evidence.observation import LayerRef, Observation
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import Relation

# abbreviations that are written in capitals
_CAPITALS = frozenset(
    {"ndvi", "ndwi", "mndwi", "ndbi", "ndmi", "evi", "savi", "nbr", "ndsi", "bsi", "ndti", "lst", "nir", "vv", "vh"}
)

# how what is measured is tied to something else, in the words of a quantity
_RELATIONS = "|".join(re.escape(r.replace("_", " ")) for r in get_args(Relation) if r)

# what the number of a layer counts, of one and of many
_COUNTED = {
    "mask": ("px", "px"),
    "classes": ("px", "px"),
    "raster": ("px", "px"),
    "boxes": ("box", "boxes"),
    "points": ("point", "points"),
    "polygons": ("polygon", "polygons"),
}


def quantity_text(name: str) -> str:
    """``ndvi_change`` → ``NDVI change``; the name of a file keeps its letters."""
    parts = (word if "." in word else word.replace("_", " ") for word in name.split(" "))
    return " ".join(w.upper() if w in _CAPITALS else w for w in " ".join(parts).split(" "))


def _figure(value: float | int, unit: str = "1") -> str:
    return number_text(value, unit, is_count=isinstance(value, int) or float(value).is_integer())


def value_text(value: object, unit: str = "1") -> str:
    """The value with its unit; booleans as Yes and No, fractions of kind share are left to the caller."""
    if value is None:
        return "no value"
    if isinstance(value, bool):
        return "Yes" if value else "No"
    return _figure(value, unit) if isinstance(value, int | float) else str(value)


def layer_size(layer: LayerRef) -> str:
    """How much a layer holds, with what is counted: ``8,626 px``, ``8 boxes``, ``1 point``; empty where it is not counted."""
    if layer.n is None:
        return ""
    one, many = _COUNTED.get(layer.kind, ("", ""))
    return f"{layer.n:,} {one if layer.n == 1 else many}".strip()


def headline(observation: Observation) -> tuple[str, str]:
    """(the number with its unit, what it is of) for the head of a page or a line of the trace."""
    result = observation.result
    if observation.status.state == "failed":
        return "No result", observation.status.reason or "the tool failed"
    what = quantity_text(result.quantity)
    if result.kind == "layer":
        layers = [layer for layer in result.layers if not layer.is_aside]
        if not layers:
            return "Empty layer", what
        label = quantity_text(layers[0].label) or what
        return layer_size(layers[0]) or layers[0].kind, label
    if result.kind == "table" and result.value is None and result.items:
        return f"{len(result.items):,} rows", what or "table"
    if result.kind == "ratio" and isinstance(result.value, float | int) and result.unit == "1":
        return f"{100 * float(result.value):.2f} %", what or "share"
    if result.kind in ("class", "text") and result.value is None:
        return "None named", what or result.kind
    if result.kind == "count" and isinstance(result.value, int | float):
        # "54 trees inside park", not "54 number of tree"
        what = _counted(result.quantity, result.value) or what
    return value_text(result.value, result.unit), what or result.kind


def _counted(quantity: str, n: float) -> str:
    """``number of tree inside park`` → ``trees inside park``, and ``tree inside park`` of one; empty where it is no number of."""
    said = re.fullmatch(rf"number of (.+?)((?:(?: (?:{_RELATIONS})\b|, for each of ).*)?)", quantity)
    return quantity_text(things_text(said[1], n) + said[2]) if said else ""


def is_said(words: str, text: str) -> bool:
    """Whether a text says these words already, whatever their case, their blanks and how they end."""
    one, whole = (" ".join(t.lower().split()).rstrip(".… ") for t in (words, text))
    return bool(one) and one in whole


def rounded_headline(observation: Observation) -> str:
    """The number as ``headline`` writes it, or, where it has an interval, to the digits that this carries, with it behind."""
    result = observation.result
    is_number = isinstance(result.value, int | float) and not isinstance(result.value, bool)
    if observation.status.state == "failed" or not is_number or result.interval is None:
        return headline(observation)[0]
    scale, unit = (100, "%") if result.kind == "ratio" and result.unit == "1" else (1, result.unit)
    low, high = (scale * end for end in result.interval)
    is_count = result.kind == "count"
    text, span = carried_text(scale * float(result.value), (low, high), unit, is_count=is_count)  # type: ignore[arg-type]
    level = f"{100 * result.interval_level:.3g} % " if result.interval_level is not None else ""
    return f"{text} ({level}interval {span})" if span else text


def detail_text(observation: Observation) -> str:
    """One line under the headline: denominators and counts, as the evidence tells them."""
    middle = observation.evidence.intermediate
    parts = []
    num, den = middle.get("numerator"), middle.get("denominator")
    by_pixels = middle.get("by_pixels")
    if middle.get("weights") == "area":
        alike = f"; {_figure(by_pixels, observation.result.unit)} with each pixel alike" if isinstance(by_pixels, float) else ""
        parts.append(f"by area{alike}")
    elif isinstance(num, int | float) and isinstance(den, int | float) and observation.result.kind in ("ratio", "area"):
        parts.append(f"{_figure(num)} of {_figure(den)}")
    valid = middle.get("valid_px")
    # two landmarks are two, and no pixel of them
    if isinstance(valid, int) and observation.configuration.coarse != "measurement":
        parts.append(f"{valid:,} valid px")
    kept, candidates = middle.get("kept"), middle.get("candidates")
    # two landmarks are two: nothing was chosen among candidates
    if isinstance(kept, int) and isinstance(candidates, int) and observation.configuration.coarse != "measurement":
        parts.append(f"{kept:,} kept of {candidates:,} candidates")
    interval, result_unit = observation.result.interval, observation.result.unit
    ends = [_figure(end, result_unit) for end in without_noise(interval or ())]
    if len(set(ends)) == 2:  # ends that are written alike are no interval to a reader
        parts.append(" to ".join(ends))
    return " · ".join(parts)


def scene_title(scene: SceneInfo) -> str:
    """The date where it is known, else the file's name."""
    return f"{scene.acquired_at:%-d %b %Y}" if scene.acquired_at else scene.name


def scene_detail(scene: SceneInfo) -> str:
    gsd = scene.effective_gsd_m
    return " · ".join(filter(None, [scene.sensor or scene.name, f"{gsd:.3g} m" if gsd else "GSD unknown"]))
