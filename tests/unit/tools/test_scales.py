"""Values of which a plain mean or quotient says something else than it seems, and slopes on grids that do not run east and north.

Expected values: planes laid out in metres by pyproj, circular means by hand, numpy on the powers of real backscatter.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio

from apps.core.geo.grid import Grid
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import inspect_file
from apps.imagery.readers import open_scene
from tests.unit.tools.rasters import Bench, node_of, scene
from tests.unit.tools.test_execute_operators import pixels_of

S = ("s1", "asset.scene", (), {"scene": "s"})
Z = ("e", "raster.product.band", ["s1"], {"role": "elevation"})
N = 60
COL, ROW = np.meshgrid(np.arange(N) + 0.5, np.arange(N) + 0.5)


def heights(grid: Grid, lon0: float, lat0: float, east: float, north: float) -> Bench:
    """A plane that rises so many metres a metre, in a plane about the place, on that grid."""
    a, b, c, d, e, f = grid.transform
    assert grid.crs is not None
    lon, lat = pyproj.Transformer.from_crs(grid.crs, "EPSG:4326", always_xy=True).transform(
        a * COL + b * ROW + c, d * COL + e * ROW + f)
    x, y = pyproj.Transformer.from_crs("EPSG:4326", f"+proj=aeqd +lat_0={lat0} +lon_0={lon0} +datum=WGS84",
                                       always_xy=True).transform(lon, lat)
    info, stored = scene((500 + east * x + north * y)[None], ["elevation"], unit="m")
    return Bench((info.model_copy(update={"grid": grid}), stored))


def at(crs: str, lon: float, lat: float, turn: float = 0.0, side: float = 100.0) -> Grid:
    x, y = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(lon, lat)
    cos, sin = side * np.cos(np.radians(turn)), side * np.sin(np.radians(turn))
    return Grid(crs=crs, transform=(cos, sin, x, sin, -cos, y), width=N, height=N)


def middle(grid: Grid) -> tuple[float, float]:
    lon, lat = pyproj.Transformer.from_crs(str(grid.crs), "EPSG:4326", always_xy=True).transform(*grid.xy(N / 2, N / 2))
    return float(lon), float(lat)


@pytest.mark.parametrize(("east", "north", "aspect"), [
    (0.1, 0.0, 270), (0.0, 0.1, 180), (-0.06, 0.08, 143.1301), (0.08, -0.06, 306.8699)])
@pytest.mark.parametrize("grid", [
    at("EPSG:6933", 10, 60), at("EPSG:3035", -8, 40), at("EPSG:3413", 90, 75), at("EPSG:3031", 60, -70), at("EPSG:3857", 10, 60),
    at("EPSG:32632", 9, 60), at("EPSG:32632", 9, 50, turn=30), at("EPSG:27572", 2.3, 46.8)],
    ids=["EASE", "LAEA", "north polar", "south polar", "mercator", "UTM", "turned", "Paris"])
def test_a_plane_has_one_slope_and_falls_one_way_on_any_grid(grid: Grid, east: float, north: float, aspect: float) -> None:
    bench = heights(grid, *middle(grid), east, north)
    for product, expected in (("slope", np.degrees(np.arctan(0.1))), ("aspect", aspect)):
        data, valid = pixels_of(bench, [S, Z, ("t", "raster.product.terrain", ["e"], {"product": product})])
        off = np.abs((data[valid] - expected + 180) % 360 - 180)
        assert valid.sum() == (N - 2) ** 2
        # scale and convergence change by a thousandth and a tenth of a degree over the six kilometres
        assert off.max() < (0.02 if product == "slope" else 0.35), (product, off.max())


def test_light_from_the_north_west_falls_on_the_same_plane_alike_on_any_grid() -> None:
    shades = []
    for grid in (at("EPSG:32632", 9, 60), at("EPSG:3413", 9, 60)):
        light = ("t", "raster.product.terrain", ["e"], {"product": "hillshade"})
        o = heights(grid, *middle(grid), 0.1, -0.1).execute([S, Z, light, ("o", "raster.summarize.statistic", ["t"], {})])
        shades.append(o.result.value)
    assert shades[1] == pytest.approx(shades[0], abs=2e-3)


@pytest.mark.parametrize("nodes", [
    [("o", "raster.summarize.statistic", ["t"], {})],
    [("o", "raster.summarize.statistic", ["t"], {"statistic": "median"})],
    [("f", "raster.product.focal", ["t"], {})],
    [("r", "raster.product.reproject", ["t"], {"resolution": 300, "method": "average"})],
    [("r", "raster.product.reproject", ["t"], {"resolution": 130, "method": "bilinear"})],
    [("z", "vector.zones", (), {"crs": "image", "geojson": {"type": "Polygon", "coordinates": [
        [[5, 5], [40, 5], [40, 40], [5, 40], [5, 5]]]}}), ("o", "raster.summarize.zonal", ["t", "z"], {})],
])
def test_directions_have_no_plain_mean(nodes: list[Any]) -> None:
    # a slope that faces north, with furrows: half of it to 10 degrees, half to 350, whose plain mean would be south
    info, stored = scene((30 * ROW + 9 * np.sin(COL / 3))[None], ["elevation"], unit="m", pixel=100.0)
    o = Bench((info, stored)).execute([S, Z, ("t", "raster.product.terrain", ["e"], {"product": "aspect"}), *nodes])
    assert o.status.state == "failed" and "directions go round" in o.status.reason, o.status.reason


def test_directions_are_counted_and_moved_pixel_by_pixel() -> None:
    bench = Bench(scene((30 * ROW + 9 * np.sin(COL / 3))[None], ["elevation"], unit="m", pixel=100.0))
    terrain = [S, Z, ("t", "raster.product.terrain", ["e"], {"product": "aspect"})]
    north = bench.execute([*terrain, ("a", "raster.product.threshold", ["t"], {"op": ">=", "value": 315}),
                           ("b", "raster.product.threshold", ["t"], {"op": "<", "value": 45}),
                           ("m", "raster.product.logic", ["a", "b"], {"op": "or"}), ("o", "raster.summarize.share", ["m"], {})])
    assert north.result.value == 1.0
    moved = bench.execute([*terrain, ("r", "raster.product.reproject", ["t"], {"resolution": 130}),
                           ("o", "raster.summarize.statistic", ["r"], {"statistic": "max"})])
    assert moved.status.state == "ok" and moved.result.value > 340


@pytest.mark.shared_data
def test_the_mean_of_decibels_is_told_from_the_decibels_of_the_mean(shared_data: Path, tmp_path: Path) -> None:
    path = shared_data / "water_flood/Spain_7370579_S1Hand.tif"
    info = inspect_file(path, path.name, scene_id="s", artifact="sha256:f").info
    convert(path, tmp_path / "cog.tif", path.name, SceneHints())
    bench = Bench((info, np.zeros((1, 1, 1))))
    bench.box._open_scene = lambda held: open_scene(held, tmp_path / "cog.tif")
    assert info.bands[0].unit == "dB"
    role = info.bands[0].role
    nodes = [S, ("v", "raster.product.band", ["s1"], {"role": role})]
    o = bench.execute([*nodes, ("o", "raster.summarize.statistic", ["v"], {})])
    with open_scene(info, tmp_path / "cog.tif") as reader:
        read = reader.read([1])
    values = read.data[0][read.valid[0]].astype(np.float64)
    assert o.result.value == pytest.approx(float(values.mean()), rel=1e-9)
    power = 10 * np.log10(np.mean(10 ** (values / 10)))
    assert node_of(o, "o")["mean_power_dB"] == pytest.approx(power, abs=1e-6) and power - values.mean() > 1
    assert any("mean power" in line.message for line in o.status.log)
    for statistic in ("sum", "cv"):
        refused = bench.execute([*nodes, ("o", "raster.summarize.statistic", ["v"], {"statistic": statistic})])
        assert refused.status.state == "failed" and "logarithms" in refused.status.reason


@pytest.mark.parametrize(("unit", "role", "low"), [("dB", "vv", -12.0), ("degC", "lst", 10.0)])
def test_no_percentage_of_decibels_or_degrees_celsius(unit: str, role: str, low: float) -> None:
    rng = np.random.default_rng(2)
    held = [scene(low + rng.random((1, 6, 7)), [role], scene_id=f"d{k}", unit=unit, date=f"2020-0{k + 1}-01") for k in range(4)]
    nodes = [n for k in range(4) for n in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                           (f"v{k}", "raster.product.band", [f"s{k}"], {"role": role}))]
    names = [f"v{k}" for k in range(4)]
    bench = Bench(*held)
    for mode in ("percent", "ratio"):
        o = bench.execute([*nodes, ("d", "raster.product.difference", names[:2], {"mode": mode})])
        assert o.status.state == "failed" and "means nothing" in o.status.reason
    o = bench.execute([*nodes, ("d", "raster.product.anomaly", names, {"mode": "percent"})])
    assert o.status.state == "failed" and "means nothing" in o.status.reason
    o = bench.execute([*nodes, ("d", "raster.product.difference", names[:2], {}), ("o", "raster.summarize.statistic", ["d"], {})])
    assert o.result.value == pytest.approx(float((held[1][1] - held[0][1]).mean())) and o.result.unit == unit


def test_nothing_has_no_sum() -> None:
    rain = np.full((1, 8, 8), 3.0)
    rain[:, :, 4:] = np.nan
    bench = Bench(scene(rain, ["gray"]), region=None)
    nodes = [S, ("v", "raster.product.band", ["s1"], {"role": "gray"})]
    dry = {"type": "Polygon", "coordinates": [[[5, 1], [7, 1], [7, 5], [5, 5], [5, 1]]]}
    o = bench.execute([*nodes, ("o", "raster.summarize.statistic", ["v"], {"statistic": "sum"})], region=dry, region_crs="image")
    assert o.status.state == "failed" and "no valid pixel" in o.status.reason.lower()
    zones = {"type": "FeatureCollection", "features": [
        {"type": "Feature", "properties": {"name": "held"}, "geometry": {"type": "Polygon", "coordinates": [
            [[0, 0], [2, 0], [2, 3], [0, 3], [0, 0]]]}},
        {"type": "Feature", "properties": {"name": "empty"}, "geometry": dry}]}
    o = bench.execute([*nodes, ("z", "vector.zones", (), {"geojson": zones, "crs": "image"}),
                       ("o", "raster.summarize.zonal", ["v", "z"], {"statistic": "sum"})])
    assert [(i["zone"], i["value"]) for i in o.result.items] == [("held", 18.0), ("empty", None)]
    count = [*nodes, ("o", "raster.summarize.statistic", ["v"], {"statistic": "count"})]
    o = bench.execute(count, region=dry, region_crs="image")
    assert o.status.state == "ok" and o.result.value == 0


@pytest.mark.parametrize("value", [0.1, 0.3, 1 / 3, 1e6 + 0.1])
@pytest.mark.parametrize("n", [3, 7])
def test_equal_dates_have_no_trend_and_no_anomaly(value: float, n: int) -> None:
    held = [scene(np.full((1, 3, 3), value), ["gray"], scene_id=f"d{k}", date=f"20{10 + k}-01-01") for k in range(n + 1)]
    names = [f"v{k}" for k in range(n + 1)]
    nodes = [m for k in range(n + 1) for m in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                               (f"v{k}", "raster.product.band", [f"s{k}"], {"role": "gray"}))]
    bench = Bench(*held)
    o = bench.execute([*nodes, ("o", "raster.summarize.trend", names, {})])
    assert (o.status.state, o.result.value, o.result.interval) == ("ok", 0.0, (0.0, 0.0)), o.status.reason
    assert node_of(o, "o")["p_value"] == 1.0
    o = bench.execute([*nodes, ("a", "raster.product.anomaly", names, {"mode": "zscore"}),
                       ("o", "raster.summarize.statistic", ["a"], {})])
    assert o.status.state == "failed" and "no valid pixel" in o.status.reason.lower()
    for output, expected in (("r2", 0.0), ("p_value", 1.0)):
        o = bench.execute([*nodes, ("a", "raster.product.pixel_trend", names, {"output": output}),
                           ("o", "raster.summarize.statistic", ["a"], {})])
        assert o.result.value == expected


# 1° cells of the globe, warmer at the equator; areas of its zones by the closed form of the WGS 84 ellipsoid
LATITUDES = 89.5 - np.arange(180)
WARMTH = np.repeat((288 - 40 * np.sin(np.radians(LATITUDES)) ** 2)[:, None], 360, axis=1)


def zone_weights() -> Any:
    e = 0.0818191908426215
    edge = np.sin(np.radians(90.0 - np.arange(181)))
    q = edge / (1 - e * e * edge * edge) + np.arctanh(e * edge) / e
    return -np.diff(q)


def test_a_mean_and_a_share_over_the_globe_say_what_they_are_by_area() -> None:
    bench = Bench(scene(WARMTH[None], ["lst"], unit="K", crs="EPSG:4326", pixel=1.0, origin=(-180.0, 90.0)))
    nodes = [S, ("v", "raster.product.band", ["s1"], {"role": "lst"})]
    weights = zone_weights()
    o = bench.execute([*nodes, ("o", "raster.summarize.statistic", ["v"], {})])
    by_area = float(np.average(WARMTH[:, 0], weights=weights))
    assert o.result.value == pytest.approx(by_area, rel=1e-5) and by_area - WARMTH.mean() > 6
    assert node_of(o, "o")["by_pixels"] == pytest.approx(float(WARMTH.mean()))
    assert any("by area, 274.6" in line.message and "268 K" in line.message for line in o.status.log)
    o = bench.execute([*nodes, ("m", "raster.product.threshold", ["v"], {"op": "<", "value": 260}),
                       ("o", "raster.summarize.share", ["m"], {})])
    cold = WARMTH[:, 0] < 260
    assert o.result.value == pytest.approx(float(weights[cold].sum() / weights.sum()), rel=1e-4)
    assert any("by area, 16.2 %" in line.message and "36.7 %" in line.message for line in o.status.log)


def test_where_pixels_are_alike_nothing_is_said_of_their_area() -> None:
    bench = Bench(scene(np.random.default_rng(3).random((1, 30, 30)), ["ndvi"], unit="1"))
    o = bench.execute([S, ("v", "raster.product.band", ["s1"], {"role": "ndvi"}), ("o", "raster.summarize.statistic", ["v"], {})])
    assert "by_area" not in node_of(o, "o") and not any("area" in line.message for line in o.status.log)


def dated(*places: tuple[str, float, float]) -> tuple[Bench, list[Any], list[str]]:
    held = [scene(np.full((1, 20, 20), 0.2 + 0.1 * k), ["ndvi"], scene_id=f"d{k}", unit="1", crs=crs, origin=(x, y),
                  date=f"{2018 + k}-06-01") for k, (crs, x, y) in enumerate(places)]
    nodes = [n for k in range(len(held)) for n in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                                   (f"v{k}", "raster.product.band", [f"s{k}"], {"role": "ndvi"}))]
    return Bench(*held), nodes, [f"v{k}" for k in range(len(held))]


def test_longitudes_from_0_to_360_are_the_same_place_as_those_from_minus_180() -> None:
    def series(*west: float) -> Any:
        held = [scene(np.full((1, 20, 20), 0.2 + 0.1 * k), ["ndvi"], scene_id=f"d{k}", unit="1", crs="EPSG:4326", pixel=0.25,
                      origin=(x, 10.0), date=f"{2018 + k}-06-01") for k, x in enumerate(west)]
        nodes = [n for k in range(len(held)) for n in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                                       (f"v{k}", "raster.product.band", [f"s{k}"], {"role": "ndvi"}))]
        return Bench(*held).execute([*nodes, ("o", "raster.summarize.series", [f"v{k}" for k in range(len(held))], {})])

    o = series(200.0, -160.0)
    assert o.status.state == "ok", o.status.reason
    assert [i["value"] for i in o.result.items] == pytest.approx([0.2, 0.3])
    assert not any("same ground" in line.message for line in o.status.log)
    assert series(178.0, -182.0).status.state == "ok"  # over the antimeridian, counted either way
    assert "different places" in series(200.0, 160.0).status.reason


@pytest.mark.parametrize("op", ["series", "trend", "series_analysis"])
def test_dates_of_different_places_are_no_series(op: str) -> None:
    params = {"analysis": "mann_kendall"} if op == "series_analysis" else {}
    bench, nodes, names = dated(*(("EPSG:32630", 6e5 + 5000.0 * k, 5.6e6) for k in range(4)))
    o = bench.execute([*nodes, ("o", f"raster.summarize.{op}", names, params)])
    assert o.status.state == "failed" and "different places" in o.status.reason, o.status.reason
    # the same place in another zone of UTM, and one moved by a quarter
    bench, nodes, names = dated(("EPSG:32630", 6e5, 5.6e6), ("EPSG:32630", 6e5, 5.6e6), ("EPSG:32630", 6e5 + 50, 5.6e6),
                                ("EPSG:32630", 6e5, 5.6e6))
    o = bench.execute([*nodes, ("o", f"raster.summarize.{op}", names, params)])
    assert o.status.state == "ok", o.status.reason
    assert any("do not show the same ground" in line.message for line in o.status.log)
    bench, nodes, names = dated(*[("EPSG:32630", 6e5, 5.6e6)] * 4)
    o = bench.execute([*nodes, ("o", f"raster.summarize.{op}", names, params)])
    assert o.status.state == "ok" and not any("same ground" in line.message for line in o.status.log)


@pytest.mark.parametrize(("day", "says"), [("2021-06-01", False), ("2022-06-01", True), ("2024-06-01", False)])
def test_an_empty_cloud_mask_of_sentinel_2_is_no_clear_sky(day: str, says: bool) -> None:
    info, stored = scene(np.zeros((1, 5, 5), np.uint16), ["qa"], date=day)
    info = info.model_copy(update={"bands": (info.bands[0].model_copy(update={"scheme": "sentinel2_qa60"}),)})
    o = Bench((info, stored)).execute([S, ("q", "raster.product.qa_mask", ["s1"], {"flags": ["cloud"]}),
                                       ("o", "raster.summarize.share", ["q"], {})])
    assert o.result.value == 0 and any("QA60 was left empty" in line.message for line in o.status.log) is says


EXTREMES = {"close": 1 + np.array([0, 1, 2]) * 2.2e-16, "far": np.array([-1.7e308, 0, 1.7e308]),
            "large": 1e17 + np.array([0, 16, 32.0])}


@pytest.mark.parametrize("kind", EXTREMES)
def test_values_that_no_histogram_parts_are_refused_and_ingested(kind: str, tmp_path: Path) -> None:
    values = EXTREMES[kind]
    stored = np.random.default_rng(1).choice(values, (1, 20, 20))
    nodes = [S, ("v", "raster.product.band", ["s1"], {"role": "gray"})]
    bench = Bench(scene(stored, ["gray"]))
    more: list[Any]
    for more in ([("m", "raster.product.threshold", ["v"], {"value": "otsu"}), ("o", "raster.summarize.share", ["m"], {})],
                 [("o", "raster.summarize.histogram", ["v"], {})]):
        o = bench.execute([*nodes, *more])
        if kind == "far" and more[-1][1] == "raster.summarize.histogram":
            assert o.status.state == "ok" and abs(o.result.value) < 1.8e308
        else:
            assert o.status.state == "failed" and "too close together" in o.status.reason, o.status.reason
    path = tmp_path / "t.tif"
    with rasterio.open(path, "w", driver="GTiff", width=20, height=20, count=1, dtype="float64") as out:
        out.write(stored)
    found = inspect_file(path).statistics
    assert found is not None and found.bands[0].histogram is not None
    counts = found.bands[0].histogram.counts
    assert sum(counts) == 400 and (counts[0], counts[-1]) == (int((stored == values[0]).sum()), int((stored == values[2]).sum()))


def test_whole_numbers_that_float64_does_not_tell_apart_are_blocked(tmp_path: Path) -> None:
    path = tmp_path / "t.tif"
    stored = np.uint64(2**60) + np.random.default_rng(1).integers(0, 200, (1, 20, 20)).astype(np.uint64)
    with rasterio.open(path, "w", driver="GTiff", width=20, height=20, count=1, dtype="uint64") as out:
        out.write(stored)
    assert next(f.light for f in inspect_file(path).findings if f.key == "precision") == "block"
    with rasterio.open(path, "w", driver="GTiff", width=20, height=20, count=1, dtype="uint64") as out:
        out.write(stored - np.uint64(2**60))
    assert not any(f.key == "precision" for f in inspect_file(path).findings)
