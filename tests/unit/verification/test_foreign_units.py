"""Right numbers in a wrong unit, and calls whose own log says that they failed, from tools that we did not write."""

from __future__ import annotations

import pytest

from apps.verification.checks import CHECKS, run_checks
from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample

UNIT = "contract.unit_fits_kind"


def outcome(made: Sample, name: str = UNIT) -> str:
    return CHECKS[name].look(made.case()).outcome


@pytest.mark.parametrize("unit", ["m2", "km2", "acre", "ha", "km", "m", "%", "px", "nmi", "degC", "1/ha", "W/m2"])
def test_the_mean_of_an_index_has_no_unit(unit: str) -> None:
    right = s.mean()
    assert (right.observation.result.unit, outcome(right)) == ("1", "passed")
    assert outcome(right.but({"/result/unit": unit})) == "failed"


def test_the_mean_of_an_index_has_none_without_a_graph_either() -> None:
    bare = s.mean().but({"/arguments": {}, "/arguments_passed": {}})
    assert bare.observation.result.quantity == "ndvi"
    assert outcome(bare) == "passed"
    assert outcome(bare.but({"/result/unit": "km"})) == "failed"


def test_the_mean_of_a_band_is_in_its_unit() -> None:
    right = s.temperature()
    assert (right.observation.result.unit, outcome(right)) == ("K", "passed")
    for unit in ("degC", "degF", "1", "m", "%"):
        assert outcome(right.but({"/result/unit": unit})) == "failed", unit
    assert outcome(right.but({"/result/unit": "kelvin"})) == "passed"


def test_a_count_is_a_plain_number() -> None:
    right = s.counted()
    assert outcome(right) == "passed"
    for unit in ("%", "percent", "m2", "ha"):
        assert outcome(right.but({"/result/unit": unit})) == "failed", unit
    for unit in ("count", "objects"):
        assert outcome(right.but({"/result/unit": unit})) == "passed", unit


def test_a_call_that_says_ok_while_its_log_says_error_is_refused() -> None:
    name, line = "completeness.log_without_errors", {"at_s": 0.1, "message": "Failed to call model; the value is a default"}
    for level, state, severity in (("error", "ok", "block"), ("error", "partial", "warn"), ("warning", "ok", "warn")):
        made = s.mean().but({"/status/log": [{**line, "level": level}], "/status/state": state, "/status/reason": "as told"})
        ((found,), _) = run_checks(made.case(), [name])
        assert (found.outcome, found.severity) == ("failed", severity)
    assert outcome(s.mean(), name) == "passed"


def test_a_count_lies_in_its_interval() -> None:
    """Of a detector, of pieces and of what was drawn alike."""
    name, made = "consistency.interval_holds_value", s.counted().but({"/result/interval": [60, 70]})
    drawn = {"name": "tree", "mode": "extent", "vector": "sha256:" + "0" * 64}
    for one in (made, made.but({"/arguments/sources": [drawn]})):
        found = CHECKS[name].look(one.case())
        assert (found.outcome, found.severity) == ("failed", None)
    assert outcome(s.counted(), name) == "passed"
