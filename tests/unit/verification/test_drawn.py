"""How exactly drawn shapes are said to follow the ground, looked at again: what was said, what is written, what it makes of the
interval."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from shapely.geometry import shape

from apps.tools.measure.accuracy import written_to_m
from apps.verification.checks import CHECKS
from apps.verification.checks.drawn import _written_m
from tests.unit.tools import test_accuracy as drawn
from tests.unit.verification.samples import Sample
from tests.unit.verification.samples_drawn import island, made_up, narrow

NAME = "consistency.interval_as_exact_as_drawn"


def look(sample: Sample) -> Any:
    return CHECKS[NAME].look(sample.case())


def test_what_was_said_passes_and_what_was_not_is_caught() -> None:
    assert look(island()).outcome == "passed" and look(island(None)).outcome == "passed"
    assert look(made_up()).outcome == look(narrow()).outcome == "failed"
    bare = island(None).but({"/evidence/source/layers/0/accuracy": {"m": 0.4, "is_floor": False, "from": "somebody"}})
    assert look(bare).outcome == "failed"
    assert look(island().but({"/result/interval": None})).outcome == "failed"


def test_what_a_person_said_may_not_be_left_out() -> None:
    assert look(island().but({"/evidence/source/layers/0/accuracy": None})).outcome == "failed"


def test_what_a_condition_speaks_of_does_not_move_the_ends_of_a_distance() -> None:
    b = drawn.bench()
    far = shapely.affinity.translate(drawn.FIELD, 5000.0, 90.0)
    sources = [drawn.source(n, [g], drawn.UTM, accuracy_m=m) for n, g, m in (
        ("one", drawn.FIELD, 2.0), ("other", far, 1.0), ("road", drawn.ROAD, 30.0))]
    spec = {"metric": "distance", "subject": "one", "reference": "other",
            "where": [{"relation": "within", "reference": "road", "distance_m": 50_000.0}]}
    o = b.call("measure", {"sources": sources, "spec": spec})
    assert o.status.state == "ok" and o.result.interval is not None, o.status.reason
    assert o.result.interval[1] - float(o.result.value or 0) == pytest.approx(3.0)
    assert look(Sample(o, b, question=b.question)).outcome == "passed"


@pytest.mark.parametrize("decimals", range(1, 10))
@pytest.mark.parametrize("crs", ["EPSG:4326", "EPSG:32633", "EPSG:2263"])
def test_both_readings_of_the_digits_agree(decimals: int, crs: str) -> None:
    rng = np.random.default_rng(decimals)
    low = {"EPSG:4326": (14.2, 52.1), "EPSG:32633": (4.2e5, 5.77e6), "EPSG:2263": (9.8e5, 1.9e5)}[crs]
    points = np.round(rng.uniform(0, 0.3, (60, 2)) + low, decimals)
    geometry = {"type": "LineString", "coordinates": points.tolist()}
    mine, tools = _written_m([geometry], crs), written_to_m([shape(geometry)], crs)
    assert (mine is None) == (tools is None)
    if mine is not None and tools is not None:
        assert mine == pytest.approx(tools[0], rel=0.02)


@pytest.mark.shared_data
def test_both_read_a_real_file_alike(shared_data: Path) -> None:
    counties = json.loads((shared_data / "vector/colorado-counties.geojson").read_text())
    mine = _written_m([f["geometry"] for f in counties["features"]], "EPSG:4326")
    tools = written_to_m([shape(f["geometry"]) for f in counties["features"]], "EPSG:4326")
    assert mine is not None and tools is not None and mine == pytest.approx(tools[0], rel=0.02)


@pytest.mark.parametrize(("spec", "given"), [
    ({"metric": "area"}, drawn.FIELD), ({"metric": "length"}, drawn.ROAD),
    ({"metric": "length", "length_of": "outline"}, drawn.FIELD), ({"metric": "length", "length_of": "extent"}, drawn.FIELD)])
def test_honest_intervals_of_every_figure_pass(spec: dict[str, Any], given: Any) -> None:
    b = drawn.bench()
    asked = drawn.source("x", [given], drawn.UTM, accuracy_m=3.0)
    o = b.call("measure", {"sources": [asked], "spec": {"subject": "x", **spec}})
    assert o.status.state == "ok", o.status.reason
    assert look(Sample(o, b, question=b.question)).outcome == "passed"
