"""Accumulators: figures gathered over windows, with the same result for any window size.

Windows are made of whole cells of CELL × CELL pixels. Each cell gives its figures over its valid pixels in one fixed order, and
the cells' figures are summed exactly (``math.fsum``), so neither the size of the windows nor their order changes a digit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.bins import counts_in_bins
from apps.tools.execute.masks import all_true
from apps.tools.execute.types import Sample

CELL = 256
# Values kept at once for an exact median; above it the rank is found by radix selection in further passes.
KEEP_VALUES = 2_000_000


def cells(sample: Sample) -> Iterator[tuple[slice, slice]]:
    """Slices of the window's cells."""
    height, width = sample.data.shape
    for r in range(0, height, CELL):
        for c in range(0, width, CELL):
            yield slice(r, min(r + CELL, height)), slice(c, min(c + CELL, width))


def valid_values(sample: Sample, at: tuple[slice, slice]) -> NDArray[Any]:
    """The valid values of a cell in row order; the cell itself, (rows, columns), where all are valid."""
    data, valid = sample.data[at], sample.valid[at]
    return data if all_true(valid) else data[valid]


def _total(values: NDArray[np.float64]) -> float:
    """Their sum in an order that hangs on the cell alone, whichever window the values are a view of: by rows, then the rows."""
    rows = np.add.reduce(values, axis=-1)
    return float(np.add.reduce(rows)) if values.ndim == 2 else float(rows)


# n, sum, mean, sums of the second to fourth powers of deviations, least, greatest
CellFigures = tuple[int, float, float, float, float, float, float, float]


def cell_moments(values: NDArray[Any], order: int) -> CellFigures | None:
    """Figures of a cell's valid values, (rows, columns) or flat; None without values."""
    n = values.size
    if not n:
        return None
    if order == 1 and values.dtype.kind in "iub":
        # exact, as it is in float64: 2 ** 16 values of at most 32 bits, whose sum takes 16 bits more
        is_short = values.dtype.itemsize <= 2 and n <= 1 << 16
        sum_type = (np.int32 if values.dtype.kind == "i" else np.uint32) if is_short else np.int64
        total = float(np.add.reduce(values, axis=None, dtype=sum_type))
    else:
        wide = values.astype(np.float64, copy=False)
        total = _total(wide)
    mean = total / n
    m2 = m3 = m4 = 0.0
    if order > 1:
        d = wide - mean
        # the deviations themselves are wanted again for the third moment alone
        square = np.multiply(d, d, out=d if order == 2 else None)
        m2 = _total(square)
        if order > 2:
            m4 = _total(square * square)
            square *= d
            m3 = _total(square)
    return n, total, mean, m2, m3, m4, float(np.minimum.reduce(values, axis=None)), float(np.maximum.reduce(values, axis=None))


def moments_of(sample: Sample, at: tuple[slice, slice], order: int) -> CellFigures | None:
    """Figures of one cell of a sample, of ``order`` or higher; computed once, whoever asks."""
    key = at[0].start, at[1].start
    held: tuple[int, CellFigures | None] | None = sample.known.get(key)
    if held is None or held[0] < order:
        held = sample.known[key] = order, cell_moments(valid_values(sample, at), order)
    return held[1]


class Moments:
    """Count, extremes, sum and central moments up to ``order`` (1: mean, 2: variance, 4: skewness and kurtosis)."""

    takes_held = True

    def __init__(self, order: int = 1):
        self.order = order
        self.n, self.low, self.high = 0, math.inf, -math.inf
        self._parts: list[tuple[int, float, float, float, float, float]] = []
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> list[CellFigures]:
        return [found for at in cells(sample) if (found := moments_of(sample, at, self.order)) is not None]

    def merge(self, part: list[CellFigures]) -> None:
        for n, total, mean, m2, m3, m4, low, high in part:
            self.n += n
            self.low, self.high = min(self.low, low), max(self.high, high)
            self._parts.append((n, total, mean, m2, m3, m4))

    @property
    def total(self) -> float:
        return math.fsum(p[1] for p in self._parts)

    @property
    def mean(self) -> float:
        """NaN without values."""
        return self.total / self.n if self.n else math.nan

    @property
    def m2(self) -> float:
        """Sum of squared deviations from the mean."""
        mean = self.mean
        return math.fsum(x for n, _, m, m2, _, _ in self._parts for x in (m2, n * (m - mean) ** 2))

    def std(self, ddof: int = 0) -> float:
        """Standard deviation (of the population for ddof 0); NaN where there are too few values."""
        return math.sqrt(self.m2 / (self.n - ddof)) if self.n > ddof else math.nan

    @property
    def skewness(self) -> float:
        """Fisher's g1 (biased, as scipy.stats.skew); NaN where all values are equal."""
        mean, m2 = self.mean, self.m2
        m3 = math.fsum(x for n, _, m, q, c, _ in self._parts for x in (c, 3 * (m - mean) * q, n * (m - mean) ** 3))
        return (m3 / self.n) / (m2 / self.n) ** 1.5 if self.n and m2 > 0 else math.nan

    @property
    def kurtosis(self) -> float:
        """Excess kurtosis (biased, as scipy.stats.kurtosis); NaN where all values are equal."""
        mean, m2 = self.mean, self.m2
        m4 = math.fsum(x for n, _, m, q, c, f in self._parts for x in (
            f, 4 * (m - mean) * c, 6 * (m - mean) ** 2 * q, n * (m - mean) ** 4))
        return (m4 / self.n) / (m2 / self.n) ** 2 - 3 if self.n and m2 > 0 else math.nan


