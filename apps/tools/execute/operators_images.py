"""Operators that write pictures: a scene with what was found drawn on it, a raster in colours, a chart of values.

A picture is kept as a GeoTIFF with the source's georeferencing (and as a PNG); the evidence says what was drawn, in which colour,
and what became black and white. Nothing is measured on a picture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date
from typing import Any, Literal

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import Field, JsonValue
from shapely.geometry.base import BaseGeometry

from apps.core.evidence.observation import Frozen, JsonMap, LayerRef
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.tools.contract import ObservationSource, ToolContext
from apps.tools.execute.accumulators import OrderStatistics
from apps.tools.execute.drawing import (
    COLOURS,
    Chart,
    Colour,
    Ground,
    Pen,
    blend_mask,
    chart_rgba,
    colour_table,
    ground_of,
    metres_a_pixel,
    plain_text,
    shown_bands,
)
from apps.tools.execute.operators_products import describe, grids_agree
from apps.tools.execute.streaming import LayerPixels
from apps.tools.execute.types import (
    Call,
    ImageType,
    Operator,
    Planned,
    RasterType,
    SceneType,
    Take,
    Value,
    ZonesType,
    register,
)
from apps.tools.geojson import crs_of, geometries_of
from apps.tools.region import RegionMask, to_pixels

# A picture has at most this many pixels; a larger scene is drawn thinned, and the log and evidence say so.
PICTURE_PX = 16_000_000
# More shapes than this make a picture black with lines.
MAX_SHAPES = 5000
Form = Literal["both", "geotiff", "png"]
Drawn = tuple[Value, list[LayerRef]]


def kept_picture(ctx: ToolContext, rgba: NDArray[np.uint8], grid: Grid, form: Form, label: str,
                 scene_id: str | None) -> list[LayerRef]:
    """The picture in the forms asked for."""
    forms = ("geotiff", "png") if form == "both" else (form,)
    return [ctx.layers.put_image(rgba, grid, form=f, label=label, scene_id=scene_id) for f in forms]  # type: ignore[arg-type]


# --- annotated copies ------------------------------------------------------------------------------------------------------
class Mark(Frozen):
    """Something to draw that no observation holds: a geometry, a text at a place, or both."""

    geometry: JsonMap = Field(description="GeoJSON geometry")
    crs: str = Field(default="image", description="image: pixels, x right, y down; or a CRS such as EPSG:4326")
    text: str = Field(default="", max_length=120)


class AnnotateParams(Frozen):
    layers: tuple[ObservationSource, ...] = Field(default=(), max_length=12, description="layers of earlier observations")
    marks: tuple[Mark, ...] = Field(default=(), max_length=500)
    bands: tuple[int, ...] = Field(default=(), max_length=3, description="1-based, one or three; none: natural colour if known")
    title: str = Field(default="", max_length=80)
    labels: bool = Field(default=True, description="write class and score, or the text, at each shape")
    scale_bar: bool = True
    legend: bool = True
    crop: bool = Field(default=False, description="only the part inside the region's box")
    form: Form = "both"


def _plan_annotate(call: Call) -> Planned:
    p: AnnotateParams = call.params
    first, *overlays = call.inputs
    if not isinstance(first, SceneType):
        raise call.refuse("the first input is the scene that is drawn on.")
    scene = first.scene
    for other in overlays:
        if isinstance(other, SceneType):
            raise call.refuse("one scene is drawn on; bring another there as a raster.")
        if isinstance(other, RasterType) and not grids_agree(other.grid, scene.grid):
            raise call.refuse(f"{other.scene_names} does not lie on the pixels of {scene.name} ({describe(other.grid)}); put "
                              "raster.product.resample before.", needs={"resample": True})
    held = {b.index for b in scene.bands}
    bands = p.bands or shown_bands(scene)
    if len(bands) not in (1, 3) or not set(bands) <= held:
        raise call.refuse(f"bands are one or three of the {len(held)} of {scene.name}.", code="NEEDS_BANDS")
    window = (0, 0, scene.grid.width, scene.grid.height)
    region = RegionMask.of(call.region, call.region_crs, scene.grid, scene.name)
    if p.crop:
        if call.region is None:
            raise call.refuse("there is no region to crop to.", code="BAD_REGION", needs={"region": True})
        window = region.bounds_px
    rasters = [(n, k) for n, k in zip(call.names[1:], overlays, strict=True) if isinstance(k, RasterType)]
    zones = [k for k in overlays if isinstance(k, ZonesType)]

    def settle(found: Sequence[Any]) -> tuple[Any, dict[str, JsonValue]]:
        return dict(zip((n for n, _ in rasters), found, strict=True)), {}

    def draw(ctx: ToolContext, state: Any, values: Sequence[Value]) -> Drawn:
        return _annotated(ctx, call, p, scene, bands, window, region, rasters, state or {}, zones)

    kind = ImageType("image", f"{scene.name} annotated"[:100], (scene,))
    used = tuple((scene.scene_id, next(b.role for b in scene.bands if b.index == i), i) for i in bands)
    if not rasters:
        return Planned(kind, bands=used, draw=draw)
    return Planned(kind, bands=used, draw=draw, settle=settle, prepare=lambda: [
        ((n,), LayerPixels(scene.grid, limit_px=PICTURE_PX, is_mask=k.kind == "mask")) for n, k in rasters])


def _annotated(ctx: ToolContext, call: Call, p: AnnotateParams, scene: SceneInfo, bands: Sequence[int], window: Window,
               region: RegionMask, rasters: Sequence[tuple[str, RasterType]], state: Mapping[str, LayerPixels],
               zones: Sequence[ZonesType]) -> Drawn:
    ground = ground_of(ctx.reader(scene.scene_id), bands, window, PICTURE_PX)
    if ground.step > 1:
        ctx.log("info", f"The picture is drawn at every {ground.step:.2f}th pixel of {scene.name}.")
    rgba = ground.rgba
    drawn: list[dict[str, JsonValue]] = []
    rows: list[tuple[Colour, str]] = []
    ratio = (window[2] / ground.grid.width, window[3] / ground.grid.height)

    def colour_of(name: str) -> Colour:
        colour = COLOURS[len(rows) % len(COLOURS)]
        rows.append((colour, plain_text(name, 40)))
        return colour

    def on_picture(geometry: BaseGeometry) -> BaseGeometry:
        return shapely.transform(geometry, lambda q: np.stack([(q[:, 0] - window[0]) / ratio[0],
                                                               (q[:, 1] - window[1]) / ratio[1]], axis=1))

    frame = shapely.box(0, 0, ground.grid.width, ground.grid.height)
    shapes: list[tuple[BaseGeometry, str, Colour]] = []

    def add(name: str, found: Sequence[tuple[BaseGeometry, str]], what: str, source: str) -> None:
        inside = [(g, t) for g, t in ((on_picture(g), t) for g, t in found) if g.intersects(frame)]
        colour = colour_of(f"{name} ({len(inside)})")
        drawn.append({"name": name, "what": what, "n": len(inside), "n_outside": len(found) - len(inside), "colour": [*colour],
                      "source": source})
        shapes.extend((g, t, colour) for g, t in inside)

    for name, kind in rasters:
        pixels = state[name]
        data, valid = _on_grid(pixels, window, ground)
        if kind.kind == "mask":
            mask = (data != 0) & valid
            colour = colour_of(kind.quantity)
            blend_mask(rgba, mask, colour)
            drawn.append({"name": kind.quantity, "what": "mask", "n_px": int(mask.sum()), "colour": [*colour], "source": name})
        else:
            entry = _overlay(rgba, data, valid, kind)
            drawn.append(entry | {"name": kind.quantity, "source": name})
    for source in p.layers:
        parent = ctx.parent(source.observation)
        if parent.status.state == "failed":
            raise call.refuse(f"the observation that is to be drawn failed: {parent.status.reason}", code="TOOL_FAILED")
        held = [r for r in parent.result.layers if r.kind in ("boxes", "polygons", "points", "mask")
                and (r.label == source.label if source.label else not r.is_aside)]
        if not held:
            named = f" named {source.label}" if source.label else ""
            raise call.refuse(f"that observation has no layer of shapes or mask{named}.", code="NOT_FOUND")
        for ref in held:
            name = ref.label or ref.kind
            if ref.source_scene_id not in (None, scene.scene_id):
                raise call.refuse(f"{name} was found on another scene than {scene.name}.")
            if ref.kind == "mask":
                if ref.grid is None or not grids_agree(ref.grid, scene.grid):
                    raise call.refuse(f"the mask {name} does not lie on the pixels of {scene.name}.")
                mask, valid = ctx.layers.read_mask(ref)
                mask = _picked(mask & valid, window, ground)
                colour = colour_of(name)
                blend_mask(rgba, mask, colour)
                drawn.append({"name": name, "what": "mask", "n_px": int(mask.sum()), "colour": [*colour], "source": parent.id})
            else:
                features = ctx.layers.read_features(ref)
                if not features:
                    drawn.append({"name": name, "what": ref.kind, "n": 0, "source": parent.id})
                    continue
                geometries, properties = geometries_of({"type": "FeatureCollection", "features": features})
                add(name, [(to_pixels(g, ref.crs, scene.grid), _caption(q)) for g, q in zip(geometries, properties, strict=True)],
                    ref.kind, parent.id)
    for k in zones:
        add("zones", [(to_pixels(g, k.crs, scene.grid), name) for name, g in k.zones], "zones", "vector.zones")
    if p.marks:
        found = []
        for mark in p.marks:
            (geometry,), _ = geometries_of(dict(mark.geometry))
            found.append((to_pixels(geometry, crs_of(mark.geometry, mark.crs), scene.grid), mark.text))
        add("marks", found, "marks", "the call")
    if region.polygon is not None and not p.crop:
        add("region", [(region.polygon, "")], "region", "the question")
    if len(shapes) > MAX_SHAPES:
        raise call.refuse(f"{len(shapes)} shapes are more than {MAX_SHAPES}; give a region or a higher score.", code="TOO_LARGE")
    pen = Pen(rgba)
    for geometry, _, colour in shapes:
        pen.shape(geometry, colour)
    n_labels = 0
    for geometry, text, colour in shapes:
        if text and p.labels:
            x0, y0, _, _ = geometry.bounds
            pen.label(x0, y0, plain_text(text), colour)
            n_labels += 1
    evidence: dict[str, JsonValue] = {
        "drawn": [*drawn], "n_labels": n_labels, "step": ground.step, "window": [*window], "bands": [*bands],
        "stretch": [{"band": b, "black": lo, "white": hi} for b, lo, hi in ground.stretch], "line_px": pen.line_px}
    box = pen.legend(plain_text(p.title, 80), rows if p.legend else [])
    evidence["legend_px"] = list(box) if box else None
    evidence["scale_bar"] = None
    if p.scale_bar:
        metres = metres_a_pixel(ground.grid, scene.effective_gsd_m * ratio[0] if scene.effective_gsd_m else None)
        if metres is None:
            ctx.log("warning", f"No scale bar: neither CRS nor GSD of {scene.name} tells how large a pixel is.")
        else:
            drawn_bar = pen.scale_bar(metres)
            if drawn_bar is not None:
                length, length_px, bar = drawn_bar
                evidence["scale_bar"] = {"metres": length, "length_px": length_px, "metres_a_pixel": metres, "covers_px": [*bar]}
    if (p.legend and rows and box is None) or (p.scale_bar and evidence["scale_bar"] is None):
        ctx.log("info", "Legend or scale bar are left out of the picture: it is too small, or its scale is unknown.")
    whole = window == (0, 0, scene.grid.width, scene.grid.height) and ground.step == 1
    grid = scene.grid if whole else ground.grid
    refs = kept_picture(ctx, pen.rgba, grid, p.form, "annotated", scene.scene_id if whole else None)
    evidence["size_px"] = [grid.width, grid.height]
    return Value(None, int((ground.rgba[..., 3] > 0).sum()), evidence, tuple(drawn)), refs


def _caption(properties: Mapping[str, Any]) -> str:
    name = properties.get("class") or properties.get("label") or properties.get("text") or properties.get("name") or ""
    score = properties.get("score")
    return f"{name} {score:.2f}".strip() if isinstance(score, (int, float)) and not isinstance(score, bool) else str(name)


def _index(window: Window, ground: Ground, step: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Rows and columns of a layer (every ``step``-th pixel of the scene) under the picture's pixel centres."""
    c, r, w, h = window
    rows = (r + (np.arange(ground.grid.height) + 0.5) * h / ground.grid.height).astype(np.int64)
    cols = (c + (np.arange(ground.grid.width) + 0.5) * w / ground.grid.width).astype(np.int64)
    return rows // step, cols // step


