"""Fits the models for records on labelled trajectories, by task: no task is in both fitting and scoring, at either level.

The outer folds give the probabilities that the report scores. Inside each, inner folds give those that calibration (Platt 1999)
and the operating points are chosen on. The final model is fitted on every task the same way. scikit-learn is needed here and
nowhere else.

Policy of an operating point, stated beforehand: the greatest threshold at which the inner folds' own recall reaches AIM_RECALL,
calls pooled, with what the record proves counted as found. Broad and strict labels have a forest and an operating point each.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import UserError
from apps.evaluation.folds import FoldedModels, PriorCount, question_key
from apps.evaluation.importers.trajectories import Trajectories, prior_cell, protocol_tool
from apps.evaluation.labels import PATHS, SCHEMES, Scheme, truth
from apps.verification.records.answers import answer_signs
from apps.verification.records.faults import faults_in
from apps.verification.records.forest import Forest, RecordModel, ToolRates, Tree
from apps.verification.records.memory import Call, RecordMemory
from apps.verification.records.signs import AFTER, signs_of
from apps.verification.records.verifier import P_CORRECT_OF_FAULT
from apps.verification.records.wording import task_type_of

OUTER, SEED = 10, 7
INNER: dict[str, int] = {"calls": 5, "answers": 3, "before": 5, "strict": 5}
# Runs of one task repeat each other: a task counts for at most so many trials of a tool.
TASK_CAP, RATE_CONCENTRATION = 30, 8.0
AIM_RECALL = 0.85
Part = Literal["calls", "answers", "before", "strict"]
PARTS: tuple[Part, ...] = ("calls", "answers", "before", "strict")
# Rows of a task that was run often repeat each other: in these parts a task of n rows weighs √n, half way between every row
# weighing the same and every task.
ROOT_WEIGHTED: frozenset[Part] = frozenset({"calls", "before"})
_SETTINGS: dict[Part, dict[str, Any]] = {
    "calls": {"max_iter": 110, "learning_rate": 0.07, "max_leaf_nodes": 8, "min_samples_leaf": 40, "l2_regularization": 5.0,
              "max_features": 0.3, "max_bins": 64},
    "answers": {"max_iter": 120, "learning_rate": 0.05, "max_leaf_nodes": 6, "min_samples_leaf": 60, "l2_regularization": 10.0,
                "max_features": 0.3, "max_bins": 64},
    "before": {"max_iter": 120, "learning_rate": 0.05, "max_leaf_nodes": 4, "min_samples_leaf": 80, "l2_regularization": 5.0,
               "max_features": 0.3, "max_bins": 64},
    "strict": {"max_iter": 60, "learning_rate": 0.06, "max_leaf_nodes": 5, "min_samples_leaf": 20, "l2_regularization": 10.0,
               "max_features": 0.3, "max_bins": 64},
}  # fmt: skip
# Part, scheme of its labels, whether silent failures are among the wrong ones (they are no news to a judge that sees the output),
# and whether paths, which have no value of their own, are among the right ones.
_CALLS: tuple[tuple[Part, Scheme, bool, bool], ...] = (
    ("calls", "broad", False, True), ("before", "broad", True, False), ("strict", "strict", False, False),
)  # fmt: skip
EVERYTHING = 1e308
Matrix = NDArray[np.float64]


@dataclass(slots=True)
class Sample:
    """Rows of one part: signs, native tool, task and whether it is wrong."""

    signs: list[Mapping[str, float]]
    tools: list[str]
    tasks: list[str]
    wrong: list[bool]


def samples_of(data: Trajectories) -> dict[Part, Sample]:
    """What there is to fit on: runs without an infrastructure fault and without a disputed answer. Without ``strict`` where too
    few tasks have wrong calls under strict labels."""
    out: dict[Part, Sample] = {part: Sample([], [], [], []) for part in PARTS}
    for run in data.runs:
        if run.has_infra_error or run.has_gold_conflict:
            continue
        labels = data.labels.get((run.run, run.task_id), {})
        memory, read = RecordMemory(run.question, run.choices), list[tuple[Call, dict[str, float]]]()
        for number, call in zip(run.numbers, run.calls, strict=True):
            signs = signs_of(memory, call)
            memory.add(call, signs)
            read.append((call, signs))
            for part, scheme, with_silent, with_paths in _CALLS:
                is_wrong = truth(labels.get(number), scheme, allow_silent=with_silent)
                if is_wrong is None or (not with_paths and labels.get(number) in PATHS):
                    continue
                known = {n: v for n, v in signs.items() if n not in AFTER} if part == "before" else signs
                _append(out[part], known, call.tool, run.task_id, is_wrong)
        if run.answer is not None and run.is_correct is not None:
            _append(out["answers"], answer_signs(memory, read, run.answer), "", run.task_id, not run.is_correct)
    if not _suffices(out["strict"]):
        del out["strict"]
    return out


def _append(sample: Sample, signs: Mapping[str, float], tool: str, task: str, is_wrong: bool) -> None:
    sample.signs.append(signs)
    sample.tools.append(tool)
    sample.tasks.append(task)
    sample.wrong.append(is_wrong)


def fold_of_tasks(tasks: Sequence[str], folds: int, seed: int = SEED) -> dict[str, int]:
    """Each task's fold: tasks in a fixed random order, dealt out in turn."""
    names = sorted(set(tasks))
    order = np.random.default_rng(seed).permutation(len(names))
    return {names[int(i)]: at % folds for at, i in enumerate(order)}


