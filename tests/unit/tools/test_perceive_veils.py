"""What a scene's quality band hides is not counted by any mode of perceive, and the evidence says how much it is: on a real
cloudy scene by its own band, and on real pictures under bits that the test sets."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from numpy.typing import NDArray
from shapely.geometry import shape

from apps.core.geo.scene import SceneInfo
from apps.tools.execute.operators_physics import qa_flags
from apps.tools.execute.quality import DEFAULT_FLAGS
from apps.tools.perceive.veil import LEAST_SEEN, Veil
from apps.tools.region import RegionMask
from apps.verification.checks import run_checks
from tests.unit.tools.rasters import Bench, from_file, scene
from tests.unit.tools.test_perceive_clouds import cloudy
from tests.unit.verification import samples

Made = tuple[SceneInfo, NDArray[Any]]
# Landsat Collection 2: bit 0 is fill, bit 3 cloud, bit 4 its shadow, bit 5 snow, bit 6 clear
FILL, CLOUD, SHADOW, SNOW, CLEAR = (1 << n for n in (0, 3, 4, 5, 6))


def under(made: Made, bits: NDArray[Any], scheme: str = "landsat_c2", date: str | None = "2024-05-01") -> Made:
    """The scene with a quality band of those bits as its last one."""
    info, stored = made
    held = np.concatenate([stored, bits.astype(stored.dtype)[None]])
    n = len(held)
    band = info.bands[0].model_copy(update={"index": n, "role": "qa", "scheme": scheme, "unit": "DN", "scale": 1.0, "offset": 0.0,
                                            "nodata": None, "valid_range": None})
    # other bits are another file
    digest = "sha256:" + hashlib.sha256(held.tobytes()).hexdigest()
    return info.model_copy(update={"bands": (*info.bands, band), "artifact": digest}), held


def ask(b: Bench, mode: str, **more: Any) -> Any:
    return b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": mode, **more})


def crowns() -> Made:
    return samples.cut(samples.CROWNS, samples.RGB)


def layer(b: Bench, o: Any, label: str) -> list[dict[str, Any]]:
    return [f for r in o.result.layers if r.label == label for f in b.layers.read_features(r)]


# --- a real scene, its own band ------------------------------------------------------------------------------------------------
@pytest.mark.shared_data
@pytest.mark.parametrize("threshold", [0.0, "otsu"])
def test_regions_of_a_cloudy_scene_are_those_of_what_could_be_seen(shared_data: Path, threshold: Any) -> None:
    made = cloudy(shared_data, with_quality=True)
    b = Bench(made)
    method = {"kind": "index_threshold", "index": "ndvi", "threshold": threshold}
    o = ask(b, "regions", target_groups={"vegetation": []}, regions_method=method)
    red, nir = (made[1][i].astype(np.float64) * 2e-5 - 0.1 for i in (2, 3))
    hidden = made[1][6].astype(int) >> 14 == 3
    ndvi = (nir - red) / (nir + red)
    used = o.evidence.source["thresholds"]["vegetation"]
    told = o.evidence.intermediate
    assert told["mask_px"] == int(((ndvi > used) & ~hidden).sum()) and told["valid_px"] == int((~hidden).sum())
    assert sum(told["histogram"]["counts"]) == told["valid_px"] == told["denominator"]
    assert told["quality_masked"] == {"n_px": int(hidden.sum()), "of_px": hidden.size, "share": hidden.mean()}
    assert told["area"]["not_seen_px"] == int(hidden.sum()) and told["area"]["searched_px"] == int((~hidden).sum())
    # UTM zone 10 at 30 m: the scale of the projection is within 0.1 % of 1
    assert told["area"]["not_seen_m2"] == pytest.approx(hidden.sum() * 900, rel=2e-3)
    assert o.evidence.validity["valid_share"] == pytest.approx(1 - hidden.mean())
    mask, valid = b.layers.read_mask(o.result.layers[0])
    assert np.array_equal(valid, ~hidden) and not (mask & hidden).any()
    assert o.evidence.validity["quality_mask"][0] | {"acquired_at": None} == {
        "scene": "s", "band": 7, "scheme": "landsat_precollection", "flags": ["cloud"], "n_px": int(hidden.sum()),
        "of_px": hidden.size, "share": hidden.mean(), "acquired_at": None}
    assert any("6.0% of the pixels" in line.message and "hidden" in line.message for line in o.status.log)
    assert 7 in [x.index for x in o.inputs[0].bands]


@pytest.mark.shared_data
@pytest.mark.parametrize("window", [64, 128, 512])
def test_windows_of_any_size_give_the_same(shared_data: Path, window: int) -> None:
    b = Bench(cloudy(shared_data, with_quality=True), window_px=window)
    o = ask(b, "regions", target_groups={"water": []})
    assert o.evidence.intermediate["mask_px"] == 250 and o.evidence.intermediate["valid_px"] == 355_305


# --- real pictures under bits that the test sets -------------------------------------------------------------------------------
def west_hidden(made: Made, bit: int = CLOUD, share: float = 0.5) -> tuple[Made, NDArray[np.bool_]]:
    h, w = made[1].shape[1:]
    hidden = np.zeros((h, w), dtype=bool)
    hidden[:, :round(w * share)] = True
    return under(made, np.where(hidden, bit, CLEAR)), hidden


@pytest.mark.parametrize("bit", [CLOUD, SHADOW, FILL])
def test_crowns_under_a_cloud_are_listed_and_not_counted(bit: int) -> None:
    plain = ask(Bench(crowns()), "objects", target_groups={"tree": []})
    made, hidden = west_hidden(crowns(), bit)
    b = Bench(made)
    o = ask(b, "objects", target_groups={"tree": []})
    assert o.status.state == "ok", o.status.reason
    kept, aside = ([f["properties"]["box"] for f in layer(b, o, label)] for label in ("tree", "not seen"))

    def share(box: list[float]) -> float:
        x0, y0, x1, y1 = (math.floor(box[0]), math.floor(box[1]), math.ceil(box[2]), math.ceil(box[3]))
        return float(hidden[y0:y1, x0:x1].mean())

    assert kept and aside and all(share(x) <= 0.5 for x in kept) and all(share(x) > 0.5 for x in aside)
    # the same picture was looked at: what is listed apart is what is missing
    assert len(kept) + len(aside) == plain.result.items[0]["kept"] == 55
    item, told = o.result.items[0], o.evidence.intermediate
    assert (item["kept"], item["not_seen"], told["kept"], told["not_seen"]) == (len(kept), len(aside), len(kept), len(aside))
    assert item["high"] < plain.result.items[0]["high"]
    last = told["passes"][0]["filters"][-1]
    assert last["name"] == "not under cloud or shadow" and last["before"] - last["after"] >= len(aside)
    assert told["area"]["searched_px"] == told["valid_px"] == int((~hidden).sum())
    assert told["area"]["not_seen_m2"] == pytest.approx(hidden.sum() * 0.01, rel=1e-3)
    assert o.evidence.validity["quality_mask"][0]["share"] == 0.5 and o.evidence.validity["valid_share"] == 0.5
    assert any("hidden" in line.message and line.level == "warning" for line in o.status.log)


def test_snow_hides_nothing() -> None:
    made, _ = west_hidden(crowns(), SNOW)
    o = ask(Bench(made), "objects", target_groups={"tree": []})
    assert o.result.items[0]["kept"] == 55 and o.evidence.validity["quality_mask"][0]["n_px"] == 0


def test_a_count_over_what_was_seen_says_so_and_its_density_is_over_that_ground() -> None:
    made, hidden = west_hidden(crowns())
    b = Bench(made)
    o = ask(b, "objects", target_groups={"tree": []})
    source = {"name": "tree", "mode": "objects", "layer": {"observation": o.id}}
    count = b.call("measure", {"sources": [source], "spec": {"metric": "count"}}, [o])
    assert count.result.value == o.result.items[0]["kept"] and count.result.interval == o.result.interval
    per_ha = b.call("measure", {"sources": [source], "spec": {"metric": "density", "subject": "tree", "unit": "1/ha"}}, [o])
    seen_m2 = per_ha.evidence.intermediate["denominator"]
    assert seen_m2 == pytest.approx(int((~hidden).sum()) * 0.01, rel=1e-3)
    assert per_ha.result.value == pytest.approx(count.result.value / seen_m2 * 1e4)
    sample = samples.Sample(per_ha, b, (o,), question=b.question)
    found = {c.check: c.outcome for c in run_checks(sample.case())[0]}
    assert found["consistency.density_recomputes"] == "passed"
    wrong = sample.but({"/evidence/intermediate/denominator": seen_m2 * 2, "/result/value": per_ha.result.value / 2})
    assert {c.check: c.outcome for c in run_checks(wrong.case())[0]}["consistency.density_recomputes"] == "failed"


def test_left_unused_as_asked_is_said() -> None:
    made, _ = west_hidden(crowns())
    o = ask(Bench(made), "objects", target_groups={"tree": []}, quality_mask="none")
    assert o.result.items[0]["kept"] == 55 and o.evidence.validity["quality_mask"] is None
    assert any("left unused, as asked" in line.message for line in o.status.log)


def test_without_a_quality_band_nothing_is_known_and_that_is_said() -> None:
    o = ask(Bench(crowns()), "objects", target_groups={"tree": []})
    assert o.evidence.validity["quality_mask"] is None
    assert any("has no quality band" in line.message for line in o.status.log)


# --- every mode, hidden wholly and almost --------------------------------------------------------------------------------------
def optical() -> Made:
    return samples.optical()


MODES: dict[str, tuple[Callable[[], Made], dict[str, Any]]] = {
    "regions": (optical, {"mode": "regions", "target_groups": {"water": []}}),
    "class": (lambda: scene(np.repeat((np.arange(60) % 3).astype(np.uint8)[None, :, None], 80, 2), ["class"]),
              {"mode": "regions", "target_groups": {"water": []}, "regions_method": {"kind": "class_value", "values": [1]}}),
    "band": (optical, {"mode": "regions", "target_groups": {"bright": []},
                       "regions_method": {"kind": "band_threshold", "band": "nir", "threshold": 0.2}}),
    "prompt": (optical, {"mode": "regions", "target_groups": {"field": []},
                         "regions_method": {"kind": "prompt", "points": [[60, 20, 1], [40, 50, 0]]}}),
    "objects": (crowns, {"mode": "objects", "target_groups": {"tree": []}}),
    "document": (crowns, {"mode": "document"}),
    "scene": (lambda: scene(samples.cut(samples.STREET, samples.RGB)[1], samples.RGB, crs=None, gsd_m=0.16), {"mode": "scene"}),
    "measurement": (optical, {"mode": "measurement", "landmarks": ["px:50,20", "px:60,40"]}),
}
BY_MODELS = ("document", "scene")
EACH = [pytest.param(m, marks=pytest.mark.ml) if m in BY_MODELS else m for m in MODES]


@pytest.mark.parametrize("name", EACH)
def test_of_what_is_hidden_nothing_is_said(name: str) -> None:
    make, arguments = MODES[name]
    made = make()
    all_hidden = Bench(under(made, np.full(made[1].shape[1:], CLOUD)))
    o = all_hidden.call("perceive", {"image_paths": ["s"], "objective": "x", **arguments})
    assert o.status.state == "failed" and o.result.value is None and not o.result.layers
    assert "under cloud or shadow" in o.status.reason or "cannot be seen" in o.status.reason, o.status.reason
    assert "failed inside" not in o.status.reason


@pytest.mark.parametrize("name", EACH)
def test_of_the_rest_each_mode_says_what_it_is_of(name: str) -> None:
    make, arguments = MODES[name]
    made = make()
    (info, stored), hidden = west_hidden(made, share=0.2)
    b = Bench((info, stored))
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", **arguments})
    assert o.status.state in ("ok", "partial"), o.status.reason
    entry = o.evidence.validity["quality_mask"][0]
    assert (entry["scheme"], entry["flags"]) == ("landsat_c2", ["cloud", "dilated_cloud", "shadow", "fill"])
    masked = o.evidence.intermediate["quality_masked"]
    assert (masked["n_px"], masked["of_px"]) == (entry["n_px"], entry["of_px"])
    if name != "measurement":
        told = o.evidence.intermediate
        assert entry["of_px"] - entry["n_px"] == told["valid_px"] == told["area"]["searched_px"]
        assert told["n_region_px"] - told["valid_px"] == told["area"]["not_seen_px"]
    if name in ("class", "objects", "document", "scene"):
        assert entry["n_px"] == int(hidden.sum())
    sample = samples.Sample(o, b, question=b.question)
    wrong = [c for c in run_checks(sample.case())[0] if c.family in ("completeness", "consistency", "provenance", "radiometry")
             and c.severity == "block" and c.outcome in ("failed", "errored", "inconclusive")]
    assert wrong == []


@pytest.mark.parametrize("left, is_told", [(LEAST_SEEN + 0.03, True), (LEAST_SEEN - 0.03, False)])
def test_from_too_little_nothing_is_said_of_the_whole(left: float, is_told: bool) -> None:
    made, _ = west_hidden(crowns(), share=1 - left)
    o = ask(Bench(made), "objects", target_groups={"tree": []})
    assert (o.status.state == "ok") is is_told
    if not is_told:
        assert "from less than 10% nothing is said of tree" in o.status.reason


def test_a_region_beside_the_clouds_is_wholly_seen() -> None:
    made, _ = west_hidden(crowns())
    east = {"type": "Polygon", "coordinates": [[[210, 0], [400, 0], [400, 400], [210, 400], [210, 0]]]}
    o = ask(Bench(made), "objects", target_groups={"tree": []}, region=east, region_crs="image")
    assert o.evidence.validity["quality_mask"][0]["n_px"] == 0 and o.evidence.validity["valid_share"] == 1.0


def test_a_prompt_on_a_cloud_shows_nothing() -> None:
    made, _ = west_hidden(optical(), share=0.4)
    o = ask(Bench(made), "regions", target_groups={"field": []},
            regions_method={"kind": "prompt", "points": [[60, 20, 1], [10, 30, 1], [50, 50, 0]]})
    assert o.status.state == "failed" and "pointed at lies under cloud" in o.status.reason


def test_a_refined_mask_takes_nothing_from_under_the_clouds() -> None:
    made, hidden = west_hidden(optical(), share=0.4)
    b = Bench(made)
    first = ask(b, "regions", target_groups={"water": []}, quality_mask="none")
    o = b.call("perceive", {"image_paths": ["s"], "objective": "x", "mode": "regions", "target_groups": {"water": []},
                            "regions_method": {"kind": "refine", "seed": {"observation": first.id}}}, [first])
    assert o.status.state == "ok", o.status.reason
    mask, valid = b.layers.read_mask(o.result.layers[0])
    assert not (mask & hidden).any() and not (valid & hidden).any() and o.evidence.validity["quality_mask"][0]["n_px"] > 0


def test_one_landmark_under_a_cloud_is_warned_of() -> None:
    made, _ = west_hidden(optical(), share=0.3)
    o = ask(Bench(made), "measurement", landmarks=["px:10,20", "px:60,40"])
    assert o.status.state == "ok" and o.evidence.intermediate["valid_px"] == 1
    assert any("A lies under cloud or shadow" in line.message and line.level == "warning" for line in o.status.log)
    assert o.evidence.validity["applicability"]["problems"] == ["A lies under cloud or shadow"]


def test_change_tells_the_mask_of_either_date() -> None:
    one, two = samples.optical("a", date="2024-04-02"), samples.optical("b", date="2024-06-02")
    h, w = one[1].shape[1:]
    west, south = np.zeros((h, w), bool), np.zeros((h, w), bool)
    west[:, :20], south[-10:] = True, True
    b = Bench(under(one, np.where(west, CLOUD, CLEAR)), under(two, np.where(south, SHADOW, CLEAR)))
    o = b.call("perceive", {"image_paths": ["a", "b"], "objective": "x", "mode": "change"})
    assert o.status.state == "ok", o.status.reason
    data = b.readers["a"].read([1, 2, 3, 4], physical=False).valid.all(axis=0)
    entries = o.evidence.validity["quality_mask"]
    assert [e["scene"] for e in entries] == ["a", "b"]
    assert entries[0]["n_px"] == int((data & west).sum()) and entries[1]["n_px"] == int((data & south & ~west).sum())
    assert o.evidence.intermediate["valid_px"] == int((data & ~west & ~south).sum())
    assert o.evidence.intermediate["quality_masked"]["n_px"] == int((data & (west | south)).sum())


# --- the look-up itself --------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", DEFAULT_FLAGS)
def test_each_scheme_hides_clouds_and_never_snow(scheme: str) -> None:
    made, _ = west_hidden(crowns())
    info = made[0].model_copy(update={"bands": tuple(
        x.model_copy(update={"scheme": scheme}) if x.role == "qa" else x for x in made[0].bands)})
    o = ask(Bench((info, made[1])), "objects", target_groups={"tree": []})
    assert o.status.state == "ok", o.status.reason
    flags = o.evidence.validity["quality_mask"][0]["flags"]
    assert "cloud" in flags and "snow" not in flags and set(flags) <= qa_flags(scheme)


def test_shares_of_boxes_are_those_by_hand() -> None:
    rng = np.random.default_rng(4)
    made = under(crowns(), np.where(rng.random((400, 400)) < 0.3, CLOUD, CLEAR))
    b = Bench(made)
    reader = b._open(made[0])
    veil = Veil(made[0], made[0].bands[-1], ("cloud",), reader, RegionMask(None, made[0].grid))
    corners = rng.uniform(-5, 395, (200, 2))
    xyxy = np.concatenate([corners, corners + rng.uniform(1, 60, (200, 2))], axis=1)
    hidden = made[1][-1] == CLOUD
    for box, share in zip(xyxy, veil.shares(xyxy), strict=True):
        x0, y0 = max(0, math.floor(box[0])), max(0, math.floor(box[1]))
        x1, y1 = min(400, math.ceil(box[2])), min(400, math.ceil(box[3]))
        assert share == pytest.approx(hidden[y0:max(y1, y0 + 1), x0:max(x1, x0 + 1)].mean())


@pytest.mark.ml
def test_text_under_a_cloud_is_not_told() -> None:
    pytest.importorskip("rapidocr", reason="rapidocr is not installed (./rsure setup --ml)")
    from tests.unit.tools.test_perceive_document import page

    made = scene(page((20, 20, "Sheet 7"), (250, 150, "HARBOUR 42")), ["red", "green", "blue"], crs=None)
    bits = np.full(made[1].shape[1:], CLEAR)
    bits[:100, :200] = CLOUD
    b = Bench(under(made, bits))
    o = ask(b, "document")
    assert o.result.value == "HARBOUR 42" and o.evidence.intermediate["not_seen"] == 1
    assert [f["properties"]["text"] for f in layer(b, o, "not seen")] == ["Sheet 7"]
    assert all(shapely.box(0, 0, 200, 100).intersects(shape(f["geometry"])) for f in layer(b, o, "not seen"))


@pytest.mark.ml
@pytest.mark.shared_data
def test_windows_under_clouds_do_not_say_what_the_place_is(shared_data: Path) -> None:
    info, stored = from_file(shared_data / "multispectral/chrieke_s2_fields_32632.tif", {"red": 1, "green": 2, "blue": 3})
    made = info.model_copy(update={"sensor": "Sentinel-2 MSI"}), stored
    plain = ask(Bench(made), "scene")
    covered, hidden = west_hidden(made, share=0.4)
    b = Bench(covered)
    o = ask(b, "scene")
    assert o.status.state in ("ok", "partial"), o.status.reason
    told = o.evidence.intermediate
    assert told["windows"] + told["windows_not_seen"] == plain.evidence.intermediate["windows"] and told["windows_not_seen"] > 0
    for f in layer(b, o, "windows"):
        x0, y0, x1, y1 = (int(v) for v in shape(f["geometry"]).bounds)
        assert hidden[y0:y1, x0:x1].mean() <= 0.5
    assert len(layer(b, o, "not seen")) == told["windows_not_seen"]


@pytest.mark.parametrize(("scheme", "hiding", "clear"), [
    # Sentinel-2 MSI L2A algorithm: 0 no data, 3 shadow, 8 and 9 cloud, 10 cirrus; 2 dark, 4 to 7 ground, 11 snow
    ("sentinel2_scl", (0, 3, 8, 9, 10), (2, 4, 5, 6, 7, 11)),
    # Landsat Collection 2 QA_PIXEL: bit 0 fill, 1 dilated cloud, 3 cloud, 4 shadow; 5 snow, 6 clear, 7 water
    ("landsat_c2", (1, 2, 8, 16, 24), (32, 64, 128)),
    # MOD13 reliability: 3 cloudy; 0 good, 1 marginal, 2 snow
    ("mod13_reliability", (3,), (0, 1, 2))])
def test_values_that_hide_by_the_products_own_guides(scheme: str, hiding: tuple[int, ...], clear: tuple[int, ...]) -> None:
    values = np.array([*hiding, *clear])
    columns = np.repeat(values, math.ceil(400 / len(values)))[:400]
    b = Bench(under(crowns(), np.tile(columns, (400, 1)), scheme))
    o = ask(b, "objects", target_groups={"tree": []})
    entry = o.evidence.validity["quality_mask"][0]
    assert entry["n_px"] == int(np.isin(columns, hiding).sum()) * 400 and entry["of_px"] == 160_000
    sample = samples.Sample(o, b, question=b.question)
    found = {c.check: c.outcome for c in run_checks(sample.case())[0]}
    assert found["completeness.quality_mask_applied"] == found["completeness.hidden_not_counted"] == "passed"
