"""Consistency of a record with itself and with its result: numerators, counts of pixels, rows, quantities, classes and masks that
it names beside the value."""

from __future__ import annotations

import re
from typing import Any

from apps.verification import words
from apps.verification.case import Case, Finding, LayerUnreadableError, failed, not_applicable, number_of, passed
from apps.verification.checks.catalogue import check
from apps.verification.checks.seen import quality_entries
from apps.verification.formulas import INDICES
from apps.verification.placed import kept_boxes
from apps.verification.units import to_si

_PART, _WHOLE, _N = "/evidence/intermediate/numerator", "/evidence/intermediate/denominator", "/evidence/intermediate/n_region_px"


@check(
    "numbers_on_record_agree",
    catches=("wrong denominator", "stale artifact", "another scene's result"),
    limits=("rel_tolerance", "area_rel_tolerance"),
    reads=(_PART, _WHOLE, _N, "/result/value"),
    family="consistency",
)
def numbers_on_record_agree(case: Case) -> Finding:
    """Numerator, denominator and numbers of pixels on the record are those that the value is made of: a figure of another run, or
    of other pixels, stands beside others."""
    looked = [found for found in (_of_value(case), _of_distances(case), _of_pixels(case)) if found is not None]
    wrong = next((f for f in looked if f.outcome == "failed"), None)
    return wrong or next(iter(looked), not_applicable("no numbers beside the value"))


def _of_value(case: Case) -> Finding | None:
    """The numerator of a count is the count, that of an area its pixels or its square metres."""
    part, value = case.evidence_number("intermediate", "numerator"), case.value
    spec = case.arguments.get("spec")
    if part is None or value is None or case.kind not in ("count", "area"):
        return None
    if isinstance(spec, dict) and any(spec.get(name) for name in ("each", "statistic", "pick")):
        return None  # a figure of each instance: the numerator is that of all
    n_px, whole = case.evidence_number("intermediate", "n_px"), case.evidence_number("intermediate", "denominator")
    valid = case.evidence_number("intermediate", "valid_px")
    fits = {"the value": value}
    spec = case.arguments.get("spec")
    over = spec.get("statistic") if isinstance(spec, dict) else None
    if over and over != "mean":
        return None  # an extreme or the median of single things is no part of their sum
    if over and whole:
        part = part / whole
    if case.kind == "area":
        si = to_si(value, case.observation.result.unit)
        fits |= {"its pixels": n_px} if n_px is not None else {}
        fits |= {"its square metres": si} if si is not None else {}
    if not any(case.is_same(part, f, case.limits.area_rel_tolerance) for f in fits.values()):
        return failed(
            f"The numerator on record is not {' or '.join(fits)}.",
            measured=part,
            expected=list(fits.values()),
            at=(_PART, "/result/value"),
        )
    if case.kind == "area" and None not in (whole, valid, n_px) and part == n_px and whole != valid:
        return failed(
            "The denominator on record is not the number of valid pixels.",
            measured=whole,
            expected=valid,
            unit="px",
            at=(_WHOLE,),
        )
    return passed("Numerator and value agree.", measured=part, at=(_PART, "/result/value"))


def _of_distances(case: Case) -> Finding | None:
    """Sum and number of distances on record are those of the distances listed; a least one is the value."""
    listed = case.evidence("intermediate", "distances_m")
    if case.kind != "distance" or not isinstance(listed, list):
        return None
    metres = [m for m in (number_of(v) for v in listed) if m is not None]
    n, part = case.evidence_number("intermediate", "n_distances"), case.evidence_number("intermediate", "numerator")
    whole = case.evidence_number("intermediate", "denominator")
    if not metres or n != len(metres):
        return None
    for told, mine, at in ((part, sum(metres), _PART), (whole, float(len(metres)), _WHOLE)):
        if told is not None and not case.is_same(told, mine):
            return failed(
                "Sum or number of the distances is not that of the distances on record.", measured=told, expected=mine, at=(at,)
            )
    return passed("The distances on record add up.", measured=sum(metres), unit="m", at=(_PART, _WHOLE))


def _of_pixels(case: Case) -> Finding | None:
    """The pixels of the region are the valid ones and those left out for each cause."""
    told, valid = case.evidence_number("intermediate", "n_region_px"), case.evidence_number("intermediate", "valid_px")
    masked = case.evidence("intermediate", "masked")
    if told is None or valid is None or len(case.used_scenes) != 1 or not isinstance(masked, dict):
        return None
    op = str(case.nodes.get(case.output, {}).get("op"))
    if not op.startswith("raster.") or op == "raster.summarize.zonal":
        return None  # the valid ones are those of the zones, or of what a picture shows
    causes = {k: number_of(v) for k, v in masked.items() if k != "outside_region"}
    mine = valid + sum(v for v in causes.values() if v is not None)
    if told != mine:
        return failed(
            "The pixels of the region are not the valid ones and those that were left out.",
            measured=told,
            expected=mine,
            unit="px",
            at=(_N,),
        )
    return passed("Every pixel of the region is valid or told as left out.", measured=told, unit="px", at=(_N,))


@check(
    "rows_of_zones_agree",
    catches=("stale artifact", "another scene's result"),
    limits=("rel_tolerance",),
    reads=("/result/items",),
    family="consistency",
)
def rows_of_zones_agree(case: Case) -> Finding:
    """What a row of a zone tells beside its value goes with it: no more valid pixels than pixels, a mean between least and
    greatest, a deviation that these allow, and the value among them that it is called."""
    node = case.nodes.get(case.output)
    if node is None or node["op"] != "raster.summarize.zonal":
        return not_applicable("no rows of zones")
    statistic = str(node["params"].get("statistic") or "mean")
    seen = 0
    for k, item in enumerate(case.items()):
        told = {
            name: number_of(item.get(name)) for name in ("value", "n_valid", "n_px", "min", "max", "mean", "std", "on_raster")
        }
        wrong = _row(case, statistic, told)
        seen += 1
        if wrong:
            return failed(wrong, measured=str(item.get("zone"))[:80], expected="rows that agree", at=(f"/result/items/{k}",))
    return passed("The rows agree with themselves.", measured=seen, at=("/result/items",)) if seen else not_applicable("no rows")


