"""Bands that were measured in coarser pixels than their raster has: what a figure rests on, and how far off an outline may lie.

A stack brings Sentinel-2's 20 m bands onto the 10 m of others by repeating pixels, so four pixels hold one measurement. Quality
bands are told too; the outline of what is measured is not theirs.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import JsonValue

from apps.core.evidence.observation import BandRef, InputRef
from apps.core.geo.scene import SceneInfo

# GSDs that differ by less than this share are one.
_ALIKE = 0.02
_NOT_MEASURED = ("qa", "alpha")


def native_ratio(inputs: Sequence[InputRef]) -> float:
    """Pixels along a side of the coarsest pixel that was measured; 1 where the raster's pixels are the measured ones."""
    return max((_ratio(ref, band) for ref in inputs for band in ref.bands if band.role not in _NOT_MEASURED), default=1.0)


def _ratio(ref: InputRef, band: BandRef) -> float:
    if band.native_gsd_m is None or not ref.gsd_m:
        return 1.0
    found = band.native_gsd_m / ref.gsd_m
    return found if found > 1 + _ALIKE else 1.0


def half_pixel_words(ratio: float, what: str = "outline") -> str:
    """How an interval that moves outlines was made."""
    if ratio == 1:
        return f"the {what} moved by half a pixel in and out"
    return f"the {what} moved by half a measured pixel ({0.5 * ratio:.3g} of the image's) in and out"


def resampling_of(inputs: Sequence[InputRef], scenes: Sequence[SceneInfo]) -> dict[str, JsonValue]:
    """``native_gsd_m`` and ``resampling`` of ``evidence.source``, by scene and role; empty where nothing was resampled."""
    by_id = {s.scene_id: s for s in scenes}
    gsd: dict[str, JsonValue] = {}
    how: dict[str, JsonValue] = {}
    for ref in inputs:
        scene = by_id.get(ref.scene_id or "")
        held = [b for b in scene.bands if b.resampled and b.index in {r.index for r in ref.bands}] if scene is not None else []
        if scene is not None and held:
            gsd[scene.scene_id] = {b.role: b.native_gsd_m for b in held}
            how[scene.scene_id] = {b.role: b.resampled for b in held}
    return {"native_gsd_m": gsd, "resampling": how} if gsd else {}


def coarse_sentences(inputs: Sequence[InputRef]) -> list[str]:
    """One for each input some of whose bands were repeated: what its pixels do not hold."""
    out = []
    for ref in {r.scene_id or r.artifact: r for r in inputs}.values():
        coarse = [b for b in ref.bands if _ratio(ref, b) > 1 and b.role not in _NOT_MEASURED]
        if coarse:
            listed = " and ".join(f"{b.role} at {b.native_gsd_m:.4g} m" for b in coarse)
            most = max(_ratio(ref, b) for b in coarse)
            out.append(
                f"Of {ref.name}, {listed} was measured in coarser pixels than the image's {ref.gsd_m:.4g} m and repeated: "
                f"{most * most:.0f} pixels of the image hold one measurement, and nothing finer shows."
            )
    return out
