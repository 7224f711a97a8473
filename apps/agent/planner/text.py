"""A question's words, taken out one after the other as they are read."""

from __future__ import annotations

import re
from decimal import Decimal

from apps.agent.planner.lexicon import lexicon
from apps.agent.units import UNIT_PATTERN

# 'Could you tell me …' asks what follows, not whether one could.
_POLITE = re.compile(
    r"\W*(?:hello[,!.]?\s+|hi[,!.]?\s+)?(?:please,?\s+)?(?:(?:can|could|would|will) you (?:please )?(?:tell|give|show|find|"
    r"calculate|compute|determine|estimate|measure|report|count)(?: me| us)?\b|"
    r"i(?: would|'d)? (?:like|want|need) to know\b|do you know\b)"
)


_LARGE = {"hundred": 2, "thousand": 3, "million": 6, "billion": 9}
_SPELLED = re.compile(
    rf"(?<![\w.,])(\d{{1,12}}(?:\.\d{{1,9}})?) ({'|'.join(_LARGE)}) (?=(?:{UNIT_PATTERN})(?![\w²^]))", re.IGNORECASE
)


# "Mean red", "maximum of blue inside the fields": right behind a statistic, and before no noun, a colour is a band.
_STATISTICS = "mean|average|median|minimum|maximum|min|max|lowest|highest|standard deviation|std(?:dev)?"
_COLOURS = re.compile(
    rf"\b((?:{_STATISTICS})(?: values?| level)?(?: of)?(?: the)? )(red|green|blue)(?: (?:channel|values?|dn))?"
    r"(?= *(?:$|[?.,;!]|(?:in|inside|of|over|for|at|from|within|on|across|between|outside|by|per|during|since|and|is|was)\b))",
    re.IGNORECASE,
)
_CHANNEL = re.compile(r"\b(red|green|blue|nir|near[- ]infrared|swir ?[12]|red edge|pan(?:chromatic)?) channel\b", re.IGNORECASE)


def spelled_out(text: str) -> str:
    """The text with "1.5 million km²" as "1500000 km²"; such a word without a unit of area or length behind it stays. "Mean red"
    becomes that of the red band."""
    text = _COLOURS.sub(r"\1\2 band", _CHANNEL.sub(r"\1 band", text))
    return _SPELLED.sub(lambda m: f"{Decimal(m[1]).scaleb(_LARGE[m[2].lower()]).normalize():f} ", text)


class Text:
    """A question in small letters, with the words that were read taken out one after the other."""

    def __init__(self, text: str) -> None:
        lowered = "".join(c.lower() if len(c.lower()) == 1 else c for c in text)
        for old, new in (("−", "-"), ("–", "-"), ("’", "'"), ("\n", " "), ("\t", " ")):
            lowered = lowered.replace(old, new)
        polite = _POLITE.match(lowered)
        if polite:
            lowered = " " * polite.end() + lowered[polite.end() :]
        self.text = lowered
        self.free = [True] * len(lowered)

    def restart(self, text: str) -> None:
        """The same question with signs in place of names; nothing is read yet."""
        self.text, self.free = text, [True] * len(text)

    @property
    def rest(self) -> str:
        """What was not read yet; read words are blanked by a sign that no pattern takes for a space."""
        return "".join(c if f else "\0" for c, f in zip(self.text, self.free, strict=True))

    def take(self, pattern: str) -> re.Match[str] | None:
        """The first match among the words not read yet; they are read then."""
        m = re.search(pattern, self.rest)
        if m:
            self.mark(*m.span())
        return m

    def find(self, pattern: str) -> re.Match[str] | None:
        """The first match among the words not read yet; they stay unread."""
        return re.search(pattern, self.rest)

    def take_all(self, pattern: str) -> list[re.Match[str]]:
        out = []
        while (m := self.take(pattern)) is not None and m.end() > m.start():
            out.append(m)
        return out

    def mark(self, start: int, end: int) -> None:
        self.free[start:end] = [False] * (end - start)

    def has(self, pattern: str) -> bool:
        return re.search(pattern, self.rest) is not None

    def said(self, pattern: str) -> bool:
        """True where the whole question has it, read or not."""
        return re.search(pattern, self.text) is not None

    def left_over(self) -> list[str]:
        fillers = lexicon().fillers
        found = re.findall(r"\d+(?:[.,]\d+)*|[^\W_]+(?:['\-][^\W_]+)*|[\ue000-\ue3ff]", self.rest)
        return [w if w < "\ue000" else "a file or place" for w in found if w not in fillers]
