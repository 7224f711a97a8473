"""Geometry of boxes against the picture's own pixels: what lies in them differs from what lies outside."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.verification.case import Case, Finding, LayerUnreadableError, failed, not_applicable, passed
from apps.verification.checks.catalogue import check
from apps.verification.look import look_of
from apps.verification.placed import bounds_of_layer, kept_boxes, scene_of_layer
from apps.verification.planes import CannotLookError
from apps.verification.sights import step_of

# Boxes over less or more of the picture than this part it in nothing that can be told.
_LEAST_COVER, _MOST_COVER = 0.002, 0.8
_LEAST_TURNED, _LEAST_MOVED = 10, 20
# Fixed shifts, as shares of width and height, to where boxes of nothing could lie.
_SHIFTS = tuple((0.13 + 0.067 * k, 0.1 + 0.8 * (0.618 * k % 1)) for k in range(12))
_TURNS = {"their axes exchanged": "xy", "left and right exchanged": "x", "up and down exchanged": "y", "turned half round": "xx"}


class _Picture:
    """Figures of each pixel (colours, their contrast), and how far those inside of a mask lie from the others."""

    def __init__(self, planes: NDArray[np.float64], valid: NDArray[np.bool_]):
        grey = planes.mean(axis=0)
        contrast = np.hypot(ndimage.sobel(grey, 0), ndimage.sobel(grey, 1))
        shares = planes[:2] / (planes.sum(axis=0) + 1.0) if len(planes) > 2 else planes[:0]
        held = np.stack([*planes, contrast, *shares])
        self.valid = valid
        middle, spread = held[:, valid].mean(axis=1), held[:, valid].std(axis=1) + 1e-12
        self.values = (held - middle[:, None, None]) / spread[:, None, None]
        every = self.values[:, valid]
        self.total = every.sum(axis=1), every @ every.T, every.shape[1]

    def parted(self, mask: NDArray[np.bool_]) -> float:
        """The squared distance of the means inside and outside, in units of the spread within both (Mahalanobis)."""
        inside = self.values[:, mask & self.valid]
        n = inside.shape[1]
        total, products, whole = self.total
        if n < 20 or whole - n < 20:
            return 0.0
        one, other = inside.sum(axis=1) / n, (total - inside.sum(axis=1)) / (whole - n)
        within = products - n * np.outer(one, one) - (whole - n) * np.outer(other, other)
        away = one - other
        return float(away @ np.linalg.solve(within / whole + 1e-6 * np.eye(len(away)), away))


def _inside(boxes: NDArray[np.float64], shape: tuple[int, int]) -> NDArray[np.bool_]:
    out = np.zeros(shape, dtype=bool)
    for x0, y0, x1, y1 in np.maximum(np.rint(boxes), 0).astype(int):
        out[y0 : max(y1, y0 + 1), x0 : max(x1, x0 + 1)] = True
    return out


def _turned(b: NDArray[np.float64], how: str, width: float, height: float) -> NDArray[np.float64]:
    x0, y0, x1, y1 = b.T
    if how == "xy":
        return np.stack([y0, x0, y1, x1], axis=1)
    if how in ("x", "xx"):
        x0, x1 = width - x1, width - x0
    if how in ("y", "xx"):
        y0, y1 = height - y1, height - y0
    return np.stack([x0, y0, x1, y1], axis=1)


@check(
    "boxes_where_the_picture_parts",
    catches=("shifted boxes", "box convention mistaken", "another scene's result"),
    limits=("full_look_px", "turned_gain", "moved_gain", "least_parted"),
    reads=("/result/layers", "/inputs"),
    family="geometry",
)
def boxes_where_the_picture_parts(case: Case) -> Finding:
    """What lies in the boxes differs from the rest of the picture, more than in the same boxes turned or put elsewhere."""
    ref = kept_boxes(case)
    scene = scene_of_layer(case, ref) if ref is not None else None
    if case.observation.tool != "perceive" or ref is None or ref.crs != "image" or scene is None:
        return not_applicable("no boxes in pixels")
    grid = scene.grid
    if grid.width * grid.height > case.limits.full_look_px:
        return not_applicable("the scene is larger than it is looked at")
    window = (0, 0, grid.width, grid.height)
    colours = tuple(b.index for b in scene.bands if b.role not in ("qa", "mask", "alpha", "class"))[:3]
    try:
        boxes = bounds_of_layer(case, ref)
        step = step_of(case, window)
        plane = look_of(case).picture(scene, colours, window)
    except (CannotLookError, LayerUnreadableError) as why:
        return not_applicable(str(why))
    boxes = boxes[np.isfinite(boxes).all(axis=1)] / step
    shape = (plane.data.shape[1], plane.data.shape[2])
    mask = _inside(boxes, shape)
    if len(boxes) < _LEAST_TURNED or not _LEAST_COVER <= mask.mean() <= _MOST_COVER:
        return not_applicable("too few boxes, or too little or too much of the picture in them, to tell")
    valid = np.logical_and.reduce(plane.valid)
    if not valid.any() or not np.ptp(plane.data[:, valid], axis=1).any():
        return not_applicable("the picture is of one value")
    picture = _Picture(plane.data, valid)
    here = picture.parted(mask)
    others = [picture.parted(np.roll(mask, (int(v * shape[0]), int(u * shape[1])), axis=(0, 1))) for u, v in _SHIFTS]
    middle, moved = float(np.median(others)), max(others)
    turns = {
        name: picture.parted(_inside(_turned(boxes, how, grid.width / step, grid.height / step), shape))
        for name, how in _TURNS.items()
        if how != "xy" or grid.width == grid.height
    }
    best = max(turns, key=lambda name: turns[name])
    at = ("/result/layers", "/inputs")
    measured = {
        "here": round(here, 4),
        "elsewhere": round(moved, 4),
        "in the middle": round(middle, 4),
        best: round(turns[best], 4),
    }
    if turns[best] > case.limits.turned_gain * max(here, moved):
        return failed(
            f"The boxes lie on what they are of with {best}: the frame of their coordinates is another.",
            measured=measured,
            expected="most here",
            at=at,
        )
    # the most of some other places is a matter of chance, their middle is not
    is_nothing = here < case.limits.moved_gain * middle or here < min(moved, case.limits.least_parted)
    if len(boxes) >= _LEAST_MOVED and is_nothing:
        return failed(
            "What lies in the boxes differs from the rest of the picture no more than anything does in the same boxes elsewhere.",
            measured=measured,
            expected="most here",
            at=at,
        )
    return passed("What lies in the boxes differs from the rest of the picture.", measured=measured, at=at)
