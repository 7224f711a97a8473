"""Shifts of co-registered images: they can be believed, and the edges of the source's own pixels fit best at them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.geo.grid import Grid, transformer
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed, told_of
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import mapping_entries
from apps.verification.look import look_of
from apps.verification.marks import vincenty
from apps.verification.planes import CannotLookError
from apps.verification.sights import scene_of_node


@check(
    "shift_believable",
    catches=("shifted mask", "another scene's result"),
    limits=("shift_share", "shift_likeness", "rel_tolerance"),
    reads=("/evidence/intermediate/nodes", "/arguments/nodes"),
    family="geometry",
)
def shift_believable(case: Case) -> Finding:
    """The shift of a co-registration lies within what was searched and well under a quarter of the scene, the two images are
    alike where it puts them, and its length follows from its parts. So does that of the shift between two dates compared."""
    found = told_of(case, "raster.product.coregister")
    if not found:
        return _shift_between_dates(case)
    shortest = min((min(s.grid.shape) for s in case.used_scenes), default=0)
    measured: list[float] = []
    for k, told, params in found:
        at = (f"/evidence/intermediate/nodes/{k}",)
        parts = told.get("shift_px")
        pair = [number_of(v) for v in parts] if isinstance(parts, (list, tuple)) else []
        length, likeness = number_of(told.get("shift_length_px")), number_of(told.get("likeness"))
        if len(pair) != 2 or pair[0] is None or pair[1] is None or length is None:
            return inconclusive("The shift is not on record; hand over shift_px and shift_length_px.", at=at)
        wrong = _wrong_length(case, (pair[0], pair[1]), length, number_of(told.get("shift_m")), at)
        if wrong is not None:
            return wrong
        most = number_of(params.get("most_px"))
        most = 20.0 if most is None else most
        if length > most * (1 + 1e-9):
            return failed(
                "The images were moved further than was searched; ask for a greater most_px, or give the right pair.",
                measured=length,
                expected=f"≤ {most:g}",
                unit="px",
                at=at,
            )
        if shortest and length > case.limits.shift_share * shortest:
            return failed(
                "The images were moved so far that too little of them lies upon each other; give images of one place.",
                measured=length,
                expected=f"≤ {case.limits.shift_share * shortest:g}",
                unit="px",
                at=at,
            )
        if likeness is not None and not case.limits.shift_likeness <= likeness <= 1 + 1e-9:
            return failed(
                "The images have too little in common for their shift to be believed; take another band or date.",
                measured=likeness,
                expected=f"{case.limits.shift_likeness:g} to 1",
                at=at,
            )
        measured.append(length)
    return passed(
        "The images lie as far apart as two of one place can.",
        measured=measured[0],
        unit="px",
        at=("/evidence/intermediate/nodes",),
    )


def _shift_between_dates(case: Case) -> Finding:
    told = case.observation.evidence.intermediate
    parts, at = told.get("shift_px"), ("/evidence/intermediate/shift_px", "/evidence/intermediate/shift_m")
    pair = [number_of(v) for v in parts] if isinstance(parts, (list, tuple)) else []
    length, metres = number_of(told.get("shift_length_px")), number_of(told.get("shift_m"))
    if case.observation.tool != "perceive" or (length is None and metres is None):
        return not_applicable("nothing was co-registered")
    if len(pair) != 2 or pair[0] is None or pair[1] is None:
        return inconclusive("The rows and columns of the shift are not on record; hand over shift_px.", at=at)
    length = math.hypot(pair[0], pair[1]) if length is None else length
    # large images are compared at every 2nd, 3rd, … pixel
    step = number_of(told.get("step")) or 1.0
    wrong = _wrong_length(case, (pair[0] * step, pair[1] * step), length * step, metres, at)
    if wrong is not None:
        return wrong
    return passed("The length of the shift is that of its rows and columns.", measured=length, unit="px", at=at)


def _wrong_length(
    case: Case, shift: tuple[float, float], length: float, metres: float | None, at: tuple[str, ...]
) -> Finding | None:
    """What is wrong with the length of a shift of (rows, columns) in pixels or in metres, or None."""
    if not case.is_same(math.hypot(*shift), length, 1e-3):
        return failed(
            "The shift's length is not that of its parts.", measured=length, expected=math.hypot(*shift), unit="px", at=at
        )
    grid = case.used_scenes[0].grid if case.used_scenes else None
    truth = _shift_on_ground_m(grid, *shift) if metres is not None and grid is not None and grid.crs else None
    if truth is None and metres is not None and case.used_scenes and case.used_scenes[0].effective_gsd_m:
        truth = math.hypot(*shift) * case.used_scenes[0].effective_gsd_m
    if metres is None or truth is None or case.is_same(metres, truth, case.limits.gsd_rel_tolerance):
        return None
    return failed(
        "The shift in metres is not that of its rows and columns on the ground.",
        measured=metres,
        expected=truth,
        unit="m",
        at=at,
    )


def _shift_on_ground_m(grid: Grid, rows: float, cols: float) -> float | None:
    """Length in m of a shift at the middle of a grid, by Vincenty's formula; None where that finds none."""
    assert grid.crs is not None
    middle, moved = (grid.xy(grid.width / 2 + k * cols, grid.height / 2 + k * rows) for k in (0, 1))
    t = transformer(grid.crs, "EPSG:4326")
    found = vincenty(t.transform(*middle), t.transform(*moved))
    return None if found is None else found[0]


