"""Consistency: the value follows from the intermediate results, from the named layers, and from the source's own pixels."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy import ndimage
from shapely import STRtree
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.evidence.observation import LayerRef, Observation
from apps.core.geo.grid import Grid, geod_of, transformer, turned_onto
from apps.core.geo.measures import MaskArea, area_of_mask_m2, geodesic_area_m2
from apps.core.geo.raster import CENTRE_NUDGE
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.arithmetic import value_of
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.checks.completeness import series_items
from apps.verification.checks.geometry import grid_offset, told_of
from apps.verification.checks.radiometry import is_reference_ratio, statistic_of
from apps.verification.checks.veils import unveiled
from apps.verification.cuts import zone_name
from apps.verification.ground import (
    grown_by,
    part_of,
)
from apps.verification.look import (
    OPS,
    CannotLookError,
    Estimate,
    Look,
    Plane,
    estimate,
    look_of,
    look_windows,
    same_grid,
    scene_of_node,
    statistic_function,
    step_of,
)
from apps.verification.pixel_areas import areas_of, weights_due
from apps.verification.ribbons import STEP_ERROR, moran, ribbons_of, tangents_of
from apps.verification.units import dimension, factor, split_rate, to_si


# --- numbers on record ------------------------------------------------------------------------------------------------------
@check(
    "numerator_within_denominator",
    catches=("wrong denominator",),
    reads=("/evidence/intermediate/numerator", "/evidence/intermediate/denominator"),
)
def numerator_within_denominator(case: Case) -> Finding:
    """Of a share, the part is not larger than the whole, and the whole is not empty."""
    part, whole = case.evidence_number("intermediate", "numerator"), case.evidence_number("intermediate", "denominator")
    if case.kind != "ratio":
        return not_applicable("no share")
    at = ("/evidence/intermediate/numerator", "/evidence/intermediate/denominator")
    if part is None or whole is None:
        return inconclusive(
            "A share needs its numerator and denominator on record.",
            at=tuple(p for p, v in zip(at, (part, whole), strict=True) if v is None),
        )
    if whole <= 0:
        return failed("The whole is empty; there is no share of it.", measured=whole, expected="> 0", at=at[1:])
    if part < 0 or (part > whole * (1 + 1e-9) and not is_reference_ratio(case)):
        return failed("The part is larger than the whole.", measured=part, expected=f"≤ {whole:g}", at=at)
    return passed("The part lies in the whole.", measured=part, expected=f"≤ {whole:g}", at=at)


@check(
    "ratio_recomputes",
    catches=("wrong denominator", "percent as fraction", "rounded to zero"),
    limits=("rel_tolerance",),
    reads=("/result/value", "/evidence/intermediate"),
)
def ratio_recomputes(case: Case) -> Finding:
    """The share is numerator over denominator, in its own unit."""
    part, whole = case.evidence_number("intermediate", "numerator"), case.evidence_number("intermediate", "denominator")
    if case.kind != "ratio" or case.value is None or part is None or not whole:
        return not_applicable("no share with both of its parts")
    scale = factor(case.observation.result.unit) or 1.0
    mine = part / whole / scale
    at = ("/result/value", "/evidence/intermediate/numerator", "/evidence/intermediate/denominator")
    if not case.is_same(mine, case.value):
        return failed(
            "The share is not numerator over denominator.",
            measured=case.value,
            expected=mine,
            unit=case.observation.result.unit,
            at=at,
        )
    return passed("The share is numerator over denominator.", measured=case.value, expected=mine, at=at)


@check(
    "denominator_is_the_whole",
    catches=("wrong denominator", "fill counted as data"),
    limits=("rel_tolerance", "valid_px_tolerance"),
    reads=("/evidence/intermediate/denominator",),
)
def denominator_is_the_whole(case: Case) -> Finding:
    """The denominator is the valid pixels of what was asked (scene or region), neither all pixels nor another scene's."""
    if case.kind != "ratio":
        return not_applicable("no share")
    whole = case.evidence_number("intermediate", "denominator")
    spec = case.arguments.get("spec")
    named = spec.get("denominator", "") if isinstance(spec, dict) else "valid"
    ref = _measured_mask(case)
    if whole is None or ref is None or named not in ("", "valid"):
        return not_applicable("no mask at hand, or another denominator was asked")
    try:
        _, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    n = int(valid.sum())
    inside, room = _inside(case, ref), 5e-3
    is_thinned = inside is not None and inside.shape != valid.shape
    if inside is not None and is_thinned:
        # a region on so many pixels is looked at on every 2nd, 3rd, … row and column
        step = step_of(case, (0, 0, valid.shape[1], valid.shape[0]))
        seen = int((valid[::step, ::step] & inside).sum())
        n, room = seen * step * step, max(room, 9 / math.sqrt(max(seen, 1)))
    elif inside is not None:
        n = int((valid & inside).sum())
    area = number_of(n)
    candidates = [float(n)]
    if ref.grid is not None and not is_thinned:
        inner = valid if inside is None else valid & inside
        try:
            m2 = area_of_mask_m2(inner, ref.grid, _gsd_of(case, ref)).area_m2
            candidates += [m2, m2 / 1e4, m2 / 1e6]
        except ValueError:
            pass
    if all(not case.is_same(whole, c, room) for c in candidates) and area is not None:
        return failed(
            "The denominator is not the valid pixels of what was asked.",
            measured=whole,
            expected=n,
            unit="px",
            at=("/evidence/intermediate/denominator",),
        )
    return passed(
        "The denominator is the valid pixels.", measured=whole, expected=n, unit="px", at=("/evidence/intermediate/denominator",)
    )


@check(
    "count_equals_kept",
    catches=("merged or duplicated detections", "stale artifact"),
    reads=("/result/value", "/result/layers", "/evidence/intermediate/kept"),
)
def count_equals_kept(case: Case) -> Finding:
    """The count, the number of kept boxes on record, and the boxes in the layer are one number."""
    figures: dict[str, float] = {}
    kept = case.evidence_number("intermediate", "kept")
    if case.kind == "count" and case.value is not None:
        figures["/result/value"] = case.value
    refs = [r for r in case.observation.result.layers if r.kind in ("boxes", "polygons") and not r.is_aside]
    if case.observation.tool == "perceive" and kept is not None and case.arguments.get("mode", "objects") == "objects":
        figures["/evidence/intermediate/kept"] = kept
    if case.observation.tool == "measure" and case.kind == "count" and not _limits_the_count(case):
        refs = [r for r in [_source_layer(case, ("boxes", "polygons", "points"))] if r is not None]
        numerator = case.evidence_number("intermediate", "numerator")
        if numerator is not None:
            figures["/evidence/intermediate/numerator"] = numerator
    if refs and all(r.n is not None for r in refs):
        figures["/result/layers/n"] = float(sum(r.n or 0 for r in refs))
    try:
        if refs:
            figures["/result/layers"] = float(sum(len(case.features(r)) for r in refs))
    except LayerUnreadableError:
        figures.pop("/result/layers", None)
    if len(figures) < 2:
        return not_applicable("no count to compare")
    if len(set(figures.values())) > 1:
        return failed(
            "The count differs between value, record and layer.", measured=figures, expected="one number", at=tuple(figures)
        )
    return passed(
        "Value, record and layer give one count.",
        measured=next(iter(figures.values())),
        at=tuple(figures),
        scores={"layer_counted": 1.0} if "/result/layers" in figures else {},
    )


def _limits_the_count(case: Case) -> bool:
    spec = case.arguments.get("spec")
    return case.arguments.get("region") is not None or (
        isinstance(spec, dict) and any(bool(spec.get(k)) for k in ("relation", "reference", "distance_m", "where"))
    )


@check("kept_within_candidates", catches=("merged or duplicated detections",), reads=("/evidence/intermediate",))
def kept_within_candidates(case: Case) -> Finding:
    """No more detections were kept than there were candidates."""
    kept, candidates = case.evidence_number("intermediate", "kept"), case.evidence_number("intermediate", "candidates")
    if kept is None or candidates is None:
        return not_applicable("no candidates")
    at = ("/evidence/intermediate/kept", "/evidence/intermediate/candidates")
    if kept > candidates or kept < 0:
        return failed("More was kept than there was.", measured=kept, expected=f"≤ {candidates:g}", at=at)
    return passed("Kept are candidates.", measured=kept, expected=f"≤ {candidates:g}", at=at)


@check("interval_holds_value", catches=("wrong unit",), reads=("/result/interval", "/result/value"))
def interval_holds_value(case: Case) -> Finding:
    """The interval is ordered and holds the value."""
    interval = case.observation.result.interval
    if interval is None or case.value is None:
        return not_applicable("no interval")
    low, high = interval
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    if low > high or not low - slack <= case.value <= high + slack:
        return failed(
            "The interval does not hold the value; they may be in different units.",
            measured=case.value,
            expected=[low, high],
            unit=case.observation.result.unit,
            severity="warn" if case.kind == "count" else None,
            at=("/result/interval", "/result/value"),
        )
    return passed("The interval holds the value.", measured=case.value, expected=[low, high], at=("/result/interval",))


def is_one_figure(one: float, other: float) -> bool:
    """Whether two numbers are one, but for rounding to the digits that either of them shows."""
    if abs(one - other) <= 1e-6 * max(abs(one), abs(other)):
        return True
    shown = [-int(Decimal(repr(float(v))).as_tuple().exponent) for v in (one, other)]
    return any(abs(one - other) <= 0.5000001 * 10.0**-digits for digits in shown)


@check(
    "nodes_agree_with_result",
    catches=("stale artifact", "rounded to zero"),
    limits=("rel_tolerance",),
    reads=("/evidence/intermediate/nodes", "/result/value"),
)
def nodes_agree_with_result(case: Case) -> Finding:
    """The output node's own value is the result's."""
    if case.value is None or not case.output:
        return not_applicable("no output node")
    held = case.evidence("intermediate", "nodes")
    entry: Any = (
        held.get(case.output)
        if isinstance(held, dict)
        else next((n for n in held if isinstance(n, dict) and n.get("id") == case.output), None)
        if isinstance(held, list)
        else None
    )
    node_value = number_of(entry.get("value")) if isinstance(entry, dict) else None
    unit = entry.get("unit") if isinstance(entry, dict) else None
    if node_value is None:
        return not_applicable("the node's value is not on record")
    if (
        isinstance(unit, str)
        and unit != case.observation.result.unit
        and dimension(unit) == dimension(case.observation.result.unit)
    ):
        a, b = to_si(node_value, unit), to_si(case.value, case.observation.result.unit)
        same = a is not None and b is not None and case.is_same(a, b)
    else:
        same = case.is_same(node_value, case.value) and is_one_figure(node_value, case.value)
    at = ("/result/value", "/evidence/intermediate/nodes")
    if not same:
        return failed("The result is not what its last node gave.", measured=case.value, expected=node_value, at=at)
    return passed("The result is what its last node gave.", measured=case.value, expected=node_value, at=at)


# --- layers -----------------------------------------------------------------------------------------------------------------
def _source_layer(case: Case, kinds: tuple[str, ...]) -> LayerRef | None:
    """The parents' layer that a measure reads, where it reads exactly one."""
    sources = case.arguments.get("sources")
    wanted = []
    for source in sources if isinstance(sources, list) else ():
        layer = source.get("layer") if isinstance(source, dict) else None
        if isinstance(layer, dict) and isinstance(layer.get("observation"), str):
            wanted.append((layer["observation"], str(layer.get("label") or "")))
    if len(wanted) != 1:
        return None
    parent: Observation | None = next((p for p in case.parents if p.id == wanted[0][0]), None)
    if parent is None:
        return None
    refs = [
        r
        for r in parent.result.layers
        if r.kind in kinds and not r.is_aside and (not wanted[0][1] or r.label == wanted[0][1])
    ]
    return refs[0] if len(refs) == 1 or (refs and not wanted[0][1]) else None


def _measured_mask(case: Case, *, of_any_size: bool = False) -> LayerRef | None:
    """The mask that a value is made from: the parents' for measure, its own for the others; a small one unless
    ``of_any_size``."""
    ref = _source_layer(case, ("mask",)) if case.observation.tool == "measure" else case.layer("mask")
    return ref if ref is not None and (of_any_size or case.is_small(ref)) else None


def _strips(case: Case, ref: LayerRef) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_], Grid]]:
    """(true, valid, grid) of a mask strip by strip, both inside the region of the call. Raises LayerUnreadableError."""
    grid = ref.grid
    assert grid is not None
    for top, mask, valid in case.mask_strips(ref):
        inside = _inside(case, ref, (0, top, mask.shape[1], mask.shape[0]))
        if inside is not None and inside.shape == valid.shape:
            valid = valid & inside
        yield mask & valid, valid, grid if mask.shape == grid.shape else grid.window(0, top, mask.shape[1], mask.shape[0])


def _inside(case: Case, ref: LayerRef, window: tuple[int, int, int, int] | None = None) -> NDArray[np.bool_] | None:
    """The region of the call itself on a layer's grid, or in a window of it."""
    if not case.is_limited or ref.grid is None:
        return None
    grid = ref.grid
    try:
        return Look(case).region(grid, window or (0, 0, grid.width, grid.height))
    except CannotLookError:
        return None


THINNED = "the layer may hold every 2nd, 4th, … pixel alone; layer_agrees_with_figures looks at it as at a sample"
# layers of fewer pixels hold all of them
_ALWAYS_WHOLE_PX = 240_000


def _may_be_thinned(case: Case, ref: LayerRef) -> bool:
    """True for a large layer of a graph that is on none of the scenes' grids: of large rasters a part of the pixels is kept."""
    grid = ref.grid
    if grid is None or not case.nodes or grid.width * grid.height < _ALWAYS_WHOLE_PX:
        return False
    return not any(same_grid(grid, s.grid) for s in case.used_scenes)


def _gsd_of(case: Case, ref: LayerRef) -> float | None:
    sources = case.arguments.get("sources")
    for source in sources if isinstance(sources, list) else ():
        given = number_of(source.get("gsd_m")) if isinstance(source, dict) else None
        if given is not None:
            return given
    scene = case.scenes.get(ref.source_scene_id or "")
    if scene is None and len(case.scenes) == 1:
        scene = next(iter(case.scenes.values()))
    return scene.gsd_m if scene else None


