"""Masks that were grown from prompts or refined: they hold the points that were set, change at their edge alone, and lie where
the picture's colours say that the thing is, and not a few pixels beside it.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.look import look_of
from apps.verification.placed import grid_offset, scene_of_layer
from apps.verification.planes import CannotLookError

_BRIGHT = ("blue", "green", "red", "nir", "gray", "pan", "swir1")
_FLAGS = ("class", "mask", "qa", "alpha")
# What lies this near to the outline is looked at, to both sides; a mask is tried at these distances from its place.
_RING_PX, _AWAY_PX = 12, (3, 4, 5, 6, 7)
# Windows up to this many pixels are looked at.
_MOST_PX = 1_500_000
# Below this mean share of pixels on their side, the colours do not part the thing from its surroundings at all.
_LEAST_PARTED = 0.65


@check(
    "mask_lies_where_colours_part",
    "warn",
    catches=("leaked or shifted mask",),
    limits=("max_layer_px", "shift_gain"),
    reads=("/result/layers", "/inputs", "/arguments/regions_method"),
    family="geometry",
)
def mask_lies_where_colours_part(case: Case) -> Finding:
    """A mask from prompts parts the picture's colours better where it lies than three to seven pixels beside it."""
    method, ref = case.observation.arguments.get("regions_method"), case.layer("mask")
    if not isinstance(method, dict) or method.get("kind") not in ("prompt", "refine") or ref is None or not case.is_small(ref):
        return not_applicable("no mask from prompts")
    if len(case.used_scenes) != 1 or ref.grid != case.used_scenes[0].grid:
        return not_applicable("the mask does not lie on one scene's grid")
    scene = case.used_scenes[0]
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    held = mask & valid
    rows, columns = np.flatnonzero(held.any(axis=1)), np.flatnonzero(held.any(axis=0))
    if not rows.size:
        return not_applicable("the mask is empty")
    room = _RING_PX + max(_AWAY_PX)
    y0, y1 = max(0, int(rows[0]) - room), min(held.shape[0], int(rows[-1]) + 1 + room)
    x0, x1 = max(0, int(columns[0]) - room), min(held.shape[1], int(columns[-1]) + 1 + room)
    if (y1 - y0) * (x1 - x0) > _MOST_PX:
        return not_applicable("the mask spans more than is looked at")
    chosen = [b.index for r in _BRIGHT if len(b_ := [b for b in scene.bands if b.role == r]) == 1 for b in b_][:4]
    chosen = chosen or [b.index for b in scene.bands if b.role not in _FLAGS][:1]
    if not chosen:
        return not_applicable("the scene has no band of brightness")
    try:
        seen = look_of(case).pixels(scene, tuple(chosen), (x0, y0, x1 - x0, y1 - y0))
    except CannotLookError as why:
        return not_applicable(str(why))
    cut = held[y0:y1, x0:x1]
    known = np.asarray(seen.valid.all(axis=0)) & valid[y0:y1, x0:x1] if seen.valid.ndim == 3 else seen.valid & valid[y0:y1, x0:x1]
    planes = seen.data if seen.data.ndim == 3 else seen.data[None]
    zone = known & _about(cut)
    if min((zone & cut).sum(), (zone & ~cut).sum()) < 25:
        return not_applicable("too few pixels on one side of the mask")
    like = _like_the_inside(planes, zone & cut, zone & ~cut, known)
    here = _parted(cut, like, zone)
    if here < _LEAST_PARTED:
        return not_applicable("the colours do not part the thing from what is around it")
    steps = [(dy, dx) for d in _AWAY_PX for dy in (-d, 0, d) for dx in (-d, 0, d) if dy or dx]
    away = {step: _parted(_moved(cut, *step), like, zone) for step in steps}
    best = max(away, key=lambda k: away[k])
    # the colours are learned again where it would lie: a shifted mask has mixed them
    there = _moved(cut, *best)
    zone = known & _about(there)
    if min((zone & there).sum(), (zone & ~there).sum()) < 25:
        return not_applicable("too few pixels on one side of the mask")
    gain = _parted(there, _like_the_inside(planes, zone & there, zone & ~there, known), zone) - here
    at = ("/result/layers", "/inputs")
    if gain > case.limits.shift_gain:
        return failed(
            f"The mask would part the picture's colours better {max(abs(best[0]), abs(best[1]))} pixels away ({best[1]:+d} "
            f"columns, {best[0]:+d} rows); it seems to be shifted.",
            measured=round(gain, 4),
            expected=f"≤ {case.limits.shift_gain}",
            at=at,
        )
    return passed("The mask parts the picture's colours best where it lies.", measured=round(here, 4), at=at)


