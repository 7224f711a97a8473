"""What several rasters must have in common before one is held against another: the units that they were made of, and that they
are several."""

from __future__ import annotations

from collections.abc import Sequence

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
