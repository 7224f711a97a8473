"""Terrain, components and focal figures of real scenes against scipy, matplotlib and scikit-learn on whole arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from tests.unit.tools.rasters import Bench, from_file, node_of, scene

S = ("s1", "asset.scene", (), {"scene": "s"})
Z = ("z", "raster.product.band", ["s1"], {"role": "elevation"})


def layer(bench: Bench, nodes: list[Any]) -> tuple[NDArray[np.float64], NDArray[np.bool_], Any]:
    o = bench.execute(nodes)
    assert o.status.state == "ok", o.status.reason
    ref = o.result.layers[0]
    kept = bench.layers.kept[ref.artifact]
    return np.asarray(kept.data[0], dtype=float), np.asarray(kept.valid[0]), ref.grid


@pytest.fixture(scope="module")
def zion(shared_data: Path) -> tuple[Bench, NDArray[np.float64], float]:
    """Heights of Zion on a UTM grid of 90 m as a scene of its own, with them as an array."""
    held = from_file(shared_data / "terrain_landcover/spDataLarge_srtm.tif", {"elevation": 1}, unit="m")
    data, valid, grid = layer(Bench(held), [S, Z, ("p", "raster.product.reproject", ["z"], {
        "crs": "EPSG:32612", "resolution": 90})])
    stored = np.where(valid, data, -9999.0)
    info, _ = scene(stored[None], ["elevation"], unit="m", nodata=-9999)
    return Bench((info.model_copy(update={"grid": grid}), stored[None])), np.where(valid, data, np.nan), grid.gsd_m


@pytest.mark.shared_data
def test_slope_and_aspect_of_zion_by_sobels_weights(zion: Any) -> None:
    bench, z, _ = zion
    # Horn's weights are Sobel's; the grid is 90 m, and the ground's metres differ from UTM's by less than 0.1 %
    east, south = ndimage.sobel(z, axis=1) / (8 * 90), ndimage.sobel(z, axis=0) / (8 * 90)
    wanted = np.degrees(np.arctan(np.hypot(east, south)))
    slope, valid, _ = layer(bench, [S, Z, ("t", "raster.product.terrain", ["z"], {"product": "slope"})])
    assert valid.sum() > 150_000 and np.isfinite(wanted[valid]).all()
    assert np.abs(slope - wanted)[valid].max() < 0.05 and slope[valid].max() > 40
    aspect, known, _ = layer(bench, [S, Z, ("t", "raster.product.terrain", ["z"], {"product": "aspect"})])
    falls = (np.degrees(np.arctan2(-east, south)) + 360) % 360
    assert np.abs((aspect - falls + 180) % 360 - 180)[known & (wanted > 1)].max() < 0.05


@pytest.mark.shared_data
def test_hillshade_of_zion_is_like_matplotlibs(zion: Any) -> None:
    from matplotlib.colors import LightSource

    bench, z, _ = zion
    shade, valid, _ = layer(bench, [S, Z, ("t", "raster.product.terrain", ["z"], {
        "product": "hillshade", "azimuth": 315, "altitude": 45})])
    filled = np.where(np.isfinite(z), z, np.nanmean(z))
    theirs = LightSource(315, 45).hillshade(filled, dx=90, dy=90)
    inner = ndimage.binary_erosion(valid, iterations=3)
    # another kernel (central differences) and a stretch of its own: the same picture
    assert np.corrcoef(shade[inner], theirs[inner])[0, 1] > 0.97


@pytest.mark.shared_data
def test_relief_and_mean_height_in_a_window_of_zion(zion: Any) -> None:
    bench, z, _ = zion
    relief, valid, _ = layer(bench, [S, Z, ("t", "raster.product.terrain", ["z"], {"product": "relief", "window": 7})])
    wanted = ndimage.maximum_filter(z, 7) - ndimage.minimum_filter(z, 7)
    assert relief[valid] == pytest.approx(wanted[valid], abs=1e-3)
    mean, inside, _ = layer(bench, [S, Z, ("f", "raster.product.focal", ["z"], {"statistic": "mean", "size": 5})])
    whole = ndimage.binary_erosion(np.isfinite(z), np.ones((5, 5)))
    assert mean[whole & inside] == pytest.approx(ndimage.uniform_filter(np.nan_to_num(z), 5)[whole & inside], abs=1e-2)


@pytest.mark.shared_data
def test_components_of_a_sentinel2_scene_are_scikit_learns(shared_data: Path) -> None:
    from sklearn.decomposition import PCA

    roles = ("blue", "green", "red", "nir", "swir1", "swir2")
    info, stored = from_file(shared_data / "multispectral/s2_l1c_crop512_13band_32618.tif",
                             dict(zip(roles, (2, 3, 4, 8, 12, 13), strict=True)), unit="reflectance", scale=1e-4)
    nodes: list[Any] = [S] + [(r, "raster.product.band", ["s1"], {"role": r}) for r in roles]
    bench = Bench((info, stored))
    o = bench.execute([*nodes, ("p", "raster.product.pca", list(roles), {"component": 1})])
    pixels = stored[[1, 2, 3, 7, 11, 12]].reshape(6, -1).T.astype(float) * 1e-4
    theirs = PCA().fit(pixels)
    assert node_of(o, "p")["explained"] == pytest.approx(list(theirs.explained_variance_ratio_), rel=1e-9)
    data = bench.layers.kept[o.result.layers[0].artifact].data[0].ravel()
    assert abs(np.corrcoef(data, theirs.transform(pixels)[:, 0])[0, 1]) == pytest.approx(1, abs=1e-9)
