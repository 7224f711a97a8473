"""Scores of boxes and probabilities by plain arithmetic, apart from the project's own: what the tests measure cards with."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import shapely
from numpy.typing import NDArray

Box = tuple[float, float, float, float]


def overlap(a: Box, b: Box) -> float:
    """Intersection over union of two frames, by shapely."""
    one, other = shapely.box(*a), shapely.box(*b)
    common = one.intersection(other).area
    return float(common / (one.area + other.area - common))


def hits(found: Sequence[tuple[float, Box]], truth: Sequence[Box], least: float) -> list[tuple[float, bool]]:
    """(score, right) best first: each box takes the free labelled one that it covers best, if at least ``least``."""
    free = list(truth)
    out = []
    for score, box in sorted(found, key=lambda f: -f[0]):
        best = max(free, key=lambda t: overlap(box, t), default=None)
        right = best is not None and overlap(box, best) >= least
        if right and best is not None:
            free.remove(best)
        out.append((score, right))
    return out


def average_precision(scored: Sequence[tuple[float, bool]], n_true: int) -> float:
    """Mean of the best precision at recall 0, 0.01, … 1 or more."""
    points, right = [], 0
    for n, (_, is_right) in enumerate(sorted(scored, key=lambda s: -s[0]), start=1):
        right += is_right
        points.append((right / n_true, right / n))
    return sum(max((p for r, p in points if r >= k / 100), default=0.0) for k in range(101)) / 101


def calibration_error(p: NDArray[np.float64], right: NDArray[np.bool_], bins: int = 15) -> float:
    """Expected calibration error, equal bins."""
    total = 0.0
    for k in range(bins):
        inside = (p > k / bins) & (p <= (k + 1) / bins)
        if inside.any():
            total += abs(float(right[inside].sum()) - float(p[inside].sum())) / len(p)
    return total


def precision_recall(found: Sequence[tuple[float, Box]], truth: Sequence[Box], least: float) -> tuple[float, float]:
    right = sum(ok for _, ok in hits(found, truth, least))
    return right / len(found), right / len(truth)
