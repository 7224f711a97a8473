"""Geometry of landmarks: where they stand, whose they are, and the distance or bearing between them measured again."""

from __future__ import annotations

import math
import re

from apps.core.evidence.landmark import Landmark
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, inconclusive, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.marks import (
    CannotMarkError,
    degrees_of,
    is_between_landmarks,
    marks_of,
    method_of,
    scene_measured,
    vincenty,
)
from apps.verification.units import to_si


@check(
    "landmarks_stand",
    catches=("landmark outside the scene", "one place twice", "axes swapped", "box corner for its middle"),
    reads=("/arguments/landmarks", "/evidence/intermediate/landmarks_px"),
    family="geometry",
)
def landmarks_stand(case: Case) -> Finding:
    """A distance or bearing is between exactly two landmarks, both on the scene, not one place twice, and measured where the
    call puts them."""
    if not is_between_landmarks(case) or case.value is None:
        return not_applicable("nothing is measured between landmarks")
    at = ("/arguments/landmarks", "/evidence/intermediate/landmarks_px")
    scene = scene_measured(case)
    if scene is None:
        return not_applicable("the scene is not at hand")
    try:
        marks = marks_of(case, scene.grid)
    except (CannotMarkError, LayerUnreadableError) as why:
        return inconclusive(f"The landmarks cannot be placed: {why}.", at=at)
    size = (scene.grid.width, scene.grid.height)
    if len(marks) != 2:
        return failed("A measurement is between two landmarks.", measured=len(marks), expected=2, at=at)
    for mark in marks:
        if not (0 <= mark.px[0] <= size[0] and 0 <= mark.px[1] <= size[1]):
            return failed(
                f"The landmark {mark.name or 'given'} lies outside the scene.", measured=list(mark.px), expected=list(size),
                unit="px", at=at,
            )  # fmt: skip
    if math.dist(marks[0].px, marks[1].px) < 1e-6:
        return failed("Both landmarks are one and the same place.", measured=list(marks[0].px), expected="two places", at=at)
    told = case.evidence("intermediate", "landmarks_px")
    pairs = [[number_of(v) for v in p] for p in told if isinstance(p, (list, tuple))] if isinstance(told, (list, tuple)) else []
    if len(pairs) != 2 or any(len(p) != 2 or None in p for p in pairs):
        return inconclusive("Where the landmarks were measured is not on record.", at=at)
    for mark, (col, row) in zip(marks, pairs, strict=True):
        if math.dist(mark.px, (col or 0.0, row or 0.0)) > 0.01:
            return failed(
                f"The landmark {mark.name or 'given'} was measured elsewhere than it was put.", measured=[col, row],
                expected=list(mark.px), unit="px", at=at,
            )  # fmt: skip
    return passed("Two landmarks on the scene, measured where they were put.", measured=pairs, unit="px", at=at)


@check(
    "landmarks_as_marked",
    catches=("another place than marked", "bearing the wrong way round"),
    reads=("/arguments/landmarks", "/task/question"),
    family="geometry",
)
def landmarks_as_marked(case: Case) -> Finding:
    """The landmarks that the call calls A and B are the ones that the person marked, and a bearing runs as the words say."""
    marked: dict[str, Landmark] = {m.name: m for m in case.question.landmarks} if case.question is not None else {}
    raw = case.arguments.get("landmarks")
    given = [g for g in raw if isinstance(g, dict)] if isinstance(raw, (list, tuple)) else []
    if not is_between_landmarks(case) or not marked:
        return not_applicable("nobody marked a place")
    at = ("/arguments/landmarks", "/task/question")
    used = [g for g in given if str(g.get("name")) in marked and not g.get("layer")]
    for one in used:
        mark = marked[str(one["name"])]
        held = one.get("box") if one.get("box") is not None else one.get("point")
        numbers = [number_of(v) for v in held] if isinstance(held, (list, tuple)) else []
        wanted = list(mark.box or mark.point or ())
        is_same = len(numbers) == len(wanted) and all(
            n is not None and abs(n - w) < 1e-9 for n, w in zip(numbers, wanted, strict=True)
        )
        if not is_same or str(one.get("crs", "EPSG:4326")) != mark.crs:
            return failed(
                f"{mark.name} is measured at another place than it was marked.", measured=numbers, expected=wanted, at=at
            )
    if not used and not any(c.isdigit() for c in case.text) and not any(g.get("layer") for g in given):
        return failed(
            "The places were marked, and others are measured.", measured=[g.get("name") for g in given],
            expected=sorted(marked), at=at,
        )  # fmt: skip
    if method_of(case).get("measure") == "azimuth":
        found = re.search(r"\bfrom (?:the )?(?:\w+ ){0,2}?([ab])\b", case.text)
        first = str(given[0].get("name")) if given else ""
        if found and first != found[1].upper():
            return failed(
                "The bearing is asked from one mark and measured from the other.",
                measured=first,
                expected=found[1].upper(),
                at=at,
            )
    return passed("The places measured are the places marked.", measured=[g.get("name") for g in used], at=at)


