"""Plausibility of detections: their sizes, their scores, the room they have and the parts of the scene that have none."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import bdtr

from apps.core.evidence.observation import LayerRef
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.placed import bounds_of_layer, kept_boxes, scene_of_layer

# A median so many times beyond the sizes of a class is none of it, however unusual its objects are.
_FAR_BEYOND = 3.0


def _median_areas(case: Case, ref: LayerRef) -> dict[str, list[float]]:
    """Areas in px² by class of the kept boxes."""
    features = case.features(ref)
    bounds = bounds_of_layer(case, ref)
    out: dict[str, list[float]] = {}
    for feature, (x0, y0, x1, y1) in zip(features, bounds, strict=True):
        if np.isfinite((x0, y0, x1, y1)).all():
            properties: Any = feature.get("properties") or {}
            out.setdefault(str(properties.get("class", "")).lower(), []).append(float((x1 - x0) * (y1 - y0)))
    return out


@check(
    "object_sizes",
    catches=("wrong GSD", "merged or duplicated detections"),
    limits=("object_sizes_m2",),
    reads=("/result/layers",),
    family="plausibility",
)
def object_sizes(case: Case) -> Finding:
    """The median size of detected objects is one that their class has at this GSD."""
    ref = kept_boxes(case)
    if ref is None or ref.crs != "image":
        return not_applicable("no boxes")
    scene = scene_of_layer(case, ref)
    gsd = scene.effective_gsd_m if scene else next((i.gsd_m for i in case.observation.inputs if i.gsd_m), None)
    if gsd is None:
        return not_applicable("the GSD is not known")
    try:
        by_class = _median_areas(case, ref)
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    for name, areas in by_class.items():
        bounds = case.limits.object_sizes_m2.get(name)
        if bounds is None or not areas:
            continue
        median = float(np.median(areas)) * gsd * gsd
        if not bounds[0] <= median <= bounds[1]:
            return failed(
                f"Half of the objects called {name} are {'smaller' if median < bounds[0] else 'larger'} than such objects are.",
                measured=median,
                expected=list(bounds),
                unit="m2",
                at=("/result/layers",),
                severity=None if median > _FAR_BEYOND * bounds[1] or median * _FAR_BEYOND < bounds[0] else "warn",
            )
    if not any(n in case.limits.object_sizes_m2 for n in by_class):
        return not_applicable("no class with known sizes")
    return passed("Objects have sizes of their class.", at=("/result/layers",))


@check(
    "sizes_of_one_kind",
    "warn",
    catches=("merged or duplicated detections",),
    limits=("size_spread",),
    reads=("/result/layers",),
    family="plausibility",
)
def sizes_of_one_kind(case: Case) -> Finding:
    """No detection is many times larger than its class's median: neighbours merged into one look like that."""
    ref = kept_boxes(case)
    if ref is None:
        return not_applicable("no boxes")
    try:
        by_class = _median_areas(case, ref)
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    worst = 0.0
    for areas in by_class.values():
        if len(areas) >= 5:
            worst = max(worst, max(areas) / max(float(np.median(areas)), 1e-9))
    if worst == 0.0:
        return not_applicable("too few boxes of a class")
    if worst > case.limits.size_spread:
        return failed(
            "The largest detection is many times the median of its class: several objects may be merged.",
            measured=worst,
            expected=f"≤ {case.limits.size_spread:g}",
            at=("/result/layers",),
        )
    return passed("Detections are of one size class.", measured=worst, at=("/result/layers",))


# The roles of bands in which things are seen by their shape; speckle of SAR is noise by its nature.
_SEEN_IN = ("red", "green", "blue", "gray", "pan")


_NOISE_WINDOW_PX = 512


