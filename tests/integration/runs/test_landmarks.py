"""Two marked places through the services: form, API and command line, kept in the database, measured, checked, refused."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.test import Client
from drf_spectacular.generators import SchemaGenerator
from pyproj import Geod

from apps.accounts.models import Project, User
from apps.core.evidence.landmark import Landmark
from apps.imagery.models import Scene
from apps.runs import selectors
from apps.runs.models import Run
from apps.runs.services import run_execute_now, run_start
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file
from tests.shared import DATA, has_shared

PICTURE = SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png"
A, BOX, MIDDLE = (-1.225, 50.742), (-1.204, 50.730, -1.200, 50.734), (-1.202, 50.732)
AZIMUTH, _, METRES = Geod(ellps="WGS84").inv(A[0], A[1], MIDDLE[0], MIDDLE[1])
TRIANGLE = {"type": "Polygon", "coordinates": [[[-1.2, 50.73], [-1.21, 50.74], [-1.2, 50.74], [-1.2, 50.73]]]}
QUESTION = "How far apart are the two marked places?"


def point(x: Any, y: Any, **properties: Any) -> dict[str, Any]:
    return {"type": "Feature", "geometry": {"type": "Point", "coordinates": [x, y]}, "properties": properties}


def box(x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]]}


@pytest.fixture
def client(analyst: User) -> Client:
    made = Client()
    made.force_login(analyst)
    return made


def posted(client: Client, project: Project, scenes: list[Scene], text: str = QUESTION, **more: Any) -> Any:
    body = {"project": str(project.pk), "scenes": [str(s.pk) for s in scenes], "question": text, **more}
    return client.post("/api/v1/runs/", json.dumps(body), content_type="application/json")


def test_by_the_api_the_distance_is_the_geodesic_one(client: Client, project: Project, fish: Scene) -> None:
    made = posted(client, project, [fish], landmarks=[point(*A, precision=12.5), box(*BOX)])
    assert made.status_code == 201, made.content
    run = Run.objects.get(pk=made.json()["id"])
    assert run.question["landmarks"] == [
        {"name": "A", "point": list(A), "box": None, "crs": "EPSG:4326", "precision": 12.5},
        {"name": "B", "point": None, "box": list(BOX), "crs": "EPSG:4326", "precision": None},
    ]
    run_execute_now(run_id=run.pk)
    state = selectors.run_state(run.pk)
    assert state.answer is not None and not state.answer.abstained, state.answer
    assert state.answer.value == pytest.approx(METRES, abs=1e-3) and state.answer.unit == "m"
    (held,) = state.observations.values()
    assert held.effective == "accept"
    # 12.5 m of the click at A, a pixel (10 m by the projection, 1 ‰ less or more on the ground) at B
    low, high = state.answer.interval or (0, 0)
    assert (high - low) / 2 == pytest.approx((12.5**2 + 10**2) ** 0.5, rel=2e-3)
    again = {c.check: c for c in held.checks}["geometry.landmarks_measured_again"]
    assert again.outcome == "passed" and again.expected == pytest.approx(METRES, abs=1e-3)
    measured: Any = held.observation.evidence.intermediate["landmarks_lonlat"]
    assert measured[0] == pytest.approx(list(A), abs=1e-9) and measured[1] == pytest.approx(list(MIDDLE), abs=1e-9)
    # asked again with what was kept, it is the same
    bearing = posted(client, project, [fish], "What is the bearing from A to B?", landmarks=[point(*A), box(*BOX)])
    run_execute_now(run_id=bearing.json()["id"])
    answer = selectors.run_state(bearing.json()["id"]).answer
    assert answer is not None and answer.value == pytest.approx(AZIMUTH % 360, abs=1e-4) and answer.unit == "deg"


@pytest.mark.parametrize(
    ("landmarks", "more", "part"),
    [
        ([], {}, "landmarks"),
        ([point(*A)], {}, "Only A is marked"),
        ([point(*A), point(*MIDDLE), point(-1.21, 50.73)], {}, "landmarks"),
        ("A and B", {}, "landmarks"),
        ([1, 2], {}, "landmarks"),
        ([point(*A), point(*A)], {}, "one and the same"),
        ([point(*A), point(-1.5, 50.732)], {}, "outside"),
        ([point(*A), point(50.732, -1.202)], {}, "other way round"),
        ([point(*A), point(float("nan"), 50.7)], {}, ""),
        ([point(*A), point(1e308, 50.7)], {}, "cannot be a place"),
        ([point(*A), point(10**400, 50.7)], {}, ""),
        ([point(*A), point("x", "y")], {}, "cannot be read"),
        ([point(*A), point(None, None)], {}, "cannot be read"),
        ([point(*A), {"type": "Point"}], {}, "cannot be read"),
        ([point(*A), {"type": "LineString", "coordinates": [[0, 0], [1, 1]]}], {}, "LineString"),
        ([point(*A), TRIANGLE], {}, "upright"),
        ([point(*A), {"type": "Polygon", "coordinates": []}], {}, "empty"),
        ([point(*A), box(-1.204, 50.730, -1.0, 50.734)], {}, "outside"),
        ([point(*A, precision=-1), point(*MIDDLE)], {}, "cannot be a place"),
        ([point(*A, precision="much"), point(*MIDDLE)], {}, "no number"),
        ([point(*A, precision=float("inf")), point(*MIDDLE)], {}, ""),
        ([point(*A), point(*MIDDLE)], {"landmarks_crs": "EPSG:3857"}, "EPSG:3857"),
        ([point(*A), point(*MIDDLE)], {"landmarks_crs": "image"}, "outside"),
        ([point(*A), {"type": "Feature", "geometry": {"a": {"b": [[[]]] * 5}}}], {}, "no geometry"),
    ],
)  # fmt: skip
def test_hostile_landmarks_are_refused(
    client: Client, project: Project, fish: Scene, landmarks: Any, more: dict[str, Any], part: str
) -> None:
    made = posted(client, project, [fish], landmarks=landmarks, **more)
    assert 400 <= made.status_code < 500, made.content
    assert part in made.content.decode()
    assert not Run.objects.exists()


def test_pixels_and_degrees_belong_to_their_imagery(client: Client, project: Project, fish: Scene) -> None:
    picture = scene_of_file(project=project, path=PICTURE)
    assert b"no coordinate system" in posted(
        client, project, [picture], landmarks=[point(*A), point(*MIDDLE)], landmarks_crs="EPSG:4326"
    ).content
    assert b"2 scenes are chosen" in posted(
        client, project, [fish, picture], landmarks=[point(3, 4), point(5, 6)], landmarks_crs="image"
    ).content
    assert not Run.objects.exists()
    # pixels of a scene with a CRS are measured on the globe
    made = posted(client, project, [fish], landmarks=[point(10, 20), point(110, 120)], landmarks_crs="image")
    run_execute_now(run_id=made.json()["id"])
    answer = selectors.run_state(made.json()["id"]).answer
    assert answer is not None and answer.value == pytest.approx(1000 * 2**0.5, rel=2e-3) and answer.unit == "m"
    # a plain picture has pixels, and metres once its GSD is known
    made = posted(client, project, [picture], landmarks=[point(10, 20), box(290, 400, 330, 440)])
    run_execute_now(run_id=made.json()["id"])
    answer = selectors.run_state(made.json()["id"]).answer
    assert answer is not None and (answer.value, answer.unit) == (500.0, "px")
    made = posted(client, project, [picture], QUESTION[:-1] + " in m?", landmarks=[point(10, 20), point(310, 420)])
    run_execute_now(run_id=made.json()["id"])
    answer = selectors.run_state(made.json()["id"]).answer
    assert answer is not None and answer.code == "NEEDS_GSD" and answer.needs == {"gsd_m": True}


def test_one_mark_and_coordinates_in_words(client: Client, project: Project, fish: Scene) -> None:
    made = posted(client, project, [fish], "How far is it from A to 50.732, -1.202?", landmarks=[point(*A)])
    assert made.status_code == 201
    run_execute_now(run_id=made.json()["id"])
    answer = selectors.run_state(made.json()["id"]).answer
    assert answer is not None and answer.value == pytest.approx(METRES, abs=1e-3)


@pytest.mark.ml
@pytest.mark.skipif(not has_shared(), reason="the picture is in the shared data")
def test_two_planes_that_the_detector_finds(analyst: User, project: Project) -> None:
    """The two planes of the picture, their outlines read off by eye at sixteen times its size: middles (134.2, 100.3) and
    (161.9, 106.9)."""
    picture = scene_of_file(project=project, path=DATA / "objects" / "deepness_planes_lawica.png", gsd_m=0.5)
    question = "What is the distance between the two planes?"
    run = run_start(user=analyst, project=project, text=question, scenes=[picture], enqueue=False)
    run_execute_now(run_id=run.pk)
    state = selectors.run_state(run.pk)
    assert state.answer is not None and not state.answer.abstained, state.answer
    by_eye = 0.5 * math.dist((134.2, 100.3), (161.9, 106.9))
    low, high = state.answer.interval or (0, 0)
    assert state.answer.value == pytest.approx(by_eye, abs=1.0) and low < by_eye < high
    assert "Look at its boxes" in state.answer.warnings[0]
    # the trees of a forest are not told apart: the two that are meant have to be marked
    crowns = scene_of_file(project=project, path=SAMPLES / "OSBS_029.tif", roles={"red": 1, "green": 2, "blue": 3})
    run = run_start(user=analyst, project=project, text="How far apart are the two trees?", scenes=[crowns], enqueue=False)
    run_execute_now(run_id=run.pk)
    answer = selectors.run_state(run.pk).answer
    assert answer is not None and answer.code == "NEEDS_LANDMARKS" and "2 were meant" in answer.text


def test_the_form_asks_for_marks_keeps_them_and_shows_them(ask: Any, client: Client, project: Project, fish: Scene) -> None:
    run = ask(QUESTION)
    assert run.error_code == "NEEDS_LANDMARKS"
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "data-marks-start" in page and 'name="landmark_a"' in page
    fields = {
        "project": str(project.pk), "scene": str(fish.pk), "question": QUESTION, "landmark_a": f"{A[0]}, {A[1]}",
        "landmark_a_precision": "8.25", "landmark_b": ", ".join(map(str, BOX)), "landmark_b_precision": "",
    }  # fmt: skip
    preview = client.post("/runs/plan/", fields).content.decode()
    assert "Distance between A and B (the middle of the box)" in preview
    asked = client.post("/runs/ask/", fields)
    assert asked.status_code == 302
    made = Run.objects.exclude(pk=run.pk).get()
    run_execute_now(run_id=made.pk)
    answer = selectors.run_state(made.pk).answer
    assert answer is not None and answer.value == pytest.approx(METRES, abs=1e-3)
    page = client.get(f"/runs/{made.pk}/").content.decode()
    assert 'value="-1.225, 50.742"' in page and 'value="8.25"' in page and 'value="-1.204, 50.73, -1.2, 50.734"' in page
    config = json.loads(page.split('id="map-config">')[1].split("</script>")[0])
    assert config["marks"] == "#ask-marks"
    marks = next(layer for layer in config["layers"] if layer["id"] == "marks")
    assert [f["properties"]["label"] for f in marks["data"]["features"]] == ["A", "B"]
    (observation,) = selectors.run_state(made.pk).observations
    shown = client.get(f"/observations/{observation}/").content.decode()
    assert "landmarks" in shown and "WGS 84" in shown
    refusals = {"50.742, -1.225": "other way round", "here": "is no place", "1,2,3": "3 numbers", "1e400, 2": "finite"}
    for bad, part in refusals.items():
        refused = client.post("/runs/ask/", fields | {"landmark_a": bad}, headers={"Accept": "application/json"})
        assert refused.status_code == 400 and part in refused.content.decode()


def test_the_command_line_reads_geojson_or_a_file(
    project: Project, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fish = next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))
    one_box = {"type": "Feature", "geometry": box(*BOX), "properties": {}}
    collection = {"type": "FeatureCollection", "features": [point(*A), one_box]}
    path = tmp_path / "places.geojson"
    path.write_text(json.dumps(collection))
    for given in (json.dumps(collection), str(path)):
        with pytest.raises(SystemExit) as ended:
            call_command("ask", str(fish), question="What is the distance from A to B in km?", landmarks=given, json=True)
        answer = json.loads(capsys.readouterr().out)["answer"]
        assert ended.value.code == 0
        assert answer["value"] == pytest.approx(METRES / 1000, abs=1e-6) and answer["unit"] == "km"
    old = collection | {"crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::3857"}}}
    refusals = {json.dumps(old): "3857", "nowhere.geojson": "no file", "{": "cannot be read", "[" * 5000: "cannot be read"}
    for bad, part in refusals.items():
        with pytest.raises(SystemExit) as ended:
            call_command("ask", str(fish), question=QUESTION, landmarks=bad)
        told = capsys.readouterr()
        assert ended.value.code == 2 and part in told.out + told.err


def test_the_schema_describes_landmarks() -> None:
    schema = SchemaGenerator().get_schema(request=None, public=True)
    fields = schema["components"]["schemas"]["QuestionIn"]["properties"]
    assert (fields["landmarks"]["minItems"], fields["landmarks"]["maxItems"]) == (1, 2)
    assert "GeoJSON" in fields["landmarks"]["description"] and "image" in str(fields["landmarks_crs"])


def test_a_mark_is_a_place() -> None:
    for wrong in ({}, {"point": (1, 2), "box": (0, 0, 1, 1)}, {"box": (1, 0, 0, 1)}, {"point": (1, 91)}, {"point": (400, 1)}):
        with pytest.raises(ValueError):
            Landmark.model_validate({"name": "A", **wrong})
