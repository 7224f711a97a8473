"""Masks that were grown from prompts lie where the picture's colours say that the thing is, and not a few pixels beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.verification.case import Case, Finding, LayerUnreadableError, failed, not_applicable, passed
from apps.verification.checks.catalogue import check
from apps.verification.look import CannotLookError, look_of

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
    out[max(0, dy):h + min(0, dy), max(0, dx):w + min(0, dx)] = mask[max(0, -dy):h + min(0, -dy), max(0, -dx):w + min(0, -dx)]
    return out


def _parted(mask: NDArray[np.bool_], like: NDArray[np.bool_], zone: NDArray[np.bool_]) -> float:
    """Mean of the shares of the mask's pixels in the zone that are like its inside, and of the zone's others that are not."""
    one, other = mask & zone, ~mask & zone
    return 0.5 * (float((like & one).sum()) / max(1, int(one.sum())) + float((~like & other).sum()) / max(1, int(other.sum())))
