"""A panchromatic band and the coarser bands that it sharpens, brought to one grid so that they can be laid upon each other."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid, transformer
from apps.core.ports import Window
from apps.tools.execute.collected import Collected

# Sides of the middles in which that is estimated, in pixels of the bands and of the panchromatic band.
_PAN_BANDS_PX = 512
_PAN_SIDE_PX = 2048


def windows_of_both(coarse: Grid, fine: Grid) -> tuple[Window, Window] | None:
    """Windows of both grids about the middle of the bands' grid; None where they share no ground there."""
    assert coarse.crs is not None and fine.crs is not None
    side = max(16, min(_PAN_BANDS_PX, int(_PAN_SIDE_PX * (fine.gsd_m or 1) / (coarse.gsd_m or 1))))
    w, h = min(side, coarse.width), min(side, coarse.height)
    c0, r0 = (coarse.width - w) // 2, (coarse.height - h) // 2
    a, b, c, d, e, f = fine.transform
    corners = [coarse.xy(col, row) for col in (c0, c0 + w) for row in (r0, r0 + h)]
    x, y = (np.asarray(v) for v in transformer(coarse.crs, fine.crs).transform(*np.array(corners).T))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        return None
    det = a * e - b * d
    cols, rows = (e * (x - c) - b * (y - f)) / det, (a * (y - f) - d * (x - c)) / det
    left, top = max(0, math.floor(cols.min())), max(0, math.floor(rows.min()))
    right, bottom = min(fine.width, math.ceil(cols.max())), min(fine.height, math.ceil(rows.max()))
    if right <= left or bottom <= top or (right - left) * (bottom - top) > 4 * _PAN_SIDE_PX**2:
        return None
    return (c0, r0, w, h), (left, top, right - left, bottom - top)


def mean_on_bands(pan: Collected, fine: Grid, coarse: Grid, window: Window) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Mean (rows, columns) of the panchromatic pixels whose centre lies in each pixel of a window of the bands' grid."""
    assert coarse.crs is not None and fine.crs is not None
    left, top, w, h = pan.window
    px, py = np.meshgrid(np.arange(left, left + w) + 0.5, np.arange(top, top + h) + 0.5)
    a, b, c, d, e, f = fine.transform
    x, y = a * px + b * py + c, d * px + e * py + f
    if coarse.crs != fine.crs:
        x, y = transformer(fine.crs, coarse.crs).transform(x, y)
    a, b, c, d, e, f = coarse.transform
    det = a * e - b * d
    with np.errstate(invalid="ignore"):
        col = np.floor((e * (x - c) - b * (y - f)) / det) - window[0]
        row = np.floor((a * (y - f) - d * (x - c)) / det) - window[1]
        inside = pan.valid & (col >= 0) & (col < window[2]) & (row >= 0) & (row < window[3])
    cell = (row[inside] * window[2] + col[inside]).astype(np.int64)
    n = np.bincount(cell, minlength=window[2] * window[3])
    total = np.bincount(cell, weights=pan.planes[0][inside], minlength=window[2] * window[3])
    mean = np.divide(total, n, out=np.zeros(n.size), where=n > 0)
    return mean.reshape(window[3], window[2]), (n > 0).reshape(window[3], window[2])
