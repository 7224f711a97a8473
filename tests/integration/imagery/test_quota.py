"""A project's room: scenes, vector files and what is on its way in count together."""

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, override_settings
from rasterio.transform import from_origin

from apps.accounts.models import Project
from apps.artifacts.models import Artifact, ArtifactLink
from apps.core.errors import UserError
from apps.imagery.models import Scene, Upload, VectorLayer
from apps.imagery.quota import project_bytes
from apps.imagery.services import scene_ingest_now, upload_cancel
from apps.imagery.vector_layers import vector_add_now, vector_delete

pytestmark = pytest.mark.django_db
TUS: dict[str, Any] = {"HTTP_TUS_RESUMABLE": "1.0.0"}
POINT = {"type": "Feature", "properties": {"name": "a"}, "geometry": {"type": "Point", "coordinates": [1.5, 50.5]}}


@pytest.fixture
def points(tmp_path: Path) -> Path:
    path = tmp_path / "points.geojson"
    path.write_text(json.dumps({"type": "FeatureCollection", "features": [POINT]}))
    return path


@pytest.fixture
def raster(tmp_path: Path) -> Path:
    path = tmp_path / "scene.tif"
    data = np.random.default_rng(0).integers(1, 200, (1, 64, 64)).astype(np.uint8)
    with rasterio.open(path, "w", driver="GTiff", height=64, width=64, count=1, dtype="uint8", crs="EPSG:32631",
                       transform=from_origin(500000, 5600000, 10, 10)) as file:
        file.write(data)
    return path


def start(client: Client, project: Project, name: str, size: int) -> Any:
    told = {"filename": name, "project": str(project.pk)}
    meta = ",".join(f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in told.items())
    return client.post("/api/v1/uploads/", HTTP_UPLOAD_LENGTH=str(size), HTTP_UPLOAD_METADATA=meta, **TUS)


def on_disk(project: Project) -> int:
    """The sizes of the project's files as the artifacts' links tell them, which the quota does not read."""
    return sum(Artifact.objects.get(pk=key).size_bytes
               for key in ArtifactLink.objects.filter(project=project).values_list("artifact_id", flat=True))


def test_scenes_vector_files_and_uploads_count_together(client: Client, project: Project, points: Path, raster: Path) -> None:
    assert project_bytes(project) == 0
    scene_ingest_now(project=project, path=raster)
    with_scene = project_bytes(project)
    assert with_scene == on_disk(project) >= raster.stat().st_size
    vector_add_now(project=project, path=points, name="points.geojson")
    both = project_bytes(project)
    assert both == on_disk(project) >= with_scene + points.stat().st_size
    # the same file twice lies on the disk once
    twice = vector_add_now(project=project, path=points, name="again.geojson")
    assert project_bytes(project) == both
    assert start(client, project, "more.tif", 1000).status_code == 201
    assert project_bytes(project) == both + 1000
    upload_cancel(upload=Upload.objects.get())
    vector_delete(vector=twice)
    assert project_bytes(project) == both
    VectorLayer.objects.all().delete()
    assert project_bytes(project) == with_scene


@pytest.mark.parametrize("name", ["field.geojson", "scene.tif"])
def test_uploads_of_either_kind_end_at_the_same_limit(client: Client, project: Project, points: Path, name: str) -> None:
    vector_add_now(project=project, path=points, name="points.geojson")
    room = 5000
    with override_settings(PROJECT_MAX_BYTES=project_bytes(project) + room):
        refused = start(client, project, name, room + 1)
        assert (refused.status_code, refused.json()["error"]["code"]) == (413, "OVER_QUOTA")
        assert "vector files" in refused.json()["error"]["why"]
        assert Upload.objects.count() == 0
        assert start(client, project, name, room).status_code == 201
        # what is announced has its room already
        assert start(client, project, name, 1).status_code == 413


def test_a_vector_file_sent_at_once_is_refused_too_and_leaves_nothing(
    client: Client, project: Project, points: Path, raster: Path
) -> None:
    held = scene_ingest_now(project=project, path=raster)
    text = points.read_bytes()
    with override_settings(PROJECT_MAX_BYTES=project_bytes(project) + len(text) - 1):
        form = {"project": str(project.pk), "file": SimpleUploadedFile("points.geojson", text)}
        answer = client.post("/api/v1/vectors/", form)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "OVER_QUOTA")
        with pytest.raises(UserError, match="no room"):
            scene_ingest_now(project=project, path=raster, name="other.tif")
    assert not VectorLayer.objects.exists()
    assert list(Scene.objects.all()) == [held]


def test_another_project_has_its_own_room(project: Project, points: Path) -> None:
    vector_add_now(project=project, path=points, name="points.geojson")
    other = Project.objects.create(name="other")
    assert project_bytes(other) == 0
    with override_settings(PROJECT_MAX_BYTES=project_bytes(project)):
        vector_add_now(project=other, path=points, name="points.geojson")
        with pytest.raises(UserError, match="no room"):
            vector_add_now(project=project, path=points, name="again.geojson")
