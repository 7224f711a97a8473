"""Geometries that are handed to the tools: what is no place on the globe is told so, and what is one is measured right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyproj import Geod, Transformer
from shapely.geometry import box, mapping

from apps.core.errors import ModelError
from apps.tools.geojson import crs_of, on_the_globe
from apps.verification.checks import CHECKS, Case
from tests.unit.tools.rasters import Bench, scene

GEOD = Geod(ellps="WGS84")
SQUARE = mapping(box(10, 50, 11, 51))
NAMED = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::999999"}}


def measured(geometry: Any, metric: str = "area", **more: Any) -> Any:
    bench = Bench(scene(np.ones((1, 60, 80), dtype=np.uint8), ["gray"]))
    return bench.call("measure", {"sources": [{"name": "field", "mode": "extent", "geometry": geometry, **more}],
                                  "spec": {"metric": metric}})


def polygon(west: float, south: float, east: float, north: float) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]]}


@pytest.mark.parametrize(("geometry", "more", "told"), [
    (polygon(170, 50, -170, 51), {}, "more than 180 degrees"),
    ({"type": "LineString", "coordinates": [[179, 0], [-179, 0]]}, {}, "more than 180 degrees"),
    (polygon(10, 89, 11, 91), {}, "latitudes beyond 90"),
    (polygon(50, 120, 51, 121), {}, "longitude first"),
    (polygon(600000, 5600000, 601000, 5601000), {}, "If the numbers are metres, name their CRS"),
    (polygon(600000, 10, 601000, 11), {}, "longitudes beyond 360"),
    (SQUARE, {"geometry_crs": "EPSG:999999"}, "'EPSG:999999' is not known"),
    (SQUARE, {"geometry_crs": "nonsense"}, "'nonsense' is not known"),
    (SQUARE, {"geometry_crs": "EPSG:5773"}, "no place on the globe"),
    ({**SQUARE, "crs": NAMED}, {}, "is not known"),
    ({**SQUARE, "crs": {"type": "link", "properties": {"href": "x"}}}, {}, "names no CRS"),
    ({**SQUARE, "crs": {"type": "name", "properties": {"name": "EPSG:4326"}}}, {"geometry_crs": "EPSG:32632"}, "give one"),
    (polygon(1e12, 1e12, 2e12, 2e12), {"geometry_crs": "EPSG:32632"}, "no place in EPSG:32632"),
    (polygon(float("nan"), 0, 1, 1), {}, "not finite"),
    (polygon(float("inf"), 0, 1, 1), {}, "not finite"),
])
@pytest.mark.parametrize("metric", ["area", "length", "count"])
def test_what_is_no_place_on_the_globe_is_refused_with_a_sentence(
        geometry: dict[str, Any], more: dict[str, Any], told: str, metric: str) -> None:
    o = measured(geometry, metric, **more)
    assert o.status.state == "failed" and o.result.value is None
    assert told in o.status.reason and "inside" not in o.status.reason and "Error" not in o.status.reason
    assert o.status.needs["code"] == ("BAD_ARGUMENT" if told == "not finite" else "BAD_REGION")


@pytest.mark.parametrize("geometry", [{"type": "Point", "coordinates": [10, 50]},
                                      {"type": "LineString", "coordinates": [[10, 50], [11, 50]]}])
def test_points_and_lines_have_no_area(geometry: dict[str, Any]) -> None:
    o = measured(geometry)
    assert o.status.state == "failed" and "lines and points have no area" in o.status.reason
    assert measured(geometry, "count").result.value == 1


def test_what_is_a_place_is_measured_right() -> None:
    true = abs(GEOD.polygon_area_perimeter([10, 11, 11, 10], [50, 50, 51, 51])[0])
    # edges are straight in degrees: parallels, not geodesics
    assert measured(SQUARE).result.value == pytest.approx(true, rel=2e-3)
    over = {"type": "MultiPolygon", "coordinates": [polygon(179, 50, 180, 51)["coordinates"],
                                                    polygon(-180, 50, -179, 51)["coordinates"]]}
    assert measured(over).result.value == pytest.approx(2 * true, rel=2e-3)
    assert measured(polygon(179, 50, 181, 51)).result.value == pytest.approx(2 * true, rel=2e-3)
    x, y = Transformer.from_crs(4326, 32632, always_xy=True).transform([9, 9.01], [50, 50.01])
    here = polygon(x[0], y[0], x[1], y[1])
    truth = measured(here, geometry_crs="EPSG:32632").result.value
    assert truth == pytest.approx((x[1] - x[0]) * (y[1] - y[0]) / 0.9996**2, rel=1e-4)
    # the geometry's own word for its CRS
    assert measured({**here, "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::32632"}}}
                    ).result.value == pytest.approx(truth, rel=1e-9)
    assert measured({**SQUARE, "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:OGC:1.3:CRS84"}}}
                    ).result.value == pytest.approx(true, rel=2e-3)


def test_the_verifier_reads_a_geometrys_own_crs_too() -> None:
    bench = Bench(scene(np.ones((1, 60, 80), dtype=np.uint8), ["gray"]))
    plot = {**polygon(5e5, 5.53e6, 5.1e5, 5.54e6), "crs": {"type": "name", "properties": {"name": "EPSG:32632"}}}
    lon, lat = Transformer.from_crs(32632, 4326, always_xy=True).transform(5.05e5, 5.535e6)
    call = {"sources": [{"name": "well", "mode": "extent", "geometry": {"type": "Point", "coordinates": [lon, lat]}},
                        {"name": "plot", "mode": "extent", "geometry": plot}],
            "spec": {"metric": "count", "subject": "well", "reference": "plot", "relation": "inside"}}
    o = bench.call("measure", call)
    assert o.result.value == 1
    look = CHECKS["consistency.relation_recomputes"].look
    assert look(Case(o, bench.question, layers=bench.layers)).outcome == "passed"
    none = o.model_copy(update={"result": o.result.model_copy(update={"value": 0})})
    assert look(Case(none, bench.question, layers=bench.layers)).outcome == "failed"


def test_a_region_of_another_kind_is_refused_the_same_way() -> None:
    bench = Bench(scene(np.ones((1, 60, 80), dtype=np.uint8), ["gray"]))
    call = {"sources": [{"name": "image", "mode": "extent", "image": "s"}], "spec": {"metric": "area"}}
    for region, crs, told in ((SQUARE, "EPSG:999999", "is not known"), ({**SQUARE, "crs": NAMED}, "EPSG:4326", "is not known"),
                              (polygon(170, 50, -170, 51), "EPSG:4326", "180 degrees"),
                              (polygon(6e5, 5.6e6, 6.01e5, 5.601e6), "EPSG:4326", "latitudes beyond 90")):
        o = bench.call("measure", {**call, "region": region, "region_crs": crs})
        assert o.status.state == "failed" and told in o.status.reason, o.status.reason
    nodes = [("s1", "asset.scene", (), {"scene": "s"}), ("a", "raster.product.band", ["s1"], {"role": "gray"}),
             ("out", "raster.summarize.statistic", ["a"], {"statistic": "mean"})]
    for region, crs, told in ((SQUARE, "EPSG:999999", "is not known"), ({**SQUARE, "crs": NAMED}, "EPSG:4326", "is not known")):
        o = bench.execute(nodes, region=region, region_crs=crs)
        assert o.status.state == "failed" and told in o.status.reason, o.status.reason


def test_the_door_by_itself() -> None:
    assert crs_of(SQUARE, "image") == "image" and crs_of(SQUARE, "EPSG:32632") == "EPSG:32632"
    on_the_globe([box(-1e6, -1e6, 1e6, 1e6)], "image")
    on_the_globe([], "EPSG:999999")
    with pytest.raises(ModelError, match="pixels"):
        crs_of({**SQUARE, "crs": {"type": "name", "properties": {"name": "EPSG:4326"}}}, "image")
