"""Consistency of the pixels of a raster or mask with what its rule gives for the source's own pixels."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.veils import unveiled
from apps.verification.look import Look, look_of
from apps.verification.placed import grid_offset
from apps.verification.planes import CannotLookError, Plane
from apps.verification.scattered import places_of
from apps.verification.sights import look_windows, scene_of_node, step_of


@check(
    "raster_matches_source",
    catches=("scale or offset twice or never", "wrong band mapping", "stale artifact", "leaked or shifted mask"),
    limits=("raster_agreement", "raster_tolerance", "validity_agreement", "look_windows"),
    reads=("/result/layers", "/inputs"),
    family="consistency",
)
def raster_matches_source(case: Case) -> Finding:
    """Pixels of a result raster are those that the formula gives for the source's pixels, and are valid where those are."""
    ref = case.layer("raster")
    if ref is None or ref.grid is None or not case.is_small(ref):
        return not_applicable("no raster that can be looked at")
    if sum(r.kind == "raster" for r in case.observation.result.layers) > 1:
        return not_applicable("several rasters")
    try:
        look = look_of(case)
        made = _raster_maker(case, look)
        if made is None:
            return not_applicable("the rule of the raster is not known")
        scene, make = made
        raster = case.raster(ref)
        wrong, n, unlike, seen = _against(case, look, scene, make, raster.data[0], raster.valid[0], ref.grid)
    except (CannotLookError, LayerUnreadableError) as why:
        return not_applicable(str(why))
    return _verdict(case, "raster", wrong, n, unlike, seen, case.limits.raster_agreement)


def _node_of_layer(case: Case, kind: str) -> str | None:
    """The product node that the layer of a kind shows: a mask's threshold, or the raster that it was cut from."""
    node = case.nodes.get(case.output)
    if node is None:
        return None
    at = case.output if node["op"].startswith("raster.product") else str(node["inputs"][0]) if len(node["inputs"]) == 1 else ""
    if at not in case.nodes or not case.nodes[at]["op"].startswith("raster.product"):
        return None
    is_mask = case.nodes[at]["op"] == "raster.product.threshold"
    if is_mask and kind == "raster":
        return str(case.nodes[at]["inputs"][0]) if len(case.nodes[at]["inputs"]) == 1 else None
    return at if is_mask == (kind == "mask") else None


def _against(
    case: Case,
    look: Look,
    scene: SceneInfo,
    make: Callable[[Window], Plane],
    data: NDArray[Any],
    valid: NDArray[np.bool_],
    grid: Grid,
) -> tuple[int, int, int, int]:
    """(differing pixels, pixels valid on both sides, pixels valid on one side only, pixels looked at)."""
    offset = grid_offset(grid, scene.grid)
    if offset is None:
        raise CannotLookError("the layer is on another grid")
    dc, dr = round(offset[0]), round(offset[1])
    wrong = both = unlike = seen = 0
    windows, _ = look_windows(case, grid)
    for col, row, width, height in windows:
        plane = make((col + dc, row + dr, width, height))
        places = places_of((col, row, width, height), step_of(case, (col, row, width, height)))
        there = places.take(valid, (col, row, width, height))
        values = places.take(data, (col, row, width, height)).astype(np.float64)
        mine = plane.valid
        region = look.region(scene.grid, (col + dc, row + dr, width, height))
        joint = mine & there
        spread = float(np.std(plane.data[joint])) if joint.any() else 0.0
        with np.errstate(invalid="ignore"):
            differs = np.abs(values - plane.data) > max(case.limits.raster_tolerance * max(spread, 1e-6), 1e-6) + 1e-5 * np.abs(
                plane.data
            )
        wrong += int((differs & joint).sum())
        both += int(joint.sum())
        # outside the region a layer may be masked or not
        unlike += int(((mine != there) if region is None else (mine != there) & region).sum())
        seen += int(there.size if region is None else region.sum())
    return wrong, both, unlike, seen


