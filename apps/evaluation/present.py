"""Reports as the page Evaluation shows them: rows, heat steps, and the coordinates of the reliability diagram. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.core.chart import ChartFrame, polyline

CONFIGURATION_NAMES = {
    "none": "No verification",
    "verification": "Verification",
    "verification_prior": "Verification and prior",
}
# (key, words, how it is written, what it means)
FAULT_ROWS: tuple[tuple[str, str, str, str], ...] = (
    ("R_prop", "R_prop", "share", "wrong answers among runs with an incorrect observation"),
    ("incorrect_accepted", "Incorrect observation accepted", "share", "of runs with one"),
    ("answer_accuracy", "Answers right", "share", "of all runs, faults included"),
    ("wrong_answers", "Answers wrong", "share", "a number that looks right and is not"),
    ("abstained", "Abstained", "share", "“I can’t tell, because …”"),
    ("honest_accuracy", "Right without a fault", "share", "of the honest runs"),
    ("right_rejected", "Right observations rejected", "share", "in the end"),
    ("right_left_open", "Right observations left to a person", "share", "in the end"),
    ("R_dep", "R_dep", "share", "answers that depend on an observation"),
    ("R_err", "R_err", "share", "runs with an incorrect observation though no tool failed"),
    ("requests", "Evidence requests", "number", "made in all runs"),
    ("tool_calls_per_run", "Tool calls a run", "number", ""),
    ("seconds_per_run", "Seconds a run", "seconds", ""),
    ("verification_share_of_run", "Verification’s share of a run", "share", ""),
    ("judgement_ms_p50", "One judgement, median", "ms", ""),
    ("runs", "Runs", "number", ""),
)
# a square of 200
FRAME = ChartFrame(width=248, height=248, left=34, right=14, top=8, bottom=40)


def _text(value: Any, how: str) -> str:
    if value is None:
        return "–"
    if how == "share":
        return f"{100 * value:.1f} %"
    if how == "seconds":
        return f"{value:.2f} s"
    if how == "ms":
        return f"{value:.1f} ms"
    return f"{value:,}" if isinstance(value, int) else f"{value:.2f}"


def _interval(value: Any) -> str:
    return "" if not value else f"{100 * value[0]:.1f}–{100 * value[1]:.1f} %"


def heat_step(wrong: float | None) -> int | None:
    """Step 0 to 5 of the colour ramp for a share of wrong answers: 5 where nothing came through."""
    return None if wrong is None else max(0, min(5, int((1 - wrong) * 5 + 1e-9)))


def fault_tables(report: dict[str, Any]) -> dict[str, Any]:
    """What the fault bench's panel shows."""
    names = list(report.get("configurations", {}))
    by = report.get("configurations", {})
    rows = [
        {
            "words": words,
            "meaning": meaning,
            "cells": [{"text": _text(by[n].get(key), how), "interval": _interval(by[n].get(f"{key}_interval"))} for n in names],
        }
        for key, words, how, meaning in FAULT_ROWS
    ]
    last = names[-1] if names else ""
    verifier = report.get("verifier", {}).get(last) or {}
    drops = [
        {"words": CONFIGURATION_NAMES.get(n, n), **d} for n, d in report.get("drop", {}).items() if d.get("points") is not None
    ]
    return {
        "names": [CONFIGURATION_NAMES.get(n, n) for n in names],
        "rows": rows,
        "drops": drops,
        "families": _with_left_out(_heat(report.get("families", {}), names), report.get("leave_one_family_out") or {}),
        "faults": _heat(report.get("faults", {}), names, {k["name"]: k for k in report.get("fault_kinds", [])}),
        "confusion": verifier.get("confusion"),
        "reject_precision": verifier.get("reject_precision"),
        "reject_recall": verifier.get("reject_recall"),
        "not_accepted_recall": verifier.get("not_accepted_recall"),
        "calibration": verifier.get("calibration"),
        "diagram": reliability_diagram((verifier.get("calibration") or {}).get("bins") or []),
        "requests": [_request_row(r) for r in report.get("requests", {}).get(last) or []],
        "caught_by": (report.get("caught_by", {}).get(last) or [])[:14],
        "let_through": [r for r in report.get("let_through", []) if r.get("configuration") == last],
        "honest_not_right": [r for r in report.get("honest_not_right", []) if r.get("configuration") == last],
        "left_out": report.get("leave_one_family_out"),
        "task_types": _heat(report.get("task_types", {}), names),
        "by_tool": [{"name": name, **held} for name, held in (verifier.get("by_tool") or {}).items()],
        "by_group": [
            {"title": name.replace("_", " "), "bins": bins_of(held.get("calibration") or held)}
            for group in ("by_tool", "by_task_type")
            for name, held in (verifier.get(group) or {}).items()
            if bins_of(held.get("calibration") or held)
        ],
    }


