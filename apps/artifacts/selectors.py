"""Reads of artifacts. A person reaches bytes only through a project that they may see."""

from __future__ import annotations

from typing import Any

from django.apps import apps

from apps.artifacts.models import Artifact, ArtifactLink
from apps.core.digests import is_digest
from apps.core.errors import NotFoundError


def access_artifact_by_digest(user: Any, digest: str) -> tuple[Artifact, ArtifactLink]:
    """The artifact and the link through which the user sees it. NotFoundError for others, as for absent ones.

    The rule of who sees a project is the accounts app's own (`visible_to`); it lives on the same floor, so it is
    reached through the relation and not by import.
    """
    if not is_digest(digest):
        raise NotFoundError("artifact")
    visible = apps.get_model("accounts", "Project").objects.visible_to(user)  # type: ignore[attr-defined]
    link = (
        ArtifactLink.objects.select_related("artifact")
        .filter(artifact_id=digest, project__in=visible)
        .order_by("created_at")
        .first()
    )
    if link is None:
        raise NotFoundError("artifact")
    return link.artifact, link
