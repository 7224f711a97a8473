"""Content-Security-Policy with a nonce a request: no script runs that we did not write."""

import secrets
from collections.abc import Awaitable, Callable

from asgiref.sync import iscoroutinefunction, markcoroutinefunction
from django.conf import settings
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.decorators import sync_and_async_middleware

GetResponse = Callable[[HttpRequest], HttpResponseBase] | Callable[[HttpRequest], Awaitable[HttpResponseBase]]


def policy(nonce: str) -> str:
    """The header's value. Style attributes are allowed, style and script elements only with the nonce."""
    directives = {
        "default-src": "'self'",
        "script-src": f"'self' 'nonce-{nonce}'",
        "style-src": f"'self' 'nonce-{nonce}'",
        "style-src-attr": "'unsafe-inline'",
        "img-src": "'self' data: blob:",
        "font-src": "'self' data:",
        "connect-src": "'self'",
        "worker-src": "'self' blob:",
        "object-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'self'",
        "frame-ancestors": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in directives.items())


def nonce_of(request: HttpRequest) -> str:
    """The nonce of this request, made on first use."""
    nonce: str | None = getattr(request, "csp_nonce", None)
    if nonce is None:
        nonce = secrets.token_urlsafe(18)
        request.csp_nonce = nonce  # type: ignore[attr-defined]
    return nonce


def _finish(request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
    response.headers.setdefault("Content-Security-Policy", policy(nonce_of(request)))
    response.headers.setdefault("Permissions-Policy", settings.PERMISSIONS_POLICY)
    return response


@sync_and_async_middleware
def content_security_policy(get_response: GetResponse) -> GetResponse:
    """Middleware: gives every request a nonce and every response the policy."""
    if iscoroutinefunction(get_response):

        async def answer_async(request: HttpRequest) -> HttpResponseBase:
            nonce_of(request)
            return _finish(request, await get_response(request))

        markcoroutinefunction(answer_async)
        return answer_async

    def answer(request: HttpRequest) -> HttpResponseBase:
        nonce_of(request)
        return _finish(request, get_response(request))  # type: ignore[arg-type]

    return answer


def csp_nonce(request: HttpRequest) -> dict[str, str]:
    """Context processor: `{{ csp_nonce }}` for the rare inline script."""
    return {"csp_nonce": nonce_of(request)}
