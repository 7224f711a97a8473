"""What comes next in a run: a pure function of the run's state and a plan.

The loop performs one move at a time and reads the state again, so a run that died is resumed by asking the
same question of the same log; and a verdict or its undoing changes what the walk finds, never what was
recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from apps.agent.arguments import (
    call_digest,
    call_kind,
    fit_to_contract,
    merge,
    parents_of,
    resolve,
    same_call,
)
from apps.agent.equivalents import equivalents
from apps.agent.policy import AgentPolicy
from apps.core.evidence.decision import EvidenceRequest
from apps.core.evidence.events import EvidenceAsked
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import Tool
from apps.core.evidence.plan import Plan, PlanStep

# Requests that no tool call can answer: a person is asked.
_FOR_A_PERSON = frozenset({"band_roles", "gsd", "human"})
# Requests whose answer is the same observation made better: it may stand in the step's place, after it was
# judged itself.
_REPAIRS = frozenset({"missing_evidence", "refined_mask", "quality_mask", "complete_series"})


@dataclass(frozen=True, slots=True)
class Call:
    """Call a tool under ``call_key``; ``is_started`` where the log holds its StepStarted already."""

    step: int
    attempt: int
    tool: Tool
    arguments: dict[str, Any]
    parents: tuple[str, ...]
    call_key: str
    is_started: bool
    ask_id: str = ""


@dataclass(frozen=True, slots=True)
class Decide:
    """Judge an observation; ``answers`` is the request whose supporting observation has just come in, ``ask_id`` the person's
    asking that led to it."""

    observation_id: str
    supporting: tuple[str, ...]
    requests_made: int
    answers: tuple[EvidenceRequest, str] | None = None
    ask_id: str = ""


@dataclass(frozen=True, slots=True)
class CannotAnswer:
    """Record that a request was not answered: no call can serve it, or the call failed."""

    observation_id: str
    request: EvidenceRequest
    outcome: str
    message: str
    supporting_id: str | None = None
    ask_id: str = ""


@dataclass(frozen=True, slots=True)
class Settle:
    """Evidence requests are used up: the policy decides."""

    observation_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Open:
    """A step without an accepted observation: ``rejected`` (nothing is left to try) or ``waiting`` (for a
    person).
    """

    step: int
    state: str
    observation_ids: tuple[str, ...]
    message: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """No move is left. ``chosen``: step → the accepted observation that stands for it; ``open``: what is
    missing.
    """

    chosen: dict[int, str] = field(default_factory=dict)
    open: tuple[Open, ...] = ()

    @property
    def is_failed(self) -> bool:
        return any(o.state == "rejected" for o in self.open)


Move = Call | Decide | CannotAnswer | Settle | Stopped


def next_move(state: RunState, plan: Plan, policy: AgentPolicy) -> Move:
    """The next move of ``plan``, or what it has come to."""
    chosen: dict[int, str] = {}
    open_steps: list[Open] = []
    unsuccessful: Counter[str] = Counter()
    for step in plan.steps:
        found = _step(state, step, chosen, unsuccessful, policy)
        if isinstance(found, str):
            chosen[step.step] = found
        elif isinstance(found, Open):
            open_steps.append(found)
            if found.state == "rejected":
                break
        else:
            return found
    return Stopped(chosen, tuple(open_steps))


def asked_move(state: RunState) -> Move | None:
    """The next move for what persons asked for, whatever plan the observation belongs to; None where nothing is open.

    The call that would answer is made, what it brings is checked and decided for itself, then the observation is judged anew from
    both.
    """
    for held in state.observations.values():
        if held.is_rejudge_due and held.requests[-1].ask_id:
            return Decide(held.id, _supporting(held), _made(held))
        for ask in held.open_asks:
            return _asked(state, held, ask)
    return None


def _asked(state: RunState, held: ObservationState, ask: EvidenceAsked) -> Move:
    observation, request = held.observation, ask.request
    arguments = fit_to_contract(observation.tool, merge(observation.arguments, request.arguments))
    if arguments is None:
        why = "The changes that were asked for are none that the tool takes."
        return CannotAnswer(held.id, request, "unavailable", why, ask_id=ask.id)
    key = _request_key(state, held, request, arguments)
    supporting = state.for_call(key)
    if supporting is None:
        call = _call(state, observation.step, observation.tool, arguments, observation.parents, key)
        return replace(call, ask_id=ask.id)
    if supporting.decision is None:
        return Decide(supporting.id, (), 0)
    if supporting.observation.status.state == "failed":
        why = supporting.observation.status.reason[:500]
        return CannotAnswer(held.id, request, "failed", why, supporting.id, ask_id=ask.id)
    if supporting.verdict is None and supporting.decision.decision == "request_evidence" and not _is_settled(supporting):
        return Settle(supporting.id, "It was itself made to answer a request; no more are executed.")
    return Decide(held.id, (*_supporting(held), supporting.id), _made(held), (request, supporting.id), ask.id)


def _made(held: ObservationState) -> int:
    """Requests of the machine's own that were executed: what a person asks for is bounded apart."""
    return sum(1 for r in held.requests if r.outcome != "unavailable" and not r.ask_id)


