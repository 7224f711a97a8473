"""Records of other agents: what a record proves, what it cannot, and that it never accepts."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from apps.core.evidence.observation import Configuration, Observation, Result, Status, TaskRef
from apps.core.evidence.plan import Question
from apps.verification.judge import CalibratedJudge
from apps.verification.records.faults import FAULTS, faults_in
from apps.verification.records.forest import Forest, Tree, load_record_model
from apps.verification.records.memory import Call, ChoiceNumber, RecordMemory
from apps.verification.records.signs import AFTER, signs_of
from apps.verification.records.verifier import RecordVerifier, is_bare_record, opinion_on
from apps.verification.records.wording import dates_asked, dates_of, kind_of, numbers_in, quantity_of, task_type_of

QUESTION = "What is the mean LST of the valley in July 2021? Use the threshold 300 K."
CHOICES = {"A": "301.2 K", "B": "305.5 K", "C": "310.0 K"}


def memory(*calls: Call) -> RecordMemory:
    held = RecordMemory(QUESTION, CHOICES)
    for call in calls:
        held.add(call, signs_of(held, call))
    return held


def call(tool: str, text: str, **arguments: Any) -> Call:
    return Call(tool, arguments, text, False)


SPLIT = "Result saved at out/lst.tif"
# fault → (a call that has it, one like it that has not)
EXAMPLES: dict[str, tuple[Call, Call]] = {
    "silent_failure": (call("SM3Det", "Failed to call model", text_prompt="plane"), call("SM3Det", "3", text_prompt="plane")),
    "not_finite": (call("image_division_mean", "NaN", a="x.tif"), call("image_division_mean", "1.5", a="x.tif")),
    "fill_value": (
        call("get_percentile_value_from_image", "-2147483648", image_path="frp.tif"),
        call("get_percentile_value_from_image", "-2147483", image_path="frp.tif"),
    ),
    "index_fill": (
        call("calc_batch_image_max", "[172000000.0, 0.4]", file_list=["ndti_a.tif", "ndti_b.tif"]),
        # a reference run itself holds an index of this size
        call("calc_batch_image_mean", "[-254458.0]", file_list=["ndti_a.tif"]),
    ),
    "impossible_temperature": (
        call("calc_batch_image_mean", "[98.4]", file_list=["lst.tif"]),
        call("calc_batch_image_mean", "[28.4]", file_list=["lst.tif"]),
    ),
    "kelvin_range": (call("kelvin_to_celsius", "-251.0", kelvin=22.1), call("kelvin_to_celsius", "22.1", kelvin=295.25)),
    "one_raster_two_roles": (
        call("split_window", SPLIT, band31_path="a_BT_31.tif", emissivity31_path="a_BT_31.tif"),
        call("split_window", SPLIT, band31_path="a_BT_31.tif", emissivity31_path="a_Emis31.tif"),
    ),
    "dates_mixed": (
        call("apply_cloud_mask", SPLIT, sr_band_path="s_B3_2019-07-24.tif", qa_pixel_path="s_QA_2019-07-08.tif"),
        call("apply_cloud_mask", SPLIT, sr_band_path="s_B3_2019-07-24.tif", qa_pixel_path="s_QA_2019-07-24.tif"),
    ),
    "day_for_night": (
        call("modis_day_night_lst", SPLIT, BT_day_path="2021_01_03_2050_BT_31_Night.tif", BT_night_path="b_Night.tif"),
        call("modis_day_night_lst", SPLIT, BT_day_path="2021_01_03_1915_BT_31_Day.tif", BT_night_path="b_Night.tif"),
    ),
    "role_mismatch": (
        call("split_window", SPLIT, band31_path="a_BT_31.tif", emissivity31_path="a_BT_32.tif"),
        call("split_window", SPLIT, band31_path="a_BT_31.tif", emissivity31_path="a_Emis31.tif"),
    ),
    "box_convention": (
        call("calculate_bbox_area", str(300 * 400 * 0.25), bboxes=[[100, 100, 300, 400]], gsd=0.5),
        call("calculate_bbox_area", str(200 * 300 * 0.25), bboxes=[[100, 100, 300, 400]], gsd=0.5),
    ),
}


def test_every_fault_has_an_example() -> None:
    assert set(EXAMPLES) == set(FAULTS)


@pytest.mark.parametrize("fault", list(FAULTS))
def test_fault_is_found_and_its_neighbour_is_not(fault: str) -> None:
    has, has_not = EXAMPLES[fault]
    assert fault in faults_in(signs_of(memory(), has))
    assert faults_in(signs_of(memory(), has_not)) == ()


def test_two_dates_may_be_compared_and_one_image_may_stand_for_both() -> None:
    for innocent in (
        call("calculate_tif_difference", SPLIT, image_a="x_2019-01-01.tif", image_b="x_2020-01-01.tif"),
        call("ChangeOS", SPLIT, pre="x.png", post="x.png"),
    ):
        assert faults_in(signs_of(memory(), innocent)) == ()


def test_words_and_names_are_read() -> None:
    assert kind_of("calc_batch_image_mean") == "image_statistic"
    assert kind_of("unheard_of") == "other"
    assert quantity_of("Sichuan_2021-07-12_LST.tif") == "lst"
    assert quantity_of("statistics.tif") is None, "'ati' inside a word is no thermal inertia"
    assert numbers_in("1,368,000.5 of B10 and -2e3") == [1368000.5, -2000.0]
    assert dates_of("a_20210712_1035.tif") == ("20210712",)
    assert dates_asked("from July 12, 2022 to March 2023") == {"20220712", "202303"}
    assert task_type_of("Calculate the linear trend") == "trend_analysis"
    assert ChoiceNumber(28.07, 2).is_met(-28.0699)
    assert not ChoiceNumber(28.07, 2).is_met(28.08)


def test_series_origins_and_operands_are_read_against_the_run() -> None:
    files = [f"v_LST_2021-07-0{d}.tif" for d in range(1, 6)]
    run = memory(
        call("get_filelist", json.dumps(files), dir_path="d"),
        call("calc_batch_image_mean", "[301.25, 302.5]", file_list=[f"d/{f}" for f in files[:2]]),
    )
    some = signs_of(run, call("calc_batch_image_mean", "[301.25]", file_list=[f"d/{files[0]}", "d/elsewhere.tif"]))
    assert some["covers_all"] == pytest.approx(2 / 5)
    assert some["from_nowhere"] == 0.5
    mean = signs_of(run, call("mean", "301.875", x=[301.25, 302.5]))
    assert mean["operands_seen"] == 1.0
    invented = signs_of(run, call("mean", "287.1", x=[287.0, 287.2]))
    assert invented["operands_seen"] == 0.0
    twice = signs_of(run, run.calls[1])
    assert twice["repeats_well"] == 1.0
    assert signs_of(run, call("mean", "305.52", x=[305.5, 305.54]))["choice_number_hit"] == 1.0


def test_what_is_known_before_the_output_does_not_depend_on_it() -> None:
    run = memory()
    for has, _ in EXAMPLES.values():
        other = Call(has.tool, has.arguments, "12.5", False)
        a, b = signs_of(run, has), signs_of(run, other)
        assert {n: v for n, v in a.items() if n not in AFTER} == {n: v for n, v in b.items() if n not in AFTER}


# --- forest -----------------------------------------------------------------------------------------------------------------
STUMP = Tree(feature=(0, -1, -1), threshold=(0.5, 0, 0), left=(1, 0, 0), right=(2, 0, 0), missing_left=(True, False, False),
             value=(0.0, -2.0, 2.0))  # fmt: skip


def test_forest_follows_its_tree_and_its_contributions_add_up() -> None:
    forest = Forest(names=("x",), baseline=0.1, trees=(STUMP,), knots=((0.0, 0.0), (0.5, 0.2), (1.0, 1.0)))
    low, high, absent = forest.probability({"x": 0.5}), forest.probability({"x": 0.6}), forest.probability({})
    assert low == absent < 0.2 < high
    assert forest.contributions({"x": 0.6}) == {"x": 2.0}
    assert forest.calibrated(0.75) == pytest.approx(0.6)


def test_broken_trees_are_refused() -> None:
    for change in ({"left": (0, 0, 0)}, {"right": (7, 0, 0)}, {"value": (0.0,)}):
        with pytest.raises(ValueError):
            Tree(**{**STUMP.model_dump(), **change})


def test_shipped_model_judges_every_example_below_its_neighbour() -> None:
    model = load_record_model()
    for has, has_not in EXAMPLES.values():
        wrong, right = (opinion_on(model.calls, c, signs_of(memory(), c)) for c in (has, has_not))
        assert wrong.p_wrong > right.p_wrong
        assert wrong.reasons
        assert wrong.p_wrong >= 0.98


# --- the judge on records ---------------------------------------------------------------------------------------------------
def observation(step: int, made: Call, **more: Any) -> Observation:
    return Observation(
        id=f"o-{step}", run_id="r", step=step, task=TaskRef(task_type="index_statistic", question=QUESTION, answer_form="choice"),
        tool="execute", configuration=Configuration(coarse=made.tool, fine=made.tool), arguments=dict(made.arguments),
        status=Status(state="failed" if made.is_failed else "ok", started_at=datetime(2024, 1, 1, tzinfo=UTC), elapsed_s=0),
        result=Result(kind="text", value=made.text, items=({"text": made.text},)), **more,
    )  # fmt: skip


def test_a_proved_fault_is_rejected_and_nothing_bare_is_accepted() -> None:
    judge, question = CalibratedJudge(), Question(text=QUESTION, scenes=(), choices=CHOICES)
    for has, has_not in EXAMPLES.values():
        _, decision = judge.judge(observation(0, has), question=question)
        assert decision.decision == "reject"
        _, decision = judge.judge(observation(0, has_not), question=question)
        assert decision.decision != "accept"
        assert decision.p_correct is not None


def test_observations_with_evidence_are_not_judged_as_records() -> None:
    bare = observation(0, EXAMPLES["impossible_temperature"][0])
    assert is_bare_record(bare)
    with_evidence = bare.model_copy(update={"evidence": bare.evidence.model_copy(update={"source": {"operators": ["mean"]}})})
    assert not is_bare_record(with_evidence)
    _, decision = CalibratedJudge().judge(with_evidence)
    assert "impossible_temperature" not in " ".join(decision.reasons)


def test_a_run_read_step_by_step_is_the_run_read_at_once() -> None:
    calls = [call("get_filelist", '["a_LST_2021-07-01.tif", "b.tif"]', dir_path="d"),
             call("calc_batch_image_mean", "[301.2]", file_list=["d/a_LST_2021-07-01.tif"]),
             call("kelvin_to_celsius", "28.05", kelvin=301.2)]  # fmt: skip
    made = [observation(i, c) for i, c in enumerate(calls)]
    question = Question(text=QUESTION, scenes=(), choices=CHOICES)
    stepwise = RecordVerifier()
    walked = [stepwise.signs(o, question, made[:i]) for i, o in enumerate(made)]
    assert walked[-1] == RecordVerifier().signs(made[-1], question, list(reversed(made[:-1])))
    assert walked[-1]["operands_seen"] == 1.0
    # another run under the same verifier is not mixed with it
    other = observation(0, calls[-1]).model_copy(update={"run_id": "another"})
    assert stepwise.signs(other, question, [])["operands_seen"] == 0.0
