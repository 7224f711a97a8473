"""Consistency of what is held together: dates made of one unit, each of them once, classes of one legend, formulas that
mean something, and anomalies of one season."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, failed, not_applicable, passed
from apps.verification.checks.catalogue import check
from apps.verification.units import dimension

_OVER_DATES = frozenset({
    "raster.product.difference", "raster.product.composite", "raster.product.anomaly", "raster.product.pixel_trend",
    "raster.product.best_pixel", "raster.summarize.series", "raster.summarize.trend", "raster.summarize.series_analysis",
    "raster.summarize.agreement"})  # fmt: skip
_ONCE = frozenset({
    "raster.product.composite", "raster.product.anomaly", "raster.product.pixel_trend", "raster.product.pansharpen",
    "raster.summarize.series", "raster.summarize.trend", "raster.summarize.series_analysis"})  # fmt: skip
# Nodes through which a map of classes or a value passes as it is.
_THROUGH = frozenset({"raster.product.resample", "raster.product.reproject", "raster.product.apply_mask"})
_INDICES = frozenset({"raster.product.index", "raster.product.normalized_difference", "raster.product.ratio"})
_CODES = frozenset({"class", "qa", "mask"})


def _unit(unit: str) -> str:
    """Reflectance before the division by the sun's angle is reflectance to a ratio of bands."""
    return "reflectance" if unit.startswith("reflectance") else unit


def _source(case: Case, name: str) -> tuple[str, dict[str, Any]]:
    """(id, node) of what a node hands on unchanged."""
    seen: set[str] = set()
    while name not in seen and name in case.nodes and case.nodes[name]["op"] in _THROUGH and case.nodes[name]["inputs"]:
        seen.add(name)
        name = case.nodes[name]["inputs"][0]
    return name, case.nodes.get(name, {"op": "", "params": {}, "inputs": []})


@check(
    "dates_of_one_unit",
    catches=("scale or offset twice or never", "another scene's result"),
    reads=("/evidence/source/band_mapping", "/arguments/nodes"),
    family="radiometry",
)
def dates_of_one_unit(case: Case) -> Finding:
    """What is held against each other over dates is made of bands in one unit: an index of reflectance is not compared with one
    of stored numbers, whose offset would stand as a change."""
    if case.observation.tool == "execute":
        used = set(case.upstream(case.output))
        ops = {case.nodes[n]["op"] for n in used}
        if not ops & _OVER_DATES or not ops & _INDICES:
            return not_applicable("no index is compared over dates")
    elif not (case.observation.tool == "perceive" and len(case.used_scenes) > 1):
        return not_applicable("no dates are compared")
    mapping = case.evidence("source", "band_mapping")
    at = ("/evidence/source/band_mapping", "/arguments/nodes")
    if not isinstance(mapping, dict) or not all(isinstance(v, dict) for v in mapping.values()):
        return not_applicable("no bands of several scenes on record")
    units: dict[str, dict[str, str]] = {}
    for scene_id, roles in mapping.items():
        scene = case.scenes.get(scene_id)
        for role, index in roles.items():
            band = next((b for b in scene.bands if b.index == index), None) if scene is not None else None
            if band is not None and scene is not None and band.role not in _CODES:
                units.setdefault(role, {}).setdefault(_unit(band.unit), scene.name)
    if not units or len(mapping) < 2:
        return not_applicable("the bands are those of one scene")
    for role, held in units.items():
        if len(held) > 1:
            told = ", ".join(f"{unit} in {name}" for unit, name in sorted(held.items()))
            return failed(
                f"{role} is in different units on these dates ({told}): the figures do not compare. Say scale and offset of the "
                "scenes whose numbers stand as stored.",
                measured=sorted(held), expected="one unit", at=at)  # fmt: skip
    return passed("Each band is in one unit on all dates.", measured=sorted(units), at=at)


