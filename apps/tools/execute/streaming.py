"""The streaming engine: fused passes over windows, several outputs a pass, threads for reading, bounded memory.

Raster nodes are lazy. Those that live on one grid and feed each other form a component; each pass walks the component's grid
once, reads every scene's bands once a window, evaluates each node once, and hands the planes to all accumulators that want them.
Windows that the region does not touch are not read. Reading and evaluating run in threads, merging in one thread in window
order, with a bounded number of windows in flight.
"""

from __future__ import annotations

import math
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.errors import ModelError
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.contract import Node, ToolCancelledError
from apps.tools.execute.accumulators import CELL, Moments
from apps.tools.execute.types import Accumulator, NarrowPlane, Plane, Planned, RasterType, Sample, Target
from apps.tools.region import RegionMask
from apps.tools.sentences import without_paths

# Bytes of planes that all windows in flight may hold together.
MEMORY_BYTES = 96 << 20
# A block of our COGs at most: what is read is inflated once, and the planes of a window stay near the processor.
MAX_WINDOW_PX = 512
_KEPT_BLOCK = 12 << 20


@dataclass(slots=True)
class Program:
    """A checked graph: nodes in topological order with what was planned for each."""

    order: list[str]
    nodes: dict[str, Node]
    planned: dict[str, Planned]
    output: str

    def raster_inputs(self, node: str) -> list[str]:
        return [i for i in self.nodes[node].inputs if self.planned[i].evaluate is not None]

    def upstream(self, node: str) -> set[str]:
        """The node and all it rests on."""
        seen, todo = set(), [node]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += self.nodes[at].inputs
        return seen

    def type_of(self, node: str) -> RasterType:
        kind = self.planned[node].type
        assert isinstance(kind, RasterType)
        return kind


@dataclass(slots=True)
class NodeFigures:
    """What passed through a raster node inside the region."""

    moments: Moments = field(default_factory=Moments)
    n_source_masked: int = 0
    n_undefined: int = 0
    n_out_of_range: int = 0
    n_region: int = 0
    done: bool = False


def _keep_freed_memory() -> None:
    """Lets the allocator reuse a window's planes for the next window. glibc hands blocks above 128 kB back to the system at once,
    and learns from the largest block that was freed which sizes to keep; page faults took a third of a pass before."""
    block = np.empty(_KEPT_BLOCK, dtype=np.uint8)
    del block


def _are_plain_integers(info: SceneInfo, bands: Sequence[int]) -> bool:
    """True where the bands' stored values are their physical ones, whole numbers of up to 32 bits."""
    chosen = [b for b in info.bands if b.index in bands]
    kind = np.dtype(info.dtype)
    return kind.kind in "iu" and kind.itemsize <= 4 and all((b.scale, b.offset) == (1.0, 0.0) for b in chosen)


