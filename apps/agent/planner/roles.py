"""Roles of the things that a question names: zones of an image, subject and reference of a relation or a distance."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from apps.agent.planner.conditions import SUPERLATIVE, Ranked, chained, sizes_said
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.relations import OUTLINE_WORDS, Relation, nearest_in, relation_in
from apps.agent.planner.singles import PATCH, WHOLE, conditions, nearest_one, picked_among, single_piece, those_that
from apps.agent.planner.spatial import EACH_WORDS, SIGN, Found
from apps.agent.planner.text import Text
from apps.agent.planner.thing_words import (
    DISTANCE,
    PREPOSITION,
    SHARE,
    Roles,
    names_the_image,
    spans_at,
    take_signs,
    targets_at,
)
from apps.agent.units import UNIT_PATTERN, convert, dimension, unit_of
from apps.core.evidence.plan import Question
from apps.core.geo.vector import LINES, POINTS, POLYGONS

_COMPARING = (
    r"\b(?:larger|bigger|higher|greater|more|smaller|lower|less|fewer|highest|lowest|largest|smallest|most|least|than|or)\b"
)


def read_roles(t: Text, found: Found, question: Question, ranked: Ranked | None = None) -> Roles:
    """The roles; the words that say them are read then. Signs of things (see ``spatial``) stand in the text, the words of a rank
    are taken out of it."""
    spans = spans_at(t) | {m.start(): (m.end(), found.keys[m[0]]) for m in re.finditer(SIGN, t.rest) if m[0] in found.keys}
    lines = {f"vector:{v.vector_id}" for v in question.vectors if v.noun == "lines"}
    sizes = sizes_said(t, spans, frozenset(k for _, k in spans.values() if ":".join(k.split(":")[:2]) in lines))
    if sizes.refusal:
        return Roles(refusal=sizes.refusal)
    roles = _roles(t, found, question, has_sizes=bool(sizes.where))
    if roles.refusal:
        return roles
    if sizes.where and not t.said(SHARE):
        # of what is no share, the whole is not spoken of
        sizes.where = [w.model_copy(update={"is_given": False}) for w in sizes.where]
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
    targets = targets_at(t)
    things: dict[int, str] = targets | {m.start(): signs[m[0]] for m in re.finditer(SIGN, t.rest) if m[0] in signs}
    is_distance = t.has(DISTANCE)
    kinds_of = {v.vector_id: v for v in question.vectors}

    def is_areas(key: str) -> bool:
        v = kinds_of.get(key.split(":")[1]) if key.startswith("vector:") else None
        return v is not None and v.count_of(POLYGONS) > 0

    def is_surface(key: str) -> bool:
        return key in lexicon().targets or key.startswith("class ")

    named = list(dict.fromkeys(things[at] for at in sorted(things)))
    if not signs and len(named) == 2 and t.has(r"\bratio (?:of|between)\b") and not names_the_image(t):
        return Roles("measure", subject=named[0], reference=named[1])
    is_density = t.has(rf"\bdensit(?:y|ies)\b|\b(?:per|for each|in each) (?:{UNIT_PATTERN})(?![\w²^])")
    if not signs and len(named) == 1 and named[0] in lexicon().objects and is_density:
        return Roles("measure", subject=named[0])
    if not signs and len(named) == 1 and t.has(r"\bhow long (?:is|are|was|were)\b|\blengths? of\b") and not names_the_image(t):
        return Roles("measure", subject=named[0])
    if not signs and len(named) == 1 and not names_the_image(t):
        single = single_piece(t, named[0])
        if single.kind or single.refusal:
            return single
        if has_sizes:
            t.take_all(rf"\b(?:{WHOLE}|{PATCH})\b(?: of)?")
            return Roles("measure", subject=named[0])
    nearest_of = nearest_one(t, things)
    if nearest_of.kind or nearest_of.refusal:
        return nearest_of
    if not things or (not signs and len(things) < 2):
        return Roles()
    is_of_image = names_the_image(t) or any(is_surface(k) for k in targets.values())
    areas = [k for k in named if is_areas(k)]

    which = t.find(rf"\b(?:(?:in|for|inside|of) )?(?:which|what)(?: one)?(?: of)? *({SIGN})")
    if is_of_image and signs and (extreme_piece := _extreme_piece(t)):
        return Roles(
            refusal=f"The {extreme_piece} is not told beside polygons or other things: ask for it of the image alone, or which "
            "of the polygons has most of it by area."
        )
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
        t.take_all(rf"{PREPOSITION}*(?:the )?{SIGN}")
        return Roles("compare", tuple(areas))

    asks = r"(?:(?:what|which)(?:'s| is| are)|show(?: me)?|list|name|find|give(?: me)?) the"
    extreme = t.find(rf"\b{asks} (?=(?:largest|biggest|smallest|longest|shortest) *(?P<s>{SIGN}))")
    if not targets and not is_distance and not is_of_image and len(signs) > 1:
        among = picked_among(t, things, signs)
        if among is not None:
            return among
    if extreme and len(signs) == 1 and not targets and not is_distance and not is_of_image:
        t.mark(*extreme.span())
        t.mark(*extreme.span("s"))
        return _picked(t, found, question, signs[extreme["s"]])
    if not targets and not is_distance and not is_of_image:
        named_ones = those_that(t, things, signs, has_sizes=has_sizes)
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
        return conditions(t, things, several, named)
    nearest = nearest_in(t.rest)
    if is_distance and nearest is None:
        order = [things[at] for at in sorted(things)]
        if not signs:
            return Roles()  # two targets of the image: read elsewhere
        unique = list(dict.fromkeys(order))
        if len(unique) == 1 and len(order) == 1 and unique[0].startswith("vector:"):
            take_signs(t)
            return Roles("distance", subject=unique[0])
        if len(unique) != 2:
            return Roles(refusal=f"A distance is that between two things; {len(unique)} are named.")
        take_signs(t)
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
        if not is_surface(before) and not (names_the_image(t) and relation.kind in ("inside", "within", "outside", "beyond")):
            others: tuple[str, ...] = ()
            if relation.kind == "between" and len(after) > 1:
                others = tuple(dict.fromkeys(things[at] for at in after[1:] if things[at] != reference))
            if extra := [k for k in named if k not in (before, reference, *others)]:
                return Roles(refusal=f"One relation between two things at a time; {len(extra) + 2} things are named.")
            t.mark(relation.at, after[0])  # only small words stand before the reference
            take_signs(t)
            return Roles("measure", subject=before, reference=reference, others=others, relation=relation.kind,
                         distance_m=relation.distance_m, how=relation.how)  # fmt: skip
        if relation.kind not in ("inside", "within", "outside", "beyond"):
            return Roles(refusal="Relations are those of objects and vector features; a surface has none.")
    if not signs:
        return Roles()
    if is_of_image and any(k.startswith("vector:") for k in signs.values()):
        return _zone(t, found, question)
    about = (
        None
        if is_of_image
        else t.find(rf"\barea *\b(?:that lies )?(?P<how>within \d[\d,.]* *(?:{UNIT_PATTERN}) of) *(?:the )?(?P<s>{SIGN})")
    )
    if about is not None and len(things) == 1:
        told = f"{about['how']} {signs[about['s']].split(':')[-1]}" if signs[about["s"]].count(":") > 1 else f"{about['how']} it"
        return Roles(
            refusal=f"The area of what {told}? Name what is measured there: a surface of the image (“the water area within …”) "
            "or a file's polygons (“what area of the … lies within …”)."
        )
    if len(set(signs.values())) == 1 and (key := next(iter(signs.values()))).startswith("vector:"):
        take_signs(t)
        return Roles("measure", subject=key)
    if all(k.startswith("vector:") for k in signs.values()) and len(set(signs.values())) == 2:
        one, other = dict.fromkeys(things[at] for at in sorted(things) if things[at] in set(signs.values()))
        # "how many sites does the district have?"
        gap = r"[^\ue000-\ue3ff]*"
        if t.find(rf"{SIGN}{gap}\b(?:does|do|did) {gap}{SIGN}{gap}\b(?:have|contain|hold|include)\b"):
            t.take_all(r"\b(?:does|do|did|have|contain|hold|include)\b")
            take_signs(t)
            return Roles("measure", subject=one, reference=other, relation="inside")
        if t.has(r"\bratio\b"):
            take_signs(t)
            return Roles("measure", subject=one, reference=other)
    return Roles(refusal="I see the places, but not what is asked of them.")


def _extreme_piece(t: Text) -> str:
    """'largest lake' where such words stand beside polygons; '' where none do. "The largest water area" is one of the sum."""
    for at, (end, name) in spans_at(t).items():
        said = t.rest[at:end]
        m = re.search(r"\b(?P<s>largest|biggest|smallest|longest|greatest) *$", t.rest[:at])
        entry = lexicon().targets.get(name)
        if m and entry is not None and (said in entry.narrower or said.endswith(("body", "bodies"))):
            return f"{m['s']} {said}"
    return ""


def _relation(t: Text, things: Mapping[int, str], *, is_distance: bool) -> Relation | None:
    found = relation_in(t.rest, things, kinds=("beyond", "apart", "not_overlapping", "wholly_inside"))
    if found is None and any(k.startswith("vector:") for k in things.values()):
        found = relation_in(t.rest, things, kinds=("outside",))
    if found is None:
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
    take_signs(t)
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
        t.take(rf"{PREPOSITION}*(?:the )?(?:{OUTLINE_WORDS} of )?(?:any of |all of )?(?:the )?{SIGN}")
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


# "outside the fields", "not within 100 m of the road": what the word turns round stays to be read.
_OUTSIDE_ZONE = (
    rf"\bnot (?=(?:inside|within|in|less than|closer than)\b)|\boutside(?: of)?(?= +(?:any of |all of )?(?:the )?{SIGN})"
)
_PICK_MOST = r"\b(?:the )?(?:most|largest|biggest|highest|greatest|longest|densest|maximum)\b"
_PICK_LEAST = r"\b(?:the )?(?:least|fewest|smallest|lowest|shortest|minimum)\b"


def _each_in(t: Text, found: Found, question: Question) -> Roles:
    """The file whose features are listed one by one ("in each district", "per county"); read then. No ``each`` where none is."""
    pattern = rf"{PREPOSITION}*(?:to )?\b(?:{EACH_WORDS})(?: of)? *(?:the )?(?P<sign>{SIGN})"
    m = t.find(pattern)
    if m is None:
        return Roles()
    key = found.keys[m["sign"]]
    if not key.startswith("vector:"):
        return Roles(refusal="A place is one; a table needs several.")
    vector = next(v for v in question.vectors if v.vector_id == key.split(":")[1])
    if key.count(":") > 1:
        return Roles(refusal=f"{key.split(':', 2)[2]} is one feature of {vector.name}; a table needs several.")
    is_distance = t.has(DISTANCE)
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
    t.take_all(rf"{PREPOSITION}*(?:the |all (?:of )?(?:the )?)?{sign}(?:'s)?")
    targets = targets_at(t)
    others = list(dict.fromkeys(k for s, k in found.keys.items() if k != key and t.has(s)))
    objects = list(dict.fromkeys(n for n in targets.values() if n in lexicon().objects))
    surfaces = [n for n in dict.fromkeys(targets.values()) if n not in lexicon().objects]
    vector = next(v for v in question.vectors if v.vector_id == key.split(":")[1])
    if surfaces and not others and not objects and len(surfaces) == 1 and t.has(DISTANCE) and not names_the_image(t):
        take_signs(t)
        return Roles("distance", subject=key, reference=surfaces[0], each=key, by=each.by)
    if names_the_image(t) or surfaces:
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
    if t.has(DISTANCE):
        reference = named[0] if named else ""
        take_signs(t)
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
    take_signs(t)
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
    # "which continent has the most countries": how many of the file's own features share the value
    of_file = "|".join(s for s, k in found.keys.items() if k == key)
    is_number = found.by and re.search(rf"(?:{_PICK_MOST}|{_PICK_LEAST}) *(?:(?:number|count) of *)?(?:the )?(?:{of_file})", text)
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
    if is_number:
        t.take_all(r"\b(?:number|count) of\b")
        metric = "count"
    elif own and said in ("largest", "biggest", "smallest") and not t.has(r"\b(?:areas?|lengths?)\b"):
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
    take_signs(t)
    if is_bare:
        return Roles("measure", subject=ground, reference=thing, relation="outside", is_bare=True)
    return Roles("measure", subject=thing, reference=ground, relation="inside", is_cover=True)
