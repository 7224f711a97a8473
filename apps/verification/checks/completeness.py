"""Completeness: every class, date, scene and tile that was asked for was processed, and enough of the ground was seen."""

from __future__ import annotations

import math
import re
from collections import Counter
from datetime import date
from itertools import pairwise
from typing import Any

import numpy as np

from apps.verification.case import Case, Finding, day_of, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import valid_pixels
from apps.verification.checks.veils import perceive_applied
from apps.verification.chosen import listed_of
from apps.verification.cuts import region_of, zone_names
from apps.verification.ground import CannotPlaceError, source_of
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError, same_grid

FAILURE_TEXT = re.compile(
    r"failed to call|failed to (?:load|open|read|process|run)|traceback \(most recent|exception:|\berror:|internal server error|"
    r"rate limit|timed? ?out|could not (?:open|read|load|process|be)|unable to (?:open|read|load|process|determine)|"
    r"no such file|not found\b|out of memory|permission denied|^\s*(?:none|null|nan|n/a|error)\s*$|i(?:'m| am) sorry|as an ai",
    re.I,
)
FAILED_STATES = frozenset({"failed", "error", "errored", "skipped", "missing", "timeout"})


@check(
    "no_failed_node",
    catches=("failed node upstream",),
    reads=("/evidence/validity/failed_nodes", "/evidence/validity/node_status"),
)
def no_failed_node(case: Case) -> Finding:
    """No node of the graph failed, by its list of failed nodes and by each node's own status."""
    listed = case.evidence("validity", "failed_nodes")
    states = case.evidence("validity", "node_status")
    if listed is None and states is None:
        return not_applicable("no nodes")
    bad = [str(n) for n in listed] if isinstance(listed, list) else []
    if isinstance(states, dict):
        for name, state in states.items():
            text = state.get("state") if isinstance(state, dict) else state
            if str(text).lower() in FAILED_STATES:
                bad.append(str(name))
    elif isinstance(states, list):
        bad += [
            str(s.get("id", "?"))
            for s in states
            if isinstance(s, dict) and str(s.get("state", s.get("status"))).lower() in FAILED_STATES
        ]
    if bad:
        return failed(
            f"Nodes failed, so the output rests on less than was asked: {', '.join(sorted(set(bad))[:8])}.",
            measured=sorted(set(bad)),
            expected=[],
            at=("/evidence/validity/failed_nodes",),
        )
    missing = set(case.nodes) - set(states) if isinstance(states, dict) and case.nodes else set()
    if missing:
        return failed(
            "Nodes that were asked for have no status: they were not run.",
            measured=sorted(missing),
            expected=[],
            at=("/evidence/validity/node_status",),
        )
    return passed("No node failed.", at=("/evidence/validity/failed_nodes", "/evidence/validity/node_status"))


@check("layer_complete", catches=("dropped tile", "partial layer"), reads=("/evidence/validity/layer_status",))
def layer_complete(case: Case) -> Finding:
    """The tool says that its layers are whole."""
    status = case.evidence("validity", "layer_status")
    if status is None:
        return not_applicable("no layer status")
    states = list(status.values()) if isinstance(status, dict) else [status]
    texts = [str(s.get("state") if isinstance(s, dict) else s).lower() for s in states]
    if any(t in FAILED_STATES or t in ("absent", "false", "invalid") for t in texts):
        return failed(
            "A layer failed or is missing.", measured=texts, expected="complete", at=("/evidence/validity/layer_status",)
        )
    if any(t in ("partial", "incomplete", "truncated") for t in texts):
        return failed(
            "A layer is not whole.",
            measured=texts,
            expected="complete",
            at=("/evidence/validity/layer_status",),
            severity=None if case.observation.status.state == "ok" else "warn",
        )
    return passed("Layers are whole.", measured=texts, at=("/evidence/validity/layer_status",))


@check("every_class_processed", catches=("class left out",), reads=("/evidence/validity/class_complete",))
def every_class_processed(case: Case) -> Finding:
    """Every asked class was looked for."""
    value = case.evidence("validity", "class_complete")
    if value is None:
        return not_applicable("no classes")
    missing = [k for k, v in value.items() if v is False] if isinstance(value, dict) else []
    if value is False or missing:
        return failed(
            "Not every class that was asked for was looked for; a zero for it is no finding.",
            measured=missing or False,
            expected=True,
            at=("/evidence/validity/class_complete",),
        )
    return passed("Every class was looked for.", at=("/evidence/validity/class_complete",))