def _has_relation(case: Case) -> bool:
    spec = case.arguments.get("spec")
    told = ("relation", "reference", "distance_m", "where", "statistic")
    return isinstance(spec, dict) and any(bool(spec.get(k)) for k in told)


@check(
    "area_recomputes",
    catches=("degrees as metres", "wrong GSD", "wrong unit", "stale artifact", "rounded to zero"),
    limits=("area_rel_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/layers"),
)
def area_recomputes(case: Case) -> Finding:
    """The area computed here from the named mask and its grid, on the ellipsoid or an equal-area grid, is the value."""
    if case.kind != "area" or case.value is None or _has_relation(case):
        return not_applicable("no plain area")
    ref = _measured_mask(case, of_any_size=True)
    mine = to_si(case.value, case.observation.result.unit)
    if ref is None or ref.grid is None or mine is None:
        return _area_of_polygons(case, mine)
    if dimension(case.observation.result.unit) == "pixel":
        return not_applicable("an area in pixels")
    parts: list[MaskArea] = []
    try:
        for keep, _, grid in _strips(case, ref):
            parts.append(area_of_mask_m2(keep, grid, _gsd_of(case, ref)))
    except LayerUnreadableError as error:
        return inconclusive(f"The mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    except ValueError as error:
        return inconclusive(f"The area cannot be recomputed: {error}.", at=("/inputs/0/gsd_m",), severity="warn")
    truth, n_px, how = sum(p.area_m2 for p in parts), sum(p.n_px for p in parts), parts[0].method
    if not case.is_same(truth, mine, case.limits.area_rel_tolerance):
        return failed(
            f"The mask's {n_px} pixels make another area ({how}).",
            measured=mine,
            expected=truth,
            unit="m2",
            at=("/result/value", "/result/unit", "/result/layers"),
        )
    return passed(
        f"The mask's {n_px} pixels make this area ({how}).",
        measured=mine,
        expected=truth,
        unit="m2",
        at=("/result/value", "/result/layers"),
    )


def _area_of_polygons(case: Case, mine: float | None) -> Finding:
    ref = _source_layer(case, ("polygons",))
    if ref is None or mine is None or ref.crs == "image":
        return not_applicable("no mask and no polygons to measure again")
    try:
        truth = sum(geodesic_area_m2(shape(f["geometry"]), ref.crs) for f in case.features(ref))
    except Exception:  # polygons that cannot be measured are another check's finding
        return not_applicable("the polygons cannot be measured")
    if not case.is_same(truth, mine, 5e-3):
        return failed("The polygons make another area.", measured=mine, expected=truth, unit="m2", at=("/result/value",))
    return passed("The polygons make this area.", measured=mine, expected=truth, unit="m2", at=("/result/value",))


@check(
    "share_recomputes",
    catches=("wrong denominator", "percent as fraction", "stale artifact"),
    limits=("rel_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/layers"),
)
def share_recomputes(case: Case) -> Finding:
    """The share of True among valid pixels of the named mask is the value: by area where pixels differ in it by over 1 %."""
    spec = case.arguments.get("spec")
    named = spec.get("denominator", "") if isinstance(spec, dict) else "valid"
    ref = _measured_mask(case, of_any_size=True)
    is_density = isinstance(spec, dict) and spec.get("metric") == "density"
    if is_density or case.kind != "ratio" or case.value is None or ref is None:
        return not_applicable("no share of a mask")
    if named not in ("", "valid") or _has_relation(case):
        return not_applicable("another denominator was asked")
    if ref.grid is None:
        return not_applicable("the mask has no grid")
    try:
        weights, wrong = _weights(case, ref.grid)
    except CannotLookError as why:
        return not_applicable(str(why))
    if wrong is not None:
        return wrong
    n_whole = 0
    true = all_of_it = 0.0
    try:
        for keep, whole, grid in _strips(case, ref):
            n_whole += int(np.count_nonzero(whole))
            areas = areas_of(grid) if weights == "area" else np.broadcast_to(1.0, whole.shape)
            true, all_of_it = true + float(areas[keep].sum()), all_of_it + float(areas[whole].sum())
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    if not n_whole:
        return failed("The mask has no valid pixel.", measured=0, expected="> 0", unit="px", at=("/result/layers",))
    mine = true / all_of_it
    value = case.value * (factor(case.observation.result.unit) or 1.0)
    # shares by area on a geographic grid differ a little from shares by pixels
    if not case.is_same(mine, value, 5e-3):
        return failed(
            "The mask has another share of True pixels.", measured=value, expected=mine, at=("/result/value", "/result/layers")
        )
    return passed(
        "The mask has this share of True pixels.", measured=value, expected=mine, at=("/result/value", "/result/layers")
    )


@check(
    "mask_count_on_record",
    catches=("stale artifact", "leaked or shifted mask"),
    limits=("max_layer_px",),
    reads=("/result/layers", "/evidence/intermediate/mask_px"),
)
def mask_count_on_record(case: Case) -> Finding:
    """The mask holds as many True pixels as its reference and the evidence say."""
    ref = case.layer("mask")
    if ref is None:
        return not_applicable("no mask")
    try:
        n = sum(int(np.count_nonzero(mask & valid)) for _, mask, valid in case.mask_strips(ref))
    except LayerUnreadableError as error:
        return inconclusive(f"The mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    told = {"/result/layers/n": ref.n, "/evidence/intermediate/mask_px": case.evidence_number("intermediate", "mask_px")}
    if case.observation.tool == "perceive":
        told["/evidence/intermediate/n_px"] = case.evidence_number("intermediate", "n_px")
    wrong = {k: v for k, v in told.items() if v is not None and int(v) != n}
    if wrong:
        return failed(
            "The mask holds another number of True pixels than is on record.",
            measured=n,
            expected=next(iter(wrong.values())),
            unit="px",
            at=tuple(wrong),
        )
    return passed("The mask holds as many pixels as is on record.", measured=n, unit="px", at=("/result/layers",))


def _weights(case: Case, grid: Grid, node_id: str = "") -> tuple[str, Finding | None]:
    """(``area`` or ``pixels``, what is wrong): how pixels of the grid have to count in the mean or share of a node, by what was
    asked and by how much they differ in area inside the region; and whether the record says so. Of a measure by areas where they
    are known. Raises CannotLookError."""
    node_id = node_id or case.output
    node = case.nodes.get(node_id)
    if node is None or not node["op"].startswith("raster.summarize."):
        is_measure = case.observation.tool == "measure" and grid.crs is not None
        return (weights_due(grid, Look(case).spanned(grid), "auto", "") if is_measure else "pixels"), None
    statistic = "share" if node["op"] == "raster.summarize.share" else str(node["params"].get("statistic") or "mean")
    told, at = _told_weights(case, node_id)
    due = Look(case).weights(grid, statistic, str(node["params"].get("weights") or "auto"), told)
    return due, _wrong_weights(told, due, at)


def _told_weights(case: Case, node_id: str) -> tuple[str, str]:
    """(how pixels count by the record of a node, where it says so); '' where it does not."""
    held = case.evidence("intermediate", "nodes")
    for k, told in enumerate(held if isinstance(held, list) else ()):
        if isinstance(told, dict) and told.get("id") == node_id:
            return str(told.get("weights") or ""), f"/evidence/intermediate/nodes/{k}/weights"
    return "", "/evidence/intermediate/nodes"


def _wrong_weights(told: str, due: str, at: str) -> Finding | None:
    if told in ("", due):
        return None
    return failed(
        "Pixels differ in area here, and the figure is told to count each alike."
        if due == "area"
        else "The figure is told to be by area, and each pixel had to count alike.",
        measured=told,
        expected=due,
        at=(at,),
    )


def _statistic(values: NDArray[Any], name: str) -> float | None:
    how = statistic_function(name)
    return float(how(values)) if how is not None and values.size else None


@check(
    "statistic_recomputes",
    catches=("fill counted as data", "wrong statistic", "stale artifact", "NaN"),
    limits=("rel_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/layers"),
)
def statistic_recomputes(case: Case) -> Finding:
    """The statistic of the named raster's valid pixels is the value, over as many pixels as are on record; a mean by area
    where pixels differ in it by over 1 %."""
    ref = case.layer("raster")
    statistic = statistic_of(case)
    if case.kind != "statistic" or case.value is None or ref is None or not statistic or not case.is_small(ref):
        return not_applicable("no statistic of one raster")
    if sum(r.kind == "raster" for r in case.observation.result.layers) > 1:
        return not_applicable("several rasters")
    told = case.evidence("intermediate", "nodes")
    made_of = case.nodes[case.output]["inputs"] if case.output else []
    entries = [n for n in (told if isinstance(told, list) else ()) if isinstance(n, dict)]
    if any(n.get("id") in made_of and n.get("kind") == "mask" for n in entries):
        return not_applicable("the statistic is of a mask, the raster is what the mask was cut from")
    if _may_be_thinned(case, ref):
        return not_applicable(THINNED)
    try:
        raster = case.raster(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The raster cannot be read: {error}.", at=("/result/layers",), severity="warn")
    keep = raster.valid[0]
    inside = _inside(case, ref)
    whole = inside is None or inside.shape != keep.shape
    try:
        weights, wrong = _weights(case, ref.grid) if ref.grid is not None and statistic == "mean" else ("pixels", None)
    except CannotLookError as why:
        return not_applicable(str(why))
    if wrong is not None:
        return wrong
    seen = keep if whole or inside is None else keep & inside
    if whole and len(raster.data) == 1:
        values = case.valid_values(ref).astype(np.float64)
    else:
        values = raster.data[0][seen].astype(np.float64)
    truth = _statistic(values, statistic)
    if weights == "area" and ref.grid is not None and values.size:
        truth = float(np.average(raster.data[0][seen].astype(np.float64), weights=areas_of(ref.grid)[seen]))
    if truth is None:
        return not_applicable("a statistic that is not recomputed here")
    slack = max(
        case.limits.rel_tolerance * abs(truth), 1e-5 * float(np.ptp(values)) if values.size else 0.0, case.limits.abs_tolerance
    )
    at = ("/result/value", "/result/layers")
    if statistic in ("std", "variance", "cv") and values.size > 1:  # either convention of the degrees of freedom
        slack = max(slack, abs(float(np.std(values, ddof=1)) - truth) * 1.01)
    if abs(truth - case.value) > slack:
        return failed(
            f"The raster's {values.size} valid pixels have another {statistic}.",
            measured=case.value,
            expected=truth,
            unit=case.observation.result.unit,
            at=at,
        )
    return passed(
        f"The raster's {values.size} valid pixels have this {statistic}.",
        measured=case.value,
        expected=truth,
        unit=case.observation.result.unit,
        at=at,
    )


@check(
    "valid_count_recomputes",
    catches=("fill counted as data", "clipped region", "dropped tile"),
    limits=("valid_px_tolerance",),
    reads=("/evidence/intermediate/valid_px", "/result/layers"),
)
def valid_count_recomputes(case: Case) -> Finding:
    """The named layer has as many valid pixels as the evidence says."""
    told = case.evidence_number("intermediate", "valid_px")
    rasters = [r for r in case.observation.result.layers if r.kind == "mask"][:1] or [
        r for r in case.observation.result.layers if r.kind == "raster"
    ]
    if told is None or len(rasters) != 1 or not case.is_small(rasters[0]) or case.observation.tool == "measure":
        return not_applicable("no single raster layer with a valid count")
    if case.nodes.get(case.output, {}).get("op") == "raster.summarize.zonal":
        return not_applicable("the count is that of the zones' pixels, which are looked at in the source")
    ref = rasters[0]
    if _may_be_thinned(case, ref):
        return not_applicable(THINNED)
    try:
        valid = case.raster(ref).valid[0] if ref.kind == "raster" else case.mask(ref)[1]
    except LayerUnreadableError:
        return not_applicable("the layer cannot be read")
    inside = _inside(case, ref)
    seen = [valid] if inside is None or inside.shape != valid.shape else [valid, valid & inside]
    counts = {int(v.sum()) for v in seen}
    node = case.nodes.get(case.output)
    if node is not None and node["op"] == "raster.summarize.moran":
        # pixels without a neighbour take no part
        counts = {int((v & _has_neighbour(v, str(node["params"].get("neighbours") or "queen"))).sum()) for v in seen}
    slack = case.limits.valid_px_tolerance * valid.size
    if all(abs(told - c) > slack for c in counts):
        return failed(
            "The layer has another number of valid pixels than is on record.",
            measured=told,
            expected=sorted(counts),
            unit="px",
            at=("/evidence/intermediate/valid_px", "/result/layers"),
        )
    return passed(
        "The layer has as many valid pixels as is on record.", measured=told, unit="px", at=("/evidence/intermediate/valid_px",)
    )


def _has_neighbour(valid: NDArray[np.bool_], which: str) -> NDArray[np.bool_]:
    """Where one of the 8 pixels about a pixel is valid; of the 4 beside it for ``rook``."""
    around = np.pad(valid, 1).astype(np.uint8)
    rows, columns = valid.shape
    steps = [(i, j) for i in (0, 1, 2) for j in (0, 1, 2) if (i, j) != (1, 1) and (which != "rook" or 1 in (i, j))]
    return np.asarray(np.any([around[i : i + rows, j : j + columns] for i, j in steps], axis=0))


@check(
    "boolean_follows", catches=("empty layer called zero", "wrong threshold"), reads=("/result/value", "/evidence/intermediate")
)
def boolean_follows(case: Case) -> Finding:
    """Yes or no follows from the figure on record and the comparison asked."""
    if case.kind != "boolean" or not isinstance(case.observation.result.value, bool):
        return not_applicable("no boolean")
    spec = case.arguments.get("spec")
    figure = case.evidence_number("intermediate", "numerator")
    comparison = spec.get("comparison") if isinstance(spec, dict) else None
    if figure is None:
        return not_applicable("no figure on record")
    if isinstance(comparison, dict) and comparison.get("op") in OPS and number_of(comparison.get("value")) is not None:
        wanted = to_si(float(comparison["value"]), str(comparison.get("unit", "1")))
        truth = bool(OPS[str(comparison["op"])](figure, wanted if wanted is not None else comparison["value"]))
        told = case.evidence_number("intermediate", "compared")
        if told is not None:
            truth_told = bool(OPS[str(comparison["op"])](told, number_of(comparison["value"])))
            truth = truth if truth == case.observation.result.value else truth_told
    elif isinstance(spec, dict) and not spec.get("relation") and not spec.get("where"):
        truth = figure > 0
    else:
        return not_applicable("a spatial relation")
    at = ("/result/value", "/evidence/intermediate/numerator")
    if truth != case.observation.result.value:
        return failed(
            "The answer does not follow from the figure on record.", measured=case.observation.result.value, expected=truth, at=at
        )
    return passed("The answer follows from the figure on record.", measured=case.observation.result.value, at=at)


@check(
    "pieces_recount",
    catches=("merged or duplicated detections", "stale artifact"),
    limits=("max_layer_px",),
    reads=("/result/value",),
)
def pieces_recount(case: Case) -> Finding:
    """A count over a mask is the number of its pieces, whichever way corners are joined."""
    ref = _measured_mask(case)
    if case.kind != "count" or case.observation.tool != "measure" or case.value is None or ref is None or _limits_the_count(case):
        return not_applicable("no count of a mask's pieces")
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    inside = _inside(case, ref)
    keep = mask & valid if inside is None or inside.shape != mask.shape else mask & valid & inside
    by_corner, by_side = pieces(keep, corners=True), pieces(keep, corners=False)
    if not by_corner <= case.value <= by_side:
        return failed(
            "The mask has another number of pieces.", measured=case.value, expected=[by_corner, by_side], at=("/result/value",)
        )
    return passed("The mask has so many pieces.", measured=case.value, expected=[by_corner, by_side], at=("/result/value",))


def pieces(mask: NDArray[np.bool_], *, corners: bool) -> int:
    """Connected pieces of a mask (union of runs, row by row); ``corners``: pixels that touch at a corner belong together."""
    padded = np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)
    parents: list[int] = []

    def root(a: int) -> int:
        while parents[a] != a:
            parents[a] = parents[parents[a]]
            a = parents[a]
        return a

    above: list[tuple[int, int, int]] = []
    reach = 1 if corners else 0
    for row in padded:
        edges = np.flatnonzero(np.diff(row))
        runs = []
        k = 0
        for start, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            name = len(parents)
            parents.append(name)
            while k < len(above) and above[k][1] + reach <= start:
                k += 1
            at = k
            while at < len(above) and above[at][0] < stop + reach:
                a, b = root(name), root(above[at][2])
                parents[max(a, b)] = min(a, b)
                at += 1
            runs.append((start, stop, name))
        above = runs
    return sum(parents[i] == i for i in range(len(parents)))


@check(
    "length_recomputes",
    catches=("degrees as metres", "wrong GSD", "wrong unit", "stale artifact"),
    limits=("length_rel_tolerance", "length_far", "gsd_rel_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/unit", "/parents", "/evidence/intermediate/length_px"),
)
def length_recomputes(case: Case) -> Finding:
    """The length of a mask follows from area and outline of its pieces as well, and they are longer than wide. What is a little
    off is warned of (rough edges); what is twice or half blocks. Where the length in pixels is on record, the metres of a pixel
    are those of a step along the mask's outline, with its own direction and place on the ellipsoid."""
    ref = _source_layer(case, ("mask",))
    if case.kind != "length" or case.observation.tool != "measure" or case.value is None or _has_relation(case) or ref is None:
        return not_applicable("no plain length of a mask")
    mine = to_si(case.value, case.observation.result.unit) if dimension(case.observation.result.unit) == "length" else None
    if ref.grid is None or not case.is_small(ref) or mine is None:
        return not_applicable("a mask or unit that is not followed")
    size = _pixel_m(ref.grid, _gsd_of(case, ref))
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    if size is None:
        return not_applicable("the size of its pixels is not known")
    inside = _inside(case, ref)
    held = mask & valid if inside is None or inside.shape != mask.shape else mask & valid & inside
    truth = ribbons_of(held, *size)
    at, near = ("/result/value", "/result/unit", "/parents"), f"± {case.limits.length_rel_tolerance:.0%}"
    if truth.n == 0:
        if mine == 0:
            return passed("The mask is empty, and so is its length.", measured=0.0, unit="m", at=at)
        return failed(
            "The mask is empty but has a length; measure the mask that was found.", measured=mine, expected=0.0, unit="m", at=at
        )
    if truth.long_share < 0.5:
        return failed(
            f"Most of the mask's {truth.n} pieces are nearly as wide as long, so that their length means little; "
            "measure their area, or choose the long pieces first.",
            measured=truth.long_share,
            expected="≥ 0.5 in pieces longer than wide",
            at=at,
            severity="warn",
        )
    length_px = case.evidence_number("intermediate", "length_px")
    if length_px is not None and length_px > 0 and truth.long_share > 0.9:
        step = _step_along_m(held, ref.grid, _gsd_of(case, ref))
        near_step = case.limits.gsd_rel_tolerance + STEP_ERROR * abs(math.log(max(size) / min(size)))
        if abs(mine / length_px - step) > near_step * step:
            return failed(
                "The metres of a pixel are not those along the mask; pixels are not as wide as high, or of another size.",
                measured=mine / length_px,
                expected=step,
                unit="m",
                at=(*at, "/evidence/intermediate/length_px"),
            )
    if mine > 0 and abs(mine - truth.length_m) <= case.limits.length_rel_tolerance * truth.length_m:
        return passed(
            f"Area and outline of the mask's {truth.n} pieces make this length, {near}.",
            measured=mine,
            expected=truth.length_m,
            unit="m",
            at=at,
        )
    is_far = mine <= 0 or max(mine / truth.length_m, truth.length_m / mine) >= case.limits.length_far
    return failed(
        "Area and outline of the mask's pieces make another length; check the unit, the size of a pixel and the mask.",
        measured=mine,
        expected=truth.length_m,
        unit="m",
        at=at,
        severity=None if is_far else "warn",
    )


def _shares_by_area(case: Case, ref: LayerRef) -> dict[int, float] | None:
    """Share of each class of a class map by area; None where its pixels count alike. Raises CannotLookError."""
    assert ref.grid is not None
    told, _ = _told_weights(case, case.output)
    if Look(case).weights(ref.grid, "share", "auto", told) != "area":
        return None
    raster = case.raster(ref)
    seen, inside = raster.valid[0], _inside(case, ref)
    if inside is not None and inside.shape == seen.shape:
        seen = seen & inside
    values, areas = raster.data[0][seen].astype(np.int64), areas_of(ref.grid)[seen]
    whole = float(areas.sum())
    return {int(k): float(areas[values == k].sum()) / whole for k in np.unique(values)}


@check(
    "classes_recount",
    catches=("stale artifact", "fill counted as data", "wrong unit", "parts do not sum"),
    limits=("area_rel_tolerance", "max_layer_px"),
    reads=("/result/items", "/result/layers"),
)
def classes_recount(case: Case) -> Finding:
    """Each class of a table of classes has the pixels that the class map has of it, counted again; its share and area follow."""
    if case.nodes.get(case.output, {}).get("op") != "raster.summarize.class_areas":
        return not_applicable("no table of classes")
    ref = next((r for r in case.observation.result.layers if r.grid is not None and r.kind in ("classes", "raster")), None)
    if ref is None or ref.grid is None or not case.is_small(ref):
        return not_applicable("no class map that can be counted")
    if _may_be_thinned(case, ref):
        return not_applicable(THINNED)
    try:
        values = case.valid_values(ref)
    except LayerUnreadableError as error:
        return not_applicable(str(error))
    classes, counts = np.unique(values.astype(np.int64), return_counts=True)
    truth = dict(zip(classes.tolist(), counts.tolist(), strict=True))
    total, at = int(counts.sum()), ("/result/items", "/result/layers")
    items = [i for i in case.observation.result.items if number_of(i.get("class")) is not None]
    told = {int(number_of(i["class"]) or 0): i for i in items}
    if set(told) != set(truth):
        return failed("The table has other classes than the map.", measured=sorted(told), expected=sorted(truth), at=at)
    try:
        by_area = _shares_by_area(case, ref)
    except CannotLookError as why:
        return not_applicable(str(why))
    pixel_m2 = ref.grid.grid_pixel_area_m2 if ref.grid.area_method == "grid" else None
    scale = factor(case.observation.result.unit) if pixel_m2 is not None else None
    for k, item in told.items():
        if number_of(item.get("n_px")) != truth[k]:
            n_told = item.get("n_px")
            return failed(f"Class {k} has other pixels on the map.", measured=n_told, expected=truth[k], unit="px", at=at)
        share, area = number_of(item.get("share")), number_of(item.get("area"))
        part = truth[k] / total if by_area is None else by_area[k]
        # geodesic areas here and there differ in the sixth digit
        if share is not None and not case.is_same(share, part, None if by_area is None else case.limits.area_rel_tolerance):
            return failed(f"The share of class {k} is not that of its pixels.", measured=share, expected=part, at=at)
        if area is None or scale is None or pixel_m2 is None:
            continue
        if not case.is_same(area * scale, truth[k] * pixel_m2, case.limits.area_rel_tolerance):
            return failed(
                f"The area of class {k} is not that of its pixels.",
                measured=area,
                expected=truth[k] * pixel_m2 / scale,
                unit=case.observation.result.unit,
                at=at,
            )
    return passed("Pixels, shares and areas of the classes are those of the map.", measured=len(told), expected=len(truth), at=at)


@check(
    "bands_match_source",
    catches=("fill counted as data", "scale or offset twice or never", "another scene's result", "clipped region"),
    limits=("dense_look_px", "full_look_px", "sample_sigmas", "sample_floor"),
    reads=("/result/items", "/inputs"),
)
def bands_match_source(case: Case) -> Finding:
    """The mean and deviation told of each band are those of the source's pixels, by code of the verifier's own."""
    if case.observation.tool != "perceive" or case.arguments.get("mode") != "evidence" or len(case.used_scenes) != 1:
        return not_applicable("no table of bands")
    scene = case.used_scenes[0]
    at = ("/result/items", "/inputs")
    seen = 0
    try:
        look = look_of(case)
        for item in case.observation.result.items[:MOST_BANDS]:
            band = number_of(item.get("band"))
            if band is None or not number_of(item.get("n_valid")):
                continue
            index = int(band)
            values, step = look.gather(lambda window, index=index: look.pixels(scene, (index,), window), scene.grid)  # type: ignore[misc]
            for name in ("mean", "std"):
                mine = number_of(item.get(name))
                if mine is None:
                    return inconclusive(f"The {name} of band {index} is not on record.", at=at)
                truth = estimate(values, name, step)
                if not _compare(case, mine, truth, name):
                    return failed(
                        f"The source's pixels of band {index} have another {name}.",
                        measured=mine,
                        expected=truth.value,
                        unit=str(item.get("unit") or "1"),
                        at=at,
                        scores={"look_agreement": _closeness(mine, truth)},
                    )
            seen += 1
    except CannotLookError as why:
        return not_applicable(str(why))
    if not seen:
        return not_applicable("no band with valid pixels")
    return passed(f"{seen} bands have these means and deviations.", measured=seen, at=at, scores={"look_agreement": 1.0})


@check(
    "shift_matches_source",
    catches=("wrong sign", "stale artifact", "another scene's result"),
    limits=("full_look_px",),
    reads=("/evidence/intermediate/nodes", "/inputs"),
)
def shift_matches_source(case: Case) -> Finding:
    """The shift that co-registration tells is the one at which the edges of the two sources fit best, found again in whole pixels
    by the correlation of all of them."""
    found = told_of(case, "raster.product.coregister")
    node = next((n for n in case.nodes.values() if n["op"] == "raster.product.coregister"), None)
    if not found or node is None or len(node["inputs"]) != 2:
        return not_applicable("no co-registration")
    k, told, _ = found[0]
    shift, at = told.get("shift_px"), (f"/evidence/intermediate/nodes/{k}/shift_px", "/inputs")
    mine = [number_of(v) for v in shift] if isinstance(shift, list) else []
    if len(mine) != 2 or mine[0] is None or mine[1] is None:
        return inconclusive("The shift is not on record.", at=at)
    edges = []
    try:
        look = look_of(case)
        for name in node["inputs"]:
            plane = look.every_pixel(name, scene_of_node(case, name).grid)
            if not plane.valid.any():
                return not_applicable("no valid pixel")
            filled = np.where(plane.valid, plane.data, float(plane.data[plane.valid].mean()))
            edge = ndimage.gaussian_gradient_magnitude(filled, 1.0) * ndimage.binary_erosion(plane.valid, iterations=3)
            edges.append(edge - edge.mean())
    except CannotLookError as why:
        return not_applicable(str(why))
    if edges[0].shape != edges[1].shape:
        return not_applicable("the two lie on different grids")
    likeness = np.fft.ifft2(np.fft.fft2(edges[0]) * np.conj(np.fft.fft2(edges[1]))).real
    best = np.unravel_index(int(likeness.argmax()), likeness.shape)
    peak = [int(b) - n if b > n // 2 else int(b) for b, n in zip(best, likeness.shape, strict=True)]
    if any(abs(a - b) > 1.5 for a, b in zip((mine[0], mine[1]), peak, strict=True)):
        return failed("The edges of the two fit best at another shift.", measured=mine, expected=peak, unit="px", at=at)
    return passed("The edges of the two fit best at this shift.", measured=mine, expected=peak, unit="px", at=at)


@check(
    "moran_recomputes",
    catches=("stale artifact", "fill counted as data", "wrong statistic"),
    limits=("rel_tolerance", "p_value_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/layers", "/evidence/intermediate/nodes"),
)
def moran_recomputes(case: Case) -> Finding:
    """Moran's I of the named raster, computed again, is the value; its z score points the way that the value does, and its p
    value is the one of its z score."""
    found = told_of(case, "raster.summarize.moran")
    if not found or case.nodes.get(case.output, {}).get("op") != "raster.summarize.moran" or case.value is None:
        return not_applicable("no Moran's I")
    k, told, params = found[0]
    at = (f"/evidence/intermediate/nodes/{k}", "/result/value")
    if abs(case.value) > 1.5:
        return failed(
            "Moran's I lies about −1 to 1; what was computed is something else.",
            measured=case.value,
            expected="within ± 1.5",
            at=at,
        )
    z, p_value, expected, n = (number_of(told.get(name)) for name in ("z", "p_value", "expected", "n_valid"))
    if z is None or p_value is None:
        return inconclusive("z score and p value of Moran's I are not on record.", at=at)
    likely = math.erfc(abs(z) / math.sqrt(2))
    if min(abs(p_value - likely), abs(p_value - likely / 2)) > case.limits.p_value_tolerance:
        return failed(
            "The p value is not the one of its z score; state how sure the likeness is by the z score.",
            measured=p_value,
            expected=likely,
            at=at,
        )
    if n is not None and n > 1 and expected is not None and not case.is_same(expected, -1 / (n - 1), 1e-2):
        return failed(
            "The value expected of chance is not −1/(n − 1) of the pixels on record.",
            measured=expected,
            expected=-1 / (n - 1),
            at=at,
        )
    if expected is not None and abs(case.value - expected) > 1e-6 and abs(z) > 1e-6 and (case.value > expected) != (z > 0):
        return failed(
            "The z score says the contrary of the value: one of the two has the wrong sign.",
            measured=z,
            expected="positive" if case.value > expected else "negative",
            at=at,
        )
    refs = [r for r in case.observation.result.layers if r.kind in ("raster", "mask")]
    if len(refs) != 1 or not case.is_small(refs[0]):
        return passed("Value, z score and p value belong together.", measured=case.value, at=at)
    try:
        if refs[0].kind == "mask":
            mask, valid = case.mask(refs[0])
            data = mask.astype(np.float64)
        else:
            raster = case.raster(refs[0])
            data, valid = raster.data[0].astype(np.float64), raster.valid[0]
    except LayerUnreadableError as error:
        return inconclusive(f"The raster cannot be read: {error}.", at=("/result/layers",), severity="warn")
    inside = _inside(case, refs[0])
    valid = valid if inside is None or inside.shape != valid.shape else valid & inside
    again = moran(np.where(valid, data, 0.0), valid, corners=str(params.get("neighbours") or "queen") == "queen")
    if again is None:
        return failed(
            "The raster has no four neighbouring pixels that differ, so that Moran's I has no value.",
            measured=case.value,
            at=("/result/value", "/result/layers"),
        )
    # layers are kept in single precision
    if abs(again[0] - case.value) > max(1e-4, case.limits.rel_tolerance * abs(again[0])):
        return failed(
            "The raster gives another Moran's I; compute it from this raster, without its fill.",
            measured=case.value,
            expected=again[0],
            at=("/result/value", "/result/layers"),
        )
    return passed(
        "The raster gives this Moran's I.", measured=case.value, expected=again[0], at=("/result/value", "/result/layers")
    )


@check(
    "picture_shows_its_layers",
    catches=("stale artifact", "merged or duplicated detections", "empty layer called zero"),
    reads=("/evidence/intermediate/nodes", "/parents"),
)
def picture_shows_its_layers(case: Case) -> Finding:
    """A picture shows as many shapes, or pixels of a mask, as the layer has that was to be drawn."""
    seen = 0
    for k, told, params in told_of(case, "image.annotate"):
        entries, wanted = told.get("drawn"), params.get("layers")
        drawn = [e for e in entries if isinstance(e, dict)] if isinstance(entries, (list, tuple)) else []
        at = (f"/evidence/intermediate/nodes/{k}", "/parents")
        for source in wanted if isinstance(wanted, (list, tuple)) else ():
            parent = next((p for p in case.parents if isinstance(source, dict) and p.id == source.get("observation")), None)
            if parent is None:
                continue
            label = str(source.get("label") or "")
            for ref in parent.result.layers:
                name = ref.label or ref.kind
                is_meant = label == ref.label if label else not ref.is_aside
                if ref.kind not in ("boxes", "polygons", "points", "mask") or not is_meant:
                    continue
                entry = next((e for e in drawn if e.get("source") == parent.id and e.get("name") == name), None)
                if entry is None:
                    return failed(f"The layer {name} is missing from the picture; draw it.", measured=0, expected=1, at=at)
                try:
                    if ref.kind == "mask":
                        n = int(np.logical_and(*case.mask(ref)).sum()) if case.is_small(ref) else None
                        is_part = bool(params.get("crop")) or number_of(told.get("step")) != 1
                        mine = number_of(entry.get("n_px"))
                    else:
                        n, is_part = len(case.features(ref)), False
                        mine = (number_of(entry.get("n")) or 0) + (number_of(entry.get("n_outside")) or 0)
                except LayerUnreadableError:
                    continue
                if n is None or mine is None:
                    continue
                seen += 1
                if mine > n or (not is_part and mine != n):
                    return failed(
                        f"The picture shows another number than the layer {name} has; draw it again.",
                        measured=mine,
                        expected=n,
                        at=at,
                    )
    if not seen:
        return not_applicable("no picture of earlier layers")
    return passed("The picture shows what its layers hold.", measured=seen, unit="layers", at=("/evidence/intermediate/nodes",))


@check(
    "colours_hold_the_values",
    catches=("fill counted as data", "scale or offset twice or never"),
    reads=("/evidence/intermediate/nodes",),
)
def colours_hold_the_values(case: Case) -> Finding:
    """A picture in colours has a lowest colour below its highest, and does not show more pixels beyond them than there are."""
    found = told_of(case, "image.colours")
    if not found:
        return not_applicable("no picture in colours")
    k, told, params = found[0]
    at = (f"/evidence/intermediate/nodes/{k}",)
    low, high = number_of(told.get("low")), number_of(told.get("high"))
    if low is None or high is None:
        return inconclusive("The values of the first and last colour are not on record.", at=at)
    if not low < high:
        return failed("The first colour's value does not lie below the last one's.", measured=[low, high], at=at)
    for name, used in (("low", low), ("high", high)):
        asked = number_of(params.get(name))
        # a raster of one value is spread about it
        if asked is not None and not case.is_same(asked, used) and not case.is_same(high - low, 1.0):
            return failed(f"The colours' {name} value is not the one that was asked for.", measured=used, expected=asked, at=at)
    beyond = (number_of(told.get("n_below")) or 0) + (number_of(told.get("n_above")) or 0)
    total = number_of(told.get("n_valid"))
    if total is None:
        total = case.evidence_number("intermediate", "valid_px")
    if total is not None and (total <= 0 or beyond >= total):
        return failed(
            "Every pixel of the picture lies beyond its colours, so that it shows nothing; choose other ends.",
            measured=beyond,
            expected=f"< {total:g}",
            unit="px",
            at=at,
        )
    return passed("The colours hold the raster's values.", measured=[low, high], at=at)


@check(
    "chart_shows_its_items",
    catches=("hole in the series", "stale artifact"),
    reads=("/evidence/intermediate/nodes", "/result/items"),
)
def chart_shows_its_items(case: Case) -> Finding:
    """A chart shows as many values as its table has, from the least to the greatest of them."""
    found = told_of(case, "image.chart")
    items = list(case.items())
    if not found or not items or len(items) >= 1000:
        return not_applicable("no chart with its table")
    k, told, _ = found[0]
    at = (f"/evidence/intermediate/nodes/{k}", "/result/items")
    n, low, high = (number_of(told.get(name)) for name in ("n", "low", "high"))
    if n is None or low is None or high is None:
        return inconclusive("What the chart shows is not on record.", at=at)
    tables = [[v for v in (number_of(i.get(key)) for i in items) if v is not None] for key in ("value", "n", "area", "n_px")]
    tables = [t for t in tables if t]
    if any(len(t) == n and case.is_same(min(t), low) and case.is_same(max(t), high) for t in tables):
        return passed("The chart shows what its table holds.", measured=n, at=at)
    return failed(
        "The chart shows other values than its table; draw it from this table.",
        measured=[n, low, high],
        expected=[[len(t), min(t), max(t)] for t in tables],
        at=at,
    )


@check(
    "class_is_the_likeliest",
    catches=("stale artifact", "dropped tile", "percent as fraction"),
    reads=("/result/value", "/result/items", "/result/layers"),
)
def class_is_the_likeliest(case: Case) -> Finding:
    """The kind of place is the label with the greatest probability, at least as probable as was asked for; probabilities are
    shares of one whole, and as many windows show each label as the layer of windows holds."""
    if case.observation.tool != "perceive" or case.kind != "class":
        return not_applicable("no kind of place")
    p = {str(i.get("class")): number_of(i.get("p")) for i in case.items() if "p" in i}
    if not p:
        return not_applicable("no probabilities")
    at = ("/result/value", "/result/items")
    held = {label: v for label, v in p.items() if v is not None}
    if len(held) < len(p) or not all(0 <= v <= 1 for v in held.values()) or sum(held.values()) > 1.01:
        return failed("The probabilities are no shares of one whole.", measured=sum(held.values()), expected="≤ 1", at=at)
    value = case.observation.result.value
    n, outside = (case.evidence_number("intermediate", key) for key in ("windows", "windows_out_of_scope"))
    if value is not None:
        likeliest = max(held, key=lambda label: held[label])
        if held.get(str(value), -1.0) < held[likeliest]:
            return failed(f"{likeliest} is likelier than what is named.", measured=str(value), expected=likeliest, at=at)
        least = case.evidence_number("source", "thresholds", "probability")
        # a window like none of the model's kinds is of none: the probability of the others does not stand for it
        whole = held[likeliest] * (1 - outside / n if n and outside and outside <= n else 1)
        if least is not None and whole < least - 1e-4:
            return failed(
                "The label is less probable than the least that is stated; say that no label is likely enough.",
                measured=whole,
                expected=f"≥ {least:g}",
                at=at,
            )
    ref = case.layer("polygons", "windows")
    if ref is not None and n is not None:
        try:
            names = [str((f.get("properties") or {}).get("class")) for f in case.features(ref)]
        except LayerUnreadableError as error:
            return inconclusive(f"The windows cannot be read: {error}.", at=("/result/layers",), severity="warn")
        if len(names) != n:
            return failed(
                "The layer holds another number of windows than were looked at.",
                measured=len(names),
                expected=n,
                at=("/result/layers", "/evidence/intermediate/windows"),
            )
        for item in case.items() if outside is not None and outside < n else ():
            told = number_of(item.get("windows"))
            if told is not None and told != names.count(str(item.get("class"))):
                return failed(
                    f"Another number of windows shows {item.get('class')} than is stated.",
                    measured=told,
                    expected=names.count(str(item.get("class"))),
                    at=("/result/items", "/result/layers"),
                )
    return passed("The label named is the likeliest.", measured=max(held.values()), at=at)


@check("boolean_recomputes", catches=("empty layer called zero", "stale artifact"), reads=("/result/value", "/result/layers"))
def boolean_recomputes(case: Case) -> Finding:
    """Yes or no recomputed from the measured layer itself and the comparison asked."""
    spec = case.arguments.get("spec")
    if (
        case.kind != "boolean"
        or case.observation.tool != "measure"
        or not isinstance(case.observation.result.value, bool)
        or not isinstance(spec, dict)
        or _has_relation(case)
    ):
        return not_applicable("no boolean over one layer")
    figure: float | None = None
    ref = _measured_mask(case)
    try:
        if ref is not None and ref.grid is not None:
            mask, valid = case.mask(ref)
            inside = _inside(case, ref)
            keep = mask & valid if inside is None or inside.shape != mask.shape else mask & valid & inside
            if spec.get("of", "count") == "area":
                figure = area_of_mask_m2(keep, ref.grid, _gsd_of(case, ref)).area_m2
            else:
                figure = float(pieces(keep, corners=True))
        else:
            vector = _source_layer(case, ("boxes", "polygons", "points"))
            if vector is not None and spec.get("of", "count") == "count" and not case.is_limited:
                figure = float(len(case.features(vector)))
    except (LayerUnreadableError, ValueError):
        return not_applicable("the layer cannot be measured")
    if figure is None:
        return not_applicable("no layer to measure")
    comparison = spec.get("comparison")
    op, limit = ">", 0.0
    if isinstance(comparison, dict) and comparison.get("op") in OPS and number_of(comparison.get("value")) is not None:
        op = str(comparison["op"])
        limit = to_si(float(comparison["value"]), str(comparison.get("unit", "1"))) or 0.0
    truth = bool(OPS[op](figure, limit))
    if truth != case.observation.result.value:
        return failed(
            "The layer gives the other answer.", measured=case.observation.result.value, expected=truth, at=("/result/value",)
        )
    return passed("The layer gives this answer.", measured=figure, expected=f"{op} {limit:g}", at=("/result/value",))


def _reach_m(shape_: BaseGeometry, crs: str) -> float:
    """The long side in m of the smallest rectangle about a shape, in a transverse Mercator plane of its own."""
    t = transformer(crs, "EPSG:4326")
    x0, y0, x1, y1 = shape_.bounds
    globe = shapely.transform(
        shapely.segmentize(shape_, max(x1 - x0, y1 - y0) / 50), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1]))
    )
    lon, lat = shapely.get_coordinates(globe.convex_hull.centroid)[0]
    plane = transformer("EPSG:4326", f"+proj=tmerc +lat_0={lat:.6f} +lon_0={lon:.6f} +datum=WGS84 +units=m")
    flat = shapely.transform(globe, lambda p: np.column_stack(plane.transform(p[:, 0], p[:, 1])))
    corners = shapely.get_coordinates(shapely.minimum_rotated_rectangle(flat))
    return float(np.linalg.norm(np.diff(corners, axis=0), axis=1).max())