@check(
    "picture_more_than_noise",
    catches=("model used outside its area", "merged or duplicated detections"),
    limits=("noise_share",),
    reads=("/result/layers", "/inputs"),
    family="plausibility",
)
def picture_more_than_noise(case: Case) -> Finding:
    """Objects are found in a picture and not in noise: somewhere neighbouring pixels are alike, along rows, columns or a
    diagonal."""
    ref = kept_boxes(case)
    if ref is None or ref.crs != "image" or not ref.n:
        return not_applicable("no boxes")
    scene = scene_of_layer(case, ref)
    held = [b.index for b in scene.bands if b.role in _SEEN_IN][:3] if scene is not None else []
    if scene is None or not held:
        return not_applicable("no picture in colours or grey")
    reader = case.open(scene.scene_id)
    if reader is None:
        return inconclusive("The source's pixels are not at hand.", at=("/inputs",))
    try:
        bounds = bounds_of_layer(case, ref)
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    width, height = min(_NOISE_WINDOW_PX, scene.grid.width), min(_NOISE_WINDOW_PX, scene.grid.height)
    # about the middle one of the boxes, whatever else the picture holds
    at = np.nanmedian(bounds, axis=0) if len(bounds) else np.zeros(4)
    left, top = (
        int(np.clip((at[k] + at[k + 2]) / 2 - size / 2, 0, whole - size))
        for k, size, whole in ((0, width, scene.grid.width), (1, height, scene.grid.height))
    )
    read = reader.read(held, (left, top, width, height), physical=False)
    grey = np.where(read.valid.all(axis=0), read.data.astype(np.float64).mean(axis=0), np.nan)
    variance = float(np.nanvar(grey)) if np.isfinite(grey).sum() > 100 else 0.0
    if variance <= 0:
        return not_applicable("too little is seen there")
    steps = (
        grey[:, 1:] - grey[:, :-1],
        grey[1:] - grey[:-1],
        grey[1:, 1:] - grey[:-1, :-1],
        grey[1:, :-1] - grey[:-1, 1:],
    )
    shares = [float(np.nanmean(s**2)) / (2 * variance) for s in steps if np.isfinite(s).any()]
    share = min(shares) if shares else 0.0
    if share > case.limits.noise_share:
        return failed(
            "Where these objects were found the picture is noise: neighbouring pixels have nothing in common.",
            measured=share,
            expected=case.limits.noise_share,
            at=("/result/layers", "/inputs"),
        )
    return passed("Neighbouring pixels are alike.", measured=share, expected=case.limits.noise_share, at=("/inputs",))


@check(
    "objects_have_room",
    "warn",
    catches=("merged or duplicated detections", "wrong GSD"),
    reads=("/result/value",),
    family="plausibility",
)
def objects_have_room(case: Case) -> Finding:
    """As many objects as are counted have room in the scene."""
    ref = kept_boxes(case)
    if ref is None or ref.crs != "image":
        return not_applicable("no boxes")
    scene = scene_of_layer(case, ref)
    if scene is None:
        return not_applicable("the scene is not known")
    try:
        bounds = bounds_of_layer(case, ref)
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    covered = float(np.nansum((bounds[:, 2] - bounds[:, 0]) * (bounds[:, 3] - bounds[:, 1]))) if len(bounds) else 0.0
    share = covered / (scene.grid.width * scene.grid.height)
    if share > 2.0:
        return failed(
            "The boxes together are larger than the image twice over.", measured=share, expected="≤ 2", at=("/result/layers",)
        )
    return passed("The objects have room.", measured=share, at=("/result/layers",))


@check(
    "scores_above_threshold",
    catches=("wrong threshold",),
    reads=("/result/layers", "/evidence/intermediate/scores"),
    family="plausibility",
)
def scores_above_threshold(case: Case) -> Finding:
    """Every kept detection scores at least the threshold that was asked for, and scores lie in [0, 1]."""
    raw = case.evidence("intermediate", "scores")
    scores = [s for s in (number_of(v) for v in raw) if s is not None] if isinstance(raw, list) else []
    method = case.arguments.get("objects_method")
    threshold = number_of(method.get("score_threshold")) if isinstance(method, dict) else None
    ref = kept_boxes(case)
    if ref is not None:
        try:
            scores += [
                s for s in (number_of((f.get("properties") or {}).get("score")) for f in case.features(ref)) if s is not None
            ]
        except LayerUnreadableError:
            pass
    if not scores:
        return not_applicable("no scores")
    if min(scores) < 0 or max(scores) > 1:
        return failed(
            "A score is no probability.",
            measured=[min(scores), max(scores)],
            expected=[0, 1],
            at=("/evidence/intermediate/scores",),
        )
    if threshold is not None and min(scores) < threshold - 1e-6:
        return failed(
            "Detections below the asked threshold were kept.",
            measured=min(scores),
            expected=f"≥ {threshold}",
            at=("/evidence/intermediate/scores", "/arguments/objects_method/score_threshold"),
        )
    return passed(
        "Scores are above the threshold.", measured=min(scores), expected=threshold, at=("/evidence/intermediate/scores",)
    )


