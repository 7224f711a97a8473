"""Temperatures, dryness, turbidity and the like asked in words, over real pixels: the planner's graph is executed, and its figure
is the one that the papers' formulas give, written here again in numpy. What a formula takes and the image lacks is said or asked
for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.agent.planner.offline import OfflinePlanner
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import Band, SceneInfo
from tests.unit.agent.asked_of_pixels import answered
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.tools.test_inversions_on_real_scenes import Talca, single_channel

Array = NDArray[np.float64]
NAME = "LC82320832016040LGN00.tif"


@pytest.fixture(scope="module")
def talca(shared_data: Path) -> Talca:
    return Talca(shared_data / "multispectral/landsat8_talca_2016")


def landsat8(t: Talca, name: str = NAME, thermal_unit: str = "DN", sensor: str = "Landsat 8/9 OLI-TIRS") -> Bench:
    """Surface reflectances and stored numbers of both thermal bands as the bands of one image."""
    roles = [*t.sr, "thermal1", "thermal2"]
    stored = np.stack([*(np.rint(p * 1e4) for p in t.sr.values()), t.dn["thermal1"], t.dn["thermal2"]])
    info, held = scene(stored, roles, scene_id="a", crs="EPSG:32619", pixel=30.0, origin=(510495.0, -3650985.0))
    bands = tuple(
        b.model_copy(update={"unit": "reflectance", "scale": 1e-4} if b.role in t.sr else {"unit": thermal_unit})
        for b in info.bands
    )
    return Bench((info.model_copy(update={"name": name, "bands": bands, "sensor": sensor}), held))


def warned(made: Plan, *words: str) -> None:
    told = " ".join(made.warnings)
    assert all(w in told for w in words), told


@pytest.mark.shared_data
def test_surface_temperature_by_the_single_channel(talca: Talca) -> None:
    bench = landsat8(talca)
    wanted = single_channel(talca, 1.2)
    made, found = answered(bench, "What is the mean land surface temperature with water vapour 1.2?")
    assert found.value == pytest.approx(wanted.mean(), abs=2e-3) and found.unit == "K"
    assert found.value == pytest.approx(302.9, abs=0.1)  # docs/coverage.md
    warned(made, "K1 774.885".lower(), "0.973")
    assert "g/cm² is assumed" not in " ".join(made.warnings)
    # not told: the assumption is
    made, found = answered(bench, "mean surface temperature")
    assert found.value == pytest.approx(single_channel(talca, 2.0).mean(), abs=2e-3)
    warned(made, "2 g/cm² is assumed")
    assert made.answer is not None and "water vapour 2 g/cm²" in str(made.answer.options["phrase"])
    _, found = answered(bench, "maximum temperature in °C with water vapour 1.2")
    assert found.value == pytest.approx(wanted.max() - 273.15, abs=2e-3) and found.unit == "degC"
    _, found = answered(bench, "What is the mean LST in kelvins where NDVI > 0.6, with water vapour 1.2?")
    assert found.value == pytest.approx(wanted[talca.ndvi > 0.6].mean(), abs=2e-3)
    _, found = answered(bench, "mean temperature where NDVI is between 0.2 and 0.4, with water vapour 1.2")
    assert found.value == pytest.approx(wanted[(talca.ndvi >= 0.2) & (talca.ndvi <= 0.4)].mean(), abs=2e-3)
    _, found = answered(bench, "maximum surface temperature in celsius of pixels with NDVI below 0.3, with water vapour 1.2")
    assert found.value == pytest.approx(wanted[talca.ndvi < 0.3].max() - 273.15, abs=2e-3)


@pytest.mark.shared_data
def test_flagged_pixels_are_left_out_once(talca: Talca) -> None:
    """The quality band has cloud (bit 3 of Landsat's Collection 2) over a corner; what is left is the mean of the others."""
    bench = landsat8(talca)
    info, stored = bench.question.scenes[0], bench.stored["a"]
    qa = np.full(stored.shape[1:], 64.0)
    qa[:40, :50] = 8
    bands = (*info.bands, Band(index=len(info.bands) + 1, role="qa", scheme="landsat_c2"))
    cloudy = Bench((info.model_copy(update={"bands": bands}), np.concatenate([stored, qa[None]])))
    wanted = single_channel(talca, 1.2)[qa == 64].mean()
    made, found = answered(cloudy, "mean surface temperature without clouds, with water vapour 1.2")
    assert found.value == pytest.approx(wanted, abs=2e-3)
    nodes: Any = made.steps[0].arguments["nodes"]
    assert sum(n["params"].get("quality_mask") == "auto" for n in nodes) == 1


@pytest.mark.shared_data
def test_an_emissivity_that_is_given_is_taken(talca: Talca) -> None:
    light, warmth = talca.light(10), talca.warmth(10)
    psi = np.array([[0.04019, 0.02916, 1.01523], [-0.38333, -1.50294, 0.20324], [0.00918, 1.36072, -0.27514]]) @ [1.44, 1.2, 1]
    gamma = warmth**2 / (1324 * light)
    wanted = gamma * ((psi[0] * light + psi[1]) / 0.98 + psi[2]) + warmth - warmth**2 / 1324
    made, found = answered(landsat8(talca), "mean surface temperature with emissivity 0.98 and water vapour 1.2 g/cm2")
    assert found.value == pytest.approx(wanted.mean(), abs=2e-3)
    assert made.answer is not None and "emissivity 0.98" in str(made.answer.options["phrase"])


@pytest.mark.shared_data
def test_brightness_temperatures_of_both_bands(talca: Talca) -> None:
    bench = landsat8(talca)
    _, found = answered(bench, "What is the mean brightness temperature?")
    assert found.value == pytest.approx(talca.warmth(10).mean(), abs=1e-3) == pytest.approx(300.230124, abs=2e-3)  # pylandtemp
    _, found = answered(bench, "mean brightness temperature of band 11")
    assert found.value == pytest.approx(298.223835, abs=2e-3)
    # another sensor's numbers are asked for, and taken as they are said
    other = landsat8(talca, "thermal.tif", sensor="")
    assert plan(other, "mean brightness temperature").needs == {"coefficients": ["gain", "offset", "k1", "k2"]}
    said = "mean brightness temperature with gain 0.0003342, offset 0.1, k1 774.8853 and k2 1321.0789"
    _, found = answered(other, said)
    assert found.value == pytest.approx(talca.warmth(10).mean(), abs=1e-3)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["LC08_L1TP_232083_bt_band10.tif", "LC08_L2SP_232083_20160209_B10.tif"])
