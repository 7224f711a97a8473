"""Override and undo: the answer before and after, and the prior back to the digit."""

import re
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import pytest
from django.db import close_old_connections, connection
from django.test import Client

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.events import AnswerGiven, VerdictGiven
from apps.prior.models import PriorEvent
from apps.prior.selectors import prior_digest, prior_rebuild
from apps.review import selectors as review
from apps.review.models import VerdictRecord
from apps.review.services import claim_take, correction_give, verdict_give, verdict_redo, verdict_undo
from apps.runs import selectors
from apps.runs.assembly import prior_source
from apps.runs.models import ObservationRow, Run, RunEvent
from apps.runs.services import event_append, run_execute_now


def prior_of(row: ObservationRow) -> tuple[float, tuple[float, float], float]:
    view = prior_source().view(task_type=row.task_type, tool=row.tool, coarse=row.coarse, fine=row.fine)
    return view.r_hat, view.interval, view.n


def revise(run: Run) -> None:
    assert run_execute_now(run_id=run.pk)


def shown(client: Client, run: Run) -> str:
    """Words of the run's page and of its report, where both say the same of the answer before."""
    page, report = (re.sub("<[^>]*>", "", client.get(f"/runs/{run.pk}/{end}").content.decode()) for end in ("", "report/"))
    said = re.findall(r"Before the [a-z ]+: ", page)
    assert said and said == re.findall(r"Before the [a-z ]+: ", report)
    return str(said[0])


def test_reject_withdraws_the_answer_and_undo_restores_all_to_the_digit(ask: Any, analyst: User, client: Client) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    before, answer = prior_of(row), selectors.run_state(run.pk).answer
    record = verdict_give(user=analyst, observation_id=row.pk, value="reject", reason="wrong_value", enqueue=False)
    revise(run)
    state = selectors.run_state(run.pk)
    held = state.observations[row.pk]
    assert held.decision is not None and held.decision.decision == "accept", "the machine's decision stands beside the verdict"
    assert held.effective == "reject"
    assert state.answer is not None and row.pk not in state.answer.based_on
    assert state.answer.abstained, "the same number by another path is not accepted against a person's word"
    assert state.answer_before == answer
    assert prior_of(row)[0] < before[0]
    assert prior_of(row)[2] == before[2] + 1
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    client.force_login(analyst)
    assert "Before the verdict: " in shown(client, run)
    revise(run)
    state = selectors.run_state(run.pk)
    assert state.answer == answer
    assert "Before the verdict was undone: " in shown(client, run)
    assert prior_of(row) == before
    row.refresh_from_db()
    assert row.verdict == "" and row.is_under_answer


