"""perceive, mode ``regions``: masks of water, vegetation, bare soil, built-up land, snow or of a map's class, by a documented
method whose histogram, threshold and separability stand in the evidence.

The pixels are read by the streaming engine of ``execute``; the mask is kept whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import Configuration, Evidence, LayerRef, Result
from apps.core.geo.bands import Band
from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import ExecuteArguments, Node, PerceiveArguments, RegionMethod, ToolContext, ToolOutcome, input_ref
from apps.tools.execute.accumulators import Histogram
from apps.tools.execute.graph import check_graph, effective_region
from apps.tools.execute.streaming import Engine, LayerPixels
from apps.tools.execute.types import Target
from apps.tools.perceive.modes import only_scene
from apps.tools.perceive.veil import Veil, ground_searched, tell, veil_of
from apps.tools.region import RegionMask
from apps.tools.thresholds import WEAK_SEPARABILITY, otsu

# Masks are kept whole up to this size; larger scenes need a region.
MASK_LIMIT_PX = 200_000_000
RASTER_LIMIT_PX = 36_000_000
# Pixels this close to the threshold could fall on either side.
NEAR_THRESHOLD = 0.05


@dataclass(frozen=True, slots=True)
class TargetDefault:
    """How a target is found when nobody says how: index, threshold, side, and where that comes from."""

    index: str
    threshold: float
    side: str
    reference: str


DEFAULTS: dict[str, TargetDefault] = {
    "water": TargetDefault("ndwi", 0.0, "above", "McFeeters 1996: open water has NDWI above 0"),
    "vegetation": TargetDefault("ndvi", 0.4, "above", "green vegetation has NDVI above 0.4 (Tucker 1979, later practice)"),
    "built-up": TargetDefault("ndbi", 0.0, "above", "Zha et al. 2003: built-up land has NDBI above 0"),
    "bare": TargetDefault("bsi", 0.0, "above", "Rikimaru et al. 2002: bare soil has BSI above 0"),
    "snow": TargetDefault("ndsi", 0.4, "above", "Hall et al. 1995: snow has NDSI above 0.4"),
    "burnt": TargetDefault("nbr", 0.0, "below", "Key and Benson 2006: freshly burnt land has low NBR"),
}
_ALIASES = {
    "built up": "built-up", "builtup": "built-up", "urban": "built-up", "buildings": "built-up", "bare soil": "bare",
    "soil": "bare", "bare land": "bare", "forest": "vegetation", "trees": "vegetation", "green": "vegetation",
    "crops": "vegetation", "lake": "water", "river": "water", "flood": "water", "sea": "water", "ice": "snow", "burned": "burnt",
    "burn scar": "burnt", "water body": "water", "waterbody": "water", "lakes": "water", "rivers": "water",
}
# What the index of a target takes for it.
NOT_FOR: dict[str, tuple[str, ...]] = {
    "water": ("shadows and dark roofs, which look like water", "turbid or overgrown water, which looks like land"),
    "vegetation": ("dry or leafless plants", "kinds of plants"),
    "built-up": ("bare soil, which looks like built-up land", "single buildings"),
    "bare": ("bright roofs and dry fields, which look like bare soil",),
    "snow": ("clouds of ice, and snow under trees",),
    "burnt": ("water and dark soil, which look burnt; compare two dates",),
}
# What a band's threshold or a map's class says no more of than its maker.
NOT_FOR_MAPS = ("things that share the values: how often the band or map is wrong about them its maker tells, not its pixels",)
# Pieces of a mask that are listed, the largest first.
MOST_PIECES = 200
STRIP_ROWS = 256
# What an index of the default can honestly part: forest is not all vegetation.
_BROADER = {"forest", "trees", "crops", "lake", "river", "flood", "sea", "buildings", "ice", "lakes", "rivers"}


def target_of(arguments: PerceiveArguments) -> str:
    """The one target of a regions call. ModelError where there is none or several."""
    names = list(arguments.target_groups)
    if len(names) != 1:
        raise ModelError(f"regions looks for one target a call, named in target_groups; {len(names)} were given.",
                         code="BAD_ARGUMENT")
    return names[0]


def _known(target: str) -> str | None:
    key = target.strip().lower().replace("_", " ")
    key = _ALIASES.get(key, key)
    return key if key in DEFAULTS else None


def method_for(arguments: PerceiveArguments) -> RegionMethod:
    """The method as it will be used, the target's defaults filled in. ToolAbstainedError where nobody says how to find it."""
    target = target_of(arguments)
    given = arguments.regions_method
    known = _known(target) or next((k for w in arguments.target_groups[target] if (k := _known(w))), None)
    if given is not None and given.kind != "index_threshold":
        return given
    index = (given.index if given else "") or (DEFAULTS[known].index if known else "")
    if not index:
        raise ToolAbstainedError(
            f"There is no documented index for {target!r}; name one with its threshold, a class value or a band. Known targets: "
            f"{', '.join(DEFAULTS)}.", code="MODEL_MISSING", needs={"method": True})
    threshold = given.threshold if given else None
    side = given.side if given else "above"
    if threshold is None:
        if known is not None and DEFAULTS[known].index == index:
            threshold, side = DEFAULTS[known].threshold, cast(Any, DEFAULTS[known].side)
        else:
            threshold = "otsu"
    return RegionMethod(kind="index_threshold", index=index.lower(), threshold=threshold, side=side,
                        min_px=given.min_px if given else 0)


