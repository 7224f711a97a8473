"""Completeness of figures of a year, a season or a month: dates of the scenes stand in it, and through most of it."""

from __future__ import annotations

import calendar
import re
from datetime import date, timedelta
from typing import Any

import numpy as np

from apps.verification.case import Case, Finding, failed, not_applicable, passed
from apps.verification.checks.catalogue import check

_SEASONS = {"winter": 12, "spring": 3, "summer": 6, "autumn": 9, "fall": 9, "djf": 12, "mam": 3, "jja": 6, "son": 9}
_MONTHS = {name.lower(): k for k, name in enumerate(calendar.month_name) if name} | {
    name.lower(): k for k, name in enumerate(calendar.month_abbr) if name
}
_KEYS = ("period", "season", "year", "month", "label", "name", "date")
# A date stands for so many days about it at least, whatever the other dates are.
_STANDS_FOR = 16.0

Period = tuple[date, date]


def _months_on(first: date, n: int) -> Period:
    years, month = divmod(first.month - 1 + n, 12)
    return first, date(first.year + years, month + 1, 1) - timedelta(days=1)


def period_of(text: str, *, is_south: bool = False) -> Period | None:
    """(first, last day) of the year, of a year's season, or of the month that a text names; None for another. A winter begins in
    December of the year before in the north, and seasons are half a year apart in the south."""
    text = text.strip().lower()
    year = re.search(r"\b(1[89]\d\d|20\d\d)\b", text)
    if year is None or re.search(r"\d{4}-\d{2}-\d{2}", text):
        return None
    y = int(year[1])
    season = next((m for name, m in _SEASONS.items() if re.search(rf"\b{name}\b", text)), None)
    if season is not None:
        month = (season + 5) % 12 + 1 if is_south else season
        return _months_on(date(y - 1 if month == 12 else y, month, 1), 3)
    month_name = next((m for name, m in _MONTHS.items() if re.search(rf"\b{name}\b", text)), None)
    numbered = re.fullmatch(r"\d{4}-(\d{2})", text)
    if numbered is not None:
        month_name = int(numbered[1])
    if month_name is not None and 1 <= month_name <= 12:
        return _months_on(date(y, month_name, 1), 1)
    return _months_on(date(y, 1, 1), 12) if re.fullmatch(r"(?:the\s+)?(?:year\s+)?\d{4}(?:\s+mean)?", text) else None


_MOMENT = r"(\d{4}-\d{2}-\d{2}|\d{4}-\d{2}|(?:[a-z]+\s+)?\d{4})"
_SPAN = re.compile(rf"\b(?:from|between|over|during)\s+{_MOMENT}\s*(?:to|and|until|till|through|-|–)\s*{_MOMENT}\b")


def span_asked(text: str) -> Period | None:
    """(first, last day) of the span of days, months or years that a question names by its ends; None where it names none."""
    found = _SPAN.search(text.lower())
    ends = [_moment(t) for t in found.groups()] if found is not None else []
    first, last = ends if len(ends) == 2 else (None, None)
    return (first[0], last[1]) if first is not None and last is not None and first[0] < last[1] else None


def _moment(text: str) -> Period | None:
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        try:
            day = date.fromisoformat(text)
        except ValueError:
            return None
        return day, day
    return period_of(text)


def _label(item: dict[str, Any]) -> str:
    """What an item says of its period, the year beside the season or the month."""
    told = [str(item[k]) for k in _KEYS if item.get(k) not in (None, "")]
    return " ".join(dict.fromkeys(told))


def _covered(days: list[date], period: Period) -> float:
    """The share of a period's days that lie near a date: as near as half of what usually lies between dates."""
    length = (period[1] - period[0]).days + 1
    known = sorted(set(days))
    gaps = np.diff([d.toordinal() for d in known])
    reach = max(_STANDS_FOR, float(np.median(gaps)) if gaps.size else 0.0)
    at = np.arange(period[0].toordinal(), period[1].toordinal() + 1)
    near = np.zeros(length, dtype=bool)
    for d in known:
        near |= np.abs(at - d.toordinal()) <= reach
    return float(near.mean())


@check(
    "periods_have_dates",
    catches=("hole in the series", "one date for many"),
    limits=("least_period_share",),
    reads=("/result/items", "/inputs"),
    family="completeness",
)
def periods_have_dates(case: Case) -> Finding:
    """What is told of a year, a season or a month rests on dates in it, and of a year or a season on dates through most of it: a
    mean of two winter months is none of the year. A trend rests on dates through most of the span that is asked for."""
    scenes = [s for s in (case.used_scenes or list(case.scenes.values())) if s.acquired_at is not None]
    days = [s.acquired_at.date() for s in scenes if s.acquired_at is not None]
    if not days:
        return not_applicable("no dates")
    grid = scenes[0].grid
    is_south = grid.crs is not None and sum(grid.lonlat_bounds()[1::2]) < 0
    named = [(_label(i), f"/result/items/{k}") for k, i in enumerate(case.items()) if i.get("value") is not None]
    asked = re.findall(
        r"\b(?:spring|summer|autumn|fall|winter)(?:\s+of)?\s+\d{4}\b|\b(?:year|in|for|during|of)\s+(?:the\s+year\s+)?(\d{4})\b(?!-)",
        case.text,
    )
    whole = [m[0] for m in re.finditer(r"\b(?:spring|summer|autumn|fall|winter)(?:\s+of)?\s+\d{4}\b", case.text)]
    if case.kind in ("statistic", "series", "area", "ratio", "trend", "raster"):
        named += [(t, "/task/question") for t in (*whole, *(y for y in asked if y and not whole))]
    seen, thin = 0, None
    periods = [(text, period_of(text, is_south=is_south), pointer) for text, pointer in named]
    if (span := span_asked(case.text)) is not None:
        # both of its ends are parts of one span
        periods = [p for p in periods if p[2] != "/task/question"]
        periods += [("the span that is asked for", span, "/task/question")] if case.kind == "trend" else []
    for text, period, pointer in periods:
        if period is None:
            continue
        seen += 1
        inside = [d for d in days if period[0] <= d <= period[1]]
        at = (pointer, "/inputs")
        if not inside:
            return failed(
                f"No date lies in {text}: from {period[0]} to {period[1]} there is no scene.", measured=0, expected="≥ 1", at=at
            )
        share = _covered(inside, period)
        if share < case.limits.least_period_share and thin is None and (period[1] - period[0]).days > 40:
            thin = text, share, at, pointer
    if thin is not None:
        text, share, at, pointer = thin
        return failed(
            f"The dates stand for {100 * share:.0f} % of {text}: a figure of them is none of all of it.",
            measured=share,
            expected=f"≥ {case.limits.least_period_share:g}",
            at=at,
            # words of a question may name the dates that there are, but a trend of a part is none of the whole
            severity="warn" if pointer.startswith("/task") and case.kind != "trend" else None,
        )
    return (
        passed("Every period has its dates.", measured=seen, at=("/result/items", "/inputs"))
        if seen
        else not_applicable("no year, season or month is told of")
    )
