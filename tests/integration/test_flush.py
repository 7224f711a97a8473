"""The flush between tests goes through although another process reads the tables that it locks."""

import re
import threading
import time

import psycopg
import pytest
from django.core.management import call_command
from django.core.management.color import no_style
from django.core.management.sql import sql_flush
from django.db import connection

from apps.accounts.models import User
from apps.accounts.services import user_create

WAITING = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE 'TRUNCATE%'"
)


@pytest.mark.django_db(transaction=True)
def test_a_flush_that_loses_a_deadlock_is_done_again() -> None:
    user_create(username="leftover", password="a long enough passphrase", full_name="")
    tables = re.findall(r'"(\w+)"', sql_flush(no_style(), connection)[0])
    first, last = tables[0], tables[-1]
    parts = connection.settings_dict
    reader = psycopg.connect(
        host=parts["HOST"],
        port=parts["PORT"] or None,
        user=parts["USER"],
        password=parts["PASSWORD"] or None,
        dbname=parts["NAME"],
    )
    reader.execute(f'LOCK TABLE "{last}" IN ACCESS SHARE MODE')
    ended: list[str] = []

    def read_the_other_way_round() -> None:
        # the flush holds the first table and waits for the last one, the reader waits for the first one: a deadlock
        with psycopg.connect(reader.info.dsn, password=parts["PASSWORD"] or None, autocommit=True) as looker:
            end = time.monotonic() + 20
            while looker.execute(WAITING).fetchone() == (0,) and time.monotonic() < end:
                time.sleep(0.02)
        try:
            reader.execute(f'SELECT count(*) FROM "{first}"')
            ended.append("read")
        except psycopg.errors.DeadlockDetected:
            ended.append("lost")
        reader.close()

    other = threading.Thread(target=read_the_other_way_round)
    other.start()
    call_command("flush", verbosity=0, interactive=False, allow_cascade=False, inhibit_post_migrate=True)
    other.join(timeout=30)
    # the reader got its rows: it was the flush that lost, and that was done again
    assert ended == ["read"]
    assert not User.objects.exists()
