"""The scores that cards and docs/coverage.md tell, measured anew from the label files by arithmetic written here.

Whole calls of the tool are scored, on labels that their makers drew. Matching, average precision and calibration error
(scoring.py) share no line with what made the cards. Subsets are drawn by a fixed seed; what is expected of one leaves room for
the arithmetic of the machine alone (bfloat16 or float32), and lies near what the card tells of the whole.
"""

from __future__ import annotations

import csv
import random
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from apps.tools.zoo.registry import model_named
from tests.unit.tools.rasters import Bench, from_file
from tests.unit.tools.scoring import Box, average_precision, calibration_error, hits, overlap, precision_recall
from tests.unit.tools.test_perceive_objects import SAMPLES, features_of, objects
from tests.unit.tools.test_prompts import ask, buildings, coarsened, iou, mask_of, prompts_of, refined

RGB = {"red": 1, "green": 2, "blue": 3}
def found_by(b: Bench, o: Any, label: str) -> list[tuple[float, Box]]:
    return [(float(f["properties"]["score"]), tuple(map(float, f["properties"]["box"]))) for f in features_of(b, o, label)]  # type: ignore[misc]


# --- trees ----------------------------------------------------------------------------------------------------------------
def osbs(shared: Path) -> list[Box]:
    with (shared / "trees/OSBS_029.csv").open() as f:
        return [(float(r["xmin"]), float(r["ymin"]), float(r["xmax"]), float(r["ymax"])) for r in csv.DictReader(f)]


def yell(shared: Path) -> list[Box]:
    root = ElementTree.parse(shared / "trees/2019_YELL_2_541000_4977000_image_crop.xml").getroot()
    return [tuple(float(b.findtext(k, "nan")) for k in ("xmin", "ymin", "xmax", "ymax")) for b in root.iter("bndbox")]  # type: ignore[misc]


def test_crowns_of_a_forest_and_of_sparse_conifers(shared_data: Path) -> None:
    """The parameters were chosen on these two pictures; the labels are not part of them."""
    b = Bench(from_file(shared_data / "trees/OSBS_029.tif", RGB))
    found, truth = found_by(b, objects(b, "tree"), "tree"), osbs(shared_data)
    assert (len(truth), len(found)) == (61, 55)
    assert precision_recall(found, truth, 0.4) == pytest.approx((40 / 55, 40 / 61))
    info, stored = from_file(shared_data / "trees/2019_YELL_2_541000_4977000_image_crop.png", RGB)
    b = Bench((info.model_copy(update={"gsd_m": 0.1}), stored))
    o = objects(b, "tree")
    found, truth = found_by(b, o, "tree"), yell(shared_data)
    assert (len(truth), len(found)) == (279, 370)
    assert precision_recall(found, truth, 0.4) == pytest.approx((0.34, 0.45), abs=0.01)
    item = o.result.items[0]
    # so many wrong boxes and so many missed trees: the interval must hold the labelled number all the same
    assert item["low"] <= len(truth) <= item["high"] and item["high"] - item["low"] > len(truth)


def test_prompts_on_labelled_crowns(shared_data: Path) -> None:
    b = Bench(from_file(shared_data / "trees/OSBS_029.tif", RGB))
    whole = [t for t in osbs(shared_data) if min(t[:2]) >= 3 and max(t[2:]) <= 397 and (t[2] - t[0]) * (t[3] - t[1]) >= 150]
    got: dict[str, list[float]] = {"point": [], "box": [], "scribbles": []}
    for crown in whole[:14]:
        x0, y0, x1, y1 = (int(v) for v in crown)
        truth = np.zeros((400, 400), bool)
        truth[y0:y1, x0:x1] = True
        prompts = prompts_of(truth)
        for name, values in got.items():
            rows, columns = np.nonzero(mask_of(b, ask(b, **prompts[name])))
            frame = float(columns.min()), float(rows.min()), columns.max() + 1.0, rows.max() + 1.0
            values.append(overlap(frame, crown))
    mean = {name: float(np.mean(values)) for name, values in got.items()}
    # a point is a weak prompt, a stroke within and one around are better; a box is given, so its frame says little
    assert len(got["box"]) == 14
    assert mean == pytest.approx({"point": 0.39, "box": 0.93, "scribbles": 0.72}, abs=0.03)


def test_refining_a_map_of_buildings_at_4_m(shared_data: Path) -> None:
    pair, labels = buildings(shared_data)
    truth, coarse = labels > 0, coarsened(labels > 0, 8)
    b = Bench(pair)
    after = mask_of(b, refined(b, coarse, pair[0], band_px=4))
    assert iou(coarse, truth) == pytest.approx(0.751, abs=1e-3) and iou(after, truth) == pytest.approx(0.767, abs=3e-3)


# --- the shipped detector ---------------------------------------------------------------------------------------------------
def labelled(root: Path, name: str, number: int, height: int, width: int) -> list[Box]:
    out = []
    for line in (root / f"labels/test/{name}.txt").read_text().splitlines():
        kind, cx, cy, w, h = (float(v) for v in line.split())
        if int(kind) == number:
            out.append(((cx - w / 2) * width, (cy - h / 2) * height, (cx + w / 2) * width, (cy + h / 2) * height))
    return out


