"""The fold of a run's events to its state: the one source of the first paint, the live page, the report and the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from apps.core.evidence.decision import CheckResult, Decision, Verdict
from apps.core.evidence.events import (
    AnswerGiven,
    DecisionMade,
    Event,
    EvidenceAnswered,
    EvidenceAsked,
    EvidenceWithdrawn,
    ObservationRecorded,
    PlanProposed,
    ProgressReported,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    SceneReadAnew,
    StepStarted,
    VerdictGiven,
    VerdictUndone,
)
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Answer, Cost, Plan, Question


@dataclass(slots=True)
class ObservationState:
    """One observation with everything that was said of it, in order."""

    observation: Observation
    call_key: str
    recorded_at: datetime
    seq: int
    checks: tuple[CheckResult, ...] = ()
    decision: Decision | None = None
    decisions: list[Decision] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    undone: set[str] = field(default_factory=set)
    redo: list[str] = field(default_factory=list)
    """Undone verdicts that may be given again, the next one last; a new verdict clears them."""
    requests: list[EvidenceAnswered] = field(default_factory=list)
    asks: list[EvidenceAsked] = field(default_factory=list)
    withdrawn: dict[str, EvidenceWithdrawn] = field(default_factory=dict)
    decided_at: list[datetime] = field(default_factory=list)
    is_rejudge_due: bool = False
    older_readings: tuple[SceneReadAnew, ...] = ()
    """Readings of its scenes that came after it and differ: it rests on an older one."""
    corrects: str = ""
    """Id of the machine's observation for which a person gave this one; '' for the machine's own."""

    @property
    def id(self) -> str:
        return self.observation.id

    @property
    def redoable(self) -> Verdict | None:
        """The undone verdict that would be given again next."""
        return next((v for v in self.verdicts if self.redo and v.id == self.redo[-1]), None)

    @property
    def open_asks(self) -> list[EvidenceAsked]:
        """What persons asked for that is neither answered nor withdrawn, oldest first."""
        done = {r.ask_id for r in self.requests} | set(self.withdrawn)
        return [a for a in self.asks if a.id not in done]

    @property
    def verdict(self) -> Verdict | None:
        """The newest verdict that was not undone."""
        return next((v for v in reversed(self.verdicts) if v.id not in self.undone), None)

    @property
    def effective(self) -> str:
        """The effective decision: the newest verdict where there is one, else the decision; '' while undecided.

        ``unsure`` of a person counts as not accepted.
        """
        if self.verdict is not None:
            return {"accept": "accept", "reject": "reject", "unsure": "unsure"}[self.verdict.value]
        return self.decision.decision if self.decision else ""

    @property
    def is_accepted(self) -> bool:
        return self.effective == "accept"


@dataclass(slots=True)
class RunState:
    """A run as its events tell it."""

    run_id: str = ""
    question: Question | None = None
    started: RunStarted | None = None
    plan: Plan | None = None
    plans: list[Plan] = field(default_factory=list)
    observations: dict[str, ObservationState] = field(default_factory=dict)
    steps_started: dict[str, StepStarted] = field(default_factory=dict)
    progress: dict[int, ProgressReported] = field(default_factory=dict)
    answers: list[AnswerGiven] = field(default_factory=list)
    status: str = "queued"
    failure: RunFailed | None = None
    cost: Cost = field(default_factory=Cost)
    seq: int = 0
    resumed: int = 0
    started_at: datetime | None = None
    ended_at: datetime | None = None

    @property
    def answer(self) -> Answer | None:
        return self.answers[-1].answer if self.answers else None

    @property
    def answer_before(self) -> Answer | None:
        """The answer before the newest one, where a verdict or an undo caused the newest."""
        return self.answers[-2].answer if len(self.answers) > 1 and self.answers[-1].cause else None

    @property
    def older_readings(self) -> dict[str, SceneReadAnew]:
        """Of scenes under the answer, by id, the newest reading that came after the observations that the answer rests on."""
        under = [self.observations[i] for i in (self.answer.based_on if self.answer else ()) if i in self.observations]
        return {event.scene_id: event for o in under for event in o.older_readings}

    @property
    def is_over(self) -> bool:
        return self.status in ("finished", "failed", "cancelled")

    def copy(self) -> RunState:
        """A state of its own to apply events to; observations, decisions and verdicts are values and are shared."""
        return replace(
            self,
            plans=list(self.plans),
            observations={
                key: replace(
                    held,
                    decisions=list(held.decisions),
                    verdicts=list(held.verdicts),
                    undone=set(held.undone),
                    redo=list(held.redo),
                    requests=list(held.requests),
                    asks=list(held.asks),
                    withdrawn=dict(held.withdrawn),
                    decided_at=list(held.decided_at),
                )
                for key, held in self.observations.items()
            },
            steps_started=dict(self.steps_started),
            progress=dict(self.progress),
            answers=list(self.answers),
        )

    def for_call(self, call_key: str) -> ObservationState | None:
        """The observation recorded under a call key: a step is done once."""
        return next((o for o in self.observations.values() if o.call_key == call_key), None)

    def correction_of(self, observation_id: str) -> ObservationState | None:
        """The person's observation that stands for this one, or None."""
        return next((o for o in self.observations.values() if o.corrects == observation_id and o.verdict is not None), None)

    def is_in_history(self, observation_id: str) -> bool:
        """True where the observation and all its ancestors are effectively accepted: it is part of the verified history."""
        seen: set[str] = set()
        todo = [observation_id]
        while todo:
            at = todo.pop()
            if at in seen:
                continue
            seen.add(at)
            state = self.observations.get(at)
            if state is None or not state.is_accepted:
                return False
            todo.extend(state.observation.parents)
        return True

    @property
    def history(self) -> list[ObservationState]:
        """The verified history, in order: the only thing that an answer is made from."""
        return [o for o in self.observations.values() if self.is_in_history(o.id)]

    def descendants(self, observation_id: str) -> list[ObservationState]:
        """Observations that used this one, directly or through others, in order."""
        found: set[str] = {observation_id}
        out = []
        for o in self.observations.values():
            if found & set(o.observation.parents):
                found.add(o.id)
                out.append(o)
        return out

    def confirmed_count(self) -> tuple[int, int]:
        """(observations under the answer that a person called right, observations under the answer)."""
        answer = self.answer
        under = [self.observations[i] for i in (answer.based_on if answer else ()) if i in self.observations]
        return sum(1 for o in under if o.verdict is not None and o.verdict.value == "accept"), len(under)


