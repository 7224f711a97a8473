"""Features chosen by a value of an attribute: "fields where crop = maize", "the wheat fields".

Attributes and values are compared with the question's words and become one sign; nothing in them is read as a word. Values are
compared without regard to case and outer spaces; those that differ in that alone are taken together. A limit ("yield over 5") or
"not" chooses those of the file's values for which it is true, so that tool and verifier are told values and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

from apps.agent.planner.attribute_days import DAY_OPS, is_of_days, said_as_days
from apps.agent.planner.attribute_parts import MAX_LISTED, put_limits, put_part
from apps.agent.planner.fields import MAX_KEY
from apps.agent.planner.text import Text
from apps.agent.units import UNIT_PATTERN
from apps.core.evidence.plan import Question
from apps.core.geo.vector import Limits, VectorInfo, number_of_text

if TYPE_CHECKING:
    from apps.agent.planner.spatial import Found

# Values offered by the page's form, of each file.
MAX_OFFERED = 40
# Of an attribute with more values none is offered.
MOST_SHARED = 60
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
_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\w.,\-/]*\d)"
# op → how it is said before its number, and after it; longer ways first.
_OPS = {
    ">=": r"(?:greater|more|higher) than or equal to|(?:no|not) (?:less|lower|fewer) than|at least|since|>=|≥",
    "<=": r"(?:less|lower|fewer) than or equal to|(?:no|not) (?:more|higher|greater) than|at most|up to|<=|≤",
    ">": r"(?:more|greater|higher|larger|bigger|later) than|above|over|exceeding|after|>",
    "<": r"(?:less|lower|smaller|fewer|earlier) than|below|under|before|<",
}
_THEN = {
    ">=": r"(?:or|and) (?:more|above|over|higher|greater|larger|later|after)",
    "<=": r"(?:or|and) (?:less|fewer|below|under|lower|smaller|earlier|before)",
}
_SAID_BEFORE = "|".join(_OPS.values())
_SAID_AFTER = "|".join(_THEN.values())
_ONE_LIMIT = rf"(?:(?:{_SAID_BEFORE}) *{_NUMBER}|{_NUMBER} *(?:{_SAID_AFTER})\b)"
_LIMITS = (
    rf"(?:(?:between|from) +{_NUMBER} +(?:and|to) +{_NUMBER}|{_ONE_LIMIT}"
    rf"(?: *(?:and|but) +(?:is |are )?{_ONE_LIMIT}(?! *(?:{UNIT_PATTERN})(?![\w²])))?)"
)
# Behind a limit: a unit, of which nothing is known, or a number that is not over yet.
_UNIT_BEHIND = rf" *(?:(?:{UNIT_PATTERN})(?![\w²])|%|°|(?:hundred|thousand|million|billion|bn|mn|k|t|kg|tons?|tonnes?)\b|\w+/\w)"
_NOT = r"(?:(?:is |are )?(?:not|other than|anything but|neither)(?: equal to)?|isn't|aren't|!=|≠|<>)"
_PLAIN = ("area", "length", "size", "perimeter")  # as those of the shapes themselves are said
_ARTICLE = r"(?:(?:all (?:of )?)?the |all |any |these )?"
_QUOTES = "[\"'“”‘]"


def part_signs(out: Found, question: Question, noun_of: Callable[[VectorInfo], str], plain: frozenset[str]) -> None:
    """Puts a sign in place of features that are chosen by a value. ``noun_of``: a pattern of what a file's features are called;
    ``plain``: words that mean something else when they stand right before a thing."""
    original, has_image = question.text, bool(question.scenes)
    vectors = [v for v in question.vectors if v.noun != "features"]
    held = [v for v in vectors if v.values]
    for v in vectors:
        for field in sorted(set(v.fields) - set(v.values), key=len, reverse=True):
            _said_as_limit(out, v, vectors, field, noun_of, plain)
            if out.reason:
                return
    for v in held:
        for field in sorted(v.values, key=len, reverse=True):
            _said_as_limit(out, v, held, field, noun_of, plain)
            if not out.reason:
                _said_with_its_attribute(out, v, held, field, noun_of)
            if out.reason:
                return
    for v in vectors:
        for field in sorted(v.spreads, key=len, reverse=True):
            _said_of_many(out, v, field, noun_of, original)
            if out.reason:
                return
    said_as_days(out, vectors, lambda v: _head(v, out, noun_of), has_image=has_image)
    if not out.reason:
        _said_before(out, held, noun_of, plain)


def attributes_told(text: str, vectors: Iterable[VectorInfo], plain: frozenset[str], left: Iterable[str] = ()) -> str:
    """What a refusal says where the words name an attribute of a file, or a value of one, and were not understood so; '' where
    they name none. ``left``: the words that were not understood."""
    vectors, low, left = list(vectors), Text(text).text, list(left)
    for v in vectors:
        for field in sorted(v.fields, key=len, reverse=True):
            called = field.lower()
            is_plain = called in plain or called in _PLAIN or re.fullmatch(_OTHERS, called)
            if len(called) >= 3 and not is_plain and re.search(rf"(?<![\w\-])(?:{_called(field)})(?:s|es)?(?![\w\-])", low):
                return (
                    f"“{field}” is an attribute of {v.name}: features are chosen by it (“where {field} = …”, “with {field} over "
                    "…”); its values are not listed, added up or averaged."
                )
    for v in vectors:
        for field, counted in v.values.items():
            for value in counted:
                if value.strip().lower() in left and number_of_text(value) is None:
                    return f"“{value.strip()}” is a value of {field} in {v.name}: write “where {field} = {value.strip()}”."
    return ""


def limit_not_understood(left: Iterable[str], vector: VectorInfo | None) -> str:
    """Why a limit that neither a size nor an attribute has is refused; ``left``: the words that were not understood."""
    left = list(dict.fromkeys(left))
    if not left:
        return (
            "A limit belongs to a question of yes or no here, to a size (“larger than 2 ha”) or to an attribute of a file "
            "(“where … is over 5”)."
        )
    words = ", ".join(f"“{w}”" for w in left[:5])
    if vector is None or not vector.fields:
        return f"I do not understand {words} beside a limit; one of size is written “larger than 2 ha”."
    near = get_close_matches(" ".join(left), [f.lower() for f in vector.fields], 1, 0.7) or [
        m for w in left for m in get_close_matches(w, [f.lower() for f in vector.fields], 1, 0.7)
    ]
    named = next((f for f in vector.fields if near and f.lower() == near[0]), "")
    if named and named.lower() in left:
        return f"How {words} belongs to the limit I can't tell; write “with {named} over …”, “under …” or “between … and …”."
    guess = f" Is “{named}” meant?" if named else ""
    known = ", ".join(vector.fields[:MAX_OFFERED])
    have = f"it has {known}" if len(vector.fields) < MAX_OFFERED else f"the first {MAX_OFFERED} are {known}"
    return f"I do not understand {words} beside a limit: no attribute of {vector.name} that I know.{guess} Of attributes {have}."


def some_parts(vector: VectorInfo) -> list[VectorInfo]:
    """Parts of a file that a form offers: those of attributes whose values several features share."""
    if vector.noun == "features":
        return []
    shared = [(f, v) for f, counted in vector.values.items() if len(counted) < min(vector.n, MOST_SHARED) for v in counted]
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
        others = rf"(?P<not>{_NOT}) *(?P<said>{said}(?: n?or {said})*)"
        m = re.search(rf"{lead} *{others}{_NOT_IT}(?! *(?:n?or|but|and not)\b)", out.text)
    if m is None:
        is_days = is_of_days(v, field) and re.search(rf"{lead} *(?:{_IS} )?{DAY_OPS}\b", out.text)
        if not is_days and re.search(rf"{lead} *{'=' if field.lower() in _PLAIN else _STRICT}", out.text):
            n = len(v.values[field])
            some = ", ".join(f"“{x}”" for x in list(v.values[field])[:12])
            more = f" and {n - 12:,} others" if n > 12 else ""
            out.reason = (
                f"No feature of {v.name} has just the {field} that is named. Its values are {some}{more}; write “where {field} = "
                f"…”, with “or” between several, “where {field} is not …”, or a number behind “over”, “under” or “between”."
            )
        return
    if _is_of_several(out, m, v, held, field, noun_of):
        return
    values = tuple(dict.fromkeys(x for k in re.findall(one, m["said"]) for x in _of(alike, k)))
    if "not" in m.groupdict():
        values = _others(out, v, field, values)
    if not out.reason:
        _put(out, m, v, field, values)


def _said_of_many(out: Found, v: VectorInfo, field: str, noun_of: Callable[[VectorInfo], str], original: str) -> None:
    """'parcels where owner = “Ann Smith”' of an attribute whose values are not listed: a value is a number, a word or quoted, and
    compared as it is written."""
    spread = v.spreads[field]
    if field == v.name_field or field.lower() in _PLAIN:
        return
    lead = rf"(?<![\w\-])(?:of )?{_head(v, out, noun_of)} *{_WHERE} (?:{_called(field)})(?![\w\-])"
    value = r"(?:[\"'“‘](?P<q>[^\"'“”’]+)[\"'”’]|(?P<w>[^\s?,\ue000-\ue3ff]+))"
    equal = rf"(?:is equal to |is |are |equals? |= ?|== ?)(?!{_NOT}|{DAY_OPS}\b)"
    m = re.search(rf"{lead} *{equal}{value}{_NOT_IT}", out.text)
    if m is None:
        if re.search(rf"{lead} *(?:{_IS} *)?(?:{_NOT}|{_STRICT})", out.text) and spread.kind != "day":
            more = ", or a number behind “over”, “under” or “between”" if spread.kind == "number" else ""
            out.reason = (
                f"{v.name} has {spread.n_values:,} values of {field}, too many to list: name one as the file has it, in "
                f'quotation marks (“where {field} = "…"”){more}.'
            )
        return
    low = (m["q"] or m["w"]).strip()
    if spread.kind == "number":
        number = number_of_text(low.replace(",", ""))
        if number is not None:
            put_limits(out, m, v, field, Limits(low=number, high=number))
        return
    if spread.kind == "text":
        written = re.search(re.escape(low), original, re.IGNORECASE)
        put_part(out, m, v, v.part(field, (written[0] if written else low,)))


def _is_of_several(
    out: Found, m: re.Match[str], v: VectorInfo, held: Iterable[VectorInfo], field: str, noun_of: Callable[[VectorInfo], str]
) -> bool:
    """Whether what was said may be meant of another file too; then the file is asked for."""
    rivals = [o for o in held if o is not v and field in o.values and re.search(_head(o, out, noun_of), m[0])]
    if not rivals or any(s in m[0] for s, k in out.keys.items() if k == f"vector:{v.vector_id}"):
        return False
    out.reason = f"“{field}” is an attribute of several files ({', '.join(o.name for o in (v, *rivals))}); name the file."
    out.needs = {"vectors": [o.vector_id for o in (v, *rivals)]}
    return True


def _others(out: Found, v: VectorInfo, field: str, values: tuple[str, ...]) -> tuple[str, ...]:
    """The file's other values of an attribute; a reason where it is not known which features are meant."""
    left = tuple(x for x in v.values[field] if x not in values)
    if (n := v.n - sum(v.values[field].values())) > 0:
        out.reason = (
            f"{n} of the {v.n} features of {v.name} have no {field}; whether they are meant by “not” I can't tell. Write “where "
            f"{field} = …” with “or” between the values that are ({', '.join(left[:12])}{', …' if len(left) > 12 else ''})."
        )
    elif not left:
        out.reason = f"No feature of {v.name} has another {field}."
    return left


