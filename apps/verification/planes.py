"""Planes of the second look: one recomputed picture of pixels with where it means something, and those that are kept."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import Grid, transformer, turned_onto


class CannotLookError(Exception):
    """The second look cannot follow this call; the reason is a sentence."""


@dataclass(frozen=True, slots=True)
class Plane:
    """One recomputed plane: float64 (rows, columns), masks as 0 and 1, and where it means something."""

    data: NDArray[np.float64]
    valid: NDArray[np.bool_]


class PlaneCache:
    """Pixels that were looked at, kept for the next observation of the same scene; bounded in bytes, oldest out first."""

    def __init__(self, limit_bytes: int = 64 << 20):
        self.limit, self._held, self._bytes, self._lock = limit_bytes, OrderedDict[Any, Plane](), 0, Lock()

    def get(self, key: Any) -> Plane | None:
        with self._lock:
            found = self._held.get(key)
            if found is not None:
                self._held.move_to_end(key)
            return found

    def put(self, key: Any, plane: Plane) -> None:
        size = plane.data.nbytes + plane.valid.nbytes
        if size > self.limit // 4:
            return
        plane.data.flags.writeable = False
        plane.valid.flags.writeable = False
        with self._lock:
            if key in self._held:
                return
            self._held[key] = plane
            self._bytes += size
            while self._bytes > self.limit:
                _, old = self._held.popitem(last=False)
                self._bytes -= old.data.nbytes + old.valid.nbytes

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self._bytes = 0


KEPT = PlaneCache()


def forget_pixels() -> None:
    """Drops the pixels that are held, so that the next look decodes them itself; for measuring."""
    KEPT.clear()


def same_grid(one: Grid, other: Grid) -> bool:
    return one is other or (
        one.shape == other.shape
        and one.crs == other.crs
        and all(math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) for a, b in zip(one.transform, other.transform, strict=True))
    )


def outline_px(polygon: BaseGeometry, crs: str, grid: Grid) -> BaseGeometry:
    """A polygon in pixels of a grid; edges are straight in its own CRS. Raises CannotLookError for one that has
    no place there."""
    if crs == "image":
        return polygon
    if grid.crs is None:
        raise CannotLookError("an outline on the map has no place on a scene without CRS")
    span = max(polygon.bounds[2] - polygon.bounds[0], polygon.bounds[3] - polygon.bounds[1])
    t = transformer(crs, grid.crs)
    fine = shapely.segmentize(polygon, span / 64) if span > 0 and crs != grid.crs else polygon
    a, b, c, d, e, f = grid.transform
    det = a * e - b * d

    def move(p: NDArray[np.float64]) -> NDArray[np.float64]:
        x, y = t.transform(p[:, 0], p[:, 1])
        return np.column_stack(((e * (x - c) - b * (y - f)) / det, (a * (y - f) - d * (x - c)) / det))

    return turned_onto(shapely.transform(fine, move), grid)
