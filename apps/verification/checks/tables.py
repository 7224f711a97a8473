"""Consistency of tables and single figures of a graph: worked out again from its layers, its series or its equation."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.evidence.observation import LayerRef
from apps.core.geo.grid import Grid, geod_of, transformer
from apps.core.geo.measures import area_of_mask_m2
from apps.verification.case import (
    Case,
    Finding,
    LayerUnreadableError,
    failed,
    inconclusive,
    not_applicable,
    number_of,
    passed,
)
from apps.verification.checks.catalogue import check
from apps.verification.checks.layers import figures_of_nodes, layers_of_nodes, pixels_of
from apps.verification.look import Look, look_of
from apps.verification.pixel_areas import areas_of
from apps.verification.planes import CannotLookError, same_grid
from apps.verification.products import NotFollowedError, syntax_of, value_of_tree

_VALUE, _ITEMS = ("/result/value", "/result/layers"), ("/result/items", "/result/layers")


def _inputs(case: Case, op: str, n: int) -> list[tuple[LayerRef, NDArray[Any], NDArray[np.bool_]]] | str:
    """(layer, values, valid inside the region) of each of the ``n`` inputs of an output node of that operator, where each is kept
    with all of its pixels; else a sentence that says why not."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] != op or len(node["inputs"]) != n:
        return "another operator"
    held = {name: ref for _, ref, name in layers_of_nodes(case)}
    out = []
    for name in node["inputs"]:
        ref = held.get(name)
        if ref is None or ref.grid is None or not case.is_small(ref):
            return "its layers are not at hand"
        if not any(same_grid(ref.grid, s.grid) for s in case.used_scenes):
            return "its layers are not kept with all pixels"
        if case.region is not None and ref.grid.width * ref.grid.height > case.limits.dense_look_px:
            return "the region of so many pixels is not looked at whole"
        try:
            data, valid = pixels_of(case, ref)
            inside = Look(case).region(ref.grid, (0, 0, ref.grid.width, ref.grid.height)) if case.region is not None else None
        except (LayerUnreadableError, CannotLookError) as error:
            return str(error)
        out.append((ref, data, valid if inside is None else valid & inside))
    return out


# --- tables of pixels -------------------------------------------------------------------------------------------------------
@check(
    "transitions_recount",
    catches=("stale artifact", "parts do not sum", "wrong denominator"),
    limits=("area_rel_tolerance", "rel_tolerance"),
    reads=("/result/items", "/result/layers"),
    family="consistency",
)
def transitions_recount(case: Case) -> Finding:
    """Pixels, shares and areas of a table of changes between two class maps are those of the two maps, counted again."""
    found = _inputs(case, "raster.summarize.transitions", 2)
    if isinstance(found, str):
        return not_applicable(found)
    (ref, before, one), (_, after, other) = found
    both = one & other
    codes, counts = np.unique(np.stack([before[both], after[both]]).astype(np.int64), axis=1, return_counts=True)
    pairs = {(int(old), int(new)): int(n) for (old, new), n in zip(codes.T, counts, strict=True)}
    total = int(counts.sum())
    told = {(number_of(i.get("from")), number_of(i.get("to"))): i for i in case.items()}
    if set(told) != set(pairs):
        return failed(
            "The table has other pairs of classes than the maps.",
            measured=[list(k) for k in told],
            expected=[list(k) for k in pairs],
            at=_ITEMS,
        )
    assert ref.grid is not None
    scene = next(s for s in case.used_scenes if same_grid(ref.grid, s.grid))
    shares = {k: n / total for k, n in pairs.items()}
    try:
        is_by_area = Look(case).weights(ref.grid, "share") == "area"
    except CannotLookError as why:
        return not_applicable(str(why))
    if is_by_area:
        m2 = areas_of(ref.grid)
        whole = float(m2[both].sum())
        shares = {(old, new): float(m2[both & (before == old) & (after == new)].sum()) / whole for old, new in pairs}
    room = case.limits.area_rel_tolerance if is_by_area else None
    for (old, new), n in pairs.items():
        item = told[old, new]
        if number_of(item.get("n_px")) != n:
            n_told = item.get("n_px")
            return failed(f"Other pixels went from class {old} to {new}.", measured=n_told, expected=n, unit="px", at=_ITEMS)
        share, area = number_of(item.get("share")), number_of(item.get("area_m2"))
        if share is None or not case.is_same(share, shares[old, new], room):
            return failed(f"The share from class {old} to {new} is not that of its pixels.", measured=share,
                          expected=shares[old, new], at=_ITEMS)
        if area is not None:
            is_even = ref.grid.area_method == "grid" and ref.grid.grid_pixel_area_m2 is not None
            mine = (
                n * float(ref.grid.grid_pixel_area_m2 or 0.0)
                if is_even
                else area_of_mask_m2(both & (before == old) & (after == new), ref.grid, scene.gsd_m).area_m2
            )
            if not case.is_same(area, mine, case.limits.area_rel_tolerance):
                return failed(f"The area from class {old} to {new} is not that of its pixels.", measured=area, expected=mine,
                              unit="m2", at=_ITEMS)
    changed = math.fsum(v for (old, new), v in shares.items() if old != new)
    if case.value is not None and not case.is_same(case.value, changed, room):
        return failed("The share that changed is another one.", measured=case.value, expected=changed, at=_VALUE)
    return passed("The table is that of the two maps.", measured=len(told), expected=len(pairs), at=_ITEMS)


