"""``execute``: a graph of typed nodes, checked whole before any pixel is read, run by the streaming engine."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import JsonValue, ValidationError

from apps.core.digests import digest_json
from apps.core.errors import ModelError
from apps.core.evidence.observation import Configuration, Evidence, InputRef, LayerRef, Result
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.raster import MaskedRaster
from apps.core.geo.scene import SceneInfo
from apps.tools.contract import (
    ExecuteArguments,
    Node,
    ToolCancelledError,
    ToolContext,
    ToolFailedError,
    ToolOutcome,
    input_ref,
)
from apps.tools.execute import operators  # noqa: F401  (fills the registry)
from apps.tools.execute.checkpoint import EVERY_S, Checkpoint
from apps.tools.execute.left_in import LOOK_SIDE_OF_MANY_PX, LOOK_SIDE_PX, MANY, left_in, tell_left_in, tell_left_in_many
from apps.tools.execute.quality import expand_quality, quality_band
from apps.tools.execute.region_bounds import missing_words, n_without_value, with_unseen
from apps.tools.execute.streaming import Engine, LayerPixels, Program
from apps.tools.execute.types import (
    OPERATORS,
    Accumulator,
    AnyType,
    Call,
    ImageType,
    Planned,
    RasterType,
    SceneType,
    Target,
    Value,
    ValueType,
    node_place,
)
from apps.tools.native import half_pixel_words, native_ratio
from apps.tools.outline import outline_areas_m2, outline_px
from apps.tools.region import WHOLE, RegionMask
from apps.tools.sentences import as_sentence, validation_sentence
from apps.tools.thresholds import WEAK_SEPARABILITY
from apps.tools.units import AREA_M2, SHARE, factor

# Rasters up to this many pixels (over all layers) are kept whole; larger ones as every 2nd, 4th, … pixel, and the log says so.
LAYER_LIMIT_PX = 8_000_000
# A mask is counted and measured again by others: it is kept whole up to this many pixels, or not at all.
MASK_LIMIT_PX = 100_000_000
# Masks up to this many pixels have their outline looked at for the bounds of an area.
OUTLINE_LIMIT_PX = 25_000_000
# What the evidence says where a result has no interval.
NO_INTERVAL = "none: it is worked out from all valid pixels as they are; how exact their values are, the product does not tell"
# Of more rasters than this only the first and the last are kept as layers (a long series has its table).
MAX_LAYERS = 12


def check_graph(arguments: ExecuteArguments, ctx: ToolContext) -> Program:
    """The program of a graph. ModelError with the reason as a sentence where it may not run; no pixel is read."""
    nodes: dict[str, Node] = {}
    for node in arguments.nodes:
        if node.id in nodes:
            raise ModelError(f"Two nodes are named {node.id}.", code="BAD_PLAN")
        nodes[node.id] = node
    for node in arguments.nodes:
        if node.op not in OPERATORS:
            family = node.op.rsplit(".", 1)[0]
            near = [name for name in OPERATORS if name.startswith(family)] or sorted(OPERATORS)
            raise ModelError(f"Node {node.id}: there is no operator {node.op!r}; known here: {', '.join(sorted(near))}.",
                             code="BAD_PLAN")
        for name in node.inputs:
            if name not in nodes:
                raise ModelError(f"Node {node.id} takes {name!r}, which is no node of the graph.", code="BAD_PLAN")
    if arguments.output not in nodes:
        raise ModelError(f"The output {arguments.output!r} is no node of the graph.", code="BAD_PLAN")
    order = _sorted(nodes)
    scenes = {s.scene_id: s for s in ctx.question.scenes}
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    planned: dict[str, Planned] = {}
    for name in order:
        node = nodes[name]
        operator = OPERATORS[node.op]
        inputs = tuple(planned[i].type for i in node.inputs)
        take = operator.takes
        if not take.least <= len(inputs) <= take.most:
            wanted = str(take.least) if take.least == take.most else f"{take.least} to {take.most}"
            raise ModelError(f"Node {name} ({node.op}) takes {wanted} inputs, not {len(inputs)}.", code="BAD_PLAN")
        for source, kind in zip(node.inputs, inputs, strict=True):
            if kind.kind not in take.kinds:
                raise ModelError(f"Node {name} ({node.op}) takes {' or '.join(take.kinds)}, but {source} "
                                 f"({nodes[source].op}) gives a {kind.kind}.", code="BAD_PLAN")
        try:
            params = operator.params.model_validate(node.params)
        except ValidationError as error:
            raise ModelError(as_sentence(validation_sentence(error)), code="BAD_ARGUMENT", place=node_place(node)) from error
        call = Call(node, params, inputs, node.inputs, scenes, region, region_crs, ctx.layers,
                    ctx.options.get("stac_items", ()), ctx.options.get("stac_search"), ctx.options.get("project_scenes"),
                    ctx.options.get("stac_n_unreadable", 0), ctx.options.get("stac_is_whole", True))
        planned[name] = operator.plan(call)
        _check_measured(call, nodes, planned, scenes)
    return Program(order, nodes, planned, arguments.output)


def _sorted(nodes: Mapping[str, Node]) -> list[str]:
    order: list[str] = []
    waiting = {n: len(set(node.inputs)) for n, node in nodes.items()}
    users: dict[str, list[str]] = {n: [] for n in nodes}
    for n, node in nodes.items():
        for i in set(node.inputs):
            users[i].append(n)
    ready = [n for n in nodes if waiting[n] == 0]
    while ready:
        n = ready.pop(0)
        order.append(n)
        for u in users[n]:
            waiting[u] -= 1
            if waiting[u] == 0:
                ready.append(u)
    if len(order) < len(nodes):
        raise ModelError(f"The graph has a circle through {', '.join(sorted(set(nodes) - set(order)))}.", code="BAD_PLAN")
    return order


# Operators that look at how alike neighbours are: repeated pixels are so by construction.
_OF_NEIGHBOURS = ("raster.summarize.moran", "raster.product.getis_ord")


def _check_measured(
    call: Call, nodes: Mapping[str, Node], planned: Mapping[str, Planned], scenes: Mapping[str, SceneInfo]
) -> None:
    """ModelError where a sum, or how alike neighbours are, is asked of bands that were brought onto a grid of other pixels."""
    is_sum = call.node.op.startswith("raster.summarize.") and getattr(call.params, "statistic", "") == "sum"
    if not is_sum and call.node.op not in _OF_NEIGHBOURS:
        return
    under, todo = set(), list(call.node.inputs)
    while todo:
        name = todo.pop()
        if name not in under:
            under.add(name)
            todo += nodes[name].inputs
    for scene_id, role, index in dict.fromkeys(b for n in under for b in planned[n].bands):
        scene = scenes.get(scene_id)
        band = next((b for b in scene.bands if b.index == index), None) if scene is not None else None
        if scene is None or band is None or band.native_gsd_m is None or not scene.effective_gsd_m:
            continue
        ratio = band.native_gsd_m / scene.effective_gsd_m
        if abs(ratio - 1) <= 0.02 or (not is_sum and ratio < 1):
            continue
        why = "each pixel would count as often as it was repeated" if ratio > 1 else "each is the mean of several"
        if not is_sum:
            why = "neighbours are alike where a pixel was repeated"
        sizes = f"{band.native_gsd_m:.4g} m and brought onto {scene.effective_gsd_m:.4g} m"
        raise call.refuse(f"{role} of {scene.name} was measured at {sizes}: {why}. Ask it of the file as it was delivered.")


def effective_region(region: Mapping[str, Any] | None, crs: str, ctx: ToolContext) -> tuple[Mapping[str, Any] | None, str]:
    """The region of the arguments, else the question's."""
    if region is not None:
        return region, crs
    return ctx.question.region, ctx.question.region_crs


