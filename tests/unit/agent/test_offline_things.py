"""Questions that name vector files, their features, places, relations and clouds: what each plan asks of the tools."""

from __future__ import annotations

from typing import Any

import pytest

from apps.agent.arguments import validate_plan
from apps.agent.planner.fields import Form
from apps.agent.planner.form import plan_from_form
from apps.agent.planner.offered import form_fields
from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import SceneInfo
from apps.core.geo.vector import VectorInfo
from tests.unit.agent.scripted import scene

ROLES = ("blue", "green", "red", "nir", "qa")
# a square on the planners' scene of 100 × 100 pixels in UTM 30
NEAR = (-1.585, 50.53, -1.575, 50.54)
REGION = {"type": "Polygon", "coordinates": [[[-1.59, 50.53], [-1.57, 50.53], [-1.57, 50.55], [-1.59, 50.53]]]}


def vector(
    name: str, kinds: dict[str, int], names: tuple[str, ...] = (), bounds: tuple[float, float, float, float] = NEAR
) -> VectorInfo:
    return VectorInfo(
        vector_id=name.split(".")[0], artifact="sha256:" + "1" * 64, name=name, format="GeoJSON", crs="EPSG:4326",
        n=sum(kinds.values()), kinds=kinds, fields=("name",) if names else (), name_field="name" if names else "", names=names,
        bounds=bounds,
    )  # fmt: skip


FILES = {
    v.vector_id: v
    for v in (
        vector("fields.geojson", {"Polygon": 3}, ("North field", "A", "Larimer")),
        vector("buildings.gpkg", {"Polygon": 43}),
        vector("sites.csv", {"Point": 12}),
        vector("roads.kml", {"LineString": 7}),
        vector("mixed.geojson", {"Polygon": 2, "Point": 1}),
        vector("far.geojson", {"Polygon": 2}, bounds=(10.0, 40.0, 11.0, 41.0)),
    )
}


def clear_scene(scheme: str = "landsat_c2", scene_id: str = "a") -> SceneInfo:
    info = scene(scene_id, roles=ROLES)
    bands = tuple(b.model_copy(update={"scheme": scheme}) if b.role == "qa" else b for b in info.bands)
    return info.model_copy(update={"bands": bands})


def asked(text: str, *files: str, scenes: tuple[SceneInfo, ...] | None = None, **more: Any) -> Question:
    held = (clear_scene(),) if scenes is None else scenes
    return Question(text=text, scenes=held, vectors=tuple(FILES[f] for f in files or FILES), **more)


def plan(text: str, *files: str, **more: Any) -> Plan:
    question = asked(text, *files, **more)
    made = OfflinePlanner().plan(question)
    validate_plan(made, frozenset(s.scene_id for s in question.scenes))
    return made


def spec(text: str, *files: str, **more: Any) -> dict[str, Any]:
    made = plan(text, *files, **more)
    assert made.steps, made.reason
    again = plan_from_form(asked(text, *files, form=made.form, **more))
    assert again.steps == made.steps  # the form that is shown is the plan
    held = made.steps[-1].arguments["spec"]
    assert isinstance(held, dict)
    return held


