"""Units that a tool's figure may be given in: those of ``apps.core.units``; any other is refused with a sentence."""

from __future__ import annotations

from apps.core import units
from apps.core.errors import ModelError

AREA_M2 = units.units_of("area")
LENGTH_M = units.units_of("length")
SHARE = units.units_of("number")
DENSITY = units.units_of("density")


def factor(unit: str, known: tuple[str, ...], what: str) -> float:
    """What one ``unit`` is in the base of its dimension, the first of ``known``. ModelError where that does not hold it."""
    if unit not in known:
        raise ModelError(f"{unit!r} is not a unit of {what}; use one of {', '.join(known)}.", code="BAD_ARGUMENT")
    return units.factor(unit)


def from_m2(area_m2: float, unit: str) -> float:
    return area_m2 / factor(unit, AREA_M2, "area")


def from_m(length_m: float, unit: str) -> float:
    return length_m / factor(unit, LENGTH_M, "length")
