"""The one table of retrievals: physical quantities by published formulas, with the unit of each input, the coefficients and their
defaults, the physical range of the result, and the reference. What stands here is what is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from apps.tools.execute.formula import Formula, parse
from apps.tools.execute.types import PhysicalRange, Plane

Vector = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Home:
    """The sensor that a retrieval was fitted to: ``name`` in words, ``sensors`` as parts of a scene's sensor in lower case,
    ``coefficients`` whose defaults are of that sensor. Without such coefficients the formula itself is."""

    name: str
    sensors: tuple[str, ...]
    coefficients: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieval:
    """``inputs``: variable → unit it must have. ``coefficients``: name → default, None where the caller must give it.
    ``function`` stands in for ``formula`` where a closed formula would not do: it gets variables and coefficients as arrays."""

    name: str
    title: str
    text: str
    inputs: Mapping[str, str]
    unit: str
    range: PhysicalRange
    reference: str
    coefficients: Mapping[str, float | None] = field(default_factory=dict)
    function: Callable[[Mapping[str, Vector], Mapping[str, float]], Vector] | None = None

    @property
    def home(self) -> Home | None:
        return HOMES.get(self.name)

    def away_from_home(self, sensor: str, given: Mapping[str, float]) -> tuple[str, str] | None:
        """(level, what is of another sensor) where ``sensor`` is not the one that the retrieval was fitted to, or is not known,
        and the caller has not given all that depends on it."""
        home = self.home
        left = [] if home is None else [c for c in home.coefficients if c not in given]
        if home is None or (home.coefficients and not left) or any(s in sensor.lower() for s in home.sensors):
            return None
        what = f"{', '.join(left)} stand at their defaults, which are" if left else "the formula is"
        return ("warning" if sensor else "info"), f"{self.title}: {what} of {home.name}"

    @property
    def formula(self) -> Formula | None:
        return None if self.function is not None else parse(self.text)

    def evaluate(self, planes: Mapping[str, Plane], coefficients: Mapping[str, float]) -> Plane:
        """The result where all inputs are valid and the formula is defined."""
        first = next(iter(planes.values()))
        valid = np.ones(first.data.shape, dtype=bool)
        for name in self.inputs:
            valid &= planes[name].valid
        if self.function is not None:
            with np.errstate(all="ignore"):
                data = self.function({n: planes[n].data for n in self.inputs}, coefficients)
            return Plane(data, valid & np.isfinite(data))
        constants = {n: Plane(np.broadcast_to(np.float64(v), first.data.shape), np.broadcast_to(np.True_, first.data.shape))
                     for n, v in coefficients.items()}
        assert self.formula is not None
        found = self.formula.evaluate({**planes, **constants})
        return Plane(found.data, found.valid & valid)


def _sea_ice(v: Mapping[str, Vector], c: Mapping[str, float]) -> Vector:
    """Total concentration by the NASA Team equations: the mixture of open water, first-year and multi-year ice whose polarization
    and gradient ratios are those seen; truncated to 0…1 as published."""
    pr = (v["t19v"] - v["t19h"]) / (v["t19v"] + v["t19h"])
    gr = (v["t37v"] - v["t19v"]) / (v["t37v"] + v["t19v"])
    rows = []
    for kind in ("ow", "fy", "my"):
        v19, h19, v37 = c[f"{kind}_19v"], c[f"{kind}_19h"], c[f"{kind}_37v"]
        rows.append(((v19 - h19) - pr * (v19 + h19), (v37 - v19) - gr * (v37 + v19)))
    (a1, b1), (a2, b2), (a3, b3) = rows
    # Cramer's rule for a·C = 0, b·C = 0, ΣC = 1
    water, first, multi = a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, a1 * b2 - a2 * b1
    return np.clip((first + multi) / (water + first + multi), 0, 1)


def _separation(v: Mapping[str, Vector], c: Mapping[str, float]) -> Vector:
    """Surface temperature by normalized emissivity, ratio and MMD (Gillespie et al. 1998), sky radiance neglected."""
    bands = ("l10", "l11", "l12", "l13", "l14")
    length = {n: c[f"um_{n}"] for n in bands}
    first = {n: _inverse_planck(v[n] / 0.99, length[n]) for n in bands}
    temperature = np.max(np.stack(list(first.values())), axis=0)
    emissivity = np.stack([v[n] / _planck(temperature, length[n]) for n in bands])
    beta = emissivity / emissivity.mean(axis=0)
    mmd = beta.max(axis=0) - beta.min(axis=0)
    least = 0.994 - 0.687 * mmd**0.737
    emissivity = beta * (least / beta.min(axis=0))
    best = emissivity.argmax(axis=0)
    temperatures = np.stack([_inverse_planck(v[n] / emissivity[i], length[n]) for i, n in enumerate(bands)])
    return np.asarray(np.take_along_axis(temperatures, best[None], axis=0)[0])


_C1, _C2 = 1.191042972e8, 14387.768775  # W µm⁴ m⁻² sr⁻¹ and µm K (CODATA 2018)


def _planck(temperature: Vector, um: float) -> Vector:
    return np.asarray(_C1 / (um**5 * np.expm1(_C2 / (um * temperature))))


def _inverse_planck(radiance: Vector, um: float) -> Vector:
    return np.asarray(_C2 / (um * np.log1p(_C1 / (um**5 * radiance))))


_RADIANCE = "W/m2/sr/um"
_KELVIN = PhysicalRange(150, 400)
_L8_SC = {"water_vapour": 2.0, "b": 1324.0}


def _make(name: str, title: str, text: str, inputs: dict[str, str], unit: str, span: PhysicalRange, reference: str,
          **coefficients: float | None) -> Retrieval:
    return Retrieval(name, title, text, inputs, unit, span, reference, coefficients)


RETRIEVALS: dict[str, Retrieval] = {r.name: r for r in (
    # radiometry
    _make("radiance", "Spectral radiance of stored numbers", "gain * dn + offset", {"dn": "DN"}, _RADIANCE,
          PhysicalRange(-30, 1500), "USGS Landsat Level-1 products", gain=None, offset=None),
    _make("toa_reflectance", "Top-of-atmosphere reflectance of stored numbers",
          "(gain * dn + offset) / sin(sun_elevation * 0.017453292519943295)", {"dn": "DN"}, "reflectance",
          PhysicalRange(-0.2, 1.6), "USGS Landsat Level-1 products", gain=2e-5, offset=-0.1, sun_elevation=None),
    _make("toa_reflectance_radiance", "Top-of-atmosphere reflectance of radiance",
          "3.141592653589793 * radiance * distance_au ^ 2 / (esun * sin(sun_elevation * 0.017453292519943295))",
          {"radiance": _RADIANCE}, "reflectance", PhysicalRange(-0.2, 1.6), "Chander et al. 2009, RSE 113", esun=None,
          sun_elevation=None, distance_au=1.0),
    _make("dark_object", "Reflectance less the dark object's", "reflectance - dark", {"reflectance": "reflectance"},
          "reflectance", PhysicalRange(-0.5, 1.6), "Chavez 1988, RSE 24", dark=None),
    _make("brightness_temperature", "Brightness temperature of radiance", "k2 / log(k1 / radiance + 1)",
          {"radiance": _RADIANCE}, "K", _KELVIN, "USGS Landsat; k1, k2 of Landsat 8 band 10 by default",
          k1=774.8853, k2=1321.0789),
    _make("albedo_landsat", "Broadband albedo of Landsat bands",
          "0.356 * blue + 0.13 * red + 0.373 * nir + 0.085 * swir1 + 0.072 * swir2 - 0.0018",
          dict.fromkeys(("blue", "red", "nir", "swir1", "swir2"), "reflectance"), "1", PhysicalRange(-0.05, 1.2),
          "Liang 2001, RSE 76"),
    # surface temperature
    _make("emissivity_ndvi", "Emissivity by NDVI class",
          "where(ndvi < soil_ndvi, soil, where(ndvi > full_ndvi, full, soil + (full - soil) * ((ndvi - soil_ndvi) / "
          "(full_ndvi - soil_ndvi)) ^ 2))", {"ndvi": "1"}, "1", PhysicalRange(0.9, 1), "Sobrino et al. 2008, IEEE TGRS 46",
          soil_ndvi=0.2, full_ndvi=0.5, soil=0.973, full=0.99),
    _make("lst_emissivity", "Surface temperature of brightness temperature and emissivity",
          "bt / (1 + wavelength_um * bt / 14387.768775 * log(emissivity))", {"bt": "K", "emissivity": "1"}, "K", _KELVIN,
          "Artis and Carnahan 1982, RSE 12", wavelength_um=10.895),
    _make("lst_ndvi", "Surface temperature by NDVI-class emissivity",
          "bt / (1 + wavelength_um * bt / 14387.768775 * log(where(ndvi < 0.2, 0.973, where(ndvi > 0.5, 0.99, 0.973 + 0.017 * "
          "((ndvi - 0.2) / 0.3) ^ 2))))", {"bt": "K", "ndvi": "1"}, "K", _KELVIN,
          "Sobrino et al. 2008; Artis and Carnahan 1982", wavelength_um=10.895),
    _make("lst_single_channel", "Surface temperature, generalized single channel (Landsat 8 band 10)",
          "bt ^ 2 / (b * radiance) * (((0.04019 * water_vapour ^ 2 + 0.02916 * water_vapour + 1.01523) * radiance + (-0.38333 * "
          "water_vapour ^ 2 - 1.50294 * water_vapour + 0.20324)) / emissivity + (0.00918 * water_vapour ^ 2 + 1.36072 * "
          "water_vapour - 0.27514)) + bt - bt ^ 2 / b", {"bt": "K", "radiance": _RADIANCE, "emissivity": "1"}, "K", _KELVIN,
          "Jimenez-Munoz et al. 2014, IEEE GRSL 11", **_L8_SC),
    _make("lst_split_window", "Surface temperature, split window (Landsat 8 bands 10 and 11)",
          "t1 + c1 * (t1 - t2) + c2 * (t1 - t2) ^ 2 + c0 + (c3 + c4 * water_vapour) * (1 - emissivity) + (c5 + c6 * "
          "water_vapour) * emissivity_difference", {"t1": "K", "t2": "K", "emissivity": "1"}, "K", _KELVIN,
          "Jimenez-Munoz et al. 2014, IEEE GRSL 11", c0=-0.268, c1=1.378, c2=0.183, c3=54.30, c4=-2.238, c5=-129.20, c6=16.40,
          water_vapour=2.0, emissivity_difference=0.0),
    _make("lst_multi_channel", "Sea-surface temperature, multi channel (MCSST)",
          "a1 * t1 + a2 * (t1 - t2) + a0 + 273.15", {"t1": "K", "t2": "K"}, "K", _KELVIN,
          "McClain et al. 1985, JGR 90 (NOAA-7 split window; the published result is in degrees Celsius)",
          a0=-283.21, a1=1.0346, a2=2.5779),
    _make("lst_three_band", "Surface temperature, linear in three thermal bands", "a0 + a1 * t1 + a2 * t2 + a3 * t3",
          dict.fromkeys(("t1", "t2", "t3"), "K"), "K", _KELVIN, "the caller's regression", a0=None, a1=None, a2=None, a3=None),
    Retrieval("lst_separation", "Surface temperature by temperature–emissivity separation (five bands)",
              "NEM with 0.99, ratio, MMD: emissivity = 0.994 - 0.687 MMD ^ 0.737", dict.fromkeys(
                  ("l10", "l11", "l12", "l13", "l14"), _RADIANCE), "K", _KELVIN, "Gillespie et al. 1998, IEEE TGRS 36",
              {"um_l10": 8.291, "um_l11": 8.634, "um_l12": 9.075, "um_l13": 10.657, "um_l14": 11.318}, _separation),
    _make("day_night_mean", "Mean of day and night temperature", "(day + night) / 2", {"day": "K", "night": "K"}, "K", _KELVIN,
          "arithmetic"),
    _make("diurnal_range", "Day less night temperature", "day - night", {"day": "K", "night": "K"}, "K", PhysicalRange(-40, 120),
          "arithmetic"),
    _make("thermal_inertia", "Apparent thermal inertia", "(1 - albedo) / (day - night)",
          {"albedo": "1", "day": "K", "night": "K"},
          "1/K", PhysicalRange(0, 10), "Price 1977, JGR 82"),
    _make("evaporation_3t", "Soil evaporation, three-temperature model (energy)",
          "rn - g - (rnd - gd) * (ts - ta) / (tsd - ta)", {"ts": "K"}, "W/m2", PhysicalRange(-500, 1500),
          "Qiu et al. 1998, Agric. Water Manage. 37", rn=None, g=None, rnd=None, gd=None, ta=None, tsd=None),
    # atmosphere and water
    _make("water_vapour_ratio", "Column water vapour by band ratio", "((alpha - log(absorbing / window)) / beta) ^ 2",
          {"absorbing": "reflectance", "window": "reflectance"}, "g/cm2", PhysicalRange(0, 10),
          "Kaufman and Gao 1992, IEEE TGRS 30", alpha=0.02, beta=0.651),
    _make("turbidity", "Water turbidity of red reflectance", "where(red < c, a * red / (1 - red / c), 0 / 0)",
          {"red": "reflectance"}, "FNU", PhysicalRange(-50, 4000), "Dogliotti et al. 2015, RSE 156", a=228.1, c=0.1641),
    # passive microwave
    _make("polarization_difference", "Vertical less horizontal brightness temperature", "tv - th", {"tv": "K", "th": "K"}, "K",
          PhysicalRange(-50, 150), "Paloscia and Pampaloni 1988, IEEE TGRS 26"),
    _make("polarization_ratio", "Polarization ratio", "(tv - th) / (tv + th)", {"tv": "K", "th": "K"}, "1", PhysicalRange(-1, 1),
          "Cavalieri et al. 1984, JGR 89"),
    _make("frequency_difference", "Lower less higher frequency's brightness temperature", "low - high",
          {"low": "K", "high": "K"}, "K", PhysicalRange(-150, 150), "Chang et al. 1987"),
    _make("frequency_ratio", "Gradient ratio of two frequencies", "(high - low) / (high + low)", {"low": "K", "high": "K"}, "1",
          PhysicalRange(-1, 1), "Cavalieri et al. 1984, JGR 89"),
    _make("multi_frequency_temperature", "Weighted mean of three frequencies' brightness temperatures",
          "(w1 * t1 + w2 * t2 + w3 * t3) / (w1 + w2 + w3)", dict.fromkeys(("t1", "t2", "t3"), "K"), "K", PhysicalRange(50, 400),
          "arithmetic", w1=1.0, w2=1.0, w3=1.0),
    _make("snow_depth_chang", "Snow depth by 18 and 37 GHz; below 0 is no snow", "max(1.59 * (t18h - t37h), 0)",
          {"t18h": "K", "t37h": "K"}, "cm", PhysicalRange(0, 400), "Chang et al. 1987, Annals of Glaciology 9"),
    Retrieval("sea_ice_nasa_team", "Sea-ice concentration, NASA Team", "mixture of open water, first-year and multi-year ice "
              "with the polarization ratio of 19 GHz and the gradient ratio of 37 and 19 GHz",
              {"t19v": "K", "t19h": "K", "t37v": "K"}, "1", PhysicalRange(0, 1), "Cavalieri et al. 1984, JGR 89; tie points of "
              "SSM/I F8, northern hemisphere, as NSIDC uses them (Cavalieri et al. 1999, JGR 104)", {
                  "ow_19v": 183.4, "ow_19h": 113.2, "ow_37v": 204.0, "fy_19v": 251.5, "fy_19h": 235.5, "fy_37v": 242.0,
                  "my_19v": 222.1, "my_19h": 198.5, "my_37v": 184.2}, _sea_ice),
    # fire
    _make("fire_radiative_power", "Fire radiative power of a MODIS pixel, per km²", "4.34e-19 * (t4 ^ 8 - background ^ 8)",
          {"t4": "K"}, "MW/km2", PhysicalRange(-100, 20000), "Kaufman et al. 1998, JGR 103 (MOD14 to collection 5)",
          background=None),
    _make("fire_radiative_power_radiance", "Fire radiative power by the radiance at 4 µm, per km²",
          "5.670374419e-8 / a * 1.191042972e8 / wavelength_um ^ 5 * (1 / (exp(14387.768775 / (wavelength_um * t4)) - 1) - 1 / "
          "(exp(14387.768775 / (wavelength_um * background)) - 1))", {"t4": "K", "background": "K"}, "MW/km2",
          PhysicalRange(-100, 20000), "Wooster et al. 2003, RSE 86 (MOD14 from collection 6)", a=3.0e-9, wavelength_um=3.96),
)}


# Formulas of the light that the surface itself sends back, and what the light of the air above it does to the figure.
OF_THE_SURFACE: Mapping[str, str] = {
    "albedo_landsat": "light of the air counts as light of the ground",
    "turbidity": "haze and glint count as particles in the water, and the figure can be many times too high",
}


_L8, _L8_TIRS = ("landsat 8", "landsat 9", "landsat-8", "landsat-9"), "Landsat 8 band 10"
HOMES: dict[str, Home] = {
    "toa_reflectance": Home("Landsat 8 and 9", _L8, ("gain", "offset")),
    "brightness_temperature": Home(_L8_TIRS, _L8, ("k1", "k2")),
    "albedo_landsat": Home("Landsat TM and ETM+", ("landsat 4", "landsat 5", "landsat 7", "landsat-4", "landsat-5", "landsat-7")),
    "lst_emissivity": Home(_L8_TIRS, _L8, ("wavelength_um",)),
    "lst_ndvi": Home(_L8_TIRS, _L8, ("wavelength_um",)),
    "lst_single_channel": Home(_L8_TIRS, _L8),
    "lst_split_window": Home("Landsat 8 bands 10 and 11", _L8, ("c0", "c1", "c2", "c3", "c4", "c5", "c6")),
    "lst_multi_channel": Home("AVHRR on NOAA-7", ("noaa-7", "noaa 7"), ("a0", "a1", "a2")),
    "lst_separation": Home("ASTER", ("aster",), ("um_l10", "um_l11", "um_l12", "um_l13", "um_l14")),
    "water_vapour_ratio": Home("MODIS bands 19 and 2", ("modis",), ("alpha", "beta")),
    "sea_ice_nasa_team": Home("SSM/I on F8 in the north", ("f8", "f08"), tuple(
        f"{kind}_{channel}" for kind in ("ow", "fy", "my") for channel in ("19v", "19h", "37v"))),
    "fire_radiative_power": Home("MODIS at 4 µm", ("modis",)),
    "fire_radiative_power_radiance": Home("MODIS at 3.96 µm", ("modis",), ("a", "wavelength_um")),
}
