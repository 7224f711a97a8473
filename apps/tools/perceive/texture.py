"""What neighbouring samples of a band tell of its quality: noise, sharpness, and stripes along rows and columns.

These figures are of pixels as they lie beside each other: a large scene is looked at in windows at full resolution, never in a
thinned view, whose neighbours are not neighbours on the ground.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage

from apps.core.ports import Window

Patch = tuple[NDArray[np.float64], NDArray[np.bool_]]
# Windows of this side, so many along an axis, stand for a scene that is not looked at whole.
SIDE, WINDOWS = 512, 4
# Immerkær's mask: its response to an image of noise of standard deviation σ is 6σ.
_NOISE_KERNEL = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]], dtype=np.float64)
# Parts of a line that are compared with each other, the least of them that must be seen, and the least pixels of a part.
PARTS, LEAST_PARTS, LEAST_PX = 8, 4, 8
LEAST_LINES = 16
LEAST_PIXELS = 100


def windows_over(bounds: Window, side: int = SIDE, along: int = WINDOWS) -> list[Window]:
    """Up to ``along`` × ``along`` windows of ``side`` px, evenly spread over the bounds."""
    left, top, width, height = bounds

    def laid(length: int) -> list[int]:
        n = min(along, -(-length // side))
        return [round(k * (length - side) / (n - 1)) for k in range(n)] if n > 1 else [max(0, (length - side) // 2)]

    return [(left + x, top + y, min(side, width), min(side, height)) for y in laid(height) for x in laid(width)]


def texture(patches: Iterable[Patch]) -> dict[str, JsonValue]:
    """Figures of a band over its patches of (values, valid); without those that too few valid pixels leave.

    ``noise``: one standard deviation. ``sharpness``: the variance of the Laplacian over that of the band. ``row_stripes`` and
    ``column_stripes``: the share of the lines' jumps (a line less the mean of its neighbours) that separate parts of the lines
    have in common, 0 where there are no stripes; ``…_size``: those jumps, root mean square in the band's unit.
    """
    n_inner = n_values = 0
    response_sum = laplace_sum = laplace_squares = value_sum = value_squares = 0.0
    rows, columns = _Jumps(), _Jumps()
    origin: float | None = None
    for data, valid in patches:
        if not valid.any():
            continue
        values = data[valid]
        if origin is None:
            origin = float(values.mean())
        filled = np.where(valid, data, values.mean())
        inner = ndimage.binary_erosion(valid, structure=np.ones((3, 3)))
        laplace = ndimage.laplace(filled)[inner]
        response_sum += float(np.abs(ndimage.convolve(filled, _NOISE_KERNEL))[inner].sum())
        laplace_sum, laplace_squares = laplace_sum + float(laplace.sum()), laplace_squares + float((laplace**2).sum())
        value_sum, value_squares = (
            value_sum + float((values - origin).sum()),
            value_squares + float(((values - origin) ** 2).sum()),
        )
        n_inner, n_values = n_inner + int(inner.sum()), n_values + int(values.size)
        rows.add(data, valid)
        columns.add(data.T, valid.T)
    variance = value_squares / n_values - (value_sum / n_values) ** 2 if n_values else 0.0
    if n_inner < LEAST_PIXELS or variance <= 0:
        return {}
    out: dict[str, JsonValue] = {
        "noise": response_sum / n_inner * math.sqrt(math.pi / 2) / 6,
        "sharpness": (laplace_squares / n_inner - (laplace_sum / n_inner) ** 2) / variance,
    }
    for name, jumps in (("row_stripes", rows), ("column_stripes", columns)):
        told = jumps.in_common()
        if told is not None:
            out[name], out[f"{name}_size"] = told
    return out


class _Jumps:
    """Jumps of lines in separate parts of them. A stripe runs through all parts of its line, what stands on the ground seldom
    does: the covariance of the parts' jumps is the variance that stripes make."""

    def __init__(self) -> None:
        self.n_lines = 0
        self.common = self.each = 0.0

    def add(self, data: NDArray[np.float64], valid: NDArray[np.bool_]) -> None:
        """Rows of one patch as lines."""
        if data.shape[0] < 3 or data.shape[1] < PARTS * LEAST_PX:
            return
        jump = data[1:-1] - (data[:-2] + data[2:]) / 2
        seen = valid[1:-1] & valid[:-2] & valid[2:]
        profile = np.full((PARTS, jump.shape[0]), np.nan)
        for k, part in enumerate(np.array_split(np.arange(data.shape[1]), PARTS)):
            here = seen[:, part]
            is_enough = here.sum(axis=1) >= LEAST_PX
            if is_enough.any():
                chosen = np.where(here, jump[:, part], np.nan)[is_enough]
                profile[k, is_enough] = np.nanmedian(chosen, axis=1)
        kept = profile[:, np.isfinite(profile).sum(axis=0) >= LEAST_PARTS]
        kept = kept[np.isfinite(kept).any(axis=1)] if kept.size else kept
        if not kept.size:
            return
        kept = kept - np.nanmean(kept, axis=1, keepdims=True)
        n, total, squares = np.isfinite(kept).sum(axis=0), np.nansum(kept, axis=0), np.nansum(kept**2, axis=0)
        self.n_lines += kept.shape[1]
        self.common += float(((total**2 - squares) / (n * (n - 1))).sum())
        self.each += float((squares / n).sum())

    def in_common(self) -> tuple[float, float] | None:
        """(share of the jumps that is common to the parts, its size); None of too few lines."""
        if self.n_lines < LEAST_LINES:
            return None
        common = max(0.0, self.common)
        return (common / self.each if self.each > 0 else 0.0), math.sqrt(common / self.n_lines)
