"""How far a figure of a region could be another: by the pixels that its outline crosses, and by those that were not seen.

A pixel on the outline counts wholly or not at all, by its centre. How much of it lies inside is known; what of its value lies
inside is not. So the figure lies between those in which each such pixel counts with any weight from nothing to its whole. A
pixel of the region without a value could have had any value that was seen there. Both are bounds and no probabilities: the
pixels of a region are no sample of it, they are the region, so their mean has no standard error. How exact the product's values
are, and how exactly its pixels lie where they should, is not in these bounds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray

from apps.tools.execute.streaming import Engine, Program
from apps.tools.execute.types import Bounds, Sample, Within
from apps.tools.region import RegionMask

# A share of a pixel below this, or above 1 less this, is the rounding of a corner.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Crossed:
    """Pixels that an outline crosses: their places, the share of each that lies inside, and whether its centre does."""

    rows: NDArray[np.int64]
    cols: NDArray[np.int64]
    share: NDArray[np.float64]
    is_in: NDArray[np.bool_]


def crossed_pixels(region: RegionMask) -> Crossed:
    """The pixels of the grid that a region's outline crosses, in the order of rows. Shares are exact: the area to the right of
    each part of the outline, summed along the row."""
    assert region.polygon is not None
    width, height = region.grid.width, region.grid.height
    polygon = shapely.clip_by_rect(region.polygon, -1, -1, width + 1, height + 1)
    polygon = shapely.orient_polygons(shapely.multipolygons([
        p for p in shapely.get_parts(shapely.get_parts(polygon)) if p.geom_type == "Polygon"]))
    parts = [shapely.get_coordinates(ring) for p in shapely.get_parts(polygon) for ring in (p.exterior, *p.interiors)]
    edges = np.concatenate([np.hstack([at[:-1], at[1:]]) for at in parts])
    x, y, dy = _pieces(edges)
    cols, rows = np.maximum(np.floor(x), -1).astype(np.int64), np.floor(y).astype(np.int64)
    kept = (rows >= 0) & (rows < height) & (cols < width)
    x, dy, cols, rows = x[kept], dy[kept], cols[kept], rows[kept]
    # a piece left of the grid covers all of its row
    keys, where = np.unique(rows * (width + 1) + cols + 1, return_inverse=True)
    within = np.bincount(where, weights=dy * np.where(cols < 0, 0.0, 1 - (x - cols)), minlength=keys.size)
    across = np.bincount(where, weights=dy, minlength=keys.size)
    rows, cols = keys // (width + 1), keys % (width + 1) - 1
    before = np.cumsum(across) - across
    first = np.searchsorted(rows, rows)
    share = within + before - before[first]
    share = np.abs(share)
    on = (cols >= 0) & (share > _ROUNDING) & (share < 1 - _ROUNDING)
    rows, cols, share = rows[on], cols[on], share[on]
    return Crossed(rows, cols, share, region.holds(rows, cols))


def _pieces(edges: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """(x and y of the middle, dy) of the pieces into which the sides of the pixels cut directed edges (n, 4)."""
    which: list[NDArray[np.int64]] = [np.arange(len(edges))] * 2
    at: list[NDArray[np.float64]] = [np.zeros(len(edges)), np.ones(len(edges))]
    for start, end in ((edges[:, 0], edges[:, 2]), (edges[:, 1], edges[:, 3])):
        low, high = np.minimum(start, end), np.maximum(start, end)
        first = np.ceil(low).astype(np.int64)
        n = np.where(start == end, 0, np.maximum(0, np.floor(high).astype(np.int64) - first + 1))
        edge = np.repeat(np.arange(len(edges)), n)
        line = np.arange(n.sum()) - np.repeat(np.cumsum(n) - n, n) + np.repeat(first, n)
        which.append(edge)
        at.append((line - start[edge]) / (end[edge] - start[edge]))
    edge, t = np.concatenate(which), np.clip(np.concatenate(at), 0, 1)
    order = np.lexsort((t, edge))
    edge, t = edge[order], t[order]
    same = edge[1:] == edge[:-1]
    edge, middle, step = edge[1:][same], ((t[1:] + t[:-1]) / 2)[same], (t[1:] - t[:-1])[same]
    x0, y0, x1, y1 = edges[edge].T
    return x0 + middle * (x1 - x0), y0 + middle * (y1 - y0), step * (y1 - y0)


class EdgeValues:
    """The values of the valid pixels that a region's outline crosses, with the share of each that lies inside."""

    sees_beyond = takes_held = True

    def __init__(self, region: RegionMask):
        self.region = region
        self.values: list[NDArray[np.float64]] = []
        self.shares: list[NDArray[np.float64]] = []
        self.n_missing_out = 0
        self._done = False
        self._crossed: tuple[NDArray[Any], ...] = ()

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        if first:
            found = crossed_pixels(self.region)
            self._crossed = found.rows, found.cols, found.share, found.is_in
        return first

    def gather(self, sample: Sample) -> tuple[NDArray[np.float64], NDArray[np.float64], int]:
        c, r, w, h = sample.window
        rows, cols, share, is_in = self._crossed
        first, last = np.searchsorted(rows, [r, r + h])
        here = slice(int(first), int(last))
        on = (cols[here] >= c) & (cols[here] < c + w)
        at = rows[here][on] - r, cols[here][on] - c
        valid, is_in = sample.valid[at], is_in[here][on]
        # negative: the centre lies outside
        signed = np.where(is_in, share[here][on], -share[here][on])
        return sample.data[at][valid].astype(np.float64), signed[valid], int(np.count_nonzero(~valid & ~is_in))

    def merge(self, part: tuple[NDArray[np.float64], NDArray[np.float64], int]) -> None:
        self.values.append(part[0])
        self.shares.append(part[1])
        self.n_missing_out += part[2]

    @property
    def found(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
        """(values in rising order, share of each pixel inside, whether its centre is)."""
        if not self.values:
            return np.empty(0), np.empty(0), np.empty(0, dtype=bool)
        values, shares = np.concatenate(self.values), np.concatenate(self.shares)
        order = np.lexsort((shares, values))
        return values[order], np.abs(shares[order]), shares[order] > 0


def missing_words(n_missing: int, n_region: int) -> str:
    """What share of the pixels is missing."""
    share = 100 * n_missing / n_region
    return f"{'less than 0.1' if share < 0.1 else f'{share:.1f}'} % of the pixels missing"


def with_unseen(bounds: tuple[float, float], n_valid: int, n_missing: int, pixel: float | None, *,
                whole: float) -> tuple[float, float]:
    """Bounds of a mask's area (of ``pixel`` each), or of its share (None) of a ``whole``, if all or none of the missing pixels
    belong to it."""
    low, high = bounds
    if pixel is not None:
        return low, high + n_missing * pixel
    n = n_valid + n_missing
    return low * n_valid / n, (high * n_valid + n_missing * whole) / n


def told(n_edge: int, n_missing: int, n_region: int) -> tuple[str, str]:
    """Where the bounds come from, at length and in a few words."""
    parts, short = [], []
    if n_edge:
        parts.append(f"{n_edge:,} pixels that the outline crosses, each counted from nothing to its whole")
        short.append("pixels on the outline")
    if n_missing:
        missing = missing_words(n_missing, n_region)
        parts.append(f"{missing}, each anywhere between the least and the greatest value seen")
        short.append(missing)
    return "; ".join(parts), " and ".join(short)


def _extreme(total: float, count: float, edge: NDArray[np.float64], sign: int) -> float:
    """The greatest (``sign`` 1) or least (−1) mean of ``count`` values that sum to ``total`` and of any of the edge's."""
    ordered = edge[::-1] if sign > 0 else edge
    sums, counts = total + np.concatenate([[0.0], np.cumsum(ordered)]), count + np.arange(edge.size + 1)
    means = sums[counts > 0] / counts[counts > 0]
    return float(means.max() if sign > 0 else means.min())


def mean_within(mean: float, n: int, seen: tuple[float, float], edges: EdgeValues | None, *, is_sum: bool = False) -> Within:
    """Bounds of a mean, or of a sum, of ``n`` valid pixels between ``seen``."""
    values, shares, is_in = edges.found if edges is not None else (np.empty(0), np.empty(0), np.empty(0, dtype=bool))
    fixed_n = n - int(is_in.sum())
    fixed = mean * n - math.fsum(values[is_in])
    low, high = min([seen[0], *values[:1]]), max([seen[1], *values[-1:]])

    def within(n_missing: int, is_conditional: bool) -> Bounds | None:
        # what lies beyond the outline's pixels and what a condition took out are not told apart
        n_out = edges.n_missing_out if edges is not None and not is_conditional else 0
        if not values.size and not n_missing + n_out:
            return None
        k = n_missing + n_out
        by_missing = None
        if is_sum:
            ends = (fixed + math.fsum(values[values < 0]) + k * min(low, 0.0 if n_out else low),
                    fixed + math.fsum(values[values > 0]) + k * max(high, 0.0 if n_out else high))
            whole = mean * n
            if n_missing:
                by_missing = whole + n_missing * low, whole + n_missing * high
        else:
            ends = _extreme(fixed + k * low, fixed_n + k, values, -1), _extreme(fixed + k * high, fixed_n + k, values, 1)
            if n_missing:
                by_missing = ((mean * n + n_missing * low) / (n + n_missing), (mean * n + n_missing * high) / (n + n_missing))
        figure = mean * n if is_sum else mean
        ends = min(ends[0], figure), max(ends[1], figure)
        evidence: dict[str, Any] = {"n_missing": n_missing, "missing_between": [low, high] if k else None,
                                    "region_edge_px": int(values.size)}
        if values.size:
            inside = math.fsum(shares)
            total = fixed + math.fsum(values * shares)
            evidence["by_exact_area"] = total if is_sum else total / (fixed_n + inside) if fixed_n + inside > 0 else None
        text, short = told(int(values.size), n_missing, n + n_missing)
        return Bounds(ends, by_missing, text or "pixels on the outline that are missing", short or text, evidence)

    return within


def n_without_value(program: Program, engine: Engine, node: str) -> tuple[int, bool]:
    """(pixels of the ground asked about that a raster has no value for, whether a condition of the question took some out). Of a
    region these are all but those that a condition took out; of a whole scene, whose frame says nothing of the ground, those that
    its quality mask took out."""
    figures, grid = engine.figures[node], program.type_of(node).grid
    masks = [n for n in program.upstream(node) if program.nodes[n].op == "raster.product.apply_mask"
             and program.type_of(n).grid == grid]
    by_quality = [n for n in masks if program.nodes[n].params.get("quality")]
    if engine.region(grid).polygon is None:
        return engine.figures[by_quality[0]].n_undefined if len(by_quality) == 1 else 0, len(masks) > len(by_quality)
    by_question = sum(engine.figures[n].n_undefined for n in masks if n not in by_quality)
    return max(0, figures.n_region - figures.moments.n - by_question), len(masks) > len(by_quality)
