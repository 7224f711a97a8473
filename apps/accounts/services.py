"""Writes of accounts: people, projects, memberships, tokens, and the brake on guessing passwords."""

from __future__ import annotations

import secrets
from datetime import timedelta
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils import timezone

from apps.accounts.domain import ROLES, Role
from apps.accounts.models import ApiToken, Membership, Project, User
from apps.core.digests import digest_bytes
from apps.core.errors import NotFoundError, UserError

TOKEN_PREFIX = "rsure_"

# Wrong passwords before a name is refused from one address, and for how long. Long enough to stop
# guessing, short enough that nobody has to be called.
SIGN_IN_TRIES = 10
SIGN_IN_PAUSE_S = 600
# The stored time of last use may lag by this much: not one write for every request of a script.
TOKEN_USE_LAG = timedelta(minutes=1)


@transaction.atomic
def user_create(
    *, username: str, password: str, full_name: str = "", email: str = "", is_staff: bool = False, is_superuser: bool = False
) -> User:
    """A new person. UserError CONFLICT for a taken name, BAD_ARGUMENT for a weak password."""
    if User.objects.filter(username__iexact=username).exists():
        raise UserError("CONFLICT", f"The name {username} is taken.", "Names are unique, case ignored.", "Choose another.")
    user = User(username=username, full_name=full_name, email=email, is_staff=is_staff, is_superuser=is_superuser)
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise UserError("BAD_ARGUMENT", "The password is too weak.", " ".join(error.messages), "Choose a longer one.") from error
    user.set_password(password)
    user.full_clean()
    user.save()
    return user


@transaction.atomic
def project_create(*, user: User | None, name: str, description: str = "", is_sample: bool = False) -> Project:
    """A new project; its creator becomes its administrator."""
    if not name.strip():
        raise UserError("BAD_ARGUMENT", "A project needs a name.", "The name was empty.", "Give it one.")
    project = Project.objects.create(name=name.strip(), description=description.strip(), created_by=user, is_sample=is_sample)
    if user is not None:
        Membership.objects.create(project=project, user=user, role="administrator")
    return project


@transaction.atomic
def project_update(*, project: Project, name: str, description: str) -> Project:
    if not name.strip():
        raise UserError("BAD_ARGUMENT", "A project needs a name.", "The name was empty.", "Give it one.")
    project.name, project.description = name.strip(), description.strip()
    project.save(update_fields=["name", "description"])
    return project


@transaction.atomic
def project_archive(*, project: Project) -> Project:
    """Takes the project out of every list; nothing is deleted, so an administrator of the site can bring it back."""
    if project.is_sample:
        raise UserError(
            "FORBIDDEN", "The sample project stays.", "Everybody uses it.", "Archive a project of your own.", status=403
        )
    project.archived_at = timezone.now()
    project.save(update_fields=["archived_at"])
    return project


def _keeps_administrator(project: Project, without_user_id: int) -> None:
    """UserError CONFLICT where the project would be left without an administrator. Locks the memberships."""
    others = project.memberships.select_for_update().filter(role="administrator").exclude(user_id=without_user_id)
    if not others.exists():
        raise UserError(
            "CONFLICT",
            "This is the last administrator.",
            "A project must keep one.",
            "Make somebody else administrator first.",
            status=409,
        )


@transaction.atomic
def membership_set(*, project: Project, username: str, role: Role) -> Membership:
    """Adds a member or changes a role. NotFoundError for an unknown name."""
    if role not in ROLES:
        raise UserError("BAD_ARGUMENT", f"There is no role {role}.", f"Roles are {', '.join(ROLES)}.", "Choose one of them.")
    user = User.objects.filter(username=username, is_active=True).first()
    if user is None:
        raise NotFoundError("person")
    # the project's row serialises changes of its members
    Project.objects.select_for_update().get(pk=project.pk)
    if role != "administrator" and project.memberships.filter(user=user, role="administrator").exists():
        _keeps_administrator(project, user.pk)
    membership, _ = Membership.objects.update_or_create(project=project, user=user, defaults={"role": role})
    return membership


@transaction.atomic
def membership_remove(*, project: Project, user_id: int) -> None:
    Project.objects.select_for_update().get(pk=project.pk)
    membership = project.memberships.filter(user_id=user_id).first()
    if membership is None:
        raise NotFoundError("member")
    if membership.role == "administrator":
        _keeps_administrator(project, user_id)
    membership.delete()


def token_create(*, user: User, name: str, days: int | None = 365) -> tuple[ApiToken, str]:
    """A new token and its text, which is stored nowhere. `days` None: it does not expire."""
    if not name.strip():
        raise UserError("BAD_ARGUMENT", "A token needs a name.", "It tells you later which script uses it.", "Give it one.")
    text = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = ApiToken.objects.create(
        user=user,
        name=name.strip(),
        hint=text[:12],
        digest=digest_bytes(text.encode()),
        expires_at=None if days is None else timezone.now() + timedelta(days=days),
    )
    return token, text


def token_revoke(*, user: User, token_id: UUID) -> None:
    """NotFoundError where the token is not the user's or already revoked."""
    if not ApiToken.objects.filter(pk=token_id, user=user, revoked_at__isnull=True).update(revoked_at=timezone.now()):
        raise NotFoundError("token")


def token_used(*, token: ApiToken) -> None:
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > TOKEN_USE_LAG:
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)


def _brake_key(username: str, address: str) -> str:
    return "sign_in:" + digest_bytes(f"{username.lower()}\n{address}".encode())


def sign_in_is_paused(*, username: str, address: str) -> bool:
    """Whether this name has failed too often from this address."""
    return int(cache.get(_brake_key(username, address), 0)) >= SIGN_IN_TRIES


def sign_in_failed(*, username: str, address: str) -> None:
    key = _brake_key(username, address)
    cache.add(key, 0, SIGN_IN_PAUSE_S)
    try:
        cache.incr(key)
    except ValueError:  # it ran out between the two calls
        cache.set(key, 1, SIGN_IN_PAUSE_S)


def sign_in_succeeded(*, username: str, address: str) -> None:
    cache.delete(_brake_key(username, address))
