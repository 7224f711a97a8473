"""Words about single things: those that meet conditions, the largest piece of a surface, the nearest to something."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from apps.agent.planner.conditions import SUPERLATIVE, chained
from apps.agent.planner.fields import Where
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.relations import Relation, nearest_in
from apps.agent.planner.spatial import SIGN
from apps.agent.planner.text import Text
from apps.agent.planner.thing_words import DISTANCE, Roles, spans_at, take_signs
from apps.agent.units import UNIT_PATTERN


def conditions(t: Text, things: Mapping[int, str], several: Sequence[Relation], named: Sequence[str]) -> Roles:
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
    take_signs(t)
    where = tuple(
        Where(relation=one.kind, reference=key, relation_m=one.distance_m)  # type: ignore[arg-type]
        for one, key in zip(several[1:], references[1:], strict=True)
    )
    first = several[0]
    how = "clause" if any(one.how == "clause" for one in several) else first.how
    return Roles("measure", subject=subject, reference=references[0], relation=first.kind, distance_m=first.distance_m, how=how,
                 where=where)  # fmt: skip


PATCH = "patch|patches|piece|pieces|body|bodies|stretch|block"
WHOLE = "contiguous|connected|single|continuous|individual|separate|distinct"
_BODY = rf"(?:(?: (?:{WHOLE}))*(?: (?:{PATCH})(?: of)?)?)"
_ONE_OF = r"\b(?P<s>largest|biggest|greatest|smallest|longest|shortest)\b"


def single_piece(t: Text, name: str) -> Roles:
    """'the largest lake', 'which ship is the longest', 'the mean size of the ponds': single pieces or objects of an image."""
    at, (end, _) = min(spans_at(t).items())
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
    word = extreme or told
    if (extreme and is_which and not after.strip(" ?.!") and not is_figure) or (told and asks):
        assert word is not None
        # boxes have no area of their own: the largest is the longest
        is_length = word["s"] in ("longest", "shortest") or name in lexicon().objects
        metric = "length" if is_length else "area"
        t.take_all(rf"{_ONE_OF}|\b(?:where|which|what|find|show|name|{WHOLE}|{PATCH}|area|size|length)\b")
        pick = "min" if word["s"] in ("smallest", "shortest") else "max"
        return Roles("measure", subject=name, each=name, how="verb", pick=pick, metric=metric)
    if extreme and is_figure and not after.strip(" ?.!"):
        t.take_all(rf"{_ONE_OF}|\b(?:{WHOLE}|{PATCH})\b")
        over = "minimum" if extreme["s"] in ("smallest", "shortest") else "maximum"
        if over == "minimum" and name in lexicon().targets:
            return Roles(refusal="The smallest piece of a surface is as a rule a few pixels of noise; ask for the largest.")
        return Roles("measure", subject=name, over=over)
    several = r"(?:the |all |all the )?(?:single )?(?P<b>(?:patches|pieces|bodies) of )?"
    mean = re.search(rf"\b(?P<s>mean|average|median) (?:area|size)s? of {several}$", before)
    if mean and name in lexicon().targets and (mean["b"] or said.endswith(("s", "bodies"))):
        t.take_all(r"\b(?:mean|average|median|patches|pieces|bodies)\b(?: of)?")
        return Roles("measure", subject=name, over="median" if mean["s"] == "median" else "mean", metric="area")
    found = r"(?:the |all |all the )?(?:detected |found |visible |single )?"
    mean = re.search(rf"\b(?P<s>mean|average|median) sizes? of {found}$", before)
    if mean and name in lexicon().objects:
        t.take_all(r"\b(?:mean|average|median|sizes?)\b(?: of)?")
        return Roles("measure", subject=name, over="median" if mean["s"] == "median" else "mean", metric="length")
    return Roles()


_ASKS_NAMES = r"^\W*(?:which|what|list|name|show|find|give)\b(?: me)?(?: (?:are|of))?(?: (?:the|all|all the|names of(?: the)?))*"


def those_that(t: Text, things: Mapping[int, str], signs: Mapping[str, str], *, has_sizes: bool) -> Roles | None:
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
    is_part = "/" in subject  # "which fields have crop maize": the value is the condition
    if not several and not has_sizes and not is_part:
        return None
    if set(named) != {subject, *references}:
        return Roles(refusal="Those that stand in which relation to what? I see more things than that.")
    t.mark(*m.span())
    for one in several:
        t.mark(one.at, min(at for at in things if at >= one.end))
    t.take_all(r"\b(?:but|also|both|as well as|names?)\b")
    take_signs(t)
    where = tuple(
        Where(relation=one.kind, reference=key, relation_m=one.distance_m)  # type: ignore[arg-type]
        for one, key in zip(several, references, strict=True)
    )
    return Roles("measure", subject=subject, each=subject, how="verb", where=where, is_named=True)


_SHOW = r"(?:(?:what|which)(?:'s| is| are)|show(?: me)?|list|name|find|give(?: me)?) the"
_OWN = r"(?P<e>largest|biggest|smallest|longest|shortest)"


def picked_among(t: Text, things: Mapping[int, str], signs: Mapping[str, str]) -> Roles | None:
    """'the largest field inside Mitte', 'which road within 100 m of the sites is the longest': the extreme of those that stand in
    relations. None where no such thing is asked."""
    m = t.find(rf"\b{_SHOW} {_OWN} *(?P<s>{SIGN})") or t.find(
        rf"\b(?:which|what)(?: of the)? *(?P<s>{SIGN})[^?]*\b(?:is|are) (?:the )?{_OWN}\W*$"
    )
    several = chained(t, things) if m is not None else []
    if m is None or isinstance(several, str) or not several or not signs[m["s"]].startswith("vector:"):
        return None
    subject = signs[m["s"]]
    references = [things[min(at for at in things if at >= one.end)] for one in several]
    if {things[at] for at in things} != {subject, *references} or any(one.at < m.start("s") for one in several):
        return None
    for one in several:
        t.mark(one.at, min(at for at in things if at >= one.end))
    t.mark(*m.span("e"))
    t.take_all(r"\b(?:which|what|show|list|name|find|give|me|is|are|the|but|also|both)\b")
    take_signs(t)
    where = tuple(
        Where(relation=one.kind, reference=key, relation_m=one.distance_m)  # type: ignore[arg-type]
        for one, key in zip(several, references, strict=True)
    )
    metric = "length" if m["e"] in ("longest", "shortest") else "area"
    pick = "min" if m["e"] in ("smallest", "shortest") else "max"
    return Roles("measure", subject=subject, each=subject, how="verb", where=where, pick=pick, metric=metric)


_EXTREMES = r"\b(?:most|least|fewest|maximum|minimum)\b"
_NEAR = r"\b(?:the )?(?:nearest|closest)\b"
_FAR = r"\b(?:the )?(?:farthest|furthest|most (?:distant|remote))\b"


def nearest_one(t: Text, things: Mapping[int, str]) -> Roles:
    """'which site is nearest to the road', 'what is the closest hospital to 48.1, 11.5': the thing with the shortest distance."""
    m = t.find(rf"{_NEAR}|{_FAR}")
    if m is None or t.has(rf"{DISTANCE}|\bhow (?:many|much|long|large|big)\b|\b(?:area|length|number|share|mean|average) of\b"):
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
    take_signs(t)
    return Roles("distance", subject=subject, reference=reference, each=subject, pick="max" if is_far else "min")
