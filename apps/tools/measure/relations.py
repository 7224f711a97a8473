"""Relations between layers: which instances of a subject stand in one to the references together."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from pyproj import CRS
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ToolAbstainedError
from apps.tools.measure.far import gaps_on_globe, lie_far, never, on_globe
from apps.tools.measure.layers import Measured, Plane, needs_length, to_features


def apply_relation(subject: Measured, references: Sequence[Measured], relation: str, distance_m: float | None = None,
                   nearest_k: int = 1, *, is_cancelled: Callable[[], bool] = never) -> dict[str, JsonValue]:
    """Keeps the subject's instances that stand in the relation to all references together; a mask becomes its pieces."""
    reference = references[0]
    needs_metres = relation in ("within", "nearest", "beyond")
    if needs_metres:
        needs_length(subject)
        for held in references:
            needs_length(held)
    if relation.endswith("_of") and not all(m.is_georeferenced for m in (subject, *references)):
        raise ToolAbstainedError(f"{relation.removesuffix('_of').capitalize()} is not known on a picture without CRS.",
                                 code="NEEDS_CRS", needs={"crs": True})
    to_features(subject)
    for held in references:
        to_features(held)
    assert subject.features is not None and reference.features is not None
    is_topology = not needs_metres and not relation.endswith("_of")
    plane: Plane | None = None
    slack = 0.0
    if is_topology and all(m.crs == subject.crs and (m.crs != "image" or m.grid == subject.grid) for m in (subject, *references)):
        # in one grid or CRS, common outlines are equal to the last digit: nothing is moved, nothing needs metres
        if subject.crs != "image":
            slack = 1e-9 if CRS.from_user_input(subject.crs).is_geographic else 1e-3
        one, other = list(subject.features), [g for m in references for g in m.features or []]
    else:
        plane, slack = Plane([subject, *references]), 1e-3  # shapes of different grids meet to within a millimetre at best
        one = [plane.place(subject, g) for g in subject.features]
        other = [plane.place(m, g) for m in references for g in m.features or []]
    n_before = len(one)
    if not other:
        keep = [relation in ("outside", "beyond", "not_overlapping", "apart")] * n_before
    elif needs_metres and lie_far([subject, *references]):
        gaps = _gaps(subject, references, is_cancelled)
        first = set(np.argsort(gaps, kind="stable")[:nearest_k].tolist())
        keep = [i in first if relation == "nearest" else bool((gap > (distance_m or 0.0)) == (relation == "beyond"))
                for i, gap in enumerate(gaps)]
    else:
        keep = _related(relation, one, other, distance_m or 0.0, nearest_k, plane, slack)
    keep_only(subject, keep)
    return {"relation": relation, "n_before_relation": n_before, "n_after_relation": sum(keep),
            "n_reference": len(other), "relation_rule": _RULES[relation]}


def _gaps(subject: Measured, references: Sequence[Measured], is_cancelled: Callable[[], bool]) -> NDArray[np.float64]:
    """Metres over the globe from each of the subject's instances to the nearest of the references."""
    others = [g for m in references for g in on_globe(m)]
    return np.array([g.metres for g in gaps_on_globe(on_globe(subject), others, is_cancelled=is_cancelled)])


def near_relation(subject: Measured, references: Sequence[Measured], relation: str, distance_m: float | None,
                  slack_m: float, *, is_cancelled: Callable[[], bool] = never) -> tuple[int, int]:
    """(instances in, instances out) that lie so near to where a relation (inside, outside, within, beyond) ends that ``slack_m``
    metres decide; asked before the relation chooses."""
    for held in (subject, *references):
        to_features(held)
    plane = Plane([subject, *references])
    one = [plane.place(subject, g) for g in subject.features or []]
    other = [plane.place(m, g) for m in references for g in m.features or []]
    if not one or not other:
        return 0, 0
    union = shapely.union_all(other)
    if relation in ("inside", "outside"):
        middles = shapely.centroid(np.array(one, dtype=object))
        is_in, gap = shapely.covers(union, middles), shapely.distance(union.boundary, middles)
    else:
        is_far = lie_far([subject, *references])
        away = _gaps(subject, references, is_cancelled) if is_far else shapely.distance(union, np.array(one, dtype=object))
        is_in, gap = away <= (distance_m or 0.0), np.abs(away - (distance_m or 0.0))
    keep = is_in if relation in ("inside", "within") else ~is_in
    near = gap <= slack_m
    return int((near & keep).sum()), int((near & ~keep).sum())


