"""Words that say how things stand to each other: inside, within a distance, touching, north of, the nearest."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from apps.agent.units import convert, dimension, unit_of

COUNTS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
_LENGTH = r"nautical miles?|nmi|yards?|yd|kilomet(?:re|er)s?|kms?|met(?:re|er)s?|m|miles?|mi|f(?:ee|oo)t|ft"


@dataclass(frozen=True, slots=True)
class Relation:
    kind: str
    at: int
    end: int
    distance_m: float | None = None
    nearest_k: int = 1
    how: Literal["clause", "verb", "bare"] = "bare"


_VERB = (
    r"(?:\b(?:that|which|who) )?"
    r"(?:\b(?:are|is|were|was|lie|lies|lying|located|situated|found|stand|stands|run|runs|running|fall|falls|come|comes) )*"
)
_NOT = (
    r"(?:\b(?:that|which|who) )?(?:\b(?:are|is|were|was|lie|lies|lying|located|situated) )*"
    r"(?:\b(?:do|does|did|is|are|was|were) )?(?:\bnot|(?:don't|doesn't|didn't|isn't|aren't|wasn't|weren't)) "
    r"(?:\b(?:lie|lying|located|situated|found|stand|run|fall|come) )*"
)
_FAR = r"(?P<d>\d[\d,]*(?:\.\d+)?)\s*(?P<u>LENGTH) (?:distance )?(?:away )?(?:of|from|to|around|about|off)\b"
_PATTERNS: tuple[tuple[str, str], ...] = (
    (
        "beyond",
        (
            rf"(?:{_NOT}(?:within|less than|closer than|nearer than|up to)|{_VERB}(?:(?:at )?(?:farther(?: away)? than|"
            rf"further(?: away)? than|more than|at least|no closer than|no nearer than|no less than|not less than|beyond)))"
            rf" (?:a distance of )?{_FAR.replace('LENGTH', _LENGTH)}"
        ),
    ),
    ("apart", rf"{_NOT}(?:touch(?:es|ed|ing)?|border(?:ing)?(?: on)?|adjoin(?:ing)?|adjacent to)\b"),
    (
        "not_overlapping",
        (
            rf"{_NOT}(?:overlap(?:ped|ping)?|intersect(?:ed|ing)?|cross(?:ed|ing)?)(?: with| by)?\b|"
            rf"{_VERB}(?:completely|fully|entirely|wholly) (?:{_VERB})outside(?: of)?\b"
        ),
    ),
    ("outside", rf"(?:{_NOT}(?:inside|within|in|on)|{_VERB}outside)(?: of)?\b(?! \d)"),
    (
        "wholly_inside",
        rf"{_VERB}(?:completely|fully|entirely|wholly) (?:{_VERB})(?:inside|within|contained (?:in|by)|in|on)(?: of)?\b(?! \d)",
    ),
    (
        "within",
        (
            rf"{_VERB}(?:(?:at )?(?:within|less than|closer than|nearer than|no more than|not more than|at most|up to|"
            rf"no farther than|not farther than)) (?:a distance of )?(?P<d>\d[\d,]*(?:\.\d+)?)\s*(?P<u>{_LENGTH}) (?:distance )?"
            r"(?:of|from|to|away from|around|about|off)\b"
        ),
    ),
    ("north_of", rf"{_VERB}(?:to the )?north of\b"),
    ("south_of", rf"{_VERB}(?:to the )?south of\b"),
    ("east_of", rf"{_VERB}(?:to the )?east of\b"),
    ("west_of", rf"{_VERB}(?:to the )?west of\b"),
    ("overlaps", rf"{_VERB}(?:overlap(?:s|ped|ping)?|intersect(?:s|ed|ing)?|cross(?:es|ed|ing)?)(?: with| by)?\b"),
    (
        "touches",
        (
            rf"{_VERB}(?:touch(?:es|ed|ing)?|adjacent to|adjoin(?:s|ing)?|border(?:s|ed|ing)?(?: on)?|next to|bounded by|"
            r"(?:a )?neighbou?r(?:s|ing)?(?: (?:of|to))?|"
            r"(?:shar(?:e|es|ing)|have|has|with) (?:a |their )?(?:common |shared )?borders? with)\b"
        ),
    ),
    ("between", rf"{_VERB}between\b"),
    (
        "inside",
        rf"{_VERB}\b(?:inside|within|contained (?:in|by)|in|on)(?: of)?\b",
    ),
)
# "within the boundary of the district" is within the district
OUTLINE_WORDS = r"(?:boundary|boundaries|borders?|outlines?|limits|extent|area|region)"
_SMALL = re.compile(rf"\b(?:the|any|all|of|nearest|closest|this|that|these|those|some|{OUTLINE_WORDS})\b")
_NUMBERS = rf"\d{{1,3}}|{'|'.join(COUNTS)}"
_NEAREST = re.compile(rf"\b(?P<k>{_NUMBERS}) (?:nearest|closest)\b|\b(?:nearest|closest) (?P<k2>{_NUMBERS})\b")


def _relation(kind: str, m: re.Match[str]) -> Relation | None:
    """The relation that was said; None where its distance is no length."""
    distance = None
    if kind in ("within", "beyond"):
        unit = unit_of(m["u"]) or "m"
        if dimension(unit) != "length":
            return None
        distance = convert(float(m["d"].replace(",", "")), unit, "m")
    return Relation(kind, m.start(), m.end(), distance, how=_how(m[0]))


def relation_in(text: str, things: Mapping[int, str], *, kinds: Iterable[str] = ()) -> Relation | None:
    """The relation whose words stand between two things (by position in ``text``), read words being blanked."""
    starts = sorted(things)
    for kind, pattern in _PATTERNS:
        if kinds and kind not in kinds:
            continue
        for m in re.finditer(pattern, text):
            after = [at for at in starts if at >= m.end()]
            before = [at for at in starts if at < m.start()]
            if not after or not before or re.search(r"[a-z]{3,}", _SMALL.sub("", text[m.end() : after[0]])):
                continue
            relation = _relation(kind, m)
            if relation is not None:
                return relation
    return None


def relations_in(text: str, things: Mapping[int, str]) -> list[Relation]:
    """All relations whose words stand between two things, in the order of the text; one to each thing that follows."""
    starts = sorted(things)
    found: dict[int, Relation] = {}
    for kind, pattern in _PATTERNS:
        if kind == "between":
            continue
        for m in re.finditer(pattern, text):
            after = next((at for at in starts if at >= m.end()), None)
            is_first = all(at > m.start() for at in starts)
            if after is None or is_first or after in found or re.search(r"[a-z]{3,}", _SMALL.sub("", text[m.end() : after])):
                continue
            if kind in ("inside", "outside", "wholly_inside") and not things[after].startswith("vector:"):
                continue
            if any(one.at < m.end() and m.start() < one.end for one in found.values()):
                continue
            relation = _relation(kind, m)
            if relation is not None:
                found[after] = relation
    return [found[at] for at in sorted(found)]


def _how(words: str) -> Literal["clause", "verb", "bare"]:
    """How a relation is said: 'that lie within', 'lies within', 'within'."""
    if re.match(r"\W*(?:that|which|who)\b", words):
        return "clause"
    return "verb" if re.search(r"\b(?:are|is|were|was|lie|lies|stand|stands|run|runs|fall|falls)\b", words) else "bare"


def nearest_in(text: str) -> tuple[int, int, int] | None:
    """(k, start, end) of 'the 3 nearest'."""
    m = _NEAREST.search(text)
    if m is None:
        return None
    word = m["k"] or m["k2"]
    k = COUNTS.get(word) or int(word)
    return (k, m.start(), m.end()) if 1 <= k <= 1000 else None