def _verdict(case: Case, what: str, wrong: int, both: int, unlike: int, seen: int, needed: float) -> Finding:
    at = ("/result/layers", "/inputs")
    if seen == 0 or (both == 0 and unlike == 0):
        return not_applicable("nothing valid lies where the second look went")
    same = 1 - wrong / both if both else 0.0
    alike = 1 - unlike / seen
    scores = {"look_agreement": min(same, alike)}
    if both == 0 or same < needed:
        return failed(
            f"The {what} is not what the source's pixels give: {wrong} of {both} pixels differ.",
            measured=same,
            expected=f"≥ {needed}",
            at=at,
            scores=scores,
        )
    if alike < case.limits.validity_agreement:
        return failed(
            f"The {what} is valid where the source is not, or the other way round: {unlike} of {seen} pixels.",
            measured=alike,
            expected=f"≥ {case.limits.validity_agreement}",
            at=at,
            scores=scores,
        )
    return passed(f"The {what} is what the source's pixels give.", measured=same, expected=f"≥ {needed}", at=at, scores=scores)


def _raster_maker(case: Case, look: Look) -> tuple[SceneInfo, Callable[[Window], Plane]] | None:
    """(scene, plane maker) of the raster layer: a graph's product, or the index that a mask was cut from."""
    if case.nodes:
        node = _node_of_layer(case, "raster")
        return None if node is None else (scene_of_node(case, node), lambda w: look.node(node, w))
    made = mask_maker(case, look)
    return None if made is None or made[2] is None else (made[0], made[2])


def otsu(values: NDArray[np.float64], bins: int = 256) -> float:
    """Otsu's threshold (1979) of values: the histogram cut with the greatest variance between its sides."""
    counts, edges = np.histogram(values, bins=bins)
    centers = (edges[:-1] + edges[1:]) / 2
    weight = counts.astype(float)
    below, above = np.cumsum(weight), np.cumsum(weight[::-1])[::-1]
    total = np.cumsum(weight * centers)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean_below, mean_above = total / below, (total[-1] - total + weight * centers) / above
        between = below[:-1] * above[1:] * (mean_below[:-1] - mean_above[1:]) ** 2
    return float(centers[:-1][np.nanargmax(between)])


def _stated_threshold(case: Case) -> float | None:
    """The threshold that the tool says it used."""
    held = case.evidence("source", "thresholds")
    if isinstance(held, dict):
        for value in held.values():
            found = number_of(value.get("value") if isinstance(value, dict) else value)
            if found is not None:
                return found
    return number_of(held)


@check(
    "mask_matches_source",
    catches=(
        "leaked or shifted mask",
        "wrong threshold",
        "dropped tile",
        "wrong band mapping",
        "stale artifact",
        "fill counted as data",
    ),
    limits=("mask_agreement", "validity_agreement", "look_windows", "full_look_px"),
    reads=("/result/layers", "/inputs", "/arguments"),
    family="consistency",
)
def mask_matches_source(case: Case) -> Finding:
    """A mask is what the asked index, band or class gives for the source's pixels at the asked threshold."""
    ref = case.layer("mask")
    if ref is None or ref.grid is None or not case.is_small(ref):
        return not_applicable("no mask")
    try:
        look = look_of(case)
        made = mask_maker(case, look)
        if made is None:
            return not_applicable("no rule that can be followed")
        scene, make, plain, _side, threshold, slack = made
        mask, valid = case.mask(ref)
        wrong, both, unlike, seen = _against(case, look, scene, make, mask.astype(np.float64), valid, ref.grid)
    except (CannotLookError, LayerUnreadableError) as why:
        return not_applicable(str(why))
    found = _verdict(case, "mask", wrong, both, unlike, seen, case.limits.mask_agreement - slack)
    extra = dict(found.scores)
    if plain is not None and threshold is not None:
        extra.update(_separation(case, plain, scene, threshold))
    return Finding(
        found.outcome, found.message, found.measured, found.expected, found.unit, found.pointers, found.severity, extra
    )


Maker = tuple[SceneInfo, Callable[[Window], Plane], "Callable[[Window], Plane] | None", str, "float | None", float]


