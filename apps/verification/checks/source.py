"""Consistency of values with the source's own pixels, by code of the verifier's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from apps.core.geo.grid import Grid
from apps.core.geo.measures import area_of_mask_m2
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.verification.arithmetic import value_of
from apps.verification.case import Case, Finding, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.radiometry import statistic_of
from apps.verification.estimates import Estimate, estimate
from apps.verification.look import Look, look_of
from apps.verification.measured import value_si, weights_of_node, wrong_weights
from apps.verification.pixel_areas import areas_of
from apps.verification.planes import CannotLookError
from apps.verification.scattered import places_of
from apps.verification.sights import scene_of_node, step_of
from apps.verification.units import factor


@check(
    "bands_match_source",
    catches=("fill counted as data", "scale or offset twice or never", "another scene's result", "clipped region"),
    limits=("dense_look_px", "full_look_px", "sample_sigmas", "sample_floor"),
    reads=("/result/items", "/inputs"),
    family="consistency",
)
def bands_match_source(case: Case) -> Finding:
    """The mean and deviation told of each band are those of the source's pixels, by code of the verifier's own."""
    if case.observation.tool != "perceive" or case.arguments.get("mode") != "evidence" or len(case.used_scenes) != 1:
        return not_applicable("no table of bands")
    scene = case.used_scenes[0]
    at = ("/result/items", "/inputs")
    seen = 0
    try:
        look = look_of(case)
        for item in case.observation.result.items[:MOST_BANDS]:
            band = number_of(item.get("band"))
            if band is None or not number_of(item.get("n_valid")):
                continue
            index = int(band)
            values, step = look.gather(lambda window, index=index: look.pixels(scene, (index,), window), scene.grid)  # type: ignore[misc]
            for name in ("mean", "std"):
                mine = number_of(item.get(name))
                if mine is None:
                    return inconclusive(f"The {name} of band {index} is not on record.", at=at)
                truth = estimate(values, name, step)
                if not is_near(case, mine, truth, name):
                    return failed(
                        f"The source's pixels of band {index} have another {name}.",
                        measured=mine,
                        expected=truth.value,
                        unit=str(item.get("unit") or "1"),
                        at=at,
                        scores={"look_agreement": closeness(mine, truth)},
                    )
            seen += 1
    except CannotLookError as why:
        return not_applicable(str(why))
    if not seen:
        return not_applicable("no band with valid pixels")
    return passed(f"{seen} bands have these means and deviations.", measured=seen, at=at, scores={"look_agreement": 1.0})


def is_near(case: Case, value: float, truth: Estimate, statistic: str) -> bool:
    """Whether a value is what the source's pixels give, as exactly as those that were looked at can tell."""
    spread = max(truth.spread, abs(truth.value) * 1e-3, 1e-9)
    if truth.is_exact:
        return abs(value - truth.value) <= max(
            case.limits.rel_tolerance * abs(truth.value), 2e-4 * spread, case.limits.abs_tolerance
        )
    if statistic == "min":
        return value <= truth.minimum + 1e-6 * spread
    if statistic == "max":
        return value >= truth.maximum - 1e-6 * spread
    if statistic in ("sum", "range", "variance", "cv", "iqr", "skewness", "kurtosis"):
        return True
    return abs(value - truth.value) <= case.limits.sample_sigmas * truth.error + case.limits.sample_floor * spread


