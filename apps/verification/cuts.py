"""Parts of lines and polygons inside of outlines, by the verifier's own way: cut on an equal-area cylinder about their parallel.

Areas are the plane's own (the projection keeps them); lengths are taken on the ellipsoid after the way back to degrees. The tools
cut in the shapes' CRS and measure polygons as geodesic ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import geod_of, transformer
from apps.verification.case import Case
from apps.verification.ground import CannotPlaceError, Placed, grown_by, part_of, place

# Relations that cut: whether the inside stays, and whether outlines are grown first.
CUTS: dict[str, tuple[bool, bool]] = {
    "inside": (True, False), "outside": (False, False), "within": (True, True), "beyond": (False, True),
}  # fmt: skip
NO_NAME = "(no value)"
# Nearer to the poles an equal-area cylinder is squeezed too flat to cut on.
MAX_PARALLEL = 75.0
_GEOD = geod_of("EPSG:4326")


@dataclass(frozen=True, slots=True)
class Sheet:
    """An equal-area cylinder about the middle parallel of some shapes in degrees: it keeps areas around the whole globe."""

    text: str

    @classmethod
    def about(cls, *groups: Sequence[BaseGeometry]) -> Sheet:
        """CannotPlaceError where there are none."""
        bounds = np.array([g.bounds for group in groups for g in group if not g.is_empty], dtype=float)
        if not len(bounds):
            raise CannotPlaceError("there is nothing to place")
        west, south, east, north = bounds[:, 0].min(), bounds[:, 1].min(), bounds[:, 2].max(), bounds[:, 3].max()
        if west < -180.001 or east > 180.001:
            raise CannotPlaceError("the shapes cross the antimeridian in one piece")
        parallel = max(-MAX_PARALLEL, min(MAX_PARALLEL, (south + north) / 2))
        return cls(f"+proj=cea +lat_ts={parallel:.8f} +lon_0={(west + east) / 2:.8f} +datum=WGS84 +units=m")

    def put(self, geometry: BaseGeometry) -> BaseGeometry:
        """A shape in degrees on the plane; its edges follow the straight lines of the degrees."""
        x0, y0, x1, y1 = geometry.bounds
        span = max(x1 - x0, y1 - y0)
        t = transformer("EPSG:4326", self.text)
        fine = shapely.segmentize(geometry, span / 200) if span > 0 else geometry
        return shapely.transform(fine, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))

    def length_m(self, geometry: BaseGeometry) -> float:
        """Geodesic length of the lines of a shape on the plane."""
        t = transformer(self.text, "EPSG:4326")
        lines = [p for p in _simple(geometry) if p.geom_type in ("LineString", "LinearRing")]
        total = 0.0
        for line in lines:
            lons, lats = t.transform(*np.asarray(line.coords).T[:2])
            total += float(_GEOD.line_length(lons, lats))
        return total


def _simple(geometry: BaseGeometry) -> list[BaseGeometry]:
    return [p for g in getattr(geometry, "geoms", [geometry]) for p in (_simple(g) if hasattr(g, "geoms") else [g])]


def of_kind(geometry: BaseGeometry, of: str) -> BaseGeometry:
    """Its polygons, or its lines."""
    wanted = ("Polygon",) if of == "area" else ("LineString", "LinearRing")
    return shapely.union_all([p for p in _simple(geometry) if p.geom_type in wanted])


def amount(sheet: Sheet, shapes: Sequence[BaseGeometry], of: str) -> float:
    """m² of all together, what overlaps once; or m, line by line."""
    if of == "area":
        return float(shapely.area(shapely.union_all([of_kind(g, of) for g in shapes]))) if shapes else 0.0
    return sum(sheet.length_m(g) for g in shapes)


def grown(shapes: Sequence[BaseGeometry], relation: str, distance_m: float) -> list[BaseGeometry]:
    """Outlines in degrees: the shapes, or what lies within the distance of them."""
    return [grown_by(g, "EPSG:4326", distance_m) for g in shapes] if CUTS[relation][1] else list(shapes)


def kept(shapes: Sequence[BaseGeometry], outline: BaseGeometry, relation: str) -> list[BaseGeometry]:
    """What is left of shapes on one plane."""
    how = shapely.intersection if CUTS[relation][0] else shapely.difference
    return list(how(np.array(list(shapes), dtype=object), outline)) if len(shapes) else []


def region_of(case: Case) -> dict[str, Any] | None:
    """The region in degrees that the call was limited to. CannotPlaceError where it is one in pixels."""
    if not case.is_limited:
        return None
    if case.region is None or case.region[1] != "EPSG:4326":
        raise CannotPlaceError("a region that is not followed here")
    return case.region[0]


def named_instances(
    case: Case, source: dict[str, Any], region: dict[str, Any] | None = None
) -> tuple[list[str], list[BaseGeometry], float]:
    """(names, shapes in degrees, size of a pixel in m) of a source's instances, as a table names its rows: by an attribute;
    without one by their number in the file or layer, as "feature 3" or "ship 3". Of a ``region`` those with their middle in
    it."""
    placed = place(case, source)
    digest, field = source.get("vector"), str(source.get("name_field") or "")
    if isinstance(digest, str) and digest and case.layers is not None:
        features, _ = case.layers.read_vector(digest)
        only, left_out = source.get("only") or (), source.get("without") or ()
        called = [(i, dict(f.get("properties") or {})) for i, f in part_of(features, source)]
        called = [(i, v) for i, v in called if not only or str(v.get(field, "")) in only]
        called = [(i, v) for i, v in called if str(v.get(field, "")) not in left_out]
        names = [_name_of(v.get(field)) if field else f"feature {i}" for i, v in called]
    else:
        names = [f"{source.get('name') or 'subject'} {i}"[:120] for i in range(1, len(placed.shapes) + 1)]
    if len(placed.shapes) != len(names):
        raise CannotPlaceError("the features and their places differ in number")
    pairs = list(zip(names, placed.shapes, strict=True))
    if region is not None:
        outline = shape(region["geometry"] if region.get("type") == "Feature" else region)
        pairs = [(n, g) for n, g in pairs if outline.covers(shapely.centroid(g))]
    return [n for n, _ in pairs], [g for _, g in pairs], placed.pixel_m


def _name_of(value: object) -> str:
    return NO_NAME if value in (None, "") else str(value)[:120]


def zone_names(case: Case, params: dict[str, Any]) -> list[str]:
    """Names of the zones of a ``vector.zones`` node, in order. CannotPlaceError where they are not at hand."""
    digest, geojson = params.get("vector"), params.get("geojson")
    if isinstance(digest, str) and digest and case.layers is not None:
        features, _ = case.layers.read_vector(digest)
    elif isinstance(geojson, dict) and geojson.get("type") == "FeatureCollection":
        features = list(geojson.get("features") or [])
    else:
        raise CannotPlaceError("the zones are not at hand")
    field, only = str(params.get("name") or "name"), params.get("only") or ()
    names = []
    for i, feature in part_of(features, params):
        name = zone_name((feature.get("properties") or {}), field, i, is_group=bool(params.get("group")))
        is_shape = shape(feature["geometry"]).geom_type in ("Polygon", "MultiPolygon")
        if (not only or name in only) and (is_shape or params.get("buffer_m")):
            names.append(name)
    return list(dict.fromkeys(names)) if params.get("group") else names


def zone_name(values: dict[str, Any], field: str, number: int, *, is_group: bool) -> str:
    """How a zone is called: the value of the attribute, or its number; one without a value among groups says so."""
    value = values.get(field, f"zone {number}")
    return NO_NAME if is_group and (value is None or value == "" or field not in values) else str(value)[:120]


__all__ = ["CUTS", "NO_NAME", "CannotPlaceError", "Placed", "Sheet", "amount", "grown", "kept", "named_instances", "of_kind",
           "region_of", "zone_name", "zone_names"]  # fmt: skip
