"""Operators that name assets and make rasters: bands, indices, band math, masks, differences."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid, transformer
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.tools.execute.accumulators import Histogram, OrderStatistics
from apps.tools.execute.comparable import DNBR, check_dnbr, check_made_of_one_unit, check_threshold_scale
from apps.tools.execute.formula import Formula, parse
from apps.tools.execute.indices import INDICES, STAND_INS
from apps.tools.execute.quality import QualityParams
from apps.tools.execute.scales import check_formula, check_scale
from apps.tools.execute.types import (
    Call,
    Kind,
    NoParams,
    Operator,
    PhysicalRange,
    Plane,
    Planned,
    RasterType,
    Reads,
    SceneType,
    Take,
    band_range,
    register,
)
from apps.tools.thresholds import on_limit, otsu

RASTERS: tuple[Kind, ...] = ("raster",)


# --- what several operators need -------------------------------------------------------------------------------------------
def band_of(call: Call, scene: SceneInfo, role: str, *, allow_complex: bool = False) -> Band:
    """The one band with that role (or its stand-in); a refusal that names what is missing. Complex samples are refused where
    the caller does not say what part of them it means."""
    if scene.dtype.startswith("complex") and not allow_complex:
        raise call.refuse(f"{scene.name} has complex samples; take their amplitude first (raster.product.amplitude).")
    for name in (role, *STAND_INS.get(role, ())):
        found = scene.bands_with_role(name)
        if len(found) == 1:
            return found[0]
        if len(found) > 1:
            raise call.refuse(f"{len(found)} bands of {scene.name} have the role {name}; only one may.", code="NEEDS_BANDS",
                              needs={"roles": [name], "scene": scene.scene_id})
    raise call.refuse(f"{scene.name} has no band with the role {role}; its roles are "
                      f"{', '.join(sorted(scene.roles)) or 'unknown'}.", code="NEEDS_BANDS",
                      needs={"roles": [role], "scene": scene.scene_id})


def raster_of(scene: SceneInfo, *, quantity: str, unit: str, span: PhysicalRange, formula: str, kind: Kind = "raster",
              class_names: Mapping[int, str] | None = None) -> RasterType:
    """A raster type on a scene's own grid."""
    return RasterType(kind, scene.grid, quantity, unit, span, formula, (scene,), scene.acquired_at, scene.effective_gsd_m,
                      class_names or {})


def same_grid(call: Call, rasters: Sequence[RasterType]) -> None:
    """A refusal where grids differ: nothing is resampled unasked."""
    first = rasters[0]
    for other in rasters[1:]:
        if not grids_agree(first.grid, other.grid):
            raise call.refuse(f"{first.scene_names} and {other.scene_names} lie on different grids "
                              f"({describe(first.grid)}; {describe(other.grid)}); ask for params {{\"resample\": \"bilinear\"}} "
                              "or put raster.product.resample before.", needs={"resample": True})


def grids_agree(one: Grid, other: Grid) -> bool:
    """Equal size and CRS, and corners within a thousandth of a pixel."""
    if one.crs != other.crs or one.shape != other.shape:
        return False
    size = max(abs(one.transform[0]), abs(one.transform[1]), abs(one.transform[3]), abs(one.transform[4]))
    corners = ((0, 0), (one.width, one.height))
    return all(math.dist(one.xy(*c), other.xy(*c)) <= 1e-3 * size for c in corners)


def describe(grid: Grid) -> str:
    code = grid.epsg
    name = f"EPSG:{code}" if code else ("another CRS" if grid.crs else "no CRS")
    return f"{grid.width} × {grid.height} pixels, {name}, pixel {abs(grid.transform[0]):g}"


def joint_date(rasters: Sequence[RasterType]) -> datetime | None:
    dates = {r.acquired_at for r in rasters}
    return dates.pop() if len(dates) == 1 else None


def joined(rasters: Sequence[RasterType], **changes: Any) -> RasterType:
    """The type of a pointwise result of rasters on one grid."""
    first = rasters[0]
    scenes = tuple({s.scene_id: s for r in rasters for s in r.scenes}.values())
    quality = tuple(dict.fromkeys(q for r in rasters for q in r.quality))
    return replace(first, scenes=scenes, acquired_at=joint_date(rasters), quality=quality, class_names={}, **changes)


