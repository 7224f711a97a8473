"""The report of a run: as a page, and as files, over the web and over the API."""

from __future__ import annotations

import time
from typing import Any

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_http_methods
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from apps.artifacts.blobs import blob_path
from apps.core.evidence.fold import RunState
from apps.runs import selectors
from apps.runs.assembly import layers
from apps.runs.mapview import map_config
from apps.runs.models import ReportFile, Run
from apps.runs.report import ReportForm, report_bytes, report_form, report_forms
from apps.runs.report_files import report_file_ask, report_file_by_id, report_file_error, report_name
from apps.runs.report_page import report_context
from apps.runs.views import person

# So long an API client that did not ask to be answered at once waits for its file.
WAIT_S = 60.0
_LOOK_EACH_S = 0.25


def _download(data: bytes, form: ReportForm, run: Run, digest: str = "") -> HttpResponse:
    """A form as a download. Its name is of the run alone: nothing that a file or a question says gets into it."""
    response = HttpResponse(data, content_type=form.media_type)
    response["Content-Disposition"] = f'attachment; filename="{report_name(run, form)}"'
    response["Cache-Control"] = "private, no-store"
    if digest:
        response["ETag"] = f'"{digest}"'
    return response


def _made(file: ReportFile, form: ReportForm, run: Run) -> HttpResponse:
    return _download(blob_path(str(file.artifact_id)).read_bytes(), form, run, str(file.artifact_id))


@login_required
@require_GET
def run_report(request: HttpRequest, run_id: Any) -> HttpResponse:
    """The run as a page, or as a file: ``?as=pdf|csv|geojson|gpkg|coco|json|provenance``. The PDF is made by a worker: until it
    is there, the address leads to the page that tells of it."""
    run = selectors.access_run_by_id(person(request), run_id)
    kind = request.GET.get("as", "html")
    state = selectors.run_state_shown(run)
    if kind == "html":
        return render(request, "runs/report.html", report_context(person(request), run, state) | {"config": map_config(state)})
    form = report_form(state, kind)
    if form.kind != "pdf":
        return _download(report_bytes(state, form.kind, layers(run.project_id)), form, run)
    file = report_file_ask(run, state)
    return _made(file, form, run) if file.status == ReportFile.Status.READY else redirect(_address(file))


def _address(file: ReportFile) -> str:
    return reverse("run_report_file", args=[file.run_id, file.pk])


@login_required
@require_http_methods(["GET", "POST"])
def run_report_file(request: HttpRequest, run_id: Any, file_id: Any) -> HttpResponse:
    """How a file of the report stands, as a page that asks again by itself; POST has a failed one made again."""
    run = selectors.access_run_by_id(person(request), run_id)
    file = report_file_by_id(run, file_id)
    if request.method == "POST":
        return redirect(_address(report_file_ask(run, selectors.run_state_shown(run), again=True)))
    if file.is_over and request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": request.path})
    context = {"run": run, "file": file, "error": report_file_error(file)}
    return render(request, "runs/report_file.html", context, status=200 if file.is_over else 202)


class _AnyFile(BaseRenderer):
    """Lets a client ask for any type: the form decides which one comes."""

    media_type, format, charset = "*/*", "file", None

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return bytes(JSONRenderer().render(data, accepted_media_type, renderer_context))


_NO_FORMAT = OpenApiParameter("format", exclude=True)
_WAITS: dict[Any, Any] = {202: OpenApiTypes.OBJECT}


def _told(file: ReportFile, run: Run, state: RunState) -> HttpResponse:
    """The file; 202 with the place to ask at while it is being made; its UserError where it failed."""
    error = report_file_error(file)
    if error is not None:
        raise error
    if file.status == ReportFile.Status.READY:
        return _made(file, report_form(state, file.kind), run)
    place = reverse("api_run_report_file", args=[run.pk, file.pk])
    held = {"id": str(file.pk), "status": file.status, "events": file.seq, "url": place}
    told: HttpResponse = Response(held, status=202, headers={"Location": place, "Retry-After": "2"})
    return told


class RunReport(APIView):
    """The run as a file, in the forms of its report page. The PDF is made by a worker: the answer waits for it up to a minute,
    or not at all with ``Prefer: respond-async``; then it is 202 with the place to ask at."""

    renderer_classes = (JSONRenderer, _AnyFile)

    @extend_schema(
        parameters=[
            OpenApiParameter("as", str, required=True, enum=[f.kind for f in report_forms(RunState())]),
            OpenApiParameter("Prefer", str, OpenApiParameter.HEADER, description="respond-async: do not wait for the PDF"),
            _NO_FORMAT,
        ],
        responses={(200, f.media_type.split(";")[0]): OpenApiTypes.BINARY for f in report_forms(RunState())} | _WAITS,
    )
    def get(self, request: Request, run_id: Any) -> HttpResponse:
        run = selectors.access_run_by_id(request.user, run_id)
        state = selectors.run_state_shown(run)
        form = report_form(state, str(request.query_params.get("as", "")))
        if form.kind != "pdf":
            return _download(report_bytes(state, form.kind, layers(run.project_id)), form, run)
        file = report_file_ask(run, state)
        wished = [part.strip().lower() for part in request.headers.get("Prefer", "").split(",")]
        until = time.monotonic() + (0 if "respond-async" in wished else WAIT_S)
        while not file.is_over and time.monotonic() < until:
            time.sleep(_LOOK_EACH_S)
            file = report_file_by_id(run, file.pk)
        return _told(file, run, state)


class RunReportFile(APIView):
    """A file of the report that was asked for: 202 while it is being made, then the file."""

    renderer_classes = (JSONRenderer, _AnyFile)

    @extend_schema(parameters=[_NO_FORMAT], responses={(200, "application/pdf"): OpenApiTypes.BINARY} | _WAITS)
    def get(self, request: Request, run_id: Any, file_id: Any) -> HttpResponse:
        run = selectors.access_run_by_id(request.user, run_id)
        return _told(report_file_by_id(run, file_id), run, selectors.run_state_shown(run))
