"""What an analysis says, read from the observations that were accepted: figures of a node, tables of classes, bands and dates.

A reading takes no number that the tool did not put down, and says why where there is none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from apps.agent.units import convert, number_text, valid_pixels
from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import AnswerRecipe

# A test of chance says so below this probability.
SIGNIFICANT = 0.05
# Rows and dates that stand in a sentence; the page lists all of them.
LISTED = 12


class ReadingError(Exception):
    """The observations do not say it, and why."""


@dataclass(frozen=True, slots=True)
class Read:
    text: str
    value: float | int | bool | str
    unit: str | None = None
    warnings: tuple[str, ...] = ()


def _phrase(recipe: AnswerRecipe) -> str:
    return str(recipe.options.get("phrase", ""))


def _held(o: Observation, node: str, path: Sequence[Any]) -> Any:
    """What lies at a path of a node's figures, or of the evidence itself where no node is named."""
    at: Any = o.evidence.intermediate
    if node:
        nodes = at.get("nodes")
        at = next((n for n in nodes if isinstance(n, dict) and n.get("id") == node), {}) if isinstance(nodes, list) else {}
    for key in path:
        at = at.get(key) if isinstance(at, Mapping) else None
    return at


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _p(value: float) -> str:
    return "p < 0.001" if value < 0.001 else f"p = {value:.3g}"


