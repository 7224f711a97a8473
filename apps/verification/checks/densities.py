"""Consistency of densities: so many things on so much ground, both worked out again."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import shape

from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2
from apps.core.geo.raster import CENTRE_NUDGE
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.checks.masks import pieces
from apps.verification.checks.veils import flags_told
from apps.verification.ground import CannotPlaceError, inside_of, on_plane, place, placed_region, source_of
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError, outline_px
from apps.verification.quality import flagged, quality_band_of
from apps.verification.scattered import places_of
from apps.verification.sights import step_of
from apps.verification.units import dimension, factor


def is_density(case: Case) -> bool:
    """Whether a measure's call asks for a density."""
    spec = case.arguments.get("spec")
    return case.observation.tool == "measure" and isinstance(spec, dict) and spec.get("metric") == "density"


@check(
    "density_recomputes",
    catches=("wrong denominator", "wrong unit", "wrong GSD", "degrees as metres", "fill counted as data", "stale artifact"),
    limits=("rel_tolerance", "seen_ground"),
    reads=("/result/value", "/result/unit", "/evidence/intermediate/numerator", "/evidence/intermediate/denominator"),
    family="consistency",
)
def density_recomputes(case: Case) -> Finding:
    """A density is the number of things, counted again, over the ground that was seen (or the reference's), measured again."""
    spec: Any = case.arguments.get("spec")
    if not is_density(case) or case.kind != "ratio" or case.value is None:
        return not_applicable("no density")
    unit = case.observation.result.unit
    at = ("/result/value", "/result/unit", "/evidence/intermediate")
    per = factor(unit)
    if dimension(unit) != "density" or per is None:
        return not_applicable("a unit of another kind, which is another check's finding")
    if spec.get("of", "count") != "count":
        return failed(
            "A density counts things; areas over an area are a share.",
            measured=spec.get("of"),
            expected="count",
            at=("/arguments/spec/of",),
        )
    part, whole = case.evidence_number("intermediate", "numerator"), case.evidence_number("intermediate", "denominator")
    if part is None or whole is None:
        return inconclusive("A density needs its numerator and denominator on record.", at=at[2:])
    try:
        low, high = _things(case, spec)
        ground, seen, tolerance = _ground(case, spec)
    except (CannotPlaceError, CannotLookError, LayerUnreadableError) as why:
        return inconclusive(f"The density cannot be worked out again: {why}.", at=at)
    if not low <= part <= high:
        return failed("So many things are not there.", measured=part, expected=[low, high] if low != high else low, at=at[2:])
    if ground <= 0:
        return failed("The density is over no ground.", measured=whole, expected="> 0", unit="m2", at=at[2:])
    if seen is not None and whole > seen * (1 + case.limits.seen_ground):
        return failed(
            "The density is over ground that holds no pixel to see: fill was counted.",
            measured=whole,
            expected=seen,
            unit="m2",
            at=at[2:],
        )
    if not any(case.is_same(g, whole, tolerance) for g in (ground, seen) if g is not None):
        return failed(
            "The density is over another area.", measured=whole, expected=ground if seen is None else seen, unit="m2", at=at[2:]
        )
    mine = part / whole / per
    if not case.is_same(mine, case.value):
        return failed(
            "The density is not its things over its ground, in its unit.",
            measured=case.value,
            expected=mine,
            unit=unit,
            at=at[:2],
        )
    return passed("So many things on so much ground, worked out again.", measured=case.value, expected=mine, unit=unit, at=at)


def _layer(case: Case, source: dict[str, Any]) -> LayerRef:
    """The layer that a source names. CannotPlaceError where it is not at hand."""
    asked = source.get("layer")
    parent = next((p for p in case.parents if isinstance(asked, dict) and p.id == asked.get("observation")), None)
    if parent is None or not isinstance(asked, dict):
        raise CannotPlaceError("the source's observation is not at hand")
    kinds = ("boxes", "polygons", "points") if source.get("mode") == "objects" else ("mask",)
    label = str(asked.get("label") or "")
    held = [r for r in parent.result.layers if r.kind in kinds and not r.is_aside and label in ("", r.label)]
    named = [r for r in held if r.label.lower() == str(source.get("name")).lower()]
    found = (named or held)[:1]
    if not found:
        raise CannotPlaceError("the source's layer is not at hand")
    return found[0]


