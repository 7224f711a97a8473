"""The second look: its own formulas, windows, regions and cache."""

from __future__ import annotations

import numpy as np
import pytest

from apps.verification.checks import Case, Limits, run_checks
from apps.verification.checks.masks import pieces
from apps.verification.checks.pixels import otsu
from apps.verification.estimates import estimate
from apps.verification.formulas import INDICES
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError, Plane, PlaneCache
from apps.verification.scattered import places_of
from apps.verification.sights import look_windows, step_of
from tests.unit.tools import rasters
from tests.unit.verification import samples as s


def test_formulas_against_figures_by_hand() -> None:
    bands = {
        k: np.array([v])
        for k, v in {
            "blue": 0.05,
            "green": 0.08,
            "red": 0.06,
            "rededge1": 0.12,
            "nir": 0.40,
            "swir1": 0.20,
            "swir2": 0.10,
        }.items()
    }
    by_hand = {
        "ndvi": 0.34 / 0.46,
        "ndwi": -0.32 / 0.48,
        "mndwi": -0.12 / 0.28,
        "nbr": 0.3 / 0.5,
        "savi": 1.5 * 0.34 / 0.96,
        "evi": 2.5 * 0.34 / (0.4 + 0.36 - 0.375 + 1),
        "evi2": 2.5 * 0.34 / (0.4 + 0.144 + 1),
        "bsi": (0.26 - 0.45) / 0.71,
    }
    for name, value in by_hand.items():
        assert INDICES[name].compute(bands)[0] == pytest.approx(value)
    assert np.isnan(INDICES["ndvi"].compute({"nir": np.array([0.0]), "red": np.array([0.0])})[0])


SAMPLED = Limits(full_look_px=1000, dense_look_px=800, look_window_px=16)


@pytest.mark.parametrize("limits", [Limits(), Limits(dense_look_px=800), SAMPLED])
def test_whole_thinned_and_windowed_looks_agree_with_right_observations(limits: Limits) -> None:
    for make in (s.mean, s.area, s.share, s.water, s.change, s.series, s.region):
        results, scores = run_checks(make().but(limits=limits).case())
        assert [c.message for c in results if c.outcome in ("failed", "errored")] == []
        assert scores.get("look_agreement", 1.0) > 0.5


def test_samples_under_other_limits_are_not_taken_for_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apps.verification.sights.KEPT", PlaneCache())
    for limits in (SAMPLED, Limits(dense_look_px=800), SAMPLED):
        results, _ = run_checks(s.mean().but(limits=limits).case(), ["consistency.raster_matches_source"])
        assert [c.outcome for c in results] == ["passed"], results[0].message


@pytest.mark.parametrize("limits", [Limits(dense_look_px=800), SAMPLED])
def test_a_thinned_look_still_sees_a_wrong_value(limits: Limits) -> None:
    for make, factor in ((s.mean, 0.2), (s.area, 2.0), (s.share, 0.3), (s.region, 0.2)):
        made = make()
        value = made.observation.result.value
        assert isinstance(value, float)
        wrong = made.but({"/result/value": value * factor}, limits=limits)
        results, _ = run_checks(wrong.case(), ["consistency.value_matches_source"])
        assert results[0].outcome == "failed", make.__name__


def test_standard_errors_cover_what_samples_by_lot_of_a_known_whole_miss() -> None:
    whole = np.random.default_rng(7).gamma(0.6, 2.0, (900, 900))
    for name in ("mean", "std", "median", "percentile:95"):
        truth = estimate(whole.ravel(), name).value
        off = []
        for shift in range(8):
            window = (shift, shift, 880, 880)
            seen = estimate(places_of(window, 8).take(whole, window).ravel(), name, step=8)
            off.append(abs(seen.value - truth) / seen.error)
        assert max(off) < 6, name
        assert max(off) > 0.05, name
    rare = np.zeros(10_000)
    assert estimate(rare, "mean", step=10).error * 6 > 1e-3  # one in a thousand may be missing from ten thousand samples
    assert estimate(rare, "mean", step=10).error * 6 < 1e-2


def test_a_thinned_look_still_sees_a_shifted_mask() -> None:
    limits = Limits(dense_look_px=800)
    made = s.water()
    at, ref = next((k, r) for k, r in enumerate(made.observation.result.layers) if r.kind == "mask")
    assert ref.grid is not None
    mask, valid = made.bench.layers.read_mask(ref)
    moved = made.bench.layers.put_mask(np.roll(mask, 6, axis=0) & valid, valid, ref.grid, label="water", scene_id="s")
    wrong = made.but({f"/result/layers/{at}": moved.model_dump(mode="json")}, limits=limits)
    results, _ = run_checks(wrong.case(), ["consistency.mask_matches_source"])
    assert results[0].outcome == "failed"


