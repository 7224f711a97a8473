"""The second look at kinds of place: how often it errs on pictures that nothing was fitted on, and what it lets pass."""

from __future__ import annotations

import ast
import random
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.verification import kinds
from apps.verification.checks import CHECKS
from apps.verification.judge import CalibratedJudge
from apps.verification.kinds import KindLook, figures_of, kind_looks, read_looks, view_of, write_looks
from tests.unit.tools.rasters import Bench, MemoryReader, from_file, scene
from tests.unit.verification import samples as s
from tests.unit.verification.samples_places import TOP, called, car_park, record

RNG = np.random.default_rng(2)


def check(sample: s.Sample, name: str = "kind_matches_look") -> Any:
    return CHECKS[f"consistency.{name}"].look(sample.case())


def picture(path: Path) -> NDArray[np.float64]:
    return from_file(path, {})[1][:3].transpose(1, 2, 0).astype(np.float64)


# --- figures --------------------------------------------------------------------------------------------------------------
def test_figures_do_not_depend_on_how_the_picture_is_turned() -> None:
    """A quarter turn and a mirror change no more than the order of sums."""
    view = view_of(picture(s.HERE / "ucmerced_parkinglot85.jpg"), 128)
    one = figures_of(view)
    assert one.shape == (187,)
    for other in (np.rot90(view), view[::-1]):
        assert np.allclose(figures_of(other), one, atol=0.02)


def test_a_finer_picture_of_the_same_ground_looks_alike() -> None:
    """Pixels cut into four, and pixels cut in two along one side alone, give the same view again."""
    whole = picture(s.HERE / "ucmerced_parkinglot85.jpg")
    view = view_of(whole, 128)
    assert view.shape == (128, 128, 3)
    assert np.array_equal(view_of(np.repeat(np.repeat(whole, 2, 0), 2, 1), 128), view)
    assert np.array_equal(view_of(np.repeat(whole, 2, 1), 128), view)


def test_the_look_knows_nothing_of_the_tools() -> None:
    for module in (kinds.__file__, CHECKS["consistency.kind_matches_look"].look.__code__.co_filename):
        imported = [n for n in ast.walk(ast.parse(Path(str(module)).read_text())) if isinstance(n, ast.ImportFrom)]
        assert not [n.module for n in imported if str(n.module).startswith(("apps.tools", "torch"))]


def test_a_look_is_read_as_it_was_written(tmp_path: Path) -> None:
    held = kind_looks()
    write_looks([replace(look, agree_at=0.5) for look in held], tmp_path / "looks.npz")
    views = [view_of(picture(s.HERE / "ucmerced_parkinglot85.jpg"), held[0].side)]
    again = read_looks(tmp_path / "looks.npz")
    assert [look.agree_at for look in again] == [0.5, 0.5] and [look.classes for look in again] == [x.classes for x in held]
    assert np.allclose(again[0].seen(views)[0], held[0].seen(views)[0], atol=1e-6)


# --- how often it errs ------------------------------------------------------------------------------------------------------
def test_right_labels_are_borne_or_left_open_and_wrong_ones_are_not_borne(shared_data: Path) -> None:
    """Six test pictures of each kind, which neither the look nor the classifier was fitted on."""
    look = kind_looks()[0]
    root = shared_data / "training/scene/ucmerced/test"
    names, views = [], []
    for name in look.classes:
        for path in random.Random(name).sample(sorted((root / name).iterdir()), 6):
            names.append(look.classes.index(name))
            views.append(view_of(picture(path), look.side))
    p, odd = look.seen(views)
    rows = np.arange(len(names))
    right, others = p[rows, names], p.copy()
    others[rows, names] = -1
    hardest, likely = others.max(axis=1), others[rows, RNG.permuted(np.delete(np.arange(21)[None].repeat(len(rows), 0), 0, 1),
                                                                    axis=1)[:, 0]]
    assert (right >= look.agree_at).mean() > 0.28 and (right < look.contradict_at).mean() <= 0.02
    assert (hardest >= look.agree_at).mean() < 0.03 and (likely >= look.agree_at).mean() < 0.01
    assert (odd > look.odd_at).mean() < 0.04
    told: Any = look.report
    assert (right >= look.agree_at).mean() == pytest.approx(told["right_labels_agreed"], abs=0.12)


# --- the check --------------------------------------------------------------------------------------------------------------
def test_a_car_park_is_borne_and_other_kinds_are_contradicted() -> None:
    found = check(car_park())
    assert found.outcome == "passed" and found.measured > 0.9
    for name in ("forest", "beach", "agricultural", "golfcourse"):
        wrong = check(called(name))
        assert wrong.outcome == "failed" and "parkinglot" in wrong.message, (name, wrong)


def test_what_cannot_be_told_is_no_support() -> None:
    """Noise, one colour, a picture of another size on the ground, a kind that the look does not know, a part of the scene."""
    def over(pixels: NDArray[Any], **more: Any) -> Any:
        return check(record(Bench(scene(pixels, list(s.RGB), crs=None, **{"gsd_m": 0.3, **more})), TOP))

    pixels = car_park().bench.stored["s"]
    assert over(pixels).outcome == "passed"
    noise = over(RNG.integers(0, 256, (3, 256, 256)).astype(np.uint8))
    assert noise.outcome == "inconclusive" and noise.severity == "warn" and "too unlike" in noise.message
    assert over(np.full((3, 256, 256), 90, np.uint8)).outcome == "failed"
    assert over(pixels, gsd_m=1.0).outcome == over(pixels[:, :128, :128].copy()).outcome == "not_applicable"
    assert over(pixels.astype(np.uint16) * 40).outcome == "not_applicable"
    gone = pixels.copy()
    gone[:, :20] = 0
    assert over(gone, nodata=0.0).outcome == "not_applicable"
    assert check(record(car_park().bench, {"volcano" if k == "parkinglot" else k: v for k, v in TOP.items()})
                 ).outcome == "not_applicable"
    part = {"type": "Polygon", "coordinates": [[[0, 0], [99, 0], [99, 99], [0, 99], [0, 0]]]}
    assert check(record(car_park().bench, TOP, region=part)).outcome == "not_applicable"
    assert check(car_park().but(has_reader=False)).outcome == "not_applicable"


