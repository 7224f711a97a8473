"""One thing and many of it, as English writes them: the lexicon's words first, then the rule for the rest."""

from __future__ import annotations

import re
from functools import lru_cache

from apps.agent.planner.lexicon import lexicon

# what has no plural: of it pieces are counted
_UNCOUNTED = frozenset({"land", "ground", "ice", "snow", "water", "vegetation", "grass", "sand", "soil", "forest cover"})
_IRREGULAR = {"person": "people", "man": "men", "woman": "women", "child": "children", "leaf": "leaves", "roof": "roofs"}
_SAME = frozenset({"aircraft", "watercraft", "hovercraft", "series", "species", "sheep"})
_FILE = re.compile(r"\S.*\.[a-z]{2,8}$", re.IGNORECASE)


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    return dict(entry.title for entry in lexicon().objects.values())


def many_of(noun: str) -> str:
    """``tree`` → ``trees``, ``palm tree`` → ``palm trees``, ``person`` → ``people``; a plural stays as it is."""
    known = _known()
    if noun in known:
        return known[noun]
    if noun in known.values() or not noun:
        return noun
    before, _, last = noun.rpartition(" ")
    low = last.lower()
    if low in _IRREGULAR:
        last = _IRREGULAR[low]
    elif low in _SAME or (low.endswith("s") and not low.endswith(("ss", "us"))):
        pass
    elif low.endswith(("s", "x", "z", "ch", "sh")):
        last += "es"
    elif re.search(r"[^aeiou]y$", low):
        last = f"{last[:-1]}ies"
    else:
        last += "s"
    return f"{before} {last}".strip()


def things_text(name: str, n: float) -> str:
    """What a number of things is of: ``1 tree`` but ``54 trees``, ``3 pieces of water``, ``5 features of stations.geojson``.

    Only the words, without the number; whatever is not exactly one is many.
    """
    is_one = n == 1
    targets = lexicon().targets
    if _FILE.match(name):
        return f"{'feature' if is_one else 'features'} of {name}"
    if name in targets or name.rpartition(" ")[2].lower() in _UNCOUNTED:
        title = targets[name].title if name in targets else name
        return f"{'piece' if is_one else 'pieces'} of {title}"
    return name if is_one else many_of(name)
