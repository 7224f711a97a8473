"""What sensors call their bands, and how their products code values: data for ``inspect``."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from apps.core.geo.bands import BAND_ROLES


@dataclass(frozen=True, slots=True)
class Profile:
    """``bands`` maps the sensor's band names to (role, centre wavelength in nm). ``exclusive`` names occur in
    no other profile: one of them settles which sensor a list of names belongs to."""

    key: str
    sensor: str
    bands: dict[str, tuple[str, float | None]]
    exclusive: frozenset[str] = frozenset()
    tag_words: tuple[str, ...] = ()
    name_pattern: str = r"(?!)"
    aliases: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Coding:
    """How a product stores the values of one of its bands: physical = stored × ``scale`` + ``offset`` in ``unit``.

    ``band`` matches the whole of the band's name as the product writes it, ``dtypes`` are the stored types to
    which the rule belongs (the same name in floats is physical already). ``valid_range`` and ``nodata`` are in
    stored units. ``role`` stands where the name tells it without the sensor. ``scheme`` names how the bits or
    classes of a quality band are read. ``source`` is the product guide.
    """

    product: str
    band: str
    dtypes: tuple[str, ...]
    scale: float = 1.0
    offset: float = 0.0
    unit: str = "DN"
    nodata: float | None = None
    valid_range: tuple[float, float] | None = None
    role: str = ""
    wavelength_nm: float | None = None
    scheme: str = ""
    sensor: str = ""
    source: str = ""


# In the names of ESA's files of Sentinel-2's bands: the tile (UTM zone, latitude band, two letters) and the time of sensing.
_S2_BAND_FILE = r"t(?:0[1-9]|[1-5]\d|60)[c-hj-np-x][a-hj-np-z][a-hj-np-v]_\d{8}t\d{6}(?![a-z0-9])"
SENTINEL2 = Profile(
    "sentinel2",
    "Sentinel-2 MSI",
    {
        "B1": ("coastal", 443), "B2": ("blue", 490), "B3": ("green", 560), "B4": ("red", 665),
        "B5": ("rededge1", 705), "B6": ("rededge2", 740), "B7": ("rededge3", 783), "B8": ("nir", 842),
        "B8A": ("nir08", 865), "B9": ("watervapour", 945), "B10": ("cirrus", 1375), "B11": ("swir1", 1610),
        "B12": ("swir2", 2190), "SCL": ("qa", None), "QA60": ("qa", None),
    },
    exclusive=frozenset({"B8A", "B12", "SCL", "QA60"}),
    tag_words=("sentinel-2", "sentinel2", "s2a_", "s2b_", "s2c_"),
    name_pattern=rf"(?:^|[^a-z0-9])(?:s2[abc]?[_-]|sentinel.?2|{_S2_BAND_FILE})",
)  # fmt: skip
LANDSAT7 = Profile(
    "landsat7",
    "Landsat 7 ETM+",
    {
        "B1": ("blue", 483), "B2": ("green", 560), "B3": ("red", 662), "B4": ("nir", 835), "B5": ("swir1", 1648),
        "B6": ("thermal1", 11450), "B7": ("swir2", 2206), "B61": ("thermal1", 11450), "B62": ("thermal2", 11450),
        "B8": ("pan", 720), "BQA": ("qa", None),
    },
    exclusive=frozenset({"B61", "B62"}),
    tag_words=("landsat_7", "landsat 7", "landsat7", "etm+"),
    name_pattern=r"(?:^|[^a-z0-9])(?:le0?7|landsat.?7|l7[_-])",
    aliases={"B6_VCID_1": "B61", "B6_VCID_2": "B62"},
)  # fmt: skip
LANDSAT5 = Profile(
    "landsat5",
    "Landsat 5 TM",
    {
        "B1": ("blue", 485), "B2": ("green", 569), "B3": ("red", 660), "B4": ("nir", 840), "B5": ("swir1", 1676),
        "B6": ("thermal1", 11435), "B7": ("swir2", 2223), "BQA": ("qa", None),
    },
    tag_words=("landsat_5", "landsat 5", "landsat5"),
    name_pattern=r"(?:^|[^a-z0-9])(?:lt0?5|landsat.?5|l5[_-])",
)  # fmt: skip
# The same instrument as Landsat 5; bands 5 and 7 of its scanner (MSS) are another sensor and are not known here.
LANDSAT4 = Profile(
    "landsat4",
    "Landsat 4 TM",
    dict(LANDSAT5.bands),
    tag_words=("landsat_4", "landsat 4", "landsat4"),
    name_pattern=r"(?:^|[^a-z0-9])(?:lt0?4|landsat.?4|l4[_-])",
)
# Whose Collection 2 names tell the family but not which of the three: roles are the same, wavelengths nearly so.
LANDSAT4_7 = Profile("landsat4-7", "Landsat 4–7 TM/ETM+", dict(LANDSAT5.bands))
LANDSAT8 = Profile(
    "landsat8",
    "Landsat 8/9 OLI-TIRS",
    {
        "B1": ("coastal", 443), "B2": ("blue", 482), "B3": ("green", 561), "B4": ("red", 655), "B5": ("nir", 865),
        "B6": ("swir1", 1609), "B7": ("swir2", 2201), "B8": ("pan", 590), "B9": ("cirrus", 1373),
        "B10": ("thermal1", 10895), "B11": ("thermal2", 12005), "BQA": ("qa", None),
    },
    tag_words=("landsat_8", "landsat 8", "landsat8", "landsat_9", "landsat 9", "landsat9", "oli_tirs"),
    name_pattern=r"(?:^|[^a-z0-9])(?:lc0?[89]|landsat.?[89]|l[89](?![a-z0-9]))",
    aliases={"QA_PIXEL": "BQA", "ST_B10": "B10"},
)  # fmt: skip
PROFILES = (SENTINEL2, LANDSAT7, LANDSAT5, LANDSAT4, LANDSAT8)
# Names of Collection 2, level 2, that only one family has: OLI has a reflective band 6 and thermal band 10, TM and
# ETM+ have a thermal band 6. ``QA_PIXEL`` is in all of them and tells nothing.
_COLLECTION2 = ((re.compile(r"SR_B0?6|ST_B10"), LANDSAT8), (re.compile(r"ST_B0?6"), LANDSAT4_7))

# USGS Landsat Collection 2 Level-2 Science Product Guides (LSDS-1618, LSDS-1619), tables of scale factors; LaSRC guide
# 2016 for surface reflectance of Collection 1. MOD09 v6.1, MOD11 v6.1, VNP09 v2, VNP46 v1 user guides. ESA S2 L2A (SCL).
CODINGS: tuple[Coding, ...] = (
    Coding("Landsat Collection 2 surface reflectance", r"SR_B\d{1,2}", ("uint16",), 2.75e-5, -0.2, "reflectance", 0.0,
           source="USGS LSDS-1618/1619"),
    Coding("Landsat Collection 2 surface temperature", r"ST_B(?:6|06|10)", ("uint16",), 0.00341802, 149.0, "K", 0.0,
           role="thermal1", source="USGS LSDS-1618/1619"),
    *(Coding("Landsat Collection 2 surface temperature, what it is made of", rf"ST_(?:{names})", ("int16",), scale, 0.0, unit,
             -9999.0, role=role, source="USGS LSDS-1618/1619")
      for names, scale, unit, role in (
          ("TRAD|URAD|DRAD", 1e-3, "W/m2/sr/um", "radiance"), ("ATRAN|EMIS|EMSD", 1e-4, "1", "unknown"),
          ("CDIST", 1e-2, "km", "unknown"), ("QA", 1e-2, "K", "unknown"))),
    Coding("Landsat Collection 2 quality", r"QA_PIXEL", ("uint16",), role="qa", scheme="landsat_c2", nodata=1.0,
           source="USGS LSDS-1618/1619"),
    Coding("Landsat Collection 1 surface reflectance", r"SR_BAND_?\d{1,2}", ("int16",), 1e-4, 0.0, "reflectance", -9999.0,
           (-2000.0, 16000.0), source="USGS LaSRC product guide"),
    Coding("Landsat quality band", r"BQA", ("uint16",), role="qa", source="USGS Landsat 8 data users handbook"),
    Coding("Sentinel-2 scene classification", r"SCL", ("uint8", "uint16", "int16"), role="qa", scheme="sentinel2_scl", nodata=0.0,
           sensor="Sentinel-2 MSI", source="ESA Sentinel-2 L2A product definition"),
    Coding("Sentinel-2 cloud mask", r"QA60", ("uint16", "int16"), role="qa", scheme="sentinel2_qa60",
           sensor="Sentinel-2 MSI", source="ESA Sentinel-2 L1C product definition"),
    *(Coding("MODIS surface reflectance", rf"SUR_REFL_B0?{n}(?:_1)?", ("int16",), 1e-4, 0.0, "reflectance", -28672.0,
             (-100.0, 16000.0), role, nm, sensor="MODIS", source="MOD09 user guide v6.1")
      for n, role, nm in ((1, "red", 645), (2, "nir", 858), (3, "blue", 469), (4, "green", 555), (5, "unknown", 1240),
                          (6, "swir1", 1640), (7, "swir2", 2130))),
    Coding("MODIS state", r"STATE_1KM(?:_1)?", ("uint16",), role="qa", scheme="modis_state_1km", nodata=65535.0,
           sensor="MODIS", source="MOD09 user guide v6.1"),
    Coding("MODIS land surface temperature", r"LST_(?:DAY|NIGHT)_1KM", ("uint16",), 0.02, 0.0, "K", 0.0,
           (7500.0, 65535.0), "lst", sensor="MODIS", source="MOD11 user guide v6.1"),
    *(Coding("MODIS reflectance corrected for direction", rf"NADIR_REFLECTANCE_BAND{n}", ("int16",), 1e-4, 0.0, "reflectance",
             32767.0, (0.0, 32766.0), role, nm, sensor="MODIS", source="MCD43 user guide v6.1")
      for n, role, nm in ((1, "red", 645), (2, "nir", 858), (3, "blue", 469), (4, "green", 555), (5, "unknown", 1240),
                          (6, "swir1", 1640), (7, "swir2", 2130))),
    # values above the valid range are codes: 249 to 255 of leaves, 200 to 255 of snow, 32761 to 32767 of water and carbon
    Coding("MODIS and VIIRS leaf area index", r"LAI(?:_500M)?", ("uint8",), 0.1, 0.0, "m2/m2", 255.0, (0.0, 100.0),
           source="MOD15 user guide v6.1, VNP15 user guide v2"),
    Coding("MODIS and VIIRS absorbed radiation", r"FPAR(?:_500M)?", ("uint8",), 0.01, 0.0, "1", 255.0, (0.0, 100.0),
           source="MOD15 user guide v6.1, VNP15 user guide v2"),
    Coding("MODIS and VIIRS snow cover", r"NDSI_SNOW_COVER", ("uint8",), 1.0, 0.0, "%", 255.0, (0.0, 100.0),
           source="MOD10 user guide v6.1, VNP10 user guide v2"),
    *(Coding("MODIS evapotranspiration", rf"{n}_500M", ("int16",), 0.1, 0.0, "kg/m2", 32767.0, (-32767.0, 32760.0),
             sensor="MODIS", source="MOD16 user guide v6.1") for n in ("ET", "PET")),
    *(Coding("MODIS latent heat", rf"{n}_500M", ("int16",), 1e4, 0.0, "J/m2/day", 32767.0, (-32767.0, 32760.0),
             sensor="MODIS", source="MOD16 user guide v6.1") for n in ("LE", "PLE")),
    *(Coding("MODIS productivity", rf"{n}_500M", ("int16",), 1e-4, 0.0, "kg/m2", 32767.0, (low, 32760.0),
             sensor="MODIS", source="MOD17 user guide v6.1")
      for n, low in (("GPP", 0.0), ("PSNNET", -30000.0), ("NPP", -30000.0))),
    Coding("MODIS and VIIRS land surface temperature", r"LST_1KM", ("uint16",), 0.02, 0.0, "K", 0.0, (7500.0, 65535.0), "lst",
           source="MOD21 user guide v6.1, VNP21 user guide v2"),
    *(Coding("VIIRS vegetation index", rf"500_M_16_DAYS_{n}2?", ("int16",), 1e-4, 0.0, "1", -15000.0, (-10000.0, 10000.0),
             n.lower(), sensor="VIIRS", source="VNP13 user guide v2") for n in ("NDVI", "EVI")),
    Coding("MODIS vegetation index reliability", r"(?:250M|500M|1KM)?.*PIXEL_?RELIABILITY|SUMMARYQA", ("int8", "uint8", "int16"),
           role="qa", scheme="mod13_reliability", sensor="MODIS", source="MOD13 user guide v6.1"),
    *(Coding("VIIRS surface reflectance", rf"SURF_?REFLECT_?{n}(?:_1)?", ("int16",), 1e-4, 0.0, "reflectance", -28672.0,
             (-100.0, 16000.0), role, nm, sensor="VIIRS", source="VNP09 user guide v2")
      for n, role, nm in (("I1", "red", 640), ("I2", "nir", 865), ("I3", "swir1", 1610), ("M3", "blue", 488),
                          ("M4", "green", 555), ("M11", "swir2", 2250))),
    Coding("VIIRS night lights", r"(?:DNB_BRDF-CORRECTED_NTL|GAP_FILLED_DNB_BRDF-CORRECTED_NTL|DNB_AT_SENSOR_RADIANCE(?:_500M)?)",
           ("uint16",), 0.1, 0.0, "nW/cm2/sr", 65535.0, role="radiance", sensor="VIIRS DNB", source="VNP46 user guide v1"),
    Coding("VIIRS night lights", r"AVG_RAD", ("float32", "float64"), 1.0, 0.0, "nW/cm2/sr", role="radiance",
           sensor="VIIRS DNB", source="EOG monthly composites"),
)  # fmt: skip
SENTINEL1_NAME = re.compile(r"(?:^|[^a-z0-9])(?:s1[abcd]?[_-]|sentinel.?1)", re.I)
# Quality bands of Landsat before Collection 1 keep the cloud's confidence in bits 14 and 15, so every valid value is
# 16384 or more; Collection 1 uses bits 0 to 12 (USGS, Landsat 8 data users handbook 1.0 and 4.0).
_BQA_COLLECTION1_MOST = 8191.0

# MOD13Q1/MYD13Q1 version 6 user guide, table 2: stored int16, valid range −2000 to 10000, scale 0.0001, fill
# −3000.
MOD13_RANGE = (-2000.0, 10000.0)
MOD13_SCALE = 1e-4
MOD13_SENSOR = "MODIS MOD13/MYD13"
_MOD13 = re.compile(r"(?:m[oy]d13|modis).*?(?<![a-z])(ndvi|evi)(?![a-z])", re.I)

# Words that name a role outright.
WORDS: dict[str, str] = {
    "red": "red", "green": "green", "blue": "blue", "nir": "nir", "near infrared": "nir", "near-infrared": "nir",
    "nearinfrared": "nir", "nir08": "nir08", "nir narrow": "nir08", "coastal": "coastal", "coastal aerosol": "coastal",
    "yellow": "yellow", "rededge": "rededge1", "red edge": "rededge1", "red edge 1": "rededge1",
    "red edge 2": "rededge2", "red edge 3": "rededge3", "rededge1": "rededge1", "rededge2": "rededge2",
    "rededge3": "rededge3", "swir1": "swir1", "swir 1": "swir1", "swir16": "swir1", "swir2": "swir2",
    "swir 2": "swir2", "swir22": "swir2", "cirrus": "cirrus", "water vapour": "watervapour",
    "water vapor": "watervapour", "pan": "pan", "panchromatic": "pan", "thermal": "thermal1", "tirs1": "thermal1",
    "tirs2": "thermal2", "vv": "vv", "vh": "vh", "hh": "hh", "hv": "hv", "ndvi": "ndvi", "evi": "evi", "lst": "lst",
    "elevation": "elevation", "dem": "elevation", "alpha": "alpha", "qa": "qa", "qa_pixel": "qa", "bqa": "qa",
    "class": "class", "gray": "gray", "grey": "gray",
}  # fmt: skip


def band_name(text: str) -> str | None:
    """A description as the sensors write it (``B4``, ``B8A``, ``B61``, ``BQA``), or None: from ``B04``,
    ``Band 4``, ``SR_B4``, ``band_8a``, ``B6_VCID_1``."""
    word = text.strip().upper().replace(" ", "_")
    word = re.sub(r"^(?:SR_|ST_)", "", word)
    if word in ("SCL", "QA60"):
        return word
    for profile in PROFILES:
        if word in profile.aliases:
            return profile.aliases[word]
    if word == "BQA":
        return word
    found = re.fullmatch(r"(?:BAND_?|B)0*(\d{1,2})(A?)", word)
    return f"B{found[1]}{found[2]}" if found else None


# Sensors that the operator of a site adds, as JSON in this variable of the environment (see ``codings_of_text``).
OWN_VARIABLE = "RSURE_SENSOR_PROFILES"
_OWN_KEYS = {"product", "sensor", "dtypes", "scale", "offset", "unit", "nodata", "valid_range", "source", "bands"}
_MAX_OWN_BYTES = 100_000


@lru_cache(maxsize=4)
def codings_of_text(text: str) -> tuple[Coding, ...]:
    """Codings of sensors that a site adds: a JSON list of objects with ``product``, ``sensor``, ``bands`` (name in the file →
    role), ``dtypes``, ``scale``, ``offset``, ``unit`` and perhaps ``nodata``, ``valid_range`` and ``source``. ValueError with a
    sentence where it is something else: a scale that is guessed would be worse than none."""
    if not text.strip():
        return ()
    if len(text) > _MAX_OWN_BYTES:
        raise ValueError("The sensor profiles are longer than 100 kB.")
    try:
        held = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("The sensor profiles are no JSON.") from error
    if not isinstance(held, list) or not all(isinstance(row, dict) for row in held):
        raise ValueError("The sensor profiles are a list of objects.")
    return tuple(c for k, row in enumerate(held, 1) for c in _own_codings(k, row))


def _own_codings(k: int, row: dict[str, Any]) -> list[Coding]:
    unknown, bands = set(row) - _OWN_KEYS, row.get("bands")
    if unknown:
        raise ValueError(f"Sensor profile {k} has {', '.join(sorted(unknown))}, which no profile has.")
    if not isinstance(bands, dict) or not bands or not all(isinstance(n, str) and r in BAND_ROLES for n, r in bands.items()):
        raise ValueError(f"Sensor profile {k} names its bands with a role of ours each.")
    numbers = [row.get("scale", 1.0), row.get("offset", 0.0), *([row["nodata"]] if row.get("nodata") is not None else []),
               *(row.get("valid_range") or ())]
    if not all(isinstance(v, (int, float)) and not isinstance(v, bool) and math.isfinite(v) for v in numbers) or not numbers[0]:
        raise ValueError(f"Sensor profile {k}: scale (not 0), offset, nodata and valid_range are finite numbers.")
    span, dtypes = row.get("valid_range"), row.get("dtypes")
    if span is not None and (not isinstance(span, list) or len(span) != 2 or span[0] > span[1]):
        raise ValueError(f"Sensor profile {k}: valid_range is a rising pair.")
    if not isinstance(dtypes, list) or not dtypes or not all(isinstance(d, str) for d in dtypes):
        raise ValueError(f"Sensor profile {k} tells the stored types that it is of, such as uint16.")
    if not all(isinstance(row.get(t), str) and row[t] for t in ("product", "sensor", "unit")):
        raise ValueError(f"Sensor profile {k} tells product, sensor and unit.")
    return [Coding(str(row["product"])[:120], re.escape(name.strip().upper().replace(" ", "_")), tuple(dtypes),
                   float(row.get("scale", 1.0)), float(row.get("offset", 0.0)), str(row["unit"])[:40], row.get("nodata"),
                   (float(span[0]), float(span[1])) if span else None, role, sensor=str(row["sensor"])[:120],
                   source=str(row.get("source") or "the operator of this site")[:200]) for name, role in bands.items()]


def own_codings() -> tuple[Coding, ...]:
    """Of the sensors that this site adds."""
    return codings_of_text(os.environ.get(OWN_VARIABLE, ""))


def coding_of(text: str, dtype: str) -> Coding | None:
    """The coding of a band so named and stored so, or None: another type under the name is not touched. A site's own goes
    first."""
    word = text.strip().upper().replace(" ", "_")
    return next((c for c in (*own_codings(), *CODINGS) if dtype in c.dtypes and re.fullmatch(c.band, word)), None)


def bqa_scheme(high: float | None) -> str:
    """``landsat_c1`` or ``landsat_precollection`` by the greatest value of a BQA band; '' where it has none."""
    if high is None or high < 1:
        return ""
    return "landsat_c1" if high <= _BQA_COLLECTION1_MOST else "landsat_precollection"


def product_name_band(name: str) -> str | None:
    """The product's own band name that a single-band file's name ends in (``…_SR_B4.tif``, ``…_QA_PIXEL.tif``,
    ``…_sr_band4.tif``, ``….sur_refl_b01.tif``), or None."""
    # AppEEARS writes the day and the number of the order behind the band
    stem = re.sub(r"_doy\d{7}(?:\d{6})?(?:_aid\d{4,})?$", "", re.sub(r"\.[A-Za-z0-9]+$", "", name), flags=re.I)
    found = re.search(
        r"(?:^|[_\-. ])(sr_b\d{1,2}|st_b\d{1,2}|st_(?:[tud]rad|atran|emis|emsd|cdist|qa)|sr_band_?\d{1,2}"
        r"|qa_pixel|bqa|scl|qa60|sur_refl_b\d\d(?:_1)?"
        r"|lst_(?:day|night)_1km|surfreflect_[im]\d{1,2}(?:_1)?|nadir_reflectance_band\d|(?:lai|fpar|p?et|p?le|gpp|psnnet|npp)_500m"
        r"|ndsi_snow_cover|lst_1km|500_m_16_days_(?:ndvi|evi2?)"
        r"|state_1km(?:_1)?|pixel_reliability|avg_rad)(?:_\d+m)?$", stem, re.I)
    if found is None:
        word = stem.upper().replace(" ", "_")
        ends = (m for c in own_codings() if (m := re.search(rf"(?:^|[_\-.])({c.band})$", word)))
        found = next(ends, None)
    return found[1] if found else None


# How files write the units that figures here are told in; anything else stays as it is written.
_UNITS: dict[str, str] = dict.fromkeys(("m", "metre", "meter", "metres", "meters"), "m") | dict.fromkeys(
    ("k", "kelvin", "kelvins", "deg_k", "degk", "degrees_k"), "K") | dict.fromkeys(
    ("degc", "°c", "celsius", "deg_c", "degree_celsius", "degrees_celsius", "degree_c", "degrees_c", "degree celsius",
     "degrees celsius", "c"), "degC") | dict.fromkeys(("db", "decibel", "decibels"), "dB") | dict.fromkeys(
    ("%", "percent"), "%") | dict.fromkeys(("unitless", "dimensionless", "none", "-", "1"), "1") | dict.fromkeys(
    ("reflectance", "surface reflectance", "toa reflectance"), "reflectance")  # fmt: skip


def unit_of(text: str) -> str:
    """A unit as files write it, as it is called here: ``m`` for ``metres``, ``K`` for ``Kelvin``, ``degC`` for ``celsius``."""
    plain = " ".join(text.split())
    return _UNITS.get(plain.lower(), plain)[:40]


# Level 1 of Landsat 8 and 9, Collection 1 or 2, or from before the collections (LC8, path, row, day, station).
_LANDSAT_L1 = re.compile(r"(?:^|[^a-z0-9])L[CO](?:0?[89]_L1(?:TP|GT|GS)_|8\d{13}[A-Z]{3}\d{2}(?!.*sr_))", re.I)
# USGS, Landsat 8 and 9 data users handbooks, 5.2: the same for all bands and scenes, but for the sun's elevation.
LANDSAT_L1_SCALE, LANDSAT_L1_OFFSET = 2e-5, -0.1
LANDSAT_L1_UNIT = "reflectance before sun angle"
REFLECTIVE = frozenset({"coastal", "blue", "green", "red", "nir", "swir1", "swir2", "pan", "cirrus"})


_LANDSAT_OLD_L1 = re.compile(r"(?:^|[^a-z0-9])L[TE](?:0?[457]_L1(?:TP|GT|GS)_|[457]\d{13}[A-Z]{3}\d{2}(?!.*sr_))", re.I)


# Beyond the greatest reflectance, radiance in W/(m² sr µm) and temperature in K: only numbers as USGS stores them are so large.
_LEAST_STORED = 2000.0
# Quality bands that came with level 1 alone: those before the collections, and BQA of Collection 1 (level 2 had pixel_qa).
LEVEL1_CODINGS = frozenset({"landsat_precollection", "landsat_c1"})


def is_older_landsat_level1(name: str, dtype: str) -> bool:
    """Whether a file's name tells numbers of level 1 of Landsat 4, 5 or 7: each band has gains of its own, which change by scene
    and stand in its MTL file alone."""
    return dtype == "uint8" and _LANDSAT_OLD_L1.search(name) is not None


def is_landsat_level1(name: str, dtype: str, high: float | None = None) -> bool:
    """Whether a file's name tells numbers of level 1 of Landsat 8 or 9 as USGS stores them. ``high`` is the greatest value of its
    bands that measure reflected light: numbers that were written anew as floats are still those where it is beyond what
    a reflectance, a radiance or a temperature can be."""
    is_stored = dtype in ("uint16", "int16", "int32", "uint32") or (
        dtype in ("float32", "float64") and high is not None and _LEAST_STORED < high <= 65535)
    return is_stored and _LANDSAT_L1.search(name) is not None


# Wavelengths in nm that a band of a role has on any sensor; beyond them the name or the wavelength is wrong.
_SPANS_NM = {
    "coastal": (390, 470), "blue": (420, 540), "green": (490, 610), "yellow": (550, 640), "red": (590, 710),
    "rededge1": (670, 810), "rededge2": (670, 810), "rededge3": (670, 810), "nir": (720, 1100), "nir08": (780, 1100),
    "swir1": (1200, 1800), "swir2": (1900, 2500), "thermal1": (7000, 15000), "thermal2": (7000, 15000),
}  # fmt: skip


def is_of_wavelength(role: str, nm: float) -> bool:
    """Whether a band of this role can have its centre there; True for roles that have no wavelength of their own."""
    low, high = _SPANS_NM.get(role, (0, math.inf))
    return low <= nm <= high


def word_role(text: str) -> str | None:
    """The role that a description names in words, or None."""
    return WORDS.get(" ".join(text.strip().lower().replace("_", " ").split())) or WORDS.get(text.strip().lower())


def told_profile(name: str, tags: Sequence[str]) -> Profile | None:
    """The sensor that a file's tags or its name tell; None where they tell none or more than one."""
    text = " ".join(tags).lower()
    by_tag = [p for p in PROFILES if any(w in text for w in p.tag_words)]
    if len(by_tag) == 1:
        return by_tag[0]
    by_name = [p for p in PROFILES if re.search(p.name_pattern, name, re.I)]
    return by_name[0] if len(by_name) == 1 and not by_tag else None


