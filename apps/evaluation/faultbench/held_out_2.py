"""A second set of kinds held out: written when checks, weights and loop stood as released, run once, and never mended for.

The first set (``held_out``) has been seen since: what it found in detections led to the pixels that a tool hands over.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.evidence.observation import Observation
from apps.core.geo import MaskedRaster
from apps.core.ports import RasterReader, Window
from apps.evaluation.faultbench.doors import ChangedLayers, ChangedReader
from apps.evaluation.faultbench.faults import Call, Fault, makes_boxes, makes_mask, reads_pixels, register, uses_op

FRESH = frozenset({"unseen", "fresh"})


# --- readers ------------------------------------------------------------------------------------------------------------------
def _half_pixel(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    """Resampled onto a grid that lies half a pixel aside: every value is the mean of two neighbours."""
    data = got.data.astype(np.float64)
    data[:, :, :-1] = (data[:, :, :-1] + data[:, :, 1:]) / 2
    return replace(got, data=data)


def _bright_tile(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    """One sixteenth of the scene, in its middle, is a tenth too bright: a calibration that changed between two strips."""
    data = got.data.astype(np.float64)
    rows, cols = data.shape[1:]
    part = np.s_[:, rows * 3 // 8 : rows * 5 // 8, cols * 3 // 8 : cols * 5 // 8]
    data[part] *= 1.1
    return replace(got, data=data)


def _clouds_filled(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    """Pixels without a value are filled with the median of the rest and called valid."""
    data, valid = got.data.astype(np.float64), got.valid.copy()
    for k in range(len(data)):
        if got.valid[k].any():
            data[k][~got.valid[k]] = np.median(data[k][got.valid[k]])
            valid[k] = True
    return replace(got, data=data, valid=valid)


def _second_band_late(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    """The second band asked for lies three rows lower than the first: bands that were not registered."""
    data = got.data.copy()
    if len(data) > 1:
        data[1] = np.roll(data[1], 3, axis=0)
    return replace(got, data=data)


def _reads(change: Any) -> Callable[[str, RasterReader, Callable[[str], RasterReader], Call], RasterReader]:
    return lambda scene_id, real, opener, call: ChangedReader(real, change)


for name, family, meaning, change, where in (
    ("half_pixel_aside", "grid", "values lie half a pixel aside", _half_pixel, reads_pixels),
    ("strip_too_bright", "scale", "a sixteenth of the scene is a tenth too bright", _bright_tile, reads_pixels),
    ("gaps_filled", "nodata", "missing pixels are filled with the median and counted", _clouds_filled, reads_pixels),
    ("bands_unregistered", "band", "the second band lies three rows lower", _second_band_late, reads_pixels),
):
    register(Fault(name, family, meaning, where, reader=_reads(change), tags=FRESH))


# --- layers -------------------------------------------------------------------------------------------------------------------
def _one_class_for_all(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The weakest fifth of the detections are moved onto the strongest: as many, but not where they are."""
    scored = sorted(range(len(features)), key=lambda i: float(features[i].get("properties", {}).get("score", 0)))
    out = [copy.deepcopy(f) for f in features]
    for weak, strong in zip(scored[: len(scored) // 5], scored[::-1], strict=False):
        out[weak]["geometry"] = copy.deepcopy(features[strong]["geometry"])
    return out


def _despeckled(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Every piece but the largest is dropped."""
    pieces, n = ndimage.label(mask)
    if n < 2:
        return mask
    return np.asarray(pieces == 1 + int(np.argmax(np.bincount(pieces.ravel())[1:])))


register(
    Fault(
        "detections_restacked",
        "detections",
        "weak detections lie on strong ones",
        makes_boxes,
        layers=lambda real, call: ChangedLayers(real, features=_one_class_for_all),
        tags=FRESH,
    )
)
register(
    Fault(
        "largest_piece_alone",
        "mask",
        "of the mask only its largest piece is kept",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=_despeckled),
        tags=FRESH,
    )
)


# --- arguments and reports ------------------------------------------------------------------------------------------------------
def _inclusive(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    """A threshold is rounded to one digit on its way into the tool."""
    out = copy.deepcopy(arguments)
    for node in out.get("nodes", []):
        value = node.get("params", {}).get("value")
        if node.get("op") == "raster.product.threshold" and isinstance(value, int | float):
            node["params"]["value"] = value + 0.05
    return out


def _older_items(o: Observation, call: Call) -> Observation:
    """The last item of a series stands for the one before it as well."""
    items = [dict(i) for i in o.result.items]
    if len(items) < 3 or "value" not in items[-1]:
        return o
    items[-2]["value"] = items[-1]["value"]
    value = o.result.value
    if isinstance(value, float) and o.result.kind in ("series", "statistic"):
        value = float(np.mean([i["value"] for i in items]))
    return o.model_copy(update={"result": o.result.model_copy(update={"items": tuple(items), "value": value})})


register(
    Fault(
        "threshold_nudged",
        "threshold",
        "the threshold used is a twentieth above the one asked",
        lambda call: uses_op(call, "raster.product.threshold"),
        arguments=_inclusive,
        tags=FRESH,
    )
)
register(
    Fault(
        "last_item_twice",
        "series",
        "the last date's value stands for the one before as well",
        lambda call: uses_op(call, "raster.summarize.series", "raster.summarize.trend"),
        report=_older_items,
        tags=FRESH,
    )
)
