"""Operators beyond indices and summaries, each against a value worked out by hand, by numpy on the whole array, or by scipy."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from pyproj import Geod
from scipy import ndimage, stats
from shapely.geometry import Point, box, mapping

from apps.tools.execute.operators import OPERATORS
from apps.tools.execute.retrievals import RETRIEVALS, _planck
from apps.tools.execute.types import Plane
from tests.unit.tools.rasters import Bench, from_file, node_of, scene

RNG = np.random.default_rng(23)
GEOD = Geod(ellps="WGS84")


def value_of(bench: Bench, nodes: list[tuple[Any, ...]], statistic: str = "mean") -> Any:
    o = bench.execute([*nodes, ("out", "raster.summarize.statistic", [nodes[-1][0]], {"statistic": statistic})])
    assert o.status.state == "ok", o.status.reason
    return o.result.value


def pixels_of(bench: Bench, nodes: list[tuple[Any, ...]]) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """(data, valid) of the last node, as its layer holds them (float32)."""
    o = bench.execute(nodes)
    assert o.status.state == "ok", o.status.reason
    layer = o.result.layers[0]
    if layer.kind == "mask":
        return bench.layers.read_mask(layer)
    if layer.kind == "classes":
        data, valid, _ = bench.layers.kept[layer.artifact]
        return data, valid
    raster = bench.layers.read_raster(layer)
    return raster.data[0], raster.valid[0]


def bands(roles: dict[str, Any], unit: str = "K", **more: Any) -> tuple[Any, Any]:
    """A scene of one row with those values by role."""
    stored = np.array([np.atleast_1d(v) for v in roles.values()], dtype=np.float64)[:, None, :]
    names = [r if r in ("red", "nir", "swir1", "lst", "thermal1", "thermal2", "qa", "blue", "green") else "index" for r in roles]
    return scene(stored, names, unit=unit, **more)


S = ("s1", "asset.scene", (), {"scene": "s"})


# --- retrievals ------------------------------------------------------------------------------------------------------------
def retrieved(name: str, inputs: dict[str, Any], **coefficients: float) -> float:
    """A retrieval of single numbers, by the table's own evaluation."""
    r = RETRIEVALS[name]
    planes = {k: Plane(np.array([[float(v)]]), np.ones((1, 1), dtype=bool)) for k, v in inputs.items()}
    given = {k: coefficients.get(k, v) for k, v in r.coefficients.items()}
    plane = r.evaluate(planes, {k: float(v) for k, v in given.items() if v is not None})
    return float(plane.data[0, 0]) if plane.valid[0, 0] else math.nan


@pytest.mark.parametrize(("name", "inputs", "coefficients", "wanted"), [
    ("radiance", {"dn": 20000}, {"gain": 3.342e-4, "offset": 0.1}, 6.784),
    ("toa_reflectance", {"dn": 10000}, {"sun_elevation": 30.0}, 0.1 / 0.5),
    ("toa_reflectance_radiance", {"radiance": 100}, {"esun": 1500.0, "sun_elevation": 90.0, "distance_au": 1.0},
     math.pi * 100 / 1500),
    ("dark_object", {"reflectance": 0.12}, {"dark": 0.02}, 0.10),
    ("brightness_temperature", {"radiance": 10}, {}, 1321.0789 / math.log(774.8853 / 10 + 1)),
    ("albedo_landsat", {"blue": 0.1, "red": 0.1, "nir": 0.3, "swir1": 0.2, "swir2": 0.1}, {},
     0.0356 + 0.013 + 0.1119 + 0.017 + 0.0072 - 0.0018),
    ("emissivity_ndvi", {"ndvi": 0.1}, {}, 0.973), ("emissivity_ndvi", {"ndvi": 0.8}, {}, 0.99),
    ("emissivity_ndvi", {"ndvi": 0.35}, {}, 0.973 + 0.017 * 0.25),
    ("lst_emissivity", {"bt": 300, "emissivity": 0.97}, {}, 300 / (1 + 10.895 * 300 / 14387.768775 * math.log(0.97))),
    ("lst_ndvi", {"bt": 300, "ndvi": 0.8}, {}, 300 / (1 + 10.895 * 300 / 14387.768775 * math.log(0.99))),
    ("lst_split_window", {"t1": 295, "t2": 293, "emissivity": 0.98}, {"water_vapour": 1.5},
     295 + 1.378 * 2 + 0.183 * 4 - 0.268 + (54.30 - 2.238 * 1.5) * 0.02),
    ("lst_multi_channel", {"t1": 290, "t2": 289}, {}, 1.0346 * 290 + 2.5779 - 283.21 + 273.15),
    ("lst_three_band", {"t1": 290, "t2": 289, "t3": 288}, {"a0": 1.0, "a1": 0.5, "a2": 0.3, "a3": 0.2}, 1 + 145 + 86.7 + 57.6),
    ("day_night_mean", {"day": 310, "night": 290}, {}, 300), ("diurnal_range", {"day": 310, "night": 290}, {}, 20),
    ("thermal_inertia", {"albedo": 0.2, "day": 310, "night": 290}, {}, 0.04),
    ("evaporation_3t", {"ts": 300}, {"rn": 500, "g": 50, "rnd": 450, "gd": 60, "ta": 295, "tsd": 305}, 450 - 390 * 0.5),
    ("water_vapour_ratio", {"absorbing": 0.2, "window": 0.4}, {}, ((0.02 - math.log(0.5)) / 0.651) ** 2),
    ("turbidity", {"red": 0.05}, {}, 228.1 * 0.05 / (1 - 0.05 / 0.1641)),
    ("polarization_difference", {"tv": 260, "th": 240}, {}, 20), ("polarization_ratio", {"tv": 260, "th": 240}, {}, 0.04),
    ("frequency_difference", {"low": 250, "high": 230}, {}, 20),
    ("frequency_ratio", {"low": 250, "high": 230}, {}, -20 / 480),
    ("multi_frequency_temperature", {"t1": 250, "t2": 260, "t3": 240}, {"w1": 2.0}, 1000 / 4),
    ("snow_depth_chang", {"t18h": 250, "t37h": 230}, {}, 31.8), ("snow_depth_chang", {"t18h": 230, "t37h": 250}, {}, 0),
    ("sea_ice_nasa_team", {"t19v": 183.4, "t19h": 113.2, "t37v": 204.0}, {}, 0.0),
    ("sea_ice_nasa_team", {"t19v": 251.5, "t19h": 235.5, "t37v": 242.0}, {}, 1.0),
    ("sea_ice_nasa_team", {"t19v": (183.4 + 251.5) / 2, "t19h": (113.2 + 235.5) / 2, "t37v": (204.0 + 242.0) / 2}, {}, 0.5),
    ("fire_radiative_power", {"t4": 400}, {"background": 300}, 4.34e-19 * (400.0**8 - 300.0**8)),
    ("fire_radiative_power_radiance", {"t4": 400, "background": 300}, {}, 5.670374419e-8 / 3e-9 * 1.191042972e8 / 3.96**5 * (
        1 / (math.exp(14387.768775 / 3.96 / 400) - 1) - 1 / (math.exp(14387.768775 / 3.96 / 300) - 1))),
])
def test_retrievals_give_the_papers_figures(name: str, inputs: dict[str, Any], coefficients: dict[str, float],
                                            wanted: float) -> None:
    assert retrieved(name, inputs, **coefficients) == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def test_single_channel_returns_the_temperature_without_an_atmosphere() -> None:
    """With psi1 = 1, psi2 = psi3 = 0 and emissivity 1 the surface is as warm as it looks; w = 0 comes close to that."""
    radiance = 9.0
    bt = 1321.0789 / math.log(774.8853 / radiance + 1)
    gamma, psi = bt**2 / (1324 * radiance), (1.01523, 0.20324, -0.27514)
    wanted = gamma * (psi[0] * radiance + psi[1] + psi[2]) + bt - bt**2 / 1324
    found = retrieved("lst_single_channel", {"bt": bt, "radiance": radiance, "emissivity": 1.0}, water_vapour=0.0)
    assert found == pytest.approx(wanted)
    assert abs(wanted - bt) < 2


