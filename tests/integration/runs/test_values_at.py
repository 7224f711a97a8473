"""Values at a place, against the file read by rasterio alone."""

from typing import Any

import numpy as np
import pytest
import rasterio
from django.test import Client
from pyproj import Transformer

from apps.runs.models import Run
from tests.integration.conftest import SAMPLES

pytestmark = pytest.mark.django_db
FISH = next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))


@pytest.fixture
def run(ask: Any) -> Run:
    made: Run = ask("How many hectares have NDVI above 0.4?")
    return made


@pytest.fixture
def client(analyst: Any) -> Client:
    client = Client()
    client.force_login(analyst)
    return client


def place(row: int, col: int) -> tuple[float, float]:
    """Longitude and latitude of a pixel's centre."""
    with rasterio.open(FISH) as dataset:
        x, y = dataset.xy(row, col)
        lon, lat = Transformer.from_crs(dataset.crs, "EPSG:4326", always_xy=True).transform(x, y)
    return lon, lat


def test_bands_index_and_mask_at_a_pixel(run: Run, client: Client) -> None:
    with rasterio.open(FISH) as dataset:
        bands = dataset.read()
    valid = ~(bands == 0).all(axis=0)
    row, col = (int(v) for v in np.argwhere(valid)[1234])
    lon, lat = place(row, col)
    found = client.get(f"/runs/{run.pk}/values/", {"x": str(lon), "y": str(lat)}).json()
    (scene,) = found["scenes"]
    assert scene["pixel"] == [col, row]
    values = {v["name"]: v["value"] for v in scene["values"]}
    stored = dict(zip(("blue", "green", "red", "nir"), bands[:, row, col].astype(float), strict=True))
    # reflectance may be scaled on the way: the ratios are the file's
    assert {k: v / values["red"] for k, v in values.items()} == pytest.approx({k: v / stored["red"] for k, v in stored.items()})
    ndvi = (stored["nir"] - stored["red"]) / (stored["nir"] + stored["red"])
    layers = {layer["name"].split(" (")[0]: layer["value"] for layer in found["layers"]}
    assert layers["NDVI"] == pytest.approx(ndvi, abs=1e-6)
    assert layers["NDVI mask"] is bool(ndvi > 0.4)


def test_fill_is_not_valid_and_outside_is_nothing(run: Run, client: Client) -> None:
    with rasterio.open(FISH) as dataset:
        fill = (dataset.read() == 0).all(axis=0)
    row, col = (int(v) for v in np.argwhere(fill)[0])
    lon, lat = place(row, col)
    found = client.get(f"/runs/{run.pk}/values/", {"x": str(lon), "y": str(lat)}).json()
    assert {v["value"] for v in found["scenes"][0]["values"]} == {None}
    assert {layer["value"] for layer in found["layers"]} == {None}
    assert client.get(f"/runs/{run.pk}/values/", {"x": 10, "y": 10}).json() == {"scenes": [], "layers": [], "n_scenes": 1}


def test_what_is_no_position_is_refused_and_strangers_see_nothing(run: Run, client: Client, stranger: Any) -> None:
    refused: list[dict[str, str]] = [{}, {"x": "a", "y": "1"}, {"x": "nan", "y": "1"}]
    for given in refused:
        assert client.get(f"/runs/{run.pk}/values/", given).status_code == 400
    other = Client()
    other.force_login(stranger)
    assert other.get(f"/runs/{run.pk}/values/", {"x": 1, "y": 1}).status_code == 404
