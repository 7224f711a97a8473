"""Celery: id in, service called."""

from __future__ import annotations

import os
from typing import Any

from celery import shared_task
from celery.signals import worker_ready

from apps.runs import report_files, rereading, services


@shared_task(name="apps.runs.tasks.run_execute", bind=True, max_retries=None)
def run_execute(self: Any, run_id: str) -> None:
    """Executes or resumes one run. Where its plan needs a vision model and this worker has none, it goes to that queue."""
    from apps.runs.assembly import VISION_QUEUE, queue_for

    here = os.environ.get("RSURE_QUEUES", "")
    # a worker that serves every kind of run need not plan one to know whether it may
    if here and VISION_QUEUE not in here.split(",") and queue_for(run_id) == VISION_QUEUE:
        run_execute.apply_async(args=[run_id], queue=VISION_QUEUE)
        return
    services.run_execute_now(run_id=run_id)


@shared_task(name="apps.runs.tasks.runs_resume")
def runs_resume() -> int:
    """Periodic: takes up runs that nobody holds."""
    return services.runs_resume_orphans()


@shared_task(name="apps.runs.tasks.report_make", soft_time_limit=report_files.SOFT_S, time_limit=report_files.HARD_S)
def report_make(file_id: str) -> None:
    """Makes one file of a report; does nothing where it was made before."""
    report_files.report_file_make(file_id=file_id)


@shared_task(name="apps.runs.tasks.scene_reread")
def scene_reread(scene_id: str, user_id: int | None = None) -> None:
    """Reads one scene anew; does nothing where it was deleted meanwhile, or where its file is not kept."""
    rereading.reread_by_id(scene_id=scene_id, user_id=user_id)


@worker_ready.connect  # type: ignore[misc]
def _resume_at_start(**_: Any) -> None:
    """What a killed worker left: at once, and again when what it said last is old enough to tell that it is gone."""
    runs_resume.delay()
    runs_resume.apply_async(countdown=services.ORPHAN_AFTER_S + 1)
