"""Evidence that a person asks for: executed by the loop, judged for itself, the first observation judged anew from both."""

from typing import Any

import pytest

from apps.agent.policy import AgentPolicy
from apps.core.evidence.decision import EvidenceRequest
from apps.core.evidence.events import EvidenceAsked, EvidenceWithdrawn
from apps.core.evidence.fold import RunState
from apps.core.ids import new_id
from tests.unit.agent.scripted import (
    T0,
    KilledError,
    LogRecorder,
    ScriptedJudge,
    ScriptedToolBox,
    accept,
    ask,
    by_arguments,
    give_verdict,
    reject,
    water_plan,
)
from tests.unit.agent.test_loop import go, types

MNDWI = EvidenceRequest(
    kind="second_method",
    reason="The same target by mndwi.",
    arguments={"regions_method": {"kind": "index_threshold", "index": "mndwi", "threshold": "otsu", "side": "above"}},
)


def finished(judge: ScriptedJudge | None = None) -> tuple[LogRecorder, RunState, str]:
    r = LogRecorder()
    state = go(r, water_plan(), ScriptedToolBox(), judge or ScriptedJudge())
    return r, state, next(iter(state.observations))


def asked_by_ada(r: LogRecorder, observation_id: str, request: EvidenceRequest = MNDWI) -> str:
    ask_id = new_id()
    r.append(EvidenceAsked(at=T0, id=ask_id, observation_id=observation_id, request=request, author="ada"))
    return ask_id


def again(
    r: LogRecorder, ask_id: str, judge: ScriptedJudge | None = None, box: ScriptedToolBox | None = None, **more: Any
) -> RunState:
    return go(r, water_plan(), box or ScriptedToolBox(), judge or ScriptedJudge(), cause=f"evidence {ask_id}", **more)


def test_what_is_asked_for_is_executed_decided_and_the_first_is_decided_anew_from_both() -> None:
    r, before, first = finished()
    n, ask_id = len(types(r)), asked_by_ada(r, first)
    judge, box = ScriptedJudge(), ScriptedToolBox()
    state = again(r, ask_id, judge, box)
    (request,) = state.observations[first].requests
    assert (request.ask_id, request.outcome, request.p_before, request.p_after) == (ask_id, "answered", 0.95, 0.95)
    support = state.observations[request.supporting_id or ""]
    assert support.decision is not None and support.decision.decision == "accept"
    assert [a["regions_method"]["index"] for _, a in box.calls] == ["mndwi"]
    # first the new one for itself, then the asked one from both; no request of the machine's own was made
    assert judge.seen == [(support.id, (), 0), (first, (support.id,), 0)]
    assert types(r)[n:] == [
        "EvidenceAsked", "RunResumed", "StepStarted", "ObservationRecorded", "DecisionMade",
        "EvidenceAnswered", "DecisionMade", "RunFinished",
    ]  # fmt: skip
    assert state.answer == before.answer, "both agree, so the answer stands"


def test_evidence_against_it_withdraws_the_answer() -> None:
    r, before, first = finished()
    ask_id = asked_by_ada(r, first)
    state = again(r, ask_id, ScriptedJudge(lambda o, s, n: reject("They do not agree.") if s else accept()))
    assert state.observations[first].effective == "reject"
    assert state.answer is not None and state.answer.abstained
    assert state.answers[-1].cause == f"evidence {ask_id}" and state.answer_before == before.answer


def test_a_verdict_stays_what_counts() -> None:
    r, before, first = finished()
    give_verdict(r, first, "accept")
    state = again(r, asked_by_ada(r, first), ScriptedJudge(lambda o, s, n: reject() if s else accept()))
    held = state.observations[first]
    assert held.decision is not None and held.decision.decision == "reject"
    assert held.effective == "accept"
    assert state.answer == before.answer


def test_doubt_that_it_raises_is_the_machines_to_settle_and_its_own_requests_are_not_used_up() -> None:
    r, _, first = finished()
    own = EvidenceRequest(kind="refined_mask", reason="r", arguments={"regions_method": {"min_px": 9}})
    judge = ScriptedJudge(lambda o, s, n: accept() if len(s) != 1 else ask(MNDWI, own))
    state = again(r, asked_by_ada(r, first), judge)
    held = state.observations[first]
    assert [(x.request.kind, bool(x.ask_id), x.outcome) for x in held.requests] == [
        ("second_method", True, "answered"),
        ("refined_mask", False, "answered"),
    ], "what the person had executed is not executed again"
    assert held.effective == "accept"
    assert judge.seen[-1] == (first, tuple(x.supporting_id for x in held.requests), 1)


