"""What several rasters must have in common before one is held against another: the units that they were made of, and that they
are several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from apps.core.geo.grid import transformer
from apps.core.geo.scene import SceneInfo
from apps.tools.execute.indices import INDICES, STAND_INS
from apps.tools.execute.types import Call, RasterType

# Two grids whose pixels differ in side by more than this share do not hold the same sum.
_SAME_SIDE = 0.005


def _roles_of(quantity: str) -> tuple[str, ...]:
    """The roles of the bands that an index or pair of bands is made of; none where the quantity is no such."""
    if quantity in INDICES:
        return INDICES[quantity].formula.names
    for start in ("nd_", "ratio_"):
        if quantity.startswith(start) and quantity.count("_") == start.count("_") + 1:
            return tuple(quantity[len(start):].split("_"))
    return ()


def _units_in(scene: SceneInfo, roles: Sequence[str]) -> set[str]:
    """Of the bands of a scene that stand for the roles."""
    out = set()
    for role in roles:
        held = next((b for name in (role, *STAND_INS.get(role, ())) for b in scene.bands_with_role(name)), None)
        if held is not None:
            # before the division by the sun's angle, which a ratio of bands does not notice
            out.add("reflectance" if held.unit.startswith("reflectance") else held.unit)
    return out


def check_made_of_one_unit(call: Call, rasters: Sequence[RasterType]) -> None:
    """ModelError where an index is made of reflectance on one date and of stored numbers on another: both have no unit, and an
    offset of the numbers would stand as a change."""
    made: dict[str, str] = {}
    for raster in rasters:
        roles = _roles_of(raster.quantity)
        for scene in raster.scenes:
            for unit in _units_in(scene, roles):
                made.setdefault(unit, scene.name)
    if len(made) > 1:
        told = ", ".join(f"{unit} in {name}" for unit, name in sorted(made.items()))
        raise call.refuse(f"{rasters[0].quantity} is made of different things on these dates ({told}), so their figures do not "
                          "compare. Say scale and offset of the scenes whose numbers stand as stored.",
                          needs={"unit": sorted(made), "scenes": [s.scene_id for r in rasters for s in r.scenes]})


def check_distinct(call: Call, names: Sequence[str], rasters: Sequence[RasterType]) -> None:
    """ModelError where one raster stands among the inputs more than once: it would count so often."""
    seen: dict[tuple[object, ...], str] = {}
    for name, raster in zip(names, rasters, strict=True):
        key = (raster.formula, raster.quantity, raster.grid, tuple(s.scene_id for s in raster.scenes))
        if key in seen:
            first = f"{name} twice" if seen[key] == name else f"{seen[key]} and {name}, which are the same"
            raise call.refuse(f"the inputs hold {first} ({raster.quantity} of {raster.scene_names}); it would count so often. "
                              "Give each date or band once.")
        seen[key] = name


def check_sum(call: Call, raster: RasterType, statistic: str) -> None:
    """ModelError where pixels are added up that are not those that were measured: on pixels of half the side there are four times
    as many of them, and each still has the whole value."""
    if statistic != "sum":
        return
    sides = {s.grid.gsd_m for s in raster.scenes if s.grid.gsd_m}
    here = raster.grid.gsd_m
    if here is not None and any(abs(here / side - 1) > _SAME_SIDE for side in sides):
        old = ", ".join(f"{side:.4g} m" for side in sorted(sides))
        raise call.refuse(f"a sum over pixels of {here:.4g} m is not that over the scene's own of {old}: each new pixel has the "
                          "value of an old one, but there are more or fewer of them. Add up on the scene's own grid, or ask for "
                          "the mean.")


# Hours of the sun apart from which temperatures, or the two directions from which a radar looks, are two series in one.
_HOURS_APART = 4.0
_SAR_ROLES = ("vv", "vh", "hh", "hv")
# Sensors whose bands are held for one another's in a series.
_ONE_FAMILY = (("landsat 4", "landsat 5", "landsat 7"),)


def sun_hour(scene: SceneInfo) -> float | None:
    """Mean solar time of a scene's acquisition at its middle, 0 to 24; None without CRS or time. A time of midnight UTC to the
    second stands for a day of which no time is told."""
    when, grid = scene.acquired_at, scene.grid
    if when is None or grid.crs is None or (when.hour, when.minute, when.second, when.microsecond) == (0, 0, 0, 0):
        return None
    lon, _ = transformer(grid.crs, "EPSG:4326").transform(*grid.xy(grid.width / 2, grid.height / 2))
    if not np.isfinite(lon):
        return None
    return float((when.hour + when.minute / 60 + when.second / 3600 + lon / 15) % 24)


def _hours_apart(hours: Sequence[float]) -> float:
    """The shortest stretch of the day that holds all of these hours."""
    held = sorted(hours)
    return 24 - max([b - a for a, b in pairwise(held)] + [24 - held[-1] + held[0]])


def _by_sensor(scenes: Sequence[SceneInfo]) -> dict[str, str]:
    """Family → a sensor of it, of the scenes whose sensor is known."""
    out: dict[str, str] = {}
    for scene in scenes:
        name = scene.sensor.casefold()
        family = next((f[0] for f in _ONE_FAMILY if name.startswith(f)), name)
        if family:
            out.setdefault(family, scene.sensor)
    return out


def check_series_alike(call: Call, rasters: Sequence[RasterType], *, is_trend: bool) -> tuple[tuple[str, str], ...]:
    """What is told where the dates are of several sensors, or of several times of the day where that matters. ModelError for a
    trend of temperatures or of a radar's values whose dates are of two times of the day: its slope would be made of them."""
    notes: list[tuple[str, str]] = []
    scenes = [r.scenes[0] for r in rasters]
    first = rasters[0]
    is_sar = any(first.quantity.startswith(r) for r in _SAR_ROLES)
    if first.unit in ("K", "degC") or is_sar:
        hours = {s.name: h for s in scenes if (h := sun_hour(s)) is not None}
        days = {s.acquired_at.date() for s in scenes if s.acquired_at is not None}
        apart = _hours_apart(list(hours.values())) if hours else 0.0
        # within a day or two the hours are what is asked about
        if apart > _HOURS_APART and len(days) > 2:
            least, most = min(hours, key=lambda n: hours[n]), max(hours, key=lambda n: hours[n])
            told = f"{least} is of {hours[least]:.0f} h, {most} of {hours[most]:.0f} h by the sun"
            why = ("a radar looks from another side then" if is_sar else "day and night differ by more than years do")
            if is_trend:
                raise call.refuse(f"the dates are of several times of the day ({told}), and {why}, so the slope would be made of "
                                  "them. Take the dates of one time of the day.", needs={"time_of_day": True})
            notes.append(("warning", f"The dates are of several times of the day ({told}): {why}."))
    sensors = _by_sensor(scenes)
    if len(sensors) > 1 and first.unit not in ("m", "people"):
        notes.append(("warning", (f"The dates are of several sensors ({', '.join(sorted(sensors.values()))}), whose bands and "
                                  "calibration differ, and nothing brings them together: a part of what changes may be theirs.")))
    return tuple(notes)


