"""Operators that end in tables and values: zones, histograms, agreement of two rasters, centroids, analyses of a series, and
arithmetic of values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, JsonValue

from apps.core.errors import ModelError
from apps.core.evidence.observation import Frozen, JsonMap
from apps.core.geo.grid import geod_of, transformer
from apps.core.geo.vector import chosen_by, limits_of_part
from apps.tools.execute.accumulators import CellFigures, Histogram, Moments, TrueArea, cell_moments, cells, moments_of
from apps.tools.execute.comparable import check_made_of_one_unit, check_series_alike
from apps.tools.execute.equations import check_solvable, real_solutions, residual
from apps.tools.execute.formula import parse
from apps.tools.execute.operators_products import same_grid
from apps.tools.execute.operators_spatial import CrossMoments
from apps.tools.execute.operators_summaries import (
    Statistic,
    StatisticParams,
    _check_statistic,
    _per_date,
    _series_inputs,
    _series_places,
    accumulators_for,
    area_figures,
    finite,
    gather_series,
    mann_kendall,
    range_of_statistic,
    statistic_of,
    unit_of_statistic,
)
from apps.tools.execute.scales import AreaMoments, Weights, area_notes, check_formula, check_scale, scale_notes, weights_of
from apps.tools.execute.types import (
    Call,
    NoParams,
    Operator,
    PhysicalRange,
    Plane,
    Planned,
    RasterType,
    Sample,
    Take,
    Value,
    ValueType,
    ZonesType,
    register,
)
from apps.tools.geojson import crs_of, geometries_of, on_the_globe, vector_of
from apps.tools.region import RegionMask, to_pixels
from apps.tools.units import AREA_M2, factor

MAX_ZONES = 1000
# A zone of which less than this share lies on the raster is told: its figure is not that of all of it.
WHOLE = 0.995


# How zones that are grouped by an attribute call those that have no value of it.
NO_NAME = "(no value)"


# --- zones -----------------------------------------------------------------------------------------------------------------
class ZonesParams(Frozen):
    geojson: JsonMap | None = None
    vector: str = Field(default="", max_length=80, description="digest of a vector file of the project, instead of geojson")
    crs: str = Field(default="EPSG:4326", description="of geojson; a vector file has its own")
    name: str = Field(default="name", description="property that names a zone")
    buffer_m: float = Field(default=0, ge=-100_000, le=100_000, description="grown (or shrunk) by so many metres")
    only: tuple[str, ...] = Field(default=(), max_length=MAX_ZONES, description="zones of these names alone")
    part_field: str = Field(default="", max_length=255, description="attribute of which part_values are chosen, before all else")
    part_values: tuple[str, ...] = Field(default=(), max_length=100, description="features with one of these values, as text")
    part_min: FiniteFloat | str | None = Field(
        default=None, description="instead of part_values: a number, or a day as YYYY-MM-DD, from which on the values are chosen"
    )
    part_max: FiniteFloat | str | None = Field(default=None, description="and up to which")
    part_open: Literal["", "min", "max", "both"] = Field(default="", description="which of part_min and part_max are left out")
    dissolve: bool = Field(default=False, description="all of them as one zone; where they overlap a pixel counts once")
    skip_others: bool = Field(default=False, description="points and lines among polygons are left out instead of refused")
    group: bool = Field(default=False, description="polygons of one name are one zone")
    outside: bool = Field(default=False, description="one zone: what of the raster lies in none of the polygons")


def _plan_zones(call: Call) -> Planned:
    p: ZonesParams = call.params
    crs = p.crs
    if (p.geojson is None) == (not p.vector):
        raise call.refuse("give zones as geojson or as a vector file, and not both.", code="BAD_REGION")
    if p.geojson is not None:
        shapes, properties = geometries_of(p.geojson)
        crs = crs_of(p.geojson, p.crs)
        on_the_globe(shapes, crs, "The zones")
    else:
        if call.layers is None:
            raise call.refuse("no vector file is at hand.", code="NOT_FOUND")
        shapes, properties, crs = vector_of(call.layers, p.vector)
    chosen = [(i, g, v) for i, (g, v) in enumerate(zip(shapes, properties, strict=True), 1)]
    if p.part_field:
        is_chosen = chosen_by(p.part_field, p.part_values, limits_of_part(p.part_min, p.part_max, p.part_open))
        chosen = [(i, g, v) for i, g, v in chosen if is_chosen(v)]
        if not chosen:
            raise call.refuse(f"no zone has such a value of {p.part_field}.", code="BAD_REGION")
    if p.only:
        lacking = [name for name in p.only if name not in {str(v.get(p.name, f"zone {i}"))[:120] for i, _, v in chosen}]
        if lacking:
            raise call.refuse(f"no zone is called {', '.join(lacking[:5])}.", code="BAD_REGION")
        chosen = [(i, g, v) for i, g, v in chosen if str(v.get(p.name, f"zone {i}"))[:120] in p.only]
    if p.skip_others:
        chosen = [(i, g, v) for i, g, v in chosen if g.geom_type in ("Polygon", "MultiPolygon", "GeometryCollection")]
        if not chosen:
            raise call.refuse("none of the features is a polygon.", code="BAD_REGION")
    if len(chosen) > MAX_ZONES and not p.dissolve and not p.outside:
        raise call.refuse(f"{len(chosen)} zones are more than {MAX_ZONES}.", code="TOO_LARGE")
    zones = []
    for i, geometry, values in chosen:
        if geometry.geom_type == "GeometryCollection":  # a mended polygon may leave lines of no area
            geometry = shapely.union_all([g for g in geometry.geoms if g.geom_type in ("Polygon", "MultiPolygon")])
        if p.buffer_m:
            geometry = buffered(geometry, crs, p.buffer_m) if crs != "image" else geometry.buffer(p.buffer_m)
        if geometry.is_empty or geometry.geom_type not in ("Polygon", "MultiPolygon"):
            raise call.refuse(f"zone {i} is {'empty' if geometry.is_empty else 'a ' + geometry.geom_type}, not a polygon; points "
                              "and lines need buffer_m.", code="BAD_REGION")
        name = str(values.get(p.name, f"zone {i}"))[:120]
        zones.append((NO_NAME if p.group and values.get(p.name) in (None, "") else name, geometry))
    if p.outside:
        name = f"outside of {len(zones)} polygons" if len(zones) > 1 else f"outside of {zones[0][0]}"
        return Planned(ZonesType("zones", ((name, shapely.union_all([g for _, g in zones])),), crs, is_outside=True))
    if p.group:
        named: dict[str, list[Any]] = {}
        for name, geometry in zones:
            named.setdefault(name, []).append(geometry)
        zones = [(name, shapely.union_all(held)) for name, held in named.items()]
    if p.dissolve:
        name = zones[0][0] if len(zones) == 1 else f"{len(zones)} zones together"
        zones = [(name, shapely.union_all([g for _, g in zones]))]
    return Planned(ZonesType("zones", tuple(zones), crs))


def buffered(geometry: Any, crs: str, metres: float) -> Any:
    """A buffer in metres, made in an azimuthal-equidistant plane about the geometry."""
    there = transformer(crs, "EPSG:4326")
    lon, lat = there.transform(geometry.centroid.x, geometry.centroid.y)
    plane = f"+proj=aeqd +lat_0={lat:.8f} +lon_0={lon:.8f} +datum=WGS84 +units=m"
    out, back = transformer(crs, plane), transformer(plane, crs)
    flat = shapely.transform(geometry, lambda p: np.stack(out.transform(p[:, 0], p[:, 1]), axis=1))
    return shapely.transform(flat.buffer(metres, quad_segs=32), lambda p: np.stack(back.transform(p[:, 0], p[:, 1]), axis=1))


register(Operator(
    name="vector.zones", summary="Polygons of a GeoJSON value or a vector file, perhaps buffered, as zones.",
    takes=Take((), 0, 0), params=ZonesParams, gives="zones", range="not a raster", nodata="not applicable", plan=_plan_zones))


class Zonal:
    """One accumulator a zone, fed with the pixels whose centre lies in it."""

    def __init__(self, masks: Sequence[RegionMask | None], make: Any):
        self.masks = masks
        self.parts: list[Any] = [make() for _ in masks]
        self.takes_held: bool = getattr(self.parts[0], "takes_held", False)
        self._active: list[bool] = []

    def wants_pass(self) -> bool:
        self._active = [m is not None and a.wants_pass() for m, a in zip(self.masks, self.parts, strict=True)]
        return any(self._active)

    def gather(self, sample: Sample) -> list[tuple[int, Any]]:
        out = []
        for i, (mask, accumulator) in enumerate(zip(self.masks, self.parts, strict=True)):
            if mask is not None and self._active[i] and mask.touches(sample.window):
                inside = mask.mask(sample.window)
                if isinstance(accumulator, Moments) and not isinstance(accumulator, AreaMoments):
                    out.append((i, _zone_moments(sample, inside, accumulator.order)))
                else:
                    valid = sample.valid & inside
                    out.append((i, accumulator.gather(Sample(sample.window, sample.grid, sample.data, valid, sample.planes))))
        return out

    def merge(self, part: list[tuple[int, Any]]) -> None:
        for i, p in part:
            self.parts[i].merge(p)


def _zone_moments(sample: Sample, inside: NDArray[np.bool_], order: int) -> list[CellFigures]:
    """Figures of the sample's cells in a zone. A cell that lies in it whole is computed once for all who ask."""
    out = []
    for at in cells(sample):
        mine = inside[at]
        if mine.all():
            found = moments_of(sample, at, order)
        elif mine.any():
            found = cell_moments(sample.data[at][sample.valid[at] & mine], order)
        else:
            continue
        if found is not None:
            out.append(found)
    return out


