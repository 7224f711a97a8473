"""Artifacts: content-addressed, atomic, private, and downloadable by range."""

import threading
from io import BytesIO
from pathlib import Path

import pytest
from django.conf import settings
from django.test import Client, override_settings

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set, project_create, user_create
from apps.artifacts.blobs import blob_is_intact, blob_name, blob_path, blob_put
from apps.artifacts.models import Artifact, ArtifactLink
from apps.artifacts.selectors import access_artifact_by_digest
from apps.artifacts.services import ProjectBlobs, artifact_link, artifact_put
from apps.core.digests import digest_bytes
from apps.core.errors import FaultError, NotFoundError

PASSWORD = "a long river runs"


@pytest.fixture
def owner(db: None) -> User:
    return user_create(username="owner", password=PASSWORD)


@pytest.fixture
def project(owner: User) -> Project:
    return project_create(user=owner, name="Valley")


def test_bytes_files_and_streams_have_one_name(tmp_path: Path) -> None:
    data = b"pixels" * 1000
    (tmp_path / "f").write_bytes(data)
    digests = {blob_put(data), blob_put(tmp_path / "f"), blob_put(BytesIO(data))}
    assert digests == {(digest_bytes(data), len(data))}
    assert blob_path(digest_bytes(data)).read_bytes() == data
    assert blob_is_intact(digest_bytes(data))


def test_the_kept_file_cannot_be_written_and_no_draft_is_left() -> None:
    digest, _ = blob_put(b"kept")
    assert blob_path(digest).stat().st_mode & 0o222 == 0
    assert list((settings.ARTIFACTS_ROOT / "drafts").iterdir()) == []


@pytest.mark.parametrize("name", ["", "sha256:", "sha256:" + "g" * 64, "../../etc/passwd", "sha256:../" + "0" * 61])
def test_what_is_no_digest_is_no_path(name: str) -> None:
    with pytest.raises(ValueError, match="not a digest"):
        blob_name(name)


def test_an_absent_blob_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        blob_path("sha256:" + "0" * 64)


def test_many_writers_of_one_blob_leave_it_whole() -> None:
    data = b"x" * 3_000_000
    threads = [threading.Thread(target=blob_put, args=(data,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert blob_is_intact(digest_bytes(data))


def test_another_storage_is_used_where_it_is_set(tmp_path: Path) -> None:
    """Any Django storage serves (S3 by django-storages); here a second folder, so that no network is needed."""
    stores = {
        **settings.STORAGES,
        "artifacts": {"BACKEND": "django.core.files.storage.FileSystemStorage", "OPTIONS": {"location": tmp_path / "far"}},
    }
    with override_settings(STORAGES=stores, ARTIFACTS_ROOT=tmp_path / "near"):
        digest, _ = blob_put(b"far away")
        assert (tmp_path / "far" / blob_name(digest)).read_bytes() == b"far away"
        blob_path(digest).unlink()
        assert blob_path(digest).read_bytes() == b"far away"
        blob_path(digest).unlink()
        (tmp_path / "far" / blob_name(digest)).write_bytes(b"tampered")
        with pytest.raises(FaultError, match="do not match"):
            blob_path(digest)


def test_one_artifact_many_projects(owner: User, project: Project) -> None:
    second = project_create(user=owner, name="Coast")
    first_put = artifact_put(data=b"layer", project_id=project.pk, media_type="image/png", name="layer.png")
    again = artifact_put(data=b"layer", project_id=second.pk)
    assert first_put == again
    assert Artifact.objects.count() == 1
    assert ArtifactLink.objects.count() == 2
    assert Artifact.objects.get().media_type == "image/png"


def test_project_blobs_keep_and_link(owner: User, project: Project) -> None:
    blobs = ProjectBlobs(project.pk)
    digest = blobs.put(b"mask", media_type="image/tiff")
    assert blobs.path(digest).read_bytes() == b"mask"
    assert access_artifact_by_digest(owner, digest)[0].pk == digest


def test_strangers_get_404_and_members_the_bytes(client: Client, owner: User, project: Project) -> None:
    artifact = artifact_put(data=b"secret numbers", project_id=project.pk, media_type="text/csv", name="numbers.csv")
    address = f"/artifacts/{artifact.digest}"
    assert client.get(address).status_code == 302  # to the sign-in
    stranger = user_create(username="stranger", password=PASSWORD)
    client.force_login(stranger)
    assert client.get(address).status_code == 404
    assert client.get("/artifacts/sha256:" + "0" * 64).status_code == 404
    assert client.get("/artifacts/passwd").status_code == 404
    with pytest.raises(NotFoundError):
        access_artifact_by_digest(stranger, artifact.digest)
    membership_set(project=project, username="stranger", role="viewer")
    answer = client.get(address)
    assert answer.status_code == 200
    assert b"".join(answer) == b"secret numbers"
    assert answer["Cache-Control"] == "private, max-age=31536000, immutable"
    assert answer["ETag"] == f'"{artifact.digest}"'
    assert "numbers.csv" in answer["Content-Disposition"]
    assert client.get(address, headers={"If-None-Match": answer["ETag"]}).status_code == 304


@pytest.mark.parametrize(
    ("header", "status", "body", "span"),
    [
        ("bytes=0-3", 206, b"0123", "bytes 0-3/10"),
        ("bytes=4-", 206, b"456789", "bytes 4-9/10"),
        ("bytes=-3", 206, b"789", "bytes 7-9/10"),
        ("bytes=8-99", 206, b"89", "bytes 8-9/10"),
        ("bytes=10-", 416, b"", "bytes */10"),
        ("bytes=-", 416, b"", "bytes */10"),
    ],
)
def test_ranges(client: Client, owner: User, project: Project, header: str, status: int, body: bytes, span: str) -> None:
    artifact = artifact_put(data=b"0123456789", project_id=project.pk)
    client.force_login(owner)
    answer = client.get(f"/artifacts/{artifact.digest}", headers={"Range": header})
    assert answer.status_code == status
    assert b"".join(answer) == body
    assert answer["Content-Range"] == span


def test_what_could_carry_a_script_is_never_shown_inline(client: Client, owner: User, project: Project) -> None:
    client.force_login(owner)
    for media_type in ("text/html", "image/svg+xml", "application/xhtml+xml"):
        artifact = artifact_put(data=media_type.encode(), project_id=project.pk, media_type=media_type)
        answer = client.get(f"/artifacts/{artifact.digest}")
        assert answer["Content-Disposition"].startswith("attachment"), media_type
        assert answer["X-Content-Type-Options"] == "nosniff"


def test_linking_what_is_not_there_is_refused(project: Project) -> None:
    with pytest.raises(NotFoundError):
        artifact_link(digest="sha256:" + "0" * 64, project_id=project.pk)


def test_a_digest_alone_opens_no_other_projects_artifact(db: None) -> None:
    """What one project put is absent for another that merely knows its digest, and there for none in particular."""
    owner = user_create(username="keeper", password="a long enough passphrase")
    mine, other = project_create(user=owner, name="Mine"), project_create(user=owner, name="Other")
    digest = ProjectBlobs(mine.pk).put(b"pixels of mine", media_type="text/plain")
    assert ProjectBlobs(mine.pk).path(digest).read_bytes() == b"pixels of mine"
    assert ProjectBlobs(None).path(digest).read_bytes() == b"pixels of mine"
    with pytest.raises(KeyError):
        ProjectBlobs(other.pk).path(digest)
    ProjectBlobs(other.pk).put(b"pixels of mine", media_type="text/plain")
    assert ProjectBlobs(other.pk).path(digest).read_bytes() == b"pixels of mine"
