"""``measure``: count, area, distance, length, boolean, ratio and density of layers, with relations between them.

Areas are taken on near equal-area grids or on the ellipsoid, lengths and distances on the ellipsoid; never in degrees or in
metres of Web Mercator. Every figure carries what it was made of: numerator, denominator, pixel counts, and an interval from the
mask's outline (moved by half a pixel in and out) or from the detections' probabilities.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage
from scipy.spatial import cKDTree
from shapely.geometry.base import BaseGeometry

from apps.core.errors import FaultError, ModelError, ToolAbstainedError
from apps.core.evidence.observation import Configuration, Evidence, InputRef, Result
from apps.core.geo.grid import Grid, geod_of, transformer
from apps.core.geo.measures import area_of_mask_m2, geodesic_area_m2, geodesic_length_m
from apps.tools.contract import (
    MeasureArguments,
    MeasureSource,
    MeasureSpec,
    ToolCancelledError,
    ToolContext,
    ToolOutcome,
    input_ref,
)
from apps.tools.execute.graph import effective_region
from apps.tools.geojson import crs_of, on_the_globe
from apps.tools.measure.accuracy import NOT_TOLD, joint, lines_slack_m
from apps.tools.measure.choose import apply_conditions, figures_of, near_limits, pixel_side_m, statistic_of
from apps.tools.measure.clip import CUTS, brought_to, cut, ground_of, mask_cut, outlines, parts
from apps.tools.measure.each import Ways, table_of
from apps.tools.measure.far import farthest_on_globe, gaps_on_globe, lie_far, on_globe
from apps.tools.measure.layers import (
    Measured,
    Plane,
    corner_points,
    needs_length,
    open_source,
    pieces,
    to_features,
)
from apps.tools.measure.relations import apply_relation, near_relation
from apps.tools.outline import outline_areas_m2, outline_px
from apps.tools.perceive.veil import veil_told
from apps.tools.region import RegionMask, polygon_from_geojson
from apps.tools.units import AREA_M2, DENSITY, LENGTH_M, SHARE, factor

# Two-sided level of intervals from detection probabilities.
COUNT_LEVEL = 0.9
_Z = 1.6448536269514722
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne}
DEFAULT_UNIT = {"count": "1", "area": "m2", "distance": "m", "length": "m", "boolean": "1", "ratio": "1", "density": "1/km2"}

# (least, greatest) value of a metric in its base unit; no two places lie farther apart than half the Earth's circumference.
RANGES: dict[str, tuple[float, float]] = {
    "count": (0, math.inf), "area": (0, 5.2e14), "distance": (0, 2.004e7), "length": (0, math.inf), "boolean": (0, 1),
    "ratio": (0, math.inf), "density": (0, math.inf)}


def configuration_of(arguments: MeasureArguments) -> Configuration:
    """Coarse: the metric; fine: also its statistic, relation or denominator, and the modes of its sources."""
    spec = arguments.spec
    distance = spec.distance_statistic if spec.distance_between == "edges" else f"{spec.distance_statistic}.centroids"
    how = spec.relation or {"distance": distance, "ratio": spec.denominator or "auto", "boolean": spec.of,
                            "density": spec.denominator or "auto", "length": spec.length_of or "auto"}.get(spec.metric, "auto")
    how += f".{spec.statistic}" if spec.statistic else ""
    how += ("-where" if spec.where else "") + ("-clip" if spec.clip else "") + ("-each" if spec.each else "")
    modes = "-".join(dict.fromkeys(s.mode for s in arguments.sources))
    return Configuration(coarse=spec.metric, fine=f"{spec.metric}/{how}/{modes}"[:240])


@dataclass(slots=True)
class Figure:
    """A figure on its way: value in the base unit, its bounds, and what it was made of."""

    value: float
    low: float | None = None
    high: float | None = None
    level: float | None = None
    evidence: dict[str, JsonValue] = field(default_factory=dict)
    numerator: float | int | None = None
    denominator: float | int | None = None
    n_px: int | None = None
    items: list[dict[str, JsonValue]] = field(default_factory=list)


def run_measure(ctx: ToolContext, arguments: MeasureArguments) -> ToolOutcome:
    """Measures. ToolAbstainedError where no GSD or CRS gives pixels a length; ModelError where the call is wrong."""
    spec = arguments.spec
    names = [s.name for s in arguments.sources]
    if len(set(names)) < len(names):
        raise ModelError(f"Sources have the same name: {', '.join(names)}.", code="BAD_ARGUMENT")
    unit = spec.unit or DEFAULT_UNIT[spec.metric]
    _check_unit(spec.metric, unit)
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    if region is not None:
        region_crs = crs_of(region, region_crs)
        on_the_globe([polygon_from_geojson(region)], region_crs, "The region")
    ctx.progress(0, 2, "Opening layers")
    opened = {s.name: open_source(ctx, s, arguments, region, region_crs) for s in arguments.sources}
    subject = _pick(opened, arguments.sources, spec.subject, "subject")
    # what conditions speak of is no reference unless it is named as one
    plain = [s for s in arguments.sources if s.name not in {c.reference for c in spec.where}]
    reference = _pick(opened, plain, spec.reference, "reference") if spec.reference or len(plain) > 1 else None
    if reference is subject:
        reference = None
    others = [_pick(opened, arguments.sources, name, "reference") for name in spec.others]
    if others and spec.relation != "between":
        raise ModelError("Further references belong to the relation between.", code="BAD_ARGUMENT")
    if ctx.is_cancelled():
        raise ToolCancelledError
    ctx.progress(1, 2, "Measuring")
    notes: dict[str, JsonValue] = {}
    near: tuple[int, int] | None = None
    if spec.clip and (spec.metric not in ("area", "length", "ratio") or (not spec.each and spec.relation not in CUTS)):
        raise ModelError("Only an area, a length or a share of one is cut, where inside, outside, within or beyond ends.",
                         code="BAD_ARGUMENT")
    if spec.clip and reference is None:
        raise ModelError("To cut at what? Name a reference layer.", code="BAD_ARGUMENT", needs={"reference": True})
    if spec.relation in ("within", "beyond") and spec.distance_m is None:
        raise ModelError(f"The relation {spec.relation} needs distance_m.", code="BAD_ARGUMENT", needs={"distance_m": True})
    _says_which_length(spec, subject)
    if spec.statistic and (spec.metric not in ("area", "length") or spec.each or spec.clip):
        raise ModelError("A statistic is one of the areas or lengths of single instances, neither cut nor listed.",
                         code="BAD_ARGUMENT")
    notes |= apply_conditions(subject, opened, [c for c in spec.where if c.is_given])
    whole = (_whole(ctx, arguments, subject, reference) if spec.denominator == "subject" and not spec.clip and not spec.each
             else None)
    rest = apply_conditions(subject, opened, [c for c in spec.where if not c.is_given])
    if rest:
        held = [*cast(list[JsonValue], notes.get("conditions", [])), *cast(list[JsonValue], rest["conditions"])]
        notes["conditions"] = held
    if spec.each:
        if spec.length_of == "outline":
            subject.features = [g.boundary for g in subject.features or []]
        return _table(ctx, arguments, opened, subject, reference, unit, region, region_crs, notes)
    if spec.pick:
        raise ModelError("A pick is one of several: say of which layer each is listed.", code="BAD_ARGUMENT")
    if spec.relation and not spec.clip:
        if reference is None:
            raise ModelError(f"The relation {spec.relation} needs a reference layer.", code="BAD_ARGUMENT")
        near = _near(subject, [reference, *others], spec) if _of(arguments, subject, reference) == "count" else None
        notes |= apply_relation(subject, [reference, *others], spec.relation, spec.distance_m, spec.nearest_k)
    if spec.length_of == "outline" and not spec.statistic:
        # polygons become their outlines, holes included
        subject.features = [g.boundary for g in subject.features or []]
    of = _of(arguments, subject, reference)
    if spec.clip:
        assert reference is not None
        base = _cut(ctx, subject, reference, arguments)
    elif spec.statistic:
        base = _over_instances(ctx, subject, spec)
    elif spec.metric == "count" or (spec.metric in ("boolean", "density", "ratio") and of == "count"):
        base = _count(subject)
        out, more = near_limits(notes)
        if out or more:
            base.low, base.high = max(0.0, (base.value if base.low is None else base.low) - out), (
                base.value if base.high is None else base.high) + more
            base.evidence["interval_from"] = "instances so near to a limit that half a pixel of their outline decides"
        _count_of_drawn(ctx, base, [m for m in (subject, reference, *others) if m is not None], near, spec.relation)
    elif spec.metric == "distance":
        base = _distance(ctx, subject, reference, spec.distance_statistic, spec.distance_between)
    elif spec.metric == "length":
        base = _length(ctx, subject, spec.length_of)
    elif spec.metric == "ratio":
        base = _area_or_px(ctx, subject)
    else:
        base = _area(ctx, subject)
    if whole is not None:
        base.evidence["whole"] = whole
    figure, kind, value, interval = _figure(ctx, arguments, of, base, subject, reference, region, region_crs, unit)
    low, high = RANGES[spec.metric]
    if spec.metric != "boolean" and not low <= figure.value <= high:
        raise FaultError(f"a {spec.metric} of {figure.value:g} lies outside [{low:g}, {high:g}]")
    parents = [m.parent for m in (subject, reference) if m is not None and m.parent is not None]
    status = _layer_status(parents)
    evidence = Evidence(
        source=_source(opened, spec, unit, region is not None, region_crs),
        intermediate={"numerator": _finite(figure.numerator), "denominator": _finite(figure.denominator),
                      **_told_of_pixels(subject, figure.n_px, is_cut=spec.clip),
                      "denominator_is": f"none: a {spec.metric} is not divided" if figure.denominator is None else
                      _DIVIDED.get(spec.metric, "as the statistic says"),
                      **figure.evidence, "interval_from": figure.evidence.get("interval_from") or _no_interval(spec.metric),
                      **notes, "items": len(figure.items)},
        validity={"layer_status": status, "class_complete": all(bool(p.evidence.validity.get("class_complete", True))
                                                                for p in parents),
                  **_inherited(opened),
                  "geometry_valid": all(bool(p.evidence.validity.get("geometry_valid", True)) for p in parents),
                  "gsd_known": subject.gsd_m is not None,
                  "gsd_from": "crs" if subject.is_georeferenced else ("given" if subject.gsd_m else None)})
    passed = arguments.model_dump(mode="json")
    passed["spec"]["unit"] = unit
    passed |= {"region": dict(region) if region else None, "region_crs": region_crs}
    if spec.metric == "ratio":
        passed["spec"]["denominator"] = figure.evidence.get("denominator_is", spec.denominator)
    ctx.progress(2, 2, "Measured")
    return ToolOutcome(
        configuration=configuration_of(arguments), evidence=evidence, arguments_passed=passed, inputs=_inputs(opened.values()),
        result=Result(kind=kind, value=value, unit="1" if kind in ("boolean", "count") else unit,  # type: ignore[arg-type]
                      interval=interval, interval_level=figure.level if interval is not None else None,
                      quantity=_quantity(arguments), items=tuple(figure.items[:1000])),
        state="partial" if status == "partial" else "ok",
        reason="A layer under this measure is incomplete: " + "; ".join(p.status.reason for p in parents if p.status.reason)
        if status == "partial" else "")


def _table(ctx: ToolContext, arguments: MeasureArguments, opened: Mapping[str, Measured], subject: Measured,
           reference: Measured | None, unit: str, region: Mapping[str, Any] | None, region_crs: str,
           notes: Mapping[str, JsonValue]) -> ToolOutcome:
    """One figure for each feature of a layer, or the one with the extreme."""
    spec = arguments.spec
    if spec.metric in ("area", "distance", "length", "density") or spec.relation == "within":
        needs_length(subject)
        if reference is not None:
            needs_length(reference)
    ways = Ways(_count, _area, lambda: _distance(ctx, subject, reference, "minimum", spec.distance_between), to_features)
    table = table_of(ctx, arguments, subject, reference, ways)
    scale = {"area": AREA_M2, "distance": LENGTH_M, "length": LENGTH_M, "ratio": SHARE, "density": DENSITY}.get(spec.metric)
    by = factor(unit, scale, spec.metric) if scale is not None else 1.0
    items: list[dict[str, JsonValue]] = []
    for row in table.rows:
        scaled = {k: v / by if k in ("value", "low", "high") and isinstance(v, (int, float)) and by != 1 else v
                  for k, v in row.items()}
        items.append(scaled)
    for message in table.warnings:
        ctx.log("warning", message)
    if not any("low" in row for row in table.rows):
        table.evidence.setdefault("interval_from",
                                  "none: how exactly the shapes were drawn, or what lies near a limit, is not known")
        ctx.log("info", "No row has an interval: " + str(table.evidence["interval_from"]).removeprefix("none: ") + ".")
    known = [i for i in items if isinstance(i["value"], (int, float))]
    value: str | float | None = None
    if spec.pick:
        if not known:
            raise ModelError("No row has a figure, so none can be picked.", code="TOOL_FAILED")
        if len(known) < spec.rank:
            raise ModelError(f"There are {len(known)} rows with a figure, so none is number {spec.rank}.", code="TOOL_FAILED")
        best = sorted(known, key=lambda i: float(str(i["value"])), reverse=spec.pick == "max")[spec.rank - 1]
        value = str(best["zone"])
        table.evidence |= {"pick": spec.pick, "rank": spec.rank, "picked_value": best["value"]}
    elif len(items) == 1 and known:
        value = float(str(known[0]["value"]))
    parents = [m.parent for m in (subject, reference) if m is not None and m.parent is not None]
    status = _layer_status(parents)
    evidence = Evidence(
        source=_source(opened, spec, unit, region is not None, region_crs),
        intermediate={"numerator": _finite(table.total), "denominator": _finite(table.denominator),
                      **_told_of_pixels(subject, None, is_cut=spec.clip),
                      **table.evidence, **notes, "items": len(items)},
        validity={"layer_status": status, "class_complete": all(bool(p.evidence.validity.get("class_complete", True))
                                                                for p in parents),
                  "geometry_valid": all(bool(p.evidence.validity.get("geometry_valid", True)) for p in parents),
                  **_inherited(opened),
                  "rows_complete": len(known) == len(items), "gsd_known": subject.gsd_m is not None,
                  "gsd_from": "crs" if subject.is_georeferenced else ("given" if subject.gsd_m else None)})
    passed = arguments.model_dump(mode="json")
    passed["spec"]["unit"] = unit
    passed |= {"region": dict(region) if region else None, "region_crs": region_crs}
    ctx.progress(2, 2, "Measured")
    return ToolOutcome(
        configuration=configuration_of(arguments), evidence=evidence, arguments_passed=passed, inputs=_inputs(opened.values()),
        result=Result(kind="class" if spec.pick else "table", value=value, unit=unit, quantity=_quantity(arguments),
                      interval_level=None, items=tuple(items)),
        state="partial" if status == "partial" else "ok",
        reason="A layer under this measure is incomplete: " + "; ".join(p.status.reason for p in parents if p.status.reason)
        if status == "partial" else "")


def _cut(ctx: ToolContext, subject: Measured, reference: Measured, arguments: MeasureArguments) -> Figure:
    """Area or length of what is left of the subject where it is cut at the reference's outlines, or grown ones."""
    spec = arguments.spec
    of = "length" if spec.metric == "length" or (spec.metric == "ratio" and spec.of == "length") else "area"
    needs_length(subject)
    needs_length(reference)
    to_features(reference)
    ground = ground_of(subject)
    shapes = outlines(ground, reference, reference.features or [], spec.relation, spec.distance_m or 0.0)
    if subject.mask is not None:
        if of == "length":
            raise ModelError("The length of a mask is not cut to polygons; ask for its area.", code="BAD_ARGUMENT")
        whole = _area(ctx, subject)
        outline = shapely.union_all(shapes) if shapes else shapely.Polygon()
        base = _area(ctx, mask_cut(subject, ground, outline, spec.relation))
        base.evidence |= {"cut": of, "whole_m2": whole.value, "kept_m2": base.value, "n_outlines": len(shapes),
                          "outlines_m2": ground.area_m2(outline), "cut_rule": "by pixel centres"}
        base.denominator = None
    else:
        features = brought_to(ground, subject, subject.features or [])
        if of == "length" and any(g.geom_type not in ("LineString", "MultiLineString", "LinearRing") for g in features):
            raise ModelError("Only lines have a length that is cut.", code="BAD_ARGUMENT")
        if of == "area" and any(g.geom_type not in ("Polygon", "MultiPolygon", "GeometryCollection") for g in features):
            raise ModelError("Only polygons have an area that is cut; lines and points have none.", code="BAD_ARGUMENT")
        found = cut(subject, features, shapes, spec.relation, ground, of)
        base = Figure(found.amount, evidence=found.evidence, numerator=found.amount)
        if of == "area":
            rim = sum(ground.length_m(g.boundary) for p in found.pieces for g in parts(p, _AREAS))
            _drawn(ctx, base, [subject, reference], lambda off: (off * rim, off * rim + math.pi * off * off * len(found.pieces)))
        elif subject.is_drawn or reference.is_drawn:
            ctx.log("info", "Where lines are cut, their accuracy moves the cut along them by what their angle makes of it; no "
                            "interval is given.")
    base.evidence |= {"relation": spec.relation, "distance_m": spec.distance_m}
    base.evidence["whole"] = base.evidence["whole_m2" if of == "area" else "whole_m"]
    return base


