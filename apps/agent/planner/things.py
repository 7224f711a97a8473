"""Things that a question can name beside what the image shows: vector files, single features of them, places by coordinates.

A form writes them as keys: ``vector:ID``, ``vector:ID:NAME`` for the feature of that name, ``vector:ID/ATTRIBUTE=VALUE|VALUE``
for the features with one of these values, ``vector:ID/ATTRIBUTE~(5,10]`` for those between limits,
``vector:ID/ATTRIBUTE!NAME|NAME`` for all but those of these names (signs that part keys are written as in a URL),
``place:LONGITUDE,LATITUDE`` and ``px:COLUMN,ROW``; every other key is a target of the lexicon.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from apps.core.evidence.plan import Question
from apps.core.geo.vector import LINES, POINTS, POLYGONS, VectorInfo, with_part

_NUMBER = r"-?\d+(?:\.\d+)?"


@dataclass(frozen=True, slots=True)
class Thing:
    """Exactly one of ``vector``, ``lonlat`` and ``px`` is set; ``name`` chooses one feature of the vector file."""

    key: str
    vector: VectorInfo | None = None
    name: str = ""
    lonlat: tuple[float, float] | None = None
    px: tuple[float, float] | None = None

    @property
    def title(self) -> str:
        """How it is written in a sentence."""
        if self.vector is not None:
            if self.name or (self.vector.n == 1 and self.vector.is_n_known):
                return self.name or self.vector.name
            n = f"{self.vector.n:,} " if self.vector.is_n_known else ""
            return f"the {n}{self.vector.noun} of {self.vector.name}"
        if self.lonlat is not None:
            lon, lat = self.lonlat
            return f"{abs(lat):g}° {'N' if lat >= 0 else 'S'}, {abs(lon):g}° {'E' if lon >= 0 else 'W'}"
        assert self.px is not None
        return f"pixel {self.px[0]:g}, {self.px[1]:g}"

    @property
    def label(self) -> str:
        """A short name for a source of a measure."""
        return (self.name or (self.vector.name if self.vector is not None else self.title))[:80]

    @property
    def n(self) -> int:
        return 1 if self.vector is None or self.name else self.vector.n

    def has_only(self, kinds: str) -> bool:
        """Whether all of it is polygons, lines or points."""
        if self.vector is None:
            return kinds == "points"
        wanted = {"polygons": POLYGONS, "lines": LINES, "points": POINTS}[kinds]
        return self.vector.count_of(wanted) == self.vector.n

    def source(self, name: str) -> dict[str, Any]:
        """The source of a measure."""
        out: dict[str, Any] = {"name": name, "mode": "extent"}
        if self.vector is not None:
            out["vector"] = self.vector.artifact
            out |= self._part()
            return out | ({"name_field": self.vector.name_field, "only": [self.name]} if self.name else {})
        at = self.lonlat or self.px
        assert at is not None
        return out | {
            "geometry": {"type": "Point", "coordinates": list(at)},
            "geometry_crs": "EPSG:4326" if self.lonlat is not None else "image",
        }

    def _part(self) -> dict[str, Any]:
        v = self.vector
        if v is None or not v.part_field:
            return {}
        if v.part_without:
            return {"name_field": v.name_field, "without": list(v.part_without)}
        if v.part_limits is None:
            return {"part_field": v.part_field, "part_values": list(v.part_values)}
        ends = {"part_min": v.part_limits.low, "part_max": v.part_limits.high, "part_open": v.part_limits.open}
        return {"part_field": v.part_field} | {k: e for k, e in ends.items() if e not in (None, "")}

    def zones(self, *, buffer_m: float = 0, dissolve: bool = True) -> dict[str, Any]:
        """Parameters of ``vector.zones``."""
        assert self.vector is not None and not self.vector.part_without
        out: dict[str, Any] = {"vector": self.vector.artifact} | self._part()
        if self.vector.name_field:
            out["name"] = self.vector.name_field
        if self.name:
            out["only"] = [self.name]
        if dissolve:
            out["dissolve"] = True
        if buffer_m:
            out["buffer_m"] = buffer_m
        elif not self.has_only("polygons"):
            out["skip_others"] = True
        return out


def thing_of(key: str, question: Question) -> Thing | None:
    """The thing of a key; None for keys of the lexicon. KeyError where the question has no such vector file or feature;
    ValueError for coordinates that are none."""
    kind, _, rest = key.partition(":")
    if kind == "vector":
        vector_id, _, name = rest.partition(":")
        vector = with_part(question.vectors, vector_id)
        if vector is None or (name and name not in vector.names):
            raise KeyError(key)
        return Thing(key, vector=vector, name=name)
    if kind in ("place", "px"):
        m = re.fullmatch(rf"({_NUMBER}),({_NUMBER})", rest)
        if m is None:
            raise ValueError(f"{key!r} holds no pair of numbers")
        at = (float(m[1]), float(m[2]))
        if kind == "px":
            return Thing(key, px=at)
        if not (-180 <= at[0] <= 180 and -90 <= at[1] <= 90):
            raise ValueError(f"{key!r} is no longitude and latitude")
        return Thing(key, lonlat=at)
    return None


def is_thing(key: str) -> bool:
    return key.startswith(("vector:", "place:", "px:"))
