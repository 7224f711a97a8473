"""A long series: the mean of one band at each of 275 dates, against xarray and a plain loop of numpy."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from apps.core.errors import UserError
from apps.evaluation.benchmarks.pairs import CHILD_END, Benchmark, Row, add_present, in_process, lacks_disk, row_of
from apps.evaluation.benchmarks.raster import FOLDER_BLOBS

SIDE_PX = 500
DATES = 275
ROUNDS = 3

OURS = FOLDER_BLOBS + """
import os, sys, time
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rsure_web.settings")
from datetime import UTC, datetime, timedelta
from pathlib import Path
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import Band, Grid, SceneInfo
from apps.imagery.readers import open_scene
from apps.tools.toolbox import LocalToolBox
import apps.tools.execute.graph  # a worker has it loaded, as the peers have numpy
import rasterio
paths = sorted(Path(sys.argv[1]).glob("*.tif"))
scenes, nodes = [], []
for i, path in enumerate(paths):
    with rasterio.open(path) as d:
        grid = Grid(crs=d.crs.to_string(), transform=tuple(d.transform)[:6], width=d.width, height=d.height)
    scenes.append(SceneInfo(scene_id=f"s{i}", artifact="sha256:" + f"{i:064d}", name=path.name, grid=grid, dtype="uint16",
                            acquired_at=datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=5 * i),
                            bands=(Band(index=1, role="nir", role_source="person"),)))
    nodes += [{"id": f"s{i}", "op": "asset.scene", "params": {"scene": f"s{i}"}},
              {"id": f"b{i}", "op": "raster.product.band", "inputs": [f"s{i}"], "params": {"role": "nir"}}]
nodes.append({"id": "out", "op": "raster.summarize.series", "inputs": [f"b{i}" for i in range(len(paths))],
              "params": {"statistic": "mean"}})
question = Question(text="How did it change?", scenes=tuple(scenes))
plan = Plan(task=TaskRef(task_type="index_statistic", question=question.text, answer_form="table"))
box = LocalToolBox(open_scene=lambda info: open_scene(info, paths[int(info.scene_id[1:])]),
                   layers=ArtifactLayerStore(FolderBlobs(Path(sys.argv[1]) / "layers")))
began, _cpu = time.perf_counter(), time.process_time()
o = box.call(tool="execute", arguments={"nodes": nodes, "output": "out"}, question=question, plan=plan, step=1)
_seconds = time.perf_counter() - began
if o.status.state == "failed":
    raise SystemExit(o.status.reason)
_value = sum(i["value"] for i in o.result.items)
"""
NUMPY = """
import sys, time
from pathlib import Path
import numpy as np, rasterio
paths = sorted(Path(sys.argv[1]).glob("*.tif"))
began, _cpu = time.perf_counter(), time.process_time()
_value = 0.0
for path in paths:
    with rasterio.open(path) as d:
        _value += float(d.read(1).mean(dtype=np.float64))
_seconds = time.perf_counter() - began
"""
# every date opened lazily, a chunk a date: the cube is never held whole
XARRAY_DASK = """
import sys, time
from pathlib import Path
import numpy as np, rioxarray, xarray
paths = sorted(Path(sys.argv[1]).glob("*.tif"))
began, _cpu = time.perf_counter(), time.process_time()
whole = {"band": -1, "x": -1, "y": -1}
cube = xarray.concat([rioxarray.open_rasterio(p, chunks=whole, lock=False)[0] for p in paths], dim="time")
_value = float(cube.mean(dim=("x", "y"), dtype=np.float64).sum().compute())
_seconds = time.perf_counter() - began
"""
XARRAY = """
import sys, time
from pathlib import Path
import numpy as np, rioxarray, xarray
paths = sorted(Path(sys.argv[1]).glob("*.tif"))
began, _cpu = time.perf_counter(), time.process_time()
cube = xarray.concat([rioxarray.open_rasterio(p)[0] for p in paths], dim="time")
_value = float(cube.mean(dim=("x", "y"), dtype=np.float64).sum())
_seconds = time.perf_counter() - began
"""


def _write(folder: Path, side: int) -> None:
    import rasterio

    draw = np.random.default_rng(5)
    profile: dict[str, Any] = {
        "driver": "GTiff", "width": side, "height": side, "count": 1, "dtype": "uint16", "crs": "EPSG:32630",
        "transform": rasterio.Affine(10, 0, 600000, 0, -10, 5600000), "tiled": True, "blockxsize": 512, "blockysize": 512,
        "compress": "deflate", "zlevel": 1, "predictor": 2,
    }  # fmt: skip
    folder.mkdir()
    base = draw.integers(200, 3000, size=(side, side), dtype=np.uint16)
    for i in range(DATES):
        with rasterio.open(folder / f"date_{i:03d}.tif", "w", **profile) as out:
            out.write(base // 64 * 64 + np.uint16(i), 1)


def _keep(given: Path, kept: Path) -> None:
    """The COGs that ingest makes of the rasters of a folder."""
    import rasterio

    from apps.imagery.writers import STREAM_OPTIONS, write_cog

    kept.mkdir()
    with rasterio.Env(**STREAM_OPTIONS):
        for path in given.glob("*.tif"):
            write_cog(path, kept / path.name, n_bands=1, dtype="uint16")


def run(size: int | None) -> list[Row]:
    """275 dates of ``size``² (500) uint16: all the delivered files, all the COGs that ingest makes of them."""
    side = size or SIDE_PX
    programs = {"ours": OURS, "numpy, date by date": NUMPY}
    has_xarray = importlib.util.find_spec("rioxarray")
    has_dask = has_xarray and importlib.util.find_spec("dask")
    # the cube in uint16, and once more while the dates are put together
    cube = DATES * side * side * 2 * 3
    add_present(programs, (("xarray", XARRAY, has_xarray, cube), ("xarray and dask", XARRAY_DASK, has_dask, 2 << 30)))
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        why = lacks_disk(scratch, 2 * DATES * side * side * 2 / 2**20)
        if why:
            raise UserError("TOO_LARGE", "The series to measure on is not written.", why, "Set TMPDIR, or a smaller --size.")
        given, kept = Path(scratch) / "given", Path(scratch) / "kept"
        _write(given, side)
        _keep(given, kept)
        rows: list[Row] = []
        for label, folder in (("all the delivered files", given), ("all the COGs", kept)):
            found: dict[str, list[dict[str, float]]] = {name: [] for name in programs}
            for i in range(ROUNDS if side <= 1000 else 1):
                for name in list(programs) if i % 2 == 0 else list(programs)[::-1]:
                    found[name].append(in_process(programs[name] + CHILD_END, str(folder)))
            ours = found.pop("ours")
            rows += [row_of(f"mean of {DATES} dates of {side}² ({label})", ours, name, peer) for name, peer in found.items()]
        return rows


BENCHMARKS = (Benchmark("series", "a statistic of 275 dates", run),)
