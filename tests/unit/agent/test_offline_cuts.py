"""Questions whose things are cut to polygons, listed one by one, or lie outside, beyond and apart: what each plan asks for."""

from __future__ import annotations

from typing import Any

import pytest

from apps.agent.arguments import validate_plan
from apps.agent.planner.form import plan_from_form
from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.plan import Plan, Question
from tests.unit.agent.test_offline_things import FILES, REGION, clear_scene, nodes, vector

DISTRICTS = vector("districts.geojson", {"Polygon": 4}, ("Mitte", "West", "East", "Nord")).model_copy(
    update={"fields": ("name", "borough")}
)
HELD = (*(FILES[n] for n in ("fields", "buildings", "sites", "roads")), DISTRICTS)


def plan(text: str, *, image: bool = False, **more: Any) -> Plan:
    question = Question(text=text, scenes=(clear_scene(),) if image else (), vectors=HELD, **more)
    made = OfflinePlanner().plan(question)
    validate_plan(made, frozenset(s.scene_id for s in question.scenes))
    if made.steps:  # the form that is shown is the plan
        assert plan_from_form(question.model_copy(update={"form": made.form})).steps == made.steps
    return made


def spec(text: str, **more: Any) -> dict[str, Any]:
    made = plan(text, **more)
    assert made.steps, made.reason
    held = made.steps[-1].arguments["spec"]
    assert isinstance(held, dict)
    return held


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("What length of road lies inside the district Mitte?",
         {"metric": "length", "subject": "roads.kml", "reference": "Mitte", "relation": "inside", "clip": True}),
        ("What is the total length of roads inside fields.geojson?", {"metric": "length", "clip": True, "relation": "inside"}),
        ("How many km of road lie in districts.geojson?", {"metric": "length", "unit": "km", "clip": True}),
        ("How much road is inside Mitte?", {"metric": "length", "clip": True}),
        ("How many hectares of the fields lie within districts.geojson?",
         {"metric": "area", "unit": "ha", "clip": True, "subject": "fields.geojson", "reference": "districts.geojson"}),
        ("What area of buildings.gpkg lies outside districts.geojson?", {"metric": "area", "relation": "outside", "clip": True}),
        ("How many km of roads are not in any of the districts?", {"metric": "length", "relation": "outside", "clip": True}),
        ("What share of Mitte is covered by buildings.gpkg?",
         {"metric": "ratio", "of": "area", "subject": "buildings.gpkg", "reference": "Mitte", "denominator": "reference"}),
        ("What share of the district Mitte do the buildings cover?", {"metric": "ratio", "denominator": "reference"}),
        ("What area of the district is covered by buildings.gpkg?",
         {"metric": "area", "subject": "buildings.gpkg", "reference": "districts.geojson", "clip": True}),
        ("What share of Mitte is not covered by buildings.gpkg?",
         {"metric": "ratio", "of": "area", "subject": "Mitte", "relation": "outside", "denominator": "subject", "clip": True}),
        ("How many hectares of the fields are not covered by buildings.gpkg?",
         {"metric": "area", "subject": "fields.geojson", "relation": "outside", "clip": True}),
        ("What share of the length of the roads lies inside Mitte?",
         {"metric": "ratio", "of": "length", "denominator": "subject", "clip": True}),
        ("What share of the number of the fields lies within the district Mitte?",
         {"metric": "ratio", "of": "count", "denominator": "subject", "clip": None}),
        ("What share of Larimer lies within 100 m of the roads?", {"metric": "ratio", "of": "area", "distance_m": 100.0}),
        ("What area of the fields lies within 100 m of the roads?", {"metric": "area", "relation": "within", "clip": True}),
        ("What is the area of the fields that come within 100 m of the roads?",
         {"metric": "area", "relation": "within", "clip": None}),
        ("How many km of roads are farther than 2 km from the sites?",
         {"metric": "length", "relation": "beyond", "distance_m": 2000.0, "clip": True}),
        ("How many sites are outside fields.geojson?", {"metric": "count", "relation": "outside"}),
        ("How many sites are not within 200 m of a road?", {"metric": "count", "relation": "beyond", "distance_m": 200.0}),
        ("How many sites are more than 100 m from the roads?", {"metric": "count", "relation": "beyond", "distance_m": 100.0}),
        ("How many polygons of fields.geojson do not touch buildings.gpkg?", {"metric": "count", "relation": "apart"}),
        ("How many polygons of fields.geojson do not overlap buildings.gpkg?", {"relation": "not_overlapping"}),
        ("How many of the polygons in fields.geojson lie completely inside districts.geojson?", {"relation": "wholly_inside"}),
        ("How many sites does Mitte have?", {"metric": "count", "subject": "sites.csv", "relation": "inside"}),
        ("How many sites lie within the boundary of Mitte?", {"metric": "count", "reference": "Mitte", "relation": "inside"}),
        ("How many fields lie entirely outside Mitte?", {"metric": "count", "relation": "not_overlapping"}),
        ("Is more than 10 ha of the fields within Mitte?", {"metric": "area", "unit": "ha", "clip": True}),
        ("Are there more than 5 sites in Mitte?", {"metric": "count", "relation": "inside"}),
        ("Is there any road inside Mitte?", {"metric": "count", "relation": "overlaps"}),
        ("How many buildings are not within 50 m of a road?", {"subject": "buildings.gpkg", "relation": "beyond"}),
    ],
)  # fmt: skip
def test_what_is_cut_and_what_lies_elsewhere(text: str, wanted: dict[str, Any]) -> None:
    found = spec(text)
    assert {k: found.get(k) for k in wanted} == wanted


