"""Writes: a verdict is given or undone; the run's log, the prior and what depends on it follow, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, cast
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from apps.accounts.models import Project, User
from apps.accounts.selectors import access_project_by_id, can
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.decision import VERDICT_REASONS, Verdict, VerdictValue
from apps.core.evidence.events import VerdictGiven, VerdictUndone
from apps.core.ids import uuid7
from apps.prior.services import prior_record_verdict, prior_undo
from apps.review.models import Claim, VerdictRecord
from apps.runs.models import ObservationRow, Run
from apps.runs.selectors import access_observation
from apps.runs.services import event_append, run_revise

VALUES = ("accept", "reject", "unsure")
REASONS = frozenset(name for name, _ in VERDICT_REASONS)
CLAIM_FOR = timedelta(minutes=15)


def verdict_give(
    *, user: User, observation_id: str, value: str, reason: str = "", note: str = "", is_blind: bool = False, enqueue: bool = True
) -> VerdictRecord:
    """Records a person's verdict. It stands beside the machine's decision; the run is recomputed after the commit.

    ``accept`` and ``reject`` move the prior, ``unsure`` does not; a newer verdict on the same observation compensates the
    movement of the former, and the same verdict of the same person given twice is one. UserError: BAD_ARGUMENT (value or
    reason unknown, reject without a reason), FORBIDDEN (another's verdict stands and the role may not adjudicate);
    NotFoundError for others' observations.
    """
    if value not in VALUES:
        raise UserError("BAD_ARGUMENT", f"“{value}” is no verdict.", f"Known are {', '.join(VALUES)}.", "Choose one of them.")
    if reason and reason not in REASONS:
        raise UserError(
            "BAD_ARGUMENT", f"“{reason}” is no reason.", f"Known are {', '.join(sorted(REASONS))}.", "Choose one of them."
        )
    if value == "reject" and not reason:
        raise UserError(
            "BAD_ARGUMENT",
            "A rejection needs a reason.",
            "The recomputation and the prior's history name it.",
            "Choose one of the six reasons.",
        )
    if len(note) > 2000:
        raise UserError("BAD_ARGUMENT", "The note is too long.", f"It has {len(note)} characters; 2,000 are kept.", "Shorten it.")
    row, state = access_observation(user, observation_id, "verdict")
    held = state.observations[row.id]
    if held.decision is None:
        raise UserError(
            "CONFLICT",
            "The observation is not decided yet.",
            "Its checks are still running.",
            "Wait until the machine has decided; then say what you see.",
            status=409,
        )
    with transaction.atomic():
        _lock(row)
        now = timezone.now()
        former = list(
            VerdictRecord.objects.select_for_update().filter(observation=row, undone_at__isnull=True, replaced_by__isnull=True)
        )
        for f in former:
            # a double click or a repeated request: one verdict, which one undo takes back
            if (f.author_id, f.value, f.reason, f.note) == (user.pk, value, reason, note):
                return f
        _require_settling(user, row.run.project, [f for f in former if f.author_id != user.pk])
        shown = row.audit_probability if row.decision == "accept" and row.is_audit else 1.0
        record = VerdictRecord(
            id=uuid7(),
            observation=row,
            author=user,
            value=value,
            reason=reason,
            note=note,
            given_at=now,
            shown_probability=shown or 1.0,
            is_blind=is_blind,
            is_adjudication=any(f.author_id != user.pk and f.value != value for f in former),
        )
        record.prior_event = _move_prior(record, row, user)
        record.save()
        for f in former:
            if f.prior_event is not None:
                prior_undo(event_id=f.prior_event, author=user.get_username(), reason=f"replaced by verdict {record.id}")
            f.replaced_by = record
            f.save(update_fields=["replaced_by"])
        event_append(
            run_id=row.run_id,
            event=VerdictGiven(
                at=now,
                verdict=Verdict(
                    id=str(record.id),
                    observation_id=row.id,
                    value=cast(VerdictValue, value),
                    reason=reason,
                    note=note,  # type: ignore[arg-type]
                    author=user.get_username(),
                    given_at=now,
                    shown_probability=record.shown_probability,
                    blind=is_blind,
                ),
            ),
        )
        run_revise(run_id=row.run_id, cause=str(record.id), enqueue=enqueue)
        Claim.objects.filter(observation=row, reviewer=user).delete()
    return record


def _require_settling(user: User, project: Project, others: Sequence[VerdictRecord]) -> None:
    """Another's verdict is settled by who may adjudicate. UserError FORBIDDEN (403) for everybody else."""
    if others and not user.is_staff and not can(user, project, "adjudicate"):
        author = others[0].author.get_username() if others[0].author else "somebody who left"
        raise UserError(
            "FORBIDDEN",
            "Another person's verdict stands here.",
            f"It is {author}'s; to settle a disagreement takes the role of a reviewer.",
            "Ask a reviewer of the project to look at it.",
            status=403,
        )


def _lock(row: ObservationRow) -> ObservationRow:
    """Locks the run, then the observation: the order in which a worker that appends events takes them."""
    Run.objects.select_for_update().get(pk=row.run_id)
    return ObservationRow.objects.select_for_update().get(pk=row.pk)


def _move_prior(record: VerdictRecord, row: ObservationRow, user: User) -> UUID | None:
    if record.value == "unsure":
        return None
    event = prior_record_verdict(
        task_type=row.task_type,
        tool=row.tool,
        coarse=row.coarse,
        fine=row.fine,
        is_success=record.value == "accept",
        author=user.get_username(),
        reason=record.reason,
        observation_id=row.id,
        shown_probability=record.shown_probability,
    )
    return UUID(str(event.pk))


def verdict_undo(*, user: User, verdict_id: Any, enqueue: bool = True) -> VerdictRecord:
    """Takes a verdict back by compensating events: prior, effective decision and answer are as before it.

    A verdict that it had replaced stands again. UserError CONFLICT where it was undone or replaced already, FORBIDDEN where it
    is another's and the role may not adjudicate.
    """
    try:
        key = UUID(str(verdict_id))
    except ValueError:
        raise NotFoundError("verdict") from None
    record = VerdictRecord.objects.select_related("observation__run").filter(pk=key).first()
    if record is None:
        raise NotFoundError("verdict")
    try:
        access_project_by_id(user, record.observation.run.project_id, "verdict")
    except NotFoundError:
        raise NotFoundError("verdict") from None
    with transaction.atomic():
        row = _lock(record.observation)
        record = VerdictRecord.objects.select_for_update().get(pk=key)
        if record.undone_at is not None or record.replaced_by_id is not None:
            raise UserError(
                "CONFLICT",
                "This verdict no longer stands.",
                "It was undone or replaced meanwhile.",
                "Reload the page to see what stands now.",
                status=409,
            )
        _require_settling(user, row.run.project, [record] if record.author_id != user.pk else [])
        record.undone_at = timezone.now()
        record.save(update_fields=["undone_at"])
        author = user.get_username()
        if record.prior_event is not None:
            prior_undo(event_id=record.prior_event, author=author, reason=f"verdict {record.id} undone")
        for former in VerdictRecord.objects.select_for_update().filter(replaced_by=record, undone_at__isnull=True):
            former.replaced_by = None
            former.prior_event = _move_prior(former, row, former.author or user)
            former.save(update_fields=["replaced_by", "prior_event"])
        event_append(run_id=row.run_id, event=VerdictUndone(at=record.undone_at, verdict_id=str(record.id), author=author))
        run_revise(run_id=row.run_id, cause=f"undo {record.id}", enqueue=enqueue)
    return record


BULK_MOST = 100


@dataclass(frozen=True, slots=True)
class BulkResult:
    """What became of a verdict on many observations: those recorded, and why the others were not."""

    records: tuple[VerdictRecord, ...]
    refused: tuple[str, ...]


def verdicts_give(
    *, user: User, observation_ids: Sequence[str], value: str, reason: str = "", enqueue: bool = True
) -> BulkResult:
    """One verdict on many observations, each recorded for itself: one that is refused does not keep the others back.

    UserError BAD_ARGUMENT for none or more than BULK_MOST; FORBIDDEN where the role may not review in a project of theirs.
    """
    ids = list(dict.fromkeys(observation_ids))
    if not 1 <= len(ids) <= BULK_MOST:
        raise UserError(
            "BAD_ARGUMENT",
            "Nothing is selected." if not ids else "Too many are selected.",
            f"{len(ids)} were chosen; 1 to {BULK_MOST} are judged at once.",
            "Select some of the list.",
        )
    for row in ObservationRow.objects.filter(pk__in=ids).select_related("run__project"):
        access_project_by_id(user, row.run.project_id, "review")
    records: list[VerdictRecord] = []
    refused: list[str] = []
    for observation_id in ids:
        try:
            records.append(verdict_give(user=user, observation_id=observation_id, value=value, reason=reason, enqueue=enqueue))
        except (UserError, NotFoundError) as error:
            if isinstance(error, UserError) and error.code == "BAD_ARGUMENT":
                raise
            refused.append(str(error))
    return BulkResult(tuple(records), tuple(refused))


def verdicts_undo(*, user: User, verdict_ids: Sequence[str], enqueue: bool = True) -> BulkResult:
    """Takes many verdicts back, the newest first, each for itself."""
    records: list[VerdictRecord] = []
    refused: list[str] = []
    for verdict_id in reversed(list(dict.fromkeys(verdict_ids))[:BULK_MOST]):
        try:
            records.append(verdict_undo(user=user, verdict_id=verdict_id, enqueue=enqueue))
        except (UserError, NotFoundError) as error:
            refused.append(str(error))
    return BulkResult(tuple(records), tuple(refused))


def claim_take(*, user: User, observation_id: str) -> Claim:
    """Marks an observation as open with this reviewer. UserError CONFLICT while another's claim runs."""
    row, _ = access_observation(user, observation_id, "verdict")
    now = timezone.now()
    with transaction.atomic():
        ObservationRow.objects.select_for_update().get(pk=row.pk)
        held = Claim.objects.filter(observation=row).first()
        if held is not None and held.reviewer_id != user.pk and held.until > now:
            raise UserError(
                "CONFLICT",
                "Somebody has this one open.",
                f"It is {held.reviewer.get_username()}'s until {held.until:%H:%M} UTC.",
                "Take the next one.",
                status=409,
            )
        claim, _ = Claim.objects.update_or_create(observation=row, defaults={"reviewer": user, "until": now + CLAIM_FOR})
    return claim