@check("vector_recomputes", catches=("degrees as metres", "wrong unit", "stale artifact"), reads=("/result/value", "/arguments"))
def vector_recomputes(case: Case) -> Finding:
    """Number, area or length of one vector file, taken again from its features on the ellipsoid, is the value."""
    sources = case.arguments.get("sources")
    if case.kind not in ("count", "area", "length") or case.value is None or not isinstance(sources, list) or len(sources) != 1:
        return not_applicable("no figure of one vector file")
    digest, which = sources[0].get("vector") if isinstance(sources[0], dict) else None, ""
    if not isinstance(digest, str) or not digest or _has_relation(case) or case.is_limited or case.layers is None:
        return not_applicable("no vector file of its own")
    try:
        features, crs = case.layers.read_vector(digest)
        only, field = sources[0].get("only") or (), str(sources[0].get("name_field") or "")
        left_out = sources[0].get("without") or ()
        called = [(str((f.get("properties") or {}).get(field, "")), f) for _, f in part_of(features, sources[0])]
        shapes = [shape(f["geometry"]) for n, f in called if (not only or n in only) and n not in left_out]
        if case.kind == "count":
            truth, mine = float(len(shapes)), case.value
        else:
            t, geod = transformer(crs, "EPSG:4326"), geod_of("EPSG:4326")
            asked = case.arguments.get("spec")
            which = str(asked.get("length_of") or "") if isinstance(asked, dict) else ""
            rings = [g.boundary if which and g.area > 0 else g for g in shapes]
            whole = shapely.union_all(shapes) if case.kind == "area" else shapely.geometrycollections(rings)
            x0, y0, x1, y1 = whole.bounds
            # edges are straight in the file's own CRS: a few points on each keep them so on the ellipsoid
            fine = shapely.segmentize(whole, max(x1 - x0, y1 - y0) / 500 or 1.0)
            globe = shapely.transform(fine, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))
            found = geod.geometry_area_perimeter(shapely.orient_polygons(globe)) if case.kind == "area" else None
            has_polygons = any(g.area > 0 for g in shapes)
            if case.kind == "length" and has_polygons != bool(which):
                return failed(
                    "Polygons have an outline and an extent, lines one length; ask for the one that is meant.",
                    measured=which or "length",
                    expected="outline or extent" if has_polygons else "length",
                    at=("/arguments/spec/length_of",),
                )
            truth = (
                abs(float(found[0]))
                if found is not None
                else float(np.mean([_reach_m(g, crs) for g in shapes]))
                if which == "extent"
                else float(geod.geometry_length(globe))
            )
            mine = _si(case)
    except Exception:  # an unreadable file is another check's finding
        return not_applicable("the vector file cannot be read")
    if not abs(mine - truth) <= (0.005 if which == "extent" else 0.002) * truth:
        return failed("The vector file's own features give another figure.", measured=mine, expected=truth, at=("/result/value",))
    return passed("The vector file's features give this figure.", measured=mine, expected=truth, at=("/result/value",))


