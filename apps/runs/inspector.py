"""What lies at one place of a run's map: the values of each scene's bands and of each raster layer, read from the files."""

from __future__ import annotations

import math
from typing import Any

from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import Grid, transformer
from apps.core.geo.scene import SceneInfo
from apps.core.ports import LayerStore
from apps.imagery.readers import open_scene
from apps.imagery.selectors import scene_paths
from apps.runs.headline import quantity_text, scene_title

# Scenes looked at for one place, the first of the question's; the answer says how many there are.
MOST_SCENES = 60
# A layer larger than this is not read whole for one pixel.
MOST_LAYER_PX = 40_000_000


def pixel_at(grid: Grid, x: float, y: float, *, is_image: bool) -> tuple[int, int] | None:
    """(column, row) under a position; None outside. ``x``, ``y`` are longitude and latitude, or column and row (``is_image``)."""
    if not is_image:
        if grid.crs is None:
            return None
        x, y = transformer("EPSG:4326", grid.crs).transform(x, y)
        a, b, c, d, e, f = grid.transform
        det = a * e - b * d
        if det == 0 or not (math.isfinite(x) and math.isfinite(y)):
            return None
        x, y = (e * (x - c) - b * (y - f)) / det, (a * (y - f) - d * (x - c)) / det
    col, row = math.floor(x), math.floor(y)
    return (col, row) if 0 <= col < grid.width and 0 <= row < grid.height else None


def values_at(state: RunState, store: LayerStore, x: float, y: float) -> dict[str, Any]:
    """{scenes: [{title, pixel, values: [{name, value}]}], layers: [{name, unit, value, step}], n_scenes}; null: not valid."""
    scenes = state.question.scenes if state.question else ()
    is_image = not all(s.grid.is_georeferenced for s in scenes)
    paths = scene_paths([s.scene_id for s in scenes[:MOST_SCENES]])
    found = [_scene_at(s, paths, x, y, is_image=is_image) for s in scenes[:MOST_SCENES] if s.scene_id in paths]
    layers: list[dict[str, Any]] = []
    seen: set[str] = set()
    for held in state.observations.values():
        for ref in held.observation.result.layers:
            if ref.artifact not in seen and ref.kind in ("mask", "raster") and ref.grid is not None:
                seen.add(ref.artifact)
                layer = _layer_at(ref, store, x, y, is_image=is_image)
                if layer is not None:
                    layers.append(layer | {"step": held.observation.step})
    return {"scenes": [s for s in found if s is not None], "layers": layers, "n_scenes": len(scenes)}


def _scene_at(info: SceneInfo, paths: dict[str, Any], x: float, y: float, *, is_image: bool) -> dict[str, Any] | None:
    place = pixel_at(info.grid, x, y, is_image=is_image)
    if place is None:
        return None
    with open_scene(info, paths[info.scene_id]) as reader:
        part = reader.read([b.index for b in info.bands], (*place, 1, 1))
    values = [
        {
            "name": b.role if b.role != "unknown" else f"band {b.index}",
            "value": float(part.data[i, 0, 0]) if bool(part.valid[i, 0, 0]) else None,
        }
        for i, b in enumerate(info.bands)
    ]
    return {"title": scene_title(info), "pixel": place, "values": values}


def _layer_at(ref: LayerRef, store: LayerStore, x: float, y: float, *, is_image: bool) -> dict[str, Any] | None:
    assert ref.grid is not None
    place = pixel_at(ref.grid, x, y, is_image=is_image)
    if place is None or ref.grid.width * ref.grid.height > MOST_LAYER_PX:
        return None
    col, row = place
    try:
        if ref.kind == "mask":
            mask, valid = store.read_mask(ref)
            value: float | bool | None = bool(mask[row, col]) if bool(valid[row, col]) else None
        else:
            raster = store.read_raster(ref)
            value = float(raster.data[0, row, col]) if bool(raster.valid[0, row, col]) else None
    except (KeyError, FileNotFoundError):
        return None
    return {"name": quantity_text(ref.label) or ref.kind, "unit": ref.unit, "value": value}
