"""What products of rasters are, in the verifier's own words: formulas over planes of pixels, shared with no tool.

A plane is (values, where they mean something), both (rows, columns), float64 and bool. ``NotFollowedError`` where a product or
its parameters are not known here.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from apps.verification.formulas import INDICES, ROLES

Array = NDArray[np.float64]
Pixels = tuple[Array, NDArray[np.bool_]]


class NotFollowedError(Exception):
    """The product is not followed; the reason is a sentence."""


# --- band math --------------------------------------------------------------------------------------------------------------
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Lt: np.less,
    ast.LtE: np.less_equal,
    ast.Gt: np.greater,
    ast.GtE: np.greater_equal,
    ast.Eq: np.equal,
    ast.NotEq: np.not_equal,
}
_FUNCTIONS: dict[str, tuple[int, Callable[..., Any]]] = {
    "abs": (1, np.abs),
    "sqrt": (1, np.sqrt),
    "exp": (1, np.exp),
    "log": (1, np.log),
    "log10": (1, np.log10),
    "sin": (1, np.sin),
    "cos": (1, np.cos),
    "tan": (1, np.tan),
    "asin": (1, np.arcsin),
    "acos": (1, np.arccos),
    "atan": (1, np.arctan),
    "floor": (1, np.floor),
    "min": (2, np.minimum),
    "max": (2, np.maximum),
    "where": (3, lambda c, a, b: np.where(np.asarray(c) != 0, a, b)),
}
_MAX_LENGTH = 500


def syntax_of(expression: str) -> ast.expr:
    """Python's syntax tree of an expression of band math; nothing is executed. NotFollowedError where it is none."""
    if len(expression) > _MAX_LENGTH:
        raise NotFollowedError("the expression is too long")
    try:
        return ast.parse(expression.strip().replace("^", "**"), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise NotFollowedError("the expression is not read") from error


def names_in(tree: ast.expr) -> list[str]:
    """Names of an expression's values, each once, without its functions."""
    called = {id(n.func) for n in ast.walk(tree) if isinstance(n, ast.Call)}
    return list(dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called))


