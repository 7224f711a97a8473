"""Reads: the queue of what waits for a person, one observation's history of verdicts, agreement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Q
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.selectors import projects_for_user
from apps.review.domain import agreement, value_of_information
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
    limit: int = QUEUE_LIMIT,
) -> tuple[list[QueueItem], int]:
    """(rows by falling value of information, how many there are in all). An unknown view reads as ``open``."""
    rows = ObservationRow.objects.filter(run__project__in=projects_for_user(user)).select_related(
        "run__project", "claim__reviewer"
    )
    if project_id:
        rows = rows.filter(run__project_id=project_id)
    if task_type:
        rows = rows.filter(task_type=task_type)
    if tool:
        rows = rows.filter(tool=tool)
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
    items.sort(key=lambda i: (-i.value, i.row.recorded_at))
    return items, total


def review_count(user: User) -> int:
    """How many observations wait for a person in the user's projects."""
    return review_queue(user, limit=0)[1]


def verdicts_of(observation_id: str) -> list[VerdictRecord]:
    """All verdicts on an observation, in order, undone and replaced ones too."""
    return list(VerdictRecord.objects.filter(observation_id=observation_id).select_related("author").order_by("given_at"))


def reviewers_agreement(user: User) -> dict[str, float | int | None]:
    """Agreement of the first verdicts of different reviewers on the same observation, over the user's projects."""
    firsts: dict[str, dict[Any, str]] = {}
    for v in VerdictRecord.objects.filter(
        observation__run__project__in=projects_for_user(user), undone_at__isnull=True, value__in=["accept", "reject"]
    ).order_by("given_at"):
        firsts.setdefault(v.observation_id, {}).setdefault(v.author_id, v.value)
    pairs = [(vs[0], vs[1]) for vs in (list(d.values()) for d in firsts.values()) if len(vs) > 1]
    return agreement(pairs)
