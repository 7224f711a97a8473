"""Statistics of a scene under the one nodata policy, streamed through its reader: memory stays bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.bins import counts_in_bins, quantile_of_counts
from apps.imagery.facts import BandStatistics, Histogram, RasterStatistics

if TYPE_CHECKING:
    from apps.core.ports import RasterReader  # brings all contracts: too heavy for the ingest process

# Samples a band that percentiles and histogram are made of at most, where they are drawn.
SAMPLE_LIMIT = 1_000_000
HISTOGRAM_BINS = 48


class _Counted:
    """A band of whole numbers of up to 16 bits: how many pixels have each value."""

    def __init__(self, dtype: np.dtype[Any]):
        self._low = int(np.iinfo(dtype).min)
        self._counts = np.zeros(int(np.iinfo(dtype).max) - self._low + 1, dtype=np.int64)

    def add(self, values: NDArray[Any]) -> None:
        counts = np.bincount(values.astype(np.int64) - self._low)
        self._counts[: counts.size] += counts

    def held(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """(values, ascending, how often each occurs)."""
        at = np.flatnonzero(self._counts)
        return (at + self._low).astype(np.float64), self._counts[at]


class _Drawn:
    """A band of other numbers: all of them up to SAMPLE_LIMIT, of more some that the lot chose. Every k-th value would keep step
    with what repeats in the scene."""

    def __init__(self, index: int):
        self._lot = np.random.default_rng(index)
        self._share, self._n, self._parts = 1.0, 0, list[NDArray[np.float64]]()

    def add(self, values: NDArray[Any]) -> None:
        if self._share < 1:
            values = values[self._lot.random(values.size) < self._share]
        self._parts.append(values.astype(np.float64))
        self._n += values.size
        while self._n > SAMPLE_LIMIT:
            self._share /= 2
            self._parts = [p[self._lot.random(p.size) < 0.5] for p in self._parts]
            self._n = sum(p.size for p in self._parts)

    def held(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        values, counts = np.unique(np.concatenate(self._parts), return_counts=True)
        return values, counts.astype(np.int64)


def scene_statistics(reader: RasterReader) -> RasterStatistics:
    """Exact counts, extremes, mean and standard deviation (population) of each band's valid stored values, and percentiles and a
    histogram: of all values where they are whole numbers of up to 16 bits, else of some by lot."""
    info = reader.info
    shown = [b.index for b in info.bands if b.role != "alpha"]
    kind = np.dtype(info.dtype)
    is_counted = kind.kind in "iu" and kind.itemsize <= 2
    spread_of: list[_Counted | _Drawn] = [_Counted(kind) if is_counted else _Drawn(i) for i in shown]
    n = np.zeros(len(shown), dtype=np.int64)
    low, high = np.full(len(shown), np.inf), np.full(len(shown), -np.inf)
    mean, squares = np.zeros(len(shown)), np.zeros(len(shown))
    n_valid_px = 0
    size = 1024 if len(shown) <= 16 else 256
    for window in reader.windows(size):
        part = reader.read(shown, window, physical=False)
        n_valid_px += int(part.valid.any(axis=0).sum())
        for i in range(len(shown)):
            stored = part.data[i][part.valid[i]]
            if stored.size == 0:
                continue
            spread_of[i].add(stored)
            values = stored.astype(np.float64)
            low[i], high[i] = min(low[i], values.min()), max(high[i], values.max())
            here, spread = values.mean(), values.var() * values.size
            total = n[i] + values.size  # Chan et al. 1979: merging of means and squares
            delta = here - mean[i]
            squares[i] += spread + delta * delta * n[i] * values.size / total
            mean[i] += delta * values.size / total
            n[i] = total
    bands = tuple(_band(shown[i], int(n[i]), low[i], high[i], mean[i], squares[i], spread_of[i]) for i in range(len(shown)))
    return RasterStatistics(n_px=info.grid.width * info.grid.height, n_valid_px=n_valid_px, bands=bands)


def _band(
    index: int,
    n: int,
    low: float,
    high: float,
    mean: float,
    squares: float,
    spread: _Counted | _Drawn,
) -> BandStatistics:
    if n == 0:
        return BandStatistics(index=index, n_valid=0)
    values, times = spread.held()
    p2, median, p98 = (quantile_of_counts(values, times, q) for q in (0.02, 0.5, 0.98))
    # the plotted span leaves out the far tails, so that one hot pixel does not flatten the rest
    left, right = (quantile_of_counts(values, times, q) for q in (0.002, 0.998))
    half = max(0.5, abs(left) * 1e-6)
    left, right = (left, right) if right > left else (left - half, left + half)
    counts = counts_in_bins(np.clip(values, left, right), HISTOGRAM_BINS, left, right, times)
    return BandStatistics(
        index=index,
        n_valid=n,
        n_sampled=int(times.sum()),
        low=float(low),
        high=float(high),
        mean=float(mean),
        std=float(np.sqrt(squares / n)),
        p2=p2,
        median=median,
        p98=p98,
        histogram=Histogram(low=left, high=right, counts=tuple(int(c) for c in counts)),
    )
