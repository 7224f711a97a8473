"""perceive, mode scene: labels, models by GSD, what is refused; with torch the shipped classifier on real pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.core.errors import ToolAbstainedError
from apps.core.evidence.observation import REQUIRED_EVIDENCE
from apps.tools.perceive.scene import choose_model
from tests.unit.tools.rasters import Bench, from_file, scene

RGB = {"red": 1, "green": 2, "blue": 3}
CLASSES = ("agricultural", "beach", "forest", "harbor", "parkinglot")


def classify(b: Bench, *labels: str, **more: Any) -> Any:
    return b.call("perceive", {"image_paths": ["s"], "objective": "kind of place", "mode": "scene", "label_space": list(labels),
                               **more})


def noise(pixel: float, side: int = 300, roles: tuple[str, ...] = ("red", "green", "blue")) -> Bench:
    rng = np.random.default_rng(1)
    return Bench(scene(rng.integers(0, 255, (len(roles), side, side)).astype(np.uint8), list(roles), pixel=pixel))


def test_no_model_was_made_for_300_metres_a_pixel() -> None:
    o = classify(noise(300.0), "forest", "city")
    assert o.status.state == "failed" and o.result.value is None
    assert "300 m a pixel" in o.status.reason and o.status.needs


def test_labels_that_no_model_knows_are_refused() -> None:
    info = noise(0.3).question.scenes[0]
    with pytest.raises(ToolAbstainedError, match="knows volcano"):
        choose_model(["volcano"], info)
    assert choose_model(["parking lot", "forest"], info).name == "place21"


def test_labels_that_mean_the_same_class_are_a_wrong_call() -> None:
    o = classify(noise(0.3), "parking lot", "car park", "forest")
    assert o.status.state == "failed" and "overlap" in o.status.reason


@pytest.mark.ml
def test_noise_is_like_no_place_and_gets_no_class() -> None:
    o = classify(noise(0.3))
    assert o.status.state == "partial" and o.result.value is None
    assert "none of the 21 kinds" in o.status.reason
    assert o.evidence.validity["in_scope"] is False and o.evidence.validity["applicability"]["ok"] is False  # type: ignore[index, call-overload]


@pytest.mark.ml
def test_real_places_are_named_with_probabilities_that_sum_to_one(shared_data: Path) -> None:
    right = 0
    for name in CLASSES:
        picture = shared_data / f"training/scene/ucmerced/test/{name}/{name}85.jpg"
        info, stored = from_file(picture, RGB)
        o = classify(Bench((info.model_copy(update={"gsd_m": 0.3}), stored)))
        for part, keys in REQUIRED_EVIDENCE["perceive"].items():
            found = getattr(o.evidence, part)
            assert all(any(k in found for k in ((key,) if isinstance(key, str) else key)) for key in keys)
        assert sum(float(i["p"]) for i in o.result.items) == pytest.approx(1.0, abs=0.01)
        assert o.evidence.intermediate["windows"] == 1
        right += o.result.value == name
    assert right >= 4


@pytest.mark.ml
def test_the_answer_stays_inside_the_asked_labels_or_is_none(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "training/scene/ucmerced/test/harbor/harbor85.jpg", RGB)
    b = Bench((info.model_copy(update={"gsd_m": 0.3}), stored))
    o = classify(b, "harbour", "forest")
    assert o.result.value == "harbour" and [i["class"] for i in o.result.items] == ["harbour", "forest"]
    o = classify(b, "forest", "beach")
    assert o.result.value is None and "none of the asked labels" in o.status.reason
    o = classify(b, "harbour", "volcano")
    assert o.status.state == "partial" and o.evidence.validity["class_complete"] is False
