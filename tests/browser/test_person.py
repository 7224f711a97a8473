"""What a person does on an observation beside a verdict, by keyboard: asks for evidence, and sees what it came to."""

import os
import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.prior.selectors import prior_digest, prior_rebuild
from apps.runs.models import ObservationRow, Run
from apps.runs.selectors import run_state
from tests.browser.accessible import axe_findings

pytestmark = pytest.mark.browser

SOON = 60_000
SignIn = Callable[[Any], None]
Answered = Callable[..., Run]


def settled(page: Page) -> None:
    expect(page.locator("#observation[data-live-done]")).to_be_attached(timeout=SOON)


def looked_at(page: Page, name: str) -> None:
    """axe on the page as it stands, at three widths in light and dark; pictures where a folder is named."""
    problems = []
    for scheme in ("light", "dark"):
        for width, height in ((1440, 900), (1024, 768), (390, 844)):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(150)
            problems += [f"{width} {scheme} {name}: {p}" for p in axe_findings(page)]
            if folder := os.environ.get("RSURE_SHOTS"):
                page.screenshot(path=f"{folder}/{name}-{width}-{scheme}.png")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert problems == []


def test_evidence_is_asked_for_executed_and_shown_by_keyboard(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    digest, answer = prior_digest(prior_rebuild()), run_state(run.pk).answer
    sign_in(analyst)
    page.goto(f"/observations/{row.pk}/")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys on this page")
    expect(keys.get_by_role("row", name=re.compile("Ask for evidence"))).to_contain_text("E")
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    dialog = page.get_by_role("dialog", name="Ask for evidence")
    expect(dialog.get_by_role("button", name=re.compile("recompute"))).to_be_visible()
    dialog.get_by_text("What cannot be asked for here").click()
    expect(dialog).to_contain_text("No detector was used.")
    looked_at(page, "evidence-dialog")
    dialog.focus()
    page.keyboard.press("1")
    expect(page.get_by_role("status").filter(has_text="Asked for: recompute")).to_be_visible()
    expect(page.locator("[data-ask=answered]")).to_contain_text("analyst asked for evidence: recompute", timeout=SOON)
    settled(page)
    looked_at(page, "evidence-answered")
    state = run_state(run.pk)
    (request,) = state.observations[row.pk].requests
    assert request.outcome == "answered" and state.answer == answer
    assert prior_digest(prior_rebuild()) == digest
    # asked again, the page says why not
    page.keyboard.press("e")
    expect(dialog).to_contain_text("It was asked for already: answered.")
    page.keyboard.press("Escape")
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(f"#obs-{request.supporting_id} [data-serves]")).to_contain_text("Asked for by analyst (recompute)")
    looked_at(page, "evidence-trace")


def test_what_was_measured_elsewhere_leads_there(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares of water are there?")
    state = run_state(run.pk)
    mask = next(o for o in state.history if o.observation.tool == "perceive")
    area = next(o for o in state.history if o.observation.tool == "measure")
    sign_in(analyst)
    page.goto(f"/observations/{area.id}/")
    page.keyboard.press("e")
    dialog = page.get_by_role("dialog", name="Ask for evidence")
    expect(dialog).to_contain_text("Nothing can be asked for on this observation.")
    dialog.get_by_role("link", name="observation 1").press("Enter")
    page.wait_for_url(re.compile(mask.id))