def test_accept_confirms_and_counts_people_only(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    before = prior_of(row)
    verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    revise(run)
    assert selectors.run_state(run.pk).confirmed_count() == (1, 1)
    assert prior_of(row)[0] > before[0]


def test_unsure_moves_no_prior_but_takes_the_observation_out_of_the_answer(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    before = prior_of(row)
    verdict_give(user=analyst, observation_id=row.pk, value="unsure", enqueue=False)
    revise(run)
    assert prior_of(row) == before
    answer = selectors.run_state(run.pk).answer
    assert answer is not None and row.pk not in answer.based_on


def test_rejecting_the_mask_withdraws_what_was_measured_on_it(ask: Any, analyst: User) -> None:
    run = ask("How many hectares of water are there?")
    state = selectors.run_state(run.pk)
    mask = next(o for o in state.history if o.observation.tool == "perceive")
    area = next(o for o in state.history if o.observation.tool == "measure")
    answer = state.answer
    record = verdict_give(user=analyst, observation_id=mask.id, value="reject", reason="wrong_place", enqueue=False)
    revise(run)
    state = selectors.run_state(run.pk)
    assert not state.is_in_history(area.id)
    assert state.answer is not None and area.id not in state.answer.based_on
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    revise(run)
    assert selectors.run_state(run.pk).answer == answer


def test_a_newer_verdict_replaces_the_movement_of_the_former(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    start = prior_of(row)
    first = verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    once = prior_of(row)
    second = verdict_give(user=analyst, observation_id=row.pk, value="reject", reason="other", enqueue=False)
    assert prior_of(row)[2] == once[2]
    with pytest.raises(UserError, match="no longer stands"):
        verdict_undo(user=analyst, verdict_id=first.pk, enqueue=False)
    verdict_undo(user=analyst, verdict_id=second.pk, enqueue=False)
    assert prior_of(row) == once
    verdict_undo(user=analyst, verdict_id=first.pk, enqueue=False)
    assert prior_of(row) == start


def test_verdicts_need_a_reason_a_known_value_and_a_role(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    row = ObservationRow.objects.get(run=ask("What is the mean NDVI?"))
    for value, reason in (("maybe", ""), ("reject", ""), ("reject", "because")):
        with pytest.raises(UserError) as caught:
            verdict_give(user=analyst, observation_id=row.pk, value=value, reason=reason, enqueue=False)
        assert caught.value.code == "BAD_ARGUMENT"
    with pytest.raises(NotFoundError):
        verdict_give(user=stranger, observation_id=row.pk, value="accept", enqueue=False)
    membership_set(project=project, username=stranger.username, role="viewer")
    with pytest.raises(UserError) as caught:
        verdict_give(user=stranger, observation_id=row.pk, value="accept", enqueue=False)
    assert caught.value.code == "FORBIDDEN"
    assert VerdictRecord.objects.count() == 0


def test_the_queue_holds_what_waits_for_a_person(ask: Any, analyst: User, stranger: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    ObservationRow.objects.filter(pk=row.pk).update(decision="reject", is_audit=False)
    items, total = review.review_queue(analyst)
    assert [i.row.pk for i in items] == [row.pk] and total == 1
    assert review.review_queue(stranger) == ([], 0)
    verdict_give(user=analyst, observation_id=row.pk, value="unsure", enqueue=False)
    assert [i.row.pk for i in review.review_queue(analyst, view="unsure")[0]] == [row.pk]
    verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    assert review.review_queue(analyst)[1] == 0
    assert review.review_queue(analyst, view="settled")[1] == 1


def test_a_claim_keeps_others_away_until_it_runs_out(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    row = ObservationRow.objects.get(run=ask("What is the mean NDVI?"))
    membership_set(project=project, username=stranger.username, role="reviewer")
    claim = claim_take(user=analyst, observation_id=row.pk)
    with pytest.raises(UserError) as caught:
        claim_take(user=stranger, observation_id=row.pk)
    assert caught.value.status == 409
    claim.until = claim.until.replace(year=2020)
    claim.save()
    assert claim_take(user=stranger, observation_id=row.pk).reviewer == stranger


def test_a_double_click_is_one_verdict_that_one_undo_takes_back(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    before = prior_of(row)
    first = verdict_give(user=analyst, observation_id=row.pk, value="reject", reason="wrong_value", enqueue=False)
    again = verdict_give(user=analyst, observation_id=row.pk, value="reject", reason="wrong_value", enqueue=False)
    assert first == again
    assert prior_of(row)[2] == before[2] + 1
    verdict_undo(user=analyst, verdict_id=again.pk, enqueue=False)
    row.refresh_from_db()
    assert row.verdict == ""
    assert prior_of(row) == before


@pytest.mark.django_db(transaction=True)
def test_two_people_and_a_worker_at_once_leave_one_log_and_one_movement(
    ask: Any, analyst: User, stranger: User, project: Project
) -> None:
    """Two tabs judge while a worker writes the answer again: no deadlock, no gap, one verdict stands, the prior moved once."""
    membership_set(project=project, username=stranger.username, role="reviewer")
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    answer = selectors.run_state(run.pk).answer
    assert answer is not None
    before, events = prior_of(row), PriorEvent.objects.count()
    together = Barrier(3)

    def judge(user: User, value: str) -> None:
        close_old_connections()
        together.wait()
        for turn in range(4):
            given = value if turn % 2 == 0 else "unsure"
            reason = "wrong_value" if given == "reject" else ""
            verdict_give(user=user, observation_id=row.pk, value=given, reason=reason, enqueue=False)
        connection.close()

    def work() -> None:
        close_old_connections()
        together.wait()
        for _ in range(12):
            event_append(run_id=run.pk, event=AnswerGiven(at=row.recorded_at, answer=answer))
        connection.close()

    with ThreadPoolExecutor(3) as pool:
        done = [pool.submit(judge, analyst, "accept"), pool.submit(judge, stranger, "reject"), pool.submit(work)]
        for one in done:
            one.result(timeout=120)
    run.refresh_from_db()
    log = list(RunEvent.objects.filter(run=run).values_list("seq", flat=True))
    assert log == list(range(1, run.last_seq + 1))
    standing = VerdictRecord.objects.filter(observation=row, undone_at__isnull=True, replaced_by__isnull=True)
    last = [e for _, e in selectors.run_events(run.pk, after=0, limit=1000) if isinstance(e, VerdictGiven)][-1]
    row.refresh_from_db()
    assert [str(v.pk) for v in standing] == [last.verdict.id]
    assert row.verdict == last.verdict.value == standing[0].value
    moved = 0 if last.verdict.value == "unsure" else 1
    assert prior_of(row)[2] == before[2] + moved
    seqs = list(PriorEvent.objects.values_list("seq", flat=True))
    assert seqs == list(range(1, len(seqs) + 1)) and len(seqs) > events


def test_a_disagreement_is_settled_by_a_reviewer_alone(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    row = ObservationRow.objects.get(run=ask("What is the mean NDVI?"))
    membership_set(project=project, username=stranger.username, role="analyst")
    first = verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    before = prior_of(row)
    for attempt in (
        lambda: verdict_give(user=stranger, observation_id=row.pk, value="reject", reason="other", enqueue=False),
        lambda: verdict_undo(user=stranger, verdict_id=first.pk, enqueue=False),
    ):
        with pytest.raises(UserError) as caught:
            attempt()
        assert caught.value.code == "FORBIDDEN"
    assert prior_of(row) == before
    membership_set(project=project, username=stranger.username, role="reviewer")
    settled = verdict_give(user=stranger, observation_id=row.pk, value="reject", reason="other", enqueue=False)
    assert settled.is_adjudication
    assert prior_of(row)[0] < before[0]


def test_what_was_undone_is_given_again_with_the_same_prior_and_answer(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    correction_give(user=analyst, observation_id=row.pk, value="0.6", reason="wrong_value", enqueue=False)
    revise(run)
    wrong = verdict_give(user=analyst, observation_id=row.pk, value="reject", reason="missed", note="Look.", enqueue=False)
    revise(run)
    digest, answer = prior_digest(prior_rebuild()), selectors.run_state(run.pk).answer
    first = VerdictRecord.objects.get(replaced_by=wrong)
    verdict_undo(user=analyst, verdict_id=wrong.pk, enqueue=False)
    revise(run)
    between = selectors.run_state(run.pk).answer
    assert between is not None and between.value == 0.6
    verdict_undo(user=analyst, verdict_id=first.pk, enqueue=False)
    revise(run)
    with pytest.raises(UserError) as caught:  # the newest undone comes first
        verdict_redo(user=analyst, verdict_id=wrong.pk, enqueue=False)
    assert caught.value.status == 409
    again = verdict_redo(user=analyst, verdict_id=first.pk, enqueue=False)
    revise(run)
    assert again.corrected_id == first.corrected_id and selectors.run_state(run.pk).answer == between
    twice = verdict_redo(user=analyst, verdict_id=wrong.pk, enqueue=False)
    revise(run)
    assert (twice.value, twice.reason, twice.note) == ("reject", "missed", "Look.")
    assert prior_digest(prior_rebuild()) == digest
    assert selectors.run_state(run.pk).answer == answer
    # and back once more, to the beginning
    verdict_undo(user=analyst, verdict_id=twice.pk, enqueue=False)
    verdict_undo(user=analyst, verdict_id=again.pk, enqueue=False)
    assert prior_digest(prior_rebuild()) == prior_digest(prior_rebuild(0))


def test_a_new_verdict_clears_what_could_be_given_again(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    row = ObservationRow.objects.get(run=ask("What is the mean NDVI?"))
    record = verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    with pytest.raises(UserError) as caught:  # it stands
        verdict_redo(user=analyst, verdict_id=record.pk, enqueue=False)
    assert caught.value.status == 409
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    with pytest.raises(NotFoundError):
        verdict_redo(user=stranger, verdict_id=record.pk, enqueue=False)
    with pytest.raises(NotFoundError):
        verdict_redo(user=analyst, verdict_id="nonsense", enqueue=False)
    for role in ("viewer", "reviewer"):  # a small role, and one whose word it was not
        membership_set(project=project, username=stranger.username, role=role)
        with pytest.raises(UserError) as caught:
            verdict_redo(user=stranger, verdict_id=record.pk, enqueue=False)
        assert caught.value.status == 403
    verdict_give(user=stranger, observation_id=row.pk, value="unsure", enqueue=False)
    with pytest.raises(UserError) as caught:
        verdict_redo(user=analyst, verdict_id=record.pk, enqueue=False)
    assert caught.value.status == 409
    assert VerdictRecord.objects.count() == 2
