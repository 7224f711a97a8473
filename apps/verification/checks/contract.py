"""Contract: the record is whole, units and forms are right, and the call is what the question asks for."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from apps.core.evidence.observation import REQUIRED_EVIDENCE, LayerRef
from apps.verification import words
from apps.verification.case import (
    NUMERIC_KINDS,
    Case,
    Finding,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.formulas import INDICES
from apps.verification.units import dimension, factor, split_rate

# result kind → dimensions that its unit may have; kinds that are not here may have any known unit
KIND_DIMENSIONS: dict[str, frozenset[str]] = {
    "count": frozenset({"fraction", "count"}),
    "area": frozenset({"area"}),
    "distance": frozenset({"length"}),
    "length": frozenset({"length"}),
    "ratio": frozenset({"fraction"}),
}
# in pixels only where no scene says how large a pixel is
PIXEL_KINDS = frozenset({"area", "distance", "length"})
FORM_KINDS: dict[str, frozenset[str]] = {
    "integer": frozenset({"count", "ratio", "statistic", "trend"}),
    "area": frozenset({"area"}),
    "distance": frozenset({"distance", "length"}),
    "share": frozenset({"ratio", "area"}),
    "boolean": frozenset({"boolean", "count", "area", "ratio", "distance", "statistic", "trend"}),
    "date": frozenset({"date", "series"}),
}


@check(
    "evidence_present", catches=("missing evidence",), reads=("/evidence/source", "/evidence/intermediate", "/evidence/validity")
)
def evidence_present(case: Case) -> Finding:
    """The evidence that the protocol requires of the tool is there (PROTOCOL.md section 3)."""
    missing = []
    for part, keys in REQUIRED_EVIDENCE[case.observation.tool].items():
        held = getattr(case.observation.evidence, part)
        for key in keys:
            names = (key,) if isinstance(key, str) else key
            if not any(n in held for n in names):
                missing.append(f"/evidence/{part}/{names[0]}")
    if missing:
        return inconclusive(
            f"The tool left out {len(missing)} parts of the evidence that it owes: {', '.join(missing)}.", at=missing
        )
    return passed("All evidence that the tool owes is there.", at=("/evidence",))


@check("unit_known", catches=("wrong unit",), reads=("/result/unit",))
def unit_known(case: Case) -> Finding:
    """The unit of a numeric result is in the table of units, so that it can be converted, or is the source's own."""
    if case.kind not in NUMERIC_KINDS:
        return not_applicable("the result is no number")
    unit = case.observation.result.unit
    base = split_rate(unit.strip())[0]
    own = {b.unit for scene in case.used_scenes for b in scene.bands if b.unit}
    if dimension(unit) is None and {base, base.removesuffix("2")} & own:
        return passed("The unit is the one that the source's bands are in.", measured=unit, at=("/result/unit", "/inputs"))
    if dimension(unit) is None:
        return failed(
            f"{unit!r} is no unit that can be converted; give a unit of the protocol (1, %, m, m2, ha, km2, K, …).",
            measured=unit,
            expected="a known unit",
            at=("/result/unit",),
        )
    return passed("The unit is known.", measured=unit, at=("/result/unit",))


def _metric(case: Case) -> str:
    """The metric that a measure's call asks for; '' for other tools."""
    spec = case.arguments.get("spec")
    return str(spec.get("metric", "")) if case.observation.tool == "measure" and isinstance(spec, dict) else ""


# Statistics that are in the unit of the values that they are of.
_UNIT_KEPT = frozenset({"mean", "median", "min", "max", "percentile", "range", "iqr", "std", "sum"})
# Operators that leave the unit of their first input as it is.
_UNIT_PASSED = frozenset({"raster.product.apply_mask", "raster.product.composite"})


def _unit_of_source(case: Case) -> tuple[str, str]:
    """(unit, what) of the values under a statistic: of a spectral index 1, of a band its own; ("", "") where it is not known."""
    node = case.nodes.get(case.output)
    if node is None:
        return ("1", "a spectral index") if case.observation.result.quantity.strip().lower() in INDICES else ("", "")
    statistic = str(node["params"].get("statistic") or "mean").lower()
    if node["op"] not in ("raster.summarize.statistic", "raster.summarize.series") or not node["inputs"]:
        return "", ""
    if _SAME_STATISTIC.get(statistic, statistic) not in _UNIT_KEPT or node["params"].get("over") == "count_above":
        return "", ""
    for _ in range(len(case.nodes)):
        node = case.nodes.get(node["inputs"][0]) if node["inputs"] else None
        if node is None or node["op"] not in _UNIT_PASSED:
            break
    if node is None:
        return "", ""
    if node["op"] == "raster.product.index":
        return "1", "a spectral index"
    role = node["params"].get("role")
    if node["op"] != "raster.product.band" or not isinstance(role, str):
        return "", ""
    under = _scenes_under(case, node["inputs"])
    units = {b.unit for s in case.scenes.values() if s.scene_id in under for b in s.bands if b.role == role}
    return (next(iter(units)), f"the band {role}") if len(units) == 1 else ("", "")


