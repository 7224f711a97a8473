"""Writing rasters: cloud-optimised GeoTIFFs, of result layers and (from ingest) of scenes."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from PIL import Image
from rasterio.crs import CRS
from rasterio.enums import MaskFlags, Resampling
from rasterio.shutil import copy as rasterio_copy
from rasterio.transform import Affine

from apps.core.geo.grid import Grid
from apps.core.ports import Window
from apps.imagery.readers import GDAL_OPTIONS

# The blocks of all bands of one place stay below this: whoever reads them all holds them at once.
_BLOCK_BYTES = 8 * 2**20
# A picture's bands are looked at together, and pack better so; of other rasters mostly a few bands are read.
_PICTURE_BANDS = 4
# What is written is passed through once: a larger cache only costs memory. Two threads inflate what is converted.
STREAM_OPTIONS: dict[str, Any] = GDAL_OPTIONS | {"GDAL_CACHEMAX": 64 * 2**20, "GDAL_NUM_THREADS": "2"}
# Rasters up to this many bytes of pixels are laid down unpacked while they are converted.
_STAGED_BYTES = 4 * 2**30
# A layer up to this many bytes is laid down in memory, larger ones in a file.
_LAYER_BYTES = 48 * 2**20


def block_size(n_bands: int, itemsize: int) -> int:
    """Side of a COG block in pixels: 512, smaller where many or wide bands would make a block heavy."""
    side = 512
    while side > 128 and side * side * n_bands * itemsize > _BLOCK_BYTES:
        side //= 2
    return side


def interleave(n_bands: int, dtype: str) -> str:
    """How a COG of ours lays its bands down: ``band``, each in blocks of its own, so that an index inflates two of them and not
    all; ``pixel`` for pictures, up to four bands of bytes, and where there is one band."""
    is_picture = n_bands <= _PICTURE_BANDS and np.dtype(dtype).itemsize == 1
    return "pixel" if n_bands == 1 or is_picture else "band"


def _packing(dtype: str, *, is_layer: bool = False) -> dict[str, Any]:
    """Zstandard, which is read three times as fast as deflate and packs as well; with a predictor its least level serves. Floats
    of a layer are mostly made of whole numbers: they repeat, and over the project's scenes pack as well without one (0.3 to 0.9
    of their size against 0.25 to 0.9), in half the time."""
    predictor = {"c": 1, "f": 1 if is_layer else 3}.get(np.dtype(dtype).kind, 2)
    return {"compress": "ZSTD", "zstd_level": 1, "predictor": predictor}


def write_cog(source: Any, target: Path, *, n_bands: int, dtype: str) -> None:
    """Copies an open dataset (or the GeoTIFF at a path) to a COG: zstd with predictor, overviews of nearest samples (each
    stored value stays a stored value, so masks stay exact), mask and colour table kept. Streams: memory does not grow
    with the raster.

    The pixels are laid down first, beside ``target``, unpacked unless the raster is too large for that: overviews of those cost
    a tenth of what the COG driver takes to make them of packed ones. A raster with a mask of its own goes the driver's way,
    which interleaves its bands by pixel."""
    if isinstance(source, str | Path):
        with rasterio.open(source, driver="GTiff") as dataset:
            write_cog(dataset, target, n_bands=n_bands, dtype=dtype)
        return
    kind = np.dtype(dtype)
    side = block_size(n_bands, kind.itemsize)
    others = {MaskFlags.alpha, MaskFlags.nodata}
    if any(MaskFlags.per_dataset in f and not others & set(f) for f in source.mask_flag_enums):
        rasterio_copy(source, target, driver="COG", compress="ZSTD", level=1, predictor="NO" if kind.kind == "c" else "YES",
                      overview_resampling="NEAREST", overview_compress="ZSTD", blocksize=side, bigtiff="IF_SAFER", num_threads=2,
                      overviews="IGNORE_EXISTING")  # fmt: skip
        return
    is_large = source.width * source.height * n_bands * kind.itemsize > _STAGED_BYTES
    with tempfile.TemporaryDirectory(prefix="staged-", dir=target.parent) as folder:
        plain = Path(folder) / "plain.tif"
        rasterio_copy(source, plain, driver="GTiff", tiled=True, blockxsize=side, blockysize=side, bigtiff="IF_SAFER",
                      interleave=interleave(n_bands, dtype), num_threads=2, **(_packing(dtype) if is_large else {}))  # fmt: skip
        write_cog_of_plain(plain, target, n_bands=n_bands, dtype=dtype)


def write_cog_of_plain(plain: Path, target: Path, *, n_bands: int, dtype: str, side: int | None = None,
                       is_layer: bool = False) -> None:
    """The COG of a GeoTIFF of ours, to which overviews are added. ``side`` of a block in pixels: a multiple of 16, by
    ``block_size`` without."""
    side = side or block_size(n_bands, np.dtype(dtype).itemsize)
    with rasterio.open(plain, "r+", driver="GTiff") as dataset:
        dataset.build_overviews(overview_factors(dataset.shape, side), Resampling.nearest)
    _pack(plain, target, n_bands=n_bands, dtype=dtype, side=side, is_layer=is_layer)


def _pack(source: Any, target: Path, *, n_bands: int, dtype: str, side: int, is_layer: bool = False) -> None:
    """A GeoTIFF of a dataset and its overviews, laid out as a COG."""
    rasterio_copy(source, target, driver="GTiff", copy_src_overviews="YES", tiled=True, blockxsize=side, blockysize=side,
                  interleave=interleave(n_bands, dtype), bigtiff="IF_SAFER", num_threads=2,
                  **_packing(dtype, is_layer=is_layer))  # fmt: skip


def overview_factors(shape: tuple[int, int], side: int) -> list[int]:
    """2, 4, … until the overview fits into one block of that side."""
    factors: list[int] = []
    while max(shape) > side * 2 ** len(factors):
        factors.append(2 ** (len(factors) + 1))
    return factors


def grid_profile(grid: Grid) -> dict[str, Any]:
    """Size, CRS and transform of a grid as rasterio's keywords."""
    profile: dict[str, Any] = {"width": grid.width, "height": grid.height}
    if grid.crs is not None:
        profile["crs"] = CRS.from_user_input(grid.crs)
    if grid.crs is not None or grid.transform != (1.0, 0.0, 0.0, 0.0, 1.0, 0.0):
        profile["transform"] = Affine(*grid.transform)
    return profile


