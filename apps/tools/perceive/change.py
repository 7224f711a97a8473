"""perceive, mode ``change``: where two images of one place differ, after a look at how well they lie on each other.

The shift between the two is estimated by phase correlation and reported first. Then the later image is brought to the earlier
one's radiometry band by band (equal means and deviations where they agree), the change vector's length is taken in units of its
noise, and pixels above a threshold are change: Otsu's, but never below NOISE_FACTOR times the noise, so that two identical dates
give no change. With an index, the same is done to the difference of the index, and a given threshold may replace Otsu's. A change
model that a person added (``options={"model": NAME}``) may look instead: red, green and blue of both, a probability by pixel,
change from 0.5 on. It is asked first whether a picture differs from itself; one that says so gives no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import Configuration, Evidence, Result
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid, transformer
from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import PerceiveArguments, ToolContext, ToolOutcome, input_ref
from apps.tools.execute.graph import effective_region
from apps.tools.execute.indices import INDICES
from apps.tools.execute.left_in import left_in, tell_left_in
from apps.tools.execute.operators_products import grids_agree
from apps.tools.execute.types import Plane
from apps.tools.perceive.looking import AMPLITUDE_NOTE
from apps.tools.perceive.noise import grain
from apps.tools.perceive.regions import edge_px
from apps.tools.perceive.sampling import View, part_looked_at, part_under, view_of
from apps.tools.perceive.veil import LEAST_SEEN, WARN_SHARE, ground_searched, veil_of
from apps.tools.region import RegionMask
from apps.tools.registration import estimated_shift, shift_on_ground_m
from apps.tools.thresholds import WEAK_SEPARABILITY, otsu
from apps.tools.zoo.changers import ChangeModel, load_changer
from apps.tools.zoo.registry import model_named

# A change is told from noise at this many robust standard deviations.
NOISE_FACTOR = 4.0
# The line from one image's radiometry to the other's is fitted so often, on so many pixels; floats are taken for equal up to so
# many steps of their kind.
LINE_FITS, LINE_SAMPLES, ROUNDINGS = 5, 1_000_000, 4.0
# Above this many pixels of shift, differences along edges are no change of the ground.
SHIFT_LIMIT_PX = 1.0
# A change model's own word, and the share of changed pixels between a picture and itself above which it is not believed.
MODEL_THRESHOLD, MOST_SELF_CHANGE = 0.5, 0.001
# What differences of pixels cannot tell.
NOT_FOR = ("buildings: between two dates of sharp pictures light, shadow and viewing angle move more pixels than new houses do",
           "what a change is: season and weather are change too")
_REFERENCE = "Bruzzone and Fernandez Prieto 2000, IEEE TGRS 38; Otsu 1979"
_COMMON = ("blue", "green", "red", "nir", "nir08", "swir1", "swir2", "gray", "pan", "vv", "vh", "hh", "hv", "rededge1",
           "rededge2", "rededge3", "ndvi", "evi", "index", "elevation", "lst")


def perceive_change(ctx: ToolContext, arguments: PerceiveArguments) -> ToolOutcome:
    """A mask of change on the earlier scene's grid. ModelError where the two cannot be laid on each other."""
    if len(arguments.image_paths) != 2:
        raise ModelError(f"change looks at two images, before and after; {len(arguments.image_paths)} were given.",
                         code="BAD_ARGUMENT")
    before, after = (ctx.scene(i) for i in arguments.image_paths)
    method = arguments.regions_method
    index = method.index.lower() if method is not None and method.index else ""
    asked = str(arguments.options.get("model") or "")
    changer = _changer(asked, index, before) if asked else None
    roles = _roles(before, after, index) if changer is None else _colours(before, after)
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    inside = RegionMask.of(region, region_crs, before.grid, before.name)
    view = view_of(ctx.reader(before.scene_id), [before.bands_with_role(r)[0].index for r in roles],
                   part_looked_at(before, len(roles), inside))
    ctx.progress(1, 4, "Reading the later image")
    other, laid = _after_on_before(ctx, before, after, roles, view)
    valid = view.valid & other.valid
    if region is not None:
        valid &= inside.mask(view.window)
    asked_px = inside.n_px
    if any(s.dtype.startswith("complex") for s in (before, after)):
        ctx.log("info", AMPLITUDE_NOTE)
    quality, masked = _without_hidden(ctx, arguments, before, after, view, valid)
    n_valid = int(valid.sum())
    if n_valid < 16:
        raise ModelError("Fewer than 16 pixels are valid in both images.", code="TOOL_FAILED", needs={"valid_px": True})
    ctx.progress(2, 4, "Estimating the shift")
    shift, likeness = estimated_shift(view.data.mean(axis=0), other.data.mean(axis=0), view.valid & other.valid)
    shift_length = float(np.hypot(*shift)) if shift is not None else None
    is_registered = None if shift_length is None else shift_length <= SHIFT_LIMIT_PX
    if shift_length is None:
        ctx.log("warning", "Whether the images lie on each other cannot be told: their edges have too little in common.")
    elif not is_registered:
        ctx.log("warning", f"The images lie {shift_length:.2f} pixels apart: differences along edges are not change of the "
                           "ground.")
    ctx.progress(3, 4, "Comparing")
    if changer is not None:
        magnitude, figures = _modelled(ctx, changer, before, view, other, valid)
        signed, how = None, "model"
    elif index:
        magnitude, signed, figures = _index_change(before, after, index, roles, view, other, valid)
        how = f"{index}_difference"
    else:
        stored = [(Stored.of(before, r), Stored.of(after, r)) for r in roles]
        magnitude, figures = change_vector(view.data, other.data, valid, stored)
        signed, how = None, "change_vector"
    n_valid = int(valid.sum())
    if not n_valid:
        raise ModelError("The index is defined on no pixel of both images.", code="TOOL_FAILED", needs={"valid_px": True})
    threshold, chosen, separability, histogram = (_threshold(magnitude[valid], method, index) if changer is None else
                                                  _model_threshold(magnitude[valid], method))
    side = method.side if method is not None and index else "above"
    if signed is not None and isinstance(method.threshold if method else None, (int, float)):
        assert method is not None
        limit = cast(float, method.threshold)
        mask = (signed > limit if side == "above" else signed < limit) & valid
        threshold, chosen = limit, "given"
    else:
        mask = (magnitude > threshold if changer is None else magnitude >= threshold) & valid
    n_before = int(mask.sum())
    min_px = max(1, method.min_px if method else 0)
    labels, n_pieces = ndimage.label(mask, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel(), minlength=n_pieces + 1)[1:]
    if min_px > 1 and n_pieces:
        mask &= ~np.concatenate([[False], sizes < min_px])[labels]
        sizes = sizes[sizes >= min_px]
    n_true = int(mask.sum())
    if separability is not None and separability < WEAK_SEPARABILITY and chosen != "given" and n_true:
        ctx.log("warning", f"The differences hardly part into changed and unchanged (separability {separability:.2f}; a single "
                           "heap has 0.64): season, light and viewing angle may look like change.")
    if n_true == 0:
        ctx.log("info", "No change stands out of the noise: an empty finding, not a failure.")
    if before.acquired_at and after.acquired_at and before.acquired_at > after.acquired_at:
        ctx.log("warning", "The first image is later than the second.")
    data = np.where(valid, magnitude if signed is None else signed, np.nan).astype(np.float32)
    layers = (
        ctx.layers.put_mask(mask, valid, view.grid, label="change", scene_id=before.scene_id),
        ctx.layers.put_raster(MaskedRaster(data[None], valid[None], view.grid, (Band(index=1, role="index", unit="1"),), "1"),
                              label=("change probability" if changer else "change magnitude") if signed is None
                              else f"{index} change", scene_id=before.scene_id))
    intermediate: dict[str, JsonValue] = {
        "mask_px": n_true, "candidates": n_before, "kept": n_true, "valid_px": n_valid, "polygons": len(sizes),
        "n_region_px": asked_px, "pieces_before": n_pieces,
        "edge_px": edge_px(mask, valid), "numerator": n_true, "denominator": n_valid,
        "share": n_true / n_valid, "histogram": histogram, "separability": separability,
        "shift_px": [float(s) for s in shift] if shift is not None else None, "shift_length_px": shift_length,
        "shift_m": shift_on_ground_m(view.grid, shift) if shift is not None and view.grid.crs is not None else None,
        "edge_likeness": likeness,
        "filters": [{"name": f"pieces smaller than {min_px} pixels dropped", "before": n_before, "after": n_true,
                     "pieces_before": n_pieces, "pieces_after": len(sizes)}],
        "sureness": _sureness(magnitude[mask], threshold),
        "area": ground_searched(view.grid, before.effective_gsd_m, n_valid, asked_px), **masked, **figures}
    doubts = _doubts(changer) if changer is not None else _classical_doubts(
        is_registered, separability if chosen != "given" and n_true else None)
    for line in doubts if changer is not None else ():
        ctx.log("warning", line)
    mapping = {s.scene_id: {r: s.bands_with_role(r)[0].index for r in roles} for s in (before, after)}
    bands = [list(mapping[s.scene_id].values()) for s in (before, after)]
    passed: dict[str, JsonValue] = {**arguments.model_dump(mode="json"), "region": dict(region) if region else None,
                                    "region_crs": region_crs}
    ctx.progress(4, 4, "Compared")
    return ToolOutcome(
        configuration=Configuration(coarse="change", fine=f"change/{changer.card.name if changer else how}/{chosen}"),
        arguments_passed=passed,
        inputs=(input_ref(before, bands[0], "before"), input_ref(after, bands[1], "after")),
        result=Result(kind="layer", quantity="change", layers=layers),
        evidence=Evidence(
            source={"method": {"kind": how, "bands": list(roles), "laid_by": laid, "threshold_from": chosen, "min_px": min_px,
                               **({"noise_factor": NOISE_FACTOR, "reference": _REFERENCE} if changer is None else {})},
                    **({} if changer is None else {"weights": _weights(changer)}),
                    "thresholds": {"change": threshold}, "sensor": {s.scene_id: s.sensor or "unknown" for s in (before, after)},
                    "resolution_m": view.grid.gsd_m or before.effective_gsd_m,
                    "band_mapping": {k: {str(r): i for r, i in v.items()} for k, v in mapping.items()}},
            intermediate=intermediate,
            validity={"layer_status": "complete", "class_complete": True, "geometry_valid": is_registered is not False,
                      "quality_mask": quality,
                      **({} if changer is None else {"experimental": changer.card.source == "added"}),
                      "applicability": {"ok": not doubts, "problems": list(doubts)},
                      "not_for": list(NOT_FOR if changer is None else changer.card.not_for),
                      "is_registered": is_registered, "valid_share": n_valid / max(1, asked_px), "same_grid": laid == "same grid",
                      "dates": [s.acquired_at.isoformat() if s.acquired_at else None for s in (before, after)]}))