def _request_key(state: RunState, held: ObservationState, request: EvidenceRequest, arguments: dict[str, Any]) -> str:
    return call_digest(
        run_id=state.run_id,
        step=held.observation.step,
        tool=held.observation.tool,
        arguments=arguments,
        parents=held.observation.parents,
        request_of=held.id,
        request=request.model_dump(mode="json"),
    )


def _step(
    state: RunState, step: PlanStep, chosen: dict[int, str], unsuccessful: Counter[str], policy: AgentPolicy
) -> Move | Open | str:
    tried: list[ObservationState] = []
    seen: set[str] = set()
    for arguments in _ways(step, tried):
        needs = parents_of(step, arguments)
        missing = [n for n in needs if n not in chosen]
        if missing:
            return Open(step.step, "waiting", (), f"Step {step.step} waits for step {missing[0]}.")
        parents = tuple(dict.fromkeys(chosen[n] for n in needs))
        resolved = resolve(arguments, chosen)
        kind, identity = call_kind(step.tool, resolved), same_call(step.tool, resolved, parents)
        if identity in seen:
            continue
        seen.add(identity)
        key = call_digest(run_id=state.run_id, step=step.step, tool=step.tool, arguments=resolved, parents=parents)
        held = state.for_call(key)
        if held is None:
            if _failed_elsewhere(state, identity):
                unsuccessful[kind] += 1
                continue
            if unsuccessful[kind] >= policy.max_unsuccessful:
                return Open(
                    step.step,
                    "rejected",
                    tuple(o.id for o in tried),
                    f"{unsuccessful[kind]} calls of the kind {kind} were unsuccessful; the plan must change.",
                )
            return _call(state, step.step, step.tool, resolved, parents, key)
        tried.append(held)
        found = _observation(state, step, held, policy)
        if isinstance(found, Open) and found.state == "rejected":
            unsuccessful[kind] += 1
            continue
        return found
    return Open(
        step.step,
        "rejected",
        tuple(o.id for o in tried),
        f"Step {step.step} has no accepted observation and nothing else to try.",
    )


def _ways(step: PlanStep, tried: list[ObservationState]) -> Iterator[dict[str, Any]]:
    """The step's own arguments, the plan's alternatives and, where all that was tried came without an error and was rejected by
    the machine alone, the same quantity by another path. What a person called wrong, or a tool's failure, that does not mend."""
    yield step.arguments
    yield from step.alternatives
    if tried and all(o.verdict is None and o.observation.status.state != "failed" for o in tried):
        yield from equivalents(step.tool, step.arguments)


def _observation(state: RunState, step: PlanStep, held: ObservationState, policy: AgentPolicy) -> Move | Open | str:
    """What one recorded observation of a step asks for: its id where it is accepted, the person's where it was corrected."""
    corrected = state.correction_of(held.id)
    if corrected is not None:
        return corrected.id
    if held.decision is None:
        return Decide(held.id, (), 0)
    if held.verdict is None and held.decision.decision == "request_evidence" and not _is_settled(held):
        return _request(state, step, held, policy)
    due = _rejudge_due(held)
    if held.verdict is None and due is not None:
        return due
    supporters = _supporting(held)
    if held.is_accepted:
        refused = [s for s in supporters if _verdict_of(state, s) in ("reject", "unsure")]
        if held.verdict is not None or not refused:
            return held.id
        return Open(
            step.step,
            "waiting",
            (held.id, *refused),
            "A person does not confirm the supporting observation on which its acceptance rests.",
        )
    stand_in = _repair(state, held, policy)
    if stand_in is not None:
        return stand_in
    if held.effective == "reject":
        return Open(step.step, "rejected", (held.id,), "It was rejected.")
    return Open(step.step, "waiting", (held.id,), "It waits for a person's verdict.")