def _on_grid(pixels: LayerPixels, window: Window, ground: Ground) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    rows, cols = _index(window, ground, pixels.step)
    at = np.ix_(rows, cols)
    return pixels.data[at], pixels.valid[at]


def _picked(mask: NDArray[np.bool_], window: Window, ground: Ground) -> NDArray[np.bool_]:
    rows, cols = _index(window, ground, 1)
    return mask[np.ix_(rows, cols)]


def _overlay(rgba: NDArray[np.uint8], data: NDArray[Any], valid: NDArray[np.bool_], kind: RasterType) -> dict[str, JsonValue]:
    """A raster or class map in colours over the ground, in place; what became which colour."""
    if kind.kind == "classes":
        found = [int(v) for v in np.unique(data[valid])][:256]
        for v in found:
            rgba[valid & (data == v), :3] = COLOURS[v % len(COLOURS)]
        rgba[valid, 3] = 255
        return {"what": "classes", "n_px": int(valid.sum()), "classes": {str(v): [*COLOURS[v % len(COLOURS)]] for v in found}}
    values = data[valid].astype(np.float64)
    low, high = (float(v) for v in np.percentile(values, [2, 98])) if values.size else (0.0, 1.0)
    high = high if high > low else low + 1.0
    rgba[valid, :3] = _coloured(values, low, high, "viridis")
    rgba[valid, 3] = 255
    return {"what": "raster", "n_px": int(valid.sum()), "low": low, "high": high, "colours": "viridis"}