@check(
    "agreement_recomputes",
    catches=("stale artifact", "wrong denominator", "another scene's result"),
    limits=("rel_tolerance",),
    reads=("/result/value", "/result/layers"),
    family="consistency",
)
def agreement_recomputes(case: Case) -> Finding:
    """Correlation, slope, RMSE, MAE and bias of two rasters, and IoU and F1 of two masks, are those of the two layers."""
    found = _inputs(case, "raster.summarize.agreement", 2)
    if isinstance(found, str):
        return not_applicable(found)
    if case.value is None:
        return not_applicable("no figure")
    measure = str(case.nodes[case.output]["params"].get("measure") or "correlation")
    both = found[0][2] & found[1][2]
    x, y = (f[1][both].astype(np.float64) for f in found)
    if x.size < 2:
        return not_applicable("too few pixels are valid in both")
    hits, either = float((x * y).sum()), float((x + y).sum())
    with np.errstate(all="ignore"):
        mine: float | None = {
            "correlation": lambda: float(np.corrcoef(x, y)[0, 1]),
            "slope": lambda: float(np.linalg.lstsq(np.column_stack((x - x.mean(), np.ones(x.size))), y, rcond=None)[0][0]),
            "rmse": lambda: float(np.sqrt(np.square(y - x).mean())),
            "mae": lambda: float(np.abs(y - x).mean()),
            "bias": lambda: float(y.mean() - x.mean()),
            "iou": lambda: hits / (either - hits) if either > hits else math.nan,
            "f1": lambda: 2 * hits / either if either else math.nan,
        }.get(measure, lambda: math.nan)()
    if mine is None or not math.isfinite(mine):
        return not_applicable(f"the measure {measure!r} is not followed here")
    # the layers are kept in single precision
    room = 1e-6 * float(max(np.abs(x).max(), np.abs(y).max())) if measure in ("rmse", "mae", "bias") else 0.0
    if abs(case.value - mine) > room and not case.is_same(case.value, mine):
        return failed(f"The {measure} of the two layers is another one.", measured=case.value, expected=mine, at=_VALUE)
    return passed(f"The {measure} of the two layers is this one.", measured=case.value, expected=mine, at=_VALUE)


