"""Figures of things on the ground worked out again: counts, areas, lengths and distances by relations, conditions and cuts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import shapely
from numpy.typing import NDArray
from shapely import STRtree
from shapely.geometry.base import BaseGeometry

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
from apps.verification.chosen import (
    REL,
    Listed,
    boxes_in_metres,
    conditions_of,
    instance_figures,
    is_of_same_region,
    listed_of,
    met,
    only_those,
    statistic_of,
)
from apps.verification.cuts import CUTS, Sheet, amount, grown, kept, region_of
from apps.verification.globe import gaps_m, stands
from apps.verification.ground import (
    BY_A_HAIR,
    FINE_HAIR,
    HAIR,
    CannotPlaceError,
    Placed,
    inside_of,
    on_plane,
    place,
    source_of,
)
from apps.verification.units import to_si


def _si(case: Case) -> float:
    """The value in SI units; NaN where there is none."""
    found = None if case.value is None else to_si(case.value, case.observation.result.unit)
    return math.nan if found is None else found


def _placed(case: Case, spec: dict[str, Any]) -> Placed:
    """The subject in degrees, of a region what lies inside. CannotPlaceError where it has no place, or not in such a region."""
    asked = source_of(case, str(spec.get("subject") or "subject"))
    subject = place(case, asked)
    if not case.is_limited:
        return subject
    # masks are cut by a region before they become things
    is_mask = asked.get("mode") == "regions"
    if case.region is None or case.region[1] != "EPSG:4326" or (is_mask and not is_of_same_region(case, asked)):
        raise CannotPlaceError("a region that is not followed here")
    return subject if is_mask else inside_of(subject, case.region[0])


# Pairs of things that are looked at one by one.
MOST_PAIRS = 2_000_000


@check(
    "relation_recomputes",
    catches=("degrees as metres", "wrong relation", "wrong denominator", "stale artifact", "wrong unit"),
    reads=("/result/value", "/arguments"),
    family="consistency",
)
def relation_recomputes(case: Case) -> Finding:
    """A count, share, area or distance of things given on the map (vector files, places) or chosen by a relation, worked out
    again in a plane of the verifier's own, is the value. A count may differ by what lies within a pixel of the limit."""
    spec = case.arguments.get("spec")
    if case.observation.tool != "measure" or not isinstance(spec, dict) or case.value is None:
        return not_applicable("no figure of things")
    if spec.get("clip") or spec.get("each"):
        return not_applicable("parts of things, or one figure each: looked at by checks of their own")
    sources = case.arguments.get("sources")
    is_given = isinstance(sources, list) and any(isinstance(s, dict) and (s.get("vector") or s.get("geometry")) for s in sources)
    relation, metric = str(spec.get("relation") or ""), str(spec.get("metric"))
    of = str(spec.get("of") or "count")
    if metric == "ratio" and "of" not in spec and spec.get("denominator") == "reference" and isinstance(sources, list):
        # unsaid, a ratio to a reference is one of numbers of objects, and one of areas of all else
        named_so = [s for s in sources if isinstance(s, dict) and s.get("name", "subject") == (spec.get("subject") or "subject")]
        of = "count" if named_so and named_so[0].get("mode") == "objects" else "area"
    by_reference = spec.get("denominator") == "reference" and of in ("count", "area")
    of_areas = metric == "ratio" and by_reference and of == "area"
    where = bool(spec.get("where"))
    is_farthest = metric == "distance" and spec.get("distance_statistic") == "farthest"
    is_figure = metric == "distance" or (metric == "count" and case.is_limited) or (metric == "ratio" and by_reference)
    by_others = metric == "ratio" and by_reference
    if not relation and not where and not (is_given and is_figure) and not by_others and not is_farthest:
        return not_applicable("neither a relation nor a distance between things, nor things in a region")
    if metric not in ("count", "ratio", "area", "distance", "density") or spec.get("statistic"):
        return not_applicable("a metric that is not followed here")
    if metric in ("ratio", "density") and not by_reference and (metric == "density" or spec.get("denominator") != "subject"):
        return not_applicable("a ratio to something else")
    is_of_middles = spec.get("distance_between", "edges") != "edges"
    if is_of_middles and not is_farthest:
        return not_applicable("centroids")
    try:
        subject = _placed(case, spec)
        given = met(case, {"where": [c for c in conditions_of(spec) if c.get("is_given")]}, subject)
        if given.n_unsure and metric == "ratio":
            return not_applicable("some are so near to a limit that they may be in or out of the whole")
        n_all = int(given.keep.sum())
        chosen_few = met(case, spec, subject)
        subject = only_those(subject, chosen_few.keep)
        named = str(spec.get("reference") or "")
        reference = place(case, source_of(case, named)) if named else subject
        for more in spec.get("others") or ():
            other_one = place(case, source_of(case, str(more)))
            reference = Placed([*reference.shapes, *other_one.shapes], max(reference.pixel_m, other_one.pixel_m))
        one, other = subject.shapes, reference.shapes
        if of_areas:
            # an equal-area cylinder holds areas that no plane holds both
            sheet = Sheet.about(one, other)
            one, other = [sheet.put(g) for g in one], [sheet.put(g) for g in other]
        elif is_farthest or metric in ("area", "density"):
            one, other = on_plane(subject, reference)
    except (CannotPlaceError, LayerUnreadableError) as why:
        return not_applicable(f"the things cannot be placed: {why}")
    except Exception:  # unreadable shapes are another check's finding
        return not_applicable("the things cannot be read")
    if (not one and not where) or (named and not other) or (not named and not where and metric not in ("distance", "count")):
        return not_applicable("nothing to relate")
    at = ("/result/value", "/arguments/spec")
    slack = max(subject.pixel_m, reference.pixel_m)
    limit = number_of(spec.get("distance_m")) or 0.0
    nearest = spec.get("nearest_k")
    k = nearest if isinstance(nearest, int) else 1

    def kept(distance: float, hair: float = HAIR) -> NDArray[np.bool_] | None:
        return stands(relation, subject, reference, distance, k, hair) if relation else np.ones(len(one), dtype=bool)

    try:
        mine, keep = case.value, kept(limit)
    except CannotPlaceError as why:
        return not_applicable(f"the things cannot be placed: {why}")
    if keep is None:
        return not_applicable(f"the relation {relation} is not followed here")
    unit = "1"
    if of_areas:
        below = float(shapely.area(shapely.union_all(other)))
        truth = float(shapely.area(shapely.union_all([g for g, yes in zip(one, keep, strict=True) if yes]))) / (below or math.nan)
        mine = to_si(case.value, case.observation.result.unit) or 0.0
        good = abs(mine - truth) <= 1e-2 * truth
    elif metric in ("count", "ratio", "density"):
        counts = [int(keep.sum())]
        if relation in ("within", "beyond"):
            room = max(slack, 2e-3 * limit)
            counts += [int(m.sum()) for d in (limit - room, limit + room) if (m := kept(max(0.0, d))) is not None]
        elif relation in BY_A_HAIR and (fine := kept(limit, FINE_HAIR)) is not None:
            counts.append(int(fine.sum()))
        scale = 1.0 if metric == "count" else 1.0 / (len(other) if by_reference else n_all)
        if metric == "density":
            per = {"1/km2": 1e6, "1/ha": 1e4, "1/m2": 1.0}.get(case.observation.result.unit)
            whole = float(sum(shapely.area(g) for g in other))
            if per is None or whole <= 0:
                return not_applicable("a density in another unit, or over no area")
            scale, unit = per / whole, case.observation.result.unit
        unsure = max(1, round(0.01 * len(one))) if slack and relation not in ("", "within", "beyond", "nearest") else 0
        unsure += chosen_few.n_unsure
        low, high = (min(counts) - unsure) * scale, (max(counts) + unsure) * scale
        if metric == "ratio":
            mine = to_si(case.value, case.observation.result.unit) or 0.0
            if of == "area":
                return not_applicable("a ratio of areas")
        room = 4e-3 * high if metric == "density" else 1e-9
        good, truth = low - room <= mine <= high + room, counts[0] * scale
    elif metric == "area":
        chosen = [g for g, yes in zip(one, keep, strict=True) if yes]
        truth = float(shapely.area(shapely.union_all(chosen))) if chosen else 0.0
        mine, unit = to_si(case.value, case.observation.result.unit) or 0.0, "m2"
        edge = slack * float(shapely.length(np.array(chosen, dtype=object)).sum()) if chosen else 0.0
        low = high = truth
        if relation in BY_A_HAIR and (fine := kept(limit, FINE_HAIR)) is not None:
            few = [g for g, yes in zip(one, fine, strict=True) if yes]
            other_truth = float(shapely.area(shapely.union_all(few))) if few else 0.0
            low, high = min(truth, other_truth), max(truth, other_truth)
        good = low - 4e-3 * low - edge <= mine <= high + 4e-3 * high + edge
        if not good and chosen_few.n_unsure:
            return not_applicable("some are so near to a limit that they may be in the figure or not")
    else:
        chosen = [g for g, yes in zip(one, keep, strict=True) if yes]
        if not chosen:
            return not_applicable("nothing stands in the relation")
        if is_farthest:
            if len(chosen) * len(other) > MOST_PAIRS or (is_of_middles and _is_wide([*subject.shapes, *reference.shapes])):
                return not_applicable("more pairs, or wider shapes, than are looked at")
            ends = [shapely.centroid(np.array(g, dtype=object)) if is_of_middles else np.array(g, dtype=object)
                    for g in (chosen, other)]  # fmt: skip
            gaps = np.array([float(shapely.distance(g, ends[1]).max()) for g in ends[0]], dtype=np.float64)
        else:
            try:
                gaps = gaps_m(only_those(subject, keep), reference, is_same=not named)
            except CannotPlaceError as why:
                return not_applicable(f"the things cannot be placed: {why}")
        how = "maximum" if is_farthest else str(spec.get("distance_statistic") or "minimum")
        truth = float(gaps.mean() if how == "mean" else gaps.max() if how == "maximum" else gaps.min())
        mine, unit = to_si(case.value, case.observation.result.unit) or 0.0, "m"
        good = abs(mine - truth) <= max(4e-3 * truth, 1.5 * slack, 0.01)
    if not good:
        return failed(
            "Worked out again from the things themselves, the figure is another.", measured=mine, expected=truth, unit=unit, at=at
        )
    return passed(
        "Worked out again from the things themselves, this is the figure.", measured=mine, expected=truth, unit=unit, at=at
    )


