"""Analyses of series on measured ones: published figures of the Nile, the sunspots and the air over Mauna Loa, and MODIS NDVI
against formulas written out here from the papers.

The three series come with statsmodels (public domain): Nile at Aswan 1871–1970 (Cobb 1978), yearly sunspot numbers 1700–2008
(SIDC), weekly CO2 at Mauna Loa 1958–2001 (Keeling and Whorf), and the sea off Peru 1950–2010 (NOAA).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage, stats

from tests.unit.tools.rasters import Bench, node_of, scene
from tests.unit.tools.test_execute_real import modis, series

datasets = pytest.importorskip("statsmodels.datasets")
Series = NDArray[np.float64]
RNG = np.random.default_rng(4)


def asked(
    values: Series, days: Sequence[str], op: str = "raster.summarize.series_analysis", unit: str = "1", **params: Any
) -> Any:
    """An operator over a stack of small rasters, one a date, handed over in no order."""
    order = RNG.permutation(len(values))
    b = Bench(*(scene(np.full((1, 2, 2), values[i]), ["index"], scene_id=f"s{i}", date=days[i], unit=unit) for i in order))
    nodes: list[tuple[Any, ...]] = []
    for i in order:
        nodes += [
            (f"a{i}", "asset.scene", (), {"scene": f"s{i}"}),
            (f"b{i}", "raster.product.band", [f"a{i}"], {"role": "index"}),
        ]
    o = b.execute([*nodes, ("out", op, [f"b{i}" for i in order], params)])
    assert o.status.state == "ok", o.status.reason
    assert [i["date"] for i in o.result.items] == list(days)
    return o


def years(first: int, last: int) -> list[str]:
    return [f"{y}-07-01" for y in range(first, last + 1)]


def months(first: int, last: int) -> list[str]:
    return [f"{y}-{m:02}-15" for y in range(first, last + 1) for m in range(1, 13)]


@pytest.fixture(scope="module")
def nile() -> Series:
    return np.asarray(datasets.nile.load_pandas().data["volume"], dtype=float)


@pytest.fixture(scope="module")
def sunspots() -> Series:
    return np.asarray(datasets.sunspots.load_pandas().data["SUNACTIVITY"], dtype=float)


@pytest.fixture(scope="module")
def co2() -> Series:
    """Monthly means from 1970 to 1999; none is missing."""
    monthly = datasets.co2.load_pandas().data["co2"].resample("MS").mean()["1970":"1999"]
    assert len(monthly) == 360 and monthly.notna().all()
    return np.asarray(monthly, dtype=float)


@pytest.fixture(scope="module")
def sea() -> Series:
    """Monthly temperature of the sea off Peru from 1980 to 2009, in °C."""
    table = datasets.elnino.load_pandas().data
    return np.asarray(table[(table["YEAR"] >= 1980) & (table["YEAR"] < 2010)].iloc[:, 1:], dtype=float).ravel()


# --- changes ---------------------------------------------------------------------------------------------------------------
def test_the_nile_changed_with_1899(nile: Series) -> None:
    """Cobb 1978, Biometrika 65, and Zeileis et al. 2002 (strucchange): one change, 1898 is the last year before it."""
    o = asked(nile, years(1871, 1970), analysis="change_point")
    assert o.result.kind == "date" and o.result.value == "1899-07-01"
    # Pettitt 1979: the sums of signs between what lies before and after each year
    u = [np.sign(nile[:k, None] - nile[None, k:]).sum() for k in range(1, 100)]
    k = max(abs(v) for v in u)
    assert int(np.argmax(np.abs(u))) + 1 == 28 and node_of(o, "out")["pettitt_k"] == k
    assert node_of(o, "out")["p_value"] == pytest.approx(2 * math.exp(-6 * k**2 / (100**3 + 100**2)))
    # Zeileis et al.: 1097.75 before and 849.97 after, in 100 million m³
    told = node_of(o, "out")
    assert (told["mean_before"], told["mean_after"]) == pytest.approx((1097.75, 849.97), abs=5e-3)


def best_partition(y: Series, penalty: float, least: int) -> list[int]:
    """Starts of the segments that make squared deviations plus a penalty for each least, by trying every last segment."""
    n = len(y)
    cost, last = [-penalty, *[math.inf] * n], [0] * (n + 1)
    for end in range(least, n + 1):
        for start in (0, *range(least, end - least + 1)):
            if end - start >= least and cost[start] < math.inf:
                found = cost[start] + float(((y[start:end] - y[start:end].mean()) ** 2).sum()) + penalty
                if found < cost[end] - 1e-9:
                    cost[end], last[end] = found, start
    starts, at = [], n
    while last[at]:
        at = last[at]
        starts.append(at)
    return starts[::-1]


def test_several_changes_of_measured_series_are_those_of_all_partitions(nile: Series, sea: Series) -> None:
    o = asked(nile, years(1871, 1970), analysis="change_points")
    told = node_of(o, "out")
    noise = 1.4826 * np.median(np.abs(np.diff(nile) - np.median(np.diff(nile)))) / math.sqrt(2)
    assert told["noise"] == pytest.approx(noise) and told["penalty"] == pytest.approx(4 * noise**2 * math.log(100))
    assert told["starts_at"] == best_partition(nile, told["penalty"], 2) == [28]
    assert o.result.value == 1 and told["dates"] == ["1899-07-01"]
    # El Niños come and go: the yearly means of the sea
    yearly = sea.reshape(30, 12).mean(axis=1)
    for least in (2, 5):
        o = asked(yearly, years(1980, 2009), analysis="change_points", least_dates=least)
        told = node_of(o, "out")
        assert told["starts_at"] == best_partition(yearly, told["penalty"], least)


# --- trends ----------------------------------------------------------------------------------------------------------------
def signs(y: Series) -> tuple[float, float]:
    """(S, its variance with ties) of Kendall 1975."""
    s = sum(float(np.sign(y[i + 1 :] - y[i]).sum()) for i in range(len(y)))
    n = len(y)
    ties = np.unique(y, return_counts=True)[1]
    return s, (n * (n - 1) * (2 * n + 5) - (ties * (ties - 1) * (2 * ties + 5)).sum()) / 18


def z_of(s: float, variance: float) -> float:
    return 0.0 if s == 0 else (s - math.copysign(1, s)) / math.sqrt(variance)


def pair_slopes(y: Series, x: Series | None = None) -> Series:
    at = np.arange(len(y), dtype=float) if x is None else x
    i, j = np.triu_indices(len(y), 1)
    return (y[j] - y[i]) / (at[j] - at[i])


def test_the_trend_of_the_nile_by_ranks(nile: Series) -> None:
    o = asked(nile, years(1871, 1970), analysis="mann_kendall")
    s, variance = signs(nile)
    told = node_of(o, "out")
    assert s < 0 and told["s"] == s and o.result.value == pytest.approx(s / 4950)
    assert told["z"] == pytest.approx(z_of(s, variance)) and told["p_value"] == pytest.approx(
        2 * stats.norm.sf(abs(z_of(s, variance))), rel=1e-9
    )
    assert asked(nile, years(1871, 1970), analysis="sen").result.value == pytest.approx(float(np.median(pair_slopes(nile))))


def test_a_trend_that_allows_for_memory_is_hamed_and_raos(nile: Series) -> None:
    """Hamed and Rao 1998, J. Hydrology 204: the variance by the significant autocorrelations of the ranks without the trend."""
    n = len(nile)
    rest = nile - np.arange(n) * np.median(pair_slopes(nile))
    ranks = stats.rankdata(rest)
    d = ranks - ranks.mean()
    rho = np.array([(d[: n - k] * d[k:]).sum() for k in range(1, n)]) / (d * d).sum()
    lags = np.arange(1, n)
    weight = (n - lags) * (n - lags - 1.0) * (n - lags - 2)
    use = np.abs(rho) > stats.norm.ppf(0.975) / math.sqrt(n)
    longer = 1 + 2 / (n * (n - 1.0) * (n - 2)) * (weight * rho)[use].sum()
    s, variance = signs(nile)
    o = asked(nile, years(1871, 1970), analysis="mann_kendall", variant="hamed_rao")
    told = node_of(o, "out")
    assert told["variance_s"] == pytest.approx(variance * longer, rel=1e-9) and longer > 1.05
    assert told["p_value"] == pytest.approx(2 * stats.norm.sf(abs(z_of(s, variance * longer))), rel=1e-9)


def test_a_trend_by_season_is_the_sum_of_the_months(co2: Series, sea: Series) -> None:
    """Hirsch et al. 1982: S and its variance are those of each month, added up."""
    for y, days, rises in ((co2, months(1970, 1999), True), (sea, months(1980, 2009), False)):
        o = asked(y, days, analysis="mann_kendall", variant="seasonal", period=12)
        parts = [signs(y[m::12]) for m in range(12)]
        s, variance = sum(p[0] for p in parts), sum(p[1] for p in parts)
        told = node_of(o, "out")
        assert told["s"] == s and told["variance_s"] == pytest.approx(variance)
        assert told["p_value"] == pytest.approx(2 * stats.norm.sf(abs(z_of(s, variance))), rel=1e-9, abs=1e-15)
        assert o.result.value == pytest.approx(s / (12 * 30 * 29 / 2))
        # CO2 rose in every month of every year but for a few, the sea off Peru did not
        assert (o.result.value > 0.99) is rises


def test_co2_rose_as_noaa_says(co2: Series) -> None:
    """NOAA, 4 June 2020, on Mauna Loa: 1.6 ppm a year in the 1980s and 1.5 in the 1990s."""
    yearly = co2.reshape(30, 12).mean(axis=1)
    days = years(1970, 1999)
    x = np.array([(np.datetime64(d) - np.datetime64(days[0])) / np.timedelta64(1, "D") for d in days]) / 365.25
    for first, published in ((10, 1.6), (20, 1.5)):
        part = slice(first, first + 10)
        line = asked(yearly[part], days[part], op="raster.summarize.trend", unit="ppm")
        assert line.result.unit == "ppm/year" and line.result.value == pytest.approx(published, abs=0.1)
        by_ranks = asked(yearly[part], days[part], op="raster.summarize.trend", unit="ppm", method="sen")
        assert by_ranks.result.value == pytest.approx(float(np.median(pair_slopes(yearly[part], x[part]))), rel=1e-9)
        slope, middle = np.polyfit(x[part], yearly[part], 1)
        rest = yearly[part] - slope * x[part] - middle
        error = math.sqrt((rest**2).sum() / 8 / ((x[part] - x[part].mean()) ** 2).sum())
        assert line.result.value == pytest.approx(slope, rel=1e-9)
        assert line.result.interval == pytest.approx((slope - 2.306004 * error, slope + 2.306004 * error), rel=1e-6)


# --- seasons ---------------------------------------------------------------------------------------------------------------
def test_the_sunspots_remember_as_published(sunspots: Series) -> None:
    """Brockwell and Davis, Introduction to Time Series and Forecasting: autocovariances 1382.2, 1114.4, 591.73 and 96.216 of the
    hundred years from 1770. SIDC's numbers of today differ from theirs by tenths."""
    y = sunspots[70:170]
    for lag, covariance in ((1, 1114.4), (2, 591.73), (3, 96.216)):
        o = asked(y, years(1770, 1869), analysis="autocorrelation", lag=lag)
        assert o.result.value == pytest.approx(covariance / 1382.2, abs=1e-3)
        d = y - y.mean()
        assert o.result.value == pytest.approx(float((d[:-lag] * d[lag:]).sum() / (d * d).sum()), rel=1e-12)
    assert len(node_of(o, "out")["acf"]) == 40 and node_of(o, "out")["bound_95"] == pytest.approx(0.196)


