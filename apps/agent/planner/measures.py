"""Roles of the things that a question names: zones of an image, subject and reference of a relation or a distance."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from apps.agent.planner.conditions import SUPERLATIVE, Ranked, chained, sizes_said
from apps.agent.planner.fields import Where
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.spatial import EACH_WORDS, OUTLINE_WORDS, SIGN, Found, Relation, nearest_in, relation_in
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
    ``measure``: figures of ``subject``, chosen by ``relation`` to ``reference``; ``distance``: between the two. ``each``: the key
    of the file whose features are listed, by their names or by the attribute ``by``; ``pick``: the one of them with the extreme.
    ``how`` the relation is said: "that lie …", "lies …", or without a verb; ``metric``: what the picking word itself compares;
    ``is_cover``: the subject covers the reference; ``is_bare``: the part of
    the subject that the reference does not cover; ``is_outside``: what lies in
    none of the zones. ``refusal`` says why none of these can be."""

    kind: Literal["", "zone", "compare", "which", "rows", "measure", "distance"] = ""
    zones: tuple[str, ...] = ()
    buffer_m: float = 0.0
    subject: str = ""
    reference: str = ""
    others: tuple[str, ...] = ()
    relation: str = ""
    distance_m: float | None = None
    nearest_k: int = 1
    how: Literal["clause", "verb", "bare"] = "bare"
    metric: str = ""
    is_named: bool = False
    rows_as: str = ""
    is_cover: bool = False
    is_bare: bool = False
    is_outside: bool = False
    each: str = ""
    by: str = ""
    pick: str = ""
    where: tuple[Where, ...] = ()
    over: str = ""
    rank: int = 1
    top: int = 1
    refusal: str = ""


def read_roles(t: Text, found: Found, question: Question, ranked: Ranked | None = None) -> Roles:
    """The roles; the words that say them are read then. Signs of things (see ``spatial``) stand in the text, the words of a rank
    are taken out of it."""
    spans = _spans_at(t) | {m.start(): (m.end(), found.keys[m[0]]) for m in re.finditer(SIGN, t.rest) if m[0] in found.keys}
    lines = {f"vector:{v.vector_id}" for v in question.vectors if v.noun == "lines"}
    sizes = sizes_said(t, spans, frozenset(k for _, k in spans.values() if ":".join(k.split(":")[:2]) in lines))
    if sizes.refusal:
        return Roles(refusal=sizes.refusal)
    roles = _roles(t, found, question, has_sizes=bool(sizes.where))
    if roles.refusal:
        return roles
    if sizes.where:
        if roles.kind not in ("measure", "distance") or not roles.subject:
            return Roles(refusal="A limit of size is one of things that are counted, measured or listed, not of pixels.")
        if not sizes.owners <= {"", roles.subject}:
            return Roles(refusal="Whose size is limited? Put the limit right behind those that are counted or measured.")
        roles = replace(roles, where=(*sizes.where, *roles.where))
    if ranked is not None and (ranked.rank > 1 or ranked.top > 1):
        if not roles.pick and roles.kind != "which":
            return Roles(refusal="The second, or the first few, of what? Ask which of a file's polygons is the second largest.")
        roles = replace(roles, rank=ranked.rank, top=ranked.top)
    return roles


