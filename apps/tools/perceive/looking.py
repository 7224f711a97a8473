"""What models look at: real samples on pixels that are square on the ground, and how much of it could be seen at all.

Detectors and classifiers look for shapes: on pixels twice as long as wide a disc is none. Such a picture is resampled to square
pixels first, and what is found is told in pixels of the scene again. Of complex samples the amplitude is looked at.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.geo.grid import Grid, geod_of
from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.region import RegionMask

# Pixels whose sides differ by less than this share are taken for square.
SQUARE_SLACK = 0.05
# Pixels longer than so many times their width are not resampled: too little is seen along one side.
LONGEST_PIXEL = 4.0
# Pixels are looked over in squares of this side.
LOOK_PX = 2048
AMPLITUDE_NOTE = "The samples are complex numbers; their amplitude is looked at."


def pixel_sides_m(grid: Grid) -> tuple[float, float] | None:
    """(along a row, along a column): geodesic lengths of the middle pixel's sides in metres; in units of the transform without a
    CRS; None where they have no length."""
    c, r = grid.width // 2, grid.height // 2
    a, b, _, d, e, _ = grid.transform
    if grid.crs is None:
        sides = math.hypot(a, d), math.hypot(b, e)
    else:
        at = [grid.xy(c, r + 0.5), grid.xy(c + 1, r + 0.5), grid.xy(c + 0.5, r), grid.xy(c + 0.5, r + 1)]
        lon, lat = grid.lonlat([p[0] for p in at], [p[1] for p in at])
        if not np.isfinite([*lon, *lat]).all() or max(abs(v) for v in lat) > 90:
            return None
        geod = geod_of(grid.crs)
        sides = float(geod.inv(lon[0], lat[0], lon[1], lat[1])[2]), float(geod.inv(lon[2], lat[2], lon[3], lat[3])[2])
    return sides if all(math.isfinite(s) and s > 0 for s in sides) else None


def real(data: NDArray[np.generic]) -> NDArray[np.generic]:
    """The amplitude of complex samples; others as they are."""
    return np.abs(data) if np.iscomplexobj(data) else data


class LookedAt:
    """A reader of a scene as models see it: amplitude for complex samples, square pixels for oblong ones.

    ``factor``: pixels of this picture a pixel of the scene, along a row and along a column. ToolAbstainedError where pixels are
    more than LONGEST_PIXEL times as long as wide.
    """

    def __init__(self, inner: RasterReader, *, is_resampling: bool = True):
        self.inner = inner
        scene = inner.info
        self.is_complex = scene.dtype.startswith("complex")
        grid, gsd = scene.grid, scene.effective_gsd_m
        sides = pixel_sides_m(grid)
        self.factor = (1.0, 1.0)
        if is_resampling and sides is not None and max(sides) / min(sides) > 1 + SQUARE_SLACK:
            if max(sides) / min(sides) > LONGEST_PIXEL:
                raise ToolAbstainedError(
                    f"A pixel of {scene.name} is {max(sides) / min(sides):.1f} times as long as wide on the ground; shapes "
                    "cannot be told on it. Reproject it to square pixels first.", code="TOOL_FAILED",
                    needs={"square_pixels": True})
            short = min(sides)
            width = max(1, round(grid.width * sides[0] / short))
            height = max(1, round(grid.height * sides[1] / short))
            self.factor = width / grid.width, height / grid.height
            a, b, c, d, e, f = grid.transform
            fx, fy = self.factor
            grid = Grid(crs=grid.crs, transform=(a / fx, b / fy, c, d / fx, e / fy, f), width=width, height=height)
            gsd = None if gsd is None else gsd / math.sqrt(fx * fy)
        update: dict[str, object] = {"grid": grid, "gsd_m": gsd}
        if self.is_complex:
            update["dtype"] = "float32"
        self._info = scene.model_copy(update=update) if self.is_changed else scene

    @property
    def is_changed(self) -> bool:
        return self.is_complex or self.is_resampled

    @property
    def is_resampled(self) -> bool:
        return self.factor != (1.0, 1.0)

    @property
    def info(self) -> SceneInfo:
        return self._info

    def read(self, bands: Sequence[int], window: Window | None = None, out_shape: tuple[int, int] | None = None, *,
             physical: bool = True) -> MaskedRaster:
        """As :meth:`RasterReader.read`, in pixels of this picture; linear between valid pixels, nearest beside others."""
        if not self.is_resampled:
            got = self.inner.read(bands, window, out_shape, physical=physical and not self.is_complex)
            return MaskedRaster(real(got.data), got.valid, got.grid, got.bands, got.unit) if self.is_complex else got
        grid, source = self._info.grid, self.inner.info.grid
        left, top, width, height = window or (0, 0, grid.width, grid.height)
        rows, columns = out_shape or (height, width)
        fx, fy = self.factor
        x = (left + (np.arange(columns) + 0.5) * width / columns) / fx - 0.5
        y = (top + (np.arange(rows) + 0.5) * height / rows) / fy - 0.5
        x0, x1 = max(0, math.floor(x[0])), min(source.width, math.floor(x[-1]) + 2)
        y0, y1 = max(0, math.floor(y[0])), min(source.height, math.floor(y[-1]) + 2)
        part = self.inner.read(bands, (x0, y0, max(1, x1 - x0), max(1, y1 - y0)), physical=physical and not self.is_complex)
        data = np.asarray(real(part.data), dtype=np.float64)
        at = np.meshgrid((y - y0).clip(0, part.data.shape[1] - 1), (x - x0).clip(0, part.data.shape[2] - 1), indexing="ij")
        near = np.floor(at[0] + 0.5).astype(int), np.floor(at[1] + 0.5).astype(int)
        out, valid = np.empty((len(bands), rows, columns)), np.empty((len(bands), rows, columns), dtype=bool)
        for k in range(len(bands)):
            valid[k] = part.valid[k][near]
            whole = ndimage.map_coordinates(part.valid[k].astype(float), at, order=1, mode="nearest") > 1 - 1e-9
            smooth = ndimage.map_coordinates(np.where(part.valid[k], data[k], 0.0), at, order=1, mode="nearest")
            out[k] = np.where(whole, smooth, data[k][near])
        a, b, c, d, e, f = grid.transform
        sx, sy = width / columns, height / rows
        place = Grid(crs=grid.crs, transform=(a * sx, b * sy, a * left + b * top + c, d * sx, e * sy, d * left + e * top + f),
                     width=columns, height=rows)
        return MaskedRaster(out, valid, place, part.bands, part.unit)

    def windows(self, size: int = 1024) -> Iterator[Window]:
        grid = self._info.grid
        for r in range(0, grid.height, size):
            for c in range(0, grid.width, size):
                yield c, r, min(size, grid.width - c), min(size, grid.height - r)

    def close(self) -> None:
        self.inner.close()

    def region(self, of_scene: RegionMask) -> RegionMask:
        """A region of the scene, on this picture."""
        if not self.is_resampled:
            return of_scene
        fx, fy = self.factor
        polygon = of_scene.polygon
        moved = None if polygon is None else shapely.transform(polygon, lambda p: p * np.array([fx, fy]))
        return RegionMask(moved, self._info.grid, self._info.name)

    def told(self) -> dict[str, JsonValue]:
        """What the evidence says of it."""
        return {"pixels": "resampled to square ones" if self.is_resampled else "as they are",
                "factor": [round(f, 4) for f in self.factor], "amplitude_of_complex": self.is_complex}


def on_scene(window: Window, looked: LookedAt) -> tuple[float, float, float, float]:
    """A window of the picture that was looked at (left, top, width, height) in pixels of the scene."""
    (x, y, w, h), (fx, fy) = window, looked.factor
    return window if not looked.is_resampled else (x / fx, y / fy, w / fx, h / fy)


def resampling_note(looked: LookedAt) -> str:
    """The line of the log where a scene was resampled for the look."""
    grid = looked.info.grid
    return (f"The pixels of {looked.inner.info.name} are not square on the ground; they were resampled to {grid.width} × "
            f"{grid.height} square ones for the look.")


@dataclass(frozen=True, slots=True)
class Seen:
    """How much of what was asked could be seen: valid pixels that nothing hides, pixels asked, the rows and columns that hold
    valid ones, how many different values they have in a band, at most (counted up to 3), and valid pixels that are hidden."""

    valid_px: int
    asked_px: int
    rows: int
    columns: int
    n_values: int
    hidden_px: int = 0

    @property
    def is_constant(self) -> bool:
        return self.n_values == 1

    @property
    def share(self) -> float:
        return self.valid_px / max(1, self.asked_px)


def look_over(reader: RasterReader, bands: Sequence[int], region: RegionMask,
              is_cancelled: Callable[[], bool] = lambda: False,
              hidden: Callable[[Window], NDArray[np.bool_]] | None = None) -> Seen:
    """Counts the region's pixels that are valid in all ``bands``, each once; ``hidden`` says which of a window's pixels cannot be
    seen. ModelError where the run is cancelled."""
    left, top, width, height = region.bounds_px
    rows, columns = np.zeros(height, dtype=bool), np.zeros(width, dtype=bool)
    values: list[NDArray[np.float64]] = [np.empty(0)] * len(bands)
    n_valid = n_asked = n_hidden = 0
    for r in range(0, height, LOOK_PX):
        for c in range(0, width, LOOK_PX):
            if is_cancelled():
                raise ModelError("The run was cancelled.", code="TOOL_FAILED")
            window = left + c, top + r, min(LOOK_PX, width - c), min(LOOK_PX, height - r)
            part = reader.read(bands, window, physical=False)
            inside = region.mask(window)
            valid: NDArray[np.bool_] = np.asarray(part.valid.all(axis=0)) & inside
            if hidden is not None:
                under = hidden(window) & valid
                n_hidden += int(under.sum())
                valid &= ~under
            n_valid, n_asked = n_valid + int(valid.sum()), n_asked + int(inside.sum())
            rows[r:r + window[3]] |= valid.any(axis=1)
            columns[c:c + window[2]] |= valid.any(axis=0)
            if valid.any() and max(len(v) for v in values) < 3:
                for k, plane in enumerate(real(part.data)):
                    values[k] = _few(np.concatenate([values[k], np.asarray(plane, dtype=np.float64)[valid]]))
    return Seen(n_valid, n_asked, int(rows.sum()), int(columns.sum()), max((len(v) for v in values), default=0), n_hidden)


def _few(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Up to three different ones of the values."""
    out = np.unique(np.array([values.min(), values.max()]))
    others = values[(values != out[0]) & (values != out[-1])]
    return np.concatenate([out, others[:1]]) if len(out) == 2 else out