def configuration_of(arguments: ExecuteArguments, ctx: ToolContext | None = None) -> Configuration:
    """Coarse: the output operator's family; fine: also its statistic and the quantity that it is of."""
    nodes = {n.id: n for n in arguments.nodes}
    node = nodes.get(arguments.output)
    if node is None:
        return Configuration(coarse="execute", fine="execute")
    family, _, name = node.op.rpartition(".")
    part = str(node.params.get("statistic", "mean")) if name == "statistic" else name
    method = node.params.get("pick") or node.params.get("method") or node.params.get("mode")
    if name in ("series", "trend") and method:
        part = f"{name}.{method}"
    quantity = _quantity(node, nodes)
    fine = "/".join(re.sub(r"[^A-Za-z0-9._-]+", "_", p) for p in (family or node.op, part, quantity) if p)
    return Configuration(coarse=family or node.op, fine=fine[:240])


def _quantity(node: Node, nodes: Mapping[str, Node], depth: int = 0) -> str:
    for key in ("index", "role", "quantity"):
        if isinstance(node.params.get(key), str):
            return str(node.params[key]).lower()
    if node.op.endswith(("normalized_difference", "ratio")) and "first" in node.params:
        return f"{node.params.get('first')}_{node.params.get('second')}"
    short = node.op.rpartition(".")[2]
    inner = _quantity(nodes[node.inputs[0]], nodes, depth + 1) if node.inputs and node.inputs[0] in nodes and depth < 20 else ""
    if short == "difference":
        return f"{inner}_change"
    if node.op.startswith("raster.product") and short not in ("threshold", "logic", "apply_mask", "resample", "class_values"):
        return f"{short}_{inner}" if inner else short
    return inner


@dataclass(slots=True)
class _Run:
    values: dict[str, Value] = field(default_factory=dict)
    prepared: dict[str, dict[str, JsonValue]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)


