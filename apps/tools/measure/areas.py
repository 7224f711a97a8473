"""Areas: of masks and of polygons, on near equal-area grids or on the ellipsoid."""

from __future__ import annotations

import math

import numpy as np
import shapely
from pydantic import JsonValue
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.core.geo.measures import area_of_mask_m2, geodesic_area_m2
from apps.tools.contract import ToolContext
from apps.tools.measure.clip import ground_of
from apps.tools.measure.figure import Figure, widen_by_accuracy
from apps.tools.measure.layers import Measured, needs_length
from apps.tools.native import half_pixel_words, native_ratio
from apps.tools.outline import outline_areas_m2, outline_px


def _ratio(subject: Measured) -> float:
    """Pixels along a side of the coarsest one that was measured, of the bands that a layer was made of."""
    return native_ratio(subject.parent.inputs) if subject.parent is not None else 1.0


def measure_area(ctx: ToolContext, subject: Measured) -> Figure:
    """Area in m² of a mask, or of polygons with what overlaps counted once. ModelError where nothing of it has an area."""
    needs_length(subject)
    if subject.mask is not None:
        assert subject.valid is not None and subject.grid is not None
        found = area_of_mask_m2(subject.mask, subject.grid, subject.gsd_m)
        inner_m2, outer_m2, n_inner, n_outer = outline_areas_m2(subject.mask, subject.valid, subject.grid, subject.gsd_m)
        ratio = _ratio(subject)
        low, high = max(0.0, found.area_m2 - 0.5 * ratio * inner_m2), found.area_m2 + 0.5 * ratio * outer_m2
        n_valid = int(subject.valid.sum())
        return Figure(found.area_m2, low, high, None, {
            "method": found.method, "grid_m2": found.grid_m2, "geodesic_m2": found.geodesic_m2, "valid_px": n_valid,
            "edge_px": n_inner, "outer_edge_px": n_outer,
            "pixel_area_m2": found.area_m2 / found.n_px if found.n_px else None,
            "interval_from": half_pixel_words(ratio)}, found.n_px, n_valid, found.n_px)
    flat = [g.geom_type for g in subject.features or [] if g.area == 0]
    if flat and len(flat) == len(subject.features or []):
        raise ModelError(f"{subject.source.name} holds no polygon but {', '.join(sorted(set(flat)))}; lines and points have no "
                         "area. Ask for their number or their length, or within which distance of them.", code="BAD_ARGUMENT")
    if flat:
        ctx.log("warning", f"{len(flat)} of {len(subject.features or [])} features of {subject.source.name} are lines or points, "
                           "which have no area.")
    areas, evidence = feature_areas_m2(subject)
    union = _union_area(subject)
    total = float(sum(areas))
    if union is not None and union < total * (1 - 1e-9):
        evidence["overlap_m2"] = total - union
        evidence["sum_m2"] = total
        total = union
    if subject.layer is not None and subject.layer.kind == "boxes":
        ctx.log("warning", "The area is that of boxes, which is larger than that of the objects inside them.")
    items: list[dict[str, JsonValue]] = [{"feature": i, "area_m2": a} for i, a in enumerate(areas)]
    evidence["n_features"] = len(areas)
    px = float(sum(g.area for g in subject.features or [])) if subject.crs == "image" else None
    edge = _feature_edge_m2(subject)
    if edge:
        evidence["interval_from"] = half_pixel_words(_ratio(subject), "outlines")
        return Figure(total, max(0.0, total - edge), total + edge, None, evidence, total, None, None if px is None else round(px),
                      items)
    out = Figure(total, None, None, None, evidence, total, None, None if px is None else round(px), items)
    ground = ground_of(subject)
    outlines_m = sum(ground.length_m(g.boundary) for g in subject.features or [] if g.area > 0)
    widen_by_accuracy(ctx, out, [subject], lambda off: (off * outlines_m, off * outlines_m + math.pi * off * off * len(areas)))
    return out