def _coloured(values: NDArray[np.float64], low: float, high: float, name: str) -> NDArray[np.uint8]:
    level = np.rint(np.clip((values - low) / (high - low), 0, 1) * 255).astype(np.int64)
    return colour_table(name)[level]


register(Operator(
    name="image.annotate", summary="A copy of a scene with boxes, shapes, masks, zones, texts, legend and scale bar drawn on it.",
    takes=Take(("scene", "raster", "mask", "classes", "zones"), 1, 12), params=AnnotateParams, gives="image",
    range="colours from 0 to 255; nothing is measured on a picture", nodata="invalid pixels are transparent",
    plan=_plan_annotate))


# --- colour maps -----------------------------------------------------------------------------------------------------------
class ColourParams(Frozen):
    colours: str = Field(default="viridis", max_length=40, description="viridis, magma, gray, rdbu, ylgn, terrain, …")
    low: float | None = Field(default=None, description="value of the first colour; none: the 2nd percentile")
    high: float | None = Field(default=None, description="value of the last colour; none: the 98th percentile")
    form: Form = "both"


def _plan_colours(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: ColourParams = call.params
    try:
        colour_table(p.colours)
    except KeyError as error:
        raise call.refuse(f"no colour map is called {p.colours[:40]!r}.") from error
    if any(v is not None and not math.isfinite(v) for v in (p.low, p.high)):
        raise call.refuse("the ends of the colours are numbers.")
    if p.low is not None and p.high is not None and not p.low < p.high:
        raise call.refuse("the first colour's value lies below the last one's.")
    name = call.names[0]

    def settle(found: Sequence[Any]) -> tuple[Any, dict[str, JsonValue]]:
        pixels, ranks = found
        if not ranks.n:
            raise call.refuse("no valid pixel is left.", code="TOOL_FAILED", needs={"valid_px": True})
        low = ranks.value(0.02) if p.low is None else p.low
        high = ranks.value(0.98) if p.high is None else p.high
        if not low < high:
            # one value: it takes the middle colour
            low, high = low - 0.5, low + 0.5
        return (pixels, low, high, ranks.n), {}

    def draw(ctx: ToolContext, state: Any, values: Sequence[Value]) -> Drawn:
        pixels, low, high, n = state
        rgba = np.zeros((*pixels.data.shape, 4), dtype=np.uint8)
        found = pixels.data[pixels.valid].astype(np.float64)
        rgba[pixels.valid, :3] = _coloured(found, low, high, p.colours)
        rgba[pixels.valid, 3] = 255
        if pixels.step > 1:
            ctx.log("info", f"The picture holds every {pixels.step}th pixel.")
        scene_id = source.scenes[0].scene_id if len(source.scenes) == 1 and pixels.grid == source.scenes[0].grid else None
        refs = kept_picture(ctx, rgba, pixels.grid, p.form, f"{source.quantity} in colours"[:100], scene_id)
        table = colour_table(p.colours)
        stops: list[JsonValue] = [{"value": low + k / 4 * (high - low), "colour": [int(v) for v in table[round(k / 4 * 255)]]}
                                  for k in range(5)]
        # every k-th pixel keeps step with what repeats as often: how many lie beyond is told of all pixels or not at all
        beyond = (int((found < low).sum()), int((found > high).sum())) if pixels.step == 1 else (None, None)
        return Value(None, n, {
            "colours": p.colours, "low": low, "high": high, "stops": stops, "n_below": beyond[0], "n_above": beyond[1],
            "step": pixels.step, "unit": source.unit}), refs

    kind = ImageType("image", f"{source.quantity} in colours"[:100], source.scenes)
    return Planned(kind, draw=draw, settle=settle, prepare=lambda: [
        ((name,), LayerPixels(source.grid, limit_px=PICTURE_PX, is_mask=False)), ((name,), OrderStatistics([0.02, 0.98]))])


register(Operator(
    name="image.colours", summary="A raster as a picture by a colour map; values beyond the ends take the end's colour.",
    takes=Take(("raster",)), params=ColourParams, gives="image", range="colours from 0 to 255; nothing is measured on a picture",
    nodata="invalid pixels are transparent", plan=_plan_colours))


# --- charts ----------------------------------------------------------------------------------------------------------------
class ChartParams(Frozen):
    title: str = Field(default="", max_length=100)


def chart_of(items: Sequence[Mapping[str, Any]], title: str, unit: str) -> Chart | None:
    """A line for dated values, bars for a histogram, zones or classes; None for items of another kind or fewer than two."""
    def number(value: Any) -> bool:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)

    dated = [i for i in items if number(i.get("value")) and isinstance(i.get("date"), str)]
    if len(dated) >= 2:
        days = [date.fromisoformat(str(i["date"])[:10]).toordinal() for i in dated]
        return Chart("line", tuple(float(d - min(days)) for d in days), tuple(float(i["value"]) for i in dated),
                     tuple(str(i["date"])[:10] for i in dated), title, unit)
    for name, value, wanted in (("low", "n", "pixels"), ("zone", "value", unit), ("name", "area", unit),
                                ("class", "n_px", "pixels")):
        held = [i for i in items if name in i and number(i.get(value))]
        if len(held) >= 2 and (name != "name" or all(i["name"] for i in held)):
            # a bin is named by its middle
            texts = tuple(f"{(i[name] + i.get('high', i[name])) / 2:.4g}" if number(i[name]) else str(i[name]) for i in held)
            values = tuple(float(i[value]) for i in held)
            return Chart("bars", tuple(float(k) for k in range(len(held))), values, texts, title, wanted)
    return None


