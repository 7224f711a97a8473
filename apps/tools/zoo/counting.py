"""From scores to a count with an interval: calibrated scores, objects that no box hits, and how counts stray by picture."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from apps.tools.zoo.cards import CountCalibration

LEVEL = 0.9
_Z90 = 1.6449


def probability(score: NDArray[np.float64], c: CountCalibration | None) -> NDArray[np.float64]:
    """The probability that a box of that score is a true object; the score itself where the model has no calibration."""
    s = np.clip(np.asarray(score, float), 1e-4, 1 - 1e-4)
    if c is None:
        return np.asarray(s)
    return np.asarray(1 / (1 + np.exp(-(c.slope * np.log(s / (1 - s)) + c.intercept))))


def fit_logistic(score: Sequence[float], true: Sequence[bool]) -> tuple[float, float]:
    """Slope and intercept of Platt's calibration on the logit of the score, by Newton steps with a light ridge."""
    s = np.clip(np.asarray(score, float), 1e-4, 1 - 1e-4)
    x = np.stack([np.log(s / (1 - s)), np.ones(len(s))], 1)
    y = np.asarray(true, float)
    w = np.array([1.0, 0.0])
    for _ in range(60):
        p = 1 / (1 + np.exp(-(x @ w)))
        grad = x.T @ (y - p) - 0.01 * (w - np.array([1.0, 0.0]))
        hess = (x * (p * (1 - p))[:, None]).T @ x + 0.01 * np.eye(2)
        step = np.linalg.solve(hess, grad)
        w = w + step
        if np.abs(step).max() < 1e-8:
            break
    return float(w[0]), float(w[1])


def count_interval(p: NDArray[np.float64], kept: int, c: CountCalibration | None) -> tuple[float, float, float]:
    """(expected true count, low, high) at LEVEL for candidates of probability ``p`` of which ``kept`` are reported.

    The true count is a Poisson-binomial sum over the candidates, plus objects that no candidate hits, plus the deviation
    between pictures seen in calibration. The interval always holds the reported count. Without a calibration the scores are
    taken as they are and the deviation as 50 %: a wide interval for a model of which nothing is known.
    """
    missed, spread = (c.missed, c.spread) if c is not None else (0.1, 0.5)
    seen = float(p.sum())
    expected = seen / (1 - missed)
    variance = float((p * (1 - p)).sum()) / (1 - missed) ** 2 + expected * missed + (spread * expected) ** 2
    half = _Z90 * math.sqrt(variance)
    low = max(0.0, math.floor(expected - half))
    high = math.ceil(expected + half)
    if c is None or missed >= 0.3:
        # a method that misses many finds nothing on pictures that hold some: nothing found is no zero (rule of three)
        high = max(high, math.floor(3 * max(missed, 0.3) / (1 - max(missed, 0.3))))
    return expected, float(min(low, kept)), float(max(high, kept))
