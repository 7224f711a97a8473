"""Writes: a run is started, events are appended, a run is executed, revised, resumed, cancelled."""

from __future__ import annotations

import logging
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib.gis.geos import GEOSException, GEOSGeometry
from django.db import InterfaceError, connection, transaction
from django.db import OperationalError as DatabaseGone
from django.utils import timezone
from kombu.exceptions import OperationalError

from apps.accounts.models import Project, User
from apps.core.errors import UserError
from apps.core.evidence.events import (
    AnswerGiven,
    DecisionMade,
    Event,
    ObservationRecorded,
    PlanProposed,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    VerdictGiven,
    VerdictUndone,
)
from apps.core.evidence.landmark import Landmark
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Question
from apps.core.evidence.prompt import Prompt
from apps.core.geo.vector import VectorInfo
from apps.core.ids import new_id
from apps.imagery.models import Scene
from apps.runs import selectors
from apps.runs.headline import headline
from apps.runs.landmarks import check_landmarks
from apps.runs.models import ObservationRow, Run, RunEvent
from apps.runs.prompts import check_prompts
from apps.runs.sockets import announce

log = logging.getLogger(__name__)

# A share of accepted observations is drawn for audit at random, so that the prior does not learn from rejections alone.
AUDIT_PROBABILITY = 0.1
MAX_SCENES = 400
MAX_QUESTION = 4000
# Runs that nobody holds and that said nothing for this long are taken up again.
ORPHAN_AFTER_S = 5
# A run that never began most likely waits its turn in the broker: it is enqueued once more only after this long.
UNBEGUN_AFTER_S = 120


def run_start(
    *,
    user: User | None,
    project: Project,
    text: str,
    scenes: Sequence[Scene],
    region: dict[str, Any] | None = None,
    region_crs: str = "EPSG:4326",
    choices: dict[str, str] | None = None,
    form: dict[str, Any] | None = None,
    vectors: Sequence[VectorInfo] = (),
    landmarks: Sequence[Landmark] = (),
    prompts: Sequence[Prompt] = (),
    is_sample: bool = False,
    enqueue: bool = True,
) -> Run:
    """A new run of one question; executed by a worker once the transaction is committed (``enqueue``).

    UserError: BAD_QUESTION (no words and no form, or too long), NEEDS_REGION is the planner's; BAD_ARGUMENT (no scene, too
    many, or a scene that is not ready); BAD_REGION (no geometry); BAD_LANDMARKS (see ``check_landmarks``);
    BAD_PROMPTS (see ``check_prompts``).
    """
    text = question_text(text, form)
    if not scenes and not vectors:
        raise UserError("BAD_ARGUMENT", "There is no imagery to ask about.", "No scene was chosen.", "Choose at least one scene.")
    if len(scenes) > MAX_SCENES:
        raise UserError(
            "BAD_ARGUMENT",
            "Too many scenes.",
            f"{len(scenes)} were chosen; {MAX_SCENES} are the limit.",
            "Choose fewer dates, or a shorter period.",
        )
    for scene in scenes:
        if scene.project_id != project.pk or not scene.is_ready:
            raise UserError(
                "BAD_ARGUMENT",
                f"The scene “{scene.name}” cannot be asked about.",
                "It is not ready in this project.",
                "Wait until its ingest has finished, or mend what the ingest check names.",
            )
    infos = tuple(s.scene_info for s in scenes)
    check_landmarks(landmarks, infos, text)
    check_prompts(prompts, infos)
    question = Question(
        text=text or "(asked by form)",
        scenes=infos,
        landmarks=tuple(landmarks),
        prompts=tuple(prompts),
        vectors=tuple(vectors),
        region=region,
        region_crs=region_crs,
        choices=choices or {},
        form=form,
    )
    footprint = _region_geometry(region) if region and region_crs == "EPSG:4326" else None
    with transaction.atomic():
        run = Run.objects.create(
            project=project,
            author=user,
            question_text=question.text,
            region=footprint,
            question=question.model_dump(mode="json"),
            is_sample=is_sample,
            heard_at=timezone.now(),
        )
        run.scenes.set(scenes)
        if enqueue:
            transaction.on_commit(lambda: _enqueue(run.pk))
    return run


def question_text(text: str, form: dict[str, Any] | None) -> str:
    """The words without blanks around them. UserError BAD_QUESTION where there are neither words nor a form, or too many."""
    text = text.strip()
    if not text and not form:
        raise UserError(
            "BAD_QUESTION", "There is no question.", "The words are empty.", "Ask in a sentence, or fill in the form."
        )
    if "\x00" in text or any("\ud800" <= c <= "\udfff" for c in text):
        raise UserError(
            "BAD_QUESTION",
            "The question cannot be kept.",
            "It holds a NUL character, or half of one.",
            "Take it out, or type the words again.",
        )
    if len(text) > MAX_QUESTION:
        raise UserError(
            "BAD_QUESTION",
            "The question is too long.",
            f"It has {len(text):,} characters; {MAX_QUESTION:,} are read.",
            "Ask for one thing at a time.",
        )
    return text


