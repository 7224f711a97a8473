"""Properties of the loop over random decisions and random deaths: what was recorded decides the end, and undo restores it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from apps.agent.loop import run_agent
from apps.agent.policy import AgentPolicy
from apps.core.digests import digest_json
from apps.core.evidence.decision import Decision, EvidenceRequest
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation, TaskRef
from apps.core.evidence.plan import AnswerRecipe, Plan, PlanStep
from tests.unit.agent.scripted import (
    KilledError,
    LogRecorder,
    ScriptedJudge,
    ScriptedPlanner,
    ScriptedToolBox,
    SteppingClock,
    accept,
    area_arguments,
    ask,
    give_verdict,
    question,
    reject,
    undo_verdict,
    water_arguments,
)

REQUESTS = (
    EvidenceRequest(kind="second_method", reason="r", arguments={"regions_method": {"index": "mndwi"}}),
    EvidenceRequest(kind="refined_mask", reason="r", arguments={"regions_method": {"min_px": 9}}),
    EvidenceRequest(kind="human", reason="r"),
    EvidenceRequest(kind="recompute", reason="r"),
    EvidenceRequest(kind="missing_evidence", reason="r", field="/evidence/x"),
)
TWO_AREAS = Plan(
    task=TaskRef(task_type="zonal_comparison", question="Which is larger?", answer_form="class"),
    planner="scripted",
    steps=(
        PlanStep(step=1, tool="perceive", arguments=water_arguments(), why="One.", alternatives=(water_arguments("mndwi"),)),
        PlanStep(step=2, tool="measure", arguments=area_arguments(1), why="Its area.", needs=(1,)),
        PlanStep(
            step=3, tool="perceive", arguments=water_arguments("awei_sh"), why="Two.", alternatives=(water_arguments("wri"),)
        ),
        PlanStep(step=4, tool="measure", arguments=area_arguments(3), why="Its area.", needs=(3,)),
    ),
    answer=AnswerRecipe(kind="compare", steps=(2, 4), unit="km2", options={"labels": ["one", "two"]}),
)
REVISED = TWO_AREAS.model_copy(
    update={
        "steps": (
            TWO_AREAS.steps[0].model_copy(update={"arguments": water_arguments("ndmi"), "alternatives": ()}),
            *TWO_AREAS.steps[1:],
        )
    }
)
FAST = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class TableJudge(ScriptedJudge):
    """Decides by a table that the observation's arguments and the number of requests made are hashed into."""

    def __init__(self, table: Sequence[int]) -> None:
        self.table = table
        super().__init__(self._decide)

    def _decide(self, o: Observation, supporting: Sequence[Observation], made: int) -> Decision:
        method = o.arguments.get("regions_method")
        key = digest_json([o.tool, method, len(o.parents), made])
        choice = self.table[int(key[7:15], 16) % len(self.table)]
        if choice < 4:
            return accept()
        if choice < 6:
            return reject()
        return ask(*(r for i, r in enumerate(REQUESTS) if choice >> i & 1))


def go(recorder: LogRecorder, table: Sequence[int], policy: AgentPolicy, box: ScriptedToolBox, cause: str = "") -> RunState:
    return run_agent(
        question(),
        planner=ScriptedPlanner(TWO_AREAS, REVISED),
        toolbox=box,
        judge=TableJudge(table),
        recorder=recorder,
        run_id="run-1",
        policy=policy,
        clock=SteppingClock(),
        cause=cause,
    )


def outline(state: RunState) -> Any:
    names = {o.id: f"o{i}" for i, o in enumerate(state.observations.values())}
    answer = state.answer
    assert answer is not None
    return (
        state.status,
        len(state.plans),
        state.plan,
        [(o.observation.tool, o.observation.step, o.observation.attempt, o.effective) for o in state.observations.values()],
        [[(q.request.kind, q.outcome) for q in o.requests] for o in state.observations.values()],
        [names[i] for i in answer.based_on],
        (answer.value, answer.abstained, answer.code),
    )


tables = st.lists(st.integers(0, 31), min_size=4, max_size=12)
policies = st.builds(AgentPolicy, on_unresolved=st.sampled_from(["reject", "person"]))


@FAST
@given(tables, policies, st.lists(st.integers(1, 9), max_size=6))
def test_deaths_change_nothing(table: list[int], policy: AgentPolicy, deaths: list[int]) -> None:
    expected = outline(go(LogRecorder(), table, policy, ScriptedToolBox()))
    recorder = LogRecorder()
    for more in deaths:
        recorder.die_at = len(recorder.payloads) + more
        try:
            go(recorder, table, policy, ScriptedToolBox())
        except KilledError:
            continue
        break
    recorder.die_at = None
    state = go(recorder, table, policy, ScriptedToolBox())
    assert outline(state) == expected
    keys = [e.call_key for e in recorder.events if e.type == "ObservationRecorded"]
    assert len(keys) == len(set(keys))
    assert sum(e.type == "AnswerGiven" for e in recorder.events) == 1
    assert sum(e.type == "RunFinished" for e in recorder.events) == 1


@FAST
@given(tables, policies, st.integers(0, 100), st.sampled_from(["accept", "reject", "unsure"]))
def test_undoing_a_verdict_restores_the_answer_without_a_call(
    table: list[int], policy: AgentPolicy, which: int, verdict: str
) -> None:
    recorder, box = LogRecorder(), ScriptedToolBox()
    before = go(recorder, table, policy, box).answer
    ids = list(recorder.state().observations)
    given_id = give_verdict(recorder, ids[which % len(ids)], verdict)
    go(recorder, table, policy, box, cause=given_id)
    calls = len(box.calls)
    state = go(recorder, table, policy, box, cause=undo_verdict(recorder, given_id))
    assert state.answer == before
    assert len(box.calls) == calls
    assert state.status == "finished"


@FAST
@given(tables, policies)
def test_an_answer_rests_on_accepted_observations_alone_and_bounds_hold(table: list[int], policy: AgentPolicy) -> None:
    box = ScriptedToolBox()
    state = go(LogRecorder(), table, policy, box)
    assert state.answer is not None
    assert all(state.is_in_history(i) for i in state.answer.based_on)
    assert state.answer.abstained or state.answer.based_on
    for held in state.observations.values():
        assert sum(q.outcome != "unavailable" for q in held.requests) <= policy.max_requests
    assert len(state.plans) <= 1 + policy.max_revisions
    supporting = {q.supporting_id for o in state.observations.values() for q in o.requests}
    calls = [
        digest_json([o.observation.tool, o.observation.arguments, list(o.observation.parents)])
        for o in state.observations.values()
        if o.id not in supporting
    ]
    assert len(calls) == len(set(calls)), "the same call is never repeated"