def run_execute(ctx: ToolContext, arguments: ExecuteArguments) -> ToolOutcome:
    """Runs a graph. ModelError where it may not run; ToolFailedError with the evidence so far where it could not end."""
    configuration = configuration_of(arguments, ctx)
    asked = arguments
    arguments = expand_quality(asked, ctx.question.scenes)
    program = check_graph(arguments, ctx)
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    used = program.upstream(program.output)
    idle = [n for n in program.order if n not in used]
    if idle:
        ctx.log("warning", f"Not computed, since the output does not rest on it: {', '.join(idle)}.")
    for n in program.order:
        if n in used:
            for level, message in program.planned[n].notes:
                ctx.log(level, message)
    names = {s.scene.grid: s.scene.name for s in (program.planned[n].type for n in used) if isinstance(s, SceneType)}
    checkpoint = _checkpoint(program, used, region, region_crs, ctx)
    engine = Engine(program, reader=ctx.reader, progress=ctx.progress, is_cancelled=ctx.is_cancelled,
                    region=lambda grid: RegionMask.of(region, region_crs, grid, names.get(grid, "the scene")),
                    window_px=_int(ctx.options.get("window_px")), threads=_int(ctx.options.get("threads")), checkpoint=checkpoint)
    _place_region(engine, names, region, ctx)
    run = _Run()
    layers = _layer_targets(program, ctx)
    try:
        _compute(program, engine, run, [n for n in program.order if n in used], [t for _, t in layers])
        pictures = _draw(program, engine, run, ctx)
    except ModelError as error:
        if checkpoint is not None and not isinstance(error, ToolCancelledError):
            checkpoint.forget()
        run.failed |= engine.failed
        refusal = ToolFailedError(str(error), code=error.code, needs=error.needs, inputs=_inputs(program, used, ctx),
                                  evidence=_evidence(program, engine, run, used, arguments, region, region_crs))
        refusal.place = error.place
        raise refusal from error
    refs = pictures or _store_layers(layers, engine, program, ctx)
    if engine.n_resumed:
        ctx.log("info", f"Work that was cut off went on: {engine.n_resumed} windows had been read before.")
    if checkpoint is not None:
        checkpoint.forget()
    inputs = _inputs(program, used, ctx)
    _bound_area(program, engine, run, layers, native_ratio(inputs))
    _bound_figure(program, engine, run)
    value = run.values.get(program.output)
    evidence = _evidence(program, engine, run, used, arguments, region, region_crs)
    _tell_left_in(program, engine, used, evidence, ctx)
    for n, v in run.values.items():
        for warning in v.warnings:
            ctx.log("warning", warning)
        _warn_out_of_range(program, n, v, ctx)
    for n, told in run.prepared.items():
        if isinstance(told.get("warning"), str):
            ctx.log("warning", f"In step “{n}” of the graph: {told['warning']}")
        part = told.get("separability")
        if isinstance(part, float) and part < WEAK_SEPARABILITY:
            ctx.log("warning", f"In step “{n}” of the graph the histogram hardly parts two classes (separability {part:.2f}; a "
                               "single heap has 0.64), so what lies on either side may be the same.")
    _tell_thin_composites(program, engine, used, ctx)
    for n, figures in engine.figures.items():
        if figures.n_out_of_range and n in used:
            span = program.type_of(n).range
            ctx.log("warning", f"{figures.n_out_of_range:,} of {figures.moments.n:,} values of {program.type_of(n).quantity} "
                               f"(step “{n}” of the graph) lie outside the physical range [{span.low:g}, {span.high:g}].")
    kind = program.planned[program.output].type
    result = _result(kind, value, tuple(refs))
    failed = {n: r for n, r in (run.failed | engine.failed).items() if n in used}
    reason = ""
    if failed:
        n, why = next(iter(failed.items()))
        reason = f"{len(failed)} node{'s' if len(failed) > 1 else ''} failed; {n}: {why}"
    return ToolOutcome(
        configuration=configuration, result=result, evidence=evidence, inputs=inputs,
        arguments_passed=_arguments_passed(program, asked, region, region_crs),
        state="partial" if failed else "ok", reason=reason[:2000])


def _bound_figure(program: Program, engine: Engine, run: _Run) -> None:
    """Bounds of a mean or sum that is the output: by the pixels on the region's outline, and by those that have no value."""
    value = run.values.get(program.output)
    if value is None or value.within is None:
        return
    bounds = value.within(*n_without_value(program, engine, program.raster_inputs(program.output)[0]))
    if bounds is not None:
        run.values[program.output] = replace(value, interval=bounds.interval, evidence=value.evidence | bounds.evidence | {
            "interval_from": bounds.text, "interval_by": bounds.short, "interval_is": "bounds",
            "interval_missing": list(bounds.missing) if bounds.missing else None})


