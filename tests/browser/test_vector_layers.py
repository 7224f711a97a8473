"""A vector file from the drop area to an answer, a refused one with its reason, its pages at every width: in a real browser."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from apps.accounts.models import Project, User
from apps.imagery.models import Scene, VectorLayer
from apps.imagery.vector_layers import vector_add_now
from tests.browser.accessible import pictured, problems_of
from tests.integration.imagery.test_vector_layers import FIELDS

pytestmark = pytest.mark.browser
READ_MS = 60_000


def choose(page: Page, *paths: Path) -> None:
    page.locator("[data-files]").set_input_files([str(p) for p in paths])


@pytest.fixture
def fields(tmp_path: Path) -> Path:
    path = tmp_path / "fields.geojson"
    path.write_text(json.dumps(FIELDS))
    return path


def test_from_a_dropped_vector_file_to_an_answer(
    page: Page, analyst: User, scene: Scene, fields: Path, sign_in: Callable[[Any], None]
) -> None:
    sign_in(analyst)
    page.goto(f"/imagery/?project={scene.project_id}")
    choose(page, fields)
    page.wait_for_url(re.compile(r"/imagery/vectors/[0-9a-f-]{36}/"), timeout=READ_MS)
    expect(page.get_by_role("heading", name="What it holds")).to_be_visible(timeout=READ_MS)
    expect(page.locator("dl")).to_contain_text("EPSG:4326")
    expect(page.get_by_role("cell", name="wheat")).to_be_visible()
    expect(page.locator("#vector-map path.geo-core")).to_have_count(2, timeout=READ_MS)
    pictured(page, "vector-page")
    page.get_by_role("link", name="Ask in Winter cover").click()
    box = page.get_by_role("checkbox", name=re.compile("fields.geojson · 2 polygons"))
    expect(box).to_be_checked()
    expect(page.get_by_role("checkbox", name="geopandas_s2a_l2a_fishbourne.tif")).to_be_checked()
    page.get_by_label("Your question").fill("Which of the polygons in fields.geojson has the highest NDVI?")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/runs/"), timeout=READ_MS)
    expect(page.get_by_text(re.compile("Home has the highest mean NDVI")).first).to_be_visible(timeout=READ_MS)
    expect(page.get_by_text("fields.geojson").first).to_be_visible()
    page.wait_for_load_state("networkidle")
    expect(page.locator(".leaflet-container path.geo-core").first).to_be_attached(timeout=READ_MS)
    pictured(page, "vector-run")


def test_a_refused_file_a_table_without_crs_and_the_removal(
    page: Page, analyst: User, project: Project, fields: Path, tmp_path: Path, sign_in: Callable[[Any], None]
) -> None:
    (tmp_path / "map.geojson").write_text("<OGRVRTDataSource/>")
    (tmp_path / "sites.csv").write_text("x,y,site\n625000,5621500,a\n626000,5622000,b\n")
    sign_in(analyst)
    page.goto(f"/imagery/?project={project.pk}")
    expect(page.get_by_text("No vector layer yet")).to_be_visible()
    choose(page, fields, tmp_path / "map.geojson", tmp_path / "sites.csv")
    row = page.locator("#vectors tr")
    expect(row.filter(has_text="fields.geojson")).to_contain_text("Good", timeout=READ_MS)
    expect(row.filter(has_text="map.geojson")).to_contain_text("Refused", timeout=READ_MS)
    expect(row.filter(has_text="sites.csv")).to_contain_text("Needs its CRS", timeout=READ_MS)
    pictured(page, "vector-list")
    row.filter(has_text="map.geojson").get_by_role("link").click()
    expect(page.get_by_text("Its bytes and its extension are not those of one vector format")).to_be_visible()
    page.go_back()
    page.locator("#vectors tr").filter(has_text="sites.csv").get_by_role("link").click()
    page.get_by_label("CRS, where the file does not tell it").fill("EPSG:32630")
    page.get_by_role("button", name="Read it again").click()
    expect(page.locator("dl")).to_contain_text("as a person said", timeout=READ_MS)
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Remove from project").click()
    page.wait_for_url(re.compile(r"/imagery/\?project="))
    expect(page.locator("#vectors")).not_to_contain_text("sites.csv")
    assert not VectorLayer.objects.filter(name="sites.csv").exists()


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_vector_pages_are_accessible_and_fit_at_every_width(
    context: BrowserContext, analyst: User, scene: Scene, fields: Path, tmp_path: Path, sign_in: Callable[[Any], None], theme: Any
) -> None:
    good = vector_add_now(project=scene.project, path=fields, name=fields.name)
    bad = VectorLayer.objects.create(
        project=scene.project, name="sites.csv", status=VectorLayer.FAILED,
        error={"code": "NEEDS_CRS", "what": "The CRS of “sites.csv” is not known.", "why": "A table of x and y does not tell it.",
               "fix": "Say it, like EPSG:32630."},
    )  # fmt: skip
    sign_in(analyst)
    page = context.new_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    problems = []
    pages = {
        "list": f"/imagery/?project={scene.project_id}", "good": f"/imagery/vectors/{good.pk}/",
        "bad": f"/imagery/vectors/{bad.pk}/", "project": f"/projects/{scene.project_id}/",
    }  # fmt: skip
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name, address in pages.items():
            page.goto(address)
            page.wait_for_load_state("networkidle")
            problems += problems_of(page, f"{name}-{theme}-{width}")
    assert problems == []
    assert errors == []


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_table_by_polygon_stands_under_the_answer_at_every_width(
    context: BrowserContext, analyst: User, scene: Scene, fields: Path, sign_in: Callable[[Any], None], theme: Any
) -> None:
    from apps.runs.selectors import run_state
    from apps.runs.services import run_execute_now, run_start

    held = vector_add_now(project=scene.project, path=fields, name=fields.name)
    run = run_start(
        user=analyst, project=scene.project, text="What is the mean NDVI in each field?", scenes=[scene],
        vectors=[held.vector_info], enqueue=False,
    )  # fmt: skip
    assert run_execute_now(run_id=run.pk)
    (seen,) = run_state(run.pk).history
    sign_in(analyst)
    page = context.new_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    errors: list[str] = []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    problems = []
    pages = {"run": f"/runs/{run.pk}/", "observation": f"/observations/{seen.id}/", "report": f"/runs/{run.pk}/report/"}
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name, address in pages.items():
            page.goto(address)
            page.wait_for_load_state("networkidle")
            row = page.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Home"))
            expect(row.first).to_contain_text("0.847")
            problems += problems_of(page, f"table-{name}-{theme}-{width}")
    assert problems == []
    assert errors == []