def tile_count(width: int, height: int, tile: int, overlap: float) -> int:
    """Tiles of ``tile`` pixels with that overlap that cover width × height."""
    step = max(1, round(tile * (1 - overlap)))

    def along(size: int) -> int:
        return 1 if size <= tile else -(-(size - tile) // step) + 1

    return along(width) * along(height)


@check("every_tile_processed", catches=("dropped tile",), reads=("/evidence/intermediate/tiles",))
def every_tile_processed(case: Case) -> Finding:
    """As many tiles were processed as there are, by the tool's own count and by one made here."""
    passes = case.evidence("intermediate", "passes")
    if isinstance(passes, list) and passes:
        return _passes(case, [p for p in passes if isinstance(p, dict)])
    tiles = case.evidence("intermediate", "tiles")
    done = number_of(tiles.get("done", tiles.get("processed"))) if isinstance(tiles, dict) else number_of(tiles)
    total = (
        number_of(tiles.get("total", tiles.get("n")))
        if isinstance(tiles, dict)
        else case.evidence_number("intermediate", "tiles_total")
    )
    if done is None:
        return not_applicable("no tiles")
    at = ("/evidence/intermediate/tiles",)
    lost = (
        case.evidence_number("intermediate", "tiles_failed")
        or (number_of(tiles.get("failed")) if isinstance(tiles, dict) else None)
        or 0
    )
    if (total is not None and done < total) or lost:
        return failed(
            "Tiles are missing; what lies in them was not looked at.",
            measured=done,
            expected=total or done + lost,
            unit="tiles",
            at=at,
        )
    method = case.arguments.get("objects_method")
    scale = case.evidence_number("source", "scale") or 1.0
    if isinstance(method, dict) and len(case.used_scenes) == 1 and case.region is None and number_of(method.get("tile_px")):
        g = case.used_scenes[0].grid
        tile, overlap = int(method["tile_px"]), number_of(method.get("overlap")) or 0.0
        least = tile_count(round(g.width * scale), round(g.height * scale), tile, 0.0)
        if done < least:
            return failed(
                f"The image needs at least {least} tiles of {tile} pixels.", measured=done, expected=least, unit="tiles", at=at
            )
        return passed(
            "Every tile was processed.",
            measured=done,
            expected=tile_count(round(g.width * scale), round(g.height * scale), tile, overlap),
            unit="tiles",
            at=at,
        )
    return passed("Every tile was processed.", measured=done, expected=total, unit="tiles", at=at)


def _passes(case: Case, passes: list[dict[str, Any]]) -> Finding:
    """Tiles of each pass of a detector, against the least number that covers the image at its zoom."""
    at = ("/evidence/intermediate/passes",)
    if len(case.used_scenes) != 1 or case.region is not None:
        return not_applicable("the number of tiles depends on the region")
    g = case.used_scenes[0].grid
    seen = 0
    for p in passes:
        tile, zoom = number_of(p.get("tile_px")), number_of(p.get("zoom"))
        done = (number_of(p.get("tiles")) or 0) + (number_of(p.get("tiles_empty")) or 0)
        if not tile or not zoom:
            continue
        seen += 1
        empty = number_of(p.get("tiles_empty")) or 0
        if empty and (case.used_scenes[0].valid_share or 0.0) >= 0.9999:
            return failed(
                "Tiles came back without a valid pixel, yet all of the scene is valid.",
                measured=empty,
                expected=0,
                unit="tiles",
                at=at,
            )
        least = tile_count(round(g.width * zoom), round(g.height * zoom), int(tile), 0.0)
        # rounding of the zoomed size may save one row or column of tiles
        least = min(least, tile_count(math.floor(g.width * zoom) - 1, math.floor(g.height * zoom) - 1, int(tile), 0.0))
        if done < least:
            return failed(
                f"The image needs at least {least} tiles of {tile:g} pixels at zoom {zoom:g}; the others were not seen.",
                measured=done,
                expected=least,
                unit="tiles",
                at=at,
            )
    return passed("Every tile was processed.", measured=seen, unit="passes", at=at) if seen else not_applicable("no tiles")


def series_items(case: Case) -> list[tuple[date, dict[str, Any]]]:
    """(day, item) of the result's items that carry a date, in order."""
    out = []
    for item in case.items():
        try:
            out.append((date.fromisoformat(str(item.get("date"))[:10]), item))
        except ValueError:
            continue
    return out


@check("series_covers_scenes", catches=("one date for many", "hole in the series"), reads=("/result/items", "/arguments"))
def series_covers_scenes(case: Case) -> Finding:
    """A series has one item for each scene that the call names, with distinct scenes and dates."""
    if case.kind not in ("series", "trend", "date") or not case.observation.result.items:
        return not_applicable("no series")
    asked = case.scene_ids
    named = [str(i.get("scene")) for i in case.items() if i.get("scene")]
    n = len(case.observation.result.items)
    at = ("/result/items",)
    if asked and n != len(asked):
        return failed(
            f"{len(asked)} scenes were asked for, the series has {n} items.", measured=n, expected=len(asked), unit="items", at=at
        )
    if len(set(named)) != len(named):
        return failed(
            "A scene stands in the series more than once.", measured=len(set(named)), expected=len(named), unit="scenes", at=at
        )
    if asked and named and set(named) != set(asked):
        return failed(
            "The series holds other scenes than were asked for.",
            measured=sorted(set(named) - set(asked))[:5],
            expected=len(asked),
            at=at,
        )
    for item in case.items():
        scene = case.scenes.get(str(item.get("scene")))
        day = str(item.get("date") or "")[:10]
        if scene is not None and scene.acquired_at is not None and day and day != scene.acquired_at.date().isoformat():
            return failed(
                "An item's date is not the one of its scene.", measured=day, expected=scene.acquired_at.date().isoformat(), at=at
            )
    days = [d for d, _ in series_items(case)]
    if len(days) == n and len(set(days)) < min(n, len({s.acquired_at for s in case.used_scenes}) or n):
        return failed("Several items carry one date.", measured=len(set(days)), expected=n, unit="dates", at=at)
    return passed("One item for each scene.", measured=n, expected=len(asked) or n, unit="items", at=at)


@check("series_without_hole", catches=("hole in the series",), limits=("hole_factor",), reads=("/result/items",))
def series_without_hole(case: Case) -> Finding:
    """The dates of a series follow each other without a hole, and use all scenes of the question that fit. A hole that scenes of
    the question would fill is asked to be filled; otherwise this only warns."""
    days = sorted({d for d, _ in series_items(case)})
    if len(days) < 2:
        return not_applicable("no series")
    at = ("/result/items",)
    held = sorted({s.acquired_at.date() for s in case.scenes.values() if s.acquired_at})
    share = len([d for d in held if d in days]) / len(held) if held else 1.0
    gaps = np.diff([d.toordinal() for d in days])
    typical = float(np.median(gaps))
    longest = int(gaps.max())
    scores = {
        "series_complete": share
        if len(gaps) < 3
        else min(
            share, 1.0 if longest <= case.limits.hole_factor * typical else float(typical * len(days) / (days[-1] - days[0]).days)
        )
    }
    if len(gaps) >= 3 and longest > case.limits.hole_factor * typical and series_filled(case) is not None:
        return inconclusive(
            f"Between two dates lie {longest} days, elsewhere about {typical:.0f}, and the question has scenes of these days.",
            expected="all scenes of the time that the series spans",
            at=at,
        )
    if share < 1 and not any(w in case.text for w in ("between", "from", "in ", "during", "since", "until")):
        return failed(
            f"{len(held)} dates are at hand, the series uses {len(days)}.",
            measured=len(days),
            expected=len(held),
            unit="dates",
            at=at,
            scores=scores,
            severity="warn",
        )
    if len(gaps) >= 3 and longest > case.limits.hole_factor * typical:
        return failed(
            f"Between two dates lie {longest} days, elsewhere about {typical:.0f}; a low or high there would be missed.",
            measured=longest,
            expected=f"≤ {case.limits.hole_factor * typical:.0f}",
            unit="days",
            at=at,
            scores=scores,
            severity="warn",
        )
    return passed("No hole in the series.", measured=longest, unit="days", at=at, scores=scores)


def series_filled(case: Case) -> list[Any] | None:
    """The graph of a series with the scenes of its longest hole added, each by the same nodes as the first scene; None where the
    question has none of the same place and roles, or where the nodes of one scene do not stand alone."""
    nodes, output = case.arguments.get("nodes"), case.nodes.get(case.output)
    days = sorted({d for d, _ in series_items(case)})
    if not isinstance(nodes, list) or output is None or len(days) < 2 or len(output["inputs"]) < 2:
        return None
    start, end = max(pairwise(days), key=lambda pair: (pair[1] - pair[0]).days)
    used = set(case.scene_ids)
    first = case.scenes.get(case.scene_ids[0]) if case.scene_ids else None
    if first is None:
        return None
    fitting = sorted(
        (
            s
            for s in case.scenes.values()
            if s.scene_id not in used
            and s.acquired_at is not None
            and start < s.acquired_at.date() < end
            and same_grid(s.grid, first.grid)
            and s.roles >= first.roles
        ),
        key=lambda s: str(s.acquired_at),
    )
    pattern = case.upstream(output["inputs"][0])
    own = [n for n in pattern if case.nodes[n]["params"].get("scene") == first.scene_id]
    if not fitting or len(own) != 1 or any(set(case.upstream(i)) & set(pattern) for i in output["inputs"][1:]):
        return None
    by_id = {n.get("id"): n for n in nodes if isinstance(n, dict)}
    added: list[Any] = []
    ends: list[tuple[str, str]] = []
    for k, scene in enumerate(fitting):
        for name in reversed(pattern):
            node = by_id[name]
            params = dict(node.get("params") or {})
            if params.get("scene") == first.scene_id:
                params["scene"] = scene.scene_id
            added.append(
                {**node, "id": f"{name}_f{k}", "params": params, "inputs": [f"{i}_f{k}" for i in node.get("inputs") or ()]}
            )
        ends.append((str(scene.acquired_at), f"{pattern[0]}_f{k}"))
    for name in output["inputs"]:
        scene_id = next((case.nodes[n]["params"]["scene"] for n in case.upstream(name) if "scene" in case.nodes[n]["params"]), "")
        known = case.scenes.get(str(scene_id))
        ends.append((str(known.acquired_at) if known else "", name))
    whole = {**by_id[case.output], "inputs": [name for _, name in sorted(ends)]}
    rest = [n for n in nodes if not (isinstance(n, dict) and n.get("id") == case.output)]
    return [*rest, *added, whole]


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
    """Whether the output is of the catalogue, a scene as such, its place, or outlines: no pixel is read for these."""
    node = case.nodes.get(case.output)
    return node is not None and node["op"] in ("asset.catalog", "asset.bounds", "asset.scene", "vector.zones")


@check(
    "enough_valid_pixels",
    catches=("empty layer called zero", "clouds"),
    limits=("min_valid_share",),
    reads=("/evidence/intermediate/valid_px",),
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
)
def quality_mask_applied(case: Case) -> Finding:
    """Where a scene has a quality band, it was used. Where that band flags much of what a single figure was made from, or of what
    perceive looked at, the same without those pixels is asked for; otherwise this only warns."""
    if case.observation.tool == "perceive":
        return perceive_applied(case)
    if case.observation.tool != "execute" or not any("qa" in s.roles for s in case.used_scenes):
        return not_applicable("no quality band")
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


@check("quality_mask_of_date", catches=("other date's quality mask",), reads=("/evidence/validity/quality_mask", "/inputs"))
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


def _texts(case: Case) -> list[tuple[str, str]]:
    out = []
    if isinstance(case.observation.result.value, str) and case.kind in ("text", "class"):
        out.append(("/result/value", case.observation.result.value))
    for k, item in enumerate(case.observation.result.items[:50]):
        for key in ("text", "answer", "value", "message", "caption"):
            if isinstance(item.get(key), str):
                out.append((f"/result/items/{k}/{key}", str(item[key])))
    for key in ("text", "response", "raw_output", "output"):
        value = case.evidence("intermediate", key)
        if isinstance(value, str):
            out.append((f"/evidence/intermediate/{key}", value))
    return out


@check("no_failure_text", catches=("silent failure text",), reads=("/result/value", "/result/items", "/evidence/intermediate"))
def no_failure_text(case: Case) -> Finding:
    """What stands where an answer should be is no error message."""
    texts = _texts(case)
    if not texts:
        return not_applicable("no text")
    for pointer, text in texts:
        if len(text) < 2000 and FAILURE_TEXT.search(text):
            return failed(
                "The text is a failure that was reported as success; call the tool again.",
                measured=text[:120],
                expected="an answer",
                at=(pointer,),
            )
    return passed("The text is no failure message.", at=tuple(p for p, _ in texts))


@check("log_without_errors", "warn", catches=("silent failure text", "dropped tile"), reads=("/status/log",))
def log_without_errors(case: Case) -> Finding:
    """The log of a call that says ok holds no error; a line that calls itself an error is not only warned of."""
    told = [line.message for line in case.observation.status.log if line.level == "error"]
    if told and case.observation.status.state == "ok":
        return failed(
            "The call says that it went well, its own log says that it failed; say failed or partial, or call it again.",
            measured=told[0][:200],
            expected="none",
            at=("/status/log",),
            severity="block",
        )
    bad = [
        line.message
        for line in case.observation.status.log
        if line.level == "error" or (line.level == "warning" and FAILURE_TEXT.search(line.message))
    ]
    if bad:
        return failed(
            "The call says that it went well, its log holds errors.", measured=bad[0][:200], expected="none", at=("/status/log",)
        )
    return passed("The log holds no error.", at=("/status/log",))


@check("partial_is_explained", "warn", catches=("partial layer",), reads=("/status/state", "/status/reason"))
def partial_is_explained(case: Case) -> Finding:
    """A partial result says what is missing, and is warned of."""
    if case.observation.status.state != "partial":
        return not_applicable("the status is not partial")
    if not case.observation.status.reason and not case.observation.status.log:
        return inconclusive("The result is partial and nothing says why.", at=("/status/reason",))
    return failed(
        f"The result is partial: {case.observation.status.reason or case.observation.status.log[-1].message}"[:500],
        measured="partial",
        expected="ok",
        at=("/status/state", "/status/reason"),
    )


@check(
    "every_polygon_listed",
    catches=("a polygon left out", "a polygon listed twice"),
    reads=("/result/items", "/arguments"),
)
def every_polygon_listed(case: Case) -> Finding:
    """A table of polygons has exactly one row for each of them by its name: none is left out, none stands twice or is foreign.
    One without a figure stands there as such."""
    spec, node = case.arguments.get("spec"), case.nodes.get(case.output)
    try:
        if case.observation.tool == "measure" and isinstance(spec, dict) and spec.get("each"):
            each = str(spec["each"])
            name = str(spec.get("subject") or "subject")
            is_own = each in ("subject", name)
            listed = source_of(case, name if is_own else str(spec.get("reference") or ""))
            held = listed_of(case, spec, listed, region_of(case) if is_own else None, is_own=is_own)
            wanted, also = held.sure if held.is_whole else [], held.possible
        elif node is not None and node["op"] == "raster.summarize.zonal" and len(node["inputs"]) == 2:
            zones = case.nodes.get(node["inputs"][1])
            params = zones["params"] if zones is not None and zones["op"] == "vector.zones" else {"dissolve": True}
            if params.get("dissolve") or params.get("outside"):
                return not_applicable("one zone")
            wanted = also = zone_names(case, params)
        else:
            return not_applicable("no table of polygons")
    except CannotPlaceError as why:
        return not_applicable(f"the polygons cannot be listed here: {why}")
    except Exception:  # an unreadable file is another check's finding
        return not_applicable("the vector file cannot be read")
    rows = [str(item.get("zone")) for item in case.items()]
    left = Counter(wanted) - Counter(rows)
    more = Counter(rows) - (Counter(wanted) | Counter(also))
    at = ("/result/items", "/arguments")
    if left or more:
        what = [f"{sum(left.values())} of {len(wanted)} polygons have no row: {', '.join(list(left)[:5])}"] if left else []
        what += [f"{sum(more.values())} rows stand twice or are of no polygon: {', '.join(list(more)[:5])}"] if more else []
        return failed(("; ".join(what) + ".")[:400], measured=len(rows), expected=len(wanted), unit="rows", at=at)
    return passed("Each polygon has one row.", measured=len(rows), expected=len(wanted), unit="rows", at=at)
