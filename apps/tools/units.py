"""Units of measures, converted by pint; what is not on a list here is refused with a sentence.

Each list says by which name pint knows a unit; its first unit is the base. The registry is read at the first conversion that
needs one, so that starting up costs nothing. The checks have a table of their own (``apps/verification/units.py``).
"""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from apps.core.errors import ModelError

if TYPE_CHECKING:
    import pint

# The acre is the international one (4,840 square yards), as everywhere here; pint's own is that of the US survey foot.
AREA_M2: dict[str, str] = {
    "m2": "meter ** 2", "ha": "hectare", "km2": "kilometer ** 2", "acre": "4840 * yard ** 2", "sqmi": "mile ** 2",
    "ft2": "foot ** 2"}
LENGTH_M: dict[str, str] = {
    "m": "meter", "km": "kilometer", "cm": "centimeter", "ft": "foot", "mi": "mile", "nmi": "nautical_mile", "yd": "yard"}
SHARE: dict[str, str] = {"1": "dimensionless", "%": "percent"}
DENSITY: dict[str, str] = {"1/m2": "1 / meter ** 2", "1/km2": "1 / kilometer ** 2", "1/ha": "1 / hectare"}


@lru_cache(maxsize=1)
def _registry() -> pint.UnitRegistry[Any]:
    import pint

    # decimals: a foot is 0.3048 m to the last digit, and so is what is made of it
    return pint.UnitRegistry(non_int_type=Decimal)


@lru_cache(maxsize=64)
def _ratio(unit: str, base: str) -> float:
    registry = _registry()
    return float(registry.parse_expression(unit).to(registry.parse_expression(base).units).magnitude)


def factor(unit: str, table: dict[str, str], what: str) -> float:
    """What one ``unit`` is in the table's base unit. ModelError where the table does not know it."""
    if unit not in table:
        raise ModelError(f"{unit!r} is not a unit of {what}; use one of {', '.join(table)}.", code="BAD_ARGUMENT")
    base = next(iter(table.values()))
    return 1.0 if table[unit] == base else _ratio(table[unit], base)


def from_m2(area_m2: float, unit: str) -> float:
    return area_m2 / factor(unit, AREA_M2, "area")


def from_m(length_m: float, unit: str) -> float:
    return length_m / factor(unit, LENGTH_M, "length")
