"""The page Models in a browser: from the menu to a card, its scores opened by keyboard, accessible at every width and theme."""

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.accessible import looked_at

pytestmark = [pytest.mark.browser]


def test_models_are_found_read_and_accessible(page: Page, analyst: Any, sign_in: Callable[[Any], None]) -> None:
    sign_in(analyst)
    page.goto("/models/#nadir3")
    section = page.locator("section#nadir3")
    expect(section.get_by_role("heading", name="Must not be used for")).to_be_visible()
    expect(section.get_by_role("row", name="plane")).to_contain_text("experimental")
    opener = section.get_by_text("All scores of the card")
    opener.focus()
    page.keyboard.press("Enter")
    expect(section.get_by_role("table", name="Scores of nadir3")).to_be_visible()
    looked_at(page, "models")
