"""Units of answers: their names in questions and choices, conversion, and numbers as a person reads them."""

from __future__ import annotations

import math
import re

# unit → (dimension, factor to the dimension's base unit: m2, m, 1)
_UNITS: dict[str, tuple[str, float]] = {
    "m2": ("area", 1.0),
    "ha": ("area", 1e4),
    "km2": ("area", 1e6),
    "acre": ("area", 4046.8564224),
    "cm2": ("area", 1e-4),
    "ft2": ("area", 0.09290304),
    "mi2": ("area", 2589988.110336),
    "m": ("length", 1.0),
    "km": ("length", 1e3),
    "cm": ("length", 1e-2),
    "ft": ("length", 0.3048),
    "mi": ("length", 1609.344),
    "1": ("number", 1.0),
    "%": ("number", 0.01),
    "1/year": ("rate", 1.0),
    "1/decade": ("rate", 0.1),
}
_SIGNS = {
    "m2": "m²",
    "km2": "km²",
    "cm2": "cm²",
    "ft2": "ft²",
    "mi2": "mi²",
    "acre": "acres",
    "1": "",
    "1/year": "per year",
    "1/decade": "per decade",
    "degC": "°C",
    "deg": "°",
}
# How people write units; longest first where one begins another.
ALIASES: tuple[tuple[str, str], ...] = (
    (r"square\s+kilomet(?:re|er)s?|sq\.?\s*km|km\s*(?:2|²|\^2)|km\*\*2|kilomet(?:re|er)s?\s+squared", "km2"),
    (r"square\s+centimet(?:re|er)s?|cm\s*(?:2|²|\^2)", "cm2"),
    (r"square\s+met(?:re|er)s?|sq\.?\s*m|m\s*(?:2|²|\^2)|m\*\*2|met(?:re|er)s?\s+squared|sqm", "m2"),
    (r"square\s+f(?:ee|oo)t|sq\.?\s*ft|ft\s*(?:2|²)", "ft2"),
    (r"square\s+miles?|sq\.?\s*mi|mi\s*(?:2|²)", "mi2"),
    (r"hectares?|ha", "ha"),
    (r"acres?", "acre"),
    (r"kilomet(?:re|er)s?|kms?", "km"),
    (r"centimet(?:re|er)s?|cm", "cm"),
    (r"miles?", "mi"),
    (r"f(?:ee|oo)t|ft", "ft"),
    (r"met(?:re|er)s?|m", "m"),
    (r"per\s*cent(?:age)?|percentage|percent|pct|%", "%"),
)
UNIT_PATTERN = "|".join(pattern for pattern, _ in ALIASES)


def unit_of(text: str) -> str | None:
    """The unit that a piece of text names as a whole, or None."""
    stripped = text.strip().casefold().rstrip(".")
    if stripped in _UNITS:
        return stripped
    return next((unit for pattern, unit in ALIASES if re.fullmatch(pattern, stripped)), None)


def dimension(unit: str) -> str:
    """area, length, number, rate; the unit itself where it is none of these."""
    return _UNITS[unit][0] if unit in _UNITS else unit


def convert(value: float, unit: str, to: str) -> float:
    """``value`` in another unit of the same dimension; the number itself, to the last bit, where the units
    are equal.

    ValueError where the dimensions differ.
    """
    if unit == to or not to:
        return value
    if unit not in _UNITS or to not in _UNITS or _UNITS[unit][0] != _UNITS[to][0]:
        raise ValueError(f"{unit!r} cannot be given in {to!r}")
    return value * _UNITS[unit][1] / _UNITS[to][1]


def number_text(value: float, unit: str = "1", *, is_count: bool = False, is_signed: bool = False) -> str:
    """A number with sensible digits and its unit: 40,574; 0.530; 302.4 ha; 4.370 km²; −0.218."""
    sign = "+" if is_signed and value > 0 else ""
    if is_count and float(value).is_integer():
        digits = f"{int(value):,}"
    elif value == 0:
        digits = "0"
    elif unit in ("1", "1/year", "1/decade") and 0.001 <= abs(value) < 100:
        digits = f"{value:.3f}"
    else:
        # four digits that count, five from a hundred on
        places = math.floor(math.log10(abs(value)))
        decimals = min(max((4 if places >= 2 else 3) - places, 0), 12)
        digits = f"{value:,.{decimals}f}"
    text = sign + digits.replace("-", "−")
    shown = _SIGNS.get(unit, unit)
    return f"{text} {shown}" if shown else text
