"""Detectors without weights: honest, experimental, for classes that no model of the zoo knows. Each with its scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage

from apps.core.errors import ToolAbstainedError
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.perceive.noise import NOISE_KERNEL, grain
from apps.tools.region import RegionMask
from apps.tools.zoo.cards import CountCalibration, normal
from apps.tools.zoo.tiling import Boxes, overlap_pairs, plan_tiles, suppress

Report = Callable[[float, str], None]
# Share of a window's variation that is noise above which nothing there has a shape: 1 in noise alone, at most 0.6 in the 2,100
# pictures of UC Merced (fields and scrub).
MOST_NOISE = 0.75


@dataclass(frozen=True, slots=True)
class ClassicalMethod:
    """A detector that is a formula. ``run`` gives (boxes in the reader's pixels, {'windows', 'filters'}, bands read).
    ``least_m``: length of the smallest thing it looks for; ``not_for``: ground or things on which its count means nothing."""

    name: str
    words: tuple[str, ...]
    gsd_m: tuple[float, float]
    roles: tuple[tuple[str, ...], ...]
    about: str
    source: str
    settings: Mapping[str, JsonValue]
    find: Callable[[RasterReader, RegionMask, Report], tuple[Boxes, dict[str, Any], tuple[int, ...]]]
    scores: Mapping[str, JsonValue] = field(default_factory=dict)
    calibration: CountCalibration | None = None
    least_m: float | None = None
    not_for: tuple[str, ...] = ()

    @property
    def scores_told(self) -> str:
        """Its scores in words; '' where none are known."""
        return "; ".join(f"{k}: {v}" for k, v in self.scores.items())

    def knows(self, word: str) -> bool:
        return normal(word) in {normal(w) for w in self.words}

    def bands(self, scene: SceneInfo) -> tuple[int, ...] | None:
        """Indices of the first set of roles that the scene has, or None."""
        for roles in self.roles:
            at = [scene.bands_with_role(r) for r in roles]
            if all(len(b) == 1 for b in at):
                return tuple(b[0].index for b in at)
        return None

    def unfit(self, scene: SceneInfo) -> str:
        """Why the method cannot look at this scene; '' where it can."""
        if self.bands(scene) is None:
            wanted = " or ".join(", ".join(r) for r in self.roles)
            return f"{self.name} needs {wanted}; the scene does not say which bands these are."
        gsd = scene.effective_gsd_m
        if gsd is None:
            return f"{self.name} needs the GSD: it looks for objects of a size on the ground."
        if not self.gsd_m[0] <= gsd <= self.gsd_m[1]:
            return f"{self.name} works at {self.gsd_m[0]:g} to {self.gsd_m[1]:g} m a pixel; the scene has {gsd:g} m."
        return ""

    def run(self, reader: RasterReader, region: RegionMask, report: Report
            ) -> tuple[Boxes, dict[str, Any], tuple[int, ...]]:
        """ToolAbstainedError where ``unfit`` says something."""
        reason = self.unfit(reader.info)
        if reason:
            raise ToolAbstainedError(reason, code="MODEL_MISSING")
        return self.find(reader, region, report)


def _windows(region: RegionMask, size: int, overlap: int) -> list[Window]:
    left, top, width, height = region.bounds_px
    x0, y0 = max(0, left - overlap), max(0, top - overlap)
    x1 = min(region.grid.width, left + width + overlap)
    y1 = min(region.grid.height, top + height + overlap)
    return [w for w in plan_tiles((x0, y0, x1 - x0, y1 - y0), size, 2 * overlap) if region.touches(w)]


def _in_region(boxes: Boxes, region: RegionMask) -> Boxes:
    if region.polygon is None or not len(boxes):
        return boxes
    import shapely

    centre = (boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2
    return boxes.pick(np.asarray(shapely.contains_xy(region.polygon, centre[:, 0], centre[:, 1])))


def _logistic(value: NDArray[np.float64], middle: float, width: float) -> NDArray[np.float64]:
    return np.asarray(1 / (1 + np.exp(-(value - middle) / width)))


# --- trees ----------------------------------------------------------------------------------------------------------------
# Crown radii looked for, m; a crown's box is CROWN_BOX times the scale of its blob.
CROWN_SIGMA_M = (1.2, 1.6, 2.2)
CROWN_BOX = 1.7
GREENNESS_WEIGHT, BRIGHTNESS_WEIGHT, LEAST_BLOB = 3.0, 0.5, 0.08


def _trees(reader: RasterReader, region: RegionMask, report: Report) -> tuple[Boxes, dict[str, Any], tuple[int, ...]]:
    """Crowns as blobs: scale-normalised Laplacian of Gaussian of greenness and brightness (Lindeberg 1998)."""
    scene = reader.info
    bands = TREES.bands(scene)
    gsd = scene.effective_gsd_m
    assert bands is not None
    assert gsd is not None
    sigma = [s / gsd for s in CROWN_SIGMA_M]
    margin = int(4 * sigma[-1])
    windows = _windows(region, 1024, margin)
    top_value = 255.0 if scene.dtype == "uint8" else None
    parts: list[Boxes] = []
    n_noise = 0
    for number, (left, top, width, height) in enumerate(windows):
        part = reader.read(bands, (left, top, width, height), physical=False)
        valid: NDArray[np.bool_] = np.asarray(part.valid.all(axis=0))
        if not valid.any():
            continue
        rgb = np.where(valid[None], part.data, 0).astype(float)
        if _is_noise(rgb.mean(axis=0), valid):
            n_noise += 1
            continue
        scale = top_value if top_value is not None else max(float(np.percentile(rgb[:, valid], 99)), 1e-9) if valid.any() else 1.0
        total = rgb.sum(axis=0)
        green = np.where(total > 0, (2 * rgb[1] - rgb[0] - rgb[2]) / np.maximum(total, 1e-9), 0)
        field_ = GREENNESS_WEIGHT * green + BRIGHTNESS_WEIGHT * rgb.mean(axis=0) / scale
        if not valid.all():
            # the step to a margin without data is no rim of a crown: what is nearest goes on there
            beside = ndimage.distance_transform_edt(~valid, return_distances=False, return_indices=True)
            field_ = field_[tuple(cast(NDArray[np.int64], beside))]
        blob = np.stack([-s * s * ndimage.gaussian_laplace(field_, s) for s in sigma])
        near = max(3, int(0.9 / gsd) | 1)
        peak = (blob == ndimage.maximum_filter(blob, size=(3, near, near))) & (blob > LEAST_BLOB) & valid[None]
        k, y, x = np.nonzero(peak)
        radius = np.asarray(sigma)[k] * CROWN_BOX
        xyxy = np.stack([x - radius, y - radius, x + radius, y + radius], 1) + 0.5 + np.array([left, top, left, top])
        parts.append(Boxes(xyxy, _logistic(blob[k, y, x], 0.16, 0.06), np.zeros(len(k), np.int64),
                           np.full(len(k), number, np.int64)))
        report((number + 1) / len(windows), f"window {number + 1} of {len(windows)}")
    _refuse_noise(scene, n_noise, len(windows), "crowns")
    boxes = Boxes.joined(parts)
    boxes.xyxy[:, [0, 2]] = boxes.xyxy[:, [0, 2]].clip(0, scene.grid.width)
    boxes.xyxy[:, [1, 3]] = boxes.xyxy[:, [1, 3]].clip(0, scene.grid.height)
    filters: list[dict[str, JsonValue]] = []
    once = _greedy(boxes, 0.25)
    filters.append({"name": "crowns that overlap a better one", "before": len(boxes), "after": len(once), "iou": 0.25})
    inside = _in_region(once, region)
    filters.append({"name": "inside the region", "before": len(once), "after": len(inside)})
    return inside, {"windows": len(windows), "filters": filters}, bands


def _greedy(boxes: Boxes, iou: float) -> Boxes:
    """Suppression over all pairs, whichever window they come from."""
    one = Boxes(boxes.xyxy, boxes.score, boxes.cls, np.zeros(len(boxes), np.int64))
    return boxes.pick(suppress(one, iou=iou, within_tile=True))


# --- ships in SAR -----------------------------------------------------------------------------------------------------------
FALSE_ALARM = 1e-6
SHIP_M = (15.0, 420.0)
# Connected ground brighter than the sea and larger than this is land.
LAND_KM2 = 0.25
# Speckle of one look has a standard deviation of 5.6 dB, of two 3.5 (of linear intensity, taken for amplitude, twice that): with
# one look a ship is no brighter than the sea's own brightest pixels.
MOST_SPECKLE_DB = 4.2
# Open sea fills at least this share of the picture, and so much of it lies in one piece; else it is land with water on it.
LEAST_SEA, LEAST_BODY = 0.5, 0.8
# Backscatter (dB) below which land is rare, in co- and cross-polarisation at C band: where nothing else tells land from sea.
LAND_DB = {"co": -14.0, "cross": -22.0}


def _ships(reader: RasterReader, region: RegionMask, report: Report) -> tuple[Boxes, dict[str, Any], tuple[int, ...]]:
    """Cell-averaging CFAR (Finn & Johnson 1968) on SAR intensity over the sea, in decibels with a local mean and deviation.

    ToolAbstainedError MODEL_MISSING where land cannot be told from sea, the picture shows no open sea, or speckle hides ships.
    """
    scene = reader.info
    bands = SHIPS.bands(scene)
    gsd = scene.effective_gsd_m
    assert bands is not None
    assert gsd is not None
    guard, ring = max(3, int(60 / gsd) | 1), max(9, int(260 / gsd) | 1)
    windows = _windows(region, 1024, ring)
    from scipy.stats import norm

    factor = float(norm.isf(FALSE_ALARM))
    is_db = _is_decibels(reader, bands)
    level, shore = _shore(reader, bands, windows, gsd, is_db=is_db)
    if level is None:
        _refuse_unknown_ground(scene, bands, shore, is_db=is_db)
    parts: list[Boxes] = []
    speckle: list[tuple[float, int]] = []
    hits = small = land_px = sea_px = body_px = 0
    for number, (left, top, width, height) in enumerate(windows):
        db, valid = _decibels(reader, bands, (left, top, width, height), is_db=is_db)
        if not valid.any():
            continue
        land = _land(db, valid, gsd, level)
        sea = valid & ~land
        land_px, sea_px = land_px + int((land & valid).sum()), sea_px + int(sea.sum())
        bodies = np.bincount(ndimage.label(sea)[0].ravel())[1:]
        body_px += int(bodies.max()) if len(bodies) else 0
        # large ships reach into their own ring: what stands far out of the sea does not speak for it
        middle = float(np.median(db[sea])) if sea.any() else 0.0
        spread = 1.4826 * float(np.median(np.abs(db[sea] - middle))) if sea.any() else 1.0
        mean, deviation = _ring_statistics(db, sea & (db < middle + 4 * spread), guard, ring)
        bright = sea & (db > mean + factor * deviation)
        speckle.append((float(np.median(deviation[sea])) if sea.any() else 0.0, int(sea.sum())))
        # closing takes what lies at the rim of the window, and gives it to no one
        label, n = ndimage.label((bright | ndimage.binary_closing(bright, iterations=1)) & sea, structure=np.ones((3, 3)))
        found = []
        for i, at in enumerate(ndimage.find_objects(label), start=1):
            if at is None:
                continue
            side = max(at[0].stop - at[0].start, at[1].stop - at[1].start) * gsd
            if not SHIP_M[0] <= side <= SHIP_M[1] or (label[at] == i).sum() < 2:
                small += 1
                continue
            z = float(((db - mean) / np.maximum(deviation, 1e-3))[at][label[at] == i].max())
            found.append((at[1].start + left, at[0].start + top, at[1].stop + left, at[0].stop + top, z))
        hits += n
        if found:
            rows = np.array(found)
            parts.append(Boxes(rows[:, :4].astype(float), _logistic(rows[:, 4], 6.0, 1.2), np.zeros(len(rows), np.int64),
                               np.full(len(rows), number, np.int64)))
        report((number + 1) / len(windows), f"window {number + 1} of {len(windows)}")
    share = sea_px / max(1, sea_px + land_px)
    whole = body_px / max(1, sea_px)
    if share < LEAST_SEA or whole < LEAST_BODY:
        raise ToolAbstainedError(
            f"Only {share:.0%} of {scene.name} is dark and smooth as water is, {whole:.0%} of that in one piece: this is no open "
            "sea. On land, flooded fields and inland waters bright spots are no ships. Give a picture, or a region, of the "
            "open sea.", code="MODEL_MISSING", needs={"model": "ships on other ground than the open sea", "land_mask": True})
    grainy = float(np.average([v for v, _ in speckle], weights=[n for _, n in speckle]))
    most = MOST_SPECKLE_DB * (1 if is_db or getattr(reader, "is_complex", False) else 2)
    if grainy > most:
        raise ToolAbstainedError(
            f"The sea of {scene.name} strays by {grainy:.1f} dB from pixel to pixel, as in a picture of a single look (at most "
            f"{most:g} dB can be told from ships): ships would fall to pieces in it, or be lost. Average it to several looks "
            "first.", code="MODEL_MISSING", needs={"picture": "with less speckle"})
    boxes = Boxes.joined(parts)
    filters: list[dict[str, JsonValue]] = [
        {"name": "size of a ship", "before": hits, "after": hits - small, "land_px": land_px, "sea_share": round(share, 4),
         "sea_in_one_piece": round(whole, 4), "shore_db": level, "speckle_db": round(grainy, 2)}]
    once = _merge_seams(boxes)
    filters.append({"name": "doubles across window seams", "before": len(boxes), "after": len(once)})
    inside = _in_region(once, region)
    filters.append({"name": "inside the region", "before": len(once), "after": len(inside)})
    return inside, {"windows": len(windows), "filters": filters}, bands


def _is_decibels(reader: RasterReader, bands: tuple[int, ...]) -> bool:
    """Whether the band says so, or has samples below zero, which no intensity has. Decided once for the picture."""
    if reader.info.bands[bands[0] - 1].unit == "dB":
        return True
    grid = reader.info.grid
    view = reader.read(bands, None, (min(512, grid.height), min(512, grid.width)))
    values = view.data[0][view.valid[0]]
    return bool(values.size and np.nanmin(values) < 0)


def _decibels(reader: RasterReader, bands: tuple[int, ...], window: Window, *, is_db: bool
              ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """(decibels, valid) of a window; the median where nothing is valid."""
    part = reader.read(bands, window)
    valid: NDArray[np.bool_] = np.asarray(part.valid[0] & np.isfinite(part.data[0]))
    raw = np.where(valid, part.data[0], 1.0).astype(float)
    db = raw if is_db else 20 * np.log10(np.maximum(raw, 1e-9))
    return np.where(valid, db, np.median(db[valid]) if valid.any() else 0.0), valid


def _shore(reader: RasterReader, bands: tuple[int, ...], windows: Sequence[Window], gsd: float, *, is_db: bool
           ) -> tuple[float | None, float]:
    """(decibels, smoothed over 100 m, that part land from sea over all windows, by Otsu's threshold; the median of the picture).
    None where the histogram has one hump (between-class share below 0.5) or two that lie closer than 4 dB."""
    edge = np.arange(-200.0, 200.25, 0.25)
    count = np.zeros(len(edge) - 1)
    for window in windows:
        db, valid = _decibels(reader, bands, window, is_db=is_db)
        if valid.any():
            count += np.histogram(_smooth(db, gsd)[valid], edge)[0]
    centre = (edge[:-1] + edge[1:]) / 2
    w0 = np.cumsum(count)
    total = max(float(w0[-1]), 1.0)
    middle = float(centre[int(np.searchsorted(w0, total / 2))]) if w0[-1] else 0.0
    w1 = w0[-1] - w0
    sums = np.cumsum(count * centre)
    m0, m1 = sums / np.maximum(w0, 1), (sums[-1] - sums) / np.maximum(w1, 1)
    between = w0 * w1 * (m0 - m1) ** 2 / total**2
    variance = float((count * (centre - sums[-1] / total) ** 2).sum() / total)
    k = int(np.argmax(between))
    if between[k] < 0.5 * max(variance, 1e-9) or m1[k] - m0[k] < 4.0:
        return None, middle
    return float(centre[k]), middle


def _refuse_unknown_ground(scene: SceneInfo, bands: tuple[int, ...], middle: float, *, is_db: bool) -> None:
    """Where nothing parts land from sea the whole picture is one of the two. ToolAbstainedError where it may be land."""
    role = scene.bands[bands[0] - 1].role
    darkest_land = LAND_DB["cross" if role in ("vh", "hv") else "co"]
    if not is_db:
        why = "its samples are no decibels, so their level does not say which of the two it is"
    elif middle > darkest_land:
        why = f"its level of {middle:.1f} dB in {role.upper()} may be land (the sea is told below {darkest_land:g} dB)"
    else:
        return
    raise ToolAbstainedError(f"Nothing parts land from sea in {scene.name}, and {why}. Bright spots on land are no ships. Give a "
                             "picture of calibrated backscatter in dB, or one that shows the coast.", code="MODEL_MISSING",
                             needs={"model": "ships on other ground than the open sea", "land_mask": True})


def _smooth(db: NDArray[np.float64], gsd: float) -> NDArray[np.float64]:
    return np.asarray(ndimage.uniform_filter(db, max(3, int(100 / gsd) | 1)))


def _land(db: NDArray[np.float64], valid: NDArray[np.bool_], gsd: float, level: float | None) -> NDArray[np.bool_]:
    """Large connected ground that is brighter than ``level`` after smoothing over 100 m, and 60 m around it; none without one."""
    if level is None:
        return np.zeros(db.shape, bool)
    label, n = ndimage.label((_smooth(db, gsd) > level) & valid)
    size = np.bincount(label.ravel(), minlength=n + 1)
    large = size * gsd * gsd > LAND_KM2 * 1e6
    large[0] = False
    return np.asarray(ndimage.binary_dilation(large[label], iterations=max(1, int(60 / gsd))), bool)


def _ring_statistics(db: NDArray[np.float64], sea: NDArray[np.bool_], guard: int, ring: int
                     ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and deviation of the sea in a square ring around each pixel; the whole sea's where the ring holds too little."""
    def total(values: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(ndimage.uniform_filter(values, ring, mode="constant") * ring**2
                          - ndimage.uniform_filter(values, guard, mode="constant") * guard**2)

    weight = sea.astype(float)
    n = total(weight)
    mean = total(db * weight) / np.maximum(n, 1)
    square = total(db * db * weight) / np.maximum(n, 1)
    deviation = np.sqrt(np.maximum(square - mean**2, 1e-4))
    few = n < 0.2 * (ring**2 - guard**2)
    all_sea = db[sea]
    if len(all_sea):
        mean = np.where(few, all_sea.mean(), mean)
        deviation = np.where(few, max(float(all_sea.std()), 1e-2), deviation)
    return mean, deviation


def _is_noise(grey: NDArray[np.float64], valid: NDArray[np.bool_]) -> bool:
    """Whether a window holds next to nothing but noise (Immerkær 1996, CVIU 64), in which shapes are found that are none."""
    spread = float(grey[valid].std()) if valid.any() else 0.0
    inner = ndimage.binary_erosion(valid, iterations=1)
    if spread == 0 or inner.sum() < 100:
        return False
    filled = np.where(valid, grey, grey[valid].mean())
    sigma = float(np.abs(ndimage.convolve(filled, NOISE_KERNEL))[inner].mean()) * np.sqrt(np.pi / 2) / 6
    return bool(sigma > MOST_NOISE * spread)


def _refuse_noise(scene: SceneInfo, n_noise: int, n_windows: int, things: str) -> None:
    """ToolAbstainedError where no window of the picture was anything but noise."""
    if n_noise and n_noise == n_windows:
        raise ToolAbstainedError(f"{scene.name} shows hardly anything but noise here: shapes in it are no {things}. Give a "
                                 "picture on which the ground can be seen.", code="MODEL_MISSING",
                                 needs={"picture": "with less noise"})


def _merge_seams(boxes: Boxes) -> Boxes:
    if len(boxes) < 2:
        return boxes
    i, j, overlap, inside = overlap_pairs(boxes.xyxy)
    lost = {int(b if boxes.score[a] >= boxes.score[b] else a)
            for a, b, v, w in zip(i, j, overlap, inside, strict=True) if boxes.tile[a] != boxes.tile[b] and max(v, w) > 0.3}
    return boxes.pick(np.array([k for k in range(len(boxes)) if k not in lost], np.int64))


# --- storage tanks ----------------------------------------------------------------------------------------------------------
TANK_RADIUS_M = (4.0, 42.0)
LEAST_EDGE = 0.62
# Share of a circle that is an edge → score: 0.7 becomes 0.25. On UC Merced 0 of 36 pictures without tanks reach 0.7, and 35 % of
# those with tanks; at 0.5 there were 20 false circles a picture.
EDGE_TO_SCORE = (0.6, 0.4)
# Edges are told by shares of the window's span of brightness, which is taken to be at least so many standard deviations of its
# noise: in a quiet window of less the noise itself is full of edges, and of circles.
LEAST_SPAN_OF_NOISE = 25.0


def _tanks(reader: RasterReader, region: RegionMask, report: Report) -> tuple[Boxes, dict[str, Any], tuple[int, ...]]:
    """Circles by the Hough transform of edges (Yuen et al. 1990); the score is the share of the circle that is an edge."""
    import skimage.feature
    import skimage.transform

    canny: Any = skimage.feature.canny
    hough_circle: Any = skimage.transform.hough_circle
    hough_circle_peaks: Any = skimage.transform.hough_circle_peaks
    scene = reader.info
    bands = TANKS.bands(scene)
    gsd = scene.effective_gsd_m
    assert bands is not None
    assert gsd is not None
    work = max(gsd, 0.6)                    # edges of tanks need no sharper picture
    step = max(1, round(work / gsd))
    low, high = (round(r / (gsd * step)) for r in TANK_RADIUS_M)
    radii = np.arange(max(4, low), max(5, high) + 1)
    margin = int(radii.max() * step) + 4
    windows = _windows(region, max(512 * step, 3 * margin), margin)
    parts: list[Boxes] = []
    n_noise = 0
    for number, (left, top, width, height) in enumerate(windows):
        shape = max(1, height // step), max(1, width // step)
        part = reader.read(bands, (left, top, width, height), shape, physical=False)
        valid: NDArray[np.bool_] = np.asarray(part.valid.all(axis=0))
        grey = np.where(valid, part.data.astype(float).mean(axis=0), 0)
        if _is_noise(grey, valid):
            n_noise += 1
            continue
        span = np.percentile(grey[valid], (1, 99)) if valid.any() else (0.0, 1.0)
        contrast = max(float(span[1] - span[0]), LEAST_SPAN_OF_NOISE * grain(grey, valid), 1e-9)
        edges = canny((grey - span[0]) / contrast, sigma=1.2, low_threshold=0.08, high_threshold=0.2)
        edges &= ndimage.binary_erosion(valid, iterations=2, border_value=1)
        if edges.any():
            accumulators = hough_circle(edges, radii)
            score, cx, cy, r = hough_circle_peaks(accumulators, radii, min_xdistance=int(radii[0]), min_ydistance=int(radii[0]),
                                                  threshold=LEAST_EDGE, total_num_peaks=400)
            if len(score):
                sx, sy = width / shape[1], height / shape[0]
                xyxy = np.stack([(cx - r + 0.5) * sx + left, (cy - r + 0.5) * sy + top, (cx + r + 0.5) * sx + left,
                                 (cy + r + 0.5) * sy + top], 1).astype(float)
                share = ((np.asarray(score, float) - EDGE_TO_SCORE[0]) / EDGE_TO_SCORE[1]).clip(0, 1)
                parts.append(Boxes(xyxy, share, np.zeros(len(score), np.int64),
                                   np.full(len(score), number, np.int64)))
        report((number + 1) / len(windows), f"window {number + 1} of {len(windows)}")
    _refuse_noise(scene, n_noise, len(windows), "tanks")
    boxes = Boxes.joined(parts)
    whole = boxes.pick((boxes.xyxy[:, 0] >= 0) & (boxes.xyxy[:, 1] >= 0) & (boxes.xyxy[:, 2] <= scene.grid.width)
                       & (boxes.xyxy[:, 3] <= scene.grid.height))
    filters: list[dict[str, JsonValue]] = [{"name": "whole inside the picture", "before": len(boxes), "after": len(whole)}]
    once = _greedy(whole, 0.15)
    filters.append({"name": "circles that overlap a better one", "before": len(whole), "after": len(once), "iou": 0.15})
    inside = _in_region(once, region)
    filters.append({"name": "inside the region", "before": len(once), "after": len(inside)})
    return inside, {"windows": len(windows), "filters": filters}, bands


TREES = ClassicalMethod(
    name="tree-blobs", words=("tree", "tree crown", "crown"), gsd_m=(0.05, 0.3), roles=(("red", "green", "blue"),),
    about="Crowns as blobs of greenness and brightness; experimental.", source="Lindeberg 1998, scale-space blob detection",
    settings={"crown_sigma_m": list(CROWN_SIGMA_M), "box_factor": CROWN_BOX, "least_blob": LEAST_BLOB}, find=_trees,
    least_m=2 * CROWN_BOX * CROWN_SIGMA_M[0],
    not_for=("shrubs, lawns and fields, whose tufts look like crowns", "crowns narrower than 4 m or closed canopy"),
    scores={"NEON OSBS_029": "55 found, 61 labelled, F1 0.69 at IoU 0.4", "NEON YELL": "370 found, 279 labelled, F1 0.39"},
    calibration=CountCalibration(slope=0.0, intercept=-0.405, missed=0.47, spread=0.35, n_objects=340,
                                 fitted_on="NEON OSBS_029 and YELL, on which the parameters were chosen too"))
SHIPS = ClassicalMethod(
    name="sar-ship-cfar", words=("ship", "vessel", "boat"), gsd_m=(1.0, 40.0), roles=(("vv",), ("hh",), ("vh",), ("hv",)),
    about="Bright objects against the sea around them, land masked; for the open sea, not for inland waters; experimental.",
    source="Finn & Johnson 1968, CA-CFAR",
    settings={"false_alarm": FALSE_ALARM, "ship_m": list(SHIP_M), "land_km2": LAND_KM2, "least_sea_share": LEAST_SEA,
              "least_sea_in_one_piece": LEAST_BODY}, find=_ships, least_m=SHIP_M[0],
    not_for=("inland waters, rivers and flooded land", "platforms, wind turbines and rocks, which look like ships"))
TANKS = ClassicalMethod(
    name="tank-circles", words=("storage tank", "tank", "oil tank", "silo"), gsd_m=(0.1, 2.0),
    roles=(("red", "green", "blue"), ("pan",), ("gray",)),
    about="Circles of edges; experimental.", source="Yuen et al. 1990, Hough circle transform",
    settings={"radius_m": list(TANK_RADIUS_M), "least_edge_share": LEAST_EDGE}, find=_tanks, least_m=2 * TANK_RADIUS_M[0],
    not_for=("round things that are no tanks: pools, roundabouts, pivot fields",),
    scores={"UC Merced": "a circle on 35 % of 20 pictures with tanks, on 0 of 36 without"},
    calibration=CountCalibration(slope=1.0, intercept=0.0, missed=0.8, spread=0.8, n_objects=20,
                                 fitted_on="UC Merced test pictures, presence alone"))
METHODS: dict[str, ClassicalMethod] = {m.name: m for m in (TREES, SHIPS, TANKS)}


def method_for(words: Sequence[str], scene: SceneInfo) -> ClassicalMethod | None:
    """The classical method for the words: SAR ships only on a scene that has a SAR band; None where none fits the words."""
    for m in METHODS.values():
        if any(m.knows(w) for w in words) and (m is not SHIPS or m.bands(scene) is not None):
            return m
    return None
