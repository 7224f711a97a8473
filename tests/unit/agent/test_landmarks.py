"""Words about marked places: which ends, which figure, which unit, and what is asked for where a mark is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyproj import Transformer

from apps.agent.arguments import validate_plan
from apps.agent.planner.landmarks import names_a_place
from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.landmark import Landmark
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.vector import VectorInfo
from tests.unit.tools.rasters import scene

A = Landmark(name="A", point=(10.0, 20.0), crs="image", precision=2.0)
B = Landmark(name="B", box=(40.0, 50.0, 60.0, 70.0), crs="image")
PIXELS = np.ones((3, 100, 100), dtype=np.uint8)
# 100 × 100 pixels of 10 m in UTM 32 north; their middle by pyproj is 10.42030 E, 50.53843 N
MIDDLE = (10.4203, 50.53843)


def ask(text: str, *marks: Landmark, crs: str | None = "EPSG:32632", gsd_m: float | None = None, **more: Any) -> Plan:
    info, _ = scene(PIXELS, ["red", "green", "blue"], crs=crs, gsd_m=gsd_m)
    question = Question(text=text, scenes=(info,), landmarks=marks, **more)
    made = OfflinePlanner().plan(question)
    validate_plan(made, frozenset({"s"}))
    return made


def call(made: Plan) -> dict[str, Any]:
    assert made.steps, made.reason
    step = made.steps[-1]
    assert step.tool == "perceive" and step.arguments["mode"] == "measurement"
    return dict(step.arguments)


def ends(made: Plan) -> list[str]:
    return [one["name"] for one in call(made)["landmarks"]]


@pytest.mark.parametrize(
    "text",
    [
        "How far apart are the two marked points?",
        "how far apart are the points I marked on the map",
        "What is the distance between A and B?",
        "distance from A to B",
        "Measure the straight-line distance between point A and point B.",
        "Could you tell me how far is A from B?",
        "How many metres are there between the two landmarks?",
        "What is the distance between the first marked point and the second marked point on the image?",
        "Distance between the two marked boxes",
    ],
)
def test_the_distance_between_the_marks(text: str) -> None:
    made = ask(text, A, B)
    arguments = call(made)
    assert ends(made) == ["A", "B"] and arguments["landmarks_method"] == {"measure": "distance", "unit": "m"}
    assert arguments["landmarks"][0] == {"name": "A", "point": [10.0, 20.0], "crs": "image", "precision": 2.0}
    assert arguments["landmarks"][1] == {"name": "B", "box": [40.0, 50.0, 60.0, 70.0], "crs": "image"}
    assert made.answer is not None and made.answer.unit == "m" and "the middle of the box" in made.understood
    assert made.task.task_type == "distance_measurement" and made.task.answer_form == "distance"


def test_units_and_choices() -> None:
    unit = ask("What is the distance from A to B in km?", A, B).answer
    assert unit is not None and unit.unit == "km"
    chosen = ask("How far apart are A and B?", A, B, choices={"A": "0.3 km", "B": "2 km"})
    assert chosen.answer is not None and (chosen.answer.kind, chosen.answer.unit) == ("choice", "km")
    assert ask("How far apart are A and B in hectares?", A, B).code == "BAD_ARGUMENT"


@pytest.mark.parametrize(
    ("text", "order"),
    [
        ("What is the bearing from A to B?", ["A", "B"]),
        ("azimuth from point B to point A", ["B", "A"]),
        ("What is the bearing of B from A in degrees?", ["A", "B"]),
        ("In which direction does A lie from B?", ["B", "A"]),
    ],
)
def test_a_bearing_has_a_direction(text: str, order: list[str]) -> None:
    made = ask(text, A, B)
    assert ends(made) == order and call(made)["landmarks_method"]["measure"] == "azimuth"
    assert made.answer is not None and made.answer.unit == "deg"


@pytest.mark.parametrize(
    "text", ["What is the bearing between A and B?", "What is the bearing between the two marked points?"]
)
def test_a_bearing_without_one_is_refused(text: str) -> None:
    made = ask(text, A, B)
    assert not made.steps and "from which to which" in made.reason
    assert ask("What is the magnetic bearing from A to B?", A, B).code == "NO_ANSWER"


@pytest.mark.parametrize(
    ("text", "marks", "missing"),
    [
        ("How far apart are the two marked points?", (), ["A", "B"]),
        ("What is the distance between A and B?", (A,), ["B"]),
        ("What is the bearing from A to B?", (B,), ["A"]),
        ("How far is the marked point from 50.538, 10.42?", (), ["A"]),
    ],
)
def test_missing_marks_are_asked_for(text: str, marks: tuple[Landmark, ...], missing: list[str]) -> None:
    made = ask(text, *marks)
    assert (made.code, made.needs) == ("NEEDS_LANDMARKS", {"landmarks": missing}) and not made.steps


def test_a_mark_and_coordinates() -> None:
    made = ask(f"How far is it from A to {MIDDLE[1]}, {MIDDLE[0]}?", A)
    assert call(made)["landmarks"][1] == {"name": "50.5384° N, 10.4203° E", "point": [10.4203, 50.53843], "crs": "EPSG:4326"}
    made = ask("Distance from pixel 5, 6 to the marked point", A)
    assert call(made)["landmarks"][0]["point"] == [5.0, 6.0] and ends(made)[1] == "A"
    outside = ask(f"How far is it from A to {MIDDLE[0]}, {MIDDLE[1]}?", A)  # longitude first: another continent
    assert outside.code == "NEEDS_LANDMARKS" and "outside the image" in outside.reason
    # two pairs of coordinates have been measured as they are before
    both = ask("What is the distance between 50.1, 11.2 and 50.2, 11.3?", A, B)
    assert both.steps[-1].tool == "measure"
    assert names_a_place("from A to 50.1, 11.2") and names_a_place("to pixel 3, 4") and not names_a_place("from A to B in 2019")


def test_two_marks_of_which_one_is_meant() -> None:
    made = ask("How far is the marked point from pixel 5, 6?", A, B)
    assert made.code == "NEEDS_LANDMARKS" and "which is meant" in made.reason
    assert "the same" in ask("How far is A from A?", A, B).reason


def test_a_picture_has_pixels_or_a_gsd() -> None:
    plain = ask("How far apart are A and B?", A, B, crs=None)
    assert call(plain)["landmarks_method"]["unit"] == "px" and "set the GSD for metres" in plain.warnings[0]
    assert ask("How far apart are A and B in metres?", A, B, crs=None).needs == {"gsd_m": True}
    assert call(ask("How far apart are A and B in m?", A, B, crs=None, gsd_m=0.5))["landmarks_method"]["unit"] == "m"
    assert ask("How far apart are A and B in pixels?", A, B, crs=None, gsd_m=0.5).code == "BAD_ARGUMENT"
    assert ask("What is the bearing from A to B?", A, B, crs=None).code == "NEEDS_CRS"
    degrees = Landmark(name="A", point=MIDDLE)
    assert ask("How far apart are A and B?", degrees, B, crs=None).code == "NEEDS_CRS"


def test_things_that_a_detector_finds() -> None:
    made = ask("What is the distance between the two planes?")
    assert [s.tool for s in made.steps] == ["perceive", "perceive"] and made.steps[0].arguments["mode"] == "objects"
    layer = {"$step": 1, "label": "plane"}
    assert call(made)["landmarks"] == [
        {"name": "plane 1", "layer": layer, "index": 0},
        {"name": "plane 2", "layer": layer, "index": 1},
    ]
    assert "A detector says where they are" in made.warnings[0]
    made = ask("How far is the ship from the storage tank?")
    assert [s.step for s in made.steps] == [1, 2, 3]
    assert [one["layer"] for one in call(made)["landmarks"]] == [
        {"$step": 1, "label": "ship"},
        {"$step": 2, "label": "storage tank"},
    ]
    made = ask("Distance between A and the ship", A)
    assert ends(made) == ["A", "the ship"]
    for text in ("What is the distance between the ship and the pier?", "How far is the church from the town hall?"):
        made = ask(text)
        assert made.code == "NEEDS_LANDMARKS" and "do not know how to find" in made.reason
    assert "ask for the distance between A and B" in ask("How far is the church from the town hall?", A, B).reason


def test_what_was_read_before_is_read_as_before() -> None:
    """Surfaces, kinds of things, and features of vector files are none of the marks' business."""
    assert ask("What is the distance between the trees and the water?").steps == ()  # needs near infrared
    named = VectorInfo.model_validate(
        {"vector_id": "v", "artifact": "sha256:" + "1" * 64, "name": "fields.geojson", "crs": "EPSG:4326", "n": 2,
         "kinds": {"Polygon": 2}, "format": "GeoJSON", "names": ["A", "B"], "name_field": "name", "bounds": (10, 50, 11, 51)}
    )  # fmt: skip
    assert ask("What is the distance between field A and field B?", vectors=(named,)).steps[-1].tool == "measure"
    assert ask("What is the distance between A and B?", vectors=(named,)).code != "NEEDS_LANDMARKS"
    made = ask("What is the distance between A and B?", A, B, vectors=(named,))
    assert not made.steps and "feature of a vector file" in made.reason
    assert ends(ask("What is the distance between point A and point B?", A, B, vectors=(named,))) == ["A", "B"]


