"""Every command of `./rsure`, and every part of one, tells its own use; a wrong word ends in status 2 and says what to do."""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command, load_command_class

COMMANDS = {
    "ask": "apps.runs",
    "verify": "apps.runs",
    "models": "apps.runs",
    "evaluate": "apps.evaluation",
    "bench": "apps.evaluation",
    "verifier": "apps.evaluation",
    "prior": "apps.prior",
}


def parsers_of(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for part in action.choices.values():
                yield from parsers_of(part)


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_part_is_written_and_names_the_entry(name: str) -> None:
    parts = list(parsers_of(load_command_class(COMMANDS[name], name).create_parser("manage.py", name)))
    for part in parts:
        text = part.format_help()
        assert text.startswith("usage: rsure "), text[:80]
        assert "-h, --help" in text
    assert (len(parts) > 1) == (name in ("models", "evaluate", "verifier", "prior"))


def ended(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """(exit status, standard output, standard error) of a command."""
    with pytest.raises(SystemExit) as left:
        call_command(*words)
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


@pytest.mark.parametrize("recipe", ["detector", "scene"])
def test_the_recipes_tell_their_options_and_read_them_without_torch(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], recipe: str
) -> None:
    monkeypatch.setenv("RSURE_NO_ML", "1")
    status, out, _ = ended(capsys, "models", "train", recipe, "--help")
    assert status == 0
    assert out.startswith(f"usage: rsure models train {recipe} ")
    assert "--data DIR" in out
    given = ("models", "train", recipe, "--data", str(tmp_path), "--out", str(tmp_path / "out"))
    status, _, err = ended(capsys, *given)
    assert status == 2
    assert err.startswith("MODEL_MISSING: Nothing can be trained here.")
    wrong = ("--batch", "--threads", "--lr", {"detector": "--steps", "scene": "--epochs"}[recipe])
    for name, value in [(n, v) for n in wrong for v in ("0", "-1", "nan", "1e400", "9" * 30, "x", "")] + [("--seed", "-1")]:
        status, _, err = ended(capsys, *given, f"{name}={value}")
        assert status == 2
        assert f"error: argument {name}: " in err
    assert not (tmp_path / "out").exists()
    status, _, err = ended(capsys, "models", "train", recipe, f"--data={tmp_path / 'absent'}", "--out", "o")
    assert (status, err.split("\n")[0]) == (2, "UNREADABLE: There is no folder “absent”.")
    status, _, err = ended(capsys, *given, "--init", str(tmp_path))
    assert (status, err.split("\n")[0]) == (2, f"UNREADABLE: There is no file “{tmp_path.name}”.")


WRONG = (
    (("models", "add", "w.onnx", "--gsd", "0.1-1e400"), "is no range"),
    (("models", "add", "w.onnx", "--max-mb", "-1"), "argument --max-mb"),
    (("models", "add", "x" * 300), "File name too long"),
    (("models", "show", "x" * 300), "has no '"),
    (("evaluate", "cases", "x" * 300), "File name too long"),
    (("evaluate", "trajectories", "x" * 300), "File name too long"),
    (("evaluate", "faults", "--limit", "0", "--list"), "Give --limit 1"),
    (("evaluate", "faults", "--limit", "-3", "--list"), "Give --limit 1"),
    (("verifier", "promote", "x" * 300), "There is no calibrated candidate"),
    (("verifier", "promote", ".."), "There is no calibrated candidate"),
    (("verifier", "promote", "in-use"), "There is no calibrated candidate"),
    (("verifier", "fit", "--version", "v1", "--samples", "x" * 300), "File name too long"),
    (("verifier", "kinds", "--aerial", "x" * 300, "--sentinel2", "y", "--out", "z"), "File name too long"),
    (("bench", "nothing"), "There is no benchmark"),
    (("bench", "verify", "--size", "-1"), "is impossible"),
    (("verify", "x" * 300), "File name too long"),
    (("verify", "caf\udce9"), "is no text"),
    (("ask", "x" * 300, "--question", "What?"), "File name too long"),
    (("ask", "a.tif", "--question", "caf\udce9"), "is no text"),
)


@pytest.mark.parametrize(("words", "told"), WRONG, ids=[" ".join(w)[:40].replace("\udce9", "?") for w, _ in WRONG])
def test_a_wrong_word_is_bad_input(
    db: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: Any, capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...], told: str,
) -> None:  # fmt: skip
    settings.RSURE_HOME = tmp_path
    monkeypatch.chdir(tmp_path)
    status, out, err = ended(capsys, *words)
    assert (status, out) == (2, "")
    assert told in err
    assert "Traceback" not in err
    assert "What to do: " in err or "error: argument" in err