def _sureness(values: NDArray[np.float64], threshold: float) -> float | None:
    """The share of the changed pixels that lie farther beyond the threshold than a tenth of it; None where there are none."""
    return round(float(np.mean(np.abs(values - threshold) > 0.1 * abs(threshold))), 4) if values.size else None


def _without_hidden(ctx: ToolContext, arguments: PerceiveArguments, before: SceneInfo, after: SceneInfo, view: View,
                    valid: NDArray[np.bool_]) -> tuple[list[JsonValue] | None, dict[str, JsonValue]]:
    """Takes out of ``valid`` what the quality band of either image flags as cloud, shadow or fill: there the ground was not seen.
    (``validity.quality_mask``, an entry an image, None without quality bands; what ``intermediate`` holds of it).

    ToolAbstainedError TOOL_FAILED where less than LEAST_SEEN is left.
    """
    out: list[JsonValue] = []
    texts = []
    others: dict[str, dict[str, float]] = {}
    n_all = int(valid.sum())
    for s in (before, after):
        veil = veil_of(ctx, s, arguments)
        if veil is None:
            continue
        if grids_agree(s.grid, before.grid):
            there = veil.hidden(view.window)
        else:
            part = part_under(s, 1, view.grid)
            # where both have pixels the later one has a part under the earlier one
            assert part is not None
            hidden = veil.hidden(part)
            share, known = warped(View(hidden[None].astype(np.float64), np.ones(hidden.shape, bool), s.grid.window(*part), part),
                                  view.grid)
            there = (share[0] > 0) & known
        of_px, n_px = int(valid.sum()), int((valid & there).sum())
        valid &= ~there
        out.append(veil.told(n_px, of_px))
        texts.append(f"{veil.text} of {s.name}")
        others[s.scene_id] = left_in(veil.reader, veil.band, veil.band.scheme, veil.flags, veil.region)
        tell_left_in(ctx, s, others[s.scene_id])
        ctx.log("warning" if n_px > WARN_SHARE * of_px else "info",
                f"{n_px:,} of {of_px:,} pixels under cloud or shadow of {s.name} were left out, by its quality band.")
    if not out:
        return None, {}
    n_hidden = n_all - int(valid.sum())
    if n_all and n_hidden > (1 - LEAST_SEEN) * n_all:
        raise ToolAbstainedError(f"{n_hidden / n_all:.1%} of the pixels that both images have cannot be seen in one of them "
                                 f"({'; '.join(texts)}); of change nothing is said. Other dates would do.", code="TOOL_FAILED",
                                 needs={"valid_px": True, "other_date": True})
    return out, {"quality_masked": {"n_px": n_hidden, "of_px": n_all, "share": n_hidden / n_all if n_all else None},
                 "quality_left_in": {k: {**v} for k, v in others.items()}}


