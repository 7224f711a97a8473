"""Reading of names and numbers in records: quantities, dates, classes, failure texts. Pure functions over strings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

NUMBER = re.compile(r"(?<![A-Za-z_\d.])[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
DATE = re.compile(r"(?<!\d)((?:19|20)\d\d)[-_]?(0[1-9]|1[0-2])[-_]?(0[1-9]|[12]\d|3[01])(?!\d{3})(?:[_-](\d{4})(?!\d))?")
YEAR = re.compile(r"(?<!\d)((?:19|20)\d\d)(?!\d)")
FILE = re.compile(r"\.(tiff?|png|jpe?g|csv|npy|json|nc|jp2|geojson)\b", re.I)
SAVED = re.compile(r"saved? (?:at|to) ([^\"'\n]+)", re.I)
_FAILURE = re.compile(
    r"failed to (call|load|run|open|read)|could not|unable to|not available|no such file|traceback|timed? ?out"
    r"|connection (refused|error)|internal server|\berror\b|exception",
    re.I,
)
_NOT_FINITE = re.compile(r"(?<![a-z])(nan|inf|infinity)(?![a-z])", re.I)
_EMPTY = frozenset({"", "[]", "None", "null", "{}", '""'})
_MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december",
)  # fmt: skip
_MONTH_DATE = re.compile(rf"({'|'.join(_MONTHS)})\s+(\d{{1,2}})?,?\s*((?:19|20)\d\d)")
# File names recur from call to call; what was read of one is kept.
REMEMBERED = 1 << 15
# Longest outputs are lists of file names; what lies beyond is not read.
MAX_TEXT = 60_000
MAX_NUMBERS = 4000

# What a word in a file's or a tool's name says of the quantity in it; the first that matches counts.
_QUANTITIES: tuple[tuple[str, str], ...] = (
    (r"tvdi", "tvdi"), (r"ndvi|evi", "ndvi"), (r"ndwi", "ndwi"), (r"ndsi", "ndsi"), (r"ndti", "ndti"), (r"ndbi", "ndbi"),
    (r"nbr", "nbr"), (r"fvc", "fvc"), (r"turbidity|ntu", "turbidity"),
    (r"lst|split_window|ttm|temperature_emissivity|(?<![a-z])tes(?![a-z])|multi_channel|single_channel", "lst"),
    (r"(?<![a-z])ati(?![a-z])", "ati"), (r"band_ratio|pwv", "pwv"), (r"emis", "emis"), (r"frp|fire", "frp"),
    (r"avg_rad", "light"), (r"built_volume", "built"), (r"snow", "snow"), (r"qa_pixel", "qa"), (r"cloud", "cloud"),
    (r"sur_refl|reflectance", "refl"), (r"bt_|bt10", "bt"),
)  # fmt: skip
_QUANTITY = tuple((re.compile(pattern), name) for pattern, name in _QUANTITIES)
INDICES = frozenset({"ndvi", "ndwi", "ndsi", "ndti", "ndbi", "nbr", "fvc", "tvdi"})

# Kinds of native tools by their names; the first that matches counts.
_KINDS: tuple[tuple[str, str], ...] = (
    ("catalog", r"^get_file_?list|^get_list_object"),
    ("detector", r"sm3det|instructsam|remotesam|strip_r_cnn|sam2|yolo|detect_objects"),
    ("classifier", r"mscn|remoteclip|classif"),
    ("changes", r"changeos"),
    ("product", (r"lst_|split_window|ttm_|band_ratio|^ati$|compute_tvdi|modis_day|temperature_em|turbidity|calculate_batch_n[db]"
                r"|calculate_batch_[ef]|calculate_nd|calculate_nbr|radiometric|multi_freq")),
    ("raster", (r"apply_cloud|tif_average|tif_difference|^subtract$|hotspot_tif|threshold_segmentation|fire_prone|fire_increase"
               r"|getis|grayscale")),
    ("share", (r"threshold_ratio|hotspot_percentage|intersection_percentage|ratio_exceeding|mean_threshold|snow_loss"
              r"|images_exceeding")),
    ("count", r"count_|fire_pixels"),
    ("area", r"calculate_area|bbox_area"),
    ("trend", r"trend|mann_kendall|sens_slope|change_points|stl|autocorr|seasonality"),
    ("image_statistic", r"calc_batch_image|percentile|lst_by_ndvi|band_mean_by|threshold_value_mean|division_mean|batch_image"),
    ("arithmetic", (r"percentage_change|difference|division|multiply|kelvin|celsius|ceil|^add$|^mean$|coefficient|kurtosis"
                   r"|skewness|max_value|min_value")),
    ("geometry", r"bboxes2|centroid|hotspot_direction"),
)  # fmt: skip
_KIND = tuple((name, re.compile(pattern)) for name, pattern in _KINDS)
KINDS = (*(name for name, _ in _KINDS), "other")
PROTOCOL_TOOL = {
    "detector": "perceive", "classifier": "perceive", "changes": "perceive", "area": "measure", "count": "measure",
    "geometry": "measure",
}  # fmt: skip


@lru_cache(maxsize=REMEMBERED)
def kind_of(tool: str) -> str:
    """The kind of a native tool by its name, ``other`` where nothing in it is known."""
    low = tool.lower()
    return next((name for name, pattern in _KIND if pattern.search(low)), "other")


@lru_cache(maxsize=REMEMBERED)
def quantity_of(name: str) -> str | None:
    """The quantity that a file's or a tool's name speaks of, or None."""
    low = name.lower()
    return next((quantity for pattern, quantity in _QUANTITY if pattern.search(low)), None)


def numbers_in(text: str) -> list[float]:
    """Numbers of a text in order, thousands separators taken out; at most MAX_NUMBERS."""
    out: list[float] = []
    for match in NUMBER.finditer(text[:MAX_TEXT]):
        try:
            out.append(float(match.group().replace(",", "")))
        except ValueError:
            continue
        if len(out) >= MAX_NUMBERS:
            break
    return out


def leaves(value: Any) -> Iterator[Any]:
    """The scalars of nested lists and maps, in order."""
    if isinstance(value, dict):
        for part in value.values():
            yield from leaves(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from leaves(part)
    else:
        yield value


def base_name(path: object) -> str:
    return str(path).replace("\\", "/").rstrip("/").rsplit("/", 1)[-1]


@lru_cache(maxsize=REMEMBERED)
def stem_of(path: str) -> str:
    """The file name with dates, years and extensions taken out: files of one series share it."""
    name = re.sub(r"\.[A-Za-z]+$", "", base_name(path)).replace(".tif", "")
    return YEAR.sub("#", DATE.sub("#", name)).lower()


@lru_cache(maxsize=REMEMBERED)
def dates_of(path: str) -> tuple[str, ...]:
    """Dates in a file name, as YYYYMMDD."""
    return tuple("".join(m.group(1, 2, 3)) for m in DATE.finditer(base_name(path)))


@lru_cache(maxsize=REMEMBERED)
def year_of(path: str) -> str:
    """The year of a file name's first date, or the first year in it, or ''."""
    dated = dates_of(path)
    return dated[0][:4] if dated else next(iter(YEAR.findall(base_name(path))), "")