def _roles(t: Text, found: Found, question: Question, *, has_sizes: bool) -> Roles:
    signs = found.keys
    each = _each_in(t, found, question)
    if each.refusal:
        return each
    if each.each:
        return _listed(t, found, question, each)
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
    if not signs and len(named) == 1 and not _is_of_image(t):
        single = _single_piece(t, named[0])
        if single.kind or single.refusal:
            return single
        if has_sizes:
            t.take_all(rf"\b(?:{_WHOLE}|{_PATCH})\b(?: of)?")
            return Roles("measure", subject=named[0])
    nearest_of = _nearest_one(t, things)
    if nearest_of.kind or nearest_of.refusal:
        return nearest_of
    if not things or (not signs and len(things) < 2):
        return Roles()
    is_of_image = _is_of_image(t) or any(is_surface(k) for k in targets.values())
    areas = [k for k in named if is_areas(k)]

    which = t.find(rf"\b(?:(?:in|for|inside|of) )?(?:which|what)(?: one)?(?: of)? *({SIGN})")
    if which and len(areas) == 1 and is_areas(signs[which[1]]) and is_of_image and not is_distance:
        t.mark(*which.span())
        if not t.has(rf"\b{SUPERLATIVE}\b|\b(?:maximum|minimum)\b"):
            t.take_all(r"\b(?:have|has|had|show|shows|with)\b")
            return Roles("rows", (signs[which[1]],), each=signs[which[1]], rows_as="names")
        return Roles("which", (signs[which[1]],), by=found.by)
    how = r"(?P<how>how many|what (?:share|percentage|fraction|proportion) of)"
    counted = t.find(rf"\b{how}(?: of)?(?: the)? *(?P<s>{SIGN}) *(?:have|has|had|show|shows|with)\b")
    # "what share of the fields has NDVI above 0.4" is one of their area: of their number only where each has one figure
    is_of_each = t.has(rf"\b(?:mean|average|median|maximum|minimum)\b|\d\s*(?:{UNIT_PATTERN})(?![\w²^]) of\b")
    is_rows = counted is not None and (counted["how"] == "how many" or is_of_each)
    if counted and is_rows and len(areas) == 1 and is_areas(signs[counted["s"]]) and is_of_image and not is_distance:
        t.mark(*counted.span())
        rows_as = "count" if counted["how"] == "how many" else "share"
        return Roles("rows", (signs[counted["s"]],), each=signs[counted["s"]], rows_as=rows_as)
    if len(areas) > 1 and is_of_image and not is_distance and t.has(rf"{_COMPARING}|\bdiffer(?:ence|s)?\b|\bcompare\b"):
        t.take_all(rf"{_PREPOSITION}*(?:the )?{SIGN}")
        return Roles("compare", tuple(areas))

    asks = r"(?:(?:what|which)(?:'s| is| are)|show(?: me)?|list|name|find|give(?: me)?) the"
    extreme = t.find(rf"\b{asks} (?=(?:largest|biggest|smallest|longest|shortest) *(?P<s>{SIGN}))")
    if extreme and len(signs) == 1 and not targets and not is_distance and not is_of_image:
        t.mark(*extreme.span())
        t.mark(*extreme.span("s"))
        return _picked(t, found, question, signs[extreme["s"]])
    if not targets and not is_distance and not is_of_image:
        named_ones = _those_that(t, things, signs, has_sizes=has_sizes)
        if named_ones is not None:
            return named_ones
    if which and signs[which[1]].startswith("vector:") and not is_distance and not is_of_image:
        t.mark(*which.span())
        return replace(_picked(t, found, question, signs[which[1]]), by=found.by)
    cover = _cover(t, found, targets)
    if cover is not None:
        return cover
    several = () if is_of_image or is_distance else chained(t, things)
    if isinstance(several, str):
        return Roles(refusal=several)
    if len(several) > 1:
        return _conditions(t, things, several, named)
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
        if not is_surface(before) and not (_is_of_image(t) and relation.kind in ("inside", "within", "outside", "beyond")):
            others: tuple[str, ...] = ()
            if relation.kind == "between" and len(after) > 1:
                others = tuple(dict.fromkeys(things[at] for at in after[1:] if things[at] != reference))
            if extra := [k for k in named if k not in (before, reference, *others)]:
                return Roles(refusal=f"One relation between two things at a time; {len(extra) + 2} things are named.")
            t.mark(relation.at, after[0])  # only small words stand before the reference
            _take_signs(t)
            return Roles("measure", subject=before, reference=reference, others=others, relation=relation.kind,
                         distance_m=relation.distance_m, how=relation.how)  # fmt: skip
        if relation.kind not in ("inside", "within", "outside", "beyond"):
            return Roles(refusal="Relations are those of objects and vector features; a surface has none.")
    if not signs:
        return Roles()
    if is_of_image and any(k.startswith("vector:") for k in signs.values()):
        return _zone(t, found, question)
    if len(set(signs.values())) == 1 and (key := next(iter(signs.values()))).startswith("vector:"):
        _take_signs(t)
        return Roles("measure", subject=key)
    if all(k.startswith("vector:") for k in signs.values()) and len(set(signs.values())) == 2:
        one, other = dict.fromkeys(things[at] for at in sorted(things) if things[at] in set(signs.values()))
        # "how many sites does the district have?"
        gap = r"[^\ue000-\ue3ff]*"
        if t.find(rf"{SIGN}{gap}\b(?:does|do|did) {gap}{SIGN}{gap}\b(?:have|contain|hold|include)\b"):
            t.take_all(r"\b(?:does|do|did|have|contain|hold|include)\b")
            _take_signs(t)
            return Roles("measure", subject=one, reference=other, relation="inside")
        if t.has(r"\bratio\b"):
            _take_signs(t)
            return Roles("measure", subject=one, reference=other)
    return Roles(refusal="I see the places, but not what is asked of them.")


