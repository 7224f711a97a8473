"""Two places are marked on the map, asked about and measured: by pointer, by keyboard, on the globe and on a plain picture."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import rasterio
from playwright.sync_api import Page, expect
from pyproj import Geod, Transformer

from apps.accounts.models import Project, User
from apps.runs.models import Run
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.browser.accessible import marking_looked_at
from tests.browser.conftest import FISH, SAMPLES
from tests.scenes import scene_of_file

pytestmark = pytest.mark.browser

SignIn = Callable[[Any], None]
Answered = Callable[..., Run]
SOON = 60_000
PICTURE = SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png"


def at(page: Page, share_x: float, share_y: float) -> tuple[float, float]:
    """A position on the screen by its share of the map."""
    box = page.locator("#map .map-canvas").bounding_box()
    assert box is not None
    return box["x"] + share_x * box["width"], box["y"] + share_y * box["height"]


def numbers(page: Page, name: str) -> list[float]:
    return [float(v) for v in page.get_by_label(f"Place {name}", exact=True).input_value().split(",")]


def answer_value(page: Page, pattern: str) -> float:
    said = page.locator("#answer").get_by_text(re.compile(pattern))
    expect(said).to_be_visible(timeout=SOON)
    found = re.search(pattern, said.inner_text())
    assert found
    # the sentence has the digits that the interval carries, of the number that is kept
    figure = found[1].replace(",", "")
    answer = run_state(page.url.rstrip("/").rsplit("/", 1)[1]).answer
    assert answer is not None
    assert float(figure) == pytest.approx(answer.value, abs=0.5000001 * 10.0 ** -len(figure.partition(".")[2]))
    return float(str(answer.value))


def test_two_clicks_and_a_question_give_the_distance(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    first = answered("What is the distance between A and B?")
    assert first.error_code == "NEEDS_LANDMARKS"
    sign_in(analyst)
    page.goto(f"/runs/{first.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    # what is missing is what the page offers to do
    page.get_by_role("button", name="Mark two places").and_(page.locator("[data-marks-start]")).click()
    seen = []
    for share in (0.4, 0.4), (0.65, 0.6):
        page.mouse.move(*at(page, *share))
        read = re.search(r"px (\d+), (\d+)", page.locator("#map-status [data-read=pixel]").inner_text())
        assert read
        seen.append((int(read[1]), int(read[2])))
        page.mouse.click(*at(page, *share))
    a, b = numbers(page, "A"), numbers(page, "B")
    # the fields hold what lay under the pointer
    with rasterio.open(FISH) as src:
        to_scene = Transformer.from_crs("EPSG:4326", src.crs, always_xy=True)
        for place, (col, row) in zip((a, b), seen, strict=True):
            found = ~src.transform @ to_scene.transform(place[0], place[1])
            assert abs(found[0] - col - 0.5) <= 1 and abs(found[1] - row - 0.5) <= 1
    expect(page.locator(".mark-pin")).to_have_count(2)
    expect(page.get_by_role("tab", name="Ask")).to_have_attribute("aria-selected", "true")
    expect(page.get_by_label("Ask about the same imagery")).to_have_value("What is the distance between A and B?")
    page.locator("#tab-ask").get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(lambda url: str(first.pk) not in url)
    metres = answer_value(page, r"Distance between A and B is ([\d,.]+) m")
    assert metres == pytest.approx(Geod(ellps="WGS84").inv(a[0], a[1], b[0], b[1])[2], rel=1e-4)
    # it is kept with the question, shown on the run's map, and asked again it is the same
    run = Run.objects.get(pk=page.url.rstrip("/").rsplit("/", 1)[1])
    kept = run.question["landmarks"]
    assert [m["point"] for m in kept] == [a, b] and all(0 < m["precision"] < 100 for m in kept)
    expect(page.locator(".mark-pin")).to_have_count(2)
    page.get_by_label("Ask about this map").fill("What is the bearing from A to B?")
    page.keyboard.press("Enter")
    page.wait_for_url(lambda url: str(run.pk) not in url)
    degrees = answer_value(page, r"Bearing from A to B is ([\d,.]+)°")
    assert degrees == pytest.approx(Geod(ellps="WGS84").inv(a[0], a[1], b[0], b[1])[0] % 360, abs=0.01)
    # and the observation shows where it was measured
    page.locator("#answer .cite").first.click()
    expect(page.locator(".mark-tip")).to_have_text(["A", "B"])


def test_marks_are_typed_moved_and_taken_away_by_keyboard(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("What is the mean NDVI?")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    page.get_by_role("tab", name="Ask").click()
    page.get_by_text("Two marked places, A and B").click()
    a, b = page.get_by_label("Place A", exact=True), page.get_by_label("Place B", exact=True)
    a.fill("-1.225, 50.742")
    b.fill("-1.204, 50.730, -1.200, 50.734")
    pins = page.locator(".mark-pin")
    expect(pins).to_have_count(2)
    b.fill("no place")
    expect(b).to_have_attribute("aria-invalid", "true")
    expect(pins).to_have_count(1)
    b.fill("-1.204, 50.730, -1.200, 50.734")
    # arrows move it east and north, and it keeps the focus
    pins.first.focus()
    for key in ("ArrowRight", "Shift+ArrowRight", "ArrowUp"):
        page.keyboard.press(key)
    lon, lat = numbers(page, "A")
    assert lon > -1.225 and lat > 50.742
    expect(pins.first).to_be_focused()
    pins.last.focus()
    page.keyboard.press("ArrowDown")
    west, south, east, north = numbers(page, "B")
    assert south < 50.730 and east - west == pytest.approx(0.004) and north - south == pytest.approx(0.004, abs=1e-6)
    page.keyboard.press("Delete")
    expect(b).to_have_value("")
    # in the field Escape clears, as the button beside it does
    a.focus()
    page.keyboard.press("Escape")
    expect(a).to_have_value("")
    expect(pins).to_have_count(0)
    # on the map Escape takes back what was marked last, and ends where nothing is left to take back
    page.locator("#map .map-canvas").focus()
    page.keyboard.press("p")
    hint = page.locator("#map [data-map-panel=marks]")
    expect(hint).to_contain_text("A: click a point or drag a box. Esc ends")
    page.mouse.click(*at(page, 0.5, 0.5))
    expect(pins).to_have_count(1)
    expect(hint).to_contain_text("B: click a point or drag a box. Esc takes A back")
    page.keyboard.press("Escape")
    expect(pins).to_have_count(0)
    expect(hint).to_contain_text("A: click a point")
    tool = page.get_by_role("button", name="Mark two places").first
    expect(tool).to_have_attribute("aria-pressed", "true")
    # a box that is being dragged is dropped, and the tool stays
    page.mouse.move(*at(page, 0.4, 0.4))
    page.mouse.down()
    page.mouse.move(*at(page, 0.5, 0.5), steps=3)
    page.keyboard.press("Escape")
    page.mouse.up()
    expect(pins).to_have_count(0)
    page.keyboard.press("Escape")
    expect(tool).to_have_attribute("aria-pressed", "false")
    # one alone is not enough, and the page says so
    a.fill("-1.225, 50.742")
    page.get_by_label("Ask about the same imagery").fill("How far apart are the two marked points?")
    page.locator("#tab-ask").get_by_role("button", name="Ask", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="Only A is marked")).to_be_visible()


def test_a_box_and_a_point_on_a_plain_picture(page: Page, analyst: User, project: Project, sign_in: SignIn) -> None:
    scene = scene_of_file(project=project, path=PICTURE)
    run = run_start(user=analyst, project=project, text="How far apart are the two marked points?", scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    page.locator("#map").get_by_role("button", name="Mark two places").click()
    page.mouse.move(*at(page, 0.35, 0.35))
    page.mouse.down()
    page.mouse.move(*at(page, 0.45, 0.5), steps=4)
    page.mouse.up()
    page.mouse.click(*at(page, 0.6, 0.6))
    left, top, right, bottom = numbers(page, "A")
    col, row = numbers(page, "B")
    assert 0 < left < right < 1249 and 0 < top < bottom < 1035
    page.get_by_label("Ask about the same imagery").fill("How far apart are the two marked places?")
    page.locator("#tab-ask").get_by_role("button", name="Ask", exact=True).click()
    page.wait_for_url(lambda url: str(run.pk) not in url)
    pixels = answer_value(page, r"Distance between A and B \(the middle of the box\) is ([\d,.]+) px")
    wanted = ((col - (left + right) / 2) ** 2 + (row - (top + bottom) / 2) ** 2) ** 0.5
    assert pixels == pytest.approx(wanted, abs=0.01)
    expect(page.locator("#answer").get_by_text("set the GSD for metres")).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_marked_places_in_both_themes_at_three_widths(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn, theme: str
) -> None:
    from apps.core.evidence.landmark import Landmark

    marks = (Landmark(name="A", point=(-1.225, 50.742), precision=9.0), Landmark(name="B", box=(-1.204, 50.730, -1.2, 50.734)))
    run = answered("How far apart are the two marked places?", landmarks=marks)
    needs = answered("How far apart are the two marked places?")
    sign_in(analyst)
    marking_looked_at(
        page,
        "marks",
        theme,
        marked=run.pk,
        needs=needs.pk,
        button="Two places",
        opened=lambda is_marked: expect(page.locator(".mark-pin")).to_have_count(2 if is_marked else 0),
        field="Place A",
    )
