"""Units in words: how questions and choices write those of ``apps.core.units``, and numbers as a person reads them."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from apps.core.units import UNITS
from apps.core.units import convert as convert_unit

# Signs of units that nothing is converted to or from.
_OTHER_SIGNS = {"degC": "°C", "deg": "°", "degree": "°"}
# a hyphen that stands for a minus: before a figure, not within a word, a number, a date or a range
_NEGATIVE = re.compile(r"(?<![\w.:/)\]-])-(?=\.?\d)")
# How people write units; longest first where one begins another.
ALIASES: tuple[tuple[str, str], ...] = (
    (r"square\s+kilomet(?:re|er)s?|sq\.?\s*km|km\s*(?:2|²|\^2)|km\*\*2|kilomet(?:re|er)s?\s+squared", "km2"),
    (r"square\s+centimet(?:re|er)s?|cm\s*(?:2|²|\^2)", "cm2"),
    (r"square\s+met(?:re|er)s?|sq\.?\s*m|m\s*(?:2|²|\^2)|m\*\*2|met(?:re|er)s?\s+squared|sqm", "m2"),
    (r"square\s+(?:us\s+)?survey\s+f(?:ee|oo)t|(?:us\s+)?survey\s+square\s+f(?:ee|oo)t", "ftUS2"),
    (r"(?:us\s+)?survey\s+f(?:ee|oo)t|ftus|us-ft", "ftUS"),
    (r"square\s+f(?:ee|oo)t|sq\.?\s*ft|ft\s*(?:2|²)", "ft2"),
    (r"square\s+miles?|sq\.?\s*mi|mi\s*(?:2|²)", "mi2"),
    (r"hectares?|hectars?|ha", "ha"),
    (r"acres?", "acre"),
    (r"kilomet(?:re|er)s?|kms?", "km"),
    (r"centimet(?:re|er)s?|cm", "cm"),
    (r"nautical\s+miles?|nmi", "nmi"),
    (r"yards?|yd", "yd"),
    (r"miles?|mi", "mi"),
    (r"f(?:ee|oo)t|ft", "ft"),
    (r"met(?:re|er)s?|m", "m"),
    (r"per\s*cent(?:age)?|percentage|percent|pct|%", "%"),
)
UNIT_PATTERN = "|".join(pattern for pattern, _ in ALIASES)
_LENGTH = re.compile(rf"(?<![\w.,])(?P<d>\d[\d,]*(?:\.\d+)?)[\s-]*(?P<u>{UNIT_PATTERN})(?![\w²³^/])")


def unit_of(text: str) -> str | None:
    """The unit that a piece of text names as a whole, or None."""
    stripped = text.strip().casefold().rstrip(".")
    if stripped in UNITS:
        return stripped
    return next((unit for pattern, unit in ALIASES if re.fullmatch(pattern, stripped)), None)


def dimension(unit: str) -> str:
    """area, length, number, density, rate; the unit itself where it is none of these."""
    return UNITS[unit].dimension if unit in UNITS else unit


def convert(value: float, unit: str, to: str) -> float:
    """As ``apps.core.units.convert``; the number itself where no other unit is asked for."""
    return convert_unit(value, unit, to) if to else value


def unit_sign(unit: str) -> str:
    """How a unit is written behind a number; empty for that of plain numbers."""
    return UNITS[unit].sign if unit in UNITS else _OTHER_SIGNS.get(unit, unit)


def with_sign(text: str, unit: str) -> str:
    """A written number with the sign of its unit: 302.4 ha; that of an angle stands at the number, 14.68°."""
    sign = unit_sign(unit)
    return f"{text}{sign}" if sign == "°" else f"{text} {sign}".rstrip()


def valid_pixels(n: int) -> str:
    """1 valid pixel; 40,574 valid pixels."""
    return f"{n:,} valid {'pixel' if n == 1 else 'pixels'}"


def length_as_asked(metres: float, question: str) -> str:
    """A length with the number and unit that the question gives it, 50 km; in metres where it gives none that is equal."""
    for m in _LENGTH.finditer(question.casefold()):
        value, unit = float(m["d"].replace(",", "")), unit_of(m["u"])
        if unit and dimension(unit) == "length" and math.isclose(convert(value, unit, "m"), metres, rel_tol=1e-9):
            return with_sign(f"{value:,.10g}", unit)
    return with_sign(f"{metres:,.10g}", "m")


def true_minus(text: str) -> str:
    """A true minus sign before each number below zero, as people read it; dates and names keep their hyphens."""
    return _NEGATIVE.sub("\N{MINUS SIGN}", text)


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
    return with_sign(sign + digits.replace("-", "−"), unit)


def without_noise(ends: Sequence[float]) -> tuple[float, ...]:
    """The ends of an interval as people read them: what is only rounding beside the other end, 2e-10 beside 5, is 0."""
    largest = max(map(abs, ends), default=0.0)
    return tuple(0.0 if abs(end) < 1e-9 * largest else end for end in ends)


def carried_text(
    value: float, interval: tuple[float, float], unit: str = "1", *,
    is_count: bool = False, is_signed: bool = False, is_short: bool = False,
) -> tuple[str, str]:  # fmt: skip
    """(value with its unit, interval) to the digits that the interval carries: two of its half width (JCGM 100:2008, 7.2.6).

    302.3547 in 291.08 to 310.27 reads 302.4 ha, 291.1 to 310.3. A number of things stays whole; no interval where it has no
    width. ``is_short``: no more digits than ``number_text`` writes, as in a sentence; no interval that these do not show.
    """
    half = (interval[1] - interval[0]) / 2
    is_whole = is_count and float(value).is_integer()
    plain = number_text(value, unit, is_count=is_count or float(value).is_integer(), is_signed=is_signed)
    if not 0 < half < math.inf:
        return plain, ""
    decimals = min(1 - math.floor(math.log10(half)), 12)
    if all(float(end).is_integer() for end in interval):
        decimals = min(decimals, 0) if float(value).is_integer() else decimals
    elif is_short and value and not is_whole:
        decimals = min(decimals, len(number_text(value, unit).removesuffix(unit_sign(unit)).strip().partition(".")[2]))

    def shown(v: float, places: int) -> str:
        # a rounded nothing has no sign
        return f"{round(float(v), places) + 0.0:,.{max(places, 0)}f}".replace("-", "−")

    low, high = (shown(end, decimals) for end in interval)
    text = shown(value, 0 if is_whole else decimals)
    if is_signed and value > 0:
        text = f"+{text}"
    return with_sign(text, unit), f"{low} to {high}" if low != high else ""
