"""The same quantity by another path: what a step may still try when every call of its plan was rejected.

A call that went wrong is not repeated, and another index or threshold would answer another question. The same formula written out
over its bands is a call of its own, goes another way through the tool, and gives the same number. What comes of it is judged like
any other observation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.verification.formulas import INDICES


def equivalents(tool: str, arguments: Mapping[str, Any]) -> tuple[dict[str, Any], ...]:
    """Arguments of calls that give the same quantity; empty where none is known."""
    nodes = arguments.get("nodes")
    if tool != "execute" or not isinstance(nodes, list | tuple):
        return ()
    out, is_changed = [], False
    for node in nodes:
        params = node.get("params") if isinstance(node, dict) else None
        formula = INDICES.get(str(params.get("index")).lower()) if isinstance(params, dict) else None
        if node.get("op") == "raster.product.index" and formula is not None and formula.pair is not None and params is not None:
            first, second = formula.pair
            rest = {k: v for k, v in params.items() if k != "index"}
            node = {**node, "op": "raster.product.normalized_difference", "params": {**rest, "first": first, "second": second}}
            is_changed = True
        out.append(node)
    return ({**arguments, "nodes": out},) if is_changed else ()
