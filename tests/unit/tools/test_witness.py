"""Pixels that stand as evidence of what a tool read."""

from __future__ import annotations

import numpy as np

from apps.tools.witness import WitnessReader, points_of
from tests.unit.tools.rasters import MemoryReader, scene
from tests.unit.verification import samples as s


def test_points_are_spread_and_inside() -> None:
    points = points_of(300, 200, 48)
    assert len(points) == 48
    assert all(0 <= x < 300 and 0 <= y < 200 for x, y in points)
    quarters = {(x >= 150, y >= 100): 0 for x, y in points}
    for x, y in points:
        quarters[x >= 150, y >= 100] += 1
    assert min(quarters.values()) >= 9
    assert len({y % 4 for _, y in points}) == 4  # no stripe of every fourth row escapes


def test_what_is_read_is_kept_by_band_place_and_kind() -> None:
    stored = np.arange(2 * 20 * 30, dtype=np.uint16).reshape(2, 20, 30) + 1
    reader = WitnessReader(MemoryReader(*scene(stored, ["red", "nir"])))
    reader.read((2,), (10, 5, 12, 9), physical=False)
    seen = reader.seen()
    assert set(seen) == {"stored"}
    held = seen["stored"]
    assert isinstance(held, dict)
    assert set(held) == {"2"}
    rows = held["2"]
    assert isinstance(rows, list)
    for row in rows:
        assert isinstance(row, list)
        x, y, value = row
        assert isinstance(x, int)
        assert isinstance(y, int)
        assert 10 <= x < 22
        assert 5 <= y < 14
        assert value == stored[1, y, x]
    reader.close()


def test_a_reduced_read_is_not_taken_for_pixels() -> None:
    stored = np.ones((1, 20, 30), dtype=np.uint16)
    reader = WitnessReader(MemoryReader(*scene(stored, ["red"])))
    reader.read((1,), None, (5, 6))
    assert reader.seen() == {}
    reader.close()


def test_an_observation_brings_the_pixels_that_it_rests_on() -> None:
    made = s.mean()
    told = made.observation.evidence.source["pixels_read"]
    assert isinstance(told, dict)
    assert set(told) == {"s"}
