"""perceive: change, evidence, measurement and prompts, on images whose truth is known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray
from pyproj import Geod, Transformer
from scipy import ndimage
from shapely.geometry import mapping

from apps.core.evidence.observation import REQUIRED_EVIDENCE, Observation
from apps.tools.perceive.noise import grain
from apps.tools.registration import estimated_shift
from apps.verification.checks import CHECKS, Case
from tests.unit.tools.rasters import Bench, from_file, scene

GEOD = Geod(ellps="WGS84")
RNG = np.random.default_rng(11)
ROLES = ["blue", "green", "red"]


def texture(shape: tuple[int, int] = (240, 260), bands: int = 3) -> NDArray[np.float64]:
    """A landscape of soft patches and hard edges with a little noise."""
    soft = ndimage.gaussian_filter(RNG.normal(0, 1, shape), 6) * 400
    hard = ndimage.zoom(RNG.integers(0, 2, (shape[0] // 20, shape[1] // 20)).astype(float), 20, order=0)
    base = 100 + soft + 40 * np.pad(hard, [(0, shape[0] - hard.shape[0]), (0, shape[1] - hard.shape[1])], mode="edge")
    return np.clip(np.stack([base * (1 + 0.1 * i) for i in range(bands)]) + RNG.normal(0, 2, (bands, *shape)), 1, 250)


def change(bench: Bench, **method: Any) -> Any:
    arguments: dict[str, Any] = {"image_paths": ["a", "b"], "objective": "what changed", "mode": "change"}
    if method:
        arguments["regions_method"] = method
    return bench.call("perceive", arguments)


def whole(o: Observation) -> bool:
    return all(any(k in getattr(o.evidence, part) for k in ((key,) if isinstance(key, str) else key))
               for part, keys in REQUIRED_EVIDENCE["perceive"].items() for key in keys)


# --- change ----------------------------------------------------------------------------------------------------------------
def test_identical_dates_give_no_change() -> None:
    one = texture()
    o = change(Bench(scene(one, ROLES, scene_id="a"), scene(one.copy(), ROLES, scene_id="b")))
    assert o.status.state == "ok" and o.result.layers[0].n == 0
    assert o.evidence.validity["is_registered"] is True and whole(o)


def test_noise_and_another_exposure_give_almost_no_change() -> None:
    one = texture()
    two = one * 1.3 + 12 + RNG.normal(0, 2, one.shape)
    o = change(Bench(scene(one, ROLES, scene_id="a"), scene(two, ROLES, scene_id="b")))
    assert float(str(o.evidence.intermediate["share"])) < 2e-3


def test_a_new_building_is_found_where_it_stands() -> None:
    one = texture()
    two = one + RNG.normal(0, 2, one.shape)
    two[:, 100:130, 60:100] = 20 + RNG.normal(0, 2, (3, 30, 40))
    truth = np.zeros((240, 260), dtype=bool)
    truth[100:130, 60:100] = True
    b = Bench(scene(one, ROLES, scene_id="a", date="2020-01-01"), scene(two, ROLES, scene_id="b", date="2021-01-01"))
    o = change(b, min_px=20)
    mask, _ = b.layers.read_mask(o.result.layers[0])
    assert 2 * (mask & truth).sum() / (mask.sum() + truth.sum()) > 0.95
    assert o.configuration.fine == "change/change_vector/otsu"
    assert [i.role for i in o.inputs] == ["before", "after"]


SUMMER = Path(__file__).resolve().parents[3] / "apps/imagery/samples/landsat7_p15r32_2002-07-20.tif"
LANDSAT = {"blue": 1, "green": 2, "red": 3, "nir": 4, "swir1": 5}


def summer(stored: NDArray[Any] | None = None, scene_id: str = "a") -> tuple[Any, NDArray[Any]]:
    """The sample of July 2002 (whole numbers from 0 to 255), or other numbers on its grid."""
    info, own = from_file(SUMMER, LANDSAT, scene_id=scene_id)
    return (info, own) if stored is None else (info.model_copy(update={"dtype": str(stored.dtype)}), stored)


@pytest.mark.parametrize("seen", [
    lambda v: (1.3 * v + 10).astype(np.float32), lambda v: (1.3 * v).clip(0, 255).astype(np.uint8),
    lambda v: (0.7 * v - 20).clip(0, 255).astype(np.uint8),
    lambda v: (v + np.random.default_rng(0).normal(0, 2, v.shape)).clip(0, 255).round().astype(np.uint8),
], ids=["another gain in floats", "saturated", "dark and cut off at 0", "noise"])
def test_the_same_picture_otherwise_exposed_has_no_change(seen: Any) -> None:
    """Rounding of floats, the ends of bytes and a line of whole medians made 1,100 to 2,200 pixels of change of the first, second
    and fourth; 4 deviations of noise leave a pixel in 90,000 at most."""
    info, stored = summer()
    o = change(Bench((info, stored), summer(seen(stored.astype(np.float64)), "b")))
    assert o.status.state == "ok" and int(str(o.evidence.intermediate["mask_px"])) <= 1


def test_a_new_block_on_a_real_picture_is_found_to_the_pixel() -> None:
    info, stored = summer()
    later = stored.copy()
    later[:, 100:140, 100:160] = 200
    b = Bench((info, stored), summer(later, "b"))
    mask, _ = b.layers.read_mask(change(b).result.layers[0])
    assert mask.sum() == mask[100:140, 100:160].sum() == 40 * 60


def test_a_length_of_change_below_zero_is_no_threshold() -> None:
    o = change(Bench(summer(), summer(255 - summer()[1], "b")), threshold=-3.0)
    assert o.status.state == "failed" and "-3 is none" in o.status.reason


@pytest.mark.parametrize("shift", [(0.0, 0.0), (3.0, -2.0), (1.35, 0.6)])
def test_the_shift_is_estimated_to_a_tenth_of_a_pixel(shift: tuple[float, float]) -> None:
    one = texture(bands=1)[0]
    other = ndimage.shift(one, shift, order=3, mode="nearest")
    found, likeness = estimated_shift(one, other, np.ones(one.shape, dtype=bool))
    assert found is not None and likeness is not None and likeness > 0.8
    assert np.abs(found - shift).max() < 0.15


def test_images_without_anything_in_common_are_not_called_registered() -> None:
    one, two = (ndimage.gaussian_filter(RNG.normal(0, 1, (1, 200, 200)), (0, 3, 3)) * 300 + 100 for _ in range(2))
    o = change(Bench(scene(one, ["gray"], scene_id="a"), scene(two, ["gray"], scene_id="b")))
    assert o.evidence.validity["is_registered"] is None
    assert any("cannot be told" in line.message for line in o.status.log)
    # a doubt is no error of the call
    assert CHECKS["completeness.log_without_errors"].look(Case(o)).outcome == "passed"


def test_a_shifted_image_is_told() -> None:
    one = texture()
    o = change(Bench(scene(one, ROLES, scene_id="a"), scene(np.roll(one, (4, 0), axis=(1, 2)), ROLES, scene_id="b")))
    assert o.evidence.validity["is_registered"] is False and o.evidence.validity["geometry_valid"] is False
    assert any("pixels apart" in line.message for line in o.status.log)


@pytest.mark.parametrize("shift", [(0, 4), (4, 0)])
def test_a_shift_in_metres_is_that_of_its_rows_and_columns_on_the_ellipsoid(shift: tuple[int, int]) -> None:
    # at 60 north a pixel of equal degrees is half as wide as high
    one = texture()
    placed: dict[str, Any] = {"crs": "EPSG:4326", "pixel": 1e-4, "origin": (10.0, 60.0)}
    b = Bench(scene(one, ROLES, scene_id="a", **placed),
              scene(np.roll(one, shift, axis=(1, 2)), ROLES, scene_id="b", **placed))
    o = change(b)
    lon, lat = 10 + 130e-4, 60 - 120e-4
    told = o.evidence.intermediate
    assert told["shift_px"] == pytest.approx(list(shift), abs=0.06)
    true = Geod(ellps="WGS84").inv(lon, lat, lon + told["shift_px"][1] * 1e-4, lat - told["shift_px"][0] * 1e-4)[2]
    assert told["shift_m"] == pytest.approx(true, rel=1e-6)
    look = CHECKS["geometry.shift_believable"].look
    assert look(Case(o, b.question, layers=b.layers)).outcome == "passed"
    old = float(told["shift_length_px"]) * (b.question.scenes[0].grid.gsd_m or 0)
    wrong = o.model_copy(update={"evidence": o.evidence.model_copy(update={"intermediate": {**told, "shift_m": old}})})
    assert look(Case(wrong, b.question, layers=b.layers)).outcome == "failed"


def test_index_change_with_a_given_threshold_is_the_difference_below_it() -> None:
    red, nir = texture(bands=1)[0], texture(bands=1)[0] + 60
    later = nir.copy()
    later[50:90, 50:90] -= 100
    later = np.maximum(later, 1)
    b = Bench(scene(np.stack([red, nir]), ["red", "nir"], scene_id="a"),
              scene(np.stack([red, later]), ["red", "nir"], scene_id="b"))
    o = change(b, index="ndvi", threshold=-0.2, side="below")
    mask, _ = b.layers.read_mask(o.result.layers[0])
    wanted = (later - red) / (later + red) - (nir - red) / (nir + red) < -0.2
    assert np.array_equal(mask, wanted) and o.configuration.fine == "change/ndvi_difference/given"


def test_another_grid_is_laid_on_the_first_and_no_overlap_is_refused() -> None:
    one = texture()
    other = scene(one[:, 20:220, 30:230], ROLES, scene_id="b", origin=(600300.0, 5599800.0))
    b = Bench(scene(one, ROLES, scene_id="a"), other)
    o = change(b)
    assert o.status.state == "ok", o.status.reason
    assert o.result.layers[0].n == 0 and o.evidence.intermediate["valid_px"] == 200 * 200
    o = change(Bench(scene(one, ROLES, scene_id="a"), scene(one, ROLES, scene_id="b", origin=(100000.0, 4600000.0))))
    assert o.status.state == "failed" and "do not overlap" in o.status.reason
    o = change(Bench(scene(one, ROLES, scene_id="a", crs=None), scene(one[:, :100], ROLES, scene_id="b", crs=None)))
    assert o.status.needs == {"crs": True, "code": "NEEDS_CRS"}


def test_grain_is_the_standard_deviation_of_noise() -> None:
    smooth = np.add.outer(np.arange(200.0), np.arange(200.0))
    assert grain(smooth + RNG.normal(0, 3, (200, 200)), np.ones((200, 200), dtype=bool)) == pytest.approx(3, rel=0.05)


@pytest.mark.shared_data
def test_landsat_pair_changes_by_the_known_area(shared_data: Path) -> None:
    roles = {"red": 3, "nir": 4}
    b = Bench(*(from_file(shared_data / f"change/landsat7_p15r32_{d}.tif", roles, scene_id=i, date=d)
                for i, d in (("a", "2002-07-20"), ("b", "2002-11-25"))))
    o = change(b, index="ndvi", threshold=-0.2, side="below")
    assert (o.result.layers[0].n or 0) * 900 / 1e6 == pytest.approx(50.7, abs=0.1)


# --- evidence --------------------------------------------------------------------------------------------------------------
def test_quality_figures_of_known_images() -> None:
    stored = np.zeros((3, 120, 120), dtype=np.uint8)
    stored[0] = np.clip(RNG.normal(100, 10, (120, 120)), 0, 255)
    stored[1] = 7
    stored[2] = np.where(RNG.random((120, 120)) < 0.05, 255, 90)
    o = Bench(scene(stored, ROLES)).call("perceive", {"image_paths": ["s"], "objective": "quality", "mode": "evidence"})
    assert o.status.state == "ok" and o.result.kind == "table" and whole(o)
    first, second, third = (dict(i) for i in o.result.items)
    assert first["noise"] == pytest.approx(10, rel=0.05)
    assert first["mean"] == pytest.approx(stored[0].mean()) and second["std"] == 0
    assert third["saturated_share"] == pytest.approx((stored[2] == 255).mean())
    flags = " ".join(str(f) for f in o.evidence.intermediate["flags"])
    assert "band 2 is constant" in flags and "band 3 is saturated" in flags and "band 1 is mostly noise" in flags


# --- measurement -----------------------------------------------------------------------------------------------------------
def landmarks(bench: Bench, *places: str) -> Any:
    return bench.call("perceive", {"image_paths": ["s"], "objective": "how far", "mode": "measurement",
                                   "landmarks": list(places)})


def test_two_landmarks_on_the_globe_and_on_a_picture() -> None:
    stored = np.ones((1, 100, 100), dtype=np.uint8)
    b = Bench(scene(stored, ["gray"], crs="EPSG:4326", pixel=0.01, origin=(10.0, 60.0)))
    o = landmarks(b, "px:0,0", "lonlat:10.5,59.5")
    assert o.result.value == pytest.approx(Geod(ellps="WGS84").inv(10, 60, 10.5, 59.5)[2], rel=1e-9)
    o = landmarks(Bench(scene(stored, ["gray"], crs=None, gsd_m=0.5)), "px:0,0", "px:30,40")
    assert o.result.value == 25.0 and o.result.interval == pytest.approx((25 - 0.5 * 2**0.5, 25 + 0.5 * 2**0.5))
    o = landmarks(Bench(scene(stored, ["gray"], crs=None)), "px:0,0", "px:30,40")
    assert o.status.needs == {"gsd_m": True, "code": "NEEDS_GSD", "abstained": True}


@pytest.mark.parametrize(("places", "part"), [
    (("px:0,0",), "exactly two"), (("the church", "px:1,1"), "no coordinate"), (("px:0,0", "px:500,1"), "outside"),
])
def test_landmarks_are_not_guessed(places: tuple[str, ...], part: str) -> None:
    o = landmarks(Bench(scene(np.ones((1, 100, 100), dtype=np.uint8), ["gray"])), *places)
    assert o.status.state == "failed" and part in o.status.reason


def test_points_boxes_and_clicks_are_landmarks() -> None:
    """A box stands for its middle, a click is as exact as the screen it was made on; values by pyproj's Geod."""
    stored = np.ones((1, 100, 100), dtype=np.uint8)
    b = Bench(scene(stored, ["gray"], crs="EPSG:32632", pixel=10.0, origin=(600000.0, 5600000.0)))
    to_degrees = Transformer.from_crs("EPSG:32632", "EPSG:4326", always_xy=True).transform
    one, other = to_degrees(600105.0, 5599805.0), to_degrees(600700.0, 5599400.0)
    azimuth, _, metres = Geod(ellps="WGS84").inv(*one, *other)
    call = {"image_paths": ["s"], "objective": "x", "mode": "measurement"}
    given = [{"name": "A", "point": list(one), "precision": 40.0},
             {"name": "B", "box": [60.0, 50.0, 80.0, 70.0], "crs": "image"}]  # fmt: skip
    o = b.call("perceive", {**call, "landmarks": given})
    assert o.result.value == pytest.approx(metres, abs=1e-4) and o.result.unit == "m"
    # 40 m of a click at one end, a pixel at the other; a pixel is as long as the ellipsoid has it
    pixel = metres / math.hypot(59.5, 40.5)
    off = math.hypot(40.0, pixel)
    assert o.result.interval == pytest.approx((metres - off, metres + off), rel=1e-6)
    assert o.configuration.fine == "measurement/distance/box+point"
    assert o.evidence.intermediate["landmarks_px"] == [pytest.approx([10.5, 19.5], abs=1e-4), [70.0, 60.0]]
    o = b.call("perceive", {**call, "landmarks": given, "landmarks_method": {"measure": "azimuth"}})
    assert (o.result.value, o.result.unit, o.result.kind) == (pytest.approx(azimuth % 360, abs=1e-5), "deg", "statistic")
    half = math.degrees(math.asin(off / metres))
    assert o.result.interval == pytest.approx((azimuth - half, azimuth + half), rel=1e-5)
    back = b.call("perceive", {**call, "landmarks": given[::-1], "landmarks_method": {"measure": "azimuth"}})
    assert back.result.value == pytest.approx((Geod(ellps="WGS84").inv(*other, *one)[0]) % 360, abs=1e-5)
    # a picture: pixels without a GSD, and no north
    picture = Bench(scene(stored, ["gray"], crs=None))
    px = {**call, "landmarks": ["px:0,0", {"name": "B", "box": [20, 30, 40, 50], "crs": "image", "precision": 2.5}]}
    o = picture.call("perceive", {**px, "landmarks_method": {"unit": "px"}})
    assert (o.result.value, o.result.unit) == (50.0, "px")
    assert o.result.interval == pytest.approx((50 - math.hypot(1, 2.5), 50 + math.hypot(1, 2.5)))
    assert picture.call("perceive", px).status.needs["code"] == "NEEDS_GSD"
    assert picture.call("perceive", {**px, "landmarks_method": {"measure": "azimuth"}}).status.needs["code"] == "NEEDS_CRS"