def _reading(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """One figure beside the result: the shift of two images, the variance in the first components, the share of clouds."""
    options = recipe.options
    path, node = options.get("path"), str(options.get("node", ""))
    value = _held(parts[0], node, path if isinstance(path, list | tuple) else ())
    first = options.get("first")
    if isinstance(first, int) and isinstance(value, list | tuple) and len(value) >= first and all(_is_number(v) for v in value):
        value = math.fsum(value[:first])
    if not _is_number(value):
        why = options.get("why")
        told = _held(parts[0], node, why) if isinstance(why, list | tuple) else None
        raise ReadingError(
            f"{_phrase(recipe)}: {str(told or options.get('none') or 'the observation does not tell it').rstrip('.')}."
        )
    unit = recipe.unit
    if options.get("is_count"):
        return Read(f"{_phrase(recipe)} is {number_text(int(value), unit, is_count=True)}", int(value), unit)
    value = convert(float(value), str(options.get("of", unit)), unit)
    return Read(f"{_phrase(recipe)} is {number_text(value, unit)}", value, unit)


def _layers(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """A map was made: how many pixels it has, and from which value to which."""
    made = []
    for o in parts:
        if not o.result.layers:
            raise ReadingError(f"{_phrase(recipe)}: no layer was made.")
        figures = _held(o, str(o.arguments.get("output", "")), ()) if o.tool == "execute" else {}
        n, low, high = figures.get("n_valid"), figures.get("min"), figures.get("max")
        if _is_number(figures.get("n_true")) and _is_number(n):
            made.append(f"{int(figures['n_true']):,} of {valid_pixels(int(n))}")
        elif _is_number(n) and _is_number(low) and _is_number(high):
            unit = str(figures.get("unit", "1"))
            made.append(f"{valid_pixels(int(n))} from {number_text(low, unit)} to {number_text(high, unit)}")
        elif _is_number(mine := o.evidence.intermediate.get("numerator")) and _is_number(
            of := o.evidence.intermediate.get("denominator")
        ):
            made.append(f"{mine:,} of {valid_pixels(int(of))}")
    told = f" ({'; '.join(made)})" if made else ""
    return Read(f"{_phrase(recipe)} is on the map{told}", "on the map")


def _clustered(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """Whether like lies beside like more than chance would have it."""
    o = parts[0]
    output = str(o.arguments.get("output", ""))
    value, p, expected = o.result.value, _held(o, output, ["p_value"]), _held(o, output, ["expected"])
    if not (_is_number(value) and _is_number(p) and _is_number(expected)):
        raise ReadingError("Moran's I came without its p value.")
    assert isinstance(value, int | float)
    is_clustered = value > expected and p < SIGNIFICANT
    how = "clustered" if is_clustered else "dispersed" if value < expected and p < SIGNIFICANT else "not told from chance"
    return Read(
        f"{'Yes' if is_clustered else 'No'}: {_phrase(recipe)} is {number_text(value, '1')} ({_p(p)}), {how}", is_clustered
    )


def _significant(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    o = parts[0]
    value, p = o.result.value, _held(o, str(o.arguments.get("output", "")), ["p_value"])
    if not (_is_number(value) and _is_number(p)):
        raise ReadingError("The test came without its p value.")
    assert isinstance(value, int | float)
    is_one = p < SIGNIFICANT
    way = "rising" if value > 0 else "falling"
    told = f", {way}" if is_one else ""
    return Read(
        f"{'Yes' if is_one else 'No'}: {_phrase(recipe)} is {number_text(value, '1', is_signed=True)} ({_p(p)}){told}", is_one
    )


def _break(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """The date of a change point, where the test finds one."""
    o = parts[0]
    output = str(o.arguments.get("output", ""))
    p, before, after = (_held(o, output, [k]) for k in ("p_value", "mean_before", "mean_after"))
    if not isinstance(o.result.value, str) or not _is_number(p):
        raise ReadingError("No date was found.")
    if p >= SIGNIFICANT:
        raise ReadingError(f"No change point stands out of chance (Pettitt's test: {_p(p)}).")
    return Read(
        f"{_phrase(recipe)} is {o.result.value} ({_p(p)}; mean {number_text(before, '1')} before, "
        f"{number_text(after, '1')} from then on)",
        o.result.value,
    )


def _class_name(item: Mapping[str, Any]) -> str:
    return str(item.get("name") or f"class {item.get('class')}")


def _classes(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    o = parts[0]
    rows = [i for i in o.result.items if _is_number(i.get("share"))]
    if not rows:
        raise ReadingError(f"{_phrase(recipe)}: the table is empty.")

    def shown(i: Mapping[str, Any]) -> str:
        area = f"{number_text(i['area'], o.result.unit)}, " if _is_number(i.get("area")) else ""
        return f"{_class_name(i)} {area}{number_text(100 * float(i['share']), '%')}"

    order = sorted(rows, key=lambda i: -float(i["share"]))  # type: ignore[arg-type]  # numbers, by _is_number
    more = f"; and {len(order) - LISTED} more" if len(order) > LISTED else ""
    value = "; ".join(f"{_class_name(i)}: {i['area'] if _is_number(i.get('area')) else i['share']:.9g}" for i in order)
    return Read(f"{_phrase(recipe)}: {'; '.join(shown(i) for i in order[:LISTED])}{more}", value[:20_000], o.result.unit)


def _transitions(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    o = parts[0]
    if not _is_number(o.result.value):
        raise ReadingError("The transition matrix came without a share.")
    assert isinstance(o.result.value, int | float)
    moved = sorted((i for i in o.result.items if i.get("from") != i.get("to")), key=lambda i: -float(str(i["n_px"])))
    listed = "; ".join(
        f"{i['from']} to {i['to']} {int(str(i['n_px'])):,} px ({number_text(100 * float(str(i['share'])), '%')})"
        for i in moved[:LISTED]
    )
    head = f"{_phrase(recipe)} is {number_text(100 * float(o.result.value), '%')}"
    value = "; ".join(f"{i['from']} to {i['to']}: {i['n_px']}" for i in moved) or "no class changed"
    more = f"; and {len(moved) - LISTED} more pairs" if len(moved) > LISTED else ""
    return Read(f"{head}{f': {listed}{more}' if moved else ''}", value[:20_000], "px")


def _rows(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """One figure an observation, in their order."""
    labels = recipe.options.get("labels")
    if not isinstance(labels, list | tuple) or len(labels) != len(parts):
        raise ReadingError("The rows have no names.")
    rows = []
    for label, o in zip(labels, parts, strict=True):
        if not _is_number(o.result.value):
            raise ReadingError(f"{label} has no figure.")
        rows.append((str(label), float(str(o.result.value)), o.result.unit))
    shown = "; ".join(f"{label} {number_text(v, unit)}" for label, v, unit in rows[:LISTED])
    more = f"; and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    return Read(f"{_phrase(recipe)}: {shown}{more}", "; ".join(f"{label}: {v:.9g}" for label, v, _ in rows), rows[0][2])


# What is told of each band, by what is asked: (key of the item, name, shown as).
_QUALITY: dict[str, tuple[tuple[str, str, str], ...]] = {
    "noise": (("noise", "noise", "of"),),
    "sharpness": (("sharpness", "sharpness", "1"),),
    "stripes": (("row_stripes", "along rows", "%"), ("row_stripes_size", "of", "1"),
                ("column_stripes", "along columns", "%"), ("column_stripes_size", "of", "1")),
    "saturation": (("saturated_share", "saturated", "%"), ("at_max_share", "at its greatest value", "%")),
    "all": (("valid_share", "valid", "%"), ("noise", "noise", "of"), ("sharpness", "sharpness", "1"),
            ("saturated_share", "saturated", "%")),
}  # fmt: skip
_MEANING = {
    "noise": "; noise is one standard deviation (Immerkær), beside that of the band's values",
    "sharpness": "; sharpness is the variance of the Laplacian over that of the band: less is more blurred, and only images of "
                 "like ground compare",
    "stripes": "; it is the share of the jumps from line to line that whole lines have in common, and their size in the band's "
               "unit: below 10 % where there are no stripes",
    "saturation": "; saturated is at the greatest number that the file's type can hold, and a sensor may end before it",
}  # fmt: skip


def _quality(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """Figures of each band, without a judgement that no threshold carries."""
    o = parts[0]
    about = str(recipe.options.get("about", "all"))
    rows = []
    for item in o.result.items:
        told = []
        for key, name, shown in _QUALITY[about]:
            value = item.get(key)
            if not _is_number(value):
                continue
            assert isinstance(value, int | float)
            text = number_text(100 * value, "%") if shown == "%" else number_text(value, "1")
            spread = item.get("std")
            if shown == "of" and _is_number(spread):
                text += f" of {number_text(float(str(spread)), '1')}"
            told.append(f"{name} {text}")
        if told:
            rows.append((f"{item.get('role') or 'band'} (band {item.get('band')})", ", ".join(told)))
    if not rows:
        raise ReadingError(
            f"{_phrase(recipe)}: it cannot be told of this image (no whole-number samples, or too few valid pixels)."
        )
    flags = o.evidence.intermediate.get("flags")
    seen = [str(f) for f in flags] if isinstance(flags, list) and about == "all" else []
    noted = f"; noted: {', '.join(seen)}" if seen else ""
    listed = "; ".join(f"{band}: {told}" for band, told in rows[:LISTED])
    return Read(
        f"{_phrase(recipe)}: {listed}{_MEANING.get(about, '')}{noted}",
        "; ".join(f"{band}: {told}" for band, told in rows)[:20_000],
    )


def _written(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """The text that was read, as data between quotation marks."""
    text = parts[0].result.value
    if not isinstance(text, str):
        raise ReadingError("No text was read.")
    lines = [line for line in text.split("\n") if line.strip()]
    if not lines:
        return Read("There is no text in the image that could be read", "no text")
    shown = ", ".join(f"“{line[:80]}”" for line in lines[:LISTED])
    more = f", and {len(lines) - LISTED} more lines" if len(lines) > LISTED else ""
    return Read(f"{_phrase(recipe)}: {shown}{more}", text)


def _missing(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """Dates that the expected revisit asks for and the series lacks."""
    o = parts[0]
    output = str(o.arguments.get("output", ""))
    days, told, gaps = (_held(o, output, [k]) for k in ("revisit_days", "revisit_from", "gaps"))
    if not _is_number(days) or not isinstance(gaps, list):
        raise ReadingError(
            "How often an image is expected is not known of this sensor. Say it: “…, if there is one every 16 days?”"
        )
    n = _held(o, output, ["n_missing_dates"])
    n = n if isinstance(n, int) else 0
    dates = [str(d) for g in gaps if isinstance(g, dict) for d in g.get("expected", [])]
    every = f"one every {days:g} days" + (f" ({told})" if told and told != "given" else "")
    ask = recipe.options.get("ask")
    if not gaps:
        text = f"No date is missing: with {every} expected, no gap among {o.result.value} images is longer"
        return Read(f"No: {text}" if ask == "any" else text, False if ask == "any" else 0 if ask == "how many" else "none")
    near = "about " if n else ""
    listed = ", ".join(dates[:LISTED]) + (f", and {len(dates) - LISTED} more" if len(dates) > LISTED else "")
    head = f"{n:,} date{'s' * (n != 1)} in {len(gaps)} gap{'s' * (len(gaps) != 1)}"
    text = f"{head}, with {every} expected: {near}{listed}"
    if ask == "any":
        return Read(f"Yes: {text}", True)
    return Read(f"Missing are {text}", n if ask == "how many" else ", ".join(dates), "1" if ask == "how many" else None)


def _held_images(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    items = parts[0].result.items
    names = [f"{i.get('name')}{f' ({day})' if (day := i.get('date')) else ''}" for i in items]
    more = f", and {len(names) - LISTED} more" if len(names) > LISTED else ""
    listed = f": {', '.join(names[:LISTED])}{more}" if names else ""
    text = f"{len(names)} image{'s' if len(names) != 1 else ''}{listed}"
    return Read(text, len(names) if recipe.options.get("ask") == "how many" else ", ".join(names)[:20_000] or "none")


def _bounds(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    item = next(iter(parts[0].result.items), {})
    west, south, east, north = (item.get(k) for k in ("west", "south", "east", "north"))
    if not all(_is_number(v) for v in (west, south, east, north)):
        raise ReadingError("The bounds were not told.")
    box = f"{west:.5f}, {south:.5f}, {east:.5f}, {north:.5f}"
    return Read(
        f"{_phrase(recipe)} lies from longitude {west:.5f}, latitude {south:.5f} to longitude {east:.5f}, latitude "
        f"{north:.5f} ({item.get('crs')})",
        box,
    )


def _histogram(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """The bins with most pixels, and mean and median beside them."""
    counted, *others = parts
    rows = [i for i in counted.result.items if _is_number(i.get("low")) and _is_number(i.get("high")) and _is_number(i.get("n"))]
    n = sum(int(str(i["n"])) for i in rows)
    if not n:
        raise ReadingError(f"{_phrase(recipe)}: no pixel was counted.")
    unit = others[0].result.unit if others else "1"
    most = max(rows, key=lambda i: int(str(i["n"])))
    low, high = (number_text(float(str(most[k])), unit) for k in ("low", "high"))
    ends = [number_text(float(str(v)), unit) for v in (rows[0]["low"], rows[-1]["high"])]
    told = [
        f"{name} {number_text(float(str(o.result.value)), unit)}"
        for name, o in zip(("mean", "median"), others, strict=True)
        if _is_number(o.result.value)
    ]
    share = number_text(100 * int(str(most["n"])) / n, "%")
    text = (
        f"{_phrase(recipe)}: {n:,} pixels in {len(rows)} bins from {ends[0]} to {ends[1]}, most of them "
        f"({int(str(most['n'])):,}, "
        f"{share}) from {low} to {high}; {', '.join(told)}"
    )
    value = "; ".join(f"{float(str(i['low'])):.9g} to {float(str(i['high'])):.9g}: {i['n']}" for i in rows)
    return Read(text, value[:20_000], unit)


def _charted(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """The values of a series, by date."""
    o = parts[0]
    rows = [(str(i["date"])[:10], float(str(i["value"])), str(i.get("unit") or o.result.unit)) for i in o.result.items
            if _is_number(i.get("value")) and i.get("date")]  # fmt: skip
    if len(rows) < 2:
        raise ReadingError(f"{_phrase(recipe)}: fewer than two dates have a value.")
    shown = "; ".join(f"{day} {number_text(v, unit)}" for day, v, unit in rows[:LISTED])
    more = f"; and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    return Read(f"{_phrase(recipe)}: {shown}{more}", "; ".join(f"{day}: {v:.9g}" for day, v, _ in rows)[:20_000], rows[0][2])


def _centre(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """Where the middle of a mask lies: longitude and latitude, or pixels, and in which direction from the image's middle."""
    item = next(iter(parts[0].result.items), {})
    column, row = item.get("column"), item.get("row")
    if not (_is_number(column) and _is_number(row)):
        raise ReadingError(f"{_phrase(recipe)}: the place was not told.")
    lon, lat, far = item.get("longitude"), item.get("latitude"), item.get("distance_m")
    if not (_is_number(lon) and _is_number(lat) and _is_number(far)):
        return Read(f"{_phrase(recipe)} lies at column {column:.1f}, row {row:.1f} of the image", f"{column:.3f}, {row:.3f}")
    wind = str(item.get("direction"))
    where = wind if wind == "in the middle" else f"{number_text(far, 'm')} {wind} of the image's middle"
    text = f"{_phrase(recipe)} lies at longitude {lon:.5f}, latitude {lat:.5f}, {where} (column {column:.1f}, row {row:.1f})"
    return Read(text, f"{lon:.6f}, {lat:.6f}")


def _pictured(recipe: AnswerRecipe, parts: Sequence[Observation]) -> Read:
    """A picture was made."""
    o = parts[0]
    if not any(layer.kind == "image" for layer in o.result.layers):
        raise ReadingError(f"{_phrase(recipe)}: no picture was made.")
    return Read(f"{_phrase(recipe)} is kept as a picture", "kept as a picture")


READINGS: Mapping[str, Callable[[AnswerRecipe, Sequence[Observation]], Read]] = {
    "reading": _reading, "layers": _layers, "clustered": _clustered, "significant": _significant, "break": _break,
    "classes": _classes, "transitions": _transitions, "rows": _rows, "quality": _quality, "written": _written,
    "missing": _missing, "held": _held_images, "bounds": _bounds,
    "histogram": _histogram, "charted": _charted, "centre": _centre, "pictured": _pictured,
}  # fmt: skip
