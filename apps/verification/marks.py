"""Two landmarks as the verifier places and measures them: from what was asked, by formulas of its own.

The tool measures with PROJ's geodesics (Karney); here it is Vincenty's inverse formula, so that a fault of one is no fault of the
other.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from shapely.geometry import shape

from apps.core.geo.grid import Grid, transformer
from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, number_of

# WGS 84
_A, _F = 6378137.0, 1 / 298.257223563
_TEXT = re.compile(r"\s*(px|lonlat)\s*:\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*")


class CannotMarkError(Exception):
    """A landmark has no place that could be worked out here, and why."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A landmark as asked: its middle (x, y) in ``crs`` (EPSG:4326 or image), and its place in pixels of the scene."""

    name: str
    at: tuple[float, float]
    crs: str
    px: tuple[float, float]


def is_between_landmarks(case: Case) -> bool:
    return case.observation.tool == "perceive" and case.arguments.get("mode") == "measurement"


def scene_measured(case: Case) -> SceneInfo | None:
    """The one scene on which landmarks are measured; None where the call names none or several."""
    return case.used_scenes[0] if len(case.used_scenes) == 1 else None


def marks_of(case: Case, grid: Grid) -> list[Mark]:
    """The landmarks of the call, in their order. CannotMarkError where one cannot be read."""
    raw = case.arguments.get("landmarks")
    asked = list(raw) if isinstance(raw, (list, tuple)) else []
    layers = [a.get("layer") for a in asked if isinstance(a, dict) and a.get("layer")]
    return [_mark(case, grid, one, layers) for one in asked]


def method_of(case: Case) -> dict[str, Any]:
    held = case.arguments.get("landmarks_method")
    return dict(held) if isinstance(held, dict) else {}


def vincenty(one: tuple[float, float], two: tuple[float, float]) -> tuple[float, float] | None:
    """(metres, degrees clockwise from north at the first) between two places in degrees, longitude first; None where the formula
    does not converge (nearly opposite places). Vincenty 1975, Survey Review 23(176), inverse formula."""
    (lon1, lat1), (lon2, lat2) = ((math.radians(v) for v in at) for at in (one, two))
    b = _A * (1 - _F)
    u1, u2 = math.atan((1 - _F) * math.tan(lat1)), math.atan((1 - _F) * math.tan(lat2))
    su1, cu1, su2, cu2 = math.sin(u1), math.cos(u1), math.sin(u2), math.cos(u2)
    around = math.remainder(lon2 - lon1, 2 * math.pi)
    lam = around
    for _ in range(200):
        sl, cl = math.sin(lam), math.cos(lam)
        ss = math.hypot(cu2 * sl, cu1 * su2 - su1 * cu2 * cl)
        if ss == 0:
            return 0.0, 0.0
        cs = su1 * su2 + cu1 * cu2 * cl
        sigma = math.atan2(ss, cs)
        sa = cu1 * cu2 * sl / ss
        c2a = 1 - sa * sa
        c2m = cs - 2 * su1 * su2 / c2a if c2a > 1e-15 else 0.0
        c = _F / 16 * c2a * (4 + _F * (4 - 3 * c2a))
        before, lam = lam, around + (1 - c) * _F * sa * (sigma + c * ss * (c2m + c * cs * (2 * c2m**2 - 1)))
        if abs(lam - before) < 1e-13:
            break
    else:
        return None
    usq = c2a * (_A**2 - b**2) / b**2
    big_a = 1 + usq / 16384 * (4096 + usq * (-768 + usq * (320 - 175 * usq)))
    big_b = usq / 1024 * (256 + usq * (-128 + usq * (74 - 47 * usq)))
    more = big_b * ss * (c2m + big_b / 4 * (cs * (2 * c2m**2 - 1) - big_b / 6 * c2m * (4 * ss**2 - 3) * (4 * c2m**2 - 3)))
    azimuth = math.atan2(cu2 * math.sin(lam), cu1 * su2 - su1 * cu2 * math.cos(lam))
    return b * big_a * (sigma - more), math.degrees(azimuth) % 360


def degrees_of(mark: Mark, grid: Grid) -> tuple[float, float]:
    """Longitude and latitude on WGS 84. CannotMarkError without a CRS."""
    if mark.crs == "EPSG:4326":
        return mark.at
    if grid.crs is None:
        raise CannotMarkError("the scene has no CRS")
    a, b, c, d, e, f = grid.transform
    col, row = mark.px
    lon, lat = transformer(grid.crs, "EPSG:4326").transform(a * col + b * row + c, d * col + e * row + f)
    return float(lon), float(lat)


def _mark(case: Case, grid: Grid, one: Any, layers: list[Any]) -> Mark:
    if isinstance(one, str):
        m = _TEXT.fullmatch(one)
        if m is None:
            raise CannotMarkError(f"{one[:40]!r} is no coordinate")
        return _given("", (float(m[2]), float(m[3])), "image" if m[1] == "px" else "EPSG:4326", grid)
    if not isinstance(one, dict):
        raise CannotMarkError("a landmark is neither text nor a place")
    name = str(one.get("name") or "")
    if isinstance(one.get("layer"), dict):
        return _detected(case, name, one, layers.count(one["layer"]))
    held = one.get("box") if one.get("box") is not None else one.get("point")
    numbers = [number_of(v) for v in held] if isinstance(held, (list, tuple)) else []
    if len(numbers) not in (2, 4) or any(v is None for v in numbers):
        raise CannotMarkError(f"the landmark {name} has no coordinates")
    known = [v for v in numbers if v is not None]
    at = (known[0], known[1]) if len(known) == 2 else ((known[0] + known[2]) / 2, (known[1] + known[3]) / 2)
    return _given(name, at, str(one.get("crs", "EPSG:4326")), grid)


def _given(name: str, at: tuple[float, float], crs: str, grid: Grid) -> Mark:
    if crs == "image":
        return Mark(name, at, crs, at)
    if grid.crs is None:
        raise CannotMarkError("degrees have no place on a scene without CRS")
    a, b, c, d, e, f = grid.transform
    det = a * e - b * d
    if det == 0:
        raise CannotMarkError("the scene's grid is degenerate")
    places = []
    for turn in (0.0, -360.0, 360.0):
        x, y = transformer("EPSG:4326", grid.crs).transform(at[0] + turn, at[1])
        places.append(((e * (x - c) - b * (y - f)) / det, (a * (y - f) - d * (x - c)) / det))
    inside = [p for p in places if 0 <= p[0] <= grid.width and 0 <= p[1] <= grid.height]
    return Mark(name, at, crs, (inside or places)[0])


def _detected(case: Case, name: str, one: dict[str, Any], wanted: int) -> Mark:
    layer = one["layer"]
    parent = next((p for p in case.parents if p.id == layer.get("observation")), None)
    if parent is None:
        raise CannotMarkError("the detector's observation is not at hand")
    label = str(layer.get("label") or "")
    refs = [
        r for r in parent.result.layers if r.kind in ("boxes", "polygons") and not r.is_aside and label in ("", r.label)
    ]
    if len(refs) != 1 or refs[0].crs != "image":
        raise CannotMarkError("the detector's boxes are not at hand")
    boxes = sorted(shape(f["geometry"]).bounds for f in case.features(refs[0]))
    if len(boxes) != wanted:
        raise CannotMarkError(f"the detector found {len(boxes)}, and {wanted} were meant")
    x0, y0, x1, y1 = boxes[int(one.get("index") or 0) if wanted > 1 else 0]
    middle = (x0 + x1) / 2, (y0 + y1) / 2
    return Mark(name, middle, "image", middle)
