"""Figures of the fault bench against values counted by hand."""

from __future__ import annotations

import math

import pytest

from apps.evaluation.faultbench.figures import (
    auroc,
    bootstrap,
    calibration,
    caught_by,
    figures,
    r_prop,
    request_ends,
    settled,
    summary,
)
from apps.evaluation.faultbench.figures import verifier_figures as confusion_of
from apps.evaluation.faultbench.runner import Asked, Outcome
from tests.unit.evaluation.outcomes import judgement, outcome, some_outcomes


def of(configuration: str) -> list[Outcome]:
    return [o for o in some_outcomes() if o.configuration == configuration]


def test_rates_of_the_two_configurations() -> None:
    before, after = figures(of("none")), figures(of("verification_prior"))
    assert before["runs"] == 6
    assert before["runs_with_incorrect"] == 4
    assert before["R_err"] == 1.0
    assert before["R_prop"] == pytest.approx(3 / 4)
    assert before["R_prop_abstained_counts"] == 1.0
    assert before["answer_accuracy"] == pytest.approx(2 / 6)
    assert before["honest_accuracy"] == 1.0
    assert after["R_prop"] == pytest.approx(1 / 4)
    assert after["incorrect_accepted"] == pytest.approx(1 / 4)
    assert after["abstained"] == pytest.approx(4 / 6)
    assert after["wrong_answers"] == pytest.approx(1 / 6)
    assert after["right_observations"] == 2
    assert after["right_rejected"] == pytest.approx(1 / 2)
    assert after["verification_share_of_run"] == pytest.approx(0.01)
    assert after["judgement_ms_p50"] == pytest.approx(6.0)


def test_summary_has_families_and_the_fall_in_points() -> None:
    made = summary(some_outcomes(), n_boot=50)
    assert made["drop"]["verification_prior"]["points"] == pytest.approx(50.0)
    low, high = made["drop"]["verification_prior"]["interval"]
    # case a falls from 2/2 to 1/2, case b from 1/2 to 0: both by 50 points
    assert (low, high) == (pytest.approx(50.0), pytest.approx(50.0))
    assert made["families"]["unit"]["none"] == {
        "runs": 4,
        "R_prop": 0.75,
        "incorrect_accepted": 1.0,
        "right_answers": 0.0,
    }
    assert set(made["faults"]) == {"power_of_ten", "nan_hidden"}


def test_confusion_and_catches() -> None:
    made = confusion_of(of("verification_prior"))
    assert made["confusion"] == {
        "right": {"accept": 1, "request_evidence": 0, "reject": 1},
        "incorrect": {"accept": 1, "request_evidence": 0, "reject": 3},
    }
    assert made["reject_precision"] == pytest.approx(3 / 4)
    assert made["reject_recall"] == pytest.approx(3 / 4)
    assert caught_by(of("verification_prior")) == [
        {"by": "contract.value_fits_kind", "n": 3},
        {"by": "nothing: accepted", "n": 1},
    ]


def test_observations_that_are_neither_count_nowhere() -> None:
    rows = [outcome("a", "x", "verification", right=True, observations=(judgement(None, "reject", 0.1),))]
    made = figures(rows)
    assert made["right_observations"] == 0
    assert made["right_rejected"] is None
    assert made["runs_with_incorrect"] == 0
    assert r_prop(rows) is None


def test_calibration_by_hand() -> None:
    made = calibration([(0.95, True), (0.85, True), (0.85, False), (0.15, False)])
    assert made["brier"] == pytest.approx((0.05**2 + 0.15**2 + 0.85**2 + 0.15**2) / 4)
    # bins: 0.9–1 (0.95 given, all right), 0.8–0.9 (0.85 given, half right), 0.1–0.2 (0.15 given, none right)
    assert made["ece"] == pytest.approx((1 * 0.05 + 2 * 0.35 + 1 * 0.15) / 4)
    assert [b["n"] for b in made["bins"]] == [1, 2, 1]
    # of the four pairs right/wrong three are in order and one is a tie
    assert made["auroc"] == pytest.approx(3.5 / 4)
    assert auroc([(0.4, True)]) is None


def test_request_ends_by_hand() -> None:
    (row,) = request_ends(of("verification_prior"))
    assert (row["kind"], row["n"], row["answered"]) == ("recompute", 1, 1)
    right = row["right"]
    assert (right["n"], right["accepted"], right["rejected"], right["replaced"], right["left_to_a_person"]) == (1, 0, 1, 0, 0)
    assert right["mean_change_of_p"] == pytest.approx(-0.5)
    assert right["p_after"] - right["p_before"] == pytest.approx(-0.5)
    assert row["incorrect"]["n"] == 0


def test_the_chain_from_a_failed_observation_to_a_right_answer_by_hand() -> None:
    asked = (Asked("other_scale", "answered", True, 0.6, 0.9, "accept"),)
    mended = (Asked("quality_mask", "answered", False, None, 0.9, "replaced"),)
    lost = (Asked("recompute", "answered", False, 0.7, 0.2, "reject"),)
    asking = {"first": "request_evidence"}
    rows = [
        outcome("a", "", "v", right=True, observations=(judgement(True, "accept", 0.9, first="accept"),)),
        outcome("b", "", "v", right=True, observations=(judgement(True, "accept", 0.6, **asking),), requests=asked),
        outcome("c", "", "v", right=True, observations=(judgement(False, "reject", None, **asking),), requests=mended),
        outcome(
            "d", "x", "v", right=False, abstained=True, observations=(judgement(False, "reject", 0.7, **asking),), requests=lost
        ),
        outcome("e", "x", "v", right=False, abstained=True, observations=(judgement(False, "reject", None, first="reject"),)),
    ]
    assert settled(rows) == {
        "tasks": 5,
        "with_failed_observation": 4,
        "with_requests": 3,
        "accepted_afterwards": 2,
        "answered_right": 2,
        "answered_wrong": 0,
        "rejected_calls": 3,
    }


def test_bootstrap_holds_the_estimate_and_needs_rows() -> None:
    rows = [outcome(f"c{i}", "x", "none", right=i % 2 == 0, observations=(judgement(False, "accept", None),)) for i in range(20)]
    low, high = bootstrap(rows, r_prop, 200, 3) or (math.nan, math.nan)
    assert low < 0.5 < high
    assert bootstrap([], r_prop, 200, 3) is None
