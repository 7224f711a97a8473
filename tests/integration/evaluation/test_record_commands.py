"""`evaluate trajectories|cases` and `manage verifier` from the command line, with their exit statuses."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.evaluation import fitting, reports
from apps.evaluation.importers.trajectories import read_folder
from apps.evaluation.recorded import judge_run, make_records
from apps.runs.assembly import judge_for_files, judge_for_records
from apps.runs.verifiers import calibrated_weights, record_model, verifier_history
from apps.verification.features import FEATURES
from tests.unit.evaluation.trajectories import pairs_of, write


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as ended:
        call_command(*words)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.fixture(autouse=True)
def home(tmp_path: Path, settings: Any) -> Path:
    settings.RSURE_HOME = tmp_path / "home"
    settings.RSURE_HOME.mkdir()
    return Path(settings.RSURE_HOME)


def test_trajectories_are_scored_printed_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "runs", pairs_of(range(4)))
    status, out, _ = run(capsys, "evaluate", "trajectories", str(folder), "--json")
    assert status == 0
    report = json.loads(out)
    assert {"R_dep", "R_err", "R_prop", "bad_observations", "answers_wrong", "prior", "cost"} <= set(report)
    newest = reports.newest("trajectories")
    assert newest is not None
    assert newest["data"] == report["data"]
    status, out, _ = run(capsys, "evaluate", "trajectories", str(folder))
    assert status == 0
    assert "R_dep 1.000" in out


@pytest.mark.parametrize("what", ["trajectories", "cases"])
def test_bad_input_ends_with_status_two_and_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    status, out, err = run(capsys, "evaluate", what, str(tmp_path / "nowhere"), "--json")
    assert status == 2
    assert json.loads(out)["error"]["code"] == "UNREADABLE"
    assert "What to do:" in err
    assert "Traceback" not in err


def samples(path: Path, n: int = 60) -> Path:
    """Labelled samples where look_agreement tells right from wrong."""
    rng = random.Random(5)
    lines = []
    for i in range(n):
        right = i % 2 == 0
        features = {"look_agreement": 0.9 if right else 0.4, "valid_share": rng.random(), "warnings": float(rng.randrange(3))}
        lines.append(json.dumps({"group": f"q{i % 12}", "label": int(right), "features": features}))
    path.write_text("\n".join(lines))
    return path


def test_fit_compare_promote_and_the_way_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(samples(tmp_path / "s.jsonl"))
    shipped = calibrated_weights().version
    status, out, _ = run(capsys, "verifier", "fit", "--samples", file, "--version", "mine-1", "--json")
    assert status == 0
    fitted = json.loads(out)
    assert fitted["cross_validated"]["auroc"] == 1.0
    assert calibrated_weights().version == shipped, "a candidate changes nothing until it is promoted"

    status, out, _ = run(capsys, "verifier", "compare", "mine-1", "--samples", file, "--json")
    assert status == 0
    compared = json.loads(out)
    assert compared["candidate"]["version"] == "mine-1"
    assert compared["in_use"]["version"] == shipped

    assert run(capsys, "verifier", "promote", "mine-1")[0] == 0
    assert calibrated_weights().version == "mine-1"
    assert verifier_history("calibrated") == ["mine-1"]
    assert set(calibrated_weights().features) <= set(FEATURES)
    assert run(capsys, "verifier", "fit", "--samples", file, "--version", "mine-1")[0] == 2, "a version never changes"

    assert run(capsys, "verifier", "rollback")[0] == 0
    assert calibrated_weights().version == shipped
    assert run(capsys, "verifier", "rollback")[0] == 2
    assert run(capsys, "verifier", "promote", "../mine-1")[0] == 2
    for name in ("x" * 300, "../mine", "..", "-", "", "a b", "a\n"):
        status, _, err = run(capsys, "verifier", "fit", "--samples", file, f"--version={name}")
        assert (status, err[:9]) == (2, "CONFLICT:"), name
    assert run(capsys, "verifier", "promote", "unheard-of")[0] == 2


@pytest.mark.django_db
def test_the_judge_takes_what_was_promoted_and_verdicts_are_needed_to_learn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(samples(tmp_path / "s.jsonl"))
    run(capsys, "verifier", "fit", "--samples", file, "--version", "mine-2")
    run(capsys, "verifier", "promote", "mine-2")
    verifier = judge_for_files().verifier
    assert verifier is not None
    assert verifier.name == "mine-2"
    assert run(capsys, "verifier", "fit", "--verdicts", "--version", "mine-3")[0] == 2, "nobody has spoken yet"


def test_a_record_model_is_fitted_promoted_judges_out_of_fold_and_goes_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sklearn")
    monkeypatch.setattr(fitting, "OUTER", 3)
    for settings in fitting._SETTINGS.values():
        monkeypatch.setitem(settings, "max_iter", 10)
        monkeypatch.setitem(settings, "min_samples_leaf", 3)
    folder = write(tmp_path / "runs", pairs_of(range(24)))
    shipped = record_model().version

    def judged() -> tuple[dict[str, Any], list[tuple[str, str]]]:
        records = make_records()
        run_of_them = read_folder(folder).runs[0]
        told = judge_run(run_of_them, judge_for_records(records), records)
        report = json.loads(run(capsys, "evaluate", "trajectories", str(folder), "--json")[1])
        return report, [(d.verifier, "" if d.p_correct is None else d.p_correct.hex()) for _, d, _ in told]

    before, said_before = judged()
    assert (before["model"], before["data"]["tasks_never_seen"]) == (shipped, 24)
    status, out, _ = run(capsys, "verifier", "fit", "--trajectories", str(folder), "--version", "ours-1", "--json")
    assert status == 0
    assert json.loads(out)["calls"] == {"rows": 48, "wrong": 24, "tasks": 24, "tools": 1}
    assert record_model().version == shipped, "a candidate changes nothing until it is promoted"
    assert run(capsys, "verifier", "promote", "ours-1", "--kind", "records")[0] == 0
    promoted, said = judged()
    assert (promoted["model"], promoted["data"]["tasks_fitted_on_and_judged_out_of_fold"]) == ("ours-1", 24)
    assert {name for name, _ in said if name} == {"ours-1"}
    assert said != said_before
    assert run(capsys, "verifier", "rollback", "--kind", "records")[0] == 0
    after, said_after = judged()
    assert after["model"] == shipped
    assert said_after == said_before, "bit for bit"


def test_a_folder_with_broken_lines_is_scored_and_they_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write(tmp_path / "runs", pairs_of(range(3)))
    path = folder / "trajectories.jsonl"
    path.write_text("{torn\n" + path.read_text())
    status, out, err = run(capsys, "evaluate", "trajectories", str(folder))
    assert status == 0
    assert "1 broken lines left out: trajectories.jsonl:1" in out
    assert "Traceback" not in err
    path.write_text("{torn\n")
    status, out, _ = run(capsys, "evaluate", "trajectories", str(folder), "--json")
    assert status == 2
    assert "trajectories.jsonl:1" in json.loads(out)["error"]["why"]
