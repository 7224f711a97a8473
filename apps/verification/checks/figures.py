"""Consistency of figures with one another: shares with their parts, counts with what was kept, answers with what was compared."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

from apps.core.geo.measures import area_of_mask_m2
from apps.verification.arithmetic import value_of
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import is_reference_ratio
from apps.verification.look import OPS
from apps.verification.measured import gsd_of, inside_of_call, limits_the_count, measured_mask, source_layer
from apps.verification.scattered import places_of
from apps.verification.sights import step_of
from apps.verification.units import dimension, factor, to_si


@check(
    "numerator_within_denominator",
    catches=("wrong denominator",),
    reads=("/evidence/intermediate/numerator", "/evidence/intermediate/denominator"),
    family="consistency",
)
def numerator_within_denominator(case: Case) -> Finding:
    """Of a share, the part is not larger than the whole, and the whole is not empty."""
    part, whole = case.evidence_number("intermediate", "numerator"), case.evidence_number("intermediate", "denominator")
    if case.kind != "ratio":
        return not_applicable("no share")
    at = ("/evidence/intermediate/numerator", "/evidence/intermediate/denominator")
    if part is None or whole is None:
        return inconclusive(
            "A share needs its numerator and denominator on record.",
            at=tuple(p for p, v in zip(at, (part, whole), strict=True) if v is None),
        )
    if whole <= 0:
        return failed("The whole is empty; there is no share of it.", measured=whole, expected="> 0", at=at[1:])
    if part < 0 or (part > whole * (1 + 1e-9) and not is_reference_ratio(case)):
        return failed("The part is larger than the whole.", measured=part, expected=f"≤ {whole:g}", at=at)
    return passed("The part lies in the whole.", measured=part, expected=f"≤ {whole:g}", at=at)


@check(
    "ratio_recomputes",
    catches=("wrong denominator", "percent as fraction", "rounded to zero"),
    limits=("rel_tolerance",),
    reads=("/result/value", "/evidence/intermediate"),
    family="consistency",
)
def ratio_recomputes(case: Case) -> Finding:
    """The share is numerator over denominator, in its own unit."""
    part, whole = case.evidence_number("intermediate", "numerator"), case.evidence_number("intermediate", "denominator")
    if case.kind != "ratio" or case.value is None or part is None or not whole:
        return not_applicable("no share with both of its parts")
    scale = factor(case.observation.result.unit) or 1.0
    mine = part / whole / scale
    at = ("/result/value", "/evidence/intermediate/numerator", "/evidence/intermediate/denominator")
    if not case.is_same(mine, case.value):
        return failed(
            "The share is not numerator over denominator.",
            measured=case.value,
            expected=mine,
            unit=case.observation.result.unit,
            at=at,
        )
    return passed("The share is numerator over denominator.", measured=case.value, expected=mine, at=at)


@check(
    "denominator_is_the_whole",
    catches=("wrong denominator", "fill counted as data"),
    limits=("rel_tolerance", "valid_px_tolerance"),
    reads=("/evidence/intermediate/denominator",),
    family="consistency",
)
def denominator_is_the_whole(case: Case) -> Finding:
    """The denominator is the valid pixels of what was asked (scene or region), neither all pixels nor another scene's."""
    if case.kind != "ratio":
        return not_applicable("no share")
    whole = case.evidence_number("intermediate", "denominator")
    spec = case.arguments.get("spec")
    named = spec.get("denominator", "") if isinstance(spec, dict) else "valid"
    ref = measured_mask(case)
    if whole is None or ref is None or named not in ("", "valid"):
        return not_applicable("no mask at hand, or another denominator was asked")
    try:
        _, valid = case.mask(ref)
    except LayerUnreadableError:
        return not_applicable("the mask cannot be read")
    n = int(valid.sum())
    inside, room = inside_of_call(case, ref), 5e-3
    is_thinned = inside is not None and inside.shape != valid.shape
    if inside is not None and is_thinned:
        # a region on so many pixels is looked at in a part of them
        window = (0, 0, valid.shape[1], valid.shape[0])
        places = places_of(window, step_of(case, window))
        seen = int((places.take(valid, window) & inside).sum())
        n, room = round(seen * places.stands_for), max(room, 9 / math.sqrt(max(seen, 1)))
    elif inside is not None:
        n = int((valid & inside).sum())
    area = number_of(n)
    candidates = [float(n)]
    if ref.grid is not None and not is_thinned:
        inner = valid if inside is None else valid & inside
        try:
            m2 = area_of_mask_m2(inner, ref.grid, gsd_of(case, ref)).area_m2
            candidates += [m2, m2 / 1e4, m2 / 1e6]
        except ValueError:
            pass
    if all(not case.is_same(whole, c, room) for c in candidates) and area is not None:
        return failed(
            "The denominator is not the valid pixels of what was asked.",
            measured=whole,
            expected=n,
            unit="px",
            at=("/evidence/intermediate/denominator",),
        )
    return passed(
        "The denominator is the valid pixels.", measured=whole, expected=n, unit="px", at=("/evidence/intermediate/denominator",)
    )


