"""Ports: what an upper floor hands to a lower one. Roles, not classes; assembled in ``apps.runs``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.decision import CheckResult, Decision, PriorView
from apps.core.evidence.events import Event
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import LayerRef, Observation
from apps.core.evidence.plan import Plan, Question
from apps.core.geo.grid import Grid
from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo

# (column offset, row offset, width, height) in pixels
Window = tuple[int, int, int, int]


@runtime_checkable
class RasterReader(Protocol):
    """Reads one scene in windows; implemented by ``apps.imagery.readers``. Thread-safe; close it after use."""

    @property
    def info(self) -> SceneInfo: ...

    def read(
        self,
        bands: Sequence[int],
        window: Window | None = None,
        out_shape: tuple[int, int] | None = None,
        *,
        physical: bool = True,
    ) -> MaskedRaster:
        """(bands, rows, columns) of the 1-based ``bands``; masked by the one nodata policy; ``physical`` applies scale and
        offset (float32/float64), else stored values. ``out_shape`` (rows, columns) reads from overviews."""
        ...

    def windows(self, size: int = 1024) -> Iterator[Window]:
        """Windows that cover the raster once, aligned to its blocks."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class LayerStore(Protocol):
    """Keeps result layers as artifacts and reads them back; implemented by ``apps.imagery.layers`` over ``apps.artifacts``.

    Masks are single-band GeoTIFFs of uint8: 1 True, 0 False, 255 invalid; rasters float32 with NaN as nodata; vectors GeoJSON
    FeatureCollections in the CRS named by the reference (``image``: pixel coordinates, x right, y down).
    """

    def put_mask(
        self, mask: NDArray[np.bool_], valid: NDArray[np.bool_], grid: Grid, *, label: str, scene_id: str | None = None
    ) -> LayerRef: ...

    def put_raster(self, raster: MaskedRaster, *, label: str, scene_id: str | None = None) -> LayerRef: ...

    def put_classes(
        self,
        classes: NDArray[np.uint8],
        valid: NDArray[np.bool_],
        grid: Grid,
        names: dict[int, str],
        *,
        label: str,
        scene_id: str | None = None,
    ) -> LayerRef: ...

    def put_image(
        self,
        rgba: NDArray[np.uint8],
        grid: Grid,
        *,
        form: Literal["geotiff", "png"],
        label: str,
        scene_id: str | None = None,
    ) -> LayerRef:
        """A picture (rows, columns, 4) for people to look at: a GeoTIFF on ``grid``, or a PNG, which has no place."""
        ...

    def put_features(
        self, features: list[dict[str, Any]], *, kind: str, crs: str, label: str, scene_id: str | None = None
    ) -> LayerRef: ...

    def read_mask(self, ref: LayerRef) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(mask, valid), both (rows, columns)."""
        ...

    def read_raster(self, ref: LayerRef) -> MaskedRaster: ...

    def read_features(self, ref: LayerRef) -> list[dict[str, Any]]: ...

    def read_vector(self, digest: str) -> tuple[list[dict[str, Any]], str]:
        """(GeoJSON features, CRS) of a vector file that a person gave. KeyError where the store does not hold it."""
        ...

    def size(self, ref: LayerRef) -> int:
        """Bytes of the artifact. KeyError where the store does not hold it."""
        ...


@runtime_checkable
class ToolBox(Protocol):
    """The three tools behind one call; implemented by ``apps.tools.toolbox``. Never raises for what goes wrong inside a tool:
    a failure is an observation with status ``failed``."""

    def call(
        self,
        *,
        tool: str,
        arguments: dict[str, Any],
        question: Question,
        plan: Plan,
        step: int,
        attempt: int,
        run_id: str,
        parents: Sequence[Observation],
        progress: Callable[[int, int, str], None],
        is_cancelled: Callable[[], bool],
    ) -> Observation: ...


@runtime_checkable
class Planner(Protocol):
    """From a question to a plan; the offline parser and LLM planners share it."""

    name: str

    def plan(self, question: Question) -> Plan: ...

    def revise(self, question: Question, state: RunState) -> Plan | None:
        """A changed plan after rejections, or None where nothing else can be tried."""
        ...


@runtime_checkable
class Judge(Protocol):
    """Checks, verifier and policy as one: from an observation to a decision. Never raises: a crash is ``unverified``."""

    def judge(
        self,
        observation: Observation,
        *,
        question: Question | None,
        history: Sequence[Observation],
        rejected: Sequence[Observation],
        supporting: Sequence[Observation] = (),
        requests_made: int = 0,
    ) -> tuple[tuple[CheckResult, ...], Decision]: ...


@runtime_checkable
class PriorSource(Protocol):
    """The prior as the verifier sees it; implemented by ``apps.prior.selectors``."""

    def view(self, *, task_type: str, tool: str, coarse: str, fine: str) -> PriorView: ...


@runtime_checkable
class Recorder(Protocol):
    """The run's log. ``append`` is atomic and ordered; it returns the sequence number."""

    def append(self, event: Event) -> int: ...

    def state(self) -> RunState: ...

    def is_cancelled(self) -> bool: ...
