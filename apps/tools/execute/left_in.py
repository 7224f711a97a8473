"""What a quality band flags beyond the flags that were taken out: a reader is to know what still counts as ground.

Cirrus of the older Landsat bands is flagged where there is little of it, so it is not taken out unasked; that it was flagged
is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader
from apps.tools.contract import ToolContext
from apps.tools.execute.operators_physics import QA_CONFIDENCE, qa_flagged, qa_flags
from apps.tools.region import RegionMask

# A scene's band is looked at in at most so many pixels along a side, evenly over the asked region; of more than MANY scenes in
# fewer of each.
LOOK_SIDE_PX, LOOK_SIDE_OF_MANY_PX = 1024, 256
MANY = 12
# Less of the region is not worth a word; from so much on it is a warning, which the answer repeats.
LEAST_SHARE, WARN_SHARE = 0.01, 0.1
_HIDING = ("cloud", "dilated_cloud", "shadow", "cirrus")
_MEDIUM = 2


def left_in(reader: RasterReader, band: Band, scheme: str, flags: Sequence[str], region: RegionMask,
            side_px: int = LOOK_SIDE_PX) -> dict[str, float]:
    """Flag → share (0..1) of the region's pixels that it raises and that none of ``flags`` does, from LEAST_SHARE on; with
    clouds of medium confidence where the scheme has confidences and ``flags`` takes those of high confidence. ``region`` lies on
    the scene's grid."""
    col, row, width, height = region.bounds_px
    if not width or not height:
        return {}
    shape = (min(height, side_px), min(width, side_px))
    read = reader.read([band.index], (col, row, width, height), shape, physical=False)
    valid = read.valid[0] & _inside(region, shape)
    n = int(valid.sum())
    if not n:
        return {}
    stored = np.where(valid, read.data[0], 0).astype(np.int64)
    known = qa_flags(scheme)
    free = valid & ~qa_flagged(stored, scheme, [f for f in flags if f in known])
    found = {f.replace("_", " "): qa_flagged(stored, scheme, [f]) for f in _HIDING if f in known and f not in flags}
    held = QA_CONFIDENCE.get(scheme, {})
    if "cloud" in held and "cloud" in flags:
        found["cloud of medium confidence"] = (stored >> held["cloud"][0] & 3) == _MEDIUM
    shares = {name: int((at & free).sum()) / n for name, at in found.items()}
    return {name: share for name, share in shares.items() if share >= LEAST_SHARE}


def _inside(region: RegionMask, shape: tuple[int, int]) -> NDArray[np.bool_]:
    """Which of the pixels that were looked at lie in the region."""
    col, row, width, height = window = region.bounds_px
    if shape == (height, width):
        return region.mask(window)
    rows = row + np.floor((np.arange(shape[0]) + 0.5) * height / shape[0]).astype(np.int64)
    cols = col + np.floor((np.arange(shape[1]) + 0.5) * width / shape[1]).astype(np.int64)
    at_row, at_col = np.meshgrid(rows, cols, indexing="ij")
    return region.holds(at_row.ravel(), at_col.ravel()).reshape(shape)


def tell_left_in(ctx: ToolContext, scene: SceneInfo, shares: dict[str, float]) -> None:
    """A line in the log, a warning from WARN_SHARE on, of what ``left_in`` found."""
    if not shares:
        return
    level = "warning" if max(shares.values()) >= WARN_SHARE else "info"
    ctx.log(level, f"The quality band of {scene.name} flags {_listed(shares)} of what was asked for beside what was left out; "
                   "these pixels count as ground that was seen.")


def tell_left_in_many(ctx: ToolContext, found: Mapping[str, dict[str, float]]) -> None:
    """One line for many scenes (by name): how many have such pixels, and the most of each flag in one scene."""
    held = [shares for shares in found.values() if shares]
    if not held:
        return
    most = {name: max(s.get(name, 0.0) for s in held) for name in dict.fromkeys(n for s in held for n in s)}
    level = "warning" if max(most.values()) >= WARN_SHARE else "info"
    ctx.log(level, f"The quality bands of {len(held)} of {len(found)} scenes flag up to {_listed(most)} of what was asked for "
                   "beside what was left out; these pixels count as ground that was seen.")


def _listed(shares: Mapping[str, float]) -> str:
    return " and ".join(f"{name} on {share:.1%}".replace("%", " %") for name, share in shares.items())
