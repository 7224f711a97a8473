"""Upload to answer, pause and resume, the ingest check: in a real browser, on the running product."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from apps.accounts.models import Project, User
from apps.imagery.models import Scene, Upload
from apps.imagery.services import scene_ingest_now
from tests.browser.accessible import axe_findings
from tests.browser.conftest import FISH, SAMPLES
from tests.unit.imagery.rasters import write

pytestmark = pytest.mark.browser
READ_MS = 60_000


def choose(page: Page, *paths: Path) -> None:
    page.locator("[data-files]").set_input_files([str(p) for p in paths])


def test_from_a_dropped_file_to_an_answer(
    page: Page, analyst: User, project: Project, sign_in: Callable[[Any], None]
) -> None:
    sign_in(analyst)
    page.goto(f"/imagery/?project={project.pk}")
    choose(page, FISH)
    page.wait_for_url(re.compile(r"/imagery/[0-9a-f-]{36}/"), timeout=READ_MS)
    expect(page.get_by_text("19,927 px (32.9 %) are 0 in every band")).to_be_visible(timeout=READ_MS)
    right = page.locator(".go").get_by_role("button", name="Looks right")
    expect(right).to_be_disabled()
    page.get_by_role("button", name="Set nodata = 0").click()
    expect(page.locator("#ck-nodata")).to_contain_text("as a person said")
    page.locator("#ck-roles summary").click()
    for index, role in enumerate(("blue", "green", "red", "nir"), 1):
        page.locator(f"[name=band-{index}]").select_option(role)
    page.locator("#ck-roles").get_by_role("button", name="Save").click()
    expect(page.locator("#ck-roles")).to_contain_text("blue, green, red, nir")
    right.click()
    expect(page.get_by_text("Ana Lyst found it right")).to_be_visible()
    page.get_by_label("Your question about this scene").fill("What is the mean NDVI?")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/runs/"), timeout=READ_MS)
    expect(page.get_by_text("0.530").first).to_be_visible(timeout=READ_MS)


def test_several_files_at_once_and_one_that_is_refused(
    page: Page, analyst: User, project: Project, sign_in: Callable[[Any], None], tmp_path: Path
) -> None:
    (tmp_path / "map.tif").write_text("<VRTDataset rasterXSize='1' rasterYSize='1'></VRTDataset>")
    sign_in(analyst)
    page.goto(f"/imagery/?project={project.pk}")
    choose(page, SAMPLES / "OSBS_029.tif", SAMPLES / "riotiler_hro_colorado_26913.tif", tmp_path / "map.tif")
    row = page.locator("#scenes tr")
    expect(row.filter(has_text="OSBS_029.tif")).to_contain_text("to check", timeout=READ_MS)
    expect(row.filter(has_text="riotiler_hro")).to_contain_text("0.1499 m", timeout=READ_MS)
    refused = row.filter(has_text="map.tif")
    expect(refused).to_contain_text("Refused", timeout=READ_MS)
    refused.get_by_role("link").click()
    expect(page.get_by_text("It is a VRT, not pixels")).to_be_visible()


def test_an_upload_goes_on_after_a_reload(
    page: Page, analyst: User, project: Project, sign_in: Callable[[Any], None], tmp_path: Path
) -> None:
    path = write(tmp_path / "large.tif", np.random.default_rng(0).integers(0, 255, (3, 2200, 2200)).astype(np.uint8))
    assert path.stat().st_size > 3 * 4 * 2**20
    sign_in(analyst)
    page.goto(f"/imagery/?project={project.pk}")
    offsets: list[int] = []

    def watch(route: Route) -> None:
        if route.request.method != "PATCH":
            return route.continue_()
        offset = int(route.request.headers["upload-offset"])
        if offset >= 4 * 2**20 and not offsets[1:]:
            return route.abort()  # the line is cut after the first part
        offsets.append(offset)
        return route.continue_()

    page.route("**/api/v1/uploads/**", watch)
    choose(page, path)
    expect(page.get_by_text("The connection was lost")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Paused.")).to_be_visible()
    assert Upload.objects.get().offset_bytes == 4 * 2**20
    page.unroute("**/api/v1/uploads/**")
    page.reload()
    expect(page.get_by_text("Choose or drop this file again to go on.")).to_be_visible()
    expect(page.get_by_role("progressbar", name="Upload of large.tif")).to_have_attribute("value", str(4 * 2**20))
    later: list[int] = []
    page.on("request", lambda r: later.append(int(r.headers["upload-offset"])) if r.method == "PATCH" else None)
    choose(page, path)
    page.wait_for_url(re.compile(r"/imagery/[0-9a-f-]{36}/"), timeout=READ_MS)
    assert (offsets, later[0]) == ([0], 4 * 2**20)
    expect(page.get_by_text("Is it what you think it is?")).to_be_visible(timeout=READ_MS)
    assert Scene.objects.get().facts["n_bytes"] == path.stat().st_size  # type: ignore[index]


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_imagery_pages_are_accessible_and_fit_at_every_width(
    context: BrowserContext, analyst: User, project: Project, sign_in: Callable[[Any], None], theme: Any
) -> None:
    raw = scene_ingest_now(project=project, path=FISH)
    picture = scene_ingest_now(project=project, path=SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png")
    sign_in(analyst)
    page = context.new_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    problems = []
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for address in (f"/imagery/?project={project.pk}", f"/imagery/{raw.pk}/", f"/imagery/{picture.pk}/"):
            page.goto(address)
            page.wait_for_load_state("networkidle")
            for summary in page.locator(".fixd > summary").all():
                summary.click()
            problems += [f"{width} {address} {problem}" for problem in axe_findings(page)]
            if page.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
                problems.append(f"{width} {address} scrolls sideways")
    assert problems == []
    assert errors == []
