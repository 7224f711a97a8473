"""``measure``: count, area, distance, length, boolean, ratio and density of layers, with relations between them.

Areas are taken on near equal-area grids or on the ellipsoid, lengths and distances on the ellipsoid; never in degrees or in
metres of Web Mercator. Every figure carries what it was made of: numerator, denominator, pixel counts, and an interval from the
mask's outline (moved by half a pixel in and out) or from the detections' probabilities.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import shapely
from pydantic import JsonValue

from apps.core.errors import FaultError, ModelError
from apps.core.evidence.observation import Configuration, Evidence, InputRef, Result
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
from apps.tools.measure.accuracy import NOT_TOLD
from apps.tools.measure.areas import measure_area, measure_area_or_px
from apps.tools.measure.choose import apply_conditions, figures_of, near_limits, statistic_of
from apps.tools.measure.clip import CUTS, brought_to, cut, ground_of, left_if_moved, mask_cut, outlines, parts
from apps.tools.measure.counts import measure_count, near_limit, widen_count_by_accuracy
from apps.tools.measure.denominators import denominator_area, denominator_of
from apps.tools.measure.distances import measure_distance
from apps.tools.measure.each import Ways, table_of
from apps.tools.measure.figure import Figure, widen_by_accuracy
from apps.tools.measure.layers import Measured, needs_length, open_source, to_features
from apps.tools.measure.lengths import POLYGONS, measure_length, require_length_of
from apps.tools.measure.relations import apply_relation
from apps.tools.region import polygon_from_geojson
from apps.tools.units import AREA_M2, DENSITY, LENGTH_M, SHARE, factor

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
    require_length_of(spec, subject)
    if spec.statistic and (spec.metric not in ("area", "length") or spec.each or spec.clip):
        raise ModelError("A statistic is one of the areas or lengths of single instances, neither cut nor listed.",
                         code="BAD_ARGUMENT")
    notes |= apply_conditions(ctx, subject, opened, [c for c in spec.where if c.is_given])
    whole = (_whole(ctx, arguments, subject, reference) if spec.denominator == "subject" and not spec.clip and not spec.each
             else None)
    rest = apply_conditions(ctx, subject, opened, [c for c in spec.where if not c.is_given])
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
        near = near_limit(ctx, subject, [reference, *others], spec) if _of(arguments, subject, reference) == "count" else None
        notes |= apply_relation(subject, [reference, *others], spec.relation, spec.distance_m, spec.nearest_k,
                                is_cancelled=ctx.is_cancelled)
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
        base = measure_count(subject)
        out, more = near_limits(notes)
        if out or more:
            base.low, base.high = max(0.0, (base.value if base.low is None else base.low) - out), (
                base.value if base.high is None else base.high) + more
            base.evidence["interval_from"] = "instances so near to a limit that half a pixel of their outline decides"
        widen_count_by_accuracy(ctx, base, [m for m in (subject, reference, *others) if m is not None], near, spec.relation)
    elif spec.metric == "distance":
        base = measure_distance(ctx, subject, reference, spec.distance_statistic, spec.distance_between)
    elif spec.metric == "length":
        base = measure_length(ctx, subject, spec.length_of)
    elif spec.metric == "ratio":
        base = measure_area_or_px(ctx, subject)
    else:
        base = measure_area(ctx, subject)
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
    ways = Ways(measure_count, measure_area,
                lambda: measure_distance(ctx, subject, reference, "minimum", spec.distance_between), to_features)
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
        whole = measure_area(ctx, subject)
        outline = shapely.union_all(shapes) if shapes else shapely.Polygon()
        base = measure_area(ctx, mask_cut(subject, ground, outline, spec.relation))
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
            rim = sum(ground.length_m(g.boundary) for p in found.pieces for g in parts(p, POLYGONS))
            if rim or not (features and shapes):
                widen_by_accuracy(ctx, base, [subject, reference],
                                  lambda off: (off * rim, off * rim + math.pi * off * off * len(found.pieces)))
            else:
                # nothing is left, and no rim tells how much could be
                widen_by_accuracy(ctx, base, [subject, reference], lambda _: (
                    0.0, left_if_moved(subject, features, reference, shapes, spec.relation, ground)))
                if base.high == 0:
                    base.low = base.high = None
                    ctx.log("info", "Nothing would be left either where points lie off by as much as is said: no interval.")
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
    return (measure_count(subject) if of_count else measure_area_or_px(ctx, subject)).value


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
        area, what = denominator_area(ctx, subject, spec.denominator, reference, region, region_crs)
        if area <= 0:
            raise ModelError(f"The denominator ({what}) has no area.", code="TOOL_FAILED")
        per = 1 / factor(unit, DENSITY, "density")
        base.denominator = area
        base.evidence |= {"denominator_is": what, "denominator_m2": area, "of": of}
        return base, "ratio", base.value / area * per, (
            None if base.low is None or base.high is None else (base.low / area * per, base.high / area * per))
    scale = factor(unit, SHARE, "a ratio")
    denominator, what = denominator_of(ctx, subject, reference, spec.denominator, of, base, region, region_crs)
    if denominator <= 0:
        raise ModelError(f"The denominator ({what}) is empty, so there is no ratio.", code="TOOL_FAILED")
    base.numerator, base.denominator = base.value, denominator
    base.evidence |= {"denominator_is": what, "of": of}
    span = bounds(denominator * scale)
    if span is not None and what != "reference":
        span = (max(0.0, span[0]), min(1 / scale, span[1]))
    return base, "ratio", base.value / denominator / scale, span
