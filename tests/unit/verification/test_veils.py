"""What a quality band hides and perceive counted all the same is caught; what is left out passes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.core.evidence.observation import Observation
from apps.verification.checks import run_checks
from apps.verification.requests import offers, propose_requests, requests_for_missing
from tests.unit.tools.rasters import Bench
from tests.unit.verification import samples as s
from tests.unit.verification.samples_veils import GREEN, cloud_counted, veiled


def outcomes(sample: s.Sample) -> dict[str, str]:
    return {c.check: c.outcome for c in run_checks(sample.case())[0]}


def test_perceive_that_leaves_out_what_is_hidden_passes_and_its_figures_are_those_by_hand() -> None:
    sample = veiled()
    red, nir, qa = sample.bench.stored["s"].astype(np.float64)
    hidden = qa.astype(int) >> 14 == 3
    green = (nir - red) / (nir + red) > 0.25
    told: Any = sample.observation.evidence
    assert told.intermediate["mask_px"] == int((green & ~hidden).sum()) != int(green.sum())
    assert told.intermediate["valid_px"] == int((~hidden).sum()) == sum(told.intermediate["histogram"]["counts"])
    assert told.intermediate["quality_masked"]["n_px"] == int(hidden.sum())
    entry = told.validity["quality_mask"][0]
    assert (entry["scheme"], entry["flags"], entry["band"]) == ("landsat_precollection", ["cloud"], 3)
    assert told.validity["valid_share"] == pytest.approx(1 - hidden.mean())
    found = outcomes(sample)
    assert {k for k, v in found.items() if v in ("failed", "errored", "inconclusive")} == set()
    for name in ("completeness.quality_mask_applied", "completeness.hidden_not_counted", "consistency.mask_matches_source",
                 "consistency.raster_matches_source", "completeness.quality_mask_of_date"):
        assert found[name] == "passed", name


def test_a_quality_band_that_was_left_unused_is_asked_to_be_used_and_that_call_passes() -> None:
    bare = veiled(quality_mask="none")
    checks, _ = run_checks(bare.case())
    assert next(c for c in checks if c.check == "completeness.quality_mask_applied").outcome == "inconclusive"
    wanted = [r for r in requests_for_missing(checks, bare.case()) if r.kind == "quality_mask"]
    assert wanted[0].arguments == {"quality_mask": "auto"} and "quality_mask" in bare.observation.arguments
    assert any(r.kind == "quality_mask" for r in propose_requests(bare.case(), {}, {}))
    assert next(o for o in offers(bare.case()) if o.kind == "quality_mask").request is not None
    mended = veiled(quality_mask="auto")
    assert outcomes(mended)["completeness.quality_mask_applied"] == "passed"
    assert next(o for o in offers(mended.case()) if o.kind == "quality_mask").request is None


def test_clouds_in_the_mask_or_another_share_than_the_bands_own_are_caught() -> None:
    found = outcomes(cloud_counted())
    assert found["completeness.hidden_not_counted"] == found["consistency.mask_matches_source"] == "failed"
    other = veiled().but({"/evidence/validity/quality_mask/0/share": 0.02})
    assert outcomes(other)["completeness.hidden_not_counted"] == "failed"
    weaker = veiled().but({"/evidence/validity/quality_mask/0/flags": ["cirrus"]})
    assert outcomes(weaker)["completeness.quality_mask_applied"] == "failed"


def boxes_over(sample_bench: Any, corners: list[tuple[float, float, float, float]]) -> s.Sample:
    ref = sample_bench.layers.put_features([s.box(*c) for c in corners], kind="boxes", crs="image", label="tree", scene_id="s")
    return s.written(
        sample_bench, "perceive", kind="layer", question="How many trees are there?", form="integer",
        arguments={"image_paths": ["s"], "objective": "trees", "mode": "objects", "target_groups": {"tree": []}},
        source={"weights": [{"name": "x", "digest": "sha256:" + "a" * 64}], "thresholds": {}, "sensor": "", "resolution_m": 30},
        intermediate={"candidates": len(corners), "kept": len(corners), "scores": [0.8] * len(corners)},
        validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True, "quality_mask": [
            {"scene": "s", "scheme": "landsat_precollection", "flags": ["cloud"]}]},
        layers=(ref,))  # fmt: skip


def test_a_box_under_a_cloud_is_caught_and_one_beside_it_is_not() -> None:
    bench = s.cloudy()
    hidden = bench.stored["s"][2].astype(int) >> 14 == 3
    filled = np.lib.stride_tricks.sliding_window_view(hidden, (5, 5)).mean(axis=(2, 3))
    r, c = np.argwhere(filled == 1)[0]
    free = np.argwhere(filled == 0)[0]
    clear = boxes_over(s.cloudy(), [(free[1], free[0], free[1] + 5, free[0] + 5)])
    assert outcomes(clear)["completeness.hidden_not_counted"] == "passed"
    under = boxes_over(s.cloudy(), [(free[1], free[0], free[1] + 5, free[0] + 5), (c, r, c + 5, r + 5)])
    found = next(x for x in run_checks(under.case())[0] if x.check == "completeness.hidden_not_counted")
    assert found.outcome == "failed" and found.measured == 1


def test_a_band_whose_scheme_is_not_known_is_warned_of() -> None:
    bench = Bench(s.cut(s.CLOUDY, ("red", "nir", "qa"), date="2024-04-02"))
    call = {"image_paths": ["s"], "objective": "vegetation", "mode": "regions", "target_groups": {"vegetation": []},
            "regions_method": GREEN}
    sample = s.ask(bench, "How many hectares are green?", "area", "perceive", call)
    assert isinstance(sample.observation, Observation) and sample.observation.evidence.validity["quality_mask"] is None
    found = next(c for c in run_checks(sample.case())[0] if c.check == "completeness.quality_mask_applied")
    assert (found.outcome, found.severity) == ("failed", "warn")
    assert any("is read is not known" in line.message and line.level == "warning" for line in sample.observation.status.log)
