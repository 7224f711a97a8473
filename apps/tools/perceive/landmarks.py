"""perceive, mode ``measurement``: distance or bearing between two landmarks.

A landmark is a point or a box in pixels or degrees (as text: ``px:COLUMN,ROW``, ``lonlat:LONGITUDE,LATITUDE``), or what a
detector found in an earlier observation. A box stands for its middle. Landmarks named in words have no place here: the mode
abstains for them instead of guessing one. Distances and bearings are geodesic on WGS 84 where the scene has a CRS (Karney
2013, as in GeographicLib), else planar in pixels times GSD.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from pydantic import JsonValue
from shapely.geometry import shape

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.landmark import is_on, pixel_on
from apps.core.evidence.observation import Configuration, Evidence, LayerRef, Result
from apps.core.geo.grid import geod_of, transformer
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import (
    LandmarksMethod,
    PerceiveArguments,
    PlacedLandmark,
    ToolContext,
    ToolOutcome,
    input_ref,
)
from apps.tools.perceive.modes import only_scene
from apps.tools.perceive.veil import Veil, veil_of

_TEXT = re.compile(r"\s*(px|lonlat)\s*:\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*")
# The middle of a detector's box lies off the thing's middle by so much of the box's longer side, at most.
DETECTOR_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class _Place:
    """A landmark on the scene. It may lie off by ``off_px`` pixels of the scene or ``off_m`` metres, whichever is more."""

    name: str
    kind: str
    px: tuple[float, float]
    off_px: float = 1.0
    off_m: float = 0.0
    bounds: tuple[float, float, float, float] | None = None
    score: float | None = None

    def off(self, metres_a_px: float | None) -> tuple[float, float]:
        """(pixels, metres) by which it may lie off, where a pixel is so long on the way between the two."""
        if metres_a_px is None:
            return self.off_px, 0.0
        metres = max(self.off_px * metres_a_px, self.off_m)
        return metres / metres_a_px, metres


def perceive_measurement(ctx: ToolContext, arguments: PerceiveArguments) -> ToolOutcome:
    """Metres, pixels or degrees clockwise from north, with what a pixel, a click or a detector's box leaves open at either end.

    ModelError where there are not two landmarks, one lies outside the scene or both are one place; ToolAbstainedError NEEDS_GSD,
    NEEDS_CRS (a bearing needs a north), NEEDS_LANDMARKS (a name in words; a detector that found more or fewer).
    """
    scene = ctx.scene(only_scene(arguments))
    if len(arguments.landmarks) != 2:
        raise ModelError(f"measurement needs exactly two landmarks; {len(arguments.landmarks)} were given.", code="BAD_ARGUMENT",
                         needs={"landmarks": 2})
    if arguments.region is not None:
        raise ModelError("A region has no part in a measurement between two landmarks.", code="BAD_ARGUMENT")
    method = arguments.landmarks_method or LandmarksMethod()
    asked = [_typed(given, name) for given, name in zip(arguments.landmarks, "AB", strict=True)]
    first, second = (_place(ctx, scene, one, asked) for one in asked)
    veil = veil_of(ctx, scene, arguments)
    why = _why_not_seen(ctx, scene, veil, first, second)
    seen = tuple(not w for w in why)
    if not any(seen):
        raise ToolAbstainedError(f"Neither {first.name} nor {second.name} lies on a valid pixel of {scene.name} that can be seen "
                                 f"({first.name} {why[0]}, {second.name} {why[1]}).", code="TOOL_FAILED",
                                 needs={"valid_px": True})
    for place, reason in zip((first, second), why, strict=True):
        if reason:
            ctx.log("warning", f"{place.name} {reason}; what stands there cannot be seen.")
    px = math.dist(first.px, second.px)
    if px == 0:
        raise ModelError(f"{first.name} and {second.name} are one and the same place; mark two.", code="BAD_ARGUMENT")
    lonlat = _lonlat(scene, [first.px, second.px])
    gsd = scene.effective_gsd_m
    unit = "deg" if method.measure == "azimuth" else method.unit
    metres, azimuth, back = _geodesic(lonlat)
    if metres is None and gsd is not None:
        metres = px * gsd
    how = "geodesic" if lonlat else "pixels × GSD"
    if unit == "m" and metres is None:
        raise ToolAbstainedError(f"{scene.name} has neither CRS nor GSD, so pixels have no length; say how many metres a pixel "
                                 "measures.", code="NEEDS_GSD", needs={"gsd_m": True})
    metres_a_px = metres / px if metres is not None else None
    offs = [place.off(metres_a_px) for place in (first, second)]
    off_px, off_m = math.hypot(offs[0][0], offs[1][0]), math.hypot(offs[0][1], offs[1][1])
    value: float
    if unit == "deg":
        value, off = _bearing(scene, azimuth, _across(scene, metres, off_px / px, first, second), first, second)
        assert lonlat is not None
        off += _turn_of_north(first, lonlat[0], offs[0][1])
    elif unit == "px":
        value, off, how = px, off_px, "pixels"
    else:
        assert metres is not None
        value, off = metres, off_m
    low = value - off if unit == "deg" else max(0.0, value - off)
    layers = _layers(ctx, scene, first, second)
    told: list[JsonValue] = [{"name": p.name, "kind": p.kind, "px": list(p.px), "lonlat": list(at) if at else None,
                              "box": list(p.bounds) if p.bounds else None, "score": p.score, "uncertainty_px": off[0],
                              "uncertainty_m": off[1] if metres is not None else None}
                             for p, at, off in zip((first, second), lonlat or (None, None), offs, strict=True)]
    kinds = "coordinates" if {first.kind, second.kind} == {"coordinates"} else "+".join(sorted({first.kind, second.kind}))
    return ToolOutcome(
        configuration=Configuration(coarse="measurement", fine=f"measurement/{method.measure}/{kinds}"),
        inputs=(input_ref(scene),), arguments_passed=arguments.model_dump(mode="json"),
        result=Result(kind="statistic" if unit == "deg" else "distance", value=value, unit=unit, layers=layers,
                      quantity="azimuth" if unit == "deg" else "distance between landmarks", interval=(low, value + off)),
        evidence=Evidence(
            source={"method": {"kind": "geodesic" if unit == "deg" else how, "ellipsoid": "WGS 84" if lonlat else None,
                               "box": "its middle"},
                    "thresholds": {"detector_share_of_box": DETECTOR_SHARE}, "sensor": scene.sensor or "unknown",
                    "resolution_m": gsd},
            intermediate={"features": 2, "candidates": 2, "kept": 2, "landmarks": told,
                          "landmarks_px": [list(first.px), list(second.px)],
                          "landmarks_lonlat": [list(at) for at in lonlat] if lonlat else None, "distance_px": px,
                          "distance_m": metres, "azimuth_deg": azimuth, "azimuth_back_deg": back,
                          "uncertainty_m": off_m if metres is not None else None, "uncertainty_px": off_px,
                          "numerator": value, "denominator": 1,
                          "filters": [{"name": "landmarks placed", "before": 2, "after": 2}], "valid_px": sum(seen), "n_px": 2,
                          **({} if veil is None else {"quality_masked": {
                              "n_px": _n_hidden(why), "of_px": sum(seen) + _n_hidden(why),
                              "share": _n_hidden(why) / (sum(seen) + _n_hidden(why))}})},
            validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True,
                      "quality_mask": None if veil is None else [veil.told(_n_hidden(why), sum(seen) + _n_hidden(why))],
                      "valid_share": sum(seen) / 2, "applicability": {"ok": all(seen), "problems": [
                          f"{p.name} {w}" for p, w in zip((first, second), why, strict=True) if w]},
                      "not_for": ["heights and ways along the ground: the line is the shortest on the ellipsoid"]}))


def _why_not_seen(ctx: ToolContext, scene: SceneInfo, veil: Veil | None, *places: _Place) -> tuple[str, ...]:
    """Why the pixel of each place shows nothing: it holds no valid sample, or cloud or shadow hide it; '' where it does."""
    reader, grid = ctx.reader(scene.scene_id), scene.grid
    bands = [b.index for b in scene.bands]
    out = []
    for place in places:
        col, row = min(grid.width - 1, max(0, int(place.px[0]))), min(grid.height - 1, max(0, int(place.px[1])))
        at = (col, row, 1, 1)
        if not reader.read(bands, at, physical=False).valid.any():
            out.append("lies on a pixel without data")
        else:
            out.append("lies under cloud or shadow" if veil is not None and veil.hidden(at)[0, 0] else "")
    return tuple(out)


def _n_hidden(why: tuple[str, ...]) -> int:
    return sum(w == "lies under cloud or shadow" for w in why)


def _typed(given: str | PlacedLandmark, name: str) -> PlacedLandmark:
    if isinstance(given, PlacedLandmark):
        return given if given.name else given.model_copy(update={"name": name})
    found = _TEXT.fullmatch(given)
    if found is None:
        raise ToolAbstainedError(f"The landmark {given!r} is no coordinate (px:COLUMN,ROW or lonlat:LON,LAT); point at it on the "
                                 "image, or measure between detected objects.", code="NEEDS_LANDMARKS",
                                 needs={"landmarks": [given]})
    return PlacedLandmark(name=name, point=(float(found[2]), float(found[3])), crs="image" if found[1] == "px" else "EPSG:4326")


def _place(ctx: ToolContext, scene: SceneInfo, one: PlacedLandmark, asked: list[PlacedLandmark]) -> _Place:
    if one.layer is not None:
        return _found(ctx, scene, one, sum(other.layer == one.layer for other in asked))
    box = one.box
    if box is not None and not (box[0] < box[2] and box[1] < box[3]):
        raise ModelError(f"The box of {one.name} encloses nothing.", code="BAD_ARGUMENT")
    if one.crs == "EPSG:4326" and scene.grid.crs is None:
        raise ModelError(f"{scene.name} has no CRS, so longitude and latitude have no place on it.", code="NEEDS_CRS",
                         needs={"crs": True})
    x, y = one.point or (math.nan, math.nan)
    if box is not None:
        x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    at = pixel_on(scene.grid, x, y, one.crs)
    if at is None:
        raise ModelError(f"The landmark {one.name} ({x:g}, {y:g}) lies outside {scene.name}.", code="BAD_ARGUMENT")
    kind = "box" if box is not None else "point" if one.precision is not None else "coordinates"
    clicked = one.precision or 0.0
    if one.crs == "image":
        return _Place(one.name, kind, at, max(1.0, clicked), bounds=box)
    return _Place(one.name, kind, at, off_m=clicked, bounds=box)


def _found(ctx: ToolContext, scene: SceneInfo, one: PlacedLandmark, wanted: int) -> _Place:
    """The middle of the box that a detector found: from left to right where two of one kind are meant."""
    assert one.layer is not None
    parent = ctx.parent(one.layer.observation)
    refs = [r for r in parent.result.layers if r.kind in ("boxes", "polygons") and not r.is_aside
            and one.layer.label in ("", r.label) and r.source_scene_id in (None, scene.scene_id)]
    if len(refs) != 1 or refs[0].crs != "image":
        raise ModelError(f"The observation has no one layer of boxes {one.layer.label!r} on {scene.name}.", code="BAD_ARGUMENT")
    held = sorted(((shape(f["geometry"]).bounds, (f.get("properties") or {}).get("score"))
                   for f in ctx.layers.read_features(refs[0])), key=lambda pair: pair[0])
    boxes = [bounds for bounds, _ in held]
    if len(boxes) != wanted:
        what = one.layer.label or "things"
        raise ToolAbstainedError(
            f"The detector found {len(boxes)} × {what}, and {wanted} {'was' if wanted == 1 else 'were'} meant, so it is not "
            "known which. Mark the places on the map.", code="NEEDS_LANDMARKS", needs={"landmarks": [one.name]})
    x0, y0, x1, y1 = boxes[one.index if wanted > 1 else 0]
    score = held[one.index if wanted > 1 else 0][1]
    middle = (x0 + x1) / 2, (y0 + y1) / 2
    if not is_on(scene.grid, *middle):
        raise ModelError(f"{one.name} lies outside {scene.name}.", code="BAD_ARGUMENT")
    return _Place(one.name, "detector", middle, max(1.0, DETECTOR_SHARE * max(x1 - x0, y1 - y0)), bounds=(x0, y0, x1, y1),
                  score=float(score) if isinstance(score, (int, float)) else None)


def _lonlat(scene: SceneInfo, places: list[tuple[float, float]]) -> list[tuple[float, float]] | None:
    """Longitude and latitude on WGS 84; None without a CRS."""
    if scene.grid.crs is None:
        return None
    t = transformer(scene.grid.crs, "EPSG:4326")
    found = [t.transform(*scene.grid.xy(*at)) for at in places]
    if not all(math.isfinite(v) for at in found for v in at):
        raise ModelError(f"A landmark on {scene.name} has no longitude and latitude.", code="BAD_ARGUMENT")
    return [(float(lon), float(lat)) for lon, lat in found]


def _geodesic(lonlat: list[tuple[float, float]] | None) -> tuple[float | None, float | None, float | None]:
    """(metres, azimuth at the first, azimuth at the second back to the first), degrees from 0 to 360; None without a CRS."""
    if lonlat is None:
        return None, None, None
    forth, back, metres = geod_of("EPSG:4326").inv(*lonlat[0], *lonlat[1])
    return float(metres), float(forth) % 360, float(back) % 360


def _across(scene: SceneInfo, metres: float | None, share: float, first: _Place, second: _Place) -> float:
    """By how much of their distance two places may lie off to the side, where a pixel may be longer than on the way between
    them; ``share``: along the way."""
    if metres is None or scene.grid.crs is None:
        return share
    middle = [(p + q) / 2 for p, q in zip(first.px, second.px, strict=True)]
    side = max(scene.grid.pixel_sides_m(*middle))
    return max(share, math.hypot(*(max(place.off_px * side, place.off_m) for place in (first, second))) / metres)


def _bearing(scene: SceneInfo, azimuth: float | None, share: float, first: _Place, second: _Place) -> tuple[float, float]:
    """(degrees, how far they may be off); ``share``: by how much of their distance the places may lie off."""
    if azimuth is None:
        raise ToolAbstainedError(f"{scene.name} has no coordinate system, so nobody knows where its north is.", code="NEEDS_CRS",
                                 needs={"crs": True})
    if share >= 1:
        raise ToolAbstainedError(f"{first.name} and {second.name} lie closer together than they were marked exactly, so the "
                                 "bearing could be any; zoom in and mark them again.", code="NEEDS_LANDMARKS",
                                 needs={"landmarks": [first.name, second.name]})
    return azimuth, math.degrees(math.asin(share))


def _turn_of_north(first: _Place, lonlat: tuple[float, float], off_m: float) -> float:
    """By how many degrees north may turn where the first place lies so far off: meridians meet at the poles. ToolAbstainedError
    where it may be a pole itself, where every direction is south or north."""
    lon, lat = lonlat
    to_pole = geod_of("EPSG:4326").inv(lon, lat, lon, math.copysign(90.0, lat))[2]
    if to_pole <= off_m:
        raise ToolAbstainedError(f"{first.name} lies at a pole, as exactly as it was marked: there is no bearing from there.",
                                 code="NEEDS_LANDMARKS", needs={"landmarks": [first.name]})
    return math.degrees(math.asin(off_m / to_pole))


def _layers(ctx: ToolContext, scene: SceneInfo, *places: _Place) -> tuple[LayerRef, ...]:
    def feature(place: _Place) -> dict[str, Any]:
        return {"type": "Feature", "geometry": {"type": "Point", "coordinates": list(place.px)},
                "properties": {"landmark": place.name, "label": place.name, "kind": place.kind}}

    return (ctx.layers.put_features([feature(p) for p in places], kind="points", crs="image", label="landmarks",
                                    scene_id=scene.scene_id),)
