"""Tiled detection: seconds a megapixel and peak memory of ``perceive objects`` on a picture of any size, and beside SAHI.

SAHI slices a picture, asks the same weights about every slice through ultralytics, and merges. Both look at the same picture
at the same zoom, keep boxes at the same score, and use the same number of threads. What is timed is the whole answer: of ours
with reading the file, evidence and layers; of SAHI with its merging, the picture in memory already. Loading the model is in
neither.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import UserError
from apps.evaluation.benchmarks.pairs import CHILD_END, Benchmark, Row, compared, in_process, spread
from apps.imagery.sample import FOLDER as SAMPLES

SIDE_PX = 3000
SOURCE = "riotiler_hro_colorado_26913.tif"
ROUNDS = 3
SCORE = 0.25
IOU = 0.5
# GSD of the test pictures of Munich (KIT AIS), metres, and their side in pixels.
MOSAIC_GSD_M = 0.13
TEST_SIDE_PX = 512
MOSAIC_ACROSS = 7

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
import numpy as np
import rasterio
def scene_of(path, scene_id, gsd_m, side=None):
    with rasterio.open(path) as d:
        grid = Grid(crs=d.crs.to_string() if d.crs else None, transform=tuple(d.transform)[:6], width=d.width, height=d.height)
    bands = tuple(Band(index=i + 1, role=r, role_source="person") for i, r in enumerate(("red", "green", "blue")))
    return SceneInfo(scene_id=scene_id, artifact="sha256:" + "0" * 64, name=path.name, grid=grid, dtype="uint8", bands=bands,
                     gsd_m=gsd_m)
path, scale, gsd_m, threads = Path(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]) or None, int(sys.argv[4])
warm, keep = Path(sys.argv[5]), sys.argv[6]
scenes = (scene_of(path, "s", gsd_m), scene_of(warm, "w", 0.15))
paths = {"s": path, "w": warm}
question = Question(text="How many vehicles?", scenes=scenes)
plan = Plan(task=TaskRef(task_type="object_counting", question=question.text, answer_form="integer"))
blobs = FolderBlobs(path.parent / "layers")
layers = ArtifactLayerStore(blobs)
box = LocalToolBox(open_scene=lambda info: open_scene(info, paths[info.scene_id]), layers=layers)
def ask(scene_id):
    arguments = {"image_paths": [scene_id], "objective": "vehicle", "mode": "objects", "target_groups": {"vehicle": ["vehicle"]},
                 "objects_method": {"scale": scale}}
    o = box.call(tool="perceive", arguments=arguments, question=question, plan=plan, step=1)
    if o.status.state == "failed":
        raise SystemExit(o.status.reason)
    return o
import torch
torch.set_num_threads(threads)
ask("w")
began, _cpu = time.perf_counter(), time.process_time()
o = ask("s")
_seconds, _value = time.perf_counter() - began, o.result.layers[0].n
_cpu_end = time.process_time() - _cpu
if keep:
    found = layers.read_features(o.result.layers[0])
    np.save(keep, np.array([[*f["properties"]["box"], f["properties"]["score"]] for f in found]).reshape(-1, 5))
"""

SAHI = """
import os, sys, time
os.environ.update(YOLO_OFFLINE="true", YOLO_AUTOINSTALL="false", YOLO_VERBOSE="false")
import numpy as np
import rasterio
import torch
from sahi import AutoDetectionModel
from sahi.predict import get_sliced_prediction
path, weights, tile, zoom, threads = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
standard, overlap, batch = sys.argv[6] == "on", float(sys.argv[7]), int(sys.argv[8])
score, keep = float(sys.argv[9]), sys.argv[10]
with rasterio.open(path) as d:
    picture = np.ascontiguousarray(d.read([1, 2, 3]).transpose(1, 2, 0))
model = AutoDetectionModel.from_pretrained(model_type="ultralytics", model_path=weights, confidence_threshold=score,
                                           device="cpu", image_size=tile)
side = round(tile / zoom)
def ask(image):
    return get_sliced_prediction(image, model, slice_height=side, slice_width=side, overlap_height_ratio=overlap,
                                 overlap_width_ratio=overlap, perform_standard_pred=standard, batch_size=batch, verbose=0)
ask(picture[:side, :side])
torch.set_num_threads(threads)
began, _cpu = time.perf_counter(), time.process_time()
found = ask(picture).object_prediction_list
_seconds, _value = time.perf_counter() - began, sum(p.category.name == "vehicle" for p in found)
if keep:
    np.save(keep, np.array([[*p.bbox.to_xyxy(), p.score.value] for p in found if p.category.name == "vehicle"]).reshape(-1, 5))
"""