def _over_instances(ctx: ToolContext, subject: Measured, spec: MeasureSpec) -> Figure:
    """Mean, median, least or greatest of the instances' own areas or lengths."""
    figure = "area" if spec.metric == "area" else spec.length_of or "length"
    if subject.layer is not None and subject.layer.kind == "boxes" and figure == "area":
        raise ModelError(f"{subject.source.name} are found as boxes, which have no area of their own.", code="BAD_ARGUMENT")
    values, slack = figures_of(subject, figure)
    if not values:
        raise ModelError(f"Nothing of {subject.source.name} is left, so there is no {spec.statistic}.", code="TOOL_FAILED")
    value, off = statistic_of(values, spec.statistic), max(slack)
    items: list[dict[str, JsonValue]] = [{"feature": i, "area_m2" if figure == "area" else "length_m": v}
                                         for i, v in enumerate(values)]
    low = statistic_of([v - s for v, s in zip(values, slack, strict=True)], spec.statistic) if off else None
    high = statistic_of([v + s for v, s in zip(values, slack, strict=True)], spec.statistic) if off else None
    return Figure(value, None if low is None else max(0.0, low), high, None, {
        "statistic": spec.statistic, "statistic_of": figure, "n_features": len(values), "min": min(values), "max": max(values),
        "mean": statistic_of(values, "mean"), "sum": float(sum(values)),
        "method": "geodesic" if subject.is_georeferenced else "gsd",
        "interval_from": "the outlines moved by half a pixel in and out" if off and not subject.is_drawn
        else subject.accuracy.text if subject.accuracy is not None else NOT_TOLD if subject.is_drawn else None,
        **({"interval_is": "floor" if subject.accuracy.is_floor else "declared", "accuracy_m": subject.accuracy.metres}
           if subject.accuracy is not None else {})},
        float(sum(values)), len(values), None, items)