def on_grid_of(call: Call, names: Sequence[str], rasters: Sequence[RasterType],
               resample: str | None) -> list[Callable[[Reads, Window], Plane]]:
    """How each input's plane is read on the first one's grid: as it lies, or resampled where that was asked for."""
    if resample is None:
        same_grid(call, rasters)
    target = rasters[0].grid
    out: list[Callable[[Reads, Window], Plane]] = []
    for name, raster in zip(names, rasters, strict=True):
        if grids_agree(raster.grid, target):
            out.append(lambda reads, window, name=name: reads.plane(name, window))  # type: ignore[misc]
        else:
            out.append(resampled(call, name, raster, target, resample or "nearest"))
    return out


def resampled(call: Call, name: str, raster: RasterType, target: Grid, method: str) -> Callable[[Reads, Window], Plane]:
    """A plane of ``raster`` at the pixel centres of ``target``'s windows; bilinear needs all neighbours
    with weight to be valid, else the pixel is masked; within half a pixel of the source's outline the outer pixel is taken."""
    source = raster.grid
    if (source.crs is None) != (target.crs is None):
        raise call.refuse(f"{raster.scene_names} and the target grid cannot be brought together: one has no CRS.",
                          code="NEEDS_CRS", needs={"crs": True})
    if source.crs is None:
        raise call.refuse("Two pictures without CRS have no common place to be resampled to.", code="NEEDS_CRS",
                          needs={"crs": True})
    assert target.crs is not None
    t = transformer(target.crs, source.crs)

    def evaluate(reads: Reads, window: Window) -> Plane:
        c0, r0, w, h = window
        cols, rows = np.meshgrid(np.arange(c0, c0 + w) + 0.5, np.arange(r0, r0 + h) + 0.5)
        a, b, c, d, e, f = target.transform
        x, y = t.transform(a * cols + b * rows + c, d * cols + e * rows + f)
        a, b, c, d, e, f = source.transform
        det = a * e - b * d
        x, y = np.asarray(x) - c, np.asarray(y) - f
        sc, sr = (e * x - b * y) / det - 0.5, (a * y - d * x) / det - 0.5
        place = np.isfinite(sc) & np.isfinite(sr)
        place &= (sc >= -0.5) & (sr >= -0.5) & (sc <= source.width - 0.5) & (sr <= source.height - 0.5)
        data, valid = np.zeros((h, w)), np.zeros((h, w), dtype=bool)
        if not place.any():
            return Plane(data, valid)
        left, top = int(max(0, math.floor(sc[place].min()) - 1)), int(max(0, math.floor(sr[place].min()) - 1))
        right = int(min(source.width, math.ceil(sc[place].max()) + 2))
        bottom = int(min(source.height, math.ceil(sr[place].max()) + 2))
        if (right - left) * (bottom - top) > 64_000_000:
            raise call.refuse("the grids differ too much in resolution to be resampled window by window.")
        plane = reads.plane(name, (left, top, right - left, bottom - top))
        sc, sr = np.where(place, sc - left, 0), np.where(place, sr - top, 0)
        rows_n, cols_n = plane.data.shape
        if method == "nearest":
            i, j = np.clip(np.floor(sr + 0.5).astype(int), 0, rows_n - 1), np.clip(np.floor(sc + 0.5).astype(int), 0, cols_n - 1)
            return Plane(plane.data[i, j], plane.valid[i, j] & place)
        sr, sc = np.clip(sr, 0, rows_n - 1), np.clip(sc, 0, cols_n - 1)
        # a millionth of a pixel beside a centre is rounding on the way through the CRS: its neighbour has no weight
        sr, sc = (np.where(np.abs(v - np.rint(v)) < 1e-6, np.rint(v), v) for v in (sr, sc))
        i, j = np.minimum(sr.astype(int), max(0, rows_n - 2)), np.minimum(sc.astype(int), max(0, cols_n - 2))
        i2, j2 = np.minimum(i + 1, rows_n - 1), np.minimum(j + 1, cols_n - 1)
        u, v = sr - i, sc - j
        # a neighbour with weight 0 does not matter, even where it is no number
        held = np.where(plane.valid, plane.data, 0.0)
        data = (1 - u) * ((1 - v) * held[i, j] + v * held[i, j2]) + u * ((1 - v) * held[i2, j] + v * held[i2, j2])
        valid = place.copy()
        for weight, ii, jj in (((1 - u) * (1 - v), i, j), ((1 - u) * v, i, j2), (u * (1 - v), i2, j), (u * v, i2, j2)):
            valid &= plane.valid[ii, jj] | (weight == 0)
        return Plane(data, valid & np.isfinite(data))

    return evaluate


