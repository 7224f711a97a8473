"""The report in a real browser: every file is taken by its button, and the PDF says what the page says."""

import io
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone
from playwright.sync_api import BrowserContext, Page, expect
from pypdf import PdfReader

from apps.accounts.models import Project, User
from apps.accounts.services import user_create
from apps.core.errors import UserError
from apps.imagery.models import Scene
from apps.review.services import verdict_give
from apps.runs.models import ReportFile, Run
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.browser.accessible import looked_at, problems_of
from tests.browser.conftest import SAMPLES
from tests.scenes import scene_of_file

pytestmark = pytest.mark.browser

SignIn = Callable[[Any], None]
Answered = Callable[..., Run]
HOSTILE = 'Bäume <img src=x onerror="document.title=1"> ЖД ../../x'


@pytest.fixture
def trees(analyst: User, project: Project) -> Run:
    """Trees of a picture with a hostile name; a person has called what was found right."""
    scene = scene_of_file(project=project, path=SAMPLES / "OSBS_029.tif")
    info = scene.scene_info.model_copy(update={"name": HOSTILE + ".tif"})
    Scene.objects.filter(pk=scene.pk).update(name=HOSTILE, info=info.model_dump(mode="json"))
    scene.refresh_from_db()
    run = run_start(user=analyst, project=project, text="How many trees are there?", scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    for observation_id in run_state(run.pk).observations:
        verdict_give(user=analyst, observation_id=observation_id, value="accept", note=HOSTILE, enqueue=False)
    assert run_execute_now(run_id=run.pk)
    return run


def taken(page: Page, title: str) -> tuple[str, bytes]:
    """(suggested name, bytes) of what a button of the report gives."""
    with page.expect_download() as started:
        page.get_by_role("link", name=title, exact=True).click()
    return started.value.suggested_filename, Path(started.value.path()).read_bytes()


def test_every_file_is_taken_by_its_button(page: Page, analyst: User, trees: Run, sign_in: SignIn, tmp_path: Path) -> None:
    sign_in(analyst)
    page.goto(f"/runs/{trees.pk}/")
    page.get_by_role("tab", name="Answer").click()
    page.get_by_role("link", name="PDF, GPKG, COCO and other files").click()
    page.wait_for_url(re.compile(r"/report/#files"))
    expect(page.get_by_role("heading", name="How many trees are there?")).to_be_visible()
    short = str(trees.pk)[:8]
    held = {}
    for title, name in (
        ("PDF", "pdf"), ("CSV", "csv"), ("GeoJSON", "geojson"), ("GPKG", "gpkg"), ("COCO", "coco.json"), ("JSON", "json"),
        ("Provenance", "provenance.json"),
    ):  # fmt: skip
        given, held[title] = taken(page, title)
        assert given == f"run-{short}.{name}"
        if title == "PDF":  # made by the worker meanwhile, and told of on a page of its own
            expect(page.get_by_role("status").filter(has_text="The PDF is ready, as of event")).to_be_visible()
            page.get_by_role("link", name="Back to the report").click()
    found = json.loads(held["GeoJSON"])["features"]
    boxes = [f for f in found if f["properties"]["layer"] == "tree"]
    assert len(boxes) > 20
    assert len(json.loads(held["COCO"])["annotations"]) == len(boxes)
    (tmp_path / "x.gpkg").write_bytes(held["GPKG"])
    with sqlite3.connect(tmp_path / "x.gpkg") as db:
        tables = [row[0] for row in db.execute("SELECT table_name FROM gpkg_contents WHERE table_name LIKE '%tree_boxes'")]
        (n,) = db.execute(f"SELECT COUNT(*) FROM {tables[0]} WHERE verdict = 'accept'").fetchone()
    assert n == len(boxes)
    assert json.loads(held["JSON"])["run_id"] == json.loads(held["Provenance"])["run_id"] == str(trees.pk)
    assert len(held["CSV"].decode().splitlines()) == 1 + len(run_state(trees.pk).observations)
    # what a reader of the page sees stands in the PDF, and none of it acts
    printed = "".join(p.extract_text() for p in PdfReader(io.BytesIO(held["PDF"])).pages)
    page.locator("details.fold").evaluate_all("all => all.forEach((d) => { d.open = true; })")
    seen = page.locator("#main :is(td, th, dt, dd, h1, h2, .a1, .conf)").evaluate_all(
        """all => all.filter((e) => !e.closest("#map, #report-layers, #report-status, #files, .mapbox"))
                    .map((e) => e.textContent.trim())"""
    )
    bare = re.sub(r"\s+", "", printed)
    missing = [text for text in seen if re.sub(r"\s+", "", text) not in bare]
    assert len(seen) > 150 and missing == []
    assert re.sub(r"\s+", "", HOSTILE) in bare
    assert page.title().startswith("Report")
    # a layer's own file
    with page.expect_download() as started:
        page.get_by_role("link", name="GeoJSON in pixels of tree, step 1").click()
    assert re.fullmatch(r"[0-9a-f]{16}\.geojson", started.value.suggested_filename)


def test_the_pdf_comes_without_javascript(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn, live_stack: Any
) -> None:
    run = answered("What is the mean NDVI?")
    sign_in(analyst)
    browser = page.context.browser
    assert browser is not None
    context = browser.new_context(base_url=live_stack.url, java_script_enabled=False, storage_state=page.context.storage_state())
    bare = context.new_page()
    bare.goto(f"/runs/{run.pk}/report/")
    given, data = taken(bare, "PDF")
    assert given == f"run-{str(run.pk)[:8]}.pdf" and data[:5] == b"%PDF-"
    expect(bare.get_by_text("The PDF is ready, as of event")).to_be_visible()
    # the same state is there at once: the button gives the file itself
    bare.get_by_role("link", name="Back to the report").click()
    assert taken(bare, "PDF") == (given, data)
    expect(bare.get_by_role("heading", name="What is the mean NDVI?")).to_be_visible()
    context.close()


def test_what_there_is_not_is_said_and_others_get_nothing(page: Page, analyst: User, answered: Answered, sign_in: SignIn) -> None:
    run = answered("What is the mean NDVI?")
    sign_in(analyst)
    page.goto(f"/runs/{run.pk}/report/")
    for title, why in (
        ("COCO", "No observation of this run looked for objects."),
        ("GPKG", "No observation of this run has boxes, polygons or points, and it has no region."),
        ("GeoJSON", "The verified history holds no boxes, polygons or points."),
    ):
        button = page.get_by_role("button", name=title, exact=True)
        expect(button).to_be_disabled()
        expect(button).to_have_accessible_description(f"{title}: {why}")
    assert page.request.get(f"/runs/{run.pk}/report/?as=coco").status == 409
    sign_in(user_create(username="stranger", password="another long passphrase"))
    page.goto("/account/")
    kinds = ("html", "pdf", "csv", "geojson", "gpkg", "coco", "json", "provenance")
    assert {k: page.request.get(f"/runs/{run.pk}/report/?as={k}").status for k in kinds} == dict.fromkeys(kinds, 404)


def test_the_page_of_a_pdf_that_waits_or_failed_is_accessible(
    page: Page, analyst: User, answered: Answered, sign_in: SignIn
) -> None:
    run = answered("What is the mean NDVI?")
    sign_in(analyst)
    page.emulate_media(reduced_motion="reduce")
    slow = UserError("BUDGET_REACHED", "The PDF could not be made.", "It took too long.", "Take the report as HTML.", status=500)
    why = slow.as_json() | {"status": slow.status}
    for status, error, seen in (
        ("queued", {}, "The PDF waits for a worker."), ("making", {}, "The PDF is being made."), ("failed", why, slow.what),
    ):  # fmt: skip
        file = ReportFile.objects.create(
            run=run, kind="pdf", state_key=status, seq=1, status=status, error=error, heard_at=timezone.now()
        )
        page.goto(f"/runs/{run.pk}/report/files/{file.pk}/")
        expect(page.get_by_role("region", name="The PDF")).to_contain_text(seen)
        looked_at(page, f"pdf-{status}")


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_report_is_accessible_and_fits_at_every_width(
    context: BrowserContext, analyst: User, trees: Run, answered: Answered, sign_in: SignIn, theme: Any
) -> None:
    plain = answered("What is the mean NDVI?")
    sign_in(analyst)
    page = context.new_page()
    page.emulate_media(color_scheme=theme, reduced_motion="reduce")
    problems = []
    for width in (1440, 1024, 390):
        page.set_viewport_size({"width": width, "height": 900})
        for name, run in (("trees", trees), ("plain", plain)):
            page.goto(f"/runs/{run.pk}/report/")
            page.locator("#map[data-ready]").wait_for(state="attached")
            page.locator("details.fold").evaluate_all("all => all.forEach((d) => { d.open = true; })")
            problems += problems_of(page, f"report-{name}-{theme}-{width}")
    assert problems == []
