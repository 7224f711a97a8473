"""Radiometry: values are physically possible, scaled once, free of fill, and made from the bands that the formula needs."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from apps.verification.estimates import SAME_STATISTIC
from apps.verification.formulas import INDICES, STAND_INS
from apps.verification.units import dimension, to_si


def quantity_of(case: Case) -> str:
    return case.observation.result.quantity.lower().strip()


# Statistics that are a value of the quantity itself. A deviation, a width or a sum is none, a moment has another unit.
_LEVELS = frozenset({"mean", "median", "min", "max"})


def is_level(case: Case) -> bool:
    """Whether a figure is a value that the quantity itself can have: of a series of one, of a single figure its statistic."""
    node = case.nodes.get(case.output)
    if node is not None and node["op"] == "raster.summarize.series_analysis":
        return False
    if not _is_level_over_dates(case):
        return False
    statistic = statistic_of(case)
    return statistic in _LEVELS or statistic == "" or statistic.startswith("percentile")


def _is_level_over_dates(case: Case) -> bool:
    """Whether the dates of a series became one that is a value of theirs: not their sum, deviation or number."""
    node = case.nodes.get(case.output)
    over = node["params"].get("over") if node is not None and node["op"] == "raster.summarize.series" else None
    return over not in ("sum", "std", "count_above")


# operators that take the mean where nobody names a statistic
WITH_STATISTIC = frozenset({"statistic", "series", "trend", "zonal", "series_analysis"})


def statistic_of(case: Case) -> str:
    """Statistic of the output node, ``percentile:q`` for percentiles; the operators' default is the mean; '' without a node."""
    node = case.nodes.get(case.output)
    if node is None or not node["op"].startswith("raster.summarize."):
        return ""
    if "statistic" not in node["params"] and node["op"].rpartition(".")[2] not in WITH_STATISTIC:
        return ""
    name = str(node["params"].get("statistic") or "mean").lower()
    q = number_of(node["params"].get("percentile"))
    return f"percentile:{q:g}" if name == "percentile" and q is not None else SAME_STATISTIC.get(name, name)


def is_reference_ratio(case: Case) -> bool:
    """Whether a ratio is one to a reference: said so, or two things are named and no denominator is."""
    spec, sources = case.arguments.get("spec"), case.arguments.get("sources")
    if case.observation.tool != "measure" or not isinstance(spec, dict):
        return False
    named = spec.get("denominator")
    is_of_two = bool(spec.get("reference")) or (isinstance(sources, list) and len(sources) > 1)
    return named == "reference" or (not named and is_of_two)


@check("fraction_in_range", catches=("percent as fraction", "wrong denominator"), reads=("/result/value", "/result/unit"))
def fraction_in_range(case: Case) -> Finding:
    """A share lies in [0, 1], in percent in [0, 100]."""
    if case.kind != "ratio" or case.value is None:
        return not_applicable("no share")
    top = {"1": 1.0, "%": 100.0, "percent": 100.0, "fraction": 1.0}.get(case.observation.result.unit)
    if top is None:
        return not_applicable("a ratio with a unit")
    if is_reference_ratio(case):
        return not_applicable("a ratio to a reference may exceed one")
    if not -1e-9 <= case.value <= top * (1 + 1e-9):
        return failed(
            "A share cannot lie outside the whole; check the denominator, and whether the value is a percentage.",
            measured=case.value,
            expected=[0, top],
            unit=case.observation.result.unit,
            at=("/result/value", "/result/unit"),
        )
    return passed("The share lies in the whole.", measured=case.value, expected=[0, top], at=("/result/value",))


