"""Tables in an answer: rows as they are, the one with the extreme, changes between two dates, who lies beyond a number."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from apps.agent.findings import LISTED, ROWS_SAID, Finding, NoAnswerError, claim_of, overlaps, phrase_of
from apps.agent.units import carried_text, convert, number_text, with_sign
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import AnswerRecipe, Claim


def zone_told(recipe: AnswerRecipe, o: Observation) -> Finding:
    """The polygon that was picked, its value, and the one that follows."""
    known = [(str(i["zone"]), float(v)) for i in o.result.items if isinstance(v := i.get("value"), int | float)]
    picked = _picked_row(recipe, o, known)
    at = next((v for name, v in known if name == picked), None)
    if at is None:
        raise NoAnswerError("The polygon that was picked has no value on record.")
    top = recipe.options.get("top")
    if isinstance(top, int) and top > 1:
        return _first_of(recipe, o, known, top)
    equal = [name for name, v in known if v == at]
    if len(equal) > 1:
        more = f" and {len(equal) - LISTED} more" if len(equal) > LISTED else ""
        phrase = recipe.options.get("phrase", "same value")
        return Finding(f"{', '.join(equal[:LISTED])}{more} have the {phrase} alike ({row_text(o, at)})", "equal")
    # those that follow in the order asked for
    is_down = recipe.options.get("pick", "max" if at == max(v for _, v in known) else "min") == "max"
    rest = sorted((x for x in known if (x[1] < at if is_down else x[1] > at)), key=lambda x: abs(x[1] - at))

    def shown(v: float) -> str:
        if o.tool == "measure":
            return row_text(o, v)
        return number_text(v * 100, "%") if o.result.kind == "ratio" or _is_share(o) else number_text(v, _zone_unit(o))

    second = f"; next is {rest[0][0]} with {shown(rest[0][1])}" if rest else ""
    missing = len(o.result.items) - len(known)
    left = f"; {missing} hold no valid pixel" if missing else ""
    mine = next(i for i in o.result.items if i.get("zone") == picked)
    held = mine.get("on_raster")
    on_image = float(held) if isinstance(held, int | float) else 1.0
    part = "" if on_image >= 0.995 else f" (in the {number_text(100 * on_image, '%')} of it that lie on the image)"
    phrase = recipe.options.get("phrase", "extreme value")
    place = place_text(mine)
    part += f" (at {place})" if place else ""
    span = _interval_text(o, mine)
    part = f"{span}{' at least, for nobody says how exactly it was drawn' if span and _is_floor(o) else ''}{part}"
    second_item = next((i for i in o.result.items if rest and i.get("zone") == rest[0][0]), {})
    warnings = (
        (f"The intervals of {picked} and {rest[0][0]} overlap; the order of the two is not certain.",)
        if rest and _bounds(mine) and overlaps(_bounds(mine), _bounds(second_item))
        else ()
    )
    text = f"{picked} has the {phrase}, {shown(at)}{part}, among {len(known)} {recipe.options.get('noun', 'polygons')}"
    return Finding(f"{text}{second}{left}", picked, warnings=warnings)


def _picked_row(recipe: AnswerRecipe, o: Observation, known: list[tuple[str, float]]) -> str:
    """The row that the tool picked; of a table without a pick the one of the recipe's rank."""
    if isinstance(o.result.value, str):
        return o.result.value
    rank = recipe.options.get("rank")
    if not isinstance(rank, int):
        raise NoAnswerError(f"The observation of step {o.step} names no polygon.")
    if len(known) < rank:
        raise NoAnswerError(f"There are {len(known)} polygons with a figure, so none is number {rank}.")
    return sorted(known, key=lambda x: x[1], reverse=recipe.options.get("pick", "max") == "max")[rank - 1][0]


def _bounds(item: Mapping[str, Any]) -> tuple[float, float] | None:
    low, high = item.get("low"), item.get("high")
    return (float(low), float(high)) if isinstance(low, int | float) and isinstance(high, int | float) else None


def place_text(item: Mapping[str, Any]) -> str:
    """Where a row lies that has a number instead of a name: '50.73511° N, 1.20014° W'; '' where none is told."""
    lon, lat, column, row = (item.get(k) for k in ("lon", "lat", "column", "row"))
    if isinstance(lon, int | float) and isinstance(lat, int | float):
        return f"{abs(lat):.5f}° {'N' if lat >= 0 else 'S'}, {abs(lon):.5f}° {'E' if lon >= 0 else 'W'}"
    if isinstance(column, int | float) and isinstance(row, int | float):
        return f"column {column:g}, row {row:g}"
    return ""


