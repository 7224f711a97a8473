"""What a scene's own quality band hides from perceive: cloud, shadow and fill.

On pixels that the band flags the ground was not seen. They are no part of what is counted or measured, and the evidence says how
many they are. Snow is no veil: it is ground that was seen. Bands are read window by window, so that memory stays bounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import Observation
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.quality_words import flags_text
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.contract import Node, PerceiveArguments, ToolContext
from apps.tools.execute.graph import effective_region
from apps.tools.execute.left_in import left_in, tell_left_in
from apps.tools.execute.operators_physics import qa_flagged, qa_flags
from apps.tools.execute.quality import DEFAULT_FLAGS, quality_band
from apps.tools.perceive.looking import LookedAt, pixel_sides_m
from apps.tools.region import RegionMask

# From less than this share of the pixels that have data nothing is said of a place.
LEAST_SEEN = 0.1
# What lies under the veil by more than this share of its pixels was not seen.
MOST_HIDDEN = 0.5
# From this share on what could not be seen is a warning, which the answer repeats.
WARN_SHARE = 0.1
# Boxes are looked up in squares of this side.
BLOCK_PX = 1024


@dataclass(frozen=True, slots=True)
class Veil:
    """The quality band of a scene and the flags that hide the ground."""

    scene: SceneInfo
    band: Band
    flags: tuple[str, ...]
    reader: RasterReader
    region: RegionMask

    @property
    def text(self) -> str:
        return flags_text(self.flags, self.band.scheme)

    def hidden(self, window: Window, shape: tuple[int, int] | None = None) -> NDArray[np.bool_]:
        """Bool (rows, columns) of the window: True where the band flags the pixel, or itself has no data."""
        read = self.reader.read([self.band.index], window, shape, physical=False)
        stored = np.where(read.valid[0], read.data[0], 0).astype(np.int64)
        return np.asarray(qa_flagged(stored, self.band.scheme, self.flags) | ~read.valid[0])

    def hidden_on(self, looked: LookedAt, window: Window) -> NDArray[np.bool_]:
        """As ``hidden``, for a window of the picture that detectors look at."""
        if not looked.is_resampled:
            return self.hidden(window)
        grid, (fx, fy) = self.scene.grid, looked.factor
        c, r, w, h = window
        x0, y0 = min(grid.width - 1, int(c / fx)), min(grid.height - 1, int(r / fy))
        x1, y1 = min(grid.width, max(x0 + 1, math.ceil((c + w) / fx))), min(grid.height, max(y0 + 1, math.ceil((r + h) / fy)))
        return self.hidden((x0, y0, x1 - x0, y1 - y0), (h, w))

    def shares(self, xyxy: NDArray[np.float64]) -> NDArray[np.float64]:
        """Which share of each box's pixels is hidden; boxes (n, 4) in pixels of the scene, as left, top, right, bottom."""
        out = np.zeros(len(xyxy))
        if not len(xyxy):
            return out
        width, height = self.scene.grid.width, self.scene.grid.height
        left, top = np.floor(xyxy[:, 0]).clip(0, width - 1), np.floor(xyxy[:, 1]).clip(0, height - 1)
        right = np.maximum(np.ceil(xyxy[:, 2]).clip(1, width), left + 1)
        bottom = np.maximum(np.ceil(xyxy[:, 3]).clip(1, height), top + 1)
        x0, y0, x1, y1 = (v.astype(np.int64) for v in (left, top, right, bottom))
        block = (y0 // BLOCK_PX) * (width // BLOCK_PX + 1) + x0 // BLOCK_PX
        for key in np.unique(block):
            at = np.flatnonzero(block == key)
            c, r = int(x0[at].min()), int(y0[at].min())
            hidden = self.hidden((c, r, int(x1[at].max()) - c, int(y1[at].max()) - r))
            total = np.zeros((hidden.shape[0] + 1, hidden.shape[1] + 1), dtype=np.int64)
            total[1:, 1:] = hidden.cumsum(axis=0).cumsum(axis=1)
            a, b, e, f = x0[at] - c, y0[at] - r, x1[at] - c, y1[at] - r
            out[at] = (total[f, e] - total[b, e] - total[f, a] + total[b, a]) / ((e - a) * (f - b))
        return out

    def nodes(self, source: str, name: str) -> list[Node]:
        """Nodes that take what is hidden out of the node ``source``; the last is called ``name``. They rest on the node
        ``scene``."""
        return [Node(id=f"{name}_veil", op="raster.product.qa_mask", inputs=("scene",),
                     params={"scheme": self.band.scheme, "flags": list(self.flags), "band": self.band.index}),
                Node(id=name, op="raster.product.apply_mask", inputs=(source, f"{name}_veil"),
                     params={"keep": "false", "quality": f"{', '.join(self.flags)} by {self.band.scheme}"[:80]})]

    def told(self, n_px: int, of_px: int) -> dict[str, JsonValue]:
        """The entry of ``validity.quality_mask``: ``n_px`` of ``of_px`` pixels with data that were asked for are hidden."""
        day = self.scene.acquired_at
        return {"scene": self.scene.scene_id, "band": self.band.index, "scheme": self.band.scheme, "flags": list(self.flags),
                "n_px": n_px, "of_px": of_px, "share": n_px / of_px if of_px else None,
                "acquired_at": day.isoformat() if day else None}


def veil_of(ctx: ToolContext, scene: SceneInfo, arguments: PerceiveArguments) -> Veil | None:
    """The scene's veil; None, with a line in the log that says why, where it has none that can be read or none is wanted."""
    held = scene.bands_with_role("qa")
    if not held:
        ctx.log("info", f"{scene.name} has no quality band: whether clouds or shadows hide a part of it is not known.")
        return None
    if arguments.quality_mask == "none":
        ctx.log("warning", f"The quality band of {scene.name} was left unused, as asked: clouds and shadows count as ground.")
        return None
    band = quality_band(scene)
    if band is None or (band.scale, band.offset) != (1, 0):
        ctx.log("warning", f"How the quality band of {scene.name} is read is not known: clouds and shadows may count as ground.")
        return None
    known = qa_flags(band.scheme)
    flags = tuple(f for f in (*DEFAULT_FLAGS[band.scheme], "fill") if f in known and f != "snow")
    return Veil(scene, band, flags, ctx.reader(scene.scene_id), _region(ctx, scene, arguments))


def _region(ctx: ToolContext, scene: SceneInfo, arguments: PerceiveArguments) -> RegionMask:
    """What was asked for of the scene; all of it where it lies beside the region, which the mode itself refuses."""
    region, crs = effective_region(arguments.region, arguments.region_crs, ctx)
    try:
        return RegionMask.of(region, crs, scene.grid, scene.name)
    except ModelError:
        return RegionMask(None, scene.grid)


def veil_told(parent: Observation, scene: SceneInfo, reader: RasterReader) -> Veil | None:
    """The veil that an earlier observation left out of a scene, by its record; None where it tells of none."""
    held = parent.evidence.validity.get("quality_mask")
    for entry in held if isinstance(held, list) else ():
        if isinstance(entry, dict) and entry.get("scene") == scene.scene_id:
            band = next((b for b in scene.bands if b.index == entry.get("band") and b.scheme == entry.get("scheme")), None)
            flags = entry.get("flags")
            if band is not None and isinstance(flags, list):
                return Veil(scene, band, tuple(str(f) for f in flags), reader, RegionMask(None, scene.grid))
    return None


def tell(ctx: ToolContext, veil: Veil | None, n_px: int, of_px: int, what: str) -> tuple[list[JsonValue] | None,
                                                                                        dict[str, JsonValue]]:
    """(``validity.quality_mask``, what ``intermediate`` holds of it), and says in the log what could not be seen.

    ToolAbstainedError TOOL_FAILED where less than LEAST_SEEN of what was asked is left.
    """
    if veil is None:
        return None, {}
    share = n_px / of_px if of_px else 0.0
    name = veil.scene.name
    if 1 - share < LEAST_SEEN:
        raise ToolAbstainedError(
            f"{share:.1%} of the pixels of {name} that were asked for cannot be seen ({veil.text}); from less than "
            f"{LEAST_SEEN:.0%} nothing is said of {what}. Another date would do.", code="TOOL_FAILED",
            needs={"valid_px": True, "other_date": True})
    if n_px:
        ctx.log("warning" if share >= WARN_SHARE else "info",
                f"{share:.1%} of the pixels of {name} that were asked for are hidden ({veil.text}): the result is of the part "
                "that was seen.")
    else:
        ctx.log("info", f"The quality band of {name} hides nothing of what was asked for ({veil.text}).")
    others = left_in(veil.reader, veil.band, veil.band.scheme, veil.flags, veil.region)
    tell_left_in(ctx, veil.scene, others)
    return [veil.told(n_px, of_px)], {"quality_masked": {"n_px": n_px, "of_px": of_px, "share": share},
                                      "quality_left_in": {veil.scene.scene_id: {**others}}}


def ground_searched(grid: Grid, gsd_m: float | None, searched_px: int, asked_px: int) -> dict[str, JsonValue]:
    """Pixels and square metres that were searched and that could not be seen, by the size of the scene's middle pixel."""
    pixel: float | None = None
    if grid.crs is not None:
        sides = pixel_sides_m(grid)
        pixel = math.prod(sides) if sides is not None else None
    elif gsd_m is not None:
        pixel = gsd_m * gsd_m
    not_seen = max(0, asked_px - searched_px)
    out: dict[str, Any] = {"searched_px": searched_px, "not_seen_px": not_seen}
    out |= {"searched_m2": None if pixel is None else searched_px * pixel,
            "not_seen_m2": None if pixel is None else not_seen * pixel}
    return out
