"""Geometry of boxes and polygons: whole, inside the image, and none twice."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shapely.geometry import shape
from shapely.geometry.base import BaseGeometry

from apps.core.evidence.observation import LayerRef
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.placed import bounds_of_layer, kept_boxes, scene_of_layer


def _size(case: Case, ref: LayerRef) -> tuple[int, int] | None:
    scene = scene_of_layer(case, ref)
    if scene is not None:
        return scene.grid.width, scene.grid.height
    sizes = {i.size_px for i in case.observation.inputs if i.size_px}
    return sizes.pop() if len(sizes) == 1 else None


@check(
    "boxes_in_image",
    catches=("shifted boxes", "box convention mistaken"),
    limits=("edge_px", "min_box_px"),
    reads=("/result/layers",),
    family="geometry",
)
def boxes_in_image(case: Case) -> Finding:
    """Boxes are finite, of positive size, and inside the image."""
    ref = kept_boxes(case)
    if ref is None or ref.crs != "image":
        return not_applicable("no boxes in pixels")
    size = _size(case, ref)
    try:
        features = case.features(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The boxes cannot be read: {error}.", at=("/result/layers/0/artifact",), severity="warn")
    if size is None:
        return inconclusive("The size of the image is not on record.", at=("/inputs/0/size_px",), severity="warn")
    if not features:
        return passed("There are no boxes.", measured=0, at=("/result/layers",))
    b, edge = bounds_of_layer(case, ref), case.limits.edge_px
    broken = ~np.isfinite(b).all(axis=1)
    flat = ~broken & (np.minimum(b[:, 2] - b[:, 0], b[:, 3] - b[:, 1]) < case.limits.min_box_px)
    out = ~broken & ((b[:, 0] < -edge) | (b[:, 1] < -edge) | (b[:, 2] > size[0] + edge) | (b[:, 3] > size[1] + edge))
    n = int((broken | flat | out).sum())
    if n:
        return failed(
            f"{n} of {len(features)} boxes are broken, flat or outside the image of {size[0]} × {size[1]} pixels; "
            "check the frame of the coordinates ([x, y, w, h] or corners, tile or image).",
            measured=n,
            expected=0,
            unit="boxes",
            at=("/result/layers",),
        )
    return passed("All boxes lie in the image.", measured=len(features), unit="boxes", at=("/result/layers",))


def duplicate_pairs(b: NDArray[np.float64], classes: list[str], limit: float, max_pairs: int) -> int:
    """Boxes that overlap an earlier one of their class by more than ``limit`` (intersection over union)."""
    n = len(b)
    if n < 2 or n * n > max_pairs:
        order = np.argsort(b[:, 0]) if n else np.empty(0, dtype=int)
        b, classes = b[order], [classes[i] for i in order]
    doubled = 0
    area = np.maximum(b[:, 2] - b[:, 0], 0) * np.maximum(b[:, 3] - b[:, 1], 0)
    names = np.array(classes)
    reach = n if n * n <= max_pairs else max(1, max_pairs // max(n, 1))
    for i in range(1, n):
        lo = max(0, i - reach)
        w = np.minimum(b[i, 2], b[lo:i, 2]) - np.maximum(b[i, 0], b[lo:i, 0])
        h = np.minimum(b[i, 3], b[lo:i, 3]) - np.maximum(b[i, 1], b[lo:i, 1])
        inter = np.maximum(w, 0) * np.maximum(h, 0)
        union = area[i] + area[lo:i] - inter
        with np.errstate(divide="ignore", invalid="ignore"):
            if bool((((inter / union) > limit) & (names[lo:i] == names[i])).any()):
                doubled += 1
    return doubled


def _classes(features: list[dict[str, Any]]) -> list[str]:
    return [str((f.get("properties") or {}).get("class", "")) if isinstance(f.get("properties"), dict) else "" for f in features]


@check(
    "no_duplicate_detections",
    catches=("merged or duplicated detections",),
    limits=("duplicate_iou", "duplicate_share", "max_pairs"),
    reads=("/result/layers",),
    family="geometry",
)
def no_duplicate_detections(case: Case) -> Finding:
    """No object is counted twice: boxes of one class do not lie upon each other (tile seams, missing suppression)."""
    ref = kept_boxes(case)
    if ref is None or ref.kind != "boxes":
        return not_applicable("no boxes")
    try:
        features = case.features(ref)
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    asked = case.arguments.get("objects_method")
    iou = number_of(asked.get("iou_threshold")) if isinstance(asked, dict) else None
    limit = max(case.limits.duplicate_iou, (iou or 0.0) + 0.02)
    if len(features) < 2:
        return passed("Fewer than two boxes.", measured=0, at=("/result/layers",))
    b = bounds_of_layer(case, ref)
    ok: NDArray[np.bool_] = np.asarray(np.isfinite(b).all(axis=1))
    doubled = duplicate_pairs(b[ok], [c for c, k in zip(_classes(features), ok, strict=True) if k], limit, case.limits.max_pairs)
    share = doubled / len(features)
    if doubled and share > case.limits.duplicate_share:
        return failed(
            f"{doubled} of {len(features)} boxes lie upon another of their class (overlap over {limit:.2f}); merge across "
            "tile seams with a lower overlap threshold.",
            measured=doubled,
            expected=0,
            unit="boxes",
            at=("/result/layers",),
        )
    return passed("No box lies upon another of its class.", measured=doubled, unit="boxes", at=("/result/layers",))


@check(
    "polygons_valid",
    catches=("broken geometry",),
    reads=("/result/layers", "/evidence/validity/geometry_valid"),
    family="geometry",
)
def polygons_valid(case: Case) -> Finding:
    """Polygons are closed, do not cross themselves, and enclose something; the tool's own flag does not say otherwise."""
    if case.evidence("validity", "geometry_valid") is False:
        return failed(
            "The tool itself says that its geometry is not valid.",
            measured=False,
            expected=True,
            at=("/evidence/validity/geometry_valid",),
        )
    ref = next((r for r in case.observation.result.layers if r.kind == "polygons"), None)
    if ref is None:
        return not_applicable("no polygons")
    try:
        features = case.features(ref)
    except LayerUnreadableError as error:
        return inconclusive(f"The polygons cannot be read: {error}.", at=("/result/layers",), severity="warn")
    bad = 0
    for feature in features[:2000]:
        try:
            g: BaseGeometry = shape(feature["geometry"])
            bad += not g.is_valid or g.is_empty or (g.geom_type.endswith("Polygon") and g.area <= 0)
        except Exception:  # whatever cannot be a geometry is a bad one
            bad += 1
    if bad:
        return failed(
            f"{bad} of {len(features)} polygons are not valid; repair them before they are measured.",
            measured=bad,
            expected=0,
            unit="polygons",
            at=("/result/layers",),
        )
    return passed("All polygons are valid.", measured=len(features), unit="polygons", at=("/result/layers",))


