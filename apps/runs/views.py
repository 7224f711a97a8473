"""Pages of runs and observations: parse, one service, answer. First paint and live fragments are one template over one fold."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.models import User
from apps.accounts.selectors import access_project_by_id, can
from apps.agent.planner.offered import beside_the_fields, form_fields
from apps.agent.planner.things import thing_of
from apps.agent.units import without_noise
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.decision import VERDICT_REASONS
from apps.core.evidence.fold import ObservationState, RunState
from apps.core.evidence.plan import Question
from apps.imagery import tiles
from apps.imagery.selectors import scenes_for_ask, vectors_for_ask
from apps.imagery.vector_views import outlines_for_map
from apps.runs import selectors, services, thumbnail
from apps.runs.arguments import choices_from_text, geometry_from_text, region_from_text
from apps.runs.assembly import layers, plan_preview
from apps.runs.charts import run_chart, series_chart
from apps.runs.evidence_words import evidence_for_reading
from apps.runs.headline import detail_text, headline, is_said, scene_detail, scene_title
from apps.runs.history import asks_shown, correction_shown, observation_history, served_ask
from apps.runs.inspector import values_at
from apps.runs.landmarks import check_landmarks, landmarks_from_fields, mark_fields
from apps.runs.mapview import MAX_SCENE_LAYERS, features_for_map, map_config, vectors_used
from apps.runs.models import Run
from apps.runs.present import older_reading_text
from apps.runs.prompts import check_prompts, prompt_field, prompts_from_text
from apps.runs.reasons import reasons_shown, told_once
from apps.runs.tables import items_table, rows_table, run_table

STATUS_WORDS = {
    "queued": "Waiting for a worker",
    "running": "Running",
    "finished": "Finished",
    "failed": "Failed",
    "cancelled": "Cancelled",
}
# Steps of a run that a page shows at first, those that wait for a person before others; the rest is fetched when asked for.
STEPS_SHOWN = 30
# Numbers of observations that a sentence of the answer carries.
CITES_SHOWN = 12
# what made an answer a new one, by the first word of its event's cause; a verdict's cause is its id alone
_CAUSES = {"undo": "the verdict was undone", "evidence": "the evidence that a person asked for"}


def person(request: HttpRequest) -> User:
    """The signed-in person; views that use it are behind ``login_required``."""
    return cast(User, request.user)


def toast_answer(request: HttpRequest, address: str, text: str, *, undo_url: str = "", redo_url: str = "") -> HttpResponse:
    """What was done, in a toast with its way back; the page asks for what changed. Without htmx, a redirect to ``address``."""
    if not request.headers.get("HX-Request"):
        return redirect(address)
    toast = {"text": text} | ({"undo_url": undo_url} if undo_url else {}) | ({"redo_url": redo_url} if redo_url else {})
    return HttpResponse(status=204, headers={"HX-Trigger": json.dumps({"toast": toast, "rsure:changed": {}})})


def _image_names(state: RunState) -> list[str]:
    return [s.name for s in (state.question.scenes if state.question else ())]


def _step_view(state: RunState, held: ObservationState) -> dict[str, Any]:
    main, what = headline(held.observation)
    failed = [c for c in held.checks if c.outcome == "failed"]
    note = ""
    if held.decision is not None and held.decision.decision != "accept" and held.decision.reasons:
        note = held.decision.reasons[0]
    elif failed:
        note = failed[0].message
    is_failed = held.observation.status.state == "failed"
    if is_failed and is_said(what, note):
        note = ""  # the line says it: a failed tool has no figure, but a reason
    # what the answer warns of stands above the trace already
    told = frozenset(state.answer.warnings) if state.answer is not None else frozenset()
    logged = [line.message for line in held.observation.status.log if line.level == "warning" and line.message not in told]
    warnings = [older_reading_text(e) for e in held.older_readings[-1:]] + told_once(logged, _image_names(state))
    return {
        "held": held,
        "o": held.observation,
        "main": main,
        "what": what,
        "detail": detail_text(held.observation),
        "note": note,
        "is_open": held.verdict is None and held.decision is not None and held.decision.decision != "accept",
        "is_struck": held.effective == "reject",
        "is_person": bool(held.corrects),
        "is_taken_back": bool(held.corrects) and held.verdict is None,
        "correction": correction_shown(state, held),
        "asks": asks_shown(held),
        "serves": served_ask(state, held),
        "in_history": state.is_in_history(held.id),
        "is_failed": is_failed,
        "warnings": [w for w in warnings if not is_said(w, note) and not (is_failed and is_said(w, what))],
    }


def _seq_shown(run: Run, state: RunState) -> int:
    """Sequence number that a fragment claims. While the run is due again it claims one less than it has: what follows the last
    event, that nothing is due any more, is no event, and must still be fetched.
    """
    return state.seq - 1 if run.pending_cause else state.seq


def _shown_first(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The steps that a page shows at first, in their order."""
    if len(steps) <= STEPS_SHOWN + STEPS_SHOWN // 3:
        return steps  # so few more are no matter
    order = sorted(range(len(steps)), key=lambda at: (not steps[at]["is_open"], at))
    return [steps[at] for at in sorted(order[:STEPS_SHOWN])]