def value_of_tree(tree: ast.expr, values: Mapping[str, Any]) -> Any:
    """The value of an expression of numbers or arrays by name; comparisons give 1 and 0. NotFollowedError for anything else."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, (int, float)) and not isinstance(tree.value, bool):
        return np.float64(tree.value)
    if isinstance(tree, ast.Name) and tree.id in values:
        return values[tree.id]
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, (ast.UAdd, ast.USub)):
        inner = value_of_tree(tree.operand, values)
        return -inner if isinstance(tree.op, ast.USub) else inner
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](value_of_tree(tree.left, values), value_of_tree(tree.right, values))
    if isinstance(tree, ast.Compare) and len(tree.ops) == 1 and type(tree.ops[0]) in _OPERATORS:
        pair = value_of_tree(tree.left, values), value_of_tree(tree.comparators[0], values)
        return np.asarray(_OPERATORS[type(tree.ops[0])](*pair)).astype(np.float64)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
        n, function = _FUNCTIONS.get(tree.func.id, (0, abs))
        if n and len(tree.args) == n:
            return function(*(value_of_tree(a, values) for a in tree.args))
    raise NotFollowedError("the expression holds what is not followed")


def math_of(expression: str, planes: Mapping[str, Pixels]) -> Pixels:
    """Band math over planes by name: undefined where any of the named planes is, or the result is no finite number."""
    tree = syntax_of(expression)
    names = names_in(tree)
    if not names or any(n not in planes for n in names):
        raise NotFollowedError("the expression names what is not at hand")
    valid = np.logical_and.reduce([planes[n][1] for n in names])
    with np.errstate(all="ignore"):
        data = np.broadcast_to(np.asarray(value_of_tree(tree, {n: planes[n][0] for n in names}), dtype=np.float64), valid.shape)
    return data, valid & np.isfinite(data)


def is_formula_of(name: str, expression: str) -> bool | None:
    """Whether a formula over bands gives the index of that name, tried on three pixels; None where it cannot be followed. A name
    before an equals sign, and capitals, are no part of it."""
    expression = expression.rsplit("=", 1)[-1].lower()
    pixels = {r: np.array([0.11, 0.37, 0.62]) * (1 + 0.21 * k) for k, r in enumerate(sorted(ROLES))}
    try:
        names = names_in(syntax_of(expression))
        if not set(names) <= set(pixels):
            return None
        valid = np.ones(3, dtype=bool)
        made, _ = math_of(expression, {n: (pixels[n], valid) for n in names})
        with np.errstate(all="ignore"):
            wanted = INDICES[name].compute({r: pixels[r] for r in INDICES[name].roles})
    except NotFollowedError:
        return None
    return bool(np.allclose(np.asarray(made, dtype=float), wanted, rtol=1e-4, atol=1e-6))


# --- classes and cover ------------------------------------------------------------------------------------------------------
# Limits of classes that have a name.
PRESETS: dict[str, tuple[float, ...]] = {
    "burn_severity": (-0.25, -0.1, 0.1, 0.27, 0.44, 0.66),  # Key and Benson 2006
    "ndvi_cover": (0.0, 0.2, 0.4, 0.6),
    "drought_tvdi": (0.2, 0.4, 0.6, 0.8),
    "slope_degrees": (2.0, 5.0, 15.0, 30.0),
}


def classes_of(plane: Pixels, params: Mapping[str, Any]) -> Pixels:
    """Class numbers from 1: one more than the limits that a value reaches."""
    limits = PRESETS.get(str(params.get("preset") or "")) or tuple(params.get("breaks") or ())
    if not limits or any(isinstance(v, bool) or not isinstance(v, (int, float)) for v in limits):
        raise NotFollowedError("the limits of the classes are not known")
    reached = np.zeros(plane[0].shape)
    with np.errstate(invalid="ignore"):
        for limit in limits:
            reached += plane[0] >= limit
    return reached + 1, plane[1]


def cover_of(plane: Pixels, soil: float, full: float) -> Pixels:
    """Gutman and Ignatov 1998: where between bare soil and full cover an NDVI lies, from 0 to 1."""
    return np.minimum(1.0, np.maximum(0.0, (plane[0] - soil) / (full - soil))), plane[1]


def dryness_of(ndvi: Pixels, heat: Pixels, edges: Sequence[float], least_ndvi: float) -> Pixels:
    """Sandholt et al. 2002: where a temperature lies between the wet and the dry edge at its NDVI, from 0 to 1."""
    dry_slope, dry_base, wet_slope, wet_base = edges
    dry, wet = dry_slope * ndvi[0] + dry_base, wet_slope * ndvi[0] + wet_base
    with np.errstate(all="ignore"):
        data = (heat[0] - wet) / (dry - wet)
        valid = ndvi[1] & heat[1] & (dry > wet) & (ndvi[0] >= least_ndvi) & np.isfinite(data)
    return np.clip(np.nan_to_num(data), 0, 1), valid


# --- several dates ----------------------------------------------------------------------------------------------------------
def _held(planes: Sequence[Pixels]) -> Array:
    """(dates, rows, columns) with NaN where a date is invalid."""
    return np.stack([np.where(valid, data, np.nan) for data, valid in planes])


def _alike(known: NDArray[np.bool_]) -> list[tuple[NDArray[np.bool_], Any]]:
    """(dates, columns) of the columns of a table that are valid on the same dates; few kinds of them as a rule."""
    if known.all():
        return [(known[:, 0], slice(None))] if known.shape[1] else []
    if len(known) <= 62:
        code = (known.astype(np.int64) << np.arange(len(known))[:, None]).sum(axis=0)
        _, first, which = np.unique(code, return_index=True, return_inverse=True)
    else:
        _, first, which = np.unique(known, axis=1, return_index=True, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(which.ravel()))[:-1])
    return [(known[:, k], at) for k, at in zip(first, parts, strict=True) if known[:, k].any()]


def _of_columns(held: Array, function: Callable[[Array], Any]) -> Array:
    """A function of the valid dates of each pixel; pixels with the same dates valid are taken together."""
    flat = held.reshape(len(held), -1)
    out = np.full(flat.shape[1], np.nan)
    for dates, at in _alike(np.isfinite(flat)):
        out[at] = function(flat[dates][:, at])
    return out.reshape(held.shape[1:])


def composite_of(planes: Sequence[Pixels], params: Mapping[str, Any]) -> Pixels:
    """Many dates as one: mean, median, percentile, least, greatest, sum, deviation (population) or number of valid dates."""
    method, held = str(params.get("method") or "median"), _held(planes)
    n = np.isfinite(held).sum(axis=0)
    if method == "count":
        return n.astype(np.float64), np.ones(n.shape, dtype=bool)
    q = params.get("percentile")
    functions: dict[str, Callable[[Array], Any]] = {
        "mean": lambda v: v.mean(axis=0),
        "median": lambda v: np.median(v, axis=0),
        "min": lambda v: v.min(axis=0),
        "max": lambda v: v.max(axis=0),
        "sum": lambda v: v.sum(axis=0),
        "std": lambda v: v.std(axis=0),
        "percentile": lambda v: np.percentile(v, float(q if q is not None else math.nan), axis=0),
    }
    if method not in functions or (method == "percentile" and not isinstance(q, (int, float))):
        raise NotFollowedError(f"a composite by {method!r} is not followed")
    data = _of_columns(held, functions[method])
    # one value deviates from nothing: that is no deviation of 0
    least = max(int(params.get("least_valid") or 1), 2 if method == "std" else 1)
    return np.nan_to_num(data), (n >= least) & np.isfinite(data)


def best_of(planes: Sequence[Pixels], criteria: Sequence[Pixels], pick: str) -> Pixels:
    """Of many dates the value where the criterion is greatest (or least); the first of equals."""
    data = np.zeros(planes[0][0].shape)
    best, found = np.full(data.shape, np.nan), np.zeros(data.shape, dtype=bool)
    for (value, valid), (rank, known) in zip(planes, criteria, strict=True):
        with np.errstate(invalid="ignore"):
            better = valid & known & (~found | ((rank > best) if pick != "min" else (rank < best)))
        data, best, found = np.where(better, value, data), np.where(better, rank, best), found | better
    return data, found


def anomaly_of(now: Pixels, past: Sequence[Pixels], params: Mapping[str, Any]) -> Pixels:
    """A date less the mean of others; in their (sample) deviations, or in percent of their mean."""
    mode, held = str(params.get("mode") or "difference"), _held(past)
    n = np.isfinite(held).sum(axis=0)
    mean = _of_columns(held, lambda v: v.mean(axis=0))
    with np.errstate(all="ignore"):
        apart = now[0] - mean
        if mode == "zscore":
            apart = apart / _of_columns(held, lambda v: v.std(axis=0, ddof=1) if len(v) > 1 else np.full(v.shape[1], np.nan))
        elif mode == "percent":
            apart = 100 * apart / np.abs(mean)
        elif mode != "difference":
            raise NotFollowedError(f"an anomaly by {mode!r} is not followed")
    least = params.get("least_valid")
    return np.nan_to_num(apart), now[1] & (n >= int(3 if least is None else least)) & np.isfinite(apart)


def pixel_trend_of(planes: Sequence[Pixels], years: Sequence[float], params: Mapping[str, Any]) -> Pixels:
    """The least-squares line through each pixel's dates: its slope a year, R² or p value (Student's t, two sides)."""
    what, held, x = str(params.get("output") or "slope"), _held(planes), np.asarray(years, dtype=np.float64)
    if what not in ("slope", "r2", "p_value"):
        raise NotFollowedError(f"a trend's {what!r} is not followed")
    n = np.isfinite(held).sum(axis=0)
    out, least = np.full(n.shape, np.nan), int(params.get("least_valid") or 3)
    flat = held.reshape(len(held), -1)
    for used, at in _alike(np.isfinite(flat)):
        if used.sum() < least or np.ptp(x[used]) == 0:
            continue
        # the normal equations by QR, not by sums of products
        design = np.column_stack((np.ones(int(used.sum())), x[used] - x[used].mean()))
        y = flat[used][:, at]
        fit = np.linalg.lstsq(design, y, rcond=None)[0]
        if what == "slope":
            out.reshape(-1)[at] = fit[1]
            continue
        rest, total = ((y - design @ fit) ** 2).sum(axis=0), ((y - y.mean(axis=0)) ** 2).sum(axis=0)
        with np.errstate(all="ignore"):
            r2 = np.where(total > 0, 1 - rest / total, 0.0)
        if what == "r2":
            out.reshape(-1)[at] = r2
            continue
        from scipy import special

        free = int(used.sum()) - 2
        # P(|T| > t) is the regularised incomplete beta function of 1 − R²
        out.reshape(-1)[at] = special.betainc(free / 2, 0.5, np.clip(1 - r2, 0, 1)) if free > 0 else np.nan
    return np.nan_to_num(out), np.isfinite(out)


def component_of(planes: Sequence[Pixels], whole: Sequence[Pixels], params: Mapping[str, Any]) -> Pixels:
    """A principal component by singular values of all pixels (``whole``) that are valid in every plane; its greatest loading is
    positive."""
    known = np.logical_and.reduce([v for _, v in whole])
    values = np.stack([d[known] for d, _ in whole], axis=1)
    number = int(params.get("component") or 1)
    if len(values) < len(whole) + 1 or not 1 <= number <= len(whole):
        raise NotFollowedError("too few pixels are valid in all inputs")
    mean = values.mean(axis=0)
    scale = values.std(axis=0) if params.get("standardize") else np.ones(len(whole))
    if (scale == 0).any():
        raise NotFollowedError("an input is constant")
    loading = np.linalg.svd((values - mean) / scale, full_matrices=False)[2][number - 1]
    loading = loading * (1.0 if loading[np.abs(loading).argmax()] > 0 else -1.0)
    out = np.zeros(planes[0][0].shape)
    for (data, _), middle, width, weight in zip(planes, mean, scale, loading, strict=True):
        out = out + weight * (data - middle) / width
    return out, np.logical_and.reduce([v for _, v in planes])


def sharpened(bands: Sequence[Pixels], pan: Pixels) -> Pixels:
    """Brovey (Gillespie et al. 1987): the first band times the panchromatic one over the mean of the bands."""
    mean = sum((d for d, _ in bands), np.zeros(pan[0].shape)) / len(bands)
    with np.errstate(all="ignore"):
        data = bands[0][0] * (pan[0] / mean)
    valid = np.logical_and.reduce([pan[1], *(v for _, v in bands)]) & np.isfinite(data) & (mean > 0)
    return np.nan_to_num(data), valid


# --- neighbours -------------------------------------------------------------------------------------------------------------
def halo_of(op: str, params: Mapping[str, Any]) -> int | None:
    """How many pixels about a pixel a product looks at; None for one that looks at none."""
    if op == "raster.product.focal":
        return int(params.get("size") or 3) // 2
    if op == "raster.product.terrain":
        return int(params.get("window") or 3) // 2 if params.get("product") == "relief" else 1
    return None


def focal_of(plane: Pixels, params: Mapping[str, Any]) -> Pixels:
    """A statistic of the valid pixels in the square about each pixel of a plane that was widened by half a square on each side;
    the plane without that frame."""
    what, size = str(params.get("statistic") or "mean"), int(params.get("size") or 3)
    views = sliding_window_view(np.where(plane[1], plane[0], np.nan), (size, size))
    functions: dict[str, Callable[..., Any]] = {
        "mean": np.nanmean,
        "median": np.nanmedian,
        "min": np.nanmin,
        "max": np.nanmax,
        "std": np.nanstd,
        "range": lambda v, axis: np.nanmax(v, axis=axis) - np.nanmin(v, axis=axis),
    }
    if what not in functions or size % 2 == 0:
        raise NotFollowedError(f"a moving {what!r} is not followed")
    half = size // 2
    middle = plane[1][half : plane[1].shape[0] - half, half : plane[1].shape[1] - half]
    data = np.full(middle.shape, np.nan)
    if middle.any():
        data[middle] = functions[what](views[middle].reshape(int(middle.sum()), -1), axis=1)
    return np.nan_to_num(data), middle & np.isfinite(data)


def terrain_of(plane: Pixels, params: Mapping[str, Any], dx: Any, dy: Any, *, east: float = 1.0, north: float = -1.0) -> Pixels:
    """Slope, aspect and hillshade by Horn (1981), relief, roughness, TPI and TRI (Wilson et al. 2007) of heights that were
    widened by half a square on each side; the plane without that frame. ``dx``, ``dy``: metres of a pixel, by row; ``east``,
    ``north``: the sign of a step along a row and down a column."""
    what = str(params.get("product") or "slope")
    size = int(params.get("window") or 3) if what == "relief" else 3
    half = size // 2
    z = np.where(plane[1], plane[0], np.nan)
    rows, cols = z.shape[0] - 2 * half, z.shape[1] - 2 * half
    if what == "relief":
        views = sliding_window_view(z, (size, size))
        data = views.max(axis=(2, 3)) - views.min(axis=(2, 3))
        return np.nan_to_num(data), np.isfinite(data)

    def at(down: int, right: int) -> Array:
        return z[1 + down : 1 + down + rows, 1 + right : 1 + right + cols]

    around = [at(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1) if i or j]
    centre = at(0, 0)
    known = np.isfinite(centre) & np.logical_and.reduce([np.isfinite(v) for v in around])
    if what == "roughness":
        stack = np.stack([centre, *around])
        data = stack.max(axis=0) - stack.min(axis=0)
    elif what == "tpi":
        data = centre - np.stack(around).mean(axis=0)
    elif what == "tri":
        data = np.abs(np.stack(around) - centre).mean(axis=0)
    elif what in ("slope", "aspect", "hillshade"):
        to_right = (at(-1, 1) + 2 * at(0, 1) + at(1, 1)) - (at(-1, -1) + 2 * at(0, -1) + at(1, -1))
        downwards = (at(1, -1) + 2 * at(1, 0) + at(1, 1)) - (at(-1, -1) + 2 * at(-1, 0) + at(-1, 1))
        # what adding up equal heights has rounded is no slope
        highest = np.maximum.reduce([np.abs(v) for v in (centre, *around)])
        is_level = np.abs(to_right) + np.abs(downwards) <= 1e-12 * highest
        to_right, downwards = (np.where(is_level, 0.0, v) for v in (to_right, downwards))
        rise_east, rise_north = east * to_right / (8 * dx), north * downwards / (8 * dy)
        steep = np.sqrt(rise_east**2 + rise_north**2)
        if what == "slope":
            data = np.degrees(np.arctan(steep))
        elif what == "aspect":
            data = np.mod(np.degrees(np.arctan2(-rise_east, -rise_north)), 360)
            known &= steep > 0
        else:
            sun, high = (
                math.radians(float(params[k] if params.get(k) is not None else d))
                for k, d in (("azimuth", 315.0), ("altitude", 45.0))
            )
            # the cosine between the ground's normal and the direction to the sun
            light = math.sin(high) - math.cos(high) * (rise_east * math.sin(sun) + rise_north * math.cos(sun))
            data = np.clip(light / np.sqrt(1 + steep**2), 0, 1)
    else:
        raise NotFollowedError(f"{what!r} of heights is not followed")
    return np.nan_to_num(data), known


# --- thresholds -------------------------------------------------------------------------------------------------------------
def between_of(values: Array, threshold: float) -> float:
    """Otsu's variance between the sides of a threshold, in shares of the values."""
    above = values > threshold
    share = float(above.mean())
    return 0.0 if share in (0.0, 1.0) else share * (1 - share) * float(values[above].mean() - values[~above].mean()) ** 2