def month_of(path: str) -> str:
    """YYYYMM of a file name's first date, or ''."""
    dated = dates_of(path)
    return dated[0][:6] if dated else ""


def dates_asked(question: str) -> frozenset[str]:
    """Dates that the question's words name, as YYYYMMDD or YYYYMM."""
    found = {
        m.group(3) + f"{_MONTHS.index(m.group(1)) + 1:02d}" + (f"{int(m.group(2)):02d}" if m.group(2) else "")
        for m in _MONTH_DATE.finditer(question.lower())
    }
    return frozenset(found | {"".join(m.group(1, 2, 3)) for m in DATE.finditer(question)})


def is_silent_failure(text: str) -> bool:
    """Whether an output that came with a success says that nothing was observed."""
    stripped = text.strip()
    return stripped in _EMPTY or (len(stripped) < 300 and bool(_FAILURE.search(stripped)))


def is_not_finite(text: str) -> bool:
    return bool(_NOT_FINITE.search(text[:20_000]))


def class_in(text: str) -> tuple[str, float | None, list[float]] | None:
    """(class in lower-case letters, confidence, five highest probabilities) of a classifier's output; None for others."""
    found = re.search(r"predicted_class'?\"?: *['\"]([^'\"]+)", text)
    if not found:
        return None
    confidence = re.search(r"confidence'?\"?: *([\d.eE-]+)", text)
    top = [float(x) for x in re.findall(r"(?:probability'?\"?: *|', )([\d.]+(?:[eE]-?\d+)?)", text)][:5]
    try:
        level = float(confidence.group(1)) if confidence else None
    except ValueError:
        level = None
    return re.sub(r"[^a-z]", "", found.group(1).lower()), level, top


_TASK_TYPES: tuple[tuple[str, str], ...] = (
    ("trend_analysis", r"\btrend|slope|mann.?kendall|rate of change|per year"),
    ("zonal_comparison", r"percentage|proportion|\bratio\b|\bshare\b|percent"),
    ("change_detection", r"building.*(change|decreas|increas|damag)|post-event|pre-event|before and after"),
    ("object_counting", r"how many (?!days|images)|number of (?!days|images|dates)|\brank\b"),
    ("scene_classification", r"classification tool|captured in|scene"),
    ("object_localization", r"centroid|coordinates of|bounding box"),
    ("time_property", r"how many days|number of days|which (month|date|day|year)|identify the (month|date|day|year)"),
    ("area_measurement", r"\barea of|total area|square met|m²|km²|gsd"),
    ("zonal_comparison", r"difference|compare|higher|change"),
)  # fmt: skip
_TASK_TYPE = tuple((name, re.compile(pattern, re.I)) for name, pattern in _TASK_TYPES)


@lru_cache(maxsize=REMEMBERED)
def task_type_of(question: str) -> str:
    """A task type of PROTOCOL.md section 7 by the question's words; ``index_statistic`` where none speaks."""
    return next((name for name, pattern in _TASK_TYPE if pattern.search(question)), "index_statistic")
