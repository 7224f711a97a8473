"""Values of which a plain mean, or a quotient, says something else than it seems.

Directions go round: the mean of 350° and 10° is 0° and not 180°. Decibels are logarithms: their mean is not that of the power,
their sum and quotient mean nothing. Degrees Celsius begin at no true zero: twice as warm is not twice the number.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from apps.core.errors import ModelError
from apps.core.geo.grid import Grid
from apps.core.ports import Window
from apps.tools.execute.accumulators import CellFigures, Moments, cells
from apps.tools.execute.types import Call, RasterType, Sample
from apps.tools.geojson import crs_of
from apps.tools.region import polygon_from_geojson, to_pixels
from apps.tools.units import AREA_M2, LENGTH_M

# What a pixel counts in a mean or share: its area, or 1; auto: its area where areas differ by more than UNEVEN_SHARE.
Weights = Literal["auto", "area", "pixels"]

# Quantities that are directions in degrees.
DIRECTIONS = frozenset({"aspect"})
# What is asked of values that goes wrong on a circle; counts, extremes and thresholds do not.
_NOT_ROUND = frozenset({"mean", "median", "std", "variance", "cv", "percentile", "iqr", "range", "sum", "skewness", "kurtosis",
                        "percent", "ratio", "difference", "absolute", "loss", "zscore", "slope", "bilinear", "average", "rmse",
                        "mae", "bias", "correlation"})
_OF_DECIBELS = frozenset({"sum", "cv", "percent", "ratio"})
_OF_CELSIUS = frozenset({"cv", "percent", "ratio"})
_TEMPERATURES = ("K", "degC", "degF")


def check_scale(call: Call, raster: RasterType, what: str) -> None:
    """ModelError where ``what`` (a statistic, a kind of difference or of resampling) has no meaning for the raster's values."""
    if raster.quantity in DIRECTIONS and what in _NOT_ROUND:
        raise call.refuse(f"{raster.quantity} is a direction, and directions go round: 350° and 10° have the mean 0° and not "
                          f"180°, so {what} says nothing. Ask for the share that faces one way (raster.product.threshold) or a "
                          "histogram, or keep the pixels (nearest).")
    if raster.unit == "dB" and what in _OF_DECIBELS:
        raise call.refuse(f"{what} of decibels means nothing: they are logarithms. Ask for a mean, a median or a difference in "
                          "dB, or turn them into linear power first.")
    if raster.unit in _TEMPERATURES and what == "sum":
        raise call.refuse(f"a sum of temperatures in {raster.unit} means nothing: it hangs on their number and on where the "
                          "scale begins. For degree-days take what lies above a base first (raster.product.math, "
                          "max(x - base, 0)), or ask for the mean.")
    if raster.unit == "degC" and what in _OF_CELSIUS:
        raise call.refuse(f"{what} of degrees Celsius means nothing: their zero is arbitrary. Ask for a difference, or take "
                          "kelvins.")


# What a part of a formula is: a number or product of which nothing is known, a value in a unit, a code, or a direction.
Part = tuple[Literal["any", "unit", "code", "direction"], str]
_ANY: Part = ("any", "")
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})


def check_formula(call: Call, tree: object, held: Mapping[str, tuple[str, str, str]]) -> None:
    """ModelError where a formula of the caller's own does with values what has no meaning. ``held``: name → (kind, or ``band``;
    quantity; unit). Codes may be compared, directions go into sines and cosines in radians, decibels are not added to, multiplied
    with or divided by decibels, and what is added has one unit."""
    what, name = _part(call, tree, held)
    if what == "code":
        raise call.refuse(f"{name} holds codes, and a formula of codes is no quantity. Compare them (==, <, …), or take "
                          "raster.product.class_values or raster.summarize.transitions.")
    if what == "direction":
        raise call.refuse(f"{name} is a direction, and directions go round. Put it into cos or sin (in radians: × "
                          "0.017453292519943295), or compare it.")


def _part(call: Call, tree: Any, held: Mapping[str, tuple[str, str, str]]) -> Part:
    head = tree[0]
    if head == "number":
        return _ANY
    if head == "name":
        kind, quantity, unit = held[tree[1]]
        if kind == "classes" or (kind == "band" and quantity in ("class", "qa", "mask")):
            return "code", tree[1]
        if quantity in DIRECTIONS:
            return "direction", tree[1]
        return ("unit", unit) if unit not in ("", "1") and kind != "mask" else _ANY
    if head == "neg":
        return _part(call, tree[1], held)
    if head == "call":
        parts = [_part(call, a, held) for a in tree[2]]
        if tree[1] in ("sin", "cos", "tan"):
            bare = parts[0][1] if parts[0][0] == "direction" and tree[2][0][0] == "name" else ""
            if bare or parts[0] == ("unit", "degree"):
                raise call.refuse(f"{tree[1]} takes radians, and {bare or 'its value'} is in degrees: multiply by "
                                  "0.017453292519943295.")
            return _ANY
        if tree[1] in ("min", "max"):
            return _sum(call, tree[1], *parts)
        if tree[1] == "where":
            return _sum(call, "where", *parts[1:])
        return parts[0] if tree[1] in ("abs", "floor") or parts[0][0] in ("code", "direction") else _ANY
    one, other = (_part(call, t, held) for t in tree[1:])
    if head in _COMPARISONS:
        _sum(call, head, one, other)
        return _ANY
    if head in ("+", "-"):
        return _sum(call, head, one, other)
    if head in ("*", "/") and one == other == ("unit", "dB"):
        raise call.refuse("decibels are logarithms: their product and quotient mean nothing. Subtract them (the quotient of the "
                          "powers, in dB), or take 10 ^ (x / 10) of each first.")
    if head == "/" and one[0] == other[0] == "unit" and one != other and _is_one_kind(one[1], other[1]):
        raise call.refuse(f"{one[1]} is divided by {other[1]}: both measure the same, so the quotient would be off by the factor "
                          "between them. Bring both to one unit first.")
    return next((p for p in (one, other) if p[0] in ("code", "direction")), _ANY)


