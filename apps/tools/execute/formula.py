"""Band math: a small grammar of allow-listed functions, parsed by pyparsing and evaluated on masked planes. Nothing is eval'ed.

``^`` and ``**`` are powers (right-associative), then unary minus, ``* /``, ``+ -``, comparisons (1 or 0), ``min``, ``max`` and
``where(condition, then, else)``. Results that are not finite are masked.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyparsing as pp
from numpy.typing import NDArray

from apps.core.errors import ModelError
from apps.tools.execute.masks import both, looked_at
from apps.tools.execute.types import Plane
from apps.tools.thresholds import ON_LIMIT

MAX_LENGTH = 500
MAX_DEPTH = 30
# Values evaluated at once: the steps of a formula stay in the processor's cache.
_STRIP_VALUES = 1 << 15
FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, np.abs), "sqrt": (1, np.sqrt), "exp": (1, np.exp), "log": (1, np.log), "log10": (1, np.log10),
    "sin": (1, np.sin), "cos": (1, np.cos), "tan": (1, np.tan), "asin": (1, np.arcsin), "acos": (1, np.arccos),
    "atan": (1, np.arctan), "floor": (1, np.floor), "min": (2, np.minimum), "max": (2, np.maximum),
    "where": (3, lambda c, a, b: np.where(c != 0, a, b)),
}


def _comparing(compare: Callable[..., Any]) -> Callable[..., Any]:
    """A comparison in which numbers that differ by their rounding alone are equal, as 30 × 0.01 and 0.3 are; whole numbers, which
    codes are, are taken as they stand."""
    def compared(a: Any, b: Any) -> Any:
        near = np.abs(np.subtract(a, b)) <= ON_LIMIT * np.maximum(np.abs(a), np.abs(b))
        are_whole = (a == np.floor(a)) & (b == np.floor(b))
        return np.where(near & ~are_whole, compare(0, 0), compare(a, b))

    return compared


_BINARY: dict[str, Callable[..., Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": np.divide, "^": np.power, "**": np.power,
    "<": _comparing(np.less), "<=": _comparing(np.less_equal), ">": _comparing(np.greater), ">=": _comparing(np.greater_equal),
    "==": _comparing(np.equal), "!=": _comparing(np.not_equal),
}
_ARITHMETIC: dict[str, Any] = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


@dataclass(frozen=True, slots=True)
class Formula:
    """A parsed expression: ``names`` are the variables, ``tree`` nested tuples of the grammar."""

    text: str
    tree: Any
    names: tuple[str, ...]

    def evaluate(self, planes: Mapping[str, Plane]) -> Plane:
        """The value on planes of equal shape, one for each name; masked where any is, or where the result is not finite."""
        valid: NDArray[np.bool_] | None = None
        for name in self.names:
            v = planes[name].valid
            valid = v if valid is None else both(valid, v)
        if valid is None:
            valid = np.ones((1, 1), dtype=bool)  # of numbers alone
        data, finite = np.empty(valid.shape), np.empty(valid.shape, dtype=bool)
        rows = max(1, _STRIP_VALUES // max(1, valid.shape[1]))
        with np.errstate(all="ignore"):
            for top in range(0, valid.shape[0], rows):
                at = slice(top, top + rows)
                strip = data[at]
                found = _value(self.tree, {name: planes[name].strip(at) for name in self.names}, strip)
                if found is not strip:
                    strip[...] = found
                np.isfinite(strip, out=finite[at])
        return Plane(data, both(looked_at(finite), valid))


def _value(tree: Any, planes: Mapping[str, NDArray[Any]], out: NDArray[np.float64] | None = None) -> Any:
    """The value of a tree; arithmetic is written into ``out`` where that is given."""
    head = tree[0]
    if head == "number":
        return tree[1]
    if head == "name":
        return planes[tree[1]]
    if head == "neg":
        return -_value(tree[1], planes)
    if head == "call":
        return FUNCTIONS[tree[1]][1](*(_value(a, planes) for a in tree[2]))
    # a left side that is arithmetic itself may use the place of the result
    left, right = _value(tree[1], planes, out if head in _ARITHMETIC else None), _value(tree[2], planes)
    if head in _ARITHMETIC and isinstance(left, np.ndarray) and left.dtype == np.float64 and left.ndim:
        # a value in between is nobody else's: the result takes its place
        place = out if out is not None else left if tree[1][0] in _ARITHMETIC else None
        return _ARITHMETIC[head](left, right, out=place)
    result = _BINARY[head](left, right)
    return result.astype(np.float64) if getattr(result, "dtype", None) == np.bool_ else result


def _left(tokens: Any) -> Any:
    items = list(tokens)
    tree = items[0]
    for op, right in zip(items[1::2], items[2::2], strict=True):
        tree = (op, tree, right)
    return [tree]


def _power(tokens: Any) -> Any:
    items = list(tokens)
    tree = items[-1]
    for op, left in zip(items[-2::-2], items[-3::-2], strict=True):
        tree = (op, left, tree)
    return [tree]


def _grammar() -> pp.ParserElement:
    expression, unary = pp.Forward(), pp.Forward()
    number = pp.Regex(r"(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?").set_parse_action(lambda t: [("number", float(t[0]))])
    word = pp.Regex(r"[A-Za-z_][A-Za-z0-9_]*")
    call = (word + pp.Suppress("(") + pp.DelimitedList(expression) + pp.Suppress(")")).set_parse_action(
        lambda t: [("call", t[0], tuple(t[1:]))])
    name = word.copy().set_parse_action(lambda t: [("name", t[0])])
    atom = number | call | name | (pp.Suppress("(") + expression + pp.Suppress(")"))
    power = (atom + pp.ZeroOrMore(pp.one_of("** ^") + unary)).set_parse_action(_power)
    unary <<= (pp.Suppress("-") + unary).set_parse_action(lambda t: [("neg", t[0])]) | (pp.Suppress("+") + unary) | power
    product = (unary + pp.ZeroOrMore((pp.Regex(r"\*(?!\*)") | pp.Literal("/")) + unary)).set_parse_action(_left)
    total = (product + pp.ZeroOrMore(pp.one_of("+ -") + product)).set_parse_action(_left)
    expression <<= (total + pp.Optional(pp.one_of("<= >= == != < >") + total)).set_parse_action(_left)
    return expression


_GRAMMAR = _grammar()


@lru_cache(maxsize=512)
def parse(text: str, of_numbers: bool = False) -> Formula:
    """The formula of a text. ModelError (BAD_ARGUMENT) where it is too long, too deep, wrong, or calls what is not allowed, and
    where it names nothing unless it may be ``of_numbers`` alone."""
    if len(text) > MAX_LENGTH:
        raise ModelError(f"The expression has {len(text)} characters; at most {MAX_LENGTH} are read.", code="BAD_ARGUMENT")
    depth = deepest = 0
    for character in text:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    # runs of signs nest the parser as parentheses do
    signs = max((len(run) for run in re.findall(r"[-+\s]{2,}", text)), default=0)
    if max(deepest, signs) > MAX_DEPTH or len(re.findall(r"\^|\*\*", text)) > MAX_DEPTH:
        raise ModelError(f"The expression nests deeper than {MAX_DEPTH}.", code="BAD_ARGUMENT")
    try:
        tree = _GRAMMAR.parse_string(text, parse_all=True)[0]
    except pp.ParseBaseException as error:
        raise ModelError(f"The expression is not understood at character {error.loc + 1}: only numbers, names, + - * / ^, "
                         f"comparisons and {', '.join(sorted(FUNCTIONS))} are allowed.", code="BAD_ARGUMENT") from error
    names: dict[str, None] = {}
    _collect(tree, names)
    if not names and not of_numbers:
        raise ModelError("The expression names no band or node.", code="BAD_ARGUMENT")
    return Formula(text, tree, tuple(names))


def _collect(tree: Any, names: dict[str, None]) -> None:
    if tree[0] == "name":
        names[tree[1]] = None
    elif tree[0] == "call":
        if tree[1] not in FUNCTIONS:
            raise ModelError(f"The function {tree[1]!r} is not allowed; known: {', '.join(sorted(FUNCTIONS))}.",
                             code="BAD_ARGUMENT")
        n = FUNCTIONS[tree[1]][0]
        if len(tree[2]) != n:
            raise ModelError(f"{tree[1]} takes {n} values, not {len(tree[2])}.", code="BAD_ARGUMENT")
        for argument in tree[2]:
            _collect(argument, names)
    elif tree[0] != "number":
        for argument in tree[1:]:
            _collect(argument, names)
