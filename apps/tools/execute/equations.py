"""Equations in one unknown: the allow-listed grammar's tree handed to sympy; no text is ever evaluated by it.

Polynomials are solved exactly, other functions only between two given numbers, by bracketing on a fine grid.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from apps.core.errors import ModelError
from apps.tools.execute.formula import Formula
from apps.tools.execute.types import Plane

MAX_DEGREE = 12
# Steps in which a bracket is looked for: two roots nearer than one step may be missed; the evidence lists all that were found.
_STEPS = 20_000
_REFUSED = ("where", "min", "max", "floor", "abs")


def check_solvable(formula: Formula, unknown: str) -> None:
    """ModelError where the unknown stands in a comparison, a choice, or a power too high to be solved."""
    _walk(formula.tree, unknown)


def _holds(tree: Any, unknown: str) -> bool:
    if not isinstance(tree, tuple):
        return False
    if tree[0] == "name":
        return bool(tree[1] == unknown)
    parts = tree[2] if tree[0] == "call" else tree[1:]
    return any(_holds(t, unknown) for t in parts)


def _walk(tree: Any, unknown: str) -> None:
    if not _holds(tree, unknown) or tree[0] == "name":
        return
    if (tree[0] == "call" and tree[1] in _REFUSED) or tree[0] in ("<", "<=", ">", ">=", "==", "!="):
        raise ModelError(f"An equation is not solved for an unknown inside {tree[1] if tree[0] == 'call' else tree[0]}.",
                         code="BAD_ARGUMENT")
    if tree[0] in ("^", "**"):
        power = tree[2]
        while isinstance(power, tuple) and power[0] == "neg":
            power = power[1]
        if power[0] == "number" and power[1] > MAX_DEGREE:
            raise ModelError(f"Powers above {MAX_DEGREE} are not solved.", code="BAD_ARGUMENT")
    for part in tree[2] if tree[0] == "call" else tree[1:]:
        _walk(part, unknown)


def residual(formula: Formula, values: Mapping[str, float]) -> float:
    """Left less right at these values; NaN where undefined."""
    planes = {n: Plane(np.array([[values[n]]]), np.ones((1, 1), dtype=bool)) for n in formula.names}
    found = formula.evaluate(planes)
    return float(found.data[0, 0]) if found.valid[0, 0] else math.nan


def real_solutions(formula: Formula, unknown: str, numbers: Mapping[str, float],
                   between: tuple[float, float] | None) -> list[float]:
    """Rising real solutions. ModelError for other than rational equations without an interval, and where all numbers solve it."""
    import sympy

    x = sympy.Symbol("x", real=True)
    found: list[float]
    expression = _expression(formula.tree, unknown, x, numbers)
    numerator = sympy.numer(sympy.together(expression)) if expression is not None else None
    polynomial = None
    if numerator is not None:
        try:
            polynomial = sympy.Poly(sympy.expand(numerator), x)
        except sympy.PolynomialError:
            polynomial = None
    if polynomial is not None:
        if polynomial.is_zero:
            raise ModelError("Every number solves the equation.", code="BAD_ARGUMENT")
        if polynomial.degree() > MAX_DEGREE:
            raise ModelError(f"The equation has degree {polynomial.degree()}; up to {MAX_DEGREE} are solved.",
                             code="BAD_ARGUMENT")
        # exact rationals: double roots stay double
        roots = [float(r) for r in sympy.real_roots(polynomial)] if polynomial.degree() > 0 else []
        found = sorted(set(roots))
    elif between is None:
        raise ModelError("The equation is no polynomial; say between which numbers the solution lies.", code="BAD_ARGUMENT",
                         needs={"between": True})
    else:
        found = _bracketed(formula, unknown, numbers, between)
    if between is not None:
        found = [r for r in found if between[0] <= r <= between[1]]
    # a root of the numerator where the denominator vanishes too is none
    return [r for r in found if math.isfinite(residual(formula, {**numbers, unknown: r}))]


def _expression(tree: Any, unknown: str, x: Any, numbers: Mapping[str, float]) -> Any:
    """A sympy expression of the rational part of the grammar, or None for other functions. Numbers become exact rationals."""
    import sympy

    head = tree[0]
    if head == "number":
        return sympy.Rational(repr(tree[1]))
    if head == "name":
        return x if tree[1] == unknown else sympy.Rational(repr(numbers[tree[1]]))
    if head == "call":
        return None
    parts = [_expression(t, unknown, x, numbers) for t in tree[1:]]
    if any(p is None for p in parts):
        return None
    if head == "neg":
        return -parts[0]
    if head in ("^", "**"):
        if not parts[1].is_Integer or abs(int(parts[1])) > MAX_DEGREE:
            return None
        return parts[0] ** parts[1]
    if head == "/" and parts[1] == 0:
        raise ModelError("The equation divides by 0.", code="BAD_ARGUMENT")
    joins = {"+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b}
    return joins[head](*parts) if head in joins else None


def _bracketed(formula: Formula, unknown: str, numbers: Mapping[str, float], between: tuple[float, float]) -> list[float]:
    # 23 MB that a statistic does not need
    from scipy import optimize

    xs = np.linspace(between[0], between[1], _STEPS + 1)
    planes = {n: Plane(xs[None] if n == unknown else np.full((1, len(xs)), numbers[n]), np.ones((1, len(xs)), dtype=bool))
              for n in formula.names}
    plane = formula.evaluate(planes)
    y, valid = plane.data[0], plane.valid[0]
    found = [float(v) for v in xs[valid & (y == 0)]]
    for i in np.nonzero(valid[:-1] & valid[1:] & (y[:-1] * y[1:] < 0))[0]:
        root = float(optimize.brentq(lambda v: residual(formula, {**numbers, unknown: float(v)}), xs[i], xs[i + 1], xtol=1e-14))
        # a pole changes sign without a root
        if abs(residual(formula, {**numbers, unknown: root})) <= 1e-6 * max(1.0, float(np.abs(y[i:i + 2]).max())):
            found.append(root)
    return sorted(set(found))
