"""Consistency of figures of shapes: those of a vector file, and the distance of two layers, measured again."""

from __future__ import annotations

from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy import ndimage
from shapely import STRtree
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import geod_of, transformer
from apps.verification.case import Case, Finding, failed, not_applicable, passed
from apps.verification.checks.catalogue import check
from apps.verification.ground import part_of
from apps.verification.measured import has_relation, pixel_m, value_si
from apps.verification.units import dimension, to_si

# Pairs of things that are looked at for the widest distance.
MOST_PAIRS = 400_000


def _reach_m(shape_: BaseGeometry, crs: str) -> float:
    """The long side in m of the smallest rectangle about a shape, in a transverse Mercator plane of its own."""
    t = transformer(crs, "EPSG:4326")
    x0, y0, x1, y1 = shape_.bounds
    globe = shapely.transform(
        shapely.segmentize(shape_, max(x1 - x0, y1 - y0) / 50), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1]))
    )
    lon, lat = shapely.get_coordinates(globe.convex_hull.centroid)[0]
    plane = transformer("EPSG:4326", f"+proj=tmerc +lat_0={lat:.6f} +lon_0={lon:.6f} +datum=WGS84 +units=m")
    flat = shapely.transform(globe, lambda p: np.column_stack(plane.transform(p[:, 0], p[:, 1])))
    corners = shapely.get_coordinates(shapely.minimum_rotated_rectangle(flat))
    return float(np.linalg.norm(np.diff(corners, axis=0), axis=1).max())


@check(
    "vector_recomputes",
    catches=("degrees as metres", "wrong unit", "stale artifact"),
    reads=("/result/value", "/arguments"),
    family="consistency",
)
def vector_recomputes(case: Case) -> Finding:
    """Number, area or length of one vector file, taken again from its features on the ellipsoid, is the value."""
    sources = case.arguments.get("sources")
    if case.kind not in ("count", "area", "length") or case.value is None or not isinstance(sources, list) or len(sources) != 1:
        return not_applicable("no figure of one vector file")
    digest, which = sources[0].get("vector") if isinstance(sources[0], dict) else None, ""
    if not isinstance(digest, str) or not digest or has_relation(case) or case.is_limited or case.layers is None:
        return not_applicable("no vector file of its own")
    try:
        features, crs = case.layers.read_vector(digest)
        only, field = sources[0].get("only") or (), str(sources[0].get("name_field") or "")
        left_out = sources[0].get("without") or ()
        called = [(str((f.get("properties") or {}).get(field, "")), f) for _, f in part_of(features, sources[0])]
        shapes = [shape(f["geometry"]) for n, f in called if (not only or n in only) and n not in left_out]
        if case.kind == "count":
            truth, mine = float(len(shapes)), case.value
        else:
            t, geod = transformer(crs, "EPSG:4326"), geod_of("EPSG:4326")
            asked = case.arguments.get("spec")
            which = str(asked.get("length_of") or "") if isinstance(asked, dict) else ""
            rings = [g.boundary if which and g.area > 0 else g for g in shapes]
            whole = shapely.union_all(shapes) if case.kind == "area" else shapely.geometrycollections(rings)
            x0, y0, x1, y1 = whole.bounds
            # edges are straight in the file's own CRS: a few points on each keep them so on the ellipsoid
            fine = shapely.segmentize(whole, max(x1 - x0, y1 - y0) / 500 or 1.0)
            globe = shapely.transform(fine, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))
            found = geod.geometry_area_perimeter(shapely.orient_polygons(globe)) if case.kind == "area" else None
            has_polygons = any(g.area > 0 for g in shapes)
            if case.kind == "length" and has_polygons != bool(which):
                return failed(
                    "Polygons have an outline and an extent, lines one length; ask for the one that is meant.",
                    measured=which or "length",
                    expected="outline or extent" if has_polygons else "length",
                    at=("/arguments/spec/length_of",),
                )
            truth = (
                abs(float(found[0]))
                if found is not None
                else float(np.mean([_reach_m(g, crs) for g in shapes]))
                if which == "extent"
                else float(geod.geometry_length(globe))
            )
            mine = value_si(case)
    except Exception:  # an unreadable file is another check's finding
        return not_applicable("the vector file cannot be read")
    if not abs(mine - truth) <= (0.005 if which == "extent" else 0.002) * truth:
        return failed("The vector file's own features give another figure.", measured=mine, expected=truth, at=("/result/value",))
    return passed("The vector file's features give this figure.", measured=mine, expected=truth, at=("/result/value",))


