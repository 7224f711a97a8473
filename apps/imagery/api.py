"""Imagery over JSON, and resumable uploads (tus 1.0.0: core, creation, termination; https://tus.io/protocols/resumable-upload).

An upload is its creator's alone. ``Upload-Metadata`` carries ``filename``, ``project`` (id) and, where the client knows it,
``sha256`` (``sha256:<hex>``), base64 each.
"""

from __future__ import annotations

import base64
import binascii
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.negotiation import BaseContentNegotiation
from rest_framework.parsers import MultiPartParser
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.accounts.models import Project
from apps.accounts.selectors import access_project_by_id
from apps.core.errors import UserError
from apps.imagery import presentation, services
from apps.imagery.models import Scene, Upload, VectorLayer
from apps.imagery.selectors import (
    scene_get_for_user,
    scene_list_for_user,
    upload_get_for_user,
    vector_get_for_user,
    vector_list_for_user,
)
from apps.imagery.vector_layers import accuracy_from_text, vector_add_now, vector_declare, vector_delete
from apps.imagery.vectors import MAX_FILE_BYTES

TUS_VERSION = "1.0.0"
CHUNK_TYPE = "application/offset+octet-stream"


class SceneOut(serializers.ModelSerializer[Scene]):
    tiles = serializers.SerializerMethodField()

    class Meta:
        model = Scene
        fields = ("id", "project", "name", "status", "acquired_at", "created_at", "confirmed_at", "info", "findings",
                  "statistics", "sources", "error", "tiles")  # fmt: skip

    def get_tiles(self, scene: Scene) -> str | None:
        return presentation.tile_template(scene, scene.scene_info) if scene.is_ready else None


class SceneRow(serializers.ModelSerializer[Scene]):
    class Meta:
        model = Scene
        fields = ("id", "project", "name", "status", "acquired_at", "created_at", "confirmed_at")


def _narrowed(rows: QuerySet[Any], request: Request) -> QuerySet[Any]:
    """The first 500 rows, of one project where ``?project=`` names it."""
    if request.query_params.get("project"):
        rows = rows.filter(project=access_project_by_id(request.user, request.query_params["project"]))
    return rows[:500]


class SceneList(APIView):
    """The scenes that the user may see, newest first; ``?project=`` narrows."""

    @extend_schema(parameters=[OpenApiParameter("project", OpenApiTypes.UUID)], responses=SceneRow(many=True))
    def get(self, request: Request) -> Response:
        return Response(SceneRow(_narrowed(scene_list_for_user(request.user), request), many=True).data)


class SceneDetail(APIView):
    """One scene; PATCH takes what a person says of it (fields of SceneHints, null takes back)."""

    @extend_schema(responses=SceneOut)
    def get(self, request: Request, scene_id: str) -> Response:
        return Response(SceneOut(scene_get_for_user(request.user, scene_id)).data)

    @extend_schema(request=OpenApiTypes.OBJECT, responses=SceneOut)
    def patch(self, request: Request, scene_id: str) -> Response:
        scene = scene_get_for_user(request.user, scene_id, "ingest")
        if scene.project.is_sample and not request.user.is_staff:
            raise UserError("FORBIDDEN", "The sample's imagery stays as it is.", "Everybody's answers rest on it.",
                            "Add the file to a project of your own.", status=403)  # fmt: skip
        if not isinstance(request.data, dict):
            raise UserError("BAD_ARGUMENT", "Nothing was said.", "The body is no JSON object.", 'Send {"gsd_m": 0.1}.')
        return Response(SceneOut(services.scene_update(scene=scene, user=request.user, changes=dict(request.data))).data)


class SceneMap(APIView):
    """The scene as a layer of the map island: tiles, bounds, zoom, grid."""

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, scene_id: str) -> Response:
        scene = scene_get_for_user(request.user, scene_id)
        if not scene.is_ready:
            raise UserError("CONFLICT", f"“{scene.name}” has no map yet.", f"It is {scene.status}.", "Wait for it.", status=409)
        return Response(presentation.map_layer(scene))