def _bound_area(program: Program, engine: Engine, run: _Run, layers: list[tuple[str, Target]], ratio: float) -> None:
    """Bounds of an area or share that is the output: its mask's outline moved by half a pixel in and out, of those that were
    measured: ``ratio`` of the mask's along a side; and all or nothing of what was not seen. None for a mask that was not kept
    whole or has too many pixels for a second look."""
    node, value = program.nodes[program.output], run.values.get(program.output)
    name = {"raster.summarize.area": "area", "raster.summarize.share": "share"}.get(node.op)
    kept = next((t[1] for n, t in layers if n in node.inputs), None)
    if name is None or value is None or not isinstance(kept, LayerPixels) or kept.step != 1 or not kept.is_mask \
            or kept.data.size > OUTLINE_LIMIT_PX or not isinstance(value.value, (int, float)):
        return
    kind, out = program.type_of(node.inputs[0]), program.planned[program.output].type
    half = 0.5 * ratio
    if name == "area":
        area, valid_m2 = value.evidence.get("area_m2"), value.evidence.get("valid_m2")
        if not isinstance(area, (int, float)) or not isinstance(valid_m2, (int, float)):
            return
        inner_m2, outer_m2, n_inner, n_outer = outline_areas_m2(kept.data, kept.valid, kept.grid, kind.gsd_m)
        scale = factor(str(getattr(out, "unit", "m2")), AREA_M2, "area")
        bounds = (max(0.0, area - half * inner_m2) / scale, min(float(valid_m2), area + half * outer_m2) / scale)
    else:
        inner, outer = outline_px(kept.data, kept.valid)
        n_inner, n_outer, n_true = int(inner.sum()), int(outer.sum()), int(str(value.evidence["n_true"]))
        scale = factor(str(getattr(out, "unit", "1")), SHARE, "share")
        whole = value.n_valid * scale
        bounds = (max(0.0, n_true - half * n_inner) / whole, min(float(value.n_valid), n_true + half * n_outer) / whole)
        if value.evidence.get("weights") == "area":
            true_m2, valid_m2 = (float(str(value.evidence[k])) for k in ("numerator", "denominator"))
            inner_m2, outer_m2, _, _ = outline_areas_m2(kept.data, kept.valid, kept.grid, kind.gsd_m)
            bounds = (max(0.0, true_m2 - half * inner_m2) / valid_m2 / scale,
                      min(valid_m2, true_m2 + half * outer_m2) / valid_m2 / scale)
    n_missing, _ = n_without_value(program, engine, node.inputs[0])
    told = half_pixel_words(ratio)
    if n_missing:
        pixel = float(str(value.evidence["valid_m2"])) / value.n_valid / scale if name == "area" else None
        bounds = with_unseen(bounds, value.n_valid, n_missing, pixel, whole=1 / scale)
        told += f"; {missing_words(n_missing, value.n_valid + n_missing)}, each of which may belong to it or not"
    run.values[program.output] = replace(value, interval=bounds, evidence=value.evidence | {
        "edge_px": n_inner, "outer_edge_px": n_outer, "interval": [*bounds], "n_missing": n_missing, "interval_from": told})


def _place_region(engine: Engine, names: Mapping[Grid, str], region: Mapping[str, Any] | None, ctx: ToolContext) -> None:
    """Lays the region on every scene before any pixel is read. Refused where it touches none; a scene beside it is told, and
    what needs it fails later."""
    beside: list[ModelError] = []
    for grid in names if region is not None else ():
        try:
            share = engine.region(grid).share_on_grid
        except ModelError as error:
            beside.append(error)
            ctx.log("warning", str(error))
            continue
        if share < WHOLE:
            ctx.log("warning", f"{100 * share:.3g} % of the region lies on {names[grid]}: the figure is of that part alone.")
    if beside and len(beside) == len(names):
        raise beside[0]


def _checkpoint(program: Program, used: set[str], region: Mapping[str, Any] | None, region_crs: str,
                ctx: ToolContext) -> Checkpoint | None:
    """Where the work's state is kept (option ``checkpoints``, a folder), keyed by all that decides the result."""
    folder = ctx.options.get("checkpoints")
    if not folder:
        return None
    kinds = (program.planned[n].type for n in program.order if n in used)
    key = digest_json({
        "nodes": [program.nodes[n].model_dump(mode="json") for n in program.order if n in used], "output": program.output,
        "region": dict(region) if region is not None else None, "region_crs": region_crs, "revision": ctx.revision,
        "scenes": [k.scene.model_dump(mode="json") for k in kinds if isinstance(k, SceneType)], "numpy": np.__version__})
    every_s = ctx.options.get("checkpoint_s")
    return Checkpoint(Path(folder), key, float(every_s) if every_s is not None else EVERY_S)