def _is_wide(shapes: list[BaseGeometry]) -> bool:
    """Whether one is so wide that its middle in degrees is not that on the ground."""
    bounds = shapely.bounds(np.array(shapes, dtype=object))
    return bool((bounds[:, 2:] - bounds[:, :2]).max() > 1.0)


@check(
    "cut_recomputes",
    catches=(
        "clip not applied",
        "wrong denominator",
        "degrees as metres",
        "planar instead of geodesic",
        "counted twice",
        "wrong unit",
    ),
    reads=("/result/value", "/evidence/intermediate", "/arguments/spec"),
    family="consistency",
)
def cut_recomputes(case: Case) -> Finding:
    """An area, length or share of what lies inside, outside or near to outlines, cut again on an equal-area cylinder of the
    verifier's own, is the value; so are the whole before cutting and the denominator of a share."""
    spec = case.arguments.get("spec")
    if case.observation.tool != "measure" or not isinstance(spec, dict) or not spec.get("clip") or spec.get("each"):
        return not_applicable("nothing was cut")
    relation, metric = str(spec.get("relation") or ""), str(spec.get("metric"))
    if relation not in CUTS or metric not in ("area", "length", "ratio") or case.value is None:
        return not_applicable("a cut that is not followed here")
    of = "length" if metric == "length" or (metric == "ratio" and spec.get("of") == "length") else "area"
    try:
        asked = source_of(case, str(spec.get("subject") or "subject"))
        subject, reference = place(case, asked), place(case, source_of(case, str(spec.get("reference") or "")))
        if case.is_limited:
            if case.region is None or case.region[1] != "EPSG:4326" or asked.get("mode") == "regions":
                return not_applicable("a region that is not followed here")
            subject = inside_of(subject, case.region[0])
        few = met(case, spec, subject)
        if few.n_unsure:
            return not_applicable("some are so near to a limit that they may be in or out")
        subject = _outlined(only_those(subject, few.keep), spec)
        shapes = grown(reference.shapes, relation, number_of(spec.get("distance_m")) or 0.0)
        sheet = Sheet.about(subject.shapes, shapes)
        held, outline = [sheet.put(g) for g in subject.shapes], shapely.union_all([sheet.put(g) for g in shapes])
        left = kept(held, outline, relation)
        part, whole = amount(sheet, left, of), amount(sheet, held, of)
        joined = float(shapely.area(outline))
    except (CannotPlaceError, LayerUnreadableError) as why:
        return not_applicable(f"the things cannot be placed: {why}")
    except Exception:  # unreadable shapes are another check's finding
        return not_applicable("the things cannot be read")
    pixel = max(subject.pixel_m, reference.pixel_m)
    edge = pixel * (float(shapely.length(outline)) if subject.pixel_m and of == "area" else 0.0)
    at = ("/result/value", "/evidence/intermediate", "/arguments/spec")
    unit = "m2" if of == "area" else "m"
    told = case.evidence_number("intermediate", f"whole_{unit}")
    if told is None:
        return inconclusive("A cut needs on record what there was before it.", at=(f"/evidence/intermediate/whole_{unit}",))
    if not abs(told - whole) <= 2e-3 * whole + edge:
        return failed(f"Before it was cut there is another {of} than on record.", measured=told, expected=whole, unit=unit, at=at)
    if metric != "ratio":
        mine = _si(case)
        if not abs(mine - part) <= 2e-3 * part + edge + 1e-6 * whole:
            more = " It is the whole: the cut was not applied." if abs(mine - whole) <= 1e-3 * whole else ""
            return failed(f"Cut again, another {of} is left.{more}", measured=mine, expected=part, unit=unit, at=at)
        return passed(f"Cut again, this {of} is left.", measured=mine, expected=part, unit=unit, at=at)
    by = str(spec.get("denominator") or "reference")
    if by not in ("reference", "subject") or (by == "reference" and of == "length"):
        return not_applicable("a share of something else")
    below = joined if by == "reference" else whole
    if below <= 0:
        return failed("The whole is empty; there is no share of it.", measured=below, expected="> 0", unit=unit, at=at)
    stated = case.evidence_number("intermediate", "denominator")
    if stated is not None and not abs(stated - below) <= 2e-3 * below + edge:
        return failed("The denominator is not what the share is of.", measured=stated, expected=below, unit=unit,
                      at=("/evidence/intermediate/denominator", "/arguments/spec/denominator"))  # fmt: skip
    share, mine = part / below, to_si(case.value, case.observation.result.unit) or 0.0
    if not abs(mine - share) <= 3e-3 * share + edge / below + 1e-6:
        return failed("Cut again, another share is left.", measured=mine, expected=share, at=at)
    return passed("Cut again, this share is left.", measured=mine, expected=share, at=at)


