"""How exactly figures of drawn shapes follow the ground: from what is declared, else from the written digits at least; shown by
moving the points about by so much, which no figure leaves its interval for."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray
from pyproj import Geod, Transformer
from shapely.geometry import mapping, shape

from apps.core.evidence.observation import Observation
from apps.core.geo.vector import VectorInfo
from apps.tools.measure.accuracy import accuracy_of, decimals_of, line_slack_m, written_to_m
from tests.unit.tools.rasters import Bench, scene

GEOD = Geod(ellps="WGS84")
UTM = "EPSG:32633"
TO_DEGREES = Transformer.from_crs(UTM, "EPSG:4326", always_xy=True)


def bench() -> Bench:
    return Bench(scene(np.ones((1, 8, 8), np.uint8), ["gray"]))


def source(name: str, geometries: list[Any], crs: str = "EPSG:4326", **more: Any) -> dict[str, Any]:
    features = [{"type": "Feature", "properties": {}, "geometry": mapping(g)} for g in geometries]
    return {"name": name, "mode": "extent", "geometry": {"type": "FeatureCollection", "features": features}, "geometry_crs": crs,
            **more}


def measure(spec: dict[str, Any], *sources: dict[str, Any], **more: Any) -> Any:
    o = bench().call("measure", {"sources": list(sources), "spec": {"subject": sources[0]["name"], **spec}, **more})
    assert o.status.state == "ok", o.status.reason
    return o


# UTM metres with as many digits as numbers have, so that the digits say nothing
RNG = np.random.default_rng(3)
ORIGIN = np.array([500_000.1234567, 5_800_000.7654321])
FIELD = shapely.Polygon(np.array([[0, 0], [900, 40], [1000, 700], [480, 500], [60, 760]]) + ORIGIN)
ROAD = shapely.LineString(np.cumsum(RNG.normal([60, 10], 40, (30, 2)), axis=0) + ORIGIN)


def moved(geometry: Any, off: float, rng: np.random.Generator) -> Any:
    """Each vertex shifted by at most ``off`` metres, in a random direction, often by all of it; rings stay closed."""
    def shift(points: NDArray[np.float64]) -> NDArray[np.float64]:
        angle = rng.uniform(0, 2 * math.pi, len(points))
        length = off * np.minimum(1, rng.uniform(0, 2, len(points)))
        out = points + np.stack([np.cos(angle), np.sin(angle)], axis=1) * length[:, None]
        if len(points) > 2 and np.array_equal(points[0], points[-1]):
            out[-1] = out[0]
        return out
    return shapely.transform(geometry, shift)


def geodesic(geometry: Any, figure: str) -> float:
    placed = shapely.transform(geometry, lambda p: np.stack(TO_DEGREES.transform(p[:, 0], p[:, 1]), axis=1))
    if figure == "area":
        return abs(GEOD.geometry_area_perimeter(placed)[0])
    return GEOD.geometry_length(placed)


@pytest.mark.parametrize("off", [0.5, 8.0, 60.0])
@pytest.mark.parametrize("figure, drawn", [("area", FIELD), ("length", ROAD)])
def test_no_shift_within_the_accuracy_leaves_the_interval(figure: str, drawn: Any, off: float) -> None:
    o = measure({"metric": figure}, source("x", [drawn], UTM, accuracy_m=off))
    low, high = o.result.interval
    assert low < o.result.value < high and o.result.value == pytest.approx(geodesic(drawn, figure), rel=1e-6)
    found = [geodesic(moved(drawn, off, np.random.default_rng(k)), figure) for k in range(300)]
    # metres of UTM are up to 0.04 % shorter than those of the ground
    assert low - 1e-3 * off <= min(found) and max(found) <= high + 1e-3 * (high - o.result.value)
    if off == 8.0:
        # and it is not idly wide: what may happen comes near to a third of it at random
        assert max(found) - min(found) > (0.1 if figure == "area" else 0.05) * (high - low)
    assert o.evidence.intermediate["interval_is"] == "declared" and "±" in o.evidence.intermediate["interval_from"]
    assert o.evidence.intermediate["accuracy_m"] == off
    assert o.evidence.source["layers"][0]["accuracy"] == {"m": off, "is_floor": False,
                                                          "from": f"the accuracy declared for x: ±{off:g} m"}


def test_the_worst_that_may_happen_is_reached() -> None:
    """An outline moved outwards everywhere, and a straight line pulled at both ends, come up to the bound."""
    square = shapely.box(500_000.1234567, 5_800_000.7654321, 500_300.1234567, 5_800_300.7654321)
    o = measure({"metric": "area"}, source("x", [square], UTM, accuracy_m=5.0))
    value, high = o.result.value, o.result.interval[1]
    assert high - value == pytest.approx(4 * 300 * 5 + math.pi * 25, rel=2e-3)
    line = np.array([[0.0, 0.0], [100.0, 0.0], [250.0, 0.0]])
    assert line_slack_m(line, 3.0, is_ring=False)[0] == pytest.approx(6.0)
    corner = np.array([[0.0, 0.0], [100.0, 0.0], [100.0, 100.0]])
    less, more = line_slack_m(corner, 1.0, is_ring=False)
    assert less == pytest.approx(2 + math.sqrt(2)) and more == pytest.approx(2 + math.sqrt(2) + 0.04)


def test_a_distance_takes_the_accuracy_of_both_ends() -> None:
    a, b = shapely.Point(500_000.1234567, 5_800_000.7654321), shapely.Point(500_400.1234567, 5_800_300.7654321)
    both = source("a", [a], UTM, accuracy_m=4.0), source("b", [b], UTM, accuracy_m=9)
    o = measure({"metric": "distance", "reference": "b"}, *both)
    assert o.result.interval == pytest.approx((o.result.value - 13, o.result.value + 13))
    one = measure({"metric": "distance", "reference": "b"}, source("a", [a], UTM, accuracy_m=4.0), source("b", [b], UTM))
    assert one.result.interval == pytest.approx((one.result.value - 4, one.result.value + 4))
    assert one.evidence.intermediate["interval_is"] == "floor" and "of b nothing is told" in \
        one.evidence.intermediate["interval_from"]
    among = measure({"metric": "distance"}, source("a", [a, b], UTM, accuracy_m=4.0))
    assert among.result.interval == pytest.approx((among.result.value - 8, among.result.value + 8))


# --- the written digits --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("decimals", range(2, 8))
def test_digits_are_a_floor_of_half_their_last_one(decimals: int) -> None:
    rng = np.random.default_rng(decimals)
    true = rng.uniform([10, 60], [10.5, 60.2], (400, 2))
    written = np.round(true, decimals)
    assert decimals_of(written) == decimals
    found = written_to_m(list(shapely.points(written)), "EPSG:4326")
    half = 0.5 * 10.0**-decimals
    # by the radii of the ellipsoid's curvature at 60 degrees north: a degree is 111.41 km up and 55.80 km across
    expected = math.hypot(111_412 * half, 55_800 * half)
    if expected < 1e-3:
        assert found is None
        return
    assert found is not None and found[1] == decimals
    assert found[0] == pytest.approx(expected, rel=0.02)
    off = GEOD.inv(true[:, 0], true[:, 1], written[:, 0], written[:, 1])[2]
    assert off.max() <= found[0] * 1.001 and off.max() > 0.8 * found[0]


def test_the_interval_from_the_digits_says_that_it_is_a_floor_and_holds_the_true_figure() -> None:
    field = shapely.transform(FIELD, lambda p: np.stack(TO_DEGREES.transform(p[:, 0], p[:, 1]), axis=1))
    rounded = shapely.transform(field, lambda p: np.round(p, 4))
    o = measure({"metric": "area"}, source("field", [rounded]))
    assert o.evidence.intermediate["interval_is"] == "floor"
    assert "at least ±" in o.evidence.intermediate["interval_from"] and "4 decimals" in o.evidence.intermediate["interval_from"]
    assert o.result.interval[0] < geodesic(FIELD, "area") < o.result.interval[1]
    assert any("the least there is" in line.message for line in o.status.log)
    precise = measure({"metric": "area"}, source("field", [field]))
    assert precise.result.interval is None
    assert any("so no interval is given" in line.message.lower() for line in precise.status.log)
    said = measure({"metric": "area"}, source("field", [rounded], accuracy_m=30.0))
    assert said.evidence.intermediate["interval_is"] == "declared" and said.evidence.intermediate["accuracy_m"] == 30.0
    too_fine = accuracy_of("field", [rounded], "EPSG:4326", 0.01)
    assert too_fine is not None and too_fine.is_floor and too_fine.metres > 5 and "declared" in too_fine.text


@pytest.mark.parametrize("geometry", [
    shapely.box(10, 50, 11, 51), shapely.box(10.5, 50.5, 10.6, 50.6), shapely.Point(24.9384012345678, 60.1699098765432)])
def test_round_numbers_and_all_digits_tell_nothing(geometry: Any) -> None:
    assert written_to_m([geometry], "EPSG:4326") is None


@pytest.mark.shared_data
def test_real_files_tell_what_they_can(shared_data: Path) -> None:
    counties = json.loads((shared_data / "vector/colorado-counties.geojson").read_text())
    found = written_to_m([shape(f["geometry"]) for f in counties["features"]], "EPSG:4326")
    assert found is not None and found[1] == 6 and 0.05 < found[0] < 0.08
    roofs = json.loads((shared_data / "buildings_roads/solaris_geotiff_labels.geojson").read_text())
    assert written_to_m([shape(f["geometry"]) for f in roofs["features"]], "EPSG:32616") is None


# --- numbers of things ---------------------------------------------------------------------------------------------------------
def trees(n: int = 200) -> NDArray[np.float64]:
    rng = np.random.default_rng(9)
    return np.asarray(rng.uniform([-200, -200], [1200, 900], (n, 2)) + ORIGIN)


@pytest.mark.parametrize("relation, distance", [("inside", None), ("outside", None), ("within", 150.0), ("beyond", 150.0)])
def test_a_number_of_things_near_a_limit_may_be_off_by_those(relation: str, distance: float | None) -> None:
    points, off = trees(), 12.0
    spec = {"metric": "count", "relation": relation, "reference": "field", "distance_m": distance}
    o = measure(spec, source("trees", list(shapely.points(points)), UTM, accuracy_m=off), source("field", [FIELD], UTM,
                                                                                                 accuracy_m=1e-2))

    def n_of(at: NDArray[np.float64], field: Any) -> int:
        p = shapely.points(at)
        if distance is None:
            inside = int(shapely.covers(field, p).sum())
            return inside if relation == "inside" else len(p) - inside
        near = int((shapely.distance(field, p) <= distance).sum())
        return near if relation == "within" else len(p) - near

    assert o.result.value == n_of(points, FIELD)
    low, high = o.result.interval
    found = [n_of(shapely.get_coordinates(moved(shapely.MultiPoint(points), off, np.random.default_rng(k))), FIELD)
             for k in range(200)]
    assert low <= min(found) and max(found) <= high and low < o.result.value < high
    assert o.evidence.intermediate["near_limit"] == [o.result.value - low, high - o.result.value]


def test_features_alone_are_counted_exactly_and_how_complete_they_are_is_said_not_to_be_known() -> None:
    o = measure({"metric": "count"}, source("trees", list(shapely.points(trees(7))), UTM))
    assert (o.result.value, o.result.interval) == (7, (7, 7)) and o.evidence.intermediate["interval_is"] == "exact"
    assert "does not tell" in o.evidence.intermediate["complete"]


def test_a_region_decides_over_those_at_its_outline() -> None:
    points = trees()
    half = shapely.box(*np.add([-500, -500, 500, 2000], [500_000, 5_800_000, 500_000, 5_800_000]).tolist())
    o = measure({"metric": "count"}, source("trees", list(shapely.points(points)), UTM, accuracy_m=20.0), region=mapping(half),
                region_crs=UTM)
    x = points[:, 0] - 500_000
    assert o.result.value == int((x < 500).sum())
    low, high = o.result.interval
    assert low <= int((x < 480).sum()) <= o.result.value <= int((x < 520).sum()) <= high <= int((x < 525).sum())


@pytest.mark.parametrize("crs", ["EPSG:2263", "EPSG:3857"])
def test_metres_of_accuracy_are_no_units_of_the_crs(crs: str) -> None:
    """Feet, and Mercator's metres: points from 12 m within to 12 m beyond an outline, of which 20 m decide."""
    lat, lon = (40.7, -73.95) if crs == "EPSG:2263" else (64.0, 20.0)
    there = Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    x, y = there.transform(lon, lat)
    edge = shapely.box(x - 9000, y - 9000, x, y + 9000)
    along = [GEOD.fwd(lon, lat, 90 if d > 0 else 270, abs(d))[:2] for d in (-400, -12, -9, 9, 12, 400)]
    points = [shapely.Point(there.transform(*p)) for p in along]
    o = measure({"metric": "count"}, source("trees", points, crs, accuracy_m=20.0), region=mapping(edge), region_crs=crs)
    assert (o.result.value, o.result.interval) == (3, (1, 5))