def pointwise(formula: Formula, sources: Mapping[str, Callable[[Reads, Window], Plane]]) -> Callable[[Reads, Window], Plane]:
    def evaluate(reads: Reads, window: Window) -> Plane:
        return formula.evaluate({name: sources[name](reads, window) for name in formula.names})
    return evaluate


# --- assets ----------------------------------------------------------------------------------------------------------------
class SceneParams(Frozen):
    scene: str = Field(description="scene id")


def _plan_scene(call: Call) -> Planned:
    scene = call.scenes.get(call.params.scene)
    if scene is None:
        raise call.refuse(f"the question has no scene {call.params.scene}.", code="NOT_FOUND")
    notes: list[tuple[str, str]] = []
    for rule in scene.fill_rules:
        if rule.source == "suspected":
            share = "" if rule.share is None else f" ({rule.share:.1%} of the pixels)"
            what = f"all bands equal {rule.value:g}" if rule.kind == "all_bands_equal" and rule.value is not None else \
                "values outside the valid range"
            notes.append(("warning", f"{scene.name}: {what}{share} is taken as undeclared fill and masked."))
    if not scene.bands:
        raise call.refuse(f"{scene.name} has no bands.")
    return Planned(SceneType("scene", scene), notes=tuple(notes))


register(Operator(
    name="asset.scene", summary="One scene of the question.", takes=Take((), 0, 0), params=SceneParams, gives="scene",
    range="declared by each band", nodata="the scene's declared nodata, alpha, valid range and fill rules", plan=_plan_scene))


# --- bands and indices -----------------------------------------------------------------------------------------------------
class BandParams(QualityParams):
    role: str


def _plan_band(call: Call) -> Planned:
    scene: SceneInfo = call.inputs[0].scene
    band = band_of(call, scene, call.params.role)
    span = band_range(band, scene.dtype)
    index = band.index
    kind: Kind = "classes" if band.role in ("class", "qa", "mask") else "raster"
    if kind == "classes" and (band.scale, band.offset) != (1, 0):
        raise call.refuse(f"the {band.role} band of {scene.name} holds codes, which have no scale, but × {band.scale:g} + "
                          f"{band.offset:g} is on record: no code would be found again. Take that off, or give the band another "
                          "role.", needs={"scene": scene.scene_id, "scale": 1})
    text = band.role if (band.scale, band.offset) == (1, 0) else f"stored({band.role}) * {band.scale:g} + {band.offset:g}"
    return Planned(raster_of(scene, quantity=band.role, unit=band.unit, span=span, formula=text, kind=kind),
                   bands=((scene.scene_id, band.role, index),),
                   evaluate=lambda reads, window: reads.band(scene.scene_id, index, window))


register(Operator(
    name="raster.product.band", summary="One band's physical values (scale and offset applied once).",
    takes=Take(("scene",)), params=BandParams, gives="raster", range="of the band's role, unit, valid range or type",
    nodata="the scene's policy", plan=_plan_band))


# The unit by which a person says that real samples are amplitudes.
AMPLITUDE_UNIT = "amplitude"


class AmplitudeParams(Frozen):
    role: str
    scale: Literal["amplitude", "power", "dB"] = "amplitude"