@check("mask_agrees_with_boxes", "warn", catches=("leaked or shifted mask",), reads=("/result/layers",), family="geometry")
def mask_agrees_with_boxes(case: Case) -> Finding:
    """Where a mask and boxes of the same objects exist, nearly all of the mask lies in the boxes."""
    mask_ref, box_ref = case.layer("mask"), kept_boxes(case)
    if mask_ref is None or box_ref is None or box_ref.crs != "image" or not case.is_small(mask_ref):
        return not_applicable("no mask with boxes")
    try:
        mask, valid = case.mask(mask_ref)
        bounds = bounds_of_layer(case, box_ref)
    except LayerUnreadableError:
        return not_applicable("a layer cannot be read")
    inside = np.zeros(mask.shape, dtype=bool)
    for x0, y0, x1, y1 in bounds[np.isfinite(bounds).all(axis=1)]:
        inside[max(0, int(y0)) : max(0, math.ceil(y1)), max(0, int(x0)) : max(0, math.ceil(x1))] = True
    total = int((mask & valid).sum())
    if total == 0:
        return not_applicable("the mask is empty")
    share = float((mask & valid & inside).sum() / total)
    if share < 0.9:
        return failed(
            "A part of the mask lies outside all boxes: it leaks or is shifted.",
            measured=share,
            expected="≥ 0.9",
            at=("/result/layers",),
        )
    return passed("The mask lies in the boxes.", measured=share, at=("/result/layers",))
