"""Plain shapes out of mixed ones."""

from __future__ import annotations

import shapely
from shapely.geometry.base import BaseGeometry


def most_extended(geometry: BaseGeometry) -> BaseGeometry:
    """Of a collection of several kinds the polygons, as one geometry; its lines where it has none; else its points. Rings that
    are mended leave lines beside polygons, which have no area and no outline of their own. Others come back as they are."""
    if geometry.geom_type != "GeometryCollection":
        return geometry
    flat = [p for g in shapely.get_parts(geometry) for p in shapely.get_parts(most_extended(g)) if not p.is_empty]
    together = {"Polygon": shapely.union_all, "LineString": shapely.multilinestrings, "Point": shapely.multipoints}
    for wanted, join in together.items():
        held = [p for p in flat if p.geom_type == wanted]
        if held:
            return held[0] if len(held) == 1 else join(held)
    return shapely.GeometryCollection()
