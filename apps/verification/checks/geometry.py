"""Geometry: boxes, polygons and masks lie where the image is, in one CRS, and ground sizes are those of the ground."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pyproj
from numpy.typing import NDArray
from scipy import ndimage
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.evidence.landmark import Landmark
from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import Grid, transformer
from apps.core.geo.scene import SceneInfo
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.marks import (
    CannotMarkError,
    degrees_of,
    is_between_landmarks,
    marks_of,
    method_of,
    scene_measured,
    vincenty,
)
from apps.verification.units import to_si

METRIC_KINDS = frozenset({"area", "distance", "length"})


def kept_boxes(case: Case) -> LayerRef | None:
    """The layer of detections that count: boxes (or polygons of objects), not the candidates."""
    return next((r for r in case.observation.result.layers if r.kind in ("boxes", "polygons") and not r.is_aside), None)


def bounds_of(features: list[dict[str, Any]]) -> NDArray[np.float64]:
    """(n, 4) of x0, y0, x1, y1; NaN rows for features without readable coordinates."""
    out = np.full((len(features), 4), np.nan)
    for i, feature in enumerate(features):
        geometry = feature.get("geometry")
        points: list[tuple[float, float]] = []
        todo = [geometry.get("coordinates")] if isinstance(geometry, dict) else []
        while todo:
            at = todo.pop()
            if isinstance(at, (list, tuple)):
                if len(at) >= 2 and number_of(at[0]) is not None and number_of(at[1]) is not None:
                    points.append((float(at[0]), float(at[1])))
                else:
                    todo.extend(at)
        if points:
            xs, ys = [p[0] for p in points], [p[1] for p in points]
            out[i] = min(xs), min(ys), max(xs), max(ys)
    return out


def bounds_of_layer(case: Case, ref: LayerRef) -> NDArray[np.float64]:
    """``bounds_of`` a layer's features, read-only, made once for a case. Raises LayerUnreadableError."""

    def make() -> NDArray[np.float64]:
        out = bounds_of(case.features(ref))
        out.flags.writeable = False
        return out

    found: NDArray[np.float64] = case.kept(f"bounds:{ref.artifact}", make)
    return found


def scene_of_layer(case: Case, ref: LayerRef) -> SceneInfo | None:
    """The question's scene that a layer lies on."""
    if ref.source_scene_id in case.scenes:
        return case.scenes[str(ref.source_scene_id)]
    return case.used_scenes[0] if len(case.used_scenes) == 1 else None


def _size(case: Case, ref: LayerRef) -> tuple[int, int] | None:
    scene = scene_of_layer(case, ref)
    if scene is not None:
        return scene.grid.width, scene.grid.height
    sizes = {i.size_px for i in case.observation.inputs if i.size_px}
    return sizes.pop() if len(sizes) == 1 else None