@pytest.mark.parametrize(
    ("text", "wanted", "kind"),
    [
        ("How many sites are in each district?", {"metric": "count", "each": "districts.geojson", "relation": "inside"}, "table"),
        ("Number of sites per district", {"metric": "count", "each": "districts.geojson"}, "table"),
        ("For each district, what is the length of the roads in km?",
         {"metric": "length", "unit": "km", "clip": True, "each": "districts.geojson"}, "table"),
        ("What is the area of each district in ha?",
         {"metric": "area", "unit": "ha", "subject": "districts.geojson", "each": "districts.geojson"}, "table"),
        ("What share of each district is covered by buildings.gpkg?",
         {"metric": "ratio", "of": "area", "denominator": "reference", "each": "districts.geojson"}, "table"),
        ("How many sites per km2 are in each district?", {"metric": "density", "unit": "1/km2", "each": "districts.geojson"},
         "table"),
        ("How many sites are within 500 m of each field?",
         {"metric": "count", "relation": "within", "distance_m": 500.0, "each": "fields.geojson"}, "table"),
        ("How far is each site from the nearest road?",
         {"metric": "distance", "subject": "sites.csv", "each": "sites.csv", "reference": "roads.kml"}, "table"),
        ("What is the length of each road?", {"metric": "length", "subject": "roads.kml", "each": "roads.kml"}, "table"),
        ("Which district has the most sites?", {"metric": "count", "pick": "max", "each": "districts.geojson"}, "zone"),
        ("Which district is the largest?", {"metric": "area", "pick": "max", "each": "districts.geojson"}, "zone"),
        ("Which road is the longest?", {"metric": "length", "pick": "max", "each": "roads.kml"}, "zone"),
        ("What is the largest district?", {"metric": "area", "pick": "max", "each": "districts.geojson"}, "zone"),
        ("Which field has the smallest area?", {"metric": "area", "pick": "min", "each": "fields.geojson"}, "zone"),
        ("Which district has the greatest length of roads?", {"metric": "length", "clip": True, "pick": "max"}, "zone"),
        ("Which district has the largest share covered by buildings.gpkg?", {"metric": "ratio", "pick": "max"}, "zone"),
        ("Which district has the highest density of sites?", {"metric": "density", "pick": "max"}, "zone"),
        ("What is the mean distance from each of the sites to the roads?",
         {"metric": "distance", "distance_statistic": "mean", "each": None}, "value"),
    ],
)  # fmt: skip
def test_a_figure_for_each(text: str, wanted: dict[str, Any], kind: str) -> None:
    made = plan(text)
    found = spec(text)
    assert {k: found.get(k) for k in wanted} == wanted
    assert made.answer is not None and made.answer.kind == kind


