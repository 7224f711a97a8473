"""Requests that a run really makes: situations of the fault bench, through the true loop, tools and judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from apps.evaluation.assembly import bench_door
from apps.evaluation.faultbench.cases import BenchCase
from apps.evaluation.faultbench.command import SAMPLES, shared_folder
from apps.evaluation.faultbench.runner import Bench, Outcome
from apps.evaluation.faultbench.scenarios import Scenario, prepare_files, run_scenarios, scenarios, table

pytestmark = pytest.mark.filterwarnings("ignore::rasterio.errors.NotGeoreferencedWarning")


def run(folder: Path, name: str) -> list[tuple[Scenario, str, Outcome]]:
    """The runs of one scenario; skipped where its imagery is missing."""
    folders = [SAMPLES, shared_folder(), folder]
    prepare_files(folder, Bench(bench_door(folder), (), folders, folder)._find)

    def make(cases: Sequence[BenchCase]) -> Bench:
        return Bench(bench_door(folder), cases, folders, folder)

    found = run_scenarios(make, [s for s in scenarios() if s.name == name])
    if not found:
        pytest.skip(f"the imagery of {name!r} is not here")
    return found


def kinds(outcome: Outcome) -> list[tuple[str, str, str]]:
    return [(r.kind, r.outcome, r.after) for r in outcome.requests]


def test_a_hole_that_a_plan_left_is_filled_by_request(tmp_path: Path) -> None:
    ((_, _, outcome),) = run(tmp_path, "hole in the series")
    assert kinds(outcome) == [("complete_series", "answered", "replaced")]
    assert outcome.is_right


def test_clouds_that_a_plan_forgot_are_masked_by_request(tmp_path: Path) -> None:
    ((_, _, outcome),) = run(tmp_path, "clouds forgotten")
    assert kinds(outcome) == [("quality_mask", "answered", "replaced")]
    assert outcome.is_right
    assert not outcome.has_accepted_incorrect


def test_a_detector_with_a_poor_record_is_asked_again_at_another_scale(tmp_path: Path) -> None:
    runs = run(tmp_path, "trees, poor record")
    by = {(o.fault, how): o for _, how, o in runs}
    honest, once = by["", "no call"], by["objects_overlooked", "one call"]
    assert kinds(honest) == [("other_scale", "answered", "accept")]
    assert honest.is_right
    # what the other scale finds does not bear the struck call out, nor does a closer look
    assert [k for k, _, _ in kinds(once)] == ["other_scale", "closer_look"] and kinds(once)[-1][2] == "reject"
    assert once.is_abstained
    (row,) = table(runs)
    assert row["honest"]["right"] == row["honest"]["runs"] == 1
    assert row["honest"]["mean_change_of_p"] > 0.1


def test_a_good_record_spares_the_request_and_lets_a_silent_fault_pass(tmp_path: Path) -> None:
    runs = run(tmp_path, "trees, good record")
    assert all(not o.requests for _, _, o in runs)
    assert [o.is_right for _, how, o in runs] == [True, False, False]
