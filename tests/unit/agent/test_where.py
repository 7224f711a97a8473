"""Where scenes and regions lie, whichever way their longitudes are counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from shapely.geometry import box, mapping

from apps.agent.planner.facts import is_apart, is_one_place
from apps.core.geo.scene import SceneInfo
from tests.unit.tools.rasters import scene


def at(west: float, n: int = 40) -> SceneInfo:
    """A quarter of a degree a pixel, from ``west`` and 10° north on."""
    return scene(np.zeros((1, n, n), np.uint8), ["ndvi"], crs="EPSG:4326", pixel=0.25, origin=(west, 10.0))[0]


@pytest.mark.parametrize(("one", "other", "is_same"), [
    (200.0, -160.0, True), (200.0, -155.5, True), (200.0, 160.0, False), (175.0, -185.0, True), (175.0, 177.0, True),
    (352.0, -8.0, True), (352.0, 8.0, False)])
def test_scenes_of_one_place(one: float, other: float, is_same: bool) -> None:
    assert is_one_place(at(one), at(other)) is is_same
    assert is_one_place(at(other), at(one)) is is_same


@pytest.mark.parametrize(("region", "west", "is_away"), [
    ((-160, 1, -155, 9), 200.0, False), ((205, 1, 206, 9), -160.0, False), ((-100, 1, -90, 9), 200.0, True),
    ((170, 1, 178, 9), 175.0, False), ((-179, 1, -176, 9), 175.0, False), ((-179, 11, -176, 12), 175.0, True),
    ((-5, 1, 5, 9), 0.0, False), ((-9, 1, -1, 9), 351.0, False), ((-9, 1, -1, 9), 0.0, True)])
def test_a_region_that_surely_lies_elsewhere(region: Any, west: float, is_away: bool) -> None:
    assert is_apart(mapping(box(*region)), at(west)) is is_away
