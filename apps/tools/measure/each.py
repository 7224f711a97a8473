"""One figure for each feature of a layer: of a subject inside of (or near to) each polygon of another, or of its own features.

Each row stands for itself: what lies in two polygons that overlap is in the rows of both. The record holds beside the rows what
all of them together hold with nothing counted twice, and what lies in none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import numpy as np
import shapely
from pydantic import JsonValue
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.core.geo.grid import transformer
from apps.tools.contract import MeasureArguments, ToolCancelledError, ToolContext
from apps.tools.execute.operators_tables import NO_NAME
from apps.tools.measure.choose import figures_of
from apps.tools.measure.clip import (
    brought_to,
    cut,
    ground_of,
    groups_of,
    mask_cut,
    outlines,
    total_of,
)
from apps.tools.measure.layers import Measured, to_features
from apps.tools.measure.relations import keep_only

MAX_ROWS = 1000


class Held(Protocol):
    """What a figure of a layer tells: see ``measure.Figure``."""

    value: float
    low: float | None
    high: float | None
    items: list[dict[str, JsonValue]]
    evidence: dict[str, JsonValue]


@dataclass(slots=True)
class Table:
    """Rows in the base unit (m², m, 1): zone, value, and what it was made of. ``total``: all rows together, nothing twice."""

    rows: list[dict[str, JsonValue]]
    total: float | None = None
    denominator: float | None = None
    level: float | None = None
    evidence: dict[str, JsonValue] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Ways:
    """How a layer is counted, its area, and distances taken: as for a single figure."""

    count: Callable[[Measured], Held]
    area: Callable[[ToolContext, Measured], Held]
    distance: Callable[[], Held]
    to_features: Callable[[Measured], None]


def table_of(ctx: ToolContext, arguments: MeasureArguments, subject: Measured, reference: Measured | None, ways: Ways) -> Table:
    """The rows of a call with ``each``. ModelError where the call names no such source, or too many features."""
    spec = arguments.spec
    listed = subject if spec.each in (subject.source.name, "subject") else reference
    if listed is None or (spec.each not in (listed.source.name, "subject", "reference")):
        raise ModelError(f"There is no source named {spec.each!r} to list.", code="BAD_ARGUMENT")
    if listed.mask is not None and listed is not subject:
        raise ModelError("A mask has no features to list other things in; name a vector file.", code="BAD_ARGUMENT")
    n_pieces = _pieces_listed(listed, spec.pick if spec.metric == "area" else "")
    groups = groups_of(listed)
    if len(groups) > MAX_ROWS:
        raise ModelError(f"{len(groups)} rows are more than {MAX_ROWS}; choose features by their names.", code="TOO_LARGE")
    if not groups and spec.where and listed is subject:
        return Table([], 0.0, evidence={"n_rows": 0, "n_listed": 0, "rows_of": listed.source.name,
                                        "rows_named_by": listed.source.name_field or None})
    if not groups:
        raise ModelError(f"The layer {listed.source.name} is empty: there is nothing to list.", code="TOOL_FAILED")
    if listed is subject:
        out = _of_its_own(arguments, subject, reference, groups, ways)
    elif spec.metric in ("count", "density"):
        out = _counts(ctx, arguments, subject, listed, groups, ways)
    elif spec.metric in ("area", "length", "ratio"):
        out = _amounts(ctx, arguments, subject, listed, groups, ways)
    else:
        raise ModelError(f"A {spec.metric} is not given for each of {listed.source.name}.", code="BAD_ARGUMENT")
    n_features = len(listed.features or [])
    if n_pieces > len(groups):
        out.evidence["n_pieces"] = n_pieces
        out.warnings.append(f"{listed.source.name} has {n_pieces} pieces; the {len(groups)} largest are listed.")
    out.evidence |= {"n_rows": len(groups), "n_listed": n_features, "rows_of": listed.source.name,
                     "rows_named_by": listed.source.name_field or None}
    if any(name == NO_NAME for name, _ in groups):
        out.warnings.append(f"Some features of {listed.source.name} have no {listed.source.name_field}; they stand together as "
                            f"“{NO_NAME}”.")
    return out


def _pieces_listed(listed: Measured, pick: str) -> int:
    """The number of pieces of a mask, which become features: of too many only the largest, where those are asked for."""
    if listed.mask is None:
        return 0
    to_features(listed)
    held = listed.features or []
    n = len(held)
    if n > MAX_ROWS and pick == "max":
        largest = set(np.argsort([-g.area for g in held], kind="stable")[:MAX_ROWS].tolist())
        keep_only(listed, [i in largest for i in range(n)])
    return n


def _where(subject: Measured, geometry: BaseGeometry) -> dict[str, JsonValue]:
    """Where the middle of a shape lies: degrees, or pixels of a picture without CRS."""
    ground = ground_of(subject)
    at = brought_to(ground, subject, [geometry])[0].centroid
    if ground.crs is None:
        return {"column": round(at.x, 1), "row": round(at.y, 1)}
    lon, lat = transformer(ground.crs, "EPSG:4326").transform(at.x, at.y)
    return {"lon": round(float(lon), 6), "lat": round(float(lat), 6)}


def _of_its_own(arguments: MeasureArguments, subject: Measured, reference: Measured | None,
                groups: Sequence[tuple[str, list[int]]], ways: Ways) -> Table:
    """Area, length, number or distance of each feature of the subject itself."""
    spec = arguments.spec
    assert subject.features is not None
    if spec.metric == "distance":
        figure = ways.distance()
        gaps = [float(str(i["distance_m"])) for i in figure.items]
        if len(gaps) != len(subject.features):
            raise ModelError("The distances are not those of each feature.", code="TOOL_FAILED")
        pick = {"minimum": min, "maximum": max}.get(spec.distance_statistic, min)
        rows: list[dict[str, JsonValue]] = [
            {"zone": name, "value": pick(gaps[i] for i in at), "n_features": len(at)} for name, at in groups]
        if figure.high is not None:
            # how far the ends may lie off is the same for each
            off = figure.high - figure.value
            for one in rows:
                one |= {"low": max(0.0, float(str(one["value"])) - off), "high": float(str(one["value"])) + off}
        _place_rows(subject, rows, groups)
        how = {k: v for k in ("interval_is", "interval_from", "accuracy_m") if (v := figure.evidence.get(k)) is not None}
        return Table(rows, evidence={"to": reference.source.name if reference is not None else "the nearest other",
                                     "row_is": "the shortest distance of its features", **how})
    if spec.metric == "count":
        rows = [{"zone": name, "value": len(at), "n_features": len(at)} for name, at in groups]
        return Table(rows, float(len(subject.features)))
    if spec.metric not in ("area", "length"):
        raise ModelError(f"A {spec.metric} is not given for each feature of a layer itself.", code="BAD_ARGUMENT")
    if subject.layer is not None and subject.layer.kind == "boxes" and spec.metric == "area":
        raise ModelError(f"{subject.source.name} are found as boxes, which have no area of their own.", code="BAD_ARGUMENT")
    is_extent = spec.metric == "length" and (spec.length_of == "extent" or subject.source.mode == "objects")
    if is_extent or subject.source.mode != "extent":
        values, slack = figures_of(subject, "extent" if is_extent else spec.metric)
        if any(len(at) > 1 for _, at in groups):
            raise ModelError("Several polygons of one name have no long side together; list them one by one.",
                             code="BAD_ARGUMENT")
        rows = []
        for name, at in groups:
            row: dict[str, JsonValue] = {"zone": name, "value": values[at[0]], "n_features": 1}
            if slack[at[0]]:
                row |= {"low": max(0.0, values[at[0]] - slack[at[0]]), "high": values[at[0]] + slack[at[0]]}
            rows.append(row)
        _place_rows(subject, rows, groups)
        return Table(rows, float(sum(values)), evidence={"method": "geodesic" if subject.is_georeferenced else "gsd",
                                                          "row_is": "long side" if is_extent else spec.metric})
    ground = ground_of(subject)
    shapes = brought_to(ground, subject, subject.features)
    rows = []
    off_by = _drawn_slack(subject, spec.metric)
    for name, at in groups:
        value = total_of(ground, [shapes[i] for i in at], spec.metric)
        off = 0.0 if off_by is None else sum(off_by[i] for i in at)
        rows.append({"zone": name, "value": value, "n_features": len(at),
                     **({} if off_by is None else {"low": max(0.0, value - off), "high": value + off})})
    total = total_of(ground, shapes, spec.metric)
    out = Table(rows, total, evidence={"method": "geodesic" if ground.crs else "gsd"})
    if off_by is not None and subject.accuracy is not None:
        out.evidence |= {"interval_from": subject.accuracy.text, "accuracy_m": subject.accuracy.metres,
                         "interval_is": "floor" if subject.accuracy.is_floor else "declared"}
    _tell_double(out, sum(float(str(r["value"])) for r in rows), spec.metric, subject.source.name)
    return out


def _drawn_slack(subject: Measured, metric: str) -> list[float] | None:
    """By how much the area or length of each drawn feature may be off; None where how exact they are is not known."""
    if subject.accuracy is None:
        return None
    try:
        return figures_of(subject, metric)[1]
    except ModelError:
        return None


def _place_rows(subject: Measured, rows: list[dict[str, JsonValue]], groups: Sequence[tuple[str, list[int]]]) -> None:
    """Says where rows lie that have a number instead of a name."""
    if subject.source.name_field:
        return
    assert subject.features is not None
    for row, (_, at) in zip(rows, groups, strict=True):
        row |= _where(subject, subject.features[at[0]])


def _counts(ctx: ToolContext, arguments: MeasureArguments, subject: Measured, listed: Measured,
            groups: Sequence[tuple[str, list[int]]], ways: Ways) -> Table:
    """How many of the subject's instances have their middle in each zone, or lie within a distance of it."""
    spec = arguments.spec
    relation = spec.relation or "inside"
    if relation not in ("inside", "within"):
        raise ModelError(f"For each of several the relation is inside or within, not {relation}.", code="BAD_ARGUMENT")
    ways.to_features(subject)
    assert subject.features is not None and listed.features is not None
    ground = ground_of(subject)
    shapes = np.array(brought_to(ground, subject, subject.features), dtype=object)
    at = shapely.centroid(shapes) if relation == "inside" else shapes
    tree = shapely.STRtree(at)
    hits = np.zeros(len(shapes), dtype=int)
    rows: list[dict[str, JsonValue]] = []
    level: float | None = None
    zones: list[BaseGeometry] = []
    for name, members in groups:
        if ctx.is_cancelled():
            raise ToolCancelledError
        members_of = [listed.features[i] for i in members]
        zone = shapely.union_all(outlines(ground, listed, members_of, relation, spec.distance_m or 0.0))
        zones.append(zone)
        keep = np.zeros(len(shapes), dtype=bool)
        if len(shapes):
            keep[tree.query(zone, predicate="intersects")] = True
        hits += keep
        figure = ways.count(_chosen(subject, keep))
        row: dict[str, JsonValue] = {"zone": name, "value": int(figure.value), "n_features": len(members)}
        if figure.low is not None and figure.high is not None:
            level = getattr(figure, "level", None)
            row |= {"low": figure.low, "high": figure.high}
        if spec.metric == "density":
            area = ground.area_m2(zone)
            row |= {"value": figure.value / area if area > 0 else None, "numerator": int(figure.value), "denominator_m2": area}
            if area > 0 and figure.low is not None and figure.high is not None:
                row |= {"low": figure.low / area, "high": figure.high / area}
        rows.append(row)
    total, several = int((hits > 0).sum()), int((hits > 1).sum())
    out = Table(rows, float(total), level=level, evidence={
        "relation": relation, "relation_rule": "the centroid lies in the polygon" if relation == "inside"
        else "the edge distance is at most distance_m", "n_subject": len(shapes), "n_in_none": len(shapes) - total,
        "n_in_several": several})
    if spec.metric == "density":
        out.denominator = ground.area_m2(shapely.union_all(zones))
        out.evidence["denominator_is"] = "reference"
    if several:
        out.warnings.append(f"{several} of {len(shapes)} lie in more than one of {listed.source.name} and are counted in each; "
                            f"{total} different ones lie in any.")
    return out


