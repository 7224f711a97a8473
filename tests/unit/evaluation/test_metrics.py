"""Figures against independent computations."""

from __future__ import annotations

import numpy as np
import pytest

from apps.evaluation.metrics import (
    auroc,
    brier,
    confusion,
    ece,
    ece_by_task,
    interval_by_task,
    precision_at_recall,
    reliability,
    with_interval,
)

RNG = np.random.default_rng(3)
Y = RNG.random(400) < 0.3
P = np.clip(0.3 * Y + RNG.random(400) * 0.7, 0, 1).round(2)  # rounding makes ties


def test_auroc_is_the_share_of_pairs_ranked_right_with_ties_half() -> None:
    pairs = [(a > b) + 0.5 * (a == b) for a in P[Y] for b in P[~Y]]
    assert auroc(P, Y) == pytest.approx(np.mean(pairs))
    assert auroc([0.5, 0.5], [0, 1]) == 0.5
    assert auroc([0.5, 0.6], [1, 1]) is None


def test_precision_at_recall_is_the_best_over_all_thresholds() -> None:
    best = max(
        (Y[t <= P].mean(), t) for t in np.unique(P) if (Y & (t <= P)).sum() / Y.sum() >= 0.85
    )  # fmt: skip
    found = precision_at_recall(P, Y, 0.85)
    assert found is not None
    assert found[0] == pytest.approx(best[0])
    assert Y[found[1] <= P].mean() == pytest.approx(best[0])
    assert precision_at_recall(P, np.zeros(400, bool), 0.85) is None


def test_confusion_counts_wrong_observations_as_positive() -> None:
    c = confusion([1, 1, 0, 0, 1], [1, 0, 1, 0, 1])
    assert (c.true_positive, c.false_positive, c.false_negative, c.true_negative) == (2, 1, 1, 1)
    assert (c.precision, c.recall, c.false_alarm_rate) == (2 / 3, 2 / 3, 0.5)
    assert confusion([0, 0], [0, 0]).precision is None


def test_brier_and_calibration_error_by_hand() -> None:
    assert brier([0.2, 0.8], [0, 0]) == pytest.approx((0.04 + 0.64) / 2)
    # one bin of two: predicted 0.15, observed 0.5; one bin of one: predicted 0.95, observed 1
    assert ece([0.1, 0.19, 0.95], [0, 1, 1]) == pytest.approx((2 * abs(0.145 - 0.5) + abs(0.95 - 1)) / 3)
    assert [b["n"] for b in reliability([0.1, 0.19, 0.95, 1.0], [0, 1, 1, 1])] == [2, 2]
    assert ece([], []) is None
    assert brier([], []) is None


def test_calibration_error_by_task_does_not_follow_the_repeats_of_one() -> None:
    p, y, tasks = [0.9] * 99 + [0.1], [0] * 99 + [0], ["often"] * 99 + ["once"]
    assert ece(p, y) == pytest.approx(0.99 * 0.9 + 0.01 * 0.1)
    assert ece_by_task(p, y, tasks) == pytest.approx(0.5 * 0.9 + 0.5 * 0.1)
    assert ece_by_task([], [], []) is None


def test_intervals_resample_whole_tasks() -> None:
    tasks = ["a"] * 300 + ["b"] * 50 + ["c"] * 50
    whole = interval_by_task(lambda at: float(Y[at].mean()), tasks)
    assert whole is not None
    assert whole[0] <= Y.mean() <= whole[1]
    assert whole == interval_by_task(lambda at: float(Y[at].mean()), tasks), "the seed is fixed"
    # inside a task nothing is resampled: with one value a task, the interval ends at the tasks' own values
    held = np.array([1.0] * 300 + [0.0] * 100)
    found = interval_by_task(lambda at: float(held[at].mean()), ["a"] * 300 + ["b"] * 100)
    assert found == (0.0, 1.0)
    assert interval_by_task(lambda at: 1.0, ["a"] * 5) is None
    assert with_interval("x", lambda at: None, ["a", "b"]) == {"x": None, "x_interval": None}
