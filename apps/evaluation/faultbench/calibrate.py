"""The verifier's weights from the bench: what it saw of right and of incorrect observations, fitted by task and family.

Each observation of the bench is judged three times: with the source's pixels, with the result layers alone, and with the record
alone, since observations of other agents come with less. Only what passes the rules reaches the verifier, so only that is fitted;
its weight still counts what the rules stopped: ``WRONG_SHARE`` of all observations are taken to be incorrect *before* the rules.
That is a statement, not a finding, and taken high on purpose: nobody knows how often a tool is wrong before it is used. The prior
knows, and enters beside it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TextIO

import numpy as np

from apps.core.digests import digest_bytes
from apps.core.evidence.fold import RunState
from apps.evaluation.faultbench.cases import BenchCase
from apps.evaluation.faultbench.faults import Fault
from apps.evaluation.faultbench.figures import auroc
from apps.evaluation.faultbench.rig import FaultyToolBox
from apps.evaluation.faultbench.runner import Prepared, call_digest, can_strike
from apps.verification.backends.calibrated import ModelWeights, fit
from apps.verification.features import FEATURES
from apps.verification.policy import Policy

SIGHTS = ("pixels", "layers", "record")
FOLDS = 5
RIDGE = 2.0
STEPS = 800
# the paper finds an incorrect observation in at least 0.227 of the tasks of every benchmark it looked at
WRONG_SHARE = 0.35
# A record that was not looked behind is never accepted on its own word: a little below the policy's threshold
RECORD_CAP = round(Policy().accept_at - 0.02, 6)
# What the bench can teach: how far the verifier could look and what passed there. The rest keeps its reasoned weight, since the
# bench has too little of it: one rate of faults (prior), five incorrect observations that passed with pixels (agreement), one
# detector (scores), no right observation with a warning, no second opinion.
FITTED = frozenset({"support", "sight", "valid_share"})


@dataclass(frozen=True, slots=True)
class Sample:
    """One observation as one judge saw it. ``features`` is None where the rules decided."""

    case: str
    family: str
    fault: str
    sight: str
    tool: str
    task_type: str
    is_right: bool
    features: dict[str, float] | None
    decision: str


def collect(prepared: Prepared, faults: Iterable[Fault], *, limit: int | None = None, err: TextIO | None = None) -> list[Sample]:
    """Samples of all cases: the honest run, and every fault that can strike, each run once without verification."""
    faults = list(faults)
    out: list[Sample] = []
    for number, case in enumerate(prepared.bench.cases):
        mine = [f for f in faults if can_strike(prepared, case, f)][:limit]
        out += _samples(prepared, case, None, prepared.honest[case.name], prepared.boxes[case.name])
        for fault in mine:
            state, box, _ = prepared.bench.run(case, fault, "none", None)
            out += _samples(prepared, case, fault, state, box)
        if err is not None:
            err.write(f"case {number + 1} of {len(prepared.bench.cases)}: {len(out)} samples\n")
            err.flush()
    return out


def _samples(prepared: Prepared, case: BenchCase, fault: Fault | None, state: RunState, box: FaultyToolBox) -> list[Sample]:
    bench, out = prepared.bench, []
    question = bench.question(case)
    for sight in SIGHTS:
        judge = bench.door.make_judge(
            question, None if sight == "record" else bench.layers, None, bench.open_scene if sight == "pixels" else None, None
        )
        earlier: list[Any] = []
        for held in state.observations.values():
            o = held.observation
            if o.status.state == "failed":
                continue
            if held.id in box.references:
                is_right = bench.same(o, box.references[held.id])
                if is_right:  # the fault changed nothing that is said
                    earlier.append(o)
                    continue
            elif fault is None and call_digest(o) in prepared.planned[case.name]:
                is_right = True
            else:  # honest steps of faulty runs repeat those of the honest run
                earlier.append(o)
                continue
            _, decision = judge.judge(o, question=question, history=tuple(earlier), rejected=(), requests_made=0)
            out.append(
                Sample(
                    case.name,
                    fault.family if fault else "",
                    fault.name if fault else "",
                    sight,
                    o.tool,
                    o.task.task_type,
                    is_right,
                    dict(decision.features) if decision.stage == "verifier" else None,
                    decision.decision,
                )
            )
            earlier.append(o)
    return out


def weighted(samples: Sequence[Sample]) -> list[dict[str, Any]]:
    """What ``fit`` takes. In each sight incorrect observations weigh WRONG_SHARE before the rules; cases weigh the same among
    themselves."""
    per_case: dict[tuple[str, bool], Counter[str]] = defaultdict(Counter)
    for s in samples:
        per_case[(s.sight, s.is_right)][s.case] += 1
    size = len(samples) / len(SIGHTS)
    out = []
    for s in samples:
        if s.features is None:
            continue
        held = per_case[(s.sight, s.is_right)]
        out.append(
            {
                "group": s.case,
                "label": int(s.is_right),
                "features": s.features,
                "weight": size * (1 - WRONG_SHARE if s.is_right else WRONG_SHARE) / (len(held) * held[s.case]),
                "sight": s.sight,
                "tool": s.tool,
                "task_type": s.task_type,
                "family": s.family,
            }
        )
    return out


def fold_of(case: str) -> int:
    """The fold of a case, by its name's digest: the same in every run."""
    return int(digest_bytes(case.encode())[7:15], 16) % FOLDS


