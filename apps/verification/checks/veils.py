"""Completeness of what perceive saw: nothing that a scene's quality band hides is counted, and the record says how much that is.

Which pixels are hidden is read by the verifier's own table (``apps.verification.quality``).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from shapely.geometry import shape

from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import Grid
from apps.core.geo.quality_words import SCHEME_WORDS
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError, Plane, same_grid
from apps.verification.quality import DEFAULT, quality_band_of
from apps.verification.scattered import places_of
from apps.verification.sights import look_windows, step_of

# Modes that say something of the ground; ``evidence`` tells of clouds themselves.
MODES = ("regions", "objects", "scene", "document", "change", "measurement")
# What lies under the veil by more than this share of its pixels was not seen; a little more is left for rounding of outlines.
MOST_HIDDEN, ROOM = 0.5, 0.05
# Outlines that are looked up, spread over all of them.
MOST_OUTLINES = 400
_AT = ("/evidence/validity/quality_mask",)


def hiding_flags(scheme: str) -> tuple[str, ...]:
    """The flags of a scheme under which the ground is not seen; snow is ground."""
    return tuple(f for f in DEFAULT.get(scheme, ()) if f != "snow")


def entry_of(case: Case, scene_id: str) -> dict[str, Any] | None:
    """What the record says of the quality mask of a scene: {} where it says no more than that there was one, None where it tells
    of none."""
    told = case.evidence("validity", "quality_mask")
    held = told if isinstance(told, list) else [told]
    named = [e for e in held if isinstance(e, dict) and ("scene" in e or "scheme" in e)]
    if named:
        return next((e for e in named if e.get("scene") in (scene_id, None)), None)
    return None if told in (None, False, "", "none", [], {}) else {}


def flags_told(case: Case, scene: SceneInfo) -> tuple[str, ...] | None:
    """The flags that the tool says it took out of a scene, those of its scheme where it does not name them; None where it says
    that there was no mask."""
    entry, band = entry_of(case, scene.scene_id), quality_band_of(scene.bands)
    if entry is None or band is None:
        return None
    flags = entry.get("flags")
    return tuple(str(f) for f in flags) if isinstance(flags, list) and flags else hiding_flags(band.scheme)


def unveiled(case: Case, scene: SceneInfo, plane: Plane, window: Window) -> Plane:
    """The plane without the pixels that the call says it left out as hidden; as it is where it says none."""
    flags = flags_told(case, scene)
    if flags is None:
        return plane
    quality = look_of(case).flags(scene, window, flags)
    return Plane(plane.data, plane.valid & quality.valid & (quality.data == 0))


def perceive_applied(case: Case) -> Finding:
    """Whether a perceive call used the quality band of each of its scenes, as that band is read."""
    if case.arguments.get("mode") not in MODES:
        return not_applicable("a mode that says nothing of the ground")
    scenes = [s for s in case.used_scenes if "qa" in s.roles]
    if not scenes:
        return not_applicable("no quality band")
    readable = [(s, b) for s in scenes if (b := quality_band_of(s.bands)) is not None and (b.scale, b.offset) == (1, 0)]
    if not readable:
        return failed(
            "The scene has a quality band, and how its bits are read is not known; clouds and shadows may be counted as ground.",
            expected="a quality band whose scheme is known",
            at=_AT,
            severity="warn",
        )
    for scene, band in readable:
        entry = entry_of(case, scene.scene_id)
        if entry is None:
            return _left_unused(case, scene)
        told, needed = flags_told(case, scene) or (), hiding_flags(band.scheme)
        if entry.get("scheme", band.scheme) != band.scheme or not set(needed) <= set(told):
            return failed(
                f"The quality band of {scene.name} is {SCHEME_WORDS.get(band.scheme, band.scheme)}; what hides the ground in it "
                "was not all left out.",
                measured={"scheme": entry.get("scheme"), "flags": list(told)},
                expected={"scheme": band.scheme, "flags": list(needed)},
                at=_AT,
            )
    return passed("The quality band was used.", measured=len(readable), unit="scenes", at=_AT)


def call_with_mask(case: Case) -> dict[str, Any] | None:
    """The arguments by which a perceive call would use the quality band that it left unused; None where there is none."""
    if case.observation.tool != "perceive" or case.arguments.get("mode") not in MODES:
        return None
    left = [s for s in case.used_scenes if quality_band_of(s.bands) is not None and entry_of(case, s.scene_id) is None]
    return {"quality_mask": "auto"} if left and case.arguments.get("quality_mask") != "auto" else None


def _left_unused(case: Case, scene: SceneInfo) -> Finding:
    hidden = hidden_share(case, scene)
    if hidden == 0:
        return passed("The quality band flags nothing here.", measured=0.0, at=_AT)
    if hidden is None or hidden <= case.limits.cloudy_share:
        return failed(
            "The scene has a quality band that was not used; clouds and shadows may be counted as ground.",
            measured=hidden,
            expected="the quality band",
            at=_AT,
            severity="warn",
        )
    return inconclusive(
        f"The quality band of {scene.name} flags {hidden:.0%} of the pixels as cloud or shadow and was not used; the same "
        "without them is needed.",
        expected=f"≤ {case.limits.cloudy_share:.0%} flagged, or the quality band used",
        at=_AT,
    )


def hidden_share(case: Case, scene: SceneInfo, flags: tuple[str, ...] = ()) -> float | None:
    """Share of a scene's pixels with data, inside the region, that its quality band flags; None where that cannot be read."""
    found = _hidden(case, scene, flags)
    return None if found is None else found[0]


