"""How a command ends: what a person gave and the system refuses is bad input, all else is a fault of ours."""

import json
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import UserError
from apps.core.exits import guarded

LONG = "x" * 300


def ended(capsys: pytest.CaptureFixture[str], work: Any, **options: Any) -> tuple[int, str, str]:
    status = guarded(work, options)
    out, err = capsys.readouterr()
    return status, out, err


@pytest.mark.parametrize(
    ("name", "why"),
    [(LONG, "File name too long."), ("folder", "Is a directory."), ("absent/out.json", "No such file or directory.")],
)
@pytest.mark.parametrize("as_path", [True, False])
@pytest.mark.parametrize("mode", ["r", "w"])
def test_a_given_path_that_the_system_refuses_is_bad_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, why: str, as_path: bool, mode: str
) -> None:
    (tmp_path / "folder").mkdir()
    given = tmp_path / name

    def work() -> int:
        given.open(mode).close()
        return 0

    status, out, err = ended(capsys, work, files=[given if as_path else str(given)], json=True)
    assert status == 2
    assert json.loads(out)["error"]["code"] == "UNREADABLE"
    assert f"Why: {why}\n  What to do: Check the path" in err
    assert str(tmp_path) not in err, "a message names a file, not where things lie"
    assert len(err) < 400


def test_below_a_given_folder_too_and_elsewhere_it_is_a_fault(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> int:
        (tmp_path / "absent" / "labels.jsonl").open().close()
        return 0

    assert ended(capsys, work, folder=str(tmp_path))[0] == 2
    assert ended(capsys, work, folder=str(tmp_path / "abs"))[0] == 1, "absent is not below abs"
    assert ended(capsys, work, folder="", names=[], limit=3)[0] == 1


def test_bytes_that_are_no_text_are_refused_unless_they_name_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    odd = "caf\udce9.tif"
    status, _, err = ended(capsys, lambda: 0, question=odd)
    assert status == 2
    assert err.startswith("BAD_ARGUMENT: What was given for “question” is no text.")
    status, _, err = ended(capsys, lambda: 0, unit="m\0", question="What?")
    assert (status, "for “unit” is no text.\n  Why: It holds a NUL character." in err) == (2, True)
    Path(odd).touch()
    assert ended(capsys, lambda: 0, files=[Path(odd)], file=odd)[0] == 0


def test_errors_faults_and_interruptions_have_their_status(capsys: pytest.CaptureFixture[str]) -> None:
    def refuses() -> int:
        raise UserError("BAD_ARGUMENT", "What.", "Why.", "Fix \udcff.")

    def fails() -> int:
        raise ZeroDivisionError

    def is_stopped() -> int:
        raise KeyboardInterrupt

    status, out, err = ended(capsys, refuses, as_json=True)
    assert (status, err) == (2, "BAD_ARGUMENT: What.\n  Why: Why.\n  What to do: Fix \\udcff.\n")
    assert json.loads(out)["error"]["what"] == "What."
    status, out, err = ended(capsys, fails)
    assert (status, out) == (1, "")
    assert "A fault of ours" in err
    assert ended(capsys, is_stopped) == (130, "", "Interrupted.\n")
    assert ended(capsys, lambda: 3)[0] == 3
