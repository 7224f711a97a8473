"""Signs: what a call's record says for or against it, as numbers by name, read before the call is taken into the run.

A sign that cannot be known is absent. Nothing here knows a label, a reference trace, an answer's correctness, the model that
called, or what came later. ``AFTER`` names the signs that need the output; the others are known before it is looked at.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from apps.verification.records.memory import OUTPUT_ARGUMENTS, Call, RecordMemory, sibling_key
from apps.verification.records.wording import (
    FILE,
    INDICES,
    KINDS,
    base_name,
    class_in,
    dates_of,
    is_not_finite,
    is_silent_failure,
    leaves,
    month_of,
    numbers_in,
    quantity_of,
    stem_of,
    year_of,
)

# Values that stand for "no data" in common products and are no measurement.
FILL_VALUES = (2147483648.0, 2147483647.0, 9999.0, 99999.0, 999999.0, 3.4028234663852886e38, 1.7976931348623157e308)
# A mean or percentile of land surface temperature outside both lies on no land that is imaged: kelvin, and degrees Celsius.
# The coldest monthly means of the Antarctic plateau are about 205 K (Scambos et al. 2018, doi:10.1029/2018GL078133).
LST_KELVIN, LST_CELSIUS = (200.0, 360.0), (-90.0, 80.0)
# A scene's mean brightness temperature outside is cloud tops or nodata, hardly ground.
BT_KELVIN = (200.0, 345.0)
# An index statistic beyond this is a fill value divided by something, not a bright pixel.
INDEX_FILL = 1e8
MAX_OPERANDS = 400
_ASKS = (
    ("share", r"percentage|proportion|ratio|share|percent"), ("trend", r"trend|slope"), ("count", r"how many|count|number of"),
    ("mean", r"mean|average"), ("extreme", r"max|highest|peak|largest"), ("difference", r"difference|change|compare"),
    ("area", r"area"), ("month", r"month"), ("year", r"annual|yearly"), ("day", r"daily|days"),
)  # fmt: skip
_ASK = tuple((name, re.compile(pattern)) for name, pattern in _ASKS)
_STOP_WORDS = frozenset({"calculate", "calc", "batch", "image", "value", "from", "compute", "threshold"})
_SHOWN_QUANTITIES = (
    "lst", "bt", "refl", "ndvi", "pwv", "tvdi", "ati", "turbidity", "frp", "light", "mask", "difference",
)  # fmt: skip

# Signs that cannot be known before the output is looked at.
AFTER = frozenset(
    {
        "failed", "silent_failure", "not_finite", "fill_value", "zero_share", "hundred", "magnitude", "least_magnitude",
        "negative", "whole", "values", "writes", "lst_implausible", "impossible_temperature", "index_outside", "index_extreme",
        "index_fill", "box_convention", "choice_distance", "choice_hit", "choice_close", "choice_scale", "choice_range",
        "choice_percent", "choice_number_hit", "choice_number_share", "choice_number_all", "choice_number_percent", "same_output",
        "repeat_differs", "confidence", "margin", "class_named", "second_agrees", "bt_implausible", "values_per_path", "spread",
        "siblings", "sibling_offset", "sibling_differs", "sibling_repeats",
    }
)  # fmt: skip


def signs_of(memory: RecordMemory, call: Call) -> dict[str, float]:
    """Every sign of one call, by name; what cannot be known is absent. Pure: ``memory`` is not changed."""
    out: dict[str, float] = {}
    kind, low = call.kind, call.tool.lower()
    inputs = {k: v for k, v in call.arguments.items() if "output" not in k and "out_" not in k and k not in OUTPUT_ARGUMENTS}
    named = [(k, x) for k, v in inputs.items() for x in leaves(v) if isinstance(x, str) and FILE.search(x)]
    paths = [x for _, x in named]
    numbers = [float(x) for x in leaves(inputs) if isinstance(x, (int, float)) and not isinstance(x, bool)]
    silent = is_silent_failure(call.text)
    writes = "save" in call.text[:60].lower() and " at " in call.text[:80].lower()
    has_values = not (writes or silent or call.is_failed or kind in ("catalog", "classifier"))
    values = [v for v in numbers_in(call.text) if math.isfinite(v)] if has_values else []
    for name in KINDS:
        out[f"kind_{name}"] = float(kind == name)
    out |= {"failed": float(call.is_failed), "silent_failure": float(not call.is_failed and silent), "writes": float(writes)}
    out |= {"paths": float(len(paths)), "values": float(len(values))}
    _question(out, memory)
    _values(out, call, kind, low, values, memory, paths, numbers)
    _roles(out, kind, low, inputs, named)
    _origins(out, memory, inputs, paths)
    _series(out, memory, paths)
    _lineage(out, memory, paths)
    thresholds, operands = _operands(out, memory, kind, low, inputs, numbers)
    _sources(out, memory, kind, numbers)
    if has_values:
        _siblings(out, memory, call, paths, values)
        _choices(out, memory, kind, values)
    _choice_numbers(out, memory, values, operands, thresholds)
    _history(out, memory, call, silent, writes)
    _asked(out, memory, kind, low, paths)
    if kind == "classifier":
        _classifier(out, memory, call, paths)
    if kind == "detector":
        _detector(out, memory, call, paths)
    return out


def _question(out: dict[str, float], memory: RecordMemory) -> None:
    for name, pattern in _ASK:
        out[f"asks_{name}"] = float(bool(pattern.search(memory.words)))
    out["choice_is_number"], out["choice_is_percent"] = float(bool(memory.choice_values)), float(memory.is_percent)


def _values(out: dict[str, float], call: Call, kind: str, low: str, values: list[float], memory: RecordMemory,
            paths: Sequence[str], numbers: Sequence[float]) -> None:  # fmt: skip
    out["not_finite"] = float(kind != "catalog" and not out["writes"] and not call.is_failed and is_not_finite(call.text))
    if values:
        sizes = [abs(v) for v in values]
        out["zero_share"] = sum(v == 0 for v in values) / len(values)
        out["magnitude"], out["least_magnitude"] = math.log10(max(sizes) + 1e-6), math.log10(min(sizes) + 1e-6)
        out["negative"] = float(any(v < 0 for v in values))
        out["whole"] = float(all(v.is_integer() for v in values))
        out["fill_value"] = float(any(abs(s - f) <= 1e-6 * f for s in sizes for f in FILL_VALUES))
        out["hundred"] = float(kind == "share" and any(v == 100 for v in values))
    quantities = [memory.quantity(p) for p in paths]
    known = {q for q in quantities if q}
    out["quantities"] = float(len(known))
    for name in _SHOWN_QUANTITIES:
        out[f"of_{name}"] = float(name in known)
    out["of_index"] = float(bool(known & INDICES))
    if quantities:
        out["of_unknown"] = float(any(q is None for q in quantities))
    out["quantities_mixed"] = float(len(set(quantities)) > 1 and kind in ("image_statistic", "share"))
    is_level = kind == "image_statistic" and not any(w in low for w in ("std", "skew", "kurt", "sum", "division"))
    if is_level and values and known == {"lst"}:
        kelvin, celsius = LST_KELVIN, LST_CELSIUS
        out["impossible_temperature"] = float(
            any(not (kelvin[0] <= v <= kelvin[1] or celsius[0] <= v <= celsius[1]) for v in values)
        )
        out["lst_implausible"] = float(any(80 < v < 230 or v > 345 for v in values))
    if is_level and values and known == {"bt"}:
        out["bt_implausible"] = float(any(not BT_KELVIN[0] <= v <= BT_KELVIN[1] for v in values))
    if is_level and values and len(known) == 1 and known & INDICES:
        top = max(abs(v) for v in values)
        out["index_outside"], out["index_extreme"] = float(top > 1.05), float(top > 100)
        out["index_fill"] = float(top >= INDEX_FILL)
    if low == "kelvin_to_celsius" and numbers:
        out["kelvin_range"] = float(not 150 <= numbers[0] <= 400)
    if low == "celsius_to_kelvin" and numbers:
        out["kelvin_range"] = float(not -100 <= numbers[0] <= 100)
    if low == "calculate_bbox_area":
        _boxes(out, call, values)


def _boxes(out: dict[str, float], call: Call, values: Sequence[float]) -> None:
    """A tool that reads [x, y, width, height] and was given corners: the area that it gives is x2 · y2."""
    given = call.arguments.get("bboxes")
    boxes = [b for b in given if isinstance(b, list) and len(b) == 4] if isinstance(given, list) else []
    try:
        corners = [tuple(float(v) for v in b) for b in boxes]
        gsd = float(call.arguments.get("gsd") or 1)
    except (TypeError, ValueError):
        return
    are_corners = bool(corners) and all(b[2] > b[0] and b[3] > b[1] for b in corners)
    as_sizes = sum(b[2] * b[3] for b in corners) * gsd * gsd
    out["box_convention"] = float(are_corners and bool(values) and _near(values[0], as_sizes, 1e-3))


def _roles(out: dict[str, float], kind: str, low: str, inputs: Mapping[str, Any], named: Sequence[tuple[str, str]]) -> None:
    """Whether the files fit the roles that they are given for."""
    single = [x for k, x in named if not isinstance(inputs.get(k), list)]
    lists = [v for v in inputs.values() if isinstance(v, list) and v and all(isinstance(x, str) for x in v)]
    same = len(single) > 1 and len(set(single)) < len(single)
    same = same or any(a == b for i, a in enumerate(lists) for b in lists[:i])
    out["one_raster_two_roles"] = float(same and kind != "changes")
    out["input_twice"] = float(any(len(v) > 1 and len(set(v)) < len(v) for v in lists))
    lengths = {len(v) for v in lists}
    out["lengths_differ"] = float(len(lists) > 1 and len(lengths) > 1)
    groups: list[Sequence[str]] = []
    if len(single) > 1:
        groups = [single]
    elif len(lists) > 1 and len(lengths) == 1:
        groups = list(zip(*lists, strict=True))
    elif kind == "product" and lists and len(lists[0]) > 1 and "batch" not in low:
        groups = [lists[0]]
    mixed = False
    for group in groups[:MAX_OPERANDS]:
        dated = [set(d) for d in (dates_of(x) for x in group) if d]
        mixed = mixed or (len(dated) > 1 and not set.intersection(*dated))
    compares = any(w in low for w in ("difference", "subtract", "average", "day_night"))
    out["dates_mixed"] = float(mixed and kind in ("product", "raster") and not compares)
    out["dates_vary"] = float(mixed)
    swapped = mismatch = False
    for key, path in named:
        name, role = base_name(path).lower(), key.lower()
        swapped = swapped or ("day" in role and "night" in name and "day" not in name.replace("night", ""))
        swapped = swapped or ("night" in role and "night" not in name and bool(re.search(r"(?<![a-z])day", name)))
        mismatch = mismatch or ("emis" in role and "emis" not in name and bool(re.search(r"bt|refl", name)))
        band = re.search(r"(?:band|b)_?(\d{1,2})", role)
        if band:
            held = [n.lstrip("0") for n in re.findall(r"(?:bt|band|b|reflectance|emis)_?(\d{1,2})(?!\d)", name)]
            mismatch = mismatch or (bool(held) and band.group(1).lstrip("0") not in held)
        mismatch = mismatch or (role.startswith("ndvi") and "lst" in name) or (role.startswith("lst") and "ndvi" in name)
    out["day_for_night"], out["role_mismatch"] = float(swapped), float(mismatch)


def _origins(out: dict[str, float], memory: RecordMemory, inputs: Mapping[str, Any], paths: Sequence[str]) -> None:
    """Where the files come from: listed, written by this run, or from nowhere."""
    out["no_listing"] = float(memory.listing is None)
    if paths:
        products = [memory.product(p) for p in paths]
        known = [p is not None or base_name(x) in memory.listed or x in memory.listed
                 for p, x in zip(products, paths, strict=True)]  # fmt: skip
        out["from_run"] = sum(p is not None for p in products) / len(paths)
        if memory.listing is not None:
            out["from_nowhere"] = 1 - sum(known) / len(paths)
        held = [p for p in products if p is not None]
        if held:
            out["parent_doubtful"] = float(any(p.is_doubtful for p in held))
            out["parent_asked"] = sum(p.tool_asked for p in held) / len(held)
        out["depth"] = float(max((p.depth for p in held), default=0) + 1)
    else:
        out["depth"] = 1.0
    out["input_lost"] = float(any(base_name(x) in memory.lost and base_name(x) not in memory.products for x in paths))
    out["folder_as_file"] = float(
        any(isinstance(x, str) and "/" in x and not FILE.search(x)
            for k, v in inputs.items() if re.search(r"image|path|file", k) for x in leaves(v))
    )  # fmt: skip


def _series(out: dict[str, float], memory: RecordMemory, paths: Sequence[str]) -> None:
    """How much of the series that exists was taken, whole, by year and by month; years against those asked for."""
    chosen = sorted(set(paths))
    dated = sorted({d for x in paths for d in dates_of(x)})
    out["dates"] = float(len(dated))
    years = {int(y) for y in map(year_of, paths) if y}
    if years and memory.years_asked:
        out["year_asked"] = float(bool(years & set(memory.years_asked)))
        if len(memory.years_asked) >= 2:
            low, high = memory.years_asked[0], memory.years_asked[-1]
            out["years_outside"] = sum(not low <= y <= high for y in years) / len(years)
    if dated and memory.dates_asked:
        out["date_asked"] = sum(any(d.startswith(a) for a in memory.dates_asked) for d in dated) / len(dated)
    if not chosen or not memory.listing:
        return
    out["listed"] = float(len(memory.listing))
    out["share_of_listing"] = len(chosen) / len(memory.listing)
    stems = Counter(stem_of(x) for x in chosen)
    present = {s: n for s, n in stems.items() if memory.stems.get(s)}
    if present:
        out["series_share"] = min(1.0, min(n / memory.stems[s] for s, n in present.items()))
        out["series_length"] = float(max(memory.stems[s] for s in present))
        pool = [x for x in memory.listing if stem_of(x) in present]
        taken, marks = len(chosen), [(year_of(x), month_of(x)) for x in pool]
        total = len(pool)
    else:
        all_dates = sorted({d[0] for d in (dates_of(x) for x in memory.listing) if d})
        if not all_dates:
            return
        taken = len({dates_of(x)[0] for x in chosen if dates_of(x)})
        marks, total = [(d[:4], d[:6]) for d in all_dates], len(all_dates)
    asked_years, asked_months = {year_of(x) for x in chosen}, {month_of(x) for x in chosen}
    out["covers_all"] = min(1.0, taken / max(1, total))
    out["covers_year"] = min(1.0, taken / max(1, sum(y in asked_years for y, _ in marks)))
    out["covers_month"] = min(1.0, taken / max(1, sum(m in asked_months for _, m in marks)))


def _lineage(out: dict[str, float], memory: RecordMemory, paths: Sequence[str]) -> None:
    """What the files that this run wrote were made from: masked where a mask was asked for, of the date that their name says."""
    held = [(p, product) for p in paths if (product := memory.product(p)) is not None]
    out["asks_mask"] = float("mask" in memory.words)
    if not held:
        return
    if out["asks_mask"]:
        out["parent_masked"] = float(all(product.is_masked for _, product in held))
    named = [(set(dates_of(p)), product.dates) for p, product in held if product.dates and dates_of(p)]
    if named:
        out["name_date_differs"] = sum(not (a & b) for a, b in named) / len(named)
    out["parent_dates"] = float(max(len(product.dates) for _, product in held))


def _sources(out: dict[str, float], memory: RecordMemory, kind: str, numbers: Sequence[float]) -> None:
    """Where the operands of a calculation come from: which calls gave them, how whole those were, in what order of time."""
    if kind not in ("arithmetic", "trend", "geometry", "area"):
        return
    found = [s for v in numbers[:MAX_OPERANDS] if not (v.is_integer() and abs(v) <= 3) and (s := memory.seen.source(v))]
    if not found:
        return
    sources = [s for s, _ in found]
    out["operand_doubtful"] = float(any(s.is_doubtful for s in sources))
    out["operand_calls"] = float(len({s.at for s in sources}))
    out["operand_tools"] = float(len({s.tool for s in sources}))
    out["operand_quantities"] = float(len({s.quantity for s in sources}))
    out["operand_depth"] = float(max(s.depth for s in sources))
    out["operand_values"] = float(max(s.n_values for s in sources))
    for name in ("covers_all", "covers_year"):
        known = [v for s in sources if not math.isnan(v := getattr(s, name))]
        if known:
            out[f"operand_{name}"] = min(known)
    if len(found) == 2:
        (a, at_a), (b, at_b) = found
        out["operand_one_output"] = float(a.at == b.at)
        if a.at == b.at:
            out["operand_step"] = float(max(-9, min(9, at_b - at_a)))
        elif a.dates and b.dates and a.dates != b.dates:
            out["operand_in_time"] = float((a.dates[0], a.dates[-1]) < (b.dates[0], b.dates[-1]))
        if a.dates or b.dates:
            out["operand_dates_alike"] = float(len(a.dates) == len(b.dates))


def _siblings(out: dict[str, float], memory: RecordMemory, call: Call, paths: Sequence[str], values: list[float]) -> None:
    """The value against those that the same tool gave for other files of the series in this run; values against each other."""
    if paths:
        out["values_per_path"] = min(10.0, len(values) / len(paths))
    if len(values) > 2:
        sizes = sorted(abs(v) for v in values)
        out["spread"] = math.log10((sizes[-1] + 1e-6) / (sizes[len(sizes) // 2] + 1e-6))
    if len(paths) != len(values) or not paths:
        return
    offsets, counts, differs, repeats = [], [], False, False
    for path, value in list(zip(paths, values, strict=True))[:60]:
        held = memory.siblings.get(sibling_key(call, path), [])
        name = base_name(path)
        same = [v for n, v in held if n == name]
        others = [v for n, v in held if n != name]
        differs = differs or any(not _near(v, value, 1e-4) for v in same)
        repeats = repeats or any(v == value for v in others)
        counts.append(len({n for n, _ in held if n != name}))
        if others:
            middle = sorted(abs(v) for v in others)[len(others) // 2]
            offsets.append(abs(math.log10((abs(value) + 1e-6) / (middle + 1e-6))))
    out["siblings"], out["sibling_differs"] = float(max(counts)), float(differs)
    if offsets:
        out["sibling_offset"], out["sibling_repeats"] = max(offsets), float(repeats)


def _operands(out: dict[str, float], memory: RecordMemory, kind: str, low: str, inputs: Mapping[str, Any],
              numbers: Sequence[float]) -> tuple[list[float], list[float]]:  # fmt: skip
    """Thresholds and operands: asked for, seen before, or from nowhere."""
    numeric = {k: float(v) for k, v in inputs.items() if isinstance(v, (int, float)) and not isinstance(v, bool)}
    thresholds = [v for k, v in numeric.items() if "thresh" in k]
    out["thresholds"] = float(len(thresholds))
    if thresholds:
        asked = memory.numbers_asked
        out["threshold_asked"] = float(all(any(_near(t, a, 1e-3) for a in asked) for t in thresholds))
        out["threshold_asked_scaled"] = float(
            all(any(_near(t, a * s, 1e-3) for a in asked for s in (1, 0.01, 100)) for t in thresholds)
        )
        out["threshold_seen"] = float(all(t in memory.seen for t in thresholds))
        if out["of_lst"]:
            out["threshold_unit"] = float(any(abs(t) < 150 and t != 0 for t in thresholds))
    gsd = inputs.get("gsd")
    if isinstance(gsd, (int, float)) and not isinstance(gsd, bool):
        out["gsd_asked"] = float(any(_near(float(gsd), a, 1e-3) for a in memory.numbers_asked))
    operands: list[float] = []
    if kind in ("arithmetic", "trend", "geometry", "area"):
        operands = [v for v in numbers if not (v.is_integer() and abs(v) <= 3)][:MAX_OPERANDS]
        out["operands"] = float(len(operands))
        if operands:
            out["operands_seen"] = sum(v in memory.seen for v in operands) / len(operands)
    if kind in ("arithmetic", "trend") and numbers:
        out["operands_zero"] = sum(v == 0 for v in numbers) / len(numbers)
        out["operand_count"] = float(len(numbers))
        out["operand_size"] = math.log10(max(abs(v) for v in numbers) + 1e-6)
        if kind == "arithmetic" and len(numbers) >= 2:
            small, large = sorted((abs(numbers[0]), abs(numbers[1])))
            if large:
                out["operand_ratio"] = small / large
    if kind == "trend" or low == "mean":
        series = [v for k, v in inputs.items() if isinstance(v, list) and k != "x"] or [
            v for v in inputs.values() if isinstance(v, list)
        ]
        if series:
            out["points"] = float(len(series[0]))
    return thresholds, operands


def _choices(out: dict[str, float], memory: RecordMemory, kind: str, values: list[float]) -> None:
    """How far the value lies from the choices of a multiple-choice question, signs left out."""
    if kind not in ("share", "count", "area", "image_statistic", "arithmetic", "trend", "detector"):
        return
    if not (values and memory.choice_values):
        return
    taken = values if len(values) <= 6 else values[:1]
    sizes = [abs(c) for c in memory.choice_values]
    least, most = min(sizes), max(sizes)

    def away(v: float) -> float:
        return min(abs(abs(v) - c) / max(c, 1e-9) for c in sizes)

    nearest = min(away(v) for v in taken)
    out["choice_distance"] = math.log10(min(nearest, 1e6) + 1e-4)
    out["choice_hit"], out["choice_close"] = float(nearest < 0.005), float(nearest < 0.02)
    out["choice_scale"] = min(abs(math.log10((abs(v) + 1e-9) / (c + 1e-9))) for v in taken for c in (least, most))
    out["choice_range"] = float(any(0.8 * least <= abs(v) <= 1.25 * most for v in taken))
    out["choice_percent"] = float(min(away(v * 100) for v in taken) < 0.01)


def _choice_numbers(out: dict[str, float], memory: RecordMemory, values: list[float], operands: Sequence[float],
                    thresholds: Sequence[float]) -> None:  # fmt: skip
    """Whether values, operands and thresholds show as numbers that stand in the choices."""
    rows = memory.choice_numbers
    if not any(rows):
        return

    def met(v: float) -> set[int]:
        return {i for i, row in enumerate(rows) if any(c.is_met(v) for c in row)}

    if values and len(values) <= 60:
        hits = [met(v) for v in values[:12]]
        out["choice_number_hit"] = float(any(hits))
        out["choice_number_share"] = sum(map(bool, hits)) / len(hits)
        out["choice_number_all"] = float(any(len(h) == len(rows) for h in hits))
        out["choice_number_percent"] = float(any(met(v * 100) for v in values[:12] if abs(v) <= 1.5))
    if operands:
        out["operands_in_choices"] = sum(bool(met(v)) for v in operands[:12]) / len(operands[:12])
    if thresholds:
        out["threshold_in_choices"] = float(any(met(t) for t in thresholds))


def _history(out: dict[str, float], memory: RecordMemory, call: Call, silent: bool, writes: bool) -> None:
    key, before = call.key, len(memory.calls)
    out["repeats"], out["repeats_well"] = float(min(5, memory.keys[key])), float(min(5, memory.keys_well[key]))
    earlier = memory.outputs.get(key)
    out["repeat_differs"] = float(bool(earlier) and not call.is_failed and call.text not in (earlier or ()))
    out["calls_before"], out["failed_before"] = float(min(60, before)), memory.failed / max(1, before)
    used = memory.by_tool[call.tool]
    out["tool_before"], out["tool_failed"] = float(min(40, used)), memory.failed_by_tool[call.tool] / max(1, used)
    out["tool_silent"] = float(memory.silent_by_tool[call.tool] > 0)
    same = memory.short_outputs[call.text] - (1 if earlier and call.text in earlier else 0)
    out["same_output"] = float(not writes and not silent and not call.is_failed and len(call.text) < 200 and same > 0)


def _asked(out: dict[str, float], memory: RecordMemory, kind: str, low: str, paths: Sequence[str]) -> None:
    """Whether tool and quantity stand in the question's words."""
    words = [w for w in re.findall(r"[a-z]+", low) if len(w) > 3 and w not in _STOP_WORDS]
    if words:
        out["tool_asked"] = sum(w[:5] in memory.words for w in words) / len(words)
    known = {q for q in (quantity_of(base_name(p)) or memory.quantity(p) for p in paths) if q}
    if known:
        out["quantity_asked"] = float(any(q in memory.words for q in known))
    out["share_as_asked"] = float(bool(out["asks_share"]) and kind == "share")
    out["count_as_asked"] = float(bool(out["asks_count"]) and kind in ("count", "detector"))
    out["mean_as_asked"] = float(bool(out["asks_mean"]) and (kind == "image_statistic" or low == "mean"))


