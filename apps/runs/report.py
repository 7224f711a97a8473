"""A run as a file that leaves the house: JSON (everything), CSV (observations), GeoJSON (vector layers)."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from apps.core.errors import UserError
from apps.core.evidence.fold import RunState
from apps.runs.mapview import features_for_map
from apps.runs.present import ask_json

COLUMNS = (
    "step",
    "attempt",
    "observation",
    "tool",
    "configuration",
    "state",
    "kind",
    "quantity",
    "value",
    "unit",
    "interval_low",
    "interval_high",
    "decision",
    "p_correct",
    "verdict",
    "verdict_by",
    "prior_r_hat",
    "prior_version",
)


def report_bytes(state: RunState, kind: str, layers: Any) -> tuple[bytes, str]:
    """(content, media type). UserError BAD_ARGUMENT for another kind than json, csv, geojson."""
    if kind == "json":
        return json.dumps(ask_json(state), ensure_ascii=False, indent=1).encode(), "application/json"
    if kind == "csv":
        return _csv(state), "text/csv; charset=utf-8"
    if kind == "geojson":
        features = []
        for held in state.history:
            for ref in held.observation.result.layers:
                if ref.kind in ("boxes", "polygons", "points"):
                    found = features_for_map(layers, ref, state.question.scenes if state.question else (), limit=100_000)
                    for f in found["features"]:
                        f["properties"] |= {"observation": held.id, "layer": ref.label, "step": held.observation.step}
                    features += found["features"]
        return json.dumps({"type": "FeatureCollection", "features": features}).encode(), "application/geo+json"
    raise UserError(
        "BAD_ARGUMENT", f"“{kind}” is no form of report.", "There are html, json, csv and geojson.", "Choose one of them."
    )


def _safe(cell: object) -> object:
    # a spreadsheet would run a text that starts like a formula
    return "'" + cell if isinstance(cell, str) and cell.startswith(("=", "+", "-", "@", "\t", "\r")) else cell


def _csv(state: RunState) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    for held in state.observations.values():
        o, d = held.observation, held.decision
        low, high = o.result.interval or ("", "")
        writer.writerow(
            [
                _safe(c)
                for c in (
                    o.step,
                    o.attempt,
                    o.id,
                    o.tool,
                    o.configuration.fine,
                    o.status.state,
                    o.result.kind,
                    o.result.quantity,
                    o.result.value,
                    o.result.unit,
                    low,
                    high,
                    d.decision if d else "",
                    d.p_correct if d else "",
                    held.verdict.value if held.verdict else "",
                    held.verdict.author if held.verdict else "",
                    d.prior.r_hat if d and d.prior else "",
                    d.prior.version if d and d.prior else "",
                )
            ]
        )
    return out.getvalue().encode()
