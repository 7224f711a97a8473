"""Hot spots and spatial autocorrelation against esda's own weights, hand-made figures and real scenes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.tools.execute import operators_neighbours
from tests.unit.tools.rasters import Bench, from_file, node_of, scene

RNG = np.random.default_rng(11)
S = ("s1", "asset.scene", (), {"scene": "s"})
INDEX = [S, ("z", "raster.product.band", ["s1"], {"role": "index"})]


def gi(bench: Bench, nodes: list[Any], **more: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_], str]:
    o = bench.execute([*nodes, ("g", "raster.product.getis_ord", [nodes[-1][0]], {"size": 5})], **more)
    assert o.status.state == "ok", o.status.reason
    kept = bench.layers.kept[o.result.layers[0].artifact]
    return kept.data[0], kept.valid[0], str(node_of(o, "g")["computed_by"])


@pytest.mark.shared_data
def test_hot_spots_of_a_real_scene_by_esda_and_by_windows(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, stored = from_file(shared_data / "change/landsat7_p15r32_2002-07-20.tif", {"red": 3, "nir": 4})
    nodes = [S, ("i", "raster.product.index", ["s1"], {"index": "ndvi"})]
    whole, valid, how = gi(Bench((info, stored)), nodes)
    assert how == "esda" and valid.sum() > 80_000
    monkeypatch.setattr(operators_neighbours, "LINKS_LIMIT", 0)
    by_windows, also, how = gi(Bench((info, stored), window_px=256), nodes)
    assert how == "windows" and np.array_equal(valid, also)
    assert by_windows[valid] == pytest.approx(whole[valid], abs=2e-5)  # layers are float32


def test_a_region_is_the_whole_world_of_a_hot_spot(monkeypatch: pytest.MonkeyPatch) -> None:
    z = RNG.normal(0, 1, (60, 70))
    z[20:26, 30:36] += 4
    z[0:3, 0:3] = -99
    region = {"type": "Polygon", "coordinates": [[[10, 5], [60, 5], [60, 50], [10, 50], [10, 5]]]}
    cut = np.where(z == -99, np.nan, z)[5:50, 10:60]
    alone, _, _ = gi(Bench(scene(np.nan_to_num(cut, nan=-99)[None], ["index"], nodata=-99)), INDEX)
    for limit in (10**7, 0):
        monkeypatch.setattr(operators_neighbours, "LINKS_LIMIT", limit)
        data, valid, _ = gi(Bench(scene(z[None], ["index"], nodata=-99)), INDEX, region=region, region_crs="image")
        inside = data[5:50, 10:60]
        assert valid[5:50, 10:60].all() and not valid[:5].any()
        assert inside == pytest.approx(alone, abs=1e-5)


def test_hot_is_hot_whatever_the_sign_of_the_mean() -> None:
    z = RNG.normal(0, 0.1, (40, 40))
    z[10:15, 10:15] += 1
    for shift in (-50.0, 0.0, 50.0):
        data, _, _ = gi(Bench(scene(z[None] + shift, ["index"])), INDEX)
        assert data[12, 12] > 5


def moran(z: NDArray[np.float64], **more: Any) -> Any:
    return Bench(scene(z[None], ["index"], nodata=-99)).execute(
        [*INDEX, ("out", "raster.summarize.moran", ["z"], more.pop("params", {}))], **more)


def test_a_chessboard_is_minus_one_and_halves_are_near_one() -> None:
    rows, cols = np.mgrid[:20, :20]
    o = moran(((rows + cols) % 2).astype(float), params={"neighbours": "rook"})
    assert o.result.value == pytest.approx(-1.0) and node_of(o, "out")["p_value"] < 1e-6
    halves = moran((cols >= 10).astype(float), params={"neighbours": "rook"})
    # by hand: only the two columns at the border have a neighbour (of 4, or of 3 at the frame) that differs
    lag = 400 - 2 * (18 * 2 / 4 + 2 * 2 / 3)
    assert halves.result.value == pytest.approx(lag / 400)


def test_moran_agrees_with_libpysals_own_lattice_and_noise_has_none() -> None:
    from esda.moran import Moran
    from libpysal.weights import lat2W

    z = np.cumsum(RNG.normal(0, 1, (35, 45)), axis=1)
    o = moran(z)
    theirs = Moran(z.ravel(), lat2W(35, 45, rook=False), transformation="r", permutations=0)
    assert o.result.value == pytest.approx(theirs.I, rel=1e-9)
    assert node_of(o, "out")["z"] == pytest.approx(theirs.z_rand, rel=1e-9)
    noise = moran(RNG.normal(0, 1, (300, 300)))
    assert abs(noise.result.value) < 0.01 and node_of(noise, "out")["p_value"] > 0.01


def test_pixels_without_neighbour_take_no_part_and_large_rasters_are_refused() -> None:
    z = RNG.normal(0, 1, (12, 12))
    z[:3] = -99
    z[1, 1] = 5.0
    o = moran(z)
    assert node_of(o, "out")["n_without_neighbour"] == 1 and node_of(o, "out")["n_valid"] == 108
    assert "at least four" in moran(np.full((5, 5), 3.0)).status.reason
    assert moran(RNG.normal(0, 1, (700, 700))).status.needs["code"] == "TOO_LARGE"


def test_start_up_does_not_load_the_libraries() -> None:
    code = ("import sys; import apps.tools.execute.operators; "
            "print([m for m in ('esda', 'libpysal', 'geopandas', 'statsmodels', 'pymannkendall') if m in sys.modules])")
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True,
                           cwd=Path(__file__).resolve().parents[3])
    assert found.stdout.strip() == "[]"
