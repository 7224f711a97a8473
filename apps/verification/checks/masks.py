"""Consistency of figures of a mask: area, share, pieces and length taken again from its pixels."""

from __future__ import annotations

import math
import re

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage
from shapely.geometry import shape

from apps.core.geo.grid import Grid, geod_of, transformer
from apps.core.geo.measures import MaskArea, area_of_mask_m2, geodesic_area_m2
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.look import OPS
from apps.verification.measured import (
    gsd_of,
    has_relation,
    limits_the_count,
    mask_in_call,
    measured_mask,
    pixel_m,
    source_layer,
    strips,
    weights_of_node,
)
from apps.verification.pixel_areas import areas_of
from apps.verification.planes import CannotLookError
from apps.verification.ribbons import STEP_ERROR, ribbons_of, tangents_of
from apps.verification.units import dimension, factor, to_si


@check(
    "area_recomputes",
    catches=("degrees as metres", "wrong GSD", "wrong unit", "stale artifact", "rounded to zero"),
    limits=("area_rel_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/layers"),
    family="consistency",
)
def area_recomputes(case: Case) -> Finding:
    """The area computed here from the named mask and its grid, on the ellipsoid or an equal-area grid, is the value."""
    if case.kind != "area" or case.value is None or has_relation(case):
        return not_applicable("no plain area")
    ref = measured_mask(case, of_any_size=True)
    mine = to_si(case.value, case.observation.result.unit)
    if ref is None or ref.grid is None or mine is None:
        return _area_of_polygons(case, mine)
    if dimension(case.observation.result.unit) == "pixel":
        return not_applicable("an area in pixels")
    parts: list[MaskArea] = []
    try:
        for keep, _, grid in strips(case, ref):
            parts.append(area_of_mask_m2(keep, grid, gsd_of(case, ref)))
    except LayerUnreadableError as error:
        return inconclusive(f"The mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    except ValueError as error:
        return inconclusive(f"The area cannot be recomputed: {error}.", at=("/inputs/0/gsd_m",), severity="warn")
    truth, n_px, how = sum(p.area_m2 for p in parts), sum(p.n_px for p in parts), parts[0].method
    if not case.is_same(truth, mine, case.limits.area_rel_tolerance):
        return failed(
            f"The mask's {n_px:,} pixels make another area ({how}).",
            measured=mine,
            expected=truth,
            unit="m2",
            at=("/result/value", "/result/unit", "/result/layers"),
        )
    return passed(
        f"The mask's {n_px:,} pixels make this area ({how}).",
        measured=mine,
        expected=truth,
        unit="m2",
        at=("/result/value", "/result/layers"),
    )


def _area_of_polygons(case: Case, mine: float | None) -> Finding:
    ref = source_layer(case, ("polygons",))
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
    family="consistency",
)
def share_recomputes(case: Case) -> Finding:
    """The share of True among valid pixels of the named mask is the value: by area where pixels differ in it by over 1 %."""
    spec = case.arguments.get("spec")
    named = spec.get("denominator", "") if isinstance(spec, dict) else "valid"
    ref = measured_mask(case, of_any_size=True)
    is_density = isinstance(spec, dict) and spec.get("metric") == "density"
    if is_density or case.kind != "ratio" or case.value is None or ref is None:
        return not_applicable("no share of a mask")
    if named not in ("", "valid") or has_relation(case):
        return not_applicable("another denominator was asked")
    if ref.grid is None:
        return not_applicable("the mask has no grid")
    try:
        weights, wrong = weights_of_node(case, ref.grid)
    except CannotLookError as why:
        return not_applicable(str(why))
    if wrong is not None:
        return wrong
    n_whole = 0
    true = all_of_it = 0.0
    try:
        for keep, whole, grid in strips(case, ref):
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
    family="consistency",
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