def _is_one_unit(one: str, other: str) -> bool:
    """Whether two units are one by their table; unknown ones are not told apart."""
    plain = {"reflectance": "fraction", "count": "fraction"}
    a, b = dimension(one), dimension(other)
    if a is None or b is None:
        return True
    if a == b == "temperature":
        return ("K" in one or "kelvin" in one) == ("K" in other or "kelvin" in other)
    return plain.get(a, a) == plain.get(b, b) and factor(one) == factor(other)


@check("unit_fits_kind", catches=("wrong unit", "degrees as metres"), reads=("/result/unit", "/result/kind"))
def unit_fits_kind(case: Case) -> Finding:
    """Areas are in units of area, distances in units of length, counts and shares without one, densities in one over an area;
    the statistic of an index has no unit, that of a band the band's."""
    allowed = KIND_DIMENSIONS.get(case.kind)
    if case.kind == "ratio" and _metric(case) == "density":
        allowed = frozenset({"density"})
    found = dimension(case.observation.result.unit)
    if case.kind == "trend":
        if found is None or found.startswith("rate:"):
            return passed("A trend is a rate.", measured=case.observation.result.unit, at=("/result/unit",))
        return failed(
            "A trend needs a unit over time (…/year).",
            measured=case.observation.result.unit,
            expected="…/year",
            at=("/result/unit",),
        )
    if case.kind in ("statistic", "series") and found is not None:
        own, what = _unit_of_source(case)
        if own and not _is_one_unit(own, case.observation.result.unit):
            return failed(
                f"A statistic of {what} is in {own!r}, as its values are, and not in {case.observation.result.unit!r}; give the "
                "value in that unit.",
                measured=case.observation.result.unit,
                expected=own,
                at=("/result/unit", "/arguments/nodes"),
            )
        if own:
            return passed("The unit is that of the values.", measured=case.observation.result.unit, expected=own,
                          at=("/result/unit",))
    if allowed is None or found is None:
        return not_applicable("no unit is prescribed for this kind")
    if case.kind == "count" and factor(case.observation.result.unit) != 1.0:
        return failed(
            f"A count is a plain number and not in {case.observation.result.unit!r}.",
            measured=case.observation.result.unit,
            expected="1",
            at=("/result/unit", "/result/kind"),
        )
    if found == "pixel" and case.kind in PIXEL_KINDS and not any(s.grid.crs or s.gsd_m for s in case.used_scenes):
        return passed(
            "Pixels, since no scene says how large one is.", measured=case.observation.result.unit, at=("/result/unit",)
        )
    if found not in allowed:
        return failed(
            f"A result of kind {case.kind} cannot be in {case.observation.result.unit!r}, a unit of {found}; measure "
            "again in a fitting unit.",
            measured=case.observation.result.unit,
            expected=sorted(allowed),
            at=("/result/unit", "/result/kind"),
        )
    return passed("Unit and kind fit.", measured=case.observation.result.unit, expected=sorted(allowed), at=("/result/unit",))


