"""The stack under the tests is the real one."""

import pytest
from django.conf import settings
from django.db import connection
from django.test import Client


@pytest.mark.django_db
def test_database_is_postgis() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT postgis_version()")
        row = cursor.fetchone()
    assert row is not None
    assert row[0].startswith("3.")
    assert connection.settings_dict["NAME"].startswith("test_rsure")


@pytest.mark.django_db
def test_healthz_tells_that_database_and_broker_answer(client: Client) -> None:
    answer = client.get("/healthz")
    assert answer.status_code == 200
    assert answer.json() == {"ok": True, "database": True, "broker": True}


@pytest.mark.django_db
def test_healthz_is_503_without_broker(client: Client, settings: object) -> None:
    settings.REDIS_URL = "unix:///nonexistent/valkey.sock"  # type: ignore[attr-defined]
    answer = client.get("/healthz")
    assert answer.status_code == 503
    assert answer.json()["broker"] is False


def test_secret_key_is_private() -> None:
    path = settings.RSURE_HOME / "secret_key"
    assert path.stat().st_mode & 0o777 == 0o600
    assert len(path.read_text()) >= 50
