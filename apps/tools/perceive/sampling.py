"""Bands of a scene as one array that fits in memory: whole, or a coarser view of it with its own grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.core.ports import RasterReader

# Samples (bands × pixels) that a view may hold.
VIEW_SAMPLES = 60_000_000


@dataclass(frozen=True, slots=True)
class View:
    """float64 (bands, rows, columns), valid (rows, columns) where all bands are, and the view's grid; ``step`` is how many
    pixels of the scene one pixel of the view stands for along an axis (1: whole)."""

    data: NDArray[np.float64]
    valid: NDArray[np.bool_]
    grid: Grid
    step: float


def view_of(reader: RasterReader, bands: Sequence[int]) -> View:
    """The bands, whole where VIEW_SAMPLES allow it."""
    grid = reader.info.grid
    n = grid.width * grid.height * len(bands)
    # complex samples come as they are stored; their amplitude is looked at
    physical = not reader.info.dtype.startswith("complex")
    if n <= VIEW_SAMPLES:
        read = reader.read(bands, physical=physical)
        return View(_real(read.data), np.asarray(read.valid.all(axis=0)), grid, 1.0)
    step = (n / VIEW_SAMPLES) ** 0.5
    height, width = max(1, round(grid.height / step)), max(1, round(grid.width / step))
    read = reader.read(bands, None, (height, width), physical=physical)
    a, b, c, d, e, f = grid.transform
    sx, sy = grid.width / width, grid.height / height
    coarse = Grid(crs=grid.crs, transform=(a * sx, b * sy, c, d * sx, e * sy, f), width=width, height=height)
    return View(_real(read.data), np.asarray(read.valid.all(axis=0)), coarse, step)


def _real(data: NDArray[Any]) -> NDArray[np.float64]:
    return np.asarray(np.abs(data) if np.iscomplexobj(data) else data, dtype=np.float64)
