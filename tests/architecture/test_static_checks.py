"""ruff and strict mypy, as tests, over the whole project."""

import os
import subprocess
import sys

import pytest

from tests.shared import ROOT


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    env = {key: value for key, value in os.environ.items() if key != "RSURE_TESTING"}
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=env, capture_output=True, text=True, check=False)


def test_ruff_finds_nothing() -> None:
    answer = _run("ruff", "check", "--output-format", "concise", ".")
    assert answer.returncode == 0, answer.stdout + answer.stderr


@pytest.mark.slow
def test_strict_mypy_finds_nothing() -> None:
    answer = _run("mypy")
    assert answer.returncode == 0, answer.stdout + answer.stderr