def strongest(y: Series) -> tuple[float, float]:
    """(dates a turn, its share of the power) of a series without its line, by numpy's transform."""
    x = np.arange(len(y))
    power = np.abs(np.fft.rfft(y - np.polyval(np.polyfit(x, y, 1), x)))[1:] ** 2
    if len(y) % 2 == 0:
        power[-1] /= 2
    k = int(np.argmax(power)) + 1
    return len(y) / k, float(power[k - 1] / power.sum())


def test_seasons_are_found_as_long_as_they_are(sunspots: Series, co2: Series) -> None:
    """Twelve months for the air; for the sun Schuster's 11.125 years (1906, Phil. Trans. A 206)."""
    o = asked(co2, months(1970, 1999), analysis="seasonality")
    assert node_of(o, "out")["period"] == strongest(co2)[0] == pytest.approx(12)
    assert o.result.value == pytest.approx(strongest(co2)[1], rel=1e-9) and o.result.value > 0.5
    o = asked(sunspots, years(1700, 2008), analysis="seasonality")
    assert node_of(o, "out")["period"] == pytest.approx(11.125, abs=0.15)
    assert (node_of(o, "out")["period"], o.result.value) == pytest.approx(strongest(sunspots), rel=1e-9)


def test_the_season_of_the_air_over_mauna_loa(co2: Series) -> None:
    """Against the classical decomposition (a centred mean over twelve months), and NOAA's and Scripps' account of the yearly
    course: highest in May, lowest in September or October, some 6 ppm between them."""
    from statsmodels.tsa.seasonal import STL

    o = asked(co2, months(1970, 1999), analysis="stl", period=12)
    trend, season, rest = (np.array([i[k] for i in o.result.items]) for k in ("trend", "seasonal", "rest"))
    assert trend + season + rest == pytest.approx(co2, abs=1e-9)
    smooth = np.convolve(co2, np.array([0.5, *[1.0] * 11, 0.5]) / 12, "valid")
    # the robust trend bends less over the years after Pinatubo than twelve months do
    apart = np.abs(trend[6:-6] - smooth)
    assert np.median(apart) < 0.15 and apart.max() < 0.6
    off = (co2[6:-6] - smooth).reshape(-1, 12)  # from July to June
    course = np.roll(off.mean(axis=0), 6)
    course -= course.mean()
    mean = season.reshape(30, 12).mean(axis=0)
    assert np.corrcoef(course, mean)[0, 1] > 0.999 and np.abs(course - mean).max() < 0.2
    assert int(np.argmax(mean)) == 4 and int(np.argmin(mean)) in (8, 9) and 5 < mean.max() - mean.min() < 7
    # Hyndman and Athanasopoulos: 1 less the variance of the rest over that of season and rest
    assert o.result.value == pytest.approx(1 - rest.var() / (season + rest).var(), rel=1e-9) and o.result.value > 0.95
    direct = STL(co2, period=12, robust=True).fit()
    assert trend == pytest.approx(direct.trend, rel=1e-9) and season == pytest.approx(direct.seasonal, abs=1e-9)