@check(
    "boxes_in_image",
    catches=("shifted boxes", "box convention mistaken"),
    limits=("edge_px", "min_box_px"),
    reads=("/result/layers",),
)
def boxes_in_image(case: Case) -> Finding:
    """Boxes are finite, of positive size, and inside the image."""
    ref = kept_boxes(case)
    if ref is None or ref.crs != "image":
        return not_applicable("no boxes in pixels")
    size = _size(case, ref)
    try:
        features = case.features(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The boxes cannot be read: {error}.", at=("/result/layers/0/artifact",), severity="warn")
    if size is None:
        return inconclusive("The size of the image is not on record.", at=("/inputs/0/size_px",), severity="warn")
    if not features:
        return passed("There are no boxes.", measured=0, at=("/result/layers",))
    b, edge = bounds_of_layer(case, ref), case.limits.edge_px
    broken = ~np.isfinite(b).all(axis=1)
    flat = ~broken & (np.minimum(b[:, 2] - b[:, 0], b[:, 3] - b[:, 1]) < case.limits.min_box_px)
    out = ~broken & ((b[:, 0] < -edge) | (b[:, 1] < -edge) | (b[:, 2] > size[0] + edge) | (b[:, 3] > size[1] + edge))
    n = int((broken | flat | out).sum())
    if n:
        return failed(
            f"{n} of {len(features)} boxes are broken, flat or outside the image of {size[0]} × {size[1]} pixels; "
            "check the frame of the coordinates ([x, y, w, h] or corners, tile or image).",
            measured=n,
            expected=0,
            unit="boxes",
            at=("/result/layers",),
        )
    return passed("All boxes lie in the image.", measured=len(features), unit="boxes", at=("/result/layers",))


def duplicate_pairs(b: NDArray[np.float64], classes: list[str], limit: float, max_pairs: int) -> int:
    """Boxes that overlap an earlier one of their class by more than ``limit`` (intersection over union)."""
    n = len(b)
    if n < 2 or n * n > max_pairs:
        order = np.argsort(b[:, 0]) if n else np.empty(0, dtype=int)
        b, classes = b[order], [classes[i] for i in order]
    doubled = 0
    area = np.maximum(b[:, 2] - b[:, 0], 0) * np.maximum(b[:, 3] - b[:, 1], 0)
    names = np.array(classes)
    reach = n if n * n <= max_pairs else max(1, max_pairs // max(n, 1))
    for i in range(1, n):
        lo = max(0, i - reach)
        w = np.minimum(b[i, 2], b[lo:i, 2]) - np.maximum(b[i, 0], b[lo:i, 0])
        h = np.minimum(b[i, 3], b[lo:i, 3]) - np.maximum(b[i, 1], b[lo:i, 1])
        inter = np.maximum(w, 0) * np.maximum(h, 0)
        union = area[i] + area[lo:i] - inter
        with np.errstate(divide="ignore", invalid="ignore"):
            if bool((((inter / union) > limit) & (names[lo:i] == names[i])).any()):
                doubled += 1
    return doubled


def _classes(features: list[dict[str, Any]]) -> list[str]:
    return [str((f.get("properties") or {}).get("class", "")) if isinstance(f.get("properties"), dict) else "" for f in features]


@check(
    "no_duplicate_detections",
    catches=("merged or duplicated detections",),
    limits=("duplicate_iou", "duplicate_share", "max_pairs"),
    reads=("/result/layers",),
)
def no_duplicate_detections(case: Case) -> Finding:
    """No object is counted twice: boxes of one class do not lie upon each other (tile seams, missing suppression)."""
    ref = kept_boxes(case)
    if ref is None or ref.kind != "boxes":
        return not_applicable("no boxes")
    try:
        features = case.features(ref)
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    asked = case.arguments.get("objects_method")
    iou = number_of(asked.get("iou_threshold")) if isinstance(asked, dict) else None
    limit = max(case.limits.duplicate_iou, (iou or 0.0) + 0.02)
    if len(features) < 2:
        return passed("Fewer than two boxes.", measured=0, at=("/result/layers",))
    b = bounds_of_layer(case, ref)
    ok: NDArray[np.bool_] = np.asarray(np.isfinite(b).all(axis=1))
    doubled = duplicate_pairs(b[ok], [c for c, k in zip(_classes(features), ok, strict=True) if k], limit, case.limits.max_pairs)
    share = doubled / len(features)
    if doubled and share > case.limits.duplicate_share:
        return failed(
            f"{doubled} of {len(features)} boxes lie upon another of their class (overlap over {limit:.2f}); merge across "
            "tile seams with a lower overlap threshold.",
            measured=doubled,
            expected=0,
            unit="boxes",
            at=("/result/layers",),
        )
    return passed("No box lies upon another of its class.", measured=doubled, unit="boxes", at=("/result/layers",))


@check("polygons_valid", catches=("broken geometry",), reads=("/result/layers", "/evidence/validity/geometry_valid"))
def polygons_valid(case: Case) -> Finding:
    """Polygons are closed, do not cross themselves, and enclose something; the tool's own flag does not say otherwise."""
    if case.evidence("validity", "geometry_valid") is False:
        return failed(
            "The tool itself says that its geometry is not valid.",
            measured=False,
            expected=True,
            at=("/evidence/validity/geometry_valid",),
        )
    ref = next((r for r in case.observation.result.layers if r.kind == "polygons"), None)
    if ref is None:
        return not_applicable("no polygons")
    try:
        features = case.features(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The polygons cannot be read: {error}.", at=("/result/layers",), severity="warn")
    bad = 0
    for feature in features[:2000]:
        try:
            g: BaseGeometry = shape(feature["geometry"])
            bad += not g.is_valid or g.is_empty or (g.geom_type.endswith("Polygon") and g.area <= 0)
        except Exception:  # whatever cannot be a geometry is a bad one
            bad += 1
    if bad:
        return failed(
            f"{bad} of {len(features)} polygons are not valid; repair them before they are measured.",
            measured=bad,
            expected=0,
            unit="polygons",
            at=("/result/layers",),
        )
    return passed("All polygons are valid.", measured=len(features), unit="polygons", at=("/result/layers",))


def grid_offset(layer: Grid, scene: Grid) -> tuple[float, float] | None:
    """(columns, rows) from the scene's corner to the layer's; None where CRS or pixel size differ."""
    if layer.crs != scene.crs:
        return None
    a, b, _, d, e, _ = scene.transform
    a2, b2, c2, d2, e2, f2 = layer.transform
    if not _alike((a, b, d, e), (a2, b2, d2, e2)):
        return None
    return scene.colrow(c2, f2)


def _alike(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return all(math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-12) for x, y in zip(one, other, strict=True))


def is_thinned(layer: Grid, scene: Grid) -> bool:
    """True where a layer keeps every 2nd, 3rd, … pixel of its whole scene (large scenes), from the scene's corner."""
    if layer.crs != scene.crs or layer.shape == scene.shape:
        return False
    a, b, c, d, e, f = scene.transform
    a2, b2, c2, d2, e2, f2 = layer.transform
    step = round(a2 / a) if a else 0
    reach = max(abs(a), abs(e))
    return (
        step >= 2
        and _alike((a2, b2, d2, e2), (a * step, b * step, d * step, e * step))
        and abs(c2 - c) <= step * reach
        and abs(f2 - f) <= step * reach
        and abs(layer.width * step - scene.width) <= step
        and abs(layer.height * step - scene.height) <= step
    )


# nodes that ask for other pixels than the image's
RESAMPLING = frozenset({"raster.product.resample", "raster.product.reproject", "raster.product.pansharpen"})


@check(
    "layer_on_image_grid",
    catches=("shifted mask", "reprojection to the wrong zone", "another scene's result"),
    reads=("/result/layers/0/grid",),
)
def layer_on_image_grid(case: Case) -> Finding:
    """A mask or raster lies on its image's grid: CRS, pixel size and a whole-pixel offset inside the image."""
    refs = [r for r in case.observation.result.layers if r.grid is not None]
    checked = 0
    for k, ref in enumerate(refs):
        scene = scene_of_layer(case, ref)
        if scene is None or ref.grid is None:
            continue
        if any(n["params"].get("resample") or n["op"] in RESAMPLING for n in case.nodes.values()):
            return not_applicable("the result was resampled on purpose")
        at = (f"/result/layers/{k}/grid",)
        if is_thinned(ref.grid, scene.grid):
            checked += 1
            continue
        offset = grid_offset(ref.grid, scene.grid)
        if offset is None:
            return failed(
                "The layer's CRS or pixel size is not its image's; compute it on the image's own grid.",
                measured={"crs": (ref.grid.crs or "image")[:60], "transform": list(ref.grid.transform)},
                expected={"crs": (scene.grid.crs or "image")[:60], "transform": list(scene.grid.transform)},
                at=at,
            )
        col, row = offset
        if abs(col - round(col)) > 0.01 or abs(row - round(row)) > 0.01:
            return failed(
                "The layer is shifted by a part of a pixel against its image.",
                measured=[col, row],
                expected="whole pixels",
                unit="px",
                at=at,
            )
        if (
            round(col) < 0
            or round(row) < 0
            or round(col) + ref.grid.width > scene.grid.width
            or round(row) + ref.grid.height > scene.grid.height
        ):
            return failed(
                "The layer reaches over its image.",
                measured=[round(col), round(row), ref.grid.width, ref.grid.height],
                expected=[scene.grid.width, scene.grid.height],
                unit="px",
                at=at,
            )
        whole = ref.grid.shape == scene.grid.shape
        if not whole and case.region is None:
            return failed(
                "The layer covers a part of its image although no region was asked.",
                measured=[ref.grid.width, ref.grid.height],
                expected=[scene.grid.width, scene.grid.height],
                unit="px",
                at=at,
            )
        checked += 1
    if not checked:
        return not_applicable("no raster layer on a scene of the question")
    return passed("Raster layers lie on their image's grid.", measured=checked, at=("/result/layers",))


@check("layer_has_its_size", catches=("stale artifact", "another scene's result"), reads=("/result/layers",))
def layer_has_its_size(case: Case) -> Finding:
    """The artifact is as large as its reference says."""
    for k, ref in enumerate(case.observation.result.layers):
        if ref.grid is None or ref.kind not in ("mask", "raster") or not case.is_small(ref):
            continue
        try:
            got = case.mask(ref)[0].shape if ref.kind == "mask" else case.raster(ref).data.shape[1:]
        except LayerUnreadableError:
            continue
        if tuple(got) != ref.grid.shape:
            return failed(
                "The artifact's size is not the one of its grid.",
                measured=list(got),
                expected=list(ref.grid.shape),
                unit="px",
                at=(f"/result/layers/{k}",),
            )
        return passed("Artifact and grid are of one size.", measured=list(got), unit="px", at=(f"/result/layers/{k}",))
    return not_applicable("no raster layer that can be read")


@check("layers_in_one_crs", catches=("reprojection to the wrong zone",), reads=("/result/layers",))
def layers_in_one_crs(case: Case) -> Finding:
    """Layers of one image share one CRS (or the image's pixels); what is measured together lies in one CRS."""
    by_scene: dict[str, set[str]] = {}
    for ref in case.observation.result.layers:
        if ref.crs != "image":
            by_scene.setdefault(ref.source_scene_id or "", set()).add(ref.crs)
    if not by_scene:
        return not_applicable("no layer with a CRS")
    mixed = {k: sorted(v) for k, v in by_scene.items() if len(v) > 1 and k}
    if mixed:
        return failed(
            "Layers of one image are in several CRSs.",
            measured=[c[:60] for c in next(iter(mixed.values()))],
            expected="one CRS",
            at=("/result/layers",),
        )
    return passed("Layers of one image share a CRS.", at=("/result/layers",))


@check(
    "gsd_matches_crs",
    catches=("wrong GSD", "degrees as metres"),
    limits=("gsd_rel_tolerance",),
    reads=("/inputs", "/evidence/source/resolution_m", "/arguments/sources"),
)
def gsd_matches_crs(case: Case) -> Finding:
    """Every GSD on record is the one that the scene's CRS implies, or that a person gave for it."""
    seen: list[tuple[str, float, SceneInfo]] = []
    for k, ref in enumerate(case.observation.inputs):
        scene = case.scene_of(ref)
        if scene is not None and ref.gsd_m is not None:
            seen.append((f"/inputs/{k}/gsd_m", ref.gsd_m, scene))
    one = case.used_scenes[0] if len(case.used_scenes) == 1 else None
    for path in (("source", "resolution_m"), ("source", "gsd_m")):
        value = case.evidence_number(*path)
        if value is not None and one is not None:
            seen.append(("/evidence/" + "/".join(path), value, one))
    by_scene = case.evidence("source", "resolution_m")
    for name, told in by_scene.items() if isinstance(by_scene, dict) else ():
        value = number_of(told)
        if value is not None and name in case.scenes:
            seen.append((f"/evidence/source/resolution_m/{name}", value, case.scenes[name]))
    sources = case.arguments.get("sources")
    for k, source in enumerate(sources if isinstance(sources, list) else ()):
        value = number_of(source.get("gsd_m")) if isinstance(source, dict) else None
        # what the record says was used outranks what the call asked for: a GSD that the CRS contradicts is not used
        used = [r.gsd_m for r in case.observation.inputs if isinstance(source, dict) and r.name == source.get("name") and r.gsd_m]
        if used:
            continue
        scene = case.scenes.get(str(source.get("image"))) if isinstance(source, dict) else None
        scene = scene or (next(iter(case.scenes.values())) if len(case.scenes) == 1 else None)
        if value is not None and scene is not None:
            seen.append((f"/arguments/sources/{k}/gsd_m", value, scene))
    compared = 0
    for pointer, value, scene in seen:
        truth = scene.grid.gsd_m if scene.grid.crs else scene.gsd_m
        if truth is None:
            continue
        # nominal spacing of the CRS counts as right too; areas are judged apart
        nominal = scene.grid.grid_pixel_area_m2
        also = [math.sqrt(nominal)] if nominal else []
        if scene.gsd_m is not None:
            also.append(scene.gsd_m)
        compared += 1
        if all(abs(value - t) > case.limits.gsd_rel_tolerance * t for t in (truth, *also)):
            return failed(
                "The GSD used is not the scene's; a wrong GSD enters areas by its square.",
                measured=value,
                expected=truth,
                unit="m",
                at=(pointer,),
            )
    if not compared:
        return not_applicable("no GSD on record, or none to compare it with")
    return passed("GSDs on record are the scene's.", measured=seen[0][1], unit="m", at=tuple(p for p, _, _ in seen))


def _is_on_the_map(source: Any) -> bool:
    """Whether a measure's source is a geometry or a vector file in a CRS."""
    if not isinstance(source, dict) or source.get("mode") != "extent":
        return False
    if source.get("vector"):
        return True
    return isinstance(source.get("geometry"), dict) and str(source.get("geometry_crs", "EPSG:4326")) != "image"


@check("gsd_present", catches=("pixels as metres",), reads=("/inputs/0/gsd_m", "/result/unit"))
def gsd_present(case: Case) -> Finding:
    """Metres and square metres come only from scenes whose pixel size on the ground is known."""
    if case.kind not in METRIC_KINDS or case.observation.result.unit in ("px", "pixel", "pixels", "px2"):
        return not_applicable("nothing metric")
    if any(i.gsd_m or (i.crs and i.crs != "image") for i in case.observation.inputs) or any(
        s.grid.crs or s.gsd_m for s in case.used_scenes
    ):
        return passed("The pixel size on the ground is known.", at=("/inputs",))
    sources = case.arguments.get("sources")
    if isinstance(sources, list) and sources and all(_is_on_the_map(s) for s in sources):
        return passed("What is measured is given on the map; no pixel is measured.", at=("/arguments/sources",))
    if case.used_scenes:
        return failed(
            "The scene has neither CRS nor GSD, so its pixels have no size in metres; give the GSD.",
            measured=None,
            expected="a GSD",
            at=("/inputs/0/gsd_m",),
        )
    for parent in case.parents:
        if any(i.gsd_m or i.crs for i in parent.inputs) or any(
            case.scenes[i.scene_id].effective_gsd_m for i in parent.inputs if i.scene_id in case.scenes
        ):
            return passed("The pixel size on the ground is known from the layer's image.", at=("/parents",))
    return inconclusive("Nothing on record says how large a pixel is on the ground.", at=("/inputs/0/gsd_m",))


@check(
    "area_method_lawful",
    catches=("degrees as metres", "Web Mercator metres"),
    reads=("/evidence/source", "/evidence/intermediate"),
)
def area_method_lawful(case: Case) -> Finding:
    """An area on degrees or Web Mercator was computed on the ellipsoid or an equal-area grid, never on the grid's own units."""
    if case.kind not in METRIC_KINDS:
        return not_applicable("nothing metric")
    method = next(
        (
            str(m)
            for m in (
                case.evidence(part, key)
                for part in ("source", "intermediate", "validity")
                for key in ("method", "area_method", "distance_method")
            )
            if isinstance(m, str)
        ),
        "",
    )
    scenes = case.used_scenes or [case.scenes[i.scene_id] for p in case.parents for i in p.inputs if i.scene_id in case.scenes]
    if not method or not scenes:
        return not_applicable("no method on record, or no scene")
    bent = [s for s in scenes if s.grid.crs is not None and s.grid.area_method == "geodesic"]
    if bent and ("planar" in method or method in ("grid", "pixel", "cartesian", "degrees")):
        return failed(
            "The scene's CRS does not keep areas, yet its own units were used; measure geodesically.",
            measured=method,
            expected="geodesic",
            at=("/evidence/source/method",),
        )
    return passed("The method keeps areas true.", measured=method, at=("/evidence/source/method",))


@check(
    "mask_holds_its_points",
    catches=("leaked or shifted mask", "box convention mistaken"),
    limits=("max_layer_px",),
    reads=("/result/layers", "/arguments/regions_method"),
)
def mask_holds_its_points(case: Case) -> Finding:
    """A mask that was grown from points holds those that were set inside, and none of those set outside."""
    method, ref = case.observation.arguments.get("regions_method"), case.layer("mask")
    if not isinstance(method, dict) or method.get("kind") != "prompt" or ref is None or not case.is_small(ref):
        return not_applicable("no mask from points")
    scene = scene_of_layer(case, ref)
    offset = grid_offset(ref.grid, scene.grid) if ref.grid is not None and scene is not None else (0.0, 0.0)
    if offset is None:
        return not_applicable("the mask lies on another grid")
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    held = mask & valid
    wrong = n = 0
    given = method.get("points")
    for point in given if isinstance(given, (list, tuple)) else ():
        numbers = [number_of(v) for v in point] if isinstance(point, (list, tuple)) else []
        if len(numbers) != 3 or None in numbers:
            continue
        x, y, kind = (float(v) for v in numbers if v is not None)
        col, row = math.floor(x - offset[0]), math.floor(y - offset[1])
        if not (0 <= row < held.shape[0] and 0 <= col < held.shape[1]) or not valid[row, col]:
            continue
        n += 1
        wrong += bool(held[row, col]) != bool(kind)
    if n == 0:
        return not_applicable("no point lies on the mask's ground")
    at = ("/result/layers", "/arguments/regions_method/points")
    if wrong:
        return failed(
            f"{wrong} of {n} points lie on the wrong side of the mask; they may have been read in other coordinates.",
            measured=wrong,
            expected=0,
            unit="points",
            at=at,
        )
    return passed("All points lie on their side of the mask.", measured=n, unit="points", at=at)


def told_of(case: Case, op: str) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """(place in the evidence, what the evidence says of the node, its parameters) for each node of an operator."""
    held = case.evidence("intermediate", "nodes")
    out = []
    for k, told in enumerate(held if isinstance(held, list) else ()):
        node = case.nodes.get(str(told.get("id"))) if isinstance(told, dict) else None
        if node is not None and node["op"] == op:
            out.append((k, dict(told), node["params"]))
    return out


@check(
    "shift_believable",
    catches=("shifted mask", "another scene's result"),
    limits=("shift_share", "shift_likeness", "rel_tolerance"),
    reads=("/evidence/intermediate/nodes", "/arguments/nodes"),
)
def shift_believable(case: Case) -> Finding:
    """The shift of a co-registration lies within what was searched and well under a quarter of the scene, the two images are
    alike where it puts them, and its length follows from its parts. So does that of the shift between two dates compared."""
    found = told_of(case, "raster.product.coregister")
    if not found:
        return _shift_between_dates(case)
    shortest = min((min(s.grid.shape) for s in case.used_scenes), default=0)
    measured: list[float] = []
    for k, told, params in found:
        at = (f"/evidence/intermediate/nodes/{k}",)
        parts = told.get("shift_px")
        pair = [number_of(v) for v in parts] if isinstance(parts, (list, tuple)) else []
        length, likeness = number_of(told.get("shift_length_px")), number_of(told.get("likeness"))
        if len(pair) != 2 or pair[0] is None or pair[1] is None or length is None:
            return inconclusive("The shift is not on record; hand over shift_px and shift_length_px.", at=at)
        wrong = _wrong_length(case, (pair[0], pair[1]), length, number_of(told.get("shift_m")), at)
        if wrong is not None:
            return wrong
        most = number_of(params.get("most_px"))
        most = 20.0 if most is None else most
        if length > most * (1 + 1e-9):
            return failed(
                "The images were moved further than was searched; ask for a greater most_px, or give the right pair.",
                measured=length,
                expected=f"≤ {most:g}",
                unit="px",
                at=at,
            )
        if shortest and length > case.limits.shift_share * shortest:
            return failed(
                "The images were moved so far that too little of them lies upon each other; give images of one place.",
                measured=length,
                expected=f"≤ {case.limits.shift_share * shortest:g}",
                unit="px",
                at=at,
            )
        if likeness is not None and not case.limits.shift_likeness <= likeness <= 1 + 1e-9:
            return failed(
                "The images have too little in common for their shift to be believed; take another band or date.",
                measured=likeness,
                expected=f"{case.limits.shift_likeness:g} to 1",
                at=at,
            )
        measured.append(length)
    return passed(
        "The images lie as far apart as two of one place can.",
        measured=measured[0],
        unit="px",
        at=("/evidence/intermediate/nodes",),
    )


def _shift_between_dates(case: Case) -> Finding:
    told = case.observation.evidence.intermediate
    parts, at = told.get("shift_px"), ("/evidence/intermediate/shift_px", "/evidence/intermediate/shift_m")
    pair = [number_of(v) for v in parts] if isinstance(parts, (list, tuple)) else []
    length = number_of(told.get("shift_length_px"))
    if case.observation.tool != "perceive" or len(pair) != 2 or pair[0] is None or pair[1] is None or length is None:
        return not_applicable("nothing was co-registered")
    # large images are compared at every 2nd, 3rd, … pixel
    step = number_of(told.get("step")) or 1.0
    wrong = _wrong_length(case, (pair[0] * step, pair[1] * step), length * step, number_of(told.get("shift_m")), at)
    if wrong is not None:
        return wrong
    return passed("The length of the shift is that of its rows and columns.", measured=length, unit="px", at=at)


def _wrong_length(
    case: Case, shift: tuple[float, float], length: float, metres: float | None, at: tuple[str, ...]
) -> Finding | None:
    """What is wrong with the length of a shift of (rows, columns) in pixels or in metres, or None."""
    if not case.is_same(math.hypot(*shift), length, 1e-3):
        return failed(
            "The shift's length is not that of its parts.", measured=length, expected=math.hypot(*shift), unit="px", at=at
        )
    grid = case.used_scenes[0].grid if case.used_scenes else None
    truth = _shift_on_ground_m(grid, *shift) if metres is not None and grid is not None and grid.crs else None
    if metres is None or truth is None or case.is_same(metres, truth, case.limits.gsd_rel_tolerance):
        return None
    return failed(
        "The shift in metres is not that of its rows and columns on the ground.",
        measured=metres,
        expected=truth,
        unit="m",
        at=at,
    )


def _shift_on_ground_m(grid: Grid, rows: float, cols: float) -> float | None:
    """Length in m of a shift at the middle of a grid, by Vincenty's formula; None where that finds none."""
    assert grid.crs is not None
    middle, moved = (grid.xy(grid.width / 2 + k * cols, grid.height / 2 + k * rows) for k in (0, 1))
    t = transformer(grid.crs, "EPSG:4326")
    found = vincenty(t.transform(*middle), t.transform(*moved))
    return None if found is None else found[0]


@check(
    "new_grid_as_asked",
    catches=("reprojection to the wrong zone", "degrees as metres", "clipped region"),
    limits=("cover_px",),
    reads=("/result/layers", "/arguments/nodes"),
)
def new_grid_as_asked(case: Case) -> Finding:
    """A raster that was reprojected lies in the CRS and has the pixel size that were asked for, and covers its scene's ground."""
    moving = [n for n in case.upstream(case.output) if case.nodes[n]["op"] in RESAMPLING]
    if len(moving) != 1 or case.nodes[moving[0]]["op"] != "raster.product.reproject" or len(case.used_scenes) != 1:
        return not_applicable("no single reprojection of one scene")
    scene, params = case.used_scenes[0].grid, case.nodes[moving[0]]["params"]
    refs = [(k, r) for k, r in enumerate(case.observation.result.layers) if r.kind in ("raster", "mask", "classes")]
    refs = [(k, r) for k, r in refs if r.grid is not None]
    if not refs or scene.crs is None:
        return not_applicable("no layer with a place")
    asked, resolution = str(params.get("crs") or scene.crs), number_of(params.get("resolution"))
    lattice = np.linspace(0, 1, 9)
    cols, rows = (g.ravel() for g in np.meshgrid(lattice * scene.width, lattice * scene.height))
    a, b, c, d, e, f = scene.transform
    for k, ref in refs:
        grid, at = ref.grid, (f"/result/layers/{k}/grid",)
        assert grid is not None
        if grid.crs is None or pyproj.CRS.from_user_input(grid.crs) != pyproj.CRS.from_user_input(asked):
            return failed(
                "The raster lies in another CRS than was asked for; reproject it to the asked one.",
                measured=(grid.crs or "image")[:60],
                expected=asked[:60],
                at=at,
            )
        sides = (math.hypot(grid.transform[0], grid.transform[3]), math.hypot(grid.transform[1], grid.transform[4]))
        # a layer of a large raster keeps every 2nd, 4th, … pixel
        thinned = [s / resolution for s in sides] if resolution else [1.0]
        if any(t < 1 - 1e-6 or abs(t - round(t)) > 1e-6 * t for t in thinned):
            return failed(
                "The raster's pixels are not of the size that was asked for.", measured=list(sides), expected=resolution, at=at
            )
        x, y = transformer(scene.crs, grid.crs).transform(a * cols + b * rows + c, d * cols + e * rows + f)
        a2, b2, c2, d2, e2, f2 = grid.transform
        det = a2 * e2 - b2 * d2
        x, y = np.asarray(x) - c2, np.asarray(y) - f2
        col, row = (e2 * x - b2 * y) / det, (a2 * y - d2 * x) / det
        slack = case.limits.cover_px
        if not (
            np.isfinite(col).all()
            and col.min() >= -slack
            and row.min() >= -slack
            and col.max() <= grid.width + slack
            and row.max() <= grid.height + slack
        ):
            return failed(
                "The raster does not cover its scene's ground: it was clipped, or put in another place.",
                measured=[float(v) for v in (col.min(), row.min(), col.max(), row.max())],
                expected=[0, 0, grid.width, grid.height],
                unit="px",
                at=at,
            )
    return passed("The raster lies where and as it was asked for.", measured=asked[:60], at=("/result/layers",))


@check(
    "refined_edge_only",
    catches=("leaked or shifted mask", "stale artifact"),
    limits=("max_layer_px",),
    reads=("/result/layers", "/arguments/regions_method"),
)
def refined_edge_only(case: Case) -> Finding:
    """A refined mask differs from the one that it was made of within the band about its edge alone, and says by how much."""
    method, ref = case.regions_method, case.layer("mask")
    seed = method.get("seed")
    if method.get("kind") != "refine" or ref is None or not case.is_small(ref) or not isinstance(seed, dict):
        return not_applicable("no refined mask")
    parent = next((p for p in case.parents if p.id == seed.get("observation")), None)
    label = seed.get("label") or ""
    first_ref = next((r for r in parent.result.layers if r.kind == "mask" and label in ("", r.label)), None) if parent else None
    if first_ref is None:
        return not_applicable("the first mask is not in the verified history")
    try:
        (first, known), (now, valid) = case.mask(first_ref), case.mask(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"A mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    at = ("/result/layers", "/arguments/regions_method/seed")
    if first.shape != now.shape:
        return failed(
            "The refined mask lies on another grid than the first.", measured=list(now.shape), expected=list(first.shape), at=at
        )
    band = number_of(method.get("band_px"))
    band = 4.0 if band is None else band
    before, after = first & known, now & valid
    inside, outside = ndimage.distance_transform_edt(before), ndimage.distance_transform_edt(~before)
    both = known & valid
    lost, grown = both & before & ~after & (inside > band), both & after & ~before & (outside > band)
    # where nothing was marked the distance to it means nothing
    n = int(lost.sum()) + (int(grown.sum()) if before.any() else int((after & both).sum()))
    if n:
        return failed(
            f"{n} pixels changed further than {band:g} from the first mask's edge; refinement moves the edge alone.",
            measured=n,
            expected=0,
            unit="px",
            at=at,
        )
    common, union = int((before & after).sum()), int((before | after).sum())
    told = case.evidence_number("intermediate", "iou_with_seed")
    if told is not None and union and abs(told - common / union) > 1e-3:
        return failed(
            "The overlap on record is not the one of the two masks.",
            measured=told,
            expected=common / union,
            at=("/evidence/intermediate/iou_with_seed",),
        )
    return passed("The mask changed at its edge alone.", measured=common / union if union else 1.0, at=at)


@check(
    "picture_lies_as_its_scene",
    catches=("shifted mask", "another scene's result"),
    reads=("/result/layers", "/evidence/intermediate/nodes"),
)
def picture_lies_as_its_scene(case: Case) -> Finding:
    """A picture of a scene has its CRS and covers its ground, or the part that was asked for; no pixel of it lies elsewhere."""
    refs = [(k, r) for k, r in enumerate(case.observation.result.layers) if r.kind == "image" and r.grid is not None]
    found = told_of(case, "image.annotate")
    if not refs or not found or len(case.used_scenes) != 1:
        return not_applicable("no picture with a place")
    scene, (k, told, params) = case.used_scenes[0].grid, found[0]
    window = told.get("window")
    frame = [number_of(v) for v in window] if isinstance(window, (list, tuple)) else []
    if len(frame) != 4 or any(v is None for v in frame):
        return inconclusive("The part of the scene that is shown is not on record.", at=(f"/evidence/intermediate/nodes/{k}",))
    x0, y0, w, h = (float(v) for v in frame if v is not None)
    if not params.get("crop") and (x0, y0, w, h) != (0, 0, scene.width, scene.height):
        return failed(
            "The picture shows a part of its scene although nothing was to be cropped.",
            measured=[x0, y0, w, h],
            expected=[0, 0, scene.width, scene.height],
            unit="px",
            at=(f"/evidence/intermediate/nodes/{k}",),
        )
    for at, ref in refs:
        grid = ref.grid
        assert grid is not None
        corners = [scene.colrow(*grid.xy(*p)) for p in ((0, 0), (grid.width, grid.height), (grid.width, 0))]
        wanted = [(x0, y0), (x0 + w, y0 + h), (x0 + w, y0)]
        slack = 0.01 * max(1.0, w / grid.width)
        if grid.crs != scene.crs or any(math.dist(p, q) > slack for p, q in zip(corners, wanted, strict=True)):
            return failed(
                "The picture lies elsewhere than the scene that it shows; give it the scene's georeferencing.",
                measured=[list(p) for p in corners],
                expected=[list(p) for p in wanted],
                unit="px",
                at=(f"/result/layers/{at}/grid",),
            )
    return passed("The picture lies as its scene.", measured=len(refs), at=("/result/layers",))


@check("mask_agrees_with_boxes", "warn", catches=("leaked or shifted mask",), reads=("/result/layers",))
def mask_agrees_with_boxes(case: Case) -> Finding:
    """Where a mask and boxes of the same objects exist, nearly all of the mask lies in the boxes."""
    mask_ref, box_ref = case.layer("mask"), kept_boxes(case)
    if mask_ref is None or box_ref is None or box_ref.crs != "image" or not case.is_small(mask_ref):
        return not_applicable("no mask with boxes")
    try:
        mask, valid = case.mask(mask_ref)
        bounds = bounds_of_layer(case, box_ref)
    except LayerUnreadableError:
        return not_applicable("a layer cannot be read")
    inside = np.zeros(mask.shape, dtype=bool)
    for x0, y0, x1, y1 in bounds[np.isfinite(bounds).all(axis=1)]:
        inside[max(0, int(y0)) : max(0, math.ceil(y1)), max(0, int(x0)) : max(0, math.ceil(x1))] = True
    total = int((mask & valid).sum())
    if total == 0:
        return not_applicable("the mask is empty")
    share = float((mask & valid & inside).sum() / total)
    if share < 0.9:
        return failed(
            "A part of the mask lies outside all boxes: it leaks or is shifted.",
            measured=share,
            expected="≥ 0.9",
            at=("/result/layers",),
        )
    return passed("The mask lies in the boxes.", measured=share, at=("/result/layers",))


# --- landmarks --------------------------------------------------------------------------------------------------------------
@check(
    "landmarks_stand",
    catches=("landmark outside the scene", "one place twice", "axes swapped", "box corner for its middle"),
    reads=("/arguments/landmarks", "/evidence/intermediate/landmarks_px"),
)
def landmarks_stand(case: Case) -> Finding:
    """A distance or bearing is between exactly two landmarks, both on the scene, not one place twice, and measured where the
    call puts them."""
    if not is_between_landmarks(case) or case.value is None:
        return not_applicable("nothing is measured between landmarks")
    at = ("/arguments/landmarks", "/evidence/intermediate/landmarks_px")
    scene = scene_measured(case)
    if scene is None:
        return not_applicable("the scene is not at hand")
    try:
        marks = marks_of(case, scene.grid)
    except (CannotMarkError, LayerUnreadableError) as why:
        return inconclusive(f"The landmarks cannot be placed: {why}.", at=at)
    size = (scene.grid.width, scene.grid.height)
    if len(marks) != 2:
        return failed("A measurement is between two landmarks.", measured=len(marks), expected=2, at=at)
    for mark in marks:
        if not (0 <= mark.px[0] <= size[0] and 0 <= mark.px[1] <= size[1]):
            return failed(
                f"The landmark {mark.name or 'given'} lies outside the scene.", measured=list(mark.px), expected=list(size),
                unit="px", at=at,
            )  # fmt: skip
    if math.dist(marks[0].px, marks[1].px) < 1e-6:
        return failed("Both landmarks are one and the same place.", measured=list(marks[0].px), expected="two places", at=at)
    told = case.evidence("intermediate", "landmarks_px")
    pairs = [[number_of(v) for v in p] for p in told if isinstance(p, (list, tuple))] if isinstance(told, (list, tuple)) else []
    if len(pairs) != 2 or any(len(p) != 2 or None in p for p in pairs):
        return inconclusive("Where the landmarks were measured is not on record.", at=at)
    for mark, (col, row) in zip(marks, pairs, strict=True):
        if math.dist(mark.px, (col or 0.0, row or 0.0)) > 0.01:
            return failed(
                f"The landmark {mark.name or 'given'} was measured elsewhere than it was put.", measured=[col, row],
                expected=list(mark.px), unit="px", at=at,
            )  # fmt: skip
    return passed("Two landmarks on the scene, measured where they were put.", measured=pairs, unit="px", at=at)


@check(
    "landmarks_as_marked",
    catches=("another place than marked", "bearing the wrong way round"),
    reads=("/arguments/landmarks", "/task/question"),
)
def landmarks_as_marked(case: Case) -> Finding:
    """The landmarks that the call calls A and B are the ones that the person marked, and a bearing runs as the words say."""
    marked: dict[str, Landmark] = {m.name: m for m in case.question.landmarks} if case.question is not None else {}
    raw = case.arguments.get("landmarks")
    given = [g for g in raw if isinstance(g, dict)] if isinstance(raw, (list, tuple)) else []
    if not is_between_landmarks(case) or not marked:
        return not_applicable("nobody marked a place")
    at = ("/arguments/landmarks", "/task/question")
    used = [g for g in given if str(g.get("name")) in marked and not g.get("layer")]
    for one in used:
        mark = marked[str(one["name"])]
        held = one.get("box") if one.get("box") is not None else one.get("point")
        numbers = [number_of(v) for v in held] if isinstance(held, (list, tuple)) else []
        wanted = list(mark.box or mark.point or ())
        is_same = len(numbers) == len(wanted) and all(
            n is not None and abs(n - w) < 1e-9 for n, w in zip(numbers, wanted, strict=True)
        )
        if not is_same or str(one.get("crs", "EPSG:4326")) != mark.crs:
            return failed(
                f"{mark.name} is measured at another place than it was marked.", measured=numbers, expected=wanted, at=at
            )
    if not used and not any(c.isdigit() for c in case.text) and not any(g.get("layer") for g in given):
        return failed(
            "The places were marked, and others are measured.", measured=[g.get("name") for g in given],
            expected=sorted(marked), at=at,
        )  # fmt: skip
    if method_of(case).get("measure") == "azimuth":
        found = re.search(r"\bfrom (?:the )?(?:\w+ ){0,2}?([ab])\b", case.text)
        first = str(given[0].get("name")) if given else ""
        if found and first != found[1].upper():
            return failed(
                "The bearing is asked from one mark and measured from the other.",
                measured=first,
                expected=found[1].upper(),
                at=at,
            )
    return passed("The places measured are the places marked.", measured=[g.get("name") for g in used], at=at)


@check(
    "landmarks_measured_again",
    catches=("axes swapped", "degrees as metres", "wrong GSD", "wrong unit", "box corner for its middle"),
    reads=("/result/value", "/arguments/landmarks"),
)
def landmarks_measured_again(case: Case) -> Finding:
    """The distance or bearing between two landmarks, worked out again from what was asked by Vincenty's formula (or pixels times
    GSD), is the value, and its interval is at least a pixel wide."""
    if not is_between_landmarks(case) or case.value is None:
        return not_applicable("nothing is measured between landmarks")
    scene = scene_measured(case)
    if scene is None:
        return not_applicable("the scene is not at hand")
    at = ("/result/value", "/arguments/landmarks")
    unit = case.observation.result.unit
    try:
        marks = marks_of(case, scene.grid)
        if len(marks) != 2:
            return not_applicable("not two landmarks")
        px = math.dist(marks[0].px, marks[1].px)
        gsd = scene.effective_gsd_m
        found = vincenty(*(degrees_of(m, scene.grid) for m in marks)) if scene.grid.crs is not None else None
    except (CannotMarkError, LayerUnreadableError) as why:
        return inconclusive(f"The landmarks cannot be placed: {why}.", at=at)
    if scene.grid.crs is not None and found is None:
        return not_applicable("places nearly opposite on the globe")
    is_bearing = method_of(case).get("measure") == "azimuth"
    metres = found[0] if found is not None else px * gsd if gsd is not None else None
    if is_bearing:
        if unit != "deg":
            return failed("A bearing is given in degrees.", measured=unit, expected="deg", at=("/result/unit",))
        if found is None:
            return failed("A scene without a CRS has no north.", measured=case.value, expected="no bearing", at=at)
        mine, truth = case.value, found[1]
        good = abs(math.remainder(mine - truth, 360)) <= 1e-3 + math.degrees(2e-3 / max(found[0], 1e-3))
    elif unit == "px":
        mine, truth, good = case.value, px, abs(case.value - px) <= 1e-3 + 1e-6 * px
    elif metres is None:
        return failed("Nobody knows how large a pixel is, so there are no metres.", measured=case.value, expected="px", at=at)
    else:
        mine, truth = to_si(case.value, unit) or 0.0, metres
        good = abs(mine - truth) <= 2e-3 + 1e-6 * truth
    said = "deg" if is_bearing else "px" if unit == "px" else "m"
    if not good:
        return failed(
            "Worked out again from the landmarks, the figure is another.", measured=mine, expected=truth, unit=said, at=at
        )
    interval, least = case.observation.result.interval, {"deg": math.degrees(1 / max(px, 1)), "px": 1.0}.get(said)
    if least is None:
        least = (metres or 0.0) / px
    width = to_si(interval[1] - interval[0], unit) if interval is not None and said == "m" else None
    if interval is not None:
        width = interval[1] - interval[0] if width is None else width
    if width is None or width < 0.999 * least:
        return failed(
            "The figure is told more exactly than a pixel allows.", measured=width, expected=f"≥ {least:.6g}", unit=said,
            at=("/result/interval",),
        )  # fmt: skip
    return passed(
        "Worked out again from the landmarks, this is the figure.", measured=mine, expected=truth, unit=said, at=at
    )
