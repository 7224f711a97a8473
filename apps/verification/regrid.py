"""A raster on other pixels, in the verifier's own words: where a pixel of the new grid lies in the old one, and what is there."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid, transformer
from apps.core.ports import Window
from apps.verification.products import Array, NotFollowedError, Pixels

# a place so near to the border of two pixels is of either
_BORDER = 1e-6
_MOST_SOURCE_PX = 60_000


@dataclass(frozen=True, slots=True)
class Moved:
    """Values on the new pixels, where they mean something, and where the old ones leave no doubt of it."""

    data: Array
    valid: NDArray[np.bool_]
    sure: NDArray[np.bool_]


Read = Callable[[Window], Pixels]


def places_in(source: Grid, target: Grid, window: Window) -> tuple[Array, Array]:
    """(columns, rows) in the source grid of the centres of a window's pixels; not finite where they have no place there.
    NotFollowedError without a CRS."""
    col, row, width, height = window
    if source.crs is None or target.crs is None:
        raise NotFollowedError("a grid without CRS has no place in another")
    x, y = np.meshgrid(np.arange(col, col + width) + 0.5, np.arange(row, row + height) + 0.5)
    a, b, c, d, e, f = target.transform
    east, north = transformer(target.crs, source.crs).transform(a * x + b * y + c, d * x + e * y + f)
    dx, dy = np.asarray(east) - source.transform[2], np.asarray(north) - source.transform[5]
    a, b, _, d, e, _ = source.transform
    if b == d == 0:
        return dx / a, dy / e
    turned = np.linalg.inv(np.array([[a, b], [d, e]]))
    return turned[0, 0] * dx + turned[0, 1] * dy, turned[1, 0] * dx + turned[1, 1] * dy


def _part(read: Read, source: Grid, left: float, top: float, right: float, bottom: float) -> tuple[Window, Pixels] | None:
    """The source's pixels between these places, with two more on each side; None where none are."""
    x0, y0 = max(0, math.floor(left) - 2), max(0, math.floor(top) - 2)
    x1, y1 = min(source.width, math.ceil(right) + 2), min(source.height, math.ceil(bottom) + 2)
    if x1 <= x0 or y1 <= y0:
        return None
    if (x1 - x0) * (y1 - y0) > _MOST_SOURCE_PX:
        raise NotFollowedError("too many old pixels lie under the new ones")
    window = (x0, y0, x1 - x0, y1 - y0)
    held = read(window)
    if held[0].shape != (window[3], window[2]):
        raise NotFollowedError("the old pixels are not looked at one by one")
    return window, held


def sampled(read: Read, source: Grid, cols: Array, rows: Array, method: str) -> Moved:
    """The nearest pixel at places of the source, or the mean of the four about them by their nearness (bilinear): of those with
    weight all must be valid; within half a pixel of the outline the outer pixels count alone."""
    shape = cols.shape
    nothing = Moved(np.zeros(shape), np.zeros(shape, dtype=bool), np.ones(shape, dtype=bool))
    inside = np.isfinite(cols) & np.isfinite(rows)
    inside &= (cols >= 0) & (rows >= 0) & (cols <= source.width) & (rows <= source.height)
    if not inside.any():
        return nothing
    part = _part(read, source, cols[inside].min(), rows[inside].min(), cols[inside].max(), rows[inside].max())
    if part is None:
        return nothing
    (x0, y0, width, height), (data, known) = part
    x, y = np.where(inside, cols, x0 + 0.5), np.where(inside, rows, y0 + 0.5)
    edge = np.minimum.reduce([np.abs(x), np.abs(y), np.abs(x - source.width), np.abs(y - source.height)])
    if method == "nearest":
        i, j = (np.clip(np.floor(y).astype(int) - y0, 0, height - 1), np.clip(np.floor(x).astype(int) - x0, 0, width - 1))
        off = np.minimum(np.abs(x - np.rint(x)), np.abs(y - np.rint(y)))
        return Moved(np.where(known[i, j], data[i, j], 0.0), known[i, j] & inside, (off > _BORDER) & (edge > _BORDER))
    # centres of the source's pixels lie at halves
    u, v = np.clip(x - 0.5, 0, source.width - 1), np.clip(y - 0.5, 0, source.height - 1)
    total, valid, sure = np.zeros(shape), inside.copy(), edge > _BORDER
    for down in (0, 1):
        for right in (0, 1):
            cu, cv = np.floor(u) + right, np.floor(v) + down
            weight = np.maximum(0, 1 - np.abs(u - cu)) * np.maximum(0, 1 - np.abs(v - cv))
            i, j = np.clip(cv.astype(int) - y0, 0, height - 1), np.clip(cu.astype(int) - x0, 0, width - 1)
            total += weight * np.where(known[i, j], data[i, j], 0.0)
            valid &= known[i, j] | (weight <= _BORDER)
            sure &= known[i, j] | (weight < _BORDER / 10) | (weight > 10 * _BORDER)
    return Moved(total, valid, sure)


