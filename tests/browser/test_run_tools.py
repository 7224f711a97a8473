"""What a hand does on a run page: keys in the trace, the palette, measuring, dates of a series, in a real browser."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect
from pyproj import Geod

from apps.accounts.models import Project, User
from apps.review.models import VerdictRecord
from apps.runs.models import Run
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.browser.conftest import SAMPLES
from tests.scenes import scene_of_file

pytestmark = pytest.mark.browser

SignIn = Callable[[Any], None]
Answered = Callable[..., Run]
SOON = 60_000


def test_the_trace_is_judged_by_keys(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How much water is there in km2?")
    ids = list(run_state(run.pk).observations)
    assert len(ids) >= 2
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    current = page.locator(".st[aria-current]")
    expect(current).to_have_id(f"obs-{ids[0]}")
    page.keyboard.press("j")
    expect(current).to_have_id(f"obs-{ids[1]}")
    expect(current).to_be_focused()
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text="Recorded: Unsure")).to_be_visible()
    assert VerdictRecord.objects.get().observation_id == ids[1]
    # the fragment that came since keeps what the person chose
    expect(page.locator(f"#obs-{ids[1]} .ver.unsure")).to_be_visible(timeout=SOON)
    expect(current).to_have_id(f"obs-{ids[1]}")
    page.keyboard.press("k")
    page.keyboard.press("r")
    dialog = page.get_by_role("dialog", name="What is wrong with observation 1?")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    page.keyboard.press("a")
    expect(page.get_by_role("status").filter(has_text="Recorded: Right")).to_be_visible()
    assert VerdictRecord.objects.get(value="accept").observation_id == ids[0]
    # while one types, letters are letters
    page.keyboard.press("/")
    page.keyboard.type("aur")
    assert VerdictRecord.objects.count() == 2
    expect(page.get_by_label("Ask about this map")).to_have_value("aur")


def test_the_palette_finds_and_runs(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares have NDVI above 0.4?")
    sign_in(analyst)
    page.goto("/")
    page.keyboard.press("Control+k")
    palette = page.get_by_role("dialog", name="Find or run")
    field = palette.get_by_role("combobox")
    expect(field).to_be_focused()
    page.keyboard.type("fit map")
    expect(palette.get_by_role("option")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(palette).to_be_hidden()
    page.keyboard.press("Control+k")
    page.keyboard.type("hectares")
    found = palette.get_by_role("option").filter(has_text="How many hectares have NDVI above 0.4?")
    expect(found).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/runs/{run.pk}/"))
    page.keyboard.press("Control+k")
    page.keyboard.type("no such thing here")
    expect(palette.get_by_role("status")).to_have_text("Nothing found. Try fewer or other words.")
    page.keyboard.press("Escape")
    expect(palette).to_be_hidden()


def test_others_runs_are_not_found(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    from apps.accounts.services import user_create

    answered("How many hectares have NDVI above 0.4?")
    sign_in(user_create(username="stranger", password="another long passphrase"))
    page.goto("/account/")
    assert page.request.get("/find/?q=hectares").json() == {"found": []}


def test_a_distance_and_an_area_are_geodesic(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares have NDVI above 0.4?")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    page.keyboard.press("x")
    form = page.get_by_role("form", name="Measure a distance or an area")
    canvas = page.locator("#map .map-canvas").bounding_box()
    assert canvas is not None
    for dx, dy in ((200, 200), (320, 200), (320, 320)):
        page.mouse.click(canvas["x"] + dx, canvas["y"] + dy)
    field = form.get_by_role("textbox")
    points = [[float(v) for v in part.split(",")] for part in field.input_value().split(";")]
    assert len(points) == 3
    geod = Geod(ellps="WGS84")
    lons, lats = zip(*points, strict=True)
    area, perimeter = geod.polygon_area_perimeter(lons, lats)
    said = form.locator("output")
    expect(said).to_contain_text("geodesic on WGS 84")
    text = said.inner_text().replace(",", "")
    factor = {"m²": 1.0, "ha": 1e4, "km²": 1e6}
    value, unit = re.search(r"area ([\d.]+) (m²|ha|km²)", text).groups()  # type: ignore[union-attr]
    assert float(value) * factor[unit] == pytest.approx(abs(area), rel=1e-3)
    value, unit = re.search(r"perimeter ([\d.]+) (m|km)", text).groups()  # type: ignore[union-attr]
    assert float(value) * {"m": 1.0, "km": 1e3}[unit] == pytest.approx(perimeter, rel=1e-3)
    # typed positions are the twin; an outline that crosses itself has no area
    field.fill("0,50; 1,51; 1,50; 0,51")
    page.keyboard.press("Enter")
    expect(said).to_contain_text("crosses itself: no area")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()


def test_the_map_goes_to_a_typed_position(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares have NDVI above 0.4?")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    page.keyboard.press("g")
    form = page.get_by_role("form", name="Go to a position")
    expect(form.get_by_role("textbox")).to_be_focused()
    page.keyboard.type("nowhere")
    page.keyboard.press("Enter")
    expect(form).to_contain_text("Write longitude, latitude in degrees.")
    form.get_by_role("textbox").fill("-1.02, 50.84")
    page.keyboard.press("Enter")
    expect(page.locator("#map-status [data-read=lonlat]")).to_have_text("−1.02000, 50.84000")


def test_a_series_is_walked_by_date(page: Page, analyst: User, project: Project, sign_in: SignIn) -> None:
    scenes = [scene_of_file(project=project, path=path) for path in sorted((SAMPLES / "mod13q1_sinop").glob("*2013*.jp2"))[:3]]
    run = run_start(user=analyst, project=project, text="How did mean NDVI change over time?", scenes=scenes, enqueue=False)
    assert run_execute_now(run_id=run.pk)
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    dates = page.get_by_role("form", name="Date shown on the map")
    select, slider = dates.get_by_role("combobox"), dates.get_by_role("slider")
    options = select.locator("option").all_inner_texts()
    assert len(options) == 3
    # swiped: the first beside the last
    expect(select.locator("option:checked")).to_have_text(options[2])
    expect(page.locator(".swipe-name")).to_have_text([options[0], options[2]])
    page.keyboard.press(",")
    expect(page.locator(".swipe-name")).to_have_text([options[0], options[1]])
    expect(slider).to_have_attribute("aria-valuetext", options[1])
    page.keyboard.press("s")
    shown = page.locator("#run-layers [id^=lay-scene][id$=-eye][aria-pressed=true]")
    expect(shown).to_have_count(1)
    expect(shown).to_have_attribute("aria-label", f"Show {options[1]}")
    page.keyboard.press(".")
    expect(select.locator("option:checked")).to_have_text(options[2])
    expect(dates.get_by_role("button", name="Later date (.)")).to_be_disabled()


def test_values_at_a_place_and_a_view_that_can_be_sent(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares have NDVI above 0.4?")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    page.keyboard.press("i")
    form = page.get_by_role("form", name="Values at a place")
    canvas = page.locator("#map .map-canvas")
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(form.get_by_role("row", name=re.compile("^red"))).to_have_count(1)
    expect(form.locator("output")).to_have_text("1 of 1 scenes lie here.")
    form.get_by_role("textbox").fill("10, 10")
    form.get_by_role("button", name="Read").click()
    expect(form.locator("output")).to_have_text("No scene lies here.")
    page.keyboard.press("Escape")
    page.keyboard.press("Escape")
    expect(form).to_be_hidden()
    # where one looked stands in the address, and is there again
    page.get_by_role("button", name="Zoom in").click()
    page.wait_for_url(re.compile(r"#map=[\d.]+/50\.\d+/-1\.\d+$"))
    scale = page.locator("#map-status [data-read=scale]").inner_text()
    page.reload()
    expect(page.locator("#map[data-ready]")).to_be_visible()
    expect(page.locator("#map-status [data-read=scale]")).to_have_text(scale)


def test_boxes_at_another_score(page: Page, analyst: User, project: Project, sign_in: SignIn) -> None:
    scene = scene_of_file(project=project, path=SAMPLES / "OSBS_029.tif")
    run = run_start(user=analyst, project=project, text="How many trees are there?", scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    held = next(iter(run_state(run.pk).observations.values()))
    told = held.observation.evidence.intermediate["scores"]
    assert isinstance(told, list)
    scores = [score for score in told if isinstance(score, float)]
    weak = next(ref.n for ref in held.observation.result.layers if ref.label == "candidates")
    sign_in(analyst)
    page.goto(f"/observations/{held.id}/")
    slider = page.get_by_role("slider", name="Score at least")
    output = page.locator("#obs-scores output")
    expect(output).to_contain_text(f": {len(scores)} of {len(scores) + (weak or 0)} candidates")
    cores = page.locator("#map path.geo-core.boxes")
    expect(cores).to_have_count(len(scores))
    slider.fill("60")
    strong = sum(score >= 0.6 for score in scores)
    assert 0 < strong < len(scores)
    expect(output).to_contain_text(f"0.60: {strong} of")
    expect(cores).to_have_count(strong)
    slider.fill("0")
    expect(output).to_contain_text(f": {len(scores) + (weak or 0)} of")
    expect(page.locator("#map path.geo-core.candidates")).to_have_count(weak or 0)
    # a look, and no more
    assert run_state(run.pk).observations[held.id].observation == held.observation
