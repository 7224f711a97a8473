"""Completeness: every class, node, layer, tile and polygon that was asked for was processed, and what was not is told."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.chosen import listed_of
from apps.verification.cuts import region_of, zone_names
from apps.verification.ground import CannotPlaceError, source_of

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


@check("log_without_errors", catches=("silent failure text", "dropped tile"), reads=("/status/log",))
def log_without_errors(case: Case) -> Finding:
    """The log of a call that says ok holds no error; a line that calls itself an error is not only warned of."""
    told = [line.message for line in case.observation.status.log if line.level == "error"]
    if told and case.observation.status.state == "ok":
        return failed(
            "The call says that it went well, its own log says that it failed; say failed or partial, or call it again.",
            measured=told[0][:200],
            expected="none",
            at=("/status/log",),
        )
    bad = [
        line.message
        for line in case.observation.status.log
        if line.level == "error" or (line.level == "warning" and FAILURE_TEXT.search(line.message))
    ]
    if bad:
        return failed(
            "The call says that it went well, its log holds errors.",
            measured=bad[0][:200],
            expected="none",
            at=("/status/log",),
            severity="warn",
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
