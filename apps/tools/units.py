"""Units of measures, converted by one table; what is not in it is refused with a sentence."""

from __future__ import annotations

from apps.core.errors import ModelError

AREA_M2: dict[str, float] = {
    "m2": 1.0, "ha": 1e4, "km2": 1e6, "acre": 4046.8564224, "sqmi": 2589988.110336, "ft2": 0.09290304,
}
LENGTH_M: dict[str, float] = {
    "m": 1.0, "km": 1e3, "cm": 0.01, "ft": 0.3048, "mi": 1609.344, "nmi": 1852.0, "yd": 0.9144,
}
SHARE: dict[str, float] = {"1": 1.0, "%": 0.01}


def factor(unit: str, table: dict[str, float], what: str) -> float:
    """What one ``unit`` is in the table's base unit. ModelError where the table does not know it."""
    if unit not in table:
        raise ModelError(f"{unit!r} is not a unit of {what}; use one of {', '.join(table)}.", code="BAD_ARGUMENT")
    return table[unit]


def from_m2(area_m2: float, unit: str) -> float:
    return area_m2 / factor(unit, AREA_M2, "area")


def from_m(length_m: float, unit: str) -> float:
    return length_m / factor(unit, LENGTH_M, "length")