@check(
    "landmarks_measured_again",
    catches=("axes swapped", "degrees as metres", "wrong GSD", "wrong unit", "box corner for its middle"),
    reads=("/result/value", "/arguments/landmarks"),
    family="geometry",
)
def landmarks_measured_again(case: Case) -> Finding:
    """The distance or bearing between two landmarks, worked out again from what was asked by Vincenty's formula (or pixels times
    GSD), is the value, and its interval is at least a pixel wide."""
    if not is_between_landmarks(case) or case.value is None:
        return not_applicable("nothing is measured between landmarks")
    scene = scene_measured(case)
    if scene is None:
        return not_applicable("the scene is not at hand")
    at = ("/result/value", "/arguments/landmarks")
    unit = case.observation.result.unit
    try:
        marks = marks_of(case, scene.grid)
        if len(marks) != 2:
            return not_applicable("not two landmarks")
        px = math.dist(marks[0].px, marks[1].px)
        gsd = scene.effective_gsd_m
        found = vincenty(*(degrees_of(m, scene.grid) for m in marks)) if scene.grid.crs is not None else None
    except (CannotMarkError, LayerUnreadableError) as why:
        return inconclusive(f"The landmarks cannot be placed: {why}.", at=at)
    if scene.grid.crs is not None and found is None:
        return not_applicable("places nearly opposite on the globe")
    is_bearing = method_of(case).get("measure") == "azimuth"
    metres = found[0] if found is not None else px * gsd if gsd is not None else None
    if is_bearing:
        if unit != "deg":
            return failed("A bearing is given in degrees.", measured=unit, expected="deg", at=("/result/unit",))
        if found is None:
            return failed("A scene without a CRS has no north.", measured=case.value, expected="no bearing", at=at)
        mine, truth = case.value, found[1]
        good = abs(math.remainder(mine - truth, 360)) <= 1e-3 + math.degrees(2e-3 / max(found[0], 1e-3))
    elif unit == "px":
        mine, truth, good = case.value, px, abs(case.value - px) <= 1e-3 + 1e-6 * px
    elif metres is None:
        return failed("Nobody knows how large a pixel is, so there are no metres.", measured=case.value, expected="px", at=at)
    else:
        mine, truth = to_si(case.value, unit) or 0.0, metres
        good = abs(mine - truth) <= 2e-3 + 1e-6 * truth
    said = "deg" if is_bearing else "px" if unit == "px" else "m"
    if not good:
        return failed(
            "Worked out again from the landmarks, the figure is another.", measured=mine, expected=truth, unit=said, at=at
        )
    interval, least = case.observation.result.interval, {"deg": math.degrees(1 / max(px, 1)), "px": 1.0}.get(said)
    if least is None:
        least = (metres or 0.0) / px
    width = to_si(interval[1] - interval[0], unit) if interval is not None and said == "m" else None
    if interval is not None:
        width = interval[1] - interval[0] if width is None else width
    if width is None or width < 0.999 * least:
        return failed(
            "The figure is told more exactly than a pixel allows.", measured=width, expected=f"≥ {least:.6g}", unit=said,
            at=("/result/interval",),
        )  # fmt: skip
    return passed("Worked out again from the landmarks, this is the figure.", measured=mine, expected=truth, unit=said, at=at)
