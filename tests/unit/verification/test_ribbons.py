"""Lengths, likeness of neighbours and hot spots worked out by the verifier's own paths, against shapes and sums done by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import shapely

from apps.verification.checks import CHECKS, run_checks
from apps.verification.ribbons import hot_spots, moran, ribbons_of, tangents_of
from tests.unit.verification import samples_new as n


def drawn(line: Any, width: float, shape: tuple[int, int] = (300, 400), dx: float = 1.0, dy: float = 1.0) -> Any:
    """Mask of a line of some width, pixels of dx × dy."""
    rows, cols = np.mgrid[: shape[0], : shape[1]]
    return shapely.contains_xy(shapely.LineString(line).buffer(width / 2, cap_style="flat"), (cols + 0.5) * dx, (rows + 0.5) * dy)


CURVE = [(20 + t, 150 + 90 * math.sin(t / 55)) for t in np.linspace(0, 360, 400)]


@pytest.mark.parametrize(
    "line", [[(20, 40), (380, 40)], [(40, 20), (40, 280)], [(20, 20), (280, 280)], [(20, 100), (380, 210)], CURVE]
)
@pytest.mark.parametrize("width", [1.01, 3, 8, 15])
def test_a_line_is_as_long_as_it_was_drawn(line: Any, width: float) -> None:
    found = ribbons_of(drawn(line, width), 1.0, 1.0)
    assert found.length_m == pytest.approx(shapely.LineString(line).length, rel=0.12)
    assert found.long_share > 0.95


@pytest.mark.parametrize(("dx", "dy"), [(1.0, 0.5), (0.6, 1.2), (30.0, 30.0)])
@pytest.mark.parametrize("part", [0.0, 0.3, 1.0])
def test_pixels_that_are_not_square_do_not_matter(dx: float, dy: float, part: float) -> None:
    line = [(20 * dx, 20 * dy), ((20 + 340 * (1 - part)) * dx, (20 + 250 * part) * dy)]
    found = ribbons_of(drawn(line, 8 * max(dx, dy), dx=dx, dy=dy), dx, dy)
    assert found.length_m == pytest.approx(shapely.LineString(line).length, rel=0.12)


def test_discs_and_specks_are_not_long_and_pieces_add_up() -> None:
    rows, cols = np.mgrid[:120, :120]
    disc = (rows - 60) ** 2 + (cols - 60) ** 2 < 40**2
    assert ribbons_of(disc, 10, 10).long_share == 0
    specks = np.zeros((60, 60), bool)
    specks[::4, ::4] = True
    assert ribbons_of(specks, 10, 10).long_share == 0
    assert ribbons_of(np.zeros((5, 5), bool), 1, 1) == ribbons_of(np.zeros((5, 5), bool), 2, 2)
    one, other = drawn([(20, 40), (380, 40)], 5), drawn([(40, 80), (40, 280)], 5)
    assert ribbons_of(one | other, 1, 1).length_m == pytest.approx(
        ribbons_of(one, 1, 1).length_m + ribbons_of(other, 1, 1).length_m
    )


def test_likeness_by_hand() -> None:
    rows, cols = np.mgrid[:20, :20]
    everywhere = np.ones((20, 20), bool)
    board = moran(((rows + cols) % 2).astype(float), everywhere, corners=False)
    assert board is not None and board[0] == pytest.approx(-1.0)
    assert board[1] == 400
    lag = 400 - 2 * (18 * 2 / 4 + 2 * 2 / 3)
    found = moran((cols >= 10).astype(float), everywhere, corners=False)
    assert found is not None and found[0] == pytest.approx(lag / 400)
    assert moran(np.ones((20, 20)), everywhere, corners=True) is None
    alone = np.zeros((20, 20), bool)
    alone[::3, ::3] = True
    assert moran(rows.astype(float), alone, corners=True) is None


def test_hot_spots_by_hand() -> None:
    rng = np.random.default_rng(2)
    data, valid = rng.normal(3, 2, (14, 17)), rng.random((14, 17)) > 0.2
    z = hot_spots(data, valid, 5)
    assert z is not None
    n_all, mean, std = int(valid.sum()), data[valid].mean(), data[valid].std()
    for r, c in np.argwhere(valid):
        part = np.s_[max(0, r - 2) : r + 3, max(0, c - 2) : c + 3]
        w, total = valid[part].sum(), data[part][valid[part]].sum()
        assert z[r, c] == pytest.approx((total - mean * w) / (std * math.sqrt((n_all * w - w**2) / (n_all - 1))))
    assert np.isnan(z[~valid]).all()


def test_hot_spots_of_a_scene_are_looked_at_again() -> None:
    good = n.hot()
    look = CHECKS["consistency.raster_matches_source"].look
    assert look(good.case()).outcome == "passed"
    ref = good.observation.result.layers[0]
    raster = good.bench.layers.read_raster(ref)
    other = good.bench.layers.put_raster(replace(raster, data=raster.data * 0.9), label=ref.label, scene_id="s")
    assert look(good.but({"/result/layers/0": other.model_dump(mode="json")}).case()).outcome == "failed"


@pytest.mark.parametrize(
    ("scale", "outcome", "severity"), [(1.0, "passed", None), (1.5, "failed", "warn"), (0.001, "failed", None)]
)
def test_a_length_a_little_off_is_warned_of_and_one_far_off_blocks(scale: float, outcome: str, severity: str | None) -> None:
    good, look = n.shoreline(), CHECKS["consistency.length_recomputes"].look
    value, px = float(good.observation.result.value or 0), float(str(good.observation.evidence.intermediate["length_px"]))
    found = look(good.but({"/result/value": scale * value, "/evidence/intermediate/length_px": scale * px}).case())
    assert (found.outcome, found.severity) == (outcome, severity), found.message
    # the same pixels, but each longer or shorter than it is
    if scale != 1:
        assert look(good.but({"/result/value": scale * value}).case()).outcome == "failed"
        assert look(good.but({"/result/value": (1 + (scale - 1) / 10) * value}).case()).severity is None


@pytest.mark.parametrize(("turn", "wide"), [(0, 2), (20, 3), (45, 5), (70, 3), (90, 8)])
def test_directions_along_an_outline_are_those_of_the_line(turn: float, wide: float) -> None:
    x, y = math.cos(math.radians(turn)), math.sin(math.radians(turn))
    places, along = tangents_of(drawn([(60, 40), (60 + 220 * x, 40 + 220 * y)], wide))
    inner = np.hypot(*(places - [60, 40]).T) > 15
    inner &= np.hypot(*(places - [60 + 220 * x, 40 + 220 * y]).T) > 15
    assert inner.sum() > 250
    assert np.abs(along[inner] @ [x, y]).mean() == pytest.approx(1, abs=0.01)
    assert np.hypot(*along.T) == pytest.approx(1)


def test_z_and_p_of_likeness_belong_together() -> None:
    look = CHECKS["consistency.moran_recomputes"].look
    for told in ({"p_value": 0.4}, {"z": -3.0, "p_value": 0.0027}, {"expected": -0.1}):
        assert look(n.told(n.autocorrelated(), "raster.summarize.moran", **told).case()).outcome == "failed", told
    assert look(n.told(n.autocorrelated(), "raster.summarize.moran", z=...).case()).outcome == "inconclusive"


@pytest.mark.parametrize(
    "told",
    [{"likeness": 0.2}, {"shift_px": [8.0, 9.0], "shift_length_px": 12.0416}, {"shift_length_px": 1.0}, {"shift_m": 9999.0}],
)
def test_shifts_that_are_none(told: dict[str, Any]) -> None:
    found = CHECKS["geometry.shift_believable"].look(n.told(n.coregistered(), "raster.product.coregister", **told).case())
    assert found.outcome == "failed", found


def test_windows_of_a_place_are_counted_again() -> None:
    look = CHECKS["consistency.class_is_the_likeliest"].look
    for at, value in (("windows", 5), ("p", 0.95), ("p", 1.2)):
        assert look(n.place().but({f"/result/items/0/{at}": value}).case()).outcome == "failed"
    assert look(n.place().but({"/evidence/source/thresholds/probability": 0.9}).case()).outcome == "failed"


def test_windows_like_no_kind_are_of_none() -> None:
    look = CHECKS["consistency.class_is_the_likeliest"].look
    # 0.58 over the five windows that are of some kind is 0.48 of all six; with none of them outside it is enough
    rare = {"/result/items/0/p": 0.58}
    assert look(n.place().but(rare).case()).outcome == "failed"
    assert look(n.place().but({**rare, "/evidence/intermediate/windows_out_of_scope": 0}).case()).outcome == "passed"


GOOD = [n.shoreline, n.hot, n.autocorrelated, n.coregistered, n.reprojected, n.annotated, n.coloured, n.charted, n.refined]


@pytest.mark.parametrize("make", GOOD, ids=lambda make: str(make.__name__))
def test_no_check_of_any_kind_blames_a_good_observation(make: Any) -> None:
    results, _ = run_checks(make().case())
    assert [(c.check, c.message) for c in results if c.outcome in ("failed", "errored", "inconclusive")] == []
