"""Consistency of layers: a layer is what the record says of its node, and what the node's inputs give by the verifier's code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.observation import LayerRef
from apps.core.ports import Window
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    not_applicable,
    number_of,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.look import Look, look_of
from apps.verification.planes import CannotLookError, Plane, same_grid
from apps.verification.products import NotFollowedError, Pixels, halo_of
from apps.verification.regrid import Moved, gathered, places_in, sampled
from apps.verification.scattered import places_of
from apps.verification.sights import look_windows, scene_of_node, step_of

# layers of fewer pixels are never thinned
_ALWAYS_WHOLE_PX = 240_000
# of so many rasters under a result the first and the last alone are kept
_MOST_LAYERS = 12


def figures_of_nodes(case: Case) -> dict[str, tuple[int, dict[str, Any]]]:
    """What the evidence tells of each node of a graph: {id: (place in the list, entry)}."""
    held = case.evidence("intermediate", "nodes")
    return {
        str(entry.get("id")): (k, dict(entry))
        for k, entry in enumerate(held if isinstance(held, list) else ())
        if isinstance(entry, dict)
    }


def layers_of_nodes(case: Case) -> list[tuple[int, LayerRef, str]]:
    """(place, layer, id of its node) of a graph's result: of the output where it is a product, else of what it was made from,
    and of the rasters that a mask was cut from. Empty where layers and nodes cannot be told apart."""
    told = figures_of_nodes(case)

    def kind(name: str) -> str:
        return str(told[name][1].get("kind") or "") if name in told and told[name][1].get("status") != "failed" else ""

    # a record may tell of nodes that the call does not have
    if case.output not in told or case.output not in case.nodes:
        return []
    wanted = [case.output] if kind(case.output) else [i for i in case.nodes[case.output]["inputs"] if kind(i)]
    for name in list(wanted):
        if kind(name) == "mask" and name in case.nodes:
            wanted += [i for i in case.nodes[name]["inputs"] if kind(i) not in ("", "mask")]
    wanted = list(dict.fromkeys(wanted))
    if len(wanted) > _MOST_LAYERS:
        wanted = [wanted[0], wanted[-1]]
    refs = [(k, r) for k, r in enumerate(case.observation.result.layers) if r.kind in ("mask", "raster", "classes") and r.grid]
    if len(refs) != len(wanted) or any((r.kind == "mask") != (kind(n) == "mask") for (_, r), n in zip(refs, wanted, strict=True)):
        return []
    return [(k, r, n) for (k, r), n in zip(refs, wanted, strict=True)]


def pixels_of(case: Case, ref: LayerRef) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """(values, valid) of a layer, rows by columns; a mask's values are booleans. LayerUnreadableError."""
    if ref.kind == "mask":
        return case.mask(ref)
    raster = case.raster(ref)
    return raster.data[0], raster.valid[0]


def _candidates(case: Case, ref: LayerRef) -> Iterator[NDArray[Any]]:
    """The layer's valid values, and those inside the region of the call where they are others. LayerUnreadableError."""
    data, valid = pixels_of(case, ref)
    yield case.valid_values(ref) if ref.kind != "mask" else data[valid]
    assert ref.grid is not None
    if case.region is None or data.size > case.limits.dense_look_px:
        return
    try:
        inside = Look(case).region(ref.grid, (0, 0, ref.grid.width, ref.grid.height))
    except CannotLookError:
        return
    if inside is not None and inside.shape == valid.shape:
        yield data[valid & inside]