@check(
    "histogram_recounts",
    catches=("stale artifact", "parts do not sum", "fill counted as data"),
    reads=("/result/items", "/result/layers"),
    family="consistency",
)
def histogram_recounts(case: Case) -> Finding:
    """The bins of a histogram follow each other and hold as many pixels as the raster has there; its value is the middle of the
    fullest."""
    found = _inputs(case, "raster.summarize.histogram", 1)
    if isinstance(found, str):
        return not_applicable(found)
    items = list(case.items())
    ends = [(number_of(i.get("low")), number_of(i.get("high")), number_of(i.get("n"))) for i in items]
    if not ends or any(v is None for end in ends for v in end):
        return inconclusive("Each bin needs low, high and n.", at=("/result/items",))
    low, high, n = (np.array([end[k] for end in ends], dtype=np.float64) for k in range(3))
    if (low[1:] != high[:-1]).any() or (low >= high).any():
        return failed("The bins do not follow each other.", at=("/result/items",))
    values = np.sort(found[0][1][found[0][2]].astype(np.float64))
    edges = np.append(low, high[-1])
    # a value that lies on an edge but for the layer's single precision may be counted on either side
    eps = 2e-7 * float(max(abs(edges).max(), abs(values[[0, -1]]).max() if values.size else 0.0)) + 1e-12
    first, last = np.searchsorted(values, edges - eps, "left"), np.searchsorted(values, edges + eps, "right")
    least, most = first[1:] - last[:-1], last[1:] - first[:-1]
    wrong = np.flatnonzero((n < np.maximum(least, 0)) | (n > most))
    if wrong.size:
        k = int(wrong[0])
        return failed("A bin holds another number of pixels than the raster has there.", measured=n[k],
                      expected=[int(max(least[k], 0)), int(most[k])], unit="px", at=(f"/result/items/{k}", "/result/layers"))
    middle = (low + high) / 2
    if case.value is not None and not any(case.is_same(case.value, m) for m in middle[n == n.max()]):
        return failed("The value is not the middle of the fullest bin.", measured=case.value, expected=float(middle[n.argmax()]),
                      at=("/result/value", "/result/items"))
    return passed("The bins hold what the raster has there.", measured=float(n.sum()), unit="px", at=_ITEMS)


_WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")


@check(
    "centroid_recomputes",
    catches=("stale artifact", "leaked or shifted mask", "degrees as metres"),
    reads=("/result/items", "/result/value", "/result/layers"),
    family="consistency",
)
def centroid_recomputes(case: Case) -> Finding:
    """The centre of a mask is the mean place of its pixels; its distance and direction are those from the image's middle."""
    found = _inputs(case, "raster.summarize.centroid", 1)
    if isinstance(found, str):
        return not_applicable(found)
    item: dict[str, Any] = next(case.items(), {})
    ref, mask, valid = found[0]
    rows, cols = np.nonzero((mask != 0) & valid)
    if not rows.size or not item:
        return not_applicable("the mask is empty")
    assert ref.grid is not None
    mine: dict[str, tuple[float, float]] = {
        "column": (float(cols.mean()) + 0.5, 1e-3),
        "row": (float(rows.mean()) + 0.5, 1e-3),
    }
    wind = ""
    if ref.grid.crs is not None:
        more, wind = _placed(ref.grid, mine["column"][0], mine["row"][0])
        mine |= more
    for name, (value, room) in mine.items():
        told = number_of(item.get(name))
        if told is None or abs(told - value) > room:
            return failed(f"The mask's centre has another {name}.", measured=told, expected=value, at=_ITEMS)
    named = case.observation.result.value
    if wind and isinstance(named, str) and named and (named != wind or item.get("direction") not in (None, wind)):
        return failed("The centre lies in another direction.", measured=named, expected=wind, at=_VALUE)
    return passed("The centre is that of the mask's pixels.", measured=mine["column"][0], at=_ITEMS)


def _placed(grid: Grid, col: float, row: float) -> tuple[dict[str, tuple[float, float]], str]:
    """({what: (value, room)}, wind) of a place on the ground, seen from the middle of the grid; '' on the border of two winds."""
    assert grid.crs is not None
    t = transformer(grid.crs, "EPSG:4326")
    lon, lat = t.transform(*grid.xy(col, row))
    bearing, _, metres = geod_of("EPSG:4326").inv(*t.transform(*grid.xy(grid.width / 2, grid.height / 2)), lon, lat)
    eighth = (bearing % 360) / 45
    sure = metres > 0 and abs(eighth - round(eighth)) < 0.499
    room = 0.1 + 1e-5 * metres
    figures = {"longitude": (float(lon), 1e-6), "latitude": (float(lat), 1e-6), "distance_m": (float(metres), room)}
    return figures, _WINDS[round(eighth) % 8] if sure else ""


