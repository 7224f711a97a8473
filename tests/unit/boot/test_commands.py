"""How many processes the tests run in, and what they take in which order."""

import os
from itertools import pairwise
from types import SimpleNamespace

import pytest

from rsure_web.boot import commands
from tests.shared import ROOT
from tests.sharing import LONG, share_out, waits


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
    shared_out = ["-n", "4", "--dist", "loadfile", "--no-loadscope-reorder"]
    assert commands._test_processes(arguments) == (shared_out if is_shared_out else [])


def test_one_core_runs_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    assert commands._test_processes([]) == []


def test_files_that_wait_are_spread_and_small_ones_come_last() -> None:
    """Of all files of this suite: none lost, the tests of each together and in their order, and small ones alone at the end."""
    files = [str(p.relative_to(ROOT)) for p in sorted((ROOT / "tests").rglob("test_*.py"))]
    items = [SimpleNamespace(nodeid=f"{f}::test_{k}") for f in files for k in (1, 2)]
    share_out(items)  # type: ignore[arg-type]
    order = [item.nodeid.split("::")[0] for item in items[::2]]
    assert sorted(order) == files
    assert [item.nodeid for item in items] == [f"{f}::test_{k}" for f in order for k in (1, 2)]
    waiting = [waits(f) for f in order]
    assert sum(waiting) > 10 and not any(waiting[-len(order) // 5 :])
    assert not any(a and b for a, b in pairwise(waiting))
    assert not any(f.startswith(LONG) for f in order[-len(order) // 5 :])