def _classifier(out: dict[str, float], memory: RecordMemory, call: Call, paths: Sequence[str]) -> None:
    found = class_in(call.text)
    if found is None:
        return
    name, confidence, top = found
    if confidence is not None:
        out["confidence"] = confidence
    for first, second in list(pairwise(top))[:1]:
        out["margin"] = first - second
    named = re.sub(r"[^a-z]", "", " ".join(memory.choices.values()).lower() + memory.words)
    out["class_named"] = float(name.rstrip("s") in named)
    image = base_name(paths[0]) if paths else ""
    others = [c for tool, c in memory.looks.get(image, []) if c and tool != call.tool]
    if others:
        out["second_agrees"] = float(others[-1] == name or others[-1] in name or name in others[-1])


def _detector(out: dict[str, float], memory: RecordMemory, call: Call, paths: Sequence[str]) -> None:
    words = [w for w in re.findall(r"[a-z]+", str(call.arguments.get("text_prompt", "")).lower()) if len(w) > 2]
    if words:
        out["prompt_asked"] = sum(w.rstrip("s") in memory.words for w in words) / len(words)
    out["prompt_words"] = float(len(words))
    image = base_name(paths[0]) if paths else ""
    out["second_look"] = float(len([t for t, _ in memory.looks.get(image, []) if t != call.tool]))


def _near(a: float, b: float, relative: float) -> bool:
    return abs(a - b) <= max(1e-6, relative * max(abs(a), abs(b)))
