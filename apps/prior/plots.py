"""A cell's way through time as the coordinates of a small SVG; the table twin stands beside it on the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.prior.domain import TrackPoint

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 420, 132, 34, 8, 8, 20


def track_plot(points: Sequence[TrackPoint]) -> dict[str, Any] | None:
    """Line of the recent share, band of what was to be expected, points outside the band marked; None without points."""
    if not points:
        return None
    first, last = points[0].place, points[-1].place

    def x_of(place: int) -> float:
        return round(LEFT + (WIDTH - LEFT - RIGHT) * ((place - first) / (last - first) if last > first else 0.5), 1)

    def y_of(share: float) -> float:
        return round(TOP + (HEIGHT - TOP - BOTTOM) * (1 - share), 1)

    rows = [
        {
            "x": x_of(p.place),
            "y": y_of(p.share),
            "place": p.place,
            "recent": p.recent,
            "share": p.share,
            "expected": p.expected,
            "low": p.low,
            "high": p.high,
            "is_outside": not p.low <= p.share <= p.high,
        }
        for p in points
    ]
    upper = [f"{x_of(p.place)},{y_of(p.high)}" for p in points]
    lower = [f"{x_of(p.place)},{y_of(p.low)}" for p in reversed(points)]
    return {
        "width": WIDTH,
        "height": HEIGHT,
        "left": LEFT,
        "right": WIDTH - RIGHT,
        "bottom": HEIGHT - BOTTOM,
        "band": " ".join(upper + lower),
        "path": " ".join(f"{r['x']},{r['y']}" for r in rows),
        "expected": " ".join(f"{x_of(p.place)},{y_of(p.expected)}" for p in points),
        "rows": rows,
        "outside": [r for r in rows if r["is_outside"]],
        "ticks": [{"y": y_of(t), "text": f"{t:g}"} for t in (0.0, 0.5, 1.0)],
        "first": first,
        "last": last,
    }
