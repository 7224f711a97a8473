"""The journeys of an analyst in Chromium: from a question to an answer, overridden, undone, asked of a region, by keyboard alone.

Web, worker, database and sockets are the real processes; what a page claims is compared with the log and with numpy.
"""

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rasterio
from playwright.sync_api import BrowserContext, Locator, Page, expect
from pyproj import Transformer
from rasterio.features import geometry_mask
from shapely import box, to_geojson

from apps.accounts.models import Project, User
from apps.imagery.models import Scene
from apps.prior.selectors import prior_digest, prior_head, prior_rebuild, prior_view
from apps.review.models import VerdictRecord
from apps.runs.models import ObservationRow, Run
from apps.runs.selectors import run_state
from tests.browser.conftest import FISH
from tests.stack import LiveStack

pytestmark = pytest.mark.browser

RUN_PAGE = re.compile(r"/runs/[0-9a-f-]{36}/$")
# what a busy machine may need for a run of a second
SOON = 60_000
SignIn = Callable[[Any], None]
Answered = Callable[..., Run]


def run_on(page: Page) -> Run:
    page.wait_for_url(RUN_PAGE)
    return Run.objects.get(pk=page.url.rstrip("/").rsplit("/", 1)[1])


def answer_of(page: Page) -> Locator:
    return page.locator("#answer .a1")


def settled(page: Page) -> None:
    """Until the page says that nothing more will come."""
    expect(page.locator("aside.wr[data-live-done]")).to_be_visible(timeout=SOON)


def ndvi_of_fish(inside: Callable[[Any], Any] | None = None) -> float:
    """Mean NDVI by numpy alone: zeros in all four bands are fill, pixels count whose centre lies inside the region."""
    with rasterio.open(FISH) as dataset:
        bands = dataset.read().astype(np.float64)
        keep = ~(bands == 0).all(axis=0)
        if inside is not None:
            keep &= inside(dataset)
    red, nir = bands[2], bands[3]
    return float(((nir - red) / (nir + red))[keep].mean())


def within(ring: list[list[float]]) -> Callable[[Any], Any]:
    """Pixels of a dataset whose centre lies in a ring of longitudes and latitudes."""

    def mask(dataset: Any) -> Any:
        to = Transformer.from_crs("EPSG:4326", dataset.crs, always_xy=True)
        native = [to.transform(lon, lat) for lon, lat in ring]
        shape = {"type": "Polygon", "coordinates": [native]}
        return geometry_mask([shape], dataset.shape, dataset.transform, invert=True)

    return mask


# --- first answer


def test_a_suggested_question_is_answered_in_two_clicks(
    page: Page, live_stack: LiveStack, analyst: User, scene: Scene, sign_in: SignIn
) -> None:
    sign_in(analyst)
    page.goto("/")
    page.get_by_role("button", name="How many hectares have NDVI above 0.4?").first.click()
    page.get_by_role("button", name="Ask", exact=False).and_(page.locator(".askb .pri")).click()
    run = run_on(page)
    expect(answer_of(page)).to_contain_text(re.compile(r"302\.[34]"), timeout=SOON)
    settled(page)
    # a worker in its own process did it, and the answer names what it rests on
    assert "runs.tasks.run_execute" in live_stack.log("worker")
    state = run_state(run.pk)
    assert state.answer is not None and state.answer.value == pytest.approx(302.35, abs=0.1)
    cites = page.locator("#answer .cite")
    assert cites.count() == len(state.answer.based_on) > 0
    expect(page.locator("#answer")).to_contain_text(f"0 of {len(state.answer.based_on)} observation")
    assert Run.objects.count() == 1


# --- override and undo


