"""Each fault changes what it says, on a small raster or a small record; the doors are honest where no fault stands in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from apps.core.evidence.observation import Observation
from apps.core.geo import MaskedRaster
from apps.evaluation.faultbench import held_out, held_out_2
from apps.evaluation.faultbench.doors import ChangedLayers, ChangedReader
from apps.evaluation.faultbench.faults import FAULTS, Call
from tests.unit.tools.rasters import Bench, MemoryReader, scene
from tests.unit.verification import samples as s

FAMILIES = {
    "mask", "tile", "silent", "detections", "band", "nodata", "scale", "stale", "series", "grid", "gsd", "threshold", "region",
    "convention", "unit", "denominator",
}  # fmt: skip
GRAPH = {
    "nodes": [
        {"id": "s1", "op": "asset.scene", "inputs": [], "params": {"scene": "s"}},
        {"id": "i", "op": "raster.product.index", "inputs": ["s1"], "params": {"index": "ndvi"}},
        {"id": "m", "op": "raster.product.threshold", "inputs": ["i"], "params": {"op": ">", "value": 0.4}},
        {"id": "out", "op": "raster.summarize.area", "inputs": ["m"], "params": {"unit": "ha"}},
    ],
    "output": "out",
}


def call_of(sample: s.Sample, **more: Any) -> Call:
    return Call(
        sample.observation.tool,
        {**dict(sample.observation.arguments), **more},
        sample.question or sample.bench.question,
        sample.observation.step,
    )


def read(name: str, bench: Bench | None = None) -> tuple[MaskedRaster, MaskedRaster]:
    """(honest, faulty) reads of the whole first scene, all bands."""
    bench = bench or Bench(s.optical())
    info = bench.question.scenes[0]
    real = MemoryReader(info, bench.stored[info.scene_id])
    call = Call("execute", GRAPH, bench.question, 1)
    wrap = FAULTS[name].reader
    assert wrap is not None

    def opener(scene_id: str) -> MemoryReader:
        found = next(i for i in bench.question.scenes if i.scene_id == scene_id)
        return MemoryReader(found, bench.stored[scene_id])

    faulty = wrap(info.scene_id, real, opener, call)
    bands = [b.index for b in info.bands]
    return real.read(bands), faulty.read(bands)


def test_there_are_enough_and_each_says_what_it_does() -> None:
    known = dict(FAULTS.items())
    seen = {n: f for n, f in known.items() if "unseen" not in f.tags}
    assert len(seen) >= 25
    assert {f.family for f in seen.values()} >= FAMILIES
    assert len(known) - len(seen) >= 8
    assert {f.tags for f in known.values()} == {frozenset(), held_out.UNSEEN, held_out_2.FRESH}
    for fault in known.values():
        assert fault.meaning
        assert [fault.reader, fault.layers, fault.arguments, fault.report].count(None) == 3


def test_a_reader_without_a_fault_is_the_real_one() -> None:
    bench = Bench(s.optical())
    info = bench.question.scenes[0]
    real = MemoryReader(info, bench.stored[info.scene_id])
    for window, shape in ((None, None), ((5, 6, 20, 10), None), (None, (30, 40))):
        one, other = real.read([4, 3], window, shape), ChangedReader(real).read([4, 3], window, shape)
        assert np.array_equal(one.data, other.data, equal_nan=True)
        assert np.array_equal(one.valid, other.valid)
        assert one.grid == other.grid


def test_band_faults_exchange_bands() -> None:
    honest, swapped = read("bands_swapped")
    assert np.array_equal(swapped.data[3], honest.data[2], equal_nan=True)
    assert np.array_equal(swapped.data[2], honest.data[3], equal_nan=True)
    _, green = read("red_read_as_nir")
    assert np.array_equal(green.data[3], honest.data[1], equal_nan=True)
    _, late = read("band_numbers_from_zero")
    assert np.array_equal(late.data[0], honest.data[1], equal_nan=True)


def test_nodata_and_tile_faults_change_what_is_valid() -> None:
    honest, fill = read("fill_counted")
    assert not honest.valid.all()
    assert fill.valid.all()
    assert (fill.data[~honest.valid] == 0).all()
    _, dropped = read("tile_dropped")
    half = (honest.data.shape[1] // 2, honest.data.shape[2] // 2)
    assert not dropped.valid[:, half[0] :, half[1] :].any()
    _, zero = read("tile_zero")
    assert np.array_equal(zero.valid, honest.valid)
    assert (zero.data[:, : half[0], : half[1]] < 1e-30).all()
    _, rows = read("rows_lost")
    assert not rows.valid[:, ::4].any()


def test_scale_faults_apply_it_twice_or_never() -> None:
    stored = np.full((4, 20, 30), 1000, dtype=np.uint16)
    info, pixels = scene(stored, s.ROLES, scale=1e-4, offset=-0.01)
    bench = Bench((info, pixels))
    honest, twice = read("scale_twice", bench)
    assert honest.data[0, 0, 0] == pytest.approx(0.09)
    assert twice.data[0, 0, 0] == pytest.approx(0.09 * 1e-4 - 0.01)
    _, never = read("scale_never", bench)
    assert never.data[0, 0, 0] == 1000


@pytest.mark.parametrize(
    "name", ["rows_mirrored", "pixels_aside", "overview_for_full", "saturated", "noise_added", "first_block_again"]
)
def test_other_readers_change_pixels_and_keep_the_grid(name: str) -> None:
    drawn = np.random.default_rng(3).integers(200, 3000, (4, 48, 64)).astype(np.uint16)
    honest, faulty = read(name, Bench(scene(drawn, s.ROLES)))
    assert faulty.grid == honest.grid
    both = honest.valid & faulty.valid
    assert not np.allclose(honest.data[both], faulty.data[both])


def test_grid_faults_claim_another_ground() -> None:
    bench = Bench(s.optical())
    info = bench.question.scenes[0]
    real = MemoryReader(info, bench.stored[info.scene_id])
    call = Call("execute", GRAPH, bench.question, 1)
    for name, change in (("gsd_doubled", "transform"), ("zone_aside", "crs")):
        wrap = FAULTS[name].reader
        assert wrap is not None
        claimed = wrap(info.scene_id, real, lambda i: real, call).info.grid
        assert getattr(claimed, change) != getattr(info.grid, change)


@pytest.mark.parametrize(
    ("name", "holds"),
    [
        ("leaked_mask", lambda m, n: n.sum() > m.sum() and (n | m).sum() == n.sum()),
        ("shifted_mask", lambda m, n: abs(int(n.sum()) - int(m.sum())) <= m.sum() and (n != m).any()),
        ("mask_tile_lost", lambda m, n: not n[: m.shape[0] // 2, m.shape[1] // 2 :].any()),
        ("empty_layer_called_zero", lambda m, n: not n.any()),
        ("mask_inverted", lambda m, n: not (n & m).any() and n.any()),
        ("mask_eroded", lambda m, n: n.sum() < m.sum()),
        ("mask_smoothed", lambda m, n: n.sum() > m.sum()),
    ],
)
def test_mask_faults(name: str, holds: Callable[[Any, Any], bool]) -> None:
    bench = Bench(s.optical())
    grid = bench.question.scenes[0].grid
    mask = np.zeros(grid.shape, bool)
    mask[8:30, 30:70] = True
    mask[15:18, 40:43] = False
    make = FAULTS[name].layers
    assert make is not None
    layers = make(bench.layers, Call("perceive", {"mode": "regions"}, bench.question, 1))
    assert isinstance(layers, ChangedLayers)
    stored, valid = bench.layers.read_mask(layers.put_mask(mask, np.ones_like(mask), grid, label="water"))
    assert valid.all()
    assert holds(mask, stored)


@pytest.mark.parametrize(
    ("name", "n"),
    [("duplicated_detections", 122), ("merged_detections", 30), ("every_second_lost", 31), ("tile_coordinates", 61)],
)
def test_detection_faults(name: str, n: int) -> None:
    bench = s.photo()
    make = FAULTS[name].layers
    assert make is not None
    layers = make(bench.layers, Call("perceive", {"mode": "objects"}, bench.question, 1))
    ref = layers.put_features(s.trees(), kind="boxes", crs="image", label="tree")
    held = bench.layers.read_features(ref)
    assert ref.n == len(held) == n
    assert held != s.trees()
    weak = layers.put_features(s.trees(), kind="boxes", crs="image", label="candidates")
    assert bench.layers.read_features(weak) == s.trees()


@pytest.mark.parametrize(
    ("name", "at", "before", "after"),
    [
        ("threshold_loose", ("value",), 0.4, pytest.approx(0.15)),
        ("threshold_side", ("op",), ">", "<"),
    ],
)
def test_argument_faults(name: str, at: tuple[str, ...], before: Any, after: Any) -> None:
    sample = s.area()
    change = FAULTS[name].arguments
    assert change is not None
    changed = change(GRAPH, call_of(sample))
    assert GRAPH["nodes"][2]["params"][at[0]] == before  # type: ignore[index]
    assert changed["nodes"][2]["params"][at[0]] == after
    assert FAULTS[name].hides_arguments


def reported(name: str, sample: s.Sample) -> Observation:
    change = FAULTS[name].report
    assert change is not None
    return change(sample.observation, call_of(sample))


@pytest.mark.parametrize(
    ("name", "make", "factor"),
    [
        ("metres_called_kilometres", s.area, 1e4),
        ("percent_as_fraction", s.share, 100),
        ("power_of_ten", s.mean, 10),
        ("degrees_as_metres", s.area, 1.2e-6),
        ("acres_called_hectares", s.area, 2.47105),
        ("per_month_called_per_year", s.trend, 1 / 12),
        ("slightly_off", s.mean, 1.04),
    ],
)
def test_report_faults_by_a_factor(name: str, make: Callable[[], s.Sample], factor: float) -> None:
    sample = make()
    told = reported(name, sample)
    value = sample.observation.result.value
    assert isinstance(value, float)
    assert told.result.value == pytest.approx(value * factor)
    assert told.result.unit == sample.observation.result.unit
    assert told.evidence == sample.observation.evidence
    assert told.status.state == "ok"


def test_the_other_report_faults() -> None:
    assert reported("nan_hidden", s.mean()).result.value is None
    assert reported("rounded_to_zero", s.mean()).result.value == 0
    assert reported("sign_lost", s.change()).result.value == abs(s.change().observation.result.value)  # type: ignore[arg-type]
    text = reported("silent_failure_text", s.mean())
    assert (text.result.kind, text.status.state) == ("text", "ok")
    stale = reported("stale_result", s.mean())
    assert stale.inputs[0].artifact != s.mean().observation.inputs[0].artifact
    share = reported("wrong_denominator", s.share())
    parts = share.evidence.intermediate
    assert share.result.value == pytest.approx(parts["numerator"] / parts["denominator"])  # type: ignore[operator]
    assert share.result.value != pytest.approx(s.share().observation.result.value)
    late = reported("dates_one_late", s.series())
    days = [i["date"] for i in s.series().observation.result.items]
    assert [i["date"] for i in late.result.items] == [*days[1:], days[0]]