def _with_left_out(rows: list[dict[str, Any]], report: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of families, each with R_prop under the verifier that was fitted without it."""
    for row in rows:
        held = (report.get("families") or {}).get(row["name"]) or {}
        row["left_out"] = {
            "text": _text(held.get("held_out"), "share"),
            "step": heat_step(held.get("held_out")),
            "n": held.get("runs", 0),
        }
    return rows


def request_tables(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Evidence requests by configuration, of a report that holds nothing else or of a whole bench: [{name, rows}]."""
    held = report.get("requests")
    groups = held if isinstance(held, dict) else {"": held}
    return [
        {"name": CONFIGURATION_NAMES.get(name, name.replace("_", " ")), "rows": [_request_row(r) for r in rows]}
        for name, rows in groups.items()
        if isinstance(rows, list) and rows
    ]


def _request_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row with every key that the page shows, whatever the report left out."""
    empty = {"accepted": 0, "rejected": 0, "left_to_a_person": 0, "mean_change_of_p": None}
    return {
        "n": 0,
        "answered": 0,
        **row,
        "right": empty | (row.get("right") or {}),
        "incorrect": empty | (row.get("incorrect") or {}),
    }


def _heat(table: dict[str, Any], names: list[str], meanings: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    out = []
    for name, by in table.items():
        cells = [
            {
                "text": _text(by.get(n, {}).get("R_prop"), "share"),
                "step": heat_step(by.get(n, {}).get("R_prop")),
                "n": by.get(n, {}).get("runs", 0),
            }
            for n in names
        ]
        if any(c["n"] for c in cells):
            known = (meanings or {}).get(name, {})
            out.append({"name": name, "cells": cells, "meaning": known.get("meaning", ""), "family": known.get("family", "")})
    return out


def reliability_diagram(bins: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Coordinates of the diagram: mean probability to the right, share that was right upwards; None without bins.

    ``low`` and ``high`` of a bin, where it has them, are drawn as its interval.
    """
    if not bins:
        return None
    most = max(b["n"] for b in bins) or 1

    def x_of(p: float) -> float:
        return FRAME.x(p)

    def y_of(p: float) -> float:
        return FRAME.y(1 - p)

    points = []
    for b in bins:
        low, high = b.get("low"), b.get("high")
        radius = round(2.5 + 5.5 * (b["n"] / most) ** 0.5, 1)
        y = y_of(b["share_right"])
        # the number stands over the dot, or under it where the plot ends
        above = y - radius - 4
        points.append(
            {
                "x": x_of(b["mean_p"]),
                "y": y,
                "r": radius,
                "y_n": round(above if above > 12 else y + radius + 11, 1),
                "y_low": None if low is None else y_of(low),
                "y_high": None if high is None else y_of(high),
                **{name: b[name] for name in ("from", "to", "mean_p", "share_right", "n")},
                "low": low,
                "high": high,
            }
        )
    return {
        **FRAME.sides,
        "top": FRAME.top,
        "ticks": [{"x": x_of(t), "y": y_of(t), "text": f"{t:g}"} for t in (0.0, 0.25, 0.5, 0.75, 1.0)],
        "points": points,
        "path": polyline((p["x"], p["y"]) for p in points),
        "has_intervals": any(p["low"] is not None for p in points),
    }


# Small tables whose figures belong to the first ones, whoever wrote the report
HEADLINES = frozenset({"R_err", "R_prop", "R_prop_unnoticed", "silent_failures", "operating_point", "rejected"})
HIDDEN = frozenset({"kind", "made_at", "revision", "bins", "reliability"})


def plain_tables(report: dict[str, Any]) -> dict[str, Any]:
    """A report of any shape: its single figures, its tables of figures, and the bins of its reliability diagram.

    Figures named ``X_interval`` stand beside ``X``; lists and what lies deeper than two levels are left to the JSON.
    """
    figures: list[dict[str, str]] = []
    tables: list[dict[str, Any]] = []
    diagrams: list[dict[str, Any]] = []

    def look(name: str, held: Mapping[str, Any], depth: int) -> None:
        bins = bins_of(held)
        if bins:
            diagrams.append({"name": name, "bins": bins, "diagram": reliability_diagram(bins)})
        own = _scalars(held)
        if depth == 0:
            figures.extend(own)
        elif depth == 1 and name in HEADLINES:
            figures.extend({**row, "words": f"{name.replace('_', ' ')}, {row['words']}"} for row in own)
        elif own:
            tables.append({"name": name, "rows": own})
        for key, value in held.items():
            if isinstance(value, dict) and key not in HIDDEN and depth < 3:
                look(key if not name else f"{name}: {key}", value, depth + 1)

    look("", report, 0)
    return {"figures": figures, "tables": tables[:40], "diagrams": [d for d in diagrams if d["diagram"]][:4]}


def _scalars(held: Mapping[str, Any]) -> list[dict[str, str]]:
    out = []
    for key, value in held.items():
        if key in HIDDEN or key.endswith(("_interval", "_ci")) or isinstance(value, (dict, list)):
            continue
        text = "–" if value is None else f"{value:.3f}" if isinstance(value, float) else str(value)
        interval = held.get(f"{key}_interval") or held.get(f"{key}_ci")
        between = f"{interval[0]:.3f}–{interval[1]:.3f}" if interval is not None and _is_pair(interval) else ""
        out.append({"words": key.replace("_", " "), "text": text, "interval": between})
    return out


def _is_pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(v, int | float) for v in value)


def bins_of(held: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Bins of a reliability diagram, whatever the report calls them; [] where there are none."""
    for key in ("bins", "reliability"):
        found = held.get(key)
        if isinstance(found, list) and found and all(isinstance(b, dict) for b in found):
            made = []
            for b in found:
                p, y = b.get("mean_p", b.get("p")), b.get("share_right", b.get("right", b.get("y")))
                if isinstance(p, int | float) and isinstance(y, int | float):
                    made.append(
                        {"from": b.get("from", p), "to": b.get("to", p), "n": int(b.get("n", 1)), "mean_p": p, "share_right": y}
                    )
            return made
    return []
