"""Completeness of series: every scene and date of the period is in them."""

from __future__ import annotations

import re
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np

from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.periods import Period, period_of
from apps.verification.planes import same_grid


def series_items(case: Case) -> list[tuple[date, dict[str, Any]]]:
    """(day, item) of the result's items that carry a date, in order."""
    out = []
    for item in case.items():
        try:
            out.append((date.fromisoformat(str(item.get("date"))[:10]), item))
        except ValueError:
            continue
    return out


_PERIOD = re.compile(
    r"\b(?:between|from|in|during|since|until|before|after|of)\s+(?:\w+\s+)?(?:19|20)\d\d|\b(?:cloud|clear)", re.I
)


@check(
    "series_covers_scenes",
    catches=("one date for many", "hole in the series"),
    reads=("/result/items", "/arguments"),
    family="completeness",
)
def series_covers_scenes(case: Case) -> Finding:
    """A series has one item for each scene that the call names, with distinct scenes and dates; one of seasons, months or years
    has each once, and each scene's day lies in one of them."""
    if case.kind not in ("series", "trend", "date") or not case.observation.result.items:
        return not_applicable("no series")
    asked = case.scene_ids
    named = [str(i.get("scene")) for i in case.items() if i.get("scene")]
    n = len(case.observation.result.items)
    at = ("/result/items",)
    periods = _periods(case)
    if periods is not None:
        return _periods_cover(case, periods, at)
    if asked and n != len(asked):
        return failed(
            f"{len(asked)} scenes were asked for, the series has {n} items.", measured=n, expected=len(asked), unit="items", at=at
        )
    if len(set(named)) != len(named):
        return failed(
            "A scene stands in the series more than once.", measured=len(set(named)), expected=len(named), unit="scenes", at=at
        )
    if asked and named and set(named) != set(asked):
        return failed(
            "The series holds other scenes than were asked for.",
            measured=sorted(set(named) - set(asked))[:5],
            expected=len(asked),
            at=at,
        )
    for item in case.items():
        scene = case.scenes.get(str(item.get("scene")))
        day = str(item.get("date") or "")[:10]
        if scene is not None and scene.acquired_at is not None and day and day != scene.acquired_at.date().isoformat():
            return failed(
                "An item's date is not the one of its scene.", measured=day, expected=scene.acquired_at.date().isoformat(), at=at
            )
    lost = next((i for i in case.items() if i.get("value", 0) is None and (number_of(i.get("n_valid")) or 0) > 0), None)
    if lost is not None:
        return failed(
            "A date with valid pixels has no value.", measured=str(lost.get("date"))[:40], expected="a value for each date", at=at
        )
    days = [d for d, _ in series_items(case)]
    if len(days) == n and len(set(days)) < min(n, len({s.acquired_at for s in case.used_scenes}) or n):
        return failed("Several items carry one date.", measured=len(set(days)), expected=n, unit="dates", at=at)
    return passed("One item for each scene.", measured=n, expected=len(asked) or n, unit="items", at=at)


def _periods(case: Case) -> list[Period] | None:
    """The periods of items that are of seasons, months or years and carry no scene; None where one is not."""
    items = list(case.items())
    if any(i.get("scene") or not i.get("period") for i in items):
        return None
    grid = next((s.grid for s in case.used_scenes if s.grid.crs is not None), None)
    is_south = grid is not None and sum(grid.lonlat_bounds()[1::2]) < 0
    found = [period_of(str(i["period"]), is_south=is_south) for i in items]
    return [p for p in found if p is not None] if None not in found else None


def _periods_cover(case: Case, periods: list[Period], at: tuple[str, ...]) -> Finding:
    if len(set(periods)) < len(periods):
        return failed("A period stands in the series more than once.", measured=len(set(periods)), expected=len(periods), at=at)
    days = sorted({s.acquired_at.date() for s in case.used_scenes if s.acquired_at is not None})
    beside = [d for d in days if not any(first <= d <= last for first, last in periods)]
    if beside:
        return failed(
            "A scene that was asked for lies in none of the periods.", measured=beside[0], expected="in one of them", at=at
        )
    return passed("The periods hold all scenes.", measured=len(periods), unit="periods", at=at)