def _int(value: Any) -> int | None:
    return int(value) if isinstance(value, int) else None


def _unread(program: Program, name: str, why: str) -> ModelError:
    return ModelError(f"A step of the graph could not be read: {why}", place=node_place(program.nodes[name]))


def _compute(program: Program, engine: Engine, run: _Run, order: list[str], layers: list[Target]) -> None:
    planned = program.planned
    for n in order:
        if planned[n].constant is not None:
            run.values[n] = planned[n].constant  # type: ignore[assignment]
        prepare = planned[n].prepare
        if prepare is not None:
            found = engine.run(prepare(), f"Preparing {n}")
            if any(f is None for f in found):
                name, why = next(iter(engine.failed.items()))
                raise _unread(program, name, why)
            settle = planned[n].settle
            assert settle is not None
            engine.states[n], run.prepared[n] = settle(found)
    targets: list[Target] = []
    spans: dict[str, tuple[int, int]] = {}
    for n in order:
        reduce = planned[n].reduce
        if reduce is not None:
            more = list(reduce())
            spans[n] = (len(targets), len(targets) + len(more))
            targets += more
    n_reduced = len(targets)
    targets += layers
    if planned[program.output].evaluate is not None:
        targets.append(((program.output,), _Nothing()))
    found = engine.run(targets, "Reading")
    for n in order:
        if n in spans:
            first, last = spans[n]
            mine = found[first:last]
            if all(f is None for f in mine) or (any(f is None for f in mine) and not _forgives(program, n)):
                name, why = next(iter(engine.failed.items()))
                raise _unread(program, name, why)
            finish = planned[n].finish
            assert finish is not None
            run.values[n] = finish(mine, engine.failed)
        combine = planned[n].combine
        if combine is not None:
            run.values[n] = combine([run.values[i] for i in program.nodes[n].inputs])
    if n_reduced == 0 and engine.failed:
        name, why = next(iter(engine.failed.items()))
        raise _unread(program, name, why)
    if planned[program.output].evaluate is not None and engine.figures[program.output].moments.n == 0:
        raise ModelError(f"No pixel is valid, so there is no {program.type_of(program.output).quantity}.",
                         needs={"valid_px": True}, place=node_place(program.nodes[program.output]))


def _draw(program: Program, engine: Engine, run: _Run, ctx: ToolContext) -> list[LayerRef]:
    """The picture that is the output, if it is one."""
    output = program.output
    draw = program.planned[output].draw
    if draw is None:
        return []
    inputs = [run.values[i] for i in program.nodes[output].inputs if i in run.values]
    run.values[output], refs = draw(ctx, engine.states.get(output), inputs)
    return refs


def _forgives(program: Program, node: str) -> bool:
    return program.nodes[node].op in ("raster.summarize.series", "raster.summarize.trend")


class _Nothing:
    """Wants one pass and keeps nothing: a raster that is the output is evaluated for its figures and its layer."""

    takes_held = True

    def __init__(self) -> None:
        self._done = False

    def wants_pass(self) -> bool:
        first, self._done = not self._done, True
        return first

    def gather(self, sample: Any) -> None:
        return None

    def merge(self, part: Any) -> None:
        return None


