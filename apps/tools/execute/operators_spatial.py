"""Operators over neighbourhoods, dates and bands: terrain, focal statistics, hot spots, composites, anomalies, trends by pixel,
principal components, pan-sharpening."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue
from scipy import ndimage

from apps.core.evidence.observation import Frozen
from apps.core.geo.grid import Grid, geod_of
from apps.core.ports import Window
from apps.tools.execute.accumulators import cells
from apps.tools.execute.collected import Collected
from apps.tools.execute.comparable import check_distinct, check_made_of_one_unit, check_series_alike
from apps.tools.execute.ground_steps import GroundSteps, ground_steps
from apps.tools.execute.operators_products import grids_agree, joined, resampled, same_grid
from apps.tools.execute.operators_summaries import DAYS_A_YEAR
from apps.tools.execute.pan_bands import mean_on_bands, windows_of_both
from apps.tools.execute.scales import check_scale, scale_notes
from apps.tools.execute.types import (
    Call,
    Operator,
    PhysicalRange,
    Plane,
    Planned,
    RasterType,
    Reads,
    Sample,
    Take,
    register,
)
from apps.tools.registration import estimated_shift, shift_on_ground_m
from apps.tools.thresholds import rounding_of


def grown(window: Window, halo: int, grid: Grid) -> tuple[Window, tuple[slice, slice]]:
    """(window with ``halo`` pixels more on each side where the grid has them, where the old window lies in it)."""
    c, r, w, h = window
    left, top = min(halo, c), min(halo, r)
    right, bottom = min(halo, grid.width - c - w), min(halo, grid.height - r - h)
    return (c - left, r - top, w + left + right, h + top + bottom), (slice(top, top + h), slice(left, left + w))


def window_sum(data: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Sums over squares of ``size`` pixels, zeros beyond the frame; each in one fixed order, so that no window shows."""
    ones = np.ones(size)
    rows = ndimage.correlate1d(data, ones, axis=0, mode="constant")
    return np.asarray(ndimage.correlate1d(rows, ones, axis=1, mode="constant"))


# --- terrain ---------------------------------------------------------------------------------------------------------------
# Deviations below this share of the values are what adding them up has rounded.
_ROUNDING = 1e-12


class TerrainParams(Frozen):
    product: Literal["slope", "aspect", "hillshade", "relief", "roughness", "tpi", "tri"] = "slope"
    azimuth: float = Field(default=315.0, ge=0, le=360, description="of the sun, degrees clockwise from north, for hillshade")
    altitude: float = Field(default=45.0, ge=0, le=90, description="of the sun, degrees, for hillshade")
    window: int = Field(default=3, ge=3, le=201, description="side in pixels, odd, for relief")


_TERRAIN: dict[str, tuple[str, PhysicalRange, str]] = {
    "slope": ("degree", PhysicalRange(0, 90), "Horn 1981, Proc. IEEE 69"),
    "aspect": ("degree", PhysicalRange(0, 360), "Horn 1981; 0 is north, clockwise; flat pixels are masked"),
    "hillshade": ("1", PhysicalRange(0, 1), "Horn 1981"),
    "relief": ("m", PhysicalRange(0, 9000), "highest less lowest in the window"),
    "roughness": ("m", PhysicalRange(0, 9000), "Wilson et al. 2007: highest less lowest of 3 × 3"),
    "tpi": ("m", PhysicalRange(-9000, 9000), "Wilson et al. 2007: less the mean of the eight neighbours"),
    "tri": ("m", PhysicalRange(0, 9000), "Wilson et al. 2007: mean absolute difference to the eight neighbours"),
}


