"""The objects that a run found as COCO (object detection): images, categories and annotations in pixels."""

from __future__ import annotations

from typing import Any

import numpy as np
import shapely
from shapely.geometry import Polygon, shape
from shapely.geometry.base import BaseGeometry

from apps.core.errors import FaultError, UserError
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import LayerRef
from apps.core.ports import LayerStore
from apps.runs.export_layers import NO_FINDINGS, VECTOR_KINDS, marks, safe_file_name, scene_of, to_pixels

# Corners within this of the envelope's are a box, in pixels: layers keep two decimals.
_BOX_PX = 0.006
_DECIMALS = 3


def _looked_for_objects(held: ObservationState) -> bool:
    return held.observation.tool == "perceive" and held.observation.configuration.coarse == "objects"


def found_objects(state: RunState) -> list[tuple[ObservationState, LayerRef]]:
    """The objects layers that a COCO file holds, in order: those of the verified history, the newest attempt of each step.

    An observation that was made to support another one found the same objects again, and a layer that two observations share is
    one finding: neither is taken twice.
    """
    history = [h for h in state.history if _looked_for_objects(h)]
    supporting = {r.supporting_id for h in history for r in h.requests if r.supporting_id and r.supporting_id != h.id}
    newest = {h.observation.step: h for h in sorted(history, key=lambda h: h.observation.attempt) if h.id not in supporting}
    out: list[tuple[ObservationState, LayerRef]] = []
    seen: set[tuple[str, str | None, str]] = set()
    for held in history:
        if newest.get(held.observation.step) is not held:
            continue
        for ref in held.observation.result.layers:
            key = (ref.artifact, ref.source_scene_id, ref.label)
            if ref.kind in VECTOR_KINDS and ref.kind != "points" and ref.label not in NO_FINDINGS and key not in seen:
                seen.add(key)
                out.append((held, ref))
    return out


def nothing_found(state: RunState) -> str:
    """Why there is no COCO file of this run; '' where there is one. No objects in a scene is a finding, and a file."""
    if found_objects(state):
        return ""
    if any(_looked_for_objects(h) for h in state.observations.values()):
        return "No observation of objects is accepted in the verified history."
    return "No observation of this run looked for objects."


def coco_json(state: RunState, store: LayerStore) -> dict[str, Any]:
    """A COCO object. ``bbox`` is [x, y, width, height] in pixels from the upper left corner; ``area`` in square pixels;
    ``segmentation`` holds the rings of polygons that are no upright boxes, cut where they have holes.

    UserError BAD_ARGUMENT (409) where the verified history holds no objects layer.
    """
    if why := nothing_found(state):
        raise UserError(
            "BAD_ARGUMENT", "There is nothing to export as COCO.", why, "Ask how many objects of a kind there are.", status=409
        )
    scenes = state.question.scenes if state.question else ()
    images: dict[str, int] = {}
    categories: dict[str, int] = {}
    annotations: list[dict[str, Any]] = []
    names: list[str] = []
    told: list[dict[str, Any]] = []
    for held, ref in found_objects(state):
        scene = scene_of(ref, scenes)
        if scene is None:
            raise FaultError(f"the objects layer {ref.artifact} names no scene of its run")
        if scene.scene_id not in images:
            images[scene.scene_id] = len(images) + 1
            name = safe_file_name(scene.name, f"image-{len(images)}")
            names.append(name if name not in names else f"{len(images)}-{name}")
            told.append(
                {
                    "id": images[scene.scene_id],
                    "file_name": names[-1],
                    "width": scene.grid.width,
                    "height": scene.grid.height,
                    "date_captured": scene.acquired_at.isoformat() if scene.acquired_at else None,
                    "scene": scene.scene_id,
                    "digest": scene.artifact,
                }
            )
        categories.setdefault(ref.label or "object", len(categories) + 1)
        said = marks(state, held)
        place = to_pixels(ref, scene.grid)
        for feature in store.read_features(ref):
            given = feature.get("properties") or {}
            geometry = shapely.transform(shape(feature["geometry"]), place)
            x0, y0, x1, y1 = geometry.bounds
            one: dict[str, Any] = {
                "id": len(annotations) + 1,
                "image_id": images[scene.scene_id],
                "category_id": categories[ref.label or "object"],
                "bbox": [round(v, _DECIMALS) for v in (x0, y0, x1 - x0, y1 - y0)],
                "area": round(float(geometry.area), _DECIMALS),
                "segmentation": [] if _is_upright_box(geometry) else _rings(geometry),
                "iscrowd": 0,
            }
            if isinstance(score := given.get("score"), int | float):
                one["score"] = score
            annotations.append(one | {k: said[k] for k in ("observation", "decision", "verdict")})
    return {
        "info": {
            "description": "Objects of the verified history of one run; pixels from the upper left corner. Decisions are the "
            "machine's, verdicts a person's: null means that nobody has looked.",
            "version": "1",
            "contributor": "RSure Web",
            "run": state.run_id,
            "question": state.question.text if state.question else "",
            "date_created": state.ended_at.isoformat() if state.ended_at else None,
        },
        "licenses": [],
        "images": told,
        "categories": [{"id": i, "name": name, "supercategory": "object"} for name, i in categories.items()],
        "annotations": annotations,
    }


def _is_upright_box(geometry: BaseGeometry) -> bool:
    if geometry.geom_type != "Polygon" or geometry.interiors or len(geometry.exterior.coords) != 5:
        return False
    x0, y0, x1, y1 = geometry.bounds
    corners = np.asarray(geometry.exterior.coords)[:4]
    on_x = np.minimum(abs(corners[:, 0] - x0), abs(corners[:, 0] - x1)) <= _BOX_PX
    on_y = np.minimum(abs(corners[:, 1] - y0), abs(corners[:, 1] - y1)) <= _BOX_PX
    return bool(on_x.all() and on_y.all())


def _rings(geometry: BaseGeometry) -> list[list[float]]:
    """Outlines as [x1, y1, x2, y2, …] that together cover the geometry; the format knows no holes."""
    out = []
    for part in getattr(geometry, "geoms", [geometry]):
        if part.geom_type == "Polygon":
            for whole in _without_holes(part):
                out.append([round(float(v), _DECIMALS) for point in whole.exterior.coords[:-1] for v in point[:2]])
    return out


def _without_holes(polygon: Polygon) -> list[Polygon]:
    """The polygon cut upright through each hole, until no part has one."""
    if not polygon.interiors:
        return [polygon]
    hole = Polygon(polygon.interiors[0]).representative_point().x
    x0, y0, x1, y1 = polygon.bounds
    halves = (shapely.box(x0, y0, hole, y1), shapely.box(hole, y0, x1, y1))
    parts = [p for half in halves for p in shapely.get_parts(polygon.intersection(half)) if p.geom_type == "Polygon"]
    return [one for part in parts for one in _without_holes(part)]
