"""Which runs are taken up again, and when."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.utils import timezone
from kombu.exceptions import OperationalError

from apps.accounts.models import Project, User
from apps.artifacts.services import ProjectBlobs
from apps.imagery.models import Scene
from apps.runs import selectors, services
from apps.runs.models import Run, RunEvent


@pytest.fixture
def enqueued(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Ids that would go to the broker: the queue's edge alone is replaced."""
    seen: list[Any] = []
    monkeypatch.setattr(services, "_enqueue", lambda run_id, queue=None: seen.append(run_id))
    return seen


@pytest.mark.parametrize(
    ("status", "silent_s", "cause", "is_taken"),
    [
        ("running", 1, "", False),
        ("running", 10, "", True),
        ("queued", 10, "", False),
        ("queued", 200, "", True),
        ("finished", 200, "", False),
        ("finished", 10, "verdict", True),
        ("cancelled", 200, "", False),
    ],
)
def test_a_silent_run_is_taken_up_once(
    enqueued: list[Any], analyst: User, project: Project, fish: Scene, status: str, silent_s: int, cause: str, is_taken: bool
) -> None:
    run = services.run_start(user=analyst, project=project, text="What is the mean NDVI?", scenes=[fish], enqueue=False)
    Run.objects.filter(pk=run.pk).update(
        status=status, pending_cause=cause, heard_at=timezone.now() - timedelta(seconds=silent_s)
    )
    assert services.runs_resume_orphans() == int(is_taken)
    assert enqueued == ([run.pk] if is_taken else [])
    assert services.runs_resume_orphans() == 0, "a sweep right after takes nothing up twice"


def test_a_broker_that_is_down_loses_no_question(
    monkeypatch: pytest.MonkeyPatch, django_capture_on_commit_callbacks: Any, analyst: User, project: Project, fish: Scene
) -> None:
    from apps.runs.tasks import run_execute

    def unreachable(**_: Any) -> None:
        raise OperationalError("connection refused")

    with monkeypatch.context() as down:
        down.setattr(run_execute, "apply_async", unreachable)
        with django_capture_on_commit_callbacks(execute=True):
            run = services.run_start(user=analyst, project=project, text="What is the mean NDVI?", scenes=[fish])
    run.refresh_from_db()
    assert run.status == Run.Status.QUEUED
    sent: list[Any] = []
    monkeypatch.setattr(run_execute, "apply_async", lambda args, **_: sent.append(args))
    assert services.runs_resume_orphans() == 1, "it is taken up by the first sweep that reaches the broker"
    assert sent == [[str(run.pk)]]


@pytest.mark.django_db(transaction=True)
def test_a_run_whose_database_went_away_is_left_and_goes_on_later(
    monkeypatch: pytest.MonkeyPatch, analyst: User, project: Project, fish: Scene
) -> None:
    """The session is cut inside the tool: no observation blames the tool, no event is doubled, the answer comes on resuming."""
    run = services.run_start(user=analyst, project=project, text="What is the mean NDVI?", scenes=[fish], enqueue=False)
    cut: list[Any] = []
    whole = ProjectBlobs.put

    def put(self: ProjectBlobs, *args: Any, **more: Any) -> Any:
        if not cut:
            cut.append(1)
            connection.close()  # as a restarted server does
        return whole(self, *args, **more)

    monkeypatch.setattr(ProjectBlobs, "put", put)
    assert services.run_execute_now(run_id=run.pk) is False
    run.refresh_from_db()
    assert cut and run.status == Run.Status.RUNNING
    assert selectors.run_state(run.pk).observations == {}
    assert services.run_execute_now(run_id=run.pk)
    state = selectors.run_state(run.pk)
    assert state.answer is not None and state.answer.value == pytest.approx(0.5302930955641897, abs=1e-6)
    assert list(RunEvent.objects.filter(run=run).values_list("seq", flat=True)) == list(range(1, state.seq + 1))
