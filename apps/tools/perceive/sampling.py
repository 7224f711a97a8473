"""Bands of a part of a scene as one array that fits in memory: every pixel of it.

What is larger is not thinned: every k-th row and column keeps step with whatever repeats every k pixels, and figures made of them
may be far off without showing it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import ToolAbstainedError
from apps.core.geo.grid import Grid, transformer
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.region import RegionMask

# Samples (bands × pixels) that a view may hold.
VIEW_SAMPLES = 60_000_000
# An outline is followed at so many places a side; what lies this near to it is read too.
_PLACES, _ROOM_PX = 65, 3


@dataclass(frozen=True, slots=True)
class View:
    """float64 (bands, rows, columns), valid (rows, columns) where all bands are, the view's grid, and the window of the scene
    that it is."""

    data: NDArray[np.float64]
    valid: NDArray[np.bool_]
    grid: Grid
    window: Window


def part_looked_at(scene: SceneInfo, n_bands: int, region: RegionMask) -> Window:
    """All of the scene, or the region's part of it where all is too much. ToolAbstainedError TOO_LARGE where that is so too."""
    whole = (0, 0, scene.grid.width, scene.grid.height)
    window = whole if _samples(whole, n_bands) <= VIEW_SAMPLES else region.bounds_px
    _refuse_large(scene, window, n_bands, whole == window)
    return window


def part_under(scene: SceneInfo, n_bands: int, target: Grid) -> Window | None:
    """The part of the scene that lies under another grid; None where none does. ToolAbstainedError TOO_LARGE."""
    assert scene.grid.crs is not None and target.crs is not None
    # rows and columns across the grid, for its outline alone may pass by on both sides
    cols, rows = np.meshgrid(np.linspace(0, target.width, _PLACES), np.linspace(0, target.height, _PLACES))
    ta, tb, tc, td, te, tf = target.transform
    x, y = transformer(target.crs, scene.grid.crs).transform(ta * cols + tb * rows + tc, td * cols + te * rows + tf)
    a, b, c, d, e, f = scene.grid.transform
    x, y = np.asarray(x) - c, np.asarray(y) - f
    det = a * e - b * d
    col, row = (e * x - b * y) / det, (a * y - d * x) / det
    if not np.isfinite(col).any():
        return None
    left, right = _span(col[np.isfinite(col)], scene.grid.width)
    top, bottom = _span(row[np.isfinite(row)], scene.grid.height)
    if right <= left or bottom <= top:
        return None
    window = (left, top, right - left, bottom - top)
    _refuse_large(scene, window, n_bands, False)
    return window


def view_of(reader: RasterReader, bands: Sequence[int], window: Window) -> View:
    """Every pixel of the bands in the window."""
    # complex samples come as they are stored; their amplitude is looked at
    read = reader.read(bands, window, physical=not reader.info.dtype.startswith("complex"))
    data = np.asarray(np.abs(read.data) if np.iscomplexobj(read.data) else read.data, dtype=np.float64)
    grid = reader.info.grid
    is_whole = window == (0, 0, grid.width, grid.height)
    return View(data, np.asarray(read.valid.all(axis=0)), grid if is_whole else grid.window(*window), window)


def _samples(window: Window, n_bands: int) -> int:
    return window[2] * window[3] * n_bands


def _refuse_large(scene: SceneInfo, window: Window, n_bands: int, is_whole: bool) -> None:
    n = _samples(window, n_bands)
    if n > VIEW_SAMPLES:
        what = scene.name if is_whole else f"The part of {scene.name} that is asked for"
        raise ToolAbstainedError(
            f"{what} has {n / 1e6:,.1f} million samples ({n_bands} {'band' if n_bands == 1 else 'bands'}); all pixels are "
            f"compared up to {VIEW_SAMPLES / 1e6:,.4g} million, and of every k-th pixel alone nothing sure can be told. Draw a "
            f"{'region' if is_whole else 'smaller region'}.",
            code="TOO_LARGE",
            needs={"region": True},
        )


def _span(at: NDArray[Any], size: int) -> tuple[int, int]:
    """The first place and the end of what is read along an axis: the places, a cell's width between two of them, and room."""
    room = _ROOM_PX + float(at.max() - at.min()) / (_PLACES - 1)
    return max(0, int(np.floor(at.min() - room))), min(size, int(np.ceil(at.max() + room)))
