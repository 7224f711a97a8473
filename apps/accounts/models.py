"""People, projects, memberships and API tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar
from uuid import UUID

from django.conf import settings
from django.contrib.auth.models import AbstractUser, AnonymousUser
from django.db import models
from django.db.models import Q

from apps.accounts.domain import ROLES, initials
from apps.core.ids import uuid7

if TYPE_CHECKING:
    from django.db.models.fields.related_descriptors import RelatedManager


class User(AbstractUser):
    """A person. `username` is what events and verdicts name as their author, so it is never changed."""

    full_name = models.CharField("name", max_length=150, blank=True)
    first_name = None  # type: ignore[assignment]
    last_name = None  # type: ignore[assignment]

    REQUIRED_FIELDS: ClassVar[list[str]] = []

    memberships: RelatedManager[Membership]

    class Meta:
        ordering = ("username",)

    @property
    def name(self) -> str:
        return self.full_name or self.username

    @property
    def initials(self) -> str:
        return initials(self.name)

    def get_full_name(self) -> str:
        return self.name

    def get_short_name(self) -> str:
        return self.name


class ProjectQuerySet(models.QuerySet["Project"]):
    """Projects, and the one rule of who sees which."""

    def visible_to(self, user: User | AnonymousUser) -> ProjectQuerySet:
        """Projects the user is a member of, and the samples; none for the anonymous."""
        if not user.is_authenticated or not user.is_active:
            return self.none()
        return self.filter(
            Q(is_sample=True) | Q(pk__in=Membership.objects.filter(user_id=user.pk).values("project_id")),
            archived_at__isnull=True,
        )


class Project(models.Model):
    """Keeps imagery, questions and verdicts together; access is granted by membership."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=120)
    description = models.TextField(blank=True, max_length=2000)
    is_sample = models.BooleanField(default=False, help_text="Everybody who is signed in may ask here.")
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="+", null=True)
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True)

    memberships: RelatedManager[Membership]
    created_by_id: int | None

    objects = ProjectQuerySet.as_manager()

    class Meta:
        ordering = ("-created_at",)
        constraints = (models.UniqueConstraint(fields=["is_sample"], condition=Q(is_sample=True), name="project_one_sample"),)

    def __str__(self) -> str:
        return self.name


class Membership(models.Model):
    """A person's role in a project."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=16, choices=[(role, role) for role in ROLES])
    created_at = models.DateTimeField(auto_now_add=True)

    project_id: UUID
    user_id: int

    class Meta:
        ordering = ("user__username",)
        constraints = (
            models.UniqueConstraint(fields=["project", "user"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=list(ROLES)), name="membership_known_role"),
        )

    def __str__(self) -> str:
        return f"{self.user_id} {self.role} of {self.project_id}"


class ApiToken(models.Model):
    """A key of a person's own scripts. Only its SHA-256 is kept; the text is shown once."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    hint = models.CharField(max_length=12, help_text="First characters, to tell tokens apart")
    digest = models.CharField(max_length=71, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    last_used_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True)

    user_id: int

    class Meta:
        ordering = ("-created_at",)

    def __str__(self) -> str:
        return f"{self.name} ({self.hint}…)"
