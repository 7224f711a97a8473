"""Sensor profiles: what products call their bands and how they code values, against the figures of their guides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from apps.imagery import profiles
from apps.imagery.hints import SceneHints
from apps.imagery.inspect import Inspection, inspect_file
from apps.imagery.readers import open_scene
from tests.unit.imagery.rasters import write

RNG = np.random.default_rng(5)


def held(path: Path, names: list[str], dtype: str = "uint16", low: int = 8000, high: int = 20000, name: str = "",
         planes: Any = None) -> Inspection:
    """The inspection of a file whose bands are so named."""
    stored = RNG.integers(low, high, (len(names), 12, 10)).astype(dtype) if planes is None else planes
    write(path, stored)
    with rasterio.open(path, "r+") as out:
        out.descriptions = names
    return inspect_file(path, name)


def coding(found: Inspection) -> list[tuple[str, float, float, str]]:
    return [(b.role, b.scale, b.offset, b.unit) for b in found.info.bands]


def test_landsat8_collection2_by_its_prefix(tmp_path: Path) -> None:
    found = held(tmp_path / "t.tif", ["SR_B2", "SR_B4", "SR_B5", "SR_B6", "ST_B10", "QA_PIXEL"])
    assert coding(found) == [
        ("blue", 2.75e-5, -0.2, "reflectance"), ("red", 2.75e-5, -0.2, "reflectance"), ("nir", 2.75e-5, -0.2, "reflectance"),
        ("swir1", 2.75e-5, -0.2, "reflectance"), ("thermal1", 0.00341802, 149.0, "K"), ("qa", 1.0, 0.0, "DN"),
    ]  # fmt: skip
    assert found.info.sensor == "Landsat 8/9 OLI-TIRS"
    assert [b.nodata for b in found.info.bands] == [0, 0, 0, 0, 0, 1]
    assert found.info.bands[5].scheme == "landsat_c2"


def test_the_family_with_a_thermal_band_6_is_not_read_as_landsat8(tmp_path: Path) -> None:
    # SR_B4 is red on Landsat 8 and near infrared on Landsat 4 to 7; QA_PIXEL is in all of them
    found = held(tmp_path / "t.tif", ["SR_B3", "SR_B4", "SR_B5", "ST_B6", "QA_PIXEL"])
    assert [b.role for b in found.info.bands] == ["red", "nir", "swir1", "thermal1", "qa"]
    unsure = held(tmp_path / "u.tif", ["SR_B3", "SR_B4", "QA_PIXEL"])
    assert [b.role for b in unsure.info.bands] == ["unknown", "unknown", "qa"]
    told = held(tmp_path / "v.tif", ["SR_B3", "SR_B4"], name="LT04_L2SP_015032_19890720_20200916_02_T1.tif")
    assert [b.role for b in told.info.bands] == ["red", "nir"] and told.info.sensor == "Landsat 4 TM"


def test_scale_and_offset_are_applied_once(tmp_path: Path) -> None:
    path = tmp_path / "t.tif"
    stored = np.array([[[0, 7273, 43636, 18182]]], dtype=np.uint16)
    found = held(path, ["SR_B5"], name="LC08_L2SP_015032_20200720_20200911_02_T1_SR_B5.tif", planes=stored)
    with open_scene(found.info, path) as reader:
        read = reader.read([1])
    # the guide's valid range 7273 to 43636 is 0 to 1; 0 is fill
    assert read.valid[0, 0].tolist() == [False, True, True, True]
    assert read.data[0, 0, 1:] == pytest.approx([0.0, 1.0, 0.3], abs=2e-5)
    # a file that declares its own scale is not scaled a second time
    with rasterio.open(path, "r+") as out:
        out.scales, out.offsets = (2.75e-5,), (-0.2,)
    again = inspect_file(path, "LC08_L2SP_015032_20200720_20200911_02_T1_SR_B5.tif")
    assert (again.info.bands[0].scale, again.info.bands[0].offset) == (2.75e-5, -0.2)


def test_floats_under_a_products_name_are_left_alone(tmp_path: Path) -> None:
    found = held(tmp_path / "t.tif", ["SR_B4", "SR_B5", "SR_B6"], planes=RNG.random((3, 8, 8)).astype(np.float32))
    assert {(b.scale, b.offset) for b in found.info.bands} == {(1.0, 0.0)}


@pytest.mark.parametrize(("name", "dtype", "expected"), [
    ("sur_refl_b01", "int16", ("red", 1e-4, 0.0, "reflectance")),
    ("sur_refl_b02_1", "int16", ("nir", 1e-4, 0.0, "reflectance")),
    ("LST_Day_1km", "uint16", ("lst", 0.02, 0.0, "K")),
    ("SurfReflect_I2_1", "int16", ("nir", 1e-4, 0.0, "reflectance")),
    ("DNB_BRDF-Corrected_NTL", "uint16", ("radiance", 0.1, 0.0, "nW/cm2/sr")),
    ("state_1km", "uint16", ("qa", 1.0, 0.0, "DN")),
])  # fmt: skip
def test_modis_and_viirs(tmp_path: Path, name: str, dtype: str, expected: tuple[str, float, float, str]) -> None:
    found = held(tmp_path / "t.tif", [name], dtype)
    assert coding(found) == [expected]
    assert found.info.sensor.startswith(("MODIS", "VIIRS"))


def test_a_scene_classification_is_not_scaled_as_reflectance(tmp_path: Path) -> None:
    found = held(tmp_path / "t.tif", ["B4", "B8", "B8A", "SCL"], low=1, high=11)
    assert found.info.bands[3].role == "qa" and found.info.bands[3].scheme == "sentinel2_scl"
    assert (found.info.bands[3].scale, found.info.bands[0].scale) == (1.0, 1e-4)


def test_what_lies_beside_reflectance_in_a_stack_keeps_its_own_values(tmp_path: Path) -> None:
    found = held(tmp_path / "t.tif", ["B4", "B8", "B8A", "AOT", "MSK_CLDPRB"], name="S2B_20190301.tif")
    assert [(b.unit, b.scale) for b in found.info.bands] == [("reflectance", 1e-4)] * 3 + [("DN", 1.0)] * 2


# ESA, Sentinel-2 products specification: since baseline 04.00 reflectance = (DN − 1000) / 10,000; Collection 1 processed the
# older years anew with 05.00 and later.
@pytest.mark.parametrize(("name", "tag", "offset", "light"), [
    ("S2A_MSIL2A_20190101T100031_N0500_R122_T33UUP_20230101T100031.tif", "", -0.1, "ok"),
    ("S2A_MSIL2A_20190101T100031_N0211_R122_T33UUP_20190101T100031.tif", "", 0.0, "ok"),
    ("S2A_MSIL1C_20220301T100031_N0301_R122_T33UUP_20220301T100031.tif", "", 0.0, "ok"),
    ("T33UUP_20190101T100031_B04.tif", "05.10", -0.1, "ok"),
    ("T33UUP_20230101T100031_B04.tif", "", -0.1, "warn"),
    ("S2A_20190101.tif", "", 0.0, "warn"), ("S2A_20190101_N4530_E0910.tif", "", 0.0, "warn"),
])
def test_the_offset_follows_the_processing_baseline_and_not_the_day(tmp_path: Path, name: str, tag: str, offset: float,
                                                                    light: str) -> None:
    path = tmp_path / "t.tif"
    held(path, ["B4", "B8", "B8A"], low=1200, high=6000)
    with rasterio.open(path, "r+") as out:
        out.update_tags(**({"PROCESSING_BASELINE": tag} if tag else {}))
    found = inspect_file(path, name)
    assert {b.offset for b in found.info.bands} == {offset} and {b.scale for b in found.info.bands} == {1e-4}
    assert next(f.light for f in found.findings if f.key == "scale") == light


# ESA, Sentinel-2 products specification: 0 is nodata, which no band declares; USGS, level 1 of Landsat 4 to 9: 0 is fill
UNSEEN = [
    ("T29UNU_20221005T115411_B04_60m.tif", "uint16", "red", 1e-4, -0.1),
    ("T29UNU_20191005T115411_B8A_20m.tif", "uint16", "nir08", 1e-4, 0.0),
    ("L2A_T32TQM_20170105T102411_B02_10m.tif", "uint16", "blue", 1e-4, 0.0),
    ("T32TQM_20170105T102411_B11.tif", "uint16", "swir1", 1e-4, 0.0),
    ("LC08_L1TP_195025_20130707_20200912_02_T1_B10.TIF", "uint16", "thermal1", 1.0, 0.0),
    ("LC08_L1TP_195025_20130707_20200912_02_T1_B5.TIF", "uint16", "nir", 2e-5, -0.1),
    ("LT05_L1TP_167055_20000309_20161214_01_T1_B3.TIF", "uint8", "red", 1.0, 0.0),
    ("LE07_L1TP_195025_20010730_20170204_01_T1_B6_VCID_1.TIF", "uint8", "thermal1", 1.0, 0.0)]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "role", "scale", "offset"), UNSEEN)
def test_what_a_delivered_band_did_not_see_is_no_value(tmp_path: Path, name: str, dtype: str, role: str, scale: float,
                                                       offset: float) -> None:
    """Two fifths of a real tile lay beside the swath as zeros and drew its mean down from 0.46 to 0.24 reflectance. Numbers next
    to 0 are there too, so nothing in the values tells."""
    top = 200 if dtype == "uint8" else 9000
    stored = RNG.integers(1, top, (1, 20, 30)).astype(dtype)
    stored[0, :, :12] = 0
    write(tmp_path / "t.tif", stored)
    found = inspect_file(tmp_path / "t.tif", name)
    band = found.info.bands[0]
    assert (band.role, band.scale, band.offset, band.nodata) == (role, scale, offset, 0.0)
    assert found.statistics is not None and found.statistics.n_valid_px == 20 * 18
    (finding,) = [f for f in found.findings if f.key == "nodata"]
    assert finding.light == "ok" and "0 is nodata by the product's guide, 240 px (40.0 %)" in finding.text
    kept = inspect_file(tmp_path / "t.tif", name, SceneHints.model_validate(finding.fixes[0].hints))
    assert kept.info.bands[0].nodata is None and kept.statistics is not None and kept.statistics.n_valid_px == 600


def test_a_band_of_no_known_sensor_keeps_its_zeros(tmp_path: Path) -> None:
    stored = RNG.integers(1, 9000, (1, 20, 30)).astype(np.uint16)
    stored[0, :, :12] = 0
    write(tmp_path / "t.tif", stored)
    for name in ("field_B04_10m.tif", "T99ZZZ_20221005T115411_B04_60m.tif", "height.tif"):
        found = inspect_file(tmp_path / "t.tif", name)
        assert found.info.bands[0].role == "unknown" and found.info.bands[0].nodata is None, name


def test_a_dark_scene_of_older_years_is_not_doubted(tmp_path: Path) -> None:
    found = held(tmp_path / "t.tif", ["B4", "B8", "B8A"], name="S2A_20190101.tif", low=300, high=6000)
    assert next(f.light for f in found.findings if f.key == "scale") == "ok"


@pytest.mark.parametrize(("name", "role"), [
    ("seville.tif", "unknown"), ("Nevis_dem.tif", "unknown"), ("previous.tif", "unknown"), ("MODIS_LST_Nevis.tif", "unknown"),
    ("evi.tif", "evi"), ("site_NDVI_2020.tif", "ndvi"), ("MOD13Q1_EVI_2014-02-18.tif", "evi"), ("NDVI2020.tif", "ndvi")])
def test_an_index_is_told_by_a_word_of_the_name_and_not_by_its_letters(tmp_path: Path, name: str, role: str) -> None:
    stored = RNG.integers(1, 200, (1, 8, 8)).astype(np.int16)
    found = held(tmp_path / "t.tif", [""], name=name, planes=stored)
    assert found.info.bands[0].role == role
    assert (found.info.bands[0].scale == 1e-4) == name.startswith("MOD13")


def test_the_day_of_a_name_goes_before_the_time_at_which_the_file_was_written(tmp_path: Path) -> None:
    path = tmp_path / "t.tif"
    held(path, ["B4", "B8", "B8A"])
    with rasterio.open(path, "r+") as out:
        out.update_tags(TIFFTAG_DATETIME="2024:05:01 10:00:00")
    assert str(inspect_file(path, "S2A_20190101.tif").info.acquired_at) == "2019-01-01 00:00:00+00:00"
    assert str(inspect_file(path, "field.tif").info.acquired_at) == "2024-05-01 10:00:00+00:00"


@pytest.mark.parametrize("name", ["LC08_L1TP_015032_20200720_20200807_02_T1.tif", "LC80150322016202LGN00.tif",
                                  "LC09_L1GT_015032_20220720_20220807_02_T1.tif"])
def test_level_1_of_landsat_8_is_not_taken_for_linear_numbers(tmp_path: Path, name: str) -> None:
    # USGS, Landsat 8 data users handbook 5.2.2: rho' = 2e-5 DN - 0.1, for every band and scene
    stored = np.array([[[0, 8000, 9000]], [[0, 20000, 24000]], [[0, 27000, 28000]]], dtype=np.uint16)
    found = held(tmp_path / "t.tif", ["B4", "B5", "B10"], name=name, planes=stored)
    assert [b.unit for b in found.info.bands] == ["reflectance before sun angle"] * 2 + ["DN"]
    assert next(f.light for f in found.findings if f.key == "scale") == "warn"
    with open_scene(found.info, tmp_path / "t.tif") as reader:
        read = reader.read([1, 2])
    assert read.valid[0, 0].tolist() == [False, True, True]
    red, nir = read.data[:, 0, 1:].astype(float)
    assert (nir - red) / (nir + red) == pytest.approx([(0.3 - 0.06) / 0.36, (0.38 - 0.08) / 0.46], abs=1e-6)
    kept = inspect_file(tmp_path / "t.tif", name, SceneHints(scale=1.0, offset=0.0))
    assert {b.scale for b in kept.info.bands} == {1.0}
    surface = held(tmp_path / "s.tif", ["SR_B4", "SR_B5"], name="LC08_L2SP_015032_20200720_20200807_02_T1.tif", planes=stored[:2])
    assert [(b.unit, b.scale) for b in surface.info.bands] == [("reflectance", 2.75e-5)] * 2


@pytest.mark.parametrize(("name", "light"), [("LT05_L1TP_015032_19990720_20200807_02_T1.tif", "warn"),
                                             ("LE70150322002201EDC00.tif", "warn"), ("landsat7_p15r32_2002-07-20.tif", "ok")])
def test_level_1_of_older_landsats_is_told_to_be_bare_numbers(tmp_path: Path, name: str, light: str) -> None:
    stored = RNG.integers(20, 200, (2, 8, 8)).astype(np.uint8)
    found = held(tmp_path / "t.tif", ["B3", "B4"], name=name, planes=stored)
    assert {b.unit for b in found.info.bands} == {"DN"}
    assert next(f.light for f in found.findings if f.key == "scale") == light


@pytest.mark.parametrize(("written", "unit"), [("metre", "m"), ("meters", "m"), ("Kelvin", "K"), ("degree_Celsius", "degC"),
                                               ("°C", "degC"), ("unitless", "1"), ("percent", "%"), ("ft", "ft"),
                                               ("mm/day", "mm/day")])
def test_units_are_called_alike_however_a_file_writes_them(tmp_path: Path, written: str, unit: str) -> None:
    path = tmp_path / "t.tif"
    held(path, ["dem"], planes=np.full((1, 4, 4), 300, np.float32))
    with rasterio.open(path, "r+") as out:
        out.units = (written,)
    assert inspect_file(path).info.bands[0].unit == unit


def test_a_file_of_several_images_says_that_one_is_read(tmp_path: Path) -> None:
    from PIL import Image

    pages = [Image.fromarray(np.full((20, 30), v, np.uint8)) for v in (10, 20, 30)]
    pages[0].save(tmp_path / "t.tif", save_all=True, append_images=pages[1:])
    found = inspect_file(tmp_path / "t.tif")
    assert next((f.light, f.value) for f in found.findings if f.key == "pages") == ("warn", "1 of 3")
    alone = held(tmp_path / "one.tif", [""])
    assert not any(f.key == "pages" for f in alone.findings)


def test_level_1_of_landsat_8_is_known_in_floats_and_by_a_quality_band_of_level_1(tmp_path: Path) -> None:
    """Of a real scene NDVI of such numbers is 0.28, and 0.46 of the reflectance that they stand for."""
    stored = np.array([[[7000, 8000, 9000]], [[18000, 20000, 24000]]])
    named = "LC82320832016040LGN00_band.tif"
    shifted = [("red", 2e-5, -0.1, "reflectance before sun angle"), ("nir", 2e-5, -0.1, "reflectance before sun angle")]
    anew = held(tmp_path / "t.tif", ["B4", "B5"], name=named, planes=stored.astype(np.float64))
    assert coding(anew) == shifted
    made = held(tmp_path / "r.tif", ["B4", "B5"], name=named, planes=stored.astype(np.float32) * 2e-5 - 0.1)
    assert [c[1:3] for c in coding(made)] == [(1.0, 0.0)] * 2
    # before the collections: cloud of high confidence is bits 14 and 15, so a clear pixel is 20480
    quality = np.array([[[20480, 20480, 53248]]])
    names, planes = ["B4", "B5", "BQA"], np.concatenate([stored, quality])
    beside = held(tmp_path / "q.tif", names, name="l8.tif", planes=planes.astype(np.uint16))
    assert coding(beside)[:2] == shifted
    assert beside.info.bands[2].scheme == "landsat_precollection" and beside.info.bands[2].scale == 1.0
    worked = held(tmp_path / "w.tif", names, name="l8.tif", planes=planes.astype(np.float32))
    assert [c[1:3] for c in coding(worked)][:2] == [(1.0, 0.0)] * 2


def test_collection1_reflectance(tmp_path: Path) -> None:
    stored = np.array([[[-9999, 0, 3000, 16001]]], dtype=np.int16)
    found = held(tmp_path / "t.tif", [""], name="LC08_L1TP_015032_20160720_20170221_01_T1_sr_band5.tif", planes=stored)
    assert coding(found) == [("nir", 1e-4, 0.0, "reflectance")]
    with open_scene(found.info, tmp_path / "t.tif") as reader:
        assert reader.read([1]).valid[0, 0].tolist() == [False, True, True, False]


def test_surface_reflectance_under_the_name_of_its_scene_is_no_level_1(tmp_path: Path) -> None:
    """Files sr_band4 and sr_band5 make a stack that is called after the scene: 960 there is a reflectance of 0.096, and by level
    1's scale it were -0.081. A thermal band beside them stays as it is."""
    stored = np.stack([np.full((9, 9), v) for v in (960.0, 3100.0, 26000.0)])
    name = "LC82320832016040LGN00.tif"
    found = held(tmp_path / "sr.tif", ["sr_band4", "sr_band5", "B10"], name=name, planes=stored)
    assert coding(found) == [("red", 1.0, 0.0, "DN"), ("nir", 1.0, 0.0, "DN"), ("thermal1", 1.0, 0.0, "DN")]
    above = held(tmp_path / "l1.tif", ["B4", "B5", "B10"], name=name, planes=stored)
    assert [c[1:3] for c in coding(above)] == [(2e-5, -0.1), (2e-5, -0.1), (1.0, 0.0)]