def _cites(ids: Sequence[str], by_id: Mapping[str, int], *, has_all: bool) -> dict[str, Any]:
    """Numbers of the observations behind a sentence, or the first of them and how many more there are."""
    shown = ids if has_all or len(ids) <= CITES_SHOWN + 3 else ids[:CITES_SHOWN]
    return {"cites": [{"id": i, "step": by_id.get(i, "?")} for i in shown], "cites_more": len(ids) - len(shown)}


def run_context(user: User | None, run: Run, state: RunState, *, has_all: bool = True) -> dict[str, Any]:
    """What the templates of a run take, its report among them; without a user nothing is offered to do. ``has_all``: every step,
    not only those that a page shows at first.
    """
    # a person's value that was taken back stands in the history of what it was for
    steps = [v for v in (_step_view(state, held) for held in state.observations.values()) if not v["is_taken_back"]]
    by_id = {s["held"].id: s["o"].step for s in steps}
    shown = steps if has_all else _shown_first(steps)
    answer = state.answer
    based_on = answer.based_on if answer else ()
    confirmed, under = state.confirmed_count()
    done_steps = {s["o"].step for s in steps}
    plan_steps = state.plan.steps if state.plan else ()
    return {
        "run": run,
        "state": state,
        "seq": _seq_shown(run, state),
        "steps": shown,
        "has_all_steps": has_all,
        "n_steps": len(steps),
        "n_steps_more": len(steps) - len(shown),
        "cited_more": sum(i in by_id for i in based_on) - sum(s["held"].id in based_on for s in shown),
        "answer": answer,
        "interval": without_noise(answer.interval) if answer and answer.interval else None,
        "warnings": told_once(answer.warnings, _image_names(state)) if answer else [],
        "before": state.answer_before,
        "older_readings": [older_reading_text(e) for e in state.older_readings.values()],
        "before_what": _CAUSES.get((state.answers[-1].cause if state.answers else "").partition(" ")[0], "the verdict"),
        **_cites(based_on, by_id, has_all=has_all),
        "claims": [{"text": c.text, **_cites(c.based_on, by_id, has_all=has_all)} for c in (answer.claims if answer else ())],
        "confirmed": confirmed,
        "under": under,
        "confirmed_dots": [i < confirmed for i in range(min(under, 12))],
        "n_open": sum(s["is_open"] for s in steps),
        "waiting_steps": [s for s in plan_steps if s.step not in done_steps and not state.is_over],
        "progress": list(state.progress.values()),
        "is_over": state.is_over and not run.pending_cause,
        "status_word": STATUS_WORDS.get("running" if run.pending_cause else run.status, run.status),
        "scenes": [
            {"s": s, "title": scene_title(s), "detail": scene_detail(s)}
            for s in (state.question.scenes if state.question else ())
        ],
        "may_review": user is not None and can(user, run.project, "verdict"),
        "may_ask": user is not None and can(user, run.project, "ask"),
        "reasons": VERDICT_REASONS,
        "chart": run_chart(state),
        "table": run_table(state),
        **_dates(state),
        "live_url": f"/ws/runs/{run.pk}/",
        "revised": [{"cause": a.cause, "answer": a.answer, "at": a.at} for a in state.answers if a.cause],
        "form_fields": _form_fields(state),
        "marks": mark_fields(state.question),
        "prompts": prompt_field(state.question),
        "region_text": json.dumps(state.question.region) if state.question and state.question.region else "",
        "tabs": [
            {"id": "tab-ask", "title": "Ask", "is_current": False},
            {"id": "tab-plan", "title": "Plan", "count": len(plan_steps) or None, "is_current": False},
            {"id": "tab-trace", "title": "Trace", "count": len(steps) or None, "is_current": True},
            {"id": "tab-answer", "title": "Answer", "is_current": False},
        ],
    }


