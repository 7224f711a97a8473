"""Features chosen by a value of an attribute: a figure of others than those is found out."""

from __future__ import annotations

from typing import Any

import pytest

from apps.verification.checks import CHECKS
from tests.unit.tools.rasters import UTM, Bench
from tests.unit.verification.samples import NDVI, ZONES, S, Sample, _corners, _outline, ask, graph, optical

CROPS = (("wheat", "land"), (None, "sea"), ("None", "land"))


def held(bench: Bench) -> str:
    """Three polygons of two places: of a crop, of none, and of one that is called None."""
    fields = [_outline(bench, _corners(*ZONES[zone]), name=str(i), crop=crop) for i, (crop, zone) in enumerate(CROPS)]
    return str(bench.layers.put_features(fields, kind="polygons", crs=UTM, label="fields.geojson").artifact)


def measured(metric: str, crop: str, **more: Any) -> Sample:
    bench = Bench(optical())
    source = {"name": "f", "mode": "extent", "vector": held(bench), "part_field": "crop", "part_values": [crop], **more}
    unit = {"area": "m2", "count": "1"}[metric]
    return ask(
        bench,
        "How large is it?",
        "area",
        "measure",
        {"sources": [source], "spec": {"metric": metric, "subject": "f", "unit": unit}},
    )


def test_a_figure_of_the_features_with_a_value() -> None:
    look = CHECKS["consistency.vector_recomputes"].look
    for metric in ("area", "count"):
        good = measured(metric, "wheat")
        assert look(good.case()).outcome == "passed"
        value = float(good.observation.result.value or 0)
        if metric == "count":
            assert value == 1
        # one more counted: the feature without a value, or the one that is called None
        assert look(good.but({"/result/value": value * 2}).case()).outcome == "failed"
    assert measured("count", "None").observation.result.value == 1
    assert look(measured("count", "None").but({"/result/value": 2}).case()).outcome == "failed"


def test_a_call_of_other_features_than_the_figure_is_found_out() -> None:
    good, other = measured("area", "wheat"), measured("area", "None")
    look = CHECKS["consistency.vector_recomputes"].look
    assert look(other.case()).outcome == "passed"
    wrong = other.but({"/result/value": float(good.observation.result.value or 0) * 1.5})
    assert look(wrong.case()).outcome == "failed"


def within(**ends: Any) -> Sample:
    """The number of three polygons whose rank (1, 2.5, none) or day lies within limits."""
    bench = Bench(optical())
    told = ((1, "2020-01-31"), (2.5, "2020-02-01T10:00:00Z"), (None, "soon"))
    shapes = [_outline(bench, _corners(*ZONES["land"]), rank=rank, day=day) for rank, day in told]
    held_by = str(bench.layers.put_features(shapes, kind="polygons", crs=UTM, label="fields.geojson").artifact)
    source = {"name": "f", "mode": "extent", "vector": held_by, **ends}
    spec = {"metric": "count", "subject": "f", "unit": "1"}
    return ask(bench, "How many are there?", "integer", "measure", {"sources": [source], "spec": spec})


@pytest.mark.parametrize(("ends", "n"), [
    ({"part_field": "rank", "part_min": 1}, 2), ({"part_field": "rank", "part_min": 1, "part_open": "min"}, 1),
    ({"part_field": "rank", "part_min": 0, "part_max": 2.5, "part_open": "max"}, 1), ({"part_field": "rank", "part_max": 2.5}, 2),
    ({"part_field": "day", "part_min": "2020-02-01"}, 1), ({"part_field": "day", "part_max": "2020-02-01"}, 2),
    ({"part_field": "day", "part_min": "2020-01-31", "part_max": "2020-02-01", "part_open": "both"}, 0)])  # fmt: skip
def test_a_figure_of_the_features_between_limits(ends: dict[str, Any], n: int) -> None:
    if not n:
        with pytest.raises(AssertionError, match="no feature has such a value of day"):
            within(**ends)
        return
    good = within(**ends)
    look = CHECKS["consistency.vector_recomputes"].look
    assert good.observation.result.value == n and look(good.case()).outcome == "passed"
    assert look(good.but({"/result/value": n + 1}).case()).outcome == "failed"


def test_no_feature_with_a_value_is_an_error_and_no_zero() -> None:
    with pytest.raises(AssertionError, match="no feature has such a value of crop"):
        measured("count", "rye")


def test_zones_of_a_value() -> None:
    bench = Bench(optical())
    params = {"vector": held(bench), "part_field": "crop", "part_values": ["wheat"], "dissolve": True}
    nodes = graph(
        S, NDVI, ("z", "vector.zones", (), params), ("out", "raster.summarize.zonal", ("i", "z"), {"statistic": "mean"})
    )
    good = ask(bench, "What is the mean NDVI of the wheat?", "number", "execute", nodes)
    look = CHECKS["consistency.zonal_matches_source"].look
    assert look(good.case()).outcome == "passed"
    all_of_them = {k: v for k, v in params.items() if not k.startswith("part")}
    whole = graph(
        S, NDVI, ("z", "vector.zones", (), all_of_them), ("out", "raster.summarize.zonal", ("i", "z"), {"statistic": "mean"})
    )
    everything = ask(bench, "What is the mean NDVI of the wheat?", "number", "execute", whole).observation.result
    assert everything.value != pytest.approx(good.observation.result.value)
    taken = good.but({"/result/value": everything.value, "/result/items/0/value": everything.value})
    assert look(taken.case()).outcome == "failed"
