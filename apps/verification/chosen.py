"""Which instances of a source meet the conditions of a call, and the figure of each, by the verifier's own way.

Areas and lengths are those of the equal-area cylinder of ``cuts``, relations those of the plane of ``ground``; the tools measure
on the ellipsoid and in another plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import transformer
from apps.verification.case import Case, number_of
from apps.verification.cuts import Sheet, named_instances, of_kind
from apps.verification.globe import stands
from apps.verification.ground import (
    BY_A_HAIR,
    FINE_HAIR,
    HAIR,
    CannotPlaceError,
    Placed,
    place,
    source_of,
)
from apps.verification.units import dimension, to_si

# Two ways to measure one figure agree to this share of it.
REL = 2e-3


@dataclass(frozen=True, slots=True)
class Chosen:
    """``keep``: what meets all conditions; ``surely``, ``possibly``: what does so, or may do so, whatever way it is measured."""

    keep: NDArray[np.bool_]
    surely: NDArray[np.bool_]
    possibly: NDArray[np.bool_]

    @property
    def n_unsure(self) -> int:
        return int((self.possibly & ~self.surely).sum())


def conditions_of(spec: dict[str, Any]) -> list[dict[str, Any]]:
    """The further conditions of a call; CannotPlaceError where they are none that could be followed."""
    held = spec.get("where") or ()
    if not isinstance(held, (list, tuple)) or not all(isinstance(c, dict) for c in held):
        raise CannotPlaceError("the conditions cannot be read")
    return [dict(c) for c in held]


def is_of_same_region(case: Case, source: dict[str, Any]) -> bool:
    """Whether a mask was found within the region that the call is limited to, and needs no cut any more."""
    layer = source.get("layer")
    parent = next((p for p in case.parents if isinstance(layer, dict) and p.id == layer.get("observation")), None)
    return parent is not None and case.region is not None and parent.arguments.get("region") == case.region[0]


def instance_figures(shapes: Sequence[BaseGeometry], figure: str) -> NDArray[np.float64]:
    """m² or m of each shape in degrees: ``area``, ``length``, ``outline`` or ``extent``."""
    if not len(shapes):
        return np.zeros(0)
    if figure == "extent":
        return np.array([_reach_m(g) for g in shapes])
    sheet = Sheet.about(shapes)
    flat = [sheet.put(g) for g in shapes]
    if figure == "area":
        return np.array([float(shapely.area(of_kind(g, "area"))) for g in flat])
    return np.array([sheet.length_m(g.boundary if figure == "outline" else g) for g in flat])


def _reach_m(globe: BaseGeometry) -> float:
    """The long side of the smallest rectangle about a shape, in a transverse Mercator plane of its own."""
    lon, lat = shapely.get_coordinates(globe.convex_hull.centroid)[0]
    plane = transformer("EPSG:4326", f"+proj=tmerc +lat_0={lat:.6f} +lon_0={lon:.6f} +datum=WGS84 +units=m")
    flat = shapely.transform(globe, lambda p: np.column_stack(plane.transform(p[:, 0], p[:, 1])))
    corners = shapely.get_coordinates(shapely.minimum_rotated_rectangle(flat))
    return float(np.linalg.norm(np.diff(corners, axis=0), axis=1).max())


def boxes_in_metres(case: Case, spec: dict[str, Any]) -> NDArray[np.float64] | None:
    """Long sides of the boxes that a detector found in a picture without a CRS, in metres of its GSD; None for anything else."""
    try:
        asked = source_of(case, str(spec.get("subject") or "subject"))
    except CannotPlaceError:
        return None
    layer = asked.get("layer")
    parent = next((p for p in case.parents if isinstance(layer, dict) and p.id == layer.get("observation")), None)
    scene = next(iter(case.scenes.values())) if len(case.scenes) == 1 else None
    if asked.get("mode") != "objects" or parent is None or scene is None or scene.grid.crs is not None or case.is_limited:
        return None
    label = str(layer.get("label") or "") if isinstance(layer, dict) else ""
    refs = [r for r in parent.result.layers if r.kind == "boxes" and not r.is_aside and label in ("", r.label)]
    gsd = number_of(asked.get("gsd_m")) or scene.effective_gsd_m
    if len(refs) != 1 or gsd is None:
        return None
    bounds = np.array([shape(f["geometry"]).bounds for f in case.features(refs[0])], dtype=np.float64).reshape(-1, 4)
    return np.asarray(np.maximum(bounds[:, 2] - bounds[:, 0], bounds[:, 3] - bounds[:, 1]) * gsd)


def met(case: Case, spec: dict[str, Any], subject: Placed) -> Chosen:
    """Which instances meet the call's further conditions. CannotPlaceError where one cannot be followed."""
    everything = np.ones(len(subject.shapes), dtype=bool)
    keep, surely, possibly = everything, everything, everything
    asked = conditions_of(spec)
    for condition in (c for c in asked if not c.get("pick")):
        one, low, high = _by_figure(subject, condition) if condition.get("figure") else _by_relation(case, subject, condition)
        keep, surely, possibly = keep & one, surely & low, possibly & high
    for condition in (c for c in asked if c.get("pick")):
        keep, surely, possibly = _extreme(subject, condition, keep, possibly)
    return Chosen(keep, surely, possibly)