def _plan_amplitude(call: Call) -> Planned:
    scene: SceneInfo = call.inputs[0].scene
    p: AmplitudeParams = call.params
    band = band_of(call, scene, p.role, allow_complex=True)
    is_complex = scene.dtype.startswith("complex")
    if not (is_complex or band.is_amplitude or band.unit == AMPLITUDE_UNIT):
        why = "nothing says that they are amplitudes: they may be power or decibels already"
        raise call.refuse(f"{scene.name} has real samples, and {why}. raster.product.band gives them as they are; who knows that "
                          f"they are amplitudes gives them the unit {AMPLITUDE_UNIT}.",
                          needs={"unit": AMPLITUDE_UNIT, "scene": scene.scene_id})
    if is_complex and band.offset != 0:
        raise call.refuse(f"{scene.name} declares an offset of its complex samples, which belongs inside the amplitude.")
    index, factor = band.index, abs(band.scale) if is_complex else 1.0

    def evaluate(reads: Reads, window: Window) -> Plane:
        # the engine hands complex samples over as the amplitude of what is stored; no amplitude is negative
        plane = reads.band(scene.scene_id, index, window)
        data = factor * np.asarray(plane.data, dtype=np.float64)
        plane = Plane(data, plane.valid & (data >= 0))
        if p.scale == "amplitude":
            return plane
        power = plane.data ** 2
        if p.scale == "power":
            return Plane(power, plane.valid)
        with np.errstate(all="ignore"):
            level = 10 * np.log10(power)
        return Plane(level, plane.valid & np.isfinite(level))

    span = PhysicalRange(-100, 100) if p.scale == "dB" else PhysicalRange(0, why="an uncalibrated amplitude has no upper bound")
    unit = {"amplitude": "DN", "power": "DN2", "dB": "dB"}[p.scale]
    text = {"amplitude": f"|{p.role}|", "power": f"|{p.role}|^2", "dB": f"10 log10 |{p.role}|^2"}[p.scale]
    what = {"power": "power", "dB": "decibels above one unit of power"}.get(p.scale)
    notes = (("info", f"{scene.name}: {what} of uncalibrated amplitudes, no backscatter coefficient."),) if what else ()
    return Planned(raster_of(scene, quantity=f"{p.role}_{p.scale.lower()}", unit=unit, span=span, formula=text),
                   bands=((scene.scene_id, band.role, index),), evaluate=evaluate, notes=notes)


register(Operator(
    name="raster.product.amplitude", summary="Amplitude, power or level in dB of complex samples, or of known amplitudes.",
    takes=Take(("scene",)), params=AmplitudeParams, gives="raster",
    range="0 or more; −100 to 100 dB", nodata="the scene's policy; a level where the amplitude is 0", plan=_plan_amplitude))


class IndexParams(QualityParams):
    index: str
    out_of_range: Literal["keep", "mask"] = Field(
        default="keep", description="values outside the physical range: kept and counted, or masked and counted")


def _bands_of_formula(call: Call, scene: SceneInfo, formula: Formula) -> dict[str, Band]:
    missing = []
    found: dict[str, Band] = {}
    for role in formula.names:
        names = (role, *STAND_INS.get(role, ()))
        if any(len(scene.bands_with_role(n)) == 1 for n in names):
            found[role] = band_of(call, scene, role)
        else:
            missing.append(role)
    if missing:
        raise call.refuse(f"{scene.name} has no band known as {', '.join(missing)}; the formula {formula.text} needs "
                          f"{', '.join(formula.names)}. Its roles are {', '.join(sorted(scene.roles)) or 'unknown'}.",
                          code="NEEDS_BANDS", needs={"roles": missing, "scene": scene.scene_id})
    if len({b.index for b in found.values()}) != len(found):
        raise call.refuse("two roles of the formula fall on one band.", code="NEEDS_BANDS")
    return found


def _one_unit(call: Call, scene: SceneInfo, bands: Mapping[str, Band]) -> str:
    units = {b.unit for b in bands.values()}
    if len(units) > 1:
        raise call.refuse(f"the bands of {scene.name} have different units ({', '.join(sorted(units))}); a ratio of them means "
                          "nothing.")
    return units.pop()


def _reader(scene_id: str, index: int) -> Callable[[Reads, Window], Plane]:
    return lambda reads, window: reads.band(scene_id, index, window)


def product_of_bands(call: Call, scene: SceneInfo, formula: Formula, *, quantity: str, unit: str, span: PhysicalRange,
                     mask_outside: bool = False, notes: tuple[tuple[str, str], ...] = ()) -> Planned:
    """A pointwise product of a scene's bands."""
    bands = _bands_of_formula(call, scene, formula)
    evaluate = pointwise(formula, {r: _reader(scene.scene_id, b.index) for r, b in bands.items()})
    if mask_outside:
        inner = evaluate

        def evaluate(reads: Reads, window: Window) -> Plane:
            plane = inner(reads, window)
            return Plane(plane.data, plane.valid & (plane.data >= span.low) & (plane.data <= span.high))
    more = tuple(("info", f"{scene.name}: band {b.index} ({b.role}) stands for {r}.") for r, b in bands.items() if b.role != r)
    return Planned(raster_of(scene, quantity=quantity, unit=unit, span=span, formula=formula.text),
                   bands=tuple((scene.scene_id, r, b.index) for r, b in bands.items()), evaluate=evaluate, notes=notes + more)


