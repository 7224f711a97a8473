"""Scores the judge on recorded runs and single cases: PROTOCOL.md section 8 over `evaluate trajectories` and `evaluate cases`.

Each call becomes an observation as far as its record allows, and goes to the judge with the calls before it. Labels and
outcomes are read here, after the judge has spoken, and nowhere before. A task that the shipped models were fitted on is judged by
the model of its fold, which has not seen it; a task that was never seen by the final one.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.decision import Decision
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Question
from apps.core.ports import Judge
from apps.evaluation.ceilings import detection_ceiling, evidence_of, kind_of_wrong, perfect_forecaster
from apps.evaluation.folds import FoldedModels, load_folds
from apps.evaluation.importers.trajectories import (
    NAMED,
    Cases,
    RecordedCase,
    RecordedRun,
    Trajectories,
    observations_of,
    prior_cell,
    protocol_tool,
)
from apps.evaluation.labels import PATHS, SCHEMES, SILENT, Scheme, truth
from apps.evaluation.metrics import (
    auroc,
    brier,
    confusion,
    ece,
    ece_by_task,
    reliability,
    rounded,
)
from apps.evaluation.resampling import Resampled
from apps.runs.verifiers import record_model, verifier_folder, verifier_history
from apps.verification.records.answers import answer_signs
from apps.verification.records.faults import FAULTS, faults_in
from apps.verification.records.forest import Forest, RecordModel
from apps.verification.records.memory import Call
from apps.verification.records.signs import AFTER
from apps.verification.records.verifier import P_CORRECT_OF_FAULT, RecordVerifier
from apps.verification.records.wording import task_type_of

Progress = Callable[[str], None]
RECALL = 0.85


class UnseenRecords(RecordVerifier):
    """Judges each question with the model that has not seen its task."""

    def __init__(self, final: RecordModel, folds: FoldedModels | None):
        super().__init__(lambda: final)
        self.folds = folds
        self._looked: dict[str, dict[str, float]] = {}

    def look(self, observation: Observation, question: Question, earlier: Sequence[Observation]) -> dict[str, float]:
        """Reads an observation against the whole run so far, in order; what is read once is not read again."""
        if not earlier:
            self._looked.clear()
        return self._looked.setdefault(observation.id, super().signs(observation, question, earlier))

    def signs(self, observation: Observation, question: Question | None, before: Sequence[Observation]) -> dict[str, float]:
        held = self._looked.get(observation.id)
        return super().signs(observation, question, before) if held is None else held

    def model_for(self, question: str) -> RecordModel:
        return self.folds.model_for(question, self.model)[0] if self.folds else self.model

    def forest_for(self, question: str) -> Forest:
        return self.model_for(question).calls

    def was_fitted_on(self, question: str) -> bool:
        """True without folds: then nothing is known to be unseen."""
        return self.folds is None or self.folds.fold(question) is not None


@dataclass(slots=True)
class Judged:
    """One judged call beside its label."""

    task: str
    tool: str
    task_type: str
    label: str | None
    decision: str
    stage: str
    p_wrong: float
    flag_at: float
    before: float | None
    faults: tuple[str, ...]
    is_failed: bool
    is_filtered: bool
    elapsed_s: float
    prior: dict[Scheme, float] = field(default_factory=dict)
    p_strict: float = 0.0
    strict_at: float = 1.0
    same: int = 0
    evidence: int = 0
    kind_of_wrong: str = "other"


@dataclass(slots=True)
class RunScore:
    """One run: does its answer depend on tools, was one of them wrong, and was the answer."""

    task: str
    depends: bool
    wrong_labels: dict[Scheme, bool]
    unnoticed: dict[Scheme, bool]
    is_wrong: bool | None
    has_answer: bool
    is_filtered: bool
    p_answer_wrong: float | None


def make_records() -> UnseenRecords:
    """The models in use, with the folds that they were fitted in."""
    model, history = record_model(), verifier_history("records")
    beside = verifier_folder("records") / f"{history[-1]}.folds.json.gz" if history else None
    return UnseenRecords(model, load_folds(beside))


def judge_run(run: RecordedRun, judge: Judge, records: UnseenRecords) -> list[tuple[Observation, Decision, dict[str, float]]]:
    """Observations of a run with their decisions and signs, in order. A record cannot be asked for its evidence: what was not
    rejected stands, and later calls are judged on it."""
    out: list[tuple[Observation, Decision, dict[str, float]]] = []
    earlier: list[Observation] = []
    kept: list[Observation] = []
    rejected: list[Observation] = []
    question = run.asked
    for observation in observations_of(run):
        signs = records.look(observation, question, earlier)
        _, decision = judge.judge(observation, question=question, history=tuple(kept), rejected=tuple(rejected))
        out.append((observation, decision, signs))
        earlier.append(observation)
        (rejected if decision.decision == "reject" else kept).append(observation)
    return out


def evaluate_trajectories(
    data: Trajectories, judge: Judge, records: UnseenRecords, progress: Progress = lambda _: None
) -> dict[str, Any]:
    """The report of a folder. Pure apart from the clock."""
    calls: list[Judged] = []
    runs: list[RunScore] = []
    priors = _Priors(records.folds)
    began = time.perf_counter()
    for at, run in enumerate(data.runs):
        judged = judge_run(run, judge, records)
        model = records.model_for(run.question)
        labels = data.labels.get((run.run, run.task_id), {})
        is_filtered = run.has_infra_error or run.has_gold_conflict
        mine = []
        for number, call, (observation, decision, signs) in zip(run.numbers, run.calls, judged, strict=True):
            mine.append(_judged(run, call, observation, decision, signs, model, labels.get(number), is_filtered, priors))
        calls += mine
        runs.append(_run_score(run, mine, judged, model, records))
        if at % 250 == 249:
            progress(f"{at + 1} of {len(data.runs)} runs")
    return _report(data, calls, runs, records, time.perf_counter() - began)


def _judged(run: RecordedRun, call: Call, observation: Observation, decision: Decision, signs: dict[str, float],
            model: RecordModel, label: str | None, is_filtered: bool, priors: _Priors) -> Judged:  # fmt: skip
    p = 1.0 if call.is_failed else 1.0 - (decision.p_correct if decision.p_correct is not None else 0.5)
    before = None
    if model.before is not None:
        before = model.before.probability({n: v for n, v in signs.items() if n not in AFTER}, call.tool)
    task_type, faults = observation.task.task_type, faults_in(signs)
    strict = model.strict or model.calls
    p_strict = 1.0 if call.is_failed else strict.probability(signs, call.tool) if label is not None else 0.0
    return Judged(
        task=run.task_id, tool=call.tool, task_type=task_type, label=label, decision=decision.decision, stage=decision.stage,
        p_wrong=p, flag_at=model.calls.flag_at, before=before, faults=faults, is_failed=call.is_failed,
        is_filtered=is_filtered, elapsed_s=decision.elapsed_s,
        prior=priors.of(run.question, task_type, call, signs) if label is not None else {},
        p_strict=max(p_strict, 1 - P_CORRECT_OF_FAULT) if faults else p_strict, strict_at=strict.flag_at,
        same=hash((run.task_id, call.key, call.text)), evidence=hash(evidence_of(call, signs)),
        kind_of_wrong=kind_of_wrong(call, signs),
    )  # fmt: skip


def _run_score(run: RecordedRun, mine: Sequence[Judged], judged: Sequence[tuple[Observation, Decision, dict[str, float]]],
               model: RecordModel, records: UnseenRecords) -> RunScore:  # fmt: skip
    seen = [j for j, call in zip(mine, run.calls, strict=True) if not j.is_failed and call.kind != "catalog"]
    wrong: dict[Scheme, bool] = {}
    unnoticed: dict[Scheme, bool] = {}
    for scheme in SCHEMES:
        bad = [j for j in seen if truth(j.label, scheme, allow_silent=True)]
        wrong[scheme] = bool(bad)
        unnoticed[scheme] = bool(bad) and not any(_is_flagged(j) for j in bad)
    p = None
    if run.answer is not None and run.is_correct is not None:
        pairs = [(call, signs) for call, (_, _, signs) in zip(run.calls, judged, strict=True)]
        earlier = [o for o, _, _ in judged]
        memory = records.memory(earlier[-1], run.asked, earlier) if earlier else _empty_memory(run)
        p = model.answers.probability(answer_signs(memory, pairs, run.answer))
    return RunScore(run.task_id, bool(seen) and run.answer is not None, wrong, unnoticed,
                    None if run.is_correct is None else not run.is_correct, run.answer is not None,
                    run.has_infra_error or run.has_gold_conflict, p)  # fmt: skip


def _empty_memory(run: RecordedRun) -> Any:
    from apps.verification.records.memory import RecordMemory

    return RecordMemory(run.question, run.choices)


def _is_flagged(j: Judged, scheme: Scheme = "broad") -> bool:
    """Rejected by the judge, or above the operating point of the model that judged it. Strict labels have their own forest and
    operating point, and the judge's decision, which is made for broad ones, says nothing there."""
    if scheme == "strict":
        return j.is_failed or bool(j.faults) or j.p_strict >= j.strict_at
    return j.decision == "reject" or j.p_wrong >= j.flag_at


