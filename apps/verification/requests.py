"""What would settle a doubt: machine-readable requests that the loop merges into the call's arguments and executes.

``arguments`` holds changes to the call's own arguments (top-level keys replace). The supporting observation that comes back is
compared with the first one (``support``), and the agreement is a feature of the next judgement.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from apps.core.evidence.decision import CheckResult, EvidenceRequest
from apps.verification.checks.case import Case, LayerUnreadableError, number_of
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
    if features.get("valid_share", 1.0) < 0.5 and any("qa" in s.roles for s in case.used_scenes):
        made.append(
            EvidenceRequest(
                kind="quality_mask",
                reason="Much of the scene is masked; apply its quality band.",
                arguments={"options": {"quality_mask": True}},
            )
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
    raw = case.arguments.get("objects_method")
    method: dict[str, Any] = dict(raw) if isinstance(raw, dict) else {}
    scale = number_of(method.get("scale")) or case.evidence_number("source", "scale") or 1.0
    out = [
        EvidenceRequest(
            kind="other_scale",
            reason="The same detector at another scale.",
            arguments={"objects_method": {**method, "scale": min(8.0, round(scale * 1.5, 3))}},
        )
    ]
    windows = _doubtful_windows(case)
    if windows:
        out.append(
            EvidenceRequest(
                kind="closer_look",
                reason="Windows whose detections lie close to the threshold.",
                arguments={
                    "options": {"windows": windows},
                    "objects_method": {**method, "scale": min(8.0, round(scale * 2, 3)), "tile_px": 256, "overlap": 0.4},
                },
            )
        )
    out.append(
        EvidenceRequest(
            kind="second_detector",
            reason="Another detector that knows the class.",
            arguments={"objects_method": {**method, "detector": "second"}},
        )
    )
    return out


def _doubtful_windows(case: Case, side: int = 128, most: int = 6) -> list[Any]:
    """[col, row, width, height] around the detections with the lowest scores."""
    ref = case.layer("boxes")
    if ref is None:
        return []
    try:
        features = case.features(ref)
    except LayerUnreadableError:
        return []
    scored = []
    for f in features:
        score = number_of((f.get("properties") or {}).get("score"))
        ring = (f.get("geometry") or {}).get("coordinates")
        if score is None or not ring:
            continue
        xs, ys = [p[0] for p in ring[0]], [p[1] for p in ring[0]]
        scored.append((score, (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2))
    return [[max(0, int(x) - side // 2), max(0, int(y) - side // 2), side, side] for _, x, y in sorted(scored)[:most]]


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
    if done:
        out.append(
            EvidenceRequest(
                kind="recompute", reason="The index written out over its bands instead of by name.", arguments={"nodes": changed}
            )
        )
    return out
