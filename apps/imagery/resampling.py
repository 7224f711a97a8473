"""Pixels onto a grid that is a whole number of times finer or coarser: repeated, averaged, or the most frequent code. Pure.

Nothing is interpolated: a repeated pixel says no more than the one that was measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.ports import RasterReader, Window
from apps.imagery.nesting import Fit

# A coarse pixel less of whose area is valid holds no value.
LEAST_VALID = 0.5


def read_onto(reader: RasterReader, band: int, fit: Fit, window: Window, *, is_code: bool) -> NDArray[Any]:
    """Stored values (rows, columns) of a band in a window (column, row, width, height) of the grid that it is brought to.
    ``is_code``: classes or bits, which are not averaged. Means are in float64; pixels without a value keep one that the band
    has for "nothing here"."""
    col, row, width, height = window
    k = fit.ratio
    if fit.step == "same":
        plain: NDArray[Any] = reader.read([band], window, physical=False).data[0]
        return plain
    if fit.step == "repeat":
        left, top = col // k, row // k
        right, bottom = -(-(col + width) // k), -(-(row + height) // k)
        held: NDArray[Any] = reader.read([band], (left, top, right - left, bottom - top), physical=False).data[0]
        wide: NDArray[Any] = held.repeat(k, axis=0).repeat(k, axis=1)
        return wide[row - top * k : row - top * k + height, col - left * k : col - left * k + width]
    lead = int(fit.is_halved)
    size = (height * k + lead, width * k + lead)
    top, left = row * k - lead, col * k - lead
    grid = reader.info.grid
    y0, x0 = max(top, 0), max(left, 0)
    y1, x1 = min(top + size[0], grid.height), min(left + size[1], grid.width)
    read = reader.read([band], (x0, y0, x1 - x0, y1 - y0), physical=False)
    inside = (slice(y0 - top, y1 - top), slice(x0 - left, x1 - left))
    data, valid, seen = np.zeros(size, read.data.dtype), np.zeros(size, bool), np.zeros(size, bool)
    data[inside], valid[inside], seen[inside] = read.data[0], read.valid[0], True
    return (most_frequent if is_code else averaged)(data, valid, seen, fit)


def averaged(data: NDArray[Any], valid: NDArray[np.bool_], seen: NDArray[np.bool_], fit: Fit) -> NDArray[np.float64]:
    """Mean of the valid pixels of each block, weighted by their area in it, where LEAST_VALID of the block is valid."""
    share = sum(w * valid[at] for w, at in _parts(data.shape, fit))
    total = sum(w * np.where(valid[at], data[at], 0).astype(np.float64) for w, at in _parts(data.shape, fit))
    mean = np.divide(total, share, out=np.zeros(np.shape(total)), where=np.asarray(share) > 0)
    return np.where(np.asarray(share) >= LEAST_VALID, mean, _nothing(data, valid, seen, fit))


def most_frequent(data: NDArray[Any], valid: NDArray[np.bool_], seen: NDArray[np.bool_], fit: Fit) -> NDArray[Any]:
    """The code that covers most of the valid area of each block, the lowest of several that do; where LEAST_VALID is valid."""
    out = _nothing(data, valid, seen, fit)
    share = np.asarray(sum(w * valid[at] for w, at in _parts(data.shape, fit)))
    most = np.zeros(share.shape)
    for code in np.unique(data[valid]):
        is_here = valid & (data == code)
        held = np.asarray(sum(w * is_here[at] for w, at in _parts(data.shape, fit)))
        wins = (held > most) & (share >= LEAST_VALID)
        out[wins], most[wins] = code, held[wins]
    return out


def _nothing(data: NDArray[Any], valid: NDArray[np.bool_], seen: NDArray[np.bool_], fit: Fit) -> NDArray[Any]:
    """The stored value of an invalid pixel of each block."""
    out: NDArray[Any] | None = None
    for _, at in _parts(data.shape, fit):
        part = data[at]
        out = part.copy() if out is None else np.where(~valid[at] & seen[at], part, out)
    assert out is not None
    return out


def _parts(shape: tuple[int, ...], fit: Fit) -> Iterator[tuple[float, tuple[slice, slice]]]:
    """(share of a block's area, its pixels in all blocks at once) of each pixel of a block."""
    k, height, width = fit.ratio, shape[0] // fit.ratio, shape[1] // fit.ratio
    along = [(1 / k, i) for i in range(k)] if not fit.is_halved else [(0.25, 0), (0.5, 1), (0.25, 2)]
    for wy, y in along:
        for wx, x in along:
            yield wy * wx, (slice(y, y + (height - 1) * k + 1, k), slice(x, x + (width - 1) * k + 1, k))