def fit(data: Trajectories, *, version: str, note: str = "",
        progress: Callable[[str], None] = lambda _: None) -> tuple[RecordModel, FoldedModels]:  # fmt: skip
    """The final model, and one model for each fold of the tasks. UserError BAD_ARGUMENT with too few labelled tasks."""
    samples = samples_of(data)
    tasks = [run.task_id for run in data.runs]
    folds = fold_of_tasks(tasks, OUTER)
    for part, sample in samples.items():
        if len(set(sample.tasks)) < 2 * OUTER or len(set(sample.wrong)) < 2:
            why = f"At least {2 * OUTER} labelled tasks with right and wrong ones are needed."
            raise UserError("BAD_ARGUMENT", f"There is too little to fit {part} on.", why, "Give more runs.")
    matrices = {part: _matrix(sample.signs) for part, sample in samples.items()}
    models = []
    for fold in range(OUTER):
        inside = {task for task, f in folds.items() if f != fold}
        models.append(_model(samples, matrices, inside, f"{version} without fold {fold}"))
        progress(f"fold {fold + 1} of {OUTER}")
    final = _model(samples, matrices, set(folds), version)
    final = final.model_copy(update={"version": version, "note": note})
    keys = {question_key(run.question): folds[run.task_id] for run in data.runs}
    return final, FoldedModels(version=version, fold_of=keys, models=tuple(models), prior=prior_counts(data, folds))


def _suffices(strict: Sample) -> bool:
    """Whether every outer and inner fold can hold a task with wrong calls; else strict labels get no forest of their own."""
    tasks = {t for t, w in zip(strict.tasks, strict.wrong, strict=True) if w}
    return len(tasks) >= 2 * INNER["strict"] and len(set(strict.tasks)) >= 2 * OUTER