def _dates(state: RunState) -> dict[str, Any]:
    """The dates of the question's scenes that the map can show, in order; none where there is one date or none."""
    scenes = [s for s in (state.question.scenes if state.question else ()) if s.acquired_at is not None]
    shown = sorted(scenes[:MAX_SCENE_LAYERS], key=lambda s: s.acquired_at or datetime.max)
    dates = [
        {"layer": f"scene-{s.scene_id}", "day": f"{s.acquired_at:%Y-%m-%d}", "title": f"{s.acquired_at:%-d %b %Y}"} for s in shown
    ]
    return {"dates": dates, "dates_last": max(0, len(dates) - 1), "dates_all": len(scenes)}


def _form_fields(state: RunState) -> list[dict[str, Any]]:
    """The plan's form for these scenes, filled with what the words gave."""
    if state.question is None:
        return []
    given = state.plan.form if state.plan else {}
    held = {k: v[0] if k == "zones" and isinstance(v, list) and v else v for k, v in given.items()}
    fields = [{**f, "value": held.get(f["name"], [] if f["kind"] == "dates" else "")} for f in form_fields(state.question)]
    for f in fields:
        if f["kind"] == "choice" and f["value"] and all(f["value"] != c[0] for c in f["choices"]):
            f["choices"] = [*f["choices"], [f["value"], _thing_title(str(f["value"]), state.question)]]
    rest, told = beside_the_fields(given)
    if rest:
        fields.append({"name": "rest", "label": told, "kind": "rest", "choices": [], "value": json.dumps(rest)})
    return fields


def _thing_title(key: str, question: Question | None) -> str:
    """What a form calls a thing that it does not offer by itself: a feature, a place, several values of an attribute."""
    try:
        thing = thing_of(key, question) if question is not None else None
    except (KeyError, ValueError):
        thing = None
    return thing.title if thing is not None else key


def _form_from_post(request: HttpRequest) -> dict[str, Any] | None:
    """What was filled in of a plan's form; None where there was no form."""
    form: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for key, values in request.POST.lists():
        filled = [v for v in values if isinstance(v, str) and v.strip()]
        if not key.startswith("form-") or not filled:
            continue
        name = key[5:]
        if name == "rest":
            rest.update(_rest_of_form(filled[0]))
        elif name == "dates" or name == "zones":
            form[name] = filled
        elif name in ("threshold", "upper", "limit", "relation_m", "buffer_m"):
            try:
                form[name] = float(filled[0])
                if not math.isfinite(form[name]):
                    raise ValueError(filled[0])
            except ValueError:
                raise UserError(
                    "BAD_ARGUMENT",
                    f"“{filled[0][:40]}” is no number.",
                    "The threshold is compared with pixels.",
                    "Write a number such as 0.4.",
                ) from None
        else:
            form[name] = filled[0]
    if rest.get("zones", [])[:1] == form.get("zones"):
        form.pop("zones", None)  # the page shows the first of several
    return rest | form if form else None