# --- layers ----------------------------------------------------------------------------------------------------------------
def _layer_targets(program: Program, ctx: ToolContext) -> list[tuple[str, Target]]:
    output = program.output
    if program.planned[output].draw is not None:
        return []
    wanted = [output] if program.planned[output].evaluate is not None else program.raster_inputs(output)
    # a mask is shown with the raster that it was made of
    for n in list(wanted):
        if program.type_of(n).kind == "mask":
            wanted += [i for i in program.raster_inputs(n) if program.type_of(i).kind != "mask"]
    wanted = list(dict.fromkeys(wanted))
    if len(wanted) > MAX_LAYERS:
        ctx.log("info", f"{len(wanted)} rasters lie under the result; the first and the last are kept as layers.")
        wanted = [wanted[0], wanted[-1]]
    limit = max(1_000_000, LAYER_LIMIT_PX // max(1, len(wanted)))
    out: list[tuple[str, Target]] = []
    for n in wanted:
        kind = program.type_of(n)
        is_mask = kind.kind == "mask"
        if is_mask and kind.grid.width * kind.grid.height > MASK_LIMIT_PX:
            ctx.log("info", f"The mask {n} has more than {MASK_LIMIT_PX / 1e6:.0f} million pixels and is not kept as a layer.")
            continue
        out.append((n, ((n,), LayerPixels(kind.grid, limit_px=MASK_LIMIT_PX if is_mask else limit, is_mask=is_mask))))
    return out


def _store_layers(layers: list[tuple[str, Target]], engine: Engine, program: Program, ctx: ToolContext) -> list[LayerRef]:
    refs: list[LayerRef] = []
    for n, (_, accumulator) in layers:
        if n in engine.failed:
            continue
        assert isinstance(accumulator, LayerPixels)
        kind, pixels = program.type_of(n), accumulator
        label = kind.quantity if len(layers) == 1 or kind.kind == "mask" else _label(kind, n)
        # a layer on another grid is no layer of the scene's own pixels
        scene_id = kind.scenes[0].scene_id if len(kind.scenes) == 1 and kind.grid == kind.scenes[0].grid else None
        if pixels.step > 1:
            ctx.log("info", f"The layer {label} is kept as every {pixels.step}th pixel; figures are from all pixels.")
        if pixels.is_mask:
            refs.append(ctx.layers.put_mask(pixels.data, pixels.valid, pixels.grid, label=f"{label} mask"[:120],
                                            scene_id=scene_id))
        elif kind.kind == "classes" and _fits_uint8(pixels):
            refs.append(ctx.layers.put_classes(pixels.data.astype(np.uint8), pixels.valid, pixels.grid, dict(kind.class_names),
                                               label=label, scene_id=scene_id))
        else:
            data = pixels.data
            if not pixels.valid.all():
                np.copyto(data, np.nan, where=~pixels.valid)
            role = kind.quantity if kind.quantity in ("ndvi", "evi") else "index"
            refs.append(ctx.layers.put_raster(
                MaskedRaster(data[None], pixels.valid[None], pixels.grid, (Band(index=1, role=role, unit=kind.unit),), kind.unit),
                label=label, scene_id=scene_id))
    return refs


def _fits_uint8(pixels: LayerPixels) -> bool:
    values = pixels.data[pixels.valid]
    return bool(values.size == 0 or (values.min() >= 0 and values.max() <= 254))


def _label(kind: RasterType, node: str) -> str:
    day = f" {kind.acquired_at.date().isoformat()}" if kind.acquired_at else ""
    return f"{kind.quantity}{day or f' ({node})'}"[:120]


# --- what the observation says ---------------------------------------------------------------------------------------------
def _result(kind: AnyType, value: Value | None, layers: tuple[LayerRef, ...]) -> Result:
    if isinstance(kind, ValueType):
        assert value is not None
        return Result(kind=value.result_kind or kind.result_kind, value=value.value,  # type: ignore[arg-type]
                      unit=value.unit or kind.unit, interval=value.interval, interval_level=value.interval_level,
                      quantity=kind.quantity, items=value.items[:1000], layers=layers)
    if isinstance(kind, ImageType):
        assert value is not None
        return Result(kind="layer", quantity=kind.quantity, layers=layers, items=value.items[:1000])
    if isinstance(kind, RasterType):
        return Result(kind="layer", unit=kind.unit, quantity=kind.quantity, layers=layers)
    if isinstance(kind, SceneType):
        items: tuple[dict[str, JsonValue], ...] = ({"scene": kind.scene.scene_id, "name": kind.scene.name},)
        return Result(kind="catalog", value=1, quantity="scenes", items=items)
    return Result(kind="table", value=len(kind.zones), quantity="zones")


def _warn_out_of_range(program: Program, node: str, value: Value, ctx: ToolContext) -> None:
    kind = program.planned[node].type
    if isinstance(kind, ValueType) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool):
        slack = 1e-9 * max(1.0, abs(float(value.value)))
        if not kind.range.low - slack <= value.value <= kind.range.high + slack:
            ctx.log("warning", f"In step “{node}” of the graph {value.value:g} lies outside the physical range "
                               f"[{kind.range.low:g}, {kind.range.high:g}] of {kind.quantity}.")


def _inputs(program: Program, used: set[str], ctx: ToolContext) -> tuple[Any, ...]:
    bands: dict[str, set[int]] = {}
    scenes: dict[str, Any] = {}
    for n in program.order:
        kind = program.planned[n].type
        if n in used and isinstance(kind, SceneType):
            scenes[kind.scene.scene_id] = kind.scene
        if n in used:
            for scene_id, _, index in program.planned[n].bands:
                bands.setdefault(scene_id, set()).add(index)
    known = {v.artifact: v for v in ctx.question.vectors}
    files = dict.fromkeys(str(v) for n in program.order if n in used and (v := program.nodes[n].params.get("vector")))
    return (*(input_ref(s, sorted(bands.get(i, ()))) for i, s in scenes.items()),
            *(InputRef(artifact=digest, role="vector", name=known[digest].name if digest in known else "",
                       crs=known[digest].crs if digest in known else None) for digest in files))


def _arguments_passed(program: Program, arguments: ExecuteArguments, region: Mapping[str, Any] | None,
                      region_crs: str) -> dict[str, JsonValue]:
    passed: dict[str, JsonValue] = arguments.model_dump(mode="json")
    passed["nodes"] = [
        {"id": n.id, "op": n.op, "inputs": list(n.inputs),
         "params": OPERATORS[n.op].params.model_validate(n.params).model_dump(mode="json")} for n in arguments.nodes]
    passed["region"] = dict(region) if region is not None else None
    passed["region_crs"] = region_crs
    return passed