@check(
    "index_in_range",
    catches=("scale or offset twice or never", "wrong band mapping", "NaN"),
    limits=("index_bound", "index_extreme"),
    reads=("/result/value", "/result/quantity"),
)
def index_in_range(case: Case) -> Finding:
    """A normalised difference lies in [−1, 1]; extremes a little beyond are warned of (reflectance may be negative)."""
    quantity = quantity_of(case)
    formula = INDICES.get(quantity)
    # of a series' value that is a number or sum of dates, its items are looked at alone
    values = [v for v in [case.value] if v is not None and _is_level_over_dates(case)]
    if formula is None or not formula.bounded or case.kind not in ("statistic", "series"):
        return not_applicable("no normalised difference")
    if any(n["op"] == "raster.product.difference" for n in case.nodes.values()):
        return not_applicable("a difference of an index")
    values += [v for v in (number_of(i.get("value")) for i in case.items()) if v is not None]
    if not values:
        return not_applicable("no value")
    if case.observation.result.unit not in ("1", ""):
        return not_applicable("another unit")
    bound = case.limits.index_bound
    statistic = statistic_of(case)
    n_valid = case.evidence_number("intermediate", "valid_px")
    if statistic == "sum" and n_valid and case.kind == "statistic":
        # so many values within the bound
        values = [v / n_valid for v in values]
    elif statistic in ("range", "iqr"):
        # between two values within the bound
        values = [v / 2 for v in values]
    elif statistic == "variance":
        # of values in ± bound at most its square
        values = [math.sqrt(abs(v)) for v in values]
    elif statistic != "std" and _is_level_over_dates(case) and not is_level(case):
        return not_applicable("a statistic that is no value of the index")
    worst = max(values, key=abs)
    is_middle = statistic not in ("min", "max", "range", "variance", "sum")
    if abs(worst) > bound + 1e-6:
        return failed(
            f"{quantity.upper()} lies in ±{bound:g} for reflectances that are not negative; check scale, offset and fill.",
            measured=worst,
            expected=[-bound, bound],
            at=("/result/value",),
            severity="warn" if statistic == "std" or (not is_middle and abs(worst) <= case.limits.index_extreme) else None,
        )
    return passed("The index lies in its range.", measured=worst, expected=[-bound, bound], at=("/result/value",))


@check(
    "values_in_range",
    catches=("fill counted as data", "scale or offset twice or never"),
    limits=("index_bound", "out_of_range_share", "max_layer_px"),
    reads=("/evidence/intermediate/nodes", "/result/layers"),
)
def values_in_range(case: Case) -> Finding:
    """Few of the values under a result lie beyond the physical range of their quantity, by the tool's count and by our own."""
    worst: tuple[float, str, int, int] | None = None
    told = case.evidence("intermediate", "nodes")
    used = set(case.upstream(case.output))
    for k, record in enumerate(told if isinstance(told, list) else ()):
        if not isinstance(record, dict) or str(record.get("id")) not in used:
            continue
        n, out = number_of(record.get("n_valid")), number_of(record.get("n_out_of_range"))
        if n and out is not None and (worst is None or out / n > worst[0]):
            worst = (out / n, f"/evidence/intermediate/nodes/{k}", int(out), int(n))
    for k, ref in enumerate(case.observation.result.layers):
        formula = INDICES.get(ref.label.lower())
        if ref.kind != "raster" or formula is None or not formula.bounded or not case.is_small(ref):
            continue
        try:
            values = case.valid_values(ref)
        except LayerUnreadableError:
            continue
        out = int((np.abs(values) > case.limits.index_bound + 1e-6).sum())
        if values.size and (worst is None or out / values.size > worst[0]):
            worst = (out / values.size, f"/result/layers/{k}", out, int(values.size))
    if worst is None:
        return not_applicable("no values with a physical range on record")
    share, pointer, out, n = worst
    if share > case.limits.out_of_range_share:
        return failed(
            f"{out:,} of {n:,} values lie beyond what the quantity can be: undeclared fill, a missing scale or offset, or "
            "negative reflectances were taken for data. Name the nodata value, scale and offset of the scene.",
            measured=share,
            expected=f"≤ {case.limits.out_of_range_share:g}",
            at=(pointer,),
        )
    return passed("The values lie in their physical range.", measured=share, at=(pointer,))