def _row(case: Case, statistic: str, told: dict[str, float | None]) -> str:
    """What does not go together in a zone's row; '' where all does."""
    value, low, high, mean, std = (told[n] for n in ("value", "min", "max", "mean", "std"))
    n, of = told["n_valid"], told["n_px"]
    room = 1e-6 * max(1.0, abs(low or 0), abs(high or 0))
    if n is not None and of is not None and n > of:
        return "A zone has more valid pixels than pixels."
    if told["on_raster"] is not None and not -1e-9 <= told["on_raster"] <= 1 + 1e-9:
        return "More of a zone lies on the raster than there is of it."
    if low is not None and high is not None:
        if low > high + room or (mean is not None and not low - room <= mean <= high + room):
            return "A zone's mean lies beyond its least and greatest value."
        if std is not None and std > (high - low) / 2 * (1 + 1e-6) + room:
            return "A zone's deviation is more than half of what lies between its least and greatest value."
    same = {"mean": mean, "min": low, "max": high, "std": std}.get(statistic)
    if value is not None and same is not None and not case.is_same(value, same):
        return f"A zone's {statistic} is two numbers in its row."
    return ""


@check(
    "quantity_as_computed",
    catches=("wrong index", "another scene's result"),
    reads=("/result/quantity", "/arguments/nodes"),
    family="contract",
)
def quantity_as_computed(case: Case) -> Finding:
    """The quantity that the result is called is the index that the graph computes."""
    told = case.observation.result.quantity.strip().lower()
    used = {str(n["params"].get("index")).lower() for n in case.nodes.values() if n["op"] == "raster.product.index"}
    if told not in INDICES or not used:
        return not_applicable("no index is named, or none is computed")
    at = ("/result/quantity", "/arguments/nodes")
    if told not in used:
        return failed("The result is called another index than was computed.", measured=told, expected=sorted(used), at=at)
    return passed("The result is called what was computed.", measured=told, at=at)


@check(
    "quality_mask_is_one",
    catches=("clouds", "wrong pairing or band"),
    reads=("/evidence/validity/quality_mask",),
    family="completeness",
)
def quality_mask_is_one(case: Case) -> Finding:
    """The band that is told as a quality mask is a band of quality, and not one of the picture."""
    seen = 0
    for entry in quality_entries(case):
        scene = case.scenes.get(str(entry.get("scene") or entry.get("scene_id") or ""))
        band = next((b for b in scene.bands if b.index == entry.get("band")), None) if scene is not None else None
        if scene is None or not isinstance(entry.get("band"), int):
            continue
        seen += 1
        if band is None or band.role not in ("qa", "mask", "class", "unknown"):
            return failed(
                "The band that is told as the quality mask is none of quality.",
                measured={"band": entry["band"], "role": band.role if band is not None else "none"},
                expected="qa",
                at=("/evidence/validity/quality_mask",),
            )
    return (
        passed("The quality mask is one.", measured=seen, at=("/evidence/validity/quality_mask",))
        if seen
        else not_applicable("no band is told as a quality mask")
    )


@check("classes_as_called", catches=("wrong target",), reads=("/result/layers", "/arguments/target_groups"), family="contract")
def classes_as_called(case: Case) -> Finding:
    """Detections are of the classes that were looked for, by their names, their prompts, or the class told to serve them."""
    groups = case.arguments.get("target_groups")
    ref = kept_boxes(case)
    if (
        case.observation.tool != "perceive"
        or case.arguments.get("mode") != "objects"
        or not isinstance(groups, dict)
        or ref is None
    ):
        return not_applicable("no targets were looked for")
    wanted = {_plain(n) for n in groups} | {_plain(p) for ps in groups.values() if isinstance(ps, list) for p in ps}
    try:
        found = {_plain(v) for f in case.features(ref) if (v := _class_of(f))}
    except LayerUnreadableError:
        return not_applicable("the boxes cannot be read")
    other = found - wanted - _serving(case, groups)
    at = ("/result/layers", "/arguments/target_groups")
    if other and wanted:
        return failed(
            "Detections are of a class that was not looked for.", measured=sorted(other), expected=sorted(wanted), at=at
        )
    return passed("Detections are of the classes that were looked for.", measured=sorted(found), at=at)


def _serving(case: Case, groups: dict[str, Any]) -> set[str]:
    """Classes that are told to hold what was looked for beside other kinds, and do: cars are counted among vehicles, and no
    record makes dogs of them."""
    told = case.observation.evidence.validity.get("classes")
    asked = {_plain(n): {_plain(w) for w in (n, *(ps if isinstance(ps, list) else ()))} for n, ps in groups.items()}
    out = set()
    for entry in told if isinstance(told, list) else ():
        if isinstance(entry, dict) and entry.get("exact") is False:
            served = asked.get(_plain(entry.get("target")), set())
            if any(words.is_kind_of(w, _plain(entry.get("class"))) for w in served):
                out.add(_plain(entry.get("class")))
    return out


def _plain(name: Any) -> str:
    return re.sub(r"[^a-z0-9]+", " ", str(name).lower()).strip()


def _class_of(feature: dict[str, Any]) -> Any:
    held = feature.get("properties") or {}
    return held.get("class") or held.get("label")
