"""Planes of a bounded window held whole, for figures that need every pixel at once."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.ports import Window
from apps.tools.execute.types import Sample


class Collected:
    """``planes`` (k, rows, columns) of one window of the grid, and ``valid`` (rows, columns): valid in all, inside the region."""

    def __init__(self, window: Window, n_planes: int = 1):
        self.window = window
        _, _, w, h = window
        self.planes: NDArray[np.float64] = np.zeros((n_planes, h, w))
        self.valid: NDArray[np.bool_] = np.zeros((h, w), dtype=bool)
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> tuple[tuple[slice, slice], Any, Any] | None:
        c, r, w, h = sample.window
        c0, r0, w0, h0 = self.window
        left, top, right, bottom = max(c, c0), max(r, r0), min(c + w, c0 + w0), min(r + h, r0 + h0)
        if left >= right or top >= bottom:
            return None
        at = (slice(top - r, bottom - r), slice(left - c, right - c))
        return ((slice(top - r0, bottom - r0), slice(left - c0, right - c0)), np.stack([p[at] for p in sample.planes]),
                sample.valid[at].copy())

    def merge(self, part: tuple[tuple[slice, slice], Any, Any] | None) -> None:
        if part is not None:
            at, planes, valid = part
            self.planes[:, at[0], at[1]], self.valid[at] = planes, valid