def best_between(values: Array) -> float:
    """The greatest variance between the sides that any threshold gives (Otsu 1979), over all cuts of the sorted values."""
    v = np.sort(values)
    n = np.arange(1, v.size)
    below = np.cumsum(v)[:-1]
    total = float(v.sum())
    return float((n * (v.size - n) * (below / n - (total - below) / (v.size - n)) ** 2).max() / v.size**2) if v.size > 1 else 0.0


def best_cut(values: Array) -> float:
    """The middle of the gap at which ``best_between`` is reached."""
    v = np.sort(values)
    n = np.arange(1, v.size)
    below, total = np.cumsum(v)[:-1], float(v.sum())
    k = int((n * (v.size - n) * (below / n - (total - below) / (v.size - n)) ** 2).argmax())
    return float(v[k] + v[k + 1]) / 2


def edges_of(ndvi: Array, heat: Array, params: Mapping[str, Any]) -> list[float]:
    """Slope and base of the dry and of the wet edge: lines through the greatest and least temperature of bins of NDVI from the
    least one to 1, those with enough pixels. NotFollowedError where fewer than two bins have."""
    least, bins, count = (params.get(k, d) for k, d in (("least_ndvi", 0.2), ("bins", 80), ("least_count", 3)))
    inside = (ndvi >= least) & (ndvi < 1)
    at = np.floor((ndvi[inside] - least) / (1 - least) * bins).astype(int)
    t = heat[inside]
    used = [k for k in range(int(bins)) if int((at == k).sum()) >= count]
    if len(used) < 2:
        raise NotFollowedError("too few bins of NDVI hold pixels")
    middle = least + (np.array(used) + 0.5) / bins * (1 - least)
    dry, wet = (np.polyfit(middle, [end(t[at == k]) for k in used], 1) for end in (np.max, np.min))
    return [float(dry[0]), float(dry[1]), float(wet[0]), float(wet[1])]
