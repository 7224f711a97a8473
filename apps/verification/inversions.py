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
_H, _C = 6.62607015e-34, 299792458.0  # J s and m/s
_KINDS = ("ow", "fy", "my")


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


def _seen(um: float, temperature: Array) -> Array:
    """Planck's radiance in W m⁻² sr⁻¹ µm⁻¹, of h, c and k."""
    return 2 * _H * _C**2 / (um * 1e-6) ** 5 / (np.exp(_HC_K / (um * temperature)) - 1) * 1e-6


def _warm(um: float, radiance: Array) -> Array:
    """The temperature of a black body of that radiance."""
    return _HC_K / (um * np.log(1 + 2 * _H * _C**2 / (um * 1e-6) ** 5 / (radiance * 1e6)))


def _separated(v: Values, c: Numbers) -> Array:
    """Gillespie et al. 1998: the hottest band at an emissivity of 0.99 gives a first temperature, the spread of relative
    emissivities their least one, and the band that emits best the temperature."""
    length = {name: c[f"um_{name}"] for name in v}
    first = np.maximum.reduce([_warm(length[n], v[n] / 0.99) for n in v])
    shares = {n: v[n] / _seen(length[n], first) for n in v}
    least, most = np.minimum.reduce(list(shares.values())), np.maximum.reduce(list(shares.values()))
    middle = sum(shares.values()) / len(shares)
    scale = (0.994 - 0.687 * ((most - least) / middle) ** 0.737) / least
    out = np.full(first.shape, np.nan)
    for n, share in shares.items():
        out = np.where(share == most, _warm(length[n], v[n] / (share * scale)), out)
    return out


def _ice(v: Values, c: Numbers) -> Array:
    """Cavalieri et al. 1984: first-year and multi-year ice by the twelve coefficients of the tie points, in the order in which
    NSIDC writes them; cut to 0 … 1."""
    pr = (v["t19v"] - v["t19h"]) / (v["t19v"] + v["t19h"])
    gr = (v["t37v"] - v["t19v"]) / (v["t37v"] + v["t19v"])
    a, b = ({k: c[f"{k}_19v"] - c[f"{k}_19h"] for k in _KINDS}, {k: c[f"{k}_19v"] + c[f"{k}_19h"] for k in _KINDS})
    d, e = ({k: c[f"{k}_37v"] - c[f"{k}_19v"] for k in _KINDS}, {k: c[f"{k}_37v"] + c[f"{k}_19v"] for k in _KINDS})

    def minor(one: str, other: str) -> Array:
        """The determinant of two kinds' equations, a polynomial in both ratios."""
        return np.asarray(
            (a[one] * d[other] - d[one] * a[other]) + (d[one] * b[other] - b[one] * d[other]) * pr
            + (e[one] * a[other] - a[one] * e[other]) * gr + (b[one] * e[other] - e[one] * b[other]) * pr * gr
        )

    first, old, water = minor("my", "ow"), minor("ow", "fy"), minor("fy", "my")
    return np.clip(1 - water / (first + old + water), 0, 1)


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
    "lst_separation": _of(
        "l10 l11 l12 l13 l14", _separated, um_l10=8.291, um_l11=8.634, um_l12=9.075, um_l13=10.657, um_l14=11.318
    ),
    # SSM/I on F8, north: NSIDC's tie points
    "sea_ice_nasa_team": _of(
        "t19v t19h t37v", _ice, ow_19v=183.4, ow_19h=113.2, ow_37v=204.0, fy_19v=251.5, fy_19h=235.5, fy_37v=242.0,
        my_19v=222.1, my_19h=198.5, my_37v=184.2,
    ),
    # Kaufman et al. 1998
    "fire_radiative_power": _of("t4", lambda v, c: 4.34e-19 * (v["t4"] ** 8 - c["background"] ** 8)),
    # Wooster et al. 2003: Stefan and Boltzmann's constant over the slope of radiance by the fourth power of temperature
    "fire_radiative_power_radiance": _of(
        "t4 background",
        lambda v, c: 5.670374419e-8 / c["a"] * (_seen(c["wavelength_um"], v["t4"]) - _seen(c["wavelength_um"], v["background"])),
        a=3.0e-9, wavelength_um=3.96,
    ),
}
