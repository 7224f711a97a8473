"""Cutting: the part of lines and polygons that lies inside of outlines, outside of them, or near to them.

Shapes of one CRS are cut in it, as their edges are straight there; others are brought to the subject's. What is left is measured
on the ellipsoid. Outlines that overlap are joined first, and polygons that overlap count once, so that no ground is counted
twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import shapely
from pydantic import JsonValue
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.core.geo.grid import transformer
from apps.core.geo.measures import geodesic_area_m2, geodesic_length_m
from apps.tools.execute.operators_tables import NO_NAME, buffered
from apps.tools.measure.accuracy import in_units
from apps.tools.measure.layers import NUMBER, Measured
from apps.tools.region import RegionMask, to_pixels

# Relations that cut: which part stays, and whether the outlines are grown by the distance first.
CUTS: dict[str, tuple[bool, bool]] = {
    "inside": (True, False), "outside": (False, False), "within": (True, True), "beyond": (False, True)}
_AREAS = ("Polygon", "MultiPolygon")
_LINES = ("LineString", "MultiLineString", "LinearRing")


@dataclass(frozen=True, slots=True)
class Ground:
    """Where shapes were brought together: a CRS, or the pixels of a picture without one (``gsd_m`` metres each)."""

    crs: str | None
    gsd_m: float | None = None

    def area_m2(self, geometry: BaseGeometry) -> float:
        """Geodesic area of the polygons of a geometry."""
        if self.crs is None:
            assert self.gsd_m is not None
            return sum(float(g.area) for g in parts(geometry, _AREAS)) * self.gsd_m ** 2
        return float(sum(geodesic_area_m2(g, self.crs) for g in parts(geometry, _AREAS)))

    def length_m(self, geometry: BaseGeometry) -> float:
        """Geodesic length of the lines of a geometry."""
        if self.crs is None:
            assert self.gsd_m is not None
            return sum(float(g.length) for g in parts(geometry, _LINES)) * self.gsd_m
        return float(sum(geodesic_length_m(g, self.crs) for g in parts(geometry, _LINES)))


def parts(geometry: BaseGeometry, kinds: Sequence[str]) -> list[BaseGeometry]:
    """The simple or multiple geometries of these kinds in one, out of collections too; empty ones are left out."""
    if geometry.geom_type == "GeometryCollection":
        return [p for g in cast(Any, geometry).geoms for p in parts(g, kinds)]
    return [] if geometry.is_empty or geometry.geom_type not in kinds else [geometry]


def ground_of(subject: Measured) -> Ground:
    """Where the subject's shapes are cut and measured: its own CRS."""
    if subject.crs != "image":
        return Ground(subject.crs)
    if subject.grid is not None and subject.grid.crs is not None:
        return Ground(subject.grid.crs)
    return Ground(None, subject.gsd_m)


def brought_to(ground: Ground, source: Measured, geometries: Sequence[BaseGeometry]) -> list[BaseGeometry]:
    """A source's shapes on that ground. ModelError (NEEDS_CRS) where they have no place there."""
    if ground.crs is None:
        if source.crs != "image" or source.is_georeferenced:
            raise ModelError("Some layers have a CRS and some do not; they cannot be measured against each other.",
                             code="NEEDS_CRS", needs={"crs": True})
        return list(geometries)
    crs, grid = source.crs, source.grid
    if crs == "image":
        if grid is None or grid.crs is None:
            raise ModelError("Some layers have a CRS and some do not; they cannot be measured against each other.",
                             code="NEEDS_CRS", needs={"crs": True})
        a, b, c, d, e, f = grid.transform
        geometries = [shapely.transform(g, lambda p: np.column_stack(
            (a * p[:, 0] + b * p[:, 1] + c, d * p[:, 0] + e * p[:, 1] + f))) for g in geometries]
        crs = grid.crs
    if crs == ground.crs:
        return list(geometries)
    t = transformer(crs, ground.crs)
    return [shapely.transform(_fine(g), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1]))) for g in geometries]


def _fine(geometry: BaseGeometry) -> BaseGeometry:
    """Edges are straight in their own CRS: more points on each keep them so in another."""
    x0, y0, x1, y1 = geometry.bounds
    span = max(x1 - x0, y1 - y0)
    return shapely.segmentize(geometry, span / 64) if span > 0 else geometry


