"""Records become observations as far as they go; broken folders are refused with the line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from apps.core.errors import UserError
from apps.core.evidence.observation import Observation
from apps.evaluation.importers.trajectories import agreement_class, observations_of, read_cases, read_folder
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
def test_a_broken_line_is_left_out_counted_and_named(tmp_path: Path, broken: str, said: str) -> None:
    write(tmp_path, [run_of(1, "one", is_good=True)])
    path = tmp_path / "trajectories.jsonl"
    path.write_text(path.read_text() + broken + "\n")
    data = read_folder(tmp_path)
    assert len(data.runs) == 1
    assert data.reading()["broken_lines"] == 1
    assert said in data.reading()["broken"][0]
    path.write_text(broken + "\n")
    with pytest.raises(UserError) as caught:
        read_folder(tmp_path)
    assert "trajectories.jsonl:1" in caught.value.why
    assert caught.value.code == "BAD_OBSERVATION"


def test_broken_labels_and_labels_of_nothing_are_counted(tmp_path: Path) -> None:
    write(tmp_path, [run_of(1, "one", is_good=True), run_of(1, "one", is_good=True)])
    path = tmp_path / "labels.jsonl"
    loose = {"run": "elsewhere", "task_id": "9", "calls": [{"i": 0, "label": "correct_value"}, {"i": 1, "label": None}]}
    path.write_text(path.read_text() + json.dumps(loose) + '\n{"run": "one", "task_id": "1", "calls": [{"i": "x"}]}\n')
    said = read_folder(tmp_path).reading()
    assert (said["broken_lines"], said["labels_without_a_call"], said["runs_given_twice"]) == (1, 1, 1)
    assert "labels.jsonl:4" in said["broken"][0]


def test_other_shapes_of_the_same_are_read(tmp_path: Path) -> None:
    """Choices as a list, arguments as JSON text, an output that is no text, a packed file without the ending, extra fields."""
    run, labels = run_of(1, "one", is_good=True)
    run |= {"choices": list(run["choices"].values()), "never_heard_of": {"x": 1}, "task_id": 7}
    labels["task_id"] = 7
    run["calls"][1] |= {"args": json.dumps(run["calls"][1]["args"]), "output": [0.25, None], "tool": "a_tool_of_their_own"}
    del run["calls"][1]["is_error"]
    write(tmp_path, [(run, labels)])
    path = tmp_path / "trajectories.jsonl"
    path.write_bytes(gzip.compress(path.read_bytes()))
    data = read_folder(tmp_path)
    (held,) = data.runs
    assert list(held.choices) == ["A", "B", "C"]
    assert held.calls[1].text == "[0.25, null]"
    assert len(held.calls[1].arguments["file_list"]) == 6
    assert data.labels["one", "7"][1] == "correct_value"
    assert [o.tool for o in observations_of(held)] == ["execute"] * 3


def test_agreement_class_is_known_before_the_output() -> None:
    whole = {"covers_all": 1.0, "choice_hit": 1.0}
    assert agreement_class(whole) == "series-whole/clean" == agreement_class({**whole, "choice_hit": 0.0})
    assert agreement_class({"covers_all": 0.5, "dates_mixed": 1.0}) == "series-part/doubt"
    assert agreement_class({"thresholds": 1.0, "threshold_asked": 0.0}) == "threshold-other/clean"
    assert agreement_class({"operands_seen": 0.5}) == "operands-from-nowhere/clean"
    assert agreement_class({}) == "plain/clean"


def test_absent_files_and_torn_archives_are_refused(tmp_path: Path) -> None:
    write(tmp_path / "a", [run_of(1, "one", is_good=True)])
    (tmp_path / "a" / "labels.jsonl").unlink()
    unlabelled = read_folder(tmp_path / "a")
    assert not unlabelled.has_labels
    (tmp_path / "a" / "trajectories.jsonl").unlink()
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
    (held,) = read_cases(path).cases
    assert held.is_wrong
    assert [c.tool for c in held.run.calls] == ["get_filelist", "SM3Det"]
    assert "told" not in "".join(o.model_dump_json() for o in observations_of(held.run))
    path.write_text("\n".join(json.dumps({**case, "label": label}) for label in ("correct", "maybe", None)))
    found = read_cases(path)
    assert (len(found.cases), len(found.broken), found.unlabelled) == (1, 1, 1)
    assert "cases.jsonl:2" in found.broken[0]
    path.write_text(json.dumps({**case, "label": "maybe"}))
    with pytest.raises(UserError, match=r"cases\.jsonl:1"):
        read_cases(path)
