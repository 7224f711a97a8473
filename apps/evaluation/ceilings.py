"""Ceilings: what an oracle could know that is told the labels but sees no more of a call than its record.

Three rungs. ``reference``: the oracle knows each task's reference: it errs only where the same call of the same task with the
same output has two labels. ``evidence``: it knows how often calls with the same evidence were wrong over all tasks and must say
the same of all of them; where a piece of evidence occurs in one task only it is given that task's labels: an upper bound.
``perfect_forecaster``: the calibration error that a perfectly calibrated probability shows by chance, since the calls of one
task and tool are right or wrong together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from apps.evaluation.importers.trajectories import agreement_class
from apps.evaluation.metrics import auroc, ece, precision_at_recall, rounded
from apps.verification.records.faults import faults_in
from apps.verification.records.memory import Call

RECALL = 0.85
SIMULATIONS, SEED = 200, 20260102
_TELLING = (
    "zero_share", "index_extreme", "lst_implausible", "bt_implausible", "choice_hit", "choice_number_hit", "hundred",
    "repeat_differs", "sibling_differs", "sibling_repeats", "second_agrees", "class_named",
)  # fmt: skip
# Kind of wrong call → what evidence would tell it.
LIFTS: dict[str, str] = {
    "proved by the record": "nothing more is needed",
    "classifier, a second one disagrees": "nothing more is needed, but the second may be the wrong one: a third look",
    "classifier, a second one agrees": "a classifier of another family, or the image itself",
    "classifier, no second look yet": "a second classifier's word on the image, before the first is believed",
    "statistic or index over pixels": "valid-pixel counts and the nodata value of each raster",
    "calculation from earlier values": "the observations that the operands come from, each with its own evidence",
    "other": "process evidence of the call",
}


def evidence_of(call: Call, signs: Mapping[str, float]) -> tuple[Hashable, ...]:
    """The call's evidence, coarsely: kind, faults proved, how its arguments agree, and what its value says of itself."""
    confidence = signs.get("confidence")
    told = tuple(round(signs[n], 1) if n in signs else None for n in _TELLING)
    return call.kind, faults_in(signs), agreement_class(signs), None if confidence is None else int(confidence * 10), told


def kind_of_wrong(call: Call, signs: Mapping[str, float]) -> str:
    """A key of LIFTS."""
    if faults_in(signs):
        return "proved by the record"
    if call.kind == "classifier":
        second = signs.get("second_agrees")
        if second is None:
            return "classifier, no second look yet"
        return f"classifier, a second one {'agrees' if second else 'disagrees'}"
    if call.kind in ("image_statistic", "share", "count"):
        return "statistic or index over pixels"
    return "calculation from earlier values" if call.kind in ("arithmetic", "trend", "geometry", "area") else "other"


def detection_ceiling(wrong: ArrayLike, tasks: Sequence[str], same: Sequence[Hashable], evidence: Sequence[Hashable],
                      kinds: Sequence[str], flagged: ArrayLike) -> dict[str, Any]:  # fmt: skip
    """Both rungs for one set of calls, and its wrong calls by kind with how many were found. ``same``: what makes two calls
    identical (task, tool, arguments, output); ``kinds``: keys of LIFTS."""
    y, found = np.asarray(wrong, bool), np.asarray(flagged, bool)
    if not y.any():
        return {"n": len(y), "wrong": 0}
    own = _rates(same, y)
    shared = {e for e, held in _tasks_of(evidence, tasks).items() if len(held) > 1}
    rates = _rates(evidence, y)
    p = np.array([rates[e] if e in shared else float(t) for e, t in zip(evidence, y, strict=True)])
    conflicting = {e for e in shared if 0 < rates[e] < 1}
    in_conflict = np.array([e in conflicting for e in evidence])
    table = []
    for kind in LIFTS:
        mine = y & np.array([k == kind for k in kinds])
        alike = ~y & np.array([k == kind for k in kinds])
        if mine.any():
            table.append({"kind": kind, "wrong": int(mine.sum()), "found": int((mine & found).sum()),
                          "right_of_the_kind": int(alike.sum()), "tasks": len({t for t, m in zip(tasks, mine, strict=True) if m}),
                          "lifted_by": LIFTS[kind]})  # fmt: skip
    return {
        "n": len(y), "wrong": int(y.sum()),
        "reference": {"precision_at_recall_85": _best([own[s] for s in same], y),
                      "identical_calls_with_both_labels": int(sum(0 < own[s] < 1 for s in same))},
        "evidence": {"precision_at_recall_85": _best(p, y), "auroc": rounded(auroc(p, y)),
                     "kinds_of_evidence": len(set(evidence)), "shared_by_tasks": len(shared),
                     "with_both_labels": len(conflicting), "calls_in_them": int(in_conflict.sum()),
                     "wrong_calls_in_them": int((in_conflict & y).sum())},
        "wrong_by_kind": table,
    }  # fmt: skip


def _rates(keys: Sequence[Hashable], y: np.ndarray[Any, Any]) -> dict[Hashable, float]:
    n, bad = Counter(keys), Counter(k for k, t in zip(keys, y, strict=True) if t)
    return {k: bad[k] / n[k] for k in n}


def _tasks_of(keys: Sequence[Hashable], tasks: Sequence[str]) -> dict[Hashable, set[str]]:
    out: dict[Hashable, set[str]] = defaultdict(set)
    for key, task in zip(keys, tasks, strict=True):
        out[key].add(task)
    return out


def _best(p: ArrayLike, y: np.ndarray[Any, Any]) -> float | None:
    found = precision_at_recall(p, y, RECALL)
    return None if found is None else rounded(found[0])


def perfect_forecaster(p: ArrayLike, together: Sequence[Hashable]) -> dict[str, Any]:
    """The expected calibration error of these probabilities if every one of them were true and what stands together came out
    together: 5 %, 50 % and 95 % of simulations with a fixed seed."""
    a = np.asarray(p, float)
    if not a.size:
        return {}
    index: dict[Hashable, int] = {}
    group = np.array([index.setdefault(key, len(index)) for key in together])
    rng = np.random.default_rng(SEED)
    found = [ece(a, rng.random(len(index))[group] < a) or 0.0 for _ in range(SIMULATIONS)]
    low, middle, high = np.percentile(found, [5, 50, 95])
    return {"ece_p5": rounded(low), "ece_p50": rounded(middle), "ece_p95": rounded(high), "groups": len(index)}
