"""Operators that make a number, a series or a table of rasters: statistics, areas, shares, series, trends."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen
from apps.core.geo.grid import longitude_spans
from apps.tools.execute.accumulators import ClassCounts, Moments, OrderStatistics, TrueArea
from apps.tools.execute.comparable import check_distinct, check_made_of_one_unit, check_series_alike, check_sum
from apps.tools.execute.indices import VEGETATION_INDICES
from apps.tools.execute.operators_products import same_grid
from apps.tools.execute.region_bounds import EdgeValues, mean_within
from apps.tools.execute.scales import (
    AreaMoments,
    PowerMean,
    Weights,
    area_notes,
    check_scale,
    has_uneven_pixels,
    scale_notes,
    weights_of,
)
from apps.tools.execute.types import (
    Accumulator,
    Call,
    NoParams,
    Operator,
    PhysicalRange,
    Planned,
    RasterType,
    Take,
    Target,
    Value,
    ValueType,
    register,
)
from apps.tools.region import RegionMask
from apps.tools.units import AREA_M2, SHARE, factor

Statistic = Literal["mean", "median", "min", "max", "std", "percentile", "sum", "count", "range", "cv", "skewness", "kurtosis",
                    "variance", "iqr"]
DAYS_A_YEAR = 365.25
# A date whose valid pixels fall below this share of the best date's is told.
UNEVEN_SHARE = 0.8
# A gap longer than this many median intervals is a hole of the series.
HOLE_FACTOR = 1.5
# Scenes that share this of their common outline show one place.
SAME_GROUND = 0.9
# Classes of a transition lie below this, on either side of 0.
_PAIR = 2**31


def finite(x: float) -> float | None:
    """The number, or None where it is none."""
    return float(x) if math.isfinite(x) else None


# --- one number ------------------------------------------------------------------------------------------------------------
class StatisticParams(Frozen):
    statistic: Statistic = "mean"
    percentile: float | None = Field(default=None, ge=0, le=100, description="for percentile")
    ddof: int = Field(default=0, ge=0, le=1, description="for std, variance and cv: 0 all pixels, 1 a sample")
    weights: Weights = Field(default="auto", description="of a mean; auto: by area where pixels differ in area by over 1 %")


def accumulators_for(p: StatisticParams, weights: str = "pixels") -> Accumulator:
    """The accumulator that a statistic needs, of pixels that count by their area or alike."""
    if p.statistic == "mean" and weights == "area":
        return AreaMoments()
    if p.statistic in ("median", "percentile", "iqr"):
        quantiles = {"median": (0.5,), "percentile": ((p.percentile or 0.0) / 100,), "iqr": (0.25, 0.75)}[p.statistic]
        return OrderStatistics(quantiles)
    order = {"std": 2, "cv": 2, "variance": 2, "skewness": 4, "kurtosis": 4}.get(p.statistic, 1)
    return Moments(order)


def statistic_of(p: StatisticParams, found: Any) -> float:
    """The figure of an accumulator; NaN where it is undefined."""
    if isinstance(found, OrderStatistics):
        if p.statistic == "iqr":
            return found.value(0.75) - found.value(0.25)
        return found.value(0.5 if p.statistic == "median" else (p.percentile or 0.0) / 100)
    m: Moments = found
    if isinstance(m, AreaMoments) and p.statistic == "mean":
        return m.mean_by_area
    if not m.n and p.statistic != "count":
        return math.nan
    if p.statistic == "cv":
        return m.std(p.ddof) / abs(m.mean) if m.mean else math.nan
    figures: dict[str, Callable[[], float]] = {
        "mean": lambda: m.mean, "min": lambda: m.low, "max": lambda: m.high, "sum": lambda: m.total, "count": lambda: m.n,
        "std": lambda: m.std(p.ddof), "variance": lambda: m.std(p.ddof) ** 2, "range": lambda: m.high - m.low,
        "skewness": lambda: m.skewness, "kurtosis": lambda: m.kurtosis}
    return float(figures[p.statistic]())


def range_of_statistic(p: StatisticParams, source: RasterType) -> PhysicalRange:
    """What the statistic of values of that range may be."""
    low, high, why = source.range.low, source.range.high, source.range.why or "grows with the number of pixels"
    if p.statistic in ("mean", "median", "min", "max", "percentile"):
        return source.range
    if p.statistic in ("std", "range", "iqr"):
        return PhysicalRange(0, high - low, why)
    if p.statistic == "variance":
        return PhysicalRange(0, (high - low) ** 2 if math.isfinite(high - low) else math.inf, why)
    if p.statistic == "count":
        return PhysicalRange(0, source.grid.width * source.grid.height)
    if p.statistic == "cv":
        return PhysicalRange(0, why="a quotient by the mean has no bound")
    if p.statistic == "kurtosis":
        return PhysicalRange(-2, why="a fourth moment has no upper bound")
    return PhysicalRange(why="a sum or third moment has no bound of its own")


def unit_of_statistic(p: StatisticParams, unit: str) -> str:
    if p.statistic in ("count", "cv", "skewness", "kurtosis"):
        return "1"
    if p.statistic == "variance":
        return "1" if unit == "1" else f"{unit}2"
    return unit


def moments_evidence(found: Any) -> dict[str, JsonValue]:
    """What lets someone else recompute the figure."""
    if isinstance(found, Moments) and found.n:
        out: dict[str, JsonValue] = {"n_valid": found.n, "sum": found.total, "min": found.low, "max": found.high,
                                     "mean": found.mean}
        if found.order > 1:
            out["m2"] = found.m2
        if isinstance(found, AreaMoments):
            out |= {"by_area": finite(found.mean_by_area), "by_pixels": found.mean}
        return out
    if isinstance(found, OrderStatistics):
        return {"n_valid": found.n, "quantiles": {f"{q:g}": finite(found.value(q)) for q in found.quantiles}}
    return {"n_valid": 0}


def _check_statistic(call: Call, p: Any, raster: RasterType) -> None:
    if p.statistic == "percentile" and p.percentile is None:
        raise call.refuse("percentile needs a number from 0 to 100.")
    if getattr(p, "weights", "auto") == "area" and p.statistic != "mean":
        raise call.refuse(f"{p.statistic} takes each pixel alike; weights by area are those of a mean.")
    check_scale(call, raster, p.statistic)
    check_sum(call, raster, p.statistic)


def beside(what: str, by_area: float, by_pixels: float, weights: str, unit: str) -> tuple[str, ...]:
    """What is told with a figure of pixels that differ in area."""
    def text(x: float) -> str:
        return f"{x:.6g}" if unit == "1" else f"{x:.3g} %" if unit == "%" else f"{x:.6g} {unit}"

    if weights == "area":
        return (f"Pixels differ in area on this grid: the {what} is by area, {text(by_area)}; with each pixel alike it is "
                f"{text(by_pixels)}."),
    return (f"Pixels differ in area on this grid, and each counts alike in this {what} of {text(by_pixels)}, as was asked; by "
            f"area it is {text(by_area)}."),


def _plan_statistic(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: StatisticParams = call.params
    _check_statistic(call, p, source)
    is_power = source.unit == "dB" and p.statistic == "mean"
    weights = weights_of(call, source, p.weights) if p.statistic == "mean" else "pixels"
    # asked to take pixels alike that are not: both figures are told
    by_both = weights == "area" or (p.statistic == "mean" and p.weights == "pixels" and has_uneven_pixels(source.grid))
    if source.kind == "classes" and p.statistic not in ("count", "min", "max"):
        raise call.refuse("a class map has no mean; ask for the area or share of a class.")

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        n = found[0].n
        if not n and p.statistic != "count":
            raise call.refuse(f"no valid pixel of {source.scene_names} is left, so there is no {p.statistic}.",
                              code="TOOL_FAILED", needs={"valid_px": True})
        value = found[0].mean if by_both and weights == "pixels" else statistic_of(p, found[0])
        if not math.isfinite(value):
            raise call.refuse(f"the {p.statistic} of {n} values is undefined (all equal, too few, or a mean of 0).",
                              code="TOOL_FAILED")
        evidence = moments_evidence(found[0])
        warnings: tuple[str, ...] = ()
        if is_power:
            evidence["mean_power_dB"] = found[1].decibels()
        if p.statistic == "mean":
            evidence["weights"] = weights
        if by_both:
            warnings = beside("mean", found[0].mean_by_area, found[0].mean, weights, source.unit)
        edges = next((a for a in found if isinstance(a, EdgeValues)), None)
        return Value(value, n, evidence, warnings=warnings, within=mean_within(
            found[0].mean, n, (found[0].low, found[0].high), edges, is_sum=p.statistic == "sum") if has_bounds and n else None)

    # where pixels count by their area nothing is worked out
    has_bounds = p.statistic in ("mean", "sum") and not by_both

    def reduce() -> list[Target]:
        made: list[Accumulator] = [accumulators_for(p, "area" if by_both else "pixels")]
        made += [PowerMean()] if is_power else []
        if has_bounds and call.region is not None:
            made.append(EdgeValues(RegionMask.of(call.region, call.region_crs, source.grid, source.scene_names)))
        return [((call.names[0],), a) for a in made]

    kind = ValueType("value", "statistic", source.quantity, unit_of_statistic(p, source.unit), range_of_statistic(p, source))
    return Planned(kind, reduce=reduce, finish=finish, notes=scale_notes(source, p.statistic) + area_notes(source, p.statistic))


register(Operator(
    name="raster.summarize.statistic", summary="One statistic over the valid pixels (of the region).",
    takes=Take(("raster", "mask", "classes")), params=StatisticParams, gives="value", range="follows from the input's range",
    nodata="invalid pixels take no part; the valid ones are counted", plan=_plan_statistic))


# --- areas and shares ------------------------------------------------------------------------------------------------------
class AreaParams(Frozen):
    unit: str = "m2"


def area_figures(grid: Any, gsd_m: float | None, found: TrueArea) -> tuple[float, dict[str, JsonValue]]:
    """(area in m², evidence) of a mask's True pixels by the grid's area method."""
    nominal, method = grid.grid_pixel_area_m2, grid.area_method
    on_grid = None if nominal is None else found.n_true * nominal
    evidence: dict[str, JsonValue] = {"grid_m2": on_grid, "geodesic_m2": found.true_m2, "pixel_area_m2": nominal,
                                      "gsd_m": gsd_m}
    if method == "pixel":
        assert gsd_m is not None
        evidence |= {"method": "gsd", "pixel_area_m2": gsd_m * gsd_m, "valid_m2": found.n_valid * gsd_m * gsd_m}
        return found.n_true * gsd_m * gsd_m, evidence
    evidence["method"] = method
    if method == "grid" and on_grid is not None and nominal is not None:
        evidence["valid_m2"] = found.n_valid * nominal
        return on_grid, evidence
    assert found.true_m2 is not None
    evidence["valid_m2"] = found.valid_m2
    return found.true_m2, evidence


def _plan_area(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: AreaParams = call.params
    scale = factor(p.unit, AREA_M2, "area")
    if source.grid.crs is None and source.gsd_m is None:
        raise call.refuse(f"{source.scene_names} has neither CRS nor GSD, so pixels have no area; say how many metres a pixel "
                          "measures.", code="NEEDS_GSD", needs={"gsd_m": True})

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        if not found[0].n_valid:
            raise call.refuse(f"no valid pixel of {source.scene_names} is left, so there is no area.", code="TOOL_FAILED",
                              needs={"valid_px": True})
        area, evidence = area_figures(source.grid, source.gsd_m, found[0])
        n_true, n_valid = found[0].n_true, found[0].n_valid
        evidence |= {"n_true": n_true, "n_px": n_true, "n_valid": n_valid, "numerator": n_true, "denominator": n_valid,
                     "area_m2": area}
        return Value(area / scale, n_valid, evidence)

    kind = ValueType("value", "area", source.quantity, p.unit, PhysicalRange(0, 5.11e14 / scale))
    return Planned(kind, reduce=lambda: [((call.names[0],), TrueArea())], finish=finish)


register(Operator(
    name="raster.summarize.area", summary="Area of a mask, on a near equal-area grid or on the ellipsoid.",
    takes=Take(("mask",)), params=AreaParams, gives="value", range=PhysicalRange(0, 5.11e14),
    nodata="invalid pixels take no part; the valid ones are counted", plan=_plan_area,
    units="m2, ha, km2, acre, sqmi, ft2", reference="Karney 2013, J. Geodesy 87, for geodesic pixel areas"))


class ShareParams(Frozen):
    unit: Literal["1", "%"] = "1"
    weights: Weights = Field(default="auto", description="auto: by area where pixels differ in area by over 1 %, else by number")


def _plan_share(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    scale = factor(call.params.unit, SHARE, "share")
    weights = weights_of(call, source, call.params.weights)
    is_uneven = weights == "area" or (call.params.weights == "pixels" and has_uneven_pixels(source.grid))

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        a: TrueArea = found[0]
        if not a.n_valid:
            raise call.refuse(f"no valid pixel of {source.scene_names} is left, so there is no share.", code="TOOL_FAILED",
                              needs={"valid_px": True})
        by_area = a.true_m2 / a.valid_m2 if a.true_m2 is not None and a.valid_m2 else None
        by_number = a.n_true / a.n_valid
        part: float = a.n_true
        whole: float = a.n_valid
        if weights == "area":
            assert a.true_m2 is not None and a.valid_m2
            part, whole = a.true_m2, a.valid_m2
        evidence: dict[str, JsonValue] = {
            "n_true": a.n_true, "n_px": a.n_true, "n_valid": a.n_valid, "numerator": part, "denominator": whole,
            "denominator_is": "area of the valid pixels in m2" if weights == "area" else "valid pixels", "weights": weights}
        warnings: tuple[str, ...] = ()
        if is_uneven and by_area is not None:
            evidence |= {"by_area": by_area / scale, "by_pixels": by_number / scale}
            warnings = beside("share", 100 * by_area, 100 * by_number, weights, "%")
        return Value(part / whole / scale, a.n_valid, evidence, warnings=warnings)

    kind = ValueType("value", "ratio", source.quantity, call.params.unit, PhysicalRange(0, 1 / scale))
    return Planned(kind, reduce=lambda: [((call.names[0],), TrueArea())], finish=finish)


register(Operator(
    name="raster.summarize.share", summary="Share of a mask of the valid area (of the region).", takes=Take(("mask",)),
    params=ShareParams, gives="value", range=PhysicalRange(0, 100), nodata="invalid pixels are neither counted nor divided by",
    plan=_plan_share))


_SHARES_BY_AREA = "Pixels differ in area on this grid: the shares are by area, those with each pixel alike stand beside them."


class ClassAreasParams(Frozen):
    unit: str = "m2"


def _plan_class_areas(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    scale = factor(call.params.unit, AREA_M2, "area")
    has_area = source.grid.crs is not None or source.gsd_m is not None
    weights = weights_of(call, source)

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        counts: ClassCounts = found[0]
        if not counts.total:
            raise call.refuse("no valid pixel is left.", code="TOOL_FAILED", needs={"valid_px": True})
        items: list[dict[str, JsonValue]] = []
        total = 0.0
        whole_m2 = math.fsum(counts.area_m2(value) or 0.0 for value in counts.n) if weights == "area" else 0.0
        for value in sorted(counts.n):
            one = TrueArea()
            one.merge((counts.n[value], counts.n[value], *(([m], [m]) if (m := counts.area_m2(value)) is not None
                                                           else (None, None))))
            area = area_figures(source.grid, source.gsd_m, one)[0] / scale if has_area else None
            total += area or 0.0
            by_pixels = counts.n[value] / counts.total
            items.append({"class": value, "name": source.class_names.get(value, ""), "n_px": counts.n[value],
                          "share": (counts.area_m2(value) or 0.0) / whole_m2 if whole_m2 else by_pixels, "area": area,
                          "unit": call.params.unit})
            if whole_m2:
                items[-1]["share_by_pixels"] = by_pixels
        return Value(total if has_area else None, counts.total, {"n_classes": len(items), "weights": weights}, tuple(items),
                     warnings=(_SHARES_BY_AREA,) if weights == "area" else ())

    return Planned(ValueType("value", "table", source.quantity, call.params.unit, PhysicalRange(0, 5.11e14 / scale)),
                   reduce=lambda: [((call.names[0],), ClassCounts(1000))], finish=finish)


register(Operator(
    name="raster.summarize.class_areas", summary="Pixels, share and area of each class of a class map.",
    takes=Take(("classes",)), params=ClassAreasParams, gives="value", range=PhysicalRange(0, 5.11e14),
    nodata="invalid pixels take no part", plan=_plan_class_areas))


class NoChangeParams(NoParams):
    """No parameters."""


def _plan_transitions(call: Call) -> Planned:
    before: RasterType = call.inputs[0]
    same_grid(call, call.inputs)
    after: RasterType = call.inputs[1]
    legends = [dict(r.class_names) for r in (before, after)]
    if before.kind == after.kind == "classes" and (before.quantity != after.quantity or legends[0] != legends[1]):
        held = [", ".join(v.values())[:120] or "no names" for v in legends]
        raise call.refuse(f"the classes are not those of one legend ({before.quantity}: {held[0]}; {after.quantity}: {held[1]}): "
                          "a code means something else in each, so another one is no change.", needs={"legend": True})
    weights = weights_of(call, before)

    class Pairs(ClassCounts):
        """Counts of (before, after) packed into one integer: 32 bits each, below 0 too."""

        def gather(self, sample: Any) -> Any:
            before, after = (np.where(sample.valid, plane, 0) for plane in sample.planes)
            for plane in (before, after):
                if plane.size and (np.abs(plane).max() >= _PAIR or (plane != np.floor(plane)).any()):
                    raise call.refuse("a class is no whole number of 32 bits.")
            packed = before.astype(np.int64) * (2 * _PAIR) + (after.astype(np.int64) + _PAIR)
            return super().gather(type(sample)(sample.window, sample.grid, packed, sample.valid))

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        counts: ClassCounts = found[0]
        if not counts.total:
            raise call.refuse("no pixel is valid on both dates.", code="TOOL_FAILED", needs={"valid_px": True})
        items: list[dict[str, JsonValue]] = []
        changed = 0
        whole_m2 = math.fsum(counts.area_m2(k) or 0.0 for k in counts.n) if weights == "area" else 0.0
        changed_m2: list[float] = []
        for k, n in sorted(counts.n.items()):
            one, other = k // (2 * _PAIR), k % (2 * _PAIR) - _PAIR
            changed += n if one != other else 0
            area_m2 = counts.area_m2(k)
            items.append({"from": one, "to": other, "n_px": n, "share": n / counts.total, "area_m2": area_m2})
            if whole_m2 and area_m2 is not None:
                items[-1] |= {"share": area_m2 / whole_m2, "share_by_pixels": n / counts.total}
                changed_m2 += [area_m2] if one != other else []
        by_pixels = changed / counts.total
        evidence: dict[str, JsonValue] = {"numerator": changed, "denominator": counts.total, "weights": weights}
        if not whole_m2:
            return Value(by_pixels, counts.total, evidence, tuple(items))
        by_area = math.fsum(changed_m2) / whole_m2
        evidence |= {"numerator": math.fsum(changed_m2), "denominator": whole_m2, "by_area": by_area, "by_pixels": by_pixels}
        return Value(by_area, counts.total, evidence, tuple(items), warnings=(_SHARES_BY_AREA,))

    return Planned(ValueType("value", "table", f"{before.quantity}_transitions", "1", PhysicalRange(0, 1)),
                   reduce=lambda: [(call.names, Pairs(1000))], finish=finish)


register(Operator(
    name="raster.summarize.transitions", summary="Transition matrix of two class maps; the value is the share that changed.",
    takes=Take(("classes", "mask"), 2, 2), params=NoParams, gives="value", range=PhysicalRange(0, 1),
    nodata="pixels invalid on either date take no part", plan=_plan_transitions))


# --- series ----------------------------------------------------------------------------------------------------------------
class SeriesParams(Frozen):
    statistic: Statistic = "mean"
    percentile: float | None = Field(default=None, ge=0, le=100)
    ddof: int = Field(default=0, ge=0, le=1)
    weights: Weights = Field(default="auto", description="of a mean; auto: by area where pixels differ in area by over 1 %")
    pick: Literal["", "min", "max"] = Field(default="", description="the date of the lowest or highest value")
    over: Literal["mean", "median", "min", "max", "sum", "std", "count_above", "mean_above"] = Field(
        default="mean", description="how dates become one value; the last two take the dates above limit")
    limit: float | None = None
    limit_is: Literal["value", "times_mean"] = Field(default="value", description="times_mean: limit × the mean over dates")


class TrendParams(Frozen):
    statistic: Statistic = "mean"
    percentile: float | None = Field(default=None, ge=0, le=100)
    ddof: int = Field(default=0, ge=0, le=1)
    weights: Weights = Field(default="auto", description="of a mean; auto: by area where pixels differ in area by over 1 %")
    method: Literal["linear", "sen"] = Field(default="linear", description="least squares, or Theil–Sen with Mann–Kendall's p")


def _series_inputs(call: Call) -> None:
    rasters: tuple[RasterType, ...] = call.inputs
    _check_statistic(call, call.params, rasters[0])
    undated = [r.scene_names for r in rasters if r.acquired_at is None]
    if undated:
        raise call.refuse(f"{', '.join(undated)} {'has' if len(undated) == 1 else 'have'} no date.", code="NEEDS_DATES",
                          needs={"dates": [s.scene_id for r in rasters if r.acquired_at is None for s in r.scenes]})
    for what in ("quantity", "unit"):
        seen = {getattr(r, what) for r in rasters}
        if len(seen) > 1:
            raise call.refuse(f"the dates differ in {what}: {', '.join(sorted(seen))}.")
    check_distinct(call, call.names, rasters)
    check_made_of_one_unit(call, rasters)


def _series_places(call: Call) -> tuple[tuple[str, str], ...]:
    """What is told where the dates are of grids of different extent and no region makes them one. ModelError where there is no
    ground that all of them show: their figures are no series."""
    import shapely

    grids = list(dict.fromkeys(r.grid for r in call.inputs))
    if call.region is not None or len(grids) < 2 or any(g.crs is None for g in grids):
        return ()
    boxes = []
    for grid in grids:
        west, south, east, north = grid.lonlat_bounds()
        boxes.append(shapely.union_all([shapely.box(w, south, e, north) for w, e in longitude_spans(west, east)]))
    shared = shapely.intersection_all(boxes)
    if shared.area <= 0:
        raise call.refuse("the dates lie at different places: there is no ground that all of them show. A series is of one "
                          "place.", code="BAD_REGION", needs={"region": True})
    if shared.area >= SAME_GROUND * shapely.union_all(boxes).area:
        return ()
    return (("warning", ("The dates do not show the same ground, and each figure is of all that its date shows; draw a region "
                         "that all of them hold.")),)


def gather_series(call: Call, found: Sequence[Any],
                  failed: Mapping[str, str]) -> tuple[list[dict[str, JsonValue]], list[str], list[dict[str, JsonValue]]]:
    """(items by date, warnings, holes) of accumulators, one a date; failed or empty dates are told and left out."""
    p = call.params
    items: list[dict[str, JsonValue]] = []
    warnings: list[str] = []
    for name, raster, accumulator in zip(call.names, call.inputs, found, strict=True):
        day = raster.acquired_at.date().isoformat()
        if accumulator is None:
            warnings.append(f"{day} ({raster.scene_names}) could not be read: {failed.get(name, 'unknown reason')}.")
            continue
        value = statistic_of(p, accumulator)
        if not math.isfinite(value):
            warnings.append(f"{day} ({raster.scene_names}) has no valid pixel and is left out.")
            continue
        items.append({"date": day, "value": value, "n_valid": accumulator.n, "scene": raster.scenes[0].scene_id, "node": name})
        if isinstance(accumulator, AreaMoments):
            items[-1] |= {"weights": "area", "by_pixels": accumulator.mean}
    if any("weights" in i for i in items):
        warnings.append("Pixels differ in area on this grid: the mean of each date is by area.")
    items.sort(key=lambda i: (str(i["date"]), str(i["scene"])))
    best = max((int(str(i["n_valid"])) for i in items), default=0)
    uneven = [str(i["date"]) for i in items if int(str(i["n_valid"])) < UNEVEN_SHARE * best]
    if uneven:
        warnings.append(f"Fewer valid pixels than on the best date (below {UNEVEN_SHARE:.0%}): {', '.join(uneven)}.")
    days = [datetime.fromisoformat(str(i["date"])) for i in items]
    gaps = [(b - a).days for a, b in pairwise(days)]
    holes: list[dict[str, JsonValue]] = []
    if len(gaps) >= 3:
        usual = float(np.median(gaps))
        holes = [{"from": days[i].date().isoformat(), "to": days[i + 1].date().isoformat(), "days": g}
                 for i, g in enumerate(gaps) if usual > 0 and g > HOLE_FACTOR * usual]
        if holes:
            warnings.append(f"The series has {len(holes)} hole{'s' if len(holes) > 1 else ''} (more than {HOLE_FACTOR:g} × the "
                            f"usual {usual:g} days): " + ", ".join(f"{h['from']} to {h['to']}" for h in holes) + ".")
    if len(set(days)) < len(days):
        warnings.append("Several scenes share a date; each counts on its own.")
    return items, warnings, holes


def _plan_series(call: Call) -> Planned:
    _series_inputs(call)
    p: SeriesParams = call.params
    source: RasterType = call.inputs[0]

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        items, warnings, holes = gather_series(call, found, failed)
        if not items:
            raise call.refuse("no date has a valid pixel.", code="TOOL_FAILED", needs={"valid_px": True})
        values = np.array([i["value"] for i in items], dtype=np.float64)
        n_valid = sum(int(str(i["n_valid"])) for i in items)
        evidence: dict[str, JsonValue] = {"n_dates": len(items), "n_asked": len(call.inputs), "holes": list(holes),
                                          "over": p.over, "statistic": p.statistic}
        if p.pick:
            at = int(np.argmin(values) if p.pick == "min" else np.argmax(values))
            if p.pick == "min" and source.quantity in VEGETATION_INDICES and not source.quality:
                warnings.append("No cloud or quality mask was applied: clouds may explain the lowest value of a vegetation "
                                "index.")
            ties = int((values == values[at]).sum())
            if ties > 1:
                warnings.append(f"{ties} dates share that value; the first is named.")
            evidence |= {"pick": p.pick, "picked_value": float(values[at]), "picked_scene": items[at]["scene"]}
            return Value(str(items[at]["date"]), n_valid, evidence, tuple(items), warnings=tuple(warnings))
        if p.over in ("count_above", "mean_above"):
            limit = (p.limit or 0.0) * (float(values.mean()) if p.limit_is == "times_mean" else 1.0)
            above = values[values > limit]
            evidence |= {"limit": limit, "n_above": len(above)}
            if p.over == "mean_above" and not len(above):
                raise call.refuse(f"no date lies above {limit:g}.", code="TOOL_FAILED")
            figure = float(len(above)) if p.over == "count_above" else math.fsum(above) / len(above)
            return Value(figure, n_valid, evidence, tuple(items), warnings=tuple(warnings))
        over: Any = {"mean": np.mean, "median": np.median, "min": np.min, "max": np.max, "sum": np.sum, "std": np.std}[p.over]
        value = math.fsum(values) / len(values) if p.over == "mean" else float(over(values))
        return Value(value, n_valid, evidence, tuple(items), warnings=tuple(warnings))

    span = range_of_statistic(StatisticParams(statistic=p.statistic, percentile=p.percentile), source)
    if p.over == "sum":
        check_scale(call, source, "sum")
    if p.over in ("count_above", "mean_above") and p.limit is None:
        raise call.refuse(f"{p.over} needs a limit.")
    if p.limit is not None and p.limit_is == "value" and not span.low <= p.limit <= span.high:
        raise call.refuse(f"{source.quantity} lies in [{span.low:g}, {span.high:g}]"
                          f"{' ' + source.unit if source.unit not in ('', '1') else ''}; the limit {p.limit:g} is outside it.")
    if p.over == "count_above":
        span = PhysicalRange(0, len(call.inputs))
    elif p.over in ("sum", "std"):
        span = PhysicalRange(why="a sum or deviation over dates")
    unit = unit_of_statistic(StatisticParams(statistic=p.statistic, percentile=p.percentile), source.unit)
    unit = "1" if p.pick or p.over == "count_above" else unit
    kind = ValueType("value", "date" if p.pick else "series", source.quantity, unit, span)
    return Planned(kind, reduce=lambda: _per_date(call), finish=finish,
                   notes=(*scale_notes(source, p.statistic), *area_notes(source, p.statistic), *_series_places(call),
                          *check_series_alike(call, call.inputs, is_trend=False)))


def _per_date(call: Call) -> list[Target]:
    p = StatisticParams(statistic=call.params.statistic, percentile=call.params.percentile, ddof=call.params.ddof)
    return [((name,), accumulators_for(p, weights_of(call, raster, call.params.weights) if p.statistic == "mean" else "pixels"))
            for name, raster in zip(call.names, call.inputs, strict=True)]


register(Operator(
    name="raster.summarize.series", summary="A statistic for each date, the mean over dates, or the date of the extreme.",
    takes=Take(("raster", "mask"), 1, 400), params=SeriesParams, gives="value", range="follows from the inputs' range",
    nodata="invalid pixels take no part; dates without valid pixels are named and left out", plan=_plan_series))


def mann_kendall(values: np.ndarray[Any, Any]) -> tuple[float, float, float]:
    """(S, z, two-sided p) of the Mann–Kendall test with correction for ties (Kendall 1975), by pymannkendall; p is 1 where all
    values are equal."""
    import pymannkendall

    found = pymannkendall.original_test(values)
    if not math.isfinite(found.p):
        return float(found.s), 0.0, 1.0
    return float(found.s), float(found.z), float(found.p)


def _plan_trend(call: Call) -> Planned:
    _series_inputs(call)
    p: TrendParams = call.params
    source: RasterType = call.inputs[0]

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        # half a second of imports that a mean does not need
        from scipy import stats

        items, warnings, holes = gather_series(call, found, failed)
        days = [datetime.fromisoformat(str(i["date"])) for i in items]
        if len(set(days)) < 3:
            raise call.refuse(f"a trend needs at least three dates with valid pixels; there are {len(set(days))}.",
                              code="NEEDS_DATES", needs={"dates": 3})
        x = np.array([(d - days[0]).days / DAYS_A_YEAR for d in days])
        y = np.array([i["value"] for i in items], dtype=np.float64)
        evidence: dict[str, JsonValue] = {"n_dates": len(items), "n_asked": len(call.inputs), "holes": list(holes),
                                          "method": p.method, "statistic": p.statistic, "origin": items[0]["date"]}
        if p.method == "linear":
            fit = stats.linregress(x, y)
            if np.ptp(y) > 0:
                half = float(stats.t.ppf(0.975, len(x) - 2) * fit.stderr)
                p_value, r2 = float(fit.pvalue), finite(float(fit.rvalue) ** 2)
            else:  # a line without scatter has no test; scipy gives NaN
                half, p_value, r2 = 0.0, 1.0, 0.0
            slope, interval = float(fit.slope), (float(fit.slope) - half, float(fit.slope) + half)
            evidence |= {"p_value": finite(p_value), "intercept": float(fit.intercept), "r2": r2,
                         "stderr": finite(float(fit.stderr)) if half else 0.0}
        else:
            fit = stats.theilslopes(y, x, 0.95)
            s, z, p_value = mann_kendall(y)
            slope, interval = float(fit[0]), (float(fit[2]), float(fit[3]))
            evidence |= {"p_value": p_value, "intercept": float(fit[1]), "mann_kendall_s": s, "mann_kendall_z": z}
        if (x[-1] - x[0]) < 2:
            warnings.append(f"The series spans {x[-1] - x[0]:.2f} years: the slope may be a season, not a trend.")
        if not p_value < 0.05:
            warnings.append(f"The trend is not significant (p = {p_value:.3f}).")
        return Value(slope, sum(int(str(i["n_valid"])) for i in items), evidence, tuple(items), interval, 0.95,
                     warnings=tuple(warnings))

    kind = ValueType("value", "trend", source.quantity, f"{source.unit}/year",
                     PhysicalRange(why="a slope depends on the time span"))
    return Planned(kind, reduce=lambda: _per_date(call), finish=finish,
                   notes=(*area_notes(source, p.statistic), *_series_places(call),
                          *check_series_alike(call, call.inputs, is_trend=True)))


register(Operator(
    name="raster.summarize.trend", summary="Slope of a statistic over dates, with its 95 % interval and p value.",
    takes=Take(("raster", "mask"), 3, 400), params=TrendParams, gives="value",
    range=PhysicalRange(why="a slope depends on the time span"),
    nodata="invalid pixels take no part; dates without valid pixels are named and left out", plan=_plan_trend,
    reference="least squares; Sen 1968, JASA 63; Kendall 1975"))
