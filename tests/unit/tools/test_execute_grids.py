"""Operators that move a raster to other pixels, against GDAL's warper and numpy's blocks on real scenes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray
from pyproj import Geod
from rasterio.enums import Resampling
from rasterio.vrt import WarpedVRT
from scipy import ndimage

from apps.verification.checks import CHECKS, Case
from tests.unit.tools.rasters import Bench, from_file, node_of, scene

SRTM = "terrain_landcover/spDataLarge_srtm.tif"
S = ("s1", "asset.scene", (), {"scene": "s"})


def layer_of(bench: Bench, observation: Any) -> tuple[Any, NDArray[np.float64], NDArray[np.bool_]]:
    assert observation.status.state == "ok", observation.status.reason
    kept = bench.layers.kept[observation.result.layers[0].artifact]
    return observation.result.layers[0].grid, np.asarray(kept.data[0], dtype=float), kept.valid[0]


def heights(shared_data: Path) -> tuple[Bench, Any, list[Any]]:
    info, stored = from_file(shared_data / SRTM, {"elevation": 1}, unit="m")
    return Bench((info, stored)), (info, stored), [S, ("z", "raster.product.band", ["s1"], {"role": "elevation"})]


def warped(path: Path, grid: Any, how: Resampling) -> NDArray[np.float64]:
    """By GDAL's warper; its usual tolerance of an eighth of a pixel would be metres of height here."""
    with rasterio.open(path) as src, WarpedVRT(
            src, crs=grid.crs, transform=rasterio.Affine(*grid.transform), width=grid.width, height=grid.height, resampling=how,
            tolerance=0.001, dtype="float64", nodata=-1) as vrt:
        out = vrt.read(1)
    return np.where(out == -1, np.nan, out)


@pytest.mark.shared_data
@pytest.mark.parametrize(("method", "how"), [("bilinear", Resampling.bilinear), ("nearest", Resampling.nearest)])
def test_reprojection_agrees_with_gdal(shared_data: Path, method: str, how: Resampling) -> None:
    b, _, nodes = heights(shared_data)
    o = b.execute([*nodes, ("p", "raster.product.reproject", ["z"], {"crs": "EPSG:32612", "resolution": 60, "method": method})])
    grid, data, valid = layer_of(b, o)
    assert grid.crs == "EPSG:32612" and grid.transform[0] == 60 and grid.transform[2] % 60 == 0
    theirs = warped(shared_data / SRTM, grid, how)
    inner = ndimage.binary_erosion(valid & np.isfinite(theirs), iterations=2)
    assert inner.sum() > 150_000
    gap = np.abs(data - theirs)[inner]
    if method == "bilinear":
        assert gap.max() < 0.5 and np.median(gap) < 0.005  # metres
    else:
        assert (gap == 0).mean() > 0.999  # a centre on the border of two pixels may fall to either