@pytest.mark.parametrize(("temperature", "emissivity"), [(300.0, (0.95, 0.95, 0.955, 0.97, 0.972)),
                                                         (315.0, (0.78, 0.76, 0.80, 0.94, 0.95))])
def test_separation_finds_the_temperature_of_simulated_surfaces(temperature: float, emissivity: tuple[float, ...]) -> None:
    names = ("l10", "l11", "l12", "l13", "l14")
    c = RETRIEVALS["lst_separation"].coefficients
    seen = {n: e * float(_planck(np.array(temperature), float(c[f"um_{n}"] or 0)))
            for n, e in zip(names, emissivity, strict=True)}
    assert retrieved("lst_separation", seen) == pytest.approx(temperature, abs=1.5)


def test_turbid_beyond_the_formula_is_masked() -> None:
    assert math.isnan(retrieved("turbidity", {"red": 0.2}))


def test_every_retrieval_has_a_range_units_and_a_reference() -> None:
    for r in RETRIEVALS.values():
        assert r.range.low < r.range.high and r.inputs and r.reference and r.unit
        assert r.function is not None or r.formula is not None


def test_a_retrieval_in_a_graph_checks_units_and_coefficients() -> None:
    thermal = scene(np.full((2, 2, 2), 300.0), ["thermal1", "ndvi"], unit="K")
    b = Bench(thermal)
    node = ("t", "raster.product.retrieval", ["s1"], {"name": "lst_ndvi", "inputs": {"bt": "thermal1", "ndvi": "ndvi"}})
    assert "must be in 1" in b.execute([S, node]).status.reason
    node = ("t", "raster.product.retrieval", ["s1"], {"name": "radiance", "inputs": {"dn": "thermal1"}})
    o = b.execute([S, node])
    assert o.status.needs["coefficients"] == ["gain", "offset"]
    o = b.execute([S, ("b", "raster.product.band", ["s1"], {"role": "thermal1"}),
                   ("t", "raster.product.retrieval", ["b"], {"name": "diurnal_range", "inputs": {"day": "b", "night": "b"}}),
                   ("out", "raster.summarize.statistic", ["t"], {})])
    assert o.result.value == 0.0 and o.result.unit == "K"


@pytest.mark.shared_data
def test_landsat_brightness_temperature_of_a_cloudy_scene(shared_data: Path) -> None:
    path = shared_data / "multispectral/landsat8_cloudy/l8_B10.tif"
    b = Bench(from_file(path, {"thermal1": 1}, nodata=0))
    nodes = [S, ("l", "raster.product.retrieval", ["s1"], {
        "name": "radiance", "inputs": {"dn": "thermal1"}, "coefficients": {"gain": 3.342e-4, "offset": 0.1}}),
        ("t", "raster.product.retrieval", ["l"], {"name": "brightness_temperature", "inputs": {"radiance": "l"}})]
    with rasterio.open(path) as src:
        dn = src.read(1).astype(float)
    wanted = 1321.0789 / np.log(774.8853 / (3.342e-4 * dn[dn > 0] + 0.1) + 1)
    assert value_of(b, nodes) == pytest.approx(wanted.mean(), rel=1e-12)
    assert value_of(b, nodes, "median") == pytest.approx(np.median(wanted), rel=1e-12)


