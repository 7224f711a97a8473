"""One streamed pass over a raster: mean NDVI, and five statistics of NDVI by zones, by ours and by named peers.

Each runs in a process of its own, so that peak memory is its own; the time to read the pixels alone stands beside them. Ours
does all that an answer takes: masks, evidence of each node, and the layer that the map shows.

Peers read the file as it was delivered, and no question of ours ever does: ingest has turned it into a COG of ours before. So
the first comparison is of a question to the house with a peer that gets the file (what ingest takes stands in ``cog``). Two more
leave the form of the file out: all read the delivered file, and all read the COG.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
from pathlib import Path

from apps.core.errors import UserError
from apps.evaluation.benchmarks.imagery import kept_scene, repeated_scene
from apps.evaluation.benchmarks.pairs import CHILD_END, Benchmark, Row, add_present, in_process, lacks_disk, row_of

SIDE_PX = 6000
ROUNDS = 3

ZONES = """
import math
def zones(side, k=4):
    # sixteen hexagons, (name, ring in pixels)
    out, z = [], side / k
    for i in range(k):
        for j in range(k):
            ring = [((j + 0.5) * z + 0.55 * z * math.cos(a * math.pi / 3 + 0.3),
                     (i + 0.5) * z + 0.55 * z * math.sin(a * math.pi / 3 + 0.3)) for a in range(6)]
            ring = [(min(max(x, 0), side), min(max(y, 0), side)) for x, y in ring]
            out.append((f"{i}-{j}", [list(p) for p in ring + ring[:1]]))
    return out
"""
FOLDER_BLOBS = """
import hashlib
class FolderBlobs:
    #Blobs in a folder, without what the application's own store brings along.
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(exist_ok=True)
    def put(self, data, *, media_type=""):
        digest = hashlib.sha256(data).hexdigest()
        (self.folder / digest).write_bytes(data)
        return "sha256:" + digest
    def path(self, digest):
        return self.folder / digest[7:]
from apps.imagery.layers import ArtifactLayerStore
"""
SETUP = FOLDER_BLOBS + """
import os, sys, time
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rsure_web.settings")
from pathlib import Path
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import Band, Grid, SceneInfo
from apps.imagery.readers import open_scene
from apps.tools.toolbox import LocalToolBox
import apps.tools.execute.graph  # a worker has it loaded, as the peers have numpy
import rasterio
path = Path(sys.argv[1])
with rasterio.open(path) as d:
    grid = Grid(crs=d.crs.to_string(), transform=tuple(d.transform)[:6], width=d.width, height=d.height)
bands = tuple(Band(index=i + 1, role=r, role_source="person") for i, r in enumerate(("blue", "green", "red", "nir")))
scene = SceneInfo(scene_id="s", artifact="sha256:" + "0" * 64, name=path.name, grid=grid, dtype="uint16", bands=bands)
layers = ArtifactLayerStore(FolderBlobs(path.parent / "layers"))
nodes = [{"id": "s", "op": "asset.scene", "params": {"scene": "s"}},
         {"id": "q", "op": "raster.product.index", "inputs": ["s"], "params": {"index": "ndvi"}}]
question = Question(text="What is the NDVI?", scenes=(scene,))
plan = Plan(task=TaskRef(task_type="index_statistic", question=question.text, answer_form="number"))
box = LocalToolBox(open_scene=lambda info: open_scene(info, path), layers=layers)
def call(nodes):
    o = box.call(tool="execute", arguments={"nodes": nodes, "output": "out"}, question=question, plan=plan, step=1)
    if o.status.state == "failed":
        raise SystemExit(o.status.reason)
    return o
"""
OURS = SETUP + """
nodes += [{"id": "out", "op": "raster.summarize.statistic", "inputs": ["q"], "params": {"statistic": "mean"}}]
began, _cpu = time.perf_counter(), time.process_time()
_value = call(nodes).result.value
_seconds = time.perf_counter() - began
"""
OURS_ZONES = SETUP + ZONES + """
features = [{"type": "Feature", "properties": {"name": n}, "geometry": {"type": "Polygon", "coordinates": [r]}}
            for n, r in zones(grid.width)]
