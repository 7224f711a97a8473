"""Weights that a person adds, through the whole tool: exports answer as the .pt does; oriented boxes and masks keep their shape.

The networks of the oriented and segment heads are the library's own with seeded random weights: they know nothing, but what they
answer has a geometry, and that must arrive unchanged in layers and areas.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray
from shapely.geometry import shape

from apps.tools.zoo.runtime import OneLoad
from apps.tools.zoo.tiling import Boxes
from tests.unit.tools.rasters import Bench, from_file, scene

pytestmark = pytest.mark.ml
STREET = Path(__file__).resolve().parents[3] / "apps/imagery/samples/riotiler_hro_colorado_26913.tif"
SIDE = 320


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from apps.tools.zoo import detectors

    monkeypatch.setenv("RSURE_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(detectors, "_loaded", OneLoad())
    return tmp_path / "home"


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The shipped network as .pt, TorchScript and, where the package onnx is installed, ONNX, all for pictures of 320 px."""
    from apps.tools.zoo.registry import model_named
    from apps.tools.zoo.states import write_ultralytics

    folder = tmp_path_factory.mktemp("exports")
    pt = write_ultralytics(model_named("nadir3")[1], folder / "mine.pt", side_px=SIDE)
    from ultralytics import YOLO

    found = {"pt": pt, "torchscript": Path(YOLO(str(pt)).export(format="torchscript", imgsz=SIDE, verbose=False))}
    if importlib.util.find_spec("onnx") is not None:
        found["onnx"] = Path(YOLO(str(pt)).export(format="onnx", imgsz=SIDE, simplify=False, verbose=False))
    return found


def street(side: int = SIDE) -> NDArray[np.uint8]:
    """A piece of the shipped street at the model's GSD, uint8 (side, side, 3)."""
    from apps.tools.zoo.detectors import resampled

    _, stored = from_file(STREET, {"red": 1, "green": 2, "blue": 3})
    large = resampled(np.ascontiguousarray(stored.transpose(1, 2, 0)).astype(np.uint8), 1.44)
    return np.ascontiguousarray(large[:side, :side])


def boxes_by(file: Path, picture: NDArray[np.uint8]) -> Boxes:
    from apps.tools.zoo.detectors import load_detector
    from apps.tools.zoo.registry import model_add, model_named

    card = model_add(file, name=f"by-{file.suffix[1:]}", allow_pickle=True)
    assert card.class_names == ("vehicle", "plane", "ship") and card.task == "detect"
    assert card.tile_px == SIDE
    return load_detector(card, model_named(card.name)[1]).detect([picture], 0.05)[0]


def assert_equal(one: Boxes, other: Boxes, *, within_px: float, within_score: float) -> None:
    """Every box of each has its like in the other; only at the floor of scores one may be missing."""
    for a, b in ((one, other), (other, one)):
        for box, score, cls in zip(a.xyxy, a.score, a.cls, strict=True):
            if score < 0.05 + within_score:
                continue
            near = np.abs(b.xyxy - box).max(axis=1) + 1e6 * (b.cls != cls)
            k = int(near.argmin())
            assert near[k] <= within_px and abs(b.score[k] - score) <= within_score, (box, score, near[k], b.score[k])


@pytest.mark.parametrize("kind", ["torchscript", "onnx"])
@pytest.mark.parametrize("side", [SIDE, 250])
def test_an_export_answers_as_the_weights_it_was_made_of(exports: dict[str, Path], kind: str, side: int) -> None:
    if kind not in exports:
        pytest.skip("the package onnx is not installed (requirements-ml.txt)")
    picture = street(side)      # a smaller picture is padded to the model's side, never stretched
    own, theirs = boxes_by(exports["pt"], picture), boxes_by(exports[kind], picture)
    assert len(own) >= 5 and (own.score > 0.25).any()
    assert_equal(own, theirs, within_px=1.0, within_score=1e-3)


