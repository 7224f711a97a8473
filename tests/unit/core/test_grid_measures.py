"""Grid and measures against independent values: closed forms, EPSG worked figures and pyproj's own geodesics."""

import math

import numpy as np
import pytest
from pyproj import CRS, Geod, Transformer
from shapely.geometry import Point, Polygon, box

from apps.core.geo import Grid, area_of_mask_m2, geodesic_area_m2, geodesic_distance_m, geodesic_length_m
from apps.core.geo.grid import longitude_spans

UTM = Grid(crs="EPSG:32630", transform=(10.0, 0, 624630.0, 0, -10.0, 5622980.0), width=301, height=201)
GEO = Grid(crs="EPSG:4326", transform=(0.01, 0, 10.0, 0, -0.01, 50.0), width=100, height=100)
# authalic ring of the WGS 84 ellipsoid between two parallels (Snyder 1987, eq. 3-12), an independent closed form
E2 = 0.00669437999014
A = 6378137.0


def zone_area(lat1: float, lat2: float, dlon: float) -> float:
    def q(lat: float) -> float:
        s, e = math.sin(math.radians(lat)), math.sqrt(E2)
        return (1 - E2) * (s / (1 - E2 * s * s) - math.log((1 - e * s) / (1 + e * s)) / (2 * e))

    return A * A * math.radians(dlon) * (q(lat2) - q(lat1)) / 2


@pytest.mark.parametrize(
    ("west", "east", "spans"),
    [
        (10.0, 20.0, [(10, 20)]),
        (190.0, 200.0, [(-170, -160)]),  # counted from 0 to 360
        (-190.0, -170.0, [(170, 180), (-180, -170)]),
        (170.0, -170.0, [(170, 180), (-180, -170)]),  # over the antimeridian
        (170.0, 190.0, [(170, 180), (-180, -170)]),
        (0.0, 360.0, [(-180, 180)]),
        (-180.0, 180.0, [(-180, 180)]),
        (340.0, 380.0, [(-20, 20)]),
        (180.0, 180.5, [(-180, -179.5)]),
    ],
)
def test_longitudes_are_the_same_whichever_way_they_are_counted(
    west: float, east: float, spans: list[tuple[float, float]]
) -> None:
    assert longitude_spans(west, east) == spans


def test_geographic_pixels_sum_to_the_authalic_zone() -> None:
    areas = GEO.pixel_areas_m2()
    assert areas.shape == (100, 100)
    # pixel sides are geodesics, the zone's are parallels: they differ by less than 1e-6 at 0.01 degrees
    assert areas.sum() == pytest.approx(zone_area(49.0, 50.0, 1.0), rel=1e-5)
    assert areas[0, 0] < areas[-1, 0]


def test_utm_measures_on_its_grid_and_knows_the_ellipsoid() -> None:
    assert UTM.area_method == "grid"
    assert UTM.gsd_m == 10.0
    found = area_of_mask_m2(np.ones(UTM.shape, dtype=bool), UTM)
    assert found.area_m2 == 301 * 201 * 100.0
    lon, lat = Transformer.from_crs(32630, 4326, always_xy=True).transform(
        *np.array([UTM.xy(c, r) for c, r in ((0, 0), (301, 0), (301, 201), (0, 201))]).T
    )
    truth = abs(Geod(ellps="WGS84").polygon_area_perimeter(lon, lat)[0])
    assert found.geodesic_m2 == pytest.approx(truth, rel=1e-6)


def test_web_mercator_is_never_measured_in_its_own_metres() -> None:
    grid = Grid(crs="EPSG:3857", transform=(10.0, 0, 0.0, 0, -10.0, 8399737.9), width=10, height=10)  # 60 degrees north
    assert grid.area_method == "geodesic"
    found = area_of_mask_m2(np.ones(grid.shape, dtype=bool), grid)
    assert found.area_m2 == pytest.approx(10_000 / 4, rel=0.01)  # scale 1/cos 60 = 2 in each direction
    assert grid.gsd_m == pytest.approx(5.0, rel=0.01)


def test_window_areas_equal_the_whole() -> None:
    whole = GEO.pixel_areas_m2()
    assert np.allclose(GEO.pixel_areas_m2(30, 20), whole[30:50], rtol=1e-9)
    assert np.allclose(GEO.window(10, 30, 50, 20).pixel_areas_m2(), whole[30:50, 10:60], rtol=1e-6)


def test_area_without_crs_needs_a_gsd() -> None:
    grid = Grid(width=4, height=4)
    mask = np.eye(4, dtype=bool)
    with pytest.raises(ValueError, match="GSD"):
        area_of_mask_m2(mask, grid)
    assert area_of_mask_m2(mask, grid, 0.5).area_m2 == 1.0