EXPORT = """
import sys, time
from apps.tools.zoo.registry import model_named
from apps.tools.zoo.states import write_ultralytics
from pathlib import Path
began = time.perf_counter()
card, weights = model_named("nadir3")
write_ultralytics(weights, Path(sys.argv[1]))
_seconds, _value = time.perf_counter() - began, card.tile_px
"""


def repeated_street(folder: Path, side: int) -> Path:
    """A tiled GeoTIFF, ``side``² × 3 uint8 at 15 cm: a shipped street repeated, written in strips."""
    import rasterio
    from rasterio.windows import Window

    with rasterio.open(street()) as given:
        patch = given.read([1, 2, 3])
        transform, crs = given.transform, given.crs
    path = folder / f"street_{side}.tif"
    across = np.tile(patch, (1, 1, -(-side // patch.shape[2])))[:, :, :side]
    with rasterio.open(path, "w", **_profile(side, side), crs=crs, transform=transform) as out:
        for top in range(0, side, 512):
            rows = min(512, side - top)
            out.write(across[:, np.arange(top, top + rows) % patch.shape[1]], window=Window(0, top, side, rows))
    return path


def threads_of_both() -> int:
    """Threads that torch gets on either side: OMP_NUM_THREADS, else as many as there are cores."""
    return int(os.environ.get("OMP_NUM_THREADS") or 0) or os.cpu_count() or 1


def street() -> Path:
    return next(SAMPLES.rglob(SOURCE))


def _profile(width: int, height: int) -> dict[str, Any]:
    return {
        "driver": "GTiff",
        "width": width,
        "height": height,
        "count": 3,
        "dtype": "uint8",
        "tiled": True,
        "blockxsize": 512,
        "blockysize": 512,
        "compress": "deflate",
        "zlevel": 1,
        "bigtiff": "IF_SAFER",
    }


# --- beside SAHI ----------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Labelled:
    """A picture whose vehicles are known: its file, the zoom at which both look, its GSD (0: not known), their frames (n, 4)."""

    name: str
    path: Path
    zoom: float
    gsd_m: float
    truth: NDArray[np.float64]
    mpx: float


def training_folder() -> Path | None:
    """The labelled data beside the checkout; None where it is not there."""
    folder = Path(__file__).resolve().parents[4] / "shared/data"
    return folder if (folder / "training/detector/images/test").is_dir() else None


def labelled_pictures(data: Path, folder: Path, mosaics: int) -> list[Labelled]:
    """A mosaic of the test pictures of vehicles (``mosaics``² times) at their GSD, and DOTA P1888, whose GSD nobody knows."""
    import rasterio

    tests, frames = [], []
    for path in sorted((data / "training/detector/images/test").glob("veh_*")):
        with rasterio.open(path) as given:
            image = given.read([1, 2, 3])
        if image.shape[1:] != (TEST_SIDE_PX, TEST_SIDE_PX):
            continue
        rows = [r.split() for r in (data / f"training/detector/labels/test/{path.stem}.txt").read_text().splitlines()]
        centre = np.array([[float(v) for v in r[1:]] for r in rows if r and r[0] == "0"]).reshape(-1, 4) * TEST_SIDE_PX
        tests.append(image)
        frames.append(np.concatenate([centre[:, :2] - centre[:, 2:] / 2, centre[:, :2] + centre[:, 2:] / 2], axis=1))
    across = MOSAIC_ACROSS * mosaics
    down = -(-len(tests) // MOSAIC_ACROSS) * mosaics
    picture = np.full((3, down * TEST_SIDE_PX, across * TEST_SIDE_PX), 114, np.uint8)
    truth = []
    for place in range(across * down):
        r, c = divmod(place, across)
        k = ((r % (down // mosaics)) * MOSAIC_ACROSS + c % MOSAIC_ACROSS) % len(tests)
        y, x = r * TEST_SIDE_PX, c * TEST_SIDE_PX
        picture[:, y : y + TEST_SIDE_PX, x : x + TEST_SIDE_PX] = tests[k]
        truth.append(frames[k] + np.array([x, y, x, y]))
    path = folder / "mosaic.tif"
    with rasterio.open(path, "w", **_profile(picture.shape[2], picture.shape[1])) as out:
        out.write(picture)
    zoom = 1.25
    mpx = picture.shape[1] * picture.shape[2] * zoom * zoom / 1e6
    found = [Labelled(f"mosaic of {across * down} test pictures", path, zoom, MOSAIC_GSD_M, np.concatenate(truth), mpx)]
    trucks = data / "objects/dota_P1888_trucks.png"
    if trucks.exists():
        with rasterio.open(trucks) as given:
            mpx = given.width * given.height * 1.41 * 1.41 / 1e6
        found.append(Labelled("DOTA P1888", trucks, 1.41, 0.0, _dota(trucks.with_suffix(".labelTxt")), mpx))
    return found


def _dota(path: Path) -> NDArray[np.float64]:
    rows = [line.split() for line in path.read_text().splitlines()]
    corners = np.array([[float(v) for v in r[:8]] for r in rows if len(r) >= 9]).reshape(-1, 4, 2)
    return np.concatenate([corners.min(axis=1), corners.max(axis=1)], axis=1)


def recall_and_precision(found: NDArray[np.float64], truth: NDArray[np.float64], iou: float = IOU) -> tuple[float, float]:
    """Shares of the true frames found and of the boxes that are right: by falling score (column 4) each box takes the free true
    frame that it overlaps most, if by ``iou``."""
    free, hits = np.ones(len(truth), bool), 0
    for x0, y0, x1, y1, _ in found[np.argsort(-found[:, 4], kind="stable")]:
        w = np.clip(np.minimum(x1, truth[:, 2]) - np.maximum(x0, truth[:, 0]), 0, None)
        h = np.clip(np.minimum(y1, truth[:, 3]) - np.maximum(y0, truth[:, 1]), 0, None)
        union = (x1 - x0) * (y1 - y0) + np.prod(truth[:, 2:] - truth[:, :2], axis=1) - w * h
        overlap = np.where(free, w * h / union, 0.0)
        best = int(np.argmax(overlap))
        if overlap[best] >= iou:
            free[best] = False
            hits += 1
    return hits / max(len(truth), 1), hits / max(len(found), 1)


def against_sahi(size: int | None) -> list[Row]:
    """Both answer in processes of their own, in turns; the note tells recall and precision of both."""
    missing = [m for m in ("torch", "ultralytics", "sahi") if importlib.util.find_spec(m) is None]
    data = training_folder()
    if missing or data is None:
        what = f"{', '.join(missing)} not installed" if missing else "the labelled pictures are not here"
        print(f"skipped: SAHI ({what})", file=sys.stderr)
        return []
    threads = threads_of_both()
    rows = []
    with tempfile.TemporaryDirectory(prefix="rsure-bench-") as scratch:
        folder = Path(scratch)
        weights = folder / "nadir3.pt"
        tile = int(in_process(EXPORT + CHILD_END, str(weights))["value"])
        peers = {
            "SAHI, slices 640, its defaults": (640, "on", 0.2, 1),
            "SAHI, slices 640, no standard prediction": (640, "off", 0.2, 1),
            "SAHI, our tiles and overlap, no standard prediction": (tile, "off", round(201 / tile, 3), 1),
        }
        for p in labelled_pictures(data, folder, max(1, round((size or 2048) / 2048))):
            seconds: dict[str, list[float]] = {"ours": [], **{name: [] for name in peers}}
            detail: dict[str, dict[str, float]] = {}
            scores: dict[str, tuple[float, float]] = {}
            names = list(seconds)
            for turn in range(ROUNDS):
                for name in names if turn % 2 == 0 else names[::-1]:
                    keep = str(folder / "found.npy")
                    if name == "ours":
                        arguments = (str(p.zoom), str(p.gsd_m), str(threads), str(street()))
                        got = in_process(OURS + CHILD_END, str(p.path), *arguments, keep)
                    else:
                        side, standard, overlap, batch = peers[name]
                        how = (str(weights), str(side), str(p.zoom), str(threads), standard, str(overlap), str(batch))
                        got = in_process(SAHI + CHILD_END, str(p.path), *how, str(SCORE), keep)
                    seconds[name].append(got["seconds"])
                    detail[name] = got
                    scores[name] = recall_and_precision(np.load(keep), p.truth)
            for name in peers:
                told = [f"recall {r:.3f}, precision {q:.3f}" for r, q in (scores["ours"], scores[name])]
                cpu = f"processor {detail['ours']['cpu_s']:.1f} s against {detail[name]['cpu_s']:.1f}"
                memory = f"peak RSS {detail['ours']['rss_mb']:.0f} MB against {detail[name]['rss_mb']:.0f}"
                what = f"{len(p.truth)} vehicles, {p.name}, {p.mpx:.1f} Mpx at zoom {p.zoom:g}, {threads} threads"
                note = f"{told[0]} against {told[1]}; {cpu}; {memory}"
                rows.append(compared(what, seconds["ours"], name, seconds[name], note=note, detail=detail))
    return rows


def run(size: int | None) -> list[Row]:
    """A picture of ``size``² (3000) and one of a third of the side: memory stays flat when the picture grows ninefold. Without a
    size SAHI follows."""
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
            threads = str(threads_of_both())
            got = in_process(OURS + CHILD_END, str(path), "1.0", "0", threads, str(street()), "", timeout_s=7200)
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
    return rows if size else rows + against_sahi(None)


BENCHMARKS = (
    Benchmark("detection", "tiled detection: time a megapixel and peak memory; without --size beside SAHI too", run),
    Benchmark("sahi", "tiled detection beside SAHI on the same weights, with recall and precision of both", against_sahi),
)
