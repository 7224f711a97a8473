"""What the page of a report says, and the same page as PDF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.template.loader import render_to_string

from apps.accounts.models import User
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.decision import VERDICT_REASONS
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.observation import LayerRef
from apps.core.geo.scene import SceneInfo
from apps.core.ports import LayerStore
from apps.runs.evidence_words import evidence_for_reading
from apps.runs.headline import scene_detail, scene_title
from apps.runs.mapview import vectors_used
from apps.runs.models import Run
from apps.runs.printed import Figure, pdf_bytes
from apps.runs.report import report_forms
from apps.runs.thumbnail import observation_picture
from apps.runs.views import run_context

FIGURE_PX = 1100
MOST_OUTLINES = 5000
_REASONS = dict(VERDICT_REASONS)
_FORMATS = (("png", "PNG"), ("tiff", "GeoTIFF"), ("json", "GeoJSON"))
MOST_RECORDS = 6
# A page of 200 observations has some 3 million.
MOST_PAGE_CHARACTERS = 12_000_000
PARTS = ("source", "intermediate", "validity")


def report_context(user: User | None, run: Run, state: RunState) -> dict[str, Any]:
    """What the templates of the report take; without a user nothing is offered to do."""
    observations = list(state.observations.values())
    scenes = state.question.scenes if state.question else ()
    evidence = []
    for held in observations:
        read = evidence_for_reading(held.observation, scenes)
        parts = [{"name": part, "held": _unfolded(read.get(part, {}))} for part in PARTS]
        # a number would be set anew for the reader's language in each of its rows
        evidence.append({"step": str(held.observation.step), "parts": parts})
    return run_context(user, run, state) | {
        "forms": report_forms(state),
        "evidence": evidence,
        **_checks(observations),
        "people": _people(state),
        "vectors": vectors_used(state),
        "files": [
            {"step": held.observation.step, "ref": ref, "format": _format(ref)}
            for held in observations
            for ref in held.observation.result.layers
        ],
        "verifiers": sorted({d.verifier for held in observations for d in held.decisions if d.verifier}),
        "packages": ", ".join(f"{k} {v}" for k, v in (state.started.packages if state.started else {}).items()),
    }


def _checks(observations: list[ObservationState]) -> dict[str, Any]:
    """Failed and open checks one by one; passed ones that found the same in several steps as one row, and how many they are."""
    marks: dict[str, str] = {}
    still: list[dict[str, Any]] = []
    passed: dict[tuple[str, str], list[int]] = {}
    for held in observations:
        step = held.observation.step
        for check in held.checks:
            if check.outcome == "passed":
                passed.setdefault((check.check, check.message), []).append(step)
            elif check.outcome != "not_applicable":
                if check.outcome not in marks:
                    marks[check.outcome] = _mark(check.outcome)
                still.append({"step": str(step), "check": check, "mark": marks[check.outcome]})
    return {
        "checks_open": still,
        "checks_passed": [{"steps": steps_text(s), "check": name, "message": said} for (name, said), s in passed.items()],
        "n_passed": sum(map(len, passed.values())),
        "passed_mark": _mark("passed") if passed else "",
    }


def _mark(outcome: str) -> str:
    """The component of an outcome, rendered once for its thousands of rows."""
    mark: str = render_to_string("components/outcome.html", {"outcome": outcome})
    return mark


def steps_text(steps: Sequence[int]) -> str:
    """``1, 3 to 5, 9``: each number once, three and more in a row by their ends."""
    runs: list[list[int]] = []
    for step in sorted(set(steps)):
        if runs and step == runs[-1][-1] + 1:
            runs[-1].append(step)
        else:
            runs.append([step])
    return ", ".join(f"{r[0]} to {r[-1]}" if len(r) > 2 else ", ".join(map(str, r)) for r in runs)


def _people(state: RunState) -> list[dict[str, Any]]:
    """What persons said of the observations and asked for, in the order of time, taken back or not."""
    said: list[dict[str, Any]] = []
    told: set[str] = set()  # a correction carries the verdict that it came with
    for held in state.observations.values():
        step = held.observation.step
        for v in (v for v in held.verdicts if v.id not in told):
            told.add(v.id)
            why = ": ".join(filter(None, [_REASONS.get(v.reason, v.reason), v.note]))
            said.append(
                {"step": step, "verdict": v, "author": v.author, "at": v.given_at, "why": why, "is_undone": v.id in held.undone}
            )
        for ask in held.asks:
            why = ": ".join(filter(None, [ask.request.kind.replace("_", " "), ask.note or ask.request.reason]))
            gone = ask.id in held.withdrawn
            said.append({"step": step, "verdict": None, "author": ask.author, "at": ask.at, "why": why, "is_undone": gone})
    return sorted(said, key=lambda one: one["at"])


def _unfolded(part: dict[str, Any]) -> dict[str, Any]:
    """Short lists of records as the records themselves: on paper nothing can be opened."""
    out: dict[str, Any] = {}
    for name, value in part.items():
        is_short = isinstance(value, list) and 0 < len(value) <= MOST_RECORDS and all(isinstance(v, dict) for v in value)
        out[name] = (value[0] if len(value) == 1 else {str(i): v for i, v in enumerate(value, 1)}) if is_short else value
    return out


def _format(ref: LayerRef) -> str:
    name = next((name for word, name in _FORMATS if word in ref.media_type), ref.media_type or "file")
    # the kept file has the layer's own coordinates, which GeoJSON does not tell
    return f"{name} in {'pixels' if ref.crs == 'image' else ref.crs[:40]}" if name == "GeoJSON" else name


def _figure(state: RunState, store: LayerStore) -> Figure | None:
    """The scene of the answer's first observation with what was seen on it; None where the scene is gone."""
    answer = state.answer
    under = [state.observations[i] for i in (answer.based_on if answer else ()) if i in state.observations]
    held = next(iter(under or state.history), None)
    try:
        seen = observation_picture(state, held, store, size=FIGURE_PX, most=MOST_OUTLINES, with_region=True)
    except NotFoundError:
        return None
    scene = seen.scene
    words = f"{scene_title(scene)} · {scene_detail(scene)} · {scene.name}".split(" · ")
    caption = [" · ".join(dict.fromkeys(words))]
    if scene.grid.is_georeferenced:
        west, south, east, north = scene.grid.lonlat_bounds()
        crs = f"EPSG:{scene.grid.epsg}" if scene.grid.epsg else "CRS without a code"
        said = f"{crs}; from {west:.5f}, {south:.5f} to {east:.5f}, {north:.5f} (longitude, latitude)"
        caption.append(said.replace(" -", " −"))
    else:
        caption.append("No CRS: a picture, not a map.")
    if held is not None:
        caption.append(f"Drawn for observation {held.observation.step}: {'; '.join(seen.drawn) or 'nothing but the scene'}.")
    return Figure(seen.rgba, tuple(caption), metres_across(scene, seen.rgba.shape[1]), seen.legend)


