"""From the words beside things to what is measured of them: how many, which area or length, how far, which share."""

from __future__ import annotations

import re
from typing import Any

from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.spatial import SIGN
from apps.agent.planner.text import Text
from apps.agent.planner.thing_words import DISTANCE, SHARE, Roles, is_extreme_of_a_thing
from apps.agent.units import UNIT_PATTERN, dimension, unit_of

_DENSITY = {"km2": "1/km2", "ha": "1/ha", "m2": "1/m2"}


def measured_fields(
    t: Text, roles: Roles, unit: str, limit: tuple[float, str, bool] | None, noun: str = "", *, is_one: bool = False
) -> dict[str, Any] | str:
    """The form's fields of a ``measure`` or ``distance``: the metric that the words ask for. A text says why there is none.
    ``limit``: (number, above or below, whether the number itself counts) that decides yes or no; ``noun``: what the subject's
    file holds; ``is_one``: a single thing, of which a relation holds or does not."""
    out: dict[str, Any] = {"target": roles.subject, "reference": roles.reference, "others": roles.others, "unit": unit}
    if roles.is_named:
        listed = next((w for w in roles.where if w.figure), None)
        what = "area" if listed is None or listed.figure == "area" else "length"
        if listed is None:
            what = {"polygons": "area", "lines": "length"}.get(noun, "count")
        out["length_of"] = "outline" if listed is not None and listed.figure == "outline" else ""
        return out | {"what": what, "each": "target", "is_named": True, "where": tuple(w.model_dump() for w in roles.where)}
    if roles.where:
        out["where"] = tuple(w.model_dump() for w in roles.where)
    if roles.over:
        out["over"] = roles.over
    if roles.relation:
        out |= {"relation": roles.relation, "relation_m": roles.distance_m, "nearest_k": roles.nearest_k}
    extreme = _with_extreme(t, noun)
    read = _metric(t, roles, unit, limit, noun, is_one=is_one)
    if isinstance(read, str):
        return read
    if extreme:
        read["pick_of"] = {"figure": extreme[0], "pick": extreme[1]}
    if "pick_of" in read:
        out["where"] = (*out.get("where", ()), read.pop("pick_of"))
    if read["what"] == "share" and not roles.relation and "where" in out:
        # without anything else that could be the part, the conditions tell it
        out["where"] = tuple({**w, "is_given": False} for w in out["where"])
    return _cut_or_listed(t, out | read, roles, noun, is_one=is_one)


