"""The map of a run: scenes and result layers as the map island's configuration (templates/components/README.md)."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import shapely
from django.templatetags.static import static
from django.urls import reverse
from numpy.typing import NDArray
from pyproj import CRS
from shapely.geometry import mapping, shape

from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import NOT_SEEN, LayerRef
from apps.core.geo.grid import transformer
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import VectorInfo
from apps.core.ports import LayerStore
from apps.imagery.tiles import default_view, image_zoom
from apps.runs.headline import layer_size, quantity_text, scene_detail, scene_title
from apps.runs.landmarks import landmark_feature
from apps.runs.prompts import prompts_feature

MAX_SCENE_LAYERS = 40
_NODE = re.compile(r" \(\w+\)$")


def _is_geo(scenes: tuple[SceneInfo, ...]) -> bool:
    return bool(scenes) and all(s.grid.is_georeferenced for s in scenes)


def shown_bands(scene: SceneInfo) -> tuple[list[int], str]:
    """1-based bands to show, as everywhere else, and their name: natural colour, false colour, or one band."""
    bands = list(default_view(scene).bands)
    roles = {b.index: b.role for b in scene.bands}
    if len(bands) == 3:
        names = [roles[i] for i in bands]
        return bands, "Natural colour" if names[0] == "red" else "False colour " + "-".join(names)
    role = roles[bands[0]]
    return bands, role if role != "unknown" else f"Band {bands[0]}"


def scene_bounds(scene: SceneInfo) -> list[float]:
    if scene.grid.is_georeferenced:
        return list(scene.grid.lonlat_bounds())
    return [0, 0, scene.grid.width, scene.grid.height]


def map_config(state: RunState, *, only: ObservationState | None = None) -> dict[str, Any]:
    """Layers of a run, results above imagery; ``only`` limits the results to one observation's (and what it rests on)."""
    question = state.question
    scenes = question.scenes if question else ()
    files = vectors_used(state)
    geo = _is_geo(scenes) or not scenes
    if not geo:
        scenes = (
            scenes[:1]
            if not only or not only.observation.inputs
            else tuple(s for s in scenes if s.scene_id == (only.observation.inputs[0].scene_id or scenes[0].scene_id))[:1]
            or scenes[:1]
        )
    layers: list[dict[str, Any]] = []
    if question and question.region and (question.region_crs == "image") != geo:
        layers.append(
            {
                "id": "region",
                "name": "Region of the question",
                "group": "Results",
                "kind": "geojson",
                "style": "region",
                "data": {"type": "Feature", "geometry": question.region, "properties": {}},
                "visible": True,
            }
        )
    marks = [m for m in (question.landmarks if question else ()) if (m.crs == "image") != geo]
    if marks and only is None:
        layers.append(
            {
                "id": "marks",
                "name": "Marked places",
                "group": "Results",
                "detail": "of the question",
                "kind": "geojson",
                "style": "marks",
                "data": {"type": "FeatureCollection", "features": [landmark_feature(m) for m in marks]},
                "visible": True,
            }
        )
    prompts = [m for m in (question.prompts if question else ()) if (m.crs == "image") != geo]
    if prompts:
        layers.append(
            {
                "id": "prompts",
                "name": "What was marked",
                "group": "Results",
                "detail": "of the question",
                "kind": "geojson",
                "style": "marks",
                "data": prompts_feature(prompts),
                "visible": True,
            }
        )
    shown = [only] if only else list(state.observations.values())
    if only:
        shown += [state.observations[p] for p in only.observation.parents if p in state.observations]
    seen: set[tuple[str, str]] = set()
    results: list[tuple[dict[str, Any], bool]] = []
    for held in reversed(shown) if not only else shown:
        for ref in held.observation.result.layers:
            if (ref.artifact, ref.kind) in seen or (not geo and ref.source_scene_id not in (None, scenes[0].scene_id)):
                continue
            seen.add((ref.artifact, ref.kind))
            layer = _result_layer(state, held, ref, geo)
            if layer:
                layer["visible"] = layer["visible"] and (held.effective != "reject" or only is held)
                layers.append(layer)
                results.append((layer, held.effective != "reject" or only is held))
    # a raster hides the imagery and stands back behind masks and outlines; where it is all that was found, it is shown
    if results and not any(layer["visible"] for layer, _ in results):
        for layer in [layer for layer, is_good in results if is_good and layer.get("style") == "raster"][:1]:
            layer["visible"] = True
    for vector in files if geo else ():
        layers.append(
            {
                "id": f"vector-{vector.vector_id}",
                "name": vector.name,
                "group": "Vector layers",
                "detail": f"{vector.n:,} {vector.noun}",
                "kind": "geojson",
                "style": "reference",
                "visible": True,
                "url": reverse("run_layer", args=[state.run_id, vector.artifact]),
            }
        )
    for i, scene in enumerate(scenes[:MAX_SCENE_LAYERS]):
        bands, name = shown_bands(scene)
        path = reverse("tile_scene" if geo else "tile_scene_image", args=[scene.scene_id, 0, 0, 0])
        layers.append(
            {
                "id": f"scene-{scene.scene_id}",
                "name": scene_title(scene) if len(scenes) > 1 else name,
                "detail": f"{name} · {scene_detail(scene)}" if len(scenes) > 1 else scene_detail(scene),
                "group": "Imagery",
                "kind": "tiles",
                "url": _template(path) + "?bands=" + ",".join(map(str, bands)),
                "bounds": scene_bounds(scene),
                "visible": i == 0,
                "max_native_zoom": _native_zoom(scene, geo),
                "opacity": 1,
            }
        )
    bounds = [scene_bounds(s) for s in scenes] or [list(v.bounds) for v in files]
    config: dict[str, Any] = {
        "crs": "geo" if geo else "image",
        "layers": layers,
        "bounds": [min(b[0] for b in bounds), min(b[1] for b in bounds), max(b[2] for b in bounds), max(b[3] for b in bounds)]
        if bounds
        else [-180, -60, 180, 75],
    }
    if geo or not scenes:
        config |= {"land": static("build/land.geojson"), "graticule": True}
    else:
        config["size_px"] = [scenes[0].grid.width, scenes[0].grid.height]
    if only is None:
        config |= {"draw": "#id_region", "marks": "#ask-marks", "prompts": "#ask-prompts"}
    if scenes:
        grid = scenes[0].grid
        config["grid"] = {
            "epsg": f"EPSG:{grid.epsg}" if grid.epsg else "",
            "transform": list(grid.transform),
            "size_px": [grid.width, grid.height],
            "gsd_m": scenes[0].effective_gsd_m,
            "proj4": CRS.from_user_input(grid.crs).to_proj4() if grid.crs else "",
        }
        if len(scenes) > 1:
            config["swipe"] = [f"scene-{scenes[0].scene_id}", f"scene-{scenes[-1].scene_id}"]
    return config


