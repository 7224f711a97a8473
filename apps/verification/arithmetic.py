"""Arithmetic of values, evaluated again by the verifier: of Python's own syntax tree only numbers, names, sums, products, powers
and a few functions are followed. Nothing is executed."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Mapping

MAX_LENGTH = 500
_BINARY: dict[type[ast.operator], Callable[[float, float], float]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: math.pow,
}
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "log10": math.log10,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "floor": math.floor,
}


def value_of(expression: str, names: Mapping[str, float]) -> float | None:
    """The value of an expression, or None where it is not followed or undefined."""
    if len(expression) > MAX_LENGTH:
        return None
    try:
        found = _value(ast.parse(expression.strip().replace("^", "**"), mode="eval").body, names)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError, KeyError, RecursionError, MemoryError):
        return None
    return found if math.isfinite(found) else None


def _value(node: ast.expr, names: Mapping[str, float]) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.Name):
        return float(names[node.id])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
        inner = _value(node.operand, names)
        return -inner if isinstance(node.op, ast.USub) else inner
    if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
        return float(_BINARY[type(node.op)](_value(node.left, names), _value(node.right, names)))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        return float(_FUNCTIONS[node.func.id](_value(node.args[0], names)))
    raise ValueError("not followed")
