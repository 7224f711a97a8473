"""Our COGs: every stored value comes back, of each type and number of bands, and the file is laid out as a COG is."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import tifffile
from numpy.typing import NDArray

from apps.core.geo import Grid
from apps.imagery import writers
from apps.imagery.writers import interleave, write_cog
from tests.unit.imagery.rasters import write

TYPES = ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64", "complex64", "int64", "uint64")


def _planes(n_bands: int, dtype: str, shape: tuple[int, int] = (700, 900)) -> NDArray[Any]:
    rng = np.random.default_rng(3)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        # neighbours at both ends of the range: what a predictor takes off must come back
        found = rng.integers(info.min, info.max, size=(n_bands, *shape), dtype=kind, endpoint=True)
        found[:, ::7] = info.max
        found[:, 1::7] = info.min
        return found
    values = rng.normal(0, 1e6, size=(n_bands, *shape))
    if kind.kind == "c":
        return (values + 1j * rng.normal(size=values.shape)).astype(kind)
    values[:, ::5, ::3] = np.nan
    values[:, 3, 3] = np.inf
    return values.astype(kind)


def _check(path: Path, planes: NDArray[Any]) -> None:
    with rasterio.open(path) as dataset:
        np.testing.assert_array_equal(dataset.read(), planes)
        # a sample of an overview is the stored one of a pixel
        assert dataset.overviews(1) == [2]
        level = dataset.read(1, out_shape=(350, 450))
    values = planes[0]
    assert np.isin(level[np.isfinite(level)], values[np.isfinite(values)]).all()
    with tifffile.TiffFile(path) as file:
        full, half = file.pages[0], file.pages[1]
        assert isinstance(full, tifffile.TiffPage)
        offsets = [o for p in (full, half) for o in p.dataoffsets]
        # all directories first, then the small picture, then the large one
        assert max(p.offset for p in file.pages) < min(offsets)
        assert max(half.dataoffsets) < min(full.dataoffsets)
        assert full.is_tiled
        assert full.compression == tifffile.COMPRESSION.ZSTD
        separate = interleave(len(planes), planes.dtype.name) == "band"
        assert (full.planarconfig == tifffile.PLANARCONFIG.SEPARATE) is separate


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("n_bands", [1, 4, 13])
def test_every_value_of_every_type_comes_back(tmp_path: Path, dtype: str, n_bands: int) -> None:
    planes = _planes(n_bands, dtype, (700, 900) if n_bands < 13 else (600, 620))
    source = write(tmp_path / "s.tif", planes)
    write_cog(source, tmp_path / "cog.tif", n_bands=n_bands, dtype=dtype)
    if n_bands < 13:
        _check(tmp_path / "cog.tif", planes)
    else:
        with rasterio.open(tmp_path / "cog.tif") as dataset:
            np.testing.assert_array_equal(dataset.read(), planes)


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float32"])
def test_a_raster_too_large_to_lie_unpacked_gives_the_same_file(
    tmp_path: Path, dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planes = _planes(4, dtype)
    source = write(tmp_path / "s.tif", planes)
    write_cog(source, tmp_path / "small.tif", n_bands=4, dtype=dtype)
    monkeypatch.setattr(writers, "_STAGED_BYTES", 0)
    write_cog(source, tmp_path / "large.tif", n_bands=4, dtype=dtype)
    _check(tmp_path / "large.tif", planes)
    assert (tmp_path / "large.tif").read_bytes() == (tmp_path / "small.tif").read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"s.tif", "small.tif", "large.tif"}


def test_an_index_inflates_its_two_bands_alone(tmp_path: Path) -> None:
    planes = _planes(13, "uint16", (512, 512))
    write_cog(write(tmp_path / "s.tif", planes), tmp_path / "cog.tif", n_bands=13, dtype="uint16")
    with tifffile.TiffFile(tmp_path / "cog.tif") as file:
        # a block of each band by itself
        assert len(file.pages[0].dataoffsets) == 13


@pytest.mark.parametrize("most_bytes", [writers._LAYER_BYTES, 0])
@pytest.mark.parametrize("dtype, n_bands", [("float32", 1), ("uint8", 1), ("float32", 2)])
def test_a_layer_is_a_cog_laid_down_in_memory_or_in_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most_bytes: int, dtype: str, n_bands: int
) -> None:
    monkeypatch.setattr(writers, "_LAYER_BYTES", most_bytes)
    planes = _planes(n_bands, dtype, (1200, 1600))
    grid = Grid(crs="EPSG:32630", transform=(10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0), width=1600, height=1200)
    path, nodata = tmp_path / "layer.tif", float("nan") if dtype == "float32" else 255.0
    names = ("ndvi",) * n_bands
    data = [writers.layer_bytes(planes, grid, nodata=nodata, descriptions=names, tags={"RSURE_KIND": "raster"}) for _ in range(2)]
    assert data[0] == data[1]
    path.write_bytes(data[0])
    with rasterio.open(path) as dataset:
        np.testing.assert_array_equal(dataset.read(), planes)
        assert (dataset.crs.to_epsg(), tuple(dataset.transform)[:6]) == (32630, grid.transform)
        assert dataset.tags()["RSURE_KIND"] == "raster" and dataset.descriptions == names
        np.testing.assert_equal(dataset.nodata, nodata)
        assert dataset.overviews(1) == [2, 4]
        assert n_bands > 1 or dataset.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
    for level, factor in enumerate((2, 4)):
        with rasterio.open(path, overview_level=level) as dataset:
            np.testing.assert_array_equal(dataset.read(), planes[:, ::factor, ::factor])
