"""Geometry: what was measured in coarser pixels than its raster has is told so, and no outline is told finer than that."""

from __future__ import annotations

from apps.core.evidence.observation import InputRef
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check

# Bands that tell what to leave out, and not what is measured.
_BESIDE = ("qa", "alpha")
# Pixel areas of one image differ by less than this, and so does a bound from its count of edge pixels.
_NEAR = 0.02


@check(
    "native_pixels_told",
    catches=("wrong GSD", "finer than it was measured"),
    limits=("gsd_rel_tolerance",),
    reads=("/inputs", "/evidence/intermediate", "/result/interval"),
    family="geometry",
)
def native_pixels_told(case: Case) -> Finding:
    """Bands that were brought onto a finer grid are told with the size of the pixels that were measured, and an interval from a
    moved outline moves it by half of such a pixel."""
    seen = 0
    for k, ref in enumerate(case.observation.inputs):
        scene = case.scene_of(ref)
        if scene is None or not scene.effective_gsd_m:
            continue
        truths = {b.index: b.native_gsd_m for b in scene.bands}
        for j, band in enumerate(ref.bands):
            truth, told = truths.get(band.index), band.native_gsd_m
            at = (f"/inputs/{k}/bands/{j}/native_gsd_m",)
            if truth is not None and told is None and scene.native_ratio(scene.bands[band.index - 1]) > 1 + _NEAR:
                return inconclusive(
                    f"The record does not say that {band.role} was measured at {truth:.4g} m and repeated on the grid of "
                    f"{scene.effective_gsd_m:.4g} m.",
                    at=at,
                )
            truth = truth if truth is not None else scene.effective_gsd_m
            seen += told is not None
            if told is not None and abs(told / truth - 1) > case.limits.gsd_rel_tolerance:
                return failed(
                    f"The pixels of {band.role} that were measured have another size than the record says.",
                    measured=told,
                    expected=truth,
                    unit="m",
                    at=at,
                )
    if not seen:
        return not_applicable("no band was brought onto another grid")
    return _sum(case) or _outline(case) or passed("The size of the measured pixels is told.", at=("/inputs",))


def _sum(case: Case) -> Finding | None:
    """A failing finding where pixels that were repeated or averaged are added up."""
    params = case.nodes.get(case.output, {}).get("params", {})
    told = [b for r in case.observation.inputs for b in r.bands if b.native_gsd_m is not None and b.role not in _BESIDE]
    if params.get("statistic") != "sum" or not told:
        return None
    return failed(
        f"{told[0].role} was measured in pixels of another size than those that are added up, of which there are more or fewer.",
        measured=case.observation.inputs[0].gsd_m,
        expected=told[0].native_gsd_m,
        unit="m",
        at=("/arguments/nodes", "/inputs"),
    )


def _outline(case: Case) -> Finding | None:
    """A failing finding where an area's or share's interval is narrower than half a measured pixel along its outline."""
    result, ratio = case.observation.result, max((_ratio(case, r) for r in case.observation.inputs), default=1.0)
    counted = _counted(case)
    if result.interval is None or ratio <= 1 + _NEAR or counted is None or not isinstance(result.value, (int, float)):
        return None
    edge, n_true = counted
    least = min(1.0, 0.5 * ratio * edge / n_true) * (1 - _NEAR) * result.value
    if result.value - result.interval[0] >= least:
        return None
    return failed(
        "The interval moves the outline by less than half of a pixel that was measured.",
        measured=result.value - result.interval[0],
        expected=f"≥ {least:.4g}",
        unit=result.unit,
        at=("/result/interval", "/evidence/intermediate"),
    )


def _ratio(case: Case, ref: InputRef) -> float:
    scene = case.scene_of(ref)
    used = {b.index for b in ref.bands}
    bands = [b for b in scene.bands if b.index in used and b.role not in _BESIDE] if scene is not None else []
    return max((scene.native_ratio(b) for b in bands), default=1.0) if scene is not None else 1.0


def _counted(case: Case) -> tuple[float, float] | None:
    """(pixels along the inside of the outline, all pixels) of the figure's mask, where they are on record."""
    nodes = case.evidence("intermediate", "nodes")
    told = next((n for n in nodes if isinstance(n, dict) and "edge_px" in n), {}) if isinstance(nodes, list) else {}
    edge = number_of(told.get("edge_px"))
    n_true = next((float(r.n) for r in case.observation.result.layers if r.kind == "mask" and r.n), None)
    return (edge, n_true) if edge is not None and n_true else None
