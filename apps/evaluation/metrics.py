"""Figures of PROTOCOL.md section 8, pure: confusion, precision and recall of ``reject``, calibration, ranking, intervals by task.

Every function takes plain arrays of one length: ``p`` probabilities in [0, 1], ``y`` truth in {0, 1}. What has no denominator is
None, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
BOOTSTRAPS = 400
SEED = 20260101


@dataclass(frozen=True, slots=True)
class Confusion:
    """``positive`` is what is looked for: a wrong observation. ``flagged`` what was rejected."""

    true_positive: int
    false_positive: int
    false_negative: int
    true_negative: int

    @property
    def precision(self) -> float | None:
        n = self.true_positive + self.false_positive
        return self.true_positive / n if n else None

    @property
    def recall(self) -> float | None:
        n = self.true_positive + self.false_negative
        return self.true_positive / n if n else None

    @property
    def false_alarm_rate(self) -> float | None:
        n = self.false_positive + self.true_negative
        return self.false_positive / n if n else None

    def as_json(self) -> dict[str, Any]:
        return {
            "wrong_rejected": self.true_positive, "right_rejected": self.false_positive,
            "wrong_kept": self.false_negative, "right_kept": self.true_negative,
            "precision": rounded(self.precision), "recall": rounded(self.recall),
            "false_alarm_rate": rounded(self.false_alarm_rate),
        }  # fmt: skip


def confusion(flagged: ArrayLike, y: ArrayLike) -> Confusion:
    f, t = np.asarray(flagged, bool), np.asarray(y, bool)
    return Confusion(int((f & t).sum()), int((f & ~t).sum()), int((~f & t).sum()), int((~f & ~t).sum()))


def brier(p: ArrayLike, y: ArrayLike) -> float | None:
    """Mean squared error of the probability (Brier 1950)."""
    a, b = np.asarray(p, float), np.asarray(y, float)
    return float(np.mean((a - b) ** 2)) if a.size else None


def reliability(p: ArrayLike, y: ArrayLike, bins: int = 10) -> list[dict[str, float]]:
    """Mean prediction ``mean_p``, frequency ``y`` and size of each bin of equal width that holds something."""
    a, b = np.asarray(p, float), np.asarray(y, float)
    at = np.minimum((a * bins).astype(int), bins - 1)
    return [
        {"from": k / bins, "to": (k + 1) / bins, "mean_p": float(a[at == k].mean()), "y": float(b[at == k].mean()),
         "n": int((at == k).sum())}
        for k in range(bins)
        if (at == k).any()
    ]  # fmt: skip


def ece(p: ArrayLike, y: ArrayLike, bins: int = 10) -> float | None:
    """Expected calibration error over bins of equal width (Naeini et al. 2015)."""
    n = np.asarray(p).size
    return sum(abs(b["mean_p"] - b["y"]) * b["n"] for b in reliability(p, y, bins)) / n if n else None


def ece_by_task(p: ArrayLike, y: ArrayLike, tasks: Sequence[str], bins: int = 10) -> float | None:
    """Expected calibration error with every task weighing the same, however often it was run."""
    a, b = np.asarray(p, float), np.asarray(y, float)
    if not a.size:
        return None
    repeats = Counter(tasks)
    weight = np.array([1 / repeats[t] for t in tasks]) / len(repeats)
    at = np.minimum((a * bins).astype(int), bins - 1)
    return float(sum(abs((weight * (a - b))[at == k].sum()) for k in range(bins)))


def auroc(p: ArrayLike, y: ArrayLike) -> float | None:
    """Probability that a positive ranks above a negative, ties counted half (Mann–Whitney). None with one class only."""
    a, b = np.asarray(p, float), np.asarray(y, bool)
    n1, n0 = int(b.sum()), int((~b).sum())
    if not n1 or not n0:
        return None
    values, inverse, counts = np.unique(a, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    assert len(values) == len(counts)
    return float((ranks[b].sum() - n1 * (n1 + 1) / 2) / (n1 * n0))


def precision_at_recall(p: ArrayLike, y: ArrayLike, recall: float) -> tuple[float, float] | None:
    """(best precision at a recall of at least ``recall``, threshold). Read off the curve after the fact: an upper bound for any
    threshold that is chosen beforehand. None without positives."""
    a, b = np.asarray(p, float), np.asarray(y, bool)
    if not b.any():
        return None
    order = np.argsort(-a, kind="stable")
    hits = np.cumsum(b[order])
    last = np.append(a[order][1:] != a[order][:-1], True)  # a threshold takes all of a tie or none
    reached = last & (hits / b.sum() >= recall)
    precision = np.where(reached, hits / np.arange(1, a.size + 1), -1.0)
    at = int(precision.argmax())
    return float(precision[at]), float(a[order][at])


def interval_by_task(statistic: Callable[[NDArray[np.intp]], float | None], tasks: Sequence[str],
                     bootstraps: int = BOOTSTRAPS) -> tuple[float, float] | None:  # fmt: skip
    """95 % percentile interval of ``statistic`` over resampled tasks (Efron 1979), whole tasks at a time, fixed seed.

    ``statistic`` takes the indices that were drawn and may give None. None where fewer than half of the draws gave a number."""
    names = sorted(set(tasks))
    if len(names) < 2:
        return None
    held = np.asarray(tasks)
    of_task = [np.flatnonzero(held == name) for name in names]
    rng = np.random.default_rng(SEED)
    found: list[float] = []
    for _ in range(bootstraps):
        value = statistic(np.concatenate([of_task[i] for i in rng.integers(0, len(names), len(names))]))
        if value is not None:
            found.append(value)
    if len(found) * 2 < bootstraps:
        return None
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)


def rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None else round(float(value), digits)


def with_interval(name: str, statistic: Callable[[NDArray[np.intp]], float | None], tasks: Sequence[str]) -> dict[str, Any]:
    """``name``: the statistic over everything; ``name_interval``: its 95 % interval by task."""
    found = interval_by_task(statistic, tasks)
    return {
        name: rounded(statistic(np.arange(len(tasks)))) if len(tasks) else None,
        f"{name}_interval": None if found is None else [rounded(v) for v in found],
    }