def _plan_index(call: Call) -> Planned:
    scene: SceneInfo = call.inputs[0].scene
    name = call.params.index.lower()
    index = INDICES.get(name)
    if index is None:
        raise call.refuse(f"no index named {name!r}; known: {', '.join(sorted(INDICES))}.")
    bands = _bands_of_formula(call, scene, index.formula)
    unit = _one_unit(call, scene, bands)
    notes: list[tuple[str, str]] = []
    if unit == "dB":
        raise call.refuse(f"{index.title} needs linear values; the bands of {scene.name} are in dB.")
    if index.needs == "reflectance" and unit != "reflectance":
        raise call.refuse(f"{index.title} has constants in reflectance, but the bands of {scene.name} are in {unit}; say their "
                          "scale and offset, or ask for an index without constants such as NDVI.",
                          needs={"unit": "reflectance", "scene": scene.scene_id})
    if unit == "DN":
        sentence = (f"{scene.name}: {name.upper()} is computed from numbers as they are stored, not from reflectance. An offset "
                    "that belongs to them would change it, and it does not compare with other sensors and dates.")
        notes.append(("warning", sentence))
    elif unit != "reflectance":
        sentence = (f"{scene.name}: {name.upper()} is computed from {unit}, not reflectance; it is not comparable with other "
                    "sensors and dates without calibration.")
        notes.append(("info", sentence))
    return product_of_bands(call, scene, index.formula, quantity=name, unit="1", span=index.range,
                            mask_outside=call.params.out_of_range == "mask", notes=tuple(notes))


register(Operator(
    name="raster.product.index", summary="A spectral index of the table (ndvi, ndwi, mndwi, ndbi, evi, …).",
    takes=Take(("scene",)), params=IndexParams, gives="raster", range="declared by each index of the table",
    nodata="masked where a band is, and where the formula is undefined (zero denominator)", plan=_plan_index,
    reference="INDICES, each with its own"))


class PairParams(QualityParams):
    first: str = Field(description="band role")
    second: str = Field(description="band role")


def _plan_normalized(call: Call) -> Planned:
    scene: SceneInfo = call.inputs[0].scene
    p: PairParams = call.params
    if p.first == p.second:
        raise call.refuse("the two roles are the same.")
    formula = parse(f"({p.first} - {p.second}) / ({p.first} + {p.second})") if _plain(call, p) else parse("0")
    unit = _one_unit(call, scene, _bands_of_formula(call, scene, formula))
    if unit == "dB":
        raise call.refuse("a normalized difference needs linear values, not dB.")
    return product_of_bands(call, scene, formula, quantity=f"nd_{p.first}_{p.second}", unit="1", span=PhysicalRange(-1, 1))


def _plain(call: Call, p: PairParams) -> bool:
    for role in (p.first, p.second):
        if not role.isidentifier():
            raise call.refuse(f"{role!r} is not a band role.")
    return True


register(Operator(
    name="raster.product.normalized_difference", summary="(first − second) / (first + second) of two bands.",
    takes=Take(("scene",)), params=PairParams, gives="raster", range=PhysicalRange(-1, 1),
    nodata="masked where a band is, and where the sum is 0", plan=_plan_normalized))


def _plan_ratio(call: Call) -> Planned:
    scene: SceneInfo = call.inputs[0].scene
    p: PairParams = call.params
    _plain(call, p)
    formula = parse(f"{p.first} / {p.second}")
    unit = _one_unit(call, scene, _bands_of_formula(call, scene, formula))
    if unit == "dB":
        raise call.refuse("a ratio needs linear values, not dB.")
    return product_of_bands(call, scene, formula, quantity=f"ratio_{p.first}_{p.second}", unit="1",
                            span=PhysicalRange(0, why="a ratio of positive bands has no upper bound"))


register(Operator(
    name="raster.product.ratio", summary="first / second of two bands.", takes=Take(("scene",)), params=PairParams,
    gives="raster", range=PhysicalRange(0, why="a ratio of positive bands has no upper bound"),
    nodata="masked where a band is, and where the second is 0", plan=_plan_ratio))


