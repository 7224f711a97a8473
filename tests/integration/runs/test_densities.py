"""Densities and crowded scenes asked in words, on the shipped samples and through the whole stack."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from pyproj import Geod, Transformer

from apps.accounts.models import Project, User
from apps.core.evidence.plan import Answer
from apps.imagery.models import Scene
from apps.runs import selectors, services
from tests.integration.conftest import SAMPLES
from tests.scenes import scene_of_file

pytestmark = pytest.mark.django_db
FOREST = SAMPLES / "OSBS_029.tif"
STREET = SAMPLES / "riotiler_hro_colorado_26913.tif"
CROWDED = SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png"


@pytest.fixture
def asked(analyst: User, project: Project) -> Any:
    def answer(text: str, path: Path, gsd_m: float | None = None) -> Answer:
        scene: Scene = scene_of_file(project=project, path=path, gsd_m=gsd_m)
        run = services.run_start(user=analyst, project=project, text=text, scenes=[scene], enqueue=False)
        services.run_execute_now(run_id=run.pk)
        found = selectors.run_state(run.pk).answer
        assert found is not None
        return found

    return answer


def ground_m2(path: Path) -> float:
    """The picture's ground on the ellipsoid, by its corners, less its share of pixels that are nodata in every band."""
    with rasterio.open(path) as file:
        ring = [file.transform * c for c in ((0, 0), (file.width, 0), (file.width, file.height), (0, file.height))]
        share = 1.0 if file.nodata is None else float((file.read() != file.nodata).any(axis=0).mean())
        to_degrees = Transformer.from_crs(file.crs, "EPSG:4326", always_xy=True)
    lon, lat = to_degrees.transform(*np.array(ring).T)
    return share * float(abs(Geod(ellps="WGS84").polygon_area_perimeter(lon, lat)[0]))


@pytest.mark.parametrize(
    ("path", "things", "per", "m2"),
    [(FOREST, "trees", "hectare", 1e4), pytest.param(STREET, "vehicles", "km2", 1e6, marks=pytest.mark.ml)],
)
def test_so_many_on_so_much_ground(asked: Any, path: Path, things: str, per: str, m2: float) -> None:
    counted = asked(f"How many {things} are there?", path)
    dense = asked(f"How many {things} per {per} are there?", path)
    assert not counted.abstained and not dense.abstained, (counted.text, dense.text)
    assert counted.value > 0
    assert dense.value == pytest.approx(counted.value / ground_m2(path) * m2, rel=1e-3)


def test_a_crowd_that_is_spread_evenly_is_counted(asked: Any) -> None:
    """Some 370 crowns: no quarter of the picture is without them."""
    answer = asked("How many trees are there?", CROWDED, 0.1)
    assert not answer.abstained, answer.text
    assert 300 < answer.value < 450