def _classical_doubts(is_registered: bool | None, separability: float | None) -> list[str]:
    """Why differences of pixels may be no change here."""
    out = []
    if is_registered is False:
        out.append(f"the images lie more than {SHIFT_LIMIT_PX:g} pixel apart")
    elif is_registered is None:
        out.append("whether the images lie on each other cannot be told")
    if separability is not None and separability < WEAK_SEPARABILITY:
        out.append(f"the differences hardly part into changed and unchanged (separability {separability:.2f})")
    return out


def _roles(before: SceneInfo, after: SceneInfo, index: str) -> tuple[str, ...]:
    if index:
        if index not in INDICES:
            raise ModelError(f"There is no index named {index!r}.", code="BAD_ARGUMENT")
        wanted = INDICES[index].roles
        for s in (before, after):
            missing = [r for r in wanted if len(s.bands_with_role(r)) != 1]
            if missing:
                raise ModelError(f"{s.name} has no band known as {', '.join(missing)}.", code="NEEDS_BANDS",
                                 needs={"roles": missing, "scene": s.scene_id})
        for r in wanted:
            # a ratio of bands does not notice the division by the sun's angle
            held = {s.bands_with_role(r)[0].unit for s in (before, after)}
            if len({"reflectance" if unit.startswith("reflectance") else unit for unit in held}) > 1:
                raise ModelError(f"The band {r} has different units in the two images ({', '.join(sorted(held))}), so {index} of "
                                 "one does not compare with that of the other. Say scale and offset of the one whose numbers "
                                 "stand as stored.", code="BAD_ARGUMENT", needs={"unit": sorted(held)})
        return wanted
    common = [r for r in _COMMON if len(before.bands_with_role(r)) == 1 and len(after.bands_with_role(r)) == 1]
    if not common:
        raise ModelError("The two images have no band role in common.", code="NEEDS_BANDS",
                         needs={"roles": ["gray"], "scene": before.scene_id})
    for r in common:
        units = {s.bands_with_role(r)[0].unit for s in (before, after)}
        if len(units) > 1:
            raise ModelError(f"The band {r} has different units in the two images ({', '.join(sorted(units))}).",
                             code="BAD_ARGUMENT")
    return tuple(common)


