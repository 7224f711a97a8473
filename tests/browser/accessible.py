"""What a page is like at each width and in each theme: axe, sideways scrolling, text that is cut off; and a picture of it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

# width to height: a desk, a small laptop, a phone
WIDTHS = {1440: 900, 1024: 768, 390: 844}
THEMES = ("light", "dark")


def axe_findings(page: Page) -> list[str]:
    """One line for each node that breaks a rule: the rule, and how the node begins."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]


def pictured(page: Page, name: str) -> None:
    """Keeps a picture for whoever wants to look (RSURE_SHOTS names the folder)."""
    if folder := os.environ.get("RSURE_SHOTS"):
        page.screenshot(path=str(Path(folder) / f"{name}.png"), full_page=True)


def problems_of(page: Page, name: str) -> list[str]:
    """What is wrong with the page as it stands: what axe finds, and a page that scrolls sideways."""
    pictured(page, name)
    problems = axe_findings(page)
    if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
        problems.append("scrolls sideways")
    return [f"{name}: {problem}" for problem in problems]


def looked_at(page: Page, name: str) -> None:
    """Asserts that nothing is wrong with the page as it stands, at three widths in light and dark."""
    problems = []
    for theme in THEMES:
        for width, height in WIDTHS.items():
            page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(150)
            problems += problems_of(page, f"{name}-{theme}-{width}")
    page.set_viewport_size({"width": 1440, "height": 900})
    assert not problems, "\n".join(problems)


def marking_looked_at(
    page: Page, name: str, theme: str, *, marked: object, needs: object, button: str, opened: Callable[[bool], None], field: str
) -> None:
    """Asserts that nothing is wrong where marks are set: on pages of a run with marks and of one that needs them, and at home.

    Args:
        marked, needs: ids of the two runs.
        button: what opens the tool at home.
        opened: opens the tool on a run's page whose ask tab is open; told whether the run has marks.
        field: label of what is seen when the tool is open.
    """
    page.emulate_media(color_scheme=theme)  # type: ignore[arg-type]
    problems = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for what, address in (("marked", f"/runs/{marked}/"), ("needs", f"/runs/{needs}/"), ("home", "/")):
            page.goto(address)
            expect(page.locator("[data-island=map][data-ready]").first).to_be_visible()
            if what == "home":
                page.get_by_role("button", name=button, exact=True).click()
            else:
                page.get_by_role("tab", name="Ask").click()
                opened(what == "marked")
            expect(page.get_by_label(field, exact=True)).to_be_visible()
            problems += problems_of(page, f"{name}-{what}-{theme}-{width}")
    assert problems == []
