"""The page of the prior: what people's verdicts say of the verifier, versions compared and built again, outcomes imported."""

import json
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from apps.accounts.services import membership_set
from apps.prior.models import PriorEvent, PriorVersion
from apps.prior.services import prior_freeze, prior_import
from apps.review.selectors import verifier_figures
from apps.review.services import verdict_give, verdict_undo
from apps.runs.models import ObservationRow

pytestmark = pytest.mark.django_db
CELL = {"task_type": "object_counting", "tool": "measure", "coarse": "count", "fine": "count/auto"}


@pytest.fixture
def manager(stranger: Any, project: Any) -> Client:
    membership_set(project=project, username="stranger", role="administrator")
    client = Client()
    client.force_login(stranger)
    return client


def lines(*successes: bool) -> bytes:
    return "".join(json.dumps(CELL | {"success": s}) + "\n" for s in successes).encode()


def test_verdicts_become_figures_and_an_undo_takes_them_away(analyst: Any, ask: Any, manager: Client) -> None:
    assert "No verdict yet" in manager.get("/priors/").content.decode()
    ask("How many hectares have NDVI above 0.4?")
    row = ObservationRow.objects.get()
    ObservationRow.objects.update(is_audit=True, audit_probability=0.25)
    record = verdict_give(user=analyst, observation_id=row.pk, value="reject", reason="missed", is_blind=True, enqueue=False)
    found = verifier_figures()
    assert (found["n"], found["n_blind"]) == (1, 1)
    assert found["confusion"][0] == {"decision": "accept", "right": 0, "wrong": 1}
    assert found["overrides"]["share"] == 1.0
    assert (found["audit"]["drawn"], found["audit"]["judged"], found["audit"]["share_right"]) == (1, 1, 0.0)
    assert found["reliability"]["bins"][0]["mean_p"] == pytest.approx(row.p_correct)
    page = manager.get("/priors/").content.decode()
    assert "Verifier against people" in page
    assert "Overridden: 1 of 1 decisions" in page
    verdict_undo(user=analyst, verdict_id=record.pk, enqueue=False)
    assert verifier_figures()["n"] == 0


def test_two_people_are_a_pair(analyst: Any, stranger: Any, ask: Any, manager: Client) -> None:
    ask("How many hectares have NDVI above 0.4?")
    row = ObservationRow.objects.get()
    verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    verdict_give(user=stranger, observation_id=row.pk, value="reject", reason="missed", enqueue=False)
    found = verifier_figures()
    assert found["agreement"]["cells"] == [[0, 1], [0, 0]]
    assert found["n"] == 1  # the adjudicated verdict alone is the label
    assert found["confusion"][0]["wrong"] == 1


def test_versions_are_compared_and_built_again(manager: Client) -> None:
    prior_import(outcomes=[CELL | {"success": True}] * 3, author="ana")
    prior_freeze(name="first", author="ana")
    prior_import(outcomes=[CELL | {"success": False}] * 3, author="ana")
    page = manager.get("/priors/", {"compare": "first", "against": "log-6"}).content.decode()
    assert "4 cells differ" in page
    assert "object_counting · measure · count · count/auto" in page
    again = manager.post("/priors/verify/", {"name": "first"}, follow=True).content.decode()
    assert "the same digest, bit for bit" in again
    PriorVersion.objects.update(digest="sha256:0")
    assert "differs from the kept one" in manager.post("/priors/verify/", {"name": "first"}, follow=True).content.decode()


def test_a_file_is_imported_once_and_whole_or_not_at_all(manager: Client) -> None:
    def send(data: bytes) -> str:
        file = SimpleUploadedFile("season.jsonl", data)
        return manager.post("/priors/import/", {"file": file, "reason": "field"}, follow=True).content.decode()

    assert "2 of 2 outcomes were new" in send(lines(True, False))
    assert set(PriorEvent.objects.values_list("reason", "author", "source")) == {("field", "stranger", "offline")}
    assert "0 of 2 outcomes were new" in send(lines(True, False))
    assert "Line 2 is no JSON object" in send(lines(True) + b"[1]\n")
    assert "Line 2 is no labelled outcome" in send(lines(True) + b'{"task_type": "a"}\n')
    assert PriorEvent.objects.count() == 2


def test_a_reviewer_may_look_and_not_change(stranger: Any, project: Any) -> None:
    membership_set(project=project, username="stranger", role="reviewer")
    client = Client()
    client.force_login(stranger)
    assert 'id="import"' not in client.get("/priors/").content.decode()
    assert client.post("/priors/verify/", {"name": "first"}).status_code == 403
    assert client.post("/priors/import/").status_code == 403