def _rest_of_form(text: str) -> dict[str, Any]:
    """What the page kept of a form that it has no field for; what else it holds is left out."""
    try:
        held = json.loads(text)
    except ValueError:
        return {}
    return beside_the_fields(held)[0] if isinstance(held, dict) else {}


@login_required
@require_GET
def run_list(request: HttpRequest) -> HttpResponse:
    return render(request, "runs/list.html", {"runs": selectors.run_list_for_user(person(request), limit=100)})


def _page_context(request: HttpRequest, run: Run, state: RunState) -> dict[str, Any]:
    return run_context(person(request), run, state, has_all=request.GET.get("steps") == "all")


@login_required
@require_GET
def run_page(request: HttpRequest, run_id: Any) -> HttpResponse:
    run = selectors.access_run_by_id(person(request), run_id)
    state = selectors.run_state_shown(run)
    if state.question is None:
        from apps.core.evidence.plan import Question

        state = state.copy()  # the kept one is for all
        state.question, state.run_id = Question.model_validate(run.question), str(run.pk)
    return render(request, "runs/workspace.html", _page_context(request, run, state) | {"config": map_config(state)})


def _unchanged(request: HttpRequest, seq: int, run: Run) -> bool:
    return request.headers.get("X-Seq") == str(seq) and not run.pending_cause and request.headers.get("X-Force") is None


@login_required
@require_GET
def run_rail(request: HttpRequest, run_id: Any) -> HttpResponse:
    run = selectors.access_run_by_id(person(request), run_id)
    if _unchanged(request, run.last_seq, run):
        return HttpResponse(status=204)
    return render(request, "runs/rail.html", _page_context(request, run, selectors.run_state_shown(run)))


@login_required
@require_GET
def run_map(request: HttpRequest, run_id: Any) -> HttpResponse:
    run = selectors.access_run_by_id(person(request), run_id)
    if _unchanged(request, run.last_seq, run):
        return HttpResponse(status=204)
    state = selectors.run_state_shown(run)
    return render(request, "runs/map.html", _page_context(request, run, state) | {"config": map_config(state)})


@login_required
@require_GET
def run_values(request: HttpRequest, run_id: Any) -> HttpResponse:
    """What lies at ``?x=&y=`` (longitude and latitude, or column and row of a picture), as JSON: values of bands and layers."""
    run = selectors.access_run_by_id(person(request), run_id)
    try:
        x, y = float(request.GET.get("x", "")), float(request.GET.get("y", ""))
        if not (math.isfinite(x) and math.isfinite(y)):
            raise ValueError
    except ValueError:
        raise UserError(
            "BAD_ARGUMENT", "That is no position.", "It takes two numbers, x and y.", "Click on the map, or write both."
        ) from None
    return JsonResponse(values_at(selectors.run_state_shown(run), layers(run.project_id), x, y))


def _question_from_post(request: HttpRequest) -> dict[str, Any]:
    post = request.POST
    project = access_project_by_id(person(request), post.get("project", ""), "ask")
    scenes = scenes_for_ask(person(request), project, post.getlist("scene"))
    region_text = post.get("region", "").strip()
    is_image_space = bool(scenes) and not all(s.scene_info.grid.is_georeferenced for s in scenes)
    region: dict[str, Any] | None = None
    if region_text:
        region = _pixel_region(region_text) if is_image_space else region_from_text(region_text)
    form = _form_from_post(request)
    infos = [s.scene_info for s in scenes]
    fields = {key: str(value) for key, value in post.items() if key.startswith("landmark_")}
    landmarks = landmarks_from_fields(fields, infos)
    check_landmarks(landmarks, infos, post.get("question", ""))
    prompts = prompts_from_text(post.get("prompts", ""), infos)
    check_prompts(prompts, infos)
    return {
        "user": person(request),
        "project": project,
        "text": post.get("question", ""),
        "scenes": scenes,
        "region": region,
        "region_crs": "image" if is_image_space else "EPSG:4326",
        "choices": choices_from_text(post.get("choices", "").strip()),
        "form": form,
        "landmarks": landmarks,
        "prompts": prompts,
        "vectors": vectors_for_ask(person(request), project, post.getlist("vector") if post.get("vectors_listed") else None),
    }


