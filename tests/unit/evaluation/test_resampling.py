"""Intervals from multiplicities against the plain way: copied rows and the figures of ``metrics``."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from apps.evaluation.metrics import auroc, brier, confusion, ece, ece_by_task, interval_by_task, precision_at_recall
from apps.evaluation.resampling import Resampled

RNG = np.random.default_rng(8)
TASKS = [f"t{int(k)}" for k in RNG.integers(0, 23, 500)]
Y = RNG.random(500) < 0.3
P = np.clip(0.3 * Y + RNG.random(500) * 0.7, 0, 1).round(2)
FLAG = P >= 0.5


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("auroc", lambda at: auroc(P[at], Y[at])),
        ("brier", lambda at: brier(P[at], Y[at])),
        ("ece", lambda at: ece(P[at], Y[at])),
        ("precision", lambda at: confusion(FLAG[at], Y[at]).precision),
        ("recall", lambda at: confusion(FLAG[at], Y[at]).recall),
        ("best", lambda at: (precision_at_recall(P[at], Y[at], 0.85) or (None,))[0]),
    ],
)
def test_value_and_interval_are_those_of_copied_rows(name: str, plain: object) -> None:
    held = Resampled(TASKS)
    found = {**held.probability(P, Y), **held.detection(FLAG, Y), **held.precision_at_recall("best", P, Y, 0.85)}
    assert callable(plain)
    assert found[name] == pytest.approx(plain(np.arange(500)), abs=1e-4)
    assert found[f"{name}_interval"] == pytest.approx(interval_by_task(plain, TASKS), abs=1e-4)


def test_each_task_once_weighs_a_task_that_was_run_often_like_one_that_was_not() -> None:
    tasks = ["often"] * 99 + ["once"]
    held = Resampled(tasks, each_task_once=True)
    assert held.detection([True] * 100, [True] * 99 + [False])["precision"] == 0.5
    assert Resampled(tasks).detection([True] * 100, [True] * 99 + [False])["precision"] == 0.99
    weights = {t: 1 / n for t, n in Counter(TASKS).items()}
    w = np.array([weights[t] for t in TASKS])
    found = Resampled(TASKS, each_task_once=True).probability(P, Y)
    assert found["brier"] == pytest.approx((w * (P - Y) ** 2).sum() / w.sum(), abs=1e-4)
    assert found["ece"] == pytest.approx(ece_by_task(P, Y, TASKS), abs=1e-4)
    pairs = [(w[i] * w[j], (P[i] > P[j]) + 0.5 * (P[i] == P[j])) for i in np.flatnonzero(Y) for j in np.flatnonzero(~Y)]
    assert found["auroc"] == pytest.approx(sum(a * b for a, b in pairs) / sum(a for a, _ in pairs), abs=1e-4)


def test_what_has_no_denominator_is_none() -> None:
    assert Resampled([]).share("x", []) == {"x": None, "x_interval": None}
    assert Resampled([]).auroc([], [])["auroc"] is None
    one = Resampled(["a", "a"])
    assert one.probability([0.1, 0.2], [1, 1])["auroc"] is None
    assert one.share("x", [1, 0]) == {"x": 0.5, "x_interval": None}
    assert one.detection([False, False], [True, False]) == {
        "precision": None, "precision_interval": None, "recall": 0.0, "recall_interval": None,
    }  # fmt: skip
    assert one.precision_at_recall("x", [0.3, 0.4], [0, 0], 0.85)["x"] is None
