"""Shapes whose latitude and longitude are exchanged, and what a file lost when it was read, are not measured in silence."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pyproj import Geod

from apps.core.geo.vector import VectorInfo
from apps.verification.checks import CHECKS, Case
from tests.unit.tools.rasters import Bench, scene

# the scene lies about 4.41° E, 50.54° N: 10 m pixels from 600000, 5600000 down in UTM 31
WEST, SOUTH, EAST, NORTH = 4.4120, 50.5422, 4.4130, 50.5428


def ring(x0: float, y0: float, x1: float, y1: float) -> dict[str, Any]:
    return {"type": "Polygon", "coordinates": [[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]]}


RIGHT, EXCHANGED = ring(WEST, SOUTH, EAST, NORTH), ring(SOUTH, WEST, NORTH, EAST)


def bench() -> Bench:
    return Bench(scene(np.ones((1, 20, 20), np.uint8), ["gray"], crs="EPSG:32631"))


def area(b: Bench, source: dict[str, Any]) -> Any:
    given = {"name": "plot", "mode": "extent", **source}
    return b.call("measure", {"sources": [given], "spec": {"metric": "area", "subject": "plot", "unit": "m2"}})


def kept(b: Bench, geometry: dict[str, Any], crs: str = "EPSG:4326") -> str:
    feature = {"type": "Feature", "geometry": geometry, "properties": {}}
    return b.layers.put_features([feature], kind="polygons", crs=crs, label="plot").artifact


def test_a_plot_that_would_lie_on_the_scene_with_its_axes_exchanged_is_refused() -> None:
    b = bench()
    lon, lat = zip(*RIGHT["coordinates"][0], strict=True)
    truth = abs(Geod(ellps="WGS84").polygon_area_perimeter(lon, lat)[0])
    for source in ({"geometry": RIGHT}, {"vector": kept(b, RIGHT)}):
        assert area(b, source).result.value == pytest.approx(truth, rel=1e-5)
    for source in ({"geometry": EXCHANGED}, {"vector": kept(b, EXCHANGED)}):
        o = area(b, source)
        assert o.status.state == "failed" and "axes exchanged" in o.status.reason
    metres = {"geometry": ring(5599900, 600050, 5599950, 600100), "geometry_crs": "EPSG:32631"}
    assert "axes exchanged" in area(b, metres).status.reason
    # what lies elsewhere either way is another place, and may be measured
    for elsewhere in (ring(20.0, 40.0, 20.001, 40.001), ring(4.5, 51.0, 4.501, 51.001)):
        assert area(b, {"geometry": elsewhere}).status.state == "ok"


def test_another_tools_area_of_exchanged_axes_is_caught() -> None:
    b = bench()
    right = area(b, {"geometry": RIGHT})
    name = "geometry.layers_in_one_crs"

    def outcome(geometry: dict[str, Any]) -> str:
        source = {**right.arguments["sources"][0], "geometry": geometry}
        told = right.model_copy(update={"arguments": {**right.arguments, "sources": [source]}})
        return CHECKS[name].look(Case(told, b.question, layers=b.layers)).outcome

    assert (outcome(RIGHT), outcome(EXCHANGED), outcome(ring(20.0, 40.0, 20.001, 40.001))) == ("passed", "failed", "passed")


def test_what_was_left_out_of_a_file_stands_in_the_log_of_what_is_measured() -> None:
    b = bench()
    lost = "3 rows have no readable coordinates and are left out."
    digest = kept(b, RIGHT)
    info = VectorInfo(vector_id="v", artifact=digest, name="plots.csv", format="CSV", crs="EPSG:4326", n=1, kinds={"Polygon": 1},
                      bounds=(WEST, SOUTH, EAST, NORTH), warnings=(lost,))  # fmt: skip
    b.question = b.question.model_copy(update={"vectors": (info,)})
    told = [line.message for line in area(b, {"vector": digest}).status.log if line.level == "warning"]
    assert told == [f"plot: {lost}"]
