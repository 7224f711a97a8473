"""What is marked through the services: API, form and command line; segmented, measured, checked, overridden, refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from django.core.management import call_command
from django.test import Client
from rasterio.transform import from_origin

from apps.accounts.models import Project, User
from apps.imagery.models import Scene
from apps.review.services import verdict_give
from apps.runs import selectors
from apps.runs.models import ObservationRow, Run
from apps.runs.services import run_execute_now
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file
from tests.shared import DATA, has_shared

PICTURE = SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png"
# 200 × 240 pixels of 2 m: the disc has 40 pixels of radius about row 100, column 120; the left 20 columns hold no data
RADIUS_M = 80.0
TRUTH_M2 = np.pi * RADIUS_M**2


def disc_file(folder: Path) -> Path:
    rows, cols = np.mgrid[:200, :240] + 0.5
    inside = (rows - 100) ** 2 + (cols - 120) ** 2 <= 40**2
    data = (np.where(inside, 180, 80) + np.random.default_rng(3).normal(0, 6, inside.shape)).clip(1, 255).astype("uint8")
    data[:, :20] = 0
    with rasterio.open(folder / "disc.tif", "w", driver="GTiff", height=200, width=240, count=1, dtype="uint8", nodata=0,
                       crs="EPSG:32632", transform=from_origin(600000, 5600400, 2, 2)) as d:  # fmt: skip
        d.write(data[None])
    return folder / "disc.tif"


@pytest.fixture
def disc(tmp_path: Path, project: Project) -> Scene:
    return scene_of_file(project=project, path=disc_file(tmp_path))


@pytest.fixture
def client(analyst: User) -> Client:
    made = Client()
    made.force_login(analyst)
    return made


def point(x: Any, y: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": "Point", "coordinates": [x, y]}, "properties": properties}


def line(*at: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": "LineString", "coordinates": [*map(list, at)]}, "properties": properties}


def box(x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]]}


def posted(client: Client, scene: Scene, prompts: Any, text: str = "How large is what I marked, in m²?", **more: Any) -> Any:
    body = {"project": str(scene.project_id), "scenes": [str(scene.pk)], "question": text, "prompts": prompts,
            "prompts_crs": "image", **more}  # fmt: skip
    return client.post("/api/v1/runs/", json.dumps(body), content_type="application/json")


@pytest.mark.parametrize("prompts", [
    [point(120, 100), point(120, 30, inside=False)],
    [box(78, 58, 162, 142)],
    [line((100, 100), (140, 104)), line((60, 40), (180, 40), inside=False)],
])  # fmt: skip
def test_by_the_api_the_area_is_the_discs(client: Client, disc: Scene, prompts: Any) -> None:
    made = posted(client, disc, prompts)
    assert made.status_code == 201, made.content
    run_execute_now(run_id=made.json()["id"])
    state = selectors.run_state(made.json()["id"])
    assert state.answer is not None and not state.answer.abstained, state.answer
    assert state.answer.value == pytest.approx(TRUTH_M2, rel=0.03) and state.answer.unit == "m2"
    low, high = state.answer.interval or (0, 0)
    assert low <= TRUTH_M2 <= high
    assert any("Only a look tells whether the mask is the thing" in w for w in state.answer.warnings)
    assert "from the marks by a random walker" in state.answer.text


def test_a_person_overrides_the_mask(client: Client, disc: Scene, analyst: User) -> None:
    made = posted(client, disc, [box(78, 58, 162, 142)], "Segment this")
    run = Run.objects.get(pk=made.json()["id"])
    run_execute_now(run_id=run.pk)
    before = selectors.run_state(run.pk).answer
    assert before is not None and before.value == pytest.approx(TRUTH_M2, rel=0.03)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "What was marked" in page and "box " in page
    row = ObservationRow.objects.get(run=run, step=1)
    assert client.get(f"/observations/{row.pk}/").status_code == 200
    verdict_give(user=analyst, observation_id=row.pk, value="reject", reason="wrong_value", enqueue=False)
    assert run_execute_now(run_id=run.pk)
    state = selectors.run_state(run.pk)
    assert state.observations[row.pk].effective == "reject" and state.answer is not None and state.answer.abstained


@pytest.mark.parametrize(("prompts", "part"), [
    ([], "prompts"),
    ("a point", "prompts"),
    ([point(120, 30, inside=False)], "mark what is outside"),
    ([point(500, 100)], "outside the imagery"),
    ([point(120, -3)], "outside the imagery"),
    ([point("x", 3)], "finite numbers"),
    ([point(10**400, 3)], ""),
    ([point(float("nan"), 3)], ""),
    ([point(True, 3)], "finite numbers"),
    ([point(120, 100, inside="yes")], "neither true nor false"),
    ([point(10, 100)], "without data"),
    ([line((5, 50), (15, 60))], "without data"),
    ([point(120, 100), point(120, 100, inside=False)], "contradict"),
    ([box(78, 58, 162, 142), point(30, 30)], "contradict"),
    ([box(78, 58, 78, 142)], "no upright box"),
    ([box(78, 58, 79, 59)], "two pixels"),
    ([box(78, 58, 162, 142), box(80, 60, 162, 142)], "two boxes"),
    ([box(78, 58, 300, 142)], "outside the imagery"),
    ([point(100 + i % 40, 90) for i in range(101)], "prompts"),
    ([line(*[(30 + i / 100, 50.0) for i in range(2001)])], "more than 2,000"),
    ([line((30, 50))], "two places or more"),
    ([{"type": "MultiPoint", "coordinates": [[1, 2]]}], "MultiPoint"),
    ([{"type": "Polygon", "coordinates": [[[1, 1], [9, 1], [5, 9], [1, 1]]]}], "upright"),
    ([{"type": "Feature", "geometry": None, "properties": None}], "no geometry"),
])  # fmt: skip
def test_wrong_marks_are_refused(client: Client, disc: Scene, prompts: Any, part: str) -> None:
    made = posted(client, disc, prompts)
    assert 400 <= made.status_code < 500, made.content
    assert part in made.content.decode()
    assert not Run.objects.exists()


def test_the_form_reads_lines_and_refuses_what_is_none(client: Client, project: Project) -> None:
    picture = scene_of_file(project=project, path=PICTURE)

    def sent(text: str) -> Any:
        body = {"project": str(project.pk), "scene": str(picture.pk), "question": "Segment this", "prompts": text}
        return client.post("/runs/ask/", body)

    for bad in ("here", "in 1", "in 1, 2, 3", "box 1, 2, 3", "in 1e9999, 3", "in nan, 3", "out 5, 5", "in 5, 5\nin 1200, 1000",
                "in " + "1, 1; " * 40_000, "\n".join("in 5, 5" for _ in range(101))):  # fmt: skip
        assert 400 <= sent(bad).status_code < 500, bad[:40]
    assert not Run.objects.exists()
    assert sent("in 600, 500; 605, 505\r\nOUT: (640 540)\r\n").status_code == 302
    kept = Run.objects.get().question["prompts"]
    assert [(p["kind"], p["inside"]) for p in kept] == [("stroke", True), ("point", False)]
    assert kept[1]["places"] == [[640.0, 540.0]] and kept[1]["crs"] == "image"


def test_the_command_line_takes_marks(project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = disc_file(tmp_path)
    # the disc's middle and its upper edge by pyproj: 600240 5600200 and 600240 5600340 in UTM 32 north
    with pytest.raises(SystemExit) as ended:
        call_command("ask", str(path), question="how many hectares is this?", point=["10.4147902,50.5451318"],
                     not_point=["10.4148243,50.5463906"], json=True)  # fmt: skip
    answer = json.loads(capsys.readouterr().out)["answer"]
    assert ended.value.code == 0 and answer["unit"] == "ha"
    assert answer["value"] == pytest.approx(TRUTH_M2 / 1e4, rel=0.03)
    for given in (
        {"point": ["north"]},
        {"scribble": ["1,2"]},
        {"box": ["1,2,3"]},
        {"point": ["120,100"]},
        {"not_point": ["10.41,50.54"]},
    ):
        with pytest.raises(SystemExit) as ended:
            call_command("ask", str(path), question="segment this", **given)
        told = capsys.readouterr()
        assert ended.value.code == 2 and "BAD_PROMPTS" in told.out + told.err
    with pytest.raises(SystemExit) as ended:
        call_command("ask", str(path), question="segment this building")
    assert ended.value.code == 3 and "--point X,Y" in capsys.readouterr().out


def asked_of_water(client: Client, project: Project, n_px: int, kind: str) -> tuple[Run, float]:
    """(a run over the marks of that kind on a water body of so many labelled pixels, the label's area in m²)."""
    from tests.unit.tools.test_prompts import prompts_of, things, water

    roles = {"blue": 2, "green": 3, "red": 4, "nir": 8}
    scene = scene_of_file(project=project, path=DATA / "water_flood/Spain_7370579_S2Hand.tif", roles=roles)
    (body,) = [t for t in things(water(DATA)[2]) if t.sum() == n_px]
    marks = prompts_of(body)[kind]
    given = [point(float(x), float(y), inside=bool(k)) for x, y, k in marks.get("points", [])]
    for stroke in marks.get("scribbles", []):
        given.append(line(*([float(v) for v in at] for at in stroke["line"]), inside=stroke.get("inside", True)))
    made = posted(client, scene, given)
    assert made.status_code == 201, made.content
    # an independent area: pixels of the label times a pixel's sides on the sphere of WGS 84's authalic radius
    with rasterio.open(DATA / "water_flood/Spain_7370579_LabelHand.tif") as d:
        rows = np.nonzero(body)[0]
        latitude = np.radians(d.transform.f + d.transform.e * (rows + 0.5))
        sides = np.radians(d.transform.a) * np.radians(-d.transform.e) * 6371007.18**2
        truth = float((sides * np.cos(latitude)).sum())
    run_execute_now(run_id=made.json()["id"])
    return Run.objects.get(pk=made.json()["id"]), truth


@pytest.mark.skipif(not has_shared(), reason="needs the shared data")
@pytest.mark.parametrize(("n_px", "kind"), [(3504, "points in and out"), (632, "scribbles")])
def test_a_mask_that_comes_out_otherwise_waits_for_a_person(client: Client, project: Project, n_px: int, kind: str) -> None:
    """The body of 3,504 px was told as 69,834 m², a quarter of its label; that of 632 px by strokes is right (IoU 0.81). Neither
    comes out alike when it is grown again: no figure without a person."""
    run, truth = asked_of_water(client, project, n_px, kind)
    state = selectors.run_state(run.pk)
    assert state.answer is not None and state.answer.abstained and state.answer.value is None
    (row,) = ObservationRow.objects.filter(run=run)
    held = state.observations[row.pk]
    assert held.decision is not None and held.decision.decision == "request_evidence"
    assert any("set more marks" in reason for reason in held.decision.reasons)
    assert truth == pytest.approx({3504: 2.8e5, 632: 5.1e4}[n_px], rel=0.15)


@pytest.mark.skipif(not has_shared(), reason="needs the shared data")
def test_the_area_follows_when_a_person_accepts_the_mask(client: Client, project: Project, analyst: User) -> None:
    run, truth = asked_of_water(client, project, 632, "scribbles")
    row = ObservationRow.objects.get(run=run)
    verdict_give(user=analyst, observation_id=row.pk, value="accept", enqueue=False)
    assert run_execute_now(run_id=run.pk)
    answer = selectors.run_state(run.pk).answer
    assert answer is not None and not answer.abstained and answer.value == pytest.approx(truth, rel=0.1)