def metres_across(scene: SceneInfo, columns: int) -> float | None:
    """Metres of a step to the right in a picture of the whole scene with so many columns, for its scale bar: a pixel need not be
    as wide as high. None where nobody knows."""
    side = scene.grid.pixel_sides_m()[0] if scene.grid.crs is not None else scene.effective_gsd_m
    return side * scene.grid.width / columns if side else None


def report_pdf(run: Run, state: RunState, store: LayerStore) -> bytes:
    """The report's page as PDF, the same for every reader. Minutes for a long run: made by a worker (report_files.py).

    UserError TOO_LARGE where the page is longer than MOST_PAGE_CHARACTERS.
    """
    html: str = render_to_string("runs/report_print.html", report_context(None, run, state))
    if len(html) > MOST_PAGE_CHARACTERS:
        raise UserError(
            "TOO_LARGE", "The report is too long for a PDF.",
            f"Its page has {len(html):,} characters; {MOST_PAGE_CHARACTERS:,} are printed.",
            "Read the page, or take CSV, JSON or GPKG.", status=413,
        )  # fmt: skip
    footer = f"RSure Web · run {str(run.pk)[:8]} · as of event {state.seq}"
    return pdf_bytes(html, title=run.question_text, footer=footer, figure=_figure(state, store))