def profile_of(names: Sequence[str | None], told: Profile | None, written: Sequence[str] = ()) -> Profile | None:
    """The profile that a file's band names belong to: the told one where they fit it, else the one with a
    name that no other profile has. None where the names could be of several sensors: nobody guesses.
    ``written`` are the names as the file writes them: those of Collection 2 tell the family by their prefix."""
    held = {n for n in names if n}
    if not held:
        return None
    by_prefix = {
        profile.key: profile
        for pattern, profile in _COLLECTION2
        if any(pattern.fullmatch(w.strip().upper().replace(" ", "_")) for w in written)
    }
    if len(by_prefix) > 1:
        return None
    if told is None and by_prefix:
        (family,) = by_prefix.values()
        return family if held <= set(family.bands) else None
    if told is not None:
        return told if held <= set(told.bands) else None
    fits = [p for p in PROFILES if held <= set(p.bands) and held & p.exclusive]
    return fits[0] if len(fits) == 1 else None


def name_band(name: str) -> str | None:
    """The band that the name of a single-band file ends in, perhaps with its resolution: ``…_B4.tif``, ``…_band4``,
    ``…_sr_band4``, ``…_B04_10m.jp2``, ``…_BQA``."""
    stem = re.sub(r"\.[A-Za-z0-9]+$", "", name)
    found = re.search(r"(?:^|[_\-. ])((?:sr_|st_)?(?:band_?|b)\d{1,2}a?(?:_vcid_[12])?|bqa|qa_pixel|scl|qa60)(?:_\d{2,3}m)?$",
                      stem, re.I)
    return band_name(found[1]) if found else None