def _after_on_before(ctx: ToolContext, before: SceneInfo, after: SceneInfo, roles: tuple[str, ...],
                     view: View) -> tuple[Plane, str]:
    """The later image's bands (bands, rows, columns) on the view's grid, and how it was laid there."""
    reader = ctx.reader(after.scene_id)
    bands = [after.bands_with_role(r)[0].index for r in roles]
    if grids_agree(before.grid, after.grid):
        other = view_of(reader, bands, view.window)
        return Plane(other.data, other.valid), "same grid"
    if before.grid.crs is None or after.grid.crs is None:
        raise ModelError(f"The images differ in size or place ({before.grid.width} × {before.grid.height} and "
                         f"{after.grid.width} × {after.grid.height} pixels) and at least one has no CRS to lay them on each "
                         "other.", code="NEEDS_CRS",
                         needs={"crs": True})
    part = part_under(after, len(bands), view.grid)
    data, valid = warped(view_of(reader, bands, part), view.grid) if part is not None else (view.data, np.zeros(1, dtype=bool))
    if not valid.any():
        raise ModelError("The two images do not overlap.", code="BAD_REGION")
    ctx.log("info", f"{after.name} was resampled (bilinear) onto the grid of {before.name}.")
    return Plane(data, valid), "resampled bilinear"


