"""The honest account of docs/evaluation.md, so that the page says what the document says: one text, two places."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "evaluation.md"
_WANTED = re.compile(r"not caught|what is not", re.IGNORECASE)
_MARK = re.compile(r"\*\*(?P<strong>.+?)\*\*|`(?P<code>[^`]+)`", re.DOTALL)


def runs_of(text: str) -> list[dict[str, str]]:
    """The words of a line of Markdown with their kind: text, strong or code. Nothing in them is markup."""
    out, at = [], 0
    for found in _MARK.finditer(text):
        if found.start() > at:
            out.append({"kind": "text", "words": text[at : found.start()]})
        kind = "strong" if found["strong"] else "code"
        out.append({"kind": kind, "words": found[kind]})
        at = found.end()
    return [*out, {"kind": "text", "words": text[at:]}] if at < len(text) else out


def sections_of(markdown: str) -> list[dict[str, Any]]:
    """Sections whose heading speaks of what is not caught: {part, title, items}, each item a list of runs."""
    part, title, found, item = "", "", [], ""
    items: list[list[dict[str, str]]] = []

    def close_item() -> None:
        nonlocal item
        if item and _WANTED.search(title):
            items.append(runs_of(item))
        item = ""

    def close_section() -> None:
        nonlocal items
        close_item()
        if items:
            found.append({"part": part, "title": title, "items": items})
        items = []

    for line in markdown.splitlines():
        if line.startswith("#"):
            close_section()
            level, _, words = line.partition(" ")
            if len(level) <= 2:
                part = words
            title = words
        elif line.startswith("- "):
            close_item()
            item = line[2:].strip()
        elif line.startswith("  ") and item:
            item += " " + line.strip()
        else:
            close_item()
    close_section()
    return found


@lru_cache(maxsize=1)
def _read(changed: float) -> list[dict[str, Any]]:
    return sections_of(DOCUMENT.read_text())


def honest_account() -> list[dict[str, Any]]:
    """What docs/evaluation.md says is not caught; [] where the document is not there."""
    try:
        return _read(DOCUMENT.stat().st_mtime)
    except OSError:
        return []
