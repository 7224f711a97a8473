"""Words that no database keeps, numbers that are none, bodies without end: refused with a reason, never a fault of ours."""

import json
from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Project, User
from apps.imagery.models import Scene
from apps.runs.models import ObservationRow, Run

NUL = "a\x00b"


@pytest.fixture
def client(analyst: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(analyst)
    return client


@pytest.mark.parametrize(
    "told",
    [
        {"question": "mean\x00 NDVI"},
        {"question": "x" * 100_000},
        {"form-what": "area", "form-quantity": "ndvi", "form-threshold": "nan"},
        {"form-what": "area", "form-quantity": "ndvi", "form-threshold": "1e999"},
        {"form-what": NUL},
        {"region": "manage.py"},
        {"region": '{"type":' * 5000},
        {"choices": "[" * 100_000},
        {"choices": '{"A": "\\u0000", "B": "1"}'},
        {"scene": NUL},
        {"project": NUL},
    ],
    ids=str,
)  # fmt: skip
def test_a_question_that_cannot_be_kept_is_refused(client: Client, project: Project, fish: Scene, told: dict[str, str]) -> None:
    asked = {"project": str(project.pk), "scene": str(fish.pk), "question": "What is the mean NDVI?"} | told
    for address in ("/runs/ask/", "/runs/plan/"):
        answer = client.post(address, asked)
        assert answer.status_code in (400, 404), (address, answer.status_code)
    assert Run.objects.count() == 0


@pytest.mark.parametrize("body", ["[" * 100_000, '{"question": "a\\u0000"}', '{"question": NaN}', "[]", "null", '"x"'])
def test_a_body_of_the_api_that_cannot_be_kept_is_refused(client: Client, body: str) -> None:
    answer = client.post("/api/v1/runs/", body, content_type="application/json")
    assert answer.status_code == 400


def test_nul_in_addresses_verdicts_and_hints_is_refused(client: Client, ask: Any, fish: Scene) -> None:
    row = ObservationRow.objects.get(run=ask("What is the mean NDVI?"))
    answers = [
        client.get("/observations/%00/"), client.get("/review/?o=%00&task_type=%00"), client.get("/imagery/?project=%00"),
        client.post(f"/observations/{row.pk}/verdict/", {"value": "accept", "note": NUL}),
        client.patch(f"/api/v1/scenes/{fish.pk}/", json.dumps({"sensor": NUL}), content_type="application/json"),
    ]  # fmt: skip
    assert [a.status_code for a in answers] == [400] * len(answers)
    row.refresh_from_db()
    assert row.verdict == ""
