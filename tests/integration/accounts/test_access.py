"""Who reaches a project, by id, role and token; on the real database."""

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

from apps.accounts.models import ApiToken, Membership, Project, User
from apps.accounts.selectors import (
    access_project_by_id,
    can,
    can_anywhere,
    projects_for_user,
    user_by_token,
)
from apps.accounts.services import (
    SIGN_IN_TRIES,
    membership_remove,
    membership_set,
    project_archive,
    project_create,
    token_create,
    token_revoke,
    user_create,
)
from apps.core.errors import NotFoundError, UserError

pytestmark = pytest.mark.django_db
PASSWORD = "a long river runs"


@pytest.fixture
def owner() -> User:
    return user_create(username="owner", password=PASSWORD, full_name="Olga Owner")


@pytest.fixture
def stranger() -> User:
    return user_create(username="stranger", password=PASSWORD)


@pytest.fixture
def project(owner: User) -> Project:
    return project_create(user=owner, name="Valley")


def test_the_creator_administers_and_others_get_404(project: Project, owner: User, stranger: User) -> None:
    assert access_project_by_id(owner, project.pk, "manage") == project
    with pytest.raises(NotFoundError):
        access_project_by_id(stranger, project.pk)
    assert list(projects_for_user(stranger)) == []


@pytest.mark.parametrize("bad", ["", "x", "../etc", uuid.uuid4(), None, "0" * 400])
def test_ids_that_name_nothing_read_like_others_projects(bad: Any, owner: User) -> None:
    with pytest.raises(NotFoundError):
        access_project_by_id(owner, bad)


def test_a_member_with_too_small_a_role_is_told_so(project: Project, stranger: User) -> None:
    membership_set(project=project, username="stranger", role="viewer")
    assert access_project_by_id(stranger, project.pk, "view") == project
    with pytest.raises(UserError) as error:
        access_project_by_id(stranger, project.pk, "ask")
    assert (error.value.code, error.value.status) == ("FORBIDDEN", 403)


def test_inactive_people_and_archived_projects_are_outside(project: Project, owner: User) -> None:
    assert can(owner, project, "manage")
    owner.is_active = False
    assert not can(owner, project, "view")
    owner.is_active = True
    project_archive(project=project)
    assert not can(owner, project, "view")
    with pytest.raises(NotFoundError):
        access_project_by_id(owner, project.pk)


def test_everybody_may_ask_in_the_sample_but_not_manage_it(stranger: User) -> None:
    sample = project_create(user=None, name="Sample", is_sample=True)
    assert can(stranger, sample, "ask")
    assert not can(stranger, sample, "manage")
    with pytest.raises(UserError):
        project_archive(project=sample)


def test_a_project_keeps_its_last_administrator(project: Project, owner: User, stranger: User) -> None:
    with pytest.raises(UserError) as error:
        membership_set(project=project, username="owner", role="viewer")
    assert error.value.code == "CONFLICT"
    with pytest.raises(UserError):
        membership_remove(project=project, user_id=owner.pk)
    membership_set(project=project, username="stranger", role="administrator")
    membership_remove(project=project, user_id=owner.pk)
    assert Membership.objects.get(project=project).user == stranger


def test_prior_rights_come_from_a_role_that_another_gave(project: Project, owner: User, stranger: User) -> None:
    # whoever makes a project administers it, but the prior is everybody's
    assert not can_anywhere(owner, "prior_view")
    owner.is_staff = True
    assert can_anywhere(owner, "prior_manage")
    assert not can_anywhere(stranger, "prior_view")
    membership_set(project=project, username="stranger", role="reviewer")
    assert can_anywhere(stranger, "prior_view")
    assert not can_anywhere(stranger, "prior_manage")


def test_tokens_open_until_revoked_or_expired_and_are_not_stored(owner: User, stranger: User) -> None:
    token, text = token_create(user=owner, name="script")
    assert text.startswith("rsure_")
    assert text not in str(ApiToken.objects.filter(pk=token.pk).values().get())
    found = user_by_token(text)
    assert found is not None
    assert found[0] == owner
    assert user_by_token(text + "x") is None
    with pytest.raises(NotFoundError):
        token_revoke(user=stranger, token_id=token.pk)
    ApiToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
    assert user_by_token(text) is None
    ApiToken.objects.filter(pk=token.pk).update(expires_at=None)
    assert user_by_token(text) is not None
    token_revoke(user=owner, token_id=token.pk)
    assert user_by_token(text) is None


def test_a_weak_password_and_a_taken_name_are_refused(owner: User) -> None:
    with pytest.raises(UserError, match="weak"):
        user_create(username="new", password="short")
    with pytest.raises(UserError, match="taken"):
        user_create(username="OWNER", password=PASSWORD)


def test_sign_in_and_out(client: Client, owner: User) -> None:
    cache.clear()
    page = client.get("/accounts/login/?next=/account/")
    assert page.status_code == 200
    answer = client.post("/accounts/login/", {"username": "owner", "password": PASSWORD, "next": "/account/"})
    assert (answer.status_code, answer["Location"]) == (302, "/account/")
    assert b"Olga Owner" in client.get("/account/").content
    assert client.post("/accounts/logout/").status_code == 302
    assert client.get("/account/").status_code == 302


def test_sign_in_does_not_send_people_to_other_sites(client: Client, owner: User) -> None:
    cache.clear()
    answer = client.post("/accounts/login/", {"username": "owner", "password": PASSWORD, "next": "//evil.example/"})
    assert answer["Location"] == "/"


def test_guessing_is_slowed_per_name_and_a_right_password_does_not_help(client: Client, owner: User) -> None:
    cache.clear()
    for _ in range(SIGN_IN_TRIES):
        assert client.post("/accounts/login/", {"username": "owner", "password": "wrong"}).status_code == 200
    answer = client.post("/accounts/login/", {"username": "owner", "password": PASSWORD})
    assert answer.status_code == 200
    assert b"Too many wrong passwords" in answer.content
    user_create(username="other", password=PASSWORD)
    assert client.post("/accounts/login/", {"username": "other", "password": PASSWORD}).status_code == 302
    cache.clear()


def test_member_page_answers_404_to_others_and_403_to_small_roles(
    client: Client, project: Project, owner: User, stranger: User
) -> None:
    address = f"/projects/{project.pk}/members/"
    client.force_login(stranger)
    assert client.get(address).status_code == 404
    membership_set(project=project, username="stranger", role="viewer")
    assert client.get(address).status_code == 200
    assert client.post(address, {"username": "stranger", "role": "administrator"}).status_code == 403
    client.force_login(owner)
    assert client.post(address, {"username": "stranger", "role": "analyst"}).status_code == 302
    assert Membership.objects.get(project=project, user=stranger).role == "analyst"
    assert client.post(address, {"username": "nobody", "role": "analyst"}).status_code == 400


def test_a_new_token_is_shown_once(client: Client, owner: User) -> None:
    client.force_login(owner)
    page = client.post("/account/", {"what": "token", "name": "nightly", "days": "30"}).content.decode()
    text = page.split('data-copy="')[1].split('"')[0]
    assert user_by_token(text) is not None
    assert text not in client.get("/account/").content.decode()
