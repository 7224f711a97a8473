"""perceive, mode objects: classical methods against known truth, what is refused, and with torch the shipped detector."""

from __future__ import annotations

import csv
import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.core.evidence.observation import REQUIRED_EVIDENCE
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.tools.scoring import hits

SAMPLES = Path(__file__).resolve().parents[3] / "apps/imagery/samples"
RGB = {"red": 1, "green": 2, "blue": 3}


def objects(b: Bench, *words: str, region: dict[str, Any] | None = None, **method: Any) -> Any:
    arguments: dict[str, Any] = {"image_paths": ["s"], "objective": words[0], "mode": "objects",
                                 "target_groups": {words[0]: list(words)}}
    if method:
        arguments["objects_method"] = method
    if region is not None:
        arguments |= {"region": region, "region_crs": "image"}
    return b.call("perceive", arguments)


def features_of(b: Bench, o: Any, label: str) -> list[dict[str, Any]]:
    return b.layers.read_features(next(r for r in o.result.layers if r.label == label))


def assert_evidence_is_whole(o: Any) -> None:
    for part, keys in REQUIRED_EVIDENCE["perceive"].items():
        found = getattr(o.evidence, part)
        for key in keys:
            assert any(k in found for k in ((key,) if isinstance(key, str) else key)), (part, key)


def grey_scene(pixel: float, side: int = 200) -> Bench:
    rng = np.random.default_rng(1)
    return Bench(scene(rng.integers(60, 90, (3, side, side)).astype(np.uint8), ["red", "green", "blue"], pixel=pixel))


# --- what is refused --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("words, pixel, code, part", [
    (("helicopter",), 0.2, "MODEL_MISSING", "models add FILE"),
    (("truck",), 0.2, "MODEL_MISSING", "other kinds of vehicle"),
    (("vehicle",), 10.0, "MODEL_MISSING", "sharper picture"),
    (("tree",), 10.0, "MODEL_MISSING", "0.05 to 0.3 m"),
    # coarser than the card says, though a bus would still be long enough to see
    (("vehicle",), 0.5, "MODEL_MISSING", "0.05 to 0.35 m"),
    (("plane",), 2.0, "MODEL_MISSING", "0.3 to 1.2 m"),
    (("ship",), 4.0, "MODEL_MISSING", "0.3 to 3 m"),
])
def test_it_says_why_it_cannot_look(words: tuple[str, ...], pixel: float, code: str, part: str) -> None:
    o = objects(grey_scene(pixel), *words)
    assert o.status.state == "failed" and o.result.value is None and not o.result.layers
    assert part in o.status.reason, o.status.reason
    assert o.status.needs


def test_bands_without_roles_are_never_guessed() -> None:
    b = Bench(scene(np.zeros((3, 50, 50), np.uint8) + 80, ["unknown"] * 3, pixel=0.1))
    o = objects(b, "tree")
    assert o.status.state == "failed" and "does not say which bands" in o.status.reason


def test_planes_on_a_picture_of_unknown_scale_are_not_counted() -> None:
    b = Bench(scene(np.full((3, 80, 80), 90, np.uint8), ["red", "green", "blue"], crs=None))
    o = objects(b, "plane", "airplane")
    assert o.status.state == "failed" and o.result.value is None
    assert "metres a pixel" in o.status.reason and o.status.needs["gsd_m"] is True


def test_a_model_for_something_else_is_not_asked_for_objects() -> None:
    o = objects(grey_scene(0.2), "beach", detector="place21")
    assert o.status.state == "failed" and "finds no objects" in o.status.reason


def test_objects_without_a_target_are_a_wrong_call() -> None:
    o = grey_scene(0.2).call("perceive", {"image_paths": ["s"], "objective": "things", "mode": "objects"})
    assert o.status.state == "failed" and "target_groups" in o.status.reason


