"""The plan as a form: what words cannot say is asked for by fields, along the same path."""

from typing import Any

import pytest
from django.test import Client

from apps.accounts.models import Project, User
from apps.imagery.models import Scene
from apps.runs import selectors
from apps.runs.models import Run
from apps.runs.services import run_execute_now


def test_what_is_not_understood_is_offered_as_a_form(ask: Any, analyst: User, project: Project, fish: Scene) -> None:
    run = ask("Will it rain tomorrow in Fishbourne?")
    client = Client()
    client.force_login(analyst)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert 'name="form-what"' in page
    assert "Ask it as a form" in page
    fields = {
        "project": str(project.pk),
        "scene": str(fish.pk),
        "question": run.question_text,
        "form-what": "area",
        "form-quantity": "ndvi",
        "form-threshold": "0.4",
        "form-side": "above",
        "form-unit": "ha",
        "form-statistic": "mean",
        "form-pick": "max",
    }
    preview = client.post("/runs/plan/", fields)
    assert "NDVI" in preview.content.decode()
    assert client.post("/runs/ask/", fields).status_code == 302
    made = Run.objects.exclude(pk=run.pk).get()
    run_execute_now(run_id=made.pk)
    answer = selectors.run_state(made.pk).answer
    assert answer is not None
    assert answer.value == pytest.approx(302.35, abs=0.1)


def test_a_threshold_that_is_no_number_is_refused(analyst: User, project: Project, fish: Scene) -> None:
    client = Client()
    client.force_login(analyst)
    answer = client.post(
        "/runs/ask/",
        {
            "project": str(project.pk),
            "scene": str(fish.pk),
            "question": "",
            "form-what": "area",
            "form-quantity": "ndvi",
            "form-threshold": "much",
        },
        headers={"Accept": "application/json"},
    )
    assert answer.status_code == 400
    assert "no number" in answer.content.decode()