def apply(state: RunState, seq: int, event: Event) -> RunState:
    """Applies one event in place; events must come in order, a sequence number that was seen is ignored."""
    if seq <= state.seq:
        return state
    state.seq = seq
    match event:
        case RunStarted():
            state.run_id, state.question, state.started = event.run_id, event.question, event
            state.started_at, state.status = event.at, "running"
        case RunResumed():
            state.resumed += 1
            state.status = "running"
        case PlanProposed():
            state.plan = event.plan
            if event.plan not in state.plans:
                state.plans.append(event.plan)
        case StepStarted():
            state.steps_started[event.call_key] = event
        case ProgressReported():
            state.progress[event.step] = event
        case ObservationRecorded():
            if event.observation.id not in state.observations:
                state.observations[event.observation.id] = ObservationState(event.observation, event.call_key, event.at, seq)
            state.progress.pop(event.observation.step, None)
        case DecisionMade():
            held = state.observations.get(event.observation_id)
            if held is not None:
                held.checks, held.decision = event.checks, event.decision
                held.decisions.append(event.decision)
                held.decided_at.append(event.at)
                held.is_rejudge_due = False
        case EvidenceAnswered():
            held = state.observations.get(event.observation_id)
            if held is not None:
                held.requests.append(event)
                held.is_rejudge_due = event.outcome == "answered"
        case EvidenceAsked():
            held = state.observations.get(event.observation_id)
            if held is not None:
                held.asks.append(event)
        case EvidenceWithdrawn():
            for o in state.observations.values():
                if any(a.id == event.ask_id for a in o.open_asks):
                    o.withdrawn[event.ask_id] = event
                    state.progress.pop(o.observation.step, None)
        case AnswerGiven():
            state.answers.append(event)
        case RunFinished():
            state.status, state.cost, state.ended_at = "finished", event.cost, event.at
            state.progress.clear()
        case RunFailed():
            state.status, state.failure, state.ended_at = "failed", event, event.at
        case RunCancelled():
            state.status, state.ended_at = "cancelled", event.at
        case VerdictGiven():
            held = state.observations.get(event.verdict.observation_id)
            if held is not None:
                held.verdicts.append(event.verdict)
                held.redo = held.redo[:-1] if event.redoes and held.redo[-1:] == [event.redoes] else []
                if event.corrected is not None:
                    _correct(state, seq, held, event)
                _stand(state, held)
        case VerdictUndone():
            for o in state.observations.values():
                if not o.corrects and any(v.id == event.verdict_id for v in o.verdicts):
                    o.undone.add(event.verdict_id)
                    o.redo.append(event.verdict_id)
                    _stand(state, o)
        case SceneReadAnew():
            marked: set[str] = set()
            for o in state.observations.values():
                of_scene = any(ref.scene_id == event.scene_id for ref in o.observation.inputs)
                if of_scene or marked & {*o.observation.parents, o.corrects}:
                    marked.add(o.id)
                    o.older_readings = (*o.older_readings, event)
    return state


def _correct(state: RunState, seq: int, held: ObservationState, event: VerdictGiven) -> None:
    """The person's observation of a correction; a correction that is given again (redo) is the same observation."""
    assert event.corrected is not None
    mine = state.observations.get(event.corrected.id)
    if mine is None:
        mine = ObservationState(event.corrected, f"correction:{event.corrected.id}", event.at, seq, corrects=held.id)
        state.observations[mine.id] = mine
    if mine.corrects == held.id:
        said = {"observation_id": mine.id, "value": "accept", "reason": ""}
        mine.verdicts.append(event.verdict.model_copy(update=said))


def _stand(state: RunState, held: ObservationState) -> None:
    """Of the corrections of an observation the one stands that came with its newest standing verdict."""
    standing = held.verdict.id if held.verdict is not None else ""
    for o in state.observations.values():
        if o.corrects == held.id:
            o.undone = {v.id for v in o.verdicts if v.id != standing}


def fold(events: Iterable[tuple[int, Event]]) -> RunState:
    """The state that (sequence number, event) pairs lead to."""
    state = RunState()
    for seq, event in events:
        apply(state, seq, event)
    return state
