"""How long the sides of pixels are on the ground, for slopes: by the verifier's own way over the ellipsoid."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid, geod_of
from apps.core.geo.scene import SceneInfo
from apps.verification.planes import CannotLookError


def turned_pixel_m(scene: SceneInfo, top: int, rows: int) -> tuple[Any, Any]:
    """(length in metres of a step along a row, down a column) of a turned grid whose pixels are rectangles of one size on the
    ground to a part in a thousand; CannotLookError for others."""
    grid = scene.grid
    if grid.crs is None or grid.is_plate_carree:
        raise CannotLookError("the slopes of turned grids in degrees, or without CRS, are not followed")
    geod, t = geod_of(grid.crs), grid.transform
    lines = np.arange(top, top + rows) + 0.5
    cols, at = (g.ravel() for g in np.meshgrid(np.array([0.5, grid.width / 2, grid.width - 0.5]), lines))

    def place(col: NDArray[Any], line: NDArray[Any]) -> tuple[Any, Any]:
        return grid.lonlat(t[0] * col + t[1] * line + t[2], t[3] * col + t[4] * line + t[5])

    along, _, across = geod.inv(*place(cols - 0.5, at), *place(cols + 0.5, at))
    falling, _, down = geod.inv(*place(cols, at - 0.5), *place(cols, at + 0.5))
    if np.ptp(across) > 1e-3 * across.min() or np.ptp(down) > 1e-3 * down.min():
        raise CannotLookError("pixels of the turned grid differ in size: slopes there are not followed")
    if np.abs(np.cos(np.radians(along - falling))).max() > 1e-3:
        raise CannotLookError("rows and columns of the turned grid do not meet at a right angle")
    return float(np.median(across)), float(np.median(down))


def pixel_m(scene: SceneInfo, top: int, rows: int) -> tuple[Any, Any]:
    """(width, height) in metres of the pixels of rows, at the scene's middle column."""
    grid = scene.grid
    a, b, _, d, e, _ = grid.transform
    if b or d:
        raise CannotLookError("the slopes of turned grids are not followed")
    if grid.crs is None:
        if scene.gsd_m is None:
            raise CannotLookError("the size of a pixel is not known")
        return scene.gsd_m, scene.gsd_m
    if not grid.is_plate_carree and not _is_laid_out_as_told(grid):
        raise CannotLookError("rows do not run east, or not by as many metres as the CRS says: slopes there are not followed")
    if not grid.is_geographic and grid.area_method == "grid" and grid.grid_pixel_area_m2:
        metre = math.sqrt(grid.grid_pixel_area_m2 / abs(a * e))
        return abs(a) * metre, abs(e) * metre
    middle, lines = grid.width / 2, np.arange(top, top + rows) + 0.5
    geod = geod_of(grid.crs)

    def place(col: float, line: NDArray[Any]) -> tuple[Any, Any]:
        t = grid.transform
        return grid.lonlat(t[0] * col + t[2] + 0 * line, t[4] * line + t[5])

    across = geod.inv(*place(middle - 0.5, lines), *place(middle + 0.5, lines))[2]
    down = geod.inv(*place(middle, lines - 0.5), *place(middle, lines + 0.5))[2]
    return np.asarray(across)[:, None], np.asarray(down)[:, None]


def _is_laid_out_as_told(grid: Grid) -> bool:
    """Whether, at nine places, the next column lies east and the next row south (within 3.5 degrees, as in a zone of UTM), by as
    many metres as the CRS says where the grid is near equal-area."""
    assert grid.crs is not None
    a, _, _, _, e, _ = grid.transform
    metre = math.sqrt((grid.grid_pixel_area_m2 or 0.0) / abs(a * e)) if grid.area_method == "grid" else 0.0
    geod = geod_of(grid.crs)
    for col in (0.5, grid.width / 2, grid.width - 0.5):
        for row in (0.5, grid.height / 2, grid.height - 0.5):
            steps = (0.5, 0.0, abs(a), 90.0 if a > 0 else -90.0), (0.0, 0.5, abs(e), 180.0 if e < 0 else 0.0)
            for dc, dr, told, wanted in steps:
                one, other = (grid.lonlat(*grid.xy(col + k * dc, row + k * dr)) for k in (-1, 1))
                azimuth, _, metres = geod.inv(*one, *other)
                if abs((azimuth - wanted + 180) % 360 - 180) > 3.5 or (metre and abs(metres / (told * metre) - 1) > 2e-3):
                    return False
    return True