def test_an_override_revises_the_answer_and_undo_restores_all(
    page: Page, context: BrowserContext, analyst: User, project: Project, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("How many hectares have NDVI above 0.4?")
    rests_on = run_state(run.pk).answer.based_on[0]  # type: ignore[union-attr]
    row = ObservationRow.objects.get(pk=rests_on)
    key = {"task_type": row.task_type, "tool": row.tool, "coarse": row.coarse, "fine": row.fine}
    prior, digest, head = prior_view(**key), prior_digest(prior_rebuild()), prior_head()
    analyst.is_staff = True  # the prior's page is an administrator's
    analyst.save()
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    first = answer_of(page).inner_text()
    assert "302.3" in first or "302.4" in first

    # from the trace of the run page, with a reason
    step = page.locator(f"#obs-{rests_on}")
    step.get_by_role("button", name="Wrong…").click()
    number = step.locator(".sn").inner_text()
    why = page.get_by_role("dialog", name=f"What is wrong with observation {number}?")
    why.get_by_role("button", name="Mask or boxes lie on something else").click()
    toast = page.get_by_role("status").filter(has_text="Recorded: Wrong")
    expect(toast).to_be_visible()
    expect(page.locator("#answer [data-revised]")).to_contain_text("302.", timeout=SOON)
    settled(page)
    assert answer_of(page).inner_text() != first
    expect(step.locator(".ver")).to_contain_text("Wrong")
    assert prior_head() == head + 1
    assert prior_view(**key).r_hat < prior.r_hat
    other = context.new_page()
    other.goto("/priors/")
    other.locator("table.heat td a").first.click()
    expect(other.locator("#cell .ver.wrong")).to_have_count(1)
    other.close()

    # undo by the toast
    toast.get_by_role("button", name=re.compile("Undo")).click()
    expect(answer_of(page)).to_have_text(re.compile("302\\."), timeout=SOON)
    settled(page)
    expect(answer_of(page)).to_have_text(first)
    assert prior_view(**key) == prior.model_copy(update={"version": prior_view(**key).version})
    assert prior_digest(prior_rebuild()) == digest

    # once more from the observation's page, undone by key
    page.goto(f"/observations/{rests_on}/")
    page.keyboard.press("r")
    expect(page.get_by_role("dialog", name="What is wrong?")).to_be_visible()
    page.keyboard.press("1")
    expect(page.locator(".vbar")).to_contain_text("Undo wrong", timeout=SOON)
    expect(page.locator(".oh")).to_contain_text("Answer:", timeout=SOON)
    assert prior_digest(prior_rebuild()) != digest
    page.keyboard.press("Control+z")
    expect(page.locator(".vbar")).not_to_contain_text("Undo wrong", timeout=SOON)
    expect(page.locator("#observation[data-live-done]")).to_be_attached(timeout=SOON)
    page.goto(f"/runs/{run.pk}/")
    expect(answer_of(page)).to_have_text(first)
    assert prior_digest(prior_rebuild()) == digest
    assert VerdictRecord.objects.filter(undone_at__isnull=True).count() == 0
    state = run_state(run.pk)
    assert state.answer is not None and state.answer.value == pytest.approx(302.35, abs=0.1)


# --- region


def test_a_region_drawn_on_the_map_is_what_the_answer_is_about(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn
) -> None:
    whole = answered("What is the mean NDVI?")
    sign_in(analyst)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/runs/{whole.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    page.get_by_role("button", name="Draw a rectangle").click()
    canvas = page.locator("#map .map-canvas").bounding_box()
    assert canvas is not None
    x, y = canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2
    page.mouse.move(x - 90, y - 60)
    page.mouse.down()
    page.mouse.move(x + 30, y + 80, steps=5)
    page.mouse.up()
    field = page.locator("#id_region")
    expect(field).to_have_value(re.compile('^{"type":"Polygon"'))
    # the drawing leads to where it is asked about
    expect(page.get_by_label("Ask about the same imagery")).to_be_visible()
    page.get_by_label("Ask about the same imagery").fill("What is the mean NDVI?")
    page.locator("#tab-ask").get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(lambda url: str(whole.pk) not in url and RUN_PAGE.search(url) is not None)
    run = run_on(page)
    settled(page)
    state = run_state(run.pk)
    assert state.question is not None and state.question.region is not None and state.answer is not None
    assert not state.answer.abstained, state.answer.reason
    drawn: Any = state.question.region
    expected = ndvi_of_fish(within(drawn["coordinates"][0]))
    assert state.answer.value == pytest.approx(expected, rel=0.02)
    assert abs(expected - ndvi_of_fish()) > 0.03 * expected, "a region that says something"
    expect(answer_of(page)).to_contain_text(f"Mean NDVI is {state.answer.value:.2f}, interval")
    expect(page.locator("#run-layers")).to_contain_text("Region of the question")
    expect(page.locator("#map path.geo-core.region")).to_have_count(1)


def test_a_region_pasted_as_wkt(page: Page, analyst: User, scene: Scene, sign_in: SignIn) -> None:
    west, south, east, north = scene.scene_info.grid.lonlat_bounds()
    dx, dy = (east - west) / 5, (north - south) / 5
    ring = [[west + dx, south + 2 * dy], [east - 2 * dx, south + 2 * dy], [east - 2 * dx, north - dy], [west + dx, north - dy]]
    ring.append(ring[0])
    sign_in(analyst)
    page.goto("/")
    page.get_by_role("button", name="Region").first.click()
    field = page.get_by_label(re.compile("^Region:"))
    page.get_by_label("Your question").fill("What is the mean NDVI?")
    field.fill("no region at all")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="The region cannot be")).to_be_visible()
    assert Run.objects.count() == 0
    field.fill("POLYGON ((" + ", ".join(f"{x:.6f} {y:.6f}" for x, y in ring) + "))")
    page.keyboard.press("Control+Enter")
    run = run_on(page)
    settled(page)
    answer = run_state(run.pk).answer
    assert answer is not None and not answer.abstained
    assert answer.value == pytest.approx(ndvi_of_fish(within(ring)), rel=0.02)


