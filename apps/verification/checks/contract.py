"""Contract of the record: it is whole, and units, values and kinds are of the form that was promised."""

from __future__ import annotations

import re
from datetime import date
from typing import Any

from apps.core.evidence.observation import REQUIRED_EVIDENCE, LayerRef
from apps.verification.calls import SAME_STATISTIC, metric_of, scenes_under
from apps.verification.case import NUMERIC_KINDS, Case, Finding, failed, inconclusive, not_applicable, passed
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
    "evidence_present",
    catches=("missing evidence",),
    reads=("/evidence/source", "/evidence/intermediate", "/evidence/validity"),
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


def _reads(case: Case) -> bool:
    """Whether the call names an image, a layer or a file, which the tool then read."""
    if case.observation.tool == "perceive" or case.scene_ids:
        return True
    sources = case.arguments.get("sources")
    held = [s for s in sources if isinstance(s, dict)] if isinstance(sources, list) else []
    held += [node["params"] for node in case.nodes.values()]
    return any(h.get(name) for h in held for name in ("layer", "image", "vector", "scene"))


@check("call_on_record", catches=("missing evidence",), reads=("/arguments", "/arguments_passed", "/inputs"))
def call_on_record(case: Case) -> Finding:
    """The record says what was asked of the tool and what it read: without either nothing of it can be done again."""
    observation = case.observation
    if not observation.arguments and not observation.arguments_passed:
        return inconclusive("The record does not say what was asked of the tool: nothing can be done again.", at=("/arguments",))
    if not observation.inputs and _reads(case):
        return inconclusive("The record names no input, although the call reads some.", at=("/inputs",))
    return passed("Call and inputs are on record.", measured=len(observation.inputs), unit="inputs", at=("/arguments", "/inputs"))


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


# Statistics that are in the unit of the values that they are of.
_UNIT_KEPT = frozenset({"mean", "median", "min", "max", "percentile", "range", "iqr", "std", "sum"})


# Operators that leave the unit of their first input as it is, and those whose values have none.
_UNIT_PASSED = frozenset({
    "raster.product.apply_mask", "raster.product.composite", "raster.product.focal", "raster.product.resample",
    "raster.product.reproject", "raster.product.coregister"})  # fmt: skip
_UNIT_NONE = frozenset({
    "raster.product.index", "raster.product.normalized_difference", "raster.product.vegetation_cover", "raster.product.tvdi",
    "raster.product.threshold", "raster.product.logic"})  # fmt: skip
_UNIT_OF_CHANGE = {"ratio": "1", "percent": "%"}


def _unit_of_source(case: Case) -> tuple[str, str]:
    """(unit, what) of the values under a statistic: of a spectral index 1, of a band its own; ("", "") where it is not known."""
    node = case.nodes.get(case.output)
    if node is None:
        return ("1", "a spectral index") if case.observation.result.quantity.strip().lower() in INDICES else ("", "")
    statistic = str(node["params"].get("statistic") or "mean").lower()
    if node["op"] == "value.calculate":
        return _unit_of_quotient(case, node)
    if (
        node["op"] not in ("raster.summarize.statistic", "raster.summarize.series", "raster.summarize.trend")
        or not node["inputs"]
    ):
        return "", ""
    if SAME_STATISTIC.get(statistic, statistic) not in _UNIT_KEPT or node["params"].get("over") == "count_above":
        return "", ""
    return _unit_of_values(case, node["inputs"][0])


def _unit_of_quotient(case: Case, node: dict[str, Any]) -> tuple[str, str]:
    """Of one statistic over another, of which both are in one unit, 1; ("", "") of other formulas."""
    found = re.fullmatch(r"\s*(\w+)\s*/\s*(\w+)\s*", str(node["params"].get("expression") or ""))
    if found is None or node["params"].get("unit") not in (None, "", "1"):
        return "", ""
    units = []
    for name in found.groups():
        held = case.nodes.get(name)
        if held is None or held["op"] != "raster.summarize.statistic" or not held["inputs"]:
            return "", ""
        statistic = str(held["params"].get("statistic") or "mean").lower()
        kept = SAME_STATISTIC.get(statistic, statistic) in _UNIT_KEPT
        units.append(_unit_of_values(case, held["inputs"][0])[0] if kept else "")
    return ("1", "a quotient of like values") if units[0] and units[0] == units[1] else ("", "")


