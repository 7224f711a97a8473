"""The page Evaluation in a real browser: reports as they are kept, at every width, with table twins."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from apps.accounts.models import User
from apps.accounts.services import membership_set, project_create, user_create
from apps.evaluation import reports
from apps.evaluation.faultbench.figures import summary
from tests.stack import LiveStack
from tests.unit.evaluation.outcomes import some_outcomes

pytestmark = pytest.mark.browser


@pytest.fixture
def reviewer(live_stack: LiveStack) -> User:
    user = user_create(username="rhea", password="a long river runs", full_name="Rhea Ost")
    project = project_create(user=None, name="Fields")
    membership_set(project=project, username="rhea", role="administrator")
    return user


@pytest.fixture
def kept(live_stack: LiveStack) -> Path:
    """A report on disk; RSURE_EVALUATION_REPORT names a real one to look at."""
    given = os.environ.get("RSURE_EVALUATION_REPORT")
    if given:
        return reports.save("faults", json.loads(Path(given).read_text()))
    report: dict[str, Any] = {
        "cases": 2,
        "faults_tried": 2,
        "is_whole": True,
        "is_unseen": False,
        "verifier_version": "calibrated-1",
        "fault_kinds": [],
        "honest_not_right": [],
        **summary(some_outcomes(), n_boot=20),
    }
    report["let_through"] = [
        {"case": "a", "fault": "power_of_ten", "configuration": "verification_prior", "value": 5.0, "right": 0.5}
    ]
    return reports.save("faults", report)


def test_figures_and_their_tables(page: Page, reviewer: User, kept: Path, sign_in: Callable[[Any], None]) -> None:
    sign_in(reviewer)
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Evaluation").click()
    expect(page.get_by_role("heading", name="Fault bench", exact=True)).to_be_visible()
    row = page.get_by_role("row", name="R_prop").first
    expect(row).to_contain_text("%")
    table = page.locator("#seen-bins")
    expect(table).to_be_hidden()
    page.get_by_role("region", name="Reliability diagram", exact=True).get_by_role("button", name="Table").click()
    expect(table).to_be_visible()
    shots = os.environ.get("RSURE_SHOTS")
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            if shots:
                page.screenshot(path=f"{shots}/evaluation-{width}-{scheme}.png", full_page=True)
    found = Axe().run(page)
    assert found.response["violations"] == [], found.generate_report()


def test_what_was_not_measured_here_comes_from_the_release(page: Page, reviewer: User, sign_in: Callable[[Any], None]) -> None:
    for one in reports.kept():
        one.path.unlink()
    sign_in(reviewer)
    page.goto("/evaluation/")
    expect(page.get_by_text("measured for the release, not on this machine").first).to_be_visible()
    # recorded runs too: their sections, a diagram with its table, and the account of what is not caught
    runs = page.get_by_role("region", name="Recorded runs of other agents")
    expect(runs.get_by_role("heading", name="Errors that reach the answer")).to_be_visible()
    expect(runs.get_by_role("row", name="R_prop: of those, answered wrongly")).to_contain_text("0.56")
    bins = page.locator("[id^=trajectories][id$=-bins]").first
    expect(bins).to_be_hidden()
    runs.get_by_role("button", name="Table of An observation is right, strict labels").click()
    expect(bins).to_be_visible()
    part = runs.locator("details.part").filter(has_text="By tool").first
    expect(part.get_by_role("table")).to_be_hidden()
    part.locator("summary").click()
    expect(part.get_by_role("table")).to_be_visible()
    page.get_by_role("navigation", name="On this page").get_by_role("link", name="What is not caught").click()
    expect(page.get_by_role("heading", name="What is not caught, and why", exact=True)).to_be_in_viewport()
    expect(page.locator("#account li").first).to_be_visible()
    expect(page.get_by_text("No verdict on an observation with a probability yet")).to_be_visible()
