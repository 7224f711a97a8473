"""Distances over the globe by the verifier's own way: outlines as points in space, the nearest of which are joined by a geodesic.

It stands in where things lie too far apart for one plane. Spacing of the points bounds by how much a distance may be too long:
spacing² / (8 × distance) beside an edge; of shapes nearer than ``NEAR_M`` the edges about the closest points lie in a plane.
"""

from __future__ import annotations

import math

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import Geod
from scipy.spatial import cKDTree
from shapely.geometry.base import BaseGeometry

from apps.verification.ground import HAIR, WITHOUT_METRES, CannotPlaceError, Placed, on_plane, standing_in

_GEOD = Geod(ellps="WGS84")
# Degrees between points of an outline at best, and points of all outlines together at most.
STEP_DEG, MOST_POINTS = 0.05, 600_000
NEAR_M = 100_000.0
# Pairs of points, nearest in space, whose way over the ellipsoid is looked at: a chord may rank them otherwise.
_PAIRS = 40
_FROM_METRES = frozenset({"within", "beyond", "nearest"})


def gaps_m(one: Placed, other: Placed, *, is_same: bool = False) -> NDArray[np.float64]:
    """Metres from each of ``one`` to the nearest of ``other`` (of ``one`` but itself for ``is_same``), in one plane where that is
    true to all, else over the globe. CannotPlaceError where there are too many outlines to follow."""
    try:
        mine, theirs = on_plane(one, other)
    except CannotPlaceError:
        return _over_globe(one.shapes, other.shapes, is_same=is_same)
    flat = np.array(mine, dtype=object)
    found = shapely.STRtree(theirs).query_nearest(flat, all_matches=False, return_distance=True, exclusive=is_same)
    return np.asarray(found[1], dtype=np.float64)


def stands(
    relation: str, subject: Placed, reference: Placed, distance_m: float, nearest_k: int, hair: float = HAIR
) -> NDArray[np.bool_] | None:
    """As ``standing_in``, of things in degrees, however far they lie apart. CannotPlaceError where they can't be followed."""
    degrees = (subject.shapes, reference.shapes)
    if relation in WITHOUT_METRES or relation.endswith("_of"):
        return standing_in(relation, *degrees, distance_m, nearest_k, degrees, hair)
    try:
        one, other = on_plane(subject, reference)
    except CannotPlaceError:
        if relation not in _FROM_METRES or not reference.shapes:
            raise
        gaps = _over_globe(*degrees, is_same=False)
        if relation != "nearest":
            return np.asarray(gaps <= distance_m) if relation == "within" else np.asarray(gaps > distance_m)
        out = np.zeros(len(gaps), dtype=bool)
        out[np.argsort(gaps, kind="stable")[:nearest_k]] = True
        return out
    return standing_in(relation, one, other, distance_m, nearest_k, degrees, hair)


def _over_globe(one: list[BaseGeometry], other: list[BaseGeometry], *, is_same: bool) -> NDArray[np.float64]:
    total = float(sum(g.length for g in (*one, *other)))
    if total / STEP_DEG > MOST_POINTS:
        raise CannotPlaceError("outlines too long to be followed over the globe")
    theirs = [_points(g) for g in other]
    at = np.concatenate(theirs)
    owner = np.repeat(np.arange(len(theirs)), [len(p) for p in theirs])
    tree, space = (None, _space(at)) if is_same else (cKDTree(_space(at)), np.zeros((0, 3)))
    meets = shapely.STRtree(other)
    out = np.zeros(len(one))
    for i, g in enumerate(one):
        if any(not (is_same and k == i) for k in meets.query(g, predicate="intersects")):
            continue
        points = theirs[i] if is_same else _points(g)
        free = np.flatnonzero(owner != i) if is_same else None
        held = cKDTree(space[free]) if free is not None else tree
        assert held is not None
        chord, index = held.query(_space(points))
        first = np.argsort(chord, kind="stable")[:_PAIRS]
        far = at[free[index[first]] if free is not None else index[first]]
        near = points[first]
        metres = _GEOD.inv(near[:, 0], near[:, 1], far[:, 0], far[:, 1])[2]
        k = int(np.argmin(metres))
        out[i] = metres[k]
        if out[i] < NEAR_M:
            rest = [h for j, h in enumerate(other) if not (is_same and j == i)]
            out[i] = min(out[i], _beside(g, rest, near[k], far[k]))
    return out


def _points(g: BaseGeometry) -> NDArray[np.float64]:
    return np.asarray(shapely.get_coordinates(shapely.segmentize(g, STEP_DEG)), dtype=np.float64)


def _space(lonlat: NDArray[np.float64]) -> NDArray[np.float64]:
    """Points of the ellipsoid of WGS 84 in metres from its middle."""
    lon, lat = np.radians(lonlat[:, 0]), np.radians(lonlat[:, 1])
    e2 = _GEOD.es
    n = _GEOD.a / np.sqrt(1 - e2 * np.sin(lat) ** 2)
    return np.column_stack([n * np.cos(lat) * np.cos(lon), n * np.cos(lat) * np.sin(lon), n * (1 - e2) * np.sin(lat)])


def _beside(g: BaseGeometry, others: list[BaseGeometry], here: NDArray[np.float64], there: NDArray[np.float64]) -> float:
    """The distance of what of both lies about two near points, in a plane about these."""
    x, y = float(here[0] + there[0]) / 2, float(here[1] + there[1]) / 2
    if abs(float(here[0] - there[0])) > 180:
        return math.inf  # the window would be the whole way round
    width = min(2.0 / max(math.cos(math.radians(min(abs(y), 85.0))), 0.05), 10.0)
    window = shapely.box(x - width, y - 2, x + width, y + 2)
    parts = [shapely.intersection(g, window), shapely.union_all([shapely.intersection(h, window) for h in others])]
    if any(p.is_empty for p in parts):
        return math.inf
    try:
        (mine,), (theirs,) = on_plane(*(Placed([p]) for p in parts))
    except CannotPlaceError:
        return math.inf
    return float(shapely.distance(mine, theirs))