@check("value_fits_kind", catches=("silent failure text", "NaN", "wrong form"), reads=("/result/value", "/result/kind"))
def value_fits_kind(case: Case) -> Finding:
    """The value has the form of its kind: whole and not negative for counts, finite for numbers, a day for dates, …"""
    value, kind = case.observation.result.value, case.kind
    at = ("/result/value",)
    if kind in NUMERIC_KINDS:
        if case.value is None:
            what = "there is no value" if value is None else f"the value {str(value)[:60]!r} is no number"
            return failed(f"A {kind} was promised but {what}.", measured=value, expected="a number", at=at)
        if kind == "count" and (case.value < 0 or case.value != int(case.value)):
            return failed("A count is a whole number and not negative.", measured=value, expected="0, 1, 2, …", at=at)
        if kind in ("area", "distance", "length") and case.value < 0:
            return failed(f"A {kind} is not negative.", measured=value, expected="≥ 0", at=at)
        return passed("The value is a number of its kind.", measured=value, at=at)
    if kind == "boolean":
        ok = isinstance(value, bool)
        return (
            passed("The value is yes or no.", measured=value, at=at)
            if ok
            else failed("A boolean result is true or false.", measured=value, expected=[True, False], at=at)
        )
    if kind == "date":
        try:
            date.fromisoformat(str(value)[:10])
        except ValueError:
            return failed("The value is no day in ISO form.", measured=value, expected="YYYY-MM-DD", at=at)
        return passed("The value is a day.", measured=value, at=at)
    if kind in ("class", "text"):
        if kind == "text" and value == "" and case.arguments.get("mode") == "document":
            kept, seen = (case.evidence_number("intermediate", key) for key in ("kept", "valid_px"))
            if seen == 0:
                return failed("No pixel was seen, so nothing can be said of a text.", measured=0, expected="> 0", unit="px",
                              at=("/evidence/intermediate/valid_px",))
            if kept == 0 and not case.observation.result.items and not any(r.n for r in _texts(case)):
                return passed("No line of text was found, and the evidence has none.", measured=0, at=at)
            return failed("The text is empty, yet lines were found.", measured=value, expected=kept, at=at)
        ok = isinstance(value, str) and bool(value.strip())
        return (
            passed("There is a text.", at=at)
            if ok
            else failed(
                f"The tool names none: {case.observation.status.reason}"[:500]
                if value is None and case.observation.status.reason
                else "The text is empty; call the tool again.",
                measured=value, expected="a text", at=at,
            )
        )
    if kind == "series":
        n = len(case.observation.result.items)
        if not n:
            return failed("A series without a single item.", measured=0, expected="≥ 1", at=("/result/items",))
        if case.observation.tool == "execute" and case.value is None:
            return failed("The series has items but no value over them.", measured=value, expected="a number", at=at)
        return passed("The series has items.", measured=n, at=("/result/items",))
    if kind == "layer":
        ok = bool(case.observation.result.layers)
        return (
            passed("There is a layer.", at=("/result/layers",))
            if ok
            else failed("A layer was promised but none is there.", measured=0, expected="≥ 1", at=("/result/layers",))
        )
    return not_applicable()


def _texts(case: Case) -> list[LayerRef]:
    return [r for r in case.observation.result.layers if not r.is_aside]


PROMISED: dict[str, frozenset[str]] = {
    "raster.summarize.statistic": frozenset({"statistic"}),
    "raster.summarize.area": frozenset({"area"}),
    "raster.summarize.share": frozenset({"ratio"}),
    "raster.summarize.series": frozenset({"series", "date"}),
    "raster.summarize.trend": frozenset({"trend"}),
}
METRIC_RESULTS: dict[str, frozenset[str]] = {
    "count": frozenset({"count"}),
    "area": frozenset({"area"}),
    "distance": frozenset({"distance"}),
    "length": frozenset({"length", "distance"}),
    "boolean": frozenset({"boolean"}),
    "ratio": frozenset({"ratio"}),
    "density": frozenset({"ratio"}),
}


@check("kind_as_promised", catches=("silent failure text", "wrong form"), reads=("/result/kind", "/arguments"))
def kind_as_promised(case: Case) -> Finding:
    """The kind of the result is the one that the operator, metric or mode promises."""
    promised: frozenset[str] | None = None
    if case.output:
        op = case.nodes[case.output]["op"]
        promised = PROMISED.get(op) or (frozenset({"layer"}) if op.startswith("raster.product.") else None)
    elif case.observation.tool == "measure":
        spec = case.arguments.get("spec")
        promised = METRIC_RESULTS.get(str(spec.get("metric"))) if isinstance(spec, dict) else None
        if isinstance(spec, dict) and spec.get("each"):
            promised = frozenset({"class" if spec.get("pick") else "table"})
    elif case.observation.tool == "perceive" and case.arguments.get("mode") in ("objects", "regions"):
        promised = frozenset({"layer"})
    if promised is None:
        return not_applicable("nothing is promised")
    if case.kind not in promised:
        return failed(
            f"The call promises a {' or '.join(sorted(promised))}, the tool gave a {case.kind}.",
            measured=case.kind,
            expected=sorted(promised),
            at=("/result/kind", "/arguments"),
        )
    return passed("The result is of the kind promised.", measured=case.kind, at=("/result/kind",))