def vectors_used(state: RunState) -> list[VectorInfo]:
    """The vector files of the question that its plan names, in their order."""
    if state.question is None or not state.question.vectors or state.plan is None:
        return []
    named: set[str] = set()
    for step in state.plan.steps:
        sources, nodes = step.arguments.get("sources"), step.arguments.get("nodes")
        held: list[Any] = list(sources) if isinstance(sources, list) else []
        held += [n.get("params") for n in nodes if isinstance(n, dict)] if isinstance(nodes, list) else []
        named |= {str(h["vector"]) for h in held if isinstance(h, dict) and h.get("vector")}
    return [v for v in state.question.vectors if v.artifact in named]


def features_for_map(layers: LayerStore, ref: LayerRef, scenes: Sequence[SceneInfo], *, limit: int) -> dict[str, Any]:
    """A vector layer as GeoJSON for the map: longitude and latitude where its scene has a CRS, pixels otherwise.

    At most ``limit`` features, best score first; ``total`` tells how many there are.
    """
    features = layers.read_features(ref)
    total = len(features)
    features = sorted(features, key=lambda f: -float(f.get("properties", {}).get("score") or 0))[:limit]
    scene = next((s for s in scenes if s.scene_id == ref.source_scene_id), scenes[0] if len(scenes) == 1 else None)
    to_map = _to_map(ref, scene)
    out = []
    for i, feature in enumerate(features):
        geometry = shapely.transform(shape(feature["geometry"]), to_map)
        given = feature.get("properties", {})
        score = given.get("score")
        name = str(given.get("class") or given.get("label") or ref.label)
        title = " ".join(filter(None, [name, f"{score:.2f}" if isinstance(score, float) else ""]))
        out.append({"type": "Feature", "id": i, "geometry": mapping(geometry), "properties": given | {"title": title}})
    return {"type": "FeatureCollection", "total": total, "features": out}


