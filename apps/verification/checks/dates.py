"""What is wrong with dates, thresholds and bands although every figure is worked out right: two times of the day in one trend,
the earlier date taken from the later, linear power on decibels."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np

from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.look import look_of
from apps.verification.planes import CannotLookError
from apps.verification.sights import scene_of_node

_TRENDS = frozenset({"raster.summarize.trend", "raster.product.pixel_trend"})
_OF_TREND = frozenset({"mann_kendall", "sen", "change_points"})
_OVER_DATES = _TRENDS | {
    "raster.summarize.series",
    "raster.summarize.series_analysis",
    "raster.product.anomaly",
    "raster.product.composite",
}
_RADAR = frozenset({"vv", "vh", "hh", "hv"})


def _dated(case: Case, ops: frozenset[str]) -> list[SceneInfo]:
    """The scenes of the first node of these operators that the answer rests on."""
    for name in case.upstream(case.output):
        node = case.nodes[name]
        if node["op"] in ops:
            asked = dict.fromkeys(
                str(case.nodes[n]["params"].get("scene")) for n in case.upstream(name) if case.nodes[n]["op"] == "asset.scene"
            )
            return [case.scenes[i] for i in asked if i in case.scenes]
    return []


def _hour_by_the_sun(scene: SceneInfo) -> float | None:
    """Mean solar time at a scene's middle; None where no time of the day is told (midnight UTC stands for a day)."""
    when = scene.acquired_at
    if when is None or scene.grid.crs is None or when.time().replace(tzinfo=None).isoformat() == "00:00:00":
        return None
    west, _, east, _ = scene.grid.lonlat_bounds()
    middle = (west + east + (360 if east < west else 0)) / 2
    seconds = when.hour * 3600 + when.minute * 60 + when.second
    return (seconds / 3600 + middle / 15) % 24


@check(
    "trend_of_one_time_of_day",
    catches=("day for night",),
    limits=("hours_apart",),
    reads=("/inputs", "/arguments/nodes"),
    family="plausibility",
)
def trend_of_one_time_of_day(case: Case) -> Finding:
    """A trend of temperatures, or of what a radar sees, is over dates of one time of the day: else its slope is made of day and
    night, or of the two directions from which the radar looks."""
    ops = _TRENDS | {
        case.nodes[n]["op"]
        for n in case.upstream(case.output)
        if case.nodes[n]["op"] == "raster.summarize.series_analysis" and case.nodes[n]["params"].get("analysis") in _OF_TREND
    }
    scenes = _dated(case, frozenset(ops))
    at = ("/inputs", "/arguments/nodes")
    if len(scenes) < 3:
        return not_applicable("no trend")
    roles = {str(case.nodes[n]["params"].get("role") or "") for n in case.upstream(case.output)}
    bands = [b for s in scenes for b in s.bands if b.role in roles]
    if not any(b.unit in ("K", "degC") or b.role in _RADAR for b in bands):
        return not_applicable("neither temperatures nor a radar's values")
    days = {s.acquired_at.date() for s in scenes if s.acquired_at is not None}
    hours = sorted(h for s in scenes if (h := _hour_by_the_sun(s)) is not None)
    if len(hours) < 2 or len(days) < 3:
        return not_applicable("the times of the day are not known, or are what is asked about")
    apart = 24 - max([b - a for a, b in pairwise(hours)] + [24 - hours[-1] + hours[0]])
    if apart > case.limits.hours_apart:
        return failed(
            "The dates are of several times of the day, so the slope is made of them; take those of one time.",
            measured=apart,
            expected=f"≤ {case.limits.hours_apart:g}",
            unit="h",
            at=at,
        )
    return passed("All dates are of one time of the day.", measured=apart, unit="h", at=at)


