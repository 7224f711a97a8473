"""Scores a detector as the tool uses it: average precision by class, counts by picture, calibration of scores and intervals.

Pictures go through the same tiling and filters as a question's scene. A class is scored on the pictures of those domains in which
it was annotated (see ``detector.ANNOTATED``): an unlabelled car on an airport picture is no mistake.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.tools.contract import ObjectsMethod
from apps.tools.perceive.objects import Pixels, detect_scene
from apps.tools.region import RegionMask
from apps.tools.zoo.cards import CountCalibration, ModelCard
from apps.tools.zoo.counting import LEVEL, count_interval, fit_logistic, probability
from apps.tools.zoo.detectors import Detector, load_detector
from apps.tools.zoo.runtime import torch_module
from apps.tools.zoo.tiling import Boxes
from apps.tools.zoo.training.detector import ANNOTATED, Picture, domain_of, read_split


class ArrayReader:
    """A picture in memory behind the RasterReader port: uint8 (rows, columns, 3) RGB, all valid."""

    def __init__(self, rgb: NDArray[np.uint8], gsd_m: float | None = None):
        self._rgb = rgb
        h, w = rgb.shape[:2]
        self._info = SceneInfo(scene_id="picture", artifact="sha256:" + "0" * 64, name="picture", grid=Grid(width=w, height=h),
                               dtype="uint8", gsd_m=gsd_m,
                               bands=tuple(Band(index=i + 1, role=r) for i, r in enumerate(("red", "green", "blue"))))

    @property
    def info(self) -> SceneInfo:
        return self._info

    def read(self, bands: Sequence[int], window: Window | None = None, out_shape: tuple[int, int] | None = None, *,
             physical: bool = True) -> MaskedRaster:
        x, y, w, h = window or (0, 0, self._info.grid.width, self._info.grid.height)
        part = self._rgb[y:y + h, x:x + w]
        if out_shape is not None:
            rows = (np.arange(out_shape[0]) * h // out_shape[0])
            cols = (np.arange(out_shape[1]) * w // out_shape[1])
            part = part[rows][:, cols]
        data = np.stack([part[:, :, b - 1] for b in bands])
        grid = Grid(width=data.shape[2], height=data.shape[1])
        return MaskedRaster(data, np.ones(data.shape, bool), grid, tuple(self._info.bands[b - 1] for b in bands))

    def windows(self, size: int = 1024) -> Iterator[Window]:
        for y in range(0, self._info.grid.height, size):
            for x in range(0, self._info.grid.width, size):
                yield x, y, min(size, self._info.grid.width - x), min(size, self._info.grid.height - y)

    def close(self) -> None:
        return None


def iou_matrix(a: NDArray[Any], b: NDArray[Any]) -> NDArray[np.float64]:
    low = np.maximum(a[:, None, :2], b[None, :, :2])
    high = np.minimum(a[:, None, 2:], b[None, :, 2:])
    inter = np.prod(np.clip(high - low, 0, None), axis=2)
    area_a, area_b = np.prod(a[:, 2:] - a[:, :2], axis=1), np.prod(b[:, 2:] - b[:, :2], axis=1)
    return np.asarray(inter / np.maximum(area_a[:, None] + area_b[None] - inter, 1e-9))


def matched(found: NDArray[Any], score: NDArray[Any], truth: NDArray[Any], iou: float = 0.5) -> NDArray[np.bool_]:
    """Which boxes are true: in order of score each takes the free true box of the largest IoU ≥ ``iou``."""
    hit = np.zeros(len(found), bool)
    if not len(found) or not len(truth):
        return hit
    overlap, free = iou_matrix(found, truth), np.ones(len(truth), bool)
    for i in np.argsort(-score, kind="stable"):
        row = np.where(free, overlap[i], -1)
        j = int(np.argmax(row))
        if row[j] >= iou:
            hit[i], free[j] = True, False
    return hit


def average_precision(score: NDArray[Any], hit: NDArray[np.bool_], n_true: int) -> float:
    """Area under precision over recall with the precision envelope, 101 points (as COCO)."""
    if n_true == 0:
        return float("nan")
    order = np.argsort(-score, kind="stable")
    tp = np.cumsum(hit[order])
    precision = tp / np.arange(1, len(tp) + 1)
    recall = tp / n_true
    envelope = np.maximum.accumulate(precision[::-1])[::-1]
    at = np.searchsorted(recall, np.linspace(0, 1, 101), side="left")
    return float(np.mean([envelope[i] if i < len(envelope) else 0.0 for i in at]))


@dataclass(slots=True)
class Scored:
    """Boxes of one class on one picture against the truth."""

    name: str
    score: NDArray[np.float64]
    hit: NDArray[np.bool_]
    n_true: int


def run_split(detector: Detector, card: ModelCard, pictures: Sequence[Picture], zooms: dict[str, float], floor: float = 0.01
              ) -> tuple[dict[str, list[Scored]], float, float]:
    """(by class the scored pictures, megapixels, seconds)."""
    out: dict[str, list[Scored]] = {c.name: [] for c in card.classes}
    mpx = seconds = 0.0
    for p in pictures:
        domain = domain_of(p.name)
        reader = ArrayReader(np.ascontiguousarray(p.image[:, :, ::-1]))
        began = time.perf_counter()
        method = ObjectsMethod(scale=zooms[domain])
        boxes, run = detect_scene(detector, Pixels(reader, (1, 2, 3), reader.info), RegionMask(None, reader.info.grid), card,
                                  list(card.classes), set(range(len(card.classes))), method,
                                  lambda done, message: None, lambda: False, floor)
        seconds += time.perf_counter() - began
        mpx += run.mpx
        for k, c in enumerate(card.classes):
            if ANNOTATED[domain][k]:
                mine = boxes.pick(boxes.cls == k)
                truth = p.boxes[p.boxes[:, 0] == k][:, 1:]
                out[c.name].append(Scored(p.name, mine.score, matched(mine.xyxy, mine.score, truth), len(truth)))
    return out, mpx, seconds


def class_scores(scored: Sequence[Scored], threshold: float) -> dict[str, Any]:
    score = np.concatenate([s.score for s in scored])
    hit = np.concatenate([s.hit for s in scored])
    n = sum(s.n_true for s in scored)
    at = score >= threshold
    error = np.array([int((s.score >= threshold).sum()) - s.n_true for s in scored])
    return {"pictures": len(scored), "objects": n, "map50": round(average_precision(score, hit, n), 3),
            "precision": round(float(hit[at].mean()) if at.any() else 0.0, 3),
            "recall": round(float(hit[at].sum()) / max(n, 1), 3),
            "count_mean_abs_error": round(float(np.abs(error).mean()), 2), "count_bias": round(float(error.sum()) / max(n, 1), 3)}


CANDIDATE = 0.05
FOLDS = 5
SPREADS = np.round(np.arange(0.0, 3.0, 0.02), 2)


def fitted(scored: Sequence[Scored]) -> CountCalibration:
    """Platt's calibration of the candidates (score ≥ 0.05) and the share of objects that none hits; no spread yet."""
    score = np.concatenate([s.score[s.score >= CANDIDATE] for s in scored])
    hit = np.concatenate([s.hit[s.score >= CANDIDATE] for s in scored])
    n = sum(s.n_true for s in scored)
    slope, intercept = fit_logistic(score.tolist(), hit.tolist())
    missed = float(np.clip(1 - hit.sum() / max(n, 1), 0.0, 0.9))
    return CountCalibration(slope=round(slope, 4), intercept=round(intercept, 4), missed=round(missed, 4), spread=0.0,
                            fitted_on="", n_objects=n)