def _to_map(ref: LayerRef, scene: SceneInfo | None) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    """From the layer's coordinates, (n, 2), to the map's."""
    if ref.crs == "image":
        if scene is None or not scene.grid.is_georeferenced:
            return lambda points: points
        grid = scene.grid
        a, b, c, d, e, f = grid.transform
        return lambda p: np.column_stack(grid.wgs84(a * p[:, 0] + b * p[:, 1] + c, d * p[:, 0] + e * p[:, 1] + f))
    if ref.crs == "EPSG:4326":
        return lambda points: points
    to = transformer(ref.crs, "EPSG:4326")
    return lambda p: np.column_stack(to.transform(p[:, 0], p[:, 1]))


def _template(path: str) -> str:
    head, _z, _x, tail = path.rsplit("/", 3)
    return f"{head}/{{z}}/{{x}}/{{y}}{tail.removeprefix('0')}"


def _native_zoom(scene: SceneInfo, geo: bool) -> int:
    if not geo:
        return image_zoom(scene.grid.width, scene.grid.height)
    gsd = scene.effective_gsd_m or 10.0
    _west, south, _east, north = scene.grid.lonlat_bounds()
    resolution = 156543.03392804097 * math.cos(math.radians((south + north) / 2))
    return max(0, min(24, math.ceil(math.log2(resolution / gsd))))


def _layer_name(held: ObservationState, ref: LayerRef) -> str:
    """The label for people; the node's name in brackets stays only where two layers would read alike."""
    plain = _NODE.sub("", ref.label)
    alike = sum(_NODE.sub("", other.label) == plain for other in held.observation.result.layers)
    return quantity_text(plain if alike == 1 else ref.label) or ref.kind


def _result_layer(state: RunState, held: ObservationState, ref: LayerRef, geo: bool) -> dict[str, Any] | None:
    name = _layer_name(held, ref)
    base = {
        "id": f"{ref.artifact[7:19]}-{ref.kind}",
        "name": name[:1].upper() + name[1:],
        "group": "Results",
        "detail": " · ".join(filter(None, [f"obs {held.observation.step}", layer_size(ref)])),
    }
    if ref.kind in ("boxes", "polygons", "points"):
        own = {"candidates": "candidates", NOT_SEEN: "unseen", "reference": "reference", "landmarks": "marks"}
        style = own.get(ref.label, "boxes" if ref.kind == "boxes" else "mask")
        return base | {
            "kind": "geojson",
            "style": style,
            "visible": ref.label != "candidates",
            "url": reverse("run_layer", args=[state.run_id, ref.artifact]),
        }
    if ref.kind in ("mask", "raster", "classes", "image") and ref.grid is not None:
        bounds = list(ref.grid.lonlat_bounds()) if ref.grid.is_georeferenced else [0, 0, ref.grid.width, ref.grid.height]
        path = reverse("tile_layer" if geo else "tile_layer_image", args=[ref.artifact, 0, 0, 0])
        return (
            base
            | {
                "kind": "tiles",
                "url": _template(path),
                "bounds": bounds,
                "opacity": 1,  # the mask's fill is see-through in itself, its outline is not
                "visible": ref.kind in ("mask", "image"),
                "style": "mask" if ref.kind == "mask" else "raster",
            }
            | ({} if ref.kind == "image" else {"legend": reverse("layer_legend", args=[ref.artifact])})
        )
    return None