# Rows of a table that are worked out again: of more, so many spread over it and the one that was picked.
_ROWS_LOOKED_AT = 60


@check(
    "rows_recompute",
    catches=("clip not applied", "wrong denominator", "degrees as metres", "counted twice", "rows exchanged", "wrong unit"),
    reads=("/result/items", "/result/value", "/evidence/intermediate/numerator"),
    family="consistency",
)
def rows_recompute(case: Case) -> Finding:
    """Each row of a table of counts, areas, lengths, shares, densities or distances by polygon, worked out again from the polygon
    of its name, has this figure; all together, with nothing counted twice, are the total on record; a row that was picked is the
    extreme."""
    spec = case.arguments.get("spec")
    if case.observation.tool != "measure" or not isinstance(spec, dict) or not spec.get("each"):
        return not_applicable("no figure for each of several")
    items = list(case.items())
    known = [(i, item) for i, item in enumerate(items) if number_of(item.get("value")) is not None]
    at = ("/result/items", "/arguments/spec")
    if not items and spec.get("where"):
        return _nobody(case, spec)
    if not known:
        return not_applicable("no row has a figure")
    picked = case.observation.result.value if spec.get("pick") else None
    if picked is not None:
        order = sorted((float(number_of(item["value"]) or 0.0) for _, item in known), reverse=spec.get("pick") != "min")
        asked = spec.get("rank")
        rank = asked if isinstance(asked, int) and asked > 0 else 1
        best = order[rank - 1] if rank <= len(order) else None
        if not any(item.get("zone") == picked and number_of(item["value"]) == best for _, item in known):
            return failed("The row that was picked has not the extreme.", measured=picked, expected=best, at=at)
    boxes = None if spec.get("where") or spec.get("relation") or spec.get("metric") != "length" else boxes_in_metres(case, spec)
    if boxes is not None:
        return _rows_of_boxes(case, spec, boxes)
    try:
        rows = _Rows.of(case, spec)
    except (CannotPlaceError, LayerUnreadableError) as why:
        return not_applicable(f"the rows cannot be worked out again: {why}")
    except Exception:  # unreadable shapes are another check's finding
        return not_applicable("the things cannot be read")
    step = max(1, len(known) // _ROWS_LOOKED_AT)
    for k, (i, item) in enumerate(known):
        if k % step and item.get("zone") != picked:
            continue
        name = str(item.get("zone"))
        if name not in rows.zones:
            return failed("A row is that of a polygon that there is not.", measured=name[:80], at=(f"/result/items/{i}/zone",))
        low, high = rows.bounds(name)
        mine = rows.in_base(float(number_of(item["value"]) or 0.0))
        if not low <= mine <= high:
            return failed(
                f"Worked out again, the row {name[:60]} has another figure.", measured=mine, expected=(low + high) / 2,
                unit=rows.unit, at=(f"/result/items/{i}/value",),
            )  # fmt: skip
    total, on_record = rows.total() if rows.is_whole else None, case.evidence_number("intermediate", "numerator")
    if total is not None and on_record is None:
        return inconclusive("A table needs on record what its rows hold together.", at=("/evidence/intermediate/numerator",))
    if total is not None and on_record is not None and not total[0] <= on_record <= total[1]:
        return failed(
            "All rows together hold something else than is on record; what lies in several counts once.", measured=on_record,
            expected=(total[0] + total[1]) / 2, unit=rows.unit, at=("/evidence/intermediate/numerator",),
        )  # fmt: skip
    return passed("Worked out again, the rows have these figures.", measured=len(known), unit="rows", at=at)


def _rows_of_boxes(case: Case, spec: dict[str, Any], boxes: NDArray[np.float64]) -> Finding:
    """Each row is the long side of the box of its number, and each box has its row."""
    name, unit, items = str(spec.get("subject") or "subject"), case.observation.result.unit, list(case.items())
    truth = {f"{name} {i}"[:120]: float(side) for i, side in enumerate(boxes, 1)}
    at = ("/result/items", "/arguments/spec")
    for i, item in enumerate(items):
        zone, mine = str(item.get("zone")), to_si(number_of(item.get("value")) or 0.0, unit)
        wanted = truth.pop(zone, None)
        if wanted is None:
            return failed("A row is that of a box that there is not, or is there twice.", measured=zone[:80], at=at)
        if mine is None or not abs(mine - wanted) <= 5e-3 * wanted:
            return failed(f"The box of the row {zone[:60]} has another long side.", measured=mine, expected=wanted, unit="m",
                          at=(f"/result/items/{i}/value",))  # fmt: skip
    if truth:
        return failed("Boxes are missing in the table.", measured=len(items), expected=len(boxes), unit="rows", at=at)
    return passed("The rows have the long sides of the boxes.", measured=len(items), expected=len(boxes), unit="rows", at=at)


def _nobody(case: Case, spec: dict[str, Any]) -> Finding:
    """A table without rows is one where nothing meets the conditions."""
    try:
        asked = source_of(case, str(spec.get("subject") or "subject"))
        listed = listed_of(case, spec, asked, region_of(case), is_own=True)
    except (CannotPlaceError, LayerUnreadableError) as why:
        return not_applicable(f"the rows cannot be worked out again: {why}")
    except Exception:  # unreadable shapes are another check's finding
        return not_applicable("the things cannot be read")
    at = ("/result/items", "/arguments/spec")
    if listed.sure:
        n = len(listed.sure)
        return failed("Nothing is listed, though some meet the conditions.", measured=0, expected=n, unit="rows", at=at)
    return passed("Nothing meets the conditions.", measured=0, expected=0, unit="rows", at=at)


class _Rows:
    """The rows of a table worked out again. ``bounds`` and ``total`` are (least, most) in m², m or 1."""

    def __init__(self, case: Case, spec: dict[str, Any], listed: Listed, subject: Placed, *, is_own: bool):
        self.case, self.spec, self.zones, self.is_own = case, spec, listed.zones, is_own
        self.is_whole = listed.is_whole and len(listed.sure) == len(listed.possible)
        self.metric, self.relation = str(spec.get("metric")), str(spec.get("relation") or "inside")
        self.distance = number_of(spec.get("distance_m")) or 0.0
        self.kind = "length" if self.metric == "length" else "area"
        self.unit = {"area": "m2", "length": "m", "distance": "m"}.get(self.metric, "1")
        self.pixel_m = listed.pixel_m if is_own else subject.pixel_m
        if self.relation not in ("inside", "within") or (not is_own and self.metric in ("area", "length", "ratio")
                                                         and not spec.get("clip")):  # fmt: skip
            raise CannotPlaceError("a relation that is not followed here")
        self.reach = ""
        zones = self.zones
        if is_own:
            every = [g for held in zones.values() for g in held]
            is_boxes = any(g.area > 0 for g in every) and not spec.get("length_of")
            self.reach = "extent" if self.metric == "length" and (spec.get("length_of") == "extent" or is_boxes) else ""
            self.sheet = Sheet.about(every)
            self.outlines = {n: [self._lined(self.sheet.put(g)) for g in held] for n, held in zones.items()}
            self.gaps = self._gaps(every) if self.metric == "distance" else {}
            return
        wide = {n: grown(held, self.relation, self.distance) for n, held in zones.items()}
        self.sheet = Sheet.about(subject.shapes, [g for held in wide.values() for g in held])
        self.outlines = {n: [shapely.union_all([self.sheet.put(g) for g in held])] for n, held in wide.items()}
        self.things = np.array([self._lined(self.sheet.put(g)) for g in subject.shapes], dtype=object)
        middles = shapely.centroid(np.array(subject.shapes, dtype=object))
        self.at = np.array([self.sheet.put(g) for g in middles], dtype=object) if self.relation == "inside" else self.things
        self.tree = STRtree(self.at)

    def _lined(self, geometry: BaseGeometry) -> BaseGeometry:
        """The outline of a polygon where that is what is measured."""
        return geometry.boundary if self.metric == "length" and self.spec.get("length_of") == "outline" else geometry

    @classmethod
    def of(cls, case: Case, spec: dict[str, Any]) -> _Rows:
        """CannotPlaceError where the things have no place, or the table is of a kind that is not followed."""
        asked = source_of(case, str(spec.get("subject") or "subject"))
        each = str(spec.get("each"))
        is_own = each in ("subject", str(spec.get("subject") or "subject"))
        listed = asked if is_own else source_of(case, str(spec.get("reference") or ""))
        region = region_of(case)
        if region is not None and not is_own and asked.get("mode") == "regions":
            raise CannotPlaceError("a region that is not followed here")
        if str(spec.get("metric")) not in ("count", "area", "length", "ratio", "density", "distance"):
            raise CannotPlaceError("a metric that is not followed here")
        subject = Placed([]) if is_own else place(case, asked)
        if region is not None and not is_own:
            subject = inside_of(subject, region)
        if not is_own and conditions_of(spec):
            few = met(case, spec, subject)
            if few.n_unsure:
                raise CannotPlaceError("some are so near to a limit that they may be in or out")
            subject = only_those(subject, few.keep)
        return cls(case, spec, listed_of(case, spec, listed, region if is_own else None, is_own=is_own), subject, is_own=is_own)

    def _gaps(self, every: list[BaseGeometry]) -> dict[str, float]:
        named = str(self.spec.get("reference") or "")
        other = place(self.case, source_of(self.case, named)) if named else Placed(every)
        gaps = gaps_m(Placed(every), other, is_same=not named)
        out: dict[str, float] = {}
        start = 0
        for name, held in self.zones.items():
            out[name] = float(np.min(gaps[start : start + len(held)]))
            start += len(held)
        return out

    def in_base(self, value: float) -> float:
        """A row's figure in m², m or 1; densities a square metre."""
        unit = self.case.observation.result.unit
        if self.metric == "density":
            return value / {"1/km2": 1e6, "1/ha": 1e4, "1/m2": 1.0}[unit]
        if self.metric == "count":
            return value
        held = to_si(value, unit)
        return math.nan if held is None else held

    def _number(self, outline: list[BaseGeometry]) -> tuple[int, int]:
        """(least, most) instances; what lies within a hair of the outline may be on either side."""
        joined = shapely.union_all(outline)
        x0, y0, x1, y1 = joined.bounds
        hair = max(self.pixel_m, 2e-3 * self.distance, 2e-6 * max(x1 - x0, y1 - y0), 1e-3)
        return tuple(len(self.tree.query(joined.buffer(d), predicate="intersects")) for d in (-hair, hair))  # type: ignore[return-value]

    def _amount(self, outline: list[BaseGeometry]) -> tuple[float, float]:
        joined = shapely.union_all(outline)
        near = self.things[np.sort(STRtree(self.things).query(joined, predicate="intersects"))] if len(self.things) else []
        part = amount(self.sheet, kept(near, joined, self.relation), self.kind)
        room = 2e-3 * part + 1e-3 + self.pixel_m * float(shapely.length(joined) if self.kind == "area" else 0.0)
        return part - room, part + room

    def _figure(self, outline: list[BaseGeometry]) -> tuple[float, float]:
        if self.is_own:
            n = len(outline)
            if self.metric == "count":
                return n, n
            part = amount(self.sheet, outline, self.kind)
            edge = self.pixel_m * (float(sum(shapely.length(g) for g in outline)) * 0.1 if self.kind == "area" else 1.0)
            return part * 0.998 - 1e-3 - edge, part * 1.002 + 1e-3 + edge
        return self._number(outline) if self.metric in ("count", "density") else self._amount(outline)

    def bounds(self, name: str) -> tuple[float, float]:
        """(least, most) that the row of this name may hold."""
        if self.metric == "distance":
            gap = self.gaps[name]
            room = max(4e-3 * gap, 1.5 * self.pixel_m, 0.01)
            return gap - room, gap + room
        if self.reach:
            reach = float(instance_figures(self.zones[name], self.reach)[0])
            return 0.995 * reach - self.pixel_m, 1.005 * reach + self.pixel_m
        outline = self.outlines[name]
        low, high = self._figure(outline)
        if self.metric in ("ratio", "density"):
            area = float(shapely.area(shapely.union_all(outline)))
            return low / area * 0.998, high / area * 1.002
        return low, high

    def total(self) -> tuple[float, float] | None:
        """What all rows hold together, what lies in several once; None where nothing adds up."""
        if self.metric == "distance" or self.reach:
            return None
        return self._figure([g for held in self.outlines.values() for g in held])


@check(
    "instances_recompute",
    catches=("degrees as metres", "wrong statistic", "wrong relation", "wrong unit", "stale artifact"),
    reads=("/result/value", "/arguments/spec"),
    family="consistency",
)
def instances_recompute(case: Case) -> Finding:
    """A mean, median, least or greatest area or length of single instances, and a length of those that a relation or conditions
    leave, worked out again from the instances on an equal-area cylinder of the verifier's own, is the value."""
    spec = case.arguments.get("spec")
    if case.observation.tool != "measure" or not isinstance(spec, dict) or case.value is None:
        return not_applicable("no figure of things")
    metric, statistic, relation = str(spec.get("metric")), str(spec.get("statistic") or ""), str(spec.get("relation") or "")
    is_chosen_length = metric == "length" and bool(relation or spec.get("where"))
    if metric not in ("area", "length") or spec.get("clip") or spec.get("each") or not (statistic or is_chosen_length):
        return not_applicable("no statistic over instances and no length of chosen ones")
    boxes = None if relation or spec.get("where") or metric != "length" else boxes_in_metres(case, spec)
    if boxes is not None and len(boxes):
        truth = statistic_of(boxes, statistic)
        if truth is None:
            return not_applicable("a statistic that is not followed here")
        mine = _si(case)
        is_good = abs(mine - truth) <= 5e-3 * truth
        said = f"Worked out again from the long sides of the single boxes, {'this' if is_good else 'another'} is the {statistic}."
        return (passed if is_good else failed)(
            said, measured=mine, expected=truth, unit="m", at=("/result/value", "/arguments/spec")
        )
    try:
        subject = _placed(case, spec)
        few = met(case, spec, subject)
        subject = only_those(subject, few.keep)
        if relation:
            subject = only_those(subject, _standing(case, spec, relation, subject))
        is_area_of = any(g.area > 0 for g in subject.shapes)
        figure = "area" if metric == "area" else str(spec.get("length_of") or ("extent" if is_area_of else "length"))
        values = instance_figures(subject.shapes, figure)
    except (CannotPlaceError, LayerUnreadableError) as why:
        return not_applicable(f"the things cannot be placed: {why}")
    except Exception:  # unreadable shapes are another check's finding
        return not_applicable("the things cannot be read")
    at, unit = ("/result/value", "/arguments/spec"), "m2" if metric == "area" else "m"
    if few.n_unsure:
        return not_applicable("some are so near to a limit that they may be in or out")
    if not len(values):
        return not_applicable("nothing is left")
    how = statistic or ("mean" if figure == "extent" else "sum")
    truth = float(values.sum()) if how == "sum" else statistic_of(values, how)
    if truth is None:
        return not_applicable("a statistic that is not followed here")
    mine = _si(case)
    # pixels bound a shape to half a pixel along its outline
    edge = subject.pixel_m * (4 * math.sqrt(truth) if metric == "area" else 1.0)
    if not abs(mine - truth) <= (5e-3 if figure == "extent" else REL) * truth + edge:
        return failed(
            f"Worked out again from the single instances, the {how} is another.", measured=mine, expected=truth, unit=unit, at=at
        )
    return passed(
        f"Worked out again from the single instances, this is the {how}.", measured=mine, expected=truth, unit=unit, at=at
    )


def _standing(case: Case, spec: dict[str, Any], relation: str, subject: Placed) -> NDArray[np.bool_]:
    """Which instances stand in the call's relation. CannotPlaceError where that is not followed."""
    reference = place(case, source_of(case, str(spec.get("reference") or "")))
    if spec.get("others"):
        raise CannotPlaceError("several references")
    nearest = spec.get("nearest_k")
    k = nearest if isinstance(nearest, int) else 1
    limit = number_of(spec.get("distance_m")) or 0.0
    found = stands(relation, subject, reference, limit, k)
    if found is None:
        raise CannotPlaceError("a relation that is not followed here")
    if relation in BY_A_HAIR:
        fine = stands(relation, subject, reference, limit, k, FINE_HAIR)
        if fine is not None and not np.array_equal(found, fine):
            raise CannotPlaceError("some lie so nearly on an outline that they may be in or out")
    return found


def _outlined(subject: Placed, spec: dict[str, Any]) -> Placed:
    """Polygons as their outlines, where those are measured."""
    if spec.get("length_of") != "outline":
        return subject
    return Placed([g.boundary for g in subject.shapes], subject.pixel_m)
