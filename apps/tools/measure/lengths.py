"""Lengths: of lines, outlines and long sides of features, and of the skeleton of a mask."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage
from scipy.spatial import cKDTree

from apps.core.errors import ModelError
from apps.core.geo.measures import geodesic_length_m
from apps.tools.contract import MeasureSpec, ToolContext
from apps.tools.measure.accuracy import lines_slack_m
from apps.tools.measure.areas import to_map
from apps.tools.measure.choose import pixel_side_m
from apps.tools.measure.figure import Figure, widen_by_accuracy
from apps.tools.measure.layers import Measured, Plane, needs_length

POLYGONS = ("Polygon", "MultiPolygon")


# Steps (rows, columns) from one pixel of a skeleton to the next.
_STEPS: dict[str, tuple[int, int]] = {"right": (0, 1), "down": (1, 0), "down_right": (1, 1), "down_left": (1, -1)}


# How often each pixel of a skeleton moves half-way to the middle of its two neighbours: stairs become slopes, and a corner is cut
# by about a pixel.
_SMOOTHED = 10


def _length_of_mask(subject: Measured) -> Figure:
    """Length of the skeleton of a mask, its stairs smoothed: the sum of its steps, each with its own direction and place on the
    ellipsoid.

    The interval: the line is no longer than its steps on the pixels, and a straight one not shorter than ``_least_of_steps`` of
    them; a skeleton ends short of its mask by up to half the width there, and the mask itself is true to half a pixel.
    """
    from skimage.morphology import skeletonize

    mask, grid = subject.mask, subject.grid
    assert mask is not None and grid is not None
    thin: NDArray[np.bool_] = cast(Any, skeletonize)(mask)
    rows, cols = np.nonzero(thin)
    n = len(rows)
    if n == 0:
        return Figure(0.0, evidence={"length_of": "the skeleton of the mask", "skeleton_px": 0, "length_px": 0.0,
                                     "interval_from": None}, numerator=0.0, n_px=0)
    links = {"right": thin[:, :-1] & thin[:, 1:], "down": thin[:-1] & thin[1:],
             # diagonal links count where no side link already joins the two
             "down_right": thin[:-1, :-1] & thin[1:, 1:] & ~thin[:-1, 1:] & ~thin[1:, :-1],
             "down_left": thin[:-1, 1:] & thin[1:, :-1] & ~thin[:-1, :-1] & ~thin[1:, 1:]}
    number = np.zeros(thin.shape, dtype=np.int64)
    number[rows, cols] = np.arange(n)
    pairs = []
    for name, (down, right) in _STEPS.items():
        r, c = np.nonzero(links[name])
        c = c + 1 if right < 0 else c
        pairs.append((number[r, c], number[r + down, c + right]))
    one, other = (np.concatenate([pair[k] for pair in pairs]) for k in (0, 1))
    at = np.stack([cols + 0.5, rows + 0.5], axis=1)
    by_steps = float(_ground_m(subject, at[one], at[other]).sum())
    middle = at.mean(axis=0, keepdims=True)
    step_m = {name: float(_ground_m(subject, middle, middle + np.array([right, down]))[0])
              for name, (down, right) in _STEPS.items()}
    degree = np.bincount(one, minlength=n) + np.bincount(other, minlength=n)
    smooth = _smoothed(at, one, other, degree == 2)
    value = float(_ground_m(subject, smooth[one], smooth[other]).sum())
    # a pixel that is linked to none is both ends of its piece
    n_ends = np.clip(2 - degree, 0, 2)
    pixel = max(step_m["down"], step_m["right"])
    # skeletons are made in pixels, whatever their shape on the ground
    high = by_steps + float((n_ends[n_ends > 0] * (_half_width_px(mask, at[n_ends > 0]) + 0.5)).sum()) * pixel
    low = max(0.0, by_steps * _least_of_steps(step_m) - 0.5 * pixel * float(n_ends.sum()))
    length_px = float(np.linalg.norm(smooth[one] - smooth[other], axis=1).sum())
    return Figure(value, min(low, value), high, None, {
        "length_of": "the skeleton of the mask, its stairs smoothed", "skeleton_px": n, "length_px": length_px,
        "steps": {name: len(pair[0]) for name, pair in zip(_STEPS, pairs, strict=True)}, "by_steps_m": by_steps,
        "ends": int(n_ends.sum()), "step_m": dict[str, JsonValue](step_m),
        "method": "geodesic steps" if grid.crs is not None else "pixels × GSD",
        "interval_from": "the steps' directions, the ends of the skeleton and half a pixel"}, value, None, n)


def require_length_of(spec: MeasureSpec, subject: Measured) -> None:
    """ModelError where polygons are given and "length" may be that of their outline or how far they reach."""
    is_length = spec.metric == "length" or (spec.metric == "ratio" and spec.of == "length")
    if spec.length_of and (not is_length or subject.mask is not None):
        raise ModelError("Whether the outline or the extent is meant belongs to the length of polygons.", code="BAD_ARGUMENT")
    if not is_length or subject.mask is not None:
        return
    n = sum(g.geom_type in POLYGONS for g in subject.features or [])
    if spec.length_of and n < len(subject.features or []):
        raise ModelError("Only polygons have an outline and an extent; lines have one length.", code="BAD_ARGUMENT")
    is_cut = spec.clip and not spec.each  # refused there
    if n and not spec.length_of and not is_cut and subject.source.mode == "extent" and subject.source.image is None:
        raise ModelError(f"{subject.source.name} holds polygons: is the length of their outline (perimeter) meant, or how far "
                         "each reaches (extent)?", code="BAD_ARGUMENT", needs={"length_of": ["outline", "extent"]})
    if spec.length_of == "extent" and (spec.clip or (spec.each and spec.each not in (subject.source.name, "subject"))):
        raise ModelError("The extent of polygons is not cut at others; it is one of each polygon itself.", code="BAD_ARGUMENT")


def _half_width_px(mask: NDArray[np.bool_], at: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far in pixels the nearest pixel outside of the mask lies from these centres (n, 2; columns, rows) inside."""
    if not len(at):
        return np.zeros(0)
    held = np.pad(mask, 1)
    rows, cols = np.nonzero(ndimage.binary_dilation(held) & ~held)
    return np.asarray(cKDTree(np.stack([cols - 0.5, rows - 0.5], axis=1)).query(at)[0], dtype=np.float64)


