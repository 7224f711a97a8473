"""Every operator, cut off midway and gone on with, gives what it gives uncut, bit by bit; what is cancelled leaves no layer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.tools.rasters import Bench
from tests.unit.tools.test_checkpoint import Cut, CutError, _plain
from tests.unit.tools.test_operator_matrix import CASES, DAYS, dated

REGION = {"type": "Polygon", "coordinates": [[[9.3, 7.2], [500.1, 11.9], [470.7, 260.2], [12.5, 240.4], [9.3, 7.2]]]}
# Those that read no pixels, and one that is refused for want of amplitudes.
UNCUT = {"asset.scene", "asset.catalog", "asset.bounds", "vector.zones", "raster.product.amplitude"}


@pytest.fixture(scope="module")
def wide() -> list[Any]:
    """Six dates of two windows and more: the matrix's ground five times to each side."""
    scenes = []
    for k in range(len(DAYS)):
        info, planes = dated(k)
        tiled = np.tile(planes, (1, 6, 9))
        grid = info.grid.model_copy(update={"width": tiled.shape[2], "height": tiled.shape[1]})
        scenes.append((info.model_copy(update={"grid": grid}), tiled))
    return scenes


@pytest.mark.parametrize(("op", "nodes"), [c for c in CASES if str(c.id).endswith("-0")])
def test_what_was_cut_off_ends_with_the_same_digits(tmp_path: Path, wide: list[Any], op: str, nodes: Any) -> None:
    more: dict[str, Any] = {} if op == "image.chart" else {"region": REGION, "region_crs": "image"}
    options: dict[str, Any] = {"window_px": 256, "threads": 2}
    whole = Bench(*wide, **options)
    wanted = whole.execute(nodes, "out", **more)
    if op in UNCUT:
        assert wanted.status.state != "ok" or len(whole.done) < 2
        return
    assert wanted.status.state == "ok", wanted.status.reason
    kept = options | {"checkpoints": str(tmp_path), "checkpoint_s": 0}
    cut = Cut(*wide, n=max(1, len(whole.done) // 2), **kept)
    with pytest.raises(CutError):
        cut.execute(nodes, "out", **more)
    assert not cut.layers.kept, "half a layer is none"
    found = Bench(*wide, **kept).execute(nodes, "out", **more)
    assert _plain(found) == _plain(wanted)
    assert not list(tmp_path.glob("*/*"))


def test_what_is_cancelled_leaves_no_layer_and_no_number(tmp_path: Path, wide: list[Any]) -> None:
    nodes: Any = next(c.values[1] for c in CASES if c.values[0] == "raster.summarize.area")
    b = Bench(*wide, window_px=256, threads=1, checkpoints=str(tmp_path), checkpoint_s=0)
    listed = [{"id": i, "op": op, "inputs": list(n), "params": p} for i, op, n, p in nodes]
    for n in (1, 3, 5):
        asked = iter([False] * n + [True] * 1000)
        o = b.call("execute", {"nodes": listed, "output": "out"}, is_cancelled=lambda asked=asked: next(asked))
        assert o.status.state == "failed" and o.status.needs["code"] == "CANCELLED"
        assert o.result.value is None and o.result.layers == () and o.result.items == () and not b.layers.kept


_WORK = """
import json, sys, time
from tests.unit.tools.test_resumed_operators import killed_work
killed_work(sys.argv[1])
"""


def killed_work(folder: str, pause_s: float = 0.05) -> Any:
    """An area with its mask and index as layers and a region, of 1,100 × 900 pixels; each window is told on standard output."""
    from apps.core.evidence.plan import Plan
    from tests.unit.tools.rasters import TASK, scene
    from tests.unit.tools.test_checkpoint import STORED

    b = Bench(scene(STORED, ["red", "nir"]), window_px=256, threads=2, checkpoints=folder, checkpoint_s=0)

    def progress(done: int, of: int, _: str) -> None:
        print(done, of, flush=True)
        time.sleep(pause_s)

    nodes = [{"id": "s1", "op": "asset.scene", "params": {"scene": "s"}},
             {"id": "ndvi", "op": "raster.product.index", "inputs": ["s1"], "params": {"index": "ndvi"}},
             {"id": "m", "op": "raster.product.threshold", "inputs": ["ndvi"], "params": {"value": "otsu"}},
             {"id": "out", "op": "raster.summarize.area", "inputs": ["m"]}]  # fmt: skip
    region = {"type": "Polygon", "coordinates": [[[20.5, 30.2], [860, 11], [700, 1050.7], [33, 990], [20.5, 30.2]]]}
    return b.box.call(tool="execute", arguments={"nodes": nodes, "output": "out", "region": region, "region_crs": "image"},
                      question=b.question, plan=Plan(task=TASK), step=1, progress=progress)  # fmt: skip


@pytest.mark.parametrize("n", [5, 24])
def test_a_killed_process_is_gone_on_with(tmp_path: Path, n: int, capfd: pytest.CaptureFixture[str]) -> None:
    """SIGKILL, to the process by its number, in the first pass and in the second: nothing is tidied up before it ends."""
    process = subprocess.Popen([sys.executable, "-c", _WORK, str(tmp_path)], stdout=subprocess.PIPE, text=True,
                               env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)})  # fmt: skip
    try:
        assert process.stdout is not None
        for _ in range(n):
            assert process.stdout.readline().strip()
        os.kill(process.pid, signal.SIGKILL)
        assert process.wait(30) == -signal.SIGKILL
    finally:
        process.kill()
    assert list(tmp_path.glob("*/*.npz"))
    found = killed_work(str(tmp_path), 0)
    assert any("went on" in line.message for line in found.status.log), "it began anew"
    wanted = killed_work(str(tmp_path / "other"), 0)
    assert _plain(found) == _plain(wanted) and found.status.state == "ok" and len(found.result.layers) == 2
    assert json.loads(_plain(found))[0]["value"] > 0
