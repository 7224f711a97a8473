"""Content-addressed blobs, and which project may read them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db import models
from django.db.models import Q

if TYPE_CHECKING:
    from django.db.models.fields.related_descriptors import RelatedManager


class Artifact(models.Model):
    """One blob. The digest is its name and its content: equal bytes are one artifact."""

    digest = models.CharField(max_length=71, primary_key=True)
    size_bytes = models.BigIntegerField()
    media_type = models.CharField(max_length=120, default="application/octet-stream")
    created_at = models.DateTimeField(auto_now_add=True)

    links: RelatedManager[ArtifactLink]

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.CheckConstraint(condition=Q(digest__regex=r"^sha256:[0-9a-f]{64}$"), name="artifact_digest_form"),
            models.CheckConstraint(condition=Q(size_bytes__gte=0), name="artifact_size_not_negative"),
        )

    def __str__(self) -> str:
        return self.digest


class ArtifactLink(models.Model):
    """A project that holds the artifact. Who may see the project may read the bytes; nobody else may."""

    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="artifact_links")
    artifact = models.ForeignKey(Artifact, on_delete=models.PROTECT, related_name="links")
    name = models.CharField(max_length=200, blank=True, help_text="File name offered on download")
    created_at = models.DateTimeField(auto_now_add=True)

    project_id: UUID
    artifact_id: str

    class Meta:
        constraints = (models.UniqueConstraint(fields=["project", "artifact"], name="artifact_link_once"),)

    def __str__(self) -> str:
        return f"{self.artifact_id} in {self.project_id}"
