"""Reads of accounts. `access_project_by_id` is the only way from an id to a project for a person."""

from __future__ import annotations

from typing import Any, TypeVar, cast
from uuid import UUID

from django.contrib.auth.models import AnonymousUser
from django.core.exceptions import ObjectDoesNotExist, ValidationError
from django.db.models import Count, Model, QuerySet
from django.utils import timezone

from apps.accounts.domain import SAMPLE_ROLE, Role, higher, role_allows
from apps.accounts.models import ApiToken, Membership, Project, ProjectQuerySet, User
from apps.core.digests import digest_bytes
from apps.core.errors import NotFoundError, UserError

Person = User | AnonymousUser
R = TypeVar("R", bound=Model)


def projects_for_user(user: Person) -> ProjectQuerySet:
    """What the user may see, newest first."""
    return Project.objects.visible_to(user)


def project_role(user: Person, project: Project) -> Role | None:
    """The user's role in the project, None for outsiders; the sample gives everybody SAMPLE_ROLE at least."""
    if not user.is_authenticated or not user.is_active or project.archived_at is not None:
        return None
    role: Any = Membership.objects.filter(project=project, user_id=user.pk).values_list("role", flat=True).first()
    return higher(role, SAMPLE_ROLE) if project.is_sample else role


def can(user: Person, project: Project, action: str) -> bool:
    """Whether the user may do this in the project. ValueError for an unknown action."""
    return role_allows(project_role(user, project), action)


def can_anywhere(user: Person, action: str) -> bool:
    """For what belongs to no project (the prior): site staff, or a role that somebody else gave the user in a project.

    A role that one has by making a project oneself opens nothing that all share.
    """
    if not user.is_authenticated or not user.is_active:
        return False
    if user.is_staff:
        return True
    given = Membership.objects.filter(user_id=user.pk, project__archived_at__isnull=True).exclude(project__created_by_id=user.pk)
    roles = given.values_list("role", flat=True)
    return any(role_allows(cast(Role, role), action) for role in roles)


def access_project_by_id(user: Person, project_id: UUID | str, action: str = "view") -> Project:
    """The project, if the user may do `action` in it.

    NotFoundError (404) for those who may not even see it, so that ids of others cannot be told from absent
    ones; UserError FORBIDDEN (403) for members whose role is too small.
    """
    try:
        project = projects_for_user(user).get(pk=project_id)
    except (Project.DoesNotExist, ValidationError, ValueError, TypeError) as error:
        # text that is no UUID is a ValidationError
        raise NotFoundError("project") from error
    if not can(user, project, action):
        raise UserError(
            "FORBIDDEN",
            "Your role does not allow this.",
            f"In {project.name} you are {project_role(user, project)}.",
            "Ask an administrator of the project for another role.",
            status=403,
        )
    return project


def access_row_by_id(rows: QuerySet[R], key: Any, user: Person, action: str, name: str) -> R:
    """The row of `rows` (of a model with `project`), if the user may do `action` in its project.

    NotFoundError (404), which calls it `name`, for ids that are none, absent ones and those of others; UserError FORBIDDEN (403)
    for members whose role is too small.
    """
    try:
        row: Any = rows.get(pk=key)
    except (ObjectDoesNotExist, ValidationError, ValueError, TypeError) as error:
        raise NotFoundError(name) from error
    try:
        access_project_by_id(user, row.project_id, action)
    except NotFoundError as error:
        raise NotFoundError(name) from error
    return cast(R, row)


def require_anywhere(user: Person, action: str) -> None:
    """UserError FORBIDDEN (403) unless `can_anywhere`."""
    if not can_anywhere(user, action):
        raise UserError(
            "FORBIDDEN",
            "Your role does not allow this.",
            "It needs a higher role that somebody gave you in a project of theirs.",
            "Ask an administrator.",
            status=403,
        )


def project_list_for_user(user: Person) -> QuerySet[Any]:
    """Own projects with `members` counted, without the sample."""
    return projects_for_user(user).filter(is_sample=False).annotate(members=Count("memberships"))


def sample_project() -> Project | None:
    return Project.objects.filter(is_sample=True, archived_at__isnull=True).first()


def member_list(project: Project) -> QuerySet[Membership]:
    return project.memberships.select_related("user").order_by("user__username")


def token_list_for_user(user: User) -> QuerySet[ApiToken]:
    return ApiToken.objects.filter(user=user, revoked_at__isnull=True)


def user_by_token(text: str) -> tuple[User, ApiToken] | None:
    """The person behind a token's text, or None where it is unknown, revoked, expired or its person inactive."""
    token = ApiToken.objects.select_related("user").filter(digest=digest_bytes(text.encode()), revoked_at__isnull=True).first()
    if token is None or not token.user.is_active:
        return None
    if token.expires_at is not None and token.expires_at <= timezone.now():
        return None
    return token.user, token