def test_landmarks_beyond_180_degrees_are_found() -> None:
    stored = np.ones((1, 100, 100), dtype=np.uint8)
    b = Bench(scene(stored, ["gray"], crs="EPSG:4326", pixel=0.01, origin=(179.5, 10.0)))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "measurement",
                            "landmarks": ["lonlat:179.9,9.5", "lonlat:-179.8,9.5"]})  # fmt: skip
    assert o.result.value == pytest.approx(Geod(ellps="WGS84").inv(179.9, 9.5, -179.8, 9.5)[2], rel=1e-9)


def found_boxes(b: Bench, *boxes: tuple[float, float, float, float]) -> Any:
    """What a detector would have recorded: these boxes, as planes."""
    features = [{"type": "Feature", "geometry": mapping(shapely.box(*at)), "properties": {"class": "plane", "score": 0.9}}
                for at in boxes]  # fmt: skip
    ref = b.layers.put_features(features, kind="boxes", crs="image", label="plane", scene_id="s")
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "measurement", "landmarks": ["px:0,0", "px:3,4"]})
    return o.model_copy(update={"id": "found", "result": o.result.model_copy(update={"layers": (ref,)})})


def test_what_a_detector_found_is_a_landmark_where_it_is_the_only_one() -> None:
    stored = np.ones((1, 100, 100), dtype=np.uint8)
    b = Bench(scene(stored, ["gray"], crs=None, gsd_m=0.5))

    def between(parent: Any, *landmarks: Any) -> Any:
        return b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "measurement", "landmarks": list(landmarks)},
                      parents=[parent])  # fmt: skip

    layer = {"observation": "found", "label": "plane"}
    pair = [{"name": "plane 1", "layer": layer, "index": 0}, {"name": "plane 2", "layer": layer, "index": 1}]
    two = found_boxes(b, (60, 50, 80, 70), (10, 10, 30, 30))
    o = between(two, *pair)
    assert o.result.value == pytest.approx(0.5 * math.hypot(50, 40))
    assert [p["px"] for p in o.evidence.intermediate["landmarks"]] == [[20.0, 20.0], [70.0, 60.0]]
    # the middle of a box of 20 pixels may lie two pixels off
    off = 0.5 * math.hypot(2, 2)
    assert o.result.interval == pytest.approx((o.result.value - off, o.result.value + off))
    for boxes in ((), ((0, 0, 9, 9),), ((0, 0, 9, 9), (20, 0, 29, 9), (40, 0, 49, 9))):
        o = between(found_boxes(b, *boxes), *pair)
        assert o.status.needs["code"] == "NEEDS_LANDMARKS" and f"found {len(boxes)} × plane" in o.status.reason
    o = between(two, "px:0,0", {"name": "the plane", "layer": layer})
    assert o.status.needs["code"] == "NEEDS_LANDMARKS" and "found 2 × plane, and 1 was meant" in o.status.reason


