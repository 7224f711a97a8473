"""Distances: of each instance of a layer to the nearest, or the farthest, of another or of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage
from scipy.spatial import cKDTree
from shapely.geometry.base import BaseGeometry

from apps.core.errors import ModelError
from apps.core.geo.grid import geod_of, transformer
from apps.tools.contract import ToolContext
from apps.tools.measure.choose import pixel_side_m
from apps.tools.measure.far import farthest_on_globe, gaps_on_globe, lie_far, on_globe
from apps.tools.measure.figure import Figure, widen_by_accuracy
from apps.tools.measure.layers import Measured, Plane, corner_points, needs_length, pieces, to_features


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


def _over_the_globe(ctx: ToolContext, plane: Plane, sources: Sequence[Measured], between: str, *, is_farthest: bool,
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
        gap, *at = farthest_on_globe(shapes[0], shapes[-1], is_cancelled=ctx.is_cancelled)
        gaps, ends = [gap], (at[0], at[1])
    else:
        gaps = gaps_on_globe(shapes[0], shapes[-1], is_same=len(shapes) == 1, is_cancelled=ctx.is_cancelled)
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


def measure_distance(ctx: ToolContext, subject: Measured, reference: Measured | None, statistic: str, between: str) -> Figure:
    """Distance in m from each instance to the nearest of the other layer, or of its own: one ``statistic`` of them (minimum,
    mean, maximum), or that of the pair ``farthest`` apart. ModelError where there are too few."""
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
        pairs, ends = _over_the_globe(ctx, plane, sources, between, is_farthest=is_farthest)
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
    widen_by_accuracy(ctx, out, sources if reference is not None else [subject, subject], lambda off: (off, off), slack)
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
