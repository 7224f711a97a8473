"""Grids of one CRS that lie in each other: whole pixels of the finer fill one of the coarser. Pure.

Sentinel-2's 10, 20 and 60 m share their corner (ESA, Sentinel-2 products specification, tiling). Landsat's panchromatic grid
shares the middle of its first pixel with the 30 m bands, so its pixels lie half a pixel off (USGS, Landsat 8-9 data format
control book: 2 n − 1 lines and samples).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from apps.core.geo.grid import Grid

Wish = Literal["auto", "finer", "coarser"]
WISHES: tuple[str, ...] = get_args(Wish)
# Corners may lie this share of a fine pixel off, sides this share of themselves: rounding in files, no other grid.
_CORNER, _SIDE = 1e-2, 1e-6
# More pixels of the finer along a side of the coarser are no two resolutions of one instrument.
MAX_RATIO = 64


@dataclass(frozen=True, slots=True)
class Fit:
    """How a raster comes onto a grid: as it lies, each pixel ``repeat``-ed, or pixels ``reduce``-d, ``ratio`` along a side.
    ``is_halved``: the finer grid lies half of its pixel inside, so pixels on a border count for both sides."""

    step: Literal["same", "repeat", "reduce"] = "same"
    ratio: int = 1
    is_halved: bool = False


SAME = Fit()


def fit_of(grid: Grid, target: Grid) -> Fit | str:
    """How rasters on ``grid`` come onto ``target``, or why they do not, as the end of a sentence."""
    if grid == target:
        return SAME
    if grid.crs is None or grid.crs != target.crs:
        return "their grids differ in CRS" if grid.crs != target.crs else "their grids differ, and without a CRS none is finer"
    is_finer = _side(grid) < _side(target)
    fine, coarse = (grid, target) if is_finer else (target, grid)
    ratio = round(_side(coarse) / _side(fine))
    if not 1 <= ratio <= MAX_RATIO or any(
        abs(c - ratio * f) > _SIDE * ratio * _side(fine) for c, f in zip(_sides(coarse), _sides(fine), strict=True)
    ):
        return "their grids differ, and no whole number of pixels of the one makes a pixel of the other"
    col, row = fine.colrow(coarse.transform[2], coarse.transform[5])
    n_cols, n_rows = coarse.width * ratio, coarse.height * ratio
    if max(abs(col), abs(row)) <= _CORNER and ratio > 1 and (fine.width, fine.height) == (n_cols, n_rows):
        return Fit("reduce" if is_finer else "repeat", ratio)
    if ratio == 2 and max(abs(col + 0.5), abs(row + 0.5)) <= _CORNER and (fine.width, fine.height) == (n_cols - 1, n_rows - 1):
        if is_finer:
            return Fit("reduce", ratio, is_halved=True)
        return (
            "their grids differ by half a pixel: pixels of the finer lie across the borders of the coarser, so only the coarser "
            "can hold both"
        )
    if max(abs(col), abs(row)) <= _CORNER:
        return (
            f"their grids differ in size: {fine.width} × {fine.height} pixels are not {ratio} × {ratio} for each of "
            f"{coarse.width} × {coarse.height}"
        )
    return f"their grids differ in place: the corners lie {max(abs(col), abs(row)):.2f} pixels of the finer apart"


def common_grid(grids: Sequence[Grid], wish: Wish = "auto") -> tuple[int, list[Fit]] | tuple[int, str]:
    """(index of the grid onto which all are brought, how each comes there), or (index of one that does not fit, why).
    ``auto``: the finest where all fit there, else the coarsest."""
    order = sorted(range(len(grids)), key=lambda i: _side(grids[i]))
    refused: tuple[int, str] | None = None
    for at in {"finer": order[:1], "coarser": order[-1:], "auto": [order[0], order[-1]]}[wish]:
        found = [fit_of(g, grids[at]) for g in grids]
        why = next(((i, f) for i, f in enumerate(found) if isinstance(f, str)), None)
        if why is None:
            return at, [f for f in found if isinstance(f, Fit)]
        refused = refused or why
    assert refused is not None
    return refused


def _sides(grid: Grid) -> tuple[float, float, float, float]:
    a, b, _, d, e, _ = grid.transform
    return a, b, d, e


def _side(grid: Grid) -> float:
    a, b, d, e = _sides(grid)
    return float(abs(a * e - b * d) ** 0.5)
