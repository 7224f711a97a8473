"""What was found is what was asked for: a right number of another kind of thing is a wrong answer."""

from __future__ import annotations

import pytest

from apps.verification.checks import run_checks
from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample

NAME = "contract.target_as_asked"


def found(made: Sample, question: str) -> tuple[str, str]:
    """(outcome, severity) as the judge takes them."""
    one = made.but({"/task/question": question})
    asked = one.but(question=one.bench.question.model_copy(update={"text": question}))
    ((result,), _) = run_checks(asked.case(), [NAME])
    return result.outcome, result.severity


@pytest.mark.parametrize("question", ["How many vehicles are there?", "What is the number of boats?", "How many ships?"])
def test_a_number_of_trees_is_none_of_vehicles(question: str) -> None:
    for made in (s.found(), s.counted()):
        assert found(made, question) == ("failed", "block")


@pytest.mark.parametrize("question", ["What area is covered by snow?", "What is the area of the ships?"])
def test_an_area_of_water_is_none_of_snow(question: str) -> None:
    assert found(s.measured("area"), question) == ("failed", "block")


@pytest.mark.parametrize(
    "question",
    ["How many trees are there?", "How many trees stand by the road with the cars?", "How many vehicles stand under trees?",
     "How dense is it?", "How many crowns are there?"],
)  # fmt: skip
def test_other_words_for_trees_raise_no_alarm(question: str) -> None:
    for made in (s.found(), s.counted()):
        assert found(made, question) != ("failed", "block")


@pytest.mark.parametrize(
    "question",
    ["How many hectares of lake are there?", "What is the area of the flooded forest?", "Which share is under water?",
     "What is the area of ice-free ground?", "Where is most of it?"],
)  # fmt: skip
def test_other_words_for_water_raise_no_alarm(question: str) -> None:
    assert found(s.measured("area"), question) != ("failed", "block")
