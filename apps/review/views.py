"""Verdicts from pages: parse, one service, answer with a toast that can be undone."""

from __future__ import annotations

import json

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from apps.review import services
from apps.runs.views import person

WORDS = {"accept": "Right", "reject": "Wrong", "unsure": "Unsure"}


def _answer(request: HttpRequest, text: str, undo_url: str, observation_id: str) -> HttpResponse:
    if not request.headers.get("HX-Request"):
        return redirect("observation", observation_id=observation_id)
    toast = {"text": text} | ({"undo_url": undo_url} if undo_url else {})
    return HttpResponse(status=204, headers={"HX-Trigger": json.dumps({"toast": toast, "rsure:changed": {}})})


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
@require_POST
def verdict_undo(request: HttpRequest, verdict_id: str) -> HttpResponse:
    record = services.verdict_undo(user=person(request), verdict_id=verdict_id)
    return _answer(request, f"Undone: {WORDS[record.value]}. All is as before.", "", record.observation_id)


@login_required
@require_POST
def verdicts_undo(request: HttpRequest) -> HttpResponse:
    """Takes back what one click on many observations gave: ``?ids=…,…``."""
    done = services.verdicts_undo(user=person(request), verdict_ids=[i for i in request.GET.get("ids", "").split(",") if i])
    text = f"Undone: {len(done.records)} verdict{'' if len(done.records) == 1 else 's'}."
    if done.refused:
        text += f" {len(done.refused)} stand: {done.refused[0]}"
    if not request.headers.get("HX-Request"):
        return redirect("review_list")
    return HttpResponse(status=204, headers={"HX-Trigger": json.dumps({"toast": {"text": text}, "rsure:changed": {}})})


@login_required
@require_POST
def claim_take(request: HttpRequest, observation_id: str) -> HttpResponse:
    services.claim_take(user=person(request), observation_id=observation_id)
    return HttpResponse(status=204)
