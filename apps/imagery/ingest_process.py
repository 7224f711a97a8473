"""The ingest process: ``python -m apps.imagery.ingest_process FOLDER``, started by ``ingest.ingest_file``
with a clean environment and no standard input. It limits itself before it reads a byte of the file, reads
``FOLDER/job.json``, and leaves ``scene.tif`` (the COG) and ``result.json``. Only these two are used
afterwards. No Django here."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY_BYTES = 4 * 2**30
CPU_SECONDS = 1500
FILE_BYTES = 32 * 2**30
_CLONE_NEWUSER, _CLONE_NEWNET = 0x10000000, 0x40000000


def limit() -> None:
    """Memory, CPU time, file size, open files; no core dump; no network where the kernel lets us leave it."""
    for kind, value in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, CPU_SECONDS),
        (resource.RLIMIT_FSIZE, FILE_BYTES),
        (resource.RLIMIT_NOFILE, 256),
        (resource.RLIMIT_CORE, 0),
    ):
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    try:
        flags = _CLONE_NEWNET if os.geteuid() == 0 else _CLONE_NEWNET | _CLONE_NEWUSER
        ctypes.CDLL(None, use_errno=True).unshare(flags)  # refused in some containers: a further wall, not the wall
    except (OSError, AttributeError):
        pass


def run(folder: Path) -> dict[str, Any]:
    """What ``result.json`` holds: facts, counts, info, findings and statistics. UserError is for the person."""
    from rasterio._err import CPLE_BaseError
    from rasterio.errors import RasterioError

    from apps.core.errors import UserError
    from apps.imagery.hints import SceneHints
    from apps.imagery.ingest_convert import convert
    from apps.imagery.ingest_facts import count_pixels
    from apps.imagery.inspect import finish, inspect
    from apps.imagery.inspect_bands import valid_ranges
    from apps.imagery.readers import open_scene
    from apps.imagery.statistics import scene_statistics

    job = json.loads((folder / "job.json").read_text())
    name, hints, target = job["name"], SceneHints.model_validate(job["hints"]), folder / "scene.tif"
    try:
        facts = convert(folder / job["file"], target, name, hints)
        counts = count_pixels(target, valid_ranges(facts, name))
        found = inspect(facts, counts, name, hints, scene_id=job["scene_id"], artifact=job["artifact"])
        with open_scene(found.info, target) as reader:
            statistics = scene_statistics(reader)
        found = finish(found, statistics)
    except (RasterioError, CPLE_BaseError):
        raise UserError(
            "UNREADABLE", f"“{name}” cannot be read.", "Its pixels are broken or cut off.",
            "Export or transfer it again from where it came.", status=415,
        ) from None  # fmt: skip
    except MemoryError:
        raise UserError(
            "TOO_LARGE", f"“{name}” is too large.", "It needs more memory than ingest may use.",
            "Cut it into parts, or store it in tiles, and upload that.", status=413,
        ) from None  # fmt: skip
    return {
        "facts": facts.model_dump(mode="json"),
        "counts": counts.model_dump(mode="json"),
        "info": found.info.model_dump(mode="json"),
        "findings": [f.model_dump(mode="json") for f in found.findings],
        "statistics": statistics.model_dump(mode="json"),
    }


def serve(run: Callable[[Path], dict[str, Any]]) -> int:
    """Limits this process, runs the job of the folder that the command line names, and leaves its ``result.json``: what ``run``
    gives, or the UserError that it raises. Exit status 0."""
    limit()
    from apps.core.errors import UserError

    folder = Path(sys.argv[1])
    try:
        result = run(folder)
    except UserError as error:
        result = {"error": error.as_json() | {"status": error.status}}
    (folder / "result.json").write_text(json.dumps(result, allow_nan=False))
    return 0


if __name__ == "__main__":
    sys.exit(serve(run))
