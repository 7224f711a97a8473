"""What perceive says where it could see nothing, on oblong pixels, of complex samples, and of ground its methods are not for."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.verification.checks import run_checks
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.tools.test_perceive_objects import RGB, features_of, harbour, objects
from tests.unit.verification import samples

ROLES = ["red", "green", "blue"]


def picture(shape: tuple[int, int] = (96, 128)) -> NDArray[np.uint8]:
    return np.random.default_rng(1).integers(60, 90, (3, *shape)).astype(np.uint8)


def sea(shape: tuple[int, int] = (400, 400), power: float = 0.01) -> NDArray[np.float32]:
    return (10 * np.log10(np.random.default_rng(8).gamma(4, power / 4, (1, *shape)))).astype(np.float32)


# --- nothing to see ---------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("what, pixel", [
    pytest.param("vehicle", 0.2, marks=pytest.mark.ml), ("tree", 0.1), ("storage tank", 0.5), ("ship", 10.0)])
@pytest.mark.parametrize("stored, nodata, part", [
    (np.zeros((3, 96, 128), np.uint8), 0.0, "No valid pixel"),
    (np.full((3, 96, 128), np.nan, np.float32), None, "No valid pixel"),
    (picture()[:, :1, :1], None, "too few"),
    (picture()[:, :1], None, "too few"),
    (picture()[:, :2, :2], None, "too few"),
    (np.full((3, 96, 128), 77, np.uint8), None, "same value"),
])
def test_from_what_nobody_saw_no_zero_follows(what: str, pixel: float, stored: NDArray[Any], nodata: float | None,
                                              part: str) -> None:
    one = (stored[:1], ["vv"]) if what == "ship" else (stored, ROLES)
    o = objects(Bench(scene(*one, pixel=pixel, nodata=nodata, gsd_m=pixel)), what)
    assert o.status.state == "failed" and part in o.status.reason, o.status.reason
    assert o.result.value is None and o.result.interval is None and not o.result.layers


def test_valid_pixels_of_objects_are_counted_once_inside_the_region() -> None:
    # ground that brightens to the east; noise alone would not be looked at
    stored = picture((300, 400)) + np.linspace(0, 120, 400).astype(np.uint8)
    stored[:, :, :100] = 0
    b = Bench(scene(stored, ROLES, pixel=0.1, nodata=0.0))
    o = objects(b, "tree")
    assert (o.evidence.intermediate["valid_px"], o.evidence.intermediate["n_region_px"]) == (300 * 300, 300 * 400)
    assert o.evidence.validity["valid_share"] == 0.75 and "quality_mask" in o.evidence.validity
    ring = {"type": "Polygon", "coordinates": [[[50, 0], [250, 0], [250, 200], [50, 200], [50, 0]]]}
    o = objects(b, "tree", region=ring)
    assert (o.evidence.intermediate["valid_px"], o.evidence.intermediate["n_region_px"]) == (150 * 200, 200 * 200)


# --- oblong pixels ------------------------------------------------------------------------------------------------------------
DISCS = [(30 + 50 * i + 1.3 * j, 30 + 50 * j + 0.7 * i, 9.0 + i + 2.5 * j) for i in range(4) for j in range(3)]


def discs_on(crs: str, pixel: tuple[float, float], origin: tuple[float, float], metres: tuple[float, float]) -> Bench:
    """DISCS (x, y, radius in metres from the upper left corner) on pixels of so many metres, each the mean over the pixel."""
    w, h, fine = round(212 / metres[0]), round(164 / metres[1]), 4
    y, x = (np.mgrid[:h * fine, :w * fine] + 0.5) / fine
    grey = np.full(x.shape, 90.0)
    for cx, cy, radius in DISCS:
        grey[(x * metres[0] - cx) ** 2 + (y * metres[1] - cy) ** 2 <= radius**2] = 220
    grey = grey.reshape(h, fine, w, fine).mean(axis=(1, 3)) + np.random.default_rng(6).normal(0, 3, (h, w))
    info, stored = scene(np.repeat(grey.clip(0, 255).astype(np.uint8)[None], 3, 0), ROLES)
    grid = Grid(crs=crs, transform=(pixel[0], 0.0, origin[0], 0.0, -pixel[1], origin[1]), width=w, height=h)
    return Bench((info.model_copy(update={"grid": grid}), stored))


@pytest.mark.parametrize("crs, pixel, origin, metres", [
    ("EPSG:32632", (0.6, 0.6), (500000.0, 6651500.0), (0.6, 0.6)),
    # at 60 degrees north on WGS 84 a degree of latitude has 111,412 m, one of longitude 55,800 m
    ("EPSG:4326", (1e-5, 1e-5), (9.0, 60.0), (1e-5 * 55800, 1e-5 * 111412)),
    ("EPSG:32632", (0.6, 1.2), (500000.0, 6651500.0), (0.6, 1.2)),
    ("EPSG:32632", (1.2, 0.6), (500000.0, 6651500.0), (1.2, 0.6)),
])
def test_the_same_discs_are_found_on_square_and_on_oblong_pixels(crs: str, pixel: tuple[float, float],
                                                                 origin: tuple[float, float],
                                                                 metres: tuple[float, float]) -> None:
    b = discs_on(crs, pixel, origin, metres)
    o = objects(b, "storage tank", score_threshold=0.05)
    assert o.status.state == "ok", o.status.reason
    boxes = [f["properties"]["box"] for f in features_of(b, o, "storage tank")]
    hit = 0
    for x0, y0, x1, y1 in boxes:
        cx, cy, radius = min(DISCS, key=lambda d: math.hypot((x0 + x1) / 2 * metres[0] - d[0], (y0 + y1) / 2 * metres[1] - d[1]))
        assert math.hypot((x0 + x1) / 2 * metres[0] - cx, (y0 + y1) / 2 * metres[1] - cy) < 2
        assert abs((x1 - x0) / 2 * metres[0] - radius) < 2 and abs((y1 - y0) / 2 * metres[1] - radius) < 2
        hit += 1
    assert hit >= 8, boxes          # without square pixels none is found on oblong ones
    told: Any = o.evidence.source["looked_at"]
    assert told["pixels"] == ("as they are" if metres == (0.6, 0.6) else "resampled to square ones")


def test_pixels_many_times_longer_than_wide_are_refused() -> None:
    o = objects(discs_on("EPSG:32632", (0.2, 1.2), (500000.0, 6651500.0), (0.2, 1.2)), "storage tank")
    assert o.status.state == "failed" and "6.0 times as long as wide" in o.status.reason, o.status.reason


# --- complex samples ----------------------------------------------------------------------------------------------------------
def test_the_amplitude_of_complex_samples_is_looked_at() -> None:
    b, ships = harbour()
    stored = b.stored["s"]
    amplitude = 10 ** (stored / 20)
    phase = np.exp(1j * np.random.default_rng(2).uniform(0, 2 * np.pi, stored.shape))
    o_real = objects(Bench(scene(amplitude.astype(np.float32), ["vv"], pixel=10.0)), "ship")
    o = objects(Bench(scene((amplitude * phase).astype(np.complex64), ["vv"], pixel=10.0)), "ship")
    assert o.status.state == o_real.status.state == "ok", o.status.reason
    assert o.result.items[0]["kept"] == o_real.result.items[0]["kept"] == len(ships)
    assert any("amplitude" in line.message for line in o.status.log)


# --- ships are looked for on the open sea alone -------------------------------------------------------------------------------
def test_no_ships_are_counted_on_flooded_land(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "water_flood/Spain_7370579_S1Hand.tif", {"vv": 1, "vh": 2})
    o = objects(Bench((info, stored)), "ship")
    assert o.status.state == "failed" and "no open sea" in o.status.reason, o.status.reason


@pytest.mark.parametrize("level, unit, part", [
    (0.1, "dB", "may be land"),          # forest: -10 dB in VV, one heap
    (1000.0, "dB", "may be land"),
    (0.01, "DN", "no decibels"),
])
def test_ground_that_may_be_land_is_not_taken_for_sea(level: float, unit: str, part: str) -> None:
    stored = sea(power=level)
    if unit == "DN":
        stored = (10 ** (stored / 20) * 1000).astype(np.float32)
    o = objects(Bench(scene(stored, ["vv"], pixel=10.0, unit=unit)), "ship")
    assert o.status.state == "failed" and part in o.status.reason, o.status.reason


def test_land_that_fills_a_whole_window_of_a_large_picture_is_land_still() -> None:
    rng = np.random.default_rng(5)
    power = rng.gamma(4, 0.01 / 4, (600, 3000))
    power[:, :1200] = rng.gamma(4, 0.15 / 4, (600, 1200))
    power[300:304, 300:306] = 30
    power[300:303, 2300:2306] = 4
    b = Bench(scene((10 * np.log10(power))[None].astype(np.float32), ["vv"], pixel=10.0, unit="dB"))
    o = objects(b, "ship")
    boxes = [f["properties"]["box"] for f in features_of(b, o, "ship")]
    assert len(boxes) == 1 and abs((boxes[0][0] + boxes[0][2]) / 2 - 2303) < 3


def test_an_experimental_finder_says_so_and_what_it_is_not_for(shared_data: Path) -> None:
    for b, what, name in ((harbour()[0], "ship", "sar-ship-cfar"),
                          (Bench(from_file(shared_data / "trees/OSBS_029.tif", RGB)), "tree", "tree-blobs")):
        o = objects(b, what)
        said = [line.message for line in o.status.log if line.level == "warning"]
        assert any(f"{name} is experimental" in line for line in said) and any(f"{name} is not for" in line for line in said)
        assert o.evidence.validity["not_for"] and o.evidence.validity["experimental"] == [name]


# --- what is made of it -------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("metric", ["count", "area", "boolean", "length", "ratio"])
@pytest.mark.parametrize("is_cut", [False, True])
def test_nothing_is_measured_of_a_mask_without_a_valid_pixel(metric: str, is_cut: bool) -> None:
    stored = np.random.default_rng(3).integers(60, 90, (2, 60, 80)).astype(np.uint8)
    b = Bench(scene(stored, ["green", "nir"]))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "regions", "target_groups": {"water": []}})
    mask, valid = b.layers.read_mask(o.result.layers[0])
    ref = b.layers.put_mask(mask, valid & (np.arange(80) < (40 if is_cut else 0)), o.result.layers[0].grid, label="water",
                            scene_id="s")
    falsified = o.model_copy(update={"result": o.result.model_copy(update={"layers": (ref,)})})
    more = {"region": {"type": "Polygon", "coordinates": [[[50, 0], [80, 0], [80, 60], [50, 60], [50, 0]]]},
            "region_crs": "image"} if is_cut else {}
    out = b.call("measure", {"sources": [{"name": "water", "mode": "regions", "layer": {"observation": o.id, "label": "water"}}],
                             "spec": {"metric": metric, "subject": "water"}, **more}, parents=(falsified,))
    assert out.status.state == "failed" and "Not one pixel of water is valid" in out.status.reason, out.status.reason


def test_a_count_of_nothing_seen_is_blocked_by_a_check() -> None:
    right = samples.found()
    assert outcome_of(right) == "passed"
    assert outcome_of(right.but({"/evidence/intermediate/valid_px": 0, "/evidence/validity/valid_share": 0.0})) == "failed"
    assert outcome_of(right.but({"/evidence/validity/valid_share": 0.001})) == "failed"


def outcome_of(sample: samples.Sample) -> str:
    return next(c.outcome for c in run_checks(sample.case())[0] if c.check == "completeness.enough_valid_pixels")