@check(
    "each_input_once",
    catches=("one date for many", "another scene's result"),
    reads=("/arguments/nodes",),
    family="consistency",
)
def each_input_once(case: Case) -> Finding:
    """A date, or a band that is sharpened, stands among the inputs of one node once: given twice it would count twice."""
    nodes = {n: case.nodes[n] for n in case.upstream(case.output) if case.nodes[n]["op"] in _ONCE}
    if not nodes:
        return not_applicable("nothing takes several dates or bands")
    for name, node in nodes.items():
        seen: dict[str, str] = {}
        for one in node["inputs"]:
            key = _made_as(case, one)
            if key in seen:
                alike = f"{seen[key]} and {one}, which are made alike of one scene"
                return failed(
                    f"Step “{name}” of the graph takes {one + ' twice' if seen[key] == one else alike}.",
                    measured=one, expected="each input once", at=("/arguments/nodes",))  # fmt: skip
            seen[key] = one
    return passed("No input is given twice.", measured=len(nodes), at=("/arguments/nodes",))


def _made_as(case: Case, name: str, depth: int = 0) -> str:
    """How a node comes about, down to its scenes, whatever its nodes are called."""
    node = case.nodes.get(name)
    if node is None or depth > 30:
        return name
    params = sorted((k, repr(v)) for k, v in node["params"].items())
    return f"{node['op']}{params}({','.join(_made_as(case, i, depth + 1) for i in node['inputs'])})"


@check(
    "classes_of_one_legend",
    catches=("another scene's result", "wrong threshold"),
    reads=("/arguments/nodes",),
    family="consistency",
)
def classes_of_one_legend(case: Case) -> Finding:
    """Transitions are between two maps of one legend: the same limits and names, or both a scene's own classes."""
    node = case.nodes.get(case.output, {"op": "", "inputs": []})
    if node["op"] != "raster.summarize.transitions" or len(node["inputs"]) != 2:
        return not_applicable("no transitions")
    legends = []
    for name in node["inputs"]:
        _, source = _source(case, name)
        params = source["params"]
        if source["op"] == "raster.product.classify":
            breaks, names = params.get("breaks") or [], params.get("names") or []
            told = (
                _index_under(case, source["inputs"]),
                f"preset {params['preset']}" if params.get("preset") else "",
                f"limits {', '.join(map(repr, breaks))}" if breaks else "",
                f"names {', '.join(json.dumps(n, ensure_ascii=False) for n in names)}" if names else "",
            )
            legends.append("; ".join(filter(None, told)))
        elif source["op"] == "raster.product.band":
            legends.append(f"a scene's {params.get('role')}")
        else:
            return not_applicable("masks, or classes of a kind that has no legend here")
    if legends[0] != legends[1]:
        return failed(
            "The two maps have different legends, so another code is no change.",
            measured=legends[1][:200], expected=legends[0][:200], at=("/arguments/nodes",))  # fmt: skip
    return passed("Both maps have one legend.", measured=legends[0][:200], at=("/arguments/nodes",))


def _index_under(case: Case, names: Sequence[str]) -> str:
    """The index or role that a classified raster is of."""
    for name in names:
        for n in case.upstream(name):
            params = case.nodes[n]["params"]
            if case.nodes[n]["op"].startswith("raster.product") and (params.get("index") or params.get("role")):
                return str(params.get("index") or params.get("role"))
    return ""


@check(
    "formula_has_a_meaning",
    catches=("wrong unit", "wrong statistic", "wrong pairing or band"),
    reads=("/arguments/nodes",),
    family="consistency",
)
def formula_has_a_meaning(case: Case) -> Finding:
    """In a formula of the caller's own no decibels are added, multiplied or divided, no values in different units are added or
    subtracted, and codes and directions are not taken for quantities."""
    formulas = ("raster.product.math", "value.calculate")
    nodes = [case.nodes[n] for n in case.upstream(case.output) if case.nodes[n]["op"] in formulas]
    if not nodes:
        return not_applicable("no formula of the caller's own")
    for node in nodes:
        text = str(node["params"].get("expression", ""))
        kinds = {name: _kind_of(case, node, name) for name in set(re.findall(r"[A-Za-z_]\w*(?!\w*\s*\()", text))}
        wrong = _without_meaning(text, {k: v for k, v in kinds.items() if v})
        if wrong:
            return failed(wrong, measured=text[:200], at=("/arguments/nodes",))
    return passed("The formulas put together what belongs together.", measured=len(nodes), at=("/arguments/nodes",))


