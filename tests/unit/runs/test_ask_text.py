"""What `ask` prints for a person: attempts told apart, and no digit that an interval does not carry."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest

from apps.agent.units import carried_text
from apps.core.evidence.observation import Observation, Result
from apps.runs.headline import rounded_headline
from apps.runs.present import ask_text
from tests.unit.verification import samples as s


@pytest.mark.parametrize(
    ("value", "interval", "unit", "shown"),
    [
        (302.3547, (291.08, 310.27), "ha", ("302.4 ha", "291.1 to 310.3")),
        (0.530293, (0.530283, 0.530303), "1", ("0.530293", "0.530283 to 0.530303")),
        (12345.678, (9800.0, 14900.0), "m2", ("12,300 m²", "9,800 to 14,900")),
        (-3.14159, (-3.5, -2.7), "K", ("−3.14 K", "−3.50 to −2.70")),
        (-0.3, (-200.0, 200.0), "m", ("0 m", "−200 to 200")),
        (14.6837, (13.9, 15.4), "degree", ("14.68°", "13.90 to 15.40")),
        (14, (12, 17), "1", ("14", "12 to 17")),
        (0.5302930955641898, (0.5302930955641898, 0.5302930955641898), "1", ("0.530", "")),
        (1e-7, (0.5e-7, 1.5e-7), "1", ("0.000000100", "0.000000050 to 0.000000150")),
    ],
)
def test_a_value_is_rounded_to_two_digits_of_its_uncertainty(
    value: float, interval: tuple[float, float], unit: str, shown: tuple[str, str]
) -> None:
    assert carried_text(value, interval, unit) == shown


def test_a_number_of_things_stays_whole() -> None:
    assert carried_text(14, (11.6, 16.2), is_count=True) == ("14", "11.6 to 16.2")


def observation(step: int = 1, **result: Any) -> Observation:
    made = s.mean().observation
    return made.model_copy(update={"step": step, "result": Result(**({"kind": "statistic", "quantity": "ndvi"} | result))})


def test_shares_and_levels_are_told() -> None:
    share = observation(kind="ratio", value=0.123456, interval=(0.11, 0.14), interval_level=0.9)
    assert rounded_headline(share) == "12.3 % (90 % interval 11.0 to 14.0)"
    assert rounded_headline(observation(value=0.5302930955641898)) == "0.530"
    assert rounded_headline(observation(kind="boolean", value=True)) == "Yes"


@dataclass
class State:
    """What ``ask_text`` reads of a run."""

    observations: dict[str, Any]
    plan: Any = None
    failure: Any = None
    answer: Any = None
    question: Any = None


def held(o: Observation) -> Any:
    return SimpleNamespace(observation=o, decision=None)


def test_attempts_of_a_step_are_numbered_and_values_are_rounded() -> None:
    made = [observation(1, value=0.5302930955641898), observation(1, value=None), observation(2, value=302.354742, unit="ha")]
    lines = ask_text(State({str(at): held(o) for at, o in enumerate(made)})).split("\n")  # type: ignore[arg-type]
    assert [line.partition(" (")[0] for line in lines] == [
        "Observation 1, attempt 1 of 2", "Observation 1, attempt 2 of 2", "Observation 2",
    ]  # fmt: skip
    assert [line.partition("): ")[2].partition(" [")[0] for line in lines] == ["0.530", "no value", "302.35 ha"]


def test_a_number_below_zero_has_a_true_minus_and_names_and_dates_keep_their_hyphens() -> None:
    answer = SimpleNamespace(
        abstained=True,
        text="I can't tell (scope score -11.86, at least -5.65 is asked) on 2002-11-25 in p15-32.tif.",
        warnings=(),
    )
    assert ask_text(State({}, answer=answer, failure=None, question=None)) == (  # type: ignore[arg-type]
        "No answer: I can't tell (scope score −11.86, at least −5.65 is asked) on 2002-11-25 in p15-32.tif."
    )


def test_the_sentence_comes_before_the_rows_of_a_table() -> None:
    items = tuple({"zone": f"ship {i}", "value": float(i)} for i in range(1, 4))
    table = observation(2, kind="table", items=items, quantity="length")
    answer = SimpleNamespace(abstained=False, text="Three ships were found.", warnings=("One is cut.",), needs={}, code="")
    lines = ask_text(State({"1": held(table)}, answer=answer)).split("\n")  # type: ignore[arg-type]
    assert [line.split(" [")[0] for line in lines[-7:-4]] == [
        "Observation 2 (raster.summarize/mean/ndvi): 3 rows", "Answer: Three ships were found.", "  Note: One is cut.",
    ] and lines[-4] == "Rows of observation 2:" and lines[-1].startswith("    ship 3: 3")  # fmt: skip