@check(
    "shift_matches_source",
    catches=("wrong sign", "stale artifact", "another scene's result"),
    limits=("full_look_px",),
    reads=("/evidence/intermediate/nodes", "/inputs"),
    family="consistency",
)
def shift_matches_source(case: Case) -> Finding:
    """The shift that co-registration, or a comparison of two dates, tells is the one at which the edges of the two sources fit
    best, found again in whole pixels by the correlation of all of them."""
    if case.observation.tool == "perceive":
        return _dates_match_source(case)
    found = told_of(case, "raster.product.coregister")
    node = next((n for n in case.nodes.values() if n["op"] == "raster.product.coregister"), None)
    if not found or node is None or len(node["inputs"]) != 2:
        return not_applicable("no co-registration")
    k, told, _ = found[0]
    shift, at = told.get("shift_px"), (f"/evidence/intermediate/nodes/{k}/shift_px", "/inputs")
    mine = [number_of(v) for v in shift] if isinstance(shift, list) else []
    if len(mine) != 2 or mine[0] is None or mine[1] is None:
        return inconclusive("The shift is not on record.", at=at)
    edges = []
    try:
        look = look_of(case)
        for name in node["inputs"]:
            plane = look.every_pixel(name, scene_of_node(case, name).grid)
            if not plane.valid.any():
                return not_applicable("no valid pixel")
            filled = np.where(plane.valid, plane.data, float(plane.data[plane.valid].mean()))
            edge = ndimage.gaussian_gradient_magnitude(filled, 1.0) * ndimage.binary_erosion(plane.valid, iterations=3)
            edges.append(edge - edge.mean())
    except CannotLookError as why:
        return not_applicable(str(why))
    if edges[0].shape != edges[1].shape:
        return not_applicable("the two lie on different grids")
    peak, _ = _peak(edges[0], edges[1])
    if any(abs(a - b) > 1.5 for a, b in zip((mine[0], mine[1]), peak, strict=True)):
        return failed("The edges of the two fit best at another shift.", measured=mine, expected=peak, unit="px", at=at)
    return passed("The edges of the two fit best at this shift.", measured=mine, expected=peak, unit="px", at=at)


