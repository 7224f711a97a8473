"""Readers and layer stores that are wrong in one way and look right: what stands between a faulty tool and its pixels."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.observation import ASIDE, LayerRef
from apps.core.geo import Grid, MaskedRaster, SceneInfo
from apps.core.ports import LayerStore, RasterReader, Window

Change = Callable[[MaskedRaster, Sequence[int], Window], MaskedRaster]


class ChangedReader:
    """A reader whose answers pass through ``change``; it also may claim other facts of the scene than the file has."""

    def __init__(
        self,
        real: RasterReader,
        change: Change | None = None,
        *,
        info: SceneInfo | None = None,
        remap: dict[int, int] | None = None,
        is_stored: bool = False,
    ):
        self._real, self._change, self._info = real, change, info or real.info
        self._remap, self._is_stored = remap or {}, is_stored

    @property
    def info(self) -> SceneInfo:
        return self._info

    def read(
        self,
        bands: Sequence[int],
        window: Window | None = None,
        out_shape: tuple[int, int] | None = None,
        *,
        physical: bool = True,
    ) -> MaskedRaster:
        asked = [self._remap.get(b, b) for b in bands]
        got = self._real.read(asked, window, out_shape, physical=physical and not self._is_stored)
        claimed = tuple(next(b for b in self._info.bands if b.index == i) for i in bands)
        grid = got.grid
        if grid.crs != self._info.grid.crs or (window is None and out_shape is None):
            whole = self._info.grid
            grid = whole if window is None else whole.window(*window)
            if grid.shape != got.grid.shape:
                grid = got.grid
        got = replace(got, bands=claimed, grid=grid)
        if self._change is None:
            return got
        return self._change(got, bands, window or (0, 0, self._info.grid.width, self._info.grid.height))

    def windows(self, size: int = 1024) -> Iterator[Window]:
        return self._real.windows(size)

    def close(self) -> None:
        self._real.close()


class ChangedLayers:
    """A layer store whose masks, rasters and features are changed on the way in; reading back is honest, but for vector files
    that a person gave: ``vector`` changes (features, CRS) of those."""

    def __init__(
        self,
        real: LayerStore,
        *,
        mask: Callable[[NDArray[np.bool_], NDArray[np.bool_]], NDArray[np.bool_]] | None = None,
        features: Callable[[list[dict[str, Any]]], list[dict[str, Any]]] | None = None,
        vector: Callable[[list[dict[str, Any]], str], tuple[list[dict[str, Any]], str]] | None = None,
    ):
        self._real, self._mask, self._features, self._vector = real, mask, features, vector

    def put_mask(
        self, mask: NDArray[np.bool_], valid: NDArray[np.bool_], grid: Grid, *, label: str, scene_id: str | None = None
    ) -> LayerRef:
        changed = mask if self._mask is None else self._mask(mask, valid)
        return self._real.put_mask(changed, valid, grid, label=label, scene_id=scene_id)

    def put_features(
        self, features: list[dict[str, Any]], *, kind: str, crs: str, label: str, scene_id: str | None = None
    ) -> LayerRef:
        if self._features is not None and kind == "boxes" and label not in ASIDE:
            features = self._features(features)
        return self._real.put_features(features, kind=kind, crs=crs, label=label, scene_id=scene_id)

    def read_vector(self, digest: str) -> tuple[list[dict[str, Any]], str]:
        found, crs = self._real.read_vector(digest)
        return (found, crs) if self._vector is None else self._vector(copy.deepcopy(found), crs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)