def test_probabilities_are_held_to_the_models_own() -> None:
    name = "probabilities_are_the_models"
    assert check(car_park(), name).outcome == "passed"
    assert check(car_park().but({"/result/items/1/p": 0.2}), name).outcome == "failed"
    assert check(car_park().but({"/result/items/0/class": "forest"}), name).outcome == "failed"
    # a word for several classes is at least as probable as each of them
    asked = record(car_park().bench, TOP, label_space=["parkinglot", "harbor"])
    assert check(asked, name).outcome == "passed"
    assert check(asked.but({"/result/items/0/p": 0.96}), name).outcome == "passed"
    assert check(asked.but({"/result/items/0/p": 0.9}), name).outcome == "failed"


def reader_of(info: Any, stored: NDArray[Any], scene_id: str) -> MemoryReader:
    return MemoryReader(info, stored)


@pytest.mark.ml
def test_an_honest_kind_of_place_is_accepted_and_a_swapped_one_is_not(shared_data: Path) -> None:
    """Through tool and judge, with nothing known of the tool's record. Right labels that the look does not bear are left to
    a person; wrong ones are never accepted."""
    from apps.core.evidence.observation import TaskRef
    from apps.evaluation.faultbench.given_faults import _label_swapped, _overconfident

    root = shared_data / "training/scene/ucmerced/test"
    kept = {"honest": 0, "honest wrong": 0, "swapped": 0, "surer": 0}
    names = ("forest", "parkinglot", "harbor", "chaparral", "beach", "golfcourse", "freeway", "agricultural")
    for name in names:
        info, stored = from_file(root / f"{name}/{name}85.jpg", {"red": 1, "green": 2, "blue": 3})
        info = info.model_copy(update={"gsd_m": 0.3})
        b = Bench((info, stored))
        o = b.call("perceive", {"image_paths": ["s"], "objective": "kind of place", "mode": "scene"})
        asked = b.question.model_copy(update={"text": "What kind of place is this?"})
        task = TaskRef(task_type="scene_classification", question=asked.text, answer_form="class")
        judge = CalibratedJudge(None, b.layers, reader=partial(reader_of, info, stored))
        for what, x in (("honest", o), ("swapped", _label_swapped(o, None)), ("surer", _overconfident(o, None))):  # type: ignore[arg-type]
            decision = judge.judge(x.model_copy(update={"task": task}), question=asked)[1]
            is_wrong = what == "honest" and x.result.value != name
            kept["honest wrong" if is_wrong else what] += decision.decision == "accept"
    assert kept["honest"] >= 5 and kept["honest wrong"] == kept["swapped"] == kept["surer"] == 0, kept


def test_the_look_for_sentinel_2_knows_its_own_reflectance() -> None:
    """The shipped crop of level 2A is darker than what it was fitted on: it says nothing of it, whatever is told."""
    look: KindLook = kind_looks()[1]
    bench = Bench(s.cut(s.FISHBOURNE, ("blue", "green", "red", "nir"), (220, 120, 64, 64), unit="reflectance", scale=1e-4))
    top = {"Forest": 0.9, "River": 0.05, "Pasture": 0.03, "HerbaceousVegetation": 0.01, "SeaLake": 0.01}
    found = check(record(bench, top))
    assert look.ground_m == 640 and found.outcome == "inconclusive" and "too unlike" in found.message


@pytest.mark.ml
def test_windows_of_a_large_scene_do_not_speak_for_their_own_label(shared_data: Path) -> None:
    """Fields of Denmark at 10 m, 42 windows: the look neither bears nor contradicts the label; that the layer of windows agrees
    with it is the classifier's word once more. So a person decides, of the right label and of a wrong one alike."""
    from apps.core.evidence.observation import TaskRef

    info, stored = from_file(shared_data / "multispectral/chrieke_s2_fields_32632.tif", {"blue": 1, "green": 2, "red": 3})
    bands = tuple(b.model_copy(update={"unit": "reflectance", "scale": 1e-4}) for b in info.bands)
    info = info.model_copy(update={"sensor": "Sentinel-2 MSI", "bands": bands, "gsd_m": 10.0})
    b = Bench((info, stored))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "kind of place", "mode": "scene"})
    assert o.result.value == "AnnualCrop" and o.evidence.intermediate["windows"] == 42
    asked = b.question.model_copy(update={"text": "What kind of place is this?"})
    task = TaskRef(task_type="scene_classification", question=asked.text, answer_form="class")
    judge = CalibratedJudge(None, b.layers, reader=partial(reader_of, info, stored))
    checks, decision = judge.judge(o.model_copy(update={"task": task}), question=asked)
    assert {c.check: c.outcome for c in checks}["consistency.kind_matches_look"] == "inconclusive"
    assert decision.decision == "request_evidence" and decision.features["sight"] == decision.features["support"] == 0.0
