"""Right observations of kinds that a check once took for faults pass, and the fault that the check is for still fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from apps.verification.checks import CHECKS, Limits
from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample

EMPTY_PART = "plausibility.no_empty_part_like_the_rest"


def scattered(xy: Any) -> Sample:
    """Trees of 5 px in the photo of the forest (400 × 400 px), whose upper left corners are these."""
    made = s.found()
    boxes = [s.box(float(x), float(y), float(x) + 5, float(y) + 5) for x, y in xy]
    ref = made.bench.layers.put_features(boxes, kind="boxes", crs="image", label="tree", scene_id="s")
    result = made.observation.result.model_copy(update={"layers": (ref, *made.observation.result.layers[1:])})
    return made.but(observation=made.observation.model_copy(update={"result": result}))


def alarms(n: int, draws: int, limits: Limits) -> int:
    rng = np.random.default_rng(n)
    made = (scattered(rng.uniform(0, 395, (n, 2))).but(limits=limits) for _ in range(draws))
    found = [CHECKS[EMPTY_PART].look(m.case()).outcome for m in made]
    assert set(found) <= {"passed", "failed"}
    return found.count("failed")


# --- a quarter that is empty -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("n", "draws"), [(40, 100), (240, 60), (400, 60), (3000, 10)])
def test_detections_spread_evenly_raise_no_alarm(n: int, draws: int) -> None:
    assert alarms(n, draws, Limits()) == 0


@pytest.mark.parametrize("n", [60, 400])
def test_the_chance_of_an_alarm_is_the_one_that_is_stated(n: int) -> None:
    """However little of a quarter counts as empty: at most a twentieth of 200 draws, give or take three of its deviations."""
    level, draws = 0.05, 200
    found = alarms(n, draws, Limits(empty_part_chance=level, empty_part_share=1.0))
    assert 0 < found <= level * draws + 3 * (draws * level * (1 - level)) ** 0.5


@pytest.mark.parametrize("n", [60, 400, 3000])
def test_a_quarter_that_was_not_looked_at_is_told_at_any_number(n: int) -> None:
    xy = np.random.default_rng(n).uniform(0, 395, (n, 2))
    # what reaches over the edge of the part that was lost is still there
    for edge in (197.5, 190.0):
        rest = xy[~((xy < edge).all(axis=1))]
        found = CHECKS[EMPTY_PART].look(scattered(rest).case())
        assert found.outcome == "failed", found.message
        assert "upper left" in found.message


def test_a_quarter_with_half_as_many_was_looked_at() -> None:
    """1,000 of an orchard in three quarters and 167 in the fourth are far beyond chance, and no sign of a lost tile."""
    rng = np.random.default_rng(4)
    xy = rng.uniform(0, 395, (1333, 2))
    thin = (xy < 197.5).all(axis=1) & (rng.uniform(size=len(xy)) < 0.5)
    assert CHECKS[EMPTY_PART].look(scattered(xy[~thin]).case()).outcome == "passed"
