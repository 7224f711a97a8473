"""A region's pixels are those whose centre GEOS finds inside: on any window, also where the outline passes centres."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import shapely
from pyproj import Transformer
from shapely.geometry import LineString, MultiPolygon, Polygon, box
from shapely.ops import split

from apps.core.geo import Grid
from apps.core.geo.raster import CENTRE_NUDGE
from apps.tools.region import RegionMask

GRID = Grid(crs=None, transform=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0), width=700, height=600)
WINDOWS = ((0, 0, 700, 600), (512, 0, 188, 512), (256, 256, 256, 256), (33, 77, 5, 3))


def stars() -> Iterator[Polygon]:
    draw = np.random.default_rng(3)
    for k in range(24):
        n = int(draw.integers(3, 40))
        angle, radius = np.sort(draw.uniform(0, 2 * np.pi, n)), draw.uniform(20, 300, n)
        x, y = draw.uniform(100, 500, 2)
        star = Polygon(np.stack([x + radius * np.cos(angle), y + radius * np.sin(angle)], axis=1))
        # vertices and edges on the centres of pixels, on their corners, or anywhere
        yield shapely.set_precision(star, (0.0, 0.5, 1.0)[k % 3])
        yield star.difference(shapely.set_precision(star.buffer(-10), 0.5))


EDGES = (
    box(10.5, 20.5, 100.5, 200.5), box(10, 20, 100, 200), box(-50, -50, 800, 800), box(0.5, 0.5, 1.5, 1.5).buffer(0.1),
    MultiPolygon([box(10.5, 20.5, 100.5, 200.5), box(200, 300.5, 400, 400)]),
    # almost along a row of centres
    Polygon([(0, 10.5), (700, 10.5000001), (700, 300.5), (0, 300.4999999)]),
    Polygon([(0, 0), (700, 10.5 + 1e-9), (700, 300), (0, 300)]),
)  # fmt: skip


@pytest.mark.parametrize("polygon", [*EDGES, *(p for p in stars() if p.is_valid and p.area > 5)])
def test_a_pixel_is_inside_where_its_centre_is(polygon: Polygon) -> None:
    region = RegionMask(polygon, GRID)
    for c, r, w, h in WINDOWS:
        x, y = np.meshgrid(np.arange(c, c + w) + 0.5, np.arange(r, r + h) + 0.5)
        inside = shapely.contains_xy(polygon, x + CENTRE_NUDGE[0], y + CENTRE_NUDGE[1])
        assert np.array_equal(region.mask((c, r, w, h)), inside)


@pytest.mark.parametrize("cut", [10.0, 10.5, 33.25, 598.5])
def test_of_two_polygons_with_a_common_outline_each_pixel_is_in_one(cut: float) -> None:
    # straight cuts through rows or columns of centres, and slanted ones through single centres
    whole = box(0, 0, 700, 600)
    for line in ([(cut, 0), (cut, 600)], [(0, cut), (700, cut)], [(cut, 0), (cut + 100, 600)], [(0, cut), (700, 600 - cut)],
                 [(0.5, 0.5), (599.5, 599.5), (700, 600)]):
        parts = list(shapely.get_parts(split(whole, LineString(line))))
        held = [RegionMask(p, GRID) for p in parts]
        counts = np.sum([r.mask((0, 0, 700, 600)) for r in held], axis=0)
        assert (counts == 1).all() and sum(r.n_px for r in held) == 700 * 600


def test_a_tessellation_loses_no_pixel_and_counts_none_twice() -> None:
    # cells between lattice points that are pixel centres: every edge and corner passes through centres
    xs, ys = [-1.0, *np.arange(20.5, 690, 41), 701.0], [-1.0, *np.arange(10.5, 590, 37), 601.0]
    total = np.zeros((600, 700), dtype=int)
    for x0, x1 in pairwise(xs):
        for y0, y1 in pairwise(ys):
            for cell in (Polygon([(x0, y0), (x1, y0), (x1, y1)]), Polygon([(x0, y0), (x1, y1), (x0, y1)])):
                total += RegionMask(cell, GRID).mask((0, 0, 700, 600))
    assert (total == 1).all()


SQUARES = {"east": [(178, 182)], "beyond": [(538, 542)], "west": [(-182, -178)], "two parts": [(178, 180), (-180, -178)]}


@pytest.mark.parametrize("spans", SQUARES.values(), ids=SQUARES)
@pytest.mark.parametrize(("first", "width", "side"), [
    (170.0, 20, 1.0), (-190.0, 20, 1.0), (-180.0, 360, 1.0), (0.0, 360, 1.0), (190.0, 20, -1.0)])
def test_a_region_over_the_antimeridian_is_found_on_any_grid_in_degrees(spans: list[tuple[float, float]], first: float,
                                                                        width: int, side: float) -> None:
    grid = Grid(crs="EPSG:4326", transform=(side, 0.0, first, 0.0, -1.0, -10.0), width=width, height=10)
    region = {"type": "MultiPolygon", "coordinates": [[[[w, -15], [e, -15], [e, -12], [w, -12], [w, -15]]] for w, e in spans]}
    mask = RegionMask.of(region, "EPSG:4326", grid).mask((0, 0, width, 10))
    lon = (first + side * (np.arange(width) + 0.5) + 180) % 360 - 180
    lat = -10.5 - np.arange(10)
    expected = ((lon > 178) | (lon < -178))[None] & ((lat > -15) & (lat < -12))[:, None]
    assert np.array_equal(mask, expected) and mask.sum() == 12


def test_a_region_over_the_antimeridian_is_found_on_a_zone_of_utm() -> None:
    grid = Grid(crs="EPSG:32601", transform=(1000.0, 0.0, 350_000.0, 0.0, -1000.0, 8_000_000.0), width=100, height=60)
    col, row = np.meshgrid(np.arange(100) + 0.5, np.arange(60) + 0.5)
    back = Transformer.from_crs("EPSG:32601", "EPSG:4326", always_xy=True)
    lon, lat = back.transform(350_000 + 1000 * col, 8_000_000 - 1000 * row)
    expected = (np.abs(lon) > 179.5) & (lat > 71.6) & (lat < 72)
    for spans in ([(179.5, 180.5)], [(-180.5, -179.5)], [(179.5, 180), (-180, -179.5)]):
        rings = [[[[w, 71.6], [e, 71.6], [e, 72], [w, 72], [w, 71.6]]] for w, e in spans]
        region = {"type": "MultiPolygon", "coordinates": rings}
        mask = RegionMask.of(region, "EPSG:4326", grid).mask((0, 0, 100, 60))
        assert expected.sum() > 500 and (mask != expected).sum() <= 3  # parallels are drawn as 64 straight lines
