"""Consistency of what is said of shapes that were drawn or read: how exactly they follow the ground, and the interval of that."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pyproj import CRS, Geod, Transformer

from apps.core.errors import FaultError
from apps.verification.case import Case, Finding, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.ground import CannotPlaceError, on_plane, place, source_of
from apps.verification.units import factor

# Metres that a degree of a great circle has, on a sphere as large as the Earth.
DEGREE_M = 111_195.0
# A share of the numbers may be written otherwise: where outlines cross, points were worked out.
OTHERWISE = 0.1
# Written finer than this nobody's accuracy is meant; in degrees, fewer decimals than these are round numbers.
LEAST_M, LEAST_DECIMALS, MOST_DECIMALS = 1e-3, 2, 9
# A degree is not equally long everywhere, and outlines are measured on a plane.
ROOM = 0.85
# What a call may do to shapes before it measures them.
_CHOOSING = ("clip", "each", "statistic", "relation", "where")


@check(
    "interval_as_exact_as_drawn",
    catches=("accuracy made up", "interval too narrow"),
    reads=("/result/interval", "/evidence/source/layers", "/arguments/sources"),
    family="consistency",
)
def interval_as_exact_as_drawn(case: Case) -> Finding:
    """The accuracy on record of shapes that were drawn or read is what a person said of them, or what their written digits can
    hold, read again; and the interval of their distance, area or length is no narrower than it makes it."""
    sources = case.arguments.get("sources")
    spec = case.arguments.get("spec")
    if case.observation.tool != "measure" or not isinstance(sources, list) or not isinstance(spec, dict):
        return not_applicable("nothing is measured")
    drawn = [s for s in sources if isinstance(s, dict) and s.get("mode") == "extent" and (s.get("vector") or s.get("geometry"))]
    if not drawn:
        return not_applicable("no shapes that were drawn")
    layers = case.evidence("source", "layers")
    told = {str(x.get("name")): x.get("accuracy") for x in layers if isinstance(x, dict)} if isinstance(layers, list) else {}
    at = ("/evidence/source/layers", "/arguments/sources")
    # what conditions alone speak of does not move the ends of a distance, nor an outline
    named = {spec.get("subject"), spec.get("reference"), *(spec.get("others") or ())}
    aside = {c.get("reference") for c in spec.get("where") or () if isinstance(c, dict)} - named
    off, n_told = 0.0, 0
    for source in drawn:
        name = str(source.get("name", "subject"))
        held = told.get(name)
        metres = number_of(held.get("m")) if isinstance(held, dict) else None
        try:
            due = _due(case, source)
            if metres is None and _said(case, source) is not None:
                return failed(
                    f"A person said how exact {name} is, and nothing of it is on record.",
                    measured=None, expected=due, unit="m", at=at,
                )  # fmt: skip
        except (KeyError, TypeError, ValueError, IndexError, FaultError) as why:
            return not_applicable(f"the shapes cannot be read here ({type(why).__name__})")
        if metres is None:
            continue
        n_told += 1
        if due is None:
            return failed(
                f"An accuracy is on record of {name}, and neither did a person say one nor do its written digits tell it.",
                measured=metres, expected=None, unit="m", at=at,
            )  # fmt: skip
        if metres < ROOM * due:
            return failed(
                f"{name} is on record as more exact than a person said, or than its written digits can hold.",
                measured=metres, expected=due, unit="m", at=at,
            )  # fmt: skip
        off += 0.0 if name in aside else metres
    if not n_told:
        return passed("No accuracy is on record, and no interval rests on one.", at=at)
    return _wide_enough(case, spec, off, at)


def _wide_enough(case: Case, spec: dict[str, Any], off: float, at: tuple[str, ...]) -> Finding:
    span, value = case.observation.result.interval, case.value
    per = factor(case.observation.result.unit)
    least: float | None = None
    if not off:
        return passed("The accuracy on record is what was said or written.", at=at)
    if spec.get("metric") == "distance":
        least = off
    elif spec.get("metric") in ("area", "length") and not any(spec.get(k) for k in _CHOOSING):
        try:
            source = source_of(case, str(spec.get("subject") or "subject"))
            (shapes,) = on_plane(place(case, source))
        except CannotPlaceError:
            shapes = []
        if not case.is_limited and shapes:
            outline = sum(g.length for g in shapes if g.area > 0)
            least = off * outline if spec.get("metric") == "area" else off
    if least is None or value is None or per is None:
        return passed("The accuracy on record is what was said or written.", measured=off, unit="m", at=at)
    if span is None:
        return failed("An accuracy is on record, and the figure has no interval.", measured=None, expected="an interval",
                      at=("/result/interval",))  # fmt: skip
    mine = (span[1] - value) * per
    if mine < ROOM * least:
        return failed(
            "The interval is narrower than the accuracy of the shapes makes it.",
            measured=mine, expected=f"≥ {least:.6g}", at=("/result/interval", *at),
        )  # fmt: skip
    return passed("The interval is as wide as the accuracy makes it.", measured=mine, expected=f"≥ {least:.6g}", at=at)


def _said(case: Case, source: dict[str, Any]) -> float | None:
    """Metres that a person said of a source, in the call or of its file."""
    said, digest = number_of(source.get("accuracy_m")), source.get("vector")
    if said is None and digest and case.question is not None:
        said = next((v.accuracy_m for v in case.question.vectors if v.artifact == digest), None)
    return said


def _due(case: Case, source: dict[str, Any]) -> float | None:
    """Metres by which a source's points may lie off at least: as said, no less than its digits; None where neither tells."""
    digest, geometry = source.get("vector"), source.get("geometry")
    if isinstance(digest, str) and digest:
        if case.layers is None:
            raise KeyError(digest)
        features, crs = case.layers.read_vector(digest)
        shapes: Any = [f["geometry"] for f in features]
    else:
        shapes, crs = [geometry], str(source.get("geometry_crs") or "EPSG:4326")
    written = None if crs == "image" else _written_m(shapes, crs)
    return max((v for v in (_said(case, source), written) if v is not None), default=None)


