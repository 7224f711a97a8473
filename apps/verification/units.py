"""Units as the checks read them: dimension and factor to SI, from a closed table. An unknown unit is unknown, never guessed.

The tools and the planner convert by pint (``apps/core/units.py``); the checks keep this table of their own, so that a fault of
one is seen by the other.
"""

from __future__ import annotations

# unit → (dimension, factor to the dimension's SI unit). Temperatures carry no factor: they are affine.
_UNITS: dict[str, tuple[str, float | None]] = {
    "1": ("fraction", 1.0),
    "fraction": ("fraction", 1.0),
    "ratio": ("fraction", 1.0),
    "%": ("fraction", 0.01),
    "percent": ("fraction", 0.01),
    "count": ("count", 1.0),
    "objects": ("count", 1.0),
    "px": ("pixel", 1.0),
    "pixel": ("pixel", 1.0),
    "pixels": ("pixel", 1.0),
    "px2": ("pixel", 1.0),
    "m2": ("area", 1.0),
    "m²": ("area", 1.0),
    "m^2": ("area", 1.0),
    "sqm": ("area", 1.0),
    "ha": ("area", 1e4),
    "hectare": ("area", 1e4),
    "hectares": ("area", 1e4),
    "km2": ("area", 1e6),
    "km²": ("area", 1e6),
    "km^2": ("area", 1e6),
    "acre": ("area", 4046.8564224),
    "acres": ("area", 4046.8564224),
    "ft2": ("area", 0.09290304),
    "mi2": ("area", 2589988.110336),
    "sqmi": ("area", 2589988.110336),
    "ftUS2": ("area", (1200 / 3937) ** 2),
    "cm2": ("area", 1e-4),
    "deg2": ("angle_area", 1.0),
    "degree2": ("angle_area", 1.0),
    "m": ("length", 1.0),
    "metre": ("length", 1.0),
    "metres": ("length", 1.0),
    "meter": ("length", 1.0),
    "meters": ("length", 1.0),
    "km": ("length", 1e3),
    "cm": ("length", 0.01),
    "mm": ("length", 1e-3),
    "ft": ("length", 0.3048),
    "ftUS": ("length", 1200 / 3937),
    "mi": ("length", 1609.344),
    "nmi": ("length", 1852.0),
    "yd": ("length", 0.9144),
    "deg": ("angle", 1.0),
    "degree": ("angle", 1.0),
    "degrees": ("angle", 1.0),
    "°": ("angle", 1.0),
    "rad": ("angle", None),
    "K": ("temperature", None),
    "kelvin": ("temperature", None),
    "degC": ("temperature", None),
    "°C": ("temperature", None),
    "C": ("temperature", None),
    "celsius": ("temperature", None),
    "degF": ("temperature", None),
    "°F": ("temperature", None),
    "DN": ("stored", 1.0),
    "reflectance": ("reflectance", 1.0),
    "dB": ("decibel", 1.0),
    "W/m2": ("irradiance", 1.0),
    "W/m2/sr/um": ("radiance", 1.0),
    "radiance": ("radiance", 1.0),
    "g/m2": ("column", 1.0),
    "g/cm2": ("column", 1e4),
    "MW/km2": ("irradiance", 1.0),
    "FNU": ("turbidity", 1.0),
    "1/K": ("per_temperature", 1.0),
    "date": ("date", None),
    "s": ("time", 1.0),
    "h": ("time", 3600.0),
    "day": ("time", 86400.0),
    "days": ("time", 86400.0),
    "year": ("time", 31557600.0),
    "m3": ("volume", 1.0),
    "1/m2": ("density", 1.0),
    "1/km2": ("density", 1e-6),
    "1/ha": ("density", 1e-4),
}
_PER = ("/year", "/yr", "/a", "/month", "/day", "/date", " per year", " per month", " per day")


def split_rate(unit: str) -> tuple[str, str]:
    """("m2", "year") of "m2/year"; the second part is empty for what is no rate."""
    for suffix in _PER:
        if unit.endswith(suffix):
            return unit[: -len(suffix)] or "1", suffix.strip().removeprefix("/").removeprefix("per ")
    return unit, ""


def dimension(unit: str) -> str | None:
    """The dimension of a unit; ``rate:<dimension>`` for one over time (or over the dates of a series), ``square:<dimension>`` for
    the square of one that is no other unit (a variance); None for a unit that the table does not know."""
    base, per = split_rate(unit.strip())
    found = _UNITS.get(base)
    if found is not None:
        what = found[0]
    elif base.endswith("2") and base[:-1] in _UNITS:
        what = f"square:{_UNITS[base[:-1]][0]}"
    else:
        return None
    return f"rate:{what}" if per else what


def factor(unit: str) -> float | None:
    """SI factor of a unit; None where it has none (temperatures, dates) or is unknown."""
    base = split_rate(unit.strip())[0]
    found = _UNITS.get(base)
    if found is None and base.endswith("2") and base[:-1] in _UNITS:
        root = _UNITS[base[:-1]][1]
        return None if root is None else root**2
    return found[1] if found else None


def to_si(value: float, unit: str) -> float | None:
    """The value in its dimension's SI unit; temperatures in kelvin; None for unknown units."""
    unit = unit.strip()
    if unit in ("K", "kelvin"):
        return value
    if unit in ("degC", "°C", "C", "celsius"):
        return value + 273.15
    if unit in ("degF", "°F"):
        return (value + 459.67) / 1.8
    f = factor(unit)
    return None if f is None else value * f
