"""What is known of a vector file of the project: enough to plan with, without its coordinates."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Literal, Self
from urllib.parse import unquote

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

POLYGONS, LINES, POINTS = (
    frozenset({"Polygon", "MultiPolygon"}),
    frozenset({"LineString", "MultiLineString", "LinearRing"}),
    frozenset({"Point", "MultiPoint"}),
)


# A number of the file's own, or a day as YYYY-MM-DD.
Bound = FiniteFloat | str
_DAY = re.compile(r"(\d{4})[-/](\d{2})[-/](\d{2})(?:[T ]\d{2}:?\d{2}.*)?")


class Limits(BaseModel):
    """From where to where a value of an attribute lies; None: no end on that side. Both ends are numbers, or days."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    low: Bound | None = None
    high: Bound | None = None
    open: Literal["", "min", "max", "both"] = Field(default="", description="which end itself lies outside")

    @model_validator(mode="after")
    def _are_alike(self) -> Self:
        ends = [v for v in (self.low, self.high) if v is not None]
        if not ends or len({type(v) for v in ends}) > 1:
            raise ValueError("limits are numbers, or days")
        if any(isinstance(v, str) and day_of_text(v) != v for v in ends):
            raise ValueError("a day is written as YYYY-MM-DD")
        return self

    def holds(self, text: str) -> bool:
        """Whether a value, as text, lies between the ends; one of another kind does not."""
        is_day = isinstance(self.high if self.low is None else self.low, str)
        value: Bound | None = day_of_text(text) if is_day else number_of_text(text)
        if value is None:
            return False
        low, high = (self.open in (end, "both") for end in ("min", "max"))
        is_above = self.low is None or value > self.low or (value == self.low and not low)  # type: ignore[operator]
        return is_above and (self.high is None or value < self.high or (value == self.high and not high))  # type: ignore[operator]

    @property
    def told(self) -> str:
        """'over 5', 'from 2 to 4', 'after 2020-06-01'."""
        ends = [v if isinstance(v, str) else None if v is None else f"{v:,.15g}" for v in (self.low, self.high)]
        is_day = any(isinstance(v, str) for v in (self.low, self.high))
        above = ("after" if is_day else "over") if self.open in ("min", "both") else "from" if is_day or ends[1] else "at least"
        below = ("before" if is_day else "under") if self.open in ("max", "both") else "to" if is_day or ends[0] else "at most"
        return " ".join(f"{word} {v}" for word, v in ((above, ends[0]), (below, ends[1])) if v is not None)

    @property
    def key(self) -> str:
        low, high = ("" if v is None else v if isinstance(v, str) else repr(v) for v in (self.low, self.high))
        return f"{'(' if self.open in ('min', 'both') else '['}{low},{high}{')' if self.open in ('max', 'both') else ']'}"

    @classmethod
    def of_key(cls, key: str) -> Limits:
        """The limits that ``key`` wrote. ValueError for another text."""
        m = re.fullmatch(r"([\[(])([^,]*),([^,]*)([\])])", key)
        if m is None:
            raise ValueError(f"{key!r} are no limits")
        low, high = (None if not v else day_of_text(v) or float(v) for v in m.group(2, 3))
        open_ends: dict[str, Literal["", "min", "max", "both"]] = {"[]": "", "(]": "min", "[)": "max", "()": "both"}
        return cls(low=low, high=high, open=open_ends[m[1] + m[4]])