def index_in_name(name: str) -> str | None:
    """``ndvi`` or ``evi`` where a name has that word, and not as letters of another one (Seville, previous)."""
    found = re.search(r"(?<![a-z])(ndvi|evi)(?![a-z])", name, re.I)
    return found[1].lower() if found else None


_S2_PRODUCT = re.compile(rf"(?:^|[^a-z0-9])(?:s2[abc]_msil[12][ac]_\d{{8}}t\d{{6}}|{_S2_BAND_FILE})", re.I)


def is_sentinel2_product(name: str) -> bool:
    """Whether a file is named as ESA names its products of Sentinel-2 or their bands' files."""
    return _S2_PRODUCT.search(name) is not None


def sentinel2_baseline(name: str, tags: Mapping[str, str]) -> float | None:
    """Processing baseline of a Sentinel-2 product (5.0 for ``N0500``), by its metadata or its name; None where neither tells."""
    told = next((v for k, v in tags.items() if k.upper() == "PROCESSING_BASELINE"), "")
    found = re.fullmatch(r"0*(\d{1,2}\.\d{1,2})", told.strip()) or re.search(r"(?:^|_)N(\d{2})(\d{2})(?=_|\.|$)", name)
    if found is None:
        return None
    number = float(found[1] if found.lastindex == 1 else f"{found[1]}.{found[2]}")
    return number if number < 10 else None  # 99.99 is a test's, and N4530 a place


def mod13_role(name: str, dtype: str, n_bands: int) -> str | None:
    """``ndvi`` or ``evi`` where a name tells a single-band int16 MODIS vegetation index, else None."""
    found = _MOD13.search(name)
    return found[1].lower() if found and dtype == "int16" and n_bands == 1 else None