def _p_wrong(j: Judged, scheme: Scheme) -> float:
    return j.p_strict if scheme == "strict" else j.p_wrong


class _Priors:
    """The prior of a call's configuration from the tasks of other folds."""

    def __init__(self, folds: FoldedModels | None):
        self.folds = folds
        self._tables: dict[tuple[int | None, Scheme], Any] = {}

    def of(self, question: str, task_type: str, call: Call, signs: dict[str, float]) -> dict[Scheme, float]:
        if self.folds is None or not self.folds.prior:
            return {}
        fold = self.folds.fold(question)
        out: dict[Scheme, float] = {}
        for scheme in SCHEMES:
            key = (fold, scheme)
            if key not in self._tables:
                self._tables[key] = self.folds.prior_without(fold, scheme)
            kind, coarse, fine = prior_cell(call, signs, task_type, scheme)
            cell = self._tables[key].posterior("fine", kind, protocol_tool(call), coarse, fine)
            out[scheme] = cell.mean
        return out


# --- the report -------------------------------------------------------------------------------------------------------------
def _report(data: Trajectories, calls: Sequence[Judged], runs: Sequence[RunScore], records: UnseenRecords,
            elapsed_s: float) -> dict[str, Any]:  # fmt: skip
    fitted = {run.task_id for run in data.runs if records.was_fitted_on(run.question)}
    tasks = {run.task_id for run in data.runs}
    clean = [j for j in calls if not j.is_filtered]
    return {
        "model": records.name,
        "data": {
            "runs": len(data.runs), "tasks": len(tasks), "calls": len(calls),
            "tasks_fitted_on_and_judged_out_of_fold": len(fitted) if records.folds else 0,
            "tasks_never_seen": len(tasks - fitted),
            "is_out_of_sample": records.folds is not None,
            "runs_left_out": sum(r.is_filtered for r in runs),
            "labels": dict(Counter(j.label or "none" for j in calls).most_common()),
            **data.reading(),
        },
        **_dependence(runs, has_labels=data.has_labels),
        "bad_observations": {
            scheme: {
                "values_and_paths": _detection([j for j in clean if j.label != SILENT], scheme),
                "values": _detection([j for j in clean if j.label != SILENT and j.label not in PATHS], scheme),
                "without_filters": _detection([j for j in calls if j.label != SILENT], scheme),
            }
            for scheme in SCHEMES
        },
        "silent_failures": {"n": sum(j.label == SILENT for j in calls),
                            "rejected": sum(j.label == SILENT and j.decision == "reject" for j in calls)},
        "answers_wrong": _answers(runs),
        "prior": {scheme: _prior(clean, scheme) for scheme in SCHEMES},
        "ceiling": {scheme: _ceiling(clean, scheme) for scheme in SCHEMES},
        "faults_proved": _faults(calls),
        "by_tool": _groups(clean, lambda j: j.tool),
        "by_task_type": _groups(clean, lambda j: j.task_type),
        "decisions": {
            "all": dict(Counter(j.decision for j in calls)),
            "stages": dict(Counter(j.stage for j in calls)),
            "evidence_requests": "Records hold no evidence and cannot be asked for it: requests stay open.",
        },
        "cost": {
            "verification_ms_p50": rounded(1000 * float(np.median([j.elapsed_s for j in calls])), 3) if calls else None,
            "verification_ms_p95": rounded(1000 * float(np.percentile([j.elapsed_s for j in calls], 95)), 3) if calls else None,
            "elapsed_s": rounded(elapsed_s, 1), "model_calls": 0,
        },
    }  # fmt: skip