def _evidence(program: Program, engine: Engine, run: _Run, used: set[str], arguments: ExecuteArguments,
              region: Mapping[str, Any] | None, region_crs: str) -> Evidence:
    order = [n for n in program.order if n in used]
    operators_json: list[JsonValue] = []
    formulas: dict[str, JsonValue] = {}
    mapping: dict[str, dict[str, JsonValue]] = {}
    ranges: dict[str, JsonValue] = {}
    thresholds: dict[str, JsonValue] = {}
    nodes: list[JsonValue] = []
    quality: list[str] = []
    sensors: dict[str, JsonValue] = {}
    resolutions: dict[str, JsonValue] = {}
    failed = {n: r for n, r in (run.failed | engine.failed).items() if n in used}
    for n in order:
        node, planned = program.nodes[n], program.planned[n]
        operator = OPERATORS[node.op]
        kind = planned.type
        operators_json.append({"id": n, "op": node.op, "params": operator.params.model_validate(node.params).model_dump(
            mode="json"), "nodata": operator.nodata, "reference": operator.reference})
        for scene_id, role, index in planned.bands:
            mapping.setdefault(scene_id, {})[role] = index
        entry: dict[str, JsonValue] = {"id": n, "op": node.op, "status": "failed" if n in failed else "ok"}
        if isinstance(kind, SceneType):
            sensors[kind.scene.scene_id] = kind.scene.sensor or None
            resolutions[kind.scene.scene_id] = kind.scene.effective_gsd_m
            entry |= {"scene": kind.scene.scene_id, "size_px": [kind.scene.grid.width, kind.scene.grid.height]}
        if isinstance(kind, RasterType):
            figures = engine.figures[n]
            m = figures.moments
            formulas[n] = kind.formula
            ranges[n] = kind.range.as_json() | {"unit": kind.unit, "quantity": kind.quantity}
            quality += [q for q in kind.quality if q not in quality]
            entry |= {"kind": kind.kind, "quantity": kind.quantity, "unit": kind.unit, "n_valid": m.n,
                      "min": m.low if m.n else None, "max": m.high if m.n else None, "mean": m.mean if m.n else None,
                      "n_region": figures.n_region, "n_source_masked": figures.n_source_masked,
                      "n_undefined": figures.n_undefined, "n_out_of_range": figures.n_out_of_range}
            if kind.kind == "mask":
                entry["n_true"] = round(m.total) if m.n else 0
        if n in run.prepared:
            entry |= run.prepared[n]
            if "threshold" in run.prepared[n]:
                thresholds[n] = run.prepared[n]["threshold"]
        elif node.op == "raster.product.threshold":
            thresholds[n] = node.params.get("value")
        if n in run.values:
            v = run.values[n]
            entry |= {"value": v.value, "n_valid": v.n_valid} | v.evidence
            if isinstance(kind, ValueType):
                ranges[n] = kind.range.as_json() | {"unit": kind.unit, "quantity": kind.quantity}
        nodes.append(_plain_json(entry))
    output = run.values.get(program.output)
    under = program.output if program.planned[program.output].evaluate is not None else \
        next(iter(program.raster_inputs(program.output)), None)
    valid_px = output.n_valid if output is not None else (engine.figures[under].moments.n if under else 0)
    intermediate: dict[str, JsonValue] = {"nodes": nodes, "valid_px": valid_px, "n_passes": engine.n_passes,
                                          "px_read": engine.px_read}
    if under is not None:
        intermediate["masked"] = _masked(program, engine, under)
        f = engine.figures[under]
        intermediate["n_region_px"] = f.n_region
    if quality:
        intermediate["quality_masked"] = _quality_masked(program, engine, used)
    for key in ("numerator", "denominator", "n_px"):
        intermediate[key] = output.evidence.get(key) if output is not None else None
    if output is not None and "weights" in output.evidence:
        intermediate |= {k: output.evidence[k] for k in ("weights", "by_area", "by_pixels") if k in output.evidence}
    has_interval = output is not None and output.interval is not None
    if output is not None:
        intermediate |= {k: v for k, v in output.evidence.items() if k in ("interval_is", "interval_by", "interval_missing")}
    intermediate["interval_from"] = (output.evidence.get("interval_from") if output is not None else None) or (
        "the operator's own, at its level" if has_interval else NO_INTERVAL)
    valid_share = None
    if under is not None and engine.figures[under].n_region:
        valid_share = engine.figures[under].moments.n / engine.figures[under].n_region
    return Evidence(
        source={"operators": operators_json, "formulas": formulas, "band_mapping": {k: dict(v) for k, v in mapping.items()},
                "ranges": ranges, "thresholds": thresholds, "sensor": sensors, "resolution_m": resolutions,
                "region": {"given": region is not None, "crs": region_crs, "rule": "pixel centre inside"}},
        intermediate=intermediate,
        validity={"node_status": {n: "failed" if n in failed else "ok" for n in order},
                  "quality_mask": [*quality] or None, "failed_nodes": [{"id": n, "reason": r} for n, r in failed.items()],
                  "valid_share": valid_share,
                  "n_out_of_range": sum(engine.figures[n].n_out_of_range for n in order if n in engine.figures)})


