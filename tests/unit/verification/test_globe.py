"""The verifier's distances over the globe, beside geodesics between all points of outlines."""

from __future__ import annotations

import geopandas
import numpy as np
import pytest
import shapely
from pyproj import Geod

from apps.verification.globe import gaps_m, stands
from apps.verification.ground import Placed
from tests.shared import DATA, has_shared

GEOD = Geod(ellps="WGS84")
# a, b: corners (0, 60) and (20, 60) are the closest; c crosses the antimeridian from b by itself far away
A, B, C = shapely.box(-10, 55, 0, 60), shapely.box(20, 55, 30, 60), shapely.box(150, -10, 170, 0)


def test_corners_are_joined_by_the_geodesic() -> None:
    corner = float(GEOD.inv(0, 60, 20, 60)[2])
    assert gaps_m(Placed([A]), Placed([B]))[0] == pytest.approx(corner, rel=1e-6)
    # of three, each to its nearest; a parallel of 60° is no geodesic, so the corners in the north are nearest
    gaps = gaps_m(Placed([A, B, C]), Placed([A, B, C]), is_same=True)
    assert gaps[:2] == pytest.approx([corner, corner], rel=1e-6)
    # to the north-east corner of B from all of the border of C
    rim = shapely.get_coordinates(shapely.segmentize(C, 0.01))
    assert gaps[2] == pytest.approx(min(GEOD.inv(30, 60, *p)[2] for p in rim), rel=1e-3)


def test_what_touches_or_lies_near_is_measured_in_a_plane() -> None:
    strip = shapely.box(0, 54, 20, 55.0)  # shares an edge with A at its corner and with B
    assert gaps_m(Placed([A]), Placed([strip]))[0] == 0
    near = shapely.box(0.1, 50, 30, 54.9)  # a tenth of a degree east of A's edge, 11 km south of it
    one = float(GEOD.inv(0, 55, 0.1, 54.9)[2])
    assert gaps_m(Placed([A]), Placed([near]))[0] == pytest.approx(one, rel=2e-3)


def test_relations_in_metres_of_far_things() -> None:
    corner = float(GEOD.inv(0, 60, 20, 60)[2])
    things, at = Placed([B, C]), Placed([A])
    for relation, metres, wanted in (
        ("within", corner * 1.01, [True, False]), ("within", corner * 0.99, [False, False]),
        ("beyond", corner * 1.01, [False, True]), ("nearest", 0, [True, False]), ("east_of", 0, [True, True]),
        ("north_of", 0, [False, False]),
    ):  # fmt: skip
        found = stands(relation, things, at, metres, 1)
        assert found is not None and found.tolist() == wanted, (relation, metres)


@pytest.mark.skipif(not has_shared(), reason="the shared data are not at hand")
def test_countries_are_as_far_as_all_their_points_say() -> None:
    world = geopandas.read_file(DATA / "vector/spData_world.gpkg").set_index("name_long").geometry
    for one, other, km in (("Iceland", "Norway", 985.02), ("Cuba", "Jamaica", 147.43), ("Brazil", "New Zealand", 10128.07)):
        a, b = (shapely.get_coordinates(shapely.segmentize(world[n].boundary, 0.05)) for n in (one, other))
        (x1, y1), (x2, y2) = np.radians(a).T[:, :, None], np.radians(b).T
        half = np.sin((y2 - y1) / 2) ** 2 + np.cos(y1) * np.cos(y2) * np.sin((x2 - x1) / 2) ** 2
        row, col = np.unravel_index(np.argsort(half, axis=None)[:200], half.shape)
        truth = float(GEOD.inv(a[row, 0], a[row, 1], b[col, 0], b[col, 1])[2].min())
        assert truth / 1000 == pytest.approx(km, rel=2e-3)
        assert gaps_m(Placed([world[one]]), Placed([world[other]]))[0] == pytest.approx(truth, rel=1e-3)