class VectorOut(serializers.ModelSerializer[VectorLayer]):
    """``info.artifact`` names the features to measure (extent) and to vector.zones."""

    class Meta:
        model = VectorLayer
        fields = ("id", "project", "name", "status", "crs_source", "layer", "info", "error", "created_at")


def _refuse_for_sample(project: Project, user: Any) -> None:
    if project.is_sample and not user.is_staff:
        raise UserError("FORBIDDEN", "The sample takes no other imagery.", "Everybody uses it.",
                        "Start a project of your own.", status=403)  # fmt: skip


class VectorList(APIView):
    """The vector files that the user may see, newest first (``?project=`` narrows). POST keeps one (GeoJSON, GPKG, zipped
    Shapefile, KML, CSV with coordinates) in a project: form fields ``project``, ``file`` and, where the file does not tell,
    ``crs``, ``layer`` and ``accuracy_m`` (by how many metres its points may lie off). What is answered as ``vector`` names it to
    measure (extent) and to vector.zones."""

    parser_classes = [MultiPartParser]

    @extend_schema(parameters=[OpenApiParameter("project", OpenApiTypes.UUID)], responses=VectorOut(many=True))
    def get(self, request: Request) -> Response:
        return Response(VectorOut(_narrowed(vector_list_for_user(request.user), request), many=True).data)

    @extend_schema(request=OpenApiTypes.OBJECT, responses=OpenApiTypes.OBJECT)
    def post(self, request: Request) -> Response:
        project = access_project_by_id(request.user, str(request.data.get("project", "")), "ingest")
        _refuse_for_sample(project, request.user)
        sent = request.FILES.get("file")
        if sent is None:
            raise UserError("BAD_ARGUMENT", "No file was sent.", "The form has no field “file”.", "Send the file as “file”.")
        if sent.size > MAX_FILE_BYTES:
            raise UserError("TOO_LARGE", f"“{sent.name}” is too large.", f"The limit is {MAX_FILE_BYTES:,} bytes.",
                            "Cut it to the area in question.", status=413)  # fmt: skip
        with tempfile.NamedTemporaryFile(prefix="rsure-vector-") as held:
            for chunk in sent.chunks():
                held.write(chunk)
            held.flush()
            accuracy_m = accuracy_from_text(str(request.data.get("accuracy_m") or ""))
            kept = vector_add_now(
                project=project, path=Path(held.name), name=services.clean_name(str(sent.name)), user=request.user,
                accuracy_m=accuracy_m,
                crs=str(request.data.get("crs") or ""), layer=str(request.data.get("layer") or ""))  # fmt: skip
        info = kept.vector_info
        told = info.model_dump(mode="json") | {"crs_source": kept.crs_source, "layer": kept.layer}
        return Response({"id": str(kept.pk), "vector": info.artifact, **told}, status=201)


class VectorDetail(APIView):
    """One vector file: what it holds; PATCH says its ``accuracy_m`` (null takes it back); DELETE takes it out of the project."""

    @extend_schema(responses=VectorOut)
    def get(self, request: Request, vector_id: str) -> Response:
        return Response(VectorOut(vector_get_for_user(request.user, vector_id)).data)

    @extend_schema(request=OpenApiTypes.OBJECT, responses=VectorOut)
    def patch(self, request: Request, vector_id: str) -> Response:
        vector = vector_get_for_user(request.user, vector_id, "ingest")
        _refuse_for_sample(vector.project, request.user)
        if not isinstance(request.data, Mapping) or set(request.data) != {"accuracy_m"}:
            raise UserError("BAD_ARGUMENT", "Only accuracy_m can be said.", "The request names other fields, or none.",
                            "Send {\"accuracy_m\": 5}, or null.")  # fmt: skip
        said = request.data["accuracy_m"]
        return Response(VectorOut(vector_declare(
            vector=vector, accuracy_m=accuracy_from_text("" if said is None else str(said)))).data)  # fmt: skip

    @extend_schema(responses={204: None})
    def delete(self, request: Request, vector_id: str) -> Response:
        vector = vector_get_for_user(request.user, vector_id, "ingest")
        _refuse_for_sample(vector.project, request.user)
        vector_delete(vector=vector)
        return Response(status=204)