def _of(arguments: MeasureArguments, subject: Measured, reference: Measured | None) -> str:
    """What a ratio, density or comparison is of. A ratio to valid pixels, scene or region is one of areas; to a reference, what
    was asked for, else counts of objects and areas of masks."""
    spec = arguments.spec
    if spec.metric != "ratio":
        return spec.of
    if spec.denominator == "subject":
        return spec.of if "of" in spec.model_fields_set else "count" if subject.mask is None else "area"
    if (spec.denominator or ("reference" if reference is not None else "valid")) != "reference":
        return "area"
    if "of" in spec.model_fields_set:
        return spec.of
    return "count" if subject.mask is None and subject.source.mode == "objects" else "area"


def _whole(ctx: ToolContext, arguments: MeasureArguments, subject: Measured, reference: Measured | None) -> float:
    """The subject's count or area before a relation chooses among it: the denominator ``subject``."""
    if arguments.spec.metric != "ratio" or not (arguments.spec.relation or arguments.spec.where):
        raise ModelError("The denominator subject belongs to a ratio with a relation or a condition.", code="BAD_ARGUMENT")
    of_count = _of(arguments, subject, reference) == "count"
    return (_count(subject) if of_count else _area_or_px(ctx, subject)).value


def _check_unit(metric: str, unit: str) -> None:
    if metric == "area":
        factor(unit, AREA_M2, "area")
    elif metric in ("distance", "length"):
        factor(unit, LENGTH_M, metric)
    elif metric == "ratio":
        factor(unit, SHARE, "a ratio")
    elif metric == "density":
        factor(unit, DENSITY, "density")
    elif unit != "1":
        raise ModelError(f"{unit!r} is no unit of a {metric}; it has none.", code="BAD_ARGUMENT")


def _base_unit(metric: str) -> str:
    return {"area": "m2", "distance": "m", "length": "m", "density": "1/m2"}.get(metric, "1")


def _pick(opened: Mapping[str, Measured], sources: Sequence[MeasureSource], name: str, what: str) -> Measured:
    if name in opened:
        return opened[name]
    if what == "subject":
        if name and name != "subject" and len(opened) > 1:
            raise ModelError(f"There is no source named {name!r}; sources: {', '.join(opened)}.", code="BAD_ARGUMENT")
        return opened[sources[0].name]
    if name:
        raise ModelError(f"There is no source named {name!r}; sources: {', '.join(opened)}.", code="BAD_ARGUMENT")
    return opened[sources[1].name]


def _quantity(arguments: MeasureArguments) -> str:
    spec = arguments.spec
    name = spec.subject if spec.subject != "subject" else arguments.sources[0].name
    text = {"count": f"number of {name}", "area": f"area of {name}", "length": f"length of {name}",
            "distance": f"{spec.distance_statistic} distance from {name} to {spec.reference or 'its neighbours'}",
            "boolean": f"{spec.of} of {name}", "ratio": f"share of {name}", "density": f"density of {name}"}[spec.metric]
    if spec.relation:
        text = f"{text} {spec.relation.replace('_', ' ')} {spec.reference}".strip()
    return f"{text}, for each of {spec.each}"[:120] if spec.each and spec.each != spec.reference else text[:120]


def _finite(x: float | int | None) -> float | int | None:
    return None if x is None or not math.isfinite(x) else x


def _source(opened: Mapping[str, Measured], spec: MeasureSpec, unit: str, has_region: bool, region_crs: str
            ) -> dict[str, JsonValue]:
    """What a figure was made of: layers, metric, unit, what was asked, and the region."""
    least, most = RANGES[spec.metric]
    return {"layers": [m.describe() for m in opened.values()], "metric": spec.metric,
            "ranges": {"value": {"low": least, "high": most if math.isfinite(most) else None, "unit": _base_unit(spec.metric)}},
            "unit": {"output": unit, "base": _base_unit(spec.metric)}, "spec": {**spec.model_dump(mode="json"), "unit": unit},
            "region": {"given": has_region, "crs": region_crs}}


# What stands as denominator where the figure is no ratio or density.
_DIVIDED = {"area": "the valid pixels of the mask", "distance": "the number of distances", "boolean": "as of what is compared"}


def _told_of_pixels(subject: Measured, n_px: int | None, *, is_cut: bool) -> dict[str, JsonValue]:
    """How many pixels a figure rests on, and what they are."""
    if n_px is not None:
        return {"n_px": n_px, "n_px_is": "pixels of the subject"}
    if is_cut:
        return {"n_px": None, "n_px_is": "none: what is left of shapes that were cut is no whole number of pixels"}
    if subject.mask is not None:
        return {"n_px": int(subject.mask.sum()), "n_px_is": "pixels of the subject's mask"}
    if subject.crs == "image":
        n_inside = round(sum(float(g.area) for g in subject.features or []))
        return {"n_px": n_inside, "n_px_is": "pixels inside the subject's shapes"}
    return {"n_px": None, "n_px_is": "none: shapes on the map have no pixels"}


def _no_interval(metric: str) -> str | None:
    return None if metric == "boolean" else "none: it is the frame of an image, or what is asked has no limit to be near to"


def _inherited(opened: Mapping[str, Measured]) -> dict[str, JsonValue]:
    """What the layers' own observations say of the classes they looked for, and of what was hidden from them."""
    coverage: dict[str, JsonValue] = {}
    masks: list[JsonValue] = []
    for name, m in opened.items():
        held = m.parent.evidence.validity if m.parent is not None else {}
        groups = m.parent.arguments.get("target_groups") if m.parent is not None else None
        asked: list[JsonValue] = [*sorted(groups)] if isinstance(groups, dict) else [name]
        coverage[name] = {"asked": asked,
                          "complete": bool(held.get("class_complete", True)), "exact": held.get("class_exact"),
                          "seen_share": held.get("valid_share")}
        quality = held.get("quality_mask")
        masks += [q for q in quality if q not in masks] if isinstance(quality, list) else []
    return {"class_coverage": coverage, "quality_mask": masks or None}


def _layer_status(parents: Sequence[Any]) -> str:
    bad = [p for p in parents if p.status.state != "ok" or p.evidence.validity.get("layer_status", "complete") != "complete"]
    return "partial" if bad else "complete"