def folds(scored: Sequence[Scored], k: int = FOLDS) -> list[list[int]]:
    """Numbers of the pictures in ``k`` parts; every k-th by their count of objects, so that each part holds crowded ones."""
    order = sorted(range(len(scored)), key=lambda i: (scored[i].n_true, scored[i].name))
    return [order[i::k] for i in range(min(k, len(order)))]


def least_spread(s: Scored, c: CountCalibration, threshold: float) -> float:
    """The least spread with which the interval of a picture holds its true count; infinite where none does."""
    for spread in SPREADS:
        if covers(s, c.model_copy(update={"spread": float(spread)}), threshold):
            return float(spread)
    return float("inf")


def calibrate(scored: Sequence[Scored], about: str, threshold: float = 0.25) -> CountCalibration:
    """Calibration of scores and counts, fitted on ``scored``; the spread between pictures is judged on pictures left out.

    Each part's pictures are asked which spread they need with scores calibrated on the other parts; the spread taken is the
    ⌈0.9 (n + 1)⌉-th of these (conformal prediction, Vovk et al. 2005), so that a further picture of the kind is held in 90 %.
    """
    needed = []
    for part in folds(scored):
        rest = fitted([s for i, s in enumerate(scored) if i not in part])
        needed += [least_spread(scored[i], rest, threshold) for i in part]
    rank = min(len(needed), int(np.ceil(LEVEL * (len(needed) + 1))))
    spread = min(float(np.sort(needed)[rank - 1]), float(SPREADS[-1]))
    return fitted(scored).model_copy(update={"spread": round(spread, 3), "fitted_on": about})


