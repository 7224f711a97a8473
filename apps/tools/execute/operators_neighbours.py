"""Operators about likeness between neighbours: hot spots (Getis–Ord) and spatial autocorrelation (Moran), by esda.

esda wants every pixel and every pair of neighbours at once. Up to LINKS_LIMIT pairs the figures are its own; a larger raster's
hot spots are computed window by window from the same formula, which a test holds against esda.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue
from scipy import ndimage

from apps.core.evidence.observation import Frozen
from apps.core.ports import Window
from apps.tools.execute.accumulators import Moments
from apps.tools.execute.collected import Collected
from apps.tools.execute.operators_spatial import grown, window_sum
from apps.tools.execute.types import (
    Call,
    Operator,
    PhysicalRange,
    Plane,
    Planned,
    RasterType,
    Reads,
    Take,
    Value,
    ValueType,
    register,
)
from apps.tools.region import RegionMask

# Pairs of neighbours that are handed to esda at once: some 100 bytes each.
LINKS_LIMIT = 3_000_000


def neighbour_pairs(valid: NDArray[np.bool_], shape: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """(pixel, neighbour), sorted by pixel: numbers of valid pixels in row order, a pair for each neighbour that ``shape`` (odd,
    about its middle) names."""
    number = np.full(valid.shape, -1, dtype=np.int64)
    number[valid] = np.arange(np.count_nonzero(valid))
    n_rows, n_cols = valid.shape
    of, to = [], []
    for r, c in np.argwhere(shape) - np.array(shape.shape) // 2:
        r, c = int(r), int(c)
        if abs(r) >= n_rows or abs(c) >= n_cols:
            continue
        a = number[max(0, -r):n_rows - max(0, r), max(0, -c):n_cols - max(0, c)]
        b = number[max(0, r):n_rows - max(0, -r), max(0, c):n_cols - max(0, -c)]
        both = (a >= 0) & (b >= 0)
        of.append(a[both])
        to.append(b[both])
    if not of:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    first, second = np.concatenate(of), np.concatenate(to)
    # libpysal numbers the pixels as they come
    order = np.argsort(first, kind="stable")
    return first[order], second[order]


def hot_spots(data: NDArray[np.float64], valid: NDArray[np.bool_], size: int) -> NDArray[np.float64]:
    """Gi* of esda for every valid pixel in row order; the neighbourhood is the square of ``size`` about it, itself included."""
    from esda.getisord import G_Local
    from libpysal.graph import Graph

    of, to = neighbour_pairs(valid, np.ones((size, size), dtype=bool))
    y = data[valid]
    # esda's z divides by the mean, and turns its sign where the mean is below 0; the statistic itself does not see a shift
    y = (y - y.mean()) / y.std() + 1
    graph = Graph.from_arrays(of, to, np.ones(len(of)))
    with np.errstate(all="ignore"):
        found = G_Local(y, graph, transform="B", star=True, permutations=0)
    return np.asarray(found.Zs, dtype=np.float64)


class HotspotParams(Frozen):
    size: int = Field(default=5, ge=3, le=101, description="side of the square neighbourhood in pixels, odd; the pixel is in it")


def _plan_hotspot(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: HotspotParams = call.params
    if p.size % 2 == 0:
        raise call.refuse("the neighbourhood must be odd.")
    name, this, grid, halo = call.names[0], call.node.id, source.grid, p.size // 2
    region = RegionMask.of(call.region, call.region_crs, grid, source.scene_names)
    frame = region.bounds_px
    at_once = frame[2] * frame[3] * p.size * p.size <= LINKS_LIMIT

    def settle(found: Sequence[Any]) -> tuple[Any, dict[str, JsonValue]]:
        if at_once:
            held: Collected = found[0]
            values = held.planes[0][held.valid]
            n, mean, std = len(values), float(values.mean()) if len(values) else 0.0, float(values.std()) if len(values) else 0.0
        else:
            m: Moments = found[0]
            n, mean, std = m.n, m.mean if m.n else 0.0, m.std() if m.n else 0.0
        if n < 3 or std == 0:
            raise call.refuse("hot spots need at least three valid pixels that differ.", code="TOOL_FAILED")
        # of the input: the node's own mean stands beside it
        evidence: dict[str, JsonValue] = {"input_mean": mean, "input_std": std, "n": n,
                                          "computed_by": "esda" if at_once else "windows"}
        if not at_once:
            return (mean, std, n), evidence
        z = np.full(held.valid.shape, np.nan)
        z[held.valid] = hot_spots(held.planes[0], held.valid, p.size)
        return z, evidence

    def evaluate_whole(reads: Reads, window: Window) -> Plane:
        c, r, w, h = window
        data = np.full((h, w), np.nan)
        c0, r0, w0, h0 = frame
        left, top, right, bottom = max(c, c0), max(r, r0), min(c + w, c0 + w0), min(r + h, r0 + h0)
        if left < right and top < bottom:
            data[top - r:bottom - r, left - c:right - c] = reads.state(this)[top - r0:bottom - r0, left - c0:right - c0]
        valid = np.isfinite(data)
        return Plane(np.where(valid, data, 0.0), valid)

    def evaluate_window(reads: Reads, window: Window) -> Plane:
        mean, std, n = reads.state(this)
        wide, inner = grown(window, halo, grid)
        plane = reads.plane(name, wide)
        v = plane.valid & region.mask(wide)
        weight = window_sum(v.astype(float), p.size)
        total = window_sum(np.where(v, plane.data - mean, 0.0), p.size)
        with np.errstate(all="ignore"):
            z = total / (std * np.sqrt((n * weight - weight**2) / (n - 1)))
        return Plane(z[inner], v[inner] & np.isfinite(z[inner]))

    kind = replace(source, kind="raster", quantity=f"{source.quantity}_gi_star"[:80], unit="1",
                   range=PhysicalRange(-1000, 1000), formula=f"Gi* of {source.formula} in {p.size} × {p.size}")
    return Planned(kind, evaluate=evaluate_whole if at_once else evaluate_window, settle=settle,
                   prepare=lambda: [((name,), Collected(frame) if at_once else Moments(2))])


register(Operator(
    name="raster.product.getis_ord", summary="Local Getis–Ord Gi* (a z score): above 1.96 hot, below −1.96 cold.",
    takes=Take(("raster", "mask")), params=HotspotParams, gives="raster", range=PhysicalRange(-1000, 1000),
    nodata="pixels that are invalid or outside the region are no neighbours and stay masked", plan=_plan_hotspot,
    reference="Ord and Getis 1995, Geographical Analysis 27; esda"))


class MoranParams(Frozen):
    neighbours: Literal["rook", "queen"] = Field(default="queen", description="4 or 8 pixels about each")


def _plan_moran(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: MoranParams = call.params
    region = RegionMask.of(call.region, call.region_crs, source.grid, source.scene_names)
    shape = np.ones((3, 3), dtype=bool) if p.neighbours == "queen" else ndimage.generate_binary_structure(2, 1)
    shape[1, 1] = False
    frame = region.bounds_px
    if frame[2] * frame[3] * int(shape.sum()) > LINKS_LIMIT:
        raise call.refuse(f"Moran's I wants all pairs of neighbours at once, {LINKS_LIMIT / 1e6:.0f} million at most; give a "
                          "region, or make the raster coarser first (raster.product.reproject, average).", code="TOO_LARGE")

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        from esda.moran import Moran
        from libpysal.graph import Graph

        held: Collected = found[0]
        of, to = neighbour_pairs(held.valid, shape)
        alone = held.valid.copy()
        alone[held.valid] = np.bincount(of, minlength=int(held.valid.sum())) == 0
        if alone.any():
            held.valid &= ~alone
            of, to = neighbour_pairs(held.valid, shape)
        y = held.planes[0][held.valid]
        if len(y) < 4 or y.std() == 0:
            raise call.refuse("Moran's I needs at least four neighbouring pixels that differ.", code="TOOL_FAILED",
                              needs={"valid_px": True})
        # rows that sum to 1: whole weights overflow esda's integers on some thousand pixels
        found_i = Moran(y, Graph.from_arrays(of, to, np.ones(len(of))), transformation="r", permutations=0)
        numbers = (float(found_i.I), float(found_i.z_rand), float(found_i.p_rand))
        if not all(math.isfinite(v) for v in numbers):
            raise call.refuse("Moran's I is undefined for these values.", code="TOOL_FAILED")
        value, z, p_value = numbers
        return Value(value, len(y), {"z": z, "p_value": p_value, "expected": float(found_i.EI), "n_pairs": len(of),
                                     "n_without_neighbour": int(alone.sum()), "neighbours": p.neighbours, "n_valid": len(y),
                                     "weights": "each pixel's neighbours sum to 1", "computed_by": "esda"})

    return Planned(ValueType("value", "statistic", f"moran_{source.quantity}"[:80], "1", PhysicalRange(-1.5, 1.5)),
                   reduce=lambda: [((call.names[0],), Collected(frame))], finish=finish)


register(Operator(
    name="raster.summarize.moran", summary="Global Moran's I: above 0 where like lies beside like, with z and p value.",
    takes=Take(("raster", "mask")), params=MoranParams, gives="value", range=PhysicalRange(-1.5, 1.5),
    nodata="invalid pixels, and those without a valid neighbour, take no part", plan=_plan_moran,
    reference="Moran 1950, Biometrika 37; Cliff and Ord 1981; esda"))