def _is_of_changes(case: Case) -> bool:
    """Whether the answer rests on differences, which have the unit of what they are of but not its size."""
    for name in case.upstream(case.output):
        node = case.nodes[name]
        if node["op"] in ("raster.product.difference", "raster.product.anomaly", "raster.product.pca"):
            return True
        if node["op"] == "raster.product.focal" and node["params"].get("statistic") in ("std", "range"):
            return True
        text = str(node["params"].get("expression") or "")
        if node["op"] == "raster.product.math" and re.search(r"[A-Za-z_]\w*\s*-\s*[A-Za-z_]", text):
            return True
    return False


@check(
    "temperature_plausible",
    catches=("wrong unit", "scale or offset twice or never"),
    limits=("kelvin_range",),
    reads=("/result/value", "/result/unit"),
)
def temperature_plausible(case: Case) -> Finding:
    """A temperature in its stated unit is one that the Earth's surface or clouds can have."""
    if case.value is None or dimension(case.observation.result.unit) != "temperature" or case.kind not in ("statistic", "series"):
        return not_applicable("no temperature")
    if not is_level(case) or _is_of_changes(case):
        return not_applicable("no absolute temperature")
    kelvin = to_si(case.value, case.observation.result.unit)
    low, high = case.limits.kelvin_range
    if kelvin is None or not low <= kelvin <= high:
        return failed(
            "No surface has this temperature; check the unit (K or °C), the scale and the fill.",
            measured=case.value,
            expected=[low, high],
            unit=case.observation.result.unit,
            at=("/result/value", "/result/unit"),
        )
    return passed("The temperature is possible.", measured=kelvin, expected=[low, high], unit="K", at=("/result/value",))


@check(
    "reflectance_scaled",
    catches=("scale or offset twice or never",),
    limits=("reflectance_range", "decibel_range"),
    reads=("/result/value", "/result/unit"),
)
def reflectance_scaled(case: Case) -> Finding:
    """A value in reflectance or decibels has the size of one: neither stored numbers, nor scaled twice."""
    found = dimension(case.observation.result.unit)
    if case.value is None or case.kind not in ("statistic", "series") or found not in ("reflectance", "decibel"):
        return not_applicable("neither reflectance nor decibels")
    low, high = case.limits.reflectance_range if found == "reflectance" else case.limits.decibel_range
    if not is_level(case) or _is_of_changes(case):
        return not_applicable("no level")
    if found == "decibel" and any(n["op"] == "raster.product.amplitude" for n in case.nodes.values()):
        return not_applicable("decibels above one unit of an amplitude that was not calibrated")
    if not low <= case.value <= high:
        return failed(
            f"Outside what {found} can be; the scale was not applied, or twice.",
            measured=case.value,
            expected=[low, high],
            unit=case.observation.result.unit,
            at=("/result/value", "/result/unit"),
        )
    return passed("The value has the size of its unit.", measured=case.value, expected=[low, high], at=("/result/value",))


@check("input_bands_as_scene", catches=("wrong band mapping", "stale artifact"), reads=("/inputs",))
def input_bands_as_scene(case: Case) -> Finding:
    """Bands on the inputs' record have the role that the scene gives that band."""
    compared = 0
    for k, ref in enumerate(case.observation.inputs):
        scene = case.scene_of(ref)
        if scene is None:
            continue
        roles = {b.index: b.role for b in scene.bands}
        for j, band in enumerate(ref.bands):
            if band.role in ("", "unknown"):
                continue
            compared += 1
            if roles.get(band.index) != band.role:
                return failed(
                    "A band was read under a role that it does not have.",
                    measured={"band": band.index, "role": band.role},
                    expected={"band": band.index, "role": roles.get(band.index)},
                    at=(f"/inputs/{k}/bands/{j}",),
                )
    if not compared:
        return not_applicable("no bands on the inputs' record")
    return passed("Bands have the scene's roles.", measured=compared, unit="bands", at=("/inputs",))


