"""What the question's words fix: index, threshold, statistic, metric, unit, dates. Read here apart from the planner.

Everything here is conservative: what is not said plainly is not claimed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date
from functools import lru_cache

from apps.verification.formulas import INDICES

# What a class holds beside other kinds, by words for things in the singular: who asks for one of them is served by the class.
KINDS: dict[str, frozenset[str]] = {
    name: frozenset(kinds.split(", "))
    for name, kinds in {
        "vehicle": "car, automobile, truck, lorry, bus, van, pickup, trailer, taxi, coach, minibus, caravan, motorcycle, "
        "tractor, small vehicle, large vehicle, motor vehicle, road vehicle",
        "plane": "airplane, aeroplane, aircraft, jet, airliner, fighter, bomber, military aircraft, propeller plane",
        "ship": "boat, fishing boat, vessel, watercraft, yacht, ferry, tanker, warship, barge, cargo ship, sailing boat",
        "plant": "tree, crown, shrub, bush, palm, crop, hedge, tree crown, palm tree, fruit tree",
        "tree": "crown, palm, tree crown, palm tree, fruit tree, olive tree",
        "building": "house, roof, hangar, warehouse, shed, factory, greenhouse, church",
        "storage tank": "tank, silo, oil tank, gas tank",
    }.items()
}
# other names of these classes
_CLASS_NAMES = {
    "motor vehicle": "vehicle", "road vehicle": "vehicle", "airplane": "plane", "aeroplane": "plane", "aircraft": "plane",
    "boat": "ship", "vessel": "ship", "vegetation": "plant", "tank": "storage tank",
}  # fmt: skip


def singular(name: str) -> str:
    """A thing's name with its last word in the singular: lorries, buses, palm trees."""
    before, _, last = name.rpartition(" ")
    for ending, one in (("ies", "y"), ("uses", "us"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x")):
        if last.endswith(ending) and len(last) > len(ending):
            last = last.removesuffix(ending) + one
            break
    else:
        last = last[:-1] if last.endswith("s") and not last.endswith(("ss", "us")) and len(last) > 3 else last
    return f"{before} {last}".strip()


def is_kind_of(word: str, name: str) -> bool:
    """Whether a word for things is that of a kind that the class holds: a car is a vehicle; a vehicle need be no car."""
    called = singular(name)
    held = KINDS.get(_CLASS_NAMES.get(called, called), frozenset())
    return singular(word) in held


_NUMBER = r"[-−+]?\d+(?:[.,]\d+)?"
_ABOVE = (
    r"above|over|greater than|larger than|more than|higher than|exceeds?|exceeding|at least|bigger than|>=|≥|>|"
    r"not less than|no less than"
)
_BELOW = r"below|under|less than|smaller than|lower than|fewer than|at most|<=|≤|<|no more than|not more than"
_THRESHOLD = re.compile(
    rf"(?P<op>(?<!\w)(?:{_ABOVE}|{_BELOW}))\s*(?:of\s+|than\s+|or equal to\s+)?(?P<number>{_NUMBER})"
    r"(?P<unit>\s*(?:%|percent|per cent|°c|degrees|[a-zµ]+[²2]?))?"
)
_UNITS = {
    "ha": "ha",
    "hectare": "ha",
    "hectares": "ha",
    "km2": "km2",
    "km²": "km2",
    "m2": "m2",
    "m²": "m2",
    "acre": "acre",
    "acres": "acre",
    "km": "km",
    "kilometre": "km",
    "kilometres": "km",
    "kilometer": "km",
    "kilometers": "km",
    "m": "m",
    "metre": "m",
    "metres": "m",
    "meter": "m",
    "meters": "m",
    "ft": "ft",
    "feet": "ft",
    "foot": "ft",
    "mi": "mi",
    "mile": "mi",
    "miles": "mi",
    "%": "%",
    "percent": "%",
    "per cent": "%",
    "k": "K",
    "kelvin": "K",
    "celsius": "degC",
    "°c": "degC",
    "degrees": "deg",
    "db": "dB",
    "sqkm": "km2",
    "px": "px",
    "pixels": "px",
}
_AREA_WORDS = re.compile(r"square (kilomet(?:re|er)s?|met(?:re|er)s?|miles?|feet)")
_AREA_UNITS = {"k": "km2", "m": "m2"}
_STATISTICS = {
    "mean": r"\b(mean|average|averaged)\b",
    "median": r"\bmedian\b",
    "min": r"\b(minimum|lowest|smallest|least)\b",
    "max": r"\b(maximum|highest|largest|greatest|peak)\b",
    "std": r"\b(standard deviation|std)\b",
}
_MONTHS = {
    m: i + 1
    for i, m in enumerate(
        ("january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december")
    )
}
_UNIT_ASKED = re.compile(
    r"(?:\bin|how many|how much area in|area \(in)\s+(hectares?|ha|acres?|km2|km²|m2|m²|square kilomet(?:re|er)s?|"
    r"square met(?:re|er)s?|kilomet(?:re|er)s?|met(?:re|er)s?|km|percent|per cent|%)(?![\w])"
)
_PER_AREA = re.compile(
    # hectares per km² are a share, trees per km² a density
    r"\b(?:(?:how many|numbers? of|count of)(?! (?:hectares?|ha|km2|km²|m2|m²|square|acres?)(?![\w]))|density|densities)\b.*?"
    r"\b(?:per|for each|in each)\s+(hectare|ha|km2|km²|m2|m²|square kilomet(?:re|er)|square met(?:re|er))(?![\w])"
)


@dataclass(frozen=True, slots=True)
class Threshold:
    """``side`` is above or below; ``unit`` '' for a bare number."""

    side: str
    value: float
    unit: str


def indices_named(text: str) -> set[str]:
    """Spectral indices that the text names."""
    return set(_indices_named(text))


_INDEX = re.compile(
    r"(?<![a-z0-9])(?=(" + "|".join(re.escape(n) for n in sorted(INDICES, key=len, reverse=True)) + r")(?![a-z0-9]))"
)


@lru_cache(maxsize=256)
def _indices_named(text: str) -> frozenset[str]:
    return frozenset(m.group(1) for m in _INDEX.finditer(text))


def thresholds_named(text: str) -> list[Threshold]:
    """Comparisons with a number, in order."""
    text = _AREA_WORDS.sub(lambda m: _AREA_UNITS.get(m.group(1)[0], "area"), text)
    out = []
    for m in _THRESHOLD.finditer(text):
        side = "above" if re.fullmatch(_ABOVE, m["op"]) else "below"
        unit = _UNITS.get((m["unit"] or "").strip(), "")
        out.append(Threshold(side, float(m["number"].replace("−", "-").replace(",", ".")), unit))
    return out


def statistics_named(text: str) -> set[str]:
    """Statistics that the text names: mean, median, min, max, std."""
    return {name for name, pattern in _STATISTICS.items() if re.search(pattern, text)}


def unit_named(text: str) -> str:
    """The unit in which the answer is asked; '' where none is said plainly. So many per hectare are asked in 1/ha."""
    over = _PER_AREA.search(text)
    if over:
        word = over.group(1)
        return "1/" + (("km2" if "kilo" in word else "m2") if word.startswith("square") else _UNITS[word])
    m = _UNIT_ASKED.search(text)
    if not m:
        return ""
    word = m.group(1)
    if word.startswith("square"):
        return "km2" if "kilo" in word else "m2"
    return _UNITS.get(word, "")


# "How many times larger is A than B" is a ratio, "how many times was it flooded" none.
_TIMES = (
    r"(?:how many times|by (?:what|which) factor)(?: (?:is|are|was|were))? (?:[^?]*? )?"
    r"(?:(?:larg|bigg|great|small|long|short)er\b|as (?:large|big|great|small|long|short)\b|the (?:area|size|length) of\b)"
)
# "Countries that share a border with Germany" ask for no share.
_SHARE = r"\bshare\b(?! (?:a |their )?(?:common |shared )?border)"


def metrics_named(text: str) -> list[str]:
    """Every metric that the words name, the one that they fix first: density, trend, ratio, distance, area, count."""
    unit = unit_named(text)
    named = {
        "density": unit.startswith("1/") or re.search(r"\bdensit(?:y|ies) of\b", text),
        "trend": re.search(r"\b(trend|slope|per year)\b", text),
        "ratio": re.search(rf"{_SHARE}|{_TIMES}|\b(fraction|proportion|percentage)\b|what percent|how many percent", text)
        or unit == "%",
        "distance": re.search(r"\b(how far|distance)\b", text),
        "area": re.search(r"\b(how much area|what area|what is the area|total area|how large is the area)\b", text)
        or unit in ("ha", "km2", "m2", "acre"),
        "count": re.search(r"\bhow many\b", text)
        and not unit
        and not re.search(rf"how many (pixels|bands|dates|images|scenes|years|months|days)|{_TIMES}", text),
    }
    return [metric for metric, is_named in named.items() if is_named]


def metric_named(text: str) -> str:
    """count, area, ratio, distance, trend or density; '' where the words fix none."""
    return next(iter(metrics_named(text)), "")


def days_named(text: str) -> list[date]:
    """ISO days in the text, in order; what is no day is left out."""
    out = []
    for y, m, d in re.findall(r"\b(\d{4})-(\d{2})-(\d{2})\b", text):
        try:
            out.append(date(int(y), int(m), int(d)))
        except ValueError:
            continue
    return out


def months_named(text: str) -> list[tuple[int | None, int]]:
    """(year or None, month) for months by name; 'may' counts only beside a year or 'in'."""
    out: list[tuple[int | None, int]] = []
    for name, number in _MONTHS.items():
        for m in re.finditer(rf"\b{name}\b(?:\s+(\d{{4}}))?", text):
            if (
                name in ("may", "march")
                and m.group(1) is None
                and not re.search(rf"\b(in|of|from|to|and|between)\s+{name}\b", text)
            ):
                continue
            out.append((int(m.group(1)) if m.group(1) else None, number))
        # shortened ("25 nov 2002", "sept. 2014") only where a year follows
        short = rf"(?:{name[:4]}|{name[:3]})" if name == "september" else name[:3]
        if short != name:
            out += [(int(m.group(1)), number) for m in re.finditer(rf"\b{short}\.?,?\s+(?:\d{{1,2}},?\s+)?(\d{{4}})\b", text)]
    return out


def years_named(text: str) -> set[int]:
    """Years 1970 to 2099 in the text."""
    return {int(y) for y in re.findall(r"(?<![\d.\-])((?:19[7-9]|20\d)\d)(?![\d.])", text)}