def test_a_bearing_is_unsure_by_the_longer_side_of_a_pixel() -> None:
    # at 60 north pixels of equal degrees are twice as high as wide: two places east of each other may lie a pixel's height off
    b = Bench(scene(np.ones((1, 100, 100), dtype=np.uint8), ["gray"], crs="EPSG:4326", pixel=1e-4, origin=(10.0, 60.0)))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "measurement", "landmarks": ["px:20,50", "px:80,50"],
                            "landmarks_method": {"measure": "azimuth"}})
    lat = 60 - 50e-4
    wide, high = GEOD.inv(10, lat, 10.006, lat)[2], GEOD.inv(10, lat - 5e-5, 10, lat + 5e-5)[2]
    assert o.result.value == pytest.approx(90, abs=0.01)
    half = math.degrees(math.asin(math.hypot(high, high) / wide))
    assert o.result.interval == pytest.approx((o.result.value - half, o.result.value + half), rel=1e-5)


def test_near_a_pole_north_turns_with_the_place() -> None:
    """Pixels of 1 km about the north pole. Every place that A may be at, a kilometre away at most, has its own north: bearings
    from there, by PROJ, lie in the interval; half a kilometre from the pole there is none."""
    place = (-200000.0, 150000.0)
    b = Bench(scene(np.ones((1, 300, 400), dtype=np.uint8), ["gray"], crs="EPSG:3995", pixel=1000.0, origin=place))
    call = {"image_paths": ["s"], "objective": "x", "mode": "measurement", "landmarks_method": {"measure": "azimuth"}}
    o = b.call("perceive", {**call, "landmarks": ["px:195,150", "px:195,250"]})
    (lon, lat), other = o.evidence.intermediate["landmarks_lonlat"]
    low, high = o.result.interval
    for direction in range(0, 360, 15):
        at = GEOD.fwd(lon, lat, direction, 1000)[:2]
        turned = (GEOD.inv(*at, *other)[0] - o.result.value + 180) % 360 - 180
        assert low <= o.result.value + turned <= high, direction
    assert 10 < (high - low) / 2 < 15
    o = b.call("perceive", {**call, "landmarks": ["px:200.5,150", "px:300,150"]})
    assert o.status.needs["code"] == "NEEDS_LANDMARKS" and "lies at a pole" in o.status.reason