def mapping_entries(case: Case) -> list[tuple[str, str, str, int]]:
    """(pointer, scene id or '', role, band index) of evidence.source.band_mapping, whichever way it is nested."""
    out: list[tuple[str, str, str, int]] = []

    def walk(value: Any, path: tuple[str, ...], scene: str) -> None:
        if isinstance(value, dict):
            named = value.get("scene") or value.get("scene_id")
            here = named if isinstance(named, str) else scene
            index = value.get("index", value.get("band"))
            if isinstance(value.get("role"), str) and isinstance(index, int):
                out.append(
                    (
                        "/".join(("/evidence/source/band_mapping", *path)),
                        here,
                        value["role"],
                        index,
                    )
                )
                return
            for key, inner in value.items():
                if isinstance(inner, int) and not isinstance(inner, bool):
                    out.append(("/".join(("/evidence/source/band_mapping", *path, key)), here, key, inner))
                else:
                    walk(inner, (*path, key), key if key in case.scenes else here)
        elif isinstance(value, list):
            for i, inner in enumerate(value):
                walk(inner, (*path, str(i)), scene)

    walk(case.evidence("source", "band_mapping"), (), "")
    return out


def _index_nodes(case: Case) -> list[tuple[str, frozenset[str]]]:
    out = []
    for name, node in case.nodes.items():
        index = node["params"].get("index")
        if isinstance(index, str) and index.lower() in INDICES:
            out.append((name, INDICES[index.lower()].roles))
    return out


@check("band_roles_as_formula", catches=("wrong band mapping",), reads=("/evidence/source/band_mapping",))
def band_roles_as_formula(case: Case) -> Finding:
    """Each role of the formula was read from the band that has this role in the scene, not by position."""
    entries = mapping_entries(case)
    needed = frozenset().union(*(roles for _, roles in _index_nodes(case))) if _index_nodes(case) else frozenset()
    if case.observation.tool != "execute" or not (entries or needed):
        return not_applicable("no formula over bands")
    if needed and not entries:
        return inconclusive("The tool does not say which band it took for which role.", at=("/evidence/source/band_mapping",))
    for pointer, scene_id, role, index in entries:
        scene = case.scenes.get(scene_id) or (case.used_scenes[0] if len(case.used_scenes) == 1 else None)
        if scene is None:
            continue
        band = next((b for b in scene.bands if b.index == index), None)
        if band is None:
            return failed(
                "The mapping names a band that the scene does not have.",
                measured=index,
                expected=[b.index for b in scene.bands],
                at=(pointer,),
            )
        if (
            role in {b.role for b in scene.bands} | {"red", "green", "blue", "nir"}
            and band.role != role
            and band.role not in STAND_INS.get(role, ())
        ):
            truth = [b.index for b in scene.bands if b.role == role]
            return failed(
                f"Band {index} was used as {role}, but its role is {band.role}.", measured=index, expected=truth, at=(pointer,)
            )
    mapped = {role for _, _, role, _ in entries}
    if needed and not needed <= mapped:
        return inconclusive(
            f"The mapping leaves out {', '.join(sorted(needed - mapped))}.",
            at=("/evidence/source/band_mapping",),
            severity="warn",
        )
    return passed(
        "Every role was read from its band.", measured={r: i for _, _, r, i in entries}, at=("/evidence/source/band_mapping",)
    )


@check("no_band_twice", catches=("wrong pairing or band",), reads=("/evidence/source/band_mapping",))
def no_band_twice(case: Case) -> Finding:
    """No band of one scene stands for two roles of a formula (an index of a band with itself is 0)."""
    entries = mapping_entries(case)
    if not entries:
        return not_applicable("no band mapping")
    seen: dict[tuple[str, str, int], str] = {}
    for pointer, scene, role, index in entries:
        key = (pointer.rsplit("/", 1)[0], scene, index)
        if key in seen and seen[key] != role:
            return failed(
                f"Band {index} stands for {seen[key]} and for {role}.", measured=index, expected="one role a band", at=(pointer,)
            )
        seen[key] = role
    return passed("Each role has a band of its own.", measured=len(entries), at=("/evidence/source/band_mapping",))


