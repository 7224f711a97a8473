"""Equations, bounds, several change points and Mann–Kendall's variants, against hand values and other libraries."""

from __future__ import annotations

import math
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pymannkendall
import pytest
import rasterio
from rasterio.warp import transform_bounds
from scipy import stats

from apps.core.geo.bands import FillRule
from tests.unit.tools.rasters import Bench, from_file, node_of, scene

RNG = np.random.default_rng(8)
S = ("s1", "asset.scene", (), {"scene": "s"})


def solved(equation: str, **params: Any) -> Any:
    b = Bench(scene(np.array([[[2.0, 4.0]]]), ["index"], unit="1"))
    return b.execute([S, ("i", "raster.product.band", ["s1"], {"role": "index"}),
                      ("a", "raster.summarize.statistic", ["i"], {"statistic": "mean"}),
                      ("out", "value.solve", ["a"], {"equation": equation, "unknown": "x", **params})])


@pytest.mark.parametrize(("equation", "params", "expected"), [
    ("2*x + a = 11", {}, 4.0),
    ("x^2 = a + 6", {"pick": "max"}, 3.0),
    ("x^2 = a + 6", {"between": [-10, 0]}, -3.0),
    ("(x - 1)^2 * a = 0", {}, 1.0),
    ("a / (x + 1) = 0.5", {}, 5.0),
    ("exp(x) = a", {"between": [0, 5]}, math.log(3)),
    ("300 * x^0.25 = 150 * a", {"between": [0.1, 100]}, 1.5 ** 4),
])
def test_equations(equation: str, params: dict[str, Any], expected: float) -> None:
    o = solved(equation, **params)
    assert o.status.state == "ok", o.status.reason
    assert o.result.value == pytest.approx(expected, rel=1e-12)
    assert abs(node_of(o, "out")["residual"]) < 1e-9


@pytest.mark.parametrize(("equation", "params", "part"), [
    ("x^2 = a + 6", {}, "2 solutions"),
    ("x^2 + a = 0", {}, "no real solution"),
    ("(x^2 - 1) / (x - 1) = 2", {}, "no real solution"),  # 1 solves the numerator alone
    ("x - x = 0 * a", {}, "Every number"),
    ("exp(x) = a", {}, "say between which"),
    ("1 / (x - a) = 0", {"between": [0, 10]}, "no real solution"),
    ("x^99 = a", {}, "Powers above"),
    ("abs(x) = a", {}, "inside abs"),
    ("x = y + a", {}, "no input of the node"),
    ("x = a = 3", {}, "one sign of equality"),
    ("__import__(x) = a", {}, "not allowed"),
    ("x.real = a", {}, "not understood"),
])
def test_equations_that_are_not_solved_say_why(equation: str, params: dict[str, Any], part: str) -> None:
    o = solved(equation, **params)
    assert o.status.state == "failed" and part in o.status.reason


@pytest.mark.parametrize(("expression", "expected"), [
    ("2 + 3 * 4", 14.0), ("(1 + sqrt(5)) / 2", (1 + math.sqrt(5)) / 2), ("-2 ^ 2", -4.0), ("1 / 0", None), ("9^9^9^9", None),
])  # fmt: skip
def test_a_calculation_of_numbers_alone(expression: str, expected: float | None) -> None:
    b = Bench(scene(np.ones((1, 2, 2)), ["index"]))
    o = b.execute([("out", "value.calculate", [], {"expression": expression})])
    if expected is None:
        assert o.status.state == "failed" and "is undefined" in o.status.reason
    else:
        assert o.result.value == pytest.approx(expected, rel=1e-15)


def series(y: Any, days: list[str] | None = None, **params: Any) -> Any:
    days = days or [f"2020-{1 + i // 28:02d}-{1 + i % 28:02d}" for i in range(len(y))]
    b = Bench(*(scene(np.full((1, 2, 2), v), ["index"], scene_id=f"s{i}", date=d, unit="1")
                for i, (v, d) in enumerate(zip(y, days, strict=True))))
    nodes: list[tuple[Any, ...]] = []
    for i in range(len(y)):
        nodes += [(f"a{i}", "asset.scene", (), {"scene": f"s{i}"}),
                  (f"b{i}", "raster.product.band", [f"a{i}"], {"role": "index"})]
    o = b.execute([*nodes, ("out", "raster.summarize.series_analysis", [f"b{i}" for i in range(len(y))], params)])
    assert o.status.state == "ok", o.status.reason
    return o


def test_several_changes_of_the_mean_are_found_where_they_are() -> None:
    y = np.concatenate([np.full(20, 0.2), np.full(25, 0.7), np.full(15, 0.4)]) + RNG.normal(0, 0.03, 60)
    o = series(y, analysis="change_points")
    assert o.result.value == 2 and node_of(o, "out")["dates"] == ["2020-01-21", "2020-02-18"]
    assert node_of(o, "out")["segment_means"] == pytest.approx([y[:20].mean(), y[20:45].mean(), y[45:].mean()])
    assert [i["segment_mean"] for i in o.result.items][19:21] == pytest.approx([y[:20].mean(), y[20:45].mean()])


def test_noise_alone_has_no_change() -> None:
    assert series(RNG.normal(0.5, 0.05, 60), analysis="change_points").result.value == 0


