"""Statistics of the second look, with how sure they are where only a part of the pixels was seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.verification.planes import CannotLookError


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure from a second look. ``is_exact``: over all pixels; else over a part by lot, with its standard ``error``."""

    value: float
    is_exact: bool
    error: float
    n_valid: int
    spread: float
    minimum: float
    maximum: float


# Names that mean the same statistic.
SAME_STATISTIC = {"average": "mean", "minimum": "min", "maximum": "max", "share": "mean", "stdev": "std", "stddev": "std"}


STATISTICS: dict[str, Callable[[Any], Any]] = {
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
    "max": np.max,
    "std": np.std,
    "variance": np.var,
    "sum": np.sum,
    "range": np.ptp,
    "iqr": lambda v: np.subtract(*np.percentile(v, [75, 25])),
    "cv": lambda v: np.std(v) / np.mean(v),
    "skewness": lambda v: np.mean(((v - np.mean(v)) / np.std(v)) ** 3),
    "kurtosis": lambda v: np.mean(((v - np.mean(v)) / np.std(v)) ** 4) - 3,
}


def statistic_function(name: str) -> Callable[[Any], Any] | None:
    """The function of a statistic; ``percentile:95`` for percentiles; None for one that is not known here."""
    name = SAME_STATISTIC.get(name, name)
    if name.startswith("percentile:"):
        q = float(name.split(":", 1)[1])
        return lambda v: np.percentile(v, q)
    return STATISTICS.get(name)


def statistic_value(values: NDArray[Any], name: str) -> float | None:
    """A statistic by its name, of values (n,); None for one that is not known here, or of no values."""
    how = statistic_function(name)
    return float(how(values)) if how is not None and values.size else None


def estimate(values: NDArray[np.float64], name: str, step: int = 1, areas: NDArray[np.float64] | None = None) -> Estimate:
    """A statistic of values that are all there are (step 1), or of one by lot in each cell of ``step`` × ``step`` pixels; then
    with its standard error, at most that of a random sample.
    A mean is weighted by ``areas`` where they are given.

    CannotLookError where nothing valid was seen.
    """
    if values.size == 0:
        raise CannotLookError("no valid pixel lies where the second look went")
    how = statistic_function(name)
    if how is None:
        raise CannotLookError(f"the second look does not follow the statistic {name!r}")
    value, spread = float(how(values)), float(values.std())
    error = 0.0 if step == 1 else _standard_error(values, SAME_STATISTIC.get(name, name), value, spread)
    if areas is not None and SAME_STATISTIC.get(name, name) == "mean":
        value = float(np.average(values, weights=areas))
        # unequal weights count as so many fewer values (Kish 1965)
        error *= math.sqrt(values.size * float((areas**2).sum())) / float(areas.sum())
    return Estimate(value, step == 1, error, int(values.size), spread, float(values.min()), float(values.max()))


def _standard_error(values: NDArray[np.float64], name: str, value: float, spread: float) -> float:
    """Standard error of a statistic of a random sample: of quantiles by their ranks, of a spread by its fourth moment."""
    n = values.size
    if name == "std" and spread > 0:
        kurtosis = float((((values - values.mean()) / spread) ** 4).mean())
        return spread * math.sqrt(max(kurtosis - 1, 1.0) / 4 / n)
    if name == "median" or name.startswith("percentile:"):
        q = 0.5 if name == "median" else float(name.split(":", 1)[1]) / 100
        room = 6 * math.sqrt(max(q * (1 - q), 1 / n) / n)
        low, high = np.quantile(values, [max(0.0, q - room), min(1.0, q + room)])
        return float(max(high - value, value - low)) / 6
    if not (values * (1 - values)).any():
        # of a mask: what is rare may be missing from the sample altogether (four more of either kind, as Agresti and Coull)
        p = (float(values.sum()) + 4) / (n + 8)
        return math.sqrt(p * (1 - p) / n)
    return spread / math.sqrt(n)
