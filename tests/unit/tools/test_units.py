"""Units by pint against their definitions by law, and that nothing is read before a unit is converted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from apps.core.errors import ModelError
from apps.core.units import UNITS, convert
from apps.tools.units import AREA_M2, DENSITY, LENGTH_M, SHARE, factor, from_m, from_m2
from apps.verification.units import factor as checked
from tests.shared import ROOT

# International yard and pound agreement of 1959: a foot is 0.3048 m, a yard three of them, a mile 1,760 yards, an acre 4,840
# square yards; a nautical mile is 1,852 m. A US survey foot is 1200/3937 m (Mendenhall order of 1893).
FOOT, SURVEY = 0.3048, 1200 / 3937
BY_LAW = [
    (AREA_M2, {"m2": 1, "ha": 1e4, "km2": 1e6, "acre": 4840 * 9 * FOOT**2, "mi2": (5280 * FOOT) ** 2,
                "sqmi": (5280 * FOOT) ** 2, "ft2": FOOT**2, "ftUS2": SURVEY**2, "cm2": 1e-4}),
    (LENGTH_M, {"m": 1, "km": 1e3, "cm": 1e-2, "ft": FOOT, "ftUS": SURVEY, "mi": 5280 * FOOT, "nmi": 1852, "yd": 3 * FOOT}),
    (SHARE, {"1": 1, "%": 0.01}),
    (DENSITY, {"1/m2": 1, "1/km2": 1e-6, "1/ha": 1e-4}),
]


@pytest.mark.parametrize(("table", "truth"), BY_LAW)
def test_factors_are_those_by_law(table: tuple[str, ...], truth: dict[str, float]) -> None:
    assert {u: factor(u, table, "it") for u in table} == pytest.approx(truth, rel=1e-12)


def test_the_checks_table_agrees_and_lacks_none() -> None:
    for table, truth in BY_LAW:
        assert {u: checked(u) for u in table} == pytest.approx(truth, rel=1e-12)
    assert set(UNITS) == {u for table, _ in BY_LAW for u in table} | {"1/year", "1/decade"}
    assert convert(3.0, "1/decade", "1/year") == pytest.approx(0.3) and convert(2.0, "mi2", "acre") == pytest.approx(1280)


def test_a_unit_that_is_not_listed_is_refused_though_pint_knows_it() -> None:
    for unit in ("barn", "league", "M2", ""):
        with pytest.raises(ModelError, match="is not a unit of area; use one of m2, ha"):
            factor(unit, AREA_M2, "area")
    assert from_m2(2 * 4046.8564224, "acre") == pytest.approx(2, rel=1e-12)
    assert from_m(3704, "nmi") == 2


def test_pint_is_read_at_the_first_conversion_alone() -> None:
    program = ("import sys; from apps.tools.units import *; factor('m2', AREA_M2, 'area'); early = 'pint' in sys.modules; "
               "factor('ha', AREA_M2, 'area'); print(early, 'pint' in sys.modules)")
    found = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "True"]