def _dependence(runs: Sequence[RunScore], *, has_labels: bool) -> dict[str, Any]:
    """R_dep, R_err and R_prop over runs with intervals by task; infrastructure faults and disputed answers left out. Without
    labels nothing is known of R_err and R_prop: None, not 0."""
    clean = [r for r in runs if not r.is_filtered]
    depend = [r for r in clean if r.depends and r.is_wrong is not None] if has_labels else []
    out: dict[str, Any] = Resampled([r.task for r in clean]).share("R_dep", [r.depends for r in clean])
    out |= {"R_err": {}, "R_prop": {}, "R_prop_unnoticed": {}}
    for scheme in SCHEMES:
        out["R_err"] |= Resampled([r.task for r in depend]).share(scheme, [r.wrong_labels[scheme] for r in depend])
        erring = [r for r in depend if r.wrong_labels[scheme]]
        held = Resampled([r.task for r in erring])
        out["R_prop"] |= held.share(scheme, [bool(r.is_wrong) for r in erring])
        out["R_prop_unnoticed"] |= held.share(scheme, [bool(r.is_wrong) and r.unnoticed[scheme] for r in erring])
    return out


def _detection(calls: Sequence[Judged], scheme: Scheme) -> dict[str, Any]:
    """How well wrong observations are found: at the operating point chosen beforehand, by the decision, and along the curve."""
    known = [(j, t) for j in calls if (t := truth(j.label, scheme)) is not None]
    if not known:
        return {"n": 0, "wrong": 0}
    y = np.array([t for _, t in known])
    p = np.array([_p_wrong(j, scheme) for j, _ in known])
    flagged = np.array([_is_flagged(j, scheme) for j, _ in known])
    rejected = np.array([j.decision == "reject" for j, _ in known])
    tasks = [j.task for j, _ in known]
    repeats = Counter((j.task, t) for j, t in known)
    weight = np.array([1 / repeats[j.task, t] for j, t in known])
    drawn, once = Resampled(tasks), Resampled(tasks, each_task_once=True)
    return {
        "n": len(known), "wrong": int(y.sum()), "tasks": len(set(tasks)),
        "tasks_with_wrong": len({j.task for j, t in known if t}), **_probability_figures(1 - p, ~y, tasks),
        "operating_point": _point(flagged, y, tasks),
        "rejected": _point(rejected, y, tasks),
        "proved_faults": confusion(np.array([bool(j.faults) for j, _ in known]), y).as_json(),
        **drawn.precision_at_recall("precision_at_recall_85", p, y, RECALL),
        "each_task_once": {**once.detection(flagged, y), **once.probability(1 - p, ~y),
                           **once.precision_at_recall("precision_at_recall_85", p, y, RECALL)},
        "operating_point_each_task_once": _weighted(flagged, y, weight),
    }  # fmt: skip