@pytest.mark.shared_data
def test_average_is_the_mean_of_a_block_and_agrees_with_gdal(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif", {"red": 1}, nodata=0)
    b = Bench((info, stored))
    nodes = [S, ("r", "raster.product.band", ["s1"], {"role": "red"})]
    o = b.execute([*nodes, ("p", "raster.product.reproject", ["r"], {"resolution": 50, "method": "average", "least_share": 0})])
    grid, data, valid = layer_of(b, o)
    # by hand: every pixel centre falls into one block
    cols = np.floor((info.grid.transform[2] + 10 * (np.arange(stored.shape[2]) + 0.5) - grid.transform[2]) / 50).astype(int)
    rows = np.floor((grid.transform[5] - info.grid.transform[5] + 10 * (np.arange(stored.shape[1]) + 0.5)) / 50).astype(int)
    at = (rows[:, None] * grid.width + cols[None, :]).ravel()
    good = stored[0].ravel() != 0
    n = np.bincount(at[good], minlength=grid.width * grid.height)
    total = np.bincount(at[good], weights=stored[0].ravel()[good].astype(float), minlength=n.size)
    assert np.array_equal(valid.ravel(), n > 0)
    assert data.ravel()[n > 0] == pytest.approx((total[n > 0] / n[n > 0]), rel=1e-6)
    b2, _, more = heights(shared_data)
    coarse = b2.execute([*more, ("p", "raster.product.reproject", ["z"], {"crs": "EPSG:32612", "resolution": 900,
                                                                          "method": "average"})])
    grid, data, valid = layer_of(b2, coarse)
    gap = np.abs(data - warped(shared_data / SRTM, grid, Resampling.average))[ndimage.binary_erosion(valid)]
    assert gap.size > 1000 and np.median(gap) < 2 and gap.mean() < 3  # metres; GDAL weighs pixels that lie partly inside


@pytest.mark.shared_data
def test_the_commonest_class_of_a_block(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "terrain_landcover/spDataLarge_nlcd.tif", {"class": 1}, nodata=255)
    b = Bench((info, stored))
    nodes = [S, ("c", "raster.product.band", ["s1"], {"role": "class"})]
    side = 8 * info.grid.transform[0]
    o = b.execute([*nodes, ("p", "raster.product.reproject", ["c"], {"resolution": side, "method": "mode"})])
    kept = b.layers.kept[o.result.layers[0].artifact]
    grid = o.result.layers[0].grid
    row, col = 60, 50
    left, top = grid.xy(col, row)
    a = info.grid.transform
    px = [i for i in range(stored.shape[2]) if left <= a[2] + a[0] * (i + 0.5) < left + side]
    py = [i for i in range(stored.shape[1]) if top - side < a[5] + a[4] * (i + 0.5) <= top]
    values, counts = np.unique(stored[0][py[0]:py[-1] + 1, px[0]:px[-1] + 1], return_counts=True)
    assert len(px) == len(py) == 8 and kept[0][row, col] in values[counts == counts.max()]
    refused = b.execute([*nodes, ("p", "raster.product.reproject", ["c"], {"resolution": side, "method": "average"})])
    assert "would mix" in refused.status.reason


@pytest.mark.parametrize("factor", [2, 4])
def test_equally_common_classes_are_not_decided_by_their_codes(factor: int) -> None:
    codes = np.array([1, 5, 9, 200], dtype=np.uint8)
    stored = np.random.default_rng(8).choice(codes, (1, 240, 240))
    b = Bench(scene(stored, ["class"]))
    o = b.execute([S, ("c", "raster.product.band", ["s1"], {"role": "class"}),
                   ("p", "raster.product.reproject", ["c"], {"resolution": 10.0 * factor, "method": "mode"})])
    found = b.layers.kept[o.result.layers[0].artifact][0]
    n = 240 // factor
    blocks = stored[0].reshape(n, factor, n, factor).swapaxes(1, 2).reshape(n, n, factor * factor)
    for row, col in ((0, 0), (3, 17), (n - 1, n - 1), (11, 2)):
        block = blocks[row, col].tolist()
        assert found[row, col] == max(block, key=lambda k: (block.count(k), -block.index(k)))
    # four classes of a quarter each stay a quarter each, within four standard errors
    shares = [(found == k).mean() for k in codes]
    assert max(abs(s - 0.25) for s in shares) < 4 * np.sqrt(0.25 * 0.75) / n


@pytest.mark.shared_data
def test_no_window_shows_in_a_reprojection(shared_data: Path) -> None:
    found = set()
    for window in (256, 1024):
        b, held, nodes = heights(shared_data)
        b = Bench(held, window_px=window)
        for params in ({"crs": "EPSG:32612", "resolution": 30}, {"crs": "EPSG:32612", "resolution": 300, "method": "average"}):
            o = b.execute([*nodes, ("p", "raster.product.reproject", ["z"], params),
                           ("m", "raster.summarize.statistic", ["p"], {"statistic": "mean"})])
            assert o.status.state == "ok"
            found.add((str(params), o.result.value))
    assert len(found) == 2


@pytest.mark.shared_data
def test_a_known_shift_of_a_real_scene_is_undone(shared_data: Path) -> None:
    path = shared_data / "change/landsat7_p15r32_2002-07-20.tif"
    info, stored = from_file(path, {"nir": 4})
    plane = stored[3].astype(float)
    moved = ndimage.shift(plane, (2.3, -1.6), order=3, mode="nearest")  # content 2.3 rows down, 1.6 columns left
    other = (info.model_copy(update={"scene_id": "t", "dtype": "float64"}), np.stack([moved] * 8))
    b = Bench((info, stored), other)
    nodes = [S, ("s2", "asset.scene", (), {"scene": "t"}), ("a", "raster.product.band", ["s1"], {"role": "nir"}),
             ("b", "raster.product.band", ["s2"], {"role": "nir"}), ("c", "raster.product.coregister", ["b", "a"], {})]
    o = b.execute([*nodes, ("out", "raster.summarize.agreement", ["a", "c"], {"measure": "rmse"})])
    assert o.status.state == "ok", o.status.reason
    assert node_of(o, "c")["shift_px"] == pytest.approx([2.3, -1.6], abs=0.1)
    before = b.execute([*nodes, ("out", "raster.summarize.agreement", ["a", "b"], {"measure": "rmse"})]).result.value
    assert o.result.value < 0.4 * before
    far = b.execute([*nodes[:-1], ("c", "raster.product.coregister", ["b", "a"], {"most_px": 1})])
    assert "pixels apart" in far.status.reason


@pytest.mark.shared_data
def test_two_dates_of_landsat_lie_on_each_other(shared_data: Path) -> None:
    one = from_file(shared_data / "change/landsat7_p15r32_2002-07-20.tif", {"red": 3}, scene_id="s")
    other = from_file(shared_data / "change/landsat7_p15r32_2002-11-25.tif", {"red": 3}, scene_id="t")
    o = Bench(one, other).execute([
        S, ("s2", "asset.scene", (), {"scene": "t"}), ("a", "raster.product.band", ["s1"], {"role": "red"}),
        ("b", "raster.product.band", ["s2"], {"role": "red"}), ("c", "raster.product.coregister", ["b", "a"], {})])
    if o.status.state == "ok":
        assert node_of(o, "c")["shift_length_px"] < 1.0
    else:
        assert "too little in common" in o.status.reason


def test_noise_has_nothing_in_common() -> None:
    rng = np.random.default_rng(1)
    one, other = (scene(rng.normal(0, 1, (1, 200, 200)), ["index"], scene_id=i) for i in ("s", "t"))
    o = Bench(one, other).execute([
        S, ("s2", "asset.scene", (), {"scene": "t"}), ("a", "raster.product.band", ["s1"], {"role": "index"}),
        ("b", "raster.product.band", ["s2"], {"role": "index"}), ("c", "raster.product.coregister", ["b", "a"], {})])
    assert o.status.state == "failed" and "too little in common" in o.status.reason


@pytest.mark.parametrize(("params", "part"), [
    ({}, "new CRS"), ({"crs": "EPSG:0"}, "no CRS"), ({"crs": "EPSG:5773"}, "no CRS of a map"),
    ({"resolution": 1e-4}, "too large"), ({"resolution": 12, "method": "average"}, "not clearly coarser"),
    ({"resolution": 100, "method": "mode"}, "class maps"),
])
def test_grids_that_make_no_sense_are_refused(params: dict[str, Any], part: str) -> None:
    b = Bench(scene(np.ones((1, 30, 40)), ["index"]))
    o = b.execute([S, ("z", "raster.product.band", ["s1"], {"role": "index"}), ("p", "raster.product.reproject", ["z"], params)])
    assert o.status.state == "failed" and part in o.status.reason, o.status.reason


def test_a_picture_without_crs_and_the_antimeridian_are_refused() -> None:
    nodes = [S, ("z", "raster.product.band", ["s1"], {"role": "index"})]
    o = Bench(scene(np.ones((1, 9, 9)), ["index"], crs=None)).execute(
        [*nodes, ("p", "raster.product.reproject", ["z"], {"resolution": 30})])
    assert o.status.needs["code"] == "NEEDS_CRS"
    east = scene(np.ones((1, 50, 50)), ["index"], crs="EPSG:32660", pixel=10_000.0, origin=(600_000.0, 500_000.0))
    o = Bench(east).execute([*nodes, ("p", "raster.product.reproject", ["z"], {"crs": "EPSG:4326"})])
    assert "antimeridian" in o.status.reason


@pytest.mark.parametrize("last", [
    [("p", "raster.product.reproject", ["i"], {"crs": "EPSG:4326"})], [("p", "raster.summarize.moran", ["i"], {})],
    [("p", "raster.product.getis_ord", ["i"], {})],
    [("p", "raster.product.reproject", ["i"], {"resolution": 30, "method": "average"}),
     ("o", "raster.summarize.statistic", ["p"], {})],
])
def test_checks_do_not_take_them_for_something_else(last: list[Any]) -> None:
    from tests.unit.verification.samples import Sample, optical
    from tests.unit.verification.test_judge import judged

    b = Bench(optical())
    checks, decision = judged(Sample(b.execute([S, ("i", "raster.product.index", ["s1"], {"index": "ndvi"}), *last]), b))
    assert [c.check for c in checks if c.outcome == "failed"] == [] and decision.decision == "accept"


@pytest.mark.parametrize("shift", [(0, 3), (3, 0)])
def test_a_shift_in_metres_has_its_own_direction(shift: tuple[int, int]) -> None:
    # degrees at 60 north: a step along a row is half as long as one down a column
    rng = np.random.default_rng(4)
    hard = np.kron(rng.integers(0, 2, (12, 13)), np.ones((20, 20))) * 100
    one = (hard + ndimage.gaussian_filter(rng.normal(0, 400, hard.shape), 5) + 100)[None]
    placed: dict[str, Any] = {"crs": "EPSG:4326", "pixel": 1e-4, "origin": (10.0, 60.0)}
    b = Bench(scene(one, ["nir"], **placed), scene(np.roll(one, shift, axis=(1, 2)), ["nir"], scene_id="t", **placed))
    o = b.execute([S, ("s2", "asset.scene", (), {"scene": "t"}), ("a", "raster.product.band", ["s1"], {"role": "nir"}),
                   ("b", "raster.product.band", ["s2"], {"role": "nir"}), ("c", "raster.product.coregister", ["b", "a"], {})])
    told = node_of(o, "c")
    assert told["shift_px"] == pytest.approx(list(shift), abs=0.06)
    lon, lat = 10 + 130e-4, 60 - 120e-4
    rows, cols = told["shift_px"]
    assert told["shift_m"] == pytest.approx(Geod(ellps="WGS84").inv(lon, lat, lon + cols * 1e-4, lat - rows * 1e-4)[2], rel=1e-6)
    look = CHECKS["geometry.shift_believable"].look
    assert look(Case(o, b.question, layers=b.layers)).outcome == "passed"
    old = told["shift_length_px"] * (b.question.scenes[0].grid.gsd_m or 0)
    wrong = o.model_copy(deep=True)
    node_of(wrong, "c")["shift_m"] = old
    assert look(Case(wrong, b.question, layers=b.layers)).outcome == "failed"
