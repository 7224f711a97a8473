"""What an observation adds to the page of its run: runs of 200 observations are opened on slow lines too."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from django.test import Client

from apps.accounts.models import User
from apps.runs.models import Run

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
