"""A dated series as the coordinates of a small SVG; the table twin stands beside it on the page."""

from __future__ import annotations

from datetime import date
from typing import Any

from apps.agent.units import number_text
from apps.core.chart import ChartFrame, polyline
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import Observation
from apps.runs.headline import quantity_text

# one beside the map, one where there is little room: text keeps its size in both
WIDE = ChartFrame(width=720, height=96, left=40, right=8, top=8, bottom=20)
SMALL = ChartFrame(width=340, height=112, left=40, right=8, top=8, bottom=20)


def series_chart(observation: Observation) -> dict[str, Any] | None:
    """The dated values of the items, drawn wide and small; None where there are fewer than two."""
    rows = []
    for item in observation.result.items:
        value, day = item.get("value"), item.get("date")
        if isinstance(value, int | float) and isinstance(day, str):
            try:
                rows.append((date.fromisoformat(day[:10]), float(value), item.get("n_valid")))
            except ValueError:
                continue
    if len(rows) < 2:
        return None
    rows.sort(key=lambda r: r[0])
    first, last = rows[0][0].toordinal(), rows[-1][0].toordinal()
    low, high = min(r[1] for r in rows), max(r[1] for r in rows)
    pad = (high - low) * 0.1 or abs(high) * 0.1 or 1.0
    low, high = low - pad, high + pad

    # what the analysis of a series says is one number; the series itself is of what was analysed
    is_analysis = "/series_analysis/" in observation.configuration.fine
    unit = "1" if is_analysis else observation.result.unit
    if observation.result.kind == "trend":
        # a slope is a change per year; the dates carry values
        unit = unit.removesuffix("/year")
    quantity = observation.result.quantity
    if is_analysis:
        quantity = quantity.rpartition(" of ")[2]
    middle = rows[len(rows) // 2][0]

    def drawn(frame: ChartFrame, size: str) -> dict[str, Any]:
        def x_of(day: date) -> float:
            return frame.x(day.toordinal() - first, max(1, last - first))

        def y_of(value: float) -> float:
            return frame.y(high - value, high - low)

        return {
            **frame.sides,
            "size": size,
            "points": [{"x": x_of(d), "y": y_of(v), "date": d.isoformat(), "value": number_text(v, unit)} for d, v, _ in rows],
            "path": polyline((x_of(d), y_of(v)) for d, v, _ in rows),
            "y_ticks": [{"y": y_of(v), "text": number_text(round(v, 6))} for v in (low + pad, high - pad)],
            "x_ticks": [
                {"x": x_of(d), "text": f"{d:%-d %b %Y}", "anchor": a}
                for d, a in ((rows[0][0], "start"), (middle, "middle"), (rows[-1][0], "end"))
            ],
        }

    return {
        "drawings": [drawn(WIDE, "wide"), drawn(SMALL, "small")],
        "points": [{"date": d.isoformat(), "value": number_text(v, unit), "n_valid": n} for d, v, n in rows],
        "title": f"{quantity_text(quantity) or 'value'} by date",
        "unit": unit,
    }


def run_chart(state: RunState) -> dict[str, Any] | None:
    """The newest series of the run that has a chart."""
    for held in reversed(list(state.observations.values())):
        chart = series_chart(held.observation)
        if chart:
            return chart | {"step": held.observation.step}
    return None
