"""Regions on a grid: which pixels of a scene lie inside a drawn polygon.

A pixel belongs to the region when its centre lies inside the polygon (a centre on the outline does not). Polygons come as
GeoJSON in ``EPSG:4326`` (or another CRS text), or in pixel coordinates (``image``: x right, y down, upper-left corner of the
first pixel at 0, 0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.core.geo.grid import Grid, transformer
from apps.core.ports import Window

# Blocks of this many pixels are decided whole where the polygon's outline does not cross them.
_BLOCK_PX = 64
_EDGE_PARTS = 64


def polygon_from_geojson(value: Mapping[str, Any]) -> BaseGeometry:
    """The polygon of a GeoJSON geometry or feature. ModelError (BAD_REGION) where it is none, empty, invalid or not finite."""
    geometry: Any = value
    if geometry.get("type") == "Feature":
        geometry = geometry.get("geometry") or {}
    if geometry.get("type") == "FeatureCollection":
        features = geometry.get("features") or []
        if len(features) != 1:
            raise ModelError(f"The region holds {len(features)} features; give one polygon.", code="BAD_REGION")
        geometry = features[0].get("geometry") or {}
    if geometry.get("type") not in ("Polygon", "MultiPolygon"):
        raise ModelError(f"A region is a Polygon or MultiPolygon; this is a {geometry.get('type') or 'thing without type'}.",
                         code="BAD_REGION")
    try:
        polygon = shape(geometry)
    except (ValueError, TypeError, IndexError, AttributeError, shapely.errors.ShapelyError) as error:
        raise ModelError("The region's coordinates cannot be read as a polygon.", code="BAD_REGION") from error
    coordinates = shapely.get_coordinates(polygon)
    if polygon.is_empty or len(coordinates) == 0:
        raise ModelError("The region is empty.", code="BAD_REGION")
    if not np.isfinite(coordinates).all():
        raise ModelError("The region has coordinates that are not finite.", code="BAD_REGION")
    if not polygon.is_valid:
        raise ModelError(f"The region is not a valid polygon: {shapely.is_valid_reason(polygon)}.", code="BAD_REGION")
    return polygon


def to_pixels(geometry: BaseGeometry, crs: str, grid: Grid) -> BaseGeometry:
    """The geometry in the grid's pixel coordinates (x = column, y = row, floats).

    Edges are densified first where the CRS differs, so that straight lines keep their place. ModelError (NEEDS_CRS) where the
    grid has no CRS, (BAD_REGION) where a vertex has no place in the grid's CRS.
    """
    if crs == "image":
        return geometry
    if grid.crs is None:
        raise ModelError("The scene has no CRS, so a region on the map has no place on it; give the region in pixels.",
                         code="NEEDS_CRS", needs={"crs": True})
    if crs != grid.crs:
        x0, y0, x1, y1 = geometry.bounds
        span = max(x1 - x0, y1 - y0)
        if span > 0:
            geometry = shapely.segmentize(geometry, span / _EDGE_PARTS)
    if crs == "EPSG:4326":
        west, south, east, north = geometry.bounds
        if south < -90 or north > 90:
            raise ModelError("The region has latitudes beyond 90 degrees; give longitude first, latitude second.",
                             code="BAD_REGION")
        if east - west > 180:
            raise ModelError("The region spans more than 180 degrees of longitude; one that crosses the antimeridian is given as "
                             "two polygons.", code="BAD_REGION")
    # pyproj's own transform where the CRS is equal costs nothing and keeps one path
    t = transformer(crs, grid.crs)
    a, b, c, d, e, f = grid.transform
    det = a * e - b * d

    def move(points: NDArray[np.float64]) -> NDArray[np.float64]:
        x, y = t.transform(points[:, 0], points[:, 1])
        x, y = np.asarray(x) - c, np.asarray(y) - f
        return np.stack([(e * x - b * y) / det, (a * y - d * x) / det], axis=1)

    moved = shapely.transform(geometry, move)
    if not np.isfinite(shapely.get_coordinates(moved)).all():
        raise ModelError("The region has no place in the scene's CRS.", code="BAD_REGION")
    return moved


class RegionMask:
    """A polygon on a grid; ``mask(window)`` gives its pixels. None in place of a polygon means the whole grid."""

    def __init__(self, polygon_px: BaseGeometry | None, grid: Grid, name: str = "the scene"):
        self.grid, self.polygon = grid, polygon_px
        if polygon_px is None:
            return
        shapely.prepare(polygon_px)
        frame = shapely.box(0, 0, grid.width, grid.height)
        if not polygon_px.intersects(frame):
            raise ModelError(f"The region does not touch {name}.", code="BAD_REGION", needs={"region": True})
        if self.n_px == 0:
            raise ModelError(f"The region holds no pixel centre of {name}; it is smaller than a pixel there.",
                             code="BAD_REGION", needs={"region": True})

    @classmethod
    def of(cls, region: Mapping[str, Any] | None, region_crs: str, grid: Grid, name: str = "the scene") -> RegionMask:
        """From GeoJSON; the whole grid for None."""
        if region is None:
            return cls(None, grid, name)
        return cls(to_pixels(polygon_from_geojson(region), region_crs, grid), grid, name)

    @cached_property
    def bounds_px(self) -> Window:
        """(column, row, width, height) of the pixels that may lie inside."""
        if self.polygon is None:
            return 0, 0, self.grid.width, self.grid.height
        x0, y0, x1, y1 = self.polygon.bounds
        left, top = max(0, math.floor(x0)), max(0, math.floor(y0))
        right, bottom = min(self.grid.width, math.ceil(x1)), min(self.grid.height, math.ceil(y1))
        return left, top, max(0, right - left), max(0, bottom - top)

    @cached_property
    def n_px(self) -> int:
        """Pixels inside."""
        left, top, width, height = self.bounds_px
        if self.polygon is None:
            return width * height
        return sum(int(np.count_nonzero(self.mask((left, r, width, min(512, top + height - r)))))
                   for r in range(top, top + height, 512))

    def touches(self, window: Window) -> bool:
        left, top, width, height = self.bounds_px
        c, r, w, h = window
        return c < left + width and left < c + w and r < top + height and top < r + h

    def mask(self, window: Window) -> NDArray[np.bool_]:
        """Bool (rows, columns) of the window: True where the pixel's centre lies inside."""
        c0, r0, w, h = window
        if self.polygon is None:
            return np.ones((h, w), dtype=bool)
        out = np.zeros((h, w), dtype=bool)
        cols = np.arange(c0, c0 + w, _BLOCK_PX)
        rows = np.arange(r0, r0 + h, _BLOCK_PX)
        left, top = np.meshgrid(cols, rows)
        right, bottom = np.minimum(left + _BLOCK_PX, c0 + w), np.minimum(top + _BLOCK_PX, r0 + h)
        boxes = shapely.box(left, top, right, bottom)
        touched = shapely.intersects(self.polygon, boxes)
        whole = shapely.contains_properly(self.polygon, boxes)
        for i, j in zip(*np.nonzero(touched), strict=True):
            block = (slice(top[i, j] - r0, bottom[i, j] - r0), slice(left[i, j] - c0, right[i, j] - c0))
            if whole[i, j]:
                out[block] = True
                continue
            x, y = np.meshgrid(np.arange(left[i, j], right[i, j]) + 0.5, np.arange(top[i, j], bottom[i, j]) + 0.5)
            out[block] = shapely.contains_xy(self.polygon, x, y)
        return out