# --- ships in SAR ---------------------------------------------------------------------------------------------------------
def harbour(*, with_land: bool = True) -> tuple[Bench, list[tuple[int, int, int, int]]]:
    """Speckled sea at 10 m with ships of 60 to 200 m, and land with bright buildings in the west."""
    rng = np.random.default_rng(4)
    power = rng.gamma(4, 0.01 / 4, (500, 600))
    if with_land:
        power[:, :150] = rng.gamma(4, 0.15 / 4, (500, 150))
        power[200:203, 40:44] = 30
    ships = [(250, 60, 256, 62), (300, 150, 303, 168), (420, 240, 440, 244), (520, 400, 526, 406), (330, 420, 345, 423)]
    for x0, y0, x1, y1 in ships:
        power[y0:y1, x0:x1] = rng.uniform(1.5, 6, (y1 - y0, x1 - x0))
    db = 10 * np.log10(power)
    return Bench(scene(db[None].astype(np.float32), ["vv"], pixel=10.0, unit="dB")), ships


def test_every_ship_at_sea_is_found_and_nothing_on_land() -> None:
    b, ships = harbour()
    o = objects(b, "ship", "boat", "vessel")
    assert o.status.state == "ok", o.status.reason
    found = [f["properties"]["box"] for f in features_of(b, o, "ship")]
    assert len(found) == len(ships)
    for x0, y0, x1, y1 in ships:
        assert any(abs((a + c) / 2 - (x0 + x1) / 2) < 3 and abs((u + v) / 2 - (y0 + y1) / 2) < 3 for a, u, c, v in found)
    assert o.configuration.fine == "objects/sar-ship-cfar"
    assert_evidence_is_whole(o)
    method: Any = o.evidence.source["method"]
    assert method[0]["settings"]["false_alarm"] == 1e-6
    classes: Any = o.evidence.validity["classes"]
    assert classes[0]["experimental"] is True


def test_open_sea_without_ships_is_an_empty_finding() -> None:
    rng = np.random.default_rng(8)
    b = Bench(scene((10 * np.log10(rng.gamma(4, 0.0025, (1, 400, 400)))).astype(np.float32), ["vv"], pixel=10.0, unit="dB"))
    o = objects(b, "ship")
    assert o.status.state == "ok" and o.result.layers[0].n == 0
    counts: Any = o.evidence.intermediate["counts"]
    assert counts["ship"]["kept"] == 0 and counts["ship"]["low"] == 0
    assert counts["ship"]["calibrated"] is False and counts["ship"]["high"] >= 1       # nothing found is no proof of none


def sea(looks: float, *ships: tuple[int, int, int, int, float]) -> Bench:
    """Sea of -20 dB in VV with so many looks, and ships (row, column, length, width in pixels of 10 m, dB)."""
    rng = np.random.default_rng(3)
    power = 0.01 * rng.gamma(looks, 1 / looks, (600, 800))
    for r, c, length, width, db in ships:
        at = power[r:r + width, c:c + length]
        at[:] = 10 ** (db / 10) * rng.gamma(4.4, 1 / 4.4, at.shape)
    return Bench(scene((10 * np.log10(power))[None].astype(np.float32), ["vv"], pixel=10.0, unit="dB"))


def test_ships_on_the_rim_of_the_picture_are_found_whole() -> None:
    ships = [(100, 0, 12, 4, 0.0), (598, 300, 12, 2, 3.0), (200, 798, 2, 6, 3.0), (0, 0, 10, 3, 0.0), (0, 400, 12, 1, 4.0)]
    b = sea(4.4, *ships)
    found = sorted(f["properties"]["box"] for f in features_of(b, objects(b, "ship"), "ship"))
    assert found == sorted([float(c), float(r), float(c + n), float(r + w)] for r, c, n, w, _ in ships)


def test_speckle_of_one_look_is_refused_where_ships_fall_to_pieces() -> None:
    """Deviation of speckle in dB is 4.343 √ψ′(looks): 5.57 of one, 3.49 of two. Of four ships one was told, as two."""
    from scipy.special import polygamma

    ships = [(100, 100, 12, 4, 0.0), (300, 400, 20, 5, 3.0), (450, 700, 8, 3, -3.0), (50, 600, 15, 4, 0.0)]
    o = objects(sea(1, *ships), "ship")
    assert o.status.state == "failed" and "single look" in o.status.reason and "several looks" in o.status.reason
    o = objects(sea(2, *ships), "ship")
    filters: Any = o.evidence.intermediate["filters"]
    assert o.evidence.intermediate["kept"] == 4
    assert filters[0]["speckle_db"] == pytest.approx(4.343 * math.sqrt(polygamma(1, 2)), abs=0.1)


