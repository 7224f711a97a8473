"""What is marked on the map is segmented and measured: a drawn disc, by pointer and by keys; its looks at three widths."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from playwright.sync_api import Page, expect
from pyproj import Transformer
from rasterio.transform import from_origin

from apps.accounts.models import Project, User
from apps.core.evidence.prompt import Prompt
from apps.runs.models import Run
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.browser.accessible import marking_looked_at
from tests.scenes import scene_of_file

pytestmark = pytest.mark.browser

SignIn = Callable[[Any], None]
SOON = 60_000
# 200 × 240 pixels of 2 m; the disc has 40 pixels of radius about row 100, column 120
RADIUS_PX, PIXEL_M = 40, 2.0
TRUTH_M2 = np.pi * (RADIUS_PX * PIXEL_M) ** 2


@pytest.fixture
def disc(tmp_path: Path, project: Project) -> Any:
    rows, cols = np.mgrid[:200, :240] + 0.5
    inside = (rows - 100) ** 2 + (cols - 120) ** 2 <= RADIUS_PX**2
    data = np.where(inside, 180, 80) + np.random.default_rng(3).normal(0, 6, inside.shape)
    path = tmp_path / "disc.tif"
    with rasterio.open(path, "w", driver="GTiff", height=200, width=240, count=1, dtype="uint8", crs="EPSG:32632",
                       transform=from_origin(600000, 5600400, PIXEL_M, PIXEL_M)) as d:  # fmt: skip
        d.write(np.stack([data.clip(0, 255).astype("uint8")]))
    return scene_of_file(project=project, path=path)


def asked(user: User, scene: Any, text: str, *marks: Prompt) -> Run:
    run = run_start(user=user, project=scene.project, text=text, scenes=[scene], prompts=marks, enqueue=False)
    assert run_execute_now(run_id=run.pk)
    run.refresh_from_db()
    return run


def over(page: Page, col: float, row: float) -> tuple[float, float]:
    """Where a pixel lies on the screen, by what the read-out says at two places of the map."""
    box = page.locator("#map .map-canvas").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    read = []
    for by in (0, 120):
        page.mouse.move(x + by, y + by)
        found = re.search(r"px (\d+), (\d+)", page.locator("#map-status [data-read=pixel]").inner_text())
        assert found
        read.append((int(found[1]), int(found[2])))
    (c0, r0), (c1, r1) = read
    return x + (col - c0) * 120 / (c1 - c0), y + (row - r0) * 120 / (r1 - r0)


def test_a_click_and_a_stroke_give_the_area_of_the_disc(page: Page, analyst: User, disc: Any, sign_in: SignIn) -> None:
    first = asked(analyst, disc, "Segment this")
    assert first.error_code == "NEEDS_PROMPTS"
    sign_in(analyst)
    page.goto(f"/runs/{first.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    # what is missing is what the page offers to do
    page.locator("#answer [data-prompts-start]").click()
    panel = page.locator("#map [data-map-panel=prompts]")
    expect(panel).to_be_visible()
    page.mouse.click(*over(page, 120, 100))
    field = page.get_by_label("Marks, one a line")
    expect(field).to_have_value(re.compile(r"^in [\d.]+, [\d.]+$"))
    # with Shift a stroke outside, beside the disc
    start, end = over(page, 70, 45), over(page, 170, 45)
    page.keyboard.down("Shift")
    page.mouse.move(*start)
    page.mouse.down()
    page.mouse.move(*end, steps=6)
    page.mouse.up()
    page.keyboard.up("Shift")
    expect(field).to_have_value(re.compile(r"\nout [\d.]+, [\d.]+; "))
    expect(panel.get_by_role("status")).to_have_text("1 point inside, 1 stroke outside")
    expect(page.locator(".prompt-pin")).to_have_count(1)
    panel.get_by_role("button", name="Done").click()
    expect(panel).to_be_hidden()
    page.get_by_label("Ask about the same imagery").fill("How large is what I marked, in m²?")
    page.locator("#tab-ask").get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(lambda url: str(first.pk) not in url)
    said = page.locator("#answer").get_by_text(re.compile(r"Area of the mask that grew from the marks is [\d,]+ m²"))
    expect(said).to_be_visible(timeout=SOON)
    run = Run.objects.get(pk=page.url.rstrip("/").rsplit("/", 1)[1])
    answer = run_state(run.pk).answer
    assert answer is not None and answer.value == pytest.approx(TRUTH_M2, rel=0.03)
    low, high = answer.interval or (0.0, 0.0)
    assert low <= TRUTH_M2 <= high
    # marks and mask stand on the map, and on the observation
    expect(page.locator(".prompt-pin")).to_have_count(1)
    expect(page.locator("#run-layers").get_by_text("what was marked", exact=False).first).to_be_visible()
    page.locator("#answer .cite").first.click()
    expect(page.locator("path.geo-core.marks").first).to_be_attached()


def test_marks_are_set_and_taken_back_by_keys(page: Page, analyst: User, disc: Any, sign_in: SignIn) -> None:
    run = asked(analyst, disc, "Segment this")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    page.locator("#map .map-canvas").focus()
    page.keyboard.press("q")
    tool = page.locator("#map [data-map=prompt]")
    expect(tool).to_have_attribute("aria-pressed", "true")
    field = page.get_by_label("Marks, one a line")
    page.keyboard.press("Enter")
    expect(field).to_have_value(re.compile(r"^in [\d.]+, [\d.]+$"))
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Shift+Enter")
    expect(field).to_have_value(re.compile(r"\nout "))
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(field).to_have_value("")
    page.keyboard.press("Escape")
    expect(tool).to_have_attribute("aria-pressed", "false")
    # what is typed stands on the map; what is no mark is told
    page.get_by_role("tab", name="Ask").click()
    field.fill("in 10.41, 50.54\nbox 10.40, 50.53, 10.42, 50.55\nsomewhere")
    expect(field).to_have_attribute("aria-invalid", "true")
    expect(page.locator("#ask-prompts").get_by_role("status")).to_have_text("Line 3 is no mark.")
    expect(page.locator(".prompt-pin")).to_have_count(1)
    page.get_by_role("button", name="Clear the marks").click()
    expect(page.locator(".prompt-pin")).to_have_count(0)
    # outside of the imagery: said by the page, and nothing is begun
    field.fill("in 1.0, 2.0")
    page.get_by_label("Ask about the same imagery").fill("Segment this")
    page.locator("#tab-ask").get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="lies outside the imagery")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_prompts_in_both_themes_at_three_widths(page: Page, analyst: User, disc: Any, sign_in: SignIn, theme: str) -> None:
    marks = (
        Prompt(kind="point", places=((120.5, 100.5),), crs="image"),
        Prompt(kind="stroke", places=((30, 20), (120, 15), (200, 30)), inside=False, crs="image"),
        Prompt(kind="box", places=((78, 58), (162, 142)), crs="image"),
    )
    to_degrees = Transformer.from_crs("EPSG:32632", "EPSG:4326", always_xy=True).transform
    in_degrees = []
    for mark in marks:
        at = [to_degrees(600000 + PIXEL_M * c, 5600400 - PIXEL_M * r) for c, r in mark.places]
        if mark.kind == "box":
            (west, north), (east, south) = at
            at = [(west, south), (east, north)]
        in_degrees.append(mark.model_copy(update={"places": tuple(at), "crs": "EPSG:4326"}))
    run = asked(analyst, disc, "How large is what I marked?", *in_degrees)
    needs = asked(analyst, disc, "Segment this")
    sign_in(analyst)
    marking_looked_at(
        page,
        "prompts",
        theme,
        marked=run.pk,
        needs=needs.pk,
        button="Segment",
        opened=lambda _: page.locator("#map [data-map=prompt]").click(),
        field="Marks, one a line",
    )
