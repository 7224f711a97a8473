"""The streaming engine: figures against numpy, the same digits for any window size, bounded passes, cancel, failures."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from skimage.filters import threshold_otsu

from apps.core.errors import FaultError
from apps.core.geo.bands import FillRule
from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2
from apps.tools.execute.accumulators import Histogram, Moments, OrderStatistics
from apps.tools.execute.formula import parse
from apps.tools.execute.types import OPERATORS, NoParams, Operator, PhysicalRange, Plane, Planned, Sample, Take, register
from apps.tools.thresholds import otsu
from tests.unit.tools.rasters import Bench, close, node_of, scene

RNG = np.random.default_rng(7)
STORED = RNG.integers(1, 10_000, (2, 700, 900)).astype(np.uint16)
STORED[:, :40, :50] = 0
FILL = [FillRule(kind="all_bands_equal", value=0, source="suspected", share=2000 / 630000)]
NDVI = [("s1", "asset.scene", (), {"scene": "s"}), ("ndvi", "raster.product.index", ["s1"], {"index": "ndvi"})]


def _expected() -> NDArray[np.float64]:
    red, nir = STORED.astype(float)
    valid = ~((STORED == 0).all(axis=0))
    out: NDArray[np.float64] = (nir - red)[valid] / (nir + red)[valid]
    return out


@pytest.mark.parametrize(("statistic", "wanted"), [
    ("mean", np.mean), ("median", np.median), ("min", np.min), ("max", np.max), ("std", np.std), ("sum", np.sum),
    ("skewness", stats.skew), ("kurtosis", stats.kurtosis), ("iqr", stats.iqr), ("variance", np.var), ("count", np.size),
])
def test_statistics_agree_with_numpy_and_scipy(statistic: Any, wanted: Any) -> None:
    o = Bench(scene(STORED, ["red", "nir"], fill=FILL)).execute(
        [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": statistic})])
    assert o.status.state == "ok", o.status.reason
    assert close(o.result.value, float(wanted(_expected())), 1e-9)
    assert o.evidence.intermediate["valid_px"] == 630_000 - 2000
    assert o.evidence.intermediate["masked"]["source"] == 2000


def test_percentile_is_numpys() -> None:
    o = Bench(scene(STORED, ["red", "nir"], fill=FILL)).execute(
        [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "percentile", "percentile": 12.5})])
    assert close(o.result.value, float(np.percentile(_expected(), 12.5)), 1e-12)


@pytest.mark.parametrize("statistic", ["mean", "std", "median", "skewness", "sum"])
def test_same_digits_for_any_window_size_and_thread_count(statistic: Any) -> None:
    values = set()
    for window, threads in ((256, 1), (256, 4), (512, 2), (1024, 3), (4096, 1)):
        o = Bench(scene(STORED, ["red", "nir"], fill=FILL), window_px=window, threads=threads).execute(
            [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": statistic})])
        values.add(o.result.value)
    assert len(values) == 1


def test_exact_median_in_bounded_memory_equals_sorting() -> None:
    values = np.concatenate([RNG.normal(0, 1, 5000), RNG.normal(1e-12, 1e-13, 5000), np.full(3000, -0.0), [1e300, -1e300]])
    kept = OrderStatistics([0.1, 0.5, 0.9], keep=100)
    while kept.wants_pass():
        for part in np.array_split(values, 7):
            n = part.size
            sample = Sample((0, 0, n, 1), Grid(width=n, height=1), part[None], np.ones((1, n), bool))
            kept.merge(kept.gather(sample))
    for q in (0.1, 0.5, 0.9):
        assert kept.value(q) == pytest.approx(float(np.quantile(values, q)), rel=1e-12, abs=1e-300)


def test_layer_and_area_agree_with_the_mask() -> None:
    b = Bench(scene(STORED, ["red", "nir"], fill=FILL), window_px=256)
    o = b.execute([*NDVI, ("m", "raster.product.threshold", ["ndvi"], {"op": ">", "value": 0.25}),
                   ("out", "raster.summarize.area", ["m"], {"unit": "ha"})])
    mask, valid = b.layers.read_mask(o.result.layers[0])
    assert mask.shape == (700, 900) and int(valid.sum()) == 628_000
    assert int(mask.sum()) == int((_expected() > 0.25).sum())
    area = area_of_mask_m2(mask, b.question.scenes[0].grid)
    assert close(o.result.value, area.area_m2 / 1e4, 1e-12)
    assert close(node_of(o, "out")["geodesic_m2"], area.geodesic_m2 or 0.0, 1e-12)


def test_one_read_a_window_whatever_the_number_of_bands_and_nodes() -> None:
    b = Bench(scene(STORED, ["red", "nir"], fill=FILL), window_px=512, threads=2)
    o = b.execute([*NDVI, ("m", "raster.product.threshold", ["ndvi"], {"op": ">", "value": 0.0}),
                   ("out", "raster.summarize.share", ["m"], {})])
    assert o.evidence.intermediate["n_passes"] == 1
    assert b.readers["s"].n_reads == 4  # 2 × 2 windows
    assert b.readers["s"].closed


def test_region_counts_pixel_centres_and_reads_only_its_windows() -> None:
    b = Bench(scene(STORED, ["red", "nir"], fill=FILL), window_px=256)
    ring = [[100, 100], [200.4, 100], [200.4, 150.6], [100, 150.6], [100, 100]]
    o = b.execute([*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "count"})],
                  region={"type": "Polygon", "coordinates": [ring]}, region_crs="image")
    assert o.result.value == 100 * 51
    assert b.readers["s"].n_reads == 1
    assert o.evidence.intermediate["masked"]["outside_region"] == 630_000 - 5100


def test_region_with_a_hole_and_slanted_edges_agrees_with_a_point_by_point_test() -> None:
    outer = [(10.13, 20.31), (300.07, 5.23), (280.41, 250.17), (30.29, 190.37)]
    hole = [(100.11, 60.23), (180.19, 70.41), (150.31, 140.27)]

    def inside(x: float, y: float, ring: list[tuple[float, float]]) -> bool:
        odd = False
        for (x1, y1), (x2, y2) in zip(ring, ring[1:] + ring[:1], strict=True):
            if (y1 > y) != (y2 > y) and x < (x2 - x1) * (y - y1) / (y2 - y1) + x1:
                odd = not odd
        return odd

    wanted = sum(inside(c + 0.5, r + 0.5, outer) and not inside(c + 0.5, r + 0.5, hole) for r in range(260) for c in range(310))
    rings = [[list(p) for p in [*ring, ring[0]]] for ring in (outer, hole)]
    o = Bench(scene(STORED, ["red", "nir"]), window_px=256).execute(
        [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "count"})],
        region={"type": "Polygon", "coordinates": rings}, region_crs="image")
    # the zeros of the corner are undefined here, since no fill is declared
    assert o.result.value == wanted - node_of(o, "ndvi")["n_undefined"]


def test_undefined_pixels_are_masked_not_filled() -> None:
    stored = np.array([[[0, 2, 3]], [[0, 2, 9]]], dtype=np.int16)
    stored[0, 0, 1], stored[1, 0, 1] = -2, 2
    o = Bench(scene(stored, ["red", "nir"])).execute([*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {})])
    assert o.result.value == 0.5
    assert node_of(o, "ndvi")["n_undefined"] == 2
    assert o.evidence.intermediate["masked"] == {"outside_region": 0, "source": 0, "undefined": 2, "masked_out": 0}


def test_all_masked_is_a_failure_with_its_reason() -> None:
    stored = np.zeros((2, 3, 3), dtype=np.uint8)
    o = Bench(scene(stored, ["red", "nir"], nodata=0)).execute([*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {})])
    assert o.status.state == "failed" and "no valid pixel" in o.status.reason.lower()
    assert o.evidence.intermediate["nodes"][1]["n_source_masked"] == 9


def test_scale_and_offset_are_applied_once() -> None:
    stored = np.array([[[1100.0]], [[3100.0]]])
    o = Bench(scene(stored, ["red", "nir"], scale=1e-4, offset=-0.1, unit="reflectance")).execute(
        [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {})])
    assert close(o.result.value, (0.21 - 0.01) / (0.21 + 0.01), 1e-12)


def test_cancel_ends_as_a_failed_observation() -> None:
    o = Bench(scene(STORED, ["red", "nir"]), window_px=256).call(
        "execute", {"nodes": [{"id": i, "op": op, "inputs": list(n), "params": p} for i, op, n, p in
                              [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {})]], "output": "out"},
        is_cancelled=lambda: True)
    assert o.status.state == "failed" and o.status.needs["code"] == "CANCELLED"


def test_progress_is_told() -> None:
    b = Bench(scene(STORED, ["red", "nir"]), window_px=256)
    b.execute([*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {})])
    assert b.done[-1][:2] == (12, 12)


@pytest.mark.parametrize("width", [0.05, 0.3])
def test_histogram_and_otsu_part_two_heaps(width: Any) -> None:
    values = np.concatenate([RNG.normal(0, width, 4000), RNG.normal(1, width, 1000)])
    h = Histogram(256)
    while h.wants_pass():
        h.merge(h.gather(Sample((0, 0, 5000, 1), Grid(width=5000, height=1), values[None], np.ones((1, 5000), bool))))
    threshold, separability = otsu(h.counts, h.edges)
    assert 0.3 < threshold < 0.8 and separability > 0.6
    # scikit-image names the first of equally good thresholds, ours the middle one: the classes are the same
    assert int((values > threshold).sum()) == pytest.approx(int((values > threshold_otsu(values)).sum()), abs=30)


def test_moments_of_nothing_are_nan_not_zero() -> None:
    m = Moments()
    assert m.wants_pass() and not m.wants_pass()
    assert np.isnan(m.mean) and np.isnan(m.std())


@pytest.mark.parametrize(("text", "a", "wanted"), [
    ("-2^2*a", 3.0, -12.0), ("a**2**0.5", 2.0, 2.0 ** (2 ** 0.5)), ("a-1-1", 5.0, 3.0), ("8/a/2", 2.0, 2.0),
    ("where(a > 2, 10, 20)", 2.0, 20.0), ("min(a, 1) + max(a, 1)", 4.0, 5.0), ("1e-2*a", 100.0, 1.0),
])
def test_band_math_follows_the_rules_of_arithmetic(text: Any, a: Any, wanted: Any) -> None:
    plane = Plane(np.array([[a]]), np.ones((1, 1), bool))
    assert parse(text).evaluate({"a": plane}).data[0, 0] == pytest.approx(wanted)


@pytest.mark.parametrize("text", [
    "__import__('os')", "a.real", "open(a)", "(" * 40 + "a" + ")" * 40, "a" * 600, "1 + 2", "a b", "a if b else c", "[a]",
    "lambda: a", "a; b", "abs(a, a)", "--" * 20 + "a",
])
def test_band_math_refuses_everything_else_quickly(text: Any) -> None:
    from apps.core.errors import ModelError
    with pytest.raises(ModelError):
        parse(text)


def test_an_operator_without_range_or_nodata_policy_is_refused() -> None:
    def plan(call: Any) -> Planned:
        return Planned(call.inputs[0])

    def operator(**more: Any) -> Operator:
        fields: dict[str, Any] = {"name": "raster.product.unranged", "summary": "x", "takes": Take(("raster",)),
                                  "params": NoParams, "gives": "raster", "range": PhysicalRange(0, 1), "nodata": "masked",
                                  "plan": plan} | more
        return Operator(**fields)

    for bad in (operator(range=None), operator(nodata="")):
        with pytest.raises(FaultError):
            register(bad)
    with pytest.raises(FaultError):
        PhysicalRange()
    assert all(o.range for _, o in OPERATORS.items())


@pytest.mark.parametrize(("op", "unit", "per"), [("area", "m2", 100.0), ("share", "1", 1 / 2400)])
def test_bounds_of_an_area_are_its_outline_moved_by_half_a_pixel(op: str, unit: str, per: float) -> None:
    stored = np.ones((2, 40, 60), dtype=np.uint8)
    stored[1, 10:20, 20:40] = 9  # 10 × 20 pixels; 56 of them on the outline, 60 touch it from outside
    b = Bench(scene(stored, ["red", "nir"]))
    o = b.execute([("s1", "asset.scene", (), {"scene": "s"}), ("i", "raster.product.index", ["s1"], {"index": "ndvi"}),
                   ("m", "raster.product.threshold", ["i"], {"value": 0.4}),
                   ("out", f"raster.summarize.{op}", ["m"], {"unit": unit})])
    assert o.result.value == pytest.approx(200 * per)
    assert o.result.interval == pytest.approx(((200 - 28) * per, (200 + 30) * per))
    assert node_of(o, "out")["edge_px"] == 56 and node_of(o, "out")["outer_edge_px"] == 60


def test_threads_that_ask_at_once_share_one_reader() -> None:
    opened = []

    class Slow(Bench):
        def _open(self, info: Any) -> Any:
            time.sleep(0.05)
            opened.append(super()._open(info))
            return opened[-1]

    for _ in range(3):
        Slow(scene(STORED, ["red", "nir"]), window_px=256, threads=4).execute(NDVI)
    assert len(opened) == 3 and all(r.closed for r in opened)