def _moments(found: Any) -> dict[str, JsonValue]:
    """What one pass tells of a zone beside the statistic that was asked for."""
    if not isinstance(found, Moments) or not found.n:
        return {}
    if isinstance(found, AreaMoments):
        return {"min": found.low, "max": found.high, "mean": finite(found.mean_by_area), "by_pixels": found.mean}
    more: dict[str, JsonValue] = {"min": found.low, "max": found.high, "mean": found.mean}
    return more | {"std": finite(found.std())} if found.order > 1 else more


class ZonalParams(Frozen):
    statistic: Statistic | Literal["area", "share"] = "mean"
    percentile: float | None = Field(default=None, ge=0, le=100)
    ddof: int = Field(default=0, ge=0, le=1)
    unit: str = Field(default="m2", description="for area")
    weights: Weights = Field(default="auto", description="of means and shares; auto: by area where pixels differ by over 1 %")
    pick: Literal["", "min", "max"] = Field(default="", description="the name of the zone with the extreme")


def _plan_zonal(call: Call) -> Planned:
    raster, zones = call.inputs
    if not isinstance(raster, RasterType) or not isinstance(zones, ZonesType):
        raise call.refuse("the first input is a raster, the second zones.")
    p: ZonalParams = call.params
    by_mask = p.statistic in ("area", "share")
    if by_mask and raster.kind != "mask":
        raise call.refuse(f"{p.statistic} by zones is that of a mask.")
    scale = factor(p.unit, AREA_M2, "area") if p.statistic == "area" else 1.0
    if p.statistic == "area" and raster.grid.crs is None and raster.gsd_m is None:
        raise call.refuse("neither CRS nor GSD is known, so pixels have no area.", code="NEEDS_GSD", needs={"gsd_m": True})
    s = StatisticParams(statistic="mean" if by_mask else p.statistic, percentile=p.percentile, ddof=p.ddof, weights=p.weights)  # type: ignore[arg-type]
    _check_statistic(call, s, raster)
    masks: list[RegionMask | None] = []
    outside: list[str] = []
    covered: list[float] = []
    on_frame: list[Any] = []
    frame = shapely.box(0, 0, raster.grid.width, raster.grid.height)
    for name, geometry in zones.zones:
        placed = to_pixels(geometry, zones.crs, raster.grid)
        if zones.is_outside:
            placed = shapely.difference(frame, placed)
            if placed.is_empty:
                raise call.refuse("the polygons cover the whole raster: nothing lies outside of them.", code="BAD_REGION")
        on_frame.append(shapely.intersection(placed, frame))
        covered.append(float(on_frame[-1].area / placed.area) if placed.area > 0 else 0.0)
        try:
            masks.append(RegionMask(placed, raster.grid, raster.scene_names))
        except ModelError as error:
            if error.code != "BAD_REGION":
                raise
            masks.append(None)
            outside.append(name)
    shared_px = sum(float(g.area) for g in on_frame) - float(shapely.union_all(on_frame).area) if len(on_frame) > 1 else 0.0
    if not any(m is not None for m in masks):
        raise call.refuse(f"no zone touches {raster.scene_names}.", code="BAD_REGION", needs={"region": True})

    weights = "pixels"
    if p.statistic in ("mean", "share"):
        weights = weights_of(call, raster, p.weights, [m.bounds_px for m in masks if m is not None])

    def figure(accumulator: Any) -> tuple[float, int]:
        if isinstance(accumulator, TrueArea):
            if p.statistic == "area":
                return area_figures(raster.grid, raster.gsd_m, accumulator)[0] / scale, accumulator.n_valid
            if weights == "area" and accumulator.valid_m2 and accumulator.true_m2 is not None:
                return accumulator.true_m2 / accumulator.valid_m2, accumulator.n_valid
            return (accumulator.n_true / accumulator.n_valid if accumulator.n_valid else math.nan), accumulator.n_valid
        return statistic_of(s, accumulator), accumulator.n

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        zonal: Zonal = found[0]
        items: list[dict[str, JsonValue]] = []
        for (name, _), mask, share, accumulator in zip(zones.zones, masks, covered, zonal.parts, strict=True):
            found_value, n = figure(accumulator) if mask is not None else (math.nan, 0)
            items.append({"zone": name, "value": finite(found_value), "n_valid": n, "n_px": mask.n_px if mask is not None else 0,
                          "on_raster": share} | _moments(accumulator))
            if p.statistic == "share" and weights == "area" and accumulator.n_valid:
                items[-1]["by_pixels"] = accumulator.n_true / accumulator.n_valid
        known = [i for i in items if i["value"] is not None]
        if not known:
            raise call.refuse("no zone holds a valid pixel.", code="TOOL_FAILED", needs={"valid_px": True})
        warnings = []
        if outside:
            more = f" and {len(outside) - 12} more" if len(outside) > 12 else ""
            warnings.append(f"Zones that hold no pixel of the raster: {', '.join(outside[:12])}{more}.")
        names = [str(i["zone"]) for i in items]
        alike = [n for n in dict.fromkeys(names) if names.count(n) > 1]
        if alike:
            more = ", …" if len(alike) > 5 else ""
            warnings.append(f"Several zones are called {', '.join(alike[:5])}{more}, and each has a row; vector.zones with group "
                            "makes one zone of them.")
        cut = [(str(i["zone"]), float(str(i["on_raster"]))) for i in known if float(str(i["on_raster"])) < WHOLE]
        if cut:
            told = ", ".join(f"{name} ({100 * share:.0f} % of it)" for name, share in cut[:12])
            warnings.append(f"Only a part of these zones lies on the raster, and the figure is that part's: {told}.")
        empty = [str(i["zone"]) for i in items if i["value"] is None and i["zone"] not in outside]
        if empty:
            warnings.append(f"Zones without a valid pixel: {', '.join(empty[:20])}.")
        if shared_px >= 1:
            warnings.append(f"Zones overlap: about {shared_px:,.0f} pixels lie in more than one and stand in the figure of each.")
        n_valid = sum(int(str(i["n_valid"])) for i in items)
        evidence: dict[str, JsonValue] = {"n_zones": len(items), "n_known": len(known), "statistic": p.statistic,
                                          "shared_px": max(0.0, shared_px)}
        if p.statistic in ("mean", "share"):
            evidence["weights"] = weights
        if weights == "area":
            warnings.append(f"Pixels differ in area on this grid: the {p.statistic} of each zone is by area; that with each "
                            "pixel alike stands beside it.")
            if len(items) == 1 and not p.pick:
                evidence |= {"by_area": known[0]["value"], "by_pixels": known[0]["by_pixels"]}
        if p.pick:
            best = (min if p.pick == "min" else max)(known, key=lambda i: float(str(i["value"])))
            evidence |= {"pick": p.pick, "picked_value": best["value"]}
            return Value(str(best["zone"]), n_valid, evidence, tuple(items), warnings=tuple(warnings))
        single = known[0]["value"] if len(items) == 1 else None
        value = float(str(single)) if single is not None else None
        return Value(value, n_valid, evidence, tuple(items), warnings=tuple(warnings))

    unit = p.unit if p.statistic == "area" else "1" if p.statistic == "share" else unit_of_statistic(s, raster.unit)
    span = PhysicalRange(0, 5.11e14 / scale) if p.statistic == "area" else range_of_statistic(s, raster)
    kind = ValueType("value", "class" if p.pick else "table", raster.quantity, "1" if p.pick else unit, span)

    def reduce() -> list[Any]:
        return [((call.names[0],), Zonal(masks, TrueArea if by_mask else lambda: accumulators_for(s, weights)))]

    notes = area_notes(raster, p.statistic) + (() if by_mask else scale_notes(raster, s.statistic))
    return Planned(kind, reduce=reduce, finish=finish, notes=notes)