def gathered(read: Read, source: Grid, target: Grid, window: Window, method: str, least_share: float) -> Moved:
    """Mean, or commonest value, of the source's pixels whose centres lie in each pixel of a window of a coarser grid."""
    col, row, width, height = window
    if source.crs is None or target.crs is None:
        raise NotFollowedError("a grid without CRS has no place in another")
    cols, rows = places_in(source, target, (col - 1, row - 1, width + 2, height + 2))
    if not (np.isfinite(cols).all() and np.isfinite(rows).all()):
        raise NotFollowedError("parts of the new grid have no place in the old one")
    part = _part(read, source, cols.min(), rows.min(), cols.max(), rows.max())
    shape = (height, width)
    if part is None:
        return Moved(np.zeros(shape), np.zeros(shape, dtype=bool), np.ones(shape, dtype=bool))
    at, (data, known) = part
    x, y = places_in(target, source, at)
    x, y = x - col, y - row
    inside = (x >= 0) & (x < width) & (y >= 0) & (y < height)
    index = np.where(inside, np.floor(y) * width + np.floor(x), -1).astype(int)
    # cells one of whose pixels lies on a border may have it or not
    off = np.minimum(np.abs(x - np.rint(x)), np.abs(y - np.rint(y)))
    near = (off <= _BORDER) & (x > -1) & (y > -1) & (x < width + 1) & (y < height + 1)
    if source.crs == target.crs:
        near &= off > 0  # nothing is rounded on the way: what lies on the border lies there
    sure = np.ones(shape, dtype=bool)
    i, j = np.rint(y[near]).astype(int), np.rint(x[near]).astype(int)
    for down in (-1, 0):
        for right in (-1, 0):
            sure[np.clip(i + down, 0, height - 1), np.clip(j + right, 0, width - 1)] = False
    everyone, mine = np.bincount(index[inside], minlength=width * height), inside & known
    n = np.bincount(index[mine], minlength=width * height)
    if method == "average":
        with np.errstate(all="ignore"):
            out = np.bincount(index[mine], weights=data[mine], minlength=width * height) / n
    else:
        kinds = np.unique(data[mine])
        if kinds.size:
            counts = np.stack([np.bincount(index[mine & (data == k)], minlength=width * height) for k in kinds])
            # equally common kinds: the one of which the first pixel, row by row, comes earliest
            number = np.arange(index.size).reshape(index.shape)
            firsts = np.full(counts.shape, np.inf)
            for first, kind in zip(firsts, kinds, strict=True):
                held = mine & (data == kind)
                np.minimum.at(first, index[held], number[held])
            out = kinds[np.where(counts == counts.max(axis=0), firsts, np.inf).argmin(axis=0)]
        else:
            out = np.zeros(width * height)
    valid = (n > 0) & (n >= least_share * everyone)
    return Moved(np.nan_to_num(out).reshape(shape), valid.reshape(shape), sure)
