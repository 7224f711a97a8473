"""Consistency of a series: its value, its trend and the tests of it follow from its items."""

from __future__ import annotations

import math
from datetime import date

import numpy as np

from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed, told_of
from apps.verification.checks.catalogue import check
from apps.verification.checks.holes import series_items
from apps.verification.estimates import statistic_value
from apps.verification.units import split_rate


@check(
    "series_recomputes",
    catches=("hole in the series", "one date for many", "wrong unit"),
    limits=("rel_tolerance",),
    reads=("/result/value", "/result/items"),
    family="consistency",
)
def series_recomputes(case: Case) -> Finding:
    """The value of a series is the mean of its items; the date picked is the one of the least or greatest item."""
    if case.kind not in ("series", "date"):
        return not_applicable("no series")
    if case.nodes.get(case.output, {}).get("op") == "raster.summarize.series_analysis":
        return not_applicable("a test of the series, not one of its values")
    items = series_items(case)
    values = [number_of(i.get("value")) for _, i in items]
    if not items or any(v is None for v in values):
        return not_applicable("the items have no numbers or dates")
    numbers = [float(v) for v in values if v is not None]
    at = ("/result/value", "/result/items")
    node = case.nodes.get(case.output)
    pick = str(node["params"].get("pick") or "") if node else ""
    if case.kind == "date":
        pick = pick or ("max" if any(w in case.text for w in ("highest", "maximum", "peak", "largest", "greatest")) else "min")
        best = (max if pick == "max" else min)(numbers)
        days = {d for (d, _), v in zip(items, numbers, strict=True) if math.isclose(v, best, rel_tol=1e-9, abs_tol=1e-12)}
        try:
            told = date.fromisoformat(str(case.observation.result.value)[:10])
        except ValueError:
            return not_applicable("the value is no day")
        if told not in days:
            return failed(
                f"The items have their {pick} on another date.",
                measured=told.isoformat(),
                expected=sorted(d.isoformat() for d in days),
                at=at,
            )
        return passed(f"The items have their {pick} on this date.", measured=told.isoformat(), at=at)
    if case.value is None:
        return not_applicable("the series has no single value")
    over = str(node["params"].get("over") or "mean") if node else "mean"
    mean = statistic_value(np.array(numbers), over)
    if mean is None:
        return not_applicable("a way to join dates that is not recomputed here")
    if not case.is_same(mean, case.value) and not any(case.is_same(case.value, v) for v in (min(numbers), max(numbers)) if pick):
        return failed(
            f"The value is not the {over} of the series.",
            measured=case.value,
            expected=mean,
            unit=case.observation.result.unit,
            at=at,
        )
    return passed(f"The value is the {over} of the series.", measured=case.value, expected=mean, at=at)


@check(
    "rank_trend_recomputes",
    catches=("wrong statistic", "stale artifact", "wrong sign"),
    limits=("rel_tolerance", "p_value_tolerance"),
    reads=("/result/value", "/result/items", "/evidence/intermediate/nodes"),
    family="consistency",
)
def rank_trend_recomputes(case: Case) -> Finding:
    """Mann and Kendall's tau is that of the items, and its p value the one that ties and number of dates give."""
    found = told_of(case, "raster.summarize.series_analysis")
    if not found or case.nodes.get(case.output, {}).get("op") != "raster.summarize.series_analysis" or case.value is None:
        return not_applicable("no test of a series")
    k, told, params = found[0]
    if params.get("analysis") != "mann_kendall" or str(params.get("variant") or "original") != "original":
        return not_applicable("another test")
    items = series_items(case)
    numbers = [v for _, i in items if (v := number_of(i.get("value"))) is not None]
    n, at = len(numbers), (f"/evidence/intermediate/nodes/{k}", "/result/value", "/result/items")
    if n < 4 or n != len(case.observation.result.items):
        return inconclusive("The items have no dates or figures.", at=at)
    s = sum(float(np.sign(b - a)) for i, a in enumerate(numbers) for b in numbers[i + 1 :])
    tau = s / (n * (n - 1) / 2)
    if not case.is_same(case.value, tau):
        return failed("The items have another tau.", measured=case.value, expected=tau, at=at)
    ties = np.unique(np.array(numbers), return_counts=True)[1]
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    z = 0.0 if s == 0 or variance <= 0 else (s - math.copysign(1, s)) / math.sqrt(variance)
    p_value, likely = number_of(told.get("p_value")), math.erfc(abs(z) / math.sqrt(2))
    if p_value is None:
        return inconclusive("The p value is not on record.", at=at)
    if abs(p_value - likely) > case.limits.p_value_tolerance:
        return failed("The p value is not that of this tau.", measured=p_value, expected=likely, at=at)
    return passed("Tau and p value are those of the items.", measured=case.value, expected=tau, at=at)