def _inputs(opened: Any) -> tuple[InputRef, ...]:
    out: list[InputRef] = []
    for m in opened:
        if m.ref is not None:
            out.append(m.ref)
        if m.scene is not None and not any(i.scene_id == m.scene.scene_id and i.role == "image" for i in out):
            out.append(input_ref(m.scene))
    return tuple(out)


# --- count -----------------------------------------------------------------------------------------------------------------
def _count(subject: Measured) -> Figure:
    if subject.mask is not None:
        _, n = pieces(subject.mask)
        apart, joined = ndimage.label(subject.mask)[1], pieces(_closed(subject.mask))[1]
        return Figure(n, min(n, joined), max(n, apart), None, {
            "counted": "8-connected pieces of the mask",
            "interval_from": "pieces one pixel apart taken as one, and those that meet at a corner alone as two"},
            n, None, int(subject.mask.sum()))
    assert subject.features is not None
    n = len(subject.features)
    out = Figure(n, numerator=n, evidence={"counted": "features of the layer", "n_features": n})
    scores = [p["score"] for p in subject.properties if isinstance(p.get("score"), (int, float))]
    if subject.parent is None or len(scores) < n:
        return out
    counts = subject.parent.evidence.intermediate.get("counts")
    told = counts.get(subject.layer.label) if isinstance(counts, dict) and subject.layer is not None else None
    if subject.is_whole and isinstance(told, dict) and all(isinstance(told.get(k), (int, float)) for k in ("low", "high")):
        out.low, out.high = float(str(told["low"])), float(str(told["high"]))
        level = told.get("level")
        out.level = float(level) if isinstance(level, (int, float)) else COUNT_LEVEL
        out.evidence |= {"interval_from": "the detector's own score distribution", "calibrated": told.get("calibrated"),
                         "expected": told.get("expected")}
        return out
    kept = np.array([_probability(p) for p in subject.properties], dtype=np.float64)
    weak = np.array([_probability(p) for _, p in subject.candidates], dtype=np.float64)
    p = np.concatenate([kept, weak])
    expected, spread = float(p.sum()), float(np.sqrt((p * (1 - p)).sum()))
    out.low, out.high = max(0.0, math.floor(min(n, expected - _Z * spread))), math.ceil(max(n, expected + _Z * spread))
    out.level = COUNT_LEVEL
    calibrated = all("p" in q for q in subject.properties)
    out.evidence |= {"interval_from": "sum of the detections' probabilities, kept and candidates", "expected": expected,
                     "calibrated": calibrated, "n_candidates": len(weak)}
    return out


def _near(subject: Measured, references: Sequence[Measured], spec: MeasureSpec) -> tuple[int, int] | None:
    """(instances that may fall out, that may come in) since a relation's limit lies within the accuracy of drawn shapes; None
    where none are drawn, or the relation is another."""
    drawn = [m for m in (subject, *references) if m.is_drawn]
    found = joint([(m.source.name, m.accuracy) for m in drawn])
    if found is None or spec.relation not in ("inside", "outside", "within", "beyond"):
        return None
    if not all(m.is_georeferenced or m.gsd_m is not None for m in (subject, *references)):
        return None
    pixels = sum(0.5 * pixel_side_m(m) for m in (subject, *references) if not m.is_drawn)
    return near_relation(subject, references, spec.relation, spec.distance_m, found[0] + pixels)


def _count_of_drawn(ctx: ToolContext, base: Figure, sources: Sequence[Measured], near: tuple[int, int] | None,
                    relation: str) -> None:
    """What the accuracy of drawn shapes leaves open of a number of instances: those so near to a limit that it decides."""
    drawn = [m for m in sources if m.is_drawn]
    if not drawn:
        return
    base.evidence["complete"] = "whether the file holds all that are there it does not tell"
    edge = tuple(sum(m.near_region[k] for m in drawn) for k in (0, 1))
    found = joint([(m.source.name, m.accuracy) for m in drawn])
    is_chosen = bool(relation) or any(not m.is_whole for m in drawn)
    if not is_chosen:
        if base.low is None:
            base.low = base.high = base.value
            base.evidence |= {"interval_from": "the features that were given, each counted once", "interval_is": "exact"}
        return
    if found is None or (relation and near is None):
        why = "no accuracy of them is known" if found is None else f"what it leaves open of {relation} is not worked out"
        base.evidence.setdefault("interval_from", f"none: {why}")
        if base.low is None:
            ctx.log("info", f"How many lie so near to the limit that they may count or not is not known ({why}), so no interval "
                            "is given.")
        else:
            base.evidence["interval_is"] = "floor"
            ctx.log("info", f"How many lie so near to the limit of the drawn shapes that they may count or not is not known "
                            f"({why}): the true interval may be wider.")
        return
    out, more = (near or (0, 0))[0] + edge[0], (near or (0, 0))[1] + edge[1]
    base.low = max(0.0, (base.value if base.low is None else base.low) - out)
    base.high = (base.value if base.high is None else base.high) + more
    base.evidence |= {"interval_from": f"{out} in and {more} out are so near to the limit that this decides: "
                                       f"{'; '.join(found[2])}",
                      "interval_is": "floor" if found[1] else "declared", "accuracy_m": found[0], "near_limit": [out, more]}


