"""Plausibility: sizes, shares and changes that the ground and the image allow."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from apps.core.geo.scene import SceneInfo
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.pixels import mask_maker
from apps.verification.checks.radiometry import is_reference_ratio
from apps.verification.look import Look
from apps.verification.planes import CannotLookError, same_grid
from apps.verification.scattered import places_of
from apps.verification.sights import look_windows, step_of
from apps.verification.units import dimension, to_si


def ground_scenes(case: Case) -> list[SceneInfo]:
    """Scenes of the call, else of its parents."""
    return case.used_scenes or [case.scenes[i.scene_id] for p in case.parents for i in p.inputs if i.scene_id in case.scenes]


def scene_area_m2(scene: SceneInfo) -> float | None:
    """Ground area of a scene, m²; None where its pixels have no known size."""
    if scene.grid.crs is not None:
        mean = float(scene.grid.geodesic_lattice[2].mean())
        return mean * scene.grid.width * scene.grid.height
    return None if scene.gsd_m is None else scene.gsd_m**2 * scene.grid.width * scene.grid.height


@check("area_within_scene", catches=("wrong unit", "wrong GSD", "degrees as metres"), reads=("/result/value", "/inputs"))
def area_within_scene(case: Case) -> Finding:
    """An area is not larger than the scene that it lies in."""
    if case.kind != "area" or case.value is None:
        return not_applicable("no area")
    areas = [scene_area_m2(s) for s in ground_scenes(case)]
    mine = to_si(case.value, case.observation.result.unit)
    if mine is None or dimension(case.observation.result.unit) != "area" or not areas or any(a is None for a in areas):
        return not_applicable("the scene's ground area is not known")
    most = max(float(a) for a in areas if a is not None)
    if mine > most * 1.005:
        return failed(
            "The area is larger than the whole scene; check unit and GSD.",
            measured=mine,
            expected=most,
            unit="m2",
            at=("/result/value", "/result/unit"),
        )
    return passed("The area fits in the scene.", measured=mine, expected=most, unit="m2", at=("/result/value",))


def _diagonal_m(scene: SceneInfo) -> float:
    """Diagonal of a scene in m from the widest of its rows and columns, whose pixels need not be as wide as high."""
    grid = scene.grid
    if grid.crs is None:
        return math.hypot(grid.width, grid.height) * float(scene.effective_gsd_m or 0)
    cols, rows = ((0.5, n / 2, n - 0.5) for n in (grid.width, grid.height))
    at = [grid.pixel_sides_m(c, r) for c in cols for r in rows]
    return math.hypot(grid.width * max(a for a, _ in at), grid.height * max(b for _, b in at))


@check("distance_within_scene", catches=("wrong unit", "wrong GSD", "degrees as metres"), reads=("/result/value", "/inputs"))
def distance_within_scene(case: Case) -> Finding:
    """A distance inside a scene is not longer than its diagonal."""
    if case.kind not in ("distance",) or case.value is None:
        return not_applicable("no distance")
    scenes = ground_scenes(case)
    mine = to_si(case.value, case.observation.result.unit)
    if mine is None or not scenes or any(s.effective_gsd_m is None for s in scenes):
        return not_applicable("the scene's size on the ground is not known")
    most = max(_diagonal_m(s) for s in scenes) * 1.05
    if len(scenes) == 1 and mine > most:
        return failed(
            "The distance is longer than the scene's diagonal.", measured=mine, expected=most, unit="m", at=("/result/value",)
        )
    return passed("The distance fits in the scene.", measured=mine, expected=most, unit="m", at=("/result/value",))


@check("no_change_between_equals", catches=("swapped before and after", "one date for many"), reads=("/inputs", "/result/value"))
def no_change_between_equals(case: Case) -> Finding:
    """Where all that is asked about is one file, no change is shown; else a scene is not compared with itself."""
    pairs = [n for n in case.nodes.values() if n["op"] == "raster.product.difference" and len(n["inputs"]) == 2]
    digests = []
    for node in pairs:
        sides = [
            [case.nodes[u]["params"].get("scene") for u in case.upstream(i) if case.nodes[u]["op"].startswith("asset.")]
            for i in node["inputs"]
        ]
        digests.append(
            [sorted(str(case.scenes[str(s)].artifact if str(s) in case.scenes else s) for s in side) for side in sides]
        )
    if case.observation.tool == "perceive" and case.arguments.get("mode") == "change":
        arts = [case.scenes[s].artifact if s in case.scenes else s for s in case.scene_ids]
        if len(case.scene_ids) == 2:
            digests.append([[arts[0]], [arts[1]]])
        paths = case.arguments.get("image_paths")
        if isinstance(paths, list) and len(paths) == 2 and paths[0] == paths[1]:
            digests.append([[str(paths[0])], [str(paths[0])]])
    if not digests:
        return not_applicable("no comparison of dates")
    if any(a == b and a for a, b in digests):
        asked = {s.artifact for s in case.question.scenes} if case.question is not None else set()
        if len(asked) == 1 and not _shows_change(case):
            at = ("/inputs", "/result")
            return passed("Before and after are one file, and no change is shown.", measured=0, expected=0, at=at)
        return failed(
            "Before and after are the same image; a change between them means nothing.",
            measured="the same image twice",
            expected="no change" if len(asked) == 1 else "two dates",
            at=("/inputs", "/arguments"),
        )
    return passed("Before and after are two images.", at=("/inputs",))


def _shows_change(case: Case) -> bool:
    """Whether value, record or layers of a comparison are anything but zero, or cannot be read."""
    told = case.evidence_number("intermediate", "mask_px")
    if (case.value is not None and abs(case.value) > 1e-9) or (told is not None and told > 0):
        return True
    try:
        for ref in case.observation.result.layers:
            if ref.kind == "mask":
                if any((mask & valid).any() for _, mask, valid in case.mask_strips(ref)):
                    return True
            elif ref.kind == "raster" and (not case.is_small(ref) or (np.abs(case.valid_values(ref)) > 1e-9).any()):
                return True
    except LayerUnreadableError:
        return True
    return False


@check(
    "not_degenerate",
    "warn",
    catches=("empty layer called zero", "wrong threshold"),
    limits=("degenerate_share",),
    reads=("/result/value", "/result/layers"),
)
def not_degenerate(case: Case) -> Finding:
    """The result is not nothing or everything; where it is, that is warned of."""
    share: float | None = None
    at: tuple[str, ...] = ("/result/value",)
    if is_reference_ratio(case):
        return not_applicable("a ratio of two things, of which one may well be the larger")
    if _is_of_class(case):
        return not_applicable("the map itself says which pixels are of a class; none, or all, is a finding")
    if case.kind == "ratio" and case.value is not None and case.observation.result.unit in ("1", "%"):
        share = case.value / (100 if case.observation.result.unit == "%" else 1)
    ref = case.layer("mask")
    if ref is not None and case.is_small(ref):
        try:
            mask, valid = case.mask(ref)
            if valid.any():
                share, at = float((mask & valid).sum() / valid.sum()), ("/result/layers",)
        except LayerUnreadableError:
            share = share if share is not None else None
    if share is None and case.kind in ("count", "area") and case.value == 0:
        share = 0.0
    if share is None:
        return not_applicable("no share")
    edge = case.limits.degenerate_share
    if share <= edge or share >= 1 - edge:
        return failed(
            f"{'Nothing' if share <= edge else 'Everything'} was found; that is a finding only where the threshold and the bands "
            "are right.",
            measured=share,
            expected=[edge, 1 - edge],
            at=at,
        )
    return passed("Neither nothing nor everything.", measured=share, at=at)


def _is_of_class(case: Case) -> bool:
    """Whether the result is made of the pixels that a class map itself gives a class, without a threshold."""
    methods = [o.arguments.get("regions_method") for o in (case.observation, *case.parents)]
    kinds = {str(m.get("kind")) for m in methods if isinstance(m, dict)}
    if case.observation.tool == "execute":
        ops = {str(n.get("op")) for n in case.nodes.values()}
        return "raster.product.class_values" in ops and not ops & {"raster.product.threshold", "raster.product.classify"}
    return kinds == {"class_value"}


@check("zero_is_a_finding", catches=("empty layer called zero", "rounded to zero"), reads=("/result/value", "/evidence"))
def zero_is_a_finding(case: Case) -> Finding:
    """A zero stands for nothing found in what was seen: not for a small value rounded away, nor for nothing looked at."""
    if case.value != 0 or case.kind not in ("count", "area", "ratio", "distance", "length", "statistic"):
        return not_applicable("the value is not zero")
    for part, key in (
        ("intermediate", "numerator"),
        ("intermediate", "n_px"),
        ("intermediate", "kept"),
        ("intermediate", "mask_px"),
    ):
        found = case.evidence_number(part, key)
        if found and case.kind in ("count", "area", "ratio"):
            return failed(
                "The value is zero, its numerator is not: it was rounded away; use a finer unit.",
                measured=0,
                expected=found,
                at=("/result/value", f"/evidence/{part}/{key}"),
            )
    if case.kind in ("area", "ratio", "count"):
        # value 0 although the layer it is made from holds something
        for owner in (case.observation, *case.parents):
            for ref in owner.result.layers:
                if ref.n and not ref.is_aside and ref.kind in ("mask", "boxes", "polygons") and not _is_compared(case):
                    return failed(
                        "The value is zero, yet the layer holds something.",
                        measured=0,
                        expected=ref.n,
                        at=("/result/value", "/result/layers"),
                    )
    looked = case.evidence_number("intermediate", "denominator")
    if looked == 0:
        return failed(
            "The value is zero of nothing: no pixel was looked at.",
            measured=0,
            expected="> 0",
            at=("/evidence/intermediate/denominator",),
        )
    return passed("The zero rests on what was seen.", at=("/result/value", "/evidence"))


def _is_compared(case: Case) -> bool:
    """True where a relation, region or several sources may rightly leave nothing of a layer."""
    spec = case.arguments.get("spec")
    sources = case.arguments.get("sources")
    return (
        case.region is not None
        or (isinstance(spec, dict) and bool(spec.get("relation") or spec.get("reference")))
        or (isinstance(sources, list) and len(sources) > 1)
    )


_LOSS = re.compile(
    r"\b(?:loss|lost|lose|losing|decreas|declin|drop|reduc|shr[aiu]nk|fell|fall|less|burn|dnbr|severity|deforest|degrad|damag|clear)",
    re.I,
)


def _loss_for_a_change(case: Case) -> str:
    """Where a statistic of before less after answers a question about a change; '' where none does."""
    output = case.nodes.get(case.output)
    if output is None or output["op"] != "raster.summarize.statistic" or not output["inputs"] or _LOSS.search(case.text):
        return ""
    source = case.nodes.get(output["inputs"][0])
    is_loss = source is not None and source["op"] == "raster.product.difference" and source["params"].get("mode") == "loss"
    return (
        "/arguments/nodes" if is_loss and re.search(r"\bchang|\bincreas|\bgain|\bdifference\b|\brise|\bgrow", case.text) else ""
    )


@check("before_precedes_after", catches=("swapped before and after",), reads=("/arguments", "/inputs"))
def before_precedes_after(case: Case) -> Finding:
    """In a change, the first image is the earlier one."""
    pairs: list[tuple[Any, Any]] = []
    for node in case.nodes.values():
        if node["op"] == "raster.product.difference" and len(node["inputs"]) == 2:
            dates = []
            for side in node["inputs"]:
                found = [
                    case.scenes[str(case.nodes[u]["params"].get("scene"))].acquired_at
                    for u in case.upstream(side)
                    if case.nodes[u]["op"].startswith("asset.") and str(case.nodes[u]["params"].get("scene")) in case.scenes
                ]
                dates.append(found[0] if found else None)
            pairs.append((dates[0], dates[1]))
    by_role = {i.role: i.acquired_at for i in case.observation.inputs}
    if "before" in by_role and "after" in by_role:
        pairs.append((by_role["before"], by_role["after"]))
    if case.observation.tool == "perceive" and case.arguments.get("mode") == "change" and len(case.used_scenes) == 2:
        pairs.append((case.used_scenes[0].acquired_at, case.used_scenes[1].acquired_at))
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    turned = _loss_for_a_change(case)
    if turned:
        return failed(
            "The question asks for a change, and what is told is before less after: the change has the wrong sign.",
            measured="loss",
            expected="difference",
            at=(turned, "/task/question"),
        )
    if not known:
        return not_applicable("no dated change")
    for a, b in known:
        if a > b:
            return failed(
                "Before is later than after: the change has the wrong sign.",
                measured=[a.isoformat(), b.isoformat()],
                expected="before earlier than after",
                at=("/arguments", "/inputs"),
            )
    return passed("Before is earlier than after.", at=("/arguments",))


@check(
    "threshold_parts_two_heaps",
    "warn",
    catches=("wrong threshold", "empty layer called zero"),
    limits=("least_separability", "max_layer_px"),
    reads=("/result/layers", "/evidence/source/thresholds"),
)
def threshold_parts_two_heaps(case: Case) -> Finding:
    """Where a threshold was found and not given, it parts two heaps of values: of one heap half lies above any such threshold,
    whatever is there."""
    node = next((n for n in case.upstream(case.output) if case.nodes[n]["op"] == "raster.product.threshold"), None)
    asked = case.nodes[node]["params"].get("value") if node is not None else case.regions_method.get("threshold")
    told = case.evidence("source", "thresholds")
    threshold = number_of(told.get(node)) if isinstance(told, dict) and node is not None else None
    if threshold is None and isinstance(told, dict):
        threshold = next((v for v in map(number_of, told.values()) if v is not None), None)
    raster = case.layer("raster")
    if asked != "otsu" or threshold is None or raster is None or not case.is_small(raster):
        return not_applicable("no threshold that was found from the values, or its raster is not at hand")
    try:
        values = case.valid_values(raster)
    except LayerUnreadableError:
        return not_applicable("the raster cannot be read")
    above = values > threshold
    share = float(above.mean()) if values.size else 0.0
    if share in (0.0, 1.0):
        return not_applicable("all values lie on one side")
    between = share * (1 - share) * (float(values[above].mean()) - float(values[~above].mean())) ** 2
    part = between / float(values.var())
    at = ("/result/layers", "/evidence/source/thresholds")
    if part < case.limits.least_separability:
        return failed(
            "The values hardly part into two heaps at this threshold, so what lies on either side may be the same ground.",
            measured=part,
            expected=case.limits.least_separability,
            at=at,
        )
    return passed("The threshold parts two heaps.", measured=part, expected=case.limits.least_separability, at=at)


@check(
    "stand_in_agrees",
    catches=("wrong threshold", "wrong band mapping"),
    limits=("stand_in_agreement", "look_windows", "full_look_px"),
    reads=("/result/layers", "/arguments"),
)
def stand_in_agrees(case: Case) -> Finding:
    """A mask by another method, after one was rejected, covers what the rejected method would have given for the source's pixels.

    Another index or threshold answers another question as soon as the two differ, and nobody said which was meant.
    """
    ref = case.layer("mask")
    first = next(
        (
            o
            for o in case.rejected
            if o.tool == "perceive"
            and o.arguments.get("mode") == "regions"
            and o.arguments.get("objective") == case.arguments.get("objective")
            and o.arguments.get("image_paths") == case.arguments.get("image_paths")
            and o.arguments.get("regions_method") != case.arguments.get("regions_method")
        ),
        None,
    )
    if case.arguments.get("mode") != "regions" or ref is None or ref.grid is None or first is None or not case.is_small(ref):
        return not_applicable("no other method stands in for a rejected one")
    asked = Case(first, case.question, layers=case.layers, reader=case.reader, limits=case.limits)
    try:
        look = Look(asked)
        made = mask_maker(asked, look)
        mask, valid = case.mask(ref)
        if made is None or not same_grid(ref.grid, made[0].grid) or made[4] is None:
            return not_applicable("the rejected method cannot be followed on this grid")
        both = either = 0
        for window in look_windows(case, ref.grid)[0]:
            plane = made[1](window)
            places = places_of(window, step_of(case, window))
            keep, held = plane.valid & places.take(valid, window), places.take(mask, window)
            both += int((keep & held & (plane.data > 0)).sum())
            either += int((keep & (held | (plane.data > 0))).sum())
    except (CannotLookError, LayerUnreadableError) as why:
        return not_applicable(str(why))
    finally:
        asked.close()
    overlap = both / either if either else 1.0
    at = ("/result/layers", "/arguments/regions_method")
    if overlap < case.limits.stand_in_agreement:
        return failed(
            "Another method stands in for the rejected one, and the two differ; nobody said which was meant.",
            measured=overlap,
            expected=f"≥ {case.limits.stand_in_agreement}",
            at=at,
        )
    return passed("The method that stands in covers the same ground.", measured=overlap, at=at)
