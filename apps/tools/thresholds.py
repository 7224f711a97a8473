"""Thresholds: what counts as on a limit, and Otsu's threshold of a histogram, with how well it parts the two classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import ModelError

# A histogram of one Gaussian heap has 2/π = 0.64: below this the threshold parts one heap, not two.
WEAK_SEPARABILITY = 0.70
# Values that differ from a limit by less than this share are on it: a stored 30 × 0.01 is 0.3 up to the rounding of 32 bits.
ON_LIMIT = 4 * float(np.finfo(np.float32).eps)
# Degrees Celsius come of numbers as large as this, and their rounding with them.
_ZERO_CELSIUS_K = 273.15


def rounding_of(values: Any, unit: str = "1", low: float = -np.inf, high: float = np.inf) -> Any:
    """How far numbers may differ by the rounding of scaled values and of quotients alone, for values in ``unit`` between ``low``
    and ``high``; far below any step of a product. A number or an array, as ``values`` is."""
    least = _ZERO_CELSIUS_K if unit == "degC" else 1.0 if unit == "1" and low >= -1 and high <= 1 else 0.0
    return ON_LIMIT * np.maximum(np.abs(values), least)


def on_limit(limit: float, unit: str = "1", low: float = -np.inf, high: float = np.inf) -> float:
    """How near to a limit values count as on it. Nothing at 0, where differences of equal numbers are exact, but in degrees
    Celsius."""
    return float(rounding_of(limit, unit, low, high)) if limit or unit == "degC" else 0.0


def otsu(counts: NDArray[np.int64], edges: NDArray[np.float64]) -> tuple[float, float]:
    """(threshold, separability). The threshold maximises the variance between classes over bin centres (Otsu 1979, IEEE SMC 9);
    separability is that variance over the total one, 0…1. Values above the threshold are the upper class.

    Raises ModelError where fewer than two bins hold values: there is nothing to part.
    """
    if np.count_nonzero(counts) < 2:
        raise ModelError("Otsu's threshold needs at least two different values among the valid pixels.", code="TOOL_FAILED")
    with np.errstate(over="ignore"):
        widths = np.diff(edges)
    if not np.isfinite(widths).all() or (widths <= 0).any() or not np.isfinite(widths.sum() ** 2 * counts.sum() ** 2):
        raise ModelError("The values lie too close together, or too far apart, for a histogram of them.", code="TOOL_FAILED")
    centres = (edges[:-1] + edges[1:]) / 2
    n = counts.astype(np.float64)
    below, above = np.cumsum(n), np.cumsum(n[::-1])[::-1]
    mean_below = np.cumsum(n * centres) / np.maximum(below, 1)
    mean_above = (np.cumsum((n * centres)[::-1]) / np.maximum(above[::-1], 1))[::-1]
    between = below[:-1] * above[1:] * (mean_below[:-1] - mean_above[1:]) ** 2
    # empty bins between two heaps share the maximum: the middle of them is taken
    ties = np.flatnonzero(between >= between.max() * (1 - 1e-12))
    best = int(ties[len(ties) // 2])
    total = n.sum()
    mean = (n * centres).sum() / total
    variance = (n * (centres - mean) ** 2).sum() / total
    separability = float(between[best] / total**2 / variance) if variance > 0 else 0.0
    return float(centres[best]), min(1.0, separability)