def _said_as_limit(
    out: Found, v: VectorInfo, held: Iterable[VectorInfo], field: str, noun_of: Callable[[VectorInfo], str], plain: frozenset[str]
) -> None:
    """'fields with a yield over 5', 'buildings built before 1950', 'parcels where class is between 2 and 4'."""
    if field.lower() in _PLAIN:
        return
    where = rf"(?:{_WHERE} |(?:that |which )?(?:is |are |was |were )?)"
    lead = rf"(?<![\w\-])(?:of )?{_head(v, out, noun_of)} *{where}(?:{_called(field)})(?![\w\-]) *(?:{_IS} +)?"
    m = re.search(rf"{lead}(?P<said>{_LIMITS})", out.text)
    if m is None and not any(re.fullmatch(noun_of(o) or "(?!)", field.lower()) for o in held):
        # "roads with more than 2 lanes"
        having = r"(?:with|having|(?:that |which )?(?:have|has))(?: an?)?"
        m = re.search(
            rf"(?<![\w\-])(?:of )?{_head(v, out, noun_of)} *{having} (?P<said>{_LIMITS}) *(?:{_called(field)})(?![\w\-])",
            out.text,
        )
    if m is None or _is_of_several(out, m, v, held, field, noun_of):
        return
    if field.lower() in plain and not re.search(r" (?:attribute|column) ", m[0]):
        out.reason = (
            f"“{field}” is an attribute of {v.name} and something that an image may show; write “where attribute {field} is over "
            "…” for the one, “with a mean … above …” for the other."
        )
        return
    if field not in v.values and field not in v.spreads:
        out.reason = (
            f"I can't compare the {field} of {v.name}: it has no values that are numbers or texts; a file that was added long "
            "ago is first to be read again on its page."
        )
        return
    if re.match(_UNIT_BEHIND, out.text[m.end() :]):
        out.reason = f"In which unit {v.name} has its {field} is not known; write the number as the file has it, without a unit."
        return
    if re.match(r" *,? *(?:n?or|but|and not)\b", out.text[m.end() :]):
        out.reason = f"Limits of {field} are joined by “and” alone; ask for one range after the other."
        return
    if is_of_days(v, field):
        return  # "after 2018" is one of days, and read as such
    if wrong := _no_numbers(v, field):
        out.reason = f"Not every {field} of {v.name} is a number ({wrong}), so I can't tell which are beyond a limit."
        return
    put_limits(out, m, v, field, _limits_of(m["said"]))


