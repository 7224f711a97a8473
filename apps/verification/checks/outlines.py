"""Masks that were grown from prompts or refined: they hold the points that were set, change at their edge alone, and lie where
the picture's colours say that the thing is, and not a few pixels beside it.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.look import look_of
from apps.verification.placed import grid_offset, scene_of_layer
from apps.verification.planes import CannotLookError

_BRIGHT = ("blue", "green", "red", "nir", "gray", "pan", "swir1")
_FLAGS = ("class", "mask", "qa", "alpha")
# What lies this near to the outline is looked at, to both sides; a mask is tried at these distances from its place.
_RING_PX, _AWAY_PX = 12, (3, 4, 5, 6, 7)
# Of a stroke this share must lie on its side; of a mask this share may lie beside its box, which may be drawn a little narrow.
_STROKE_HELD, _BESIDE_BOX, _BOX_ROOM_PX = 0.5, 0.05, 3.0
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
    chosen = _bright(scene)
    if not chosen:
        return not_applicable("the scene has no band of brightness")
    try:
        seen = look_of(case).whole_pixels(scene, tuple(chosen), (x0, y0, x1 - x0, y1 - y0))
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


# An outline is tried at these distances; so many times steeper elsewhere it is warned of, and from the second on it blocks.
_TRIED_PX, _STEEPER, _FAR_STEEPER = (2, 3, 5, 7, 9, 12, 15), 1.35, 1.8


@check(
    "outline_lies_on_edges",
    catches=("leaked or shifted mask",),
    limits=("max_layer_px",),
    reads=("/result/layers", "/inputs", "/arguments/regions_method"),
    family="geometry",
)
def outline_lies_on_edges(case: Case) -> Finding:
    """The outline of a mask from prompts lies on edges of the picture: a few pixels aside it would cross no steeper ones. What is
    a little steeper there is warned of, what is nearly twice as steep blocks."""
    method, ref = case.observation.arguments.get("regions_method"), case.layer("mask")
    if not isinstance(method, dict) or method.get("kind") not in ("prompt", "refine") or ref is None or not case.is_small(ref):
        return not_applicable("no mask from prompts")
    scenes = case.used_scenes
    reader = case.open(scenes[0].scene_id) if len(scenes) == 1 and ref.grid == scenes[0].grid else None
    bands = _bright(scenes[0]) if scenes else []
    if reader is None or not bands or scenes[0].dtype.startswith("complex"):
        return not_applicable("the mask does not lie on one scene's grid whose pixels are at hand")
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    rows, columns = (np.flatnonzero((mask & valid).any(axis=k)) for k in (1, 0))
    if not rows.size:
        return not_applicable("the mask is empty")
    room = max(_TRIED_PX) + 3
    y0, y1 = max(0, int(rows[0]) - room), min(mask.shape[0], int(rows[-1]) + 1 + room)
    x0, x1 = max(0, int(columns[0]) - room), min(mask.shape[1], int(columns[-1]) + 1 + room)
    if (y1 - y0) * (x1 - x0) > _MOST_PX:
        return not_applicable("the mask spans more than is looked at")
    read = reader.read(bands, (x0, y0, x1 - x0, y1 - y0))
    held, known = (mask & valid)[y0:y1, x0:x1], np.asarray(read.valid.all(axis=0)) & valid[y0:y1, x0:x1]
    # what lies beside pixels without data is no edge of the picture
    known = ndimage.binary_erosion(known, iterations=3)
    if known.sum() < 100:
        return not_applicable("too few pixels are known")
    steep = np.sqrt(sum(_steepness(np.asarray(plane, dtype=np.float64), known) ** 2 for plane in read.data))
    border = ndimage.binary_dilation(held) & ~ndimage.binary_erosion(held, border_value=1)
    here = _mean_on(steep, border, known)
    steps = [(dy, dx) for d in _TRIED_PX for dy in (-d, 0, d) for dx in (-d, 0, d) if dy or dx]
    # where it would not answer its prompts it never lay
    steps = [step for step in steps if _answers_prompts(method, mask & valid, valid, *step)]
    away = {step: v for step in steps if (v := _mean_on(steep, _moved(border, *step), known)) is not None}
    if here is None or not away:
        return not_applicable("the outline could lie nowhere else, or too little of it lies on known pixels")
    best = max(away, key=lambda step: away[step])
    gain, at = away[best] / max(here, 1e-9), ("/result/layers", "/inputs")
    if gain > _STEEPER:
        return failed(
            f"The mask's outline would cross edges {gain:.1f} times as steep {max(map(abs, best))} pixels away ({best[1]:+d} "
            f"columns, {best[0]:+d} rows); it seems to be shifted.",
            measured=round(gain, 3),
            expected=f"≤ {_STEEPER:g}",
            at=at,
            severity=None if gain > _FAR_STEEPER else "warn",
        )
    return passed("The mask's outline lies on edges of the picture.", measured=round(gain, 3), at=at)


def _bright(scene: SceneInfo) -> list[int]:
    """Up to four bands of brightness."""
    known = [held[0].index for r in _BRIGHT if len(held := [b for b in scene.bands if b.role == r]) == 1][:4]
    return known or [b.index for b in scene.bands if b.role not in _FLAGS][:1]


def _steepness(plane: NDArray[np.float64], known: NDArray[np.bool_]) -> NDArray[np.float64]:
    low, high = np.percentile(plane[known], (2, 98))
    scaled = np.clip((np.where(known, plane, low) - low) / (high - low if high > low else 1.0), 0, 1)
    return np.asarray(ndimage.gaussian_gradient_magnitude(scaled, 1.0))


def _mean_on(steep: NDArray[np.float64], border: NDArray[np.bool_], known: NDArray[np.bool_]) -> float | None:
    """The mean steepness on the known part of an outline; None where less than half of it is known."""
    on = border & known
    return float(steep[on].mean()) if on.sum() >= max(20, border.sum() / 2) else None


@check(
    "mask_holds_its_points",
    catches=("leaked or shifted mask", "box convention mistaken"),
    limits=("max_layer_px",),
    reads=("/result/layers", "/arguments/regions_method"),
    family="geometry",
)
def mask_holds_its_points(case: Case) -> Finding:
    """A mask that was grown from prompts holds the points and strokes that were set inside, none of those set outside, and lies
    in the box that was drawn about the thing."""
    method, ref = case.observation.arguments.get("regions_method"), case.layer("mask")
    if not isinstance(method, dict) or method.get("kind") != "prompt" or ref is None or not case.is_small(ref):
        return not_applicable("no mask from prompts")
    scene = scene_of_layer(case, ref)
    offset = grid_offset(ref.grid, scene.grid) if ref.grid is not None and scene is not None else (0.0, 0.0)
    if offset is None:
        return not_applicable("the mask lies on another grid")
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    held = mask & valid
    n, wrong = _points(method, held, valid, offset)
    lines, box = _strokes(method, held, valid, offset), _out_of_box(method, held, offset)
    if n == 0 and lines is None and box is None:
        return not_applicable("no prompt lies on the mask's ground")
    at = ("/result/layers", "/arguments/regions_method/points")
    if wrong:
        return failed(
            f"{wrong:,} of {n:,} points lie on the wrong side of the mask; they may have been read in other coordinates.",
            measured=wrong,
            expected=0,
            unit="points",
            at=at,
        )
    if lines is not None and lines < _STROKE_HELD:
        return failed(
            "A stroke lies on the wrong side of the mask for the most part.",
            measured=lines,
            expected=f"≥ {_STROKE_HELD:g}",
            at=("/result/layers", "/arguments/regions_method/scribbles"),
        )
    if box is not None and box > _BESIDE_BOX:
        return failed(
            "The mask lies beside the box that was drawn about the thing.",
            measured=box,
            expected=f"≤ {_BESIDE_BOX:g}",
            at=("/result/layers", "/arguments/regions_method/box"),
        )
    return passed("The mask lies where its prompts say.", measured=n, unit="points", at=at)


def _points(
    method: dict[str, Any], held: NDArray[np.bool_], valid: NDArray[np.bool_], offset: tuple[float, float]
) -> tuple[int, int]:
    """(points on the mask's ground, how many of them lie on the wrong side of it)."""
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
    return n, wrong


def _answers_prompts(method: dict[str, Any], held: NDArray[np.bool_], valid: NDArray[np.bool_], dy: int, dx: int) -> bool:
    """Whether a mask, moved by rows and columns, would hold what it must and lie in its box."""
    offset = (float(dx), float(dy))
    strokes, beside = _strokes(method, held, valid, offset), _out_of_box(method, held, offset)
    is_held = _points(method, held, valid, offset)[1] == 0 and (strokes is None or strokes >= _STROKE_HELD)
    return is_held and (beside is None or beside <= _BESIDE_BOX)


def _strokes(
    method: dict[str, Any], held: NDArray[np.bool_], valid: NDArray[np.bool_], offset: tuple[float, float]
) -> float | None:
    """The least share of a stroke that lies on its side of the mask; None without strokes."""
    out: list[float] = []
    given = method.get("scribbles")
    for stroke in given if isinstance(given, (list, tuple)) else ():
        try:
            line = shapely.LineString(np.asarray(stroke["line"], dtype=float) - offset)
        except (TypeError, ValueError, KeyError, shapely.errors.ShapelyError):
            continue
        places = shapely.line_interpolate_point(line, np.arange(0.0, line.length + 1e-9, 0.5))
        cols, rows = (np.floor(np.atleast_1d(v(places))).astype(int) for v in (shapely.get_x, shapely.get_y))
        on = (cols >= 0) & (rows >= 0) & (cols < held.shape[1]) & (rows < held.shape[0])
        cols, rows = cols[on], rows[on]
        seen = valid[rows, cols]
        if seen.any():
            out.append(float((held[rows, cols][seen] == bool(stroke.get("inside", True))).mean()))
    return min(out) if out else None


def _out_of_box(method: dict[str, Any], held: NDArray[np.bool_], offset: tuple[float, float]) -> float | None:
    """The share of the mask's pixels that lie further than some pixels out of the prompt's box; None without one."""
    given = method.get("box")
    corners = [number_of(v) for v in given] if isinstance(given, (list, tuple)) else []
    if len(corners) != 4 or any(v is None for v in corners) or not held.any():
        return None
    x0, y0, x1, y1 = (float(v or 0.0) for v in corners)
    rows, cols = np.nonzero(held)
    x, y = cols + 0.5 + offset[0], rows + 0.5 + offset[1]
    out = (x < x0 - _BOX_ROOM_PX) | (x > x1 + _BOX_ROOM_PX) | (y < y0 - _BOX_ROOM_PX) | (y > y1 + _BOX_ROOM_PX)
    return float(out.mean())


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
    told = _told_of_refining(case)
    if method.get("kind") == "refine" and (wrong := _contradiction(told)):
        return failed(
            "What is told of the refinement contradicts itself: pixels before, added, removed, left, and the overlap.",
            measured=wrong[0],
            expected=wrong[1],
            at=("/evidence/intermediate",),
        )
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
    before, after = first & known & valid, now & valid
    inside, outside = ndimage.distance_transform_edt(before), ndimage.distance_transform_edt(~before)
    both = known & valid
    lost, grown = both & before & ~after & (inside > band), both & after & ~before & (outside > band)
    # where nothing was marked the distance to it means nothing
    n = int(lost.sum()) + (int(grown.sum()) if before.any() else int((after & both).sum()))
    if n:
        return failed(
            f"{n:,} pixels changed further than {band:g} from the first mask's edge; refinement moves the edge alone.",
            measured=n,
            expected=0,
            unit="px",
            at=at,
        )
    common, union = int((before & after).sum()), int((before | after).sum())
    truth = {
        "iou_with_seed": common / union if union else None,
        "mask_px_before": float(before.sum()),
        "added_px": float((after & ~before).sum()),
        "removed_px": float((before & ~after).sum()),
    }
    for name, mine in truth.items():
        said = told.get(name)
        if said is not None and mine is not None and abs(said - mine) > (1e-3 if name == "iou_with_seed" else 0):
            return failed(
                f"The {name} on record is not that of the two masks.",
                measured=said,
                expected=mine,
                at=(f"/evidence/intermediate/{name}",),
            )
    return passed("The mask changed at its edge alone.", measured=common / union if union else 1.0, at=at)


def _told_of_refining(case: Case) -> dict[str, float]:
    names = ("mask_px_before", "mask_px", "added_px", "removed_px", "iou_with_seed")
    return {n: v for n in names if (v := case.evidence_number("intermediate", n)) is not None}


def _contradiction(told: dict[str, float]) -> tuple[float, float] | None:
    """(what is told, what follows from the rest) where figures of a refinement contradict each other; None where they do not."""
    before, added, removed = (told.get(n) for n in ("mask_px_before", "added_px", "removed_px"))
    if before is None or added is None or removed is None:
        return None
    after, overlap = told.get("mask_px"), told.get("iou_with_seed")
    if after is not None and after != before + added - removed:
        return after, before + added - removed
    if min(added, removed) < 0 or removed > before:
        return min(added, removed, before - removed), 0.0
    if overlap is not None and before + added > 0 and abs(overlap - (before - removed) / (before + added)) > 1e-3:
        return overlap, (before - removed) / (before + added)
    return None
