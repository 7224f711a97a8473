"""Reads: the queue of what waits for a person, one observation's history of verdicts, agreement."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.selectors import projects_for_user
from apps.review import reliability
from apps.review.domain import agreement, krippendorff_alpha, value_of_information
from apps.review.models import Claim, VerdictRecord
from apps.runs.models import ObservationRow

QUEUE_LIMIT = 500
VIEWS = {
    "open": "Waiting for a person",
    "rejected": "Rejected by the machine",
    "unsure": "Unsure",
    "audit": "Drawn for audit",
    "settled": "Settled by a person",
}


@dataclass(frozen=True, slots=True)
class QueueItem:
    """One row of the review list."""

    row: ObservationRow
    value: float
    claimed_by: str
    why: str


def review_queue(
    user: User,
    *,
    view: str = "open",
    project_id: Any | None = None,
    task_type: str = "",
    tool: str = "",
    decision: str = "",
    check: str = "",
    is_blind: bool = False,
    limit: int = QUEUE_LIMIT,
) -> tuple[list[QueueItem], int]:
    """(rows by falling value of information, how many there are in all). An unknown view reads as ``open``.

    Blind, the order is by chance (fixed for each observation): by value it would tell how sure the machine is.
    """
    rows = ObservationRow.objects.filter(run__project__in=projects_for_user(user)).select_related(
        "run__project", "claim__reviewer"
    )
    rows = rows.exclude(call_key__startswith="correction:")  # a person's own: nothing to judge
    if project_id:
        rows = rows.filter(run__project_id=project_id)
    if task_type:
        rows = rows.filter(task_type=task_type)
    if tool:
        rows = rows.filter(tool=tool)
    if decision:
        rows = rows.filter(decision=decision)
    if check:
        rows = rows.filter(failed_checks__contains=[check])
    undecided_by_machine = Q(decision__in=["reject", "request_evidence"])
    match view:
        case "rejected":
            rows = rows.filter(decision="reject", verdict="")
        case "unsure":
            rows = rows.filter(Q(verdict="unsure") | Q(decision="request_evidence", verdict=""))
        case "audit":
            rows = rows.filter(is_audit=True, decision="accept", verdict="")
        case "settled":
            rows = rows.filter(verdict__in=["accept", "reject"])
        case _:
            rows = rows.filter(
                Q(verdict="unsure") | (Q(verdict="") & (undecided_by_machine | Q(is_audit=True, decision="accept")))
            )
    total = rows.count()
    now = timezone.now()
    items = []
    for row in rows.order_by("-recorded_at")[:limit]:
        claim: Claim | None = getattr(row, "claim", None)
        blocks = row.decision != "accept" and row.run.is_abstained
        why = (
            "drawn at random for audit"
            if row.is_audit and row.decision == "accept"
            else "a person was unsure"
            if row.verdict == "unsure"
            else "the answer waits for it"
            if blocks
            else "the machine accepted it"
            if row.decision == "accept"
            else "the machine did not accept it"
        )
        items.append(
            QueueItem(
                row,
                value_of_information(p_correct=row.p_correct, is_under_answer=row.is_under_answer, blocks_answer=blocks),
                claim.reviewer.get_username() if claim and claim.until > now and claim.reviewer_id != user.pk else "",
                why,
            )
        )
    if is_blind:
        items.sort(key=lambda i: sha256(i.row.pk.encode()).digest())
    else:
        items.sort(key=lambda i: (-i.value, i.row.recorded_at))
    return items, total


def review_count(user: User) -> int:
    """How many observations wait for a person in the user's projects."""
    return review_queue(user, limit=0)[1]


def verdicts_of(observation_id: str) -> list[VerdictRecord]:
    """All verdicts on an observation, in order, undone and replaced ones too."""
    return list(VerdictRecord.objects.filter(observation_id=observation_id).select_related("author").order_by("given_at"))


def reviewers_agreement(user: User) -> dict[str, Any]:
    """Agreement of the first verdicts of different reviewers on the same observation, over the user's projects."""
    return agreement(_first_pairs(VerdictRecord.objects.filter(observation__run__project__in=projects_for_user(user))))


def _first_pairs(records: QuerySet[VerdictRecord]) -> list[tuple[str, str]]:
    """(first reviewer's verdict, second reviewer's) of each observation that two people judged right or wrong, in order."""
    return [(values[0], values[1]) for values in _first_values(records)]


def _first_values(records: QuerySet[VerdictRecord]) -> list[list[str]]:
    """The first verdict of each reviewer, in order, of every observation that two or more judged right or wrong."""
    firsts: dict[str, dict[Any, str]] = {}
    for v in records.filter(undone_at__isnull=True, value__in=["accept", "reject"]).order_by("given_at"):
        firsts.setdefault(v.observation_id, {}).setdefault(v.author_id, v.value)
    return [list(d.values()) for d in firsts.values() if len(d) > 1]


def _judged(record: VerdictRecord) -> reliability.Judged:
    row = record.observation
    return reliability.Judged(
        row.p_correct, row.decision, record.value == "accept", record.shown_probability, is_blind=record.is_blind
    )


def verifier_figures() -> dict[str, Any]:
    """What people's verdicts say of the verifier, over all projects: counts and shares, no observation by name.

    One verdict an observation: the one that stands, which is the adjudicated one where reviewers disagreed.
    """
    standing = VerdictRecord.objects.filter(undone_at__isnull=True, replaced_by__isnull=True).select_related("observation")
    labelled = list(standing.filter(value__in=["accept", "reject"]).exclude(observation__decision=""))
    judged = [_judged(record) for record in labelled]
    rows = ObservationRow.objects.filter(decision="accept")
    pairs = _first_pairs(VerdictRecord.objects.all())
    return {
        "n": len(judged),
        "n_unsure": standing.filter(value="unsure").count(),
        "n_blind": sum(j.is_blind for j in judged),
        "n_by_rule": sum(j.p is None for j in judged),
        "reliability": reliability.reliability(judged),
        "confusion": reliability.confusion(judged),
        "thresholds": reliability.at_thresholds(judged),
        "overrides": reliability.overrides(judged),
        "audit": reliability.audit(
            accepted=rows.count(),
            drawn=rows.filter(is_audit=True).count(),
            judged=[_judged(r) for r in labelled if r.observation.is_audit and r.observation.decision == "accept"],
        ),
        "agreement": agreement(pairs)
        | {"alpha": krippendorff_alpha(_first_values(VerdictRecord.objects.all()))}
        | {"cells": [[pairs.count((a, b)) for b in ("accept", "reject")] for a in ("accept", "reject")]},
        "by_tool": _by(labelled, "tool"),
        "by_task_type": _by(labelled, "task_type"),
    }


def _by(labelled: list[VerdictRecord], column: str) -> list[dict[str, Any]]:
    """Calibration and overrides of each tool or task type that has labels, most labels first."""
    groups: dict[str, list[reliability.Judged]] = {}
    for record in labelled:
        groups.setdefault(getattr(record.observation, column), []).append(_judged(record))
    return [
        {"name": name, **reliability.overrides(judged), "labels": len(judged), "reliability": reliability.reliability(judged)}
        for name, judged in sorted(groups.items(), key=lambda kv: -len(kv[1]))
    ]
