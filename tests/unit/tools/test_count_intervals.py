"""Count intervals are judged on pictures that were left out: made pictures with known truth."""

from __future__ import annotations

import numpy as np
import pytest

from apps.tools.zoo.training.evaluate import (
    Scored,
    calibrate,
    class_result,
    coverage,
    covers,
    cross_validated,
    folds,
    least_spread,
)


def pictures(n: int, stray: float, seed: int = 0) -> list[Scored]:
    """Pictures of 2 to 40 objects; a detector finds 85 % of them, in some far fewer (``stray``), and a few false boxes."""
    rng = np.random.default_rng(seed)
    out = []
    for k in range(n):
        true = int(rng.integers(2, 40))
        found = rng.random(true) < np.clip(0.85 * (1 - stray * rng.random()), 0.05, 1)
        right, wrong = rng.beta(6, 2, int(found.sum())), rng.beta(1.2, 6, int(rng.integers(0, 6)))
        hit = np.arange(len(right) + len(wrong)) < len(right)
        out.append(Scored(f"p{k:03d}", np.concatenate([right, wrong]), hit, true))
    return out


def test_every_picture_is_left_out_once() -> None:
    parts = folds(pictures(23, 0.2))
    assert sorted(i for p in parts for i in p) == list(range(23)) and len(parts) == 5


@pytest.mark.parametrize("stray", [0.0, 0.5, 0.9])
def test_the_interval_holds_the_truth_on_pictures_that_it_never_saw(stray: float) -> None:
    # one set of 60 pictures gives 0.90 ± 0.04; the mean of several is what is promised
    held, told = [], []
    for seed in range(5):
        seen, new = pictures(60, stray, 10 + seed), pictures(120, stray, 50 + seed)
        held.append(coverage(new, calibrate(seen, "made"), 0.25))
        told.append(cross_validated(seen)["interval_coverage_cross_validated"])
    assert np.mean(held) >= 0.87 and np.mean(told) >= 0.87
    assert abs(np.mean(told) - np.mean(held)) < 0.06


def test_counts_that_stray_more_get_a_wider_interval() -> None:
    assert calibrate(pictures(60, 0.9), "x").spread > calibrate(pictures(60, 0.0), "x").spread


def test_the_least_spread_is_the_least() -> None:
    c = calibrate(pictures(40, 0.6), "x")
    for s in pictures(20, 0.9, 3):
        least = least_spread(s, c, 0.25)
        if 0 < least < np.inf:
            assert covers(s, c.model_copy(update={"spread": least}), 0.25)
            assert not covers(s, c.model_copy(update={"spread": least - 0.02}), 0.25)


def test_other_places_widen_it_and_pictures_without_are_told_apart() -> None:
    made = pictures(40, 0.0)
    empty = [Scored(f"e{k}", np.array([0.1]), np.array([False]), 0) for k in range(10)]
    home, away = class_result([*made, *empty], "test"), class_result([*made, *empty], "test", elsewhere=[(90.9, 64), (20.2, 11)])
    assert home["pictures"] == 50 and home["pictures_with_it"] == 40 and home["interval_coverage_on_pictures_without"] == 1.0
    strayed = float(np.sqrt(((64 / 90.9 - 1) ** 2 + (11 / 20.2 - 1) ** 2) / 2))
    assert away["calibration"]["spread"] == pytest.approx(max(strayed, home["calibration"]["spread"]), abs=1e-3)
    assert "outside pictures" in away["calibration"]["fitted_on"] and "outside" not in home["calibration"]["fitted_on"]