def test_a_cut_area_may_be_off_along_its_rim() -> None:
    other = shapely.affinity.translate(FIELD, 300.0, 90.0)
    spec = {"metric": "area", "relation": "inside", "reference": "other", "clip": True}
    o = measure(spec, source("field", [FIELD], UTM, accuracy_m=3.0), source("other", [other], UTM, accuracy_m=2.0))
    found = [geodesic(moved(FIELD, 3.0, np.random.default_rng(k)).intersection(moved(other, 2.0, np.random.default_rng(k + 999))),
                      "area") for k in range(200)]
    assert o.result.interval[0] <= min(found) and max(found) <= o.result.interval[1]


@pytest.mark.parametrize(("relation", "gap"), [("inside", 3.0), ("inside", 40.0), ("outside", 2.0), ("outside", 40.0)])
def test_where_nothing_is_left_the_interval_holds_what_could_be(relation: str, gap: float) -> None:
    """Two fields ``gap`` metres apart, or one ``gap`` metres within the other: the accuracy of both together is 5 m."""
    square = shapely.box(0, 0, 200, 100)
    mine = shapely.affinity.translate(square, *ORIGIN)
    at = (ORIGIN[0] + 200 + gap, ORIGIN[1] - 40)
    other = shapely.affinity.translate(square, *at) if relation == "inside" else mine.buffer(gap, join_style="mitre")
    spec = {"metric": "area", "relation": relation, "reference": "other", "clip": True}
    o = measure(spec, source("field", [mine], UTM, accuracy_m=3.0), source("other", [other], UTM, accuracy_m=2.0))
    assert o.result.value == 0
    if gap > 5:
        assert o.result.interval is None
        assert any("Nothing would be left either" in line.message for line in o.status.log)
        return
    found = []
    for k in range(300):
        a, b = moved(mine, 3.0, np.random.default_rng(k)), moved(other, 2.0, np.random.default_rng(k + 999))
        left = a.intersection(b) if relation == "inside" else a.difference(b)
        found.append(geodesic(left, "area") if not left.is_empty else 0.0)
    assert max(found) > 0
    low, high = o.result.interval
    assert low == 0
    assert max(found) <= high < 30 * max(found)


