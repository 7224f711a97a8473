"""docs/coverage.md speaks of tests that exist, of operators that exist, and counts its rows as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from apps.tools.execute.operators import OPERATORS

ROOT = Path(__file__).resolve().parents[3]
TEXT = (ROOT / "docs/coverage.md").read_text()


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


def test_every_operator_named_exists() -> None:
    named = set(re.findall(r"`((?:raster\.\w+|vector|value|asset)\.\w+)`", TEXT))
    assert len(named) > 25 and named <= set(OPERATORS)


@pytest.mark.parametrize(("title", "n"), [("### Index", 12), ("### Inversion", 17), ("### Perception", 15), ("### Analysis", 10),
                                          ("### Statistics", 50)])
def test_the_kits_are_whole(title: str, n: int) -> None:
    held = 0
    for row in rows(title):
        assert len(row) == 5 and all(row), row
        told = re.search(r"\((\d) tools\)", row[0])
        names = [n for n in row[0].split(", ") if not n.startswith("calc_single_image_")]  # switched off there
        held += int(told[1]) if told else len(names)
    assert held == n