def _first_of(recipe: AnswerRecipe, o: Observation, known: list[tuple[str, float]], top: int) -> Finding:
    """The first few rows in order, each with its figure."""
    order = sorted(known, key=lambda x: x[1], reverse=recipe.options.get("pick", "max") == "max")
    first = order[:top]
    if len(order) > top and order[top][1] == first[-1][1]:
        raise NoAnswerError(
            f"Number {top} and the next have the same figure, {row_text(o, first[-1][1])}; the first {top} cannot be told."
        )
    phrase = recipe.options.get("phrase", "extreme value")
    places = {str(i.get("zone")): place_text(i) for i in o.result.items}
    held = {str(i.get("zone")): i for i in o.result.items}
    listed = "; ".join(
        f"{name} {row_text(o, v)}{_interval_text(o, held[name])}{f' (at {places[name]})' if places.get(name) else ''}"
        for name, v in first
    )
    text = f"The {len(first)} with the {phrase}, of {len(known)} {recipe.options.get('noun', 'polygons')}: {listed}"
    if _is_floor(o) and any(_interval_text(o, held[name]) for name, _ in first):
        text += "; each interval at least, for nobody says how exactly it was drawn"
    return Finding(text, "; ".join(name for name, _ in first))


def _changed_rows(parts: list[Observation]) -> tuple[list[tuple[str, float | None]], tuple[str, ...]]:
    """(name, change) of each row: of one table its own values, of two the second's less the first's. Warnings where the two
    hold other pixels."""
    if len(parts) == 1:
        return [(str(i.get("zone", "")), v if isinstance(v := i.get("value"), int | float) else None)
                for i in parts[0].result.items], ()  # fmt: skip
    before, after = ({str(i.get("zone", "")): i for i in o.result.items} for o in parts)
    if list(before) != list(after) or len(before) != len(parts[0].result.items) or row_unit(parts[0]) != row_unit(parts[1]):
        raise NoAnswerError("The tables of the two dates have other rows, so no change follows from them.")
    out: list[tuple[str, float | None]] = []
    uneven = []
    for name, first in before.items():
        one, two = first.get("value"), after[name].get("value")
        is_known = isinstance(one, int | float) and isinstance(two, int | float)
        out.append((name, float(two) - float(one) if is_known else None))  # type: ignore[arg-type]
        n, m = first.get("n_valid"), after[name].get("n_valid")
        if isinstance(n, int) and isinstance(m, int) and abs(n - m) > 0.01 * max(n, m):
            uneven.append(name)
    if not uneven:
        return out, ()
    named = ", ".join(uneven[:LISTED])
    told = f"In {len(uneven)} of {len(out)} other pixels are valid at the two dates ({named}); a part of the change may be that."
    return out, (told,)


def _change_text(o: Observation, value: float) -> str:
    unit = row_unit(o)
    return number_text(value * 100, "%", is_signed=True) if _is_share(o) else number_text(value, unit, is_signed=True)


def _change_claims(state: RunState, parts: list[Observation], rows: list[tuple[str, float | None]]) -> tuple[Claim, ...]:
    """One claim a table that the change rests on."""
    days = ("before", "after") if len(parts) == 2 else ("change",)
    return tuple(claim_of(state, f"{day}: a table of {len(rows)} polygons", [o]) for day, o in zip(days, parts, strict=True))


def change_table_told(state: RunState, recipe: AnswerRecipe, parts: list[Observation]) -> Finding:
    """The change of each row between two tables."""
    rows, warnings = _changed_rows(parts)
    known = [(name, v) for name, v in rows if v is not None]
    if not known:
        raise NoAnswerError("No polygon has a figure at both dates.")
    o = parts[-1]
    head = f"{phrase_of(recipe, o)}: " + "; ".join(
        f"{name} {'no figure' if v is None else _change_text(o, v)}" for name, v in rows[:ROWS_SAID]
    )
    if len(rows) > ROWS_SAID:
        (most, high), (least, low) = max(known, key=lambda r: r[1]), min(known, key=lambda r: r[1])
        head += f"; and {len(rows) - ROWS_SAID:,} more of {len(rows):,}, from {_change_text(o, low)} ({least}) to "
        head += f"{_change_text(o, high)} ({most})"
    missing = [name for name, v in rows if v is None]
    if missing:
        warnings = (*warnings, f"{len(missing)} of {len(rows)} have no figure: {', '.join(missing[:LISTED])}.")
    value = "; ".join(f"{name}: {v:.9g}" if v is not None else f"{name}: none" for name, v in rows)
    return Finding(head, value[:20_000], row_unit(o), claims=_change_claims(state, parts, rows), warnings=warnings)


