"""Geometries of a GeoJSON value: a geometry, a feature or a collection, with the properties of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import shapely
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.errors import FaultError, ModelError
from apps.core.ports import LayerStore

MAX_FEATURES = 100_000


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
        out.append(geometry)
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
