"""Operators that move a raster to other pixels: resampling onto a grid, reprojection, co-registration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pyproj
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen
from apps.core.geo.grid import Grid, transformer
from apps.core.ports import Window
from apps.tools.execute.collected import Collected
from apps.tools.execute.operators_products import describe, resampled, same_grid
from apps.tools.execute.scales import DIRECTIONS, check_scale, scale_notes
from apps.tools.execute.types import (
    Call,
    Operator,
    Plane,
    Planned,
    RasterType,
    Reads,
    SceneType,
    Take,
    register,
)
from apps.tools.registration import SHIFT_WINDOW_PX, estimated_shift, shift_on_ground_m

Method = Literal["nearest", "bilinear", "average", "mode"]
# A grid that someone asks for has at most this many pixels.
MAX_GRID_PX = 4_000_000_000
# From how many times coarser on single old pixels say little of a new one.
MANY_PIXELS = 3.0
# Pixels that one window of the target may cover in the source.
_MAX_COVERED_PX = 64_000_000


def pixel_area(grid: Grid) -> float:
    """Of a pixel, in squared units of the grid's CRS."""
    a, b, _, d, e, _ = grid.transform
    return abs(a * e - b * d)


def aggregated(call: Call, name: str, raster: RasterType, target: Grid, method: str,
               least_share: float) -> Callable[[Reads, Window], Plane]:
    """Mean (or the commonest class, of equally common ones the first) of the source pixels whose centre lies in a pixel of
    ``target``; masked where less than ``least_share`` of them are valid, or none is."""
    source = raster.grid
    assert source.crs is not None and target.crs is not None
    there, back = transformer(target.crs, source.crs), transformer(source.crs, target.crs)

    def to_colrow(grid: Grid, x: Any, y: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        a, b, c, d, e, f = grid.transform
        det = a * e - b * d
        x, y = np.asarray(x) - c, np.asarray(y) - f
        return (e * x - b * y) / det, (a * y - d * x) / det

    def to_xy(grid: Grid, col: NDArray[np.float64], row: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        a, b, c, d, e, f = grid.transform
        return a * col + b * row + c, d * col + e * row + f

    def evaluate(reads: Reads, window: Window) -> Plane:
        c0, r0, w, h = window
        cols, rows = np.meshgrid(np.linspace(c0, c0 + w, min(w, 32) + 1), np.linspace(r0, r0 + h, min(h, 32) + 1))
        sc, sr = to_colrow(source, *there.transform(*to_xy(target, cols, rows)))
        known = np.isfinite(sc) & np.isfinite(sr)
        nothing = Plane(np.zeros((h, w)), np.zeros((h, w), dtype=bool))
        if not known.any():
            return nothing
        # curved edges bulge beyond the lattice by less than a step of it
        slack = 2 + int(0.02 * max(np.ptp(sc[known]), np.ptp(sr[known])))
        left, top = max(0, math.floor(sc[known].min()) - slack), max(0, math.floor(sr[known].min()) - slack)
        right = min(source.width, math.ceil(sc[known].max()) + slack)
        bottom = min(source.height, math.ceil(sr[known].max()) + slack)
        if right <= left or bottom <= top:
            return nothing
        if (right - left) * (bottom - top) > _MAX_COVERED_PX:
            raise call.refuse("the grids differ too much in resolution to be brought together window by window.")
        plane = reads.plane(name, (left, top, right - left, bottom - top))
        px, py = np.meshgrid(np.arange(left, right) + 0.5, np.arange(top, bottom) + 0.5)
        tc, tr = to_colrow(target, *back.transform(*to_xy(source, px, py)))
        with np.errstate(invalid="ignore"):
            tc, tr = np.floor(tc) - c0, np.floor(tr) - r0
            inside = np.isfinite(tc) & np.isfinite(tr) & (tc >= 0) & (tc < w) & (tr >= 0) & (tr < h)
        cell = (tr[inside] * w + tc[inside]).astype(np.int64)
        valid, values = plane.valid[inside], plane.data[inside]
        n_all = np.bincount(cell, minlength=h * w)
        n = np.bincount(cell[valid], minlength=h * w)
        keep = (n > 0) & (n >= least_share * n_all)
        if method == "average":
            # the order of addition is the source's own, whatever the window
            total = np.bincount(cell[valid], weights=values[valid], minlength=h * w)
            data = np.divide(total, n, out=np.zeros(h * w), where=n > 0)
        else:
            data, most = np.zeros(h * w), np.zeros(h * w, dtype=np.int64)
            # of classes that are equally common the one that comes first in its rows: a code says nothing of a class
            seen = np.full(h * w, np.iinfo(np.int64).max)
            for k in np.unique(values[valid]):
                mine = np.flatnonzero(valid & (values == k))
                count = np.bincount(cell[mine], minlength=h * w)
                first = np.full(h * w, np.iinfo(np.int64).max)
                first[cell[mine[::-1]]] = mine[::-1]
                better = (count > most) | ((count == most) & (first < seen))
                data[better], most[better], seen[better] = k, count[better], first[better]
        return Plane(data.reshape(h, w), keep.reshape(h, w))

    return evaluate


def on_grid(call: Call, name: str, raster: RasterType, target: Grid, method: Method | None, least_share: float,
            ) -> tuple[str, Callable[[Reads, Window], Plane]]:
    """(method, evaluate) of a raster brought to ``target``; classes and masks are never interpolated. ModelError where the
    method does not fit the kind or the two pixel sizes."""
    is_class = raster.kind in ("mask", "classes")
    chosen = method or ("nearest" if is_class or raster.quantity in DIRECTIONS else "bilinear")
    check_scale(call, raster, chosen)
    if is_class and chosen in ("bilinear", "average"):
        raise call.refuse(f"{chosen} would mix the values of a {'mask' if raster.kind == 'mask' else 'class map'}; ask for "
                          "nearest or mode.")
    if not is_class and chosen == "mode":
        raise call.refuse("mode is for class maps and masks.")
    if chosen in ("nearest", "bilinear"):
        return chosen, resampled(call, name, raster, target, chosen)
    if raster.grid.crs is None or target.crs is None:
        raise call.refuse("a grid without CRS has no common place with another.", code="NEEDS_CRS", needs={"crs": True})
    coarse, fine = target.gsd_m, raster.grid.gsd_m
    if coarse is not None and fine is not None and coarse < 1.5 * fine:
        raise call.refuse(f"{chosen} gathers several pixels into one, but the new pixels of {coarse:g} m are not clearly coarser "
                          f"than the old of {fine:g} m; ask for bilinear or nearest.")
    return chosen, aggregated(call, name, raster, target, chosen, least_share)


def point_notes(raster: RasterType, target: Grid, method: str) -> tuple[tuple[str, str], ...]:
    """What is told where a new pixel holds many old ones and takes but one or four of them."""
    coarse, fine = target.gsd_m, raster.grid.gsd_m
    if method == "mode":
        return (("warning", ("Each new pixel has the commonest class of the old ones that it covers: what is rare shrinks, so "
                             "areas and shares are best taken on the old pixels.")),)
    if method not in ("nearest", "bilinear") or coarse is None or fine is None or coarse < MANY_PIXELS * fine:
        return ()
    better = "mode" if raster.kind in ("mask", "classes") else "average"
    few = "one" if method == "nearest" else "at most four"
    told = (f"Each new pixel of {coarse:.4g} m takes {few} of the many old ones of {fine:.4g} m that it covers; {better} takes "
            "them all.")
    return (("warning", told),)


class ResampleParams(Frozen):
    method: Method | None = Field(default=None, description="none: bilinear; nearest for classes and masks. average and mode "
                                                            "gather all pixels whose centre lies in a coarser one")
    least_share: float = Field(default=0.5, ge=0, le=1, description="average and mode: valid share below which a pixel is masked")


def _plan_resample(call: Call) -> Planned:
    source, target = call.inputs
    if isinstance(source, SceneType):
        raise call.refuse("the first input is the raster, the second gives the grid.")
    grid = target.scene.grid if isinstance(target, SceneType) else target.grid
    method, evaluate = on_grid(call, call.names[0], source, grid, call.params.method, call.params.least_share)
    gsd = target.scene.effective_gsd_m if isinstance(target, SceneType) else target.gsd_m
    return Planned(replace(source, grid=grid, gsd_m=gsd, formula=f"{source.formula}, {method} onto {describe(grid)}"),
                   evaluate=evaluate, resamples=True,
                   notes=(*scale_notes(source, method), *point_notes(source, grid, method)))


register(Operator(
    name="raster.product.resample", summary="A raster on another one's grid, reprojected where the CRS differs.",
    takes=Take(("raster", "mask", "classes", "scene"), 2, 2), params=ResampleParams, gives="raster", range="of the first input",
    nodata="masked outside the source, where a neighbour with weight is, and below least_share", plan=_plan_resample))


class ReprojectParams(ResampleParams):
    crs: str = Field(default="", max_length=4000, description="of the new grid, EPSG:n or WKT; none: the raster's own")
    resolution: float | None = Field(default=None, gt=0, description="side of a pixel in units of that CRS; none: as fine as now")


def grid_in(call: Call, source: Grid, crs: str, resolution: float | None) -> Grid:
    """A north-up grid in ``crs`` about the source's outline, its edges at multiples of the resolution."""
    if source.crs is None:
        raise call.refuse("a picture without CRS has no place in another.", code="NEEDS_CRS", needs={"crs": True})
    try:
        wanted = pyproj.CRS.from_user_input(crs or source.crs)
    except pyproj.exceptions.CRSError as error:
        raise call.refuse(f"{crs[:80]!r} is no CRS.") from error
    if wanted.is_geocentric or wanted.is_vertical or len(wanted.axis_info) < 2:
        raise call.refuse(f"{crs[:80]!r} is no CRS of a map.")
    text = crs or source.crs
    lattice = np.linspace(0, 1, 41)
    cols, rows = (g.ravel() for g in np.meshgrid(lattice * source.width, lattice * source.height))
    a, b, c, d, e, f = source.transform
    x, y = (np.asarray(v) for v in transformer(source.crs, text).transform(a * cols + b * rows + c, d * cols + e * rows + f))
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise call.refuse("parts of the raster have no place in that CRS.")
    if wanted.is_geographic and np.ptp(x) > 180:
        raise call.refuse("the raster crosses the antimeridian there; ask for another CRS.")
    if resolution is None:
        # the diagonal keeps its number of pixels
        corner = [0, -1]
        resolution = float(math.dist(*((x[i], y[i]) for i in corner)) / math.hypot(source.width, source.height))
    # a hair's breadth of rounding makes no new row of pixels
    west, south = (math.floor(v.min() / resolution + 1e-6) * resolution for v in (x, y))
    width, height = (max(1, math.ceil((v.max() - v0) / resolution - 1e-6)) for v, v0 in ((x, west), (y, south)))
    if min(resolution / np.ptp(v) for v in (x, y)) > 1:
        raise call.refuse(f"a pixel of {resolution:g} is larger than the whole raster of {np.ptp(x):.4g} × {np.ptp(y):.4g}; the "
                          f"resolution counts in the units of that CRS ({wanted.axis_info[0].unit_name}).")
    if width * height > MAX_GRID_PX:
        raise call.refuse(f"a grid of {width} × {height} pixels is too large; ask for a coarser resolution.", code="TOO_LARGE")
    return Grid(crs=text, transform=(resolution, 0.0, west, 0.0, -resolution, south + height * resolution), width=width,
                height=height)


def _plan_reproject(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: ReprojectParams = call.params
    if not p.crs and p.resolution is None:
        raise call.refuse("say the new CRS, the new resolution, or both.")
    grid = grid_in(call, source.grid, p.crs, p.resolution)
    method, evaluate = on_grid(call, call.names[0], source, grid, p.method, p.least_share)
    return Planned(replace(source, grid=grid, gsd_m=grid.gsd_m, formula=f"{source.formula}, {method} onto {describe(grid)}"),
                   evaluate=evaluate, resamples=True,
                   notes=(*scale_notes(source, method), *point_notes(source, grid, method)))


register(Operator(
    name="raster.product.reproject", summary="A raster on a new grid of a given CRS and resolution (also a coarser one).",
    takes=Take(("raster", "mask", "classes")), params=ReprojectParams, gives="raster", range="of the input",
    nodata="masked outside the source, where a neighbour with weight is, and below least_share", plan=_plan_reproject))


# --- co-registration -------------------------------------------------------------------------------------------------------
class CoregisterParams(Frozen):
    most_px: float = Field(default=20.0, gt=0, le=500, description="a greater shift is refused")


def _plan_coregister(call: Call) -> Planned:
    moving, reference = call.inputs
    p: CoregisterParams = call.params
    same_grid(call, call.inputs)
    name, this, grid = call.names[0], call.node.id, reference.grid
    if moving.kind != "raster" or reference.kind != "raster":
        raise call.refuse("co-registration moves a raster onto another.")
    check_scale(call, moving, "bilinear")
    side = SHIFT_WINDOW_PX
    c0, r0 = max(0, (grid.width - side) // 2), max(0, (grid.height - side) // 2)
    middle = (c0, r0, min(side, grid.width), min(side, grid.height))

    def settle(found: Sequence[Any]) -> tuple[tuple[float, float], dict[str, JsonValue]]:
        both: Collected = found[0]
        shift, likeness = estimated_shift(both.planes[1], both.planes[0], both.valid)
        if shift is None:
            raise call.refuse("the two rasters have too little in common to tell how far they lie apart"
                              + (f" (correlation of their edges {likeness:.2f})." if likeness is not None else "."),
                              code="TOOL_FAILED", needs={"overlap": True})
        rows, cols = float(shift[0]), float(shift[1])
        length = math.hypot(rows, cols)
        if length > p.most_px:
            raise call.refuse(f"the rasters lie {length:.1f} pixels apart, more than {p.most_px:g}.", code="TOOL_FAILED")
        return (rows, cols), {"shift_px": [rows, cols], "shift_length_px": length, "likeness": likeness,
                              "shift_m": shift_on_ground_m(grid, (rows, cols)),
                              "method": "phase correlation of edges, to 1/20 pixel"}

    def evaluate(reads: Reads, window: Window) -> Plane:
        rows, cols = reads.state(this)
        a, b, c, d, e, f = moving.grid.transform
        # what lies at a pixel of the moving raster belongs ``shift`` pixels before it
        placed = Grid(crs=grid.crs, transform=(a, b, c - a * cols - b * rows, d, e, f - d * cols - e * rows), width=grid.width,
                      height=grid.height)
        return resampled(call, name, replace(moving, grid=placed), grid, "bilinear")(reads, window)

    if grid.crs is None:
        raise call.refuse("co-registration needs a CRS; pictures without one are compared by perceive change.", code="NEEDS_CRS",
                          needs={"crs": True})
    formula = f"{moving.formula}, moved onto {reference.scene_names}"
    return Planned(replace(moving, formula=formula), evaluate=evaluate, resamples=True, settle=settle,
                   prepare=lambda: [(call.names, Collected(middle, 2))])


register(Operator(
    name="raster.product.coregister", summary="The first raster moved by the shift at which it lies on the second.",
    takes=Take(("raster",), 2, 2), params=CoregisterParams, gives="raster", range="of the first input",
    nodata="masked outside the moved raster, and where a neighbour with weight is", plan=_plan_coregister,
    reference="Guizar-Sicairos et al. 2008, Optics Letters 33"))
