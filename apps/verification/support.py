"""Agreement of an observation with the supporting observations that an evidence request brought."""

from __future__ import annotations

import numpy as np

from apps.core.evidence.observation import Observation
from apps.verification.checks.case import Case, LayerUnreadableError, number_of
from apps.verification.units import to_si

# relative difference at which two numbers are half-way between agreeing and not
HALF_WAY = 0.15


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
        return _count_agreement(one, other)
    if one.result.kind in ("date", "class", "text", "boolean"):
        return float(one.result.value == other.result.value)
    if one.result.kind == "layer":
        return _count_agreement(one, other)
    a, b = number_of(one.result.value), number_of(other.result.value)
    if a is None or b is None:
        return None
    a, b = to_si(a, one.result.unit) or a, to_si(b, other.result.unit) or b
    return closeness(a, b)


def closeness(a: float, b: float) -> float:
    """1 for equal numbers, 1/2 at a relative difference of HALF_WAY, towards 0 beyond; small counts may differ by one."""
    scale = max(abs(a), abs(b))
    if scale == 0:
        return 1.0
    return 1 / (1 + (abs(a - b) / scale / HALF_WAY) ** 2)


def _count_agreement(one: Observation, other: Observation) -> float | None:
    """Layers of objects agree by their numbers of features."""
    counts = []
    for obs in (one, other):
        kept = obs.evidence.intermediate.get("kept")
        value = number_of(kept) if kept is not None else number_of(obs.result.value)
        if value is None:
            return None
        counts.append(value)
    return closeness(counts[0], counts[1])
