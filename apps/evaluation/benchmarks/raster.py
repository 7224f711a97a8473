"""One streamed pass over a raster: mean NDVI by ours, by numpy whole, numpy windowed, numexpr and xarray with dask.

Each runs in a process of its own, so that peak memory is its own; the time to read the pixels alone stands beside them.
"""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

from apps.evaluation.benchmarks.imagery import repeated_scene
from apps.evaluation.benchmarks.pairs import CHILD_END, Benchmark, Row, in_process, spread

SIDE_PX = 6000
ROUNDS = 3

OURS = """
import os, sys, time
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rsure_web.settings")
from pathlib import Path
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import Band, Grid, SceneInfo
from apps.imagery.readers import open_scene
from apps.tools.toolbox import LocalToolBox
import rasterio
path = Path(sys.argv[1])
with rasterio.open(path) as d:
    grid = Grid(crs=d.crs.to_string(), transform=tuple(d.transform)[:6], width=d.width, height=d.height)
bands = tuple(Band(index=i + 1, role=r, role_source="person") for i, r in enumerate(("blue", "green", "red", "nir")))
scene = SceneInfo(scene_id="s", artifact="sha256:" + "0" * 64, name=path.name, grid=grid, dtype="uint16", bands=bands)
from apps.evaluation.faultbench.rig import FolderBlobs
from apps.imagery.layers import ArtifactLayerStore
layers = ArtifactLayerStore(FolderBlobs(path.parent / "layers"))
nodes = [{"id": "s", "op": "asset.scene", "params": {"scene": "s"}},
         {"id": "q", "op": "raster.product.index", "inputs": ["s"], "params": {"index": "ndvi"}},
         {"id": "out", "op": "raster.summarize.statistic", "inputs": ["q"], "params": {"statistic": "mean"}}]
question = Question(text="What is the mean NDVI?", scenes=(scene,))
plan = Plan(task=TaskRef(task_type="index_statistic", question=question.text, answer_form="number"))
box = LocalToolBox(open_scene=lambda info: open_scene(info, path), layers=layers)
began = time.perf_counter()
o = box.call(tool="execute", arguments={"nodes": nodes, "output": "out"}, question=question, plan=plan, step=1)
_seconds, _value = time.perf_counter() - began, o.result.value
if o.status.state == "failed":
    raise SystemExit(o.status.reason)
"""
WHOLE = """
import sys, time
import numpy as np, rasterio
began = time.perf_counter()
with rasterio.open(sys.argv[1]) as d:
    red, nir = d.read([3, 4]).astype(np.float32)
_value = float(((nir - red) / (nir + red)).mean(dtype=np.float64))
_seconds = time.perf_counter() - began
"""
WINDOWED = """
import sys, time
import numpy as np, rasterio
began = time.perf_counter()
total = n = 0
with rasterio.open(sys.argv[1]) as d:
    for _, w in d.block_windows(1):
        red, nir = d.read([3, 4], window=w).astype(np.float32)
        total += ((nir - red) / (nir + red)).sum(dtype=np.float64); n += red.size
_value = float(total / n)
_seconds = time.perf_counter() - began
"""
NUMEXPR = """
import sys, time
import numexpr, numpy as np, rasterio
from rasterio.windows import Window
began = time.perf_counter()
total = n = 0
with rasterio.open(sys.argv[1]) as d:
    for top in range(0, d.height, 512):
        red, nir = d.read([3, 4], window=Window(0, top, d.width, min(512, d.height - top))).astype(np.float32)
        total += float(numexpr.evaluate("sum((nir - red) / (nir + red))")); n += red.size
_value = total / n
_seconds = time.perf_counter() - began
"""
DASK = """
import sys, time
import rioxarray
began = time.perf_counter()
d = rioxarray.open_rasterio(sys.argv[1], chunks={"band": 1, "x": 2048, "y": 2048}, lock=False)
red, nir = d[2].astype("float32"), d[3].astype("float32")
_value = float(((nir - red) / (nir + red)).mean().compute())
_seconds = time.perf_counter() - began
"""
READ = """
import sys, time
import rasterio
began = time.perf_counter()
with rasterio.open(sys.argv[1]) as d:
    for _, w in d.block_windows(1):
        d.read([3, 4], window=w)
_value, _seconds = 0.0, time.perf_counter() - began
"""


def run(size: int | None) -> list[Row]:
    """Mean NDVI of a ``size``² (6000) × 4 uint16 tiled GeoTIFF."""
    side = size or SIDE_PX
    programs = {"ours": OURS, "numpy, whole array": WHOLE, "numpy, windows": WINDOWED, "reading the pixels alone": READ}
    if importlib.util.find_spec("numexpr"):
        programs["numexpr"] = NUMEXPR
    if importlib.util.find_spec("rioxarray") and importlib.util.find_spec("dask"):
        programs["xarray and dask"] = DASK
    found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        path = repeated_scene(Path(scratch), side)
        for _ in range(ROUNDS):
            for name, code in programs.items():
                found[name].append(in_process(code + CHILD_END, str(path)))
    mine = [r["seconds"] for r in found["ours"]]
    rows = []
    for name, results in found.items():
        if name == "ours":
            continue
        peer = [r["seconds"] for r in results]
        rows.append(
            Row(
                f"mean NDVI of {side}² × 4 uint16",
                spread(mine),
                name,
                spread(peer),
                spread([a / b for a, b in zip(mine, peer, strict=True)]),
                "s",
                note=f"peak RSS {found['ours'][0]['rss_mb']:.0f} MB against {results[0]['rss_mb']:.0f} MB",
                detail={"value": found["ours"][0]["value"], "peer_value": results[0]["value"]},
            )
        )
    return rows


BENCHMARKS = (Benchmark("raster", "mean NDVI in one streamed pass", run),)