@pytest.mark.ml
@pytest.mark.parametrize(("cls", "number", "domain", "n", "objects_there", "expected"), [
    ("vehicle", 0, "veh", 10, 184, (0.83, 0.90, 0.78, 2.7)),
    ("plane", 1, "pln", 8, 127, (0.76, 0.67, 0.70, 5.75)),
    ("ship", 2, "shp", 16, 21, (0.62, 0.58, 0.67, 0.19))])
def test_the_detector_on_a_part_of_its_test_split(cls: str, number: int, domain: str, n: int, objects_there: int,
                                                  expected: tuple[float, ...], shared_data: Path) -> None:
    """``expected``: average precision at IoU 0.5, precision, recall, mean error of a count; by whole calls at the card's zoom."""
    root, (card, _) = shared_data / "training/detector", model_named("nadir3")
    names = sorted(p.stem for p in (root / "images/test").glob(f"{domain}_*"))
    scored: list[tuple[float, bool]] = []
    chances: list[float] = []
    n_true, errors, held = 0, [], []
    zooms: Any = card.scores["zooms"]
    for name in random.Random(5).sample(names, n):
        info, stored = from_file(root / f"images/test/{name}.jpg", RGB)
        b = Bench((info, stored))
        o = objects(b, cls, scale=zooms[domain])
        truth = labelled(root, name, number, *stored.shape[1:])
        found = found_by(b, o, cls)
        scored += hits([*found, *found_by(b, o, "candidates")], truth, 0.5)
        # the probability of a box rises with its score, so the same boxes are right
        chances += [float(f["properties"]["p"]) for f in sorted([*features_of(b, o, cls), *features_of(b, o, "candidates")],
                                                                key=lambda f: -f["properties"]["score"])]
        n_true += len(truth)
        item = o.result.items[0]
        assert item["kept"] == len(found) and item["low"] <= len(found) <= item["high"]
        if truth:
            errors.append(abs(len(found) - len(truth)))
            held.append(item["low"] <= len(truth) <= item["high"])
    strong = [s for s in scored if s[0] >= 0.25]
    precision, recall = sum(r for _, r in strong) / len(strong), sum(r for _, r in strong) / n_true
    found_scores = average_precision(scored, n_true), precision, recall
    assert n_true == objects_there
    assert found_scores == pytest.approx(expected[:3], abs=0.05) and np.mean(errors) == pytest.approx(expected[3], abs=0.6)
    told: Any = card.class_card(cls)
    assert found_scores == pytest.approx([told.scores[k] for k in ("map50", "precision", "recall")], abs=0.16)
    error = calibration_error(np.array(chances), np.array([right for _, right in scored]), bins=10)
    assert error < told.scores["box_calibration_error_cross_validated"] + 0.08
    # intervals of 90 %: of so few pictures one may fall out
    assert sum(held) >= len(held) - 1


@pytest.mark.ml
def test_the_outside_pictures_of_the_card(shared_data: Path) -> None:
    """Counts and intervals that the card tells; what was counted there by eye lies in every interval."""
    told: Any = model_named("nadir3")[0].scores["outside"]
    cases = {"usgs_hro": (SAMPLES / "riotiler_hro_colorado_26913.tif", "vehicle", None, 4),
             "labelmaker": (shared_data / "objects/labelmaker_drone_market_32632.tif", "vehicle", None, 11),
             "airport (": (shared_data / "objects/ultralytics_airport_planes.jpg", "plane", 0.29, 14),
             "Lawica": (shared_data / "objects/deepness_planes_lawica.png", "plane", 1.0, 2)}
    for start, (path, cls, gsd, by_eye) in cases.items():
        row = next(v for k, v in told.items() if k.startswith(start))
        info, stored = from_file(path, RGB)
        item = objects(Bench((info if gsd is None else info.model_copy(update={"gsd_m": gsd}), stored)), cls).result.items[0]
        assert abs(item["kept"] - row["boxes"]) <= 1, path.name
        assert [item["low"], item["high"]] == pytest.approx(row["interval"], abs=2), path.name
        assert item["low"] <= by_eye <= item["high"], path.name


# --- the shipped classifier -------------------------------------------------------------------------------------------------
@pytest.mark.ml
def test_kinds_of_place_on_a_part_of_the_test_split(shared_data: Path) -> None:
    """Accuracy and calibration over four pictures of each kind, by the tool's own probabilities."""
    card, _ = model_named("place21")
    root = shared_data / "training/scene/ucmerced/test"
    p, right, n_none, wrong = [], [], 0, 0
    for name in card.class_names:
        for path in random.Random(name).sample(sorted((root / name).iterdir()), 4):
            info, stored = from_file(path, RGB)
            o = Bench((info.model_copy(update={"gsd_m": 0.3}), stored)).call(
                "perceive", {"image_paths": ["s"], "objective": "kind of place", "mode": "scene"})
            first = o.result.items[0]
            p.append(float(str(first["p"])))
            right.append(first["class"] == name)
            n_none += o.result.value is None
            wrong += o.result.value not in (None, name)
    accuracy, error = float(np.mean(right)), calibration_error(np.array(p), np.array(right))
    # of 84: three standard errors of the card's 94.7 % are 7 points; an error of nothing but chance is about 0.03
    told: Any = card.scores
    assert accuracy == pytest.approx(told["accuracy"], abs=0.07) and error < told["ece"] + 0.05
    assert n_none <= 6 and wrong <= 6
