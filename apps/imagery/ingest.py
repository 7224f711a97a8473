"""Ingest of one file: its bytes are opened in a limited process of their own, and only what that wrote is
used.

The web process never opens an uploaded file with GDAL; it hands the path over and gets a COG and a SceneInfo
back.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from apps.core.errors import FaultError, UserError
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import RasterCounts, RasterFacts, RasterStatistics
from apps.imagery.findings import Finding
from apps.imagery.formats import check_picture, format_of
from apps.imagery.hints import SceneHints
from apps.imagery.profiles import OWN_VARIABLE

ROOT = Path(__file__).resolve().parents[2]
WALL_SECONDS = 1600
_RESULT_BYTES = 16 * 2**20
# Drivers that follow paths or addresses, or unpack archives; switched off in that process alone (WarpedVRT
# needs VRT).
_SKIPPED_DRIVERS = (
    "VRT,GTI,DERIVED,WMS,WMTS,WCS,HTTP,OGCAPI,DAAS,EEDA,EEDAI,PLMOSAIC,STACIT,STACTA,TIL,KMLSUPEROVERLAY,MBTiles,MRF,Zarr,"
    "ESRIC,GPKG,PDF,SQLite,OSM,Rasterlite,SAFE,SENTINEL2,DIMAP,RS2,TSX,HDF5,HDF5Image,netCDF,BAG,NITF,ENVI,EHdr,ERS,HFA,"
    "GRASSASCIIGrid,AAIGrid,XYZ,GeoJSON,ESRI Shapefile,MVT"
)

M = TypeVar("M", bound=BaseModel)


class _Result(BaseModel):
    model_config = ConfigDict(extra="forbid")
    facts: RasterFacts
    counts: RasterCounts
    info: SceneInfo
    findings: tuple[Finding, ...]
    statistics: RasterStatistics


@dataclass(frozen=True, slots=True)
class Ingested:
    """What the process left: ``cog`` lies in the job's folder and goes with it."""

    cog: Path
    facts: RasterFacts
    counts: RasterCounts
    info: SceneInfo
    findings: tuple[Finding, ...]
    statistics: RasterStatistics


def ingest_file(
    source: Path, folder: Path, name: str, hints: SceneHints, *, scene_id: str, artifact: str
) -> Ingested:
    """Opens ``source`` in the limited process; ``folder`` is an empty one of this job's own.

    Raises UserError UNSAFE_FILE, UNREADABLE, TOO_LARGE or BAD_ARGUMENT for what the file is, FaultError where
    the process broke in a way that no file should be able to cause.
    """
    kind = format_of(source, name)
    check_picture(source, kind, name)
    # one name of ours in a folder of its own: no sidecar lies beside it, and the kept bytes cannot be written through it
    inside = folder / f"file{kind.suffix}"
    if _bubblewrap() is None:
        shutil.copyfile(source, inside)
    else:
        inside.touch()
    job = {"file": inside.name, "name": name, "scene_id": scene_id, "artifact": artifact, "hints": hints.model_dump(mode="json")}
    (folder / "job.json").write_text(json.dumps(job))
    command = [*_bubble(folder, source, inside), sys.executable, "-s", "-m", "apps.imagery.ingest_process", str(folder)]
    code = run_limited(command, folder)
    result = folder / "result.json"
    if code != 0 or not result.exists():
        raise _ended(name, code)
    found = result_of(result, _Result, "ingest", _RESULT_BYTES)
    if found.info.scene_id != scene_id or found.info.artifact != artifact:
        raise FaultError("the ingest process answered for another file")
    cog = folder / "scene.tif"
    return Ingested(cog, found.facts, found.counts, found.info, found.findings, found.statistics)