def mask_maker(case: Case, look: Look) -> Maker | None:
    """(scene, mask plane maker, plain plane maker, side, threshold, slack) of the mask's rule; None where there is none."""
    if case.nodes:
        node = _node_of_layer(case, "mask")
        if node is None or case.nodes[node]["op"] != "raster.product.threshold" or not case.nodes[node]["inputs"]:
            return None
        below = case.nodes[node]["inputs"][0]
        op = str(case.nodes[node]["params"].get("op"))
        return (
            scene_of_node(case, node),
            lambda w: look.node(node, w),
            lambda w: look.node(below, w),
            "above" if op.startswith(">") else "below",
            number_of(case.nodes[node]["params"].get("value")),
            0.0,
        )
    method = case.regions_method
    if case.observation.tool != "perceive" or case.arguments.get("mode") != "regions" or not method:
        return None
    if len(case.used_scenes) != 1:
        return None
    scene = case.used_scenes[0]
    # specks below min_px are dropped by the tool: their share is allowed to differ
    slack = 0.05 if number_of(method.get("min_px")) else 0.0
    kind = method.get("kind", "index_threshold")
    if kind == "class_value":
        role = next((b.role for b in scene.bands if b.role == "class"), None)
        values = [number_of(v) for v in method.get("values") or ()]
        if role is None or not values or any(v is None for v in values):
            return None
        wanted = np.array([float(v) for v in values if v is not None])

        def classes(window: Window) -> Plane:
            plane = unveiled(case, scene, look.bands(scene, (role,), window)[role], window)
            return Plane(np.isin(plane.data, wanted).astype(np.float64), plane.valid)

        return scene, classes, None, "", None, slack
    if kind == "index_threshold" and method.get("index"):
        name = str(method["index"]).lower()

        def plain(window: Window) -> Plane:
            return unveiled(case, scene, look.index(scene, name, window), window)
    elif kind == "band_threshold" and method.get("band"):
        band = str(method["band"])

        def plain(window: Window) -> Plane:
            return unveiled(case, scene, look.bands(scene, (band,), window)[band], window)
    else:
        return None
    asked, stated = method.get("threshold"), _stated_threshold(case)
    threshold = number_of(asked)
    if threshold is None:
        if stated is None:
            return None
        threshold = stated
        if asked == "otsu":
            joined, _ = look.gather(plain, scene.grid)
            if joined.size:
                # the histogram's bins and range are the tool's choice: half the data's spread around Otsu's cut is allowed
                mine = otsu(np.clip(joined, *np.percentile(joined, [0.1, 99.9])))
                if abs(mine - stated) > 0.35 * float(joined.std()) + 1e-6:
                    threshold = mine
    side = str(method.get("side", "above"))
    cut = threshold

    def make(window: Window) -> Plane:
        plane = plain(window)
        with np.errstate(invalid="ignore"):
            return Plane((plane.data > cut if side == "above" else plane.data < cut).astype(np.float64), plane.valid)

    return scene, make, plain, side, threshold, slack


def _separation(case: Case, plain: Callable[[Window], Plane], scene: SceneInfo, threshold: float) -> dict[str, float]:
    """How far the sides of the threshold lie apart (in pooled deviations), and the share of pixels close to it."""
    parts = [p.data[p.valid] for p in (plain(w) for w in look_windows(case, scene.grid)[0])]
    joined = np.concatenate(parts) if len(parts) != 1 else parts[0]
    if joined.size < 20:
        return {}
    if joined.size > 20_000:
        joined = np.random.default_rng(joined.size).choice(joined, 20_000, replace=False)
    high, low = joined[joined > threshold], joined[joined <= threshold]
    spread = float(joined.std()) or 1e-9
    out = {"near_threshold": float((np.abs(joined - threshold) < 0.1 * spread).mean())}
    if high.size > 5 and low.size > 5:
        pooled = math.sqrt((float(high.var()) * high.size + float(low.var()) * low.size) / joined.size) or 1e-9
        out["separation"] = min(6.0, (float(high.mean()) - float(low.mean())) / pooled)
    return out
