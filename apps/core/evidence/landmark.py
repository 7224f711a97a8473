"""A place that a person marked on an image: a point, or a box whose middle is the place."""

from __future__ import annotations

import math
from typing import Annotated, Literal, Self

from pydantic import Field, FiniteFloat, model_validator

from apps.core.evidence.observation import Frozen
from apps.core.geo.grid import Grid, transformer

# Longitudes may go on beyond 180° where the map does; latitudes end at the poles; no picture has more columns or rows.
MAX_LONGITUDE = 360.0
MAX_PX = 10_000_000.0
Coordinate = Annotated[float, Field(allow_inf_nan=False, ge=-MAX_PX, le=MAX_PX)]


class Landmark(Frozen):
    """Exactly one of ``point`` and ``box`` is set. Longitude and latitude in degrees (``EPSG:4326``), or column and row of a
    picture's pixels from its upper left corner (``image``); a box is (least x, least y, greatest x, greatest y)."""

    name: Literal["A", "B"]
    point: tuple[Coordinate, Coordinate] | None = None
    box: tuple[Coordinate, Coordinate, Coordinate, Coordinate] | None = None
    crs: Literal["EPSG:4326", "image"] = "EPSG:4326"
    precision: FiniteFloat | None = Field(
        default=None, ge=0, le=1e7,
        description="size of a screen pixel where it was clicked: metres (EPSG:4326) or pixels of the picture (image); "
        "None: coordinates were given",
    )  # fmt: skip

    @model_validator(mode="after")
    def _is_a_place(self) -> Self:
        if (self.point is None) == (self.box is None):
            raise ValueError("a landmark is a point or a box")
        x0, y0, x1, y1 = self.bounds
        if self.box is not None and not (x0 < x1 and y0 < y1):
            raise ValueError("a box encloses something: its first corner has the smaller numbers")
        if self.crs == "EPSG:4326" and not (x0 >= -MAX_LONGITUDE and x1 <= MAX_LONGITUDE and y0 >= -90 and y1 <= 90):
            raise ValueError("longitude lies between -360 and 360, latitude between -90 and 90")
        return self

    @property
    def bounds(self) -> tuple[float, float, float, float]:
        """(least x, least y, greatest x, greatest y); a point is both corners."""
        if self.box is not None:
            return self.box
        assert self.point is not None
        return (*self.point, *self.point)

    @property
    def middle(self) -> tuple[float, float]:
        """The place that it stands for, (x, y)."""
        x0, y0, x1, y1 = self.bounds
        return (x0 + x1) / 2, (y0 + y1) / 2

    @property
    def is_typed(self) -> bool:
        return self.precision is None


def pixel_on(grid: Grid, x: float, y: float, crs: str) -> tuple[float, float] | None:
    """(column, row) of a place on a grid; None where it lies outside.

    ValueError where the place is in degrees and the grid has no CRS.
    """
    if crs == "image":
        return (x, y) if is_on(grid, x, y) else None
    if grid.crs is None:
        raise ValueError("the grid has no CRS")
    # a map that goes on beyond 180° says 190 for -170; a scene of degrees from 0 to 360 says it the other way
    to_grid = transformer("EPSG:4326", grid.crs)
    for turn in (0.0, -360.0, 360.0):
        try:
            at = grid.colrow(*to_grid.transform(x + turn, y))
        except ZeroDivisionError:
            return None
        if is_on(grid, *at):
            return at
    return None


def is_on(grid: Grid, col: float, row: float) -> bool:
    """Whether a pixel position lies on the grid, its edges included."""
    return math.isfinite(col) and math.isfinite(row) and 0 <= col <= grid.width and 0 <= row <= grid.height
