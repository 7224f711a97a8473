"""Features chosen by a date that an attribute holds: "where start is after 2020-06-01", "floods in 2018" of a file of floods."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import date
from typing import TYPE_CHECKING, Literal

from apps.agent.dates import DateSpan, dates_in
from apps.agent.planner.attribute_parts import put_limits
from apps.core.geo.vector import Limits, VectorInfo, day_of_text

if TYPE_CHECKING:
    from apps.agent.planner.spatial import Found

_AFTER, _FROM = r"after|later than|newer than", r"on or after|since|from|starting"
_BEFORE, _TO = r"before|earlier than|older than|prior to", r"on or before|until|till|up to"
DAY_OPS = rf"(?:{_FROM}|{_TO}|{_AFTER}|{_BEFORE}|between|in|on|during)"
_HAPPENED = "dated|acquired|recorded|observed|seen|happened|occurred|started|began"
_BE = rf"(?:(?:that|which) )?(?:(?:is|are|was|were|there|of|that|{_HAPPENED}) )*"


def is_of_days(v: VectorInfo, field: str) -> bool:
    """Whether all values of an attribute are dates."""
    if field in v.spreads:
        return v.spreads[field].kind == "day"
    return bool(v.values.get(field)) and all(day_of_text(x) is not None for x in v.values[field])


def said_as_days(out: Found, vectors: Iterable[VectorInfo], head_of: Callable[[VectorInfo], str], *, has_image: bool) -> None:
    """Puts a sign in place of features with a date between those that are said. Where the attribute is not named, the file's one
    attribute of dates is meant, if no image has dates of its own. ``head_of``: a pattern of what a file's features are called."""
    for v in vectors:
        fields = [f for f in (*v.values, *v.spreads) if is_of_days(v, f)]
        named = "|".join(re.escape(c) for f in fields for c in (f.lower(), f.lower().replace("_", " ")))
        if not fields:
            continue
        where = (
            r"(?:(?:where|for which|whose|with|having|that have|which have|have|has)(?: (?:the|an?))?(?: (?:attribute|column))?)"
        )
        lead = rf"(?<![\w\-])(?:of )?{head_of(v)} *(?:{where} (?P<field>{named})(?![\w\-]) *)?"
        m = re.search(rf"{lead}{_BE}(?P<op>{DAY_OPS}) (?:the )?(?=\d|[a-z]{{3,9}}\.? \d)", out.text)
        limits, end = _limits(m["op"], out.text[m.end() :]) if m else (None, 0)
        if m is None or limits is None or (has_image and not m["field"]):
            continue
        meant = [f for f in fields if m["field"] in (f.lower(), f.lower().replace("_", " "))] if m["field"] else fields
        if len(meant) > 1:
            out.reason = (
                f"{v.name} has several attributes of dates ({', '.join(meant)}); write “where {meant[0]} is {limits.told}”."
            )
            return
        whole = re.compile(re.escape(out.text[m.start() : m.end() + end])).search(out.text)
        assert whole is not None
        put_limits(out, whole, v, meant[0], limits)
        return


def _limits(op: str, rest: str) -> tuple[Limits | None, int]:
    """The limits that the dates right behind a word tell, and where these end; None where there is no date."""
    spans = [s for s in dates_in(rest) if not s.month_only]
    if not spans or rest[: spans[0].at[0]].strip():
        return None, 0
    first = spans[0]
    if op in ("between", "from") and len(spans) > 1:
        gap = rest[first.at[1] : spans[1].at[0]].strip()
        if gap in (("and",) if op == "between" else ("to", "until", "till", "-", "through")):
            return _whole(DateSpan(first.start, spans[1].end, (0, 0))), spans[1].at[1]
    if op == "between":
        return None, 0
    if re.fullmatch(_AFTER, op):
        return _one(low=first.end, ends="min"), first.at[1]
    if re.fullmatch(_FROM, op):
        return _one(low=first.start), first.at[1]
    if re.fullmatch(_BEFORE, op):
        return _one(high=first.start, ends="max"), first.at[1]
    if re.fullmatch(_TO, op):
        return _one(high=first.end), first.at[1]
    return _whole(first), first.at[1]


def _one(*, low: date | None = None, high: date | None = None, ends: Literal["", "min", "max"] = "") -> Limits:
    return Limits(low=low.isoformat() if low else None, high=high.isoformat() if high else None, open=ends)


def _whole(span: DateSpan) -> Limits:
    return Limits(low=span.start.isoformat(), high=span.end.isoformat())
