"""Quality bands and distances between masks, looked at again with the verifier's own code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from apps.core.evidence.observation import Observation
from apps.core.geo.grid import Grid
from apps.verification.checks import run_checks
from apps.verification.requests import propose_requests
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification import samples as s


def outcomes(sample: s.Sample) -> dict[str, str]:
    return {c.check: c.outcome for c in run_checks(sample.case())[0]}


def by_hand(bench: Bench) -> tuple[float, float]:
    """Mean NDVI of the pixels that aren't, and that are flagged as cloud (both high bits of Landsat's first quality band)."""
    qa = bench.stored["s"][2]
    ndvi = s.ndvi_of(bench.stored["s"], 0, 1)
    is_cloud = qa >> 14 == 3
    assert 0.1 < is_cloud.mean() < 0.3
    return float(ndvi[~is_cloud].mean()), float(ndvi[is_cloud].mean())


def mean_ndvi(bench: Bench, **params: Any) -> s.Sample:
    return s.ask(bench, "What is the mean NDVI?", "number", "execute", s.graph(
        s.S, ("i", "raster.product.index", ("s1",), {"index": "ndvi", **params}),
        ("out", "raster.summarize.statistic", ("i",), {"statistic": "mean"})))  # fmt: skip


def test_the_request_for_a_quality_mask_can_be_executed_and_its_answer_passes() -> None:
    bench = s.cloudy()
    plain = mean_ndvi(bench)
    assert outcomes(plain)["completeness.quality_mask_applied"] == "inconclusive"
    wanted = next(r for r in propose_requests(plain.case(), {}, {}) if r.kind == "quality_mask")
    masked = s.ask(bench, "What is the mean NDVI?", "number", "execute", {**plain.observation.arguments, **wanted.arguments})
    found = outcomes(masked)
    assert [k for k, v in found.items() if v in ("failed", "errored")] == []
    assert found["completeness.quality_mask_applied"] == found["consistency.value_matches_source"] == "passed"
    assert found["contract.arguments_passed_as_asked"] == "passed"
    assert masked.observation.result.value == pytest.approx(by_hand(bench)[0], rel=1e-12)
    assert not any(r.kind == "quality_mask" for r in propose_requests(masked.case(), {}, {}))


def test_a_share_of_the_quality_band_is_none_that_left_it_unused() -> None:
    """What is flagged is looked at again: a share of the clear pixels told as that of the clouds is caught."""
    bench = s.cloudy()
    share = s.ask(bench, "What share of the pixels is cloud by the QA band?", "share", "execute", s.graph(
        s.S, ("m", "raster.product.qa_mask", ("s1",), {"flags": ["cloud"]}),
        ("out", "raster.summarize.share", ("m",), {})))  # fmt: skip
    found = outcomes(share)
    assert found["completeness.quality_mask_applied"] == "not_applicable"
    assert [k for k, v in found.items() if v in ("failed", "errored")] == []
    value = share.observation.result.value
    assert value == pytest.approx((bench.stored["s"][2] >> 14 == 3).mean(), rel=1e-12)
    assert isinstance(value, float)
    assert outcomes(share.but({"/result/value": 1 - value}))["consistency.value_matches_source"] == "failed"


def test_an_equation_of_numbers_needs_no_pixel() -> None:
    solved = s.ask(s.cloudy(), "solve 2*x + 3 = 7", "number", "execute", s.graph(
        ("out", "value.solve", (), {"equation": "2*x + 3 = 7", "unknown": "x"})))  # fmt: skip
    assert outcomes(solved)["completeness.enough_valid_pixels"] == "not_applicable"


def test_a_mask_that_was_asked_for_and_not_applied_or_turned_round_is_caught() -> None:
    bench = s.cloudy()
    masked, plain = mean_ndvi(bench, quality_mask="auto"), mean_ndvi(bench)
    assert outcomes(masked)["consistency.value_matches_source"] == "passed"
    left_out = masked.but({"/result/value": plain.observation.result.value})
    assert outcomes(left_out)["consistency.value_matches_source"] == "failed"
    turned = masked.but({"/result/value": by_hand(bench)[1]})
    assert outcomes(turned)["consistency.value_matches_source"] == "failed"


def two_masks(crs: str | None = "EPSG:32630", pixel: float = 10.0, shift: int = 0) -> tuple[Bench, list[Observation]]:
    """Lakes and fires drawn on one grid, as two observations that measure may read."""
    info, stored = scene(np.ones((1, 80, 100), np.uint8), ["red"], crs=crs, pixel=pixel,
                         origin=(600000.0, 5600000.0) if crs != "EPSG:4326" else (10.0, 60.0), gsd_m=None if crs else pixel)
    bench = Bench((info, stored))
    lake, fire = np.zeros((80, 100), bool), np.zeros((80, 100), bool)
    lake[10:20, 10:20], fire[10:14, 50:60], fire[40:44, 23 + shift:30 + shift] = True, True, True
    found: list[Observation] = []
    for name, mask in (("lake", lake), ("fire", fire)):
        ref = bench.layers.put_mask(mask, np.ones_like(mask), info.grid, label=name, scene_id="s")
        base = s.water() if not found else found[0]
        held = base.observation if isinstance(base, s.Sample) else base
        found.append(held.model_copy(update={"id": f"o-{name}", "result": held.result.model_copy(update={"layers": (ref,)})}))
    return bench, found


def apart(bench: Bench, parents: list[Observation], **spec: Any) -> s.Sample:
    sources = [{"name": n, "mode": "regions", "layer": {"observation": f"o-{n}", "label": n}} for n in ("fire", "lake")]
    return s.ask(bench, "How far is the fire from the lake?", "distance", "measure", {
        "sources": sources, "spec": {"metric": "distance", "subject": "fire", "reference": "lake", **spec}}, parents)  # fmt: skip


@pytest.mark.parametrize(("crs", "pixel"), [("EPSG:32630", 10.0), ("EPSG:4326", 0.001), (None, 0.5)])
def test_distance_between_masks_is_measured_again(crs: str | None, pixel: float) -> None:
    bench, parents = two_masks(crs, pixel)
    right = apart(bench, parents)
    assert outcomes(right)["consistency.distance_recomputes"] == "passed"
    value: Any = right.observation.result.value
    for wrong in (value * 1.5, value / 1000, value + 8 * pixel * (111_000 if crs == "EPSG:4326" else 1)):
        assert outcomes(right.but({"/result/value": wrong}))["consistency.distance_recomputes"] == "failed"


@pytest.mark.parametrize(("statistic", "expected"), [("minimum", 10 * np.hypot(20, 3)), ("maximum", 300.0),
                                                     ("mean", (10 * np.hypot(20, 3) + 300) / 2)])
def test_statistics_over_instances(statistic: str, expected: float) -> None:
    bench, parents = two_masks()
    right = apart(bench, parents, distance_statistic=statistic)
    assert right.observation.result.value == pytest.approx(expected, rel=2e-3)
    check = next(c for c in run_checks(right.case())[0] if c.check == "consistency.distance_recomputes")
    assert check.outcome == "passed" and float(str(check.expected)) == pytest.approx(expected, rel=2e-3)
    other = {"minimum": 300.0, "maximum": 200.0, "mean": 300.0}[statistic]
    assert outcomes(right.but({"/result/value": other}))["consistency.distance_recomputes"] == "failed"


@pytest.mark.parametrize("names", [("car", "house"), ("car",)])
@pytest.mark.parametrize(("crs", "pixel"), [(None, 0.5), ("EPSG:32630", 0.4)])
def test_the_pair_farthest_apart_is_measured_again_on_a_picture_without_crs_too(
    crs: str | None, pixel: float, names: tuple[str, ...]
) -> None:
    info, stored = scene(np.ones((1, 80, 100), np.uint8), ["red"], crs=crs, pixel=pixel, gsd_m=None if crs else pixel)
    bench = Bench((info, stored))
    drawn = {"car": [(2, 3, 6, 5), (40, 30, 44, 32), (90, 70, 95, 73)], "house": [(10, 60, 25, 75), (70, 5, 85, 20)]}
    layers = [bench.layers.put_features([s.box(*c, n) for c in boxes], kind="boxes", crs="image", label=n, scene_id="s")
              for n, boxes in drawn.items()]  # fmt: skip
    first = s.objects([s.box(*c, "car") for c in drawn["car"]], bench).observation
    parent = first.model_copy(update={"result": first.result.model_copy(update={"layers": tuple(layers)})})
    spec = {"metric": "distance", "subject": "car", "distance_statistic": "farthest"}
    right = s.ask(bench, "How far apart are the two farthest?", "distance", "measure", {
        "sources": [{"name": n, "mode": "objects", "layer": {"observation": "o-1", "label": n}} for n in names],
        "spec": spec | ({"reference": "house"} if len(names) > 1 else {})}, [parent])  # fmt: skip
    gaps = [np.hypot(max(b[0] - a[2], a[0] - b[2], 0), max(b[1] - a[3], a[1] - b[3], 0))
            for a in drawn["car"] for b in drawn[names[-1]]]  # fmt: skip
    expected = pixel * float(max(gaps))
    assert right.observation.result.value == pytest.approx(expected, rel=2e-3)
    assert outcomes(right)["consistency.distance_recomputes"] == "passed"
    nearest = pixel * float(min(g for g in gaps if g))
    for wrong in (nearest, expected * 1.5, expected / pixel * 10):
        assert outcomes(right.but({"/result/value": wrong}))["consistency.distance_recomputes"] == "failed"


def slope_of(grid: Grid, rise: tuple[float, float], product: str = "slope") -> s.Sample:
    """The mean slope of a plane that rises by so much a metre eastward and northward."""
    cols, rows = np.meshgrid(np.arange(60) + 0.5, np.arange(50) + 0.5)
    a, b, _, d, e, _ = grid.transform
    x, y = a * cols + b * rows, d * cols + e * rows
    info, stored = scene((300 + rise[0] * x + rise[1] * y)[None], ["elevation"], unit="m", crs=grid.crs)
    bench = Bench((info.model_copy(update={"grid": grid}), stored))
    return s.ask(bench, "How steep is it?", "number", "execute", s.graph(
        s.S, ("z", "raster.product.band", ("s1",), {"role": "elevation"}),
        ("t", "raster.product.terrain", ("z",), {"product": product}),
        ("out", "raster.summarize.statistic", ("t",), {"statistic": "mean"})))  # fmt: skip


@pytest.mark.parametrize("angle", [30.0, 90.0, 200.0])
@pytest.mark.parametrize("pixel", [(10.0, 10.0), (10.0, 25.0)])
def test_slopes_of_turned_grids_are_worked_out_again(angle: float, pixel: tuple[float, float]) -> None:
    t, (w, h) = np.radians(angle), pixel
    turned = Grid(crs="EPSG:32630", width=60, height=50, transform=(
        w * np.cos(t), h * np.sin(t), 5e5, w * np.sin(t), -h * np.cos(t), 5.6e6))  # fmt: skip
    right = slope_of(turned, (0.2, -0.15))
    # a metre of the grid at its central meridian is 1/0.9996 of one on the ground
    expected = float(np.degrees(np.arctan(0.25 * 0.9996)))
    assert right.observation.result.value == pytest.approx(expected, rel=1e-3)
    assert outcomes(right)["consistency.value_matches_source"] == "passed"
    assert outcomes(right.but({"/result/value": expected * 1.1}))["consistency.value_matches_source"] == "failed"


def test_slopes_where_rows_and_columns_meet_askew_are_left_open() -> None:
    askew = Grid(crs="EPSG:32630", width=60, height=50, transform=(10.0, 4.0, 5e5, 0.0, -10.0, 5.6e6))
    found = outcomes(slope_of(askew, (0.2, -0.15)))
    assert found["consistency.value_matches_source"] in ("not_applicable", "inconclusive")


def test_masks_that_share_pixels_are_not_apart() -> None:
    bench, parents = two_masks()
    inner = np.zeros((80, 100), bool)
    inner[14:16, 14:16] = True  # wholly inside the lake
    grid: Grid = bench.question.scenes[0].grid
    ref = bench.layers.put_mask(inner, np.ones_like(inner), grid, label="fire", scene_id="s")
    held: Mapping[str, Any] = {"result": parents[1].result.model_copy(update={"layers": (ref,)})}
    right = apart(bench, [parents[0], parents[1].model_copy(update=held)])
    assert right.observation.result.value == 0
    assert outcomes(right)["consistency.distance_recomputes"] == "passed"


@pytest.mark.parametrize(("op", "params", "wrong"), [
    ("value.calculate", {"expression": "a / b"}, 320 / 280), ("value.calculate", {"expression": "a - b"}, 40.0),
    ("value.calculate", {"expression": "-floor(-a / 3)"}, 93.0),
    ("value.solve", {"equation": "x * b = a", "unknown": "x"}, 320 / 280),
    ("value.solve", {"equation": "x^2 = a", "unknown": "x", "pick": "max"}, 140.0)])  # fmt: skip
def test_arithmetic_of_values_is_done_again(op: str, params: dict[str, Any], wrong: float) -> None:
    scenes = [scene(np.full((1, 2, 2), v), ["lst"], scene_id=i, unit="K") for i, v in (("one", 280.0), ("two", 320.0))]
    nodes: list[tuple[str, str, Any, dict[str, Any]]] = []
    for short, i in (("a", "one"), ("b", "two")):
        nodes += [(f"s{short}", "asset.scene", (), {"scene": i}),
                  (f"r{short}", "raster.product.band", [f"s{short}"], {"role": "lst"}),
                  (short, "raster.summarize.statistic", [f"r{short}"], {"statistic": "mean"})]
    right = s.ask(Bench(*scenes), "What is the ratio?", "number", "execute", s.graph(*nodes, ("out", op, ["a", "b"], params)))
    assert outcomes(right)["consistency.arithmetic_recomputes"] == "passed"
    assert outcomes(right.but({"/result/value": wrong}))["consistency.arithmetic_recomputes"] == "failed"