@check(
    "layer_agrees_with_figures",
    catches=("stale artifact", "leaked or shifted mask", "fill counted as data", "dropped tile"),
    limits=("max_layer_px", "sample_sigmas"),
    reads=("/result/layers", "/evidence/intermediate/nodes"),
    family="consistency",
)
def layer_agrees_with_figures(case: Case) -> Finding:
    """Each layer of a graph has as many valid pixels, and the least, greatest and mean value (or as many true pixels), as the
    record says of its node; a thinned layer has them within the bounds of a sample."""
    told = figures_of_nodes(case)
    seen = 0
    for k, ref, name in layers_of_nodes(case):
        if not case.is_small(ref):
            continue
        place, entry = told[name]
        at = (f"/result/layers/{k}", f"/evidence/intermediate/nodes/{place}")
        try:
            wrong = _unlike(case, ref, entry)
        except LayerUnreadableError:
            continue
        if wrong is None:
            continue
        seen += 1
        if wrong:
            what, measured, expected = wrong
            return failed(
                f"The layer {ref.label or ref.kind} and the record of its node {name} have another {what}.",
                measured=measured,
                expected=expected,
                at=at,
            )
    if not seen:
        return not_applicable("no layer whose node has figures on record")
    return passed("The layers have the figures that are on record.", measured=seen, unit="layers", at=("/result/layers",))


Difference = tuple[str, float, float]


def _unlike(case: Case, ref: LayerRef, entry: dict[str, Any]) -> Difference | tuple[()] | None:
    """(what, in the layer, on record) of the first figure that differs; () where none does, None where nothing is on record."""
    n = number_of(entry.get("n_valid"))
    names = ("n_true",) if ref.kind == "mask" else ("min", "max", "mean")
    figures = {name: v for name in names if (v := number_of(entry.get(name))) is not None}
    if n is None or len(figures) != len(names):
        return None
    assert ref.grid is not None
    whole = ref.grid.width * ref.grid.height < _ALWAYS_WHOLE_PX or any(same_grid(ref.grid, s.grid) for s in case.used_scenes)
    found: Difference | tuple[()] | None = None
    for values in _candidates(case, ref):
        wrong = _exact(case, values, n, figures) if whole else _sampled(case, values, n, figures)
        if not wrong:
            return ()
        # of two readings the one that comes nearer is told
        if not found or found[0] == "number of valid pixels":
            found = wrong
    return found


def _exact(case: Case, values: NDArray[Any], n: float, figures: dict[str, float]) -> Difference | tuple[()]:
    if values.size != n:
        return "number of valid pixels", float(values.size), n
    if "n_true" in figures:
        count = float(np.count_nonzero(values))
        return () if count == figures["n_true"] else ("number of true pixels", count, figures["n_true"])
    if not values.size:
        return ()
    mine = {"min": float(values.min()), "max": float(values.max()), "mean": float(values.mean(dtype=np.float64))}
    # layers are kept in single precision
    room = 1e-6 * max(abs(mine["min"]), abs(mine["max"])) + 1e-12
    for name, title in (("min", "least value"), ("max", "greatest value"), ("mean", "mean")):
        if not abs(mine[name] - figures[name]) <= room:
            return title, mine[name], figures[name]
    return ()


def _sampled(case: Case, values: NDArray[Any], n: float, figures: dict[str, float]) -> Difference | tuple[()]:
    if not values.size or not n:
        return ()
    if "n_true" in figures:
        share, told = float(np.count_nonzero(values)) / values.size, figures["n_true"] / n
        apart = 1.5 * case.limits.sample_sigmas * math.sqrt(max(told * (1 - told), 1 / values.size) / values.size)
        return () if abs(share - told) <= apart else ("share of true pixels", share, told)
    low, high, mean = float(values.min()), float(values.max()), float(values.mean(dtype=np.float64))
    room = 1e-6 * max(abs(low), abs(high)) + 1e-12
    if low < figures["min"] - room:
        return "least value", low, figures["min"]
    if high > figures["max"] + room:
        return "greatest value", high, figures["max"]
    apart = 1.5 * case.limits.sample_sigmas * float(values.std(dtype=np.float64)) / math.sqrt(values.size) + room
    return () if abs(mean - figures["mean"]) <= apart else ("mean", mean, figures["mean"])


_MOVING = frozenset({"raster.product.resample", "raster.product.reproject", "raster.product.coregister"})
# side of the windows in which new grids are looked at, and the pixels up to which they are looked at whole
_MOVED_SIDE, _MOVED_WHOLE_PX = 24, 4096
# of the layers under a result so many are worked out again, spread over them
_LAYERS_LOOKED_AT = 3