def _keys(values: NDArray[np.float64]) -> NDArray[np.uint64]:
    """Unsigned keys in the order of the values (IEEE 754 total order; -0 made +0)."""
    bits = (values + 0.0).view(np.uint64)
    negative = bits >> np.uint64(63) == 1
    return np.where(negative, ~bits, bits | np.uint64(1 << 63))


def _from_key(key: int) -> float:
    bits = key & ((1 << 63) - 1) if key >> 63 else ~key & ((1 << 64) - 1)
    return float(np.array([bits], dtype=np.uint64).view(np.float64)[0])


class OrderStatistics:
    """Exact quantiles (linear between ranks, as numpy's default), in bounded memory.

    Up to ``keep`` values are kept and sorted; with more, each rank is found by radix selection on the 64 bits of the value:
    at most four passes over 16 bits each.
    """

    def __init__(self, quantiles: Sequence[float], keep: int = KEEP_VALUES):
        self.quantiles, self.keep = tuple(quantiles), keep
        self.n = 0
        self._kept: list[NDArray[np.float64]] | None = []
        self._pass = 0
        self._ranks: dict[int, tuple[int, int]] = {}  # rank → (prefix of its key, values below that prefix)
        self._bins: dict[int, NDArray[np.int64]] = {}
        self._found: dict[int, float] = {}

    def _wanted(self) -> list[int]:
        out: set[int] = set()
        for q in self.quantiles:
            at = q * (self.n - 1)
            out |= {math.floor(at), math.ceil(at)}
        return sorted(out)

    def wants_pass(self) -> bool:
        if self._pass == 0:
            self._pass = 1
            return True
        if self.n == 0 or self._found:
            return False
        if self._pass == 1 and self._kept is not None:
            values = np.sort(np.concatenate(self._kept)) if self._kept else np.empty(0)
            self._found = {k: float(values[k]) for k in self._wanted()}
            self._kept = None
            return False
        if self._pass == 1:
            self._ranks = dict.fromkeys(self._wanted(), (0, 0))
        else:
            for k, (prefix, below) in self._ranks.items():
                counts = np.cumsum(self._bins[prefix])
                digit = int(np.searchsorted(counts, k - below, side="right"))
                self._ranks[k] = (prefix << 16 | digit, below + (int(counts[digit - 1]) if digit else 0))
        if self._pass == 5:
            self._found = {k: _from_key(prefix) for k, (prefix, _) in self._ranks.items()}
            return False
        self._bins = {prefix: np.zeros(1 << 16, dtype=np.int64) for prefix, _ in self._ranks.values()}
        self._pass += 1
        return True

    def gather(self, sample: Sample) -> Any:
        values = sample.data[sample.valid]
        if self._pass == 1:
            return values
        keys, level = _keys(np.ascontiguousarray(values)), self._pass - 2
        shift = np.uint64(64 - 16 * (level + 1))
        out = {}
        for prefix in self._bins:
            inside = keys if level == 0 else keys[keys >> (shift + np.uint64(16)) == prefix]
            digits = (inside >> shift & np.uint64(0xFFFF)).astype(np.int64)
            out[prefix] = np.bincount(digits, minlength=1 << 16)
        return out

    def merge(self, part: Any) -> None:
        if self._pass == 1:
            self.n += part.size
            if self._kept is not None:
                if self.n > self.keep:
                    self._kept = None
                else:
                    self._kept.append(part)
            return
        for prefix, counts in part.items():
            self._bins[prefix] += counts

    def value(self, quantile: float) -> float:
        """The quantile; NaN without values."""
        if not self.n:
            return math.nan
        at = quantile * (self.n - 1)
        low, high = self._found[math.floor(at)], self._found[math.ceil(at)]
        return low + (high - low) * (at - math.floor(at))


