"""Outlines on the globe."""

import numpy as np
import pytest
import shapely
from pyproj import Transformer
from shapely.geometry import Point

from apps.core.geo import Grid
from apps.core.geo.measures import geodesic_area_m2
from apps.imagery.footprints import footprint


def test_an_outline_has_the_area_of_its_grid() -> None:
    grid = Grid(crs="EPSG:32630", transform=(10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0), width=500, height=400)
    outline = footprint(grid)
    assert outline is not None
    assert geodesic_area_m2(outline) == pytest.approx(500 * 400 * 100, rel=2e-3)


def test_over_the_antimeridian_it_is_cut_in_two() -> None:
    grid = Grid(crs="EPSG:32601", transform=(1000.0, 0.0, 150000.0, 0.0, -1000.0, 5700000.0), width=300, height=300)
    outline = footprint(grid)
    assert outline is not None
    assert outline.geom_type == "MultiPolygon"
    west, _, east, _ = outline.bounds
    assert (west, east) == (-180, 180)
    assert geodesic_area_m2(outline) == pytest.approx(300 * 300 * 1e6, rel=1e-2)


def test_degrees_beyond_180_are_turned_back() -> None:
    outline = footprint(Grid(crs="EPSG:4326", transform=(1.0, 0.0, 170.0, 0.0, -1.0, 10.0), width=20, height=10))
    assert outline is not None
    assert sorted(p.bounds for p in outline.geoms) == [(-180, 0, -170, 10), (170, 0, 180, 10)]


def test_without_a_crs_there_is_none() -> None:
    assert footprint(Grid(width=5, height=5)) is None


@pytest.mark.parametrize(("crs", "x", "y", "rows"), [
    ("EPSG:3413", -3850000.0, 5850000.0, 448), ("EPSG:3031", -3950000.0, 4350000.0, 332)])
def test_about_a_pole_the_outline_holds_the_pole(crs: str, x: float, y: float, rows: int) -> None:
    grid = Grid(crs=crs, transform=(25000.0, 0.0, x, 0.0, -25000.0, y), width=304, height=rows)
    outline = footprint(grid)
    assert outline is not None and outline.is_valid
    pole = 90 if crs == "EPSG:3413" else -90
    for lon in (-170, -10, 100):
        assert outline.covers(Point(lon, pole * 0.99)) and outline.covers(Point(lon, pole * 0.8)), lon
        assert not outline.covers(Point(lon, -pole * 0.5))
    # in an equal-area projection of the globe: as large as its pixels are on the ellipsoid
    to = Transformer.from_crs("EPSG:4326", "EPSG:6933", always_xy=True)
    dense = shapely.segmentize(outline, 0.5)
    flat = shapely.transform(dense, lambda p: np.column_stack(to.transform(p[:, 0], p[:, 1])))
    assert flat.area == pytest.approx(float(grid.pixel_areas_m2().sum()), rel=5e-3)
