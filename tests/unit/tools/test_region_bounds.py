"""Bounds of a region's mean and sum by its outline and its missing pixels: against finer pixels, shapely and brute force."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
import shapely
from django.conf import settings
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.tools.execute.region_bounds import EdgeValues, crossed_pixels, mean_within
from apps.tools.region import RegionMask
from tests.unit.tools.rasters import Bench, scene

FISHBOURNE = Path(settings.BASE_DIR) / "apps/imagery/samples/geopandas_s2a_l2a_fishbourne.tif"
BAND: list[tuple[Any, ...]] = [("s", "asset.scene", (), {"scene": "s"}), ("b", "raster.product.band", ["s"], {"role": "red"})]
HEXAGON = shapely.Polygon([(8.2, 4.7), (21.6, 2.3), (33.4, 14.9), (28.8, 30.1), (12.5, 33.6), (3.1, 20.4)],
                          [[(14.2, 12.1), (20.7, 11.4), (19.3, 19.8), (13.9, 18.2)]])  # fmt: skip


def mean_of(*nodes: Any, statistic: str = "mean") -> list[tuple[Any, ...]]:
    last = nodes[-1][0] if nodes else "b"
    return [*BAND, *nodes, ("out", "raster.summarize.statistic", [last], {"statistic": statistic})]


def ask(stored: NDArray[Any], polygon: Any, nodes: list[tuple[Any, ...]], **more: Any) -> Any:
    region = shapely.geometry.mapping(polygon) if polygon is not None else None
    held = scene(stored, ["red"] if len(stored) == 1 else ["red", "qa"], nodata=-9999.0, unit="1", **more)
    o = Bench(held).execute(nodes, region=region, region_crs="image")
    assert o.status.state == "ok", o.status.reason
    return o


@pytest.mark.parametrize("polygon", [
    HEXAGON, shapely.box(4, 4, 20, 18), shapely.box(3.5, 3.25, 20.5, 18.75), shapely.Point(18, 19).buffer(11.3),
    shapely.box(-50, -50, 20.3, 17.6), shapely.union(shapely.box(1.2, 1.2, 1.8, 1.9), shapely.box(30, 30, 60, 60)),
    shapely.Polygon([(5, 5), (30, 5), (5, 30)])])  # fmt: skip
def test_the_share_of_each_pixel_inside_is_shapelys(polygon: Any) -> None:
    found = crossed_pixels(RegionMask(polygon, Grid(width=40, height=36)))
    shares = np.array([[shapely.area(shapely.intersection(polygon, shapely.box(c, r, c + 1, r + 1))) for c in range(40)]
                       for r in range(36)])  # fmt: skip
    rows, cols = np.nonzero((shares > 1e-9) & (shares < 1 - 1e-9))
    assert found.rows.tolist() == rows.tolist() and found.cols.tolist() == cols.tolist()
    np.testing.assert_allclose(found.share, shares[rows, cols], atol=1e-9)
    # the whole of it: pixels inside and parts of pixels
    whole = RegionMask(polygon, Grid(width=40, height=36)).mask((0, 0, 40, 36))
    whole[found.rows, found.cols] = False
    on_grid = shapely.area(shapely.intersection(polygon, shapely.box(0, 0, 40, 36)))
    assert whole.sum() + found.share.sum() == pytest.approx(on_grid, abs=1e-9)


def test_the_mean_of_finer_pixels_lies_within(tmp_path: Path) -> None:
    """Pixels of 10 m of a real scene stand for the fine ones; those of 80 m are their means. 60 outlines: the mean over the fine
    pixels by their centres, a supersampling of each coarse one by 64, is within the bounds."""
    with rasterio.open(FISHBOURNE) as source:
        fine = source.read(4)[:200, :296].astype(float)
    coarse = fine.reshape(25, 8, 37, 8).mean(axis=(1, 3))
    rng = np.random.default_rng(2)
    n_near = 0
    for _ in range(60):
        angles = np.sort(rng.uniform(0, 2 * np.pi, 7))
        middle, radius = rng.uniform([10, 8], [27, 17]), rng.uniform(3, 7, 7)
        polygon = shapely.Polygon(np.stack([middle[0] + radius * np.cos(angles), middle[1] + radius * np.sin(angles)], axis=1))
        if not polygon.is_valid or polygon.area < 9:
            continue
        o = ask(coarse[None], polygon, mean_of())
        # each fine pixel has the value of its coarse one, which stands for all of it
        repeated = np.kron(coarse, np.ones((8, 8)))
        inside = shapely.contains_xy(polygon, *np.meshgrid((np.arange(296) + 0.5) / 8, (np.arange(200) + 0.5) / 8))
        low, high = o.result.interval
        truth, middle_in = repeated[inside].mean(), o.result.value
        assert low <= truth <= high and low <= middle_in <= high
        exact = next(n for n in o.evidence.intermediate["nodes"] if n["id"] == "out")["by_exact_area"]
        assert exact == pytest.approx(truth, abs=0.02 * (high - low) + 1e-9)
        # the true mean of the fine pixels, which differ within a coarse one, too
        n_near += low <= fine[inside].mean() <= high
    assert n_near >= 50


def test_bounds_are_the_extremes_of_every_choice() -> None:
    """Each pixel on the outline in or out, each missing one at either end: all 2 ** n of them."""
    rng = np.random.default_rng(7)
    stored = rng.normal(0.4, 0.2, (1, 4, 5))
    stored[0, 1, 2] = stored[0, 2, 1] = -9999.0
    polygon = shapely.Polygon([(0.8, 0.7), (3.6, 1.1), (3.4, 3.3), (1.2, 2.9)])
    region = RegionMask(polygon, Grid(width=5, height=4))
    crossed, inside = crossed_pixels(region), region.mask((0, 0, 5, 4))
    on = np.zeros((4, 5), dtype=bool)
    on[crossed.rows, crossed.cols] = True
    missing = stored[0] == -9999.0
    fixed = stored[0][inside & ~on & ~missing]
    edge = stored[0][on & ~missing]
    seen = stored[0][(inside | on) & ~missing]
    n_missing = int((missing & (inside | on)).sum())
    assert edge.size >= 8 and n_missing == 2
    for statistic, figure in (("mean", np.mean), ("sum", np.sum)):
        o = ask(stored, polygon, mean_of(statistic=statistic))
        every = []
        for chosen in itertools.product((False, True), repeat=edge.size):
            for ends in itertools.product((seen.min(), seen.max()), repeat=n_missing):
                every.append(figure(np.concatenate([fixed, edge[list(chosen)], ends])))
        assert o.result.interval == pytest.approx((min(every), max(every)), rel=1e-12), statistic
        assert o.result.value == pytest.approx(figure(stored[0][inside & ~missing]), rel=1e-12)


def test_what_is_told_is_what_was_counted() -> None:
    stored = np.random.default_rng(1).normal(0.4, 0.1, (1, 36, 40))
    stored[0, 20:24, 14:24] = -9999.0
    o = ask(stored, HEXAGON, mean_of())
    middle = o.evidence.intermediate
    region = RegionMask(HEXAGON, Grid(width=40, height=36))
    n, edge = region.n_px, crossed_pixels(region).rows.size
    assert f"{edge} pixels that the outline crosses" in middle["interval_from"]
    assert f"{100 * 40 / n:.1f} % of the pixels missing" in middle["interval_from"] and middle["interval_is"] == "bounds"
    inside = region.mask((0, 0, 40, 36)) & (stored[0] > -9000)
    values = stored[0][inside]
    low, high = middle["interval_missing"]
    on = np.zeros((36, 40), dtype=bool)
    found = crossed_pixels(region)
    on[found.rows, found.cols] = True
    seen = stored[0][(inside | on) & (stored[0] > -9000)]
    assert (low, high) == pytest.approx([(values.sum() + 40 * end) / (values.size + 40) for end in (seen.min(), seen.max())])


def test_a_whole_scene_without_clouds_has_no_interval_and_one_with_clouds_has() -> None:
    """Its frame is no ground that was asked about; what a cloud hides is."""
    red = np.random.default_rng(3).normal(0.2, 0.05, (40, 50))
    red[:, :10] = -9999.0
    qa = np.full((40, 50), 64.0)
    qa[5:15, 20:40] = 8.0
    plain = ask(red[None], None, mean_of())
    assert plain.result.interval is None and plain.evidence.intermediate["interval_from"].startswith("none:")
    held, stored = scene(np.stack([red, qa]), ["red", "qa"], nodata=-9999.0, unit="reflectance")
    bands = (held.bands[0], held.bands[1].model_copy(update={"scheme": "landsat_c2", "unit": "DN", "nodata": None}))
    b = Bench((held.model_copy(update={"bands": bands, "sensor": "Landsat 8/9 OLI-TIRS"}), stored))
    mask = [("q", "raster.product.qa_mask", ["s"], {"flags": ["cloud"]}),
            ("m", "raster.product.apply_mask", ["b", "q"], {"keep": "false", "quality": "cloud"})]  # fmt: skip
    o = b.execute(mean_of(*mask))
    assert o.status.state == "ok", o.status.reason
    clear = (red > -9000) & (qa == 64)
    values, n = red[clear], 200
    assert o.result.value == pytest.approx(values.mean(), rel=1e-12)
    wanted = [(values.sum() + n * end) / (values.size + n) for end in (values.min(), values.max())]
    assert o.result.interval == pytest.approx(wanted, rel=1e-9)
    assert f"{100 * n / (n + values.size):.1f} % of the pixels missing" in o.evidence.intermediate["interval_from"]


def test_a_condition_of_the_question_leaves_nothing_missing() -> None:
    """The mean of red where it is above 0.2: the others are not asked about."""
    red = np.random.default_rng(3).normal(0.2, 0.05, (1, 36, 40))
    nodes = mean_of(("t", "raster.product.threshold", ["b"], {"value": 0.2}), ("m", "raster.product.apply_mask", ["b", "t"], {}))
    o = ask(red, shapely.box(3, 4, 30, 31), nodes)
    # whole pixels: the outline crosses none
    assert o.result.interval is None, o.evidence.intermediate["interval_from"]
    inside = red[0, 4:31, 3:30]
    assert o.result.value == pytest.approx(inside[inside > 0.2].mean(), rel=1e-12)


@pytest.mark.parametrize("window_px", [256, 512])
def test_no_window_shows_in_the_bounds(window_px: int) -> None:
    stored = np.random.default_rng(9).normal(0.4, 0.1, (1, 600, 700))
    stored[0, 200:220] = -9999.0
    polygon = shapely.Point(333.3, 301.7).buffer(250.4)
    region = shapely.geometry.mapping(polygon)
    found = [Bench(scene(stored, ["red"], nodata=-9999.0, unit="1"), window_px=w, threads=t).execute(
        mean_of(), region=region, region_crs="image") for w, t in ((window_px, 3), (1024, 1))]  # fmt: skip
    assert found[0].result.interval == found[1].result.interval is not None
    assert found[0].evidence.intermediate["nodes"] == found[1].evidence.intermediate["nodes"]


def test_a_region_within_one_pixel_of_its_outline() -> None:
    """A strip so narrow that each of its pixels lies on the outline: from the least of them to the greatest."""
    edges = EdgeValues(RegionMask(shapely.box(0.2, 0.4, 3.8, 0.6), Grid(width=4, height=1)))
    edges.merge((np.array([1.0, 2.0, 4.0]), np.array([0.2, 0.3, 0.2]), 0))
    bounds = mean_within(7 / 3, 3, (1.0, 4.0), edges)(0, False)
    assert bounds is not None and bounds.interval == (1.0, 4.0) and bounds.missing is None
    assert bounds.evidence["by_exact_area"] == pytest.approx(math.fsum([0.2, 0.6, 0.8]) / 0.7)


@pytest.mark.parametrize(("op", "params"), [("share", {}), ("share", {"unit": "%"}), ("area", {}), ("area", {"unit": "ha"})])
def test_what_a_cloud_hides_may_be_all_of_it_or_nothing(op: str, params: dict[str, str]) -> None:
    """A square of 20 × 20 pixels, 40 of its region hidden: by the pixels that were seen alone the share was 0.32 to 0.39."""
    red = np.zeros((1, 60, 60))
    red[0, 20:40, 20:40] = 0.5
    red[0, 30:34, 35:45] = -9999.0
    nodes = [*BAND, ("m", "raster.product.threshold", ["b"], {"value": 0.2}), ("out", f"raster.summarize.{op}", ["m"], params)]
    o = ask(red, shapely.box(15, 15, 48, 48), nodes)
    inside = red[0, 15:48, 15:48]
    valid, true = inside > -9000, inside == 0.5
    # sides that border on a pixel that was seen
    padded = np.pad(true, 1)
    beside = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
    outside = np.pad(valid & ~true, 1)
    bare = outside[:-2, 1:-1] | outside[2:, 1:-1] | outside[1:-1, :-2] | outside[1:-1, 2:]
    inner, outer = int((true & bare).sum()), int((valid & ~true & beside).sum())
    n, m, t = int(valid.sum()), 40, int(true.sum())
    if op == "share":
        per = 100.0 if params else 1.0
        wanted = per * (t - inner / 2) / (n + m), per * (t + outer / 2 + m) / (n + m)
        assert o.result.value == pytest.approx(per * t / n)
    else:
        per = 1e-2 if params else 100.0
        assert o.result.value == pytest.approx(per * t, rel=2e-3)
        per = o.result.value / t
        wanted = per * (t - inner / 2), per * (t + outer / 2 + m)
    assert o.result.interval == pytest.approx(wanted, rel=1e-6)
    assert f"{100 * m / (n + m):.1f} % of the pixels missing" in o.evidence.intermediate["interval_from"]
