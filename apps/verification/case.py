"""What a check may look at: one observation, its question, the verified history, and read-only doors to layers and pixels."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.evidence.decision import Outcome, Severity
from apps.core.evidence.observation import InputRef, LayerRef, Observation
from apps.core.evidence.plan import Question
from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo
from apps.core.ports import LayerStore, RasterReader
from apps.verification.limits import Limits

NUMERIC_KINDS = frozenset({"count", "area", "distance", "length", "ratio", "statistic", "trend"})


class LayerUnreadableError(Exception):
    """The store does not hold the layer, or it is not what its reference says."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check says. ``severity`` may only soften the check's own (block → warn)."""

    outcome: Outcome
    message: str
    measured: JsonValue = None
    expected: JsonValue = None
    unit: str = ""
    pointers: tuple[str, ...] = ()
    severity: Severity | None = None
    scores: dict[str, float] = field(default_factory=dict)


def passed(
    message: str,
    *,
    measured: Any = None,
    expected: Any = None,
    unit: str = "",
    at: Sequence[str] = (),
    scores: dict[str, float] | None = None,
) -> Finding:
    return Finding("passed", message, _json(measured), _json(expected), unit, tuple(at), None, scores or {})


def failed(
    message: str,
    *,
    measured: Any = None,
    expected: Any = None,
    unit: str = "",
    at: Sequence[str] = (),
    severity: Severity | None = None,
    scores: dict[str, float] | None = None,
) -> Finding:
    return Finding("failed", message, _json(measured), _json(expected), unit, tuple(at), severity, scores or {})


def inconclusive(message: str, *, at: Sequence[str] = (), expected: Any = None, severity: Severity | None = None) -> Finding:
    return Finding("inconclusive", message, None, _json(expected), "", tuple(at), severity)


def not_applicable(message: str = "does not concern this observation") -> Finding:
    return Finding("not_applicable", message)


def _json(value: Any) -> JsonValue:
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return float(f"{number:.9g}") if math.isfinite(number) else str(number)
    if isinstance(value, np.integer):
        return int(value)
    if isinstance(value, dict):
        return {str(k): _json(v) for k, v in list(value.items())[:50]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_json(v) for v in list(value)[:50]]
    return str(value)[:200]


