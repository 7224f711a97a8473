"""What flows along the edges of a graph, and what an operator declares of itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.errors import FaultError, ModelError
from apps.core.evidence.observation import Frozen, LayerRef
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.core.ports import LayerStore, Window
from apps.core.registry import Registry
from apps.tools.contract import Node, ToolContext
from apps.tools.execute.masks import is_whole, looked_at
from apps.tools.sentences import as_sentence

Kind = Literal["scene", "raster", "mask", "classes", "value", "zones", "image"]


@dataclass(frozen=True, slots=True)
class PhysicalRange:
    """What the values may be, closed. A side that is open needs ``why``: what keeps it from having a bound."""

    low: float = -math.inf
    high: float = math.inf
    why: str = ""

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise FaultError(f"a range from {self.low} to {self.high} holds nothing")
        if (math.isinf(self.low) or math.isinf(self.high)) and not self.why:
            raise FaultError("a range with an open side says why it is open")

    def as_json(self) -> dict[str, JsonValue]:
        return {"low": None if math.isinf(self.low) else self.low, "high": None if math.isinf(self.high) else self.high,
                "why": self.why}


@dataclass(frozen=True, slots=True)
class Plane:
    """One plane of a window: float64 (rows, columns) and where it means something. Masked values are never read."""

    data: NDArray[np.float64]
    valid: NDArray[np.bool_]

    @property
    def held(self) -> NDArray[Any]:
        """The same values in the type that they lie in memory as: float64, or a narrower real type that holds them exactly."""
        return self.data

    def strip(self, rows: slice) -> NDArray[np.float64]:
        """Some rows in float64."""
        return self.data[rows]


class NarrowPlane(Plane):
    """A plane in the narrower real type that it was read in. It is widened strip by strip where a formula takes it, so that the
    wide values stay in the processor's cache, or once as a whole where ``data`` is asked for. Masked values are NaN when wide."""

    __slots__ = ("_held", "_wide")
    _held: NDArray[Any]
    _wide: NDArray[np.float64] | None

    def __init__(self, held: NDArray[Any], valid: NDArray[np.bool_]):
        object.__setattr__(self, "_held", held)
        object.__setattr__(self, "_wide", None)
        object.__setattr__(self, "valid", looked_at(valid))

    @property
    def data(self) -> NDArray[np.float64]:  # type: ignore[override]
        if self._wide is None:
            object.__setattr__(self, "_wide", self._widened(slice(None)))
        assert self._wide is not None
        return self._wide

    @property
    def held(self) -> NDArray[Any]:
        return self._held

    def strip(self, rows: slice) -> NDArray[np.float64]:
        return self._widened(rows) if self._wide is None else self._wide[rows]

    def _widened(self, rows: slice) -> NDArray[np.float64]:
        wide = self._held[rows].astype(np.float64)
        if not is_whole(self.valid):
            wide[~self.valid[rows]] = np.nan
        return wide


@dataclass(frozen=True, slots=True)
class SceneType:
    kind: Kind
    scene: SceneInfo


@dataclass(frozen=True, slots=True)
class RasterType:
    """A single-plane raster, mask or class map on a grid. ``quantity`` names what it is of; ``formula`` how it is made."""

    kind: Kind
    grid: Grid
    quantity: str
    unit: str
    range: PhysicalRange
    formula: str
    scenes: tuple[SceneInfo, ...]
    acquired_at: datetime | None = None
    gsd_m: float | None = None
    class_names: Mapping[int, str] = field(default_factory=dict)
    quality: tuple[str, ...] = ()

    @property
    def scene_names(self) -> str:
        return ", ".join(s.name for s in self.scenes)


@dataclass(frozen=True, slots=True)
class ValueType:
    """A number, series, table or catalogue: what a reducer gives."""

    kind: Kind
    result_kind: str
    quantity: str
    unit: str
    range: PhysicalRange


@dataclass(frozen=True, slots=True)
class ZonesType:
    """Named polygons: (name, geometry) in ``crs``; ``is_outside``: what lies in none of them, as one zone."""

    kind: Kind
    zones: tuple[tuple[str, Any], ...]
    crs: str
    is_outside: bool = False


