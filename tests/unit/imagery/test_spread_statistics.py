"""Percentiles and histogram of large scenes are those of all pixels, also of what repeats every 2nd, 8th or 16th of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from apps.core.geo.bins import counts_in_bins, quantile_of_counts
from apps.imagery import statistics
from apps.imagery.facts import BandStatistics
from apps.imagery.readers import open_scene
from apps.imagery.statistics import scene_statistics
from tests.unit.imagery.rasters import describe, write

SHARES = (2, 50, 98)


def of(tmp_path: Path, plane: np.ndarray) -> BandStatistics:
    path = write(tmp_path / "t.tif", plane[None], tiled=True, blockxsize=256, blockysize=256)
    with open_scene(describe(plane[None]), path) as reader:
        return scene_statistics(reader).bands[0]


def striped(period: int, dtype: str) -> np.ndarray:
    """Bright columns, and a slope."""
    plane = np.tile(np.arange(100, 612) // 8, (384, 1))
    plane[:, ::period] += 90
    plane[::period] += 30
    return plane.astype(dtype)


@pytest.mark.parametrize("period", [2, 8, 16])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16"])
def test_whole_numbers_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, period: int, dtype: str) -> None:
    # an eighth of the pixels were drawn before
    monkeypatch.setattr(statistics, "SAMPLE_LIMIT", 384 * 512 // 8)
    plane = striped(period, dtype)
    found = of(tmp_path, plane)
    assert (found.p2, found.median, found.p98) == tuple(np.percentile(plane, SHARES))
    assert found.n_sampled == plane.size
    assert found.histogram is not None
    left, right = np.percentile(plane, (0.2, 99.8))
    bins = np.histogram(np.clip(plane, left, right), bins=48, range=(left, right))[0]
    assert found.histogram.counts == tuple(bins)


@pytest.mark.parametrize("period", [2, 8, 16])
def test_floats_are_drawn_by_lot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, period: int) -> None:
    monkeypatch.setattr(statistics, "SAMPLE_LIMIT", 384 * 512 // 8)
    # flat but for its stripes: their share tells which pixels were drawn
    plane = np.zeros((384, 512), dtype="float32")
    plane[:, ::period] = 1.0
    found = of(tmp_path, plane)
    assert found.histogram is not None
    assert 384 * 512 // 16 * 0.9 < found.n_sampled <= 384 * 512 // 8
    share = found.histogram.counts[-1] / found.n_sampled
    # five deviations of a draw
    assert share == pytest.approx(1 / period, abs=5 * (0.25 / found.n_sampled) ** 0.5)
    assert found == of(tmp_path, plane)


def test_few_floats_are_all_taken(tmp_path: Path) -> None:
    plane = np.random.default_rng(2).normal(0, 1, (40, 50)).astype("float32")
    found = of(tmp_path, plane)
    assert found.n_sampled == plane.size
    assert (found.p2, found.median, found.p98) == pytest.approx(tuple(np.percentile(plane.astype("float64"), SHARES)))


def test_counted_values_have_numpys_quantiles_and_bins() -> None:
    rng = np.random.default_rng(4)
    values = np.unique(rng.integers(-500, 500, 60)).astype(np.float64)
    counts = rng.integers(1, 9, values.size)
    all_of_them = np.repeat(values, counts)
    for q in (0.0, 0.02, 0.333, 0.5, 0.98, 1.0):
        assert quantile_of_counts(values, counts, q) == pytest.approx(np.quantile(all_of_them, q))
    assert np.array_equal(counts_in_bins(values, 7, -400, 400, counts), np.histogram(all_of_them, 7, (-400, 400))[0])
    # edges that cannot be told apart
    close = np.array([1.0, np.nextafter(1.0, 2)])
    assert counts_in_bins(close, 48, close[0], close[1], np.array([3, 4])).sum() == 7
