"""Recipes that stand for the peers' small tools, each on the Sentinel-2 scene of Fishbourne against numpy or scipy on the whole
array (docs/coverage.md names them)."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from apps.core.geo.bands import FillRule
from tests.unit.tools.rasters import Bench, from_file, scene

Arrays = dict[str, NDArray[np.float64]]
Recipe = tuple[list[tuple[Any, ...]], Callable[[Arrays], float]]
S = ("s1", "asset.scene", (), {"scene": "s"})


def band(role: str) -> tuple[Any, ...]:
    return role, "raster.product.band", ["s1"], {"role": role}


def above(name: str, of: str, value: float, op: str = ">") -> tuple[Any, ...]:
    return name, "raster.product.threshold", [of], {"op": op, "value": value}


def stat(statistic: str, of: str, **params: Any) -> tuple[Any, ...]:
    return "out", "raster.summarize.statistic", [of], {"statistic": statistic, **params}


NDVI = ("ndvi", "raster.product.index", ["s1"], {"index": "ndvi"})
BOTH = [S, band("nir"), band("red"), above("a", "nir", 3000), above("b", "red", 800, "<"),
        ("m", "raster.product.logic", ["a", "b"], {"op": "and"})]
RECIPES: dict[str, Recipe] = {
    "count_above_threshold": ([S, band("nir"), above("m", "nir", 3000), stat("sum", "m")], lambda x: (x["nir"] > 3000).sum()),
    "calculate_threshold_ratio": ([S, band("nir"), above("m", "nir", 3000), ("out", "raster.summarize.share", ["m"], {})],
                                  lambda x: (x["nir"] > 3000).mean()),
    "calculate_multi_band_threshold_ratio": ([*BOTH, ("out", "raster.summarize.share", ["m"], {})],
                                             lambda x: ((x["nir"] > 3000) & (x["red"] < 800)).mean()),
    "count_pixels_satisfying_conditions": ([*BOTH, stat("sum", "m")], lambda x: ((x["nir"] > 3000) & (x["red"] < 800)).sum()),
    "calculate_intersection_percentage": (
        [*BOTH[:-1], ("out", "raster.summarize.agreement", ["a", "b"], {"measure": "iou"})],
        lambda x: ((x["nir"] > 3000) & (x["red"] < 800)).sum() / ((x["nir"] > 3000) | (x["red"] < 800)).sum()),
    "calc_extreme_snow_loss_percentage_from_binary_map": (
        [*BOTH[:-1], ("m", "raster.product.logic", ["a", "b"], {"op": "and_not"}),
         ("out", "raster.summarize.share", ["m"], {"unit": "%"})],
        lambda x: 100 * ((x["nir"] > 3000) & ~(x["red"] < 800)).mean()),
    "calculate_band_mean_by_condition": (
        [S, band("red"), NDVI, above("m", "ndvi", 0.4), ("k", "raster.product.apply_mask", ["red", "m"], {}), stat("mean", "k")],
        lambda x: x["red"][x["ndvi"] > 0.4].mean()),
    "calculate_max_lst_by_ndvi": (
        [S, band("red"), NDVI, above("m", "ndvi", 0.4), ("k", "raster.product.apply_mask", ["red", "m"], {}), stat("max", "k")],
        lambda x: x["red"][x["ndvi"] > 0.4].max()),
    "image_division_mean": ([S, ("r", "raster.product.ratio", ["s1"], {"first": "nir", "second": "red"}), stat("mean", "r")],
                            lambda x: (x["nir"] / x["red"])[x["red"] > 0].mean()),
    "subtract": ([S, band("nir"), band("red"), ("d", "raster.product.math", ["nir", "red"], {
        "expression": "nir - red", "range": [-65535, 65535], "unit": "DN"}),
                  stat("mean", "d")], lambda x: (x["nir"] - x["red"]).mean()),
    "get_percentile_value_from_image": ([S, band("nir"), stat("percentile", "nir", percentile=90)],
                                        lambda x: np.percentile(x["nir"], 90)),
    "coefficient_of_variation": ([S, band("nir"), stat("cv", "nir", ddof=1)], lambda x: x["nir"].std(ddof=1) / x["nir"].mean()),
    "calc_single_image_skewness": ([S, band("nir"), stat("skewness", "nir")], lambda x: stats.skew(x["nir"])),
    "calc_single_image_kurtosis": ([S, band("nir"), stat("kurtosis", "nir")], lambda x: stats.kurtosis(x["nir"])),
    "calc_single_image_median": ([S, band("nir"), stat("median", "nir")], lambda x: np.median(x["nir"])),
    "calc_single_image_min": ([S, band("nir"), stat("min", "nir")], lambda x: x["nir"].min()),
    "calc_single_image_max": ([S, band("nir"), stat("max", "nir")], lambda x: x["nir"].max()),
    "calc_batch_image_std": ([S, band("nir"), stat("std", "nir")], lambda x: x["nir"].std()),
    "calc_batch_image_sum": ([S, band("nir"), stat("sum", "nir")], lambda x: x["nir"].sum()),
    "calculate_batch_fvc": ([S, NDVI, ("v", "raster.product.vegetation_cover", ["ndvi"], {"soil": 0.05, "full": 0.95}),
                             stat("mean", "v")], lambda x: np.clip((x["ndvi"] - 0.05) / 0.9, 0, 1).mean()),
}  # fmt: skip


@pytest.mark.shared_data
@pytest.mark.parametrize("name", RECIPES)
def test_recipe(shared_data: Path, name: str) -> None:
    info, stored = from_file(shared_data / "multispectral/geopandas_s2a_l2a_fishbourne.tif",
                             {"blue": 1, "green": 2, "red": 3, "nir": 4}, fill=[FillRule(kind="all_bands_equal", value=0)])
    nodes, truth = RECIPES[name]
    o = Bench((info, stored)).execute(nodes)
    assert o.status.state == "ok", o.status.reason
    keep = ~(stored == 0).all(axis=0)
    x = {r: stored[i][keep].astype(np.float64) for i, r in enumerate(("blue", "green", "red", "nir"))}
    with np.errstate(all="ignore"):
        x["ndvi"] = (x["nir"] - x["red"]) / (x["nir"] + x["red"])
    assert o.result.value == pytest.approx(float(truth(x)), rel=1e-9)


@pytest.mark.parametrize(("name", "expression", "expected"), [
    ("difference", "a - b", -40.0), ("division", "a / b", 280 / 320), ("percentage_change", "100 * (b - a) / a", 100 * 40 / 280),
    ("kelvin_to_celsius", "a - 273.15", 6.85), ("celsius_to_kelvin", "a + 273.15", 553.15), ("multiply", "a * b", 89600.0),
    ("ceil_number", "-floor(-a / 3)", math.ceil(280 / 3)),
])
def test_arithmetic_keeps_order_and_sign(name: str, expression: str, expected: float) -> None:
    scenes = [scene(np.full((1, 2, 2), v), ["lst"], scene_id=i, unit="K") for i, v in (("one", 280.0), ("two", 320.0))]
    nodes: list[tuple[Any, ...]] = []
    for short, i in (("a", "one"), ("b", "two")):
        nodes += [(f"s{short}", "asset.scene", (), {"scene": i}),
                  (f"r{short}", "raster.product.band", [f"s{short}"], {"role": "lst"}),
                  (short, "raster.summarize.statistic", [f"r{short}"], {"statistic": "mean"})]
    used = [n for n in ("a", "b") if n in expression.replace("floor", "")]
    o = Bench(*scenes).execute([*nodes, ("out", "value.calculate", used, {"expression": expression})])
    assert o.status.state == "ok", o.status.reason
    assert o.result.value == pytest.approx(expected, rel=1e-12)
