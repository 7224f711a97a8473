"""Evidence that a person asks for, through the services, the pages and the API: executed, decided, undone, refused."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

import numpy as np
import pytest
import rasterio
from django.db import close_old_connections
from django.test import Client

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.events import EvidenceAsked
from apps.prior.models import PriorEvent
from apps.prior.selectors import prior_digest, prior_rebuild
from apps.review.services import verdict_give
from apps.runs import evidence, selectors
from apps.runs.models import ObservationRow, Run, RunEvent
from apps.runs.services import run_execute_now
from tests.integration.conftest import SAMPLES


def choices(user: User, observation_id: str) -> list[evidence.EvidenceChoice]:
    row, state = selectors.access_observation(user, observation_id)
    return evidence.evidence_choices(row.run, state, state.observations[observation_id])


def key_of(user: User, observation_id: str, kind: str) -> str:
    return next(c.key for c in choices(user, observation_id) if c.kind == kind and c.key)


def mean_ndvi() -> float:
    with rasterio.open(SAMPLES / "geopandas_s2a_l2a_fishbourne.tif") as dataset:
        bands = dataset.read().astype(np.float64)
    keep = ~(bands == 0).all(axis=0)
    red, nir = bands[2][keep], bands[3][keep]
    return float(((nir - red) / (nir + red)).mean())


def test_a_recomputation_that_a_person_asks_for_is_executed_and_decided_and_moves_no_prior(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    answer, digest = selectors.run_state(run.pk).answer, prior_digest(prior_rebuild())
    event = evidence.evidence_ask(
        user=analyst, observation_id=row.pk, key=key_of(analyst, row.pk, "recompute"), note="Is it so?", enqueue=False
    )
    run.refresh_from_db()
    assert run.pending_cause == f"evidence {event.id}"
    assert run_execute_now(run_id=run.pk)
    state = selectors.run_state(run.pk)
    (request,) = state.observations[row.pk].requests
    assert (request.ask_id, request.outcome) == (event.id, "answered")
    support = state.observations[request.supporting_id or ""]
    nodes: Any = support.observation.arguments["nodes"]
    assert nodes[1]["op"] == "raster.product.normalized_difference"
    assert support.observation.result.value == pytest.approx(mean_ndvi(), abs=1e-6)
    assert support.decision is not None and support.checks
    first = state.observations[row.pk]
    assert len(first.decisions) == 2
    assert first.decision is not None and first.decision.features["support_agreement"] == pytest.approx(1.0)
    assert first.verdict is None and state.answer == answer
    assert prior_digest(prior_rebuild()) == digest and PriorEvent.objects.count() == 0
    assert state.status == "finished"
    # what was executed is not executed again, and the list says so
    done = next(c for c in choices(analyst, row.pk) if c.kind == "recompute")
    assert (done.key, done.why_not) == ("", "It was asked for already: answered.")
    calls = ObservationRow.objects.filter(run=run).count()
    assert run_execute_now(run_id=run.pk) and ObservationRow.objects.filter(run=run).count() == calls


def test_a_mask_has_a_second_method_and_what_it_brought_is_judged_from_both(ask: Any, analyst: User) -> None:
    run = ask("How many hectares of water are there?")
    state = selectors.run_state(run.pk)
    mask = next(o for o in state.history if o.observation.tool == "perceive")
    area = next(o for o in state.history if o.observation.tool == "measure")
    assert all(c.why_not.startswith("It was measured on an earlier observation") for c in choices(analyst, area.id))
    offered = [c for c in choices(analyst, mask.id) if c.key]
    assert {"second_method"} <= {c.kind for c in offered} <= {"second_method", "refined_mask"}
    evidence.evidence_ask(user=analyst, observation_id=mask.id, key=offered[0].key, enqueue=False)
    assert run_execute_now(run_id=run.pk)
    after = selectors.run_state(run.pk)
    held = after.observations[mask.id]
    (request,) = held.requests
    support = after.observations[request.supporting_id or ""]
    assert support.decision is not None
    assert held.decision is not None and 0 <= held.decision.features["support_agreement"] <= 1
    assert "support_agreement" not in (mask.decision.features if mask.decision else {}) or (
        mask.decision is not None and mask.decision.features["support_agreement"] != held.decision.features["support_agreement"]
    )
    # its answer follows from its decision, whichever that is
    assert after.answer is not None and after.answer.abstained is (held.effective != "accept")
    # what was made to answer has no requests of its own
    assert "made to answer a request" in evidence.evidence_closed(run, after, support)


def test_two_requests_of_persons_and_no_more(ask: Any, analyst: User) -> None:
    run = ask("How many hectares of water are there?")
    mask = next(o for o in selectors.run_state(run.pk).history if o.observation.tool == "perceive")
    keys = [c.key for c in choices(analyst, mask.id) if c.key]
    assert len(keys) >= 2
    for key in keys[:2]:
        evidence.evidence_ask(user=analyst, observation_id=mask.id, key=key, enqueue=False)
    with pytest.raises(UserError) as caught:
        evidence.evidence_ask(user=analyst, observation_id=mask.id, key="0" * 16, enqueue=False)
    assert caught.value.status == 409 and "2 requests of persons" in str(caught.value)
    assert run_execute_now(run_id=run.pk)
    held = selectors.run_state(run.pk).observations[mask.id]
    assert [r.outcome for r in held.requests if r.ask_id] == ["answered", "answered"]


def test_withdrawn_before_a_worker_came_nothing_is_called(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    run = ask("What is the mean NDVI?")
    row, answer = ObservationRow.objects.get(run=run), selectors.run_state(run.pk).answer
    event = evidence.evidence_ask(user=analyst, observation_id=row.pk, key=key_of(analyst, row.pk, "recompute"), enqueue=False)
    membership_set(project=project, username="stranger", role="analyst")
    with pytest.raises(UserError) as caught:
        evidence.evidence_withdraw(user=stranger, observation_id=row.pk, ask_id=event.id)
    assert caught.value.status == 403
    evidence.evidence_withdraw(user=analyst, observation_id=row.pk, ask_id=event.id)
    with pytest.raises(UserError) as caught:
        evidence.evidence_withdraw(user=analyst, observation_id=row.pk, ask_id=event.id)
    assert caught.value.status == 409
    with pytest.raises(NotFoundError):
        evidence.evidence_withdraw(user=analyst, observation_id=row.pk, ask_id="no such")
    assert run_execute_now(run_id=run.pk)
    assert ObservationRow.objects.filter(run=run).count() == 1
    assert selectors.run_state(run.pk).answer == answer
    # and it may be asked for again
    assert key_of(analyst, row.pk, "recompute")


def test_who_may_ask_and_what_is_refused(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    key, n = key_of(analyst, row.pk, "recompute"), RunEvent.objects.count()
    with pytest.raises(NotFoundError):
        evidence.evidence_ask(user=stranger, observation_id=row.pk, key=key, enqueue=False)
    membership_set(project=project, username="stranger", role="viewer")
    with pytest.raises(UserError) as caught:
        evidence.evidence_ask(user=stranger, observation_id=row.pk, key=key, enqueue=False)
    assert caught.value.status == 403
    client = Client(raise_request_exception=False)
    client.force_login(stranger)
    page = client.get(f"/observations/{row.pk}/evidence/")
    assert page.status_code == 200 and "may look but not ask" in page.content.decode()
    assert 'data-key-name="evidence.ask"' not in client.get(f"/observations/{row.pk}/").content.decode()

    client.force_login(analyst)
    address = f"/observations/{row.pk}/evidence/"
    for posted, status in (
        ({}, 400),
        ({"key": "x" * 65}, 400),
        ({"key": "deadbeefdeadbeef"}, 409),
        ({"key": key, "note": "n" * 2001}, 400),
        ({"key": "<script>"}, 409),
        ({"key": "١"}, 409),
    ):
        assert client.post(address, posted).status_code == status, posted
    for body in ("{", "[]", '{"key": 3.5}', '{"key": null}', '{"key": {"a": 1}}', '{"key": "\\u0000"}'):
        answer = client.post(f"/api/v1{address}", body, content_type="application/json")
        assert 400 <= answer.status_code < 500, body
    assert client.post(f"/observations/{'x' * 300}/evidence/", {"key": key}).status_code == 404
    assert RunEvent.objects.count() == n
    assert client.post(f"/api/v1{address}", {"key": key}, content_type="application/json").status_code == 201
    listed = client.get(f"/api/v1{address}").json()
    assert any(c["why_not"] == "analyst asked for it already." for c in listed)
    Run.objects.filter(pk=run.pk).update(status="cancelled")
    assert client.get(f"/api/v1{address}").json()[0]["why_not"].startswith("The run was cancelled")


@pytest.mark.django_db(transaction=True)
def test_two_people_who_ask_for_the_same_at_once_ask_once(ask: Any, analyst: User, stranger: User, project: Project) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    membership_set(project=project, username="stranger", role="analyst")
    key, gate = key_of(analyst, row.pk, "recompute"), Barrier(2)

    def asking(user: User) -> str:
        try:
            gate.wait()
            evidence.evidence_ask(user=user, observation_id=row.pk, key=key, enqueue=False)
            return "asked"
        except UserError as error:
            return error.code
        finally:
            close_old_connections()

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(asking, (analyst, stranger))) == ["CONFLICT", "asked"]
    asks = [e for _, e in selectors.run_events(run.pk) if isinstance(e, EvidenceAsked)]
    assert len(asks) == 1
    # a double click of one person is one
    again = evidence.evidence_ask(user=User.objects.get(username=asks[0].author), observation_id=row.pk, key=key, enqueue=False)
    assert again.id == asks[0].id


def test_a_verdict_stands_while_evidence_comes_in_and_the_pages_say_who_asked(ask: Any, analyst: User) -> None:
    run = ask("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    assert run_execute_now(run_id=run.pk)
    digest = prior_digest(prior_rebuild())
    key = key_of(analyst, row.pk, "recompute")
    client = Client()
    client.force_login(analyst)
    listed = client.get(f"/observations/{row.pk}/evidence/").content.decode()
    assert key in listed and "The tool takes no quality mask" not in listed and "No detector was used" in listed
    evidence.evidence_ask(user=analyst, observation_id=row.pk, key=key, note="<b>sure?</b>", enqueue=False)
    waiting = client.get(f"/observations/{row.pk}/panel/").content.decode()
    assert "analyst asked for evidence: recompute" in waiting and "It waits for a worker" in waiting and "Withdraw" in waiting
    assert run_execute_now(run_id=run.pk)
    assert selectors.run_state(run.pk).observations[row.pk].effective == "accept"
    assert prior_digest(prior_rebuild()) == digest
    trace = client.get(f"/runs/{run.pk}/").content.decode()
    assert "Asked for by analyst (recompute)" in trace and "analyst asked for evidence (recompute): answered" in trace
    panel = client.get(f"/observations/{row.pk}/panel/").content.decode()
    assert "Evidence asked by analyst (recompute): answered" in panel and "&lt;b&gt;sure?" in panel and "<b>sure?" not in panel