def _smoothed(at: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64],
              moves: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Positions (n, 2) of a skeleton's pixels, those that have two neighbours moved towards the middle of these."""
    at = at.copy()
    for _ in range(_SMOOTHED):
        total = np.stack([np.bincount(one, at[other, k], len(at)) + np.bincount(other, at[one, k], len(at)) for k in (0, 1)], 1)
        at[moves] = 0.5 * at[moves] + 0.25 * total[moves]
    return at


def _ground_m(subject: Measured, start: NDArray[np.float64], end: NDArray[np.float64]) -> NDArray[np.float64]:
    """Metres between positions (n, 2; columns, rows) of a source's pixels: on the ellipsoid, or pixels times GSD."""
    grid = subject.grid
    assert grid is not None
    if grid.crs is not None:
        return grid.ground_m(start[:, 0], start[:, 1], end[:, 0], end[:, 1])
    assert subject.gsd_m is not None
    return np.asarray(np.linalg.norm(end - start, axis=1) * subject.gsd_m)


def _least_of_steps(step_m: Mapping[str, float]) -> float:
    """How short a straight line may be against the steps along it: it lies between a side and a diagonal step that enclose an
    angle φ, and is at least cos(φ/2) of their sum (0.924 for square pixels)."""
    least = 1.0
    for diagonal in ("down_right", "down_left"):
        for side, other in (("right", "down"), ("down", "right")):
            a, g, b = step_m[side], step_m[diagonal], step_m[other]
            cosine = min(1.0, max(-1.0, (a * a + g * g - b * b) / (2 * a * g)))
            least = min(least, math.sqrt((1 + cosine) / 2))
    return least


def measure_length(ctx: ToolContext, subject: Measured, of: str = "") -> Figure:
    """Length in m: of lines in all, of polygons the mean of their long sides, of a mask that of its skeleton."""
    needs_length(subject)
    plane = Plane([subject])
    if subject.mask is not None:
        return _length_of_mask(subject)
    assert subject.features is not None
    lengths: list[float] = []
    what = "lines"
    for g in subject.features:
        if g.geom_type in ("LineString", "MultiLineString"):
            if plane.is_geodesic:
                lengths.append(geodesic_length_m(*to_map(subject, g)))
            else:
                lengths.append(float(plane.place(subject, g).length))
        elif g.geom_type in POLYGONS:
            what = "long sides of the smallest rectangles about the features; the value is their mean"
            ring = shapely.get_coordinates(shapely.oriented_envelope(plane.place(subject, g)))
            lengths.append(float(max(np.linalg.norm(np.diff(ring, axis=0), axis=1), default=0.0)))
        else:
            raise ModelError(f"A {g.geom_type} has no length.", code="BAD_ARGUMENT")
    items: list[dict[str, JsonValue]] = [{"feature": i, "length_m": x} for i, x in enumerate(lengths)]
    if not lengths:
        raise ModelError("The layer is empty: there is nothing whose length could be measured.", code="TOOL_FAILED")
    value = sum(lengths) if what == "lines" else float(np.mean(lengths))
    half = pixel_side_m(subject) if subject.crs == "image" and what != "lines" else None
    out = Figure(value, max(0.0, value - half) if half else None, value + half if half else None, None,
                 {"length_of": "the outlines of the polygons, holes included" if of == "outline" else what,
                  "n_features": len(lengths), "min_m": min(lengths), "max_m": max(lengths),
                  "interval_from": "one pixel" if half else None}, value, None, None, items)
    if subject.is_drawn and what == "lines":
        placed = [plane.place(subject, g) for g in subject.features]
        widen_by_accuracy(ctx, out, [subject], lambda off: lines_slack_m(placed, off))
    elif subject.is_drawn:
        # either end of the long side may lie off
        widen_by_accuracy(ctx, out, [subject], lambda off: (2 * off, 2 * off))
    return out
