"""Limits and "not" said of an attribute of a file, through the whole stack; the values to give are of geopandas and pyproj."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import geopandas
import pytest
import shapely
from pyproj import Geod

from apps.accounts.models import Project, User
from apps.imagery.vector_layers import vector_add_now
from apps.runs import selectors, services

pytestmark = pytest.mark.django_db
YIELDS: tuple[Any, ...] = (2.5, 4, 5.0, 7.25, None, 9)
CROPS = ("wheat", "maize", "wheat", "rye", "rye", "maize")


@pytest.fixture
def fields(project: Project, tmp_path: Path) -> tuple[Any, Any]:
    """(what is known of the file, its features as geopandas reads them): six fields of growing width."""
    made = [
        {
            "type": "Feature",
            "geometry": shapely.geometry.mapping(shapely.box(-1.6 + 0.01 * i, 50.7, -1.6 + 0.01 * i + 0.001 * (i + 1), 50.702)),
            "properties": {"name": f"F{i}", "yield": y, "crop": c},
        }
        for i, (y, c) in enumerate(zip(YIELDS, CROPS, strict=True))
    ]
    path = tmp_path / "fields.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": made}))
    return vector_add_now(project=project, path=path, name=path.name).vector_info, geopandas.read_file(path)


def test_of_an_attribute(analyst: User, project: Project, fields: tuple[Any, Any]) -> None:
    info, frame = fields

    def value(text: str) -> Any:
        run = services.run_start(user=analyst, project=project, text=text, scenes=[], vectors=[info], enqueue=False)
        services.run_execute_now(run_id=run.pk)
        answer = selectors.run_state(run.pk).answer
        assert answer is not None and not answer.abstained, answer
        return answer.value

    def square_metres(rows: Any) -> float:
        geod = Geod(ellps="WGS84")
        return sum(abs(geod.geometry_area_perimeter(shapely.segmentize(g, 1e-4))[0]) for g in rows.geometry)

    assert value("How many fields with a yield over 4 are there?") == int((frame["yield"] > 4).sum()) == 3
    between = frame[(frame["yield"] >= 4) & (frame["yield"] <= 7.25)]
    assert value("What is the area of the fields with a yield between 4 and 7.25, in m²?") == pytest.approx(
        square_metres(between), rel=1e-5
    )
    other = frame[frame["crop"] != "wheat"]
    assert value("Area of fields whose crop is not wheat, in m²") == pytest.approx(square_metres(other), rel=1e-5)
