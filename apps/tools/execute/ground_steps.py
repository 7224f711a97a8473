"""How far, and in which direction on the ground, one pixel lies from the next: for grids whose rows and columns do not run east
and south, or not by as many metres as their CRS says (polar, equal-area and sinusoidal projections, turned grids)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid, geod_of
from apps.core.ports import Window

# Nodes along a side of the lattice between which steps are interpolated.
_NODES = 129
# Grids that deviate less are taken as their CRS says, north being the grid's (a zone of UTM turns by up to 3.5°).
_TURN_DEG = 3.5
_SHEAR_DEG = 0.3
_LENGTH_SHARE = 2e-3


@dataclass(frozen=True, slots=True)
class GroundSteps:
    """Metres towards east and north of a step to the next column and to the next row, on a lattice over the grid."""

    cols: NDArray[np.float64]
    rows: NDArray[np.float64]
    parts: NDArray[np.float64]  # (4, rows, columns): column step's east and north, row step's east and north

    def gradient(self, window: Window, by_col: NDArray[np.float64], by_row: NDArray[np.float64],
                 ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(rise towards east, rise towards north) in units a metre, of rises to the next column and to the next row."""
        c, r, w, h = window
        ce, cn, re, rn = (self._at(part, c, r, w, h) for part in self.parts)
        det = ce * rn - cn * re
        return (rn * by_col - cn * by_row) / det, (ce * by_row - re * by_col) / det

    def _at(self, part: NDArray[np.float64], c: int, r: int, w: int, h: int) -> NDArray[np.float64]:
        want = np.arange(r, r + h) + 0.5
        by_row = np.stack([np.interp(want, self.rows, part[:, j]) for j in range(len(self.cols))], axis=1)
        at = np.interp(np.arange(c, c + w) + 0.5, self.cols, np.arange(len(self.cols)))
        left = np.minimum(at.astype(int), max(0, len(self.cols) - 2))
        right = np.minimum(left + 1, len(self.cols) - 1)
        t = at - left
        return np.asarray(by_row[:, left] * (1 - t) + by_row[:, right] * t)


@lru_cache(maxsize=64)
def ground_steps(grid: Grid) -> GroundSteps | None:
    """Steps of a grid with CRS that has to be followed pixel by pixel; None where its CRS tells them well enough."""
    if grid.crs is None or (grid.is_plate_carree and not (grid.transform[1] or grid.transform[3])):
        return None
    cols, rows = (np.linspace(0.5, n - 0.5, min(_NODES, n)) for n in (grid.width, grid.height))
    col, row = np.meshgrid(cols, rows)
    a, b, c, d, e, f = grid.transform
    geod = geod_of(grid.crs)
    parts: list[NDArray[np.float64]] = []
    for dc, dr in ((0.5, 0.0), (0.0, 0.5)):
        ends: list[Any] = []
        for sign in (-1, 1):
            x, y = col + sign * dc, row + sign * dr
            ends += [np.asarray(v, dtype=np.float64) for v in grid.lonlat(a * x + b * y + c, d * x + e * y + f)]
        out, back, metres = (np.asarray(v) for v in geod.inv(*ends))
        # the direction in the middle: half of the turn from one end to the other
        here, there = np.radians(out), np.radians(back + 180)
        east, north = np.sin(here) + np.sin(there), np.cos(here) + np.cos(there)
        length = np.hypot(east, north)
        parts += [metres * east / length, metres * north / length]
    found = np.stack(parts)
    return None if not np.isfinite(found).all() or _is_plain(grid, found) else GroundSteps(cols, rows, found)


def _is_plain(grid: Grid, parts: NDArray[np.float64]) -> bool:
    a, b, _, d, e, _ = grid.transform
    if b or d:
        return False
    ce, cn, re, rn = parts
    across, down = np.hypot(ce, cn), np.hypot(re, rn)
    right, below = math.copysign(1, a), math.copysign(1, e)
    turn = np.degrees(np.arctan2(cn * right, ce * right))
    shear = np.degrees(np.arctan2(ce * re + cn * rn, np.abs(ce * rn - cn * re)))
    if np.abs(turn).max() > _TURN_DEG or np.abs(shear).max() > _SHEAR_DEG or (below * rn < 0).any():
        return False
    if grid.area_method == "grid":
        unit = math.sqrt((grid.grid_pixel_area_m2 or 1.0) / abs(a * e))
        wanted = abs(a) * unit, abs(e) * unit
        return bool(np.abs(across / wanted[0] - 1).max() < _LENGTH_SHARE and np.abs(down / wanted[1] - 1).max() < _LENGTH_SHARE)
    # the pixels of a row are taken to be as wide as the middle one
    middle = across.shape[1] // 2
    return bool(max(np.abs(v / v[:, middle:middle + 1] - 1).max() for v in (across, down)) < _LENGTH_SHARE)