def test_a_region_is_not_left_out_in_silence() -> None:
    ring = [[[0, 0], [9, 0], [9, 9], [0, 9], [0, 0]]]
    made = ask("How far apart are A and B?", A, B, region={"type": "Polygon", "coordinates": ring}, region_crs="image")
    assert not made.steps and "Clear it" in made.reason


def test_the_finest_image_that_holds_both_is_measured() -> None:
    fine, _ = scene(PIXELS, ["red", "green", "blue"], scene_id="fine", pixel=1.0)
    wide, _ = scene(PIXELS[:, :90], ["red", "green", "blue"], scene_id="wide", pixel=10.0)
    back = Transformer.from_crs("EPSG:32630", "EPSG:4326", always_xy=True).transform

    def mark(name: Any, x: float, y: float) -> Landmark:
        return Landmark(name=name, point=back(600000.0 + x, 5600000.0 - y))

    def chosen(*marks: Landmark) -> Any:
        made = OfflinePlanner().plan(Question(text="How far apart are A and B?", scenes=(wide, fine), landmarks=marks))
        return made.steps[0].arguments["image_paths"] if made.steps else made.code

    assert chosen(mark("A", 10, 10), mark("B", 90, 90)) == ["fine"]
    assert chosen(mark("A", 10, 10), mark("B", 500, 90)) == ["wide"]
    assert chosen(mark("A", 10, 10), mark("B", 5000, 90)) == "NEEDS_LANDMARKS"
    assert chosen(A, B) == "NO_ANSWER"  # pixels of which image?
