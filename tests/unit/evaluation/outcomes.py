"""Outcomes of a bench that nobody ran: small enough to count by hand."""

from __future__ import annotations

from typing import Any

from apps.evaluation.faultbench.runner import Asked, Judged, Outcome


def judgement(is_right: bool | None, end: str, p: float | None, **more: Any) -> Judged:
    given: dict[str, Any] = {"step": 1, "tool": "execute", "stage": "verifier" if p is not None else "rules", "failed_checks": ()}
    return Judged(is_right=is_right, end=end, p_first=p, p_last=p, **{**given, **more})


def outcome(case: str, fault: str, configuration: str, *, right: bool, abstained: bool = False, **more: Any) -> Outcome:
    given: dict[str, Any] = {
        "family": "unit" if fault else "",
        "task_type": "index_statistic",
        "value": None if abstained else 1.0,
        "right": 1.0,
        "depends_on_tools": True,
        "tool_calls": 1,
        "elapsed_s": 0.5,
        "tools_s": 0.4,
        "verification_s": 0.005,
    }
    return Outcome(
        case=case,
        fault=fault,
        configuration=configuration,
        is_right=right,
        is_wrong=not right and not abstained,
        is_abstained=abstained,
        **{**given, **more},
    )


def some_outcomes() -> list[Outcome]:
    """Two cases, two faults; three of four incorrect observations lead to a wrong answer without verification, one with it."""
    out = []
    for case in ("a", "b"):
        out.append(outcome(case, "", "none", right=True, observations=(judgement(True, "accept", None, stage="status"),)))
        for fault in ("power_of_ten", "nan_hidden"):
            is_seen = (case, fault) == ("b", "nan_hidden")
            out.append(
                outcome(
                    case,
                    fault,
                    "none",
                    right=False,
                    abstained=is_seen,
                    observations=(judgement(False, "accept", None, stage="status"),),
                )
            )
        out.append(
            outcome(
                case,
                "",
                "verification_prior",
                right=case == "a",
                abstained=case == "b",
                observations=(judgement(True, "accept" if case == "a" else "reject", 0.95 if case == "a" else 0.7),),
                requests=() if case == "a" else (Asked("recompute", "answered", True, 0.7, 0.2, "reject"),),
                judgements=(0.004,),
            )
        )
        for fault in ("power_of_ten", "nan_hidden"):
            is_missed = (case, fault) == ("a", "power_of_ten")
            out.append(
                outcome(
                    case,
                    fault,
                    "verification_prior",
                    right=False,
                    abstained=not is_missed,
                    observations=(
                        judgement(False, "accept", 0.85)
                        if is_missed
                        else judgement(False, "reject", None, failed_checks=("contract.value_fits_kind",)),
                    ),
                    judgements=(0.006,),
                )
            )
    return out
