"""What is known of a file, and from where; what is not known is asked, never guessed."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from apps.core.errors import UserError
from apps.imagery.hints import SceneHints
from apps.imagery.inspect import Inspection, inspect_file
from tests.unit.imagery.rasters import write

SAMPLES = Path(__file__).resolve().parents[3] / "apps" / "imagery" / "samples"


def light(found: Inspection, key: str) -> str:
    return next(f.light for f in found.findings if f.key == key)


def roles(found: Inspection) -> list[str]:
    return [b.role for b in found.info.bands]


def scene(tmp_path: Path, planes: np.ndarray, name: str = "t.tif", hints: SceneHints | None = None, **options: Any) -> Inspection:
    return inspect_file(write(tmp_path / "file.tif", planes, **options), name, hints)


def test_fishbourne_has_undeclared_fill_and_unnamed_bands() -> None:
    path = SAMPLES / "geopandas_s2a_l2a_fishbourne.tif"
    found = inspect_file(path)
    assert roles(found) == ["unknown"] * 4
    assert light(found, "roles") == "warn"
    assert light(found, "nodata") == "block"
    (rule,) = found.info.fill_rules
    assert (rule.kind, rule.value, rule.source) == ("all_bands_equal", 0.0, "suspected")
    assert rule.share == pytest.approx(19927 / 60501)
    assert found.statistics is not None
    assert (found.statistics.n_px, found.statistics.n_valid_px) == (60501, 40574)
    assert [b.n_valid for b in found.statistics.bands] == [40574] * 4
    with rasterio.open(path) as dataset:
        planes = dataset.read().astype(float)
    valid = ~(planes == 0).all(axis=0)
    for i, band in enumerate(found.statistics.bands):
        assert band.mean == pytest.approx(planes[i][valid].mean(), rel=1e-9)
        assert band.std == pytest.approx(planes[i][valid].std(), rel=1e-9)
        assert (band.p2, band.median, band.p98) == pytest.approx(tuple(np.percentile(planes[i][valid], (2, 50, 98))))
    assert (found.info.gsd_m, found.info.gsd_source) == (10.0, "derived")
    told = inspect_file(path, "", SceneHints(roles={"blue": 1, "green": 2, "red": 3, "nir": 4}, fill="is_fill", fill_value=0))
    assert roles(told) == ["blue", "green", "red", "nir"]
    assert {b.role_source for b in told.info.bands} == {"person"}
    assert light(told, "nodata") == "ok"
    real = inspect_file(path, "", SceneHints(fill="is_real"))
    assert real.info.valid_share == 1.0
    assert real.info.fill_rules == ()


def test_landsat7_by_its_band_names() -> None:
    found = inspect_file(SAMPLES / "landsat7_p15r32_2002-11-25.tif")
    assert roles(found) == ["blue", "green", "red", "nir", "swir1", "swir2", "thermal1", "thermal2"]
    assert found.info.sensor == "Landsat 7 ETM+"
    # a sentence that begins with a capital leaves names as they are
    assert "By the band names of Landsat 7 ETM+." in next(f.text for f in found.findings if f.key == "roles")
    assert found.info.acquired_at == datetime(2002, 11, 25, tzinfo=UTC)
    assert found.info.acquired_source == "declared"
    assert found.info.valid_share == 1.0


def test_mod13_scale_and_fill() -> None:
    found = inspect_file(SAMPLES / "mod13q1_sinop" / "TERRA_MODIS_012010_NDVI_2014-02-18.jp2")
    (band,) = found.info.bands
    assert (band.role, band.scale, band.valid_range, band.role_source) == ("ndvi", 1e-4, (-2000.0, 10000.0), "profile")
    assert [r.kind for r in found.info.fill_rules] == ["outside_range"]
    assert found.info.gsd_m == pytest.approx(231.656, abs=1e-3)
    assert (found.info.acquired_at, found.info.acquired_source) == (datetime(2014, 2, 18, tzinfo=UTC), "name")


def test_aerial_colours_are_declared_and_255_is_questioned() -> None:
    found = inspect_file(SAMPLES / "OSBS_029.tif")
    assert roles(found) == ["red", "green", "blue"]
    assert light(found, "saturation") == "warn"
    told = inspect_file(SAMPLES / "OSBS_029.tif", "", SceneHints(nodata_is_real=True))
    assert told.info.valid_share == 1.0
    assert all(f.key != "saturation" for f in told.findings)


def test_a_picture_has_no_place_until_somebody_gives_a_gsd() -> None:
    path = SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png"
    found = inspect_file(path)
    assert found.info.grid.crs is None
    assert found.info.effective_gsd_m is None
    assert {f.code for f in found.findings} >= {"NEEDS_CRS", "NEEDS_GSD", "NEEDS_DATES"}
    told = inspect_file(path, "", SceneHints(gsd_m=0.1))
    assert (told.info.gsd_m, told.info.gsd_source) == (0.1, "person")
    with pytest.raises(UserError):
        inspect_file(path, "", SceneHints(crs="EPSG:32612"))


@pytest.mark.shared_data
def test_sentinel2_stack_by_its_band_names(shared_data: Path) -> None:
    found = inspect_file(shared_data / "water_flood" / "Spain_7370579_S2Hand.tif")
    assert roles(found) == [
        "coastal", "blue", "green", "red", "rededge1", "rededge2", "rededge3", "nir", "nir08", "watervapour", "cirrus", "swir1",
        "swir2",
    ]  # fmt: skip
    assert found.info.sensor == "Sentinel-2 MSI"
    assert found.info.gsd_m == pytest.approx(8.863, abs=1e-3)
    assert light(found, "scale") == "warn"  # the offset of later products cannot be ruled out without a date
    dated = inspect_file(
        shared_data / "water_flood" / "Spain_7370579_S2Hand.tif", "", SceneHints(acquired_at=datetime(2019, 9, 17, tzinfo=UTC))
    )
    assert light(dated, "scale") == "ok"


@pytest.mark.shared_data
def test_single_band_files_by_their_names(shared_data: Path) -> None:
    found = inspect_file(shared_data / "multispectral" / "landsat8_talca_2016" / "LC82320832016040LGN00_sr_band4.tif")
    assert roles(found) == ["red"]
    assert found.info.bands[0].role_source == "name"
    assert found.info.acquired_at == datetime(2016, 2, 9, tzinfo=UTC)
    label = inspect_file(shared_data / "water_flood" / "Spain_7370579_LabelHand.tif")
    assert label.info.valid_share == 1.0
    assert label.info.fill_rules == ()


def test_ambiguous_band_names_stay_unknown(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tif", np.ones((3, 8, 8), np.uint16))
    with rasterio.open(path, "r+") as dataset:
        dataset.descriptions = ("B2", "B3", "B4")  # Sentinel-2: blue, green, red; Landsat 7: green, red, nir
    assert roles(inspect_file(path, "stack.tif")) == ["unknown"] * 3
    assert roles(inspect_file(path, "S2A_stack.tif")) == ["blue", "green", "red"]
    assert roles(inspect_file(path, "LE07_stack.tif")) == ["green", "red", "nir"]


def test_four_float_bands_without_names_stay_unknown(tmp_path: Path) -> None:
    found = scene(tmp_path, np.random.default_rng(0).random((4, 20, 20)).astype(np.float32))
    assert roles(found) == ["unknown"] * 4


def test_a_person_may_move_a_role(tmp_path: Path) -> None:
    path = write(tmp_path / "t.tif", np.ones((3, 8, 8), np.uint8), photometric="RGB")
    found = inspect_file(path, "t.tif", SceneHints(roles={"red": 3}))
    assert roles(found) == ["unknown", "green", "red"]
    with pytest.raises(UserError, match="not there"):
        inspect_file(path, "t.tif", SceneHints(roles={"red": 9}))


@pytest.mark.parametrize("n_bands", [1, 275])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint32", "int64", "float64"])
def test_one_to_275_bands_of_any_type(tmp_path: Path, n_bands: int, dtype: str) -> None:
    planes = np.random.default_rng(0).integers(1, 90, (n_bands, 12, 16)).astype(dtype)
    found = scene(tmp_path, planes)
    assert len(found.info.bands) == n_bands
    assert found.info.valid_share == 1.0
    assert found.statistics is not None
    assert found.statistics.bands[-1].mean == pytest.approx(planes[-1].mean())


def test_bits_are_widened(tmp_path: Path) -> None:
    planes = (np.arange(400).reshape(1, 20, 20) % 2).astype(np.uint8)
    found = scene(tmp_path, planes, nbits=1)
    assert found.statistics is not None
    assert (found.statistics.bands[0].high, found.statistics.bands[0].mean) == (1.0, 0.5)
    assert "widened" in next(f.text for f in found.findings if f.key == "file")


def test_palettes(tmp_path: Path) -> None:
    from PIL import Image

    classes = (np.arange(400).reshape(20, 20) % 3).astype(np.uint8)
    path = write(tmp_path / "t.tif", classes[None])
    with rasterio.open(path, "r+") as dataset:
        dataset.write_colormap(1, {0: (9, 9, 9, 255), 1: (0, 0, 255, 255), 2: (255, 0, 0, 255)})
    assert roles(inspect_file(path, "cover.tif")) == ["class"]
    picture = Image.fromarray(classes, "P")
    picture.putpalette([9, 9, 9, 0, 0, 255, 255, 0, 0])
    picture.save(tmp_path / "p.png")
    found = inspect_file(tmp_path / "p.png")
    assert roles(found) == ["red", "green", "blue"]
    assert found.statistics is not None
    assert [b.high for b in found.statistics.bands] == [255.0, 9.0, 255.0]


def test_alpha_is_no_band_of_its_own(tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.full((30, 30, 4), 200, np.uint8)
    pixels[:3, :, 3] = 0
    Image.fromarray(pixels, "RGBA").save(tmp_path / "a.png")
    found = inspect_file(tmp_path / "a.png")
    assert roles(found) == ["red", "green", "blue", "alpha"]
    assert found.info.valid_share == pytest.approx(0.9)


def test_black_shadow_is_real_and_a_black_frame_is_fill(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(40, 200, (3, 60, 60)).astype(np.uint8)
    shadow = pixels.copy()
    shadow[:, 20:30, 20:30] = 0
    assert scene(tmp_path, shadow, photometric="RGB").info.valid_share == 1.0
    frame = pixels.copy()
    frame[:, :6] = 0
    assert scene(tmp_path, frame, photometric="RGB").info.valid_share == pytest.approx(0.9)


def test_sentinel_values_are_found_without_a_flag(tmp_path: Path) -> None:
    heights = np.random.default_rng(0).uniform(200, 900, (1, 40, 40)).astype(np.float32)
    heights[0, :8] = -9999
    found = scene(tmp_path, heights)
    assert found.info.valid_share == pytest.approx(0.8)
    assert light(found, "nodata") == "block"


def test_zeros_of_one_band_are_asked_about_but_kept(tmp_path: Path) -> None:
    values = np.random.default_rng(0).integers(3000, 9000, (1, 40, 40)).astype(np.uint16)
    values[0, :8] = 0
    found = scene(tmp_path, values)
    assert found.info.valid_share == 1.0
    assert light(found, "nodata") == "warn"


def test_grids_that_are_turned_and_places_that_cannot_be(tmp_path: Path) -> None:
    planes = np.ones((2, 30, 30), np.float32)
    turned = scene(tmp_path, planes, transform=(8.66, 5.0, 600000.0, 5.0, -8.66, 5600000.0))
    assert turned.info.gsd_m == pytest.approx(10.0, abs=0.01)
    assert "rotated" in next(f.text for f in turned.findings if f.key == "gsd")
    wrong = scene(tmp_path, planes, crs="EPSG:4326", transform=(10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0))
    assert light(wrong, "crs") == "block"
    assert wrong.info.grid.crs is None
    lost = scene(tmp_path, planes, crs=None)
    assert light(lost, "crs") == "warn"
    told = scene(tmp_path, planes, crs=None, hints=SceneHints(crs="EPSG:32630"))
    assert told.info.grid.crs == "EPSG:32630"
    with pytest.raises(UserError, match="not known"):
        scene(tmp_path, planes, crs=None, hints=SceneHints(crs="EPSG:nope"))


def test_a_scene_over_the_antimeridian(tmp_path: Path) -> None:
    grid = (1000.0, 0.0, 250000.0, 0.0, -1000.0, 5600000.0)
    found = scene(tmp_path, np.ones((1, 50, 100), np.float32), crs="EPSG:32601", transform=grid)
    west, _, east, _ = found.info.grid.lonlat_bounds()
    assert west > east
    assert "180°" in next(f.text for f in found.findings if f.key == "crs")


@pytest.mark.parametrize("overlap", [True, False])
def test_a_missing_value_in_some_bands_empties_those_bands(tmp_path: Path, overlap: bool) -> None:
    """−9999 without a flag, in rows of one band and columns of the other: neither mean holds it."""
    planes = np.random.default_rng(3).integers(200, 6000, (2, 60, 60)).astype("int16")
    planes[0, :20] = -9999
    planes[1, 30 if not overlap else 0 :, :10] = -9999
    found = scene(tmp_path, planes, crs="EPSG:32633")
    assert light(found, "nodata") == "block"
    assert [b.nodata for b in found.info.bands] == [-9999.0, -9999.0]
    assert found.statistics is not None
    for band, plane in zip(found.statistics.bands, planes.astype(float), strict=True):
        assert band.mean == pytest.approx(plane[plane != -9999].mean())
    real = scene(tmp_path, planes, hints=SceneHints(fill="is_real"), crs="EPSG:32633")
    assert [b.nodata for b in real.info.bands] == [None, None]
    told = scene(tmp_path, planes, hints=SceneHints(fill="is_fill", fill_value=-9999), crs="EPSG:32633")
    assert [b.nodata for b in told.info.bands] == [-9999.0, -9999.0]


def test_a_nodata_of_nan_is_told_in_finite_numbers(tmp_path: Path) -> None:
    """NaN as declared nodata is common; what is kept of the scene stays JSON that a database takes."""
    planes = np.random.default_rng(4).random((2, 30, 30)).astype("float32")
    planes[:, :6] = np.nan
    found = scene(tmp_path, planes, crs="EPSG:32633", nodata=float("nan"))
    json.dumps(found.info.model_dump(mode="json"), allow_nan=False)
    assert found.statistics is not None
    assert [b.n_valid for b in found.statistics.bands] == [24 * 30] * 2
    assert found.statistics.bands[0].mean == pytest.approx(planes[0, 6:].mean(dtype="float64"))


def test_a_scale_that_is_no_number_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "file.tif", np.ones((1, 8, 8), "uint16"))
    with rasterio.open(path, "r+") as dataset:
        dataset.scales = (float("nan"),)
    with pytest.raises(UserError, match="header is broken"):
        inspect_file(path, "t.tif")