@check(
    "distance_recomputes",
    catches=("degrees as metres", "wrong GSD", "wrong unit"),
    reads=("/result/value", "/parents"),
    family="consistency",
)
def distance_recomputes(case: Case) -> Finding:
    """The distance between two named layers (boxes, polygons or masks of one grid), measured again from their pixels, is the
    value: the closest pair, the mean or maximum over the subject's instances, or the pair farthest apart. Between edges only."""
    if case.kind != "distance" or case.value is None:
        return not_applicable("no distance")
    spec, sources = case.arguments.get("spec"), case.arguments.get("sources")
    statistic = str(spec.get("distance_statistic") or "minimum") if isinstance(spec, dict) else ""
    if isinstance(sources, list) and len(sources) == 1 and statistic == "farthest":
        sources = [sources[0], sources[0]]  # of the pairs among one layer's things
    if not isinstance(spec, dict) or not isinstance(sources, list) or len(sources) != 2:
        return not_applicable("no distance between two layers")
    if spec.get("distance_between", "edges") != "edges" or spec.get("relation") or case.is_limited:
        return not_applicable("centroids, a relation or a region: another distance")
    layers = [_layer_of_source(case, source) for source in sources]
    first, second = layers
    if first is None or second is None:
        return not_applicable("a source is no layer in pixels")
    if sources[1].get("name") == spec.get("subject") and sources[0].get("name") != spec.get("subject"):
        first, second = second, first
    scene = case.scenes.get(first.source_scene_id or "") or (next(iter(case.scenes.values())) if len(case.scenes) == 1 else None)
    grids = {ref.grid for ref in (first, second) if ref.grid is not None}
    if len(grids) > 1 or (grids and scene is not None and grids != {scene.grid}):
        return not_applicable("the layers lie on different grids")
    grid = next(iter(grids), scene.grid if scene else None)
    pixel = pixel_m(grid, scene.effective_gsd_m if scene else None) if grid is not None else None
    mine = to_si(case.value, case.observation.result.unit)
    if pixel is None or mine is None or dimension(case.observation.result.unit) != "length":
        return not_applicable("the GSD is not known")
    try:
        one, whose = _shapes_px(case, first)
        other, _ = _shapes_px(case, second)
    except Exception:  # unreadable shapes are another check's finding
        return not_applicable("the shapes cannot be read")
    if not len(one) or not len(other) or max(len(one), len(other)) > 300_000:
        return not_applicable("nothing to measure between, or too much")
    size = np.array(pixel)
    flat = [shapely.transform(g, lambda p: p * size) for g in (one, other)]
    if statistic == "farthest":
        return _farthest(case, flat, is_of_masks="mask" in (first.kind, second.kind), mine=mine, room=1.5 * max(pixel))
    (index, _), gaps = STRtree(flat[1]).query_nearest(flat[0], all_matches=False, return_distance=True)
    least = np.full(int(whose.max()) + 1, np.inf)
    np.minimum.at(least, whose[index], gaps)
    least[_lying_within(case, first, second, one, other, whose)] = 0
    least = least[np.isfinite(least)]
    truth = float(least.mean() if statistic == "mean" else least.max() if statistic == "maximum" else least.min())
    if abs(truth - mine) > max(0.02 * truth, 1.5 * max(pixel)):
        return failed(
            f"The {statistic} distance of the two layers, measured again from their pixels, is another.",
            measured=mine,
            expected=truth,
            unit="m",
            at=("/result/value", "/parents"),
        )
    return passed(
        f"Measured again from their pixels, the two layers are this far apart ({statistic}).",
        measured=mine,
        expected=truth,
        unit="m",
        at=("/result/value",),
    )