def warped(source: View, target: Grid) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Bilinear values at the target's pixel centres; masked where a neighbour is."""
    assert source.grid.crs is not None and target.crs is not None
    t = transformer(target.crs, source.grid.crs)
    out = np.zeros((source.data.shape[0], *target.shape))
    valid = np.zeros(target.shape, dtype=bool)
    a, b, c, d, e, f = source.grid.transform
    det = a * e - b * d
    ta, tb, tc, td, te, tf = target.transform
    for r0 in range(0, target.height, 256):
        n = min(256, target.height - r0)
        cols, rows = np.meshgrid(np.arange(target.width) + 0.5, np.arange(r0, r0 + n) + 0.5)
        x, y = t.transform(ta * cols + tb * rows + tc, td * cols + te * rows + tf)
        x, y = np.asarray(x) - c, np.asarray(y) - f
        at = np.stack([(a * y - d * x) / det - 0.5, (e * x - b * y) / det - 0.5])
        at = np.where(np.isfinite(at), at, -10)
        weight = ndimage.map_coordinates(source.valid.astype(np.float64), at, order=1, mode="constant", cval=0.0)
        valid[r0:r0 + n] = weight > 1 - 1e-9
        for k in range(out.shape[0]):
            filled = np.where(source.valid, source.data[k], 0.0)
            out[k, r0:r0 + n] = ndimage.map_coordinates(filled, at, order=1, mode="constant", cval=0.0)
    return out, valid


@dataclass(frozen=True, slots=True)
class Stored:
    """How a band's numbers are stored: the least and greatest value that they can have (physical; infinite for floats), and how
    finely they are told, as a share of the value."""

    low: float
    high: float
    step: float

    @classmethod
    def of(cls, scene: SceneInfo, role: str) -> Stored:
        kind, band = np.dtype(scene.dtype), scene.bands_with_role(role)[0]
        if kind.kind not in "iu":
            return cls(-np.inf, np.inf, float(np.finfo(kind).eps))
        ends = [float(v) * band.scale + band.offset for v in (np.iinfo(kind).min, np.iinfo(kind).max)]
        return cls(min(ends), max(ends), 0.0)


def change_vector(one: NDArray[np.float64], other: NDArray[np.float64], valid: NDArray[np.bool_],
                  stored: Sequence[tuple[Stored, Stored]]) -> tuple[NDArray[np.float64], dict[str, JsonValue]]:
    """(length of the change vector in units of noise, evidence). The later image is brought to the earlier one's radiometry band
    by band (``_robust_line``); noise is the fine grain of what then differs. ``stored``: of each band in both images.

    A value at the end of what its numbers can hold says that the truth is that or beyond: what agrees with it is no change.
    """
    square = np.zeros(valid.shape)
    lines: list[JsonValue] = []
    for x, y, (of_x, of_y) in zip(one, other, stored, strict=True):
        gain, offset = _robust_line(y[valid], x[valid])
        rest = np.where(valid, gain * y + offset - x, 0.0)
        rest[(rest > 0) & ((x >= of_x.high) | (y <= of_y.low))] = 0.0
        rest[(rest < 0) & ((x <= of_x.low) | (y >= of_y.high))] = 0.0
        # what floating-point numbers leave of equal images is nothing
        fine = max(1e-9, ROUNDINGS * max(of_x.step, of_y.step))
        rest[np.abs(rest) <= fine * (float(np.abs(x[valid]).max()) + 1e-300)] = 0.0
        noise = grain(rest, valid)
        if noise > 0:
            square += (rest / noise) ** 2
        elif np.any(rest != 0):
            # no grain at all: every difference stands out
            square += np.where(rest != 0, (2 * NOISE_FACTOR) ** 2, 0.0)
        lines.append({"gain": gain, "offset": offset, "noise": noise})
    return np.sqrt(square / len(one)), {"normalization": lines, "unit": "noise"}