def test_numbers_of_a_level_above_the_first_are_no_radiance(talca: Talca, name: str) -> None:
    """3002 in a file of brightness temperatures is 300.2 K; by level 1's gain it were 201 K."""
    assert "no radiance" in plan(landsat8(talca, name), "mean brightness temperature").reason
    assert "no radiance" in plan(landsat8(talca, name), "mean surface temperature").reason


@pytest.mark.shared_data
def test_emissivity_by_stored_numbers_is_refused(talca: Talca) -> None:
    """Level 1 of Landsat 8 has an offset of -0.1: the NDVI of its stored numbers makes green fields bare, and so too warm."""
    dn = (talca.dn["nir"] - talca.dn["red"]) / (talca.dn["nir"] + talca.dn["red"])
    assert dn.mean() < 0.7 * talca.ndvi.mean()
    bench = landsat8(talca)
    info = bench.question.scenes[0]
    bands = tuple(b if b.role.startswith("thermal") else b.model_copy(update={"unit": "DN", "scale": 1.0}) for b in info.bands)
    raw = Bench((info.model_copy(update={"bands": bands}), bench.stored["a"]))
    for text in ("mean surface temperature", "mean emissivity", "mean tvdi"):
        assert "NDVI of reflectance" in plan(raw, text).reason
    assert plan(raw, "mean surface temperature with emissivity 0.98").steps


@pytest.mark.shared_data
def test_split_window(talca: Talca) -> None:
    """Jiménez-Muñoz et al. 2014, equation 1 and table III."""
    t1, t2, w = talca.warmth(10), talca.warmth(11), 1.2
    d = t1 - t2
    wanted = t1 + 1.378 * d + 0.183 * d**2 - 0.268 + (54.30 - 2.238 * w) * (1 - talca.emissivity)
    made, found = answered(landsat8(talca), "mean surface temperature by split window with water vapour 1.2")
    assert found.value == pytest.approx(wanted.mean(), abs=5e-3)
    warned(made, "band 11", "same emissivity")