collection = {"type": "FeatureCollection", "features": features}
nodes += [{"id": "z", "op": "vector.zones", "params": {"geojson": collection, "crs": "image"}},
          {"id": "out", "op": "raster.summarize.zonal", "inputs": ["q", "z"], "params": {"statistic": "std"}}]
began, _cpu = time.perf_counter(), time.process_time()
items = call(nodes).result.items
_value = sum(i[k] for i in items for k in ("n_valid", "min", "max", "mean", "std"))
_seconds = time.perf_counter() - began
"""
WHOLE = """
import sys, time
import numpy as np, rasterio
began, _cpu = time.perf_counter(), time.process_time()
with rasterio.open(sys.argv[1]) as d:
    red, nir = d.read([3, 4]).astype(np.float32)
_value = float(((nir - red) / (nir + red)).mean(dtype=np.float64))
_seconds = time.perf_counter() - began
"""
WINDOWED = """
import sys, time
import numpy as np, rasterio
began, _cpu = time.perf_counter(), time.process_time()
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
began, _cpu = time.perf_counter(), time.process_time()
total = n = 0
with rasterio.open(sys.argv[1]) as d:
    for top in range(0, d.height, 512):
        red, nir = d.read([3, 4], window=Window(0, top, d.width, min(512, d.height - top))).astype(np.float32)
        # its own sum would add float32 up: wrong in the third digit
        total += float(numexpr.evaluate("(nir - red) / (nir + red)").sum(dtype=np.float64)); n += red.size
_value = total / n
_seconds = time.perf_counter() - began
"""
DASK = """
import sys, time
import rioxarray
began, _cpu = time.perf_counter(), time.process_time()
# chunks of all bands where they lie interleaved: a chunk a band would inflate everything twice. Of the sizes that were tried (512
# to 8192) this is the fastest
d = rioxarray.open_rasterio(sys.argv[1], chunks={"band": BAND, "x": 2048, "y": 2048}, lock=False)
red, nir = d[2].astype("float32"), d[3].astype("float32")
_value = float(((nir - red) / (nir + red)).mean(dtype="float64").compute())
_seconds = time.perf_counter() - began
"""
# as their documentation opens a raster: chunks and lock are the library's choice
DASK_AS_SHOWN = """
import sys, time, warnings
warnings.filterwarnings("ignore", category=FutureWarning)
import rioxarray
began, _cpu = time.perf_counter(), time.process_time()
d = rioxarray.open_rasterio(sys.argv[1], chunks=True)
red, nir = d[2].astype("float32"), d[3].astype("float32")
_value = float(((nir - red) / (nir + red)).mean(dtype="float64").compute())
_seconds = time.perf_counter() - began
"""
READ = """
import sys, time
import rasterio
began, _cpu = time.perf_counter(), time.process_time()
with rasterio.open(sys.argv[1]) as d:
    for _, w in d.block_windows(1):
        d.read([3, 4], window=w)
_value, _seconds = 0.0, time.perf_counter() - began
"""
# gdal_calc.py writes the index; its statistics are a second pass, of gdalinfo
GDAL_CALC = """
import json, os, subprocess, sys, time
out = sys.argv[1] + ".ndvi.tif"
# it runs in the system's Python, with the system's packages
env = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "GDAL_DATA", "PROJ_DATA", "PROJ_LIB")}
began, _cpu = time.perf_counter(), time.process_time()
subprocess.run(["gdal_calc.py", "--quiet", "--overwrite", "-A", sys.argv[1], "--A_band=3", "-B", sys.argv[1], "--B_band=4",
                "--type=Float32", "--outfile", out, "--calc=(B.astype(float32)-A)/(B.astype(float32)+A)"], check=True, env=env)
