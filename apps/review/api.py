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
from apps.review.models import VerdictRecord


class VerdictIn(serializers.Serializer[Any]):
    value = serializers.ChoiceField(choices=list(services.VALUES))
    reason = serializers.ChoiceField(choices=[name for name, _ in VERDICT_REASONS], required=False, default="")
    note = serializers.CharField(max_length=2000, required=False, default="", allow_blank=True)


class VerdictOut(serializers.ModelSerializer[VerdictRecord]):
    author = serializers.CharField(source="author.get_username", default=None)

    class Meta:
        model = VerdictRecord
        fields = ("id", "observation", "author", "value", "reason", "note", "given_at", "undone_at")


class Verdicts(APIView):
    """Verdicts on one observation."""

    @extend_schema(request=VerdictIn, responses={201: VerdictOut})
    def post(self, request: Request, observation_id: str) -> Response:
        asked = VerdictIn(data=request.data)
        asked.is_valid(raise_exception=True)
        record = services.verdict_give(user=request.user, observation_id=observation_id, **asked.validated_data)
        return Response(VerdictOut(record).data, status=201)


class VerdictDetail(APIView):
    """One verdict: DELETE takes it back by compensating events; the log keeps both."""

    @extend_schema(responses={200: VerdictOut})
    def delete(self, request: Request, verdict_id: str) -> Response:
        return Response(VerdictOut(services.verdict_undo(user=request.user, verdict_id=verdict_id)).data)