@check(
    "series_without_hole",
    catches=("hole in the series",),
    limits=("hole_factor",),
    reads=("/result/items",),
    family="completeness",
)
def series_without_hole(case: Case) -> Finding:
    """The dates of a series follow each other without a hole, and use all scenes of the question that fit. A hole that scenes of
    the question would fill is asked to be filled; otherwise this only warns."""
    days = sorted({d for d, _ in series_items(case)})
    if len(days) < 2:
        return not_applicable("no series")
    at = ("/result/items",)
    held = sorted({s.acquired_at.date() for s in case.scenes.values() if s.acquired_at})
    share = len([d for d in held if d in days]) / len(held) if held else 1.0
    gaps = np.diff([d.toordinal() for d in days])
    typical = float(np.median(gaps))
    longest = int(gaps.max())
    scores = {
        "series_complete": share
        if len(gaps) < 3
        else min(
            share, 1.0 if longest <= case.limits.hole_factor * typical else float(typical * len(days) / (days[-1] - days[0]).days)
        )
    }
    if len(gaps) >= 3 and longest > case.limits.hole_factor * typical and series_filled(case) is not None:
        return inconclusive(
            f"Between two dates lie {longest} days, elsewhere about {typical:.0f}, and the question has scenes of these days.",
            expected="all scenes of the time that the series spans",
            at=at,
        )
    output = case.nodes.get(case.output, {"op": "", "params": {}})
    if share < 1 and output["params"].get("pick") and not _PERIOD.search(case.text):
        return inconclusive(
            f"{len(held)} dates are at hand, and the extreme was sought on {len(days)} of them.",
            expected="all scenes of the question",
            at=at,
        )
    if share < 1 and not any(w in case.text for w in ("between", "from", "in ", "during", "since", "until")):
        return failed(
            f"{len(held)} dates are at hand, the series uses {len(days)}.",
            measured=len(days),
            expected=len(held),
            unit="dates",
            at=at,
            scores=scores,
            severity="warn",
        )
    if len(gaps) >= 3 and longest > case.limits.hole_factor * typical:
        return failed(
            f"Between two dates lie {longest} days, elsewhere about {typical:.0f}; a low or high there would be missed.",
            measured=longest,
            expected=f"≤ {case.limits.hole_factor * typical:.0f}",
            unit="days",
            at=at,
            scores=scores,
            severity="warn",
        )
    return passed("No hole in the series.", measured=longest, unit="days", at=at, scores=scores)


def series_filled(case: Case) -> list[Any] | None:
    """The graph of a series with the scenes of its longest hole added, each by the same nodes as the first scene; None where the
    question has none of the same place and roles, or where the nodes of one scene do not stand alone."""
    nodes, output = case.arguments.get("nodes"), case.nodes.get(case.output)
    days = sorted({d for d, _ in series_items(case)})
    if not isinstance(nodes, list) or output is None or len(days) < 2 or len(output["inputs"]) < 2:
        return None
    start, end = max(pairwise(days), key=lambda pair: (pair[1] - pair[0]).days)
    used = set(case.scene_ids)
    first = case.scenes.get(case.scene_ids[0]) if case.scene_ids else None
    if first is None:
        return None
    fitting = sorted(
        (
            s
            for s in case.scenes.values()
            if s.scene_id not in used
            and s.acquired_at is not None
            and start < s.acquired_at.date() < end
            and same_grid(s.grid, first.grid)
            and s.roles >= first.roles
        ),
        key=lambda s: str(s.acquired_at),
    )
    pattern = case.upstream(output["inputs"][0])
    own = [n for n in pattern if case.nodes[n]["params"].get("scene") == first.scene_id]
    if not fitting or len(own) != 1 or any(set(case.upstream(i)) & set(pattern) for i in output["inputs"][1:]):
        return None
    by_id = {n.get("id"): n for n in nodes if isinstance(n, dict)}
    added: list[Any] = []
    ends: list[tuple[str, str]] = []
    for k, scene in enumerate(fitting):
        for name in reversed(pattern):
            node = by_id[name]
            params = dict(node.get("params") or {})
            if params.get("scene") == first.scene_id:
                params["scene"] = scene.scene_id
            added.append(
                {**node, "id": f"{name}_f{k}", "params": params, "inputs": [f"{i}_f{k}" for i in node.get("inputs") or ()]}
            )
        ends.append((str(scene.acquired_at), f"{pattern[0]}_f{k}"))
    for name in output["inputs"]:
        scene_id = next((case.nodes[n]["params"]["scene"] for n in case.upstream(name) if "scene" in case.nodes[n]["params"]), "")
        known = case.scenes.get(str(scene_id))
        ends.append((str(known.acquired_at) if known else "", name))
    whole = {**by_id[case.output], "inputs": [name for _, name in sorted(ends)]}
    rest = [n for n in nodes if not (isinstance(n, dict) and n.get("id") == case.output)]
    return [*rest, *added, whole]
