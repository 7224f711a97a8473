"""Consistency of figures over pixels of another size than was measured: what hangs on their number, and how far they differ."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

from apps.verification.calls import SAME_STATISTIC
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, passed
from apps.verification.checks.catalogue import check
from apps.verification.planes import same_grid

# Two grids whose pixels differ in side by more than this share do not hold the same sum.
_SAME_SIDE = 0.005
_MOVES = ("raster.product.resample", "raster.product.reproject")
_SPREADS = frozenset({"std", "variance", "cv", "range", "iqr", "min", "max", "percentile"})
_SMOOTHS = frozenset({"mean", "median", "gaussian", "average"})
_SAID = re.compile(
    r"\b(?:at|to|of|on|per|in)\s+(?:a\s+)?[\d.,]+\s*(?:m|km|metres?|meters?|kilometres?)\b|\bresampl|\bcoarse|\baverag|\bsmooth|\baggregat|"
    r"\bblocks?\b|\bgrid cells?\b|\bneighbourhood|\bneighborhood|\bresolution\b|\bmoving\b|\bfocal\b|\bwindow",
    re.I,
)


def _statistic(case: Case, name: str) -> str:
    """The statistic of a summary's node, by one name; '' for another node."""
    node = case.nodes.get(name)
    if node is None or not node["op"].startswith("raster.summarize."):
        return ""
    params = node["params"]
    held = params.get("statistic") or (params.get("over") if node["op"] == "raster.summarize.series" else "")
    return SAME_STATISTIC.get(str(held or ""), str(held or ""))


def _moved(case: Case, name: str) -> list[str]:
    return [n for n in case.upstream(name) if case.nodes[n]["op"] in _MOVES]


def power_of(expression: str, powers: Mapping[str, int]) -> int | None:
    """How many times a formula holds the number of pixels as a factor: a sum and a count once, their quotient not at all. Two
    terms of different powers have the higher. None for a formula that cannot be read."""
    try:
        tree = ast.parse(expression, mode="eval").body
    except (SyntaxError, ValueError, RecursionError):
        return None

    def of(node: ast.expr) -> int:
        match node:
            case ast.Name(id=name):
                return powers.get(name, 0)
            case ast.BinOp(left=one, op=ast.Mult(), right=other):
                return of(one) + of(other)
            case ast.BinOp(left=one, op=ast.Div(), right=other):
                return of(one) - of(other)
            case ast.BinOp(left=one, right=other):
                return max(of(one), of(other), key=abs)
            case ast.UnaryOp(operand=one):
                return of(one)
            case ast.Call(args=args) if args:
                return max((of(a) for a in args), key=abs)
        return 0

    return of(tree)


@check(
    "sum_over_measured_pixels",
    catches=("wrong GSD", "wrong unit", "wrong statistic"),
    reads=("/arguments/nodes", "/result/layers"),
    family="consistency",
)
def sum_over_measured_pixels(case: Case) -> Finding:
    """Pixels are added up, and counted for a product, as they were measured: on pixels of half the side there are four times as
    many, each with the whole value."""
    output = case.nodes.get(case.output, {"op": "", "params": {}, "inputs": []})
    at = ("/arguments/nodes", "/result/layers")
    if output["op"] == "value.calculate":
        powers = {n: int(_statistic(case, n) in ("sum", "count")) for n in output["inputs"]}
        power = power_of(str(output["params"].get("expression") or ""), powers)
        if not any(powers.values()) or power == 0:
            return not_applicable("nothing hangs on the number of pixels")
        under = [n for n in output["inputs"] if powers[n]]
    elif _statistic(case, case.output) == "sum":
        under = [case.output]
    else:
        return not_applicable("nothing is added up")
    if not any(_moved(case, n) for n in under):
        return passed("The pixels are the scene's own.", at=at)
    layer = case.layer("raster") or case.layer("mask") or case.layer("classes")
    here = layer.grid.gsd_m if layer is not None and layer.grid is not None else _told_side(case, under)
    sides = sorted({s.grid.gsd_m for s in case.used_scenes if s.grid.gsd_m is not None})
    if here is None or not sides:
        return inconclusive("The grid that was added up over is not on record; hand over its layer.", at=at)
    if any(abs(here / side - 1) > _SAME_SIDE for side in sides):
        return failed(
            "The sum is over pixels of another size than was measured: each has the value of an old one, but there are more or "
            "fewer. Add up on the scene's own grid.",
            measured=here,
            expected=sides,
            unit="m",
            at=at,
        )
    return passed("The pixels that were added up are as large as the scene's.", measured=here, expected=sides, unit="m", at=at)


def _told_side(case: Case, names: list[str]) -> float | None:
    """The side in metres of the pixels that a summary is over, by the resolution that was asked for on a map in metres."""
    for name in names:
        for moved in _moved(case, name):
            params = case.nodes[moved]["params"]
            asked = params.get("resolution")
            if isinstance(asked, (int, float)) and not isinstance(asked, bool) and not params.get("crs"):
                scenes = [s for s in case.used_scenes if s.grid.crs is not None and not s.grid.is_geographic]
                return float(asked) if scenes else None
    return None


def _smooths(case: Case, name: str) -> bool:
    node = case.nodes[name]
    return node["op"] == "raster.product.focal" and str(node["params"].get("statistic", "mean")) in _SMOOTHS


@check(
    "spread_over_measured_pixels",
    catches=("wrong statistic", "wrong GSD"),
    reads=("/arguments/nodes", "/task/question"),
    family="consistency",
)
def spread_over_measured_pixels(case: Case) -> Finding:
    """How far pixels differ, and their extremes, are told of the pixels that were measured: of means over larger ones, or of
    smoothed ones, they are less, and are told only where the question says so."""
    at = ("/arguments/nodes", "/task/question")
    if _statistic(case, case.output) not in _SPREADS:
        return not_applicable("neither a deviation nor an extreme")
    under = [n for n in case.upstream(case.output) if n != case.output]
    smoothed = [n for n in under if _smooths(case, n)]
    moved = _moved(case, case.output)
    if not smoothed and not moved:
        return passed("The pixels are the scene's own.", at=at)
    if _SAID.search(case.text):
        return passed("The question asks for values that were put together.", measured=[*smoothed, *moved], at=at)
    grids = [s.grid for s in case.used_scenes]
    is_needed = not smoothed and any(not same_grid(grids[0], g) for g in grids[1:])
    return failed(
        "The figure is of values that were resampled or smoothed, which differ less than the pixels that were measured: "
        "take it of the scene's own pixels, or ask for it at that size.",
        measured=[case.nodes[n]["op"] for n in (*smoothed, *moved)],
        expected="the scene's own pixels",
        at=at,
        # images on several grids have to be brought to one
        severity="warn" if is_needed else None,
    )