# --- layers


def test_layers_are_switched_read_and_reached_on_a_narrow_screen(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("How many hectares have NDVI above 0.4?")
    sign_in(analyst)
    page.set_viewport_size({"width": 1024, "height": 800})
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    layers = page.locator("#layers-panel")
    expect(layers).to_be_hidden()
    page.keyboard.press("l")
    expect(layers).to_be_visible()
    mask, index = (layers.locator(".lay", has_text=re.compile(name)) for name in ("^NDVI mask", "^NDVI(?! mask)"))
    expect(mask.get_by_role("button", name="Show NDVI mask")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("m")
    expect(mask.get_by_role("button", name="Show NDVI mask")).to_have_attribute("aria-pressed", "false")
    page.keyboard.press("m")
    expect(mask.get_by_role("button", name="Show NDVI mask")).to_have_attribute("aria-pressed", "true")
    # a raster layer tells what its colours mean
    index.get_by_role("button", name="Show NDVI").click()
    ends = layers.locator(".lg-ends span").all_inner_texts
    expect(layers.locator(".lg-ends span")).to_have_count(3)
    low, middle, high = (float(text.replace("\u2212", "-")) for text in ends())
    assert -1 <= low < middle < high <= 1
    # one scene, no boxes: no buttons for them
    expect(page.get_by_role("button", name="Swipe")).to_have_count(0)
    expect(page.get_by_role("button", name="Boxes")).to_have_count(0)


# --- review


def test_a_rejected_observation_is_judged_from_the_list_and_leaves_it(
    page: Page, analyst: User, scene: Scene, answered: Answered, sign_in: SignIn
) -> None:
    # nine tenths of this region are fill: the machine rejects what it computed there
    west, south, east, north = scene.scene_info.grid.lonlat_bounds()
    wide, high = east - west, north - south
    area = box(west + 0.5 * wide, south + 0.7 * high, west + 0.98 * wide, south + 0.98 * high)
    run = answered("How many hectares have NDVI above 0.4?", region=json.loads(to_geojson(area)))
    rows = list(ObservationRow.objects.filter(run=run).order_by("recorded_at", "id"))
    row = rows[0]
    # the same by its formula written out was tried, and rejected for the same reason
    assert [r.decision for r in rows] == ["reject", "reject"]
    before = run_state(run.pk).answer
    assert before is not None and before.abstained
    sign_in(analyst)
    page.goto("/review/")
    page.get_by_role("link", name="Rejected by the machine").click()
    mine = page.locator(f".qq .q[href*='{row.pk}']")
    expect(mine).to_have_count(1)
    mine.click()
    expect(page.locator(".q.sel")).to_have_attribute("href", re.compile(row.pk))
    page.keyboard.press("a")
    expect(page.get_by_role("status").filter(has_text="Recorded: Right")).to_be_visible()
    page.goto("/review/")
    expect(page.locator(f".qq .q[href*='{row.pk}']")).to_have_count(0)
    row.refresh_from_db()
    assert row.verdict == "accept"
    # the person's word is what the answer rests on now
    page.goto(f"/runs/{run.pk}/")
    settled(page)
    after = run_state(run.pk).answer
    assert after is not None and not after.abstained and after.based_on == (row.pk,)
    expect(page.locator("#answer .conf")).to_contain_text("1 of 1 observation confirmed")
    expect(page.locator("#answer [data-revised]")).to_contain_text("I can't tell")


# --- keyboard alone


def tab_to(page: Page, target: Locator, limit: int = 80) -> None:
    """Presses Tab until the target has the focus; fails where it cannot be reached."""
    for _ in range(limit):
        page.keyboard.press("Tab")
        if target.evaluate("element => element === document.activeElement"):
            return
    raise AssertionError(f"not reached with {limit} Tabs: {target}")


def test_first_answer_verdict_and_undo_by_keyboard_alone(page: Page, analyst: User, scene: Scene, sign_in: SignIn) -> None:
    sign_in(analyst)
    page.goto("/")
    tab_to(page, page.get_by_role("button", name="How much water is there in km²?").first)
    page.keyboard.press("Enter")
    expect(page.get_by_label("Your question")).to_be_focused()
    page.keyboard.press("Control+Enter")
    run = run_on(page)
    settled(page)
    first = answer_of(page).inner_text()
    ids = list(run_state(run.pk).observations)
    assert len(ids) >= 2
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys on this page")
    expect(keys.get_by_text("Fit the map")).to_be_visible()
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    tab_to(page, page.locator(f"#obs-{ids[0]}").get_by_role("link", name="Open"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/observations/{ids[0]}/"))
    page.keyboard.press("j")
    page.wait_for_url(re.compile(f"/observations/{ids[1]}/"))
    page.keyboard.press("k")
    page.wait_for_url(re.compile(f"/observations/{ids[0]}/"))
    mark = page.locator(".oh").get_by_text("Person’s verdict").locator("xpath=..")
    for press, word in ((["a"], "Right"), (["u"], "Unsure"), (["r", "2"], "Wrong")):
        for key in press:
            page.keyboard.press(key)
            if key == "r":
                expect(page.get_by_role("dialog", name="What is wrong?")).to_be_visible()
        expect(page.get_by_role("status").filter(has_text=f"Recorded: {word}")).to_be_visible()
        expect(mark).to_contain_text(word)
    for stands in ("Unsure", "Right", None):
        undo = page.locator(".vbar").get_by_role("button", name=re.compile("^Undo"))
        tab_to(page, undo)
        page.keyboard.press("Enter")
        expect(mark).to_contain_text(stands or "No person yet")
    page.goto(f"/runs/{run.pk}/")
    settled(page)
    expect(answer_of(page)).to_have_text(first)
