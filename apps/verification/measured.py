"""What a figure was taken of: the layer that a call names, the part of it that was asked for, the size of its pixels and how
they count."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.observation import LayerRef, Observation
from apps.core.geo.grid import Grid, geod_of, transformer
from apps.verification.case import Case, Finding, failed, number_of
from apps.verification.look import Look
from apps.verification.pixel_areas import weights_due
from apps.verification.planes import CannotLookError, same_grid
from apps.verification.units import to_si


def limits_the_count(case: Case) -> bool:
    """Whether a measure's call counts only a part of its layer: by a region, a relation, a distance or a condition."""
    spec = case.arguments.get("spec")
    return case.arguments.get("region") is not None or (
        isinstance(spec, dict) and any(bool(spec.get(k)) for k in ("relation", "reference", "distance_m", "where"))
    )


def source_layer(case: Case, kinds: tuple[str, ...]) -> LayerRef | None:
    """The parents' layer that a measure reads, where it reads exactly one."""
    sources = case.arguments.get("sources")
    wanted = []
    for source in sources if isinstance(sources, list) else ():
        layer = source.get("layer") if isinstance(source, dict) else None
        if isinstance(layer, dict) and isinstance(layer.get("observation"), str):
            wanted.append((layer["observation"], str(layer.get("label") or "")))
    if len(wanted) != 1:
        return None
    parent: Observation | None = next((p for p in case.parents if p.id == wanted[0][0]), None)
    if parent is None:
        return None
    refs = [
        r for r in parent.result.layers if r.kind in kinds and not r.is_aside and (not wanted[0][1] or r.label == wanted[0][1])
    ]
    return refs[0] if len(refs) == 1 or (refs and not wanted[0][1]) else None


def measured_mask(case: Case, *, of_any_size: bool = False) -> LayerRef | None:
    """The mask that a value is made from: the parents' for measure, its own for the others; a small one unless
    ``of_any_size``."""
    ref = source_layer(case, ("mask",)) if case.observation.tool == "measure" else case.layer("mask")
    return ref if ref is not None and (of_any_size or case.is_small(ref)) else None


def strips(case: Case, ref: LayerRef) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_], Grid]]:
    """(true, valid, grid) of a mask strip by strip, both inside the region of the call. Raises LayerUnreadableError."""
    grid = ref.grid
    assert grid is not None
    for top, mask, valid in case.mask_strips(ref):
        inside = inside_of_call(case, ref, (0, top, mask.shape[1], mask.shape[0]))
        if inside is not None and inside.shape == valid.shape:
            valid = valid & inside
        yield mask & valid, valid, grid if mask.shape == grid.shape else grid.window(0, top, mask.shape[1], mask.shape[0])


def inside_of_call(case: Case, ref: LayerRef, window: tuple[int, int, int, int] | None = None) -> NDArray[np.bool_] | None:
    """The region of the call itself on a layer's grid, or in a window of it."""
    if not case.is_limited or ref.grid is None:
        return None
    grid = ref.grid
    try:
        return Look(case).region(grid, window or (0, 0, grid.width, grid.height))
    except CannotLookError:
        return None


def mask_in_call(case: Case, ref: LayerRef) -> NDArray[np.bool_]:
    """The pixels of a mask that are True, valid, and inside the region of the call. Raises LayerUnreadableError."""
    mask, valid = case.mask(ref)
    inside = inside_of_call(case, ref)
    return mask & valid if inside is None or inside.shape != mask.shape else mask & valid & inside


THINNED = "the layer may hold every 2nd, 4th, … pixel alone; layer_agrees_with_figures looks at it as at a sample"


# layers of fewer pixels hold all of them
_ALWAYS_WHOLE_PX = 240_000


def may_be_thinned(case: Case, ref: LayerRef) -> bool:
    """True for a large layer of a graph that is on none of the scenes' grids: of large rasters a part of the pixels is kept."""
    grid = ref.grid
    if grid is None or not case.nodes or grid.width * grid.height < _ALWAYS_WHOLE_PX:
        return False
    return not any(same_grid(grid, s.grid) for s in case.used_scenes)