@dataclass(frozen=True, slots=True)
class ImageType:
    """A picture for people: the end of a graph, no input of anything."""

    kind: Kind
    quantity: str
    scenes: tuple[SceneInfo, ...]


AnyType = SceneType | RasterType | ValueType | ZonesType | ImageType


@dataclass(frozen=True, slots=True)
class Bounds:
    """The least and greatest that a figure could be, those by the missing pixels alone, and where they come from, at length and
    in a few words."""

    interval: tuple[float, float]
    missing: tuple[float, float] | None
    text: str
    short: str
    evidence: dict[str, JsonValue]


# Of the number of pixels that have no value, and of whether a condition took some out: the bounds, or None where there are none.
Within = Callable[[int, bool], Bounds | None]


@dataclass(frozen=True, slots=True)
class Value:
    """What a reducer found. ``evidence`` goes into the node's entry; ``warnings`` into the log; ``n_valid`` counts the pixels;
    ``within`` gives the bounds of the value for a number of pixels that have none."""

    value: float | int | bool | str | None
    n_valid: int
    evidence: dict[str, JsonValue] = field(default_factory=dict)
    items: tuple[dict[str, JsonValue], ...] = ()
    interval: tuple[float, float] | None = None
    interval_level: float | None = None
    warnings: tuple[str, ...] = ()
    result_kind: str | None = None
    unit: str | None = None
    within: Within | None = None


class Reads(Protocol):
    """What an evaluating node may ask for: another node's plane, or a band, in any window of that grid."""

    def plane(self, node: str, window: Window) -> Plane: ...

    def band(self, scene_id: str, index: int, window: Window) -> Plane: ...

    def state(self, node: str) -> Any: ...


@dataclass(frozen=True, slots=True)
class Sample:
    """One window of one node, or of several on one grid, as an accumulator sees it.

    ``data`` is the first node's plane, ``planes`` all of them; ``valid`` is True where all are valid and inside the region.
    An accumulator with ``takes_held`` gets planes in the type that they lie in memory as, one with ``sees_beyond`` is told what
    is valid beyond the region too. ``known`` holds figures of the cells of this very plane and mask that were computed already.
    """

    window: Window
    grid: Grid
    data: NDArray[np.float64]
    valid: NDArray[np.bool_]
    planes: tuple[NDArray[np.float64], ...] = ()
    known: dict[tuple[int, int], Any] = field(default_factory=dict)

    def areas_m2(self) -> NDArray[np.float64] | None:
        """Geodesic area of each pixel of the window; None without CRS."""
        if self.grid.crs is None:
            return None
        c, r, w, h = self.window
        return self.grid.pixel_areas_m2(r, h, c, w)


class Accumulator(Protocol):
    """Gathers a figure over windows in passes. ``gather`` runs in threads and touches nothing; ``merge`` runs in one thread, in
    window order; ``wants_pass`` is asked before each pass."""

    def wants_pass(self) -> bool: ...

    def gather(self, sample: Sample) -> Any: ...

    def merge(self, part: Any) -> None: ...


# The nodes whose planes an accumulator reads together (one grid), and the accumulator.
Target = tuple[tuple[str, ...], Accumulator]


def node_place(node: Node) -> str:
    """Where a node stands in the graph, for the log and for planners."""
    return f"Node {node.id} ({node.op})"


@dataclass(frozen=True, slots=True)
class Call:
    """A node as its operator's ``plan`` sees it: checked parameters and typed inputs."""

    node: Node
    params: Any
    inputs: tuple[Any, ...]
    names: tuple[str, ...]
    scenes: Mapping[str, SceneInfo]
    region: Mapping[str, Any] | None
    region_crs: str
    layers: LayerStore | None = None
    catalog: Sequence[Mapping[str, Any]] = ()
    catalog_search: Callable[[Mapping[str, Any]], tuple[Sequence[Mapping[str, Any]], bool]] | None = None
    project_scenes: Callable[[], Sequence[SceneInfo]] | None = None
    # of the catalogue's folder: files that could not be read, and whether its items are all
    catalog_n_unreadable: int = 0
    catalog_is_whole: bool = True

    def refuse(self, sentence: str, *, code: str = "BAD_ARGUMENT", needs: dict[str, Any] | None = None) -> ModelError:
        """The refusal of this node: a sentence, and its place in the graph apart."""
        return ModelError(as_sentence(sentence), code=code, needs=needs, place=node_place(self.node))


