"""Completeness of what was seen: enough valid pixels, and none under a cloud that a quality band knows."""

from __future__ import annotations

from typing import Any

from apps.verification.case import Case, Finding, day_of, failed, inconclusive, not_applicable, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import valid_pixels
from apps.verification.checks.veils import perceive_applied
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError


def valid_share(case: Case) -> tuple[str, float] | None:
    """(pointer, share of valid pixels among those asked)."""
    for part in ("validity", "intermediate"):
        direct = case.evidence_number(part, "valid_share")
        if direct is not None:
            return f"/evidence/{part}/valid_share", direct
    found = valid_pixels(case)
    total = (
        case.evidence_number("intermediate", "n_region_px")
        or case.evidence_number("intermediate", "total_px")
        or case.evidence_number("intermediate", "n_px")
    )
    if case.observation.tool == "measure":
        return None
    if total is None and len(case.used_scenes) == 1 and case.region is None:
        total = float(case.used_scenes[0].grid.width * case.used_scenes[0].grid.height)
    if found is None or not total:
        return None
    return found[0], found[1] / total


def reads_no_pixels(case: Case) -> bool:
    """Whether the output is of the catalogue, a scene as such, its place, outlines, or numbers alone: no pixel is read for
    these."""
    node = case.nodes.get(case.output)
    if node is None:
        return False
    is_of_numbers = node["op"] in ("value.solve", "value.calculate") and not node.get("inputs")
    return is_of_numbers or node["op"] in ("asset.catalog", "asset.bounds", "asset.scene", "vector.zones")


@check(
    "enough_valid_pixels",
    catches=("empty layer called zero", "clouds"),
    limits=("min_valid_share",),
    reads=("/evidence/intermediate/valid_px",),
    family="completeness",
)
def enough_valid_pixels(case: Case) -> Finding:
    """Some valid pixels were seen at all: from none nothing follows, not even zero."""
    if reads_no_pixels(case):
        return not_applicable("what scenes there are and where they lie is told without their pixels")
    found = valid_pixels(case)
    share = valid_share(case)
    if found is None:
        return not_applicable("no valid-pixel count")
    if found[1] <= 0:
        return failed(
            "Not one valid pixel was seen; the result says nothing of the ground.",
            measured=0,
            expected="> 0",
            unit="px",
            at=(found[0],),
        )
    scores = {"valid_share": min(1.0, share[1])} if share else {}
    if share and share[1] < case.limits.min_valid_share:
        return failed(
            "Almost nothing of the area asked was seen; use another date.",
            measured=share[1],
            expected=f"≥ {case.limits.min_valid_share}",
            at=(share[0],),
            scores=scores,
        )
    return passed("Valid pixels were seen.", measured=share[1] if share else found[1], at=(found[0],), scores=scores)


@check(
    "valid_share_high",
    "warn",
    catches=("clouds", "clipped region"),
    limits=("low_valid_share",),
    reads=("/evidence/intermediate/valid_px",),
    family="completeness",
)
def valid_share_high(case: Case) -> Finding:
    """At least half of the area asked was seen."""
    if reads_no_pixels(case):
        return not_applicable("what scenes there are and where they lie is told without their pixels")
    share = valid_share(case)
    if share is None:
        return not_applicable("no share of valid pixels")
    if share[1] < case.limits.low_valid_share:
        return failed(
            f"Only {share[1]:.0%} of the area asked was seen; the figure speaks for that part alone.",
            measured=share[1],
            expected=f"≥ {case.limits.low_valid_share}",
            at=(share[0],),
        )
    return passed("Most of the area was seen.", measured=share[1], at=(share[0],))


def quality_entries(case: Case) -> list[dict[str, Any]]:
    value = case.evidence("validity", "quality_mask")
    if isinstance(value, dict):
        return (
            [value]
            if any(k in value for k in ("scene", "scene_id", "source", "acquired_at", "date"))
            else [v for v in value.values() if isinstance(v, dict)]
        )
    return [v for v in value if isinstance(v, dict)] if isinstance(value, list) else []


