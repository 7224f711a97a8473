"""What an answer is made of on its way: a finding with its words, value and claims, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import AnswerRecipe, Claim

# Comparisons of more than this many name the first two only; the claims hold them all.
LISTED = 4
# Rows of a table that stand in the sentence; the page lists all of them.
ROWS_SAID = 12


class NoAnswerError(Exception):
    """The accepted observations do not give an answer, and why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a recipe made of its observations, before choices are looked at."""

    text: str
    value: float | int | bool | str
    unit: str | None = None
    interval: tuple[float, float] | None = None
    claims: tuple[Claim, ...] = ()
    warnings: tuple[str, ...] = ()


def phrase_of(recipe: AnswerRecipe, o: Observation) -> str:
    phrase = str(recipe.options.get("phrase", ""))
    return phrase or f"{o.result.kind.capitalize()}{f' of {o.result.quantity}' if o.result.quantity else ''}"


def noun_of(recipe: AnswerRecipe, value: float) -> str:
    noun = str(recipe.options.get("noun", ""))
    return str(recipe.options.get("noun_one", noun)) if value == 1 else noun


def claim_of(state: RunState, text: str, parts: list[Observation]) -> Claim:
    return Claim(text=text[:1000], based_on=tuple(o.id for o in with_ancestors(state, [p.id for p in parts])))


def unique(items: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def list_of(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []


def overlaps(one: tuple[float, float] | None, other: tuple[float, float] | None) -> bool:
    return one is not None and other is not None and one[0] <= other[1] and other[0] <= one[1]


def with_ancestors(state: RunState, ids: list[str]) -> list[ObservationState]:
    """These observations and all that they rest on, in the order of the log."""
    found: set[str] = set()
    todo = list(ids)
    while todo:
        at = todo.pop()
        if at not in found and at in state.observations:
            found.add(at)
            todo.extend(state.observations[at].observation.parents)
    return [o for o in state.observations.values() if o.id in found]
