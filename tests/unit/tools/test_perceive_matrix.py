"""Every kind of wrong input over every mode of perceive: each gives the right value or says clearly why there is none. Nothing
fails inside, and nothing certain is said of what could not be seen."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.core.geo.scene import SceneInfo
from tests.unit.tools.rasters import Bench, scene

H, W = 96, 128
_Y, _X = np.mgrid[:H, :W]
DISC = (_Y - 48) ** 2 + (_X - 64) ** 2 < 20**2
N_DISC = int(DISC.sum())
ROLES = ["blue", "green", "red", "nir"]
Made = tuple[SceneInfo, NDArray[Any]]


def planes() -> NDArray[np.float64]:
    """Water in a disc on green land, with noise of 3."""
    rng = np.random.default_rng(1)
    values = ((110, 50), (120, 60), (50, 90), (30, 150))
    return np.stack([np.where(DISC, a, b) + rng.normal(0, 3, (H, W)) for a, b in values]).clip(1, 255)


P = planes()
U = P.astype(np.uint8)


def made(stored: NDArray[Any], roles: list[str] | None = None, **more: Any) -> Callable[[float], Made]:
    return lambda pixel: scene(stored, roles or ROLES, pixel=pixel, **more)


def on_grid(transform: Callable[[float], tuple[float, float, float, float, float, float]] | None) -> Callable[[float], Made]:
    def make(pixel: float) -> Made:
        info, stored = scene(U, ROLES, pixel=pixel)
        grid = Grid(width=W, height=H) if transform is None else Grid(crs="EPSG:32630", transform=transform(pixel), width=W,
                                                                     height=H)
        return info.model_copy(update={"grid": grid}), stored
    return make


def degrees(pixel: float) -> Made:
    return scene(U, ROLES, crs="EPSG:4326", pixel=pixel * 9e-6, origin=(10, 60))


def with_(value: float, columns: int) -> NDArray[np.float32]:
    out = P.astype(np.float32)
    out[:, :, :columns] = value
    return out


_T = math.radians(30)
COMPLEX = (P * np.exp(1j * np.random.default_rng(3).uniform(0, 6, P.shape))).astype(np.complex64)
SCENES: dict[str, Callable[[float], Made]] = {
    "right": made(U), "missing band": made(U[:1], ["blue"]), "unknown roles": made(U, ["unknown"] * 4),
    "twice the same role": made(U, ["blue", "green", "green", "nir"]), "degrees": degrees, "no CRS": on_grid(None),
    "rotated": on_grid(lambda p: (p * math.cos(_T), p * math.sin(_T), 6e5, p * math.sin(_T), -p * math.cos(_T), 5.6e6)),
    "south up": on_grid(lambda p: (p, 0.0, 6e5, 0.0, p, 5.6e6)), "NaN": made(with_(np.nan, 20)),
    "infinite": made(with_(np.inf, 20)), "all NaN": made(np.full((4, H, W), np.nan, np.float32)),
    "all masked": made(np.zeros((4, H, W), np.uint8), nodata=0.0), "one pixel": made(U[:, :1, :1]), "2 x 2": made(U[:, :2, :2]),
    "one row": made(U[:, :1]), "constant": made(np.full((4, H, W), 77, np.uint8)),
    "1-bit": made(DISC[None].astype(np.uint8), ["gray"]), "palette": made(DISC[None].astype(np.uint8) * 3, ["class"]),
    "complex": made(COMPLEX), "alpha": made(np.concatenate([U[:3], DISC[None].astype(np.uint8) * 255]), [*ROLES[:3], "alpha"]),
    "uint16": made((P * 100).astype(np.uint16)), "int16": made((P * 10 - 1500).astype(np.int16)),
}
REGIONS: dict[str, tuple[Any, str, str]] = {
    "empty region": ({"type": "Polygon", "coordinates": []}, "EPSG:4326", "empty"),
    "west of east": ({"type": "Polygon", "coordinates": [[[170, 50], [-170, 50], [-170, 51], [170, 51], [170, 50]]]}, "EPSG:4326",
                     "180 degrees"),
    "beside": ({"type": "Polygon", "coordinates": [[[10, 10], [11, 10], [11, 11], [10, 11], [10, 10]]]}, "EPSG:4326",
               "does not touch"),
    "line": ({"type": "LineString", "coordinates": [[0, 0], [1, 1]]}, "EPSG:4326", "LineString"),
    "latitude first": ({"type": "Polygon", "coordinates": [[[50.5, -131.6], [50.6, -131.6], [50.6, -131.5], [50.5, -131.6]]]},
                       "EPSG:4326", "longitude first"),
    "bowtie": ({"type": "Polygon", "coordinates": [[[10, 10], [90, 80], [90, 10], [10, 80], [10, 10]]]}, "image",
               "not a valid polygon"),
}


@dataclass(frozen=True)
class Mode:
    """How a mode is asked, at which pixel, which scenes it refuses (a part of the sentence), and what comes of the rest."""

    arguments: dict[str, Any]
    pixel: float
    refuses: dict[str, str]
    holds: Callable[[Any, str], bool]
    takes_region: bool = True


NOTHING = {"all NaN": "valid pixel", "all masked": "valid pixel"}
TINY = {"one pixel": "too few", "2 x 2": "too few", "one row": "too few"}
NO_RGB = dict.fromkeys(("missing band", "unknown roles", "twice the same role", "palette"), "does not say which bands")
NDWI = dict.fromkeys(("missing band", "unknown roles", "twice the same role", "1-bit", "palette", "alpha"), "no band known as")
MODES: dict[str, Mode] = {
    # on int16 the numbers below zero turn the index over; the evidence says that they are impossible
    "regions": Mode({"mode": "regions", "target_groups": {"water": []}}, 10.0,
                    {**NOTHING, **NDWI, "complex": "complex"},
                    lambda o, k: o.evidence.intermediate["mask_px"] == (0 if k in ("one pixel", "2 x 2", "one row", "constant")
                                                                        else N_DISC)
                    or (k == "int16" and o.evidence.validity["applicability"]["ok"] is False)),
    "prompt": Mode({"mode": "regions", "target_groups": {"lake": []},
                    "regions_method": {"kind": "prompt", "points": [[64, 48, 1], [5, 5, 0]]}}, 10.0,
                   {**NOTHING, **dict.fromkeys(TINY, "outside"), "constant": "same value", "palette": "no band of brightness"},
                   lambda o, k: abs(o.evidence.intermediate["mask_px"] - N_DISC) <= 0.02 * N_DISC
                   and o.evidence.intermediate["mean_sureness"] <= 1),
    "prompt at the corner": Mode({"mode": "regions", "target_groups": {"lake": []},
                                  "regions_method": {"kind": "prompt", "points": [[0.5, 0.5, 1]]}}, 10.0,
                                 {**NOTHING, "one pixel": "same value", "2 x 2": "nothing to decide",
                                  "one row": "nothing to decide", "constant": "same value",
                                  "palette": "no band of brightness", "NaN": "without data",
                                  "infinite": "without data"}, lambda o, k: 0 < o.evidence.intermediate["mask_px"] < 4096),
    "evidence": Mode({"mode": "evidence"}, 10.0, NOTHING, lambda o, k: 0 < o.result.value <= 1),
    "document": Mode({"mode": "document"}, 10.0, {**NOTHING, **TINY, "palette": "no band of a picture"},
                     lambda o, k: len(o.result.value) <= 2),        # the disc may be read as a dot
    "scene": Mode({"mode": "scene"}, 10.0,
                  {**NOTHING, **TINY, **NO_RGB, "1-bit": "two values", "constant": "one value", "no CRS": "how many metres",
                   "degrees": "was made for"}, lambda o, k: o.result.value is None),
    "trees": Mode({"mode": "objects", "target_groups": {"tree": []}}, 0.1,
                  {**NOTHING, **TINY, **NO_RGB, "1-bit": "which bands", "constant": "same value", "no CRS": "needs the GSD"},
                  lambda o, k: o.result.interval[1] >= 1),
    "tanks": Mode({"mode": "objects", "target_groups": {"storage tank": []}}, 0.5,
                  {**NOTHING, **TINY, **dict.fromkeys(("missing band", "unknown roles", "twice the same role", "palette"),
                                                      "which bands"), "constant": "same value", "no CRS": "needs the GSD"},
                  lambda o, k: o.result.interval[1] >= 1),
    "vehicles": Mode({"mode": "objects", "target_groups": {"vehicle": []}}, 0.2,
                     {**NOTHING, **TINY, **NO_RGB, "1-bit": "two values", "constant": "same value"},
                     lambda o, k: o.result.items[0]["kept"] <= 1),
    "measurement": Mode({"mode": "measurement", "landmarks": ["px:0.2,0.5", "px:0.8,0.5"]}, 10.0,
                        {"all NaN": "valid pixel", "all masked": "valid pixel", "no CRS": "neither CRS nor GSD",
                         "NaN": "valid pixel", "infinite": "valid pixel"},
                        # 0.6 pixels of 10 m in UTM (scale 0.9996 to 1.0005); at 60 degrees north of 9e-5 degrees
                        lambda o, k: abs(o.result.value - (0.6 * 9e-5 * 55800 if k == "degrees" else 6.0)) < 0.02,
                        takes_region=False),
}


def ask(made_scene: Made, mode: Mode, **more: Any) -> Any:
    return Bench(made_scene).call("perceive", {"image_paths": ["s"], "objective": "x", **mode.arguments, **more})


def is_refused_clearly(o: Any, part: str) -> None:
    assert o.status.state == "failed" and part in o.status.reason, o.status.reason
    assert "failed inside" not in o.status.reason and "outside the protocol" not in o.status.reason
    assert o.result.value is None and o.result.interval is None and not o.result.layers


# what these look with are installed apart
BY_MODELS = ("document", "scene", "vehicles")
EACH_MODE = [pytest.param(m, marks=pytest.mark.ml) if m in BY_MODELS else m for m in MODES]


@pytest.mark.parametrize("name", EACH_MODE)
def test_wrong_scenes_give_the_right_value_or_a_clear_refusal(name: str) -> None:
    mode, wrong = MODES[name], []
    for kind, make in SCENES.items():
        o = ask(make(mode.pixel), mode)
        try:
            if kind in mode.refuses:
                is_refused_clearly(o, mode.refuses[kind])
                continue
            assert o.status.state in ("ok", "partial"), o.status.reason
            assert mode.holds(o, kind), (o.result.value, o.result.interval, o.evidence.intermediate)
            seen = o.evidence.intermediate["valid_px"]
            assert 0 < seen <= H * W, seen
            assert "quality_mask" in o.evidence.validity and 0 < o.evidence.validity["valid_share"] <= 1
            assert isinstance(o.evidence.validity["applicability"]["ok"], bool)
        except AssertionError as error:
            wrong.append(f"{kind}: {error}"[:400])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", EACH_MODE)
@pytest.mark.parametrize("kind", REGIONS)
def test_wrong_regions_are_refused_by_every_mode(kind: str, name: str) -> None:
    (region, crs, part), mode = REGIONS[kind], MODES[name]
    o = ask(SCENES["right"](mode.pixel), mode, region=region, region_crs=crs)
    is_refused_clearly(o, part if mode.takes_region else "no part in a measurement")


# --- two images -----------------------------------------------------------------------------------------------------------------
V = U.copy()
V[:, 20:40, 20:50] = 200


def pair(one: NDArray[Any], two: NDArray[Any], roles: list[str] | None = None, other_roles: list[str] | None = None,
         **more: Any) -> tuple[Made, Made]:
    return (scene(one, roles or ROLES, scene_id="a", date="2020-01-01"),
            scene(two, other_roles or roles or ROLES, scene_id="b", date="2021-01-01", **more))


# the changed box without what of it lies in the disc is all the change there is; None: refused
N_CHANGED = 20 * 30
PAIRS: dict[str, tuple[tuple[Made, Made], int | str]] = {
    "right": (pair(U, V), N_CHANGED), "identical": (pair(U, U), 0), "constant": (pair(U * 0 + 7, U * 0 + 9), 0),
    "1-bit": (pair(DISC[None].astype(np.uint8), (DISC[None] | (V[:1] == 200)).astype(np.uint8), ["gray"]),
              int(((V[0] == 200) & ~DISC).sum())),
    "complex": (pair(COMPLEX, (V * np.exp(1j)).astype(np.complex64)), N_CHANGED),
    "no common band": (pair(U[:1], V[:1], ["blue"], ["nir"]), "no band role in common"),
    "palette": (pair(U[:1] // 50, V[:1] // 50, ["class"]), "no band role in common"),
    "mixed units": (pair(U, V, unit="reflectance", scale=1e-4), "different units"),
    "elsewhere": (pair(U, V, crs="EPSG:32631", origin=(300000.0, 5600000.0)), "do not overlap"),
    "another size without CRS": (pair(U, V[:, :50], crs=None), "no CRS"),
    "all masked": (pair(U, V * 0, nodata=0.0), "Fewer than 16"), "all NaN": (pair(P * np.nan, V.astype(float)), "Fewer than 16"),
    "one pixel": (pair(U[:, :1, :1], V[:, :1, :1]), "Fewer than 16"),
    "2 x 2": (pair(U[:, :2, :2], V[:, :2, :2]), "Fewer than 16"),
}


@pytest.mark.parametrize("kind", PAIRS)
def test_wrong_pairs_give_the_right_change_or_a_clear_refusal(kind: str) -> None:
    scenes, due = PAIRS[kind]
    o = Bench(*scenes).call("perceive", {"image_paths": ["a", "b"], "objective": "x", "mode": "change"})
    if isinstance(due, str):
        is_refused_clearly(o, due)
        return
    assert o.status.state == "ok", o.status.reason
    # the change vector's noise moves a few pixels of a box of 600
    assert abs(o.evidence.intermediate["mask_px"] - due) <= 0.02 * due, o.evidence.intermediate["mask_px"]
    assert o.evidence.intermediate["valid_px"] == H * W and any("buildings" in n for n in o.evidence.validity["not_for"])


@pytest.mark.parametrize("landmarks, part", [
    (["px:-5,1", "px:5,5"], "outside"), (["px:nan,1", "px:5,5"], "no coordinate"), (["px:5,5", "px:5,5"], "same place"),
    (["px:1,1"], "exactly two"), (["lonlat:50.53,-158", "lonlat:1,2"], "outside"), (["the pier", "px:5,5"], "no coordinate"),
])
def test_wrong_landmarks_are_refused(landmarks: list[str], part: str) -> None:
    o = Bench(SCENES["right"](10.0)).call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "measurement",
                                                       "landmarks": landmarks})
    is_refused_clearly(o, part)


# --- what is left out, and what is said of it ----------------------------------------------------------------------------------
@pytest.mark.parametrize("pixel", [10.0, 20.0])
def test_clouds_of_either_date_are_no_change(pixel: float) -> None:
    """Landsat Collection 2: bit 3 is cloud, bit 4 its shadow. At 20 m the later image lies on a grid of its own."""
    step = int(pixel / 10)
    before = np.concatenate([U, np.zeros((1, H, W), np.uint8)]).astype(np.uint16)
    after = np.concatenate([V, np.zeros((1, H, W), np.uint8)]).astype(np.uint16)
    before[:4, 60:80, 80:110], before[4, 60:80, 80:110] = 240, 1 << 3
    after[:4, 4:14, 90:120], after[4, 4:14, 90:120] = 20, 1 << 4
    two = []
    for stored, name, date, size in ((before, "a", "2020-01-01", 10.0), (after[:, ::step, ::step], "b", "2021-01-01", pixel)):
        info, kept = scene(stored, [*ROLES, "qa"], scene_id=name, date=date, pixel=size)
        bands = tuple(b.model_copy(update={"scheme": "landsat_c2"}) if b.role == "qa" else b for b in info.bands)
        two.append((info.model_copy(update={"bands": bands}), kept))
    b = Bench(*two)
    o = b.call("perceive", {"image_paths": ["a", "b"], "objective": "x", "mode": "change"})
    assert o.status.state == "ok", o.status.reason
    mask, valid = b.layers.read_mask(o.result.layers[0])
    assert not valid[60:80, 80:110].any() and not valid[4:14, 90:120].any() and not (mask & ~valid).any()
    assert o.evidence.validity["quality_mask"] and o.evidence.intermediate["valid_px"] == int(valid.sum())
    if step == 1:
        assert o.evidence.intermediate["valid_px"] == H * W - 20 * 30 - 10 * 30
        assert abs(int(mask.sum()) - N_CHANGED) <= 0.02 * N_CHANGED
    assert mask[22:38, 22:48].mean() > 0.9


def test_a_prompt_keeps_to_its_region_and_takes_no_point_beside_it() -> None:
    ring = {"type": "Polygon", "coordinates": [[[0, 0], [64, 0], [64, 96], [0, 96], [0, 0]]]}
    b = Bench(SCENES["right"](10.0))
    asked = {"image_paths": ["s"], "objective": "x", "mode": "regions", "target_groups": {"lake": []}, "region": ring,
             "region_crs": "image"}
    o = b.call("perceive", {**asked, "regions_method": {"kind": "prompt", "points": [[54, 48, 1], [5, 5, 0]]}})
    mask, valid = b.layers.read_mask(o.result.layers[0])
    west = DISC & (_X < 64)
    assert not (mask[:, 64:] | valid[:, 64:]).any()
    assert 2 * (mask & west).sum() / (mask.sum() + west.sum()) > 0.95
    counts = o.evidence.intermediate["histogram"]["counts"]
    assert sum(counts) <= o.evidence.intermediate["valid_px"] == 64 * 96 and counts[0] > 0 and counts[-1] > 0
    o = b.call("perceive", {**asked, "regions_method": {"kind": "prompt", "points": [[74, 48, 1], [5, 5, 0]]}})
    is_refused_clearly(o, "outside the region")


@pytest.mark.parametrize("unit, is_warned", [("DN", True), ("reflectance", False)])
def test_a_threshold_from_reflectance_on_bare_numbers_is_warned_of(unit: str, is_warned: bool) -> None:
    made_scene = scene((P * 40).astype(np.uint16), ROLES, unit=unit, scale=1e-4 if unit == "reflectance" else 1.0)
    o = ask(made_scene, MODES["regions"])
    assert o.evidence.intermediate["mask_px"] == N_DISC and o.evidence.validity["calibrated"] is not is_warned
    assert any("uncalibrated numbers" in line.message for line in o.status.log) is is_warned
    assert any("shadows" in n for n in o.evidence.validity["not_for"])
