"""How results read on a page: what is counted, the parts of a table, a series in two sizes, evidence without heaps of numbers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from apps.agent.planner.can_do import KINDS, can_do
from apps.agent.plurals import many_of, things_text
from apps.core.evidence.decision import Decision
from apps.core.evidence.observation import Configuration, LayerRef, Observation, Result, Status, TaskRef
from apps.core.geo.grid import Grid
from apps.runs.charts import series_chart
from apps.runs.evidence_words import step_names
from apps.runs.headline import detail_text, headline, is_said, layer_size
from apps.runs.reasons import reasons_shown, told_once
from apps.runs.tables import items_table, rows_table
from rsure_web.presentation import evidence_rows, layer_place, minus, offered_apart

DIGEST = "sha256:" + "a" * 64
GRID = Grid(crs="EPSG:32630", transform=(10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0), width=30, height=20)
BARE = Grid(crs=None, transform=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0), width=30, height=20)


def layer(kind: str, n: int | None, **more: Any) -> LayerRef:
    return LayerRef.model_validate({"kind": kind, "artifact": DIGEST, "label": "plane", "media_type": "", "n": n, **more})


def said(fine: str = "objects/nadir3", **result: Any) -> Observation:
    return Observation(
        id="o1",
        step=1,
        tool="perceive",
        configuration=Configuration(coarse=fine.split("/")[0], fine=fine),
        task=TaskRef(task_type="object_counting", question="?", answer_form="integer"),
        result=Result(**result),
        status=Status(state="ok", started_at=datetime(2026, 1, 2, tzinfo=UTC), elapsed_s=0.1),
    )


@pytest.mark.parametrize(
    ("kind", "n", "text"),
    [
        ("mask", 8626, "8,626 px"),
        ("raster", 40574, "40,574 px"),
        ("boxes", 8, "8 boxes"),
        ("boxes", 1, "1 box"),
        ("points", 2, "2 points"),
        ("polygons", 1, "1 polygon"),
        ("boxes", None, ""),
        ("image", 3, "3"),
    ],
)
def test_the_number_of_a_layer_says_what_it_counts(kind: str, n: int | None, text: str) -> None:
    assert layer_size(layer(kind, n)) == text


def test_a_layer_of_boxes_is_no_bare_number() -> None:
    found = said(kind="layer", quantity="plane", layers=(layer("boxes", 8),))
    assert headline(found) == ("8 boxes", "plane")


@pytest.mark.parametrize(
    ("quantity", "value", "what"),
    [
        ("number of tree inside park", 54, "trees inside park"),
        ("number of tree inside park", 1, "tree inside park"),
        ("number of palm tree", 0, "palm trees"),
        ("number of person", 2, "people"),
        ("number of water", 3, "pieces of water"),
        ("number of bare", 1, "piece of bare ground"),
        ("number of my_stations.geojson within roads.geojson", 5, "features of my_stations.geojson within roads.geojson"),
        ("number of tree, for each of parks", 2.5, "trees, for each of parks"),
        ("instances", 4, "instances"),
    ],
)
def test_a_count_says_what_it_counts(quantity: str, value: float, what: str) -> None:
    assert headline(said(kind="count", quantity=quantity, value=value))[1] == what


def test_every_object_and_class_has_a_plural_that_english_knows() -> None:
    from apps.agent.planner.lexicon import lexicon

    for one, many in (entry.title for entry in lexicon().objects.values()):
        assert (things_text(one, 1), things_text(one, 2)) == (one, many)
        assert many_of(many) == many
    # classes of models that the lexicon has no word for
    plurals = {
        "harbour": "harbours", "swimming-pool": "swimming-pools", "baseball diamond": "baseball diamonds", "bush": "bushes",
        "cherry": "cherries", "quay": "quays", "box": "boxes", "aircraft": "aircraft", "grass": "pieces of grass",
    }  # fmt: skip
    assert {one: things_text(one, 7) for one in plurals} == plurals


def test_what_a_line_says_is_not_said_again() -> None:
    assert is_said("10 of 11 windows are unlike.", "contract.x: The tool names none: 10 of 11 windows are  unlike (scope).")
    assert not is_said("", "anything") and not is_said("the trend is not significant", "it spans a year")


def test_the_slope_of_a_series_is_per_year_and_its_values_are_not() -> None:
    items = tuple({"date": f"201{k}-01-01", "value": 0.5 + k / 10} for k in range(4))
    for unit, of_values in (("1/year", "1"), ("degC/year", "degC")):
        chart = series_chart(
            said("raster.summarize/trend.linear/ndvi", kind="trend", value=0.1, unit=unit, quantity="ndvi", items=items)
        )
        assert chart is not None and chart["unit"] == of_values
        assert "year" not in chart["points"][0]["value"]


def test_an_interval_whose_ends_are_written_alike_is_not_told() -> None:
    assert detail_text(said(kind="count", value=17, quantity="mines", interval=(17, 17))) == ""
    assert detail_text(said(kind="count", value=17, quantity="mines", interval=(16, 18))) == "16 to 18"


def test_two_landmarks_are_no_valid_pixels() -> None:
    result = {"kind": "distance", "value": 1968.2, "unit": "m", "quantity": "distance"}
    marked = said("measurement/distance/point+point", **result)
    marked.evidence.intermediate["valid_px"] = 2
    assert "valid px" not in detail_text(marked)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"grid": GRID}, "EPSG:32630"),
        ({"grid": BARE}, "pixels of the picture"),
        ({"crs": "image"}, "pixels of the picture"),
        ({"crs": "EPSG:4326"}, "EPSG:4326"),
    ],
)
def test_a_file_says_where_its_coordinates_lie(given: dict[str, Any], text: str) -> None:
    assert layer_place(layer("raster" if "grid" in given else "boxes", 1, **given)) == text


def test_classes_stand_in_a_table_with_their_areas() -> None:
    items = tuple(
        {"class": c, "name": "", "area": a, "unit": "km2", "share": s, "n_px": n}
        for c, a, s, n in ((1, 1.2017241, 0.000829, 1209), (4, 762.92, 0.5264, 767596))
    )
    table = items_table(said(kind="table", value=1449.4, unit="km2", quantity="class", items=items))
    assert table is not None and (table["n"], table["shown"]) == (2, 2)
    # the empty names and the unit have no column of their own
    assert [table["first"], table["heading"], *table["columns"]] == ["Class", "Area", "Share", "Pixels"]
    assert [[r["zone"], r["value"], *r["cells"]] for r in table["rows"]] == [
        ["1", "1.202 km²", "0.08290 %", "1,209"],
        ["4", "762.92 km²", "52.64 %", "767,596"],
    ]


def test_bands_of_a_picture_stand_by_their_role() -> None:
    items = (
        {"p98": 849.0, "band": 1, "role": "blue", "unit": "DN", "noise": 21.762071},
        {"band": 2, "role": "green", "unit": "DN"},
    )
    table = items_table(said("evidence/statistics", kind="table", value=0.67, quantity="valid share", items=items))
    assert table is not None
    assert [table["first"], table["heading"], *table["columns"]] == ["Role", "Band", "98 %", "Noise"]
    assert table["rows"][0]["cells"] == ["849.00", "21.762"]
    assert table["rows"][1]["cells"] == ["–", "–"]


@pytest.mark.parametrize("item", [{"zone": "Home", "value": 0.8}, {"date": "2014-01-17", "value": 0.6}])
def test_zones_and_dates_have_tables_of_their_own(item: dict[str, Any]) -> None:
    assert items_table(said(kind="table", items=(item, item))) is None


def dated(fine: str, quantity: str) -> Observation:
    items = tuple({"date": f"2014-0{m}-01", "value": v, "n_valid": 9} for m, v in ((1, 0.5), (3, 0.9), (2, 0.7)))
    return said(fine, kind="statistic", value=-0.182, quantity=quantity, items=items)


def test_a_series_is_drawn_wide_and_small_in_order_of_its_dates() -> None:
    chart = series_chart(dated("raster.summarize/series/ndvi", "ndvi"))
    assert chart is not None and chart["title"] == "NDVI by date"
    assert [p["date"] for p in chart["points"]] == ["2014-01-01", "2014-02-01", "2014-03-01"]
    for drawing in chart["drawings"]:
        xs = [p["x"] for p in drawing["points"]]
        ys = [p["y"] for p in drawing["points"]]
        assert xs == sorted(xs) and (xs[0], xs[-1]) == (drawing["left"], drawing["right"])
        assert ys == sorted(ys, reverse=True) and drawing["width"] in (720, 340)
        # the values lie a tenth of their span within the frame: 0.9 is at 1/12 of the height that is drawn on
        drawn = drawing["bottom"] - 8
        assert ys[-1] == pytest.approx(8 + drawn / 12, abs=0.06) and ys[0] == pytest.approx(8 + drawn * 11 / 12, abs=0.06)


def test_the_series_behind_an_analysis_is_not_named_after_it() -> None:
    chart = series_chart(dated("raster.summarize/series_analysis/ndvi", "mann_kendall of ndvi"))
    assert chart is not None and chart["title"] == "NDVI by date"


def rows(**part: Any) -> dict[str, str]:
    return {r["name"]: r.get("text", "") for r in evidence_rows(part)}


def test_longitude_and_latitude_keep_five_decimals() -> None:
    assert rows(landmarks_lonlat=[[-1.2250000000000005, 50.742], [-1.2019999999999997, 50.73199999999999]]) == {
        "landmarks lonlat": "(−1.22500, 50.74200), (−1.20200, 50.73200)"
    }


def test_a_heap_of_numbers_is_folded_and_kept_whole() -> None:
    pixels = {"3": [[k, k + 1, 0.5] for k in range(48)], "4": [[k, k + 1, 0.7] for k in range(48)]}
    found = evidence_rows({"pixels_read": {"s1": {"physical": pixels}}})
    assert [r["name"] for r in found] == ["pixels read · s1 · physical", "3", "4"]
    assert [r["text"] for r in found[1:]] == ["48 values", "48 values"]
    assert '"s1"' not in found[1]["whole"] and found[1]["whole"].count("0.5") == 48


def test_what_is_the_same_of_all_is_said_once() -> None:
    assert rows(sensor={f"d{k}": "MODIS" for k in range(12)}) == {"sensor": "MODIS (each of 12)"}
    assert len(rows(sensor={"a": "MODIS", "b": "OLI", "c": "MODIS", "d": "MODIS"})) == 5


def test_one_record_is_an_entry() -> None:
    assert rows(weights=[{"name": "nadir3"}]) == {"weights": "1 entry"}


def test_figures_by_name_are_each_said() -> None:
    assert rows(masked={"source": 0, "undefined": 0, "masked_out": 0, "outside_region": 0}) == {
        "masked": "", "source": "0", "undefined": "0", "masked out": "0", "outside region": "0",
    }  # fmt: skip
    assert rows(resolution_m={f"d{k}": 231.656 for k in range(12)}) == {"resolution": "231.7\xa0m (each of 12)"}


def test_names_of_a_program_are_said_in_words_and_units_behind_their_figures() -> None:
    assert rows(method={"kind": "change_vector", "threshold_from": "otsu", "reference": None}, not_seen_m2=2126, n_px=7) == {
        "method": "", "kind": "change vector", "threshold from": "otsu", "not seen": "2,126\xa0m²", "pixels": "7",
    }  # fmt: skip
    assert rows(label_probabilities={"SeaLake": 0.25, "River": 0.5}) == {
        "label probabilities": "", "Sea lake": "0.25", "River": "0.5",
    }  # fmt: skip
    assert rows(region={"crs": "EPSG:4326", "given": False}) == {"region": "the whole image"}
    assert rows(area={"not_seen_m2": 0, "seen_px": 9}) == {"area": "", "not seen": "0\xa0m²", "seen": "9\xa0px"}


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("scope score -11.86, at least -5.65", "scope score −11.86, at least −5.65"),
        ("(nir - red) / (nir + red) at [-0.25, -.1]", "(nir − red) / (nir + red) at [−0.25, −.1]"),
        ("landsat7_2002-07-20.tif of 2002-07-20, 10-20 m, U-12", "landsat7_2002-07-20.tif of 2002-07-20, 10-20 m, U-12"),
    ],
)
def test_a_minus_is_one_where_it_is_read(text: str, read: str) -> None:
    assert minus(text) == read


def test_what_is_the_same_of_several_images_is_told_once() -> None:
    notes = ["a-1.tif: no scale.", "b.tif: no scale.", "The series is short.", "c.tif: other."]
    assert told_once(notes, ["a-1.tif", "b.tif", "c.tif"]) == [
        "a-1.tif and b.tif: no scale.", "The series is short.", "c.tif: other.",
    ]  # fmt: skip
    assert told_once([f"{k}.tif: dark." for k in range(12)], [f"{k}.tif" for k in range(12)]) == [
        "0.tif and 11 more images: dark."
    ]


def test_reasons_are_signs_with_their_weight_and_sentences() -> None:
    reasons = ("Probability of being right 0.98.", "For: share of valid pixels, 0.67 (+0.34).", "Against: 2 warnings (-0.90).")
    decision = Decision(decision="accept", stage="verifier", policy="p", reasons=reasons)
    assert reasons_shown(decision) == ([(0.34, "Share of valid pixels, 0.67"), (-0.9, "2 warnings")], [reasons[0]])


def test_an_end_that_is_only_rounding_is_zero() -> None:
    o = said("length/auto/things", kind="length", value=2.5, unit="m", interval=(2e-10, 5.0))
    assert detail_text(o) == "0 m to 5 m"
    assert "−0.5000 m" in detail_text(said("length/auto/things", kind="length", value=2.5, unit="m", interval=(-0.5, 5.0)))


def test_names_of_classes_are_words_and_probabilities_have_three_digits() -> None:
    items = (
        {"class": "SeaLake", "p": 0.0004, "p10": 0.0, "windows": 0},
        {"class": "River", "p": 0.98341, "p10": 1.0, "windows": 11},
    )
    table = items_table(said("scene/cover10", kind="class", value="River", quantity="kind of place", items=items))
    assert table is not None
    assert [(r["zone"], r["value"], *r["cells"]) for r in table["rows"]] == [
        ("Sea lake", "< 0.001", "0.000", "0"), ("River", "0.983", "1.000", "11"),
    ]  # fmt: skip


def test_steps_of_a_graph_are_called_by_what_they_make() -> None:
    nodes = [
        {"id": "s1", "op": "asset.scene", "params": {"scene": "A"}}, {"id": "s2", "op": "asset.scene", "params": {"scene": "B"}},
        {"id": "q1", "op": "raster.product.index", "inputs": ["s1"], "params": {"index": "nbr"}},
        {"id": "q2", "op": "raster.product.index", "inputs": ["s2"], "params": {"index": "nbr"}},
        {"id": "d", "op": "raster.product.difference", "inputs": ["q1", "q2"]},
        {"id": "m", "op": "raster.product.threshold", "inputs": ["d"], "params": {"value": 0.1}},
    ]  # fmt: skip
    o = said("raster.product/difference/nbr", kind="layer").model_copy(update={"arguments": {"nodes": nodes}})
    assert step_names(o, {"A": "20 Jul 2002", "B": "25 Nov 2002"}) == {
        "s1": "image, 20 Jul 2002", "s2": "image, 25 Nov 2002", "q1": "NBR, 20 Jul 2002", "q2": "NBR, 25 Nov 2002",
        "d": "difference", "m": "mask",
    }  # fmt: skip


def test_a_figure_of_the_evidence_is_marked_so_that_it_is_not_broken_in_two_lines() -> None:
    found = {
        r["name"]: r["is_figure"] for r in evidence_rows({"not_seen_m2": 1993516, "rule": "pixel centre inside", "given": True})
    }
    assert found == {"not seen": True, "rule": False, "given": False}


@pytest.mark.parametrize(
    ("quantity", "title"),
    [
        ("ndvi", "NDVI, by polygon"),
        ("area of fields.geojson, for each of fields.geojson", "area of fields.geojson, by polygon"),
        ("length of roads.geojson, for each of fields.geojson", "length of roads.geojson, for each of fields.geojson"),
    ],
)
def test_a_table_does_not_say_twice_what_its_rows_are(quantity: str, title: str) -> None:
    items = tuple({"zone": z, "value": v} for z, v in (("north", 2.0), ("south", 3.0)))
    table = rows_table(said("area/auto-each/extent", kind="table", unit="ha", quantity=quantity, items=items))
    assert table is not None and table["title"] == title


def test_what_can_be_answered_is_parted_from_a_refusal() -> None:
    text = (
        "I can't tell. Rain is no figure. I can answer: how many; how much area, or which share; and multiple choice over these."
    )
    said = offered_apart(text)
    assert said["text"] == "I can't tell. Rain is no figure."
    assert said["offered"] == ["how many", "how much area, or which share", "multiple choice over these"]
    near = offered_apart(f"I can't tell. Rain is no figure. {can_do('Rain?')}")
    assert near["text"] == "I can't tell. Rain is no figure." and near["offered"] == [kind for kind, _ in KINDS]
    assert offered_apart("It is 3.") == {"text": "It is 3.", "offered": []}
    assert offered_apart("No. I can answer: a; b. Say it otherwise.")["text"] == "No. Say it otherwise."
