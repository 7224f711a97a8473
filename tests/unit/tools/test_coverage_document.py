"""docs/coverage.md speaks of tests that exist, of operators that exist, and counts its rows as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apps.tools.execute.operators import OPERATORS

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/coverage.md").read_text()


KITS = {"### Index": 12, "### Inversion": 17, "### Perception": 15, "### Analysis": 10, "### Statistics": 50}
OTHERS = ("## OpenEarthAgent and ThinkGeo", "## Google's Geospatial Reasoning agent")


def rows(title: str) -> list[list[str]]:
    """Cells of the table below a heading, without its two head lines."""
    part = TEXT.split(f"\n{title}", 1)[1].split("\n## ")[0].split("\n### ")[0]
    found = [[c.strip() for c in line.strip().strip("|").split(" | ")] for line in part.splitlines() if line.startswith("|")]
    return found[2:]


def test_every_test_named_exists() -> None:
    last, missing = "", []
    for file, name in re.findall(r"((?:tests/[\w/]+/)?test_\w+\.py)?(?:::(\w+))", TEXT):
        last = file or last
        path = ROOT / last if last.startswith("tests/") else ROOT / "tests/unit/tools" / last
        if not path.is_file() or f"def {name}(" not in path.read_text():
            missing.append(f"{last}::{name}")
    files = set(re.findall(r"(?:tests/[\w/]+/)?test_\w+\.py", TEXT))
    missing += [f for f in files if not (ROOT / f if f.startswith("tests/") else ROOT / "tests/unit/tools" / f).is_file()]
    assert missing == []


def test_every_case_named_in_brackets_exists() -> None:
    named = re.findall(r"(test_\w+\.py)::\w+\[(\w+)\]", TEXT)
    missing = [f"{file}[{case}]" for file, case in named
               if f'"{case}"' not in (ROOT / "tests/unit/tools" / file).read_text()]
    assert len(named) > 20 and missing == []


def test_every_operator_named_exists() -> None:
    named = set(re.findall(r"`((?:raster\.\w+|vector|value|asset|image)\.\w+)`", TEXT))
    assert len(named) > 25 and named <= set(OPERATORS)


def tools_of(row: list[str]) -> int:
    """How many of the peer's tools a row stands for."""
    told = re.search(r"\((\d) tools\)", row[0])
    return int(told[1]) if told else len([n for n in row[0].split(", ") if not n.startswith("calc_single_image_")])


@pytest.mark.parametrize(("title", "n"), KITS.items())
def test_the_kits_are_whole(title: str, n: int) -> None:
    held = rows(title)
    assert all(len(row) == 5 and all(row) for row in held)
    assert sum(tools_of(row) for row in held) == n


@pytest.mark.parametrize("title", OTHERS)
def test_every_row_of_the_other_peers_tells_all_or_that_it_is_not_served(title: str) -> None:
    held = rows(title)
    assert len(held) >= 13
    for row in held:
        assert len(row) == 5 and all(row), row
        if not row[1].startswith("not:"):
            assert re.search(r"test_\w+\.py", row[2]), row


def test_the_counts_of_the_text_are_those_of_the_tables() -> None:
    whole = partly = missing = 0
    for title in KITS:
        for row in rows(title):
            n = tools_of(row)
            if row[1].startswith("not:"):
                missing += n
            elif row[1].startswith("partly:"):
                partly += n
            else:
                whole += n
    told = re.search(r"\*\*(\d+) are covered\*\*.*?\*\*(\d+) are covered in part\*\*.*?\*\*(\d+) is not\*\*", TEXT, re.S)
    assert told is not None and [int(n) for n in told.groups()] == [whole, partly, missing]
    assert whole + partly + missing == 104 and whole >= 95


def test_rows_that_are_served_name_a_test_function_or_a_file() -> None:
    for title in KITS:
        for row in rows(title):
            assert re.search(r"test_\w+\.py", row[2]) or row[2].startswith("::"), row
