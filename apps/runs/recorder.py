"""The run's log in PostgreSQL: append is atomic and ordered, the state is folded once and kept up to date."""

from __future__ import annotations

import threading

from django.db import OperationalError, connection

from apps.core.evidence.events import Event
from apps.core.evidence.fold import RunState, apply
from apps.runs import selectors, services


class DatabaseRecorder:
    """Implements ``core.ports.Recorder`` for one run. Events that others append meanwhile (verdicts) are folded in too."""

    def __init__(self, run_id: str):
        self.run_id = run_id
        self._state = RunState()
        self._session: tuple[int, int] | None = None

    def _same_session(self) -> None:
        """OperationalError where the database session is another than at first: the lock that held the run fell with it, and
        another process may have taken the run up. Other threads have sessions of their own."""
        connection.ensure_connection()
        now = (threading.get_ident(), connection.connection.info.backend_pid)
        if self._session is None:
            self._session = now
        if self._session[0] == now[0] and self._session != now:
            raise OperationalError("the database session that held the run was lost")

    def append(self, event: Event) -> int:
        self._same_session()
        return services.event_append(run_id=self.run_id, event=event)

    def state(self) -> RunState:
        self._same_session()
        for seq, event in selectors.run_events(self.run_id, after=self._state.seq):
            apply(self._state, seq, event)
        return self._state

    def is_cancelled(self) -> bool:
        self._same_session()
        return selectors.run_is_cancelled(self.run_id)