class MathParams(QualityParams):
    expression: str = Field(max_length=500, description="band roles (one scene) or node ids (rasters) as names")
    range: tuple[float, float] = Field(description="physical range of the result")
    unit: str = Field(default="1", max_length=40)
    quantity: str = Field(default="custom", pattern=r"^[a-z][a-z0-9_]{0,39}$")


def _plan_math(call: Call) -> Planned:
    p: MathParams = call.params
    formula = parse(p.expression)
    low, high = p.range
    if not low < high:
        raise call.refuse("the declared range is empty.")
    span = PhysicalRange(low, high)
    first = call.inputs[0]
    if isinstance(first, SceneType):
        if len(call.inputs) > 1:
            raise call.refuse("math over a scene takes one scene; bring several dates together as raster nodes.")
        bands = _bands_of_formula(call, first.scene, formula)
        check_formula(call, formula.tree, {n: ("band", b.role, b.unit) for n, b in bands.items()})
        return product_of_bands(call, first.scene, formula, quantity=p.quantity, unit=p.unit, span=span)
    if any(isinstance(i, SceneType) for i in call.inputs):
        raise call.refuse("inputs are either one scene or rasters, not both.")
    unknown = [n for n in formula.names if n not in call.names]
    if unknown:
        raise call.refuse(f"the expression names {', '.join(unknown)}, which is no input of the node.")
    same_grid(call, call.inputs)
    held = dict(zip(call.names, call.inputs, strict=True))
    check_formula(call, formula.tree, {n: (held[n].kind, held[n].quantity, held[n].unit) for n in formula.names})
    if p.quantity.casefold() in DNBR:
        check_dnbr(call, formula.tree, held)
    return Planned(joined(call.inputs, kind="raster", quantity=p.quantity, unit=p.unit, range=span, formula=formula.text),
                   evaluate=pointwise(formula, {n: _plane(n) for n in formula.names}))


def _plane(name: str) -> Callable[[Reads, Window], Plane]:
    return lambda reads, window: reads.plane(name, window)


register(Operator(
    name="raster.product.math", summary="Band math by an allow-listed grammar; the caller declares the range of the result.",
    takes=Take(("scene", "raster", "mask", "classes"), 1, 64), params=MathParams, gives="raster",
    range="declared by the caller, always", nodata="masked where an input is, and where the result is not finite",
    plan=_plan_math))


# --- masks -----------------------------------------------------------------------------------------------------------------
class ThresholdParams(Frozen):
    op: Literal[">", ">=", "<", "<="] = ">"
    value: float | Literal["otsu", "percentile"] = Field(
        description="a number, or Otsu's threshold, or a percentile of the values inside the region")
    percentile: float | None = Field(default=None, ge=0, le=100, description="for value percentile")
    unit: str = Field(default="", description="unit of the number; refused where it is not the input's")


_COMPARE: dict[str, Callable[[Any, float], Any]] = {">": np.greater, ">=": np.greater_equal, "<": np.less, "<=": np.less_equal}


