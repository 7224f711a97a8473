"""Runs over JSON: ask, look, follow the events."""

from __future__ import annotations

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.selectors import access_project_by_id
from apps.core.errors import UserError
from apps.core.evidence.prompt import MAX_PROMPTS
from apps.imagery.selectors import scenes_for_ask, vectors_for_ask
from apps.runs import present, selectors, services
from apps.runs.landmarks import landmarks_from_geojson
from apps.runs.models import Run
from apps.runs.prompts import prompts_from_geojson

EVENTS_AT_ONCE = 500


class QuestionIn(serializers.Serializer[Any]):
    project = serializers.UUIDField()
    scenes = serializers.ListField(child=serializers.UUIDField(), max_length=400)
    vectors = serializers.ListField(
        child=serializers.UUIDField(), max_length=50, required=False, help_text="Vector files; absent: all of the project"
    )
    question = serializers.CharField(max_length=4000)
    region = serializers.DictField(required=False, allow_null=True, help_text="GeoJSON polygon, longitude and latitude")
    choices = serializers.DictField(child=serializers.CharField(max_length=500), required=False)
    landmarks = serializers.ListField(
        child=serializers.DictField(),
        min_length=1,
        max_length=2,
        required=False,
        help_text="Two marked places, A and B, as GeoJSON features or geometries: points, or polygons that are upright boxes "
        "(their middle is the place). One alone where the question gives coordinates for the other. Property precision: how "
        "exactly it was pointed at, in metres or pixels",
    )
    landmarks_crs = serializers.ChoiceField(
        choices=["EPSG:4326", "image"],
        required=False,
        help_text="EPSG:4326: longitude, latitude; image: column, row of the one scene. Absent: degrees where all scenes "
        "have a CRS",
    )
    prompts = serializers.ListField(
        child=serializers.DictField(),
        min_length=1,
        max_length=MAX_PROMPTS,
        required=False,
        help_text="Marks of what is to be segmented, as GeoJSON features or geometries: points, lines, and at most one polygon "
        "that is an upright box. Property inside: false for what does not belong to the thing",
    )
    prompts_crs = serializers.ChoiceField(
        choices=["EPSG:4326", "image"], required=False, help_text="As landmarks_crs, of the prompts"
    )


class RunOut(serializers.ModelSerializer[Run]):
    class Meta:
        model = Run
        fields = (
            "id",
            "project",
            "question_text",
            "status",
            "task_type",
            "answer_text",
            "is_abstained",
            "error_code",
            "last_seq",
            "created_at",
            "started_at",
            "ended_at",
        )


class RunList(APIView):
    """The newest runs; POST asks a question."""

    @extend_schema(responses=RunOut(many=True))
    def get(self, request: Request) -> Response:
        return Response(RunOut(selectors.run_list_for_user(request.user, limit=100), many=True).data)

    @extend_schema(request=QuestionIn, responses={201: RunOut})
    def post(self, request: Request) -> Response:
        from apps.runs.arguments import region_from_text

        asked = QuestionIn(data=request.data)
        asked.is_valid(raise_exception=True)
        data = asked.validated_data
        project = access_project_by_id(request.user, data["project"], "ask")
        import json

        region = region_from_text(json.dumps(data["region"])) if data.get("region") else None
        scenes = scenes_for_ask(request.user, project, [str(s) for s in data["scenes"]])
        landmarks = (
            landmarks_from_geojson(data["landmarks"], [s.scene_info for s in scenes], data.get("landmarks_crs", ""))
            if "landmarks" in data
            else ()
        )
        prompts = (
            prompts_from_geojson(data["prompts"], [s.scene_info for s in scenes], data.get("prompts_crs", ""))
            if "prompts" in data
            else ()
        )
        run = services.run_start(
            user=request.user,
            project=project,
            text=data["question"],
            region=region,
            scenes=scenes,
            landmarks=landmarks,
            prompts=prompts,
            choices=data.get("choices"),
            vectors=vectors_for_ask(request.user, project, [str(v) for v in data["vectors"]] if "vectors" in data else None),
        )
        return Response(RunOut(run).data, status=201)


class RunDetail(APIView):
    """One run whole: plan, observations with checks and decisions, answer, cost (as ``ask --json``)."""

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, run_id: Any) -> Response:
        run = selectors.access_run_by_id(request.user, run_id)
        return Response(RunOut(run).data | present.ask_json(selectors.run_state(run.pk)))


class RunEvents(APIView):
    """Events after a sequence number, in order; at most 500."""

    @extend_schema(parameters=[OpenApiParameter("after", int)], responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, run_id: Any) -> Response:
        run = selectors.access_run_by_id(request.user, run_id)
        try:
            after = int(request.query_params.get("after", 0))
        except ValueError:
            raise UserError(
                "BAD_ARGUMENT", "“after” is no number.", "It is the last sequence number that you have.", "Give a whole number."
            ) from None
        events = [
            {"seq": seq, "event": event.model_dump(mode="json")}
            for seq, event in selectors.run_events(run.pk, after=max(0, after), limit=EVENTS_AT_ONCE)
        ]
        return Response({"last_seq": run.last_seq, "events": events})
