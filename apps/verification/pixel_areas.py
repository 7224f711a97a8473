"""Areas of pixels by the verifier's own computation, and what a pixel has to count in a mean or share.

The ground about a pixel's centre is taken as the plane that two short steps along its row and column span in space. Nothing here
is shared with the tools, which sum geodesic polygons.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import RegularGridInterpolator

from apps.core.geo.grid import Grid, geod_of
from apps.core.ports import Window
from apps.verification.scattered import places_of

# Pixels count by their area where the least and the greatest differ by more than this share; so near to it, either is right.
UNEVEN, NEAR = 0.01, 0.001
# Nodes along columns and rows between which areas are interpolated.
_ROWS, _COLUMNS = 1025, 33
# Nodes that tell how much pixels differ.
_FEW_ROWS, _FEW_COLUMNS = 65, 17
# Half of a step about a pixel's centre, in pixels.
_HALF = 0.05


def _on_earth(grid: Grid, columns: NDArray[np.float64], rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places of a grid as points of its ellipsoid, metres from the centre, (..., 3)."""
    assert grid.crs is not None
    geod: Any = geod_of(grid.crs)
    a, b, c, d, e, f = grid.transform
    lon, lat = (np.radians(np.asarray(v)) for v in grid.lonlat(a * columns + b * rows + c, d * columns + e * rows + f))
    es = max(0.0, float(geod.es))
    prime = float(geod.a) / np.sqrt(1 - es * np.sin(lat) ** 2)
    return np.stack(
        [prime * np.cos(lat) * np.cos(lon), prime * np.cos(lat) * np.sin(lon), prime * (1 - es) * np.sin(lat)], axis=-1
    )


def _areas_at(grid: Grid, columns: NDArray[Any], rows: NDArray[Any]) -> NDArray[np.float64]:
    """Area in m² of the pixels in those columns and rows, both (rows, columns)."""
    at_column, at_row = columns + 0.5, rows + 0.5
    across = _on_earth(grid, at_column + _HALF, at_row) - _on_earth(grid, at_column - _HALF, at_row)
    down = _on_earth(grid, at_column, at_row + _HALF) - _on_earth(grid, at_column, at_row - _HALF)
    return np.asarray(np.linalg.norm(np.cross(across, down), axis=-1) / (2 * _HALF) ** 2)


def areas_of(grid: Grid, window: Window | None = None, step: int = 1) -> NDArray[np.float64]:
    """Area in m² of the pixels of a window that are looked at, (rows, columns). ValueError without a CRS."""
    if grid.crs is None:
        raise ValueError("pixels of a grid without CRS have no areas of their own")
    left, top, width, height = window or (0, 0, grid.width, grid.height)
    if step > 1:
        places = places_of((left, top, width, height), step)
        return _areas_at(grid, places.columns + float(left), places.rows + float(top))
    columns, rows = np.arange(left, left + width, dtype=float), np.arange(top, top + height, dtype=float)
    at_columns = columns if len(columns) <= _COLUMNS else np.linspace(columns[0], columns[-1], _COLUMNS)
    at_rows = rows if len(rows) <= _ROWS else np.linspace(rows[0], rows[-1], _ROWS)
    areas = _areas_at(grid, *np.meshgrid(at_columns, at_rows))
    if len(at_rows) < len(rows):
        areas = np.stack([np.interp(rows, at_rows, areas[:, k]) for k in range(len(at_columns))], axis=1)
    if len(at_columns) == len(columns):
        return areas
    if np.ptp(areas, axis=1).max() <= 1e-9 * areas.max():
        return np.broadcast_to(areas[:, :1], (len(rows), len(columns)))
    between = RegularGridInterpolator((rows, at_columns), areas) if len(rows) > 1 else None
    if between is None:
        return np.asarray(np.interp(columns, at_columns, areas[0])[None])
    return np.asarray(between(tuple(np.meshgrid(rows, columns, indexing="ij"))))


@lru_cache(maxsize=256)
def spread_of(grid: Grid, window: Window | None = None) -> float:
    """By what share the least pixel of a window is smaller than the greatest; 0 without a CRS."""
    left, top, width, height = window or (0, 0, grid.width, grid.height)
    if grid.crs is None or width < 1 or height < 1:
        return 0.0
    columns = np.linspace(left, left + width - 1, min(width, _FEW_COLUMNS))
    areas = _areas_at(grid, *np.meshgrid(columns, np.linspace(top, top + height - 1, min(height, _FEW_ROWS))))
    return float(1 - areas.min() / areas.max())


def weights_due(grid: Grid, window: Window | None, asked: str, told: str) -> str:
    """``area`` or ``pixels``: what a pixel has to count, by what was asked, else by how much the pixels differ."""
    if grid.crs is None:
        return "pixels"
    if asked in ("area", "pixels"):
        return asked
    spread = spread_of(grid, window)
    if abs(spread - UNEVEN) <= NEAR and told in ("area", "pixels"):
        return told
    return "area" if spread > UNEVEN else "pixels"
