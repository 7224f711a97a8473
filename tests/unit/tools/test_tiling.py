"""Tiles, doubles across seams, soft suppression, counts with intervals: pure parts of perceive objects."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from apps.tools.zoo.cards import CountCalibration
from apps.tools.zoo.counting import count_interval, fit_logistic, probability
from apps.tools.zoo.tiling import Boxes, in_own_core, overlap_pairs, plan_tiles, soften, suppress


def boxes(rows: list[tuple[float, float, float, float, float, int, int]]) -> Boxes:
    """Rows of x0, y0, x1, y1, score, class, tile."""
    a = np.array(rows, float).reshape(-1, 7)
    return Boxes(a[:, :4], a[:, 4], a[:, 5].astype(np.int64), a[:, 6].astype(np.int64))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 50), st.integers(1, 3000), st.integers(1, 900), st.integers(16, 700), st.floats(0, 0.5))
def test_tiles_cover_every_pixel_and_stay_inside(left: int, width: int, height: int, tile: int, share: float) -> None:
    overlap = int(tile * share)
    windows = plan_tiles((left, 7, width, height), tile, overlap)
    seen = np.zeros((height, width), bool)
    for x, y, w, h in windows:
        assert x >= left and y >= 7 and x + w <= left + width and y + h <= 7 + height
        assert (w, h) == windows[0][2:] and w <= tile and h <= tile
        seen[y - 7:y - 7 + h, x - left:x - left + w] = True
    assert seen.all()
    columns = sorted({x for x, *_ in windows})
    assert all(b - a <= windows[0][2] - overlap for a, b in itertools.pairwise(columns))
    # no fewer would do
    assert len(columns) == 1 or len(columns) - 1 < (width - overlap) / (tile - overlap)


def test_an_object_no_larger_than_the_overlap_is_whole_in_some_tile() -> None:
    windows = plan_tiles((0, 0, 1000, 700), 256, 64)
    for x in range(0, 936, 13):
        assert any(wx <= x and x + 64 <= wx + w for wx, _, w, _ in windows)


@settings(max_examples=60, deadline=None)
@given(st.integers(120, 900), st.integers(120, 900), st.floats(0, 1), st.floats(0, 1))
def test_every_place_lies_in_the_core_of_exactly_one_tile_but_for_the_margin(width: int, height: int, u: float, v: float) -> None:
    windows = plan_tiles((0, 0, width, height), 100, 30)
    x, y = u * width, v * height
    rows = [(x - 1, y - 1, x + 1, y + 1, 0.9, 0, k) for k in range(len(windows))]
    kept = in_own_core(boxes(rows), windows, 0.0)
    assert 1 <= kept.sum() <= 4 and in_own_core(boxes(rows), windows, 3.0).sum() >= kept.sum()
    for k in np.flatnonzero(kept):
        left, top, w, h = windows[k]
        # whole inside its tile, or at the picture's own edge
        assert x - 15 >= left or left == 0
        assert x + 15 <= left + w or left + w == width
        assert y - 15 >= top or top == 0
        assert y + 15 <= top + h or top + h == height


def test_the_half_that_a_seam_leaves_goes_and_neighbours_stay() -> None:
    whole_and_half = boxes([(90, 10, 130, 30, 0.9, 0, 0), (110, 10, 130, 30, 0.6, 0, 1)])
    assert suppress(whole_and_half, iou=0.4, within_tile=False).tolist() == [True, False]
    neighbours = boxes([(90, 10, 130, 30, 0.9, 0, 0), (90, 31, 130, 51, 0.6, 0, 1)])
    assert suppress(neighbours, iou=0.4, within_tile=False).all()
    same_tile = boxes([(90, 10, 130, 30, 0.9, 0, 0), (110, 10, 130, 30, 0.6, 0, 0)])
    assert suppress(same_tile, iou=0.4, within_tile=False).all()


def test_suppression_is_by_class_and_the_higher_score_wins() -> None:
    b = boxes([(0, 0, 10, 10, 0.5, 0, 0), (0, 0, 10, 11, 0.8, 0, 0), (0, 0, 10, 10, 0.3, 1, 0)])
    assert suppress(b, iou=0.5, within_tile=True).tolist() == [False, True, True]
    equal = boxes([(0, 0, 10, 10, 0.5, 0, 0), (0, 0, 10, 10, 0.5, 0, 0), (0, 0, 10, 10, 0.5, 0, 0)])
    assert suppress(equal, iou=0.5, within_tile=True).sum() == 1


def test_suppression_agrees_with_a_plain_loop_on_random_boxes() -> None:
    rng = np.random.default_rng(5)
    xy = rng.uniform(0, 200, (150, 2))
    a = np.concatenate([xy, xy + rng.uniform(10, 40, (150, 2)), rng.random((150, 1)), rng.integers(0, 2, (150, 1)),
                        np.zeros((150, 1))], 1)
    b = boxes([tuple(r) for r in a.tolist()])  # type: ignore[misc]
    kept = suppress(b, iou=0.3, within_tile=True)

    def iou(p: np.ndarray, q: np.ndarray) -> float:
        w = min(p[2], q[2]) - max(p[0], q[0])
        h = min(p[3], q[3]) - max(p[1], q[1])
        inter = max(w, 0) * max(h, 0)
        return float(inter / ((p[2] - p[0]) * (p[3] - p[1]) + (q[2] - q[0]) * (q[3] - q[1]) - inter))

    plain: list[int] = []
    for i in np.argsort(-b.score, kind="stable").tolist():
        if all(b.cls[i] != b.cls[j] or iou(b.xyxy[i], b.xyxy[j]) <= 0.3 for j in plain):
            plain.append(i)
    assert sorted(plain) == np.flatnonzero(kept).tolist()
    i, j, overlap, _ = overlap_pairs(b.xyxy)
    assert overlap[3] == pytest.approx(iou(b.xyxy[i[3]], b.xyxy[j[3]]))


def test_soft_suppression_lowers_only_what_overlaps_a_better_box() -> None:
    b = boxes([(0, 0, 10, 10, 0.9, 0, 0), (1, 0, 11, 10, 0.8, 0, 0), (100, 0, 110, 10, 0.7, 0, 0)])
    soft = soften(b)
    overlap = 9 / 11
    assert soft.score[0] == 0.9 and soft.score[2] == 0.7
    assert soft.score[1] == pytest.approx(0.8 * np.exp(-overlap**2 / 0.5))


CALIBRATION = CountCalibration(slope=1.0, intercept=0.0, missed=0.1, spread=0.05, fitted_on="made up", n_objects=1)


def test_the_interval_holds_the_count_and_grows_with_doubt() -> None:
    sure, doubtful = np.full(40, 0.98), np.full(80, 0.5)
    e1, low1, high1 = count_interval(sure, 40, CALIBRATION)
    e2, low2, high2 = count_interval(doubtful, 40, CALIBRATION)
    assert low1 <= 40 <= high1 and low2 <= 40 <= high2
    assert e1 == pytest.approx(40 * 0.98 / 0.9) and e2 == pytest.approx(40 / 0.9)
    assert high2 - low2 > high1 - low1
    _, low, high = count_interval(np.zeros(0), 0, CALIBRATION)
    assert (low, high) == (0, 0)
    _, low3, high3 = count_interval(sure, 40, None)
    assert high3 - low3 > 2 * (high1 - low1)


def test_the_interval_holds_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(11)
    plain = CountCalibration(slope=1.0, intercept=0.0, missed=0.0, spread=0.0, fitted_on="made up", n_objects=1)
    inside = 0
    for _ in range(400):
        p = rng.beta(0.6, 0.6, 60)
        true = int((rng.random(60) < p).sum())
        _, low, high = count_interval(p, int((p > 0.5).sum()), plain)
        inside += low <= true <= high
    assert 0.88 <= inside / 400 <= 0.99


def test_calibration_finds_the_curve_that_made_the_data() -> None:
    rng = np.random.default_rng(2)
    score = rng.uniform(0.03, 0.97, 6000)
    p = 1 / (1 + np.exp(-(1.4 * np.log(score / (1 - score)) - 0.6)))
    slope, intercept = fit_logistic(score.tolist(), (rng.random(6000) < p).tolist())
    assert slope == pytest.approx(1.4, abs=0.08) and intercept == pytest.approx(-0.6, abs=0.08)
    c = CountCalibration(slope=slope, intercept=intercept, missed=0, spread=0, fitted_on="made up", n_objects=1)
    assert np.all(np.diff(probability(np.linspace(0.01, 0.99, 50), c)) > 0)