@check("kind_fits_answer_form", "warn", catches=("wrong form",), reads=("/result/kind", "/task/answer_form"))
def kind_fits_answer_form(case: Case) -> Finding:
    """A final number can be turned into the form that the question asks (an area for an area, …)."""
    form = case.observation.task.answer_form
    allowed = FORM_KINDS.get(form)
    if allowed is None or case.kind in ("layer", "catalog", "table"):
        return not_applicable("a layer, or a form that any kind may serve")
    if case.kind not in allowed:
        return failed(
            f"The question asks for {form}, the tool gives a {case.kind}.",
            measured=case.kind,
            expected=sorted(allowed),
            at=("/result/kind", "/task/answer_form"),
        )
    return passed("The kind serves the answer form.", measured=case.kind, at=("/result/kind",))


@check("unit_as_asked", "warn", catches=("wrong unit",), reads=("/result/unit", "/task/question"))
def unit_as_asked(case: Case) -> Finding:
    """The unit can be converted to the one that the question names."""
    asked = words.unit_named(case.text)
    if not asked or case.kind not in NUMERIC_KINDS:
        return not_applicable("the question names no unit")
    mine = dimension(case.observation.result.unit)
    if mine != dimension(asked) and case.kind in ("area", "distance", "length", "ratio"):
        return failed(
            f"The question asks for {asked}, the result is in {case.observation.result.unit}.",
            measured=case.observation.result.unit,
            expected=asked,
            at=("/result/unit",),
        )
    return passed(
        "The unit is the one asked, or converts to it.",
        measured=case.observation.result.unit,
        expected=asked,
        at=("/result/unit",),
    )


def _differences(asked: Any, used: Any, path: str = "") -> list[tuple[str, Any, Any]]:
    """(path, asked, used) where what was asked is not what was used; keys and defaults that were added do not count."""
    if isinstance(asked, dict) and isinstance(used, dict):
        out: list[tuple[str, Any, Any]] = []
        for key, value in asked.items():
            if value is None or key in ("$step", "why"):
                continue
            if key not in used:
                out.append((f"{path}/{key}", value, None))
            else:
                out.extend(_differences(value, used[key], f"{path}/{key}"))
        return out
    if isinstance(asked, list) and isinstance(used, list):
        if len(asked) != len(used):
            return [(path, f"{len(asked)} entries", f"{len(used)} entries")]
        return [d for i, (a, b) in enumerate(zip(asked, used, strict=True)) for d in _differences(a, b, f"{path}/{i}")]
    a, b = number_of(asked), number_of(used)
    if a is not None and b is not None:
        return [] if abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b)) else [(path, asked, used)]
    if asked in ("", "auto", []) or asked == used:
        return []
    return [(path, asked, used)]


@check(
    "arguments_passed_as_asked",
    catches=("wrong threshold", "another scene's result", "clipped region"),
    reads=("/arguments", "/arguments_passed"),
)
def arguments_passed_as_asked(case: Case) -> Finding:
    """What the tool used is what it was asked: no argument was changed or dropped on the way."""
    asked, used = case.observation.arguments, case.observation.arguments_passed
    if not asked or not used:
        return not_applicable("only one set of arguments is on record")
    found = _differences(asked, used)
    if found:
        path, a, b = found[0]
        return failed(
            f"{len(found)} arguments differ from what was asked, first {path}; call again with the plan's arguments.",
            measured=b,
            expected=a,
            at=(f"/arguments{path}", f"/arguments_passed{path}"),
        )
    return passed("The tool used what it was asked.", at=("/arguments", "/arguments_passed"))


def _index_arguments(case: Case) -> set[str]:
    found = {str(n["params"]["index"]).lower() for n in case.nodes.values() if isinstance(n["params"].get("index"), str)}
    for node in case.nodes.values():
        if node["op"] == "raster.product.band" and isinstance(node["params"].get("role"), str):
            found.add(node["params"]["role"].lower())
    method = case.arguments.get("regions_method")
    if isinstance(method, dict) and isinstance(method.get("index"), str) and method["index"]:
        found.add(method["index"].lower())
    return found


@check("index_as_asked", catches=("wrong band mapping", "wrong index"), reads=("/arguments", "/task/question"))
def index_as_asked(case: Case) -> Finding:
    """Where the question names an index, the call uses that index and no other."""
    named, used = words.indices_named(case.text), _index_arguments(case)
    if not named or not used or (case.observation.attempt > 0 and case.observation.tool == "perceive"):
        return not_applicable("the question names no index, or the call uses none")
    if case.observation.tool == "perceive" and not named & used:
        # a mask by another index may still serve a later measure of the named one
        return not_applicable("the layer is made by its own index")
    other = {u for u in used if u not in named and u in INDICES}
    if other and not named & used:
        return failed(
            f"The question is about {', '.join(sorted(named)).upper()}, the call computes {', '.join(sorted(other)).upper()}.",
            measured=sorted(used),
            expected=sorted(named),
            at=("/arguments", "/task/question"),
        )
    return passed("The index is the one asked.", measured=sorted(used), expected=sorted(named), at=("/arguments",))


