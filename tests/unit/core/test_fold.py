"""The fold of events: effective decisions, verified history, undo."""

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from apps.core.evidence import Answer, Configuration, Decision, Observation, Result, Status, TaskRef, Verdict, fold
from apps.core.evidence.events import (
    AnswerGiven,
    DecisionMade,
    Event,
    ObservationRecorded,
    VerdictGiven,
    VerdictUndone,
    read_event,
    read_event_json,
)

AT = datetime(2026, 1, 1, tzinfo=UTC)
TASK = TaskRef(task_type="index_statistic", question="?", answer_form="number")


def observation(name: str, *parents: str, value: float = 1.0) -> Observation:
    return Observation(
        id=name,
        step=1,
        parents=parents,
        task=TASK,
        tool="execute",
        configuration=Configuration(coarse="a", fine="a/b"),
        status=Status(state="ok", started_at=AT, elapsed_s=0.1),
        result=Result(kind="statistic", value=value),
    )


def recorded(o: Observation) -> ObservationRecorded:
    return ObservationRecorded(at=AT, call_key=o.id, observation=o)


def decided(name: str, decision: str) -> DecisionMade:
    return DecisionMade(at=AT, observation_id=name, checks=(), decision=Decision(decision=decision, stage="verifier"))  # type: ignore[arg-type]


def verdict(name: str, observation_id: str, value: str) -> VerdictGiven:
    return VerdictGiven(at=AT, verdict=Verdict(id=name, observation_id=observation_id, value=value, author="a", given_at=AT))  # type: ignore[arg-type]


BASE: list[Event] = [recorded(observation("a")), decided("a", "accept"), recorded(observation("b", "a")), decided("b", "accept")]


def test_a_child_of_a_rejected_parent_leaves_the_history_and_undo_brings_both_back() -> None:
    events: list[Event] = [*BASE, verdict("v", "a", "reject")]
    state = fold(enumerate(events, 1))
    assert state.history == []
    assert [o.id for o in state.descendants("a")] == ["b"]
    state = fold(enumerate([*events, VerdictUndone(at=AT, verdict_id="v", author="a")], 1))
    assert [o.id for o in state.history] == ["a", "b"]


def test_the_verdict_stands_beside_the_decision() -> None:
    state = fold(enumerate([*BASE, verdict("v", "a", "reject"), verdict("w", "a", "accept")], 1))
    held = state.observations["a"]
    assert held.decision is not None
    assert held.decision.decision == "accept"
    assert held.effective == "accept"
    assert len(held.verdicts) == 2


def test_unsure_is_not_accepted() -> None:
    state = fold(enumerate([*BASE, verdict("v", "b", "unsure")], 1))
    assert not state.is_in_history("b")
    assert state.is_in_history("a")


def test_an_undecided_observation_is_not_in_the_history() -> None:
    assert fold([(1, recorded(observation("a")))]).history == []


def test_events_seen_twice_change_nothing() -> None:
    events = list(enumerate(BASE, 1))
    assert fold([*events, *events]).seq == 4
    assert len(fold([*events, *events]).observations) == 2


def test_confirmed_counts_people_only() -> None:
    answer = AnswerGiven(at=AT, answer=Answer(text="1", value=1, based_on=("a", "b")))
    assert fold(enumerate([*BASE, answer], 1)).confirmed_count() == (0, 2)
    assert fold(enumerate([*BASE, answer, verdict("v", "a", "accept")], 1)).confirmed_count() == (1, 2)


def test_events_survive_json_and_refuse_extra_fields() -> None:
    for event in BASE:
        assert read_event_json(event.model_dump_json()) == event
    with pytest.raises(ValidationError):
        read_event(BASE[1].model_dump() | {"surprise": 1})


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_no_observation_holds_a_number_that_is_none(value: float) -> None:
    with pytest.raises(ValidationError):
        observation("a", value=value)


def test_long_lists_belong_in_artifacts() -> None:
    body = observation("a").model_dump() | {"evidence": {"intermediate": {"scores": [0.5] * 1001}}}
    with pytest.raises(ValidationError, match="artifact"):
        Observation.model_validate(body)


def test_an_observation_is_not_its_own_parent() -> None:
    with pytest.raises(ValidationError):
        observation("a", "a")
