"""Measures of shapes that were drawn, with how exactly they follow the ground."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample


@lru_cache
def island(accuracy_m: float | None = 0.4) -> Sample:
    """The area of the traffic island, of whose outline a person said how exact it is."""
    first = s.drawn_island()
    given: Any = first.observation.arguments["sources"]
    call = {**first.observation.arguments, "sources": [{**given[0], **({"accuracy_m": accuracy_m} if accuracy_m else {})}]}
    return s.ask(first.bench, "How many m2 is the island?", "area", "measure", call)


def made_up() -> Sample:
    """The same on whose record the outline is ten times as exact as was said."""
    return island().but({"/evidence/source/layers/0/accuracy/m": 0.04})


def narrow() -> Sample:
    """The same with an interval half as wide."""
    one = island()
    value = float(one.observation.result.value or 0)
    assert one.observation.result.interval is not None
    low, high = one.observation.result.interval
    return one.but({"/result/interval": [value - (value - low) / 2, value + (high - value) / 2]})


EXAMPLES = {"consistency.interval_as_exact_as_drawn": (island, narrow, "failed")}