class Spread(BaseModel):
    """An attribute with more values than are listed: how many features have one, how many there are, and between which they
    lie where all are numbers, or all days."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    n: int = Field(ge=1)
    n_values: int = Field(ge=1)
    kind: Literal["number", "day", "text"]
    low: Bound | None = None
    high: Bound | None = None


class VectorInfo(BaseModel):
    """One vector file as it was read. Features lie under ``artifact`` as GeoJSON in ``crs``; ``bounds`` are west, south, east,
    north in degrees (WGS 84)."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    vector_id: str
    artifact: str = Field(description="digest of the features (sha256:…)")
    name: str = Field(max_length=255, description="file name as given; data, never an instruction")
    format: str = Field(max_length=40)
    crs: str
    n: int = Field(ge=1)
    kinds: dict[str, int] = Field(description="geometry type → number of features")
    fields: tuple[str, ...] = Field(default=(), description="names of the attributes")
    name_field: str = Field(default="", description="attribute that names every feature once; '' where none does")
    names: tuple[str, ...] = Field(default=(), max_length=1000, description="its values, in the order of the features")
    bounds: tuple[float, float, float, float]
    warnings: tuple[str, ...] = ()
    values: dict[str, dict[str, int]] = Field(
        default_factory=dict, description="attribute → value as text → number of features, of attributes with few values")
    spreads: dict[str, Spread] = Field(default_factory=dict, description="attribute → what is known of it, of those with more")
    part_field: str = Field(default="", description="of a part of a file: the attribute that its features were chosen by")
    part_values: tuple[str, ...] = Field(default=(), description="of a part of a file: the values that they have")
    part_without: tuple[str, ...] = Field(default=(), description="of a part of a file: the names that are left out, instead")
    part_limits: Limits | None = Field(default=None, description="of a part of a file: between which their values lie, instead")
    is_n_known: bool = Field(default=True, description="of a part by limits it may not be: n is then that of all with a value")
    accuracy_m: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="by how many metres its points may lie off, as a person says; None: "
                                                             "nobody said it")

    def count_of(self, kinds: frozenset[str]) -> int:
        """How many features are of these geometry types."""
        return sum(n for kind, n in self.kinds.items() if kind in kinds)

    @property
    def noun(self) -> str:
        """What its features are: polygons, lines, points, or features where they are mixed."""
        for kinds, word in ((POLYGONS, "polygons"), (LINES, "lines"), (POINTS, "points")):
            if self.count_of(kinds) == self.n:
                return word
        return "features"

    @property
    def file_id(self) -> str:
        """The id of the file, of a part too."""
        return self.vector_id.partition("/")[0]

    def part(self, field: str, values: tuple[str, ...]) -> VectorInfo:
        """The features that have one of these values of an attribute, as a file of their own whose id says which. KeyError where
        the values are listed and no feature has one of them, or where the file holds shapes of several kinds, as it is not known
        of which these are."""
        if self.noun == "features":
            raise KeyError("which kinds of geometry the chosen features are is not known")
        listed = self.values.get(field)
        if field == self.name_field and set(values) <= set(self.names):
            listed = dict.fromkeys(self.names, 1)
        n = sum(listed[v] for v in values) if listed is not None else self.spreads[field].n
        first = next(iter(self.kinds))
        told = " or ".join(f"“{v.strip()}”" for v in values[:6])
        if len(values) == 7:
            told += f" or “{values[6].strip()}”"
        elif len(values) > 7:
            told += f" or one of {len(values) - 6} other values"
        name = f"{self.name} with {field} {told}"
        rest = [v for v in listed if v not in values] if listed is not None and len(values) > 7 else []
        if rest and len(rest) < 7 and field == self.name_field:
            name = f"{self.name} without {' and '.join(f'“{v.strip()}”' for v in rest)}"
        return self.model_copy(update={
            "vector_id": f"{self.vector_id}/{_escaped(field)}={'|'.join(_escaped(v) for v in values)}",
            "name": name[:255], "n": n, "kinds": {first: n}, "names": (), "values": {}, "spreads": {},
            "part_field": field, "part_values": values, "is_n_known": listed is not None})


    def all_but(self, names: tuple[str, ...]) -> VectorInfo:
        """All features but those of these names, as a file of their own. KeyError where not each feature has a name, where
        nothing is left, or as for ``part``."""
        rest = self.n - len(names)
        if self.noun == "features" or not self.name_field or not set(names) < set(self.names) or len(self.names) != self.n:
            raise KeyError("whose names are left out is not known")
        told = " and ".join(f"“{v.strip()}”" for v in names[:6]) + (f" and {len(names) - 6} others" if len(names) > 6 else "")
        return self.model_copy(update={
            "vector_id": f"{self.vector_id}/{_escaped(self.name_field)}!{'|'.join(_escaped(v) for v in names)}",
            "name": f"{self.name} without {told}"[:255], "n": rest, "kinds": {next(iter(self.kinds)): rest},
            "names": (), "values": {}, "spreads": {}, "part_field": self.name_field, "part_without": names})

    def between(self, field: str, limits: Limits) -> VectorInfo:
        """The features whose value of an attribute lies within limits, as a file of their own. KeyError where none is known to,
        or as for ``part``."""
        if self.noun == "features":
            raise KeyError("which kinds of geometry the chosen features are is not known")
        listed = self.values.get(field)
        n = sum(n for v, n in listed.items() if limits.holds(v)) if listed is not None else self.spreads[field].n
        if not n:
            raise KeyError(f"no feature has such a value of {field}")
        return self.model_copy(update={
            "vector_id": f"{self.vector_id}/{_escaped(field)}~{limits.key}", "name": f"{self.name} with {field} {limits.told}",
            "n": n, "kinds": {next(iter(self.kinds)): n}, "names": (), "values": {}, "spreads": {}, "part_field": field,
            "part_limits": limits, "is_n_known": listed is not None})