@check(
    "quality_mask_applied",
    catches=("clouds",),
    limits=("cloudy_share", "full_look_px"),
    reads=("/evidence/validity/quality_mask", "/inputs"),
    family="completeness",
)
def quality_mask_applied(case: Case) -> Finding:
    """Where a scene has a quality band, it was used. Where that band flags much of what a single figure was made from, or of what
    perceive looked at, the same without those pixels is asked for; otherwise this only warns."""
    if case.observation.tool == "perceive":
        return perceive_applied(case)
    if case.observation.tool != "execute" or not any("qa" in s.roles for s in case.used_scenes):
        return not_applicable("no quality band")
    if _is_of_quality_alone(case):
        return not_applicable("the figure is one of the quality band itself")
    if case.evidence("validity", "quality_mask") in (None, False, "", "none", [], {}):
        cloudy = _flagged_share(case)
        if cloudy is not None and cloudy > case.limits.cloudy_share and quality_masked(case) is not None:
            return inconclusive(
                f"The scene's quality band flags {cloudy:.0%} of the pixels as cloud or shadow and was not used; the figure "
                "without them is needed.",
                expected=f"≤ {case.limits.cloudy_share:.0%} flagged, or the quality band used",
                at=("/evidence/validity/quality_mask",),
            )
        return failed(
            "The scene has a quality band that was not used; clouds and shadows are in the figure.",
            measured=cloudy,
            expected="the quality band",
            at=("/evidence/validity/quality_mask",),
            severity="warn",
        )
    return passed("The quality band was used.", at=("/evidence/validity/quality_mask",))


def _is_of_quality_alone(case: Case) -> bool:
    """Whether nothing is read of the scenes but what their quality bands flag."""
    scenes = {name for name, node in case.nodes.items() if node["op"] == "asset.scene"}
    readers = [node["op"] for node in case.nodes.values() if scenes & set(node.get("inputs", ()))]
    return bool(readers) and set(readers) == {"raster.product.qa_mask"}


def _flagged_share(case: Case) -> float | None:
    """Share of the pixels of a graph's one scene that its quality band flags by its product's own rule; None where that cannot be
    read, or where quality itself is what is asked for."""
    if len(case.used_scenes) != 1 or case.kind not in ("statistic", "ratio", "area"):
        return None
    if any("qa" in str(n["params"].get("role", "")) or n["op"].endswith("qa_mask") for n in case.nodes.values()):
        return None
    try:
        look = look_of(case)
        grid = case.used_scenes[0].grid
        window = look.extent(grid)
        flags = look.flags(case.used_scenes[0], window)
        region = look.region(grid, window)
    except CannotLookError:
        return None
    seen = flags.valid if region is None else flags.valid & region
    return float((flags.data[seen] > 0).mean()) if seen.any() else None


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


def quality_masked(case: Case) -> list[Any] | None:
    """The graph with each product masked by its own scene's quality band; None where none was left unused, or where its bits
    could not be read."""
    nodes = case.arguments.get("nodes")
    if not isinstance(nodes, list) or case.evidence("validity", "quality_mask") not in (None, False, "", "none", [], {}):
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


@check(
    "quality_mask_of_date",
    catches=("other date's quality mask",),
    reads=("/evidence/validity/quality_mask", "/inputs"),
    family="completeness",
)
def quality_mask_of_date(case: Case) -> Finding:
    """A quality mask is of the scene, or at least of the date, that it masks."""
    entries = quality_entries(case)
    days = {s.acquired_at.date().isoformat() for s in case.used_scenes if s.acquired_at} | {
        i.acquired_at.date().isoformat()
        for i in case.observation.inputs
        if i.acquired_at and i.role not in ("mask", "qa", "quality")
    }
    masks = [i for i in case.observation.inputs if i.role in ("mask", "qa", "quality")]
    seen = 0
    for entry in entries:
        day = str(entry.get("acquired_at") or entry.get("date") or "")[:10]
        of = entry.get("scene") or entry.get("scene_id")
        if isinstance(of, str) and of in case.scenes:
            day = day or day_of(case.scenes[of].acquired_at)
        if day and days:
            seen += 1
            if day not in days:
                return failed(
                    "The quality mask is of another date than the image.",
                    measured=day,
                    expected=sorted(days),
                    at=("/evidence/validity/quality_mask",),
                )
    for k, ref in enumerate(case.observation.inputs):
        if ref in masks and ref.acquired_at and days:
            seen += 1
            if ref.acquired_at.date().isoformat() not in days:
                return failed(
                    "The quality mask is of another date than the image.",
                    measured=ref.acquired_at.date().isoformat(),
                    expected=sorted(days),
                    at=(f"/inputs/{k}/acquired_at",),
                )
    return (
        passed("The quality mask is of the image's date.", at=("/evidence/validity/quality_mask",))
        if seen
        else not_applicable("no dated quality mask")
    )
