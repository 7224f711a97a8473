"""Roles of the things that a question names: zones of an image, subject and reference of a relation or a distance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.spatial import SIGN, Found, Relation, nearest_in, relation_in
from apps.agent.planner.text import Text
from apps.agent.units import UNIT_PATTERN, convert, dimension, unit_of
from apps.core.evidence.plan import Question
from apps.core.geo.vector import LINES, POINTS, POLYGONS

_DISTANCE = r"\bhow (?:far|close)(?: apart)?\b|\b(?:the )?distances?\b"
_PREPOSITION = r"(?:\b(?:in|inside|within|of|for|over|across|between|under|along|from|on|at) )"
_COMPARING = (
    r"\b(?:larger|bigger|higher|greater|more|smaller|lower|less|fewer|highest|lowest|largest|smallest|most|least|than|or)\b"
)
_DENSITY = {"km2": "1/km2", "ha": "1/ha", "m2": "1/m2"}


@dataclass(frozen=True, slots=True)
class Roles:
    """``zone``: figures of the image inside of ``zones``; ``compare``: of each of several; ``which``: which polygon of a file;
    ``measure``: figures of ``subject``, chosen by ``relation`` to ``reference``; ``distance``: between the two. ``refusal`` says
    why none of these can be."""

    kind: Literal["", "zone", "compare", "which", "measure", "distance"] = ""
    zones: tuple[str, ...] = ()
    buffer_m: float = 0.0
    subject: str = ""
    reference: str = ""
    others: tuple[str, ...] = ()
    relation: str = ""
    distance_m: float | None = None
    nearest_k: int = 1
    refusal: str = ""


def read_roles(t: Text, found: Found, question: Question) -> Roles:
    """The roles; the words that say them are read then. Signs of things (see ``spatial``) stand in the text."""
    signs = found.keys
    targets = _targets_at(t)
    things: dict[int, str] = targets | {m.start(): signs[m[0]] for m in re.finditer(SIGN, t.rest) if m[0] in signs}
    is_distance = t.has(_DISTANCE)
    kinds_of = {v.vector_id: v for v in question.vectors}

    def is_areas(key: str) -> bool:
        v = kinds_of.get(key.split(":")[1]) if key.startswith("vector:") else None
        return v is not None and v.count_of(POLYGONS) > 0

    def is_surface(key: str) -> bool:
        return key in lexicon().targets or key.startswith("class ")

    named = list(dict.fromkeys(things[at] for at in sorted(things)))
    if not signs and len(named) == 2 and t.has(r"\bratio (?:of|between)\b") and not _is_of_image(t):
        return Roles("measure", subject=named[0], reference=named[1])
    is_density = t.has(rf"\bdensit(?:y|ies)\b|\b(?:per|for each|in each) (?:{UNIT_PATTERN})(?![\w²^])")
    if not signs and len(named) == 1 and named[0] in lexicon().objects and is_density:
        return Roles("measure", subject=named[0])
    if not signs and len(named) == 1 and t.has(r"\bhow long (?:is|are|was|were)\b|\blengths? of\b") and not _is_of_image(t):
        return Roles("measure", subject=named[0])
    if not things or (not signs and len(things) < 2):
        return Roles()
    is_of_image = _is_of_image(t) or any(is_surface(k) for k in targets.values())
    areas = [k for k in named if is_areas(k)]

    which = t.find(rf"\b(?:(?:in|for|inside|of) )?(?:which|what)(?: one)?(?: of)? *({SIGN})")
    if which and len(areas) == 1 and is_areas(signs[which[1]]) and is_of_image and not is_distance:
        t.mark(*which.span())
        return Roles("which", (signs[which[1]],))
    if len(areas) > 1 and is_of_image and not is_distance and t.has(rf"{_COMPARING}|\bdiffer(?:ence|s)?\b|\bcompare\b"):
        t.take_all(rf"{_PREPOSITION}*(?:the )?{SIGN}")
        return Roles("compare", tuple(areas))

    nearest = nearest_in(t.rest)
    if is_distance and nearest is None:
        order = [things[at] for at in sorted(things)]
        if not signs:
            return Roles()  # two targets of the image: read elsewhere
        unique = list(dict.fromkeys(order))
        if len(unique) == 1 and len(order) == 1 and unique[0].startswith("vector:"):
            _take_signs(t)
            return Roles("distance", subject=unique[0])
        if len(unique) != 2:
            return Roles(refusal=f"A distance is that between two things; {len(unique)} are named.")
        _take_signs(t)
        return Roles("distance", subject=unique[0], reference=unique[1])

    relation = _relation(t, things, is_distance=is_distance)
    if nearest is not None:
        return _nearest(t, things, nearest)
    if relation is not None and relation.kind == "inside" and len(named) == 1:
        relation = None  # "the fields in fields.geojson", said twice
    if relation is not None:
        before = things[max(at for at in things if at < relation.at)]
        after = [at for at in sorted(things) if at >= relation.end]
        reference = things[after[0]]
        if not is_surface(before) and not (_is_of_image(t) and relation.kind in ("inside", "within")):
            others: tuple[str, ...] = ()
            if relation.kind == "between" and len(after) > 1:
                others = tuple(dict.fromkeys(things[at] for at in after[1:] if things[at] != reference))
            if extra := [k for k in named if k not in (before, reference, *others)]:
                return Roles(refusal=f"One relation between two things at a time; {len(extra) + 2} things are named.")
            t.mark(relation.at, relation.end)
            _take_signs(t)
            return Roles("measure", subject=before, reference=reference, others=others, relation=relation.kind,
                         distance_m=relation.distance_m)  # fmt: skip
        if relation.kind not in ("inside", "within"):
            return Roles(refusal="Relations are those of objects and vector features; a surface has none.")
    if not signs:
        return Roles()
    if is_of_image and any(k.startswith("vector:") for k in signs.values()):
        return _zone(t, found, question)
    if len(set(signs.values())) == 1 and (key := next(iter(signs.values()))).startswith("vector:"):
        _take_signs(t)
        return Roles("measure", subject=key)
    if all(k.startswith("vector:") for k in signs.values()) and len(set(signs.values())) == 2:
        one, other = dict.fromkeys(signs.values())
        _take_signs(t)
        return Roles("measure", subject=one, reference=other)
    return Roles(refusal="I see the places, but not what is asked of them.")


def _relation(t: Text, things: Mapping[int, str], *, is_distance: bool) -> Relation | None:
    found = relation_in(t.rest, things, kinds=("within", "north_of", "south_of", "east_of", "west_of", "overlaps", "touches"))
    if found is None and not is_distance:
        found = relation_in(t.rest, things, kinds=("between",))
    # "in" of two targets of the image is read elsewhere
    if found is None and any(k.startswith("vector:") for k in things.values()):
        found = relation_in(t.rest, things, kinds=("inside",))
    return found


def _nearest(t: Text, things: Mapping[int, str], nearest: tuple[int, int, int]) -> Roles:
    """'the mean distance of the 3 nearest buildings to the water', 'the area of the 5 polygons nearest to the road'."""
    k, start, end = nearest
    order = [things[at] for at in sorted(things)]
    if len(order) != 2 or order[0] == order[1]:
        return Roles(refusal="The nearest to what? Name the things, and what they are near to.")
    t.mark(start, end)
    t.take_all(r"\bto\b|\bfrom\b")
    _take_signs(t)
    return Roles("measure", subject=order[0], reference=order[1], relation="nearest", nearest_k=k)


def _zone(t: Text, found: Found, question: Question) -> Roles:
    keys = list(dict.fromkeys(k for k in found.keys.values() if k.startswith("vector:")))
    if len(keys) != 1 or any(not k.startswith("vector:") for k in found.keys.values()):
        return Roles(refusal="One area at a time: several files or places are named, and not that they be compared.")
    key = keys[0]
    buffer_m = 0.0
    near = t.find(
        rf"\b(?:within|less than|closer than|up to|at most) (?P<d>\d[\d,]*(?:\.\d+)?)\s*(?P<u>{UNIT_PATTERN}) (?:distance )?"
        rf"(?:of|from|to|around|about|along) +(?:any of )?(?:the )?{SIGN}"
    )
    if near:
        unit = unit_of(near["u"]) or "m"
        if dimension(unit) != "length":
            return Roles(refusal=f"{near['u']} is no unit of a distance.")
        buffer_m = convert(float(near["d"].replace(",", "")), unit, "m")
        t.mark(*near.span())
    else:
        t.take(rf"{_PREPOSITION}*(?:any of |all of )?(?:the )?{SIGN}")
    if t.has(SIGN):
        return Roles(refusal="The file is named twice; I do not see what is asked of it.")
    vector = next(v for v in question.vectors if v.vector_id == key.split(":")[1])
    if not buffer_m and not vector.count_of(POLYGONS):
        what = "lines" if vector.count_of(LINES) else "points" if vector.count_of(POINTS) else "no polygons"
        return Roles(
            refusal=f"{vector.name} holds {what}, which have no inside. Ask for what lies within a distance of them, like "
            f"“within 100 m of {vector.name}”."
        )
    return Roles("zone", (key,), buffer_m)


def _targets_at(t: Text) -> dict[int, str]:
    """Position → name of the targets and objects that the words name; nothing is read."""
    words = lexicon()
    entries = [(w, n) for n, e in words.targets.items() for w in (*e.words, *e.narrower)]
    entries += [(w, n) for n, o in words.objects.items() for w in o.words]
    rest, out = t.rest, dict[int, str]()
    for word, name in sorted(entries, key=lambda e: (-len(e[0]), e[0])):
        for m in re.finditer(rf"(?<![\w\-]){re.escape(word)}(?:'s)?(?![\w\-])", rest):
            out[m.start()] = name
            rest = rest[: m.start()] + "\0" * (m.end() - m.start()) + rest[m.end() :]
    for m in re.finditer(r"\bclass (\d{1,5})\b", rest):
        out[m.start()] = f"class {m[1]}"
    return out


def _is_of_image(t: Text) -> bool:
    """Whether an index or a band is named."""
    words = lexicon()
    named = [*(w for i in words.indices.values() for w in i.words), *(w for b in words.bands.values() for w in b.words)]
    return any(re.search(rf"(?<![\w\-]){re.escape(w)}(?:'s)?(?![\w\-])", t.rest) for w in named)


def _take_signs(t: Text) -> None:
    t.take_all(SIGN)


def measured_fields(
    t: Text, roles: Roles, unit: str, limit: tuple[float, str, bool] | None, noun: str = "", *, is_one: bool = False
) -> dict[str, Any] | str:
    """The form's fields of a ``measure`` or ``distance``: the metric that the words ask for. A text says why there is none.
    ``limit``: (number, above or below, whether the number itself counts) that decides yes or no; ``noun``: what the subject's
    file holds; ``is_one``: a single thing, of which a relation holds or does not."""
    out: dict[str, Any] = {"target": roles.subject, "reference": roles.reference, "others": roles.others, "unit": unit}
    if roles.relation:
        out |= {"relation": roles.relation, "relation_m": roles.distance_m, "nearest_k": roles.nearest_k}
    density = t.take(rf"\b(?:per|for each|in each) (?P<u>{UNIT_PATTERN})(?![\w²^])")
    is_distance = t.take(rf"{_DISTANCE}|\bhow many (?:km|metres|meters|m|kilometres|kilometers)\b") is not None
    if is_distance or roles.kind == "distance":
        which = "minimum"
        if t.take(r"\b(?:mean|average)\b"):
            which = "mean"
        elif t.take(r"\b(?:longest|largest|maximum|farthest|furthest|greatest)\b"):
            which = "maximum"
        t.take_all(r"\b(?:away|apart|shortest|straight|line|closest|nearest|minimum|smallest|least|each|every)\b")
        if not roles.reference:
            t.take_all(r"\b(?:between|neighbours?|neighbors?|one another|each other|other)\b")
        return out | {"what": "distance", "distance_statistic": which}
    if t.take(r"\bdensit(?:y|ies)\b") or density:
        per = (unit_of(density["u"]) if density else None) or "km2"
        if per not in _DENSITY:
            return f"A density is given per km², ha or m², not per {per}."
        t.take_all(r"\bhow many\b|\bnumber of\b|\bmany\b")
        return out | {"what": "density", "unit": _DENSITY[per]}
    if dimension(unit) == "length" and t.said(r"\bareas?\b") and not t.said(r"\blengths?\b|\blong\b"):
        return f"An area is not given in {unit}."
    if t.take(r"\b(?:total |combined |overall )?lengths?\b|\bhow long\b") or (dimension(unit) == "length" and not roles.relation):
        t.take_all(r"\bhow many\b")
        return out | {"what": "length"}
    if t.take(r"\b(?:what |which )?(?:share|fraction|proportion|portion|percentage|percent|per cent|part)\b|%") or unit == "%":
        if not roles.relation and not roles.reference:
            return "A share of what? Name the relation, like “within 100 m of the water”."
        return out | {"what": "share"}
    if t.take(r"\bratio\b"):
        if roles.relation or not roles.reference:
            return "A ratio of what to what? Name two things."
        t.take_all(r"\b(?:between|areas?|numbers?|of|to)\b")
        of = "area" if dimension(unit) == "area" or t.said(r"\bareas?\b") else "count"
        return out | {"what": "ratio", "of": of, "unit": ""}
    if re.match(r"\W*(?:is|are|was|were|does|do|did|has|have)\b", t.text):
        is_any = bool(t.take_all(r"\b(?:any|at all|some|single|one)\b")) or t.said(r"\bthere\b") or limit is not None
        if not is_any and not is_one and roles.relation:
            return "Any of them, or all? Ask how many do, or whether any does."
        if limit:
            out |= {"limit": limit[0], "limit_op": (">" if limit[1] == "above" else "<") + ("=" if limit[2] else "")}
        return out | {"what": "exists", "of": "area" if dimension(unit) == "area" else "count"}
    is_area = t.take_all(r"\b(?:total |combined |overall )?areas?\b|\bhow (?:much|large|big|extensive)\b|\bsurface\b")
    if is_area or dimension(unit) == "area":
        t.take_all(r"\bhow many\b")
        return out | {"what": "area"}
    if t.said(r"\bhow many\b|\bnumber of\b|\bcounts?\b|\bamount of\b"):
        t.take_all(rf"\bcounts?\b|\bobjects?\b|\bfeatures?\b|\brecords?\b|\bshapes?\b|\b{re.escape(noun or 'objects')}\b")
        return out | {"what": "count"}
    return "What is asked of them: how many, which area, which length, how far, which share?"
