"""What would settle a doubt: machine-readable requests that the loop merges into the call's arguments and executes.

``arguments`` holds changes to the call's own arguments (top-level keys replace). The supporting observation that comes back is
compared with the first one (``support``), and the agreement is a feature of the next judgement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import ndimage

from apps.core.evidence.decision import CheckResult, EvidenceRequest, RequestKind
from apps.verification.case import Case, LayerUnreadableError, number_of
from apps.verification.checks.holes import series_filled
from apps.verification.checks.seen import quality_masked, valid_share
from apps.verification.checks.veils import call_with_mask
from apps.verification.formulas import INDICES
from apps.verification.placed import bounds_of_layer
from apps.verification.planes import same_grid

# Another index that answers the same question, by target; the first whose bands the scene has is taken.
OTHER_INDEX: dict[str, tuple[str, ...]] = {
    "ndwi": ("mndwi",),
    "mndwi": ("ndwi",),
    "ndvi": ("savi", "gndvi", "evi2"),
    "savi": ("ndvi",),
    "evi": ("ndvi",),
    "gndvi": ("ndvi",),
    "ndbi": ("bsi",),
    "bsi": ("ndbi",),
    "nbr": ("nbr2",),
}
# The field that a blocking check misses, and the kind of request that names it.
KIND_OF_CHECK = {
    "geometry.gsd_present": "gsd",
    "radiometry.band_roles_as_formula": "band_roles",
    "geometry.mask_grows_alike": "human",
    "completeness.quality_mask_applied": "quality_mask",
    "completeness.series_covers_scenes": "complete_series",
    "completeness.series_without_hole": "complete_series",
}


def _masked_call(case: Case) -> dict[str, Any] | None:
    if case.observation.tool == "perceive":
        return call_with_mask(case)
    nodes = quality_masked(case)
    return {"nodes": nodes} if nodes else None


def _filled_call(case: Case) -> dict[str, Any] | None:
    nodes = series_filled(case)
    return {"nodes": nodes} if nodes else None


# Checks that know the call which would bring what they miss: its arguments.
_REMEDIES: dict[str, Callable[[Case], dict[str, Any] | None]] = {
    "completeness.quality_mask_applied": _masked_call,
    "completeness.series_without_hole": _filled_call,
}


def requests_for_missing(
    checks: tuple[CheckResult, ...] | list[CheckResult], case: Case | None = None
) -> tuple[EvidenceRequest, ...]:
    """One request for each blocking check that lacks its evidence, naming the field and, where the check knows it, the call that
    would bring it."""
    out = []
    for c in checks:
        if c.severity == "block" and c.outcome in ("inconclusive", "errored"):
            for pointer in c.pointers[:6] or ("",):
                kind: Any = KIND_OF_CHECK.get(c.check, "missing_evidence")
                remedy = _REMEDIES.get(c.check)
                call = remedy(case) if remedy is not None and case is not None and c.outcome == "inconclusive" else None
                out.append(
                    EvidenceRequest(
                        kind=kind,
                        reason=f"{c.check}: {c.message}"[:500],
                        field=pointer[:200],
                        arguments=call or {},
                    )
                )
    return tuple(out)


def propose_requests(case: Case, features: Mapping[str, float], contributions: Mapping[str, float]) -> list[EvidenceRequest]:
    """Requests in the order in which they should be tried; never one that was answered already (by ``supporting``)."""
    tool = case.observation.tool
    made = (
        _regions(case)
        if tool == "perceive" and case.arguments.get("mode") == "regions"
        else _objects(case)
        if tool == "perceive" and case.arguments.get("mode") == "objects"
        else _execute(case)
        if tool == "execute"
        else []
    )
    made = [*_unmasked(case), *made]
    tried = [o.arguments for o in case.supporting]
    fresh = [r for r in made if not any(all(a.get(k) == v for k, v in r.arguments.items()) for a in tried)]
    if not fresh:
        weakest = min(contributions, key=lambda k: contributions[k], default="")
        fresh = [
            EvidenceRequest(kind="human", reason=f"No other method is at hand; the weakest point is {weakest or 'unknown'}.")
        ]
    return fresh[:3]


# What a person may ask for, in the order in which it is listed. The other kinds ask a person: they are no call.
ASKABLE: tuple[RequestKind, ...] = (
    "second_method",
    "second_detector",
    "other_scale",
    "closer_look",
    "refined_mask",
    "quality_mask",
    "other_date",
    "complete_series",
    "recompute",
)


@dataclass(frozen=True, slots=True)
class Offer:
    """A kind of evidence that a person may ask for: the request that would be executed, or None and why it cannot be."""

    kind: RequestKind
    request: EvidenceRequest | None
    why_not: str = ""


def offers(case: Case) -> list[Offer]:
    """For each kind in ASKABLE the requests that can be executed for this tool and these inputs, or why there is none."""
    tool, mode = case.observation.tool, case.arguments.get("mode")
    if tool == "perceive" and mode == "regions":
        made = _regions(case)
    elif tool == "perceive" and mode == "objects":
        made = _objects(case)
    else:
        made = _execute(case, is_asked=True) if tool == "execute" else []
    made = [*_unmasked(case), *made]
    if tool == "perceive" and (elsewhere := _other_scene(case)) is not None:
        made.append(
            EvidenceRequest(
                kind="other_date",
                reason=f"The same from the nearest other date of the same place ({_day(case, elsewhere)}).",
                arguments={"image_paths": [elsewhere]},
            )
        )
    out = []
    for kind in ASKABLE:
        mine = [r for r in made if r.kind == kind]
        out += [Offer(kind, r) for r in mine] or [Offer(kind, None, _why_not(case, kind))]
    return out


def _why_not(case: Case, kind: RequestKind) -> str:
    tool, mode = case.observation.tool, case.arguments.get("mode")
    if tool == "measure":
        return "It was measured on an earlier observation, which holds the pixels; ask there."
    is_objects, is_regions = tool == "perceive" and mode == "objects", tool == "perceive" and mode == "regions"
    match kind:
        case "second_method":
            return "This mask is made in one way only." if is_regions else "Only a mask by an index has a second method."
        case "second_detector":
            return "No other detector here knows the class." if is_objects else "No detector was used."
        case "other_scale":
            return "No detector was used."
        case "closer_look":
            if not is_objects:
                return "No detector was used."
            return (
                "The question is limited to a region, which stands in the place of the windows."
                if case.region is not None
                else "No box with a score can be read."
            )
        case "refined_mask":
            return "Its specks are dropped already, or the mask cannot be read." if is_regions else "There is no mask to refine."
        case "quality_mask":
            return "No quality band that can be read was left unused."
        case "other_date":
            if len(case.used_scenes) != 1:
                return "It rests on more than one scene."
            if case.used_scenes[0].acquired_at is None:
                return "The scene has no date."
            days = case.limits.other_date_days
            return f"The question has no other scene of this place, grid and bands within {days} days."
        case "complete_series":
            return "It is no series with a hole that the question's scenes would fill."
        case _:
            if tool == "execute":
                return "No index in it can be written out over its bands; the same call would give the same result."
            return "The same call would give the same result."


def _unmasked(case: Case) -> list[EvidenceRequest]:
    """Of perceive: the same without what the quality band hides, where the call left that unused."""
    call = call_with_mask(case)
    if call is None:
        return []
    reason = "The scene has a quality band that was not used; the same without the pixels that it flags."
    return [EvidenceRequest(kind="quality_mask", reason=reason, arguments=call)]


def _roles(case: Case) -> frozenset[str]:
    found = [s.roles for s in case.used_scenes]
    return frozenset.intersection(*found) if found else frozenset()


def _regions(case: Case) -> list[EvidenceRequest]:
    method = case.arguments.get("regions_method")
    if isinstance(method, dict) and method.get("kind") == "prompt":
        return _seeded(case, method)
    if not isinstance(method, dict) or method.get("kind") != "index_threshold":
        return []
    out = []
    roles = _roles(case)
    for other in OTHER_INDEX.get(str(method.get("index")), ()):
        if other in INDICES and INDICES[other].roles <= roles:
            changed = {**method, "index": other, "threshold": "otsu"}
            out.append(
                EvidenceRequest(
                    kind="second_method",
                    reason=f"The same target by {other} with its own threshold.",
                    arguments={"regions_method": changed},
                )
            )
            break
    other_threshold: Any = 0.0 if method.get("threshold") == "otsu" else "otsu"
    out.append(
        EvidenceRequest(
            kind="second_method",
            reason="The same index with the other way to set its threshold.",
            arguments={"regions_method": {**method, "threshold": other_threshold}},
        )
    )
    if not method.get("min_px"):
        out.append(
            EvidenceRequest(
                kind="refined_mask",
                reason="Drop specks of a few pixels and compare.",
                arguments={"regions_method": {**method, "min_px": 9}},
            )
        )
    return out


def _seeded(case: Case, method: Mapping[str, Any]) -> list[EvidenceRequest]:
    """A mask that grew from prompts, grown again from other ones: the innermost points of the first mask, and points well outside
    of it. What depends on where one pointed comes out otherwise."""
    ref = case.layer("mask")
    if ref is None or not case.is_small(ref):
        return []
    try:
        mask, valid = case.mask(ref)
    except LayerUnreadableError:
        return []
    held = mask & valid
    rows, cols = np.nonzero(held)
    if not rows.size or held.all():
        return []
    margin = 16
    top, left = max(0, int(rows.min()) - margin), max(0, int(cols.min()) - margin)
    part = np.s_[top : int(rows.max()) + margin + 1, left : int(cols.max()) + margin + 1]
    depth, away = (ndimage.distance_transform_edt(np.pad(m, 1))[1:-1, 1:-1] for m in (held[part], (~mask & valid)[part]))
    points: list[Any] = []
    for field, kind in ((depth, 1), (away, 0)):
        field = field.copy()
        for _ in range(3):
            r, c = np.unravel_index(int(np.argmax(field)), field.shape)
            reach = float(field[r, c])
            if reach < 1.5:
                break
            points.append([float(c + left) + 0.5, float(r + top) + 0.5, kind])
            y, x = np.ogrid[: field.shape[0], : field.shape[1]]
            field[(y - r) ** 2 + (x - c) ** 2 <= (2 * reach) ** 2] = 0
    if not any(p[2] for p in points):
        return []
    return [
        EvidenceRequest(
            kind="refined_mask",
            reason="The same segmenter seeded by the first mask: its innermost points, and points well outside.",
            arguments={"regions_method": {**method, "box": None, "points": points}},
        )
    ]


def _objects(case: Case) -> list[EvidenceRequest]:
    asked, used = case.observation.arguments.get("objects_method"), case.observation.arguments_passed.get("objects_method")
    method: dict[str, Any] = {**(used if isinstance(used, dict) else {}), **(asked if isinstance(asked, dict) else {})}
    zoom = _zoom(case) or number_of(method.get("scale")) or 1.0
    other = zoom * 1.5 if zoom * 1.5 <= 8 else zoom / 1.5
    out = [
        EvidenceRequest(
            kind="other_scale",
            reason="The same detector at another scale.",
            arguments={"objects_method": {**method, "scale": round(other, 3)}},
        )
    ]
    windows = _doubtful_windows(case)
    if windows and case.region is None:
        out.append(
            EvidenceRequest(
                kind="closer_look",
                reason=f"{len(windows)} windows around the detections closest to the threshold, in finer tiles.",
                arguments={
                    "region": {"type": "MultiPolygon", "coordinates": [[_ring(w)] for w in windows]},
                    "region_crs": "image",
                    "objects_method": {**method, "scale": round(min(8.0, zoom * 1.25), 3), "tile_px": 320, "overlap": 0.4},
                },
            )
        )
    others = case.evidence("source", "alternatives")
    if isinstance(others, list) and others and isinstance(others[0], str):
        out.append(
            EvidenceRequest(
                kind="second_detector",
                reason="Another detector that knows the class.",
                arguments={"objects_method": {**method, "detector": others[0]}},
            )
        )
    return out


def _zoom(case: Case) -> float | None:
    """The zoom of the first pass of the detector, as it is on record."""
    passes = case.evidence("intermediate", "passes")
    first = passes[0] if isinstance(passes, list) and passes and isinstance(passes[0], dict) else {}
    return number_of(first.get("zoom"))


def _ring(window: list[int]) -> Any:
    """The closed ring of a window, as GeoJSON."""
    c, r, w, h = window
    return [[c, r], [c + w, r], [c + w, r + h], [c, r + h], [c, r]]


def _doubtful_windows(case: Case, side: int = 128, most: int = 6) -> list[list[int]]:
    """[column, row, width, height], apart from each other, around the detections with the lowest scores."""
    ref = next((r for r in case.observation.result.layers if r.kind == "boxes" and not r.is_aside), None)
    scene = case.used_scenes[0] if len(case.used_scenes) == 1 else None
    if ref is None or ref.crs != "image" or scene is None:
        return []
    try:
        features = case.features(ref)
    except LayerUnreadableError:
        return []
    scored = []
    for feature, (x0, y0, x1, y1) in zip(features, bounds_of_layer(case, ref).tolist(), strict=True):
        properties = feature.get("properties")
        score = number_of(properties.get("score")) if isinstance(properties, dict) else None
        if score is not None and x0 == x0:
            scored.append((score, (x0 + x1) / 2, (y0 + y1) / 2))
    width, height = min(side, scene.grid.width), min(side, scene.grid.height)
    out: list[list[int]] = []
    for _, x, y in sorted(scored):
        c = min(max(0, int(x) - width // 2), scene.grid.width - width)
        r = min(max(0, int(y) - height // 2), scene.grid.height - height)
        # windows do not overlap: their union must be a valid polygon
        if all(abs(c - o[0]) >= width or abs(r - o[1]) >= height for o in out):
            out.append([c, r, width, height])
        if len(out) == most:
            break
    return out


def _execute(case: Case, *, is_asked: bool = False) -> list[EvidenceRequest]:
    """The same value by another path: the index written out as arithmetic over its bands. Where a person asks (``is_asked``),
    another date need not be called for by how little is valid, and a hole of a series is filled."""
    nodes = case.arguments.get("nodes")
    if not isinstance(nodes, list) or not case.nodes:
        return []
    changed: list[Any] = []
    done = False
    for node in nodes:
        params = node.get("params") if isinstance(node, dict) else None
        formula = (
            INDICES.get(str(params.get("index")))
            if isinstance(params, dict) and node.get("op") == "raster.product.index"
            else None
        )
        if formula is not None and formula.pair is not None:
            changed.append(
                {
                    **node,
                    "op": "raster.product.normalized_difference",
                    "params": {"first": formula.pair[0], "second": formula.pair[1]},
                }
            )
            done = True
        else:
            changed.append(node)
    out = []
    masked = quality_masked(case)
    if masked is not None:
        out.append(
            EvidenceRequest(
                kind="quality_mask",
                reason="The scene has a quality band that was not used; the same without the pixels that it flags.",
                arguments={"nodes": masked},
            )
        )
    found = valid_share(case)
    is_due = is_asked or (found is not None and found[1] < case.limits.low_valid_share)
    elsewhere = _other_scene(case) if is_due else None
    if elsewhere is not None:
        why = (
            f"The same from the nearest other date of the same place ({_day(case, elsewhere)})."
            if is_asked
            else "Little of the scene is valid; the same from the nearest date of the same place."
        )
        out.append(EvidenceRequest(kind="other_date", reason=why, arguments={"nodes": _by_scene(case, nodes, elsewhere)}))
    filled = series_filled(case) if is_asked else None
    if filled is not None:
        out.append(
            EvidenceRequest(
                kind="complete_series",
                reason="The same series with the question's scenes in its longest hole.",
                arguments={"nodes": filled},
            )
        )
    if done:
        out.append(
            EvidenceRequest(
                kind="recompute", reason="The index written out over its bands instead of by name.", arguments={"nodes": changed}
            )
        )
    return out


def _other_scene(case: Case) -> str | None:
    """Of an observation of one scene, the question's scene of the nearest other date; None where there is none of the same place
    and roles within ``other_date_days``."""
    if len(case.used_scenes) != 1:
        return None
    mine = case.used_scenes[0]
    if mine.acquired_at is None:
        return None
    fitting = [
        (abs((s.acquired_at - mine.acquired_at).days), s.scene_id)
        for s in case.scenes.values()
        if s.scene_id != mine.scene_id
        and s.acquired_at is not None
        and abs((s.acquired_at - mine.acquired_at).days) <= case.limits.other_date_days
        and same_grid(s.grid, mine.grid)
        and s.roles >= mine.roles
    ]
    return min(fitting)[1] if fitting else None


def _by_scene(case: Case, nodes: list[Any], other: str) -> list[Any]:
    """The graph with its one scene replaced."""
    mine = case.used_scenes[0]
    return [
        {**n, "params": {**n["params"], "scene": other}}
        if isinstance(n, dict) and isinstance(n.get("params"), dict) and n["params"].get("scene") == mine.scene_id
        else n
        for n in nodes
    ]


def _day(case: Case, scene_id: str) -> str:
    at = case.scenes[scene_id].acquired_at
    return f"{at:%Y-%m-%d}" if at is not None else ""
