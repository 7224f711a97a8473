"""Ceilings by hand: what an oracle that is told the labels and sees no more than the record could know."""

from __future__ import annotations

import numpy as np
import pytest

from apps.evaluation.ceilings import LIFTS, detection_ceiling, evidence_of, kind_of_wrong, perfect_forecaster
from apps.evaluation.metrics import ece
from apps.verification.records.memory import Call


def test_evidence_that_tasks_share_binds_the_oracle_and_evidence_of_one_task_does_not() -> None:
    #        shared, three of four wrong          shared, one of four wrong            in one task only
    wrong = [True, True, True, False, True, False, False, False, True, False]
    tasks = ["a", "b", "a", "b", "a", "b", "a", "b", "c", "c"]
    evidence = ["x"] * 4 + ["y"] * 4 + ["z"] * 2
    found = detection_ceiling(wrong, tasks, list(range(10)), evidence, ["other"] * 10, [True] * 10)
    # five wrong: z's one and x's three are four of them at four of five; recall 0.85 needs y as well: all nine but z's right one
    assert found["evidence"]["precision_at_recall_85"] == pytest.approx(5 / 9, abs=1e-4)
    assert found["evidence"]["shared_by_tasks"] == found["evidence"]["with_both_labels"] == 2
    assert (found["evidence"]["calls_in_them"], found["evidence"]["wrong_calls_in_them"]) == (8, 4)
    assert found["reference"] == {"precision_at_recall_85": 1.0, "identical_calls_with_both_labels": 0}
    (row,) = found["wrong_by_kind"]
    assert (row["wrong"], row["found"], row["right_of_the_kind"], row["tasks"]) == (5, 5, 5, 3)
    assert row["lifted_by"] == LIFTS["other"]


def test_identical_calls_with_both_labels_bind_even_the_oracle_of_the_reference() -> None:
    found = detection_ceiling([True, False], ["a", "a"], ["same", "same"], ["x", "x"], ["other"] * 2, [False, False])
    assert found["reference"] == {"precision_at_recall_85": 0.5, "identical_calls_with_both_labels": 2}
    assert detection_ceiling([False], ["a"], ["s"], ["x"], ["other"], [False]) == {"n": 1, "wrong": 0}


def test_kinds_of_wrong_calls() -> None:
    def kind(tool: str, **signs: float) -> str:
        return kind_of_wrong(Call(tool, {}, "1", False), signs)

    assert kind("RemoteCLIP", second_agrees=0.0) == "classifier, a second one disagrees"
    assert kind("RemoteCLIP", second_agrees=1.0) == "classifier, a second one agrees"
    assert kind("RemoteCLIP") == "classifier, no second look yet"
    assert kind("calc_batch_image_mean", not_finite=1.0) == "proved by the record"
    assert kind("calc_batch_image_mean") == "statistic or index over pixels"
    assert kind("percentage_change") == "calculation from earlier values"
    assert kind("never_heard_of") == "other"
    call = Call("RemoteCLIP", {}, "x", False)
    assert evidence_of(call, {"confidence": 0.91}) == evidence_of(call, {"confidence": 0.99})
    assert evidence_of(call, {"confidence": 0.91}) != evidence_of(call, {"confidence": 0.41})


def test_a_perfect_forecaster_errs_the_more_the_more_comes_out_together() -> None:
    p = np.random.default_rng(0).random(2000)
    alone, together = perfect_forecaster(p, range(2000)), perfect_forecaster(p, [i % 20 for i in range(2000)])
    assert alone["ece_p50"] < 0.05 < together["ece_p50"]
    assert alone["groups"] == 2000
    rng = np.random.default_rng(1)
    drawn = [ece(p, rng.random(2000) < p) or 0.0 for _ in range(60)]
    assert alone["ece_p5"] <= np.median(drawn) <= alone["ece_p95"]
    assert perfect_forecaster([], []) == {}
