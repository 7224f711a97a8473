"""Formulas over bands as people type them: read by a grammar of allow-listed signs and functions, never evaluated here."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_FUNCTIONS = {"abs": 1, "sqrt": 1, "exp": 1, "log": 1, "log10": 1, "min": 2, "max": 2}
_LONGEST = 200
# A power of the bands' unit that cannot be told: of a logarithm, of a sum of unlike parts.
UNTOLD = None


@dataclass(frozen=True, slots=True)
class BandFormula:
    """``names`` in the order in which they stand; ``power``: to which power of their unit the result is, UNTOLD where it cannot
    be told; ``has_constant``: whether a plain number is added to bands, which has a meaning for reflectance alone; ``pair``: the
    two bands of a / b or (a - b) / (a + b), and which."""

    text: str
    names: tuple[str, ...]
    power: float | None
    has_constant: bool
    pair: tuple[str, str, str] | None = None


def read_formula(text: str) -> BandFormula | None:
    """The formula that a text is as a whole; None where it is none, calls what is not allowed, or holds no band and sign."""
    text = " ".join(text.replace("×", "*").replace("·", "*").replace("÷", "/").split())
    if len(text) > _LONGEST or not re.fullmatch(r"[\w\s+\-*/^().,]+", text, re.ASCII):
        return None
    try:
        tree = ast.parse(text.replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names: dict[str, None] = {}
    constants: list[bool] = []
    try:
        power = _power(tree, names, constants)
    except _NoFormulaError:
        return None
    if not names or not any(isinstance(n, ast.BinOp | ast.Call) for n in ast.walk(tree)):
        return None
    return BandFormula(text, tuple(names), power, any(constants), _pair(tree))


class _NoFormulaError(Exception):
    """A part that no formula has."""


def _number(tree: ast.expr) -> float | None:
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = _number(tree.operand)
        return None if inner is None else -inner
    is_number = isinstance(tree, ast.Constant) and isinstance(tree.value, int | float) and not isinstance(tree.value, bool)
    return float(tree.value) if is_number else None  # type: ignore[attr-defined, arg-type]  # a Constant, by the line above


def _power(tree: ast.expr, names: dict[str, None], constants: list[bool]) -> float | None:
    """To which power of the bands' unit a part is."""
    if _number(tree) is not None:
        return 0
    if isinstance(tree, ast.Name):
        names[tree.id] = None
        return 1
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
        return _power(tree.operand, names, constants)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        if _FUNCTIONS.get(tree.func.id) != len(tree.args):
            raise _NoFormulaError
        found = [_power(a, names, constants) for a in tree.args]
        if tree.func.id == "sqrt":
            return None if found[0] is None else found[0] / 2
        if tree.func.id in ("exp", "log", "log10"):
            return 0 if found[0] == 0 else UNTOLD
        return found[0] if len(set(found)) == 1 else UNTOLD
    if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, _OPERATORS):
        raise _NoFormulaError
    left, right = (_power(side, names, constants) for side in (tree.left, tree.right))
    if isinstance(tree.op, ast.Pow):
        exponent = _number(tree.right)
        if exponent is None:
            raise _NoFormulaError
        return None if left is None else left * exponent
    if isinstance(tree.op, ast.Add | ast.Sub):
        are_numbers = [_number(side) is not None for side in (tree.left, tree.right)]
        if any(are_numbers):
            other = right if are_numbers[0] else left
            constants.append(other != 0)
            return other
        if left != right:
            constants.append(True)
            return UNTOLD
        return left
    if left is None or right is None:
        return UNTOLD
    return left + right if isinstance(tree.op, ast.Mult) else left - right


def _pair(tree: ast.expr) -> tuple[str, str, str] | None:
    if not isinstance(tree, ast.BinOp) or not isinstance(tree.op, ast.Div):
        return None
    top, below = tree.left, tree.right
    if isinstance(top, ast.Name) and isinstance(below, ast.Name) and top.id != below.id:
        return "ratio", top.id, below.id
    ends = [
        (side.left.id, side.right.id)
        for side, sign in ((top, ast.Sub), (below, ast.Add))
        if isinstance(side, ast.BinOp)
        and isinstance(side.op, sign)
        and isinstance(side.left, ast.Name)
        and isinstance(side.right, ast.Name)
    ]
    if len(ends) == 2 and set(ends[0]) == set(ends[1]) and len(set(ends[0])) == 2:
        return "normalized_difference", *ends[0]
    return None
