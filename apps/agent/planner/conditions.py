"""Words that say more than one condition: "larger than 200 m²", "inside the fields and within 20 m of the road", "the second
largest", and two figures that are subtracted or compared."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from apps.agent.planner.fields import Where
from apps.agent.planner.relations import Relation, relations_in
from apps.agent.planner.text import Text
from apps.agent.units import UNIT_PATTERN, dimension, unit_of

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_UNIT = rf"(?P<u>{UNIT_PATTERN})(?![\w²^])"
_MORE = (
    r"no (?:less|smaller|shorter) than|not (?:less|smaller|shorter) than|at least|larger than|bigger than|greater than|more than|"
    r"longer than|over|above|exceeding|exceeds?|>=|≥|>"
)
_LESS = (
    r"no (?:more|larger|bigger|longer|greater) than|not (?:more|larger|bigger|longer|greater) than|at most|up to|smaller than|"
    r"less than|shorter than|under|below|<=|≤|<"
)
_CLOSED = re.compile(r"^(?:no |not |at least|at most|up to|>=|≥|<=|≤)")
_VERB = r"(?:(?:that|which|who|whose) )?(?:(?:are|is|were|was|have|has|having|with|of|cover|covers|covering|measure|measures) )*"
_WHAT = r"(?:(?:an? |the )?(?P<what>areas?|sizes?|surfaces?|perimeters?|circumferences?|outlines?|lengths?) (?:is |are |of )?)?"
_SIZE = re.compile(
    rf"(?P<lead>(?:\b(?:and|but) (?:also )?)?)(?P<verb>{_VERB}){_WHAT}(?P<op>{_MORE}|{_LESS})\s*(?P<n>{_NUMBER})\s*{_UNIT}"
    r"(?: in (?:size|area|extent|length)| large| long)?(?! (?:distance )?(?:away )?(?:of|from|to|around|about|off)\b)"
)
_RANGE = re.compile(
    rf"(?P<lead>(?:\b(?:and|but) (?:also )?)?)(?P<verb>{_VERB}){_WHAT}between (?P<low>{_NUMBER})(?:\s*(?P<u1>{UNIT_PATTERN}))?"
    rf"\s+and\s+(?P<n>{_NUMBER})\s*{_UNIT}(?: in (?:size|area|extent|length)| large| long)?"
)
_BIGGER_AFTER = re.compile(
    rf"(?P<lead>(?:\b(?:and|but) (?:also )?)?)(?P<verb>{_VERB}){_WHAT}(?P<n>{_NUMBER})\s*{_UNIT}"
    r" (?P<op>or (?:more|larger|bigger|greater|less|smaller|longer|shorter))\b"
)
_YES_NO = re.compile(r"\W*(?:is|are|was|were|does|do|did|has|have)\b")


@dataclass(slots=True)
class Sizes:
    """Conditions on the single things, who they are said of ('' for whoever is counted), and why there are none."""

    where: list[Where] = field(default_factory=list)
    owners: set[str] = field(default_factory=set)
    refusal: str = ""


def sizes_said(t: Text, things: Mapping[int, tuple[int, str]], lines: frozenset[str]) -> Sizes:
    """Limits of size that stand right behind a thing, or behind "and"; read then.

    ``things``: where each begins, where it ends and its key; ``lines``: those that are lines, of which a limit in metres is one
    of their length. What is no such limit (that of a sum, of a distance) stays to be read.
    """
    out = Sizes()
    if _YES_NO.match(t.text) and not re.search(r"\b(?:there|any)\b", t.text):
        return out  # "is the area of the fields larger than 10 ha?" is one of their sum
    for pattern in (_RANGE, _BIGGER_AFTER, _SIZE):
        start = 0
        while (m := pattern.search(t.rest, start)) is not None:
            start = m.end()
            owner = _owner(t, m, things)
            unit = unit_of(m["u"]) or ""
            if owner is None or dimension(unit) not in ("area", "length"):
                continue
            figure = _figure(m["what"] or "", unit, owner, m["op"] if "op" in m.groupdict() else "", lines)
            if figure.startswith("?"):
                out.refusal = figure[1:]
                return out
            out.owners.add(owner)
            # "the fields larger than 2 ha" narrows what is spoken of; "are larger than 2 ha" is said of it
            is_said = re.search(r"\b(?:are|is|were|was|have|has|measures?|covers?) ", m["verb"]) is not None
            is_given = not m["lead"] and (not is_said or re.match(r"(?:that|which|who|whose)\b", m["verb"]) is not None)
            out.where += [w.model_copy(update={"is_given": is_given}) for w in _limits(m, figure, unit)]
            t.mark(m.start() + len(m["lead"]) if m["lead"] else m.start(), m.end())
    return out


def _owner(t: Text, m: re.Match[str], things: Mapping[int, tuple[int, str]]) -> str | None:
    """The thing that stands right before the words, '' where "and" joins them to what is counted; None where neither does."""
    if m["lead"]:
        return "" if any(end <= m.start() for end, _ in things.values()) else None
    if re.match(r"(?:of )+$", m["verb"]) and not m["what"]:
        return None  # "what area of more than 10 ha"
    before = t.rest[: m.start()].rstrip(" ,")
    return next((key for end, key in things.values() if end == len(before)), None)


def _figure(what: str, unit: str, owner: str, op: str, lines: frozenset[str]) -> str:
    """area, length or outline; '?' and a sentence where the words do not tell."""
    if dimension(unit) == "area":
        is_area = not what or what.startswith(("area", "size", "surface"))
        return "area" if is_area else "?A length or a perimeter is no area: give it in m or km."
    if what.startswith(("perimeter", "circumference", "outline")):
        return "outline"
    if what.startswith(("area", "surface")):
        return f"?An area is not given in {unit}; give it in m², ha or km²."
    if owner in lines or what.startswith("length") or "long" in op or "short" in op:
        return "length"
    return f"?A size of {unit} is a length: their perimeter, or their distance to something? Write “with a perimeter of …”."


def _limits(m: re.Match[str], figure: str, unit: str) -> list[Where]:
    groups = m.groupdict()

    def one(op: str, number: str) -> Where:
        return Where(figure=figure, op=op, value=float(number.replace(",", "")), unit=unit)  # type: ignore[arg-type]

    if groups.get("low"):
        return [one(">=", groups["low"]), one("<=", groups["n"])]
    op = groups["op"]
    if op.startswith("or "):
        return [one("<=" if re.search("less|smaller|shorter", op) else ">=", groups["n"])]
    is_less = re.match(_LESS, op) is not None and re.match(_MORE, op) is None
    return [one(("<" if is_less else ">") + ("=" if _CLOSED.match(op) else ""), groups["n"])]


# --- several relations ------------------------------------------------------------------------------------------------------
_AND = re.compile(r"\b(?:and|but|as well as)(?: (?:also|both))?[\s\0,]*$")
_OR = re.compile(r"\bor(?: else)?[\s\0,]*$")


def chained(t: Text, things: Mapping[int, str]) -> list[Relation] | str:
    """The relations of one thing to several others, in the order of the text, joined by "and"; a text says why they are none. A
    list of fewer than two is for others to read."""
    found = relations_in(t.rest, things)
    if len(found) < 2:
        return found
    gaps = []
    for one, other in pairwise(found):
        at = min(a for a in things if a >= one.end)
        if at >= other.at or any(at < a < other.at for a in things):
            return []
        gaps.append(t.rest[at : other.at])
    if any(_OR.search(g) for g in gaps):
        return "Either of two conditions (“or”) is not asked for at once; ask for each, or for both by “and”."
    if not all(_AND.search(g) for g in gaps):
        return (
            "One relation between two things at a time, or several of the same things that “and” joins: “… inside the fields and "
            "within 20 m of the road”."
        )
    return found


# --- ranks ------------------------------------------------------------------------------------------------------------------
_ORDINALS = {
    "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "fifth": 5, "5th": 5, "sixth": 6, "6th": 6, "seventh": 7,
    "7th": 7, "eighth": 8, "8th": 8, "ninth": 9, "9th": 9, "tenth": 10, "10th": 10,
}  # fmt: skip
_NUMERALS = {"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10}
SUPERLATIVE = (
    r"(?:largest|biggest|greatest|highest|smallest|lowest|longest|shortest|nearest|closest|farthest|furthest|most|least|fewest|"
    r"densest)"
)


@dataclass(frozen=True, slots=True)
class Ranked:
    """The text without the words of a rank; ``rank`` for the second largest, ``top`` for the three largest."""

    text: str
    rank: int = 1
    top: int = 1


def rank_said(text: str) -> Ranked:
    """'the second largest field' → rank 2; 'which three fields are the largest', 'the 3 largest fields' → top 3. Only of
    questions that ask which or what."""
    if not re.search(r"\b(?:which|what|name|list|show|find|give)\b", text) or re.search(r"\bhow (?:many|much|far|long)\b", text):
        return Ranked(text)
    ordinal = "|".join(_ORDINALS)
    m = re.search(rf"\b(?P<k>{ordinal})[ -](?={SUPERLATIVE}\b)", text)
    if m:
        return Ranked(text[: m.start()] + text[m.end() :], rank=_ORDINALS[m["k"]])
    if re.search(r"\b(?:distances?|areas?|lengths?|mean|average|total|share|number) of\b", text):
        return Ranked(text)
    number = rf"(?<![\d.,])(?:{'|'.join(_NUMERALS)}|\d{{1,3}})"
    asks = r"(?:which|name|list|show(?: me)?|find|give(?: me)?|what are)(?: the)?"
    m = re.search(rf"\b(?:top )?(?P<k>{number}) (?={SUPERLATIVE}\b)", text) or re.search(
        rf"\b{asks} (?P<k>{number}) (?=[^?]*\b{SUPERLATIVE}\b)", text
    )
    if m is None:
        return Ranked(text)
    k = _NUMERALS.get(m["k"]) or int(m["k"])
    return Ranked(text[: m.start("k")] + text[m.end() :], top=k) if 1 <= k <= 1000 else Ranked(text)


# --- two figures ------------------------------------------------------------------------------------------------------------
_TAIL = r"\s+(?!than\b)(?P<what>[^?]+?)\s+than\s+(?P<other>[^?]+?)\s*\??\s*$"
_HOW_MANY_MORE = re.compile(rf"^[^?]*?\bhow (?P<q>many|much) (?P<op>more|fewer|less){_TAIL}", re.IGNORECASE)
_ARE_MORE = re.compile(rf"^\W*(?:are|were|is|was) there (?P<op>more|fewer|less){_TAIL}", re.IGNORECASE)
_HOW_MUCH_LARGER = re.compile(
    r"^[^?]*?\bhow much (?P<op>larger|bigger|smaller|longer|shorter) (?:is|are|was|were) (?P<what>[^?]+?) than (?P<other>[^?]+?)"
    r"\s*\??\s*$",
    re.IGNORECASE,
)
_DIFFERENCE = re.compile(
    r"^[^?]*?\bdifference in (?P<op>area|size|length|perimeter) between (?P<what>[^?]+?) and (?P<other>[^?]+?)\s*\??\s*$",
    re.IGNORECASE,
)
_IS_LARGER = re.compile(
    r"^\W*(?:is|are) (?P<what>[^?]+?) (?P<op>larger|bigger|smaller|longer|shorter) than (?P<other>[^?]+?)\s*\??\s*$",
    re.IGNORECASE,
)
_WHICH_OF_TWO = re.compile(
    r"^\W*(?:(?:which|what)(?: (?:one|of (?:the )?(?:two|these|those)))? (?:is|are) (?:the )?"
    r"(?P<op>larger|bigger|smaller|longer|shorter)(?: one)?(?: in (?:area|size|length))?\s*[,:;–-]?|"
    r"(?:is|are)(?= [^?]* (?P<op2>larger|bigger|smaller|longer|shorter)\W*$))\s+(?P<what>[^?,]+?),? or "
    r"(?P<other>[^?,]+?)(?(op2)(?: the)?\s+(?:larger|bigger|smaller|longer|shorter))\W*$",
    re.IGNORECASE,
)
_PLACES = "in|inside|within|outside|at|on|near|north|south|east|west|to|between|along|over|during"
_PLACE = rf"(?:{_PLACES}|of)"
_BE = re.compile(r"\b(?:are|is|was|were|lie|lies)(?: there)?\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Two:
    """Two questions whose figures are compared; the second is taken from the first."""

    first: str
    second: str
    how: Literal["difference", "compare"] = "difference"
    pick: Literal["max", "min"] = "max"


def two_figures(text: str) -> Two | None:
    """'how many more sites are in Mitte than in West' → the numbers in Mitte and in West."""
    text = " ".join(text.split())  # of a run of spaces each pattern would try every way to part it
    if "?" in text[:-1]:
        return None
    m = _HOW_MUCH_LARGER.match(text)
    if m is not None:
        figure = "length" if m["op"].lower() in ("longer", "shorter") else "area"
        first, second = (f"What is the {figure} of {m[k].strip()}?" for k in ("what", "other"))
        is_less = m["op"].lower() in ("smaller", "shorter")
        return Two(second, first) if is_less else Two(first, second)
    m = _DIFFERENCE.match(text)
    if m is not None:
        figure = {"size": "area"}.get(m["op"].lower(), m["op"].lower())
        # as of an index: the second less the first
        first, second = (f"What is the {figure} of {m[k].strip()}?" for k in ("other", "what"))
        return Two(first, second)
    m = _IS_LARGER.match(text) or _WHICH_OF_TWO.match(text)
    if m is not None and not re.match(r"\d", m["other"].strip()):
        op = (m["op"] or m["op2"]).lower()
        figure = "length" if op in ("longer", "shorter") else "area"
        first, second = (f"What is the {figure} of {m[k].strip()}?" for k in ("what", "other"))
        return Two(first, second, "compare", "min" if op in ("smaller", "shorter") else "max")
    m = _HOW_MANY_MORE.match(text) or _ARE_MORE.match(text)
    if m is None or re.match(r"\d", m["other"].strip()):
        return None
    how: Literal["difference", "compare"] = "difference" if "q" in m.groupdict() else "compare"
    quantity = m.groupdict().get("q") or "many"
    what, other = m["what"].strip(), m["other"].strip()
    first = _asking(quantity, what)
    if re.match(rf"(?:{_PLACE})\b", other, re.IGNORECASE):
        noun = re.split(rf"\s(?:are|is|was|were|lie|lies|there|that|which|{_PLACES})\b", what, maxsplit=1)[0]
        be = _BE.search(what)
        second = f"How {quantity} {noun.strip()} {be[0] if be else 'are'} {other}?"
    else:
        second = _asking(quantity, other)
    if m["op"].lower() != "more" and how == "difference":
        first, second = second, first
    return Two(first, second, how, "max" if m["op"].lower() == "more" else "min")


def _asking(quantity: str, what: str) -> str:
    return f"How {quantity} {what}{'' if _BE.search(what) else ' are there'}?"
