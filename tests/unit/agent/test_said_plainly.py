"""Plain ways to ask that are put into others: several names as one thing, ratios, borders, percentiles, reflectance."""

from __future__ import annotations

from typing import Any

import pytest

from apps.agent.planner.offline import OfflinePlanner
from apps.agent.planner.rewritten import rewritten
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.scene import SceneInfo
from apps.core.geo.vector import VectorInfo, with_part
from tests.unit.agent.scripted import scene
from tests.unit.agent.test_in_words import plan
from tests.unit.agent.test_offline_things import vector

NAMES = ("Denver", "Mesa", "Adams", "Larimer")
COUNTIES = vector("counties.geojson", {"Polygon": 4}, NAMES)
KINDS = COUNTIES.model_copy(update={"fields": ("name", "kind"), "values": {"kind": {"city": 1, "rural": 3}}})
ALL, DENVER, MESA = "vector:counties", "vector:counties:Denver", "vector:counties:Mesa"
TWO = "vector:counties/name=Denver|Mesa"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("How many counties touch Denver or Mesa?", {"target": ALL, "reference": TWO, "relation": "touches", "what": "count"}),
        ("How many counties lie within 30 km of Denver or Mesa?", {"reference": TWO, "relation": "within", "relation_m": 30_000}),
        ("What is the area of Denver and Mesa together?", {"what": "area", "target": TWO, "over": ""}),
        ("What is the total area of Denver and Mesa?", {"what": "area", "target": TWO, "over": ""}),
        ("How many counties are there except Denver?", {"what": "count", "target": "vector:counties/name=Mesa|Adams|Larimer"}),
        ("What is the total area of all counties except Denver and Mesa?", {"target": "vector:counties/name=Adams|Larimer"}),
        ("How many counties other than Denver are larger than 1000 km2?",
         {"what": "count", "target": "vector:counties/name=Mesa|Adams|Larimer"}),
        ("How many times larger is Mesa than Denver?", {"what": "ratio", "of": "area", "target": MESA, "reference": DENVER}),
        ("How many times smaller is Mesa than Denver?", {"what": "ratio", "of": "area", "target": DENVER, "reference": MESA}),
        ("By what factor is Mesa larger than Denver?", {"what": "ratio", "of": "area", "target": MESA, "reference": DENVER}),
        ("How many counties does Denver border?", {"what": "count", "target": ALL, "reference": DENVER, "relation": "touches"}),
        ("With how many counties does Denver share a border?", {"what": "count", "reference": DENVER, "relation": "touches"}),
        ("What is the distance between Denver and Mesa?", {"what": "distance", "target": DENVER, "reference": MESA}),
    ],
)  # fmt: skip
def test_what_a_plain_question_asks(text: str, wanted: dict[str, Any]) -> None:
    made = plan(text, vectors=(COUNTIES,))
    assert made.steps, made.reason
    assert {k: made.form.get(k) for k in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "pick"),
    [
        ("Which is larger, Denver or Mesa", "max"), ("Which one is bigger: Denver or Mesa?", "max"),
        ("Is Denver or Mesa larger?", "max"), ("Which of the two is the smaller, Denver or Mesa?", "min"),
    ],
)  # fmt: skip
def test_two_named_features_are_compared(text: str, pick: str) -> None:
    made = plan(text, vectors=(COUNTIES,))
    assert made.answer is not None, made.reason
    assert (made.answer.kind, made.answer.options["pick"], len(made.answer.steps)) == ("compare", pick, 2)
    second: Any = made.form["second"]
    assert (made.form["what"], made.form["target"], second["target"]) == ("area", DENVER, MESA)


@pytest.mark.parametrize(
    ("text", "of", "pick"),
    [
        ("Which kind has the most counties?", "count", "max"),
        ("Which kind has the fewest counties?", "count", "min"),
        ("Which kind has the largest number of counties?", "count", "max"),
        ("Which kind has the largest area?", "area", "max"),
    ],
)
def test_the_value_with_the_most_features(text: str, of: str, pick: str) -> None:
    form = plan(text, vectors=(KINDS,)).form
    assert (form["what"], form["of"], form["by"], form["pick"]) == ("zone", of, "kind", pick)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("What is the area of Denver and Mesa?", "together"),
        ("How many counties touch Denver and Mesa?", "3 things"),  # both at once is another question
        ("Which is larger: Denver, Mesa or Adams?", ""),  # of three the two figures are not all
        ("Which is longer, Denver or Mesa?", "the perimeter of"),
        ("What is the area of Denver and Mesa except Denver and Mesa?", ""),
    ],
)
def test_what_may_mean_two_things_is_refused(text: str, says: str) -> None:
    made = plan(text, vectors=(COUNTIES,))
    assert not made.steps and says in made.reason