def _conditions(t: Text, things: Mapping[int, str], several: Sequence[Relation], named: Sequence[str]) -> Roles:
    """'cars inside the car park and within 20 m of the road': one thing, and several relations that all hold."""
    before = [at for at in sorted(things) if at < several[0].at]
    subject = things[before[-1]]
    references = [things[min(at for at in things if at >= one.end)] for one in several]
    if len({things[at] for at in before}) > 1 or set(named) != {subject, *references}:
        return Roles(refusal="Conditions are those of one thing to others; I see more things than that.")
    if subject in lexicon().targets or subject.startswith("class "):
        return Roles(refusal="Conditions beside each other are those of objects and vector features; a surface has none.")
    if nearest_in(t.rest) is not None:
        return Roles(refusal="The nearest of all, or of those that meet the other condition? Ask for one after the other.")
    t.take_all(r"\b(?:but|also|both|as well as)\b")
    for one in several:
        t.mark(one.at, min(at for at in things if at >= one.end))
    _take_signs(t)
    where = tuple(
        Where(relation=one.kind, reference=key, relation_m=one.distance_m)  # type: ignore[arg-type]
        for one, key in zip(several[1:], references[1:], strict=True)
    )
    first = several[0]
    how = "clause" if any(one.how == "clause" for one in several) else first.how
    return Roles("measure", subject=subject, reference=references[0], relation=first.kind, distance_m=first.distance_m, how=how,
                 where=where)  # fmt: skip


_PATCH = "patch|patches|piece|pieces|body|bodies|stretch|block"
_WHOLE = "contiguous|connected|single|continuous|individual|separate|distinct"
_BODY = rf"(?:(?: (?:{_WHOLE}))*(?: (?:{_PATCH})(?: of)?)?)"
_ONE_OF = r"\b(?P<s>largest|biggest|greatest|smallest|longest|shortest)\b"