def cross_validated(scored: Sequence[Scored], threshold: float = 0.25) -> dict[str, Any]:
    """Share of pictures whose true count lies in the 90 % interval, and the error of probabilities, each picture judged by a
    calibration (its spread too) of the other parts alone; and how wide the intervals were."""
    inside, widths, errors = 0, [], []
    for part in folds(scored):
        c = calibrate([s for i, s in enumerate(scored) if i not in part], "the other parts", threshold)
        mine = [scored[i] for i in part]
        inside += sum(covers(s, c, threshold) for s in mine)
        widths += [high - low for low, high in (interval(s, c, threshold) for s in mine)]
        errors.append(score_error(mine, c))
    return {"folds_by_picture": min(FOLDS, len(scored)),
            "interval_coverage_cross_validated": round(inside / max(len(scored), 1), 3),
            "interval_width_median": round(float(np.median(widths)), 1),
            "box_calibration_error_cross_validated": round(float(np.mean(errors)), 3)}


def interval(s: Scored, c: CountCalibration, threshold: float) -> tuple[float, float]:
    _, low, high = count_interval(probability(s.score[s.score >= CANDIDATE], c), int((s.score >= threshold).sum()), c)
    return low, high


def covers(s: Scored, c: CountCalibration, threshold: float) -> bool:
    low, high = interval(s, c, threshold)
    return low <= s.n_true <= high


def coverage(scored: Sequence[Scored], c: CountCalibration, threshold: float) -> float:
    """Share of pictures whose true count lies in the interval."""
    return sum(covers(s, c, threshold) for s in scored) / max(len(scored), 1)


def score_error(scored: Sequence[Scored], c: CountCalibration) -> float:
    """Expected calibration error of the boxes' probabilities, ten bins."""
    score = np.concatenate([s.score[s.score >= CANDIDATE] for s in scored])
    hit = np.concatenate([s.hit[s.score >= CANDIDATE] for s in scored])
    p = probability(score, c)
    at = np.minimum((p * 10).astype(int), 9)
    return float(sum((at == b).mean() * abs(p[at == b].mean() - hit[at == b].mean()) for b in range(10) if (at == b).any()))