def _weighted(flagged: NDArray[np.bool_], y: NDArray[np.bool_], weight: NDArray[np.float64]) -> dict[str, float | None]:
    """Precision and recall when the wrong and the right calls of each task weigh 1 together: no task's repeats carry it."""
    hit, false, missed = weight[flagged & y].sum(), weight[flagged & ~y].sum(), weight[~flagged & y].sum()
    return {
        "precision": rounded(hit / (hit + false)) if hit + false else None,
        "recall": rounded(hit / (hit + missed)) if hit + missed else None,
    }


def _answers(runs: Sequence[RunScore]) -> dict[str, Any]:
    """Whether the answer will be wrong, over runs that gave one."""
    known = [r for r in runs if not r.is_filtered and r.p_answer_wrong is not None]
    if not known:
        return {"n": 0}
    p, y = np.array([r.p_answer_wrong for r in known], dtype=float), np.array([bool(r.is_wrong) for r in known])
    tasks = [r.task for r in known]
    return {
        "n": len(known), "wrong": int(y.sum()), "tasks": len(set(tasks)), **_probability_figures(1 - p, ~y, tasks),
        "ceiling_auroc_task_known": rounded(_task_oracle(y, tasks)),
    }  # fmt: skip


def _point(flagged: NDArray[np.bool_], y: NDArray[np.bool_], tasks: Sequence[str]) -> dict[str, Any]:
    """Confusion with intervals by task."""
    return {
        **confusion(flagged, y).as_json(),
        **Resampled(tasks).detection(flagged, y),
    }


