"""Blocks that are unpacked without GDAL: the same values as GDAL's, or GDAL is asked."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from rasterio.windows import Window

from apps.core.errors import FaultError, UserError
from apps.imagery import readers
from apps.imagery.blocks import BlockFile, BlockForm
from apps.imagery.readers import open_scene
from apps.imagery.writers import write_cog
from tests.unit.imagery.rasters import describe, write

ZSTD: dict[str, Any] = {"tiled": True, "blockxsize": 64, "blockysize": 32, "compress": "ZSTD"}


def _planes(dtype: str, n: int = 3, shape: tuple[int, int] = (150, 201)) -> NDArray[Any]:
    """Values over the whole range of the type: differences of neighbours wrap around."""
    rng, kind = np.random.default_rng(3), np.dtype(dtype)
    if kind.kind == "f":
        return rng.normal(0, 1e6, (n, *shape)).astype(kind)
    ends = np.iinfo(kind)
    return rng.integers(ends.min, ends.max, (n, *shape), dtype=kind, endpoint=True)


def _form(path: Path) -> BlockForm | None:
    with rasterio.open(path) as dataset:
        return BlockForm.of(dataset, path)


# floats with differences of whole numbers are none of ours: GDAL reads them
FORMS = [(dtype, predictor) for dtype in ("uint8", "int8", "uint16", "int16", "uint32", "int32", "float32", "float64")
         for predictor in ((1,) if dtype.startswith("float") else (1, 2))]  # fmt: skip


@pytest.mark.parametrize(("dtype", "predictor"), FORMS)
@pytest.mark.parametrize("interleave", ["band", "pixel"])
def test_values_are_those_of_gdal(tmp_path: Path, dtype: str, interleave: str, predictor: int) -> None:
    planes = _planes(dtype)
    path = write(tmp_path / "t.tif", planes, interleave=interleave, predictor=predictor, **ZSTD)
    form = _form(path)
    assert form is not None and form.shape == (32, 64) and form.has_differences == (predictor == 2)
    with rasterio.open(path) as dataset:
        held = BlockFile(path, form, 201, 150, lambda: dataset)
        # whole blocks, the ragged ones at the ends of rows and columns, all of it
        for window in ((64, 32, 128, 64), (192, 128, 9, 22), (0, 0, 201, 150)):
            assert held.covers(window)
            found = held.read([3, 1], window)
            assert found is not None
            np.testing.assert_array_equal(found, dataset.read([3, 1], window=Window(*window)))
        assert not held.covers((1, 0, 64, 32)) and not held.covers((0, 0, 65, 32))
        held.close()


@pytest.mark.parametrize("n_bands, dtype", [(1, "uint16"), (3, "uint8"), (4, "uint16"), (2, "int32")])
def test_cogs_of_ours_are_read_so(tmp_path: Path, n_bands: int, dtype: str) -> None:
    planes = _planes(dtype, n_bands, (700, 1100))
    write_cog(write(tmp_path / "t.tif", planes), tmp_path / "cog.tif", n_bands=n_bands, dtype=dtype)
    assert _form(tmp_path / "cog.tif") is not None
    with open_scene(describe(planes), tmp_path / "cog.tif") as reader:
        np.testing.assert_array_equal(reader.read([n_bands], (512, 512, 588, 188), physical=False).data[0],
                                      planes[n_bands - 1, 512:, 512:])
        np.testing.assert_array_equal(reader.read(list(range(1, n_bands + 1)), physical=False).data, planes)
        np.testing.assert_array_equal(reader.read([1], (500, 3, 600, 640), physical=False).data[0], planes[0, 3:643, 500:])


@pytest.mark.parametrize("dtype, options", [
    ("uint16", {"compress": "DEFLATE"}), ("uint16", {"compress": "LZW", "predictor": 2}), ("uint16", {"compress": None}),
    ("float32", {"predictor": 3}), ("float32", {"predictor": 2}), ("complex64", {}), ("uint16", {"nbits": 12}),
    ("uint16", {"endianness": "BIG"}),
])  # fmt: skip
def test_of_other_files_gdal_is_asked(tmp_path: Path, dtype: str, options: dict[str, Any]) -> None:
    planes = np.random.default_rng(1).integers(0, 4000, (2, 90, 70)).astype(dtype)
    path = write(tmp_path / "t.tif", planes, **{k: v for k, v in (ZSTD | options).items() if v is not None})
    assert _form(path) is None
    with open_scene(describe(planes), path) as reader:
        np.testing.assert_array_equal(reader.read([2, 1], physical=False).data, planes[::-1])


def test_a_gdal_that_does_not_tell_predictors_is_asked_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert readers._tells_predictors()
    planes = _planes("uint16", 1, (64, 64))
    path = write(tmp_path / "t.tif", planes, predictor=2, **ZSTD)
    monkeypatch.setattr(readers, "_tells_predictors", lambda: False)
    with open_scene(describe(planes), path) as reader:
        assert reader._form is None
        np.testing.assert_array_equal(reader.read([1], physical=False).data, planes)


def test_strips_are_read_so_but_for_the_last_short_one(tmp_path: Path) -> None:
    planes = _planes("uint16", 1, (100, 50))
    path = write(tmp_path / "t.tif", planes, compress="ZSTD", predictor=2, blockysize=32)
    form = _form(path)
    assert form is not None and form.shape == (32, 50)
    with rasterio.open(path) as dataset:
        held = BlockFile(path, form, 50, 100, lambda: dataset)
        np.testing.assert_array_equal(held.read([1], (0, 32, 50, 64)), planes[:, 32:96])
        assert held.read([1], (0, 96, 50, 4)) is None
        held.close()
    with open_scene(describe(planes), path) as reader:
        np.testing.assert_array_equal(reader.read([1], physical=False).data, planes)


def test_blocks_that_were_never_written_hold_the_fill_value(tmp_path: Path) -> None:
    path = tmp_path / "t.tif"
    planes = np.full((1, 128, 128), 7, dtype="uint16")
    with rasterio.open(path, "w", driver="GTiff", count=1, height=128, width=128, dtype="uint16", nodata=7, sparse_ok=True,
                       **ZSTD) as out:  # fmt: skip
        planes[0, :32, :64] = np.arange(64)
        out.write(planes[:, :32, :64], window=Window(0, 0, 64, 32))
    assert _form(path) is not None
    with open_scene(describe(planes, crs=None), path) as reader:
        np.testing.assert_array_equal(reader.read([1], physical=False).data, planes)


@pytest.mark.parametrize("what", ["garbled", "cut off"])
def test_broken_blocks_are_an_error_and_no_values(tmp_path: Path, what: str) -> None:
    planes = _planes("uint16", 1, (128, 128))
    path = write(tmp_path / "t.tif", planes, predictor=2, **ZSTD)
    with rasterio.open(path) as dataset:
        at, n = (int(dataset.get_tag_item(f"BLOCK_{w}_1_3", "TIFF", bidx=1)) for w in ("OFFSET", "SIZE"))
    data = bytearray(path.read_bytes())
    with open_scene(describe(planes), path) as reader:
        if what == "garbled":
            data[at:at + n] = bytes(n)
        path.write_bytes(data if what == "garbled" else data[:at + n // 2])
        np.testing.assert_array_equal(reader.read([1], (0, 0, 64, 32), physical=False).data, planes[:, :32, :64])
        with pytest.raises(UserError, match="cannot be read"):
            reader.read([1], physical=False)


def test_threads_share_the_file_and_rest_and_close_end_it(tmp_path: Path) -> None:
    planes = _planes("uint16", 2, (512, 512))
    path = write(tmp_path / "t.tif", planes, predictor=2, **ZSTD)
    places = [(c, r, 64, 32) for r in range(0, 512, 32) for c in range(0, 512, 64)]
    reader = open_scene(describe(planes), path)

    def is_right(place: tuple[int, int, int, int]) -> bool:
        c, r, w, h = place
        return np.array_equal(reader.read([2], place, physical=False).data[0], planes[1, r:r + h, c:c + w])

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(is_right, places))
    reader.rest()
    assert is_right(places[5])
    reader.close()
    with pytest.raises(FaultError, match="closed"):
        reader.read([1])
