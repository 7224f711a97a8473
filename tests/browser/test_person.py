"""What a person does on an observation beside a verdict, by keyboard: asks for evidence, and sees what it came to."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.prior.selectors import prior_digest, prior_rebuild
from apps.runs.models import ObservationRow, Run
from apps.runs.selectors import run_state
from tests.browser.accessible import looked_at

pytestmark = pytest.mark.browser

SOON = 60_000
SignIn = Callable[[Any], None]
Answered = Callable[..., Run]


def settled(page: Page) -> None:
    expect(page.locator("#observation[data-live-done]")).to_be_attached(timeout=SOON)


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


def test_a_value_is_changed_and_the_answer_follows_by_keyboard(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("What is the mean NDVI?")
    row = ObservationRow.objects.get(run=run)
    digest, answer = prior_digest(prior_rebuild()), run_state(run.pk).answer
    sign_in(analyst)
    page.goto(f"/observations/{row.pk}/")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys on this page")
    expect(keys.get_by_role("row", name=re.compile("Change the value or geometry"))).to_contain_text("C")
    page.keyboard.press("Escape")
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog", name="Change what it says")
    value = dialog.get_by_label("It should be")
    expect(value).to_have_value(re.compile("^0.53"))
    value.focus()
    # what cannot be is said in the dialog, which stays
    page.keyboard.press("Control+a")
    page.keyboard.type("2")
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("alert")).to_contain_text("outside of")
    looked_at(page, "change-value")
    value.focus()
    page.keyboard.press("Control+a")
    page.keyboard.type("0.6")
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(page.get_by_role("status").filter(has_text="0.530 → 0.600")).to_be_visible()
    expect(page.locator(".oh h1")).to_contain_text("0.600", timeout=SOON)
    expect(page.locator(".oh")).to_contain_text("Answer:", timeout=SOON)
    settled(page)
    expect(page.locator(".oh h1 s")).to_have_text("0.530")
    expect(page.locator(".oh .mark.m")).to_contain_text("Accepted")
    expect(page.locator(".oh .mark.p")).to_contain_text("Wrong · analyst")
    looked_at(page, "changed-value")
    assert run_state(run.pk).answer.value == 0.6  # type: ignore[union-attr]
    assert prior_digest(prior_rebuild()) != digest
    page.locator(".oh h1 a").press("Enter")
    page.wait_for_url(lambda url: row.pk not in url)
    expect(page.locator(".oh")).to_contain_text("Not the machine’s value")
    looked_at(page, "value-of-a-person")
    page.goto(f"/observations/{row.pk}/")
    changed, there = prior_digest(prior_rebuild()), run_state(run.pk).answer
    page.keyboard.press("Control+z")
    expect(page.get_by_role("status").filter(has_text="Undone: Wrong")).to_contain_text("Ctrl Shift Z")
    expect(page.locator(".oh h1 s")).to_have_count(0, timeout=SOON)
    settled(page)
    looked_at(page, "undone")
    page.keyboard.press("?")
    expect(keys.get_by_role("row", name=re.compile("Redo"))).to_contain_text("Ctrl Shift Z")
    page.keyboard.press("Escape")
    page.keyboard.press("Control+Shift+Z")
    expect(page.locator(".oh h1 a")).to_have_text("0.600", timeout=SOON)
    settled(page)
    assert prior_digest(prior_rebuild()) == changed and run_state(run.pk).answer == there
    page.keyboard.press("Control+z")
    expect(page.locator(".oh h1 s")).to_have_count(0, timeout=SOON)
    settled(page)
    assert prior_digest(prior_rebuild()) == digest and run_state(run.pk).answer == answer


def test_pieces_of_a_mask_are_taken_away_by_keyboard(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares of water are there?")
    mask = next(o for o in run_state(run.pk).history if o.observation.tool == "perceive")
    n = mask.observation.layer("mask").n  # type: ignore[union-attr]
    sign_in(analyst)
    page.goto(f"/observations/{mask.id}/")
    page.keyboard.press("c")
    dialog = page.get_by_role("dialog", name="Change what it says")
    first = dialog.get_by_role("checkbox").first
    expect(first).to_be_visible()
    first.press("Space")
    looked_at(page, "change-parts")
    dialog.get_by_role("button", name="Change it").press("Enter")
    expect(page.locator(".oh h1 a")).to_contain_text("px", timeout=SOON)
    settled(page)
    state = run_state(run.pk)
    mine = state.correction_of(mask.id)
    assert mine is not None and n is not None
    assert mine.observation.layer("mask").n < n  # type: ignore[union-attr, operator]
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator(f"#obs-{mine.id}")).to_contain_text("Value of analyst")
    looked_at(page, "changed-trace")