# --- analyses of a series ---------------------------------------------------------------------------------------------------
@check(
    "analysis_recomputes",
    catches=("stale artifact", "wrong slope", "one date for many"),
    limits=("rel_tolerance",),
    reads=("/result/value", "/result/items"),
    family="consistency",
)
def analysis_recomputes(case: Case) -> Finding:
    """Sen's slope, autocorrelation, seasonality, spikes and changes of a series are those of its items, by sums written out; the
    parts of STL add up, and its strength follows from them."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] != "raster.summarize.series_analysis":
        return not_applicable("no analysis of a series")
    analysis, params = str(node["params"].get("analysis") or ""), node["params"]
    items = list(case.items())
    values = [number_of(i.get("value")) for i in items]
    y = np.array([v for v in values if v is not None], dtype=np.float64)
    if y.size < 4 or y.size < len(values) or len(items) >= 1000:
        return not_applicable("the series is not at hand whole")
    at = ("/result/value", "/result/items")
    told = figures_of_nodes(case).get(case.output, (0, {}))[1]
    if analysis == "change_point":
        return _break_of(case, items, y, at)
    rule = _ANALYSES.get(analysis)
    if rule is None or case.value is None:
        return not_applicable(f"{analysis} is not worked out here")
    if analysis == "sen" and not case.observation.result.unit.endswith("/date"):
        return not_applicable("the slope is in another unit")
    mine = rule(y, params, told, items)
    if isinstance(mine, str):
        return failed(mine, measured=case.value, at=at) if mine else not_applicable("the record does not tell enough")
    if not case.is_same(case.value, mine):
        return failed(f"The items have another figure ({analysis}).", measured=case.value, expected=mine, at=at)
    return passed(f"The items have this figure ({analysis}).", measured=case.value, expected=mine, at=at)


Rule = Callable[[NDArray[np.float64], dict[str, Any], dict[str, Any], list[dict[str, Any]]], "float | str"]


def _sen(y: NDArray[np.float64], params: dict[str, Any], told: dict[str, Any], items: list[dict[str, Any]]) -> float | str:
    slopes = [(y[j] - y[i]) / (j - i) for i in range(y.size) for j in range(i + 1, y.size)]
    return float(np.median(slopes))


def _memory(y: NDArray[np.float64], params: dict[str, Any], told: dict[str, Any], items: list[dict[str, Any]]) -> float | str:
    lag, d = int(params.get("lag") or 1), y - y.sum() / y.size
    return float(sum(d[i] * d[i + lag] for i in range(y.size - lag)) / sum(v * v for v in d))


def _season(y: NDArray[np.float64], params: dict[str, Any], told: dict[str, Any], items: list[dict[str, Any]]) -> float | str:
    n, x = y.size, np.arange(y.size)
    slope, base = np.polyfit(x, y, 1)
    d = y - slope * x - base
    turns = 2 * np.pi * np.arange(1, n // 2 + 1)[:, None] * x / n
    power = 2 * ((d * np.cos(turns)).sum(axis=1) ** 2 + (d * np.sin(turns)).sum(axis=1) ** 2)
    if n % 2 == 0:  # the fastest wave has no second half
        power[-1] /= 2
    period = number_of(params.get("period"))
    k = round(n / period) if period else int(power.argmax()) + 1
    return float(power[k - 1] / power.sum()) if 1 <= k <= power.size and power.sum() else ""


def _spikes(y: NDArray[np.float64], params: dict[str, Any], told: dict[str, Any], items: list[dict[str, Any]]) -> float | str:
    mirrored = np.concatenate((y[2:0:-1], y, y[-2:-4:-1]))
    rest = y - np.array([np.sort(mirrored[i : i + 5])[2] for i in range(y.size)])
    # 0.6745: the quartile of the normal distribution
    spread = float(np.median(np.abs(rest - np.median(rest)))) / 0.674489750196082
    limit = (number_of(params.get("factor")) or 3.0) * spread if spread > 0 else 0.0
    near = np.abs(np.abs(rest) - limit) <= 1e-9 * max(1.0, float(np.abs(y).max()))
    return "" if near.any() and limit > 0 else float((np.abs(rest) > limit).sum())


def _changes(y: NDArray[np.float64], params: dict[str, Any], told: dict[str, Any], items: list[dict[str, Any]]) -> float | str:
    """The number of changes of the mean, where the told places cost no more than the best cut of the whole series."""
    raw = told.get("starts_at")
    starts = [int(v) for v in raw if isinstance(v, int)] if isinstance(raw, (list, tuple)) else None
    if starts is None:
        return ""
    n, least = y.size, int(params.get("least_dates") or 2)
    steps = np.diff(y)
    noise = float(np.median(np.abs(steps - np.median(steps)))) / 0.674489750196082 / math.sqrt(2)
    if noise <= 0:
        return ""
    penalty = 4 * noise * noise * math.log(n)
    sums, squares = np.append(0, np.cumsum(y)), np.append(0, np.cumsum(y * y))

    def cost(a: int, b: int) -> float:
        return float(squares[b] - squares[a] - (sums[b] - sums[a]) ** 2 / (b - a))

    best = [0.0] + [math.inf] * n
    for b in range(least, n + 1):
        best[b] = min((best[a] + cost(a, b) + (penalty if a else 0.0) for a in range(b - least + 1)), default=math.inf)
    edges = [0, *starts, n]
    if any(b - a < least for a, b in pairwise(edges)):
        return "The changes lie out of order, or nearer to each other than asked."
    mine = sum(cost(a, b) for a, b in pairwise(edges)) + penalty * len(starts)
    if mine > best[n] + 0.25 * penalty:
        return "Other places of change describe the series better."
    return float(len(starts))


def _parts(y: NDArray[np.float64], params: dict[str, Any], told: dict[str, Any], items: list[dict[str, Any]]) -> float | str:
    columns = [[number_of(i.get(name)) for i in items] for name in ("trend", "seasonal", "rest")]
    if any(v is None for c in columns for v in c):
        return ""
    trend, seasonal, rest = np.array(columns, dtype=np.float64)
    if np.abs(trend + seasonal + rest - y).max() > 1e-6 * max(1e-9, float(np.abs(y).max())):
        return "Trend, season and rest do not add up to the series."
    whole = float((seasonal + rest).var())
    return max(0.0, 1 - float(rest.var()) / whole) if whole > 0 else 0.0


_ANALYSES: dict[str, Rule] = {
    "sen": _sen,
    "autocorrelation": _memory,
    "seasonality": _season,
    "spikes": _spikes,
    "change_points": _changes,
    "stl": _parts,
}


def _break_of(case: Case, items: list[dict[str, Any]], y: NDArray[np.float64], at: tuple[str, ...]) -> Finding:
    """Pettitt's (1979) point: the cut between whose sides most pairs are in one order."""
    order = np.sign(y[:, None] - y[None, :])
    strength = [abs(float(order[:k, k:].sum())) for k in range(1, y.size)]
    days = [str(items[k + 1].get("date"))[:10] for k, s in enumerate(strength) if s >= max(strength) - 1e-9]
    if str(case.observation.result.value)[:10] not in days:
        return failed("The series changes at another date.", measured=str(case.observation.result.value), expected=days, at=at)
    return passed("The series changes at this date.", measured=str(case.observation.result.value), at=at)