def _hidden(case: Case, scene: SceneInfo, flags: tuple[str, ...]) -> tuple[float, int, int] | None:
    """(share, pixels looked at, side of the cells of which each is one)."""
    band = quality_band_of(scene.bands)
    if band is None:
        return None
    try:
        look = look_of(case)
        window = look.extent(scene.grid)
        quality = look.flags(scene, window, flags or hiding_flags(band.scheme))
        used = next((i.bands for i in case.observation.inputs if i.scene_id == scene.scene_id), ())
        index = tuple(sorted({b.index for b in used} - {band.index})) or (
            next((b.index for b in scene.bands if b.role != "qa"), band.index),)  # fmt: skip
        has_data = look.pixels(scene, index, window).valid.all(axis=0)
        region = look.region(scene.grid, window)
    except CannotLookError:
        return None
    seen = has_data if region is None else has_data & region
    n = int(np.count_nonzero(seen))
    return (float(((quality.data > 0) | ~quality.valid)[seen].mean()), n, step_of(case, window)) if n else None


@check(
    "hidden_not_counted",
    catches=("clouds", "empty layer called zero", "wrong denominator"),
    limits=("look_windows", "full_look_px"),
    reads=("/evidence/validity/quality_mask", "/evidence/intermediate/quality_masked", "/result/layers"),
    family="completeness",
)
def hidden_not_counted(case: Case) -> Finding:
    """What the quality band hides is not among what perceive counted: no mask holds hidden pixels, no box or window lies under
    them for the most part; and as many are hidden as the record says."""
    mode = case.arguments.get("mode")
    if case.observation.tool != "perceive" or mode not in MODES or mode == "measurement":
        return not_applicable("nothing is counted")
    at = ("/evidence/validity/quality_mask", "/result/layers")
    seen = 0
    for scene in case.used_scenes:
        flags = flags_told(case, scene)
        if flags is None or quality_band_of(scene.bands) is None:
            continue
        try:
            wrong = _share_untrue(case, scene, flags)
            if wrong is None:
                wrong = _counted(case, scene, flags)
        except (CannotLookError, LayerUnreadableError) as why:
            return not_applicable(str(why))
        if wrong is not None:
            return wrong
        seen += 1
    return passed("Nothing that is hidden was counted.", measured=seen, unit="scenes", at=at) if seen else not_applicable(
        "no quality mask on record")  # fmt: skip


