"""The one table of spectral indices: roles, formula, physical range, reference. What stands here is what is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from apps.tools.execute.formula import Formula, parse
from apps.tools.execute.types import PhysicalRange

# Where a formula's role is absent, these stand in for it; the observation names the band that was used.
STAND_INS: Mapping[str, tuple[str, ...]] = {"nir": ("nir08",), "thermal1": ("thermal2",)}


@dataclass(frozen=True, slots=True)
class Index:
    """A spectral index. ``needs`` ``reflectance``: the formula has constants in reflectance, DN are refused; ``ratio``: any
    linear unit that all its bands share. ``theme`` says what high values mean."""

    name: str
    title: str
    formula: Formula
    range: PhysicalRange
    needs: Literal["ratio", "reflectance"]
    theme: str
    reference: str

    @property
    def roles(self) -> tuple[str, ...]:
        return self.formula.names


def _index(name: str, title: str, text: str, theme: str, reference: str, *, low: float = -1, high: float = 1, why: str = "",
           needs: Literal["ratio", "reflectance"] = "ratio") -> Index:
    return Index(name, title, parse(text), PhysicalRange(low, high, why), needs, theme, reference)


_POSITIVE = "a ratio of positive bands has no upper bound"
INDICES: dict[str, Index] = {i.name: i for i in (
    _index("ndvi", "Normalized Difference Vegetation Index", "(nir - red) / (nir + red)", "vegetation",
           "Rouse et al. 1974, NASA SP-351"),
    _index("gndvi", "Green NDVI", "(nir - green) / (nir + green)", "vegetation", "Gitelson et al. 1996, RSE 58"),
    _index("ndre", "Normalized Difference Red Edge", "(nir - rededge1) / (nir + rededge1)", "vegetation",
           "Barnes et al. 2000"),
    _index("evi", "Enhanced Vegetation Index", "2.5 * (nir - red) / (nir + 6 * red - 7.5 * blue + 1)", "vegetation",
           "Huete et al. 2002, RSE 83", needs="reflectance"),
    _index("evi2", "Two-band EVI", "2.5 * (nir - red) / (nir + 2.4 * red + 1)", "vegetation", "Jiang et al. 2008, RSE 112",
           needs="reflectance", high=2.5),
    _index("savi", "Soil-Adjusted Vegetation Index (L = 0.5)", "1.5 * (nir - red) / (nir + red + 0.5)", "vegetation",
           "Huete 1988, RSE 25", needs="reflectance"),
    _index("osavi", "Optimized SAVI", "1.16 * (nir - red) / (nir + red + 0.16)", "vegetation",
           "Rondeaux et al. 1996, RSE 55", needs="reflectance", low=-1.16, high=1.16),
    _index("msavi", "Modified SAVI", "(2 * nir + 1 - sqrt((2 * nir + 1) ^ 2 - 8 * (nir - red))) / 2", "vegetation",
           "Qi et al. 1994, RSE 48", needs="reflectance"),
    _index("arvi", "Atmospherically Resistant Vegetation Index", "(nir - (2 * red - blue)) / (nir + (2 * red - blue))",
           "vegetation", "Kaufman and Tanre 1992, IEEE TGRS 30", needs="reflectance"),
    _index("rvi", "Ratio Vegetation Index", "nir / red", "vegetation", "Jordan 1969, Ecology 50", low=0,
           high=float("inf"), why=_POSITIVE),
    _index("dvi", "Difference Vegetation Index", "nir - red", "vegetation", "Richardson and Wiegand 1977",
           needs="reflectance"),
    _index("cig", "Green Chlorophyll Index", "nir / green - 1", "vegetation", "Gitelson et al. 2003", high=float("inf"),
           why=_POSITIVE),
    _index("ngrdi", "Normalized Green-Red Difference Index", "(green - red) / (green + red)", "vegetation",
           "Tucker 1979, RSE 8"),
    _index("ndwi", "Normalized Difference Water Index (green, nir)", "(green - nir) / (green + nir)", "water",
           "McFeeters 1996, IJRS 17"),
    _index("mndwi", "Modified NDWI", "(green - swir1) / (green + swir1)", "water", "Xu 2006, IJRS 27"),
    _index("wri", "Water Ratio Index", "(green + red) / (nir + swir1)", "water", "Shen and Li 2010", low=0,
           high=float("inf"), why=_POSITIVE),
    _index("awei_nsh", "Automated Water Extraction Index, no shadow", "4 * (green - swir1) - (0.25 * nir + 2.75 * swir2)",
           "water", "Feyisa et al. 2014, RSE 140", needs="reflectance", low=-11.2, high=6.4),
    _index("awei_sh", "Automated Water Extraction Index, shadow",
           "blue + 2.5 * green - 1.5 * (nir + swir1) - 0.25 * swir2", "water", "Feyisa et al. 2014, RSE 140",
           needs="reflectance", low=-5.2, high=5.6),
    _index("ndti", "Normalized Difference Turbidity Index", "(red - green) / (red + green)", "turbidity",
           "Lacaux et al. 2007, RSE 106"),
    _index("ndci", "Normalized Difference Chlorophyll Index", "(rededge1 - red) / (rededge1 + red)", "algae",
           "Mishra and Mishra 2012, RSE 117"),
    _index("ndmi", "Normalized Difference Moisture Index", "(nir - swir1) / (nir + swir1)", "moisture",
           "Gao 1996, RSE 58 (there named NDWI)"),
    _index("ndwi_gao", "NDWI after Gao (nir, swir)", "(nir - swir1) / (nir + swir1)", "moisture", "Gao 1996, RSE 58"),
    _index("msi", "Moisture Stress Index", "swir1 / nir", "dryness", "Hunt and Rock 1989, RSE 30", low=0,
           high=float("inf"), why=_POSITIVE),
    _index("ndbi", "Normalized Difference Built-up Index", "(swir1 - nir) / (swir1 + nir)", "built-up",
           "Zha et al. 2003, IJRS 24"),
    _index("ui", "Urban Index", "(swir2 - nir) / (swir2 + nir)", "built-up", "Kawamura et al. 1996"),
    _index("bsi", "Bare Soil Index", "((swir1 + red) - (nir + blue)) / ((swir1 + red) + (nir + blue))", "bare soil",
           "Rikimaru et al. 2002"),
    _index("nbr", "Normalized Burn Ratio", "(nir - swir2) / (nir + swir2)", "unburnt vegetation",
           "Key and Benson 2006, RMRS-GTR-164"),
    _index("nbr2", "Normalized Burn Ratio 2", "(swir1 - swir2) / (swir1 + swir2)", "unburnt vegetation", "USGS 2017"),
    _index("ndsi", "Normalized Difference Snow Index", "(green - swir1) / (green + swir1)", "snow", "Hall et al. 1995, RSE 54"),
    _index("ndti_tillage", "Normalized Difference Tillage Index", "(swir1 - swir2) / (swir1 + swir2)", "crop residue",
           "van Deventer et al. 1997, PERS 63"),
    _index("rdvi_sar", "Dual-pol cross ratio (linear)", "vh / vv", "vegetation", "Vreugdenhil et al. 2018", low=0,
           high=float("inf"), why=_POSITIVE),
)}
VEGETATION_INDICES = frozenset(i.name for i in INDICES.values() if i.theme == "vegetation") | {"ndvi", "evi"}