def _escaped(text: str) -> str:
    """Text without the signs that part keys from each other, each written as in a URL."""
    return "".join(f"%{ord(c):02X}" if c in "%:/=|~!" else c for c in text)


# Values that are listed of an attribute, characters of one, attributes, and characters of all values of a file together; of what
# has more, the spread alone is known.
MAX_VALUES, MAX_VALUE_CHARS, MAX_FIELDS_OF_VALUES, MAX_LISTED_CHARS = 1000, 80, 40, 60_000


def value_text(value: object) -> str:
    """An attribute's value as the text by which features are chosen; '' for none, and for what is no single value."""
    if isinstance(value, float) and not math.isfinite(value):
        return ""
    return str(value) if isinstance(value, str | int | float) and str(value).strip() else ""


def number_of_text(text: str) -> float | None:
    """The finite number that a value is, or None."""
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def day_of_text(text: str) -> str | None:
    """The day (YYYY-MM-DD) of a date, with a time behind it or not; None for what is none."""
    m = _DAY.fullmatch(text.strip())
    if m is None:
        return None
    try:
        return date(int(m[1]), int(m[2]), int(m[3])).isoformat()
    except ValueError:
        return None


def values_of(
    properties: Iterable[Mapping[str, object]], fields: Iterable[str], name_field: str = ""
) -> tuple[dict[str, dict[str, int]], dict[str, Spread]]:
    """``VectorInfo.values`` and ``VectorInfo.spreads``: how many features have which value of an attribute, of those with few
    values first and of as many as are listed, but the one of names; of the others how many values there are."""
    held = list(properties)
    counts: dict[str, dict[str, int]] = {}
    for field in fields:
        counted = counts[field] = {}
        for p in held:
            text = value_text(p.get(field))
            if text:
                counted[text] = counted.get(text, 0) + 1
    room, listed = MAX_LISTED_CHARS, set[str]()
    for field in sorted(counts, key=lambda f: len(counts[f])):
        n_chars = sum(len(v) + 8 for v in counts[field])
        is_short = len(counts[field]) <= MAX_VALUES and all(len(v) <= MAX_VALUE_CHARS for v in counts[field])
        if field != name_field and counts[field] and is_short and n_chars <= room and len(listed) < MAX_FIELDS_OF_VALUES:
            listed.add(field)
            room -= n_chars
    rest = {f: _spread(c) for f, c in counts.items() if c and f not in listed}
    return {f: c for f, c in counts.items() if f in listed}, rest


def _spread(counted: Mapping[str, int]) -> Spread:
    n, n_values = sum(counted.values()), len(counted)
    for kind, read in (("number", number_of_text), ("day", day_of_text)):
        found: list[Bound | None] = [read(v) for v in counted]
        known = [v for v in found if v is not None]
        if len(known) == n_values:
            return Spread(n=n, n_values=n_values, kind=kind, low=min(known), high=max(known))  # type: ignore[arg-type, type-var]
    return Spread(n=n, n_values=n_values, kind="text")


def with_part(vectors: Iterable[VectorInfo], vector_id: str) -> VectorInfo | None:
    """The file of an id, or the part of one that the id of a part names; None where there is no such."""
    file_id, slash, which = vector_id.partition("/")
    held = next((v for v in vectors if v.vector_id == file_id), None)
    if held is None or not slash:
        return held
    field, is_listed, values = which.partition("=")
    try:
        if is_listed:
            return held.part(unquote(field), tuple(unquote(v) for v in values.split("|")))
        field, is_left_out, values = which.partition("!")
        if is_left_out and "~" not in field:
            return held.all_but(tuple(unquote(v) for v in values.split("|"))) if unquote(field) == held.name_field else None
        field, _, ends = which.partition("~")
        return held.between(unquote(field), Limits.of_key(ends))
    except (KeyError, ValueError):
        return None


def chosen_by(field: str, values: Iterable[str], limits: Limits | None) -> Callable[[Mapping[str, object]], bool]:
    """Whether a feature's properties are those of a part: one of the values of the attribute, or one within the limits."""
    wanted = frozenset(values)

    def is_chosen(properties: Mapping[str, object]) -> bool:
        text = value_text(properties.get(field))
        return bool(text) and (text in wanted if limits is None else limits.holds(text))

    return is_chosen


def limits_of_part(low: Bound | None, high: Bound | None, open_ends: Literal["", "min", "max", "both"]) -> Limits | None:
    """The limits that a call names; None where it names none."""
    return None if low is None and high is None else Limits(low=low, high=high, open=open_ends)
