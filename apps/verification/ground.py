"""What a measure's sources are on the ground, by the verifier's own projection: a transverse Mercator about their middle.

The tools measure in another plane and on the ellipsoid; two ways that agree are worth more than one taken twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy import ndimage
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import Grid, transformer
from apps.verification.case import Case

# Instances that are brought to the ground; more are left to the tool alone.
MAX_INSTANCES = 20_000
MAX_MASK_PX = 4_000_000
# Edges of more degrees (some 100 m) get more points: a straight line in degrees bends by a millimetre over so much.
LONG_EDGE = 1e-3
# Half the width, in degrees of arc on the ground, of what a transverse Mercator keeps true to 1.4 in a thousand.
MAX_REACH = 3.0


class CannotPlaceError(Exception):
    """A source has no place on the ground that could be worked out here, and why."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Instances of a source in longitude and latitude; ``pixel_m`` is the size of a pixel where it is made of pixels."""

    shapes: list[BaseGeometry]
    pixel_m: float = 0.0


def source_of(case: Case, name: str) -> dict[str, Any]:
    """The source of that name, as asked. CannotPlaceError where there is none."""
    sources = case.arguments.get("sources")
    held = sources if isinstance(sources, list) else []
    found = next((s for s in held if isinstance(s, dict) and s.get("name", "subject") == name), None)
    if found is None:
        raise CannotPlaceError(f"there is no source called {name}")
    return found


def place(case: Case, source: dict[str, Any]) -> Placed:
    """A source's instances in degrees. CannotPlaceError where they have no place, or are too many."""
    if source.get("mode") == "extent":
        return _given(case, source)
    layer = source.get("layer")
    parent = next((p for p in case.parents if isinstance(layer, dict) and p.id == layer.get("observation")), None)
    if parent is None or not isinstance(layer, dict):
        raise CannotPlaceError("the source's observation is not at hand")
    kinds = ("boxes", "polygons", "points") if source.get("mode") == "objects" else ("mask",)
    label = str(layer.get("label") or "")
    fitting = [r for r in parent.result.layers if r.kind in kinds and not r.is_aside and label in ("", r.label)]
    ref = next((r for r in fitting if r.label.lower() == str(source.get("name")).lower()), next(iter(fitting), None))
    if ref is None:
        raise CannotPlaceError("the source's layer is not at hand")
    return _layer(case, ref)


def part_of(features: Sequence[dict[str, Any]], params: Mapping[str, Any]) -> list[tuple[int, dict[str, Any]]]:
    """(number in the file, feature) of those that have one of the values which a source or a node asks for; all where it asks
    for none. A feature without a value has none of them, whatever the values are called."""
    field, wanted = params.get("part_field"), {str(v) for v in params.get("part_values") or ()}
    numbered = list(enumerate(features, 1))
    if not field:
        return numbered
    ends = (params.get("part_min"), params.get("part_max"))
    if any(end is not None for end in ends):
        sides = str(params.get("part_open") or "")
        return [(i, f) for i, f in numbered if _between((f.get("properties") or {}).get(str(field)), *ends, sides)]
    return [(i, f) for i, f in numbered if (v := (f.get("properties") or {}).get(str(field))) is not None and f"{v}" in wanted]


def _between(value: object, low: object, high: object, sides: str) -> bool:
    """Whether a value lies between two numbers, or two days; one of another kind does not."""
    ends = [end for end in (low, high) if end is not None]
    told: list[float]
    try:
        if isinstance(ends[0], str):
            told = [datetime.fromisoformat(str(v).strip()[:10].replace("/", "-")).toordinal() for v in (value, *ends)]
        else:
            told = [float(str(v)) for v in (value, *ends)]
    except ValueError:
        return False
    mine, least, most = told[0], told[1] if low is not None else -math.inf, told[-1] if high is not None else math.inf
    if not math.isfinite(mine):
        return False
    is_over = mine > least if sides in ("min", "both") else mine >= least
    return is_over and (mine < most if sides in ("max", "both") else mine <= most)


def _given(case: Case, source: dict[str, Any]) -> Placed:
    digest, geometry = source.get("vector"), source.get("geometry")
    if isinstance(digest, str) and digest:
        if case.layers is None:
            raise CannotPlaceError("no store of vector files is at hand")
        features, crs = case.layers.read_vector(digest)
        features = [f for _, f in part_of(features, source)]
        only, field = source.get("only") or (), str(source.get("name_field") or "")
        held = [f for f in features if not only or str((f.get("properties") or {}).get(field, "")) in only]
        left_out = source.get("without") or ()
        shapes = [shape(f["geometry"]) for f in held if str((f.get("properties") or {}).get(field, "")) not in left_out]
    elif isinstance(geometry, dict):
        shapes, crs = _of_geojson(geometry), str(source.get("geometry_crs", "EPSG:4326"))
        member = geometry.get("crs")
        if isinstance(member, dict) and isinstance(member.get("properties"), dict):
            crs = str(member["properties"].get("name") or crs)  # GeoJSON may say its own
        if crs == "image":
            raise CannotPlaceError("a place in pixels")
    else:
        raise CannotPlaceError("an image's own extent")
    if not shapes or len(shapes) > MAX_INSTANCES:
        raise CannotPlaceError("no instance, or too many")
    return Placed([_to_degrees(g, crs) for g in shapes])


