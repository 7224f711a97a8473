"""Figures with intervals by task, fast: every draw of whole tasks is a row of multiplicities, and every figure is computed from
weights instead of copied rows. With weights of one the figures are those of ``metrics``; with ``each_task_once`` every task
weighs the same, however often it was run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from apps.evaluation.metrics import BOOTSTRAPS, SEED, rounded

Floats = NDArray[np.float64]


class Resampled:
    """Rows of one sample with their tasks. Each method gives ``{name: value, name_interval: [low, high] or None}``, 95 %
    percentile bootstrap (Efron 1979) over tasks with a fixed seed; a figure without a denominator is None."""

    def __init__(self, tasks: Sequence[str], *, each_task_once: bool = False, bootstraps: int = BOOTSTRAPS):
        names = sorted(set(tasks))
        index = {name: i for i, name in enumerate(names)}
        self.task = np.array([index[t] for t in tasks], dtype=int)
        repeats = Counter(tasks)
        self.weight: Floats = np.array([1 / repeats[t] if each_task_once else 1.0 for t in tasks])
        self.n_tasks = len(names)
        rng = np.random.default_rng(SEED)
        draws = [rng.integers(0, self.n_tasks, self.n_tasks) for _ in range(bootstraps)] if self.n_tasks >= 2 else []
        self.draws: Floats = np.array([np.bincount(d, minlength=self.n_tasks) for d in draws], dtype=float)
        self.draws = self.draws.reshape(len(draws), self.n_tasks)

    def _sums(self, values: Sequence[ArrayLike]) -> tuple[Floats, Floats]:
        """(weighted sum of each column, the same in each draw)."""
        of_task = np.column_stack([
            np.bincount(self.task, weights=self.weight * np.asarray(v, float), minlength=self.n_tasks) for v in values
        ])  # fmt: skip
        return of_task.sum(axis=0), self.draws @ of_task

    def _figure(self, name: str, value: float, drawn: Floats) -> dict[str, Any]:
        known = drawn[np.isfinite(drawn)]
        has = len(self.draws) > 0 and len(known) * 2 >= len(self.draws)
        interval = [rounded(v) for v in np.percentile(known, [2.5, 97.5])] if has else None
        return {name: rounded(value) if np.isfinite(value) else None, f"{name}_interval": interval}

    def share(self, name: str, part: ArrayLike, of: ArrayLike | None = None) -> dict[str, Any]:
        """Weighted share of ``part`` among ``of`` (everything)."""
        if not len(self.task):
            return {name: None, f"{name}_interval": None}
        whole = np.ones(len(self.task)) if of is None else np.asarray(of, float)
        total, drawn = self._sums([np.asarray(part, float) * whole, whole])
        with np.errstate(divide="ignore", invalid="ignore"):
            return self._figure(name, float(total[0] / total[1]) if total[1] else np.nan, drawn[:, 0] / drawn[:, 1])

    def detection(self, flagged: ArrayLike, wrong: ArrayLike) -> dict[str, Any]:
        """Precision and recall of a flag."""
        f, y = np.asarray(flagged, bool), np.asarray(wrong, bool)
        return {**self.share("precision", y, f), **self.share("recall", f, y)}

    def probability(self, p: ArrayLike, y: ArrayLike) -> dict[str, Any]:
        """AUROC, Brier score and expected calibration error (ten bins of equal width) of a probability."""
        a, b = np.asarray(p, float), np.asarray(y, float)
        return {**self.auroc(a, b), **self.share("brier", (a - b) ** 2), **self._ece(a, b)}

    def _ece(self, p: Floats, y: Floats, bins: int = 10) -> dict[str, Any]:
        at = np.minimum((p * bins).astype(int), bins - 1)
        total, drawn = self._sums([np.where(at == k, p - y, 0.0) for k in range(bins)] + [np.ones(len(p))])
        with np.errstate(divide="ignore", invalid="ignore"):
            found = np.abs(drawn[:, :-1]).sum(axis=1) / drawn[:, -1]
        return self._figure("ece", float(np.abs(total[:-1]).sum() / total[-1]) if len(p) else np.nan, found)

    def auroc(self, p: ArrayLike, y: ArrayLike) -> dict[str, Any]:
        """Probability that a positive ranks above a negative, ties half (Mann–Whitney)."""
        a, b = np.asarray(p, float), np.asarray(y, float)
        if not a.size:
            return {"auroc": None, "auroc_interval": None}
        order, first, _ = _groups(a)
        up, task = b[order], self.task[order]

        def of(weight: Floats) -> float:
            positive, negative = np.add.reduceat(weight * up, first), np.add.reduceat(weight * (1 - up), first)
            pairs = positive.sum() * negative.sum()
            below = np.cumsum(negative) - negative
            return float((positive * (below + negative / 2)).sum() / pairs) if pairs else np.nan

        held = self.weight[order]
        return self._figure("auroc", of(held), np.array([of(held * draw[task]) for draw in self.draws]))

    def precision_at_recall(self, name: str, p: ArrayLike, wrong: ArrayLike, recall: float) -> dict[str, Any]:
        """Best precision at a recall of at least ``recall``, read off the curve after the fact: an upper bound for a threshold
        that is chosen beforehand."""
        a, y = -np.asarray(p, float), np.asarray(wrong, float)
        if not a.size:
            return {name: None, f"{name}_interval": None}
        order, first, _ = _groups(a)
        up, task = y[order], self.task[order]

        def of(weight: Floats) -> float:
            hits = np.cumsum(np.add.reduceat(weight * up, first))
            taken = np.cumsum(np.add.reduceat(weight, first))
            reached = (hits >= recall * hits[-1] - 1e-12) & (taken > 0)
            return float((hits[reached] / taken[reached]).max()) if hits[-1] > 0 else np.nan

        held = self.weight[order]
        return self._figure(name, of(held), np.array([of(held * draw[task]) for draw in self.draws]))


def _groups(values: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp], int]:
    """(order by value, first place of each group of equal values, groups)."""
    order = np.argsort(values, kind="stable")
    held = values[order]
    first = np.flatnonzero(np.append(True, held[1:] != held[:-1]))
    return order, first, len(first)