def _region_geometry(region: dict[str, Any]) -> GEOSGeometry:
    import json

    try:
        geometry = GEOSGeometry(json.dumps(region), srid=4326)
    except (GEOSException, ValueError, TypeError) as error:
        raise UserError(
            "BAD_REGION",
            "The region cannot be read.",
            f"{error}.".replace("..", "."),
            "Draw it again, or paste a GeoJSON or WKT polygon in longitude and latitude.",
        ) from None
    if geometry.empty:
        raise UserError("BAD_REGION", "The region is empty.", "It encloses nothing.", "Draw a rectangle or polygon with an area.")
    return geometry


def _enqueue(run_id: UUID, queue: str | None = None) -> None:
    """A broker that is down loses nothing: the run waits in the database, and the next sweep enqueues it."""
    from apps.runs.tasks import run_execute

    try:
        run_execute.apply_async(args=[str(run_id)], **({"queue": queue} if queue else {}))
    except OperationalError as error:
        log.warning("run %s waits for the broker: %s", run_id, error)
        Run.objects.filter(pk=run_id).update(heard_at=None)


def event_append(*, run_id: Any, event: Event) -> int:
    """Appends one event and what the columns repeat of it; returns its sequence number. Others hear of it after the commit."""
    with transaction.atomic():
        run = Run.objects.select_for_update().get(pk=run_id)
        seq = run.last_seq + 1
        RunEvent.objects.create(run=run, seq=seq, type=event.type, payload=event.model_dump(mode="json"))
        run.last_seq, run.heard_at = seq, timezone.now()
        _promote(run, event)
        run.save(
            update_fields=[
                "last_seq",
                "heard_at",
                "status",
                "task_type",
                "answer_text",
                "is_abstained",
                "error_code",
                "started_at",
                "ended_at",
            ]
        )
        transaction.on_commit(lambda: announce(run_id, seq))
    return seq


def _promote(run: Run, event: Event) -> None:
    match event:
        case RunStarted():
            run.status, run.started_at = Run.Status.RUNNING, event.at
        case RunResumed():
            run.status, run.ended_at = Run.Status.RUNNING, None
        case PlanProposed():
            run.task_type = event.plan.task.task_type
        case ObservationRecorded():
            _row_of(run, event.observation, event.call_key, event.at)
        case DecisionMade():
            reasons = "; ".join(event.decision.reasons)[:500]
            drawn = (
                event.decision.decision == "accept"
                and random.Random(f"audit:{event.observation_id}").random() < AUDIT_PROBABILITY
            )
            ObservationRow.objects.filter(pk=event.observation_id).update(
                decision=event.decision.decision,
                stage=event.decision.stage,
                p_correct=event.decision.p_correct,
                decision_reason=reasons,
                failed_checks=[c.check for c in event.checks if c.outcome == "failed"],
                is_audit=drawn,
                audit_probability=AUDIT_PROBABILITY if event.decision.decision == "accept" else 1.0,
            )
        case AnswerGiven():
            run.answer_text, run.is_abstained = event.answer.text, event.answer.abstained
            run.error_code = event.answer.code or ""
            ObservationRow.objects.filter(run=run).update(is_under_answer=False)
            ObservationRow.objects.filter(run=run, id__in=event.answer.based_on).update(is_under_answer=True)
        case RunFinished():
            run.status, run.ended_at = Run.Status.FINISHED, event.at
        case RunFailed():
            run.status, run.ended_at, run.error_code = Run.Status.FAILED, event.at, event.code[:40]
        case RunCancelled():
            run.status, run.ended_at = Run.Status.CANCELLED, event.at
        case VerdictGiven():
            ObservationRow.objects.filter(pk=event.verdict.observation_id).update(verdict=event.verdict.value)
            # a correction that is given again has its row already
            if event.corrected is not None and not ObservationRow.objects.filter(run=run, pk=event.corrected.id).exists():
                _row_of(run, event.corrected, f"correction:{event.corrected.id}", event.at)
            if ObservationRow.objects.filter(run=run, call_key__startswith="correction:").exists():
                _verdict_columns_refresh(run)
        case VerdictUndone():
            _verdict_columns_refresh(run)
        case _:
            pass


def _row_of(run: Run, o: Observation, call_key: str, at: datetime) -> None:
    main, what = headline(o)
    ObservationRow.objects.create(
        id=o.id,
        run=run,
        call_key=call_key,
        step=o.step,
        tool=o.tool,
        task_type=o.task.task_type,
        coarse=o.configuration.coarse,
        fine=o.configuration.fine,
        state=o.status.state,
        # a bare number of things or rows says what they are; what was measured stands in the question
        value_text=(f"{main} {what}" if o.result.value is None and o.status.state != "failed" else main)[:200],
        recorded_at=at,
    )