def _extreme(subject: Placed, condition: dict[str, Any], keep: NDArray[np.bool_], possibly: NDArray[np.bool_]) -> Three:
    """The one of those kept with the extreme figure; surely only where no other that is possible comes near to it."""
    values, turn = instance_figures(subject.shapes, str(condition["figure"])), -1.0 if condition.get("pick") == "min" else 1.0
    if not keep.any():
        raise CannotPlaceError("there is none to pick")
    best = float((turn * values)[keep].max())
    mine = keep & (turn * values == best)
    near = possibly & (turn * values >= best - 2 * REL * abs(best) - 1e-6)
    return mine, mine & (int(near.sum()) == 1), near


Three = tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]


def _by_figure(subject: Placed, condition: dict[str, Any]) -> Three:
    figure, op = str(condition["figure"]), str(condition.get("op") or ">")
    unit = str(condition.get("unit") or ("m2" if figure == "area" else "m"))
    limit = to_si(number_of(condition.get("value")) or 0.0, unit)
    if limit is None or op not in (">", ">=", "<", "<=") or dimension(unit) != ("area" if figure == "area" else "length"):
        raise CannotPlaceError("a limit that is not followed here")
    values = instance_figures(subject.shapes, figure)
    room = REL * values + 1e-6
    if subject.pixel_m:
        outline = shapely.length(np.array([Sheet.about(subject.shapes).put(g) for g in subject.shapes], dtype=object))
        room = room + subject.pixel_m * (0.5 * outline if figure == "area" else 1.0)
    does = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}[op]
    sides = (does(values, limit), does(values - room, limit), does(values + room, limit))
    return sides[0], sides[1] & sides[2], sides[1] | sides[2]


def _by_relation(case: Case, subject: Placed, condition: dict[str, Any]) -> Three:
    relation = str(condition.get("relation") or "")
    reference = place(case, source_of(case, str(condition.get("reference") or "")))
    limit = number_of(condition.get("distance_m")) or 0.0

    def standing(distance: float, hair: float = HAIR) -> NDArray[np.bool_]:
        found = stands(relation, subject, reference, distance, 1, hair)
        if found is None:
            raise CannotPlaceError(f"the relation {relation} is not followed here")
        return found

    mine = standing(limit)
    if relation in BY_A_HAIR:
        fine = standing(limit, FINE_HAIR)
        return mine, mine & fine, mine | fine
    if relation not in ("within", "beyond"):
        return mine, mine, mine
    room = max(subject.pixel_m, reference.pixel_m, REL * limit)
    near, far = standing(max(0.0, limit - room)), standing(limit + room)
    return mine, mine & near & far, mine | near | far


def only_those(subject: Placed, keep: NDArray[np.bool_]) -> Placed:
    """The instances that are kept."""
    return Placed([g for g, k in zip(subject.shapes, keep, strict=True) if k], subject.pixel_m)


def statistic_of(values: NDArray[np.float64], statistic: str) -> float | None:
    """mean, median, minimum, maximum; None for another."""
    if not len(values):
        return None
    known = {"mean": values.mean(), "median": np.median(values), "minimum": values.min(), "maximum": values.max()}
    return float(known[statistic]) if statistic in known else None


# Rows of a table at most, as the tools have it: of more pieces of a mask only the largest are listed.
MAX_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Listed:
    """Instances that a table has rows of. ``sure`` and ``possible``: names that must and may be there."""

    zones: dict[str, list[BaseGeometry]]
    sure: list[str]
    possible: list[str]
    pixel_m: float
    is_whole: bool


def listed_of(case: Case, spec: dict[str, Any], source: dict[str, Any], region: dict[str, Any] | None, *, is_own: bool) -> Listed:
    """The instances whose figures a table lists. CannotPlaceError where they have no place."""
    is_mask = source.get("mode") == "regions"
    if is_mask and region is not None and not is_of_same_region(case, source):
        raise CannotPlaceError("a region that is not followed here")
    names, shapes, pixel_m = named_instances(case, source, None if is_mask else region)
    chosen = met(case, spec, Placed(shapes, pixel_m)) if is_own else met(case, {}, Placed(shapes, pixel_m))
    zones: dict[str, list[BaseGeometry]] = {}
    for name, shape_, may in zip(names, shapes, chosen.possibly, strict=True):
        if may:
            zones.setdefault(name, []).append(shape_)
    sure = list(dict.fromkeys(n for n, s in zip(names, chosen.surely, strict=True) if s))
    return Listed(zones, sure, list(zones), pixel_m, is_whole=not (is_mask and len(names) > MAX_ROWS))