class Histogram:
    """Counts in ``bins`` equal bins between the least and greatest value (two passes), or over a given range (one)."""

    def __init__(self, bins: int = 256, low: float | None = None, high: float | None = None):
        self.bins, self.low, self.high = bins, low, high
        self._moments = Moments() if low is None or high is None else None
        self.counts: NDArray[np.int64] = np.zeros(bins, dtype=np.int64)
        self._counted = False

    def wants_pass(self) -> bool:
        if self._moments is not None:
            if self._moments.wants_pass():
                return True
            self.low, self.high, n = self._moments.low, self._moments.high, self._moments.n
            self._moments = None
            if not n:
                return False
        if self._counted or self.low is None or not math.isfinite(self.low):
            return False
        self._counted = True
        return True

    def gather(self, sample: Sample) -> Any:
        if self._moments is not None:
            return self._moments.gather(sample)
        assert self.low is not None and self.high is not None
        high = self.high if self.high > self.low else _above(self.low)
        return counts_in_bins(sample.data[sample.valid], self.bins, self.low, high)

    def merge(self, part: Any) -> None:
        if self._moments is not None:
            self._moments.merge(part)
        else:
            self.counts = self.counts + part

    @property
    def edges(self) -> NDArray[np.float64]:
        low = self.low if self.low is not None and math.isfinite(self.low) else 0.0
        high = self.high if self.high is not None and math.isfinite(self.high) and self.high > low else _above(low)
        # halves keep the span of the largest numbers finite
        return 2 * np.linspace(low / 2, high / 2, self.bins + 1)


def _above(low: float) -> float:
    """The end of a histogram of equal values."""
    return low + max(1.0, abs(low) * 1e-6)


class TrueArea:
    """Pixels and geodesic area of a mask's True and valid pixels; areas stay None on a grid without CRS."""

    takes_held = True

    def __init__(self) -> None:
        self.n_true = self.n_valid = 0
        self._true_m2: list[float] = []
        self._valid_m2: list[float] = []
        self._has_area = True
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> tuple[int, int, list[float] | None, list[float] | None]:
        true = sample.valid & (sample.data != 0)
        areas = sample.areas_m2()
        true_m2: list[float] | None = None
        valid_m2: list[float] | None = None
        if areas is not None:
            true_m2 = [float(np.ascontiguousarray(areas[at])[true[at]].sum()) for at in cells(sample)]
            valid_m2 = [float(np.ascontiguousarray(areas[at])[sample.valid[at]].sum()) for at in cells(sample)]
        return int(np.count_nonzero(true)), int(np.count_nonzero(sample.valid)), true_m2, valid_m2

    def merge(self, part: tuple[int, int, list[float] | None, list[float] | None]) -> None:
        n_true, n_valid, true_m2, valid_m2 = part
        self.n_true += n_true
        self.n_valid += n_valid
        if true_m2 is None or valid_m2 is None:
            self._has_area = False
        else:
            self._true_m2 += true_m2
            self._valid_m2 += valid_m2

    @property
    def true_m2(self) -> float | None:
        return math.fsum(self._true_m2) if self._has_area else None

    @property
    def valid_m2(self) -> float | None:
        return math.fsum(self._valid_m2) if self._has_area else None


class ClassCounts:
    """Pixels and geodesic area by integer value; more than ``limit`` different values is an error of the caller's input."""

    def __init__(self, limit: int = 4096):
        self.limit = limit
        self.n: dict[int, int] = {}
        self._m2: dict[int, list[float]] = {}
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> list[tuple[int, int, float | None]]:
        areas = sample.areas_m2()
        out: list[tuple[int, int, float | None]] = []
        for at in cells(sample):
            valid = sample.valid[at]
            values = sample.data[at][valid]
            if not values.size:
                continue
            found, where = np.unique(values, return_inverse=True)
            counts = np.bincount(where)
            m2 = None if areas is None else np.bincount(where, weights=np.ascontiguousarray(areas[at])[valid])
            out += [(int(v), int(counts[i]), None if m2 is None else float(m2[i])) for i, v in enumerate(found)]
        return out

    def merge(self, part: list[tuple[int, int, float | None]]) -> None:
        for value, n, m2 in part:
            self.n[value] = self.n.get(value, 0) + n
            if m2 is not None:
                self._m2.setdefault(value, []).append(m2)
        if len(self.n) > self.limit:
            raise ValueError(f"more than {self.limit} different values")

    def area_m2(self, value: int) -> float | None:
        return math.fsum(self._m2[value]) if value in self._m2 else None

    @property
    def total(self) -> int:
        return sum(self.n.values())
