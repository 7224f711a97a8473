"""Operators of how values are spread: histograms, agreement of two rasters, centroids."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from pydantic import Field, JsonValue

from apps.core.evidence.observation import Frozen
from apps.core.geo.grid import geod_of, transformer
from apps.tools.execute.accumulators import Histogram, cells
from apps.tools.execute.comparable import check_made_of_one_unit
from apps.tools.execute.operators_products import same_grid
from apps.tools.execute.operators_spatial import CrossMoments
from apps.tools.execute.scales import check_scale
from apps.tools.execute.types import (
    Call,
    NoParams,
    Operator,
    PhysicalRange,
    Planned,
    RasterType,
    Sample,
    Take,
    Value,
    ValueType,
    register,
)


class HistogramParams(Frozen):
    bins: int = Field(default=50, ge=2, le=500)
    low: float | None = None
    high: float | None = None


def _plan_histogram(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    p: HistogramParams = call.params
    if (p.low is None) != (p.high is None) or (p.low is not None and p.high is not None and p.low >= p.high):
        raise call.refuse("give both ends of the histogram, rising, or none.")

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        h: Histogram = found[0]
        n = int(h.counts.sum())
        if not n:
            raise call.refuse("no valid pixel lies in the histogram.", code="TOOL_FAILED", needs={"valid_px": True})
        with np.errstate(over="ignore"):
            widths = np.diff(h.edges)
        if not np.isfinite(widths).all() or (widths <= 0).any():
            raise call.refuse("the values lie too close together, or too far apart, for a histogram of them.", code="TOOL_FAILED")
        items: list[dict[str, JsonValue]] = [
            {"low": float(h.edges[i]), "high": float(h.edges[i + 1]), "n": int(c)} for i, c in enumerate(h.counts)]
        mode = int(np.argmax(h.counts))
        return Value(float(h.edges[mode] / 2 + h.edges[mode + 1] / 2), n, {"bins": p.bins}, tuple(items))

    return Planned(ValueType("value", "table", source.quantity, source.unit, source.range),
                   reduce=lambda: [((call.names[0],), Histogram(p.bins, p.low, p.high))], finish=finish)


register(Operator(
    name="raster.summarize.histogram", summary="Counts in equal bins; the value is the middle of the fullest.",
    takes=Take(("raster",)), params=HistogramParams, gives="value", range="of the input",
    nodata="invalid pixels take no part", plan=_plan_histogram))


class AgreementParams(Frozen):
    measure: Literal["correlation", "rmse", "mae", "bias", "iou", "f1", "slope"] = "correlation"


class Differences(CrossMoments):
    """Cross moments of two planes, and the sums of their absolute and squared differences."""

    def __init__(self) -> None:
        super().__init__(2)
        self._sums: list[tuple[float, float]] = []

    def gather(self, sample: Sample) -> Any:
        sums = []
        for at in cells(sample):
            d = (sample.planes[1][at] - sample.planes[0][at])[sample.valid[at]]
            sums.append((float(np.abs(d).sum()), float((d * d).sum())))
        return super().gather(sample), sums

    def merge(self, part: Any) -> None:
        super().merge(part[0])
        self._sums += part[1]

    @property
    def mae(self) -> float:
        return math.fsum(a for a, _ in self._sums) / self.n

    @property
    def rmse(self) -> float:
        return math.sqrt(math.fsum(b for _, b in self._sums) / self.n)


def _plan_agreement(call: Call) -> Planned:
    one, other = call.inputs
    same_grid(call, call.inputs)
    p: AgreementParams = call.params
    masks = p.measure in ("iou", "f1")
    if masks and not (one.kind == other.kind == "mask"):
        raise call.refuse(f"{p.measure} compares two masks.")
    if p.measure in ("rmse", "mae", "bias") and one.unit != other.unit:
        raise call.refuse(f"the inputs have different units ({one.unit} and {other.unit}).")
    for raster in call.inputs:
        check_scale(call, raster, p.measure)
    check_made_of_one_unit(call, call.inputs if one.quantity == other.quantity else call.inputs[:1])
    notes: tuple[tuple[str, str], ...] = ()
    if one.quantity != other.quantity and p.measure in ("rmse", "mae", "bias"):
        told = (f"{one.quantity} and {other.quantity} are different quantities: their {p.measure} says how far the numbers lie "
                "apart, not which is wrong.")
        notes = (("warning", told),)

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        m: Differences = found[0]
        if m.n < 2:
            raise call.refuse("fewer than two pixels are valid in both.", code="TOOL_FAILED", needs={"valid_px": True})
        means, c = m.means, m.covariance
        evidence: dict[str, JsonValue] = {"n_valid": m.n, "means": [float(v) for v in means], "rmse": m.rmse, "mae": m.mae,
                                          "bias": float(means[1] - means[0])}
        if masks:
            both = round(float((c[0, 1] + means[0] * means[1]) * m.n))
            first, second = round(float(means[0] * m.n)), round(float(means[1] * m.n))
            evidence |= {"both": both, "first": first, "second": second}
            below = first + second - both if p.measure == "iou" else first + second
            if not below:
                raise call.refuse("both masks are empty.", code="TOOL_FAILED")
            evidence |= {"numerator": both if p.measure == "iou" else 2 * both, "denominator": below}
            return Value((both if p.measure == "iou" else 2 * both) / below, m.n, evidence)
        if p.measure in ("correlation", "slope"):
            if c[0, 0] <= 0 or c[1, 1] <= 0:
                raise call.refuse("an input is constant.", code="TOOL_FAILED")
            value = c[0, 1] / math.sqrt(c[0, 0] * c[1, 1]) if p.measure == "correlation" else c[0, 1] / c[0, 0]
            evidence |= {"slope": float(c[0, 1] / c[0, 0]), "intercept": float(means[1] - c[0, 1] / c[0, 0] * means[0])}
            return Value(float(value), m.n, evidence)
        return Value({"rmse": m.rmse, "mae": m.mae, "bias": float(means[1] - means[0])}[p.measure], m.n, evidence)

    span = {"correlation": PhysicalRange(-1, 1), "iou": PhysicalRange(0, 1), "f1": PhysicalRange(0, 1)}.get(
        p.measure, PhysicalRange(why="grows with the inputs"))
    unit = one.unit if p.measure in ("rmse", "mae", "bias") else "1"
    return Planned(ValueType("value", "statistic", f"{p.measure}_{one.quantity}"[:80], unit, span),
                   reduce=lambda: [(call.names, Differences())], finish=finish, notes=notes)


register(Operator(
    name="raster.summarize.agreement", summary="Correlation, RMSE, MAE, bias or slope of two rasters; IoU or F1 of two masks.",
    takes=Take(("raster", "mask"), 2, 2), params=AgreementParams, gives="value", range="declared by each measure",
    nodata="pixels invalid in either take no part", plan=_plan_agreement))


class PlaceSums:
    """Sums of pixel positions of a mask, or weighted by a raster."""

    def __init__(self, weighted: bool):
        self.weighted = weighted
        self.n = self.n_valid = 0
        self._parts: list[tuple[float, float, float]] = []
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Sample) -> list[tuple[int, int, float, float, float]]:
        c, r, _, _ = sample.window
        out = []
        for at in cells(sample):
            data = sample.data[at]
            weight = np.where(sample.valid[at], data if self.weighted else data != 0, 0.0)
            cols, rows = np.arange(at[1].start, at[1].stop) + c + 0.5, np.arange(at[0].start, at[0].stop) + r + 0.5
            out.append((int(np.count_nonzero(sample.valid[at])), int(np.count_nonzero(weight)), float(weight.sum()),
                        float((weight.sum(axis=0) * cols).sum()), float((weight.sum(axis=1) * rows).sum())))
        return out

    def merge(self, part: list[tuple[int, int, float, float, float]]) -> None:
        self.n_valid += sum(p[0] for p in part)
        self.n += sum(p[1] for p in part)
        self._parts += [p[2:] for p in part]

    @property
    def centre(self) -> tuple[float, float]:
        total = math.fsum(p[0] for p in self._parts)
        return math.fsum(p[1] for p in self._parts) / total, math.fsum(p[2] for p in self._parts) / total


_WINDS = ("north", "north-east", "east", "south-east", "south", "south-west", "west", "north-west")


def _plan_centroid(call: Call) -> Planned:
    source: RasterType = call.inputs[0]
    grid = source.grid

    def finish(found: Sequence[Any], failed: Mapping[str, str]) -> Value:
        sums: PlaceSums = found[0]
        if not sums.n:
            raise call.refuse("the mask is empty, so it has no centre.", code="TOOL_FAILED")
        col, row = sums.centre
        evidence: dict[str, JsonValue] = {"centre_px": [col, row], "n_px": sums.n}
        if grid.crs is None:
            # a picture without CRS has no north: the place is told in its pixels
            return Value(f"column {col:.1f}, row {row:.1f}", sums.n_valid, evidence, ({"column": col, "row": row},))
        t = transformer(grid.crs, "EPSG:4326")
        lon, lat = t.transform(*grid.xy(col, row))
        middle = t.transform(*grid.xy(grid.width / 2, grid.height / 2))
        bearing, _, metres = geod_of("EPSG:4326").inv(*middle, lon, lat)
        bearing = float(bearing) % 360
        evidence |= {"lonlat": [float(lon), float(lat)], "from_middle_m": float(metres), "bearing_degree": bearing}
        wind = _WINDS[round(bearing / 45) % 8] if metres > 0 else "in the middle"
        item: dict[str, JsonValue] = {"longitude": float(lon), "latitude": float(lat), "column": col, "row": row,
                                      "direction": wind, "distance_m": float(metres)}
        return Value(wind, sums.n_valid, evidence, (item,))

    return Planned(ValueType("value", "class", f"direction of {source.quantity}"[:100], "1", PhysicalRange(-180, 180)),
                   reduce=lambda: [((call.names[0],), PlaceSums(source.kind == "raster"))], finish=finish)


register(Operator(
    name="raster.summarize.centroid", summary="Centre of a mask and the direction in which it lies from the image's middle.",
    takes=Take(("mask",)), params=NoParams, gives="value",
    range=PhysicalRange(-180, 180), nodata="invalid pixels take no part", plan=_plan_centroid))
