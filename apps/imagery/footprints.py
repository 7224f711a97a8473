"""The outline of a grid on the globe, for PostGIS: WGS 84, cut at the 180° meridian where it crosses it. Pure."""

from __future__ import annotations

import numpy as np
from shapely import union_all
from shapely.affinity import translate
from shapely.geometry import Polygon, box
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import Grid, transformer

_EDGE = 16


def footprint(grid: Grid) -> BaseGeometry | None:
    """A Polygon or MultiPolygon in EPSG:4326 with densified edges; None for a grid without CRS or place on the globe."""
    if grid.crs is None:
        return None
    t = np.linspace(0, 1, _EDGE + 1)[:-1]
    width, height = float(grid.width), float(grid.height)
    cols = np.concatenate([t * width, np.full(_EDGE, width), (1 - t) * width, np.zeros(_EDGE + 1)])
    rows = np.concatenate([np.zeros(_EDGE), t * height, np.full(_EDGE, height), (1 - t) * height, [0.0]])
    a, b, c, d, e, f = grid.transform
    lon, lat = transformer(grid.crs, "EPSG:4326").transform(a * cols + b * rows + c, d * cols + e * rows + f)
    lon, lat = np.asarray(lon, dtype=float), np.clip(np.asarray(lat, dtype=float), -90, 90)
    if not (np.isfinite(lon).all() and np.isfinite(lat).all()):
        return None
    if not grid.is_plate_carree:
        # a jump of more than half the globe between neighbours is the meridian: go on beyond it, then cut
        lon = np.degrees(np.unwrap(np.radians(lon)))
        if abs(lon[-1] - lon[0]) > 180:  # round a pole, which lies inside
            pole = 90.0 if lat.mean() > 0 else -90.0
            lon, lat = np.concatenate([lon, lon[[-1, 0]]]), np.concatenate([lat, [pole, pole]])
    outline = Polygon(np.column_stack([lon, lat]))
    if not outline.is_valid:
        outline = outline.buffer(0)
    if outline.is_empty:
        return None
    parts: list[Polygon] = []
    for turn in (-1, 0, 1):
        piece = outline.intersection(box(-180 + 360 * turn, -90, 180 + 360 * turn, 90))
        for part in getattr(piece, "geoms", [piece]):
            if isinstance(part, Polygon) and part.area > 0:
                parts.append(translate(part, xoff=-360 * turn))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else union_all(parts)  # parts about a pole have sides in common
