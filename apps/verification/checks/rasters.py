"""Consistency of figures of a raster or class map: worked out again from the pixels of the named layer."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.observation import LayerRef
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
    told_of,
)
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import statistic_of
from apps.verification.estimates import statistic_value
from apps.verification.look import Look
from apps.verification.measured import THINNED, inside_of_call, may_be_thinned, told_weights, weights_of_node
from apps.verification.pixel_areas import areas_of
from apps.verification.planes import CannotLookError
from apps.verification.ribbons import moran
from apps.verification.units import factor


@check(
    "statistic_recomputes",
    catches=("fill counted as data", "wrong statistic", "stale artifact", "NaN"),
    limits=("rel_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/layers"),
    family="consistency",
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
    if may_be_thinned(case, ref):
        return not_applicable(THINNED)
    try:
        raster = case.raster(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The raster cannot be read: {error}.", at=("/result/layers",), severity="warn")
    keep = raster.valid[0]
    inside = inside_of_call(case, ref)
    whole = inside is None or inside.shape != keep.shape
    try:
        weights, wrong = weights_of_node(case, ref.grid) if ref.grid is not None and statistic == "mean" else ("pixels", None)
    except CannotLookError as why:
        return not_applicable(str(why))
    if wrong is not None:
        return wrong
    seen = keep if whole or inside is None else keep & inside
    if whole and len(raster.data) == 1:
        values = case.valid_values(ref).astype(np.float64)
    else:
        values = raster.data[0][seen].astype(np.float64)
    truth = statistic_value(values, statistic)
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
    family="consistency",
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
    if may_be_thinned(case, ref):
        return not_applicable(THINNED)
    try:
        valid = case.raster(ref).valid[0] if ref.kind == "raster" else case.mask(ref)[1]
    except LayerUnreadableError:
        return not_applicable("the layer cannot be read")
    inside = inside_of_call(case, ref)
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


def _shares_by_area(case: Case, ref: LayerRef) -> dict[int, float] | None:
    """Share of each class of a class map by area; None where its pixels count alike. Raises CannotLookError."""
    assert ref.grid is not None
    told, _ = told_weights(case, case.output)
    if Look(case).weights(ref.grid, "share", "auto", told) != "area":
        return None
    raster = case.raster(ref)
    seen, inside = raster.valid[0], inside_of_call(case, ref)
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
    family="consistency",
)
def classes_recount(case: Case) -> Finding:
    """Each class of a table of classes has the pixels that the class map has of it, counted again; its share and area follow."""
    if case.nodes.get(case.output, {}).get("op") != "raster.summarize.class_areas":
        return not_applicable("no table of classes")
    ref = next((r for r in case.observation.result.layers if r.grid is not None and r.kind in ("classes", "raster")), None)
    if ref is None or ref.grid is None or not case.is_small(ref):
        return not_applicable("no class map that can be counted")
    if may_be_thinned(case, ref):
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
    "moran_recomputes",
    catches=("stale artifact", "fill counted as data", "wrong statistic"),
    limits=("rel_tolerance", "p_value_tolerance", "max_layer_px"),
    reads=("/result/value", "/result/layers", "/evidence/intermediate/nodes"),
    family="consistency",
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
    inside = inside_of_call(case, refs[0])
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
    "estimate_in_bounds",
    "warn",
    catches=("scale or offset twice or never",),
    reads=("/result/value", "/result/layers"),
    family="consistency",
)
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
