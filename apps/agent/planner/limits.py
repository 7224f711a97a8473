"""Words that say numbers and change: limits, drops and rises, names of indices and targets."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.text import Text
from apps.agent.units import UNIT_PATTERN, unit_of

_NUMBER = r"[-+]?(?:\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:[.,]\d+)?|\.\d+)"
_YEAR = r"(?:19|20)\d\d"
_ABOVE = (
    r"no less than|not less than|at least|greater than or equal to|greater than|higher than|more than|larger than|bigger than|"
    r"above|exceeding|exceeds?|over(?!\s+(?:19|20)\d\d\b)|>=|≥|>"
)
_BELOW = (
    r"no more than|not more than|at most|less than or equal to|less than|lower than|smaller than|fewer than|not exceeding|"
    r"below|under|<=|≤|<"
)
_CLOSED = re.compile(r"no less|not less|at least|equal|>=|≥|no more|not more|at most|<=|≤|not exceed")
# the longest reading of a unit wins, and a unit ends where its word ends
UNIT = rf"(?P<unit>{UNIT_PATTERN})(?![\w²^])"
DROP = (
    r"disappear(?:s|ed)?|vanish(?:es|ed)?|shrank|shrunk|shrinks?|recede[sd]?|drop(?:s|ped)?|"
    r"decreas(?:e|es|ed)|declin(?:e|es|ed)|f(?:a|e)ll(?:s|en)?|loss(?:es)?|los(?:t|e)|reduc(?:tion|ed)"
)
RISE = r"expand(?:s|ed)?|ris(?:e|es|en)|rose|increas(?:e|es|ed)|gain(?:s|ed)?|growth|gr(?:ew|own?|ows)"
CHANGE = r"chang(?:e|es|ed)|differ(?:ence|ences|s)?"
MOST = r"largest|larger|biggest|bigger|highest|higher|greatest|greater|most|more|maximum|maximal|peak"
LEAST = r"smallest|smaller|lowest|lower|least|less|fewest|fewer|minimum|minimal"


@dataclass(slots=True)
class Threshold:
    value: float
    side: str
    is_closed: bool
    unit: str
    change: str
    at: int


def limits_said(t: Text) -> list[Threshold]:
    """Comparisons with a number; in 'a drop in NDVI of more than 0.2' it is one of a change. 'between 0.2 and 0.4' is two."""
    out = []
    tail = rf"(?:\s*{UNIT})?"
    number = rf"(?P<number>{_NUMBER})(?![\d.]|[-/]\d)"
    between = (
        rf"\b(?:between|from)\s+(?!{_YEAR}\b)(?P<low>{_NUMBER})(?![\d.]|[-/]\d)\s*%?\s*(?:and|to|-)\s*(?!{_YEAR}\b){number}{tail}"
    )
    for span in t.take_all(between):
        unit = unit_of(span["unit"] or "") or ""
        out.append(Threshold(_value_of(span["low"]), "above", True, unit, "", span.start()))
        out.append(Threshold(_value_of(span["number"]), "below", True, unit, "", span.start() + 1))
    first = rf"(?:(?<!\w)|(?=[<>≤≥]))(?P<op>{_ABOVE}|{_BELOW})(?P<mid>(?:\s+(?:an?|the|of|{_index_words()}))*)\s*{number}{tail}"
    second = (
        rf"(?<![\w.]){number}{tail}\s*(?P<mid>)(?P<op>or (?:more|above|higher|greater|over|less|below|lower|fewer)|"
        r"and (?:above|more|below|less))\b(?!\s*[\d.])"
    )
    for pattern, is_closed in ((second, True), (first, False)):
        while (m := t.find(pattern)) is not None:
            op = m["op"]
            # the index that stands between is left to be read as one
            t.mark(m.start(), m.start("mid"))
            t.mark(m.end("mid"), m.end())
            is_below = re.search(rf"{_BELOW}|\bless|\blower|\bfewer", op) and not re.search(r"no less|not less", op)
            side = "below" if is_below else "above"
            closed = is_closed or bool(_CLOSED.search(op))
            unit = unit_of(m["unit"] or "") or ""
            out.append(Threshold(_value_of(m["number"]), side, closed, unit, _change_before(t, m.start()), m.start()))
    return sorted(out, key=lambda h: h.at)


def _value_of(number: str) -> float:
    """1,000 is a thousand; 0,4 is a decimal number."""
    if re.fullmatch(r"[-+]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?", number):
        return float(number.replace(",", ""))
    return float(number.replace(",", "."))


@lru_cache(maxsize=1)
def _index_words() -> str:
    """A pattern of all words for indices and bands, longest first."""
    words = lexicon()
    named = [*(w for i in words.indices.values() for w in i.words), *(w for b in words.bands.values() for w in b.words)]
    return "|".join(re.escape(w) for w in sorted(named, key=len, reverse=True))


def _change_before(t: Text, at: int) -> str:
    """drop or rise where such a word governs the number at ``at``: nothing but small words and an index
    stand between.
    """
    m = re.search(rf"\b(?P<word>{DROP}|{RISE})(?P<tail>(?:\s+(?:in|of|by|the|its|a|mean|{_index_words()}))*\s*)$", t.rest[:at])
    if m is None:
        return ""
    t.mark(*m.span("word"))
    return "drop" if re.fullmatch(DROP, m["word"]) else "rise"


def names_in(t: Text, entries: Iterable[tuple[str, str]]) -> list[str]:
    """Names whose words stand in the text, longest words first, in the order of the text; each once."""
    found: list[tuple[int, str]] = []
    for word, name in sorted(entries, key=lambda e: (-len(e[0]), e[0])):
        for m in t.take_all(rf"(?<![\w\-]){re.escape(word)}(?:'s)?(?![\w\-])"):
            found.append((m.start(), name))
    return list(dict.fromkeys(name for _, name in sorted(found)))