def test_what_the_machine_could_not_settle_a_persons_request_may() -> None:
    more = [EvidenceRequest(kind="other_scale", reason="r", arguments={"regions_method": {"min_px": i}}) for i in range(1, 6)]
    r, before, first = finished(ScriptedJudge(lambda o, s, n: ask(*more)))
    assert before.answer is not None and before.answer.abstained
    state = again(r, asked_by_ada(r, first), ScriptedJudge(lambda o, s, n: accept() if len(s) == 3 or not s else ask(*more)))
    assert state.observations[first].effective == "accept"
    assert state.answer is not None and not state.answer.abstained


def test_a_new_observation_in_doubt_goes_to_a_person_and_asks_for_nothing_more() -> None:
    r, _, first = finished()
    box = ScriptedToolBox()
    state = again(r, asked_by_ada(r, first), ScriptedJudge(lambda o, s, n: accept() if s else ask(MNDWI)), box)
    (request,) = state.observations[first].requests
    support = state.observations[request.supporting_id or ""]
    assert support.decision is not None and support.decision.stage == "policy"
    assert [x.kind for x in support.decision.requested] == ["human"]
    assert len(box.calls) == 1


def test_a_failed_call_settles_nothing_and_is_said() -> None:
    from apps.core.evidence.observation import Status

    r, before, first = finished()

    def failing(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return by_arguments(tool, arguments) | {
            "status": Status(state="failed", started_at=T0, elapsed_s=0.1, reason="The band is missing.")
        }

    state = again(r, asked_by_ada(r, first), box=ScriptedToolBox(failing))
    (request,) = state.observations[first].requests
    assert (request.outcome, request.message) == ("failed", "The band is missing.")
    support = state.observations[request.supporting_id or ""]
    assert support.decision is not None and support.decision.stage == "status"
    assert len(state.observations[first].decisions) == 1
    assert state.answer == before.answer


def test_a_budget_that_is_used_up_leaves_the_request_unanswered_and_the_answer_as_it_was() -> None:
    r, before, first = finished()
    asked_by_ada(r, first)
    second = asked_by_ada(r, first, MNDWI.model_copy(update={"arguments": {"regions_method": {"min_px": 9}}}))
    state = again(r, second, policy=AgentPolicy(max_tool_calls=1))
    assert [x.outcome for x in state.observations[first].requests] == ["answered", "unavailable"]
    assert "budget" in state.observations[first].requests[1].message
    assert state.answer == before.answer


def test_withdrawn_before_or_during_the_call_nothing_of_it_is_recorded() -> None:
    r, before, first = finished()
    ask_id = asked_by_ada(r, first)
    r.append(EvidenceWithdrawn(at=T0, ask_id=ask_id, author="ada"))
    box = ScriptedToolBox()
    state = again(r, ask_id, box=box)
    assert box.calls == [] and state.observations[first].open_asks == []

    during = asked_by_ada(r, first)

    def withdrawing(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        r.append(EvidenceWithdrawn(at=T0, ask_id=during, author="ada"))
        return by_arguments(tool, arguments)

    state = again(r, during, box=ScriptedToolBox(withdrawing))
    assert len(state.observations) == len(before.observations)
    assert state.observations[first].requests == []
    assert state.answer == before.answer


def test_killed_after_any_event_it_ends_the_same_and_no_event_is_doubled() -> None:
    def judge() -> ScriptedJudge:
        return ScriptedJudge(lambda o, s, n: reject() if s else accept())

    r, _, first = finished()
    n, ask_id = len(types(r)), asked_by_ada(r, first)
    whole = LogRecorder(r.payloads)
    again(whole, ask_id, judge())
    want = [t for t in types(whole)[n:] if t != "RunResumed"]
    for at in range(len(r.payloads), len(whole.payloads)):
        dying = LogRecorder(r.payloads, die_at=at)
        with pytest.raises(KilledError):
            again(dying, ask_id, judge())
        alive = LogRecorder(dying.payloads)
        state = again(alive, ask_id, judge())
        assert state.observations[first].effective == "reject"
        got = [t for t in types(alive)[n:] if t != "RunResumed"]
        assert got == want or got == [*want, "RunFinished"], at
