"""Verdicts over JSON."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.core.evidence.decision import VERDICT_REASONS
from apps.review import services
from apps.review.corrections import correctable
from apps.review.models import VerdictRecord
from apps.runs.assembly import layers
from apps.runs.selectors import access_observation


class VerdictIn(serializers.Serializer[Any]):
    value = serializers.ChoiceField(choices=list(services.VALUES))
    reason = serializers.ChoiceField(choices=[name for name, _ in VERDICT_REASONS], required=False, default="")
    note = serializers.CharField(max_length=2000, required=False, default="", allow_blank=True)


class CorrectionIn(serializers.Serializer[Any]):
    value = serializers.CharField(
        max_length=500, required=False, default="", allow_blank=True, help_text="of a figure, yes/no, class"
    )
    unit = serializers.CharField(max_length=40, required=False, default="", allow_blank=True)
    remove = serializers.ListField(
        child=serializers.CharField(max_length=40), required=False, default=list, max_length=200, help_text="keys of parts"
    )
    reason = serializers.ChoiceField(choices=[name for name, _ in VERDICT_REASONS], required=False, default="wrong_value")
    note = serializers.CharField(max_length=2000, required=False, default="", allow_blank=True)
    seen = serializers.CharField(
        max_length=64, required=False, allow_blank=True, help_text="the verdict that stood when you looked; empty: none did"
    )


class PartOut(serializers.Serializer[Any]):
    key = serializers.CharField()
    name = serializers.CharField()
    box = serializers.ListField(child=serializers.FloatField(), help_text="x0, y0, x1, y1 in pixels of the scene")


class CorrectableOut(serializers.Serializer[Any]):
    kind = serializers.CharField(help_text="count, number, boolean, class, text, date, parts; empty where why_not says why")
    why_not = serializers.CharField()
    value = serializers.CharField()
    units = serializers.ListField(child=serializers.CharField())
    choices = serializers.ListField(child=serializers.CharField())
    parts = PartOut(many=True)
    n_parts = serializers.IntegerField()


class VerdictOut(serializers.ModelSerializer[VerdictRecord]):
    author = serializers.CharField(source="author.get_username", default=None)

    class Meta:
        model = VerdictRecord
        fields = ("id", "observation", "author", "value", "reason", "note", "corrected_id", "given_at", "undone_at")


class Verdicts(APIView):
    """Verdicts on one observation."""

    @extend_schema(request=VerdictIn, responses={201: VerdictOut})
    def post(self, request: Request, observation_id: str) -> Response:
        asked = VerdictIn(data=request.data)
        asked.is_valid(raise_exception=True)
        record = services.verdict_give(user=request.user, observation_id=observation_id, **asked.validated_data)
        return Response(VerdictOut(record).data, status=201)


class Corrections(APIView):
    """A person's own value: GET says what can be changed of an observation, POST gives what it should be; undone as a verdict."""

    @extend_schema(responses={200: CorrectableOut})
    def get(self, request: Request, observation_id: str) -> Response:
        row, state = access_observation(request.user, observation_id)
        return Response(CorrectableOut(correctable(state, state.observations[row.pk], layers(row.run.project_id))).data)

    @extend_schema(request=CorrectionIn, responses={201: VerdictOut})
    def post(self, request: Request, observation_id: str) -> Response:
        access_observation(request.user, observation_id, "verdict")  # others' are absent, whatever was sent
        asked = CorrectionIn(data=request.data)
        asked.is_valid(raise_exception=True)
        record = services.correction_give(user=request.user, observation_id=observation_id, **asked.validated_data)
        return Response(VerdictOut(record).data, status=201)


class VerdictDetail(APIView):
    """One verdict: DELETE takes it back by compensating events; the log keeps both."""

    @extend_schema(responses={200: VerdictOut})
    def delete(self, request: Request, verdict_id: str) -> Response:
        return Response(VerdictOut(services.verdict_undo(user=request.user, verdict_id=verdict_id)).data)


class VerdictRedo(APIView):
    """POST gives an undone verdict again, while no newer one was given."""

    @extend_schema(request=None, responses={201: VerdictOut})
    def post(self, request: Request, verdict_id: str) -> Response:
        return Response(VerdictOut(services.verdict_redo(user=request.user, verdict_id=verdict_id)).data, status=201)