def _like_the_inside(
    planes: NDArray[np.float64], inside: NDArray[np.bool_], around: NDArray[np.bool_], known: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """(rows, columns): whether a pixel's colours are likelier inside the mask than around it, by two normal models."""
    score = np.zeros(inside.shape)
    for plane in planes:
        low, high = np.percentile(plane[known], (2, 98))
        filled = np.where(known, np.clip((plane - low) / (high - low if high > low else 1.0), 0, 1), 0.5)
        smooth = ndimage.gaussian_filter(filled, 1.0)
        for side, sign in ((inside, 1.0), (around, -1.0)):
            middle, variance = float(np.median(smooth[side])), float(smooth[side].var()) + 0.05**2
            score -= sign * 0.5 * ((smooth - middle) ** 2 / variance + np.log(variance))
    return np.asarray(score > 0)


def _about(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Pixels near the mask's outline: the deep inside of a large thing says nothing of where its outline lies."""
    return np.asarray((ndimage.distance_transform_edt(~mask) <= _RING_PX) & (ndimage.distance_transform_edt(mask) <= _RING_PX))


def _moved(mask: NDArray[np.bool_], dy: int, dx: int) -> NDArray[np.bool_]:
    h, w = mask.shape
    out = np.zeros_like(mask)
    out[max(0, dy) : h + min(0, dy), max(0, dx) : w + min(0, dx)] = mask[
        max(0, -dy) : h + min(0, -dy), max(0, -dx) : w + min(0, -dx)
    ]
    return out


def _parted(mask: NDArray[np.bool_], like: NDArray[np.bool_], zone: NDArray[np.bool_]) -> float:
    """Mean of the shares of the mask's pixels in the zone that are like its inside, and of the zone's others that are not."""
    one, other = mask & zone, ~mask & zone
    return 0.5 * (float((like & one).sum()) / max(1, int(one.sum())) + float((~like & other).sum()) / max(1, int(other.sum())))


@check(
    "mask_holds_its_points",
    catches=("leaked or shifted mask", "box convention mistaken"),
    limits=("max_layer_px",),
    reads=("/result/layers", "/arguments/regions_method"),
    family="geometry",
)
def mask_holds_its_points(case: Case) -> Finding:
    """A mask that was grown from points holds those that were set inside, and none of those set outside."""
    method, ref = case.observation.arguments.get("regions_method"), case.layer("mask")
    if not isinstance(method, dict) or method.get("kind") != "prompt" or ref is None or not case.is_small(ref):
        return not_applicable("no mask from points")
    scene = scene_of_layer(case, ref)
    offset = grid_offset(ref.grid, scene.grid) if ref.grid is not None and scene is not None else (0.0, 0.0)
    if offset is None:
        return not_applicable("the mask lies on another grid")
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    held = mask & valid
    wrong = n = 0
    given = method.get("points")
    for point in given if isinstance(given, (list, tuple)) else ():
        numbers = [number_of(v) for v in point] if isinstance(point, (list, tuple)) else []
        if len(numbers) != 3 or None in numbers:
            continue
        x, y, kind = (float(v) for v in numbers if v is not None)
        col, row = math.floor(x - offset[0]), math.floor(y - offset[1])
        if not (0 <= row < held.shape[0] and 0 <= col < held.shape[1]) or not valid[row, col]:
            continue
        n += 1
        wrong += bool(held[row, col]) != bool(kind)
    if n == 0:
        return not_applicable("no point lies on the mask's ground")
    at = ("/result/layers", "/arguments/regions_method/points")
    if wrong:
        return failed(
            f"{wrong} of {n} points lie on the wrong side of the mask; they may have been read in other coordinates.",
            measured=wrong,
            expected=0,
            unit="points",
            at=at,
        )
    return passed("All points lie on their side of the mask.", measured=n, unit="points", at=at)


@check(
    "refined_edge_only",
    catches=("leaked or shifted mask", "stale artifact"),
    limits=("max_layer_px",),
    reads=("/result/layers", "/arguments/regions_method"),
    family="geometry",
)
def refined_edge_only(case: Case) -> Finding:
    """A refined mask differs from the one that it was made of within the band about its edge alone, and says by how much."""
    method, ref = case.regions_method, case.layer("mask")
    seed = method.get("seed")
    if method.get("kind") != "refine" or ref is None or not case.is_small(ref) or not isinstance(seed, dict):
        return not_applicable("no refined mask")
    parent = next((p for p in case.parents if p.id == seed.get("observation")), None)
    label = seed.get("label") or ""
    first_ref = next((r for r in parent.result.layers if r.kind == "mask" and label in ("", r.label)), None) if parent else None
    if first_ref is None:
        return not_applicable("the first mask is not in the verified history")
    try:
        (first, known), (now, valid) = case.mask(first_ref), case.mask(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"A mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    at = ("/result/layers", "/arguments/regions_method/seed")
    if first.shape != now.shape:
        return failed(
            "The refined mask lies on another grid than the first.", measured=list(now.shape), expected=list(first.shape), at=at
        )
    band = number_of(method.get("band_px"))
    band = 4.0 if band is None else band
    before, after = first & known, now & valid
    inside, outside = ndimage.distance_transform_edt(before), ndimage.distance_transform_edt(~before)
    both = known & valid
    lost, grown = both & before & ~after & (inside > band), both & after & ~before & (outside > band)
    # where nothing was marked the distance to it means nothing
    n = int(lost.sum()) + (int(grown.sum()) if before.any() else int((after & both).sum()))
    if n:
        return failed(
            f"{n} pixels changed further than {band:g} from the first mask's edge; refinement moves the edge alone.",
            measured=n,
            expected=0,
            unit="px",
            at=at,
        )
    common, union = int((before & after).sum()), int((before | after).sum())
    told = case.evidence_number("intermediate", "iou_with_seed")
    if told is not None and union and abs(told - common / union) > 1e-3:
        return failed(
            "The overlap on record is not the one of the two masks.",
            measured=told,
            expected=common / union,
            at=("/evidence/intermediate/iou_with_seed",),
        )
    return passed("The mask changed at its edge alone.", measured=common / union if union else 1.0, at=at)