def _calculation_matches_source(case: Case, node: dict[str, Any]) -> Finding:
    """Arithmetic of statistics, each worked out from all of the source's pixels."""
    if case.value is None:
        return not_applicable("no value of a graph")
    names: dict[str, float] = {}
    try:
        look = look_of(case)
        for name in node["inputs"]:
            under = case.nodes.get(name, {})
            statistic = str(under.get("params", {}).get("statistic") or "mean")
            if under.get("op") != "raster.summarize.statistic" or len(under.get("inputs", ())) != 1:
                return not_applicable("arithmetic of other values than statistics")
            source = under["inputs"][0]
            grid = scene_of_node(case, source).grid
            plane = look.every_pixel(source, grid)
            weights, wrong = weights_of_node(case, grid, name) if statistic == "mean" else ("pixels", None)
            if wrong is not None:
                return wrong
            areas = areas_of(grid)[plane.valid] if weights == "area" else None
            names[name] = estimate(plane.data[plane.valid], statistic, areas=areas).value
    except CannotLookError as why:
        return not_applicable(str(why))
    wanted = value_of(str(node["params"].get("expression") or ""), names)
    if wanted is None:
        return not_applicable("the expression is not followed")
    at = ("/result/value", "/inputs")
    if not case.is_same(case.value, wanted):
        return failed(
            "The source's pixels give another value by the verifier's own computation.",
            measured=case.value,
            expected=wanted,
            at=at,
            scores={"look_agreement": 0.0},
        )
    return passed(
        "The source's pixels give this value.", measured=case.value, expected=wanted, at=at, scores={"look_agreement": 1.0}
    )


@check(
    "value_matches_source",
    catches=(
        "fill counted as data",
        "scale or offset twice or never",
        "wrong band mapping",
        "wrong statistic",
        "another scene's result",
        "clipped region",
        "day for night",
        "swapped before and after",
    ),
    limits=("dense_look_px", "full_look_px", "sample_sigmas", "sample_floor"),
    reads=("/result/value", "/inputs"),
    family="consistency",
)
def value_matches_source(case: Case) -> Finding:
    """The value recomputed from the source's pixels with code of the verifier's own: all of a small scene or region, else
    pixels by lot, one in each cell of it."""
    node = case.nodes.get(case.output)
    if node is not None and node["op"] == "value.calculate":
        return _calculation_matches_source(case, node)
    if node is None or case.value is None or case.kind not in ("statistic", "ratio", "area"):
        return not_applicable("no value of a graph")
    if len(node["inputs"]) != 1:
        return not_applicable("a value of several rasters")
    source, op = node["inputs"][0], node["op"]
    statistic = statistic_of(case)
    wrong: Finding | None = None
    try:
        look = look_of(case)
        scene = scene_of_node(case, source)
        if op == "raster.summarize.statistic" and statistic:
            weights, wrong = weights_of_node(case, scene.grid) if statistic == "mean" else ("pixels", None)
            truth = look.statistic(source, statistic, weights)
            value, unit = case.value, case.observation.result.unit
        elif op == "raster.summarize.share":
            weights, wrong = weights_of_node(case, scene.grid)
            truth = look.statistic(source, "share", weights)
            value, unit, statistic = case.value * (factor(case.observation.result.unit) or 1.0), "1", "mean"
        elif op == "raster.summarize.area":
            truth = _area_from_source(case, look, scene, source)
            value, unit, statistic = value_si(case), "m2", "mean"
        else:
            return not_applicable(f"the second look does not follow {op}")
    except CannotLookError as why:
        return not_applicable(str(why))
    if wrong is not None:
        return wrong
    at = ("/result/value", "/inputs")
    score = closeness(value, truth)
    ok = is_near(case, value, truth, statistic)
    how = f"all {truth.n_valid} valid pixels" if truth.is_exact else f"{truth.n_valid} sampled pixels"
    if not ok:
        return failed(
            f"{how.capitalize()} of the source give another value by the verifier's own computation.",
            measured=value,
            expected=truth.value,
            unit=unit,
            at=at,
            scores={"look_agreement": score},
        )
    return passed(
        f"{how.capitalize()} of the source give this value.",
        measured=value,
        expected=truth.value,
        unit=unit,
        at=at,
        scores={"look_agreement": score},
    )


def closeness(value: float, truth: Estimate) -> float:
    """1 for a value that is what the source's pixels give, less (0 at the least) the farther it lies from it."""
    room = 0.02 * max(truth.spread, 1e-9) + 0.005 * abs(truth.value) + 3 * (0.0 if math.isinf(truth.error) else truth.error)
    return float(1 / (1 + (abs(value - truth.value) / max(room, 1e-12)) ** 2))