def test_what_is_picked_is_called_what_it_is() -> None:
    made = plan("Which road is the longest?")
    assert made.answer is not None and made.answer.options == {"phrase": "largest length", "noun": "lines"}
    near = plan("What is the mean NDVI within 100 m of each site?", image=True)
    assert "within 100 m of each of the 12 points" in near.understood


def test_rows_are_named_by_the_files_names_or_by_an_attribute() -> None:
    def listed(text: str) -> dict[str, Any]:
        sources: Any = plan(text).steps[-1].arguments["sources"]
        return next(x for x in sources if x["name"] == "districts.geojson")

    assert listed("How many sites are in each district?")["name_field"] == "name"
    assert listed("How many sites per borough?")["name_field"] == "borough"
    assert listed("What is the area of districts.geojson by borough?")["name_field"] == "borough"
    # an attribute that is also a word for things must be called one
    odd = DISTRICTS.model_copy(update={"fields": ("name", "building", "site")})
    question = Question(text="How many sites per attribute site are there?", scenes=(), vectors=(FILES["sites"], odd))
    told: Any = OfflinePlanner().plan(question).steps[0].arguments
    assert [x.get("name_field") for x in told["sources"]] == [None, "site"]
    plainly = question.model_copy(update={"text": "What is the length per building?"})
    assert not OfflinePlanner().plan(plainly).steps
    grouped = nodes(plan("What is the mean NDVI per borough?", image=True))["vector.zones"]
    assert (grouped["name"], grouped["group"]) == ("borough", True)
    bare = plan("How many sites are in each of buildings.gpkg?")
    assert "called by their number" in bare.warnings[0]


