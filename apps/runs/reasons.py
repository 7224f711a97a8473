"""Why something was decided, and what is to be known beside an answer, as the page says it: each thing once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from apps.core.evidence.decision import Decision

# a sign that the verifier weighed, as its reasons say it: what it is, and its part of the log-odds
_WEIGHED = re.compile(r"(?:For|Against): (?P<words>.+) \((?P<weight>[-+]\d+\.\d+)\)\.", re.DOTALL)


def reasons_shown(decision: Decision | None) -> tuple[list[tuple[float, str]], list[str]]:
    """The weighed signs with their weight, largest first as they stand, and the other sentences."""
    weighed: list[tuple[float, str]] = []
    rest: list[str] = []
    for reason in decision.reasons if decision is not None else ():
        found = _WEIGHED.fullmatch(reason)
        if found:
            weighed.append((float(found["weight"]), found["words"][:1].upper() + found["words"][1:]))
        else:
            rest.append(reason)
    return weighed, rest


def told_once(notes: Iterable[str], names: Sequence[str]) -> list[str]:
    """Notes that differ only by the image they begin with are one that names the images, in the order of the first."""
    images: dict[str, list[str]] = {}
    for note in notes:
        name = next((n for n in names if note.startswith(f"{n}: ")), "")
        images.setdefault(note[len(name) + 2 :] if name else note, []).append(name)
    out = []
    for text, of in images.items():
        held = list(dict.fromkeys(filter(None, of)))
        if len(held) > 3:
            out.append(f"{held[0]} and {len(held) - 1} more images: {text}")
        else:
            out.append(f"{' and '.join([', '.join(held[:-1]), held[-1]] if len(held) > 1 else held)}: {text}" if held else text)
    return out
