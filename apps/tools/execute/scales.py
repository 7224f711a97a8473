"""Values of which a plain mean, or a quotient, says something else than it seems.

Directions go round: the mean of 350° and 10° is 0° and not 180°. Decibels are logarithms: their mean is not that of the power,
their sum and quotient mean nothing. Degrees Celsius begin at no true zero: twice as warm is not twice the number.
"""

from __future__ import annotations

import math

import numpy as np

from apps.core.geo.grid import Grid
from apps.tools.execute.accumulators import Moments, cells
from apps.tools.execute.types import Call, RasterType, Sample

# Quantities that are directions in degrees.
DIRECTIONS = frozenset({"aspect"})
# What is asked of values that goes wrong on a circle; counts, extremes and thresholds do not.
_NOT_ROUND = frozenset({"mean", "median", "std", "variance", "cv", "percentile", "iqr", "range", "sum", "skewness", "kurtosis",
                        "percent", "ratio", "difference", "absolute", "loss", "zscore", "slope", "bilinear", "average"})
_OF_DECIBELS = frozenset({"sum", "cv", "percent", "ratio"})
_OF_CELSIUS = frozenset({"cv", "percent", "ratio"})


def check_scale(call: Call, raster: RasterType, what: str) -> None:
    """ModelError where ``what`` (a statistic, a kind of difference or of resampling) has no meaning for the raster's values."""
    if raster.quantity in DIRECTIONS and what in _NOT_ROUND:
        raise call.refuse(f"{raster.quantity} is a direction, and directions go round: 350° and 10° have the mean 0° and not "
                          f"180°, so {what} says nothing. Ask for the share that faces one way (raster.product.threshold) or a "
                          "histogram, or keep the pixels (nearest).")
    if raster.unit == "dB" and what in _OF_DECIBELS:
        raise call.refuse(f"{what} of decibels means nothing: they are logarithms. Ask for a mean, a median or a difference in "
                          "dB, or turn them into linear power first.")
    if raster.unit == "degC" and what in _OF_CELSIUS:
        raise call.refuse(f"{what} of degrees Celsius means nothing: their zero is arbitrary. Ask for a difference, or take "
                          "kelvins.")


def scale_notes(raster: RasterType, what: str) -> tuple[tuple[str, str], ...]:
    """What is told with a mean of the raster's values."""
    if raster.unit != "dB" or what not in ("mean", "average", "bilinear"):
        return ()
    return (("warning", (f"The {what} is taken of the decibels themselves: it lies below the decibels of the mean power, the "
                         "more so the more the values vary.")),)


class PowerMean(Moments):
    """The mean power of values in decibels."""

    takes_held = False

    def gather(self, sample: Sample) -> list[tuple[int, float, float, float, float, float, float, float]]:
        power = np.power(10.0, np.where(sample.valid, sample.data, 0.0) / 10)
        return super().gather(Sample(sample.window, sample.grid, power, sample.valid))

    def decibels(self) -> float | None:
        """Of the mean power; None without values."""
        return float(10 * np.log10(self.mean)) if self.n and self.mean > 0 else None


# Least and greatest pixel of a grid that differ by this share are not taken alike in silence.
_UNEVEN_SHARE = 0.02


def has_uneven_pixels(grid: Grid) -> bool:
    """Whether the pixels of a grid differ in area on the ground, as those of whole continents in degrees do."""
    if grid.crs is None or grid.area_method == "grid":
        return False
    _, _, areas = grid.geodesic_lattice
    return bool(areas.min() < (1 - _UNEVEN_SHARE) * areas.max())


def area_notes(raster: RasterType, statistic: str) -> tuple[tuple[str, str], ...]:
    """What is told with figures of each date or zone, where pixels that differ in area count alike."""
    if statistic not in ("mean", "median", "std", "percentile", "share") or not has_uneven_pixels(raster.grid):
        return ()
    return (("warning", ("Pixels differ in area on this grid, and each counts alike. Bring the raster to an equal-area grid "
                         "first (raster.product.reproject, EPSG:6933) where that matters.")),)


class AreaMean:
    """Mean and variance of values, each weighted by the area of its pixel; summed cell by cell, so that no window shows."""

    def __init__(self) -> None:
        self.n = 0
        self._parts: list[tuple[float, float, float]] = []
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> list[tuple[int, float, float, float]]:
        areas = sample.areas_m2()
        assert areas is not None
        out = []
        for at in cells(sample):
            valid = sample.valid[at]
            weight, value = np.ascontiguousarray(areas[at])[valid], sample.data[at][valid]
            if value.size:
                by_area = weight * value
                out.append((value.size, float(weight.sum()), float(by_area.sum()), float((by_area * value).sum())))
        return out

    def merge(self, part: list[tuple[int, float, float, float]]) -> None:
        for n, *sums in part:
            self.n += n
            self._parts.append((sums[0], sums[1], sums[2]))

    @property
    def mean(self) -> float:
        """NaN without values."""
        weight = math.fsum(p[0] for p in self._parts)
        return math.fsum(p[1] for p in self._parts) / weight if weight else math.nan

    @property
    def variance(self) -> float:
        weight = math.fsum(p[0] for p in self._parts)
        return math.fsum(p[2] for p in self._parts) / weight - self.mean**2 if weight else math.nan