def prior_counts(data: Trajectories, folds: Mapping[str, int]) -> tuple[PriorCount, ...]:
    """Outcomes of values by configuration and agreement class, for the prior: silent failures among the wrong, paths left out.
    Of each task the share that was right and for how many trials it counts."""
    counts: dict[tuple[Any, ...], dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for run in data.runs:
        if run.has_infra_error or run.has_gold_conflict:
            continue
        labels = data.labels.get((run.run, run.task_id), {})
        task_type, memory = task_type_of(run.question), RecordMemory(run.question, run.choices)
        for number, call in zip(run.numbers, run.calls, strict=True):
            signs = signs_of(memory, call)
            memory.add(call, signs)
            label = labels.get(number)
            if label in PATHS:
                continue
            for scheme in SCHEMES:
                is_wrong = truth(label, scheme, allow_silent=True)
                if is_wrong is not None:
                    kind, coarse, fine = prior_cell(call, signs, task_type, scheme)
                    counts[scheme, folds[run.task_id], kind, protocol_tool(call), coarse, fine][run.task_id][is_wrong] += 1
    return tuple(
        PriorCount(
            scheme=k[0], fold=k[1], task_type=k[2], tool=k[3], coarse=k[4], fine=k[5],
            tasks=tuple((round(r / (r + w), 6), _trials(k[0], r + w)) for r, w in of_task.values()),
        )
        for k, of_task in sorted(counts.items())
    )  # fmt: skip


def _trials(scheme: str, outcomes: int) -> int:
    return outcomes if scheme == "strict" else round(outcomes**0.5)


def _matrix(signs: Sequence[Mapping[str, float]]) -> tuple[list[str], Matrix]:
    names = sorted({name for row in signs for name in row})
    return names, np.array([[row.get(name, math.nan) for name in names] for row in signs], dtype=float)


def _model(samples: Mapping[Part, Sample], matrices: Mapping[Part, tuple[list[str], Matrix]], inside: set[str],
           version: str) -> RecordModel:  # fmt: skip
    forests: dict[Part, Forest] = {}
    for part, sample in samples.items():
        names, x = matrices[part]
        take = np.array([t in inside for t in sample.tasks])
        proved = np.array([part != "answers" and bool(faults_in(s)) for s in sample.signs])
        forests[part] = _forest(
            part, names, x[take], np.array(sample.wrong, dtype=float)[take],
            [t for t, k in zip(sample.tools, take, strict=True) if k], [t for t, k in zip(sample.tasks, take, strict=True) if k],
            proved[take],
        )  # fmt: skip
    return RecordModel(
        version=version, calls=forests["calls"], answers=forests["answers"], before=forests["before"],
        strict=forests.get("strict"),
    )  # fmt: skip


def _forest(part: Part, names: list[str], x: Matrix, y: Matrix, tools: list[str], tasks: list[str],
            proved: NDArray[np.bool_]) -> Forest:  # fmt: skip
    folds = fold_of_tasks(tasks, INNER[part], SEED + 1)
    at = np.array([folds[t] for t in tasks])
    raw = np.zeros(len(y))
    for fold in range(INNER[part]):
        inner, held = np.flatnonzero(at != fold), np.flatnonzero(at == fold)
        forest = _grow(part, names, x[inner], y[inner], [tools[i] for i in inner], [tasks[i] for i in inner])
        row = _with_rates(forest.tool_rates, x[held], [tools[i] for i in held])
        raw[held] = _probabilities(forest, row)
    knots = _platt(raw, y)
    forest = _grow(part, names, x, y, tools, tasks).model_copy(update={"knots": knots})
    calibrated = np.array([forest.calibrated(float(p)) for p in raw])
    calibrated[proved] = np.maximum(calibrated[proved], 1 - P_CORRECT_OF_FAULT)
    return forest.model_copy(update={"flag_at": _operating_point(calibrated, y)})


def _row_weights(part: Part, tasks: Sequence[str]) -> Matrix | None:
    """One over the root of the task's rows, mean 1; None where every row weighs the same."""
    if part not in ROOT_WEIGHTED:
        return None
    rows = Counter(tasks)
    weight = np.array([rows[t] ** -0.5 for t in tasks])
    out: Matrix = weight * len(weight) / weight.sum()
    return out


def _grow(part: Part, names: list[str], x: Matrix, y: Matrix, tools: list[str], tasks: list[str]) -> Forest:
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError as error:
        raise UserError("MODEL_MISSING", "scikit-learn is not installed.", "Fitting needs it; judging does not.",
                        "Install requirements.txt.") from error  # fmt: skip
    rates = None
    if part != "answers":
        rates, own = _tool_rates(y, tools, tasks)
        x = np.column_stack([x, own])
    x = np.where(np.isnan(x).all(axis=0), 0.0, x)  # a sign that no row has splits nothing
    learner = HistGradientBoostingClassifier(random_state=SEED, early_stopping=False, **_SETTINGS[part])
    learner.fit(x, y, sample_weight=_row_weights(part, tasks))
    trees = tuple(_tree(stage[0].nodes, _SETTINGS[part]["learning_rate"]) for stage in learner._predictors)
    return Forest(names=tuple(names), baseline=float(learner._baseline_prediction.ravel()[0]), trees=trees, tool_rates=rates)


def _tree(nodes: NDArray[Any], learning_rate: float) -> Tree:
    leaf = nodes["is_leaf"].astype(bool)
    value = np.where(leaf, nodes["value"], nodes["value"] * learning_rate)
    return Tree(
        feature=tuple(int(f) for f in np.where(leaf, -1, nodes["feature_idx"])),
        # infinity splits what is there from what is not; JSON has none
        threshold=tuple(
            0.0 if is_leaf else float(min(t, EVERYTHING)) for is_leaf, t in zip(leaf, nodes["num_threshold"], strict=True)
        ),
        left=tuple(int(v) for v in nodes["left"]),
        right=tuple(int(v) for v in nodes["right"]),
        missing_left=tuple(bool(v) for v in nodes["missing_go_to_left"]),
        value=tuple(float(f"{v:.6g}") for v in value),
    )


def _tool_rates(y: Matrix, tools: list[str], tasks: list[str]) -> tuple[ToolRates, Matrix]:
    """Rates of all tasks, and for each row those of the other tasks: a row must not see its own task's outcome."""
    base = float(y.mean())
    of_task: dict[tuple[str, str], list[float]] = defaultdict(lambda: [0.0, 0.0])
    for wrong, tool, task in zip(y, tools, tasks, strict=True):
        held = of_task[tool, task]
        held[0] += wrong
        held[1] += 1
    total: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    for (tool, task), (wrong, n) in of_task.items():
        scale = min(1.0, TASK_CAP / n)
        of_task[tool, task] = [wrong * scale, n * scale]
        total[tool][0] += wrong * scale
        total[tool][1] += n * scale
    own = np.array([
        (total[tool][0] - of_task[tool, task][0] + RATE_CONCENTRATION * base)
        / (total[tool][1] - of_task[tool, task][1] + RATE_CONCENTRATION)
        for tool, task in zip(tools, tasks, strict=True)
    ])  # fmt: skip
    cells = {tool: (round(w, 4), round(n, 4)) for tool, (w, n) in sorted(total.items())}
    return ToolRates(base=base, concentration=RATE_CONCENTRATION, cells=cells), own


def _with_rates(rates: ToolRates | None, x: Matrix, tools: Sequence[str]) -> Matrix:
    return x if rates is None else np.column_stack([x, [rates.rate(t) for t in tools]])


def _probabilities(forest: Forest, x: Matrix) -> Matrix:
    """Raw probabilities of many rows at once, the same as ``Forest.probability`` without knots."""
    z = np.full(len(x), forest.baseline)
    rows = np.arange(len(x))
    for tree in forest.trees:
        feature, threshold = np.array(tree.feature), np.array(tree.threshold)
        left, right, missing = np.array(tree.left), np.array(tree.right), np.array(tree.missing_left)
        at = np.zeros(len(x), dtype=int)
        while True:
            inner = feature[at] >= 0
            if not inner.any():
                break
            seen = x[rows, np.maximum(feature[at], 0)]
            goes_left = np.where(np.isnan(seen), missing[at], seen <= threshold[at])
            at = np.where(inner, np.where(goes_left, left[at], right[at]), at)
        z += np.array(tree.value)[at]
    out: Matrix = 1 / (1 + np.exp(-np.clip(z, -30, 30)))
    return out


def _platt(raw: Matrix, y: Matrix) -> tuple[tuple[float, float], ...]:
    """Logistic calibration of the raw log-odds as knots (Platt 1999); the slope is held at 0 or above."""
    z = np.log(np.clip(raw, 1e-6, 1 - 1e-6) / (1 - np.clip(raw, 1e-6, 1 - 1e-6)))
    a, b = 1.0, 0.0
    for _ in range(60):
        p = 1 / (1 + np.exp(-np.clip(a * z + b, -30, 30)))
        w = p * (1 - p) + 1e-9
        gradient = np.array([((y - p) * z).sum() - (a - 1.0), (y - p).sum()])
        hessian = np.array([[(w * z * z).sum() + 1.0, (w * z).sum()], [(w * z).sum(), w.sum()]])
        step = np.linalg.solve(hessian, gradient)
        a, b = max(0.0, a + float(step[0])), b + float(step[1])
        if abs(step).max() < 1e-8:
            break
    grid = [0.0, 0.005, 0.01, 0.02, 0.05, *(k / 10 for k in range(1, 10)), 0.95, 0.98, 0.99, 0.995, 1.0]
    out = []
    for g in grid:
        s = min(max(g, 1e-6), 1 - 1e-6)
        out.append((g, round(1 / (1 + math.exp(-(a * math.log(s / (1 - s)) + b))), 6)))
    return tuple(out)


def _operating_point(p: Matrix, y: Matrix) -> float:
    """The greatest threshold whose recall on these tasks is at least AIM_RECALL; all of a tie or none."""
    order = np.argsort(-p, kind="stable")
    hits = np.cumsum(y[order])
    if not hits[-1]:
        return 1.0
    at = int(np.searchsorted(hits, AIM_RECALL * hits[-1] - 1e-9))
    return round(float(p[order][at]) - 5e-7, 6)


def sizes(data: Trajectories) -> dict[str, Any]:
    """How many rows and tasks each part rests on."""
    return {
        part: {"rows": len(s.wrong), "wrong": int(sum(s.wrong)), "tasks": len(set(s.tasks)), "tools": len(Counter(s.tools))}
        for part, s in samples_of(data).items()
    }
