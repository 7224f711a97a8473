"""What is cut to polygons and listed by polygon, on real files, against figures taken another way: small steps along lines,
equal-area projections, brute force."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from pyproj import Transformer
from shapely.geometry import shape

from apps.imagery.vectors import vector_read
from apps.verification.checks import Case, run_checks
from tests.unit.tools.rasters import Bench, scene
from tests.unit.tools.test_measure import blob, boxes, mask_of
from tests.unit.tools.test_measures_on_the_map import GEOD, bench, call, judged, keep, utm13, value

# North America Albers: equal-area
ALBERS = Transformer.from_crs("EPSG:4326", "EPSG:5070", always_xy=True)
# the whole globe, equal-area
CYLINDER = Transformer.from_crs("EPSG:4326", "EPSG:6933", always_xy=True)
ROADS = [
    shapely.LineString([(-106.0, 39.5), (-105.2, 39.9), (-104.5, 40.5)]),
    shapely.LineString([(-105.5, 39.2), (-105.5, 40.6)]),
]
PLOTS = [shapely.box(-105.3, 39.9, -104.9, 40.1), shapely.box(-105.0, 40.0, -104.8, 40.2)]


@pytest.fixture(scope="module")
def counties(shared_data: Path) -> tuple[list[Any], list[str]]:
    found = vector_read(shared_data / "vector/colorado-counties.geojson", "colorado-counties.geojson")
    _, names = found.naming()
    return [shape(f["geometry"]) for f in found.features], list(names)


def moved(t: Transformer, g: Any, step: float = 0.002) -> Any:
    return shapely.transform(shapely.segmentize(g, step), lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))


def steps(line: Any, n: int = 40_000) -> tuple[Any, Any]:
    """(middles, lengths in m) of n short pieces of a line in degrees."""
    at = shapely.get_coordinates(shapely.line_interpolate_point(line, np.linspace(0, 1, n + 1), normalized=True))
    lengths = GEOD.inv(at[:-1, 0], at[:-1, 1], at[1:, 0], at[1:, 1])[2]
    return (at[:-1] + at[1:]) / 2, np.asarray(lengths)


def rows(o: Any) -> dict[str, Any]:
    assert o.status.state == "ok", o.status.reason
    return {i["zone"]: i["value"] for i in o.result.items}


@pytest.mark.shared_data
def test_the_length_of_roads_in_counties(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every, roads = keep(b, shapes, names=names), keep(b, ROADS)
    boulder = {"vector": every, "name_field": "name", "only": ["Boulder"]}
    home = shapes[names.index("Boulder")]
    truth = whole = 0.0
    for road in ROADS:
        middles, lengths = steps(road)
        truth += float(lengths[shapely.contains_xy(home, middles[:, 0], middles[:, 1])].sum())
        whole += float(lengths.sum())
    inside = value(b, {"roads": roads, "boulder": boulder}, metric="length", reference="boulder", relation="inside", clip=True)
    assert inside == pytest.approx(truth, rel=2e-4)
    outside = value(b, {"roads": roads, "boulder": boulder}, metric="length", reference="boulder", relation="outside", clip=True)
    assert outside == pytest.approx(whole - truth, rel=2e-4)
    share = value(b, {"roads": roads, "boulder": boulder}, metric="ratio", of="length", denominator="subject",
                  reference="boulder", relation="inside", clip=True)  # fmt: skip
    assert share == pytest.approx(truth / whole, rel=2e-4)
    listed = {"roads": roads, "counties": {"vector": every, "name_field": "name"}}
    o = call(b, listed, metric="length", reference="counties", relation="inside", clip=True, each="counties", unit="km")
    found = rows(o)
    assert list(found) == names  # the names are those of the file, in its order
    for name, g in zip(names, shapes, strict=True):
        mine = 0.0
        for road in ROADS:
            middles, lengths = steps(road)
            mine += float(lengths[shapely.contains_xy(g, middles[:, 0], middles[:, 1])].sum())
        assert found[name] == pytest.approx(mine / 1000, rel=2e-3, abs=0.02), name
    assert sum(found.values()) == pytest.approx(whole / 1000, rel=1e-4)
    best = call(b, listed, metric="length", reference="counties", relation="inside", clip=True, each="counties", pick="max")
    assert best.result.value == max(found, key=lambda n: found[n]) and best.result.kind == "class"


@pytest.mark.shared_data
def test_areas_and_shares_are_cut_whatever_the_crs_of_the_files(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    home = shapes[names.index("Boulder")]
    flat, cutter = [moved(ALBERS, p) for p in PLOTS], moved(ALBERS, home)
    truth, ground = shapely.union_all(flat).intersection(cutter).area, cutter.area
    b = bench()
    boulder = {"vector": keep(b, shapes, names=names), "name_field": "name", "only": ["Boulder"]}
    to_utm = Transformer.from_crs("EPSG:4326", "EPSG:32613", always_xy=True)
    to_mercator = Transformer.from_crs("EPSG:4326", "EPSG:3857", always_xy=True)
    for held in (
        keep(b, PLOTS),
        keep(b, [moved(to_utm, p) for p in PLOTS], crs="EPSG:32613"),
        keep(b, [moved(to_mercator, p) for p in PLOTS], crs="EPSG:3857"),
    ):
        area = value(b, {"plots": held, "boulder": boulder}, metric="area", unit="ha", reference="boulder", relation="inside",
                     clip=True)  # fmt: skip
        assert area == pytest.approx(truth / 1e4, rel=2e-4)
        share = value(b, {"plots": held, "boulder": boulder}, metric="ratio", of="area", denominator="reference",
                      reference="boulder", relation="inside", clip=True)  # fmt: skip
        assert share == pytest.approx(truth / ground, rel=2e-4)
    o = call(b, {"plots": held, "boulder": boulder}, metric="area", reference="boulder", relation="inside", clip=True)
    both = flat[0].intersection(flat[1]).intersection(cutter).area
    assert o.evidence.intermediate["overlap_m2"] == pytest.approx(both, rel=1e-3, abs=1.0)  # what both plots cover counts once
    assert o.evidence.intermediate["whole_m2"] == pytest.approx(shapely.union_all(flat).area, rel=2e-4)


@pytest.mark.shared_data
def test_the_share_of_each_county_that_plots_cover(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    o = call(b, {"plots": keep(b, PLOTS), "counties": {"vector": keep(b, shapes, names=names), "name_field": "name"}},
             metric="ratio", of="area", denominator="reference", reference="counties", relation="inside", clip=True,
             each="counties")  # fmt: skip
    union = shapely.union_all([moved(ALBERS, p) for p in PLOTS])
    for name, g in zip(names, shapes, strict=True):
        ground = moved(ALBERS, g)
        assert rows(o)[name] == pytest.approx(ground.intersection(union).area / ground.area, rel=3e-4, abs=1e-6), name
    assert o.evidence.intermediate["denominator"] == pytest.approx(sum(moved(ALBERS, g).area for g in shapes), rel=2e-3)


@pytest.mark.shared_data
def test_what_lies_within_a_distance_is_cut_there(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    boulder = {"vector": keep(b, shapes, names=names), "name_field": "name", "only": ["Boulder"]}
    near = value(b, {"boulder": boulder, "roads": keep(b, ROADS)}, metric="area", unit="km2", reference="roads",
                 relation="within", distance_m=3000.0, clip=True)  # fmt: skip
    home = utm13(shapely.segmentize(shapes[names.index("Boulder")], 0.002))
    roads = [utm13(shapely.segmentize(r, 0.002)) for r in ROADS]
    truth = home.intersection(shapely.union_all([r.buffer(3000, quad_segs=64) for r in roads])).area / 1e6
    assert near == pytest.approx(truth, rel=2e-3)  # UTM stretches areas by up to 8 in 10,000
    far = value(b, {"boulder": boulder, "roads": keep(b, ROADS)}, metric="area", unit="km2", reference="roads",
                relation="beyond", distance_m=3000.0, clip=True)  # fmt: skip
    assert near + far == pytest.approx(value(b, {"boulder": boulder}, metric="area", unit="km2"), rel=1e-6)


@pytest.mark.shared_data
def test_the_continents_have_the_area_of_their_countries(shared_data: Path, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "countries.zip", "w") as z:
        for part in (shared_data / "vector/ne_lowres").iterdir():
            z.write(part, part.name)
    held = vector_read(tmp_path / "countries.zip", "countries.zip")
    shapes = [shape(f["geometry"]) for f in held.features]
    b = bench()
    digest = b.layers.put_features(held.features, kind="polygons", crs="EPSG:4326", label="countries").artifact
    o = call(b, {"countries": {"vector": digest, "name_field": "continent"}}, metric="area", unit="km2", each="countries")
    truth: dict[str, float] = {}
    for g, f in zip(shapes, held.features, strict=True):
        name = str(f["properties"]["continent"])
        truth[name] = truth.get(name, 0.0) + moved(CYLINDER, g, 0.05).area / 1e6
    found = rows(o)
    assert list(found) == list(truth) and len(found) == 8
    for name, area in truth.items():
        assert found[name] == pytest.approx(area, rel=2e-3), name
    assert {i["zone"]: i["n_features"] for i in o.result.items}["Africa"] == 51
    told = {c.check: (c.outcome, c.message) for c in run_checks(Case(o, b.question, (), (), (), b.layers, None))[0]}
    for name in ("consistency.rows_recompute", "completeness.every_polygon_listed"):
        assert told[name][0] == "passed", told[name]


@pytest.mark.shared_data
def test_outside_beyond_and_apart_are_what_brute_force_finds(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    every = keep(b, shapes, names=names)
    boulder = {"vector": every, "name_field": "name", "only": ["Boulder"]}
    home = shapes[names.index("Boulder")]
    gaps = np.array([utm13(g).distance(utm13(home)) for g in shapes])
    assert np.abs(gaps - 60_000).min() > 300
    plots = keep(b, PLOTS)
    union = shapely.union_all(PLOTS)
    truth = {
        ("counties", "boulder", "beyond"): int((gaps > 60_000).sum()),
        ("counties", "boulder", "apart"): sum(not home.intersects(g) for g in shapes),
        ("counties", "plots", "not_overlapping"): sum(g.intersection(union).area == 0 for g in shapes),
        ("counties", "plots", "outside"): sum(not union.contains(g.centroid) for g in shapes),
        ("plots", "boulder", "wholly_inside"): sum(home.covers(g) for g in PLOTS),
        ("plots", "plots2", "wholly_inside"): 2,
    }
    held = {"counties": every, "boulder": boulder, "plots": plots, "plots2": keep(b, [shapely.box(-105.4, 39.8, -104.7, 40.3)])}
    for (one, other, relation), n in truth.items():
        o = call(b, {one: held[one], other: held[other]}, metric="count", reference=other, relation=relation,
                 **({"distance_m": 60_000.0} if relation == "beyond" else {}))  # fmt: skip
        assert (o.result.value, judged(b, o)) == (n, "passed"), (one, other, relation)
        wrong = o.model_copy(update={"result": o.result.model_copy(update={"value": n + 3})})
        assert judged(b, wrong) == "failed", relation
    within = call(b, {"counties": every, "boulder": boulder}, metric="count", reference="boulder", relation="within",
                  distance_m=60_000.0)  # fmt: skip
    assert within.result.value + truth[("counties", "boulder", "beyond")] == 64


@pytest.mark.shared_data
def test_counts_and_densities_in_each_county(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    rng = np.random.default_rng(5)
    at = np.column_stack((rng.uniform(-109, -102, 900), rng.uniform(37, 41, 900)))
    sites = keep(b, [shapely.Point(*p) for p in at])
    every = {"vector": keep(b, shapes, names=names), "name_field": "name"}
    o = call(b, {"sites": sites, "counties": every}, metric="count", reference="counties", relation="inside", each="counties")
    truth = {n: int(shapely.contains_xy(g, at[:, 0], at[:, 1]).sum()) for n, g in zip(names, shapes, strict=True)}
    assert rows(o) == truth
    evidence = o.evidence.intermediate
    assert evidence["numerator"] == sum(truth.values()) and evidence["n_in_none"] == 900 - sum(truth.values())
    dense = call(b, {"sites": sites, "counties": every}, metric="density", unit="1/km2", reference="counties", relation="inside",
                 each="counties")  # fmt: skip
    for name, g in zip(names, shapes, strict=True):
        assert rows(dense)[name] == pytest.approx(truth[name] / (moved(ALBERS, g).area / 1e6), rel=3e-4), name


def test_two_plots_that_overlap_hold_a_point_each_and_together_once() -> None:
    b = bench()
    plots = {"vector": keep(b, PLOTS, names=["one", "two"]), "name_field": "name"}
    sites = keep(b, [shapely.Point(-104.95, 40.05), shapely.Point(-105.2, 40.0), shapely.Point(-104.85, 40.15)])
    o = call(b, {"sites": sites, "plots": plots}, metric="count", reference="plots", relation="inside", each="plots")
    assert rows(o) == {"one": 2, "two": 2}
    assert (o.evidence.intermediate["numerator"], o.evidence.intermediate["n_in_several"]) == (3, 1)
    assert "counted in each" in o.status.log[0].message
    near = call(b, {"sites": sites, "plots": plots}, metric="count", reference="plots", relation="within", distance_m=5000.0,
                each="plots")  # fmt: skip
    gaps = [[utm13(p).distance(utm13(q)) for q in (shapely.Point(-104.95, 40.05), shapely.Point(-105.2, 40.0),
             shapely.Point(-104.85, 40.15))] for p in PLOTS]  # fmt: skip
    assert rows(near) == {"one": sum(g <= 5000 for g in gaps[0]), "two": sum(g <= 5000 for g in gaps[1])}


@pytest.mark.shared_data
def test_a_region_leaves_rows_and_things_out(counties: tuple[list[Any], list[str]]) -> None:
    shapes, names = counties
    b = bench()
    box = shapely.box(-106, 39.5, -104, 41)
    every = {"vector": keep(b, shapes, names=names), "name_field": "name"}
    o = call(b, {"counties": every}, metric="area", unit="km2", each="counties", region=shapely.geometry.mapping(box))
    inside = [n for n, g in zip(names, shapes, strict=True) if box.contains(g.centroid)]
    assert list(rows(o)) == inside and 5 < len(inside) < 64
    sites = keep(b, [shapely.Point(-105.27, 40.02), shapely.Point(-108.5, 39.06), shapely.Point(-104.98, 39.73)])
    held = {"sites": sites, "counties": every}
    counted = call(b, held, metric="count", reference="counties", relation="inside", each="counties",
                   region=shapely.geometry.mapping(box))  # fmt: skip
    found = rows(counted)
    assert len(found) == 64 and {n: v for n, v in found.items() if v} == {"Boulder": 1, "Denver": 1}
    for made in (o, counted):
        told = {c.check: (c.outcome, c.message) for c in run_checks(Case(made, b.question, (), (), (), b.layers, None))[0]}
        for name in ("consistency.rows_recompute", "completeness.every_polygon_listed"):
            assert told[name][0] == "passed", told[name]


def test_rows_without_a_name_stand_together_and_are_told() -> None:
    b = bench()
    features = [
        {"type": "Feature", "geometry": shapely.geometry.mapping(g), "properties": p}
        for g, p in zip([*PLOTS, shapely.box(-104.5, 39, -104.4, 39.1)], ({"kind": "a"}, {"kind": None}, {}), strict=True)
    ]
    digest = b.layers.put_features(features, kind="polygons", crs="EPSG:4326", label="plots").artifact
    o = call(b, {"plots": {"vector": digest, "name_field": "kind"}}, metric="area", each="plots")
    assert list(rows(o)) == ["a", "(no value)"] and any("no value" in line.message for line in o.status.log)
    bare = call(b, {"plots": digest}, metric="area", each="plots")
    assert list(rows(bare)) == ["feature 1", "feature 2", "feature 3"]
    gone = call(b, {"plots": {"vector": digest, "name_field": "nothing"}}, metric="area", each="plots")
    assert gone.status.state == "failed" and "attribute nothing" in gone.status.reason


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ({"metric": "count", "clip": True, "relation": "inside"}, "Only an area, a length or a share"),
        ({"metric": "area", "clip": True, "relation": "touches"}, "Only an area, a length or a share"),
        ({"metric": "area", "clip": True, "relation": "within"}, "needs distance_m"),
        ({"metric": "area", "relation": "inside", "each": "roads", "clip": True}, "no inside"),
        ({"metric": "area", "relation": "inside", "each": "nobody", "clip": True}, "no source named"),
        ({"metric": "area", "relation": "inside", "each": "roads"}, "give clip"),
        ({"metric": "area", "relation": "inside", "clip": True}, "no inside"),
        ({"metric": "length", "relation": "within", "distance_m": 10.0, "clip": True}, "Only lines"),
        ({"metric": "count", "relation": "within", "distance_m": 10.0, "pick": "max"}, "A pick is one of several"),
    ],
)
def test_calls_that_cannot_be_cut_or_listed_are_refused(spec: dict[str, Any], says: str) -> None:
    b = bench()
    o = call(b, {"plots": keep(b, PLOTS), "roads": keep(b, ROADS)}, reference="roads", **spec)
    assert o.status.state == "failed" and says in o.status.reason, o.status.reason


def fields_of(b: Bench, *columns: tuple[float, float]) -> str:
    """Fields from row 0 to 60 between columns of the small UTM scene, as a vector file."""
    features = [
        {"type": "Feature", "properties": {"name": f"F{i}"},
         "geometry": shapely.geometry.mapping(shapely.box(600_000 + 10 * left, 5_599_400, 600_000 + 10 * right, 5_600_000))}
        for i, (left, right) in enumerate(columns, 1)
    ]  # fmt: skip
    return b.layers.put_features(features, kind="polygons", crs="EPSG:32630", label="fields").artifact


def perceived(b: Bench, parent: Any, fields: str, mode: str, **spec: Any) -> Any:
    name = "water" if mode == "regions" else "vehicle"
    sources = [
        {"name": name, "mode": mode, "layer": {"observation": parent.id}},
        {"name": "fields", "mode": "extent", "vector": fields, "name_field": "name"},
    ]
    arguments = {"sources": sources, "spec": {"subject": name, "reference": "fields", "relation": "inside", **spec}}
    o = b.call("measure", arguments, parents=[parent])
    assert o.status.state == "ok", o.status.reason
    return o


def test_a_mask_is_cut_at_the_outlines_by_pixel_centres_with_its_interval() -> None:
    b = Bench(scene(np.ones((1, 60, 80), np.uint8), ["gray"]))
    lake = mask_of(b, blob((10, 10, 20, 30)))  # columns 10 to 40, rows 10 to 30, of 100 m² each
    fields = fields_of(b, (20, 80), (0, 12))
    o = perceived(b, lake, fields, "regions", metric="area", clip=True)
    assert o.result.value == pytest.approx((20 + 2) * 20 * 100, rel=2e-3)
    assert o.result.interval is not None and o.result.interval[0] < o.result.value < o.result.interval[1]
    assert o.evidence.intermediate["whole_m2"] == pytest.approx(30 * 20 * 100, rel=2e-3)
    outside = perceived(b, lake, fields, "regions", metric="area", clip=True, relation="outside")
    assert outside.result.value == pytest.approx(8 * 20 * 100, rel=2e-3)
    o = perceived(b, lake, fields, "regions", metric="area", clip=True, each="fields")
    assert rows(o) == {"F1": pytest.approx(20 * 20 * 100, rel=2e-3), "F2": pytest.approx(2 * 20 * 100, rel=2e-3)}
    assert all(i["low"] < i["value"] < i["high"] for i in o.result.items)
    share = perceived(b, lake, fields, "regions", metric="ratio", of="area", denominator="reference", clip=True, each="fields")
    assert rows(share) == {"F1": pytest.approx(400 / 3600, rel=2e-3), "F2": pytest.approx(40 / 720, rel=2e-3)}


def test_objects_are_counted_in_each_field_with_their_interval() -> None:
    b = Bench(scene(np.ones((1, 60, 80), np.uint8), ["gray"]))
    cars = boxes(b, [(5, 5, 9, 9), (15, 5, 19, 9), (38, 5, 41, 9), (70, 5, 75, 9)], scores=[0.9, 0.8, 0.95, 0.6])
    o = perceived(b, cars, fields_of(b, (0, 40), (40, 60)), "objects", metric="count", each="fields")
    assert rows(o) == {"F1": 3, "F2": 0}  # by their middles: the third stands at column 39.5
    first = o.result.items[0]
    assert first["low"] <= 3 <= first["high"] and first["high"] - first["low"] >= 1
    assert o.evidence.intermediate["n_in_none"] == 1


def test_zones_outside_grouped_and_overlapping_on_pixels() -> None:
    values = np.arange(60 * 80, dtype=np.uint16).reshape(1, 60, 80)
    b = Bench(scene(values, ["gray"]))
    fields = fields_of(b, (0, 20), (10, 30), (60, 80))
    named = [{**f, "properties": {"crop": crop}} for f, crop in zip(b.layers.kept[fields], ("rye", "oats", "rye"), strict=True)]
    crops = b.layers.put_features(named, kind="polygons", crs="EPSG:32630", label="crops").artifact
    source = [("s", "asset.scene", (), {"scene": "s"}), ("v", "raster.product.band", ("s",), {"role": "gray"})]

    def zonal(params: dict[str, Any]) -> Any:
        o = b.execute([*source, ("z", "vector.zones", (), params), ("out", "raster.summarize.zonal", ("v", "z"), {})])
        assert o.status.state == "ok", o.status.reason
        return o

    inside = np.zeros((60, 80), bool)
    inside[:, :30] = inside[:, 60:] = True
    o = zonal({"vector": fields, "outside": True})
    assert o.result.value == pytest.approx(values[0][~inside].mean(), rel=1e-12)
    assert rows(o) == {"outside of 3 polygons": o.result.value}
    o = zonal({"vector": crops, "name": "crop", "group": True})
    rye = np.zeros((60, 80), bool)
    rye[:, :20] = rye[:, 60:] = True
    assert rows(o) == {"rye": pytest.approx(values[0][rye].mean()), "oats": pytest.approx(values[0][:, 10:30].mean())}
    assert any("600 pixels lie in more than one" in line.message for line in o.status.log)  # 10 columns of 60 rows
    for made in (o, zonal({"vector": fields, "outside": True})):
        reader = lambda i: b._open(b.question.scenes[0])  # noqa: E731
        told = {c.check: (c.outcome, c.message) for c in run_checks(Case(made, b.question, (), (), (), b.layers, reader))[0]}
        assert told["consistency.zonal_matches_source"][0] == "passed", told["consistency.zonal_matches_source"]
    left_out = o.model_copy(update={"result": o.result.model_copy(update={"items": o.result.items[:1]})})
    told = {c.check: (c.outcome, c.message) for c in run_checks(Case(left_out, b.question, (), (), (), b.layers, None))[0]}
    assert told["completeness.every_polygon_listed"][0] == "failed" and "oats" in told["completeness.every_polygon_listed"][1]
    all_of_it = fields_of(b, (-5, 90))
    refused = b.execute([*source, ("z", "vector.zones", (), {"vector": all_of_it, "outside": True}),
                         ("out", "raster.summarize.zonal", ("v", "z"), {})])  # fmt: skip
    assert refused.status.state == "failed" and "nothing lies outside" in refused.status.reason