# --- quality bits and classes ----------------------------------------------------------------------------------------------
def test_landsat_bits() -> None:
    stored = np.array([[[0b1000, 0b10000, 0b1000000, 0b1, 0b11000]]], dtype=np.uint16)
    b = Bench(scene(stored, ["qa"]))
    mask, _ = pixels_of(b, [S, ("m", "raster.product.qa_mask", ["s1"], {"scheme": "landsat_c2", "flags": ["cloud", "shadow"]})])
    assert mask.tolist() == [[True, True, False, False, True]]
    o = b.execute([S, ("m", "raster.product.qa_mask", ["s1"], {"scheme": "landsat_c2", "flags": ["smoke"]})])
    assert "no flag smoke" in o.status.reason


def test_scene_classes_and_confidences() -> None:
    scl = np.array([[[3, 4, 8, 9, 10, 0]]], dtype=np.uint8)
    mask, _ = pixels_of(Bench(scene(scl, ["qa"])), [S, ("m", "raster.product.qa_mask", ["s1"], {
        "scheme": "sentinel2_scl", "flags": ["cloud", "shadow"]})])
    assert mask.tolist() == [[True, False, True, True, False, False]]
    old = np.array([[[0b11 << 14, 0b10 << 14, 0b11 << 12]]], dtype=np.uint16)
    mask, _ = pixels_of(Bench(scene(old, ["qa"])), [S, ("m", "raster.product.qa_mask", ["s1"], {
        "scheme": "landsat_precollection", "flags": ["cloud"]})])
    assert mask.tolist() == [[True, False, False]]


@pytest.mark.shared_data
def test_a_cloud_mask_takes_clouds_out_of_a_mean(shared_data: Path) -> None:
    folder = shared_data / "multispectral/landsat8_cloudy"
    planes = {}
    for name in ("B4", "B5", "BQA"):
        with rasterio.open(folder / f"l8_{name}.tif") as src:
            planes[name] = src.read(1)
    b = Bench(from_file(folder / "l8_B4.tif", {"red": 1}, scene_id="r", nodata=0),
              from_file(folder / "l8_B5.tif", {"nir": 1}, scene_id="n", nodata=0),
              from_file(folder / "l8_BQA.tif", {"qa": 1}, scene_id="q"))
    nodes = [("sr", "asset.scene", (), {"scene": "r"}), ("sn", "asset.scene", (), {"scene": "n"}),
             ("sq", "asset.scene", (), {"scene": "q"}), ("red", "raster.product.band", ["sr"], {"role": "red"}),
             ("nir", "raster.product.band", ["sn"], {"role": "nir"}),
             ("ndvi", "raster.product.math", ["red", "nir"], {"expression": "(nir - red) / (nir + red)", "range": [-1, 1],
                                                             "quantity": "ndvi"}),
             ("cloud", "raster.product.qa_mask", ["sq"], {"scheme": "landsat_precollection", "flags": ["cloud"]}),
             ("clear", "raster.product.apply_mask", ["ndvi", "cloud"], {"keep": "false", "quality": "cloud"})]
    o = b.execute([*nodes, ("out", "raster.summarize.statistic", ["clear"], {})])
    red, nir, qa = planes["B4"].astype(float), planes["B5"].astype(float), planes["BQA"].astype(int)
    cloud = (qa >> 14 & 3) == 3
    keep = (red > 0) & (nir > 0) & ~cloud
    assert 0.05 < cloud.mean() < 0.95
    assert o.result.value == pytest.approx(((nir - red) / (nir + red))[keep].mean(), rel=1e-12)
    assert o.evidence.validity["quality_mask"] == ["cloud"]
    assert o.evidence.intermediate["masked"]["masked_out"] == int((cloud & (red > 0) & (nir > 0)).sum())


def test_burn_severity_classes() -> None:
    stored = np.array([[[-0.3, -0.2, 0.0, 0.1, 0.3, 0.5, 0.7]]])
    b = Bench(scene(stored, ["index"], unit="1"))
    nodes = [S, ("d", "raster.product.band", ["s1"], {"role": "index"}),
             ("c", "raster.product.classify", ["d"], {"preset": "burn_severity"})]
    data, _ = pixels_of(b, nodes)
    assert data.tolist() == [[1, 2, 3, 4, 5, 6, 7]]
    o = b.execute([*nodes, ("out", "raster.summarize.class_areas", ["c"], {"unit": "m2"})])
    assert [(i["name"], i["area"]) for i in o.result.items][3] == ("low severity", 100.0)


