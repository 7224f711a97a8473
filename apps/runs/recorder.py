"""The run's log in PostgreSQL: append is atomic and ordered, the state is folded once and kept up to date."""

from __future__ import annotations

from apps.core.evidence.events import Event
from apps.core.evidence.fold import RunState, apply
from apps.runs import selectors, services


class DatabaseRecorder:
    """Implements ``core.ports.Recorder`` for one run. Events that others append meanwhile (verdicts) are folded in too."""

    def __init__(self, run_id: str):
        self.run_id = run_id
        self._state = RunState()

    def append(self, event: Event) -> int:
        return services.event_append(run_id=self.run_id, event=event)

    def state(self) -> RunState:
        for seq, event in selectors.run_events(self.run_id, after=self._state.seq):
            apply(self._state, seq, event)
        return self._state

    def is_cancelled(self) -> bool:
        return selectors.run_is_cancelled(self.run_id)
