"""Pictures and charts: they show the layers, values and items that they are of, and lie where their scene lies."""

from __future__ import annotations

import math

import numpy as np

from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
    told_of,
)
from apps.verification.checks.catalogue import check


@check(
    "picture_shows_its_layers",
    catches=("stale artifact", "merged or duplicated detections", "empty layer called zero"),
    reads=("/evidence/intermediate/nodes", "/parents"),
    family="consistency",
)
def picture_shows_its_layers(case: Case) -> Finding:
    """A picture shows as many shapes, or pixels of a mask, as the layer has that was to be drawn."""
    seen = 0
    for k, told, params in told_of(case, "image.annotate"):
        entries, wanted = told.get("drawn"), params.get("layers")
        drawn = [e for e in entries if isinstance(e, dict)] if isinstance(entries, (list, tuple)) else []
        at = (f"/evidence/intermediate/nodes/{k}", "/parents")
        for source in wanted if isinstance(wanted, (list, tuple)) else ():
            parent = next((p for p in case.parents if isinstance(source, dict) and p.id == source.get("observation")), None)
            if parent is None:
                continue
            label = str(source.get("label") or "")
            for ref in parent.result.layers:
                name = ref.label or ref.kind
                is_meant = label == ref.label if label else not ref.is_aside
                if ref.kind not in ("boxes", "polygons", "points", "mask") or not is_meant:
                    continue
                entry = next((e for e in drawn if e.get("source") == parent.id and e.get("name") == name), None)
                if entry is None:
                    return failed(f"The layer {name} is missing from the picture; draw it.", measured=0, expected=1, at=at)
                try:
                    if ref.kind == "mask":
                        n = int(np.logical_and(*case.mask(ref)).sum()) if case.is_small(ref) else None
                        is_part = bool(params.get("crop")) or number_of(told.get("step")) != 1
                        mine = number_of(entry.get("n_px"))
                    else:
                        n, is_part = len(case.features(ref)), False
                        mine = (number_of(entry.get("n")) or 0) + (number_of(entry.get("n_outside")) or 0)
                except LayerUnreadableError:
                    continue
                if n is None or mine is None:
                    continue
                seen += 1
                if mine > n or (not is_part and mine != n):
                    return failed(
                        f"The picture shows another number than the layer {name} has; draw it again.",
                        measured=mine,
                        expected=n,
                        at=at,
                    )
    if not seen:
        return not_applicable("no picture of earlier layers")
    return passed("The picture shows what its layers hold.", measured=seen, unit="layers", at=("/evidence/intermediate/nodes",))


@check(
    "colours_hold_the_values",
    catches=("fill counted as data", "scale or offset twice or never"),
    reads=("/evidence/intermediate/nodes",),
    family="consistency",
)
def colours_hold_the_values(case: Case) -> Finding:
    """A picture in colours has a lowest colour below its highest, and does not show more pixels beyond them than there are."""
    found = told_of(case, "image.colours")
    if not found:
        return not_applicable("no picture in colours")
    k, told, params = found[0]
    at = (f"/evidence/intermediate/nodes/{k}",)
    low, high = number_of(told.get("low")), number_of(told.get("high"))
    if low is None or high is None:
        return inconclusive("The values of the first and last colour are not on record.", at=at)
    if not low < high:
        return failed("The first colour's value does not lie below the last one's.", measured=[low, high], at=at)
    for name, used in (("low", low), ("high", high)):
        asked = number_of(params.get(name))
        # a raster of one value is spread about it
        if asked is not None and not case.is_same(asked, used) and not case.is_same(high - low, 1.0):
            return failed(f"The colours' {name} value is not the one that was asked for.", measured=used, expected=asked, at=at)
    beyond = (number_of(told.get("n_below")) or 0) + (number_of(told.get("n_above")) or 0)
    total = number_of(told.get("n_valid"))
    if total is None:
        total = case.evidence_number("intermediate", "valid_px")
    if total is not None and (total <= 0 or beyond >= total):
        return failed(
            "Every pixel of the picture lies beyond its colours, so that it shows nothing; choose other ends.",
            measured=beyond,
            expected=f"< {total:g}",
            unit="px",
            at=at,
        )
    return passed("The colours hold the raster's values.", measured=[low, high], at=at)


