"""A table of one figure for each of several polygons, as rows of a page: names are data, figures carry their unit."""

from __future__ import annotations

import re
from typing import Any

from apps.agent.tables_told import place_text, row_text, row_unit
from apps.agent.units import number_text, without_noise
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation
from apps.runs.changes import change_table
from apps.runs.headline import quantity_text

# What else an item tells, in the order of the columns: key → (heading, whether it is a count, unit).
_MORE: tuple[tuple[str, str, bool, str], ...] = (
    ("n_valid", "Valid px", True, "1"), ("n_kept", "Parts", True, "1"), ("n_features", "Polygons", True, "1"),
    ("std", "Std", False, "1"), ("on_raster", "On image", False, "%"),
)  # fmt: skip


def rows_table(observation: Observation) -> dict[str, Any] | None:
    """Title, columns and rows of an observation whose items carry ``zone`` and ``value``; None where there are none, or one."""
    items = [i for i in observation.result.items if isinstance(i.get("zone"), str) and "value" in i]
    if len(items) < 2:
        return None
    figures = [v for i in items if isinstance(v := i["value"], int | float)]
    most, least = max(figures, default=None), min(figures, default=None)
    columns = [c for c in _MORE if any(isinstance(i.get(c[0]), int | float) for i in items)]
    # a column that says the same of all says nothing
    columns = [c for c in columns if c[0] != "n_features" or any(i.get("n_features") != 1 for i in items)]
    columns = [c for c in columns if c[0] != "on_raster" or any(_is_cut(i.get("on_raster")) for i in items)]
    has_bounds = any("low" in i and "high" in i for i in items)
    has_places = any(place_text(i) for i in items)
    rows = []
    for item in items:
        value = item["value"]
        is_known = isinstance(value, int | float) and not isinstance(value, bool)
        cells = []
        if has_bounds:
            low, high = item.get("low"), item.get("high")
            known = isinstance(low, int | float) and isinstance(high, int | float)
            ends = [row_text(observation, end) for end in without_noise((low, high))] if known else []  # type: ignore[arg-type]
            cells.append(" to ".join(ends) if len(set(ends)) == 2 else "")
        for key, _, is_count, unit in columns:
            held = item.get(key)
            scale = 100 if unit == "%" else 1
            cells.append(number_text(held * scale, unit, is_count=is_count) if isinstance(held, int | float) else "")
        if has_places:
            cells.append(place_text(item))
        rows.append({
            "zone": item["zone"], "value": row_text(observation, value) if is_known else "no figure",  # type: ignore[arg-type]
            "mark": "most" if is_known and value == most and most != least else "least" if is_known and value == least != most
            else "", "cells": cells,
        })  # fmt: skip
    spec = observation.arguments.get("spec")
    metric = str(spec.get("metric")) if isinstance(spec, dict) else "figure"
    return {
        "title": _by_polygon(quantity_text(observation.result.quantity) or "Figure"), "step": observation.step,
        "unit": row_unit(observation), "heading": metric.capitalize() if observation.tool == "measure" else "Value",
        "columns": (["Interval"] if has_bounds else []) + [c[1] for c in columns] + (["Place"] if has_places else []),
        "rows": rows, "n": len(rows),
    }  # fmt: skip


def _by_polygon(what: str) -> str:
    """``NDVI`` → ``NDVI, by polygon``; "for each of" a file says it already, unless it is the file that is measured."""
    of, _, file = what.partition(", for each of ")
    return what if file and not of.endswith(f" of {file}") else f"{of}, by polygon"


# Of an item, what a person does not read: ids, and geometry that the map shows.
_UNREAD = frozenset({"scene", "node", "box", "unit"})
# What an item is called comes first.
_NAMES = ("name", "class", "role", "target", "text", "label", "band")
ITEMS_SHOWN = 200
# Columns of probabilities: three digits, and what is less says so.
_PROBABILITIES = frozenset({"p", "p10", "p90", "probability", "score"})


def items_table(observation: Observation) -> dict[str, Any] | None:
    """The items of a result that are neither zones nor a dated series: classes with areas, bands with figures, words read.

    Cells are read as the items hold them, areas with their unit and shares in %. None where there are none.
    """
    items = [i for i in observation.result.items if "zone" not in i and "date" not in i]
    if not items or len(items) < len(observation.result.items):
        return None
    keys = [k for k in dict.fromkeys(k for i in items for k in i) if k not in _UNREAD]
    keys = [k for k in keys if any(isinstance(i.get(k), str | int | float) and i.get(k) != "" for i in items)]
    keys.sort(key=lambda k: _NAMES.index(k) if k in _NAMES else len(_NAMES))
    if not keys:
        return None
    rows = [[_cell(key, item) for key in keys] for item in items[:ITEMS_SHOWN]]
    return {
        "title": f"{quantity_text(observation.result.quantity) or 'Result'}, in parts", "step": observation.step,
        "first": _heading(keys[0]), "heading": _heading(keys[1]) if len(keys) > 1 else "",
        "columns": [_heading(k) for k in keys[2:]], "n": len(items), "shown": len(rows),
        "rows": [{"zone": r[0], "value": r[1] if len(r) > 1 else "", "cells": r[2:]} for r in rows],
    }  # fmt: skip


def _heading(key: str) -> str:
    """``n_px`` → ``Pixels``, ``p98`` → ``98 %``, ``n_valid`` → ``Valid px``."""
    known = {"n_px": "Pixels", "n_valid": "Valid px", "low": "From", "high": "To"}
    if key[:1] == "p" and key[1:].isdigit():
        return f"{key[1:]} %"
    return known.get(key) or quantity_text(key[:1].upper() + key[1:])


def _name(held: str) -> str:
    """A class as a model's card calls it, in words: ``SeaLake`` → ``Sea lake``; what is no such name stays."""
    if not re.fullmatch(r"(?:[A-Z][a-z]+){2,}", held):
        return held
    return re.sub(r"(?<=[a-z])[A-Z]", lambda m: f" {m[0].lower()}", held)


def _cell(key: str, item: dict[str, Any]) -> str:
    held = item.get(key)
    if isinstance(held, bool):
        return "yes" if held else "no"
    if not isinstance(held, int | float):
        return _name(held) if isinstance(held, str) else "–"
    if key in _PROBABILITIES and isinstance(held, float) and 0 <= held <= 1:
        return "< 0.001" if 0 < held < 0.001 else f"{held:.3f}"
    if key == "share":
        return number_text(100 * held, "%")
    unit = str(item.get("unit") or "1") if key == "area" else "1"
    return number_text(held, unit, is_count=isinstance(held, int) or key in ("low", "high"))


def _is_cut(share: object) -> bool:
    """Whether a part of a polygon lies beside the image."""
    return isinstance(share, int | float) and share < 0.9999


def run_table(state: RunState) -> dict[str, Any] | None:
    """The table under the run's answer: of a change the change, else the newest; None where it rests on none."""
    changed = change_table(state)
    if changed is not None:
        return changed
    based_on = set(state.answer.based_on) if state.answer is not None else set()
    for held in reversed(list(state.observations.values())):
        table = rows_table(held.observation) if held.id in based_on else None
        if table:
            return table
    return None
