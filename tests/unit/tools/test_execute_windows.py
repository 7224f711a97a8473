"""Windows of real files: narrow types give the digits of float64 for any window size and thread count; work ahead is bounded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from numpy.typing import NDArray

from apps.core.evidence.plan import Plan, Question
from apps.core.geo.scene import SceneInfo
from apps.imagery.readers import open_scene
from apps.tools.execute.accumulators import CELL, cell_moments
from apps.tools.execute.types import NarrowPlane
from apps.tools.toolbox import LocalToolBox
from tests.unit.tools.rasters import TASK, Bench, MemoryLayers, scene

RNG = np.random.default_rng(5)
SHAPE = (2, 1100, 900)
NODATA = 7
ZONES = {"type": "FeatureCollection", "features": [
    {"type": "Feature", "properties": {"name": name}, "geometry": {"type": "Polygon", "coordinates": [ring]}} for name, ring in (
        ("large", [[5.2, 3.3], [890.1, 30.7], [700.5, 1090.2], [20.9, 900.4], [5.2, 3.3]]),
        ("over it", [[300, 200], [640, 200], [640, 900], [300, 900], [300, 200]]),
        ("small", [[10.5, 10.5], [14.5, 10.5], [14.5, 13.5], [10.5, 10.5]]))]}  # fmt: skip
SCENE = ("s1", "asset.scene", (), {"scene": "s"})
GRAPHS: dict[str, list[tuple[Any, ...]]] = {
    "index": [SCENE, ("q", "raster.product.index", ["s1"], {"index": "ndvi"}),
              ("out", "raster.summarize.statistic", ["q"], {"statistic": "std"})],
    "band": [SCENE, ("q", "raster.product.band", ["s1"], {"role": "nir"}),
             ("out", "raster.summarize.statistic", ["q"], {"statistic": "mean"})],
    "moments of a band": [SCENE, ("q", "raster.product.band", ["s1"], {"role": "nir"}),
                          ("out", "raster.summarize.statistic", ["q"], {"statistic": "kurtosis"})],
    "zones": [SCENE, ("q", "raster.product.index", ["s1"], {"index": "ndvi"}),
              ("z", "vector.zones", (), {"geojson": ZONES, "crs": "image"}),
              ("out", "raster.summarize.zonal", ["q", "z"], {"statistic": "std"})],
    "zones of a band": [SCENE, ("q", "raster.product.band", ["s1"], {"role": "red"}),
                        ("z", "vector.zones", (), {"geojson": ZONES, "crs": "image"}),
                        ("out", "raster.summarize.zonal", ["q", "z"], {"statistic": "mean"})],
}  # fmt: skip


def _stored(dtype: str) -> NDArray[Any]:
    if dtype == "float32":
        stored = RNG.normal(0.3, 0.1, SHAPE).astype(dtype)
    else:
        stored = RNG.integers(1, min(30_000, np.iinfo(dtype).max), SHAPE).astype(dtype)
    stored[:, 250:270, 100:400] = NODATA
    return stored


def _write(path: Path, stored: NDArray[Any], info: SceneInfo) -> None:
    place = {"crs": info.grid.crs, "transform": rasterio.Affine(*info.grid.transform)}
    # whole numbers as ingest packs them, which are unpacked without GDAL where a window is made of whole blocks
    packing = {"compress": "deflate"} if stored.dtype.kind == "f" else {"compress": "zstd", "predictor": 2}
    with rasterio.open(path, "w", driver="GTiff", width=SHAPE[2], height=SHAPE[1], count=2, dtype=stored.dtype.name, tiled=True,
                       blockxsize=256, blockysize=256, nodata=NODATA, **packing, **place) as out:  # fmt: skip
        out.write(stored)


def _run(info: SceneInfo, path: Path, nodes: list[tuple[Any, ...]], **options: Any) -> Any:
    listed = [{"id": i, "op": op, "inputs": list(inputs), "params": p} for i, op, inputs, p in nodes]
    box = LocalToolBox(open_scene=lambda i: open_scene(i, path), layers=MemoryLayers(), options=options)
    o = box.call(tool="execute", arguments={"nodes": listed, "output": "out"}, question=Question(text="?", scenes=(info,)),
                 plan=Plan(task=TASK), step=1)  # fmt: skip
    assert o.status.state == "ok", o.status.reason
    return o


def _figures(o: Any) -> Any:
    return [o.result.value, [dict(i) for i in o.result.items], list(o.evidence.intermediate["nodes"])]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int16", "int32", "uint32", "float32"])
@pytest.mark.parametrize("name", GRAPHS)
def test_narrow_types_give_the_digits_of_float64_for_any_window(tmp_path: Path, dtype: str, name: str) -> None:
    stored = _stored(dtype)
    info, _ = scene(stored, ["red", "nir"], nodata=NODATA)
    _write(tmp_path / "t.tif", stored, info)
    runs: list[dict[str, Any]] = [{"threads": 2}, {"window_px": 256, "threads": 1}, {"window_px": 512, "threads": 3},
                                  {"window_px": 1280, "threads": 2}]  # fmt: skip
    found = [_figures(_run(info, tmp_path / "t.tif", GRAPHS[name], **options)) for options in runs]
    assert all(f == found[0] for f in found[1:])
    # the reader of the tests hands over float64
    wide = Bench((info, stored), window_px=512, threads=2).execute(GRAPHS[name])
    assert _figures(wide) == found[0]


def test_scaled_bands_are_the_same_for_any_window(tmp_path: Path) -> None:
    stored = _stored("uint16")
    info, _ = scene(stored, ["red", "nir"], nodata=NODATA, scale=1e-4, offset=0.05, unit="reflectance")
    _write(tmp_path / "t.tif", stored, info)
    found = [_figures(_run(info, tmp_path / "t.tif", GRAPHS["index"], window_px=w, threads=2)) for w in (256, 512, 1280)]
    assert found[0] == found[1] == found[2]
    assert found[0][0] == pytest.approx(Bench((info, stored)).execute(GRAPHS["index"]).result.value, rel=1e-6)


def test_masked_values_of_a_narrow_plane_are_nan_when_wide() -> None:
    held, valid = np.arange(12, dtype=np.uint16).reshape(3, 4), np.ones((3, 4), dtype=bool)
    valid[1, 2] = False
    plane = NarrowPlane(held, valid)
    assert np.isnan(plane.strip(slice(1, 2))[0, 2]) and plane.strip(slice(0, 1)).dtype == np.float64
    assert np.isnan(plane.data[1, 2]) and plane.data[2, 3] == 11.0 and plane.data is plane.data
    assert plane.held is held


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint16", "int16", "uint32", "int32"])
def test_sums_of_whole_numbers_are_exact(dtype: str) -> None:
    values = RNG.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, (CELL, CELL), endpoint=True).astype(dtype)
    found, wide = cell_moments(values, 1), cell_moments(values.astype(np.float64), 1)
    assert found == wide and found is not None and found[1] == float(sum(int(v) for v in values.ravel()))
    for end in (int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)):
        of_ends = cell_moments(np.full((CELL, CELL), end, dtype=dtype), 1)
        assert of_ends is not None and of_ends[1] == float(end * CELL * CELL)


def test_what_is_read_ahead_is_bounded() -> None:
    stored = RNG.integers(1, 9, (2, 256 * 8, 256 * 8)).astype(np.uint8)
    b, ahead = Bench(scene(stored, ["red", "nir"]), window_px=256, threads=3), []
    b.box.call(tool="execute", arguments={"nodes": [
        {"id": i, "op": op, "inputs": list(n), "params": p} for i, op, n, p in GRAPHS["index"]], "output": "out"},
        question=b.question, plan=Plan(task=TASK), step=1,
        progress=lambda done, total, message: ahead.append(b.readers["s"].n_reads - done))  # fmt: skip
    # windows at work or waiting to be merged: two a thread
    assert len(ahead) == 64 and max(ahead) <= 6


def test_one_pass_gives_the_number_its_evidence_and_the_layer() -> None:
    stored = RNG.integers(1, 9000, (2, 600, 600)).astype(np.uint16)
    b = Bench(scene(stored, ["red", "nir"]), window_px=256)
    o = b.execute([SCENE, ("q", "raster.product.index", ["s1"], {"index": "ndvi"}),
                   ("m", "raster.product.threshold", ["q"], {"value": 0.1}),
                   ("out", "raster.summarize.area", ["m"], {})])  # fmt: skip
    assert o.evidence.intermediate["n_passes"] == 1 and b.readers["s"].n_reads == 9
    assert len(o.result.layers) == 2 and o.result.value > 0
    assert {n["id"] for n in o.evidence.intermediate["nodes"] if n.get("mean") is not None} >= {"q", "m"}


def test_scenes_of_a_series_overlap_in_one_flow_of_windows() -> None:
    scenes = [scene(RNG.integers(1, 9, (1, 256, 512)).astype(np.uint8), ["nir"], scene_id=f"s{k}", date=f"2020-01-{k + 1:02d}")
              for k in range(20)]  # fmt: skip
    b = Bench(*scenes, window_px=256, threads=2)
    nodes: list[tuple[Any, ...]] = []
    for k in range(20):
        nodes += [(f"a{k}", "asset.scene", (), {"scene": f"s{k}"}), (f"b{k}", "raster.product.band", [f"a{k}"], {"role": "nir"})]
    o = b.execute([*nodes, ("out", "raster.summarize.series", [f"b{k}" for k in range(20)], {"statistic": "mean"})])
    assert o.status.state == "ok" and len(o.result.items) == 20
    for k, item in enumerate(o.result.items):
        assert item["value"] == pytest.approx(float(scenes[k][1].mean()), rel=1e-12)
    assert all(r.n_reads == 2 for r in b.readers.values())
    # of a long series the first and the last date are kept as layers
    assert [ref.label for ref in o.result.layers] == ["nir 2020-01-01", "nir 2020-01-20"]


def test_a_date_that_cannot_be_read_leaves_the_others_alone() -> None:
    scenes = [scene(np.full((1, 300, 600), k + 1, np.uint8), ["nir"], scene_id=f"s{k}", date=f"2020-01-0{k + 1}")
              for k in range(5)]  # fmt: skip
    b = Bench(*scenes, window_px=256, threads=2)

    class Broken(type(b._open(scenes[2][0]))):  # type: ignore[misc]
        def read(self, *given: Any, **named: Any) -> Any:
            if self.n_reads:
                raise OSError("cut off")
            return super().read(*given, **named)

    b.box = LocalToolBox(open_scene=lambda i: Broken(i, b.stored[i.scene_id]) if i.scene_id == "s2" else b._open(i),
                         layers=b.layers, options={"window_px": 256, "threads": 2})  # fmt: skip
    nodes: list[tuple[Any, ...]] = []
    for k in range(5):
        nodes += [(f"a{k}", "asset.scene", (), {"scene": f"s{k}"}), (f"b{k}", "raster.product.band", [f"a{k}"], {"role": "nir"})]
    o = b.execute([*nodes, ("out", "raster.summarize.series", [f"b{k}" for k in range(5)], {"statistic": "mean"})])
    assert o.status.state == "partial" and "cut off" in o.status.reason
    assert [i["value"] for i in o.result.items] == [1.0, 2.0, 4.0, 5.0]