@check(
    "arithmetic_recomputes",
    catches=("quotient turned round", "sign lost", "wrong unit"),
    reads=("/result/value", "/arguments"),
)
def arithmetic_recomputes(case: Case) -> Finding:
    """A value calculated of earlier values follows from them, and a solution satisfies its equation."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] not in ("value.calculate", "value.solve") or case.value is None:
        return not_applicable("no arithmetic of values")
    held = case.evidence("intermediate", "nodes")
    figures = {str(n.get("id")): number_of(n.get("value")) for n in held if isinstance(n, dict)} if isinstance(held, list) else {}
    names = {k: v for k, v in figures.items() if v is not None and k in node["inputs"]}
    at = ("/result/value", "/evidence/intermediate/nodes")
    if node["op"] == "value.calculate":
        truth = value_of(str(node["params"].get("expression") or ""), names)
        if truth is None:
            return not_applicable("the expression is not followed")
        if not case.is_same(case.value, truth):
            return failed("The expression of these values gives another one.", measured=case.value, expected=truth, at=at)
        return passed("The expression of these values gives this one.", measured=case.value, expected=truth, at=at)
    left, _, right = str(node["params"].get("equation") or "").partition("=")
    names |= {str(node["params"].get("unknown")): case.value}
    one, other = value_of(left, names), value_of(right, names)
    if one is None or other is None:
        return not_applicable("the equation is not followed")
    # a double root moves by the square root of a rounding error
    if abs(one - other) > 1e-6 * max(1.0, abs(one), abs(other)):
        return failed("The solution does not satisfy the equation.", measured=one, expected=other, at=at)
    return passed("Both sides of the equation agree at the solution.", measured=one, expected=other, at=at)


# --- series -----------------------------------------------------------------------------------------------------------------
@check(
    "series_recomputes",
    catches=("hole in the series", "one date for many", "wrong unit"),
    limits=("rel_tolerance",),
    reads=("/result/value", "/result/items"),
)
def series_recomputes(case: Case) -> Finding:
    """The value of a series is the mean of its items; the date picked is the one of the least or greatest item."""
    if case.kind not in ("series", "date"):
        return not_applicable("no series")
    if case.nodes.get(case.output, {}).get("op") == "raster.summarize.series_analysis":
        return not_applicable("a test of the series, not one of its values")
    items = series_items(case)
    values = [number_of(i.get("value")) for _, i in items]
    if not items or any(v is None for v in values):
        return not_applicable("the items have no numbers or dates")
    numbers = [float(v) for v in values if v is not None]
    at = ("/result/value", "/result/items")
    node = case.nodes.get(case.output)
    pick = str(node["params"].get("pick") or "") if node else ""
    if case.kind == "date":
        pick = pick or ("max" if any(w in case.text for w in ("highest", "maximum", "peak", "largest", "greatest")) else "min")
        best = (max if pick == "max" else min)(numbers)
        days = {d for (d, _), v in zip(items, numbers, strict=True) if math.isclose(v, best, rel_tol=1e-9, abs_tol=1e-12)}
        try:
            told = date.fromisoformat(str(case.observation.result.value)[:10])
        except ValueError:
            return not_applicable("the value is no day")
        if told not in days:
            return failed(
                f"The items have their {pick} on another date.",
                measured=told.isoformat(),
                expected=sorted(d.isoformat() for d in days),
                at=at,
            )
        return passed(f"The items have their {pick} on this date.", measured=told.isoformat(), at=at)
    if case.value is None:
        return not_applicable("the series has no single value")
    over = str(node["params"].get("over") or "mean") if node else "mean"
    mean = _statistic(np.array(numbers), over)
    if mean is None:
        return not_applicable("a way to join dates that is not recomputed here")
    if not case.is_same(mean, case.value) and not any(case.is_same(case.value, v) for v in (min(numbers), max(numbers)) if pick):
        return failed(
            f"The value is not the {over} of the series.",
            measured=case.value,
            expected=mean,
            unit=case.observation.result.unit,
            at=at,
        )
    return passed(f"The value is the {over} of the series.", measured=case.value, expected=mean, at=at)


@check(
    "rank_trend_recomputes",
    catches=("wrong statistic", "stale artifact", "wrong sign"),
    limits=("rel_tolerance", "p_value_tolerance"),
    reads=("/result/value", "/result/items", "/evidence/intermediate/nodes"),
)
def rank_trend_recomputes(case: Case) -> Finding:
    """Mann and Kendall's tau is that of the items, and its p value the one that ties and number of dates give."""
    found = told_of(case, "raster.summarize.series_analysis")
    if not found or case.nodes.get(case.output, {}).get("op") != "raster.summarize.series_analysis" or case.value is None:
        return not_applicable("no test of a series")
    k, told, params = found[0]
    if params.get("analysis") != "mann_kendall" or str(params.get("variant") or "original") != "original":
        return not_applicable("another test")
    items = series_items(case)
    numbers = [v for _, i in items if (v := number_of(i.get("value"))) is not None]
    n, at = len(numbers), (f"/evidence/intermediate/nodes/{k}", "/result/value", "/result/items")
    if n < 4 or n != len(case.observation.result.items):
        return inconclusive("The items have no dates or figures.", at=at)
    s = sum(float(np.sign(b - a)) for i, a in enumerate(numbers) for b in numbers[i + 1 :])
    tau = s / (n * (n - 1) / 2)
    if not case.is_same(case.value, tau):
        return failed("The items have another tau.", measured=case.value, expected=tau, at=at)
    ties = np.unique(np.array(numbers), return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    z = 0.0 if s == 0 or variance <= 0 else (s - math.copysign(1, s)) / math.sqrt(variance)
    p_value, likely = number_of(told.get("p_value")), math.erfc(abs(z) / math.sqrt(2))
    if p_value is None:
        return inconclusive("The p value is not on record.", at=at)
    if abs(p_value - likely) > case.limits.p_value_tolerance:
        return failed("The p value is not that of this tau.", measured=p_value, expected=likely, at=at)
    return passed("Tau and p value are those of the items.", measured=case.value, expected=tau, at=at)


@check(
    "place_matches_scene",
    catches=("another scene's result", "degrees as metres"),
    reads=("/result/items", "/inputs"),
)
def place_matches_scene(case: Case) -> Finding:
    """The bounds told of a scene are those of its corners, brought to degrees by the verifier."""
    item = next(iter(case.items()), None)
    if case.nodes.get(case.output, {}).get("op") != "asset.bounds" or len(case.used_scenes) != 1 or item is None:
        return not_applicable("no bounds of a scene")
    grid, at = case.used_scenes[0].grid, ("/result/items/0", "/inputs")
    if grid.crs is None:
        return failed("A scene without CRS has no place.", measured=item.get("west"), expected="none", at=at)
    # along the edges too: a straight edge of the grid is bent in degrees
    t = np.linspace(0, 1, 33)
    cols = np.concatenate([t, t, np.zeros(33), np.ones(33)]) * grid.width
    rows = np.concatenate([np.zeros(33), np.ones(33), t, t]) * grid.height
    a, b, c, d, e, f = grid.transform
    lons, lats = transformer(grid.crs, "EPSG:4326").transform(a * cols + b * rows + c, d * cols + e * rows + f)
    side = max(float(np.ptp(lons)), float(np.ptp(lats)))
    for name, wanted in (("west", np.min(lons)), ("south", np.min(lats)), ("east", np.max(lons)), ("north", np.max(lats))):
        told = number_of(item.get(name))
        off = None if told is None else abs(told - float(wanted))
        if off is None or (min(off, abs(off - 360)) > 1e-3 * side + 1e-9):
            return failed(f"The scene's {name} lies elsewhere.", measured=told, expected=float(wanted), unit="deg", at=at)
    return passed("The bounds are those of the scene's edges.", measured=4, at=at)


@check(
    "catalog_matches_scenes",
    catches=("hole in the series", "one date for many", "another scene's result"),
    reads=("/result/value", "/result/items", "/evidence/intermediate/nodes"),
)
def catalog_matches_scenes(case: Case) -> Finding:
    """A catalogue of the question's own scenes has each of them that falls in the period; its gaps are those of their dates."""
    found = told_of(case, "asset.catalog")
    if not found or case.nodes.get(case.output, {}).get("op") != "asset.catalog":
        return not_applicable("no catalogue")
    k, told, params = found[0]
    narrowed = any(params.get(name) for name in ("sensor", "roles", "bbox", "level", "collections"))
    if params.get("source") != "question" or narrowed or not case.scenes:
        return not_applicable("a catalogue of more than the question's scenes, or of a part of them")
    at = ("/result/items", f"/evidence/intermediate/nodes/{k}")
    low, high = str(params.get("start") or "")[:10], str(params.get("end") or "")[:10]
    days = {s.scene_id: s.acquired_at.date().isoformat() if s.acquired_at else "" for s in case.scenes.values()}
    wanted = {i for i, day in days.items() if (day or not (low or high)) and low <= day and (not high or day <= high)}
    listed = {str(i.get("scene")) for i in case.items()}
    if listed != wanted or case.value != len(wanted):
        return failed("The list does not hold the question's scenes.", measured=sorted(listed), expected=sorted(wanted), at=at)
    revisit = number_of(told.get("revisit_days"))
    if revisit is None:
        return passed("The list holds the question's scenes.", measured=len(listed), expected=len(wanted), at=at)
    known = sorted({date.fromisoformat(days[i]) for i in wanted if days[i]})
    edges = [*([date.fromisoformat(low)] if low else []), *known, *([date.fromisoformat(high)] if high else [])]
    gaps = sum((b - a).days > 1.5 * revisit for a, b in pairwise(edges))
    mine = told.get("gaps")
    n_told = len(mine) if isinstance(mine, list) else None
    if n_told != gaps:
        return failed("The dates have other gaps than those told.", measured=n_told, expected=gaps, at=at)
    return passed("The list and its gaps are those of the question's scenes.", measured=gaps, expected=gaps, at=at)


def slope_per_year(days: list[date], values: list[float]) -> float | None:
    """Least-squares slope per mean year (365.25 days); None where all dates are one."""
    t = np.array([d.toordinal() for d in days], dtype=float) / 365.25
    t = t - t.mean()
    spread = float((t**2).sum())
    return None if spread == 0 else float((t * (np.array(values) - np.mean(values))).sum() / spread)


@check(
    "trend_recomputes",
    catches=("one date for many", "hole in the series", "wrong unit"),
    reads=("/result/value", "/result/items"),
)
def trend_recomputes(case: Case) -> Finding:
    """The slope through the items is the value, per the unit of time stated."""
    items = series_items(case)
    values = [number_of(i.get("value")) for _, i in items]
    if case.kind != "trend" or case.value is None or len(items) < 3 or any(v is None for v in values):
        return not_applicable("no trend with its items")
    node = case.nodes.get(case.output)
    method = str(node["params"].get("method") or "linear") if node else "linear"
    if method not in ("linear", "ols"):
        days, numbers = [d for d, _ in items], [float(v) for v in values if v is not None]
        pairs = [
            (numbers[j] - numbers[i]) / ((days[j] - days[i]).days / 365.25)
            for i in range(len(days))
            for j in range(i + 1, len(days))
            if days[j] != days[i]
        ]
        slope = float(np.median(pairs)) if pairs else None
    else:
        slope = slope_per_year([d for d, _ in items], [float(v) for v in values if v is not None])
    if slope is None:
        return failed(
            "All items are of one date; there is no trend.", measured=1, expected="> 1", unit="dates", at=("/result/items",)
        )
    per = {"year": 1.0, "yr": 1.0, "a": 1.0, "month": 1 / 12, "day": 1 / 365.25}.get(
        split_rate(case.observation.result.unit)[1], 1.0
    )
    slope *= per
    at = ("/result/value", "/result/items")
    if abs(slope - case.value) > max(5e-3 * abs(slope), 1e-9):
        return failed(
            "The slope through the items is another one.",
            measured=case.value,
            expected=slope,
            unit=case.observation.result.unit,
            at=at,
        )
    return passed("The slope through the items is the value.", measured=case.value, expected=slope, at=at)


# --- the source's own pixels ------------------------------------------------------------------------------------------------
def _compare(case: Case, value: float, truth: Estimate, statistic: str) -> bool:
    spread = max(truth.spread, abs(truth.value) * 1e-3, 1e-9)
    if truth.is_exact:
        return abs(value - truth.value) <= max(
            case.limits.rel_tolerance * abs(truth.value), 2e-4 * spread, case.limits.abs_tolerance
        )
    if statistic == "min":
        return value <= truth.minimum + 1e-6 * spread
    if statistic == "max":
        return value >= truth.maximum - 1e-6 * spread
    if statistic in ("sum", "range", "variance", "cv", "iqr", "skewness", "kurtosis"):
        return True
    return abs(value - truth.value) <= case.limits.sample_sigmas * truth.error + case.limits.sample_floor * spread


def _calculation_matches_source(case: Case, node: dict[str, Any]) -> Finding:
    """Arithmetic of statistics, each worked out from all of the source's pixels."""
    if case.value is None:
        return not_applicable("no value of a graph")
    names: dict[str, float] = {}
    try:
        look = look_of(case)
        for name in node["inputs"]:
            under = case.nodes.get(name, {})
            statistic = str(under.get("params", {}).get("statistic") or "mean")
            if under.get("op") != "raster.summarize.statistic" or len(under.get("inputs", ())) != 1:
                return not_applicable("arithmetic of other values than statistics")
            source = under["inputs"][0]
            grid = scene_of_node(case, source).grid
            plane = look.every_pixel(source, grid)
            weights, wrong = _weights(case, grid, name) if statistic == "mean" else ("pixels", None)
            if wrong is not None:
                return wrong
            areas = areas_of(grid)[plane.valid] if weights == "area" else None
            names[name] = estimate(plane.data[plane.valid], statistic, areas=areas).value
    except CannotLookError as why:
        return not_applicable(str(why))
    wanted = value_of(str(node["params"].get("expression") or ""), names)
    if wanted is None:
        return not_applicable("the expression is not followed")
    at = ("/result/value", "/inputs")
    if not case.is_same(case.value, wanted):
        return failed(
            "The source's pixels give another value by the verifier's own computation.",
            measured=case.value,
            expected=wanted,
            at=at,
            scores={"look_agreement": 0.0},
        )
    return passed(
        "The source's pixels give this value.", measured=case.value, expected=wanted, at=at, scores={"look_agreement": 1.0}
    )


@check(
    "value_matches_source",
    catches=(
        "fill counted as data",
        "scale or offset twice or never",
        "wrong band mapping",
        "wrong statistic",
        "another scene's result",
        "clipped region",
        "day for night",
        "swapped before and after",
    ),
    limits=("dense_look_px", "full_look_px", "sample_sigmas", "sample_floor"),
    reads=("/result/value", "/inputs"),
)
def value_matches_source(case: Case) -> Finding:
    """The value recomputed from the source's pixels with code of the verifier's own: all of a small scene or region, else every
    2nd, 3rd, … row and column of it."""
    node = case.nodes.get(case.output)
    if node is not None and node["op"] == "value.calculate":
        return _calculation_matches_source(case, node)
    if node is None or case.value is None or case.kind not in ("statistic", "ratio", "area"):
        return not_applicable("no value of a graph")
    if len(node["inputs"]) != 1:
        return not_applicable("a value of several rasters")
    source, op = node["inputs"][0], node["op"]
    statistic = statistic_of(case)
    wrong: Finding | None = None
    try:
        look = look_of(case)
        scene = scene_of_node(case, source)
        if op == "raster.summarize.statistic" and statistic:
            weights, wrong = _weights(case, scene.grid) if statistic == "mean" else ("pixels", None)
            truth = look.statistic(source, statistic, weights)
            value, unit = case.value, case.observation.result.unit
        elif op == "raster.summarize.share":
            weights, wrong = _weights(case, scene.grid)
            truth = look.statistic(source, "share", weights)
            value, unit, statistic = case.value * (factor(case.observation.result.unit) or 1.0), "1", "mean"
        elif op == "raster.summarize.area":
            truth = _area_from_source(case, look, scene, source)
            value, unit, statistic = _si(case), "m2", "mean"
        else:
            return not_applicable(f"the second look does not follow {op}")
    except CannotLookError as why:
        return not_applicable(str(why))
    if wrong is not None:
        return wrong
    at = ("/result/value", "/inputs")
    score = _closeness(value, truth)
    ok = _compare(case, value, truth, statistic)
    how = f"all {truth.n_valid} valid pixels" if truth.is_exact else f"{truth.n_valid} sampled pixels"
    if not ok:
        return failed(
            f"{how.capitalize()} of the source give another value by the verifier's own computation.",
            measured=value,
            expected=truth.value,
            unit=unit,
            at=at,
            scores={"look_agreement": score},
        )
    return passed(
        f"{how.capitalize()} of the source give this value.",
        measured=value,
        expected=truth.value,
        unit=unit,
        at=at,
        scores={"look_agreement": score},
    )


def _si(case: Case) -> float:
    """The value in SI units; NaN where there is none. Zero is a value."""
    found = None if case.value is None else to_si(case.value, case.observation.result.unit)
    return math.nan if found is None else found


def _closeness(value: float, truth: Estimate) -> float:
    room = 0.02 * max(truth.spread, 1e-9) + 0.005 * abs(truth.value) + 3 * (0.0 if math.isinf(truth.error) else truth.error)
    return float(1 / (1 + (abs(value - truth.value) / max(room, 1e-12)) ** 2))


def _areas_by_row(grid: Grid, gsd_m: float | None, window: Window, step: int, rows: int) -> NDArray[np.float64]:
    """Area in m² of the pixels of each row that is looked at, (rows,). CannotLookError where they differ along a row."""
    if grid.crs is None:
        return np.full(rows, (gsd_m or 0.0) ** 2)
    _, at, areas = grid.geodesic_lattice
    if np.ptp(areas, axis=1).max() > 0.02 * areas.max() and step > 1:
        raise CannotLookError("pixels differ in area along a row of this grid, and only some of them are looked at")
    return np.asarray(np.interp(window[1] + np.arange(rows) * step, at, areas.mean(axis=1)))


def _area_from_source(case: Case, look: Look, scene: SceneInfo, source: str) -> Estimate:
    """Area in m² of True pixels, from the source."""
    grid = scene.grid
    window = look.extent(grid)
    step = step_of(case, window)
    if grid.crs is None and scene.gsd_m is None:
        raise CannotLookError("the scene's pixels have no size on the ground")
    plane = look.node(source, window)
    region = look.region(grid, window)
    seen = plane.valid if region is None else plane.valid & region
    keep = seen & (plane.data > 0)
    n = int(seen.sum())
    areas = _areas_by_row(grid, scene.gsd_m, window, step, plane.data.shape[0])
    pixel = float(areas.mean())
    everything = pixel * window[2] * window[3]
    if step == 1:
        area = area_of_mask_m2(keep, grid.window(*window), scene.gsd_m).area_m2
        return Estimate(area, True, 0.0, n, everything * 1e-3, 0.0, everything)
    share = estimate((keep * (areas / pixel)[:, None]).ravel(), "mean", step)
    return Estimate(everything * share.value, False, everything * share.error, n, everything * share.spread, 0.0, everything)


@check(
    "zonal_matches_source",
    catches=("another scene's result", "leaked or shifted mask", "scale or offset twice or never", "degrees as metres"),
    limits=("full_look_px",),
    reads=("/result/value", "/result/items", "/inputs"),
)
def zonal_matches_source(case: Case) -> Finding:
    """Figures of zones recomputed from the source's pixels and the zones' own outlines (of many, twelve spread over them and
    the one that was picked); a zone that was picked has the extreme."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] != "raster.summarize.zonal" or len(node["inputs"]) != 2:
        return not_applicable("no figures of zones")
    source, params = node["inputs"][0], node["params"]
    zones = case.nodes.get(node["inputs"][1])
    known = [(i, item) for i, item in enumerate(case.items()) if number_of(item.get("value")) is not None]
    if zones is None or zones["op"] != "vector.zones" or not known:
        return not_applicable("the zones or their figures are not at hand")
    picked = case.observation.result.value if params.get("pick") else None
    pick = min if params.get("pick") == "min" else max
    at = ("/result/value", "/result/items")
    if picked is not None:
        best = pick(float(number_of(item["value"]) or 0.0) for _, item in known)
        if not any(item.get("zone") == picked and number_of(item["value"]) == best for _, item in known):
            return failed("The zone that was picked has not the extreme of the zones.", measured=picked, expected=best, at=at)
    step = max(1, len(known) // 12)
    chosen = [(i, item) for k, (i, item) in enumerate(known) if k % step == 0 or item.get("zone") == picked]
    statistic = str(params.get("statistic") or "mean")
    worst, seen = 1.0, 0
    try:
        look = look_of(case)
        scene = scene_of_node(case, source)
        outlines = zones_px(case, zones["params"], scene.grid)
        told, place = _told_weights(case, case.output)
        weights = _weights_of_zones(scene.grid, outlines, statistic, str(params.get("weights") or "auto"), told)
        if statistic in ("mean", "share") and (wrong := _wrong_weights(told, weights, place)) is not None:
            return wrong
        for i, item in chosen:
            outline = outlines.get(str(item.get("zone")))
            if outline is None:
                return failed("A figure is that of a zone that there is not.", measured=str(item.get("zone"))[:80], at=at)
            truth = _zone_from_source(look, scene, source, outline, statistic, weights)
            value = float(number_of(item["value"]) or 0.0)
            if statistic == "area":
                si = to_si(value, str(params.get("unit") or "m2"))
                value = math.nan if si is None else si
            seen += 1
            worst = min(worst, _closeness(value, truth))
            if not _compare(case, value, truth, "mean" if statistic in ("area", "share") else statistic):
                return failed(
                    f"The figure of {str(item.get('zone'))[:60]} is not what the source's pixels in it give.",
                    measured=value,
                    expected=truth.value,
                    unit="m2" if statistic == "area" else case.observation.result.unit,
                    at=(f"/result/items/{i}/value", "/inputs"),
                    scores={"look_agreement": worst},
                )
        only = known[0][1] if len(known) == 1 else None
        if picked is None and only is not None and case.value is not None and case.value != number_of(only["value"]):
            return failed("The value is not that of the one zone.", measured=case.value, expected=only["value"], at=at)
    except CannotLookError as why:
        return not_applicable(str(why))
    return passed(
        f"{seen} zones have the figures that the source's pixels in them give.",
        measured=seen,
        unit="zones",
        at=at,
        scores={"look_agreement": worst},
    )


def zones_px(case: Case, params: dict[str, Any], grid: Grid) -> dict[str, BaseGeometry]:
    """Name → outline in pixels of a grid, of the zones that a call names. CannotLookError where they have no place there."""
    grown = number_of(params.get("buffer_m") or 0) or 0.0
    digest, geojson = params.get("vector"), params.get("geojson")
    try:
        if isinstance(digest, str) and digest and case.layers is not None:
            features, crs = case.layers.read_vector(digest)
        elif isinstance(geojson, dict):
            crs = str(params.get("crs") or "EPSG:4326")
            alone = geojson if geojson.get("type") == "Feature" else {"geometry": geojson}
            features = list(geojson.get("features") or []) if geojson.get("type") == "FeatureCollection" else [alone]
        else:
            raise CannotLookError("the zones are not at hand")
        field, only = str(params.get("name") or "name"), params.get("only") or ()
        is_group = bool(params.get("group"))
        named = [(zone_name(f.get("properties") or {}, field, i, is_group=is_group), f) for i, f in part_of(features, params)]
        held = [(n, shape(f["geometry"])) for n, f in named if not only or n in only]
        if grown:
            if crs == "image":
                raise CannotLookError("the second look does not follow zones that were grown in pixels")
            held = [(n, grown_by(g, crs, grown)) for n, g in held]
            crs = "EPSG:4326"
        held = [(n, g) for n, g in held if g.geom_type in ("Polygon", "MultiPolygon")]
        if params.get("outside"):
            frame = shapely.box(0, 0, grid.width, grid.height)
            name = f"outside of {held[0][0]}" if len(held) == 1 else f"outside of {len(held)} polygons"
            return {name: shapely.difference(frame, outline_px(shapely.union_all([g for _, g in held]), crs, grid))}
        if is_group:
            names = dict.fromkeys(n for n, _ in held)
            held = [(name, shapely.union_all([g for n, g in held if n == name])) for name in names]
        if params.get("dissolve"):
            name = held[0][0] if len(held) == 1 else f"{len(held)} zones together"
            held = [(name, shapely.union_all([g for _, g in held]))]
        return {n: outline_px(g, crs, grid) for n, g in held}
    except CannotLookError:
        raise
    except Exception as error:
        raise CannotLookError(f"the zones cannot be read ({type(error).__name__})") from error


def outline_px(polygon: BaseGeometry, crs: str, grid: Grid) -> BaseGeometry:
    """A polygon in pixels of a grid; edges are straight in its own CRS."""
    if crs == "image":
        return polygon
    if grid.crs is None:
        raise CannotLookError("zones on the map have no place on a scene without CRS")
    span = max(polygon.bounds[2] - polygon.bounds[0], polygon.bounds[3] - polygon.bounds[1])
    t = transformer(crs, grid.crs)
    fine = shapely.segmentize(polygon, span / 64) if span > 0 and crs != grid.crs else polygon
    a, b, c, d, e, f = grid.transform
    det = a * e - b * d

    def move(p: NDArray[np.float64]) -> NDArray[np.float64]:
        x, y = t.transform(p[:, 0], p[:, 1])
        return np.column_stack(((e * (x - c) - b * (y - f)) / det, (a * (y - f) - d * (x - c)) / det))

    return turned_onto(shapely.transform(fine, move), grid)


def _weights_of_zones(grid: Grid, outlines: dict[str, BaseGeometry], statistic: str, asked: str, told: str) -> str:
    """Whether pixels count by ``area`` or alike (``pixels``) in the figures of zones, by the rows and columns that all span."""
    if grid.crs is None or statistic not in ("mean", "share"):
        return "pixels"
    frame = shapely.box(0, 0, grid.width, grid.height)
    bounds = np.array([o.bounds for o in outlines.values() if not o.is_empty and o.intersects(frame)])
    if not len(bounds):
        return "pixels"
    left, top = (max(0, math.floor(v)) for v in bounds[:, :2].min(axis=0))
    right, bottom = (min(n, math.ceil(v)) for n, v in zip((grid.width, grid.height), bounds[:, 2:].max(axis=0), strict=True))
    return weights_due(grid, (left, top, right - left, bottom - top), asked, told)


def _zone_from_source(
    look: Look, scene: SceneInfo, source: str, outline: BaseGeometry, statistic: str, weights: str = "pixels"
) -> Estimate:
    """A statistic, share (of pixels that are True) or area in m² of the source's pixels whose centre lies in an outline, and in
    the region of the question; a mean or share of pixels that count by their area or alike."""
    grid = scene.grid
    left, top, right, bottom = outline.bounds
    x0, y0 = max(0, math.floor(left)), max(0, math.floor(top))
    x1, y1 = min(grid.width, math.ceil(right)), min(grid.height, math.ceil(bottom))
    if x1 <= x0 or y1 <= y0:
        raise CannotLookError("a zone lies outside of the scene")
    window = (x0, y0, x1 - x0, y1 - y0)
    step = step_of(look.case, window)
    plane = look.node(source, window)
    xs, ys = np.meshgrid(np.arange(0, window[2], step) + x0 + 0.5, np.arange(0, window[3], step) + y0 + 0.5)
    shapely.prepare(outline)
    seen = plane.valid & shapely.contains_xy(outline, xs + CENTRE_NUDGE[0], ys + CENTRE_NUDGE[1])
    region = look.region(grid, window)
    if region is not None:
        seen &= region
    weighed = areas_of(grid, window, step)[seen] if weights == "area" and statistic in ("mean", "share") else None
    if statistic not in ("share", "area"):
        return estimate(plane.data[seen], statistic, step, weighed)
    share = estimate((plane.data[seen] > 0).astype(np.float64), "mean", step, weighed)
    if statistic == "share":
        return share
    if step == 1:
        area = area_of_mask_m2(seen & (plane.data > 0), grid.window(*window), scene.gsd_m).area_m2
        return Estimate(area, True, 0.0, share.n_valid, max(area, 1.0), 0.0, area)
    areas = np.broadcast_to(_areas_by_row(grid, scene.gsd_m, window, step, plane.data.shape[0])[:, None], seen.shape)[seen]
    pixel = float(areas.mean()) if areas.size else 0.0
    share = estimate((plane.data[seen] > 0) * areas / max(pixel, 1e-300), "mean", step)
    whole = pixel * step * step * share.n_valid
    return Estimate(whole * share.value, False, whole * share.error, share.n_valid, whole * share.spread, 0.0, whole)


@check(
    "series_matches_source",
    catches=("one date for many", "another scene's result", "fill counted as data", "scale or offset twice or never"),
    limits=("full_look_px",),
    reads=("/result/items", "/inputs"),
)
def series_matches_source(case: Case) -> Finding:
    """Items of a series recomputed from their own scenes' pixels; of long series, twelve spread over it."""
    node = case.nodes.get(case.output)
    is_series = case.kind in ("series", "trend", "date") or (node or {}).get("op") == "raster.summarize.series_analysis"
    if node is None or not is_series or not case.observation.result.items:
        return not_applicable("no series")
    statistic = statistic_of(case) or "mean"
    by_scene = {}
    for name in node["inputs"]:
        try:
            by_scene[scene_of_node(case, name).scene_id] = name
        except CannotLookError:
            continue
    items = [
        (i, item)
        for i, item in enumerate(case.items())
        if str(item.get("scene")) in by_scene and number_of(item.get("value")) is not None
    ]
    if not items:
        return not_applicable("the items do not name their scenes")
    step = max(1, len(items) // 12)
    worst = 1.0
    seen = 0
    try:
        look = look_of(case)
        for i, item in items[::step]:
            name = by_scene[str(item["scene"])]
            asked = str(node["params"].get("weights") or "auto")
            told = str(item.get("weights") or "pixels") if statistic == "mean" else ""
            weights = look.weights(scene_of_node(case, name).grid, statistic, asked, told)
            if (wrong := _wrong_weights(told, weights, f"/result/items/{i}/weights")) is not None:
                return wrong
            truth = look.statistic(name, statistic, weights)
            value = float(number_of(item["value"]) or 0.0)
            seen += 1
            worst = min(worst, _closeness(value, truth))
            if not _compare(case, value, truth, statistic):
                return failed(
                    f"The item of {str(item.get('date'))[:10]} is not what its scene's pixels give.",
                    measured=value,
                    expected=truth.value,
                    unit=case.observation.result.unit,
                    at=(f"/result/items/{i}/value",),
                    scores={"look_agreement": worst},
                )
    except CannotLookError as why:
        return not_applicable(str(why))
    return passed(
        f"{seen} items are what their scenes' pixels give.",
        measured=seen,
        unit="items",
        at=("/result/items",),
        scores={"look_agreement": worst},
    )


@check(
    "raster_matches_source",
    catches=("scale or offset twice or never", "wrong band mapping", "stale artifact", "leaked or shifted mask"),
    limits=("raster_agreement", "raster_tolerance", "validity_agreement", "look_windows"),
    reads=("/result/layers", "/inputs"),
)
def raster_matches_source(case: Case) -> Finding:
    """Pixels of a result raster are those that the formula gives for the source's pixels, and are valid where those are."""
    ref = case.layer("raster")
    if ref is None or ref.grid is None or not case.is_small(ref):
        return not_applicable("no raster that can be looked at")
    if sum(r.kind == "raster" for r in case.observation.result.layers) > 1:
        return not_applicable("several rasters")
    try:
        look = look_of(case)
        made = _raster_maker(case, look)
        if made is None:
            return not_applicable("the rule of the raster is not known")
        scene, make = made
        raster = case.raster(ref)
        wrong, n, unlike, seen = _against(case, look, scene, make, raster.data[0], raster.valid[0], ref.grid)
    except (CannotLookError, LayerUnreadableError) as why:
        return not_applicable(str(why))
    return _verdict(case, "raster", wrong, n, unlike, seen, case.limits.raster_agreement)


def _node_of_layer(case: Case, kind: str) -> str | None:
    """The product node that the layer of a kind shows: a mask's threshold, or the raster that it was cut from."""
    node = case.nodes.get(case.output)
    if node is None:
        return None
    at = case.output if node["op"].startswith("raster.product") else str(node["inputs"][0]) if len(node["inputs"]) == 1 else ""
    if at not in case.nodes or not case.nodes[at]["op"].startswith("raster.product"):
        return None
    is_mask = case.nodes[at]["op"] == "raster.product.threshold"
    if is_mask and kind == "raster":
        return str(case.nodes[at]["inputs"][0]) if len(case.nodes[at]["inputs"]) == 1 else None
    return at if is_mask == (kind == "mask") else None


def _against(
    case: Case,
    look: Look,
    scene: SceneInfo,
    make: Callable[[Window], Plane],
    data: NDArray[Any],
    valid: NDArray[np.bool_],
    grid: Grid,
) -> tuple[int, int, int, int]:
    """(differing pixels, pixels valid on both sides, pixels valid on one side only, pixels looked at)."""
    offset = grid_offset(grid, scene.grid)
    if offset is None:
        raise CannotLookError("the layer is on another grid")
    dc, dr = round(offset[0]), round(offset[1])
    wrong = both = unlike = seen = 0
    windows, _ = look_windows(case, grid)
    for col, row, width, height in windows:
        plane = make((col + dc, row + dr, width, height))
        step = step_of(case, (col, row, width, height))
        there = valid[row : row + height : step, col : col + width : step]
        values = data[row : row + height : step, col : col + width : step].astype(np.float64)
        mine = plane.valid
        region = look.region(scene.grid, (col + dc, row + dr, width, height))
        joint = mine & there
        spread = float(np.std(plane.data[joint])) if joint.any() else 0.0
        with np.errstate(invalid="ignore"):
            differs = np.abs(values - plane.data) > max(case.limits.raster_tolerance * max(spread, 1e-6), 1e-6) + 1e-5 * np.abs(
                plane.data
            )
        wrong += int((differs & joint).sum())
        both += int(joint.sum())
        # outside the region a layer may be masked or not
        unlike += int(((mine != there) if region is None else (mine != there) & region).sum())
        seen += int(there.size if region is None else region.sum())
    return wrong, both, unlike, seen


def _verdict(case: Case, what: str, wrong: int, both: int, unlike: int, seen: int, needed: float) -> Finding:
    at = ("/result/layers", "/inputs")
    if seen == 0 or (both == 0 and unlike == 0):
        return not_applicable("nothing valid lies where the second look went")
    same = 1 - wrong / both if both else 0.0
    alike = 1 - unlike / seen
    scores = {"look_agreement": min(same, alike)}
    if both == 0 or same < needed:
        return failed(
            f"The {what} is not what the source's pixels give: {wrong} of {both} pixels differ.",
            measured=same,
            expected=f"≥ {needed}",
            at=at,
            scores=scores,
        )
    if alike < case.limits.validity_agreement:
        return failed(
            f"The {what} is valid where the source is not, or the other way round: {unlike} of {seen} pixels.",
            measured=alike,
            expected=f"≥ {case.limits.validity_agreement}",
            at=at,
            scores=scores,
        )
    return passed(f"The {what} is what the source's pixels give.", measured=same, expected=f"≥ {needed}", at=at, scores=scores)


def _raster_maker(case: Case, look: Look) -> tuple[SceneInfo, Callable[[Window], Plane]] | None:
    """(scene, plane maker) of the raster layer: a graph's product, or the index that a mask was cut from."""
    if case.nodes:
        node = _node_of_layer(case, "raster")
        return None if node is None else (scene_of_node(case, node), lambda w: look.node(node, w))
    made = _mask_maker(case, look)
    return None if made is None or made[2] is None else (made[0], made[2])


def otsu(values: NDArray[np.float64], bins: int = 256) -> float:
    """Otsu's threshold (1979) of values: the histogram cut with the greatest variance between its sides."""
    counts, edges = np.histogram(values, bins=bins)
    centers = (edges[:-1] + edges[1:]) / 2
    weight = counts.astype(float)
    below, above = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
    total = np.cumsum(weight * centers)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_below, mean_above = total / below, (total[-1] - total + weight * centers) / above
        between = below[:-1] * above[1:] * (mean_below[:-1] - mean_above[1:]) ** 2
    return float(centers[:-1][np.nanargmax(between)])


def _stated_threshold(case: Case) -> float | None:
    """The threshold that the tool says it used."""
    held = case.evidence("source", "thresholds")
    if isinstance(held, dict):
        for value in held.values():
            found = number_of(value.get("value") if isinstance(value, dict) else value)
            if found is not None:
                return found
    return number_of(held)


@check(
    "mask_matches_source",
    catches=(
        "leaked or shifted mask",
        "wrong threshold",
        "dropped tile",
        "wrong band mapping",
        "stale artifact",
        "fill counted as data",
    ),
    limits=("mask_agreement", "validity_agreement", "look_windows", "full_look_px"),
    reads=("/result/layers", "/inputs", "/arguments"),
)
def mask_matches_source(case: Case) -> Finding:
    """A mask is what the asked index, band or class gives for the source's pixels at the asked threshold."""
    ref = case.layer("mask")
    if ref is None or ref.grid is None or not case.is_small(ref):
        return not_applicable("no mask")
    try:
        look = look_of(case)
        made = _mask_maker(case, look)
        if made is None:
            return not_applicable("no rule that can be followed")
        scene, make, plain, _side, threshold, slack = made
        mask, valid = case.mask(ref)
        wrong, both, unlike, seen = _against(case, look, scene, make, mask.astype(np.float64), valid, ref.grid)
    except (CannotLookError, LayerUnreadableError) as why:
        return not_applicable(str(why))
    found = _verdict(case, "mask", wrong, both, unlike, seen, case.limits.mask_agreement - slack)
    extra = dict(found.scores)
    if plain is not None and threshold is not None:
        extra.update(_separation(case, plain, scene, threshold))
    return Finding(
        found.outcome, found.message, found.measured, found.expected, found.unit, found.pointers, found.severity, extra
    )


Maker = tuple[SceneInfo, Callable[[Window], Plane], "Callable[[Window], Plane] | None", str, "float | None", float]


def _mask_maker(case: Case, look: Look) -> Maker | None:
    """(scene, mask plane maker, plain plane maker, side, threshold, slack) of the mask's rule; None where there is none."""
    if case.nodes:
        node = _node_of_layer(case, "mask")
        if node is None or case.nodes[node]["op"] != "raster.product.threshold" or not case.nodes[node]["inputs"]:
            return None
        below = case.nodes[node]["inputs"][0]
        op = str(case.nodes[node]["params"].get("op"))
        return (
            scene_of_node(case, node),
            lambda w: look.node(node, w),
            lambda w: look.node(below, w),
            "above" if op.startswith(">") else "below",
            number_of(case.nodes[node]["params"].get("value")),
            0.0,
        )
    method = case.regions_method
    if case.observation.tool != "perceive" or case.arguments.get("mode") != "regions" or not method:
        return None
    if len(case.used_scenes) != 1:
        return None
    scene = case.used_scenes[0]
    # specks below min_px are dropped by the tool: their share is allowed to differ
    slack = 0.05 if number_of(method.get("min_px")) else 0.0
    kind = method.get("kind", "index_threshold")
    if kind == "class_value":
        role = next((b.role for b in scene.bands if b.role == "class"), None)
        values = [number_of(v) for v in method.get("values") or ()]
        if role is None or not values or any(v is None for v in values):
            return None
        wanted = np.array([float(v) for v in values if v is not None])

        def classes(window: Window) -> Plane:
            plane = unveiled(case, scene, look.bands(scene, (role,), window)[role], window)
            return Plane(np.isin(plane.data, wanted).astype(np.float64), plane.valid)

        return scene, classes, None, "", None, slack
    if kind == "index_threshold" and method.get("index"):
        name = str(method["index"]).lower()

        def plain(window: Window) -> Plane:
            return unveiled(case, scene, look.index(scene, name, window), window)
    elif kind == "band_threshold" and method.get("band"):
        band = str(method["band"])

        def plain(window: Window) -> Plane:
            return unveiled(case, scene, look.bands(scene, (band,), window)[band], window)
    else:
        return None
    asked, stated = method.get("threshold"), _stated_threshold(case)
    threshold = number_of(asked)
    if threshold is None:
        if stated is None:
            return None
        threshold = stated
        if asked == "otsu":
            joined, _ = look.gather(plain, scene.grid)
            if joined.size:
                # the histogram's bins and range are the tool's choice: half the data's spread around Otsu's cut is allowed
                mine = otsu(np.clip(joined, *np.percentile(joined, [0.1, 99.9])))
                if abs(mine - stated) > 0.35 * float(joined.std()) + 1e-6:
                    threshold = mine
    side = str(method.get("side", "above"))
    cut = threshold

    def make(window: Window) -> Plane:
        plane = plain(window)
        with np.errstate(invalid="ignore"):
            return Plane((plane.data > cut if side == "above" else plane.data < cut).astype(np.float64), plane.valid)

    return scene, make, plain, side, threshold, slack


def _separation(case: Case, plain: Callable[[Window], Plane], scene: SceneInfo, threshold: float) -> dict[str, float]:
    """How far the sides of the threshold lie apart (in pooled deviations), and the share of pixels close to it."""
    parts = [p.data[p.valid] for p in (plain(w) for w in look_windows(case, scene.grid)[0])]
    joined = np.concatenate(parts) if len(parts) != 1 else parts[0]
    if joined.size < 20:
        return {}
    joined = joined[:: max(1, joined.size // 20_000)]
    high, low = joined[joined > threshold], joined[joined <= threshold]
    spread = float(joined.std()) or 1e-9
    out = {"near_threshold": float((np.abs(joined - threshold) < 0.1 * spread).mean())}
    if high.size > 5 and low.size > 5:
        pooled = math.sqrt((float(high.var()) * high.size + float(low.var()) * low.size) / joined.size) or 1e-9
        out["separation"] = min(6.0, (float(high.mean()) - float(low.mean())) / pooled)
    return out


# Bands of a table that are worked out again.
MOST_BANDS = 12


# --- distances, history -----------------------------------------------------------------------------------------------------
@check("distance_recomputes", catches=("degrees as metres", "wrong GSD", "wrong unit"), reads=("/result/value", "/parents"))
def distance_recomputes(case: Case) -> Finding:
    """The distance between two named layers (boxes, polygons or masks of one grid), measured again from their pixels, is the
    value: the closest pair, or the mean or maximum over the subject's instances. Between edges only."""
    if case.kind != "distance" or case.value is None:
        return not_applicable("no distance")
    spec, sources = case.arguments.get("spec"), case.arguments.get("sources")
    if not isinstance(spec, dict) or not isinstance(sources, list) or len(sources) != 2:
        return not_applicable("no distance between two layers")
    if spec.get("distance_between", "edges") != "edges" or spec.get("relation") or case.is_limited:
        return not_applicable("centroids, a relation or a region: another distance")
    layers = [_layer_of_source(case, source) for source in sources]
    first, second = layers
    if first is None or second is None:
        return not_applicable("a source is no layer in pixels")
    if sources[1].get("name") == spec.get("subject") and sources[0].get("name") != spec.get("subject"):
        first, second = second, first
    scene = case.scenes.get(first.source_scene_id or "") or (next(iter(case.scenes.values())) if len(case.scenes) == 1 else None)
    grids = {ref.grid for ref in (first, second) if ref.grid is not None}
    if len(grids) > 1 or (grids and scene is not None and grids != {scene.grid}):
        return not_applicable("the layers lie on different grids")
    grid = next(iter(grids), scene.grid if scene else None)
    pixel = _pixel_m(grid, scene.effective_gsd_m if scene else None) if grid is not None else None
    mine = to_si(case.value, case.observation.result.unit)
    if pixel is None or mine is None or dimension(case.observation.result.unit) != "length":
        return not_applicable("the GSD is not known")
    try:
        one, whose = _shapes_px(case, first)
        other, _ = _shapes_px(case, second)
    except Exception:  # unreadable shapes are another check's finding
        return not_applicable("the shapes cannot be read")
    if not len(one) or not len(other) or max(len(one), len(other)) > 300_000:
        return not_applicable("nothing to measure between, or too much")
    size = np.array(pixel)
    flat = [shapely.transform(g, lambda p: p * size) for g in (one, other)]
    (index, _), gaps = STRtree(flat[1]).query_nearest(flat[0], all_matches=False, return_distance=True)
    least = np.full(int(whose.max()) + 1, np.inf)
    np.minimum.at(least, whose[index], gaps)
    least[_lying_within(case, first, second, one, other, whose)] = 0
    least = least[np.isfinite(least)]
    statistic = str(spec.get("distance_statistic") or "minimum")
    if statistic == "farthest":
        return not_applicable("of all pairs the farthest: another distance")
    truth = float(least.mean() if statistic == "mean" else least.max() if statistic == "maximum" else least.min())
    if abs(truth - mine) > max(0.02 * truth, 1.5 * max(pixel)):
        return failed(
            f"The {statistic} distance of the two layers, measured again from their pixels, is another.",
            measured=mine,
            expected=truth,
            unit="m",
            at=("/result/value", "/parents"),
        )
    return passed(
        f"Measured again from their pixels, the two layers are this far apart ({statistic}).",
        measured=mine,
        expected=truth,
        unit="m",
        at=("/result/value",),
    )


def _layer_of_source(case: Case, source: Any) -> LayerRef | None:
    """The layer in pixels that a source of measure names, or None."""
    layer = source.get("layer") if isinstance(source, dict) else None
    parent = next((p for p in case.parents if isinstance(layer, dict) and p.id == layer.get("observation")), None)
    if parent is None or not isinstance(layer, dict):
        return None
    kinds = ("boxes", "polygons") if source.get("mode") == "objects" else ("mask", "boxes", "polygons")
    label = layer.get("label") or ""
    fitting = [r for r in parent.result.layers if r.kind in kinds and not r.is_aside and label in ("", r.label)]
    named = [r for r in fitting if r.label.lower() == str(source.get("name")).lower()]
    ref = next(iter(named or fitting), None)
    return ref if ref is not None and (ref.kind == "mask" or ref.crs == "image") else None


def _shapes_px(case: Case, ref: LayerRef) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(shapes in pixels, number of the instance of each); of a mask the squares of its pieces' outer pixels."""
    if ref.kind != "mask":
        shapes = np.array([shape(f["geometry"]) for f in case.features(ref)], dtype=object)
        return shapes, np.arange(len(shapes))
    mask, valid = case.mask(ref)
    held = np.pad(mask & valid, 1)
    pieces, _ = ndimage.label(held, structure=np.ones((3, 3)))
    inner = held[:-2, 1:-1] & held[2:, 1:-1] & held[1:-1, :-2] & held[1:-1, 2:]
    rows, cols = np.nonzero(held[1:-1, 1:-1] & ~inner)
    return np.asarray(shapely.box(cols, rows, cols + 1, rows + 1)), np.asarray(pieces[rows + 1, cols + 1] - 1, dtype=np.int64)


def _lying_within(
    case: Case, first: LayerRef, second: LayerRef, one: NDArray[Any], other: NDArray[Any], whose: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers of the first layer's instances that lie within the second, or hold a part of it: outlines alone do not tell."""
    found: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    masks = [np.logical_and(*case.mask(ref)) if ref.kind == "mask" else None for ref in (first, second)]

    def at_centroids(mask: NDArray[np.bool_], shapes: NDArray[Any]) -> tuple[NDArray[np.bool_], Any]:
        points = shapely.get_coordinates(shapely.centroid(shapes)).astype(np.int64)
        cols, rows = np.clip(points[:, 0], 0, mask.shape[1] - 1), np.clip(points[:, 1], 0, mask.shape[0] - 1)
        return mask[rows, cols], (rows, cols)

    if masks[1] is not None:
        found.append(whose[at_centroids(masks[1], one)[0]])
    if masks[0] is not None:
        pieces, _ = ndimage.label(masks[0], structure=np.ones((3, 3)))
        if masks[1] is not None and masks[0].shape == masks[1].shape:
            found.append(pieces[masks[0] & masks[1]].astype(np.int64) - 1)
        elif masks[1] is None:
            hit, where = at_centroids(masks[0], other)
            found.append(pieces[where][hit].astype(np.int64) - 1)
    return np.unique(np.concatenate(found))


def _step_along_m(mask: NDArray[np.bool_], grid: Grid, gsd_m: float | None) -> float:
    """Mean length in m of a step of one pixel along the outline of a mask, each where it lies."""
    if grid.crs is None:
        return gsd_m or 0.0
    places, along = tangents_of(mask)
    t = transformer(grid.crs, "EPSG:4326")
    a, b, c, d, e, f = grid.transform
    ends = [t.transform(a * x + b * y + c, d * x + e * y + f) for x, y in ((places + k * along).T for k in (-0.5, 0.5))]
    return float(np.mean(geod_of("EPSG:4326").inv(*ends[0], *ends[1])[2]))


def _pixel_m(grid: Grid, gsd_m: float | None) -> tuple[float, float] | None:
    """Metres of a step along a row and along a column at the grid's middle; None for rotated grids and unknown sizes."""
    if grid.crs is None:
        return None if gsd_m is None else (gsd_m, gsd_m)
    _, b, _, d, _, _ = grid.transform
    if b or d:
        return None
    c, r = grid.width / 2, grid.height / 2
    t = transformer(grid.crs, "EPSG:4326")
    at, right, down = (t.transform(*grid.xy(*p)) for p in ((c, r), (c + 1, r), (c, r + 1)))
    geod = geod_of("EPSG:4326")
    return float(geod.inv(*at, *right)[2]), float(geod.inv(*at, *down)[2])


@check(
    "agrees_with_history",
    catches=("stale artifact", "another scene's result"),
    limits=("rel_tolerance",),
    reads=("/result/value",),
)
def agrees_with_history(case: Case) -> Finding:
    """The same call on the same inputs gave the same value in an accepted observation."""
    mine = case.observation
    inputs = sorted(i.artifact for i in mine.inputs)
    for other in case.history:
        if (
            other.id == mine.id
            or other.tool != mine.tool
            or other.arguments != mine.arguments
            or other.parents != mine.parents
            or sorted(i.artifact for i in other.inputs) != inputs
            or other.result.kind != mine.result.kind
        ):
            continue
        a, b = number_of(other.result.value), case.value
        same = case.is_same(a, b) if a is not None and b is not None else other.result.value == mine.result.value
        if not same:
            return failed(
                "The same call gave another value that is already accepted.",
                measured=mine.result.value,
                expected=other.result.value,
                at=("/result/value",),
            )
        return passed("The same call gave the same value before.", at=("/result/value",))
    return not_applicable("no accepted observation of the same call")


@check(
    "value_not_rejected_before",
    catches=("stale artifact", "wrong band mapping", "another scene's result"),
    limits=("rel_tolerance",),
    reads=("/result/value",),
)
def value_not_rejected_before(case: Case) -> Finding:
    """A value that was rejected does not come back by another call on the same inputs, unless the source's own pixels give it.

    What is wrong below the method (the wrong band, another scene's pixels) is wrong again by the next method.
    """
    if case.value is None or case.value in (0.0, 1.0):
        return not_applicable("no number that could be known again")
    inputs = sorted(i.artifact for i in case.observation.inputs)
    for other in case.rejected:
        was = number_of(other.result.value)
        if (
            other.id == case.observation.id
            or other.status.state == "failed"
            or was is None
            or (other.result.kind, other.result.unit) != (case.kind, case.observation.result.unit)
            or sorted(i.artifact for i in other.inputs) != inputs
            or not math.isclose(was, case.value, rel_tol=1e-6)
        ):
            continue
        if any(look(case).outcome == "passed" for look in (value_matches_source, series_matches_source)):
            return passed(
                "The value was rejected before, but the source's pixels give it.", measured=case.value, at=("/result/value",)
            )
        return failed(
            "The same value was rejected before; another call on the same inputs does not make it right.",
            measured=case.value,
            expected="another value, or pixels that give it",
            unit=case.observation.result.unit,
            at=("/result/value",),
        )
    return (
        passed("No rejected value comes back.", measured=len(case.rejected), at=("/result/value",))
        if case.rejected
        else (not_applicable("nothing was rejected yet"))
    )


@check("series_items_not_identical", catches=("one date for many",), reads=("/result/items",))
def series_items_not_identical(case: Case) -> Finding:
    """Items of different scenes differ: equal values to the last digit mean that one image was read again and again."""
    values = [number_of(i.get("value")) for i in case.items()]
    numbers = [v for v in values if v is not None]
    if case.kind not in ("series", "trend", "date") or len(numbers) < 3:
        return not_applicable("no series")
    digests = {s.artifact for s in case.used_scenes}
    if len(set(numbers)) == 1 and numbers[0] not in (0.0, 1.0) and len(digests) != 1:
        return failed(
            "Every item has the same value; one image seems to stand for all dates.",
            measured=numbers[0],
            expected="different values",
            at=("/result/items",),
        )
    return passed("Items differ.", measured=len(set(numbers)), at=("/result/items",))


@check("estimate_in_bounds", "warn", catches=("scale or offset twice or never",), reads=("/result/value", "/result/layers"))
def estimate_in_bounds(case: Case) -> Finding:
    """A mean or median lies between the least and greatest valid pixel of its raster."""
    ref = case.layer("raster")
    if (
        case.kind != "statistic"
        or case.value is None
        or ref is None
        or not case.is_small(ref)
        or statistic_of(case) not in ("mean", "median")
        or case.nodes.get(case.output, {}).get("op") == "raster.summarize.series_analysis"
    ):
        return not_applicable("no mean of a raster")
    try:
        values = case.valid_values(ref)
    except LayerUnreadableError:
        return not_applicable("the raster cannot be read")
    if values.size == 0:
        return not_applicable("no valid pixel")
    low, high = float(values.min()), float(values.max())
    if not low - 1e-6 <= case.value <= high + 1e-6:
        return failed(
            "A mean outside of its data.", measured=case.value, expected=[low, high], at=("/result/value", "/result/layers")
        )
    return passed("The mean lies within its data.", measured=case.value, expected=[low, high], at=("/result/value",))


__all__ = ["estimate", "otsu", "slope_per_year"]
