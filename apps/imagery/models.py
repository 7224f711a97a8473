"""Scenes of a project, uploads on their way to become scenes, and regions that were kept."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

from django.conf import settings
from django.contrib.gis.db import models
from django.db.models import Q

from apps.core.errors import FaultError
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import VectorInfo
from apps.core.ids import uuid7


class Scene(models.Model):
    """One raster of a project. ``info`` is the SceneInfo as it stands: what the file said (``facts``,
    ``counts``), then what persons said (``hints``). Figures are in ``statistics``, the ingest check's
    findings in ``findings``."""

    INGESTING, READY, FAILED = "ingesting", "ready", "failed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="scenes")
    name = models.CharField(max_length=255)
    status = models.CharField(
        max_length=16, choices=[(s, s) for s in (INGESTING, READY, FAILED)], default=INGESTING
    )
    original = models.ForeignKey("artifacts.Artifact", on_delete=models.PROTECT, null=True, related_name="+")
    cog = models.ForeignKey("artifacts.Artifact", on_delete=models.PROTECT, null=True, related_name="+")
    info = models.JSONField(null=True, blank=True)
    facts = models.JSONField(null=True, blank=True)
    counts = models.JSONField(null=True, blank=True)
    hints = models.JSONField(default=dict, blank=True)
    findings = models.JSONField(default=list, blank=True)
    statistics = models.JSONField(null=True, blank=True)
    sources = models.JSONField(default=list, blank=True, help_text="Of a stack: name and digest of each file, in band order")
    part_of = models.ForeignKey("self", on_delete=models.SET_NULL, null=True, blank=True, related_name="parts",
                                help_text="The stack that its bands went into last; it stays a scene of its own")
    readings = models.JSONField(
        default=list, blank=True, help_text="Append-only: each time it was read anew, by whom, and what changed")
    error = models.JSONField(null=True, blank=True)
    footprint = models.GeometryField(srid=4326, geography=True, null=True, blank=True)
    acquired_at = models.DateTimeField(null=True, blank=True, db_index=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    confirmed_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True, blank=True
    )
    confirmed_at = models.DateTimeField(null=True, blank=True)

    project_id: UUID
    original_id: str | None
    cog_id: str | None
    created_by_id: int | None

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=["project", "-created_at"], name="scene_by_project"),)
        constraints = (
            models.CheckConstraint(
                condition=~Q(status="ready") | Q(cog__isnull=False, info__isnull=False), name="scene_ready_has_pixels"
            ),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_ready(self) -> bool:
        """Whether its pixels can be asked about; the ingest check may still have open points."""
        return self.status == self.READY

    @property
    def scene_info(self) -> SceneInfo:
        """The SceneInfo. FaultError for a scene that is not ready."""
        if self.info is None:
            raise FaultError(f"scene {self.pk} has no info: it is {self.status}")
        return SceneInfo.model_validate(self.info)

    @property
    def n_block(self) -> int:
        return sum(f["light"] == "block" for f in self.findings)

    @property
    def n_warn(self) -> int:
        return sum(f["light"] == "warn" for f in self.findings)

    @property
    def n_good(self) -> int:
        return sum(f["light"] == "ok" for f in self.findings)


class VectorLayer(models.Model):
    """One vector file of a project. ``info`` says what it holds; its features lie in the artifact that ``info`` names. A person
    may have said the CRS or the layer where the file does not tell."""

    READING, READY, FAILED = "reading", "ready", "failed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="vector_layers")
    name = models.CharField(max_length=255)
    status = models.CharField(max_length=16, choices=[(s, s) for s in (READING, READY, FAILED)], default=READING)
    original = models.ForeignKey("artifacts.Artifact", on_delete=models.PROTECT, null=True, related_name="+")
    crs_said = models.TextField(blank=True, help_text="CRS as a person said it, for files that do not tell")
    layer_said = models.CharField(max_length=255, blank=True, help_text="Layer of a file that holds several")
    crs_source = models.CharField(max_length=16, blank=True)
    layer = models.CharField(max_length=255, blank=True)
    info = models.JSONField(null=True, blank=True)
    error = models.JSONField(null=True, blank=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    project_id: UUID
    original_id: str | None
    created_by_id: int | None

    class Meta:
        ordering = ("-created_at",)
        indexes = (models.Index(fields=["project", "-created_at"], name="vector_by_project"),)
        constraints = (
            models.CheckConstraint(condition=~Q(status="ready") | Q(info__isnull=False), name="vector_ready_has_info"),
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_ready(self) -> bool:
        """Whether questions can use it."""
        return self.status == self.READY

    @property
    def vector_info(self) -> VectorInfo:
        """The VectorInfo. FaultError for a file that is not ready."""
        if self.info is None:
            raise FaultError(f"vector layer {self.pk} has no info: it is {self.status}")
        return VectorInfo.model_validate(self.info)


class Upload(models.Model):
    """A file on its way in. Its bytes lie alone in a folder of their own, under a name that the server
    made."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="uploads")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=255, help_text="As the person's computer names it: data, never a path")
    size_bytes = models.BigIntegerField()
    offset_bytes = models.BigIntegerField(default=0)
    fingerprint = models.CharField(max_length=200, blank=True, help_text="By which the browser knows the file again")
    sha256 = models.CharField(max_length=71, blank=True, help_text="Expected digest, where the client sent one")
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    finished_at = models.DateTimeField(null=True, blank=True)
    scene = models.OneToOneField(Scene, on_delete=models.SET_NULL, null=True, blank=True, related_name="upload")
    vector = models.OneToOneField(VectorLayer, on_delete=models.SET_NULL, null=True, blank=True, related_name="upload")

    project_id: UUID
    created_by_id: int
    scene_id: UUID | None
    vector_id: UUID | None

    class Meta:
        ordering = ("-created_at",)
        constraints = (
            models.CheckConstraint(condition=Q(size_bytes__gt=0), name="upload_has_size"),
            models.CheckConstraint(
                condition=Q(offset_bytes__gte=0, offset_bytes__lte=models.F("size_bytes")), name="upload_offset_inside"
            ),
        )

    def __str__(self) -> str:
        return f"{self.name} {self.offset_bytes}/{self.size_bytes}"

    @property
    def folder(self) -> Path:
        root: Path = settings.UPLOADS_ROOT
        return root / str(self.pk)

    @property
    def path(self) -> Path:
        return self.folder / "data"


class Region(models.Model):
    """A geometry that somebody keeps to ask about again; longitude and latitude, WGS 84."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="regions")
    name = models.CharField(max_length=120)
    geometry = models.GeometryField(srid=4326, geography=True)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    project_id: UUID

    class Meta:
        ordering = ("name",)
        constraints = (models.UniqueConstraint(fields=["project", "name"], name="region_name_once"),)

    def __str__(self) -> str:
        return self.name


