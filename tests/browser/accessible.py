"""What axe finds on a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page


def axe_findings(page: Page) -> list[str]:
    """One line for each node that breaks a rule: the rule, and how the node begins."""
    found = Axe().run(page).response["violations"]
    return [f"{rule['id']}: {node['html'][:160]}" for rule in found for node in rule["nodes"]]