def _kind_of(case: Case, node: dict[str, Any], name: str) -> str:
    """The unit of what a name of a formula stands for; ``code`` or ``direction`` where it is such; '' where that is not known."""
    first = case.nodes.get(node["inputs"][0]) if node["inputs"] else None
    if first is not None and first["op"] == "asset.scene":
        return _of_band(case.scenes.get(str(first["params"].get("scene"))), name)
    _, source = _source(case, name)
    if source["op"] == "raster.summarize.area":
        return str(source["params"].get("unit") or "m2")
    if source["op"] == "raster.product.classify":
        return "code"
    if source["op"] == "raster.product.terrain" and source["params"].get("product") == "aspect":
        return "direction"
    if source["op"] == "raster.product.band" and source["inputs"]:
        scene = case.nodes.get(source["inputs"][0], {"params": {}})["params"].get("scene")
        return _of_band(case.scenes.get(str(scene)), str(source["params"].get("role")))
    return ""


def _of_band(scene: SceneInfo | None, role: str) -> str:
    held = scene.bands_with_role(role) if scene is not None else ()
    if len(held) != 1:
        return ""
    return "code" if role in _CODES else held[0].unit if held[0].unit != "1" else ""


def _without_meaning(text: str, kinds: dict[str, str]) -> str:
    """What is wrong with a formula whose names have these kinds; '' where nothing is seen."""
    for one, how, other in re.findall(r"(?=(?<![\w.])([A-Za-z_]\w*)\s*([-+*/])\s*([A-Za-z_]\w*)(?![\w(]))", text):
        a, b = kinds.get(one, ""), kinds.get(other, "")
        # what stands before a product or behind it is not a bare name
        if a == b == "dB" and how != "-":
            return f"{one} {how} {other}: both are decibels, which are logarithms and are only subtracted."
        bare = re.search(rf"(?:^|[(,<>=])\s*{one}\s*[-+]\s*{other}\s*(?:$|[),<>=])", text) is not None
        if how in "+-" and bare and a and b and a != b and not {a, b} & {"code", "direction"}:
            return f"{one} {how} {other}: {a} and {b} are different units."
        if how == "/" and a != b and {dimension(a), dimension(b)} in ({"area"}, {"length"}):
            return f"{one} / {other}: {a} and {b} measure the same in different units."
    if not re.search(r"[<>=]|\b(?:sin|cos|tan)\b", text):
        for name, kind in kinds.items():
            if kind in ("code", "direction"):
                return f"{name} is a {kind}, and the formula takes it for a quantity."
    return ""


@check(
    "anomaly_of_one_season",
    "warn",
    catches=("one date for many", "day for night"),
    limits=("season_days",),
    reads=("/inputs", "/arguments/nodes"),
    family="plausibility",
)
def anomaly_of_one_season(case: Case) -> Finding:
    """What an anomaly is compared with is of the same season of other years; else a part of it is the season's."""
    node = next((case.nodes[n] for n in case.upstream(case.output) if case.nodes[n]["op"] == "raster.product.anomaly"), None)
    if node is None or len(node["inputs"]) < 2:
        return not_applicable("no anomaly")
    at = ("/inputs", "/arguments/nodes")

    def days(names: Sequence[str]) -> list[Any]:
        ids = dict.fromkeys(
            str(case.nodes[n]["params"].get("scene")) for name in names for n in case.upstream(name)
            if case.nodes[n]["op"] == "asset.scene")  # fmt: skip
        return [case.scenes[i].acquired_at for i in ids if i in case.scenes and case.scenes[i].acquired_at is not None]

    now, past = days(node["inputs"][:1]), days(node["inputs"][1:])
    if len(now) != 1 or not past:
        return not_applicable("the dates are not known")
    away = [abs(d.timetuple().tm_yday - now[0].timetuple().tm_yday) for d in past]
    farthest = max(min(n, 365 - n) for n in away)
    if farthest > case.limits.season_days:
        return failed(
            "Dates of other seasons are in what the anomaly is compared with: a part of it is the season.",
            measured=farthest, expected=case.limits.season_days, unit="d", at=at)  # fmt: skip
    return passed("All dates are of one season.", measured=farthest, expected=case.limits.season_days, unit="d", at=at)