@pytest.mark.shared_data
def test_dnbr_is_before_less_after(shared_data: Path) -> None:
    days = ("2002-07-20", "2002-11-25")
    held = [from_file(shared_data / f"change/landsat7_p15r32_{d}.tif", {"nir": 4, "swir2": 7}, scene_id=f"s{k}", date=d)
            for k, d in enumerate(days)]
    nodes = [n for k in range(2) for n in ((f"a{k}", "asset.scene", (), {"scene": f"s{k}"}),
                                           (f"n{k}", "raster.product.index", [f"a{k}"], {"index": "nbr"}))]
    b = Bench(*held)
    nodes += [("d", "raster.product.difference", ["n0", "n1"], {"mode": "loss"}),
              ("c", "raster.product.classify", ["d"], {"preset": "burn_severity"})]
    o = b.execute([*nodes, ("out", "raster.summarize.class_areas", ["c"], {})])
    bands = [(p[3].astype(float), p[6].astype(float)) for _, p in held]
    nbr = [(n - s) / np.where(n + s == 0, np.nan, n + s) for n, s in bands]
    # a loss of a tenth is one, and not the hair less that 64 bits make of it
    loss = np.round((nbr[0] - nbr[1])[np.isfinite(nbr[0] - nbr[1])], 12)
    wanted = np.bincount(np.digitize(loss, [-0.25, -0.1, 0.1, 0.27, 0.44, 0.66]) + 1, minlength=8)
    assert {i["class"]: i["n_px"] for i in o.result.items} == {k: int(n) for k, n in enumerate(wanted) if n}
    wrong = b.execute([*nodes[:-2], ("d", "raster.product.difference", ["n0", "n1"], {}),
                       ("c", "raster.product.classify", ["d"], {"preset": "burn_severity"})])
    assert wrong.status.state == "failed" and "before − after" in wrong.status.reason
    other = b.execute([*nodes[:-2], ("c", "raster.product.classify", ["n0"], {"preset": "ndvi_cover"})])
    assert "those of ndvi" in other.status.reason


def test_vegetation_cover_fixed_and_by_percentiles() -> None:
    ndvi = np.linspace(0, 1, 101)[None, None]
    b = Bench(scene(ndvi, ["ndvi"], unit="1"))
    band = ("n", "raster.product.band", ["s1"], {"role": "ndvi"})
    data, _ = pixels_of(b, [S, band, ("f", "raster.product.vegetation_cover", ["n"], {})])
    assert data[0] == pytest.approx(np.clip((ndvi[0, 0] - 0.05) / 0.9, 0, 1), abs=1e-6)
    o = b.execute([S, band, ("f", "raster.product.vegetation_cover", ["n"], {"soil": "percentile", "full": "percentile"})])
    assert node_of(o, "f")["soil"] == pytest.approx(0.05) and node_of(o, "f")["full"] == pytest.approx(0.95)


def test_dryness_is_found_again_between_known_edges() -> None:
    x = RNG.uniform(0.2, 1, 20_000)
    t = RNG.uniform(0, 1, 20_000)
    t[:4000], t[4000:8000] = 0, 1
    dry, wet = 330 - 30 * x, 290 + 2 * x
    ndvi, lst = scene(x.reshape(1, 100, 200), ["ndvi"], unit="1", scene_id="n"), scene(
        (wet + t * (dry - wet)).reshape(1, 100, 200), ["lst"], unit="K", scene_id="t")
    nodes = [("sn", "asset.scene", (), {"scene": "n"}), ("st", "asset.scene", (), {"scene": "t"}),
             ("n", "raster.product.band", ["sn"], {"role": "ndvi"}), ("t", "raster.product.band", ["st"], {"role": "lst"}),
             ("d", "raster.product.tvdi", ["n", "t"], {})]
    data, valid = pixels_of(Bench(ndvi, lst), nodes)
    assert valid.all() and np.abs(data.ravel() - t).max() < 0.03


# --- terrain and neighbourhoods --------------------------------------------------------------------------------------------
def heights(data: NDArray[np.float64], **more: Any) -> Bench:
    return Bench(scene(data[None], ["elevation"], unit="m", **more), window_px=256)


ELEVATION = [S, ("z", "raster.product.band", ["s1"], {"role": "elevation"})]


@pytest.mark.parametrize(("dx", "dy", "aspect"), [(0.1, 0.0, 270.0), (-0.1, 0.0, 90.0), (0.0, 0.2, 0.0), (0.0, -0.2, 180.0),
                                                 (0.1, 0.1, 315.0)])
def test_slope_and_aspect_of_a_plane(dx: float, dy: float, aspect: float) -> None:
    rows, cols = np.mgrid[:300, :280]
    b = heights(100 + dx * cols * 10 + dy * rows * 10 + 0.0)  # dy: rising to the south
    slope, valid = pixels_of(b, [*ELEVATION, ("t", "raster.product.terrain", ["z"], {"product": "slope"})])
    assert valid[1:-1, 1:-1].all() and not valid[0].any() and not valid[:, -1].any()
    assert slope[1:-1, 1:-1] == pytest.approx(math.degrees(math.atan(math.hypot(dx, dy))), abs=1e-4)
    found, valid = pixels_of(b, [*ELEVATION, ("t", "raster.product.terrain", ["z"], {"product": "aspect"})])
    # 0 and 360 are one direction
    assert np.abs((found[valid] - aspect + 180) % 360 - 180).max() < 1e-3


def test_hillshade_of_a_plane_that_faces_the_sun() -> None:
    _, cols = np.mgrid[:20, :20]
    b = heights(1000 - cols * 10.0)  # falls to the east by 45 degrees
    shade, valid = pixels_of(b, [*ELEVATION, ("t", "raster.product.terrain", ["z"], {
        "product": "hillshade", "azimuth": 90.0, "altitude": 45.0})])
    assert shade[valid] == pytest.approx(1.0, abs=1e-6)
    flat = value_of(heights(np.full((9, 9), 5.0)), [*ELEVATION, ("t", "raster.product.terrain", ["z"], {
        "product": "hillshade", "altitude": 30.0})])
    assert flat == pytest.approx(0.5)


def test_slope_on_a_geographic_grid_uses_metres() -> None:
    rows, _ = np.mgrid[:50, :50]
    b = heights(rows * 1.0, crs="EPSG:4326", pixel=0.001, origin=(10.0, 60.0))
    slope, valid = pixels_of(b, [*ELEVATION, ("t", "raster.product.terrain", ["z"], {"product": "slope"})])
    step = GEOD.inv(10, 59.975, 10, 59.974)[2]
    assert slope[valid] == pytest.approx(math.degrees(math.atan(1 / step)), rel=1e-4)


