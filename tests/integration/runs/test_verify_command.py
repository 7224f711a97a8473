"""``./rsure verify`` over observations of this installation's scenes: what a file invents does not stand."""

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.core.evidence.observation import Observation
from apps.runs import selectors
from apps.runs.present import ask_json

FIGURE = "/result/value"


def verify(path: Path, observations: list[Any]) -> tuple[int, list[dict[str, Any]]]:
    """(exit status, decisions) of the command over the observations as JSON Lines."""
    path.write_text("\n".join(json.dumps(o) for o in observations))
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("verify", str(path), "--json", stdout=out)
    return int(ended.value.code or 0), [json.loads(line) for line in out.getvalue().splitlines()]


def recorded(run: Any) -> list[dict[str, Any]]:
    held: list[Observation] = [o.observation for o in selectors.run_state(run.pk).history]
    return [o.model_dump(mode="json") for o in held]


def changed(observation: dict[str, Any], pointer: str, value: Any) -> dict[str, Any]:
    copy: dict[str, Any] = json.loads(json.dumps(observation))
    at: Any = copy
    *path, last = pointer.strip("/").split("/")
    for key in path:
        at = at[int(key)] if isinstance(at, list) else at[key]
    at[last] = value
    return copy


def test_forged_observations_are_not_accepted_and_the_true_one_is(ask: Any, tmp_path: Path) -> None:
    (true,) = recorded(ask("How many hectares have NDVI above 0.4?"))
    value = true["result"]["value"]
    nodes = true["evidence"]["intermediate"]["nodes"]
    doubled = changed(true, FIGURE, 2 * value)
    doubled["evidence"]["intermediate"]["nodes"] = [n | {"value": 2 * value} if "value" in n else n for n in nodes]
    forged = {
        "0.1 % more": changed(true, FIGURE, value * 1.001),
        "doubled with its node": doubled,
        "doubled, without layers": changed(doubled, "/result/layers", []),
        "another unit": changed(true, "/result/unit", "km2"),
        "other bytes": changed(true, "/inputs/0/artifact", "sha256:" + "0" * 64),
        "parent from nowhere": changed(true, "/parents", ["nope"]),
        "no evidence": changed(true, "/evidence", {"source": {}, "intermediate": {}, "validity": {}}),
    }
    status, decisions = verify(tmp_path / "o.jsonl", [true, *forged.values()])
    assert status == 0
    assert decisions[0]["decision"] == "accept"
    assert {name: d["decision"] for name, d in zip(forged, decisions[1:], strict=True) if d["decision"] == "accept"} == {}


def told(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of the command."""
    with pytest.raises(SystemExit) as ended:
        call_command("verify", *words)
    out, err = capsys.readouterr()
    return int(ended.value.code or 0), out, err


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "It is empty."),
        (b"[]", "It is empty."),
        (b"hello\nworld\n", "None of its 2 lines or items is a JSON object; the first is “hello”."),
        (b"<?xml version='1.0'?>\n<a/>", "the first is “<?xml"),
        (b"1\n2.5\ntrue\n", "None of its 3 lines or items is a JSON object; the first is a JSON number."),
        (b"[[1], null]", "the first is a JSON array."),
        (b'{"id": "torn\n{"id": "too\n', "None of its 2 lines"),
        (b"[" * 100_000, "None of its 1 lines"),
        ("{}".encode("utf-16"), "None of its 1 lines"),
        (bytes(range(128, 256)) * 4, "lines or items is a JSON object"),
        (b"\x1b]0;title\x07", "“\ufffd]0;title\ufffd”"),
    ],
    ids=["empty", "empty-array", "words", "xml", "numbers", "arrays", "torn", "deep", "utf-16", "binary", "escape"],
)
def test_a_file_without_one_object_is_bad_input_and_nothing_is_judged(
    db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, why: str
) -> None:
    path = tmp_path / "o.json"
    path.write_bytes(content)
    status, out, err = told(capsys, str(path))
    assert (status, out) == (2, "")
    assert err.startswith("BAD_OBSERVATION: The file holds no observation.\n  Why: ")
    assert why in err
    assert "What to do: Write one JSON object a line" in err
    status, out, _ = told(capsys, str(path), "--json")
    assert status == 2
    assert json.loads(out)["error"]["code"] == "BAD_OBSERVATION"


def test_among_bad_lines_each_line_keeps_its_decision_in_order(
    db: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "o.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{torn\n\n12\nwords\n{"id": "first"}\n[1]\n{"id": "half \\ud83d"}\n{"id": "a\xe2\x80\xa8b"}\n')
    status, out, _ = told(capsys, str(path), "--json")
    decisions = [json.loads(line) for line in out.splitlines()]
    assert status == 0
    assert [d["observation_id"] for d in decisions] == [None, None, None, "first", None, "half \ud83d", "a\u2028b"]
    assert {d["decision"] for d in decisions} == {"reject"}
    _, out, _ = told(capsys, str(path))
    assert [line.split(":")[0] for line in out.splitlines()] == ["?", "?", "?", "first", "?", "half \ufffd", "a\ufffdb"]


def test_observations_come_through_standard_input_with_a_mark_of_the_encoding(
    db: None, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = io.TextIOWrapper(io.BytesIO(b'\xef\xbb\xbf{"id": "caf\xe9"}\n{"id": "two"}\n'), encoding="ascii")
    monkeypatch.setattr("sys.stdin", given)
    status, out, _ = told(capsys, "-", "--json")
    assert status == 0
    assert [json.loads(line)["observation_id"] for line in out.splitlines()] == ["caf\ufffd", "two"]


def test_a_whole_run_is_told_to_be_one_and_where_its_observations_lie(ask: Any, tmp_path: Path) -> None:
    """``ask --json`` as it is: before, twelve fields of an observation were wrong."""
    whole = json.loads(json.dumps(ask_json(selectors.run_state(ask("What is the mean NDVI?").pk))))
    status, (decision,) = verify(tmp_path / "run.json", [whole])
    assert (status, decision["decision"]) == (0, "reject")
    told = " ".join(decision["reasons"])
    assert "a whole run" in told and "/observations" in told and "fields are wrong" not in told
    held = [{"observation": o["observation"]} for o in whole["observations"]]
    assert [d["decision"] for d in verify(tmp_path / "o.jsonl", held)[1]] == ["accept"]
