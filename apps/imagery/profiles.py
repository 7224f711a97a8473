"""What sensors call their bands, and how their products code values: data for ``inspect``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field


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


SENTINEL2 = Profile(
    "sentinel2",
    "Sentinel-2 MSI",
    {
        "B1": ("coastal", 443), "B2": ("blue", 490), "B3": ("green", 560), "B4": ("red", 665),
        "B5": ("rededge1", 705), "B6": ("rededge2", 740), "B7": ("rededge3", 783), "B8": ("nir", 842),
        "B8A": ("nir08", 865), "B9": ("watervapour", 945), "B10": ("cirrus", 1375), "B11": ("swir1", 1610),
        "B12": ("swir2", 2190),
    },
    exclusive=frozenset({"B8A", "B12"}),
    tag_words=("sentinel-2", "sentinel2", "s2a_", "s2b_", "s2c_"),
    name_pattern=r"(?:^|[^a-z0-9])(?:s2[abc]?[_-]|sentinel.?2)",
)  # fmt: skip
LANDSAT7 = Profile(
    "landsat7",
    "Landsat 7 ETM+",
    {
        "B1": ("blue", 483), "B2": ("green", 560), "B3": ("red", 662), "B4": ("nir", 835), "B5": ("swir1", 1648),
        "B7": ("swir2", 2206), "B61": ("thermal1", 11450), "B62": ("thermal2", 11450), "B8": ("pan", 720),
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
        "B6": ("thermal1", 11435), "B7": ("swir2", 2223),
    },
    tag_words=("landsat_5", "landsat 5", "landsat5"),
    name_pattern=r"(?:^|[^a-z0-9])(?:lt0?5|landsat.?5|l5[_-])",
)  # fmt: skip
LANDSAT8 = Profile(
    "landsat8",
    "Landsat 8/9 OLI-TIRS",
    {
        "B1": ("coastal", 443), "B2": ("blue", 482), "B3": ("green", 561), "B4": ("red", 655), "B5": ("nir", 865),
        "B6": ("swir1", 1609), "B7": ("swir2", 2201), "B8": ("pan", 590), "B9": ("cirrus", 1373),
        "B10": ("thermal1", 10895), "B11": ("thermal2", 12005), "BQA": ("qa", None),
    },
    exclusive=frozenset({"BQA"}),
    tag_words=("landsat_8", "landsat 8", "landsat8", "landsat_9", "landsat 9", "landsat9", "oli_tirs"),
    name_pattern=r"(?:^|[^a-z0-9])(?:lc0?[89]|landsat.?[89]|l[89](?![a-z0-9]))",
    aliases={"QA_PIXEL": "BQA", "QA": "BQA", "ST_B10": "B10"},
)  # fmt: skip
PROFILES = (SENTINEL2, LANDSAT7, LANDSAT5, LANDSAT8)

# MOD13Q1/MYD13Q1 version 6 user guide, table 2: stored int16, valid range −2000 to 10000, scale 0.0001, fill
# −3000.
MOD13_RANGE = (-2000.0, 10000.0)
MOD13_SCALE = 1e-4
MOD13_SENSOR = "MODIS MOD13/MYD13"
_MOD13 = re.compile(r"(?:m[oy]d13|modis).*?(ndvi|evi)", re.I)

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
    for profile in PROFILES:
        if word in profile.aliases:
            return profile.aliases[word]
    if word == "BQA":
        return word
    found = re.fullmatch(r"(?:BAND_?|B)0*(\d{1,2})(A?)", word)
    return f"B{found[1]}{found[2]}" if found else None


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


def profile_of(names: Sequence[str | None], told: Profile | None) -> Profile | None:
    """The profile that a file's band names belong to: the told one where they fit it, else the one with a
    name that no other profile has. None where the names could be of several sensors: nobody guesses."""
    held = {n for n in names if n}
    if not held:
        return None
    if told is not None:
        return told if held <= set(told.bands) else None
    fits = [p for p in PROFILES if held <= set(p.bands) and held & p.exclusive]
    return fits[0] if len(fits) == 1 else None


def name_band(name: str) -> str | None:
    """The band that the name of a single-band file ends in: ``…_B4.tif``, ``…_band4``, ``…_sr_band4``,
    ``…_BQA``."""
    stem = re.sub(r"\.[A-Za-z0-9]+$", "", name)
    found = re.search(r"(?:^|[_\-. ])((?:sr_|st_)?(?:band_?|b)\d{1,2}a?(?:_vcid_[12])?|bqa|qa_pixel)$", stem, re.I)
    return band_name(found[1]) if found else None


def mod13_role(name: str, dtype: str, n_bands: int) -> str | None:
    """``ndvi`` or ``evi`` where a name tells a single-band int16 MODIS vegetation index, else None."""
    found = _MOD13.search(name)
    return found[1].lower() if found and dtype == "int16" and n_bands == 1 else None
