"""A value that is the limit itself is neither above nor below it, however its scale was rounded: against the stored numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from django.conf import settings
from numpy.typing import NDArray

from apps.core.evidence.plan import Plan, Question
from apps.imagery.readers import open_scene
from apps.tools.execute.formula import parse
from apps.tools.execute.types import Plane
from apps.tools.thresholds import on_limit
from apps.tools.toolbox import LocalToolBox
from tests.unit.tools.rasters import TASK, MemoryLayers, scene

MODIS = Path(settings.BASE_DIR) / "apps/imagery/samples/mod13q1_sinop/TERRA_MODIS_012010_NDVI_2013-09-14.jp2"
COMPARE: dict[str, Any] = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}
LIMITS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


@pytest.fixture(scope="module")
def ndvi() -> NDArray[Any]:
    """NDVI of a real MODIS product, stored × 10,000."""
    with rasterio.open(MODIS) as source:
        return np.asarray(source.read())


def _run(tmp_path: Path, stored: NDArray[Any], nodes: list[tuple[Any, ...]], **bands: Any) -> Any:
    info, _ = scene(stored, ["ndvi"], **bands)
    path = tmp_path / "t.tif"
    with rasterio.open(path, "w", driver="GTiff", width=stored.shape[2], height=stored.shape[1], count=1, crs=info.grid.crs,
                       dtype=stored.dtype.name, transform=rasterio.Affine(*info.grid.transform)) as out:  # fmt: skip
        out.write(stored)
    listed = [{"id": i, "op": op, "inputs": list(inputs), "params": p} for i, op, inputs, p in nodes]
    box = LocalToolBox(open_scene=lambda i: open_scene(i, path), layers=MemoryLayers())
    o = box.call(tool="execute", arguments={"nodes": listed, "output": "out"}, question=Question(text="?", scenes=(info,)),
                 plan=Plan(task=TASK), step=1)  # fmt: skip
    assert o.status.state == "ok", o.status.reason
    return o


BAND: list[tuple[Any, ...]] = [("s", "asset.scene", (), {"scene": "s"}), ("b", "raster.product.band", ["s"], {"role": "ndvi"})]


@pytest.mark.parametrize("op", COMPARE)
@pytest.mark.parametrize("kind", ["16 bits", "8 bits", "float32"])
def test_a_threshold_counts_as_the_stored_numbers_do(tmp_path: Path, ndvi: NDArray[Any], op: str, kind: str) -> None:
    """8 bits: 31,175 of 37,485 pixels were above 0.3 before, among them the 760 that are 0.3; 30,415 are above it."""
    steps = {"16 bits": 10_000, "8 bits": 100, "float32": 100}[kind]
    stored = ndvi if kind == "16 bits" else np.round(ndvi / 100).astype(np.uint8)
    held = (stored / np.float32(steps)).astype(np.float32) if kind == "float32" else stored
    for limit in LIMITS:
        o = _run(tmp_path, held, [*BAND, ("m", "raster.product.threshold", ["b"], {"op": op, "value": limit}),
                                  ("out", "raster.summarize.statistic", ["m"], {"statistic": "sum"})],
                 unit="1", scale=1.0 if kind == "float32" else 1 / steps)  # fmt: skip
        assert o.result.value == COMPARE[op](stored.astype(int), round(limit * steps)).sum(), limit


def test_classes_and_formulas_hold_the_limit_where_they_say(tmp_path: Path, ndvi: NDArray[Any]) -> None:
    stored = np.round(ndvi / 100).astype(np.uint8)
    o = _run(tmp_path, stored, [*BAND, ("c", "raster.product.classify", ["b"], {"breaks": list(LIMITS)}),
                                ("out", "raster.summarize.class_areas", ["c"], {})], unit="1", scale=0.01)  # fmt: skip
    wanted = np.bincount(np.searchsorted(np.round(np.array(LIMITS) * 100), stored.ravel(), side="right"), minlength=10)
    found = {i["class"]: i["n_px"] for i in o.result.items}
    assert [found.get(k + 1, 0) for k in range(10)] == wanted.tolist()
    for op in COMPARE:
        o = _run(tmp_path, stored, [
            *BAND, ("m", "raster.product.math", ["b"], {"expression": f"where(b {op} 0.7, 1, 0)", "range": [0, 1], "unit": "1"}),
            ("out", "raster.summarize.statistic", ["m"], {"statistic": "sum"})], unit="1", scale=0.01)  # fmt: skip
        assert o.result.value == COMPARE[op](stored, 70).sum()


def test_whole_numbers_are_compared_as_they_stand() -> None:
    """Identifiers beyond what 32 bits of a float hold apart."""
    values = np.array([[2.0**31, 2.0**31 + 1, 2.0**31 + 2]])
    found = parse(f"a == {2**31 + 1}").evaluate({"a": Plane(values, np.ones(values.shape, dtype=bool))})
    assert found.data.tolist() == [[0.0, 1.0, 0.0]]


def test_how_near_is_on_the_limit() -> None:
    assert on_limit(0.0) == on_limit(0.0, "reflectance") == 0.0
    # steps of products are far wider: 1e-4 of reflectance, 0.01 K, 1 mm of height
    assert on_limit(0.3, "reflectance") < 1e-6 and on_limit(300.0, "K") < 1e-3 and on_limit(100.0, "m") < 1e-4
    # 27,315 × 0.01 − 273.15 is 5.7e-14, and in 32 bits as much as 1.5e-5 off
    assert abs(np.float32(273.15) - 273.15) < on_limit(0.0, "degC") < 1e-3


def test_dates_that_are_equal_but_for_their_rounding_have_no_spread_and_no_trend(tmp_path: Path) -> None:
    """One reflectance stored as 2 × 1e-4 and 4 × 5e-5 and so on, in a quotient: p was 0.5 or less of rounding before."""
    rng = np.random.default_rng(4)
    red, nir = rng.integers(200, 1500, (1, 40, 50)), rng.integers(1000, 4000, (1, 40, 50))
    scenes, paths = [], {}
    for k, factor in enumerate((1, 2, 3, 5, 7)):
        stored = np.concatenate([red, nir]).astype(np.uint16) * np.uint16(factor)
        info, _ = scene(
            stored, ["red", "nir"], scene_id=f"s{k}", date=f"20{10 + k}-06-01", unit="reflectance", scale=1e-4 / factor
        )
        paths[f"s{k}"] = tmp_path / f"{k}.tif"
        with rasterio.open(paths[f"s{k}"], "w", driver="GTiff", width=50, height=40, count=2, dtype="uint16", crs=info.grid.crs,
                           transform=rasterio.Affine(*info.grid.transform)) as out:  # fmt: skip
            out.write(stored)
        scenes.append(info)
    layers = MemoryLayers()
    box = LocalToolBox(open_scene=lambda i: open_scene(i, paths[i.scene_id]), layers=layers)
    nodes = [n for k in range(5) for n in ({"id": f"s{k}", "op": "asset.scene", "params": {"scene": f"s{k}"}}, {
        "id": f"i{k}", "op": "raster.product.index", "inputs": [f"s{k}"], "params": {"index": "ndvi"}})]  # fmt: skip

    def ask(op: str, **params: Any) -> Any:
        last = {"id": "out", "op": op, "inputs": [f"i{k}" for k in range(5)], "params": params}
        return box.call(tool="execute", arguments={"nodes": [*nodes, last], "output": "out"}, step=1, plan=Plan(task=TASK),
                        question=Question(text="?", scenes=tuple(scenes)))  # fmt: skip

    for output, wanted in (("slope", 0.0), ("p_value", 1.0), ("r2", 0.0)):
        o = ask("raster.product.pixel_trend", output=output)
        assert (layers.read_raster(o.result.layers[0]).data == wanted).all(), output
    o = ask("raster.product.anomaly", mode="zscore")
    assert o.status.state == "failed" and "No pixel is valid" in o.status.reason