def _probability_figures(p: NDArray[np.float64], y: NDArray[np.bool_], tasks: Sequence[str]) -> dict[str, Any]:
    """``p`` and ``y`` of being right."""
    return {
        **Resampled(tasks).probability(p, y),
        "ece_each_task_once": rounded(ece_by_task(p, y, tasks)),
        "reliability": reliability(p, y),
    }


def _task_oracle(y: NDArray[np.bool_], tasks: Sequence[str]) -> float | None:
    """AUROC of each task's own rate of wrong answers: what an oracle that knew the task's difficulty and nothing of the run could
    reach at most."""
    wrong: Counter[str] = Counter()
    for is_wrong, task in zip(y, tasks, strict=True):
        wrong[task] += int(is_wrong)
    n = Counter(tasks)
    return auroc([wrong[t] / n[t] for t in tasks], y)


def _prior(calls: Sequence[Judged], scheme: Scheme) -> dict[str, Any]:
    """The prior on tasks that it has not seen: of cells alone, and of what is known of the call before its output."""
    valued = [(j, truth(j.label, scheme, allow_silent=True)) for j in calls if j.label not in PATHS]
    known = [(j, not t) for j, t in valued if t is not None and scheme in j.prior]
    if not known:
        return {"n": 0}
    y = np.array([right for _, right in known])
    tasks = [j.task for j, _ in known]
    out: dict[str, Any] = {"n": len(known), "right": int(y.sum()), "tasks": len(set(tasks))}
    predictions = {"cells": np.array([j.prior[scheme] for j, _ in known])}
    if scheme == "broad" and all(j.before is not None for j, _ in known):
        predictions["before_output"] = np.array([1 - (j.before or 0.0) for j, _ in known])
    together = [(j.task, j.tool) for j, _ in known]
    for name, p in predictions.items():
        out[name] = _probability_figures(p, y, tasks) | {
            "each_task_once": Resampled(tasks, each_task_once=True).probability(p, y),
            "perfect_forecaster": perfect_forecaster(p, together),
        }
    return out


def _ceiling(calls: Sequence[Judged], scheme: Scheme) -> dict[str, Any]:
    """What an oracle with the record's evidence could know of values, silent failures and paths left out."""
    known = [(j, t) for j in calls if j.label not in PATHS and (t := truth(j.label, scheme)) is not None]
    return detection_ceiling(
        [t for _, t in known], [j.task for j, _ in known], [j.same for j, _ in known], [j.evidence for j, _ in known],
        [j.kind_of_wrong for j, _ in known], [_is_flagged(j, scheme) for j, _ in known],
    )  # fmt: skip


