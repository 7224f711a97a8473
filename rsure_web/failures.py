"""A UserError raised anywhere in a view becomes an answer with its code, what, why and what to do.

htmx gets the fragment, an API client JSON, everybody else a page; all with the error's own status and an id
that is in the log as well. Other exceptions are ours: Django's 500, with the same id.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import render

from apps.core.errors import UserError
from apps.core.ids import new_id

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

    def process_exception(self, request: HttpRequest, exception: Exception) -> HttpResponse | None:
        return answer_of(request, exception) if isinstance(exception, UserError) else None