def pixel_sizes_m(grid: Grid, gsd_m: float | None, row_off: int, rows: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(width, height) in metres of the pixels of each row, (rows, 1) each; geodesic where the grid is not equal-area. ValueError
    where unknown."""
    a, b, _, d, e, _ = grid.transform
    if b or d:
        raise ValueError("the grid is rotated")
    if grid.crs is None:
        if gsd_m is None:
            raise ValueError("neither CRS nor GSD is known")
        return np.full((rows, 1), gsd_m), np.full((rows, 1), gsd_m)
    if not grid.is_geographic and grid.area_method == "grid":
        assert grid.grid_pixel_area_m2 is not None
        unit = math.sqrt(grid.grid_pixel_area_m2 / abs(a * e))
        return np.full((rows, 1), abs(a) * unit), np.full((rows, 1), abs(e) * unit)
    geod = geod_of(grid.crs)
    at = np.arange(row_off, row_off + rows) + 0.5
    middle = grid.width / 2

    def lonlat(cols: NDArray[Any], lines: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        ta, tb, tc, td, te, tf = grid.transform
        lon, lat = grid.lonlat(ta * cols + tb * lines + tc, td * cols + te * lines + tf)
        return np.asarray(lon), np.asarray(lat)

    column = np.full(rows, middle)
    west, east = lonlat(column - 0.5, at), lonlat(column + 0.5, at)
    north, south = lonlat(column, at - 0.5), lonlat(column, at + 0.5)
    width, height = geod.inv(*west, *east)[2], geod.inv(*north, *south)[2]
    return np.asarray(width)[:, None], np.asarray(height)[:, None]


def _plan_terrain(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: TerrainParams = call.params
    unit, span, reference = _TERRAIN[p.product]
    if source.unit != "m":
        raise call.refuse(f"terrain is made of heights in m; {source.quantity} is in {source.unit}.", needs={"unit": "m"})
    if p.window % 2 == 0:
        raise call.refuse("the window must be odd.")
    grid, name = source.grid, call.names[0]
    steps: GroundSteps | None = None
    if p.product in ("slope", "aspect", "hillshade"):
        try:
            steps = ground_steps(grid)
            if steps is None:
                pixel_sizes_m(grid, source.gsd_m, 0, 1)
        except ValueError as error:
            raise call.refuse(f"the size of a pixel is not known: {error}.", code="NEEDS_GSD", needs={"gsd_m": True}) from error
    halo = p.window // 2 if p.product == "relief" else 1
    down = -1.0 if grid.transform[4] < 0 else 1.0
    right = 1.0 if grid.transform[0] > 0 else -1.0

    def evaluate(reads: Reads, window: Window) -> Plane:
        wide, inner = grown(window, halo, grid)
        plane = reads.plane(name, wide)
        z, valid = np.where(plane.valid, plane.data, 0.0), plane.valid
        size = 2 * halo + 1
        whole = ndimage.minimum_filter(valid.astype(np.uint8), size=size, mode="constant", cval=0) == 1
        if p.product in ("relief", "roughness"):
            data = ndimage.maximum_filter(z, size=size, mode="nearest") - ndimage.minimum_filter(z, size=size, mode="nearest")
        elif p.product == "tpi":
            data = z - (ndimage.correlate(z, np.ones((3, 3)), mode="nearest") - z) / 8
        elif p.product == "tri":
            padded = np.pad(z, 1, mode="edge")
            data = sum((np.abs(z - padded[1 + i:1 + i + z.shape[0], 1 + j:1 + j + z.shape[1]])
                        for i in (-1, 0, 1) for j in (-1, 0, 1)), np.zeros_like(z)) / 8
        else:
            east = ndimage.correlate(z, np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]], dtype=float), mode="nearest")
            south = ndimage.correlate(z, np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]], dtype=float), mode="nearest")
            # equal heights differ by the rounding of their weights, which rises nowhere and faces no way
            level = np.hypot(east, south) <= _ROUNDING * ndimage.maximum_filter(np.abs(z), size=3, mode="nearest")
            east, south = np.where(level, 0.0, east), np.where(level, 0.0, south)
            if steps is None:
                dx, dy = pixel_sizes_m(grid, source.gsd_m, wide[1], wide[3])
                gx, gy = right * east / (8 * dx), down * south / (8 * dy)  # towards east and north
            else:
                gx, gy = steps.gradient(wide, east / 8, south / 8)
            slope = np.arctan(np.hypot(gx, gy))
            if p.product == "slope":
                data = np.degrees(slope)
            else:
                # the direction in which the ground falls, clockwise from north
                aspect = (np.degrees(np.arctan2(-gx, -gy)) + 360) % 360
                if p.product == "aspect":
                    data, whole = aspect, whole & (slope > 0)
                else:
                    zenith, azimuth = math.radians(90 - p.altitude), math.radians(p.azimuth)
                    data = np.clip(math.cos(zenith) * np.cos(slope) + math.sin(zenith) * np.sin(slope)
                                   * np.cos(azimuth - np.radians(aspect)), 0, 1)
        return Plane(data[inner], whole[inner])

    kind = replace(source, kind="raster", quantity=p.product, unit=unit, range=span,
                   formula=f"{p.product} of {source.formula} ({reference})")
    return Planned(kind, evaluate=evaluate)


register(Operator(
    name="raster.product.terrain", summary="Slope, aspect, hillshade, relief, roughness, TPI, TRI of heights.",
    takes=Take(("raster",)), params=TerrainParams, gives="raster", range="declared by each product",
    nodata="masked where a pixel of the window is, at the frame, and aspect where it is flat", plan=_plan_terrain))


# --- focal -----------------------------------------------------------------------------------------------------------------
class FocalParams(Frozen):
    statistic: Literal["mean", "median", "min", "max", "std", "range"] = "mean"
    size: int = Field(default=3, ge=3, le=101, description="side of the square window in pixels, odd")


def _plan_focal(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: FocalParams = call.params
    if p.size % 2 == 0:
        raise call.refuse("the window must be odd.")
    check_scale(call, source, p.statistic)
    if p.statistic == "median" and p.size > 31:
        raise call.refuse("medians are taken in windows up to 31 pixels.")
    name, grid, halo = call.names[0], source.grid, p.size // 2
    # a constant taken off first keeps squares of large numbers from cancelling
    middle = (source.range.low + source.range.high) / 2 if math.isfinite(source.range.low + source.range.high) else 0.0

    def evaluate(reads: Reads, window: Window) -> Plane:
        wide, inner = grown(window, halo, grid)
        plane = reads.plane(name, wide)
        v = plane.valid
        if p.statistic in ("mean", "std"):
            n = window_sum(v.astype(float), p.size)
            z = np.where(v, plane.data - middle, 0.0)
            with np.errstate(all="ignore"):
                mean = window_sum(z, p.size) / n
                if p.statistic == "mean":
                    data = mean + middle
                else:
                    data = np.sqrt(np.maximum(window_sum(z * z, p.size) / n - mean * mean, 0))
        elif p.statistic == "median":
            holes = np.where(v, plane.data, np.nan)
            data = ndimage.generic_filter(holes, np.nanmedian, size=p.size, mode="constant", cval=np.nan)
        else:
            low = ndimage.minimum_filter(np.where(v, plane.data, np.inf), p.size, mode="constant", cval=np.inf)
            high = ndimage.maximum_filter(np.where(v, plane.data, -np.inf), p.size, mode="constant", cval=-np.inf)
            data = {"min": low, "max": high, "range": high - low}[p.statistic]
        return Plane(data[inner], v[inner] & np.isfinite(data[inner]))

    span = source.range if p.statistic not in ("std", "range") else PhysicalRange(
        0, source.range.high - source.range.low, source.range.why or "follows the input")
    return Planned(replace(source, kind="raster", quantity=f"{source.quantity}_focal_{p.statistic}"[:80], range=span,
                           formula=f"{p.statistic} of {source.formula} in {p.size} × {p.size}"), evaluate=evaluate)


register(Operator(
    name="raster.product.focal", summary="Mean, median, least, greatest, deviation or range in a moving window.",
    takes=Take(("raster", "mask")), params=FocalParams, gives="raster", range="of the input, or its span",
    nodata="invalid neighbours take no part; invalid pixels stay masked", plan=_plan_focal))


# --- several dates ---------------------------------------------------------------------------------------------------------
class CompositeParams(Frozen):
    method: Literal["mean", "median", "min", "max", "std", "sum", "count", "percentile"] = "median"
    percentile: float | None = Field(default=None, ge=0, le=100)
    least_valid: int = Field(default=1, ge=1, description="pixels with fewer valid dates are masked")
    months: tuple[int, ...] = Field(default=(), max_length=12, description="only dates of these months, 1 to 12")
    years: tuple[int, ...] = Field(default=(), max_length=400, description="only dates of these years")


def _of_period(call: Call) -> tuple[tuple[str, ...], tuple[RasterType, ...]]:
    """(names, types) of the inputs whose date lies in the months and years asked for."""
    p: CompositeParams = call.params
    if not p.months and not p.years:
        return call.names, call.inputs
    if any(not 1 <= m <= 12 for m in p.months):
        raise call.refuse("months count from 1 to 12.")
    undated = [r.scene_names for r in call.inputs if r.acquired_at is None]
    if undated:
        raise call.refuse(f"{', '.join(undated)}: without a date nobody knows its month.", code="NEEDS_DATES",
                          needs={"dates": True})
    kept = [(n, r) for n, r in zip(call.names, call.inputs, strict=True)
            if (not p.months or r.acquired_at.month in p.months) and (not p.years or r.acquired_at.year in p.years)]
    if not kept:
        raise call.refuse("no date lies in the months and years asked for.", code="NEEDS_DATES", needs={"dates": True})
    return tuple(n for n, _ in kept), tuple(r for _, r in kept)


def _stack(reads: Reads, names: Sequence[str], window: Window) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    planes = [reads.plane(n, window) for n in names]
    return np.stack([p.data for p in planes]), np.stack([p.valid for p in planes])


def _one_quantity(call: Call, inputs: Sequence[RasterType]) -> None:
    for what in ("quantity", "unit"):
        seen = {getattr(i, what) for i in inputs}
        if len(seen) > 1:
            raise call.refuse(f"the inputs differ in {what}: {', '.join(sorted(seen))}.")


def _plan_composite(call: Call) -> Planned:
    p: CompositeParams = call.params
    same_grid(call, call.inputs)
    _one_quantity(call, call.inputs)
    if p.method == "percentile" and p.percentile is None:
        raise call.refuse("percentile needs a number from 0 to 100.")
    check_scale(call, call.inputs[0], p.method)
    names, inputs = _of_period(call)
    check_distinct(call, names, inputs)
    check_made_of_one_unit(call, inputs)
    first = inputs[0]

    def evaluate(reads: Reads, window: Window) -> Plane:
        data, valid = _stack(reads, names, window)
        n = valid.sum(axis=0)
        # of one value there is no deviation, and not one of 0
        keep = n >= (max(2, p.least_valid) if p.method == "std" else p.least_valid)
        with np.errstate(all="ignore"):
            if p.method == "count":
                return Plane(n.astype(np.float64), np.ones(n.shape, dtype=bool))
            if p.method in ("mean", "sum", "std"):
                total = np.where(valid, data, 0).sum(axis=0)
                mean = total / n
                out = {"mean": mean, "sum": total}.get(p.method)
                if out is None:
                    out = np.sqrt(np.where(valid, (data - mean) ** 2, 0).sum(axis=0) / n)
            elif p.method in ("min", "max"):
                out = np.where(valid, data, np.inf).min(axis=0) if p.method == "min" else \
                    np.where(valid, data, -np.inf).max(axis=0)
            else:
                out = _quantile(data, valid, n, 0.5 if p.method == "median" else (p.percentile or 0.0) / 100)
        return Plane(out, keep & np.isfinite(out))

    span = first.range
    if p.method == "std":
        span = PhysicalRange(0, span.high - span.low, span.why or "follows the input")
    elif p.method == "sum":
        span = PhysicalRange(why="a sum over dates")
    elif p.method == "count":
        span = PhysicalRange(0, len(names))
    quantity = f"{first.quantity}_{p.method}" if p.method in ("std", "sum", "count") else first.quantity
    kind = joined(inputs, kind="raster", quantity=quantity, unit="1" if p.method == "count" else first.unit, range=span,
                  formula=f"{p.method} over {len(names)} dates of {first.formula}")
    left = len(call.names) - len(names)
    notes: tuple[tuple[str, str], ...] = ()
    if left:
        notes = (("info", f"{len(names)} of {len(call.names)} dates lie in the months and years asked for."),)
    months = set(p.months)
    if p.years and {12, 1} <= months and len(months) < 12:
        notes += (("warning", ("The months run over the turn of the year, and each date goes by its own calendar year: a "
                               "December stands with the January eleven months before it. For one season name the dates "
                               "themselves.")),)
    return Planned(kind, evaluate=evaluate, notes=(
        *notes, *scale_notes(first, p.method), *check_series_alike(call, inputs, is_trend=False)))


def _quantile(data: NDArray[np.float64], valid: NDArray[np.bool_], n: NDArray[np.int64], q: float) -> NDArray[np.float64]:
    """Linear quantile along the first axis over valid values; NaN where there is none."""
    ordered = np.sort(np.where(valid, data, np.inf), axis=0)
    at = q * np.maximum(n - 1, 0)
    low = np.floor(at).astype(np.int64)
    high = np.minimum(low + 1, np.maximum(n - 1, 0))
    one = np.take_along_axis(ordered, low[None], axis=0)[0]
    other = np.take_along_axis(ordered, high[None], axis=0)[0]
    t = at - low
    return np.where(n > 0, np.where(t == 0, one, one + (other - one) * t), np.nan)


register(Operator(
    name="raster.product.composite", summary="Many dates of one quantity as one raster: median, mean, least, greatest, …",
    takes=Take(("raster", "mask"), 1, 400), params=CompositeParams, gives="raster", range="of the inputs, by method",
    nodata="invalid dates take no part; masked below least_valid", plan=_plan_composite))


class BestParams(Frozen):
    pick: Literal["max", "min"] = "max"


def _plan_best(call: Call) -> Planned:
    if len(call.inputs) % 2:
        raise call.refuse("the inputs are values first, then as many criteria in the same order.")
    half = len(call.inputs) // 2
    same_grid(call, call.inputs)
    _one_quantity(call, call.inputs[:half])
    _one_quantity(call, call.inputs[half:])
    values, criteria = call.names[:half], call.names[half:]
    check_distinct(call, values, call.inputs[:half])
    check_made_of_one_unit(call, call.inputs[:half])
    check_made_of_one_unit(call, call.inputs[half:])
    sign = 1.0 if call.params.pick == "max" else -1.0

    def evaluate(reads: Reads, window: Window) -> Plane:
        data, valid = _stack(reads, values, window)
        rank, known = _stack(reads, criteria, window)
        valid &= known
        best = np.where(valid, sign * rank, -np.inf).argmax(axis=0)
        return Plane(np.take_along_axis(data, best[None], axis=0)[0], np.asarray(valid.any(axis=0)))

    first = call.inputs[0]
    return Planned(joined(call.inputs[:half], kind="raster", quantity=first.quantity, unit=first.unit, range=first.range,
                          formula=f"{first.formula} of the date with the {call.params.pick} {call.inputs[half].quantity}"),
                   evaluate=evaluate)


register(Operator(
    name="raster.product.best_pixel", summary="Of many dates the value where a criterion is greatest (greenest pixel) or least.",
    takes=Take(("raster",), 2, 400), params=BestParams, gives="raster", range="of the values",
    nodata="dates invalid in value or criterion take no part", plan=_plan_best))


# A reference date so many days of the year away is of another season; fewer years than these say little of what is usual.
SEASON_DAYS = 45
LEAST_YEARS = 3


class AnomalyParams(Frozen):
    mode: Literal["difference", "zscore", "percent"] = "difference"
    least_valid: int = Field(default=3, ge=2)


def _season_notes(now: RasterType, past: Sequence[RasterType]) -> tuple[tuple[str, str], ...]:
    """What is told where an anomaly is the season's, or that of a single year."""
    days = [r.acquired_at for r in past if r.acquired_at is not None]
    if now.acquired_at is None or not days:
        return ()
    notes: list[tuple[str, str]] = []
    day = now.acquired_at.timetuple().tm_yday
    away = [min(abs(d.timetuple().tm_yday - day), 365 - abs(d.timetuple().tm_yday - day)) for d in days]
    other = [d.date().isoformat() for d, n in zip(days, away, strict=True) if n > SEASON_DAYS]
    if other:
        some = ", ".join(other[:4]) + (", …" if len(other) > 4 else "")
        notes.append(("warning", (f"{len(other)} of {len(days)} reference dates lie over {SEASON_DAYS} days of the year away "
                                  f"from {now.acquired_at.date().isoformat()} ({some}): a part of the anomaly is the season.")))
    years = {d.year for d in days}
    if len(years) < LEAST_YEARS:
        notes.append(("warning", (f"The reference is of {len(years)} year{'s' if len(years) > 1 else ''}: what is usual takes "
                                  f"{LEAST_YEARS} or more.")))
    return tuple(notes)


def _plan_anomaly(call: Call) -> Planned:
    p: AnomalyParams = call.params
    same_grid(call, call.inputs)
    _one_quantity(call, call.inputs)
    now, past = call.names[0], call.names[1:]
    first: RasterType = call.inputs[0]
    check_scale(call, first, p.mode)
    check_distinct(call, call.names, call.inputs)
    check_made_of_one_unit(call, call.inputs)
    if len(past) < p.least_valid:
        raise call.refuse(f"an anomaly needs at least {p.least_valid} reference dates; {len(past)} were given.")

    def evaluate(reads: Reads, window: Window) -> Plane:
        plane = reads.plane(now, window)
        data, valid = _stack(reads, past, window)
        n = valid.sum(axis=0)
        with np.errstate(all="ignore"):
            mean = np.where(valid, data, 0).sum(axis=0) / n
            out = plane.data - mean
            if p.mode == "zscore":
                deviation = np.sqrt(np.where(valid, (data - mean) ** 2, 0).sum(axis=0) / (n - 1))
                # equal dates deviate by their rounding, which is no unit for anything
                is_level = deviation <= rounding_of(mean, first.unit, first.range.low, first.range.high)
                out = np.where(is_level, np.nan, out / deviation)
            elif p.mode == "percent":
                out = 100 * out / np.abs(mean)
        return Plane(out, plane.valid & (n >= p.least_valid) & np.isfinite(out))

    notes = (*_season_notes(first, call.inputs[1:]), *check_series_alike(call, call.inputs, is_trend=False))
    width = first.range.high - first.range.low
    span = PhysicalRange(-width, width, first.range.why or "follows the input") if p.mode == "difference" else PhysicalRange(
        why="a quotient has no bound")
    unit = {"difference": first.unit, "zscore": "1", "percent": "%"}[p.mode]
    return Planned(replace(joined(call.inputs, kind="raster", quantity=f"{first.quantity}_anomaly_{p.mode}"[:80], unit=unit,
                                  range=span, formula=f"{p.mode} of {first.formula} to {len(past)} reference dates"),
                           acquired_at=first.acquired_at), evaluate=evaluate, notes=notes)


register(Operator(
    name="raster.product.anomaly", summary="The first date against the mean (and deviation) of the others.",
    takes=Take(("raster",), 3, 400), params=AnomalyParams, gives="raster", range="the inputs' span, or open for quotients",
    nodata="masked where the first date is, or with too few valid reference dates", plan=_plan_anomaly))


class PixelTrendParams(Frozen):
    output: Literal["slope", "p_value", "r2"] = "slope"
    least_valid: int = Field(default=3, ge=3)


def _plan_pixel_trend(call: Call) -> Planned:
    p: PixelTrendParams = call.params
    same_grid(call, call.inputs)
    _one_quantity(call, call.inputs)
    if any(i.acquired_at is None for i in call.inputs):
        raise call.refuse("a trend needs the date of every input.", code="NEEDS_DATES", needs={
            "dates": [s.scene_id for i in call.inputs if i.acquired_at is None for s in i.scenes]})
    first = min(i.acquired_at for i in call.inputs)
    years = np.array([(i.acquired_at - first).total_seconds() / 86400 / DAYS_A_YEAR for i in call.inputs])
    if len(set(years.tolist())) < 3:
        raise call.refuse("a trend needs at least three different dates.", code="NEEDS_DATES", needs={"dates": 3})
    check_scale(call, call.inputs[0], "slope")
    check_distinct(call, call.names, call.inputs)
    check_made_of_one_unit(call, call.inputs)
    names = call.names
    source: RasterType = call.inputs[0]

    def evaluate(reads: Reads, window: Window) -> Plane:
        data, valid = _stack(reads, names, window)
        n = valid.sum(axis=0)
        x = years[:, None, None]
        with np.errstate(all="ignore"):
            mx = np.where(valid, x, 0).sum(axis=0) / n
            my = np.where(valid, data, 0).sum(axis=0) / n
            dx, dy = np.where(valid, x - mx, 0), np.where(valid, data - my, 0)
            sxx, sxy, syy = (dx * dx).sum(axis=0), (dx * dy).sum(axis=0), (dy * dy).sum(axis=0)
            # equal dates deviate by their rounding alone, which rises nowhere
            is_level = syy <= n * rounding_of(my, source.unit, source.range.low, source.range.high) ** 2
            syy, sxy = np.where(is_level, 0.0, syy), np.where(is_level, 0.0, sxy)
            slope = sxy / sxx
            if p.output == "slope":
                out = slope
            else:
                r2 = np.where(syy > 0, sxy**2 / (sxx * syy), 0.0)
                if p.output == "r2":
                    out = r2
                else:
                    from scipy import stats

                    t = np.sqrt(np.minimum(r2, 1 - 1e-15) * (n - 2) / np.maximum(1 - r2, 1e-15))
                    out = 2 * stats.t.sf(t, np.maximum(n - 2, 1))
        return Plane(out, (n >= p.least_valid) & (sxx > 0) & np.isfinite(out))

    span = PhysicalRange(why="a slope depends on the time span") if p.output == "slope" else PhysicalRange(0, 1)
    return Planned(joined(call.inputs, kind="raster", quantity=f"{source.quantity}_trend_{p.output}"[:80],
                          unit=f"{source.unit}/year" if p.output == "slope" else "1", range=span,
                          formula=f"{p.output} of the line through {len(names)} dates of {source.formula}"), evaluate=evaluate,
                   notes=check_series_alike(call, call.inputs, is_trend=True))


register(Operator(
    name="raster.product.pixel_trend", summary="Least-squares slope a year of each pixel, its p value or R².",
    takes=Take(("raster",), 3, 400), params=PixelTrendParams, gives="raster", range="open for slopes, 0 to 1 else",
    nodata="invalid dates take no part; masked below least_valid", plan=_plan_pixel_trend))


# --- several bands ---------------------------------------------------------------------------------------------------------
class CrossMoments:
    """Means and cross products of several planes, cell by cell, so that nothing cancels and no window shows."""

    def __init__(self, n_planes: int):
        self.k = n_planes
        self.n = 0
        self._parts: list[tuple[int, NDArray[np.float64], NDArray[np.float64]]] = []
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]:
        out = []
        for at in cells(sample):
            valid = sample.valid[at]
            values = np.stack([p[at][valid] for p in sample.planes])
            n = values.shape[1]
            if n:
                mean = values.mean(axis=1)
                centred = values - mean[:, None]
                out.append((n, mean, np.array([[float((a * b).sum()) for b in centred] for a in centred])))
        return out

    def merge(self, part: list[tuple[int, NDArray[np.float64], NDArray[np.float64]]]) -> None:
        self.n += sum(n for n, _, _ in part)
        self._parts += part

    @property
    def means(self) -> NDArray[np.float64]:
        return np.array([math.fsum(n * m[i] for n, m, _ in self._parts) / self.n for i in range(self.k)])

    @property
    def covariance(self) -> NDArray[np.float64]:
        """Population covariance (k, k)."""
        mean = self.means
        return np.array([[math.fsum(x for n, m, c in self._parts for x in (c[i, j], n * (m[i] - mean[i]) * (m[j] - mean[j])))
                          / self.n for j in range(self.k)] for i in range(self.k)])