def change_zone_told(state: RunState, recipe: AnswerRecipe, parts: list[Observation]) -> Finding:
    """The polygon with the greatest change, loss or gain between two dates."""
    rows, warnings = _changed_rows(parts)
    known = [(name, v) for name, v in rows if v is not None]
    sign, phrase, o = recipe.options.get("change_sign", ""), str(recipe.options.get("phrase", "greatest change")), parts[-1]
    weight = {"drop": -1.0, "rise": 1.0}.get(str(sign))
    is_least = recipe.options.get("pick") == "min"

    def size(v: float) -> float:
        held = abs(v) if weight is None else weight * v
        return -held if is_least else held

    order = sorted(known, key=lambda r: size(r[1]), reverse=True)
    rank = recipe.options.get("rank", 1)
    if not isinstance(rank, int) or len(order) < rank:
        raise NoAnswerError("So many polygons have no figure at both dates.")
    top = recipe.options.get("top")
    if isinstance(top, int) and top > 1:
        first = "; ".join(f"{name} {_change_text(o, v)}" for name, v in order[:top])
        told = f"The {min(top, len(order))} with the {phrase}, of {len(known)} polygons: {first}"
        return Finding(told, "; ".join(n for n, _ in order[:top]), claims=_change_claims(state, parts, rows), warnings=warnings)
    name, value = order[rank - 1]
    claims = _change_claims(state, parts, rows)
    if weight is not None and weight * value <= 0 and not is_least:
        text = f"No polygon has a {'loss' if sign == 'drop' else 'gain'}: {phrase} is {_change_text(o, value)} in {name}"
        return Finding(text, "none", claims=claims, warnings=warnings)
    if sum(v == value for _, v in known) > 1:
        return Finding(f"Several polygons have the {phrase} alike ({_change_text(o, value)})", "equal", claims=claims,
                        warnings=warnings)  # fmt: skip
    second = f"; next is {order[rank][0]} with {_change_text(o, order[rank][1])}" if len(order) > rank else ""
    text = f"{name} has the {phrase}, {_change_text(o, value)}, of {len(known)} polygons{second}"
    return Finding(text, name, claims=claims, warnings=warnings)


def table_told(state: RunState, recipe: AnswerRecipe, o: Observation) -> Finding:
    """A figure for each of several: the rows in the order of the file, their names as data."""
    rows = [(str(i.get("zone", "")), v if isinstance(v := i.get("value"), int | float) else None) for i in o.result.items]
    known = [(name, v) for name, v in rows if v is not None]
    if recipe.options.get("names"):
        return _names(recipe, o, rows)
    if not known:
        raise NoAnswerError(f"The observation of step {o.step} has no row with a figure. {o.status.reason}".strip())

    def shown(v: float | int | None) -> str:
        return "no figure" if v is None else row_text(o, v)

    phrase = phrase_of(recipe, o)
    head = f"{phrase}: " + "; ".join(f"{name} {shown(v)}" for name, v in rows[:ROWS_SAID])
    if len(rows) > ROWS_SAID:
        (most, high), (least, low) = max(known, key=lambda r: r[1]), min(known, key=lambda r: r[1])
        head += f"; and {len(rows) - ROWS_SAID:,} more of {len(rows):,}, from {shown(low)} ({least}) to {shown(high)} ({most})"
    missing = [name for name, v in rows if v is None]
    warnings = (f"{len(missing)} of {len(rows)} have no figure: {', '.join(missing[:LISTED])}.",) if missing else ()
    value = "; ".join(f"{name}: {v:.9g}" if v is not None else f"{name}: none" for name, v in rows)
    return Finding(head, value[:20_000], row_unit(o), warnings=warnings)


def _names(recipe: AnswerRecipe, o: Observation, rows: list[tuple[str, float | int | None]]) -> Finding:
    """Who is left by the conditions, with the figure of each where it tells more than that there is one."""
    noun, n = str(recipe.options.get("noun", "")), recipe.options.get("n")
    of_all = f" of {n:,}" if isinstance(n, int) else ""
    if not rows:
        return Finding(f"None{of_all} {noun}", "none")
    spec = o.arguments.get("spec")
    is_bare = isinstance(spec, dict) and spec.get("metric") == "count"
    said = [name if is_bare or v is None else f"{name} ({row_text(o, v)})" for name, v in rows[: 2 * ROWS_SAID]]
    more = f"; and {len(rows) - len(said):,} more" if len(rows) > len(said) else ""
    text = f"{len(rows):,}{of_all} {noun}: {'; '.join(said)}{more}"
    return Finding(text, "; ".join(name for name, _ in rows)[:20_000])