@check(
    "dates_of_one_sensor",
    "warn",
    catches=("another scene's result",),
    reads=("/inputs", "/arguments/nodes"),
    family="plausibility",
)
def dates_of_one_sensor(case: Case) -> Finding:
    """Dates that are held against each other are of one sensor, or of Landsat's scanners of one kind: bands and calibration of
    others differ, and a part of what changes may be theirs."""
    scenes = _dated(case, _OVER_DATES)
    at = ("/inputs", "/arguments/nodes")
    if len(scenes) < 2:
        return not_applicable("no dates are compared")
    told = {re.sub(r"landsat [4-7]\b.*", "landsat 4 to 7", s.sensor.strip().lower()) for s in scenes if s.sensor.strip()}
    if not told:
        return not_applicable("no sensor is known")
    if len(told) > 1:
        return failed("The dates are of several sensors.", measured=sorted(told), expected="one", at=at)
    return passed("All dates whose sensor is known are of one.", measured=sorted(told), at=at)


@check(
    "dnbr_before_minus_after",
    catches=("wrong sign",),
    reads=("/arguments/nodes", "/inputs"),
    family="consistency",
)
def dnbr_before_minus_after(case: Case) -> Finding:
    """What is called dNBR, or is put into classes of burn severity, is NBR before the fire less NBR after it: turned round, burnt
    ground is regrowth."""
    under = case.upstream(case.output)
    graded = [n for n in under if case.nodes[n]["params"].get("preset") == "burn_severity"]
    text = case.text.lower()
    is_asked = re.search(r"\bd\s?nbr\b|burn(?:t|ed)? severity|severity of the (?:burn|fire)", text) is not None
    at = ("/arguments/nodes", "/inputs")
    seen = 0
    for name in under:
        node = case.nodes[name]
        is_called = str(node["params"].get("quantity") or "").lower() in ("dnbr", "delta_nbr", "rdnbr", "rbr")
        if not (is_called or is_asked or any(name in case.upstream(g) for g in graded)):
            continue
        pair = _taken_from(node["op"], node["params"], node["inputs"])
        if pair is None or any(case.nodes.get(n, {"params": {}})["params"].get("index") != "nbr" for n in pair):
            continue
        try:
            first, second = (scene_of_node(case, n).acquired_at for n in pair)
        except CannotLookError:
            continue
        if first is None or second is None or first == second:
            return inconclusive("Which of the two dates is the earlier is not known.", at=at)
        seen += 1
        if first > second:
            return failed(
                "The earlier date is taken from the later: dNBR is before − after, so its sign is turned.",
                measured=f"{first.date()} − {second.date()}",
                expected=f"{second.date()} − {first.date()}",
                at=at,
            )
    return passed("NBR after is taken from NBR before.", measured=seen, at=at) if seen else not_applicable("no dNBR")


def _taken_from(op: str, params: dict[str, object], inputs: list[str]) -> tuple[str, str] | None:
    """(node, node that is taken from it) of a difference or of a formula that holds one; None else."""
    if op == "raster.product.difference" and len(inputs) == 2:
        mode = str(params.get("mode") or "difference")
        return {"difference": (inputs[1], inputs[0]), "loss": (inputs[0], inputs[1])}.get(mode)
    if op == "raster.product.math":
        found = re.search(r"([A-Za-z_]\w*)\s*-\s*([A-Za-z_]\w*)", str(params.get("expression") or ""))
        if found and found[1] in inputs and found[2] in inputs and not re.search(r"\babs\s*\(", str(params.get("expression"))):
            return found[1], found[2]
    return None


# What a threshold on values of a unit can be; beyond it it is of another unit.
_THRESHOLDS = {"reflectance": (-1.0, 5.0), "K": (100.0, 2000.0), "dB": (-80.0, 60.0)}


def _limits_of(op: str, params: dict[str, object]) -> list[float]:
    """The numbers that a node holds values against: of a threshold, of classes, of the dates above a limit."""
    held: object = ()
    if op == "raster.product.threshold":
        held = [params.get("value")]
    elif op == "raster.product.classify":
        held = params.get("breaks")
    elif op == "raster.summarize.series" and params.get("limit_is") != "times_mean":
        held = [params.get("limit")]
    found = [number_of(x) for x in held] if isinstance(held, (list, tuple)) else []
    return [x for x in found if x is not None]