# --- the twelve dates of MODIS ---------------------------------------------------------------------------------------------
def levels(scenes: Any) -> Series:
    """Mean NDVI of each date, of the values within the product's own range."""
    return np.array([float(s[(s >= -2000) & (s <= 10000)].mean()) * 1e-4 for _, s in scenes])


def by_hand(y: Series, name: str) -> float:
    """What an analysis says, from its formula."""
    if name == "mann_kendall":
        return signs(y)[0] / 66
    if name == "sen":
        return float(np.median(pair_slopes(y)))
    if name == "autocorrelation":
        d = y - y.mean()
        return float((d[:-1] * d[1:]).sum() / (d * d).sum())
    if name == "seasonality":
        return strongest(y)[1]
    # spikes: more than three robust deviations from the median of five dates, the ends mirrored
    mirrored = [*y[2:0:-1], *y, *y[-2:-4:-1]]
    rest = y - np.array([np.median(mirrored[i : i + 5]) for i in range(12)])
    limit = 3 * float(np.median(np.abs(rest - np.median(rest)))) / stats.norm.ppf(0.75)
    return float((np.abs(rest) > limit).sum())


@pytest.mark.shared_data
@pytest.mark.parametrize("name", ["mann_kendall", "sen", "autocorrelation", "seasonality", "spikes"])
def test_analyses_of_the_modis_series(shared_data: Path, name: str) -> None:
    scenes = modis(shared_data)
    o = Bench(*scenes).execute(series(scenes, "raster.summarize.series_analysis", {"analysis": name}))
    assert o.status.state == "ok", o.status.reason
    assert o.result.value == pytest.approx(by_hand(levels(scenes), name), rel=1e-9)
    if name == "spikes":  # the date that clouds darken
        assert [i["date"] for i in o.result.items if i["spike"]] == ["2014-02-18"]


