"""Checks of distances and bearings between landmarks: each typical fault is named, and what is right passes."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest
from pyproj import Geod

from apps.core.evidence.observation import TaskRef
from apps.core.evidence.plan import Plan
from apps.verification.checks import CHECKS
from apps.verification.marks import vincenty
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification import samples_marks as m
from tests.unit.verification.samples import Sample

WGS84 = Geod(ellps="WGS84")
MIDDLE = (-1.202, 50.732)
NAMES = ("geometry.landmarks_stand", "geometry.landmarks_as_marked", "geometry.landmarks_measured_again")


def failures(sample: Sample) -> set[str]:
    return {name.rsplit(".", 1)[1] for name in NAMES if CHECKS[name].look(sample.case()).outcome == "failed"}


def outcomes(sample: Sample) -> list[str]:
    return [CHECKS[name].look(sample.case()).outcome for name in NAMES]


def test_vincenty_agrees_with_geographiclib() -> None:
    """Within a tenth of a millimetre over 3,000 pairs from a metre to 20 degrees apart."""
    draw = random.Random(7)
    for _ in range(3000):
        size = 10 ** draw.uniform(-5, 1.3)
        one = (draw.uniform(-180, 180), draw.uniform(-85, 85))
        two = (one[0] + draw.uniform(-size, size), max(-89.0, min(89.0, one[1] + draw.uniform(-size, size))))
        azimuth, _, metres = WGS84.inv(*one, *two)
        found = vincenty(one, two)
        assert found is not None
        assert abs(found[0] - metres) < 1e-4
        assert abs(math.radians(math.remainder(found[1] - azimuth, 360))) * metres < 1e-4
    assert vincenty((0.0, 0.0), (179.9, 0.2)) is None or math.isfinite(vincenty((0.0, 0.0), (179.9, 0.2))[0])  # type: ignore[index]


def test_what_is_right_passes() -> None:
    azimuth, _, metres = WGS84.inv(*m.A, *MIDDLE)
    assert m.value_of(m.apart()) == pytest.approx(metres, abs=1e-3)
    assert m.value_of(m.bearing()) == pytest.approx(azimuth % 360, abs=1e-5)
    assert outcomes(m.apart()) == outcomes(m.bearing()) == ["passed"] * 3


CORNER = WGS84.inv(*m.A, -1.204, 50.730)[2]
ALL = {"landmarks_stand", "landmarks_as_marked", "landmarks_measured_again"}
SWAPPED = WGS84.inv(m.A[1], m.A[0], MIDDLE[1], MIDDLE[0])[2]


@pytest.mark.parametrize(
    ("changes", "caught"),
    [
        ({"/result/value": CORNER, "/result/interval": [CORNER - 20, CORNER + 20]}, {"landmarks_measured_again"}),
        ({"/result/value": SWAPPED, "/result/interval": [SWAPPED - 20, SWAPPED + 20]}, {"landmarks_measured_again"}),
        ({"/result/unit": "km"}, {"landmarks_measured_again"}),
        ({"/result/interval": [m.value_of(m.apart()) - 0.1, m.value_of(m.apart()) + 0.1]}, {"landmarks_measured_again"}),
        ({"/result/interval": None}, {"landmarks_measured_again"}),
        # outside the scene: as given, and as it was measured
        ({"/arguments/landmarks/0/point": [-2.5, 50.742]}, ALL),
        ({"/arguments/landmarks/0/point": [50.742, -1.225]}, ALL),
        # one place twice
        ({"/arguments/landmarks/1": {"name": "B", "point": list(m.A), "crs": "EPSG:4326"}}, ALL),
        ({"/arguments/landmarks/0/name": "here", "/arguments/landmarks/1/name": "there"}, {"landmarks_as_marked"}),
        ({"/arguments/landmarks/0/crs": "image"}, ALL),
    ],
)
def test_a_fault_is_named(changes: dict[str, Any], caught: set[str]) -> None:
    assert failures(m.apart().but(changes)) == caught


def test_a_bearing_runs_as_the_words_say() -> None:
    back = m.bearing().observation.evidence.intermediate["azimuth_back_deg"]
    assert isinstance(back, float)
    turned = m.bearing().but({"/result/value": back, "/result/interval": [back - 1, back + 1]})
    assert failures(turned) == {"landmarks_measured_again"}
    given: Any = m.bearing().observation.arguments["landmarks"]
    exchanged = turned.but({"/arguments/landmarks": given[::-1],
                            "/evidence/intermediate/landmarks_px": list(reversed(m.px(turned)))})  # fmt: skip
    assert failures(exchanged) == {"landmarks_as_marked"}


def test_a_picture_is_measured_in_pixels_or_by_its_gsd() -> None:
    def measured(gsd: float | None, unit: str) -> Sample:
        bench = Bench(scene(np.ones((1, 100, 100), dtype=np.uint8), ["gray"], crs=None, gsd_m=gsd))
        task = TaskRef(task_type="distance_measurement", question="How far apart are they?", answer_form="distance")
        call = {"image_paths": ["s"], "objective": "x", "mode": "measurement", "landmarks": ["px:10,20", "px:40,60"],
                "landmarks_method": {"measure": "distance", "unit": unit}}  # fmt: skip
        o = bench.box.call(tool="perceive", arguments=call, question=bench.question, plan=Plan(task=task), step=1)
        assert o.status.state == "ok", o.status.reason
        return Sample(o, bench, question=bench.question)

    by_gsd, plain = measured(0.5, "m"), measured(None, "px")
    assert (m.value_of(by_gsd), m.value_of(plain)) == (25.0, 50.0)
    assert outcomes(by_gsd) == outcomes(plain) == ["passed", "not_applicable", "passed"]
    assert failures(by_gsd.but({"/result/value": 50.0})) == {"landmarks_measured_again"}  # wrong GSD
    assert failures(plain.but({"/result/unit": "m"})) == {"landmarks_measured_again"}  # metres out of nothing
