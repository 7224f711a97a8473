"""Calibration, confusion, overrides and audit from verdicts, against figures computed by hand."""

import pytest

from apps.review.reliability import Judged, at_thresholds, audit, confusion, overrides, reliability, wilson


def judged(p: float | None, decision: str, *, is_right: bool, shown: float = 1.0) -> Judged:
    return Judged(p, decision, is_right, shown)


SOME = [
    judged(0.95, "accept", is_right=True),
    judged(0.92, "accept", is_right=False),
    judged(0.55, "request_evidence", is_right=True),
    judged(0.15, "reject", is_right=False),
    judged(None, "reject", is_right=True),
]


def test_bins_say_what_was_given_and_what_was_so() -> None:
    found = reliability(SOME)
    assert found["n"] == 4  # one was decided by a rule alone
    assert [(b["from"], b["n"], b["share_right"]) for b in found["bins"]] == [(0.1, 1, 0.0), (0.5, 1, 1.0), (0.9, 2, 0.5)]
    assert found["brier"] == pytest.approx((0.05**2 + 0.92**2 + 0.45**2 + 0.15**2) / 4)
    assert found["ece"] == pytest.approx((0.15 + 0.45 + 2 * (0.935 - 0.5)) / 4)
    assert all(b["low"] <= b["share_right"] <= b["high"] for b in found["bins"])


def test_an_audited_verdict_stands_for_those_that_were_not_drawn() -> None:
    drawn = [judged(0.9, "accept", is_right=True, shown=0.1), judged(0.9, "accept", is_right=False)]
    assert reliability(drawn)["bins"][0]["share_right"] == pytest.approx(10 / 11)
    # weights beyond the prior's limit are cut as they are there
    assert judged(0.9, "accept", is_right=True, shown=0.001).weight == 25.0


def test_nothing_labelled_is_unknown_and_not_zero() -> None:
    found = reliability([])
    assert (found["n"], found["brier"], found["ece"], found["bins"]) == (0, None, None, [])
    assert overrides([])["share"] is None
    assert audit(accepted=7, drawn=1, judged=[])["share_right"] is None
    assert wilson(0, 0) == (0.0, 1.0)


def test_confusion_counts_rule_decisions_too() -> None:
    assert confusion(SOME) == [
        {"decision": "accept", "right": 1, "wrong": 1},
        {"decision": "request_evidence", "right": 1, "wrong": 0},
        {"decision": "reject", "right": 1, "wrong": 1},
    ]


def test_overrides_are_verdicts_against_a_decision() -> None:
    found = overrides(SOME)
    assert (found["n"], found["against"], found["accepted_called_wrong"], found["rejected_called_right"]) == (4, 2, 1, 1)
    assert found["interval"][0] < 0.5 < found["interval"][1]


def test_a_higher_threshold_accepts_less() -> None:
    rows = at_thresholds(SOME, (0.5, 0.9, 0.99))
    assert [(r["accepted"], r["accepted_wrong"], r["held_right"], r["held_wrong"]) for r in rows] == [
        (3, 1, 0, 1),
        (2, 1, 1, 1),
        (0, 0, 2, 2),
    ]
    assert rows[2]["precision"] is None


def test_the_audit_estimates_all_accepted_ones() -> None:
    seen = [judged(0.9, "accept", is_right=i > 0, shown=0.2) for i in range(10)]
    found = audit(accepted=60, drawn=12, judged=seen)
    assert (found["drawn"], found["judged"], found["wrong"]) == (12, 10, 1)
    assert found["share_right"] == pytest.approx(0.9)
    assert found["effective"] == pytest.approx(10)
    # Wilson (1927) for 9 of 10 at 90 %
    assert found["interval"] == pytest.approx((0.652, 0.977), abs=0.001)
