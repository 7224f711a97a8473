"""Consistency of what a record tells of its steps: pixels of dates and of changes, and the text of its formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from apps.verification.case import Case, Finding, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.formulas import INDICES
from apps.verification.products import NotFollowedError, is_formula_of, math_of, names_in, syntax_of

_NODES, _VALID, _REGION = "/evidence/intermediate/nodes", "/evidence/intermediate/valid_px", "/evidence/intermediate/n_region_px"
Wrong = tuple[str, float, float, tuple[str, ...]]


@check(
    "pixel_counts_agree",
    catches=("stale artifact", "another scene's result", "hole in the series"),
    reads=("/result/items", _NODES, _VALID, _REGION),
    family="consistency",
)
def pixel_counts_agree(case: Case) -> Finding:
    """Numbers of valid pixels of a series and of a change go together: those of dates with those of their steps and their sum,
    none more than the region or the scene has, a change no more than either of its dates."""
    held = case.evidence("intermediate", "nodes")
    steps = [t for t in held if isinstance(t, dict)] if isinstance(held, list) else []
    told = {str(t["id"]): t for t in steps if str(t.get("id")) in case.nodes}
    output = case.nodes.get(case.output)
    if output is None or not output["op"].startswith("raster."):
        return not_applicable("no graph of rasters")
    wrong = next((w for w in (*_of_steps(case, told), *_of_output(case, told, output), *_of_items(case, told, output))), None)
    if wrong is not None:
        message, measured, expected, at = wrong
        return failed(message, measured=measured, expected=expected, unit="px", at=at)
    seen = len(told) + sum(1 for i in case.items() if number_of(i.get("n_valid")) is not None)
    if not seen:
        return not_applicable("no numbers of pixels are told of its steps")
    return passed("The numbers of pixels go together.", measured=seen, at=("/result/items", _NODES))


def _of_steps(case: Case, told: dict[str, dict[str, Any]]) -> Iterator[Wrong]:
    """Steps with more valid pixels than their region has, and changes with more than one of their dates."""
    for k, (name, step) in enumerate(told.items()):
        n, of = number_of(step.get("n_valid")), number_of(step.get("n_region"))
        if n is not None and of is not None and n > of:
            yield "A step has more valid pixels than its region.", n, of, (f"{_NODES}/{k}",)
        if case.nodes[name]["op"] != "raster.product.difference":
            continue
        for other in (told.get(i, {}) for i in case.nodes[name]["inputs"]):
            there = number_of(other.get("n_valid"))
            if n is not None and there is not None and of == number_of(other.get("n_region")) and n > there:
                yield "A change has more valid pixels than one of its dates.", n, there, (f"{_NODES}/{k}",)


def _of_output(case: Case, told: dict[str, dict[str, Any]], output: dict[str, Any]) -> Iterator[Wrong]:
    """What a statistic tells of its pixels: the number on record, and no more than the region has."""
    if output["op"] != "raster.summarize.statistic":
        return
    valid, of = case.evidence_number("intermediate", "valid_px"), case.evidence_number("intermediate", "n_region_px")
    n = number_of(told.get(case.output, {}).get("n_valid"))
    if valid is not None and of is not None and valid > of:
        yield "More pixels are valid than the region has.", valid, of, (_VALID, _REGION)
    if valid is not None and n is not None and valid != n:
        yield "The number of valid pixels is two numbers on record.", valid, n, (_VALID, _NODES)


def _of_items(case: Case, told: dict[str, dict[str, Any]], output: dict[str, Any]) -> Iterator[Wrong]:
    """What the dates of a series tell of their pixels."""
    if output["op"] not in ("raster.summarize.series", "raster.summarize.trend"):
        return
    total, n_told = 0.0, 0
    for k, item in enumerate(case.items()):
        n, at = number_of(item.get("n_valid")), f"/result/items/{k}/n_valid"
        if n is None:
            continue
        total, n_told = total + n, n_told + 1
        there = number_of(told.get(str(item.get("node")), {}).get("n_valid"))
        if there is not None and there != n:
            yield "A date's number of valid pixels is two numbers on record.", n, there, (at, _NODES)
        scene = case.scenes.get(str(item.get("scene")))
        if scene is not None and n > scene.grid.width * scene.grid.height:
            yield "A date has more valid pixels than its scene.", n, float(scene.grid.width * scene.grid.height), (at,)
    valid = case.evidence_number("intermediate", "valid_px")
    if valid is not None and n_told == len(output["inputs"]) and valid != total:
        yield "The valid pixels are not those of the dates together.", valid, total, (_VALID, "/result/items")


# --- formulas ---------------------------------------------------------------------------------------------------------------
# Of a change before and after, by what a call names it.
_CHANGES = {
    "difference": "after - before",
    "percent": "100 * (after - before) / abs(before)",
    "ratio": "after / before",
    "absolute": "abs(after - before)",
    "loss": "before - after",
}
_OWN = frozenset({"index", "quality_mask", "quality_flags", "out_of_range"})
_LIMIT = re.compile(r"^.*?(?P<op>>=|<=|==|!=|>|<)\s*(?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?)$", re.I)


def _is_same(one: str, other: str) -> bool | None:
    """Whether two formulas of the same names give the same, tried on pixels; None where they cannot be followed."""
    try:
        names = sorted(names_in(syntax_of(one)))
        if names != sorted(names_in(syntax_of(other))):
            return None
        valid = np.ones(4, dtype=bool)
        planes = {n: (np.array([0.11, 0.37, 0.62, -0.2]) * (1 + 0.21 * k), valid) for k, n in enumerate(names)}
        (a, known), (b, there) = math_of(one, planes), math_of(other, planes)
    except NotFollowedError:
        return None
    return bool((known == there).all() and np.allclose(a[known], b[known], rtol=1e-4, atol=1e-6))


def _is_as_called(node: dict[str, Any], text: str) -> bool | None:
    """Whether a formula's text is what a node computes; None where that cannot be followed."""
    op, params = node["op"], node["params"]
    if op == "raster.product.index" and not any(v for k, v in params.items() if k not in _OWN):
        name = str(params.get("index")).lower()
        return is_formula_of(name, text) if name in INDICES else None
    if op == "raster.product.math":
        return _is_same(text, str(params.get("expression") or ""))
    if op == "raster.product.difference" and ", of " in text:
        wanted = _CHANGES.get(str(params.get("mode") or "difference"))
        return None if wanted is None else _is_same(text.split(", of ")[0], wanted)
    found = _LIMIT.match(text.strip()) if op == "raster.product.threshold" else None
    limit = number_of(params.get("value"))
    if found is None or limit is None or params.get("percentile") is not None:
        return None
    return found["op"] == str(params.get("op") or ">") and bool(np.isclose(float(found["number"]), limit, rtol=1e-5, atol=1e-9))


