"""The fold that pages share: equal to a whole fold, folded once for many fragments, and blind to what was rolled back."""

from typing import Any

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.core.evidence.events import ProgressReported
from apps.runs import selectors
from apps.runs.mapview import map_config
from apps.runs.models import Run
from apps.runs.selectors import access_run_by_id, run_state, run_state_shown
from apps.runs.services import event_append

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def run(analyst: Any, ask: Any) -> Run:
    ask("How many hectares have NDVI above 0.4?")
    return access_run_by_id(analyst, Run.objects.get().pk)


def progress(run: Run, n: int) -> None:
    event_append(run_id=run.pk, event=ProgressReported(at=timezone.now(), step=9, done=n, total=9, message=""))
    run.refresh_from_db()


def test_many_fragments_fold_once_and_a_new_event_is_added_alone(run: Run) -> None:
    first = run_state_shown(run)
    assert first == run_state(run.pk)
    with CaptureQueriesContext(connection) as again:
        assert run_state_shown(run) is first
    assert len(again) == 0
    progress(run, 1)
    with CaptureQueriesContext(connection) as later:
        second = run_state_shown(run)
    assert second == run_state(run.pk)
    assert len(later) == 1
    assert f'"seq" > {first.seq}' in later[0]["sql"]
    # what was handed out before does not change under its reader
    assert first.seq == second.seq - 1
    assert first.progress == {}


def test_what_is_rolled_back_was_never_there(run: Run) -> None:
    run_state_shown(run)

    class RolledBackError(Exception):
        pass

    with pytest.raises(RolledBackError), transaction.atomic():
        progress(run, 5)
        assert run_state_shown(run).progress[9].done == 5
        raise RolledBackError
    run.refresh_from_db()
    progress(run, 7)
    assert run_state_shown(run).progress[9].done == 7


def test_the_store_is_bounded(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selectors, "_KEPT", 1)
    run_state_shown(run)
    assert len(selectors._shown) == 1


def test_a_raster_that_is_all_that_was_found_is_shown_and_stands_back_behind_a_mask(ask: Any) -> None:
    def shown(text: str) -> dict[str, bool]:
        layers = map_config(run_state(ask(text).pk))["layers"]
        return {layer["style"]: layer["visible"] for layer in layers if layer["group"] == "Results"}

    assert shown("What is the mean NDVI?") == {"raster": True}
    assert shown("How many hectares have NDVI above 0.4?") == {"mask": True, "raster": False}
