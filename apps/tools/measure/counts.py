"""Counts: of features with their probabilities, of the pieces of a mask, and of what lies near a limit."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.tools.contract import MeasureSpec, ToolContext
from apps.tools.measure.accuracy import joint
from apps.tools.measure.choose import pixel_side_m
from apps.tools.measure.figure import Figure
from apps.tools.measure.layers import Measured, pieces
from apps.tools.measure.relations import near_relation

# Two-sided level of intervals from detection probabilities.
COUNT_LEVEL = 0.9


_Z = 1.6448536269514722


def measure_count(subject: Measured) -> Figure:
    """Number of features, with an interval from their probabilities, or of the pieces of a mask."""
    if subject.mask is not None:
        _, n = pieces(subject.mask)
        apart, joined = ndimage.label(subject.mask)[1], pieces(_closed(subject.mask))[1]
        return Figure(n, min(n, joined), max(n, apart), None, {
            "counted": "8-connected pieces of the mask",
            "interval_from": "pieces one pixel apart taken as one, and those that meet at a corner alone as two"},
            n, None, int(subject.mask.sum()))
    assert subject.features is not None
    n = len(subject.features)
    out = Figure(n, numerator=n, evidence={"counted": "features of the layer", "n_features": n})
    scores = [p["score"] for p in subject.properties if isinstance(p.get("score"), (int, float))]
    if subject.parent is None or len(scores) < n:
        return out
    counts = subject.parent.evidence.intermediate.get("counts")
    told = counts.get(subject.layer.label) if isinstance(counts, dict) and subject.layer is not None else None
    if subject.is_whole and isinstance(told, dict) and all(isinstance(told.get(k), (int, float)) for k in ("low", "high")):
        out.low, out.high = float(str(told["low"])), float(str(told["high"]))
        level = told.get("level")
        out.level = float(level) if isinstance(level, (int, float)) else COUNT_LEVEL
        out.evidence |= {"interval_from": "the detector's own score distribution", "calibrated": told.get("calibrated"),
                         "expected": told.get("expected")}
        return out
    kept = np.array([_probability(p) for p in subject.properties], dtype=np.float64)
    weak = np.array([_probability(p) for _, p in subject.candidates], dtype=np.float64)
    p = np.concatenate([kept, weak])
    expected, spread = float(p.sum()), float(np.sqrt((p * (1 - p)).sum()))
    out.low, out.high = max(0.0, math.floor(min(n, expected - _Z * spread))), math.ceil(max(n, expected + _Z * spread))
    out.level = COUNT_LEVEL
    calibrated = all("p" in q for q in subject.properties)
    out.evidence |= {"interval_from": "sum of the detections' probabilities, kept and candidates", "expected": expected,
                     "calibrated": calibrated, "n_candidates": len(weak)}
    return out


def near_limit(ctx: ToolContext, subject: Measured, references: Sequence[Measured], spec: MeasureSpec
               ) -> tuple[int, int] | None:
    """(instances that may fall out, that may come in) since a relation's limit lies within the accuracy of drawn shapes; None
    where none are drawn, or the relation is another."""
    drawn = [m for m in (subject, *references) if m.is_drawn]
    found = joint([(m.source.name, m.accuracy) for m in drawn])
    if found is None or spec.relation not in ("inside", "outside", "within", "beyond"):
        return None
    if not all(m.is_georeferenced or m.gsd_m is not None for m in (subject, *references)):
        return None
    pixels = sum(0.5 * pixel_side_m(m) for m in (subject, *references) if not m.is_drawn)
    return near_relation(subject, references, spec.relation, spec.distance_m, found[0] + pixels,
                         is_cancelled=ctx.is_cancelled)


def widen_count_by_accuracy(ctx: ToolContext, base: Figure, sources: Sequence[Measured], near: tuple[int, int] | None,
                    relation: str) -> None:
    """What the accuracy of drawn shapes leaves open of a number of instances: those so near to a limit that it decides."""
    drawn = [m for m in sources if m.is_drawn]
    if not drawn:
        return
    base.evidence["complete"] = "whether the file holds all that are there it does not tell"
    edge = tuple(sum(m.near_region[k] for m in drawn) for k in (0, 1))
    found = joint([(m.source.name, m.accuracy) for m in drawn])
    is_chosen = bool(relation) or any(not m.is_whole for m in drawn)
    if not is_chosen:
        if base.low is None:
            base.low = base.high = base.value
            base.evidence |= {"interval_from": "the features that were given, each counted once", "interval_is": "exact"}
        return
    if found is None or (relation and near is None):
        why = "no accuracy of them is known" if found is None else f"what it leaves open of {relation} is not worked out"
        base.evidence.setdefault("interval_from", f"none: {why}")
        if base.low is None:
            ctx.log("info", f"How many lie so near to the limit that they may count or not is not known ({why}), so no interval "
                            "is given.")
        else:
            base.evidence["interval_is"] = "floor"
            ctx.log("info", f"How many lie so near to the limit of the drawn shapes that they may count or not is not known "
                            f"({why}): the true interval may be wider.")
        return
    out, more = (near or (0, 0))[0] + edge[0], (near or (0, 0))[1] + edge[1]
    base.low = max(0.0, (base.value if base.low is None else base.low) - out)
    base.high = (base.value if base.high is None else base.high) + more
    base.evidence |= {"interval_from": f"{out} in and {more} out are so near to the limit that this decides: "
                                       f"{'; '.join(found[2])}",
                      "interval_is": "floor" if found[1] else "declared", "accuracy_m": found[0], "near_limit": [out, more]}


def _closed(mask: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask with gaps of one pixel filled."""
    closed: NDArray[np.bool_] = ndimage.binary_closing(np.pad(mask, 1), structure=np.ones((3, 3)))[1:-1, 1:-1]
    return closed | mask


def _probability(properties: Mapping[str, Any]) -> float:
    value = properties.get("p", properties.get("score", 1.0))
    return min(1.0, max(0.0, float(value))) if isinstance(value, (int, float)) else 1.0
