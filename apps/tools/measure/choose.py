"""Instances one by one: the figure of each, which of them meet further conditions, and statistics over them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np
import shapely
from pydantic import JsonValue
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.tools.contract import Condition, ToolContext
from apps.tools.measure.accuracy import lines_slack_m
from apps.tools.measure.clip import brought_to, ground_of, parts
from apps.tools.measure.layers import Measured, Plane, needs_length, to_features
from apps.tools.measure.relations import apply_relation, keep_only
from apps.tools.units import AREA_M2, LENGTH_M, factor

_AREAS = ("Polygon", "MultiPolygon")
_LINES = ("LineString", "MultiLineString", "LinearRing")
_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}
_TITLES = {"area": "an area", "length": "a length", "outline": "an outline"}


def figures_of(subject: Measured, figure: str) -> tuple[list[float], list[float]]:
    """(figure of each instance, by how much it may be off) in m² or m: ``area``, ``length`` of lines, length of the ``outline``
    with holes, or ``extent``, the long side of the smallest rectangle about it. Off: half a pixel along the outline of what is
    made of pixels, else what the accuracy of drawn shapes leaves open, or 0. ModelError where an instance has no such figure; a
    mask becomes its pieces."""
    needs_length(subject)
    to_features(subject)
    held = subject.features or []
    is_of_pixels = subject.crs == "image" and subject.source.mode != "extent"
    if figure == "outline" and is_of_pixels:
        raise ModelError("The outline of pixels is a staircase, up to a quarter longer than that of the ground; ask for the "
                         "area, or for the perimeter of polygons in a file.", code="BAD_ARGUMENT")
    flat = [g.geom_type for g in held if not parts(g, _LINES if figure == "length" else _AREAS)]
    if flat:
        kind = "lines" if figure == "length" else "polygons"
        raise ModelError(f"{len(flat)} of {len(held)} instances of {subject.source.name} are no {kind} and have no {figure}.",
                         code="BAD_ARGUMENT")
    ground = ground_of(subject)
    shapes = brought_to(ground, subject, held)
    if figure == "area":
        values = [ground.area_m2(g) for g in shapes]
    elif figure == "extent":
        plane = Plane([subject])
        values = [_long_side(plane.place(subject, g)) for g in held]
    else:
        values = [ground.length_m(g.boundary if figure == "outline" else g) for g in shapes]
    pixel = pixel_side_m(subject) if is_of_pixels else 0.0
    if not pixel and subject.accuracy is not None:
        return values, _drawn_slack(subject, figure, held, [ground.length_m(g.boundary) for g in shapes])
    if not pixel:
        return values, [0.0] * len(values)
    if figure == "area":
        return values, [0.5 * pixel * ground.length_m(g.boundary) for g in shapes]
    return values, [pixel] * len(values)


def _drawn_slack(subject: Measured, figure: str, held: Sequence[BaseGeometry], outlines_m: Sequence[float]) -> list[float]:
    """By how much the figure of each drawn shape may be off, for its points may lie off."""
    assert subject.accuracy is not None
    off = subject.accuracy.metres
    if figure == "area":
        return [off * m + math.pi * off * off for m in outlines_m]
    if figure == "extent":
        return [2 * off] * len(held)
    plane = Plane([subject])
    return [max(lines_slack_m([plane.place(subject, g.boundary if figure == "outline" else g)], off)) for g in held]


def _long_side(geometry: BaseGeometry) -> float:
    ring = shapely.get_coordinates(shapely.oriented_envelope(geometry))
    return float(max(np.linalg.norm(np.diff(ring, axis=0), axis=1), default=0.0))


def pixel_side_m(subject: Measured) -> float:
    """The longer side of a pixel in metres; 0 where its size is not known."""
    if subject.grid is not None and subject.grid.crs is not None:
        return max(subject.grid.pixel_sides_m())
    return subject.gsd_m or 0.0


def apply_conditions(ctx: ToolContext, subject: Measured, opened: Mapping[str, Measured], where: Sequence[Condition]
                     ) -> dict[str, JsonValue]:
    """Keeps the subject's instances that meet all conditions; those on figures come first, so that they are told of all. What
    was left at each condition goes on record, and how many are so near to a limit that a pixel decides."""
    record: list[JsonValue] = []
    for condition in sorted(where, key=lambda c: (bool(c.pick), not c.figure)):
        if condition.pick:
            record.append(_the_extreme(subject, condition))
            continue
        if condition.figure:
            record.append(_by_figure(subject, condition))
            continue
        reference = opened.get(condition.reference)
        if reference is None:
            raise ModelError(f"There is no source named {condition.reference!r}; sources: {', '.join(opened)}.",
                             code="BAD_ARGUMENT")
        found = apply_relation(subject, [reference], condition.relation, condition.distance_m, is_cancelled=ctx.is_cancelled)
        record.append({"condition": condition.relation, "reference": condition.reference, "distance_m": condition.distance_m,
                       "n_before": found["n_before_relation"], "n_after": found["n_after_relation"],
                       "rule": found["relation_rule"]})
    return {"conditions": record} if record else {}


def _the_extreme(subject: Measured, condition: Condition) -> dict[str, JsonValue]:
    """Keeps the instance with the largest or least figure. ModelError where there is none, or two are too alike to tell."""
    if subject.layer is not None and subject.layer.kind == "boxes":
        raise ModelError(f"{subject.source.name} are found as boxes, which have no {condition.figure} of their own to compare.",
                         code="BAD_ARGUMENT")
    values, slack = figures_of(subject, condition.figure)
    if not values:
        raise ModelError(f"The layer {subject.source.name} is empty: there is none to pick.", code="TOOL_FAILED")
    order = sorted(range(len(values)), key=lambda i: values[i], reverse=condition.pick == "max")
    first = order[0]
    alike = [i for i in order[1:] if abs(values[i] - values[first]) <= max(slack[i] + slack[first], 1e-9 * values[first])]
    if alike:
        raise ModelError(f"{len(alike) + 1} instances of {subject.source.name} are so alike in {condition.figure} that it can't "
                         "be told which is the one.", code="TOOL_FAILED")
    keep_only(subject, [i == first for i in range(len(values))])
    name = str((subject.properties or [{}])[0].get(subject.source.name_field, "")) if subject.source.name_field else ""
    return {"condition": condition.figure, "pick": condition.pick, "n_before": len(values), "n_after": 1, "figure": values[first],
            "name": name[:120], "rule": f"the instance with the {'largest' if condition.pick == 'max' else 'least'} figure"}


def _by_figure(subject: Measured, condition: Condition) -> dict[str, JsonValue]:
    assert condition.value is not None
    is_area = condition.figure == "area"
    if subject.layer is not None and subject.layer.kind == "boxes":
        raise ModelError(f"{subject.source.name} are found as boxes, which have no {condition.figure} of their own to compare.",
                         code="BAD_ARGUMENT")
    unit = condition.unit or ("m2" if is_area else "m")
    limit = condition.value * factor(unit, AREA_M2 if is_area else LENGTH_M, condition.figure)
    values, slack = figures_of(subject, condition.figure)
    does = _COMPARE[condition.op]
    keep = [does(v, limit) for v in values]
    near = [abs(v - limit) <= s for v, s in zip(values, slack, strict=True)]
    n_before = len(values)
    keep_only(subject, keep)
    return {"condition": condition.figure, "op": condition.op, "limit": limit, "limit_unit": "m2" if is_area else "m",
            "n_before": n_before, "n_after": sum(keep),
            "n_near_in": sum(k and n for k, n in zip(keep, near, strict=True)),
            "n_near_out": sum(n and not k for k, n in zip(keep, near, strict=True)),
            "rule": f"instances with {_TITLES[condition.figure]} {condition.op} the limit"}


def near_limits(notes: Mapping[str, JsonValue]) -> tuple[int, int]:
    """(instances that may fall out, instances that may come in) because a pixel decides about a limit."""
    held = [c for c in cast(list[JsonValue], notes.get("conditions") or []) if isinstance(c, dict)]
    return (sum(int(str(c.get("n_near_in", 0))) for c in held), sum(int(str(c.get("n_near_out", 0))) for c in held))


def statistic_of(values: Sequence[float], statistic: str) -> float:
    """mean, median, minimum or maximum."""
    held = np.asarray(values, dtype=np.float64)
    return float({"mean": held.mean(), "median": np.median(held), "minimum": held.min(), "maximum": held.max()}[statistic])


__all__ = ["apply_conditions", "figures_of", "near_limits", "pixel_side_m", "statistic_of"]
