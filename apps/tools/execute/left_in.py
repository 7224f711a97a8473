"""What a quality band flags beyond the flags that were taken out: a reader is to know what still counts as ground.

Cirrus of the older Landsat bands is flagged where there is little of it, so it is not taken out unasked; that it was flagged
is said.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader
from apps.tools.contract import ToolContext
from apps.tools.execute.operators_physics import QA_CONFIDENCE, qa_flagged, qa_flags

# The band is looked at in at most so many pixels along a side; shares are those of the whole image.
LOOK_SIDE_PX = 1024
# Less of the image is not worth a word; from so much on it is a warning, which the answer repeats.
LEAST_SHARE, WARN_SHARE = 0.01, 0.1
_HIDING = ("cloud", "dilated_cloud", "shadow", "cirrus")
_MEDIUM = 2


def left_in(reader: RasterReader, scene: SceneInfo, band: Band, scheme: str, flags: Sequence[str]) -> dict[str, float]:
    """Flag → share (0..1) of the image's pixels that it raises and that none of ``flags`` does, from LEAST_SHARE on; with
    clouds of medium confidence where the scheme has confidences and ``flags`` takes those of high confidence."""
    grid = scene.grid
    shape = (min(grid.height, LOOK_SIDE_PX), min(grid.width, LOOK_SIDE_PX))
    read = reader.read([band.index], (0, 0, grid.width, grid.height), shape, physical=False)
    valid = read.valid[0]
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


def tell_left_in(ctx: ToolContext, scene: SceneInfo, shares: dict[str, float]) -> None:
    """A line in the log, a warning from WARN_SHARE on, of what ``left_in`` found."""
    if not shares:
        return
    listed = " and ".join(f"{name} on {share:.1%}".replace("%", " %") for name, share in shares.items())
    level = "warning" if max(shares.values()) >= WARN_SHARE else "info"
    ctx.log(level, f"The quality band of {scene.name} flags {listed} of the image beside what was left out; these pixels count "
                   "as ground that was seen.")