def layer_bytes(
    planes: NDArray[Any],
    grid: Grid,
    *,
    nodata: float | None,
    descriptions: Sequence[str] = (),
    tags: Mapping[str, str] | None = None,
    is_picture: bool = False,
) -> bytes:
    """A layer (bands, rows, columns) on ``grid`` as the bytes of a COG; the same input gives the same
    bytes. The four bands of a picture are red, green, blue and alpha."""
    if planes.ndim != 3 or planes.shape[1:] != grid.shape:
        raise ValueError(f"layer {planes.shape} does not fit grid {grid.shape}")
    n_bands, dtype = planes.shape[0], planes.dtype.name
    # a block of a small layer ends with the layer: padding would be compressed, and decoded by everyone who reads it
    side = min(block_size(n_bands, planes.dtype.itemsize), max(128, -(-max(grid.shape) // 16) * 16))
    profile = {"count": n_bands, "dtype": dtype, "nodata": nodata} | grid_profile(grid)

    def fill(out: Any) -> None:
        out.write(planes)
        for i, text in enumerate(descriptions, 1):
            out.set_band_description(i, text)
        if tags:
            out.update_tags(**tags)

    # a layer lies in memory already: little of it twice
    options = STREAM_OPTIONS | {"GDAL_CACHEMAX": 16 * 2**20}
    with tempfile.TemporaryDirectory(prefix="rsure-layer-") as folder, rasterio.Env(**options):
        plain, cog = Path(folder) / "plain.tif", Path(folder) / "layer.tif"
        if planes.nbytes <= _LAYER_BYTES and not is_picture:
            with rasterio.open("", "w", driver="MEM", **profile) as out:
                fill(out)
                out.build_overviews(overview_factors(out.shape, side), Resampling.nearest)
                _pack(out, cog, n_bands=n_bands, dtype=dtype, side=side, is_layer=True)
            return cog.read_bytes()
        look = {"photometric": "RGB", "alpha": "YES"} if is_picture else {}
        with rasterio.open(plain, "w", driver="GTiff", tiled=True, blockxsize=side, blockysize=side, bigtiff="IF_SAFER",
                           interleave=interleave(n_bands, dtype), **look, **profile) as out:  # fmt: skip
            fill(out)
        write_cog_of_plain(plain, cog, n_bands=n_bands, dtype=dtype, side=side, is_layer=True)
        return cog.read_bytes()


def png_bytes(rgba: NDArray[np.uint8]) -> bytes:
    """A picture (rows, columns, 4) as a PNG."""
    out = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(rgba), "RGBA").save(out, "PNG", compress_level=3)
    return out.getvalue()


@dataclass(frozen=True, slots=True)
class BandSource:
    """One band of a stack: what it is called, its nodata, and its stored values in a window of the stack's grid."""

    description: str
    nodata: float | None
    read: Callable[[Window], NDArray[Any]]


def join_bands(sources: Sequence[BandSource], grid: Grid, dtype: str, plain: Path, target: Path) -> None:
    """Writes bands as one COG on ``grid`` at ``target``, block by block; ``plain`` is scratch. Fractions are rounded where
    ``dtype`` holds whole numbers."""
    count, kind = len(sources), np.dtype(dtype)
    side = block_size(count, kind.itemsize)
    nodata = {s.nodata for s in sources}
    with rasterio.Env(**STREAM_OPTIONS):
        with rasterio.open(
            plain, "w", driver="GTiff", count=count, dtype=dtype, tiled=True, blockxsize=side, blockysize=side,
            bigtiff="IF_SAFER", interleave=interleave(count, dtype), nodata=nodata.pop() if len(nodata) == 1 else None,
            **grid_profile(grid),
        ) as out:  # fmt: skip
            for _, place in out.block_windows(1):
                window = (place.col_off, place.row_off, place.width, place.height)
                for at, source in enumerate(sources, 1):
                    held = source.read(window)
                    if kind.kind in "iu" and held.dtype.kind == "f":
                        held = np.rint(held)
                    out.write(held.astype(kind, copy=False), at, window=place)
            for at, source in enumerate(sources, 1):
                out.set_band_description(at, source.description)
        write_cog_of_plain(plain, target, n_bands=count, dtype=dtype)