def _share_untrue(case: Case, scene: SceneInfo, flags: tuple[str, ...]) -> Finding | None:
    """A finding where the hidden share on record is not the band's own. A prompt looks at a window about it, and a refined mask
    at what the first one knew: their shares are of other pixels."""
    if case.arguments.get("mode") not in ("regions", "objects", "scene", "document") or case.regions_method.get("kind") in (
        "prompt",
        "refine",
    ):
        return None
    entry = entry_of(case, scene.scene_id) or {}
    told, mine = number_of(entry.get("share")), _hidden(case, scene, flags)
    if told is None or mine is None:
        return None
    share, n, step = mine
    room = 2e-3 if step == 1 else 2e-3 + 9 * math.sqrt(max(share * (1 - share), 1 / n) / n)
    # where an index is undefined there is nothing that could be hidden
    room += (case.evidence_number("intermediate", "n_undefined") or 0.0) / n / step**2
    if abs(told - share) <= room:
        return None
    return failed(
        f"The quality band of {scene.name} hides another share of the pixels than is on record.",
        measured=told,
        expected=share,
        at=("/evidence/validity/quality_mask",),
    )


def _counted(case: Case, scene: SceneInfo, flags: tuple[str, ...]) -> Finding | None:
    for ref in case.observation.result.layers:
        if ref.is_aside or ref.source_scene_id not in (None, scene.scene_id):
            continue
        if ref.kind == "mask" and ref.grid is not None:
            if not case.is_small(ref):
                raise CannotLookError("the mask is larger than masks are read whole")
            n, of = _mask_hidden(case, ref, ref.grid, scene, flags)
            # a thinned mask stands for pixels beside the ones that are looked up
            if n > 0.002 * of:
                return failed(
                    f"The mask holds pixels that {scene.name}'s quality band hides: {n:,} of {of:,} looked at.",
                    measured=n, expected=0, unit="px", at=("/result/layers",),
                )  # fmt: skip
        elif ref.kind in ("boxes", "polygons") and ref.crs == "image":
            outlines = [shape(f["geometry"]).bounds for f in case.features(ref)]
            step = max(1, len(outlines) // MOST_OUTLINES)
            under = sum(_is_hidden(case, scene, flags, b) for b in outlines[::step])
            if under:
                return failed(
                    f"{under} of {len(outlines[::step])} outlines of the layer {ref.label or ref.kind} lie under cloud or shadow "
                    "for the most part: nobody could see what is there.",
                    measured=under, expected=0, at=("/result/layers",),
                )  # fmt: skip
    return None


def _mask_hidden(case: Case, ref: LayerRef, grid: Grid, scene: SceneInfo, flags: tuple[str, ...]) -> tuple[int, int]:
    """(True pixels of the mask that are hidden, True pixels) in the windows that are looked at."""
    if not same_grid(grid, scene.grid):
        raise CannotLookError("the mask lies on another grid than the quality band")
    mask, valid = case.mask(ref)
    look, n, of = look_of(case), 0, 0
    for window in look_windows(case, grid)[0]:
        quality = look.flags(scene, window, flags)
        held = places_of(window, step_of(case, window)).take(mask & valid, window)
        n, of = n + int((held & ((quality.data > 0) | ~quality.valid)).sum()), of + int(held.sum())
    return n, of


def _is_hidden(case: Case, scene: SceneInfo, flags: tuple[str, ...], bounds: tuple[float, float, float, float]) -> bool:
    """Whether the veil hides more than MOST_HIDDEN of an outline's frame."""
    width, height = scene.grid.width, scene.grid.height
    x0, y0 = (min(max(0, math.floor(v)), n - 1) for v, n in zip(bounds[:2], (width, height), strict=True))
    x1, y1 = (min(max(1, math.ceil(v)), n) for v, n in zip(bounds[2:], (width, height), strict=True))
    quality = look_of(case).flags(scene, (x0, y0, max(1, x1 - x0), max(1, y1 - y0)), flags)
    return float(((quality.data > 0) | ~quality.valid).mean()) > MOST_HIDDEN + ROOM