def _metric(
    t: Text, roles: Roles, unit: str, limit: tuple[float, str, bool] | None, noun: str, *, is_one: bool
) -> dict[str, Any] | str:
    """What is measured of the things."""
    density = t.take(rf"\b(?:per|for each|in each) (?P<u>{UNIT_PATTERN})(?![\w²^])")
    is_distance = t.take(rf"{DISTANCE}|\bhow many (?:km|metres|meters|m|kilometres|kilometers)\b") is not None
    if is_distance or roles.kind == "distance":
        which = "minimum"
        if is_extreme_of_a_thing(t) and not roles.pick:
            # "how far is the largest field from the road": the distance of that one
            first = re.search(SIGN, t.text)
            at = t.find(r"\b(?:largest|biggest|smallest|greatest|longest|shortest)\b")
            is_of_subject = first is not None and at is not None and at.start() < first.start()
            picked = _one_of_them(t, noun, r"\0 *(?:is|are|between|of|from)?") if is_of_subject else None
            if picked is None or t.has(r"\b(?:mean|average|longest|maximum|farthest|furthest|shortest)\b"):
                return _OTHER_EXTREME
            t.take_all(r"\b(?:away|apart|straight|line)\b")
            return {"what": "distance", "distance_statistic": which, "pick_of": picked}
        if roles.pick:
            return {"what": "distance", "distance_statistic": which}
        if t.take(r"\b(?:mean|average)\b"):
            which = "mean"
        elif t.take(r"\b(?:longest|largest|maximum|farthest|furthest|greatest)\b"):
            # among themselves the pair farthest apart is meant, but where neighbours are named
            near = r"\b(?:neighbou?rs?|neighbou?ring|nearest|closest)\b"
            which = "maximum" if roles.reference or t.has(near) else "farthest"
            t.take_all(r"\bneighbou?ring\b" if which == "maximum" else r"\b(?:any )?(?:two|pair)\b")
        t.take_all(r"\b(?:away|apart|shortest|straight|line|closest|nearest|minimum|smallest|least|each|every)\b")
        if not roles.reference:
            t.take_all(r"\b(?:between|neighbours?|neighbors?|one another|each other|other)\b")
        return {"what": "distance", "distance_statistic": which}
    if t.take(r"\bdensit(?:y|ies)\b") or density or roles.metric == "density":
        per = (unit_of(density["u"]) if density else None) or "km2"
        if per not in _DENSITY:
            return f"A density is given per km², ha or m², not per {per}."
        t.take_all(r"\bhow many\b|\bnumber of\b|\bmany\b")
        return {"what": "density", "unit": _DENSITY[per]}
    if dimension(unit) == "length" and t.has(r"\bareas?\b") and not t.said(r"\blengths?\b|\blong\b"):
        return f"An area is not given in {unit}."
    if t.take(SHARE) or unit == "%":
        if not roles.relation and not roles.reference and not roles.where:
            return "A share of what? Name the relation, like “within 100 m of the water”."
        return {"what": "share"}
    which = "outline" if t.take(_PERIMETER) else "extent" if t.take(_LONG_SIDE) else ""
    if which:
        picked = _one_of_them(t, noun, r"\bof")
        if t.has(r"\bof (?:the )?\0* ?(?:largest|biggest|smallest|longest|shortest|greatest)\b"):
            return _OTHER_EXTREME
        if picked is not None:
            t.take_all(r"\bhow long\b|\blengths?\b|\bof the\b(?= *$)")
            return {"what": "length", "length_of": which, "pick_of": picked}
        over = _over(t, roles)
        t.take_all(r"\bhow long\b|\blengths?\b|\bof the\b(?= *$)")
        return {"what": "length", "length_of": which} | ({"over": over} if over else {})
    if t.take(r"\b(?:total |combined |overall )?lengths?\b|\bhow long\b") or roles.metric == "length" or (
        dimension(unit) == "length" and (not roles.relation or noun == "lines")
    ):  # fmt: skip
        t.take_all(r"\bhow many\b")
        over = _over(t, roles)
        is_extent = roles.pick and not roles.reference and noun == "polygons"
        return {"what": "length"} | ({"over": over} if over else {}) | ({"length_of": "extent"} if is_extent else {})
    if noun == "lines" and roles.relation in CUTS and dimension(unit) != "area" and t.take(r"\bhow much\b"):
        return {"what": "length"}
    if t.take(r"\bratio\b"):
        if roles.relation or not roles.reference:
            return "A ratio of what to what? Name two things."
        t.take_all(r"\b(?:between|areas?|numbers?|of|to)\b")
        surfaces = [n for n in (roles.subject, roles.reference) if n in lexicon().targets or n.startswith("class ")]
        if len(surfaces) == 1:
            return "One of the two is counted and the other is a surface; they have no ratio."
        of = "area" if surfaces or dimension(unit) == "area" or t.said(r"\bareas?\b") else "count"
        return {"what": "ratio", "of": of, "unit": ""}
    if re.match(r"\W*(?:is|are|was|were|does|do|did|has|have)\b", t.text):
        is_any = bool(t.take_all(r"\b(?:any|at all|some|single|one)\b")) or t.said(r"\bthere\b") or limit is not None
        if not is_any and not is_one and roles.relation:
            return "Any of them, or all? Ask how many do, or whether any does."
        of_each = t.said(r"\b(?:larger|bigger|greater|smaller) than\b") and not t.said(
            r"\b(?:areas?|sizes?|total|together|combined|all of)\b"
        )
        if limit and dimension(unit) == "area" and of_each and not is_one and not roles.relation:
            return "Each of them, any of them, or all together? Write “are there any … larger than”, or “is the total area of …”."
        read: dict[str, Any] = {"what": "exists", "of": "area" if dimension(unit) == "area" else "count"}
        if limit:
            read |= {"limit": limit[0], "limit_op": (">" if limit[1] == "above" else "<") + ("=" if limit[2] else "")}
        return read
    is_area = t.take_all(r"\b(?:total |combined |overall )?(?:areas?|sizes?)\b|\bhow (?:much|large|big|extensive)\b|\bsurface\b")
    if is_area or dimension(unit) == "area" or roles.metric == "area":
        t.take_all(r"\bhow many\b")
        if not roles.pick and not roles.each and t.has(r"\b(?:longest|shortest)\b"):
            return _OTHER_EXTREME
        over = _over(t, roles)
        return {"what": "area"} | ({"over": over} if over else {})
    if t.said(r"\bhow many\b|\bnumbers? of\b|\bcounts?\b|\bamount of\b") or roles.metric == "count":
        t.take_all(rf"\bcounts?\b|\bobjects?\b|\bfeatures?\b|\brecords?\b|\bshapes?\b|\b{re.escape(noun or 'objects')}\b")
        return {"what": "count"}
    return "What is asked of them: how many, which area, which length, how far, which share?"


