"""``manage.py first_user``: the administrator of a new installation; nothing is done twice."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand
from django.db import transaction

from apps.accounts.models import User
from apps.accounts.selectors import sample_project
from apps.accounts.services import membership_set, user_create

NAME = "admin"


def _note() -> Path:
    """File in RSURE_HOME, readable by its owner alone, that holds the password made here."""
    return Path(settings.RSURE_HOME) / "sign-in"


class Command(BaseCommand):
    help = "Makes the first administrator, and prints how to sign in."

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic():
            user = User.objects.filter(username=NAME).first()
            if user is None and User.objects.filter(is_superuser=True, is_active=True).exists():
                return
            if user is None:
                user = self._create()
        sample = sample_project()
        if sample is not None and not sample.memberships.filter(user=user).exists():
            membership_set(project=sample, username=NAME, role="administrator")
        note = _note()
        password = note.read_text().strip() if note.exists() else ""
        if password and user.check_password(password):
            self.stdout.write(f"Sign in as {NAME} with the password {password}")
        else:
            self.stdout.write(f"Sign in as {NAME} with the password that was set for it.")

    def _create(self) -> User:
        password = secrets.token_urlsafe(12)
        user = user_create(username=NAME, password=password, full_name="Administrator", is_staff=True, is_superuser=True)
        note = _note()
        note.unlink(missing_ok=True)
        with os.fdopen(os.open(note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(password + "\n")
        return user
