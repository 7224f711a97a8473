"""Consistency of figures of zones with the source's own pixels in the zones' own outlines."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2
from apps.core.geo.raster import CENTRE_NUDGE
from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.source import areas_by_row, closeness, is_near
from apps.verification.cuts import zone_name
from apps.verification.estimates import Estimate, estimate
from apps.verification.ground import grown_by, part_of
from apps.verification.look import Look, look_of
from apps.verification.measured import told_weights, wrong_weights
from apps.verification.pixel_areas import areas_of, weights_due
from apps.verification.planes import CannotLookError, Plane, outline_px
from apps.verification.scattered import places_of
from apps.verification.sights import scene_of_node, step_of
from apps.verification.units import to_si


@check(
    "zonal_matches_source",
    catches=("another scene's result", "leaked or shifted mask", "scale or offset twice or never", "degrees as metres"),
    limits=("full_look_px",),
    reads=("/result/value", "/result/items", "/inputs"),
    family="consistency",
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
        told, place = told_weights(case, case.output)
        weights = _weights_of_zones(scene.grid, outlines, statistic, str(params.get("weights") or "auto"), told)
        if statistic in ("mean", "share") and (wrong := wrong_weights(told, weights, place)) is not None:
            return wrong
        for i, item in chosen:
            called = outlines.get(str(item.get("zone")))
            if not called:
                return failed("A figure is that of a zone that there is not.", measured=str(item.get("zone"))[:80], at=at)
            value = float(number_of(item["value"]) or 0.0)
            if statistic == "area":
                si = to_si(value, str(params.get("unit") or "m2"))
                value = math.nan if si is None else si
            # of zones that are called alike each row is that of another
            truths = [_zone_from_source(look, scene, source, outline, statistic, weights) for outline in called]
            nearest = max(range(len(called)), key=lambda k: closeness(value, truths[k]))
            truth = truths[nearest]
            outline = called.pop(nearest)
            plane, held, window, sampled = _in_zone(look, scene, source, outline)
            seen += 1
            worst = min(worst, closeness(value, truth))
            if not is_near(case, value, truth, "mean" if statistic in ("area", "share") else statistic):
                return failed(
                    f"The figure of {str(item.get('zone'))[:60]} is not what the source's pixels in it give.",
                    measured=value,
                    expected=truth.value,
                    unit="m2" if statistic == "area" else case.observation.result.unit,
                    at=(f"/result/items/{i}/value", "/inputs"),
                    scores={"look_agreement": worst},
                )
            unlike = (
                _row_unlike(item, plane.data[held]) or _place_unlike(case, item, outline, scene.grid, window)
                if sampled == 1
                else None
            )
            if unlike is not None:
                return failed(
                    f"The {unlike[0]} of {str(item.get('zone'))[:60]} is not that of the source's pixels in it.",
                    measured=unlike[1],
                    expected=unlike[2],
                    at=(f"/result/items/{i}/{unlike[0]}", "/inputs"),
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


def zones_px(case: Case, params: dict[str, Any], grid: Grid) -> dict[str, list[BaseGeometry]]:
    """Name → outlines in pixels of a grid, of the zones that a call names; mostly one a name. CannotLookError where they have no
    place there."""
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
            return {name: [shapely.difference(frame, outline_px(shapely.union_all([g for _, g in held]), crs, grid))]}
        if is_group:
            names = dict.fromkeys(n for n, _ in held)
            held = [(name, shapely.union_all([g for n, g in held if n == name])) for name in names]
        if params.get("dissolve"):
            name = held[0][0] if len(held) == 1 else f"{len(held)} zones together"
            held = [(name, shapely.union_all([g for _, g in held]))]
        out: dict[str, list[BaseGeometry]] = {}
        for n, g in held:
            out.setdefault(n, []).append(outline_px(g, crs, grid))
        return out
    except CannotLookError:
        raise
    except Exception as error:
        raise CannotLookError(f"the zones cannot be read ({type(error).__name__})") from error


def _weights_of_zones(grid: Grid, outlines: dict[str, list[BaseGeometry]], statistic: str, asked: str, told: str) -> str:
    """Whether pixels count by ``area`` or alike (``pixels``) in the figures of zones, by the rows and columns that all span."""
    if grid.crs is None or statistic not in ("mean", "share"):
        return "pixels"
    frame = shapely.box(0, 0, grid.width, grid.height)
    bounds = np.array([o.bounds for held in outlines.values() for o in held if not o.is_empty and o.intersects(frame)])
    if not len(bounds):
        return "pixels"
    left, top = (max(0, math.floor(v)) for v in bounds[:, :2].min(axis=0))
    right, bottom = (min(n, math.ceil(v)) for n, v in zip((grid.width, grid.height), bounds[:, 2:].max(axis=0), strict=True))
    return weights_due(grid, (left, top, right - left, bottom - top), asked, told)


# What a row of a zone may tell beside its value, of its valid pixels.
_BESIDE: dict[str, Callable[[NDArray[np.float64]], float]] = {"n_valid": np.size, "min": np.min, "max": np.max, "std": np.std}


def _row_unlike(item: dict[str, Any], values: NDArray[np.float64]) -> tuple[str, float, float] | None:
    """(name, told, truth) of the first figure beside the value that is not the pixels' own; None where all are."""
    for name, of in _BESIDE.items():
        told = number_of(item.get(name))
        if told is None or not values.size:
            continue
        truth = float(of(values))
        # tools may hold products in single precision
        if abs(told - truth) > max(1e-5 * max(1.0, abs(truth)), 1e-4 * float(np.ptp(values)) if name == "std" else 0.0):
            return name, told, truth
    return None


