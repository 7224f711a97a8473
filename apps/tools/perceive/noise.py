"""How much of a picture is noise (Immerkær 1996, CVIU 64)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

# Immerkær's mask: its response to an image of noise of standard deviation σ is 6σ.
NOISE_KERNEL = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], dtype=np.float64)


def grain(image: NDArray[np.float64], valid: NDArray[np.bool_]) -> float:
    """Standard deviation of the noise of an image (rows, columns), from the median response to Immerkær's mask, which large
    structures do not move; 0 from fewer than 16 pixels."""
    inner = ndimage.binary_erosion(valid, structure=np.ones((3, 3)))
    if inner.sum() < 16:
        return 0.0
    return float(np.median(np.abs(ndimage.convolve(image, NOISE_KERNEL)[inner])) / 0.6745 / 6)