def gsd_of(case: Case, ref: LayerRef) -> float | None:
    """Metres of a pixel of a layer: those that the call gives, else those of the scene under it; None where nobody knows."""
    sources = case.arguments.get("sources")
    for source in sources if isinstance(sources, list) else ():
        given = number_of(source.get("gsd_m")) if isinstance(source, dict) else None
        if given is not None:
            return given
    scene = case.scenes.get(ref.source_scene_id or "")
    if scene is None and len(case.scenes) == 1:
        scene = next(iter(case.scenes.values()))
    return scene.gsd_m if scene else None


def has_relation(case: Case) -> bool:
    """Whether a measure's call asks for more than the plain figure: a relation, a distance, a condition or a statistic."""
    spec = case.arguments.get("spec")
    told = ("relation", "reference", "distance_m", "where", "statistic")
    return isinstance(spec, dict) and any(bool(spec.get(k)) for k in told)


def weights_of_node(case: Case, grid: Grid, node_id: str = "") -> tuple[str, Finding | None]:
    """(``area`` or ``pixels``, what is wrong): how pixels of the grid have to count in the mean or share of a node, by what was
    asked and by how much they differ in area inside the region; and whether the record says so. Of a measure by areas where they
    are known. Raises CannotLookError."""
    node_id = node_id or case.output
    node = case.nodes.get(node_id)
    if node is None or not node["op"].startswith("raster.summarize."):
        is_measure = case.observation.tool == "measure" and grid.crs is not None
        return (weights_due(grid, Look(case).spanned(grid), "auto", "") if is_measure else "pixels"), None
    statistic = "share" if node["op"] == "raster.summarize.share" else str(node["params"].get("statistic") or "mean")
    told, at = told_weights(case, node_id)
    due = Look(case).weights(grid, statistic, str(node["params"].get("weights") or "auto"), told)
    return due, wrong_weights(told, due, at)


def told_weights(case: Case, node_id: str) -> tuple[str, str]:
    """(how pixels count by the record of a node, where it says so); '' where it does not."""
    held = case.evidence("intermediate", "nodes")
    for k, told in enumerate(held if isinstance(held, list) else ()):
        if isinstance(told, dict) and told.get("id") == node_id:
            return str(told.get("weights") or ""), f"/evidence/intermediate/nodes/{k}/weights"
    return "", "/evidence/intermediate/nodes"


def wrong_weights(told: str, due: str, at: str) -> Finding | None:
    """What is wrong where a record says that pixels count otherwise than they have to, or None."""
    if told in ("", due):
        return None
    return failed(
        "Pixels differ in area here, and the figure is told to count each alike."
        if due == "area"
        else "The figure is told to be by area, and each pixel had to count alike.",
        measured=told,
        expected=due,
        at=(at,),
    )


def value_si(case: Case) -> float:
    """The value in SI units; NaN where there is none. Zero is a value."""
    found = None if case.value is None else to_si(case.value, case.observation.result.unit)
    return math.nan if found is None else found


def pixel_m(grid: Grid, gsd_m: float | None) -> tuple[float, float] | None:
    """Metres of a step along a row and along a column at the grid's middle; None for rotated grids and unknown sizes."""
    if grid.crs is None:
        return None if gsd_m is None else (gsd_m, gsd_m)
    _, b, _, d, _, _ = grid.transform
    if b or d:
        return None
    c, r = grid.width / 2, grid.height / 2
    t = transformer(grid.crs, "EPSG:4326")
    at, right, down = (t.transform(*grid.xy(*p)) for p in ((c, r), (c + 1, r), (c, r + 1)))
    geod = geod_of("EPSG:4326")
    return float(geod.inv(*at, *right)[2]), float(geod.inv(*at, *down)[2])