@pytest.mark.shared_data
def test_spikes_in_a_part_of_the_modis_scene(shared_data: Path) -> None:
    """The north-western part alone, against scipy's median filter."""
    scenes = modis(shared_data)
    ring = [[0, 0], [120, 0], [120, 60], [0, 60], [0, 0]]
    o = Bench(*scenes).execute(
        series(scenes, "raster.summarize.series_analysis", {"analysis": "spikes", "factor": 2.0}),
        region={"type": "Polygon", "coordinates": [ring]},
        region_crs="image",
    )
    y = np.array([float(np.mean([v for v in s[0, :60, :120].ravel() if -2000 <= v <= 10000])) * 1e-4 for _, s in scenes])
    rest = y - ndimage.median_filter(y, 5, mode="mirror")
    wanted = np.abs(rest) > 2 * stats.median_abs_deviation(rest, scale="normal")
    assert [bool(i["spike"]) for i in o.result.items] == wanted.tolist() and o.result.value == wanted.sum() > 0


@pytest.mark.shared_data
def test_the_trend_of_each_modis_pixel(shared_data: Path) -> None:
    scenes = modis(shared_data)
    stack = np.stack([np.where((s[0] >= -2000) & (s[0] <= 10000), s[0] * 1e-4, np.nan) for _, s in scenes])
    days = [np.datetime64(info.scene_id) for info, _ in scenes]
    x = np.array([(d - days[0]) / np.timedelta64(1, "D") for d in days]) / 365.25
    found: dict[str, Any] = {}
    for output in ("slope", "p_value", "r2"):
        b = Bench(*scenes)
        o = b.execute(series(scenes, "raster.product.pixel_trend", {"output": output}))
        kept = b.layers.kept[o.result.layers[0].artifact]
        found[output], valid = kept.data[0], kept.valid[0]
    assert np.array_equal(valid, np.isfinite(stack).sum(axis=0) >= 3) and valid.sum() > 37_000
    for r, c in RNG.integers(0, stack.shape[1:], (400, 2)):
        there = np.isfinite(stack[:, r, c])
        line = stats.linregress(x[there], stack[there, r, c])
        assert found["slope"][r, c] == pytest.approx(line.slope, rel=1e-5, abs=1e-7)
        assert found["p_value"][r, c] == pytest.approx(line.pvalue, rel=1e-4)
        assert found["r2"][r, c] == pytest.approx(line.rvalue**2, rel=1e-4, abs=1e-7)
    whole = np.isfinite(stack).all(axis=0)
    slopes = np.polyfit(x, stack[:, whole], 1)[0]
    assert found["slope"][whole] == pytest.approx(slopes, abs=1e-6)
    line = Bench(*scenes).execute(series(scenes, "raster.summarize.trend", {}))
    assert line.result.value == pytest.approx(stats.linregress(x, levels(scenes)).slope, rel=1e-9)


