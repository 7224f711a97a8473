"""Operators of zones and of figures in each of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import Field, FiniteFloat, JsonValue

from apps.core.errors import ModelError
from apps.core.evidence.observation import Frozen, JsonMap
from apps.core.geo.grid import transformer
from apps.core.geo.vector import chosen_by, limits_of_part
from apps.tools.execute.accumulators import CellFigures, Moments, TrueArea, cell_moments, cells, moments_of
from apps.tools.execute.operators_summaries import (
    Statistic,
    StatisticParams,
    _check_statistic,
    accumulators_for,
    area_figures,
    finite,
    range_of_statistic,
    statistic_of,
    unit_of_statistic,
)
from apps.tools.execute.scales import AreaMoments, Weights, area_notes, scale_notes, weights_of
from apps.tools.execute.types import (
    Call,
    Operator,
    PhysicalRange,
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
    n_before = len(chosen)
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
    lost = n_before - len(chosen)
    return Planned(ZonesType("zones", tuple(zones), crs), notes=(
        (("warning", f"{lost} of {n_before} features are no polygons and were left out."),) if lost else ()))


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