def test_backscatter_in_decibels_is_told_from_power(tmp_path: Path) -> None:
    decibel = held(tmp_path / "s1.tif", ["VV", "VH"], name="S1A_IW_GRDH_1SDV_20200720T054321.tif",
                   planes=RNG.normal(-12, 3, (2, 9, 9)).astype(np.float32))
    assert [b.unit for b in decibel.info.bands] == ["dB", "dB"] and decibel.info.sensor == "Sentinel-1 SAR"
    power = held(tmp_path / "p.tif", ["VV", "VH"], planes=RNG.random((2, 9, 9)).astype(np.float32))
    assert [b.unit for b in power.info.bands] == ["DN", "DN"]
    assert next(f.light for f in power.findings if f.key == "scale") == "warn"


def test_bits_of_old_landsat_bands_by_their_greatest_value() -> None:
    assert profiles.bqa_scheme(53248.0) == "landsat_precollection"  # cloud of the 2014 handbook
    assert profiles.bqa_scheme(2800.0) == "landsat_c1"  # cloud of the 2017 handbook
    assert profiles.bqa_scheme(None) == ""


@pytest.mark.shared_data
def test_the_quality_band_of_a_real_file(shared_data: Path) -> None:
    folder = shared_data / "multispectral"
    quality = inspect_file(folder / "landsat8_cloudy/l8_BQA.tif").info.bands[0]
    assert (quality.role, quality.scheme) == ("qa", "landsat_precollection")


