"""Operators of physical retrievals, quality bits, classes and cover: table-driven, each with range, units and reference."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen
from apps.core.ports import Window
from apps.tools.execute.accumulators import OrderStatistics
from apps.tools.execute.operators_catalog import level_of_name
from apps.tools.execute.operators_products import band_of, joined, raster_of, same_grid
from apps.tools.execute.quality import quality_band
from apps.tools.execute.retrievals import OF_THE_SURFACE, RETRIEVALS, Retrieval
from apps.tools.execute.types import (
    Call,
    Operator,
    PhysicalRange,
    Plane,
    Planned,
    RasterType,
    Reads,
    Sample,
    SceneType,
    Take,
    register,
)
from apps.tools.thresholds import on_limit

Source = Callable[[Reads, Window], Plane]


# --- retrievals ------------------------------------------------------------------------------------------------------------
class RetrievalParams(Frozen):
    name: str
    inputs: dict[str, str] = Field(default_factory=dict, description="variable → band role (one scene) or node id (rasters)")
    coefficients: dict[str, float] = Field(default_factory=dict)


def _plan_retrieval(call: Call) -> Planned:
    p: RetrievalParams = call.params
    found = RETRIEVALS.get(p.name)
    if found is None:
        raise call.refuse(f"no retrieval named {p.name!r}; known: {', '.join(sorted(RETRIEVALS))}.")
    unknown = sorted(set(p.coefficients) - set(found.coefficients)) + sorted(set(p.inputs) - set(found.inputs))
    if unknown:
        raise call.refuse(f"{found.title} knows no {', '.join(unknown)}.")
    coefficients = {k: p.coefficients.get(k, v) for k, v in found.coefficients.items()}
    missing = [k for k, v in coefficients.items() if v is None]
    if missing:
        raise call.refuse(f"{found.title} needs {', '.join(missing)}; they have no default.", needs={"coefficients": missing})
    if not all(v is not None and math.isfinite(v) for v in coefficients.values()):
        raise call.refuse("a coefficient is not finite.")
    given = {k: float(v) for k, v in coefficients.items() if v is not None}
    sources: dict[str, Source] = {}
    bands: list[tuple[str, str, int]] = []
    first = call.inputs[0]
    if isinstance(first, SceneType):
        if len(call.inputs) > 1:
            raise call.refuse("a retrieval takes one scene, or raster nodes.")
        scene = first.scene
        for variable, unit in found.inputs.items():
            band = band_of(call, scene, p.inputs.get(variable, variable))
            _check_unit(call, variable, unit, band.unit)
            bands.append((scene.scene_id, variable, band.index))
            sources[variable] = lambda reads, window, s=scene.scene_id, i=band.index: reads.band(s, i, window)  # type: ignore[misc]
        kind = raster_of(scene, quantity=found.name, unit=found.unit, span=found.range, formula=found.text)
    else:
        same_grid(call, call.inputs)
        by_name = dict(zip(call.names, call.inputs, strict=True))
        for variable, unit in found.inputs.items():
            node = p.inputs.get(variable, variable)
            if node not in by_name:
                raise call.refuse(f"{found.title} needs {variable}; name the input node that stands for it in params.inputs.")
            _check_unit(call, variable, unit, by_name[node].unit)
            sources[variable] = lambda reads, window, n=node: reads.plane(n, window)  # type: ignore[misc]
        kind = joined(call.inputs, kind="raster", quantity=found.name, unit=found.unit, range=found.range, formula=found.text)
    text = found.text + (f" with {', '.join(f'{k} = {v:g}' for k, v in given.items())}" if given else "")
    return Planned(replace(kind, formula=text), bands=tuple(bands),
                   notes=(*_notes_of_sensors(found, p, kind), *_notes_of_the_air(found, call, kind)),
                   evaluate=lambda reads, window: found.evaluate({n: s(reads, window) for n, s in sources.items()}, given))


def _notes_of_sensors(found: Retrieval, p: RetrievalParams, kind: RasterType) -> tuple[tuple[str, str], ...]:
    """What of the retrieval is another sensor's than the scenes'."""
    notes = {s.sensor: found.away_from_home(s.sensor, p.coefficients) for s in kind.scenes}
    names = {s.sensor: s.name for s in kind.scenes}
    return tuple((note[0], f"{note[1]}; {names[sensor]} is of {sensor}." if sensor else
                  f"{note[1]}; of which sensor {names[sensor]} is, is not known.") for sensor, note in notes.items() if note)


def _notes_of_the_air(found: Retrieval, call: Call, kind: RasterType) -> tuple[tuple[str, str], ...]:
    """Where a formula of the surface is given reflectance that has the light of the air in it, or may have."""
    why = OF_THE_SURFACE.get(found.name)
    made = {i.quantity for i in call.inputs if isinstance(i, RasterType)}
    if why is None or "dark_object" in made:
        return ()
    above = bool(made & {"toa_reflectance", "toa_reflectance_radiance"})
    head, notes = f"{found.title}: the formula is of reflectance at the surface", []
    for scene in kind.scenes:
        level = level_of_name(scene.name)
        if above or level.startswith("L1"):
            cure = "Use a product of level 2, or take out the darkest object (dark_object) first."
            notes.append(("warning", f"{head}, and that of {scene.name} is above the air: {why}. {cure}"))
        elif not level.startswith("L2"):
            notes.append(("info", f"{head}; whether the air was taken out of {scene.name} is not known. If not, {why}."))
    return tuple(dict.fromkeys(notes))


def _check_unit(call: Call, variable: str, wanted: str, unit: str) -> None:
    if unit != wanted:
        raise call.refuse(f"{variable} must be in {wanted}; it is in {unit}.", needs={"unit": wanted})


register(Operator(
    name="raster.product.retrieval", summary="A physical quantity by a published formula of the table (temperatures, emissivity, "
    "water vapour, turbidity, snow depth, sea ice, …).", takes=Take(("scene", "raster"), 1, 16), params=RetrievalParams,
    gives="raster", range="declared by each retrieval of the table", nodata="masked where an input is, and where it is undefined",
    plan=_plan_retrieval, reference="RETRIEVALS, each with its own"))


# --- quality bits ----------------------------------------------------------------------------------------------------------
# scheme → flag → (bits, value) or class values
QA_BITS: Mapping[str, Mapping[str, int]] = {
    "landsat_c2": {"fill": 0, "dilated_cloud": 1, "cirrus": 2, "cloud": 3, "shadow": 4, "snow": 5, "clear": 6, "water": 7},
    "landsat_c1": {"fill": 0, "cloud": 4},
    "sentinel2_qa60": {"cloud": 10, "cirrus": 11},
    "modis_state_1km": {"cloud": 0, "shadow": 2, "snow": 12},
}
# Two-bit confidences of the older Landsat bands: flag → (shift, least confidence); 2 medium, 3 high
QA_CONFIDENCE: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "landsat_c1": {"shadow": (7, 3), "snow": (9, 3), "cirrus": (11, 3)},
    "landsat_precollection": {"cloud": (14, 3), "cirrus": (12, 3), "snow": (10, 3), "water": (4, 3)},
}
QA_CLASSES: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "sentinel2_scl": {"fill": (0,), "saturated": (1,), "dark": (2,), "shadow": (3,), "vegetation": (4,), "bare": (5,),
                      "water": (6,), "unclassified": (7,), "cloud": (8, 9), "cirrus": (10,), "snow": (11,)},
    "mod13_reliability": {"marginal": (1,), "snow": (2,), "cloud": (3,)},
}


def qa_flags(scheme: str) -> frozenset[str]:
    """The flags that a scheme has."""
    return frozenset({*QA_BITS.get(scheme, {}), *QA_CONFIDENCE.get(scheme, {}), *QA_CLASSES.get(scheme, {})})


def qa_flagged(stored: NDArray[np.int64], scheme: str, flags: Sequence[str]) -> NDArray[np.bool_]:
    """Where the stored values of a quality band raise one of the flags, which the scheme must have (``qa_flags``)."""
    bits, confidence = QA_BITS.get(scheme, {}), QA_CONFIDENCE.get(scheme, {})
    classes = QA_CLASSES.get(scheme, {})
    out = np.zeros(stored.shape, dtype=bool)
    for flag in flags:
        if flag in classes:
            out |= np.isin(stored, classes[flag])
        elif flag in confidence:
            shift, least = confidence[flag]
            out |= (stored >> shift & 3) >= least
        elif scheme == "modis_state_1km" and flag == "cloud":
            out |= (stored & 3) == 1
        else:
            out |= stored >> bits[flag] & 1 == 1
    return out


# ESA, processing baselines 04.00 to 05.09: clouds are masks of their own there.
_QA60_EMPTY = (datetime(2022, 1, 25, tzinfo=UTC), datetime(2024, 2, 28, tzinfo=UTC))


class QaParams(Frozen):
    scheme: Literal["auto", "landsat_c2", "landsat_c1", "landsat_precollection", "sentinel2_qa60", "sentinel2_scl",
                    "modis_state_1km", "mod13_reliability"] = Field(
        default="auto", description="how bits or classes are read; auto: as the product's own band tells")
    flags: tuple[str, ...] = Field(default=("cloud", "shadow"), min_length=1)
    role: str = "qa"
    band: int | None = Field(default=None, ge=1, description="1-based band, where several have the role")


def _plan_qa(call: Call) -> Planned:
    scene = call.inputs[0].scene
    p: QaParams = call.params
    named = quality_band(scene) if p.scheme == "auto" and p.band is None else None
    band = named or (band_of(call, scene, p.role) if p.band is None else
                     next((b for b in scene.bands if b.index == p.band and b.role == p.role), None))
    if band is None:
        raise call.refuse(f"band {p.band} of {scene.name} is no {p.role} band.", code="NEEDS_BANDS",
                          needs={"roles": [p.role], "scene": scene.scene_id})
    scheme = band.scheme if p.scheme == "auto" else p.scheme
    if not scheme:
        raise call.refuse(f"how the quality band of {scene.name} is read is not known; name its scheme.",
                          needs={"scheme": True, "scene": scene.scene_id})
    if band.scheme and band.scheme != scheme:
        raise call.refuse(f"the quality band of {scene.name} is read by {band.scheme}, not by {scheme}: the same bits mean "
                          "something else there.")
    if (band.scale, band.offset) != (1, 0):
        raise call.refuse("a quality band has no scale.")
    known = qa_flags(scheme)
    unknown = [f for f in p.flags if f not in known]
    if unknown:
        raise call.refuse(f"{scheme} has no flag {', '.join(unknown)}; it has {', '.join(sorted(known))}.")
    index = band.index

    def evaluate(reads: Reads, window: Window) -> Plane:
        plane = reads.band(scene.scene_id, index, window)
        stored = np.where(plane.valid, plane.data, 0).astype(np.int64)
        return Plane(qa_flagged(stored, scheme, p.flags).astype(np.float64), plane.valid)

    kind = raster_of(scene, quantity="_".join(p.flags)[:60], unit="1", span=PhysicalRange(0, 1), kind="mask",
                     formula=f"{scheme}: {' or '.join(p.flags)}")
    notes: tuple[tuple[str, str], ...] = ()
    if scheme == "sentinel2_qa60" and scene.acquired_at is not None and _QA60_EMPTY[0] <= scene.acquired_at < _QA60_EMPTY[1]:
        notes = (("warning", ("QA60 was left empty in products from 25 January 2022 to 28 February 2024: that it flags no cloud "
                              "there does not say that there is none.")),)
    return Planned(kind, bands=((scene.scene_id, band.role, index),), evaluate=evaluate, notes=notes)


register(Operator(
    name="raster.product.qa_mask", summary="Where a quality band flags cloud, shadow, snow, … (True = flagged).",
    takes=Take(("scene",)), params=QaParams, gives="mask", range=PhysicalRange(0, 1), nodata="masked where the quality band is",
    plan=_plan_qa, reference="USGS Landsat C1 and C2 QA; Sentinel-2 MSI L1C QA60 and L2A SCL; MOD09GA, MOD13Q1"))


# --- classes ---------------------------------------------------------------------------------------------------------------
PRESETS: Mapping[str, tuple[tuple[float, ...], tuple[str, ...], str]] = {
    "burn_severity": ((-0.25, -0.1, 0.1, 0.27, 0.44, 0.66), (
        "high regrowth", "low regrowth", "unburnt", "low severity", "moderate-low severity", "moderate-high severity",
        "high severity"), "Key and Benson 2006, RMRS-GTR-164, of dNBR = before − after"),
    "ndvi_cover": ((0.0, 0.2, 0.4, 0.6), ("water or none", "bare", "sparse", "moderate", "dense"), "common practice"),
    "drought_tvdi": ((0.2, 0.4, 0.6, 0.8), ("wet", "normal", "slight", "moderate", "severe"), "Sandholt et al. 2002 and later"),
    "slope_degrees": ((2.0, 5.0, 15.0, 30.0), ("flat", "gentle", "moderate", "steep", "very steep"), "common practice"),
}


# What a preset's limits are of; a plain index or a formula of the caller's own may stand for it.
PRESET_OF: Mapping[str, str] = {
    "burn_severity": "nbr_loss", "ndvi_cover": "ndvi", "drought_tvdi": "tvdi", "slope_degrees": "slope"}
_OWN = frozenset({"index", "custom", "dnbr"})


class ClassifyParams(Frozen):
    preset: str = ""
    breaks: tuple[float, ...] = Field(default=(), max_length=100, description="rising; a value on a limit belongs above it")
    names: tuple[str, ...] = ()


def _between(breaks: Sequence[float], unit: str) -> list[str]:
    """What classes between limits are called where the caller gives no names."""
    end = "" if unit in ("1", "") else f" {unit}"
    inner = [f"{low:g} to {high:g}{end}" for low, high in pairwise(breaks)]
    return [f"below {breaks[0]:g}{end}", *inner, f"{breaks[-1]:g}{end} and more"]


def _plan_classify(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: ClassifyParams = call.params
    breaks, names, reference = p.breaks, p.names, "the caller's limits"
    if p.preset:
        if p.preset not in PRESETS:
            raise call.refuse(f"no preset {p.preset!r}; known: {', '.join(PRESETS)}.")
        breaks, names, reference = PRESETS[p.preset]
        wanted = PRESET_OF[p.preset]
        if source.quantity == "nbr_change" and p.preset == "burn_severity":
            raise call.refuse("dNBR is before − after, this is after − before: ask raster.product.difference for mode loss.")
        if p.preset == "burn_severity" and source.quantity in ("custom", "index") and len(source.scenes) > 1:
            raise call.refuse("dNBR is before − after, and which way a formula of two dates runs is not told: ask "
                              "raster.product.difference for mode loss, or name the formula's quantity dnbr.")
        if source.quantity not in {wanted, *_OWN}:
            raise call.refuse(f"the limits of {p.preset} are those of {wanted}, not of {source.quantity}.")
    if not breaks or list(breaks) != sorted(set(breaks)):
        raise call.refuse("classes need rising limits.")
    beyond = [x for x in breaks if not source.range.low <= x <= source.range.high]
    if beyond:
        raise call.refuse(f"{source.quantity} lies in [{source.range.low:g}, {source.range.high:g}]"
                          f"{' ' + source.unit if source.unit not in ('', '1') else ''}; the limit {beyond[0]:g} is outside it.")
    if names and len(names) != len(breaks) + 1:
        raise call.refuse(f"{len(breaks)} limits make {len(breaks) + 1} classes, not {len(names)}.")
    # a value that is a limit but for its rounding belongs above it
    limits = np.array([x - on_limit(x, source.unit, source.range.low, source.range.high) for x in breaks])
    name = call.names[0]

    def evaluate(reads: Reads, window: Window) -> Plane:
        plane = reads.plane(name, window)
        return Plane(np.searchsorted(limits, plane.data, side="right").astype(np.float64) + 1, plane.valid)

    kind = replace(source, kind="classes", quantity=f"{source.quantity}_class"[:80], unit="1",
                   range=PhysicalRange(1, len(breaks) + 1),
                   formula=f"classes of {source.formula} at {list(breaks)} ({reference})",
                   class_names={i + 1: n for i, n in enumerate(names or _between(breaks, source.unit))})
    return Planned(kind, evaluate=evaluate)


register(Operator(
    name="raster.product.classify", summary="Classes of a raster by rising limits, or by a preset (burn_severity, …).",
    takes=Take(("raster",)), params=ClassifyParams, gives="classes", range="1 to the number of classes",
    nodata="masked where the input is", plan=_plan_classify))


# --- vegetation cover and dryness ------------------------------------------------------------------------------------------
class CoverParams(Frozen):
    soil: float | Literal["percentile"] = Field(default=0.05, description="NDVI of bare soil, or the 5th percentile here")
    full: float | Literal["percentile"] = Field(default=0.95, description="NDVI of full cover, or the 95th percentile here")


def _plan_cover(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: CoverParams = call.params
    if source.quantity != "ndvi":
        raise call.refuse(f"vegetation cover is made of NDVI, not of {source.quantity}.")
    name, this = call.names[0], call.node.id
    by_percentile = "percentile" in (p.soil, p.full)
    if not by_percentile and not float(p.soil) < float(p.full):
        raise call.refuse("bare soil must have a lower NDVI than full cover.")

    def evaluate(reads: Reads, window: Window) -> Plane:
        soil, full = reads.state(this) if by_percentile else (float(p.soil), float(p.full))
        plane = reads.plane(name, window)
        return Plane(np.clip((plane.data - soil) / (full - soil), 0, 1), plane.valid)

    def settle(found: Sequence[Any]) -> tuple[tuple[float, float], dict[str, JsonValue]]:
        ranks: OrderStatistics = found[0]
        soil = ranks.value(0.05) if p.soil == "percentile" else float(p.soil)
        full = ranks.value(0.95) if p.full == "percentile" else float(p.full)
        if not soil < full:
            raise call.refuse("the NDVI of soil and of full cover are equal here.", code="TOOL_FAILED")
        return (soil, full), {"soil": soil, "full": full}

    kind = replace(source, quantity="fvc", unit="1", range=PhysicalRange(0, 1),
                   formula=f"clip((ndvi − soil) / (full − soil), 0, 1), soil {p.soil}, full {p.full}")
    if by_percentile:
        return Planned(kind, evaluate=evaluate, prepare=lambda: [((name,), OrderStatistics([0.05, 0.95]))], settle=settle)
    return Planned(kind, evaluate=evaluate)


register(Operator(
    name="raster.product.vegetation_cover", summary="Fractional vegetation cover of NDVI.", takes=Take(("raster",)),
    params=CoverParams, gives="raster", range=PhysicalRange(0, 1), nodata="masked where NDVI is", plan=_plan_cover,
    reference="Gutman and Ignatov 1998, IJRS 19"))


class EdgeBins:
    """Least and greatest second plane in bins of the first: the dry and wet edges of an NDVI–temperature space."""

    def __init__(self, low: float, high: float, bins: int):
        self.low, self.high, self.bins = low, high, bins
        self.n = np.zeros(bins, dtype=np.int64)
        self.least, self.greatest = np.full(bins, np.inf), np.full(bins, -np.inf)
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> Any:
        x, y = sample.planes[0][sample.valid], sample.planes[1][sample.valid]
        at = np.floor((x - self.low) / (self.high - self.low) * self.bins).astype(np.int64)
        keep = (at >= 0) & (at < self.bins)
        at, y = at[keep], y[keep]
        least, greatest = np.full(self.bins, np.inf), np.full(self.bins, -np.inf)
        np.minimum.at(least, at, y)
        np.maximum.at(greatest, at, y)
        return np.bincount(at, minlength=self.bins), least, greatest

    def merge(self, part: Any) -> None:
        self.n += part[0]
        self.least, self.greatest = np.minimum(self.least, part[1]), np.maximum(self.greatest, part[2])


class TvdiParams(Frozen):
    least_ndvi: float = Field(default=0.2, ge=-1, le=1, description="the edges are fitted above this NDVI")
    bins: int = Field(default=80, ge=10, le=1000)
    least_count: int = Field(default=3, ge=1, description="bins with fewer pixels take no part")


def _plan_tvdi(call: Call) -> Planned:
    ndvi, lst = call.inputs
    p: TvdiParams = call.params
    if ndvi.quantity != "ndvi" or lst.unit != "K":
        raise call.refuse("TVDI takes NDVI first and a temperature in K second.")
    same_grid(call, call.inputs)
    a, b = call.names
    this = call.node.id

    def settle(found: Sequence[Any]) -> tuple[tuple[float, ...], dict[str, JsonValue]]:
        bins: EdgeBins = found[0]
        use = bins.n >= p.least_count
        if use.sum() < 5:
            raise call.refuse("too few NDVI bins hold pixels to fit the dry and wet edges.", code="TOOL_FAILED")
        x = (p.least_ndvi + (np.arange(p.bins) + 0.5) * (1 - p.least_ndvi) / p.bins)[use]
        dry, wet = np.polyfit(x, bins.greatest[use], 1), np.polyfit(x, bins.least[use], 1)
        out = (float(dry[0]), float(dry[1]), float(wet[0]), float(wet[1]))
        return out, {"dry_slope": out[0], "dry_intercept": out[1], "wet_slope": out[2], "wet_intercept": out[3],
                     "n_bins": int(use.sum())}

    def evaluate(reads: Reads, window: Window) -> Plane:
        one, two = reads.plane(a, window), reads.plane(b, window)
        ds, di, ws, wi = reads.state(this)
        with np.errstate(all="ignore"):
            dry, wet = ds * one.data + di, ws * one.data + wi
            data = (two.data - wet) / (dry - wet)
        valid = one.valid & two.valid & np.isfinite(data) & (dry > wet) & (one.data >= p.least_ndvi)
        return Plane(np.clip(data, 0, 1), valid)

    kind = joined(call.inputs, kind="raster", quantity="tvdi", unit="1", range=PhysicalRange(0, 1),
                  formula="clip((lst − wet edge) / (dry edge − wet edge), 0, 1), edges fitted over NDVI bins")
    return Planned(kind, evaluate=evaluate, prepare=lambda: [((a, b), EdgeBins(p.least_ndvi, 1.0, p.bins))], settle=settle)


register(Operator(
    name="raster.product.tvdi", summary="Temperature–Vegetation Dryness Index with edges fitted to the scene.",
    takes=Take(("raster",), 2, 2), params=TvdiParams, gives="raster", range=PhysicalRange(0, 1),
    nodata="masked where either input is, below least_ndvi, and where the edges cross", plan=_plan_tvdi,
    reference="Sandholt et al. 2002, RSE 79"))
