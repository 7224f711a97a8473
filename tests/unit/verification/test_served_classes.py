"""A kind that a model knows as part of a class alone is served by that class, where the record says so."""

from __future__ import annotations

from typing import Any

import pytest

from apps.verification.checks import CHECKS
from tests.unit.verification import samples as s


@pytest.mark.parametrize(("told", "outcome"), [
    ([{"target": "tree", "class": "plant", "exact": False}], "passed"),
    ([{"target": "tree", "class": "plant", "exact": True}], "failed"),
    ([{"target": "ship", "class": "plant", "exact": False}], "failed"),
    ([{"target": "tree", "class": "ship", "exact": False}], "failed"),
    ("plant", "failed"), (None, "failed"),
])  # fmt: skip
def test_boxes_of_a_class_that_holds_what_was_asked(told: Any, outcome: str) -> None:
    boxes = [s.box(*corners, "plant") for corners in ((10, 10, 40, 40), (60, 60, 90, 95))]
    made = s.found_instead(boxes).but({"/evidence/validity/classes": told})
    assert CHECKS["contract.classes_as_called"].look(made.case()).outcome == outcome
