"""Figures on real scenes, against values worked out apart from this code (numpy on the whole array, see the data catalogue)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from rasterio.warp import Resampling, calculate_default_transform, reproject

from apps.core.geo.bands import Band, FillRule
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from tests.unit.tools.rasters import Bench, close, from_file, node_of

pytestmark = pytest.mark.shared_data

ZEROS = [FillRule(kind="all_bands_equal", value=0, source="suspected", share=0.3294)]
S = ("s1", "asset.scene", (), {"scene": "s"})


def index(name: str) -> list[tuple[Any, ...]]:
    return [S, ("i", "raster.product.index", ["s1"], {"index": name})]


@pytest.fixture
def fishbourne(shared_data: Path) -> Bench:
    return Bench(from_file(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif",
                           {"blue": 1, "green": 2, "red": 3, "nir": 4}, fill=ZEROS))


def test_mean_ndvi_without_the_undeclared_fill(fishbourne: Any) -> None:
    o = fishbourne.execute([*index("ndvi"), ("out", "raster.summarize.statistic", ["i"], {"statistic": "mean"})])
    assert o.result.value == pytest.approx(0.5303, abs=5e-5)
    assert o.evidence.intermediate["valid_px"] == 40_574
    assert o.evidence.intermediate["masked"]["source"] == 19_927
    assert any("undeclared fill" in line.message and line.level == "warning" for line in o.status.log)
    assert o.result.layers[0].kind == "raster" and o.result.layers[0].label == "ndvi"


def test_area_of_ndvi_above_0_4_on_its_grid(fishbourne: Any) -> None:
    o = fishbourne.execute([*index("ndvi"), ("m", "raster.product.threshold", ["i"], {"op": ">", "value": 0.4}),
                            ("out", "raster.summarize.area", ["m"], {"unit": "ha"})])
    assert o.result.value == pytest.approx(302.35, abs=1e-6)
    assert node_of(o, "out")["method"] == "grid"
    assert node_of(o, "out")["geodesic_m2"] / 1e4 == pytest.approx(302.47, abs=0.005)


def test_flood_water_on_the_ellipsoid_and_its_mask_against_the_hand_label(shared_data: Any) -> None:
    b = Bench(from_file(shared_data / "water_flood/Spain_7370579_S2Hand.tif", {"green": 3, "red": 4, "nir": 8, "swir1": 12},
                        unit="reflectance", scale=1e-4, nodata=0))
    o = b.execute([*index("ndwi"), ("m", "raster.product.threshold", ["i"], {"op": ">", "value": 0}),
                   ("out", "raster.summarize.area", ["m"], {"unit": "km2"})])
    assert o.result.value == pytest.approx(4.37, abs=0.02) and node_of(o, "out")["method"] == "geodesic"
    mask, _ = b.layers.read_mask(o.result.layers[0])
    with rasterio.open(shared_data / "water_flood/Spain_7370579_LabelHand.tif") as src:
        label = src.read(1)
    known, water = label >= 0, label == 1
    hit = int((mask & water & known).sum())
    f1 = 2 * hit / (int((mask & known).sum()) + int(water.sum()))
    assert f1 >= 0.80


def modis(shared_data: Path) -> list[tuple[SceneInfo, NDArray[Any]]]:
    files = sorted((shared_data / "timeseries/mod13q1_sinop").glob("*.jp2"))
    assert len(files) == 12
    return [from_file(p, {"ndvi": 1}, scene_id=p.stem[-10:], date=p.stem[-10:], unit="1", scale=1e-4, valid_range=(-2000, 10000),
                      fill=[FillRule(kind="outside_range", source="profile")]) for p in files]


def series(scenes: list[tuple[SceneInfo, NDArray[Any]]], op: str, params: dict[str, Any]) -> list[tuple[Any, ...]]:
    nodes: list[tuple[Any, ...]] = []
    for i, (info, _) in enumerate(scenes):
        nodes += [(f"a{i}", "asset.scene", (), {"scene": info.scene_id}),
                  (f"b{i}", "raster.product.band", [f"a{i}"], {"role": "ndvi"})]
    return [*nodes, ("out", op, [f"b{i}" for i in range(len(scenes))], params)]


def test_modis_series(shared_data: Any) -> None:
    scenes = modis(shared_data)
    o = Bench(*scenes).execute(series(scenes, "raster.summarize.series", {"statistic": "mean"}))
    assert o.result.value == pytest.approx(0.647, abs=0.001) and len(o.result.items) == 12
    wanted = []
    for _, stored in scenes:
        v = stored[(stored >= -2000) & (stored <= 10000)] * 1e-4
        wanted.append(v.mean())
    assert [i["value"] for i in o.result.items] == pytest.approx(wanted, rel=1e-12)
    lowest = Bench(*scenes).execute(series(scenes, "raster.summarize.series", {"pick": "min"}))
    assert (lowest.result.kind, lowest.result.value) == ("date", "2014-02-18")
    assert any("clouds may explain" in line.message for line in lowest.status.log)


def test_landsat_pair(shared_data: Any) -> None:
    roles = {"blue": 1, "green": 2, "red": 3, "nir": 4, "swir1": 5, "swir2": 6}
    pair = [from_file(shared_data / f"change/landsat7_p15r32_{d}.tif", roles, scene_id=d, date=d)
            for d in ("2002-07-20", "2002-11-25")]
    nodes = [("a", "asset.scene", (), {"scene": "2002-07-20"}), ("b", "asset.scene", (), {"scene": "2002-11-25"}),
             ("na", "raster.product.index", ["a"], {"index": "ndvi"}), ("nb", "raster.product.index", ["b"], {"index": "ndvi"}),
             ("d", "raster.product.difference", ["na", "nb"], {})]
    o = Bench(*pair).execute([*nodes, ("out", "raster.summarize.statistic", ["d"], {})])
    assert o.result.value == pytest.approx(-0.218, abs=0.001)
    o = Bench(*pair).execute([*nodes, ("m", "raster.product.threshold", ["d"], {"op": "<", "value": -0.2}),
                              ("out", "raster.summarize.area", ["m"], {"unit": "km2"})])
    assert o.result.value == pytest.approx(50.7, abs=0.1)


@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:3857", "EPSG:32631"])
def test_areas_agree_whatever_the_crs_of_the_copy(shared_data: Any, fishbourne: Any, crs: Any) -> None:
    nodes = [*index("ndvi"), ("m", "raster.product.threshold", ["i"], {"op": ">", "value": 0.4}),
             ("out", "raster.summarize.area", ["m"], {"unit": "m2"})]
    original = node_of(fishbourne.execute(nodes), "out")["geodesic_m2"]
    with rasterio.open(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif") as src:
        # fine enough that resampling by nearest neighbour does not move the share of any pixel much
        transform, width, height = calculate_default_transform(src.crs, crs, src.width, src.height, *src.bounds,
                                                               dst_width=src.width * 5, dst_height=src.height * 5)
        out = np.zeros((4, height, width), dtype=np.float32)
        reproject(src.read(), out, src_transform=src.transform, src_crs=src.crs, dst_transform=transform, dst_crs=crs,
                  resampling=Resampling.nearest)
    t = transform
    info = SceneInfo(scene_id="s", artifact="sha256:" + "0" * 64, name="copy.tif", dtype="float32", fill_rules=tuple(ZEROS),
                     grid=Grid(crs=crs, transform=(t.a, t.b, t.c, t.d, t.e, t.f), width=width, height=height),
                     bands=tuple(Band(index=i + 1, role=r) for i, r in enumerate(("blue", "green", "red", "nir"))))
    o = Bench((info, out)).execute(nodes)
    assert o.result.value == pytest.approx(original, rel=2e-3)
    assert node_of(o, "out")["method"] == "geodesic"


def test_region_drawn_on_the_map_equals_the_same_region_in_pixels(fishbourne: Any) -> None:
    grid = fishbourne.question.scenes[0].grid
    ring_px = [(40.2, 30.3), (200.7, 35.1), (190.4, 150.8), (60.3, 140.9), (40.2, 30.3)]
    ring = [list(map(float, grid.lonlat(*grid.xy(*p)))) for p in ring_px]
    nodes = [*index("ndvi"), ("out", "raster.summarize.statistic", ["i"], {})]
    a = fishbourne.execute(nodes, region={"type": "Polygon", "coordinates": [[list(p) for p in ring_px]]}, region_crs="image")
    b = fishbourne.execute(nodes, region={"type": "Polygon", "coordinates": [ring]})
    # a straight edge in degrees bends by less than a centimetre here
    assert abs(a.evidence.intermediate["valid_px"] - b.evidence.intermediate["valid_px"]) <= 2
    assert close(a.result.value, b.result.value, 1e-4)


def test_uncompressed_scale_counts_once_on_reflectance(shared_data: Any) -> None:
    path = shared_data / "water_flood/Spain_7370579_S2Hand.tif"
    o = Bench(from_file(path, {"blue": 2, "red": 4, "nir": 8}, unit="reflectance", scale=1e-4, nodata=0)).execute(
        [*index("evi"), ("out", "raster.summarize.statistic", ["i"], {"statistic": "median"})])
    with rasterio.open(path) as src:
        blue, red, nir = (src.read(i).astype(np.float64) * 1e-4 for i in (2, 4, 8))
    assert o.result.value == pytest.approx(float(np.median(2.5 * (nir - red) / (nir + 6 * red - 7.5 * blue + 1))), rel=1e-9)