def test_pictures_without_tanks_get_no_circle_and_no_certain_zero(shared_data: Path) -> None:
    kept = []
    for name in ("buildings", "parkinglot", "baseballdiamond"):
        info, stored = from_file(shared_data / f"training/scene/ucmerced/test/{name}/{name}85.jpg", RGB)
        o = objects(Bench((info.model_copy(update={"gsd_m": 0.3}), stored)), "storage tank")
        counts: Any = o.evidence.intermediate["counts"]
        kept.append(counts["storage tank"]["kept"])
        assert counts["storage tank"]["high"] >= 10
    assert kept == [0, 0, 0]


@pytest.mark.parametrize(("word", "pixel"), [("storage tank", 1.0), ("tree", 0.1)])
@pytest.mark.parametrize("spread", [1, 40])
def test_shapes_in_noise_are_no_things(word: str, pixel: float, spread: int) -> None:
    noise = 128 + spread * np.random.default_rng(0).standard_normal((3, 200, 200))
    o = objects(Bench(scene(noise.clip(0, 255).astype(np.uint8), ["red", "green", "blue"], pixel=pixel)), word)
    assert o.status.state == "failed" and "noise" in o.status.reason, (o.status.reason, o.result.items)


# --- storage tanks ----------------------------------------------------------------------------------------------------------
def test_discs_are_found_with_their_radius_and_squares_are_not() -> None:
    rng = np.random.default_rng(6)
    y, x = np.mgrid[:300, :300]
    grey = np.full((300, 300), 90.0)
    discs = [(60, 60, 20), (150, 70, 25), (230, 200, 30), (80, 220, 14)]
    for cx, cy, r in discs:
        grey[(x - cx) ** 2 + (y - cy) ** 2 <= r * r] = 220
    grey[120:170, 120:170] = 220
    picture = (grey + rng.normal(0, 3, grey.shape)).clip(0, 255).astype(np.uint8)
    b = Bench(scene(np.repeat(picture[None], 3, 0), ["red", "green", "blue"], pixel=0.6))
    o = objects(b, "storage tank", "tank")
    boxes = [f["properties"]["box"] for f in features_of(b, o, "storage tank")]
    assert len(boxes) == len(discs), boxes
    for cx, cy, r in discs:
        near = min(boxes, key=lambda q: math.hypot((q[0] + q[2]) / 2 - cx, (q[1] + q[3]) / 2 - cy))
        assert math.hypot((near[0] + near[2]) / 2 - cx, (near[1] + near[3]) / 2 - cy) < 2.5
        assert abs((near[2] - near[0]) / 2 - r) <= 2.5


@pytest.mark.parametrize("discs", [[(200, 200, 25), (251, 200, 25)], [(250, 250, 16)], [(512, 512, 25), (200, 470, 20)]])
def test_the_noise_of_quiet_ground_is_no_tank(discs: list[tuple[int, int, int]]) -> None:
    """Where tanks fill less than a hundredth of a window, its noise alone made up its span of brightness: 220 circles were told
    of two tanks, and 393 of one."""
    side = 2 * max(d[0] for d in discs)
    y, x = np.mgrid[:side, :side]
    grey = np.full((side, side), 90.0)
    for cx, cy, r in discs:
        grey[(x - cx) ** 2 + (y - cy) ** 2 <= r * r] = 210
    picture = (grey + np.random.default_rng(4).normal(0, 4, grey.shape)).clip(0, 255).astype(np.uint8)
    b = Bench(scene(np.repeat(picture[None], 3, 0), ["red", "green", "blue"], pixel=1.0))
    found = [f["properties"]["box"] for f in features_of(b, objects(b, "tank"), "tank")]
    at = sorted((round((q[0] + q[2]) / 2), round((q[1] + q[3]) / 2)) for q in found)
    assert len(at) == len(discs)
    assert all(math.dist(p, d[:2]) < 2.5 for p, d in zip(at, sorted(discs), strict=True))


