"""Reports of recorded runs as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _figure(held: Mapping[str, Any], name: str) -> str:
    """A figure with its 95 % interval; an en dash where there is none."""
    value, interval = held.get(name), held.get(f"{name}_interval")
    if value is None:
        return "–"
    return f"{value:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")


def _confusion(point: Mapping[str, Any]) -> str:
    return (
        f"precision {_figure(point, 'precision')}, recall {_figure(point, 'recall')} (wrong: {point['wrong_rejected']} found, "
        f"{point['wrong_kept']} missed; right: {point['right_rejected']} flagged, {point['right_kept']} kept)"
    )


def _probability(held: Mapping[str, Any]) -> str:
    return f"AUROC {_figure(held, 'auroc')}, Brier {_figure(held, 'brier')}, ECE {_figure(held, 'ece')}"


def _reading(data: Mapping[str, Any]) -> list[str]:
    """What was left out while reading; nothing where everything was taken."""
    lines = []
    if data.get("has_labels") is False:
        lines.append("no labels: nothing is scored against them")
    if data.get("broken_lines"):
        lines.append(f"{data['broken_lines']} broken lines left out: {' '.join(data['broken'][:3])}")
    for name, words in (("labels_without_a_call", "labels without a call"), ("runs_given_twice", "runs given twice"),
                        ("unlabelled", "cases without a label")):  # fmt: skip
        if data.get(name):
            lines.append(f"{data[name]} {words}")
    return lines


def _ceiling(scheme: str, part: Mapping[str, Any]) -> list[str]:
    if not part["wrong"]:
        return []
    told, own = part["evidence"], part["reference"]
    head = (
        f"ceiling, {scheme}, values: an oracle of the reference has precision {_number(own['precision_at_recall_85'])} at recall "
        f"0.85; one of the record's evidence {_number(told['precision_at_recall_85'])} at most "
        f"({told['wrong_calls_in_them']} wrong calls share their evidence with right ones)"
    )
    return [head] + [
        f"  {row['kind']}: {row['found']} of {row['wrong']} found ({row['right_of_the_kind']} right ones of the kind); "
        f"lifted by: {row['lifted_by']}"
        for row in part["wrong_by_kind"]
    ]


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def trajectories_table(report: Mapping[str, Any]) -> str:
    """The report of `evaluate trajectories` in lines."""
    data = report["data"]
    lines = [
        f"{data['runs']} runs of {data['tasks']} tasks, {data['calls']} calls; model {report['model']}",
        f"{data['tasks_fitted_on_and_judged_out_of_fold']} tasks judged out of fold, {data['tasks_never_seen']} never seen",
        *_reading(data),
        f"R_dep {_figure(report, 'R_dep')}",
    ]
    for scheme in ("strict", "broad"):
        shares = [f"{name} {_figure(report[name], scheme)}" for name in ("R_err", "R_prop", "R_prop_unnoticed")]
        lines.append(f"{scheme}: {', '.join(shares)}")
    for scheme, parts in report["bad_observations"].items():
        for name, part in parts.items():
            if not part["n"]:
                continue
            lines.append(f"wrong observations, {scheme}, {name}: {part['wrong']} of {part['n']}; {_probability(part)}")
            lines.append(f"  at the operating point: {_confusion(part['operating_point'])}")
            lines.append(f"  rejected by the judge: {_confusion(part['rejected'])}")
            lines.append(f"  proved by the record alone: {_confusion(part['proved_faults'])}")
            lines.append(f"  along the curve, precision at recall 0.85: {_figure(part, 'precision_at_recall_85')}")
            once = part["each_task_once"]
            lines.append(
                f"  each task once: precision {_figure(once, 'precision')}, recall {_figure(once, 'recall')}, "
                f"{_probability(once)}"
            )
    for scheme, part in report["ceiling"].items():
        lines += _ceiling(scheme, part)
    answers = report["answers_wrong"]
    if answers["n"]:
        lines.append(f"the answer will be wrong, {answers['n']} runs that answered: {_probability(answers)}")
    for scheme, part in report["prior"].items():
        lines += [
            f"prior on unseen tasks, {scheme}, {name}: {_probability(part[name])}; each task once: "
            f"{_probability(part[name]['each_task_once'])}; ECE of a perfect forecaster "
            f"{part[name]['perfect_forecaster']['ece_p50']:.3f} (5–95 %: {part[name]['perfect_forecaster']['ece_p5']:.3f}–"
            f"{part[name]['perfect_forecaster']['ece_p95']:.3f})"
            for name in ("cells", "before_output")
            if name in part
        ]
    cost = report["cost"]
    lines.append(f"verification p50 {cost['verification_ms_p50']} ms, p95 {cost['verification_ms_p95']} ms")
    return "\n".join(lines)


def cases_table(report: Mapping[str, Any]) -> str:
    """The report of `evaluate cases` in lines."""
    data = report["data"]
    lines = [
        f"{data['cases']} cases of {data['tasks']} tasks, {data['wrong']} wrong; model {report['model']}",
        *_reading(data),
        f"at the operating point: {_confusion(report['operating_point'])}",
        f"rejected by the judge: {_confusion(report['rejected'])}",
        _probability(report),
    ]
    lines += [f"  {name}: {held['flagged']} of {held['n']} flagged" for name, held in report["by_fault"].items()]
    return "\n".join(lines)
