"""The evaluation of recorded runs, on made-up ones: labels only score, seen tasks are judged out of fold."""

from __future__ import annotations

import copy
import json
import random
from pathlib import Path
from typing import Any

import pytest

from apps.core.errors import UserError
from apps.evaluation import fitting
from apps.evaluation.fitting import fold_of_tasks, samples_of
from apps.evaluation.folds import FoldedModels, load_folds, question_key, write_folds
from apps.evaluation.importers.trajectories import Trajectories, read_cases, read_folder
from apps.evaluation.labels import truth
from apps.evaluation.metrics import auroc
from apps.evaluation.recorded import UnseenRecords, evaluate_cases, evaluate_trajectories, judge_run
from apps.evaluation.tables import cases_table, trajectories_table
from apps.runs.assembly import judge_for_records
from apps.verification.records.forest import load_record_model
from tests.shared import DATA
from tests.unit.evaluation.trajectories import pairs_of, question, run_of, write


def shipped() -> UnseenRecords:
    return UnseenRecords(load_record_model(), load_folds())


def report_of(data: Trajectories) -> dict[str, Any]:
    records = shipped()
    return evaluate_trajectories(data, judge_for_records(records), records)


def test_what_labels_mean() -> None:
    assert truth("correct_value", "strict") is False
    assert truth("off_reference_value_mismatch", "strict") is None
    assert truth("off_reference_value_mismatch", "broad") is True
    assert truth("silent_failure", "broad") is None
    assert truth("silent_failure", "strict", allow_silent=True) is True
    for unknown in ("off_reference", "off_reference_path", "disputed", "error", "listing", "never heard of", None):
        assert truth(unknown, "broad", allow_silent=True) is None


def test_report_of_an_unseen_folder(tmp_path: Path) -> None:
    report = report_of(read_folder(write(tmp_path, pairs_of(range(6)))))
    assert report["data"] == {
        "runs": 12, "tasks": 6, "calls": 36, "tasks_fitted_on_and_judged_out_of_fold": 0, "tasks_never_seen": 6,
        "is_out_of_sample": True, "runs_left_out": 0, "has_labels": True, "broken_lines": 0, "broken": [],
        "labels_without_a_call": 0, "runs_given_twice": 0,
        "labels": {"listing": 12, "error": 12, "correct_value": 6, "off_reference_value_mismatch": 6},
    }  # fmt: skip
    assert report["R_dep"] == 1.0
    assert report["R_err"]["broad"] == 0.5
    assert report["R_err"]["strict"] == 0.0
    assert report["R_prop"]["broad"] == 1.0
    broad = report["bad_observations"]["broad"]["values"]
    assert (broad["n"], broad["wrong"]) == (12, 6)
    assert broad["auroc"] >= 0.9, "a whole series that hits a choice against one file that misses all"
    assert report["answers_wrong"]["n"] == 12
    assert report["decisions"]["all"].get("accept", 0) == 0
    json.dumps(report)
    assert "R_dep" in trajectories_table(report)


def test_labels_and_outcomes_change_no_decision(tmp_path: Path) -> None:
    pairs = pairs_of(range(3))
    turned = copy.deepcopy(pairs)
    for run, labels in turned:
        run |= {"correct": not run["correct"], "gold_answer": "B", "gold_calls": [{"tool": "x"}]}
        for entry in labels["calls"]:
            entry["label"] = "silent_failure"
    seen = []
    for name, held in (("a", pairs), ("b", turned)):
        data, records = read_folder(write(tmp_path / name, held)), shipped()
        judge = judge_for_records(records)
        seen.append([(d.decision, d.p_correct, s) for run in data.runs for _, d, s in judge_run(run, judge, records)])
    assert seen[0] == seen[1]


def test_runs_without_an_answer_or_with_faults_of_the_infrastructure_are_left_out(tmp_path: Path) -> None:
    missing, broken = run_of(1, "m", is_good=False, answer=None), run_of(2, "b", is_good=True)
    broken[0]["infra_error"] = True
    report = report_of(read_folder(write(tmp_path, [missing, broken, run_of(3, "g", is_good=True)])))
    assert report["answers_wrong"]["n"] == 1
    assert report["R_dep"] == 0.5
    assert report["data"]["runs_left_out"] == 1


def test_an_empty_run_and_unlabelled_calls_are_no_fault(tmp_path: Path) -> None:
    run, labels = run_of(1, "one", is_good=True)
    run["calls"], labels["calls"] = [], []
    report = report_of(read_folder(write(tmp_path, [(run, labels), run_of(2, "two", is_good=True)])))
    assert report["data"]["calls"] == 3
    trajectories_table(report)


