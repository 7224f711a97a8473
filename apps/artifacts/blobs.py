"""The blob store: bytes by SHA-256.

On one machine the blobs are files under ARTIFACTS_ROOT, written beside their place and renamed into it, so that
a reader sees all of a blob or nothing. With `STORAGES["artifacts"]` set (S3-compatible storage by django-storages)
they lie there, and a local copy is made on first need, since rasters are opened by path.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from django.conf import settings
from django.core.files import File
from django.core.files.storage import Storage, storages

from apps.artifacts.ranges import RemoteBlob
from apps.core.digests import digest_file, is_digest
from apps.core.errors import FaultError, UserError

CHUNK = 1 << 20
# Blobs from this size on are read by ranges where they lie in object storage: a question about a field needs a few megabytes.
RANGES_FROM = 64 << 20


def _root() -> Path:
    root: Path = settings.ARTIFACTS_ROOT
    return root


def _remote() -> Storage | None:
    return storages["artifacts"] if "artifacts" in settings.STORAGES else None


def blob_name(digest: str) -> str:
    """Place of a blob: two levels of folders, so that none gets too many entries. ValueError for what is no digest."""
    if not is_digest(digest):
        raise ValueError(f"not a digest: {digest[:80]!r}")
    text = digest.removeprefix("sha256:")
    return f"{text[:2]}/{text[2:4]}/{text}"


@contextmanager
def told_when_full() -> Iterator[None]:
    """UserError OVER_QUOTA (507) where the disk or its quota is full while the block writes."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise UserError(
            "OVER_QUOTA", "The server has no room for it.", "Its disk is full; nothing that was kept is lost.",
            "Ask the administrator to make room, then try again.", status=507,
        ) from error  # fmt: skip


@contextmanager
def _draft() -> Iterator[Path]:
    """A file in the store's own file system, gone afterwards unless it was renamed."""
    folder = _root() / "drafts"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=folder)
    os.close(descriptor)
    path = Path(name)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


def _settle(draft: Path, digest: str) -> Path:
    """Moves a finished draft to its place; whoever comes second leaves the first one's bytes alone."""
    place = _root() / blob_name(digest)
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if place.exists():
        return place
    with draft.open("rb") as file:
        os.fsync(file.fileno())
    draft.chmod(0o400)
    os.replace(draft, place)
    return place


def blob_put(data: bytes | Path | BinaryIO) -> tuple[str, int]:
    """Keeps the bytes; returns (digest, size in bytes). Bounded memory for files and streams of any size.

    UserError OVER_QUOTA where there is no room for them.
    """
    with told_when_full(), _draft() as draft:
        hasher, size = hashlib.sha256(), 0
        with draft.open("wb") as target:
            for chunk in _chunks(data):
                hasher.update(chunk)
                size += len(chunk)
                target.write(chunk)
        digest = "sha256:" + hasher.hexdigest()
        storage = _remote()
        if storage is not None and not storage.exists(blob_name(digest)):
            with draft.open("rb") as source:
                kept = storage.save(blob_name(digest), File(source))
            if kept != blob_name(digest):
                # another process wrote the same blob between the two calls
                storage.delete(kept)
        _settle(draft, digest)
    return digest, size


def _chunks(data: bytes | Path | BinaryIO) -> Iterator[bytes]:
    if isinstance(data, bytes):
        yield data
    elif isinstance(data, Path):
        with data.open("rb") as source:
            while chunk := source.read(CHUNK):
                yield chunk
    else:
        while chunk := data.read(CHUNK):
            yield chunk


def blob_path(digest: str) -> Path:
    """A local file with exactly these bytes, to be read only. KeyError where the store does not hold them."""
    place = _root() / blob_name(digest)
    if place.exists():
        return place
    storage = _remote()
    if storage is None or not storage.exists(blob_name(digest)):
        raise KeyError(digest)
    with _draft() as draft:
        with storage.open(blob_name(digest), "rb") as source, draft.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
        if digest_file(draft) != digest:
            raise FaultError(f"the store's bytes of {digest} do not match their name")
        return _settle(draft, digest)


def blob_source(digest: str) -> Path | RemoteBlob:
    """What the blob is read from: the local file where there is one or the blob is small enough to fetch whole; else the object
    storage, by ranges, where that gives addresses. KeyError where the store does not hold it."""
    storage, name = _remote(), blob_name(digest)
    if storage is None or (_root() / name).exists():
        return blob_path(digest)
    if not storage.exists(name):
        raise KeyError(digest)
    size = storage.size(name)
    try:
        is_far = size >= RANGES_FROM and storage.url(name).startswith(("https://", "http://"))
    except NotImplementedError:
        is_far = False
    return RemoteBlob(lambda: storage.url(name), size, name.rpartition("/")[2]) if is_far else blob_path(digest)


def blob_is_intact(digest: str) -> bool:
    """Whether the kept bytes still match their name (a check for administrators; reads the whole blob)."""
    return digest_file(blob_path(digest)) == digest