# --- sensors that a site adds ------------------------------------------------------------------------------------------------
SKY = [{"product": "Sky surface reflectance", "sensor": "Sky", "dtypes": ["uint16"], "scale": 2e-5, "offset": -0.05,
        "unit": "reflectance", "nodata": 0, "bands": {"Sky Red": "red", "SKY_NIR": "nir"}, "source": "Sky handbook 1"}]


def test_a_sensor_of_ones_own_through_the_ingest_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.imagery.hints import SceneHints
    from apps.imagery.ingest import ingest_file

    path, folder = tmp_path / "sky_7.tif", tmp_path / "job"
    folder.mkdir()
    stored = RNG.integers(5000, 30000, (2, 12, 10)).astype("uint16")
    stored[:, 0] = 0
    write(path, stored)
    with rasterio.open(path, "r+") as out:
        out.descriptions = ("SKY_RED", "sky nir")
    assert [b.role for b in inspect_file(path, path.name).info.bands] == ["unknown", "unknown"]
    monkeypatch.setenv(profiles.OWN_VARIABLE, json.dumps(SKY))
    made = ingest_file(path, folder, path.name, SceneHints(), scene_id="s", artifact="sha256:x")
    assert [(b.role, b.scale, b.offset, b.unit, b.nodata) for b in made.info.bands] == [
        ("red", 2e-5, -0.05, "reflectance", 0), ("nir", 2e-5, -0.05, "reflectance", 0)]
    assert made.info.sensor == "Sky"
    with open_scene(made.info, made.cog) as reader:
        read = reader.read([1])
    assert not read.valid[0, 0].any()
    assert read.data[0, 1:] == pytest.approx(stored[0, 1:] * 2e-5 - 0.05, abs=1e-6)
    # a single band whose file's name ends in the band's name
    alone = tmp_path / "2024-05-01_SKY_NIR.tif"
    write(alone, stored[1:])
    assert inspect_file(alone, alone.name).info.bands[0].role == "nir"


@pytest.mark.parametrize(("change", "part"), [
    ({"scale": 0}, "not 0"), ({"scale": "1e-4"}, "finite"), ({"bands": {"A": "crimson"}}, "role"), ({"bands": {}}, "role"),
    ({"colour": 1}, "no profile has"), ({"dtypes": []}, "stored types"), ({"unit": ""}, "unit"),
    ({"valid_range": [5, 1]}, "rising"),
])
def test_a_profile_that_is_wrong_stops_the_start(change: dict[str, Any], part: str) -> None:
    with pytest.raises(ValueError, match=part):
        profiles.codings_of_text(json.dumps([SKY[0] | change]))


def test_texts_that_are_no_profiles() -> None:
    assert profiles.codings_of_text(" ") == ()
    for text in ("{", "{}", "[1]", " " * 5 + "[" * 200_000):
        with pytest.raises(ValueError, match="profiles"):
            profiles.codings_of_text(text)
    # a band's name is a name, not a pattern
    odd = profiles.codings_of_text(json.dumps([SKY[0] | {"bands": {"(A+)+B": "red"}}]))
    assert odd[0].band == r"\(A\+\)\+B"
