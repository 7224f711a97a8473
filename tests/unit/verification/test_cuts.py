"""What is cut to polygons and listed by polygon, against figures taken another way, and each fault that the checks must catch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import shapely
from pyproj import Geod, Transformer
from shapely.geometry import shape

from apps.verification.checks import run_checks
from tests.unit.verification import samples_cuts as s
from tests.unit.verification.samples import Sample

GEOD = Geod(ellps="WGS84")


def outcomes(sample: Sample) -> dict[str, str]:
    return {c.check: c.outcome for c in run_checks(sample.case())[0]}


def globe(sample: Sample, name: str) -> list[Any]:
    """The shapes of a file in longitude and latitude."""
    crs, held = s.files(sample.bench)
    t = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    return [
        shapely.transform(shape(f["geometry"]), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))
        for f in sample.bench.layers.read_vector(held[name])[0]
    ]


def area_m2(shape_in_degrees: Any) -> float:
    return abs(float(GEOD.geometry_area_perimeter(shapely.orient_polygons(shape_in_degrees))[0]))


def test_the_figures_are_those_of_the_ellipsoid() -> None:
    road, plots, houses = (globe(s.road_inside(), n) for n in ("road", "plots", "houses"))
    joined = shapely.union_all(plots)
    inside = float(GEOD.geometry_length(road[0].intersection(joined)))
    assert s.road_inside().observation.result.value == pytest.approx(inside, rel=1e-6)
    assert s.whole_m() == pytest.approx(float(GEOD.geometry_length(road[0])), rel=1e-6)
    assert inside < 0.9 * s.whole_m()
    share = s.covered().observation
    part = area_m2(shapely.union_all([h.intersection(joined) for h in houses]))
    assert share.result.value == pytest.approx(part / area_m2(joined), rel=1e-5)
    assert share.evidence.intermediate["numerator"] == pytest.approx(part, rel=1e-5)
    assert share.evidence.intermediate["denominator"] == pytest.approx(area_m2(joined), rel=1e-5)
    rows = {i["zone"]: i["value"] for i in s.road_by_plot().observation.result.items}
    assert list(rows) == ["west", "east"]
    for name, plot in zip(rows, plots, strict=True):
        assert rows[name] == pytest.approx(float(GEOD.geometry_length(road[0].intersection(plot))), rel=1e-6)
    evidence = s.road_by_plot().observation.evidence.intermediate
    assert evidence["numerator"] == pytest.approx(inside, rel=1e-6)  # what lies in both plots once
    both = float(GEOD.geometry_length(road[0].intersection(plots[0].intersection(plots[1]))))
    assert evidence["in_several_m"] == pytest.approx(both, rel=1e-5) and both > 1
    log = " ".join(line.message for line in s.road_by_plot().observation.status.log)
    assert "overlap" in log
    counted = {i["zone"]: i["value"] for i in s.houses_by_plot().observation.result.items}
    assert counted == {n: sum(p.contains(h.centroid) for h in houses) for n, p in zip(rows, plots, strict=True)}


# figure → the check that works it out again
OWN: dict[Callable[[], Sample], str] = {
    s.road_inside: "consistency.cut_recomputes", s.covered: "consistency.cut_recomputes",
    s.road_by_plot: "consistency.rows_recompute", s.houses_by_plot: "consistency.rows_recompute",
    s.largest_but_one: "consistency.rows_recompute", s.mean_perimeter: "consistency.instances_recompute",
    s.large_and_near: "consistency.relation_recomputes",
}  # fmt: skip


@pytest.mark.parametrize("make", OWN)
def test_an_honest_figure_fails_no_check(make: Callable[[], Sample]) -> None:
    found = outcomes(make())
    assert not [n for n, o in found.items() if o in ("failed", "errored", "inconclusive")]
    assert found[OWN[make]] == "passed"


def test_single_houses_have_the_figures_that_shapely_and_pyproj_give() -> None:
    houses = globe(s.mean_perimeter(), "houses")
    rims = [float(GEOD.geometry_length(g.boundary)) for g in houses]
    assert s.mean_perimeter().observation.result.value == pytest.approx(float(np.mean(rims)), rel=1e-5)
    areas = [area_m2(g) for g in houses]
    assert all(a > 10 for a in areas) and s.large_and_near().observation.result.value == 2
    assert s.largest_but_one().observation.result.value == f"feature {int(np.argsort(areas)[-2]) + 1}"


def scaled(sample: Sample, factor: float) -> Sample:
    return s.changed(sample, lambda rows: [{**r, "value": r["value"] * factor} for r in rows])


def denominator(sample: Sample, factor: float) -> Sample:
    """The share of something larger or smaller, with a record that agrees with itself."""
    held: Any = sample.observation.evidence.intermediate["denominator"]
    value: Any = sample.observation.result.value
    return sample.but({"/evidence/intermediate/denominator": held * factor, "/result/value": value / factor})


def counted_twice(sample: Sample) -> Sample:
    """A total that adds up the rows, though the plots overlap."""
    total = sum(float(str(i["value"])) for i in sample.observation.result.items)
    return sample.but({"/evidence/intermediate/numerator": total})


# the fault, as a tool would make it → (what it says then, the check that must catch it)
FAULTS: dict[str, tuple[Callable[[], Sample], str]] = {
    "the length was not cut": (lambda: s.road_inside().but({"/result/value": s.whole_m()}), "consistency.cut_recomputes"),
    "the outside was kept": (
        lambda: s.road_inside().but({"/result/value": s.whole_m() - float(str(s.road_inside().observation.result.value))}),
        "consistency.cut_recomputes",
    ),
    "a plane in place of the ellipsoid": (
        lambda: s.road_inside().but({"/result/value": s.in_mercator(s.road_inside(), "road")}),
        "consistency.cut_recomputes",
    ),
    "a share of the scene": (lambda: denominator(s.covered(), 1.6), "consistency.cut_recomputes"),
    "plots count twice where they overlap": (lambda: denominator(s.covered(), 1.12), "consistency.cut_recomputes"),
    "what there was before is another": (
        lambda: s.road_inside().but({"/evidence/intermediate/whole_m": 2 * s.whole_m()}),
        "consistency.cut_recomputes",
    ),
    "the whole length in each row": (
        lambda: s.changed(s.road_by_plot(), lambda rows: [{**r, "value": s.whole_m()} for r in rows]),
        "consistency.rows_recompute",
    ),
    "rows exchanged": (lambda: s.changed(s.road_by_plot(), s.exchanged), "consistency.rows_recompute"),
    "rows of a plane": (lambda: scaled(s.road_by_plot(), 1.29), "consistency.rows_recompute"),
    "kilometres called metres": (lambda: scaled(s.road_by_plot(), 1e-3), "consistency.rows_recompute"),
    "overlapping polygons counted twice in the total": (lambda: counted_twice(s.road_by_plot()), "consistency.rows_recompute"),
    "one house too many": (
        lambda: s.changed(s.houses_by_plot(), lambda rows: [{**rows[0], "value": int(rows[0]["value"]) + 1}, *rows[1:]]),
        "consistency.rows_recompute",
    ),
    "the sum of perimeters called their mean": (
        lambda: s.mean_perimeter().but({"/result/value": 3 * float(str(s.mean_perimeter().observation.result.value))}),
        "consistency.instances_recompute",
    ),
    "one of two conditions dropped": (
        lambda: s.large_and_near().but({"/result/value": 3}),
        "consistency.relation_recomputes",
    ),
    "the largest called the second largest": (
        lambda: s.largest_but_one().but({"/result/value": s.largest(s.largest_but_one())}),
        "consistency.rows_recompute",
    ),
    "a polygon left out": (lambda: s.changed(s.road_by_plot(), lambda rows: rows[1:]), "completeness.every_polygon_listed"),
    "a polygon twice": (lambda: s.changed(s.road_by_plot(), lambda rows: [*rows, rows[0]]), "completeness.every_polygon_listed"),
    "a polygon of another file": (
        lambda: s.changed(s.houses_by_plot(), lambda rows: [rows[0], {**rows[1], "zone": "north"}]),
        "completeness.every_polygon_listed",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_caught(fault: str) -> None:
    make, check = FAULTS[fault]
    assert outcomes(make())[check] == "failed"