register(Operator(
    name="raster.summarize.zonal", summary="A statistic, area or share for each zone.", takes=Take(
        ("raster", "mask", "zones"), 2, 2), params=ZonalParams, gives="value", range="follows from the input's range",
    nodata="invalid pixels take no part; zones without pixels are named", plan=_plan_zonal))


# --- distributions and agreement -------------------------------------------------------------------------------------------
class HistogramParams(Frozen):
    bins: int = Field(default=50, ge=2, le=500)
    low: float | None = None
    high: float | None = None


def _plan_histogram(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: HistogramParams = call.params
    if (p.low is None) != (p.high is None) or (p.low is not None and p.high is not None and p.low >= p.high):
        raise call.refuse("give both ends of the histogram, rising, or none.")

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        h: Histogram = found[0]
        n = int(h.counts.sum())
        if not n:
            raise call.refuse("no valid pixel lies in the histogram.", code="TOOL_FAILED", needs={"valid_px": True})
        with np.errstate(over="ignore"):
            widths = np.diff(h.edges)
        if not np.isfinite(widths).all() or (widths <= 0).any():
            raise call.refuse("the values lie too close together, or too far apart, for a histogram of them.", code="TOOL_FAILED")
        items: list[dict[str, JsonValue]] = [
            {"low": float(h.edges[i]), "high": float(h.edges[i + 1]), "n": int(c)} for i, c in enumerate(h.counts)]
        mode = int(np.argmax(h.counts))
        return Value(float(h.edges[mode] / 2 + h.edges[mode + 1] / 2), n, {"bins": p.bins}, tuple(items))

    return Planned(ValueType("value", "table", source.quantity, source.unit, source.range),
                   reduce=lambda: [((call.names[0],), Histogram(p.bins, p.low, p.high))], finish=finish)


register(Operator(
    name="raster.summarize.histogram", summary="Counts in equal bins; the value is the middle of the fullest.",
    takes=Take(("raster",)), params=HistogramParams, gives="value", range="of the input",
    nodata="invalid pixels take no part", plan=_plan_histogram))


class AgreementParams(Frozen):
    measure: Literal["correlation", "rmse", "mae", "bias", "iou", "f1", "slope"] = "correlation"


class Differences(CrossMoments):
    """Cross moments of two planes, and the sums of their absolute and squared differences."""

    def __init__(self) -> None:
        super().__init__(2)
        self._sums: list[tuple[float, float]] = []

    def gather(self, sample: Sample) -> Any:
        sums = []
        for at in cells(sample):
            d = (sample.planes[1][at] - sample.planes[0][at])[sample.valid[at]]
            sums.append((float(np.abs(d).sum()), float((d * d).sum())))
        return super().gather(sample), sums

    def merge(self, part: Any) -> None:
        super().merge(part[0])
        self._sums += part[1]

    @property
    def mae(self) -> float:
        return math.fsum(a for a, _ in self._sums) / self.n

    @property
    def rmse(self) -> float:
        return math.sqrt(math.fsum(b for _, b in self._sums) / self.n)


def _plan_agreement(call: Call) -> Planned:
    one, other = call.inputs
    same_grid(call, call.inputs)
    p: AgreementParams = call.params
    masks = p.measure in ("iou", "f1")
    if masks and not (one.kind == other.kind == "mask"):
        raise call.refuse(f"{p.measure} compares two masks.")
    if p.measure in ("rmse", "mae", "bias") and one.unit != other.unit:
        raise call.refuse(f"the inputs have different units ({one.unit} and {other.unit}).")
    for raster in call.inputs:
        check_scale(call, raster, p.measure)
    check_made_of_one_unit(call, call.inputs if one.quantity == other.quantity else call.inputs[:1])
    notes: tuple[tuple[str, str], ...] = ()
    if one.quantity != other.quantity and p.measure in ("rmse", "mae", "bias"):
        told = (f"{one.quantity} and {other.quantity} are different quantities: their {p.measure} says how far the numbers lie "
                "apart, not which is wrong.")
        notes = (("warning", told),)

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        m: Differences = found[0]
        if m.n < 2:
            raise call.refuse("fewer than two pixels are valid in both.", code="TOOL_FAILED", needs={"valid_px": True})
        means, c = m.means, m.covariance
        evidence: dict[str, JsonValue] = {"n_valid": m.n, "means": [float(v) for v in means], "rmse": m.rmse, "mae": m.mae,
                                          "bias": float(means[1] - means[0])}
        if masks:
            both = round(float((c[0, 1] + means[0] * means[1]) * m.n))
            first, second = round(float(means[0] * m.n)), round(float(means[1] * m.n))
            evidence |= {"both": both, "first": first, "second": second}
            below = first + second - both if p.measure == "iou" else first + second
            if not below:
                raise call.refuse("both masks are empty.", code="TOOL_FAILED")
            evidence |= {"numerator": both if p.measure == "iou" else 2 * both, "denominator": below}
            return Value((both if p.measure == "iou" else 2 * both) / below, m.n, evidence)
        if p.measure in ("correlation", "slope"):
            if c[0, 0] <= 0 or c[1, 1] <= 0:
                raise call.refuse("an input is constant.", code="TOOL_FAILED")
            value = c[0, 1] / math.sqrt(c[0, 0] * c[1, 1]) if p.measure == "correlation" else c[0, 1] / c[0, 0]
            evidence |= {"slope": float(c[0, 1] / c[0, 0]), "intercept": float(means[1] - c[0, 1] / c[0, 0] * means[0])}
            return Value(float(value), m.n, evidence)
        return Value({"rmse": m.rmse, "mae": m.mae, "bias": float(means[1] - means[0])}[p.measure], m.n, evidence)

    span = {"correlation": PhysicalRange(-1, 1), "iou": PhysicalRange(0, 1), "f1": PhysicalRange(0, 1)}.get(
        p.measure, PhysicalRange(why="grows with the inputs"))
    unit = one.unit if p.measure in ("rmse", "mae", "bias") else "1"
    return Planned(ValueType("value", "statistic", f"{p.measure}_{one.quantity}"[:80], unit, span),
                   reduce=lambda: [(call.names, Differences())], finish=finish, notes=notes)


register(Operator(
    name="raster.summarize.agreement", summary="Correlation, RMSE, MAE, bias or slope of two rasters; IoU or F1 of two masks.",
    takes=Take(("raster", "mask"), 2, 2), params=AgreementParams, gives="value", range="declared by each measure",
    nodata="pixels invalid in either take no part", plan=_plan_agreement))


class PlaceSums:
    """Sums of pixel positions of a mask, or weighted by a raster."""

    def __init__(self, weighted: bool):
        self.weighted = weighted
        self.n = self.n_valid = 0
        self._parts: list[tuple[float, float, float]] = []
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> list[tuple[int, int, float, float, float]]:
        c, r, _, _ = sample.window
        out = []
        for at in cells(sample):
            data = sample.data[at]
            weight = np.where(sample.valid[at], data if self.weighted else data != 0, 0.0)
            cols, rows = np.arange(at[1].start, at[1].stop) + c + 0.5, np.arange(at[0].start, at[0].stop) + r + 0.5
            out.append((int(np.count_nonzero(sample.valid[at])), int(np.count_nonzero(weight)), float(weight.sum()),
                        float((weight.sum(axis=0) * cols).sum()), float((weight.sum(axis=1) * rows).sum())))
        return out

    def merge(self, part: list[tuple[int, int, float, float, float]]) -> None:
        self.n_valid += sum(p[0] for p in part)
        self.n += sum(p[1] for p in part)
        self._parts += [p[2:] for p in part]

    @property
    def centre(self) -> tuple[float, float]:
        total = math.fsum(p[0] for p in self._parts)
        return math.fsum(p[1] for p in self._parts) / total, math.fsum(p[2] for p in self._parts) / total


_WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")


def _plan_centroid(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    grid = source.grid

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        sums: PlaceSums = found[0]
        if not sums.n:
            raise call.refuse("the mask is empty, so it has no centre.", code="TOOL_FAILED")
        col, row = sums.centre
        evidence: dict[str, JsonValue] = {"centre_px": [col, row], "n_px": sums.n}
        if grid.crs is None:
            # a picture without CRS has no north: the place is told in its pixels
            return Value(f"column {col:.1f}, row {row:.1f}", sums.n_valid, evidence, ({"column": col, "row": row},))
        t = transformer(grid.crs, "EPSG:4326")
        lon, lat = t.transform(*grid.xy(col, row))
        middle = t.transform(*grid.xy(grid.width / 2, grid.height / 2))
        bearing, _, metres = geod_of("EPSG:4326").inv(*middle, lon, lat)
        bearing = float(bearing) % 360
        evidence |= {"lonlat": [float(lon), float(lat)], "from_middle_m": float(metres), "bearing_degree": bearing}
        wind = _WINDS[round(bearing / 45) % 8] if metres > 0 else "in the middle"
        item: dict[str, JsonValue] = {"longitude": float(lon), "latitude": float(lat), "column": col, "row": row,
                                      "direction": wind, "distance_m": float(metres)}
        return Value(wind, sums.n_valid, evidence, (item,))

    return Planned(ValueType("value", "class", f"direction of {source.quantity}"[:100], "1", PhysicalRange(-180, 180)),
                   reduce=lambda: [((call.names[0],), PlaceSums(source.kind == "raster"))], finish=finish)


register(Operator(
    name="raster.summarize.centroid", summary="Centre of a mask and the direction in which it lies from the image's middle.",
    takes=Take(("mask",)), params=NoParams, gives="value",
    range=PhysicalRange(-180, 180), nodata="invalid pixels take no part", plan=_plan_centroid))


# --- analyses of a series --------------------------------------------------------------------------------------------------
class SeriesAnalysisParams(Frozen):
    weights: Weights = Field(default="auto", description="of a mean; auto: by area where pixels differ in area by over 1 %")
    analysis: Literal["mann_kendall", "sen", "autocorrelation", "seasonality", "change_point", "change_points", "spikes",
                      "stl"]
    statistic: Statistic = "mean"
    percentile: float | None = Field(default=None, ge=0, le=100)
    ddof: int = Field(default=0, ge=0, le=1)
    lag: int = Field(default=1, ge=1, le=400, description="in dates, for autocorrelation")
    period: int | None = Field(default=None, ge=2, le=400, description="dates a season has, for seasonality and stl")
    factor: float = Field(default=3.0, gt=0, description="spikes: this many robust deviations from the running median")
    variant: Literal["original", "hamed_rao", "seasonal"] = Field(
        default="original", description="mann_kendall: hamed_rao allows for memory, seasonal compares like dates (period)")
    least_dates: int = Field(default=2, ge=2, le=100, description="change_points: dates that a segment has at least")


# Analyses whose figure is the course over the years.
_OF_TREND = frozenset({"mann_kendall", "sen", "change_points"})


def _plan_analysis(call: Call) -> Planned:
    _series_inputs(call)
    p: SeriesAnalysisParams = call.params
    if (p.analysis == "stl" or (p.variant == "seasonal" and p.analysis == "mann_kendall")) and p.period is None:
        raise call.refuse(f"{p.analysis} needs the number of dates that a season has (period).", needs={"period": True})
    source: RasterType = call.inputs[0]

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        items, warnings, holes = gather_series(call, found, failed)
        y = np.array([i["value"] for i in items], dtype=np.float64)
        evidence: dict[str, JsonValue] = {"n_dates": len(items), "n_asked": len(call.inputs), "holes": list(holes),
                                          "analysis": p.analysis}
        n_valid = sum(int(str(i["n_valid"])) for i in items)
        if len(y) < 4:
            raise call.refuse(f"an analysis needs at least four dates; there are {len(y)}.", code="NEEDS_DATES",
                              needs={"dates": 4})
        in_seasons = p.analysis == "stl" or (p.variant == "seasonal" and p.analysis == "mann_kendall")
        if in_seasons and p.period:
            _check_seasons(call, [datetime.fromisoformat(str(i["date"])) for i in items], p.period)
        value, more = analyse_series(p, y)
        chance = more.get("p_value")
        if isinstance(chance, float) and not chance < 0.05:
            what = "change point" if p.analysis == "change_point" else "trend"
            warnings.append(f"The {what} is not significant (p = {chance:.3f}).")
        if "starts_at" in more:
            more["dates"] = [items[i]["date"] for i in more["starts_at"]]
        if value is None:
            raise call.refuse(str(more["refused"]), code="TOOL_FAILED")
        for key, column in more.pop("columns", {}).items():
            for item, v in zip(items, column, strict=True):
                item[key] = finite(float(v))
        if "date_at" in more:
            at = more.pop("date_at")
            evidence |= more
            return Value(str(items[at]["date"]), n_valid, evidence, tuple(items), warnings=tuple(warnings), result_kind="date")
        return Value(value, n_valid, evidence | more, tuple(items), warnings=tuple(warnings))

    unit = f"{source.unit}/date" if p.analysis == "sen" else "1"
    spans = {"mann_kendall": PhysicalRange(-1, 1), "autocorrelation": PhysicalRange(-1, 1), "seasonality": PhysicalRange(0, 1),
             "stl": PhysicalRange(0, 1), "spikes": PhysicalRange(0, 400), "change_points": PhysicalRange(0, 400)}
    kind = ValueType("value", "statistic", f"{p.analysis} of {source.quantity}", unit,
                     spans.get(p.analysis, PhysicalRange(why="follows the series")))
    return Planned(kind, reduce=lambda: _per_date(call), finish=finish, notes=(
        *_series_places(call), *check_series_alike(call, call.inputs, is_trend=p.analysis in _OF_TREND)))


def _check_seasons(call: Call, days: Sequence[datetime], period: int) -> None:
    """ModelError where dates are missing, so that every ``period``-th date is not of one season."""
    if len(days) <= period:
        return
    step = float(np.median([(b - a).days for a, b in pairwise(days)]))
    seasons = [(days[i + period] - days[i]).days for i in range(len(days) - period)]
    usual = min(seasons)
    late = [i for i, s in enumerate(seasons) if s - usual > 0.75 * step]
    if step > 0 and late:
        i = late[0]
        raise call.refuse(f"a season of {period} dates counts dates, and some are missing: from {days[i].date()} to "
                          f"{days[i + period].date()} are {seasons[i]} days, elsewhere {usual}. Give a series without holes, "
                          "or ask for an analysis that knows no season.", code="NEEDS_DATES", needs={"dates": True})


def analyse_series(p: SeriesAnalysisParams, y: NDArray[np.float64]) -> tuple[float | int | None, dict[str, Any]]:
    """(value, evidence) of an analysis; ``refused`` in the evidence says why there is no value."""
    from scipy import stats

    n = len(y)
    if p.analysis == "mann_kendall":
        if p.variant != "original":
            return mann_kendall_variant(p, y)
        s, z, p_value = mann_kendall(y)
        return s / (n * (n - 1) / 2), {"s": s, "z": z, "p_value": p_value, "tau": s / (n * (n - 1) / 2)}
    if p.analysis == "sen":
        fit = stats.theilslopes(y, np.arange(n), 0.95)
        return float(fit[0]), {"intercept": float(fit[1]), "low": float(fit[2]), "high": float(fit[3])}
    if p.analysis == "autocorrelation":
        if p.lag >= n - 1:
            return None, {"refused": f"a lag of {p.lag} needs a longer series than {n} dates."}
        d = y - y.mean()
        if not (d * d).sum():
            return None, {"refused": "the series is constant."}
        from statsmodels.tsa.stattools import acf

        found = [float(v) for v in acf(y, nlags=max(p.lag, min(n - 2, 39)), adjusted=False, fft=False)]
        return found[p.lag], {"acf": found[:40], "bound_95": 1.96 / math.sqrt(n), "computed_by": "statsmodels"}
    if p.analysis == "seasonality":
        d = stats_detrended(y)
        from scipy.signal import periodogram

        power = periodogram(y, detrend="linear", scaling="spectrum")[1][1:]
        if not power.sum() or float(np.abs(d).max()) < 1e-12 * max(1.0, float(np.abs(y).max())):
            return None, {"refused": "the series is a straight line."}
        k = round(n / p.period) if p.period else int(np.argmax(power)) + 1
        if not 1 <= k <= len(power):
            return None, {"refused": f"a season of {p.period} dates does not fit {n} dates."}
        return float(power[k - 1] / power.sum()), {"period": n / k, "strongest_period": n / (int(np.argmax(power)) + 1)}
    if p.analysis == "change_point":
        # Pettitt 1979, Applied Statistics 28
        ranks = stats.rankdata(y)
        u = np.array([2 * ranks[:k].sum() - k * (n + 1) for k in range(1, n)])
        at = int(np.argmax(np.abs(u)))
        most = float(np.abs(u[at]))
        return 0, {"date_at": at + 1, "pettitt_k": most, "p_value": min(1.0, 2 * math.exp(-6 * most * most / (n**3 + n**2))),
                   "mean_before": float(y[:at + 1].mean()), "mean_after": float(y[at + 1:].mean())}
    if p.analysis == "change_points":
        return change_points(y, p.least_dates)
    if p.analysis == "spikes":
        from scipy import ndimage

        # the ends are mirrored about their date
        running = ndimage.median_filter(y, size=5, mode="mirror")
        rest = y - running
        spread = float(stats.median_abs_deviation(rest, scale="normal"))
        flags = np.abs(rest) > p.factor * spread if spread > 0 else np.abs(rest) > 0
        return int(flags.sum()), {"spread": spread, "columns": {"running_median": running, "spike": flags.astype(float)}}
    assert p.period is not None
    if n < 2 * p.period:
        return None, {"refused": f"stl needs two seasons, {2 * p.period} dates; there are {n}."}
    try:
        from statsmodels.tsa.seasonal import STL
    except ModuleNotFoundError:
        return None, {"refused": "stl needs statsmodels, which is not installed here."}
    fit = STL(y, period=p.period, robust=True).fit()
    spread = float(np.var(fit.seasonal + fit.resid))
    strength = max(0.0, 1 - float(np.var(fit.resid)) / spread) if spread > 0 else 0.0
    return strength, {"period": p.period, "columns": {"trend": fit.trend, "seasonal": fit.seasonal, "rest": fit.resid}}


def mann_kendall_variant(p: SeriesAnalysisParams, y: NDArray[np.float64]) -> tuple[float | None, dict[str, Any]]:
    """Mann–Kendall's test by pymannkendall, for series that remember their past or have seasons."""
    import pymannkendall

    if p.variant == "seasonal":
        assert p.period is not None
        if len(y) < 2 * p.period:
            return None, {"refused": f"the seasonal test needs two seasons, {2 * p.period} dates; there are {len(y)}."}
        found = pymannkendall.seasonal_test(y, period=p.period)
    else:
        found = pymannkendall.hamed_rao_modification_test(y)
    if not math.isfinite(found.p):
        return None, {"refused": "the test is undefined for this series."}
    return float(found.Tau), {"s": float(found.s), "z": float(found.z), "p_value": float(found.p), "tau": float(found.Tau),
                              "variance_s": float(found.var_s), "variant": p.variant, "slope_per_date": float(found.slope)}


def change_points(y: NDArray[np.float64], least_dates: int) -> tuple[int | None, dict[str, Any]]:
    """(number of changes of the mean, evidence) by PELT with a BIC penalty on the noise of successive differences.

    Killick, Fearnhead and Eckley 2012, JASA 107; penalty 2 σ² log n for a mean and a place each (Yao 1988).
    """
    import ruptures

    n = len(y)
    if n < 2 * least_dates:
        return None, {"refused": f"two segments need {2 * least_dates} dates; there are {n}."}
    # robust: a change of the mean moves one difference only
    noise = 1.4826 * float(np.median(np.abs(np.diff(y) - np.median(np.diff(y))))) / math.sqrt(2)
    if noise <= 0:
        noise = max(float(np.abs(np.diff(y)).mean()) / math.sqrt(2), 1e-12 * max(1.0, float(np.abs(y).max())))
    penalty = 2 * noise * noise * math.log(n) * 2
    found = ruptures.Pelt(model="l2", min_size=least_dates, jump=1).fit(y[:, None]).predict(pen=penalty)
    starts = [int(i) for i in found[:-1]]
    edges = [0, *starts, n]
    means = np.concatenate([np.full(b - a, y[a:b].mean()) for a, b in pairwise(edges)])
    return len(starts), {"starts_at": starts, "noise": noise, "penalty": penalty, "method": "PELT, change of the mean",
                         "segment_means": [float(y[a:b].mean()) for a, b in pairwise(edges)], "columns": {"segment_mean": means}}


def stats_detrended(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The series less its least-squares line."""
    x = np.arange(len(y))
    return np.asarray(y - np.polyval(np.polyfit(x, y, 1), x))


register(Operator(
    name="raster.summarize.series_analysis", summary="Mann–Kendall, Sen's slope, autocorrelation, seasonality, change "
    "point, spikes or STL of a dated statistic.", takes=Take(("raster", "mask"), 4, 400), params=SeriesAnalysisParams,
    gives="value", range="declared by each analysis",
    nodata="invalid pixels take no part; dates without valid pixels are named and left out", plan=_plan_analysis,
    reference="Kendall 1975; Hamed and Rao 1998; Hirsch et al. 1982; Sen 1968; Pettitt 1979; Killick et al. 2012; Cleveland et "
    "al. 1990"))


# --- values ----------------------------------------------------------------------------------------------------------------
class CalculateParams(Frozen):
    expression: str = Field(max_length=500, description="node ids as names")
    unit: str = Field(default="1", max_length=40)
    range: tuple[float, float] | None = Field(default=None, description="physical range of the result, where it has one")
    quantity: str = Field(default="result", pattern=r"^[a-z][a-z0-9_]{0,39}$")


def _plan_calculate(call: Call) -> Planned:
    p: CalculateParams = call.params
    formula = parse(p.expression, of_numbers=True)
    unknown = [n for n in formula.names if n not in call.names]
    if unknown:
        raise call.refuse(f"the expression names {', '.join(unknown)}, which is no input of the node.")
    if p.range is not None and not p.range[0] < p.range[1]:
        raise call.refuse("the declared range is empty.")
    held = dict(zip(call.names, call.inputs, strict=True))
    check_formula(call, formula.tree, {n: ("value", held[n].quantity, held[n].unit) for n in formula.names})

    def combine(values: Sequence[Value]) -> Value:
        by_name = dict(zip(call.names, values, strict=True))
        planes = {}
        for n in formula.names:
            v = by_name[n].value
            if not isinstance(v, (int, float)) or isinstance(v, bool):
                raise call.refuse(f"{n} is no number.", code="TOOL_FAILED")
            planes[n] = Plane(np.array([[float(v)]]), np.ones((1, 1), dtype=bool))
        found = formula.evaluate(planes)
        if not found.valid[0, 0]:
            raise call.refuse(f"{p.expression} is undefined for these values.", code="TOOL_FAILED")
        return Value(float(found.data[0, 0]), min((v.n_valid for v in values), default=0),
                     {"operands": {n: by_name[n].value for n in formula.names}, "expression": p.expression})

    span = PhysicalRange(*p.range) if p.range else PhysicalRange(why="the caller declares no range")
    return Planned(ValueType("value", "statistic", p.quantity, p.unit, span), combine=combine)


register(Operator(
    name="value.calculate", summary="Arithmetic of numbers and earlier values by the allow-listed grammar.",
    takes=Take(("value",), 0, 64), params=CalculateParams, gives="value", range="declared by the caller",
    nodata="undefined results are refused", plan=_plan_calculate))


# --- equations -------------------------------------------------------------------------------------------------------------
class SolveParams(Frozen):
    equation: str = Field(max_length=200, description="left = right, by the allow-listed grammar; node ids as names")
    unknown: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,39}$")
    between: tuple[float, float] | None = Field(default=None, description="the real solution is looked for here")
    pick: Literal["only", "min", "max"] = Field(default="only", description="of several solutions; only: several are refused")
    unit: str = Field(default="1", max_length=40)
    quantity: str = Field(default="solution", pattern=r"^[a-z][a-z0-9_]{0,39}$")


def _plan_solve(call: Call) -> Planned:
    p: SolveParams = call.params
    left, equal, right = p.equation.partition("=")
    if not equal or "=" in right or not left.strip() or not right.strip():
        raise call.refuse("an equation has one sign of equality.")
    formula = parse(f"({left}) - ({right})")
    if p.unknown not in formula.names:
        raise call.refuse(f"the equation does not hold {p.unknown}.")
    if p.unknown in call.names:
        raise call.refuse(f"{p.unknown} is an input already.")
    free = [n for n in formula.names if n not in call.names and n != p.unknown]
    if free:
        raise call.refuse(f"the equation names {', '.join(free)}, which is no input of the node.")
    if p.between is not None and not p.between[0] < p.between[1]:
        raise call.refuse("the interval between is empty.")
    check_solvable(formula, p.unknown)

    def combine(values: Sequence[Value]) -> Value:
        by_name = dict(zip(call.names, values, strict=True))
        numbers = {}
        for n in formula.names:
            if n == p.unknown:
                continue
            v = by_name[n].value
            if not isinstance(v, (int, float)) or isinstance(v, bool):
                raise call.refuse(f"{n} is no number.", code="TOOL_FAILED")
            numbers[n] = float(v)
        found = real_solutions(formula, p.unknown, numbers, p.between)
        if not found:
            where = f" between {p.between[0]:g} and {p.between[1]:g}" if p.between else ""
            raise call.refuse(f"{p.equation} has no real solution{where}.", code="TOOL_FAILED")
        if len(found) > 1 and p.pick == "only":
            raise call.refuse(f"{p.equation} has {len(found)} solutions: {', '.join(f'{x:.6g}' for x in found[:10])}; say which "
                              "(between, or pick min or max).", code="TOOL_FAILED", needs={"pick": True})
        value = found[-1] if p.pick == "max" else found[0]
        items: tuple[dict[str, JsonValue], ...] = tuple({"solution": x} for x in found[:100])
        evidence: dict[str, JsonValue] = {
            "equation": p.equation, "unknown": p.unknown, "operands": dict(numbers), "solutions": [*found[:100]],
            "residual": residual(formula, numbers | {p.unknown: value})}
        return Value(value, min((v.n_valid for v in values), default=0), evidence, items)

    span = PhysicalRange(*p.between) if p.between else PhysicalRange(why="the equation sets no bounds")
    return Planned(ValueType("value", "statistic", p.quantity, p.unit, span), combine=combine)


register(Operator(
    name="value.solve", summary="The real solution of an equation in one unknown, over earlier values.",
    takes=Take(("value",), 0, 16), params=SolveParams, gives="value", range="the interval asked for",
    nodata="no real solution is refused", plan=_plan_solve))


# --- places ----------------------------------------------------------------------------------------------------------------
def _plan_bounds(call: Call) -> Planned:
    scene = call.inputs[0].scene
    grid = scene.grid
    if grid.crs is None:
        raise call.refuse(f"{scene.name} has no CRS, so it has no place on the ground.", code="NEEDS_CRS", needs={"crs": True})
    corners = [grid.xy(c, r) for c, r in ((0, 0), (grid.width, 0), (grid.width, grid.height), (0, grid.height))]
    west, south, east, north = grid.lonlat_bounds()
    xs, ys = [c[0] for c in corners], [c[1] for c in corners]
    item: dict[str, JsonValue] = {
        "scene": scene.scene_id, "west": west, "south": south, "east": east, "north": north, "crs": grid.crs,
        "left": min(xs), "bottom": min(ys), "right": max(xs), "top": max(ys), "width_px": grid.width, "height_px": grid.height,
        "gsd_m": scene.effective_gsd_m}
    evidence: dict[str, JsonValue] = {"corners": [list(c) for c in corners], "crosses_antimeridian": west > east}
    return Planned(ValueType("value", "table", "bounds", "1", PhysicalRange(why="coordinates of the scene's CRS")),
                   constant=Value(None, 0, evidence, (item,)))


register(Operator(
    name="asset.bounds", summary="Where a scene lies: longitude and latitude, and in its own CRS.", takes=Take(("scene",)),
    params=NoParams, gives="value", range="longitude −180 to 180, latitude −90 to 90", nodata="not applicable",
    plan=_plan_bounds))
