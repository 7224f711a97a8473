"""Small real rasters for the tests of the tools: in memory, or read from files with rasterio; and a store that keeps layers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray

from apps.core.digests import digest_bytes, digest_json
from apps.core.evidence.observation import LayerRef, Observation, TaskRef
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.bands import Band, FillRule
from apps.core.geo.grid import Grid
from apps.core.geo.raster import MaskedRaster, valid_mask
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.tools.toolbox import LocalToolBox


class MemoryReader:
    """A scene whose stored values (bands, rows, columns) lie in memory."""

    def __init__(self, info: SceneInfo, stored: NDArray[Any]):
        self._info, self._stored = info, stored
        self.n_reads = 0
        self.closed = False

    @property
    def info(self) -> SceneInfo:
        return self._info

    def read(self, bands: Sequence[int], window: Window | None = None, out_shape: tuple[int, int] | None = None, *,
             physical: bool = True) -> MaskedRaster:
        c, r, w, h = window or (0, 0, self._info.grid.width, self._info.grid.height)
        self.n_reads += 1
        cut = self._stored[:, r:r + h, c:c + w]
        chosen = [self._info.bands[b - 1] for b in bands]
        stored = cut[[b - 1 for b in bands]]
        fill = None
        for rule in self._info.fill_rules:
            if rule.kind == "all_bands_equal":
                fill = (cut == rule.value).all(axis=0)
        valid = valid_mask(stored, chosen, self._info.fill_rules, all_bands_fill=fill)
        data = stored.astype(np.complex128 if stored.dtype.kind == "c" else np.float64)
        if physical:
            for i, b in enumerate(chosen):
                data[i] = data[i] * b.scale + b.offset
        if out_shape is not None:
            rows = (np.arange(out_shape[0]) + 0.5) * h / out_shape[0]
            cols = (np.arange(out_shape[1]) + 0.5) * w / out_shape[1]
            data, valid = data[:, rows.astype(int)][:, :, cols.astype(int)], valid[:, rows.astype(int)][:, :, cols.astype(int)]
            h, w = out_shape
        return MaskedRaster(data, valid, self._info.grid.window(c, r, w, h), tuple(chosen), chosen[0].unit)

    def windows(self, size: int = 1024) -> Iterator[Window]:
        g = self._info.grid
        for r in range(0, g.height, size):
            for c in range(0, g.width, size):
                yield c, r, min(size, g.width - c), min(size, g.height - r)

    def close(self) -> None:
        self.closed = True


class MemoryLayers:
    """Keeps layers in a dictionary."""

    def __init__(self) -> None:
        self.kept: dict[str, Any] = {}
        self.crs_of: dict[str, str] = {}

    def _ref(self, value: Any, what: bytes, **fields: Any) -> LayerRef:
        digest = digest_bytes(what)
        self.kept[digest] = value
        return LayerRef(artifact=digest, **fields)

    def put_mask(self, mask: NDArray[np.bool_], valid: NDArray[np.bool_], grid: Grid, *, label: str,
                 scene_id: str | None = None) -> LayerRef:
        assert mask.shape == valid.shape == grid.shape
        return self._ref((mask.copy(), valid.copy()), mask.tobytes() + valid.tobytes() + label.encode(), kind="mask",
                         crs=grid.crs or "image", label=label, grid=grid, n=int((mask & valid).sum()), source_scene_id=scene_id)

    def put_raster(self, raster: MaskedRaster, *, label: str, scene_id: str | None = None) -> LayerRef:
        return self._ref(raster, raster.data.tobytes() + label.encode(), kind="raster", crs=raster.grid.crs or "image",
                         label=label, grid=raster.grid, unit=raster.unit, source_scene_id=scene_id)

    def put_classes(self, classes: NDArray[np.uint8], valid: NDArray[np.bool_], grid: Grid, names: dict[int, str], *, label: str,
                    scene_id: str | None = None) -> LayerRef:
        return self._ref((classes, valid, names), classes.tobytes(), kind="classes", crs=grid.crs or "image", label=label,
                         grid=grid, source_scene_id=scene_id)

    def put_image(self, rgba: NDArray[np.uint8], grid: Grid, *, form: str, label: str, scene_id: str | None = None) -> LayerRef:
        assert rgba.shape == (*grid.shape, 4) and rgba.dtype == np.uint8
        placed: dict[str, Any] = {"grid": grid, "crs": grid.crs or "image"} if form == "geotiff" else {}
        return self._ref(rgba.copy(), rgba.tobytes() + form.encode(), kind="image", label=label,
                         source_scene_id=scene_id, **placed)

    def put_features(self, features: list[dict[str, Any]], *, kind: str, crs: str, label: str,
                     scene_id: str | None = None) -> LayerRef:
        ref = self._ref(features, digest_json([features, label]).encode(), kind=kind, crs=crs, label=label, n=len(features),
                        source_scene_id=scene_id)
        self.crs_of[ref.artifact] = crs
        return ref

    def read_mask(self, ref: LayerRef) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        mask, valid = self.kept[ref.artifact]
        return mask, valid

    def read_raster(self, ref: LayerRef) -> MaskedRaster:
        """Classes come as their codes, as from the store of the installation."""
        held = self.kept[ref.artifact]
        if ref.kind == "classes":
            assert ref.grid is not None
            held = MaskedRaster(held[0][None], held[1][None], ref.grid, (Band(index=1, role="class"),), "1")
        return held  # type: ignore[no-any-return]

    def read_features(self, ref: LayerRef) -> list[dict[str, Any]]:
        return self.kept[ref.artifact]  # type: ignore[no-any-return]

    def read_vector(self, digest: str) -> tuple[list[dict[str, Any]], str]:
        return self.kept[digest], self.crs_of[digest]

    def size(self, ref: LayerRef) -> int:
        return len(str(self.kept[ref.artifact]))


UTM = "EPSG:32630"


def scene(stored: NDArray[Any], roles: Sequence[str], *, scene_id: str = "s", crs: str | None = UTM, pixel: float = 10.0,
          origin: tuple[float, float] = (600000.0, 5600000.0), unit: str = "DN", scale: float = 1.0, offset: float = 0.0,
          nodata: float | None = None, fill: Sequence[FillRule] = (), gsd_m: float | None = None, date: str | None = None,
          valid_range: tuple[float, float] | None = None, sensor: str = "") -> tuple[SceneInfo, NDArray[Any]]:
    """A scene of stored values (bands, rows, columns) with those roles."""
    n, h, w = stored.shape
    transform = (pixel, 0.0, origin[0], 0.0, -pixel, origin[1]) if crs else (1.0, 0.0, 0.0, 0.0, 1.0, 0.0)
    bands = tuple(Band(index=i + 1, role=r, role_source="declared", unit=unit, scale=scale, offset=offset, nodata=nodata,
                       valid_range=valid_range) for i, r in enumerate(roles))
    assert len(bands) == n
    info = SceneInfo(scene_id=scene_id, artifact=digest_bytes(stored.tobytes()), name=f"{scene_id}.tif",
                     grid=Grid(crs=crs, transform=transform, width=w, height=h), dtype=str(stored.dtype), bands=bands,
                     fill_rules=tuple(fill), gsd_m=gsd_m, gsd_source="person" if gsd_m else "unknown",
                     acquired_at=datetime.fromisoformat(date).replace(tzinfo=UTC) if date else None, sensor=sensor)
    return info, stored


def from_file(path: Path, roles: dict[str, int], *, scene_id: str = "s", unit: str = "DN", scale: float = 1.0,
              nodata: float | None = None, fill: Sequence[FillRule] = (), date: str | None = None,
              valid_range: tuple[float, float] | None = None) -> tuple[SceneInfo, NDArray[Any]]:
    """A scene of a file, read whole (the files of the tests are small)."""
    with rasterio.open(path) as src:
        stored = src.read()
        t = src.transform
        crs = src.crs.to_string() if src.crs else None
    by_index = {i: r for r, i in roles.items()}
    bands = tuple(Band(index=i, role=by_index.get(i, "unknown"), unit=unit, scale=scale, nodata=nodata, valid_range=valid_range)
                  for i in range(1, len(stored) + 1))
    info = SceneInfo(scene_id=scene_id, artifact=digest_bytes(stored.tobytes()), name=path.name,
                     grid=Grid(crs=crs, transform=(t.a, t.b, t.c, t.d, t.e, t.f), width=stored.shape[2], height=stored.shape[1]),
                     dtype=str(stored.dtype), bands=bands, fill_rules=tuple(fill),
                     acquired_at=datetime.fromisoformat(date).replace(tzinfo=UTC) if date else None)
    return info, stored


TASK = TaskRef(task_type="index_statistic", question="a question", answer_form="number")


class Bench:
    """Scenes, a tool box over them, and one call."""

    def __init__(self, *scenes: tuple[SceneInfo, NDArray[Any]], region: dict[str, Any] | None = None,
                 region_crs: str = "EPSG:4326", **options: Any):
        self.layers = MemoryLayers()
        self.readers: dict[str, MemoryReader] = {}
        self.stored = {info.scene_id: stored for info, stored in scenes}
        self.question = Question(text="a question", scenes=tuple(i for i, _ in scenes), region=region, region_crs=region_crs)
        self.box = LocalToolBox(open_scene=self._open, layers=self.layers, options=options, revision="test")
        self.done: list[tuple[int, int, str]] = []

    def _open(self, info: SceneInfo) -> MemoryReader:
        self.readers[info.scene_id] = MemoryReader(info, self.stored[info.scene_id])
        return self.readers[info.scene_id]

    def call(self, tool: str, arguments: dict[str, Any], parents: Sequence[Observation] = (), is_cancelled: Any = None,
             ) -> Any:
        return self.box.call(tool=tool, arguments=arguments, question=self.question, plan=Plan(task=TASK), step=1, attempt=0,
                             run_id="r", parents=parents, progress=lambda *a: self.done.append(a),
                             is_cancelled=is_cancelled or (lambda: False))

    def execute(self, nodes: list[tuple[Any, ...]], output: str | None = None, **more: Any) -> Any:
        """``nodes``: (id, op, inputs, params)."""
        listed = [{"id": i, "op": op, "inputs": list(inputs), "params": params} for i, op, inputs, params in nodes]
        return self.call("execute", {"nodes": listed, "output": output or listed[-1]["id"], **more})


def node_of(observation: Observation, node: str) -> dict[str, Any]:
    """The evidence of a node."""
    nodes: Any = observation.evidence.intermediate["nodes"]
    return next(n for n in nodes if n["id"] == node)


def close(a: Any, b: float, tolerance: float = 1e-12) -> bool:
    return math.isclose(float(a), b, rel_tol=tolerance, abs_tol=tolerance)
