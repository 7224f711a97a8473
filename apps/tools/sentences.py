"""Sentences for planners and people: what pydantic found, and messages without machine paths."""

from __future__ import annotations

import re

from pydantic import ValidationError

# an absolute path of a machine: two or more parts after the root; its last part stays
_PATH = re.compile(r"(?<![\w.:/])(?:[A-Za-z]:\\|/)(?:[^\s'\":;,()<>\\/]+[\\/])+([^\s'\":;,()<>\\/]*)")


def without_paths(text: str) -> str:
    """The text with absolute paths cut to their last part."""
    return _PATH.sub(r"\1", text)


def as_sentence(text: str) -> str:
    """With a capital where it begins with a plain word; names of files, bands and parameters keep their letters."""
    return re.sub(r"^[a-z]+(?=[ ,])", lambda m: m[0].capitalize(), text)


def validation_sentence(error: ValidationError) -> str:
    """The first three faults as one sentence."""
    faults = error.errors(include_url=False, include_context=False)
    parts = []
    for fault in faults[:3]:
        where = ".".join(str(p) for p in fault["loc"])
        given = fault.get("input")
        shown = f" (given: {given!r:.60})" if isinstance(given, (str, int, float, bool)) else ""
        parts.append(f"{where or 'arguments'}: {fault['msg'][:1].lower()}{fault['msg'][1:]}{shown}")
    more = f" and {len(faults) - 3} more" if len(faults) > 3 else ""
    return "; ".join(parts) + more + "."