def _single_piece(t: Text, name: str) -> Roles:
    """'the largest lake', 'which ship is the longest', 'the mean size of the ponds': single pieces or objects of an image."""
    at, (end, _) = min(_spans_at(t).items())
    # a unit at the end is read later
    before, after = t.rest[:at], re.sub(rf"\(?\b(?:in|as) (?:{UNIT_PATTERN})\)?\W*$", "", t.rest[end:])
    said = t.rest[at:end]
    extreme = re.search(rf"{_ONE_OF}{_BODY} *$", before)
    told = re.match(rf"\W*(?:is|are|was|has|have)(?: the)? {_ONE_OF}(?: (?:area|size|length))?\W*$", after)
    asks = re.search(rf"\b(?:which|what)(?: of the)?{_BODY} *$", before) if told else None
    if t.has(r"\b(?:dates?|days?|months?|years?|times?|when|images?|scenes?)\b"):
        return Roles()
    is_which = re.match(r"\W*(?:which|what|where|find|show|name)\b", t.text) is not None
    is_figure = t.has(r"\b(?:areas?|sizes?|lengths?)\b(?= of)|\bhow (?:large|big|long|much)\b")
    word = (extreme or told)
    if (extreme and is_which and not after.strip(" ?.!") and not is_figure) or (told and asks):
        assert word is not None
        metric = "length" if word["s"] in ("longest", "shortest") else "area"
        t.take_all(rf"{_ONE_OF}|\b(?:where|which|what|find|show|name|{_WHOLE}|{_PATCH}|area|size|length)\b")
        pick = "min" if word["s"] in ("smallest", "shortest") else "max"
        return Roles("measure", subject=name, each=name, how="verb", pick=pick, metric=metric)
    if extreme and is_figure and not after.strip(" ?.!"):
        t.take_all(rf"{_ONE_OF}|\b(?:{_WHOLE}|{_PATCH})\b")
        over = "minimum" if extreme["s"] in ("smallest", "shortest") else "maximum"
        if over == "minimum" and name in lexicon().targets:
            return Roles(refusal="The smallest piece of a surface is as a rule a few pixels of noise; ask for the largest.")
        return Roles("measure", subject=name, over=over)
    several = r"(?:the |all |all the )?(?:single )?(?P<b>(?:patches|pieces|bodies) of )?"
    mean = re.search(rf"\b(?P<s>mean|average|median) (?:area|size)s? of {several}$", before)
    if mean and name in lexicon().targets and (mean["b"] or said.endswith(("s", "bodies"))):
        t.take_all(r"\b(?:mean|average|median|patches|pieces|bodies)\b(?: of)?")
        return Roles("measure", subject=name, over="median" if mean["s"] == "median" else "mean", metric="area")
    return Roles()


_ASKS_NAMES = r"^\W*(?:which|what|list|name|show|find|give)\b(?: me)?(?: (?:are|of))?(?: (?:the|all|all the|names of(?: the)?))*"


def _those_that(t: Text, things: Mapping[int, str], signs: Mapping[str, str], *, has_sizes: bool) -> Roles | None:
    """'which sites lie within 100 m of the road', 'list the counties larger than 10,000 km²': names, each with its figure. None
    where no such thing is asked."""
    m = t.find(rf"{_ASKS_NAMES} *(?P<s>{SIGN})")
    if m is None or t.has(rf"\b{SUPERLATIVE}\b|\b(?:area|length|number|share|perimeter|distance)s? of\b|{_EXTREMES}"):
        return None
    subject = signs[m["s"]]
    if not subject.startswith("vector:") or subject.count(":") > 1:
        return None
    several = chained(t, things)
    if isinstance(several, str):
        return Roles(refusal=several)
    named = list(dict.fromkeys(things[at] for at in sorted(things)))
    references = [things[min(at for at in things if at >= one.end)] for one in several]
    if not several and not has_sizes:
        return None
    if set(named) != {subject, *references}:
        return Roles(refusal="Those that stand in which relation to what? I see more things than that.")
    t.mark(*m.span())
    for one in several:
        t.mark(one.at, min(at for at in things if at >= one.end))
    t.take_all(r"\b(?:but|also|both|as well as|names?)\b")
    _take_signs(t)
    where = tuple(
        Where(relation=one.kind, reference=key, relation_m=one.distance_m)  # type: ignore[arg-type]
        for one, key in zip(several, references, strict=True)
    )
    return Roles("measure", subject=subject, each=subject, how="verb", where=where, is_named=True)


_EXTREMES = r"\b(?:most|least|fewest|maximum|minimum)\b"
_NEAR = r"\b(?:the )?(?:nearest|closest)\b"
_FAR = r"\b(?:the )?(?:farthest|furthest|most (?:distant|remote))\b"