@pytest.mark.parametrize(("places", "code", "part"), [
    (("px:5,5", "px:5,5"), "BAD_ARGUMENT", "one and the same place"),
    (("px:5,5", "px:5.5,5.5"), "NEEDS_LANDMARKS", "closer together"),
])
def test_a_bearing_needs_two_places_apart(places: tuple[str, ...], code: str, part: str) -> None:
    b = Bench(scene(np.ones((1, 100, 100), dtype=np.uint8), ["gray"]))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "measurement", "landmarks": list(places),
                            "landmarks_method": {"measure": "azimuth"}})  # fmt: skip
    assert o.status.state == "failed" and part in o.status.reason and o.status.needs.get("code", code) == code


# --- prompts ---------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("prompt", [{"points": [[70, 60, 1]]}, {"box": [45, 35, 95, 85]}, {"points": [[70, 60, 1], [10, 10, 0]]}])
def test_a_prompt_grows_to_the_disc_it_points_at(prompt: dict[str, Any]) -> None:
    rows, cols = np.mgrid[:120, :140]
    disc = (rows - 60) ** 2 + (cols - 70) ** 2 <= 20**2
    image = np.where(disc, 180.0, 80.0) + RNG.normal(0, 6, disc.shape)
    b = Bench(scene(image[None], ["gray"]))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "pond", "mode": "regions", "target_groups": {"pond": []},
                            "regions_method": {"kind": "prompt", **prompt}})
    assert o.status.state == "ok", o.status.reason
    mask, _ = b.layers.read_mask(o.result.layers[0])
    assert 2 * (mask & disc).sum() / (mask.sum() + disc.sum()) > 0.97
    assert o.configuration.fine == "regions/pond/prompt" and whole(o)


def test_a_prompt_outside_the_image_is_refused() -> None:
    o = Bench(scene(np.ones((1, 20, 20)), ["gray"])).call(
        "perceive", {"image_paths": ["s"], "objective": "x", "mode": "regions", "target_groups": {"x": []},
                     "regions_method": {"kind": "prompt", "points": [[99, 3, 1]]}})
    assert o.status.state == "failed" and "outside" in o.status.reason
