"""Statistics of a scene under the one nodata policy, streamed through its reader: memory stays bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.bins import counts_in_bins
from apps.imagery.facts import BandStatistics, Histogram, RasterStatistics

if TYPE_CHECKING:
    from apps.core.ports import RasterReader  # brings all contracts: too heavy for the ingest process

# Samples a band that percentiles and histogram are made of, at most.
SAMPLE_LIMIT = 1_000_000
HISTOGRAM_BINS = 48


def scene_statistics(reader: RasterReader) -> RasterStatistics:
    """Exact counts, extremes, mean and standard deviation (population) of each band's valid stored values,
    and percentiles and a histogram of evenly spread samples."""
    info = reader.info
    n_px = info.grid.width * info.grid.height
    shown = [b.index for b in info.bands if b.role != "alpha"]
    every = max(1, -(-n_px // SAMPLE_LIMIT))
    samples: list[list[NDArray[np.float64]]] = [[] for _ in shown]
    n = np.zeros(len(shown), dtype=np.int64)
    low, high = np.full(len(shown), np.inf), np.full(len(shown), -np.inf)
    mean, squares = np.zeros(len(shown)), np.zeros(len(shown))
    n_valid_px = 0
    size = 1024 if len(shown) <= 16 else 256
    for window in reader.windows(size):
        part = reader.read(shown, window, physical=False)
        n_valid_px += int(part.valid.any(axis=0).sum())
        for i in range(len(shown)):
            values = part.data[i][part.valid[i]].astype(np.float64)
            if values.size == 0:
                continue
            low[i], high[i] = min(low[i], values.min()), max(high[i], values.max())
            here, spread = values.mean(), values.var() * values.size
            total = n[i] + values.size  # Chan et al. 1979: merging of means and squares
            delta = here - mean[i]
            squares[i] += spread + delta * delta * n[i] * values.size / total
            mean[i] += delta * values.size / total
            n[i] = total
            samples[i].append(values[::every].copy())  # a view would keep the whole window
    bands = tuple(
        _band(shown[i], int(n[i]), low[i], high[i], mean[i], squares[i], samples[i]) for i in range(len(shown))
    )
    return RasterStatistics(n_px=n_px, n_valid_px=n_valid_px, bands=bands)


def _band(
    index: int,
    n: int,
    low: float,
    high: float,
    mean: float,
    squares: float,
    parts: list[NDArray[np.float64]],
) -> BandStatistics:
    if n == 0:
        return BandStatistics(index=index, n_valid=0)
    sample = np.concatenate(parts)
    p2, median, p98 = (float(v) for v in np.percentile(sample, (2, 50, 98)))
    # the plotted span leaves out the far tails, so that one hot pixel does not flatten the rest
    left, right = (float(v) for v in np.percentile(sample, (0.2, 99.8)))
    half = max(0.5, abs(left) * 1e-6)
    left, right = (left, right) if right > left else (left - half, left + half)
    counts = counts_in_bins(np.clip(sample, left, right), HISTOGRAM_BINS, left, right)
    return BandStatistics(
        index=index,
        n_valid=n,
        n_sampled=int(sample.size),
        low=float(low),
        high=float(high),
        mean=float(mean),
        std=float(np.sqrt(squares / n)),
        p2=p2,
        median=median,
        p98=p98,
        histogram=Histogram(low=left, high=right, counts=tuple(int(c) for c in counts)),
    )