# --- equations --------------------------------------------------------------------------------------------------------------
@check(
    "solutions_solve",
    catches=("stale artifact", "rounded to zero"),
    reads=("/result/items", "/result/value", "/arguments"),
    family="consistency",
)
def solutions_solve(case: Case) -> Finding:
    """Each solution of an equation, put back into it with the values that were found, solves it; the result is the one that was
    to be picked."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] != "value.solve":
        return not_applicable("no equation")
    params, told = node["params"], figures_of_nodes(case)
    left, _, right = str(params.get("equation") or "").partition("=")
    unknown = str(params.get("unknown") or "")
    raw = {n: number_of(told[n][1].get("value")) for n in node["inputs"] if n in told}
    numbers = {n: v for n, v in raw.items() if v is not None}
    if len(numbers) < len(node["inputs"]):
        return inconclusive("The values that the equation rests on are not on record.", at=("/evidence/intermediate/nodes",))
    at = ("/result/items", "/arguments")
    solutions = [number_of(i.get("solution")) for i in case.items()]
    found = [v for v in solutions if v is not None]
    if not found or len(found) < len(solutions):
        return inconclusive("The solutions are not on record.", at=("/result/items",))
    try:
        one, other = syntax_of(left), syntax_of(right)

        def apart(x: float) -> float:
            values = {**numbers, unknown: np.float64(x)}
            with np.errstate(all="ignore"):
                return float(value_of_tree(one, values)) - float(value_of_tree(other, values))

        for x in found:
            step = 1e-4 * max(abs(x), 1e-6)
            # of a solution's close neighbours none comes nearer to 0
            if not abs(apart(x)) <= 0.05 * max(abs(apart(x - step)), abs(apart(x + step))):
                return failed("A solution does not solve the equation.", measured=x, expected="0", at=at)
    except NotFollowedError as why:
        return not_applicable(str(why))
    between = params.get("between")
    if isinstance(between, (list, tuple)) and len(between) == 2 and not all(between[0] <= x <= between[1] for x in found):
        return failed("A solution lies outside of the interval asked for.", measured=found, expected=list(between), at=at)
    pick = max(found) if params.get("pick") == "max" else min(found)
    if case.value is not None and not case.is_same(case.value, pick):
        return failed("The result is not the solution that was to be picked.", measured=case.value, expected=pick, at=at)
    return passed("The solutions solve the equation.", measured=found, at=at)


# --- lists ------------------------------------------------------------------------------------------------------------------
@check(
    "parts_make_the_whole",
    catches=("parts do not sum", "stale artifact"),
    limits=("rel_tolerance",),
    reads=("/result/value", "/result/items", "/evidence/intermediate/nodes"),
    family="consistency",
)
def parts_make_the_whole(case: Case) -> Finding:
    """Areas of classes add up to the figure beside them; pixels of classes and of a drawn histogram to the valid ones; what is
    counted of scenes and zones is what the call names."""
    node = case.nodes.get(case.output)
    if node is None:
        return not_applicable("no graph")
    items, at = list(case.items()), ("/result/value", "/result/items")
    pairs: list[tuple[str, float, float]] = []
    told = figures_of_nodes(case)
    if node["op"] in ("raster.summarize.class_areas", "image.chart") and 0 < len(items) < 1000:
        source = case.output if node["op"] != "image.chart" else (node["inputs"] or [""])[0]
        op = case.nodes.get(source, {}).get("op")
        n = number_of(told.get(source, (0, {}))[1].get("n_valid"))
        areas = [number_of(i.get("area")) for i in items]
        if op == "raster.summarize.class_areas" and case.value is not None and None not in areas:
            pairs.append(("area", case.value, sum(v for v in areas if v is not None)))
        column = {"raster.summarize.class_areas": "n_px", "raster.summarize.histogram": "n"}.get(str(op))
        if n is not None and column is not None:
            pairs.append(("number of pixels", sum(number_of(i.get(column)) or 0.0 for i in items), n))
    elif node["op"] == "asset.scene" and case.value is not None:
        pairs.append(("number of scenes", case.value, 1.0))
    elif node["op"] == "vector.zones" and case.value is not None:
        n_zones = _zones_named(node["params"])
        pairs += [("number of zones", case.value, float(n_zones))] if n_zones is not None else []
    elif node["op"] == "asset.catalog" and case.value is not None and len(items) < 1000:
        pairs.append(("number of images", case.value, float(len(items))))
    for what, mine, theirs in pairs:
        if not case.is_same(mine, theirs):
            return failed(f"The parts make another {what} than is told.", measured=mine, expected=theirs, at=at)
    if not pairs:
        return not_applicable("no list that adds up")
    return passed("The parts make the whole.", measured=[p[0] for p in pairs], at=at)


def _zones_named(params: dict[str, Any]) -> int | None:
    """How many zones a call names by its GeoJSON; None where that is not followed."""
    held = params.get("geojson")
    if not isinstance(held, dict) or params.get("skip_others"):
        return None
    features = held.get("features") if held.get("type") == "FeatureCollection" else [held]
    if not isinstance(features, (list, tuple)) or not all(isinstance(f, dict) for f in features):
        return None
    if params.get("outside") or params.get("dissolve"):
        return 1
    key = str(params.get("name") or "name")
    names = [str((f.get("properties") or {}).get(key, f"zone {k}")) for k, f in enumerate(features, 1)]
    only = params.get("only")
    chosen = [n for n in names if not only or n in only]
    return len(set(chosen)) if params.get("group") else len(chosen)


@check(
    "colours_end_at_percentiles",
    catches=("stale artifact", "fill counted as data", "scale or offset twice or never"),
    reads=("/evidence/intermediate/nodes", "/inputs"),
    family="consistency",
)
def colours_end_at_percentiles(case: Case) -> Finding:
    """Where no ends were asked for, the first and last colour of a picture stand at the 2nd and 98th percentile of the source's
    values."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] != "image.colours" or len(node["inputs"]) != 1:
        return not_applicable("no picture in colours")
    place, told = figures_of_nodes(case).get(case.output, (0, {}))
    at, seen = (f"/evidence/intermediate/nodes/{place}", "/inputs"), []
    low, high = number_of(told.get("low")), number_of(told.get("high"))
    if low is None or high is None:
        return inconclusive("The values of the first and last colour are not on record.", at=at)
    try:
        look = look_of(case)
        values, step = look.all_of(node["inputs"][0])
        if values.size < 2 or case.is_same(high - low, 1.0):
            return not_applicable("a raster of one value is spread about it")
        room = 2e-4 * float(np.ptp(values)) + 1e-9
        for name, mine, percent in (("low", low, 2.0), ("high", high, 98.0)):
            if number_of(node["params"].get(name)) is not None:
                continue
            truth = look.ranked(values, step, mine, percent)
            if abs(mine - truth) > room:
                return failed(f"The colours' {name} end is not that percentile of the source's values.", measured=mine,
                              expected=truth, at=at)
            seen.append(name)
    except CannotLookError as why:
        return not_applicable(str(why))
    if not seen:
        return not_applicable("both ends were asked for")
    return passed("The colours end at the percentiles of the source's values.", measured=[low, high], at=at)


@check(
    "drawn_as_listed",
    catches=("stale artifact",),
    reads=("/result/items", "/evidence/intermediate/nodes"),
    family="consistency",
)
def drawn_as_listed(case: Case) -> Finding:
    """The list beside an annotated picture says the same as the record of what was drawn."""
    if case.nodes.get(case.output, {}).get("op") != "image.annotate":
        return not_applicable("no annotated picture")
    place, told = figures_of_nodes(case).get(case.output, (0, {}))
    drawn = told.get("drawn")
    at = ("/result/items", f"/evidence/intermediate/nodes/{place}/drawn")
    if not isinstance(drawn, (list, tuple)):
        return inconclusive("What was drawn is not on record.", at=at[1:])
    for one, other in zip(case.items(), drawn, strict=False):
        if not isinstance(other, dict) or any(one.get(k) != other.get(k) for k in {*one, *other}):
            return failed("The list says other things than were drawn.", at=at)
    n = len(case.observation.result.items)
    if n != min(1000, len(drawn)):
        return failed("The list has other entries than were drawn.", measured=n, expected=len(drawn), at=at)
    return passed("The list says what was drawn.", measured=len(drawn), at=at)
