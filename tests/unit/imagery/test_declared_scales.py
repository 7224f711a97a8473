"""What a file declares of its values against what its product's guide says: told where they differ; codes are no measurements.

Expected values are worked out with numpy from the guides' figures, over a window of a shipped Sentinel-2 image.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray

from apps.imagery.findings import Finding
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_convert import convert
from apps.imagery.inspect import Inspection, inspect_file
from apps.imagery.readers import open_scene
from tests.unit.imagery.rasters import write

SHIPPED = Path(__file__).resolve().parents[3] / "apps/imagery/samples/geopandas_s2a_l2a_fishbourne.tif"
S2 = ("B2", "B3", "B4", "B8", "B8A")
SINCE_2022 = "S2A_MSIL2A_20230615T103021_N0509_R108_T32TQM.tif"


@pytest.fixture(scope="module")
def coast() -> NDArray[np.uint16]:
    """Blue, green, red, near infrared of 50 × 60 pixels of the coast, reflectance × 10,000, none of them fill."""
    with rasterio.open(SHIPPED) as src:
        pixels: NDArray[Any] = src.read()
    return pixels[:, 35:85, :60].astype(np.uint16)


def held(
    folder: Path,
    name: str,
    planes: NDArray[Any],
    names: tuple[str, ...] = (),
    scales: tuple[float, ...] = (),
    offsets: tuple[float, ...] = (),
    hints: SceneHints | None = None,
) -> tuple[Inspection, Any]:
    """(inspection, masked physical values as the house's reader gives them) of a file that is so named and so declares."""
    path = write(folder / name, planes)
    with rasterio.open(path, "r+") as out:
        if names:
            out.descriptions = names
        if scales:
            out.scales = scales
            out.offsets = offsets or (0.0,) * len(scales)
    found = inspect_file(path, name, hints)
    convert(path, folder / "cog.tif", name, hints or SceneHints())
    with open_scene(found.info, folder / "cog.tif") as reader:
        return found, reader.read(list(range(1, len(planes) + 1)))


def said(found: Inspection) -> Finding:
    return next(f for f in found.findings if f.key == "scale")


def test_a_declared_scale_without_the_offset_of_the_baseline_is_doubted(tmp_path: Path, coast: NDArray[np.uint16]) -> None:
    stored = np.concatenate([coast, coast[3:]]) + 1000
    found, _ = held(tmp_path, SINCE_2022, stored, S2, (1e-4,) * 5)
    assert said(found).light == "warn" and "−1000" in said(found).text
    assert {b.unit for b in found.info.bands} == {"reflectance"}
    fix = next(f for f in said(found).fixes if f.label == "Take off the offset of 1000")
    _, read = held(tmp_path, SINCE_2022, stored, S2, (1e-4,) * 5, hints=SceneHints(**fix.hints))
    red, nir = (coast[k].astype(float) for k in (2, 3))
    ours = (read.data[3] - read.data[2]) / (read.data[3] + read.data[2])
    assert np.allclose(ours, (nir - red) / (nir + red), atol=1e-9)


@pytest.mark.parametrize(
    ("name", "offset", "light"),
    [
        (SINCE_2022, -0.1, "ok"),
        ("S2A_MSIL2A_20190615T103021_N0211_R108_T32TQM.tif", 0.0, "ok"),
        ("S2A_MSIL2A_20190615T103021_N0211_R108_T32TQM.tif", -0.1, "warn"),
        ("S2A_20230615.tif", 0.0, "warn"),
    ],
)
def test_what_a_file_declares_is_held_against_its_baseline(
    tmp_path: Path, coast: NDArray[np.uint16], name: str, offset: float, light: str
) -> None:
    found, _ = held(tmp_path, name, np.concatenate([coast, coast[3:]]) + 1000, S2, (1e-4,) * 5, (offset,) * 5)
    assert said(found).light == light
    assert {b.offset for b in found.info.bands} == {offset}  # told, and never changed unasked


def test_a_scale_of_another_collection_is_told(tmp_path: Path, coast: NDArray[np.uint16]) -> None:
    found, _ = held(tmp_path, "LC08_L2SP_015032_20200720_20200911_02_T1_SR_B5.tif", coast[3:] * 5, ("SR_B5",), (1e-4,))
    assert said(found).light == "warn" and "2.75e-05" in said(found).text
    assert found.info.bands[0].scale == 1e-4


def test_a_band_that_declares_nothing_beside_others_gets_the_products_own(tmp_path: Path, coast: NDArray[np.uint16]) -> None:
    stored = np.stack([coast[2] * 5 + 8000, coast[3] * 5 + 8000, coast[3] * 2 + 40000])
    found, read = held(
        tmp_path,
        "LC08_L2SP_015032_20200720_20200911_02_T1.tif",
        stored,
        ("SR_B4", "SR_B5", "ST_B10"),
        (2.75e-5, 2.75e-5, 1.0),
        (-0.2, -0.2, 0.0),
    )
    assert [b.unit for b in found.info.bands] == ["reflectance", "reflectance", "K"]
    assert np.allclose(read.data[2], stored[2] * 0.00341802 + 149.0)
    assert np.allclose(read.data[0], stored[0] * 2.75e-5 - 0.2)


def test_a_divisor_in_the_place_of_the_scale_is_no_scale(tmp_path: Path, coast: NDArray[np.uint16]) -> None:
    # HDF-EOS files of MOD13 write scale_factor 10000, by which the guide divides; what converts them copies that as the scale
    stored = (coast[3:] // 2).astype(np.int16)
    found, read = held(tmp_path, "MOD13Q1.A2020001.h18v04.061.250m_16_days_NDVI.tif", stored, scales=(10000.0,))
    assert (found.info.bands[0].scale, found.info.bands[0].unit) == (1e-4, "1") and said(found).light == "warn"
    assert np.allclose(read.data[0], stored[0] / 10000)


def test_what_a_person_says_of_values_is_not_said_of_classes(tmp_path: Path, coast: NDArray[np.uint16]) -> None:
    scl = (coast[:1] % 8 + 3).astype(np.uint16)
    found, read = held(
        tmp_path,
        "S2A_MSIL2A_20210615T103021_N0300_R108_T32TQM.tif",
        np.concatenate([coast, scl]),
        (*S2[:4], "SCL"),
        hints=SceneHints(scale=1e-4, offset=0.0, unit="reflectance"),
    )
    band = found.info.bands[4]
    assert (band.role, band.scale, band.offset, band.unit) == ("qa", 1.0, 0.0, "DN")
    assert np.array_equal(read.data[4], scl[0]) and np.allclose(read.data[3], coast[3] / 1e4)


def test_what_a_file_declares_of_values_is_not_said_of_classes(tmp_path: Path, coast: NDArray[np.uint16]) -> None:
    stored = np.concatenate([coast[:1], coast[:1] % 7])
    found, read = held(tmp_path, "map.tif", stored, ("red", "class"), (1e-4, 0.1), (0.0, 5.0))
    assert [(b.scale, b.offset) for b in found.info.bands] == [(1e-4, 0.0), (1.0, 0.0)]
    assert np.array_equal(read.data[1], stored[1])


@pytest.mark.parametrize("decided", [None, -9999.0, -3.4028234663852886e38])
@pytest.mark.parametrize("nodata", [None, float("nan"), -9999.0])
def test_several_values_for_nothing_in_one_file_are_all_left_out(
    tmp_path: Path, coast: NDArray[np.uint16], nodata: float | None, decided: float | None
) -> None:
    stored = coast[:1].astype(np.float32)
    stored[0, :5], stored[0, 5:8], stored[0, 8:10] = -9999, np.nan, -3.4028234663852886e38
    hints = SceneHints() if decided is None else SceneHints(fill="is_fill", fill_value=decided)
    path = write(tmp_path / "mosaic.tif", stored, nodata=nodata)
    found = inspect_file(path, path.name, hints)
    convert(path, tmp_path / "cog.tif", path.name, hints)
    with open_scene(found.info, tmp_path / "cog.tif") as reader:
        read = reader.read([1])
    assert not read.valid[0, :10].any() and read.valid[0, 10:].all()
    assert np.array_equal(read.data[0, 10:], coast[0, 10:])


# Valid ranges, scales and codes of the user guides of MOD10, MOD15, MOD16, MOD17, MOD21, MCD43, VNP13 and VNP21: what lies beyond
# the range is a code (cloud, water, town, night), of which no mean is taken.
@pytest.mark.parametrize(
    ("name", "dtype", "good", "codes", "scale", "unit"),
    [
        ("MOD15A2H.A2020001.h18v04.061.2020015.Lai_500m.tif", "uint8", (5, 60), (249, 250, 253, 254), 0.1, "m2/m2"),
        ("MOD15A2H.061_Fpar_500m_doy2020001_aid0001.tif", "uint8", (5, 90), (249, 251, 254, 255), 0.01, "1"),
        ("MOD10A1.A2020001.h18v04.061.NDSI_Snow_Cover.tif", "uint8", (0, 100), (200, 211, 237, 250), 1.0, "%"),
        ("MOD16A2.A2020001.h18v04.061.ET_500m.tif", "int16", (10, 300), (32761, 32764, 32766, 32767), 0.1, "kg/m2"),
        ("MOD17A2H.A2020001.h18v04.061.Gpp_500m.tif", "int16", (10, 900), (32761, 32764, 32766, 32767), 1e-4, "kg/m2"),
        (
            "MCD43A4.A2020001.h18v04.061.Nadir_Reflectance_Band2.tif",
            "int16",
            (200, 6000),
            (32767, 32767, 32767, 32767),
            1e-4,
            "reflectance",
        ),
        ("VNP21A1D.A2020001.h18v04.002.LST_1KM.tif", "uint16", (13000, 16000), (0, 0, 0, 0), 0.02, "K"),
        ("MOD11A2.061_LST_Day_1km_doy2020001_aid0001.tif", "uint16", (13000, 16000), (0, 0, 0, 0), 0.02, "K"),
        (
            "VNP13A1.A2020001.h18v04.002.500_m_16_days_NDVI.tif",
            "int16",
            (1000, 9000),
            (-15000, -13000, -15000, -13000),
            1e-4,
            "1",
        ),
    ],
    ids=lambda v: v if isinstance(v, str) and ".tif" in v else "",
)
def test_codes_above_the_valid_range_are_no_values(
    tmp_path: Path, name: str, dtype: str, good: tuple[int, int], codes: tuple[int, ...], scale: float, unit: str
) -> None:
    rng = np.random.default_rng(4)
    stored = rng.integers(*good, (1, 20, 20)).astype(dtype)
    for k, code in enumerate(codes):
        stored[0, k] = code
    found, read = held(tmp_path, name, stored)
    assert (found.info.bands[0].scale, found.info.bands[0].unit) == (scale, unit)
    assert read.valid[0, 4:].all() and not read.valid[0, :4].any()
    assert np.allclose(read.data[0][read.valid[0]], stored[0, 4:].ravel() * scale)


@pytest.mark.parametrize(("waves", "unit", "roles"), [
    ((490, 560, 842, 665), "Nanometers", ["blue", "green", "unknown", "unknown"]),
    ((490, 560, 665, 842), "Nanometers", ["blue", "green", "red", "nir"]),
    ((0.49, 0.56, 0.665, 0.842), "Micrometers", ["blue", "green", "red", "nir"]),
    ((0.49, 0.56, 0.842, 0.665), "", ["blue", "green", "unknown", "unknown"]),
    ((1, 2, 3, 4), "Index", ["blue", "green", "red", "nir"])])
def test_names_that_contradict_the_wavelengths_are_not_believed(tmp_path: Path, waves: tuple[float, ...], unit: str,
                                                                roles: list[str]) -> None:
    path = tmp_path / "four.tif"
    with rasterio.open(path, "w", driver="GTiff", width=30, height=20, count=4, dtype="uint16") as out:
        out.write(np.random.default_rng(2).integers(1, 3000, (4, 20, 30)).astype("uint16"))
        out.descriptions = ("blue", "green", "red", "nir")
        for i, wave in enumerate(waves, 1):
            out.update_tags(i, wavelength=str(wave), **({"wavelength_units": unit} if unit else {}))
    found = inspect_file(path)
    assert [b.role for b in found.info.bands] == roles
    told = [f.text for f in found.findings if f.key == "wavelengths"]
    assert len(told) == ("unknown" in roles) and all("band 3 is called red and has 842 nm" in t for t in told)
