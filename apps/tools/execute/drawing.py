"""Pictures that the tools draw: the ground of a scene, what was found on it, scales and charts; RGBA arrays of uint8.

Text that is drawn (labels, titles) is data: it is cut, stripped of control characters and never followed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont
from scipy import ndimage
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import Grid, geod_of
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window

Colour = tuple[int, int, int]
# Told apart by people who do not tell red from green (Okabe and Ito 2008), brightest first.
COLOURS: tuple[Colour, ...] = ((0, 229, 255), (255, 176, 0), (240, 90, 200), (240, 228, 66), (120, 220, 120), (86, 140, 255),
                               (255, 110, 60), (200, 200, 200))
_INK, _PAPER = (255, 255, 255), (12, 18, 28)
MASK_OPACITY = 0.35


def plain_text(text: Any, most: int = 60) -> str:
    """One line of printable characters."""
    line = "".join(c if c.isprintable() else " " for c in str(text))
    return line if len(line) <= most else line[:most - 1] + "…"


# --- the ground ------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Ground:
    """``rgba`` (rows, columns, 4) of a scene's window on ``grid``; one of its pixels stands for ``step`` of the scene's along an
    axis. ``stretch`` tells the band and the values that became black and white for red, green and blue."""

    rgba: NDArray[np.uint8]
    grid: Grid
    window: Window
    step: float
    stretch: tuple[tuple[int, float, float], ...]


def shown_bands(scene: SceneInfo) -> tuple[int, ...]:
    """Natural colour where the roles are known, else false colour, else the first band that is no alpha or quality band."""
    for triple in (("red", "green", "blue"), ("nir", "red", "green"), ("swir1", "nir", "red")):
        found = [scene.bands_with_role(r) for r in triple]
        if all(len(f) == 1 for f in found):
            return tuple(f[0].index for f in found)
    plain = [b.index for b in scene.bands if b.role not in ("alpha", "qa", "mask")]
    return tuple(plain or [scene.bands[0].index])[:1]


def ground_of(reader: RasterReader, bands: Sequence[int], window: Window, limit_px: int) -> Ground:
    """The bands (one or three) of a window, thinned where it has more than ``limit_px`` pixels. 8-bit pictures keep their values,
    others are stretched between their 2nd and 98th percentile here; pixels that are invalid are transparent."""
    info = reader.info
    w, h = window[2:]
    step = max(1.0, math.sqrt(w * h / limit_px))
    height, width = max(1, round(h / step)), max(1, round(w / step))
    is_complex = info.dtype.startswith("complex")
    read = reader.read(list(bands), window, None if (height, width) == (h, w) else (height, width), physical=not is_complex)
    data = np.asarray(np.abs(read.data) if is_complex else read.data, dtype=np.float64)
    valid = np.asarray(read.valid.all(axis=0))
    a, b, c, d, e, f = info.grid.window(*window).transform
    sx, sy = w / width, h / height
    grid = Grid(crs=info.grid.crs, transform=(a * sx, b * sy, c, d * sx, e * sy, f), width=width, height=height)
    is_picture = info.dtype == "uint8" and all(x.scale == 1 and x.offset == 0 for x in info.bands if x.index in bands)
    planes, stretch = [], []
    for k, band in enumerate(bands):
        values = data[k][valid]
        if is_picture:
            low, high = 0.0, 255.0
        elif values.size:
            low, high = (float(v) for v in np.percentile(values, [2, 98]))
        else:
            low, high = 0.0, 1.0
        high = high if high > low else low + 1.0
        stretch.append((band, low, high))
        with np.errstate(invalid="ignore"):
            scaled = np.rint(np.clip((data[k] - low) / (high - low), 0, 1) * 255)
        planes.append(np.where(valid, scaled, 0).astype(np.uint8))
    while len(planes) < 3:
        planes.append(planes[0])
    planes.append(np.where(valid, 255, 0).astype(np.uint8))
    return Ground(np.stack(planes, axis=-1), grid, window, step, tuple(stretch))


# --- what is drawn on it ---------------------------------------------------------------------------------------------------
def blend_mask(rgba: NDArray[np.uint8], mask: NDArray[np.bool_], colour: Colour) -> None:
    """The mask as a see-through fill with a solid edge, in place."""
    edge = mask & ~ndimage.binary_erosion(mask, border_value=1)
    fill = mask & ~edge
    rgba[fill, :3] = np.rint(rgba[fill, :3] * (1 - MASK_OPACITY) + np.array(colour) * MASK_OPACITY).astype(np.uint8)
    rgba[edge, :3] = colour
    rgba[mask, 3] = 255


class Pen:
    """Draws on a picture; coordinates are the picture's pixels, x right, y down, 0, 0 the upper left corner of the first."""

    def __init__(self, rgba: NDArray[np.uint8]):
        self.image = Image.fromarray(rgba, "RGBA")
        self._draw = ImageDraw.Draw(self.image)
        side = min(self.image.size)
        self.line_px = max(1, round(side / 500))
        self.text_px = int(min(36, max(10, side / 45)))
        self._font = ImageFont.load_default(self.text_px)

    @property
    def rgba(self) -> NDArray[np.uint8]:
        return np.asarray(self.image).copy()

    def _text(self, x: float, y: float, text: str, colour: Colour) -> None:
        self._draw.text((x, y), text, fill=(*colour, 255), font=self._font, stroke_width=max(1, self.text_px // 8),
                        stroke_fill=(*_PAPER, 255))

    def label(self, x: float, y: float, text: str, colour: Colour) -> None:
        """A text whose lower left corner lies at x, y, moved into the picture where it would leave it."""
        wide = self._draw.textlength(text, font=self._font)
        left = min(max(0.0, x), max(0.0, self.image.width - wide - 2))
        self._text(left, min(max(0.0, y - self.text_px * 1.3), self.image.height - self.text_px * 1.3), text, colour)

    def shape(self, geometry: BaseGeometry, colour: Colour) -> None:
        """The outline of an area, a line, or a cross at a point."""
        for part in getattr(geometry, "geoms", [geometry]):
            if hasattr(part, "geoms"):
                self.shape(part, colour)
            elif part.geom_type == "Polygon":
                for ring in (part.exterior, *part.interiors):
                    self._line(list(ring.coords), colour)
            elif part.geom_type in ("LineString", "LinearRing"):
                self._line(list(part.coords), colour)
            elif part.geom_type == "Point":
                arm = 3 * self.line_px + 2
                self._line([(part.x - arm, part.y), (part.x + arm, part.y)], colour)
                self._line([(part.x, part.y - arm), (part.x, part.y + arm)], colour)

    def _line(self, points: list[tuple[float, ...]], colour: Colour) -> None:
        # a coordinate of 0.5 is the middle of the first pixel, which the drawer calls 0
        at = [(p[0] - 0.5, p[1] - 0.5) for p in points]
        if len(at) > 1:
            self._draw.line(at, fill=(*colour, 255), width=self.line_px)

    def legend(self, title: str, rows: Sequence[tuple[Colour, str]]) -> tuple[int, int, int, int] | None:
        """Title and colours in the upper left corner: the pixels that they cover. None without any, and where they would hide
        more than a third of the picture."""
        if not title and not rows:
            return None
        pad, step = self.text_px // 2, round(self.text_px * 1.5)
        texts = ([title] if title else []) + [t for _, t in rows]
        wide = max(self._draw.textlength(t, font=self._font) for t in texts) + (step if rows else 0)
        box = (0, 0, min(self.image.width, round(wide + 2 * pad)), min(self.image.height, step * len(texts) + 2 * pad))
        if box[2] * box[3] > self.image.width * self.image.height / 3:
            return None
        self._panel(box)
        y = float(pad)
        if title:
            self._text(pad, y, title, _INK)
            y += step
        for colour, text in rows:
            self._draw.rectangle((pad, y + 2, pad + self.text_px - 2, y + self.text_px), fill=(*colour, 255))
            self._text(pad + step, y, text, _INK)
            y += step
        return box

    def _panel(self, box: tuple[int, int, int, int]) -> None:
        part = np.asarray(self.image.crop(box)).copy()
        part[..., :3] = (part[..., :3] * 0.35 + np.array(_PAPER) * 0.65).astype(np.uint8)
        part[..., 3] = 255
        self.image.paste(Image.fromarray(part, "RGBA"), box[:2])

    def scale_bar(self, metres_a_pixel: float) -> tuple[float, float, tuple[int, int, int, int]] | None:
        """(metres, length in pixels, pixels that it covers) of a bar of a round length in the lower left corner; None where it
        would hide more than a third of the picture."""
        metres = round_length(metres_a_pixel * self.image.width / 4)
        length = metres / metres_a_pixel
        text = f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"
        pad, thick = self.text_px // 2, max(2, 2 * self.line_px)
        wide = max(length, self._draw.textlength(text, font=self._font)) + 2 * pad
        tall = round(self.text_px * 1.4) + thick + 2 * pad
        box = (0, max(0, self.image.height - tall), min(self.image.width, round(wide)), self.image.height)
        if box[2] * (box[3] - box[1]) > self.image.width * self.image.height / 3:
            return None
        self._panel(box)
        bottom = self.image.height - pad
        self._draw.rectangle((pad, bottom - thick, pad + round(length) - 1, bottom - 1), fill=(*_INK, 255))
        self._text(pad, bottom - thick - self.text_px * 1.4, text, _INK)
        return metres, length, box


def round_length(most: float) -> float:
    """The greatest of 1, 2, 5 times a power of ten that is no longer."""
    base = 10.0 ** math.floor(math.log10(most))
    return max(k * base for k in (1, 2, 5) if k * base <= most * (1 + 1e-9))


def metres_a_pixel(grid: Grid, gsd_m: float | None) -> float | None:
    """How many metres of ground a step of one pixel to the right is, at the middle of the lowest row; None where nobody knows."""
    if grid.crs is None:
        return gsd_m
    reach = max(1.0, grid.width / 4)
    ends = [grid.lonlat(*grid.xy(grid.width / 2 + k * reach, grid.height - 0.5)) for k in (-1, 1)]
    (west, south), (east, north) = ((float(x), float(y)) for x, y in ends)
    if not all(math.isfinite(v) for v in (west, south, east, north)):
        return None
    metres = float(geod_of(grid.crs).inv(west, south, east, north)[2]) / (2 * reach)
    return metres if math.isfinite(metres) and metres > 0 else None


# --- colour maps -----------------------------------------------------------------------------------------------------------
def colour_table(name: str) -> NDArray[np.uint8]:
    """(256, 3) of a colour map by its usual name. KeyError for one that is not known."""
    from rio_tiler.colormap import cmap
    from rio_tiler.errors import InvalidColorMapName

    try:
        held: Any = cmap.get(name.lower())
    except InvalidColorMapName as error:
        raise KeyError(name) from error
    if not isinstance(held, dict) or set(held) != set(range(256)):
        raise KeyError(name)
    return np.array([held[i][:3] for i in range(256)], dtype=np.uint8)


# --- charts ----------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Chart:
    """What a chart shows: for a ``line`` the places are days since the first, for ``bars`` 0, 1, 2, …"""

    kind: str
    places: tuple[float, ...]
    values: tuple[float, ...]
    names: tuple[str, ...]
    title: str
    unit: str


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Round numbers from low to high."""
    if not high > low:
        return [low]
    step = 10.0 ** math.floor(math.log10((high - low) / n))
    step *= min((k for k in (1, 2, 5, 10) if (high - low) / (k * step) <= n), default=10)
    first = math.ceil(low / step - 1e-9)
    return [k * step for k in range(first, math.floor(high / step + 1e-9) + 1)]


def chart_rgba(chart: Chart, width: int = 1200, height: int = 560) -> NDArray[np.uint8]:
    """A chart with axes, numbers and title; bars start at zero."""
    image = Image.new("RGBA", (width, height), (255, 255, 255, 255))
    draw, font, small = ImageDraw.Draw(image), ImageFont.load_default(18), ImageFont.load_default(14)
    left, right, top, bottom = 110, width - 30, 56, height - 64
    low, high = min(chart.values), max(chart.values)
    if chart.kind == "bars":
        low, high = min(0.0, low), max(0.0, high)
    pad = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    low, high = low - (pad if chart.kind == "line" or low < 0 else 0), high + (pad if chart.kind == "line" or high > 0 else 0)
    span = max(chart.places) - min(chart.places) if chart.kind == "line" else float(len(chart.places))

    def x_of(place: float) -> float:
        return left + (right - left) * (place - min(chart.places) + (0.5 if chart.kind == "bars" else 0)) / (span or 1.0)

    def y_of(value: float) -> float:
        return top + (bottom - top) * (high - value) / (high - low)

    unit = f" ({chart.unit})" if chart.unit not in ("", "1") else ""
    draw.text((left, 16), plain_text(chart.title + unit, 100), fill="black", font=font)
    for t in ticks(low, high):
        draw.line([(left, y_of(t)), (right, y_of(t))], fill=(222, 226, 232, 255))
        draw.text((left - 8, y_of(t)), f"{t:.6g}", fill="black", font=small, anchor="rm")
    shown = max(1, math.ceil(len(chart.names) / 12))
    for k, (place, name) in enumerate(zip(chart.places, chart.names, strict=True)):
        if k % shown == 0:
            draw.text((x_of(place), bottom + 10), plain_text(name, 14), fill="black", font=small, anchor="ma")
    if chart.kind == "line":
        points = [(x_of(p), y_of(v)) for p, v in zip(chart.places, chart.values, strict=True)]
        draw.line(points, fill=(0, 96, 160, 255), width=3)
        for x, y in points:
            draw.ellipse((x - 4, y - 4, x + 4, y + 4), fill=(0, 96, 160, 255))
    else:
        half = 0.4 * (right - left) / len(chart.places)
        for p, v in zip(chart.places, chart.values, strict=True):
            draw.rectangle((x_of(p) - half, min(y_of(v), y_of(0)), x_of(p) + half, max(y_of(v), y_of(0))), fill=(0, 96, 160, 255))
    draw.line([(left, top), (left, bottom), (right, bottom)], fill=(60, 66, 74, 255), width=2)
    return np.asarray(image).copy()