class _WindowReads:
    """Planes of one window, each computed once; what ``evaluate`` of a node may ask."""

    def __init__(self, engine: Engine, bands: Mapping[str, tuple[int, ...]]):
        self._engine, self._bands = engine, bands
        self.planes: dict[tuple[str, Window], Plane] = {}
        self._scenes: dict[tuple[str, Window], dict[int, Plane]] = {}
        self._inside: dict[tuple[str, Window], NDArray[np.bool_]] = {}
        self._known: dict[tuple[str, Window], dict[tuple[int, int], Any]] = {}

    def plane(self, node: str, window: Window) -> Plane:
        key = (node, window)
        found = self.planes.get(key)
        if found is None:
            evaluate = self._engine.program.planned[node].evaluate
            assert evaluate is not None
            found = self.planes[key] = evaluate(self, window)
        return found

    def inside(self, node: str, window: Window, inside: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Where the node's plane is valid and the region holds; not to be written to."""
        key = (node, window)
        if key not in self._inside:
            self._inside[key] = self.plane(node, window).valid & inside
        return self._inside[key]

    def known(self, node: str, window: Window) -> dict[tuple[int, int], Any]:
        """Figures of the cells of the node's plane inside the region, as far as somebody computed them."""
        return self._known.setdefault((node, window), {})

    def band(self, scene_id: str, index: int, window: Window) -> Plane:
        key = (scene_id, window)
        if key not in self._scenes:
            wanted = self._bands.get(scene_id, (index,))
            reader = self._engine.reader(scene_id)
            # complex samples come as they are stored; what is handed on is their amplitude. So do whole numbers without scale
            read = reader.read(wanted, window, physical=not (reader.info.dtype.startswith("complex")
                                                             or _are_plain_integers(reader.info, wanted)))
            data = np.abs(read.data) if np.iscomplexobj(read.data) else read.data
            self._scenes[key] = {b: Plane(data[i], read.valid[i]) if data.dtype == np.float64 else
                                 NarrowPlane(data[i], read.valid[i]) for i, b in enumerate(wanted)}
        return self._scenes[key][index]

    def state(self, node: str) -> Any:
        return self._engine.states[node]


class Engine:
    """Runs the passes of one graph. ``figures`` holds what passed through each raster node, ``failed`` what could not be read.

    ``window_px`` is a multiple of CELL; results do not depend on it.
    """

    def __init__(self, program: Program, *, reader: Callable[[str], RasterReader], region: Callable[[Grid], RegionMask],
                 progress: Callable[[int, int, str], None], is_cancelled: Callable[[], bool], window_px: int | None = None,
                 threads: int | None = None):
        self.program, self.reader = program, reader
        self._region_of, self._progress, self._is_cancelled = region, progress, is_cancelled
        self._regions: dict[Grid, RegionMask] = {}
        self._window_px = window_px
        self._threads = threads or min(4, os.cpu_count() or 1)
        self.states: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self.n_passes = 0
        self.px_read = 0
        rasters = [n for n in program.order if program.planned[n].evaluate is not None]
        self.figures: dict[str, NodeFigures] = {n: NodeFigures() for n in rasters}
        self._component = self._components(rasters)

    def _components(self, rasters: Sequence[str]) -> dict[str, str]:
        root = {n: n for n in rasters}

        def find(n: str) -> str:
            while root[n] != n:
                root[n] = root[root[n]]
                n = root[n]
            return n

        for n in rasters:
            if self.program.planned[n].resamples:
                continue
            for i in self.program.raster_inputs(n):
                root[find(i)] = find(n)
        return {n: find(n) for n in rasters}

    def region(self, grid: Grid) -> RegionMask:
        if grid not in self._regions:
            self._regions[grid] = self._region_of(grid)
        return self._regions[grid]

    def windows(self, grid: Grid, n_planes: int) -> Iterator[Window]:
        """Windows of whole cells over the part of the grid that the region touches."""
        size = self._window_px or MAX_WINDOW_PX
        # a window at work holds float64 and bool of every plane, and the bands that were read
        budget = MEMORY_BYTES / (self._threads * 12 * max(1, n_planes))
        while self._window_px is None and size > CELL and size * size > budget:
            size //= 2
        size = max(CELL, size // CELL * CELL)
        region = self.region(grid)
        for r in range(0, grid.height, size):
            for c in range(0, grid.width, size):
                window = (c, r, min(size, grid.width - c), min(size, grid.height - r))
                if region.touches(window):
                    yield window

    def run(self, targets: Sequence[Target], message: str) -> list[Accumulator | None]:
        """Feeds every accumulator until none wants another pass; None stands for those over nodes that failed."""
        groups: dict[str, list[int]] = {}
        for i, (names, _) in enumerate(targets):
            roots = {self._component[n] for n in names}
            grids = {self.program.type_of(n).grid for n in names}
            if len(grids) > 1:
                raise ModelError("Planes of different grids cannot be read together.", code="BAD_ARGUMENT")
            # nodes of several components on one grid share a pass
            first = min(roots)
            for root in roots - {first}:
                groups.setdefault(first, []).extend(groups.pop(root, []))
                for n, at in self._component.items():
                    if at == root:
                        self._component[n] = first
            groups.setdefault(first, []).append(i)
        merged: dict[str, list[int]] = {}
        for members in groups.values():
            merged.setdefault(self._component[targets[members[0]][0][0]], []).extend(members)
        alive: list[Accumulator | None] = [a for _, a in targets]
        with ThreadPoolExecutor(self._threads, thread_name_prefix="raster") as self._pool:
            self._run(targets, list(merged.values()), alive, message)
        return alive

    def _run(self, targets: Sequence[Target], merged: Sequence[list[int]], alive: list[Accumulator | None], message: str) -> None:
        """The passes of every group of targets; those that fail become None in ``alive``."""
        for number, members in enumerate(merged, 1):
            while True:
                wanting = [i for i in members if targets[i][1].wants_pass()]
                watched = dict.fromkeys(n for i in members for n in targets[i][0])
                stats = [n for n in watched if not self.figures[n].done]
                if not wanting and not stats:
                    break
                label = f"{message} ({number} of {len(merged)})" if len(merged) > 1 else message
                try:
                    self._pass([targets[i] for i in wanting], stats, label)
                except (ToolCancelledError, MemoryError):
                    raise
                except Exception as error:
                    reason = without_paths(str(error) if isinstance(error, ModelError)
                                           else f"{type(error).__name__}: {error}")
                    for i in members:
                        alive[i] = None
                        for n in targets[i][0]:
                            self.failed.setdefault(n, reason)
                    break

    def _pass(self, targets: Sequence[Target], stats: Sequence[str], message: str) -> None:
        names = list(dict.fromkeys([n for t, _ in targets for n in t] + list(stats)))
        grid = self.program.type_of(names[0]).grid
        # the figures of all nodes of the component that the named ones rest on, gathered in the same pass
        above: list[str] = []
        for n in names:
            for u in self.program.upstream(n):
                if u in self._component and u not in above and self.program.type_of(u).grid == grid:
                    above.append(u)
        watched = [n for n in self.program.order if n in above and not self.figures[n].done and (n in stats or targets)
                   and self._same_pass(n, names)]
        # bands of scenes on other grids too: a resampling reads them in the same pass
        bands: dict[str, set[int]] = {}
        for u in dict.fromkeys(u for n in names for u in self.program.upstream(n) if u in self._component):
            for scene_id, _, index in self.program.planned[u].bands:
                bands.setdefault(scene_id, set()).add(index)
        ordered = {s: tuple(sorted(b)) for s, b in bands.items()}
        windows = list(self.windows(grid, len(above) + sum(len(b) for b in ordered.values())))
        region = self.region(grid)
        self.n_passes += 1

        def work(window: Window) -> tuple[list[Any], list[tuple[str, Any, int, int, int, int]], int]:
            reads = _WindowReads(self, ordered)
            inside = region.mask(window)
            parts: list[Any] = []
            for t, accumulator in targets:
                planes = [reads.plane(n, window) for n in t]
                valid = reads.inside(t[0], window, inside)
                for p in planes[1:]:
                    valid = valid & p.valid
                held = tuple(p.held if getattr(accumulator, "takes_held", False) else p.data for p in planes)
                known = reads.known(t[0], window) if len(t) == 1 else {}
                parts.append(accumulator.gather(Sample(window, grid, held[0], valid, held, known)))
            # after the targets: what those computed of a node's cells are its figures
            figures = [self._figures_part(n, reads, window, inside, grid) for n in watched]
            return parts, figures, window[2] * window[3]

        self._walk(windows, work, targets, message)
        for n in watched:
            self.figures[n].done = True
        for n in stats:
            self.figures[n].done = True

    def _same_pass(self, node: str, names: Sequence[str]) -> bool:
        """True where the node's planes are evaluated on the pass's own windows (not only through a resampling)."""
        todo, seen = list(names), set()
        while todo:
            at = todo.pop()
            if at == node:
                return True
            if at in seen or self.program.planned[at].resamples:
                continue
            seen.add(at)
            todo += self.program.raster_inputs(at)
        return False

    def _figures_part(self, node: str, reads: _WindowReads, window: Window, inside: NDArray[np.bool_],
                      grid: Grid) -> tuple[str, Any, int, int, int, int]:
        planned = self.program.planned[node]
        plane = reads.plane(node, window)
        valid = reads.inside(node, window, inside)
        joint = inside
        for i in self.program.raster_inputs(node):
            if not planned.resamples and self.program.type_of(i).grid == grid:
                joint = joint & reads.plane(i, window).valid
        for scene_id, _, index in planned.bands:
            joint = joint & reads.band(scene_id, index, window).valid
        n_inside, n_joint, n_valid = (int(np.count_nonzero(x)) for x in (inside, joint, valid))
        span = self.program.type_of(node).range
        n_out = 0
        part = Moments().gather(Sample(window, grid, plane.held, valid, known=reads.known(node, window)))
        slack = 1e-9 * max([1.0, *(abs(v) for v in (span.low, span.high) if math.isfinite(v))])
        if any(p[6] < span.low - slack or p[7] > span.high + slack for p in part):
            values = plane.held[valid]
            n_out = int(np.count_nonzero((values < span.low - slack) | (values > span.high + slack)))
        masked = n_inside - n_joint if planned.bands else 0
        return node, part, masked, max(0, n_joint - n_valid), n_out, n_inside

    def _walk(self, windows: Sequence[Window], work: Callable[[Window], Any], targets: Sequence[Target], message: str) -> None:
        waiting: deque[Future[Any]] = deque()
        done = 0
        _keep_freed_memory()
        try:
            for window in windows:
                if self._is_cancelled():
                    raise ToolCancelledError
                waiting.append(self._pool.submit(work, window))
                if len(waiting) >= 2 * self._threads:
                    done += self._take(waiting.popleft().result(), targets)
                    self._progress(done, len(windows), message)
            while waiting:
                if self._is_cancelled():
                    raise ToolCancelledError
                done += self._take(waiting.popleft().result(), targets)
                self._progress(done, len(windows), message)
        finally:
            for future in waiting:
                future.cancel()
            # none may still read when the next pass begins, or the readers are closed
            wait(waiting)

    def _take(self, result: tuple[list[Any], list[tuple[str, Any, int, int, int, int]], int],
              targets: Sequence[Target]) -> int:
        parts, figures, n_px = result
        for (_, accumulator), part in zip(targets, parts, strict=True):
            accumulator.merge(part)
        for node, part, masked, undefined, n_out, n_inside in figures:
            f = self.figures[node]
            f.moments.merge(part)
            f.n_source_masked += masked
            f.n_undefined += undefined
            f.n_out_of_range += n_out
            f.n_region += n_inside
        self.px_read += n_px
        return 1


class LayerPixels:
    """Collects a node's pixels as a layer; every ``step``-th pixel where the grid is too large for one array."""

    takes_held = True

    def __init__(self, grid: Grid, *, limit_px: int, is_mask: bool):
        step = 1
        while (grid.width // step) * (grid.height // step) > limit_px and step < CELL:
            step *= 2
        self.step, self.is_mask = step, is_mask
        width, height = -(-grid.width // step), -(-grid.height // step)
        a, b, _, d, e, _ = grid.transform
        # a kept pixel's centre stays where it was
        x, y = grid.xy(0.5 - step / 2, 0.5 - step / 2)
        self.grid = grid if step == 1 else Grid(crs=grid.crs, transform=(a * step, b * step, x, d * step, e * step, y),
                                                width=width, height=height)
        self.data: NDArray[Any] = np.zeros((height, width), dtype=bool if is_mask else np.float32)
        self.valid: NDArray[np.bool_] = np.zeros((height, width), dtype=bool)
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> tuple[Window, NDArray[Any], NDArray[np.bool_]]:
        data, valid = sample.data[::self.step, ::self.step], sample.valid[::self.step, ::self.step]
        return sample.window, (data != 0) & valid if self.is_mask else data.astype(np.float32), valid.copy()

    def merge(self, part: tuple[Window, NDArray[Any], NDArray[np.bool_]]) -> None:
        (c, r, _, _), data, valid = part
        at = (slice(r // self.step, r // self.step + data.shape[0]), slice(c // self.step, c // self.step + data.shape[1]))
        self.data[at], self.valid[at] = data, valid
