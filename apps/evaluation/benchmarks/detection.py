"""Tiled detection: seconds a megapixel and peak memory of ``perceive objects`` on a picture of any size."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import numpy as np

from apps.core.errors import UserError
from apps.evaluation.benchmarks.pairs import CHILD_END, Benchmark, Row, in_process, spread
from apps.imagery.sample import FOLDER as SAMPLES

SIDE_PX = 3000
SOURCE = "riotiler_hro_colorado_26913.tif"

OURS = """
import os, sys, time
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rsure_web.settings")
from pathlib import Path
from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo import Band, Grid, SceneInfo
from apps.evaluation.faultbench.rig import FolderBlobs
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.readers import open_scene
from apps.tools.toolbox import LocalToolBox
import rasterio
path = Path(sys.argv[1])
with rasterio.open(path) as d:
    grid = Grid(crs=d.crs.to_string(), transform=tuple(d.transform)[:6], width=d.width, height=d.height)
bands = tuple(Band(index=i + 1, role=r, role_source="person") for i, r in enumerate(("red", "green", "blue")))
scene = SceneInfo(scene_id="s", artifact="sha256:" + "0" * 64, name=path.name, grid=grid, dtype="uint8", bands=bands)
question = Question(text="How many vehicles?", scenes=(scene,))
plan = Plan(task=TaskRef(task_type="object_counting", question=question.text, answer_form="integer"))
box = LocalToolBox(open_scene=lambda info: open_scene(info, path), layers=ArtifactLayerStore(FolderBlobs(path.parent / "layers")))
arguments = {"image_paths": ["s"], "objective": "vehicle", "mode": "objects", "target_groups": {"vehicle": ["vehicle"]},
             "objects_method": {"scale": float(sys.argv[2])}}
began = time.perf_counter()
o = box.call(tool="perceive", arguments=arguments, question=question, plan=plan, step=1)
_seconds, _value = time.perf_counter() - began, o.result.layers[0].n if o.result.layers else -1
if o.status.state == "failed":
    raise SystemExit(o.status.reason)
"""


def repeated_street(folder: Path, side: int) -> Path:
    """A tiled GeoTIFF, ``side``² × 3 uint8 at 15 cm: a shipped street repeated, written in strips."""
    import rasterio
    from rasterio.windows import Window

    with rasterio.open(next(SAMPLES.rglob(SOURCE))) as given:
        patch = given.read([1, 2, 3])
        transform, crs = given.transform, given.crs
    path = folder / f"street_{side}.tif"
    across = np.tile(patch, (1, 1, -(-side // patch.shape[2])))[:, :, :side]
    profile = {
        "driver": "GTiff",
        "width": side,
        "height": side,
        "count": 3,
        "dtype": "uint8",
        "crs": crs,
        "transform": transform,
        "tiled": True,
        "blockxsize": 512,
        "blockysize": 512,
        "compress": "deflate",
        "zlevel": 1,
        "bigtiff": "IF_SAFER",
    }
    with rasterio.open(path, "w", **profile) as out:
        for top in range(0, side, 512):
            rows = min(512, side - top)
            out.write(across[:, np.arange(top, top + rows) % patch.shape[1]], window=Window(0, top, side, rows))
    return path


def run(size: int | None) -> list[Row]:
    """A picture of ``size``² (3000) and one of a third of the side: memory stays flat when the picture grows ninefold."""
    if importlib.util.find_spec("torch") is None:
        raise UserError(
            "MODEL_MISSING",
            "Detection cannot be measured.",
            "torch is not installed.",
            "Install requirements-ml.txt, then measure again.",
        )
    side = size or SIDE_PX
    rows = []
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        for pixels in (max(64, side // 3), side):
            path = repeated_street(Path(scratch), pixels)
            # at the picture's own zoom: one megapixel in is one megapixel looked at, plus the overlap
            got = in_process(OURS + CHILD_END, str(path), "1.0", timeout_s=7200)
            mpx = pixels * pixels / 1e6
            rows.append(
                Row(
                    f"vehicles on {pixels}² px at 15 cm",
                    spread([got["seconds"] / mpx]),
                    unit="s/Mpx",
                    note=f"peak RSS {got['rss_mb']:.0f} MB, {got['value']:.0f} boxes, {got['seconds']:.1f} s in all",
                    detail=got,
                )
            )
    return rows


BENCHMARKS = (Benchmark("detection", "tiled detection: time a megapixel and peak memory", run),)
