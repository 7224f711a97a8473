"""Records become observations as far as they go; broken folders are refused with the line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.core.errors import UserError
from apps.core.evidence.observation import Observation
from apps.evaluation.importers.trajectories import observations_of, read_cases, read_folder
from tests.unit.evaluation.trajectories import pairs_of, run_of, write


@pytest.mark.parametrize("is_packed", [True, False])
def test_calls_become_observations_without_evidence(tmp_path: Path, is_packed: bool) -> None:
    data = read_folder(write(tmp_path / "a", pairs_of(range(2)), is_packed=is_packed))
    assert len(data.runs) == 4
    observations = list(observations_of(data.runs[0]))
    assert [o.status.state for o in observations] == ["ok", "ok", "failed"]
    assert [o.tool for o in observations] == ["execute"] * 3
    assert observations[1].result.value == pytest.approx(0.2)
    assert observations[1].configuration.fine == "calc_batch_image_mean/many/given"
    assert observations[2].status.reason.startswith("ToolException")
    for o in observations:
        assert not (o.evidence.source or o.evidence.intermediate or o.evidence.validity or o.inputs)
        assert Observation.model_validate_json(o.model_dump_json()) == o
        assert "correct" not in o.model_dump_json()


def test_a_file_that_the_run_wrote_makes_its_call_a_parent(tmp_path: Path) -> None:
    run, labels = run_of(1, "one", is_good=True)
    run["calls"] = [
        {"i": 0, "tool": "calculate_ndwi", "args": {"output_path": "x/w.tif"}, "output": "Result saved at out/x/w.tif",
         "is_error": False},
        {"i": 1, "tool": "calculate_area", "args": {"input_image_path": "out/x/w.tif", "gsd": float("inf")}, "output": "NaN",
         "is_error": False},
    ]  # fmt: skip
    data = read_folder(write(tmp_path, [(run, labels)]))
    first, second = observations_of(data.runs[0])
    assert second.parents == (first.id,)
    assert second.arguments["gsd"] == "inf"
    assert second.result.kind == "text"
    assert second.configuration.fine == "calculate_area/one/made"


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        ("{not json", "trajectories.jsonl:2"),
        ("[1, 2]", "trajectories.jsonl:2"),
        ('{"task_id": "1"}', "trajectories.jsonl:2"),
        ('{"task_id": "1", "run": "r", "question": "q", "calls": [{"output": 1}]}', "trajectories.jsonl:2"),
        ("[" * 100_000, "trajectories.jsonl:2"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, broken: str, said: str) -> None:
    write(tmp_path, [run_of(1, "one", is_good=True)])
    path = tmp_path / "trajectories.jsonl"
    path.write_text(path.read_text() + broken + "\n")
    with pytest.raises(UserError) as caught:
        read_folder(tmp_path)
    assert said in caught.value.what
    assert caught.value.code == "BAD_OBSERVATION"


def test_absent_files_and_torn_archives_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", [run_of(1, "one", is_good=True)])
    (tmp_path / "a" / "labels.jsonl").unlink()
    for folder in (tmp_path / "a", tmp_path / "nowhere"):
        with pytest.raises(UserError) as caught:
            read_folder(folder)
        assert caught.value.code == "UNREADABLE"
    packed = write(tmp_path / "b", [run_of(1, "one", is_good=True)], is_packed=True)
    whole = (packed / "trajectories.jsonl.gz").read_bytes()
    (packed / "trajectories.jsonl.gz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UserError) as caught:
        read_folder(packed)
    assert caught.value.code == "UNREADABLE"


def test_a_case_keeps_the_judged_call_last_and_its_label_apart(tmp_path: Path) -> None:
    run, _ = run_of(3, "one", is_good=True)
    case = {
        "case_id": "c-1", "label": "wrong", "fault": "silent_failure", "reason": "told", "task_id": "3", "run": "one",
        "question": run["question"], "choices": run["choices"], "tool": "SM3Det", "args": {"input_image_path": "a.png"},
        "output": "Failed to call model", "status": "success", "listing": json.dumps(["a.png"]), "previous_calls": [],
    }  # fmt: skip
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(case) + "\n")
    (held,) = read_cases(path)
    assert held.is_wrong
    assert [c.tool for c in held.run.calls] == ["get_filelist", "SM3Det"]
    assert "told" not in "".join(o.model_dump_json() for o in observations_of(held.run))
    path.write_text(json.dumps({**case, "label": "maybe"}))
    with pytest.raises(UserError, match=r"cases\.jsonl:1"):
        read_cases(path)