def _threshold_arguments(case: Case) -> list[tuple[str, float]]:
    """(pointer, value) of thresholds in the call."""
    out = []
    for name, node in case.nodes.items():
        if node["op"].endswith("threshold"):
            value = number_of(node["params"].get("value"))
            if value is not None:
                out.append((f"/arguments/nodes/{name}/params/value", value))
    method = case.arguments.get("regions_method")
    if isinstance(method, dict):
        value = number_of(method.get("threshold"))
        if value is not None:
            out.append(("/arguments/regions_method/threshold", value))
    spec = case.arguments.get("spec")
    if isinstance(spec, dict):
        for key in ("distance_m",):
            value = number_of(spec.get(key))
            if value is not None:
                out.append((f"/arguments/spec/{key}", value))
        comparison = spec.get("comparison")
        if isinstance(comparison, dict):
            value = number_of(comparison.get("value"))
            if value is not None:
                out.append(("/arguments/spec/comparison/value", value))
    return out


@check("threshold_as_asked", catches=("wrong threshold",), reads=("/arguments", "/task/question"))
def threshold_as_asked(case: Case) -> Finding:
    """Where the question gives a threshold, the call uses that number (a fall is a negative difference, % a fraction)."""
    # a distance or a size of things is no threshold of pixels; heights are
    is_of_height = re.search(r"\b(?:elevations?|altitudes?|heights?|depths?|dem)\b", case.text) is not None
    other = {"area"} if is_of_height else {"area", "length"}
    named = [t for t in words.thresholds_named(case.text) if dimension(t.unit) not in other]
    used = _threshold_arguments(case)
    if not named or not used or case.observation.attempt > 0:
        return not_applicable("no threshold in the question, or none in the call")
    wanted: set[float] = set()
    for t in named:
        scale = {"%": 0.01, "km": 1000.0}.get(t.unit, 1.0)
        wanted |= {t.value, t.value * scale, t.value / 100, -t.value, -t.value * scale}
    for pointer, value in used:
        if pointer.startswith("/arguments/regions_method") and not words.indices_named(case.text):
            continue
        if not any(abs(value - w) <= 1e-9 + 1e-6 * abs(w) for w in wanted):
            return failed(
                "The threshold is not the question's; call again with the question's number.",
                measured=value,
                expected=[t.value for t in named],
                at=(pointer, "/task/question"),
            )
    return passed(
        "The threshold is the question's.",
        measured=[v for _, v in used],
        expected=[t.value for t in named],
        at=tuple(p for p, _ in used),
    )


@check("threshold_side_as_asked", catches=("wrong threshold",), reads=("/arguments", "/task/question"))
def threshold_side_as_asked(case: Case) -> Finding:
    """Above stays above and below stays below; only a fall may turn the side."""
    named = words.thresholds_named(case.text)
    sides = {t.side for t in named if t.unit in ("", "%", "K", "degC")}
    turns = re.search(r"\b(drop|dropped|fell|fall|loss|lost|decreas\w*|declin\w*|reduc\w*|down)\b", case.text) is not None
    ops = [(name, str(n["params"].get("op"))) for name, n in case.nodes.items() if n["op"].endswith("threshold")]
    if len(sides) != 1 or not ops or turns or len(named) != 1:
        return not_applicable("no single side in the question, or no threshold in the call")
    if named[0].unit == "%" and not words.indices_named(case.text):
        return not_applicable("the question's limit is one of a share, the call's one of the index by which a thing is found")
    side = next(iter(sides))
    wrong = [
        (name, op) for name, op in ops if (op.startswith(">") and side == "below") or (op.startswith("<") and side == "above")
    ]
    if wrong:
        return failed(
            "The call compares the other way round than the question.",
            measured=wrong[0][1],
            expected=side,
            at=(f"/arguments/nodes/{wrong[0][0]}/params/op", "/task/question"),
        )
    return passed("The side is the question's.", measured=[op for _, op in ops], expected=side, at=("/arguments/nodes",))


_SAME_STATISTIC = {
    "average": "mean",
    "minimum": "min",
    "maximum": "max",
    "standard_deviation": "std",
    "stddev": "std",
    "stdev": "std",
}


