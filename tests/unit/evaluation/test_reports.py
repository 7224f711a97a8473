"""Reports on disk: whole or not at all, newest first, never NaN."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from apps.evaluation import reports
from apps.evaluation.present import fault_tables, heat_step, plain_tables, reliability_diagram


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: object) -> Path:
    settings.RSURE_HOME = tmp_path  # type: ignore[attr-defined]
    return tmp_path


def test_newest_first_and_old_ones_go(home: Path) -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for n in range(reports.KEPT + 3):
        reports.save("faults", {"n": n}, now=start + timedelta(hours=n))
    assert len(reports.kept("faults")) == reports.KEPT
    newest = reports.newest("faults")
    assert newest is not None
    assert newest["n"] == reports.KEPT + 2
    assert reports.newest("cases") is None


def test_two_of_one_second_are_two_and_a_broken_one_is_passed_over(home: Path) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    reports.save("cases", {"n": 1}, now=at)
    last = reports.save("cases", {"n": 2}, now=at)
    assert len(reports.kept("cases")) == 2
    last.write_text('{"n": 2')
    newest = reports.newest("cases")
    assert newest is not None
    assert newest["n"] == 1


def test_what_is_not_finite_is_null_and_unknown_kinds_are_refused(home: Path) -> None:
    path = reports.save("trajectories", {"x": float("nan"), "y": [float("inf"), 1.0]})
    held = json.loads(path.read_text())
    assert held["x"] is None
    assert held["y"] == [None, 1.0]
    with pytest.raises(ValueError, match="unknown report"):
        reports.save("../x", {})


def test_presentation_of_a_report_of_any_shape() -> None:
    made = plain_tables(
        {
            "R_dep": 0.9,
            "R_dep_interval": [0.8, 0.95],
            "verifier": {"brier": 0.1, "bins": [{"mean_p": 0.5, "share_right": 0.4, "n": 3}]},
        }
    )
    assert made["figures"] == [{"words": "R dep", "text": "0.900", "interval": "0.800–0.950"}]
    assert made["tables"][0]["rows"][0]["words"] == "brier"
    assert made["diagrams"][0]["diagram"]["points"][0]["n"] == 3
    assert fault_tables({})["rows"]
    assert [heat_step(v) for v in (0.0, 0.19, 1.0, None)] == [5, 4, 0, None]
    assert reliability_diagram([]) is None