def _pixel_region(text: str) -> dict[str, Any]:
    from shapely.geometry import mapping

    geometry = geometry_from_text(text)
    if geometry.geom_type not in ("Polygon", "MultiPolygon") or not 0 < geometry.area < math.inf:
        raise UserError(
            "BAD_REGION", "The region cannot be used.", "It is not a polygon with an area.", "Draw a rectangle or polygon."
        )
    return dict(json.loads(json.dumps(mapping(geometry))))


@login_required
@require_POST
def run_ask(request: HttpRequest) -> HttpResponse:
    run = services.run_start(**_question_from_post(request))
    url = reverse("run", args=[run.pk])
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": url})
    return redirect(url)


@login_required
@require_POST
def run_plan(request: HttpRequest) -> HttpResponse:
    """The plan before it runs, as a fragment."""
    asked = _question_from_post(request)
    plan = plan_preview(
        text=services.question_text(asked["text"], asked["form"]),
        scenes=[s.scene_info for s in asked["scenes"]],
        region=asked["region"],
        region_crs=asked["region_crs"],
        choices=asked["choices"],
        form=asked["form"],
        vectors=asked["vectors"],
        landmarks=asked["landmarks"],
        prompts=asked["prompts"],
    )
    return render(request, "runs/plan_preview.html", {"plan": plan})


@login_required
@require_POST
def run_cancel(request: HttpRequest, run_id: Any) -> HttpResponse:
    run = selectors.access_run_by_id(person(request), run_id, "ask")
    services.run_cancel(user=person(request), run=run)
    if request.headers.get("HX-Request"):
        return HttpResponse(
            status=204, headers={"HX-Trigger": json.dumps({"rsure:changed": {}, "toast": {"text": "Run cancelled"}})}
        )
    return redirect("run", run_id=run.pk)


@login_required
@require_GET
def run_layer(request: HttpRequest, run_id: Any, digest: str) -> HttpResponse:
    """A vector layer of the run for its map: lon/lat where the scenes have a CRS, pixels otherwise."""
    run = selectors.access_run_by_id(person(request), run_id)
    state = selectors.run_state_shown(run)
    found = next(
        (
            (o, ref)
            for o in state.observations.values()
            for ref in o.observation.result.layers
            if ref.artifact == digest and ref.kind in ("boxes", "polygons", "points")
        ),
        None,
    )
    if found is None and (vector := next((v for v in vectors_used(state) if v.artifact == digest), None)) is not None:
        shapes, crs = layers(run.project_id).read_vector(digest)
        drawn = JsonResponse(outlines_for_map(vector, shapes, crs))
        drawn["Cache-Control"] = "private, max-age=86400, immutable"
        return drawn
    if found is None:
        raise NotFoundError("layer")
    held, ref = found
    features = features_for_map(layers(run.project_id), ref, state.question.scenes if state.question else (), limit=5000)
    for feature in features["features"]:
        feature["properties"].setdefault("href", reverse("observation", args=[held.id]))
    response = JsonResponse(features)
    response["Cache-Control"] = "private, max-age=86400, immutable"
    return response