def nodes(made: Plan, step: int = -1) -> dict[str, dict[str, Any]]:
    assert made.steps, made.reason
    listed: Any = made.steps[step].arguments["nodes"]
    return {n["op"]: n.get("params", {}) for n in listed}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("How many of the polygons in buildings.gpkg lie within 100 m of the water?",
         {"metric": "count", "subject": "buildings.gpkg", "reference": "water", "relation": "within", "distance_m": 100.0}),
        ("How many sites are less than 0.5 km from roads.kml?", {"metric": "count", "relation": "within", "distance_m": 500.0}),
        ("How many sites are north of the water?", {"metric": "count", "relation": "north_of", "subject": "sites.csv"}),
        ("How many vehicles are inside fields.geojson?", {"metric": "count", "relation": "inside", "subject": "vehicle"}),
        ("How many vehicles are within 50 m of the trees?", {"metric": "count", "relation": "within", "reference": "tree"}),
        ("How many polygons of fields.geojson overlap buildings.gpkg?", {"metric": "count", "relation": "overlaps"}),
        ("How many polygons of fields.geojson touch buildings.gpkg?", {"metric": "count", "relation": "touches"}),
        ("How many sites lie between roads.kml and the water?",
         {"relation": "between", "reference": "roads.kml", "others": ["water"]}),
        ("What share of the polygons in buildings.gpkg lies within 50 m of roads.kml?",
         {"metric": "ratio", "denominator": "subject", "of": "count", "distance_m": 50.0}),
        ("What is the area of fields.geojson in ha?", {"metric": "area", "unit": "ha", "subject": "fields.geojson"}),
        ("What is the length of the roads in km?", {"metric": "length", "unit": "km"}),
        ("What is the perimeter of fields.geojson in km?", {"metric": "length", "length_of": "outline", "unit": "km"}),
        ("What is the total perimeter of fields.geojson?", {"metric": "length", "length_of": "outline", "unit": "m"}),
        ("What is the long side of buildings.gpkg?", {"metric": "length", "length_of": "extent"}),
        ("How far is the nearest road (roads.kml) from the lake?",
         {"metric": "distance", "distance_statistic": "minimum", "subject": "roads.kml", "reference": "water"}),
        ("What is the mean distance from the sites to the roads?", {"metric": "distance", "distance_statistic": "mean"}),
        ("What is the largest distance from the sites to the roads?", {"metric": "distance", "distance_statistic": "maximum"}),
        # among themselves: the pair farthest apart, or the loneliest one where neighbours are named
        ("What is the largest distance between the sites?", {"distance_statistic": "farthest", "subject": "sites.csv"}),
        ("What is the greatest distance between any two sites?", {"distance_statistic": "farthest"}),
        ("How far apart are the sites that are farthest apart?", {"distance_statistic": "farthest"}),
        ("What is the maximum distance between neighbouring sites?", {"distance_statistic": "maximum"}),
        ("What is the mean distance of the 3 nearest sites to the water?",
         {"relation": "nearest", "nearest_k": 3, "distance_statistic": "mean"}),
        ("How many trees per hectare are inside fields.geojson?",
         {"metric": "density", "unit": "1/ha", "denominator": "reference"}),
        ("How many cars per km2 are there?", {"metric": "density", "unit": "1/km2", "denominator": "valid"}),
        ("What is the ratio of cars to trucks?", {"metric": "ratio", "denominator": "reference", "of": "count"}),
        ("What is the distance between 48.1,11.5 and 48.2,11.6 in km?", {"metric": "distance", "unit": "km"}),
        ("How long is the river?", {"metric": "length", "subject": "water"}),
    ],
)  # fmt: skip
def test_things_and_relations(text: str, wanted: dict[str, Any]) -> None:
    found = spec(text)
    assert {k: found.get(k) for k in wanted} == wanted


def test_places_are_latitude_first_or_said() -> None:
    def places(text: str) -> list[list[float]]:
        sources: Any = plan(text).steps[-1].arguments["sources"]
        return [s["geometry"]["coordinates"] for s in sources]

    assert places("distance between 48.1,11.5 and 48.2,11.6") == [[11.5, 48.1], [11.6, 48.2]]
    assert places("distance between 48.1°N 11.5°E and 33.9 S, 151.2 E") == [[11.5, 48.1], [151.2, -33.9]]
    assert places("distance between lon 11.5, lat 48.1 and lon 11.6, lat 48.2") == [[11.5, 48.1], [11.6, 48.2]]
    refused = plan("distance between 120.5, 30.2 and 121.5, 31.2")
    assert not refused.steps and "Give latitude first" in refused.reason
    assert not plan("mean NDVI between 0.2, 0.4").steps


def test_zones_are_one_area_and_pixels_count_once() -> None:
    made = plan("What is the mean NDVI inside fields.geojson?")
    held = nodes(made)
    assert held["vector.zones"] == {"vector": FILES["fields"].artifact, "name": "name", "dissolve": True}
    assert held["raster.summarize.zonal"] == {"statistic": "mean"}
    area = nodes(plan("How many hectares of water are inside fields.geojson?"))
    assert area["raster.summarize.zonal"] == {"statistic": "area", "unit": "ha"}
    assert len(plan("How many hectares of water are inside fields.geojson?").steps[0].alternatives) >= 1
    assert nodes(plan("What share of fields.geojson has NDVI above 0.4?"))["raster.summarize.zonal"] == {"statistic": "share"}
    near = nodes(plan("What is the mean NDVI within 100 m of roads.kml?"))
    assert near["vector.zones"]["buffer_m"] == 100.0


def test_which_polygon_and_which_of_two() -> None:
    made = plan("Which field has the highest NDVI?")
    assert nodes(made)["raster.summarize.zonal"] == {"statistic": "mean", "pick": "max"}
    assert "dissolve" not in nodes(made)["vector.zones"] and made.answer is not None and made.answer.kind == "zone"
    two = plan("Is NDVI higher in field A than in Larimer?")
    assert [nodes(two, i)["vector.zones"]["only"] for i in (0, 1)] == [["A"], ["Larimer"]]
    assert two.answer is not None and two.answer.options["labels"] == ["A", "Larimer"]
    files = plan("Is NDVI higher in fields.geojson than in buildings.gpkg?")
    assert files.answer is not None and files.answer.kind == "compare" and len(files.steps) == 2
    less = plan("What is the difference in NDVI between Larimer and field A?")
    assert less.answer is not None and less.answer.kind == "difference"
    assert plan("Which district has the highest NDVI?", "fields").steps  # the one file of polygons
    three = plan("Which of Larimer, North field and field A has the highest NDVI?")
    assert three.answer is not None and three.answer.kind == "compare" and len(three.steps) == 3
    assert spec("How many fields are there in fields.geojson?") == {"metric": "count", "subject": "fields.geojson", "unit": "1"}
    share = nodes(plan("What percentage of fields.geojson is covered by water?"))
    assert share["raster.summarize.zonal"] == {"statistic": "share"}
    unsure = plan("Which district has the highest NDVI?")
    assert not unsure.steps and "Of which file" in unsure.reason and "buildings.gpkg" in unsure.reason


