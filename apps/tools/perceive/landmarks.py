"""perceive, mode ``measurement``: the distance between two landmarks given as coordinates.

A landmark is ``px:COLUMN,ROW`` or ``lonlat:LONGITUDE,LATITUDE``. Landmarks named in words need a person's click or a detector's
box: the mode abstains for them instead of guessing a place.
"""

from __future__ import annotations

import math
import re

from pydantic import JsonValue

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import Configuration, Evidence, Result
from apps.core.geo.grid import geod_of, transformer
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import PerceiveArguments, ToolContext, ToolOutcome, input_ref
from apps.tools.perceive.modes import only_scene

_LANDMARK = re.compile(r"\s*(px|lonlat)\s*:\s*(-?\d+(?:\.\d+)?)\s*,\s*(-?\d+(?:\.\d+)?)\s*")


def perceive_measurement(ctx: ToolContext, arguments: PerceiveArguments) -> ToolOutcome:
    """The distance in metres, with one pixel of uncertainty at either end."""
    scene = ctx.scene(only_scene(arguments))
    if len(arguments.landmarks) != 2:
        raise ModelError(f"measurement needs exactly two landmarks; {len(arguments.landmarks)} were given.", code="BAD_ARGUMENT",
                         needs={"landmarks": 2})
    places = [_pixel(scene, text) for text in arguments.landmarks]
    (c1, r1), (c2, r2) = places
    gsd = scene.effective_gsd_m
    if gsd is None:
        raise ToolAbstainedError(f"{scene.name} has neither CRS nor GSD, so pixels have no length; say how many metres a pixel "
                                 "measures.", code="NEEDS_GSD", needs={"gsd_m": True})
    px = math.hypot(c2 - c1, r2 - r1)
    lonlat: JsonValue = None
    if scene.grid.crs is not None:
        t = transformer(scene.grid.crs, "EPSG:4326")
        a, b = (t.transform(*scene.grid.xy(c, r)) for c, r in places)
        lonlat = [[float(a[0]), float(a[1])], [float(b[0]), float(b[1])]]
        metres = float(geod_of("EPSG:4326").inv(*a, *b)[2])
        how = "geodesic"
    else:
        metres, how = px * gsd, "pixels × GSD"
    features = [{"type": "Feature", "geometry": {"type": "Point", "coordinates": [c, r]}, "properties": {"landmark": name}}
                for (c, r), name in zip(places, arguments.landmarks, strict=True)]
    layer = ctx.layers.put_features(features, kind="points", crs="image", label="landmarks", scene_id=scene.scene_id)
    return ToolOutcome(
        configuration=Configuration(coarse="measurement", fine="measurement/coordinates"), inputs=(input_ref(scene),),
        arguments_passed=arguments.model_dump(mode="json"),
        result=Result(kind="distance", value=metres, unit="m", quantity="distance between landmarks", layers=(layer,),
                      interval=(max(0.0, metres - math.sqrt(2) * gsd), metres + math.sqrt(2) * gsd)),
        evidence=Evidence(
            source={"method": {"kind": how}, "thresholds": {}, "sensor": scene.sensor or None, "resolution_m": gsd},
            intermediate={"features": 2, "candidates": 2, "kept": 2, "landmarks_px": [[float(v) for v in p] for p in places],
                          "landmarks_lonlat": lonlat, "distance_px": px, "numerator": metres, "denominator": 1, "scores": None},
            validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True}))


def _pixel(scene: SceneInfo, text: str) -> tuple[float, float]:
    found = _LANDMARK.fullmatch(text)
    if found is None:
        raise ToolAbstainedError(f"The landmark {text!r} is no coordinate (px:COLUMN,ROW or lonlat:LON,LAT); point at it on the "
                                 "image, or measure between detected objects.", code="BAD_ARGUMENT", needs={"landmarks": [text]})
    x, y = float(found[2]), float(found[3])
    if found[1] == "lonlat":
        if scene.grid.crs is None:
            raise ModelError(f"{scene.name} has no CRS, so longitude and latitude have no place on it.", code="NEEDS_CRS",
                             needs={"crs": True})
        x, y = scene.grid.colrow(*transformer("EPSG:4326", scene.grid.crs).transform(x, y))
    if not (0 <= x <= scene.grid.width and 0 <= y <= scene.grid.height):
        raise ModelError(f"The landmark {text!r} lies outside {scene.name}.", code="BAD_ARGUMENT")
    return x, y