def _scene(case: Case, ref: LayerRef) -> SceneInfo:
    scene = case.scenes.get(ref.source_scene_id or "") or (next(iter(case.scenes.values())) if len(case.scenes) == 1 else None)
    if scene is None:
        raise CannotPlaceError("the scene of the things is not known")
    return scene


def _region_px(case: Case, grid: Grid) -> Any:
    """The call's region in pixels of a grid; None without one."""
    if not case.is_limited or case.region is None:
        return None
    geojson, crs = case.region
    return outline_px(shape(geojson["geometry"] if geojson.get("type") == "Feature" else geojson), crs, grid)


def _things(case: Case, spec: dict[str, Any]) -> tuple[int, int]:
    """(least, most) things that are counted: two numbers where corners of a mask may join pieces or not."""
    source = source_of(case, str(spec.get("subject") or "subject"))
    relation, named = str(spec.get("relation") or ""), str(spec.get("reference") or "")
    if relation and not (relation == "inside" and named and spec.get("denominator") == "reference"):
        raise CannotPlaceError(f"things that stand in the relation {relation} over other ground are not followed")
    if relation:
        one, other = on_plane(place(case, source), place(case, source_of(case, named)))
        outline = shapely.union_all(np.array(other, dtype=object))
        shapely.prepare(outline)
        n = int(shapely.intersects(outline, shapely.centroid(np.array(one, dtype=object))).sum()) if one else 0
        # a middle on the outline itself may fall either way
        room = 1 if source.get("mode") != "extent" else 0
        return max(0, n - room), n + room
    if source.get("mode") == "extent":
        placed = place(case, source)
        if case.is_limited:
            if case.region is None or case.region[1] != "EPSG:4326":
                raise CannotPlaceError("a region that is not followed here")
            placed = inside_of(placed, case.region[0])
        return len(placed.shapes), len(placed.shapes)
    ref = _layer(case, source)
    if ref.kind == "mask":
        if ref.grid is None or not case.is_small(ref):
            raise CannotPlaceError("the mask is too large to be counted again")
        mask, valid = case.mask(ref)
        keep: NDArray[np.bool_] = np.asarray(mask & valid)
        region = _region_px(case, ref.grid)
        if region is not None:
            keep = np.asarray(keep & _inside(region, ref.grid.width, ref.grid.height))
        return pieces(keep, corners=True), pieces(keep, corners=False)
    features = [shape(f["geometry"]) for f in case.features(ref)]
    if ref.crs != "image" and case.is_limited:
        raise CannotPlaceError("a region over things on the map is not followed here")
    region = _region_px(case, ref.grid or _scene(case, ref).grid)
    if region is not None:
        shapely.prepare(region)
        features = [g for g in features if region.contains(shapely.centroid(g))]
    return len(features), len(features)


def _inside(region: Any, width: int, height: int) -> NDArray[np.bool_]:
    """(rows, columns): True where a pixel's centre lies in an outline in pixels."""
    return _contains(region, *np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5))


def _contains(region: Any, xs: NDArray[Any], ys: NDArray[Any]) -> NDArray[np.bool_]:
    shapely.prepare(region)
    return np.asarray(shapely.contains_xy(region, xs + CENTRE_NUDGE[0], ys + CENTRE_NUDGE[1]), dtype=bool)