def _verdict_columns_refresh(run: Run) -> None:
    """The column of every observation of the run that has verdicts, from the log."""
    for o in selectors.run_state(run.pk).observations.values():
        if o.verdicts:
            ObservationRow.objects.filter(pk=o.id).update(verdict=o.verdict.value if o.verdict else "")


@contextmanager
def run_held(run_id: Any) -> Iterator[bool]:
    """Holds the run for this process while the block runs; yields False where another holds it.

    An advisory lock of the database session: it falls with the process, so a killed worker holds nothing.
    """
    key = UUID(str(run_id)).int & 0x7FFF_FFFF_FFFF_FFFF
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        row = cursor.fetchone()
    held = bool(row and row[0])
    try:
        yield held
    finally:
        if held:
            try:
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
            except (DatabaseGone, InterfaceError):
                connection.close()  # the lock fell with the session


def run_execute_now(*, run_id: Any) -> bool:
    """Executes or resumes a run in this process until it is over. False where another process holds it.

    A fault of ours ends the run as failed, with an id that stands in the log beside the traceback; nothing is accepted by it.
    """
    from apps.agent.loop import run_agent
    from apps.runs.assembly import packages, parts_for

    with run_held(run_id) as held:
        if not held:
            return False
        while True:
            run = Run.objects.select_related("project").get(pk=run_id)
            cause = run.pending_cause
            if run.status in (Run.Status.FINISHED, Run.Status.FAILED, Run.Status.CANCELLED) and not cause:
                return True
            if run.status == Run.Status.CANCELLED:
                return True
            parts = parts_for(run)
            try:
                run_agent(
                    Question.model_validate(run.question),
                    planner=parts.planner,
                    toolbox=parts.toolbox,
                    judge=parts.judge,
                    recorder=parts.recorder,
                    run_id=str(run.pk),
                    policy=parts.loop_policy,
                    seed=parts.seed,
                    revision=parts.revision,
                    packages=packages(),
                    clock=timezone.now,
                    cause=cause,
                )
            except (DatabaseGone, InterfaceError):
                # nothing of the run is at fault: its log stands, and the next sweep takes it up where it was left
                log.exception("run %s is left: the database went away", run_id)
                connection.close()
                return False
            except Exception:
                error_id = new_id()
                log.exception("run %s failed (%s)", run_id, error_id)
                event_append(
                    run_id=run_id,
                    event=RunFailed(
                        at=timezone.now(),
                        code="TOOL_FAILED",
                        error_id=error_id,
                        message="A fault of ours stopped the run; it accepted nothing. Ask again; if it recurs, quote the id.",
                    ),
                )
            # what came in while we worked is due as well; only the cause that was served is taken off
            if cause and Run.objects.filter(pk=run_id, pending_cause=cause).update(pending_cause=""):
                # the last event was announced while the run was still due: pages that were fetched then are told once more
                announce(run_id, Run.objects.values_list("last_seq", flat=True).get(pk=run_id))
            if not Run.objects.filter(pk=run_id).exclude(pending_cause="").exists():
                return True


def run_revise(*, run_id: Any, cause: str, enqueue: bool = True) -> None:
    """What depends on a changed observation is computed again, by a worker, after the commit."""
    Run.objects.filter(pk=run_id).update(pending_cause=cause[:64], heard_at=timezone.now())
    if enqueue:
        transaction.on_commit(lambda: _enqueue(run_id))


def run_cancel(*, user: User, run: Run) -> None:
    """Stops a run that is not over; what it had recorded stays. UserError CONFLICT where it is over."""
    with transaction.atomic():
        fresh = Run.objects.select_for_update().get(pk=run.pk)
        if fresh.status not in (Run.Status.QUEUED, Run.Status.RUNNING):
            raise UserError("CONFLICT", "The run is over.", f"It is {fresh.status}.", "Ask again to run it anew.", status=409)
        event_append(run_id=run.pk, event=RunCancelled(at=timezone.now(), author=user.get_username()))


def runs_resume_orphans() -> int:
    """Enqueues runs that are due but that no process holds (a worker died, a broker lost its queue); returns how many."""
    now = timezone.now()
    waiting = Run.objects.filter(status__in=[Run.Status.QUEUED, Run.Status.RUNNING]) | Run.objects.exclude(pending_cause="")
    n = 0
    for run_id, heard_at, status, cause in waiting.values_list("pk", "heard_at", "status", "pending_cause")[:200]:
        patience = UNBEGUN_AFTER_S if status == Run.Status.QUEUED and not cause else ORPHAN_AFTER_S
        if heard_at and (now - heard_at).total_seconds() < patience:
            continue
        with run_held(run_id) as held:
            is_orphan = held
        if is_orphan:
            Run.objects.filter(pk=run_id).update(heard_at=now)
            _enqueue(run_id)
            n += 1
    return n