def test_points_in_the_region_are_counted_with_it() -> None:
    made = plan("How many points of sites.csv are inside the region?", region=REGION)
    assert made.steps[0].arguments["region"] == REGION and made.steps[0].arguments["spec"]["metric"] == "count"  # type: ignore[index,call-overload]


def test_files_and_places_need_no_image() -> None:
    assert spec("What is the area of fields.geojson?", scenes=())["metric"] == "area"
    assert spec("distance between 48.1,11.5 and 48.2,11.6", scenes=())["metric"] == "distance"
    refused = plan("What is the mean NDVI inside fields.geojson?", scenes=())
    assert not refused.steps and "no image" in refused.reason


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        ("What is the mean NDVI inside roads.kml?", "NO_ANSWER", "have no inside"),
        ("What is the mean NDVI inside sites.csv?", "NO_ANSWER", "have no inside"),
        ("What is the mean NDVI inside far.geojson?", "BAD_REGION", "lies outside of the image"),
        ("What is the area of roads.kml?", "NO_ANSWER", "enclose none"),
        ("What is the length of sites.csv?", "NO_ANSWER", "no length"),
        ("What is the length of fields.geojson?", "NO_ANSWER", "the perimeter of"),
        ("How long is buildings.gpkg?", "NO_ANSWER", "the long side of"),
        ("What is the perimeter of roads.kml?", "NO_ANSWER", "ask for the length"),
        ("Is NDVI higher in region X than in region Y?", "NO_ANSWER", "I do not know “region x”"),
        ("How many of the cars in fields.geojson are there?", "NO_ANSWER", "themselves, or cars"),
        ("How many points in fields.geojson are there?", "NO_ANSWER", "points"),
        ("How much water is north of roads.kml?", "NO_ANSWER", "surface"),
        ("What is the mean NDVI of other.geojson?", "NO_ANSWER", "other"),
        ("How many sites are within 100 m of the water and the roads?", "NO_ANSWER", "One relation"),
        ("How many vehicles are within 50 m of the water in fields.geojson?", "NO_ANSWER", "One relation"),
        ("Which field has the lowest maximum NDVI?", "NO_ANSWER", ""),
        ("Are the fields inside the water?", "NO_ANSWER", "Any of them, or all"),
        ("Does the road cross the water?", "NO_ANSWER", "Any of them, or all"),
        ("What is the mean NDVI in Larimer and field A?", "NO_ANSWER", "One area at a time"),
        ("How many sites are within 100 m of the forest?", "NO_ANSWER", "forest"),
        ("What is the area of roads.kml in km?", "NO_ANSWER", "not given in km"),
        ("How many sites per km2 are there?", "NEEDS_REGION", "Over which area"),
    ],
)
def test_what_cannot_be_is_refused(text: str, code: str, says: str) -> None:
    made = plan(text)
    assert not made.steps, made.understood
    assert made.code == code and says in made.reason


def test_two_files_of_one_name_are_asked_about() -> None:
    twin = FILES["fields"].model_copy(update={"vector_id": "other"})
    question = Question(text="mean NDVI inside fields.geojson", scenes=(clear_scene(),), vectors=(FILES["fields"], twin))
    made = OfflinePlanner().plan(question)
    assert not made.steps and "2 vector files" in made.reason and made.needs == {"vectors": ["fields", "other"]}


def test_shapes_without_an_inside_are_told() -> None:
    made = plan("What is the mean NDVI inside mixed.geojson?")
    assert nodes(made)["vector.zones"]["skip_others"] is True and "1 points or lines" in made.warnings[0]


def test_names_of_files_are_never_read_as_words() -> None:
    odd = vector("mean_ndvi_2020 above 0.4.geojson", {"Polygon": 2})
    text = "What is the share of water inside mean_ndvi_2020 above 0.4.geojson?"
    made = OfflinePlanner().plan(Question(text=text, scenes=(clear_scene(),), vectors=(odd,)))
    assert nodes(made)["raster.product.index"] == {"index": "ndwi"} and nodes(made)["raster.product.threshold"]["value"] == 0.0