@pytest.mark.parametrize(
    ("text", "zones", "zonal", "kind"),
    [
        ("What is the mean NDVI of each field in fields.geojson?", {"dissolve": None, "outside": None}, {"statistic": "mean"},
         "table"),
        ("What is the mean NDVI in each district?", {"dissolve": None}, {"statistic": "mean"}, "table"),
        ("What is the area of water in each field, in ha?", {"dissolve": None}, {"statistic": "area", "unit": "ha"}, "table"),
        ("What share of each district is vegetation?", {"dissolve": None}, {"statistic": "share"}, "table"),
        ("What is the mean NDVI within 100 m of each road?", {"dissolve": None, "buffer_m": 100.0}, {}, "table"),
        ("What is the mean NDVI outside fields.geojson?", {"outside": True, "dissolve": None}, {"statistic": "mean"}, "value"),
        ("What is the mean NDVI farther than 100 m from the roads?", {"outside": True, "buffer_m": 100.0}, {}, "value"),
        ("What is the mean NDVI not within 100 m of the roads?", {"outside": True, "buffer_m": 100.0}, {}, "value"),
        ("How many hectares of water lie outside the fields?", {"outside": True}, {"statistic": "area"}, "value"),
        ("How many hectares of water lie inside the fields?", {"dissolve": True}, {"statistic": "area"}, "value"),
    ],
)  # fmt: skip
def test_the_image_in_each_and_outside(text: str, zones: dict[str, Any], zonal: dict[str, Any], kind: str) -> None:
    made = plan(text, image=True)
    held = nodes(made)
    assert {k: held["vector.zones"].get(k) for k in zones} == zones
    assert {k: held["raster.summarize.zonal"].get(k) for k in zonal} == zonal
    assert made.answer is not None and made.answer.kind == kind


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("What share of the roads lies inside Mitte?", "by number or by length"),
        ("What percentage of the fields lies within the district Mitte?", "by number or by area"),
        ("What is the area of the fields within 100 m of the roads?", "only the part that lies there"),
        ("How many roads are in Mitte?", "A line may lie partly inside"),
        ("Which district has the most roads?", "by their number, or by their length"),
        ("What is the area of each field that lies in Mitte?", "Each of those that lie somewhere"),
        ("What is the area of each field in Mitte?", "Write “in each …”"),
        ("What length of sites.csv lies inside Mitte?", "no length"),
        ("How many hectares of roads.kml lie inside Mitte?", "no area that could be cut"),
        ("What area of the fields lies inside roads.kml?", "no inside"),
        ("How many sites are in each road?", "no inside"),
        ("Is there a site in each district?", "For each of several I list"),
        ("What share of the sites lies in each district?", "The share of what"),
        ("How many sites are outside each district?", "nearly everything"),
        ("How many roads are in each district?", "A line may lie partly inside"),
        ("What is the density of roads in each district?", "A line may lie partly inside"),
        ("How many sites are inside roads.kml?", "no inside"),
        ("How many polygons of the fields are inside 50.53, -1.58?", "no inside"),
        ("How many sites Mitte?", "not what is asked of them"),
        ("What is the number of fields and districts?", "not what is asked of them"),
        ("Is more than 10 km of the roads within 100 m of the sites?", "A limit in km"),
        ("How many sites are in each parcel?", "Each parcel of which file"),
    ],
)
def test_what_the_words_do_not_tell_is_asked(text: str, says: str) -> None:
    made = plan(text)
    assert not made.steps, made.understood
    assert says in made.reason, made.reason


def test_a_word_for_a_file_and_for_things_in_the_image_is_asked_about() -> None:
    unsure = plan("How many buildings are within 50 m of a road?", image=True)
    assert not unsure.steps and "Do you mean the polygons of buildings.gpkg, or buildings" in unsure.reason
    told = "How many of the polygons in buildings.gpkg are within 50 m of a road?"
    assert spec(told, image=True)["subject"] == "buildings.gpkg"
    found = plan("How many buildings found in the image are within 50 m of a road?", image=True)
    assert found.steps[0].tool == "perceive"
    # without an image only the file can be meant
    assert spec("How many buildings are in each district?")["subject"] == "buildings.gpkg"


@pytest.mark.parametrize(
    "words",
    ["inside the region", "in the region", "within the region", "inside the area", "inside of this zone", "outside the region",
     "over the region", "inside the polygon", "within the boundary", "within my region"],
)  # fmt: skip
def test_a_region_that_is_not_there_is_asked_for(words: str) -> None:
    for text in (f"What is the mean NDVI {words}?", f"How many cars are {words}?", f"How many hectares of water are {words}?"):
        made = plan(text, image=True)
        assert (made.steps, made.code, made.needs) == ((), "NEEDS_REGION", {"region": True}), made.understood
    if "outside" in words:
        refused = plan(f"What is the mean NDVI {words}?", image=True, region=REGION)
        assert not refused.steps and "not left out" in refused.reason
    else:
        assert plan(f"What is the mean NDVI {words}?", image=True, region=REGION).steps[0].arguments["region"] == REGION


def test_the_region_is_asked_for_wherever_it_stands() -> None:
    for text in ("How many hectares of the region are water?", "What percentage of the region is water?",
                 "What is the region with the highest NDVI?"):  # fmt: skip
        assert plan(text, image=True).code == "NEEDS_REGION", text


def test_the_area_that_is_the_image_is_not_a_region() -> None:
    for text in ("What share of the area is water?", "What is the area of water?", "What is the mean NDVI of this area?"):
        assert plan(text, image=True).steps, text
