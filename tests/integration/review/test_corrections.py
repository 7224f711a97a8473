"""A person's own value or layer in place of the machine's: the answer from it, the prior, undo, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client
from scipy import ndimage

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set
from apps.core.errors import NotFoundError, UserError
from apps.prior.models import PriorEvent
from apps.prior.selectors import prior_digest, prior_rebuild
from apps.review.models import VerdictRecord
from apps.review.services import correction_give, verdict_give, verdict_undo
from apps.runs import selectors
from apps.runs.assembly import layers
from apps.runs.models import ObservationRow, Run
from apps.runs.services import run_execute_now, run_start
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file


def revise(run: Run) -> Any:
    assert run_execute_now(run_id=run.pk)
    return selectors.run_state(run.pk)


def digest() -> str:
    return prior_digest(prior_rebuild())


def by_tool(run: Run, tool: str) -> Any:
    return next(o for o in selectors.run_state(run.pk).history if o.observation.tool == tool)


@pytest.fixture
def trees(analyst: User, project: Project) -> Run:
    """How many trees there are in a photo: boxes of a detector, counted."""
    scene = scene_of_file(project=project, path=Path(SAMPLES / "OSBS_029.tif"))
    run = run_start(user=analyst, project=project, text="How many trees are there?", scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    return run


def test_a_value_stands_beside_the_machines_and_undo_restores_all_to_the_digit(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row, before = ObservationRow.objects.get(run=run), selectors.run_state(run.pk)
    prior = digest()
    record = correction_give(user=analyst, observation_id=row.pk, value="0.6", reason="wrong_value", enqueue=False)
    state = revise(run)
    first, mine = state.observations[row.pk], state.observations[record.corrected_id]
    assert first.observation == before.observations[row.pk].observation and first.decision is not None
    assert first.decision.decision == "accept" and first.effective == "reject", "the machine's decision stands beside"
    assert (mine.decision, mine.effective, mine.verdict.author) == (None, "accept", "analyst")  # type: ignore[union-attr]
    assert state.answer is not None and state.answer.value == 0.6 and state.answer.based_on == (mine.id,)
    assert "the value is analyst’s, not the machine’s" in state.answer.text
    assert state.answer_before == before.answer
    (event,) = PriorEvent.objects.all()
    assert (event.is_success, event.fine, event.observation_id) == (False, row.fine, row.pk)
    n_calls = len(state.steps_started)
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    state = revise(run)
    assert state.answer == before.answer and digest() == prior
    assert len(state.steps_started) == n_calls, "no tool was called for it"
    assert not state.observations[mine.id].is_accepted
    assert {r.pk: r.verdict for r in ObservationRow.objects.filter(run=run)} == {row.pk: "", mine.id: ""}


def test_a_newer_verdict_takes_the_place_of_a_correction_and_its_undo_gives_it_back(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row, answer = ObservationRow.objects.get(run=run), selectors.run_state(run.pk).answer
    correction_give(user=analyst, observation_id=row.pk, value="0.6", reason="wrong_value", enqueue=False)
    second = correction_give(user=analyst, observation_id=row.pk, value="0.7", reason="wrong_value", enqueue=False)
    assert revise(run).answer.value == 0.7
    right = verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    state = revise(run)
    assert state.answer.value == answer.value and state.answer.based_on == answer.based_on  # type: ignore[union-attr]
    verdict_undo(user=analyst, verdict_id=right.pk, enqueue=False)
    state = revise(run)
    assert state.answer.value == 0.7 and state.answer.based_on == (second.corrected_id,)
    again = correction_give(user=analyst, observation_id=row.pk, value="0.70", reason="wrong_value", enqueue=False)
    assert again.pk == second.pk, "the same said twice is one"


def test_boxes_taken_away_are_not_counted(trees: Run, analyst: User) -> None:
    found, counted = by_tool(trees, "perceive"), by_tool(trees, "measure")
    before, prior = selectors.run_state(trees.pk), digest()
    n = counted.observation.result.value
    client = Client()
    client.force_login(analyst)
    parts = client.get(f"/api/v1/observations/{found.id}/corrections/").json()
    assert parts["kind"] == "parts" and parts["n_parts"] == n == before.answer.value  # type: ignore[union-attr]
    gone = [p["key"] for p in parts["parts"][-2:]]
    record = correction_give(user=analyst, observation_id=found.id, remove=gone, reason="wrong_place", enqueue=False)
    state = revise(trees)
    mine = state.observations[record.corrected_id].observation
    kept = next(r for r in mine.result.layers if r.kind == "boxes" and r.label != "candidates")
    features = layers(trees.project_id).read_features(kept)
    assert len(features) == kept.n == mine.evidence.intermediate["kept"] == n - 2
    anew = [o for o in state.observations.values() if o.observation.parents == (mine.id,)]
    assert anew and anew[0].observation.result.value == n - 2
    # the machine judges the count over the person's boxes like any other
    assert anew[0].decision is not None and anew[0].checks
    if anew[0].is_accepted:
        assert state.answer.value == n - 2
    assert counted.id not in state.answer.based_on
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    assert revise(trees).answer == before.answer and digest() == prior


def test_a_count_is_a_whole_number_from_zero_on(trees: Run, analyst: User) -> None:
    counted = by_tool(trees, "measure")
    n = counted.observation.result.value
    for wrong in ("2.5", "-1", str(n), "1e10"):
        with pytest.raises(UserError) as caught:
            correction_give(user=analyst, observation_id=counted.id, value=wrong, reason="missed", enqueue=False)
        assert caught.value.code == "BAD_ARGUMENT", wrong
    correction_give(user=analyst, observation_id=counted.id, value=str(n + 1), reason="missed", enqueue=False)
    answer = revise(trees).answer
    assert (answer.value, answer.interval) == (n + 1, None), "the machine's interval is not said of a person's count"
    assert PriorEvent.objects.get().is_success is False


def test_a_piece_of_a_mask_is_taken_away(ask: Any, analyst: User) -> None:
    run = ask("How many hectares of water are there?")
    found, area = by_tool(run, "perceive"), by_tool(run, "measure")
    before, store = selectors.run_state(run.pk), layers(run.project_id)
    ref = found.observation.layer("mask")
    mask, valid = store.read_mask(ref)
    labels, _ = ndimage.label(mask & valid, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel())[1:]
    largest = int(np.argmax(sizes)) + 1
    i = found.observation.result.layers.index(ref)
    record = correction_give(
        user=analyst, observation_id=found.id, remove=[f"{i}:{largest}"], reason="wrong_place", enqueue=False
    )
    state = revise(run)
    mine = state.observations[record.corrected_id].observation
    left, _ = store.read_mask(mine.layer("mask"))  # type: ignore[arg-type]
    assert int(left.sum()) == int((mask & valid).sum()) - int(sizes.max())
    anew = next(o for o in state.observations.values() if o.observation.parents == (mine.id,)).observation.result
    share = 1 - sizes.max() / sizes.sum()
    if state.observations[state.answer.based_on[-1]].observation.parents == (mine.id,):
        assert "analyst changed what observation 1 found" in state.answer.text
    assert anew.value == pytest.approx(area.observation.result.value * share, rel=2e-3)
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    assert revise(run).answer == before.answer


@pytest.mark.parametrize(
    ("question", "value", "unit", "expected"),
    [
        ("How many hectares of water are there?", "1.5", "km2", (150, "ha")),
        ("Is there any water?", "0", "", (False, None)),
        ("What share of the area is water?", "0.25", "", (0.25, None)),
    ],
)
def test_values_of_every_kind_in_the_answer(ask: Any, analyst: User, question: str, value: str, unit: str, expected: Any) -> None:
    run = ask(question)
    before = selectors.run_state(run.pk)
    last = list(before.observations.values())[-1]
    correction_give(user=analyst, observation_id=last.id, value=value, unit=unit, reason="wrong_value", enqueue=False)
    answer = revise(run).answer
    number = answer.value / 100 if answer.unit == "%" else answer.value
    assert number == pytest.approx(expected[0]) and (expected[1] is None or answer.unit == expected[1]), answer.text


def test_what_cannot_be_is_refused_with_a_sentence_and_changes_nothing(
    ask: Any, analyst: User, stranger: User, project: Project
) -> None:
    run = ask("What is the mean NDVI?")
    water = ask("How many hectares of water are there?")
    row, area, mask = ObservationRow.objects.get(run=run), by_tool(water, "measure"), by_tool(water, "perceive")
    held = selectors.run_state(run.pk).observations[row.pk].observation.result.value
    client = Client(raise_request_exception=False)
    client.force_login(analyst)
    for target, posted in (
        (row.pk, {}),
        (row.pk, {"value": str(held)}),
        (row.pk, {"value": "1,5"}),
        (row.pk, {"value": "nan"}),
        (row.pk, {"value": "inf"}),
        (row.pk, {"value": "1e999"}),
        (row.pk, {"value": "١"}),
        (row.pk, {"value": "2"}),  # an NDVI is at most 1
        (row.pk, {"value": "0.6", "unit": "ha"}),
        (row.pk, {"value": "0.6", "reason": "because"}),
        (row.pk, {"value": "0.6", "note": "n" * 2001}),
        (row.pk, {"value": "0.6" * 400}),
        (area.id, {"value": "-1", "unit": "ha"}),
        (area.id, {"value": "1", "unit": "px"}),
        (mask.id, {"value": "3"}),
        (mask.id, {"remove": "0:999999"}),
        (mask.id, {"remove": "<b>"}),
    ):
        answer = client.post(f"/observations/{target}/correction/", posted)
        assert answer.status_code == 400, (posted, answer.status_code)
    for body in ("{", "[]", '{"value": {"a": 1}}', '{"remove": 3, "value": "0.6"}', '{"value": "\\u0000"}'):
        assert 400 <= client.post(
            f"/api/v1/observations/{row.pk}/corrections/", body, content_type="application/json"
        ).status_code < 500, body  # fmt: skip
    with pytest.raises(NotFoundError):
        correction_give(user=stranger, observation_id=row.pk, value="0.6", reason="wrong_value", enqueue=False)
    membership_set(project=project, username="stranger", role="viewer")
    with pytest.raises(UserError) as caught:
        correction_give(user=stranger, observation_id=row.pk, value="0.6", reason="wrong_value", enqueue=False)
    assert caught.value.status == 403
    client.force_login(stranger)
    assert "may look but not judge" in client.get(f"/observations/{row.pk}/correction/").content.decode()
    assert VerdictRecord.objects.count() == 0 and PriorEvent.objects.count() == 0
    # another's stands: who may not adjudicate is refused, and says nothing
    correction_give(user=analyst, observation_id=row.pk, value="0.6", reason="wrong_value", enqueue=False)
    membership_set(project=project, username="stranger", role="analyst")
    with pytest.raises(UserError) as caught:
        correction_give(user=stranger, observation_id=row.pk, value="0.5", reason="wrong_value", enqueue=False)
    assert caught.value.status == 403
    # the person's own is no observation to be judged or changed again
    mine = VerdictRecord.objects.get().corrected_id
    with pytest.raises(UserError) as caught:
        verdict_give(user=analyst, observation_id=mine, value="accept", enqueue=False)
    assert caught.value.status == 409
    with pytest.raises(UserError) as caught:
        correction_give(user=analyst, observation_id=mine, value="0.5", reason="other", enqueue=False)
    assert caught.value.status == 409


def test_two_people_do_not_overwrite_each_other_unseen(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    row = ObservationRow.objects.get(run=ask("What is the mean NDVI?"))
    membership_set(project=project, username="stranger", role="reviewer")
    first, second = Client(), Client()
    first.force_login(analyst)
    second.force_login(stranger)
    address = f"/observations/{row.pk}/correction/"
    assert 'name="seen" value=""' in second.get(address).content.decode()
    assert first.post(address, {"value": "0.6", "seen": ""}).status_code == 302
    assert second.post(address, {"value": "0.7", "seen": ""}).status_code == 409, "the reviewer has not seen it"
    record = VerdictRecord.objects.get()
    assert f'name="seen" value="{record.pk}"' in second.get(address).content.decode()
    assert second.post(address, {"value": "0.7", "seen": str(record.pk)}).status_code == 302
    newest = VerdictRecord.objects.latest("given_at")
    assert (newest.author, newest.is_adjudication) == (stranger, False), "both say that it is wrong"


def test_the_pages_say_who_said_what(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    client = Client()
    client.force_login(analyst)
    form = client.get(f"/observations/{row.pk}/correction/").content.decode()
    assert 'name="value"' in form and "Change it" in form
    answer = client.post(f"/observations/{row.pk}/correction/", {"value": "0.6"}, headers={"HX-Request": "true"})
    assert answer.status_code == 204 and "0.530 \\u2192 0.600" in answer.headers["HX-Trigger"]
    assert "undo_url" in answer.headers["HX-Trigger"]
    revise(run)
    record = VerdictRecord.objects.get()
    page = client.get(f"/observations/{row.pk}/").content.decode()
    assert '<s class="v num">0.530</s>' in page and f"/observations/{record.corrected_id}/" in page
    own = client.get(f"/observations/{record.corrected_id}/").content.decode()
    assert "None was made: it is the word of a person." in own and "No rule check applies" not in own
    assert "Not the machine’s value" in own and "Value of analyst" in own
    trace = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Value of analyst" in trace and "0.600" in trace
    assert client.get("/review/").status_code == 200
    assert client.get(f"/runs/{run.pk}/report/").status_code == 200
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    revise(run)
    trace = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Value of analyst" not in trace and f"obs-{record.corrected_id}" not in trace
    assert "Taken back" in client.get(f"/observations/{record.corrected_id}/").content.decode()