def _feature_edge_m2(subject: Measured) -> float | None:
    """Half a measured pixel along all outlines, in m²; None for vectors without pixels."""
    if subject.crs != "image" or subject.gsd_m is None or not subject.features:
        return None
    if subject.source.mode == "extent":
        return None
    return float(sum(g.length for g in subject.features)) * 0.5 * _ratio(subject) * subject.gsd_m ** 2


def to_map(subject: Measured, geometry: BaseGeometry) -> tuple[BaseGeometry, str]:
    """The geometry in a CRS with its name."""
    if subject.crs != "image":
        return geometry, subject.crs
    grid = subject.grid
    assert grid is not None and grid.crs is not None
    a, b, c, d, e, f = grid.transform
    return shapely.transform(geometry, lambda p: np.stack(
        [a * p[:, 0] + b * p[:, 1] + c, d * p[:, 0] + e * p[:, 1] + f], axis=1)), grid.crs


def polygon_area_m2(subject: Measured, geometry: BaseGeometry) -> float:
    """Area of one polygon by the method that its grid allows."""
    if subject.crs == "image" and not subject.is_georeferenced:
        assert subject.gsd_m is not None
        return float(geometry.area) * subject.gsd_m ** 2
    if subject.crs == "image" and subject.grid is not None and subject.grid.area_method == "grid":
        assert subject.grid.grid_pixel_area_m2 is not None
        return float(geometry.area) * subject.grid.grid_pixel_area_m2
    placed, crs = to_map(subject, geometry)
    parts = [g for g in getattr(placed, "geoms", [placed]) if g.geom_type in ("Polygon", "MultiPolygon")]
    return float(sum(geodesic_area_m2(shapely.orient_polygons(g), crs) for g in parts))


def feature_areas_m2(subject: Measured) -> tuple[list[float], dict[str, JsonValue]]:
    """(area of each feature in m², by which method, and by both where the grid allows two)."""
    assert subject.features is not None
    method = "gsd" if not subject.is_georeferenced else (
        "grid" if subject.crs == "image" and subject.grid is not None and subject.grid.area_method == "grid" else "geodesic")
    areas = [polygon_area_m2(subject, g) for g in subject.features]
    evidence: dict[str, JsonValue] = {"method": method}
    if method == "grid":
        total = 0.0
        for g in subject.features:
            placed, crs = to_map(subject, g)
            total += geodesic_area_m2(shapely.orient_polygons(placed), crs)
        evidence |= {"grid_m2": float(sum(areas)), "geodesic_m2": total}
    return areas, evidence


def _union_area(subject: Measured) -> float | None:
    if not subject.features or len(subject.features) < 2:
        return None
    return polygon_area_m2(subject, shapely.union_all(subject.features))


def measure_area_or_px(ctx: ToolContext, subject: Measured) -> Figure:
    """For a ratio: areas where they are known, else pixels; a share needs no GSD."""
    if subject.is_georeferenced or subject.gsd_m is not None:
        return measure_area(ctx, subject)
    if subject.mask is not None:
        assert subject.valid is not None
        inner, outer = outline_px(subject.mask, subject.valid)
        n, half = int(subject.mask.sum()), 0.5 * _ratio(subject)
        return Figure(n, max(0.0, n - half * int(inner.sum())), n + half * int(outer.sum()), None,
                      {"method": "pixels", "edge_px": int(inner.sum()), "outer_edge_px": int(outer.sum()),
                       "interval_from": half_pixel_words(_ratio(subject))}, n, None, n)
    whole = shapely.union_all(subject.features or [])
    px, edge = float(whole.area), 0.5 * _ratio(subject) * float(whole.length)
    return Figure(px, max(0.0, px - edge) if edge else None, px + edge if edge else None, None, {
        "method": "pixels", "interval_from": half_pixel_words(_ratio(subject), "outlines") if edge else None},
        numerator=px, n_px=round(px))
