"""How far two images of one place lie apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.geo.grid import Grid

# A shift is believed from this correlation of the edges on.
LEAST_LIKENESS = 0.5
# Side of the window in which the shift is estimated.
SHIFT_WINDOW_PX = 2048


def estimated_shift(one: NDArray[np.float64], other: NDArray[np.float64],
                    valid: NDArray[np.bool_]) -> tuple[NDArray[np.float64] | None, float | None]:
    """((rows, columns) by which ``other`` lies away from ``one``, correlation of their edges then), to a twentieth of a pixel, in
    a central window.

    The shift is None where the two have too little in common to tell. Guizar-Sicairos et al. 2008, Optics Letters 33.
    """
    # half a second of imports that nothing else needs
    from skimage.registration import phase_cross_correlation

    h, w = one.shape
    r0, c0 = max(0, (h - SHIFT_WINDOW_PX) // 2), max(0, (w - SHIFT_WINDOW_PX) // 2)
    at = (slice(r0, r0 + SHIFT_WINDOW_PX), slice(c0, c0 + SHIFT_WINDOW_PX))
    a, b, v = one[at], other[at], valid[at]
    if v.sum() < 256 or min(v.shape) < 16:
        return None, None
    # gradients match although brightness changed; the window function keeps the frame's edges out
    frame = np.outer(np.hanning(v.shape[0]), np.hanning(v.shape[1]))
    eroded = ndimage.binary_erosion(v, iterations=2)

    def edges(x: NDArray[np.float64]) -> NDArray[np.float64]:
        filled = np.where(v, x, np.median(x[v]))
        return np.asarray(np.hypot(ndimage.sobel(filled, 0), ndimage.sobel(filled, 1)) * eroded)

    ea, eb = edges(a), edges(b)
    if ea.std() == 0 or eb.std() == 0:
        return None, None
    shift, _, _ = cast(Any, phase_cross_correlation)(ea * frame, eb * frame, upsample_factor=20, normalization=None)
    moved = ndimage.shift(eb, shift, order=1)
    likeness = float(np.corrcoef(ea[eroded], moved[eroded])[0, 1])
    # a shift is believed where the moved image is like the other one, and clearly more so than the unmoved
    as_it_lies = float(np.corrcoef(ea[eroded], eb[eroded])[0, 1])
    if likeness < LEAST_LIKENESS:
        return None, max(likeness, as_it_lies)
    if likeness < as_it_lies + 0.02:
        return np.zeros(2), as_it_lies
    return -np.asarray(shift, dtype=np.float64), likeness


def shift_on_ground_m(grid: Grid, shift: Sequence[float] | NDArray[np.float64]) -> float:
    """Length in m of a shift of (rows, columns) at the middle of a grid, on the ellipsoid. ValueError for a grid without CRS."""
    col, row = grid.width / 2, grid.height / 2
    return float(grid.ground_m(col, row, col + float(shift[1]), row + float(shift[0])))