def _request(state: RunState, step: PlanStep, held: ObservationState, policy: AgentPolicy) -> Move:
    due = _rejudge_due(held)
    if due is not None:
        return due
    assert held.decision is not None
    made = _made(held)
    done = {request_identity(r.request) for r in held.requests}
    todo = [r for r in held.decision.requested if request_identity(r) not in done]
    if not todo:
        return Settle(
            held.id,
            "What was asked for could not be had, or did not settle it."
            if held.decision.requested
            else "More evidence is needed, and nothing that a tool could add was named.",
        )
    request = todo[0]
    if request.kind in _FOR_A_PERSON:
        return CannotAnswer(held.id, request, "unavailable", "Only a person can give this.")
    if made >= policy.max_requests:
        return Settle(held.id, f"{made} evidence requests were executed and did not settle it.")
    observation = held.observation
    arguments, why_not = _requested_arguments(step, held, request)
    if arguments is None:
        return CannotAnswer(held.id, request, "unavailable", why_not)
    key = _request_key(state, held, request, arguments)
    supporting = state.for_call(key)
    if supporting is None:
        return _call(state, step.step, step.tool, arguments, observation.parents, key)
    if supporting.observation.status.state == "failed":
        return CannotAnswer(held.id, request, "failed", supporting.observation.status.reason[:500], supporting.id)
    return Decide(held.id, (*_supporting(held), supporting.id), made + 1, (request, supporting.id))


def _requested_arguments(step: PlanStep, held: ObservationState, request: EvidenceRequest) -> tuple[dict[str, Any] | None, str]:
    """The arguments of the call that would answer a request, or None and why there is none."""
    base = dict(held.observation.arguments)
    if request.kind == "missing_evidence":
        fitted = fit_to_contract(step.tool, merge(base, {"options": {"evidence": request.field}}))
        return (fitted, "") if fitted else (None, f"The tool {step.tool} cannot be asked for single parts of its evidence.")
    if request.arguments:
        fitted = fit_to_contract(step.tool, merge(base, request.arguments))
        if fitted is None:
            return None, "The changes that were asked for are none that the tool takes."
        if fitted == base and request.kind != "recompute":
            return None, "The changes that were asked for are already in the call."
        return fitted, ""
    if request.kind == "recompute":
        return base, ""
    for other in step.alternatives:  # no change named: the plan's own alternative is the other method
        if not list(parents_of(step, other)) and other != base:
            return dict(other), ""
    return None, "The request names no change of the call, and the plan has no other method for this step."


def _repair(state: RunState, held: ObservationState, policy: AgentPolicy) -> Move | str | None:
    """The observation that answered a request and may stand in the place of the one that was not accepted."""
    for r in held.requests:
        support = state.observations.get(r.supporting_id or "")
        if support is None:
            continue
        if support.verdict is not None:
            if support.is_accepted:
                return support.id
            continue
        if r.request.kind not in _REPAIRS or r.outcome != "answered" or held.verdict is not None:
            continue
        if support.decision is None:
            return Decide(support.id, (held.id,), policy.max_requests)
        if support.decision.decision == "request_evidence" and not _is_settled(support):
            return Settle(support.id, "It was itself made to answer a request; no more are executed.")
        if support.is_accepted:
            return support.id
    return None


def _rejudge_due(held: ObservationState) -> Decide | None:
    """An answered request whose judgement is not in the log yet: the run died between the two events."""
    answered = sum(1 for r in held.requests if r.outcome == "answered")
    if _is_settled(held) or len(held.decisions) >= 1 + answered:
        return None
    return Decide(held.id, _supporting(held), _made(held))


def _is_settled(held: ObservationState) -> bool:
    """True where the agent's policy has closed the matter; its decisions carry the agent's policy version."""
    return any(d.stage == "policy" and d.policy.startswith("agent-") for d in held.decisions)


def _supporting(held: ObservationState) -> tuple[str, ...]:
    return tuple(r.supporting_id for r in held.requests if r.outcome == "answered" and r.supporting_id)


def _verdict_of(state: RunState, observation_id: str) -> str:
    held = state.observations.get(observation_id)
    return held.verdict.value if held is not None and held.verdict is not None else ""


def request_identity(request: EvidenceRequest) -> str:
    """Equal for requests that would bring the same, whatever reason they give."""
    return same_call(request.kind, {"arguments": dict(request.arguments), "field": request.field}, ())


def _failed_elsewhere(state: RunState, identity: str) -> bool:
    return any(
        o.effective == "reject" and same_call(o.observation.tool, o.observation.arguments, o.observation.parents) == identity
        for o in state.observations.values()
    )


def _call(state: RunState, step: int, tool: Tool, arguments: dict[str, Any], parents: tuple[str, ...], key: str) -> Call:
    started = state.steps_started.get(key)
    attempt = started.attempt if started is not None else sum(1 for s in state.steps_started.values() if s.step == step)
    return Call(step, attempt, tool, arguments, parents, key, started is not None)