def test_terrain_needs_metres() -> None:
    o = Bench(scene(np.ones((1, 5, 5)), ["elevation"], unit="DN")).execute(
        [*ELEVATION, ("t", "raster.product.terrain", ["z"], {})])
    assert o.status.needs["unit"] == "m"


@pytest.mark.parametrize("product", ["relief", "tpi", "tri", "roughness"])
def test_relief_measures_agree_with_a_plain_loop(product: str) -> None:
    z = RNG.normal(500, 50, (300, 270))
    data, valid = pixels_of(heights(z), [*ELEVATION, ("t", "raster.product.terrain", ["z"], {"product": product})])
    assert valid.sum() == 298 * 268
    for r, c in [(1, 1), (255, 256), (256, 255), (298, 268), (100, 40)]:
        block = z[r - 1:r + 2, c - 1:c + 2]
        around = np.delete(block.ravel(), 4)
        wanted = {"relief": np.ptp(block), "roughness": np.ptp(block), "tpi": z[r, c] - around.mean(),
                  "tri": np.abs(around - z[r, c]).mean()}[product]
        assert data[r, c] == pytest.approx(wanted, rel=1e-4)


@pytest.mark.parametrize("statistic", ["mean", "std", "min", "max", "range", "median"])
def test_focal_statistics_agree_with_numpy_and_do_not_see_windows(statistic: str) -> None:
    z = RNG.normal(300, 5, (280, 300))
    z[100:104, 200:260] = -9999
    wanted: Any = {"mean": np.nanmean, "std": np.nanstd, "min": np.nanmin, "max": np.nanmax, "median": np.nanmedian,
              "range": lambda x: np.nanmax(x) - np.nanmin(x)}[statistic]
    nodes = [S, ("z", "raster.product.band", ["s1"], {"role": "lst"}),
             ("f", "raster.product.focal", ["z"], {"statistic": statistic, "size": 5})]
    found = []
    for window in (256, 1024):
        b = Bench(scene(z[None], ["lst"], unit="K", nodata=-9999), window_px=window)
        data, valid = pixels_of(b, nodes)
        found.append(value_of(b, nodes, "mean"))
    masked = np.where(z == -9999, np.nan, z)
    assert valid.sum() == np.isfinite(masked).sum()
    for r, c in [(0, 0), (99, 210), (104, 259), (255, 255), (256, 256), (279, 299)]:
        block = masked[max(0, r - 2):r + 3, max(0, c - 2):c + 3]
        assert data[r, c] == pytest.approx(wanted(block), rel=1e-5)
    assert found[0] == found[1]


def test_hot_spots_agree_with_the_formula() -> None:
    z = RNG.normal(0, 1, (40, 50))
    z[10:15, 10:15] += 5
    b = Bench(scene(z[None], ["index"], unit="DN"))
    nodes = [S, ("z", "raster.product.band", ["s1"], {"role": "index"}), ("g", "raster.product.getis_ord", ["z"], {"size": 3})]
    data, _ = pixels_of(b, nodes)
    n, mean, std = z.size, z.mean(), z.std()
    for r, c in [(0, 0), (12, 12), (30, 20), (39, 49)]:
        block = z[max(0, r - 1):r + 2, max(0, c - 1):c + 2]
        w = block.size
        assert data[r, c] == pytest.approx((block.sum() - mean * w) / (std * math.sqrt((n * w - w * w) / (n - 1))), rel=1e-5)
    assert data[12, 12] > 1.96


# --- dates and bands -------------------------------------------------------------------------------------------------------
DAYS = ["2020-01-01", "2020-07-01", "2021-01-01", "2021-07-01", "2022-01-01", "2022-07-01"]
STACK = RNG.normal(0.5, 0.1, (6, 30, 40))
HOLES = STACK.copy()
HOLES[RNG.random(HOLES.shape) < 0.2] = -1


def dated(stack: NDArray[np.float64] = HOLES) -> tuple[Bench, list[tuple[Any, ...]], list[str]]:
    scenes = [scene(plane[None], ["ndvi"], unit="1", scene_id=f"s{i}", date=d, nodata=-1)
              for i, (plane, d) in enumerate(zip(stack, DAYS, strict=True))]
    nodes: list[tuple[Any, ...]] = []
    for i in range(len(scenes)):
        nodes += [(f"a{i}", "asset.scene", (), {"scene": f"s{i}"}),
                  (f"b{i}", "raster.product.band", [f"a{i}"], {"role": "ndvi"})]
    return Bench(*scenes), nodes, [f"b{i}" for i in range(len(scenes))]


@pytest.mark.parametrize(("method", "wanted"), [
    ("median", np.nanmedian), ("mean", np.nanmean), ("min", np.nanmin), ("max", np.nanmax), ("std", np.nanstd),
    ("sum", np.nansum), ("percentile", lambda x, axis: np.nanpercentile(x, 30, axis=axis)),
])
def test_composites_agree_with_numpy(method: str, wanted: Any) -> None:
    b, nodes, names = dated()
    data, valid = pixels_of(b, [*nodes, ("c", "raster.product.composite", names, {"method": method, "percentile": 30})])
    masked = np.where(HOLES == -1, np.nan, HOLES)
    # of one value there is no deviation
    assert np.array_equal(valid, np.isfinite(masked).sum(axis=0) >= (2 if method == "std" else 1))
    assert data[valid] == pytest.approx(wanted(masked, axis=0)[valid], rel=1e-5)


