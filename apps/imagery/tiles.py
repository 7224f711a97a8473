"""Map tiles and previews of our COGs: rio-tiler where there is a CRS, plain pixels where there is none.

The one nodata policy decides what is transparent, over the same bands as everywhere else. Rendering runs in threads of its own
that keep datasets open (bounded), and for a bounded time.
"""

from __future__ import annotations

import io
import json
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image
from rasterio.crs import CRS
from rasterio.errors import RasterioError
from rio_tiler.colormap import cmap
from rio_tiler.reader import part
from scipy import ndimage

from apps.core.errors import UserError
from apps.core.geo.grid import Grid, longitude_spans
from apps.core.geo.raster import valid_mask
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import RasterStatistics
from apps.imagery.readers import GDAL_OPTIONS, SceneReader, open_raster, open_scene

TILE_PX = 256
TILE_SECONDS = 20.0
MAX_ZOOM = 26
# Files kept open a rendering thread.
KEEP_OPEN = 24
_THREADS = 4
_WEB_MERCATOR = CRS.from_epsg(3857)
_HALF_WORLD_M = 20037508.342789244
_CYAN = (34, 211, 238)
_HALO = (11, 15, 20)
# Qualitative colours of class values without a palette of their own; distinct in lightness too.
_CLASS_COLORS = (
    (90, 90, 90), (31, 119, 180), (255, 187, 51), (44, 160, 44), (214, 39, 40), (148, 103, 189), (140, 86, 75), (227, 119, 194),
    (188, 189, 34), (23, 190, 207), (174, 199, 232), (255, 152, 150), (152, 223, 138), (197, 176, 213), (219, 219, 141),
    (158, 218, 229),
)  # fmt: skip
Stretch = Literal["percent", "minmax", "sigma"]
ImageFormat = Literal["png", "webp"]
T = TypeVar("T")
_pool = ThreadPoolExecutor(max_workers=_THREADS, thread_name_prefix="tiles")
_local = threading.local()


# --- running


def bounded(work: Callable[[], T], seconds: float = TILE_SECONDS) -> T:
    """Runs ``work`` in a rendering thread. UserError TILE_TIMEOUT (503) where it takes longer."""
    future = _pool.submit(work)
    try:
        return future.result(timeout=seconds)
    except FutureTimeoutError as error:
        future.cancel()
        raise UserError(
            "TILE_TIMEOUT", "A part of the map did not come.", f"It took longer than {seconds:g} seconds.",
            "Zoom in or try again.", status=503,
        ) from error  # fmt: skip


def _kept(key: tuple[str, ...], make: Callable[[], Any]) -> Any:
    """An open thing of this thread, least recently used closed first."""
    held: OrderedDict[tuple[str, ...], Any] = getattr(_local, "held", None) or OrderedDict()
    _local.held = held
    if key in held:
        held.move_to_end(key)
        return held[key]
    made = make()
    held[key] = made
    while len(held) > KEEP_OPEN:
        held.popitem(last=False)[1].close()
    return made


# --- scenes


@dataclass(frozen=True, slots=True)
class View:
    """How a scene is shown: 1-based ``bands`` (one or three) and the stretch between them."""

    bands: tuple[int, ...]
    stretch: Stretch = "percent"


def default_view(info: SceneInfo) -> View:
    """Natural colour where the roles are known, else false colour, else the first band."""
    by_role = {b.role: b.index for b in info.bands}
    for triple in (("red", "green", "blue"), ("nir", "red", "green"), ("swir1", "nir", "red")):
        if all(role in by_role for role in triple):
            return View(tuple(by_role[role] for role in triple))
    shown = [b.index for b in info.bands if b.role not in ("alpha", "qa")] or [info.bands[0].index]
    return View((shown[0],))


def parse_view(info: SceneInfo, bands: str, stretch: str = "") -> View:
    """A view from the address' words (``4,3,2``). UserError BAD_ARGUMENT for bands that are not there."""
    view = default_view(info)
    if bands:
        try:
            chosen = tuple(int(b) for b in bands.split(","))
        except ValueError:
            chosen = ()
        held = {b.index for b in info.bands}
        if len(chosen) not in (1, 3) or not set(chosen) <= held:
            raise UserError(
                "BAD_ARGUMENT", "These bands cannot be shown.", f"“{bands[:40]}” are not one or three of the {len(held)} bands.",
                "Write ?bands=4,3,2 or ?bands=1.",
            )  # fmt: skip
        view = View(chosen)
    if stretch in ("minmax", "sigma", "percent"):
        view = View(view.bands, stretch)  # type: ignore[arg-type]
    return view


