"""Reports of recorded runs and of single cases as sections of the page Evaluation: a title, a table, a reliability diagram. Pure.

A report may lack any part, or hold parts that are not known here: what is missing makes no section, what is unknown is left to
``present.plain_tables`` and to the JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from apps.evaluation.present import bins_of

SCHEMES = {"strict": "strict labels", "broad": "broad labels"}
PARTS = {"values_and_paths": "values and paths", "values": "values only", "without_filters": "without filters"}
MODELS = {"cells": "cells", "before_output": "known before the output"}
# Keys of a report that the sections below show.
SHOWN = frozenset(
    {
        "R_dep", "R_dep_interval", "R_err", "R_prop", "R_prop_unnoticed", "bad_observations", "silent_failures", "answers_wrong",
        "prior", "faults_proved", "by_tool", "by_task_type", "by_fault", "operating_point", "rejected", "reliability", "auroc",
        "auroc_interval", "brier", "brier_interval", "ece", "ece_interval", "ece_each_task_once", "task_types", "ceiling",
    }
)  # fmt: skip
Section = dict[str, Any]


def _number(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.3f}"


def _figure(held: Mapping[str, Any], name: str) -> str:
    """The figure with its 95 % interval; an en dash where there is none."""
    interval = held.get(f"{name}_interval")
    text = _number(held.get(name))
    return f"{text} ({interval[0]:.3f}–{interval[1]:.3f})" if isinstance(interval, list) and len(interval) == 2 else text


def _part(held: Any, name: str) -> Mapping[str, Any]:
    found = held.get(name) if isinstance(held, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _section(
    title: str, note: str, columns: list[str], rows: Iterable[list[str]], diagrams: list[dict[str, Any]] | None = None
) -> Section:
    return {
        "title": title,
        "note": note,
        "columns": columns,
        "rows": [row for row in rows if row],
        "diagrams": [d for d in diagrams or [] if d["bins"]],
    }


def record_sections(report: Mapping[str, Any]) -> list[Section]:
    """Sections of a report of `evaluate trajectories` or `evaluate cases`, most telling first; none without a row."""
    made = [
        _answers(report),
        _wrong_observations(report),
        _operating(report),
        _each_task_once(report),
        _ceiling(report),
        _missing(report),
        _answer_will_be_wrong(report),
        _unseen_tasks(report),
        _by_fault(report),
        _proved(report),
        _groups(report, "by_tool", "By tool", "Native tool"),
        _groups(report, "by_task_type", "By task type", "Task type"),
    ]
    return [section for section in made if section["rows"]]


def _answers(report: Mapping[str, Any]) -> Section:
    rows = (
        [["R_dep: answers that depend on an observation", _figure(report, "R_dep"), _figure(report, "R_dep")]]
        if "R_dep" in report
        else []
    )
    for name, words in (
        ("R_err", "R_err: of those, with a wrong observation though no tool failed"),
        ("R_prop", "R_prop: of those, answered wrongly"),
        ("R_prop_unnoticed", "R_prop that would have passed unnoticed"),
    ):
        if name in report:
            rows.append([words, _figure(report[name], "strict"), _figure(report[name], "broad")])
    silent = _part(report, "silent_failures")
    if silent:
        rows.append(["Silent failures rejected", f"{_number(silent.get('rejected'))} of {_number(silent.get('n'))}", "the same"])
    return _section(
        "Errors that reach the answer",
        "Others' runs cannot be run again, so R_prop under verification is not known: unnoticed is what would have passed.",
        ["Figure", "Strict labels", "Broad labels"],
        rows,
    )


def _wrong_observations(report: Mapping[str, Any]) -> Section:
    rows, diagrams = [], []
    for scheme, parts in _part(report, "bad_observations").items():
        for name, held in parts.items() if isinstance(parts, Mapping) else ():
            if not isinstance(held, Mapping) or not held.get("n"):
                continue
            point, costs, proved = _part(held, "operating_point"), _part(held, "rejected"), _part(held, "proved_faults")
            rows.append(
                [
                    f"{SCHEMES.get(scheme, scheme)}, {PARTS.get(name, name.replace('_', ' '))}",
                    f"{_number(held.get('wrong'))} of {_number(held.get('n'))}",
                    _figure(point, "precision"),
                    _figure(point, "recall"),
                    _figure(held, "precision_at_recall_85"),
                    f"{_number(costs.get('precision'))}, {_number(costs.get('recall'))}",
                    f"{_number(proved.get('precision'))}, {_number(proved.get('recall'))}",
                    _figure(held, "auroc"),
                    _figure(held, "brier"),
                    _figure(held, "ece"),
                ]
            )
            if name == "values_and_paths":
                diagrams.append({"title": f"An observation is right, {SCHEMES.get(scheme, scheme)}", "bins": bins_of(held)})
    return _section(
        "Wrong observations found",
        "Cross-validated by task: at the operating point chosen beforehand, by the policy's costs, proved by the record alone.",
        [
            "Labels", "Wrong", "Precision", "Recall", "Precision at recall 0.85", "By costs: precision, recall",
            "Proved: precision, recall", "AUROC", "Brier", "ECE",
        ],
        rows,
        diagrams,
    )  # fmt: skip


def _each_task_once(report: Mapping[str, Any]) -> Section:
    """The same figures with every task weighing the same, however often it was run."""
    rows = []
    for scheme, parts in _part(report, "bad_observations").items():
        for name in parts if isinstance(parts, Mapping) else ():
            held = _part(_part(parts, name), "each_task_once")
            if held:
                title = f"{SCHEMES.get(scheme, scheme)}, {PARTS.get(name, name.replace('_', ' '))}"
                figures = ("precision", "recall", "precision_at_recall_85", "auroc", "brier", "ece")
                rows.append([title, *(_figure(held, figure) for figure in figures)])
    return _section(
        "Wrong observations found, each task once",
        "A task that was run often repeats itself; here every task weighs the same.",
        ["Labels", "Precision", "Recall", "Precision at recall 0.85", "AUROC", "Brier", "ECE"],
        rows,
    )


def _ceiling(report: Mapping[str, Any]) -> Section:
    rows = []
    for scheme, held in _part(report, "ceiling").items():
        own, told = _part(held, "reference"), _part(held, "evidence")
        if told:
            rows.append([
                SCHEMES.get(scheme, scheme), _number(own.get("precision_at_recall_85")),
                _number(told.get("precision_at_recall_85")), _number(told.get("wrong_calls_in_them")),
            ])  # fmt: skip
    return _section(
        "What an oracle could know",
        "Precision at recall 0.85, values only. One oracle knows each reference; the other knows how often calls with the "
        "same evidence were wrong, and must say the same of all of them.",
        ["Labels", "Oracle of the reference", "Oracle of the evidence, at most", "Wrong calls that look like right ones"],
        rows,
    )


def _missing(report: Mapping[str, Any]) -> Section:
    rows = []
    for scheme, held in _part(report, "ceiling").items():
        for row in held.get("wrong_by_kind", ()) if isinstance(held, Mapping) else ():
            rows.append([
                f"{SCHEMES.get(scheme, scheme)}: {row.get('kind', '')}", _number(row.get("wrong")), _number(row.get("found")),
                _number(row.get("right_of_the_kind")), str(row.get("lifted_by", "")),
            ])  # fmt: skip
    return _section(
        "Wrong calls by what would tell them",
        "Found: at the operating point of the labels.",
        ["Kind", "Wrong", "Found", "Right ones of the kind", "Evidence that would tell"],
        rows,
    )


def _operating(report: Mapping[str, Any]) -> Section:
    """Of single cases: one operating point and one diagram for all."""
    rows = []
    for name, words in (("operating_point", "At the operating point"), ("rejected", "Rejected by the policy's costs")):
        held = _part(report, name)
        if held:
            rows.append(
                [
                    words,
                    _number(held.get("wrong_rejected")),
                    _number(held.get("wrong_kept")),
                    _number(held.get("right_rejected")),
                    _number(held.get("right_kept")),
                    _figure(held, "precision"),
                    _figure(held, "recall"),
                ]
            )
    note = ", ".join(
        f"{words} {_figure(report, name)}"
        for name, words in (("auroc", "AUROC"), ("brier", "Brier"), ("ece", "ECE"))
        if name in report
    )
    return _section(
        "Wrong observations found",
        note,
        ["", "Wrong, found", "Wrong, missed", "Right, flagged", "Right, kept", "Precision", "Recall"],
        rows,
        [{"title": "An observation is right", "bins": bins_of(report)}],
    )


def _answer_will_be_wrong(report: Mapping[str, Any]) -> Section:
    held = _part(report, "answers_wrong")
    rows = (
        [
            ["Runs that answered, of them wrong", f"{_number(held.get('n'))}, {_number(held.get('wrong'))}"],
            ["AUROC", _figure(held, "auroc")],
            ["Brier", _figure(held, "brier")],
            ["ECE", _figure(held, "ece")],
            [
                "Ceiling: AUROC of an oracle that knows each task's rate and nothing of the run",
                _number(held.get("ceiling_auroc_task_known")),
            ],
        ]
        if held.get("n")
        else []
    )
    return _section(
        "“The answer will be wrong”",
        "From the run's observations alone, with no leak from a missing answer.",
        ["Figure", "Value"],
        rows,
        [{"title": "The answer will be wrong", "bins": bins_of(held), "what": "wrong"}],
    )


def _unseen_tasks(report: Mapping[str, Any]) -> Section:
    rows, diagrams = [], []
    for scheme, held in _part(report, "prior").items():
        for name, words in MODELS.items():
            model = _part(held, name)
            if not model:
                continue
            title = f"{SCHEMES.get(scheme, scheme)}, {words}"
            once, perfect = _part(model, "each_task_once"), _part(model, "perfect_forecaster")
            floor = f"{_number(perfect.get('ece_p50'))} ({_number(perfect.get('ece_p5'))}–{_number(perfect.get('ece_p95'))})"
            rows.append([
                title, _number(held.get("n")), _figure(model, "brier"), _figure(model, "ece"), floor if perfect else "–",
                _figure(model, "auroc"), _figure(once, "brier"), _figure(once, "ece"),
            ])  # fmt: skip
            diagrams.append({"title": f"The prior on unseen tasks, {title}", "bins": bins_of(model)})
    return _section(
        "The prior on tasks that it has not seen",
        "Cross-validated by task. A perfect forecaster's ECE is what chance leaves where calls of a task come out together.",
        ["Prior", "Observations", "Brier", "ECE", "ECE of a perfect forecaster", "AUROC", "Brier, each task once",
         "ECE, each task once"],
        rows,
        diagrams,
    )


def _by_fault(report: Mapping[str, Any]) -> Section:
    rows = [
        [name.replace("_", " "), _number(held.get("n")), _number(held.get("flagged")), _number(held.get("rejected"))]
        for name, held in _part(report, "by_fault").items()
        if isinstance(held, Mapping)
    ]
    return _section("By kind of fault", "“right” are cases without any.", ["Kind", "Cases", "Flagged", "Rejected"], rows)


def _proved(report: Mapping[str, Any]) -> Section:
    rows = [
        [name.replace("_", " "), *(_number(held.get(key, 0)) for key in ("wrong", "right", "not_known"))]
        for name, held in _part(report, "faults_proved").items()
        if isinstance(held, Mapping)
    ]
    return _section(
        "Faults that a record proves",
        "By the label of the calls that break each rule.",
        ["Rule", "Labelled wrong", "Labelled right", "Not known"],
        rows,
    )


def _groups(report: Mapping[str, Any], key: str, title: str, column: str) -> Section:
    held = [(name, group) for name, group in _part(report, key).items() if isinstance(group, Mapping)]
    rows = [
        [
            name.replace("_", " "),
            _number(g.get("n")),
            _number(g.get("wrong_rejected")),
            _number(g.get("wrong_kept")),
            _number(g.get("right_rejected")),
            _number(g.get("precision")),
            _number(g.get("recall")),
        ]
        for name, g in held
    ]
    diagrams = [{"title": name.replace("_", " "), "bins": bins_of(g)} for name, g in held]
    return _section(
        title,
        "At the operating point; broad labels.",
        [column, "Calls", "Wrong, found", "Wrong, missed", "Right, flagged", "Precision", "Recall"],
        rows,
        diagrams,
    )