def _plan_threshold(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: ThresholdParams = call.params
    name, compare = call.names[0], _COMPARE[p.op]
    if p.unit and p.unit != source.unit:
        raise call.refuse(f"the threshold is in {p.unit}, the values of {source.quantity} are in {source.unit}.")
    this = call.node.id
    if p.value == "percentile" and p.percentile is None:
        raise call.refuse("a threshold at a percentile needs a number from 0 to 100.")
    number = 0.0
    if not isinstance(p.value, str):
        number = float(p.value)
        if not source.range.low <= number <= source.range.high:
            raise call.refuse(f"{source.quantity} lies in [{source.range.low:g}, {source.range.high:g}]; the threshold "
                              f"{number:g} is outside it.")
        check_threshold_scale(call, source, number, p.unit)
    kind = joined([source], kind="mask", quantity=source.quantity, unit="1", range=PhysicalRange(0, 1),
                  formula=f"{source.quantity} {p.op} {p.value if p.percentile is None else f'percentile {p.percentile:g}'}")
    kind = replace(kind, acquired_at=source.acquired_at)

    # a value that is the limit but for its rounding is neither above nor below it
    slack = on_limit(number, source.unit, source.range.low, source.range.high)
    cut = number + slack if p.op in (">", "<=") else number - slack

    def evaluate(reads: Reads, window: Window) -> Plane:
        plane = reads.plane(name, window)
        limit = reads.state(this) if isinstance(p.value, str) else cut
        return Plane(compare(plane.data, limit).astype(np.float64), plane.valid)

    if not isinstance(p.value, str):
        return Planned(kind, evaluate=evaluate)
    if p.value == "percentile":
        share = (p.percentile or 0.0) / 100

        def at_rank(found: Sequence[Any]) -> tuple[float, dict[str, JsonValue]]:
            ranks: OrderStatistics = found[0]
            if not ranks.n:
                raise call.refuse("no valid pixel is left.", code="TOOL_FAILED", needs={"valid_px": True})
            limit = ranks.value(share)
            return limit, {"threshold": limit, "method": "percentile", "percentile": p.percentile}

        return Planned(kind, evaluate=evaluate, prepare=lambda: [((name,), OrderStatistics([share]))], settle=at_rank)

    def settle(found: Sequence[Any]) -> tuple[float, dict[str, JsonValue]]:
        histogram: Histogram = found[0]
        threshold, separability = otsu(histogram.counts, histogram.edges)
        return threshold, {"threshold": threshold, "method": "otsu", "separability": separability,
                           "histogram": {"counts": [int(c) for c in histogram.counts],
                                         "low": float(histogram.edges[0]), "high": float(histogram.edges[-1])}}

    return Planned(kind, evaluate=evaluate, prepare=lambda: [((name,), Histogram(256))], settle=settle)


register(Operator(
    name="raster.product.threshold", summary="Where a raster is above or below a number, or Otsu's threshold.",
    takes=Take(RASTERS), params=ThresholdParams, gives="mask", range=PhysicalRange(0, 1), nodata="masked where the input is",
    plan=_plan_threshold, reference="Otsu 1979, IEEE SMC 9, for value otsu"))


class LogicParams(Frozen):
    op: Literal["and", "or", "xor", "and_not"] = "and"


def _plan_logic(call: Call) -> Planned:
    same_grid(call, call.inputs)
    p: LogicParams = call.params
    names = call.names
    functions: dict[str, Callable[[Any, Any], Any]] = {
        "and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor, "and_not": lambda a, b: a & ~b}

    def evaluate(reads: Reads, window: Window) -> Plane:
        first = reads.plane(names[0], window)
        data, valid = first.data != 0, first.valid
        for n in names[1:]:
            plane = reads.plane(n, window)
            data, valid = functions[p.op](data, plane.data != 0), valid & plane.valid
        return Plane(data.astype(np.float64), valid)

    text = f" {p.op} ".join(f"({i.formula})" for i in call.inputs)
    quantity = "_".join(dict.fromkeys(i.quantity for i in call.inputs))[:60]
    return Planned(joined(call.inputs, quantity=quantity, formula=text, range=PhysicalRange(0, 1)), evaluate=evaluate)


register(Operator(
    name="raster.product.logic", summary="Masks combined: and, or, xor, and_not.", takes=Take(("mask",), 2, 64),
    params=LogicParams, gives="mask", range=PhysicalRange(0, 1), nodata="masked where any input is", plan=_plan_logic))


class ApplyMaskParams(Frozen):
    keep: Literal["true", "false"] = Field(default="true", description="which pixels of the mask are kept")
    quality: str = Field(default="", max_length=80, description="name of the quality mask, where it is one (cloud, shadow, …)")


def _plan_apply(call: Call) -> Planned:
    raster, mask = call.inputs
    if mask.kind != "mask" or (raster.kind == "mask" and raster is mask):
        raise call.refuse("the first input is masked by the second, which must be a mask.")
    same_grid(call, call.inputs)
    one, other = call.names
    keep = call.params.keep == "true"

    def evaluate(reads: Reads, window: Window) -> Plane:
        plane, chosen = reads.plane(one, window), reads.plane(other, window)
        return Plane(plane.data, plane.valid & chosen.valid & ((chosen.data != 0) == keep))

    quality = raster.quality + ((call.params.quality,) if call.params.quality else ())
    scenes = tuple({s.scene_id: s for r in call.inputs for s in r.scenes}.values())
    return Planned(replace(raster, scenes=scenes, quality=quality,
                           formula=f"({raster.formula}) where {'' if keep else 'not '}({mask.formula})"), evaluate=evaluate)


register(Operator(
    name="raster.product.apply_mask", summary="A raster with the pixels outside a mask taken out (cloud mask, land mask, …).",
    takes=Take(("raster", "mask", "classes"), 2, 2), params=ApplyMaskParams, gives="raster", range="of the first input",
    nodata="masked where either input is, and where the mask says so", plan=_plan_apply))


class ClassValuesParams(Frozen):
    values: tuple[int, ...] = Field(min_length=1, max_length=256)
    name: str = Field(default="class", pattern=r"^[a-z][a-z0-9_]{0,39}$")


def _plan_class_values(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    wanted, name = np.array(call.params.values, dtype=np.float64), call.names[0]

    def evaluate(reads: Reads, window: Window) -> Plane:
        plane = reads.plane(name, window)
        return Plane(np.isin(plane.data, wanted).astype(np.float64), plane.valid)

    return Planned(replace(source, kind="mask", quantity=call.params.name, unit="1", range=PhysicalRange(0, 1), class_names={},
                           formula=f"{source.quantity} in {list(call.params.values)}"), evaluate=evaluate)


register(Operator(
    name="raster.product.class_values", summary="Where a class map has one of the given values.",
    takes=Take(("classes", "raster")), params=ClassValuesParams, gives="mask", range=PhysicalRange(0, 1),
    nodata="masked where the input is", plan=_plan_class_values))


# --- two dates -------------------------------------------------------------------------------------------------------------
class DifferenceParams(Frozen):
    resample: Literal["nearest", "bilinear"] | None = Field(default=None, description="the second onto the first's grid")
    mode: Literal["difference", "percent", "ratio", "absolute", "loss"] = Field(
        default="difference", description="after − before; in % of before; after / before; |after − before|; loss: before − "
                                          "after, as dNBR is")


def _plan_difference(call: Call) -> Planned:
    before, after = call.inputs
    p: DifferenceParams = call.params
    if before.unit != after.unit:
        raise call.refuse(f"the inputs have different units ({before.unit} and {after.unit}).")
    if before.quantity != after.quantity:
        raise call.refuse(f"the inputs are different quantities ({before.quantity} and {after.quantity}).")
    check_scale(call, before, p.mode)
    check_made_of_one_unit(call, call.inputs)
    sources = on_grid_of(call, call.names, call.inputs, p.resample)
    expression, unit = {"difference": ("after - before", before.unit), "percent": ("100 * (after - before) / abs(before)", "%"),
                        "ratio": ("after / before", "1"), "absolute": ("abs(after - before)", before.unit),
                        "loss": ("before - after", before.unit)}[p.mode]
    formula = parse(expression)
    low, high = before.range.low, before.range.high
    open_why = before.range.why or "a quotient has no bound"
    if p.mode == "difference":
        span = PhysicalRange(min(after.range.low - high, 0), max(after.range.high - low, 0), open_why)
    elif p.mode == "loss":
        span = PhysicalRange(min(low - after.range.high, 0), max(high - after.range.low, 0), open_why)
    elif p.mode == "absolute":
        span = PhysicalRange(0, max(after.range.high - low, high - after.range.low), open_why)
    else:
        span = PhysicalRange(why="a quotient has no bound")
    notes: list[tuple[str, str]] = []
    if before.acquired_at and after.acquired_at and before.acquired_at > after.acquired_at:
        notes.append(("warning", "The first input is later than the second: the difference runs backwards in time."))
    suffix = {"difference": "change", "percent": "percent_change", "ratio": "change_ratio", "absolute": "absolute_change",
              "loss": "loss"}[p.mode]
    kind = joined([before, after], kind="raster", quantity=f"{before.quantity}_{suffix}", unit=unit, range=span,
                  formula=f"{expression}, of {before.formula}")
    resamples = not grids_agree(before.grid, after.grid)
    return Planned(kind, evaluate=pointwise(formula, {"before": sources[0], "after": sources[1]}), notes=tuple(notes),
                   resamples=resamples)


register(Operator(
    name="raster.product.difference", summary="After minus before, of one quantity on two dates (also in percent or as ratio).",
    takes=Take(RASTERS, 2, 2), params=DifferenceParams, gives="raster", range="the span that the inputs' ranges allow",
    nodata="masked where either date is, and where a quotient is undefined", plan=_plan_difference))


__all__ = ["NoParams", "band_of", "joined", "pointwise", "product_of_bands", "raster_of", "same_grid"]