def test_mann_kendall_allows_for_memory_and_seasons() -> None:
    rest = [0.0]
    for e in RNG.normal(0, 0.05, 71):
        rest.append(0.7 * rest[-1] + e)
    y = 0.5 + 0.001 * np.arange(72) + np.array(rest)
    plain, careful = series(y, analysis="mann_kendall"), series(y, analysis="mann_kendall", variant="hamed_rao")
    assert careful.result.value == pytest.approx(stats.kendalltau(np.arange(72), y).statistic, rel=1e-12)
    assert node_of(careful, "out")["variance_s"] > pymannkendall.original_test(y).var_s
    assert node_of(careful, "out")["p_value"] > node_of(plain, "out")["p_value"]
    wave = np.sin(2 * np.pi * np.arange(72) / 12) + 0.003 * np.arange(72)
    # of a season of 12 dates none may be missing, so these are the days of a year, one after the other
    daily = [f"{date(2020, 1, 1) + timedelta(days=i)}" for i in range(72)]
    seasonal = series(wave, daily, analysis="mann_kendall", variant="seasonal", period=12)
    # every date is above the same one a season before: 12 × (6 × 5 / 2) pairs, all rising
    assert node_of(seasonal, "out")["s"] == 12 * 15 and seasonal.result.value == pytest.approx(1.0)


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["multispectral/geopandas_s2a_l2a_fishbourne.tif", "water_flood/Spain_7370579_S2Hand.tif",
                                  "terrain_landcover/spDataLarge_nlcd.tif"])
def test_bounds_of_a_geotiff(shared_data: Path, name: str) -> None:
    path = shared_data / name
    o = Bench(from_file(path, {})).execute([S, ("out", "asset.bounds", ["s1"], {})])
    item = o.result.items[0]
    with rasterio.open(path) as src:
        assert [item[k] for k in ("left", "bottom", "right", "top")] == pytest.approx(list(src.bounds), abs=1e-6)
        wanted = transform_bounds(src.crs, "EPSG:4326", *src.bounds, densify_pts=200)
    assert [item[k] for k in ("west", "south", "east", "north")] == pytest.approx(list(wanted), abs=2e-5)


@pytest.mark.shared_data
def test_composites_of_a_month_and_a_year(shared_data: Path) -> None:
    files = sorted((shared_data / "timeseries/mod13q1_sinop").glob("*.jp2"))
    held = [from_file(p, {"ndvi": 1}, scene_id=p.stem[-10:], date=p.stem[-10:], unit="1", scale=1e-4, valid_range=(-2000, 10000),
                      fill=[FillRule(kind="outside_range")])
            for p in files]
    nodes: list[tuple[Any, ...]] = []
    for k, p in enumerate(files):
        nodes += [(f"a{k}", "asset.scene", (), {"scene": p.stem[-10:]}),
                  (f"b{k}", "raster.product.band", [f"a{k}"], {"role": "ndvi"})]
    names = [f"b{k}" for k in range(len(files))]

    def value(**params: Any) -> Any:
        return Bench(*held).execute([*nodes, ("c", "raster.product.composite", names, {"method": "median", **params}),
                                     ("out", "raster.summarize.statistic", ["c"], {})])

    stack = np.stack([np.where((s[0] >= -2000) & (s[0] <= 10000), s[0] * 1e-4, np.nan) for _, s in held])
    year = np.array([p.stem[-10:-6] == "2014" for p in files])
    assert value(years=[2014]).result.value == pytest.approx(float(np.nanmean(np.nanmedian(stack[year], axis=0))), rel=1e-6)
    month = np.array([p.stem[-5:-3] in ("12", "01", "02") for p in files])
    assert month.sum() == 3
    assert value(months=[12, 1, 2]).result.value == pytest.approx(float(np.nanmean(np.nanmedian(stack[month], axis=0))), rel=1e-6)
    o = value(months=[8], years=[2013])
    assert o.status.state == "failed" and "No date lies" in o.status.reason


@pytest.mark.shared_data
def test_a_fall_by_more_than_a_limit_is_exact(shared_data: Path) -> None:
    """Landsat's bytes: by whole numbers 48,960 pixels fall by more than 0.3 and six by just that; floats of 64 bits take one of
    the six in."""
    roles = {"red": 3, "nir": 4}
    days = ("2002-07-20", "2002-11-25")
    held = [from_file(shared_data / f"change/landsat7_p15r32_{d}.tif", roles, scene_id=d, date=d) for d in days]
    (r1, n1), (r2, n2) = ((s[2].astype(np.int64), s[3].astype(np.int64)) for _, s in held)
    known = (r1 + n1 > 0) & (r2 + n2 > 0)
    known &= ~((held[0][1] == 0).all(axis=0) | (held[1][1] == 0).all(axis=0))
    fall, limit = 10 * ((n1 - r1) * (r2 + n2) - (n2 - r2) * (r1 + n1)), 3 * (r1 + n1) * (r2 + n2)
    assert ((fall > limit) & known).sum() == 48_960 and ((fall == limit) & known).sum() == 6
    nodes: list[tuple[Any, ...]] = []
    for k, d in enumerate(days):
        nodes += [(f"s{k}", "asset.scene", (), {"scene": d}), (f"i{k}", "raster.product.index", [f"s{k}"], {"index": "ndvi"})]
    for op, wanted in (("<", fall > limit), ("<=", fall >= limit)):
        o = Bench(*held).execute([
            *nodes, ("d", "raster.product.difference", ["i0", "i1"], {}),
            ("m", "raster.product.threshold", ["d"], {"op": op, "value": -0.3}),
            ("out", "raster.summarize.area", ["m"], {"unit": "ha"}),
        ])  # fmt: skip
        assert o.result.value == pytest.approx(float((wanted & known).sum()) * 0.09, rel=1e-6), o.status.reason
