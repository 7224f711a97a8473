"""Statistics and cloud shares of large images are of all pixels: what repeats every k rows or columns does not mislead them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from apps.tools.perceive import clouds, tallies
from apps.verification.case import Case
from apps.verification.checks import CHECKS
from tests.unit.tools.rasters import Bench, scene
from tests.unit.verification.samples import patched

RNG = np.random.default_rng(11)
# above the four million pixels from which views were thinned
LARGE = (2050, 2000)
PERIODS = (2, 8, 10, 16, 32)


def lines(shape: tuple[int, int], period: int, along: str) -> NDArray[np.bool_]:
    """Every ``period``-th row, column, or crossing of both."""
    rows, columns = np.indices(shape)
    return np.asarray({"rows": rows % period == 0, "columns": columns % period == 0,
                       "both": (rows % period == 0) & (columns % period == 0)}[along])  # fmt: skip


def look(bench: Bench, **more: Any) -> Any:
    return bench.call("perceive", {"image_paths": ["s"], "objective": "quality", "mode": "evidence"} | more)


def by_numpy(values: NDArray[Any]) -> dict[str, float]:
    return {"min": values.min(), "max": values.max(), "mean": values.mean(), "std": values.std(), "p2": np.percentile(values, 2),
            "p25": np.percentile(values, 25), "median": np.median(values), "p75": np.percentile(values, 75),
            "p98": np.percentile(values, 98), "unique": np.unique(values).size, "zero_share": (values == 0).mean(),
            "at_max_share": (values == values.max()).mean()}  # fmt: skip


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "float32", "float64", "complex64"])
@pytest.mark.parametrize("scaled", [(1.0, 0.0), (1e-4, -0.1), (-0.5, 3.0)])
def test_figures_of_a_band_are_those_of_numpy(dtype: str, scaled: tuple[float, float], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tallies, "_SIDE", 64)
    monkeypatch.setattr(tallies, "KEEP_VALUES", 4000)  # ranks are found in several passes
    kind = np.dtype(dtype)
    scale, offset = (1.0, 0.0) if kind.kind in "fc" else scaled
    stored = np.rint(RNG.gamma(2.0, 30.0, (2, 300, 330)))
    if kind.kind in "ui":
        limits = np.iinfo(kind)
        stored = np.clip(stored, limits.min, limits.max).astype(kind)
        stored[0, ::7, ::5] = limits.max
        stored[1] //= 2
    else:
        stored = (stored + RNG.random(stored.shape) * (1j if kind.kind == "c" else 1)).astype(kind)
        stored[0, ::11] = 0
    stored[:, 20:60, 30:300] = 1
    ring = [[10, 12], [300, 12], [250, 280], [10, 12]]
    bench = Bench(scene(stored, ["red", "nir"], scale=scale, offset=offset, nodata=1.0))
    for region in (None, {"type": "Polygon", "coordinates": [ring]}):
        o = look(bench, **({} if region is None else {"region": region, "region_crs": "image"}))
        inside = np.ones(stored.shape[1:], dtype=bool)
        if region is not None:
            # by hand: centres within the triangle
            x, y = np.meshgrid(np.arange(330) + 0.5, np.arange(300) + 0.5)
            inside = (y > 12) & ((x - 10) * 268 > 240 * (y - 12)) & ((300 - x) * 268 > 50 * (y - 12))
        every = inside & (stored != 1).all(axis=0)
        assert o.result.value == pytest.approx(every.sum() / inside.sum(), abs=1e-12)
        for k, item in enumerate(o.result.items):
            keep = inside & (stored[k] != 1)
            values = np.abs(stored[k][keep].astype(complex)) if kind.kind == "c" else stored[k][keep] * scale + offset
            truth = by_numpy(values.astype(np.float64))
            if kind.kind in "ui":
                # saturated is what is stored as the greatest number
                truth["saturated_share"] = float((stored[k][keep] == np.iinfo(kind).max).mean())
            else:
                assert item["saturated_share"] is None
            told = {name: item[name] for name in truth}
            assert told == pytest.approx(truth, rel=1e-6, abs=1e-9), (dtype, k)
            assert item["n_valid"] == keep.sum() and item["valid_share"] == pytest.approx(keep.sum() / inside.sum())


@pytest.mark.parametrize("along", ["rows", "columns", "both"])
def test_what_repeats_in_a_large_image_is_in_its_mean(along: str) -> None:
    base = RNG.normal(100, 6, LARGE)
    for period in PERIODS:
        stored = np.clip(np.rint(base + 20 * lines(LARGE, period, along)), 0, 255).astype(np.uint8)
        bench = Bench(scene(stored[None], ["gray"]))
        o = look(bench, options={"clouds": "none"})
        (item,) = o.result.items
        assert item["mean"] == pytest.approx(stored.mean(), abs=1e-9) and item["std"] == pytest.approx(stored.std(), abs=1e-9)
        assert item["p98"] == np.percentile(stored, 98) and item["max"] == stored.max() and item["n_valid"] == stored.size

        def outcome(told: Any, bench: Bench = bench) -> str:
            case = Case(told, bench.question, layers=bench.layers, reader=lambda _: bench._open(bench.question.scenes[0]))
            return CHECKS["consistency.bands_match_source"].look(case).outcome

        assert outcome(o) == "passed"
        wrong = stored[::period, ::period].mean()
        assert wrong - stored.mean() > 9 and outcome(patched(o, {"/result/items/0/mean": float(wrong)})) == "failed"
        # and half a number beside the true one is seen
        assert outcome(patched(o, {"/result/items/0/mean": float(stored.mean()) + 0.5})) == "failed"


@pytest.mark.parametrize("along", ["rows", "columns", "both"])
@pytest.mark.parametrize("period", PERIODS)
def test_the_share_of_clouds_is_of_all_pixels_where_the_mask_is_thinned(
    period: int, along: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clouds, "MASK_PX", 10_000)
    monkeypatch.setattr(clouds, "KEPT_SIDE", 40)
    shape = (330, 310)
    under = lines(shape, period, along)
    # thick white cloud over soil, in reflectance
    soil, cloud = (0.05, 0.08, 0.12, 0.25, 0.3, 0.25), (0.5, 0.5, 0.5, 0.5, 0.4, 0.3)
    stored = np.stack([np.where(under, c, s) for s, c in zip(soil, cloud, strict=True)]).astype(np.float32)
    bench = Bench(scene(stored, ["blue", "green", "red", "nir", "swir1", "swir2"], unit="reflectance"))
    ring = [[100, 0], [200, 0], [200, 330], [100, 330], [100, 0]]
    for region in (None, {"type": "Polygon", "coordinates": [ring]}):
        part = under if region is None else under[:, 100:200]
        more = {} if region is None else {"region": region, "region_crs": "image"}
        told = look(bench, options={"clouds": "tests"}, **more).evidence.intermediate["clouds"]
        assert told["step"] > 1 and told["of"] == "all pixels"
        assert (told["cloud_px"], told["n_valid"]) == (part.sum(), part.size)
        assert told["cloud_share"] == pytest.approx(part.mean(), abs=1e-12)
    flags = np.where(under, 3 << 14, 1 << 14).astype(np.uint16)
    info, kept = scene(np.stack([np.full(shape, 7, np.uint16), flags]), ["red", "qa"])
    bands = (info.bands[0], info.bands[1].model_copy(update={"scheme": "landsat_precollection"}))
    told = look(Bench((info.model_copy(update={"bands": bands}), kept))).evidence.intermediate["clouds"]
    assert told["method"] == "qa" and told["step"] > 1 and told["cloud_share"] == pytest.approx(under.mean(), abs=1e-12)