def _is_one_kind(one: str, other: str) -> bool:
    """Whether two units are both of area, or both of length."""
    return any(one in table and other in table for table in (AREA_M2, LENGTH_M))


def _sum(call: Call, how: str, one: Part, other: Part) -> Part:
    """Of two parts that are added, compared or chosen between."""
    for part in (one, other):
        if part[0] in ("code", "direction"):
            return part
    if one[0] == other[0] == "unit":
        if one[1] != other[1]:
            raise call.refuse(f"{one[1]} and {other[1]} stand together at {how!r}: values in different units are not added, "
                              "compared or chosen between. Bring both to one unit first.")
        if how == "+" and one[1] == "dB":
            raise call.refuse("decibels are logarithms: their sum is that of no power. Take 10 ^ (x / 10) of each first.")
        return _ANY if how == "-" and one[1] == "dB" else one
    return one if one[0] == "unit" else other


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


# Least and greatest pixel that differ by more than this share are not taken alike.
UNEVEN_SHARE = 0.01


def has_uneven_pixels(grid: Grid, window: Window | None = None) -> bool:
    """Whether the pixels of a grid, or of a window of it, differ in area on the ground by more than UNEVEN_SHARE, as those of
    whole countries in degrees do."""
    if grid.crs is None or grid.area_method == "grid" or (window is not None and (window[2] < 1 or window[3] < 1)):
        return False
    _, _, areas = (grid if window is None else grid.window(*window)).geodesic_lattice
    return bool(areas.min() < (1 - UNEVEN_SHARE) * areas.max())


def _region_window(call: Call, grid: Grid) -> Window | None:
    """(column, row, width, height) that bounds the region on a grid; None without a region, or where it has no place there."""
    if call.region is None:
        return None
    try:
        placed = to_pixels(polygon_from_geojson(call.region), crs_of(call.region, call.region_crs), grid)
    except ModelError:  # the engine refuses it, or tells it
        return None
    west, north, east, south = placed.bounds
    left, top = max(0, math.floor(west)), max(0, math.floor(north))
    right, bottom = min(grid.width, math.ceil(east)), min(grid.height, math.ceil(south))
    return (left, top, right - left, bottom - top) if right > left and bottom > top else None


def weights_of(call: Call, raster: RasterType, asked: Weights = "auto",
               windows: Sequence[Window] = ()) -> Literal["area", "pixels"]:
    """What the raster's pixels count in a mean or share. For auto the pixels of the rows and columns that bound the region (or
    the ``windows`` together, or the grid) decide. ModelError where areas are asked for and the raster has no CRS."""
    grid = raster.grid
    if asked == "area" and grid.crs is None:
        raise call.refuse(f"{raster.scene_names} has no CRS, so its pixels have no areas of their own; ask for weights pixels.")
    if asked != "auto":
        return asked
    if not has_uneven_pixels(grid):
        return "pixels"
    if windows:
        left, top = min(w[0] for w in windows), min(w[1] for w in windows)
        right, bottom = max(w[0] + w[2] for w in windows), max(w[1] + w[3] for w in windows)
        window: Window | None = (left, top, right - left, bottom - top)
    else:
        window = _region_window(call, grid)
    return "area" if window is None or has_uneven_pixels(grid, window) else "pixels"


def area_notes(raster: RasterType, statistic: str) -> tuple[tuple[str, str], ...]:
    """What is told with figures in which pixels that differ in area count alike."""
    if statistic not in ("median", "std", "percentile", "variance", "iqr", "cv") or not has_uneven_pixels(raster.grid):
        return ()
    return (("warning", ("Pixels differ in area on this grid, and each counts alike. Bring the raster to an equal-area grid "
                         "first (raster.product.reproject, EPSG:6933) where that matters.")),)


# n, and the sums of areas and of areas times values, of a cell
AreaFigures = tuple[int, float, float]


class AreaMoments(Moments):
    """Moments of values, and their mean weighted by the area of each pixel; summed cell by cell, so that no window shows."""

    takes_held = False

    def __init__(self) -> None:
        super().__init__(1)
        self._weighed: list[tuple[float, float]] = []

    def gather(self, sample: Sample) -> tuple[list[CellFigures], list[AreaFigures]]:  # type: ignore[override]
        areas = sample.areas_m2()
        assert areas is not None
        out: list[AreaFigures] = []
        for at in cells(sample):
            valid = sample.valid[at]
            weight, value = np.ascontiguousarray(areas[at])[valid], sample.data[at][valid]
            if value.size:
                out.append((value.size, float(weight.sum()), float((weight * value).sum())))
        # figures of the cells that others hold are of the same pixels, perhaps in another type
        return super().gather(Sample(sample.window, sample.grid, sample.data, sample.valid)), out

    def merge(self, part: tuple[list[CellFigures], list[AreaFigures]]) -> None:  # type: ignore[override]
        super().merge(part[0])
        self._weighed += [(weight, total) for _, weight, total in part[1]]

    @property
    def mean_by_area(self) -> float:
        """NaN without values."""
        weight = math.fsum(p[0] for p in self._weighed)
        return math.fsum(p[1] for p in self._weighed) / weight if weight else math.nan
