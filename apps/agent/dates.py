"""Dates and periods in words: '2002-07-20', '20 July 2002', 'July 2002', 'summer 2013', '2013'."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from datetime import date

_MONTHS = {name.casefold(): i for i, name in enumerate(calendar.month_name) if name}
_MONTHS |= {name.casefold(): i for i, name in enumerate(calendar.month_abbr) if name} | {"sept": 9}
_MONTH = "|".join(sorted(_MONTHS, key=len, reverse=True))
_PLAIN_MONTH = "|".join(name.casefold() for name in calendar.month_name if name not in ("", "March", "May"))
_YEAR = r"(?:1[89]|20)\d\d"
_DAY = r"(?:3[01]|[12]\d|0?[1-9])"
_PATTERNS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("d.m.y", re.compile(rf"\b({_DAY})\.(0?[1-9]|1[0-2])\.({_YEAR})\b", re.I)),
    ("ymd", re.compile(rf"\b({_YEAR})[-/.](0?[1-9]|1[0-2])[-/.]({_DAY})\b(?:T[\d:.]+Z?)?", re.I)),
    ("dmy", re.compile(rf"\b({_DAY})(?:st|nd|rd|th)?(?:\s+of)?\s+({_MONTH})\.?,?\s+({_YEAR})\b", re.I)),
    ("mdy", re.compile(rf"\b({_MONTH})\.?\s+({_DAY})(?:st|nd|rd|th)?,?\s+({_YEAR})\b", re.I)),
    ("ym", re.compile(rf"\b({_YEAR})-(0[1-9]|1[0-2])\b(?!-)", re.I)),
    ("my", re.compile(rf"\b({_MONTH})\.?,?\s+(?:of\s+)?({_YEAR})\b", re.I)),
    (
        "y",
        re.compile(
            rf"(?<![\d.,])\b({_YEAR})\b(?![.,]?\d)(?!\s*(?:m|km|ha|acres?|px|pixels?|%|hectares?|met)\b)",
            re.I,
        ),
    ),
    (
        # a month alone; "may" and "march" are also other words and need a word of time before them
        "m",
        re.compile(
            rf"\b(?:(?:in|from|to|and|of|between|during|since|until)\s+({_MONTH})|({_PLAIN_MONTH}))\b(?!\s+{_DAY}\b)", re.I
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class DateSpan:
    """A span of days (both ends belong to it) as the text gives it; ``month_only`` where no year was said:
    ``start`` then has year 1 and stands for its month in any year. ``at``: (begin, end) of the words."""

    start: date
    end: date
    at: tuple[int, int]
    month_only: bool = False

    def covers(self, day: date) -> bool:
        return day.month == self.start.month if self.month_only else self.start <= day <= self.end

    def text(self) -> str:
        if self.month_only:
            return calendar.month_name[self.start.month]
        return self.start.isoformat() if self.start == self.end else f"{self.start.isoformat()}..{self.end.isoformat()}"


def dates_in(text: str) -> list[DateSpan]:
    """All dates of a text, in order; longer readings win over shorter ones. Impossible days (2013-02-30) are
    left out.
    """
    found: list[DateSpan] = []
    taken: list[tuple[int, int]] = []
    for kind, pattern in _PATTERNS:
        for m in pattern.finditer(text):
            at = m.span(1 if m[1] else 2) if kind == "m" else m.span()
            if any(a < at[1] and at[0] < b for a, b in taken):
                continue
            taken.append(at)
            try:
                start, end = _span(kind, m)
            except ValueError:
                continue
            found.append(DateSpan(start, end, at, month_only=kind == "m"))
    return sorted(found, key=lambda s: s.at)


def _span(kind: str, m: re.Match[str]) -> tuple[date, date]:
    if kind == "ymd":
        day = date(int(m[1]), int(m[2]), int(m[3]))
        return day, day
    if kind == "d.m.y":
        day = date(int(m[3]), int(m[2]), int(m[1]))
        return day, day
    if kind == "dmy":
        day = date(int(m[3]), _MONTHS[m[2].casefold()], int(m[1]))
        return day, day
    if kind == "mdy":
        day = date(int(m[3]), _MONTHS[m[1].casefold()], int(m[2]))
        return day, day
    if kind in ("ym", "my"):
        year, month = (int(m[1]), int(m[2])) if kind == "ym" else (int(m[2]), _MONTHS[m[1].casefold()])
        return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])
    if kind == "y":
        return date(int(m[1]), 1, 1), date(int(m[1]), 12, 31)
    month = _MONTHS[(m[1] or m[2]).casefold()]
    return date(1, month, 1), date(1, month, calendar.monthrange(1, month)[1])