@check(
    "chart_shows_its_items",
    catches=("hole in the series", "stale artifact"),
    reads=("/evidence/intermediate/nodes", "/result/items"),
    family="consistency",
)
def chart_shows_its_items(case: Case) -> Finding:
    """A chart shows as many values as its table has, from the least to the greatest of them."""
    found = told_of(case, "image.chart")
    items = list(case.items())
    if not found or not items or len(items) >= 1000:
        return not_applicable("no chart with its table")
    k, told, _ = found[0]
    at = (f"/evidence/intermediate/nodes/{k}", "/result/items")
    n, low, high = (number_of(told.get(name)) for name in ("n", "low", "high"))
    if n is None or low is None or high is None:
        return inconclusive("What the chart shows is not on record.", at=at)
    tables = [[v for v in (number_of(i.get(key)) for i in items) if v is not None] for key in ("value", "n", "area", "n_px")]
    tables = [t for t in tables if t]
    if any(len(t) == n and case.is_same(min(t), low) and case.is_same(max(t), high) for t in tables):
        return passed("The chart shows what its table holds.", measured=n, at=at)
    return failed(
        "The chart shows other values than its table; draw it from this table.",
        measured=[n, low, high],
        expected=[[len(t), min(t), max(t)] for t in tables],
        at=at,
    )


@check(
    "picture_lies_as_its_scene",
    catches=("shifted mask", "another scene's result"),
    reads=("/result/layers", "/evidence/intermediate/nodes"),
    family="geometry",
)
def picture_lies_as_its_scene(case: Case) -> Finding:
    """A picture of a scene has its CRS and covers its ground, or the part that was asked for; no pixel of it lies elsewhere."""
    refs = [(k, r) for k, r in enumerate(case.observation.result.layers) if r.kind == "image" and r.grid is not None]
    found = told_of(case, "image.annotate")
    if not refs or not found or len(case.used_scenes) != 1:
        return not_applicable("no picture with a place")
    scene, (k, told, params) = case.used_scenes[0].grid, found[0]
    window = told.get("window")
    frame = [number_of(v) for v in window] if isinstance(window, (list, tuple)) else []
    if len(frame) != 4 or any(v is None for v in frame):
        return inconclusive("The part of the scene that is shown is not on record.", at=(f"/evidence/intermediate/nodes/{k}",))
    x0, y0, w, h = (float(v) for v in frame if v is not None)
    if not params.get("crop") and (x0, y0, w, h) != (0, 0, scene.width, scene.height):
        return failed(
            "The picture shows a part of its scene although nothing was to be cropped.",
            measured=[x0, y0, w, h],
            expected=[0, 0, scene.width, scene.height],
            unit="px",
            at=(f"/evidence/intermediate/nodes/{k}",),
        )
    for at, ref in refs:
        grid = ref.grid
        assert grid is not None
        corners = [scene.colrow(*grid.xy(*p)) for p in ((0, 0), (grid.width, grid.height), (grid.width, 0))]
        wanted = [(x0, y0), (x0 + w, y0 + h), (x0 + w, y0)]
        slack = 0.01 * max(1.0, w / grid.width)
        if grid.crs != scene.crs or any(math.dist(p, q) > slack for p, q in zip(corners, wanted, strict=True)):
            return failed(
                "The picture lies elsewhere than the scene that it shows; give it the scene's georeferencing.",
                measured=[list(p) for p in corners],
                expected=[list(p) for p in wanted],
                unit="px",
                at=(f"/result/layers/{at}/grid",),
            )
    return passed("The picture lies as its scene.", measured=len(refs), at=("/result/layers",))