def _one_of_them(t: Text, noun: str, lead: str) -> dict[str, Any] | None:
    """The condition of "of the largest field", "how far is the longest road", read then: of polygons by area, of lines by length.
    None where the words pick no one, or an extreme that ``noun`` has not."""
    own = {"polygons": r"largest|biggest|smallest|greatest", "lines": r"longest|shortest"}.get(noun, "")
    m = t.find(rf"(?:{lead}) (?:the )?\0* ?(?P<s>{own})(?= *\0)") if own else None
    if m is None:
        return None
    t.mark(*m.span("s"))
    pick = "min" if m["s"] in ("smallest", "shortest") else "max"
    return {"figure": "area" if noun == "polygons" else "length", "pick": pick}


def _with_extreme(t: Text, noun: str) -> tuple[str, str] | None:
    """(figure, min or max) of "the county with the longest perimeter", read then."""
    figures = {"polygons": {"perimeter": "outline", "area": "area", "size": "area"}, "lines": {"length": "length"}}.get(noun, {})
    m = t.take(
        rf"\b(?:with|having|that has|which has) the (?P<s>largest|greatest|longest|biggest|smallest|shortest|least) "
        rf"(?P<f>{'|'.join(figures) or '(?!)'})\b"
    )
    return (figures[m["f"]], "min" if m["s"] in ("smallest", "shortest", "least") else "max") if m else None


def _over(t: Text, roles: Roles) -> str:
    """mean, median, minimum or maximum of single things, where the words say so and no one of them is picked; read then."""
    if roles.pick or roles.each:
        return ""
    for over, pattern in (
        ("mean", r"\b(?:mean|average)\b"), ("median", r"\bmedian\b"),
        ("maximum", r"\b(?:largest|biggest|greatest|longest|maximum|highest)\b"),
        ("minimum", r"\b(?:smallest|shortest|minimum|least|lowest)\b"),
    ):  # fmt: skip
        if t.take(pattern):
            return over
    return roles.over