@check(
    "count_equals_kept",
    catches=("merged or duplicated detections", "stale artifact"),
    reads=("/result/value", "/result/layers", "/evidence/intermediate/kept"),
    family="consistency",
)
def count_equals_kept(case: Case) -> Finding:
    """The count, the number of kept boxes on record, and the boxes in the layer are one number."""
    figures: dict[str, float] = {}
    kept = case.evidence_number("intermediate", "kept")
    if case.kind == "count" and case.value is not None:
        figures["/result/value"] = case.value
    refs = [r for r in case.observation.result.layers if r.kind in ("boxes", "polygons") and not r.is_aside]
    if case.observation.tool == "perceive" and kept is not None and case.arguments.get("mode", "objects") == "objects":
        figures["/evidence/intermediate/kept"] = kept
    if case.observation.tool == "measure" and case.kind == "count" and not limits_the_count(case):
        refs = [r for r in [source_layer(case, ("boxes", "polygons", "points"))] if r is not None]
        numerator = case.evidence_number("intermediate", "numerator")
        if numerator is not None:
            figures["/evidence/intermediate/numerator"] = numerator
    if refs and all(r.n is not None for r in refs):
        figures["/result/layers/n"] = float(sum(r.n or 0 for r in refs))
    try:
        if refs:
            figures["/result/layers"] = float(sum(len(case.features(r)) for r in refs))
    except LayerUnreadableError:
        figures.pop("/result/layers", None)
    if len(figures) < 2:
        return not_applicable("no count to compare")
    if len(set(figures.values())) > 1:
        return failed(
            "The count differs between value, record and layer.", measured=figures, expected="one number", at=tuple(figures)
        )
    return passed(
        "Value, record and layer give one count.",
        measured=next(iter(figures.values())),
        at=tuple(figures),
        scores={"layer_counted": 1.0} if "/result/layers" in figures else {},
    )


@check(
    "kept_within_candidates",
    catches=("merged or duplicated detections",),
    reads=("/evidence/intermediate",),
    family="consistency",
)
def kept_within_candidates(case: Case) -> Finding:
    """No more detections were kept than there were candidates."""
    kept, candidates = case.evidence_number("intermediate", "kept"), case.evidence_number("intermediate", "candidates")
    if kept is None or candidates is None:
        return not_applicable("no candidates")
    at = ("/evidence/intermediate/kept", "/evidence/intermediate/candidates")
    if kept > candidates or kept < 0:
        return failed("More was kept than there was.", measured=kept, expected=f"≤ {candidates:g}", at=at)
    return passed("Kept are candidates.", measured=kept, expected=f"≤ {candidates:g}", at=at)


@check("interval_holds_value", catches=("wrong unit",), reads=("/result/interval", "/result/value"), family="consistency")
def interval_holds_value(case: Case) -> Finding:
    """The interval is ordered and holds the value: one that leaves its own value out contradicts it."""
    interval = case.observation.result.interval
    if interval is None or case.value is None:
        return not_applicable("no interval")
    low, high = interval
    slack = 1e-9 * max(1.0, abs(low), abs(high))
    if low > high or not low - slack <= case.value <= high + slack:
        return failed(
            "The interval does not hold the value; they may be in different units.",
            measured=case.value,
            expected=[low, high],
            unit=case.observation.result.unit,
            at=("/result/interval", "/result/value"),
        )
    return passed("The interval holds the value.", measured=case.value, expected=[low, high], at=("/result/interval",))


def is_one_figure(one: float, other: float) -> bool:
    """Whether two numbers are one, but for rounding to the digits that either of them shows."""
    if abs(one - other) <= 1e-6 * max(abs(one), abs(other)):
        return True
    shown = [-int(Decimal(repr(float(v))).as_tuple().exponent) for v in (one, other)]
    return any(abs(one - other) <= 0.5000001 * 10.0**-digits for digits in shown)


