"""Verdicts from pages: parse, one service, answer with a toast that can be undone."""

from __future__ import annotations

from collections.abc import Iterable

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.selectors import can
from apps.core.evidence.decision import VERDICT_REASONS
from apps.review import services
from apps.review.corrections import correctable
from apps.review.models import VerdictRecord
from apps.runs.assembly import layers
from apps.runs.headline import headline
from apps.runs.selectors import access_observation, run_state
from apps.runs.views import person, toast_answer

WORDS = {"accept": "Right", "reject": "Wrong", "unsure": "Unsure"}


def _answer(request: HttpRequest, text: str, undo_url: str, observation_id: str, *, redo_url: str = "") -> HttpResponse:
    return toast_answer(request, reverse("observation", args=[observation_id]), text, undo_url=undo_url, redo_url=redo_url)


def _many(words: tuple[str, str], done: services.BulkResult) -> str:
    """What became of verdicts on many observations; ``words``: of those that were reached, and of the others."""
    n = len(done.records)
    text = f"{words[0]}: {n} verdict{'' if n == 1 else 's'}."
    return f"{text} {len(done.refused)} {words[1]}: {done.refused[0]}" if done.refused else text


def _address(name: str, records: Iterable[VerdictRecord]) -> str:
    """The address that acts on all of them; empty for none."""
    ids = ",".join(str(record.pk) for record in records)
    return f"{reverse(name)}?ids={ids}" if ids else ""


def _ids(request: HttpRequest) -> list[str]:
    return [i for i in request.GET.get("ids", "").split(",") if i]


@login_required
@require_POST
def verdict_give(request: HttpRequest, observation_id: str) -> HttpResponse:
    record = services.verdict_give(
        user=person(request),
        observation_id=observation_id,
        value=request.POST.get("value", ""),
        reason=request.POST.get("reason", ""),
        note=request.POST.get("note", ""),
        is_blind=request.POST.get("blind") == "1",
    )
    return _answer(
        request,
        f"Recorded: {WORDS[record.value]}. The run is answered again.",
        reverse("verdict_undo", args=[record.pk]),
        observation_id,
    )


@login_required
@require_http_methods(["GET", "POST"])
def correction_of(request: HttpRequest, observation_id: str) -> HttpResponse:
    """GET: what may be changed of the observation, as a form. POST: the person's value, or the parts that are none."""
    if request.method == "POST":
        record = services.correction_give(
            user=person(request),
            observation_id=observation_id,
            reason=request.POST.get("reason", ""),
            value=request.POST.get("value", ""),
            unit=request.POST.get("unit", ""),
            remove=request.POST.getlist("remove"),
            note=request.POST.get("note", ""),
            seen=request.POST.get("seen"),
        )
        state = run_state(record.observation.run_id)
        first, mine = (headline(state.observations[i].observation)[0] for i in (record.observation_id, record.corrected_id))
        text = f"Recorded: {first} → {mine}. The run is answered again."
        return _answer(request, text, reverse("verdict_undo", args=[record.pk]), observation_id)
    row, state = access_observation(person(request), observation_id)
    held = state.observations[row.pk]
    found = correctable(state, held, layers(row.run.project_id))
    parents = [state.observations[p].observation for p in held.observation.parents if p in state.observations]
    context = {
        "o": held.observation,
        "can": found,
        "seen": held.verdict.id if held.verdict else "",
        "may": can(person(request), row.run.project, "verdict"),
        "reasons": VERDICT_REASONS,
        "reason": "wrong_place" if found.kind == "parts" else "wrong_value",
        "parents": [p for p in parents if p.result.layers],
        "mark": f"{max(found.size_px) / 28:.1f}",
    }
    return render(request, "review/correction.html", context)


@login_required
@require_POST
def verdict_undo(request: HttpRequest, verdict_id: str) -> HttpResponse:
    record = services.verdict_undo(user=person(request), verdict_id=verdict_id)
    return _answer(
        request,
        f"Undone: {WORDS[record.value]}. All is as before.",
        "",
        record.observation_id,
        # what was another's is not given again by who took it back
        redo_url=reverse("verdict_redo", args=[record.pk]) if record.author_id == person(request).pk else "",
    )


@login_required
@require_POST
def verdict_redo(request: HttpRequest, verdict_id: str) -> HttpResponse:
    record = services.verdict_redo(user=person(request), verdict_id=verdict_id)
    return _answer(
        request,
        f"Given again: {WORDS[record.value]}. The run is answered again.",
        reverse("verdict_undo", args=[record.pk]),
        record.observation_id,
    )


@login_required
@require_POST
def verdicts_undo(request: HttpRequest) -> HttpResponse:
    """Takes back what one click on many observations gave: ``?ids=…,…``."""
    user = person(request)
    done = services.verdicts_undo(user=user, verdict_ids=_ids(request))
    mine = [record for record in done.records if record.author_id == user.pk]
    text = _many(("Undone", "stand"), done)
    return toast_answer(request, reverse("review_list"), text, redo_url=_address("verdicts_redo", mine))


@login_required
@require_POST
def verdicts_redo(request: HttpRequest) -> HttpResponse:
    """Gives again what ``verdicts_undo`` took back: ``?ids=…,…``."""
    done = services.verdicts_redo(user=person(request), verdict_ids=_ids(request))
    text = _many(("Given again", "stay taken back"), done)
    return toast_answer(request, reverse("review_list"), text, undo_url=_address("verdicts_undo", done.records))


@login_required
@require_POST
def claim_take(request: HttpRequest, observation_id: str) -> HttpResponse:
    services.claim_take(user=person(request), observation_id=observation_id)
    return HttpResponse(status=204)