@check("statistic_as_asked", catches=("wrong statistic",), reads=("/arguments", "/task/question"))
def statistic_as_asked(case: Case) -> Finding:
    """Where the question names exactly one statistic, the call computes that one."""
    named = words.statistics_named(case.text)
    used = {
        _SAME_STATISTIC.get(s, s)
        for s in (str(n["params"]["statistic"]) for n in case.nodes.values() if isinstance(n["params"].get("statistic"), str))
    }
    summaries = [n for n in case.nodes.values() if n["op"] == "raster.summarize.statistic"]
    if len(named) != 1 or not used or not summaries or (len(case.scenes) > 1 and named & {"min", "max"}):
        return not_applicable("the question names no single statistic, or the call computes none")
    if not named & used:
        return failed(
            f"The question asks for the {next(iter(named))}, the call computes the {', '.join(sorted(used))}.",
            measured=sorted(used),
            expected=sorted(named),
            at=("/arguments/nodes", "/task/question"),
        )
    return passed("The statistic is the one asked.", measured=sorted(used), expected=sorted(named), at=("/arguments/nodes",))


@check("metric_as_asked", "warn", catches=("wrong metric",), reads=("/arguments/spec/metric", "/result/kind", "/task/question"))
def metric_as_asked(case: Case) -> Finding:
    """How many → count, how much area → area, what share → ratio, how far → distance, how many per km² → density."""
    named = words.metric_named(case.text)
    if not named or case.kind not in NUMERIC_KINDS | {"boolean"} or (case.question is not None and case.question.choices):
        return not_applicable("the words fix no metric")
    if any(n["op"] == "raster.product.coregister" for n in case.nodes.values()):
        return not_applicable("the distance is the shift that co-registration tells")
    fits = {
        "count": {"count"},
        "area": {"area"},
        "ratio": {"ratio", "area"},
        "distance": {"distance", "length"},
        "trend": {"trend", "series", "statistic"},
        "density": {"ratio"},
    }[named]
    is_other = case.observation.tool == "measure" and (_metric(case) == "density") != (named == "density")
    if case.kind not in fits or is_other:
        return failed(
            f"The question asks for a {named}, the tool gives a {case.kind}.",
            measured=case.kind,
            expected=named,
            at=("/result/kind", "/task/question"),
        )
    return passed("The metric is the one asked.", measured=case.kind, expected=named, at=("/result/kind",))


@check("scenes_as_asked", catches=("another scene's result", "one date for many"), reads=("/arguments", "/inputs"))
def scenes_as_asked(case: Case) -> Finding:
    """The scenes that the call names are the ones that the tool read, all of them and no other."""
    asked = case.scene_ids
    used = [i.scene_id for i in case.observation.inputs if i.scene_id]
    if not asked or not case.observation.inputs:
        return not_applicable("the call names no scene, or no inputs are on record")
    if not used:
        return inconclusive("The inputs do not say which scenes they are.", at=("/inputs/0/scene_id",))
    missing, foreign = set(asked) - set(used), set(used) - set(asked)
    if missing or foreign:
        what = [f"{len(missing)} scenes that were asked for were not read"] if missing else []
        what += [f"{len(foreign)} scenes were read that were not asked for"] if foreign else []
        return failed(
            "; ".join(what).capitalize() + "; call again with the scenes of the plan.",
            measured=sorted(set(used)),
            expected=sorted(set(asked)),
            at=("/inputs", "/arguments"),
        )
    return passed("The scenes read are the scenes asked.", measured=len(set(used)), expected=len(set(asked)), at=("/inputs",))


def _references(case: Case) -> set[str]:
    """Scenes that serve an anomaly of the graph as its reference alone."""
    past: set[str] = set()
    now: set[str] = set()
    for node in case.nodes.values():
        if node["op"] == "raster.product.anomaly" and node["inputs"]:
            now |= _scenes_under(case, node["inputs"][:1])
            past |= _scenes_under(case, node["inputs"][1:])
    return past - now


def _scenes_under(case: Case, names: list[str]) -> set[str]:
    found: set[str] = set()
    todo, seen = list(names), set()
    while todo:
        name = todo.pop()
        node = case.nodes.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        todo.extend(node["inputs"])
        if node["op"] == "asset.scene":
            found.add(str(node["params"].get("scene")))
    return found


