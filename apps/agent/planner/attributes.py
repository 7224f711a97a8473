"""Features chosen by a value of an attribute: "fields where crop = maize", "the wheat fields".

Attributes and values are compared with the question's words and become one sign; nothing in them is read as a word. Values are
compared without regard to case and outer spaces; those that differ in that alone are taken together.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from apps.agent.planner.text import Text
from apps.core.geo.vector import VectorInfo

if TYPE_CHECKING:
    from apps.agent.planner.spatial import Found

# A form keeps the key of a thing in so many characters.
MAX_KEY = 200
# Values offered by the page's form, of each file.
MAX_OFFERED = 40
_LINES = r"roads?|streets?|paths?|tracks?|railways?|lines?"
_POINTS = r"points?|sites?|stations?"
_OTHERS = (
    r"polygons?|features?|shapes?|zones?|records?|objects?|fields?|parcels?|plots?|districts?|tracts?|blocks?|basins?|"
    r"catchments?|footprints?|outlines?|areas?|units?|cells?|countr(?:y|ies)|count(?:y|ies)|municipalit(?:y|ies)|states?|provinces?|"
    r"communes?|neighbou?rhoods?"
)
_WHERE = r"(?:where|for which|whose|with|having|(?:that |which )?(?:have|has)|of)(?: (?:the|an?))?(?: (?:attribute|column))?"
_IS = r"(?:is equal to|are equal to|equal to|equals?|being|is|are|of|==|=|:)"
# What turns a value into a limit or into its opposite.
_NOT_IT = (
    r"(?! *(?:or|and) (?:more|less|greater|higher|lower|fewer|larger|smaller|above|below|over|under|up|down|older|newer|later|"
    r"earlier|before|after)\b| *[+%]| *(?:and|,|-|to|until) *\d)"
)
_STRICT = (
    r"(?:is equal to|are equal to|equal to|equals?|==|=|(?:is |are |of )?(?!(?:\w+er than|more|less|at|above|below|over|under|"
    r"between|of|the|in|than)\b)(?=[\w\"'“]))"
)
_ARTICLE = r"(?:(?:all (?:of )?)?the |all |any |these )?"
_QUOTES = "[\"'“”‘]"


def part_signs(out: Found, vectors: Iterable[VectorInfo], noun_of: Callable[[VectorInfo], str], plain: frozenset[str]) -> None:
    """Puts a sign in place of features that are chosen by a value. ``noun_of``: a pattern of what a file's features are called;
    ``plain``: words that mean something else when they stand right before a thing."""
    held = [v for v in vectors if v.values and v.noun != "features"]
    for v in held:
        for field in sorted(v.values, key=len, reverse=True):
            _said_with_its_attribute(out, v, held, field, noun_of)
            if out.reason:
                return
    _said_before(out, held, noun_of, plain)


def some_parts(vector: VectorInfo) -> list[VectorInfo]:
    """Parts of a file that a form offers: those of attributes whose values several features share."""
    if vector.noun == "features":
        return []
    shared = [(f, v) for f, counted in vector.values.items() if len(counted) < vector.n for v in counted]
    return [vector.part(f, (v,)) for f, v in shared[:MAX_OFFERED]]


def _alike(counted: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    """Value as a question's text has it → the values of the file that are written so; longest first."""
    found: dict[str, list[str]] = {}
    for value in counted:
        found.setdefault(re.sub(r"\s+", " ", Text(value).text).strip(), []).append(value)
    return {k: tuple(found[k]) for k in sorted(found, key=len, reverse=True) if k}


def _value_pattern(value: str) -> str:
    """Numbers match however many noughts they are written with."""
    if re.fullmatch(r"-?\d+(?:\.0+)?", value):
        return rf"{re.escape(value.partition('.')[0])}(?:\.0+)?(?!\.?\d)"
    return re.escape(value)


def _called(field: str) -> str:
    low = field.lower()
    return "|".join(re.escape(f) for f in dict.fromkeys((low, low.replace("_", " "))))


def _head(v: VectorInfo, out: Found, noun_of: Callable[[VectorInfo], str]) -> str:
    """What the features of a file are called: its sign, its own noun, or the noun of any file of its kind."""
    own = [re.escape(s) for s, key in out.keys.items() if key == f"vector:{v.vector_id}"]
    generic = {"lines": _LINES, "points": _POINTS}.get(v.noun, "")
    nouns = [noun_of(v), *((generic,) if generic else ()), _OTHERS if v.noun == "polygons" else r"features?|records?|objects?"]
    words = [rf"(?<![\w\-.])(?:{n})(?![\w\-]|\.\w)" for n in nouns if n]
    return f"{_ARTICLE}(?:{'|'.join([*own, *words])})"