# --- trees ------------------------------------------------------------------------------------------------------------------
def test_trees_of_a_real_forest_are_counted_near_the_labels(shared_data: Path) -> None:
    b = Bench(from_file(shared_data / "trees/OSBS_029.tif", RGB))
    o = objects(b, "tree", "tree crown")
    assert o.status.state == "ok", o.status.reason
    rows = list(csv.DictReader((shared_data / "trees/OSBS_029.csv").open()))
    truth = np.array([[float(r[k]) for k in ("xmin", "ymin", "xmax", "ymax")] for r in rows])
    found = np.array([f["properties"]["box"] for f in features_of(b, o, "tree")])
    from apps.tools.zoo.training.evaluate import matched

    hit = matched(found, np.arange(len(found), 0, -1), truth, iou=0.4)
    assert 45 <= len(found) <= 75           # 61 are labelled
    assert hit.mean() >= 0.55 and hit.sum() / len(truth) >= 0.55
    item = o.result.items[0]
    assert item["low"] <= len(truth) <= item["high"]


def test_a_region_keeps_only_the_trees_whose_centre_lies_inside() -> None:
    source = from_file(SAMPLES / "OSBS_029.tif", RGB)
    b = Bench(source)
    ring = {"type": "Polygon", "coordinates": [[[0, 0], [200, 0], [200, 400], [0, 400], [0, 0]]]}
    whole = features_of(b, objects(b, "tree"), "tree")
    part = features_of(b, objects(b, "tree", region=ring), "tree")
    west = [f for f in whole if (f["properties"]["box"][0] + f["properties"]["box"][2]) / 2 < 200]
    assert 0 < len(part) < len(whole) and abs(len(part) - len(west)) <= 1


def test_a_margin_without_data_grows_no_crowns() -> None:
    """On sand that is alike everywhere a strip of 2 m beside the margin holds as many shapes as any other. The step of brightness
    to what has no data made 7 of them where 2 are due."""
    from scipy import ndimage

    rough = ndimage.gaussian_filter(np.random.default_rng(0).normal(0, 1, (3, 400, 400)), (0, 6, 6))
    sand = (np.array([190, 180, 150])[:, None, None] + 8 * rough / rough.std()).clip(1, 255).astype(np.uint8)

    def middles(stored: Any) -> np.ndarray[Any, Any]:
        b = Bench(scene(stored, ["red", "green", "blue"], pixel=0.1, nodata=0.0))
        return np.array([(f["properties"]["box"][0] + f["properties"]["box"][2]) / 2
                         for f in features_of(b, objects(b, "tree"), "tree")])

    whole = middles(sand)
    sand[:, :, 200:] = 0
    half = middles(sand)
    due = len(whole) * 20 / 400
    assert (half > 180).sum() <= due + 2 * math.sqrt(due) and len(half) <= (whole < 200).sum() + 2


# --- the shipped detector -----------------------------------------------------------------------------------------------------
STREET = SAMPLES / "riotiler_hro_colorado_26913.tif"


@pytest.mark.ml
def test_tiles_that_cut_long_objects_are_told() -> None:
    """A vehicle of up to 19 m is 183 pixels at the model's 0.104 m; tiles of 128 have 64 in common. The model's own tiles
    cut none."""
    b = Bench(from_file(STREET, RGB))
    for tile, is_told in ((128, True), (None, False)):
        o = objects(b, "vehicle", tile_px=tile)
        passes: Any = o.evidence.intermediate["passes"]
        problems: Any = o.evidence.validity["applicability"]
        assert passes[0]["longest_px"] == round(19.0 / 0.104)
        assert any("183 pixels long and tiles have 64" in p for p in problems["problems"]) is is_told is not problems["ok"]


