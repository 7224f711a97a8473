"""From plain words to figures that are cut to polygons, listed by polygon or lie outside: the whole way, accepted and shown."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from django.test import Client
from pyproj import Geod, Transformer

from apps.accounts.models import Project, User
from apps.imagery.models import Scene, VectorLayer
from apps.imagery.vector_layers import vector_add_now
from apps.runs.models import Run
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.integration.conftest import SAMPLES
from tests.integration.imagery.test_vector_layers import FIELDS

GEOD = Geod(ellps="WGS84")
DISTRICTS = {
    "Harbour": shapely.box(-1.24, 50.725, -1.205, 50.745),
    "<b>Hill</b>": shapely.box(-1.215, 50.73, -1.19, 50.75),  # overlaps the first; its name is data, whatever it says
}
ROADS = {
    "High Street": shapely.LineString([(-1.235, 50.73), (-1.21, 50.74), (-1.18, 50.742)]),
    "Lane": shapely.LineString([(-1.2, 50.72), (-1.2, 50.76)]),
}


def added(project: Project, folder: Path, name: str, shapes: dict[str, Any]) -> VectorLayer:
    features = [
        {"type": "Feature", "properties": {"name": n}, "geometry": shapely.geometry.mapping(g)} for n, g in shapes.items()
    ]
    path = folder / name
    path.write_text(json.dumps({"type": "FeatureCollection", "features": features}))
    return vector_add_now(project=project, path=path, name=name)


@pytest.fixture
def town(project: Project, tmp_path: Path) -> list[Any]:
    layers = [added(project, tmp_path, "districts.geojson", DISTRICTS), added(project, tmp_path, "roads.geojson", ROADS)]
    return [v.vector_info for v in layers]


@pytest.fixture
def fields(project: Project, tmp_path: Path) -> VectorLayer:
    path = tmp_path / "fields.geojson"
    path.write_text(json.dumps(FIELDS))
    return vector_add_now(project=project, path=path, name=path.name)


def asked(user: User, project: Project, text: str, vectors: list[Any], scenes: list[Scene] | None = None) -> tuple[Run, Any]:
    run = run_start(user=user, project=project, text=text, scenes=scenes or [], vectors=vectors, enqueue=False)
    assert run_execute_now(run_id=run.pk)
    answer = run_state(run.pk).answer
    assert answer is not None
    return run, answer


def length_km(line: Any) -> float:
    return float(GEOD.geometry_length(line)) / 1000


def test_lengths_shares_and_distances_are_cut(analyst: User, project: Project, town: list[Any]) -> None:
    roads = shapely.union_all(list(ROADS.values()))
    both = shapely.union_all(list(DISTRICTS.values()))
    whole = length_km(roads)
    harbour = length_km(roads.intersection(DISTRICTS["Harbour"]))
    for text, truth, unit in (
        ("How many km of road lie inside Harbour?", harbour, "km"),
        ("How many km of the roads lie outside districts.geojson?", whole - length_km(roads.intersection(both)), "km"),
        ("What share of the length of the roads lies inside the districts?", length_km(roads.intersection(both)) / whole, "1"),
    ):
        _, answer = asked(analyst, project, text, town)
        assert not answer.abstained, answer.text
        assert (answer.value, answer.unit) == (pytest.approx(truth, rel=1e-4), unit)
        assert "cut at the outline" in answer.text
    to_utm = Transformer.from_crs("EPSG:4326", "EPSG:32630", always_xy=True)
    flat = [shapely.transform(g, lambda p: np.column_stack(to_utm.transform(p[:, 0], p[:, 1]))) for g in (both, roads)]
    near = flat[0].intersection(flat[1].buffer(100, quad_segs=64)).area / 1e4
    _, answer = asked(analyst, project, "How many hectares of the districts lie within 100 m of the roads?", town)
    assert answer.value == pytest.approx(near, rel=3e-3), answer.text


def test_a_table_by_polygon_is_answered_shown_and_warned_of(
    client: Client, analyst: User, project: Project, town: list[Any]
) -> None:
    client.force_login(analyst)
    run, answer = asked(analyst, project, "What is the length of the roads in each district, in km?", town)
    roads = shapely.union_all(list(ROADS.values()))
    truth = {n: length_km(roads.intersection(g)) for n, g in DISTRICTS.items()}
    (held,) = run_state(run.pk).history
    found = {i["zone"]: i["value"] for i in held.observation.result.items}
    assert found == {n: pytest.approx(v, rel=1e-4) for n, v in truth.items()}
    assert all(f"{v:.2f}"[:3] in answer.text for v in truth.values()) and any("overlap" in w for w in answer.warnings)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    assert "<b>Hill</b>" not in page and "&lt;b&gt;Hill&lt;/b&gt;" in page
    for address in (f"/runs/{run.pk}/", f"/observations/{held.id}/", f"/runs/{run.pk}/report/"):
        text = client.get(address).content.decode()
        assert ">Harbour</th>" in text and "2 rows" in text, address
    _, best = asked(analyst, project, "Which district has the greatest length of roads?", town)
    assert best.value == max(truth, key=lambda n: truth[n])


def test_the_image_in_each_field_and_outside_of_them(
    analyst: User, project: Project, fish: Scene, fields: VectorLayer
) -> None:
    import rasterio

    with rasterio.open(SAMPLES / "geopandas_s2a_l2a_fishbourne.tif") as src:
        red, nir = (src.read(b).astype(float) for b in (3, 4))
        filled = (src.read() == 0).all(axis=0)
        t = Transformer.from_crs("EPSG:4326", src.crs, always_xy=True)
        rows, cols = np.mgrid[0 : src.height, 0 : src.width]
        xs, ys = src.transform * (cols + 0.5, rows + 0.5)
    inside = {}
    for f in FIELDS["features"]:
        ring = shapely.segmentize(shapely.geometry.shape(f["geometry"]), 1e-4)  # type: ignore[index]
        flat = shapely.transform(ring, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))
        inside[f["properties"]["name"]] = shapely.contains_xy(flat, xs, ys)  # type: ignore[index]
    keep = ~filled & (nir + red > 0)
    ndvi = np.where(keep, (nir - red) / np.where(keep, nir + red, 1), np.nan)
    run, answer = asked(analyst, project, "What is the mean NDVI in each field?", [fields.vector_info], [fish])
    (held,) = run_state(run.pk).history
    assert not answer.abstained, answer.text
    assert {i["zone"]: i["value"] for i in held.observation.result.items} == {
        n: pytest.approx(float(np.nanmean(ndvi[m])), abs=2e-3) for n, m in inside.items()
    }
    _, answer = asked(analyst, project, "What is the mean NDVI outside fields.geojson?", [fields.vector_info], [fish])
    everywhere = np.logical_or(*inside.values())
    assert answer.value == pytest.approx(float(np.nanmean(ndvi[~everywhere])), abs=1e-4), answer.text
    _, answer = asked(analyst, project, "What is the mean NDVI by crop?", [fields.vector_info], [fish])
    assert "wheat" in answer.text and "none" in answer.text


def test_a_region_that_was_not_drawn_is_asked_for(analyst: User, project: Project, fish: Scene) -> None:
    _, answer = asked(analyst, project, "What is the mean NDVI inside the region?", [], [fish])
    assert answer.abstained and answer.code == "NEEDS_REGION" and answer.needs == {"region": True}