@pytest.mark.shared_data
def test_shares_and_areas_that_are_warm(talca: Talca) -> None:
    bench, heat = landsat8(talca), single_channel(talca, 2.0)
    _, found = answered(bench, "What share of the land is warmer than 30 °C?")
    assert found.value == pytest.approx(100 * (heat > 303.15).mean(), abs=0.1) and found.unit == "%"
    _, found = answered(bench, "How many hectares have a surface temperature above 305 K?")
    assert found.unit == "ha" and found.value == pytest.approx((heat > 305).sum() * 0.09, rel=2e-3)


@pytest.mark.shared_data
def test_emissivity_and_dryness(talca: Talca) -> None:
    bench = landsat8(talca)
    _, found = answered(bench, "What is the mean emissivity?")
    assert found.value == pytest.approx(talca.emissivity.mean(), abs=1e-6)
    # Sandholt et al. 2002: edges through the hottest and coldest pixel of each bin of NDVI
    warm, ndvi, edges = single_channel(talca, 1.2), talca.ndvi, np.linspace(0.2, 1.0, 81)
    at = np.digitize(ndvi, edges) - 1
    points = [(edges[k] + 0.005, warm[at == k].max(), warm[at == k].min()) for k in range(80) if (at == k).sum() >= 3]
    x, hot, cold = (np.array(p) for p in zip(*points, strict=True))
    dry, wet = np.polyfit(x, hot, 1), np.polyfit(x, cold, 1)
    low, high = np.polyval(wet, ndvi), np.polyval(dry, ndvi)
    kept = (ndvi >= 0.2) & (high > low)
    made, found = answered(bench, "What is the mean dryness index (TVDI) with water vapour 1.2?")
    assert found.value == pytest.approx(np.clip((warm - low) / (high - low), 0, 1)[kept].mean(), abs=1e-5)
    warned(made, "fitted to this image")


@pytest.mark.shared_data
def test_a_product_of_surface_temperature_is_taken_as_it_is(talca: Talca) -> None:
    """Landsat's level 2 by its scale; MODIS by its role. Nothing is made of a temperature that is one already."""
    heat = single_channel(talca, 1.2)
    stored = np.rint((heat - 149.0) / 0.00341802).astype(np.uint16)
    info, held = scene(stored[None], ["thermal1"], unit="K", scale=0.00341802, offset=149.0)
    level2 = Bench((info.model_copy(update={"name": "LC08_L2SP_232083_20160209_ST_B10.tif"}), held))
    made, found = answered(level2, "mean land surface temperature in °C")
    assert found.value == pytest.approx(heat.mean() - 273.15, abs=2e-3) and made.warnings == ()
    assert plan(level2, "mean brightness temperature").code == "NEEDS_BANDS"
    assert "leave it out" in plan(level2, "mean surface temperature with water vapour 1.2").reason
    _, found = answered(Bench(scene(heat[None], ["lst"], unit="K")), "maximum temperature in celsius")
    assert found.value == pytest.approx(heat.max() - 273.15, abs=1e-3)
    # in K, and nothing says whether of the surface
    unsaid = Bench(scene(heat[None], ["thermal1"], unit="K"))
    assert "nothing says whether" in plan(unsaid, "mean surface temperature").reason


AQUA = {"day": [33.1, 34.5, 31.6, 27.7, 33.0, 27.8, 33.0, 32.2, 32.8, 28.9],
        "night": [8.1, 9.3, 8.5, 1.5, 5.6, 5.9, 5.6, 4.5, 4.3, 2.7]}  # fmt: skip


def of_day_and_night() -> list[tuple[SceneInfo, Any]]:
    """MODIS Aqua at ten places on 27 October 2013 (see test_inversions_on_real_scenes)."""
    return [
        (i.model_copy(update={"name": f"MYD11A2_LST_{n.capitalize()}.tif"}), s)
        for n, v in AQUA.items()
        for i, s in [scene(np.array([[v]]) + 273.15, ["lst"], unit="K", scene_id=n)]
    ]