def is_picture(info: SceneInfo, view: View) -> bool:
    """Whether the bands are an 8-bit picture's own colours, which are shown as stored."""
    roles = {b.index: b.role for b in info.bands}
    return info.dtype == "uint8" and view.stretch == "percent" and [roles[b] for b in view.bands] in (
        ["red", "green", "blue"], ["gray"],
    ) and all(b.role in ("red", "green", "blue", "gray", "alpha") for b in info.bands)  # fmt: skip


def stretch_range(statistics: RasterStatistics, band: int, stretch: Stretch) -> tuple[float, float]:
    """(black, white) of a band in stored units, from the stored statistics."""
    held = next((b for b in statistics.bands if b.index == band), None)
    if held is None or held.low is None or held.high is None:
        return 0.0, 1.0
    low, high = held.low, held.high
    if stretch == "percent" and held.p2 is not None and held.p98 is not None and held.p98 > held.p2:
        low, high = held.p2, held.p98
    elif stretch == "sigma" and held.mean is not None and held.std:
        low, high = held.mean - 2 * held.std, held.mean + 2 * held.std
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _shade(
    data: NDArray[Any], valid: NDArray[np.bool_], info: SceneInfo, statistics: RasterStatistics, view: View,
    palette: dict[int, tuple[int, ...]],
) -> NDArray[np.uint8]:  # fmt: skip
    """RGBA (rows, columns, 4) of stored values (bands, rows, columns); transparent where no shown band is valid."""
    alpha = np.where(valid.any(axis=0), np.uint8(255), np.uint8(0))
    roles = {b.index: b for b in info.bands}
    if len(view.bands) == 1:
        band = roles[view.bands[0]]
        if palette or band.role in ("class", "mask"):
            return _classes(data[0], alpha, palette)
        low, high = stretch_range(statistics, band.index, view.stretch)
        if band.role in ("ndvi", "evi") and view.stretch == "percent":
            low, high = (-0.2 - band.offset) / band.scale, (1.0 - band.offset) / band.scale
            return _colored(data[0], alpha, low, high, "rdylgn")
        level = data[0].astype(np.uint8) if is_picture(info, view) else _level(data[0], low, high)
        return np.dstack([level, level, level, alpha])
    if is_picture(info, view):
        return np.dstack([data[0], data[1], data[2], alpha]).astype(np.uint8)
    levels = [_level(data[i], *stretch_range(statistics, b, view.stretch)) for i, b in enumerate(view.bands)]
    return np.dstack([*levels, alpha])


def _level(values: NDArray[Any], low: float, high: float) -> NDArray[np.uint8]:
    scaled = (values.astype(np.float32) - np.float32(low)) * np.float32(255.0 / (high - low))
    level: NDArray[np.uint8] = np.nan_to_num(np.clip(scaled, 0, 255), nan=0.0).astype(np.uint8)
    return level


@lru_cache(maxsize=16)
def _table(name: str) -> NDArray[np.uint8]:
    held = cmap.get(name)
    return np.array([held[i][:3] for i in range(256)], dtype=np.uint8)


def _colored(values: NDArray[Any], alpha: NDArray[np.uint8], low: float, high: float, name: str) -> NDArray[np.uint8]:
    return np.dstack([_table(name)[_level(values, low, high)], alpha])


def class_color(value: int, palette: dict[int, tuple[int, ...]] | None = None) -> tuple[int, int, int]:
    """The colour of a class value: its palette's, or one of ours."""
    own = (palette or {}).get(value)
    r, g, b = (own if own is not None else _CLASS_COLORS[value % len(_CLASS_COLORS)])[:3]
    return r, g, b


def _classes(values: NDArray[Any], alpha: NDArray[np.uint8], palette: dict[int, tuple[int, ...]]) -> NDArray[np.uint8]:
    low = int(values.min()) if values.size else 0
    span = int(values.max()) - low + 1 if values.size else 1
    if values.dtype.kind == "f" or span > 65536:
        return np.dstack([_level(values, float(low), float(low + span))] * 3 + [alpha])
    table = np.array([class_color(low + i, palette) for i in range(span)], dtype=np.uint8)
    return np.dstack([table[values.astype(np.int64) - low], alpha])