def _said_with_its_attribute(
    out: Found, v: VectorInfo, held: Iterable[VectorInfo], field: str, noun_of: Callable[[VectorInfo], str]
) -> None:
    """'fields where crop = maize', 'parcels whose owner is “A or B” or C'."""
    lead = rf"(?<![\w\-])(?:of )?{_head(v, out, noun_of)} *{_WHERE} (?:{_called(field)})(?![\w\-])"
    if not re.search(lead, out.text):
        return
    alike = _alike(v.values[field])
    one = "|".join(_value_pattern(value) for value in alike)
    said = rf"{_QUOTES}?(?:{one}){_QUOTES}?(?![\w\-]|\.\d)"
    again = rf"(?: or (?:(?:{_called(field)}) *)?(?:{_IS} *)?{said})*"
    m = re.search(rf"{lead} *(?:{_IS})? *(?P<said>{said}{again}){_NOT_IT}", out.text)
    if m is None:
        is_plain = field.lower() in ("area", "length", "size", "perimeter")  # as those of the shapes themselves are said
        if re.search(rf"{lead} *{'=' if is_plain else _STRICT}", out.text):
            some = ", ".join(f"“{x}”" for x in list(v.values[field])[:12])
            more = " and others" if len(v.values[field]) > 12 else ""
            out.reason = (
                f"No feature of {v.name} has just the {field} that is named. Its values are {some}{more}; write “where {field} = "
                "…”, with “or” between several. What is not so, and what is more or less, is not asked for by an attribute."
            )
        return
    rivals = [o for o in held if o is not v and field in o.values and re.search(_head(o, out, noun_of), m[0])]
    if rivals and not any(s in m[0] for s, k in out.keys.items() if k == f"vector:{v.vector_id}"):
        out.reason = f"“{field}” is an attribute of several files ({', '.join(o.name for o in (v, *rivals))}); name the file."
        out.needs = {"vectors": [o.vector_id for o in (v, *rivals)]}
        return
    values = tuple(dict.fromkeys(x for k in re.findall(one, m["said"]) for x in _of(alike, k)))
    _put(out, m, v, field, values)


def _of(alike: Mapping[str, tuple[str, ...]], said: str) -> tuple[str, ...]:
    if said in alike:
        return alike[said]
    return tuple(x for k, values in alike.items() if re.fullmatch(_value_pattern(k), said) for x in values)


def _said_before(out: Found, held: list[VectorInfo], noun_of: Callable[[VectorInfo], str], plain: frozenset[str]) -> None:
    """'the wheat fields': a value right before what the features of its file are called."""
    for _ in range(5):
        found: dict[tuple[int, int], list[tuple[re.Match[str], VectorInfo, str, tuple[str, ...]]]] = {}
        for v in held:
            head = _head(v, out, noun_of).removeprefix(_ARTICLE)
            for field, counted in v.values.items():
                for value, written in _alike(counted).items():
                    if len(value) < 3 or value in plain or not re.search(r"[^\W\d_]", value):
                        continue
                    m = re.search(rf"(?<![\w\-]){_ARTICLE}{_QUOTES}?{re.escape(value)}{_QUOTES}? *{head}", out.text)
                    if m is not None:
                        found.setdefault((m.end(), 0), []).append((m, v, field, written))
        if not found:
            return
        several = next(iter(found.values()))
        longest = max(len(m[0]) for m, *_ in several)
        several = [one for one in several if len(one[0][0]) == longest]
        m, v, field, written = several[0]
        if len(several) > 1:
            ways = " or ".join(f"“{o.name} where {f} = {w[0]}”" for _, o, f, w in several[:4])
            out.reason = f"“{m[0].strip()}” may be said of several attributes; write {ways}."
            return
        _put(out, m, v, field, written)
        if out.reason:
            return


def _put(out: Found, m: re.Match[str], v: VectorInfo, field: str, values: tuple[str, ...]) -> None:
    part = v.part(field, values)
    key = f"vector:{part.vector_id}"
    if len(key) > MAX_KEY:
        out.reason = f"The value of {field} is too long to ask for."
        return
    if all(p.vector_id != part.vector_id for p in out.parts):
        out.parts.append(part)
    lead = "of " if m[0].startswith("of ") else ""
    out.text = f"{out.text[: m.start()]} {lead}{out.sign(key)} {out.text[m.end() :]}"
    spare = []
    for sign, held in list(out.keys.items()):
        if held == f"vector:{v.vector_id}":
            # "of the wheat fields in fields.geojson" names the file once more
            out.text = re.sub(rf"(?<={re.escape(out.sign(key))}) *(?:in|of|from) +{re.escape(sign)}", " ", out.text)
            if sign not in out.text:
                spare.append(sign)
    for sign in spare:
        del out.keys[sign]