def configuration_of_regions(arguments: PerceiveArguments) -> Configuration:
    try:
        return _configuration(target_of(arguments), method_for(arguments))
    except ModelError:
        return Configuration(coarse="regions", fine="regions")


def _configuration(target: str, method: RegionMethod) -> Configuration:
    how = "otsu" if method.threshold == "otsu" else "fixed"
    parts = {"index_threshold": (method.index, how), "band_threshold": (method.band, how), "class_value": ("class",),
             "prompt": ("prompt", *([method.model] if method.model else [])), "refine": ("refine",)}[method.kind]
    return Configuration(coarse="regions", fine="/".join(("regions", target.strip().lower().replace("/", "-"), *parts))[:240])


def _nodes(scene: SceneInfo, method: RegionMethod, veil: Veil | None) -> list[Node]:
    """``all`` is the product, ``source`` the same without what the veil hides, ``mask`` what is cut from it."""
    nodes = [Node(id="scene", op="asset.scene", params={"scene": scene.scene_id})]
    first = "source" if veil is None else "all"
    if method.kind == "class_value":
        if not method.values:
            raise ModelError("class_value needs the values of the class.", code="BAD_ARGUMENT", needs={"values": True})
        nodes.append(Node(id=first, op="raster.product.band", inputs=("scene",), params={"role": method.band or "class"}))
    elif method.kind == "band_threshold":
        if not method.band or method.threshold is None:
            raise ModelError("band_threshold needs a band and a threshold.", code="BAD_ARGUMENT")
        nodes.append(Node(id=first, op="raster.product.band", inputs=("scene",), params={"role": method.band}))
    else:
        nodes.append(Node(id=first, op="raster.product.index", inputs=("scene",), params={"index": method.index}))
    if veil is not None:
        nodes += veil.nodes(first, "source")
    if method.kind == "class_value":
        return [*nodes, Node(id="mask", op="raster.product.class_values", inputs=("source",),
                             params={"values": list(method.values)})]
    return [*nodes, Node(id="mask", op="raster.product.threshold", inputs=("source",),
                         params={"op": ">" if method.side == "above" else "<", "value": method.threshold})]


def _occurring(source: LayerPixels) -> str:
    """The classes of a map, as a sentence; of a large map those of a part of its pixels, told as such."""
    found = np.unique(source.data[source.valid])
    some = ", ".join(f"{v:g}" for v in found[:30])
    more = f" and {len(found) - 30:,} more" if len(found) > 30 else ""
    if source.step > 1:
        return f"Among its classes are {some}{more}; others may be, for not every pixel was looked at for this list."
    return f"The classes that occur here are {some}{more}."