def _nearest_one(t: Text, things: Mapping[int, str]) -> Roles:
    """'which site is nearest to the road', 'what is the closest hospital to 48.1, 11.5': the thing with the shortest distance."""
    m = t.find(rf"{_NEAR}|{_FAR}")
    if m is None or t.has(rf"{_DISTANCE}|\bhow (?:many|much|long|large|big)\b|\b(?:area|length|number|share|mean|average) of\b"):
        return Roles()
    if not re.match(r"\W*(?:which|what|what's|where|name|find|show)\b", t.text):
        return Roles()
    order = sorted(things)
    unique = list(dict.fromkeys(things[at] for at in order))
    if len(unique) < 2:
        return Roles(refusal="The nearest to what? Name a second thing, as in “which site is nearest to the road”.")
    if len(unique) > 2:
        return Roles(refusal="The nearest of one kind of things to one other; I see more than two.")
    after = next((at for at in order if at >= m.end()), None)
    asked = re.search(r"\b(?:which|what|name|list|show|find|give|me|are)(?: of the| one of the| the)? *$", t.rest[: order[0]])
    is_next = after is not None and not t.rest[m.end() : after].strip(" \0") and order[0] >= m.end()
    subject = things[order[0]] if asked else things[after] if is_next and after is not None else ""
    if not subject:
        return Roles()
    reference = next(k for k in unique if k != subject)
    is_far = re.fullmatch(_FAR, m[0]) is not None
    t.take_all(rf"{_NEAR}|{_FAR}|\b(?:which|what|where|name|list|find|show|give|away|lies|lie|located|situated)\b")
    _take_signs(t)
    return Roles("distance", subject=subject, reference=reference, each=subject, pick="max" if is_far else "min")


def _relation(t: Text, things: Mapping[int, str], *, is_distance: bool) -> Relation | None:
    found = relation_in(t.rest, things, kinds=("beyond", "apart", "not_overlapping", "wholly_inside"))
    if found is None and any(k.startswith("vector:") for k in things.values()):
        found = relation_in(t.rest, things, kinds=("outside",))
    if found is None:
        found = relation_in(
            t.rest, things, kinds=("within", "north_of", "south_of", "east_of", "west_of", "overlaps", "touches")
        )
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
    is_outside = t.take(_OUTSIDE_ZONE) is not None
    near = t.find(
        rf"\b(?:within|less than|closer than|up to|at most) (?P<d>\d[\d,]*(?:\.\d+)?)\s*(?P<u>{UNIT_PATTERN}) (?:distance )?"
        rf"(?:of|from|to|around|about|along) +(?:any of |either of |either |any |all |a |an )?(?:the )?{SIGN}"
    )
    if near is None:
        near = t.find(
            rf"\b(?:farther(?: away)? than|further(?: away)? than|more than|at least|beyond|not less than|no closer than) "
            rf"(?P<d>\d[\d,]*(?:\.\d+)?)\s*(?P<u>{UNIT_PATTERN}) (?:distance )?(?:away )?(?:of|from|to) +(?:any of )?"
            rf"(?:the )?{SIGN}"
        )
        is_outside = is_outside or near is not None
    if near:
        unit = unit_of(near["u"]) or "m"
        if dimension(unit) != "length":
            return Roles(refusal=f"{near['u']} is no unit of a distance.")
        buffer_m = convert(float(near["d"].replace(",", "")), unit, "m")
        t.mark(*near.span())
    else:
        t.take(rf"{_PREPOSITION}*(?:the )?(?:{OUTLINE_WORDS} of )?(?:any of |all of )?(?:the )?{SIGN}")
    t.take_all(r"\b(?:lie|lies|lying|located|situated|fall|falls)\b")
    if t.has(SIGN):
        return Roles(refusal="The file is named twice; I do not see what is asked of it.")
    vector = next(v for v in question.vectors if v.vector_id == key.split(":")[1])
    if not buffer_m and not vector.count_of(POLYGONS):
        what = "lines" if vector.count_of(LINES) else "points" if vector.count_of(POINTS) else "no polygons"
        return Roles(
            refusal=f"{vector.name} holds {what}, which have no inside. Ask for what lies within a distance of them, like "
            f"“within 100 m of {vector.name}”."
        )
    return Roles("zone", (key,), buffer_m, is_outside=is_outside)


def _targets_at(t: Text) -> dict[int, str]:
    """Position → name of the targets and objects that the words name; nothing is read."""
    return {at: name for at, (_, name) in _spans_at(t).items()}