def test_greenest_pixel_takes_the_value_of_the_greatest_criterion() -> None:
    b, nodes, names = dated()
    data, valid = pixels_of(b, [*nodes, ("c", "raster.product.best_pixel", [*names, *names], {"pick": "max"})])
    assert data[valid] == pytest.approx(np.nanmax(np.where(HOLES == -1, np.nan, HOLES), axis=0)[valid], rel=1e-6)


@pytest.mark.parametrize("mode", ["difference", "zscore", "percent"])
def test_anomalies_agree_with_numpy(mode: str) -> None:
    b, nodes, names = dated(STACK)
    data, valid = pixels_of(b, [*nodes, ("c", "raster.product.anomaly", [names[-1], *names[:-1]], {"mode": mode})])
    past, now = STACK[:-1], STACK[-1]
    wanted = {"difference": now - past.mean(0), "zscore": (now - past.mean(0)) / past.std(0, ddof=1),
              "percent": 100 * (now - past.mean(0)) / past.mean(0)}[mode]
    assert valid.all() and data == pytest.approx(wanted, rel=1e-4, abs=1e-5)


def test_trend_of_each_pixel_agrees_with_scipy() -> None:
    b, nodes, names = dated(STACK)
    days = [np.datetime64(d) for d in DAYS]
    x = np.array([float((d - days[0]) / np.timedelta64(1, "D")) / 365.25 for d in days])
    fit = stats.linregress(x, STACK[:, 3, 7])
    for output, wanted in (("slope", fit.slope), ("p_value", fit.pvalue), ("r2", fit.rvalue**2)):
        data, _ = pixels_of(b, [*nodes, ("c", "raster.product.pixel_trend", names, {"output": output})])
        assert data[3, 7] == pytest.approx(wanted, rel=1e-5)


def test_principal_components_agree_with_numpy() -> None:
    mixed = np.stack([STACK[0], STACK[0] * 2 + STACK[1] * 0.3, STACK[2] - STACK[0]])
    b = Bench(*(scene(p[None], ["index"], unit="DN", scene_id=f"s{i}") for i, p in enumerate(mixed)))
    nodes = [n for i in range(3) for n in ((f"a{i}", "asset.scene", (), {"scene": f"s{i}"}),
                                           (f"b{i}", "raster.product.band", [f"a{i}"], {"role": "index"}))]
    o = b.execute([*nodes, ("p", "raster.product.pca", ["b0", "b1", "b2"], {"component": 1}),
                   ("out", "raster.summarize.statistic", ["p"], {"statistic": "variance"})])
    assert (o.status.state == "failed" and "different quantities" not in o.status.reason) or o.status.state == "ok"
    values = np.linalg.eigvalsh(np.cov(mixed.reshape(3, -1), bias=True))[::-1]
    assert o.result.value == pytest.approx(values[0], rel=1e-9)
    assert node_of(o, "p")["explained"] == pytest.approx(list(values / values.sum()))


def test_pansharpening_keeps_the_colour_and_takes_the_grain() -> None:
    coarse = RNG.uniform(100, 200, (3, 20, 20))
    pan = np.kron(coarse.mean(axis=0), np.ones((2, 2))) * RNG.uniform(0.9, 1.1, (40, 40))
    scenes = [scene(p[None], [r], scene_id=r, pixel=20.0) for p, r in zip(coarse, ("red", "green", "blue"), strict=True)]
    b = Bench(*scenes, scene(pan[None], ["pan"], scene_id="pan", pixel=10.0))
    nodes = [n for r in ("red", "green", "blue", "pan") for n in ((f"s{r}", "asset.scene", (), {"scene": r}),
                                                                 (r, "raster.product.band", [f"s{r}"], {"role": r}))]
    found = [pixels_of(b, [*nodes, ("p", "raster.product.pansharpen", [r, *(x for x in ("red", "green", "blue") if x != r),
                                                                      "pan"], {})]) for r in ("red", "green", "blue")]
    assert found[0][0].shape == (40, 40) and all(v.all() for _, v in found)
    assert np.mean([d for d, _ in found], axis=0) == pytest.approx(pan, rel=1e-5)  # Brovey: the bands' mean becomes the pan band


# --- zones, tables, values -------------------------------------------------------------------------------------------------
def test_threshold_at_a_percentile() -> None:
    z = RNG.normal(0, 1, (300, 300))
    b = Bench(scene(z[None], ["index"], unit="DN"))
    o = b.execute([S, ("z", "raster.product.band", ["s1"], {"role": "index"}),
                   ("m", "raster.product.threshold", ["z"], {"value": "percentile", "percentile": 75}),
                   ("out", "raster.summarize.share", ["m"], {})])
    assert o.result.value == pytest.approx((z > np.percentile(z, 75)).mean())
    assert node_of(o, "m")["threshold"] == pytest.approx(np.percentile(z, 75))


def test_dates_above_a_limit_are_counted_and_averaged() -> None:
    b, nodes, names = dated(STACK)
    means = STACK.mean(axis=(1, 2))
    limit = float(np.sort(means)[3]) + 1e-9
    for over, params, wanted in (("count_above", {"limit": limit}, 2),
                                 ("mean_above", {"limit": limit}, np.sort(means)[4:].mean()),
                                 ("count_above", {"limit": 1.0, "limit_is": "times_mean"}, (means > means.mean()).sum())):
        o = b.execute([*nodes, ("out", "raster.summarize.series", names, {"over": over, **params})])
        assert o.result.value == pytest.approx(wanted), o.status.reason