@dataclass(frozen=True, slots=True)
class Planned:
    """A node that was checked: its type and how it will be computed. Exactly one of the computing fields is set
    (none for scenes, zones and constants held in ``constant``).

    ``evaluate(reads, window)`` gives a raster's plane of a window. ``reduce`` makes the accumulators of a reducer, and
    ``finish(accumulators, failed)`` the value of them; ``failed`` maps nodes that could not be computed to the reason, and an
    accumulator over such a node stands as None. ``prepare`` makes accumulators over inputs that must be gathered before the
    raster can be evaluated; ``settle`` turns them into the node's state. ``combine`` makes a value of values. ``draw`` makes a
    picture's value and layers of the context, the state and the inputs' values.
    """

    type: AnyType
    bands: tuple[tuple[str, str, int], ...] = ()
    evaluate: Callable[[Reads, Window], Plane] | None = None
    prepare: Callable[[], Sequence[Target]] | None = None
    settle: Callable[[Sequence[Any]], tuple[Any, dict[str, JsonValue]]] | None = None
    reduce: Callable[[], Sequence[Target]] | None = None
    finish: Callable[[Sequence[Any], Mapping[str, str]], Value] | None = None
    combine: Callable[[Sequence[Value]], Value] | None = None
    draw: Callable[[ToolContext, Any, Sequence[Value]], tuple[Value, list[LayerRef]]] | None = None
    constant: Value | None = None
    notes: tuple[tuple[str, str], ...] = ()
    resamples: bool = False


@dataclass(frozen=True, slots=True)
class Take:
    """What an operator takes: kinds, and how many inputs of them."""

    kinds: tuple[Kind, ...]
    least: int = 1
    most: int = 1


class NoParams(Frozen):
    """No parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """A typed operator. ``range`` is the physical range of its output, or the sentence that says from what it follows
    (declared by the product, the unit or the input); an operator without it is refused. ``nodata`` says what is masked."""

    name: str
    summary: str
    takes: Take
    params: type[Frozen]
    gives: Kind
    range: PhysicalRange | str | None
    nodata: str
    plan: Callable[[Call], Planned]
    units: str = ""
    roles: tuple[str, ...] = ()
    reference: str = ""


OPERATORS: Registry[Operator] = Registry("operator")


def register(operator: Operator) -> Operator:
    """Adds an operator. FaultError where it declares no range or no nodata policy: a missing range lets everything pass."""
    if operator.range is None or operator.range == "":
        raise FaultError(f"operator {operator.name} declares no physical range of its output")
    if not operator.nodata:
        raise FaultError(f"operator {operator.name} declares no nodata policy")
    return OPERATORS.add(operator.name, operator)


# Physical ranges of plain bands by unit; a role's own range goes first.
ROLE_RANGES: dict[str, PhysicalRange] = {
    "ndvi": PhysicalRange(-1, 1), "evi": PhysicalRange(-1, 1), "index": PhysicalRange(-1, 1),
}
UNIT_RANGES: dict[str, PhysicalRange] = {
    "reflectance": PhysicalRange(-0.2, 1.6),  # below 0 by atmospheric correction, above 1 on snow, clouds and glint
    "K": PhysicalRange(150, 400), "degC": PhysicalRange(-123, 127), "dB": PhysicalRange(-60, 40),
    "m": PhysicalRange(-11000, 9000), "1": PhysicalRange(why="a plain number"),
}


def band_range(band: Band, dtype: str) -> PhysicalRange:
    """The range of a band's physical values: by role, unit, declared valid range, or what its type can hold."""
    if band.role in ROLE_RANGES and band.unit == "1":
        return ROLE_RANGES[band.role]
    if band.unit in UNIT_RANGES:
        return UNIT_RANGES[band.unit]
    if band.valid_range is not None:
        ends = sorted(v * band.scale + band.offset for v in band.valid_range)
        return PhysicalRange(ends[0], ends[1])
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        ends = sorted(v * band.scale + band.offset for v in (float(info.min), float(info.max)))
        return PhysicalRange(ends[0], ends[1])
    return PhysicalRange(why=f"{band.unit} in {dtype} declares no valid range")