def test_rotated_grid_positions_are_inverse() -> None:
    grid = Grid(crs="EPSG:32630", transform=(7.0, 3.0, 500000.0, 3.0, -7.0, 5000000.0), width=20, height=30)
    x, y = grid.xy(12.25, 7.5)
    assert grid.colrow(x, y) == pytest.approx((12.25, 7.5))


def test_bounds_across_the_antimeridian_keep_west_greater_than_east() -> None:
    grid = Grid(crs="EPSG:32601", transform=(1000.0, 0, 200000.0, 0, -1000.0, 7000000.0), width=200, height=100)
    west, south, east, north = grid.lonlat_bounds()
    assert west > 170
    assert east < 0
    assert south < north


def test_geodesic_length_and_area_of_a_degree_square() -> None:
    square = box(10, 49, 11, 50)
    assert geodesic_area_m2(square) == pytest.approx(zone_area(49, 50, 1), rel=2e-5)
    hole = Polygon(square.exterior.coords, [box(10.2, 49.2, 10.4, 49.4).exterior.coords])
    assert geodesic_area_m2(hole) == pytest.approx(zone_area(49, 50, 1) - zone_area(49.2, 49.4, 0.2), rel=2e-5)
    meridian = 111_229.0  # metres of a degree of latitude at 49.5 degrees (WGS 84)
    assert geodesic_length_m(square) > 2 * meridian


@pytest.mark.parametrize(
    ("one", "other"), [((2.3522, 48.8566), (13.4050, 52.5200)), ((0, 0), (0.001, 0)), ((-3.7, 40.4), (-3.7, 40.5))]
)
def test_distance_of_points_is_the_geodesic(one: tuple[float, float], other: tuple[float, float]) -> None:
    assert geodesic_distance_m(Point(one), Point(other)) == pytest.approx(Geod(ellps="WGS84").inv(*one, *other)[2], rel=1e-6)


def test_distance_of_touching_shapes_is_zero() -> None:
    assert geodesic_distance_m(box(0, 0, 1, 1), box(1, 0, 2, 1)) == pytest.approx(0, abs=1e-6)


def test_a_changed_copy_of_a_grid_has_figures_of_its_own() -> None:
    grid = Grid(crs="EPSG:32630", transform=(10.0, 0.0, 6e5, 0.0, -10.0, 5.6e6), width=40, height=30)
    assert (grid.gsd_m, grid.grid_pixel_area_m2) == (10.0, 100.0)
    coarse = grid.model_copy(update={"transform": (20.0, 0.0, 6e5, 0.0, -20.0, 5.6e6)})
    assert (coarse.gsd_m, coarse.grid_pixel_area_m2) == (20.0, 400.0)
    assert coarse.bounds == (6e5, 5.6e6 - 600, 6e5 + 800, 5.6e6) and grid.model_copy() == grid


@pytest.mark.parametrize("grid", [
    GEO,
    Grid(crs="EPSG:3857", transform=(40.0, 0.0, 0.0, 0.0, -40.0, 6_500_000.0), width=257, height=130),
    Grid(crs="EPSG:32630", transform=(10.0, 3.0, 600_000.0, 2.0, -10.0, 5_600_000.0), width=1, height=90),
    Grid(crs="EPSG:3857", transform=(900.0, 0.0, 0.0, 0.0, -900.0, 9_000_000.0), width=20, height=2),
])
def test_the_area_of_a_mask_is_the_sum_of_its_pixels_areas(grid: Grid) -> None:
    rng = np.random.default_rng(4)
    for mask in (rng.random(grid.shape) < 0.3, np.zeros(grid.shape, bool), np.ones(grid.shape, bool)):
        assert grid.geodesic_area_of_m2(mask) == pytest.approx(float((grid.pixel_areas_m2() * mask).sum()), rel=1e-12)
    with pytest.raises(ValueError, match="rows and columns"):
        grid.geodesic_area_of_m2(np.ones((3, 3), bool))


def test_ground_distances_have_their_own_direction() -> None:
    grid = Grid(crs="EPSG:4326", transform=(1e-4, 0, 10, 0, -1e-4, 60), width=100, height=100)
    # WGS 84 by hand: radii of curvature at 59.995 north, times a ten-thousandth of a degree
    a, e2, phi = 6378137.0, 0.0066943799901413165, math.radians(59.995)
    across, along = a / math.sqrt(1 - e2 * math.sin(phi) ** 2), a * (1 - e2) / (1 - e2 * math.sin(phi) ** 2) ** 1.5
    step = math.radians(1e-4)
    assert grid.pixel_sides_m() == pytest.approx((across * math.cos(phi) * step, along * step), rel=1e-6)
    assert grid.ground_m([0, 0], [50, 0], [100, 0], [50, 100]) == pytest.approx(
        [100 * across * math.cos(phi) * step, 100 * along * step], rel=1e-6)
    over = Grid(crs="EPSG:4326", transform=(1.0, 0, 179, 0, -1.0, 1), width=2, height=2)
    assert over.ground_m(0.5, 1, 1.5, 1) == pytest.approx(math.radians(1) * a, rel=1e-9)
    with pytest.raises(ValueError, match="no CRS"):
        Grid(width=2, height=2).ground_m(0, 0, 1, 1)