def _numbers(value: Any) -> Iterator[float]:
    """All coordinates of GeoJSON, as they are written."""
    if isinstance(value, dict):
        for key in ("geometry", "geometries", "features", "coordinates"):
            if key in value:
                yield from _numbers(value[key])
    elif isinstance(value, (list, tuple)):
        if len(value) >= 2 and all(isinstance(v, (int, float)) for v in value):
            yield from (float(v) for v in value[:2])
        else:
            for v in value:
                yield from _numbers(v)


def _on_ground_m(points: NDArray[np.float64], half: float, crs: CRS) -> float:
    """The least length on the ellipsoid, over points of a projected CRS, of a step by ``half`` of its units along both axes: a
    unit of Web Mercator is half a metre in the north."""
    chosen = points[:: max(1, len(points) // 64)]
    to_lonlat = Transformer.from_crs(crs, "EPSG:4326", always_xy=True)
    # a long step, so that its ends differ in more than the last digits of degrees
    longer = max(1.0, 10.0 / half)
    ends = [to_lonlat.transform(*(chosen + shift).T) for shift in (0.0, half * longer)]
    metres = np.asarray(Geod(ellps="WGS84").inv(*ends[0], *ends[1])[2]) / longer
    known = metres[np.isfinite(metres)]
    return float(known.min()) if known.size else half * math.sqrt(2) * float(crs.axis_info[0].unit_conversion_factor or 1.0)


def _written_m(shapes: Any, crs: str) -> float | None:
    found = list(_numbers(shapes))
    # the sixteenth digit is that of arithmetic: 10.001 and two thousandths are 10.003000000000002
    counts = sorted(max(0, -int(Decimal(f"{v:.15g}").normalize().as_tuple().exponent)) for v in set(found))
    if not counts:
        return None
    # the most decimals but for those that are written otherwise
    n = counts[max(0, math.ceil((1 - OTHERWISE) * len(counts)) - 1)]
    half = 0.5 * 10.0**-n
    known = CRS.from_user_input(crs)
    if not known.is_geographic:
        metres = _on_ground_m(np.array(found).reshape(-1, 2), half, known)
    elif n < LEAST_DECIMALS:
        return None
    else:
        lats = np.abs(found[1::2])
        metres = half * DEGREE_M * math.hypot(1.0, math.cos(math.radians(float(np.min(lats)))))
    return metres if n <= MOST_DECIMALS and metres >= LEAST_M else None