@check(
    "nodes_agree_with_result",
    catches=("stale artifact", "rounded to zero"),
    limits=("rel_tolerance",),
    reads=("/evidence/intermediate/nodes", "/result/value"),
    family="consistency",
)
def nodes_agree_with_result(case: Case) -> Finding:
    """The output node's own value is the result's."""
    if case.value is None or not case.output:
        return not_applicable("no output node")
    held = case.evidence("intermediate", "nodes")
    entry: Any = (
        held.get(case.output)
        if isinstance(held, dict)
        else next((n for n in held if isinstance(n, dict) and n.get("id") == case.output), None)
        if isinstance(held, list)
        else None
    )
    node_value = number_of(entry.get("value")) if isinstance(entry, dict) else None
    unit = entry.get("unit") if isinstance(entry, dict) else None
    if node_value is None:
        return not_applicable("the node's value is not on record")
    if (
        isinstance(unit, str)
        and unit != case.observation.result.unit
        and dimension(unit) == dimension(case.observation.result.unit)
    ):
        a, b = to_si(node_value, unit), to_si(case.value, case.observation.result.unit)
        same = a is not None and b is not None and case.is_same(a, b)
    else:
        same = case.is_same(node_value, case.value) and is_one_figure(node_value, case.value)
    at = ("/result/value", "/evidence/intermediate/nodes")
    if not same:
        return failed("The result is not what its last node gave.", measured=case.value, expected=node_value, at=at)
    return passed("The result is what its last node gave.", measured=case.value, expected=node_value, at=at)


@check(
    "boolean_follows",
    catches=("empty layer called zero", "wrong threshold"),
    reads=("/result/value", "/evidence/intermediate"),
    family="consistency",
)
def boolean_follows(case: Case) -> Finding:
    """Yes or no follows from the figure on record and the comparison asked."""
    if case.kind != "boolean" or not isinstance(case.observation.result.value, bool):
        return not_applicable("no boolean")
    spec = case.arguments.get("spec")
    figure = case.evidence_number("intermediate", "numerator")
    comparison = spec.get("comparison") if isinstance(spec, dict) else None
    if figure is None:
        return not_applicable("no figure on record")
    if isinstance(comparison, dict) and comparison.get("op") in OPS and number_of(comparison.get("value")) is not None:
        wanted = to_si(float(comparison["value"]), str(comparison.get("unit", "1")))
        truth = bool(OPS[str(comparison["op"])](figure, wanted if wanted is not None else comparison["value"]))
        told = case.evidence_number("intermediate", "compared")
        if told is not None:
            truth_told = bool(OPS[str(comparison["op"])](told, number_of(comparison["value"])))
            truth = truth if truth == case.observation.result.value else truth_told
    elif isinstance(spec, dict) and not spec.get("relation") and not spec.get("where"):
        truth = figure > 0
    else:
        return not_applicable("a spatial relation")
    at = ("/result/value", "/evidence/intermediate/numerator")
    if truth != case.observation.result.value:
        return failed(
            "The answer does not follow from the figure on record.", measured=case.observation.result.value, expected=truth, at=at
        )
    return passed("The answer follows from the figure on record.", measured=case.observation.result.value, at=at)


@check(
    "arithmetic_recomputes",
    catches=("quotient turned round", "sign lost", "wrong unit"),
    reads=("/result/value", "/arguments"),
    family="consistency",
)
def arithmetic_recomputes(case: Case) -> Finding:
    """A value calculated of earlier values follows from them, and a solution satisfies its equation."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] not in ("value.calculate", "value.solve") or case.value is None:
        return not_applicable("no arithmetic of values")
    held = case.evidence("intermediate", "nodes")
    figures = {str(n.get("id")): number_of(n.get("value")) for n in held if isinstance(n, dict)} if isinstance(held, list) else {}
    names = {k: v for k, v in figures.items() if v is not None and k in node["inputs"]}
    at = ("/result/value", "/evidence/intermediate/nodes")
    if node["op"] == "value.calculate":
        truth = value_of(str(node["params"].get("expression") or ""), names)
        if truth is None:
            return not_applicable("the expression is not followed")
        if not case.is_same(case.value, truth):
            return failed("The expression of these values gives another one.", measured=case.value, expected=truth, at=at)
        return passed("The expression of these values gives this one.", measured=case.value, expected=truth, at=at)
    left, _, right = str(node["params"].get("equation") or "").partition("=")
    names |= {str(node["params"].get("unknown")): case.value}
    one, other = value_of(left, names), value_of(right, names)
    if one is None or other is None:
        return not_applicable("the equation is not followed")
    # a double root moves by the square root of a rounding error
    if abs(one - other) > 1e-6 * max(1.0, abs(one), abs(other)):
        return failed("The solution does not satisfy the equation.", measured=one, expected=other, at=at)
    return passed("Both sides of the equation agree at the solution.", measured=one, expected=other, at=at)