@check(
    "threshold_in_the_values_unit",
    catches=("wrong threshold", "wrong unit"),
    reads=("/arguments/nodes", "/inputs"),
    family="consistency",
)
def threshold_in_the_values_unit(case: Case) -> Finding:
    """A threshold is in the unit of the values that it is put on: no linear power on decibels all of which lie below it, no
    degrees Celsius on kelvins, no stored numbers on reflectance."""
    at = ("/arguments/nodes", "/inputs")
    seen: list[float] = []
    for name in case.upstream(case.output):
        node = case.nodes[name]
        limits = _limits_of(node["op"], node["params"])
        source = case.nodes.get(node["inputs"][0]) if node["inputs"] else None
        if not limits or source is None:
            continue
        if source["op"] != "raster.product.band":
            continue
        role = str(source["params"].get("role"))
        try:
            scene = scene_of_node(case, node["inputs"][0])
        except CannotLookError:
            continue
        held = scene.bands_with_role(role)
        if len(held) != 1 or held[0].unit not in _THRESHOLDS:
            continue
        unit = held[0].unit
        low, high = _THRESHOLDS[unit]
        seen += limits
        limit = limits[0]
        if not all(low <= x <= high for x in limits):
            return failed(
                f"The threshold is no number of {unit}, in which {role} is.",
                measured=next(x for x in limits if not low <= x <= high),
                expected=[low, high],
                unit=unit,
                at=at,
            )
        if unit == "dB" and role in _RADAR and node["op"] == "raster.product.threshold" and 0 < limit < 1:
            try:
                plane = look_of(case).every_pixel(node["inputs"][0], scene.grid)
            except CannotLookError:
                continue
            if plane.valid.any() and float(np.quantile(plane.data[plane.valid], 0.99)) < limit:
                return failed(
                    "Nearly all decibels lie below the threshold, which looks like linear power.",
                    measured=limit,
                    expected=f"{10 * np.log10(limit):.1f} dB, if it is power",
                    unit="dB",
                    at=at,
                )
    return (
        passed("The thresholds are in the values' units.", measured=seen, at=at) if seen else not_applicable("no such threshold")
    )


_ADDS = ("raster.summarize.statistic", "raster.summarize.zonal", "raster.summarize.series", "raster.product.composite")


@check(
    "sum_of_what_adds_up",
    catches=("wrong statistic", "wrong unit"),
    reads=("/arguments/nodes", "/inputs"),
    family="consistency",
)
def sum_of_what_adds_up(case: Case) -> Finding:
    """Temperatures and decibels are not added up: the sum hangs on the number of values and on where their scale begins."""
    seen = 0
    for name in case.upstream(case.output):
        node = case.nodes[name]
        params = node["params"]
        if node["op"] not in _ADDS or "sum" not in (params.get("statistic"), params.get("over"), params.get("method")):
            continue
        seen += 1
        for below in case.upstream(name):
            source = case.nodes[below]
            if source["op"] == "raster.product.math":
                return not_applicable("what is added up is a formula's")
            if source["op"] != "raster.product.band":
                continue
            try:
                held = scene_of_node(case, below).bands_with_role(str(source["params"].get("role")))
            except CannotLookError:
                continue
            unit = held[0].unit if len(held) == 1 else ""
            if unit in ("K", "degC", "degF", "dB") and below in node["inputs"]:
                return failed(
                    f"A sum of values in {unit} means nothing; ask for the mean, or for what lies above a base.",
                    measured=unit,
                    expected="a unit that adds up",
                    at=("/arguments/nodes", "/inputs"),
                )
    if not seen:
        return not_applicable("nothing is added up")
    return passed("What is added up adds up.", measured=seen, at=("/arguments/nodes", "/inputs"))
