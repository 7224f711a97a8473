"""The reader: one nodata policy, windows, overviews, scale once, threads."""

import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import rasterio

from apps.core.errors import FaultError, UserError
from apps.core.geo import Band, FillRule
from apps.core.ports import RasterReader
from apps.imagery.readers import open_scene
from apps.imagery.statistics import scene_statistics
from apps.imagery.writers import write_cog
from tests.unit.imagery.rasters import describe, write

DTYPES = ["uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64"]


def _planes(dtype: str, n: int = 3, size: int = 40) -> np.ndarray:
    rng = np.random.default_rng(1)
    return rng.integers(1, 100, (n, size, size + 7)).astype(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("nodata", [None, 5.0])
@pytest.mark.parametrize("crs", ["EPSG:32630", "EPSG:4326", None])
def test_values_and_validity_are_those_of_the_file(tmp_path: Path, dtype: str, nodata: float | None, crs: str | None) -> None:
    planes = _planes(dtype)
    bands = tuple(Band(index=i + 1, nodata=nodata) for i in range(3))
    path = write(tmp_path / "t.tif", planes, crs=crs)
    with open_scene(describe(planes, *bands, crs=crs), path) as reader:
        assert isinstance(reader, RasterReader)
        part = reader.read([3, 1], (4, 5, 20, 11), physical=False)
        whole = reader.read([1, 2, 3])
    assert part.data.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(part.data, planes[[2, 0], 5:16, 4:24])
    np.testing.assert_array_equal(part.valid, planes[[2, 0], 5:16, 4:24] != nodata if nodata else True)
    assert part.grid.xy(0, 0) == pytest.approx((600040.0, 5599950.0))
    np.testing.assert_array_equal(np.isnan(whole.data), ~whole.valid)


def test_fill_is_judged_over_all_bands_also_when_one_is_read(tmp_path: Path) -> None:
    planes = _planes("uint16", 12)
    planes[:, :10] = 0  # fill
    planes[4, 20:30] = 0  # a real zero in one band
    path = write(tmp_path / "t.tif", planes)
    info = describe(planes, fill_rules=(FillRule(kind="all_bands_equal", value=0.0),))
    with open_scene(info, path) as reader:
        one = reader.read([5])
        all_bands = reader.read(list(range(1, 13)))
    assert not one.valid[0, :10].any()
    assert one.valid[0, 10:].all()
    np.testing.assert_array_equal(one.valid[0], all_bands.valid[4])


def test_overviews_give_stored_values_and_exact_fill(tmp_path: Path) -> None:
    planes = _planes("uint16", 2, 1500)
    planes[:, :, :400] = 0
    source = write(tmp_path / "t.tif", planes)
    write_cog(source, tmp_path / "cog.tif", n_bands=2, dtype="uint16")
    with rasterio.open(tmp_path / "cog.tif") as dataset:
        assert dataset.overviews(1)
    info = describe(planes, fill_rules=(FillRule(kind="all_bands_equal", value=0.0),))
    with open_scene(info, tmp_path / "cog.tif") as reader:
        small = reader.read([1], out_shape=(100, 100), physical=False)
    assert set(np.unique(small.data)) <= set(np.unique(planes))
    np.testing.assert_array_equal(small.valid[0], small.data[0] != 0)
    assert 0.2 < 1 - small.valid.mean() < 0.32
    assert small.grid.bounds == pytest.approx(info.grid.bounds)


def test_scale_and_offset_are_applied_once(tmp_path: Path) -> None:
    planes = _planes("int16", 1)
    band = Band(index=1, role="ndvi", scale=1e-4, offset=0.5, unit="1", valid_range=(10, 90))
    info = describe(planes, band, fill_rules=(FillRule(kind="outside_range", source="profile"),))
    path = write(tmp_path / "t.tif", planes, nodata=None)
    with open_scene(info, path) as reader:
        physical, stored = reader.read([1]), reader.read([1], physical=False)
    inside = (planes >= 10) & (planes <= 90)
    np.testing.assert_array_equal(physical.valid, inside)
    np.testing.assert_allclose(physical.data[inside], planes[inside] * 1e-4 + 0.5, rtol=1e-6)
    assert (physical.unit, stored.unit) == ("1", "DN")


def test_alpha_and_inner_masks_hide_pixels(tmp_path: Path) -> None:
    planes = _planes("uint8", 4)
    planes[3] = 255
    planes[3, :5] = 0
    bands = (*(Band(index=i, role=r) for i, r in ((1, "red"), (2, "green"), (3, "blue"))), Band(index=4, role="alpha"))
    with open_scene(describe(planes, *bands), write(tmp_path / "t.tif", planes)) as reader:
        assert not reader.read([1]).valid[0, :5].any()
        assert reader.read([1]).valid[0, 5:].all()
    masked = write(tmp_path / "m.tif", planes[:3])
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(masked, "r+") as dataset:
        dataset.write_mask(planes[3])
    write_cog(masked, tmp_path / "cog.tif", n_bands=3, dtype="uint8")
    with open_scene(describe(planes[:3]), tmp_path / "cog.tif") as reader:
        np.testing.assert_array_equal(reader.read([2]).valid[0], planes[3] != 0)


def test_not_a_number_is_invalid(tmp_path: Path) -> None:
    planes = _planes("float32", 1)
    planes[0, 3, 4], planes[0, 6, 7] = np.nan, np.inf
    with open_scene(describe(planes), write(tmp_path / "t.tif", planes)) as reader:
        valid = reader.read([1]).valid
    assert valid.sum() == planes.size - 2


def test_windows_cover_each_pixel_once(tmp_path: Path) -> None:
    planes = _planes("uint8", 1, 1300)
    write_cog(write(tmp_path / "t.tif", planes), tmp_path / "cog.tif", n_bands=1, dtype="uint8")
    with open_scene(describe(planes), tmp_path / "cog.tif") as reader:
        seen = np.zeros(planes.shape[1:], dtype=int)
        for col, row, width, height in reader.windows(600):
            assert col % 512 == row % 512 == 0
            seen[row : row + height, col : col + width] += 1
    assert (seen == 1).all()


def test_threads_read_at_once(tmp_path: Path) -> None:
    planes = _planes("uint16", 2, 600)
    write_cog(write(tmp_path / "t.tif", planes), tmp_path / "cog.tif", n_bands=2, dtype="uint16")
    with open_scene(describe(planes), tmp_path / "cog.tif") as reader, ThreadPoolExecutor(4) as pool:
        windows = list(reader.windows(512)) * 10
        parts = list(pool.map(lambda w: reader.read([2], w, physical=False).data, windows))
    for (col, row, width, height), part in zip(windows, parts, strict=True):
        np.testing.assert_array_equal(part[0], planes[1, row : row + height, col : col + width])


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    planes = _planes("uint8", 2)
    path = write(tmp_path / "t.tif", planes)
    with open_scene(describe(planes), path) as reader:
        with pytest.raises(ValueError, match="no band 3"):
            reader.read([3])
        with pytest.raises(ValueError, match="not inside"):
            reader.read([1], (40, 0, 20, 5))
    with pytest.raises(FaultError):
        open_scene(describe(_planes("uint8", 2, 41)), path)
    (tmp_path / "broken.tif").write_bytes(path.read_bytes()[:40])
    with pytest.raises(UserError) as caught:
        open_scene(describe(planes), tmp_path / "broken.tif")
    assert caught.value.code == "UNREADABLE"


def test_statistics_of_a_large_scene_keep_samples_not_windows(tmp_path: Path) -> None:
    planes = np.random.default_rng(6).integers(0, 250, (1, 4096, 4096)).astype("uint8")
    write(tmp_path / "t.tif", planes, tiled=True, blockxsize=512, blockysize=512)
    with open_scene(describe(planes), tmp_path / "t.tif") as reader:
        tracemalloc.start()
        found = scene_statistics(reader)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    # sixteen windows of a million float64 are 134 MB; a few at once, and a million samples, are less
    assert peak < 80e6
    assert found.bands[0].mean == pytest.approx(planes.mean(dtype="float64"))
    assert found.bands[0].median == pytest.approx(np.median(planes), abs=1)


def test_a_reader_at_rest_holds_no_file_and_reads_again(tmp_path: Path) -> None:
    planes = _planes("uint16")
    path = write(tmp_path / "t.tif", planes)

    def n_open() -> int:
        return sum(1 for held in Path("/proc/self/fd").iterdir() if held.exists() and held.resolve() == path.resolve())

    with open_scene(describe(planes), path) as reader, ThreadPoolExecutor(3) as pool:
        assert n_open() == 1
        parts = list(pool.map(lambda k: reader.read([1], (k, 0, 5, 5), physical=False).data, range(12)))
        # the file that was opened to look at it is read through, too
        assert 1 <= n_open() <= 3
        reader.rest()
        assert n_open() == 0
        again = list(pool.map(lambda k: reader.read([1], (k, 0, 5, 5), physical=False).data, range(12)))
    np.testing.assert_array_equal(np.array(parts), np.array(again))
    assert n_open() == 0
