"""Geometry: layers lie on their image's grid, in one CRS, and ground sizes are those of the ground."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyproj
import shapely

from apps.core.errors import FaultError
from apps.core.geo.grid import transformer
from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.ground import CannotPlaceError, place
from apps.verification.placed import grid_offset, is_thinned, scene_of_layer

METRIC_KINDS = frozenset({"area", "distance", "length"})


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


def _with_axes_exchanged(case: Case) -> str | None:
    """The name of a drawn source that lies on no scene of the question and would with latitude for longitude; None where none
    does, '' where there is nothing to look at."""
    frames = [transformer(s.grid.crs, "EPSG:4326").transform_bounds(*s.grid.bounds) for s in case.scenes.values() if s.grid.crs]
    sources = case.arguments.get("sources")
    n_seen = 0
    for source in sources if frames and case.observation.tool == "measure" and isinstance(sources, list) else ():
        if not isinstance(source, dict) or source.get("mode") != "extent" or not (source.get("vector") or source.get("geometry")):
            continue
        try:
            shapes = place(case, source).shapes
        except (CannotPlaceError, FaultError, KeyError, TypeError, ValueError):
            continue
        n_seen += 1
        west, south, east, north = shapely.total_bounds(np.array(shapes, dtype=object))
        if not any(_overlap((west, south, east, north), f) for f in frames) and any(
            _overlap((south, west, north, east), f) for f in frames
        ):
            return str(source.get("name", "subject"))
    return None if n_seen else ""


def _overlap(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] <= other[2] and one[2] >= other[0] and one[1] <= other[3] and one[3] >= other[1]


@check(
    "layers_in_one_crs",
    catches=("reprojection to the wrong zone", "axes exchanged"),
    reads=("/result/layers", "/arguments/sources"),
)
def layers_in_one_crs(case: Case) -> Finding:
    """Layers of one image share one CRS (or the image's pixels); what is measured together lies in one CRS, and shapes that were
    drawn have longitude before latitude where else they would not lie on the imagery."""
    exchanged = _with_axes_exchanged(case)
    if exchanged:
        return failed(
            f"{exchanged[:80]} lies on no image of the question; with latitude and longitude exchanged it would. Give longitude "
            "first, and measure again.",
            measured="latitude, longitude",
            expected="longitude, latitude",
            at=("/arguments/sources",),
        )
    by_scene: dict[str, set[str]] = {}
    for ref in case.observation.result.layers:
        if ref.crs != "image":
            by_scene.setdefault(ref.source_scene_id or "", set()).add(ref.crs)
    if not by_scene:
        if exchanged is None:
            return passed("What was drawn has its axes in order.", at=("/arguments/sources",))
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
