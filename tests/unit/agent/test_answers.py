"""Answers from the verified history: words, numbers, units, choices, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest

from apps.agent.loop import run_agent
from apps.agent.policy import AgentPolicy
from apps.agent.units import convert, number_text, unit_of
from apps.core.evidence.decision import CheckResult, Decision
from apps.core.evidence.observation import Evidence, LogLine, Observation, Result, Status
from apps.core.evidence.plan import Answer, AnswerRecipe, Plan, PlanStep, Question
from tests.unit.agent.scripted import (
    T0,
    TASK,
    LogRecorder,
    ScriptedJudge,
    ScriptedPlanner,
    ScriptedToolBox,
    SteppingClock,
    accept,
    ask,
    mean_arguments,
    question,
    reject,
    water_plan,
)


def plan_of(recipe: AnswerRecipe, n: int = 1, warnings: tuple[str, ...] = ()) -> Plan:
    steps = tuple(
        PlanStep(step=i, tool="execute", arguments=mean_arguments(f"index{i}"), why=f"Step {i}.") for i in range(1, n + 1)
    )
    return Plan(task=TASK, steps=steps, answer=recipe, warnings=warnings)


def answer(
    recipe: AnswerRecipe, *results: Result, choices: dict[str, str] | None = None, judge: Any = None, **parts: Any
) -> Answer:
    """The answer of a run whose steps give these results."""
    left = list(results)

    def script(tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        return {"result": left.pop(0), **parts}

    q = question(choices=choices or {})
    state = run_agent(
        q,
        planner=ScriptedPlanner(plan_of(recipe, len(results))),
        toolbox=ScriptedToolBox(script),
        judge=judge or ScriptedJudge(),
        recorder=LogRecorder(),
        run_id="r",
        policy=AgentPolicy(),
        clock=SteppingClock(),
    )
    assert state.answer is not None
    for claim in state.answer.claims:
        assert all(state.is_in_history(i) for i in claim.based_on)
    assert all(state.is_in_history(i) for i in state.answer.based_on)
    return state.answer


def value(**more: Any) -> AnswerRecipe:
    return AnswerRecipe(kind="value", steps=(1,), **more)


def statistic(v: float) -> Result:
    return Result(kind="statistic", value=v, quantity="ndvi")


def area(v: float, unit: str = "m2", **more: Any) -> Result:
    return Result(kind="area", value=v, unit=unit, quantity="water", **more)


def count(v: int, **more: Any) -> Result:
    return Result(kind="count", value=v, **more)


# --- values -----------------------------------------------------------------------------------------------
def test_the_text_is_rounded_and_the_value_exact() -> None:
    a = answer(value(options={"phrase": "Mean NDVI"}), statistic(0.5302930955641898))
    assert a.text == "Mean NDVI is 0.530 (40,574 valid pixels)."
    assert (a.value, a.unit, a.abstained) == (0.5302930955641898, "1", False)
    assert len(a.based_on) == 1
    assert a.claims[0].based_on == a.based_on


def test_units_are_converted_and_intervals_with_them() -> None:
    a = answer(
        value(unit="ha", options={"phrase": "Area of water"}), area(3_023_500.0, interval=(3e6, 3.1e6), interval_level=0.9)
    )
    assert (a.value, a.unit, a.interval) == (302.35, "ha", (300.0, 310.0))
    assert a.text == "Area of water is 302.4 ha, 90 % interval 300.0 ha to 310.0 ha (40,574 valid pixels)."


def test_what_is_compared_is_as_fine_as_its_intervals_and_never_written_alike() -> None:
    recipe = AnswerRecipe(kind="compare", steps=(1, 2), unit="km2", options={"labels": ["water", "vegetation"], "pick": "max"})
    wide = area(862_634.0, interval=(830_000.0, 895_000.0))
    told = answer(recipe, wide, area(3_023_500.0, interval=(2.911e6, 3.102e6)))
    assert "(water: 0.863 km²; vegetation: 3.023 km²)" in told.text, told.text
    close = answer(recipe, wide, area(862_700.0, interval=(830_000.0, 895_000.0)))
    assert "(water: 0.8626 km²; vegetation: 0.8627 km²)" in close.text, close.text


def test_a_unit_of_another_dimension_gives_no_answer() -> None:
    a = answer(value(unit="km"), area(5.0))
    assert a.abstained
    assert "cannot be given" in (a.reason or "")


def test_a_share_is_shown_as_fraction_and_per_cent_with_its_denominator() -> None:
    a = answer(
        value(options={"phrase": "Share of water"}),
        Result(kind="ratio", value=0.25),
        evidence=Evidence(intermediate={"numerator": 250, "denominator": 1000}),
    )
    assert a.text == "Share of water is 0.250 (25.00 %) (250 of 1,000 valid pixels)."
    assert answer(value(unit="%"), Result(kind="ratio", value=0.25)).value == 25.0


def test_counts_are_whole_and_agree_with_their_noun() -> None:
    options = {"noun": "planes found", "noun_one": "plane found"}
    assert answer(value(options=options), count(12, interval=(9, 14))).text == "12 planes found, interval 9 to 14."
    one = answer(value(options=options), count(1))
    assert (one.text, one.value) == ("1 plane found.", 1)
    assert isinstance(one.value, int)


def test_an_interval_whose_ends_are_written_alike_is_not_told() -> None:
    floor = Evidence(intermediate={"interval_is": "floor"})
    counted = answer(value(options={"noun": "mines", "noun_one": "mine"}), count(17, interval=(17, 17)), evidence=floor)
    assert counted.text == "17 mines." and counted.interval == (17, 17)
    wide = answer(value(options={"noun": "mines", "noun_one": "mine"}), count(17, interval=(16, 17)), evidence=floor)
    assert wide.text == "17 mines, interval 16 to 17 at least, for nobody says how exactly it was drawn."
    fine = answer(value(unit="m2", options={"phrase": "Area"}), area(50_000.0, interval=(49_999.99, 50_000.01)))
    assert "interval" not in fine.text


BOUNDS: dict[str, Any] = {"interval_is": "bounds", "interval_by": "pixels on the outline and 19.9 % of the pixels missing"}


def test_bounds_say_where_they_come_from() -> None:
    a = answer(
        value(options={"phrase": "Mean NDVI"}),
        Result(kind="statistic", value=0.28063, interval=(0.10582, 0.42532)),
        evidence=Evidence(intermediate=BOUNDS),
    )
    assert a.text == ("Mean NDVI is 0.28, interval 0.11 to 0.43 (from pixels on the outline and 19.9 % of the pixels missing).")
    assert (a.value, a.interval) == (0.28063, (0.10582, 0.42532))


def test_dates_of_one_region_are_told_apart_by_what_each_did_not_see() -> None:
    """Their outline is one: it moves both figures alike."""
    recipe = AnswerRecipe(kind="compare", steps=(1, 2), options={"labels": ["June", "July"], "pick": "max"})
    june, july = (Result(kind="statistic", value=v, interval=(v - 0.05, v + 0.05)) for v in (0.50, 0.53))
    whole = answer(recipe, june, july, evidence=Evidence(intermediate=BOUNDS | {"interval_missing": None}))
    assert whole.value == "July" and not any("overlap" in w for w in whole.warnings)
    hidden = answer(recipe, june, july, evidence=Evidence(intermediate=BOUNDS | {"interval_missing": [0.4, 0.6]}))
    assert hidden.value == "July" and any("overlap" in w for w in hidden.warnings)


def test_a_limit_within_the_interval_is_told_with_yes_or_no() -> None:
    recipe = AnswerRecipe(kind="boolean", steps=(1,), options={"phrase": "Mean NDVI", "value": 0.3, "op": ">"})
    held = Result(kind="statistic", value=0.28063, interval=(0.10582, 0.42532))
    open_ended = answer(recipe, held, evidence=Evidence(intermediate=BOUNDS))
    assert open_ended.value is False and any("0.11 to 0.43 lies on both sides of the limit" in w for w in open_ended.warnings)
    sure = answer(recipe, held.model_copy(update={"interval": (0.27, 0.29)}), evidence=Evidence(intermediate=BOUNDS))
    assert sure.value is False and not any("both sides" in w for w in sure.warnings)


def test_zero_is_a_finding_and_no_value_is_none() -> None:
    zero = answer(value(options={"phrase": "Area of water"}), area(0.0))
    assert (zero.abstained, zero.value) == (False, 0.0)
    assert answer(value(), area(0.0).model_copy(update={"value": None})).abstained
    assert answer(value(), Result(kind="text", value="plenty")).abstained


def test_a_trend_has_its_p_value() -> None:
    a = answer(
        value(options={"phrase": "Trend"}),
        Result(
            kind="trend",
            value=-0.0616,
            unit="1/year",
            interval=(-0.3, 0.2),
            interval_level=0.95,
            items=({"date": "2013-09-14", "value": 0.6},),
        ),
        evidence=Evidence(intermediate={"nodes": [{"id": "out", "p_value": 0.6}]}),
    )
    assert a.text == "Trend is −0.06 per year, 95 % interval −0.30 per year to 0.20 per year, p = 0.6 (over 1 dates)."
    assert a.unit == "1/year"


# --- compare, difference, date, boolean -------------------------------------------------------------------
def compare(n: int = 2, **options: Any) -> AnswerRecipe:
    labels: Any = ["water", "bare", "snow"][:n]
    return AnswerRecipe(kind="compare", steps=tuple(range(1, n + 1)), options={"labels": labels, **options})


def test_the_larger_is_named_with_both_figures() -> None:
    a = answer(compare(phrase="area"), area(4e6), area(3e6))
    assert a.value == "water"
    assert a.text == "Water is larger in area (water: 4,000,000 m²; bare: 3,000,000 m²)."
    assert len(a.claims) == 2
    assert answer(compare(pick="min", word="smaller"), area(4e6), area(3e6)).value == "bare"


def test_ties_and_overlapping_intervals_are_said() -> None:
    assert answer(compare(), area(2.0), area(2.0)).value == "equal"
    a = answer(compare(), area(4.0, interval=(2.0, 6.0)), area(3.0, interval=(2.5, 3.5)))
    assert any("not certain" in w for w in a.warnings)


def test_what_is_in_different_units_is_not_compared() -> None:
    assert answer(compare(), area(4.0), Result(kind="distance", value=3.0, unit="m")).abstained


def test_a_difference_is_the_second_minus_the_first() -> None:
    recipe = AnswerRecipe(
        kind="difference", steps=(1, 2), unit="km2", options={"phrase": "Change of the area", "labels": ["July", "Nov"]}
    )
    a = answer(recipe, area(6.0, "km2"), area(8.0, "km2"))
    assert (a.value, a.unit) == (2.0, "km2")
    assert a.text == "Change of the area is +2.000 km² (July: 6.000 km²; Nov: 8.000 km²)."
    relative = recipe.model_copy(update={"options": {**recipe.options, "relative": True}})
    assert answer(relative, area(6.0), area(9.0)).value == 50.0
    assert answer(relative, area(0.0), area(9.0)).abstained


def test_a_date_says_its_value_and_among_how_many() -> None:
    items: Any = ({"date": "2014-01-17", "value": 0.6}, {"date": "2014-02-18", "value": 0.411})
    a = answer(
        AnswerRecipe(kind="date", steps=(1,), options={"phrase": "The date with the lowest mean NDVI"}),
        Result(kind="date", value="2014-02-18", items=items),
    )
    assert a.text == "The date with the lowest mean NDVI is 2014-02-18 (0.411), among 2 dates."
    assert a.value == "2014-02-18"


def test_yes_and_no_say_by_which_number() -> None:
    recipe = AnswerRecipe(kind="boolean", steps=(1,), options={"op": ">", "value": 10, "noun": "cars found"})
    assert answer(recipe, count(12)).text == "Yes: 12 cars found."
    no = answer(recipe, count(10))
    assert (no.text, no.value) == ("No: 10 cars found.", False)
    assert answer(AnswerRecipe(kind="boolean", steps=(1,)), Result(kind="boolean", value=True)).value is True


# --- multiple choice --------------------------------------------------------------------------------------
def choice(unit: str = "1", of: str = "value", **options: Any) -> AnswerRecipe:
    return AnswerRecipe(kind="choice", steps=(1,), unit=unit, options={"of": of, **options})


@pytest.mark.parametrize(
    ("result", "unit", "choices", "expected"),
    [
        (statistic(0.53), "1", {"A": "0.1", "B": "0.55"}, "B"),
        (area(4.37e6), "km2", {"A": "1.2 km2", "B": "4.4 km²", "C": "9 square kilometres"}, "B"),
        (area(4.37e6), "km2", {"A": "437 ha", "B": "900 ha"}, "A"),
        (count(61), "1", {"A": "45", "B": "60", "C": "1,000"}, "B"),
        (Result(kind="ratio", value=0.267), "1", {"A": "27 %", "B": "60 %"}, "A"),
        (Result(kind="ratio", value=0.15), "%", {"A": "less than 10 %", "B": "10 to 20 %", "C": "more than 20 %"}, "B"),
        (count(55), "1", {"A": "fewer than 10", "B": "10-50", "C": "more than 50"}, "C"),
        (statistic(-0.218), "1", {"A": "-0.22", "B": "0.22"}, "A"),
        (count(3), "1", {"A": "Two", "B": "Three"}, "B"),
    ],
)
def test_the_nearest_or_covering_option_is_taken(result: Result, unit: str, choices: dict[str, str], expected: str) -> None:
    a = answer(choice(unit), result, choices=choices)
    assert (a.choice, a.abstained) == (expected, False)
    assert a.text.startswith(f"{expected}: {choices[expected]}. ")


@pytest.mark.parametrize(
    ("result", "choices"),
    [
        (statistic(0.53), {"A": "0.1", "B": "0.9"}),  # none lies near
        (count(50), {"A": "45", "B": "55"}),  # two are equally near
        (count(5), {"A": "many", "B": "few"}),  # no numbers
        (Result(kind="ratio", value=0.15), {"A": "0 to 20 %", "B": "10 to 30 %"}),  # both cover it
        (area(4e6, "km2"), {"A": "4 km", "B": "5 km"}),  # lengths
    ],
)
def test_no_option_is_guessed(result: Result, choices: dict[str, str]) -> None:
    a = answer(choice(result.unit), result, choices=choices)
    assert a.abstained
    assert a.choice is None
    assert a.based_on, "the finding itself was accepted and is named"


def test_a_stated_tolerance_counts() -> None:
    assert answer(choice(tolerance=0.5), statistic(0.53), choices={"A": "0.8", "B": "0.1"}).choice == "A"
    assert answer(choice(tolerance=0.01), statistic(0.53), choices={"A": "0.55", "B": "0.1"}).abstained


def test_texts_dates_and_yes_or_no_are_matched() -> None:
    yes = AnswerRecipe(kind="choice", steps=(1,), options={"of": "boolean", "op": ">", "value": 0, "noun": "cars"})
    assert answer(yes, count(3), choices={"A": "No", "B": "Yes"}).choice == "B"
    dated = Result(kind="date", value="2014-02-18")
    assert answer(choice(of="date"), dated, choices={"A": "July 2014", "B": "18 February 2014"}).choice == "B"
    assert answer(choice(of="date"), dated, choices={"A": "July 2014", "B": "February"}).choice == "B"
    larger = AnswerRecipe(kind="choice", steps=(1, 2), options={"of": "compare", "labels": ["water", "bare ground"]})
    assert answer(larger, area(3.0), area(4.0), choices={"A": "Water", "B": "Bare ground"}).choice == "B"
    assert answer(larger, area(3.0), area(4.0), choices={"A": "Water", "B": "Snow"}).abstained


@pytest.mark.parametrize(("p", "told"), [(0.9997, "over 99 %"), (0.99, "99 %"), (0.625, "62 %")])
def test_no_class_is_told_to_be_certain(p: float, told: str) -> None:
    found = Result(kind="class", value="harbor", items=({"class": "harbor", "p": p},))
    assert answer(AnswerRecipe(kind="text", steps=(1,)), found).text == f"harbor (probability {told})."


# --- abstentions ------------------------------------------------------------------------------------------
def test_an_answer_never_rests_on_a_step_that_is_open() -> None:
    judge = ScriptedJudge(lambda o, s, n: accept() if o.step == 1 else reject("The second is wrong."))
    a = answer(compare(), area(4.0), area(3.0), judge=judge)
    assert (a.abstained, a.value) == (True, None)
    assert "Step 2 (Step 2) is open: The second is wrong." in a.text
    assert len(a.based_on) == 1


@pytest.mark.parametrize(
    ("needs", "code"),
    [
        ({"gsd_m": True, "code": "NEEDS_GSD"}, "NEEDS_GSD"),
        ({"roles": ["red"]}, "NEEDS_BANDS"),
        ({"dates": ["a"]}, "NEEDS_DATES"),
        ({"model": ["plane"], "code": "MODEL_MISSING", "abstained": True}, "MODEL_MISSING"),
        ({"code": "TOOL_FAILED"}, "TOOL_FAILED"),
        ({}, "TOOL_FAILED"),
    ],
)
def test_what_the_tool_needs_is_asked_of_the_person(needs: dict[str, Any], code: str) -> None:
    a = answer(
        value(),
        statistic(1.0),
        status=Status(state="failed", started_at=T0, elapsed_s=0.1, reason="It lacks something.", needs=needs),
    )
    assert a.code == code
    assert "It lacks something." in a.text
    assert a.needs == {k: v for k, v in needs.items() if k not in ("code", "abstained")}


def test_a_rule_that_fell_is_named() -> None:
    fallen = Decision(decision="reject", stage="rules", reasons=("geometry.gsd_equal: 0.5 m against 10 m.",))
    a = answer(value(), statistic(1.0), judge=ScriptedJudge(lambda o, s, n: fallen))
    assert a.code == "RULE_FAILED"
    assert "0.5 m against 10 m" in a.text


def test_what_waits_for_a_person_says_why_and_what_to_do() -> None:
    unsure = ask(p=0.55).model_copy(update={"reasons": ("Probability of being right 0.55.",)})
    a = answer(value(), statistic(1.0), judge=ScriptedJudge(lambda o, s, n: unsure))
    assert "Probability of being right 0.55." in a.text
    assert "say whether it is right" in a.text
    assert a.needs["verdict"]


# --- warnings and methods ---------------------------------------------------------------------------------
def test_warnings_of_tools_plan_and_checks_are_carried_over() -> None:
    log = (LogLine(at_s=0, level="info", message="read"), LogLine(at_s=1, level="warning", message="Fill was masked."))

    class Warned(ScriptedJudge):
        def judge(
            self,
            observation: Observation,
            *,
            question: Question | None,
            history: Any,
            rejected: Any,
            supporting: Any = (),
            requests_made: int = 0,
        ) -> tuple[tuple[CheckResult, ...], Decision]:
            check = CheckResult(check="p.x", family="plausibility", severity="warn", outcome="failed", message="Degenerate.")
            words = check.model_copy(update={"family": "contract", "message": "Words."})
            return (check, words), accept()

    a = answer(
        value(),
        statistic(0.5),
        judge=Warned(),
        status=Status(state="partial", started_at=T0, elapsed_s=0.1, log=log, reason="One date failed."),
    )
    assert a.warnings == ("Step 1 is partial: One date failed.", "Fill was masked.", "Degenerate.")


def test_the_method_that_was_really_used_is_named() -> None:
    recorder = LogRecorder()
    state = run_agent(
        question(),
        planner=ScriptedPlanner(water_plan()),
        toolbox=ScriptedToolBox(),
        judge=ScriptedJudge(),
        recorder=recorder,
        run_id="r",
        policy=AgentPolicy(),
        clock=SteppingClock(),
    )
    assert state.answer is not None
    assert "; water by NDWI > 0." in state.answer.text


# --- units ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("hectares", "ha"),
        ("square kilometers", "km2"),
        ("km²", "km2"),
        ("sq. km", "km2"),
        ("m^2", "m2"),
        ("percent", "%"),
        ("%", "%"),
        ("kilometres", "km"),
        ("acres", "acre"),
        ("bananas", None),
        ("", None),
    ],
)
def test_units_are_read(text: str, unit: str | None) -> None:
    assert unit_of(text) == unit


@pytest.mark.parametrize(
    ("value_", "unit", "text"),
    [
        (0.5302930955, "1", "0.530"),
        (302.35, "ha", "302.35 ha"),
        (4.371547, "km2", "4.372 km²"),
        (40574.0, "m2", "40,574 m²"),
        (-0.218, "1", "−0.218"),
        (0.0, "ha", "0 ha"),
        (0.00001234, "1", "0.00001234"),
        (25.0, "%", "25.00 %"),
        (1234567.8, "m2", "1,234,568 m²"),
        (14.6837, "degree", "14.68°"),
        (-7.5, "deg", "−7.500°"),
    ],
)
def test_numbers_have_sensible_digits(value_: float, unit: str, text: str) -> None:
    assert number_text(value_, unit) == text


def test_conversion_is_exact_where_nothing_changes_and_refuses_other_dimensions() -> None:
    assert convert(0.1 + 0.2, "ha", "ha") == 0.1 + 0.2
    assert convert(1.0, "km2", "ha") == 100.0
    with pytest.raises(ValueError, match="cannot be given"):
        convert(1.0, "m", "m2")


@pytest.mark.parametrize(
    ("weights", "name"), [("trees.rsw", "trees.rsw"), ({"name": "nadir3"}, "nadir3"), ([{"name": "a"}, {"name": "b"}], "a, b")]
)
def test_the_detector_is_named(weights: Any, name: str) -> None:
    boxes: Any = {"image_paths": ["a"], "objective": "plane", "mode": "objects", "target_groups": {"plane": ["plane"]}}
    tally: Any = {
        "sources": [{"name": "plane", "mode": "objects", "layer": {"$step": 1}}],
        "spec": {"metric": "count", "subject": "plane"},
    }
    plan = Plan(
        task=TASK,
        steps=(
            PlanStep(step=1, tool="perceive", arguments=boxes, why="Find."),
            PlanStep(step=2, tool="measure", arguments=tally, why="Count.", needs=(1,)),
        ),
        answer=AnswerRecipe(kind="value", steps=(2,), options={"noun": "planes found"}),
    )
    found = Evidence(source={"weights": weights})
    box = ScriptedToolBox(lambda t, a: {"result": count(7) if t == "measure" else Result(kind="layer"), "evidence": found})
    state = run_agent(
        question(), planner=ScriptedPlanner(plan), toolbox=box, judge=ScriptedJudge(), recorder=LogRecorder(), run_id="r",
        policy=AgentPolicy(), clock=SteppingClock(),
    )  # fmt: skip
    assert state.answer is not None
    assert state.answer.text == f"7 planes found; found by {name}."
