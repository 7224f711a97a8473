"""Features chosen by a value, put in place of the words that name them: as values, or as limits where these are many."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

from apps.agent.planner.fields import MAX_KEY
from apps.core.geo.vector import Bound, Limits, VectorInfo, day_of_text, number_of_text

if TYPE_CHECKING:
    from apps.agent.planner.spatial import Found

# Values that a call takes, and that are told one by one where words gave limits; more are told by these.
MAX_LISTED, MOST_TOLD = 100, 6


def put_limits(out: Found, m: re.Match[str], v: VectorInfo, field: str, limits: Limits) -> None:
    """A sign in place of the features whose value lies within limits; a reason where none does."""
    spread, listed = v.spreads.get(field), v.values.get(field, {})
    values = tuple(x for x in listed if limits.holds(x))
    ends = (spread.low, spread.high) if spread is not None else _ends_of(listed)
    if not values and (spread is None or _lies_beyond(limits, *ends)):
        low, high = (e if isinstance(e, str) else f"{e:g}" for e in ends)
        out.reason = f"No feature of {v.name} has such a {field}; its values lie between {low} and {high}."
        return
    n_with = spread.n if spread is not None else sum(listed.values())
    if v.n > n_with:
        out.warnings.append(f"{v.n - n_with} of the {v.n} features of {v.name} have no {field} and are left out.")
    is_short = bool(values) and len(values) <= MOST_TOLD and len(f"vector:{v.part(field, values).vector_id}") <= MAX_KEY
    put_part(out, m, v, v.part(field, values) if is_short else v.between(field, limits))


def _ends_of(listed: Iterable[str]) -> tuple[Bound | None, Bound | None]:
    numbers = [n for x in listed if (n := number_of_text(x)) is not None]
    days = [d for x in listed if (d := day_of_text(x)) is not None]
    return (min(numbers), max(numbers)) if numbers else (min(days), max(days)) if days else (None, None)


def _lies_beyond(limits: Limits, low: Bound | None, high: Bound | None) -> bool:
    """Whether no value between the ends can lie within the limits."""
    if low is None or high is None:
        return True
    above = limits.low is not None and limits.low > high  # type: ignore[operator]
    return above or (limits.high is not None and limits.high < low)  # type: ignore[operator]


def put_part(out: Found, m: re.Match[str], v: VectorInfo, part: VectorInfo) -> None:
    """A sign in place of the words that name a part of a file."""
    key = f"vector:{part.vector_id}"
    if all(p.vector_id != part.vector_id for p in out.parts):
        out.parts.append(part)
    lead = "of " if m[0].startswith("of ") else ""
    out.text = f"{out.text[: m.start()]} {lead}{out.sign(key)} {out.text[m.end() :]}"
    spare = []
    for sign, held in list(out.keys.items()):
        if held == f"vector:{v.vector_id}":
            # "of the wheat fields in fields.geojson" names the file once more
            out.text = re.sub(rf"(?<={re.escape(out.sign(key))}) *(?:in|of|from) +{re.escape(sign)}", " ", out.text)
            if sign not in out.text:
                spare.append(sign)
    for sign in spare:
        del out.keys[sign]
