"""Consistency of what is told of scenes themselves, their place and their dates, with what is known of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np

from apps.core.geo.grid import transformer
from apps.verification.case import Case, Finding, failed, not_applicable, number_of, passed, told_of
from apps.verification.checks.catalogue import check


@check(
    "place_matches_scene",
    catches=("another scene's result", "degrees as metres"),
    reads=("/result/items", "/inputs"),
    family="consistency",
)
def place_matches_scene(case: Case) -> Finding:
    """The bounds told of a scene are those of its corners, brought to degrees by the verifier."""
    item = next(iter(case.items()), None)
    if case.nodes.get(case.output, {}).get("op") != "asset.bounds" or len(case.used_scenes) != 1 or item is None:
        return not_applicable("no bounds of a scene")
    grid, at = case.used_scenes[0].grid, ("/result/items/0", "/inputs")
    if grid.crs is None:
        return failed("A scene without CRS has no place.", measured=item.get("west"), expected="none", at=at)
    # along the edges too: a straight edge of the grid is bent in degrees
    t = np.linspace(0, 1, 33)
    cols = np.concatenate([t, t, np.zeros(33), np.ones(33)]) * grid.width
    rows = np.concatenate([np.zeros(33), np.ones(33), t, t]) * grid.height
    a, b, c, d, e, f = grid.transform
    lons, lats = transformer(grid.crs, "EPSG:4326").transform(a * cols + b * rows + c, d * cols + e * rows + f)
    side = max(float(np.ptp(lons)), float(np.ptp(lats)))
    for name, wanted in (("west", np.min(lons)), ("south", np.min(lats)), ("east", np.max(lons)), ("north", np.max(lats))):
        told = number_of(item.get(name))
        off = None if told is None else abs(told - float(wanted))
        if off is None or (min(off, abs(off - 360)) > 1e-3 * side + 1e-9):
            return failed(f"The scene's {name} lies elsewhere.", measured=told, expected=float(wanted), unit="deg", at=at)
    return passed("The bounds are those of the scene's edges.", measured=4, at=at)


@check(
    "catalog_matches_scenes",
    catches=("hole in the series", "one date for many", "another scene's result"),
    reads=("/result/value", "/result/items", "/evidence/intermediate/nodes"),
    family="consistency",
)
def catalog_matches_scenes(case: Case) -> Finding:
    """A catalogue of the question's own scenes has each of them that falls in the period, any other what was asked for and
    nothing else; its gaps are those of the listed dates."""
    found = told_of(case, "asset.catalog")
    if not found or case.nodes.get(case.output, {}).get("op") != "asset.catalog":
        return not_applicable("no catalogue")
    k, told, params = found[0]
    at = ("/result/items", f"/evidence/intermediate/nodes/{k}")
    low, high = str(params.get("start") or "")[:10], str(params.get("end") or "")[:10]
    items = list(case.items())
    if case.value != len(items):
        return failed("The number is not that of the listed scenes.", measured=case.value, expected=len(items), at=at)
    days = [str(i.get("date") or "") for i in items]
    narrowed = any(params.get(name) for name in ("sensor", "roles", "bbox", "level", "collections"))
    if params.get("source") == "question" and not narrowed and case.scenes:
        dates = {s.scene_id: s.acquired_at.date().isoformat() if s.acquired_at else "" for s in case.scenes.values()}
        wanted = {i for i, day in dates.items() if (day or not (low or high)) and low <= day and (not high or day <= high)}
        listed = {str(i.get("scene")) for i in items}
        if listed != wanted:
            return failed(
                "The list does not hold the question's scenes.", measured=sorted(listed), expected=sorted(wanted), at=at
            )
        days = [dates[i] for i in wanted]
    else:
        wrong = next((w for i in items if (w := _unasked(i, params, low, high))), "")
        if wrong:
            return failed(f"The list holds a scene of another {wrong} than asked.", measured=wrong, at=at)
        if params.get("roles"):
            return not_applicable("scenes that lack a band are listed, and their dates are missing too")
    revisit = number_of(told.get("revisit_days"))
    if revisit is None or told.get("is_whole") is False:
        return passed("The list holds what was asked for.", measured=len(items), at=at)
    known = sorted({date.fromisoformat(d) for d in days if d})
    edges = [*([date.fromisoformat(low)] if low else []), *known, *([date.fromisoformat(high)] if high else [])]
    gaps = sum((b - a).days > 1.5 * revisit for a, b in pairwise(edges))
    mine = told.get("gaps")
    n_told = len(mine) if isinstance(mine, list) else None
    if n_told != gaps:
        return failed("The dates have other gaps than those told.", measured=n_told, expected=gaps, at=at)
    return passed("The list and its gaps are those of the scenes.", measured=gaps, expected=gaps, at=at)


def _unasked(item: Mapping[str, Any], params: Mapping[str, Any], low: str, high: str) -> str:
    """What of an item is not as asked: its date, sensor, level or place; '' where all is."""
    day, box, asked = str(item.get("date") or ""), item.get("bbox"), params.get("bbox")
    last = str(item.get("end_date") or day)
    if (low or high) and not (day and low <= last and (not high or day <= high)):
        return "date"
    for name in ("sensor", "level"):
        said, has = (re.sub(r"[\W_]", "", str(of.get(name) or "")).lower() for of in (params, item))
        if said and (not _may_be(said, str(item.get("sensor") or "")) if name == "sensor" else said != has):
            return name
    if not isinstance(asked, list) or len(asked) != 4:
        return ""
    is_there = isinstance(box, list) and len(box) == 4 and _meets([float(v) for v in box], [float(v) for v in asked])
    return "" if is_there else "place"


def _may_be(asked: str, sensor: str) -> bool:
    """Whether a sensor's name holds the one asked for; of several that share a name (Landsat 8/9, Landsat 4–7) any of them."""
    plain = re.sub(r"[\W_]", "", sensor).lower()
    shared = re.search(r"(\d) ?[/–-] ?(\d)", sensor)
    low, high = (int(shared[1]), int(shared[2])) if shared else (0, -1)
    every = [plain, *(plain.replace(f"{low}{high}", str(n), 1) for n in range(low, high + 1))]
    return any(asked in name for name in every)


def _meets(one: list[float], other: list[float]) -> bool:
    """Whether two boxes of west, south, east and north have a point in common, over the antimeridian too."""
    e1, e2 = one[2] + 360 * (one[2] < one[0]), other[2] + 360 * (other[2] < other[0])
    return (
        one[1] <= other[3]
        and other[1] <= one[3]
        and any(one[0] + turn <= e2 and other[0] <= e1 + turn for turn in (-360, 0, 360))
    )
