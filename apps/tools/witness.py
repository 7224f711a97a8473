"""What a tool really read: a few pixels of each scene as they came to it, handed over as evidence.

Whoever judges the observation reads the same pixels from the source and compares. A tool whose bands, rows, scale or scene got
mixed up below its own code cannot know that; these pixels show it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import JsonValue

from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window

# Points of one scene, and of all scenes of a call together.
MOST_POINTS, ALL_POINTS, FEWEST_POINTS = 48, 480, 4


def points_of(width: int, height: int, n: int) -> list[tuple[int, int]]:
    """``n`` (column, row) spread over a raster by a fixed pattern that keeps step with no tile and no stripe."""
    out = []
    for i in range(n):
        fx, fy = (0.5 + i * 0.7548776662466927) % 1, (0.5 + i * 0.5698402909980532) % 1
        out.append((int(fx * width), int(fy * height)))
    return list(dict.fromkeys(out))


class WitnessReader:
    """A reader that remembers single pixels of what it hands out. Reads of reduced shape are not remembered: which stored pixel
    they show is not known. Thread-safe as the reader below it is."""

    def __init__(self, real: RasterReader, n_scenes: int = 1):
        self._real = real
        grid = real.info.grid
        n = max(FEWEST_POINTS, min(MOST_POINTS, ALL_POINTS // max(1, n_scenes)))
        self._points = points_of(grid.width, grid.height, n)
        self._seen: dict[tuple[bool, int, int, int], float | None] = {}

    @property
    def info(self) -> SceneInfo:
        return self._real.info

    def read(
        self,
        bands: Sequence[int],
        window: Window | None = None,
        out_shape: tuple[int, int] | None = None,
        *,
        physical: bool = True,
    ) -> MaskedRaster:
        got = self._real.read(bands, window, out_shape, physical=physical)
        grid = self._real.info.grid
        left, top, width, height = window or (0, 0, grid.width, grid.height)
        if got.data.shape[1:] == (height, width) and got.data.dtype.kind != "c":
            for x, y in self._points:
                if left <= x < left + width and top <= y < top + height:
                    for k, band in enumerate(bands):
                        value = float(got.data[k, y - top, x - left])
                        is_known = bool(got.valid[k, y - top, x - left]) and math.isfinite(value)
                        self._seen[physical, int(band), x, y] = value if is_known else None
        return got

    def windows(self, size: int = 1024) -> Iterator[Window]:
        return self._real.windows(size)

    def close(self) -> None:
        self._real.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def seen(self) -> dict[str, JsonValue]:
        """{``physical`` | ``stored``: {band: [[column, row, value or null where masked]]}}; empty where nothing was seen."""
        out: dict[str, Any] = {}
        for (is_physical, band, x, y), value in sorted(self._seen.items(), key=lambda kv: kv[0]):
            out.setdefault("physical" if is_physical else "stored", {}).setdefault(str(band), []).append([x, y, value])
        return out
