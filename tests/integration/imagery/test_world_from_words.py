"""Countries and counties asked of in words: who borders whom, how far over the globe, beside plain geopandas and geodesics."""

from __future__ import annotations

from typing import Any

import geopandas
import numpy as np
import pytest
import shapely
from pyproj import Geod

from apps.accounts.models import Project, User
from apps.imagery.vector_layers import vector_add_now
from tests.integration.imagery.test_attributes_from_words import answers
from tests.integration.imagery.test_cuts_from_words import asked
from tests.shared import DATA, has_shared

GEOD = Geod(ellps="WGS84")
pytestmark = [pytest.mark.django_db, pytest.mark.skipif(not has_shared(), reason="the shared data are not at hand")]


def rim(g: Any) -> Any:
    return shapely.get_coordinates(shapely.segmentize(g.boundary, 0.1))


def metres(one: Any, other: Any) -> float:
    """Of all pairs of points of two outlines the shortest geodesic; 0 where they meet."""
    if one.intersects(other):
        return 0.0
    a, b = rim(one), rim(other)
    (x1, y1), (x2, y2) = np.radians(a).T[:, :, None], np.radians(b).T
    half = np.sin((y2 - y1) / 2) ** 2 + np.cos(y1) * np.cos(y2) * np.sin((x2 - x1) / 2) ** 2
    row, col = np.unravel_index(np.argsort(half, axis=None)[:50], half.shape)
    return float(GEOD.inv(a[row, 0], a[row, 1], b[col, 0], b[col, 1])[2].min())


def test_borders_and_distances_of_countries(analyst: User, project: Project) -> None:
    path = DATA / "vector/spData_world.gpkg"
    world = geopandas.read_file(path).set_index("name_long").geometry
    info = vector_add_now(project=project, path=path, name="world.gpkg").vector_info
    germany = world["Germany"]
    others = world.drop("Germany")
    borders = sorted(others[others.touches(germany)].index)
    assert len(borders) == 9  # as in any atlas
    near = sum(metres(g, germany) <= 500_000 for g in others if g.distance(germany) < 15)
    answers(analyst, project, [
        ("How many countries border Germany?", 9, 0), ("How many countries share a border with Germany?", 9, 0),
        ("How many neighbours does Germany have?", 9, 0), ("How many countries lie within 500 km of Germany?", near, 0),
        ("How far is Iceland from Norway in km?", metres(world["Iceland"], world["Norway"]) / 1000, 1e-3),
        ("What is the distance between France and Germany?", 0, 0),
    ], info)  # fmt: skip
    for text in ("Which countries border Germany?", "What are the neighbours of Germany?", "List the neighbours of Germany"):
        _, answer = asked(analyst, project, text, [info])
        assert not answer.abstained and sorted(str(answer.value).split("; ")) == borders, (text, answer.text)
    _, answer = asked(analyst, project, "How many countries are there per continent?", [info])
    counted = geopandas.read_file(path).continent.value_counts()
    assert dict(row.rsplit(": ", 1) for row in str(answer.value).split("; ")) == {k: str(n) for k, n in counted.items()}
    _, answer = asked(analyst, project, "What is the largest country?", [info])
    assert answer.value == "Russian Federation"
    _, answer = asked(analyst, project, "Which country is closest to Iceland?", [info])
    island = world["Iceland"]
    nearest = min((n for n in ("Greenland", "United Kingdom", "Norway")), key=lambda n: metres(world[n], island))
    assert answer.value == nearest


def test_a_figure_of_the_one_with_the_extreme_of_another(analyst: User, project: Project) -> None:
    path = DATA / "vector/colorado-counties.geojson"
    counties = geopandas.read_file(path).set_index("name").geometry
    info = vector_add_now(project=project, path=path, name="counties.geojson").vector_info
    fine = counties.map(lambda g: shapely.orient_polygons(shapely.segmentize(g, 0.01)))
    km2 = fine.map(lambda g: abs(GEOD.geometry_area_perimeter(g)[0]) / 1e6)
    outline = fine.map(lambda g: GEOD.geometry_length(g.boundary) / 1e3)
    large, small = km2.idxmax(), km2.idxmin()
    assert (large, small) == ("Las Animas", "Broomfield")  # as in the census
    answers(analyst, project, [
        ("What is the perimeter of the largest county in km?", outline[large], 1e-3),
        ("What is the perimeter of the smallest county in km?", outline[small], 1e-3),
        ("What is the perimeter of the county with the largest area in km?", outline[large], 1e-3),
        ("What is the area of the county with the longest perimeter in km2?", km2[outline.idxmax()], 1e-3),
        ("What is the area of the smallest county in km2?", km2[small], 1e-3),
        ("What is the mean area of the counties in square miles?", km2.mean() / 2.589988110336, 1e-3),
        ("median county area in km2", km2.median(), 1e-3),
        ("How far is the largest county from Denver in km?", metres(counties[large], counties["Denver"]) / 1e3, 1e-3),
    ], info)  # fmt: skip
    for text in ("How far is Denver from the largest county?", "What is the mean perimeter of the largest county inside Mesa?"):
        _, answer = asked(analyst, project, text, [info])
        assert answer.abstained, answer.text