def test_zonal_statistics_agree_with_masks_made_by_hand() -> None:
    z = RNG.normal(10, 2, (60, 80))
    b = Bench(scene(z[None], ["index"], unit="DN"))
    zones = {"type": "FeatureCollection", "features": [
        {"type": "Feature", "geometry": mapping(box(5.2, 5.2, 30.7, 20.7)), "properties": {"name": "west"}},
        {"type": "Feature", "geometry": mapping(box(40.2, 5.2, 70.7, 50.7)), "properties": {"name": "east"}},
        {"type": "Feature", "geometry": mapping(box(200, 200, 210, 210)), "properties": {"name": "away"}}]}
    nodes = [S, ("z", "raster.product.band", ["s1"], {"role": "index"}),
             ("v", "vector.zones", (), {"geojson": zones, "crs": "image"})]
    o = b.execute([*nodes, ("out", "raster.summarize.zonal", ["z", "v"], {"statistic": "median"})])
    west, east = z[5:21, 5:31], z[5:51, 40:71]
    assert [i["zone"] for i in o.result.items] == ["west", "east", "away"]
    assert o.result.items[0]["value"] == pytest.approx(np.median(west)) and o.result.items[0]["n_valid"] == west.size
    assert o.result.items[1]["value"] == pytest.approx(np.median(east)) and o.result.items[2]["value"] is None
    assert any("away" in line.message for line in o.status.log)
    o = b.execute([*nodes, ("out", "raster.summarize.zonal", ["z", "v"], {"statistic": "max", "pick": "max"})])
    assert o.result.value == ("west" if west.max() > east.max() else "east")
    o = b.execute([*nodes[:2], ("m", "raster.product.threshold", ["z"], {"value": 10}), nodes[2],
                   ("out", "raster.summarize.zonal", ["m", "v"], {"statistic": "area", "unit": "ha"})])
    assert o.result.items[0]["value"] == pytest.approx((west > 10).sum() / 100)


def test_a_buffer_about_a_point_is_a_circle_in_metres() -> None:
    b = Bench(scene(np.ones((1, 400, 400)), ["index"], unit="DN", crs="EPSG:4326", pixel=0.0005, origin=(10.0, 60.0)))
    point = mapping(Point(10.1, 59.9))
    o = b.execute([S, ("z", "raster.product.band", ["s1"], {"role": "index"}),
                   ("m", "raster.product.threshold", ["z"], {"value": 0.5}),
                   ("v", "vector.zones", (), {"geojson": point, "buffer_m": 3000.0}),
                   ("out", "raster.summarize.zonal", ["m", "v"], {"statistic": "area", "unit": "km2"})])
    assert o.result.value == pytest.approx(math.pi * 9, rel=2e-3)


def test_a_histogram_and_its_fullest_bin() -> None:
    z = np.array([[[0, 1, 1, 1, 2, 9.99]]])
    o = Bench(scene(z, ["index"], unit="DN")).execute(
        [S, ("z", "raster.product.band", ["s1"], {"role": "index"}),
         ("out", "raster.summarize.histogram", ["z"], {"bins": 10, "low": 0, "high": 10})])
    assert [i["n"] for i in o.result.items] == [1, 3, 1, 0, 0, 0, 0, 0, 0, 1] and o.result.value == 1.5


def test_agreement_of_rasters_and_masks() -> None:
    x, y = STACK[0], 0.4 * STACK[0] + 0.1 * STACK[1]
    b = Bench(scene(x[None], ["index"], unit="DN", scene_id="x"), scene(y[None], ["index"], unit="DN", scene_id="y"))
    nodes = [("sx", "asset.scene", (), {"scene": "x"}), ("sy", "asset.scene", (), {"scene": "y"}),
             ("x", "raster.product.band", ["sx"], {"role": "index"}), ("y", "raster.product.band", ["sy"], {"role": "index"})]
    for measure, wanted in (("correlation", np.corrcoef(x.ravel(), y.ravel())[0, 1]), ("rmse", math.sqrt(((y - x) ** 2).mean())),
                            ("mae", np.abs(y - x).mean()), ("bias", (y - x).mean()),
                            ("slope", stats.linregress(x.ravel(), y.ravel()).slope)):
        o = b.execute([*nodes, ("out", "raster.summarize.agreement", ["x", "y"], {"measure": measure})])
        assert o.result.value == pytest.approx(wanted, rel=1e-9), measure
    masks = [("mx", "raster.product.threshold", ["x"], {"value": 0.5}),
             ("my", "raster.product.threshold", ["y"], {"value": 0.25})]
    one, other = x > 0.5, y > 0.25
    for measure, wanted in (("iou", (one & other).sum() / (one | other).sum()),
                            ("f1", 2 * (one & other).sum() / (one.sum() + other.sum()))):
        o = b.execute([*nodes, *masks, ("out", "raster.summarize.agreement", ["mx", "my"], {"measure": measure})])
        assert o.result.value == pytest.approx(wanted, rel=1e-12)


def test_the_direction_in_which_a_hot_spot_lies() -> None:
    z = np.zeros((1, 100, 100))
    z[0, 10:14, 80:84] = 1
    o = Bench(scene(z, ["index"], unit="DN")).execute(
        [S, ("z", "raster.product.band", ["s1"], {"role": "index"}), ("m", "raster.product.threshold", ["z"], {"value": 0.5}),
         ("out", "raster.summarize.centroid", ["m"], {})])
    assert o.result.value == "north-east"
    assert o.result.items[0]["column"] == 82 and o.result.items[0]["row"] == 12
    assert o.result.items[0]["distance_m"] == pytest.approx(math.hypot(320, 380), rel=1e-3)