def _robust_line(y: NDArray[np.float64], x: NDArray[np.float64]) -> tuple[float, float]:
    """(gain, offset) that give ``y`` the mean and deviation of ``x`` where the two agree: within three robust deviations of the
    line before, the first of which gives it the median and the median deviation. Medians of whole numbers alone are a line too
    coarse: one of 9 for 10 makes a tenth of every bright value a difference."""
    if x.size > LINE_SAMPLES:
        # by lot: every k-th pixel may keep step with what repeats in the picture
        chosen = np.random.default_rng(x.size).choice(x.size, LINE_SAMPLES, replace=False, shuffle=False)
        y, x = y[chosen], x[chosen]
    middle_x, middle_y = float(np.median(x)), float(np.median(y))
    spread_x, spread_y = float(np.median(np.abs(x - middle_x))), float(np.median(np.abs(y - middle_y)))
    gain = spread_x / spread_y if spread_x > 0 and spread_y > 0 else 1.0
    offset = middle_x - gain * middle_y
    for _ in range(LINE_FITS):
        away = np.abs(gain * y + offset - x)
        limit = 3 * 1.4826 * float(np.median(away))
        alike = away <= limit
        deviation_x, deviation_y = float(x[alike].std()), float(y[alike].std())
        if limit == 0 or min(deviation_x, deviation_y) == 0:
            break
        gain = deviation_x / deviation_y
        offset = float(x[alike].mean()) - gain * float(y[alike].mean())
    return gain, offset


def _index_change(before: SceneInfo, after: SceneInfo, index: str, roles: tuple[str, ...], view: View, other: Plane,
                  valid: NDArray[np.bool_]) -> tuple[NDArray[np.float64], NDArray[np.float64], dict[str, JsonValue]]:
    formula = INDICES[index]
    for s in (before, after):
        units = {s.bands_with_role(r)[0].unit for r in roles}
        if formula.needs == "reflectance" and units != {"reflectance"}:
            raise ModelError(f"{formula.title} needs reflectance; the bands of {s.name} are in {', '.join(sorted(units))}.",
                             code="BAD_ARGUMENT", needs={"unit": "reflectance"})
    one = formula.formula.evaluate({r: Plane(view.data[i], valid) for i, r in enumerate(roles)})
    two = formula.formula.evaluate({r: Plane(other.data[i], valid) for i, r in enumerate(roles)})
    valid &= one.valid & two.valid
    signed = np.where(valid, two.data - one.data, 0.0)
    middle = float(np.median(signed[valid])) if valid.any() else 0.0
    noise = grain(signed, valid)
    away = np.where(valid, np.abs(signed - middle), 0.0)
    away[away <= 1e-9] = 0.0
    magnitude = away / noise if noise > 0 else np.where(away > 0, 2 * NOISE_FACTOR, 0.0)
    values = signed[valid]
    return magnitude, signed, {"index": index, "mean_change": float(values.mean()) if values.size else None,
                               "median_change": middle, "noise": noise, "unit": "noise",
                               "change_uncertainty": noise}


def _threshold(values: NDArray[np.float64], method: Any,
               index: str) -> tuple[float, str, float | None, dict[str, JsonValue] | None]:
    """(threshold, how, separability, histogram) of the magnitude."""
    given = method.threshold if method is not None else None
    high = float(np.percentile(values, 99.9)) if values.size else 0.0
    if high <= 0:
        return NOISE_FACTOR, "noise", None, None
    counts, edges = np.histogram(np.clip(values, 0, high), bins=256, range=(0, high))
    histogram: dict[str, JsonValue] = {"counts": [int(c) for c in counts], "low": 0.0, "high": high}
    if isinstance(given, (int, float)) and not index:
        if given < 0:
            raise ModelError(f"A threshold of change is a length in units of the noise; {given:g} is none.", code="BAD_ARGUMENT")
        return float(given), "given", None, histogram
    if np.count_nonzero(counts) < 2:
        return max(NOISE_FACTOR, high), "noise", None, histogram
    threshold, separability = otsu(counts, edges)
    if threshold < NOISE_FACTOR:
        return NOISE_FACTOR, "noise", separability, histogram
    return threshold, "otsu", separability, histogram


