"""Work that was cut off goes on from the last windows merged, with the same digits; a checkpoint of other work is never taken."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.core.digests import digest_bytes
from apps.core.errors import FaultError
from apps.core.evidence.plan import Plan
from apps.tools.execute.accumulators import Moments, OrderStatistics
from apps.tools.execute.checkpoint import Checkpoint, NotKeepableError, _encoded
from tests.unit.tools.rasters import TASK, Bench, MemoryReader, scene

RNG = np.random.default_rng(11)
STORED = RNG.integers(1, 10_000, (2, 1100, 900)).astype(np.uint16)
NDVI = [("s1", "asset.scene", (), {"scene": "s"}), ("ndvi", "raster.product.index", ["s1"], {"index": "ndvi"})]
ZONES = {"type": "FeatureCollection", "features": [
    {"type": "Feature", "properties": {"name": f"z{k}"}, "geometry": {"type": "Polygon", "coordinates": [
        [[10 + 300 * k, 20], [280 + 300 * k, 35], [250 + 300 * k, 1000], [10 + 300 * k, 20]]]}} for k in range(3)]}  # fmt: skip
GRAPHS: dict[str, list[tuple[Any, ...]]] = {
    "mean": [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "std"})],
    "median": [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "median"})],
    "area of a threshold found in a pass before": [
        *NDVI, ("m", "raster.product.threshold", ["ndvi"], {"value": "otsu"}), ("out", "raster.summarize.area", ["m"], {})],
    "zones": [*NDVI, ("z", "vector.zones", (), {"geojson": ZONES, "crs": "image"}),
              ("out", "raster.summarize.zonal", ["ndvi", "z"], {"statistic": "std"})],
    "layer": NDVI,
}


class CutError(KeyboardInterrupt):
    """The process ends here."""


class Cut(Bench):
    """A bench whose process ends after ``n`` windows."""

    def __init__(self, *scenes: Any, n: int, **options: Any):
        super().__init__(*scenes, **options)
        self.n = n

    def call(self, tool: str, arguments: dict[str, Any], parents: Any = (), is_cancelled: Any = None) -> Any:
        left = self.n

        def progress(*_: Any) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise CutError

        return self.box.call(tool=tool, arguments=arguments, question=self.question, plan=Plan(task=TASK), step=1,
                             progress=progress)


def _plain(o: Any) -> str:
    """All that an observation says of the result (its layers by the digest of their pixels), but for the pixels that the process
    itself has read."""
    evidence = o.evidence.model_dump(mode="json")
    evidence["source"].pop("pixels_read", None)
    return json.dumps([o.result.model_dump(mode="json"), evidence], sort_keys=True)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("n", [1, 7, 19, 27])
def test_work_that_was_cut_off_ends_with_the_same_digits(tmp_path: Path, name: str, n: int) -> None:
    whole = Bench(scene(STORED, ["red", "nir"]), window_px=256, threads=2)
    wanted = whole.execute(GRAPHS[name])
    assert wanted.status.state == "ok", wanted.status.reason
    options: dict[str, Any] = {"window_px": 256, "threads": 2, "checkpoints": str(tmp_path), "checkpoint_s": 0}
    cut = Cut(scene(STORED, ["red", "nir"]), n=n, **options)
    try:
        cut.execute(GRAPHS[name])
        was_cut = False
    except CutError:
        was_cut = True
    assert was_cut == (n <= whole.readers["s"].n_reads)
    later = Bench(scene(STORED, ["red", "nir"]), **options)
    found = later.execute(GRAPHS[name])
    assert found.status.state == "ok", found.status.reason
    assert _plain(found) == _plain(wanted)
    # windows merged before the cut are not read again; the one whose merging was told last was not kept yet
    spared = n - 1 if was_cut else 0
    assert later.readers["s"].n_reads == whole.readers["s"].n_reads - spared
    assert not list(tmp_path.glob("*/*")), "work that ended keeps nothing"


def test_dates_that_were_done_are_not_read_again(tmp_path: Path) -> None:
    scenes = [scene(STORED[:1] + k, ["nir"], scene_id=f"s{k}", date=f"2020-01-0{k + 1}") for k in range(5)]
    nodes: list[tuple[Any, ...]] = []
    for k in range(5):
        nodes += [(f"a{k}", "asset.scene", (), {"scene": f"s{k}"}), (f"b{k}", "raster.product.band", [f"a{k}"], {"role": "nir"})]
    nodes.append(("out", "raster.summarize.series", [f"b{k}" for k in range(5)], {"statistic": "mean"}))
    options: dict[str, Any] = {"window_px": 256, "threads": 1, "checkpoints": str(tmp_path), "checkpoint_s": 0}
    cut = Cut(*scenes, n=45, **options)
    with pytest.raises(CutError):
        cut.execute(nodes)
    later, whole = Bench(*scenes, **options), Bench(*scenes, window_px=256)
    assert _plain(later.execute(nodes)) == _plain(whole.execute(nodes))
    assert "s0" not in later.readers and "s1" not in later.readers
    assert later.readers["s2"].n_reads == 16 and later.readers["s4"].n_reads == 20


@pytest.mark.parametrize("other", ["pixels", "graph", "region", "windows"])
def test_other_work_takes_nothing_over(tmp_path: Path, other: str) -> None:
    options: dict[str, Any] = {"window_px": 256, "threads": 2, "checkpoints": str(tmp_path), "checkpoint_s": 0}
    with pytest.raises(CutError):
        Cut(scene(STORED, ["red", "nir"]), n=9, **options).execute(GRAPHS["mean"])
    assert list(tmp_path.glob("*/*.npz"))
    stored, nodes = STORED, GRAPHS["mean"]
    more: dict[str, Any] = {}
    info, _ = scene(stored, ["red", "nir"])
    if other == "pixels":
        info = info.model_copy(update={"artifact": digest_bytes(b"other")})
    if other == "graph":
        nodes = [*NDVI, ("out", "raster.summarize.statistic", ["ndvi"], {"statistic": "mean"})]
    if other == "region":
        more = {"region": {"type": "Polygon", "coordinates": [[[0, 0], [900, 0], [900, 1100], [0, 0]]]}, "region_crs": "image"}
    if other == "windows":
        options["window_px"] = 512
    b = Bench((info, stored), **options)
    o = b.execute(nodes, **more)
    plain = Bench((info, stored), window_px=options["window_px"])
    assert _plain(o) == _plain(plain.execute(nodes, **more))
    assert b.readers["s"].n_reads == plain.readers["s"].n_reads


def test_a_broken_checkpoint_is_left_aside(tmp_path: Path) -> None:
    options: dict[str, Any] = {"window_px": 256, "threads": 2, "checkpoints": str(tmp_path), "checkpoint_s": 0}
    with pytest.raises(CutError):
        Cut(scene(STORED, ["red", "nir"]), n=9, **options).execute(GRAPHS["mean"])
    (kept,) = tmp_path.glob("*/*.npz")
    kept.write_bytes(kept.read_bytes()[:-200])
    b, whole = Bench(scene(STORED, ["red", "nir"]), **options), Bench(scene(STORED, ["red", "nir"]), window_px=256)
    assert _plain(b.execute(GRAPHS["mean"])) == _plain(whole.execute(GRAPHS["mean"]))


def test_a_cancelled_run_keeps_its_state_and_one_that_failed_does_not(tmp_path: Path) -> None:
    options: dict[str, Any] = {"window_px": 256, "threads": 1, "checkpoints": str(tmp_path), "checkpoint_s": 0}
    b = Bench(scene(STORED, ["red", "nir"]), **options)
    nodes = [{"id": i, "op": op, "inputs": list(n), "params": p} for i, op, n, p in GRAPHS["mean"]]
    asked = iter([False] * 12 + [True] * 100)
    o = b.call("execute", {"nodes": nodes, "output": "out"}, is_cancelled=lambda: next(asked))
    assert o.status.needs["code"] == "CANCELLED" and list(tmp_path.glob("*/*.npz"))

    class Broken(MemoryReader):
        def read(self, *given: Any, **named: Any) -> Any:
            if self.n_reads > 4:
                raise OSError("the disk is gone")
            return super().read(*given, **named)

    b = Bench(scene(STORED, ["red", "nir"]), **options)
    b.box = type(b.box)(open_scene=lambda info: Broken(info, STORED), layers=b.layers, options=options, revision="test")
    o = b.execute(GRAPHS["mean"])
    assert o.status.state == "failed" and not list(tmp_path.glob("*/*"))


def test_a_state_that_is_more_than_numbers_is_not_kept() -> None:
    with pytest.raises(NotKeepableError):
        _encoded({"a": object()}, {})
    with pytest.raises(NotKeepableError):
        _encoded(np.array([object()]), {})
    with pytest.raises(FaultError):
        Checkpoint(Path("/nowhere"), "../../etc")


def test_what_was_kept_comes_back_bit_by_bit(tmp_path: Path) -> None:
    key = digest_bytes(b"work")
    one, other = Moments(4), OrderStatistics([0.5], keep=3)
    one.merge([(3, 0.1 + 0.2, 1e-300, -0.0, float("inf"), 5e-324, -1.0, 1.0)])
    assert other.wants_pass()
    other.merge(np.array([0.1, np.nextafter(1, 2)]))
    Checkpoint(tmp_path, key).save(3, {"windows": 512, "targets": {0: one, 1: other}, "count": np.int64(7)})
    new, newer = Moments(4), OrderStatistics([0.5], keep=3)
    like = {"targets": {0: new, 1: newer}}
    assert Checkpoint(tmp_path, key).load(3, like, {"windows": 256}) is None and new.n == 0
    state = Checkpoint(tmp_path, key).load(3, like, {"windows": 512})
    assert state is not None and state["count"] == 7
    assert repr(vars(new)) == repr(vars(one)) and newer.n == 2 and newer._pass == 1
    assert newer._kept is not None and newer._kept[0].tobytes() == np.array([0.1, np.nextafter(1, 2)]).tobytes()
    Checkpoint(tmp_path, key).forget()
    assert Checkpoint(tmp_path, key).load(3, like, {"windows": 512}) is None
