"""Home, project, review, prior, accounts and status in a real browser, on the running product."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, WebSocketRoute, expect

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set, project_create, user_create
from apps.imagery.models import Scene
from apps.prior.selectors import prior_head, prior_view
from apps.runs.models import ObservationRow, Run
from apps.runs.services import run_execute_now, run_start
from tests.browser.accessible import axe_findings
from tests.scenes import scene_of_file
from tests.shared import ROOT
from tests.stack import LiveStack

pytestmark = pytest.mark.browser

SAMPLES = ROOT / "apps" / "imagery" / "samples"
PASSWORD = "a long river runs"
WIDTHS = (1440, 1024, 390)


@pytest.fixture
def mara(live_stack: LiveStack) -> User:
    return user_create(username="mara", password=PASSWORD, full_name="Mara Lindqvist")


@pytest.fixture
def sample(mara: User) -> Project:
    return project_create(user=None, name="Sample project", is_sample=True)


@pytest.fixture
def fish(sample: Project) -> Scene:
    path = next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))
    return scene_of_file(project=sample, path=Path(path), roles={"blue": 1, "green": 2, "red": 3, "nir": 4})


def answered(user: User, scene: Scene, text: str) -> Run:
    run = run_start(user=user, project=scene.project, text=text, scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    return run


@pytest.fixture
def queue(mara: User, fish: Scene) -> list[ObservationRow]:
    """Three observations that wait for a person."""
    membership_set(project=fish.project, username=mara.username, role="reviewer")
    answered(mara, fish, "How many hectares have NDVI above 0.4?")
    answered(mara, fish, "How much water is there in km2?")
    ObservationRow.objects.update(is_audit=True, audit_probability=0.5)
    return list(ObservationRow.objects.all())


def test_wrong_then_right_password(page: Page, mara: User) -> None:
    page.goto("/account/")
    page.get_by_label("Name").fill("mara")
    page.get_by_label("Password").fill("wrong")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_text("Name and password do not match")).to_be_visible()
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", name="Mara Lindqvist")).to_be_visible()


def test_the_theme_is_kept_without_a_flash(page: Page, mara: User, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.emulate_media(color_scheme="light")
    page.goto("/")
    page.get_by_role("button", name="Light or dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    # the server renders it: the first byte of the next page already carries the choice
    assert 'data-theme="dark"' in page.request.get("/").text()
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_keys_are_listed_and_dead_while_typing(page: Page, mara: User, fish: Scene, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.goto("/")
    page.keyboard.press("/")
    box = page.get_by_label("Your question")
    expect(box).to_be_focused()
    page.keyboard.type("fd?/")
    expect(box).to_have_value("fd?/")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    dialog = page.get_by_role("dialog", name="Keys on this page")
    expect(dialog.get_by_text("Fit the map")).to_be_visible()
    # remapped, and the new key works
    dialog.get_by_role("button", name="Change the key of Ask, now /", exact=True).click()
    page.keyboard.press("q")
    dialog.get_by_role("button", name="Close").click()
    page.keyboard.press("q")
    expect(box).to_be_focused()


def test_a_sample_card_asks_and_the_answer_comes(page: Page, mara: User, fish: Scene, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.goto("/")
    page.get_by_role("region", name="Sample project").get_by_role("button", name="What is the mean NDVI?").click()
    page.wait_for_url(re.compile(r"/runs/[0-9a-f-]{36}/"))
    expect(page.get_by_text(re.compile(r"Mean NDVI is 0\.530"))).to_be_visible(timeout=60_000)


def test_asking_without_imagery_says_what_to_do(page: Page, mara: User, fish: Scene, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.goto("/")
    page.get_by_role("checkbox").first.uncheck()
    page.get_by_label("Your question").fill("What is the mean NDVI?")
    page.keyboard.press("Control+Enter")
    expect(page.get_by_role("status").filter(has_text="no imagery to ask about")).to_be_visible()
    assert Run.objects.count() == 0


def test_a_region_is_drawn_on_the_map_or_typed(page: Page, mara: User, fish: Scene, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.goto("/")
    page.get_by_role("button", name="Region").first.click()
    field = page.get_by_label(re.compile("^Region:"))
    expect(field).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 1600})
    expect(page.locator("#home-map[data-ready]")).to_be_visible()
    page.get_by_role("button", name="Draw a rectangle").click()
    canvas = page.locator("#home-map .map-canvas")
    box = canvas.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 200, box["y"] + 120)
    page.mouse.down()
    page.mouse.move(box["x"] + 300, box["y"] + 200, steps=4)
    page.mouse.up()
    expect(field).to_have_value(re.compile(r'^\{"type":"Polygon","coordinates":\[\[\[-?\d'))
    expect(page.locator("#home-map path.geo-core.region")).to_have_count(1)
    page.get_by_role("button", name="Clear the region").click()
    expect(field).to_have_value("")


def test_the_map_has_a_list_twin(page: Page, mara: User, fish: Scene, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.goto("/")
    expect(page.locator("#home-map path.geo-core.footprint.point")).to_have_count(1)
    page.get_by_role("button", name="List").click()
    expect(page.locator("#foot-list").get_by_role("link", name=fish.name)).to_be_visible()
    # footprints have a name and are no stop of Tab each: the list is their way by keys
    drawn = page.locator("#home-map path.geo-core.footprint")
    assert drawn.count() == 2
    for path in drawn.all():
        expect(path).to_have_attribute("aria-label", fish.name)
        expect(path).to_have_attribute("role", "link")
    for _ in range(40):
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.tagName") != "path"


def test_a_new_project_begins_at_its_name(page: Page, mara: User, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.goto("/projects/new/")
    expect(page.get_by_label("Name")).to_be_focused()


def test_workers_are_seen(page: Page, mara: User, sample: Project, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    page.goto("/")
    expect(page.get_by_text("1 worker ready")).to_be_visible()
    page.goto("/status/")
    expect(page.get_by_role("row", name="raster yes")).to_be_visible()


def test_review_by_keyboard_with_undo(
    page: Page, mara: User, queue: list[ObservationRow], sign_in: Callable[[Any], None]
) -> None:
    sign_in(mara)
    waiting = len(queue)
    page.goto("/review/")
    rows = page.locator(".qq .q")
    expect(rows).to_have_count(waiting)
    first = page.locator(".q.sel").get_attribute("href")
    page.keyboard.press("j")
    expect(page.locator(".q.sel")).not_to_have_attribute("href", first or "")
    page.keyboard.press("k")
    expect(page.locator(".q.sel")).to_have_attribute("href", first or "")
    judged = ObservationRow.objects.get(pk=re.search(r"o=([^&]+)", first or "")[1])  # type: ignore[index]
    key = {"task_type": judged.task_type, "tool": judged.tool, "coarse": judged.coarse, "fine": judged.fine}
    before, head = prior_view(**key), prior_head()
    page.keyboard.press("r")
    expect(page.get_by_role("dialog", name="What is wrong?")).to_be_visible()
    page.keyboard.press("4")
    expect(rows).to_have_count(waiting - 1)
    toast = page.get_by_role("status").filter(has_text="Recorded: Wrong")
    expect(toast).to_be_visible()
    assert prior_head() == head + 1
    assert prior_view(**key).r_hat < before.r_hat
    page.keyboard.press("Control+z")
    expect(rows).to_have_count(waiting)
    after = prior_view(**key)
    assert (after.r_hat, after.interval, after.n) == (before.r_hat, before.interval, before.n)


def test_the_prior_page_shows_the_cell_and_its_events(
    page: Page, mara: User, queue: list[ObservationRow], sign_in: Callable[[Any], None]
) -> None:
    sign_in(mara)
    page.goto("/review/")
    page.keyboard.press("a")
    expect(page.get_by_role("status").filter(has_text="Recorded: Right")).to_be_visible()
    page.goto("/priors/")
    page.locator("table.heat td a").first.click()
    cell = page.locator("#cell")
    expect(cell.get_by_text("90 % interval").first).to_be_visible()
    expect(cell.locator(".ver.right")).to_have_count(1)
    expect(cell.get_by_text(re.compile("version log-1"))).to_be_visible()
    # a reviewer may look at the prior, not freeze it
    expect(page.get_by_role("button", name="Freeze")).to_have_count(0)


def test_the_prior_is_closed_to_analysts(page: Page, mara: User, sample: Project, sign_in: Callable[[Any], None]) -> None:
    sign_in(mara)
    answer = page.goto("/priors/")
    assert answer is not None
    assert answer.status == 403
    expect(page.get_by_text("FORBIDDEN")).to_be_visible()


def test_a_blocked_socket_is_said_and_the_page_goes_on(
    page: Page, mara: User, fish: Scene, sign_in: Callable[[Any], None]
) -> None:
    sign_in(mara)
    run = run_start(user=mara, project=fish.project, text="What is the mean NDVI?", scenes=[fish], enqueue=False)

    def refuse(socket: WebSocketRoute) -> None:
        socket.close()

    page.route_web_socket(re.compile("/ws/"), refuse)
    page.goto(f"/runs/{run.pk}/")
    expect(page.get_by_text("LIVE_OFF")).to_be_visible()
    assert run_execute_now(run_id=run.pk)
    expect(page.get_by_text(re.compile(r"Mean NDVI is 0\.530"))).to_be_visible(timeout=20_000)


def test_others_see_nothing_of_a_project(page: Page, mara: User, fish: Scene, sign_in: Callable[[Any], None]) -> None:
    mine = project_create(user=mara, name="Mine")
    stranger = user_create(username="stranger", password=PASSWORD)
    sign_in(stranger)
    for address in (f"/projects/{mine.pk}/", f"/projects/{mine.pk}/members/", f"/ask/scenes/?project={mine.pk}"):
        answer = page.goto(address)
        assert answer is not None
        assert answer.status == 404, address


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_pages_are_accessible_and_fit_at_every_width(
    context: BrowserContext, mara: User, queue: list[ObservationRow], sign_in: Callable[[Any], None], theme: Any
) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto("/accounts/login/")
    assert axe_findings(page) == []
    sign_in(mara)
    mine = project_create(user=mara, name="Mine")
    project = queue[0].run.project_id
    addresses = [
        "/", f"/projects/{project}/", f"/projects/{mine.pk}/", "/review/", f"/review/?o={queue[0].pk}", "/review/?blind=1",
        "/priors/", "/status/", "/account/", "/projects/new/", f"/projects/{mine.pk}/members/", f"/projects/{mine.pk}/settings/",
        "/runs/",
    ]  # fmt: skip
    problems = []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 900})
        for address in addresses:
            page.goto(address)
            page.wait_for_load_state("networkidle")
            if width != 1024:  # between the two nothing new is drawn, only laid out
                problems += [f"{width} {address} {problem}" for problem in axe_findings(page)]
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                problems.append(f"{width} {address} scrolls sideways")
    assert problems == []
    assert errors == []


def test_many_are_judged_at_once_and_taken_back(
    page: Page, mara: User, queue: list[ObservationRow], sign_in: Callable[[Any], None]
) -> None:
    sign_in(mara)
    page.goto("/review/")
    rows = page.locator(".qq .q")
    expect(rows).to_have_count(len(queue))
    bar = page.get_by_role("group", name="Judge what is selected")
    expect(bar.get_by_role("button", name="Right…")).to_be_disabled()
    # the current one by its key, the next by hand
    page.keyboard.press("Shift+X")
    expect(bar).to_contain_text("1 selected")
    page.locator(".qc").nth(1).check()
    expect(bar).to_contain_text("2 selected")
    bar.get_by_role("button", name="Right…").click()
    dialog = page.get_by_role("dialog", name="Call 2 observations right?")
    dialog.get_by_role("button", name="Not now").click()
    expect(rows).to_have_count(len(queue))
    bar.get_by_role("button", name="Wrong…").click()
    expect(page.get_by_role("dialog", name="What is wrong with these 2?")).to_be_visible()
    page.keyboard.press("2")
    expect(page.get_by_role("status").filter(has_text="Recorded: Wrong for 2 observations.")).to_be_visible()
    expect(rows).to_have_count(len(queue) - 2)
    expect(bar).to_contain_text("0 selected")
    page.keyboard.press("Control+z")
    expect(page.get_by_role("status").filter(has_text="Undone: 2 verdicts.")).to_be_visible()
    expect(rows).to_have_count(len(queue))
    page.keyboard.press("Control+Shift+Z")
    expect(page.get_by_role("status").filter(has_text="Given again: 2 verdicts.")).to_be_visible()
    expect(rows).to_have_count(len(queue) - 2)
    page.keyboard.press("Control+z")
    expect(rows).to_have_count(len(queue))
    # the pictures are there
    for picture in page.locator(".q img.thumb").all():
        picture.scroll_into_view_if_needed()
        expect(picture).to_have_js_property("complete", True)
        assert picture.evaluate("image => image.naturalWidth") > 50


def test_a_blind_verdict_by_keyboard(page: Page, mara: User, queue: list[ObservationRow], sign_in: Callable[[Any], None]) -> None:
    from apps.review.models import VerdictRecord

    sign_in(mara)
    page.goto("/review/")
    expect(page.locator(".dec").first).to_be_visible()
    page.keyboard.press("h")
    expect(page.get_by_text("The order is by chance.")).to_be_visible()
    expect(page.locator(".dec")).to_have_count(0)
    expect(page.get_by_role("heading", name="Prior", exact=True)).to_have_count(0)
    page.keyboard.press("j")
    page.keyboard.press("n")
    note = page.get_by_role("dialog", name="Verdict with a note")
    expect(note.get_by_label("Note")).to_be_focused()
    page.keyboard.type("looks right to me")
    note.get_by_role("button", name="Right").click()
    toast = page.get_by_role("status").filter(has_text="Blind; the machine had said: Accepted")
    expect(toast).to_be_visible()
    expect(page.locator(".dec")).to_have_count(0)
    record = VerdictRecord.objects.get()
    assert (record.value, record.note, record.is_blind) == ("accept", "looks right to me", True)
    page.keyboard.press("h")
    expect(page.locator(".dec").first).to_be_visible()
