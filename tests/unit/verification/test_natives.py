"""Bands on a finer grid than they were measured on: told, and no outline told finer than that."""

from __future__ import annotations

import numpy as np
import pytest

from apps.verification.checks import CHECKS
from tests.unit.verification import samples_natives as n
from tests.unit.verification.samples import Sample

NAME = "geometry.native_pixels_told"


def outcome(sample: Sample) -> str:
    return CHECKS[NAME].look(sample.case()).outcome


def test_an_interval_of_half_a_repeated_pixel_is_too_narrow() -> None:
    assert outcome(n.green()) == "passed"
    assert outcome(n.too_narrow()) == "failed"


def test_a_record_that_hides_the_measured_size_is_asked_for_it() -> None:
    bands = n.green().observation.inputs[0].bands
    at = next(j for j, b in enumerate(bands) if b.role == "nir")
    assert outcome(n.green().but({f"/inputs/0/bands/{at}/native_gsd_m": None})) == "inconclusive"


def test_the_interval_is_that_of_a_whole_pixel_of_10_m_along_the_outline() -> None:
    """By hand: pixels of the mask beside one that is out of it, a row or column away, half of 20 m is one of 10 m."""
    made = n.green()
    (ref,) = (r for r in made.observation.result.layers if r.kind == "mask")
    mask, valid = made.bench.layers.read_mask(ref)
    out = np.pad(valid & ~mask, 1)
    beside = out[:-2, 1:-1] | out[2:, 1:-1] | out[1:-1, :-2] | out[1:-1, 2:]
    edge, result = int((mask & beside).sum()), made.observation.result
    assert result.interval is not None and isinstance(result.value, float)
    assert result.value - result.interval[0] == pytest.approx(result.value * edge / mask.sum(), rel=5e-3)


def test_a_sum_and_the_likeness_of_neighbours_are_refused_of_repeated_pixels() -> None:
    """A sum of 100 × 100 measured pixels would be four times as large on 200 × 200."""
    source = [("s", "asset.scene", (), {"scene": "s"}), ("r", "raster.product.band", ["s"], {"role": "nir"})]
    for op, params, why in (
        ("raster.summarize.statistic", {"statistic": "sum"}, "as often as it was repeated"),
        ("raster.summarize.moran", {}, "alike where a pixel was repeated"),
    ):
        o = n.stacked().execute([*source, ("out", op, ["r"], params)])
        assert o.status.state == "failed" and why in o.status.reason, o.status.reason
    red = [source[0], ("r", "raster.product.band", ["s"], {"role": "red"})]
    assert n.stacked().execute([*red, ("out", "raster.summarize.statistic", ["r"], {"statistic": "sum"})]).status.state == "ok"


def test_a_sum_over_repeated_pixels_is_seen_on_the_record() -> None:
    made = n.mean()
    assert outcome(made) == "passed"
    assert outcome(made.but({"/arguments/nodes/2/params/statistic": "sum"})) == "failed"
