"""How far the verifier's word can be trusted, by what people said: calibration, confusion, overrides, audit. Pure.

People look mostly at what was not accepted. So every share over labelled observations weighs each by one over the probability
with which it was put before a person (Hájek 1971), and says how many labels it stands on; counts are plain.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from apps.prior.domain import audit_weight

BINS = 10
DECISIONS = ("accept", "request_evidence", "reject")
# Of 90 % intervals, as everywhere on the page of the prior.
Z = 1.6449
THRESHOLDS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)


@dataclass(frozen=True, slots=True)
class Judged:
    """An observation that the machine decided and a person called right or wrong. ``p`` is None where a rule decided alone."""

    p: float | None
    decision: str
    is_right: bool
    shown_probability: float = 1.0
    is_blind: bool = False

    @property
    def weight(self) -> float:
        return audit_weight(self.shown_probability)


def wilson(successes: float, trials: float, z: float = Z) -> tuple[float, float]:
    """Interval of a share (Wilson 1927); (0, 1) without trials."""
    if trials <= 0:
        return 0.0, 1.0
    p = successes / trials
    middle = p + z * z / (2 * trials)
    half = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    scale = 1 + z * z / trials
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def _share(judged: Sequence[Judged]) -> tuple[float, float]:
    """(weighted share right, effective number after Kish 1965)."""
    weights = [j.weight for j in judged]
    total = math.fsum(weights)
    right = math.fsum(w for w, j in zip(weights, judged, strict=True) if j.is_right)
    return right / total, total * total / math.fsum(w * w for w in weights)


def reliability(judged: Iterable[Judged], n_bins: int = BINS) -> dict[str, Any]:
    """Predicted against observed by bin of p: count, mean p, share right with its interval; Brier score and ECE over all."""
    known = [j for j in judged if j.p is not None]
    total = math.fsum(j.weight for j in known)
    bins = []
    for k in range(n_bins):
        inside = [j for j in known if j.p is not None and min(n_bins - 1, int(j.p * n_bins)) == k]
        if not inside:
            continue
        share, effective = _share(inside)
        weight = math.fsum(j.weight for j in inside)
        low, high = wilson(share * effective, effective)
        bins.append(
            {
                "from": k / n_bins,
                "to": (k + 1) / n_bins,
                "n": len(inside),
                "mean_p": math.fsum(j.weight * (j.p or 0.0) for j in inside) / weight,
                "share_right": share,
                "low": low,
                "high": high,
                "weight": weight,
            }
        )
    return {
        "n": len(known),
        "bins": bins,
        "brier": math.fsum(j.weight * ((j.p or 0.0) - j.is_right) ** 2 for j in known) / total if known else None,
        "ece": math.fsum(b["weight"] * abs(b["mean_p"] - b["share_right"]) for b in bins) / total if known else None,
    }


def confusion(judged: Iterable[Judged]) -> list[dict[str, Any]]:
    """What the machine decided against what people said; plain counts."""
    counts = Counter((j.decision, j.is_right) for j in judged)
    return [{"decision": d, "right": counts[d, True], "wrong": counts[d, False]} for d in DECISIONS]


def at_thresholds(judged: Iterable[Judged], thresholds: Sequence[float] = THRESHOLDS) -> list[dict[str, Any]]:
    """Had p alone decided at a threshold: accepted right and wrong, held back right and wrong; plain counts."""
    known = [j for j in judged if j.p is not None]
    rows = []
    for t in thresholds:
        accepted = [j for j in known if j.p is not None and j.p >= t]
        right = sum(j.is_right for j in accepted)
        rows.append(
            {
                "threshold": t,
                "accepted": len(accepted),
                "accepted_wrong": len(accepted) - right,
                "held_right": sum(j.is_right for j in known) - right,
                "held_wrong": sum(not j.is_right for j in known) - (len(accepted) - right),
                "precision": right / len(accepted) if accepted else None,
            }
        )
    return rows


def overrides(judged: Iterable[Judged]) -> dict[str, Any]:
    """How often a person's word went against a decision: of the accepted, of the rejected, of both, with the interval."""
    held = [j for j in judged if j.decision in ("accept", "reject")]
    against = sum((j.decision == "accept") != j.is_right for j in held)
    accepted, rejected = [j for j in held if j.decision == "accept"], [j for j in held if j.decision == "reject"]
    return {
        "n": len(held),
        "against": against,
        "share": against / len(held) if held else None,
        "interval": wilson(against, len(held)) if held else None,
        "accepted": len(accepted),
        "accepted_called_wrong": sum(not j.is_right for j in accepted),
        "rejected": len(rejected),
        "rejected_called_right": sum(j.is_right for j in rejected),
    }


def audit(*, accepted: int, drawn: int, judged: Sequence[Judged]) -> dict[str, Any]:
    """The random share of accepted observations that people looked at, and what it says of all accepted ones.

    ``judged`` are those of the drawn ones that have a verdict. The estimate is Hájek's, with the interval of the effective
    number; None without any.
    """
    share, effective = _share(judged) if judged else (None, 0.0)
    return {
        "accepted": accepted,
        "drawn": drawn,
        "judged": len(judged),
        "wrong": sum(not j.is_right for j in judged),
        "share_right": share,
        "interval": wilson(share * effective, effective) if share is not None else None,
        "effective": effective,
    }
