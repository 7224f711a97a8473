"""Words about what is marked: which figure, which unit, what is asked for without a mark, and marks that play no part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyproj import Transformer

from apps.agent.arguments import validate_plan
from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.plan import Plan, Question
from apps.core.evidence.prompt import Prompt
from tests.unit.tools.rasters import scene

PIXELS = np.ones((4, 100, 100), dtype=np.uint8)
INSIDE = Prompt(kind="point", places=((20.5, 30.5),), crs="image")
OUTSIDE = Prompt(kind="stroke", places=((70.0, 10.0), (80.0, 20.0)), inside=False, crs="image")


def ask(text: str, *marks: Prompt, crs: str | None = "EPSG:32632", gsd_m: float | None = None, **more: Any) -> Plan:
    info, _ = scene(PIXELS, ["red", "green", "blue", "nir"], crs=crs, gsd_m=gsd_m)
    question = Question(text=text, scenes=(info,), prompts=marks, **more)
    made = OfflinePlanner().plan(question)
    validate_plan(made, frozenset({"s"}))
    return made


def figure(made: Plan) -> tuple[str, str]:
    """(metric, unit) of the measurement; the mask grows from the marks."""
    look, measure = made.steps
    method: Any = look.arguments["regions_method"]
    assert method["kind"] == "prompt" and method["points"] and measure.needs == (1,)
    spec: Any = measure.arguments["spec"]
    return spec["metric"], spec["unit"]


@pytest.mark.parametrize("text, wanted", [
    ("Segment this", ("area", "m2")),
    ("Please segment what I marked.", ("area", "m2")),
    ("Could you outline the building I clicked on?", ("area", "m2")),
    ("Segment this lake and give its area in ha", ("area", "ha")),
    ("How large is this?", ("area", "m2")),
    ("how big is the thing under my marks", ("area", "m2")),
    ("What is the area of the marked field in hectares?", ("area", "ha")),
    ("How many hectares does this field cover?", ("area", "ha")),
    ("How much area does it cover (in km²)?", ("area", "km2")),
    ("How large is what I marked, in m²?", ("area", "m2")),
    ("segment the lake", ("area", "m2")),
])  # fmt: skip
def test_words_about_the_marked_thing(text: str, wanted: tuple[str, str]) -> None:
    assert figure(ask(text, INSIDE)) == wanted


@pytest.mark.parametrize("text", [
    "segment this building", "Segment what I marked", "how large is this?", "What is the perimeter of the thing I marked?",
    "how large is this lake",
])  # fmt: skip
def test_without_a_mark_one_is_asked_for(text: str) -> None:
    made = ask(text)
    assert (made.steps, made.code, made.needs) == ((), "NEEDS_PROMPTS", {"prompts": True})
    assert "Mark the one that you mean" in made.reason


def test_what_is_marked_is_never_answered_by_something_else() -> None:
    # several, two figures, or words that are not read: no figure
    for text in ("segment the buildings I marked and these", "segment this, its area and perimeter", "what colour is it?"):
        made = ask(text, INSIDE)
        assert made.steps == () and "does not speak of it alone" in made.reason, text
    # another question is answered, and says that the marks play no part
    made = ask("What is the mean NDVI?", INSIDE)
    assert made.steps[0].tool == "execute" and any("plays no part" in w for w in made.warnings)
    assert not any("plays no part" in w for w in ask("What is the mean NDVI?").warnings)


@pytest.mark.parametrize("text", [
    "Segment it, and tell me the perimeter", "What is the perimeter of what I marked in km?",
    "How long is the shoreline of this lake?",
])  # fmt: skip
def test_a_perimeter_of_a_mask_is_refused_with_its_reason(text: str) -> None:
    made = ask(text, INSIDE)
    assert made.steps == () and "stairs of its pixels" in made.reason


def test_what_it_is_called_is_the_persons_word() -> None:
    assert any("That it is a field is your word" in w for w in ask("How many hectares does this field cover?", INSIDE).warnings)


def test_degrees_become_pixels_of_the_scene() -> None:
    info, _ = scene(PIXELS, ["red", "green", "blue", "nir"], crs="EPSG:32632")
    to_degrees = Transformer.from_crs("EPSG:32632", "EPSG:4326", always_xy=True)
    a, b, c, d, e, f = info.grid.transform

    def degrees(col: float, row: float) -> tuple[float, float]:
        return to_degrees.transform(a * col + b * row + c, d * col + e * row + f)

    (west, north), (east, south) = degrees(10, 20), degrees(60, 80)
    made = ask(
        "segment this",
        Prompt(kind="point", places=(degrees(20.5, 30.5),)),
        Prompt(kind="stroke", places=(degrees(70, 10), degrees(80, 20)), inside=False),
        Prompt(kind="box", places=((west, south), (east, north))),
    )
    method: Any = made.steps[0].arguments["regions_method"]
    assert method["points"][0] == pytest.approx([20.5, 30.5, 1], abs=0.01)
    assert method["scribbles"][0]["inside"] is False
    assert np.ravel(method["scribbles"][0]["line"]) == pytest.approx([70, 10, 80, 20], abs=0.01)
    # meridians are no columns: the upright box about the four corners, at most a pixel or two larger
    x0, y0, x1, y1 = method["box"]
    assert 8 <= x0 <= 10.01 and 59.99 <= x1 <= 62 and 18 <= y0 <= 20.01 and 79.99 <= y1 <= 82


def test_without_a_scale_pixels_are_told_and_metres_asked_for() -> None:
    made = ask("segment this", INSIDE, OUTSIDE, crs=None)
    assert [s.tool for s in made.steps] == ["perceive"] and made.answer is not None and made.answer.unit == "px"
    assert ask("how large is this in m²?", INSIDE, crs=None).code == "NEEDS_GSD"
    made = ask("how large is this in m²?", INSIDE, crs=None, gsd_m=0.5)
    sources: Any = made.steps[1].arguments["sources"]
    assert sources[0]["gsd_m"] == 0.5
    assert ask("how large is this in metres?", INSIDE).code == "BAD_ARGUMENT"


@pytest.mark.parametrize("wrong", [
    {"kind": "point", "places": ((1.0, 2.0), (3.0, 4.0))},
    {"kind": "stroke", "places": ((1.0, 2.0),)},
    {"kind": "box", "places": ((5.0, 5.0), (5.0, 9.0))},
    {"kind": "box", "places": ((1.0, 1.0), (5.0, 9.0)), "inside": False},
    {"kind": "point", "places": ((float("nan"), 2.0),)},
    {"kind": "point", "places": ((1.0, 91.0),), "crs": "EPSG:4326"},
    {"kind": "stroke", "places": tuple((float(i), 1.0) for i in range(2001))},
])  # fmt: skip
def test_what_is_no_mark(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Prompt.model_validate({"crs": "image", **wrong})