found = json.loads(subprocess.run(["gdalinfo", "-json", "-stats", out], check=True, capture_output=True, env=env).stdout)
# "mean" itself is rounded to three digits
_value, _seconds = float(found["bands"][0]["metadata"][""]["STATISTICS_MEAN"]), time.perf_counter() - began
os.remove(out)
"""
ZONES_WINDOWED = ZONES + """
import sys, time
import numpy as np, rasterio
from rasterio.features import rasterize
began, _cpu = time.perf_counter(), time.process_time()
with rasterio.open(sys.argv[1]) as d:
    shapes = zones(d.width)
    n, total, squares = (np.zeros(len(shapes)) for _ in range(3))
    low, high = np.full(len(shapes), np.inf), np.full(len(shapes), -np.inf)
    for _, w in d.block_windows(1):
        red, nir = d.read([3, 4], window=w).astype(np.float32)
        ndvi = (nir - red) / (nir + red)
        # one zone at a time, since zones may overlap
        for i, (_, ring) in enumerate(shapes):
            x, y = zip(*ring)
            if max(x) <= w.col_off or min(x) >= w.col_off + w.width or max(y) <= w.row_off or min(y) >= w.row_off + w.height:
                continue
            inside = rasterize([{"type": "Polygon", "coordinates": [ring]}], out_shape=ndvi.shape, dtype="uint8",
                               transform=rasterio.Affine(1, 0, w.col_off, 0, 1, w.row_off))
            v = ndvi[inside == 1]
            if v.size:
                v = v.astype(np.float64)
                n[i] += v.size; total[i] += v.sum(); squares[i] += (v * v).sum()
                low[i], high[i] = min(low[i], v.min()), max(high[i], v.max())
mean = total / n
_value = float((n + low + high + mean + np.sqrt(squares / n - mean * mean)).sum())
_seconds = time.perf_counter() - began
"""


def run(size: int | None) -> list[Row]:
    """Mean NDVI, and count, min, max, mean and standard deviation of NDVI in 16 zones, of a ``size``² (6000) × 4 uint16 tiled
    GeoTIFF."""
    side = size or SIDE_PX
    means = {"reading the pixels alone": READ, "numpy, windows": WINDOWED}
    px = side * side
    has_dask = importlib.util.find_spec("rioxarray") and importlib.util.find_spec("dask")
    peers = (
        # an array of two bands in uint16 and float32, and of two planes in between
        ("numpy, whole array", WHOLE, True, px * 22),
        ("numexpr", NUMEXPR, importlib.util.find_spec("numexpr"), 0),
        ("xarray and dask, chunks that were tried for it", DASK, has_dask, 2 << 30),
        ("xarray and dask, chunks=True", DASK_AS_SHOWN, has_dask, 4 << 30),
        ("gdal_calc.py", GDAL_CALC, shutil.which("gdal_calc.py") and shutil.which("gdalinfo"), 0),
    )
    add_present(means, peers)
    rounds = ROUNDS if side <= 12_000 else 1
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        # the raster, its COG and what that is made from, and the index that gdal_calc.py writes
        why = lacks_disk(scratch, px * (8 + 11 + 11 + 4) / 2**20)
        if why:
            raise UserError("TOO_LARGE", "The raster to measure on is not written.", why, "Set TMPDIR, or a smaller --size.")
        given = repeated_scene(Path(scratch), side)
        kept = kept_scene(given)
        return _compared(f"mean NDVI of {side}² × 4 uint16", OURS, means, given, kept, rounds) + _compared(
            f"five statistics in 16 zones of {side}²", OURS_ZONES, {"numpy, windows": ZONES_WINDOWED}, given, kept, rounds
        )


def _compared(what: str, ours: str, peers: dict[str, str], given: Path, kept: Path, rounds: int) -> list[Row]:
    """Rows of the question to the house, and of all on one file: the delivered one, the COG."""
    programs = {("ours", path): ours for path in (given, kept)}
    for name, code in peers.items():
        # one whose bands lie interleaved is best read with all its bands
        programs |= {(name, path): code.replace("BAND", "-1" if path is given else "1") for path in (given, kept)}
    found: dict[tuple[str, Path], list[dict[str, float]]] = {key: [] for key in programs}
    for i in range(rounds):
        for key in list(programs) if i % 2 == 0 else list(programs)[::-1]:
            found[key].append(in_process(programs[key] + CHILD_END, str(key[1])))
    rows = []
    for label, mine, theirs in (
        ("as the house keeps it, peers: the delivered file", kept, given),
        ("all the delivered file", given, given),
        ("all the COG", kept, kept),
    ):
        rows += [row_of(f"{what} ({label})", found["ours", mine], name, found[name, theirs]) for name in peers]
    return rows


BENCHMARKS = (Benchmark("raster", "mean NDVI and zonal statistics in one streamed pass", run),)
