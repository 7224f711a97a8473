"""Fields of a request's body that are wrong are told over the API as every other bad input is."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Project, User


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"question": "What is the mean NDVI?"}, ["scenes: "]),
        ({"scenes": ["no id"], "question": ""}, ["scenes.0: ", "question: "]),
        ({"scenes": [], "question": "How far?", "landmarks_crs": "EPSG:1"}, ["landmarks_crs: "]),
    ],
)
def test_a_field_that_is_wrong_is_named_with_what_to_do(
    analyst: User, project: Project, body: dict[str, Any], told: list[str]
) -> None:
    client = Client()
    client.force_login(analyst)
    answer = client.post("/api/v1/runs/", {"project": str(project.pk), **body}, content_type="application/json")
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["code"] == "BAD_ARGUMENT"
    assert all(part in error["why"] for part in told)
    assert error["what"] and error["fix"] and error["id"]
    assert set(error["detail"]["fields"]) == {part.split(":")[0].split(".")[0] for part in told}
