"""Fault kinds held out: written after the checks were mended and the verifier was fitted, and never used for either.

Their first run is the one that ``docs/evaluation.md`` reports. Registered on import, like every plug-in; all carry the tag
``unseen``.
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
from apps.evaluation.faultbench.doors import Change, ChangedLayers, ChangedReader
from apps.evaluation.faultbench.faults import Call, Fault, makes_boxes, makes_mask, reads_pixels, register, uses_op

UNSEEN = frozenset({"unseen"})
Wrap = Callable[[str, RasterReader, Callable[[str], RasterReader], Call], RasterReader]


def _reads(change: Change) -> Wrap:
    return lambda scene_id, real, opener, call: ChangedReader(real, change)


def _uses_graph(call: Call) -> bool:
    return bool(call.arguments.get("nodes"))


# --- readers ------------------------------------------------------------------------------------------------------------------
def _aside(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    return replace(got, data=np.roll(got.data, 6, axis=2), valid=np.roll(got.valid, 6, axis=2))


def _blocky(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    rows, cols = np.arange(got.data.shape[1]) // 8 * 8, np.arange(got.data.shape[2]) // 8 * 8
    return replace(got, data=got.data[:, rows][:, :, cols], valid=got.valid[:, rows][:, :, cols])


def _saturated(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    data = got.data.astype(np.float64)
    for k in range(len(data)):
        seen = data[k][got.valid[k]]
        if seen.size:
            data[k] = np.minimum(data[k], np.percentile(seen, 60))
    return replace(got, data=data)


def _wrapped(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    data = np.where(np.isfinite(got.data), got.data, 0)
    top = 256.0 if np.abs(data).max() > 300 else 100.0 if np.abs(data).max() > 2 else 0.5
    return replace(got, data=np.where(got.valid, np.mod(data, top), got.data))


def _stripes(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    valid = got.valid.copy()
    valid[:, (np.arange(valid.shape[1]) + window[1]) % 4 == 0] = False
    return replace(got, valid=valid)


def _noisy(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    draw = np.random.default_rng(abs(hash((window, tuple(bands)))) % 2**32)
    data = got.data.astype(np.float64)
    for k in range(len(data)):
        seen = data[k][got.valid[k]]
        if seen.size:
            data[k] += draw.normal(0, float(seen.std()) * 0.5, data[k].shape)
    return replace(got, data=data)


def _head_only(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
    """The first rows stand for all that follow: a loop that read one block again and again."""
    n = max(1, got.data.shape[1] // 8)
    rows = np.arange(got.data.shape[1]) % n
    return replace(got, data=got.data[:, rows], valid=got.valid[:, rows])


def _band_late(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    order = [b.index for b in real.info.bands]
    return ChangedReader(real, remap=dict(zip(order, [*order[1:], order[0]], strict=True))) if len(order) > 1 else real


def _mosaic(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    other_id = next((s.scene_id for s in call.question.scenes if s.scene_id != scene_id), None)
    if other_id is None:
        return real
    other = opener(other_id)

    def change(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
        there = other.read(bands, window, got.data.shape[1:] if got.data.shape[1:] != (window[3], window[2]) else None)
        half = got.data.shape[2] // 2
        data, valid = got.data.astype(np.float64), got.valid.copy()
        data[:, :, half:], valid[:, :, half:] = there.data[:, :, half:], there.valid[:, :, half:]
        return replace(got, data=data, valid=valid)

    return ChangedReader(real, change)


for name, family, meaning, change in (
    ("pixels_aside", "grid", "pixels lie six columns aside of their grid", _aside),
    ("overview_for_full", "gsd", "an overview is blown up and taken for full resolution", _blocky),
    ("saturated", "scale", "values are cut off at the sixtieth percentile", _saturated),
    ("wrapped_around", "scale", "values overflow a small integer type", _wrapped),
    ("rows_lost", "tile", "every fourth row is missing and called nodata", _stripes),
    ("noise_added", "decode", "a lossy decoder adds noise of half a deviation", _noisy),
    ("first_block_again", "tile", "the first block stands for all others", _head_only),
):
    register(Fault(name, family, meaning, reads_pixels, reader=_reads(change), tags=UNSEEN))
register(
    Fault(
        "band_numbers_from_zero",
        "band",
        "band numbers are taken to begin at zero",
        lambda call: reads_pixels(call) and any(len(s.bands) > 1 for s in call.question.scenes),
        reader=_band_late,
        tags=UNSEEN,
    )
)
register(
    Fault(
        "mosaic_of_dates",
        "stale",
        "the eastern half comes from another date",
        lambda call: (
            reads_pixels(call) and len(call.question.scenes) > 1 and len({s.grid.shape for s in call.question.scenes}) == 1
        ),
        reader=_mosaic,
        tags=UNSEEN,
    )
)


# --- layers -------------------------------------------------------------------------------------------------------------------
def _eroded(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(ndimage.binary_erosion(mask, iterations=1))


def _filled(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    return np.asarray(ndimage.binary_fill_holes(ndimage.binary_closing(mask, iterations=6))) & valid


def _every_second(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return features[::2]


def _tile_coordinates(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for f in features:
        moved = copy.deepcopy(f)
        moved["geometry"]["coordinates"][0] = [[x / 2, y / 2] for x, y in f["geometry"]["coordinates"][0]]
        out.append(moved)
    return out


register(
    Fault(
        "mask_inverted",
        "mask",
        "background and target are exchanged",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=lambda m, v: ~m & v),
        tags=UNSEEN,
    )
)
register(
    Fault(
        "mask_eroded",
        "mask",
        "the rim of the mask is cut off",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=_eroded),
        tags=UNSEEN,
    )
)
register(
    Fault(
        "mask_smoothed",
        "mask",
        "holes and bays of the mask are filled",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=_filled),
        tags=UNSEEN,
    )
)
register(
    Fault(
        "every_second_lost",
        "detections",
        "every second detection is dropped",
        makes_boxes,
        layers=lambda real, call: ChangedLayers(real, features=_every_second),
        tags=UNSEEN,
    )
)
register(
    Fault(
        "tile_coordinates",
        "detections",
        "boxes are left in the coordinates of a smaller image",
        makes_boxes,
        layers=lambda real, call: ChangedLayers(real, features=_tile_coordinates),
        tags=UNSEEN,
    )
)


# --- arguments and reports ------------------------------------------------------------------------------------------------------
def _median(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    out = copy.deepcopy(arguments)
    for node in out.get("nodes", []):
        if node["op"] == "raster.summarize.statistic":
            node["params"]["statistic"] = "median" if node["params"].get("statistic") != "median" else "mean"
        elif node["op"] == "raster.summarize.series":
            node["params"]["statistic"] = "median"
    return out


def _times(factor: float) -> Callable[[Observation, Call], Observation]:
    def report(o: Observation, call: Call) -> Observation:
        v = o.result.value
        if isinstance(v, bool) or not isinstance(v, int | float):
            return o
        update: dict[str, Any] = {"value": v * factor}
        if o.result.interval is not None:
            low, high = o.result.interval
            update["interval"] = (low * factor, high * factor)
        return o.model_copy(update={"result": o.result.model_copy(update=update)})

    return report


def _next_date(o: Observation, call: Call) -> Observation:
    """Values stand beside the next date; a date that was picked is the one after."""
    items = [dict(i) for i in o.result.items]
    if len(items) < 3 or not all("date" in i for i in items):
        return o
    dates = [i["date"] for i in items]
    moved = [{**i, "date": d} for i, d in zip(items, [*dates[1:], dates[0]], strict=True)]
    value = o.result.value
    if o.result.kind == "date" and isinstance(value, str):
        days = [str(d)[:10] for d in dates]
        value = days[(days.index(value[:10]) + 1) % len(days)] if value[:10] in days else value
    return o.model_copy(update={"result": o.result.model_copy(update={"items": tuple(moved), "value": value})})


register(
    Fault(
        "median_for_mean",
        "convention",
        "the median is reported as the mean",
        lambda call: uses_op(call, "raster.summarize.statistic", "raster.summarize.series"),
        arguments=_median,
        tags=UNSEEN,
    )
)
register(
    Fault(
        "acres_called_hectares",
        "unit",
        "acres under the name of hectares",
        lambda call: uses_op(call, "raster.summarize.area") or call.arguments.get("spec", {}).get("metric") == "area",
        report=_times(2.47105),
        tags=UNSEEN,
    )
)
register(
    Fault(
        "per_month_called_per_year",
        "unit",
        "a trend per month under the name of one per year",
        lambda call: uses_op(call, "raster.summarize.trend"),
        report=_times(1 / 12),
        tags=UNSEEN,
    )
)
register(
    Fault(
        "dates_one_late",
        "series",
        "values stand beside the next date",
        lambda call: uses_op(call, "raster.summarize.series", "raster.summarize.trend"),
        report=_next_date,
        tags=UNSEEN,
    )
)
register(
    Fault(
        "slightly_off",
        "stale",
        "the value is four per cent too large, evidence and layers are right",
        lambda call: _uses_graph(call) or call.tool == "measure",
        report=_times(1.04),
        tags=UNSEEN,
    )
)
