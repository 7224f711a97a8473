"""Operators of values that end in a value or a place: arithmetic, equations, bounds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen
from apps.tools.execute.equations import check_solvable, real_solutions, residual
from apps.tools.execute.formula import parse
from apps.tools.execute.scales import check_formula
from apps.tools.execute.types import (
    Call,
    NoParams,
    Operator,
    PhysicalRange,
    Plane,
    Planned,
    Take,
    Value,
    ValueType,
    register,
)


class CalculateParams(Frozen):
    expression: str = Field(max_length=500, description="node ids as names")
    unit: str = Field(default="1", max_length=40)
    range: tuple[float, float] | None = Field(default=None, description="physical range of the result, where it has one")
    quantity: str = Field(default="result", pattern=r"^[a-z][a-z0-9_]{0,39}$")


def _plan_calculate(call: Call) -> Planned:
    p: CalculateParams = call.params
    formula = parse(p.expression, of_numbers=True)
    unknown = [n for n in formula.names if n not in call.names]
    if unknown:
        raise call.refuse(f"the expression names {', '.join(unknown)}, which is no input of the node.")
    if p.range is not None and not p.range[0] < p.range[1]:
        raise call.refuse("the declared range is empty.")
    held = dict(zip(call.names, call.inputs, strict=True))
    check_formula(call, formula.tree, {n: ("value", held[n].quantity, held[n].unit) for n in formula.names})

    def combine(values: Sequence[Value]) -> Value:
        by_name = dict(zip(call.names, values, strict=True))
        planes = {}
        for n in formula.names:
            v = by_name[n].value
            if not isinstance(v, (int, float)) or isinstance(v, bool):
                raise call.refuse(f"{n} is no number.", code="TOOL_FAILED")
            planes[n] = Plane(np.array([[float(v)]]), np.ones((1, 1), dtype=bool))
        found = formula.evaluate(planes)
        if not found.valid[0, 0]:
            raise call.refuse(f"{p.expression} is undefined for these values.", code="TOOL_FAILED")
        return Value(float(found.data[0, 0]), min((v.n_valid for v in values), default=0),
                     {"operands": {n: by_name[n].value for n in formula.names}, "expression": p.expression})

    span = PhysicalRange(*p.range) if p.range else PhysicalRange(why="the caller declares no range")
    return Planned(ValueType("value", "statistic", p.quantity, p.unit, span), combine=combine)


register(Operator(
    name="value.calculate", summary="Arithmetic of numbers and earlier values by the allow-listed grammar.",
    takes=Take(("value",), 0, 64), params=CalculateParams, gives="value", range="declared by the caller",
    nodata="undefined results are refused", plan=_plan_calculate))


class SolveParams(Frozen):
    equation: str = Field(max_length=200, description="left = right, by the allow-listed grammar; node ids as names")
    unknown: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,39}$")
    between: tuple[float, float] | None = Field(default=None, description="the real solution is looked for here")
    pick: Literal["only", "min", "max"] = Field(default="only", description="of several solutions; only: several are refused")
    unit: str = Field(default="1", max_length=40)
    quantity: str = Field(default="solution", pattern=r"^[a-z][a-z0-9_]{0,39}$")


def _plan_solve(call: Call) -> Planned:
    p: SolveParams = call.params
    left, equal, right = p.equation.partition("=")
    if not equal or "=" in right or not left.strip() or not right.strip():
        raise call.refuse("an equation has one sign of equality.")
    formula = parse(f"({left}) - ({right})")
    if p.unknown not in formula.names:
        raise call.refuse(f"the equation does not hold {p.unknown}.")
    if p.unknown in call.names:
        raise call.refuse(f"{p.unknown} is an input already.")
    free = [n for n in formula.names if n not in call.names and n != p.unknown]
    if free:
        raise call.refuse(f"the equation names {', '.join(free)}, which is no input of the node.")
    if p.between is not None and not p.between[0] < p.between[1]:
        raise call.refuse("the interval between is empty.")
    check_solvable(formula, p.unknown)

    def combine(values: Sequence[Value]) -> Value:
        by_name = dict(zip(call.names, values, strict=True))
        numbers = {}
        for n in formula.names:
            if n == p.unknown:
                continue
            v = by_name[n].value
            if not isinstance(v, (int, float)) or isinstance(v, bool):
                raise call.refuse(f"{n} is no number.", code="TOOL_FAILED")
            numbers[n] = float(v)
        found = real_solutions(formula, p.unknown, numbers, p.between)
        if not found:
            where = f" between {p.between[0]:g} and {p.between[1]:g}" if p.between else ""
            raise call.refuse(f"{p.equation} has no real solution{where}.", code="TOOL_FAILED")
        if len(found) > 1 and p.pick == "only":
            raise call.refuse(f"{p.equation} has {len(found)} solutions: {', '.join(f'{x:.6g}' for x in found[:10])}; say which "
                              "(between, or pick min or max).", code="TOOL_FAILED", needs={"pick": True})
        value = found[-1] if p.pick == "max" else found[0]
        items: tuple[dict[str, JsonValue], ...] = tuple({"solution": x} for x in found[:100])
        evidence: dict[str, JsonValue] = {
            "equation": p.equation, "unknown": p.unknown, "operands": dict(numbers), "solutions": [*found[:100]],
            "residual": residual(formula, numbers | {p.unknown: value})}
        return Value(value, min((v.n_valid for v in values), default=0), evidence, items)

    span = PhysicalRange(*p.between) if p.between else PhysicalRange(why="the equation sets no bounds")
    return Planned(ValueType("value", "statistic", p.quantity, p.unit, span), combine=combine)


register(Operator(
    name="value.solve", summary="The real solution of an equation in one unknown, over earlier values.",
    takes=Take(("value",), 0, 16), params=SolveParams, gives="value", range="the interval asked for",
    nodata="no real solution is refused", plan=_plan_solve))


def _plan_bounds(call: Call) -> Planned:
    scene = call.inputs[0].scene
    grid = scene.grid
    if grid.crs is None:
        raise call.refuse(f"{scene.name} has no CRS, so it has no place on the ground.", code="NEEDS_CRS", needs={"crs": True})
    corners = [grid.xy(c, r) for c, r in ((0, 0), (grid.width, 0), (grid.width, grid.height), (0, grid.height))]
    west, south, east, north = grid.lonlat_bounds()
    xs, ys = [c[0] for c in corners], [c[1] for c in corners]
    item: dict[str, JsonValue] = {
        "scene": scene.scene_id, "west": west, "south": south, "east": east, "north": north, "crs": grid.crs,
        "left": min(xs), "bottom": min(ys), "right": max(xs), "top": max(ys), "width_px": grid.width, "height_px": grid.height,
        "gsd_m": scene.effective_gsd_m}
    evidence: dict[str, JsonValue] = {"corners": [list(c) for c in corners], "crosses_antimeridian": west > east}
    return Planned(ValueType("value", "table", "bounds", "1", PhysicalRange(why="coordinates of the scene's CRS")),
                   constant=Value(None, 0, evidence, (item,)))


register(Operator(
    name="asset.bounds", summary="Where a scene lies: longitude and latitude, and in its own CRS.", takes=Take(("scene",)),
    params=NoParams, gives="value", range="longitude −180 to 180, latitude −90 to 90", nodata="not applicable",
    plan=_plan_bounds))
