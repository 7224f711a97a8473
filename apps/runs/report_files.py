"""Files of a report that a worker makes: asked for, made once for each state of the run, kept by digest, or told why not."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

from celery.exceptions import SoftTimeLimitExceeded
from django.utils import timezone
from kombu.exceptions import OperationalError

from apps.artifacts.services import artifact_put
from apps.core.digests import digest_json
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.fold import RunState, fold
from apps.core.ids import new_id
from apps.imagery.models import Scene
from apps.runs.assembly import layers, revision
from apps.runs.models import ReportFile, Run
from apps.runs.report import ReportForm, report_form
from apps.runs.report_page import report_pdf
from apps.runs.selectors import run_events
from apps.runs.services import run_held

log = logging.getLogger(__name__)

# The worker stops the work after the first, and is itself stopped after the second.
SOFT_S, HARD_S = 120, 150
MOST_FILE_BYTES = 64 << 20
MOST_ATTEMPTS = 2
# One that no worker took up is offered again after the first, and given up after the second.
OFFER_AGAIN_S, GIVE_UP_S = 60, 900
# So long a failure is told before the same is tried again unasked.
FAILED_FOR_S = 60


def report_name(run: Run, form: ReportForm) -> str:
    """File name of a form of the run's report."""
    return f"run-{str(run.pk)[:8]}.{form.suffix}"


def state_key(run: Run, state: RunState) -> str:
    """Digest of all that the report says: the events up to the state's, and what is told beside them."""
    scenes = [s.scene_id for s in state.question.scenes] if state.question else []
    return digest_json({
        "run": str(run.pk), "events": state.seq, "is_due": bool(run.pending_cause), "project": run.project.name,
        "author": run.author.get_username() if run.author else "", "revision": revision(),
        "scenes": sorted([str(pk), cog or ""] for pk, cog in Scene.objects.filter(pk__in=scenes).values_list("pk", "cog_id")),
    })  # fmt: skip


def report_file_ask(run: Run, state: RunState, *, again: bool = False) -> ReportFile:
    """The PDF of this state: one for all who ask. It is queued where there is none, where the last try failed a while ago, or
    (``again``) where it failed at all."""
    file, is_new = ReportFile.objects.get_or_create(
        run=run, kind="pdf", state_key=state_key(run, state),
        defaults={"seq": state.seq, "is_due": bool(run.pending_cause), "heard_at": timezone.now()},
    )  # fmt: skip
    if is_new:
        _offer(file)
        return file
    is_old = timezone.now() - file.heard_at > timedelta(seconds=FAILED_FOR_S)
    if file.status == ReportFile.Status.FAILED and (again or is_old):
        if _moved(file, ReportFile.Status.QUEUED, attempts=0, error={}, asked_at=timezone.now()):
            _offer(file)
        file.refresh_from_db()
        return file
    return _looked_after(file)


def report_file_by_id(run: Run, file_id: Any) -> ReportFile:
    """A file of the run, as it stands now. NotFoundError where there is none."""
    file = ReportFile.objects.filter(run=run, pk=file_id).first()
    if file is None:
        raise NotFoundError("file of the report")
    return _looked_after(file)


def report_file_error(file: ReportFile) -> UserError | None:
    """Why it could not be made; None where it did not fail."""
    if file.status != ReportFile.Status.FAILED:
        return None
    held = file.error
    return UserError(held["code"], held["what"], held["why"], held["fix"], status=held["status"], detail=held.get("detail"))


