"""Physical quantities by published formulas, written here a second time from their sources, apart from the tools' table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = Mapping[str, Array]
Numbers = Mapping[str, float]
_HC_K = 14387.768775  # µm K: Planck's h times c over Boltzmann's k (CODATA 2018)


@dataclass(frozen=True, slots=True)
class Inversion:
    """``compute`` takes values by variable and coefficients; ``usual`` are those that need not be given."""

    variables: tuple[str, ...]
    usual: Numbers
    compute: Callable[[Values, Numbers], Array]


def _emissivity(ndvi: Array, low: float, high: float, soil: float, full: float) -> Array:
    """Sobrino et al. 2008: mixed pixels by the squared share of vegetation."""
    share = np.clip((ndvi - low) / (high - low), 0, 1) ** 2
    return soil + share * (full - soil)


def _corrected(bt: Array, emissivity: Array, wavelength_um: float) -> Array:
    """Artis and Carnahan 1982."""
    return bt / (1 + (wavelength_um * bt / _HC_K) * np.log(emissivity))


def _single_channel(v: Values, c: Numbers) -> Array:
    """Jiménez-Muñoz et al. 2014: γ (ψ1 L + ψ2) / ε + γ ψ3 + δ with γ = T²/(b L), δ = T − T²/b."""
    w, t, light = c["water_vapour"], v["bt"], v["radiance"]
    one = 0.04019 * w * w + 0.02916 * w + 1.01523
    two = -0.38333 * w * w - 1.50294 * w + 0.20324
    three = 0.00918 * w * w + 1.36072 * w - 0.27514
    gamma = t * t / (c["b"] * light)
    return gamma * ((one * light + two) / v["emissivity"] + three) + (t - t * t / c["b"])


def _split_window(v: Values, c: Numbers) -> Array:
    apart, w = v["t1"] - v["t2"], c["water_vapour"]
    lit = (c["c3"] + c["c4"] * w) * (1 - v["emissivity"]) + (c["c5"] + c["c6"] * w) * c["emissivity_difference"]
    return v["t1"] + c["c0"] + apart * (c["c1"] + c["c2"] * apart) + lit


def _turbidity(v: Values, c: Numbers) -> Array:
    with np.errstate(all="ignore"):
        return np.where(v["red"] < c["c"], c["a"] * v["red"] / (1 - v["red"] / c["c"]), np.nan)


def _of(variables: str, compute: Callable[[Values, Numbers], Array], **usual: float) -> Inversion:
    return Inversion(tuple(variables.split()), usual, compute)


INVERSIONS: dict[str, Inversion] = {
    "radiance": _of("dn", lambda v, c: c["offset"] + c["gain"] * v["dn"]),
    "toa_reflectance": _of(
        "dn", lambda v, c: (c["offset"] + c["gain"] * v["dn"]) / np.sin(np.radians(c["sun_elevation"])), gain=2e-5, offset=-0.1
    ),
    "toa_reflectance_radiance": _of(
        "radiance",
        lambda v, c: np.pi * v["radiance"] * c["distance_au"] ** 2 / c["esun"] / np.cos(np.radians(90 - c["sun_elevation"])),
        distance_au=1.0,
    ),
    "dark_object": _of("reflectance", lambda v, c: v["reflectance"] - c["dark"]),
    "brightness_temperature": _of(
        "radiance", lambda v, c: c["k2"] / np.log1p(c["k1"] / v["radiance"]), k1=774.8853, k2=1321.0789
    ),
    # Liang 2001
    "albedo_landsat": _of(
        "blue red nir swir1 swir2",
        lambda v, c: (356 * v["blue"] + 130 * v["red"] + 373 * v["nir"] + 85 * v["swir1"] + 72 * v["swir2"] - 1.8) / 1000,
    ),
    "emissivity_ndvi": _of(
        "ndvi",
        lambda v, c: _emissivity(v["ndvi"], c["soil_ndvi"], c["full_ndvi"], c["soil"], c["full"]),
        soil_ndvi=0.2, full_ndvi=0.5, soil=0.973, full=0.99,
    ),
    "lst_emissivity": _of(
        "bt emissivity", lambda v, c: _corrected(v["bt"], v["emissivity"], c["wavelength_um"]), wavelength_um=10.895
    ),
    "lst_ndvi": _of(
        "bt ndvi",
        lambda v, c: _corrected(v["bt"], _emissivity(v["ndvi"], 0.2, 0.5, 0.973, 0.99), c["wavelength_um"]),
        wavelength_um=10.895,
    ),
    "lst_single_channel": _of("bt radiance emissivity", _single_channel, water_vapour=2.0, b=1324.0),
    "lst_split_window": _of(
        "t1 t2 emissivity", _split_window, c0=-0.268, c1=1.378, c2=0.183, c3=54.30, c4=-2.238, c5=-129.20, c6=16.40,
        water_vapour=2.0, emissivity_difference=0.0,
    ),
    # McClain et al. 1985, in kelvin
    "lst_multi_channel": _of(
        "t1 t2", lambda v, c: 273.15 + c["a0"] + c["a1"] * v["t1"] + c["a2"] * (v["t1"] - v["t2"]),
        a0=-283.21, a1=1.0346, a2=2.5779,
    ),
    "lst_three_band": _of("t1 t2 t3", lambda v, c: c["a0"] + c["a1"] * v["t1"] + c["a2"] * v["t2"] + c["a3"] * v["t3"]),
    "day_night_mean": _of("day night", lambda v, c: v["night"] + (v["day"] - v["night"]) / 2),
    "diurnal_range": _of("day night", lambda v, c: v["day"] - v["night"]),
    "thermal_inertia": _of("albedo day night", lambda v, c: (1 - v["albedo"]) / (v["day"] - v["night"])),
    "evaporation_3t": _of(
        "ts", lambda v, c: c["rn"] - c["g"] - (c["rnd"] - c["gd"]) * (v["ts"] - c["ta"]) / (c["tsd"] - c["ta"])
    ),
    "water_vapour_ratio": _of(
        "absorbing window", lambda v, c: ((c["alpha"] - np.log(v["absorbing"] / v["window"])) / c["beta"]) ** 2,
        alpha=0.02, beta=0.651,
    ),
    # Dogliotti et al. 2015
    "turbidity": _of("red", _turbidity, a=228.1, c=0.1641),
    "polarization_difference": _of("tv th", lambda v, c: v["tv"] - v["th"]),
    "polarization_ratio": _of("tv th", lambda v, c: (v["tv"] - v["th"]) / (v["tv"] + v["th"])),
    "frequency_difference": _of("low high", lambda v, c: v["low"] - v["high"]),
    "frequency_ratio": _of("low high", lambda v, c: (v["high"] - v["low"]) / (v["high"] + v["low"])),
    "multi_frequency_temperature": _of(
        "t1 t2 t3",
        lambda v, c: (c["w1"] * v["t1"] + c["w2"] * v["t2"] + c["w3"] * v["t3"]) / (c["w1"] + c["w2"] + c["w3"]),
        w1=1.0, w2=1.0, w3=1.0,
    ),
    # Chang et al. 1987
    "snow_depth_chang": _of("t18h t37h", lambda v, c: np.maximum(0, 1.59 * (v["t18h"] - v["t37h"]))),
    # Kaufman et al. 1998
    "fire_radiative_power": _of("t4", lambda v, c: 4.34e-19 * (v["t4"] ** 8 - c["background"] ** 8)),
}
