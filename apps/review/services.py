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
from apps.core.evidence.observation import Observation
from apps.core.ids import uuid7
from apps.prior.services import prior_record_verdict, prior_undo
from apps.review.corrections import correctable, corrected_layer, corrected_value
from apps.review.models import Claim, VerdictRecord
from apps.runs.assembly import layers
from apps.runs.models import ObservationRow, Run
from apps.runs.selectors import access_observation, run_state
from apps.runs.services import event_append, run_revise

VALUES = ("accept", "reject", "unsure")
REASONS = frozenset(name for name, _ in VERDICT_REASONS)
CLAIM_FOR = timedelta(minutes=15)


def verdict_give(
    *,
    user: User,
    observation_id: str,
    value: str,
    reason: str = "",
    note: str = "",
    is_blind: bool = False,
    corrected: Observation | None = None,
    redoes: str = "",
    seen: str | None = None,
    enqueue: bool = True,
) -> VerdictRecord:
    """Records a person's verdict. It stands beside the machine's decision; the run is recomputed after the commit.

    ``accept`` and ``reject`` move the prior, ``unsure`` does not; a newer verdict on the same observation compensates the
    movement of the former, and the same verdict of the same person given twice is one. ``corrected``: the observation as the
    person would have it, of a rejection (``correction_give``); ``redoes``: the undone verdict that is given again
    (``verdict_redo``); ``seen``: the verdict that stood when the person looked ('' for none), where that is known. UserError:
    BAD_ARGUMENT (value or reason unknown, reject without a reason), CONFLICT (not decided yet, itself the value of a person, or
    another's is newer than ``seen``), FORBIDDEN (another's verdict stands and the role may not adjudicate); NotFoundError for
    others' observations.
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
    if held.corrects:
        raise UserError(
            "CONFLICT",
            "This is the value of a person.",
            f"It stands for observation {held.observation.step}, which the machine made.",
            "Say there what you see; a newer verdict takes its place.",
            status=409,
        )
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
        if redoes:
            _require_next(row, redoes)
        now = timezone.now()
        former = list(
            VerdictRecord.objects.select_for_update().filter(observation=row, undone_at__isnull=True, replaced_by__isnull=True)
        )
        for f in former:
            # a double click or a repeated request: one verdict, which one undo takes back
            same = (f.author_id, f.value, f.reason, f.note) == (user.pk, value, reason, note)
            if same and _says_the_same(row, f, corrected):
                return f
        others = [f for f in former if f.author_id != user.pk]
        _require_settling(user, row.run.project, others)
        if seen is not None and any(str(f.id) != seen for f in others):
            raise UserError(
                "CONFLICT",
                "Another person has spoken meanwhile.",
                f"{others[0].author.get_username() if others[0].author else 'Somebody'} said so after you had opened it.",
                "Reload the page, and look at what stands now.",
                status=409,
            )
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
            corrected_id=corrected.id if corrected is not None else "",
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
                corrected=corrected,
                redoes=redoes,
            ),
        )
        run_revise(run_id=row.run_id, cause=str(record.id), enqueue=enqueue)
        Claim.objects.filter(observation=row, reviewer=user).delete()
    return record


def _says_the_same(row: ObservationRow, former: VerdictRecord, corrected: Observation | None) -> bool:
    """Whether a verdict carries the same correction as a former one, or neither carries one."""
    if corrected is None or not former.corrected_id:
        return corrected is None and not former.corrected_id
    held = run_state(row.run_id).observations.get(former.corrected_id)
    return held is not None and held.observation.result == corrected.result


def correction_give(
    *,
    user: User,
    observation_id: str,
    reason: str,
    value: str = "",
    unit: str = "",
    remove: Sequence[str] = (),
    note: str = "",
    seen: str | None = None,
    enqueue: bool = True,
) -> VerdictRecord:
    """A person's own value, or the layer without the parts named in ``remove``: a rejection of the machine's observation that
    carries what it should be. The answer is computed again from it; undone like any verdict.

    UserError: BAD_ARGUMENT (no value of its kind, one that cannot be, the machine's own, an unknown part or reason), CONFLICT
    (nothing can be changed here, or another has spoken since ``seen``), FORBIDDEN; NotFoundError for others' observations.
    """
    row, state = access_observation(user, observation_id, "verdict")
    held = state.observations[row.id]
    store = layers(row.run.project_id)
    can_be = correctable(state, held, store)
    if not can_be.kind:
        raise UserError("CONFLICT", "Nothing can be changed here.", can_be.why_not, "Reload the page.", status=409)
    author, now = user.get_username(), timezone.now()
    corrected = (
        corrected_layer(held, can_be, remove, store, author=author, at=now)
        if can_be.kind == "parts"
        else corrected_value(held, can_be, value, unit, author=author, at=now)
    )
    return verdict_give(
        user=user,
        observation_id=observation_id,
        value="reject",
        reason=reason or "wrong_value",
        note=note,
        corrected=corrected,
        seen=seen,
        enqueue=enqueue,
    )


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
    record = _access_verdict(user, verdict_id)
    with transaction.atomic():
        row = _lock(record.observation)
        record = VerdictRecord.objects.select_for_update().get(pk=record.pk)
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


def _require_next(row: ObservationRow, verdict_id: str) -> None:
    """UserError CONFLICT (409) unless the verdict is the one that would be given again next."""
    next_one = run_state(row.run_id).observations[row.pk].redoable
    if next_one is None or next_one.id != verdict_id:
        raise UserError(
            "CONFLICT",
            "This verdict cannot be given again.",
            "It was not undone, was given again already, or a newer verdict stands after it.",
            "Reload the page to see what stands now.",
            status=409,
        )


def verdict_redo(*, user: User, verdict_id: Any, enqueue: bool = True) -> VerdictRecord:
    """Gives an undone verdict again: prior, effective decision and answer are as before the undo.

    The newest undone one comes first; a new verdict clears what could be given again. UserError CONFLICT where it is not the next
    one, FORBIDDEN where it was another's: a verdict is its author's word; NotFoundError for others' observations.
    """
    record = _access_verdict(user, verdict_id)
    if record.author_id != user.pk:
        author = record.author.get_username() if record.author else "somebody who left"
        raise UserError(
            "FORBIDDEN",
            "It was another person's verdict.",
            f"It was {author}'s word; nobody else gives it again.",
            "Say what you see yourself.",
            status=403,
        )
    _require_next(record.observation, str(record.id))
    mine = run_state(record.observation.run_id).observations.get(record.corrected_id) if record.corrected_id else None
    return verdict_give(
        user=user,
        observation_id=record.observation_id,
        value=record.value,
        reason=record.reason,
        note=record.note,
        is_blind=record.is_blind,
        corrected=mine.observation if mine is not None else None,
        redoes=str(record.id),
        enqueue=enqueue,
    )


def _access_verdict(user: User, verdict_id: Any) -> VerdictRecord:
    """The verdict, where the user may judge in its project. NotFoundError otherwise, also for a malformed id."""
    try:
        key = UUID(str(verdict_id))
    except ValueError:
        raise NotFoundError("verdict") from None
    record = VerdictRecord.objects.select_related("observation__run", "author").filter(pk=key).first()
    if record is None:
        raise NotFoundError("verdict")
    try:
        access_project_by_id(user, record.observation.run.project_id, "verdict")
    except NotFoundError:
        raise NotFoundError("verdict") from None
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


def verdicts_redo(*, user: User, verdict_ids: Sequence[str], enqueue: bool = True) -> BulkResult:
    """Gives many verdicts again that were taken back, each for itself, as ``verdict_redo`` does."""
    records: list[VerdictRecord] = []
    refused: list[str] = []
    for verdict_id in list(dict.fromkeys(verdict_ids))[:BULK_MOST]:
        try:
            records.append(verdict_redo(user=user, verdict_id=verdict_id, enqueue=enqueue))
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
