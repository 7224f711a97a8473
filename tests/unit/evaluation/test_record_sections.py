"""Sections of reports, whole and with holes; the account that the page takes from the document."""

from pathlib import Path

import pytest

from apps.evaluation import account, reports
from apps.evaluation.account import honest_account, runs_of, sections_of
from apps.evaluation.present import fault_tables, request_tables
from apps.evaluation.record_sections import record_sections


def titles(report: dict[str, object]) -> list[str]:
    return [section["title"] for section in record_sections(report)]


def test_the_released_reports_have_every_section() -> None:
    runs, cases = reports.released("trajectories"), reports.released("cases")
    assert runs is not None
    assert cases is not None
    assert titles(runs) == [
        "Errors that reach the answer",
        "Wrong observations found",
        "Wrong observations found, each task once",
        "What an oracle could know",
        "Wrong calls by what would tell them",
        "“The answer will be wrong”",
        "The prior on tasks that it has not seen",
        "Faults that a record proves",
        "By tool",
        "By task type",
    ]
    assert titles(cases) == ["Wrong observations found", "By kind of fault"]
    for section in [*record_sections(runs), *record_sections(cases)]:
        assert {len(row) for row in section["rows"]} == {len(section["columns"])}, section["title"]
    found = {section["title"]: section for section in record_sections(runs)}
    assert [d["title"] for d in found["Wrong observations found"]["diagrams"]] == [
        "An observation is right, strict labels",
        "An observation is right, broad labels",
    ]
    assert len(found["The prior on tasks that it has not seen"]["diagrams"]) == 3


@pytest.mark.parametrize(
    "report",
    [
        {},
        {"bad_observations": None, "prior": [], "by_tool": {"a": 1}, "R_err": {}},
        {"bad_observations": {"strict": {"values": {"n": 3}}}, "prior": {"broad": {"cells": {}}}, "by_fault": {"x": {}}},
        {"by_task_type": {"area": {"n": 2, "bins": [{"mean_p": 0.5, "share_right": 0.5, "n": 2}]}}, "auroc": None},
    ],
)
def test_what_is_missing_makes_no_section_and_no_error(report: dict[str, object]) -> None:
    for section in record_sections(report):
        assert section["rows"]
        assert {len(row) for row in section["rows"]} == {len(section["columns"])}


def test_an_unknown_figure_is_a_dash_and_never_zero() -> None:
    (section,) = record_sections({"by_tool": {"ruler": {"n": 4, "wrong_rejected": 0, "precision": None, "recall": 0.5}}})
    assert section["rows"] == [["ruler", "4", "0", "–", "–", "–", "0.500"]]


def test_requests_with_holes() -> None:
    report = {"requests": {"verification": [{"kind": "recompute", "n": 3, "right": {"accepted": 1}}], "none": []}}
    (group,) = request_tables(report)
    assert group["name"] == "Verification"
    assert group["rows"][0]["incorrect"]["left_to_a_person"] == 0
    assert group["rows"][0]["right"]["accepted"] == 1
    assert request_tables({"requests": [{"kind": "a"}]})[0]["rows"][0]["n"] == 0
    assert request_tables({}) == []


def test_families_carry_what_the_verifier_fitted_without_them_let_through() -> None:
    report = reports.released("faults")
    assert report is not None
    tables = fault_tables(report)
    assert {row["name"] for row in tables["families"]} == set(report["leave_one_family_out"]["families"])
    assert all(row["left_out"]["step"] is not None for row in tables["families"])
    assert tables["task_types"]
    held = fault_tables({"configurations": {"none": {}}, "families": {"mask": {"none": {"runs": 1, "R_prop": 1.0}}}})
    assert held["families"][0]["left_out"] == {"text": "–", "step": None, "n": 0}


def test_the_account_is_the_documents() -> None:
    made = sections_of(
        "# Doc\n## Bench\n### Figures\n- not this\n### What is not caught, and why\nA sentence.\n"
        "- **Pixels.** Only `look.py`\n  sees them.\n- Two\n\nAfter.\n"
    )
    assert [(s["part"], s["title"], len(s["items"])) for s in made] == [("Bench", "What is not caught, and why", 2)]
    assert made[0]["items"][0] == [
        {"kind": "strong", "words": "Pixels."},
        {"kind": "text", "words": " Only "},
        {"kind": "code", "words": "look.py"},
        {"kind": "text", "words": " sees them."},
    ]
    assert runs_of("<b>") == [{"kind": "text", "words": "<b>"}]
    whole = honest_account()
    assert {"Fault bench", "Recorded runs"} <= {section["part"] for section in whole}
    assert sum(len(section["items"]) for section in whole) >= 8


def test_without_the_document_there_is_no_account(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(account, "DOCUMENT", tmp_path / "none.md")
    assert honest_account() == []