def test_the_weights_as_pt_answer_as_the_shipped_ones(exports: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.tools.zoo.detectors import load_detector
    from apps.tools.zoo.registry import model_named

    monkeypatch.setenv("RSURE_ARITHMETIC", "float32")
    from apps.tools.zoo import detectors

    detectors._loaded.forget()
    shipped = load_detector(*model_named("nadir3"))
    assert shipped.arithmetic == "float32"
    picture = street()
    ours, theirs = shipped.detect([picture], 0.05)[0], boxes_by(exports["pt"], picture)
    strong = ours.pick(ours.score > 0.2)
    assert len(strong) >= 2
    for box, score in zip(strong.xyxy, strong.score, strict=True):
        k = int(np.abs(theirs.xyxy - box).max(axis=1).argmin())
        assert np.abs(theirs.xyxy[k] - box).max() < 1 and abs(theirs.score[k] - score) < 1e-3


def test_bfloat16_moves_boxes_by_less_than_a_pixel_even_far_from_the_corner(monkeypatch: pytest.MonkeyPatch) -> None:
    from apps.tools.zoo import detectors
    from apps.tools.zoo.registry import model_named
    from apps.tools.zoo.states import load_state

    torch = pytest.importorskip("torch")
    model, _ = load_state(model_named("nadir3")[1])
    model.fuse(verbose=False)
    quick = detectors._in_bfloat16(model)
    assert quick is not model
    large = np.tile(street(), (1, 4, 1))      # 1,280 px wide: bfloat16 itself counts places in steps of 8 there
    x = torch.from_numpy(large.transpose(2, 0, 1).copy())[None].float() / 255
    with torch.inference_mode():
        one, other = model(x)[0][0], quick(x.bfloat16())[0][0]
    seen = one[4] > 0.25
    assert seen.sum() > 20
    assert (one - other)[:4, seen].abs().max() < 2 and (one - other)[:4, seen].abs().mean() < 0.2
    assert (one - other)[4, seen].abs().mean() < 0.015


def test_a_scene_smaller_than_the_models_side_is_not_stretched(exports: dict[str, Path]) -> None:
    """Through the tool: the street alone and with an empty margin of the model's own side give the same vehicles."""
    if "onnx" not in exports:
        pytest.skip("the package onnx is not installed (requirements-ml.txt)")
    from apps.tools.zoo.registry import model_add

    model_add(exports["onnx"], name="mine", gsd_m=(0.05, 0.35))
    picture = street(250)
    found = []
    for margin in (0, 70):
        padded = np.pad(picture, ((0, margin), (0, margin), (0, 0)), constant_values=114)
        b = Bench(scene(padded.transpose(2, 0, 1), ["red", "green", "blue"], pixel=0.104))
        o = ask(b, "vehicle", detector="mine")
        assert o.status.state == "ok", o.status.reason
        weights: Any = o.evidence.source["weights"]
        assert weights[0]["format"] == "onnx" and weights[0]["arithmetic"] == "float32"
        assert o.evidence.intermediate["passes"][0]["tile_px"] == SIDE  # type: ignore[index]
        found.append([f["properties"]["box"] for f in features(b, o, "vehicle")])
    assert len(found[0]) == len(found[1]) >= 1
    assert np.abs(np.array(found[0]) - np.array(found[1])).max() < 1


# --- oriented boxes and masks ---------------------------------------------------------------------------------------------
def ask(b: Bench, target: str, **method: Any) -> Any:
    return b.call("perceive", {"image_paths": ["s"], "objective": target, "mode": "objects", "target_groups": {target: [target]},
                               "objects_method": method})


def features(b: Bench, o: Any, label: str) -> list[dict[str, Any]]:
    return b.layers.read_features(next(r for r in o.result.layers if r.label == label))


def random_model(folder: Path, task: str) -> tuple[Path, Any]:
    """The library's own small network of a task for the classes thing and other, seeded, its scores lifted to about a half."""
    from apps.tools.zoo.runtime import ultralytics_module

    ultralytics_module()
    import torch
    from ultralytics.cfg import get_cfg
    from ultralytics.nn.tasks import OBBModel, SegmentationModel

    torch.manual_seed(3)
    kind, file = (OBBModel, "yolo11n-obb.yaml") if task == "obb" else (SegmentationModel, "yolo11n-seg.yaml")
    network = kind(file, ch=3, nc=2, verbose=False)
    network.names = {0: "thing", 1: "other"}
    for branch in network.model[-1].cv3:
        torch.nn.init.normal_(branch[-1].weight, std=1.0)
        torch.nn.init.zeros_(branch[-1].bias)
    network.args = vars(get_cfg()) | {"task": task}
    network.task = task
    path = folder / f"{task}.pt"
    torch.save({"model": network.eval(), "train_args": {"task": task, "imgsz": 128}}, path)
    from ultralytics import YOLO

    return path, YOLO(str(path), task=task)


def noise_picture() -> NDArray[np.uint8]:
    """128 × 128 × 3, blobs: something that a network answers differently from place to place."""
    from scipy import ndimage

    noise = ndimage.gaussian_filter(np.random.default_rng(2).normal(0, 1, (128, 128, 3)), (4, 4, 0))
    return np.asarray((noise - noise.min()) / np.ptp(noise) * 255).astype(np.uint8)


@pytest.mark.parametrize("task", ["obb", "segment"])
def test_outlines_arrive_as_the_model_gave_them(tmp_path: Path, task: str) -> None:
    from apps.tools.zoo.registry import model_add

    file, direct = random_model(tmp_path, task)
    card = model_add(file, name=f"shapes-{task}", allow_pickle=True)
    assert card.task == task and card.class_names == ("thing", "other")
    picture = noise_picture()
    b = Bench(scene(picture.transpose(2, 0, 1), ["red", "green", "blue"], pixel=0.5))
    o = ask(b, "thing", score_threshold=0.3, tile_px=128)
    assert o.status.state == "ok", o.status.reason
    asked: dict[str, Any] = {"imgsz": 128, "conf": 0.05, "iou": 0.75, "max_det": 3000, "verbose": False}
    raw = direct.predict(np.ascontiguousarray(picture[:, :, ::-1]), **asked)[0]
    if task == "obb":
        given = [shapely.Polygon(c) for c in raw.obb.xyxyxyxy.cpu().numpy()]
        slanting = [not np.isclose(g.area, shapely.box(*g.bounds).area, rtol=0.02) for g in given]
        assert np.mean(slanting) > 0.3
    else:
        given = [shapely.make_valid(shapely.Polygon(p)) for p in raw.masks.xy if len(p) >= 3]
    found = [shape(f["geometry"]) for f in features(b, o, "thing")]
    assert len(found) >= 3
    tree = shapely.STRtree(given)
    for geometry in found:
        like = [given[k] for k in tree.query(geometry)]
        apart = min((shapely.make_valid(geometry).symmetric_difference(g).area - 0.02 * g.area for g in like), default=np.inf)
        assert apart <= 0.5
    i: Any = o.evidence.intermediate
    chain = i["passes"][0]["filters"]
    assert chain[-1]["after"] == i["candidates"] >= i["kept"] == len(found)
    weights: Any = o.evidence.source["weights"]
    assert weights[0]["task"] == task
    classes: Any = o.evidence.validity["classes"]
    assert classes[0]["experimental"] is True and i["counts"]["thing"]["calibrated"] is False
    things = {"name": "things", "mode": "objects", "layer": {"observation": o.id, "label": "thing"}}
    area = b.call("measure", {"sources": [things],
                              "spec": {"metric": "area", "subject": "things", "unit": "m2"}}, parents=[o])
    expected = shapely.union_all([shapely.make_valid(g) for g in found]).area * 0.25
    assert area.result.value == pytest.approx(expected, rel=5e-3)


def test_slanting_neighbours_are_no_doubles() -> None:
    from apps.tools.zoo.tiling import rectangles, suppress

    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    long = rectangles(np.array([[-30.0, -4.0, 30.0, 4.0]]))[0] @ turn.T
    outlines = [long + 100, long + 100 + turn @ np.array([0.0, 9.0])]
    frames = np.array([[*o.min(0), *o.max(0)] for o in outlines])
    both = Boxes(frames, np.array([0.9, 0.8]), np.zeros(2, np.int64), np.zeros(2, np.int64), outlines)
    assert suppress(both, iou=0.5, within_tile=True).all()
    assert not suppress(Boxes(frames, both.score, both.cls, both.tile), iou=0.5, within_tile=True).all()


def test_an_added_model_is_asked_at_the_scale_that_it_was_made_for(tmp_path: Path) -> None:
    from apps.tools.zoo.registry import model_add

    file, _ = random_model(tmp_path, "segment")
    model_add(file, name="shapes", allow_pickle=True, gsd_m=(0.4, 0.6))
    picture = noise_picture().transpose(2, 0, 1)
    for pixel, zoom in ((0.5, 1.0), (0.2, 0.5)):
        o = ask(Bench(scene(picture, ["red", "green", "blue"], pixel=pixel)), "thing", score_threshold=0.3)
        assert o.status.state == "ok", o.status.reason
        assert o.evidence.intermediate["passes"][0]["zoom"] == pytest.approx(zoom)  # type: ignore[index]
    coarse = ask(Bench(scene(picture, ["red", "green", "blue"], pixel=2.0)), "thing")
    assert coarse.status.state == "failed" and "0.4 to 0.6 m a pixel" in coarse.status.reason and not coarse.result.layers


def test_an_added_model_that_knows_another_class_is_not_asked(tmp_path: Path) -> None:
    from apps.tools.zoo.registry import model_add

    file, _ = random_model(tmp_path, "obb")
    model_add(file, name="shapes", allow_pickle=True)
    b = Bench(scene(noise_picture().transpose(2, 0, 1), ["red", "green", "blue"], pixel=0.5))
    o = ask(b, "windmill")
    assert o.status.state == "failed" and "models add FILE" in o.status.reason
    o = ask(b, "windmill", detector="shapes")
    assert o.status.state == "failed" and o.status.needs


def test_another_detector_that_knows_the_class_is_named_and_can_be_asked(exports: dict[str, Path]) -> None:
    """The shipped model counts first and names the added one; asked by that name, the added one counts, and says so."""
    from apps.tools.zoo.registry import model_add

    picture = street(250).transpose(2, 0, 1)
    alone = ask(Bench(scene(picture, ["red", "green", "blue"], pixel=0.104)), "vehicle")
    assert alone.evidence.source["alternatives"] == []
    model_add(exports["torchscript"], name="second", gsd_m=(0.05, 0.35))
    b = Bench(scene(picture, ["red", "green", "blue"], pixel=0.104))
    first = ask(b, "vehicle", detector="nadir3")
    assert first.evidence.source["alternatives"] == ["second"]
    other = ask(b, "vehicle", detector="second")
    assert other.status.state == "ok", other.status.reason
    weights: Any = other.evidence.source["weights"]
    assert [w["name"] for w in weights] == ["second"] and weights[0]["format"] == "torchscript"
    assert other.evidence.source["alternatives"] == ["nadir3"]