def _palette(dataset: Any) -> dict[int, tuple[int, ...]]:
    try:
        return dict(dataset.colormap(1))
    except ValueError:
        return {}


def tile_bounds(z: int, x: int, y: int) -> tuple[float, float, float, float]:
    """(left, bottom, right, top) of a Web Mercator tile in metres; x wraps around the globe."""
    size = 2 * _HALF_WORLD_M / 2**z
    x %= 2**z
    left, top = -_HALF_WORLD_M + x * size, _HALF_WORLD_M - y * size
    return left, top - size, left + size, top


def _lonlat_of(bounds: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    west, east = (v / _HALF_WORLD_M * 180 for v in (bounds[0], bounds[2]))
    south, north = (math.degrees(math.atan(math.sinh(v / _HALF_WORLD_M * math.pi))) for v in (bounds[1], bounds[3]))
    return west, south, east, north


def touches(grid: Grid, bounds: tuple[float, float, float, float]) -> bool:
    """Whether a Web Mercator box may hold pixels of the grid; boxes over the antimeridian included."""
    west, south, east, north = grid.lonlat_bounds()
    left, low, right, high = _lonlat_of(bounds)
    if high < south or low > north:
        return False
    return any(left <= e and right >= w for w, e in longitude_spans(west, east))


def _warped(
    dataset: Any, bounds: tuple[float, float, float, float], bands: Sequence[int], buffer: int = 0
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """rio-tiler's part of the dataset on a Web Mercator box: (stored values of the nearest pixels, coverage). The file's
    mask or alpha is in the coverage; its nodata is left to the caller's policy, so the warp must not apply it."""
    own = next((i + 1 for i, c in enumerate(dataset.colorinterp) if c.name == "alpha"), None)
    options: dict[str, Any] = {"nodata": None, "src_nodata": None, "add_alpha": own is None}
    image = part(
        dataset, bounds, height=TILE_PX, width=TILE_PX, dst_crs=_WEB_MERCATOR, bounds_crs=_WEB_MERCATOR,
        indexes=[*bands, own or dataset.count + 1], vrt_options=options, resampling_method="nearest",
        reproject_method="nearest", buffer=buffer or None,
    )  # fmt: skip
    planes = np.asarray(image.array.data)
    return planes[:-1], planes[-1] != 0


def scene_rgba(
    info: SceneInfo, path: Path, statistics: RasterStatistics, view: View, z: int, x: int, y: int
) -> NDArray[np.uint8] | None:
    """RGBA of a Web Mercator tile; None where the scene is not there."""
    bounds = tile_bounds(z, x, y)
    if not touches(info.grid, bounds):
        return None
    with rasterio.Env(**GDAL_OPTIONS):
        dataset = _kept(("raw", str(path)), lambda: open_raster(path))
        data, covered = _warped(dataset, bounds, view.bands)
        bands = {b.index: b for b in info.bands}
        fill = np.zeros(covered.shape, dtype=bool)
        alpha = next((b.index for b in info.bands if b.role == "alpha"), None)
        others = [b for b in bands if b not in view.bands and b != alpha]
        for rule in info.fill_rules:
            if rule.kind != "all_bands_equal" or rule.value is None:
                continue
            here: NDArray[np.bool_] = (data == rule.value).all(axis=0) & covered
            if here.any() and others:
                rest, _ = _warped(dataset, bounds, others)
                here &= (rest == rule.value).all(axis=0)
            fill |= here
        valid = valid_mask(data, [bands[b] for b in view.bands], info.fill_rules, None, fill) & covered[None]
        return _shade(data, valid, info, statistics, view, _palette(dataset))


def image_zoom(width: int, height: int) -> int:
    """The zoom at which one tile pixel is one picture pixel; at zoom 0 the picture fits one tile."""
    return max(0, math.ceil(math.log2(max(width, height) / TILE_PX)))


def _pixel_window(grid: Grid, z: int, x: int, y: int) -> tuple[tuple[int, int, int, int], tuple[int, int]] | None:
    """(window, (rows, columns) in the tile) of a tile in pixel space, or None outside."""
    full = image_zoom(grid.width, grid.height)
    if z > full or x < 0 or y < 0:
        return None
    step = 2 ** (full - z)
    col, row = x * TILE_PX * step, y * TILE_PX * step
    if col >= grid.width or row >= grid.height:
        return None
    width, height = min(TILE_PX * step, grid.width - col), min(TILE_PX * step, grid.height - row)
    return (col, row, width, height), (max(1, round(height / step)), max(1, round(width / step)))


def scene_image_rgba(
    info: SceneInfo, path: Path, statistics: RasterStatistics, view: View, z: int, x: int, y: int
) -> NDArray[np.uint8] | None:
    """RGBA of a tile in pixel space; None outside."""
    place = _pixel_window(info.grid, z, x, y)
    if place is None:
        return None
    window, shape = place
    shaded = _window_rgba(info, path, statistics, view, window, shape)
    return np.pad(shaded, ((0, TILE_PX - shape[0]), (0, TILE_PX - shape[1]), (0, 0)))


def scene_preview(info: SceneInfo, path: Path, statistics: RasterStatistics, view: View, size: int) -> NDArray[np.uint8]:
    """RGBA of the whole scene, its longer side at most ``size`` pixels."""
    scale = min(1.0, size / max(info.grid.width, info.grid.height))
    shape = (max(1, round(info.grid.height * scale)), max(1, round(info.grid.width * scale)))
    return _window_rgba(info, path, statistics, view, (0, 0, info.grid.width, info.grid.height), shape)


def _window_rgba(
    info: SceneInfo, path: Path, statistics: RasterStatistics, view: View, window: tuple[int, int, int, int],
    shape: tuple[int, int],
) -> NDArray[np.uint8]:  # fmt: skip
    reader: SceneReader = _kept(("scene", str(path), info.model_dump_json()), lambda: open_scene(info, path))
    part_ = reader.read(view.bands, window, shape, physical=False)
    dataset = _kept(("raw", str(path)), lambda: open_raster(path))
    return _shade(part_.data, part_.valid, info, statistics, view, _palette(dataset))


# --- result layers


@dataclass(frozen=True, slots=True)
class LayerStyle:
    """How a layer is drawn: ``kind`` mask, raster, classes or image (as it is); for rasters the span and the colour map, for
    classes names."""

    kind: str
    low: float = 0.0
    high: float = 1.0
    colors: str = "viridis"
    unit: str = ""
    names: tuple[tuple[int, str], ...] = ()


@lru_cache(maxsize=512)
def layer_style(path: Path) -> LayerStyle:
    """The style of a layer artifact, from its tags and an overview of its values. UserError BAD_ARGUMENT for no layer."""
    with rasterio.Env(**GDAL_OPTIONS), open_raster(path) as dataset:
        tags = dataset.tags()
        kind = tags.get("RSURE_KIND", "")
        if kind in ("mask", "image"):
            return LayerStyle(kind)
        if kind == "classes":
            names = {int(k): str(v) for k, v in json.loads(tags.get("RSURE_CLASSES", "{}")).items()}
            return LayerStyle("classes", names=tuple(sorted(names.items())))
        if kind != "raster":
            raise UserError(
                "BAD_ARGUMENT", "This artifact is no map layer.", "It holds no mask, raster or classes.", "Download it."
            )
        scale = min(1.0, 1024 / max(dataset.width, dataset.height))
        shape = (max(1, round(dataset.height * scale)), max(1, round(dataset.width * scale)))
        values = dataset.read(1, out_shape=shape)
        values = values[np.isfinite(values)]
        low, high = (float(v) for v in np.percentile(values, (2, 98))) if values.size else (0.0, 1.0)
        colors = "viridis"
        if low < 0 < high:
            high = max(-low, high)
            low, colors = -high, "rdbu"
        if high <= low:
            low, high = low - 0.5, high + 0.5
        return LayerStyle("raster", low, high, colors, tags.get("RSURE_UNIT", ""))


def legend(style: LayerStyle, steps: int = 5) -> list[dict[str, Any]]:
    """[{value or label, color}] of a layer, for its legend; raster stops are evenly spaced from low to high."""
    if style.kind == "mask":
        return [{"label": "yes", "color": _hex(_CYAN)}]
    if style.kind == "image":
        return []
    if style.kind == "classes":
        return [{"value": v, "label": n, "color": _hex(class_color(v))} for v, n in style.names]
    table = _table(style.colors)
    stops = []
    for i in range(steps):
        at = i / (steps - 1)
        value = style.low + at * (style.high - style.low)
        stops.append({"value": round(value, 6), "color": _hex(table[round(at * 255)])})
    return stops


def _hex(color: Sequence[int] | NDArray[np.uint8]) -> str:
    return "#" + "".join(f"{int(c):02x}" for c in color[:3])


_EDGE_PX = 2


def _mask_rgba(mask: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Cyan fill, brighter core along the edge, dark halo outside it, so that it reads on any ground."""
    out = np.zeros((*mask.shape, 4), dtype=np.uint8)
    out[ndimage.binary_dilation(mask) & ~mask] = (*_HALO, 230)
    out[mask] = (*_CYAN, 92)
    out[mask & ~ndimage.binary_erosion(mask, border_value=1)] = (*_CYAN, 255)
    return out


def _layer_rgba(data: NDArray[Any], valid: NDArray[np.bool_], style: LayerStyle) -> NDArray[np.uint8]:
    alpha = np.where(valid, np.uint8(255), np.uint8(0))
    if style.kind == "mask":
        return _mask_rgba((data == 1) & valid)
    if style.kind == "classes":
        return _classes(data, alpha, {})
    return _colored(data, alpha, style.low, style.high, style.colors)


def _layer_valid(dataset: Any, values: NDArray[Any]) -> NDArray[np.bool_]:
    return np.isfinite(values) if values.dtype.kind == "f" else np.asarray(values != dataset.nodata)


def layer_rgba(path: Path, z: int, x: int, y: int) -> NDArray[np.uint8] | None:
    """RGBA of a layer's Web Mercator tile; None where the layer is not there."""
    style = layer_style(path)
    with rasterio.Env(**GDAL_OPTIONS):
        dataset = _kept(("raw", str(path)), lambda: open_raster(path))
        if not dataset.crs:
            return None
        bounds = tile_bounds(z, x, y)
        grid = Grid(
            crs=dataset.crs.to_wkt(), transform=tuple(dataset.transform)[:6], width=dataset.width, height=dataset.height
        )
        if not touches(grid, bounds):
            return None
        if style.kind == "image":
            planes, covered = _warped(dataset, bounds, [1, 2, 3])
            return np.dstack([*planes, np.where(covered, np.uint8(255), np.uint8(0))])
        planes, covered = _warped(dataset, bounds, [1], buffer=_EDGE_PX)
        shaded = _layer_rgba(planes[0], _layer_valid(dataset, planes[0]) & covered, style)
        return shaded[_EDGE_PX:-_EDGE_PX, _EDGE_PX:-_EDGE_PX]


def layer_image_rgba(path: Path, z: int, x: int, y: int) -> NDArray[np.uint8] | None:
    """RGBA of a layer's tile in pixel space; None outside."""
    style = layer_style(path)
    with rasterio.Env(**GDAL_OPTIONS):
        dataset = _kept(("raw", str(path)), lambda: open_raster(path))
        place = _pixel_window(Grid(width=dataset.width, height=dataset.height), z, x, y)
        if place is None:
            return None
        (col, row, width, height), shape = place
        at = ((row, row + height), (col, col + width))
        try:
            if style.kind == "image":
                shaded = np.moveaxis(dataset.read([1, 2, 3, 4], window=at, out_shape=(4, *shape)), 0, 2)
            else:
                values = dataset.read(1, window=at, out_shape=shape)
                shaded = _layer_rgba(values, _layer_valid(dataset, values), style)
        except RasterioError as error:
            raise UserError(
                "UNREADABLE", "The layer cannot be read.", "Its file is broken.", "Run the question again."
            ) from error
        return np.pad(shaded, ((0, TILE_PX - shape[0]), (0, TILE_PX - shape[1]), (0, 0)))


# --- bytes


def encode(rgba: NDArray[np.uint8], kind: ImageFormat = "png") -> bytes:
    """The picture as bytes; PNG fast rather than small, WebP lossless."""
    out = io.BytesIO()
    image = Image.fromarray(np.ascontiguousarray(rgba), "RGBA")
    if kind == "webp":
        image.save(out, "WEBP", lossless=True, method=0, quality=20)
    else:
        image.save(out, "PNG", compress_level=1)
    return out.getvalue()


@lru_cache(maxsize=2)
def empty_tile(kind: ImageFormat = "png") -> bytes:
    """A transparent tile."""
    return encode(np.zeros((TILE_PX, TILE_PX, 4), dtype=np.uint8), kind)
