"""The fields of the ingest check as changes of hints."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from django.http import QueryDict

from apps.core.errors import UserError
from apps.imagery.dates import read_time

_FIELDS = frozenset({
    "gsd_m", "acquired_at", "crs", "nodata", "nodata_is_real", "fill", "fill_value", "scale", "offset", "unit", "looks_right",
    "variable",
})  # fmt: skip


def _wrong(what: str, why: str, fix: str) -> UserError:
    return UserError("BAD_ARGUMENT", what, why, fix)


def _number(text: str, name: str) -> float | None:
    text = text.strip().replace("−", "-")
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise _wrong(f"“{text[:40]}” is no {name}.", "It is not a number.", "Write digits, such as 0.5.") from None


def _date(text: str) -> datetime | None:
    text = text.strip()
    if not text:
        return None
    when = read_time(text)
    if when is None:
        raise _wrong(f"“{text[:40]}” is no date.", "It is not of the form YYYY-MM-DD, or lies outside 1960 to today.",
                     "Write it like 2020-06-30.")  # fmt: skip
    return when.astimezone(UTC)


def changes_from_post(post: QueryDict, n_bands: int) -> dict[str, Any]:
    """What the person said: ``hints`` (a button's JSON) or the fields of one form. UserError BAD_ARGUMENT."""
    if "hints" in post:
        try:
            given = json.loads(str(post["hints"]))
        except ValueError:
            given = None
        if not isinstance(given, dict) or not set(given) <= _FIELDS | {"roles"}:
            raise _wrong("The button's values cannot be read.", "They are no known fields.", "Reload the page.")
        return given
    match post.get("field", ""):
        case "roles":
            roles: dict[str, int] = {}
            for index in range(1, n_bands + 1):
                role = post.get(f"band-{index}", "")
                if role in ("", "unknown"):
                    continue
                if role in roles:
                    raise _wrong(f"Two bands cannot be {role}.", f"{roles[role]} and {index} are.", "Change one of them.")
                roles[role] = index
            return {"roles": roles or None}
        case "gsd_m":
            return {"gsd_m": _number(post.get("gsd_m", ""), "ground size in metres")}
        case "acquired_at":
            return {"acquired_at": _date(post.get("acquired_at", ""))}
        case "crs":
            return {"crs": post.get("crs", "").strip() or None}
        case "nodata":
            return {"nodata": _number(post.get("nodata", ""), "nodata value"), "nodata_is_real": None, "fill": None}
        case "scale":
            scale = _number(post.get("scale", ""), "scale")
            offset = _number(post.get("offset", ""), "offset")
            return {"scale": scale, "offset": offset, "unit": post.get("unit", "").strip() or None}
        case "variable":
            return {"variable": post.get("variable", "").strip() or None}
    raise _wrong("Nothing was said.", "The form names no field.", "Reload the page.")
