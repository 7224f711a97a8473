"""How much a project holds, and whether more fits: its scenes and vector files, kept or on their way in, under one limit."""

from __future__ import annotations

from django.conf import settings
from django.db.models import Sum

from apps.accounts.models import Project
from apps.artifacts.models import Artifact
from apps.core.errors import UserError
from apps.imagery.models import Scene, Upload, VectorLayer


def project_bytes(project: Project) -> int:
    """Bytes of the files of a project's scenes and vector files (as given, and as they are kept for reading) and of uploads that
    are not finished, each at the size that was announced. Equal files are one."""
    digests: set[str | None] = set()
    for pair in Scene.objects.filter(project=project).values_list("original_id", "cog_id"):
        digests.update(pair)
    for pair in VectorLayer.objects.filter(project=project).values_list("original_id", "info__artifact"):
        digests.update(pair)
    kept = Artifact.objects.filter(digest__in=digests - {None}).aggregate(n=Sum("size_bytes"))["n"] or 0
    coming = Upload.objects.filter(project=project, finished_at__isnull=True).aggregate(n=Sum("size_bytes"))["n"] or 0
    return int(kept + coming)


def room_for(project: Project, name: str, size_bytes: int) -> None:
    """UserError OVER_QUOTA (413) where a project would hold more than PROJECT_MAX_BYTES with one more file. Inside of a
    transaction, to the end of which the project's row is locked: two files do not take the same room."""
    Project.objects.select_for_update().get(pk=project.pk)
    limit: int = settings.PROJECT_MAX_BYTES
    held = project_bytes(project)
    if held + size_bytes > limit:
        raise UserError(
            "OVER_QUOTA", f"The project has no room for “{name}”.",
            f"It holds {held:,} bytes of scenes and vector files; with {size_bytes:,} more it would pass its limit of {limit:,}.",
            "Delete scenes or vector files that nobody needs, or start another project.", status=413,
        )  # fmt: skip

