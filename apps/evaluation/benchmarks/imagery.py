"""Rasters to measure on: real pixels of a shipped scene, repeated with noise so that they do not compress like copies."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np

from apps.imagery.sample import FOLDER as SAMPLES

SOURCE = "geopandas_s2a_l2a_fishbourne.tif"


def repeated_scene(folder: Path, side: int, *, seed: int = 7) -> Path:
    """A tiled deflate GeoTIFF, ``side``² × 4 uint16, EPSG:32630, 10 m, written in strips of 512 rows."""
    import rasterio
    from rasterio.windows import Window

    source = next(SAMPLES.rglob(SOURCE))
    with rasterio.open(source) as given:
        # a window without fill, so that every pixel counts
        patch = given.read(window=Window(20, 60, 120, 120)).astype(np.uint16)
        transform, crs = given.transform, given.crs
    path = folder / f"repeated_{side}.tif"
    across = np.tile(patch, (1, 1, -(-side // patch.shape[2])))[:, :, :side]
    draw = np.random.default_rng(seed)
    profile = {
        "driver": "GTiff",
        "width": side,
        "height": side,
        "count": 4,
        "dtype": "uint16",
        "crs": crs,
        "transform": transform,
        "tiled": True,
        "blockxsize": 512,
        "blockysize": 512,
        "compress": "deflate",
        "zlevel": 1,
        "num_threads": "all_cpus",
        "bigtiff": "IF_SAFER",
    }
    with rasterio.open(path, "w", **profile) as out:
        for top in range(0, side, 512):
            rows = min(512, side - top)
            block = across[:, (np.arange(top, top + rows) % patch.shape[1])]
            noise = draw.integers(0, 24, size=block.shape, dtype=np.uint16)
            out.write(np.maximum(block, 1) + noise, window=Window(0, top, side, rows))
    return path


def kept_scene(given: Path) -> Path:
    """The COG that ingest makes of a raster of ``repeated_scene``, beside it."""
    import rasterio

    from apps.imagery.writers import STREAM_OPTIONS, write_cog

    path = given.with_name(f"kept_{given.name}")
    with rasterio.Env(**STREAM_OPTIONS):
        write_cog(given, path, n_bands=4, dtype="uint16")
    return path


def dated_scenes(folder: Path, dates: int, side: int) -> list[Path]:
    """``dates`` rasters of ``side``² × 2 uint16 (near infrared, red), one every 16 days, named by their day."""
    import rasterio

    base = np.random.default_rng(5).integers(200, 3000, size=(2, side, side), dtype=np.uint16) // 16 * 16
    out = []
    for i in range(dates):
        day = dt.date(2018, 1, 1) + dt.timedelta(days=16 * i)
        path = folder / f"series_{day.isoformat()}.tif"
        profile = {
            "driver": "GTiff",
            "width": side,
            "height": side,
            "count": 2,
            "dtype": "uint16",
            "crs": "EPSG:32630",
            "transform": rasterio.Affine(10, 0, 600000, 0, -10, 5600000),
        }
        with rasterio.open(path, "w", **profile) as dataset:
            dataset.write(base + np.array([7 * i, 0], dtype=np.uint16)[:, None, None])
        out.append(path)
    return out
