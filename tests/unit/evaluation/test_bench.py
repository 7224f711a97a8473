"""The bench end to end, small: two questions and four faults over a shipped sample, with the house's own tools and judge."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import UserError
from apps.evaluation import reports
from apps.evaluation.faultbench import command
from apps.evaluation.faultbench.cases import bench_cases
from apps.evaluation.faultbench.faults import FAULTS, Fault

OPTIONS: dict[str, Any] = {
    "cases": "fish-ndvi-mean,fish-water-share",
    "faults": "power_of_ten,bands_swapped,leaked_mask,nan_hidden",
    "json": True,
}


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    settings.RSURE_HOME = tmp_path
    return tmp_path


def test_two_cases_and_four_faults(home: Path) -> None:
    out, err = io.StringIO(), io.StringIO()
    assert command.run({**OPTIONS, "rows": str(home / "rows.jsonl")}, out=out, err=err) == 0
    report = json.loads(out.getvalue())
    assert report["cases"] == 2
    assert set(report["configurations"]) == {"none", "verification", "verification_prior"}
    none, full = report["configurations"]["none"], report["configurations"]["verification_prior"]
    assert none["honest_accuracy"] == full["honest_accuracy"] == 1.0
    assert none["R_prop"] > 0.5
    assert full["R_prop"] == 0.0
    assert full["right_rejected"] == 0.0
    assert full["runs_with_incorrect"] >= 5
    rows = [json.loads(line) for line in (home / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == sum(c["runs"] for c in report["configurations"].values())
    # an incorrect observation is one that a fault was at and that says something else
    assert all(not any(o["is_right"] is False for o in r["observations"]) for r in rows if not r["fault"])
    kept = reports.newest("faults")
    assert kept is not None
    assert kept["configurations"] == report["configurations"]
    assert not kept["is_whole"]


def test_every_case_has_a_name_of_its_own_and_there_are_enough() -> None:
    names = [c.name for c in bench_cases()]
    assert len(names) == len(set(names)) >= 40


@pytest.mark.parametrize(
    "wrong", [{"faults": "no_such_fault"}, {"cases": "no-such-case"}, {"configurations": "magic"}, {"plugin": ["no.such.module"]}]
)
def test_wrong_options_say_what_is_known(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError) as caught:
        command.run({**OPTIONS, **wrong}, out=io.StringIO(), err=io.StringIO())
    assert caught.value.fix


def test_a_plug_in_registers_by_being_imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_faults.py").write_text(
        "from apps.evaluation.faultbench.faults import Fault, register\n"
        "register(Fault('three_too_many', 'unit', 'three is added',\n"
        "    report=lambda o, call: o.model_copy(update={'result': o.result.model_copy(update={'value': 3.0})})))\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    out = io.StringIO()
    command.run({"plugin": ["my_faults"], "faults": "three_too_many", "list": True}, out=out, err=io.StringIO())
    assert "three is added" in out.getvalue()
    assert isinstance(FAULTS["three_too_many"], Fault)


def test_nothing_is_kept_of_a_run_without_imagery(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(command, "SAMPLES", tmp_path)
    monkeypatch.setenv("RSURE_SHARED", str(tmp_path))
    err = io.StringIO()
    with pytest.raises(UserError, match="No case can be run"):
        command.run(OPTIONS, out=io.StringIO(), err=err)
    assert "fish-ndvi-mean" in err.getvalue()
    assert reports.kept() == []
