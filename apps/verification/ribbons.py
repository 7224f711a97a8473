"""Lengths of long thin pieces of a mask and likeness between neighbours: paths of the verifier's own to what the tools say."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage


@dataclass(frozen=True, slots=True)
class Ribbons:
    """``length_m`` of all pieces; ``long_share``: the part of it that belongs to pieces which are clearly longer than wide."""

    length_m: float
    long_share: float
    n: int


def ribbons_of(mask: NDArray[np.bool_], dx: float, dy: float) -> Ribbons:
    """How long the pieces of a mask are, from their areas and outlines alone: a ribbon of length L and width w has the area L·w
    and the outline 2 (L + w). ``dx`` and ``dy``: metres of a step along a row and along a column.

    Outlines are counted as crossings of lines in four directions (Cauchy–Crofton), weighted for pixels that are not square. A
    piece as wide as long counts with a quarter of its outline.
    """
    held = np.pad(mask, 1)
    labels, n = ndimage.label(held, structure=np.ones((3, 3)))
    if n == 0:
        return Ribbons(0.0, 0.0, 0)
    slant, angle = math.hypot(dx, dy), math.atan2(dy, dx)
    # (neighbour, angle that the direction stands for, distance between its lines)
    directions = (
        ((0, 1), angle, dy),
        ((1, 0), math.pi / 2 - angle, dx),
        ((1, 1), math.pi / 4, dx * dy / slant),
        ((1, -1), math.pi / 4, dx * dy / slant),
    )
    outline = np.zeros(n + 1)
    for (down, right), width, apart in directions:
        a = labels if not down else labels[:-1]
        b = labels if not down else labels[1:]
        if right == 1:
            a, b = a[:, :-1], b[:, 1:]
        elif right == -1:
            a, b = a[:, 1:], b[:, :-1]
        crossed = np.maximum(a, b)[(a != 0) != (b != 0)]
        outline += 0.5 * width * apart * np.bincount(crossed, minlength=n + 1)
        if down and right:
            # a line between two pixels that touch at a corner alone crosses the piece there
            over, under = (labels[:-1, 1:], labels[1:, :-1]) if right == 1 else (labels[:-1, :-1], labels[1:, 1:])
            corner = a[(a != 0) & (b != 0) & (over == 0) & (under == 0)]
            outline += 0.5 * width * apart * 2 * np.bincount(corner, minlength=n + 1)
    outline, area = outline[1:], np.bincount(labels.ravel(), minlength=n + 1)[1:] * dx * dy
    under_root = outline**2 - 16 * area
    # three times as long as wide: (2 (L + w))² = 64 w² against 16 · 3 w²
    is_long = under_root > outline**2 / 4
    length = np.where(is_long, (outline + np.sqrt(np.maximum(under_root, 0))) / 4, outline / 4)
    total = float(length.sum())
    return Ribbons(total, float(length[is_long].sum()) / total if total else 0.0, int(n))


# How far the mean size of a step along a mask is known, for each e-fold by which a pixel is longer than wide.
STEP_ERROR = 0.12


def tangents_of(mask: NDArray[np.bool_], most: int = 20_000) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """(places (n, 2), directions (n, 2); columns before rows, in pixels) along the outline of a mask, at most ``most`` of them at
    even steps: the direction in which the blurred mask varies least (structure tensor), of length one."""
    held = np.pad(mask, 8).astype(np.float64)
    down, right = np.gradient(ndimage.gaussian_filter(held, 1.0))
    xx, yy, xy = (ndimage.gaussian_filter(p, 2.0) for p in (right * right, down * down, right * down))
    rows, cols = np.nonzero((held > 0) & ~ndimage.binary_erosion(held > 0))
    every = max(1, -(-len(rows) // most))
    rows, cols = rows[::every], cols[::every]
    angle = 0.5 * np.arctan2(2 * xy, xx - yy)[rows, cols] + math.pi / 2
    return np.stack([cols - 7.5, rows - 7.5], axis=1), np.stack([np.cos(angle), np.sin(angle)], axis=1)


def moran(data: NDArray[np.float64], valid: NDArray[np.bool_], *, corners: bool) -> tuple[float, int] | None:
    """(Moran's I, pixels that have a neighbour) with neighbours that sum to one for each pixel; None where it is undefined."""
    shape = np.ones((3, 3)) if corners else ndimage.generate_binary_structure(2, 1).astype(float)
    shape[1, 1] = 0
    around = ndimage.convolve(valid.astype(np.float64), shape, mode="constant")
    used = valid & (around > 0)
    n = int(used.sum())
    if n < 4:
        return None
    apart = np.where(used, data - data[used].mean(), 0.0)
    squares = float((apart**2).sum())
    if squares == 0:
        return None
    mean_of_neighbours = ndimage.convolve(apart, shape, mode="constant")[used] / around[used]
    return float((apart[used] * mean_of_neighbours).sum()) / squares, n


def hot_spots(data: NDArray[np.float64], valid: NDArray[np.bool_], size: int) -> NDArray[np.float64] | None:
    """Getis and Ord's Gi* (1995) of valid pixels in squares of ``size``, from sums of a table; None where all are alike."""
    n = int(valid.sum())
    if n < 3:
        return None
    mean, std = float(data[valid].mean()), float(data[valid].std())
    if std == 0:
        return None
    half = size // 2

    def sums(plane: NDArray[np.float64]) -> NDArray[np.float64]:
        table = np.zeros((plane.shape[0] + size, plane.shape[1] + size))
        table[1:, 1:] = np.cumsum(np.cumsum(np.pad(plane, (half, size - 1 - half)), axis=0), axis=1)
        return table[size:, size:] - table[:-size, size:] - table[size:, :-size] + table[:-size, :-size]

    weight = np.rint(sums(valid.astype(np.float64)))
    total = sums(np.where(valid, data - mean, 0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(valid, total / (std * np.sqrt((n * weight - weight**2) / (n - 1))), np.nan)