def _of_geojson(value: dict[str, Any]) -> list[BaseGeometry]:
    """The geometries of a geometry, a feature or a collection of them."""
    if value.get("type") == "FeatureCollection":
        return [shape(f["geometry"]) for f in value.get("features") or []]
    return [shape(value["geometry"] if value.get("type") == "Feature" else value)]


def _to_degrees(geometry: BaseGeometry, crs: str) -> BaseGeometry:
    if crs == "EPSG:4326":
        return geometry
    x0, y0, x1, y1 = geometry.bounds
    span = max(x1 - x0, y1 - y0)
    t = transformer(crs, "EPSG:4326")
    fine = shapely.segmentize(geometry, span / 100) if span > 0 else geometry
    return shapely.transform(fine, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))


def _layer(case: Case, ref: LayerRef) -> Placed:
    scene = case.scenes.get(ref.source_scene_id or "") or (next(iter(case.scenes.values())) if len(case.scenes) == 1 else None)
    grid = ref.grid or (scene.grid if scene is not None else None)
    if ref.kind != "mask" and ref.crs != "image":
        return Placed([_to_degrees(shape(f["geometry"]), ref.crs) for f in case.features(ref)[:MAX_INSTANCES]])
    if grid is None or grid.crs is None:
        raise CannotPlaceError("the layer has no place on the globe")
    if ref.kind == "mask":
        shapes = _pieces(case, ref, grid)
    else:
        shapes = [shape(f["geometry"]) for f in case.features(ref)]
    if len(shapes) > MAX_INSTANCES:
        raise CannotPlaceError("too many instances")
    a, b, c, d, e, f = grid.transform
    moved = [
        shapely.transform(g, lambda p: np.column_stack((a * p[:, 0] + b * p[:, 1] + c, d * p[:, 0] + e * p[:, 1] + f)))
        for g in shapes
    ]
    return Placed([_to_degrees(g, grid.crs) for g in moved], max(grid.pixel_sides_m()))


def _pieces(case: Case, ref: LayerRef, grid: Grid) -> list[BaseGeometry]:
    """The pieces of a mask, joined at corners too, as runs of pixels; each piece one shape."""
    if grid.width * grid.height > MAX_MASK_PX:
        raise CannotPlaceError("the mask is too large to be measured twice")
    mask, valid = case.mask(ref)
    labels, n = ndimage.label(mask & valid, structure=np.ones((3, 3)))
    if n > MAX_INSTANCES:
        raise CannotPlaceError("too many pieces")
    edge = np.pad(labels, ((0, 0), (1, 1)))
    rows, starts = np.nonzero((edge[:, 1:] != edge[:, :-1]) & (edge[:, 1:] != 0))
    rows_end, ends = np.nonzero((edge[:, 1:] != edge[:, :-1]) & (edge[:, :-1] != 0))
    if len(rows) > 200_000 or len(rows) != len(rows_end):
        raise CannotPlaceError("the mask is too ragged")
    number = labels[rows, starts]
    boxes: NDArray[Any] = shapely.box(starts, rows, ends, rows + 1)
    order = np.argsort(number, kind="stable")
    cuts = np.searchsorted(number[order], np.arange(1, n + 2))
    return [shapely.union_all(boxes[order[cuts[i] : cuts[i + 1]]]) for i in range(n)]


def on_plane(*placed: Placed) -> list[list[BaseGeometry]]:
    """The instances of all in metres. CannotPlaceError where they reach too far for one plane."""
    bounds = np.array([g.bounds for p in placed for g in p.shapes if not g.is_empty], dtype=float)
    if not len(bounds):
        return [[] for _ in placed]
    west, south, east, north = bounds[:, 0].min(), bounds[:, 1].min(), bounds[:, 2].max(), bounds[:, 3].max()
    nearest_equator = 0.0 if south <= 0 <= north else min(abs(south), abs(north))
    if (east - west) / 2 * math.cos(math.radians(nearest_equator)) > MAX_REACH or north - south > 20:
        raise CannotPlaceError("the things lie too far apart for one plane")
    t = transformer("EPSG:4326", _plane((west + east) / 2, (south + north) / 2))

    def move(g: BaseGeometry) -> BaseGeometry:
        # edges are straight in degrees: of long ones more points keep them so in the plane
        fine = shapely.segmentize(g, LONG_EDGE) if g.length > LONG_EDGE else g
        return shapely.transform(fine, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))

    return [[move(g) for g in p.shapes] for p in placed]


# Common outlines are equal in degrees but for their last digits. What lies 2 mm and less beside another's outline may be said to
# meet, overlap or stick out: either answer is right.
HAIR, FINE_HAIR = 2e-8, 1e-10
BY_A_HAIR = frozenset({"wholly_inside", "overlaps", "not_overlapping", "touches", "apart"})
# Relations that need no metres: they are the same in degrees, however far the things reach.
WITHOUT_METRES = frozenset({"inside", "outside", "wholly_inside", "overlaps", "not_overlapping", "touches", "apart"})