def _no_numbers(v: VectorInfo, field: str) -> str:
    """Some values of an attribute that are no numbers; '' where all are."""
    if field in v.spreads:
        spread = v.spreads[field]
        return "" if spread.kind == "number" else f"it has {spread.n_values:,} values"
    return ", ".join(f"“{x}”" for x in [x for x in v.values[field] if number_of_text(x) is None][:5])


def _limits_of(said: str) -> Limits:
    """The limits of words; both ends of 'between 2 and 4' belong to it."""
    plain = [float(n.replace(",", "")) for n in re.findall(_NUMBER, said)]
    if re.match(r"between|from", said):
        return Limits(low=min(plain), high=max(plain))
    low: tuple[float, bool] | None = None
    high: tuple[float, bool] | None = None
    for one, number in zip(re.findall(_ONE_LIMIT, said), plain, strict=True):
        before = next((op for op, ways in _OPS.items() if re.match(ways, one)), "")
        op = before or next(op for op, ways in _THEN.items() if re.search(rf"(?:{ways})$", one))
        # the narrower of two of one side; at one number the one that leaves it out
        if op[0] == ">":
            low = max(low or (number, False), (number, op == ">"))
        else:
            high = min((high[0], not high[1]) if high else (number, True), (number, op != "<"))
            high = (high[0], not high[1])
    ends: Literal["", "min", "max", "both"] = ""
    if low and high and low[1] and high[1]:
        ends = "both"
    elif (low and low[1]) or (high and high[1]):
        ends = "min" if low and low[1] else "max"
    return Limits(low=low[0] if low else None, high=high[0] if high else None, open=ends)


