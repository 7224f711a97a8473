"""Single instances on the map: perimeters, statistics over instances, conditions beside a relation, ranks and who is nearest;
against shapely in UTM and an equal-area projection, and pyproj's geodesics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import shape

from apps.imagery.vectors import vector_read
from apps.verification.checks import Case, run_checks
from tests.unit.tools.rasters import Bench, scene
from tests.unit.tools.test_cuts_on_the_map import ALBERS, PLOTS, moved, rows
from tests.unit.tools.test_measure import blob, mask_of
from tests.unit.tools.test_measures_on_the_map import GEOD, bench, call, keep, utm13, value

ROWS, INSTANCES, RELATION = "consistency.rows_recompute", "consistency.instances_recompute", "consistency.relation_recomputes"


@pytest.fixture(scope="module")
def counties(shared_data: Path) -> tuple[list[Any], list[str]]:
    found = vector_read(shared_data / "vector/colorado-counties.geojson", "colorado-counties.geojson")
    _, names = found.naming()
    return [shape(f["geometry"]) for f in found.features], list(names)


def perimeter(g: Any) -> float:
    """Along straight lines of the degrees, as the file has them, in short geodesic steps."""
    return float(GEOD.geometry_length(shapely.segmentize(g, 0.002).boundary))


def told(b: Bench, o: Any, check: str, parents: Any = ()) -> tuple[str, str]:
    found = {c.check: (c.outcome, c.message) for c in run_checks(Case(o, b.question, parents, (), (), b.layers, None))[0]}
    return found[check]


def wrong(o: Any, **result: Any) -> Any:
    return o.model_copy(update={"result": o.result.model_copy(update=result)})


@pytest.mark.shared_data
def test_the_perimeter_of_each_county_and_their_mean(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every = {"counties": {"vector": keep(b, shapes, names=names), "name_field": "name"}}
    truth = {n: perimeter(g) for n, g in zip(names, shapes, strict=True)}
    o = call(b, every, metric="length", length_of="outline", each="counties", unit="km")
    found = rows(o)
    assert list(found) == names
    for name, km in found.items():
        assert km == pytest.approx(truth[name] / 1000, rel=1e-4), name
    assert told(b, o, ROWS)[0] == "passed", told(b, o, ROWS)
    assert o.evidence.intermediate["numerator"] == pytest.approx(sum(truth.values()), rel=1e-4)
    exchanged = [dict(i) for i in o.result.items]
    exchanged[3]["value"], exchanged[4]["value"] = exchanged[4]["value"], exchanged[3]["value"]
    assert told(b, wrong(o, items=tuple(exchanged)), ROWS)[0] == "failed"
    for statistic, how in (("mean", np.mean), ("median", np.median), ("minimum", np.min), ("maximum", np.max)):
        one = call(b, every, metric="length", length_of="outline", statistic=statistic, unit="km")
        assert one.result.value == pytest.approx(how(list(truth.values())) / 1000, rel=1e-4), statistic
        assert told(b, one, INSTANCES)[0] == "passed", told(b, one, INSTANCES)
        assert told(b, wrong(one, value=one.result.value * 1.03), INSTANCES)[0] == "failed"
    # the total in place of the mean is not the mean
    total = value(b, every, metric="length", length_of="outline", unit="km")
    assert total == pytest.approx(sum(truth.values()) / 1000, rel=1e-4)
    assert told(b, wrong(one, value=total), INSTANCES)[0] == "failed"
    second = call(b, every, metric="length", length_of="outline", each="counties", pick="max", rank=2)
    assert second.result.value == sorted(truth, key=lambda n: truth[n])[-2]
    first = sorted(truth, key=lambda n: truth[n])[-1]
    assert told(b, second, ROWS)[0] == "passed" and told(b, wrong(second, value=first), ROWS)[0] == "failed"


@pytest.mark.shared_data
def test_the_part_of_outlines_that_lies_in_a_county(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    boulder = {"vector": keep(b, shapes, names=names), "name_field": "name", "only": ["Boulder"]}
    home = shapes[names.index("Boulder")]
    o = call(b, {"plots": keep(b, PLOTS), "boulder": boulder}, metric="length", length_of="outline", reference="boulder",
             relation="inside", clip=True)  # fmt: skip
    truth = 0.0
    for plot in PLOTS:
        at = shapely.get_coordinates(shapely.segmentize(plot.exterior, 2e-5))
        lengths = np.asarray(GEOD.inv(at[:-1, 0], at[:-1, 1], at[1:, 0], at[1:, 1])[2])
        middles = (at[:-1] + at[1:]) / 2
        truth += float(lengths[shapely.contains_xy(home, middles[:, 0], middles[:, 1])].sum())
    assert o.result.value == pytest.approx(truth, rel=3e-4)
    check = "consistency.cut_recomputes"
    assert told(b, o, check)[0] == "passed", told(b, o, check)
    assert told(b, wrong(o, value=sum(perimeter(p) for p in PLOTS)), check)[0] == "failed"  # nothing was cut


@pytest.mark.shared_data
def test_conditions_hold_together(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every = keep(b, shapes, names=names)
    held = {"counties": every, "denver": {"vector": every, "name_field": "name", "only": ["Denver"]}}
    areas = np.array([moved(ALBERS, g).area for g in shapes])
    middle = [g.centroid for g in shapes]
    north = np.array([m.y > middle[names.index("Denver")].y for m in middle])
    gaps = np.array([utm13(g).distance(utm13(shapes[names.index("Denver")])) for g in shapes])
    large = areas > 3.7e9
    assert np.abs(areas / 3.7e9 - 1).min() > 3e-3 and np.abs(gaps - 150_000).min() > 300
    size = {"figure": "area", "op": ">", "value": 3700, "unit": "km2"}
    near = {"relation": "within", "reference": "denver", "distance_m": 150_000.0}

    def asked(**spec: Any) -> Any:
        o = call(b, held, **spec)
        assert o.status.state == "ok", o.status.reason
        return o

    for spec, truth in (
        ({"where": [size]}, int(large.sum())),
        ({"where": [size], "reference": "denver", "relation": "north_of"}, int((large & north).sum())),
        ({"where": [near], "reference": "denver", "relation": "north_of"}, int((north & (gaps <= 150_000)).sum())),
        ({"where": [{**size, "op": "<="}, near]}, int((~large & (gaps <= 150_000)).sum())),
    ):
        o = asked(metric="count", **spec)
        assert o.result.value == truth, spec
        assert told(b, o, RELATION)[0] == "passed", told(b, o, RELATION)
        assert told(b, wrong(o, value=truth + 2), RELATION)[0] == "failed"
        # one condition alone is another question
        assert told(b, wrong(o, value=64), RELATION)[0] == "failed"
    share = asked(metric="ratio", of="count", denominator="subject", where=[size])
    assert share.result.value == pytest.approx(large.sum() / 64) and told(b, share, RELATION)[0] == "passed"
    assert told(b, wrong(share, value=float(large.sum() / (large & north).sum())), RELATION)[0] == "failed"
    # of the large ones alone, or of all: the whole of the share is what the condition is said of
    for given, whole in ((True, int(large.sum())), (False, 64)):
        part = asked(metric="ratio", of="count", denominator="subject", where=[{**size, "is_given": given}], reference="denver",
                     relation="north_of")  # fmt: skip
        assert part.result.value == pytest.approx((large & north).sum() / whole)
        assert told(b, part, RELATION)[0] == "passed", told(b, part, RELATION)
        other = float((large & north).sum() / (64 if given else large.sum()))
        assert told(b, wrong(part, value=other), RELATION)[0] == "failed"
    area = asked(metric="area", unit="km2", where=[size], reference="denver", relation="north_of")
    assert area.result.value == pytest.approx(areas[large & north].sum() / 1e6, rel=2e-4)
    assert told(b, area, RELATION)[0] == "passed"
    assert told(b, wrong(area, value=float(areas[large].sum() / 1e6)), RELATION)[0] == "failed"
    # the source of a condition is no reference of the distance
    every_gap = [min(utm13(g).distance(utm13(o)) for o in chosen if o is not g)
                 for chosen in [[g for g, yes in zip(shapes, gaps > 150_000, strict=True) if yes]] for g in chosen]  # fmt: skip
    far = {"relation": "beyond", "reference": "denver", "distance_m": 150_000.0}
    apart = asked(metric="distance", distance_statistic="maximum", where=[far])
    assert apart.result.value == pytest.approx(max(every_gap), abs=max(1.0, 2e-3 * max(every_gap)))
    listed = call(b, {"counties": {"vector": every, "name_field": "name"}}, metric="area", each="counties", where=[size])
    assert list(rows(listed)) == [n for n, yes in zip(names, large, strict=True) if yes]
    for check in (ROWS, "completeness.every_polygon_listed"):
        assert told(b, listed, check)[0] == "passed", told(b, listed, check)
    less = wrong(listed, items=listed.result.items[1:])
    assert told(b, less, "completeness.every_polygon_listed")[0] == "failed"


@pytest.mark.shared_data
def test_who_is_nearest_beside_itself(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every = keep(b, shapes, names=names)
    others = {"vector": every, "name_field": "name", "without": ["Denver", "Boulder"]}
    held = {"counties": others, "boulder": {"vector": every, "name_field": "name", "only": ["Boulder"]}}
    left = [n for n in names if n not in ("Denver", "Boulder")]
    gaps = {n: utm13(shapes[names.index(n)]).distance(utm13(shapes[names.index("Boulder")])) for n in left}
    o = call(b, held, metric="distance", reference="boulder", each="counties", pick="max")
    assert o.result.value == max(gaps, key=lambda n: gaps[n]) and list(rows(o)) == left
    for check in (ROWS, "completeness.every_polygon_listed"):
        assert told(b, o, check)[0] == "passed", told(b, o, check)
    assert told(b, wrong(o, value="Adams"), ROWS)[0] == "failed"


def test_pieces_of_a_mask_are_numbered_and_placed() -> None:
    b = Bench(scene(np.ones((1, 60, 80), np.uint8), ["gray"]))
    # row, column, height and width: 120, 600 and 20 pixels of 100 m²
    parent = mask_of(b, blob((5, 5, 10, 12), (30, 40, 20, 30), (5, 60, 4, 5)))
    source = {"name": "water", "mode": "regions", "layer": {"observation": parent.id}}

    def asked(**spec: Any) -> Any:
        return b.call("measure", {"sources": [source], "spec": {"subject": "water", **spec}}, parents=[parent])

    o = asked(metric="area", each="water", pick="max", unit="ha")
    found = rows(o)
    assert sorted(found.values()) == [pytest.approx(v, rel=2e-3) for v in (0.2, 1.2, 6.0)]
    assert o.result.value == max(found, key=lambda n: found[n]) and o.result.value.startswith("water ")
    best = next(i for i in o.result.items if i["zone"] == o.result.value)
    assert best["low"] < best["value"] < best["high"] and abs(best["lat"]) < 90
    assert told(b, o, ROWS, (parent,))[0] == "passed", told(b, o, ROWS, (parent,))
    second = asked(metric="area", each="water", pick="max", rank=2)
    assert rows(second)[second.result.value] == pytest.approx(12_000, rel=2e-3)
    mean = asked(metric="area", statistic="mean", unit="ha")
    assert mean.result.value == pytest.approx(7.4 / 3, rel=2e-3) and mean.result.interval is not None
    assert told(b, mean, INSTANCES, (parent,))[0] == "passed"
    assert told(b, wrong(mean, value=7.4), INSTANCES, (parent,))[0] == "failed"
    large = asked(metric="count", where=[{"figure": "area", "op": ">", "value": 1, "unit": "ha"}])
    assert large.result.value == 2
    edge = asked(metric="count", where=[{"figure": "area", "op": ">", "value": 1.21, "unit": "ha"}])
    # half a pixel along its outline decides about the lake of 1.2 ha
    assert edge.result.value == 1 and edge.result.interval == (1, 2)
    for made in (large, edge):
        assert told(b, made, RELATION, (parent,))[0] == "passed", told(b, made, RELATION, (parent,))
    assert told(b, wrong(large, value=5), RELATION, (parent,))[0] == "failed"
    refused = asked(metric="length", length_of="outline", statistic="mean")
    assert refused.status.state == "failed"

