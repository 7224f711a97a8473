"""Which pixels of a window are looked at: all of a small one, else one a cell, its place within the cell drawn by lot.

Every k-th row and column keeps step with whatever repeats every k pixels (stripes of a detector, furrows, roofs), and a figure of
such a sample may be far off without showing it. A place by lot in each cell (a stratified sample: Cochran 1977, chapter 5)
cannot, and its error is at most that of a random sample, which can be told. The lots are the same every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.ports import Window

_SEED = 1977


@dataclass(frozen=True, slots=True)
class Places:
    """Rows and columns of the pixels that are looked at, (cells down, cells across) each, counted from the window's corner.
    ``stands_for``: pixels of the window for one that is looked at."""

    rows: NDArray[np.int64]
    columns: NDArray[np.int64]
    stands_for: float

    def take(self, pixels: NDArray[Any], window: Window) -> NDArray[Any]:
        """What is looked at of the window, of an array whose last two axes are rows and columns of the whole grid."""
        return np.asarray(pixels[..., self.rows + window[1], self.columns + window[0]])


@lru_cache(maxsize=32)
def _laid(width: int, height: int, step: int) -> Places:
    down, across = -(-height // step), -(-width // step)
    row, column = np.meshgrid(np.arange(down), np.arange(across), indexing="ij")
    if step > 1:
        lots = np.random.default_rng([_SEED, width, height, step]).random((2, down, across))
        # cells of one size, also where the step does not divide the window: each pixel is as likely as any other
        row = np.minimum((row + lots[0]) * height / down, height - 1).astype(np.int64)
        column = np.minimum((column + lots[1]) * width / across, width - 1).astype(np.int64)
    row.flags.writeable = column.flags.writeable = False
    return Places(row, column, width * height / (down * across))


def places_of(window: Window, step: int) -> Places:
    """The pixels of a window that are looked at, one in each cell of about ``step`` × ``step``; all of them for step 1."""
    return _laid(window[2], window[3], step)
