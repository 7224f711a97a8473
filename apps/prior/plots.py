"""A cell's way through time as the coordinates of a small SVG; the table twin stands beside it on the page. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from apps.core.chart import ChartFrame, polyline
from apps.prior.domain import TrackPoint

FRAME = ChartFrame(width=420, height=132, left=34, right=8, top=8, bottom=20)


def track_plot(points: Sequence[TrackPoint]) -> dict[str, Any] | None:
    """Line of the recent share, band of what was to be expected, points outside the band marked; None without points."""
    if not points:
        return None
    first, last = points[0].place, points[-1].place

    def x_of(place: int) -> float:
        return FRAME.x((place - first) / (last - first) if last > first else 0.5)

    def y_of(share: float) -> float:
        return FRAME.y(1 - share)

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
    upper = [(x_of(p.place), y_of(p.high)) for p in points]
    lower = [(x_of(p.place), y_of(p.low)) for p in reversed(points)]
    return {
        **FRAME.sides,
        "band": polyline(upper + lower),
        "path": polyline((x_of(p.place), y_of(p.share)) for p in points),
        "expected": polyline((x_of(p.place), y_of(p.expected)) for p in points),
        "rows": rows,
        "outside": [r for r in rows if r["is_outside"]],
        "ticks": [{"y": y_of(t), "text": f"{t:g}"} for t in (0.0, 0.5, 1.0)],
        "first": first,
        "last": last,
    }
