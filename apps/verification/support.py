"""Agreement of an observation with the supporting observations that an evidence request brought."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from shapely import contains_xy
from shapely.geometry import shape

from apps.core.evidence.observation import Observation
from apps.verification.case import Case, LayerUnreadableError, number_of
from apps.verification.placed import bounds_of_layer
from apps.verification.units import to_si

# relative difference at which two numbers are half-way between agreeing and not
HALF_WAY = 0.15
# the same from another image: the ground itself may have changed
OTHER_DATE_HALF_WAY = 0.5


def support_agreement(case: Case) -> float | None:
    """Mean agreement in [0, 1] over the supporting observations that can be compared; None without any."""
    found = [a for a in (_agreement(case, other) for other in case.supporting) if a is not None]
    return float(np.mean(found)) if found else None


def _agreement(case: Case, other: Observation) -> float | None:
    if other.status.state == "failed":
        return None
    one = case.observation
    mine, theirs = case.layer("mask"), other.layer("mask")
    if one.result.kind == "layer" and mine is not None and theirs is not None:
        try:
            mask, valid = case.mask(mine)
            mask2, valid2 = case.mask(theirs)
        except LayerUnreadableError:
            return None
        if mask.shape != mask2.shape:
            return None
        both = valid & valid2
        union = int((both & (mask | mask2)).sum())
        return 1.0 if union == 0 else float((both & mask & mask2).sum() / union)
    if one.result.kind != other.result.kind:
        return _count_agreement(case, other)
    if one.result.kind in ("date", "class", "text", "boolean"):
        return float(one.result.value == other.result.value)
    if one.result.kind == "layer":
        return _count_agreement(case, other)
    a, b = number_of(one.result.value), number_of(other.result.value)
    if a is None or b is None:
        return None
    a, b = to_si(a, one.result.unit) or a, to_si(b, other.result.unit) or b
    mine_at, theirs_at = ({i.artifact for i in o.inputs} for o in (one, other))
    return closeness(a, b, HALF_WAY if mine_at == theirs_at else OTHER_DATE_HALF_WAY)


def closeness(a: float, b: float, half_way: float = HALF_WAY) -> float:
    """1 for equal numbers, 1/2 at a relative difference of ``half_way``, towards 0 beyond."""
    scale = max(abs(a), abs(b))
    if scale == 0:
        return 1.0
    return 1 / (1 + (abs(a - b) / scale / half_way) ** 2)


def _count_agreement(case: Case, other: Observation) -> float | None:
    """Layers of objects agree by their numbers of features; where the other looked at windows only, by those inside of them."""
    windows = other.arguments.get("region") if other.arguments.get("region_crs") == "image" else None
    if isinstance(windows, dict) and not case.is_limited:
        inside = _inside(case, windows)
        seen = _kept(other)
        return None if inside is None or seen is None else closeness(inside, seen)
    mine, seen = _kept(case.observation), _kept(other)
    return None if mine is None or seen is None else closeness(mine, seen)


def _kept(obs: Observation) -> float | None:
    kept = number_of(obs.evidence.intermediate.get("kept"))
    return kept if kept is not None else number_of(obs.result.value)


def _inside(case: Case, windows: Mapping[str, Any]) -> float | None:
    """How many of the case's boxes have their centre inside a GeoJSON geometry in pixels."""
    try:
        area = shape(windows)
        n = 0
        for ref in case.observation.result.layers:
            if ref.kind == "boxes" and not ref.is_aside:
                b = bounds_of_layer(case, ref)
                b = b[np.isfinite(b).all(axis=1)]
                n += int(np.count_nonzero(contains_xy(area, (b[:, 0] + b[:, 2]) / 2, (b[:, 1] + b[:, 3]) / 2)))
        return float(n)
    except Exception:  # a region or layer that cannot be read leaves nothing to compare
        return None