def _spans_at(t: Text) -> dict[int, tuple[int, str]]:
    """Position → (end, name) of the targets and objects that the words name; nothing is read."""
    words = lexicon()
    entries = [(w, n) for n, e in words.targets.items() for w in (*e.words, *e.narrower)]
    entries += [(w, n) for n, o in words.objects.items() for w in o.words]
    rest, out = t.rest, dict[int, tuple[int, str]]()
    for word, name in sorted(entries, key=lambda e: (-len(e[0]), e[0])):
        for m in re.finditer(rf"(?<![\w\-]){re.escape(word)}(?:'s)?(?![\w\-])", rest):
            out[m.start()] = (m.end(), name)
            rest = rest[: m.start()] + "\0" * (m.end() - m.start()) + rest[m.end() :]
    for m in re.finditer(r"\bclass (\d{1,5})\b", rest):
        out[m.start()] = (m.end(), f"class {m[1]}")
    return out


def _is_of_image(t: Text) -> bool:
    """Whether an index or a band is named."""
    words = lexicon()
    named = [*(w for i in words.indices.values() for w in i.words), *(w for b in words.bands.values() for w in b.words)]
    return any(re.search(rf"(?<![\w\-]){re.escape(w)}(?:'s)?(?![\w\-])", t.rest) for w in named)


# "outside the fields", "not within 100 m of the road": what the word turns round stays to be read.
_OUTSIDE_ZONE = (
    rf"\bnot (?=(?:inside|within|in|less than|closer than)\b)|\boutside(?: of)?(?= +(?:any of |all of )?(?:the )?{SIGN})"
)
_PICK_MOST = (
    r"\b(?:the )?(?:most|largest|biggest|highest|greatest|longest|densest|maximum)\b"
)
_PICK_LEAST = r"\b(?:the )?(?:least|fewest|smallest|lowest|shortest|minimum)\b"


def _each_in(t: Text, found: Found, question: Question) -> Roles:
    """The file whose features are listed one by one ("in each district", "per county"); read then. No ``each`` where none is."""
    pattern = rf"{_PREPOSITION}*(?:to )?\b(?:{EACH_WORDS})(?: of)? *(?:the )?(?P<sign>{SIGN})"
    m = t.find(pattern)
    if m is None:
        return Roles()
    key = found.keys[m["sign"]]
    if not key.startswith("vector:"):
        return Roles(refusal="A place is one; a table needs several.")
    vector = next(v for v in question.vectors if v.vector_id == key.split(":")[1])
    if key.count(":") > 1:
        return Roles(refusal=f"{key.split(':', 2)[2]} is one feature of {vector.name}; a table needs several.")
    is_distance = t.has(_DISTANCE)
    is_one_figure = t.has(r"\b(?:mean|average|maximum|minimum|largest|smallest|longest)\b")
    if is_distance and is_one_figure and not t.has(r"\b(?:is|are|was|were) (?:each|every)\b"):
        return Roles()  # "the mean distance from each of the sites": one figure of all
    before = t.rest[: m.start("sign")]
    t.mark(*m.span())
    t.take_all(r"^\W*(?:list|tabulate|give|show)\b|\b(?:a |the )?(?:table|list) of\b|\bseparately\b|\bindividually\b")
    if t.find(pattern):
        return Roles(refusal="Each of one thing at a time.")
    return Roles(each=key, by=found.by, how="bare" if re.search(r"\bof (?:each|every)\b[^\ue000]*$", before) else "verb")


