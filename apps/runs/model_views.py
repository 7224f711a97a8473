"""The page Models: the zoo with its cards, read-only."""

from __future__ import annotations

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.runs.model_cards import model_cards
from apps.tools.zoo import registry
from apps.tools.zoo.runtime import HOW_TO_SWITCH_ON, has_torch


@login_required
@require_GET
def models_page(request: HttpRequest) -> HttpResponse:
    """Every model at hand: for what it was made, how good it was, what it must not be used for; and those that can be added."""
    cards = model_cards()
    held = {c["card"].name for c in cards}
    known = [e for e in registry.read_zoo_file() if e.get("url") and e.get("name") not in held]
    # commands stand between backticks: every second part
    how = [] if has_torch() else HOW_TO_SWITCH_ON.split("`")
    context = {"cards": cards, "known": known, "how_to_switch_on": how}
    return render(request, "runs/models.html", context)
