"""Counts in equal bins, also where the values lie too close together, or too far apart, for bins whose edges differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def counts_in_bins(values: NDArray[Any], bins: int, low: float, high: float) -> NDArray[np.int64]:
    """(bins,) counts of the values from ``low`` to ``high``, both inside; ``low`` < ``high``, both finite."""
    try:
        return np.asarray(np.histogram(values, bins=bins, range=(low, high))[0], dtype=np.int64)
    except ValueError:
        # numpy wants edges that can be told apart; halves keep the span of the largest numbers finite
        inside = values[(values >= low) & (values <= high)].astype(np.float64)
        share = (inside / 2 - low / 2) / (high / 2 - low / 2)
        return np.bincount(np.minimum((share * bins).astype(np.int64), bins - 1), minlength=bins)