class PcaParams(Frozen):
    component: int = Field(default=1, ge=1, le=64)
    standardize: bool = Field(default=False, description="each input by its deviation (correlation matrix)")


def _plan_pca(call: Call) -> Planned:
    p: PcaParams = call.params
    same_grid(call, call.inputs)
    names, this = call.names, call.node.id
    if p.component > len(names):
        raise call.refuse(f"{len(names)} inputs have {len(names)} components.")
    for source in call.inputs:
        check_scale(call, source, "std")
    if not p.standardize and len({i.unit for i in call.inputs}) > 1:
        raise call.refuse("the inputs have different units; ask for standardize.")

    def settle(found: Sequence[Any]) -> tuple[Any, dict[str, JsonValue]]:
        m: CrossMoments = found[0]
        if m.n < len(names) + 1:
            raise call.refuse("too few pixels are valid in all inputs.", code="TOOL_FAILED")
        covariance, scale = m.covariance, np.ones(len(names))
        if p.standardize:
            scale = np.sqrt(np.diag(covariance))
            if (scale == 0).any():
                raise call.refuse("an input is constant.", code="TOOL_FAILED")
            covariance = covariance / np.outer(scale, scale)
        values, vectors = np.linalg.eigh(covariance)
        if not values.sum() > 0:
            raise call.refuse("the inputs are constant, so nothing varies.", code="TOOL_FAILED")
        order = np.argsort(values)[::-1]
        vector = vectors[:, order[p.component - 1]]
        # an eigenvector has no sign of its own: its largest part is positive
        vector = vector * np.sign(vector[np.argmax(np.abs(vector))])
        return (m.means, scale, vector), {
            "loadings": [float(v) for v in vector], "explained": [float(v) for v in values[order] / values.sum()],
            "means": [float(v) for v in m.means]}

    def evaluate(reads: Reads, window: Window) -> Plane:
        means, scale, vector = reads.state(this)
        data, valid = _stack(reads, names, window)
        return Plane(np.tensordot(vector / scale, data - means[:, None, None], axes=1),
                     np.asarray(valid.all(axis=0)))

    kind = joined(call.inputs, kind="raster", quantity=f"pc{p.component}", unit="1" if p.standardize else call.inputs[0].unit,
                  range=PhysicalRange(why="a component has no bound of its own"),
                  formula=f"component {p.component} of {len(names)} inputs")
    return Planned(kind, evaluate=evaluate, prepare=lambda: [(names, CrossMoments(len(names)))], settle=settle)


