"""A kind that a model knows as part of a class alone is served by that class, where the record says so."""

from __future__ import annotations

from typing import Any

import pytest

from apps.tools.zoo.registry import models
from apps.verification.checks import CHECKS
from apps.verification.words import is_kind_of
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


@pytest.mark.parametrize("name", ["dog", "swimming pool", "car", "ship"])
def test_no_record_makes_a_class_hold_what_it_does_not(name: str) -> None:
    boxes = [s.box(*corners, name) for corners in ((10, 10, 40, 40), (60, 60, 90, 95))]
    told = [{"target": "tree", "class": name, "exact": False}]
    made = s.found_instead(boxes).but({"/evidence/validity/classes": told})
    assert CHECKS["contract.classes_as_called"].look(made.case()).outcome == "failed"


def test_near_words_of_the_shipped_models_are_kinds_of_their_classes() -> None:
    near = [(w, c.name) for card, _ in models() if card.source == "shipped" for c in card.classes for w in c.near]
    assert ("car", "vehicle") in near
    assert all(is_kind_of(word, name) for word, name in near)
    assert is_kind_of("lorries", "vehicles") and is_kind_of("buses", "vehicle") and not is_kind_of("vehicle", "car")
