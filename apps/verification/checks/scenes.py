"""Consistency of what is told of scenes themselves, their place and their dates, with what is known of them."""

from __future__ import annotations

from datetime import date
from itertools import pairwise

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
    """A catalogue of the question's own scenes has each of them that falls in the period; its gaps are those of their dates."""
    found = told_of(case, "asset.catalog")
    if not found or case.nodes.get(case.output, {}).get("op") != "asset.catalog":
        return not_applicable("no catalogue")
    k, told, params = found[0]
    narrowed = any(params.get(name) for name in ("sensor", "roles", "bbox", "level", "collections"))
    if params.get("source") != "question" or narrowed or not case.scenes:
        return not_applicable("a catalogue of more than the question's scenes, or of a part of them")
    at = ("/result/items", f"/evidence/intermediate/nodes/{k}")
    low, high = str(params.get("start") or "")[:10], str(params.get("end") or "")[:10]
    days = {s.scene_id: s.acquired_at.date().isoformat() if s.acquired_at else "" for s in case.scenes.values()}
    wanted = {i for i, day in days.items() if (day or not (low or high)) and low <= day and (not high or day <= high)}
    listed = {str(i.get("scene")) for i in case.items()}
    if listed != wanted or case.value != len(wanted):
        return failed("The list does not hold the question's scenes.", measured=sorted(listed), expected=sorted(wanted), at=at)
    revisit = number_of(told.get("revisit_days"))
    if revisit is None:
        return passed("The list holds the question's scenes.", measured=len(listed), expected=len(wanted), at=at)
    known = sorted({date.fromisoformat(days[i]) for i in wanted if days[i]})
    edges = [*([date.fromisoformat(low)] if low else []), *known, *([date.fromisoformat(high)] if high else [])]
    gaps = sum((b - a).days > 1.5 * revisit for a, b in pairwise(edges))
    mine = told.get("gaps")
    n_told = len(mine) if isinstance(mine, list) else None
    if n_told != gaps:
        return failed("The dates have other gaps than those told.", measured=n_told, expected=gaps, at=at)
    return passed("The list and its gaps are those of the question's scenes.", measured=gaps, expected=gaps, at=at)
