"""The page Evaluation: who may see it, what it says without a report, and the report as JSON."""

from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.evaluation import reports
from apps.evaluation.faultbench.figures import summary
from tests.unit.evaluation.outcomes import some_outcomes

pytestmark = pytest.mark.django_db


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    settings.RSURE_HOME = tmp_path
    return tmp_path


@pytest.fixture
def unreleased(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(reports, "RELEASED", tmp_path)


def test_what_was_not_measured_here_comes_from_the_release(stranger: Any, project: Any, home: Path) -> None:
    from apps.accounts.services import membership_set

    membership_set(project=project, username="stranger", role="reviewer")
    text = signed_in(stranger).get("/evaluation/").content.decode()
    assert text.count("measured for the release, not on this machine") == 4


def signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_only_reviewers_and_administrators(stranger: Any, project: Any, home: Path, unreleased: None) -> None:
    from apps.accounts.services import membership_set

    assert signed_in(stranger).get("/evaluation/").status_code == 403
    assert signed_in(stranger).get("/evaluation/faults.json").status_code == 403
    assert Client().get("/evaluation/").status_code == 302
    membership_set(project=project, username="stranger", role="reviewer")
    page = signed_in(stranger).get("/evaluation/")
    assert page.status_code == 200
    assert "Not measured on this machine yet" in page.content.decode()


def test_the_newest_whole_report_is_shown_and_a_part_of_one_does_not_hide_it(
    stranger: Any, project: Any, home: Path, unreleased: None
) -> None:
    from apps.accounts.services import membership_set

    membership_set(project=project, username="stranger", role="administrator")
    client = signed_in(stranger)
    assert client.get("/evaluation/faults.json").status_code == 404
    whole = {"cases": 46, "faults_tried": 39, "is_whole": True, "verifier_version": "v", **summary(some_outcomes(), n_boot=20)}
    reports.save("faults", whole)
    reports.save("faults", {**whole, "cases": 2, "is_whole": False})
    reports.save("faults", {**whole, "cases": 45, "is_whole": False, "is_unseen": True})
    reports.save("trajectories", {"R_dep": 0.7, "calibration": {"brier": 0.09}})
    text = client.get("/evaluation/").content.decode()
    assert "46 questions" in text
    assert "45 questions" in text
    assert "2 questions, 39" not in text
    assert "Recorded runs of other agents" in text
    held = client.get("/evaluation/faults.json").json()
    assert held["cases"] == 46
    assert client.get("/evaluation/nothing.json").status_code == 404