def test_day_and_night() -> None:
    bench = Bench(*of_day_and_night())
    _, found = answered(bench, "What is the mean diurnal temperature range?")
    assert found.value == pytest.approx(np.subtract(AQUA["day"], AQUA["night"]).mean(), abs=1e-4) and found.unit == "K"
    _, found = answered(bench, "mean day and night temperature in °C")
    assert found.value == pytest.approx((sum(AQUA["day"]) + sum(AQUA["night"])) / 20, abs=1e-4)
    unnamed = Bench(*(scene(np.array([[v]]) + 273.15, ["lst"], unit="K", scene_id=f"s{i}") for i, v in enumerate(AQUA.values())))
    assert "which is of the day" in plan(unnamed, "mean diurnal temperature range").reason


def test_thermal_inertia_by_albedo_and_two_temperatures() -> None:
    """Price 1977 with Liang's albedo of Landsat: (1 - albedo) / (day - night)."""
    bands = {"blue": 0.05, "red": 0.09, "nir": 0.31, "swir1": 0.24, "swir2": 0.15}
    light = np.stack([np.full((1, 10), v) + 0.002 * np.arange(10) for v in bands.values()])
    bench = Bench(*of_day_and_night(), scene(light, list(bands), unit="reflectance", scene_id="light"))
    albedo = np.tensordot([0.356, 0.13, 0.373, 0.085, 0.072], light, 1)[0] - 0.0018
    alone = Bench(scene(light, list(bands), unit="reflectance"))
    assert answered(alone, "What is the mean albedo?")[1].value == pytest.approx(albedo.mean(), rel=1e-6)
    wanted = (1 - albedo) / np.subtract(AQUA["day"], AQUA["night"])
    _, found = answered(bench, "What is the mean thermal inertia?")
    assert found.value == pytest.approx(wanted.mean(), rel=1e-6) and found.unit == "1/K"


def plan(bench: Bench, text: str) -> Plan:
    return OfflinePlanner().plan(Question(text=text, scenes=bench.question.scenes))


@pytest.mark.shared_data
def test_turbidity_is_that_of_the_water_alone(shared_data: Path) -> None:
    """Dogliotti et al. 2015 over the pixels of a real scene that NDWI tells to be water."""
    path = shared_data / "multispectral/s2_l1c_crop512_13band_32618.tif"
    roles = {"blue": 2, "green": 3, "red": 4, "nir": 8, "nir08": 9, "watervapour": 10}
    info, stored = from_file(path, roles, unit="reflectance", scale=1e-4)
    p = {r: stored[i - 1] * 1e-4 for r, i in roles.items()}
    with np.errstate(all="ignore"):
        water = (p["green"] - p["nir"]) / (p["green"] + p["nir"]) > 0
    kept = water & (p["red"] < 0.1641)
    wanted = 228.1 * p["red"] / (1 - p["red"] / 0.1641)
    made, found = answered(Bench((info, stored)), "What is the mean turbidity?")
    assert 0.005 < kept.mean() < 0.995
    assert found.value == pytest.approx(wanted[kept].mean(), rel=1e-6) and found.unit == "FNU"
    warned(made, "NDWI > 0")
    # Kaufman and Gao 1992
    wanted = ((0.02 - np.log(p["watervapour"] / p["nir08"])) / 0.651) ** 2
    made, found = answered(Bench((info, stored)), "median column water vapour")
    assert found.value == pytest.approx(np.median(wanted[np.isfinite(wanted)]), rel=1e-4) and found.unit == "g/cm2"
    warned(made, "MODIS")
    stored_alone = from_file(path, roles)
    assert "made of reflectance" in plan(Bench(stored_alone), "mean turbidity").reason


# Brightness temperatures in K, thought out: deep snow, less snow, and none
SNOW = {"ssmis_18h": [240.1, 238.0, 231.5], "ssmis_37h": [219.4, 224.2, 235.0]}


def radiometer(channels: dict[str, list[float]]) -> Bench:
    return Bench(*(scene(np.array([[v]]), ["unknown"], unit="K", scene_id=n) for n, v in channels.items()))


