"""How many processes the tests run in."""

import os

import pytest

from rsure_web.boot import commands


@pytest.mark.parametrize(
    ("arguments", "is_shared_out"),
    [
        ([], True),
        (["-q", "-m", "not ml"], True),
        (["-k", "zones"], True),
        (["tests/unit/core"], False),
        (["tests/unit/boot/test_commands.py::test_the_whole_suite_is_shared_out_among_the_cores"], False),
        (["-n", "0"], False),
        (["--pdb"], False),
    ],
)
def test_the_whole_suite_is_shared_out_among_the_cores(
    monkeypatch: pytest.MonkeyPatch, arguments: list[str], is_shared_out: bool
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    assert commands._test_processes(arguments) == (["-n", "4", "--dist", "loadfile"] if is_shared_out else [])


def test_one_core_runs_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert commands._test_processes([]) == []
