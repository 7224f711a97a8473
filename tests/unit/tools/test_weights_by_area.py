"""Means and shares of pixels that differ in area.

Expected values: geodesic polygons of pyproj, one a row of pixels, and the land of Natural Earth laid on a grid of half degrees.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyproj
import pytest
import rasterio.features
import shapely
from numpy.typing import NDArray

from apps.agent.answers import _support_note
from apps.runs.headline import detail_text
from tests.unit.tools.rasters import Bench, node_of, scene

S = ("s1", "asset.scene", (), {"scene": "s"})
V = ("v", "raster.product.band", ["s1"], {"role": "lst"})
COLD = ("m", "raster.product.threshold", ["v"], {"op": "<", "value": 260})
SHARE, MEAN = "raster.summarize.share", "raster.summarize.statistic"
STEP = 0.5
RNG = np.random.default_rng(8)
ROWS, COLUMNS = 360, 720
LATITUDES = 90 - STEP * (np.arange(ROWS) + 0.5)
WARMTH = 288 - 40 * np.sin(np.radians(LATITUDES))[:, None] ** 2 + RNG.normal(0, 3, (ROWS, COLUMNS))


def rows_m2(north: float, step: float, n: int) -> NDArray[np.float64]:
    """Area in m² of one pixel of each row, as a geodesic polygon with points along its parallels."""
    geod = pyproj.Geod(ellps="WGS84")
    lon = np.linspace(0, step, 60)
    out = []
    for k in range(n):
        top, foot = north - k * step, north - (k + 1) * step
        area, _ = geod.polygon_area_perimeter([*lon, *lon[::-1]], [*np.full(60, top), *np.full(60, foot)])
        out.append(abs(area))
    return np.array(out)


def globe(values: Any = WARMTH, **more: Any) -> Bench:
    return Bench(scene(np.asarray(values, dtype=np.float64)[None], ["lst"], unit="K", crs="EPSG:4326", pixel=STEP,
                       origin=(-180.0, 90.0)), **more)


def averaged(values: NDArray[Any], keep: NDArray[np.bool_] | None = None) -> float:
    weights = np.broadcast_to(rows_m2(90, STEP, ROWS)[:, None], values.shape)
    keep = np.ones(values.shape, dtype=bool) if keep is None else keep
    return float(np.average(values[keep], weights=weights[keep]))


def box(west: float, south: float, east: float, north: float) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[[west, south], [east, south], [east, north], [west, north], [west, south]]]}


def test_the_mean_over_the_globe_is_by_area_and_the_other_stands_beside() -> None:
    o = globe().execute([S, V, ("o", MEAN, ["v"], {})])
    by_area, alike = averaged(WARMTH), float(WARMTH.mean())
    assert o.result.value == pytest.approx(by_area, rel=3e-6) and by_area - alike > 6
    told = node_of(o, "o")
    assert (told["weights"], told["by_pixels"]) == ("area", pytest.approx(alike)) and told["by_area"] == o.result.value
    assert any("the mean is by area" in line.message and f"{alike:.6g} K" in line.message for line in o.status.log)
    assert _support_note(o) == f" (by area; {alike:.2f} K with each pixel alike, though pixels differ in area)"
    assert "by area; " in detail_text(o)


def test_each_pixel_counts_alike_where_that_is_asked() -> None:
    o = globe().execute([S, V, ("o", MEAN, ["v"], {"weights": "pixels"})])
    assert o.result.value == pytest.approx(float(WARMTH.mean()), rel=1e-12)
    assert node_of(o, "o")["weights"] == "pixels" and node_of(o, "o")["by_area"] == pytest.approx(averaged(WARMTH), rel=3e-6)
    assert any("as was asked" in line.message for line in o.status.log)
    o = globe().execute([S, V, COLD, ("o", SHARE, ["m"], {"weights": "pixels"})])
    assert o.result.value == float((WARMTH < 260).mean())
    assert "each pixel counts alike" in _support_note(o)
    refused = globe().execute([S, V, ("o", MEAN, ["v"], {"statistic": "median", "weights": "area"})])
    assert refused.status.state == "failed" and "weights by area are those of a mean" in refused.status.reason


@pytest.mark.parametrize(("unit", "scale"), [("1", 1.0), ("%", 100.0)])
def test_a_share_of_the_globe_is_by_area(unit: str, scale: float) -> None:
    o = globe().execute([S, V, COLD, ("o", SHARE, ["m"], {"unit": unit})])
    cold = WARMTH < 260
    by_area = averaged(cold.astype(float))
    assert o.result.value == pytest.approx(scale * by_area, rel=3e-5) and cold.mean() > 2 * by_area
    told = node_of(o, "o")
    assert told["n_true"] == cold.sum() and told["by_pixels"] == pytest.approx(scale * cold.mean())
    assert told["numerator"] / told["denominator"] == pytest.approx(by_area, rel=3e-5)
    low, high = o.result.interval
    assert 0 <= low < o.result.value < high <= scale


def test_nodata_and_region_are_left_out_of_the_areas() -> None:
    values = WARMTH.copy()
    values[:100, 200:500] = np.nan
    region = box(-100, 10, 60, 80)
    o = globe(values, region=region).execute([S, V, ("o", MEAN, ["v"], {})])
    lon = -180 + STEP * (np.arange(COLUMNS) + 0.5)
    inside = ((lon > -100) & (lon < 60))[None] & ((LATITUDES > 10) & (LATITUDES < 80))[:, None] & np.isfinite(values)
    assert o.result.value == pytest.approx(averaged(np.nan_to_num(values), inside), rel=3e-6)
    assert node_of(o, "o")["n_valid"] == inside.sum()


def test_a_region_of_few_rows_takes_pixels_alike() -> None:
    o = globe(region=box(-100, 0, 60, 5)).execute([S, V, ("o", MEAN, ["v"], {})])
    assert node_of(o, "o")["weights"] == "pixels" and "by_area" not in node_of(o, "o")
    assert node_of(o, "o")["mean"] == o.result.value


@pytest.mark.parametrize("nodes", [[("o", MEAN, ["v"], {})], [COLD, ("o", SHARE, ["m"], {})]])
def test_no_digit_hangs_on_the_windows(nodes: list[Any]) -> None:
    found = {globe(window_px=side).execute([S, V, *nodes]).result.value for side in (256, 512, 1024)}
    assert len(found) == 1


def test_zones_have_means_and_shares_by_area() -> None:
    zones = {"type": "FeatureCollection", "features": [
        {"type": "Feature", "properties": {"name": name}, "geometry": box(*at)}
        for name, at in (("north", (-80, 0, 90, 90)), ("tropics", (-80, -20, 90, 20)))]}
    z = ("z", "vector.zones", (), {"geojson": zones})
    lon = -180 + STEP * (np.arange(COLUMNS) + 0.5)
    across = (lon > -80) & (lon < 90)
    belts = {"north": LATITUDES > 0, "tropics": np.abs(LATITUDES) < 20}
    for statistic, source, values in (("mean", "v", WARMTH), ("share", "m", (WARMTH < 260).astype(float))):
        o = globe().execute([S, V, COLD, z, ("o", "raster.summarize.zonal", [source, "z"], {"statistic": statistic})])
        assert o.status.state == "ok", o.status.reason
        for item in o.result.items:
            keep = belts[item["zone"]][:, None] & across[None]
            assert item["value"] == pytest.approx(averaged(values, keep), rel=3e-5, abs=1e-12)
            assert item["by_pixels"] == pytest.approx(float(values[keep].mean()), rel=1e-9)
        assert node_of(o, "o")["weights"] == "area"
        assert any("of each zone is by area" in line.message for line in o.status.log)


def test_dates_classes_and_transitions_are_by_area() -> None:
    held = [scene((WARMTH + k)[None], ["lst"], unit="K", crs="EPSG:4326", pixel=STEP, origin=(-180.0, 90.0), scene_id=f"d{k}",
                  date=f"202{k}-06-01") for k in range(3)]
    nodes = [n for k in range(3) for n in ((f"s{k}", "asset.scene", (), {"scene": f"d{k}"}),
                                           (f"v{k}", "raster.product.band", [f"s{k}"], {"role": "lst"}))]
    o = Bench(*held).execute([*nodes, ("o", "raster.summarize.series", ["v0", "v1", "v2"], {})])
    assert [i["value"] for i in o.result.items] == pytest.approx([averaged(WARMTH) + k for k in range(3)], rel=3e-6)
    assert {i["weights"] for i in o.result.items} == {"area"}
    classes = np.where(WARMTH < 260, 1.0, 2.0)
    later = np.where(WARMTH < 265, 1.0, 2.0)
    pair = [scene(c[None], ["class"], crs="EPSG:4326", pixel=STEP, origin=(-180.0, 90.0), scene_id=f"c{k}", date=f"202{k}-01-01")
            for k, c in enumerate((classes, later))]
    nodes = [n for k in range(2) for n in ((f"s{k}", "asset.scene", (), {"scene": f"c{k}"}),
                                           (f"b{k}", "raster.product.band", [f"s{k}"], {"role": "class"}))]
    o = Bench(*pair).execute([*nodes, ("o", "raster.summarize.class_areas", ["b0"], {})])
    cold = next(i for i in o.result.items if i["class"] == 1)
    assert cold["share"] == pytest.approx(averaged((classes == 1).astype(float)), rel=3e-5)
    assert cold["share_by_pixels"] == pytest.approx((classes == 1).mean())
    o = Bench(*pair).execute([*nodes, ("o", "raster.summarize.transitions", ["b0", "b1"], {})])
    assert o.result.value == pytest.approx(averaged((classes != later).astype(float)), rel=3e-5)
    assert node_of(o, "o")["by_pixels"] == pytest.approx((classes != later).mean())


@pytest.mark.parametrize("crs", ["EPSG:3857", "EPSG:32662"])
def test_mercator_and_plate_carree_are_taken_by_area(crs: str) -> None:
    # 60 rows from the equator to 60 degrees north, on the ground
    to = pyproj.Transformer.from_crs("EPSG:4326", crs, always_xy=True)
    top = to.transform(0, 60)[1]
    values = np.repeat(np.arange(60.0)[:, None], 40, axis=1)
    o = Bench(scene(values[None], ["lst"], unit="K", crs=crs, pixel=top / 60, origin=(0.0, top))).execute(
        [S, V, ("o", MEAN, ["v"], {})])
    back = pyproj.Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    edges = np.array([back.transform(0, top - k * top / 60)[1] for k in range(61)])
    east = back.transform(top / 60, 0)[0]
    geod = pyproj.Geod(ellps="WGS84")
    lon = np.linspace(0, east, 40)
    rows = [abs(geod.polygon_area_perimeter([*lon, *lon[::-1]], [*np.full(40, a), *np.full(40, b)])[0])
            for a, b in pairwise(edges)]
    assert o.result.value == pytest.approx(float(np.average(np.arange(60.0), weights=rows)), rel=2e-4)
    assert o.result.value > 31 and node_of(o, "o")["weights"] == "area"


@pytest.mark.shared_data
def test_the_land_of_the_earth_is_three_tenths_of_it(shared_data: Path) -> None:
    import pyogrio

    countries = pyogrio.read_dataframe(shared_data / "vector/ne_lowres/naturalearth_lowres.shp").geometry
    land = rasterio.features.rasterize(
        [(g, 1) for g in countries], out_shape=(ROWS, COLUMNS), transform=rasterio.transform.from_origin(-180, 90, STEP, STEP))
    o = globe(np.where(land, 250.0, 290.0)).execute([S, V, COLD, ("o", SHARE, ["m"], {"unit": "%"})])
    # the polygons themselves on the ellipsoid, against the whole of it
    geod = pyproj.Geod(ellps="WGS84")
    polygons = sum(abs(geod.geometry_area_perimeter(shapely.orient_polygons(g))[0]) for g in countries)
    assert o.result.value == pytest.approx(100 * polygons / 510.0656e12, abs=0.15)
    assert node_of(o, "o")["by_pixels"] > o.result.value + 3


@pytest.mark.shared_data
def test_a_real_scene_in_degrees_whose_pixels_are_nearly_alike_counts_them_alike(shared_data: Path) -> None:
    from tests.unit.tools.rasters import from_file

    info, stored = from_file(shared_data / "terrain_landcover/spDataLarge_srtm.tif", {"lst": 1}, unit="K")
    values = stored[0].astype(float)
    nodes = [S, V, ("o", MEAN, ["v"], {})]
    o = Bench((info, stored)).execute(nodes)
    assert o.result.value == pytest.approx(values.mean(), rel=1e-9) and node_of(o, "o")["weights"] == "pixels"
    o = Bench((info, stored)).execute([S, V, ("o", MEAN, ["v"], {"weights": "area"})])
    north, step = info.grid.transform[5], -info.grid.transform[4]
    weights = np.repeat(rows_m2(north, step, values.shape[0])[:, None], values.shape[1], axis=1)
    assert o.result.value == pytest.approx(float(np.average(values, weights=weights)), rel=1e-7)
    assert abs(o.result.value - values.mean()) > 0.1