def _unit_of_values(case: Case, name: str) -> tuple[str, str]:
    """(unit, what) of the values of a raster's node; ("", "") where it is not known."""
    node = None
    for _ in range(len(case.nodes)):
        node = case.nodes.get(name)
        is_change = node is not None and node["op"] == "raster.product.difference"
        mode = str(node["params"].get("mode") or "difference") if node is not None and is_change else ""
        if mode in _UNIT_OF_CHANGE:
            return _UNIT_OF_CHANGE[mode], f"a change in {mode}"
        if node is None or not node["inputs"] or not (is_change or node["op"] in _UNIT_PASSED):
            break
        name = node["inputs"][0]
    if node is None:
        return "", ""
    if node["op"] in _UNIT_NONE:
        return "1", "a spectral index" if node["op"] == "raster.product.index" else "values without a unit"
    role = node["params"].get("role")
    if node["op"] != "raster.product.band" or not isinstance(role, str):
        return "", ""
    under = scenes_under(case, node["inputs"])
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


def _shapes_on_the_ground(case: Case) -> bool:
    """Whether all that is measured are shapes that were drawn or read, in coordinates of the ground."""
    listed = case.arguments.get("sources")
    sources = [s for s in listed if isinstance(s, dict)] if isinstance(listed, list) else []
    known = {i.artifact: i.crs for i in case.observation.inputs if i.role == "vector"}
    places = [
        known.get(str(s["vector"]))
        if s.get("vector")
        else str(s.get("geometry_crs") or "EPSG:4326")
        if s.get("geometry")
        else None
        for s in sources
    ]
    return bool(places) and all(p not in (None, "", "image") for p in places)


@check("unit_fits_kind", catches=("wrong unit", "degrees as metres"), reads=("/result/unit", "/result/kind"))
def unit_fits_kind(case: Case) -> Finding:
    """Areas are in units of area, distances in units of length, counts and shares without one, densities in one over an area;
    the statistic of an index has no unit, that of a band the band's."""
    allowed = KIND_DIMENSIONS.get(case.kind)
    if case.kind == "ratio" and metric_of(case) == "density":
        allowed = frozenset({"density"})
    found = dimension(case.observation.result.unit)
    if case.kind == "trend":
        own, what = _unit_of_source(case)
        base = split_rate(case.observation.result.unit.strip())[0]
        if own and dimension(base) is not None and not _is_one_unit(own, base):
            return failed(
                f"A trend of {what} is in {own!r} over time, and not in {case.observation.result.unit!r}.",
                measured=case.observation.result.unit,
                expected=f"{own}/year",
                at=("/result/unit", "/arguments/nodes"),
            )
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
            return passed(
                "The unit is that of the values.", measured=case.observation.result.unit, expected=own, at=("/result/unit",)
            )
    if allowed is None or found is None:
        return not_applicable("no unit is prescribed for this kind")
    if case.kind == "count" and factor(case.observation.result.unit) != 1.0:
        return failed(
            f"A count is a plain number and not in {case.observation.result.unit!r}.",
            measured=case.observation.result.unit,
            expected="1",
            at=("/result/unit", "/result/kind"),
        )
    if found == "pixel" and case.kind in PIXEL_KINDS and _shapes_on_the_ground(case):
        return failed(
            "Shapes that lie on the ground have no pixels; measure them in metres or square metres.",
            measured=case.observation.result.unit,
            expected=sorted(allowed - {"pixel"}),
            at=("/result/unit", "/arguments/sources"),
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
                return failed(
                    "No pixel was seen, so nothing can be said of a text.",
                    measured=0,
                    expected="> 0",
                    unit="px",
                    at=("/evidence/intermediate/valid_px",),
                )
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
                measured=value,
                expected="a text",
                at=at,
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
