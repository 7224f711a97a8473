"""Geometries of a GeoJSON value: a geometry, a feature or a collection, with the properties of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import shapely
from pyproj import CRS
from pyproj.exceptions import CRSError
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.errors import FaultError, ModelError
from apps.core.geo.grid import transformer
from apps.core.geo.shapes import most_extended
from apps.core.ports import LayerStore

MAX_FEATURES = 100_000
DEGREES = "EPSG:4326"


def crs_of(value: Mapping[str, Any], told: str = DEGREES) -> str:
    """The CRS of a GeoJSON value: that of its own member ``crs``, else ``told`` (``image``: pixels).

    ModelError (BAD_REGION) where one of them is not known, has no place on the globe, or the two differ; a ``told`` that is the
    default of GeoJSON gives way to the value's own.
    """
    found = None if told == "image" else _known(told)
    member = value.get("crs")
    if member is None:
        return told
    properties = member.get("properties") if isinstance(member, Mapping) else None
    name = properties.get("name") if isinstance(properties, Mapping) else None
    if not isinstance(name, str):
        raise ModelError("The geometry's own crs member names no CRS; name it like EPSG:32630, or leave it out.",
                         code="BAD_REGION")
    own = _known(name)
    if found is not None and own.equals(found, ignore_axis_order=True):
        return told
    if told != DEGREES:
        said = "that it is in pixels" if told == "image" else told[:60]
        raise ModelError(f"The geometry says that its CRS is {name[:60]}, the call says {said}; give one of them.",
                         code="BAD_REGION")
    code = own.to_epsg()
    return DEGREES if "CRS84" in name else f"EPSG:{code}" if code else own.to_wkt()


@lru_cache(maxsize=64)
def _known(text: str) -> CRS:
    try:
        crs = CRS.from_user_input(text)
    except CRSError as error:
        raise ModelError(f"The CRS {text[:60]!r} is not known; name it like EPSG:32630.", code="BAD_REGION",
                         needs={"crs": True}) from error
    if not (crs.is_projected or crs.is_geographic):
        raise ModelError(f"The CRS {text[:60]} ({crs.name}) has no place on the globe.", code="BAD_REGION", needs={"crs": True})
    return crs


def on_the_globe(geometries: Sequence[BaseGeometry], crs: str, what: str = "The geometry") -> None:
    """ModelError (BAD_REGION) where a coordinate is no place on the globe in this CRS (degrees beyond their range, metres told as
    degrees, a projection without an answer), or a part spans more than half the globe: one that crosses the antimeridian is given
    in two parts, or with longitudes beyond 180. Pixels (``image``) are not looked at."""
    if crs == "image" or not geometries:
        return
    if not _known(crs).is_geographic:
        at = shapely.get_coordinates(list(geometries))
        if not np.isfinite(np.column_stack(transformer(crs, DEGREES).transform(at[:, 0], at[:, 1]))).all():
            raise ModelError(f"{what} has coordinates that have no place in {crs[:60]}; are they in another CRS, or latitude "
                             "first?", code="BAD_REGION")
        return
    for part in shapely.get_parts(shapely.get_parts(list(geometries))):
        west, south, east, north = part.bounds
        if south < -90 or north > 90:
            raise ModelError(f"{what} has latitudes beyond 90 degrees; give longitude first, latitude second. If the numbers are "
                             "metres, name their CRS.", code="BAD_REGION")
        if west < -360 or east > 360:
            raise ModelError(f"{what} has longitudes beyond 360 degrees. If the numbers are metres, name their CRS.",
                             code="BAD_REGION")
        longest = float(np.abs(np.diff(shapely.get_coordinates(part)[:, 0])).max(initial=0))
        if longest > 180 or (part.geom_type == "Polygon" and east - west > 180):
            raise ModelError(f"{what} spans more than 180 degrees of longitude; what crosses the antimeridian is given in two "
                             "parts.", code="BAD_REGION")


def geometries_of(value: Mapping[str, Any]) -> tuple[list[BaseGeometry], list[dict[str, Any]]]:
    """(geometries, properties). ModelError (BAD_REGION) where one is unreadable, empty, invalid or not finite."""
    kind = value.get("type")
    if kind == "FeatureCollection":
        features = list(value.get("features") or [])
    elif kind == "Feature":
        features = [dict(value)]
    elif kind == "GeometryCollection":
        features = [{"geometry": g} for g in value.get("geometries") or []]
    else:
        features = [{"geometry": dict(value)}]
    if len(features) > MAX_FEATURES:
        raise ModelError(f"{len(features)} features are more than {MAX_FEATURES}.", code="TOO_LARGE")
    out: list[BaseGeometry] = []
    properties: list[dict[str, Any]] = []
    for number, feature in enumerate(features, 1):
        try:
            geometry = shape(feature["geometry"])
            finite = bool(np.isfinite(shapely.get_coordinates(geometry)).all())
        except Exception as error:
            raise ModelError(f"Feature {number} has no readable geometry.", code="BAD_REGION") from error
        if geometry.is_empty or not finite:
            raise ModelError(f"Feature {number} is empty or not finite.", code="BAD_REGION")
        if not geometry.is_valid:
            raise ModelError(f"Feature {number} is not valid: {shapely.is_valid_reason(geometry)}.", code="BAD_REGION")
        out.append(most_extended(geometry))
        properties.append(dict(feature.get("properties") or {}))
    if not out:
        raise ModelError("There is no feature.", code="BAD_REGION")
    return out, properties


def vector_of(layers: LayerStore, digest: str) -> tuple[list[BaseGeometry], list[dict[str, Any]], str]:
    """(geometries, properties, CRS) of a kept vector file. ModelError (NOT_FOUND, BAD_REGION) where there is none."""
    try:
        features, crs = layers.read_vector(digest)
    except (KeyError, FaultError) as error:
        raise ModelError("The vector file is not one of this project.", code="NOT_FOUND") from error
    found, properties = geometries_of({"type": "FeatureCollection", "features": features})
    return found, properties, crs