def perceive_regions(ctx: ToolContext, arguments: PerceiveArguments) -> ToolOutcome:
    """A mask of the target on the scene's own grid. ToolAbstainedError where there is no method or a band is missing."""
    scene = ctx.scene(only_scene(arguments))
    target, method = target_of(arguments), method_for(arguments)
    if method.kind == "prompt":
        from apps.tools.perceive.prompts import perceive_prompt

        return perceive_prompt(ctx, arguments, scene, target, method)
    if method.kind == "refine":
        from apps.tools.perceive.prompts import perceive_refined

        return perceive_refined(ctx, arguments, scene, target, method)
    if scene.grid.width * scene.grid.height > MASK_LIMIT_PX:
        raise ModelError(f"{scene.name} has {scene.grid.width * scene.grid.height / 1e6:.0f} million pixels; masks are kept up "
                         f"to {MASK_LIMIT_PX / 1e6:.0f} million. Cut the scene first.", code="TOO_LARGE")
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    # a wrong region is refused before any node is named
    asked_px = RegionMask.of(region, region_crs, scene.grid, scene.name).n_px
    veil = veil_of(ctx, scene, arguments)
    first = "source" if veil is None else "all"
    graph = ExecuteArguments(nodes=tuple(_nodes(scene, method, veil)), output="mask", region=dict(region) if region else None,
                             region_crs=region_crs)
    program = check_graph(graph, ctx)
    for n in program.order:
        for level, message in program.planned[n].notes:
            ctx.log(level, message)
    engine = Engine(program, reader=ctx.reader, progress=ctx.progress, is_cancelled=ctx.is_cancelled,
                    region=lambda grid: RegionMask.of(region, region_crs, grid, scene.name))
    settled: dict[str, JsonValue] = {}
    prepare, settle = program.planned["mask"].prepare, program.planned["mask"].settle
    if prepare is not None and settle is not None:
        found = engine.run(prepare(), "Finding the threshold")
        _raise_failed(engine)
        engine.states["mask"], settled = settle(cast(Any, found))
    is_index = method.kind != "class_value"
    mask_px = LayerPixels(scene.grid, limit_px=MASK_LIMIT_PX, is_mask=True)
    source_px = LayerPixels(scene.grid, limit_px=RASTER_LIMIT_PX, is_mask=False)
    span = program.type_of("source").range
    bounded = np.isfinite(span.low) and np.isfinite(span.high) and span.high - span.low <= 4
    histogram = Histogram(200, span.low, span.high) if bounded else Histogram(256)
    targets: list[Target] = [(("mask",), mask_px)]
    targets += [(("source",), source_px), (("source",), histogram)] if is_index else [(("source",), source_px)]
    engine.run(targets, f"Looking for {target}")
    _raise_failed(engine)

    valid: NDArray[np.bool_] = mask_px.valid
    mask: NDArray[np.bool_] = mask_px.data & valid
    n_valid = int(valid.sum())
    with_data = engine.figures[first].moments.n
    quality, masked = tell(ctx, veil, with_data - engine.figures["source"].moments.n, with_data, target)
    if n_valid == 0:
        raise ModelError(f"No valid pixel of {scene.name} is left{' inside the region' if region else ''}.", code="TOOL_FAILED",
                         needs={"valid_px": True})
    n_before = int(mask.sum())
    labels, n_pieces_before = ndimage.label(mask, structure=np.ones((3, 3)))
    sizes = number = np.bincount(labels.ravel(), minlength=n_pieces_before + 1)[1:]
    if method.min_px > 1 and n_pieces_before:
        small = np.concatenate([[False], sizes < method.min_px])
        mask = mask & ~small[labels]
        sizes = sizes[sizes >= method.min_px]
    n_true = int(mask.sum())
    pieces = _pieces(labels, number, method, source_px if is_index else None, settled.get("threshold", method.threshold))
    del labels
    edge = edge_px(mask, valid)

    threshold: JsonValue = settled.get("threshold", method.threshold if is_index else None)
    separability = settled.get("separability")
    intermediate: dict[str, JsonValue] = {
        "mask_px": n_true, "candidates": n_before, "kept": n_true, "valid_px": n_valid, "polygons": len(sizes),
        "pieces_before": n_pieces_before, "largest_piece_px": int(sizes.max()) if len(sizes) else 0, "edge_px": edge,
        "numerator": n_true, "denominator": n_valid, "share": n_true / n_valid, "n_region_px": asked_px,
        "n_source_masked": engine.figures[first].n_source_masked, "n_undefined": engine.figures[first].n_undefined,
        "n_out_of_range": engine.figures["source"].n_out_of_range,
        "filters": [{"name": f"pieces smaller than {method.min_px} pixels dropped", "before": n_before, "after": n_true,
                     "pieces_before": n_pieces_before, "pieces_after": len(sizes)}],
        "pieces": cast(JsonValue, pieces),
        "area": ground_searched(scene.grid, scene.effective_gsd_m, n_valid, asked_px), **masked}
    if is_index:
        intermediate["histogram"] = {"counts": [int(c) for c in histogram.counts], "low": float(histogram.edges[0]),
                                     "high": float(histogram.edges[-1])}
        if isinstance(threshold, (int, float)):
            intermediate["separability"] = separability if separability is not None else _separability(histogram, threshold)
            near = np.abs((histogram.edges[:-1] + histogram.edges[1:]) / 2 - threshold) <= NEAR_THRESHOLD
            intermediate["near_threshold_px"] = int(histogram.counts[near].sum()) if bounded else None
        values = engine.figures["source"].moments
        intermediate["source"] = {"min": values.low, "max": values.high, "mean": values.mean, "n_valid": values.n}
    part = intermediate.get("separability")
    if isinstance(part, float) and part < WEAK_SEPARABILITY and 0 < n_true < n_valid:
        ctx.log("warning", f"The histogram of {method.index or method.band} hardly parts two classes at {threshold:.3f} "
                           f"(separability {part:.2f}; a single heap has 0.64).")
    if _known(target) and target.strip().lower() in _BROADER and method.kind == "index_threshold":
        ctx.log("warning", f"{method.index.upper()} finds {_known(target)} as a whole; it cannot tell {target} from other kinds.")
    problems: list[str] = []
    is_default = method.kind == "index_threshold" and method.threshold != "otsu"
    bands = program.planned[first].bands
    units = {b.unit for b in scene.bands if b.index in {i for _, _, i in bands}}
    is_calibrated = not units or "DN" not in units
    if is_default and not is_calibrated:
        ctx.log("warning", f"The bands of {scene.name} are uncalibrated numbers; the threshold {method.threshold:g} of "
                           f"{method.index.upper()} comes from reflectance and may lie elsewhere here.")
    out_of_range = engine.figures["source"].n_out_of_range
    if out_of_range:
        ctx.log("warning", f"{out_of_range} values of {method.index or method.band} lie outside [{span.low:g}, {span.high:g}].")
        problems.append(f"{out_of_range} values of {method.index or method.band} are impossible")
    if n_true == 0 and not is_index and n_before == 0:
        ctx.log("warning", f"No pixel is {target}. {_occurring(source_px)}")
    elif n_true == 0:
        ctx.log("info", f"No pixel is {target}: an empty finding, not a failure.")

    layers: list[LayerRef] = [ctx.layers.put_mask(mask, valid, scene.grid, label=target[:120], scene_id=scene.scene_id)]
    if is_index:
        data = np.where(source_px.valid, source_px.data, np.nan).astype(np.float32)
        kind = program.type_of("source")
        layers.append(ctx.layers.put_raster(
            MaskedRaster(data[None], source_px.valid[None], source_px.grid, (Band(index=1, role="index", unit=kind.unit),),
                         kind.unit), label=kind.quantity, scene_id=scene.scene_id))
    kind_of_default = _known(target)
    source: dict[str, JsonValue] = {
        "method": {"kind": method.kind, "index": method.index or None, "band": method.band or None,
                   "formula": program.type_of(first).formula, "mask": program.type_of("mask").formula, "side": method.side,
                   "threshold_from": "otsu" if method.threshold == "otsu" else "given" if arguments.regions_method is not None
                   and arguments.regions_method.threshold is not None else "default",
                   "reference": DEFAULTS[kind_of_default].reference if kind_of_default else "",
                   "values": list(method.values), "min_px": method.min_px, "connectivity": 8},
        "thresholds": {target: threshold if is_index else {"values": list(method.values)}},
        "sensor": scene.sensor or "unknown", "resolution_m": scene.effective_gsd_m,
        "band_mapping": {scene.scene_id: {role: i for _, role, i in bands}},
        "ranges": {"source": span.as_json()}}
    validity: dict[str, JsonValue] = {
        "layer_status": "complete", "class_complete": True, "geometry_valid": True, "quality_mask": quality,
        "valid_share": n_valid / max(1, engine.figures["source"].n_region), "classes_asked": [target],
        "class_exact": target.strip().lower() not in _BROADER, "calibrated": is_calibrated,
        "applicability": {"ok": not problems, "problems": list(problems)},
        "not_for": list(NOT_FOR.get(_known(target) or "", ())) if method.kind == "index_threshold" else list(NOT_FOR_MAPS)}
    passed = arguments.model_dump(mode="json")
    passed |= {"regions_method": method.model_dump(mode="json"), "region": dict(region) if region else None,
               "region_crs": region_crs}
    return ToolOutcome(
        configuration=_configuration(target, method),
        inputs=(input_ref(scene, [*(i for _, _, i in bands), *(() if veil is None else (veil.band.index,))]),),
        result=Result(kind="layer", quantity=target[:120], layers=tuple(layers)),
        evidence=Evidence(source=source, intermediate=intermediate, validity=validity), arguments_passed=passed)


