"""Analyses of a series of dates: rank trends, change points, seasons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen
from apps.tools.execute.comparable import check_series_alike
from apps.tools.execute.operators_summaries import (
    Statistic,
    _per_date,
    _series_inputs,
    _series_places,
    finite,
    gather_series,
    mann_kendall,
)
from apps.tools.execute.scales import Weights
from apps.tools.execute.types import (
    Call,
    Operator,
    PhysicalRange,
    Planned,
    RasterType,
    Take,
    Value,
    ValueType,
    register,
)


class SeriesAnalysisParams(Frozen):
    weights: Weights = Field(default="auto", description="of a mean; auto: by area where pixels differ in area by over 1 %")
    analysis: Literal["mann_kendall", "sen", "autocorrelation", "seasonality", "change_point", "change_points", "spikes",
                      "stl"]
    statistic: Statistic = "mean"
    percentile: float | None = Field(default=None, ge=0, le=100)
    ddof: int = Field(default=0, ge=0, le=1)
    lag: int = Field(default=1, ge=1, le=400, description="in dates, for autocorrelation")
    period: int | None = Field(default=None, ge=2, le=400, description="dates a season has, for seasonality and stl")
    factor: float = Field(default=3.0, gt=0, description="spikes: this many robust deviations from the running median")
    variant: Literal["original", "hamed_rao", "seasonal"] = Field(
        default="original", description="mann_kendall: hamed_rao allows for memory, seasonal compares like dates (period)")
    least_dates: int = Field(default=2, ge=2, le=100, description="change_points: dates that a segment has at least")


# Analyses whose figure is the course over the years.
_OF_TREND = frozenset({"mann_kendall", "sen", "change_points"})


def _plan_analysis(call: Call) -> Planned:
    _series_inputs(call)
    p: SeriesAnalysisParams = call.params
    if (p.analysis == "stl" or (p.variant == "seasonal" and p.analysis == "mann_kendall")) and p.period is None:
        raise call.refuse(f"{p.analysis} needs the number of dates that a season has (period).", needs={"period": True})
    source: RasterType = call.inputs[0]

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        items, warnings, holes = gather_series(call, found, failed)
        y = np.array([i["value"] for i in items], dtype=np.float64)
        evidence: dict[str, JsonValue] = {"n_dates": len(items), "n_asked": len(call.inputs), "holes": list(holes),
                                          "analysis": p.analysis}
        n_valid = sum(int(str(i["n_valid"])) for i in items)
        if len(y) < 4:
            raise call.refuse(f"an analysis needs at least four dates; there are {len(y)}.", code="NEEDS_DATES",
                              needs={"dates": 4})
        in_seasons = p.analysis == "stl" or (p.variant == "seasonal" and p.analysis == "mann_kendall")
        if in_seasons and p.period:
            _check_seasons(call, [datetime.fromisoformat(str(i["date"])) for i in items], p.period)
        value, more = analyse_series(p, y)
        chance = more.get("p_value")
        if isinstance(chance, float) and not chance < 0.05:
            what = "change point" if p.analysis == "change_point" else "trend"
            warnings.append(f"The {what} is not significant (p = {chance:.3f}).")
        if "starts_at" in more:
            more["dates"] = [items[i]["date"] for i in more["starts_at"]]
        if value is None:
            raise call.refuse(str(more["refused"]), code="TOOL_FAILED")
        for key, column in more.pop("columns", {}).items():
            for item, v in zip(items, column, strict=True):
                item[key] = finite(float(v))
        if "date_at" in more:
            at = more.pop("date_at")
            evidence |= more
            return Value(str(items[at]["date"]), n_valid, evidence, tuple(items), warnings=tuple(warnings), result_kind="date")
        return Value(value, n_valid, evidence | more, tuple(items), warnings=tuple(warnings))

    unit = f"{source.unit}/date" if p.analysis == "sen" else "1"
    spans = {"mann_kendall": PhysicalRange(-1, 1), "autocorrelation": PhysicalRange(-1, 1), "seasonality": PhysicalRange(0, 1),
             "stl": PhysicalRange(0, 1), "spikes": PhysicalRange(0, 400), "change_points": PhysicalRange(0, 400)}
    kind = ValueType("value", "statistic", f"{p.analysis} of {source.quantity}", unit,
                     spans.get(p.analysis, PhysicalRange(why="follows the series")))
    return Planned(kind, reduce=lambda: _per_date(call), finish=finish, notes=(
        *_series_places(call), *check_series_alike(call, call.inputs, is_trend=p.analysis in _OF_TREND)))


def _check_seasons(call: Call, days: Sequence[datetime], period: int) -> None:
    """ModelError where dates are missing, so that every ``period``-th date is not of one season."""
    if len(days) <= period:
        return
    step = float(np.median([(b - a).days for a, b in pairwise(days)]))
    seasons = [(days[i + period] - days[i]).days for i in range(len(days) - period)]
    usual = min(seasons)
    late = [i for i, s in enumerate(seasons) if s - usual > 0.75 * step]
    if step > 0 and late:
        i = late[0]
        raise call.refuse(f"a season of {period} dates counts dates, and some are missing: from {days[i].date()} to "
                          f"{days[i + period].date()} are {seasons[i]} days, elsewhere {usual}. Give a series without holes, "
                          "or ask for an analysis that knows no season.", code="NEEDS_DATES", needs={"dates": True})


def analyse_series(p: SeriesAnalysisParams, y: NDArray[np.float64]) -> tuple[float | int | None, dict[str, Any]]:
    """(value, evidence) of an analysis; ``refused`` in the evidence says why there is no value."""
    from scipy import stats

    n = len(y)
    if p.analysis == "mann_kendall":
        if p.variant != "original":
            return mann_kendall_variant(p, y)
        s, z, p_value = mann_kendall(y)
        return s / (n * (n - 1) / 2), {"s": s, "z": z, "p_value": p_value, "tau": s / (n * (n - 1) / 2)}
    if p.analysis == "sen":
        fit = stats.theilslopes(y, np.arange(n), 0.95)
        return float(fit[0]), {"intercept": float(fit[1]), "low": float(fit[2]), "high": float(fit[3])}
    if p.analysis == "autocorrelation":
        if p.lag >= n - 1:
            return None, {"refused": f"a lag of {p.lag} needs a longer series than {n} dates."}
        d = y - y.mean()
        if not (d * d).sum():
            return None, {"refused": "the series is constant."}
        from statsmodels.tsa.stattools import acf

        found = [float(v) for v in acf(y, nlags=max(p.lag, min(n - 2, 39)), adjusted=False, fft=False)]
        return found[p.lag], {"acf": found[:40], "bound_95": 1.96 / math.sqrt(n), "computed_by": "statsmodels"}
    if p.analysis == "seasonality":
        d = stats_detrended(y)
        from scipy.signal import periodogram

        power = periodogram(y, detrend="linear", scaling="spectrum")[1][1:]
        if not power.sum() or float(np.abs(d).max()) < 1e-12 * max(1.0, float(np.abs(y).max())):
            return None, {"refused": "the series is a straight line."}
        k = round(n / p.period) if p.period else int(np.argmax(power)) + 1
        if not 1 <= k <= len(power):
            return None, {"refused": f"a season of {p.period} dates does not fit {n} dates."}
        return float(power[k - 1] / power.sum()), {"period": n / k, "strongest_period": n / (int(np.argmax(power)) + 1)}
    if p.analysis == "change_point":
        # Pettitt 1979, Applied Statistics 28
        ranks = stats.rankdata(y)
        u = np.array([2 * ranks[:k].sum() - k * (n + 1) for k in range(1, n)])
        at = int(np.argmax(np.abs(u)))
        most = float(np.abs(u[at]))
        return 0, {"date_at": at + 1, "pettitt_k": most, "p_value": min(1.0, 2 * math.exp(-6 * most * most / (n**3 + n**2))),
                   "mean_before": float(y[:at + 1].mean()), "mean_after": float(y[at + 1:].mean())}
    if p.analysis == "change_points":
        return change_points(y, p.least_dates)
    if p.analysis == "spikes":
        from scipy import ndimage

        # the ends are mirrored about their date
        running = ndimage.median_filter(y, size=5, mode="mirror")
        rest = y - running
        spread = float(stats.median_abs_deviation(rest, scale="normal"))
        flags = np.abs(rest) > p.factor * spread if spread > 0 else np.abs(rest) > 0
        return int(flags.sum()), {"spread": spread, "columns": {"running_median": running, "spike": flags.astype(float)}}
    assert p.period is not None
    if n < 2 * p.period:
        return None, {"refused": f"stl needs two seasons, {2 * p.period} dates; there are {n}."}
    try:
        from statsmodels.tsa.seasonal import STL
    except ModuleNotFoundError:
        return None, {"refused": "stl needs statsmodels, which is not installed here."}
    fit = STL(y, period=p.period, robust=True).fit()
    spread = float(np.var(fit.seasonal + fit.resid))
    strength = max(0.0, 1 - float(np.var(fit.resid)) / spread) if spread > 0 else 0.0
    return strength, {"period": p.period, "columns": {"trend": fit.trend, "seasonal": fit.seasonal, "rest": fit.resid}}


def mann_kendall_variant(p: SeriesAnalysisParams, y: NDArray[np.float64]) -> tuple[float | None, dict[str, Any]]:
    """Mann–Kendall's test by pymannkendall, for series that remember their past or have seasons."""
    import pymannkendall

    if p.variant == "seasonal":
        assert p.period is not None
        if len(y) < 2 * p.period:
            return None, {"refused": f"the seasonal test needs two seasons, {2 * p.period} dates; there are {len(y)}."}
        found = pymannkendall.seasonal_test(y, period=p.period)
    else:
        found = pymannkendall.hamed_rao_modification_test(y)
    if not math.isfinite(found.p):
        return None, {"refused": "the test is undefined for this series."}
    return float(found.Tau), {"s": float(found.s), "z": float(found.z), "p_value": float(found.p), "tau": float(found.Tau),
                              "variance_s": float(found.var_s), "variant": p.variant, "slope_per_date": float(found.slope)}


