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
def test_one_window_in_two_does_not_name_the_whole(shared_data: Path) -> None:
    """Trucks in a lot: half of the picture is like no kind, the other half looks like loose housing at 81 %."""
    info, stored = from_file(shared_data / "objects/dota_P1888_trucks.png", RGB)
    b = Bench((info.model_copy(update={"gsd_m": 0.2}), stored))
    o = classify(b)
    assert o.evidence.intermediate["windows_out_of_scope"] == 1 and o.evidence.intermediate["windows"] == 2
    first = o.result.items[0]
    assert first["class"] == "sparseresidential" and 0.5 < float(str(first["p"])) < 1
    # over both windows it is half of that: less than the half that a name asks for
    assert o.status.state == "partial" and o.result.value is None and "1 of them like none of its kinds" in o.status.reason


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


# --- Sentinel-2 at 10 m ----------------------------------------------------------------------------------------------------
def sentinel(shared_data: Path, path: str, roles: dict[str, int], **more: Any) -> Bench:
    """A Sentinel-2 scene whose numbers are reflectance times 10,000."""
    info, stored = from_file(shared_data / path, roles)
    bands = tuple(b.model_copy(update={"unit": "reflectance", "scale": 1e-4}) for b in info.bands)
    return Bench((info.model_copy(update={"sensor": "Sentinel-2 MSI", "bands": bands, **more}), stored))


def test_the_model_is_chosen_by_gsd_and_sensor() -> None:
    aerial, coarse = noise(0.3).question.scenes[0], noise(10.0).question.scenes[0]
    assert choose_model([], aerial).name == "place21" and choose_model([], coarse).name == "cover10"
    assert choose_model([], coarse.model_copy(update={"sensor": "Sentinel-2 MSI"})).name == "cover10"
    # a pixel of UTM is seldom round on the ground: this one is told as 0.15 m
    assert choose_model([], aerial.model_copy(update={"gsd_m": 0.149907})).name == "place21"
    with pytest.raises(ToolAbstainedError, match=r"made for 0\.14 m"):
        choose_model([], aerial.model_copy(update={"gsd_m": 0.14}))
    with pytest.raises(ToolAbstainedError, match=r"made for 3 m a pixel \(place21: 0.15 to 0.6 m, .*cover10: 8 to 12.5 m"):
        choose_model([], coarse.model_copy(update={"gsd_m": 3.0}))
    with pytest.raises(ToolAbstainedError, match="made for Landsat 8 OLI at 10 m"):
        choose_model([], coarse.model_copy(update={"sensor": "Landsat 8 OLI"}))
    nowhere = coarse.model_copy(update={"gsd_m": None, "grid": coarse.grid.model_copy(update={"crs": None})})
    with pytest.raises(ToolAbstainedError, match="Say the GSD") as none:
        choose_model([], nowhere)
    assert none.value.code == "NEEDS_GSD"
    with pytest.raises(ToolAbstainedError, match="no scene classifier"):
        choose_model([], coarse, "nadir3")


@pytest.mark.ml
def test_noise_at_ten_metres_gets_no_class_and_the_unknown_sensor_is_said() -> None:
    o = classify(noise(10.0, side=200))
    assert o.status.state == "partial" and o.result.value is None and "cover10" in o.status.reason
    assert o.evidence.validity["in_scope"] is False and o.evidence.validity["sensor_suits"] is None
    assert o.evidence.intermediate["windows_out_of_scope"] == o.evidence.intermediate["windows"] == 9


@pytest.mark.ml
def test_aerial_pictures_called_sentinel_are_mostly_out_of_scope(shared_data: Path) -> None:
    outside = []
    for name in CLASSES:
        info, stored = from_file(shared_data / f"training/scene/ucmerced/test/{name}/{name}85.jpg", RGB)
        o = classify(Bench((info.model_copy(update={"gsd_m": 10.0, "sensor": "Sentinel-2 MSI"}), stored)))
        outside.append(int(str(o.evidence.intermediate["windows_out_of_scope"])) / int(str(o.evidence.intermediate["windows"])))
    assert sum(outside) / len(outside) > 0.6


@pytest.mark.ml
def test_a_sentinel_scene_is_shown_as_the_model_knows_it_and_tells_its_shares(shared_data: Path) -> None:
    b = sentinel(shared_data, "water_flood/Spain_7370579_S2Hand.tif", {"blue": 2, "green": 3, "red": 4}, gsd_m=10.0)
    o = classify(b)
    assert o.evidence.source["stretch"] == {"kind": "reflectance, as in the model's training pictures", "low": 0.0, "high": 0.275}
    i: Any = o.evidence.intermediate
    # its pixels, in degrees, are 7.9 by 10 m: the look is on square ones
    assert (i["windows"], i["windows_possible"], i["window_m"]) == (63, 63, 640.0)
    assert i["looked_at"]["factor"] == [1.0, pytest.approx(10.0 / 7.9, abs=0.02)] and i["window_px"] == [72.0, 56.89]
    assert sum(float(str(x["p"])) for x in o.result.items) == pytest.approx(1.0, abs=0.01)
    told = sum(int(str(x["windows"])) for x in o.result.items)
    assert told == 63 - int(str(i["windows_out_of_scope"])) and 0 < float(str(i["spread"])) < 1
    # irrigated orchards and fields after a flood; what the flood made is like nothing the model learnt, so that four fifths of
    # the rest are no half of the scene
    first = o.result.items[0]
    assert first["class"] == "PermanentCrop" and float(str(first["p"])) > 0.75 and int(str(i["windows_out_of_scope"])) > 10
    assert o.result.value is None and "PermanentCrop 48%" in o.status.reason
    assert any("were left out" in line.message for line in o.status.log)
    features = b.layers.read_features(o.result.layers[0])
    assert len(features) == 63 and {f["properties"]["class"] for f in features} >= {"PermanentCrop", "out of scope"}


