"""Contract of a call with a plain question: a figure of an index or a band is of that and of nothing made of it, percentile and
extreme are those that are asked for, and a target is found by an index that shows it."""

from __future__ import annotations

import re
from typing import Any

from apps.verification.case import Case, Finding, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.formulas import INDICES
from apps.verification.products import is_formula_of

_PLAIN = re.compile(
    r"^(?:what is|what's|give|compute|calculate|tell|find|report)?\s*(?:me\s+)?(?:the\s+)?"
    r"(?:mean|average|median|maximum|minimum|standard deviation|\d+(?:st|nd|rd|th) percentile)"
    r"(?:\s+value)?(?:\s+of)?(?:\s+the)?\s+"
    r"(?P<what>[a-z0-9_]+)(?:\s+band)?(?:\s+(?:in|of|over|on|for|within|inside)\b[^,;]*)?\s*[?.]?$"
)
_NOT_PLAIN = re.compile(
    r"\b(?:chang|differ|anomal|trend|than|compar|above|below|where|times|squar|absolut|per cent|percent|between)\w*"
)
# What values may pass through and stay what they are.
_AS_IT_IS = frozenset({
    "raster.product.apply_mask", "raster.product.composite", "raster.product.resample", "raster.product.reproject",
    "raster.product.coregister"})  # fmt: skip
# Words that name the whole of an image or of a region, and no part by its values.
_WHOLE = frozenset({
    "band", "in", "of", "over", "on", "for", "within", "inside", "the", "this", "that", "image", "scene", "picture", "photo",
    "raster", "region", "area", "whole", "entire", "all"})  # fmt: skip
_ROLES = frozenset({"red", "green", "blue", "nir", "swir1", "swir2"})
_NAMES = frozenset(INDICES) | _ROLES


@check(
    "plain_figure_as_asked",
    catches=("wrong index", "wrong band mapping", "wrong statistic"),
    reads=("/arguments/nodes", "/task/question"),
    family="contract",
)
def plain_figure_as_asked(case: Case) -> Finding:
    """A question for a figure of one index or band is answered by that index or band as it is: by no other formula, nothing
    smoothed, squared or turned round, of no pixels chosen by their own values, and no arithmetic of other figures."""
    found = _PLAIN.match(case.text.strip())
    what = found["what"] if found is not None else ""
    node = case.nodes.get(case.output)
    if node is None or case.kind != "statistic" or what not in _NAMES or _NOT_PLAIN.search(case.text):
        return not_applicable("no plain question for a figure of one index or band")
    if len(_NAMES & set(re.findall(r"[a-z0-9_]+", case.text))) > 1:
        return not_applicable("several indices or bands are asked about")
    at = ("/arguments/nodes", "/task/question")
    wrong = _made_otherwise(case, what, node)
    if wrong:
        return failed(f"The question asks for {what}, and the figure is of {wrong}.", measured=wrong, expected=what, at=at)
    return passed("The figure is of what was asked for.", measured=what, at=at)


def _made_otherwise(case: Case, what: str, node: dict[str, Any]) -> str:
    """What a figure is of, where it is not of an index or band as it is; '' where it is, or where that cannot be followed."""
    if node["op"] == "value.calculate":
        names = node["inputs"]
        return "" if names and str(node["params"].get("expression") or "").strip() == names[0] else "arithmetic of other figures"
    if node["op"] != "raster.summarize.statistic" or not node["inputs"]:
        return ""
    source = case.nodes.get(node["inputs"][0])
    for _ in range(len(case.nodes)):
        if source is None or source["op"] not in _AS_IT_IS or not source["inputs"]:
            break
        if _is_chosen_by_values(case, source) and not _names_a_part(case):
            return f"the pixels alone where {what}, or what is made of the same bands, is high or low"
        source = case.nodes.get(source["inputs"][0])
    if source is None:
        return ""
    op, params = source["op"], source["params"]
    if op == "raster.product.index":
        return "" if str(params.get("index")).lower() == what else str(params.get("index"))[:40]
    if op == "raster.product.band":
        return "" if params.get("role") == what else f"the band {str(params.get('role'))[:40]}"
    if op == "raster.product.math":
        of_scene = all(case.nodes.get(i, {}).get("op") == "asset.scene" for i in source["inputs"])
        expression = str(params.get("expression") or "")
        if of_scene and what in INDICES:
            return f"another formula: {expression[:80]}" if is_formula_of(what, expression) is False else ""
        if of_scene:
            return "" if expression.strip() == what else f"a formula: {expression[:80]}"
        return "" if expression.strip() in source["inputs"] else f"a formula of other rasters: {expression[:80]}"
    return "values of neighbours" if op == "raster.product.focal" else ""


def _is_chosen_by_values(case: Case, node: dict[str, Any]) -> bool:
    """Whether a node leaves pixels out by a limit of an index or a formula: no mask of quality, of classes or of a layer."""
    if node["op"] != "raster.product.apply_mask" or len(node["inputs"]) < 2:
        return False
    above = [case.nodes[n]["op"] for n in case.upstream(node["inputs"][1]) if n in case.nodes]
    made = ("raster.product.index", "raster.product.math", "raster.product.normalized_difference")
    return "raster.product.threshold" in above and any(op in made for op in above)