@pytest.mark.parametrize(("crs", "lon", "lat", "side"), [
    ("EPSG:27572", 2.5, 47.0, 10.0), ("EPSG:4807", 2.5, 47.0, 0.001), ("EPSG:4806", 12.0, 42.0, 0.001),
    ("EPSG:26591", 8.5, 45.0, 10.0), ("EPSG:27700", -1.5, 53.0, 25.0), ("EPSG:2263", -74.0, 40.7, 30.0)])
def test_grads_and_meridians_of_paris_and_rome_are_turned_into_degrees_from_greenwich(
        crs: str, lon: float, lat: float, side: float) -> None:
    x, y = Transformer.from_crs("EPSG:4326", crs, always_xy=True).transform(lon, lat)
    grid = Grid(crs=crs, transform=(side, 0, x, 0, -side, y), width=100, height=100)
    # the outline on WGS 84, its area by geodesics of that ellipsoid: the old datums' own differ by 1e-4 at most
    back = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    along = np.linspace(0, 100, 51)
    ring = np.array([(t, 0.0) for t in along] + [(100.0, t) for t in along] + [(100 - t, 100.0) for t in along]
                    + [(0.0, 100 - t) for t in along])
    lons, lats = back.transform(x + side * ring[:, 0], y - side * ring[:, 1])
    area = abs(Geod(ellps="WGS84").polygon_area_perimeter(lons, lats)[0])
    assert float(grid.pixel_areas_m2().sum()) == pytest.approx(area, rel=1e-4)
    assert grid.gsd_m == pytest.approx(math.sqrt(area) / 100, rel=1e-3)
    # maps show it where WGS 84 has it, whatever its datum
    assert grid.lonlat_bounds() == pytest.approx((lons.min(), lats.min(), lons.max(), lats.max()), abs=2e-7)


def test_degrees_of_another_datum_go_on_beyond_180() -> None:
    grid = Grid(crs="EPSG:4269", transform=(0.1, 0, 179.0, 0, -0.1, 52.0), width=20, height=10)
    assert grid.lonlat_bounds() == pytest.approx((179, 51, 181, 52), abs=1e-4)


def test_a_rotated_pole_has_its_places_and_areas_on_the_globe() -> None:
    crs = CRS.from_cf({"grid_mapping_name": "rotated_latitude_longitude", "grid_north_pole_latitude": 39.25,
                       "grid_north_pole_longitude": -162.0}).to_wkt()
    grid = Grid(crs=crs, transform=(0.1, 0, -2.0, 0, -0.1, 2.0), width=40, height=40)
    # the middle of the rotated grid is opposite to the pole's meridian, 90 degrees from the pole
    assert grid.lonlat(0.0, 0.0) == pytest.approx((18.0, 50.75))
    middle = Geod(ellps="WGS84")
    lon, lat = grid.lonlat(np.array([-0.1, 0.0, 0.0, -0.1]), np.array([0.1, 0.1, 0.0, 0.0]))
    area = abs(middle.polygon_area_perimeter(lon, lat)[0])
    assert float(grid.pixel_areas_m2()[19, 19]) == pytest.approx(area, rel=1e-6)
    assert grid.area_method == "geodesic"


@pytest.mark.parametrize(("grid", "expected"), [
    (Grid(crs="EPSG:3413", transform=(25000.0, 0, -3850000.0, 0, -25000.0, 5850000.0), width=304, height=448), (-180, 180, 90)),
    (Grid(crs="EPSG:3031", transform=(25000.0, 0, -3950000.0, 0, -25000.0, 4350000.0), width=316, height=332), (-180, 180, -90)),
    (Grid(crs="EPSG:6933", transform=(36032.220840584, 0, -17367530.45, 0, -36032.220840584, 7314540.83), width=964, height=406),
     (-180, 180, 85.0445))])
def test_bounds_about_a_pole_and_round_the_globe_hold_all_longitudes(grid: Grid, expected: tuple[float, float, float]) -> None:
    west, south, east, north = grid.lonlat_bounds()
    assert (west, east) == pytest.approx(expected[:2], abs=1e-3)
    assert (south if expected[2] == -90 else north) == pytest.approx(expected[2], abs=1e-3)
    assert south < north