def _farthest(case: Case, flat: list[NDArray[Any]], *, is_of_masks: bool, mine: float, room: float) -> Finding:
    """Of all pairs of things, in metres of the picture's own plane, the widest gap is the value."""
    one, other = flat
    if is_of_masks or len(one) * len(other) > MOST_PAIRS:
        return not_applicable("pieces of masks, or more pairs than are looked at")
    truth = max(float(shapely.distance(g, other).max()) for g in one)
    at = ("/result/value",)
    if abs(truth - mine) > max(0.02 * truth, room):
        return failed("Of all pairs of things, another distance is the widest.", measured=mine, expected=truth, unit="m", at=at)
    return passed("Of all pairs of things, this is the widest distance.", measured=mine, expected=truth, unit="m", at=at)


def _layer_of_source(case: Case, source: Any) -> LayerRef | None:
    """The layer in pixels that a source of measure names, or None."""
    layer = source.get("layer") if isinstance(source, dict) else None
    parent = next((p for p in case.parents if isinstance(layer, dict) and p.id == layer.get("observation")), None)
    if parent is None or not isinstance(layer, dict):
        return None
    kinds = ("boxes", "polygons") if source.get("mode") == "objects" else ("mask", "boxes", "polygons")
    label = layer.get("label") or ""
    fitting = [r for r in parent.result.layers if r.kind in kinds and not r.is_aside and label in ("", r.label)]
    named = [r for r in fitting if r.label.lower() == str(source.get("name")).lower()]
    ref = next(iter(named or fitting), None)
    return ref if ref is not None and (ref.kind == "mask" or ref.crs == "image") else None


def _shapes_px(case: Case, ref: LayerRef) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """(shapes in pixels, number of the instance of each); of a mask the squares of its pieces' outer pixels."""
    if ref.kind != "mask":
        shapes = np.array([shape(f["geometry"]) for f in case.features(ref)], dtype=object)
        return shapes, np.arange(len(shapes))
    mask, valid = case.mask(ref)
    held = np.pad(mask & valid, 1)
    pieces, _ = ndimage.label(held, structure=np.ones((3, 3)))
    inner = held[:-2, 1:-1] & held[2:, 1:-1] & held[1:-1, :-2] & held[1:-1, 2:]
    rows, cols = np.nonzero(held[1:-1, 1:-1] & ~inner)
    return np.asarray(shapely.box(cols, rows, cols + 1, rows + 1)), np.asarray(pieces[rows + 1, cols + 1] - 1, dtype=np.int64)


def _lying_within(
    case: Case, first: LayerRef, second: LayerRef, one: NDArray[Any], other: NDArray[Any], whose: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Numbers of the first layer's instances that lie within the second, or hold a part of it: outlines alone do not tell."""
    found: list[NDArray[np.int64]] = [np.zeros(0, dtype=np.int64)]
    masks = [np.logical_and(*case.mask(ref)) if ref.kind == "mask" else None for ref in (first, second)]

    def at_centroids(mask: NDArray[np.bool_], shapes: NDArray[Any]) -> tuple[NDArray[np.bool_], Any]:
        points = shapely.get_coordinates(shapely.centroid(shapes)).astype(np.int64)
        cols, rows = np.clip(points[:, 0], 0, mask.shape[1] - 1), np.clip(points[:, 1], 0, mask.shape[0] - 1)
        return mask[rows, cols], (rows, cols)

    if masks[1] is not None:
        found.append(whose[at_centroids(masks[1], one)[0]])
    if masks[0] is not None:
        pieces, _ = ndimage.label(masks[0], structure=np.ones((3, 3)))
        if masks[1] is not None and masks[0].shape == masks[1].shape:
            found.append(pieces[masks[0] & masks[1]].astype(np.int64) - 1)
        elif masks[1] is None:
            hit, where = at_centroids(masks[0], other)
            found.append(pieces[where][hit].astype(np.int64) - 1)
    return np.unique(np.concatenate(found))
