"""Reports of recorded runs as plain text for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _figure(found: Any) -> str:
    """A number, or a value with its 95 % interval; an en dash where there is none."""
    if isinstance(found, Mapping):
        if found.get("value") is None:
            return "–"
        interval = found.get("interval_95")
        return f"{found['value']:.3f}" + (f" [{interval[0]:.3f}, {interval[1]:.3f}]" if interval else "")
    return "–" if found is None else f"{found:.3f}"


def _confusion(point: Mapping[str, Any]) -> str:
    return (
        f"precision {_figure(point['precision'])}, recall {_figure(point['recall'])}, false alarms "
        f"{_figure(point['false_alarm_rate'])} (wrong: {point['wrong_rejected']} found, {point['wrong_kept']} missed; "
        f"right: {point['right_rejected']} flagged, {point['right_kept']} kept)"
    )


def trajectories_table(report: Mapping[str, Any]) -> str:
    """The report of `evaluate trajectories` in lines."""
    data = report["data"]
    lines = [
        f"{data['runs']} runs of {data['tasks']} tasks, {data['calls']} calls; model {report['model']}",
        f"{data['tasks_fitted_on_and_judged_out_of_fold']} tasks judged out of fold, {data['tasks_never_seen']} never seen",
        f"R_dep {_figure(report['R_dep'])}",
    ]
    for scheme in ("strict", "broad"):
        lines.append(
            f"{scheme}: R_err {_figure(report['R_err'][scheme])}, R_prop {_figure(report['R_prop'][scheme])}, "
            f"of which unnoticed {_figure(report['R_prop_unnoticed'][scheme])}"
        )
    for scheme, parts in report["bad_observations"].items():
        for name, part in parts.items():
            if not part["n"]:
                continue
            lines.append(
                f"wrong observations, {scheme}, {name}: {part['wrong']} of {part['n']}; AUROC {_figure(part['auroc'])}, "
                f"Brier {_figure(part['brier'])}, ECE {_figure(part['ece'])}"
            )
            lines.append(f"  at the operating point: {_confusion(part['operating_point'])}")
            lines.append(f"  rejected by the judge: {_confusion(part['rejected'])}")
            curve = part["precision_at_recall_0.85"]
            if curve:
                lines.append(f"  along the curve: precision {curve['precision']:.3f} at recall 0.85, 95 % {curve['interval_95']}")
    answers = report["answers_wrong"]
    if answers["n"]:
        lines.append(
            f"the answer will be wrong: AUROC {_figure(answers['auroc'])}, Brier {_figure(answers['brier'])}, "
            f"ECE {_figure(answers['ece'])} over {answers['n']} runs that answered"
        )
    for scheme, part in report["prior"].items():
        for name in ("cells", "before_output"):
            if name in part:
                figures = part[name]
                lines.append(
                    f"prior on unseen tasks, {scheme}, {name}: Brier {_figure(figures['brier'])}, ECE {_figure(figures['ece'])}, "
                    f"AUROC {_figure(figures['auroc'])}"
                )
    cost = report["cost"]
    lines.append(f"verification p50 {cost['verification_ms_p50']} ms, p95 {cost['verification_ms_p95']} ms")
    return "\n".join(lines)


def cases_table(report: Mapping[str, Any]) -> str:
    """The report of `evaluate cases` in lines."""
    data = report["data"]
    lines = [
        f"{data['cases']} cases of {data['tasks']} tasks, {data['wrong']} wrong; model {report['model']}",
        f"at the operating point: {_confusion(report['operating_point'])}",
        f"rejected by the judge: {_confusion(report['rejected'])}",
        f"AUROC {_figure(report['auroc'])}, Brier {_figure(report['brier'])}, ECE {_figure(report['ece'])}",
    ]
    lines += [f"  {name}: {held['flagged']} of {held['n']} flagged" for name, held in report["by_fault"].items()]
    return "\n".join(lines)