def series_bench(values: list[float]) -> tuple[Bench, list[tuple[Any, ...]], list[str]]:
    start = np.datetime64("2020-01-01")
    scenes = [scene(np.full((1, 2, 2), v), ["ndvi"], unit="1", scene_id=f"s{i}", date=str(start + np.timedelta64(16 * i, "D")))
              for i, v in enumerate(values)]
    nodes = [n for i in range(len(values)) for n in ((f"a{i}", "asset.scene", (), {"scene": f"s{i}"}),
                                                    (f"b{i}", "raster.product.band", [f"a{i}"], {"role": "ndvi"}))]
    return Bench(*scenes), nodes, [f"b{i}" for i in range(len(values))]


def analysis(values: list[float], name: str, **params: Any) -> Any:
    b, nodes, names = series_bench(values)
    return b.execute([*nodes, ("out", "raster.summarize.series_analysis", names, {"analysis": name, **params})])


def test_mann_kendall_and_sen_agree_with_scipy() -> None:
    y = [0.2, 0.25, 0.22, 0.3, 0.31, 0.31, 0.4, 0.38, 0.45, 0.5]
    o = analysis(y, "mann_kendall")
    assert node_of(o, "out")["s"] == sum(np.sign(y[j] - y[i]) for i in range(10) for j in range(i + 1, 10))
    assert node_of(o, "out")["p_value"] == pytest.approx(stats.kendalltau(np.arange(10), y, method="asymptotic").pvalue, abs=2e-3)
    assert analysis(y, "sen").result.value == pytest.approx(stats.theilslopes(y).slope)


def test_season_autocorrelation_change_and_spikes() -> None:
    t = np.arange(46)
    wave = (0.5 + 0.2 * np.sin(2 * np.pi * t / 23)).tolist()
    o = analysis(wave, "seasonality")
    assert node_of(o, "out")["period"] == 23 and o.result.value > 0.8
    d = np.array(wave) - np.mean(wave)
    assert analysis(wave, "autocorrelation", lag=5).result.value == pytest.approx((d[:-5] * d[5:]).sum() / (d * d).sum())
    step = [0.3 + 0.01 * (-1) ** i for i in range(12)] + [0.6 + 0.01 * (-1) ** i for i in range(10)]
    o = analysis(step, "change_point")
    assert o.result.kind == "date" and o.result.value == str(np.datetime64("2020-01-01") + np.timedelta64(16 * 12, "D"))
    assert node_of(o, "out")["p_value"] < 0.01
    spiky = (0.5 + RNG.normal(0, 0.01, 30)).tolist()
    spiky[7], spiky[20] = 0.1, 0.9
    o = analysis(spiky, "spikes", factor=6.0)
    assert o.result.value == 2 and [i for i, item in enumerate(o.result.items) if item["spike"]] == [7, 20]


def test_stl_parts_season_and_trend() -> None:
    pytest.importorskip("statsmodels")
    t = np.arange(48)
    y = (0.4 + 0.002 * t + 0.1 * np.sin(2 * np.pi * t / 12)).tolist()
    o = analysis(y, "stl", period=12)
    assert o.result.value > 0.98
    slopes = np.diff([i["trend"] for i in o.result.items])
    assert np.median(slopes) == pytest.approx(0.002, rel=0.05)
    assert "two seasons" in analysis(y[:20], "stl", period=12).status.reason


def test_values_are_calculated_from_values() -> None:
    z = np.array([[[1.0, 2.0, 3.0, 4.0]]])
    b = Bench(scene(z, ["index"], unit="DN"))
    nodes = [S, ("z", "raster.product.band", ["s1"], {"role": "index"}),
             ("hi", "raster.summarize.statistic", ["z"], {"statistic": "max"}),
             ("lo", "raster.summarize.statistic", ["z"], {"statistic": "min"})]
    o = b.execute([*nodes, ("out", "value.calculate", ["hi", "lo"], {"expression": "100 * (hi - lo) / lo", "unit": "%"})])
    assert o.result.value == 300.0 and o.result.unit == "%"
    o = b.execute([*nodes, ("out", "value.calculate", ["hi", "lo"], {"expression": "hi / (lo - 1)"})])
    assert o.status.state == "failed" and "undefined" in o.status.reason


@pytest.mark.parametrize("node", [
    ("raster.product.focal", {"statistic": "std", "size": 7}), ("raster.product.getis_ord", {"size": 5}),
    ("raster.product.threshold", {"value": "otsu"}), ("raster.product.classify", {"breaks": [0.4, 0.6]}),
    ("raster.product.vegetation_cover", {"soil": "percentile"}),
])
def test_no_operator_shows_the_windows_it_was_read_in(node: tuple[str, dict[str, Any]]) -> None:
    stored = ndimage.gaussian_filter(RNG.normal(0.5, 0.4, (600, 520)), 2)[None]
    found = set()
    for window in (256, 512, 1024):
        b = Bench(scene(stored, ["ndvi"], unit="1"), window_px=window, threads=2)
        nodes = [S, ("z", "raster.product.band", ["s1"], {"role": "ndvi"}), ("x", node[0], ["z"], node[1])]
        o = b.execute([*nodes, ("out", "raster.summarize.statistic", ["x"], {"statistic": "max"})])
        p = b.execute(nodes)
        assert o.status.state == p.status.state == "ok", o.status.reason or p.status.reason
        figures = node_of(p, "x")
        found.add((o.result.value, figures["mean"], figures["n_valid"], p.result.layers[0].artifact))
    assert len(found) == 1


def test_every_operator_declares_range_nodata_and_parameters() -> None:
    names = [name for name, _ in OPERATORS.items()]
    assert len(names) == len(set(names)) >= 40
    for _, o in OPERATORS.items():
        assert o.range and o.nodata and o.summary and o.params.model_json_schema()
    assert all(a < b for a, b in pairwise(sorted(names)))