def _pieces(labels: NDArray[Any], number: NDArray[np.int64], method: RegionMethod, source: LayerPixels | None,
            threshold: Any) -> list[dict[str, Any]]:
    """The largest pieces that were kept, of which ``number`` tells the pixels by label from 1 on: pixels, mean value, how far
    that lies beyond the threshold, and ``sureness`` in 0…1, the share of its pixels that lie farther from the threshold than
    NEAR_THRESHOLD (None where pixels have no value). Strip by strip, for labels of large scenes are many."""
    held = np.where(number >= max(1, method.min_px), number, 0)
    largest = [int(i) + 1 for i in np.argsort(-held, kind="stable")[:MOST_PIECES] if held[i] > 0]
    out: list[dict[str, Any]] = [{"px": int(held[i - 1]), "mean": None, "margin": None, "sureness": None} for i in largest]
    if source is None or source.step != 1 or not isinstance(threshold, (int, float)) or not largest:
        return out
    place = np.zeros(len(number) + 1, dtype=np.int64)
    place[largest] = np.arange(1, len(largest) + 1)
    total, far = np.zeros(len(largest) + 1), np.zeros(len(largest) + 1)
    for r in range(0, labels.shape[0], STRIP_ROWS):
        at = place[labels[r:r + STRIP_ROWS]].ravel()
        values = np.where(at > 0, source.data[r:r + STRIP_ROWS].ravel(), 0.0)
        total += np.bincount(at, values, len(total))
        far += np.bincount(at, np.abs(values - threshold) > NEAR_THRESHOLD, len(far))
    for k, row in enumerate(out, 1):
        mean = float(total[k]) / row["px"]
        margin = mean - float(threshold)
        row |= {"mean": mean, "margin": margin if method.side == "above" else -margin,
                "sureness": round(float(far[k]) / row["px"], 4)}
    return out