# A composite that rests on fewer dates a pixel than this, in the mean, is told.
_THIN_DATES = 1.5


def _tell_thin_composites(program: Program, engine: Engine, used: set[str], ctx: ToolContext) -> None:
    """A warning where hardly more than one date is left under a pixel of a composite of several."""
    for n in used:
        node = program.nodes[n]
        if node.op != "raster.product.composite" or len(node.inputs) < 2 or n not in engine.figures:
            continue
        out, held = engine.figures[n].moments.n, [engine.figures[i].moments.n for i in node.inputs if i in engine.figures]
        if out and len(held) == len(node.inputs) and sum(held) < _THIN_DATES * out:
            ctx.log("warning", f"In step “{n}” of the graph, of {len(held)} dates {sum(held) / out:.1f} lie under a pixel in the "
                               "mean; the rest is masked, so this is hardly a composite.")


def _tell_left_in(program: Program, engine: Engine, used: set[str], evidence: Evidence, ctx: ToolContext) -> None:
    """What the quality bands of the graph flag in the region beside what it takes out as cloud: a line in the log and, by scene,
    in ``intermediate.quality_left_in``."""
    masks: dict[str, tuple[SceneInfo, Band, list[str]]] = {}
    for n in sorted(used):
        node = program.nodes[n]
        if node.op != "raster.product.qa_mask":
            continue
        source = program.planned[node.inputs[0]].type
        flags = node.params.get("flags", ("cloud", "shadow"))
        if not isinstance(source, SceneType) or not isinstance(flags, (list, tuple)) or "cloud" not in flags:
            continue
        scene, at = source.scene, node.params.get("band")
        band = quality_band(scene) if at is None else next((b for b in scene.bands if b.index == at), None)
        if band is not None:
            masks.setdefault(scene.scene_id, (scene, band, [str(f) for f in flags]))
    is_many = len(masks) > MANY
    found: dict[str, dict[str, float]] = {}
    for scene, band, taken in masks.values():
        try:
            region = engine.region(scene.grid)
        except ModelError:
            continue  # the scene lies beside the region, which was told
        found[scene.scene_id] = left_in(ctx.reader(scene.scene_id), band, band.scheme, taken, region,
                                        LOOK_SIDE_OF_MANY_PX if is_many else LOOK_SIDE_PX)
        if not is_many:
            tell_left_in(ctx, scene, found[scene.scene_id])
    if is_many:
        tell_left_in_many(ctx, found)
    if found:
        evidence.intermediate["quality_left_in"] = {k: {**v} for k, v in found.items()}


def _masked(program: Program, engine: Engine, node: str) -> dict[str, JsonValue]:
    """Pixels that take no part, by cause: outside the region, masked in the source (nodata, fill, alpha), by a quality mask,
    or undefined (a zero denominator and the like)."""
    figures = engine.figures[node]
    grid: Grid = program.type_of(node).grid
    above = [n for n in program.upstream(node) if n in engine.figures and program.type_of(n).grid == grid]
    quality = sum(engine.figures[n].n_undefined for n in above if program.nodes[n].op == "raster.product.apply_mask")
    undefined = sum(engine.figures[n].n_undefined for n in above) - quality
    invalid = figures.n_region - figures.moments.n
    return {"outside_region": grid.width * grid.height - figures.n_region, "source": max(0, invalid - undefined - quality),
            "undefined": undefined, "masked_out": quality}


def _quality_masked(program: Program, engine: Engine, used: set[str]) -> dict[str, JsonValue]:
    """How many pixels with data the quality bands took out, over all scenes of the graph, and of how many."""
    masks = [n for n in used if program.nodes[n].op == "raster.product.apply_mask" and n in engine.figures
             and program.type_of(n).quality]
    out = sum(engine.figures[n].n_undefined for n in masks)
    of = out + sum(engine.figures[n].moments.n for n in masks)
    return {"n_px": out, "of_px": of, "share": out / of if of else None}


def _plain_json(value: Any) -> Any:
    """NaN and infinities become null; numpy numbers become plain."""
    if isinstance(value, dict):
        return {str(k): _plain_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain_json(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


__all__ = ["Accumulator", "check_graph", "configuration_of", "effective_region", "run_execute"]