def _listed(t: Text, found: Found, question: Question, each: Roles) -> Roles:
    """Figures for each feature of a file: of the image in each polygon, of other things in each, or of the features alone."""
    key = each.each
    sign = next(s for s, k in found.keys.items() if k == key)
    # "in each field of fields.geojson" names it once more
    t.take_all(rf"{_PREPOSITION}*(?:the |all (?:of )?(?:the )?)?{sign}(?:'s)?")
    targets = _targets_at(t)
    others = list(dict.fromkeys(k for s, k in found.keys.items() if k != key and t.has(s)))
    objects = list(dict.fromkeys(n for n in targets.values() if n in lexicon().objects))
    surfaces = [n for n in dict.fromkeys(targets.values()) if n not in lexicon().objects]
    vector = next(v for v in question.vectors if v.vector_id == key.split(":")[1])
    if surfaces and not others and not objects and len(surfaces) == 1 and t.has(_DISTANCE) and not _is_of_image(t):
        _take_signs(t)
        return Roles("distance", subject=key, reference=surfaces[0], each=key, by=each.by)
    if _is_of_image(t) or surfaces:
        if others or objects:
            return Roles(refusal="Figures of the image, or of things, for each; not both at a time.")
        buffer_m = _near_each(t)
        if isinstance(buffer_m, str):
            return Roles(refusal=buffer_m)
        if not buffer_m and not vector.count_of(POLYGONS):
            return Roles(refusal=f"{vector.name} holds {vector.noun}, which have no inside. Ask for what lies within a distance "
                                 "of each.")  # fmt: skip
        return Roles("zone", (key,), buffer_m or 0.0, each=key, by=each.by)
    named = [*others, *objects]
    if len(named) > 1:
        return Roles(refusal="One thing at a time for each of several.")
    if t.has(_DISTANCE):
        reference = named[0] if named else ""
        _take_signs(t)
        return Roles("distance", subject=key, reference=reference, each=key, by=each.by)
    if not named:
        return Roles("measure", subject=key, each=key, by=each.by)
    distance = _near_each(t)
    if isinstance(distance, str):
        return Roles(refusal=distance)
    relation = "inside" if distance is None else "within"
    if distance is None and not vector.count_of(POLYGONS):
        return Roles(
            refusal=f"{vector.name} holds {vector.noun}, which have no inside. Ask for what lies within a distance of each."
        )
    if t.has(r"\b(?:not|outside|without|no)\b"):
        return Roles(refusal="What lies outside of each of several is nearly everything; ask for what lies inside.")
    if t.has(r"\b(?:that|which|who)\b"):
        return Roles(refusal="Each of those that lie somewhere is not listed; ask for each of all, or for those alone.")
    is_cover = t.take(r"\b(?:covered|occupied|taken up|filled|overlain|under)(?: by)?\b") is not None
    if each.how == "bare" and not is_cover and relation == "inside" and each.each and not t.has(r"\b(?:how many|number of)\b"):
        return Roles(refusal="Figures of each of them, or of the other things in each? Write “in each …” for the second.")
    t.take_all(r"\b(?:lie|lies|lying|located|situated|stand|stands|fall|falls|run|runs)\b")
    _take_signs(t)
    return Roles("measure", subject=named[0], reference=key, relation=relation, distance_m=distance, each=key, by=each.by,
                 is_cover=is_cover)  # fmt: skip


def _near_each(t: Text) -> float | str | None:
    """Metres of "within 100 m of each", read then; None where no distance is said, a text where its unit is none."""
    near = t.find(
        rf"\b(?:within|less than|closer than|at most|up to|no more than) (?P<d>\d[\d,]*(?:\.\d+)?)\s*(?P<u>{UNIT_PATTERN})"
        r"(?![\w²^])(?: distance)?(?: (?:of|from|to|around|about)\b)?"
    )
    if near is None:
        return None
    unit = unit_of(near["u"]) or "m"
    if dimension(unit) != "length":
        return f"{near['u']} is no unit of a distance."
    t.mark(*near.span())
    return convert(float(near["d"].replace(",", "")), unit, "m")


def _picked(t: Text, found: Found, question: Question, key: str) -> Roles:
    """'Which district has the most sites?': the one of a file's polygons with the extreme of a figure of things."""
    text = t.rest
    most, least = len(re.findall(_PICK_MOST, text)), len(re.findall(_PICK_LEAST, text))
    if most + least != 1:
        return Roles(refusal="Which has the most, or the least, of what? One word should say it.")
    word = t.take(_PICK_MOST if most else _PICK_LEAST)
    assert word is not None
    roles = _listed(t, found, question, Roles(each=key, how="verb"))
    if roles.refusal:
        return roles
    if roles.is_cover:
        return replace(roles, pick="max" if most else "min")
    own = not roles.reference
    said, metric = word[0].split()[-1], ""
    # the word itself may say what is compared: the longest road, the largest district, the densest
    if own and said in ("largest", "biggest", "smallest") and not t.has(r"\b(?:areas?|lengths?)\b"):
        metric = "area"
    elif own and said in ("longest", "shortest") and not t.has(r"\blengths?\b"):
        metric = "length"
    elif not own and said == "densest":
        metric = "density"
    elif not own and said == "fewest":
        metric = "count"
    elif not own and not t.has(r"\b(?:areas?|lengths?|share|proportion|percentage|fraction|density|number|count)\b"):
        if not _is_counted(roles.subject, question):
            return Roles(
                refusal="The most by their number, or by their length or area? Write “the largest number of …”, “the largest "
                "length of …” or “the largest area of …”."
            )
        metric = "count"
    return replace(roles, pick="max" if most else "min", metric=metric)


