"""The page Evaluation: who may see it, what it says without a report, and the report as JSON."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from apps.evaluation import reports
from apps.evaluation.faultbench.figures import summary
from apps.evaluation.record_sections import record_sections
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


def test_closed_parts_are_fetched_as_they_are_opened(stranger: Any, project: Any, home: Path) -> None:
    from apps.accounts.services import membership_set

    assert signed_in(stranger).get("/evaluation/trajectories/4/").status_code == 403
    membership_set(project=project, username="stranger", role="reviewer")
    client = signed_in(stranger)
    page = client.get("/evaluation/").content.decode()
    assert len(page) < 150_000
    report = reports.latest("trajectories")
    assert report is not None
    sections = record_sections(report)
    assert len(sections) > 4
    for n, section in enumerate(sections, start=1):
        told = client.get(f"/evaluation/trajectories/{n}/").content.decode()
        assert told.count("<tr>") >= 1 + len(section["rows"])
        # the first three stand open
        assert (f"/evaluation/trajectories/{n}/" in page) is (n > 3)
    for none in (f"trajectories/{len(sections) + 1}", "trajectories/0", "faults/1"):
        assert client.get(f"/evaluation/{none}/").status_code == 404


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


@pytest.fixture
def release(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A release whose reports were made on 2026-06-01."""
    place = tmp_path / "released"
    place.mkdir()
    whole = {
        "kind": "faults",
        "is_whole": True,
        "faults_tried": 39,
        "verifier_version": "v",
        "revision": "feedbeef01",
        "made_at": "2026-06-01T12:00:00+00:00",
        **summary(some_outcomes(), n_boot=20),
    }
    (place / "faults.json").write_text(json.dumps(whole | {"cases": 71}))
    (place / "faults_unseen.json").write_text(json.dumps(whole | {"cases": 72, "is_unseen": True, "is_whole": False}))
    (place / "trajectories.json").write_text(
        json.dumps({"kind": "trajectories", "made_at": "2026-06-01T12:00:00+00:00", "revision": "feedbeef01", "R_dep": 0.7})
    )
    monkeypatch.setattr(reports, "RELEASED", place)
    return place


@pytest.mark.parametrize(
    ("when", "cases", "n_released"),
    [
        ("2026-05-31T23:59:59+00:00", (71, 72), 3),
        ("2026-06-01T12:00:01+00:00", (61, 62), 0),
        ("2026-06-01T14:00:00+02:00", (61, 62), 0),
    ],
    ids=["older", "newer", "of the same moment"],
)
def test_the_newer_of_installation_and_release_is_shown_and_named(
    stranger: Any, project: Any, home: Path, release: Path, when: str, cases: tuple[int, int], n_released: int
) -> None:
    from apps.accounts.services import membership_set

    membership_set(project=project, username="stranger", role="administrator")
    client = signed_in(stranger)
    at = datetime.fromisoformat(when)
    whole = {"cases": 61, "faults_tried": 39, "is_whole": True, "verifier_version": "v", **summary(some_outcomes(), n_boot=20)}
    reports.save("faults", whole, revision="cafe5eed99", now=at)
    reports.save("faults", {**whole, "cases": 62, "is_whole": False, "is_unseen": True}, revision="cafe5eed99", now=at)
    reports.save("trajectories", {"R_dep": 0.6}, revision="cafe5eed99", now=at)
    text = client.get("/evaluation/").content.decode()
    assert [f"{n} questions" in text for n in cases] == [True, True]
    assert text.count("measured for the release, not on this machine") == n_released
    shown, other, place = (
        ("feedbeef", "cafe5eed", "on this machine") if n_released else ("cafe5eed", "feedbeef", "with the release")
    )
    assert text.count(f"newer than the one made {place}") == 3
    assert text.count(f"revision {shown}") == text.count(f"revision {other}") == 3
    assert client.get("/evaluation/faults.json").json()["cases"] == cases[0]
    held = client.get("/evaluation/trajectories.json").json()
    assert held["R_dep"] == (0.7 if n_released else 0.6) and held["other"]["revision"].startswith(other)


def test_a_part_measured_here_does_not_hide_the_whole_run_of_the_release(
    stranger: Any, project: Any, home: Path, release: Path
) -> None:
    from apps.accounts.services import membership_set

    membership_set(project=project, username="stranger", role="administrator")
    whole = {"faults_tried": 39, "verifier_version": "v", **summary(some_outcomes(), n_boot=20)}
    reports.save("faults", {**whole, "cases": 2, "is_whole": False})
    assert signed_in(stranger).get("/evaluation/faults.json").json()["cases"] == 71