def inside_of(placed: Placed, region: dict[str, Any]) -> Placed:
    """The instances whose middle lies in a region in degrees."""
    outline = shape(region["geometry"] if region.get("type") == "Feature" else region)
    shapely.prepare(outline)
    return Placed([g for g in placed.shapes if outline.covers(shapely.centroid(g))], placed.pixel_m)


def placed_region(region: dict[str, Any], crs: str) -> Placed:
    """A region on the map, in degrees."""
    return Placed([_to_degrees(shape(region["geometry"] if region.get("type") == "Feature" else region), crs)])


def grown_by(geometry: BaseGeometry, crs: str, metres: float) -> BaseGeometry:
    """A geometry grown by metres, in degrees."""
    there = Placed([_to_degrees(geometry, crs)])
    ((flat,),) = on_plane(there)
    middle = there.shapes[0].envelope.centroid
    back = transformer(_plane(middle.x, middle.y), "EPSG:4326")
    wide = flat.buffer(metres, quad_segs=48)
    return shapely.transform(wide, lambda p: np.column_stack(back.transform(p[:, 0], p[:, 1])))


def _plane(lon: float, lat: float) -> str:
    return f"+proj=tmerc +lat_0={lat:.8f} +lon_0={lon:.8f} +k=1 +datum=WGS84 +units=m"


def standing_in(
    relation: str,
    one: list[BaseGeometry],
    other: list[BaseGeometry],
    distance_m: float,
    nearest_k: int,
    degrees: tuple[Any, Any],
    hair: float = HAIR,
) -> NDArray[np.bool_] | None:
    """Which of ``one`` stand in the relation to ``other`` (both in metres; ``degrees``: the same in degrees); None for a
    relation that is not known here. ``hair``: outlines that lie so near (degrees) are one."""
    if not other or not one:
        return np.full(len(one), relation in ("beyond", "outside", "not_overlapping", "apart"))
    shapes, tree = np.array(one, dtype=object), shapely.STRtree(other)
    middles = shapely.centroid(shapes)
    if relation == "within":
        hit = tree.query(shapes, predicate="dwithin", distance=distance_m)[0]
    elif relation == "beyond":
        near = np.zeros(len(one), dtype=bool)
        near[tree.query(shapes, predicate="dwithin", distance=distance_m)[0]] = True
        return ~near
    elif relation == "outside":
        within = np.zeros(len(one), dtype=bool)
        within[tree.query(middles, predicate="intersects")[0]] = True
        return ~within
    elif relation == "wholly_inside":
        # a hair keeps a shared edge inside
        wide = shapely.buffer(shapely.union_all(np.array(degrees[1], dtype=object)), hair)
        return np.asarray(shapely.covers(wide, np.array(degrees[0], dtype=object)))
    elif relation == "inside":
        hit = tree.query(middles, predicate="intersects")[0]
    elif relation in ("overlaps", "touches", "not_overlapping", "apart"):
        # common outlines are equal in degrees; a projection bends edges with other vertices differently
        mine, theirs = (np.array(d, dtype=object) for d in degrees)
        pairs = shapely.STRtree(theirs).query(mine, predicate="dwithin", distance=hair)
        area = shapely.area(shapely.intersection(mine[pairs[0]], theirs[pairs[1]]))
        common = np.bincount(pairs[0], weights=area, minlength=len(one))
        near = np.bincount(pairs[0], minlength=len(one)) > 0
        wide = common > hair * shapely.length(mine)
        thin = (shapely.area(mine[pairs[0]]) == 0) | (shapely.area(theirs[pairs[1]]) == 0)
        through = thin & shapely.intersects(mine[pairs[0]], theirs[pairs[1]]) & ~shapely.touches(mine[pairs[0]], theirs[pairs[1]])
        wide |= np.bincount(pairs[0][through], minlength=len(one)) > 0
        return np.asarray({"overlaps": wide, "not_overlapping": ~wide, "touches": near & ~wide, "apart": ~near}[relation])
    elif relation == "between":
        hull = shapely.convex_hull(shapely.union_all(other))
        free = np.ones(len(one), dtype=bool)
        free[tree.query(middles, predicate="intersects")[0]] = False
        return np.asarray(shapely.contains(hull, middles) & free)
    elif relation == "nearest":
        (who, _), gaps = tree.query_nearest(shapes, all_matches=False, return_distance=True)
        out = np.zeros(len(one), dtype=bool)
        out[who[np.argsort(gaps, kind="stable")[:nearest_k]]] = True
        return out
    elif relation.endswith("_of"):
        at = shapely.centroid(shapely.union_all(np.array(degrees[1], dtype=object)))
        where = shapely.get_coordinates(shapely.centroid(np.array(degrees[0], dtype=object)))
        east, north = where[:, 0] - at.x, where[:, 1] - at.y
        return np.asarray({"north_of": north > 0, "south_of": north < 0, "east_of": east > 0, "west_of": east < 0}[relation])
    else:
        return None
    found = np.zeros(len(one), dtype=bool)
    found[hit] = True
    return found
