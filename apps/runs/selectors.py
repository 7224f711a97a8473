"""Reads. Whatever a person asks for goes through ``access_run_by_id``: another's run reads as absent."""

from __future__ import annotations

import uuid
from collections import OrderedDict
from collections.abc import Iterator
from threading import Lock
from typing import Any

from django.db import connection
from django.db.models import Count, Q, QuerySet

from apps.accounts.models import User
from apps.accounts.selectors import access_project_by_id, access_row_by_id, projects_for_user
from apps.core.errors import NotFoundError
from apps.core.evidence.events import Event, read_event
from apps.core.evidence.fold import RunState, apply, fold
from apps.runs.models import ObservationRow, Run, RunEvent


def access_run_by_id(user: User, run_id: Any, action: str = "view") -> Run:
    """The run, where the user may do ``action`` in its project. NotFoundError otherwise, also for a malformed id."""
    return access_row_by_id(Run.objects.select_related("project", "author"), run_id, user, action, "run")


def run_events(run_id: Any, *, after: int = 0, limit: int | None = None) -> Iterator[tuple[int, Event]]:
    """(sequence number, event) pairs in order, after a sequence number."""
    rows = RunEvent.objects.filter(run_id=run_id, seq__gt=after).order_by("seq").values_list("seq", "payload")
    for seq, payload in rows[:limit] if limit else rows:
        yield seq, read_event(payload)


def run_state(run_id: Any) -> RunState:
    """The fold of the run's events."""
    return fold(run_events(run_id))


_shown: OrderedDict[uuid.UUID, RunState] = OrderedDict()
_KEPT = 64
_shown_lock = Lock()
# Fragments of one run wait for each other, those of different runs hardly ever.
_folding = tuple(Lock() for _ in range(16))


def run_state_shown(run: Run) -> RunState:
    """The fold for pages, to be read only: the fragments of a page share it, and an event that came adds itself to the last one.

    At least the events up to ``run.last_seq`` are in it. What writes to the log folds for itself (``run_state``).
    """
    with _folding[hash(run.pk) % len(_folding)]:
        with _shown_lock:
            kept = _shown.get(run.pk)
        if kept is None or kept.seq < run.last_seq:
            kept = kept.copy() if kept is not None else RunState()
            for seq, event in run_events(run.pk, after=kept.seq):
                apply(kept, seq, event)
        if connection.in_atomic_block:
            return kept  # what this transaction has appended may be rolled back: not for others
        with _shown_lock:
            _shown[run.pk] = kept
            _shown.move_to_end(run.pk)
            while len(_shown) > _KEPT:
                _shown.popitem(last=False)
        return kept


def run_is_cancelled(run_id: Any) -> bool:
    return Run.objects.filter(pk=run_id, status=Run.Status.CANCELLED).exists()


def run_list_for_user(user: User, *, project_id: Any | None = None, limit: int = 50) -> QuerySet[Run]:
    """The newest runs of the user's projects, with the count of observations that wait for a person."""
    runs = Run.objects.filter(project__in=projects_for_user(user)).select_related("project", "author")
    if project_id is not None:
        runs = runs.filter(project_id=project_id)
    open_rows = Q(observation_rows__verdict="") & ~Q(observation_rows__decision__in=["accept", ""])
    return runs.annotate(n_open=Count("observation_rows", filter=open_rows)).order_by("-created_at")[:limit]


def access_observation(user: User, observation_id: str, action: str = "view") -> tuple[ObservationRow, RunState]:
    """The observation's row and the state of its run, to be read only; NotFoundError where it is absent or another's."""
    row = ObservationRow.objects.select_related("run__project").filter(pk=observation_id).first()
    if row is None:
        raise NotFoundError("observation")
    try:
        access_project_by_id(user, row.run.project_id, action)
    except NotFoundError:
        raise NotFoundError("observation") from None
    return row, run_state_shown(row.run)