def test_windows_are_bounded_and_inside() -> None:
    case = s.mean().case()
    grid = case.used_scenes[0].grid.model_copy(update={"width": 20_000, "height": 30_000})
    windows, whole = look_windows(case, grid)
    assert not whole
    assert sum(w * h for _, _, w, h in windows) <= 4096
    assert all(c >= 0 and c + w <= 20_000 and r >= 0 and r + h <= 30_000 for c, r, w, h in windows)
    assert step_of(case, (0, 0, 1000, 1000)) == 4


def test_it_says_what_it_cannot_follow() -> None:
    made = s.mean()
    for op, why in (("raster.product.guess", "does not follow"), ("raster.product.math", "is not read")):
        with pytest.raises(CannotLookError, match=why):
            look_of(made.but({"/arguments/nodes/1/op": op}).case()).statistic("i", "mean")
    with pytest.raises(CannotLookError, match="no formula"):
        look_of(made.but({"/arguments/nodes/1/params/index": "secret"}).case()).statistic("i", "mean")
    with pytest.raises(CannotLookError, match="not at hand"):
        look_of(made.but(has_reader=False).case())
    with pytest.raises(CannotLookError, match="no valid pixel"):
        estimate(np.empty(0), "mean")


def test_cache_is_bounded_and_read_only() -> None:
    cache = PlaneCache(limit_bytes=40_000)
    for k in range(20):
        cache.put(k, Plane(np.zeros((1, 20, 20)), np.ones((1, 20, 20), bool)))
    assert cache.get(0) is None
    newest = cache.get(19)
    assert newest is not None
    with pytest.raises(ValueError, match="read-only"):
        newest.data[0, 0, 0] = 1
    cache.put("big", Plane(np.zeros((1, 100, 100)), np.ones((1, 100, 100), bool)))
    assert cache.get("big") is None


def test_pieces_agree_with_scipy() -> None:
    from scipy import ndimage

    rng = np.random.default_rng(3)
    for share in (0.1, 0.4, 0.6):
        mask = rng.random((40, 70)) < share
        assert pieces(mask, corners=True) == ndimage.label(mask, structure=np.ones((3, 3)))[1]
        assert pieces(mask, corners=False) == ndimage.label(mask)[1]
    assert pieces(np.zeros((5, 5), bool), corners=True) == 0


def test_otsu_parts_two_heaps() -> None:
    rng = np.random.default_rng(1)
    values = np.concatenate([rng.normal(-0.4, 0.05, 900), rng.normal(0.5, 0.05, 300)])
    assert -0.25 < otsu(values) < 0.35


@pytest.mark.parametrize("limits", [Limits(), Limits(dense_look_px=800)])
def test_a_thinned_look_at_an_area_in_degrees_knows_that_pixels_differ(limits: Limits) -> None:
    # the north of a globe in degrees: by number of pixels a third of it, by area a seventh
    rows = np.repeat((90.0 - np.arange(180) - 0.5)[:, None], 360, axis=1)
    info, stored = rasters.scene(rows[None], ["gray"], crs="EPSG:4326", pixel=1.0, origin=(-180.0, 90.0))
    bench = rasters.Bench((info, stored))
    o = bench.execute(
        [
            ("s1", "asset.scene", (), {"scene": "s"}),
            ("v", "raster.product.band", ["s1"], {"role": "gray"}),
            ("m", "raster.product.threshold", ["v"], {"op": ">", "value": 60}),
            ("out", "raster.summarize.area", ["m"], {"unit": "km2"}),
        ]
    )
    # Snyder 1987, 3-12: the zone from 60 degrees to the pole of the WGS 84 ellipsoid
    assert o.result.value == pytest.approx(34.37e6, rel=2e-3)
    for factor, outcome in ((1.0, "passed"), (510e6 / 6 / 34.37e6, "failed")):
        told = o.model_copy(update={"result": o.result.model_copy(update={"value": o.result.value * factor})})
        case = Case(told, bench.question, (), (), (), bench.layers, lambda _: bench._open(info), limits)
        assert run_checks(case, ["consistency.value_matches_source"])[0][0].outcome == outcome, factor
