"""Text of a picture against the outlines of its lines, with each fault that a reader of text makes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from apps.verification.checks import CHECKS
from tests.unit.verification import samples_texts as t
from tests.unit.verification.samples import Sample

LOOK = CHECKS["consistency.text_is_its_lines"].look


@pytest.mark.parametrize("make, outcome, part", [
    (t.written, "passed", "each told once"), (t.added, "failed", "not what its outlined lines say"),
    (t.twice, "failed", "stand in one place"), (t.unsure, "failed", "a score of 0.31, and at least 0.6"),
    (lambda: t.written().but({"/result/value": "RUNWAY 28\nTank farm B"}), "failed", "not what its outlined lines say"),
    (lambda: t.written().but({"/result/value": "RUNWAY 27"}), "failed", "not what its outlined lines say"),
    (lambda: t.written().but({"/result/items/0/text": "RUNWAY 72"}), "failed", "not that of the outlines"),
    (lambda: t.written().but({"/evidence/intermediate/kept": 3}), "failed", "another number of lines"),
    (lambda: t.written().but({"/result/layers": []}), "inconclusive", "not on record"),
])
def test_text_against_its_lines(make: Callable[[], Sample], outcome: str, part: str) -> None:
    found = LOOK(make().case())
    assert found.outcome == outcome and part in found.message


def test_an_unsure_line_is_a_candidate_and_told_to_be_unread() -> None:
    o = t.written().observation
    assert o.result.value == "RUNWAY 27\nTank farm B" and o.evidence.intermediate["unread"] == 1
    assert [(r.label, r.n) for r in o.result.layers] == [("text", 2), ("candidates", 1)]
