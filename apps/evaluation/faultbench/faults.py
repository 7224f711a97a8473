"""The injected faults, by family. Each says where it can strike and changes one door: reader, layers, arguments or report."""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import ndimage

from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Question
from apps.core.geo import Band, Grid, MaskedRaster, SceneInfo
from apps.core.ports import LayerStore, RasterReader, Window
from apps.core.registry import Registry
from apps.evaluation.faultbench.doors import ChangedLayers, ChangedReader


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call as a fault sees it."""

    tool: str
    arguments: dict[str, Any]
    question: Question
    step: int
    parents: Sequence[Observation] = ()


@dataclass(frozen=True, slots=True)
class Fault:
    """A way in which a tool is wrong without an error.

    ``strikes`` tells whether the call can suffer it. ``reader`` gets (scene id, real reader, how to open another scene, call);
    ``arguments`` changes what the tool does while the observation reports what was asked (``hides_arguments``); ``report``
    changes the finished observation.
    """

    name: str
    family: str
    meaning: str
    strikes: Callable[[Call], bool] = lambda call: True
    reader: Callable[[str, RasterReader, Callable[[str], RasterReader], Call], RasterReader] | None = None
    layers: Callable[[LayerStore, Call], LayerStore] | None = None
    arguments: Callable[[dict[str, Any], Call], dict[str, Any]] | None = None
    hides_arguments: bool = True
    report: Callable[[Observation, Call], Observation] | None = None
    tags: frozenset[str] = field(default_factory=frozenset)


FAULTS: Registry[Fault] = Registry("fault")


def register(fault: Fault) -> Fault:
    """Adds a fault under its name."""
    return FAULTS.add(fault.name, fault)


# --- where a fault can strike -------------------------------------------------------------------------------------------------
def _nodes(call: Call) -> list[dict[str, Any]]:
    return [dict(n) for n in call.arguments.get("nodes", ())]


def _ops(call: Call) -> set[str]:
    return {str(n.get("op", "")) for n in _nodes(call)}


def uses_op(call: Call, *names: str) -> bool:
    """Whether a node of the call's graph is one of these operators."""
    return any(n.get("op") in names for n in call.arguments.get("nodes", ()))


def reads_pixels(call: Call) -> bool:
    return call.tool == "perceive" or bool(_nodes(call))


def makes_mask(call: Call) -> bool:
    return call.tool == "perceive" and call.arguments.get("mode") == "regions"


def makes_boxes(call: Call) -> bool:
    return call.tool == "perceive" and call.arguments.get("mode") == "objects"


def _has_index(call: Call) -> bool:
    uses = any(n.get("op", "").startswith("raster.product.") and "index" in n.get("params", {}) for n in _nodes(call))
    method = call.arguments.get("regions_method") or {}
    return (uses or bool(method.get("index"))) and any(
        {"red", "nir"} <= s.roles or {"green", "nir"} <= s.roles for s in call.question.scenes
    )


def _has_fill(call: Call) -> bool:
    return reads_pixels(call) and any(s.fill_rules or any(b.nodata is not None for b in s.bands) for s in call.question.scenes)


def _has_scale(call: Call) -> bool:
    return reads_pixels(call) and any(b.scale != 1 or b.offset != 0 for s in call.question.scenes for b in s.bands)


def _is_dated_many(call: Call) -> bool:
    scenes = [n for n in _nodes(call) if n.get("op") == "asset.scene"]
    return len(scenes) >= 2


def _has_area(call: Call) -> bool:
    return "raster.summarize.area" in _ops(call) or (
        call.tool == "measure" and call.arguments.get("spec", {}).get("metric") == "area"
    )


def _has_share(call: Call) -> bool:
    return "raster.summarize.share" in _ops(call) or (
        call.tool == "measure" and call.arguments.get("spec", {}).get("metric") == "ratio"
    )


def _has_threshold(call: Call) -> bool:
    return "raster.product.threshold" in _ops(call) or bool(
        (call.arguments.get("regions_method") or {}).get("threshold") is not None
    )


def _gives_number(call: Call) -> bool:
    return call.tool == "measure" or any(op.startswith("raster.summarize.") for op in _ops(call))


