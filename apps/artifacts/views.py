"""Download of artifacts: private, immutable, with the digest as ETag."""

from __future__ import annotations

import re
from typing import BinaryIO

from django.contrib.auth.decorators import login_required
from django.http import FileResponse, HttpRequest, HttpResponse, HttpResponseNotModified
from django.http.response import HttpResponseBase
from django.views.decorators.http import require_safe

from apps.artifacts.blobs import blob_path
from apps.artifacts.selectors import access_artifact_by_digest
from apps.core.errors import FaultError

# Shown in the browser; anything else is offered as a file. SVG and HTML are not here: they can carry scripts.
INLINE = frozenset(
    {"image/png", "image/jpeg", "image/webp", "application/json", "application/geo+json", "text/plain", "text/csv"}
)
# What a file without a name of its own ends in, so that a program knows it.
SUFFIXES = {"image/tiff": ".tif", "image/png": ".png", "application/geo+json": ".geojson", "application/json": ".json"}
_RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")


class _Part:
    """The bytes [first, first + length) of an open file."""

    def __init__(self, file: BinaryIO, first: int, length: int) -> None:
        file.seek(first)
        self._file, self._left = file, length

    def read(self, size: int = -1) -> bytes:
        wanted = self._left if size < 0 else min(size, self._left)
        data = self._file.read(wanted)
        self._left -= len(data)
        return data

    def close(self) -> None:
        self._file.close()


@login_required
@require_safe
def artifact_download(request: HttpRequest, digest: str) -> HttpResponseBase:
    """The bytes, or 404 for those who may not see them. Knows `If-None-Match` and one byte range."""
    artifact, link = access_artifact_by_digest(request.user, digest)
    etag = f'"{artifact.digest}"'
    headers = {
        "ETag": etag,
        # the name is the content: it can never change; private, since each answer was checked for one person
        "Cache-Control": "private, max-age=31536000, immutable",
        "Vary": "Cookie, Authorization",
        "Accept-Ranges": "bytes",
        "X-Content-Type-Options": "nosniff",
    }
    if etag in [part.strip() for part in request.headers.get("If-None-Match", "").split(",")]:
        return HttpResponseNotModified(headers=headers)
    try:
        file = blob_path(artifact.digest).open("rb")
    except KeyError as error:
        raise FaultError(f"the store lost {artifact.digest}") from error
    base_type = artifact.media_type.split(";")[0]
    wanted = _RANGE.fullmatch(request.headers.get("Range", ""))
    span = _span(wanted, artifact.size_bytes) if wanted else None
    if wanted and span is None:
        file.close()
        return HttpResponse(status=416, headers={**headers, "Content-Range": f"bytes */{artifact.size_bytes}"})
    response = FileResponse(
        _Part(file, span[0], span[1] - span[0] + 1) if span else file,
        as_attachment=base_type not in INLINE,
        filename=link.name or artifact.digest.removeprefix("sha256:")[:16] + SUFFIXES.get(base_type, ""),
        content_type=artifact.media_type,
        headers=headers,
    )
    if span:
        response.status_code = 206
        response["Content-Range"] = f"bytes {span[0]}-{span[1]}/{artifact.size_bytes}"
        response["Content-Length"] = str(span[1] - span[0] + 1)
    else:
        response["Content-Length"] = str(artifact.size_bytes)
    return response


def _span(match: re.Match[str], size: int) -> tuple[int, int] | None:
    """(first, last) byte of a range header, or None where it cannot be met (RFC 9110, 14.1.2)."""
    first, last = match.groups()
    if not first and not last:
        return None
    if not first:
        start, end = max(0, size - int(last)), size - 1
    else:
        start, end = int(first), min(int(last) if last else size - 1, size - 1)
    return (start, end) if start <= end and start < size else None
