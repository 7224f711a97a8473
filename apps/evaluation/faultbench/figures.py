"""Figures of PROTOCOL.md section 8 from the bench's outcomes: by configuration, family, fault and task type, with intervals.

Intervals are percentile bootstraps over cases: runs of one case are not independent of each other.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from apps.evaluation.faultbench.runner import Outcome

Rows = Sequence[Outcome]
LEVEL = 0.95
BINS = 10


def rate(num: float, den: float) -> float | None:
    """num / den, None where there is nothing to divide by."""
    return None if den == 0 else num / den


def mean(values: Sequence[float]) -> float | None:
    """None of nothing."""
    return rate(sum(values), len(values))


def summary(outcomes: Rows, *, n_boot: int = 400, seed: int = 7) -> dict[str, Any]:
    """All tables; JSON-ready."""
    configurations = list(dict.fromkeys(o.configuration for o in outcomes))

    def of(configuration: str) -> Rows:
        return [o for o in outcomes if o.configuration == configuration]

    out: dict[str, Any] = {
        "configurations": {c: figures(of(c)) | intervals(of(c), n_boot, seed) for c in configurations},
        "verifier": {c: verifier_figures(of(c)) for c in configurations if c != "none"},
        "requests": {c: request_ends(of(c)) for c in configurations if c != "none"},
        "settled": {c: settled(of(c)) for c in configurations if c != "none"},
        "caught_by": {c: caught_by(of(c)) for c in configurations if c != "none"},
    }
    for table, key in (("families", "family"), ("faults", "fault"), ("task_types", "task_type")):
        names = sorted({getattr(o, key) for o in outcomes if o.fault})
        out[table] = {
            n: {c: brief([o for o in of(c) if getattr(o, key) == n and o.fault]) for c in configurations} for n in names
        }
    if "none" in configurations:
        out["drop"] = {c: drop(of("none"), of(c), n_boot, seed) for c in configurations if c != "none"}
    return out


def figures(rows: Rows) -> dict[str, Any]:
    """One row of the table of configurations."""
    faulty, honest = [o for o in rows if o.fault], [o for o in rows if not o.fault]
    struck = [o for o in faulty if o.is_incorrect]
    right = [j for o in rows for j in o.observations if j.is_right]
    judgements = sorted(s for o in rows for s in o.judgements)
    return {
        "runs": len(rows),
        "honest_runs": len(honest),
        "runs_with_incorrect": len(struck),
        "R_dep": rate(sum(o.depends_on_tools for o in rows), len(rows)),
        "R_err": rate(len(struck), sum(o.depends_on_tools for o in faulty)),
        "R_prop": r_prop(rows),
        "R_prop_abstained_counts": rate(sum(not o.is_right for o in struck), len(struck)),
        "incorrect_accepted": rate(sum(o.has_accepted_incorrect for o in struck), len(struck)),
        "answer_accuracy": rate(sum(o.is_right for o in rows), len(rows)),
        "wrong_answers": rate(sum(o.is_wrong for o in rows), len(rows)),
        "abstained": rate(sum(o.is_abstained for o in rows), len(rows)),
        "honest_accuracy": rate(sum(o.is_right for o in honest), len(honest)),
        "right_observations": len(right),
        "right_rejected": rate(sum(j.end == "reject" for j in right), len(right)),
        "right_left_open": rate(sum(j.end == "request_evidence" for j in right), len(right)),
        "requests": sum(len(o.requests) for o in rows),
        "tool_calls_per_run": rate(sum(o.tool_calls for o in rows), len(rows)),
        "seconds_per_run": rate(sum(o.elapsed_s for o in rows), len(rows)),
        "verification_share_of_run": rate(sum(o.verification_s for o in rows), sum(o.elapsed_s for o in rows)),
        "judgement_ms_p50": None if not judgements else 1000 * judgements[len(judgements) // 2],
        "judgement_ms_p95": None if not judgements else 1000 * judgements[int(0.95 * (len(judgements) - 1))],
    }


def brief(rows: Rows) -> dict[str, Any]:
    """One cell of the tables by family, fault and task type."""
    struck = [o for o in rows if o.is_incorrect]
    return {
        "runs": len(struck),
        "R_prop": r_prop(rows),
        "incorrect_accepted": rate(sum(o.has_accepted_incorrect for o in struck), len(struck)),
        "right_answers": rate(sum(o.is_right for o in struck), len(struck)),
    }


def r_prop(rows: Rows) -> float | None:
    """Share of wrong final answers among runs with an incorrect observation; an abstention is not a wrong answer."""
    struck = [o for o in rows if o.is_incorrect]
    return rate(sum(o.is_wrong for o in struck), len(struck))


def bootstrap(rows: Rows, figure: Callable[[Rows], float | None], n_boot: int, seed: int) -> list[float] | None:
    """[low, high] of a figure over resampled cases; None where it is not defined."""
    by_case: dict[str, list[Outcome]] = {}
    for o in rows:
        by_case.setdefault(o.case, []).append(o)
    names, draw, found = sorted(by_case), random.Random(seed), []
    for _ in range(n_boot if names else 0):
        value = figure([o for _ in names for o in by_case[draw.choice(names)]])
        if value is not None:
            found.append(value)
    if not found:
        return None
    found.sort()
    tail = (1 - LEVEL) / 2
    return [found[int(tail * (len(found) - 1))], found[round((1 - tail) * (len(found) - 1))]]


def intervals(rows: Rows, n_boot: int, seed: int) -> dict[str, Any]:
    struck = [o for o in rows if o.is_incorrect]
    return {
        "R_prop_interval": bootstrap(struck, r_prop, n_boot, seed),
        "answer_accuracy_interval": bootstrap(rows, lambda r: rate(sum(o.is_right for o in r), len(r)), n_boot, seed),
        "right_rejected_interval": bootstrap(rows, lambda r: figures(r)["right_rejected"], min(n_boot, 200), seed),
    }


def drop(before: Rows, after: Rows, n_boot: int, seed: int) -> dict[str, Any]:
    """How far R_prop falls, over the same runs, in points of 100; paired over cases."""
    rows = [o for o in (*before, *after) if o.is_incorrect]
    first = before[0].configuration if before else ""

    def fall(some: Rows) -> float | None:
        one, other = r_prop([o for o in some if o.configuration == first]), r_prop([o for o in some if o.configuration != first])
        return None if one is None or other is None else 100 * (one - other)

    return {"points": fall(rows), "interval": bootstrap(rows, fall, n_boot, seed)}


# --- the verifier -------------------------------------------------------------------------------------------------------------
def verifier_figures(rows: Rows) -> dict[str, Any]:
    """Observations against what is known of them: confusion at the end, `reject` as a detector, and calibration of the
    probabilities that were given (observations that rules stopped have none)."""
    known = [j for o in rows for j in o.observations if j.is_right is not None and j.end]
    ends = ("accept", "request_evidence", "reject")
    confusion = {
        name: {end: sum(j.end == end for j in known if j.is_right is side) for end in ends}
        for name, side in (("right", True), ("incorrect", False))
    }
    rejected = confusion["right"]["reject"] + confusion["incorrect"]["reject"]
    stopped = sum(confusion["incorrect"][e] for e in ("reject", "request_evidence"))
    total = sum(confusion["incorrect"].values())
    return {
        "confusion": confusion,
        "reject_precision": rate(confusion["incorrect"]["reject"], rejected),
        "reject_recall": rate(confusion["incorrect"]["reject"], total),
        "not_accepted_recall": rate(stopped, total),
        "calibration": calibration([(j.p_first, bool(j.is_right)) for j in known if j.p_first is not None]),
        "by_tool": {
            tool: {
                "right_accepted": rate(
                    sum(j.end == "accept" for j in known if j.is_right and j.tool == tool),
                    sum(bool(j.is_right) for j in known if j.tool == tool),
                ),
                "incorrect_accepted": rate(
                    sum(j.end == "accept" for j in known if j.is_right is False and j.tool == tool),
                    sum(j.is_right is False for j in known if j.tool == tool),
                ),
                "n": sum(j.tool == tool for j in known),
            }
            for tool in sorted({j.tool for j in known})
        },
    }


def calibration(pairs: Iterable[tuple[float, bool]], n_bins: int = BINS) -> dict[str, Any]:
    """Brier score, expected calibration error over equal-width bins, AUROC, and the bins of the reliability diagram."""
    pairs = list(pairs)
    n = len(pairs)
    bins = []
    for k in range(n_bins):
        inside = [(p, y) for p, y in pairs if min(n_bins - 1, int(p * n_bins)) == k]
        if inside:
            bins.append(
                {
                    "from": k / n_bins,
                    "to": (k + 1) / n_bins,
                    "n": len(inside),
                    "mean_p": sum(p for p, _ in inside) / len(inside),
                    "share_right": sum(y for _, y in inside) / len(inside),
                }
            )
    return {
        "n": n,
        "n_right": sum(y for _, y in pairs),
        "brier": rate(sum((p - y) ** 2 for p, y in pairs), n),
        "ece": rate(sum(b["n"] * abs(b["mean_p"] - b["share_right"]) for b in bins), n),
        "auroc": auroc(pairs),
        "bins": bins,
    }


def auroc(pairs: Sequence[tuple[float, bool]]) -> float | None:
    """Probability that a right one has the higher score, ties as halves (Mann-Whitney); None with one class only."""
    n_right, n_wrong = sum(y for _, y in pairs), sum(not y for _, y in pairs)
    if not n_right or not n_wrong:
        return None
    below, total = 0, 0.0
    for score in sorted({p for p, _ in pairs}):
        rights, wrongs = sum(y for p, y in pairs if p == score), sum(not y for p, y in pairs if p == score)
        total += rights * (below + wrongs / 2)
        below += wrongs
    return total / (n_right * n_wrong)


# --- requests and catches -----------------------------------------------------------------------------------------------------
def request_ends(rows: Rows) -> list[dict[str, Any]]:
    """Evidence requests by kind: how many, how they were answered, what they did to the probability, and how the observation
    ended, for right and for incorrect observations apart."""
    asked = [r for o in rows for r in o.requests]
    out = []
    for kind in sorted({r.kind for r in asked}):
        mine = [r for r in asked if r.kind == kind]
        row: dict[str, Any] = {"kind": kind, "n": len(mine), **Counter(r.outcome for r in mine)}
        for name, side in (("right", True), ("incorrect", False)):
            those = [r for r in mine if r.is_right is side]
            moved = [r.p_after - r.p_before for r in those if r.p_after is not None and r.p_before is not None]
            row[name] = {
                "n": len(those),
                "accepted": sum(r.after == "accept" for r in those),
                "rejected": sum(r.after == "reject" for r in those),
                "replaced": sum(r.after == "replaced" for r in those),
                "left_to_a_person": sum(r.after == "request_evidence" for r in those),
                "p_before": mean([r.p_before for r in those if r.p_before is not None]),
                "p_after": mean([r.p_after for r in those if r.p_after is not None]),
                "mean_change_of_p": rate(sum(moved), len(moved)),
            }
        out.append(row)
    return out


def settled(rows: Rows) -> dict[str, Any]:
    """The paper's Table 8: tasks with an observation that was not accepted at once; of these with an executed evidence request;
    of these with an accepted observation afterwards; of these answered right; and the rejected calls of all."""
    failed = [o for o in rows if any(j.first in ("reject", "request_evidence") for j in o.observations)]
    asked = [o for o in failed if any(r.outcome in ("answered", "failed") for r in o.requests)]
    kept = [o for o in asked if any(r.after in ("accept", "replaced") for r in o.requests)]
    return {
        "tasks": len(rows),
        "with_failed_observation": len(failed),
        "with_requests": len(asked),
        "accepted_afterwards": len(kept),
        "answered_right": sum(o.is_right for o in kept),
        "answered_wrong": sum(o.is_wrong for o in kept),
        "rejected_calls": sum(j.end == "reject" for o in rows for j in o.observations),
    }


def caught_by(rows: Rows) -> list[dict[str, Any]]:
    """What stopped incorrect observations first: a check by name, or the stage; and how many nothing stopped."""
    found: Counter[str] = Counter()
    for o in rows:
        for j in o.observations:
            if j.is_right is False:
                found["nothing: accepted" if j.end == "accept" else j.failed_checks[0] if j.failed_checks else j.stage] += 1
    return [{"by": name, "n": n} for name, n in found.most_common()]