def _peak(one: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[list[int], float]:
    """(rows, columns) by which edges fit best, and how alike they are there, in −1 to 1."""
    norm = float(np.sqrt((one**2).sum() * (other**2).sum()))
    likeness = np.fft.ifft2(np.fft.fft2(one) * np.conj(np.fft.fft2(other))).real
    best = np.unravel_index(int(likeness.argmax()), likeness.shape)
    peak = [int(b) - n if b > n // 2 else int(b) for b, n in zip(best, likeness.shape, strict=True)]
    return peak, float(likeness.max()) / norm if norm > 0 else 0.0


def _dates_match_source(case: Case) -> Finding:
    """The shift between two dates on one grid, in whole pixels; not applicable where their edges have too little in common."""
    told, at = case.evidence("intermediate", "shift_px"), ("/evidence/intermediate/shift_px", "/inputs")
    mine = [number_of(v) for v in told] if isinstance(told, (list, tuple)) else []
    if len(mine) != 2 or mine[0] is None or mine[1] is None or len(case.used_scenes) != 2:
        return not_applicable("no shift between two dates")
    first, second = case.used_scenes
    entries = mapping_entries(case)
    held = [sorted({i for _, of, _, i in entries if of == s.scene_id}) for s in (first, second)]
    is_small = first.grid.width * first.grid.height <= case.limits.full_look_px
    readers = [case.open(s.scene_id) for s in (first, second)]
    if first.grid != second.grid or not all(held) or not is_small or (case.evidence_number("intermediate", "step") or 1) != 1:
        return not_applicable("the two dates are not looked at pixel by pixel on one grid")
    if readers[0] is None or readers[1] is None or any(s.dtype.startswith("complex") for s in (first, second)):
        return not_applicable("the source's pixels are not at hand")
    edges = []
    for reader, bands in zip((readers[0], readers[1]), held, strict=True):
        read = reader.read(bands)
        data, valid = np.asarray(read.data, dtype=np.float64).mean(axis=0), np.asarray(read.valid.all(axis=0))
        if not valid.any():
            return not_applicable("no valid pixel")
        inner = ndimage.binary_erosion(valid, iterations=3)
        edge = ndimage.gaussian_gradient_magnitude(np.where(valid, data, data[valid].mean()), 1.0)
        # the brightest edges alone would outvote all others
        edge = np.minimum(edge, np.percentile(edge[inner], 98)) if inner.any() else edge
        edges.append((edge - edge[inner].mean()) * inner if inner.any() else edge)
    peak, likeness = _peak(edges[1], edges[0])
    if likeness < case.limits.shift_likeness:
        return not_applicable("the edges of the two dates have too little in common")
    if any(abs(a - b) > 1.5 for a, b in zip((mine[0], mine[1]), peak, strict=True)):
        return failed("The edges of the two dates fit best at another shift.", measured=mine, expected=peak, unit="px", at=at)
    return passed("The edges of the two dates fit best at this shift.", measured=mine, expected=peak, unit="px", at=at)


@check(
    "pan_lies_on_bands",
    catches=("shifted mask", "another scene's result"),
    limits=("pan_shift_px", "shift_likeness", "full_look_px"),
    reads=("/inputs", "/arguments/nodes"),
    family="geometry",
)
def pan_lies_on_bands(case: Case) -> Finding:
    """A panchromatic band lies on the bands that it sharpens: their edges fit best where they lie, to a pixel of the bands. Else
    each pixel has the brightness of another place."""
    node = next((case.nodes[n] for n in case.upstream(case.output) if case.nodes[n]["op"] == "raster.product.pansharpen"), None)
    if node is None or len(node["inputs"]) < 3:
        return not_applicable("nothing is sharpened")
    *names, last = node["inputs"]
    at = ("/inputs", "/arguments/nodes")
    try:
        look, fine = look_of(case), scene_of_node(case, last).grid
        pan = look.every_pixel(last, fine)
        rough = scene_of_node(case, names[0]).grid
        alike = [n for n in names if scene_of_node(case, n).grid == rough]
        planes = [look.every_pixel(n, rough) for n in alike]
    except CannotLookError as why:
        return not_applicable(str(why))
    if fine.crs is None or rough.crs != fine.crs or fine.gsd_m is None or rough.gsd_m is None:
        return not_applicable("the bands are not in one CRS")
    ratio = max(1.0, rough.gsd_m / fine.gsd_m)
    # where the middle of each panchromatic pixel lies among the middles of the bands' pixels
    col, row = np.meshgrid(np.arange(fine.width) + 0.5, np.arange(fine.height) + 0.5)
    cols, rows = rough.colrow(*fine.xy(col, row))  # type: ignore[arg-type]
    places = np.array([np.asarray(rows) - 0.5, np.asarray(cols) - 0.5])
    mean = np.mean([p.data for p in planes], axis=0)
    known = np.all([p.valid for p in planes], axis=0)
    valid = pan.valid & (ndimage.map_coordinates(known.astype(float), places, order=1, cval=0.0) > 0.999)
    if valid.sum() < 256:
        return not_applicable("too few pixels are valid in all bands")
    smooth = [ndimage.map_coordinates(np.where(known, mean, mean[known].mean()), places, order=1, mode="nearest")]
    smooth.append(ndimage.gaussian_filter(np.where(pan.valid, pan.data, pan.data[pan.valid].mean()), ratio / 2))
    inner = ndimage.binary_erosion(valid, iterations=3)
    edges = []
    for one in smooth:
        edge = ndimage.gaussian_gradient_magnitude(one, max(1.0, ratio / 2)) * inner
        edge = (edge - edge[inner].mean()) * inner if inner.any() else edge
        edges.append(edge)
    norm = float(np.sqrt((edges[0] ** 2).sum() * (edges[1] ** 2).sum()))
    if norm == 0:
        return not_applicable("the bands have no edges")
    likeness = np.fft.ifft2(np.fft.fft2(edges[1]) * np.conj(np.fft.fft2(edges[0]))).real / norm
    best = np.unravel_index(int(likeness.argmax()), likeness.shape)
    peak = [int(b) - n if b > n // 2 else int(b) for b, n in zip(best, likeness.shape, strict=True)]
    away = math.hypot(*peak) / ratio
    if float(likeness.max()) < case.limits.shift_likeness or likeness.max() < likeness[0, 0] + 0.02:
        return passed("No other place fits the edges of the bands better.", measured=float(likeness[0, 0]), at=at)
    # whole pixels of the panchromatic band are looked at: half of one more may be the step
    if away > case.limits.pan_shift_px + 0.5 / ratio:
        return failed(
            "The panchromatic band lies beside the bands: each pixel has the brightness of another place.",
            measured=away,
            expected=f"≤ {case.limits.pan_shift_px:g}",
            unit="px",
            at=at,
        )
    return passed("The panchromatic band lies on the bands.", measured=away, unit="px", at=at)