def _of(alike: Mapping[str, tuple[str, ...]], said: str) -> tuple[str, ...]:
    if said in alike:
        return alike[said]
    return tuple(x for k, values in alike.items() if re.fullmatch(_value_pattern(k), said) for x in values)


# "Wheat and barley area" is one figure where the words say so, else it may be two.
TOGETHER = r"\b(?:total|together|combined|altogether|overall|in all)\b"
# Beside these words "wheat or barley area" names two figures, and not one of both.
OF_TWO = (
    r"\b(?:ratio|differ\w*|compar\w+|versus|vs|larger|bigger|smaller|longer|shorter|more|less|fewer|than|either|respectively)\b"
)


def _said_before(out: Found, held: list[VectorInfo], noun_of: Callable[[VectorInfo], str], plain: frozenset[str]) -> None:
    """'the wheat fields', 'wheat or barley fields', 'fields of wheat': values beside what a file's features are called."""
    for _ in range(5):
        found: dict[tuple[int, int], list[tuple[re.Match[str], VectorInfo, str, tuple[str, ...]]]] = {}
        for v in held:
            head = _head(v, out, noun_of).removeprefix(_ARTICLE)
            for field, counted in v.values.items():
                alike = {
                    value: written
                    for value, written in _alike(counted).items()
                    if value in out.text and len(value) >= 3 and value not in plain and re.search(r"[^\W\d_]", value)
                }
                if not alike:
                    continue
                one = rf"{_QUOTES}?(?:{'|'.join(re.escape(k) for k in alike)}){_QUOTES}?(?![\w\-])"
                joint = "or|and" if re.search(TOGETHER, out.text) else "or"
                several = rf"{one}(?:(?:,? (?:{joint})|,) (?:the )?{one})*" if not re.search(OF_TWO, out.text) else one
                m = re.search(rf"(?<![\w\-]){_ARTICLE}(?P<said>{several}) *{head}", out.text) or re.search(
                    rf"(?<![\w\-]){_ARTICLE}(?!areas?\b){head} (?:in|of|from) (?:the )?(?P<said>{several})", out.text
                )
                if m is not None:
                    said = re.findall("|".join(re.escape(k) for k in alike), m["said"])
                    written = tuple(dict.fromkeys(x for k in said for x in alike[k]))
                    found.setdefault((m.end(), 0), []).append((m, v, field, written))
        if not found:
            return
        rivals = next(iter(found.values()))
        longest = max(len(m[0]) for m, *_ in rivals)
        rivals = [one for one in rivals if len(one[0][0]) == longest]
        m, v, field, written = rivals[0]
        if len(rivals) > 1:
            ways = " or ".join(f"“{o.name} where {f} = {w[0]}”" for _, o, f, w in rivals[:4])
            out.reason = f"“{m[0].strip()}” may be said of several attributes; write {ways}."
            return
        # "the wheat area" is the area of the wheat; "how many wheat areas" is one of features
        is_area = m[0].endswith(" area") or (m[0].endswith(" areas") and re.search(r"\bratio\b", out.text) is not None)
        before = out.text[: m.start()]
        _put(out, m, v, field, written)
        if out.reason:
            return
        if is_area:
            out.text = f"{before} the area of {out.text[len(before) :]}"


def _put(out: Found, m: re.Match[str], v: VectorInfo, field: str, values: tuple[str, ...]) -> None:
    part = v.part(field, values)
    if len(values) > MAX_LISTED or len(f"vector:{part.vector_id}") > MAX_KEY:
        out.reason = f"{len(values)} values of {field} are too many or too long to ask for at once; ask for a narrower range."
        return
    put_part(out, m, v, part)
