"""What a call says of itself: its metric, its statistics by one name, the scenes under its nodes."""

from __future__ import annotations

from apps.verification.case import Case


def metric_of(case: Case) -> str:
    """The metric that a measure's call asks for; '' for other tools."""
    spec = case.arguments.get("spec")
    return str(spec.get("metric", "")) if case.observation.tool == "measure" and isinstance(spec, dict) else ""


SAME_STATISTIC = {
    "average": "mean",
    "minimum": "min",
    "maximum": "max",
    "standard_deviation": "std",
    "stddev": "std",
    "stdev": "std",
}


def scenes_under(case: Case, names: list[str]) -> set[str]:
    found: set[str] = set()
    todo, seen = list(names), set()
    while todo:
        name = todo.pop()
        node = case.nodes.get(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        todo.extend(node["inputs"])
        if node["op"] == "asset.scene":
            found.add(str(node["params"].get("scene")))
    return found
