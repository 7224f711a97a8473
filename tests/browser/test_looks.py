"""What is easily lost sight of: what stands over imagery, long names and answers, small screens, fingers, and one step back."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, CDPSession, Page, expect

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set, project_create
from apps.imagery.hints import SceneHints
from apps.imagery.models import Scene
from apps.imagery.vector_layers import vector_add_now
from apps.runs.models import Run
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.browser.accessible import WIDTHS, problems_of
from tests.browser.conftest import FISH, FISH_ROLES, SAMPLES
from tests.scenes import scene_of_file
from tests.stack import LiveStack

pytestmark = pytest.mark.browser

SignIn = Callable[[Any], None]
Answered = Callable[..., Run]
LONG = "Überflutungsüberwachung Donaueschingen–Sigmaringen Frühjahr 2024 / 洪水の監視 / Мониторинг паводков"
FILE = "S2A_MSIL2A_20240512T103031_N0510_R108_T32UMU_20240512T163458_übersicht_подробно_clipped_to_area_of_interest_v3.tif"


def top_at(page: Page, selector: str) -> bool:
    """Whether the middle of an element is what a pointer meets there."""
    return bool(
        page.locator(selector).first.evaluate(
            """e => { const r = e.getBoundingClientRect();
                      const top = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
                      return e === top || e.contains(top); }"""
        )
    )


def test_scale_bar_and_source_of_the_land_stand_over_the_imagery(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("How many hectares have NDVI above 0.4?")
    sign_in(analyst)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    # until the picture lies under the corners
    for _ in range(3):
        page.get_by_role("button", name="Zoom in").click()
        page.wait_for_timeout(400)
    expect(page.locator("#map .leaflet-tile-loaded").first).to_be_visible()
    assert top_at(page, "#map .leaflet-control-scale-line")
    assert top_at(page, "#map .leaflet-control-attribution")
    # and the figures of the graticule: half hidden, a coordinate reads as another one
    labels = page.locator("#map .graticule-label span.gl-left")
    labels.evaluate_all("all => all.forEach((e) => { e.style.pointerEvents = 'auto'; })")
    box = page.locator("#map").bounding_box()
    expect(labels.first).to_be_attached()
    assert box is not None
    for k in range(labels.count()):
        seen = labels.nth(k).bounding_box()
        if seen and seen["y"] > box["y"] and seen["y"] + seen["height"] < box["y"] + box["height"]:
            assert labels.nth(k).evaluate(
                """e => { const r = e.getBoundingClientRect();
                          const at = (t) => document.elementFromPoint(r.x + t * r.width, r.y + r.height / 2);
                          return [0.1, 0.5, 0.9].every((t) => e === at(t)); }"""
            ), labels.nth(k).text_content()
    bar = page.locator("#map-status")
    expect(bar).to_contain_text("lon, lat")
    assert bar.evaluate("e => e.scrollWidth <= e.clientWidth")


def test_a_long_answer_leaves_the_trace_in_reach(
    page: Page, analyst: User, scene: Scene, tmp_path: Path, sign_in: SignIn
) -> None:
    squares = []
    for k in range(60):
        w, s = -1.236 + 0.003 * (k % 12), 50.7275 + 0.003 * (k // 12)
        ring = [[w, s], [w + 0.0025, s], [w + 0.0025, s + 0.0025], [w, s + 0.0025], [w, s]]
        name = f"Långåker norr om den gamla järnvägsstationen {k}"
        squares.append({"type": "Feature", "properties": {"name": name}, "geometry": {"type": "Polygon", "coordinates": [ring]}})
    path = tmp_path / "squares.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": squares}))
    held = vector_add_now(project=scene.project, path=path, name=path.name)
    run = run_start(
        user=analyst, project=scene.project, text="What is the mean NDVI of each polygon in squares.geojson?", scenes=[scene],
        vectors=[held.vector_info], enqueue=False,
    )  # fmt: skip
    assert run_execute_now(run_id=run.pk)
    sign_in(analyst)
    for width in (1440, 1024):
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.goto(f"/runs/{run.pk}/")
        expect(page.locator("#answer").get_by_role("row")).to_have_count(61)
        expect(page.locator("#tab-trace .st").first).to_be_in_viewport(ratio=0.5)
        expect(page.get_by_label("Ask about this map")).to_be_in_viewport(ratio=0.9)
        assert page.locator("#answer").evaluate("e => e.scrollWidth <= e.clientWidth && e.scrollHeight > e.clientHeight")
        # and all of the answer is reached with keys
        page.locator("#answer").focus()
        page.keyboard.press("End")
        expect(page.locator("#answer .conf")).to_be_in_viewport()
    page.set_viewport_size({"width": 390, "height": 844})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_an_answer_that_says_why_is_not_said_twice(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("Ποιος είναι ο μέσος δείκτης; 平均は何ですか？ ما هو متوسط؟")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#answer")).to_contain_text("I can't tell.")
    expect(page.locator("#tab-trace")).to_contain_text("No tool was called; the answer says why.")


@pytest.fixture
def long_named(analyst: User, tmp_path: Path) -> Run:
    project = project_create(user=analyst, name=LONG)
    membership_set(project=project, username=analyst.username, role="administrator")
    path = tmp_path / FILE
    shutil.copy(FISH, path)
    scene = scene_of_file(project=project, path=path, hints=SceneHints.model_validate({"roles": FISH_ROLES}))
    run = run_start(user=analyst, project=project, text="How many hectares have NDVI above 0.4?", scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    return run


@pytest.mark.slow
def test_long_names_fit_at_every_width(context: BrowserContext, analyst: User, long_named: Run, sign_in: SignIn) -> None:
    sign_in(analyst)
    project, state = long_named.project_id, run_state(long_named.pk)
    assert state.question is not None
    (scene,) = state.question.scenes
    (seen,) = state.observations
    addresses = {
        "home": "/", "project": f"/projects/{project}/", "members": f"/projects/{project}/members/",
        "imagery": f"/imagery/?project={project}", "scene": f"/imagery/{scene.scene_id}/", "runs": "/runs/",
        "run": f"/runs/{long_named.pk}/", "observation": f"/observations/{seen}/", "report": f"/runs/{long_named.pk}/report/",
        "review": "/review/",
    }  # fmt: skip
    page = context.new_page()
    page.emulate_media(reduced_motion="reduce")
    problems = []
    for width, height in WIDTHS.items():
        page.set_viewport_size({"width": width, "height": height})
        for name, address in addresses.items():
            page.goto(address)
            page.wait_for_load_state("networkidle")
            problems += problems_of(page, f"long-{name}-{width}")
            narrow = page.locator(".top .btn.ic:visible").evaluate_all("all => all.filter(e => e.offsetWidth < 24).length")
            if narrow:
                problems.append(f"{width} {name}: {narrow} buttons of the head are squeezed")
            cut = page.locator("#main .tbl:visible").evaluate_all(
                "all => all.filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.querySelector('caption')?.textContent)"
            )
            problems += [f"{width} {name}: the table “{title}” scrolls sideways" for title in cut]
    assert not problems, "\n".join(problems)


def test_what_is_cut_off_says_the_whole(page: Page, analyst: User, long_named: Run, sign_in: SignIn) -> None:
    sign_in(analyst)
    page.set_viewport_size({"width": 1024, "height": 768})
    page.goto(f"/projects/{long_named.project_id}/")
    name = page.locator(".crumb b")
    expect(name).not_to_have_attribute("title", LONG)
    name.hover()
    expect(name).to_have_attribute("title", LONG)


def test_the_verdict_bar_fits_a_phone(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares of water are there?")
    first = next(iter(run_state(run.pk).observations))
    sign_in(analyst)
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"/observations/{first}/")
    bar = page.get_by_role("region", name="Verdict", exact=True)
    assert bar.evaluate("e => e.scrollWidth <= e.clientWidth")
    for name in ("Right", "Wrong", "Unsure", "Verdict with a note", "Change", "Evidence"):
        button = bar.get_by_role("button", name=re.compile(f"^{name}"))
        expect(button).to_be_in_viewport(ratio=1)
        box = button.bounding_box()
        assert box is not None and box["height"] >= 44 and box["width"] >= 44
    expect(bar.get_by_role("link", name="Next observation (J)")).to_be_in_viewport(ratio=1)


def test_what_a_table_holds_stands_on_its_observation(
    page: Page, analyst: User, scene: Scene, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("How noisy is the image?")
    (held,) = run_state(run.pk).history
    noise = {str(i["role"]): n for i in held.observation.result.items if isinstance(n := i["noise"], float)}
    assert set(noise) == set(FISH_ROLES)
    sign_in(analyst)
    page.goto(f"/observations/{held.id}/")
    table = page.get_by_role("table", name=re.compile("in parts"))
    heads = table.get_by_role("columnheader").all_inner_texts()
    for role, value in noise.items():
        cells = table.get_by_role("row").filter(has=page.get_by_role("rowheader", name=role, exact=True)).locator("th, td")
        said = cells.nth(heads.index("Noise")).inner_text()
        assert float(said.replace(",", "")) == pytest.approx(value, rel=1e-3)


def test_the_scene_that_is_looked_at_is_in_its_list_and_its_actions_in_view(
    page: Page, analyst: User, project: Project, sign_in: SignIn
) -> None:
    scenes = [scene_of_file(project=project, path=path) for path in sorted((SAMPLES / "mod13q1_sinop").glob("*.jp2"))]
    sign_in(analyst)
    for width in (1440, 1024):
        page.set_viewport_size({"width": width, "height": WIDTHS[width]})
        page.goto(f"/imagery/{scenes[0].pk}/")
        expect(page.locator(".fi.sel")).to_be_in_viewport(ratio=0.9)
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/imagery/{scenes[0].pk}/")
    expect(page.get_by_role("button", name="Looks right").last).to_be_in_viewport()
    # the picture is whole
    shape = page.locator(".pv svg").evaluate("e => [e.clientHeight, e.closest('.pv').clientHeight]")
    assert shape[1] >= shape[0] > 200


@pytest.fixture
def touched(browser: Browser, live_stack: LiveStack) -> Iterator[BrowserContext]:
    """A phone: fingers and no mouse."""
    context = browser.new_context(
        base_url=live_stack.url, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, device_scale_factor=2
    )
    context.set_default_timeout(15_000)
    yield context
    context.close()


def drag(page: Page, finger: CDPSession, *places: tuple[float, float]) -> None:
    """A stroke that comes to rest before the finger leaves: after a fast one the browser takes the next tap for its end."""
    for kind, (x, y) in zip(("touchStart", *("touchMove",) * len(places)), (*places, places[-1]), strict=True):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": x, "y": y}]})
        page.wait_for_timeout(80)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_boxes_and_regions_are_drawn_by_finger(
    touched: BrowserContext, context: BrowserContext, analyst: User, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("What is the distance between A and B?")
    sign_in(analyst)
    touched.add_cookies(context.cookies())  # type: ignore[arg-type]
    page = touched.new_page()
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    finger = touched.new_cdp_session(page)
    canvas = page.locator("#map .map-canvas")

    def at(share_x: float, share_y: float) -> tuple[float, float]:
        box = canvas.bounding_box()
        assert box is not None
        return box["x"] + share_x * box["width"], box["y"] + share_y * box["height"]

    def numbers(name: str) -> list[float]:
        field = page.locator(f"[data-mark={name}]")
        expect(field).to_have_value(re.compile(r"\d"))
        return [float(v) for v in field.input_value().split(",")]

    page.get_by_role("button", name="Mark two places").and_(page.locator("[data-map=mark]")).tap()
    drag(page, finger, at(0.3, 0.3), at(0.35, 0.4), at(0.45, 0.5))
    a = numbers("A")
    assert len(a) == 4 and a[0] < a[2] and a[1] < a[3]
    page.touchscreen.tap(*at(0.6, 0.6))
    b = numbers("B")
    assert len(b) == 2 and b[0] > a[2] and b[1] < a[1]
    # what was marked is seen where it is asked about
    expect(page.get_by_label("Place A", exact=True)).to_be_visible()
    page.evaluate("window.scrollTo(0, 0)")
    # a rectangle by one stroke, a polygon by taps that end where they began
    page.get_by_role("button", name="Draw a rectangle").tap()
    drag(page, finger, at(0.3, 0.3), at(0.4, 0.4), at(0.6, 0.5))
    region = page.locator("#id_region")
    expect(region).to_have_value(re.compile("Polygon"))
    ring = json.loads(region.input_value())["coordinates"][0]
    assert len(ring) == 5 and len({x for x, _ in ring}) == 2 and len({y for _, y in ring}) == 2
    page.evaluate("window.scrollTo(0, 0)")
    page.get_by_role("button", name="Draw a polygon").tap()
    hint = page.locator("#map [data-map-panel=draw]")
    expect(hint).to_be_visible()
    for share in ((0.3, 0.3), (0.6, 0.35), (0.5, 0.6), (0.3, 0.3)):
        page.touchscreen.tap(*at(*share))
        page.wait_for_timeout(100)
    expect(hint).to_be_hidden()
    assert len(json.loads(region.input_value())["coordinates"][0]) == 4


def test_escape_takes_one_step_back_at_a_time(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("What is the mean NDVI?")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/")
    expect(page.locator("#map[data-ready]")).to_be_visible()
    box = page.locator("#map .map-canvas").bounding_box()
    assert box is not None
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    polygon = page.get_by_role("button", name="Draw a polygon")
    polygon.click()
    hint = page.locator("#map [data-map-panel=draw]")
    expect(hint).to_contain_text("Click the corners. Esc ends")
    page.mouse.click(*middle)
    page.mouse.click(middle[0] + 60, middle[1])
    expect(hint).to_contain_text("Esc drops it")
    page.keyboard.press("Escape")
    expect(page.locator("#map path.geo-core.region")).to_have_count(0)
    expect(polygon).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(polygon).to_have_attribute("aria-pressed", "false")
    expect(hint).to_be_hidden()
    # a rectangle that is let go outside of the map is one all the same
    page.get_by_role("button", name="Draw a rectangle").click()
    page.mouse.move(*middle)
    page.mouse.down()
    page.mouse.move(box["x"] - 40, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(page.locator("#id_region")).to_have_value(re.compile("Polygon"))


def test_what_is_printed_is_light_whatever_the_screen(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("What is the mean NDVI?")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/report/")
    page.get_by_role("button", name="Light or dark").click()
    colour = "getComputedStyle(document.querySelector('.panel')).backgroundColor"
    if page.locator("html").get_attribute("data-theme") != "dark":
        page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    dark = page.evaluate(colour)
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate(colour) == "rgb(255, 255, 255)" != dark
    expect(page.locator("#files")).to_be_hidden()
    expect(page.locator(".top")).to_be_hidden()


def test_the_focus_is_seen_on_everything_that_takes_it(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("How many hectares of water are there?")
    first = next(iter(run_state(run.pk).observations))
    sign_in(analyst)
    page.set_viewport_size({"width": 1440, "height": 900})
    for address in (f"/runs/{run.pk}/", f"/observations/{first}/", "/review/"):
        page.goto(address)
        page.wait_for_load_state("networkidle")
        seen = set()
        for _ in range(70):
            page.keyboard.press("Tab")
            told = page.evaluate(
                """() => { const e = document.activeElement, s = getComputedStyle(e);
                          const has = (c) => c.boxShadow !== 'none' || (c.outlineStyle !== 'none' && c.outlineWidth !== '0px');
                          return [e.tagName, e.getAttribute('aria-label') || e.textContent.trim().slice(0, 30),
                                  has(s) || has(getComputedStyle(e.parentElement))]; }"""
            )
            if told[0] == "BODY":
                break
            seen.add(told[1])
            assert told[2], f"{address}: no ring on {told[:2]}"
        assert len(seen) > 20


@pytest.mark.skipif(find_spec("rapidocr") is None, reason="rapidocr is not installed (./rsure setup)")
@pytest.mark.shared_data
def test_words_that_were_read_are_counted_at_their_scores(
    page: Page, analyst: User, project: Project, shared_data: Path, sign_in: SignIn
) -> None:
    scene = scene_of_file(project=project, path=shared_data / "objects" / "sahi_small-vehicles1_highway.jpeg")
    run = run_start(user=analyst, project=project, text="What does the text say?", scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    (held,) = run_state(run.pk).history
    n = len(held.observation.result.items)
    assert n >= 2
    sign_in(analyst)
    page.goto(f"/observations/{held.id}/")
    output = page.locator("#obs-scores output")
    expect(output).to_contain_text(f": {n} of {n} candidates")
    page.get_by_role("slider", name="Score at least").fill("100")
    expect(output).to_contain_text(f"1.00: 0 of {n} candidates")
    # and the words stand in a table with what they scored
    table = page.get_by_role("table", name=re.compile("in parts"))
    expect(table.get_by_role("rowheader", name="Refuge areas")).to_be_visible()
