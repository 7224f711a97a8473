"""Distances of a question are said with the number and unit that it gives them."""

from __future__ import annotations

import pytest

from apps.agent.units import length_as_asked, valid_pixels
from tests.unit.agent.test_offline_cuts import plan


@pytest.mark.parametrize(
    ("metres", "question", "said"),
    [
        (50_000.0, "How many sites lie within 50 km of the roads?", "50 km"),
        (50_000.0, "How many sites lie within 50 kilometres of the roads?", "50 km"),
        (1609.344, "Within 1 mile of the roads", "1 mi"),
        (152.4, "a 500-foot zone", "500 ft"),
        (2500.0, "within 2,500 m of the roads", "2,500 m"),
        (1_234_567.0, "within 1234567 m", "1,234,567 m"),
        # another number, an area, a speed, or none: metres
        (50_000.0, "within 49 km of the roads", "50,000 m"),
        (5000.0, "larger than 5 km² and near the roads", "5,000 m"),
        (5000.0, "larger than 5 km2 and at 5 km/h", "5,000 m"),
        (100.0, "near the roads", "100 m"),
        # of two the one that is meant
        (300.0, "within 2 km of the lake and 0.3 km of the roads", "0.3 km"),
    ],
)
def test_a_length_is_written_as_asked(metres: float, question: str, said: str) -> None:
    assert length_as_asked(metres, question) == said


@pytest.mark.parametrize(
    ("text", "image", "said"),
    [
        ("How many sites lie within 50 km of the roads?", False, "within 50 km of"),
        ("How many sites are more than 2 miles from the roads?", False, "farther than 2 mi from"),
        ("What is the mean NDVI within 0.2 km of each road?", True, "within 0.2 km of each"),
        ("What is the mean NDVI farther than 0.2 km from the roads?", True, "farther than 0.2 km from"),
        ("What is the mean NDVI within 300 ft of the roads?", True, "within 300 ft of"),
    ],
)
def test_plans_say_the_unit_that_was_asked(text: str, image: bool, said: str) -> None:
    made = plan(text, image=image)
    assert made.answer is not None, made.reason
    told = f"{made.answer.options} {' '.join(s.why for s in made.steps)}"
    assert said in told
    assert not any(f"{m} m " in told for m in ("50,000", "50000", "3,218.688", "3218.69", "200", "91.44"))


def test_one_pixel_is_no_pixels() -> None:
    assert (valid_pixels(1), valid_pixels(0), valid_pixels(40_574)) == ("1 valid pixel", "0 valid pixels", "40,574 valid pixels")