def slope_per_year(days: list[date], values: list[float]) -> float | None:
    """Least-squares slope per mean year (365.25 days); None where all dates are one."""
    t = np.array([d.toordinal() for d in days], dtype=float) / 365.25
    t = t - t.mean()
    spread = float((t**2).sum())
    return None if spread == 0 else float((t * (np.array(values) - np.mean(values))).sum() / spread)


@check(
    "trend_recomputes",
    catches=("one date for many", "hole in the series", "wrong unit"),
    reads=("/result/value", "/result/items"),
    family="consistency",
)
def trend_recomputes(case: Case) -> Finding:
    """The slope through the items is the value, per the unit of time stated."""
    items = series_items(case)
    values = [number_of(i.get("value")) for _, i in items]
    if case.kind != "trend" or case.value is None or len(items) < 3 or any(v is None for v in values):
        return not_applicable("no trend with its items")
    node = case.nodes.get(case.output)
    method = str(node["params"].get("method") or "linear") if node else "linear"
    if method not in ("linear", "ols"):
        days, numbers = [d for d, _ in items], [float(v) for v in values if v is not None]
        pairs = [
            (numbers[j] - numbers[i]) / ((days[j] - days[i]).days / 365.25)
            for i in range(len(days))
            for j in range(i + 1, len(days))
            if days[j] != days[i]
        ]
        slope = float(np.median(pairs)) if pairs else None
    else:
        slope = slope_per_year([d for d, _ in items], [float(v) for v in values if v is not None])
    if slope is None:
        return failed(
            "All items are of one date; there is no trend.", measured=1, expected="> 1", unit="dates", at=("/result/items",)
        )
    per = {"year": 1.0, "yr": 1.0, "a": 1.0, "month": 1 / 12, "day": 1 / 365.25}.get(
        split_rate(case.observation.result.unit)[1], 1.0
    )
    slope *= per
    at = ("/result/value", "/result/items")
    if abs(slope - case.value) > max(5e-3 * abs(slope), 1e-9):
        return failed(
            "The slope through the items is another one.",
            measured=case.value,
            expected=slope,
            unit=case.observation.result.unit,
            at=at,
        )
    return passed("The slope through the items is the value.", measured=case.value, expected=slope, at=at)


@check("series_items_not_identical", catches=("one date for many",), reads=("/result/items",), family="consistency")
def series_items_not_identical(case: Case) -> Finding:
    """Items of different scenes differ: equal values to the last digit mean that one image was read again and again."""
    values = [number_of(i.get("value")) for i in case.items()]
    numbers = [v for v in values if v is not None]
    if case.kind not in ("series", "trend", "date") or len(numbers) < 3:
        return not_applicable("no series")
    digests = {s.artifact for s in case.used_scenes}
    if len(set(numbers)) == 1 and numbers[0] not in (0.0, 1.0) and len(digests) != 1:
        return failed(
            "Every item has the same value; one image seems to stand for all dates.",
            measured=numbers[0],
            expected="different values",
            at=("/result/items",),
        )
    return passed("Items differ.", measured=len(set(numbers)), at=("/result/items",))
