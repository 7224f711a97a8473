"""The offline planner on questions about the kind of place."""

from __future__ import annotations

from typing import Any

import pytest

from apps.agent.planner.offline import OfflinePlanner
from apps.agent.planner.places import reads_place
from apps.core.evidence.plan import Plan, Question
from tests.unit.tools.rasters import scene


def ask(text: str, *, roles: tuple[str, ...] = ("red", "green", "blue"), n: int = 1, crs: str | None = "EPSG:32632",
        **more: Any) -> Plan:
    import numpy as np

    data = np.full((len(roles), 8, 8), 100, np.uint8)
    scenes = tuple(scene(data, list(roles), scene_id=f"s{k}", crs=crs)[0] for k in range(n))
    return OfflinePlanner().plan(Question(text=text, scenes=scenes, **more))


@pytest.mark.parametrize("text", [
    "What kind of land cover is this?", "What kind of land use is this?", "Which land cover class is this?",
    "What is the dominant land cover in this image?", "What type of land cover does the image show?",
    "Which kind of place is this?", "Classify the land cover.", "What kind of scene is shown in the image?",
    "What is the main land use of this area?", "Is this a forest?"])
def test_open_questions_ask_the_model_for_its_own_classes(text: str) -> None:
    plan = ask(text)
    assert [s.tool for s in plan.steps] == ["perceive"], plan.reason
    assert plan.steps[0].arguments["mode"] == "scene" and plan.steps[0].arguments["label_space"] == []
    assert plan.task.task_type == "scene_classification" and plan.answer is not None and plan.answer.kind == "text"


@pytest.mark.parametrize(("text", "labels"), [
    ("Is this a forest or a city?", ["forest", "city"]), ("Is this forest or farmland?", ["forest", "farmland"]),
    ("Is the land cover mostly cropland, pasture or forest?", ["cropland", "pasture", "forest"]),
    ("Is the image a river or a lake?", ["river", "lake"]), ("Does the image show a parking lot or a harbour?", [
        "parking lot", "harbour"])])
def test_a_choice_of_places_is_the_label_space(text: str, labels: list[str]) -> None:
    plan = ask(text)
    assert plan.steps and plan.steps[0].arguments["label_space"] == labels, plan.reason


def test_options_are_the_labels_and_the_region_is_passed_on() -> None:
    region = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 0]]]}
    plan = ask("What kind of land cover is this?", choices={"A": "A forest.", "B": "Residential area"}, region=region)
    assert plan.steps[0].arguments["label_space"] == ["forest", "residential area"]
    assert plan.steps[0].arguments["region"] == region
    assert plan.answer is not None and (plan.answer.kind, plan.answer.options["of"]) == ("choice", "text")


@pytest.mark.parametrize("text", [
    "How much forest is there?", "Is the forest larger than the lake?", "Is there a river?",
    "What is the mean NDVI of this scene?",
    "What share of the land cover is forest?", "Is this a forest or a banana?", "How many ships are in the harbour?",
    "What kind of land cover changed between the two dates?", "Which land cover class is the largest in hectares?"])
def test_other_questions_are_left_to_the_parser_of_measurements(text: str) -> None:
    assert reads_place(Question(text=text, scenes=())) is None


def test_what_is_missing_is_said() -> None:
    assert ask("What kind of land cover is this?", roles=("red", "nir")).code == "NEEDS_BANDS"
    assert ask("What kind of land cover is this?", crs=None).code == "NEEDS_GSD"
    assert "Ask about one" in ask("What kind of land cover is this?", n=2).reason
