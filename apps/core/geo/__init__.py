"""Grids, bands, masked rasters, the one nodata policy, geodesic measures."""

from apps.core.geo.bands import BAND_ROLES, Band, FillRule
from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2, geodesic_area_m2, geodesic_distance_m, geodesic_length_m
from apps.core.geo.raster import MaskedRaster, valid_mask
from apps.core.geo.scene import SceneInfo

__all__ = [
    "BAND_ROLES",
    "Band",
    "FillRule",
    "Grid",
    "MaskedRaster",
    "SceneInfo",
    "area_of_mask_m2",
    "geodesic_area_m2",
    "geodesic_distance_m",
    "geodesic_length_m",
    "valid_mask",
]