@pytest.mark.ml
def test_vehicles_of_a_street_have_boxes_scores_and_a_calibrated_interval() -> None:
    b = Bench(from_file(STREET, RGB))
    o = objects(b, "vehicle", "vehicle", "car", "truck")
    assert o.status.state == "ok", o.status.reason
    assert_evidence_is_whole(o)
    found = features_of(b, o, "vehicle")
    assert 1 <= len(found) <= 20
    weights: Any = o.evidence.source["weights"]
    assert weights[0]["name"] == "nadir3" and weights[0]["digest"].startswith("sha256:") and "AGPL" in weights[0]["licence"]
    i: Any = o.evidence.intermediate
    assert i["kept"] == len(found) == o.result.layers[0].n
    assert i["candidates"] == len(found) + o.result.layers[1].n
    assert o.result.layers[1].label == "candidates"
    assert o.result.interval is not None and o.result.interval[0] <= len(found) <= o.result.interval[1]
    assert i["counts"]["vehicle"]["calibrated"] is True
    chain = i["passes"][0]["filters"]
    assert all(a["after"] == b_["before"] for a, b_ in itertools.pairwise(chain))
    assert chain[-1]["after"] == i["candidates"]
    assert i["passes"][0]["zoom"] == pytest.approx(0.1498 / 0.104, rel=0.01)
    v: Any = o.evidence.validity
    assert v["class_complete"] and v["class_exact"] and v["in_gsd_range"] and v["applicability"] == {"ok": True, "problems": []}
    assert min(i["scores"]) >= 0.25 and all(f["properties"]["score"] < 0.25 for f in features_of(b, o, "candidates"))


@pytest.mark.ml
def test_cars_are_served_as_vehicles_and_the_evidence_says_so() -> None:
    o = objects(Bench(from_file(STREET, RGB)), "car", "car")
    assert o.status.state == "ok" and o.evidence.validity["class_exact"] is False
    assert any("all of them are counted" in line.message for line in o.status.log)


@pytest.mark.ml
def test_a_target_without_model_leaves_the_observation_partial() -> None:
    b = Bench(from_file(STREET, RGB))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "both", "mode": "objects",
                            "target_groups": {"vehicle": ["vehicle"], "helicopter": ["helicopter"]}})
    assert o.status.state == "partial" and "helicopter" in o.status.reason
    assert o.evidence.validity["class_complete"] is False and o.evidence.validity["layer_status"] == "partial"


@pytest.mark.ml
def test_tiles_of_any_size_give_nearly_the_same_boxes() -> None:
    b = Bench(from_file(STREET, RGB))
    whole = features_of(b, objects(b, "vehicle", tile_px=1024), "vehicle")
    cut = features_of(b, objects(b, "vehicle", tile_px=256, overlap=0.4), "vehicle")
    assert abs(len(whole) - len(cut)) <= max(2, len(whole) // 3)
    corners = [f["properties"]["box"] for f in cut]
    centres = [((x0 + x1) / 2, (y0 + y1) / 2) for x0, y0, x1, y1 in corners]
    assert all(math.hypot(a[0] - c[0], a[1] - c[1]) > 6 for k, a in enumerate(centres) for c in centres[:k])


@pytest.mark.ml
def test_pixels_without_data_hold_no_vehicle() -> None:
    info, stored = from_file(STREET, RGB, nodata=0)
    stored = stored.copy()
    stored[:, :, :200] = 0
    b = Bench((info, stored))
    for f in features_of(b, objects(b, "vehicle"), "vehicle"):
        x0, _, x1, _ = f["properties"]["box"]
        assert (x0 + x1) / 2 >= 199


@pytest.mark.ml
def test_trucks_of_an_outside_picture_are_found_without_tuning(shared_data: Path) -> None:
    b = Bench(from_file(shared_data / "objects/dota_P1888_trucks.png", RGB))
    o = objects(b, "vehicle", "vehicle", "car", "truck")
    found = features_of(b, o, "vehicle")
    corners = [line.split()[:8] for line in (shared_data / "objects/dota_P1888_trucks.labelTxt").read_text().splitlines()
               if len(line.split()) >= 9]
    truth = [(min(x), min(y), max(x), max(y)) for x, y in (([*map(float, c[::2])], [*map(float, c[1::2])]) for c in corners)]
    right = sum(ok for _, ok in hits([(f["properties"]["score"], tuple(f["properties"]["box"])) for f in found], truth, 0.5))
    assert o.evidence.validity["gsd_known"] is False and o.evidence.intermediate["passes"][0]["zoom_scan"]  # type: ignore[index]
    assert len(truth) == 64
    assert 62 <= right <= 64 and 76 <= len(found) <= 80         # 63 and 78
    item = o.result.items[0]
    assert item["low"] <= len(found) <= item["high"]
