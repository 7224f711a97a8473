"""Spectral indices as the verifier knows them: written here a second time, apart from the tools, from the cited sources.

A verifier that reuses the tool's table repeats the tool's mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Planes = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Formula:
    """``pair``: (a, b) of a normalised difference (a − b)/(a + b). ``bounded``: lies in [−1, 1] for non-negative bands."""

    name: str
    roles: frozenset[str]
    compute: Callable[[Planes], Array]
    bounded: bool
    source: str
    pair: tuple[str, str] | None = None


def ratio(numerator: Array, denominator: Array) -> Array:
    """numerator / denominator; NaN where the denominator is zero."""
    with np.errstate(divide="ignore", invalid="ignore"):
        out: Array = np.where(denominator == 0, np.nan, numerator / denominator)
    return out


def difference(a: Array, b: Array) -> Array:
    """Normalised difference (a − b)/(a + b); NaN where undefined."""
    return ratio(a - b, a + b)


def _nd(name: str, a: str, b: str, source: str) -> Formula:
    return Formula(name, frozenset({a, b}), lambda p: difference(p[a], p[b]), True, source, (a, b))


INDICES: dict[str, Formula] = {
    f.name: f
    for f in (
        _nd("ndvi", "nir", "red", "Rouse et al. 1974"),
        _nd("gndvi", "nir", "green", "Gitelson et al. 1996"),
        _nd("ndre", "nir", "rededge1", "Barnes et al. 2000"),
        _nd("ndwi", "green", "nir", "McFeeters 1996"),
        _nd("mndwi", "green", "swir1", "Xu 2006"),
        _nd("ndmi", "nir", "swir1", "Gao 1996"),
        _nd("ndbi", "swir1", "nir", "Zha et al. 2003"),
        _nd("nbr", "nir", "swir2", "Key and Benson 2006"),
        _nd("nbr2", "swir1", "swir2", "Key and Benson 2006"),
        _nd("ndsi", "green", "swir1", "Hall et al. 1995"),
        _nd("ndti", "red", "green", "Lacaux et al. 2007"),
        Formula(
            "savi",
            frozenset({"nir", "red"}),
            lambda p: 1.5 * ratio(p["nir"] - p["red"], p["nir"] + p["red"] + 0.5),
            False,
            "Huete 1988",
        ),
        Formula(
            "msavi",
            frozenset({"nir", "red"}),
            lambda p: 0.5 * (2 * p["nir"] + 1 - np.sqrt(np.maximum((2 * p["nir"] + 1) ** 2 - 8 * (p["nir"] - p["red"]), 0))),
            False,
            "Qi et al. 1994",
        ),
        Formula(
            "evi",
            frozenset({"nir", "red", "blue"}),
            lambda p: 2.5 * ratio(p["nir"] - p["red"], p["nir"] + 6 * p["red"] - 7.5 * p["blue"] + 1),
            False,
            "Huete et al. 2002",
        ),
        Formula(
            "evi2",
            frozenset({"nir", "red"}),
            lambda p: 2.5 * ratio(p["nir"] - p["red"], p["nir"] + 2.4 * p["red"] + 1),
            False,
            "Jiang et al. 2008",
        ),
        _nd("ndwi_gao", "nir", "swir1", "Gao 1996"),
        _nd("ngrdi", "green", "red", "Tucker 1979"),
        _nd("ndci", "rededge1", "red", "Mishra and Mishra 2012"),
        _nd("ui", "swir2", "nir", "Kawamura et al. 1996"),
        _nd("ndti_tillage", "swir1", "swir2", "van Deventer et al. 1997"),
        Formula(
            "osavi",
            frozenset({"nir", "red"}),
            lambda p: 1.16 * ratio(p["nir"] - p["red"], p["nir"] + p["red"] + 0.16),
            False,
            "Rondeaux et al. 1996",
        ),
        Formula("rvi", frozenset({"nir", "red"}), lambda p: ratio(p["nir"], p["red"]), False, "Jordan 1969"),
        Formula("dvi", frozenset({"nir", "red"}), lambda p: p["nir"] - p["red"], False, "Richardson and Wiegand 1977"),
        Formula("cig", frozenset({"nir", "green"}), lambda p: ratio(p["nir"], p["green"]) - 1, False, "Gitelson et al. 2003"),
        Formula("msi", frozenset({"nir", "swir1"}), lambda p: ratio(p["swir1"], p["nir"]), False, "Hunt and Rock 1989"),
        Formula(
            "wri",
            frozenset({"green", "red", "nir", "swir1"}),
            lambda p: ratio(p["green"] + p["red"], p["nir"] + p["swir1"]),
            False,
            "Shen and Li 2010",
        ),
        Formula(
            "awei_nsh",
            frozenset({"green", "swir1", "nir", "swir2"}),
            lambda p: 4 * (p["green"] - p["swir1"]) - (0.25 * p["nir"] + 2.75 * p["swir2"]),
            False,
            "Feyisa et al. 2014",
        ),
        Formula(
            "awei_sh",
            frozenset({"blue", "green", "nir", "swir1", "swir2"}),
            lambda p: p["blue"] + 2.5 * p["green"] - 1.5 * (p["nir"] + p["swir1"]) - 0.25 * p["swir2"],
            False,
            "Feyisa et al. 2014",
        ),
        Formula(
            "bsi",
            frozenset({"blue", "red", "nir", "swir1"}),
            lambda p: difference(p["swir1"] + p["red"], p["nir"] + p["blue"]),
            True,
            "Rikimaru et al. 2002",
        ),
    )
}
ROLES = frozenset(role for f in INDICES.values() for role in f.roles)
# Where a scene lacks the role, these bands may stand in for it.
STAND_INS: dict[str, tuple[str, ...]] = {"nir": ("nir08",), "thermal1": ("thermal2",)}