def report_file_make(*, file_id: Any) -> None:
    """Makes the file in this process and keeps it; nothing to do where it is made, or where another process makes it. A failure
    is written down for those who wait."""
    with run_held(file_id) as is_held:
        file = ReportFile.objects.select_related("run__project", "run__author").filter(pk=file_id).first()
        if not is_held or file is None or file.is_over:
            return
        if file.attempts >= MOST_ATTEMPTS:
            _fail(file, _took_too_long())
            return
        _moved(file, ReportFile.Status.MAKING, attempts=file.attempts + 1)
        file.refresh_from_db(fields=["status", "heard_at", "attempts"])
        try:
            form, data = _bytes_of(file)
            artifact = artifact_put(
                data=data, project_id=file.run.project_id, media_type=form.media_type, name=report_name(file.run, form)
            )
        except SoftTimeLimitExceeded:
            _fail(file, _took_too_long())
        except UserError as error:
            _fail(file, error)
        except Exception:
            error_id = new_id()
            log.exception("report %s failed (%s)", file_id, error_id)
            _fail(file, UserError(
                "TOOL_FAILED", "The PDF could not be made.", "A fault of ours stopped it; the run and its page are whole.",
                "Make it again; if it recurs, quote the id.", status=500, detail={"error_id": error_id},
            ))  # fmt: skip
        else:
            _moved(file, ReportFile.Status.READY, artifact=artifact)


def _bytes_of(file: ReportFile) -> tuple[ReportForm, bytes]:
    """The run as it was when the file was asked for: the events up to then, and whether more was due."""
    run = file.run
    state = fold((seq, event) for seq, event in run_events(run.pk) if seq <= file.seq)
    run.status, run.pending_cause = state.status, "due" if file.is_due else ""
    form = report_form(state, file.kind)
    data = report_pdf(run, state, layers(run.project_id))
    if len(data) > MOST_FILE_BYTES:
        raise UserError(
            "TOO_LARGE", "The PDF is too large.", f"It has {len(data) >> 20} MB; {MOST_FILE_BYTES >> 20} MB are kept.",
            "Read the page, or take CSV, JSON or GPKG.", status=413,
        )  # fmt: skip
    return form, data


def _took_too_long() -> UserError:
    return UserError(
        "BUDGET_REACHED", "The PDF took too long.", f"It was stopped after {SOFT_S} seconds, or its worker ended.",
        "Make it again when the server has less to do, or take CSV, JSON or GPKG.", status=504,
    )  # fmt: skip


def _looked_after(file: ReportFile) -> ReportFile:
    """What was lost (a broker that lost its queue, a worker that was killed) is offered again to the workers, or given up."""
    now = timezone.now()
    silent_s = (now - file.heard_at).total_seconds()
    if file.status == ReportFile.Status.QUEUED and silent_s > OFFER_AGAIN_S:
        if (now - file.asked_at).total_seconds() > GIVE_UP_S:
            _fail(file, UserError(
                "WORKER_DOWN", "The PDF was not begun.", f"No worker took it up within {GIVE_UP_S // 60} minutes.",
                "Ask the administrator whether the workers run, then make it again.", status=503,
            ))  # fmt: skip
        elif _moved(file, ReportFile.Status.QUEUED):
            _offer(file)
    elif file.status == ReportFile.Status.MAKING and silent_s > HARD_S + OFFER_AGAIN_S:
        if file.attempts >= MOST_ATTEMPTS:
            _fail(file, _took_too_long())
        elif _moved(file, ReportFile.Status.QUEUED):
            _offer(file)
    else:
        return file
    file.refresh_from_db()
    return file


def _moved(file: ReportFile, status: str, **more: Any) -> bool:
    """Writes the new status where nobody else has moved it since it was read; whether it was written."""
    same = ReportFile.objects.filter(pk=file.pk, status=file.status, heard_at=file.heard_at)
    return bool(same.update(status=status, heard_at=timezone.now(), **more))


def _fail(file: ReportFile, error: UserError) -> None:
    _moved(file, ReportFile.Status.FAILED, error=error.as_json() | {"status": error.status})


def _offer(file: ReportFile) -> None:
    """A broker that is down loses nothing: the file waits in the database, and who waits for it has it offered again."""
    from apps.runs.tasks import report_make

    try:
        report_make.delay(str(file.pk))
    except OperationalError as error:
        log.warning("report %s waits for the broker: %s", file.pk, error)
