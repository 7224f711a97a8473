"""Masks of change between two dates: they lie where the two pictures differ, and not beside it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import mapping_entries
from apps.verification.formulas import INDICES

# A mask is tried so many pixels from its place; fewer pixels of change say nothing of where they lie.
_AWAY_PX, _LEAST_PX = (2, 3, 5, 8, 12, 17), 30
# A mask that orders the differences no better than this says nothing of its place.
_LEAST_ORDER = 0.6


@check(
    "change_lies_where_dates_differ",
    catches=("leaked or shifted mask", "stale artifact", "another scene's result"),
    limits=("max_layer_px", "change_gain"),
    reads=("/result/layers", "/inputs"),
    family="consistency",
)
def change_lies_where_dates_differ(case: Case) -> Finding:
    """A mask of change holds what its own raster has beyond the threshold on record, and the two pictures differ more where it
    lies than where it would lie some pixels aside."""
    ref = case.layer("mask")
    if case.observation.tool != "perceive" or case.arguments.get("mode") != "change" or ref is None or not case.is_small(ref):
        return not_applicable("no mask of change")
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The mask cannot be read: {error}.", at=("/result/layers",), severity="warn")
    held = np.asarray(mask & valid)
    wrong = _unlike_its_raster(case, held, valid)
    if wrong is not None:
        return wrong
    at = ("/result/layers", "/inputs")
    scenes = case.used_scenes
    if len(scenes) != 2 or ref.grid != scenes[0].grid or scenes[0].grid != scenes[1].grid:
        return not_applicable("the two dates do not lie on one grid with the mask")
    ranks = _differences(case, scenes, valid)
    if ranks is None or min(held.sum(), (valid & ~held).sum()) < _LEAST_PX:
        return not_applicable("nothing to compare the mask with")
    here = _ordered(ranks, held, valid)
    steps = [(dy, dx) for d in _AWAY_PX for dy in (-d, 0, d) for dx in (-d, 0, d) if dy or dx]
    away = {step: _ordered(ranks, np.roll(held, step, axis=(0, 1)), valid) for step in steps}
    best = max(away, key=lambda step: away[step])
    if away[best] >= _LEAST_ORDER and away[best] > here + case.limits.change_gain:
        return failed(
            f"The two pictures differ more {max(map(abs, best))} pixels beside the mask ({best[1]:+d} columns, {best[0]:+d} "
            "rows) than where it lies; it seems to be shifted.",
            measured=here,
            expected=away[best],
            at=at,
        )
    if here < _LEAST_ORDER:
        return not_applicable("the pictures' bands do not tell where the change lies")
    return passed("The two pictures differ most where the mask lies.", measured=here, expected=away[best], at=at)


def _unlike_its_raster(case: Case, held: NDArray[np.bool_], valid: NDArray[np.bool_]) -> Finding | None:
    """Where the mask is none of the pixels beyond the threshold of the raster beside it; None where it is, or nothing tells."""
    ref, thresholds = case.layer("raster"), case.evidence("source", "thresholds")
    told = [number_of(v) for v in thresholds.values()] if isinstance(thresholds, dict) else []
    if ref is None or len(told) != 1 or told[0] is None or ref.grid != (case.layer("mask") or ref).grid:
        return None
    try:
        raster = case.raster(ref)
    except LayerUnreadableError:
        return None
    limit, values = told[0], np.asarray(raster.data[0], dtype=np.float64)
    if not held.any() or not (valid & ~held).any():
        return None
    inside, outside = values[held & raster.valid[0]], values[valid & ~held & raster.valid[0]]
    # the raster of an index is signed: its threshold is one of the length, or of either side
    if float(np.nanmin(values[raster.valid[0]])) < 0 or not inside.size or not outside.size:
        return None
    room = 1e-6 * max(1.0, abs(limit))
    off = int((inside < limit - room).sum())
    if off:
        return failed(
            f"{off} pixels of the mask lie below the threshold of change in the raster beside it.",
            measured=off,
            expected=0,
            unit="px",
            at=("/result/layers", "/evidence/source/thresholds"),
        )
    least = (
        number_of((case.evidence("source", "method") or {}).get("min_px"))
        if isinstance(case.evidence("source", "method"), dict)
        else None
    )
    lost = valid & ~held & raster.valid[0] & (values > limit + room)
    sizes = np.bincount(ndimage.label(lost, structure=np.ones((3, 3)))[0].ravel())[1:]
    if sizes.size and int(sizes.max()) >= max(1.0, least or 1.0):
        return failed(
            "Pixels beyond the threshold of change in the raster are none of the mask.",
            measured=int(sizes.max()),
            expected=f"pieces of < {max(1, int(least or 1))}",
            unit="px",
            at=("/result/layers", "/evidence/source/thresholds"),
        )
    return None


def _differences(case: Case, scenes: list[SceneInfo], valid: NDArray[np.bool_]) -> NDArray[np.float64] | None:
    """(rows, columns): the rank, in 0 to 1, of how much two pictures differ, each band brought to one mean and deviation."""
    told = {role for _, _, role, _ in mapping_entries(case)} or {"blue", "green", "red", "nir", "gray", "pan"}
    roles = sorted(r for r in told if all(len(s.bands_with_role(r)) == 1 for s in scenes))
    if not roles or any(s.dtype.startswith("complex") for s in scenes):
        return None
    held = [[s.bands_with_role(r)[0].index for r in roles] for s in scenes]
    readers = [case.open(s.scene_id) for s in scenes]
    if readers[0] is None or readers[1] is None or valid.sum() < 10 * _LEAST_PX:
        return None
    one, two = (np.asarray(r.read(b).data, dtype=np.float64) for r, b in zip((readers[0], readers[1]), held, strict=True))
    formula = INDICES.get(str(case.evidence("intermediate", "index") or ""))
    if formula is not None and formula.roles <= set(roles):
        one, two = (np.asarray(formula.compute(dict(zip(roles, planes, strict=True))))[None] for planes in (one, two))
    square = np.zeros(valid.shape)
    for x, y in zip(one, two, strict=True):
        known = valid & np.isfinite(x) & np.isfinite(y)
        middle = [float(np.median(v[known])) for v in (x, y)]
        spread = [float(np.median(np.abs(v[known] - m))) or 1.0 for v, m in zip((x, y), middle, strict=True)]
        apart = np.where(known, (x - middle[0]) / spread[0] - (y - middle[1]) / spread[1], 0.0)
        square += (apart - float(np.median(apart[known]))) ** 2
    ranks = np.zeros(valid.shape)
    order = np.argsort(square[valid], kind="stable")
    placed = np.empty(order.size)
    placed[order] = (np.arange(order.size) + 0.5) / order.size
    ranks[valid] = placed
    return ranks


def _ordered(ranks: NDArray[np.float64], mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> float:
    """How often a pixel of the mask has a greater rank than one beside it (0.5 of a mask that has nothing to do with it)."""
    one, other = ranks[mask & valid], ranks[valid & ~mask]
    return 0.5 + float(one.mean() - other.mean()) if one.size and other.size else 0.5