# --- statistics of each date -----------------------------------------------------------------------------------------------
STATISTICS: dict[str, Any] = {
    "mean": np.mean,
    "median": np.median,
    "min": np.min,
    "max": np.max,
    "std": np.std,
    "sum": np.sum,
    "count": np.size,
    "range": np.ptp,
    "variance": np.var,
    "skewness": stats.skew,
    "kurtosis": stats.kurtosis,
    "iqr": stats.iqr,
    "cv": lambda v: v.std() / v.mean(),
}


@pytest.mark.shared_data
@pytest.mark.parametrize("name", STATISTICS)
def test_a_statistic_of_each_modis_date(shared_data: Path, name: str) -> None:
    scenes = modis(shared_data)
    o = Bench(*scenes).execute(series(scenes, "raster.summarize.series", {"statistic": name}))
    assert o.status.state == "ok", o.status.reason
    each = [STATISTICS[name](s[(s >= -2000) & (s <= 10000)] * 1e-4) for _, s in scenes]
    assert [i["value"] for i in o.result.items] == pytest.approx(each, rel=1e-9)
    assert o.result.value == pytest.approx(np.mean(each), rel=1e-9)


@pytest.mark.shared_data
def test_dates_above_a_limit_and_shares_of_each_modis_date(shared_data: Path) -> None:
    """Counts of dates, means of those above, shares and numbers of pixels above a threshold on each date."""
    scenes = modis(shared_data)
    means = levels(scenes)
    for params, wanted in (
        ({"over": "count_above", "limit": 0.65}, (means > 0.65).sum()),
        ({"over": "mean_above", "limit": 0.65}, means[means > 0.65].mean()),
        ({"over": "count_above", "limit": 1.1, "limit_is": "times_mean"}, (means > 1.1 * means.mean()).sum()),
        ({"over": "max"}, means.max()),
        ({"over": "min"}, means.min()),
        ({"over": "median"}, np.median(means)),
        ({"over": "std"}, means.std()),
        ({"over": "sum"}, means.sum()),
    ):
        o = Bench(*scenes).execute(series(scenes, "raster.summarize.series", params))
        assert o.result.value == pytest.approx(wanted, rel=1e-9), params
    held = [s[(s >= -2000) & (s <= 10000)] * 1e-4 for _, s in scenes]
    plain = series(scenes, "raster.summarize.series", {})[:-1]
    green = [(f"m{i}", "raster.product.threshold", [f"b{i}"], {"op": ">", "value": 0.8}) for i in range(12)]
    shares = np.array([(v > 0.8).mean() for v in held])
    names = [f"m{i}" for i in range(12)]
    for params, wanted in (
        ({"statistic": "mean"}, shares.mean()),
        ({"statistic": "sum"}, np.mean([(v > 0.8).sum() for v in held])),
        ({"over": "count_above", "limit": 0.25}, (shares > 0.25).sum()),
        ({"over": "mean_above", "limit": 0.25}, shares[shares > 0.25].mean()),
    ):
        o = Bench(*scenes).execute([*plain, *green, ("out", "raster.summarize.series", names, params)])
        assert o.result.value == pytest.approx(wanted, rel=1e-9), params
        each = [(v > 0.8).sum() if params.get("statistic") == "sum" else (v > 0.8).mean() for v in held]
        assert [i["value"] for i in o.result.items] == pytest.approx(each, rel=1e-12)
    assert 0 < (shares > 0.25).sum() < 12