def _cut_or_listed(t: Text, out: dict[str, Any], roles: Roles, noun: str, *, is_one: bool) -> dict[str, Any] | str:
    """Whether the things are cut where the relation ends or chosen whole, and whether each of several has its own figure. A text
    says why the words do not tell."""
    what, relation = out["what"], roles.relation
    is_area = what == "area" or (what == "exists" and out["of"] == "area")
    if roles.each:
        if what not in ("count", "area", "length", "share", "density", "distance"):
            return "For each of several I list numbers, areas, lengths, shares, densities or distances; ask for one of these."
        if noun == "lines" and what in ("count", "density") and roles.reference and relation == "inside":
            return _LINES_IN
        if what == "distance" and out["distance_statistic"] == "mean":
            return "For each of several the distance is the shortest one."
        if what == "share":
            if not roles.is_cover:
                return "The share of what, in each of several? Ask “what share of each … is covered by …”, or for the numbers."
            out |= {"of": "area"}
        out |= {"each": "reference" if roles.reference and what != "distance" else "target", "by": roles.by}
        if what in ("area", "length", "share") and out["each"] == "reference":
            out["clip"] = True
        if roles.pick:
            out |= {"what": "zone", "of": what, "pick": roles.pick, "rank": roles.rank, "top": roles.top}
        return out
    if roles.is_cover:
        if what not in ("share", "area"):
            return "What covers what is a share or an area."
        return out | {"clip": True, "of": "area"} | ({"denominator": "reference"} if what == "share" else {})
    if roles.is_bare:
        if what not in ("share", "area"):
            return "What is not covered is a share or an area."
        return out | {"clip": True, "of": "area"}
    if what == "share":
        of = "length" if t.take_all(r"\blengths?\b") else "area" if t.take_all(r"\bareas?\b|\bsurface\b") else ""
        t.take_all(r"\bby (?=\0*$)")
        by_number = bool(t.take_all(r"\bby (?:number|count)\b|\bnumber of\b")) if not of else False
        if not of and not by_number and relation in CUTS and noun in ("lines", "polygons"):
            if is_one:
                of = "length" if noun == "lines" else "area"
            elif noun == "lines" or relation in ("inside", "outside"):
                kind = "length" if noun == "lines" else "area"
                return f"The share by number or by {kind}? Write “what share of the {kind} of …”, or “… of the number of …”."
        if of and relation not in CUTS:
            return f"A share of the {of} is that which lies inside, outside, within or beyond something."
        return out | ({"of": of, "clip": True} if of else {})
    if what == "length" and out.get("length_of") and relation in ("inside", "outside") and not out.get("over"):
        if roles.how == "clause":
            return out
        if roles.how == "bare":
            return (
                "The part of their outlines that lies there, or the whole perimeters of those that lie there? Write “what length "
                "of the perimeter of … lies inside …”, or “the perimeter of the … that lie inside …”."
            )
    if what == "length" or is_area:
        if out.get("over"):
            return out
        is_cut = relation in ("inside", "outside") or (relation in CUTS and roles.how == "verb")
        if is_cut and any(w.relation for w in roles.where):
            return (
                "Things are cut at one outline at a time: ask for the area or length of the part inside one of them, or how many "
                "lie inside the one and within a distance of the other."
            )
        if relation in ("inside", "outside") or (relation in CUTS and roles.how == "verb"):
            return out | {"clip": True}
        if relation in CUTS and roles.how == "bare":
            kind = "length" if what == "length" else "area"
            return (
                f"The whole {kind} of those that come so near, or only the part that lies there? Write “the {kind} of the … that "
                f"come within”, or “what {kind} of the … lies within”."
            )
        return out
    if noun == "lines" and relation in ("inside", "outside"):
        if what == "exists" and relation == "inside":
            return out | {"relation": "overlaps"}
        return _LINES_IN
    return out


_OTHER_EXTREME = (
    "One figure of the one that is the extreme of another is not asked for at once. Ask which it is first, then for its figure "
    "by name."
)
_PERIMETER = r"\b(?:total |combined |overall )?(?:perimeters?|circumferences?)\b"
_LONG_SIDE = r"\b(?:mean |average )?long(?:er|est)? sides?\b"
_LINES_IN = (
    "A line may lie partly inside: those that cross it, those that lie in it wholly, or their length in it? Write “how many … "
    "overlap”, “how many … lie completely inside”, or “what length of … lies inside”."
)
# Relations that tell which part of a thing is meant.
CUTS = frozenset({"inside", "outside", "within", "beyond"})
