"""Footprints as a map draws them: few points, and no pixel of a screen away from the whole outline."""

from __future__ import annotations

import json

import pytest
from django.contrib.gis.geos import GEOSGeometry
from shapely.geometry import shape

from apps.core.geo.grid import Grid
from apps.imagery.footprints import footprint
from rsure_web.pages import _outline

SINUSOIDAL = "+proj=sinu +lon_0=0 +x_0=0 +y_0=0 +R=6371007.181 +units=m +no_defs"


@pytest.mark.parametrize(
    ("grid", "most_bytes"),
    [
        (Grid(crs="EPSG:32616", transform=(30.0, 0, 452395.0, 0, -30.0, 3408800.0), width=627, height=603), 420),
        (Grid(crs="EPSG:32617", transform=(0.1, 0, 404211.9, 0, -0.1, 3285142.9), width=400, height=400), 420),
        (Grid(crs=SINUSOIDAL, transform=(231.7, 0, -6073798.0, 0, -231.7, -1278279.0), width=255, height=147), 700),
        (Grid(crs="EPSG:32660", transform=(60.0, 0, 750000.0, 0, -60.0, 7500000.0), width=1800, height=1800), 1600),
        (Grid(crs="EPSG:3413", transform=(25000.0, 0, -2.5e6, 0, -25000.0, 2.5e6), width=200, height=200), 2600),
    ],
)
def test_an_outline_is_drawn_from_few_points_and_lies_where_it_lay(grid: Grid, most_bytes: int) -> None:
    whole = footprint(grid)
    assert whole is not None
    drawn = _outline(GEOSGeometry(memoryview(whole.wkb), srid=4326))
    seen = shape(drawn)
    west, south, east, north = whole.bounds
    assert seen.is_valid and seen.hausdorff_distance(whole) < max(east - west, north - south) / 3000
    assert seen.symmetric_difference(whole).area < 1e-3 * whole.area
    assert len(json.dumps(drawn)) < most_bytes
