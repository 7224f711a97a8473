"""Areas, lengths and distances on the ellipsoid (Karney 2013, through pyproj's Geod), and areas of masks on a grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from pyproj import Transformer
from shapely import get_coordinates, orient_polygons, segmentize, transform
from shapely.geometry.base import BaseGeometry
from shapely.ops import nearest_points

from apps.core.geo.grid import Grid, geod_of, transformer

# Polygons that reach over no more degrees than these lie on a cylinder of their own.
SMALL_DEG = 0.2
# WGS 84: semi-major axis in metres, eccentricity.
_A, _F = 6_378_137.0, 1 / 298.257223563
_E2 = _F * (2 - _F)
_E = math.sqrt(_E2)


def _lonlat(geometry: BaseGeometry, crs: str) -> BaseGeometry:
    return _through(geometry, transformer(crs, "EPSG:4326"))


def _through(geometry: BaseGeometry, t: Transformer) -> BaseGeometry:
    moved: BaseGeometry = transform(geometry, lambda xy: np.column_stack(t.transform(xy[:, 0], xy[:, 1])))
    return moved


def geodesic_area_m2(geometry: BaseGeometry, crs: str = "EPSG:4326") -> float:
    """Geodesic area in m² of polygons given in ``crs`` (x, y order); holes are subtracted."""
    globe = _lonlat(_dense(geometry), crs)
    if not globe.is_empty and max(globe.bounds[2] - globe.bounds[0], globe.bounds[3] - globe.bounds[1]) <= SMALL_DEG:
        return _area_of_small(globe)
    # the geodesic sum is signed: shells must run against holes, whatever way the file has them
    area, _ = geod_of("EPSG:4326").geometry_area_perimeter(orient_polygons(globe))
    return abs(float(area))


def _area_of_small(globe: BaseGeometry) -> float:
    """Area in m² of polygons in longitude and latitude that reach over less than SMALL_DEG, on the equal-area cylinder about them
    (authalic latitudes, Snyder 1987, formula 3-12). A geodesic sum loses a thousandth of a square metre here, for each of its
    short edges reaches down to the equator: a hundredth of a crown of a tenth of a square metre."""
    west, south, _, _ = globe.bounds

    def q(lat: NDArray[np.float64]) -> NDArray[np.float64]:
        sine = np.sin(np.radians(lat))
        return np.asarray((1 - _E2) * (sine / (1 - _E2 * sine**2) + np.arctanh(_E * sine) / _E))

    origin = q(np.array([south]))
    flat = transform(globe, lambda at: np.column_stack(
        (_A * np.radians(at[:, 0] - west), 0.5 * _A * (q(at[:, 1]) - origin))))
    return float(flat.area)


def geodesic_length_m(geometry: BaseGeometry, crs: str = "EPSG:4326") -> float:
    """Geodesic length in m of lines, or perimeter of polygons, given in ``crs``."""
    return float(geod_of("EPSG:4326").geometry_length(_lonlat(_dense(geometry), crs)))


def geodesic_path_m(points: Sequence[Sequence[float]]) -> float:
    """Length in m along geodesics of WGS 84 between (longitude, latitude) positions in degrees, in their order."""
    lons, lats = [p[0] for p in points], [p[1] for p in points]
    return float(geod_of("EPSG:4326").line_length(lons, lats))


def geodesic_ring_area_m2(points: Sequence[Sequence[float]]) -> float:
    """Area in m² that geodesics of WGS 84 between (longitude, latitude) corners enclose, whatever their direction; the ring is
    closed here. Of a ring that crosses itself the parts count with opposite signs."""
    lons, lats = [p[0] for p in points], [p[1] for p in points]
    return abs(float(geod_of("EPSG:4326").polygon_area_perimeter(lons, lats)[0]))


def _dense(geometry: BaseGeometry) -> BaseGeometry:
    # straight lines of the projection are not geodesics: split each edge so that the difference stays below 1e-6
    span = max(geometry.bounds[2] - geometry.bounds[0], geometry.bounds[3] - geometry.bounds[1]) if not geometry.is_empty else 0
    return segmentize(geometry, span / 64) if span > 0 else geometry


def geodesic_distance_m(one: BaseGeometry, other: BaseGeometry, crs: str = "EPSG:4326") -> float:
    """Shortest geodesic distance in m between two geometries in ``crs``; 0 where they touch.

    The closest pair is found in an azimuthal-equidistant plane about the midpoint, which is true to ~1e-4 within 500 km, and
    its distance then taken on the ellipsoid.
    """
    a, b = _lonlat(one, crs), _lonlat(other, crs)
    mid = np.concatenate([get_coordinates(a), get_coordinates(b)]).mean(axis=0)
    plane = f"+proj=aeqd +lat_0={mid[1]:.8f} +lon_0={mid[0]:.8f} +datum=WGS84 +units=m"
    there, back = transformer("EPSG:4326", plane), transformer(plane, "EPSG:4326")
    pa, pb = _through(a, there), _through(b, there)
    p, q = nearest_points(pa, pb)
    lon, lat = back.transform([p.x, q.x], [p.y, q.y])
    return float(geod_of("EPSG:4326").inv(lon[0], lat[0], lon[1], lat[1])[2])


@dataclass(frozen=True, slots=True)
class MaskArea:
    """Area of a mask: ``area_m2`` by ``method`` (grid, geodesic, gsd), with the other figure beside it where there is one."""

    area_m2: float
    method: str
    n_px: int
    geodesic_m2: float | None
    grid_m2: float | None


def area_of_mask_m2(mask: NDArray[np.bool_], grid: Grid, gsd_m: float | None = None) -> MaskArea:
    """Area in m² of the True pixels of ``mask`` (rows, columns) on ``grid``.

    With a CRS by the grid's area method; without one by ``gsd_m``² a pixel. Raises ValueError where neither is known.
    """
    n = int(np.count_nonzero(mask))
    if grid.crs is None:
        if gsd_m is None:
            raise ValueError("area needs a CRS or a GSD")
        return MaskArea(n * gsd_m * gsd_m, "gsd", n, None, None)
    geodesic = grid.geodesic_area_of_m2(mask)
    nominal = grid.grid_pixel_area_m2
    on_grid = None if nominal is None else n * nominal
    if grid.area_method == "grid" and on_grid is not None:
        return MaskArea(on_grid, "grid", n, geodesic, on_grid)
    return MaskArea(geodesic, "geodesic", n, geodesic, on_grid)
