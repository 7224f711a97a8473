"""Right answers by independent code: plain numpy over whole arrays read straight from the files, no reader or tool of ours.

This is a named room for rasterio: a truth that came through the reader under test would share its mistakes.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Plain:
    """A whole file: bands (n, rows, columns) float64, NaN where it is fill, and the ground area of each pixel in m²."""

    data: Array
    area_m2: Array
    transform: tuple[float, ...]
    epsg: int | None

    def band(self, index: int) -> Array:
        """1-based."""
        out: Array = self.data[index - 1]
        return out

    def ratio(self, plus: int, minus: int) -> Array:
        """Normalised difference of two 1-based bands; NaN where the sum is 0."""
        a, b = self.band(plus), self.band(minus)
        with np.errstate(divide="ignore", invalid="ignore"):
            total = a + b
            out: Array = np.where(total == 0, np.nan, (a - b) / np.where(total == 0, 1, total))
        return out

    def rows_cols(self, lon0: float, lat0: float, lon1: float, lat1: float) -> NDArray[np.bool_]:
        """Pixels whose centre lies in the lon/lat box; every centre is transformed on its own."""
        lon, lat = self.centres_lonlat()
        inside: NDArray[np.bool_] = (lon >= lon0) & (lon <= lon1) & (lat >= lat0) & (lat <= lat1)
        return inside

    def centres_lonlat(self) -> tuple[Array, Array]:
        """Longitudes and latitudes (rows, columns) of the pixels' centres."""
        from pyproj import Transformer

        a, b, c, d, e, f = self.transform[:6]
        rows, cols = np.mgrid[0 : self.data.shape[1], 0 : self.data.shape[2]] + 0.5
        x, y = a * cols + b * rows + c, d * cols + e * rows + f
        lon, lat = Transformer.from_crs(self.epsg, 4326, always_xy=True).transform(x, y)
        return lon, lat


@lru_cache(maxsize=32)
def plain(
    path: Path, *, zeros_are_fill: bool = False, low: float | None = None, high: float | None = None, scale: float = 1.0
) -> Plain:
    """Reads a file whole. Areas: nominal for UTM, by the ellipsoid's radii for degrees."""
    import rasterio

    with rasterio.open(path) as source:
        data = source.read().astype(np.float64)
        t, crs, nodata = source.transform, source.crs, source.nodata
    if zeros_are_fill:
        data[:, (data == 0).all(axis=0)] = np.nan
    if nodata is not None:
        data[data == nodata] = np.nan
    if low is not None and high is not None:
        data[(data < low) | (data > high)] = np.nan
    rows = np.arange(data.shape[1]) + 0.5
    if crs is not None and crs.is_geographic:
        # radii of curvature of WGS 84 at the pixel's latitude
        lat = np.radians(t.f + t.e * rows)
        a, e2 = 6378137.0, 0.00669437999014
        w = np.sqrt(1 - e2 * np.sin(lat) ** 2)
        by_row = (a * (1 - e2) / w**3) * np.radians(abs(t.e)) * (a / w) * np.cos(lat) * np.radians(t.a)
    else:
        by_row = np.full(data.shape[1], abs(t.a * t.e))
    area = np.repeat(by_row[:, None], data.shape[2], axis=1)
    return Plain(data * scale, area, tuple(t)[:6], crs.to_epsg() if crs else None)


def stack(paths: list[Path], target: Path, names: tuple[str, ...]) -> None:
    """Single-band files of one grid as the named bands of one file."""
    import rasterio

    with rasterio.open(paths[0]) as first:
        profile = first.profile | {"count": len(paths), "driver": "GTiff"}
    with rasterio.open(target, "w", **profile) as out:
        for k, path in enumerate(paths, start=1):
            with rasterio.open(path) as source:
                out.write(source.read(1), k)
        out.descriptions = names


def clouded(path: Path, target: Path, share_lost: float, *, fill: int) -> None:
    """A copy of a one-band file in which the first ``share_lost`` of the rows hold ``fill``."""
    import rasterio

    with rasterio.open(path) as source:
        data = source.read(1)
        profile = source.profile | {"driver": "GTiff", "nodata": fill}
    profile.pop("quality", None)
    data[: round(share_lost * data.shape[0])] = fill
    with rasterio.open(target, "w", **profile) as out:
        out.write(data, 1)


def ndvi_where_clear(paths: list[Path]) -> float:
    """Mean NDVI of red, near infrared and a Landsat quality band of before Collection 1, where it flags no cloud: two bits for
    cloud, both set where it is sure. Numbers of level 1 stand for reflectance times the sine of the sun's elevation by
    2e-5 n - 0.1 (USGS, Landsat 8 data users handbook, 5.2.2)."""
    scene = plain(paths[0])
    red, nir = (2e-5 * scene.band(i) - 0.1 for i in (1, 2))
    quality = np.nan_to_num(scene.band(3)).astype(np.int64)
    return float(np.nanmean(((nir - red) / (nir + red))[(quality & 0xC000) != 0xC000]))


def sinop_mean(path: Path) -> float:
    """Mean NDVI of a MOD13 date, scaled, without fill."""
    return mean(plain(path, low=-2000, high=10000, scale=1e-4).band(1))


def census_area_km2(path: Path) -> float:
    """Land and water of the full boundaries, as the census counts them: attributes of the file."""
    import json

    features = json.loads(path.read_text())["features"]
    return float(sum(f["properties"][k] for f in features for k in ("aland", "awater")) / 1e6)


def mean(values: Array) -> float:
    return float(np.nanmean(values))


def share(values: Array, condition: NDArray[np.bool_]) -> float:
    """Share of the valid pixels of ``values`` where ``condition`` holds."""
    return float(condition[np.isfinite(values)].mean())


def area(scene: Plain, condition: NDArray[np.bool_]) -> float:
    """m² where the condition holds (NaN never does)."""
    return float(scene.area_m2[condition].sum())


def slope_per_year(days: list[dt.date], values: list[float]) -> float:
    """Least squares by the normal equations, in units a Julian year of 365.25 days."""
    x = np.array([d.toordinal() for d in days], dtype=float) / 365.25
    y = np.array(values)
    return float(((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum())