# --- folds and fitting ------------------------------------------------------------------------------------------------------
def test_a_task_is_known_by_its_words_and_judged_by_its_folds_model(tmp_path: Path) -> None:
    final = load_record_model()
    without = final.model_copy(update={"version": "without"})
    folds = FoldedModels(version="t", fold_of={question_key(question(1)): 0}, models=(without,))
    write_folds(folds, tmp_path / "f.json.gz")
    records = UnseenRecords(final, load_folds(tmp_path / "f.json.gz"))
    assert records.model_for("  " + question(1).upper()).version == "without"
    assert records.model_for(question(2)).version == final.version
    assert records.was_fitted_on(question(1))
    assert not records.was_fitted_on(question(2))


def test_folds_deal_whole_tasks_evenly() -> None:
    folds = fold_of_tasks([str(i % 25) for i in range(100)], 10)
    sizes = [list(folds.values()).count(f) for f in range(10)]
    assert sorted(set(sizes)) == [2, 3]
    assert folds == fold_of_tasks([str(i) for i in range(25)], 10)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fitting as it is, on fewer and smaller trees."""
    monkeypatch.setattr(fitting, "OUTER", 3)
    for settings in fitting._SETTINGS.values():
        monkeypatch.setitem(settings, "max_iter", 12)
        monkeypatch.setitem(settings, "min_samples_leaf", 3)


@pytest.mark.usefixtures("quick")
def test_fitted_folds_never_saw_their_tasks_and_learn_what_was_planted(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    data = read_folder(write(tmp_path, pairs_of(range(24))))
    final, folds = fitting.fit(data, version="try")
    assert len(folds.models) == 3
    assert set(folds.fold_of) == {question_key(question(t)) for t in range(24)}
    assert final.calls.trees
    assert 0 < final.calls.flag_at < 1
    assert final.strict is None, "no call is wrong under strict labels here"
    again, _ = fitting.fit(data, version="try")
    assert again == final, "a fixed seed"
    # taking a fold's tasks away changes nothing of the model that is scored on them
    fold = folds.fold_of[question_key(question(0))]
    kept = [p for p in pairs_of(range(24)) if folds.fold_of[question_key(p[0]["question"])] != fold]
    samples = samples_of(read_folder(write(tmp_path / "kept", kept)))
    matrices = {part: fitting._matrix(sample.signs) for part, sample in samples.items()}
    alone = fitting._model(samples, matrices, {p[0]["task_id"] for p in kept}, "alone")
    records = UnseenRecords(final, folds)
    p, y = [], []
    for run in data.runs:
        for _, decision, signs in judge_run(run, judge_for_records(records), records)[1:2]:
            assert decision.p_correct is not None
            p.append(1 - decision.p_correct)
            y.append(run.is_correct is False)
            if folds.fold_of[question_key(run.question)] == fold:
                tool = run.calls[1].tool
                assert records.forest_for(run.question).probability(signs, tool) == pytest.approx(
                    alone.calls.probability(signs, tool), abs=1e-9
                )
    assert (auroc(p, y) or 0) > 0.95


@pytest.mark.usefixtures("quick")
def test_the_kept_forest_is_the_learner_that_was_fitted() -> None:
    np = pytest.importorskip("numpy")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 4))
    x[rng.random(x.shape) < 0.2] = np.nan
    y = (np.nan_to_num(x[:, 0]) + np.isnan(x[:, 1]) > 0.4).astype(float)
    tools, tasks = ["t"] * 400, [str(i % 40) for i in range(400)]
    forest = fitting._grow("answers", ["a", "b", "c", "d"], x, y, tools, tasks)
    settings = fitting._SETTINGS["answers"]
    learner = ensemble.HistGradientBoostingClassifier(random_state=fitting.SEED, early_stopping=False, **settings)
    expected = learner.fit(x, y).predict_proba(x)[:, 1]
    found = [forest.probability({n: v for n, v in zip("abcd", row, strict=True) if not np.isnan(v)}) for row in x]
    assert np.allclose(found, expected, atol=1e-5)
    assert np.allclose(fitting._probabilities(forest, x), expected, atol=1e-5)


@pytest.mark.usefixtures("quick")
def test_strict_labels_have_a_forest_and_an_operating_point_of_their_own(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    pairs = pairs_of(range(24))
    for _, labels in pairs:
        for entry in labels["calls"]:
            entry["label"] = {"off_reference_value_mismatch": "incorrect_value"}.get(entry["label"], entry["label"])
    data = read_folder(write(tmp_path, pairs))
    final, folds = fitting.fit(data, version="both")
    assert final.strict is not None
    assert all(m.strict is not None and 0 < m.strict.flag_at < 1 for m in folds.models)
    records = UnseenRecords(final, folds)
    report = evaluate_trajectories(data, judge_for_records(records), records)
    strict = report["bad_observations"]["strict"]["values"]
    assert (strict["wrong"], strict["operating_point"]["recall"]) == (24, 1.0)
    assert strict["each_task_once"]["precision"] == pytest.approx(strict["operating_point"]["precision"], abs=0.02)
    ceiling = report["ceiling"]["strict"]
    assert ceiling["reference"]["precision_at_recall_85"] == 1.0
    assert sum(row["wrong"] for row in ceiling["wrong_by_kind"]) == 24
    assert report["prior"]["strict"]["cells"]["perfect_forecaster"]["groups"] == 24
    tool = report["by_tool"]["calc_batch_image_mean"]
    assert tool["n"] == sum(b["n"] for b in tool["reliability"]) == 48
    assert {"brier", "ece", "auroc", "precision", "recall", "rejected"} <= set(tool)
    assert "lifted by" in trajectories_table(report)


def test_the_operating_point_is_the_greatest_threshold_that_reaches_the_recall() -> None:
    np = pytest.importorskip("numpy")
    p = np.array([0.9, 0.8, 0.8, 0.7, 0.6, 0.5, 0.1])
    y = np.array([1, 1, 0, 1, 0, 1, 0], dtype=float)
    at = fitting._operating_point(p, y)
    assert 0.1 < at <= 0.5, "three of four are too few"
    assert fitting._operating_point(p, np.array([1, 1, 0, 0, 0, 0, 0], dtype=float)) == pytest.approx(0.8, abs=1e-5)
    assert fitting._operating_point(p, np.zeros(7)) == 1.0


def test_repeats_of_a_task_count_with_their_root_in_the_prior(tmp_path: Path) -> None:
    pairs = [run_of(1, f"r{n}", is_good=False) for n in range(16)] + [run_of(2, "one", is_good=True)]
    counts = fitting.prior_counts(read_folder(write(tmp_path, pairs)), {"1": 0, "2": 1})
    broad = {(c.fold, c.tasks) for c in counts if c.scheme == "broad"}
    assert broad == {(0, ((0.0, 4),)), (1, ((1.0, 1),))}
    folds = FoldedModels(version="t", fold_of={}, models=(), prior=counts)
    whole, without = folds.prior_without(None, "broad"), folds.prior_without(0, "broad")
    assert whole.cells[("global",)].tally.trials == 5
    assert whole.cells[("global",)].mean == (1 + 1) / (5 + 2)
    assert without.cells[("global",)].mean == (1 + 1) / (1 + 2)


def test_a_folder_without_labels_is_read_and_judged(tmp_path: Path) -> None:
    write(tmp_path, pairs_of(range(2)))
    (tmp_path / "labels.jsonl").unlink()
    report = report_of(read_folder(tmp_path))
    assert report["data"]["has_labels"] is False
    assert report["R_dep"] == 1.0
    assert report["R_err"]["strict"] is None
    assert report["bad_observations"]["broad"]["values"] == {"n": 0, "wrong": 0}
    assert "no labels" in trajectories_table(report)


def test_mutated_lines_are_scored_or_counted_and_never_a_traceback(tmp_path: Path) -> None:
    rng = random.Random(12)
    odd: list[Any] = [None, True, -1, 1e308, "", "NaN", "x" * 5000, [], {}, [[]], {"a": {"b": [1, None]}},
                      "\x00\ud7ff", ["a.tif"]]

    def mutate(value: Any) -> Any:
        if rng.random() < 0.04:
            return rng.choice(odd)
        if isinstance(value, dict):
            return {k: mutate(v) for k, v in value.items() if rng.random() > 0.02}
        return [mutate(v) for v in value] if isinstance(value, list) else value

    pairs = [(mutate(run), mutate(labels)) for run, labels in pairs_of(range(60))]
    data = read_folder(write(tmp_path, pairs))
    report = report_of(data)
    assert report["data"]["runs"] + sum("trajectories" in b for b in data.broken) == 120
    assert 20 < report["data"]["runs"] < 120
    assert len(report["data"]["broken"]) <= 20 <= report["data"]["broken_lines"]
    json.dumps(report, allow_nan=False)
    trajectories_table(report)


def test_too_little_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="too little"):
        fitting.fit(read_folder(write(tmp_path, pairs_of(range(3)))), version="x")


# --- the shared records -----------------------------------------------------------------------------------------------------
@pytest.mark.shared_data
def test_shared_cases_are_told_apart_and_right_ones_left_alone() -> None:
    records = shipped()
    report = evaluate_cases(read_cases(DATA / "trajectories" / "cases.jsonl"), judge_for_records(records), records)
    assert report["auroc"] >= 0.95
    assert report["rejected"]["precision"] >= 0.95
    assert report["rejected"]["recall"] >= 0.80
    assert report["by_fault"]["silent_failure"] == {"n": 34, "flagged": 34, "rejected": 34}
    assert report["verification_ms_p50"] <= 50, "a timed benchmark stands elsewhere; this catches a disaster"
    assert "AUROC" in cases_table(report)
