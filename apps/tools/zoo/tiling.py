"""Tiles over a picture of any size, and how boxes of many tiles become one set without doubles. Pure numpy and shapely."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray

from apps.core.ports import Window


@dataclass(slots=True)
class Boxes:
    """Boxes of one picture: ``xyxy`` float (n, 4) in pixels, ``score`` (n,), ``cls`` int (n,), ``tile`` int (n,), and for
    oriented boxes and segments one outline (k, 2) a box."""

    xyxy: NDArray[np.float64]
    score: NDArray[np.float64]
    cls: NDArray[np.int64]
    tile: NDArray[np.int64]
    outline: list[NDArray[np.float64]] | None = None

    @classmethod
    def empty(cls) -> Boxes:
        return cls(np.zeros((0, 4)), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))

    def __len__(self) -> int:
        return len(self.score)

    def pick(self, at: NDArray[np.int64] | NDArray[np.bool_]) -> Boxes:
        index = np.flatnonzero(at) if at.dtype == bool else at
        outline = None if self.outline is None else [self.outline[i] for i in index]
        return Boxes(self.xyxy[index], self.score[index], self.cls[index], self.tile[index], outline)

    @classmethod
    def joined(cls, parts: list[Boxes]) -> Boxes:
        parts = [p for p in parts if len(p)]
        if not parts:
            return cls.empty()
        outline = None
        if any(p.outline is not None for p in parts):
            outline = [o for p in parts for o in (p.outline if p.outline is not None else rectangles(p.xyxy))]
        return cls(np.concatenate([p.xyxy for p in parts]), np.concatenate([p.score for p in parts]),
                   np.concatenate([p.cls for p in parts]), np.concatenate([p.tile for p in parts]), outline)


def rectangles(xyxy: NDArray[np.float64]) -> list[NDArray[np.float64]]:
    """The four corners of each box, clockwise on the picture from the upper left."""
    x0, y0, x1, y1 = xyxy.T if len(xyxy) else np.zeros((4, 0))
    return list(np.stack([np.stack([x0, y0], 1), np.stack([x1, y0], 1), np.stack([x1, y1], 1), np.stack([x0, y1], 1)], 1))


def plan_tiles(bounds: Window, tile: int, overlap: int) -> list[Window]:
    """Windows of at most ``tile`` px a side with at least ``overlap`` px in common, that cover ``bounds``: as many as are needed,
    each no longer than that many need, and evenly laid, so that no window looks twice at what another has seen already."""
    left, top, width, height = bounds
    overlap = min(overlap, tile - 1)

    def laid(length: int) -> tuple[list[int], int]:
        if length <= tile:
            return [0], length
        n = -(-(length - overlap) // (tile - overlap))
        size = min(tile, -(-(length + (n - 1) * overlap) // n))
        return [round(k * (length - size) / (n - 1)) for k in range(n)], size

    (columns, w), (rows, h) = laid(width), laid(height)
    return [(left + x, top + y, w, h) for y in rows for x in columns]


def in_own_core(boxes: Boxes, windows: list[Window], margin: float) -> NDArray[np.bool_]:
    """True where a box's centre lies in the core of its tile: nearer to it than to its neighbours, by the middle of what two
    tiles have in common, give or take ``margin`` px.

    An object no longer than the overlap is whole in the tile that keeps it, and what a tile's edge cuts goes. The outer edges
    of the whole set of tiles cut nothing.
    """
    if not len(boxes):
        return np.zeros(0, bool)

    def limits(axis: int) -> dict[int, tuple[float, float]]:
        starts = sorted({w[axis] for w in windows})
        size = windows[0][axis + 2]
        middle = [(a + size + b) / 2 for a, b in itertools.pairwise(starts)]
        low, high = [-np.inf, *middle], [*middle, np.inf]
        return {s: (a - margin, b + margin) for s, a, b in zip(starts, low, high, strict=True)}

    columns, rows = limits(0), limits(1)
    frame = np.array([[columns[w[0]][0], rows[w[1]][0], columns[w[0]][1], rows[w[1]][1]] for w in windows])[boxes.tile]
    centre = (boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2
    return np.asarray((centre >= frame[:, :2]).all(axis=1) & (centre <= frame[:, 2:]).all(axis=1))


def overlap_pairs(xyxy: NDArray[np.float64], outline: list[NDArray[np.float64]] | None = None
                  ) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """Pairs i < j of boxes that overlap: (i, j, intersection over union, intersection over the smaller).

    With outlines it is they that are compared: the frames of slanting neighbours overlap where they themselves do not.
    """
    rect = shapely.box(xyxy[:, 0], xyxy[:, 1], xyxy[:, 2], xyxy[:, 3])
    i, j = shapely.STRtree(rect).query(rect)
    keep = i < j
    i, j = i[keep].astype(np.int64), j[keep].astype(np.int64)
    if outline is not None and len(i):
        shapes = shapely.make_valid(shapely.polygons([shapely.linearrings(o) for o in outline]))
        whole = shapely.area(shapes)
        common = shapely.area(shapely.intersection(shapes[i], shapes[j]))
        smaller, union = np.minimum(whole[i], whole[j]), whole[i] + whole[j] - common
        return i, j, common / np.maximum(union, 1e-9), common / np.maximum(smaller, 1e-9)
    low = np.maximum(xyxy[i, :2], xyxy[j, :2])
    high = np.minimum(xyxy[i, 2:], xyxy[j, 2:])
    inter = np.prod(np.clip(high - low, 0, None), axis=1)
    area = np.prod(xyxy[:, 2:] - xyxy[:, :2], axis=1)
    smaller = np.minimum(area[i], area[j])
    union = area[i] + area[j] - inter
    return i, j, inter / np.maximum(union, 1e-9), inter / np.maximum(smaller, 1e-9)


def suppress(boxes: Boxes, *, iou: float, within_tile: bool, contained: float = 0.6) -> NDArray[np.bool_]:
    """Class-wise greedy suppression, the higher score wins; True where a box stays.

    ``within_tile``: pairs of one tile are compared by IoU alone. Otherwise pairs of different tiles are, by IoU or by the share
    of the smaller box that lies in the other (``contained``): that cuts the halves which a seam leaves.
    """
    n = len(boxes)
    stays = np.ones(n, bool)
    if n < 2:
        return stays
    i, j, overlap, inside = overlap_pairs(boxes.xyxy, boxes.outline)
    same = boxes.cls[i] == boxes.cls[j]
    if within_tile:
        hit = same & (boxes.tile[i] == boxes.tile[j]) & (overlap > iou)
    else:
        hit = same & (boxes.tile[i] != boxes.tile[j]) & ((overlap > iou) | (inside > contained))
    i, j = i[hit], j[hit]
    rivals: dict[int, list[int]] = {}
    for a, b in zip(i.tolist(), j.tolist(), strict=True):
        rivals.setdefault(a, []).append(b)
        rivals.setdefault(b, []).append(a)
    for at in np.argsort(-boxes.score, kind="stable").tolist():
        if stays[at]:
            for other in rivals.get(at, ()):
                if boxes.score[other] < boxes.score[at] or (boxes.score[other] == boxes.score[at] and other > at):
                    stays[other] = False
    return stays


def soften(boxes: Boxes, *, sigma: float = 0.5, floor: float = 0.45) -> Boxes:
    """Soft suppression (Bodla et al. 2017, Gaussian): a box that overlaps a better one of its tile and class keeps a score
    lowered by exp(-IoU² / sigma); overlaps below ``floor`` cost nothing, for neighbours in a row are not doubles."""
    n = len(boxes)
    if n < 2:
        return boxes
    i, j, overlap, _ = overlap_pairs(boxes.xyxy, boxes.outline)
    hit = (boxes.cls[i] == boxes.cls[j]) & (boxes.tile[i] == boxes.tile[j]) & (overlap > floor)
    rivals: dict[int, list[tuple[int, float]]] = {}
    for a, b, v in zip(i[hit].tolist(), j[hit].tolist(), overlap[hit].tolist(), strict=True):
        rivals.setdefault(a, []).append((b, v))
        rivals.setdefault(b, []).append((a, v))
    score = boxes.score.copy()
    done = np.zeros(n, bool)
    import heapq

    heap = [(-float(s), k) for k, s in enumerate(score)]
    heapq.heapify(heap)
    while heap:
        s, at = heapq.heappop(heap)
        if done[at] or -s != score[at]:
            continue
        done[at] = True
        for other, v in rivals.get(at, ()):
            if not done[other]:
                score[other] = float(score[other] * np.exp(-v * v / sigma))
                heapq.heappush(heap, (-score[other], other))
    return Boxes(boxes.xyxy, score, boxes.cls, boxes.tile, boxes.outline)