def _ground(case: Case, spec: dict[str, Any]) -> tuple[float, float | None, float]:
    """(m² of what is divided by, m² of it that could be seen, tolerance). Seen is None for what a reference outlines.
    CannotPlaceError or CannotLookError where that cannot be told."""
    named = str(spec.get("reference") or "")
    if spec.get("denominator") == "reference":
        given = source_of(case, named)
        if given.get("mode") == "regions":
            ref = _layer(case, given)
            if ref.grid is None or not case.is_small(ref):
                raise CannotPlaceError("the mask of the reference is too large to be measured again")
            mask, valid = case.mask(ref)
            return area_of_mask_m2(mask & valid, ref.grid, _gsd(case, given, ref)).area_m2, None, 4e-3
        (flat,) = on_plane(place(case, given))
        return float(shapely.area(np.array(flat, dtype=object)).sum()), None, 4e-3
    source = source_of(case, str(spec.get("subject") or "subject"))
    if source.get("mode") == "extent":
        if not case.is_limited or case.region is None or case.region[1] == "image":
            raise CannotPlaceError("things of a vector file have no ground of their own to divide by")
        (flat,) = on_plane(placed_region(*case.region))
        return float(shapely.area(np.array(flat, dtype=object)).sum()), None, 4e-3
    ref = _layer(case, source)
    if ref.kind == "mask" and ref.grid is not None and case.is_small(ref):
        _, valid = case.mask(ref)
        grid, step = ref.grid, 1
        region = _region_px(case, grid)
        asked = np.ones(valid.shape, dtype=bool) if region is None else _inside(region, grid.width, grid.height)
    else:
        grid, step, asked, valid = _looked_at(case, source, ref)
    gsd = _gsd(case, source, ref)
    coarse, pixel = grid, gsd
    if step > 1:
        across, down = grid.width / valid.shape[1], grid.height / valid.shape[0]
        a, b, c, d, e, f = grid.transform
        coarse = grid.model_copy(
            update={
                "transform": (a * across, b * down, c, d * across, e * down, f),
                "width": valid.shape[1],
                "height": valid.shape[0],
            }
        )
        pixel = None if gsd is None else gsd * math.sqrt(across * down)
    try:
        ground = area_of_mask_m2(asked, coarse, pixel).area_m2
        seen = area_of_mask_m2(asked & valid, coarse, pixel).area_m2
    except ValueError as error:
        raise CannotPlaceError(str(error)) from error
    if step == 1:
        return ground, seen, 5e-3
    n = max(1, int(np.count_nonzero(asked & valid)))
    return ground, seen, max(2e-2, case.limits.sample_sigmas * math.sqrt((1 - n / asked.size) / n))


def _looked_at(case: Case, source: dict[str, Any], ref: LayerRef) -> tuple[Grid, int, NDArray[np.bool_], NDArray[np.bool_]]:
    """(grid of what the region spans of the scene, side of the cells in each of which one pixel is looked at, which of those were
    asked for, which could be seen)."""
    scene = _scene(case, ref)
    window, region = (0, 0, scene.grid.width, scene.grid.height), _region_px(case, scene.grid)
    if region is not None:
        left, top, right, bottom = region.bounds
        x0, y0 = max(0, math.floor(left)), max(0, math.floor(top))
        x1, y1 = min(scene.grid.width, math.ceil(right)), min(scene.grid.height, math.ceil(bottom))
        if x1 <= x0 or y1 <= y0:
            raise CannotLookError("the region lies outside of the scene")
        window = (x0, y0, x1 - x0, y1 - y0)
    step = step_of(case, window)
    places, look = places_of(window, step), look_of(case)
    asked = np.ones(places.rows.shape, dtype=bool)
    if region is not None:
        asked = _contains(region, places.columns + window[0] + 0.5, places.rows + window[1] + 0.5)
    valid = look.pixels(scene, tuple(b.index for b in scene.bands), window).valid.any(axis=0)
    return scene.grid.window(*window), step, asked, np.asarray(valid & ~_hidden(case, source, ref, window))


def _hidden(case: Case, source: dict[str, Any], ref: LayerRef, window: Window) -> NDArray[np.bool_]:
    """Where the quality band hides the ground, of the pixels looked at, if the things were found without what it hides."""
    scene, asked = _scene(case, ref), source.get("layer")
    parent = next((p for p in case.parents if isinstance(asked, dict) and p.id == asked.get("observation")), None)
    band = quality_band_of(scene.bands)
    flags = None if parent is None else flags_told(Case(parent, case.question), scene)
    nothing = np.zeros(places_of(window, step_of(case, window)).rows.shape, dtype=bool)
    if flags is None or band is None:
        return nothing
    read = look_of(case).pixels(scene, (band.index,), window)
    found = flagged(read.data[0], band.scheme, flags)
    return nothing if found is None else np.asarray(found | ~read.valid[0])


def _gsd(case: Case, source: dict[str, Any], ref: LayerRef) -> float | None:
    scene = case.scenes.get(ref.source_scene_id or "") or (next(iter(case.scenes.values())) if len(case.scenes) == 1 else None)
    known = scene.effective_gsd_m if scene is not None else None
    given = source.get("gsd_m")
    return known if known is not None else float(given) if isinstance(given, (int, float)) else None
