"""Forms of accounts, and the base that gives every form the look of the design."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.auth.forms import AuthenticationForm
from django.core.exceptions import ValidationError
from django.http import HttpRequest

from apps.accounts.domain import ROLES
from apps.accounts.services import sign_in_failed, sign_in_is_paused, sign_in_succeeded


class StyledForm(forms.Form):
    """A form whose text fields, areas and selects carry the class `inp`; for `components/field.html`."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        style(self)


def style(form: forms.BaseForm) -> None:
    plain = (forms.CheckboxInput, forms.RadioSelect, forms.CheckboxSelectMultiple, forms.HiddenInput)
    for field in form.fields.values():
        if not isinstance(field.widget, plain):
            field.widget.attrs.setdefault("class", "inp")
    form.label_suffix = ""


class SignInForm(AuthenticationForm):
    """Name and password, with a brake on guessing: one message for a wrong name and a wrong password."""

    error_messages = {
        "invalid_login": "Name and password do not match. Both are case-sensitive.",
        "inactive": "Name and password do not match. Both are case-sensitive.",
    }

    def __init__(self, request: HttpRequest | None = None, *arguments: Any, **options: Any) -> None:
        super().__init__(request, *arguments, **options)
        style(self)
        self.fields["username"].label = "Name"

    def clean(self) -> dict[str, Any]:
        username = str(self.cleaned_data.get("username") or "")
        address = str(self.request.META.get("REMOTE_ADDR", "")) if self.request else ""
        if username and sign_in_is_paused(username=username, address=address):
            raise ValidationError(
                "Too many wrong passwords for this name. Wait ten minutes, or ask an administrator.", code="paused"
            )
        try:
            cleaned = super().clean()
        except ValidationError:
            sign_in_failed(username=username, address=address)
            raise
        sign_in_succeeded(username=username, address=address)
        return cleaned


class ProjectForm(StyledForm):
    name = forms.CharField(max_length=120)
    description = forms.CharField(
        max_length=2000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text="What it is about, for those you share it with.",
    )


class MemberForm(StyledForm):
    username = forms.CharField(max_length=150, label="Name", help_text="The name the person signs in with.")
    role = forms.ChoiceField(choices=[(role, role) for role in ROLES], initial="viewer")


class TokenForm(StyledForm):
    name = forms.CharField(max_length=80, label="What is it for")
    days = forms.TypedChoiceField(
        choices=[("30", "30 days"), ("90", "90 days"), ("365", "one year")], coerce=int, initial="90", label="Valid for"
    )