def _observation_context(request: HttpRequest, observation_id: str) -> dict[str, Any]:
    row, state = selectors.access_observation(person(request), observation_id)
    held = state.observations[row.id]
    ids = list(state.observations)
    at = ids.index(row.id)
    view = _step_view(state, held)
    required = [c for c in held.checks if c.check == "contract.evidence_present"]
    weighed, sentences = reasons_shown(held.decision)
    return {
        "run": row.run,
        "row": row,
        "state": state,
        "seq": _seq_shown(row.run, state),
        "view": view,
        "held": held,
        "o": held.observation,
        "decision": held.decision,
        "verdict": held.verdict,
        "checks": held.checks,
        "policy_gate": _gate(held),
        "weighed": weighed,
        "sentences": sentences,
        "history": observation_history(state, held),
        "previous": ids[at - 1] if at else None,
        "next": ids[at + 1] if at + 1 < len(ids) else None,
        "position": at + 1,
        "total": len(ids),
        "chart": series_chart(held.observation),
        "table": rows_table(held.observation) or items_table(held.observation),
        "may_review": can(person(request), row.run.project, "verdict"),
        "reasons": VERDICT_REASONS,
        "children": state.descendants(row.id),
        "may_ask": can(person(request), row.run.project, "ask"),
        "live_url": f"/ws/runs/{row.run_id}/",
        "answer": state.answer,
        "before": state.answer_before,
        "config": map_config(state, only=held),
        "evidence_complete": required and required[0].outcome == "passed",
        "is_over": state.is_over and not row.run.pending_cause,
        "log": held.observation.status.log,
        "scores": _score_histogram(held),
        "evidence": evidence_for_reading(held.observation, state.question.scenes if state.question else ()),
    }


def _gate(held: ObservationState) -> dict[str, float] | None:
    """The policy's two thresholds as the decision stored them."""
    if held.decision is None or held.decision.p_correct is None:
        return None
    import re

    numbers = dict(re.findall(r"(accept|reject)[<>]=([0-9.]+)", held.decision.policy))
    if len(numbers) != 2:
        return None
    return {"p": held.decision.p_correct, "accept_at": float(numbers["accept"]), "reject_at": float(numbers["reject"])}


def _score_histogram(held: ObservationState) -> dict[str, Any] | None:
    scores = held.observation.evidence.intermediate.get("scores")
    values = [s for s in scores if isinstance(s, int | float)] if isinstance(scores, list) else []
    if len(values) < 2:
        return None
    bins = [0] * 20
    for s in values:
        bins[min(19, max(0, int(s * 20)))] += 1
    top = max(bins)
    # what the tool said of its threshold, else the smallest score that it kept; the slider begins there
    told = held.observation.evidence.source.get("thresholds")
    told = told if isinstance(told, dict) else {}
    named = [told.get(name) for name in ("score", *(layer.label for layer in held.observation.result.layers))]
    threshold = next((float(t) for t in named if isinstance(t, int | float)), min(values))
    return {
        "threshold": threshold,
        "start": max(0, min(100, math.floor(threshold * 100 + 1e-9))),
        "bars": [{"x": i * 5, "h": round(32 * n / top, 1), "y": round(34 - 32 * n / top, 1), "n": n} for i, n in enumerate(bins)],
        "n": len(values),
    }


@login_required
@require_GET
def observation_page(request: HttpRequest, observation_id: str) -> HttpResponse:
    return render(request, "runs/observation.html", _observation_context(request, observation_id))


@login_required
@require_GET
def observation_panel(request: HttpRequest, observation_id: str) -> HttpResponse:
    context = _observation_context(request, observation_id)
    if _unchanged(request, context["seq"], context["run"]):
        return HttpResponse(status=204)
    return render(request, "runs/observation_panel.html", context)


@login_required
@require_GET
def observation_thumbnail(request: HttpRequest, observation_id: str) -> HttpResponse:
    """The observation's scene with its mask or outlines, as a small PNG."""
    row, state = selectors.access_observation(person(request), observation_id)
    rgba = thumbnail.observation_thumbnail(state, state.observations[row.id], layers(row.run.project_id))
    response = HttpResponse(tiles.encode(rgba), content_type="image/png")
    response["Cache-Control"] = "private, max-age=3600"
    return response
