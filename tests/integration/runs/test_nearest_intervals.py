"""The nearest of named points are told with the interval of their distances, as a single distance has it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import shapely
from pyproj import Geod

from apps.accounts.models import Project
from apps.imagery.vector_layers import vector_add_now
from tests.integration.runs.test_things_asked import asked, written

__all__ = ["asked"]

pytestmark = pytest.mark.django_db
# degrees to three digits: a point lies within half a digit of where it stands
SITES = {"Ash": (-1.301, 50.712), "Birch": (-1.295, 50.731), "Cedar": (-1.262, 50.744), "Dogwood": (-1.228, 50.703)}
WELL = (-1.312, 50.709)


@pytest.fixture
def of_points(asked: Any, project: Project, tmp_path: Path) -> Any:
    paths = [
        written(tmp_path / "sites.geojson", list(SITES), [shapely.Point(p) for p in SITES.values()]),
        written(tmp_path / "wells.geojson", ["Well"], [shapely.Point(WELL)]),
    ]
    held = [vector_add_now(project=project, path=p, name=p.name).vector_info for p in paths]
    return lambda text: asked(text, [], held)[0]


def intervals(text: str) -> list[tuple[float, float]]:
    return [(float(a.replace(",", "")), float(b.replace(",", "")))
            for a, b in re.findall(r"interval ([\d,.]+) m to ([\d,.]+) m", text)]  # fmt: skip


def test_the_nearest_tell_their_intervals(of_points: Any) -> None:
    gaps = {n: Geod(ellps="WGS84").inv(*p, *WELL)[2] for n, p in SITES.items()}
    order = sorted(gaps, key=lambda n: gaps[n])
    single = of_points("What is the shortest distance between the sites and the wells?")
    low, high = single.interval
    off = (high - low) / 2
    assert (low + high) / 2 == pytest.approx(gaps[order[0]], rel=1e-6)
    assert off > 50
    one = of_points("Which site is nearest to the wells?")
    assert one.value == order[0]
    assert intervals(one.text) == [pytest.approx((gaps[order[0]] - off, gaps[order[0]] + off), abs=6)]
    some = of_points("Which 3 sites are nearest to the wells?")
    assert some.value == "; ".join(order[:3])
    assert intervals(some.text) == [pytest.approx((gaps[n] - off, gaps[n] + off), abs=6) for n in order[:3]]
    assert ("at least" in some.text) == ("at least" in single.text)
