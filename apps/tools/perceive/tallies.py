"""Statistics of bands over all of their pixels, window by window, so that memory stays bounded.

A thinned view (every k-th row and column) keeps step with whatever repeats every k pixels, and its figures may be far off without
showing it. Bands of at most 16 bits are counted by their values; of others, moments and exact order statistics are gathered.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.geo.bands import Band
from apps.core.geo.bins import quantile_of_counts
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.contract import ToolCancelledError
from apps.tools.execute.accumulators import KEEP_VALUES, Moments, OrderStatistics
from apps.tools.execute.types import Sample
from apps.tools.region import RegionMask

QUANTILES = {"p2": 0.02, "p25": 0.25, "median": 0.5, "p75": 0.75, "p98": 0.98}
# Different values are counted up to this many.
MOST_UNIQUE = 1_000_000
# Bands of more samples at once are read in smaller windows.
_SIDE, _SMALL_SIDE, _FEW_BANDS = 1024, 256, 16


class Tally(Protocol):
    """What is gathered of one band; ``figures`` once no pass is wanted any more."""

    n: int

    def wants_pass(self) -> bool: ...

    def add(self, sample: Sample) -> None: ...

    def figures(self) -> dict[str, JsonValue]: ...


class CountedValues:
    """A band of whole numbers of up to 16 bits: how many pixels have each value. Exact, in one pass."""

    def __init__(self, dtype: np.dtype[Any], scale: float, offset: float):
        self.low, self.top = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        self.counts = np.zeros(self.top - self.low + 1, dtype=np.int64)
        self.scale, self.offset, self.n = scale, offset, 0
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def add(self, sample: Sample) -> None:
        values = sample.data[sample.valid]
        self.counts += np.bincount(values.astype(np.int64) - self.low, minlength=self.counts.size)
        self.n += values.size

    def figures(self) -> dict[str, JsonValue]:
        stored = np.flatnonzero(self.counts)
        counts = self.counts[stored]
        values = (stored + self.low) * self.scale + self.offset
        if self.scale < 0:
            values, counts = values[::-1], counts[::-1]
        mean = float((values * counts).sum() / self.n)
        return {"min": float(values[0]), "max": float(values[-1]), "mean": mean,
                "std": math.sqrt(float((counts * (values - mean) ** 2).sum()) / self.n),
                **{name: quantile_of_counts(values, counts, q) for name, q in QUANTILES.items()}, "unique": int(values.size),
                "saturated_share": int(self.counts[-1]) / self.n, "at_max_share": int(counts[-1]) / self.n,
                "zero_share": int(counts[values == 0].sum()) / self.n}


class GatheredValues:
    """A band of other numbers: moments, exact quantiles in a few passes, and counts of single values."""

    def __init__(self, top: float | None, keep: int):
        """``top``: the value of saturated pixels, None for numbers that do not saturate."""
        self.top, self.n = top, 0
        self._moments, self._ranks = Moments(order=2), OrderStatistics(list(QUANTILES.values()), keep)
        self._n_zero = self._n_top = self._n_high = 0
        self._high = -math.inf
        self._unique: NDArray[np.float64] = np.empty(0)
        self._is_first = True

    def wants_pass(self) -> bool:
        wanted = self._ranks.wants_pass()
        self._is_first = self._moments.wants_pass()
        return wanted or self._is_first

    def add(self, sample: Sample) -> None:
        values = sample.data[sample.valid]
        self._ranks.merge(self._ranks.gather(sample))
        if not self._is_first:
            return
        self.n += values.size
        self._moments.merge(self._moments.gather(sample))
        self._n_zero += int(np.count_nonzero(values == 0))
        self._n_top += int(np.count_nonzero(values == self.top)) if self.top is not None else 0
        high = float(values.max())
        if high >= self._high:
            self._n_high = (self._n_high if high == self._high else 0) + int(np.count_nonzero(values == high))
            self._high = high
        if self._unique.size < MOST_UNIQUE:
            self._unique = np.union1d(self._unique, values)[:MOST_UNIQUE]

    def figures(self) -> dict[str, JsonValue]:
        return {"min": self._moments.low, "max": self._moments.high, "mean": self._moments.mean, "std": self._moments.std(),
                **{name: self._ranks.value(q) for name, q in QUANTILES.items()}, "unique": int(self._unique.size),
                "saturated_share": self._n_top / self.n if self.top is not None else None, "at_max_share": self._n_high / self.n,
                "zero_share": self._n_zero / self.n}


class Tallies:
    """Figures of several bands inside a region, each over all of its valid pixels. ``n_inside``: pixels inside; ``n_everywhere``:
    those where every band is valid."""

    def __init__(self, scene: SceneInfo, bands: Sequence[Band], region: RegionMask):
        self.scene, self.bands, self.region = scene, tuple(bands), region
        self.n_inside = self.n_everywhere = 0
        dtype = np.dtype(scene.dtype)
        self.is_complex = dtype.kind == "c"
        self.is_counted = dtype.kind in "ui" and dtype.itemsize <= 2
        keep = max(100_000, KEEP_VALUES * 4 // max(4, len(self.bands)))
        self.of: dict[int, Tally] = {
            b.index: CountedValues(dtype, b.scale, b.offset) if self.is_counted
            else GatheredValues(float(np.iinfo(dtype).max) * b.scale + b.offset if dtype.kind in "ui" else None, keep)
            for b in self.bands}

    def run(self, reader: RasterReader, *, progress: Callable[[int, int, str], None],
            is_cancelled: Callable[[], bool]) -> None:
        """Reads all windows, as often as a band wants. ToolCancelledError."""
        wanting, n_pass = [b for b in self.bands if self.of[b.index].wants_pass()], 0
        windows = list(self._windows())
        while wanting:
            n_pass += 1
            for k, window in enumerate(windows):
                if is_cancelled():
                    raise ToolCancelledError
                self._take(reader, wanting, window, is_first=n_pass == 1)
                progress(k + 1, len(windows), f"Reading pixels, pass {n_pass}")
            wanting = [b for b in wanting if self.of[b.index].wants_pass()]

    def _windows(self) -> Iterator[Window]:
        """Windows on whole blocks that the region touches."""
        side = _SIDE if len(self.bands) <= _FEW_BANDS else _SMALL_SIDE
        left, top, width, height = self.region.bounds_px
        for y in range(top // side * side, top + height, side):
            for x in range(left // side * side, left + width, side):
                x0, y0 = max(x, left), max(y, top)
                yield x0, y0, min(x + side, left + width) - x0, min(y + side, top + height) - y0

    def _take(self, reader: RasterReader, bands: Sequence[Band], window: Window, *, is_first: bool) -> None:
        inside = self.region.mask(window)
        if not inside.any():
            return
        # complex samples come as they are stored; their amplitude is looked at
        read = reader.read([b.index for b in bands], window, physical=not (self.is_counted or self.is_complex))
        valid = read.valid & inside
        if is_first:
            self.n_inside += int(np.count_nonzero(inside))
            self.n_everywhere += int(np.count_nonzero(valid.all(axis=0)))
        for k, band in enumerate(bands):
            if valid[k].any():
                self.of[band.index].add(Sample(window, self.scene.grid, self._numbers(read.data[k]), valid[k]))

    def _numbers(self, data: NDArray[Any]) -> NDArray[Any]:
        if self.is_counted:
            return data
        return np.asarray(np.abs(data) if self.is_complex else data, dtype=np.float64)

    def figures(self, band: int) -> dict[str, JsonValue]:
        """Of one band; its number of valid pixels alone where there are none."""
        tally = self.of[band]
        if not tally.n:
            return {"n_valid": 0}
        return {"n_valid": tally.n, "valid_share": tally.n / max(1, self.n_inside), **tally.figures()}