# --- change models --------------------------------------------------------------------------------------------------------
def _changer(name: str, index: str, before: SceneInfo) -> ChangeModel:
    """The change model that is asked for. ToolAbstainedError where it is none, or was made for another GSD."""
    if index:
        raise ModelError(f"The change is either told by the model {name} or by the index {index}, not by both.",
                         code="BAD_ARGUMENT")
    card, path = model_named(name)
    gsd = before.effective_gsd_m
    if card.gsd_m is not None:
        span = f"{card.gsd_m[0]:g} to {card.gsd_m[1]:g} m a pixel"
        if gsd is None:
            raise ToolAbstainedError(f"{name} was made for {span}, and the GSD of {before.name} is not known.", code="NEEDS_GSD",
                                     needs={"gsd_m": True})
        if not card.gsd_m[0] <= gsd <= card.gsd_m[1]:
            raise ToolAbstainedError(f"{name} was made for {span}, not for {gsd:g} m.", code="MODEL_MISSING",
                                     needs={"model": "change model", "gsd_m": gsd})
    return load_changer(card, path)


def _colours(before: SceneInfo, after: SceneInfo) -> tuple[str, ...]:
    wanted = ("red", "green", "blue")
    for s in (before, after):
        missing = [r for r in wanted if len(s.bands_with_role(r)) != 1]
        if missing:
            raise ModelError(f"A change model looks at red, green and blue; {s.name} has no band known as {', '.join(missing)}.",
                             code="NEEDS_BANDS", needs={"roles": missing, "scene": s.scene_id})
    return wanted


def _modelled(ctx: ToolContext, changer: ChangeModel, before: SceneInfo, view: View, other: Plane, valid: NDArray[np.bool_]
              ) -> tuple[NDArray[np.float64], dict[str, JsonValue]]:
    """(probability of change (rows, columns), evidence), from both images in one stretch; invalid pixels alike in both."""
    is_8_bit = before.dtype == "uint8"
    seen = np.concatenate([view.data[:, valid], other.data[:, valid]], axis=1)
    low, high = (0.0, 255.0) if is_8_bit and seen.max() <= 255 else (float(v) for v in np.percentile(seen, (1, 99)))
    high = high if high > low else low + 1
    one, two = (np.where(valid, (d - low) / (high - low), 0.5).clip(0, 1).transpose(1, 2, 0).astype(np.float32)
                for d in (view.data, other.data))
    p, tiles = changer.look(one, two, is_cancelled=ctx.is_cancelled)
    again, _ = changer.look(one, one, is_cancelled=ctx.is_cancelled)
    itself = float((again[valid] >= MODEL_THRESHOLD).mean())
    if itself > MOST_SELF_CHANGE:
        raise ToolAbstainedError(f"{changer.card.name} sees change on {itself:.1%} of the earlier picture compared with itself; "
                                 "what it says of two dates means nothing.", code="MODEL_MISSING",
                                 needs={"model": "change model"})
    return p, {"unit": "probability", "tiles": tiles, "tile_px": changer.tile_px, "model_gives": changer.output,
               "device": changer.device, "change_with_itself": itself, "mean_probability": float(p[valid].mean()),
               "stretch": {"low": low, "high": high}}


def _model_threshold(values: NDArray[np.float64], method: Any
                     ) -> tuple[float, str, float | None, dict[str, JsonValue] | None]:
    given = method.threshold if method is not None else None
    counts, _ = np.histogram(values.clip(0, 1), bins=256, range=(0, 1))
    histogram: dict[str, JsonValue] = {"counts": [int(c) for c in counts], "low": 0.0, "high": 1.0}
    if isinstance(given, (int, float)):
        if not 0 < given <= 1:
            raise ModelError(f"A model's threshold is a probability; {given:g} is none.", code="BAD_ARGUMENT")
        return float(given), "given", None, histogram
    return MODEL_THRESHOLD, "model", None, histogram


def _doubts(changer: ChangeModel) -> list[str]:
    card, out = changer.card, []
    if card.source == "added":
        out.append(f"{card.name} was added by a person and nothing is known of its scores: its mask is experimental")
    if card.gsd_m is None:
        out.append(f"for which GSD {card.name} was made is not stated")
    return out


def _weights(changer: ChangeModel) -> list[JsonValue]:
    c = changer.card
    return [{"name": c.name, "version": c.version, "digest": c.sha256, "licence": c.licence, "task": c.task,
             "gsd_m": list(c.gsd_m) if c.gsd_m else None}]