@check(
    "dates_as_asked",
    catches=("one date for many", "another scene's result", "day for night"),
    reads=("/inputs", "/task/question"),
)
def dates_as_asked(case: Case) -> Finding:
    """Where the question names days, months or years, every dated input falls on one of them (or between two of them). What an
    anomaly is compared with is of other dates by its nature."""
    past = _references(case)
    dated = [
        (k, i.acquired_at.date()) for k, i in enumerate(case.observation.inputs) if i.acquired_at and i.scene_id not in past
    ]
    days, months, years = words.days_named(case.text), words.months_named(case.text), words.years_named(case.text)
    if not dated or not (days or months or years):
        return not_applicable("no date in the question, or none in the inputs")
    spans = re.search(r"\b(between|from|since|until|till|through|during|after|before|over)\b", case.text) is not None
    for k, day in dated:
        if days:
            ok = day in days or (len(days) > 1 and spans and min(days) <= day <= max(days)) or (len(days) == 1 and spans)
        elif months:
            ok = any(m == day.month and (y is None or y == day.year) for y, m in months) or (spans and len(months) > 1)
        else:
            ok = day.year in years or (spans and (len(years) == 1 or min(years) <= day.year <= max(years)))
        if not ok:
            return failed(
                "An input was acquired at another time than the question names; use the scenes of the dates asked.",
                measured=day.isoformat(),
                expected=[d.isoformat() for d in days] or [f"{y or ''}-{m:02d}" for y, m in months] or sorted(years),
                at=(f"/inputs/{k}/acquired_at", "/task/question"),
            )
    return passed("The inputs are of the dates asked.", measured=[d.isoformat() for _, d in dated], at=("/inputs",))


@check("region_as_asked", catches=("clipped region", "region left out"), reads=("/arguments/region", "/task/question"))
def region_as_asked(case: Case) -> Finding:
    """Where the question is about a region, the call, or the layer that it uses, was limited to exactly that region."""
    if case.question is None or not case.question.region:
        mine = case.observation.arguments_passed.get("region") or case.observation.arguments.get("region")
        if case.question is not None and mine and case.kind != "catalog":
            return failed(
                "The question is about whole scenes, the call is limited to a region.",
                measured="a region",
                expected="none",
                at=("/arguments/region",),
                severity="warn",
            )
        return not_applicable("the question has no region")
    wanted = dict(case.question.region)
    for holder in (case.observation, *case.parents):
        given = holder.arguments_passed.get("region") or holder.arguments.get("region")
        sources = holder.arguments.get("sources")
        drawn = [s.get("geometry") for s in sources if isinstance(s, dict)] if isinstance(sources, list) else []
        for one in (given, *drawn):
            if one is None:
                continue
            if not isinstance(one, dict) or _coordinates(one) != _coordinates(wanted):
                return failed(
                    "The call is limited to another region than the question's; call again with the question's region.",
                    measured="another region",
                    expected="the question's region",
                    at=("/arguments/region",),
                )
            return passed("The call is limited to the question's region.", at=("/arguments/region",))
    if case.kind == "catalog":
        return not_applicable("a catalogue needs no region")
    return failed(
        "The question is about a region, but neither the call nor its inputs are limited to it.",
        measured="no region",
        expected="the question's region",
        at=("/arguments/region",),
    )


def _coordinates(geometry: dict[str, Any]) -> list[float]:
    out: list[float] = []
    todo: list[Any] = [
        geometry.get(
            "coordinates", geometry.get("geometry", {}).get("coordinates") if isinstance(geometry.get("geometry"), dict) else None
        )
    ]
    while todo:
        at = todo.pop(0)
        if isinstance(at, (list, tuple)):
            todo = list(at) + todo
        else:
            value = number_of(at)
            if value is not None:
                out.append(round(value, 9))
    return out


_STOP = frozenset({"the", "and", "of", "in", "all", "any", "area", "areas", "object", "objects", "region", "regions"})
_SYNONYMS: dict[str, tuple[str, ...]] = {
    "vehicle": ("car", "truck", "bus", "van", "vehicle"),
    "plane": ("plane", "aircraft", "airplane", "jet"),
    "airplane": ("plane", "aircraft", "airplane", "jet"),
    "ship": ("ship", "boat", "vessel"),
    "boat": ("boat", "ship", "vessel"),
    "tree": ("tree", "crown"),
    "building": ("building", "house", "roof", "built"),
    "water": ("water", "flood", "lake", "river", "sea", "pond", "inundat", "wet"),
    "vegetation": ("vegetat", "green", "plant", "crop", "forest", "tree", "grass", "ndvi"),
    "bare": ("bare", "soil", "sand"),
    "built": ("built", "urban", "impervious", "building", "city"),
    "built-up": ("built", "urban"),
}