def rows_told(recipe: AnswerRecipe, o: Observation) -> Finding:
    """How many, which share or which of a table's rows have a figure beyond a number; rows without one are told."""
    rows = [(str(i.get("zone", "")), v if isinstance(v := i.get("value"), int | float) else None) for i in o.result.items]
    known = [(name, v) for name, v in rows if v is not None]
    limit, op, how = recipe.options.get("value"), str(recipe.options.get("op", ">")), str(recipe.options.get("as", "count"))
    if not known or not isinstance(limit, int | float) or op not in (">", ">=", "<", "<="):
        raise NoAnswerError(f"The observation of step {o.step} has no row that could be compared.")
    does = {">": operator.gt, ">=": operator.ge, "<": operator.lt, "<=": operator.le}[op]
    bound = convert(limit, recipe.unit, row_unit(o)) if recipe.unit not in ("", "1") else limit
    hits = [(name, v) for name, v in known if does(v, bound)]
    missing = len(rows) - len(known)
    warnings = (f"{missing} of {len(rows)} have no figure and are not counted.",) if missing else ()
    what = f"{recipe.options.get('phrase', 'a figure')} {op} {row_text(o, bound)}"
    named = "; ".join(f"{name} ({row_text(o, v)})" for name, v in hits[:ROWS_SAID])
    more = f"; and {len(hits) - ROWS_SAID} more" if len(hits) > ROWS_SAID else ""
    listed = f": {named}{more}" if hits else ""
    text = f"{len(hits)} of {recipe.options.get('noun', 'the polygons')} have {what}{listed}"
    if how == "names":
        return Finding(text, "; ".join(name for name, _ in hits) or "none", warnings=warnings)
    if how == "share":
        share = len(hits) / len(known)
        return Finding(f"{number_text(100 * share, '%')}: {text}", share, "1", warnings=warnings)
    return Finding(text, len(hits), "1", warnings=warnings)


def row_unit(o: Observation) -> str:
    """The unit of the rows of a table; of a measure the result's own, of zones of an image that of their statistic."""
    return o.result.unit if o.tool == "measure" else "1" if _is_share(o) else _zone_unit(o)


def row_text(o: Observation, value: float | int) -> str:
    """One row's figure with its unit, as it stands in a sentence."""
    spec = o.arguments.get("spec")
    metric = spec.get("metric") if isinstance(spec, dict) else ""
    if (o.tool == "measure" and metric == "ratio" and o.result.unit == "1") or (o.tool == "execute" and _is_share(o)):
        return number_text(value * 100, "%")
    return number_text(value, row_unit(o), is_count=metric == "count")


def _interval_text(o: Observation, item: Mapping[str, Any]) -> str:
    """', interval 120 m to 126 m' of a row that is a distance; '' where it has none, or none that can be seen."""
    spec, ends = o.arguments.get("spec"), _bounds(item)
    if ends is None or o.tool != "measure" or not isinstance(spec, dict) or spec.get("metric") != "distance":
        return ""
    span = carried_text(float(item["value"]), ends, row_unit(o), is_short=True)[1]
    if not span:
        return ""
    return ", interval " + " to ".join(with_sign(end, row_unit(o)) for end in span.split(" to "))


def _is_floor(o: Observation) -> bool:
    """Whether the true intervals may be wider."""
    return o.evidence.intermediate.get("interval_is") == "floor"


def _zonal_params(o: Observation) -> dict[str, Any]:
    """Parameters of the graph's last node."""
    nodes, output = o.arguments.get("nodes"), o.arguments.get("output")
    found = [n for n in nodes if isinstance(n, dict) and n.get("id") == output] if isinstance(nodes, list) else []
    params = found[0].get("params") if found else None
    return params if isinstance(params, dict) else {}


def _is_share(o: Observation) -> bool:
    return _zonal_params(o).get("statistic") == "share"


def _zone_unit(o: Observation) -> str:
    """The unit of the values of a table whose own value is a name."""
    params = _zonal_params(o)
    if params.get("statistic") == "area":
        return str(params.get("unit", "m2"))
    ranges = o.evidence.source.get("ranges")
    held = ranges.get(str(_zonal_input(o))) if isinstance(ranges, dict) else None
    return str(held.get("unit", "1")) if isinstance(held, dict) else "1"


def _zonal_input(o: Observation) -> str:
    nodes, output = o.arguments.get("nodes"), o.arguments.get("output")
    found = [n for n in nodes if isinstance(n, dict) and n.get("id") == output] if isinstance(nodes, list) else []
    inputs = found[0].get("inputs") if found else None
    return str(inputs[0]) if isinstance(inputs, list) and inputs else ""