@check(
    "no_empty_part_like_the_rest",
    catches=("dropped tile", "clipped region"),
    limits=("empty_part_expected", "empty_part_chance", "empty_part_share", "empty_part_shift"),
    reads=("/result/layers", "/inputs"),
    family="plausibility",
)
def no_empty_part_like_the_rest(case: Case) -> Finding:
    """No quarter of the scene is all but without detections while it looks like the quarters that are full of them.

    Few by chance: of n detections spread evenly, a given quarter holds Binomial(n, 1/4), and the emptiest of four is picked, so
    its chance is at most four times that. Things that stand closer here than there are far beyond chance and still all seen;
    what was not looked at is empty but for what reaches over its edge.
    """
    ref = next((r for r in case.observation.result.layers if r.kind == "boxes" and not r.is_aside), None)
    if ref is None or ref.crs != "image" or case.is_limited or len(case.used_scenes) != 1:
        return not_applicable("no detections over a whole scene")
    scene = case.used_scenes[0]
    try:
        b = bounds_of_layer(case, ref)
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    b = b[np.isfinite(b).all(axis=1)]
    if len(b) < 4 * case.limits.empty_part_expected:
        return not_applicable("too few detections to say what is empty")
    reader = case.open(scene.scene_id)
    if reader is None:
        return not_applicable("the source's pixels are not at hand")
    side = 64
    seen = reader.read([band.index for band in scene.bands[:3]], out_shape=(side, side), physical=False)
    east, south = (b[:, 0] + b[:, 2]) / 2 >= scene.grid.width / 2, (b[:, 1] + b[:, 3]) / 2 >= scene.grid.height / 2
    half = side // 2
    parts = [(down, right) for down in (False, True) for right in (False, True)]
    counts, looks = [], []
    for down, right in parts:
        counts.append(int(((south == down) & (east == right)).sum()))
        cut = np.s_[:, half * down : half * (down + 1), half * right : half * (right + 1)]
        data, valid = seen.data[cut].astype(np.float64), seen.valid[cut].all(axis=0)
        if valid.mean() < 0.9:
            return not_applicable("a quarter of the scene holds fill")
        looks.append((data[:, valid].mean(axis=1), data[:, valid].std(axis=1)))
    least = int(np.argmin(counts))
    others = [looks[k] for k in range(4) if k != least]
    expected = (len(b) - counts[least]) / 3
    chance = min(1.0, 4 * float(bdtr(counts[least], len(b), 0.25)))
    is_empty = chance <= case.limits.empty_part_chance and counts[least] <= case.limits.empty_part_share * expected
    if not is_empty or expected < case.limits.empty_part_expected:
        return passed("Every quarter holds detections.", measured=counts, unit="detections", at=("/result/layers",))
    mean, spread = looks[least]
    means, spreads = np.array([m for m, _ in others]), np.array([s for _, s in others])
    room = case.limits.empty_part_shift * spreads.mean(axis=0)
    is_alike = bool(
        ((mean >= means.min(axis=0) - room) & (mean <= means.max(axis=0) + room)).all()
        and ((spread >= 0.7 * spreads.min(axis=0)) & (spread <= 1.4 * spreads.max(axis=0))).all()
    )
    where = f"{'lower' if parts[least][0] else 'upper'} {'right' if parts[least][1] else 'left'}"
    if is_alike:
        return failed(
            f"The {where} quarter holds {counts[least]} detections where about {expected:.0f} would be expected, and looks like "
            "the others; it seems not to have been looked at.",
            measured=counts[least],
            expected=round(expected, 1),
            unit="detections",
            at=("/result/layers",),
        )
    return passed(f"The {where} quarter is empty and looks unlike the others.", measured=counts, at=("/result/layers",))


@check(
    "gsd_known_to_model",
    catches=("wrong GSD", "model used outside its area"),
    reads=("/evidence/source/weights", "/evidence/source/resolution_m"),
    family="plausibility",
)
def gsd_known_to_model(case: Case) -> Finding:
    """The pixels are of a size that the model was made for, whatever the tool says of its own fitness."""
    weights = case.evidence("source", "weights")
    listed = [w for w in weights if isinstance(w, dict)] if isinstance(weights, list) else []
    spans = [(str(w.get("name")), w["gsd_m"]) for w in listed if isinstance(w.get("gsd_m"), list) and len(w["gsd_m"]) == 2]
    gsd = case.evidence_number("source", "resolution_m")
    if case.observation.tool != "perceive" or not spans:
        return not_applicable("no model that says for which GSD it was made")
    if gsd is None:
        return inconclusive(
            "The size of a pixel is not known; whether the model fits cannot be told.", at=("/evidence/source/resolution_m",)
        )
    for name, span in spans:
        low, high = number_of(span[0]), number_of(span[1])
        # a thousandth either way is rounding
        if low is not None and high is not None and not low * 0.999 <= gsd <= high * 1.001:
            return failed(
                f"{name} was made for {low:g} to {high:g} m a pixel.",
                measured=gsd,
                expected=f"{low:g} to {high:g}",
                unit="m",
                at=("/evidence/source/resolution_m", "/evidence/source/weights"),
            )
    return passed("The model was made for this GSD.", measured=gsd, unit="m", at=("/evidence/source/resolution_m",))
