"""Hostile files: refused with a clear error, nothing read or fetched, this process alive. Each goes through the true ingest
process; the honeypots are a local file with a secret and a local server that counts requests."""

import struct
import threading
import time
import zlib
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio

from apps.core.errors import UserError
from apps.imagery.hints import SceneHints
from apps.imagery.ingest import Ingested, ingest_file
from tests.unit.imagery.rasters import write


@pytest.fixture
def server() -> Iterator[tuple[str, list[str]]]:
    """(address, paths asked for)."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def do_HEAD(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            pass

    held = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=held.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{held.server_port}", asked
    held.shutdown()
    held.server_close()


def ingest(path: Path, folder: Path, name: str = "") -> Ingested:
    folder.mkdir()
    return ingest_file(path, folder, name or path.name, SceneHints(), scene_id="s", artifact="a")


def refused(path: Path, tmp_path: Path, name: str = "") -> UserError:
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        ingest(path, tmp_path / "job", name)
    assert time.monotonic() - started < 60
    assert not (tmp_path / "job" / "scene.tif").exists()
    assert caught.value.why
    assert caught.value.fix
    return caught.value


def vrt(source: str, size: int = 20) -> str:
    return (
        f'<VRTDataset rasterXSize="{size}" rasterYSize="{size}"><VRTRasterBand dataType="Byte" band="1"><SimpleSource>'
        f'<SourceFilename relativeToVRT="0">{source}</SourceFilename><SourceBand>1</SourceBand></SimpleSource>'
        "</VRTRasterBand></VRTDataset>"
    )


@pytest.mark.parametrize("name", ["map.vrt", "map.tif", "map.png", "map"])
def test_a_vrt_reads_no_local_file(tmp_path: Path, name: str) -> None:
    secret = write(tmp_path / "secret.tif", np.full((1, 20, 20), 77, np.uint8))
    (tmp_path / "upload").write_text(vrt(str(secret)))
    error = refused(tmp_path / "upload", tmp_path, name)
    assert error.code == "UNSAFE_FILE"
    assert "VRT" in error.why


@pytest.mark.parametrize("name", ["map.xml", "map.tif"])
def test_a_wms_description_fetches_nothing(tmp_path: Path, server: tuple[str, list[str]], name: str) -> None:
    address, asked = server
    (tmp_path / "upload").write_text(
        f"<GDAL_WMS><Service name='TMS'><ServerUrl>{address}/${{z}}/${{x}}/${{y}}.png</ServerUrl></Service><DataWindow>"
        "<UpperLeftX>-180</UpperLeftX><UpperLeftY>90</UpperLeftY><LowerRightX>180</LowerRightX><LowerRightY>-90</LowerRightY>"
        "<SizeX>256</SizeX><SizeY>256</SizeY></DataWindow><BandsCount>3</BandsCount></GDAL_WMS>"
    )
    assert refused(tmp_path / "upload", tmp_path, name).code == "UNSAFE_FILE"
    assert asked == []


def test_a_vrt_that_points_at_an_address_fetches_nothing(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    address, asked = server
    (tmp_path / "upload").write_text(vrt(f"/vsicurl/{address}/secret.tif"))
    assert refused(tmp_path / "upload", tmp_path, "a.tif").code == "UNSAFE_FILE"
    assert asked == []


def test_what_lies_beside_a_file_is_not_looked_at(tmp_path: Path, server: tuple[str, list[str]]) -> None:
    address, asked = server
    planes = np.random.default_rng(0).integers(1, 9, (1, 1100, 1100)).astype(np.uint8)
    secret = write(tmp_path / "secret.tif", np.full((1, 550, 550), 77, np.uint8))
    path = write(tmp_path / "x.tif", planes)
    (tmp_path / "x.tif.ovr").write_text(vrt(str(secret), 550))
    (tmp_path / "x.tif.msk").write_text(vrt(f"/vsicurl/{address}/mask.tif", 1100))
    (tmp_path / "x.vrt").write_text(vrt(f"/vsicurl/{address}/x.tif"))
    (tmp_path / "x.tif.aux.xml").write_text(
        "<PAMDataset><PAMRasterBand band='1'><NoDataValue>3</NoDataValue></PAMRasterBand></PAMDataset>"
    )
    done = ingest(path, tmp_path / "job")
    assert done.info.bands[0].nodata is None
    with rasterio.open(done.cog) as dataset:
        np.testing.assert_array_equal(dataset.read(), planes)
        assert dataset.read(1, out_shape=(275, 275)).max() < 77
    assert asked == []


def test_a_sidecar_is_no_upload(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tif", np.ones((1, 8, 8), np.uint8))
    assert refused(path, tmp_path, "x.tif.ovr").code == "UNSAFE_FILE"


def test_a_small_file_that_declares_80_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "big.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=200_000, height=100_000, count=4, dtype="uint8", tiled=True, blockxsize=16384,
        blockysize=16384, sparse_ok=True, bigtiff="YES",
    ):  # fmt: skip
        pass
    assert path.stat().st_size < 20_000
    error = refused(path, tmp_path)
    assert error.code == "TOO_LARGE"
    assert "200,000 × 100,000" in error.why


def test_a_small_file_that_would_unpack_to_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tif"
    with rasterio.open(
        path, "w", driver="GTiff", width=60_000, height=60_000, count=1, dtype="uint16", tiled=True, blockxsize=8192,
        blockysize=8192, sparse_ok=True,
    ):  # fmt: skip
        pass
    assert refused(path, tmp_path).code == "TOO_LARGE"


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def test_a_png_of_ten_thousand_million_pixels(tmp_path: Path) -> None:
    header = struct.pack(">IIBBBBB", 100_000, 100_000, 8, 2, 0, 0, 0)
    path = tmp_path / "huge.png"
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", zlib.compress(b"")) + _chunk(b"IEND", b""))
    error = refused(path, tmp_path)
    assert error.code == "TOO_LARGE"
    assert "100,000 × 100,000" in error.why


@pytest.mark.parametrize(
    "data",
    [b"", b"II*\0", b"II*\0" + b"\xff" * 200, b"\x89PNG\r\n\x1a\n\0\0", b"\xff\xd8\xff\xe0", b"hello", b"\x89HDF\r\n\x1a\n" * 9],
)
def test_broken_files_are_told_as_such(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "upload").write_bytes(data)
    assert refused(tmp_path / "upload", tmp_path, "scene").code == "UNREADABLE"


def test_a_file_that_is_cut_off(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.tif", np.random.default_rng(0).integers(0, 255, (3, 400, 400)).astype(np.uint8))
    (tmp_path / "part.tif").write_bytes(whole.read_bytes()[:200_000])
    error = refused(tmp_path / "part.tif", tmp_path)
    assert (error.code, error.why) == ("UNREADABLE", "Its pixels are broken or cut off.")


def test_a_name_that_contradicts_the_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "x.tif", np.ones((1, 8, 8), np.uint8))
    assert refused(path, tmp_path, "x.png").code == "UNSAFE_FILE"


def test_what_the_process_may_use_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limits are the child's own: a process that wants more memory than it may is told as too large."""
    import subprocess
    import sys

    code = (
        "import apps.imagery.ingest_process as p, resource\np.limit()\n"
        "assert resource.getrlimit(resource.RLIMIT_AS)[0] == p.MEMORY_BYTES\n"
        "assert resource.getrlimit(resource.RLIMIT_CORE)[0] == 0\n"
        "try:\n    bytearray(p.MEMORY_BYTES + 1)\nexcept MemoryError:\n    print('limited')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "limited", done.stderr


def test_the_process_inherits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import subprocess

    seen: dict[str, object] = {}
    original = subprocess.Popen

    def watch(command: list[str], **options: Any) -> Any:
        if "env" in options:
            seen.update(options, command=command)
        return original(command, **options)

    monkeypatch.setenv("SECRET_KEY", "do not tell")
    monkeypatch.setattr("apps.imagery.ingest.subprocess.Popen", watch)
    done = ingest(write(tmp_path / "x.tif", np.ones((1, 8, 8), np.uint8)), tmp_path / "job")
    assert done.info.valid_share == 1.0
    environment = seen["env"]
    assert isinstance(environment, dict)
    assert "SECRET_KEY" not in environment
    assert not any(k.startswith(("DATABASE", "REDIS", "DJANGO")) for k in environment)
    assert "VRT" in environment["GDAL_SKIP"].split(",")
    assert seen["stdin"] == subprocess.DEVNULL


@pytest.mark.parametrize("has_bubble", [True, False])
def test_the_given_file_is_not_touched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_bubble: bool) -> None:
    from apps.imagery import ingest as module

    if has_bubble and not module.is_bubbled():
        pytest.skip("bubblewrap does not work on this machine")
    if not has_bubble:
        monkeypatch.setattr(module, "_bubblewrap", lambda: None)
    path = write(tmp_path / "x.tif", np.ones((1, 8, 8), np.uint8))
    before = path.read_bytes()
    assert ingest(path, tmp_path / "job").info.valid_share == 1.0
    assert path.read_bytes() == before
    inside = tmp_path / "job" / "file.tif"
    assert inside.stat().st_ino != path.stat().st_ino