def test_what_is_said_of_the_file_of_a_project_is_used() -> None:
    b = bench()
    field = {"type": "Feature", "properties": {}, "geometry": mapping(FIELD)}
    ref = b.layers.put_features([field], kind="polygons", crs=UTM, label="fields")
    info = VectorInfo(vector_id="v", artifact=ref.artifact, name="fields.gpkg", format="GPKG", crs=UTM, n=1, kinds={"Polygon": 1},
                      bounds=(15, 52, 15.1, 52.1), accuracy_m=2.5)
    b.question = b.question.model_copy(update={"vectors": (info,)})
    asked = {"name": "fields", "mode": "extent", "vector": ref.artifact}
    o: Observation = b.call("measure", {"sources": [asked], "spec": {"metric": "area"}})
    assert o.evidence.intermediate["accuracy_m"] == 2.5 and o.evidence.intermediate["interval_is"] == "declared"
    o = b.call("measure", {"sources": [{**asked, "accuracy_m": 7}], "spec": {"metric": "area", "statistic": "mean"}})
    assert o.evidence.intermediate["accuracy_m"] == 7 and o.result.interval is not None


def test_each_row_of_a_table_has_its_own_interval() -> None:
    other = shapely.affinity.translate(FIELD, 5000.0, 90.0)
    o = measure({"metric": "area", "each": "x"}, source("x", [FIELD, other], UTM, accuracy_m=4.0))
    rows = list(o.result.items)
    for row, field in zip(rows, (FIELD, other), strict=True):
        found = [geodesic(moved(field, 4.0, np.random.default_rng(k)), "area") for k in range(60)]
        assert row["low"] <= min(found) and max(found) <= row["high"] and row["low"] < row["value"] < row["high"]
    assert o.evidence.intermediate["interval_is"] == "declared"
    bare = measure({"metric": "area", "each": "x"}, source("x", [FIELD, other], UTM))
    assert all("low" not in row for row in bare.result.items)
    assert any("No row has an interval" in line.message for line in bare.status.log)
    gaps = measure({"metric": "distance", "each": "x", "reference": "y"}, source("x", [FIELD], UTM, accuracy_m=4.0),
                   source("y", [other], UTM, accuracy_m=1.0))
    (row,) = gaps.result.items
    assert row["high"] - row["value"] == pytest.approx(5.0)
