"""A run as a file that leaves the house: the page as PDF, its layers as GeoJSON, GPKG and COCO, its observations as CSV, all of
it as JSON, and where it comes from as provenance."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass
from typing import Any

from apps.core.errors import UserError
from apps.core.evidence.fold import RunState
from apps.core.ports import LayerStore
from apps.imagery.geopackage import geopackage_bytes
from apps.runs.coco import coco_json, nothing_found
from apps.runs.export_layers import PIXELS, geopackage_layers, has_vectors, placed, scene_of, vector_refs
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


@dataclass(frozen=True, slots=True)
class ReportForm:
    """One form of the report: ``kind`` as in the address, title of its button, why there is none now ('' where there is)."""

    kind: str
    title: str
    suffix: str
    media_type: str
    reason: str = ""


def report_forms(state: RunState) -> list[ReportForm]:
    """The files that a run can be taken away as, each with the reason where this run has nothing for it."""
    no_steps = "" if state.observations else "The run has no observation."
    no_history = "" if next(vector_refs(state.history), None) else "The verified history holds no boxes, polygons or points."
    no_vectors = "" if has_vectors(state) else "No observation of this run has boxes, polygons or points, and it has no region."
    return [
        ReportForm("pdf", "PDF", "pdf", "application/pdf"),
        ReportForm("csv", "CSV", "csv", "text/csv; charset=utf-8", no_steps),
        ReportForm("geojson", "GeoJSON", "geojson", "application/geo+json", no_history),
        ReportForm("gpkg", "GPKG", "gpkg", "application/geopackage+sqlite3", no_vectors),
        ReportForm("coco", "COCO", "coco.json", "application/json", nothing_found(state)),
        ReportForm("json", "JSON", "json", "application/json"),
        ReportForm("provenance", "Provenance", "provenance.json", "application/json"),
    ]


def report_form(state: RunState, kind: str) -> ReportForm:
    """The form of that name. UserError BAD_ARGUMENT: 400 for a name that is none, 409 where the run has nothing for it."""
    forms = report_forms(state)
    form = next((f for f in forms if f.kind == kind), None)
    if form is None:
        names = ", ".join(["html", *(f.kind for f in forms)])
        raise UserError("BAD_ARGUMENT", f"“{kind[:40]}” is no form of report.", f"There are {names}.", "Choose one of them.")
    if form.reason:
        fix = "Take another form, or ask for what is missing."
        raise UserError("BAD_ARGUMENT", f"There is nothing to export as {form.title}.", form.reason, fix, status=409)
    return form


def report_bytes(state: RunState, kind: str, store: LayerStore) -> bytes:
    """The file of a form that is made of the run alone: each but ``pdf``, which is made of the page. Errors as report_form."""
    form = report_form(state, kind)
    match form.kind:
        case "json":
            return _json(ask_json(state))
        case "csv":
            return _csv(state)
        case "geojson":
            return _geojson(state, store)
        case "gpkg":
            return geopackage_bytes(geopackage_layers(state, store))
        case "coco":
            return _json(coco_json(state, store))
        case "provenance":
            return _json(provenance_json(state))
    raise ValueError(f"{kind} is made elsewhere")


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, indent=1, allow_nan=False).encode("utf-8", "backslashreplace")


def _geojson(state: RunState, store: LayerStore) -> bytes:
    scenes = state.question.scenes if state.question else ()
    features = []
    is_pixels = False
    for held, ref in vector_refs(state.history):
        is_pixels = is_pixels or placed(ref, scene_of(ref, scenes))[0] is None
        found = features_for_map(store, ref, scenes, limit=100_000)
        for f in found["features"]:
            f["properties"] |= {"observation": held.id, "layer": ref.label, "step": held.observation.step}
        features += found["features"]
    # GeoJSON is longitude and latitude by itself: pixels say that they are none, to programs and to people
    local = {"type": "name", "properties": {"name": 'LOCAL_CS["pixels of the picture",UNIT["pixel",1]]'}}
    frame: dict[str, Any] = {"crs": local, "description": PIXELS} if is_pixels else {}
    return json.dumps({"type": "FeatureCollection", **frame, "features": features}).encode()


def provenance_json(state: RunState) -> dict[str, Any]:
    """Where the answer comes from: inputs by digest, code, packages, plans; of each observation its call, layers and marks."""
    question, started = state.question, state.started
    return {
        "protocol": "rsure.provenance/1",
        "run_id": state.run_id,
        "question": question.text if question else None,
        "status": state.status,
        "started_at": state.started_at.isoformat() if state.started_at else None,
        "ended_at": state.ended_at.isoformat() if state.ended_at else None,
        "events": state.seq,
        "resumed": state.resumed,
        "code": {
            "revision": started.revision,
            "seed": started.seed,
            "packages": started.packages,
            "policy": started.policy,
            "budget": started.budget,
        }
        if started
        else None,
        "inputs": [
            {
                "scene": s.scene_id,
                "name": s.name,
                "digest": s.artifact,
                "crs": s.grid.crs,
                "size_px": [s.grid.width, s.grid.height],
                "gsd_m": s.effective_gsd_m,
                "gsd_source": s.gsd_source,
                "acquired_at": s.acquired_at.isoformat() if s.acquired_at else None,
                "bands": [{"index": b.index, "role": b.role} for b in s.bands],
            }
            for s in (question.scenes if question else ())
        ],
        "vectors": [
            {"name": v.name, "digest": v.artifact, "crs": v.crs, "features": v.n} for v in (question.vectors if question else ())
        ],
        "plans": [{"planner": p.planner, "task_type": p.task.task_type, "steps": len(p.steps)} for p in state.plans],
        "observations": [
            {
                "id": h.id,
                "step": h.observation.step,
                "attempt": h.observation.attempt,
                "parents": list(h.observation.parents),
                "tool": h.observation.tool,
                "configuration": h.observation.configuration.fine,
                "arguments": h.observation.arguments_passed,
                "inputs": [{"role": i.role, "digest": i.artifact} for i in h.observation.inputs],
                "layers": [{"kind": r.kind, "label": r.label, "digest": r.artifact} for r in h.observation.result.layers],
                "provenance": h.observation.provenance.model_dump(mode="json"),
                "decisions": [
                    {
                        "decision": d.decision,
                        "stage": d.stage,
                        "p_correct": d.p_correct,
                        "verifier": d.verifier,
                        "policy": d.policy,
                        "prior": d.prior.model_dump(mode="json") if d.prior else None,
                    }
                    for d in h.decisions
                ],
                "verdicts": [v.model_dump(mode="json") | {"undone": v.id in h.undone} for v in h.verdicts],
                "asked": [
                    {
                        "by": a.author,
                        "at": a.at.isoformat(),
                        "kind": a.request.kind,
                        "note": a.note,
                        "withdrawn": a.id in h.withdrawn,
                    }
                    for a in h.asks
                ],
                "evidence": [
                    {"kind": r.request.kind, "outcome": r.outcome, "supporting": r.supporting_id, "p_after": r.p_after}
                    for r in h.requests
                ],
                "in_history": state.is_in_history(h.id),
            }
            for h in state.observations.values()
        ],
        "answers": [
            {"at": a.at.isoformat(), "cause": a.cause, "text": a.answer.text, "based_on": list(a.answer.based_on)}
            for a in state.answers
        ],
    }


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
