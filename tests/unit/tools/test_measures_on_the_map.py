"""measure over vector files and places, against values taken another way: pyproj's geodesics, shapely in another projection."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
import shapely.affinity
from pyproj import Geod, Transformer
from shapely.geometry import mapping, shape

from apps.imagery.vectors import vector_read
from apps.verification.checks import Case, run_checks
from tests.unit.tools.rasters import Bench, scene

GEOD = Geod(ellps="WGS84")
EMPTY = np.ones((1, 4, 4), np.uint8)


def bench() -> Bench:
    return Bench(scene(EMPTY, ["gray"]))


def keep(b: Bench, shapes: Sequence[Any], crs: str = "EPSG:4326", names: Sequence[str] = ()) -> str:
    features = [
        {"type": "Feature", "geometry": json.loads(shapely.to_geojson(g)), "properties": {"name": names[i]} if names else {}}
        for i, g in enumerate(shapes)
    ]
    return b.layers.put_features(features, kind="polygons", crs=crs, label=f"f{len(b.layers.kept)}").artifact


def call(b: Bench, sources: dict[str, Any], **spec: Any) -> Any:
    listed = []
    for name, held in sources.items():
        what = held if isinstance(held, dict) else {"vector": held}
        listed.append({"name": name, "mode": "extent", **what})
    more: dict[str, Any] = {k: spec.pop(k) for k in ("region", "region_crs") if k in spec}
    return b.call("measure", {"sources": listed, "spec": {"subject": next(iter(sources)), **spec}, **more})


def value(b: Bench, sources: dict[str, Any], **spec: Any) -> Any:
    """The value, which the verifier finds again by its own way where it has one."""
    o = call(b, sources, **spec)
    assert o.status.state == "ok", o.status.reason
    found = {c.check: c for c in run_checks(Case(o, b.question, (), (), (), b.layers, None))[0]}
    wanted = ("consistency", "geometry", "provenance")
    bad = [c.message for c in found.values() if c.outcome in ("failed", "errored") and c.family in wanted]
    assert not bad, bad
    return o.result.value


def judged(b: Bench, o: Any) -> str:
    """What the verifier says that works the figure out again."""
    found = run_checks(Case(o, b.question, (), (), (), b.layers, None))[0]
    return next(c.outcome for c in found if c.check == "consistency.relation_recomputes")


def point(lon: float, lat: float) -> dict[str, Any]:
    return {"geometry": {"type": "Point", "coordinates": [lon, lat]}}


@pytest.fixture(scope="module")
def counties(shared_data: Path) -> tuple[list[Any], list[str]]:
    found = vector_read(shared_data / "vector/colorado-counties.geojson", "colorado-counties.geojson")
    field, names = found.naming()
    assert field and len(names) == 64
    return [shape(f["geometry"]) for f in found.features], list(names)


def utm13(g: Any) -> Any:
    t = Transformer.from_crs("EPSG:4326", "EPSG:32613", always_xy=True)
    return shapely.transform(g, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))


@pytest.mark.shared_data
def test_counties_near_denver(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every = keep(b, shapes, names=names)
    denver = {"vector": every, "name_field": "name", "only": ["Denver"]}
    flat = [utm13(g) for g in shapes]
    gaps = np.array([g.distance(flat[names.index("Denver")]) for g in flat])
    limit = 60_000.0
    assert np.abs(gaps - limit).min() > 300  # nothing lies where two projections could differ
    assert value(b, {"counties": every, "denver": denver}, metric="count", reference="denver", relation="within",
                 distance_m=limit) == int((gaps <= limit).sum())  # fmt: skip
    share = value(b, {"counties": every, "denver": denver}, metric="ratio", reference="denver", relation="within",
                  distance_m=limit, denominator="subject")  # fmt: skip
    assert share == pytest.approx((gaps <= limit).sum() / 64)
    area = value(b, {"counties": every, "denver": denver}, metric="area", unit="km2", reference="denver", relation="within",
                 distance_m=limit)  # fmt: skip
    by_geod = sum(abs(GEOD.geometry_area_perimeter(shapely.orient_polygons(g))[0]) for g, d in zip(shapes, gaps, strict=True)
                  if d <= limit)  # fmt: skip
    assert area == pytest.approx(by_geod / 1e6, rel=5e-5)  # edges straight in degrees against geodesic ones
    for statistic, truth in (("mean", gaps.mean()), ("maximum", gaps.max())):
        found = value(b, {"counties": every, "denver": denver}, metric="distance", reference="denver",
                      distance_statistic=statistic)  # fmt: skip
        assert found == pytest.approx(float(truth), rel=2e-3)  # UTM stretches by 4 to 10 in 10,000


@pytest.mark.shared_data
def test_directions_nearest_and_neighbours(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every = keep(b, shapes, names=names)
    at = (-105.27, 40.02)
    place = point(*at)
    north = sum(g.centroid.y > at[1] for g in shapes)
    assert value(b, {"counties": every, "place": place}, metric="count", reference="place", relation="north_of") == north
    assert value(b, {"counties": every, "place": place}, metric="count", reference="place", relation="south_of") == 64 - north
    east = sum(g.centroid.x > at[0] for g in shapes)
    assert value(b, {"counties": every, "place": place}, metric="count", reference="place", relation="east_of") == east
    gaps = np.sort([utm13(g).distance(utm13(shapely.Point(at))) for g in shapes])
    mean = value(b, {"counties": every, "place": place}, metric="distance", reference="place", relation="nearest", nearest_k=5,
                 distance_statistic="mean")  # fmt: skip
    assert mean == pytest.approx(float(gaps[:5].mean()), rel=2e-3)
    assert value(b, {"counties": every, "place": place}, metric="count", reference="place", relation="inside") == 0
    assert value(b, {"place": place, "counties": every}, metric="count", reference="counties", relation="inside") == 1
    boulder = {"vector": every, "name_field": "name", "only": ["Boulder"]}
    home = shapes[names.index("Boulder")]
    touching = sum(bool(home.touches(g)) for g in shapes)
    assert touching > 3
    pair = {"counties": every, "boulder": boulder}
    assert value(b, pair, metric="count", reference="boulder", relation="touches") == touching
    assert value(b, pair, metric="count", reference="boulder", relation="overlaps") == 1  # itself


@pytest.mark.shared_data
def test_a_region_chooses_by_the_middle_and_leaves_what_it_is_measured_against(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every = keep(b, shapes, names=names)
    box = shapely.box(-106, 39.5, -104, 41)
    inside = [box.contains(g.centroid) for g in shapes]
    assert value(b, {"counties": every}, metric="count", region=mapping(box)) == sum(inside)
    # a road whose middle lies outside of the region still counts as what things are near to
    road = keep(b, [shapely.LineString([(-105.0, 39.0), (-105.0, 30.0)])])
    o = call(b, {"counties": every, "road": road}, metric="count", reference="road", relation="within", distance_m=50_000,
             region=mapping(box))  # fmt: skip
    flat = utm13(shapely.LineString([(-105.0, 39.0), (-105.0, 37.0)]))
    near = [utm13(g).distance(flat) <= 50_000 for g in shapes]
    assert o.result.value == sum(i and n for i, n in zip(inside, near, strict=True)) > 0


def test_two_places_by_coordinates() -> None:
    truth = GEOD.inv(11.5, 48.1, 11.6, 48.2)[2]
    b = bench()
    found = value(b, {"a": point(11.5, 48.1), "b": point(11.6, 48.2)}, metric="distance", reference="b")
    assert found == pytest.approx(truth, rel=1e-9)
    far = GEOD.inv(-0.13, 51.51, 151.2, -33.87)[2]  # London to Sydney
    o = call(b, {"a": point(-0.13, 51.51), "b": point(151.2, -33.87)}, metric="distance", reference="b", unit="km")
    assert o.result.value == pytest.approx(far / 1000, rel=1e-9)
    over = GEOD.inv(179.9, -17.0, -179.9, -17.0)[2]  # across the 180° meridian
    o = call(b, {"a": point(179.9, -17.0), "b": point(-179.9, -17.0)}, metric="distance", reference="b")
    assert o.result.value == pytest.approx(over, rel=1e-9)


def test_a_place_inside_of_a_polygon_is_at_no_distance_from_it() -> None:
    b = bench()
    square = keep(b, [shapely.box(10, 50, 10.1, 50.1)])
    assert value(b, {"p": point(10.05, 50.05), "square": square}, metric="distance", reference="square") == 0
    beside = value(b, {"p": point(10.2, 50.05), "square": square}, metric="distance", reference="square")
    assert beside == pytest.approx(min(GEOD.inv(10.2, 50.05, 10.1, y)[2] for y in np.linspace(50, 50.1, 20001)), rel=1e-5)


def test_length_area_and_density_on_the_ellipsoid() -> None:
    b = bench()
    line = shapely.LineString([(10, 50), (10.5, 50.2), (11, 50)])
    plots = [shapely.box(10, 50, 10.02, 50.01), shapely.box(10.05, 50, 10.06, 50.02)]
    points = [shapely.Point(10.001 + 0.001 * k, 50.005) for k in range(12)]
    found = value(b, {"line": keep(b, [line])}, metric="length", unit="km")
    assert found == pytest.approx(GEOD.geometry_length(line) / 1e3, rel=1e-5)
    area = sum(abs(GEOD.geometry_area_perimeter(shapely.orient_polygons(g))[0]) for g in plots)
    held = keep(b, plots)
    assert value(b, {"plots": held}, metric="area") == pytest.approx(area, rel=1e-6)
    density = value(b, {"points": keep(b, points), "plots": held}, metric="density", reference="plots", relation="inside",
                    denominator="reference", unit="1/ha")  # fmt: skip
    assert density == pytest.approx(12 / (area / 1e4), rel=1e-6)
    pair = {"points": keep(b, points), "plots": held}
    o = call(b, pair, metric="density", reference="plots", relation="inside", denominator="reference", unit="1/ha")
    assert judged(b, o) == "passed"
    assert judged(b, o.model_copy(update={"result": o.result.model_copy(update={"value": density * 100})})) == "failed"
    share = call(b, pair, metric="ratio", reference="plots", denominator="reference", of="count")
    assert share.result.value == 6 and judged(b, share) == "passed"


def test_the_length_of_polygons_is_their_outline_or_their_extent_and_nobody_guesses() -> None:
    b = bench()
    # straight lines in UTM, turned by about 37 degrees, with a hole of 4 times 20 m
    hole = shapely.box(15, 3, 35, 23)
    plot = shapely.affinity.rotate(shapely.box(0, 0, 300, 100).difference(hole), 36.87, origin=(0, 0))
    plot = shapely.affinity.translate(plot, 5e5, 5.6e6)
    held = keep(b, [plot, shapely.affinity.translate(plot, 1000, 0)], crs="EPSG:32632")
    o = call(b, {"plots": held}, metric="length")
    assert o.status.state == "failed" and "outline (perimeter)" in o.status.reason and "extent" in o.status.reason
    assert o.status.needs["length_of"] == ["outline", "extent"]
    # on the central meridian of UTM the scale is 0.9996
    assert value(b, {"plots": held}, metric="length", length_of="outline") == pytest.approx(2 * (800 + 80) / 0.9996, rel=1e-5)
    assert value(b, {"plots": held}, metric="length", length_of="extent") == pytest.approx(300 / 0.9996, rel=1e-5)
    inside = {"plots": held, "around": keep(b, [plot.envelope.buffer(10)], crs="EPSG:32632")}
    assert call(b, inside, metric="length", length_of="outline", relation="inside", reference="around"
                ).result.value == pytest.approx(880 / 0.9996, rel=1e-5)  # fmt: skip
    wrong = call(b, {"plots": held}, metric="length", length_of="extent")
    as_outline = {**wrong.arguments, "spec": {**wrong.arguments["spec"], "length_of": "outline"}}
    unsaid = {**wrong.arguments, "spec": {**wrong.arguments["spec"], "length_of": ""}}
    for arguments in (as_outline, unsaid):
        found = run_checks(Case(wrong.model_copy(update={"arguments": arguments}), b.question, (), (), (), b.layers, None))[0]
        assert next(c.outcome for c in found if c.check == "consistency.vector_recomputes") == "failed"
    line = keep(b, [shapely.LineString([(10, 50), (11, 50)])])
    for which in ("outline", "extent"):
        assert "lines have one length" in call(b, {"line": line}, metric="length", length_of=which).status.reason
    assert "belongs to the length" in call(b, {"plots": held}, metric="area", length_of="outline").status.reason
    for more in ({"clip": True, "relation": "inside", "reference": "around"}, {"each": "around"}):
        assert "not cut" in call(b, inside, metric="length", length_of="extent", **more).status.reason
    each = call(b, {"plots": held}, metric="length", length_of="extent", each="plots")
    assert [i["value"] for i in each.result.items] == [pytest.approx(300 / 0.9996, rel=1e-5)] * 2
    found = run_checks(Case(each, b.question, (), (), (), b.layers, None))[0]
    assert next(c.outcome for c in found if c.check == "consistency.rows_recompute") == "passed"
    assert "is the length of their outline" in call(b, {"plots": held}, metric="length", each="plots").status.reason


def test_between_takes_what_lies_in_the_hull_of_all_references() -> None:
    b = bench()
    left, right = keep(b, [shapely.box(10, 50, 10.1, 50.3)]), keep(b, [shapely.box(10.5, 50, 10.6, 50.3)])
    points = keep(b, [shapely.Point(x, 50.15) for x in (9.9, 10.05, 10.2, 10.3, 10.4, 10.55, 10.7)])
    sources = {"points": points, "left": left, "right": right}
    found = call(b, sources, metric="count", reference="left", others=["right"], relation="between")
    assert found.result.value == 3 and judged(b, found) == "passed"
    wrong = found.model_copy(update={"result": found.result.model_copy(update={"value": 4})})
    assert judged(b, wrong) == "failed"
    o = call(b, sources, metric="count", reference="left", others=["right"], relation="inside")
    assert o.status.state == "failed" and "between" in o.status.reason


def test_lines_cross_lie_in_and_touch() -> None:
    b = bench()
    square = keep(b, [shapely.box(10, 50, 10.1, 50.1)])
    lines = [
        [(9.9, 50.05), (10.2, 50.05)],  # through
        [(10.02, 50.05), (10.05, 50.05)],  # within
        [(9.9, 50.0), (10.0, 50.0)],  # to a corner
        [(9.9, 50.2), (10.2, 50.2)],  # beside
    ]
    pair = {"lines": keep(b, [shapely.LineString(at) for at in lines]), "square": square}
    assert value(b, pair, metric="count", reference="square", relation="overlaps") == 2
    assert value(b, pair, metric="count", reference="square", relation="touches") == 1
    points = {"points": keep(b, [shapely.Point(10.05, 50.05), shapely.Point(11, 50)]), "square": square}
    assert value(b, points, metric="count", reference="square", relation="overlaps") == 1


def test_files_in_different_crs_meet_on_the_globe() -> None:
    b = bench()
    t = Transformer.from_crs("EPSG:4326", "EPSG:32632", always_xy=True)
    here = shapely.Point(9.5, 50.0)
    there = shapely.transform(shapely.Point(9.6, 50.0), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))
    found = value(b, {"a": keep(b, [here]), "b": keep(b, [there], "EPSG:32632")}, metric="distance", reference="b")
    assert found == pytest.approx(GEOD.inv(9.5, 50, 9.6, 50)[2], rel=1e-8)
    mercator = Transformer.from_crs("EPSG:4326", "EPSG:3857", always_xy=True)
    square = shapely.box(9, 60, 9.1, 60.1)
    flat = shapely.transform(square, lambda p: np.column_stack(mercator.transform(p[:, 0], p[:, 1])))
    truth = abs(GEOD.geometry_area_perimeter(shapely.orient_polygons(shapely.segmentize(square, 0.001)))[0])
    # four times as much in metres of Web Mercator at 60° north
    assert value(b, {"square": keep(b, [flat], "EPSG:3857")}, metric="area") == pytest.approx(truth, rel=1e-3)


@pytest.mark.shared_data
def test_far_countries_are_measured_where_they_are_closest(shared_data: Path) -> None:
    found = vector_read(shared_data / "vector/spData_world.gpkg", "world.gpkg")
    by_name = {str(f["properties"]["name_long"]): shape(f["geometry"]) for f in found.features}
    for one, other in (("Portugal", "Canada"), ("South Africa", "Madagascar"), ("Australia", "Chile")):
        b = bench()
        sources = {"one": keep(b, [by_name[one]]), "other": keep(b, [by_name[other]])}
        o = call(b, sources, metric="distance", reference="other", unit="km")
        p, q = (shapely.get_coordinates(shapely.segmentize(by_name[n], 0.2)) for n in (one, other))
        truth = min(
            float(np.min(GEOD.inv(np.full(len(q), x), np.full(len(q), y), q[:, 0], q[:, 1])[2])) for x, y in p
        ) / 1e3
        if o.status.state == "ok":
            assert o.result.value == pytest.approx(truth, rel=5e-3), (one, other)
        else:
            assert "far" in o.status.reason


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"metric": "area"}, "no area"),
        ({"metric": "distance", "reference": "nothing"}, "no source named"),
        ({"metric": "count", "relation": "within", "reference": "b"}, "distance_m"),
        ({"metric": "ratio", "denominator": "subject"}, "relation"),
        ({"metric": "length"}, "no length"),
    ],
)
def test_wrong_calls_are_said(spec: dict[str, Any], says: str) -> None:
    b = bench()
    o = call(b, {"a": point(10, 50), "b": point(11, 50)}, **spec)
    assert o.status.state == "failed" and says in o.status.reason


def test_features_that_are_not_there_or_not_finite() -> None:
    b = bench()
    square = keep(b, [shapely.box(10, 50, 10.1, 50.1)], names=["home"])
    o = call(b, {"x": {"vector": square, "name_field": "name", "only": ["away"]}}, metric="area")
    assert o.status.state == "failed" and "no feature is called away" in o.status.reason
    for geometry, says in (
        ({"type": "Point", "coordinates": [float("nan"), 50.0]}, "not finite"),
        ({"type": "Polygon", "coordinates": []}, "empty"),
        ({"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}, "not valid"),
        ({"type": "FeatureCollection", "features": []}, "no feature"),
    ):
        o = call(b, {"x": {"geometry": geometry}}, metric="count")
        assert o.status.state == "failed" and says in o.status.reason, o.status.reason