def fitted(rows: Sequence[Mapping[str, Any]], start: ModelWeights, version: str) -> ModelWeights:
    """Weights drawn towards ``start``: features that the bench does not move keep what was reasoned."""
    names = [n for n in FEATURES if n in FITTED or n in start.features]
    centers = {n: w.center for n, w in start.features.items()} | {"sight": 0.5}
    fixed = frozenset(n for n in names if n not in FITTED)
    made = fit(rows, names, ridge=RIDGE, version=version, centers=centers, towards=start, fixed=fixed, steps=STEPS)
    return made.model_copy(update={"record_cap": RECORD_CAP})


def platt(pairs: Sequence[tuple[float, bool, float]]) -> tuple[float, float]:
    """(slope ≥ 0, shift) of log-odds by weighted logistic regression (Platt 1999), from (probability, truth, weight)."""
    z = np.array([_logit(p) for p, _, _ in pairs])
    y = np.array([float(t) for _, t, _ in pairs])
    w = np.array([v for _, _, v in pairs])
    # targets that keep a little doubt, as Platt has them
    n_right, n_wrong = (w * y).sum(), (w * (1 - y)).sum()
    y = np.where(y > 0, (n_right + 1) / (n_right + 2), 1 / (n_wrong + 2))
    a, b = 1.0, 0.0
    for _ in range(200):
        p = 1 / (1 + np.exp(-np.clip(a * z + b, -30, 30)))
        g = np.array([(w * (p - y) * z).sum() + 0.1 * (a - 1), (w * (p - y)).sum()])
        s = w * p * (1 - p)
        h = np.array([[(s * z * z).sum() + 0.1, (s * z).sum()], [(s * z).sum(), s.sum()]]) + 1e-9 * np.eye(2)
        step = np.linalg.solve(h, g)
        a, b = a - float(step[0]), b - float(step[1])
        if np.abs(step).max() < 1e-9:
            break
    return max(a, 0.05), b


def _logit(p: float) -> float:
    p = min(max(p, 1e-6), 1 - 1e-6)
    return float(np.log(p / (1 - p)))


def knots_of(slope: float, shift: float) -> tuple[tuple[float, float], ...]:
    """The calibration as knots of a weights file."""
    grid = [0.001, 0.005, 0.02, 0.05, *(k / 20 for k in range(2, 19)), 0.95, 0.98, 0.995, 0.999]
    made = [(p, float(1 / (1 + np.exp(-(slope * _logit(p) + shift))))) for p in grid]
    return tuple((round(p, 6), round(q, 6)) for p, q in made)


def out_of_fold(rows: Sequence[Mapping[str, Any]], start: ModelWeights, *, by_family: bool = False) -> list[float]:
    """Probabilities of models that saw neither the row's fold of cases nor, ``by_family``, its family of faults."""
    keys = [(r["family"] if by_family else "", fold_of(r["group"])) for r in rows]
    out = [0.0] * len(rows)
    for key in sorted(set(keys)):
        family, fold = key
        seen = [r for r in rows if fold_of(r["group"]) != fold and not (family and r["family"] == family)]
        model = calibrated(seen, start, "fold")
        for i, k in enumerate(keys):
            if k == key:
                out[i] = model.probability(rows[i]["features"])
    return out


def calibrated(rows: Sequence[Mapping[str, Any]], start: ModelWeights, version: str) -> ModelWeights:
    """Fitted weights with knots from inner folds by case."""
    folds = sorted({fold_of(r["group"]) for r in rows})
    pairs: list[tuple[float, bool, float]] = []
    for f in folds:
        inner = fitted([r for r in rows if fold_of(r["group"]) != f], start, "inner")
        pairs += [
            (inner.probability(r["features"]), bool(r["label"]), float(r["weight"])) for r in rows if fold_of(r["group"]) == f
        ]
    model = fitted(rows, start, version)
    labels = {t for _, t, _ in pairs}
    return model if len(labels) < 2 else model.model_copy(update={"knots": knots_of(*platt(pairs))})


