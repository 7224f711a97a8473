"""Questions that name an analysis: a grid or CRS for a figure, the shift between two images, Moran's I and hot spots, classes and
their transitions, terrain, anomalies, burn severity, composites, pan-sharpening, principal components, an image's quality, text
in it, change by a model, what is missing from a series.

A question is read only where the whole of it is one of these phrases, once dates, images by name, a region and "without clouds"
were taken out; every other one goes to the parser of measurements. What an analysis then lacks is said, never replaced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from apps.agent.dates import DateSpan
from apps.agent.planner.lexicon import lexicon
from apps.agent.planner.physical_words import COEFFICIENTS, PRODUCTS
from apps.agent.planner.stated import IN_REGION, clear_said, dates_said, scenes_named
from apps.agent.planner.text import Text
from apps.agent.units import UNIT_PATTERN, unit_of
from apps.core.evidence.plan import Question

_NUMBER = r"\d+(?:\.\d+)?"
_STATISTICS = {
    "mean": r"mean|average",
    "median": r"median",
    "min": r"minimum|lowest|least|smallest",
    "max": r"maximum|highest|largest|greatest",
    "std": r"standard deviation",
}
_STAT = "|".join(_STATISTICS.values())
_IMAGE = r"(?:image|scene|picture|photo|raster|tile)"
_IMAGES = r"(?:the |these |those |both )*(?:two )?(?:images|scenes|pictures|photos|dates|acquisitions|rasters)"
_ASK = (
    r"(?:please )?(?:(?:what(?:'s| is| are| was| were)|give(?: me)?|tell(?: me)?|compute|calculate|find|determine|report|"
    r"show(?: me)?|map|make|draw|list|estimate|measure|get) )?(?:me )?(?:the |an? )?"
)
_HERE = (
    rf"(?:,? (?:in|of|on|for|from|over|across|within) (?:the |this |my |our )?(?:whole |entire )?(?:{_IMAGE}|area|map|terrain|"
    rf"dem|elevation model|height model|landscape|study area|{_IMAGES}|time series|series)| here| please)*"
)
_CRS = re.compile(
    r"\b(?:re-?projected |re-?project )?(?:in|to|into|onto|on)(?: the)?(?: crs| projection)? (?:(?P<epsg>epsg[: ]*\d{4,6})|"
    r"(?P<mercator>web mercator)|(?P<wgs>wgs ?84|lat(?:itude)?[/ -]lon(?:gitude)?)|utm(?: zone)? (?P<utm>\d{1,2}) ?(?P<half>[ns])"
    r"(?:orth|outh)?)\b(?: projection)?"
)
_GRID = re.compile(
    rf"\b(?:at|to|on|in|into|with|using)(?: a)?(?: (?:grid|resolution|pixel size|gsd|pixels|cells)(?: of)?)? (?P<res>{_NUMBER}) ?"
    r"(?P<unit>km|m|kilomet(?:re|er)s?|met(?:re|er)s?)(?![\w²^/])"
    r"(?P<noun>[ -](?:resolution|pixels?(?: size)?|grid|gsd|per pixel|cells?(?: size)?|spacing))?"
)
_HOW = (
    r"(?:,? (?:by|with|using|through) (?P<how>nearest(?:[- ]neighbou?r)?|bilinear|averaging|average)"
    r"(?: interpolation| resampling)?)?"
)
_OTHERS = (
    r"(?:,? (?:against|relative to|compared (?:with|to)|from|to|of) (?:all )?(?:the )?(?:other dates|others|other images|"
    r"rest(?: of the (?:time )?series)?|(?:time )?series(?: mean)?|long[- ]term mean|mean of the (?:other dates|others)))?"
)
# Where a catalogue is kept, as it is called: what asset.catalog calls it.
SOURCES_SAID = {
    r"project": "project", r"stac folder|catalog(?:ue)? folder|stac catalog(?:ue)?": "folder",
    r"stac api|api|online catalog(?:ue)?": "api", r"catalog(?:ue)?|stac|archive": "all",
}  # fmt: skip
_SENSOR = r"sentinel[- ]?[123][ab]?|landsat(?:[- ]?[4-9])?|modis|viirs|aster|planetscope"
_LEVEL = r"l1c|l1tp|l1gt|l2a|l2sp|l2sr|l3|grd|slc|1c|2a"
_PHRASES = Path(__file__).with_name("analyses.txt")


@dataclass(frozen=True, slots=True)
class Asked:
    """An analysis as the words ask for it. ``fields`` are the groups of its phrase; ``statistic`` '' where none was said."""

    kind: str
    quantity: str = ""
    statistic: str = ""
    fields: Mapping[str, str] = field(default_factory=dict)
    spans: tuple[DateSpan, ...] = ()
    is_period: bool = False
    scenes: tuple[str, ...] = ()
    clear: Literal["", "clear", "clear_cirrus"] = ""
    region: bool = False
    crs: str = ""
    resolution_m: float | None = None

    @property
    def is_clear(self) -> bool:
        """Whether pixels that a quality band flags are left out."""
        return self.clear != ""

    @property
    def is_plain_temperature(self) -> bool:
        """Whether a temperature is asked for as any band is: no unit, condition, method or number beside it."""
        said = self.get("phys")
        is_bare = not any(self.get(k) for k in ("temp", "temp2", "cond", "how", "given", "warm"))
        return (
            self.kind == "physical"
            and is_bare
            and re.fullmatch(r"(?:land )?surface temperature|temperature|lst", said) is not None
        )

    def get(self, key: str) -> str:
        return self.fields.get(key) or ""


@lru_cache(maxsize=1)
def _quantities() -> dict[str, str]:
    """word → index or band; longest words first."""
    words = lexicon()
    pairs = [(w, n) for n, e in words.indices.items() for w in e.words]
    pairs += [(w, n) for n, b in words.bands.items() for w in b.words]
    pairs += [(w, n) for w, n in (("red", "red"), ("green", "green"), ("blue", "blue")) if (w, n) not in pairs]
    return dict(sorted(pairs, key=lambda p: (-len(p[0]), p[0])))


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """(kind, whole phrase) in the order in which they are tried."""
    q = "|".join(re.escape(w) for w in _quantities())
    named = rf"(?:the )?(?P<q>{q})(?:'s)?(?: band| index| values?| raster| map)?"
    measured = rf"(?: \(?(?:expressed |given |measured )?in (?P<unit>{UNIT_PATTERN}|pixels?|px|degrees?)\)?)?"
    pieces = {
        "ask": _ASK, "here": _HERE, "image": _IMAGE, "images": _IMAGES, "how": _HOW, "stat": _STAT, "number": _NUMBER,
        "q": q, "unit": UNIT_PATTERN, "named": named, "again": rf"(?:the )?(?P<q2>{q})(?: band| values?)?",
        "figure": rf"(?:(?P<stat>{_STAT}) (?:value )?(?:of )?)?{named}",
        "part": r"(?P<part>share|fraction|proportion|percentage|area|how much (?P<much>area|land|ground|surface)|how much|"
        rf"how many (?P<many>{UNIT_PATTERN}))",
        "in_unit": measured, "in_unit2": measured.replace("<unit>", "<unit2>"), "others": _OTHERS,
        "each_other": r"(?:,? (?:against|to|from|relative to|with respect to|with|onto|on) (?:each other|one another))?",
        "laid": r"(?:shifted|misaligned|mis-?registered|displaced|offset|apart|off)",
        "register": rf"(?:(?:co-?)?registration|(?:co-?)?registering|alignment|aligning)(?: of)?(?: {_IMAGES}| them)?",
        "land": r"(?:(?:land[- ]?cover|land[- ]?use|class map) )?",
        "terrain": r"(?:terrain|ground|land|slopes|surface|relief|area|landscape|hills?|mountains?)",
        "product": rf"(?:(?P<sensor>{_SENSOR}) )?(?:level[- ])?(?:(?P<level>{_LEVEL}) )?",
        "source": rf"(?: (?:in|from|of) (?:the |this |my |our )?(?P<source>{'|'.join(SOURCES_SAID)}))?",
        **_physical_pieces(q),
        "target": f"(?P<target>{_any_of(w for e in lexicon().targets.values() for w in e.words)})",
        "object": f"(?P<object>{_any_of(w for o in lexicon().objects.values() for w in o.words)})",
        "colours": "viridis|magma|gray|rdbu|ylgn|terrain",
        "wind": r"(?P<wind>north-?east|north-?west|south-?east|south-?west|north|south|east|west)(?:wards?|ern)?",
    }  # fmt: skip
    rows = (line.split("\t") for line in _PHRASES.read_text(encoding="utf-8").splitlines() if line and line[0] != "#")
    return tuple((kind, re.compile(re.sub(r"\{(\w+)\}", lambda m: pieces[m[1]], phrase))) for kind, phrase in rows)


def _any_of(words: Iterable[str]) -> str:
    """One of some words, the longest first."""
    return "|".join(re.escape(w) for w in sorted(words, key=lambda w: (-len(w), w)))


def _physical_pieces(q: str) -> dict[str, str]:
    """Pieces of phrases of physical quantities and formulas. ``q``: words of indices and bands."""
    warm = r"kelvins?|k|(?:degrees? |deg\.? ?|° ?)?(?:celsius|centigrade|c)"
    coefficient = "|".join(COEFFICIENTS)
    number = r"-?\d+(?:\.\d+)?(?:e-?\d+)?"
    signs = r">=|<=|>|<|above|over|greater than|more than|at least|below|under|less than|at most"
    names = sorted((w for w in _quantities() if re.fullmatch(r"[a-z][a-z0-9_]*", w)), key=len, reverse=True)
    part = (
        rf"(?:(?<![\w.])(?:{'|'.join(names)}|abs|sqrt|exp|log10|log|min|max)(?![\w.])|(?<![\w.])\d+(?:\.\d+)?(?![\w.])|"
        r"[-+*/^(),×·÷ ])"
    )
    return {
        "phys": f"(?P<phys>{'|'.join(PRODUCTS)})",
        "in_warm": rf"(?:,? \(?(?:expressed |given |measured )?in (?:the )?(?P<temp>{warm})\)?)?",
        "in_warm2": rf"(?:,? \(?(?:expressed |given |measured )?in (?:the )?(?P<temp2>{warm})\)?)?",
        "by": r"(?:,? (?:by|with|using|from) (?:the |a )?(?P<how>split[- ]window|single[- ]channel)(?: method| algorithm)?)?",
        "when": r"(?:,? (?:where|of (?:the )?(?:pixels|area|land|ground) (?:with|where)|over pixels (?:with|where)) (?:the )?"
        rf"(?P<cond>{q})(?: band| index)?"
        rf"(?: is| values?| are)? ?(?:(?P<condop>{signs}) ?(?P<condval>{number})|"
        rf"between (?P<condlow>{number}) and (?P<condhigh>{number})))?",
        "given": rf"(?P<given>(?:,? ?(?:and |with |using |given |for |at )*(?:an? |the )?(?:{coefficient})"
        rf"(?: of| =| is|:)? ?{number}"
        r"(?: (?:g/cm2|g/cm²|g/cm\^2|k|kelvins?))?)*)",
        "limited": rf"(?P<limop>{signs}) ?",
        "limit": rf"(?P<limit>{number}) ?(?P<limunit>{warm})?",
        "formula": rf"(?P<formula>(?=[^=<>]*[-+*/^(×·÷]){part}+)",
        "one": rf"(?:the )?(?P<one>{q})(?: band)?",
        "two": rf"(?:the )?(?P<two>{q})(?: band)?",
        "rises": r"(?P<way>ris(?:es|ing)|increas(?:es|ing)|grow(?:s|ing)|fall(?:s|ing)|decreas(?:es|ing)|declin(?:es|ing))",
        "rising": r"(?P<way>rising|increasing|growing|falling|decreasing|declining)",
        "rising_noun": r"(?P<noun>rise|increase|growth|fall|decrease|decline)",
        "rise": r"(?P<way>ris(?:e|es|ing|en)|rose|increas(?:e|es|ing|ed)|grow(?:s|ing)?|grew|positive|upward|"
        r"fall(?:s|ing|en)?|fell|decreas(?:e|es|ing|ed)|declin(?:e|es|ing|ed)|negative|downward|drop(?:s|ping|ped)?)",
    }


# Beside "at 60 m" these mean heights above the ground as well as pixels.
_HEIGHT_LIKE = frozenset({"lst", "elevation", "radiance", "gray"})


def quantity_said(word: str) -> str:
    """The index or band that a word of a phrase names."""
    return _quantities()[word]


def read_analysis(question: Question) -> Asked | None:
    """The analysis that a question asks for, or None where it is about something else."""
    # "the share of clear pixels" is asked for, not left out of something
    return _read(question, is_of_sky=True) or _read(question, is_of_sky=False)


def _read(question: Question, *, is_of_sky: bool) -> Asked | None:
    t = Text(question.text)
    crs = _crs_said(t)
    if crs is None:
        return None
    grid = _GRID.search(t.rest)
    resolution = None
    if grid is not None:
        t.mark(*grid.span())
        resolution = float(grid["res"]) * (1000 if grid["unit"].startswith("k") else 1)
    scenes = scenes_named(t, question)
    clear: Literal["", "clear", "clear_cirrus"] = "" if is_of_sky else clear_said(t)
    spans, is_period = dates_said(t)
    region = t.take(IN_REGION) is not None or t.take(
        r"\b(?:in|within|inside|of|for|over) (?:the |this |my )?(?:selected|drawn|marked|given) "
        r"(?:region|area|polygon|rectangle|box)\b"
    ) is not None  # fmt: skip
    text = re.sub(r"[\0\s]+", " ", t.rest)
    text = re.sub(r"\s+([,.?!])", r"\1", text).strip(" ,.?!:;")
    for kind, pattern in _patterns():
        if (kind == "regrid") != bool(crs or resolution) or (kind == "sky") != is_of_sky:
            continue
        m = pattern.fullmatch(text)
        if m is None:
            continue
        groups = {k: v for k, v in m.groupdict().items() if v}
        names = {_quantities()[groups[k]] for k in ("q", "q2", "q3") if k in groups}
        if len(names) > 1:
            return None
        quantity = names.pop() if names else ""
        is_plain_at = grid is not None and not (grid["noun"] or groups.get("make") or "resampl" in text)
        if kind == "regrid" and is_plain_at and quantity in _HEIGHT_LIKE:
            return None
        stat = groups.get("stat", "")
        statistic = next((n for n, words in _STATISTICS.items() if re.fullmatch(words, stat)), "")
        if "model" in groups:
            said = re.search(re.escape(groups["model"]), question.text, re.IGNORECASE)
            groups["model"] = said[0].rstrip(".") if said else groups["model"]
        for key in ("many", "unit", "unit2"):
            if key in groups:
                groups["in"] = _unit(groups[key])
        return Asked(kind, quantity, statistic, groups, tuple(spans), is_period, tuple(scenes), clear, region, crs, resolution)
    return None


def _unit(text: str) -> str:
    if re.fullmatch(r"pixels?|px", text):
        return "px"
    return "deg" if text.startswith("degree") else unit_of(text) or ""


def _crs_said(t: Text) -> str | None:
    """The CRS that the words name, taken out; '' where none is named, None where it is none that exists."""
    m = _CRS.search(t.rest)
    if m is None:
        return ""
    t.mark(*m.span())
    if m["epsg"]:
        return "EPSG:" + re.sub(r"\D", "", m["epsg"])
    if m["mercator"]:
        return "EPSG:3857"
    if m["wgs"]:
        return "EPSG:4326"
    zone = int(m["utm"])
    return f"EPSG:{(32600 if m['half'] == 'n' else 32700) + zone}" if 1 <= zone <= 60 else None
