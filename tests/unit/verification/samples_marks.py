"""Distances and bearings between two landmarks over the shipped imagery, for the examples of their checks."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from apps.core.evidence.landmark import Landmark
from tests.unit.tools.rasters import Bench
from tests.unit.verification.samples import Sample, ask
from tests.unit.verification.samples_new import island

# on the Sentinel-2 scene of Fishbourne, in longitude and latitude
A = (-1.2250, 50.7420)
B_BOX = (-1.2040, 50.7300, -1.2000, 50.7340)


def marked(measure: str, text: str) -> Sample:
    """Point A and box B as a person would mark them, and as the planner hands them over."""
    bench: Bench = island()
    marks = (Landmark(name="A", point=A, precision=12.0), Landmark(name="B", box=B_BOX, precision=12.0))
    bench.question = bench.question.model_copy(update={"landmarks": marks})
    given: list[dict[str, Any]] = [
        {"name": "A", "point": list(A), "crs": "EPSG:4326", "precision": 12.0},
        {"name": "B", "box": list(B_BOX), "crs": "EPSG:4326", "precision": 12.0},
    ]
    return ask(
        bench,
        text,
        "distance" if measure == "distance" else "number",
        "perceive",
        {
            "image_paths": ["s"],
            "objective": text,
            "mode": "measurement",
            "landmarks": given,
            "landmarks_method": {"measure": measure},
        },
    )


@lru_cache
def apart() -> Sample:
    return marked("distance", "How far apart are the two marked points?")


@lru_cache
def bearing() -> Sample:
    return marked("azimuth", "What is the bearing from A to B?")


def value_of(sample: Sample) -> float:
    value = sample.observation.result.value
    assert isinstance(value, float)
    return value


EXAMPLES: dict[str, tuple[Any, Any, str]] = {
    "geometry.landmarks_stand": (
        apart,
        # A's column and row exchanged in what was measured
        lambda: apart().but({"/evidence/intermediate/landmarks_px/0": list(reversed(px(apart())[0]))}),
        "failed",
    ),
    "geometry.landmarks_as_marked": (apart, lambda: apart().but({"/arguments/landmarks/0/point": [-1.226, 50.742]}), "failed"),
    "geometry.landmarks_measured_again": (
        apart,
        # degrees taken for a plane: longitude and latitude by one factor
        lambda: apart().but({"/result/value": planar(), "/result/interval": [planar() - 20, planar() + 20]}),
        "failed",
    ),
}


def px(sample: Sample) -> list[list[float]]:
    held: Any = sample.observation.evidence.intermediate["landmarks_px"]
    return [list(p) for p in held]


def planar() -> float:
    middle = (B_BOX[0] + B_BOX[2]) / 2, (B_BOX[1] + B_BOX[3]) / 2
    return float(((A[0] - middle[0]) ** 2 + (A[1] - middle[1]) ** 2) ** 0.5 * 111_195.0)
