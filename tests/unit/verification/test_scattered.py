"""What the second look sees of a large scene is no part of it that keeps step with what repeats there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.verification.case import Case
from apps.verification.checks import CHECKS
from apps.verification.estimates import estimate
from apps.verification.look import Look
from apps.verification.scattered import places_of
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification.samples import patched

SIDE = (1210, 1340)  # above the limit of what is decoded at once
PERIODS = (2, 8, 10, 16, 32)
ALONG = ("rows", "columns", "both")


def striped(period: int, along: str, height: float, first: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Noise about 100 with every ``period``-th line brighter by ``height``."""
    made = np.random.default_rng(5).normal(100, 6, SIDE)
    rows, columns = np.zeros(SIDE, bool), np.zeros(SIDE, bool)
    rows[first::period], columns[:, first::period] = True, True
    lines = {"rows": rows, "columns": columns, "both": rows & columns}[along]
    return np.clip(np.rint(made + height * lines), 0, 255).astype(np.uint8)


def test_each_pixel_is_as_likely_as_any_other_and_one_lies_in_each_cell() -> None:
    for window, step in (((3, 7, 1340, 1210), 4), ((0, 0, 97, 101), 7), ((0, 0, 1, 50), 3)):
        places = places_of(window, step)
        _, _, width, height = window
        down, across = places.rows.shape
        assert (down, across) == (-(-height // step), -(-width // step))
        assert places.stands_for == width * height / (down * across)
        # the cell of each place is its own, up to the pixel that two cells share
        assert (np.abs(places.rows + 0.5 - (np.arange(down)[:, None] + 0.5) * height / down) <= height / down / 2 + 0.5).all()
        assert (np.abs(places.columns + 0.5 - (np.arange(across) + 0.5) * width / across) <= width / across / 2 + 0.5).all()
    # no line is preferred: of rows by their rest of division by 16 each is seen about as often
    rests = np.bincount(places_of((0, 0, 2048, 2048), 16).rows.ravel() % 16)
    assert rests.size == 16 and abs(rests / rests.mean() - 1).max() < 6 * 16**0.5 / 128
    assert (places_of((0, 0, 8, 5), 1).rows == np.arange(5)[:, None]).all()


@pytest.mark.parametrize("along", ALONG)
@pytest.mark.parametrize("period", PERIODS)
def test_a_sample_of_what_repeats_knows_its_error(period: int, along: str) -> None:
    whole = striped(period, along, 60).astype(float)
    window = (0, 0, SIDE[1], SIDE[0])
    for step in (2, 4, 5, 8, 10, 16):
        seen = estimate(places_of(window, step).take(whole, window).ravel(), "mean", step)
        assert abs(seen.value - whole.mean()) <= 5 * seen.error, step
        assert seen.error < 1.1 * whole.std() / (whole.size / step**2) ** 0.5


def test_a_place_of_a_sample_is_its_own_pixel_of_the_source() -> None:
    """Tiles of a large window put each value where it belongs: the numbers of a scene are those of its rows and columns."""
    rows, columns = np.indices((2100, 1100))
    bench = Bench(scene(np.stack([rows, columns]).astype(np.uint16), ["red", "nir"]))
    info = bench.question.scenes[0]
    o = bench.execute([("s1", "asset.scene", (), {"scene": "s"}), ("v", "raster.product.band", ["s1"], {"role": "red"}),
                       ("o", "raster.summarize.statistic", ["v"], {"statistic": "mean"})])  # fmt: skip
    look = Look(Case(o, bench.question, layers=bench.layers, reader=lambda _: bench._open(info)))
    window = (13, 40, 1050, 2000)
    plane = look.pixels(info, (1, 2), window)
    places = places_of(window, 5)
    assert plane.valid.all()
    assert (plane.data[0] == places.rows + 40).all() and (plane.data[1] == places.columns + 13).all()


@pytest.mark.parametrize("along", ALONG)
@pytest.mark.parametrize("period", PERIODS)
def test_figures_of_lines_that_repeat_are_taken_and_those_of_every_kth_line_refused(period: int, along: str) -> None:
    stored = striped(period, along, 20)
    bench = Bench(scene(stored[None], ["gray"]))
    true = {"mean": float(stored.mean()), "std": float(stored.std())}
    o = bench.execute([("s1", "asset.scene", (), {"scene": "s"}), ("v", "raster.product.band", ["s1"], {"role": "gray"}),
                       ("o", "raster.summarize.statistic", ["v"], {"statistic": "mean"})])  # fmt: skip
    assert o.result.value == pytest.approx(true["mean"], abs=1e-9)

    def outcome(value: float) -> str:
        case = Case(
            patched(o, {"/result/value": value}),
            bench.question,
            layers=bench.layers,
            reader=lambda _: bench._open(bench.question.scenes[0]),
        )
        return CHECKS["consistency.value_matches_source"].look(case).outcome

    assert outcome(true["mean"]) == "passed"
    thinned = [float(stored[k::period, k::period].mean()) for k in (0, 1)]
    for wrong in thinned:
        if abs(wrong - true["mean"]) > 0.3:
            assert outcome(wrong) == "failed", wrong
    assert max(abs(t - true["mean"]) for t in thinned) > 4
