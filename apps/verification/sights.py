"""What of a source the second look reads: windows and samples, bands by their role, the region's pixels; no product."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.geo.grid import Grid
from apps.core.geo.raster import CENTRE_NUDGE
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.case import Case
from apps.verification.formulas import STAND_INS
from apps.verification.pixel_areas import weights_due
from apps.verification.planes import KEPT, CannotLookError, Plane, outline_px, same_grid
from apps.verification.scattered import Places, places_of

# Side of what is read at once of a large window: whole blocks of our COGs.
_TILE = 1024


def scene_of_node(case: Case, node_id: str) -> SceneInfo:
    """The one scene that a node is made from, or the first of several on the same grid. CannotLookError otherwise."""
    found: SceneInfo | CannotLookError = case.kept(f"scene of {node_id}", lambda: _scene_of_node(case, node_id))
    if isinstance(found, CannotLookError):
        raise CannotLookError(str(found))
    return found


def _scene_of_node(case: Case, node_id: str) -> SceneInfo | CannotLookError:
    found = []
    for name in case.upstream(node_id):
        node = case.nodes[name]
        if node["op"].startswith("asset."):
            scene = case.scenes.get(str(node["params"].get("scene")))
            if scene is None:
                return CannotLookError("a scene of the call is not one of the question")
            found.append(scene)
    if not found:
        return CannotLookError("the node is made from no scene")
    first = found[0].grid
    if any(not same_grid(first, s.grid) for s in found[1:]):
        return CannotLookError("its scenes lie on different grids")
    return found[0]


def look_windows(case: Case, grid: Grid, side: int | None = None) -> tuple[list[Window], bool]:
    """(windows, whole): the whole scene as one window where it is small, else windows spread over it by a fixed pattern.

    With a ``side`` there are windows of that side in any case.
    """
    if side is None and grid.width * grid.height <= case.limits.full_look_px:
        return [(0, 0, grid.width, grid.height)], True
    side, n = side or case.limits.look_window_px, case.limits.look_windows
    out = []
    for i in range(n):
        # a low-discrepancy pattern (golden ratio), the same every time
        fx, fy = (0.5 + i * 0.7548776662466927) % 1, (0.5 + i * 0.5698402909980532) % 1
        out.append(
            (
                int(fx * max(0, grid.width - side)),
                int(fy * max(0, grid.height - side)),
                min(side, grid.width),
                min(side, grid.height),
            )
        )
    return out, False


def step_of(case: Case, window: Window) -> int:
    """The side in pixels of the cells of a window in each of which one pixel is looked at; 1: all are."""
    return max(1, math.ceil(math.sqrt(window[2] * window[3] / case.limits.dense_look_px)))


def _tiles(window: Window, limit_px: int) -> list[Window]:
    """What is read at once of a window: itself up to a limit, else tiles that lie on whole blocks of the grid."""
    col, row, width, height = window
    if width * height <= limit_px:
        return [window]

    def cuts(start: int, length: int) -> list[int]:
        return [start, *range((start // _TILE + 1) * _TILE, start + length, _TILE), start + length]

    down, across = cuts(row, height), cuts(col, width)
    return [(x, y, right - x, bottom - y) for y, bottom in pairwise(down) for x, right in pairwise(across)]


def _within(places: Places, window: Window, tile: Window) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """(which of the places lie in a tile, their rows in it, their columns in it)."""
    rows, columns = places.rows + (window[1] - tile[1]), places.columns + (window[0] - tile[0])
    here = (rows >= 0) & (rows < tile[3]) & (columns >= 0) & (columns < tile[2])
    return here, rows[here], columns[here]


class Sight:
    """Windows of the case's scenes as they are stored, scaled once, and what of them lies in the region."""

    def __init__(self, case: Case):
        self.case = case

    # --- bands ----------------------------------------------------------------------------------------------------------
    def bands(self, scene: SceneInfo, roles: tuple[str, ...], window: Window) -> dict[str, Plane]:
        """Physical values by role. CannotLookError where the scene lacks a role or no reader is at hand."""
        chosen: dict[str, int] = {}
        for role in roles:
            at = [b.index for r in (role, *STAND_INS.get(role, ())) for b in scene.bands if b.role == role or b.role == r]
            if not at:
                raise CannotLookError(f"the scene has no band {role}")
            chosen[role] = at[0]
        key = (scene.scene_id, tuple(sorted(set(chosen.values()))), window)
        held = self.case.kept(f"bands:{key}", lambda: self._read(scene, key[1], window))
        return {role: Plane(held.data[key[1].index(i)], held.valid[key[1].index(i)]) for role, i in chosen.items()}

    def pixels(self, scene: SceneInfo, indices: tuple[int, ...], window: Window) -> Plane:
        """Bands by index, (bands, rows, columns), scaled; CannotLookError where no reader is at hand."""
        return self._read(scene, indices, window)

    def whole_pixels(self, scene: SceneInfo, indices: tuple[int, ...], window: Window) -> Plane:
        """As ``pixels``, of every pixel of the window however large it is: for what is compared with a mask of the same shape."""
        return self._decode(scene, indices, window, places_of(window, 1))

    def _read(self, scene: SceneInfo, indices: tuple[int, ...], window: Window) -> Plane:
        step = step_of(self.case, window)
        # content-addressed: the same bytes under the same reading rules give the same pixels
        key = (scene.artifact, scene.grid, scene.bands, scene.fill_rules, indices, window, step)
        held = KEPT.get(key)
        if held is None:
            held = self._decode(scene, indices, window, places_of(window, step))
            KEPT.put(key, held)
        return held

    def _decode(self, scene: SceneInfo, indices: tuple[int, ...], window: Window, places: Places) -> Plane:
        """The pixels at some places of a window. All of a large window is decoded, tile by tile: overviews hold every 2nd, 4th,
        … pixel, which is no sample of what repeats as often."""
        reader = self.case.open(scene.scene_id)
        if reader is None:
            raise CannotLookError("the source's pixels are not at hand")
        info = {b.index: b for b in scene.bands}
        planes = np.zeros((len(indices), *places.rows.shape))
        valid = np.zeros(planes.shape, dtype=bool)
        for tile in _tiles(window, self.case.limits.full_look_px):
            here, rows, columns = _within(places, window, tile)
            if not rows.size:
                continue
            raw = reader.read(indices, tile, physical=False)
            for k, i in enumerate(indices):
                # scale and offset are applied here, once, from the scene's own record
                planes[k][here] = raw.data[k, rows, columns].astype(np.float64) * info[i].scale + info[i].offset
                valid[k][here] = raw.valid[k, rows, columns]
        return Plane(planes, valid)

    def picture(self, scene: SceneInfo, indices: tuple[int, ...], window: Window) -> Plane:
        """Bands as a picture of the window, its every 2nd, 3rd, … row and column where it is large: for what lies beside what. No
        figure is made from it."""
        reader, step = self.case.open(scene.scene_id), step_of(self.case, window)
        if reader is None:
            raise CannotLookError("the source's pixels are not at hand")
        shown = -(-window[3] // step), -(-window[2] // step)
        raw = reader.read(indices, window, None if step == 1 else shown, physical=False)
        return Plane(raw.data.astype(np.float64), np.asarray(raw.valid))

    # --- region ---------------------------------------------------------------------------------------------------------
    def region(self, grid: Grid, window: Window) -> NDArray[np.bool_] | None:
        """True where a pixel's centre lies inside the region; None without one."""
        if self.case.region is None:
            return None
        key = ("region", json.dumps(self.case.region, sort_keys=True), grid, window, step_of(self.case, window))

        def make() -> NDArray[np.bool_]:
            held = KEPT.get(key)
            if held is None:
                inside = self._region(grid, window)
                held = Plane(np.empty(0), inside)
                KEPT.put(key, held)
            return held.valid

        found: NDArray[np.bool_] = self.case.kept(f"region:{window}:{hash(grid)}", make)
        return found

    def _outline(self, grid: Grid) -> BaseGeometry:
        """The region's outline in pixels of a grid. CannotLookError where it has no place there."""
        found: BaseGeometry = self.case.kept(f"outline:{hash(grid)}", lambda: self._outline_px(grid))
        return found

    def _outline_px(self, grid: Grid) -> BaseGeometry:
        assert self.case.region is not None
        geojson, crs = self.case.region
        try:
            return outline_px(shape(geojson["geometry"] if geojson.get("type") == "Feature" else geojson), crs, grid)
        except CannotLookError:
            raise
        except Exception as error:
            raise CannotLookError(f"the region cannot be read ({type(error).__name__})") from error

    def _region(self, grid: Grid, window: Window) -> NDArray[np.bool_]:
        polygon = self._outline(grid)
        col, row, _, _ = window
        places = places_of(window, step_of(self.case, window))
        left, top, right, bottom = polygon.bounds
        # centres on the outline by the rule of all regions
        x = places.columns + col + 0.5 + CENTRE_NUDGE[0]
        y = places.rows + row + 0.5 + CENTRE_NUDGE[1]
        inside: NDArray[np.bool_] = (x >= left) & (x <= right) & (y >= top) & (y <= bottom)
        shapely.prepare(polygon)
        inside[inside] = shapely.contains_xy(polygon, x[inside], y[inside])
        return inside

    # --- summaries ------------------------------------------------------------------------------------------------------
    def extent(self, grid: Grid) -> Window:
        """What a figure of the scene is made from: all of it, or the rows and columns that the region spans."""
        whole = (0, 0, grid.width, grid.height)
        if self.case.region is None or grid.width * grid.height <= self.case.limits.dense_look_px:
            return whole
        return self.spanned(grid)

    def spanned(self, grid: Grid) -> Window:
        """The rows and columns that the region spans; all of them without one."""
        if self.case.region is None:
            return 0, 0, grid.width, grid.height
        left, top, right, bottom = self._outline(grid).bounds
        x0, y0 = max(0, math.floor(left)), max(0, math.floor(top))
        x1, y1 = min(grid.width, math.ceil(right)), min(grid.height, math.ceil(bottom))
        if x1 <= x0 or y1 <= y0:
            raise CannotLookError("the region lies outside of the scene")
        return x0, y0, x1 - x0, y1 - y0

    def gather(self, make: Callable[[Window], Plane], grid: Grid) -> tuple[NDArray[np.float64], int]:
        """(valid values inside the region, side of the cells of which each is one) of a plane."""
        window = self.extent(grid)
        plane = make(window)
        region = self.region(grid, window)
        return plane.data[plane.valid if region is None else plane.valid & region], step_of(self.case, window)

    def weights(self, grid: Grid, statistic: str, asked: str = "auto", told: str = "") -> str:
        """Whether pixels count by ``area`` or alike (``pixels``) in a statistic over the region."""
        if statistic not in ("mean", "share", "average") or grid.crs is None:
            return "pixels"
        return weights_due(grid, self.spanned(grid), asked, told)