def areas_by_row(grid: Grid, gsd_m: float | None, window: Window, step: int) -> NDArray[np.float64]:
    """Area in m² of each pixel of the window that is looked at, by its row. CannotLookError where they differ along a row."""
    places = places_of(window, step)
    if grid.crs is None:
        return np.full(places.rows.shape, (gsd_m or 0.0) ** 2)
    _, at, areas = grid.geodesic_lattice
    if np.ptp(areas, axis=1).max() > 0.02 * areas.max() and step > 1:
        raise CannotLookError("pixels differ in area along a row of this grid, and only some of them are looked at")
    return np.asarray(np.interp(window[1] + places.rows, at, areas.mean(axis=1)))


def _area_from_source(case: Case, look: Look, scene: SceneInfo, source: str) -> Estimate:
    """Area in m² of True pixels, from the source."""
    grid = scene.grid
    window = look.extent(grid)
    step = step_of(case, window)
    if grid.crs is None and scene.gsd_m is None:
        raise CannotLookError("the scene's pixels have no size on the ground")
    plane = look.node(source, window)
    region = look.region(grid, window)
    seen = plane.valid if region is None else plane.valid & region
    keep = seen & (plane.data > 0)
    n = int(seen.sum())
    areas = areas_by_row(grid, scene.gsd_m, window, step)
    pixel = float(areas.mean())
    everything = pixel * window[2] * window[3]
    if step == 1:
        area = area_of_mask_m2(keep, grid.window(*window), scene.gsd_m).area_m2
        return Estimate(area, True, 0.0, n, everything * 1e-3, 0.0, everything)
    share = estimate((keep * (areas / pixel)).ravel(), "mean", step)
    return Estimate(everything * share.value, False, everything * share.error, n, everything * share.spread, 0.0, everything)


@check(
    "series_matches_source",
    catches=("one date for many", "another scene's result", "fill counted as data", "scale or offset twice or never"),
    limits=("full_look_px",),
    reads=("/result/items", "/inputs"),
    family="consistency",
)
def series_matches_source(case: Case) -> Finding:
    """Items of a series recomputed from their own scenes' pixels; of long series, twelve spread over it."""
    node = case.nodes.get(case.output)
    is_series = case.kind in ("series", "trend", "date") or (node or {}).get("op") == "raster.summarize.series_analysis"
    if node is None or not is_series or not case.observation.result.items:
        return not_applicable("no series")
    statistic = statistic_of(case) or "mean"
    by_scene = {}
    for name in node["inputs"]:
        try:
            by_scene[scene_of_node(case, name).scene_id] = name
        except CannotLookError:
            continue
    items = [
        (i, item)
        for i, item in enumerate(case.items())
        if str(item.get("scene")) in by_scene and number_of(item.get("value")) is not None
    ]
    if not items:
        return not_applicable("the items do not name their scenes")
    step = max(1, len(items) // 12)
    worst = 1.0
    seen = 0
    try:
        look = look_of(case)
        for i, item in items[::step]:
            name = by_scene[str(item["scene"])]
            asked = str(node["params"].get("weights") or "auto")
            told = str(item.get("weights") or "pixels") if statistic == "mean" else ""
            weights = look.weights(scene_of_node(case, name).grid, statistic, asked, told)
            if (wrong := wrong_weights(told, weights, f"/result/items/{i}/weights")) is not None:
                return wrong
            truth = look.statistic(name, statistic, weights)
            value = float(number_of(item["value"]) or 0.0)
            seen += 1
            worst = min(worst, closeness(value, truth))
            if not is_near(case, value, truth, statistic):
                return failed(
                    f"The item of {str(item.get('date'))[:10]} is not what its scene's pixels give.",
                    measured=value,
                    expected=truth.value,
                    unit=case.observation.result.unit,
                    at=(f"/result/items/{i}/value",),
                    scores={"look_agreement": worst},
                )
    except CannotLookError as why:
        return not_applicable(str(why))
    return passed(
        f"{seen} items are what their scenes' pixels give.",
        measured=seen,
        unit="items",
        at=("/result/items",),
        scores={"look_agreement": worst},
    )


# Bands of a table that are worked out again.
MOST_BANDS = 12