def _closed(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask with gaps of one pixel filled."""
    closed: NDArray[np.bool_] = ndimage.binary_closing(np.pad(mask, 1), structure=np.ones((3, 3)))[1:-1, 1:-1]
    return closed | mask


def _probability(properties: Mapping[str, Any]) -> float:
    value = properties.get("p", properties.get("score", 1.0))
    return min(1.0, max(0.0, float(value))) if isinstance(value, (int, float)) else 1.0


# --- area ------------------------------------------------------------------------------------------------------------------
def _area(ctx: ToolContext, subject: Measured) -> Figure:
    needs_length(subject)
    if subject.mask is not None:
        assert subject.valid is not None and subject.grid is not None
        found = area_of_mask_m2(subject.mask, subject.grid, subject.gsd_m)
        inner_m2, outer_m2, n_inner, n_outer = outline_areas_m2(subject.mask, subject.valid, subject.grid, subject.gsd_m)
        low, high = found.area_m2 - 0.5 * inner_m2, found.area_m2 + 0.5 * outer_m2
        n_valid = int(subject.valid.sum())
        return Figure(found.area_m2, low, high, None, {
            "method": found.method, "grid_m2": found.grid_m2, "geodesic_m2": found.geodesic_m2, "valid_px": n_valid,
            "edge_px": n_inner, "outer_edge_px": n_outer,
            "pixel_area_m2": found.area_m2 / found.n_px if found.n_px else None,
            "interval_from": "the outline moved by half a pixel in and out"}, found.n_px, n_valid, found.n_px)
    flat = [g.geom_type for g in subject.features or [] if g.area == 0]
    if flat and len(flat) == len(subject.features or []):
        raise ModelError(f"{subject.source.name} holds no polygon but {', '.join(sorted(set(flat)))}; lines and points have no "
                         "area. Ask for their number or their length, or within which distance of them.", code="BAD_ARGUMENT")
    if flat:
        ctx.log("warning", f"{len(flat)} of {len(subject.features or [])} features of {subject.source.name} are lines or points, "
                           "which have no area.")
    areas, evidence = feature_areas_m2(subject)
    union = _union_area(subject)
    total = float(sum(areas))
    if union is not None and union < total * (1 - 1e-9):
        evidence["overlap_m2"] = total - union
        evidence["sum_m2"] = total
        total = union
    if subject.layer is not None and subject.layer.kind == "boxes":
        ctx.log("warning", "The area is that of boxes, which is larger than that of the objects inside them.")
    items: list[dict[str, JsonValue]] = [{"feature": i, "area_m2": a} for i, a in enumerate(areas)]
    evidence["n_features"] = len(areas)
    px = float(sum(g.area for g in subject.features or [])) if subject.crs == "image" else None
    edge = _feature_edge_m2(subject)
    if edge:
        evidence["interval_from"] = "the outlines moved by half a pixel in and out"
        return Figure(total, max(0.0, total - edge), total + edge, None, evidence, total, None, None if px is None else round(px),
                      items)
    out = Figure(total, None, None, None, evidence, total, None, None if px is None else round(px), items)
    ground = ground_of(subject)
    outlines_m = sum(ground.length_m(g.boundary) for g in subject.features or [] if g.area > 0)
    _drawn(ctx, out, [subject], lambda off: (off * outlines_m, off * outlines_m + math.pi * off * off * len(areas)))
    return out


def _drawn(ctx: ToolContext, figure: Figure, sources: Sequence[Measured],
           slack: Callable[[float], tuple[float, float]], pixel_m: float = 0.0) -> None:
    """The interval of a figure of shapes that were drawn or read, from how exactly they follow the ground: ``slack`` gives by how
    much the figure may be less and more where points lie off by so many metres. Without any accuracy there is none, and the log
    says why. ``pixel_m``: what pixels of another source leave open."""
    drawn = [s for s in sources if s.is_drawn]
    if not drawn:
        return
    found = joint([(s.source.name, s.accuracy) for s in drawn])
    if found is None:
        for name in dict.fromkeys(s.source.name for s in drawn):
            ctx.log("info", f"How exactly {name} was drawn is not known: no accuracy is declared for it, and its coordinates "
                            "have as many digits as numbers have, or too few to tell one.")
        if not pixel_m:
            figure.evidence |= {"interval_from": NOT_TOLD}
            ctx.log("info", "So no interval is given: the figure is that of the shapes, not of the ground.")
            return
    off, is_floor, texts = found if found is not None else (0.0, True, [f"of {s.source.name} nothing is told" for s in drawn])
    less, more = slack(off + pixel_m)
    figure.low, figure.high = max(0.0, figure.value - less), figure.value + more
    texts = [*texts, *(["one pixel"] if pixel_m else [])]
    figure.evidence |= {"interval_from": "; ".join(texts), "interval_is": "floor" if is_floor else "declared",
                        "accuracy_m": off, "slack": [less, more]}
    if is_floor:
        ctx.log("info", f"The interval is the least there is, for the true one may be wider: {'; '.join(texts)}.")


def _feature_edge_m2(subject: Measured) -> float | None:
    """Half a pixel along all outlines, in m²; None for vectors without pixels."""
    if subject.crs != "image" or subject.gsd_m is None or not subject.features:
        return None
    if subject.source.mode == "extent":
        return None
    return float(sum(g.length for g in subject.features)) * 0.5 * subject.gsd_m ** 2


def _to_map(subject: Measured, geometry: BaseGeometry) -> tuple[BaseGeometry, str]:
    """The geometry in a CRS with its name."""
    if subject.crs != "image":
        return geometry, subject.crs
    grid = subject.grid
    assert grid is not None and grid.crs is not None
    a, b, c, d, e, f = grid.transform
    return shapely.transform(geometry, lambda p: np.stack(
        [a * p[:, 0] + b * p[:, 1] + c, d * p[:, 0] + e * p[:, 1] + f], axis=1)), grid.crs


def polygon_area_m2(subject: Measured, geometry: BaseGeometry) -> float:
    """Area of one polygon by the method that its grid allows."""
    if subject.crs == "image" and not subject.is_georeferenced:
        assert subject.gsd_m is not None
        return float(geometry.area) * subject.gsd_m ** 2
    if subject.crs == "image" and subject.grid is not None and subject.grid.area_method == "grid":
        assert subject.grid.grid_pixel_area_m2 is not None
        return float(geometry.area) * subject.grid.grid_pixel_area_m2
    placed, crs = _to_map(subject, geometry)
    parts = [g for g in getattr(placed, "geoms", [placed]) if g.geom_type in ("Polygon", "MultiPolygon")]
    return float(sum(geodesic_area_m2(shapely.orient_polygons(g), crs) for g in parts))


def feature_areas_m2(subject: Measured) -> tuple[list[float], dict[str, JsonValue]]:
    assert subject.features is not None
    method = "gsd" if not subject.is_georeferenced else (
        "grid" if subject.crs == "image" and subject.grid is not None and subject.grid.area_method == "grid" else "geodesic")
    areas = [polygon_area_m2(subject, g) for g in subject.features]
    evidence: dict[str, JsonValue] = {"method": method}
    if method == "grid":
        total = 0.0
        for g in subject.features:
            placed, crs = _to_map(subject, g)
            total += geodesic_area_m2(shapely.orient_polygons(placed), crs)
        evidence |= {"grid_m2": float(sum(areas)), "geodesic_m2": total}
    return areas, evidence


def _union_area(subject: Measured) -> float | None:
    if not subject.features or len(subject.features) < 2:
        return None
    return polygon_area_m2(subject, shapely.union_all(subject.features))


def _area_or_px(ctx: ToolContext, subject: Measured) -> Figure:
    """For a ratio: areas where they are known, else pixels; a share needs no GSD."""
    if subject.is_georeferenced or subject.gsd_m is not None:
        return _area(ctx, subject)
    if subject.mask is not None:
        assert subject.valid is not None
        inner, outer = outline_px(subject.mask, subject.valid)
        n = int(subject.mask.sum())
        return Figure(n, n - 0.5 * int(inner.sum()), n + 0.5 * int(outer.sum()), None,
                      {"method": "pixels", "edge_px": int(inner.sum()), "outer_edge_px": int(outer.sum()),
                       "interval_from": "the outline moved by half a pixel in and out"}, n, None, n)
    whole = shapely.union_all(subject.features or [])
    px, edge = float(whole.area), 0.5 * float(whole.length)
    return Figure(px, max(0.0, px - edge) if edge else None, px + edge if edge else None, None, {
        "method": "pixels", "interval_from": "the outlines moved by half a pixel in and out" if edge else None},
        numerator=px, n_px=round(px))


# --- length and distance ---------------------------------------------------------------------------------------------------
_AREAS = ("Polygon", "MultiPolygon")
# Steps (rows, columns) from one pixel of a skeleton to the next.
_STEPS: dict[str, tuple[int, int]] = {"right": (0, 1), "down": (1, 0), "down_right": (1, 1), "down_left": (1, -1)}
# How often each pixel of a skeleton moves half-way to the middle of its two neighbours: stairs become slopes, and a corner is cut
# by about a pixel.
_SMOOTHED = 10


def _length_of_mask(subject: Measured) -> Figure:
    """Length of the skeleton of a mask, its stairs smoothed: the sum of its steps, each with its own direction and place on the
    ellipsoid.

    The interval: the line is no longer than its steps on the pixels, and a straight one not shorter than ``_least_of_steps`` of
    them; a skeleton ends short of its mask by up to half the width there, and the mask itself is true to half a pixel.
    """
    from skimage.morphology import skeletonize

    mask, grid = subject.mask, subject.grid
    assert mask is not None and grid is not None
    thin: NDArray[np.bool_] = cast(Any, skeletonize)(mask)
    rows, cols = np.nonzero(thin)
    n = len(rows)
    if n == 0:
        return Figure(0.0, evidence={"length_of": "the skeleton of the mask", "skeleton_px": 0, "length_px": 0.0,
                                     "interval_from": None}, numerator=0.0, n_px=0)
    links = {"right": thin[:, :-1] & thin[:, 1:], "down": thin[:-1] & thin[1:],
             # diagonal links count where no side link already joins the two
             "down_right": thin[:-1, :-1] & thin[1:, 1:] & ~thin[:-1, 1:] & ~thin[1:, :-1],
             "down_left": thin[:-1, 1:] & thin[1:, :-1] & ~thin[:-1, :-1] & ~thin[1:, 1:]}
    number = np.zeros(thin.shape, dtype=np.int64)
    number[rows, cols] = np.arange(n)
    pairs = []
    for name, (down, right) in _STEPS.items():
        r, c = np.nonzero(links[name])
        c = c + 1 if right < 0 else c
        pairs.append((number[r, c], number[r + down, c + right]))
    one, other = (np.concatenate([pair[k] for pair in pairs]) for k in (0, 1))
    at = np.stack([cols + 0.5, rows + 0.5], axis=1)
    by_steps = float(_ground_m(subject, at[one], at[other]).sum())
    middle = at.mean(axis=0, keepdims=True)
    step_m = {name: float(_ground_m(subject, middle, middle + np.array([right, down]))[0])
              for name, (down, right) in _STEPS.items()}
    degree = np.bincount(one, minlength=n) + np.bincount(other, minlength=n)
    smooth = _smoothed(at, one, other, degree == 2)
    value = float(_ground_m(subject, smooth[one], smooth[other]).sum())
    # a pixel that is linked to none is both ends of its piece
    n_ends = np.clip(2 - degree, 0, 2)
    pixel = max(step_m["down"], step_m["right"])
    # skeletons are made in pixels, whatever their shape on the ground
    high = by_steps + float((n_ends[n_ends > 0] * (_half_width_px(mask, at[n_ends > 0]) + 0.5)).sum()) * pixel
    low = max(0.0, by_steps * _least_of_steps(step_m) - 0.5 * pixel * float(n_ends.sum()))
    length_px = float(np.linalg.norm(smooth[one] - smooth[other], axis=1).sum())
    return Figure(value, min(low, value), high, None, {
        "length_of": "the skeleton of the mask, its stairs smoothed", "skeleton_px": n, "length_px": length_px,
        "steps": {name: len(pair[0]) for name, pair in zip(_STEPS, pairs, strict=True)}, "by_steps_m": by_steps,
        "ends": int(n_ends.sum()), "step_m": dict[str, JsonValue](step_m),
        "method": "geodesic steps" if grid.crs is not None else "pixels × GSD",
        "interval_from": "the steps' directions, the ends of the skeleton and half a pixel"}, value, None, n)


def _says_which_length(spec: MeasureSpec, subject: Measured) -> None:
    """ModelError where polygons are given and "length" may be that of their outline or how far they reach."""
    is_length = spec.metric == "length" or (spec.metric == "ratio" and spec.of == "length")
    if spec.length_of and (not is_length or subject.mask is not None):
        raise ModelError("Whether the outline or the extent is meant belongs to the length of polygons.", code="BAD_ARGUMENT")
    if not is_length or subject.mask is not None:
        return
    n = sum(g.geom_type in _AREAS for g in subject.features or [])
    if spec.length_of and n < len(subject.features or []):
        raise ModelError("Only polygons have an outline and an extent; lines have one length.", code="BAD_ARGUMENT")
    is_cut = spec.clip and not spec.each  # refused there
    if n and not spec.length_of and not is_cut and subject.source.mode == "extent" and subject.source.image is None:
        raise ModelError(f"{subject.source.name} holds polygons: is the length of their outline (perimeter) meant, or how far "
                         "each reaches (extent)?", code="BAD_ARGUMENT", needs={"length_of": ["outline", "extent"]})
    if spec.length_of == "extent" and (spec.clip or (spec.each and spec.each not in (subject.source.name, "subject"))):
        raise ModelError("The extent of polygons is not cut at others; it is one of each polygon itself.", code="BAD_ARGUMENT")


def _half_width_px(mask: NDArray[np.bool_], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far in pixels the nearest pixel outside of the mask lies from these centres (n, 2; columns, rows) inside."""
    if not len(at):
        return np.zeros(0)
    held = np.pad(mask, 1)
    rows, cols = np.nonzero(ndimage.binary_dilation(held) & ~held)
    return np.asarray(cKDTree(np.stack([cols - 0.5, rows - 0.5], axis=1)).query(at)[0], dtype=np.float64)


def _smoothed(at: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64],
              moves: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Positions (n, 2) of a skeleton's pixels, those that have two neighbours moved towards the middle of these."""
    at = at.copy()
    for _ in range(_SMOOTHED):
        total = np.stack([np.bincount(one, at[other, k], len(at)) + np.bincount(other, at[one, k], len(at)) for k in (0, 1)], 1)
        at[moves] = 0.5 * at[moves] + 0.25 * total[moves]
    return at


def _ground_m(subject: Measured, start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Metres between positions (n, 2; columns, rows) of a source's pixels: on the ellipsoid, or pixels times GSD."""
    grid = subject.grid
    assert grid is not None
    if grid.crs is not None:
        return grid.ground_m(start[:, 0], start[:, 1], end[:, 0], end[:, 1])
    assert subject.gsd_m is not None
    return np.asarray(np.linalg.norm(end - start, axis=1) * subject.gsd_m)


def _least_of_steps(step_m: Mapping[str, float]) -> float:
    """How short a straight line may be against the steps along it: it lies between a side and a diagonal step that enclose an
    angle φ, and is at least cos(φ/2) of their sum (0.924 for square pixels)."""
    least = 1.0
    for diagonal in ("down_right", "down_left"):
        for side, other in (("right", "down"), ("down", "right")):
            a, g, b = step_m[side], step_m[diagonal], step_m[other]
            cosine = min(1.0, max(-1.0, (a * a + g * g - b * b) / (2 * a * g)))
            least = min(least, math.sqrt((1 + cosine) / 2))
    return least


def _length(ctx: ToolContext, subject: Measured, of: str = "") -> Figure:
    needs_length(subject)
    plane = Plane([subject])
    if subject.mask is not None:
        return _length_of_mask(subject)
    assert subject.features is not None
    lengths: list[float] = []
    what = "lines"
    for g in subject.features:
        if g.geom_type in ("LineString", "MultiLineString"):
            if plane.is_geodesic:
                lengths.append(geodesic_length_m(*_to_map(subject, g)))
            else:
                lengths.append(float(plane.place(subject, g).length))
        elif g.geom_type in _AREAS:
            what = "long sides of the smallest rectangles about the features; the value is their mean"
            ring = shapely.get_coordinates(shapely.oriented_envelope(plane.place(subject, g)))
            lengths.append(float(max(np.linalg.norm(np.diff(ring, axis=0), axis=1), default=0.0)))
        else:
            raise ModelError(f"A {g.geom_type} has no length.", code="BAD_ARGUMENT")
    items: list[dict[str, JsonValue]] = [{"feature": i, "length_m": x} for i, x in enumerate(lengths)]
    if not lengths:
        raise ModelError("The layer is empty: there is nothing whose length could be measured.", code="TOOL_FAILED")
    value = sum(lengths) if what == "lines" else float(np.mean(lengths))
    half = pixel_side_m(subject) if subject.crs == "image" and what != "lines" else None
    out = Figure(value, max(0.0, value - half) if half else None, value + half if half else None, None,
                 {"length_of": "the outlines of the polygons, holes included" if of == "outline" else what,
                  "n_features": len(lengths), "min_m": min(lengths), "max_m": max(lengths),
                  "interval_from": "one pixel" if half else None}, value, None, None, items)
    if subject.is_drawn and what == "lines":
        placed = [plane.place(subject, g) for g in subject.features]
        _drawn(ctx, out, [subject], lambda off: lines_slack_m(placed, off))
    elif subject.is_drawn:
        # either end of the long side may lie off
        _drawn(ctx, out, [subject], lambda off: (2 * off, 2 * off))
    return out


@dataclass(slots=True)
class _Instances:
    """Instances of a layer in the plane: polygons, or corner points of a mask's outline by piece."""

    n: int
    shapes: list[BaseGeometry] | None = None
    points: NDArray[np.float64] | None = None
    piece: NDArray[np.int32] | None = None


def _instances(plane: Plane, source: Measured, between: str) -> _Instances:
    if between == "centroids":
        if source.mask is not None:
            labels, n = pieces(source.mask)
            at = ndimage.center_of_mass(source.mask, labels, np.arange(1, n + 1)) if n else []
            px = np.array([(c + 0.5, r + 0.5) for r, c in at], dtype=np.float64).reshape(-1, 2)
        else:
            assert source.features is not None
            middles = [shapely.centroid(g) for g in source.features]
            if source.crs != "image":
                return _Instances(len(middles), shapes=[plane.place(source, g) for g in middles])
            px = shapely.get_coordinates(middles).reshape(-1, 2)
        placed = plane.place_px(source, px) if len(px) else px
        return _Instances(len(px), shapes=[shapely.Point(p) for p in placed])
    if source.mask is not None:
        labels, n = pieces(source.mask)
        points, piece = corner_points(labels)
        return _Instances(n, points=plane.place_px(source, points) if n else points, piece=piece - 1)
    assert source.features is not None
    return _Instances(len(source.features), shapes=[plane.place(source, g) for g in source.features])


# Pairs of instances that are looked at one by one.
MOST_PAIRS = 4_000_000


def _over_the_globe(plane: Plane, sources: Sequence[Measured], between: str, *, is_farthest: bool,
                    ) -> tuple[list[tuple[float, Any, Any]], tuple[int, int]]:
    """As ``_edge_distances`` and ``_farthest``, for layers that no plane is true to."""
    shapes: list[list[BaseGeometry]] = []
    for s in sources:
        if between == "centroids":
            middles = [plane.lonlat(p.x, p.y) for p in _shapes(_instances(plane, s, between))]
            shapes.append([shapely.Point(at) for at in middles if at is not None])
        else:
            to_features(s)
            shapes.append(on_globe(s))
    ends = (0, 0)
    if is_farthest:
        gap, *at = farthest_on_globe(shapes[0], shapes[-1])
        gaps, ends = [gap], (at[0], at[1])
    else:
        gaps = gaps_on_globe(shapes[0], shapes[-1], is_same=len(shapes) == 1)
    to = transformer("EPSG:4326", plane.text)
    return [(g.metres, np.array(to.transform(*g.start)), np.array(to.transform(*g.end))) for g in gaps], ends


def _edge_distances(subject: _Instances, reference: _Instances, *, is_same: bool) -> list[tuple[float, Any, Any]]:
    """For each subject instance: (distance in the plane, its point, the reference's point)."""
    out: list[tuple[float, Any, Any]] = []
    if subject.points is not None and reference.points is not None and not is_same:
        assert subject.piece is not None
        tree = cKDTree(reference.points)
        distance, at = tree.query(subject.points)
        for i in range(subject.n):
            mine = np.flatnonzero(subject.piece == i)
            best = mine[np.argmin(distance[mine])]
            out.append((float(distance[best]), subject.points[best], reference.points[at[best]]))
        return out
    if subject.points is not None and is_same:
        return _between_pieces(subject)
    one, other = _shapes(subject), _shapes(reference)
    tree = shapely.STRtree(other)
    seen: dict[bytes, int] = {}
    if is_same:
        for g in other:
            seen[g.wkb] = seen.get(g.wkb, 0) + 1
    for g in one:
        if is_same and seen[g.wkb] > 1:
            at = shapely.get_coordinates(g)[0]
            out.append((0.0, at, at))
            continue
        found, gaps = tree.query_nearest(g, return_distance=True, all_matches=False, exclusive=is_same)
        ends = shapely.get_coordinates(shapely.shortest_line(g, other[int(found[0])]))
        out.append((float(gaps[0]), ends[0], ends[-1]))
    return out


def _between_pieces(pieces_of: _Instances) -> list[tuple[float, Any, Any]]:
    """Each piece's nearest other piece. Two pieces differ in some bit of their numbers: for each bit, the points of one side are
    asked for their nearest neighbour on the other."""
    points, piece = pieces_of.points, pieces_of.piece
    assert points is not None and piece is not None
    best = np.full(len(points), np.inf)
    partner = np.zeros(len(points), dtype=np.int64)
    for bit in range(max(1, int(pieces_of.n - 1).bit_length())):
        side = (piece >> bit) & 1 == 1
        for ask, answer in ((side, ~side), (~side, side)):
            if not ask.any() or not answer.any():
                continue
            distance, at = cKDTree(points[answer]).query(points[ask])
            mine, theirs = np.flatnonzero(ask), np.flatnonzero(answer)
            closer = distance < best[mine]
            best[mine[closer]], partner[mine[closer]] = distance[closer], theirs[at[closer]]
    order = np.lexsort((best, piece))
    first = order[np.searchsorted(piece[order], np.arange(pieces_of.n))]
    return [(float(best[i]), points[i], points[partner[i]]) for i in first]


def _shapes(source: _Instances) -> list[BaseGeometry]:
    if source.shapes is not None:
        return source.shapes
    assert source.points is not None and source.piece is not None
    return [shapely.MultiPoint(source.points[source.piece == i]) for i in range(source.n)]


def _distance(ctx: ToolContext, subject: Measured, reference: Measured | None, statistic: str, between: str) -> Figure:
    sources = [subject] if reference is None else [subject, reference]
    for s in sources:
        needs_length(s)
    plane = Plane(sources)
    is_farthest = statistic == "farthest"
    if reference is not None and between == "edges" and (is_farthest or (subject.mask is None) != (reference.mask is None)):
        # corners of a mask's outline do not tell what lies inside of it: shapes do
        for s in sources:
            to_features(s)
    one = _instances(plane, subject, between)
    other = one if reference is None else _instances(plane, reference, between)
    if one.n == 0 or other.n == 0 or (reference is None and one.n < 2):
        empty = subject.source.name if one.n == 0 else (reference or subject).source.name
        raise ModelError(f"The layer {empty} has too few instances for a distance: "
                         f"{one.n if one.n == 0 or reference is None else other.n}.", code="TOOL_FAILED",
                         needs={"instances": True})
    ends = (0, 0)
    if is_farthest and one.n * other.n > MOST_PAIRS:
        raise ModelError(f"{one.n:,} by {other.n:,} instances are more pairs than are looked at ({MOST_PAIRS:,}); choose fewer, "
                         "or a region.", code="TOO_LARGE", needs={"region": True})
    if lie_far(sources):
        pairs, ends = _over_the_globe(plane, sources, between, is_farthest=is_farthest)
    elif is_farthest:
        pair, ends = _farthest(one, other)
        pairs = [pair]
    else:
        pairs = _edge_distances(one, other, is_same=reference is None)
    if reference is not None and between == "edges" and _share_pixels(subject, reference):
        # a mask that lies on the other touches it wherever they share pixels
        pairs = _zero_where_shared(subject, reference, pairs)
    metres: list[float] = []
    items: list[dict[str, JsonValue]] = []
    for i, (gap, p, q) in enumerate(pairs):
        a, b = plane.lonlat(float(p[0]), float(p[1])), plane.lonlat(float(q[0]), float(q[1]))
        length = gap
        if a is not None and b is not None and gap > 0:
            length = float(geod_of("EPSG:4326").inv(*a, *b)[2])
        metres.append(length)
        items.append({"subject": i, "distance_m": length, "from_lonlat": list(a) if a else None,
                      "to_lonlat": list(b) if b else None})
    if is_farthest:
        items[0] |= {"subject": ends[0], "reference": ends[1]}
    pick: dict[str, Callable[[list[float]], float]] = {
        "minimum": min, "maximum": max, "farthest": max, "mean": lambda x: sum(x) / len(x)}
    value = pick[statistic](metres)
    slack = max((pixel_side_m(s) for s in sources if s.mask is not None or s.crs == "image"), default=0.0)
    order = None if statistic == "mean" else int(np.argmin(metres) if statistic == "minimum" else np.argmax(metres))
    evidence: dict[str, JsonValue] = {
        "statistic": statistic, "n_subject": one.n, "n_reference": other.n, "between": between, "n_distances": len(metres),
        "min_m": min(metres), "max_m": max(metres), "mean_m": sum(metres) / len(metres), "distances_m": [*metres[:200]],
        "pair": items[order] if order is not None else None, "interval_from": "one pixel" if slack else None,
        "method": "geodesic between the closest points" if plane.is_geodesic else "pixels × GSD"}
    out = Figure(value, max(0.0, value - slack) if slack else None, value + slack if slack else None, None, evidence,
                 sum(metres), len(metres), None, items)
    # among themselves both ends lie off
    _drawn(ctx, out, sources if reference is not None else [subject, subject], lambda off: (off, off), slack)
    return out


def _farthest(subject: _Instances, reference: _Instances) -> tuple[tuple[float, Any, Any], tuple[int, int]]:
    """Of all pairs of a subject and a reference the farthest apart: (distance in the plane, its points), and their numbers."""
    one, other = np.array(_shapes(subject), dtype=object), np.array(_shapes(reference), dtype=object)
    best = (-1.0, 0, 0)
    for i, g in enumerate(one):
        gaps = shapely.distance(g, other)
        k = int(np.argmax(gaps))
        best = max(best, (float(gaps[k]), i, k))
    ends = shapely.get_coordinates(shapely.shortest_line(one[best[1]], other[best[2]]))
    return (best[0], ends[0], ends[-1]), best[1:]


def _share_pixels(subject: Measured, reference: Measured) -> bool:
    return (subject.mask is not None and reference.mask is not None and subject.grid == reference.grid
            and bool((subject.mask & reference.mask).any()))


def _zero_where_shared(subject: Measured, reference: Measured,
                       pairs: list[tuple[float, Any, Any]]) -> list[tuple[float, Any, Any]]:
    assert subject.mask is not None and reference.mask is not None
    labels, n = pieces(subject.mask)
    shared = set((np.unique(labels[reference.mask & subject.mask]) - 1).tolist())
    return [(0.0, p, p) if i in shared else (gap, p, q) for i, (gap, p, q) in enumerate(pairs)] if n else pairs


# --- from base figures to the answer ---------------------------------------------------------------------------------------
def _figure(ctx: ToolContext, arguments: MeasureArguments, of: str, base: Figure, subject: Measured, reference: Measured | None,
            region: Mapping[str, Any] | None, region_crs: str, unit: str,
            ) -> tuple[Figure, str, float | int | bool, tuple[float, float] | None]:
    spec = arguments.spec

    def bounds(scale: float) -> tuple[float, float] | None:
        return None if base.low is None or base.high is None else (base.low / scale, base.high / scale)

    if spec.metric == "count":
        return base, "count", int(base.value), bounds(1)
    if spec.metric == "area":
        scale = factor(unit, AREA_M2, "area")
        return base, "area", base.value / scale, bounds(scale)
    if spec.metric in ("distance", "length"):
        scale = factor(unit, LENGTH_M, spec.metric)
        return base, spec.metric, base.value / scale, bounds(scale)
    if spec.metric == "boolean":
        limit = spec.comparison
        op, number, limit_unit = (limit.op, limit.value, limit.unit) if limit else (">", 0.0, "1")
        scale = factor("m2" if limit_unit == "1" and limit is None else limit_unit, AREA_M2, "area") if spec.of == "area" else 1.0
        if spec.of == "count" and limit_unit != "1":
            raise ModelError(f"A count is compared with a plain number, not with {limit_unit}.", code="BAD_ARGUMENT")
        value = _COMPARE[op](base.value / scale, number)
        span = bounds(scale)
        unsure = span is not None and _COMPARE[op](span[0], number) != _COMPARE[op](span[1], number)
        if unsure:
            ctx.log("warning", f"The {spec.of} ({base.value / scale:g}) may lie on either side of {number:g}: its interval is "
                               f"{span[0]:g} to {span[1]:g}." if span else "")
        base.evidence |= {"compared": base.value / scale, "op": op, "with": number, "with_unit": limit_unit,
                          "margin": base.value / scale - number, "interval": list(span) if span else None, "is_uncertain": unsure}
        return base, "boolean", bool(value), None
    if spec.metric == "density":
        area, what = _denominator_area(ctx, subject, spec.denominator, reference, region, region_crs)
        if area <= 0:
            raise ModelError(f"The denominator ({what}) has no area.", code="TOOL_FAILED")
        per = 1 / factor(unit, DENSITY, "density")
        base.denominator = area
        base.evidence |= {"denominator_is": what, "denominator_m2": area, "of": of}
        return base, "ratio", base.value / area * per, (
            None if base.low is None or base.high is None else (base.low / area * per, base.high / area * per))
    scale = factor(unit, SHARE, "a ratio")
    denominator, what = _denominator(ctx, subject, reference, spec.denominator, of, base, region, region_crs)
    if denominator <= 0:
        raise ModelError(f"The denominator ({what}) is empty, so there is no ratio.", code="TOOL_FAILED")
    base.numerator, base.denominator = base.value, denominator
    base.evidence |= {"denominator_is": what, "of": of}
    span = bounds(denominator * scale)
    if span is not None and what != "reference":
        span = (max(0.0, span[0]), min(1 / scale, span[1]))
    return base, "ratio", base.value / denominator / scale, span


def _denominator(ctx: ToolContext, subject: Measured, reference: Measured | None, asked: str, of: str, base: Figure,
                 region: Mapping[str, Any] | None, region_crs: str) -> tuple[float, str]:
    what = asked or ("reference" if reference is not None else "valid")
    if "cut" in base.evidence and what == "reference":
        if base.evidence["cut"] != "area" or "outlines_m2" not in base.evidence:
            raise ModelError("A length has no share of an area; divide by the subject's own.", code="BAD_ARGUMENT")
        return float(str(base.evidence["outlines_m2"])), what
    if what == "subject":
        return float(str(base.evidence["whole"])), what
    if what == "reference":
        if reference is None:
            raise ModelError("The ratio needs a reference layer.", code="BAD_ARGUMENT", needs={"reference": True})
        other = _count(reference) if of == "count" else _area_or_px(ctx, reference)
        if of == "area" and (other.evidence.get("method") == "pixels") != (base.evidence.get("method") == "pixels"):
            raise ModelError("One layer has a GSD and the other has none; their areas have no ratio.", code="NEEDS_GSD",
                             needs={"gsd_m": True})
        base.evidence["reference"] = {"value": other.value, "n_px": other.n_px}
        return other.value, "reference"
    if base.evidence.get("method") == "pixels":
        return float(_pixels(ctx, subject, what, region, region_crs)), what
    area, _ = _denominator_area(ctx, subject, what, reference, region, region_crs)
    base.evidence["denominator_px"] = _pixels(ctx, subject, what, region, region_crs) if subject.grid is not None else None
    return area, what


def _seen(ctx: ToolContext, subject: Measured, region: Mapping[str, Any] | None, region_crs: str,
          ) -> Iterator[tuple[NDArray[np.bool_], Grid]]:
    """Strips of the scene that features were found on: (True where any of its bands is valid and the quality band by which they
    were found hides nothing, inside the region; grid)."""
    assert subject.scene is not None and subject.parent is not None
    scene, reader = subject.scene, ctx.reader(subject.scene.scene_id)
    inside = RegionMask.of(region, region_crs, scene.grid, scene.name)
    left, top, width, height = inside.bounds_px
    bands = [b.index for b in scene.bands]
    veil = veil_told(subject.parent, scene, reader)
    for r in range(top, top + height, 512):
        if ctx.is_cancelled():
            raise ToolCancelledError
        window = (left, r, width, min(512, top + height - r))
        valid = reader.read(bands, window, physical=False).valid.any(axis=0)
        if veil is not None:
            valid &= ~veil.hidden(window)
        yield valid & inside.mask(window), scene.grid.window(*window)


def _is_of_pixels(subject: Measured) -> bool:
    """Whether these are features that were found on a scene's pixels, and not on a layer of another grid."""
    return subject.scene is not None and subject.parent is not None and subject.grid == subject.scene.grid


def _pixels(ctx: ToolContext, subject: Measured, what: str, region: Mapping[str, Any] | None, region_crs: str) -> int:
    grid = subject.grid
    if grid is None:
        raise ModelError("The layer has no grid, so it has no valid pixels to divide by.", code="BAD_ARGUMENT")
    if what == "valid":
        if subject.valid is not None:
            return int(subject.valid.sum())
        if _is_of_pixels(subject):
            return sum(int(np.count_nonzero(seen)) for seen, _ in _seen(ctx, subject, region, region_crs))
        what = "region" if region is not None else "scene"
    if what == "region" and region is not None:
        return RegionMask.of(region, region_crs, grid).n_px
    if what == "region":
        raise ModelError("There is no region to divide by.", code="BAD_REGION", needs={"region": True})
    return grid.width * grid.height


def _denominator_area(ctx: ToolContext, subject: Measured, asked: str, reference: Measured | None,
                      region: Mapping[str, Any] | None, region_crs: str) -> tuple[float, str]:
    """(m², what) of valid pixels (of the region, where there is one), scene, region or reference."""
    is_seen = subject.valid is not None or _is_of_pixels(subject)
    what = asked or ("valid" if is_seen else "region" if region is not None else "scene")
    if what == "reference":
        if reference is None:
            raise ModelError("The density needs a reference layer.", code="BAD_ARGUMENT", needs={"reference": True})
        if reference.mask is not None:
            assert reference.grid is not None
            return area_of_mask_m2(reference.mask, reference.grid, reference.gsd_m).area_m2, what
        return float(sum(feature_areas_m2(reference)[0])), what
    needs_length(subject)
    grid = subject.grid
    if grid is None:
        if region is None or region_crs == "image" or what == "scene":
            raise ToolAbstainedError(
                "What is given on the map has no ground of its own. Say over which area: draw a region, or name a layer of "
                "polygons.", code="NEEDS_REGION", needs={"region": True})
        return geodesic_area_m2(shapely.orient_polygons(polygon_from_geojson(region)), region_crs), "region"
    if what == "valid" and subject.valid is not None:
        return area_of_mask_m2(subject.valid, grid, subject.gsd_m).area_m2, what
    if what == "valid" and _is_of_pixels(subject):
        seen = _seen(ctx, subject, region, region_crs)
        return sum(area_of_mask_m2(valid, strip, subject.gsd_m).area_m2 for valid, strip in seen), what
    if what == "valid":
        what = "region" if region is not None else "scene"
    if what == "region":
        if region is None:
            raise ModelError("There is no region to divide by.", code="BAD_REGION", needs={"region": True})
        inside = RegionMask.of(region, region_crs, grid)
        return _windowed_area(inside, grid, subject.gsd_m), what
    return _windowed_area(RegionMask(None, grid), grid, subject.gsd_m), what


def _windowed_area(region: RegionMask, grid: Grid, gsd_m: float | None) -> float:
    """Area of a region's pixels, strip by strip."""
    left, top, width, height = region.bounds_px
    total = 0.0
    for r in range(top, top + height, 512):
        window = (left, r, width, min(512, top + height - r))
        total += area_of_mask_m2(region.mask(window), grid.window(*window), gsd_m).area_m2
    return total
