"""COCO of polygons, of layers on the ground and of observations that say the same twice; worked out by hand and by PIL."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from apps.core.digests import digest_bytes
from apps.core.errors import UserError
from apps.core.evidence.decision import Decision, EvidenceRequest
from apps.core.evidence.events import DecisionMade, Event, EvidenceAnswered, ObservationRecorded, RunStarted
from apps.core.evidence.fold import RunState, fold
from apps.core.evidence.observation import Configuration, LayerRef, Observation, Result, Status, TaskRef
from apps.core.evidence.plan import Question
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from apps.imagery.layers import ArtifactLayerStore
from apps.runs.coco import coco_json, nothing_found

AT = datetime(2026, 1, 2, tzinfo=UTC)
# 2 m pixels, rotated by 90°: x grows with the row, y with the column
TURNED = Grid(crs="EPSG:32630", transform=(0.0, 2.0, 600000.0, 2.0, 0.0, 5600000.0), width=100, height=80)
PLAIN = Grid(crs="EPSG:32630", transform=(2.0, 0.0, 600000.0, 0.0, -2.0, 5600000.0), width=100, height=80)


class Blobs:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def put(self, data: bytes | Path, *, media_type: str = "") -> str:
        held = data if isinstance(data, bytes) else data.read_bytes()
        digest = digest_bytes(held)
        (self.folder / digest[7:]).write_bytes(held)
        return digest

    def path(self, digest: str) -> Path:
        return self.folder / digest[7:]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactLayerStore:
    return ArtifactLayerStore(Blobs(tmp_path))


def scene(grid: Grid, key: str = "s1", name: str = "a.tif") -> SceneInfo:
    return SceneInfo(
        scene_id=key, artifact="sha256:" + "0" * 64, name=name, grid=grid, dtype="uint8", bands=(Band(index=1, role="red"),)
    )


def polygon(*rings: list[tuple[float, float]], **properties: Any) -> dict[str, Any]:
    closed = [[*ring, ring[0]] for ring in rings]
    return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": closed}, "properties": properties}


def recorded(key: str, *layers: LayerRef, step: int = 1, attempt: int = 0, decision: str = "accept") -> list[Event]:
    observation = Observation(
        id=key, step=step, attempt=attempt, tool="perceive", configuration=Configuration(coarse="objects", fine="objects/x"),
        task=TaskRef(task_type="object_counting", question="?", answer_form="integer"),
        status=Status(state="ok", started_at=AT, elapsed_s=0.1), result=Result(kind="layer", layers=layers),
    )  # fmt: skip
    made: Any = Decision(decision=decision, stage="verifier")  # type: ignore[arg-type]
    return [
        ObservationRecorded(at=AT, call_key=key, observation=observation),
        DecisionMade(at=AT, observation_id=key, checks=(), decision=made),
    ]


def state_of(scenes: tuple[SceneInfo, ...], events: list[Event]) -> RunState:
    first = RunStarted(at=AT, run_id="r", question=Question(text="How many?", scenes=scenes))
    return fold(enumerate([first, *events], 1))


def painted(rings: list[list[float]], size: tuple[int, int], scale: int) -> NDArray[np.bool_]:
    """Pixels inside the rings, painted by PIL at ``scale`` times the size."""
    canvas = Image.new("1", (size[0] * scale, size[1] * scale))
    for ring in rings:
        ImageDraw.Draw(canvas).polygon([(x * scale, y * scale) for x, y in zip(ring[::2], ring[1::2], strict=True)], fill=1)
    return np.asarray(canvas)


def test_a_turned_box_and_a_hole_keep_their_outline_and_area(store: ArtifactLayerStore) -> None:
    diamond = polygon([(10, 0), (20, 10), (10, 20), (0, 10)], score=0.5)
    ring = polygon([(30, 30), (60, 30), (60, 60), (30, 60)], [(40, 40), (50, 40), (50, 50), (40, 50)], score=0.25)
    box = polygon([(70, 5), (90, 5), (90, 11.5), (70, 11.5)], score=1)
    ref = store.put_features([diamond, ring, box], kind="polygons", crs="image", label="ship", scene_id="s1")
    one, two, three = coco_json(state_of((scene(PLAIN),), recorded("a", ref)), store)["annotations"]
    assert (one["bbox"], one["area"]) == ([0, 0, 20, 20], 200)
    (outline,) = one["segmentation"]
    assert sorted(zip(outline[::2], outline[1::2], strict=True)) == [(0, 10), (10, 0), (10, 20), (20, 10)]
    assert (two["bbox"], two["area"]) == ([30, 30, 30, 30], 900 - 100)
    scale = 10
    expected = np.zeros((800, 1000), bool)
    expected[300:600, 300:600] = True
    expected[400:500, 400:500] = False
    # PIL paints the border pixels too
    assert np.count_nonzero(painted(two["segmentation"], (100, 80), scale) ^ expected) < 4 * 300 * 2 + 4 * 100 * 2
    assert not painted(two["segmentation"], (100, 80), scale)[410:490, 410:490].any()
    assert (three["bbox"], three["area"], three["segmentation"]) == ([70, 5, 20, 6.5], 130, [])
    assert [a["score"] for a in (one, two, three)] == [0.5, 0.25, 1]


@pytest.mark.parametrize(
    ("grid", "bbox"),
    # x 600020…600060, y 5600010…5600030; on the plain grid the rows lie below the upper edge, so there they are negative
    [(TURNED, [5, 10, 10, 20]), (PLAIN, [10, -15, 20, 10])],
)
def test_a_layer_on_the_ground_comes_in_pixels_of_its_scene(store: ArtifactLayerStore, grid: Grid, bbox: list[float]) -> None:
    corners = [(600020.0, 5600010.0), (600060.0, 5600010.0), (600060.0, 5600030.0), (600020.0, 5600030.0)]
    ref = store.put_features([polygon(corners)], kind="boxes", crs="EPSG:32630", label="ship", scene_id="s1")
    (one,) = coco_json(state_of((scene(grid),), recorded("a", ref)), store)["annotations"]
    assert (one["bbox"], one["area"], one["segmentation"]) == (bbox, 200, [])
    assert "score" not in one


def test_nothing_is_counted_twice_and_no_objects_is_a_finding(store: ArtifactLayerStore) -> None:
    first = store.put_features([polygon([(1, 1), (2, 1), (2, 2), (1, 2)])], kind="boxes", crs="image", label="car", scene_id="s1")
    again = store.put_features([polygon([(1, 1), (3, 1), (3, 3), (1, 3)])], kind="boxes", crs="image", label="car", scene_id="s1")
    weak = store.put_features([polygon([(5, 5), (6, 5), (6, 6), (5, 6)])], kind="boxes", crs="image", label="candidates")
    asked = EvidenceRequest(kind="second_detector", reason="?")
    answered = EvidenceAnswered(at=AT, observation_id="a", request=asked, outcome="answered", supporting_id="b")
    scenes = (scene(PLAIN),)
    both = state_of(scenes, [*recorded("a", first, weak), *recorded("b", again, step=2), answered])
    assert [a["observation"] for a in coco_json(both, store)["annotations"]] == ["a"]
    tries = state_of(scenes, [*recorded("a", first), *recorded("b", again, attempt=1)])
    assert [a["observation"] for a in coco_json(tries, store)["annotations"]] == ["b"]
    shared = state_of(scenes, [*recorded("a", first), *recorded("b", first, step=2)])
    assert [a["observation"] for a in coco_json(shared, store)["annotations"]] == ["a"]
    open_ = recorded("b", again, step=2, decision="request_evidence")
    refused = state_of(scenes, [*recorded("a", first, decision="reject"), *open_])
    assert "accepted" in nothing_found(refused)
    with pytest.raises(UserError) as caught:
        coco_json(refused, store)
    assert caught.value.status == 409
    none = store.put_features([], kind="boxes", crs="image", label="car", scene_id="s1")
    empty = coco_json(state_of(scenes, recorded("a", none)), store)
    assert empty["annotations"] == [] and [c["name"] for c in empty["categories"]] == ["car"] and len(empty["images"]) == 1


def test_names_of_images_are_safe_and_each_its_own(store: ArtifactLayerStore) -> None:
    scenes = tuple(scene(PLAIN, f"s{i}", name) for i, name in enumerate(("../x/a.tif", "a.tif", "..", "ü\r\n<b>\".tif")))
    refs = [
        store.put_features([polygon([(i, 1), (9, 1), (9, 2), (i, 2)])], kind="boxes", crs="image", label="car", scene_id=f"s{i}")
        for i in range(4)
    ]
    coco = coco_json(state_of(scenes, recorded("a", *refs)), store)
    assert [i["file_name"] for i in coco["images"]] == ["a.tif", "2-a.tif", "image-3", "ü___b__.tif"]
    assert [a["image_id"] for a in coco["annotations"]] == [1, 2, 3, 4]
    assert json.loads(json.dumps(coco)) == coco