# --- composites and anomalies ----------------------------------------------------------------------------------------------
@pytest.mark.shared_data
def test_composites_and_anomalies_of_modis(shared_data: Path) -> None:
    scenes = modis(shared_data)
    stack = np.stack([np.where((s[0] >= -2000) & (s[0] <= 10000), s[0] * 1e-4, np.nan) for _, s in scenes])
    known = np.isfinite(stack).any(axis=0)

    def layer(op: str, names: Sequence[str], params: dict[str, Any]) -> tuple[Any, Any]:
        b = Bench(*scenes)
        o = b.execute([*series(scenes, op, {})[:-1], ("out", op, list(names), params)])
        assert o.status.state == "ok", o.status.reason
        kept = b.layers.kept[o.result.layers[0].artifact]
        return kept.data[0], kept.valid[0]

    names = [f"b{i}" for i in range(12)]
    for method, truth in (
        ("mean", np.nanmean),
        ("median", np.nanmedian),
        ("min", np.nanmin),
        ("max", np.nanmax),
        ("std", np.nanstd),
        ("percentile", None),
    ):
        data, valid = layer("raster.product.composite", names, {"method": method, "percentile": 30})
        assert np.array_equal(valid, known)
        if truth is None:
            whole = np.isfinite(stack).all(axis=0)
            assert data[whole] == pytest.approx(np.percentile(stack[:, whole], 30, axis=0), rel=1e-5, abs=1e-7)
        else:
            assert data[valid] == pytest.approx(truth(stack, axis=0)[valid], rel=1e-5, abs=1e-7), method
    data, valid = layer("raster.product.best_pixel", [*names, *names], {"pick": "max"})
    assert data[valid] == pytest.approx(np.nanmax(stack, axis=0)[valid], rel=1e-6)
    past, now = stack[:-1], stack[-1]
    mean, spread = np.nanmean(past, axis=0), np.nanstd(past, axis=0, ddof=1)
    for mode, anomaly in (("difference", now - mean), ("zscore", (now - mean) / spread), ("percent", 100 * (now - mean) / mean)):
        data, valid = layer("raster.product.anomaly", [names[-1], *names[:-1]], {"mode": mode})
        assert valid.sum() > 37_000 and data[valid] == pytest.approx(anomaly[valid], rel=1e-4, abs=1e-5), mode