def test_a_question_of_another_kind_is_left_as_it_is() -> None:
    for text in ("how many times was it flooded?", "how many counties are larger than mesa?", "which county borders mesa?"):
        assert rewritten(text) == text


def test_a_named_part_says_how_many_it_is() -> None:
    part: VectorInfo = COUNTIES.part("name", ("Denver", "Mesa"))
    assert (part.n, part.is_n_known, part.part_values) == (2, True, ("Denver", "Mesa"))
    many = vector("many.geojson", {"Polygon": 12}, tuple(f"P{i}" for i in range(12)))
    assert many.part("name", many.names[1:]).name == "many.geojson without “P0”"


def test_all_but_a_few_of_very_many_are_told_by_those() -> None:
    many = vector("many.geojson", {"Polygon": 150}, ("A!b|c", *(f"P{i}" for i in range(149))))
    made = plan("How many features are there in many.geojson except P0 and P1?", vectors=(many,))
    source = made.steps[0].arguments["sources"][0]  # type: ignore[index,call-overload]
    assert (source["without"], made.form["target"]) == (["P0", "P1"], "vector:many/name!P0|P1")  # type: ignore[index,call-overload]
    left = many.all_but(("A!b|c", "P3"))
    again = with_part((many,), left.vector_id)
    assert again == left and left.n == 148 and left.part_without == ("A!b|c", "P3")
    assert with_part((many,), "many/name!no such") is None


def of_image(text: str, *scenes: SceneInfo) -> Plan:
    return OfflinePlanner().plan(Question(text=text, scenes=scenes))


def last_node(made: Plan) -> Any:
    nodes: Any = made.steps[0].arguments["nodes"]
    return nodes[-1]


def test_percentiles_and_extremes_of_dates() -> None:
    out = last_node(of_image("What is the 90th percentile of NDVI?", scene("a")))
    assert (out["op"], out["params"]["statistic"], out["params"]["percentile"]) == (
        "raster.summarize.statistic",
        "percentile",
        90,
    )
    assert "There is no percentile 120" in of_image("120th percentile of NDVI", scene("a")).reason
    dated = (scene("a", acquired="2024-05-01"), scene("b", acquired="2024-06-01"))
    for text, over, of in (
        ("What is the highest mean NDVI of the series?", "max", "mean"), ("lowest median NDVI over time", "min", "median"),
    ):  # fmt: skip
        params = last_node(of_image(text, *dated))["params"]
        assert (params["over"], params["statistic"]) == (over, of)


def test_reflectance_of_stored_numbers_is_refused() -> None:
    stored = scene("a")
    scaled = stored.model_copy(update={"bands": tuple(b.model_copy(update={"unit": "reflectance"}) for b in stored.bands)})
    for text in (
        "What is the average NIR reflectance?",
        "What is the mean reflectance of the near infrared band?",
        "What is the 90th percentile of near infrared reflectance?",
    ):
        made = of_image(text, stored)
        assert (made.steps, made.code) == ((), "NEEDS_BANDS") and "is in DN" in made.reason
        assert of_image(text, scaled).steps
    assert of_image("What is the mean of the near infrared band?", stored).steps


@pytest.mark.parametrize(
    ("text", "many", "one"),
    [
        ("How many ships touch the counties?", "ships found that touch the 4", "ship found that touches the 4"),
        ("How many counties are there?", "polygons in counties.geojson", "polygon in counties.geojson"),
        (
            "How many counties touch Denver?",
            "of the 4 polygons of counties.geojson touch",
            "polygons of counties.geojson touches",
        ),
    ],
)
def test_one_of_them_is_told_as_one(text: str, many: str, one: str) -> None:
    made = plan(text, image="ships" in text, vectors=(COUNTIES,))
    assert made.answer is not None, made.reason
    assert many in str(made.answer.options["noun"]) and one in str(made.answer.options["noun_one"])
