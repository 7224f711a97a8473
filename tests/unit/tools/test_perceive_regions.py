"""perceive, mode regions: masks against independent ones, thresholds and histograms as evidence, abstentions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from scipy import ndimage
from skimage.filters import threshold_otsu

from apps.core.evidence.observation import REQUIRED_EVIDENCE
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.verification import samples

RNG = np.random.default_rng(3)


def regions(bench: Bench, target: str = "water", **method: Any) -> Any:
    arguments: dict[str, Any] = {"image_paths": ["s"], "objective": target, "mode": "regions",
                                 "target_groups": {target: [target]}}
    if method:
        arguments["regions_method"] = method
    return bench.call("perceive", arguments)


def two_heaps() -> Bench:
    """Green and nir of a land scene with a lake in rows 20 to 59, columns 30 to 89."""
    green, nir = RNG.normal(0.08, 0.01, (100, 120)), RNG.normal(0.3, 0.02, (100, 120))
    nir[20:60, 30:90] = RNG.normal(0.02, 0.003, (40, 60))
    return Bench(scene(np.stack([green, nir]), ["green", "nir"], unit="reflectance"))


def test_the_mask_is_the_lake_and_the_evidence_is_whole() -> None:
    b = two_heaps()
    o = regions(b)
    assert o.status.state == "ok" and o.result.kind == "layer" and o.result.value is None
    mask, valid = b.layers.read_mask(o.result.layers[0])
    wanted = np.zeros((100, 120), dtype=bool)
    wanted[20:60, 30:90] = True
    assert np.array_equal(mask, wanted) and valid.all()
    assert o.result.layers[0].label == "water" and o.result.layers[0].n == 2400
    assert (o.configuration.coarse, o.configuration.fine) == ("regions", "regions/water/ndwi/fixed")
    for part, keys in REQUIRED_EVIDENCE["perceive"].items():
        found = getattr(o.evidence, part)
        for key in keys:
            assert any(k in found for k in ((key,) if isinstance(key, str) else key)), (part, key)
    e: dict[str, Any] = o.evidence.intermediate
    assert (e["mask_px"], e["valid_px"], e["polygons"], e["edge_px"]) == (2400, 12000, 1, 2 * 60 + 2 * 38)
    assert sum(e["histogram"]["counts"]) == 12000 and e["separability"] > 0.95
    assert o.evidence.source["thresholds"] == {"water": 0.0}
    assert o.arguments_passed["regions_method"]["index"] == "ndwi"


def test_otsu_is_scikit_images_threshold() -> None:
    b = two_heaps()
    o = regions(b, kind="index_threshold", index="ndwi", threshold="otsu")
    green, nir = b.stored["s"]
    values = ((green - nir) / (green + nir)).ravel()
    threshold: Any = o.evidence.source["thresholds"]["water"]
    # scikit-image names the first of equally good thresholds, ours the middle one
    assert int((values > threshold).sum()) == pytest.approx(int((values > threshold_otsu(values)).sum()), abs=3)
    assert int((values > threshold).sum()) == 2400
    assert o.configuration.fine == "regions/water/ndwi/otsu"


def test_one_heap_is_told() -> None:
    b = Bench(scene(np.stack([RNG.normal(0.08, 0.01, (60, 60)), RNG.normal(0.3, 0.03, (60, 60))]), ["green", "nir"],
                    unit="reflectance"))
    o = regions(b, kind="index_threshold", index="ndwi", threshold="otsu")
    assert any("hardly parts two classes" in line.message for line in o.status.log)


def test_small_pieces_are_dropped_and_counted() -> None:
    stored = np.zeros((1, 20, 20), dtype=np.uint8) + 10
    stored[0, 2, 2], stored[0, 10:14, 10:14] = 200, 200
    o = regions(Bench(scene(stored, ["gray"])), "roof", kind="band_threshold", band="gray", threshold=100, min_px=4)
    e = o.evidence.intermediate
    assert (e["candidates"], e["kept"], e["pieces_before"], e["polygons"]) == (17, 16, 2, 1)
    assert o.configuration.fine == "regions/roof/gray/fixed"


def test_a_class_of_a_map() -> None:
    stored = np.array([[[1, 1, 2], [3, 3, 255]]], dtype=np.uint8)
    b = Bench(scene(stored, ["class"], nodata=255))
    o = regions(b, "forest", kind="class_value", values=[1, 3])
    mask, valid = b.layers.read_mask(o.result.layers[0])
    assert mask.tolist() == [[True, True, False], [True, True, False]] and int(valid.sum()) == 5
    assert o.configuration.fine == "regions/forest/class"


def test_a_class_that_a_map_has_not_is_told_with_those_that_it_has() -> None:
    stored = np.array([[[1, 1, 2], [3, 3, 255]]], dtype=np.uint8)
    o = regions(Bench(scene(stored, ["class"], nodata=255)), "class 41", kind="class_value", values=[41])
    assert o.status.state == "ok" and o.result.layers[0].n == 0
    told = [line.message for line in o.status.log if line.level == "warning"]
    assert told == ["No pixel is class 41. The classes that occur here are 1, 2, 3."]


def test_nothing_there_is_a_finding() -> None:
    b = Bench(scene(np.stack([np.full((5, 5), 0.05), np.full((5, 5), 0.3)]), ["green", "nir"], unit="reflectance"))
    o = regions(b)
    assert o.status.state == "ok" and o.result.layers[0].n == 0


def test_an_unknown_target_abstains_and_a_missing_band_is_asked_for() -> None:
    o = regions(two_heaps(), "uranium")
    assert o.status.state == "failed" and o.status.needs["abstained"] is True and "uranium" in o.status.reason
    o = regions(two_heaps(), "snow")
    assert o.status.needs == {"roles": ["swir1"], "scene": "s", "code": "NEEDS_BANDS"}


def test_forest_by_ndvi_says_that_it_is_vegetation() -> None:
    b = Bench(scene(np.stack([np.full((5, 5), 0.05), np.full((5, 5), 0.3)]), ["red", "nir"], unit="reflectance"))
    o = regions(b, "forest")
    assert o.evidence.validity["class_exact"] is False
    assert any("cannot tell forest" in line.message for line in o.status.log)


def test_a_region_bounds_the_mask() -> None:
    b = two_heaps()
    ring = [[0, 0], [60, 0], [60, 100], [0, 100], [0, 0]]
    o = b.call("perceive", {"image_paths": ["s"], "objective": "water", "mode": "regions", "target_groups": {"water": ["water"]},
                            "region": {"type": "Polygon", "coordinates": [ring]}, "region_crs": "image"})
    assert o.result.layers[0].n == 40 * 30 and o.evidence.intermediate["valid_px"] == 6000


def test_two_targets_or_two_images_are_two_calls() -> None:
    b = two_heaps()
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "regions",
                            "target_groups": {"water": ["water"], "snow": ["snow"]}})
    assert "one target a call" in o.status.reason
    o = b.call("perceive", {"image_paths": ["s", "s"], "objective": "x", "mode": "regions", "target_groups": {"water": []}})
    assert "one image a call" in o.status.reason


@pytest.mark.shared_data
def test_flood_water_against_the_hand_label(shared_data: Path) -> None:
    b = Bench(from_file(shared_data / "water_flood/Spain_7370579_S2Hand.tif", {"green": 3, "red": 4, "nir": 8, "swir1": 12},
                        unit="reflectance", scale=1e-4, nodata=0))
    with rasterio.open(shared_data / "water_flood/Spain_7370579_LabelHand.tif") as src:
        label = src.read(1)
    known, water = label >= 0, label == 1
    for method, least in (({}, 0.80), ({"kind": "index_threshold", "index": "mndwi", "threshold": "otsu"}, 0.80)):
        mask, _ = b.layers.read_mask(regions(b, **method).result.layers[0])
        hit = int((mask & water & known).sum())
        assert 2 * hit / (int((mask & known).sum()) + int(water.sum())) >= least


@pytest.mark.parametrize("min_px", [0, 6])
def test_each_piece_tells_its_pixels_its_mean_and_how_sure_it_is(min_px: int) -> None:
    """Against scipy's own means over the pieces of the mask that was kept."""
    b = Bench(samples.optical())
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "regions", "target_groups": {"vegetation": []},
                            "regions_method": {"kind": "index_threshold", "index": "ndvi", "threshold": 0.75, "min_px": min_px}})
    mask, _ = b.layers.read_mask(o.result.layers[0])
    ndvi = b.layers.read_raster(o.result.layers[1]).data[0].astype(np.float64)
    labels, n = ndimage.label(mask, structure=np.ones((3, 3)))
    mean = ndimage.mean(np.nan_to_num(ndvi), labels, np.arange(1, n + 1))
    sure = ndimage.mean(np.abs(np.nan_to_num(ndvi) - 0.75) > 0.05, labels, np.arange(1, n + 1))
    sizes = np.bincount(labels.ravel())[1:]
    pieces: Any = o.evidence.intermediate["pieces"]
    assert n > 1 and len(pieces) == n and [p["px"] for p in pieces] == sorted(sizes.tolist(), reverse=True)
    told = sorted((p["px"], round(p["mean"], 5), p["sureness"]) for p in pieces)
    due = sorted((int(s), round(m, 5), round(v, 4)) for s, m, v in zip(sizes, mean, sure, strict=True))
    assert np.asarray(told) == pytest.approx(np.asarray(due), abs=2e-5)
    assert all(p["margin"] == pytest.approx(p["mean"] - 0.75) for p in pieces)