def outlines(ground: Ground, reference: Measured, shapes: Sequence[BaseGeometry], relation: str,
             distance_m: float) -> list[BaseGeometry]:
    """The reference's shapes as outlines to cut at, on that ground: as they are, or grown by the distance."""
    if CUTS[relation][1]:
        if ground.crs is None:
            assert ground.gsd_m is not None
            return [g.buffer(distance_m / ground.gsd_m, quad_segs=32) for g in brought_to(ground, reference, shapes)]
        own = ground_of(reference)
        assert own.crs is not None
        crs = own.crs
        return [g for s in brought_to(own, reference, shapes) for g in _moved(buffered(s, crs, distance_m), crs, ground.crs)]
    flat = [s for s in shapes if not parts(s, _AREAS)]
    if flat:
        raise ModelError(f"{len(flat)} of {len(shapes)} features of {reference.source.name} are lines or points, which have no "
                         "inside.", code="BAD_ARGUMENT")
    return brought_to(ground, reference, shapes)


def _moved(geometry: BaseGeometry, crs: str, to: str) -> list[BaseGeometry]:
    if crs == to:
        return [geometry]
    t = transformer(crs, to)
    return [shapely.transform(_fine(geometry), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))]


@dataclass(slots=True)
class Cut:
    """What is left of a subject. ``pieces``: of each of its features; ``amount`` in m or m², what overlaps counted once;
    ``whole``: the same before anything was cut."""

    ground: Ground
    pieces: list[BaseGeometry]
    outline: BaseGeometry
    amount: float
    whole: float
    evidence: dict[str, JsonValue] = field(default_factory=dict)


def cut(subject: Measured, features: Sequence[BaseGeometry], shapes: Sequence[BaseGeometry], relation: str, ground: Ground,
        of: str) -> Cut:
    """``features`` of the subject cut at ``shapes``, both on ``ground``; ``of``: area or length."""
    stays_inside, _ = CUTS[relation]
    outline = shapely.union_all(list(shapes)) if shapes else shapely.Polygon()
    held = np.array(list(features), dtype=object)
    own = [_only(g, of) for g in held]
    left = _parts_left(held, own, outline, of, stays_inside=stays_inside)
    amount, whole = total_of(ground, left, of), total_of(ground, own, of)
    each = [_figure(ground, g, of) for g in left]
    unit = "m2" if of == "area" else "m"
    n_cut = sum(1 for g, w in zip(left, own, strict=True) if not g.is_empty and g is not w)
    n_in = sum(1 for g in left if not g.is_empty)
    evidence: dict[str, JsonValue] = {
        "cut": of, "cut_rule": "what lies inside of the outlines stays" if stays_inside else "what lies outside of them stays",
        "method": "geodesic" if ground.crs is not None else "gsd", "n_features": len(own), "n_kept": n_in, "n_cut": n_cut,
        "n_outlines": len(shapes), f"whole_{unit}": whole, f"kept_{unit}": amount, f"sum_{unit}": float(sum(each)),
        f"overlap_{unit}": max(0.0, float(sum(each)) - amount) if of == "area" else 0.0}
    if of == "area" or ground.crs is not None:
        single = sum(ground.area_m2(g) for g in shapes)
        joined = ground.area_m2(outline)
        evidence |= {"outlines_m2": joined, "outlines_overlap_m2": max(0.0, single - joined)}
    return Cut(ground, left, outline, amount, whole, evidence)


def left_if_moved(subject: Measured, features: Sequence[BaseGeometry], reference: Measured, shapes: Sequence[BaseGeometry],
                  relation: str, ground: Ground) -> float:
    """Area in m² that could be left at most of features of which nothing is left, where points of both lie off by as much as is
    said of each: features are grown by theirs, outlines moved by their own towards what stays."""
    stays_inside, _ = CUTS[relation]

    def grown(g: BaseGeometry, by: Measured, sign: int) -> BaseGeometry:
        off = by.accuracy.metres if by.is_drawn and by.accuracy is not None else 0.0
        units = off / ground.gsd_m if ground.crs is None and ground.gsd_m else in_units(str(ground.crs), off, [g])
        return g.buffer(sign * units, quad_segs=32) if units and not g.is_empty else g

    outline = grown(shapely.union_all(list(shapes)), reference, 1 if stays_inside else -1)
    return cut(subject, [grown(g, subject, 1) for g in features], [outline], relation, ground, "area").amount