def result_of(path: Path, model: type[M], process: str, most_bytes: int) -> M:
    """What a limited process left in its ``result.json``. UserError is the one that it left for the person; FaultError where the
    file is larger than ``most_bytes`` or is no such result."""
    if path.stat().st_size > most_bytes:
        raise FaultError(f"the {process} process wrote {path.stat().st_size} bytes of result")
    held = json.loads(path.read_text())
    if "error" in held:
        e = held["error"]
        raise UserError(e["code"], e["what"], e["why"], e["fix"], status=e["status"], detail=e["detail"])
    try:
        return model.model_validate(held)
    except ValidationError as error:
        raise FaultError(f"the {process} process wrote a result that is none: {error.error_count()} errors") from error


def _ended(name: str, code: int | None) -> UserError:
    if code is None or code == -signal.SIGXCPU:
        return UserError(
            "TOO_LARGE", f"“{name}” takes too long.", f"It was still being read after {WALL_SECONDS // 60} minutes.",
            "Cut it into parts, or convert it to a tiled GeoTIFF, and upload that.", status=413,
        )  # fmt: skip
    return UserError(
        "UNREADABLE", f"“{name}” cannot be read.",
        f"The process that opened it ended ({signal.Signals(-code).name if code < 0 else f'exit {code}'}): "
        "the file is broken or needs too much memory.",
        "Convert it to a tiled GeoTIFF with another program and upload that.", status=415,
    )  # fmt: skip


def run_limited(
    command: Sequence[str], folder: Path, *, skipped: str = _SKIPPED_DRIVERS, seconds: float = WALL_SECONDS
) -> int | None:
    """Exit code (negative: by signal), or None where the time ran out. What it says on standard error goes to
    our log. ``skipped`` names the drivers that GDAL leaves out."""
    environment = {
        "PATH": "/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder), "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1",
        "GDAL_SKIP": skipped, "GDAL_DRIVER_PATH": "disable", "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
        "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".none", "GDAL_PAM_ENABLED": "NO", "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2",
    }  # fmt: skip
    if own := os.environ.get(OWN_VARIABLE):
        environment[OWN_VARIABLE] = own
    process = subprocess.Popen(
        command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, start_new_session=True, close_fds=True,
    )  # fmt: skip
    try:
        _, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        _kill(process)
        return None
    except BaseException:
        _kill(process)  # the worker's own time limit: leave no process behind
        raise
    if process.returncode:
        told = errors[-2000:].decode(errors="replace")
        logging.getLogger(__name__).warning("ingest process ended with %s: %s", process.returncode, told)
    return process.returncode


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def walled(folder: Path) -> list[str]:
    """bubblewrap's command line for a job whose file lies in its own folder already; empty where it does not work here."""
    own = folder / "job.json"
    return _bubble(folder, own, own)


def _bubble(folder: Path, source: Path, inside: Path) -> list[str]:
    """bubblewrap's command line where it works: no network, nothing writable but the job's folder, few things
    visible, ``source`` read-only as ``inside``."""
    program = _bubblewrap()
    if program is None:
        return []
    seen = ["/usr", "/lib", "/lib64", "/bin", "/etc/ld.so.cache", sys.base_prefix, sys.prefix, str(ROOT / "apps")]
    binds = [part for path in dict.fromkeys(seen) for part in ("--ro-bind-try", path, path)]
    # /tmp first: the checkout itself may lie below it
    return [
        program, "--unshare-all", "--die-with-parent", "--new-session", "--tmpfs", "/tmp", *binds,
        "--proc", "/proc", "--dev", "/dev", "--bind", str(folder), str(folder), "--ro-bind", str(source), str(inside),
        "--chdir", str(ROOT), "--",
    ]  # fmt: skip


@cache
def _bubblewrap() -> str | None:
    program = shutil.which("bwrap")
    if program is None:
        return None
    probe = subprocess.run(
        [program, "--unshare-all", "--ro-bind", "/", "/", "true"], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return program if probe.returncode == 0 else None


def is_bubbled() -> bool:
    """Whether ingest runs inside bubblewrap on this machine, for the status page."""
    return _bubblewrap() is not None


