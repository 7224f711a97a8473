"""Distances between shapes that lie far apart on the globe, against pyproj's geodesics between the points of both outlines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from pyproj import Geod
from scipy.spatial import cKDTree
from shapely.geometry import LineString, Point, box, mapping, shape

from apps.imagery.vectors import vector_read
from apps.tools.contract import ToolCancelledError
from apps.tools.measure.far import farthest_on_globe, gaps_on_globe
from tests.unit.tools.rasters import Bench, scene

GEOD = Geod(ellps="WGS84")


def near(one: Any, other: Any) -> float:
    """Metres between the closest of points 0.05° apart on both outlines: chosen by the sphere, measured on the ellipsoid."""
    a, b = (shapely.get_coordinates(shapely.segmentize(g, 0.05)) for g in (one, other))

    def space(at: Any) -> Any:
        lon, lat = np.radians(at).T
        return np.column_stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)])

    chord, at = cKDTree(space(a)).query(space(b))
    first = np.argsort(chord)[:3000]
    return float(np.min(GEOD.inv(a[at[first], 0], a[at[first], 1], b[first, 0], b[first, 1])[2]))


@pytest.mark.parametrize(("one", "other"), [
    ((2.35, 48.86), (13.4, 52.52)), ((-0.1, 51.5), (151.2, -33.9)), ((179.9, -17.0), (-179.9, -17.0)), ((10, 89.9), (-170, 89.9)),
    ((0, 0), (179, 0.5))])
def test_points_are_as_far_as_the_geodesic(one: tuple[float, float], other: tuple[float, float]) -> None:
    (gap,) = gaps_on_globe([Point(one)], [Point(other)])
    assert gap.metres == pytest.approx(GEOD.inv(*one, *other)[2], rel=1e-9)
    assert gap.start == pytest.approx(one, abs=1e-6) and gap.end == pytest.approx(other, abs=1e-6)


def test_near_shapes_are_measured_between_their_edges() -> None:
    # a point 100 m north of the middle of a long edge along the equator
    lat = 100 / 110_574.27
    (gap,) = gaps_on_globe([Point(0.5, lat)], [LineString([(0, 0), (1, 0)])])
    assert gap.metres == pytest.approx(100, rel=1e-4) and gap.end == pytest.approx((0.5, 0), abs=1e-6)
    meets = gaps_on_globe([box(0, 0, 2, 2), box(5, 5, 6, 6), box(1, 1, 3, 3)], [box(0, 0, 2, 2)])
    assert meets[0].metres == meets[2].metres == 0 and meets[1].metres > 3e5
    over = gaps_on_globe([box(179, -1, 180, 1)], [box(-180, -1, -179, 1)])  # the two halves of one shape
    assert over[0].metres == pytest.approx(0, abs=1e-3)


def test_each_of_one_layer_to_its_nearest_other() -> None:
    places = [Point(0, 0), Point(10, 0), Point(13, 0), Point(100, 60)]
    gaps = [g.metres for g in gaps_on_globe(places, places, is_same=True)]
    expected = [min(GEOD.inv(p.x, p.y, q.x, q.y)[2] for q in places if q is not p) for p in places]
    assert gaps == pytest.approx(expected, rel=1e-9)


def test_each_of_many_to_its_nearest_other() -> None:
    rng = np.random.default_rng(5)
    at = np.column_stack([rng.uniform(-180, 180, 300), np.degrees(np.arcsin(rng.uniform(-1, 1, 300)))])
    places = [Point(p) for p in at]
    gaps = [g.metres for g in gaps_on_globe(places, places, is_same=True)]
    every = np.array([GEOD.inv(np.full(300, x), np.full(300, y), at[:, 0], at[:, 1])[2] for x, y in at])
    np.fill_diagonal(every, np.inf)
    assert gaps == pytest.approx(every.min(axis=1), rel=1e-6)


def test_the_farthest_of_all_pairs_is_told_on_the_globe_and_not_in_a_plane() -> None:
    rng = np.random.default_rng(8)
    at = np.column_stack([rng.uniform(-180, 180, 80), np.degrees(np.arcsin(rng.uniform(-1, 1, 80)))])
    ways = np.array([GEOD.inv(np.full(60, x), np.full(60, y), at[20:, 0], at[20:, 1])[2] for x, y in at[:20]])
    one, other = ({f"{i}": Point(p) for i, p in enumerate(part)} for part in (at[:20], at[20:]))
    for between in ("edges", "centroids"):
        o = measured(one, other, metric="distance", distance_statistic="farthest", distance_between=between)
        assert o.result.value == pytest.approx(ways.max(), rel=1e-6)
        o = measured(one, other, metric="distance", distance_between=between)
        assert o.result.value == pytest.approx(ways.min(), rel=1e-6)
    boxes = [box(x, y, x + w, y + w) for x, y, w in ((0, 0, 5), (60, 40, 3), (100, -30, 8), (20, 60, 2))]
    gap, i, j = farthest_on_globe(boxes, boxes)
    every = {(a, b): near(boxes[a], boxes[b]) for a in range(4) for b in range(4) if a < b}
    assert gap.metres == pytest.approx(max(every.values()), rel=1e-4)
    assert tuple(sorted((i, j))) == max(every, key=lambda k: every[k])


def test_a_long_look_over_the_globe_ends_when_it_is_cancelled() -> None:
    places = [Point(x, y) for x in range(-170, 180, 10) for y in range(-60, 61, 10)]
    asked = []

    def at_the_tenth() -> bool:
        asked.append(1)
        return len(asked) > 9

    with pytest.raises(ToolCancelledError):
        gaps_on_globe(places, places, is_same=True, is_cancelled=at_the_tenth)
    assert len(asked) == 10
    asked.clear()
    with pytest.raises(ToolCancelledError):
        farthest_on_globe([box(0, 0, 40, 40)] * 9, [box(60, 0, 80, 20)] * 9, is_cancelled=at_the_tenth)
    b, spec = Bench(scene(np.ones((1, 8, 8), np.uint8), ["gray"])), {"subject": "one", "reference": "other"}
    sources = [{"name": n, "mode": "extent", "geometry_crs": "EPSG:4326", "geometry": {
        "type": "FeatureCollection", "features": [{"type": "Feature", "properties": {}, "geometry": mapping(p)} for p in part]}}
        for n, part in (("one", places[::2]), ("other", places[1::2]))]
    for more in ({"metric": "distance"}, {"metric": "count", "relation": "within", "distance_m": 1e6},
                 {"metric": "count", "where": [{"relation": "within", "reference": "other", "distance_m": 1e6}]}):
        asked.clear()
        o = b.call("measure", {"sources": sources, "spec": {**spec, **more}}, is_cancelled=at_the_tenth)
        assert o.status.state == "failed" and "cancelled" in o.status.reason, o.status.reason
        assert len(asked) == 10


@pytest.fixture(scope="module")
def countries(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    import zipfile

    path = tmp_path_factory.mktemp("world") / "world.zip"
    with zipfile.ZipFile(path, "w") as out:
        for part in (shared_data / "vector/ne_lowres").iterdir():
            out.write(part, part.name)
    return {f["properties"]["name"]: shape(f["geometry"]) for f in vector_read(path, path.name).features}


def measured(one: dict[str, Any], other: dict[str, Any], **spec: Any) -> Any:
    b = Bench(scene(np.ones((1, 4, 4), np.uint8), ["gray"]))
    digests = []
    for label, held in (("a", one), ("b", other)):
        features = [{"type": "Feature", "properties": {"name": n}, "geometry": mapping(g)} for n, g in held.items()]
        digests.append(b.layers.put_features(features, kind="polygons", crs="EPSG:4326", label=label).artifact)
    sources = [{"name": n, "mode": "extent", "vector": d} for n, d in zip("ab", digests, strict=True)]
    o = b.call("measure", {"sources": sources, "spec": {"subject": "a", "reference": "b", **spec}})
    assert o.status.state == "ok", o.status.reason
    return o


@pytest.mark.shared_data
@pytest.mark.parametrize(("one", "other"), [
    ("Norway", "Australia"), ("Chile", "Japan"), ("Fiji", "New Zealand"), ("Russia", "United States of America"),
    ("Madagascar", "Greenland"), ("Spain", "Italy")])
def test_countries_are_as_far_apart_as_their_outlines(countries: dict[str, Any], one: str, other: str) -> None:
    o = measured({one: countries[one]}, {other: countries[other]}, metric="distance")
    assert o.result.value == pytest.approx(near(countries[one], countries[other]), rel=1e-5)


@pytest.mark.shared_data
def test_countries_within_a_distance_and_the_nearest(countries: dict[str, Any]) -> None:
    others = {n: g for n, g in countries.items() if n != "Portugal"}
    away = {n: near(g, countries["Portugal"]) for n, g in others.items()}
    home = {"Portugal": countries["Portugal"]}
    for km in (1000, 3000, 9000):
        o = measured(others, home, metric="count", relation="within", distance_m=1000.0 * km)
        assert o.result.value == sum(d <= 1000 * km for d in away.values()), km
        o = measured(others, home, metric="count", relation="beyond", distance_m=1000.0 * km)
        assert o.result.value == sum(d > 1000 * km for d in away.values()), km
    o = measured(others, home, metric="count", relation="nearest", nearest_k=7)
    assert o.result.value == 7