def _groups(calls: Sequence[Judged], key: Callable[[Judged], str]) -> dict[str, Any]:
    """The verifier's report by group, under broad labels: confusion at the operating point and, under ``rejected``, at the
    policy's threshold; reliability, Brier, ECE and AUROC of being right. Groups of fewer than 20 known calls are left out."""
    held: dict[str, list[tuple[Judged, bool]]] = defaultdict(list)
    for j in calls:
        t = truth(j.label, "broad")
        if t is not None:
            held[key(j)].append((j, t))
    out: dict[str, Any] = {}
    for name, rows in sorted(held.items(), key=lambda item: -len(item[1])):
        if len(rows) < 20:
            continue
        p, right = np.array([1 - j.p_wrong for j, _ in rows]), np.array([not t for _, t in rows])
        out[name] = {
            "n": len(rows), "wrong": int((~right).sum()), "tasks": len({j.task for j, _ in rows}),
            **confusion([_is_flagged(j) for j, _ in rows], ~right).as_json(),
            "rejected": confusion([j.decision == "reject" for j, _ in rows], ~right).as_json(),
            "brier": rounded(brier(p, right)), "ece": rounded(ece(p, right)), "auroc": rounded(auroc(p, right)),
            "reliability": reliability(p, right),
        }  # fmt: skip
    return out


def _faults(calls: Sequence[Judged]) -> dict[str, Any]:
    """What each proved fault meets among calls labelled right, wrong and not labelled."""
    out: dict[str, Counter[str]] = {name: Counter() for name in FAULTS}
    for j in calls:
        if j.is_failed:
            continue
        t = truth(j.label, "broad", allow_silent=True)
        for name in j.faults:
            out[name]["not_known" if t is None else "wrong" if t else "right"] += 1
    return {name: dict(c) for name, c in out.items()}


# --- single cases -----------------------------------------------------------------------------------------------------------
def evaluate_cases(read: Cases, judge: Judge, records: UnseenRecords) -> dict[str, Any]:
    """Confusion matrix and calibration over single labelled observations."""
    rows: list[tuple[RecordedCase, Decision, float, bool, float]] = []
    for case in read.cases:
        judged = judge_run(case.run, judge, records)
        _, decision, _ = judged[-1]
        call = case.run.calls[-1]
        p = 1.0 if call.is_failed else 1.0 - (decision.p_correct if decision.p_correct is not None else 0.5)
        flagged = decision.decision == "reject" or p >= records.model_for(case.run.question).calls.flag_at
        rows.append((case, decision, p, flagged, decision.elapsed_s))
    y, p_wrong = np.array([c.is_wrong for c, *_ in rows]), np.array([p for _, _, p, _, _ in rows])
    flags, tasks = np.array([f for _, _, _, f, _ in rows]), [c.run.task_id for c, *_ in rows]
    rejected = np.array([d.decision == "reject" for _, d, *_ in rows])
    by_fault: dict[str, Counter[str]] = defaultdict(Counter)
    for case, decision, _, flagged, _ in rows:
        held = by_fault[case.fault or ("wrong" if case.is_wrong else "right")]
        held["n"] += 1
        held["flagged"] += flagged
        held["rejected"] += decision.decision == "reject"
    return {
        "model": records.name,
        "data": {"cases": len(rows), "wrong": int(y.sum()), "tasks": len(set(tasks)),
                 "tasks_never_seen": len({c.run.task_id for c, *_ in rows if not records.was_fitted_on(c.run.question)}),
                 "is_out_of_sample": records.folds is not None, "unlabelled": read.unlabelled,
                 "broken_lines": len(read.broken), "broken": list(read.broken[:NAMED])},
        "operating_point": _point(flags, y, tasks),
        "rejected": _point(rejected, y, tasks),
        **_probability_figures(1 - p_wrong, ~y, tasks),
        "by_fault": {name: dict(c) for name, c in sorted(by_fault.items())},
        "decisions": dict(Counter(d.decision for _, d, *_ in rows)),
        "task_types": dict(Counter(task_type_of(c.run.question) for c, *_ in rows)),
        "verification_ms_p50": rounded(1000 * float(np.median([e for *_, e in rows])), 3),
    }  # fmt: skip