def edge_px(mask: NDArray[np.bool_], valid: NDArray[np.bool_]) -> int:
    """Pixels of the mask that have a valid neighbour outside it (4-connected): where it could be wrong by a pixel."""
    outside = valid & ~mask
    near = np.zeros_like(mask)
    near[1:] |= outside[:-1]
    near[:-1] |= outside[1:]
    near[:, 1:] |= outside[:, :-1]
    near[:, :-1] |= outside[:, 1:]
    return int((mask & near).sum())


def _separability(histogram: Histogram, threshold: float) -> float | None:
    """Variance between the two sides of a given threshold over the total one; None where one side is empty."""
    centres = (histogram.edges[:-1] + histogram.edges[1:]) / 2
    n = histogram.counts.astype(np.float64)
    total = n.sum()
    above = centres > threshold
    if not n[above].sum() or not n[~above].sum():
        return None
    mean = (n * centres).sum() / total
    variance = (n * (centres - mean) ** 2).sum() / total
    between = sum(n[s].sum() / total * ((n[s] * centres[s]).sum() / n[s].sum() - mean) ** 2 for s in (above, ~above))
    return float(between / variance) if variance > 0 else None


def _raise_failed(engine: Engine) -> None:
    if engine.failed:
        name, why = next(iter(engine.failed.items()))
        raise ModelError(f"{name} could not be read: {why}")


__all__ = ["DEFAULTS", "configuration_of_regions", "edge_px", "otsu", "perceive_regions"]