def _parts_left(held: Any, own: Sequence[BaseGeometry], outline: BaseGeometry, of: str, *,
                stays_inside: bool) -> list[BaseGeometry]:
    """What is left of each; only what crosses the outline is cut, what lies in it or apart from it stays as it is or goes."""
    if not len(held):
        return []
    shapely.prepare(outline)
    within, apart = shapely.contains_properly(outline, held), shapely.disjoint(outline, held)
    whole, gone = (within, apart) if stays_inside else (apart, within)
    crossing = np.flatnonzero(~whole & ~gone)
    cutter = shapely.intersection if stays_inside else shapely.difference
    pieces = dict(zip(crossing.tolist(), cutter(held[crossing], outline), strict=True)) if len(crossing) else {}
    nothing = shapely.GeometryCollection()
    return [own[i] if whole[i] else nothing if gone[i] else _only(pieces[i], of) for i in range(len(own))]


def _only(geometry: BaseGeometry, of: str) -> BaseGeometry:
    """What has an area, or a length; where polygons meet along an edge, a line is left that has no area."""
    held = parts(geometry, _AREAS if of == "area" else _LINES)
    return held[0] if len(held) == 1 else shapely.union_all(held) if held else shapely.GeometryCollection()


def _figure(ground: Ground, geometry: BaseGeometry, of: str) -> float:
    return ground.area_m2(geometry) if of == "area" else ground.length_m(geometry)


def total_of(ground: Ground, pieces: Sequence[BaseGeometry], of: str) -> float:
    """Area of all together, ground that several cover counted once; lengths add up."""
    if of == "length":
        return float(sum(ground.length_m(g) for g in pieces))
    held = [g for g in pieces if not g.is_empty]
    return ground.area_m2(shapely.union_all(held)) if held else 0.0


def mask_cut(subject: Measured, ground: Ground, outline: BaseGeometry, relation: str) -> Measured:
    """A mask's pixels whose centre lies in the outline (or outside of it), as a mask of its own."""
    assert subject.mask is not None and subject.valid is not None and subject.grid is not None
    grid = subject.grid
    inside = np.zeros(grid.shape, dtype=bool)
    if not outline.is_empty:
        placed = outline if ground.crs is None else to_pixels(outline, ground.crs, grid)
        try:
            inside = RegionMask(placed, grid, subject.source.name).mask((0, 0, grid.width, grid.height))
        except ModelError as error:
            if error.code != "BAD_REGION":
                raise
    keep = inside if CUTS[relation][0] else ~inside
    return Measured(subject.source, subject.scene, grid, subject.gsd_m, mask=subject.mask & keep, valid=subject.valid & keep,
                    crs=subject.crs, layer=subject.layer, parent=subject.parent, ref=subject.ref, region=subject.region,
                    is_whole=False)


def groups_of(source: Measured) -> list[tuple[str, list[int]]]:
    """The features of a source as (name, numbers): those of one value of its attribute together, in the order of the file;
    without an attribute each by the number that it had before some were left out: "feature 3" of a file, "ship 3" of an image.
    ModelError (BAD_ARGUMENT) where no feature has the attribute."""
    assert source.features is not None
    named = source.source.name_field
    if not named:
        called = "feature" if source.source.mode == "extent" else source.source.name
        numbers = [p.get(NUMBER, i) for i, p in enumerate(source.properties or [{}] * len(source.features), 1)]
        return [(f"{called} {number}"[:120], [i]) for i, number in enumerate(numbers)]
    held: dict[str, list[int]] = {}
    for i, values in enumerate(source.properties):
        held.setdefault(_name(values, named), []).append(i)
    if list(held) == [NO_NAME] and len(source.features) > 1:
        raise ModelError(f"No feature of {source.source.name} has the attribute {named}.", code="BAD_ARGUMENT")
    return list(held.items())


def _name(values: Mapping[str, Any], named: str) -> str:
    value = values.get(named)
    return NO_NAME if value is None or value == "" else str(value)[:120]
