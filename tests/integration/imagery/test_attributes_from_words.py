"""Attributes of many values, of dates and joined by "or": from plain words to a verified figure, beside plain geopandas."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import geopandas
import numpy as np
import pandas
import pytest
import shapely
from pyproj import Geod

from apps.accounts.models import Project, User
from apps.core.geo.vector import MAX_VALUES, VectorInfo
from apps.imagery.vector_layers import vector_add_now
from apps.runs.selectors import run_state
from tests.integration.imagery.test_cuts_from_words import asked
from tests.shared import DATA, has_shared

GEOD = Geod(ellps="WGS84")
pytestmark = [pytest.mark.django_db, pytest.mark.skipif(not has_shared(), reason="the shared data are not at hand")]


def km2(shapes: Any) -> float:
    whole = shapely.orient_polygons(shapely.segmentize(shapely.union_all(list(shapes)), 0.1))
    return abs(float(GEOD.geometry_area_perimeter(whole)[0])) / 1e6


def added(project: Project, path: Path) -> VectorInfo:
    return vector_add_now(project=project, path=path, name=path.name).vector_info


def answers(analyst: User, project: Project, questions: list[tuple[str, float, float]], info: VectorInfo) -> None:
    """Each question gets the value, from an observation that was accepted."""
    for text, wanted, tolerance in questions:
        run, answer = asked(analyst, project, text, [info])
        assert not answer.abstained, (text, answer.text)
        assert answer.value == pytest.approx(wanted, rel=tolerance), (text, answer.text)
        assert all(held.is_accepted for held in run_state(run.pk).history), text


def refusals(analyst: User, project: Project, questions: list[tuple[str, str]], info: VectorInfo) -> None:
    for text, says in questions:
        _, answer = asked(analyst, project, text, [info])
        assert answer.abstained and says in answer.text, (text, answer.text)


def test_limits_of_attributes_with_many_values(analyst: User, project: Project) -> None:
    path = DATA / "vector/spData_world.gpkg"
    world, info = geopandas.read_file(path), added(project, path)
    assert "pop" in info.values and len(info.values["pop"]) == 167
    many = world[world["pop"] > 50_000_000]
    rich = world[(world.gdpPercap >= 30_000) & (world.gdpPercap <= 60_000)]
    answers(analyst, project, [
        ("How many countries have a pop over 50,000,000?", len(many), 0),
        ("How many countries have gdpPercap between 30000 and 60000?", len(rich), 0),
        ("How many countries have lifeExp of at least 80 and under 82?", ((world.lifeExp >= 80) & (world.lifeExp < 82)).sum(), 0),
        ("What is the area of the countries with a pop over 200000000 in km2?", km2(world[world["pop"] > 2e8].geometry), 3e-3),
        ("total area of the countries whose continent is Africa or Oceania",
         km2(world[world.continent.isin(["Africa", "Oceania"])].geometry), 3e-3),
    ], info)  # fmt: skip
    refusals(analyst, project, [
        ("How many countries have lifeExp over 120?", "values lie between 50.621 and 83.58"),
        ("How many countries have iso_a2 over 5?", "Not every iso_a2"),
        ("How many countries with lifeExp not 80 are there?", "No feature of spData_world.gpkg has just the lifeExp"),
    ], info)  # fmt: skip


def test_attributes_whose_values_are_not_listed(analyst: User, project: Project, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nodes = geopandas.read_file(DATA / "vector/Helsinki.osm.pbf", layer="points", on_invalid="ignore")
    nodes = nodes[~nodes.geometry.isna()].sort_values("osm_id").reset_index(drop=True)
    # the place of each in the file twice over, its name, and a day for each
    places = geopandas.GeoDataFrame({
        "serial": np.arange(len(nodes)) // 2, "name": nodes["name"], "kind": nodes.highway,
        "visited": [d.date().isoformat() for d in pandas.date_range("2015-01-01", periods=len(nodes), freq="D")],
    }, geometry=nodes.geometry, crs=nodes.crs)  # fmt: skip
    path = tmp_path / "places.geojson"
    places.to_file(path, driver="GeoJSON")
    info = added(project, path)
    spread = info.spreads["serial"]
    assert len(places) > 2 * MAX_VALUES and (spread.kind, spread.n_values) == ("number", places.serial.nunique())
    assert info.spreads["name"].kind == "text" and info.spreads["visited"].kind == "day"
    crossing = places[places.kind == "crossing"]
    called = places.name.value_counts()
    twice = next(n for n, k in called.items() if k > 1 and '"' not in n and "'" not in n)
    seen = places.visited
    answers(analyst, project, [
        ("How many places with serial under 1000 are there?", (places.serial < 1000).sum(), 0),
        ("How many places with serial over 1000 and at most 3000 are there?", places.serial.between(1001, 3000).sum(), 0),
        ("How many places where serial = 700 are there?", 2, 0),
        (f'How many places where name = "{twice}" are there?', called[twice], 0),
        ("How many places with visited after 2020-06-01 are there?", (seen > "2020-06-01").sum(), 0),
        ("How many places were seen before March 2016?", (seen < "2016-03-01").sum(), 0),
        ("How many places from 2017-01-01 to 2017-06-30 are there?", seen.between("2017-01-01", "2017-06-30").sum(), 0),
        ("How many places with kind crossing are there?", len(crossing), 0),
    ], info)  # fmt: skip
    refusals(analyst, project, [
        ("How many places with serial over 100000 are there?", "lie between 0 and"),
        ("How many places where name is not Kiasma are there?", f"{places.name.nunique():,} values of name"),
        ('How many places where name = "No such place" are there?', "no feature has such a value"),
        ("How many places with name over 5 are there?", f"it has {places.name.nunique():,} values"),
    ], info)  # fmt: skip


def test_limits_of_dates(analyst: User, project: Project, tmp_path: Path) -> None:
    path = tmp_path / "floods.geojson"
    path.write_bytes((DATA / "water_flood/Sen1Floods11_Metadata.geojson").read_bytes())
    info = added(project, path)
    floods = geopandas.read_file(path)
    day = pandas.to_datetime(floods.s1_date)
    answers(analyst, project, [
        ("How many floods with s1_date after 2018-06-01 are there?", (day > "2018-06-01").sum(), 0),
        ("How many floods with s1_date before 2018 are there?", (day < "2018-01-01").sum(), 0),
        ("How many floods with an s1_date in 2018 are there?", (day.dt.year == 2018).sum(), 0),
        ("How many floods have s1_date since 21 September 2018?", (day >= "2018-09-21").sum(), 0),
        ("How many floods have s1_date between 2017-05-30 and 2018-05-07?", day.between("2017-05-30", "2018-05-07").sum(), 0),
    ], info)  # fmt: skip
    refusals(analyst, project, [
        ("How many floods are there after 2018-06-01?", "several attributes of dates (s1_date, s2_date)"),
        ("How many floods with s1_date after 2030-01-01 are there?", "lie between 2016-08-12 and 2019-09-17"),
    ], info)  # fmt: skip