def _is_counted(key: str, question: Question) -> bool:
    """Whether "most of them" can only mean their number: objects that are found, and points."""
    if not key.startswith("vector:"):
        return True
    vector = next((v for v in question.vectors if v.vector_id == key.split(":")[1]), None)
    return vector is not None and vector.count_of(POINTS) == vector.n


def _cover(t: Text, found: Found, targets: Mapping[int, str]) -> Roles | None:
    """'What share of the district is covered by the buildings?': areas of one file on those of another."""
    gap = r"[^\ue000-\ue3ff]*?"
    m = t.find(rf"(?P<ground>{SIGN}){gap}\b(?:covered|occupied|taken up|filled|overlain) by {gap}(?P<thing>{SIGN})") or t.find(
        rf"(?P<ground>{SIGN}){gap}\b(?:do|does|did) {gap}(?P<thing>{SIGN}){gap}\b(?:cover|occupy|take up)\b"
    )
    if m is None:
        return None
    ground, thing = found.keys[m["ground"]], found.keys[m["thing"]]
    if targets or len(found.keys) != 2:
        return Roles(refusal="What covers what? Name two things.")
    if not (ground.startswith("vector:") and thing.startswith("vector:")):
        return Roles(refusal="A place covers nothing; name a vector file.")
    is_bare = re.search(r"\bnot\b|n't\b", m[0]) is not None
    t.take_all(r"\b(?:covered|occupied|taken up|filled|overlain|cover|occupy|take up|by|do|does|did|not|isn't|aren't|don't)\b")
    _take_signs(t)
    if is_bare:
        return Roles("measure", subject=ground, reference=thing, relation="outside", is_bare=True)
    return Roles("measure", subject=thing, reference=ground, relation="inside", is_cover=True)


def _take_signs(t: Text) -> None:
    t.take_all(SIGN)


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
    read = _metric(t, roles, unit, limit, noun, is_one=is_one)
    if isinstance(read, str):
        return read
    return _cut_or_listed(t, out | read, roles, noun, is_one=is_one)


def _metric(
    t: Text, roles: Roles, unit: str, limit: tuple[float, str, bool] | None, noun: str, *, is_one: bool
) -> dict[str, Any] | str:
    """What is measured of the things."""
    density = t.take(rf"\b(?:per|for each|in each) (?P<u>{UNIT_PATTERN})(?![\w²^])")
    is_distance = t.take(rf"{_DISTANCE}|\bhow many (?:km|metres|meters|m|kilometres|kilometers)\b") is not None
    if is_distance or roles.kind == "distance":
        which = "minimum"
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
    if dimension(unit) == "length" and t.said(r"\bareas?\b") and not t.said(r"\blengths?\b|\blong\b"):
        return f"An area is not given in {unit}."
    if t.take(_SHARE) or unit == "%":
        if not roles.relation and not roles.reference and not roles.where:
            return "A share of what? Name the relation, like “within 100 m of the water”."
        return {"what": "share"}
    which = "outline" if t.take(_PERIMETER) else "extent" if t.take(_LONG_SIDE) else ""
    if which:
        if t.has(r"\bof (?:the )?\0* ?(?:largest|biggest|smallest|longest|shortest|greatest)\b"):
            return _OTHER_EXTREME
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
_SHARE = r"\b(?:what |which )?(?:share|fraction|proportion|portion|percentage|percent|per cent|part)\b|%"
