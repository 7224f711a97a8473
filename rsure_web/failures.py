"""A UserError raised anywhere in a view becomes an answer with its code, what, why and what to do.

Text with a NUL character is refused before a view sees it: no database keeps it. htmx gets the fragment, an API
client JSON, everybody else a page; all with the error's own status and an id that is in the log as well. Other
exceptions are ours: 500, in the same three forms and with an id as well.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.core.exceptions import RequestDataTooBig, TooManyFieldsSent, TooManyFilesSent
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render
from django.template.loader import render_to_string
from rest_framework.exceptions import ValidationError
from rest_framework.parsers import JSONParser
from rest_framework.response import Response

from apps.core.errors import UserError
from apps.core.ids import new_id
from rsure_web.presentation import chosen_theme

log = logging.getLogger(__name__)

GetResponse = Callable[[HttpRequest], HttpResponseBase | Awaitable[HttpResponseBase]]


def wants_json(request: HttpRequest) -> bool:
    accept = request.headers.get("Accept", "")
    return request.path.startswith("/api/") or ("application/json" in accept and "text/html" not in accept)


def answer_of(request: HttpRequest, error: UserError) -> HttpResponse:
    """The answer that tells a UserError, in the form the client reads."""
    error_id = new_id()
    log.info("user error", extra={"code": error.code, "error_id": error_id, "path": request.path, "what": error.what})
    if wants_json(request):
        return JsonResponse({"error": {**error.as_json(), "id": error_id}}, status=error.status)
    is_fragment = request.headers.get("HX-Request") == "true"
    return render(
        request,
        "components/error.html" if is_fragment else "error.html",
        {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix, "error_id": error_id},
        status=error.status,
    )


def server_fault(request: HttpRequest) -> HttpResponse:
    """The answer to an exception that is ours. It asks the database nothing: that may be what failed."""
    error_id = new_id()
    log.error("fault", extra={"error_id": error_id, "path": request.path})
    told = {
        "code": "FAULT",
        "what": "The server could not finish this.",
        "why": "It is a fault of ours and is logged; nothing you entered was changed half-way.",
        "fix": "Send it once more. If it happens again, tell the administrator the id.",
    }
    if wants_json(request):
        return JsonResponse({"error": {**told, "id": error_id}}, status=500)
    is_fragment = request.headers.get("HX-Request") == "true"
    context = {**told, "error_id": error_id, "theme": chosen_theme(request)}
    return HttpResponse(render_to_string("components/error.html" if is_fragment else "500.html", context), status=500)


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """The answer to a request that Django refuses before a view sees it: a body or a form that is too large, a forged address."""
    if isinstance(exception, RequestDataTooBig):
        most = f"{settings.DATA_UPLOAD_MAX_MEMORY_SIZE / 2**20:.0f} MiB"
        error = UserError(
            "TOO_LARGE", "What was sent is too large.", f"A form or a request holds at most {most}.",
            "Send less at once. Files go over the page Imagery, in parts.", status=413,
        )  # fmt: skip
    elif isinstance(exception, TooManyFieldsSent | TooManyFilesSent):
        error = UserError(
            "TOO_LARGE", "What was sent has too many fields.",
            f"A form holds at most {settings.DATA_UPLOAD_MAX_NUMBER_FIELDS:,} fields and "
            f"{settings.DATA_UPLOAD_MAX_NUMBER_FILES:,} files.", "Send less at once.", status=413,
        )  # fmt: skip
    else:
        error = UserError(
            "BAD_ARGUMENT", "The request cannot be answered.", "It is not what a browser or a client of the API sends.",
            "Open the page anew and send it again.",
        )  # fmt: skip
    return answer_of(request, error)


def _fields_told(detail: Any, name: str = "") -> list[str]:
    """The faults of a request body, one "field: fault" each; a fault inside of a field is named by its path."""
    if isinstance(detail, Mapping):
        parts = [(f"{name}.{key}" if name else str(key), value) for key, value in detail.items()]
        return [told for path, value in parts for told in _fields_told(value, path)]
    if isinstance(detail, list | tuple):
        return [told for value in detail for told in _fields_told(value, name)]
    return [f"{name}: {detail}" if name else str(detail)]


def api_failure(exception: Exception, context: dict[str, Any]) -> Response | None:
    """REST framework's handler, but fields of a body that are wrong are told as every other UserError is.

    ``detail.fields`` holds the framework's own object: a list of faults by field.
    """
    # Its module reads the parsers' setting as it is loaded, and that names a class of this one.
    from rest_framework.views import exception_handler

    if not isinstance(exception, ValidationError):
        return exception_handler(exception, context)
    error = UserError(
        "BAD_ARGUMENT",
        "The request cannot be used as it is.",
        " ".join(_fields_told(exception.detail)[:20]),
        "Correct these fields and send it again.",
        detail={"fields": exception.detail},
    )
    error_id = new_id()
    log.info("user error", extra={"code": error.code, "error_id": error_id, "path": context["request"].path, "what": error.what})
    return Response({"error": {**error.as_json(), "id": error_id}}, status=error.status)


FORM_TYPES = frozenset({"application/x-www-form-urlencoded", "multipart/form-data"})


def no_nul(*values: Any) -> None:
    """UserError BAD_ARGUMENT where a text in the values, however nested, holds a NUL character."""
    todo = list(values)
    while todo:
        at = todo.pop()
        if isinstance(at, str) and "\x00" in at:
            raise UserError(
                "BAD_ARGUMENT", "A text cannot be kept.", "It holds a NUL character.", "Take it out and send the text again."
            )
        if isinstance(at, Mapping):
            todo += [*at.keys(), *at.values()]
        elif isinstance(at, list | tuple):
            todo += at


class StrictJsonParser(JSONParser):
    """JSON bodies of the API. UserError BAD_ARGUMENT for what is nested too deeply or holds a NUL character."""

    def parse(self, stream: Any, media_type: Any = None, parser_context: Any = None) -> Any:
        try:
            value = super().parse(stream, media_type, parser_context)
        except RecursionError:
            raise UserError(
                "BAD_ARGUMENT", "The body cannot be read.", "It is nested too deeply.", "Send what the API's description says."
            ) from None
        no_nul(value)
        return value


class UserErrorMiddleware:
    """Turns UserError into its answer; leaves every other exception alone."""

    sync_capable = True
    async_capable = True

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response
        if iscoroutinefunction(get_response):
            markcoroutinefunction(self)

    def __call__(self, request: HttpRequest) -> HttpResponseBase | Awaitable[HttpResponseBase]:
        return self.get_response(request)

    def process_view(self, request: HttpRequest, view: Any, args: Any, kwargs: dict[str, Any]) -> HttpResponse | None:
        try:
            no_nul(kwargs, dict(request.GET.lists()))
            if request.content_type in FORM_TYPES:
                no_nul(dict(request.POST.lists()))
        except UserError as error:
            return answer_of(request, error)
        return None

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return answer_of(request, exception) if isinstance(exception, UserError) else None
