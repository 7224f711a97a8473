"""Writing rasters: cloud-optimised GeoTIFFs, of result layers and (from ingest) of scenes."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.crs import CRS
from rasterio.enums import Resampling
from rasterio.shutil import copy as rasterio_copy
from rasterio.transform import Affine

from apps.core.geo.grid import Grid
from apps.imagery.readers import GDAL_OPTIONS

# A block of all bands stays below this, since COG blocks are pixel-interleaved.
_BLOCK_BYTES = 8 * 2**20
# What GDAL may keep of blocks while it writes a layer.
_WRITE_CACHE = 32 * 2**20


def block_size(n_bands: int, itemsize: int) -> int:
    """Side of a COG block in pixels: 512, smaller where many or wide bands would make a block heavy."""
    side = 512
    while side > 128 and side * side * n_bands * itemsize > _BLOCK_BYTES:
        side //= 2
    return side


def write_cog(source: Any, target: Path, *, n_bands: int, dtype: str, side: int | None = None, level: int = 6,
              has_overviews: bool = False) -> None:
    """Copies an open dataset (or its path) to a COG: deflate with predictor, overviews of nearest samples
    (each stored value stays a stored value, so masks stay exact), mask and colour table kept. Streams: memory
    does not grow with the raster. ``side`` of a block in pixels: a multiple of 16, by ``block_size`` without.
    ``has_overviews`` takes those of the source, which must be ours: else they are made, in a file that is packed
    and read again."""
    kind = np.dtype(dtype)
    rasterio_copy(
        source,
        target,
        driver="COG",
        compress="DEFLATE",
        level=level,
        predictor="YES",
        overview_resampling="NEAREST",
        overview_compress="DEFLATE",
        blocksize=side or block_size(n_bands, kind.itemsize),
        bigtiff="IF_SAFER",
        num_threads=2,
        overviews="FORCE_USE_EXISTING" if has_overviews else "IGNORE_EXISTING",
    )


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
) -> bytes:
    """A layer (bands, rows, columns) on ``grid`` as the bytes of a COG; the same input gives the same
    bytes."""
    if planes.ndim != 3 or planes.shape[1:] != grid.shape:
        raise ValueError(f"layer {planes.shape} does not fit grid {grid.shape}")
    options = GDAL_OPTIONS | {"GDAL_CACHEMAX": _WRITE_CACHE}
    with tempfile.TemporaryDirectory(prefix="rsure-layer-") as folder, rasterio.Env(**options):
        plain, cog = Path(folder) / "plain.tif", Path(folder) / "layer.tif"
        # a block of a small layer ends with the layer: padding would be compressed, and decoded by everyone who reads it
        side = min(block_size(planes.shape[0], planes.dtype.itemsize), max(128, -(-max(grid.shape) // 16) * 16))
        with rasterio.open(
            plain,
            "w",
            driver="GTiff",
            count=planes.shape[0],
            dtype=planes.dtype.name,
            nodata=nodata,
            tiled=True,
            blockxsize=side,
            blockysize=side,
            bigtiff="IF_SAFER",
            **grid_profile(grid),
        ) as out:
            out.write(planes)
            for i, text in enumerate(descriptions, 1):
                out.set_band_description(i, text)
            if tags:
                out.update_tags(**tags)
            # made of the unpacked pixels they cost next to nothing
            out.build_overviews(overview_factors(grid.shape, side), Resampling.nearest)
        # a layer is written once for each answer: the least level, which makes float32 hardly larger than the sixth
        write_cog(plain, cog, n_bands=planes.shape[0], dtype=planes.dtype.name, side=side, level=1, has_overviews=True)
        return cog.read_bytes()


def join_bands(paths: Sequence[Path], plain: Path, target: Path, descriptions: Sequence[str]) -> int:
    """Writes all bands of our COGs at ``paths`` (equal grids and data types) as one COG at ``target``, block by block;
    ``plain`` is scratch. Returns the number of bands."""
    with rasterio.Env(**GDAL_OPTIONS), ExitStack() as stack:
        parts = [stack.enter_context(rasterio.open(p, driver="GTiff")) for p in paths]
        count, first = sum(p.count for p in parts), parts[0]
        side = block_size(count, np.dtype(first.dtypes[0]).itemsize)
        nodata = {p.nodata for p in parts}
        profile: dict[str, Any] = {"nodata": nodata.pop() if len(nodata) == 1 else None}
        if first.crs:
            profile["crs"] = first.crs
        if not first.transform.is_identity:
            profile["transform"] = first.transform
        with rasterio.open(
            plain, "w", driver="GTiff", width=first.width, height=first.height, count=count, dtype=first.dtypes[0], tiled=True,
            blockxsize=side, blockysize=side, bigtiff="IF_SAFER", **profile,
        ) as out:  # fmt: skip
            for _, window in out.block_windows(1):
                at = 1
                for part in parts:
                    for band in part.indexes:
                        out.write(part.read(band, window=window), at, window=window)
                        at += 1
            at = 1
            for part, text in zip(parts, descriptions, strict=True):
                for band in part.indexes:
                    out.set_band_description(at, part.descriptions[band - 1] or text)
                    at += 1
        with rasterio.open(plain, driver="GTiff") as joined:
            write_cog(joined, target, n_bands=count, dtype=first.dtypes[0])
        return int(count)