def _place_unlike(
    case: Case, item: dict[str, Any], outline: BaseGeometry, grid: Grid, window: tuple[int, int, int, int]
) -> tuple[str, float, float] | None:
    """(name, told, truth) where a row tells another number of pixels in its zone, or another share of it on the raster."""
    n, share = number_of(item.get("n_px")), number_of(item.get("on_raster"))
    if n is not None:
        x0, y0, width, height = window
        xs, ys = np.meshgrid(x0 + np.arange(width) + 0.5 + CENTRE_NUDGE[0], y0 + np.arange(height) + 0.5 + CENTRE_NUDGE[1])
        inside = int(shapely.contains_xy(outline, xs, ys).sum())
        # tools may take pixels on the outline either way
        if abs(n - inside) > max(1.0, 0.5 * outline.length**0.5) and (n > inside or case.region is None):
            return "n_px", n, float(inside)
        if n < (number_of(item.get("n_valid")) or 0):
            return "n_px", n, float(inside)
    if share is not None and outline.area > 0:
        truth = shapely.intersection(outline, shapely.box(0, 0, grid.width, grid.height)).area / outline.area
        if abs(share - truth) > 0.01:
            return "on_raster", share, float(truth)
    return None


def _in_zone(
    look: Look, scene: SceneInfo, source: str, outline: BaseGeometry
) -> tuple[Plane, NDArray[np.bool_], tuple[int, int, int, int], int]:
    """(plane, which of its pixels are valid with their centre in an outline and in the question's region, window, step)."""
    grid = scene.grid
    left, top, right, bottom = outline.bounds
    x0, y0 = max(0, math.floor(left)), max(0, math.floor(top))
    x1, y1 = min(grid.width, math.ceil(right)), min(grid.height, math.ceil(bottom))
    if x1 <= x0 or y1 <= y0:
        raise CannotLookError("a zone lies outside of the scene")
    window = (x0, y0, x1 - x0, y1 - y0)
    step = step_of(look.case, window)
    plane, places = look.node(source, window), places_of(window, step)
    xs, ys = places.columns + x0 + 0.5 + CENTRE_NUDGE[0], places.rows + y0 + 0.5 + CENTRE_NUDGE[1]
    shapely.prepare(outline)
    seen = plane.valid & shapely.contains_xy(outline, xs, ys)
    region = look.region(grid, window)
    if region is not None:
        seen &= region
    return plane, seen, window, step


def _zone_from_source(
    look: Look, scene: SceneInfo, source: str, outline: BaseGeometry, statistic: str, weights: str = "pixels"
) -> Estimate:
    """A statistic, share (of pixels that are True) or area in m² of the source's pixels whose centre lies in an outline, and in
    the region of the question; a mean or share of pixels that count by their area or alike."""
    grid = scene.grid
    plane, seen, window, step = _in_zone(look, scene, source, outline)
    weighed = areas_of(grid, window, step)[seen] if weights == "area" and statistic in ("mean", "share") else None
    if statistic not in ("share", "area"):
        return estimate(plane.data[seen], statistic, step, weighed)
    share = estimate((plane.data[seen] > 0).astype(np.float64), "mean", step, weighed)
    if statistic == "share":
        return share
    if step == 1:
        area = area_of_mask_m2(seen & (plane.data > 0), grid.window(*window), scene.gsd_m).area_m2
        return Estimate(area, True, 0.0, share.n_valid, max(area, 1.0), 0.0, area)
    areas = areas_by_row(grid, scene.gsd_m, window, step)
    pixel, n = float(areas.mean()), share.n_valid
    # over the whole window, since how much of it the zone covers is known no better
    share = estimate(((seen & (plane.data > 0)) * (areas / pixel)).ravel(), "mean", step)
    whole = pixel * window[2] * window[3]
    return Estimate(whole * share.value, False, whole * share.error, n, whole * share.spread, 0.0, whole)
