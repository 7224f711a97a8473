"""Figures and masks of perceive that were falsified after the tool ran: each contradicts its mask, its pixels or itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import ndimage

from apps.verification.checks import CHECKS
from tests.unit.verification import samples as s
from tests.unit.verification import samples_perceived as p
from tests.unit.verification import samples_places as places
from tests.unit.verification.samples import Sample
from tests.unit.verification.samples_new import looked_at, refined, shore
from tests.unit.verification.test_judge import judged

MADE: dict[str, Callable[[], Sample]] = {
    "a field from a stroke": p.field,
    "a field from a point": lambda: p.field(is_stroke=False),
    "a crown from a box": p.crown,
    "change by four bands": p.changed,
    "change by an index": lambda: p.changed("ndvi"),
    "a shift of one pixel": lambda: p.put_aside(1, 0),
    "a mask refined": refined,
    "a table of bands": looked_at,
    "a kind of place": places.car_park,
}


# grown from marks on real pixels: a person looks, however right it is (checks/prompted.py)
WAIT = ("a field from a stroke", "a field from a point", "a crown from a box")


@pytest.mark.parametrize("name", sorted(MADE))
def test_what_is_right_is_accepted_or_waits_for_a_person(name: str) -> None:
    checks, decision = judged(MADE[name]())
    blocked = [c.message for c in checks if c.outcome == "failed" and c.severity == "block"]
    assert decision.decision == ("request_evidence" if name in WAIT else "accept"), blocked
    assert not blocked


def car_park(**more: Any) -> Sample:
    return places.record(places.car_park().bench, places.TOP, **more)


FALSE: dict[str, Callable[[], Sample]] = {
    "a valid share of 1.4": lambda: looked_at().but({"/result/items/1/valid_share": 1.4}),
    "a negative share": lambda: looked_at().but({"/result/items/0/zero_share": -0.2}),
    "a band left out": lambda: p.rows(looked_at(), 3),
    "ten times the noise": lambda: looked_at().but({"/result/items/3/noise": 657.3}),
    "a mask beside its point": lambda: p.moved(p.field(is_stroke=False), 0, 12),
    "a mask beside its stroke": lambda: p.moved(p.field(), 12, 0),
    "a mask beside its box": lambda: p.moved(p.crown(), 12, 0),
    "a sureness above one": lambda: p.told(p.field(), mean_sureness=1.2),
    "the sureness of a piece above one": lambda: p.told(p.field(), piece_sureness=[1.2]),
    "an overlap too great": lambda: p.told(refined(), iou_with_seed=0.99),
    "other pixels taken away": lambda: p.told(refined(), removed_px=5),
    "other pixels added": lambda: p.told(refined(), added_px=5),
    "change shifted": lambda: p.moved(p.changed(), 0, 12),
    "change by an index shifted": lambda: p.moved(p.changed("ndvi"), 0, 12),
    "another share of change": lambda: p.told(p.changed(), share=0.3),
    "another share of water": lambda: p.told(shore(), share=0.35),
    "another shift in metres": lambda: p.told(p.put_aside(1, 0), shift_m=300.0),
    "another shift altogether": lambda: p.told(p.put_aside(1, 0), shift_px=[6.0, 8.0], shift_length_px=10.0, shift_m=300.0),
    "a kind although out of scope": lambda: car_park().but({"/evidence/validity/in_scope": False}),
    "another probability of a label": lambda: p.told(car_park(), label_probabilities={**places.TOP, "harbor": 0.3}),
    "probabilities beyond one": lambda: p.told(car_park(), probability_of_others=0.4),
    "the likeliest last": lambda: p.told(
        car_park(), top_of_the_model=[{"class": k, "p": v} for k, v in reversed(places.TOP.items())]),
    "a label that nobody asked for": lambda: car_park(label_space=["harbor", "forest"]),
    "an interval beside its count": lambda: s.counted().but({"/result/interval": [60, 70]}),
    "an interval beside its area": lambda: s.measured("area").but({"/result/interval": [0.1, 0.2]}),
    "a filter that lets counts rise": lambda: s.water().but({"/evidence/intermediate/filters/0/after": 10**6}),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(FALSE))
def test_what_is_false_is_rejected(name: str) -> None:
    checks, decision = judged(FALSE[name]())
    assert decision.decision == "reject", [(c.check, c.outcome, c.message) for c in checks if c.outcome != "passed"]


def test_metres_of_a_shift_without_its_pixels_are_not_believed() -> None:
    assert p.changed().observation.evidence.intermediate["shift_px"] is None
    assert judged(p.told(p.changed(), shift_m=45.0))[1].decision == "request_evidence"


def test_the_shift_of_a_picture_put_away_is_that_of_the_roll() -> None:
    """Rolled two rows down and three columns right: there it lies."""
    told = p.put_aside(2, 3).observation.evidence.intermediate
    assert told["shift_px"] == pytest.approx([2, 3], abs=0.1)
    found = CHECKS["consistency.shift_matches_source"].look(p.put_aside(2, 3).case())
    assert (found.outcome, found.expected) == ("passed", [2, 3])
    turned = p.told(p.put_aside(2, 3), shift_px=[-2.0, -3.0])
    assert CHECKS["consistency.shift_matches_source"].look(turned.case()).outcome == "failed"


def test_noise_of_a_band_by_hand() -> None:
    """Immerkær 1996: σ = √(π/2) ∑|N ∗ I| / (6 n), over the pixels all of whose neighbours are valid."""
    made = looked_at()
    band = made.bench.stored["s"][1].astype(float)
    mask = np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1]])
    inner = np.s_[1:-1, 1:-1]
    sigma = np.abs(ndimage.convolve(band, mask))[inner].mean() * np.sqrt(np.pi / 2) / 6
    assert float(str(made.observation.result.items[1]["noise"])) == pytest.approx(sigma, rel=1e-6)
    found = CHECKS["consistency.noise_matches_source"].look(FALSE["ten times the noise"]().case())
    nir = np.abs(ndimage.convolve(made.bench.stored["s"][3].astype(float), mask))[inner].mean() * np.sqrt(np.pi / 2) / 6
    assert found.measured == 657.3
    assert isinstance(found.expected, list)
    assert found.expected[1] == pytest.approx(nir, rel=1e-6)


def test_the_overlap_of_two_masks_by_hand() -> None:
    first, now = (x.bench.layers.read_mask(x.observation.result.layers[0]) for x in (shore(), refined()))
    known = first[1] & now[1]
    before, after = first[0] & known, now[0] & known
    told = refined().observation.evidence.intermediate
    assert told["iou_with_seed"] == pytest.approx((before & after).sum() / (before | after).sum())
    assert (told["added_px"], told["removed_px"]) == ((after & ~before).sum(), (before & ~after).sum())
