"""What an observation adds to the page of its run: runs of 200 observations are opened on slow lines too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from apps.accounts.models import User
from apps.core.evidence.events import AnswerGiven
from apps.runs import selectors, views
from apps.runs.models import Run
from apps.runs.services import event_append
from tests.integration.runs.test_report_cost import grown

pytestmark = pytest.mark.django_db


def test_what_all_steps_share_stands_on_the_page_once(client: Client, analyst: User, ask: Callable[..., Run]) -> None:
    run = ask("How many hectares of water are there?")
    client.force_login(analyst)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    steps = re.findall(r'<li class="st[^"]*" id="obs-.*?</li>', page, re.DOTALL)
    assert len(steps) >= 2 and all(re.search(r'data-about-post="/observations/[^"]+/verdict/"', s) for s in steps)
    assert max(map(len, steps)) < 3600, [len(s) for s in steps]
    # the reasons of a verdict are asked for by one dialog
    assert page.count('data-key-name="reason.missed"') == 1 == page.count('id="why"')
    assert "<dialog" not in "".join(steps)


def test_a_long_run_shows_first_what_waits_and_fetches_the_rest(client: Client, analyst: User, ask: Callable[..., Run]) -> None:
    run = ask("How many hectares have NDVI above 0.4?")
    grown(run, 199)
    state = selectors.run_state(run.pk)
    assert state.answer is not None
    told = state.answer.model_copy(update={"based_on": tuple(state.observations), "claims": ()})
    event_append(run_id=run.pk, event=AnswerGiven(at=timezone.now(), answer=told, cause=""))
    client.force_login(analyst)
    page, rest = (client.get(f"/runs/{run.pk}/{query}").content.decode() for query in ("", "?steps=all"))
    assert len(page) < 150_000 < len(rest)
    assert [t.count('id="obs-') for t in (page, rest)] == [views.STEPS_SHOWN, 200]
    assert f"Show {200 - views.STEPS_SHOWN} more observations" in page and "more observations" not in rest
    # the live fragment stays as long as the person made it
    assert f'data-live-url="/runs/{run.pk}/rail/?steps=all"' in rest and f'data-live-url="/runs/{run.pk}/rail/"' in page
    assert client.get(f"/runs/{run.pk}/rail/?steps=all").content.decode().count('id="obs-') == 200
    assert page.count('aria-label="rests on observation') == views.CITES_SHOWN and "and 188 more" in page
    # a report has them all
    assert client.get(f"/runs/{run.pk}/report/").content.decode().count('aria-label="rests on observation') == 200


def test_what_waits_is_not_hidden_behind_what_was_accepted() -> None:
    steps = [{"is_open": at == 150} for at in range(200)]
    shown = views._shown_first(steps)
    assert len(shown) == views.STEPS_SHOWN and shown[-1] is steps[150] and shown[:-1] == steps[: views.STEPS_SHOWN - 1]
