"""Sign-in, account, members and settings of a project."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.decorators import login_required
from django.contrib.auth.forms import PasswordChangeForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from apps.accounts.domain import ACTION_MEANING, ACTIONS, ROLES, Role, actions_of
from apps.accounts.forms import MemberForm, ProjectForm, SignInForm, TokenForm, style
from apps.accounts.models import User
from apps.accounts.selectors import access_project_by_id, can, member_list, token_list_for_user
from apps.accounts.services import (
    membership_remove,
    membership_set,
    project_archive,
    project_create,
    project_update,
    token_create,
    token_revoke,
)
from apps.core.errors import UserError


class SignInView(LoginView):
    """The sign-in page; people who are signed in go on."""

    form_class = SignInForm
    template_name = "accounts/sign_in.html"
    redirect_authenticated_user = True


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)


@login_required
@require_http_methods(["GET", "POST"])
def account(request: HttpRequest) -> HttpResponse:
    """Own name, password and tokens. A new token's text is shown once, in the answer to its making."""
    user = _user(request)
    password = PasswordChangeForm(user)
    token_form, text = TokenForm(), None
    if request.POST.get("what") == "password":
        password = PasswordChangeForm(user, request.POST)
        if password.is_valid():
            password.save()
            update_session_auth_hash(request, user)
            messages.success(request, "Password changed. Other sessions are signed out.")
            return redirect("account")
    elif request.POST.get("what") == "token":
        token_form = TokenForm(request.POST)
        if token_form.is_valid():
            _, text = token_create(user=user, name=token_form.cleaned_data["name"], days=token_form.cleaned_data["days"])
            token_form = TokenForm()
    style(password)
    password.fields["old_password"].widget.attrs.pop("autofocus", None)
    return render(
        request,
        "accounts/account.html",
        {
            "password_form": password,
            "token_form": token_form,
            "token_text": text,
            "tokens": token_list_for_user(user),
        },
    )


@login_required
@require_POST
def token_delete(request: HttpRequest, token_id: UUID) -> HttpResponse:
    token_revoke(user=_user(request), token_id=token_id)
    messages.success(request, "Token revoked.")
    return redirect("account")


@login_required
@require_http_methods(["GET", "POST"])
def project_new(request: HttpRequest) -> HttpResponse:
    form = ProjectForm(request.POST or None)
    form.fields["name"].widget.attrs["autofocus"] = True
    if form.is_valid():
        project = project_create(user=_user(request), **form.cleaned_data)
        return redirect("project", project_id=project.pk)
    return render(request, "accounts/project_new.html", {"form": form})


@login_required
@require_http_methods(["GET", "POST"])
def project_members(request: HttpRequest, project_id: UUID) -> HttpResponse:
    """Who is in it, as what; what each role may do. Members see it, administrators change it."""
    user = _user(request)
    project = access_project_by_id(user, project_id, "manage" if request.method == "POST" else "view")
    form = MemberForm(request.POST or None)
    if form.is_valid():
        try:
            member = membership_set(
                project=project, username=form.cleaned_data["username"], role=cast(Role, form.cleaned_data["role"])
            )
        except UserError as error:
            form.add_error(None, f"{error.what} {error.why} {error.fix}")
        else:
            messages.success(request, f"{member.user.name} is now {member.role}.")
            return redirect("project_members", project_id=project.pk)
    matrix = [
        {"action": action, "meaning": ACTION_MEANING[action], "roles": [action in actions_of(role) for role in ROLES]}
        for action in ACTIONS
    ]
    return render(
        request,
        "accounts/members.html",
        {
            "project": project,
            "members": member_list(project),
            "form": form,
            "roles": ROLES,
            "matrix": matrix,
            "can_manage": can(user, project, "manage"),
        },
        status=400 if form.errors else 200,
    )


@login_required
@require_POST
def project_member_remove(request: HttpRequest, project_id: UUID, user_id: int) -> HttpResponse:
    project = access_project_by_id(_user(request), project_id, "manage")
    membership_remove(project=project, user_id=user_id)
    messages.success(request, "Member removed.")
    return redirect("project_members", project_id=project.pk)


@login_required
@require_http_methods(["GET", "POST"])
def project_settings(request: HttpRequest, project_id: UUID) -> HttpResponse:
    project = access_project_by_id(_user(request), project_id, "manage")
    form = ProjectForm(request.POST or None, initial={"name": project.name, "description": project.description})
    if form.is_valid():
        project_update(project=project, **form.cleaned_data)
        messages.success(request, "Settings saved.")
        return redirect("project_settings", project_id=project.pk)
    return render(request, "accounts/settings.html", {"project": project, "form": form, "can_manage": True})


@login_required
@require_POST
def project_close(request: HttpRequest, project_id: UUID) -> HttpResponse:
    project = access_project_by_id(_user(request), project_id, "manage")
    project_archive(project=project)
    messages.success(request, f"{project.name} is archived.")
    return redirect("home")