def number_of(value: Any) -> float | None:
    """The value as a finite float; None for booleans, texts and everything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


class DecodedLayers:
    """Layers that were read, kept by store and reference for the next observation of the run (a measure reads its parents'
    masks again). Artifacts are named by their content, so that what is kept cannot be stale; stores that forget are not."""

    def __init__(self, limit_bytes: int = 48 << 20):
        self.limit, self._lock = limit_bytes, Lock()
        self._held: WeakKeyDictionary[Any, OrderedDict[Any, tuple[Any, int]]] = WeakKeyDictionary()

    def get(self, store: Any, key: Any) -> Any:
        with self._lock:
            try:
                mine = self._held[store]
                mine.move_to_end(key)
                return mine[key][0]
            except (KeyError, TypeError):
                return None

    def put(self, store: Any, key: Any, value: Any) -> None:
        if isinstance(value, list):  # features: about a kilobyte each
            size = 1000 * len(value)
        else:
            arrays = list(value) if isinstance(value, tuple) else [value.data, value.valid]
            size = sum(a.nbytes for a in arrays)
            for a in arrays:
                a.flags.writeable = False
        if size > self.limit // 2:
            return
        with self._lock:
            try:
                mine = self._held.setdefault(store, OrderedDict())
            except TypeError:  # a store that cannot be referred to weakly keeps nothing
                return
            mine[key] = (value, size)
            total = sum(n for _, n in mine.values())
            while total > self.limit:
                _, (_, n) = mine.popitem(last=False)
                total -= n


_DECODED = DecodedLayers()


@dataclass(slots=True, weakref_slot=True)
class _Cache:
    masks: dict[str, Any] = field(default_factory=dict)
    rasters: dict[str, Any] = field(default_factory=dict)
    features: dict[str, Any] = field(default_factory=dict)
    readers: dict[str, RasterReader] = field(default_factory=dict)
    other: dict[str, Any] = field(default_factory=dict)


@dataclass
class Case:
    """One observation under examination. ``layers`` and ``reader`` may be missing: what needs them is then inconclusive or not
    applicable. ``reader`` opens a scene of the question by id. Close after use."""

    observation: Observation
    question: Question | None = None
    history: Sequence[Observation] = ()
    rejected: Sequence[Observation] = ()
    supporting: Sequence[Observation] = ()
    layers: LayerStore | None = None
    reader: Callable[[str], RasterReader] | None = None
    limits: Limits = field(default_factory=Limits)
    _cache: _Cache = field(default_factory=_Cache)

    def close(self) -> None:
        for reader in self._cache.readers.values():
            reader.close()
        self._cache.readers.clear()

    # --- words ----------------------------------------------------------------------------------------------------------
    @cached_property
    def text(self) -> str:
        """The question in lower case."""
        return (self.question.text if self.question else self.observation.task.question).lower()

    # --- arguments ------------------------------------------------------------------------------------------------------
    @cached_property
    def arguments(self) -> dict[str, Any]:
        """As the plan asked; as passed where the record holds nothing else."""
        return dict(self.observation.arguments or self.observation.arguments_passed)

    @cached_property
    def nodes(self) -> dict[str, dict[str, Any]]:
        """Nodes of an execute graph by id, as asked: {id: {op, inputs, params}}; empty for other tools or malformed graphs."""
        raw = self.arguments.get("nodes")
        if self.observation.tool != "execute" or not isinstance(raw, list):
            return {}
        out = {}
        for node in raw:
            if isinstance(node, dict) and isinstance(node.get("id"), str) and isinstance(node.get("op"), str):
                params, inputs = node.get("params"), node.get("inputs")
                out[node["id"]] = {
                    "op": node["op"],
                    "params": params if isinstance(params, dict) else {},
                    "inputs": [i for i in inputs if isinstance(i, str)] if isinstance(inputs, list) else [],
                }
        return out

    @cached_property
    def output(self) -> str:
        """Id of the graph's output node; '' where there is none."""
        named = self.arguments.get("output")
        return named if isinstance(named, str) and named in self.nodes else ""

    def upstream(self, node_id: str) -> list[str]:
        """Ids of the node and all it is made from, nearest first; circles end."""
        seen: list[str] = []
        todo = [node_id]
        while todo:
            at = todo.pop(0)
            if at in seen or at not in self.nodes:
                continue
            seen.append(at)
            todo.extend(self.nodes[at]["inputs"])
        return seen

    @cached_property
    def scene_ids(self) -> list[str]:
        """Scenes that the arguments name, in order, each once."""
        found: list[str] = []
        args = self.arguments
        if self.observation.tool == "execute":
            for node in self.nodes.values():
                if node["op"].startswith("asset."):
                    scene = node["params"].get("scene")
                    found.extend(
                        [scene] if isinstance(scene, str) else [s for s in node["params"].get("scenes", ()) if isinstance(s, str)]
                    )
        elif self.observation.tool == "perceive":
            paths = args.get("image_paths")
            found.extend(p for p in paths if isinstance(p, str)) if isinstance(paths, list) else None
        else:
            sources = args.get("sources")
            for source in sources if isinstance(sources, list) else ():
                if isinstance(source, dict) and isinstance(source.get("image"), str):
                    found.append(source["image"])
        return list(dict.fromkeys(found))

    # --- scenes ---------------------------------------------------------------------------------------------------------
    @cached_property
    def scenes(self) -> dict[str, SceneInfo]:
        """The question's scenes by id."""
        return {s.scene_id: s for s in self.question.scenes} if self.question else {}

    @cached_property
    def used_scenes(self) -> list[SceneInfo]:
        """Scenes of the question that arguments or inputs name."""
        ids = self.scene_ids or [i.scene_id for i in self.observation.inputs if i.scene_id]
        return [self.scenes[i] for i in dict.fromkeys(ids) if i in self.scenes]

    def scene_of(self, ref: InputRef) -> SceneInfo | None:
        """The question's scene of an input: by its id, else by its digest."""
        if ref.scene_id and ref.scene_id in self.scenes:
            return self.scenes[ref.scene_id]
        return next((s for s in self.scenes.values() if s.artifact == ref.artifact), None)

    def open(self, scene_id: str) -> RasterReader | None:
        """A reader of the scene; None where no reader was handed in or it does not know the scene."""
        if self.reader is None:
            return None
        if scene_id not in self._cache.readers:
            try:
                self._cache.readers[scene_id] = self.reader(scene_id)
            except KeyError:
                return None
        return self._cache.readers[scene_id]

    @cached_property
    def region(self) -> tuple[dict[str, Any], str] | None:
        """The question's region as (GeoJSON geometry, CRS), else the one in the arguments."""
        if self.question is not None and self.question.region:
            return dict(self.question.region), self.question.region_crs
        for held in (self.observation.arguments, self.observation.arguments_passed):
            raw, crs = held.get("region"), held.get("region_crs", "EPSG:4326")
            if isinstance(raw, dict):
                return raw, crs if isinstance(crs, str) else "EPSG:4326"
        return None

    @cached_property
    def is_limited(self) -> bool:
        """True where the call itself was limited to a region, by its arguments or by the question's."""
        return any(isinstance(a.get("region"), dict) for a in (self.observation.arguments, self.observation.arguments_passed))

    @cached_property
    def regions_method(self) -> dict[str, Any]:
        """How a regions call finds its pixels: as asked, with what the tool filled in where nothing was asked; {} without."""
        asked, used = self.observation.arguments.get("regions_method"), self.observation.arguments_passed.get("regions_method")
        merged = dict(used) if isinstance(used, dict) else {}
        merged.update({k: v for k, v in (asked.items() if isinstance(asked, dict) else ()) if v not in (None, "")})
        return merged

    # --- evidence -------------------------------------------------------------------------------------------------------
    def evidence(self, part: str, *keys: str) -> Any:
        """The entry of an evidence part at a path of keys; None where it is missing."""
        value: Any = getattr(self.observation.evidence, part)
        for key in keys:
            if not isinstance(value, dict) or key not in value:
                return None
            value = value[key]
        return value

    def evidence_number(self, part: str, *keys: str) -> float | None:
        return number_of(self.evidence(part, *keys))

    @cached_property
    def value(self) -> float | None:
        """The result's value as a number; None where it is none."""
        return number_of(self.observation.result.value)

    @cached_property
    def kind(self) -> str:
        return self.observation.result.kind

    @cached_property
    def parents(self) -> list[Observation]:
        """Parents found in the verified history, in the observation's order."""
        by_id = {o.id: o for o in self.history}
        return [by_id[p] for p in self.observation.parents if p in by_id]

    def items(self) -> Iterator[dict[str, Any]]:
        yield from (dict(i) for i in self.observation.result.items)

    # --- layers ---------------------------------------------------------------------------------------------------------
    def layer(self, kind: str, label: str | None = None) -> LayerRef | None:
        return next((r for r in self.observation.result.layers if r.kind == kind and (label is None or r.label == label)), None)

    def _read(self, kept: dict[str, Any], ref: LayerRef, how: str) -> Any:
        if self.layers is None:
            raise LayerUnreadableError("no layer store is at hand")
        if ref.artifact not in kept:
            try:
                found = _DECODED.get(self.layers, (how, ref))
                if found is None:
                    found = getattr(self.layers, how)(ref)
                    _DECODED.put(self.layers, (how, ref), found)
                kept[ref.artifact] = found
            except Exception as error:  # whatever a broken artifact raises, the layer cannot be read
                kept[ref.artifact] = LayerUnreadableError(f"{type(error).__name__}: {error}"[:200])
        if isinstance(kept[ref.artifact], LayerUnreadableError):
            raise kept[ref.artifact]
        return kept[ref.artifact]

    def is_small(self, ref: LayerRef) -> bool:
        """True where the layer may be read whole (Limits.max_layer_px)."""
        return ref.grid is None or ref.grid.width * ref.grid.height <= self.limits.max_layer_px

    def mask(self, ref: LayerRef) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(mask, valid) of (rows, columns). Raises LayerUnreadableError."""
        found: tuple[NDArray[np.bool_], NDArray[np.bool_]] = self._read(self._cache.masks, ref, "read_mask")
        return found

    def mask_strips(self, ref: LayerRef) -> Iterator[tuple[int, NDArray[np.bool_], NDArray[np.bool_]]]:
        """(first row, mask, valid) of a mask strip by strip: the whole of a small one at once, a larger one as the store can read
        it in parts. Raises LayerUnreadableError, also where the store reads masks whole alone."""
        if self.is_small(ref):
            mask, valid = self.mask(ref)
            yield 0, mask, valid
            return
        read = getattr(self.layers, "mask_strips", None)
        if read is None:
            raise LayerUnreadableError("it is larger than masks are read whole")
        try:
            yield from read(ref)
        except Exception as error:  # whatever a broken artifact raises, the layer cannot be read
            raise LayerUnreadableError(f"{type(error).__name__}: {error}"[:200]) from error

    def raster(self, ref: LayerRef) -> MaskedRaster:
        """Raises LayerUnreadableError."""
        found: MaskedRaster = self._read(self._cache.rasters, ref, "read_raster")
        return found

    def valid_values(self, ref: LayerRef) -> NDArray[Any]:
        """A raster's valid pixels as one row, read-only, taken out once for this case. Raises LayerUnreadableError."""
        raster = self.raster(ref)

        def make() -> NDArray[Any]:
            out: NDArray[Any] = raster.data[raster.valid]
            out.flags.writeable = False
            return out

        found: NDArray[Any] = self.kept(f"values:{ref.artifact}", make)
        return found

    def features(self, ref: LayerRef) -> list[dict[str, Any]]:
        """GeoJSON features, not to be changed. Raises LayerUnreadableError."""
        found: list[dict[str, Any]] = self._read(self._cache.features, ref, "read_features")
        return found

    def kept(self, name: str, make: Callable[[], Any]) -> Any:
        """A value made once for this case."""
        if name not in self._cache.other:
            self._cache.other[name] = make()
        return self._cache.other[name]

    def is_same(self, one: float, other: float, rel: float | None = None) -> bool:
        """True where two numbers agree within the limits."""
        rel = self.limits.rel_tolerance if rel is None else rel
        return abs(one - other) <= max(self.limits.abs_tolerance, rel * max(abs(one), abs(other)))


def day_of(moment: datetime | None) -> str:
    """ISO day of a moment; '' for None."""
    return moment.date().isoformat() if moment else ""


def told_of(case: Case, op: str) -> list[tuple[int, dict[str, Any], dict[str, Any]]]:
    """(place in the evidence, what the evidence says of the node, its parameters) for each node of an operator."""
    held = case.evidence("intermediate", "nodes")
    out = []
    for k, told in enumerate(held if isinstance(held, list) else ()):
        node = case.nodes.get(str(told.get("id"))) if isinstance(told, dict) else None
        if node is not None and node["op"] == op:
            out.append((k, dict(told), node["params"]))
    return out