# Kinds of things that none can be taken for another, by the words for them.
_THINGS: dict[str, re.Pattern[str]] = {
    name: re.compile(rf"\b(?:{words_})\b(?!-free)", re.I)
    for name, words_ in {
        "vehicles": r"cars?|trucks?|lorr(?:y|ies)|bus(?:es)?|vans?|vehicles?",
        "planes": r"planes?|aircraft|airplanes?|aeroplanes?|jets?",
        "ships": r"ships?|boats?|vessels?",
        "plants": r"trees?|crowns?|vegetat\w+|green(?:ery|spaces?)?|plants?|crops?|forests?|grass\w*|woods?|woodlands?|canop\w+",
        "water": r"waters?|floods?|flooded|lakes?|rivers?|seas?|ponds?|inundat\w+|wet|wetlands?|reservoirs?|oceans?",
        "snow": r"snow|snow[ -]covered|ice|glaciers?",
        "bare land": r"bare|soils?|sands?",
        "buildings": r"built|built[ -]up|urban|buildings?|houses?|roofs?|impervious|cit(?:y|ies)|towns?",
        "tanks": r"tanks?",
    }.items()
}
_ASKED_FOR = re.compile(
    r"\b(?:how many|how much|number of|count of|area of|share of|share is|density of|covered by|(?:are|is) there any)\s+"
    r"((?:[\w-]+\s*){1,3})",
    re.I,
)


def _things(text: str) -> set[str]:
    return {name for name, pattern in _THINGS.items() if pattern.search(text)}


def _other_thing(case: Case) -> tuple[list[str], list[str]] | None:
    """(kinds of things that are measured, kinds that the question asks for) where the question speaks of none of the former."""
    spec, sources = case.arguments.get("spec"), case.arguments.get("sources")
    if case.observation.tool == "measure" and isinstance(spec, dict) and isinstance(sources, list):
        names = [str(s.get("name")) for s in sources if isinstance(s, dict) and s.get("mode") in ("objects", "regions")]
        if not names or len(names) < len(sources):
            return None
    else:
        groups = case.arguments.get("target_groups")
        if case.observation.tool != "perceive" or not isinstance(groups, dict):
            return None
        names = [str(n) for n in groups]
    mine = [_things(n.replace("_", " ")) for n in names]
    asked = {t for m in _ASKED_FOR.finditer(case.text) for t in _things(m[1])}
    if not mine or not all(mine) or not asked or set().union(*mine) & _things(case.text):
        return None
    return sorted(set().union(*mine)), sorted(asked)


@check(
    "target_as_asked",
    "warn",
    catches=("wrong target",),
    reads=("/arguments/target_groups", "/arguments/sources", "/task/question"),
)
def target_as_asked(case: Case) -> Finding:
    """The targets that the detector looks for are named in the question; things of one kind are no answer to a question about
    another."""
    other = _other_thing(case)
    if other is not None:
        return failed(
            f"The question asks for {', '.join(other[1])}, the call is about {', '.join(other[0])}; ask for what is meant.",
            measured=other[0],
            expected=other[1],
            at=("/arguments", "/task/question"),
            severity="block",
        )
    groups = case.arguments.get("target_groups")
    if case.observation.tool != "perceive" or not isinstance(groups, dict) or not groups:
        return not_applicable("the call names no targets")
    for name, prompts in groups.items():
        names = {str(name).lower(), *(str(p).lower() for p in (prompts if isinstance(prompts, list) else ()))}
        stems = {
            s
            for n in names
            for w in re.findall(r"[a-z\-]+", n)
            if w not in _STOP
            for s in (_SYNONYMS.get(w, ()) or (w.rstrip("s")[:6],))
        }
        if not any(s in case.text for s in stems):
            return failed(
                f"The question does not speak of {name!r}.",
                measured=sorted(names),
                expected="a target of the question",
                at=("/arguments/target_groups", "/task/question"),
            )
    return passed("The targets are the question's.", measured=sorted(map(str, groups)), at=("/arguments/target_groups",))


@check("task_is_the_questions", catches=("another question's result",), reads=("/task/question",))
def task_is_the_questions(case: Case) -> Finding:
    """The question on the observation's record is the one that was asked."""
    if case.question is None:
        return not_applicable("no question is at hand beside the record")
    if case.observation.task.question.strip() != case.question.text.strip():
        return failed(
            "The observation serves another question.",
            measured=case.observation.task.question[:200],
            expected=case.question.text[:200],
            at=("/task/question",),
        )
    return passed("It serves this question.", at=("/task/question",))
