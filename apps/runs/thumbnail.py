"""A picture of an observation, small for lists and large for the report: its scene, and on it what it says."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.agent.units import unit_sign
from apps.artifacts.blobs import blob_path
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import ASIDE, LayerRef
from apps.core.geo.grid import transformer
from apps.core.geo.scene import SceneInfo
from apps.core.ports import LayerStore
from apps.imagery import tiles
from apps.imagery.facts import RasterStatistics
from apps.imagery.models import Scene
from apps.runs.headline import quantity_text

SIZE = 112
# Outlines beyond these are no picture any more at this size.
MOST_OUTLINES = 400
# As the tokens have them (frontend/css/tokens.css): halo and core of outlines.
HALO, CORE, MANY = (11, 15, 20, 217), (255, 255, 255, 255), (34, 211, 238, 255)
# More outlines than these would be nothing but halo.
FEW_OUTLINES = 30


def _shown_layers(state: RunState, held: ObservationState) -> list[LayerRef]:
    """The layers that the observation speaks of: its own, else those of what it was made from; no candidates."""
    parents = [state.observations[p] for p in held.observation.parents if p in state.observations]
    for one in (held, *parents):
        layers = [ref for ref in one.observation.result.layers if ref.label not in (*ASIDE, "reference")]
        if layers:
            return layers
    return []


def _scene_of(state: RunState, held: ObservationState | None, layers: Iterable[LayerRef]) -> SceneInfo | None:
    scenes = {s.scene_id: s for s in (state.question.scenes if state.question else ())}
    wanted = [ref.source_scene_id for ref in layers] + [i.scene_id for i in (held.observation.inputs if held else ())]
    return next((scenes[i] for i in wanted if i in scenes), next(iter(scenes.values()), None))


@dataclass(frozen=True, slots=True)
class ObservationPicture:
    """``rgba`` (height, width, 4); the scene under it; what was drawn on it, in words; colours with what they stand for."""

    rgba: NDArray[np.uint8]
    scene: SceneInfo
    drawn: tuple[str, ...] = ()
    legend: tuple[tuple[str, str], ...] = ()


def observation_thumbnail(state: RunState, held: ObservationState, store: LayerStore, *, size: int = SIZE) -> NDArray[np.uint8]:
    """RGBA, (height, width, 4), the longer side at most ``size``; nothing is drawn of a question about no imagery, and a list
    has no broken picture there. See observation_picture."""
    if state.question is not None and not state.question.scenes:
        return np.zeros((size, size, 4), dtype=np.uint8)
    return observation_picture(state, held, store, size=size).rgba


def observation_picture(
    state: RunState,
    held: ObservationState | None,
    store: LayerStore,
    *,
    size: int,
    most: int = MOST_OUTLINES,
    with_region: bool = False,
) -> ObservationPicture:
    """The scene of an observation (of the question where there is none) with what it says, the longer side at most ``size``.

    A raster layer is drawn only where it lies on the scene's own grid: nobody would see that it was moved. At most ``most``
    outlines of a layer are drawn, best score first. NotFoundError where the scene or its file is gone.
    """
    layers = _shown_layers(state, held) if held else []
    info = _scene_of(state, held, layers)
    scene = Scene.objects.filter(pk=info.scene_id).first() if info else None
    if info is None or scene is None or not scene.is_ready or not scene.cog_id:
        raise NotFoundError("scene")
    statistics = RasterStatistics.model_validate(scene.statistics)
    try:
        ground = tiles.scene_preview(info, blob_path(scene.cog_id), statistics, tiles.default_view(info), size)
    except (KeyError, FileNotFoundError):
        raise NotFoundError("scene") from None
    picture = Image.fromarray(np.ascontiguousarray(ground), "RGBA")
    drawn = []
    legend: tuple[tuple[str, str], ...] = ()
    raster = next((r for kind in ("mask", "classes", "raster") for r in layers if r.kind == kind), None)
    if raster is not None and raster.grid is not None and _same_grid(raster, info):
        over = _layer_picture(raster, picture.size)
        if over is not None:
            picture.alpha_composite(over)
            drawn.append(f"{raster.kind} {quantity_text(raster.label)}".strip())
            legend = _legend(raster)
    for ref in layers:
        if ref.kind in ("boxes", "polygons", "points") and ref.source_scene_id in (None, info.scene_id):
            n, of = _outlines(picture, ref, info, store, most)
            if n:
                part = f"{n:,} of {of:,}" if n < of else f"{n:,}"
                drawn.append(f"{part} {ref.kind} {quantity_text(ref.label)}".strip())
    question = state.question
    if with_region and question and question.region and _draw(picture, [shape(question.region)], question.region_crs, info):
        drawn.append("the region of the question")
    return ObservationPicture(np.asarray(picture), info, tuple(drawn), legend)


def _legend(ref: LayerRef) -> tuple[tuple[str, str], ...]:
    """(colour, what it stands for) of a raster layer, as its legend on the map has them."""
    style = tiles.layer_style(blob_path(ref.artifact))
    if style.kind == "mask":
        return ((tiles.legend(style)[0]["color"], quantity_text(ref.label)),)
    unit = unit_sign(style.unit)
    return tuple(
        (stop["color"], str(stop.get("label") or f"{stop['value']:.3g}{unit and f' {unit}'}".replace("-", "−")))
        for stop in tiles.legend(style)
    )


def _same_grid(ref: LayerRef, info: SceneInfo) -> bool:
    grid = ref.grid
    return grid is not None and (grid.width, grid.height) == (info.grid.width, info.grid.height) and grid.crs == info.grid.crs


def _layer_picture(ref: LayerRef, size: tuple[int, int]) -> Image.Image | None:
    """The layer at the first zoom that is not coarser than ``size``, put together of its tiles."""
    assert ref.grid is not None
    full = tiles.image_zoom(ref.grid.width, ref.grid.height)
    zoom = next((z for z in range(full) if ref.grid.width >> (full - z) >= size[0]), full)
    part = 2 ** (full - zoom)
    width, height = -(-ref.grid.width // part), -(-ref.grid.height // part)
    whole = Image.new("RGBA", (width, height))
    try:
        for y in range(-(-height // tiles.TILE_PX)):
            for x in range(-(-width // tiles.TILE_PX)):
                tile = tiles.layer_image_rgba(blob_path(ref.artifact), zoom, x, y)
                if tile is None:
                    return None
                whole.paste(Image.fromarray(np.ascontiguousarray(tile), "RGBA"), (x * tiles.TILE_PX, y * tiles.TILE_PX))
    except (KeyError, FileNotFoundError, UserError):
        return None
    return whole.resize(size, Image.Resampling.NEAREST)


def _outlines(picture: Image.Image, ref: LayerRef, info: SceneInfo, store: LayerStore, most: int) -> tuple[int, int]:
    """Draws the features double-stroked, best score first; (how many were drawn, how many there are)."""
    try:
        features: list[dict[str, Any]] = store.read_features(ref)
    except (KeyError, FileNotFoundError, UserError):
        return 0, 0
    features = sorted(features, key=lambda f: -float(f.get("properties", {}).get("score") or 0))
    is_drawn = _draw(picture, [shape(f["geometry"]) for f in features[:most]], ref.crs, info)
    return (min(most, len(features)) if is_drawn else 0), len(features)


def _draw(picture: Image.Image, geometries: list[BaseGeometry], crs: str, info: SceneInfo) -> bool:
    """Outlines of geometries in ``crs`` (``image``: pixels of the scene); False where they have no place on the scene."""
    scale = picture.width / info.grid.width
    a, b, c, d, e, f = info.grid.transform
    det = a * e - b * d
    to_scene = None if crs == "image" or info.grid.crs is None else transformer(crs, info.grid.crs)
    if crs != "image" and (to_scene is None or det == 0):
        return False

    def place(points: NDArray[np.float64]) -> NDArray[np.float64]:
        if to_scene is None:
            return points * scale
        x, y = to_scene.transform(points[:, 0], points[:, 1])
        x, y = np.asarray(x) - c, np.asarray(y) - f
        return np.column_stack([(e * x - b * y) / det, (a * y - d * x) / det]) * scale

    draw = ImageDraw.Draw(picture)
    rings = []
    for given in geometries:
        geometry = shapely.transform(given, place)
        for part in getattr(geometry, "geoms", [geometry]):
            if part.geom_type == "Polygon":
                rings.append([(float(x), float(y)) for x, y in part.exterior.coords])
            elif part.geom_type == "Point":
                rings.append([(part.x - 2, part.y), (part.x, part.y - 2), (part.x + 2, part.y), (part.x, part.y + 2)])
    # in a large picture even many outlines are more than halo
    for width, color in ((3, HALO), (1, CORE)) if len(rings) <= FEW_OUTLINES or picture.width > 4 * SIZE else ((1, MANY),):
        for ring in rings:
            if len(ring) > 1:
                draw.line([*ring, ring[0]], fill=color, width=width)
    return True
