"""Reads of imagery. ``scene_get_for_user`` is the only way from an id to a scene for a person."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.utils import timezone

from apps.accounts.models import Project
from apps.accounts.selectors import Person, access_project_by_id, access_row_by_id, can, projects_for_user
from apps.artifacts.blobs import blob_path, blob_source
from apps.artifacts.ranges import RemoteBlob
from apps.core.errors import NotFoundError, UserError
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import VectorInfo
from apps.imagery.models import Scene, Upload, VectorLayer


def scene_get_for_user(user: Person, scene_id: UUID | str, action: str = "view") -> Scene:
    """The scene, if the user may do ``action`` in its project. NotFoundError (404) for what is absent or of
    others; UserError FORBIDDEN (403) for members whose role is too small."""
    return access_row_by_id(Scene.objects.select_related("project"), scene_id, user, action, "scene")


def scene_list_for_project(project: Project) -> QuerySet[Scene]:
    """Newest first; the caller has checked that the person may see the project."""
    return Scene.objects.filter(project=project).select_related("project")


def scenes_unfolded(project: Project) -> QuerySet[Scene]:
    """As ``scene_list_for_project``, with the files that went into a stack left to its ``parts``."""
    return scene_list_for_project(project).filter(part_of=None).prefetch_related("parts")


def scene_infos_of_project(project_id: UUID | str, limit: int = 5000) -> list[SceneInfo]:
    """What is known of the project's scenes that are ready, newest first, files that went into a stack left to it; for runs of
    that project."""
    ready = Scene.objects.filter(project_id=project_id, status=Scene.READY, part_of=None)[:limit]
    return [scene.scene_info for scene in ready]


def scene_list_for_user(user: Person) -> QuerySet[Scene]:
    """All scenes that the user may see, newest first."""
    return Scene.objects.filter(project__in=projects_for_user(user)).select_related("project")


def scenes_for_ask(user: Person, project: Project, scene_ids: Sequence[str]) -> list[Scene]:
    """The chosen scenes in the order of their dates (undated ones last, in the order given), for a question.

    NotFoundError where one is absent or of another project; UserError BAD_ARGUMENT where one is not ready.
    """
    if not can(user, project, "ask"):
        access_project_by_id(user, project.pk, "ask")
    scenes = [scene_get_for_user(user, scene_id) for scene_id in dict.fromkeys(scene_ids)]
    for scene in scenes:
        if scene.project_id != project.pk:
            raise NotFoundError("scene")
        if not scene.is_ready:
            raise UserError(
                "BAD_ARGUMENT",
                f"“{scene.name}” cannot be asked about yet.",
                f"Its ingest is {'still going on' if scene.status == Scene.INGESTING else 'failed'}.",
                "Wait for it, or choose another scene.",
            )
    dated = sorted((s for s in scenes if s.acquired_at), key=lambda s: s.acquired_at)  # type: ignore[arg-type,return-value]
    return dated + [s for s in scenes if not s.acquired_at]


# Files that one sweep enqueues at most.
MAX_RESUMED = 50
# Vector files that one question may use.
MAX_VECTORS = 50


def vector_get_for_user(user: Person, vector_id: UUID | str, action: str = "view") -> VectorLayer:
    """The vector file, if the user may do ``action`` in its project; refused as scenes are."""
    return access_row_by_id(VectorLayer.objects.select_related("project"), vector_id, user, action, "vector layer")


def vector_list_for_project(project: Project) -> QuerySet[VectorLayer]:
    """Newest first; the caller has checked that the person may see the project."""
    return VectorLayer.objects.filter(project=project).select_related("project")


def vector_list_for_user(user: Person) -> QuerySet[VectorLayer]:
    """All vector files that the user may see, newest first."""
    return VectorLayer.objects.filter(project__in=projects_for_user(user)).select_related("project")


def vectors_for_ask(user: Person, project: Project, vector_ids: Sequence[str] | None) -> list[VectorInfo]:
    """The chosen vector files for a question; None: the newest of the project that are ready.

    NotFoundError where one is absent or of another project; UserError BAD_ARGUMENT where one is not ready, or for too many.
    """
    if vector_ids is None:
        ready = vector_list_for_project(project).filter(status=VectorLayer.READY)[:MAX_VECTORS]
        return [v.vector_info for v in ready]
    chosen = [vector_get_for_user(user, v) for v in dict.fromkeys(vector_ids)]
    if any(v.project_id != project.pk for v in chosen):
        raise NotFoundError("vector layer")
    waiting = next((v for v in chosen if not v.is_ready), None)
    if waiting is not None:
        raise UserError(
            "BAD_ARGUMENT", f"“{waiting.name}” cannot be asked about yet.", f"It is {waiting.status}.",
            "Wait for it, or leave it out.",
        )  # fmt: skip
    if len(chosen) > MAX_VECTORS:
        raise UserError("BAD_ARGUMENT", "Too many vector files.", f"{MAX_VECTORS} are the limit.", "Choose those that are meant.")
    return [v.vector_info for v in chosen]


def scene_paths(scene_ids: Sequence[str]) -> dict[str, Path]:
    """Local files of the scenes' COGs by id, for runs; scenes that are gone or have no pixels are left out."""
    rows = Scene.objects.filter(pk__in=scene_ids, cog__isnull=False).values_list("pk", "cog_id")
    return {str(key): blob_path(cog) for key, cog in rows}


def scene_sources(scene_ids: Sequence[str]) -> dict[str, Path | RemoteBlob]:
    """What the scenes' pixels are read from, by id, for runs: local files, or blobs in object storage read by ranges."""
    rows = Scene.objects.filter(pk__in=scene_ids, cog__isnull=False).values_list("pk", "cog_id")
    return {str(key): blob_source(cog) for key, cog in rows}


def scene_infos(scene_ids: Sequence[str]) -> dict[str, SceneInfo]:
    """Infos of ready scenes by id, for commands on this machine; ids that are none or unknown are left out."""
    keys = [i for i in scene_ids if re.fullmatch(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", i)]
    return {str(s.pk): s.scene_info for s in Scene.objects.filter(pk__in=keys, status=Scene.READY, cog__isnull=False)}


def waiting_keys(rows: QuerySet[Any], waiting_s: float) -> list[str]:
    """Ids of rows that wait for ``waiting_s`` seconds at least, oldest first, as many as one sweep enqueues."""
    since = timezone.now() - timedelta(seconds=waiting_s)
    found = rows.filter(created_at__lte=since).order_by("created_at")
    return [str(pk) for pk in found.values_list("pk", flat=True)[:MAX_RESUMED]]


def upload_get_for_user(user: Any, upload_id: UUID | str) -> Upload:
    """The user's own upload. NotFoundError for anybody else's, as for absent ones."""
    try:
        upload = Upload.objects.select_related("project").get(pk=upload_id, created_by_id=getattr(user, "pk", None))
    except (Upload.DoesNotExist, ValidationError, ValueError, TypeError) as error:
        raise NotFoundError("upload") from error
    access_project_by_id(user, upload.project_id, "ingest")
    return upload


def upload_list_open(user: Any, project: Project) -> QuerySet[Upload]:
    """The user's unfinished uploads of a project: what a reloaded page can resume."""
    return Upload.objects.filter(created_by=user, project=project, finished_at__isnull=True)