class _AnyType(BaseContentNegotiation):
    """tus requests carry bytes and want headers: what they accept does not matter."""

    def select_parser(self, request: Request, parsers: Any) -> Any:
        return None

    def select_renderer(self, request: Request, renderers: Any, format_suffix: str | None = None) -> Any:
        return JSONRenderer(), "application/json"


def _metadata(text: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in text.split(","):
        key, _, value = part.strip().partition(" ")
        try:
            found[key] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise UserError("BAD_ARGUMENT", "The upload's metadata cannot be read.", f"{key[:40]} is not base64 of UTF-8.",
                            "Send filename and project as tus clients do.") from None  # fmt: skip
    return found


def _whole(text: str | None, name: str) -> int:
    if text is None or not text.isascii() or not text.isdigit() or len(text) > 15:
        raise UserError("BAD_ARGUMENT", f"{name} is missing or no number.", "It must be a whole number of bytes.", "Send it.")
    return int(text)


class _Tus(APIView):
    content_negotiation_class = _AnyType
    parser_classes = ()

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        if request.method != "OPTIONS" and request.headers.get("Tus-Resumable") != TUS_VERSION:
            raise UserError("BAD_ARGUMENT", "This is no tus 1.0.0 request.", "Tus-Resumable is missing or another version.",
                            "Use a tus client.", status=412)  # fmt: skip

    def finalize_response(self, request: Request, response: Any, *args: Any, **kwargs: Any) -> Any:
        answer = super().finalize_response(request, response, *args, **kwargs)
        answer["Tus-Resumable"], answer["Cache-Control"] = TUS_VERSION, "no-store"
        return answer


def _place(upload: Upload) -> dict[str, str]:
    headers = {"Upload-Offset": str(upload.offset_bytes), "Upload-Length": str(upload.size_bytes)}
    made = {"X-Scene": upload.scene_id, "X-Vector": upload.vector_id}
    return headers | {name: str(key) for name, key in made.items() if key}


class UploadList(_Tus):
    """Starts an upload."""

    @extend_schema(responses={204: None})
    def options(self, request: Request, *args: Any, **kwargs: Any) -> Response:
        from django.conf import settings

        return Response(status=204, headers={
            "Tus-Version": TUS_VERSION, "Tus-Extension": "creation,termination", "Tus-Max-Size": str(settings.UPLOAD_MAX_BYTES),
        })  # fmt: skip

    @extend_schema(request=None, responses={201: None})
    def post(self, request: Request) -> Response:
        told = _metadata(request.headers.get("Upload-Metadata", ""))
        project = access_project_by_id(request.user, told.get("project", ""), "ingest")
        _refuse_for_sample(project, request.user)
        upload = services.upload_start(
            user=request.user, project=project, name=told.get("filename", ""), sha256=told.get("sha256", ""),
            fingerprint=told.get("fingerprint", ""), size_bytes=_whole(request.headers.get("Upload-Length"), "Upload-Length"),
        )  # fmt: skip
        return Response(status=201, headers=_place(upload) | {"Location": reverse("api_upload", args=[upload.pk])})


class UploadDetail(_Tus):
    """One upload: where it stands, the next part, or its end."""

    @extend_schema(responses={200: None})
    def head(self, request: Request, upload_id: str) -> Response:
        return Response(status=200, headers=_place(upload_get_for_user(request.user, upload_id)))

    @extend_schema(request=OpenApiTypes.BINARY, responses={204: None})
    def patch(self, request: Request, upload_id: str) -> Response:
        upload = upload_get_for_user(request.user, upload_id)
        length = _whole(request.headers.get("Content-Length") or "0", "Content-Length")
        if length and request.content_type != CHUNK_TYPE:
            raise UserError(
                "BAD_ARGUMENT", "The part has the wrong type.", f"It must be {CHUNK_TYPE}.", "Use a tus client.", status=415
            )
        upload = services.upload_append(
            upload=upload, offset=_whole(request.headers.get("Upload-Offset"), "Upload-Offset"),
            length=length, chunk=request._request,
        )  # fmt: skip
        return Response(status=204, headers=_place(upload))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, upload_id: str) -> Response:
        services.upload_cancel(upload=upload_get_for_user(request.user, upload_id))
        return Response(status=204)