def _names_a_part(case: Case) -> bool:
    """Whether a plain question says more than the figure, the index and the image: what of it is meant."""
    found = _PLAIN.match(case.text.strip())
    rest = case.text.strip()[found.end("what") :] if found is not None else ""
    return bool(set(re.findall(r"[a-z]+", rest)) - _WHOLE)


@check("percentile_as_asked", catches=("wrong statistic",), reads=("/arguments/nodes", "/task/question"), family="contract")
def percentile_as_asked(case: Case) -> Finding:
    """The percentile is the one that the question names."""
    asked = {float(n) for n in re.findall(r"\b(\d+(?:\.\d+)?)(?:st|nd|rd|th)\s+percentile", case.text)}
    used = [number_of(n["params"].get("percentile")) for n in case.nodes.values() if n["params"].get("statistic") == "percentile"]
    known = {u for u in used if u is not None}
    if len(asked) != 1 or not known:
        return not_applicable("no single percentile is asked for, or none is computed")
    at = ("/arguments/nodes", "/task/question")
    if asked & known:
        return passed("The percentile is the one asked.", measured=sorted(known), at=at)
    return failed("Another percentile was computed.", measured=sorted(known), expected=sorted(asked), at=at)


_LEAST = re.compile(r"\b(?:lowest|least|smallest|minimum|minimal|coldest|driest|worst)\b")
_MOST = re.compile(r"\b(?:highest|most|largest|greatest|maximum|maximal|hottest|warmest|peak|best)\b")


@check(
    "extreme_as_asked", catches=("wrong statistic", "wrong sign"), reads=("/arguments/nodes", "/task/question"), family="contract"
)
def extreme_as_asked(case: Case) -> Finding:
    """Where the question asks for the lowest the lowest is picked, where it asks for the highest the highest."""
    node = case.nodes.get(case.output)
    picked = str(node["params"].get("pick") or "") if node is not None else ""
    least, most = bool(_LEAST.search(case.text)), bool(_MOST.search(case.text))
    if picked not in ("min", "max") or least == most or not re.search(r"\b(?:which|when|where|what date|on what)\b", case.text):
        return not_applicable("no extreme is picked, or the words name none")
    # the worst of what grows with harm, and falls and losses, are not followed
    if re.search(r"\b(?:drop|loss|fall|decreas|declin|chang|worst|best|driest|coldest|warmest|hottest)\w*", case.text):
        return not_applicable("words whose side hangs on what is measured")
    at = ("/arguments/nodes", "/task/question")
    if (picked == "min") != least:
        return failed("The other extreme was picked.", measured=picked, expected="min" if least else "max", at=at)
    return passed("The extreme is the one asked.", measured=picked, at=at)


# Targets, by words for them, and the sides of indices on which they lie.
_SHOWN_BY: tuple[tuple[re.Pattern[str], dict[str, str]], ...] = (
    (re.compile(r"^(?:open )?(?:water|flood|lake|river|sea|pond)", re.I),
     {"ndwi": "above", "mndwi": "above", "awei": "above", "awei_sh": "above", "awei_nsh": "above", "wri": "above",
      "ndvi": "below"}),
    (re.compile(r"^(?:green )?(?:vegetation|crop|forest|tree|grass)", re.I),
     {"ndvi": "above", "evi": "above", "evi2": "above", "savi": "above", "msavi": "above", "osavi": "above", "gndvi": "above",
      "ndre": "above", "ndwi": "below", "exg": "above"}),
    (re.compile(r"^(?:snow|ice)", re.I), {"ndsi": "above"}),
)  # fmt: skip


@check(
    "index_shows_the_target",
    catches=("wrong index", "wrong threshold", "wrong target"),
    reads=("/arguments/regions_method", "/arguments/target_groups"),
    family="contract",
)
def index_shows_the_target(case: Case) -> Finding:
    """Water, vegetation and snow are found on the side of an index on which they lie: no water where NDWI is low or NDVI high."""
    method, groups = case.regions_method, case.arguments.get("target_groups")
    if method.get("kind") != "index_threshold" or not isinstance(groups, dict) or len(groups) != 1:
        return not_applicable("no target by an index")
    target, index, side = str(next(iter(groups))), str(method.get("index")).lower(), str(method.get("side") or "above")
    sides = next((s for pattern, s in _SHOWN_BY if pattern.search(target)), None)
    at = ("/arguments/regions_method", "/arguments/target_groups")
    if sides is None or index not in sides or index in case.text:
        return not_applicable("an index or a target that is not followed, or that the question names")
    if sides[index] != side:
        return failed(
            f"{target} does not lie where {index} is {'high' if side == 'above' else 'low'}.",
            measured=side,
            expected=sides[index],
            at=at,
        )
    return passed("The target lies on that side of the index.", measured=side, at=at)
