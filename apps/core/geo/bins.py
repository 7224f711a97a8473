"""Counts in equal bins, also where the values lie too close together, or too far apart, for bins whose edges differ; quantiles of
counted values."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray


def counts_in_bins(
    values: NDArray[Any], bins: int, low: float, high: float, weights: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """(bins,) counts of the values from ``low`` to ``high``, both inside; ``low`` < ``high``, both finite. ``weights``: how often
    each value stands for itself."""
    try:
        return np.asarray(np.histogram(values, bins=bins, range=(low, high), weights=weights)[0], dtype=np.int64)
    except ValueError:
        # numpy wants edges that can be told apart; halves keep the span of the largest numbers finite
        is_inside = (values >= low) & (values <= high)
        inside = values[is_inside].astype(np.float64)
        share = (inside / 2 - low / 2) / (high / 2 - low / 2)
        at = np.minimum((share * bins).astype(np.int64), bins - 1)
        return np.bincount(at, None if weights is None else weights[is_inside], minlength=bins).astype(np.int64)


def quantile_of_counts(values: NDArray[Any], counts: NDArray[np.int64], q: float) -> float:
    """The quantile of values, ascending, each as often as counted; linear between ranks, as numpy's default."""
    ends = np.cumsum(counts)
    at = q * (int(ends[-1]) - 1)
    low, high = (float(values[np.searchsorted(ends, rank, side="right")]) for rank in (math.floor(at), math.ceil(at)))
    return low + (high - low) * (at - math.floor(at))
