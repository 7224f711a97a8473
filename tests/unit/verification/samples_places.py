"""A kind of place over a real picture of a car park, as a classifier's record has it, and with another label told."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from tests.unit.tools.rasters import Bench
from tests.unit.verification import samples as s
from tests.unit.verification.samples import Sample

CAR_PARK = s.HERE / "ucmerced_parkinglot85.jpg"
TOP = {"parkinglot": 0.93, "harbor": 0.03, "mobilehomepark": 0.02, "intersection": 0.01, "buildings": 0.01}


def record(bench: Bench, top: dict[str, float], **more: Any) -> Sample:
    """The record of a classifier whose likeliest classes these are."""
    first = max(top, key=lambda name: top[name])
    made = s.written(
        bench, "perceive", kind="class", value=first, question="What kind of place is this?", form="class",
        task_type="scene_classification", coarse="scene",
        arguments={"image_paths": ["s"], "objective": "kind of place", "mode": "scene", **more},
        source={"weights": [{"name": "place21", "digest": "sha256:" + "a" * 64}], "thresholds": {"probability": 0.5},
                "sensor": "", "resolution_m": 0.3},
        intermediate={"windows": 1, "windows_out_of_scope": 0, "candidates": len(top), "kept": 1,
                      "window_px": [bench.question.scenes[0].grid.width, bench.question.scenes[0].grid.height],
                      "top_of_the_model": [{"class": name, "p": p} for name, p in top.items()],
                      "label_probabilities": top, "scores": [top[first]], "classes": [first]},
        validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True, "quality_mask": None})  # fmt: skip
    return made.but({"/result/items": [{"class": name, "p": p} for name, p in top.items()]})


@lru_cache
def car_park() -> Sample:
    return record(Bench(s.cut(CAR_PARK, s.RGB, gsd_m=0.3)), TOP)


def called(name: str) -> Sample:
    """The same picture, called another kind wherever the car park stands on record."""
    top = {name if k == "parkinglot" else "parkinglot" if k == name else k: p for k, p in TOP.items()}
    return record(car_park().bench, top)


def surer() -> Sample:
    """Probabilities squared after the model gave them."""
    return car_park().but({"/result/items/0/p": 0.998, "/result/items/1/p": 0.001, "/result/items/2/p": 0.0005})


EXAMPLES = {
    "consistency.kind_matches_look": (car_park, lambda: called("forest"), "failed"),
    "consistency.probabilities_are_the_models": (car_park, surer, "failed"),
}
