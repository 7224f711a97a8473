"""The one table of units of measures: their dimension, how pint defines them, and the sign that a person reads.

The registry of pint is read at the first conversion that needs one, so that starting up costs nothing. What is not in the table
is no unit here, though pint may know it. The checks keep a table of their own (``apps/verification/units.py``), so that a fault
of one is seen by the other; a test holds both against the definitions by law.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pint


@dataclass(frozen=True, slots=True)
class Unit:
    """``dimension``: area, length, number, density or rate; ``definition``: an expression of pint; ``sign``: how it is written
    after a number, '' where nothing is."""

    dimension: str
    definition: str
    sign: str


# The first unit of a dimension is its base. The acre is the international one (4,840 square yards); pint's own is that of the US
# survey foot.
UNITS: dict[str, Unit] = {
    "m2": Unit("area", "meter ** 2", "m²"),
    "ha": Unit("area", "hectare", "ha"),
    "km2": Unit("area", "kilometer ** 2", "km²"),
    "acre": Unit("area", "4840 * yard ** 2", "acres"),
    "mi2": Unit("area", "mile ** 2", "mi²"),
    "sqmi": Unit("area", "mile ** 2", "mi²"),
    "ft2": Unit("area", "foot ** 2", "ft²"),
    "ftUS2": Unit("area", "survey_foot ** 2", "ft² (US survey)"),
    "cm2": Unit("area", "centimeter ** 2", "cm²"),
    "m": Unit("length", "meter", "m"),
    "km": Unit("length", "kilometer", "km"),
    "cm": Unit("length", "centimeter", "cm"),
    "ft": Unit("length", "foot", "ft"),
    "ftUS": Unit("length", "survey_foot", "ft (US survey)"),
    "mi": Unit("length", "mile", "mi"),
    "nmi": Unit("length", "nautical_mile", "nmi"),
    "yd": Unit("length", "yard", "yd"),
    "1": Unit("number", "dimensionless", ""),
    "%": Unit("number", "percent", "%"),
    "1/m2": Unit("density", "1 / meter ** 2", "per m²"),
    "1/km2": Unit("density", "1 / kilometer ** 2", "per km²"),
    "1/ha": Unit("density", "1 / hectare", "per ha"),
    "1/year": Unit("rate", "1 / year", "per year"),
    "1/decade": Unit("rate", "1 / (10 * year)", "per decade"),
}


def units_of(dimension: str) -> tuple[str, ...]:
    """The units of a dimension, its base first."""
    return tuple(name for name, unit in UNITS.items() if unit.dimension == dimension)


@lru_cache(maxsize=1)
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    # decimals: a foot is 0.3048 m to the last digit, and so is what is made of it
    return pint.UnitRegistry(non_int_type=Decimal)


@lru_cache(maxsize=64)
def factor(unit: str) -> float:
    """What one of a unit is in the base of its dimension. KeyError where the table does not know it."""
    held = UNITS[unit]
    base = UNITS[units_of(held.dimension)[0]]
    if held.definition == base.definition:
        return 1.0
    registry = _registry()
    ratio = registry.parse_expression(held.definition).to(registry.parse_expression(base.definition).units)
    return float(ratio.magnitude)


def convert(value: float, unit: str, to: str) -> float:
    """``value`` in another unit of the same dimension; the number itself, to the last bit, where the units are equal. ValueError
    where the dimensions differ or a unit is not in the table."""
    if unit == to:
        return value
    if unit not in UNITS or to not in UNITS or UNITS[unit].dimension != UNITS[to].dimension:
        raise ValueError(f"{unit!r} cannot be given in {to!r}")
    return value * factor(unit) / factor(to)