@pytest.mark.ml
def test_labels_of_everyday_words_are_sums_of_classes(shared_data: Path) -> None:
    b = sentinel(shared_data, "water_flood/Spain_7370579_S2Hand.tif", {"blue": 2, "green": 3, "red": 4}, gsd_m=10.0)
    o = classify(b, "farmland", "city", "forest")
    assert o.result.items[0]["class"] == "farmland" and "farmland 49%" in o.status.reason


# --- oblong pixels ---------------------------------------------------------------------------------------------------------
def oblong(picture: tuple[Any, Any], pixel: tuple[float, float], by: tuple[int, int]) -> Bench:
    """A picture with ``by`` pixels (along a row, along a column) averaged into one: each is oblong on the ground."""
    info, stored = picture
    n, rows, columns = stored.shape
    bx, by_ = by
    rows, columns = rows // by_ * by_, columns // bx * bx
    small = stored[:, :rows, :columns].reshape(n, rows // by_, by_, columns // bx, bx).mean(axis=(2, 4))
    small = small.round().astype(stored.dtype)
    grid = info.grid.model_copy(update={"crs": "EPSG:32630", "width": small.shape[2], "height": small.shape[1],
                                        "transform": (pixel[0] * bx, 0.0, 600000.0, 0.0, -pixel[1] * by_, 5600000.0)})
    return Bench((info.model_copy(update={"grid": grid}), small))


@pytest.mark.ml
def test_the_kind_of_place_is_the_same_on_oblong_pixels(shared_data: Path) -> None:
    """Real pictures of 0.3 m whose columns, or rows, were averaged by two: the same places, half as many pixels one way."""
    names = ("harbor", "parkinglot", "storagetanks", "baseballdiamond", "intersection", "tenniscourt", "mobilehomepark", "runway")
    same = {(1, 1): 0, (2, 1): 0, (1, 2): 0}
    for name in names:
        picture = from_file(shared_data / f"training/scene/ucmerced/test/{name}/{name}85.jpg", RGB)
        for by in same:
            o = classify(oblong(picture, (0.3, 0.3), by))
            same[by] += o.result.items[0]["class"] == name
            i: Any = o.evidence.intermediate
            assert (i["windows"], i["window_m"]) == (1, pytest.approx(76.8, abs=1.0)), (name, by)
            assert i["window_px"] == [pytest.approx(256 / by[0], abs=1), pytest.approx(256 / by[1], abs=1)]
            assert (i["looked_at"]["pixels"] == "as they are") is (by == (1, 1))
            assert any("not square on the ground" in line.message for line in o.status.log) is (by != (1, 1))
    assert same[1, 1] == len(names) and min(same.values()) >= len(names) - 1


@pytest.mark.ml
def test_windows_of_an_oblong_scene_lie_where_they_lie_on_the_ground(shared_data: Path) -> None:
    b = sentinel(shared_data, "water_flood/Spain_7370579_S2Hand.tif", {"blue": 2, "green": 3, "red": 4})
    info, stored = b.question.scenes[0], b.stored["s"][:, :510]
    square = info.grid.model_copy(update={"crs": "EPSG:32630", "height": 510, "transform": (10.0, 0.0, 6e5, 0.0, -10.0, 4.2e6)})
    whole = Bench((info.model_copy(update={"grid": square}), stored))
    flat = oblong((info, np.repeat(stored, 2, axis=1)), (10.0, 5.0), (1, 3))       # 10 by 15 m
    one, other = classify(whole), classify(flat)
    assert one.evidence.intermediate["windows"] == other.evidence.intermediate["windows"] == 64
    first, second = (x.layers.read_features(o.result.layers[0]) for x, o in ((whole, one), (flat, other)))
    for f, g in zip(first, second, strict=True):
        at, half = np.array(f["geometry"]["coordinates"][0]), np.array(g["geometry"]["coordinates"][0])
        assert np.abs(half * (1, 1.5) - at).max() < 2
    alike = np.mean([f["properties"]["class"] == g["properties"]["class"] for f, g in zip(first, second, strict=True)])
    assert alike > 0.7 and one.result.items[0]["class"] == other.result.items[0]["class"]


@pytest.mark.ml
def test_pixels_six_times_as_long_as_wide_show_no_place(shared_data: Path) -> None:
    picture = from_file(shared_data / "training/scene/ucmerced/test/harbor/harbor85.jpg", RGB)
    o = classify(oblong(picture, (0.15, 0.15), (1, 6)), "harbor", "forest")
    assert o.status.state == "failed" and o.result.value is None and "times as long as wide" in o.status.reason
