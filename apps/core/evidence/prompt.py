"""What a person marked to be segmented: points, a box, strokes; inside the thing, or outside of it."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from apps.core.evidence.landmark import MAX_LONGITUDE, Coordinate
from apps.core.evidence.observation import Frozen

# As many as the tool takes.
MAX_PROMPTS, MAX_VERTICES = 100, 2000


class Prompt(Frozen):
    """A point has one place, a box two corners (least x, least y; greatest x, greatest y), a stroke two or more in drawing order.
    Longitude and latitude in degrees (``EPSG:4326``), or column and row from the upper left corner (``image``)."""

    kind: Literal["point", "box", "stroke"]
    places: tuple[tuple[Coordinate, Coordinate], ...] = Field(min_length=1, max_length=MAX_VERTICES)
    inside: bool = True
    crs: Literal["EPSG:4326", "image"] = "EPSG:4326"

    @model_validator(mode="after")
    def _is_a_mark(self) -> Self:
        n = len(self.places)
        if (self.kind == "point" and n != 1) or (self.kind == "box" and n != 2) or (self.kind == "stroke" and n < 2):
            raise ValueError("a point has one place, a box two corners, a stroke two places or more")
        if self.kind == "box":
            (x0, y0), (x1, y1) = self.places
            if not self.inside:
                raise ValueError("a box is drawn about the thing; mark what is outside of it with points or strokes")
            if not (x0 < x1 and y0 < y1):
                raise ValueError("a box encloses something: its first corner has the smaller numbers")
        if self.crs == "EPSG:4326" and any(abs(x) > MAX_LONGITUDE or abs(y) > 90 for x, y in self.places):
            raise ValueError("longitude lies between -360 and 360, latitude between -90 and 90")
        return self

    @property
    def corners(self) -> tuple[tuple[float, float], ...]:
        """All places that must lie on the image: of a box its four corners."""
        if self.kind != "box":
            return self.places
        (x0, y0), (x1, y1) = self.places
        return ((x0, y0), (x1, y0), (x1, y1), (x0, y1))
