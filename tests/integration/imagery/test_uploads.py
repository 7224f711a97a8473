"""Resumable uploads: the tus protocol, limits, owners, and what becomes of a whole file."""

import base64
import hashlib
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.conf import settings
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client, override_settings

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set, token_create
from apps.artifacts.services import ProjectBlobs
from apps.core.errors import UserError
from apps.imagery import services
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.models import Scene, Upload
from tests.unit.imagery.rasters import write

TUS: dict[str, Any] = {"HTTP_TUS_RESUMABLE": "1.0.0"}
CHUNK = "application/offset+octet-stream"


@pytest.fixture
def data(tmp_path: Path) -> bytes:
    planes = np.random.default_rng(0).integers(1, 250, (3, 120, 130)).astype(np.uint8)
    return write(tmp_path / "t.tif", planes, photometric="RGB").read_bytes()


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Scene ids that were enqueued."""
    held: list[str] = []
    monkeypatch.setattr("apps.imagery.tasks.ingest_scene.delay", held.append)
    return held


def meta(project: Project, name: str = "aerial.tif", **more: str) -> str:
    values = {"filename": name, "project": str(project.pk), **more}
    return ",".join(f"{k} {base64.b64encode(v.encode()).decode()}" for k, v in values.items())


def start(client: Client, project: Project, size: int, **more: str) -> Any:
    return client.post("/api/v1/uploads/", HTTP_UPLOAD_LENGTH=str(size), HTTP_UPLOAD_METADATA=meta(project, **more), **TUS)


def patch(client: Client, url: str, offset: int, part: bytes) -> Any:
    return client.patch(url, part, content_type=CHUNK, HTTP_UPLOAD_OFFSET=str(offset), **TUS)


def test_a_file_in_parts_becomes_a_scene(
    client: Client, project: Project, data: bytes, queued: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    made = start(client, project, len(data), sha256="sha256:" + hashlib.sha256(data).hexdigest())
    assert made.status_code == 201
    url = made["Location"]
    assert patch(client, url, 0, data[:7000])["Upload-Offset"] == "7000"
    assert client.head(url, **TUS)["Upload-Offset"] == "7000"
    with django_capture_on_commit_callbacks(execute=True):
        done = patch(client, url, 7000, data[7000:])
    assert done.status_code == 204
    scene = Scene.objects.get(pk=done["X-Scene"])
    assert queued == [str(scene.pk)]
    assert scene.status == Scene.INGESTING
    assert not Upload.objects.get().folder.exists()
    services.scene_ingest(scene_id=str(scene.pk))
    scene.refresh_from_db()
    assert scene.status == Scene.READY
    assert scene.scene_info.roles == {"red", "green", "blue"}
    assert scene.footprint is not None
    assert services.scene_ingest(scene_id=str(scene.pk)).status == Scene.READY  # a second delivery does nothing


def test_a_wrong_offset_is_a_conflict_and_changes_nothing(client: Client, project: Project, data: bytes) -> None:
    url = start(client, project, len(data))["Location"]
    patch(client, url, 0, data[:500])
    for offset in (0, 499, 501):
        answer = patch(client, url, offset, data[500:900])
        assert answer.status_code == 409
        assert answer.json()["error"]["detail"] == {"offset": 500}
    upload = Upload.objects.get()
    assert upload.path.read_bytes() == data[:500]


def test_more_than_announced_is_refused(client: Client, project: Project) -> None:
    url = start(client, project, 10)["Location"]
    assert patch(client, url, 0, b"x" * 11).status_code == 413
    assert patch(client, url, 0, b"x" * 9).status_code == 204


def test_a_damaged_file_begins_anew(client: Client, project: Project, data: bytes, queued: list[str]) -> None:
    url = start(client, project, len(data), sha256="sha256:" + "0" * 64)["Location"]
    answer = patch(client, url, 0, data)
    assert answer.json()["error"]["code"] == "UPLOAD_STALLED"
    assert client.head(url, **TUS)["Upload-Offset"] == "0"
    assert Scene.objects.count() == 0
    assert queued == []


def test_an_upload_whose_last_answer_was_lost_is_finished_by_an_empty_part(
    client: Client, project: Project, data: bytes, queued: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    url = start(client, project, len(data))["Location"]
    upload = Upload.objects.get()
    upload.path.write_bytes(data)
    Upload.objects.update(offset_bytes=len(data))
    with django_capture_on_commit_callbacks(execute=True):
        assert patch(client, url, len(data), b"")["X-Scene"]
        assert patch(client, url, len(data), b"")["X-Scene"]
    assert len(queued) == 1


def test_others_see_no_upload(client: Client, project: Project, stranger: User, data: bytes) -> None:
    url = start(client, project, len(data))["Location"]
    other = Client()
    assert other.head(url, **TUS).status_code in (401, 403)
    other.force_login(stranger)
    assert other.head(url, **TUS).status_code == 404
    assert patch(other, url, 0, b"x").status_code == 404
    assert other.delete(url, **TUS).status_code == 404
    assert start(other, project, 5).status_code == 404
    # a member of the project who may ingest does not own it either
    membership_set(project=project, username=stranger.username, role="analyst")
    assert patch(other, url, 0, b"x").status_code == 404
    membership_set(project=project, username=stranger.username, role="viewer")
    assert start(other, project, 5).status_code == 403


def test_limits(client: Client, project: Project) -> None:
    with override_settings(UPLOAD_MAX_BYTES=100):
        assert start(client, project, 101).json()["error"]["code"] == "TOO_LARGE"
        assert start(client, project, 100).status_code == 201
        assert start(client, project, 100).status_code == 201
        assert start(client, project, 1).json()["error"]["code"] == "OVER_QUOTA"
    assert start(client, project, 0).status_code == 400
    assert client.post("/api/v1/uploads/", HTTP_UPLOAD_LENGTH="-5", HTTP_UPLOAD_METADATA=meta(project), **TUS).status_code == 400


def test_the_protocol_is_asked_for(client: Client, project: Project) -> None:
    options = client.options("/api/v1/uploads/")
    assert options["Tus-Version"] == "1.0.0"
    assert options["Tus-Max-Size"] == str(settings.UPLOAD_MAX_BYTES)
    assert client.post("/api/v1/uploads/", HTTP_UPLOAD_LENGTH="5", HTTP_UPLOAD_METADATA=meta(project)).status_code == 412
    url = start(client, project, 5)["Location"]
    assert client.patch(url, b"x", content_type="text/plain", HTTP_UPLOAD_OFFSET="0", **TUS).status_code == 415


def test_a_page_of_another_site_cannot_upload(analyst: User, project: Project) -> None:
    held = Client(enforce_csrf_checks=True)
    held.force_login(analyst)
    assert start(held, project, 5).status_code == 403
    _, text = token_create(user=analyst, name="script", days=1)
    by_token = Client(enforce_csrf_checks=True)
    answer = by_token.post(
        "/api/v1/uploads/", HTTP_UPLOAD_LENGTH="5", HTTP_UPLOAD_METADATA=meta(project), HTTP_AUTHORIZATION=f"Bearer {text}", **TUS
    )
    assert answer.status_code == 201


def test_cancelling_removes_the_bytes(client: Client, project: Project) -> None:
    url = start(client, project, 5)["Location"]
    folder = Upload.objects.get().folder
    assert folder.exists()
    assert client.delete(url, **TUS).status_code == 204
    assert not folder.exists()
    assert client.head(url, **TUS).status_code == 404


@pytest.mark.parametrize(
    ("name", "kept"),
    [("../../etc/passwd", "passwd"), ("C:\\data\\a.tif", "a.tif"), ("a\x00\n.tif", "a.tif"), ("x" * 400 + ".tif", None)],
)
def test_names_are_shown_and_never_paths(analyst: User, project: Project, name: str, kept: str | None) -> None:
    upload = services.upload_start(user=analyst, project=project, name=name, size_bytes=5)
    assert upload.name == kept if kept else len(upload.name) <= 255
    assert upload.path == settings.UPLOADS_ROOT / str(upload.pk) / "data"
    assert upload.path.stat().st_mode & 0o777 == 0o600


def test_a_file_without_a_name_is_refused(analyst: User, project: Project) -> None:
    with pytest.raises(UserError):
        services.upload_start(user=analyst, project=project, name="..", size_bytes=5)


@pytest.mark.django_db(transaction=True)
def test_parts_sent_twice_at_once_are_kept_once(analyst: User, project: Project) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    upload = services.upload_start(user=analyst, project=project, name="a.tif", size_bytes=2_000_000)
    part = bytes(range(256)) * 4000

    def send(_: int) -> str:
        try:
            services.upload_append(upload=upload, offset=0, chunk=io.BytesIO(part), length=len(part))
            return "kept"
        except UserError as error:
            return error.code
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(send, range(4)))
    assert sorted(outcomes) == ["CONFLICT", "CONFLICT", "CONFLICT", "kept"]
    upload.refresh_from_db()
    assert upload.offset_bytes == len(part)
    assert upload.path.read_bytes() == part


def test_a_vector_file_is_kept_for_its_project_alone(client: Client, project: Project, stranger: User) -> None:
    outsider = Client()
    outsider.force_login(stranger)
    square = {"type": "Polygon", "coordinates": [[[10, 50], [10.01, 50], [10.01, 50.01], [10, 50.01], [10, 50]]]}
    text = json.dumps({"type": "Feature", "geometry": square, "properties": {"name": "field"}})

    def send(who: Client, name: str = "field.geojson") -> Any:
        return who.post("/api/v1/vectors/", {"project": str(project.pk), "file": SimpleUploadedFile(name, text.encode())})

    told = send(client).json()
    assert (told["n"], told["crs"], told["kinds"], told["crs_source"]) == (1, "EPSG:4326", {"Polygon": 1}, "format")
    store = ArtifactLayerStore(ProjectBlobs(project.pk))
    features, crs = store.read_vector(told["vector"])
    assert crs == "EPSG:4326" and features[0]["properties"] == {"name": "field"}
    assert send(client, "field.kml").status_code == 415
    assert send(outsider).status_code == 404


def test_a_full_disk_is_told_and_the_upload_ends_once_there_is_room(
    client: Client, project: Project, data: bytes, queued: list[str], monkeypatch: pytest.MonkeyPatch,
    django_capture_on_commit_callbacks: Any,
) -> None:  # fmt: skip
    """The store writes to /dev/full, whose every write fails as on a full disk."""
    url = start(client, project, len(data))["Location"]

    @contextmanager
    def full() -> Iterator[Path]:
        yield Path("/dev/full")

    with monkeypatch.context() as disk:
        disk.setattr("apps.artifacts.blobs._draft", full)
        answer = patch(client, url, 0, data)
    assert (answer.status_code, answer.json()["error"]["code"]) == (507, "OVER_QUOTA")
    assert client.head(url, **TUS)["Upload-Offset"] == str(len(data)), "what was sent is not sent again"
    with django_capture_on_commit_callbacks(execute=True):
        done = patch(client, url, len(data), b"")
    assert done.status_code == 204
    assert queued == [done["X-Scene"]]