@check(
    "layer_follows_from_source",
    catches=("leaked or shifted mask", "wrong threshold", "stale artifact", "fill counted as data", "wrong band mapping"),
    limits=("mask_agreement", "raster_agreement", "raster_tolerance", "validity_agreement", "look_windows", "look_window_px"),
    reads=("/result/layers", "/inputs", "/arguments"),
    family="consistency",
)
def layer_follows_from_source(case: Case) -> Finding:
    """Masks, class maps and rasters that a graph gives or rests on are what its operators give for the source's pixels, by
    formulas of the verifier's own, in windows where neighbours count or the scene is large."""
    found = layers_of_nodes(case)
    seen, why = 0, "no layer whose operator is followed"
    worst = 1.0
    for k, ref, name in found[:: max(1, len(found) // _LAYERS_LOOKED_AT)][:_LAYERS_LOOKED_AT]:
        if not case.is_small(ref) or not case.nodes.get(name, {}).get("op", "").startswith("raster.product."):
            continue
        if _is_looked_at_whole(case, ref, name):
            why = "raster_matches_source and mask_matches_source look at it"
            continue
        try:
            wrong, both, unlike, looked = _compared(case, ref, name)
        except (CannotLookError, LayerUnreadableError) as error:
            why = str(error)
            continue
        if not looked or not (both or unlike):
            continue
        seen += 1
        same, alike = (1 - wrong / both if both else 0.0), 1 - unlike / looked
        worst = min(worst, same, alike)
        what = ref.label or ref.kind
        needed = case.limits.raster_agreement if ref.kind == "raster" else case.limits.mask_agreement
        message, measured = "", same
        if not both or same < needed:
            message = f"The layer {what} is not what {name} gives for the source: {wrong} of {both} pixels differ."
        elif alike < case.limits.validity_agreement:
            message = f"The layer {what} is valid where {name} is not, or the other way round: {unlike} of {looked} pixels."
            measured, needed = alike, case.limits.validity_agreement
        if message:
            return failed(
                message,
                measured=measured,
                expected=f"≥ {needed}",
                at=(f"/result/layers/{k}", "/inputs"),
                scores={"look_agreement": worst},
            )
    if not seen:
        return not_applicable(why)
    return passed(
        "The layers are what their operators give for the source's pixels.",
        measured=seen,
        unit="layers",
        at=("/result/layers",),
        scores={"look_agreement": worst},
    )


def _halos(case: Case, name: str) -> list[int]:
    """How far each of the products that a node is made from looks about a pixel, where it does."""
    return [h for n in case.upstream(name) if (h := halo_of(case.nodes[n]["op"], case.nodes[n]["params"])) is not None]


def _is_looked_at_whole(case: Case, ref: LayerRef, name: str) -> bool:
    """True for the one raster, or the mask by a threshold, of a plain result: other checks compare those pixel by pixel."""
    is_plain = name == case.output or len(case.nodes[case.output]["inputs"]) == 1
    alone = sum(r.kind == "raster" for r in case.observation.result.layers) == 1
    ops = {"raster.summarize.zonal", *_MOVING}
    if not is_plain or _halos(case, name) or ops & {case.nodes[n]["op"] for n in (*case.upstream(name), case.output)}:
        return False
    return alone if ref.kind == "raster" else case.nodes[name]["op"] == "raster.product.threshold"


def _windows(case: Case, ref: LayerRef, name: str) -> list[Window]:
    """Where a layer is looked at: all of a small one; else windows, smaller ones where many neighbours count."""
    assert ref.grid is not None
    halos = _halos(case, name)
    if not halos:
        return look_windows(case, ref.grid)[0]
    size = 2 * sum(halos) + 1
    if ref.grid.width * ref.grid.height * size * size <= 250_000:
        return [(0, 0, ref.grid.width, ref.grid.height)]
    side = max(4, min(case.limits.look_window_px, 300 // size))
    return look_windows(case, ref.grid, side)[0]


def _compared(case: Case, ref: LayerRef, name: str) -> tuple[int, int, int, int]:
    """(differing pixels, valid on both sides, valid on one side only, looked at) of a layer against its node's second look."""
    if case.nodes[name]["op"] in _MOVING:
        return _compared_elsewhere(case, ref, name)
    look, scene = look_of(case), scene_of_node(case, name)
    grid = ref.grid
    assert grid is not None
    if not same_grid(grid, scene.grid):
        raise CannotLookError("the layer is on another grid")
    data, valid = pixels_of(case, ref)
    wrong = both = unlike = looked = 0
    for window in _windows(case, ref, name):
        plane: Plane = look.node(name, window)
        places = places_of(window, step_of(case, window))
        theirs, there = places.take(data, window).astype(np.float64), places.take(valid, window)
        region = look.region(scene.grid, window)
        joint = plane.valid & there
        if ref.kind == "mask":
            differs = (theirs != 0) != (plane.data != 0)
        else:
            spread = float(np.std(plane.data[joint])) if joint.any() else 0.0
            with np.errstate(invalid="ignore"):
                differs = np.abs(theirs - plane.data) > max(
                    case.limits.raster_tolerance * max(spread, 1e-6), 1e-6
                ) + 1e-5 * np.abs(plane.data)
        wrong += int((differs & joint).sum())
        both += int(joint.sum())
        # outside the region a layer may be masked or not
        mixed = plane.valid != there
        unlike += int((mixed if region is None else mixed & region).sum())
        looked += int(there.size if region is None else region.sum())
    return wrong, both, unlike, looked


def _compared_elsewhere(case: Case, ref: LayerRef, name: str) -> tuple[int, int, int, int]:
    """As ``_compared``, of a layer whose node brought a raster to another grid, or moved it onto another raster."""
    look, node = look_of(case), case.nodes[name]
    source_name, params = node["inputs"][0], node["params"]
    if case.region is not None:
        raise CannotLookError("a region on another grid is not followed")
    source, grid = scene_of_node(case, source_name).grid, ref.grid
    assert grid is not None
    told = figures_of_nodes(case)[name][1]
    is_class = told.get("kind") in ("mask", "classes")
    method = str(params.get("method") or ("nearest" if is_class else "bilinear"))
    if method in ("average", "mode") and grid.width * grid.height >= _ALWAYS_WHOLE_PX:
        raise CannotLookError("the layer may be thinned")
    share = number_of(params.get("least_share", 0.5))

    def read(window: Window) -> Pixels:
        plane = look.node(source_name, window)
        return plane.data, plane.valid

    def make(window: Window) -> Moved:
        if node["op"] == "raster.product.coregister":
            raw = told.get("shift_px")
            shift = [number_of(v) for v in raw] if isinstance(raw, (list, tuple)) else []
            if len(shift) != 2 or shift[0] is None or shift[1] is None or not same_grid(grid, source):
                raise CannotLookError("the shift is not on record, or the grids differ")
            col, row, width, height = window
            x, y = np.meshgrid(np.arange(col, col + width) + 0.5 + shift[1], np.arange(row, row + height) + 0.5 + shift[0])
            return sampled(read, source, x, y, "bilinear")
        if method in ("average", "mode"):
            return gathered(read, source, grid, window, method, 0.5 if share is None else share)
        return sampled(read, source, *places_in(source, grid, window), method)

    data, valid = pixels_of(case, ref)
    whole = grid.width * grid.height <= _MOVED_WHOLE_PX
    windows = [(0, 0, grid.width, grid.height)] if whole else look_windows(case, grid, _MOVED_SIDE)[0]
    wrong = both = unlike = looked = 0
    try:
        for window in windows:
            mine = make(window)
            at = np.s_[window[1] : window[1] + window[3], window[0] : window[0] + window[2]]
            theirs, there = data[at].astype(np.float64), valid[at]
            joint = mine.valid & there & mine.sure
            spread = float(np.std(mine.data[joint])) if joint.any() else 0.0
            room = max(case.limits.raster_tolerance * max(spread, 1e-6), 1e-6)
            wrong += int(((np.abs(theirs - mine.data) > room + 1e-5 * np.abs(mine.data)) & joint).sum())
            both += int(joint.sum())
            unlike += int(((mine.valid != there) & mine.sure).sum())
            looked += int(mine.sure.sum())
    except NotFollowedError as why:
        raise CannotLookError(str(why)) from why
    return wrong, both, unlike, looked