def _plan_chart(call: Call) -> Planned:
    source = call.inputs[0]
    p: ChartParams = call.params

    def draw(ctx: ToolContext, state: Any, values: Sequence[Value]) -> Drawn:
        chart = chart_of(values[0].items, p.title or source.quantity, values[0].unit or source.unit)
        if chart is None:
            raise call.refuse("there are no two values to draw: a chart shows a series, a histogram, zones or classes.",
                              code="TOOL_FAILED", needs={"items": 2})
        rgba = chart_rgba(chart)
        grid = Grid(width=rgba.shape[1], height=rgba.shape[0])
        refs = kept_picture(ctx, rgba, grid, "png", "chart", None)
        evidence: dict[str, JsonValue] = {"chart": chart.kind, "n": len(chart.values), "unit": chart.unit, "of": call.names[0],
                                          "low": min(chart.values), "high": max(chart.values)}
        return replace(values[0], value=None, evidence=evidence, interval=None, interval_level=None, warnings=()), refs

    return Planned(ImageType("image", f"chart of {source.quantity}"[:100], ()), draw=draw)


register(Operator(
    name="image.chart", summary="A chart (PNG) of a series, histogram, zones or classes; its values stand beside it as a table.",
    takes=Take(("value",)), params=ChartParams, gives="image", range="of the values that are drawn",
    nodata="what has no value is not drawn", plan=_plan_chart))