# --- masks and boxes ------------------------------------------------------------------------------------------------------------
def _leak(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask grows into what lies beside it, as a region grower with a loose stop does."""
    grown = ndimage.binary_dilation(mask, iterations=max(3, min(mask.shape) // 40))
    out: NDArray[np.bool_] = grown & valid
    return out


def _shift(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The mask lies a twelfth of the scene aside, as after a resize that forgot an offset."""
    out: NDArray[np.bool_] = np.roll(mask, (mask.shape[0] // 12, mask.shape[1] // 12), axis=(0, 1)) & valid
    return out


def _half(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """A quarter of the scene's tiles never came back from the segmenter."""
    out = mask.copy()
    out[: mask.shape[0] // 2, mask.shape[1] // 2 :] = False
    return out


register(
    Fault(
        "leaked_mask",
        "mask",
        "the mask covers what lies beside the target",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=_leak),
    )
)
register(
    Fault(
        "shifted_mask",
        "mask",
        "the mask lies aside of its target",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=_shift),
    )
)
register(
    Fault(
        "mask_tile_lost",
        "tile",
        "one quarter of the mask is empty",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=_half),
    )
)
register(
    Fault(
        "empty_layer_called_zero",
        "silent",
        "the layer is empty and reported as a finding",
        makes_mask,
        layers=lambda real, call: ChangedLayers(real, mask=lambda m, v: np.zeros_like(m)),
    )
)


def _double(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for f in features:
        again = copy.deepcopy(f)
        ring = again["geometry"]["coordinates"][0]
        again["geometry"]["coordinates"][0] = [[x + 2, y + 1] for x, y in ring]
        out += [f, again]
    return out


def _merge(features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for a, b in zip(features[::2], features[1::2], strict=False):
        points = np.array(a["geometry"]["coordinates"][0] + b["geometry"]["coordinates"][0])
        (x0, y0), (x1, y1) = points.min(axis=0).tolist(), points.max(axis=0).tolist()
        merged = copy.deepcopy(a)
        merged["geometry"] = {"type": "Polygon", "coordinates": [[[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]]]}
        out.append(merged)
    return out


register(
    Fault(
        "duplicated_detections",
        "detections",
        "objects on tile seams are counted twice",
        makes_boxes,
        layers=lambda real, call: ChangedLayers(real, features=_double),
    )
)
register(
    Fault(
        "merged_detections",
        "detections",
        "neighbours are fused to one box",
        makes_boxes,
        layers=lambda real, call: ChangedLayers(real, features=_merge),
    )
)


def _blind(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    """The detector keeps only what it is sure of, whatever it was asked."""
    method = {**(arguments.get("objects_method") or {}), "score_threshold": 0.6}
    return {**arguments, "objects_method": method}


register(
    Fault(
        "objects_overlooked",
        "detections",
        "the detector runs at a higher threshold than it says",
        makes_boxes,
        arguments=_blind,
    )
)


def _misplaced(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    """Points in the coordinates of a picture that was shown at two thirds of its size."""
    method = dict(arguments.get("regions_method") or {})
    method["points"] = [[x / 1.5, y / 1.5, k] for x, y, k in method.get("points", ())]
    return {**arguments, "regions_method": method}


register(
    Fault(
        "points_misplaced",
        "mask",
        "points are taken in the coordinates of a smaller picture",
        lambda call: (call.arguments.get("regions_method") or {}).get("kind") == "prompt",
        arguments=_misplaced,
    )
)


# --- readers --------------------------------------------------------------------------------------------------------------------
def swapped_roles(one: str, other: str) -> Callable[[str, RasterReader, Callable[[str], RasterReader], Call], RasterReader]:
    """A reader's door in which the bands of two roles are exchanged."""

    def wrap(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
        at = {b.role: b.index for b in real.info.bands}
        if one not in at or other not in at:
            return real
        return ChangedReader(real, remap={at[one]: at[other], at[other]: at[one]})

    return wrap


def _one_for_other(role: str, instead: str) -> Callable[[str, RasterReader, Callable[[str], RasterReader], Call], RasterReader]:
    def wrap(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
        at = {b.role: b.index for b in real.info.bands}
        return ChangedReader(real, remap={at[role]: at[instead]}) if role in at and instead in at else real

    return wrap


register(
    Fault(
        "bands_swapped",
        "band",
        "near infrared and red (or green) are exchanged",
        _has_index,
        reader=swapped_roles("nir", "red"),
    )
)
register(
    Fault(
        "red_read_as_nir",
        "band",
        "the blue or green band is read as near infrared",
        _has_index,
        reader=_one_for_other("nir", "green"),
    )
)


def _fill_counted(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    """Fill takes part: pixels without a value come as zeros that are called valid."""

    def change(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
        return replace(got, data=np.where(got.valid, got.data, 0), valid=np.ones_like(got.valid))

    plain = real.info.model_copy(
        update={
            "fill_rules": (),
            "bands": tuple(b.model_copy(update={"nodata": None, "valid_range": None}) for b in real.info.bands),
        }
    )
    return ChangedReader(real, change, info=plain)


register(Fault("fill_counted", "nodata", "fill enters the statistic as zeros", _has_fill, reader=_fill_counted))


def _tile_zero(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    """One quarter of the scene was not read and stays at zero."""

    def change(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
        whole = real.info.grid
        rows = np.arange(window[1], window[1] + window[3]) < whole.height // 2
        cols = np.arange(window[0], window[0] + window[2]) < whole.width // 2
        if (rows.size, cols.size) != got.data.shape[1:]:
            rows, cols = (
                np.arange(got.data.shape[1]) < got.data.shape[1] // 2,
                np.arange(got.data.shape[2]) < got.data.shape[2] // 2,
            )
        lost = rows[:, None] & cols[None, :]
        small = np.finfo(np.float32).tiny if got.data.dtype.kind == "f" else 0
        return replace(got, data=np.where(lost[None], small, got.data), valid=got.valid)

    return ChangedReader(real, change)


def _tile_dropped(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    """One quarter of the scene is missing and called nodata."""

    def change(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
        valid = got.valid.copy()
        whole = real.info.grid
        rows = np.arange(window[1], window[1] + got.data.shape[1]) >= whole.height // 2
        cols = np.arange(window[0], window[0] + got.data.shape[2]) >= whole.width // 2
        valid &= ~(rows[:, None] & cols[None, :])[None]
        return replace(got, valid=valid)

    return ChangedReader(real, change)


register(Fault("tile_dropped", "tile", "one quarter of the scene was never read", reads_pixels, reader=_tile_dropped))
register(Fault("tile_zero", "tile", "one quarter of the scene stays at zero and counts as seen", reads_pixels, reader=_tile_zero))


def _scaled(times: float, shift: float = 0.0) -> Callable[[str, RasterReader, Callable[[str], RasterReader], Call], RasterReader]:
    def wrap(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
        def change(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
            return replace(got, data=got.data.astype(np.float64) * times + shift)

        return ChangedReader(real, change)

    return wrap


def _scale_twice(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    def change(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
        by = np.array([b.scale for b in got.bands])[:, None, None]
        off = np.array([b.offset for b in got.bands])[:, None, None]
        return replace(got, data=got.data.astype(np.float64) * by + off)

    return ChangedReader(real, change)


register(Fault("scale_twice", "scale", "scale and offset are applied twice", _has_scale, reader=_scale_twice))
register(
    Fault(
        "scale_never",
        "scale",
        "scale and offset are never applied",
        _has_scale,
        reader=lambda scene_id, real, opener, call: ChangedReader(real, is_stored=True),
    )
)
register(
    Fault(
        "offset_added",
        "scale",
        "an offset that belongs to another product is added",
        _has_index,
        reader=lambda scene_id, real, opener, call: _scaled(1.0, -0.35 * _level(real))(scene_id, real, opener, call),
    )
)


def _level(real: RasterReader) -> float:
    info = real.info
    roles = [b.index for b in info.bands if b.role == "red"] or [info.bands[0].index]
    got = real.read(roles, None, (min(64, info.grid.height), min(64, info.grid.width)))
    return float(got.data[got.valid].mean()) if got.valid.any() else 1.0


def _other_scene(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    """Pixels of another scene under this scene's name: a stale cache, a wrong key."""
    others = [
        s
        for s in call.question.scenes
        if s.scene_id != scene_id and s.grid.shape == real.info.grid.shape and len(s.bands) == len(real.info.bands)
    ]
    if not others:
        return real
    return ChangedReader(opener(others[-1].scene_id if others[-1].scene_id != scene_id else others[0].scene_id), info=real.info)


def _several_alike(call: Call) -> bool:
    scenes = call.question.scenes
    return reads_pixels(call) and len(scenes) >= 2 and len({s.grid.shape for s in scenes}) == 1


register(Fault("other_scene", "stale", "another scene's pixels under this scene's name", _several_alike, reader=_other_scene))


def _one_for_all(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    first = call.question.scenes[0].scene_id
    return real if scene_id == first else ChangedReader(opener(first), info=real.info)


register(Fault("one_date_for_all", "series", "one date stands for all of them", _is_dated_many, reader=_one_for_all))


def _mirrored(scene_id: str, real: RasterReader, opener: Callable[[str], RasterReader], call: Call) -> RasterReader:
    """The scene is read back to front: row order lost at a conversion, so that regions and overlays lie elsewhere."""

    def change(got: MaskedRaster, bands: Sequence[int], window: Window) -> MaskedRaster:
        return replace(got, data=got.data[:, ::-1, :].copy(), valid=got.valid[:, ::-1, :].copy())

    return ChangedReader(real, change)


register(
    Fault(
        "rows_mirrored",
        "grid",
        "the raster is upside down on its grid",
        lambda call: reads_pixels(call) and call.question.region is not None,
        reader=_mirrored,
    )
)


def _with_grid(
    change: Callable[[SceneInfo], SceneInfo],
) -> Callable[[str, RasterReader, Callable[[str], RasterReader], Call], RasterReader]:
    return lambda scene_id, real, opener, call: ChangedReader(real, info=change(real.info))


def _half_gsd(info: SceneInfo) -> SceneInfo:
    a, b, c, d, e, f = info.grid.transform
    return info.model_copy(
        update={
            "grid": info.grid.model_copy(update={"transform": (a * 2, b, c, d, e * 2, f)}),
            "gsd_m": None if info.gsd_m is None else info.gsd_m * 2,
        }
    )


def _zone_aside(info: SceneInfo) -> SceneInfo:
    epsg = info.grid.epsg
    if epsg is None or not 32601 <= epsg <= 32660:
        return info
    return info.model_copy(
        update={
            "grid": Grid(
                crs=f"EPSG:{epsg - 3 if epsg > 32604 else epsg + 3}",
                transform=info.grid.transform,
                width=info.grid.width,
                height=info.grid.height,
            )
        }
    )


def _is_utm(call: Call) -> bool:
    return reads_pixels(call) and all(s.grid.epsg is not None and 32601 <= s.grid.epsg <= 32660 for s in call.question.scenes)


register(
    Fault(
        "gsd_doubled",
        "gsd",
        "the grid spacing is taken twice as large",
        lambda call: _has_area(call) and bool(_nodes(call)),
        reader=_with_grid(_half_gsd),
    )
)
register(
    Fault(
        "zone_aside",
        "grid",
        "coordinates are read in a UTM zone three to the west",
        lambda call: _is_utm(call) and call.question.region is not None,
        reader=_with_grid(_zone_aside),
    )
)


# --- what the call does, while it reports what was asked ------------------------------------------------------------------------
def _edit_nodes(edit: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[dict[str, Any], Call], dict[str, Any]]:
    def change(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
        out = copy.deepcopy(arguments)
        if "nodes" in out:
            out["nodes"] = [edit(n) for n in out["nodes"]]
        return out

    return change


def _loose(node: dict[str, Any]) -> dict[str, Any]:
    if node["op"] == "raster.product.threshold" and isinstance(node["params"].get("value"), int | float):
        value = node["params"]["value"]
        node["params"]["value"] = value - (0.25 if abs(value) < 2 else abs(value) * 0.3)
    return node


def _loose_threshold(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    out = _edit_nodes(_loose)(arguments, call)
    method = out.get("regions_method")
    if isinstance(method, dict) and isinstance(method.get("threshold"), int | float):
        method["threshold"] = method["threshold"] - 0.25
    return out


def _other_side(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    def edit(node: dict[str, Any]) -> dict[str, Any]:
        if node["op"] == "raster.product.threshold":
            node["params"]["op"] = {">": "<", "<": ">", ">=": "<=", "<=": ">="}.get(node["params"].get("op", ">"), ">")
        return node

    out = _edit_nodes(edit)(arguments, call)
    method = out.get("regions_method")
    if isinstance(method, dict):
        method["side"] = "below" if method.get("side", "above") == "above" else "above"
    return out


register(
    Fault("threshold_loose", "threshold", "another threshold than the task's is used", _has_threshold, arguments=_loose_threshold)
)
register(Fault("threshold_side", "threshold", "the wrong side of the threshold is taken", _has_threshold, arguments=_other_side))
register(
    Fault(
        "threshold_told",
        "threshold",
        "another threshold than the task's is used, and the arguments say so",
        _has_threshold,
        arguments=_loose_threshold,
        hides_arguments=False,
    )
)


def _swap_dates(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    def edit(node: dict[str, Any]) -> dict[str, Any]:
        if node["op"] == "raster.product.difference":
            node["inputs"] = list(reversed(node["inputs"]))
        return node

    return _edit_nodes(edit)(arguments, call)


register(
    Fault(
        "dates_swapped",
        "series",
        "before and after are exchanged",
        lambda call: "raster.product.difference" in _ops(call),
        arguments=_swap_dates,
    )
)


def _series_op(node: dict[str, Any]) -> bool:
    return node["op"] in ("raster.summarize.series", "raster.summarize.trend") and len(node["inputs"]) >= 4


def _hole(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    def edit(node: dict[str, Any]) -> dict[str, Any]:
        if _series_op(node):
            n = len(node["inputs"])
            node["inputs"] = node["inputs"][: n // 4] + node["inputs"][n // 4 + max(2, n // 3) :]
        return node

    return _edit_nodes(edit)(arguments, call)


def _first_only(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    def edit(node: dict[str, Any]) -> dict[str, Any]:
        if _series_op(node):
            node["inputs"] = node["inputs"][:2]
        return node

    return _edit_nodes(edit)(arguments, call)


register(
    Fault(
        "series_hole",
        "series",
        "a third of the dates is left out",
        lambda call: any(_series_op(n) for n in _nodes(call)),
        arguments=_hole,
    )
)
register(
    Fault(
        "series_start_only",
        "series",
        "the first two dates stand for the period",
        lambda call: any(_series_op(n) for n in _nodes(call)),
        arguments=_first_only,
    )
)


def _region_ignored(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    out = copy.deepcopy(arguments)
    out.pop("region", None)
    for node in out.get("nodes", []):
        node.get("params", {}).pop("region", None)
    return out


register(
    Fault(
        "region_ignored",
        "region",
        "the whole scene is measured instead of the region",
        lambda call: reads_pixels(call) and (call.question.region is not None),
        arguments=_region_ignored,
    )
)


def _region_clipped(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    from shapely import affinity
    from shapely.geometry import mapping, shape

    out = copy.deepcopy(arguments)

    def shrink(region: Any) -> Any:
        return json.loads(json.dumps(mapping(affinity.scale(shape(region), 0.5, 0.5, origin="center"))))

    if out.get("region"):
        out["region"] = shrink(out["region"])
    for node in out.get("nodes", []):
        if node.get("params", {}).get("region"):
            node["params"]["region"] = shrink(node["params"]["region"])
    return out


register(
    Fault(
        "region_clipped",
        "region",
        "only the middle quarter of the region is measured",
        lambda call: reads_pixels(call) and (call.question.region is not None),
        arguments=_region_clipped,
    )
)


def _other_statistic(arguments: dict[str, Any], call: Call) -> dict[str, Any]:
    def edit(node: dict[str, Any]) -> dict[str, Any]:
        if node["op"] == "raster.summarize.statistic":
            node["params"]["statistic"] = "max" if node["params"].get("statistic") != "max" else "mean"
        return node

    return _edit_nodes(edit)(arguments, call)


register(
    Fault(
        "other_statistic",
        "convention",
        "the greatest value is reported as the one asked for",
        lambda call: "raster.summarize.statistic" in _ops(call),
        arguments=_other_statistic,
    )
)


# --- what is reported ----------------------------------------------------------------------------------------------------------
def _value(change: Callable[[float], float | None], *, units: str | None = None) -> Callable[[Observation, Call], Observation]:
    def report(o: Observation, call: Call) -> Observation:
        v = o.result.value
        if isinstance(v, bool) or not isinstance(v, int | float):
            return o
        new = change(float(v))
        update: dict[str, Any] = {"value": new}
        if o.result.interval is not None and new is not None and v:
            update["interval"] = tuple(sorted(new / float(v) * x for x in o.result.interval))
        if units is not None:
            update["unit"] = units
        return o.model_copy(update={"result": o.result.model_copy(update=update)})

    return report


def _tens(v: float) -> float:
    return v * 10


def _is_tiny_or_share(call: Call) -> bool:
    return _has_share(call) or "raster.summarize.statistic" in _ops(call)


register(
    Fault(
        "metres_called_kilometres",
        "unit",
        "square metres under the name of the unit asked for",
        _has_area,
        report=lambda o, call: _value(lambda v: v * {"km2": 1e6, "ha": 1e4}.get(o.result.unit, 1e-4))(o, call),
    )
)
register(
    Fault(
        "percent_as_fraction",
        "unit",
        "a percentage is given where a fraction is meant",
        _has_share,
        report=_value(lambda v: v * 100),
    )
)
register(
    Fault(
        "rounded_to_zero",
        "silent",
        "the value was cast to a whole number",
        _is_tiny_or_share,
        report=_value(lambda v: float(math.trunc(v))),
    )
)
register(Fault("power_of_ten", "unit", "the value is ten times too large", _gives_number, report=_value(_tens)))
register(
    Fault(
        "degrees_as_metres",
        "gsd",
        "the pixel size in degrees was squared as if it were metres",
        _has_area,
        report=_value(lambda v: v * 1.2e-10 * 1e4),
    )
)
register(
    Fault("nan_hidden", "nodata", "the value is missing and the status says ok", _gives_number, report=_value(lambda v: None))
)
register(
    Fault(
        "sign_lost",
        "convention",
        "a difference is given without its sign",
        lambda call: "raster.product.difference" in _ops(call) and "raster.summarize.statistic" in _ops(call),
        report=_value(abs),
    )
)


def _denominator(o: Observation, call: Call) -> Observation:
    """The share is taken of the whole grid where it should be of what was seen, or of twice what was seen."""
    middle = dict(o.evidence.intermediate)
    den, num = middle.get("denominator"), middle.get("numerator")
    total = sum(s.grid.width * s.grid.height for s in call.question.scenes[:1])
    if not isinstance(den, int | float) or not isinstance(num, int | float) or not den:
        return o
    wrong = total if total > den * 1.02 else den * 2
    middle["denominator"] = wrong
    return o.model_copy(
        update={
            "result": o.result.model_copy(update={"value": num / wrong}),
            "evidence": o.evidence.model_copy(update={"intermediate": middle}),
        }
    )


register(Fault("wrong_denominator", "denominator", "the share is taken of the wrong whole", _has_share, report=_denominator))


def _silent_text(o: Observation, call: Call) -> Observation:
    return o.model_copy(
        update={
            "result": o.result.model_copy(update={"kind": "text", "value": "Failed to call model", "layers": (), "items": ()})
        }
    )


register(Fault("silent_failure_text", "silent", "a failure comes as a text with status ok", report=_silent_text))


def _stale_digest(o: Observation, call: Call) -> Observation:
    """A result kept from another file: its inputs' digest is not the task's."""
    v = o.result.value
    inputs = tuple(i.model_copy(update={"artifact": "sha256:" + "0" * 63 + "1"}) for i in o.inputs)
    value = v * 1.37 if isinstance(v, float) else v
    return o.model_copy(update={"inputs": inputs, "result": o.result.model_copy(update={"value": value})})


register(Fault("stale_result", "stale", "a cached result of another file is handed over", _gives_number, report=_stale_digest))


def _other_run(o: Observation, call: Call) -> Observation:
    """The number of another run with this run's evidence: only the value is stale."""
    v = o.result.value
    if isinstance(v, bool) or not isinstance(v, int | float):
        return o
    return o.model_copy(update={"result": o.result.model_copy(update={"value": float(v) * 0.83 + 0.011})})


register(
    Fault(
        "value_of_other_run", "stale", "the value is an earlier run's, the evidence this one's", _gives_number, report=_other_run
    )
)


def band_of(info: SceneInfo, role: str) -> Band | None:
    """The first band of a role, for plug-ins that live elsewhere."""
    return next((b for b in info.bands if b.role == role), None)