def class_result(scored: Sequence[Scored], split: str, threshold: float = 0.25, elsewhere: Sequence[tuple[float, int]] = ()
                 ) -> dict[str, Any]:
    """Scores of a class on all pictures where it was annotated; calibration and counts on those that hold it, for on hundreds of
    pictures without any a count is right by saying none.

    ``elsewhere``: (expected, true) counts of whole pictures of other places. Where counts stray more there than between the
    test's pictures, which share a city or a source with the training, that is the spread: nobody asks about the training's city.
    """
    own, others = [s for s in scored if s.n_true], [s for s in scored if not s.n_true]
    c = calibrate(own, f"{split} split, {len(own)} pictures that hold it, spread by cross-validation", threshold)
    strayed = float(np.sqrt(np.mean([(true / expected - 1) ** 2 for expected, true in elsewhere if expected > 0] or [0.0])))
    if strayed > c.spread:
        c = c.model_copy(update={"spread": round(strayed, 3), "fitted_on":
                                 f"{split} split, {len(own)} pictures that hold it; spread by {len(elsewhere)} outside pictures"})
    told = class_scores(scored, threshold)
    counts = class_scores(own, threshold)
    told |= {"pictures_with_it": len(own), "count_mean_abs_error": counts["count_mean_abs_error"],
             "count_bias": counts["count_bias"], **cross_validated(own, threshold)}
    if others:
        told["interval_coverage_on_pictures_without"] = round(coverage(others, c, threshold), 3)
    return {**told, "calibration": c.model_dump()}


def dota_boxes(path: Path) -> NDArray[np.float64]:
    """Axis-aligned frames (n, 4) of a DOTA labelTxt."""
    rows = []
    for line in path.read_text().splitlines():
        parts = line.split()
        if len(parts) >= 9:
            v = np.array([float(x) for x in parts[:8]]).reshape(4, 2)
            rows.append([*v.min(0), *v.max(0)])
    return np.array(rows)


def outside(detector: Detector, card: ModelCard, rgb: NDArray[np.uint8], cls: str, *, gsd_m: float | None = None,
            scale: float | None = None) -> tuple[Boxes, dict[str, Any]]:
    """Boxes (score ≥ 0.25) of one class on a whole picture as the tool would give them, and what it did."""
    reader = ArrayReader(rgb, gsd_m)
    c = card.class_card(cls)
    assert c is not None
    k = [x.name for x in card.classes].index(c.name)
    began = time.perf_counter()
    boxes, run = detect_scene(detector, Pixels(reader, (1, 2, 3), reader.info), RegionMask(None, reader.info.grid), card, [c],
                              {k}, ObjectsMethod(scale=scale), lambda done, message: None, lambda: False)
    kept = boxes.pick(boxes.score >= 0.25)
    p = probability(boxes.score, c.calibration)
    expected, low, high = count_interval(p, len(kept), c.calibration)
    return kept, {"zoom": run.zoom, "boxes": len(kept), "interval": [low, high], "expected": round(expected, 1),
                  "seconds": round(time.perf_counter() - began, 2), "zoom_scan": run.zoom_scan}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--card", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--split", default="test")
    parser.add_argument("--zooms", default="veh=1.25,pln=2,shp=1.25,bg=1")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rows", type=Path, help="the scored boxes of every picture, as JSON")
    parser.add_argument("--threads", type=int, default=2)
    a = parser.parse_args(argv)
    torch_module().set_num_threads(a.threads)
    card = ModelCard.model_validate_json(a.card.read_text())
    detector = load_detector(card, a.card.parent / card.file)
    zooms = {k: float(v) for k, v in (z.split("=") for z in a.zooms.split(","))}
    scored, mpx, seconds = run_split(detector, card, read_split(a.data, a.split), zooms)
    result: dict[str, Any] = {"split": a.split, "zooms": zooms, "seconds_per_megapixel": round(seconds / max(mpx, 1e-9), 3)}
    result["arithmetic"] = detector.arithmetic
    for c in card.classes:
        result[c.name] = class_result(scored[c.name], a.split)
    if a.rows:
        a.rows.write_text(json.dumps({c: [{"name": s.name, "score": s.score.tolist(), "hit": s.hit.tolist(), "n_true": s.n_true}
                                          for s in of] for c, of in scored.items()}))
    a.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps({k: ({x: y for x, y in v.items() if x != "calibration"} if isinstance(v, dict) else v)
                      for k, v in result.items()}, indent=1))


if __name__ == "__main__":
    main()