def change_points(y: NDArray[np.float64], least_dates: int) -> tuple[int | None, dict[str, Any]]:
    """(number of changes of the mean, evidence) by PELT with a BIC penalty on the noise of successive differences.

    Killick, Fearnhead and Eckley 2012, JASA 107; penalty 2 σ² log n for a mean and a place each (Yao 1988).
    """
    import ruptures

    n = len(y)
    if n < 2 * least_dates:
        return None, {"refused": f"two segments need {2 * least_dates} dates; there are {n}."}
    # robust: a change of the mean moves one difference only
    noise = 1.4826 * float(np.median(np.abs(np.diff(y) - np.median(np.diff(y))))) / math.sqrt(2)
    if noise <= 0:
        noise = max(float(np.abs(np.diff(y)).mean()) / math.sqrt(2), 1e-12 * max(1.0, float(np.abs(y).max())))
    penalty = 2 * noise * noise * math.log(n) * 2
    found = ruptures.Pelt(model="l2", min_size=least_dates, jump=1).fit(y[:, None]).predict(pen=penalty)
    starts = [int(i) for i in found[:-1]]
    edges = [0, *starts, n]
    means = np.concatenate([np.full(b - a, y[a:b].mean()) for a, b in pairwise(edges)])
    return len(starts), {"starts_at": starts, "noise": noise, "penalty": penalty, "method": "PELT, change of the mean",
                         "segment_means": [float(y[a:b].mean()) for a, b in pairwise(edges)], "columns": {"segment_mean": means}}


def stats_detrended(y: NDArray[np.float64]) -> NDArray[np.float64]:
    """The series less its least-squares line."""
    x = np.arange(len(y))
    return np.asarray(y - np.polyval(np.polyfit(x, y, 1), x))


register(Operator(
    name="raster.summarize.series_analysis", summary="Mann–Kendall, Sen's slope, autocorrelation, seasonality, change "
    "point, spikes or STL of a dated statistic.", takes=Take(("raster", "mask"), 4, 400), params=SeriesAnalysisParams,
    gives="value", range="declared by each analysis",
    nodata="invalid pixels take no part; dates without valid pixels are named and left out", plan=_plan_analysis,
    reference="Kendall 1975; Hamed and Rao 1998; Hirsch et al. 1982; Sen 1968; Pettitt 1979; Killick et al. 2012; Cleveland et "
    "al. 1990"))