def refuse_unseen(seen: Seen, scene: SceneInfo, what: str, *, least_px: float = 1.0, longest_px: float = 1.0,
                  needs_contrast: bool = True, needs_tones: bool = False) -> None:
    """ToolAbstainedError TOOL_FAILED where nothing could be seen: no valid pixel, fewer rows or columns of them than ``least_px``
    (or both fewer than ``longest_px``), with ``needs_contrast`` all alike, with ``needs_tones`` of two values."""
    where = scene.name or "the scene"
    if not seen.valid_px and seen.hidden_px:
        raise ToolAbstainedError(f"All {seen.hidden_px} valid pixels of {where} lie under cloud or shadow, by its quality band: "
                                 f"of {what} nothing can be said. Another date would do.", code="TOOL_FAILED",
                                 needs={"valid_px": True, "other_date": True})
    if not seen.valid_px:
        raise ToolAbstainedError(f"No valid pixel of {where} is left; from none nothing follows, not even that there is no "
                                 f"{what}.", code="TOOL_FAILED", needs={"valid_px": True})
    if min(seen.rows, seen.columns) < least_px or max(seen.rows, seen.columns) < longest_px:
        raise ToolAbstainedError(
            f"Only {seen.valid_px} valid pixels of {where} are left, in {seen.rows} rows and {seen.columns} columns: too few to "
            f"show {what} (at least {math.ceil(least_px)} by {math.ceil(max(least_px, longest_px))}).", code="TOOL_FAILED",
            needs={"valid_px": True})
    if needs_contrast and seen.is_constant:
        raise ToolAbstainedError(f"All {seen.valid_px} valid pixels of {where} have the same value: nothing stands out, so "
                                 f"nothing can be said of {what}.", code="TOOL_FAILED", needs={"contrast": True})
    if needs_tones and seen.n_values < 3:
        raise ToolAbstainedError(f"The valid pixels of {where} have {'two values' if seen.n_values == 2 else 'one value'} only, "
                                 f"as a mask has: the model was made for pictures, so nothing can be said of {what}.",
                                 code="TOOL_FAILED", needs={"picture": True})