def _chosen(subject: Measured, keep: np.ndarray) -> Measured:
    assert subject.features is not None
    at = np.flatnonzero(keep)
    return replace(subject, features=[subject.features[i] for i in at],
                   properties=[subject.properties[i] if i < len(subject.properties) else {} for i in at], candidates=[],
                   is_whole=subject.is_whole and bool(np.all(keep)))


def _amounts(ctx: ToolContext, arguments: MeasureArguments, subject: Measured, listed: Measured,
             groups: Sequence[tuple[str, list[int]]], ways: Ways) -> Table:
    """Area or length of the subject cut to each zone, or the share of each zone that it covers."""
    spec = arguments.spec
    relation = spec.relation or "inside"
    if not spec.clip or relation not in ("inside", "within"):
        raise ModelError(f"The {spec.metric} of {subject.source.name} in each of {listed.source.name} is that of its parts: give "
                         "clip, with the relation inside or within.", code="BAD_ARGUMENT")
    of = "length" if spec.metric == "length" else "area"
    if spec.metric == "ratio" and (spec.denominator or "reference") != "reference":
        raise ModelError("For each polygon the denominator is its own area: reference.", code="BAD_ARGUMENT")
    assert listed.features is not None
    ground = ground_of(subject)
    is_mask = subject.mask is not None
    if is_mask and of == "length":
        raise ModelError("The length of a mask is not cut to polygons.", code="BAD_ARGUMENT")
    held = [] if is_mask else brought_to(ground, subject, subject.features or [])
    tree = None if is_mask else shapely.STRtree(held)
    rows: list[dict[str, JsonValue]] = []
    zones: list[BaseGeometry] = []
    for name, members in groups:
        if ctx.is_cancelled():
            raise ToolCancelledError
        shapes = outlines(ground, listed, [listed.features[i] for i in members], relation, spec.distance_m or 0.0)
        zone = shapely.union_all(shapes)
        zones.append(zone)
        row: dict[str, JsonValue] = {"zone": name, "n_features": len(members)}
        if is_mask:
            figure = ways.area(ctx, mask_cut(subject, ground, zone, relation))
            amount, low, high = figure.value, figure.low, figure.high
            if low is not None and high is not None:
                row |= {"low": low, "high": high}
        else:
            assert tree is not None
            near = [held[int(i)] for i in np.sort(tree.query(zone, predicate="intersects"))]
            found = cut(subject, near, [zone], relation, ground, of)
            amount = found.amount
            row["n_kept"] = found.evidence["n_kept"]
        if spec.metric == "ratio":
            area = ground.area_m2(zone)
            row |= {"value": amount / area if area > 0 else None, "numerator": amount, "denominator": area}
            for key in ("low", "high"):
                if key in row and area > 0:
                    row[key] = min(1.0, max(0.0, float(str(row[key])) / area))
        else:
            row["value"] = amount
        rows.append(row)
    out = Table(rows, evidence={"cut": of, "relation": relation, "method": "geodesic" if ground.crs else "gsd"})
    everything = shapely.union_all(zones)
    if is_mask:
        out.total = ways.area(ctx, mask_cut(subject, ground, everything, relation)).value
        whole = ways.area(ctx, subject).value
    else:
        all_of = cut(subject, held, [everything], relation, ground, of)
        out.total, whole = all_of.amount, all_of.whole
    unit = "m2" if of == "area" else "m"
    out.evidence |= {f"whole_{unit}": whole, f"in_none_{unit}": max(0.0, whole - out.total)}
    amounts = [float(str(r["numerator"] if spec.metric == "ratio" else r["value"])) for r in rows]
    _tell_double(out, sum(amounts), of, listed.source.name)
    if spec.metric == "ratio":
        out.denominator = ground.area_m2(everything)
        out.evidence["denominator_is"] = "reference"
    return out


def _tell_double(out: Table, added: float, of: str, name: str) -> None:
    """Puts on record by how much the rows hold the same ground twice, and says so where it is more than a trace."""
    assert out.total is not None
    unit = "m2" if of == "area" else "m"
    double = max(0.0, added - out.total)
    out.evidence[f"in_several_{unit}"] = double
    if double > 1e-6 * max(out.total, 1e-9):
        out.warnings.append(f"Polygons of {name} overlap: what lies in several stands in the row of each, so the rows add up to "
                            f"{added:,.0f} {unit}, of which {out.total:,.0f} {unit} are different.")
