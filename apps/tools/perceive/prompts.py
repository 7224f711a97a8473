"""perceive, mode ``regions`` by prompts: points inside and outside, or a box, grown to a mask by a random walker.

The classical default behind the same arguments that a promptable model takes: it needs no weights, follows edges of brightness
and colour, and says so. Grady 2006, IEEE TPAMI 28.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage
from skimage.segmentation import random_walker

from apps.core.errors import ModelError
from apps.core.evidence.observation import Configuration, Evidence, Result
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.tools.contract import PerceiveArguments, RegionMethod, ToolContext, ToolOutcome, input_ref
from apps.tools.perceive.regions import edge_px

# The walker looks at a window about the prompts, at most this large.
MAX_SIDE_PX = 768
MARGIN_PX = 96
# How strongly a step in brightness holds the walker back; scikit-image's usual value.
BETA = 130.0
_ROLES = ("blue", "green", "red", "nir", "gray", "pan", "swir1")


def perceive_prompt(ctx: ToolContext, arguments: PerceiveArguments, scene: SceneInfo, target: str,
                    method: RegionMethod) -> ToolOutcome:
    """The mask that grows from the prompts. ModelError without a point inside or a box."""
    inside = [(x, y) for x, y, k in method.points if k]
    outside = [(x, y) for x, y, k in method.points if not k]
    if not inside and method.box is None:
        raise ModelError("A prompt needs a point inside, or a box.", code="BAD_ARGUMENT", needs={"points": True})
    places = [*inside, *outside] + ([(method.box[0], method.box[1]), (method.box[2], method.box[3])] if method.box else [])
    if any(not (0 <= x <= scene.grid.width and 0 <= y <= scene.grid.height) for x, y in places):
        raise ModelError(f"A prompt lies outside {scene.name}.", code="BAD_ARGUMENT")
    window = _window(scene, places)
    c0, r0, w, h = window
    bands = [scene.bands_with_role(r)[0].index for r in _ROLES if len(scene.bands_with_role(r)) == 1][:4] or [1]
    read = ctx.reader(scene.scene_id).read(bands, window)
    valid: NDArray[np.bool_] = np.asarray(read.valid.all(axis=0))
    if not valid.any():
        raise ModelError("No pixel about the prompts is valid.", code="TOOL_FAILED", needs={"valid_px": True})
    image = np.stack([_scaled(np.asarray(p, dtype=np.float64), valid) for p in read.data], axis=-1)
    markers = np.zeros((h, w), dtype=np.int32)
    if method.box is not None:
        x0, y0, x1, y1 = (round(v) for v in method.box)
        beyond = np.ones((h, w), dtype=bool)
        beyond[max(0, y0 - r0):max(0, y1 - r0), max(0, x0 - c0):max(0, x1 - c0)] = False
        markers[beyond] = 2
        if not inside:
            # the middle of the box stands for the object
            inside = [((x0 + x1) / 2, (y0 + y1) / 2)]
    elif not outside:
        markers[[0, -1], :] = markers[:, [0, -1]] = 2
    for points, number in ((inside, 1), (outside, 2)):
        for x, y in points:
            r, c = min(h - 1, int(y) - r0), min(w - 1, int(x) - c0)
            markers[max(0, r - 1):r + 2, max(0, c - 1):c + 2] = number
    markers[~valid] = -1
    if not (markers == 1).any() or not (markers == 2).any():
        raise ModelError("The prompts leave nothing to decide: one side has no valid pixel.", code="BAD_ARGUMENT")
    probability = cast(NDArray[np.float64], cast(Any, random_walker)(
        image, markers, beta=BETA, mode="cg_j", tol=1e-4, prob_tol=0.05, channel_axis=-1, return_full_prob=True))
    grown = (probability[0] > 0.5) & valid
    labels, n = ndimage.label(grown)
    kept = {int(labels[min(h - 1, int(y) - r0), min(w - 1, int(x) - c0)]) for x, y in inside} - {0}
    grown = np.isin(labels, list(kept))
    sure = float(np.abs(probability[0][grown] - 0.5).mean() * 2) if grown.any() else 0.0
    mask, known = np.zeros(scene.grid.shape, dtype=bool), np.zeros(scene.grid.shape, dtype=bool)
    mask[r0:r0 + h, c0:c0 + w], known[r0:r0 + h, c0:c0 + w] = grown, valid
    n_true = int(grown.sum())
    touches = bool(grown[[0, -1], :].any() or grown[:, [0, -1]].any())
    if touches:
        ctx.log("warning", "The mask reaches the edge of the window that was looked at; it may go on beyond.")
    layer = ctx.layers.put_mask(mask, known, scene.grid, label=target[:120], scene_id=scene.scene_id)
    intermediate: dict[str, JsonValue] = {
        "mask_px": n_true, "candidates": n, "kept": len(kept), "polygons": len(kept), "valid_px": int(valid.sum()),
        "edge_px": edge_px(grown, valid), "window_px": list(window), "mean_sureness": sure, "n_inside": len(inside),
        "n_outside": len(outside), "box": list(method.box) if method.box else None}
    return ToolOutcome(
        configuration=Configuration(coarse="regions", fine=f"regions/{target.strip().lower().replace('/', '-')}/prompt"[:240]),
        inputs=(input_ref(scene, bands),), arguments_passed=arguments.model_dump(mode="json"),
        result=Result(kind="layer", quantity=target[:120], layers=(layer,)),
        evidence=Evidence(
            source={"method": {"kind": "random_walker", "beta": BETA, "bands": [*bands],
                               "reference": "Grady 2006, IEEE TPAMI 28"},
                    "thresholds": {target: 0.5}, "sensor": scene.sensor or None, "resolution_m": scene.effective_gsd_m},
            intermediate=intermediate,
            validity={"layer_status": "complete", "class_complete": True, "geometry_valid": not touches, "quality_mask": None,
                      "valid_share": float(valid.mean())}))


def _window(scene: SceneInfo, places: list[tuple[float, float]]) -> Window:
    xs, ys = [p[0] for p in places], [p[1] for p in places]
    left, top = max(0, int(min(xs)) - MARGIN_PX), max(0, int(min(ys)) - MARGIN_PX)
    right, bottom = min(scene.grid.width, int(max(xs)) + MARGIN_PX), min(scene.grid.height, int(max(ys)) + MARGIN_PX)
    if right - left > MAX_SIDE_PX or bottom - top > MAX_SIDE_PX:
        raise ModelError(f"The prompts span more than {MAX_SIDE_PX - 2 * MARGIN_PX} pixels; prompt smaller things one by one.",
                         code="TOO_LARGE")
    return left, top, right - left, bottom - top


def _scaled(plane: NDArray[np.float64], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    low, high = np.percentile(plane[valid], [2, 98])
    out: NDArray[np.float64] = np.clip((plane - low) / (high - low if high > low else 1.0), 0, 1)
    return np.where(valid, out, 0.5)
