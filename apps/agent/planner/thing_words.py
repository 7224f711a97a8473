"""What part each thing of a question plays, and the words by which things of the image are found."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from apps.agent.planner.fields import Where
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.spatial import SIGN
from apps.agent.planner.text import Text

DISTANCE = r"\bhow (?:far|close)(?: apart)?\b|\b(?:the )?distances?\b"
PREPOSITION = r"(?:\b(?:in|inside|within|of|for|over|across|between|under|along|from|on|at) )"


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


def targets_at(t: Text) -> dict[int, str]:
    """Position → name of the targets and objects that the words name; nothing is read."""
    return {at: name for at, (_, name) in spans_at(t).items()}


def spans_at(t: Text) -> dict[int, tuple[int, str]]:
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


def names_the_image(t: Text) -> bool:
    """Whether an index or a band is named."""
    words = lexicon()
    named = [*(w for i in words.indices.values() for w in i.words), *(w for b in words.bands.values() for w in b.words)]
    return any(re.search(rf"(?<![\w\-]){re.escape(w)}(?:'s)?(?![\w\-])", t.rest) for w in named)


def take_signs(t: Text) -> None:
    t.take_all(SIGN)


SHARE = r"\b(?:what |which )?(?:share|fraction|proportion|portion|percentage|percent|per cent|part)\b|%"
_EXTREME = r"\b(?:largest|biggest|greatest|longest|smallest|shortest) (?:of )?(?:the )? *"


def is_extreme_of_a_thing(t: Text) -> bool:
    """Whether a word such as "largest" stands right before a thing: it says which thing, and not which distance."""
    if re.search(rf"{_EXTREME}{SIGN}", t.text):
        return True
    words = lexicon()
    named = [w for e in words.targets.values() for w in (*e.words, *e.narrower)]
    named += [w for o in words.objects.values() for w in o.words]
    things = "|".join(re.escape(w) for w in sorted(named, key=len, reverse=True))
    return re.search(rf"{_EXTREME}(?:{things})(?![\w\-])", t.text) is not None
