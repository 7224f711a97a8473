"""A browser of the analyst's, for all tests of imagery."""

from typing import TYPE_CHECKING

import pytest
from django.test import Client

if TYPE_CHECKING:
    from apps.accounts.models import User


@pytest.fixture
def client(analyst: "User") -> Client:
    held = Client()
    held.force_login(analyst)
    return held
