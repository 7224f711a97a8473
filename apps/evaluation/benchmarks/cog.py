"""Conversion to a COG, as ingest does it, against rio-cogeo and GDAL's COG driver with its own choices."""

from __future__ import annotations

import importlib.util
import sys
import tempfile
from pathlib import Path

from apps.evaluation.benchmarks.imagery import repeated_scene
from apps.evaluation.benchmarks.pairs import CHILD_END, Benchmark, Row, in_process, spread

SIDE_PX = 6000
ROUNDS = 3

OURS = """
import os, sys, time
from pathlib import Path
from apps.imagery.ingest_convert import convert
from apps.imagery.hints import SceneHints
out = Path(sys.argv[1] + ".ours.tif")
began, _cpu = time.perf_counter(), time.process_time()
convert(Path(sys.argv[1]), out, Path(sys.argv[1]).name, SceneHints())
_seconds, _value = time.perf_counter() - began, out.stat().st_size / 1e6
out.unlink()
"""
RIO_COGEO = """
import sys, time
from pathlib import Path
from rio_cogeo.cogeo import cog_translate
from rio_cogeo.profiles import cog_profiles
out = Path(sys.argv[1] + ".rio.tif")
began, _cpu = time.perf_counter(), time.process_time()
cog_translate(sys.argv[1], str(out), {**cog_profiles.get(CODEC), **OPTIONS}, in_memory=IN_MEMORY, quiet=True,
              overview_resampling="nearest")
_seconds, _value = time.perf_counter() - began, out.stat().st_size / 1e6
out.unlink()
"""
GDAL = """
import sys, time
from pathlib import Path
import rasterio.shutil
out = Path(sys.argv[1] + ".gdal.tif")
began, _cpu = time.perf_counter(), time.process_time()
rasterio.shutil.copy(sys.argv[1], str(out), driver="COG", compress="DEFLATE", overview_resampling="NEAREST")
_seconds, _value = time.perf_counter() - began, out.stat().st_size / 1e6
out.unlink()
"""


def run(size: int | None) -> list[Row]:
    """A ``size``² (6000) × 4 uint16 deflate GeoTIFF to a COG with overviews."""
    side = size or SIDE_PX
    programs = {"ours": OURS, "GDAL's COG driver": GDAL}
    if importlib.util.find_spec("rio_cogeo"):
        own = RIO_COGEO.replace("CODEC", "'deflate'").replace("OPTIONS", "{}")
        programs["rio-cogeo, in memory"] = own.replace("IN_MEMORY", "True")
        programs["rio-cogeo, on disk"] = own.replace("IN_MEMORY", "False")
        # with our codec, in two threads as ours: what is left is not the codec's
        alike = RIO_COGEO.replace("CODEC", "'zstd'").replace("OPTIONS", "{'zstd_level': 1, 'predictor': 2, 'num_threads': 2}")
        programs["rio-cogeo, in memory, packed as ours"] = alike.replace("IN_MEMORY", "True")
    else:
        print("skipped: rio-cogeo (not installed)", file=sys.stderr)
    found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        path = repeated_scene(Path(scratch), side)
        for i in range(ROUNDS):
            for name in list(programs) if i % 2 == 0 else list(programs)[::-1]:
                found[name].append(in_process(programs[name] + CHILD_END, str(path)))
    ours, rows = found.pop("ours"), []
    for name, peer in found.items():
        rows.append(
            Row(
                f"COG of {side}² × 4 uint16",
                spread([r["seconds"] for r in ours]),
                name,
                spread([r["seconds"] for r in peer]),
                spread([a["seconds"] / b["seconds"] for a, b in zip(ours, peer, strict=True)]),
                "s",
                note=f"peak RSS {ours[0]['rss_mb']:.0f} MB against {peer[0]['rss_mb']:.0f}; processor {ours[0]['cpu_s']:.1f} s "
                f"against {peer[0]['cpu_s']:.1f}; file {ours[0]['value']:.0f} MB against {peer[0]['value']:.0f}",
            )
        )
    return rows


BENCHMARKS = (Benchmark("cog", "conversion to a COG at ingest", run),)
