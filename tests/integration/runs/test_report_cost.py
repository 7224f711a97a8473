"""What the page of a report costs: no query for each observation, and no row for each check that found the same."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from apps.accounts.models import User
from apps.core.evidence.events import DecisionMade, ObservationRecorded
from apps.core.ids import new_id
from apps.runs import selectors
from apps.runs.models import Run
from apps.runs.report_page import steps_text
from apps.runs.services import event_append


def grown(run: Run, n: int) -> None:
    """Records the run's first observation n times more, as steps 2, 3, …, with its checks and decision."""
    held = next(iter(selectors.run_state(run.pk).observations.values()))
    assert held.decision is not None and held.observation.step == 1
    for k in range(2, n + 2):
        again = held.observation.model_copy(update={"id": new_id(), "step": k})
        event_append(run_id=run.pk, event=ObservationRecorded(at=timezone.now(), observation=again, call_key=f"again {k}"))
        event_append(
            run_id=run.pk,
            event=DecisionMade(at=timezone.now(), observation_id=again.id, checks=held.checks, decision=held.decision),
        )
    run.refresh_from_db()


def test_more_observations_cost_no_more_queries(analyst: User, ask: Any) -> None:
    run = ask("How many hectares have NDVI above 0.4?")
    client = Client()
    client.force_login(analyst)
    n_queries, pages = [], []
    for more in (0, 20):
        grown(run, more)
        with CaptureQueriesContext(connection) as asked:
            pages.append(client.get(f"/runs/{run.pk}/report/").content.decode())
        n_queries.append(len(asked))
    assert n_queries[0] == n_queries[1] <= 12
    # passed checks that found the same are one row that names their steps, and all are counted
    counts = [int(re.search(r"(\d+) checks? passed", page)[1]) for page in pages]  # type: ignore[index]
    tables = [page.split('aria-label="Rule checks that passed"')[1].split("</table>")[0] for page in pages]
    passed = [c for c in next(iter(selectors.run_state(run.pk).observations.values())).checks if c.outcome == "passed"]
    assert counts == [len(passed), 21 * len(passed)]
    assert tables[0].count("<tr>") == tables[1].count("<tr>") == 1 + len({(c.check, c.message) for c in passed})
    assert tables[1].count('<td class="num">1 to 21</td>') == tables[1].count("<tr>") - 1


@pytest.mark.parametrize(
    ("steps", "text"),
    [([], ""), ([4], "4"), ([1, 2], "1, 2"), ([2, 1, 3, 3, 7, 9, 8, 12, 13], "1 to 3, 7 to 9, 12, 13")],
)
def test_steps_are_told_by_their_ends(steps: list[int], text: str) -> None:
    assert steps_text(steps) == text
