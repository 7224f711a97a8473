"""The streaming engine: fused passes over windows, several outputs a pass, threads for reading, bounded memory.

Raster nodes are lazy. Those that live on one grid and feed each other form a component; each pass walks the component's grid
once, reads every scene's bands once a window, evaluates each node once, and hands the planes to all accumulators that want them.
Windows that the region does not touch are not read. Reading and evaluating run in threads, merging in one thread in window
order, with a bounded number of windows in flight. With a checkpoint, work that was cut off goes on from the last windows merged.
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

from apps.core.errors import ModelError, UserError
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.contract import Node, ToolCancelledError
from apps.tools.execute.accumulators import CELL, Moments
from apps.tools.execute.checkpoint import Checkpoint
from apps.tools.execute.masks import both, looked_at, n_true, whole
from apps.tools.execute.types import Accumulator, NarrowPlane, Plane, Planned, RasterType, Sample, Target
from apps.tools.region import RegionMask
from apps.tools.sentences import without_paths

# Bytes of planes that all windows in flight may hold together.
MEMORY_BYTES = 96 << 20
# A block of our COGs at most: what is read is inflated once, and the planes of a window stay near the processor.
MAX_WINDOW_PX = 512
_KEPT_BLOCK = 12 << 20
# With more scenes than this a scene's files are closed when its pass is over.
_OPEN_SCENES = 16


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


@dataclass(slots=True)
class _Group:
    """Targets that share their passes, and how far they are: ``n_merged`` windows of the present pass of the targets
    ``wanting``."""

    number: int
    members: list[int]
    wanting: list[int] = field(default_factory=list)
    stats: list[str] = field(default_factory=list)
    n_merged: int = 0
    is_in_pass: bool = False
    is_finished: bool = False
    reason: str = ""


@dataclass(slots=True)
class _Pass:
    """One walk over a grid: what is fed, the nodes whose figures are taken, the bands that are read, and the windows."""

    group: _Group
    targets: Sequence[Target]
    watched: list[str]
    bands: dict[str, tuple[int, ...]]
    grid: Grid
    region: RegionMask
    windows: list[Window]
    label: str
    n_sent: int


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
            self._inside[key] = both(self.plane(node, window).valid, inside)
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
                 threads: int | None = None, checkpoint: Checkpoint | None = None):
        self.program, self.reader = program, reader
        self._region_of, self._progress, self._is_cancelled = region, progress, is_cancelled
        self._regions: dict[Grid, RegionMask] = {}
        self._window_px = window_px
        self._threads = threads or min(4, os.cpu_count() or 1)
        self._checkpoint, self._n_runs, self.n_resumed = checkpoint, 0, 0
        self.states: dict[str, Any] = {}
        self.failed: dict[str, str] = {}
        self.n_passes = 0
        self.px_read = 0
        rasters = [n for n in program.order if program.planned[n].evaluate is not None]
        self.figures: dict[str, NodeFigures] = {n: NodeFigures() for n in rasters}
        self._component = self._components(rasters)
        self._users: dict[str, int] = {}

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
        # a band alone is not computed with: larger windows only save their overhead
        size = self._window_px or (2 * MAX_WINDOW_PX if n_planes <= 2 else MAX_WINDOW_PX)
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
        self._users = {}
        for members in merged.values():
            above = {u for i in members for n in targets[i][0] for u in self.program.upstream(n)}
            for scene_id in {b[0] for u in above for b in self.program.planned[u].bands}:
                self._users[scene_id] = self._users.get(scene_id, 0) + 1
        with ThreadPoolExecutor(self._threads, thread_name_prefix="raster") as self._pool:
            self._run(targets, list(merged.values()), alive, message)
        return alive

    def _run(self, targets: Sequence[Target], groups: Sequence[list[int]], alive: list[Accumulator | None], message: str) -> None:
        """The passes of every group of targets; those that fail become None in ``alive``. While the last windows of one pass are
        at work those of the next begin; a group's next pass begins when its last one has been merged."""
        states = [_Group(number, members) for number, members in enumerate(groups)]
        number, self._n_runs = self._n_runs, self._n_runs + 1
        self._resume(number, targets, states)
        ready = deque(g for g in states if not g.is_finished)
        waiting: deque[tuple[_Pass, Future[Any]]] = deque()
        present: _Pass | None = None
        _keep_freed_memory()
        try:
            while True:
                while len(waiting) < 2 * self._threads and (present is not None or ready):
                    if present is None:
                        present = self._begun(ready.popleft(), targets, alive, message, len(states), ready)
                    elif present.n_sent == len(present.windows) or present.group.reason:
                        present = None
                    else:
                        self._stop_if_cancelled()
                        window = present.windows[present.n_sent]
                        present.n_sent += 1
                        waiting.append((present, self._pool.submit(self._work, present, window)))
                if not waiting:
                    break
                self._stop_if_cancelled()
                one, future = waiting.popleft()
                try:
                    result = future.result()
                except (ToolCancelledError, MemoryError):
                    raise
                except Exception as error:
                    self._fail(one.group, error, targets, alive)
                    continue
                if one.group.reason:
                    continue
                self._take(result, one.targets)
                one.group.n_merged += 1
                self._progress(one.group.n_merged, len(one.windows), one.label)
                if one.group.n_merged == len(one.windows):
                    self._finish(one, ready)
                if self._checkpoint is not None and self._checkpoint.is_due():
                    self._checkpoint.save(number, self._state(targets, states))
        finally:
            for _, future in waiting:
                future.cancel()
            # none may still read when the readers are closed
            wait([future for _, future in waiting])
        if self._checkpoint is not None and self._checkpoint.n_saved:
            self._checkpoint.save(number, self._state(targets, states))

    def _stop_if_cancelled(self) -> None:
        if self._is_cancelled():
            raise ToolCancelledError

    def _begun(self, group: _Group, targets: Sequence[Target], alive: list[Accumulator | None], message: str, n_groups: int,
               ready: deque[_Group]) -> _Pass | None:
        """The group's next pass, or the rest of the one that was cut off; None where nothing is left to do."""
        try:
            if not group.is_in_pass:
                group.wanting = [i for i in group.members if targets[i][1].wants_pass()]
                watched = dict.fromkeys(n for i in group.members for n in targets[i][0])
                group.stats = [n for n in watched if not self.figures[n].done]
                if not group.wanting and not group.stats:
                    group.is_finished = True
                    return None
                group.is_in_pass, group.n_merged = True, 0
                self.n_passes += 1
            label = f"{message} ({group.number + 1} of {n_groups})" if n_groups > 1 else message
            begun = self._pass(group, [targets[i] for i in group.wanting], label)
            if group.n_merged == len(begun.windows):
                self._finish(begun, ready)
            return begun
        except (ToolCancelledError, MemoryError):
            raise
        except Exception as error:
            self._fail(group, error, targets, alive)
            return None

    def _fail(self, group: _Group, error: Exception, targets: Sequence[Target], alive: list[Accumulator | None]) -> None:
        if group.reason:
            return
        told = f"{error.what} {error.why} {error.fix}" if isinstance(error, UserError) else str(error)
        group.reason = without_paths(told if isinstance(error, (ModelError, UserError)) else f"{type(error).__name__}: {error}")
        for i in group.members:
            alive[i] = None
            for n in targets[i][0]:
                self.failed.setdefault(n, group.reason)

    def _finish(self, one: _Pass, ready: deque[_Group]) -> None:
        """Ends a pass of which every window was merged."""
        for n in (*one.watched, *one.group.stats):
            self.figures[n].done = True
        one.group.is_in_pass = False
        ready.appendleft(one.group)
        if len(self._users) > _OPEN_SCENES:
            for scene_id in one.bands:
                rest = getattr(self.reader(scene_id), "rest", None)
                # a scene of several groups may be read at this moment
                if rest is not None and self._users[scene_id] == 1:
                    rest()

    def _pass(self, group: _Group, targets: Sequence[Target], label: str) -> _Pass:
        names = list(dict.fromkeys([n for t, _ in targets for n in t] + list(group.stats)))
        grid = self.program.type_of(names[0]).grid
        # the figures of all nodes of the component that the named ones rest on, gathered in the same pass
        above: list[str] = []
        for n in names:
            for u in self.program.upstream(n):
                if u in self._component and u not in above and self.program.type_of(u).grid == grid:
                    above.append(u)
        watched = [n for n in self.program.order if n in above and not self.figures[n].done and (n in group.stats or targets)
                   and self._same_pass(n, names)]
        # bands of scenes on other grids too: a resampling reads them in the same pass
        bands: dict[str, set[int]] = {}
        for u in dict.fromkeys(u for n in names for u in self.program.upstream(n) if u in self._component):
            for scene_id, _, index in self.program.planned[u].bands:
                bands.setdefault(scene_id, set()).add(index)
        ordered = {s: tuple(sorted(b)) for s, b in bands.items()}
        windows = list(self.windows(grid, len(above) + sum(len(b) for b in ordered.values())))
        return _Pass(group, targets, watched, ordered, grid, self.region(grid), windows, label, group.n_merged)

    def _work(self, one: _Pass, window: Window) -> tuple[list[Any], list[tuple[str, Any, int, int, int, int]], int]:
        """What one window gives to the targets and figures of a pass."""
        reads = _WindowReads(self, one.bands)
        inside = whole(window[:1:-1]) if one.region.polygon is None else looked_at(one.region.mask(window))
        parts: list[Any] = []
        for t, accumulator in one.targets:
            planes = [reads.plane(n, window) for n in t]
            beyond = getattr(accumulator, "sees_beyond", False)
            valid = planes[0].valid if beyond else reads.inside(t[0], window, inside)
            for p in planes[1:]:
                valid = both(valid, p.valid)
            held = tuple(p.held if getattr(accumulator, "takes_held", False) else p.data for p in planes)
            known = reads.known(t[0], window) if len(t) == 1 and not beyond else {}
            parts.append(accumulator.gather(Sample(window, one.grid, held[0], valid, held, known)))
        # after the targets: what those computed of a node's cells are its figures
        figures = [self._figures_part(n, reads, window, inside, one.grid) for n in one.watched]
        return parts, figures, window[2] * window[3]

    def _state(self, targets: Sequence[Target], states: Sequence[_Group]) -> dict[str, Any]:
        """What a later process needs to go on from here; a group that failed begins anew there."""
        sound = [g for g in states if not g.reason]
        left_out = {n for g in states if g.reason for n in self.figures if self._component[n] in
                    {self._component[t] for i in g.members for t in targets[i][0]}}
        return {
            "windows": self._window_px or 0, "threads": self._threads, "n_passes": self.n_passes, "px_read": self.px_read,
            "groups": {g.number: g for g in sound},
            "targets": {i: targets[i][1] for g in sound for i in g.members},
            "figures": {n: f for n, f in self.figures.items() if n not in left_out},
        }

    def _resume(self, number: int, targets: Sequence[Target], states: Sequence[_Group]) -> None:
        """Takes over the state of the same work that was cut off, where one was kept."""
        if self._checkpoint is None:
            return
        like = {"groups": {g.number: g for g in states}, "targets": {i: t[1] for i, t in enumerate(targets)},
                "figures": self.figures}
        kept = self._checkpoint.load(number, like, {"windows": self._window_px or 0, "threads": self._threads})
        if kept is not None:
            self.n_passes, self.px_read = kept["n_passes"], kept["px_read"]
            self.n_resumed += sum(g.n_merged for g in states)

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
                joint = both(joint, reads.plane(i, window).valid)
        for scene_id, _, index in planned.bands:
            joint = both(joint, reads.band(scene_id, index, window).valid)
        n_inside, n_joint, n_valid = (n_true(x) for x in (inside, joint, valid))
        span = self.program.type_of(node).range
        n_out = 0
        part = Moments().gather(Sample(window, grid, plane.held, valid, known=reads.known(node, window)))
        slack = 1e-9 * max([1.0, *(abs(v) for v in (span.low, span.high) if math.isfinite(v))])
        if any(p[6] < span.low - slack or p[7] > span.high + slack for p in part):
            values = plane.held[valid]
            n_out = int(np.count_nonzero((values < span.low - slack) | (values > span.high + slack)))
        masked = n_inside - n_joint if planned.bands else 0
        return node, part, masked, max(0, n_joint - n_valid), n_out, n_inside

    def _take(self, result: tuple[list[Any], list[tuple[str, Any, int, int, int, int]], int],
              targets: Sequence[Target]) -> None:
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
