"""What happens in a run, as one tagged union of frozen events; the log is append-only and the run's state is their fold.

Each event has ``type`` and ``v`` (schema version, migrated on read by ``read_event``). ``at`` is aware UTC. The sequence
number is the log's, not the event's.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, TypeAdapter

from apps.core.evidence.decision import CheckResult, Decision, EvidenceRequest, Verdict
from apps.core.evidence.observation import Frozen, JsonMap, Observation, Tool
from apps.core.evidence.plan import Answer, Cost, Plan, Question


class _Event(Frozen):
    v: Literal[1] = 1
    at: AwareDatetime


class RunStarted(_Event):
    type: Literal["RunStarted"] = "RunStarted"
    run_id: str
    question: Question
    seed: int = 0
    revision: str = ""
    packages: dict[str, str] = Field(default_factory=dict)
    policy: str = ""
    budget: JsonMap = Field(default_factory=dict)


class RunResumed(_Event):
    """A worker took the run up again after another had died, or after a verdict."""

    type: Literal["RunResumed"] = "RunResumed"
    cause: str


class PlanProposed(_Event):
    type: Literal["PlanProposed"] = "PlanProposed"
    plan: Plan


class StepStarted(_Event):
    """``call_key`` identifies the step's call: digest of step, arguments and parents; a step is idempotent by it."""

    type: Literal["StepStarted"] = "StepStarted"
    step: int
    attempt: int = 0
    tool: Tool
    arguments: JsonMap
    parents: tuple[str, ...] = ()
    call_key: str


class ProgressReported(_Event):
    type: Literal["ProgressReported"] = "ProgressReported"
    step: int
    done: int
    total: int
    message: str = Field(default="", max_length=300)


class ObservationRecorded(_Event):
    type: Literal["ObservationRecorded"] = "ObservationRecorded"
    call_key: str
    observation: Observation


class DecisionMade(_Event):
    type: Literal["DecisionMade"] = "DecisionMade"
    observation_id: str
    checks: tuple[CheckResult, ...]
    decision: Decision


class EvidenceAnswered(_Event):
    """A request was executed: its supporting observation, and the probability before and after."""

    type: Literal["EvidenceAnswered"] = "EvidenceAnswered"
    observation_id: str
    request: EvidenceRequest
    outcome: Literal["answered", "unavailable", "failed"]
    supporting_id: str | None = None
    p_before: float | None = None
    p_after: float | None = None
    message: str = Field(default="", max_length=500)
    ask_id: str = Field(default="", max_length=64, description="the EvidenceAsked that it answers; empty: the machine's own")


class EvidenceAsked(_Event):
    """A person asks for evidence on an observation. It is no verdict: the effective decision and the prior stay as they are."""

    type: Literal["EvidenceAsked"] = "EvidenceAsked"
    id: str = Field(max_length=64)
    observation_id: str
    request: EvidenceRequest
    note: str = Field(default="", max_length=2000)
    author: str = Field(max_length=150)


class EvidenceWithdrawn(_Event):
    """A person takes back what was asked for and is not answered yet; the log keeps both."""

    type: Literal["EvidenceWithdrawn"] = "EvidenceWithdrawn"
    ask_id: str
    author: str = Field(max_length=150)


class AnswerGiven(_Event):
    """The answer as it stands; the newest one counts. ``cause`` is empty, or the verdict or undo that led to it."""

    type: Literal["AnswerGiven"] = "AnswerGiven"
    answer: Answer
    cause: str = ""


class RunFinished(_Event):
    type: Literal["RunFinished"] = "RunFinished"
    cost: Cost


class RunFailed(_Event):
    type: Literal["RunFailed"] = "RunFailed"
    code: str
    message: str = Field(max_length=2000)
    error_id: str = ""


class RunCancelled(_Event):
    type: Literal["RunCancelled"] = "RunCancelled"
    author: str = ""


class VerdictGiven(_Event):
    """What a person said. ``corrected`` is the observation as the person would have it, of a verdict that it is wrong: it stands
    for the machine's while that verdict does, and is the person's word, not the machine's."""

    type: Literal["VerdictGiven"] = "VerdictGiven"
    verdict: Verdict
    corrected: Observation | None = None
    redoes: str = Field(default="", max_length=64, description="the undone verdict that is given again; empty for a new one")


class VerdictUndone(_Event):
    """Compensates one VerdictGiven; the log keeps both."""

    type: Literal["VerdictUndone"] = "VerdictUndone"
    verdict_id: str
    author: str


class SceneReadAnew(_Event):
    """A scene of the run was read anew after observations were made of it, and the reading changed: those rest on the older one.
    Nothing is taken back; decisions, verdicts and the answer stand as they were made."""

    type: Literal["SceneReadAnew"] = "SceneReadAnew"
    scene_id: str
    name: str = Field(max_length=255)
    changes: tuple[str, ...] = Field(max_length=100)
    author: str = Field(default="", max_length=150)


Event = Annotated[
    RunStarted
    | RunResumed
    | PlanProposed
    | StepStarted
    | ProgressReported
    | ObservationRecorded
    | DecisionMade
    | EvidenceAnswered
    | EvidenceAsked
    | EvidenceWithdrawn
    | AnswerGiven
    | RunFinished
    | RunFailed
    | RunCancelled
    | VerdictGiven
    | VerdictUndone
    | SceneReadAnew,
    Field(discriminator="type"),
]
_adapter: TypeAdapter[Any] = TypeAdapter(Event)


def read_event(payload: dict[str, Any]) -> Event:
    """The event of a stored payload. Raises pydantic.ValidationError where it is none; older versions are migrated here."""
    event: Event = _adapter.validate_python(payload)
    return event


def read_event_json(payload: str | bytes) -> Event:
    event: Event = _adapter.validate_json(payload)
    return event
