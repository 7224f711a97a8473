"""Evidence that a person asks for: its list as a fragment, the asking and the withdrawing, and the same over JSON."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.selectors import can
from apps.core.evidence.events import EvidenceAsked
from apps.runs import evidence, selectors
from apps.runs.views import person, toast_answer


def _answered(request: HttpRequest, text: str, observation_id: str) -> HttpResponse:
    # no undo in the toast: it would outlive the request, which can be withdrawn on the page while it waits
    return toast_answer(request, reverse("observation", args=[observation_id]), text)


@login_required
@require_http_methods(["GET", "POST"])
def evidence_of(request: HttpRequest, observation_id: str) -> HttpResponse:
    """GET: what may be asked for, as a fragment. POST: asks for the one named by ``key``."""
    if request.method == "POST":
        asked = evidence.evidence_ask(
            user=person(request),
            observation_id=observation_id,
            key=request.POST.get("key", ""),
            note=request.POST.get("note", ""),
        )
        kind = asked.request.kind.replace("_", " ")
        return _answered(request, f"Asked for: {kind}. A worker takes it up.", observation_id)
    row, state = selectors.access_observation(person(request), observation_id)
    held = state.observations[row.pk]
    closed = evidence.evidence_closed(row.run, state, held)
    if not closed and not can(person(request), row.run.project, "ask"):
        closed = "Your role may look but not ask."
    choices = [] if closed else evidence.evidence_choices(row.run, state, held)
    reasons: dict[str, list[str]] = {}
    for choice in choices:
        if choice.why_not:
            reasons.setdefault(choice.why_not, []).append(choice.kind)
    parents = [state.observations[p].observation for p in held.observation.parents if p in state.observations]
    context = {
        "o": held.observation,
        "closed": closed,
        "offered": [c for c in choices if c.key],
        "refused": [{"kinds": kinds, "why": why} for why, kinds in reasons.items()],
        "parents": parents if held.observation.tool == "measure" else [],
        "most": evidence.most_asked(),
    }
    return render(request, "runs/evidence_choices.html", context)


@login_required
@require_POST
def evidence_withdraw(request: HttpRequest, observation_id: str, ask_id: str) -> HttpResponse:
    evidence.evidence_withdraw(user=person(request), observation_id=observation_id, ask_id=ask_id)
    return _answered(request, "Withdrawn. Nothing of it is recorded.", observation_id)


class EvidenceIn(serializers.Serializer[Any]):
    key = serializers.CharField(max_length=64, help_text="of one of the choices that GET lists")
    note = serializers.CharField(max_length=2000, required=False, default="", allow_blank=True)


class EvidenceChoiceOut(serializers.Serializer[Any]):
    kind = serializers.CharField()
    reason = serializers.CharField(help_text="what would be done")
    key = serializers.CharField(help_text="empty where it cannot be asked for")
    why_not = serializers.CharField()


class EvidenceAskedOut(serializers.Serializer[Any]):
    id = serializers.CharField()
    observation_id = serializers.CharField()
    kind = serializers.CharField(source="request.kind")
    note = serializers.CharField()
    author = serializers.CharField()
    at = serializers.DateTimeField()


class EvidenceOf(APIView):
    """Evidence on one observation: GET lists what may be asked for and why not the rest, POST asks for one of it."""

    @extend_schema(responses={200: EvidenceChoiceOut(many=True)})
    def get(self, request: Request, observation_id: str) -> Response:
        row, state = selectors.access_observation(request.user, observation_id)
        held = state.observations[row.pk]
        closed = evidence.evidence_closed(row.run, state, held)
        if closed:
            return Response([{"kind": "", "reason": "", "key": "", "why_not": closed}])
        return Response(EvidenceChoiceOut(evidence.evidence_choices(row.run, state, held), many=True).data)

    @extend_schema(request=EvidenceIn, responses={201: EvidenceAskedOut})
    def post(self, request: Request, observation_id: str) -> Response:
        selectors.access_observation(request.user, observation_id, "ask")  # others' are absent, whatever was sent
        given = EvidenceIn(data=request.data)
        given.is_valid(raise_exception=True)
        asked: EvidenceAsked = evidence.evidence_ask(user=request.user, observation_id=observation_id, **given.validated_data)
        return Response(EvidenceAskedOut(asked).data, status=201)


class EvidenceAskedDetail(APIView):
    """One request: DELETE takes it back while it is not answered."""

    @extend_schema(responses={200: EvidenceAskedOut})
    def delete(self, request: Request, observation_id: str, ask_id: str) -> Response:
        asked = evidence.evidence_withdraw(user=request.user, observation_id=observation_id, ask_id=ask_id)
        return Response(EvidenceAskedOut(asked).data)