@check(
    "pieces_recount",
    catches=("merged or duplicated detections", "stale artifact"),
    limits=("max_layer_px",),
    reads=("/result/value",),
    family="consistency",
)
def pieces_recount(case: Case) -> Finding:
    """A count over a mask is the number of its pieces, joined as is on record; where nothing is told, whichever way corners are
    joined."""
    if case.observation.tool == "perceive":
        return _pieces_found(case)
    ref = measured_mask(case)
    if case.kind != "count" or case.observation.tool != "measure" or case.value is None or ref is None or limits_the_count(case):
        return not_applicable("no count of a mask's pieces")
    try:
        keep = mask_in_call(case, ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    by_corner, by_side = pieces(keep, corners=True), pieces(keep, corners=False)
    joined = connectivity_told(case)
    if joined is not None:
        by_corner, by_side = (by_corner, by_corner) if joined == 8 else (by_side, by_side)
    if not by_corner <= case.value <= by_side:
        return failed(
            "The mask has another number of pieces.", measured=case.value, expected=[by_corner, by_side], at=("/result/value",)
        )
    return passed("The mask has so many pieces.", measured=case.value, expected=[by_corner, by_side], at=("/result/value",))


def _pieces_found(case: Case) -> Finding:
    """Pieces that are told of a mask that was found: no more than it has, of the sizes that it has."""
    ref, joined = case.layer("mask"), connectivity_told(case)
    listed, at = case.evidence("intermediate", "pieces"), ("/evidence/intermediate/pieces", "/result/layers")
    if ref is None or joined is None or not isinstance(listed, list) or not case.is_small(ref):
        return not_applicable("no pieces are told of a mask")
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    labels, _ = ndimage.label(mask & valid, structure=np.ones((3, 3)) if joined == 8 else None)
    sizes = sorted((int(n) for n in np.bincount(labels.ravel())[1:]), reverse=True)
    told = sorted((n for p in listed if isinstance(p, dict) and (n := number_of(p.get("px"))) is not None), reverse=True)
    if told and told != sizes[: len(told)]:
        return failed(
            f"The mask has other pieces than are told of it, joined as is on record ({joined} neighbours).",
            measured=[len(told), *told[:5]],
            expected=[len(sizes), *sizes[:5]],
            unit="px",
            at=at,
        )
    return passed("The mask has the pieces that are told of it.", measured=len(told), expected=len(sizes), at=at)


def connectivity_told(case: Case) -> int | None:
    """4 or 8, the neighbours that the record of the mask, or of what counts it, takes for joined; None where it tells neither."""
    for one in (case.observation, *case.parents):
        for part in (one.evidence.intermediate, one.evidence.source):
            method = part.get("method")
            told = part.get("connectivity", method.get("connectivity") if isinstance(method, dict) else None)
            if told in (4, 8):
                return int(str(told))
        words = re.match(r"([48])-connected", str(one.evidence.intermediate.get("counted")))
        if words is not None:
            return int(words[1])
    return None


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
    family="consistency",
)
def length_recomputes(case: Case) -> Finding:
    """The length of a mask follows from area and outline of its pieces as well, and they are longer than wide. What is a little
    off is warned of (rough edges); what is twice or half blocks. Where the length in pixels is on record, the metres of a pixel
    are those of a step along the mask's outline, with its own direction and place on the ellipsoid."""
    ref = source_layer(case, ("mask",))
    if case.kind != "length" or case.observation.tool != "measure" or case.value is None or has_relation(case) or ref is None:
        return not_applicable("no plain length of a mask")
    mine = to_si(case.value, case.observation.result.unit) if dimension(case.observation.result.unit) == "length" else None
    if ref.grid is None or not case.is_small(ref) or mine is None:
        return not_applicable("a mask or unit that is not followed")
    size = pixel_m(ref.grid, gsd_of(case, ref))
    try:
        held = mask_in_call(case, ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    if size is None:
        return not_applicable("the size of its pixels is not known")
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
        step = _step_along_m(held, ref.grid, gsd_of(case, ref))
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


@check(
    "boolean_recomputes",
    catches=("empty layer called zero", "stale artifact"),
    reads=("/result/value", "/result/layers"),
    family="consistency",
)
def boolean_recomputes(case: Case) -> Finding:
    """Yes or no recomputed from the measured layer itself and the comparison asked."""
    spec = case.arguments.get("spec")
    if (
        case.kind != "boolean"
        or case.observation.tool != "measure"
        or not isinstance(case.observation.result.value, bool)
        or not isinstance(spec, dict)
        or has_relation(case)
    ):
        return not_applicable("no boolean over one layer")
    figure: float | None = None
    ref = measured_mask(case)
    try:
        if ref is not None and ref.grid is not None:
            keep = mask_in_call(case, ref)
            if spec.get("of", "count") == "area":
                figure = area_of_mask_m2(keep, ref.grid, gsd_of(case, ref)).area_m2
            else:
                figure = float(pieces(keep, corners=True))
        else:
            vector = source_layer(case, ("boxes", "polygons", "points"))
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


def _step_along_m(mask: NDArray[np.bool_], grid: Grid, gsd_m: float | None) -> float:
    """Mean length in m of a step of one pixel along the outline of a mask, each where it lies."""
    if grid.crs is None:
        return gsd_m or 0.0
    places, along = tangents_of(mask)
    t = transformer(grid.crs, "EPSG:4326")
    a, b, c, d, e, f = grid.transform
    ends = [t.transform(a * x + b * y + c, d * x + e * y + f) for x, y in ((places + k * along).T for k in (-0.5, 0.5))]
    return float(np.mean(geod_of("EPSG:4326").inv(*ends[0], *ends[1])[2]))
