"""Small facts of scenes, dates and words that plans are made of."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Any

from apps.agent.dates import DateSpan
from apps.agent.planner.lexicon import TargetMethod, has_role, lexicon, missing_roles
from apps.core.geo.grid import longitude_spans
from apps.core.geo.scene import SceneInfo


def class_value(name: str) -> int | None:
    """21 of 'class 21'."""
    head, _, tail = name.partition(" ")
    return int(tail) if head == "class" and tail.isdecimal() and len(tail) < 6 else None


def methods_of(scene: SceneInfo, methods: Sequence[TargetMethod]) -> list[TargetMethod]:
    """The methods that a scene's bands allow, in order."""
    return [m for m in methods if (not missing_roles(scene, m.index) if m.index else has_role(scene, m.band))]


def region_method(m: TargetMethod, min_px: int) -> dict[str, Any]:
    out: dict[str, Any] = {"kind": "index_threshold", "index": m.index} if m.index else {"kind": "band_threshold", "band": m.band}
    out |= {"threshold": m.threshold, "side": m.side}
    if min_px:
        out["min_px"] = min_px
    return out


def method_text(m: TargetMethod) -> str:
    name = lexicon().title(m.index or m.band)
    if m.threshold == "otsu":
        return f"{name} {m.side} Otsu's threshold"
    return f"{name} {'>' if m.side == 'above' else '<'} {m.threshold:g}"


def date_of(scene: SceneInfo) -> date:
    return scene.acquired_at.date() if scene.acquired_at else date.min


def day_of(scene: SceneInfo) -> str:
    return date_of(scene).isoformat()


def labels_of(scenes: list[SceneInfo]) -> list[str]:
    """One name a scene, none twice: dates where they differ, else file names, else numbers."""
    days = [day_of(s) if s.acquired_at else "" for s in scenes]
    names = [s.name for s in scenes]
    for labels in (days, names):
        if all(labels) and len(set(labels)) == len(labels):
            return labels
    return [f"image {i}" for i in range(1, len(scenes) + 1)]


def date_list(scenes: list[SceneInfo]) -> str:
    days = list(dict.fromkeys(day_of(s) for s in scenes))
    return ", ".join(days) if len(days) <= 6 else f"{len(days)} dates from {days[0]} to {days[-1]}"


def span_text(span: DateSpan) -> str:
    if span.month_only or span.start == span.end:
        return span.text()
    if span.start == date.min:
        return f"the time to {span.end.isoformat()}"
    return f"the time from {span.start.isoformat()}" + ("" if span.end == date.max else f" to {span.end.isoformat()}")


def is_apart(region: Any, scene: SceneInfo) -> bool:
    """True where the outlines of a region (degrees) and a scene surely do not meet; the tools look at the exact shapes."""
    points: list[tuple[float, float]] = []
    todo: list[Any] = [region]
    while todo:
        at = todo.pop()
        if isinstance(at, dict):
            todo.extend(at.values())
        elif isinstance(at, list | tuple) and len(at) >= 2 and all(isinstance(x, int | float) for x in at[:2]):
            points.append((float(at[0]), float(at[1])))
        elif isinstance(at, list | tuple):
            todo.extend(at)
    try:
        west, south, east, north = scene.grid.lonlat_bounds()
    except ValueError:
        return False
    if not points:
        return False
    lons, lats = [x for x, _ in points], [y for _, y in points]
    there, here = longitude_spans(min(lons), max(lons)), longitude_spans(west, east)
    meet = any(a[0] <= b[1] and b[0] <= a[1] for a in there for b in here)
    return not meet or max(lats) < south or min(lats) > north


def is_one_place(one: SceneInfo, other: SceneInfo) -> bool:
    """True where the outlines of two scenes share at least half of the smaller one; by size alone where neither has a CRS."""
    if one.grid.crs is None or other.grid.crs is None:
        return one.grid.crs == other.grid.crs and one.grid.shape == other.grid.shape
    if one.grid == other.grid:
        return True
    try:
        a, b = one.grid.lonlat_bounds(), other.grid.lonlat_bounds()
    except ValueError:
        return False
    # longitudes may count from 0 to 360 in one of them, or cross 180°
    mine, theirs = longitude_spans(a[0], a[2]), longitude_spans(b[0], b[2])
    width = sum(max(0.0, min(s[1], t[1]) - max(s[0], t[0])) for s in mine for t in theirs)
    height = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    smaller = min(sum(e - w for w, e in spans) * (box[3] - box[1]) for spans, box in ((mine, a), (theirs, b)))
    return width * height >= 0.5 * smaller > 0


def lowered(text: str) -> str:
    """The text with a small first letter, unless it begins with an abbreviation."""
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def plural(word: str, items: Sequence[str]) -> str:
    return word if len(items) == 1 else word + "s"


def unique(items: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(items))


def ordinal(n: int) -> str:
    """second, third, 12th."""
    return {1: "first", 2: "second", 3: "third", 4: "fourth", 5: "fifth"}.get(n) or numbered(n)


def numbered(n: float) -> str:
    """2nd, 12th, 90th, 97.5th."""
    if n % 1:
        return f"{n:g}th"
    return f"{n:g}{'th' if 10 <= n % 100 <= 20 else {1: 'st', 2: 'nd', 3: 'rd'}.get(int(n % 10), 'th')}"
