"""perceive on scenes that do not fit as one array: what repeats every 2nd, 8th or 16th row is counted whole, or not told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.core.errors import ToolAbstainedError
from apps.core.geo.grid import Grid
from apps.tools.perceive import regions, sampling
from tests.unit.tools.rasters import UTM, Bench, scene

PERIODS = (2, 8, 16)


def striped(period: int, size: int = 256) -> NDArray[np.bool_]:
    """Every ``period``-th row and, of the lower half, column too."""
    out = np.zeros((size, size), dtype=bool)
    out[::period] = True
    out[size // 2 :, ::period] = True
    return out


def greened(changed: NDArray[np.bool_], scene_id: str, **more: Any) -> Any:
    """Red and near infrared, with an NDVI of 0.6 where it changed and 0.2 elsewhere."""
    nir, red = np.where(changed, 0.4, 0.3), np.where(changed, 0.1, 0.2)
    return scene(np.stack([red, nir]).astype("float32"), ["red", "nir"], unit="reflectance", scene_id=scene_id, **more)


def pair(period: int) -> tuple[Bench, NDArray[np.bool_]]:
    """Two dates, and where they differ."""
    changed = striped(period)
    return Bench(greened(np.zeros_like(changed), "a"), greened(changed, "b")), changed


def change(bench: Bench, box: tuple[int, int, int, int] | None = None) -> Any:
    """Of the box (left, top, right, bottom) in pixels."""
    more: dict[str, Any] = {}
    if box is not None:
        a, b, c, d = box
        more = {"region": {"type": "Polygon", "coordinates": [[[a, b], [c, b], [c, d], [a, d], [a, b]]]}, "region_crs": "image"}
    return bench.call(
        "perceive",
        {
            "image_paths": ["a", "b"],
            "objective": "what changed",
            "mode": "change",
            "regions_method": {"kind": "index_threshold", "index": "ndvi", "threshold": 0.2},
            **more,
        },
    )


@pytest.mark.parametrize("period", PERIODS)
def test_change_of_a_large_pair_is_not_told_of_every_kth_pixel(monkeypatch: pytest.MonkeyPatch, period: int) -> None:
    monkeypatch.setattr(sampling, "VIEW_SAMPLES", 256 * 256)
    o = change(pair(period)[0])
    assert o.status.state == "failed"
    assert "Draw a region" in o.status.reason
    assert o.status.needs["region"] is True
    assert not o.result.layers


@pytest.mark.parametrize("period", PERIODS)
def test_change_of_a_part_of_a_large_pair_is_that_of_all_its_pixels(monkeypatch: pytest.MonkeyPatch, period: int) -> None:
    whole = change(pair(period)[0], (70, 60, 190, 170))
    monkeypatch.setattr(sampling, "VIEW_SAMPLES", 256 * 256)
    b, changed = pair(period)
    o = change(b, (70, 60, 190, 170))
    assert o.status.state == "ok", o.status.reason
    truth = changed[60:170, 70:190]
    found = o.evidence.intermediate
    for one in (whole.evidence.intermediate, found):
        assert (one["valid_px"], one["n_region_px"], one["mask_px"]) == (truth.size, truth.size, truth.sum())
        assert one["share"] == pytest.approx(truth.mean())
    mask, _ = b.layers.read_mask(o.result.layers[0])
    assert np.array_equal(mask, truth)
    grid = o.result.layers[0].grid
    assert grid.xy(0, 0) == b.question.scenes[0].grid.xy(70, 60)


def test_the_later_image_on_another_grid_is_read_where_the_earlier_one_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = np.zeros((300, 300), dtype=bool)
    changed[120:150, 130:170] = True
    early = greened(np.zeros((256, 256), dtype=bool), "a", origin=(600200.0, 5599800.0))
    monkeypatch.setattr(sampling, "VIEW_SAMPLES", 40_000)
    o = change(Bench(early, greened(changed, "b")), (80, 70, 200, 190))
    assert o.status.state == "ok", o.status.reason
    assert (o.evidence.intermediate["mask_px"], o.evidence.intermediate["valid_px"]) == (30 * 40, 120 * 120)


def test_the_part_under_another_grid_holds_all_its_pixels() -> None:
    info = scene(np.zeros((1, 400, 500), "uint8"), ["gray"])[0]
    target = Grid(crs=UTM, transform=(7.0, 0.0, 601000.0, 0.0, -7.0, 5598500.0), width=100, height=60)
    left, top, width, height = sampling.part_under(info, 1, target) or (0, 0, 0, 0)
    # columns 100 to 170 and rows 150 to 192 of 10 m
    assert left <= 99 and top <= 149 and left + width >= 171 and top + height >= 193
    assert width < 90 and height < 60
    beside = Grid(crs=UTM, transform=(7.0, 0.0, 900000.0, 0.0, -7.0, 5598500.0), width=100, height=60)
    assert sampling.part_under(info, 1, beside) is None


def test_too_large_a_part_asks_for_a_smaller_region(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "VIEW_SAMPLES", 1000)
    info = scene(np.zeros((1, 400, 500), "uint8"), ["gray"])[0]
    target = Grid(crs=UTM, transform=(7.0, 0.0, 601000.0, 0.0, -7.0, 5598500.0), width=100, height=60)
    with pytest.raises(ToolAbstainedError, match="smaller region"):
        sampling.part_under(info, 1, target)


def ndwi(period: int) -> tuple[Bench, NDArray[np.bool_]]:
    """Water in stripes."""
    wet = striped(period)
    green, nir = np.where(wet, 0.4, 0.1), np.where(wet, 0.1, 0.4)
    return Bench(scene(np.stack([green, nir]).astype("float32"), ["green", "nir"], unit="reflectance")), wet


def water(bench: Bench) -> Any:
    return bench.call(
        "perceive", {"image_paths": ["s"], "objective": "water", "mode": "regions", "target_groups": {"water": ["water"]}}
    )


@pytest.mark.parametrize("period", PERIODS)
def test_a_mask_is_of_every_pixel_where_its_values_are_kept_thinned(monkeypatch: pytest.MonkeyPatch, period: int) -> None:
    monkeypatch.setattr(regions, "RASTER_LIMIT_PX", 256 * 256 // 16)
    b, wet = ndwi(period)
    o = water(b)
    assert o.status.state == "ok", o.status.reason
    assert o.evidence.intermediate["mask_px"] == wet.sum()
    assert o.evidence.intermediate["share"] == pytest.approx(wet.mean())
    mask, _ = b.layers.read_mask(next(x for x in o.result.layers if x.kind == "mask"))
    assert np.array_equal(mask, wet)


@pytest.mark.parametrize("period", PERIODS)
def test_no_mask_is_thinned(monkeypatch: pytest.MonkeyPatch, period: int) -> None:
    monkeypatch.setattr(regions, "MASK_LIMIT_PX", 256 * 256 // 4)
    o = water(ndwi(period)[0])
    assert o.status.state == "failed"
    assert "masks are kept up to" in o.status.reason
    assert not o.result.layers


def test_the_classes_of_a_large_map_are_not_said_to_be_all(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = np.ones((1, 256, 256), dtype="uint8")
    classes[0, 1::2] = 7
    method = {"kind": "class_value", "values": [9.0]}
    arguments = {
        "image_paths": ["s"],
        "objective": "x",
        "mode": "regions",
        "target_groups": {"x": ["x"]},
        "regions_method": method,
    }
    o = Bench(scene(classes, ["class"])).call("perceive", arguments)
    assert any("The classes that occur here are 1, 7." in line.message for line in o.status.log)
    monkeypatch.setattr(regions, "RASTER_LIMIT_PX", 256 * 256 // 4)
    o = Bench(scene(classes, ["class"])).call("perceive", arguments)
    assert any("others may be" in line.message for line in o.status.log)
