"""Contract of a call with its question: index, threshold, statistic, metric and unit are those that were asked for."""

from __future__ import annotations

import re
from typing import Any

from apps.verification import words
from apps.verification.calls import SAME_STATISTIC, metric_of
from apps.verification.case import NUMERIC_KINDS, Case, Finding, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.formulas import INDICES
from apps.verification.units import dimension


@check("unit_as_asked", "warn", catches=("wrong unit",), reads=("/result/unit", "/task/question"), family="contract")
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
    family="contract",
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


@check("index_as_asked", catches=("wrong band mapping", "wrong index"), reads=("/arguments", "/task/question"), family="contract")
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


@check("threshold_as_asked", catches=("wrong threshold",), reads=("/arguments", "/task/question"), family="contract")
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


@check("threshold_side_as_asked", catches=("wrong threshold",), reads=("/arguments", "/task/question"), family="contract")
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


@check("statistic_as_asked", catches=("wrong statistic",), reads=("/arguments", "/task/question"), family="contract")
def statistic_as_asked(case: Case) -> Finding:
    """Where the question names exactly one statistic, the call computes that one."""
    named = words.statistics_named(case.text)
    used = {
        SAME_STATISTIC.get(s, s)
        for s in (str(n["params"]["statistic"]) for n in case.nodes.values() if isinstance(n["params"].get("statistic"), str))
    }
    over_dates = ("raster.summarize.trend", "raster.summarize.series") if named <= {"mean", "median", "std"} else ()
    summaries = [n for n in case.nodes.values() if n["op"] == "raster.summarize.statistic" or n["op"] in over_dates]
    if re.search(r"\bcomposites?\b", case.text):
        # "the median composites": the statistic is that of the dates of a pixel
        used |= {str(n["params"].get("method")) for n in case.nodes.values() if n["op"] == "raster.product.composite"}
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


_METRIC_KINDS: dict[str, frozenset[str]] = {
    "count": frozenset({"count"}),
    "area": frozenset({"area"}),
    "ratio": frozenset({"ratio", "area"}),
    "distance": frozenset({"distance", "length"}),
    "trend": frozenset({"trend", "series", "statistic"}),
    "density": frozenset({"ratio"}),
}
# What is neither the metric that is asked for nor a step on the way to it.
_OTHER_KINDS: dict[str, frozenset[str]] = {
    "count": frozenset({"area", "distance", "length"}),
    "area": frozenset({"count", "distance", "length", "ratio"}),
    "ratio": frozenset({"distance", "length"}),
    "distance": frozenset({"area", "count", "ratio"}),
    "density": frozenset({"distance"}),
}


@check(
    "metric_as_asked",
    catches=("wrong metric",),
    reads=("/arguments/spec/metric", "/result/kind", "/task/question"),
    family="contract",
)
def metric_as_asked(case: Case) -> Finding:
    """How many → count, how much area → area, what share → ratio, how far → distance, how many per km² → density. What may be a
    step on the way is warned of, what cannot be is no answer."""
    named = words.metrics_named(case.text)
    if not named or case.kind not in NUMERIC_KINDS | {"boolean"} or (case.question is not None and case.question.choices):
        return not_applicable("the words fix no metric")
    if any(n["op"] == "raster.product.coregister" for n in case.nodes.values()):
        return not_applicable("the distance is the shift that co-registration tells")
    asked = named[0]
    is_other = case.observation.tool == "measure" and (metric_of(case) == "density") != (asked == "density")
    if case.kind not in _METRIC_KINDS[asked] or is_other:
        is_none = len(named) == 1 and case.kind in _OTHER_KINDS.get(asked, ())
        return failed(
            f"The question asks for a {asked}, the tool gives a {case.kind}.",
            measured=case.kind,
            expected=asked,
            at=("/result/kind", "/task/question"),
            severity=None if is_none else "warn",
        )
    return passed("The metric is the one asked.", measured=case.kind, expected=asked, at=("/result/kind",))


@check("task_is_the_questions", catches=("another question's result",), reads=("/task/question",), family="contract")
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