def test_snow_and_ice_by_channels_that_file_names_tell() -> None:
    _, found = answered(radiometer(SNOW), "What is the mean snow depth?")
    wanted = np.maximum(1.59 * np.subtract(SNOW["ssmis_18h"], SNOW["ssmis_37h"]), 0)  # Chang et al. 1987
    assert found.value == pytest.approx(wanted.mean(), rel=1e-6) and found.unit == "cm"
    assert "37 GHz H" in plan(radiometer({"ssmis_18h": [240.0]}), "mean snow depth").reason
    # open water and first-year ice as the tie points have them: nothing and all (Cavalieri et al. 1984)
    tie = {"f08_19v": [183.4, 251.5], "f08_19h": [113.2, 235.5], "f08_37v": [204.0, 242.0]}
    _, found = answered(radiometer(tie), "mean sea ice concentration")
    assert found.value == pytest.approx(0.5, abs=1e-6)


def test_fire_power_asks_how_warm_the_ground_is() -> None:
    """Wooster et al. 2003: sigma / a times the radiance at 3.96 µm above that of the ground."""
    heat = np.array([[[330.0, 345.0, 400.0]]])
    bench = Bench(scene(heat, ["mir"], unit="K"))
    assert plan(bench, "maximum fire radiative power").needs == {"coefficients": ["background"]}
    _, found = answered(bench, "maximum fire radiative power with background temperature 300 K")

    def light(t: float) -> float:
        return 1.191042972e8 / 3.96**5 / math.expm1(14387.768775 / (3.96 * t))

    assert found.value == pytest.approx(5.670374419e-8 / 3e-9 * (light(400.0) - light(300.0)), rel=1e-6)
    assert found.unit == "MW/km2"


REFUSED = [
    ("What share of the land has a surface temperature above 30?", "kelvins or in °C"),
    ("mean emissivity in °C", "not told in"),
    ("mean surface temperature of band 11", "brightness temperature"),
    ("mean surface temperature with emissivity 3", "between 0.5 and 1"),
    ("mean surface temperature with water vapour 20", "between 0 and 8"),
    ("mean brightness temperature with emissivity 0.98", "leave it out"),
    ("mean surface temperature by split window with k1 774.8853", "Of which of the two"),
    ("mean snow depth", "frequency and polarization"),
    ("mean fire radiative power", "mir"),
    ("mean thermal inertia", "day"),
]


@pytest.mark.shared_data
@pytest.mark.parametrize(("text", "says"), REFUSED, ids=[t for t, _ in REFUSED])
def test_what_is_lacking_is_said(talca: Talca, text: str, says: str) -> None:
    made = plan(landsat8(talca), text)
    assert made.steps == () and says in made.reason, made.reason


@pytest.mark.shared_data
def test_another_landsat_is_not_taken_for_the_eighth(talca: Talca) -> None:
    said = " with gain 0.067, offset -0.07, k1 666.09, k2 1282.71"
    for name, sensor in (("LE07_L1TP_x.tif", "Landsat 7 ETM+"), ("LC09_L1TP_x.tif", "Landsat 8/9 OLI-TIRS")):
        bench = landsat8(talca, name, sensor=sensor)
        assert plan(bench, "mean brightness temperature").needs == {"coefficients": ["gain", "offset", "k1", "k2"]}
        assert bool(plan(bench, f"mean surface temperature{said}").steps) is (sensor != "Landsat 7 ETM+")
        assert plan(bench, "mean surface temperature by split window").steps == ()


NEAR_MISSES = [
    "mean air temperature", "mean temperature of the sea", "mean surface temperature tomorrow", "mean temperature at noon",
    "How hot is the roof?", "mean surface temperature of the forest", "mean surface temperature where the road is",
    "mean surface temperature with wind 3", "mean surface temperature in fahrenheit", "mean turbidity of the lake",
    "snow depth in the Alps", "fire radiative power of the largest fire", "thermal inertia of the building",
    "How much warmer is the town?", "mean surface temperature by my method", "colour temperature", "mean water vapour pressure",
    "mean temperature where NDVI > 0.6 and NDWI > 0",
]  # fmt: skip


@pytest.mark.parametrize("text", NEAR_MISSES)
def test_a_near_miss_is_not_answered(text: str) -> None:
    roles = ("blue", "green", "red", "nir", "thermal1")
    bands = tuple(Band(index=i + 1, role=r) for i, r in enumerate(roles))
    info, _ = scene(np.ones((5, 4, 4)), roles)
    made = OfflinePlanner().plan(Question(text=text, scenes=(info.model_copy(update={"name": NAME, "bands": bands}),)))
    assert made.steps == (), made.understood
