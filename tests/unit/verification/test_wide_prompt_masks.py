"""Masks from prompts whose window holds more pixels than are looked at by lot: their outline is held against every pixel."""

from __future__ import annotations

import pytest

from apps.verification.checks import Limits, run_checks
from tests.unit.verification.samples import Sample
from tests.unit.verification.test_checks import beside, pointed_at


def told(sample: Sample) -> tuple[str, object]:
    found = run_checks(sample.case(), ["geometry.mask_lies_where_colours_part"])[0][0]
    return found.outcome, found.measured


@pytest.mark.parametrize(("by_px", "outcome"), [(0, "passed"), (5, "failed")])
def test_a_wide_mask_is_told_as_a_small_one(by_px: int, outcome: str) -> None:
    sample = beside(by_px) if by_px else pointed_at(1)
    # the shapes of mask and pixels differed, and the check broke
    wide = sample.but(limits=Limits(dense_look_px=800))
    assert told(wide) == told(sample)
    assert told(wide)[0] == outcome
