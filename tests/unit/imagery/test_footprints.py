"""Outlines on the globe."""

import pytest

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