def valid_pixels(case: Case) -> tuple[str, float] | None:
    """(pointer, valid-pixel count) of the evidence."""
    for path in (("intermediate", "valid_px"), ("intermediate", "n_valid")):
        found = case.evidence_number(*path)
        if found is not None:
            return "/evidence/" + "/".join(path), found
    return None


@check(
    "fill_not_counted",
    catches=("fill counted as data", "NaN"),
    limits=("valid_px_tolerance",),
    reads=("/evidence/intermediate/valid_px",),
)
def fill_not_counted(case: Case) -> Finding:
    """No more pixels were counted as valid than the scene has after its declared and suspected fill."""
    found = valid_pixels(case)
    scenes = case.used_scenes or [case.scenes[i.scene_id] for p in case.parents for i in p.inputs if i.scene_id in case.scenes]
    if found is None or len(scenes) != 1 or scenes[0].valid_share is None:
        return not_applicable("no single scene with a known share of valid pixels")
    scene = scenes[0]
    total = scene.grid.width * scene.grid.height
    most = total * (float(scene.valid_share or 0) + case.limits.valid_px_tolerance) + 1
    if found[1] > most:
        return failed(
            f"{found[1]:.0f} pixels were counted as valid, the scene has {total * float(scene.valid_share or 0):.0f}: fill was "
            "taken for data. Apply the scene's nodata and fill rules.",
            measured=found[1],
            expected=round(most),
            unit="px",
            at=(found[0],),
        )
    return passed("Fill is out of the count.", measured=found[1], expected=round(most), unit="px", at=(found[0],))


# What programs write where there is nothing.
_NOTHING = (-9999.0, -99999.0, -32768.0, -3.4028234663852886e38, 1e20, 9.969209968386869e36)


def _n_missing(values: NDArray[Any], known: set[float]) -> int:
    """How many values are one of ``_NOTHING`` (and not of ``known``), where the rest lies far from it."""
    at = np.isin(values.astype(np.float32), np.array([v for v in _NOTHING if v not in known], dtype=np.float32))
    rest = values[~at]
    if not at.any() or rest.size < 2:
        return 0
    low, high = float(rest.min()), float(rest.max())
    away = np.maximum(low - values[at].astype(np.float64), values[at].astype(np.float64) - high)
    return int((away > max(high - low, 1.0)).sum())


@check(
    "no_fill_value_in_raster",
    catches=("fill counted as data", "scale or offset twice or never"),
    limits=("max_layer_px",),
    reads=("/result/layers",),
)
def no_fill_value_in_raster(case: Case) -> Finding:
    """Valid pixels of a result raster are finite, and none is the scene's nodata value itself, nor one that programs write for
    "nothing here" and that lies far from all others."""
    ref = case.layer("raster")
    if ref is None or not case.is_small(ref):
        return not_applicable("no raster that can be read whole")
    try:
        values = case.valid_values(ref)
    except LayerUnreadableError:
        return not_applicable("the raster cannot be read")
    bad = int((~np.isfinite(values)).sum())
    nodata = {b.nodata for s in case.used_scenes for b in s.bands if b.nodata is not None and abs(b.nodata) > 1}
    with np.errstate(over="ignore"):  # a nodata of 64 bits that no value of 32 bits can have
        for fill in nodata:
            bad += int((values == fill).sum())
    bad += _n_missing(values[np.isfinite(values)], nodata)
    if bad:
        return failed(
            f"{bad} pixels of the result are NaN, the nodata value or one that stands for nothing, yet count as valid.",
            measured=bad,
            expected=0,
            unit="px",
            at=("/result/layers",),
        )
    return passed("No fill among the valid pixels.", measured=int(values.size), unit="px", at=("/result/layers",))