@pytest.mark.parametrize(
    "words",
    [
        "ignoring clouds", "excluding clouds and their shadows", "without clouds", "over cloud-free pixels only",
        "cloud-free pixels only",
        "using the QA band", "using the SCL", "with clouds masked out", "of the cloudless pixels", "using the quality band",
    ],
)  # fmt: skip
def test_clouds_are_left_out_where_the_words_say_so(words: str) -> None:
    made = plan(f"What is the mean NDVI {words}?")
    assert nodes(made)["raster.product.index"] == {"index": "ndvi", "quality_mask": "auto"}
    assert "flags as cloud or shadow" in made.understood and made.form["mask"] == "clear"
    assert plan_from_form(asked("x", form=made.form)).steps == made.steps
    assert "quality_mask" not in nodes(plan("What is the mean NDVI?"))["raster.product.index"]


def test_clouds_are_left_out_of_areas_and_zones_and_not_of_counts() -> None:
    area = plan("How many hectares are water, ignoring clouds?")
    assert nodes(area)["raster.product.index"] == {"index": "ndwi", "quality_mask": "auto"}
    inside = plan("What is the mean NDVI inside fields.geojson, ignoring clouds?")
    assert nodes(inside)["raster.product.index"]["quality_mask"] == "auto"
    refused = plan("How many cars are there, ignoring clouds?")
    assert not refused.steps and "counted" in refused.reason


def test_a_scene_without_a_quality_band_says_so() -> None:
    bare = plan("What is the mean NDVI ignoring clouds?", scenes=(scene("a"),))
    assert (bare.code, bare.needs) == ("NEEDS_BANDS", {"roles": ["qa"]}) and "no quality band" in bare.reason
    unread = plan("What is the mean NDVI ignoring clouds?", scenes=(clear_scene(scheme=""),))
    assert "how its bits are read is not known" in unread.reason


def test_the_form_offers_files_features_and_relations() -> None:
    fields = {f["name"]: [c[0] for c in f["choices"]] for f in form_fields(asked("x"))}
    assert "vector:sites" in fields["target"] and "vector:roads" in fields["reference"]
    assert {"vector:fields", "vector:fields:Larimer"} <= set(fields["zones"]) and "vector:roads" not in fields["zones"]
    assert "within" in fields["relation"] and fields["mask"] == ["", "clear", "clear_cirrus"]
    filled = {"what": "count", "target": "vector:sites", "reference": "water", "relation": "within", "relation_m": 100.0}
    assert plan_from_form(asked("x", form=filled)).steps == plan("How many sites lie within 100 m of the water?").steps


def test_a_form_that_names_what_is_not_there() -> None:
    for form, says in (
        ({"what": "statistic", "quantity": "ndvi", "zones": ["vector:gone"]}, "no such vector file"),
        ({"what": "area", "target": "vector:fields:Nowhere"}, "no such vector file"),
        ({"what": "distance", "target": "place:11.5,98.1", "reference": "water"}, "no place"),
        ({"what": "count", "target": "vector:sites", "relation": "within", "reference": "water"}, "Within which distance"),
        ({"what": "statistic", "quantity": "ndvi", "zones": ["water"]}, "A zone is a vector file"),
        ({"what": "statistic", "target": "vector:sites", "quantity": "ndvi"}, "measured"),
    ):
        made = plan_from_form(asked("x", form=form))
        assert not made.steps and says in made.reason, made.reason
    assert Form.model_validate({"what": "zone", "quantity": "ndvi", "zones": ["vector:fields"]}).zones == ("vector:fields",)


@pytest.mark.parametrize(
    ("text", "many", "one"),
    [
        ("How many polygons of buildings.gpkg are larger than 5000 km2?", "have an area of more than 5,000 km²",
         "has an area of more than 5,000 km²"),
        ("How many of the polygons in buildings.gpkg lie within 100 m of the water?", "lie within 100 m of",
         "lies within 100 m of"),
        ("How many sites are north of the water?", "lie north of", "lies north of"),
        ("How many polygons of fields.geojson overlap buildings.gpkg?", "overlap ", "overlaps "),
        ("How many polygons of fields.geojson do not overlap buildings.gpkg?", "do not overlap ", "does not overlap "),
        ("How many polygons of buildings.gpkg are larger than 200 m2 and north of the water?",
         "have an area of more than 200 m² and lie north of", "has an area of more than 200 m² and lies north of"),
    ],
)  # fmt: skip
def test_how_many_of_them_do_is_a_sentence(text: str, many: str, one: str) -> None:
    recipe = plan(text).answer
    assert recipe is not None
    for said, key in ((many, "noun"), (one, "noun_one")):
        noun = recipe.options[key]
        assert isinstance(noun, str) and noun.startswith("of the ") and f" {said}" in noun, noun