register(Operator(
    name="raster.product.pca", summary="A principal component of several rasters.", takes=Take(("raster",), 2, 64),
    params=PcaParams, gives="raster", range=PhysicalRange(why="a component has no bound of its own"),
    nodata="pixels invalid in any input take no part", plan=_plan_pca, reference="eigenvectors of the covariance matrix"))


class PansharpenParams(Frozen):
    """No parameters: Brovey."""


# Pixels of the bands by which the panchromatic band may lie beside them: from the first on it is told, from the second refused.
PAN_TOLD_PX = 0.3
PAN_MOST_PX = 1.0


def _plan_pansharpen(call: Call) -> Planned:
    *bands, pan = call.inputs
    grid: Grid = pan.grid
    if len({b.unit for b in call.inputs}) > 1:
        raise call.refuse("the bands and the panchromatic band have different units.")
    check_distinct(call, call.names, call.inputs)
    sources: list[Callable[[Reads, Window], Plane]] = [
        (lambda reads, window, n=n: reads.plane(n, window)) if grids_agree(b.grid, grid)  # type: ignore[misc]
        else resampled(call, n, b, grid, "bilinear") for n, b in zip(call.names[:-1], bands, strict=True)]
    name = call.names[-1]

    def evaluate(reads: Reads, window: Window) -> Plane:
        sharp = reads.plane(name, window)
        planes = [s(reads, window) for s in sources]
        valid = sharp.valid & np.all([p.valid for p in planes], axis=0)
        mean = np.mean([p.data for p in planes], axis=0)
        with np.errstate(all="ignore"):
            data = planes[0].data * sharp.data / mean
        return Plane(data, valid & np.isfinite(data) & (mean > 0))

    first: RasterType = bands[0]
    kind = joined(call.inputs, kind="raster", quantity=first.quantity, unit=first.unit, range=first.range,
                  formula=f"{first.formula} × pan / mean of {len(bands)} bands")
    kind = replace(kind, grid=grid, gsd_m=pan.gsd_m)
    resamples = not all(grids_agree(b.grid, grid) for b in bands)
    coarse = first.grid
    windows = windows_of_both(coarse, grid) if coarse.crs is not None and grid.crs is not None else None
    if windows is None:
        return Planned(kind, evaluate=evaluate, resamples=resamples)
    middle, fine = windows
    alike = tuple(n for n, b in zip(call.names[:-1], bands, strict=True) if grids_agree(b.grid, coarse))

    def settle(found: Sequence[Any]) -> tuple[None, dict[str, JsonValue]]:
        held, over = found
        mean, seen = mean_on_bands(over, grid, coarse, middle)
        shift, likeness = estimated_shift(held.planes.mean(axis=0), mean, held.valid & seen)
        out: dict[str, JsonValue] = {"pan_likeness": likeness}
        if shift is None:
            if likeness is not None:
                out["warning"] = ("It can't be told whether the panchromatic band lies on the bands: their edges have too little "
                                  f"in common (correlation {likeness:.2f}).")
            return None, out
        length, metres = math.hypot(*shift), shift_on_ground_m(coarse, shift)
        if length > PAN_MOST_PX:
            raise call.refuse(f"the panchromatic band lies {length:.1f} pixels of the bands ({metres:.4g} m) beside them, more "
                              f"than {PAN_MOST_PX:g}: each pixel would take the brightness of another place. Give bands of "
                              "one acquisition that lie upon each other.",
                              code="TOOL_FAILED")
        out |= {"pan_shift_px": [float(v) for v in shift], "pan_shift_length_px": length}
        if length > PAN_TOLD_PX:
            out["warning"] = (f"The panchromatic band lies {length:.2f} pixels of the bands ({metres:.4g} m) beside them: "
                              "sharpened values at edges are partly those of the neighbour.")
        return None, out

    return Planned(kind, evaluate=evaluate, resamples=resamples, settle=settle, prepare=lambda: [
        (alike, Collected(middle, len(alike))), ((name,), Collected(fine, 1))])


register(Operator(
    name="raster.product.pansharpen", summary="The first band on the panchromatic (last) one's grid, by Brovey with the others.",
    takes=Take(("raster",), 3, 12), params=PansharpenParams, gives="raster", range="of the first band",
    nodata="masked where any band is, and where the bands' mean is not positive", plan=_plan_pansharpen,
    reference="Gillespie et al. 1987, RSE 22"))
