"""Inputs that are not what they seem: each gives the right value or a clear refusal, never a wrong number that looks right."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.core.geo.grid import Grid
from apps.imagery.readers import open_scene
from tests.unit.tools.rasters import Bench, from_file, node_of, scene

S = ("s1", "asset.scene", (), {"scene": "s"})
NDVI = [S, ("i", "raster.product.index", ["s1"], {"index": "ndvi"})]
MEAN: tuple[Any, ...] = ("out", "raster.summarize.statistic", ["i"], {})
RNG = np.random.default_rng(31)


def pair(**more: Any) -> Any:
    return scene(RNG.integers(1, 200, (2, 40, 50)).astype(np.uint8), ["red", "nir"], **more)


def test_nan_and_infinities_are_masked() -> None:
    stored = np.array([[[0.1, np.nan, 0.2, np.inf]], [[0.3, 0.4, 0.6, 0.5]]])
    o = Bench(scene(stored, ["red", "nir"], unit="reflectance")).execute([*NDVI, MEAN])
    assert o.result.value == pytest.approx((0.5 + 0.5) / 2) and o.evidence.intermediate["valid_px"] == 2


def test_unsigned_numbers_do_not_wrap() -> None:
    stored = np.array([[[200]], [[100]]], dtype=np.uint8)
    o = Bench(scene(stored, ["red", "nir"])).execute([*NDVI, MEAN])
    assert o.result.value == pytest.approx(-100 / 300)


def test_one_pixel() -> None:
    stored = np.array([[[50]], [[150]]], dtype=np.uint8)
    b = Bench(scene(stored, ["red", "nir"]))
    assert b.execute([*NDVI, MEAN]).result.value == 0.5
    o = b.execute([*NDVI, ("out", "raster.summarize.statistic", ["i"], {"statistic": "std", "ddof": 1})])
    assert o.status.state == "failed" and "undefined" in o.status.reason
    o = b.execute([*NDVI, ("m", "raster.product.threshold", ["i"], {"value": 0.2}), ("out", "raster.summarize.area", ["m"], {})])
    assert o.result.value == 100.0


def test_a_rotated_grid_has_the_area_of_its_pixels() -> None:
    info, stored = pair()
    angle = np.radians(30)
    a, b = 10 * np.cos(angle), 10 * np.sin(angle)
    turned = info.model_copy(update={"grid": Grid(crs="EPSG:32630", transform=(a, b, 6e5, b, -a, 5.6e6), width=50, height=40)})
    o = Bench((turned, stored)).execute([*NDVI, ("m", "raster.product.threshold", ["i"], {"value": -0.99}),
                                         ("out", "raster.summarize.area", ["m"], {})])
    assert o.result.value == pytest.approx(node_of(o, "m")["n_true"] * 100)
    assert node_of(o, "out")["geodesic_m2"] == pytest.approx(o.result.value, rel=1e-3)


def test_mixed_crs_and_resolution_are_not_subtracted_unasked() -> None:
    one, two = pair(scene_id="a"), pair(scene_id="b", crs="EPSG:4326", pixel=0.0001, origin=(-1.57, 50.53))
    coarse = pair(scene_id="c", pixel=20.0)
    nodes = [n for i in "abc" for n in ((f"s{i}", "asset.scene", (), {"scene": i}),
                                        (f"n{i}", "raster.product.index", [f"s{i}"], {"index": "ndvi"}))]
    for other in ("nb", "nc"):
        o = Bench(one, two, coarse).execute([*nodes, ("d", "raster.product.difference", ["na", other], {})])
        assert o.status.state == "failed" and "different grids" in o.status.reason and o.status.needs["resample"] is True


def test_different_units_are_not_mixed() -> None:
    info, stored = pair()
    bands = (info.bands[0], info.bands[1].model_copy(update={"unit": "reflectance", "scale": 1e-4}))
    o = Bench((info.model_copy(update={"bands": bands}), stored)).execute([*NDVI, MEAN])
    assert o.status.state == "failed" and "different units" in o.status.reason


def test_complex_samples_are_not_quietly_made_real() -> None:
    stored = np.array([[[3 + 4j, 0 + 0j, 1j]]], dtype=np.complex64)
    b = Bench(scene(stored, ["vv"]))
    o = b.execute([S, ("x", "raster.product.band", ["s1"], {"role": "vv"})])
    assert o.status.state == "failed" and "complex" in o.status.reason
    nodes = [S, ("x", "raster.product.amplitude", ["s1"], {"role": "vv"})]
    o = b.execute([*nodes, ("out", "raster.summarize.statistic", ["x"], {"statistic": "max"})])
    assert o.result.value == pytest.approx(5.0)
    o = b.execute([S, ("x", "raster.product.amplitude", ["s1"], {"role": "vv", "scale": "dB"}),
                   ("out", "raster.summarize.statistic", ["x"], {"statistic": "max"})])
    assert o.result.value == pytest.approx(10 * np.log10(25)) and o.evidence.intermediate["valid_px"] == 2


@pytest.mark.parametrize("dtype", [np.float32, np.uint16])
@pytest.mark.parametrize("said", [{"is_amplitude": True}, {"unit": "amplitude"}])
def test_known_amplitudes_become_power_and_decibels(dtype: Any, said: dict[str, Any]) -> None:
    """20 log10 of the amplitude and its square, also of whole numbers whose square their type does not hold."""
    stored = RNG.gamma(2.0, 900, (1, 40, 50)).astype(dtype)
    stored[0, :2, :5], stored[0, 5, :4] = 0, 60000
    info, planes = scene(stored, ["vv"], nodata=None)
    info = info.model_copy(update={"bands": (info.bands[0].model_copy(update=said),)})
    b = Bench((info, planes))
    a = stored[0].astype(float)
    seen = a > 0

    def value(scale: str, statistic: str) -> Any:
        return b.execute([S, ("x", "raster.product.amplitude", ["s1"], {"role": "vv", "scale": scale}),
                          ("out", "raster.summarize.statistic", ["x"], {"statistic": statistic})])

    assert value("amplitude", "mean").result.value == pytest.approx(a.mean(), rel=1e-12)
    power = value("power", "mean")
    assert power.result.value == pytest.approx((a * a).mean(), rel=1e-12)
    level = value("dB", "median")
    assert level.result.value == pytest.approx(float(np.median(20 * np.log10(a[seen]))), rel=1e-9)
    assert level.evidence.intermediate["valid_px"] == int(seen.sum()) == 2000 - 10
    assert level.result.unit == "dB"
    for o in (power, level):
        assert any("uncalibrated amplitudes, no backscatter coefficient" in line.message for line in o.status.log)


@pytest.mark.parametrize("unit", ["DN", "dB", "1", "reflectance"])
def test_real_samples_of_which_nobody_says_what_they_are_give_no_power(unit: str) -> None:
    b = Bench(scene(RNG.random((1, 8, 8)), ["vv"], unit=unit))
    o = b.execute([S, ("x", "raster.product.amplitude", ["s1"], {"role": "vv", "scale": "dB"}),
                   ("out", "raster.summarize.statistic", ["x"], {"statistic": "max"})])
    assert o.status.state == "failed" and o.status.needs["unit"] == "amplitude"
    assert "nothing says that they are amplitudes" in o.status.reason


def test_the_scale_of_complex_samples_enters_their_amplitude_and_an_offset_is_refused() -> None:
    z = np.array([[[3 + 4j, 6 - 8j, 1j]]], dtype=np.complex64)
    info, planes = scene(z, ["vv"])
    graph = [S, ("x", "raster.product.amplitude", ["s1"], {"role": "vv", "scale": "power"}),
             ("out", "raster.summarize.statistic", ["x"], {"statistic": "max"})]
    scaled = info.model_copy(update={"bands": (info.bands[0].model_copy(update={"scale": -0.5}),)})
    assert Bench((scaled, planes)).execute(graph).result.value == pytest.approx(np.abs(-0.5 * (6 - 8j)) ** 2)
    moved = info.model_copy(update={"bands": (info.bands[0].model_copy(update={"offset": 1.0}),)})
    o = Bench((moved, planes)).execute(graph)
    assert o.status.state == "failed" and "belongs inside the amplitude" in o.status.reason


@pytest.mark.parametrize(("ring", "part"), [
    ([[170, -10], [-170, -10], [-170, 10], [170, 10], [170, -10]], "antimeridian"),
    ([[50.7, -131.5], [50.8, -131.5], [50.8, -131.4], [50.7, -131.5]], "latitudes beyond 90"),
    ([[float("nan"), 1], [2, 1], [2, 2], [1, 2]], "finite"),
])
def test_odd_regions_are_refused(ring: list[Any], part: str) -> None:
    o = Bench(pair()).execute([*NDVI, MEAN], region={"type": "Polygon", "coordinates": [ring]})
    assert o.status.state == "failed" and part in o.status.reason


def test_degrees_are_never_metres() -> None:
    b = Bench(pair(crs="EPSG:4326", pixel=0.001, origin=(10.0, 60.0)))
    o = b.execute([*NDVI, ("m", "raster.product.threshold", ["i"], {"value": -0.999}),
                   ("out", "raster.summarize.area", ["m"], {})])
    per_pixel = o.result.value / node_of(o, "m")["n_true"]
    assert 6000 < per_pixel < 6400  # 0.001° × 0.001° at 60° north is about 55.8 m × 111.4 m


def test_web_mercator_metres_are_not_metres_of_the_ground() -> None:
    b = Bench(pair(crs="EPSG:3857", pixel=10.0, origin=(1113194.9, 8399737.9)))
    o = b.execute([*NDVI, ("m", "raster.product.threshold", ["i"], {"value": -0.999}),
                   ("out", "raster.summarize.area", ["m"], {})])
    per_pixel = o.result.value / node_of(o, "m")["n_true"]
    assert per_pixel == pytest.approx(100 * 0.25, rel=0.02)  # cos² of 60° north


def test_an_empty_mask_divides_nothing_by_nothing() -> None:
    stored = np.zeros((2, 4, 4), dtype=np.uint8)
    o = Bench(scene(stored, ["red", "nir"], nodata=0)).execute(
        [*NDVI, ("m", "raster.product.threshold", ["i"], {"value": 0.2}), ("out", "raster.summarize.share", ["m"], {})])
    assert o.status.state == "failed" and o.result.value is None


def test_a_class_map_has_no_mean() -> None:
    o = Bench(scene(np.ones((1, 3, 3), dtype=np.uint8), ["class"])).execute(
        [S, ("c", "raster.product.band", ["s1"], {"role": "class"}), ("out", "raster.summarize.statistic", ["c"], {})])
    assert "no mean" in o.status.reason


@pytest.mark.shared_data
def test_complex_samples_of_a_file_through_the_house_s_reader(shared_data: Path) -> None:
    path = shared_data / "sar/solaris_rotterdam_sar_vv.tif"
    info, stored = from_file(path, {"vv": 1})
    b = Bench((info, stored))
    b.box._open_scene = lambda i: open_scene(i, path)
    o = b.execute([S, ("x", "raster.product.amplitude", ["s1"], {"role": "vv"}),
                   ("out", "raster.summarize.statistic", ["x"], {})])
    assert o.result.value == pytest.approx(float(np.abs(stored.astype(np.complex128)).mean()), rel=1e-6)
