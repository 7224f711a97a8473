"""The table under an answer that is a change by polygon: what was before, what came after, and the difference."""

from __future__ import annotations

from typing import Any

from apps.agent.tables_told import row_text, row_unit
from apps.agent.units import number_text
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation


def change_table(state: RunState) -> dict[str, Any] | None:
    """Title, columns and rows of a change between two tables that the answer rests on; None where it is no such change."""
    recipe = state.plan.answer if state.plan is not None else None
    if recipe is None or state.answer is None or len(recipe.steps) != 2 or not recipe.options.get("signed"):
        return None
    based_on = set(state.answer.based_on)
    newest = {o.observation.step: o.observation for o in state.observations.values() if o.id in based_on}
    tables = [newest.get(n) for n in recipe.steps]
    before, after = tables
    if before is None or after is None or row_unit(before) != row_unit(after):
        return None
    then = {str(i.get("zone")): i.get("value") for i in before.result.items}
    now = {str(i.get("zone")): i.get("value") for i in after.result.items}
    if len(then) < 2 or list(then) != list(now):
        return None
    changes = {name: _less(now[name], then[name]) for name in then}
    known = [v for v in changes.values() if v is not None]
    most, least = max(known, default=None), min(known, default=None)
    rows = [
        {"zone": name, "value": _signed(after, changes[name]), "cells": [_text(before, then[name]), _text(after, now[name])],
         "mark": "" if changes[name] is None or most == least else "most" if changes[name] == most
         else "least" if changes[name] == least else ""}
        for name in then
    ]  # fmt: skip
    phrase = str(recipe.options.get("phrase", "Change"))
    return {
        "title": phrase, "step": after.step, "unit": row_unit(after), "heading": "Change", "columns": ["Before", "After"],
        "rows": rows, "n": len(rows),
    }  # fmt: skip


def _less(one: object, other: object) -> float | None:
    return float(one) - float(other) if isinstance(one, int | float) and isinstance(other, int | float) else None


def _text(o: Observation, value: object) -> str:
    return row_text(o, value) if isinstance(value, int | float) else "no figure"


def _signed(o: Observation, value: float | None) -> str:
    if value is None:
        return "no figure"
    plain = row_text(o, value)
    return plain if value <= 0 or plain == number_text(0.0) else f"+{plain}"
