"""Pixels by range request: a loopback server that gives parts, a storage that points there, the same figures with less read."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from django.conf import settings
from django.core.files.storage import FileSystemStorage
from django.test import override_settings

from apps.artifacts import blobs, ranges
from apps.artifacts.blobs import blob_name, blob_put, blob_source
from apps.artifacts.ranges import BLOCK, BlobChangedError, RemoteBlob
from apps.core.errors import UserError
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import Band, Grid, SceneInfo
from apps.imagery.readers import open_scene
from apps.tools.toolbox import LocalToolBox
from tests.unit.tools.rasters import MemoryLayers

SIDE = 3000


class Server:
    """Serves a folder by ranges; ``status`` and ``twist`` make it answer wrongly, ``version`` is the ETag, and ``spoil`` may do
    with the body (handler, bytes) what it likes."""

    def __init__(self, folder: Path):
        self.folder, self.asked = folder, list[tuple[str, int, int]]()
        self.status, self.n_faults, self.twist = 206, 0, 0
        self.version = '"one"'
        self.spoil: Callable[[Any, bytes], None] | None = None
        owner = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                held = (owner.folder / self.path.partition("?")[0].lstrip("/")).read_bytes()
                place = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers["Range"] or "")
                assert place is not None, "the whole blob was asked for"
                first, last = int(place[1]), int(place[2])
                owner.asked.append((self.path, first, last))
                status = 206
                if owner.n_faults:
                    owner.n_faults, status = owner.n_faults - 1, owner.status
                body = held[first:last + 1] if status == 206 else held if status == 200 else b"no"
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.send_header("ETag", owner.version)
                if status == 206:
                    self.send_header("Content-Range", f"bytes {first + owner.twist}-{last}/{len(held)}")
                if status == 302:
                    self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                try:
                    if owner.spoil is not None:
                        owner.spoil(self, body)
                    else:
                        self.wfile.write(body)
                except (BrokenPipeError, ConnectionResetError):
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                return

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}/"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


class FarStorage(FileSystemStorage):
    """A folder whose files have addresses, as object storage has; each address is signed anew."""

    n_signed = 0

    def url(self, name: str | None) -> str:
        FarStorage.n_signed += 1
        return f"{self.base_url}{name}?signature={FarStorage.n_signed}"


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "far").mkdir()
    server = Server(tmp_path / "far")
    stores = {**settings.STORAGES, "artifacts": {
        "BACKEND": f"{__name__}.FarStorage", "OPTIONS": {"location": tmp_path / "far", "base_url": server.url}}}  # fmt: skip
    monkeypatch.setattr(blobs, "RANGES_FROM", 1 << 20)
    with override_settings(STORAGES=stores, ARTIFACTS_ROOT=tmp_path / "near"):
        yield server
    server.http.shutdown()
    server.http.server_close()


@pytest.fixture
def kept(far: Server, tmp_path: Path) -> tuple[SceneInfo, Path, str]:
    """(scene, its file here, its digest) of a raster that lies in the far storage alone."""
    transform = (10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0)
    planes = np.random.default_rng(3).integers(1, 5000, (2, SIDE, SIDE)).astype(np.uint16)
    here = tmp_path / "here.tif"
    with rasterio.open(here, "w", driver="GTiff", width=SIDE, height=SIDE, count=2, dtype="uint16", crs="EPSG:32630",
                       transform=rasterio.Affine(*transform), tiled=True, blockxsize=512, blockysize=512, compress="deflate",
                       zlevel=1) as out:  # fmt: skip
        out.write(planes)
    digest, _ = blob_put(here)
    (settings.ARTIFACTS_ROOT / blob_name(digest)).unlink()
    grid = Grid(crs="EPSG:32630", transform=transform, width=SIDE, height=SIDE)
    bands = (Band(index=1, role="red", role_source="person"), Band(index=2, role="nir", role_source="person"))
    return SceneInfo(scene_id="s", artifact=digest, name="far.tif", grid=grid, dtype="uint16", bands=bands), here, digest


def _ndvi(info: SceneInfo, source: Any, region: dict[str, Any] | None = None) -> Any:
    nodes = [{"id": "s", "op": "asset.scene", "params": {"scene": "s"}},
             {"id": "q", "op": "raster.product.index", "inputs": ["s"], "params": {"index": "ndvi"}},
             {"id": "out", "op": "raster.summarize.statistic", "inputs": ["q"], "params": {"statistic": "mean"}}]  # fmt: skip
    arguments: dict[str, Any] = {"nodes": nodes, "output": "out", "region": region, "region_crs": "image"}
    task = TaskRef(task_type="index_statistic", question="NDVI?", answer_form="number")
    box = LocalToolBox(open_scene=lambda i: open_scene(i, source), layers=MemoryLayers())
    question = Question(text="NDVI?", scenes=(info,))
    return box.call(tool="execute", arguments=arguments, question=question, plan=Plan(task=task), step=1)


def test_a_question_is_answered_from_object_storage_with_the_same_digits(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    info, here, digest = kept
    source = blob_source(digest)
    assert isinstance(source, RemoteBlob)
    found, wanted = _ndvi(info, source), _ndvi(info, here)
    assert found.status.state == "ok", found.status.reason
    assert found.result.value == wanted.result.value
    assert found.evidence.intermediate == wanted.evidence.intermediate
    assert not (settings.ARTIFACTS_ROOT / blob_name(digest)).exists(), "no copy was made"
    # an address of its own for each request, since signed ones expire
    assert len({path for path, _, _ in far.asked}) == len(far.asked) == source.n_requests


def test_a_small_region_reads_a_small_part(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    info, here, digest = kept
    source = blob_source(digest)
    assert isinstance(source, RemoteBlob)
    region = {"type": "Polygon", "coordinates": [[[600, 600], [900, 600], [900, 900], [600, 600]]]}
    assert _ndvi(info, source, region).result.value == _ndvi(info, here, region).result.value
    assert source.n_bytes < 0.25 * source.size and max(b - a for _, a, b in far.asked) <= 4 * BLOCK


def test_a_reader_lets_go_once_however_often_it_is_closed(
    kept: tuple[SceneInfo, Path, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    rested: list[int] = []
    monkeypatch.setattr(RemoteBlob, "rest", lambda blob: rested.append(1))
    with open_scene(kept[0], blob_source(kept[2])) as reader:
        reader.read([1], (0, 0, 8, 8))
        reader.close()
        reader.close()
    assert rested == [1]


def test_threads_read_parts_at_once(kept: tuple[SceneInfo, Path, str]) -> None:
    info, here, digest = kept
    windows = [(c, r, 400, 300) for c in range(0, 2600, 400) for r in range(0, 2700, 700)]
    with open_scene(info, here) as reader:
        wanted = [reader.read([2, 1], w).data for w in windows]
    with open_scene(info, blob_source(digest)) as reader, ThreadPoolExecutor(6) as pool:
        for a, b in zip(pool.map(lambda w: reader.read([2, 1], w).data, windows), wanted, strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_storage_that_falters_is_asked_again(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    _, here, digest = kept
    source = blob_source(digest)
    assert isinstance(source, RemoteBlob)
    far.status, far.n_faults = 503, 2
    assert source.read(5, 100) == here.read_bytes()[5:105]
    with source.open() as file:
        file.seek(-7, 2)
        assert file.read() == here.read_bytes()[-7:] and file.read() == b""


@pytest.mark.parametrize("status", [200, 302, 403, 404, 416])
def test_what_is_no_part_is_refused(far: Server, kept: tuple[SceneInfo, Path, str], status: int) -> None:
    info, _, digest = kept
    far.status, far.n_faults = status, 1000
    source = blob_source(digest)
    with pytest.raises(UserError, match="object storage"):
        open_scene(info, source)
    assert all(path.startswith("/") for path, _, _ in far.asked)


def test_another_part_than_was_asked_for_is_refused(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    _, _, digest = kept
    source = blob_source(digest)
    assert isinstance(source, RemoteBlob)
    far.twist = 1
    with pytest.raises(OSError, match="another part"):
        source.read(0, 10)


def test_a_storage_that_breaks_midway_gives_no_number(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    info, _, digest = kept
    source = blob_source(digest)
    reader = open_scene(info, source)
    far.status, far.n_faults = 403, 10_000
    o = _asked(info, reader)
    assert o.status.state == "failed" and o.result.value is None and "object storage" in o.status.reason


def _cut(handler: Any, body: bytes) -> None:
    handler.wfile.write(body[:len(body) // 2])
    handler.close_connection = True


def _dripping(handler: Any, body: bytes) -> None:
    for k in range(0, len(body), 1000):
        handler.wfile.write(body[k:k + 1000])
        time.sleep(0.05)


def _unasked(handler: Any, body: bytes) -> None:
    handler.wfile.write(body + b"more")


@pytest.mark.parametrize("spoil", [_cut, _dripping])
def test_a_storage_that_cuts_or_drips_gives_no_number(
    far: Server, kept: tuple[SceneInfo, Path, str], monkeypatch: pytest.MonkeyPatch, spoil: Any
) -> None:
    """Each drop comes in time; the part as a whole does not."""
    monkeypatch.setattr(ranges, "_WHOLE_S", 0.3)
    info, _, digest = kept
    source = blob_source(digest)
    reader = open_scene(info, source)
    far.spoil = spoil
    o = _asked(info, reader)
    assert o.status.state == "failed" and o.result.value is None and o.result.layers == ()
    assert "object storage" in o.status.reason
    assert not any(word in o.status.reason for word in ("signature", "127.0.0.1", "UserError", "UNREADABLE")), o.status.reason


def _asked(info: SceneInfo, reader: Any) -> Any:
    nodes = [{"id": "s", "op": "asset.scene", "params": {"scene": "s"}},
             {"id": "q", "op": "raster.product.index", "inputs": ["s"], "params": {"index": "ndvi"}},
             {"id": "out", "op": "raster.summarize.statistic", "inputs": ["q"], "params": {"statistic": "mean"}}]  # fmt: skip
    box = LocalToolBox(open_scene=lambda _: reader, layers=MemoryLayers())
    task = TaskRef(task_type="index_statistic", question="NDVI?", answer_form="number")
    return box.call(tool="execute", arguments={"nodes": nodes, "output": "out"}, question=Question(text="?", scenes=(info,)),
                    plan=Plan(task=task), step=1)  # fmt: skip


def test_a_part_that_is_cut_off_once_is_asked_for_again(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    _, here, digest = kept
    source = blob_source(digest)
    assert isinstance(source, RemoteBlob)

    def once(handler: Any, body: bytes) -> None:
        far.spoil = None
        _cut(handler, body)

    far.spoil = once
    assert source.read(5, 100) == here.read_bytes()[5:105] and len(far.asked) == 2


def test_faults_at_random_change_no_digit(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    """One answer in three is a fault or is cut; the same figures as from the file, or none."""
    info, here, digest = kept
    wanted = _ndvi(info, here)
    rng = np.random.default_rng(8)

    def spoil(handler: Any, body: bytes) -> None:
        far.status, far.n_faults = 500, int(rng.random() < 0.2)
        (_cut if rng.random() < 0.15 else lambda h, b: h.wfile.write(b))(handler, body)

    far.spoil = spoil
    n_right = 0
    for _ in range(3):
        found = _ndvi(info, blob_source(digest))
        assert found.result.value in (wanted.result.value, None)
        n_right += found.result.value is not None
        assert found.status.state == "ok" or "object storage" in found.status.reason
    assert n_right >= 1


def test_a_storage_without_ranges_is_not_made_to_send_the_whole(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    """It answers 200 with all of it: the head says so, and the body is left."""
    _, here, digest = kept
    source = blob_source(digest)
    assert isinstance(source, RemoteBlob)
    sent: list[int] = []

    def counted(handler: Any, body: bytes) -> None:
        for k in range(0, len(body), 1 << 16):
            handler.wfile.write(body[k:k + (1 << 16)])
            sent.append(min(1 << 16, len(body) - k))

    far.status, far.n_faults, far.spoil = 200, 10, counted
    with pytest.raises(OSError, match="answered 200"):
        source.read(0, 10)
    # what the sockets of both sides hold may be on its way
    assert sum(sent) < here.stat().st_size and source.n_bytes == 0


def test_more_than_was_asked_for_is_no_part(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    _, here, digest = kept
    source = blob_source(digest)
    assert isinstance(source, RemoteBlob)
    far.spoil = _unasked
    assert source.read(0, 10) == here.read_bytes()[:10], "what follows the length that was told belongs to nothing"


def test_a_blob_that_changes_midway_is_seen(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    """As long and of the same form: the parts would fit together, and mean nothing."""
    info, here, digest = kept
    source = blob_source(digest)
    reader = open_scene(info, source)
    other = bytearray(here.read_bytes())
    other[-1000:] = other[-1000:][::-1]
    (far.folder / blob_name(digest)).write_bytes(other)
    far.version = '"two"'
    o = _asked(info, reader)
    assert o.status.state == "failed" and o.result.value is None
    assert "changed while it was read" in o.status.reason
    again = blob_source(digest)
    assert isinstance(again, RemoteBlob) and again.read(0, 4) == here.read_bytes()[:4], "a new reading begins anew"
    far.version = '"three"'
    with pytest.raises(BlobChangedError):
        again.read(5 * BLOCK, 4)


def test_small_and_near_blobs_are_files(far: Server, kept: tuple[SceneInfo, Path, str]) -> None:
    small, _ = blob_put(b"x" * 100)
    (settings.ARTIFACTS_ROOT / blob_name(small)).unlink()
    assert isinstance(blob_source(small), Path)
    _, here, digest = kept
    blob_put(here)
    assert isinstance(blob_source(digest), Path)
    with pytest.raises(KeyError):
        blob_source("sha256:" + "0" * 64)
    assert far.asked == []