def score(rows: Sequence[Mapping[str, Any]], p: Sequence[float]) -> dict[str, Any]:
    """Weighted Brier score, log loss, ECE, AUROC, reliability bins, and confusion and cost at the policy's thresholds."""
    policy = Policy()
    w = np.array([float(r["weight"]) for r in rows])
    y = np.array([float(r["label"]) for r in rows])
    q = np.clip(np.array(p), 1e-6, 1 - 1e-6)

    def bins() -> list[dict[str, Any]]:
        out = []
        for k in range(10):
            here = np.minimum((q * 10).astype(int), 9) == k
            if here.any():
                total = w[here].sum()
                out.append(
                    {
                        "from": k / 10,
                        "to": (k + 1) / 10,
                        "n": int(here.sum()),
                        "weight": float(total),
                        "mean_p": float((w * q)[here].sum() / total),
                        "share_right": float((w * y)[here].sum() / total),
                    }
                )
        return out

    made = bins()
    total = float(w.sum()) or 1.0

    def ends(mask: Any) -> dict[str, Any]:
        return {
            "accept": float((w * (q >= policy.accept_at) * mask).sum()),
            "request_evidence": float((w * (q < policy.accept_at) * (q > policy.reject_at) * mask).sum()),
            "reject": float((w * (q <= policy.reject_at) * mask).sum()),
        }

    def cost() -> float:
        accepted, rejected = q >= policy.accept_at, q <= policy.reject_at
        asked = ~accepted & ~rejected
        return float(
            (
                w
                * (
                    accepted * (1 - y) * policy.cost_false_accept
                    + rejected * y * policy.cost_false_reject
                    + asked * policy.cost_request
                )
            ).sum()
            / total
        )

    return {
        "n": len(rows),
        "n_right": int(y.sum()),
        "brier": float((w * (q - y) ** 2).sum() / total),
        "log_loss": float(-(w * (y * np.log(q) + (1 - y) * np.log(1 - q))).sum() / total),
        "ece": float(sum(b["weight"] * abs(b["mean_p"] - b["share_right"]) for b in made) / total),
        "auroc": auroc([(float(a), bool(b)) for a, b in zip(q, y, strict=True)]),
        "cost": cost(),
        "confusion": {"right": ends(y), "incorrect": ends(1 - y)},
        "bins": made,
    }


def report(rows: Sequence[Mapping[str, Any]], samples: Sequence[Sample], start: ModelWeights) -> dict[str, Any]:
    """The report of a fit: out of fold by case and by family, against the weights it started from."""
    by_case, by_family = out_of_fold(rows, start), out_of_fold(rows, start, by_family=True)
    old = [start.probability(r["features"]) for r in rows]

    def part(key: str) -> dict[str, Any]:
        out = {}
        for value in sorted({str(r[key]) for r in rows}):
            at = [i for i, r in enumerate(rows) if str(r[key]) == value]
            mine = [rows[i] for i in at]
            out[value] = {
                k: v
                for k, v in score(mine, [by_case[i] for i in at]).items()
                if k in ("n", "n_right", "brier", "ece", "auroc", "cost")
            }
        return out

    stopped: dict[str, Any] = {}
    for sight in SIGHTS:
        of = [s for s in samples if s.sight == sight]
        stopped[sight] = {
            "right": sum(s.is_right for s in of),
            "right_stopped_by_rules": sum(s.is_right and s.features is None for s in of),
            "incorrect": sum(not s.is_right for s in of),
            "incorrect_stopped_by_rules": sum(not s.is_right and s.features is None for s in of),
        }
    return {
        "folds": FOLDS,
        "ridge": RIDGE,
        "wrong_share": WRONG_SHARE,
        "out_of_fold_by_case": score(rows, by_case),
        "out_of_fold_by_family_and_case": score(rows, by_family),
        "started_from": {"version": start.version, **score(rows, old)},
        "rules": stopped,
        "by_tool": part("tool"),
        "by_task_type": part("task_type"),
        "by_sight": part("sight"),
        "accept_at": Policy().accept_at,
        "reject_at": Policy().reject_at,
    }


def without(samples: Sequence[Sample], *, family: str, fold: int) -> list[Sample]:
    """Samples of other families and other folds of cases."""
    return [s for s in samples if fold_of(s.case) != fold and not (family and s.family == family)]
