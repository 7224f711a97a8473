"""Questions said in other words than those that are read: put into these before anything else."""

from __future__ import annotations

import re

_NEIGHBOURS = re.compile(
    r"\b(?:(?:what|which|who|list|name|show(?: me)?|find|give(?: me)?)(?: are)?(?: all)?(?: of)?(?: the)? |(?P<n>how many) )"
    r"(?:(?:direct |immediate )?neighbou?rs of|neighbou?ring (?P<noun>[a-z]+)(?: of)?|neighbou?rs (?=does|do)) ?(?:does |do )?"
    r"(?P<of>[^?]+?)(?: have| has)?(?P<end>\W*)$"
)
# "how many countries does Brazil border", "with which counties does Mesa share a border"
_BORDERED = re.compile(
    r"^\W*(?:with )?(?P<asks>how many|which|what) (?P<noun>[a-z]+) (?:does|do) (?P<of>[^?]+?) "
    r"(?:border|touch|adjoin|neighbou?r|share (?:a |its |their )?(?:common )?borders?|have (?:a )?(?:common )?borders?)"
    r"(?: on| with)?(?P<end>\W*)$"
)
_SIZED = {"larger": "area", "bigger": "area", "greater": "area", "smaller": "area", "longer": "length", "shorter": "length"}
_AS_SIZED = {"large": "area", "big": "area", "great": "area", "small": "area", "long": "length", "short": "length"}
_LESS = ("smaller", "shorter", "small", "short")
_TIMES = r"^\W*(?:(?:how many|what number of) times|by (?:what|which) factor(?: is)?)"
_BE = r"(?:is |are |was |were )"
_THAN = rf"(?P<word>{'|'.join(_SIZED)})"
_AS = rf"(?:as (?P<word>{'|'.join(_AS_SIZED)}) as)"
_RATIOS = tuple(
    re.compile(pattern)
    for pattern in (
        rf"{_TIMES} {_THAN} {_BE}(?P<a>[^?]+?) than (?P<b>[^?]+?)\W*$",
        rf"{_TIMES} {_THAN} than (?P<b>[^?]+?) {_BE}(?P<a>[^?]+?)\W*$",
        rf"{_TIMES} (?P<a>[^?]+?) {_THAN} than (?P<b>[^?]+?)\W*$",
        rf"{_TIMES} {_AS} (?P<b>[^?]+?) {_BE}(?P<a>[^?]+?)\W*$",
        rf"{_TIMES} as (?P<word>{'|'.join(_AS_SIZED)}) {_BE}(?P<a>[^?]+?) as (?P<b>[^?]+?)\W*$",
        rf"{_TIMES} the (?P<word>area|size|length) of (?P<b>[^?]+?) {_BE}(?:the (?:area|size|length) of )?(?P<a>[^?]+?)\W*$",
    )
)


def rewritten(text: str) -> str:
    """The small-lettered question in words that are read: "what are the neighbours of Germany" → "which features border Germany",
    "how many times larger is A than B" → "what is the ratio of the area of A to the area of B"."""
    text = _NEIGHBOURS.sub(_that_border, text)
    text = _BORDERED.sub(lambda m: f"{m['asks']} {m['noun']} border {m['of']}{m['end']}", text)
    return _of_ratio(text)


def _that_border(m: re.Match[str]) -> str:
    return f"{m['n'] or 'which'} {m['noun'] or 'features'} border {m['of']}{m['end']}"


def _of_ratio(text: str) -> str:
    m = next((m for pattern in _RATIOS if (m := pattern.match(text)) is not None), None)
    if m is None:
        return text
    word = m["word"]
    figure = _SIZED.get(word) or _AS_SIZED.get(word) or ("length" if word == "length" else "area")
    one, other = (m["b"], m["a"]) if word in _LESS else (m["a"], m["b"])
    return f"what is the ratio of the {figure} of {one} to the {figure} of {other}?"
