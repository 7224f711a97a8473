"""Regions on a grid: which pixels of a scene lie inside a drawn polygon.

A pixel belongs to the region when its centre lies inside the polygon; of polygons that share an outline through a centre, one
holds it: the one to the right or below. Polygons come as GeoJSON in ``EPSG:4326`` (or another CRS text), or in pixel coordinates
(``image``: x right, y down, upper-left corner of the first pixel at 0, 0).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.affinity import translate
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.core.geo.grid import Grid, transformer, turned_onto
from apps.core.geo.raster import CENTRE_NUDGE
from apps.core.ports import Window
from apps.tools.geojson import crs_of

# A region of which less than this share lies on a scene is told.
WHOLE = 0.99
_EDGE_PARTS = 64
# Relative error, with a margin, of a crossing of a row by an edge.
_ROUNDING = 1e-12


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
        _, south, _, north = geometry.bounds
        if south < -90 or north > 90:
            raise ModelError("The region has latitudes beyond 90 degrees; give longitude first, latitude second.",
                             code="BAD_REGION")
        if max(part.bounds[2] - part.bounds[0] for part in shapely.get_parts(geometry)) > 180:
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
    return turned_onto(moved, grid)


class RegionMask:
    """A polygon on a grid; ``mask(window)`` gives its pixels. None in place of a polygon means the whole grid."""

    def __init__(self, polygon_px: BaseGeometry | None, grid: Grid, name: str = "the scene"):
        self.grid, self.polygon = grid, polygon_px
        if polygon_px is None:
            return
        # the outline is moved instead of all centres
        self._placed = translate(polygon_px, -CENTRE_NUDGE[0], -CENTRE_NUDGE[1])
        shapely.prepare(self._placed)
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
        return cls(to_pixels(polygon_from_geojson(region), crs_of(region, region_crs), grid), grid, name)

    @cached_property
    def share_on_grid(self) -> float:
        """The share of the polygon's area that lies on the grid; 1 for the whole grid."""
        if self.polygon is None or not self.polygon.area:
            return 1.0
        frame = shapely.box(0, 0, self.grid.width, self.grid.height)
        return float(shapely.intersection(self.polygon, frame).area / self.polygon.area)

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
        if not width or not height:
            return 0
        edges, rows, x, slope = self._crossings(self.bounds_px)
        before = np.clip(np.floor(x) + 1, 0, width).astype(np.int64)
        # a row's crossings in pairs: what lies between the two is inside
        order = np.lexsort((before, rows))
        unsettled = np.zeros(height, dtype=bool)
        whole, near = self._unsettled(self.bounds_px, edges, rows, x, slope)
        unsettled[whole] = unsettled[rows[near]] = True
        kept = order[~unsettled[rows[order]]]
        total = int((before[kept][1::2] - before[kept][::2]).sum())
        for first, last in _runs(unsettled, 512):
            total += int(np.count_nonzero(self.mask((left, top + first, width, last - first))))
        return total

    def touches(self, window: Window) -> bool:
        left, top, width, height = self.bounds_px
        c, r, w, h = window
        return c < left + width and left < c + w and r < top + height and top < r + h

    def mask(self, window: Window) -> NDArray[np.bool_]:
        """Bool (rows, columns) of the window: True where the pixel's centre lies inside."""
        if self.polygon is None:
            return np.ones(window[:1:-1], dtype=bool)
        return self._filled(window)

    def holds(self, rows: NDArray[np.int64], cols: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whether the centres of these pixels lie inside."""
        if self.polygon is None:
            return np.ones(rows.shape, dtype=bool)
        return np.asarray(shapely.contains_xy(self._placed, cols + 0.5, rows + 0.5))

    @cached_property
    def _edges(self) -> NDArray[np.float64]:
        """(edges, 4): x0, y0, x1, y1 of every ring, in pixels, with y0 <= y1."""
        rings = []
        for part in shapely.get_parts(self._placed):
            for ring in (part.exterior, *part.interiors):
                at = shapely.get_coordinates(ring)
                rings.append(np.hstack([at[:-1], at[1:]]))
        edges = np.concatenate(rings)
        return np.where((edges[:, 1] > edges[:, 3])[:, None], edges[:, [2, 3, 0, 1]], edges)

    def _crossings(self, window: Window) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.float64],
                                                  NDArray[np.float64]]:
        """(edges near the window's rows; row, place and slope dx/dy of each crossing of a row of centres by one of them). Rows
        and places are counted from the first centre of the window; places lie on either side of it too."""
        c0, r0, _, h = window
        edges = self._edges
        edges = edges[(edges[:, 3] >= r0) & (edges[:, 1] <= r0 + h)]
        # rows whose centres an edge passes
        first = np.clip(np.ceil(edges[:, 1] - r0 - 0.5), 0, h).astype(np.int64)
        last = np.clip(np.ceil(edges[:, 3] - r0 - 0.5), 0, h).astype(np.int64)
        n = last - first
        which = np.repeat(np.arange(len(edges)), n)
        rows = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n) + np.repeat(first, n)
        x0, y0, x1, y1 = edges[which].T
        slope = (x1 - x0) / (y1 - y0)
        return edges, rows, x0 + (rows + (r0 + 0.5) - y0) * slope - (c0 + 0.5), slope

    def _filled(self, window: Window) -> NDArray[np.bool_]:
        """Rows filled between the outline's crossings; where a centre is too near the outline for that, it is asked of GEOS."""
        _, _, w, h = window
        edges, rows, x, slope = self._crossings(window)
        # a crossing lies before the first centre that is beyond it
        before = np.clip(np.floor(x) + 1, 0, w).astype(np.int64)
        start = np.bincount(rows[before == 0], minlength=h) % 2 == 1
        out = np.repeat(start, w).reshape(h, w)
        inner = np.nonzero((before > 0) & (before < w))[0]
        inner = inner[np.argsort(rows[inner], kind="stable")]
        at, before = rows[inner], before[inner].astype(np.int32)
        columns = np.arange(w, dtype=np.int32)
        # one crossing of every row at a time: beyond it the row is turned over
        turn = np.arange(at.size) - np.searchsorted(at, at)
        for k in range(int(turn.max()) + 1 if turn.size else 0):
            now = turn == k
            mine = at[now]
            if mine.size == mine[-1] - mine[0] + 1:
                out[mine[0]:mine[-1] + 1] ^= columns >= before[now][:, None]
            else:
                out[mine] ^= columns >= before[now][:, None]
        whole, near = self._unsettled(window, edges, rows, x, slope)
        if whole.size or near.any():
            self._settle(out, window, whole, rows[near], x[near])
        return out

    @staticmethod
    def _unsettled(window: Window, edges: NDArray[np.float64], rows: NDArray[np.int64], x: NDArray[np.float64],
                   slope: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """What rounding could put on the wrong side: (rows of centres that pass a vertex or lie along an edge, crossings that
        are next to a centre by less than their error)."""
        error = _ROUNDING * max(1.0, float(np.abs(edges).max(initial=1.0)))
        reach = error * (1 + np.abs(slope))
        near = np.abs(x - np.round(x)) <= reach
        _, r0, _, h = window
        levels = np.concatenate([edges[:, 1], edges[:, 3]]) - r0 - 0.5
        whole = np.round(levels[np.abs(levels - np.round(levels)) <= error]).astype(np.int64)
        # an edge along a row of centres has no crossing of its own
        whole = np.unique(np.concatenate([whole[(whole >= 0) & (whole < h)], rows[near & (reach >= 1)]]))
        return whole, near

    def _settle(self, out: NDArray[np.bool_], window: Window, whole: NDArray[np.int64], rows: NDArray[np.int64],
                x: NDArray[np.float64]) -> None:
        """Decides by GEOS all centres of the rows ``whole``, and those next to the places (``rows``, ``x``)."""
        c0, r0, w, _ = window
        place_rows = np.concatenate([rows, np.repeat(whole, w)])
        place_cols = np.concatenate([np.round(x).astype(np.int64), np.tile(np.arange(w), whole.size)])
        fits = (place_cols >= 0) & (place_cols < w)
        place_rows, place_cols = place_rows[fits], place_cols[fits]
        if place_rows.size:
            out[place_rows, place_cols] = shapely.contains_xy(self._placed, place_cols + (c0 + 0.5), place_rows + (r0 + 0.5))


def _runs(flags: NDArray[np.bool_], longest: int) -> list[tuple[int, int]]:
    """(first, one past the last) of runs of True, cut to ``longest``."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], flags, [False]]).astype(np.int8)))
    return [(a, min(a + longest, last)) for first, last in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
            for a in range(first, last, longest)]
