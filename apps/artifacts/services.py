"""Writes of artifacts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, BinaryIO
from uuid import UUID

from django.db import transaction

from apps.artifacts.blobs import blob_path, blob_put
from apps.artifacts.models import Artifact, ArtifactLink
from apps.core.errors import NotFoundError

DEFAULT_TYPE = "application/octet-stream"


@transaction.atomic
def artifact_put(
    *, data: bytes | Path | BinaryIO, project_id: UUID | str | None, media_type: str = "", name: str = ""
) -> Artifact:
    """Keeps the bytes and links them to the project (None: to nobody yet). Equal bytes give the same artifact."""
    digest, size = blob_put(data)
    artifact, _ = Artifact.objects.get_or_create(
        digest=digest, defaults={"size_bytes": size, "media_type": media_type or DEFAULT_TYPE}
    )
    if media_type and artifact.media_type == DEFAULT_TYPE != media_type:
        artifact.media_type = media_type
        artifact.save(update_fields=["media_type"])
    if project_id is not None:
        artifact_link(digest=digest, project_id=project_id, name=name)
    return artifact


def artifact_link(*, digest: str, project_id: UUID | str, name: str = "") -> ArtifactLink:
    """Lets a project read an artifact. NotFoundError where there is none."""
    if not Artifact.objects.filter(pk=digest).exists():
        raise NotFoundError("artifact")
    link, _ = ArtifactLink.objects.get_or_create(project_id=project_id, artifact_id=digest, defaults={"name": name[:200]})
    return link


class ProjectBlobs:
    """The blob store of one project, for runs and ingest: what is put is linked to the project at once."""

    def __init__(self, project_id: UUID | str | None) -> None:
        self._project_id = project_id
        self._known: set[str] = set()

    def put(self, data: bytes | Path, *, media_type: str = "", name: str = "") -> str:
        """Digest of the kept bytes."""
        artifact: Any = artifact_put(data=data, project_id=self._project_id, media_type=media_type, name=name)
        self._known.add(str(artifact.digest))
        return str(artifact.digest)

    def path(self, digest: str) -> Path:
        """Local file, read only. KeyError where the store does not hold it, or holds it for other projects alone: to know a
        digest is no right to its bytes."""
        if self._project_id is not None and digest not in self._known:
            if not ArtifactLink.objects.filter(project_id=self._project_id, artifact_id=digest).exists():
                raise KeyError(digest)
            self._known.add(digest)
        return blob_path(digest)
