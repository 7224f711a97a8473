"""Web, worker and browser of the tests are the real processes on the test database."""

from typing import TYPE_CHECKING, Any

import pytest
from django.contrib.auth import get_user_model

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.stack import LiveStack


def test_worker_comes_back_after_a_kill(live_stack: "LiveStack") -> None:
    live_stack.worker_kill()
    assert live_stack.worker is not None
    assert live_stack.worker.poll() is not None
    live_stack.worker_start()
    assert live_stack.worker.poll() is None


@pytest.mark.browser
def test_browser_reaches_the_web_process_and_its_policy_stands(page: "Page", live_stack: "LiveStack") -> None:
    answer = page.goto("/healthz")
    assert answer is not None
    assert answer.json() == {"ok": True, "database": True, "broker": True}
    assert "script-src 'self' 'nonce-" in answer.headers["content-security-policy"]


@pytest.mark.browser
def test_a_user_made_in_the_test_is_known_to_the_web_process(page: "Page", sign_in: Any) -> None:
    user = get_user_model().objects.create_superuser("ada", password="no form is used here")
    sign_in(user)
    page.goto("/admin/")
    assert page.locator("#user-tools").inner_text().lower().startswith("welcome, ada")