def keep_only(subject: Measured, keep: Sequence[bool]) -> None:
    """Leaves the features for which ``keep`` says so; weak candidates go, since nothing was asked of them."""
    assert subject.features is not None
    subject.is_whole = subject.is_whole and all(keep)
    properties = subject.properties or [{} for _ in subject.features]
    subject.features = [g for g, k in zip(subject.features, keep, strict=True) if k]
    subject.properties = [p for p, k in zip(properties, keep, strict=True) if k]
    subject.candidates = []


_RULES = {
    "inside": "the centroid lies in a reference shape", "wholly_inside": "no part lies outside of the reference shapes",
    "outside": "the centroid lies in no reference shape", "beyond": "the edge distance is more than distance_m",
    "not_overlapping": "they share no area, and no line or point crosses or lies in the other",
    "apart": "they have no point in common",
    "overlaps": "they share area; a line or point crosses or lies in the other", "touches": "they meet and do not overlap",
    "within": "the edge distance is at most distance_m", "north_of": "the centroid lies north of the reference's centroid",
    "south_of": "the centroid lies south of the reference's centroid", "east_of": "the centroid lies east of the reference's",
    "west_of": "the centroid lies west of the reference's centroid",
    "between": "the centroid lies in the hull of all references and in none of them",
    "nearest": "the nearest_k instances by edge distance"}


def _overlaps(g: BaseGeometry, union: BaseGeometry, slack: float) -> bool:
    """Whether they share area; where one of them has none (a line, a point), whether it crosses or lies in the other."""
    if not union.intersects(g):
        return False
    if g.area > 0 and union.area > 0:
        return bool(union.intersection(g).area > slack * g.length)
    return not union.touches(g)


def _related(relation: str, one: Sequence[BaseGeometry], other: Sequence[BaseGeometry], distance_m: float, nearest_k: int,
             plane: Plane | None, slack: float) -> list[bool]:
    union = shapely.union_all(list(other))
    shapely.prepare(union)
    if relation == "inside":
        return [bool(union.covers(g.centroid)) for g in one]
    if relation == "wholly_inside":
        near = union.buffer(slack) if slack else union
        return [bool(near.covers(g)) for g in one]
    if relation == "outside":
        return [not union.covers(g.centroid) for g in one]
    if relation == "beyond":
        return [bool(union.distance(g) > distance_m) for g in one]
    if relation == "apart":
        return [bool(union.distance(g) > slack) for g in one]
    if relation in ("overlaps", "not_overlapping"):
        return [_overlaps(g, union, slack) == (relation == "overlaps") for g in one]
    if relation == "touches":
        return [bool(union.distance(g) <= slack and not _overlaps(g, union, slack)) for g in one]
    if relation == "within":
        return [bool(union.distance(g) <= distance_m) for g in one]
    if relation == "between":
        hull = union.convex_hull
        return [bool(hull.contains(g.centroid) and not union.contains(g.centroid)) for g in one]
    if relation == "nearest":
        gaps = np.array([union.distance(g) for g in one])
        first = set(np.argsort(gaps, kind="stable")[:nearest_k].tolist())
        return [i in first for i in range(len(one))]
    assert plane is not None
    centre = plane.lonlat(union.centroid.x, union.centroid.y)
    assert centre is not None
    out = []
    for g in one:
        at = plane.lonlat(g.centroid.x, g.centroid.y)
        assert at is not None
        east = (at[0] - centre[0] + 180) % 360 - 180
        out.append({"north_of": at[1] > centre[1], "south_of": at[1] < centre[1], "east_of": east > 0,
                    "west_of": east < 0}[relation])
    return out
