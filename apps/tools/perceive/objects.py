"""perceive, mode ``objects``: boxes of asked classes, by a model of the zoo or by a classical method, with what lies between.

A picture of any size is read in tiles that overlap by an object's size, resampled to the GSD at which the model knows the class.
Boxes of many tiles become one set; every filter tells its counts before and after. Below the score threshold boxes stay as
candidates in a layer of their own. Where no model knows the class, or objects would be too small to see, the tool abstains.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import INLINE_LIMIT, NOT_SEEN, Configuration, Evidence, LayerRef, Result
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.contract import ObjectsMethod, PerceiveArguments, ToolContext, ToolOutcome, input_ref
from apps.tools.perceive.classical import METHODS, ClassicalMethod, method_for
from apps.tools.perceive.looking import AMPLITUDE_NOTE, LookedAt, Seen, look_over, refuse_unseen, resampling_note
from apps.tools.perceive.veil import MOST_HIDDEN, Veil, ground_searched, tell, veil_of
from apps.tools.region import RegionMask
from apps.tools.zoo.cards import ClassCard, ModelCard
from apps.tools.zoo.counting import LEVEL, count_interval, probability
from apps.tools.zoo.detectors import Detector, load_detector, resampled
from apps.tools.zoo.registry import model_named, models_for
from apps.tools.zoo.runtime import package_versions
from apps.tools.zoo.tiling import Boxes, in_own_core, plan_tiles, rectangles, soften, suppress

CANDIDATE_FLOOR = 0.05
# An object whose long side is shorter than this many source pixels cannot be told from others.
LEAST_OBJECT_PX = 5.0
# Fewer rows or columns of valid pixels than this show no object at all.
LEAST_SEEN_PX = 3.0
# Boxes this much smaller or larger than the class's usual size are no such objects (the GSD is known then).
SIZE_SLACK = (0.45, 1.6)
GREY = 114
# Boxes of one object in two tiles differ by a few network pixels: so far beyond the middle of the overlap both stay, for
# the suppression of doubles to choose.
SEAM_PX = 6.0
# Zooms tried where nobody knows the GSD; the one at which the model is surest is taken.
ZOOMS = (0.5, 0.71, 1.0, 1.41, 2.0, 2.83)
# Tiles go through the network together up to this many pixels of it.
BATCH_PX = 1_700_000
# What tiles have in common where nobody knows how long the objects are.
OVERLAP = 0.2


@dataclass(slots=True)
class Served:
    """A target group with the class that serves it, and the method of detection."""

    target: str
    words: tuple[str, ...]
    cls: ClassCard | None = None
    card: ModelCard | None = None
    method: ClassicalMethod | None = None
    exact: bool = True
    note: str = ""
    code: str = "MODEL_MISSING"


@dataclass(slots=True)
class Pass:
    """One run of a detector over the picture at one zoom."""

    zoom: float
    work_gsd_m: float | None
    tiles: int = 0
    tiles_empty: int = 0
    tile_px: int = 0
    overlap_px: int = 0
    longest_px: int | None = None           # of an object of the class, where its size and the GSD are known
    mpx: float = 0.0
    filters: list[dict[str, JsonValue]] = field(default_factory=list)
    zoom_scan: list[dict[str, JsonValue]] = field(default_factory=list)


def perceive_objects(ctx: ToolContext, args: PerceiveArguments) -> ToolOutcome:
    """Boxes of ``args.target_groups`` on the first scene, in pixels of the scene.

    ToolAbstainedError: MODEL_MISSING (no model for a class, torch is off, or the method was not made for such ground),
    NEEDS_BANDS (no red, green and blue), NEEDS_GSD (a class of any size), TOOL_FAILED (no valid pixel, too few of
    them for one object, or all alike: from what nobody saw no zero follows). ModelError BAD_ARGUMENT without target groups.
    """
    began = time.monotonic()
    if not args.target_groups:
        raise ModelError("Objects need target_groups: which objects, under which names.", code="BAD_ARGUMENT")
    method = args.objects_method or ObjectsMethod()
    scene = ctx.scene(args.image_paths[0])
    region = RegionMask.of(args.region, args.region_crs, scene.grid, scene.name or "the scene")
    served = [serve(target, words, scene, method) for target, words in args.target_groups.items()]
    if all(s.card is None and s.method is None for s in served):
        only_gsd = all(s.code == "NEEDS_GSD" for s in served)
        raise ToolAbstainedError(" ".join(dict.fromkeys(s.note for s in served)),
                                 code="NEEDS_GSD" if only_gsd else "MODEL_MISSING",
                                 needs={"gsd_m": True} if only_gsd else {"model": [s.target for s in served]})
    veil = veil_of(ctx, scene, args)
    own = ctx.reader(scene.scene_id)
    reader = LookedAt(own)
    looked, asked = reader.info, reader.region(region)
    if reader.is_complex:
        ctx.log("info", AMPLITUDE_NOTE)
    if reader.is_resampled:
        ctx.log("info", resampling_note(reader))
    found: dict[str, Boxes] = {}
    unseen: dict[str, Boxes] = {}
    passes: dict[str, Pass] = {}
    problems: list[str] = []
    device = "cpu"
    arithmetic: dict[str, str] = {}
    bands: tuple[int, ...] = ()
    stretch: dict[str, JsonValue] = {}
    groups = _groups(served, looked, method)
    seen: dict[tuple[int, ...], Seen] = {}
    for number, (key, members) in enumerate(groups.items()):
        first = members[0]
        if first.method is not None:
            report = _reporter(ctx, number, len(groups))
            bands = first.method.bands(scene) or ()
            _refuse_unseen(ctx, seen, own, bands, region, scene, members, veil)
            try:
                boxes, p, bands = first.method.run(reader, asked, report)
            except ToolAbstainedError as reason:
                # another target of the call may still be answered
                if len(groups) == 1:
                    raise
                for m in members:
                    m.note = str(reason)
                continue
            passes[key] = Pass(zoom=1.0, work_gsd_m=looked.effective_gsd_m, tiles=int(p.get("windows", 1)),
                               filters=list(p.get("filters", [])))
        else:
            assert first.card is not None
            card, path = model_named(first.card.name)
            detector = load_detector(card, path)
            device, arithmetic[card.name] = detector.device, detector.arithmetic
            bands, grey = colour_bands(scene, card)
            if grey:
                problems.append("The scene has one band; the model was made for colour pictures.")
            _refuse_unseen(ctx, seen, own, bands, region, scene, members, veil)
            source = Pixels(reader, bands, looked)
            stretch = source.stretch
            numbers = {i for m in members if m.cls for i, c in enumerate(card.classes) if c.name == m.cls.name}
            boxes, passes[key] = detect_scene(
                detector, source, asked, card, [m.cls for m in members if m.cls], numbers, method,
                _reporter(ctx, number, len(groups)), ctx.is_cancelled)
        boxes = _on_scene(boxes, reader, scene)
        boxes, under = _seen_boxes(boxes, veil, passes[key])
        for m in members:
            index = 0 if m.card is None else [c.name for c in m.card.classes].index(m.cls.name if m.cls else "")
            found[m.target], unseen[m.target] = boxes.pick(boxes.cls == index), under.pick(under.cls == index)
    if not found:
        raise ToolAbstainedError(" ".join(dict.fromkeys(s.note for s in served if s.note)), code="MODEL_MISSING",
                                 needs={"model": [s.target for s in served]})
    return _outcome(ctx, args, method, scene, served, found, passes, problems, bands, stretch, device,
                    arithmetic, time.monotonic() - began, region, reader, min(seen.values(), key=lambda v: v.valid_px), veil,
                    unseen)


def _refuse_unseen(ctx: ToolContext, seen: dict[tuple[int, ...], Seen], reader: RasterReader, bands: tuple[int, ...],
                   region: RegionMask, scene: SceneInfo, members: Sequence[Served], veil: Veil | None) -> None:
    """Looks over the bands once a call. ToolAbstainedError where they show too little for the smallest thing that is asked."""
    if bands not in seen:
        seen[bands] = look_over(reader, bands, region, ctx.is_cancelled, veil.hidden if veil is not None else None)
    gsd = scene.effective_gsd_m
    sizes = [m.cls.size_m[0] if m.cls and m.cls.size_m else m.method.least_m if m.method else None for m in members]
    known = [size / gsd for size in sizes if size is not None and gsd is not None]
    longest = min(known) if len(known) == len(members) else LEAST_OBJECT_PX
    refuse_unseen(seen[bands], scene, " or ".join(m.target for m in members), least_px=LEAST_SEEN_PX,
                  longest_px=max(LEAST_SEEN_PX, longest), needs_tones=any(m.card is not None for m in members))


def _seen_boxes(boxes: Boxes, veil: Veil | None, p: Pass) -> tuple[Boxes, Boxes]:
    """(boxes that could be seen, boxes of which the veil hides more than MOST_HIDDEN)."""
    if veil is None:
        return boxes, boxes.pick(np.zeros(len(boxes), dtype=bool))
    is_hidden = veil.shares(boxes.xyxy) > MOST_HIDDEN
    p.filters.append({"name": "not under cloud or shadow", "before": len(boxes), "after": int((~is_hidden).sum()),
                      "hidden_share": MOST_HIDDEN})
    return boxes.pick(~is_hidden), boxes.pick(is_hidden)


def _on_scene(boxes: Boxes, reader: LookedAt, scene: SceneInfo) -> Boxes:
    """Boxes of the picture that was looked at, in pixels of the scene."""
    if not reader.is_resampled:
        return boxes
    factor = np.array(reader.factor)
    outline = None if boxes.outline is None else [o / factor for o in boxes.outline]
    size = np.array([scene.grid.width, scene.grid.height] * 2, float)
    return Boxes((boxes.xyxy / np.tile(factor, 2)).clip(0, size), boxes.score, boxes.cls, boxes.tile, outline)


# --- who serves what ------------------------------------------------------------------------------------------------------
def serve(target: str, words: Sequence[str], scene: SceneInfo, method: ObjectsMethod) -> Served:
    """The class and model (or classical method) for a target, with a sentence where there is none."""
    asked = tuple(words) or (target,)
    detector = method.detector
    out = Served(target, asked)
    classical = METHODS.get(detector) if detector != "auto" else None
    if classical is None and detector == "auto":
        classical = method_for(asked, scene)
    if classical is not None:
        reason = classical.unfit(scene)
        if not any(classical.knows(w) for w in asked):
            out.note = f"{classical.name} finds {', '.join(classical.words[:1])}, not {target}."
        elif reason:
            out.note = reason
        else:
            out.method, out.exact = classical, all(classical.knows(w) for w in asked)
            return out
        if detector != "auto":
            return out
    pool = [model_named(detector)] if detector != "auto" else models_for(("detect", "obb", "segment"), asked)
    gsd = scene.effective_gsd_m
    for card, _ in pool:
        if card.task not in ("detect", "obb", "segment"):
            out.note = f"{card.name} is a model for {card.task}; it finds no objects."
            return out
        cls = next((c for c in (card.class_card(w, with_near=False) for w in asked) if c is not None), None)
        exact = cls is not None
        if cls is None:
            cls = next((c for c in (card.class_card(w) for w in asked) if c is not None), None)
        if cls is None:
            continue
        size = cls.size_m[1] if cls.size_m else None
        if gsd is not None and size is not None and size / gsd < LEAST_OBJECT_PX:
            out.note = (f"A {cls.name} of {size:g} m is {size / gsd:.1f} px long at {gsd:g} m a pixel; "
                        f"it takes at least {LEAST_OBJECT_PX:g} px to tell one. A sharper picture would do.")
            continue
        # finer pictures are made coarser; on coarser ones nobody knows the scores
        if gsd is not None and cls.gsd_m is not None and gsd > cls.gsd_m[1] * 1.05:
            out.note = (f"{card.name} looks for {target} on pictures of {cls.gsd_m[0]:g} to {cls.gsd_m[1]:g} m a pixel; this one "
                        f"has {gsd:g} m. A sharper picture would do.")
            continue
        if gsd is None and method.scale is None and cls.experimental and cls.work_gsd_m is not None and size is not None:
            out.code = "NEEDS_GSD"
            least = cls.size_m[0] if cls.size_m else 0.0
            out.note = (f"The GSD of the scene is not known, and a {cls.name} may be anything from {least:g} to {size:g} m long: "
                        "its parts or its neighbours would be taken for it. Say how many metres a pixel has.")
            continue
        out.code = ""
        out.cls, out.card, out.exact = cls, card, exact
        out.note = "" if exact else (f"The model knows {cls.name} as a whole and cannot tell {target} from its other kinds: "
                                     "all of them are counted.")
        return out
    if not out.note:
        broader = next((c for card, _ in models_for(("detect", "obb", "segment"), ()) or _all() for w in asked
                        if (c := card.broader_class(w)) is not None), None)
        if broader is not None:
            out.note = (f"No model here tells {target} from other kinds of {broader.name}. Ask for {broader.name}, or add a "
                        "model that knows it with `./rsure models add FILE`.")
        else:
            out.note = (f"No model here knows {target}. Add one with `./rsure models add FILE` (Ultralytics, ONNX or "
                        "TorchScript), then ask again.")
    return out


def alternatives_to(served: Sequence[Served], scene: SceneInfo) -> list[JsonValue]:
    """Names of other detectors that know every target of the call, for a second opinion: models first, then classical methods."""
    used = {s.card.name if s.card else s.method.name if s.method else "" for s in served}
    words = [s.words for s in served]
    cards = [c.name for c, _ in _all() if all(any(c.class_card(w) for w in asked) for asked in words)]
    fit = [m for m in METHODS.values() if not m.unfit(scene)]
    classical = [m.name for m in fit if all(any(m.knows(w) for w in asked) for asked in words)]
    return [*[n for n in (*cards, *classical) if n not in used][:4]]


def _all() -> list[tuple[ModelCard, Any]]:
    from apps.tools.zoo.registry import models

    return [m for m in models() if m[0].task in ("detect", "obb", "segment")]


def _groups(served: Sequence[Served], scene: SceneInfo, method: ObjectsMethod) -> dict[str, list[Served]]:
    """Targets that one pass can serve: same model and same zoom, or one classical method."""
    groups: dict[str, list[Served]] = {}
    for s in served:
        if s.method is not None:
            key = s.method.name
        elif s.card is not None and s.cls is not None:
            zoom = zoom_for(s.cls, scene.effective_gsd_m, method)
            key = f"{s.card.name} at {'its surest zoom for ' + s.cls.name if zoom is None else f'{zoom:.3g}'}"
        else:
            continue
        groups.setdefault(key, []).append(s)
    return groups


def zoom_for(cls: ClassCard, gsd_m: float | None, method: ObjectsMethod) -> float | None:
    """Network pixels a source pixel: as asked, else by GSD; for a model that names a range alone to its finer end where the
    picture is finer; 1 for a model that names no GSD; None where the GSD is unknown."""
    if method.scale is not None:
        return method.scale
    if cls.work_gsd_m is None:
        return max(1 / 16, gsd_m / cls.gsd_m[0]) if cls.gsd_m is not None and gsd_m is not None and gsd_m < cls.gsd_m[0] else 1.0
    if gsd_m is None:
        return None
    return float(np.clip(gsd_m / cls.work_gsd_m, 1 / 16, 8))


# --- pixels ---------------------------------------------------------------------------------------------------------------
def colour_bands(scene: SceneInfo, card: ModelCard) -> tuple[tuple[int, ...], bool]:
    """(band indices for the model's bands, True where one grey band stands for all). ToolAbstainedError NEEDS_BANDS."""
    chosen = []
    for role in card.bands:
        at = scene.bands_with_role(role)
        if len(at) != 1:
            break
        chosen.append(at[0].index)
    if len(chosen) == len(card.bands):
        return tuple(chosen), False
    single = [b for b in scene.bands if b.role in ("pan", "gray")]
    if len(single) == 1 and set(card.bands) == {"red", "green", "blue"}:
        return (single[0].index,), True
    raise ToolAbstainedError(f"The model looks at {', '.join(card.bands)}; the scene does not say which bands these are.",
                             code="NEEDS_BANDS", needs={"roles": list(card.bands)})


class Pixels:
    """A scene as the models see it: uint8 (rows, columns, 3), invalid pixels grey, stretched where it is not 8-bit."""

    def __init__(self, reader: RasterReader, bands: Sequence[int], scene: SceneInfo):
        self.reader, self.bands, self.scene = reader, tuple(bands), scene
        self.low: NDArray[np.float64] | None = None
        self.high: NDArray[np.float64] | None = None
        self.stretch: dict[str, JsonValue] = {"kind": "none"}
        if scene.dtype != "uint8":
            grid = scene.grid
            shape = min(512, grid.height), min(512, grid.width)
            sample = reader.read(self.bands, None, shape)
            low, high = [], []
            for k in range(len(self.bands)):
                values = sample.data[k][sample.valid[k]].astype(float)
                if not len(values):
                    raise ToolAbstainedError("The scene has no valid pixel.", code="TOOL_FAILED")
                a, b = np.percentile(values, (1, 99))
                low.append(float(a))
                high.append(float(b) if b > a else float(a) + 1)
            # one stretch for all bands keeps the colours
            self.low, self.high = np.full(len(low), min(low)), np.full(len(high), max(high))
            self.stretch = {"kind": "percentile 1 to 99 of all bands", "low": min(low), "high": max(high)}

    def read(self, window: Window) -> tuple[NDArray[np.uint8], NDArray[np.bool_]]:
        """(uint8 (rows, columns, 3), valid (rows, columns)) of a window."""
        part = self.reader.read(self.bands, window, physical=self.low is not None)
        valid: NDArray[np.bool_] = np.asarray(part.valid.all(axis=0))
        if self.low is None or self.high is None:
            image = part.data.astype(np.uint8)
        else:
            span = (part.data - self.low[:, None, None]) / (self.high - self.low)[:, None, None] * 255
            image = np.nan_to_num(span, nan=GREY).clip(0, 255).astype(np.uint8)
        image = np.where(valid[None], image, np.uint8(GREY))
        if len(self.bands) == 1:
            image = np.repeat(image, 3, axis=0)
        return np.ascontiguousarray(image.transpose(1, 2, 0)), valid


# --- detection ------------------------------------------------------------------------------------------------------------
def detect_scene(detector: Detector, source: Pixels, region: RegionMask, card: ModelCard, classes: Sequence[ClassCard],
                 numbers: set[int], method: ObjectsMethod, report: Callable[[float, str], None],
                 is_cancelled: Callable[[], bool], floor: float = CANDIDATE_FLOOR) -> tuple[Boxes, Pass]:
    """All boxes above ``floor`` of the classes numbered ``numbers``, in scene pixels, with what each filter did."""
    gsd = source.scene.effective_gsd_m
    zoom = zoom_for(classes[0], gsd, method)
    scan: list[dict[str, JsonValue]] = []
    if zoom is None:
        zoom, scan = surest_zoom(detector, source, region, card, numbers, method)
    tile_px = tile_for(card, method)
    p = Pass(zoom=zoom, work_gsd_m=None if gsd is None else gsd / zoom, zoom_scan=scan, tile_px=tile_px)
    p.overlap_px = overlap_for(classes, gsd, zoom, tile_px, method)
    p.longest_px = round(longest_for(classes, gsd, zoom)) or None
    tile = max(32, round(p.tile_px / zoom))
    windows = [w for w in plan_tiles(_grown(region, tile), tile, max(1, round(p.overlap_px / zoom))) if region.touches(w)]
    boxes, valid_centre = _run_tiles(detector, source, windows, numbers, p, report, is_cancelled, floor)

    def after(name: str, kept: Boxes, before: Boxes, **more: JsonValue) -> Boxes:
        p.filters.append({"name": name, "before": len(before), "after": len(kept), **more})
        return kept

    boxes = after("on valid pixels", boxes.pick(valid_centre), boxes)
    boxes = after("doubles in a tile", boxes.pick(suppress(boxes, iou=max(method.iou_threshold, 0.5), within_tile=True)), boxes,
                  iou=max(method.iou_threshold, 0.5), kind="class-wise")
    soft = soften(boxes)
    boxes = after("soft suppression", soft.pick(soft.score >= floor), boxes,
                  lowered=int((soft.score < boxes.score - 1e-9).sum()))
    boxes = after("cut by a tile's edge", boxes.pick(in_own_core(boxes, windows, SEAM_PX / zoom)), boxes)
    boxes = after("doubles across tile seams", boxes.pick(suppress(boxes, iou=0.4, within_tile=False)), boxes, iou=0.4,
                  contained=0.6)
    if gsd is not None:
        boxes = after("possible sizes", boxes.pick(_possible(boxes, card, gsd)), boxes)
    boxes = after("inside the region", boxes.pick(_inside(boxes, region)), boxes)
    return boxes, p


def tile_for(card: ModelCard, method: ObjectsMethod) -> int:
    """The longest side of a tile in network pixels: as asked, else the model's own; an export takes none larger than its own."""
    if method.tile_px is None:
        return card.tile_px
    return min(method.tile_px, card.tile_px) if card.format in ("onnx", "torchscript") else method.tile_px


def overlap_for(classes: Sequence[ClassCard], gsd_m: float | None, zoom: float, tile_px: int, method: ObjectsMethod) -> int:
    """Network pixels that two tiles have in common: as long as the longest object and a tenth more, so that one of them holds it
    whole; a fifth of a tile where nobody knows how long that is; no less than was asked, no more than half a tile."""
    known = gsd_m is not None and all(c.size_m for c in classes)
    least = method.overlap if method.overlap is not None else 0.0 if known else OVERLAP
    return int(min(max(longest_for(classes, gsd_m, zoom) * 1.1, tile_px * least, 1.0), tile_px * 0.5))


def longest_for(classes: Sequence[ClassCard], gsd_m: float | None, zoom: float) -> float:
    """Network pixels that the longest object of the classes may measure; 0 where nobody knows."""
    return max((c.size_m[1] / gsd_m * zoom for c in classes if c.size_m and gsd_m), default=0.0)


def _run_tiles(detector: Detector, source: Pixels, windows: Sequence[Window], numbers: set[int], p: Pass,
               report: Callable[[float, str], None], is_cancelled: Callable[[], bool], floor: float = CANDIDATE_FLOOR
               ) -> tuple[Boxes, NDArray[np.bool_]]:
    """Boxes of every window in scene pixels, and whether each one's centre is a valid pixel. Memory: boxes and one batch."""
    parts: list[Boxes] = []
    valids: list[NDArray[np.bool_]] = []
    for at, batch in _batches(windows, source, p):
        if is_cancelled():
            raise ModelError("The run was cancelled.", code="TOOL_FAILED")
        results = detector.detect([resampled(image, p.zoom) for _, image, _ in batch], floor)
        for (number, _, valid), boxes in zip(batch, results, strict=True):
            boxes = boxes.pick(np.isin(boxes.cls, list(numbers)))
            if not len(boxes):
                continue
            left, top, width, height = windows[number]
            zoom = np.array([round(width * p.zoom) / width, round(height * p.zoom) / height] * 2)
            xyxy = boxes.xyxy / zoom
            centre = ((xyxy[:, :2] + xyxy[:, 2:]) / 2).astype(int)
            valids.append(valid[centre[:, 1].clip(0, height - 1), centre[:, 0].clip(0, width - 1)])
            shift = np.array([left, top, left, top], float)
            outline = None if boxes.outline is None else [o / zoom[:2] + shift[:2] for o in boxes.outline]
            parts.append(Boxes(xyxy + shift, boxes.score, boxes.cls, np.full(len(boxes), number, np.int64), outline))
        report(at / len(windows), f"tile {at} of {len(windows)}")
    joined = Boxes.joined(parts)
    return joined, np.concatenate(valids) if valids else np.zeros(0, bool)


def _batches(windows: Sequence[Window], source: Pixels, p: Pass
             ) -> Iterator[tuple[int, list[tuple[int, NDArray[np.uint8], NDArray[np.bool_]]]]]:
    held: list[tuple[int, NDArray[np.uint8], NDArray[np.bool_]]] = []
    most = max(1, int(BATCH_PX / max(1.0, max((w[2] * w[3] for w in windows), default=1) * p.zoom * p.zoom)))
    for number, window in enumerate(windows):
        image, valid = source.read(window)
        if valid.any():
            held.append((number, image, valid))
            p.tiles += 1
            p.mpx += window[2] * window[3] * p.zoom * p.zoom / 1e6
        else:
            p.tiles_empty += 1
        if len(held) == most or (held and number + 1 == len(windows)):
            yield number + 1, held
            held = []


def _grown(region: RegionMask, tile: int) -> Window:
    """The region's frame with room for objects that stand on its edge, inside the picture."""
    left, top, width, height = region.bounds_px
    room = min(tile // 4, 64)
    x0, y0 = max(0, left - room), max(0, top - room)
    x1, y1 = min(region.grid.width, left + width + room), min(region.grid.height, top + height + room)
    return x0, y0, x1 - x0, y1 - y0


def _possible(boxes: Boxes, card: ModelCard, gsd: float) -> NDArray[np.bool_]:
    side = np.maximum(boxes.xyxy[:, 2] - boxes.xyxy[:, 0], boxes.xyxy[:, 3] - boxes.xyxy[:, 1]) * gsd
    out = np.ones(len(boxes), bool)
    for k, c in enumerate(card.classes):
        if c.size_m is not None:
            low, high = c.size_m[0] * SIZE_SLACK[0], c.size_m[1] * SIZE_SLACK[1]
            out &= (boxes.cls != k) | ((side >= low) & (side <= high))
    return out


def _inside(boxes: Boxes, region: RegionMask) -> NDArray[np.bool_]:
    if region.polygon is None or not len(boxes):
        return np.ones(len(boxes), bool)
    import shapely

    centre = (boxes.xyxy[:, :2] + boxes.xyxy[:, 2:]) / 2
    return np.asarray(shapely.contains_xy(region.polygon, centre[:, 0], centre[:, 1]))


def surest_zoom(detector: Detector, source: Pixels, region: RegionMask, card: ModelCard, numbers: set[int],
                method: ObjectsMethod) -> tuple[float, list[dict[str, JsonValue]]]:
    """Where nobody knows the GSD: the zoom at which the scores sum up to most on up to four windows.

    ToolAbstainedError NEEDS_GSD where that is the least or the greatest zoom: the true one may lie beyond.
    """
    left, top, width, height = region.bounds_px
    side = 512
    spots = [(left, top, width, height)]
    if width * height > 4 * side * side:
        spots = plan_tiles((left, top, width, height), side, 0)
        spots = [spots[i] for i in sorted({round(k * (len(spots) - 1) / 3) for k in range(4)})]
    scan: list[dict[str, JsonValue]] = []
    best = (-1.0, 1.0)
    for zoom in ZOOMS:
        tile_px = tile_for(card, method)
        p = Pass(zoom=zoom, work_gsd_m=None, tile_px=tile_px, overlap_px=overlap_for((), None, zoom, tile_px, method))
        total, kept = 0.0, 0
        tile = max(32, round(p.tile_px / zoom))
        for spot in spots:
            windows = plan_tiles(spot, tile, max(1, round(p.overlap_px / zoom)))
            boxes, _ = _run_tiles(detector, source, windows, numbers, p, lambda done, message: None, lambda: False)
            boxes = soften(boxes.pick(suppress(boxes, iou=0.5, within_tile=True)))
            boxes = boxes.pick(in_own_core(boxes, windows, SEAM_PX / zoom))
            boxes = boxes.pick(suppress(boxes, iou=0.4, within_tile=False))
            strong = boxes.score[boxes.score >= method.score_threshold]
            total += float(strong.sum())
            kept += len(strong)
        scan.append({"zoom": zoom, "sum_of_scores": round(total, 3), "boxes": kept})
        if total > best[0] * 1.02:
            best = (total, zoom)
    if best[0] > 0 and best[1] in (ZOOMS[0], ZOOMS[-1]):
        raise ToolAbstainedError("The GSD of the scene is not known, and the model grows surer up to the last zoom that was "
                                 "tried. Say how many metres a pixel has.", code="NEEDS_GSD", needs={"gsd_m": True})
    return best[1], scan


def _reporter(ctx: ToolContext, number: int, of: int) -> Callable[[float, str], None]:
    def report(share: float, message: str) -> None:
        ctx.progress(int((number + share) / of * 100), 100, message)

    return report


# --- what is said ---------------------------------------------------------------------------------------------------------
def _outcome(ctx: ToolContext, args: PerceiveArguments, method: ObjectsMethod, scene: SceneInfo, served: Sequence[Served],
             found: dict[str, Boxes], passes: dict[str, Pass], problems: list[str], bands: tuple[int, ...],
             stretch: dict[str, JsonValue], device: str, arithmetic: dict[str, str], elapsed_s: float, region: RegionMask,
             reader: LookedAt, seen: Seen, veil: Veil | None, unseen: dict[str, Boxes]) -> ToolOutcome:
    gsd = scene.effective_gsd_m
    layers: list[LayerRef] = []
    items: list[dict[str, JsonValue]] = []
    classes: list[JsonValue] = []
    weak: list[dict[str, Any]] = []
    hidden: list[dict[str, Any]] = []
    all_scores: list[float] = []
    candidates = kept_total = 0
    counts: dict[str, JsonValue] = {}
    thresholds: dict[str, JsonValue] = {"candidate": CANDIDATE_FLOOR, "iou": method.iou_threshold}
    for s in served:
        if s.target not in found:
            problems.append(s.note)
            continue
        boxes = found[s.target]
        calibration = s.cls.calibration if s.cls else s.method.calibration if s.method else None
        p = probability(boxes.score, calibration)
        at = method.score_threshold
        thresholds[s.target] = at
        strong = boxes.score >= at
        order = np.argsort(-boxes.score, kind="stable")
        name = s.cls.name if s.cls else s.method.words[0] if s.method else s.target
        layers.append(ctx.layers.put_features(
            [_feature(boxes, p, i, name, s.target) for i in order.tolist() if strong[i]], kind="boxes", crs="image",
            label=s.target, scene_id=scene.scene_id))
        weak += [_feature(boxes, p, i, name, s.target) for i in order.tolist() if not strong[i]]
        kept = int(strong.sum())
        under = unseen[s.target].pick(unseen[s.target].score >= at)
        p_under = probability(under.score, calibration)
        hidden += [_feature(under, p_under, i, name, s.target) for i in range(len(under))]
        expected, low, high = count_interval(p, kept, calibration)
        all_scores += boxes.score[strong].tolist()
        candidates, kept_total = candidates + len(boxes), kept_total + kept
        counts[s.target] = {"kept": kept, "candidates": len(boxes), "expected": round(expected, 2), "low": low, "high": high,
                            "level": LEVEL, "calibrated": calibration is not None, "not_seen": len(under)}
        items.append({"target": s.target, "class": name, "kept": kept, "candidates": len(boxes), "low": low, "high": high,
                      "expected": round(expected, 2), **({} if veil is None else {"not_seen": len(under)})})
        classes.append({"target": s.target, "words": list(s.words), "class": name, "exact": s.exact, "by": _by(s),
                        "experimental": s.cls.experimental if s.cls else True,
                        "in_gsd_range": _in_range(s.cls.gsd_m if s.cls else s.method.gsd_m if s.method else None, gsd)})
        if s.note:
            problems.append(s.note)
    layers.append(ctx.layers.put_features(weak, kind="boxes", crs="image", label="candidates", scene_id=scene.scene_id))
    if hidden:
        layers.append(ctx.layers.put_features(hidden, kind="boxes", crs="image", label=NOT_SEEN, scene_id=scene.scene_id))
        ctx.log("warning", f"{len(hidden)} boxes lie under cloud or shadow for the most part and were not counted.")
    quality, masked = tell(ctx, veil, seen.hidden_px, seen.hidden_px + seen.valid_px, " or ".join(s.target for s in served))
    by_name = {_by(s): s for s in served if s.target in found}
    for name, s in by_name.items():
        if s.method is not None or (s.cls is not None and s.cls.experimental):
            known = s.method.scores_told if s.method is not None else ""
            what = s.cls.name if s.cls is not None else s.target
            problems.append(f"{name} is experimental for {what}{f' ({known})' if known else ''}: look at its boxes before you "
                            "rely on the count.")
        if s.method is not None and s.method.not_for:
            problems.append(f"{name} is not for {'; not for '.join(s.method.not_for)}.")
    if seen.share < 1 - 1e-9:
        ctx.log("info", f"{seen.valid_px} of {seen.asked_px} pixels could be seen; nothing was counted on the others.")
    for line in problems:
        ctx.log("warning", line)
    complete = len(found) == len(served)
    scores = sorted(all_scores, reverse=True)
    cards = [s.card for s in served if s.card is not None]
    methods = [s.method for s in served if s.method is not None]
    in_range = [c["in_gsd_range"] for c in classes if isinstance(c, dict)]
    source: dict[str, JsonValue] = {
        "weights": [{"name": c.name, "version": c.version, "digest": c.sha256, "licence": c.licence, "task": c.task,
                     "format": c.format, "arithmetic": arithmetic.get(c.name)} for c in {c.name: c for c in cards}.values()],
        "method": [{"name": m.name, "about": m.about, "source": m.source, "settings": dict(m.settings)}
                   for m in {m.name: m for m in methods}.values()],
        "thresholds": thresholds, "sensor": scene.sensor or "unknown", "resolution_m": gsd, "stretch": stretch,
        "looked_at": reader.told(),
        "calibration": {s.target: s.cls.calibration.model_dump(mode="json") for s in served
                        if s.cls is not None and s.cls.calibration is not None},
        "alternatives": alternatives_to(served, scene),
    }
    if not source["weights"]:
        del source["weights"]
    if not source["method"]:
        del source["method"]
    intermediate: dict[str, JsonValue] = {
        "candidates": candidates, "kept": kept_total, "counts": counts, "valid_px": seen.valid_px, "n_region_px": seen.asked_px,
        "scores": [round(v, 4) for v in scores[:INLINE_LIMIT]],
        "score_quantiles": [round(float(v), 4) for v in np.quantile(scores, (0, .1, .25, .5, .75, .9, 1))] if scores else [],
        "boxes": f"layers {', '.join(s.target for s in served if s.target in found)} and candidates",
        "passes": [{"by": key, "zoom": round(q.zoom, 4), "work_gsd_m": None if q.work_gsd_m is None else round(q.work_gsd_m, 4),
                    "tiles": q.tiles, "tiles_empty": q.tiles_empty, "tile_px": q.tile_px, "overlap_px": q.overlap_px,
                    "longest_px": q.longest_px,
                    "megapixels_seen": round(q.mpx, 3), "filters": list(q.filters), "zoom_scan": list(q.zoom_scan)}
                   for key, q in passes.items()],
        "filters": [{"by": key, **f} for key, q in passes.items() for f in q.filters],
        "region_px": region.n_px if region.polygon is not None else None,
        "area": ground_searched(scene.grid, gsd, seen.valid_px, seen.asked_px), "not_seen": len(hidden), **masked,
        "elapsed_s": round(elapsed_s, 3),
    }
    frame = all(_in_frame(b, scene) for b in found.values())
    outside = [f"{c['class']} at {gsd:g} m a pixel" for c in classes if isinstance(c, dict) and c["in_gsd_range"] is False]
    if len(bands) == 1 and cards:
        outside.append("one grey band instead of colour")
    for q in passes.values():
        if q.longest_px is not None and q.tiles > 1 and q.longest_px > q.overlap_px:
            outside.append(f"an object may be {q.longest_px} pixels long and tiles have {q.overlap_px} in common: one that is "
                           "longer is told in pieces, or not at all")
            ctx.log("warning", f"{outside[-1][0].upper()}{outside[-1][1:]}.")
    validity: dict[str, JsonValue] = {
        "applicability": {"ok": not outside, "problems": list(outside)},
        "layer_status": "complete" if complete else "partial", "class_complete": complete, "geometry_valid": frame,
        "class_exact": all(s.exact for s in served if s.target in found), "classes": classes,
        "gsd_known": gsd is not None, "valid_share": seen.share, "quality_mask": quality,
        "experimental": [n for n, s in by_name.items() if s.method is not None or (s.cls is not None and s.cls.experimental)],
        "in_gsd_range": None if not in_range or None in in_range else all(in_range),
        "bands_as_made_for": len(bands) != 1, "not_for": [*sorted({n for c in (*cards, *methods) for n in c.not_for})],
    }
    by = "+".join(sorted({_by(s) for s in served if s.target in found}))
    missing = [s.target for s in served if s.target not in found]
    single = items[0] if len(items) == 1 else None
    return ToolOutcome(
        configuration=Configuration(coarse="objects", fine=f"objects/{by}"[:240]),
        result=Result(kind="layer", value=None, quantity=", ".join(s.target for s in served)[:120], items=tuple(items),
                      interval=(float(str(single["low"])), float(str(single["high"]))) if single else None,
                      interval_level=LEVEL if single else None, layers=tuple(layers)),
        evidence=Evidence(source=source, intermediate=intermediate, validity=validity),
        inputs=(input_ref(scene, bands if veil is None else (*bands, veil.band.index)),),
        arguments_passed={**args.model_dump(mode="json"), "objects_method": method.model_dump(mode="json")},
        state="ok" if complete else "partial",
        reason="" if complete else (f"Not looked for: {', '.join(missing)}. "
                                    + " ".join(s.note for s in served if s.target in missing)),
        needs={"model": [*missing]} if missing else {}, device=device,
        packages=package_versions("torch", "torchvision", "ultralytics", "numpy", "scipy", "scikit-image"))


def _by(s: Served) -> str:
    return s.method.name if s.method is not None else s.card.name if s.card is not None else ""


def _in_range(gsd_range: tuple[float, float] | None, gsd: float | None) -> bool | None:
    if gsd_range is None or gsd is None:
        return None
    return gsd_range[0] <= gsd <= gsd_range[1]


def _in_frame(boxes: Boxes, scene: SceneInfo) -> bool:
    if not len(boxes):
        return True
    b = boxes.xyxy
    return bool(np.isfinite(b).all() and (b[:, 2:] > b[:, :2]).all() and (b[:, :2] >= -1e-6).all()
                and (b[:, 2] <= scene.grid.width + 1e-6).all() and (b[:, 3] <= scene.grid.height + 1e-6).all())


def _feature(boxes: Boxes, p: NDArray[np.float64], i: int, name: str, target: str) -> dict[str, Any]:
    ring = boxes.outline[i] if boxes.outline is not None else rectangles(boxes.xyxy[i:i + 1])[0]
    points = [[round(float(x), 2), round(float(y), 2)] for x, y in ring]
    if points[0] != points[-1]:
        points.append(points[0])
    return {"type": "Feature", "geometry": {"type": "Polygon", "coordinates": [points]},
            "properties": {"score": round(float(boxes.score[i]), 4), "p": round(float(p[i]), 4), "class": name, "target": target,
                           "tile": int(boxes.tile[i]), "box": [round(float(v), 2) for v in boxes.xyxy[i]]}}