@check(
    "formula_told_as_called",
    catches=("wrong index", "wrong band mapping", "wrong threshold"),
    reads=("/evidence/source/formulas", "/evidence/source/method", "/arguments/nodes"),
    family="consistency",
)
def formula_told_as_called(case: Case) -> Finding:
    """The formula that the record tells of a step is the one that the call names: an index's own, the expression, the limit and
    its side, the order of the dates."""
    seen = 0
    for text, made, pointer in _told_formulas(case):
        if made is None:
            continue
        seen += 1
        if not made:
            return failed(
                "The formula on record is another one than the call's.",
                measured=text[:200],
                expected="that of the call",
                at=(pointer, "/arguments"),
            )
    if not seen:
        return not_applicable("no formula is told that can be followed")
    return passed("The formulas on record are the call's.", measured=seen, at=("/evidence/source", "/arguments"))


def _told_formulas(case: Case) -> Iterator[tuple[str, bool | None, str]]:
    """(text, whether it is as called, its place) of each formula on record."""
    formulas, method = case.evidence("source", "formulas"), case.evidence("source", "method")
    for name, text in (formulas if isinstance(formulas, dict) else {}).items():
        if isinstance(text, str) and name in case.nodes:
            yield text, _is_as_called(case.nodes[name], text), f"/evidence/source/formulas/{name}"
        elif isinstance(text, str) and str(name).lower() in INDICES:
            yield text, is_formula_of(str(name).lower(), text), f"/evidence/source/formulas/{name}"
    if isinstance(method, dict) and isinstance(method.get("formula"), str) and str(method.get("index")).lower() in INDICES:
        text = method["formula"]
        yield text, is_formula_of(str(method["index"]).lower(), text), "/evidence/source/method/formula"
