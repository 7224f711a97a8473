"""How exactly shapes follow the ground that no pixel shows: what a file's maker says, else what its written digits can hold.

Coordinates that are written to so many decimals are true to half a unit of the last one at best. That is a floor: the file may be
much worse, and does not tell. Digits beyond a millimetre tell nothing; they come from arithmetic, not from a survey.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from pyproj import CRS
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import geod_of, transformer

# What is written finer than this is no statement of anybody's accuracy.
LEAST_M = 1e-3
# Degrees with fewer decimals (a kilometre and more) are round numbers, not a resolution.
LEAST_DECIMALS = 2
MOST_DECIMALS = 9
# Points that were worked out (where two outlines cross) have more digits than those that were measured.
WRITTEN_OTHERWISE = 0.1
NOT_TOLD = "not known: how exactly the shapes were drawn"


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Any point of a source may lie off by ``metres``. ``is_floor``: by so much at least; nobody knows by how much at most."""

    metres: float
    is_floor: bool
    text: str

    def told(self) -> dict[str, JsonValue]:
        return {"m": self.metres, "is_floor": self.is_floor, "from": self.text}


def decimals_of(coordinates: NDArray[np.float64]) -> int | None:
    """How many decimals the numbers (n, 2) are written with, but for WRITTEN_OTHERWISE of them; None where it is more than
    MOST_DECIMALS."""
    values = np.unique(coordinates.ravel())
    for n in range(MOST_DECIMALS + 1):
        is_so = np.abs(np.round(values, n) - values) <= 4 * np.spacing(np.abs(values))
        if np.count_nonzero(~is_so) <= WRITTEN_OTHERWISE * len(values):
            return n
    return None


def written_to_m(geometries: Sequence[BaseGeometry], crs: str) -> tuple[float, int] | None:
    """(metres by which rounding may have moved a point, decimals); None where the digits tell nothing. ``crs`` names a CRS."""
    at = shapely.get_coordinates(list(geometries))
    n = decimals_of(at) if len(at) else None
    if n is None:
        return None
    half = 0.5 * 10.0 ** -n
    if CRS.from_user_input(crs).is_geographic:
        if n < LEAST_DECIMALS:
            return None
        lat = float(np.clip(at[np.argmin(np.abs(at[:, 1])), 1], -89.0, 89.0))  # where a degree of longitude is longest
        metres = float(geod_of(crs).inv(0.0, lat - half, half, lat)[2])
        metres = max(metres, float(geod_of(crs).inv(0.0, lat, half, lat + half)[2]))
    else:
        x, y = (float(v) for v in at.mean(axis=0))
        lon, lat = transformer(crs, "EPSG:4326").transform([x, x + half], [y, y + half])
        metres = float(geod_of("EPSG:4326").inv(lon[0], lat[0], lon[1], lat[1])[2])
    return (metres, n) if math.isfinite(metres) and metres >= LEAST_M else None


def accuracy_of(name: str, geometries: Sequence[BaseGeometry], crs: str, declared_m: float | None) -> Accuracy | None:
    """The accuracy of shapes in a CRS: as declared, never finer than their digits; else the digits' floor; None without both."""
    written = None if crs == "image" else written_to_m(geometries, crs)
    if declared_m is not None and (written is None or declared_m >= written[0]):
        return Accuracy(declared_m, False, f"the accuracy declared for {name}: ±{declared_m:g} m")
    if written is None:
        return None
    metres, n = written
    if declared_m is not None:
        return Accuracy(metres, True, f"at least ±{metres:.2g} m: ±{declared_m:g} m are declared for {name}, and its coordinates "
                                      f"are written to {n} decimals only")
    return Accuracy(metres, True, f"at least ±{metres:.2g} m: the coordinates of {name} are written to {n} decimals; how exactly "
                                  "it follows the ground is not told")


def line_slack_m(line: NDArray[np.float64], off: float, *, is_ring: bool) -> tuple[float, float]:
    """(metres that a line may be shorter, longer) whose vertices (n, 2; metres of a plane) may each lie off by ``off``.

    To first order a vertex moves the length by its shift times the change of direction there, an end by its shift; shifts across
    the line only lengthen it, each segment by at most (2 off)²/(2 length), and never by more than 2 off.
    """
    steps = np.diff(line, axis=0)
    lengths = np.linalg.norm(steps, axis=1)
    steps, lengths = steps[lengths > 0], lengths[lengths > 0]
    if not len(lengths):
        return 0.0, 2 * off
    unit = steps / lengths[:, None]
    turns = float(np.linalg.norm(np.diff(unit, axis=0), axis=1).sum())
    turns += float(np.linalg.norm(unit[0] - unit[-1])) if is_ring else 2.0
    across = float(np.minimum(2 * off, 2 * off * off / lengths).sum())
    total = float(lengths.sum())
    return min(total, off * turns), min(off * turns + across, 2 * off * len(lengths))


def lines_slack_m(placed: Sequence[BaseGeometry], off: float) -> tuple[float, float]:
    """As ``line_slack_m`` for all lines and rings of geometries in metres of a plane, added up."""
    shorter = longer = 0.0
    for part in shapely.get_parts(shapely.get_parts(list(placed))):
        at = shapely.get_coordinates(part)
        less, more = line_slack_m(at, off, is_ring=bool(len(at) > 2 and np.array_equal(at[0], at[-1])))
        shorter, longer = shorter + less, longer + more
    return shorter, longer


def joint(drawn: Sequence[tuple[str, Accuracy | None]]) -> tuple[float, bool, list[str]] | None:
    """(metres by which points of these sources, each by its name, may lie off together, whether that is a floor, why); None where
    none of them says anything."""
    known = [a for _, a in drawn if a is not None]
    if not known:
        return None
    lacking = [name for name, a in drawn if a is None]
    texts = [a.text for a in known] + [f"of {name} nothing is told" for name in lacking]
    return sum(a.metres for a in known), bool(lacking) or any(a.is_floor for a in known), list(dict.fromkeys(texts))


def in_units(crs: str, metres: float, geometries: Sequence[BaseGeometry]) -> float:
    """Metres in units of a CRS, where they are the most: for a coarse look at what lies near an outline."""
    at = shapely.get_coordinates(list(geometries))
    if not len(at):
        return 0.0
    if not CRS.from_user_input(crs).is_geographic:
        # feet are no metres, and Mercator's metres are less than one on the ground: a step of one unit at corners and middle
        (x0, y0), (x1, y1) = at.min(axis=0), at.max(axis=0)
        corners = np.array([(x0, y0), (x0, y1), (x1, y0), (x1, y1), ((x0 + x1) / 2, (y0 + y1) / 2)])
        t, geod = transformer(crs, "EPSG:4326"), geod_of("EPSG:4326")
        lon, lat = t.transform(corners[:, 0], corners[:, 1])
        steps = []
        for across, up in ((1.0, 0.0), (0.0, 1.0)):
            to_lon, to_lat = t.transform(corners[:, 0] + across, corners[:, 1] + up)
            steps.append(float(np.min(geod.inv(lon, lat, to_lon, to_lat)[2])))
        return metres / min(steps) * 1.01
    highest = float(np.clip(np.abs(at[:, 1]).max(), 0, 89.0))
    return metres / (110_000 * math.cos(math.radians(highest)))
