"""What would settle a doubt: machine-readable requests that the loop merges into the call's arguments and executes.

``arguments`` holds changes to the call's own arguments (top-level keys replace). The supporting observation that comes back is
compared with the first one (``support``), and the agreement is a feature of the next judgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.core.evidence.decision import CheckResult, EvidenceRequest
from apps.verification.checks.case import Case, LayerUnreadableError, number_of
from apps.verification.checks.geometry import bounds_of_layer
from apps.verification.formulas import INDICES

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
    "completeness.quality_mask_applied": "quality_mask",
    "completeness.series_covers_scenes": "complete_series",
}


def requests_for_missing(checks: tuple[CheckResult, ...] | list[CheckResult]) -> tuple[EvidenceRequest, ...]:
    """One request for each blocking check that lacks its evidence, naming the field."""
    out = []
    for c in checks:
        if c.severity == "block" and c.outcome in ("inconclusive", "errored"):
            for pointer in c.pointers[:6] or ("",):
                kind: Any = KIND_OF_CHECK.get(c.check, "missing_evidence")
                out.append(EvidenceRequest(kind=kind, reason=f"{c.check}: {c.message}"[:500], field=pointer[:200]))
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
    tried = [o.arguments for o in case.supporting]
    fresh = [r for r in made if not any(all(a.get(k) == v for k, v in r.arguments.items()) for a in tried)]
    if not fresh:
        weakest = min(contributions, key=lambda k: contributions[k], default="")
        fresh = [
            EvidenceRequest(kind="human", reason=f"No other method is at hand; the weakest point is {weakest or 'unknown'}.")
        ]
    return fresh[:3]


def _roles(case: Case) -> frozenset[str]:
    found = [s.roles for s in case.used_scenes]
    return frozenset.intersection(*found) if found else frozenset()


def _regions(case: Case) -> list[EvidenceRequest]:
    method = case.arguments.get("regions_method")
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
    ref = next((r for r in case.observation.result.layers if r.kind == "boxes" and r.label != "candidates"), None)
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


def _execute(case: Case) -> list[EvidenceRequest]:
    """The same value by another path: the index written out as arithmetic over its bands."""
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
    masked = _quality_masked(case, nodes)
    if masked is not None:
        out.append(
            EvidenceRequest(
                kind="quality_mask",
                reason="The scene has a quality band that was not used; the same without the pixels that it flags.",
                arguments={"nodes": masked},
            )
        )
    if done:
        out.append(
            EvidenceRequest(
                kind="recompute", reason="The index written out over its bands instead of by name.", arguments={"nodes": changed}
            )
        )
    return out


# Operators of one scene's bands that take the option ``quality_mask``.
_MASKABLE = frozenset(
    {
        "raster.product.index",
        "raster.product.band",
        "raster.product.normalized_difference",
        "raster.product.ratio",
        "raster.product.math",
    }
)


def _quality_masked(case: Case, nodes: list[Any]) -> list[Any] | None:
    """The graph with each product masked by its own scene's quality band; None where none was left unused, or where its bits
    could not be read."""
    if case.evidence("validity", "quality_mask") not in (None, False, "", "none", [], {}):
        return None
    of_node = {
        n.get("id"): params.get("scene")
        for n in nodes
        if isinstance(n, dict) and n.get("op") == "asset.scene" and isinstance(params := n.get("params"), dict)
    }
    readable = {s.scene_id for s in case.used_scenes if any(b.role == "qa" and b.scheme for b in s.bands)}
    out, n_changed = [], 0
    for node in nodes:
        inputs = node.get("inputs") if isinstance(node, dict) else None
        if (
            isinstance(node, dict)
            and node.get("op") in _MASKABLE
            and isinstance(inputs, (list, tuple))
            and len(inputs) == 1
            and of_node.get(inputs[0]) in readable
            and (node.get("params") or {}).get("role") != "qa"
        ):
            node = {**node, "params": {**(node.get("params") or {}), "quality_mask": "auto"}}
            n_changed += 1
        out.append(node)
    return out if n_changed else None