# Quantities by which a difference of NBR that is before − after is called.
DNBR = frozenset({"dnbr", "delta_nbr", "rdnbr", "rbr"})


def check_dnbr(call: Call, tree: object, held: Mapping[str, RasterType]) -> None:
    """ModelError where a formula that is called dNBR takes the earlier date from the later: burnt ground would be regrowth."""
    if not isinstance(tree, tuple):
        return
    if tree[0] == "-" and all(isinstance(t, tuple) and t[0] == "name" and t[1] in held for t in tree[1:]):
        one, other = (held[t[1]] for t in tree[1:])
        if (one.quantity == other.quantity == "nbr" and one.acquired_at is not None and other.acquired_at is not None
                and one.acquired_at > other.acquired_at):
            raise call.refuse(f"dNBR is before − after, and {tree[1][1]} − {tree[2][1]} takes {one.acquired_at.date()} less "
                              f"{other.acquired_at.date()}. Turn it round, or ask raster.product.difference for mode loss.")
    for part in tree[1:]:
        for one_part in part if isinstance(part, list) else [part]:
            check_dnbr(call, one_part, held)


def check_threshold_scale(call: Call, source: RasterType, number: float, unit: str) -> None:
    """ModelError where a threshold of linear power is put on decibels. Who says the unit beside it is believed."""
    if unit:
        return
    role = source.quantity.removesuffix("_db")
    if source.unit == "dB" and role in _SAR_ROLES and 0 < number < 1:
        raise call.refuse(f"{source.quantity} is in decibels, and {number:g} looks like linear power, which is "
                          f"{10 * np.log10(number):.1f} dB. Say the threshold in dB, or its unit beside it.",
                          needs={"unit": "dB"})
