"""Closest points of shapes that lie far apart on the globe, where no plane is true to both: outlines are taken as chains of
points on the ellipsoid, the nearest of which are found in space and refined in a small plane about them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from pyproj import Transformer
from scipy.spatial import cKDTree
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.core.geo.grid import geod_of, transformer
from apps.tools.contract import ToolCancelledError
from apps.tools.measure.layers import Measured

# Shapes that reach over more than this are measured on the globe: an azimuthal plane is true to 1e-4 within 500 km.
FAR_M = 800_000.0
# Degrees between points of an outline at best, and points of all outlines together at most.
STEP_DEG = 0.02
MAX_POINTS = 400_000
# Pairs of points that are looked at: with the edges beside them where shapes are nearer than NEAR_M, else as they are.
NEAR_M = 300_000.0
_CLOSE_PAIRS, _FAR_PAIRS = 300, 20_000
# Pairs of shapes that are looked at for the widest gap.
MOST_LOOKED_AT = 2000
# A chord through the ellipsoid may rank two pairs otherwise than the way over it by this share.
_RANK_SHARE = 3e-3
_TO_SPACE = Transformer.from_crs("EPSG:4979", "EPSG:4978", always_xy=True)


def lie_far(sources: Sequence[Measured]) -> bool:
    """Whether shapes of these sources reach further from their middle than a plane about it is true to."""
    corners: list[tuple[float, float]] = []
    for s in sources:
        if not s.is_georeferenced:
            return False
        if s.crs != "image":
            boxes = [g.bounds for g in s.features or []]
            if not boxes:
                continue
            x0, y0, x1, y1 = (f(b[k] for b in boxes) for k, f in enumerate((min, min, max, max)))
            lon, lat = transformer(s.crs, "EPSG:4326").transform([x0, x1, x1, x0], [y0, y0, y1, y1])
        else:
            assert s.grid is not None
            w, h = s.grid.width, s.grid.height
            lon, lat = s.grid.wgs84(*np.array([s.grid.xy(c, r) for c, r in ((0, 0), (w, 0), (w, h), (0, h))]).T)
        corners += list(zip(np.asarray(lon).tolist(), np.asarray(lat).tolist(), strict=True))
    if not corners:
        return False
    at = np.array(corners)
    if not np.isfinite(at).all():
        return False
    space = np.column_stack(_TO_SPACE.transform(at[:, 0], at[:, 1], np.zeros(len(at))))
    return bool(np.ptp(space, axis=0).max() > FAR_M)


def on_globe(source: Measured) -> list[BaseGeometry]:
    """The features of a source in longitude and latitude, edges as straight as they are in its own CRS."""
    out: list[BaseGeometry] = []
    for g in source.features or []:
        x0, y0, x1, y1 = g.bounds
        side = max(x1 - x0, y1 - y0)
        dense = shapely.segmentize(g, side / 64) if side > 0 and source.crs != "EPSG:4326" else g
        out.append(shapely.transform(dense, lambda p: _lonlat(source, p)))
    return out


def _lonlat(source: Measured, points: NDArray[np.float64]) -> NDArray[np.float64]:
    if source.crs != "image":
        return np.column_stack(transformer(source.crs, "EPSG:4326").transform(points[:, 0], points[:, 1]))
    assert source.grid is not None
    a, b, c, d, e, f = source.grid.transform
    return np.column_stack(source.grid.wgs84(a * points[:, 0] + b * points[:, 1] + c, d * points[:, 0] + e * points[:, 1] + f))


@dataclass(frozen=True, slots=True)
class Gap:
    """The shortest way between two shapes: metres, and its ends in degrees (longitude, latitude)."""

    metres: float
    start: tuple[float, float]
    end: tuple[float, float]


@dataclass(frozen=True, slots=True)
class _Chains:
    """Points of outlines in degrees and in space; ``line`` numbers the chain that each belongs to, ``owner`` the shape."""

    at: NDArray[np.float64]
    space: NDArray[np.float64]
    line: NDArray[np.int64]
    owner: NDArray[np.int64]


def never() -> bool:
    """Nobody cancels."""
    return False


def gaps_on_globe(one: Sequence[BaseGeometry], other: Sequence[BaseGeometry], *, is_same: bool = False,
                  is_cancelled: Callable[[], bool] = never) -> list[Gap]:
    """For each of ``one`` the gap to the nearest of ``other`` (but itself, where both are the same list), all in longitude and
    latitude of WGS 84 with straight edges between them; 0 where they meet. ``other`` is not empty, and holds two for ``is_same``.
    ToolCancelledError once ``is_cancelled`` says so, which is asked before each shape.
    """
    total = float(sum(g.length for g in (*one, *(() if is_same else other))))
    step = max(STEP_DEG, total / MAX_POINTS)
    mine = _chains(one, step)
    theirs = mine if is_same else _chains(other, step)
    chord, there = _nearest_of_others(mine) if is_same else cKDTree(theirs.space).query(mine.space)
    # the points of a shape follow each other
    begins = np.searchsorted(mine.owner, np.arange(len(one) + 1))
    meets = shapely.STRtree(list(other))
    out: list[Gap] = []
    for i, g in enumerate(one):
        if is_cancelled():
            raise ToolCancelledError
        touching = [k for k in meets.query(g, predicate="intersects") if not (is_same and k == i)]
        if touching:
            at = shapely.get_coordinates(shapely.point_on_surface(shapely.intersection(g, other[int(touching[0])])))
            place = (float(at[0, 0]), float(at[0, 1])) if len(at) else _first(g)
            out.append(Gap(0.0, place, place))
            continue
        own = np.arange(begins[i], begins[i + 1])
        out.append(_closest(mine, own, theirs, there[own], chord[own], step))
    return out


def _nearest_of_others(chains: _Chains) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """(chord, number) of the nearest point of another shape, for each point. Two shapes differ in a digit of their numbers: the
    points of either digit are looked up among those of the other, which takes a tree a digit and not one a shape."""
    chord, found = np.full(len(chains.owner), np.inf), np.zeros(len(chains.owner), dtype=np.int64)
    for digit in range(int(chains.owner.max()).bit_length()):
        is_set = (chains.owner >> digit) & 1 == 1
        for here in (is_set, ~is_set):
            mine, theirs = np.flatnonzero(here), np.flatnonzero(~here)
            if not (len(mine) and len(theirs)):
                continue
            gaps, at = cKDTree(chains.space[theirs]).query(chains.space[mine])
            nearer = gaps < chord[mine]
            chord[mine[nearer]], found[mine[nearer]] = gaps[nearer], theirs[at[nearer]]
    return chord, found


def farthest_on_globe(one: Sequence[BaseGeometry], other: Sequence[BaseGeometry], *,
                      is_cancelled: Callable[[], bool] = never) -> tuple[Gap, int, int]:
    """Of all pairs of a shape of ``one`` and of ``other`` (longitude and latitude of WGS 84) the one with the widest gap, and
    their numbers. No gap is wider than the way between a point of each, so pairs are looked at in the order of that way until it
    is shorter than the best gap. ModelError (TOO_LARGE) after MOST_LOOKED_AT pairs; ToolCancelledError."""
    geod = geod_of("EPSG:4326")
    here, there = (shapely.get_coordinates(shapely.point_on_surface(np.array(g, dtype=object))) for g in (one, other))
    ways = np.stack([geod.inv(np.full(len(there), x), np.full(len(there), y), there[:, 0], there[:, 1])[2] for x, y in here])
    best: tuple[Gap, int, int] | None = None
    for number, k in enumerate(np.argsort(-ways, axis=None, kind="stable").tolist()):
        i, j = divmod(k, len(other))
        if best is not None and ways[i, j] <= best[0].metres:
            break
        if number == MOST_LOOKED_AT:
            raise ModelError("The shapes are so large and so near to each other that it takes too many pairs to tell which are "
                             "farthest apart; choose fewer, or ask for their middles.", code="TOO_LARGE", needs={"region": True})
        (gap,) = gaps_on_globe([one[i]], [other[j]], is_cancelled=is_cancelled)
        if best is None or gap.metres > best[0].metres:
            best = gap, i, j
    assert best is not None
    return best


def _first(g: BaseGeometry) -> tuple[float, float]:
    x, y = shapely.get_coordinates(g)[0]
    return float(x), float(y)


def _chains(shapes: Sequence[BaseGeometry], step: float) -> _Chains:
    at: list[NDArray[np.float64]] = []
    line: list[NDArray[np.int64]] = []
    owner: list[NDArray[np.int64]] = []
    n = 0
    for k, g in enumerate(shapes):
        for part in shapely.get_parts(shapely.get_parts(g)):
            for ring in (part.exterior, *part.interiors) if part.geom_type == "Polygon" else (part,):
                points = shapely.get_coordinates(shapely.segmentize(ring, step))
                at.append(points)
                line.append(np.full(len(points), n))
                owner.append(np.full(len(points), k))
                n += 1
    places = np.concatenate(at)
    space = np.column_stack(_TO_SPACE.transform(places[:, 0], places[:, 1], np.zeros(len(places))))
    return _Chains(places, space, np.concatenate(line), np.concatenate(owner))


def _closest(mine: _Chains, own: NDArray[np.int64], theirs: _Chains, there: NDArray[np.int64], chord: NDArray[np.float64],
             step: float) -> Gap:
    """The shortest way among the pairs of points that are nearest in space, and, of near shapes, the edges beside them."""
    geod = geod_of("EPSG:4326")
    spacing_m = step * 111_320.0
    is_near = chord.min() < NEAR_M
    room = chord.min() * (1 + _RANK_SHARE) + (2 * spacing_m if is_near else 0.0)
    near = np.flatnonzero(chord <= room)
    near = near[np.argsort(chord[near], kind="stable")][:_CLOSE_PAIRS if is_near else _FAR_PAIRS]
    one, other = mine.at[own[near]], theirs.at[there[near]]
    azimuth, _, metres = geod.inv(one[:, 0], one[:, 1], other[:, 0], other[:, 1])
    first = int(np.argmin(metres))
    ends = [*one[first], *other[first]]
    best = Gap(float(metres[first]), (float(ends[0]), float(ends[1])), (float(ends[2]), float(ends[3])))
    if not is_near:
        # between points of far outlines the way is shorter by spacing² / (8 × distance) at most: metres
        return best
    lons, lats, _ = geod.fwd(one[:, 0], one[:, 1], azimuth, metres / 2)
    # one plane for all pairs about a degree: true to 1e-4 there
    centres = np.column_stack([np.round(lons), np.round(lats)])
    for centre in np.unique(centres, axis=0):
        text = f"+proj=aeqd +lat_0={centre[1]:.1f} +lon_0={centre[0]:.1f} +datum=WGS84 +units=m"
        to, back = transformer("EPSG:4326", text), transformer(text, "EPSG:4326")
        for k in np.flatnonzero((centres == centre).all(axis=1)):
            flat = [_beside(chains, at, to) for chains, at in ((mine, own[near[k]]), (theirs, there[near[k]]))]
            ends = shapely.get_coordinates(shapely.shortest_line(flat[0], flat[1]))
            x, y = back.transform(ends[[0, -1], 0], ends[[0, -1], 1])
            length = float(geod.inv(x[0], y[0], x[1], y[1])[2])
            if length < best.metres:
                best = Gap(length, (float(x[0]), float(y[0])), (float(x[1]), float(y[1])))
    return best


def _beside(chains: _Chains, at: int, to: Transformer) -> BaseGeometry:
    """The edges that meet in a point, in a plane."""
    first, last = max(0, at - 1), min(len(chains.at) - 1, at + 1)
    kept = [k for k in range(first, last + 1) if chains.line[k] == chains.line[at]]
    x, y = to.transform(chains.at[kept, 0], chains.at[kept, 1])
    points = np.column_stack([x, y])
    return shapely.LineString(points) if len(points) > 1 else shapely.Point(points[0])
