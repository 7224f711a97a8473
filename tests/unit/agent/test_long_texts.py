"""Texts as long as a question may be, made to be parted in very many ways: reading them takes bounded time."""

from __future__ import annotations

import time

import pytest

from apps.agent.planner.conditions import rank_said, two_figures
from apps.agent.planner.offline import LONGEST
from tests.unit.agent.test_in_words import plan

# The longest question that is taken; the planner reads texts of LONGEST.
MOST = 4000
BEGINNINGS = ("", "How many more ", "Is ", "How much larger is ", "Difference in area between ", "Which fields are larger than ",
              "How many trees are within ", "What is the area of the fields between ")  # fmt: skip
PARTS = (" ", "a than ", "and a ", "1", "5 ha ", "of the fields ", "that are ", "in Mitte and ", "1,000 ", "-")


@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_texts_of_one_part_many_times_are_read_in_bounded_time(beginning: str) -> None:
    for part in PARTS:
        for end in ("", "? x"):
            text = (beginning + part * MOST)[: MOST - len(end)] + end
            began = time.process_time()
            two_figures(text)
            rank_said(text.lower())
            assert time.process_time() - began < 5, (part, end)


@pytest.mark.parametrize("part", PARTS)
def test_a_plan_of_such_a_text_is_made_or_refused_in_bounded_time(part: str) -> None:
    plan("How many trees are there?")  # the words are read from their files once
    began = time.process_time()
    plan(("How many trees are within " + part * LONGEST)[:LONGEST])
    assert time.process_time() - began < 15


def test_a_text_longer_than_is_read_is_refused_with_its_length() -> None:
    made = plan("How many trees are there? " + "word " * 700)
    assert not made.steps and "3,525 characters" in made.reason
    spaced, plain = (plan(t) for t in ("How many   trees \n are there?" + " " * 3000, "How many trees are there?"))
    assert (spaced.steps, spaced.reason) == (plain.steps, plain.reason)


def test_more_conditions_than_a_plan_holds_are_refused() -> None:
    made = plan("How many trees are within Mitte" + " and within 5 m of Mitte" * 20 + "?")
    assert not made.steps and made.reason
