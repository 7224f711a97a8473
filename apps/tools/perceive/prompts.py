"""perceive, mode ``regions`` by prompts: points inside and outside, a box and scribbles become a mask; or an earlier mask is
refined.

The classical default needs no weights: a random walker that follows edges of brightness and colour and leans to the colours of
what was pointed at (Grady 2006, IEEE TPAMI 28). A SAM-type model of the zoo takes the same prompts. Refinement keeps the inner
part of a mask and what is far beyond it, and lets the walker lay the edge between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import shapely
from numpy.typing import NDArray
from pydantic import JsonValue
from scipy import ndimage
from skimage.draw import line
from skimage.segmentation import random_walker

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import Configuration, Evidence, Result
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader, Window
from apps.tools.contract import PerceiveArguments, RegionMethod, ToolContext, ToolOutcome, input_ref
from apps.tools.execute.graph import effective_region
from apps.tools.perceive.looking import AMPLITUDE_NOTE, real
from apps.tools.perceive.regions import edge_px
from apps.tools.perceive.veil import Veil, ground_searched, tell, veil_of
from apps.tools.region import RegionMask
from apps.tools.zoo.prompters import load_prompter, prompt_models
from apps.tools.zoo.registry import model_named
from apps.tools.zoo.runtime import package_versions

# The walker looks at a window about the prompts, at most this large.
MAX_SIDE_PX = 768
MARGIN_PX = 64
# A model looks at one of these windows: (side, distance of one to the next). They lie still while prompts move, so that what its
# encoder made of one serves the next prompt too; SAM's masks of 256 cells tell things to 2 and to 4 pixels in them.
MODEL_WINDOWS = ((512, 256), (1024, 256))
# How strongly a step in brightness holds the walker back; scikit-image's usual value.
BETA = 130.0
# What the mask is grown again with, to see whether it comes out alike: other steps, and marks moved by columns and rows.
OTHER_BETAS, ASIDE_PX = (30.0, 500.0), ((2, 1), (-2, -1))
# A point stands for the connected pixels about it of nearly its colour (share of the picture's range), so far.
SEED_TOLERANCE, SEED_RADIUS_PX = 0.12, 16
# The inner part of a box that is taken for the thing: an ellipse of this share of its sides about its middle, to each side.
BOX_CORE = 0.4
# Marks of the thing and of something else that lie closer than this contradict each other.
MARK_PX = 2.0
CORE_TOLERANCE = 0.15
# Refinement works in tiles, and on pictures up to this many pixels.
REFINE_TILE_PX = 384
REFINE_LIMIT_PX = 36_000_000
SEED_WEIGHT = 0.5
# Below this mean sureness (0: even odds, 1: certain) of its pixels little in the picture holds a mask together: of 9 such masks
# on labelled water and buildings none had an IoU of 0.6.
LEAST_SURENESS = 0.7
_ROLES = ("blue", "green", "red", "nir", "gray", "pan", "swir1")
# Bands whose numbers are names, flags or a margin, not brightness.
_NO_BRIGHTNESS = ("class", "mask", "qa", "alpha")
# The walker needs so many rows and columns; a narrower picture is repeated beside itself, which changes nothing of its answer.
LEAST_SIDE_PX = 4
NOT_FOR = ("things without an edge of their own in brightness or colour",)


@dataclass(frozen=True, slots=True)
class Prompts:
    """What was shown, in pixels of the scene."""

    inside: tuple[tuple[float, float], ...]
    outside: tuple[tuple[float, float], ...]
    lines_inside: tuple[tuple[tuple[float, float], ...], ...]
    lines_outside: tuple[tuple[tuple[float, float], ...], ...]
    box: tuple[float, float, float, float] | None

    @classmethod
    def of(cls, method: RegionMethod, scene: SceneInfo) -> Prompts:
        """Checked against the scene. ModelError where nothing is inside, a prompt lies outside the picture, or one contradicts
        another."""
        if any(k not in (0, 1) for _, _, k in method.points):
            raise ModelError("A point is x, y and 1 (inside) or 0 (outside).", code="BAD_ARGUMENT")
        out = cls(tuple((x, y) for x, y, k in method.points if k), tuple((x, y) for x, y, k in method.points if not k),
                  tuple(s.line for s in method.scribbles if s.inside), tuple(s.line for s in method.scribbles if not s.inside),
                  method.box)
        if not out.inside and not out.lines_inside and out.box is None:
            raise ModelError("A prompt needs a point or scribble inside, or a box.", code="BAD_ARGUMENT", needs={"points": True})
        if out.box is not None and not (out.box[2] - out.box[0] >= 2 and out.box[3] - out.box[1] >= 2):
            raise ModelError("A box is x0, y0, x1, y1 and at least two pixels wide and high.", code="BAD_ARGUMENT")
        if any(not (0 <= x <= scene.grid.width and 0 <= y <= scene.grid.height) for x, y in out.places):
            raise ModelError(f"A prompt lies outside {scene.name}.", code="BAD_ARGUMENT")
        out._refuse_contradiction()
        return out

    def _refuse_contradiction(self) -> None:
        """ModelError where one place is marked as inside and as outside, or as inside and beyond the box."""
        for inside in (*((p,) for p in self.inside), *self.lines_inside):
            stroke = shapely.LineString([inside[0], *inside])
            for outside in (*((p,) for p in self.outside), *self.lines_outside):
                # a point stands for the pixels next to it too
                if stroke.distance(shapely.LineString([outside[0], *outside])) < MARK_PX:
                    x, y = inside[0] if len(inside) == 1 else outside[0]
                    raise ModelError(f"The prompts contradict each other: near ({x:g}, {y:g}) one place is marked as inside and "
                                     "as outside.", code="BAD_ARGUMENT")
            if self.box is not None and not shapely.box(*self.box).covers(stroke):
                raise ModelError("The prompts contradict each other: a place outside the box is marked as inside.",
                                 code="BAD_ARGUMENT")

    @property
    def places(self) -> list[tuple[float, float]]:
        corners = [(self.box[0], self.box[1]), (self.box[2], self.box[3])] if self.box else []
        return [*self.inside, *self.outside, *(p for s in (*self.lines_inside, *self.lines_outside) for p in s), *corners]

    def moved(self, dx: int, dy: int, window: Window) -> Prompts:
        """The same some pixels aside, kept inside the window."""
        c0, r0, w, h = window

        def at(place: tuple[float, float]) -> tuple[float, float]:
            return min(max(place[0] + dx, c0), c0 + w), min(max(place[1] + dy, r0), r0 + h)

        box = self.box and (*at(self.box[:2]), *at(self.box[2:]))
        strokes, others = (tuple(tuple(map(at, s)) for s in lines) for lines in (self.lines_inside, self.lines_outside))
        return Prompts(tuple(map(at, self.inside)), tuple(map(at, self.outside)), strokes, others, box)


def checked_window(method: RegionMethod, scene: SceneInfo) -> tuple[Prompts, Window]:
    """The prompts, checked as ``Prompts.of`` does, and the window about them. ModelError TOO_LARGE where that is too large."""
    prompts = Prompts.of(method, scene)
    return prompts, _window(scene, prompts.places)


def perceive_prompt(ctx: ToolContext, arguments: PerceiveArguments, scene: SceneInfo, target: str,
                    method: RegionMethod) -> ToolOutcome:
    """The mask of what the prompts show, inside the region where there is one. ModelError without a point or scribble inside or a
    box, or with one beside the region; ToolAbstainedError where the pixels about it are all masked or all alike."""
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    asked = RegionMask.of(region, region_crs, scene.grid, scene.name)
    if method.model == "best":
        method = method.model_copy(update={"model": "auto" if prompt_models() else ""})
    prompts, window = checked_window(method, scene)
    if method.model:
        window = _still_window(scene, window)
    c0, r0, w, h = window
    bands = _bands(ctx, scene)
    in_region = asked.mask(window)
    for x, y in (*prompts.inside, *(p for s in prompts.lines_inside for p in s)):
        if not in_region[min(h - 1, int(y) - r0), min(w - 1, int(x) - c0)]:
            raise ModelError(f"The prompt ({x:g}, {y:g}) marks a place outside the region.", code="BAD_REGION")
    data, valid = _planes(ctx.reader(scene.scene_id), bands, window)
    valid &= in_region
    veil = veil_of(ctx, scene, arguments)
    n_data, n_hidden = int(valid.sum()), _take_hidden(veil, window, valid)
    quality, masked = tell(ctx, veil, n_hidden, n_data, target)
    _refuse_hidden(veil, prompts, window)
    if not valid.any():
        raise ToolAbstainedError("No valid pixel is left about the prompts.", code="TOOL_FAILED", needs={"valid_px": True})
    _refuse_unseen(scene, prompts, window, valid)
    if (data[:, valid] == data[:, valid][:, :1]).all():
        raise ToolAbstainedError(f"All {int(valid.sum()):,} valid pixels about the prompts have the same value: there is no "
                                 "edge to find.", code="TOOL_FAILED", needs={"contrast": True})
    source: dict[str, JsonValue] = {"thresholds": {target: 0.5}, "band_mapping": _mapping(scene, bands),
                                    "sensor": scene.sensor or "unknown",
                                    "resolution_m": scene.effective_gsd_m}
    device, sure = "cpu", 0.0
    told_of: dict[str, JsonValue] = {}
    if method.model:
        grown, told = _by_model(ctx.reader(scene.scene_id), scene, method.model, prompts, window, valid)
        device, sure = str(told.pop("device")), float(cast(float, told.pop("score")))
        source |= told
        kept = n = int(ndimage.label(grown)[1])
        scores = [round(sure, 4)] * kept
        fine = f"prompt/{method.model}"
    else:
        image = np.stack([_scaled(p, valid) for p in data], axis=-1)
        markers = marked(prompts, window, image, valid)
        if not (markers == 1).any() or not (markers == 2).any():
            raise ModelError("The prompts leave nothing to decide: one side has no valid pixel.", code="BAD_ARGUMENT")
        if not (markers == 0).any():
            raise ModelError(f"The prompts leave nothing to decide: they and the rim fill the {h} rows and {w} columns about "
                             "them.", code="BAD_ARGUMENT")
        probability = walked(image, markers, lean=True)
        labels, n, of_it = _pieces(probability, markers, valid)
        kept, grown = len(of_it), np.isin(labels, of_it)
        held = ndimage.mean(probability, labels, of_it) if of_it else []
        scores = [round(float(v), 4) for v in np.atleast_1d(held)]
        sure = min(1.0, float(np.abs(probability[grown] - 0.5).mean() * 2)) if grown.any() else 0.0
        told_of = _histogram(probability[valid & np.isfinite(probability)])
        told_of["variants"] = cast(JsonValue, _grown_again(ctx, grown, prompts, window, image, valid))
        source["method"] = {"kind": "random_walker", "beta": BETA, "bands": [*bands], "reference": "Grady 2006, IEEE TPAMI 28"}
        fine = "prompt"
    mask, known = np.zeros(scene.grid.shape, dtype=bool), np.zeros(scene.grid.shape, dtype=bool)
    grown &= valid
    mask[r0:r0 + h, c0:c0 + w], known[r0:r0 + h, c0:c0 + w] = grown, valid
    n_true = int(grown.sum())
    # where the window ends inside the picture, a mask that reaches its rim may go on
    rim = np.zeros((h, w), bool)
    rim[0, :], rim[-1, :], rim[:, 0], rim[:, -1] = (r0 > 0, r0 + h < scene.grid.height, c0 > 0, c0 + w < scene.grid.width)
    touches = bool((grown & rim).any())
    problems = ["the mask reaches the edge of the window that was looked at; it may go on beyond"] if touches else []
    if sure < LEAST_SURENESS:
        problems.append(f"little parts the mask from what is about it (sureness {sure:.2f} of 1); mark more places, or draw a "
                        "box")
    for problem in problems:
        ctx.log("warning", problem[0].upper() + problem[1:] + ".")
    layer = ctx.layers.put_mask(mask, known, scene.grid, label=target[:120], scene_id=scene.scene_id)
    intermediate: dict[str, JsonValue] = {
        "mask_px": n_true, "candidates": n, "kept": kept, "polygons": kept, "valid_px": int(valid.sum()),
        "piece_sureness": cast(JsonValue, scores[:1000]), "numerator": n_true, "denominator": int(valid.sum()),
        "share": n_true / int(valid.sum()),
        "filters": [{"name": "pieces that hold no prompt dropped", "before": n, "after": kept}],
        "edge_px": edge_px(grown, valid), "window_px": list(window), "mean_sureness": sure, "n_inside": len(prompts.inside),
        "n_outside": len(prompts.outside), "box": list(method.box) if method.box else None,
        "scribbles_inside": len(prompts.lines_inside), "scribbles_outside": len(prompts.lines_outside),
        "n_region_px": int(in_region.sum()),
        "area": ground_searched(scene.grid, scene.effective_gsd_m, int(valid.sum()), int(in_region.sum())), **told_of, **masked}
    passed: dict[str, JsonValue] = {**arguments.model_dump(mode="json"), "region": dict(region) if region else None,
                                    "region_crs": region_crs}
    return ToolOutcome(
        configuration=Configuration(coarse="regions", fine=f"regions/{target.strip().lower().replace('/', '-')}/{fine}"[:240]),
        inputs=(input_ref(scene, bands if veil is None else (*bands, veil.band.index)),), arguments_passed=passed,
        result=Result(kind="layer", quantity=target[:120], layers=(layer,)),
        evidence=Evidence(
            source=source, intermediate=intermediate,
            validity={"layer_status": "complete", "class_complete": True, "geometry_valid": not touches, "quality_mask": quality,
                      "valid_share": float(valid.sum() / max(1, in_region.sum())), "not_for": list(NOT_FOR),
                      "applicability": {"ok": not problems, "problems": list(problems)}}),
        device=device, packages=package_versions("torch", "ultralytics", "scikit-image", "numpy") if method.model else {})


def _take_hidden(veil: Veil | None, window: Window, valid: NDArray[np.bool_]) -> int:
    """Takes what the veil hides out of ``valid`` (rows, columns) of the window; how many pixels that were."""
    if veil is None:
        return 0
    under = valid & veil.hidden(window)
    valid &= ~under
    return int(under.sum())


def _refuse_hidden(veil: Veil | None, prompts: Prompts, window: Window) -> None:
    """ToolAbstainedError where a point inside, or the whole of a stroke, marks a place that the veil hides: what is there was not
    seen."""
    c0, r0, w, h = window
    if veil is None or not (prompts.inside or prompts.lines_inside):
        return
    hidden = veil.hidden(window)
    if any(all(hidden[min(h - 1, int(y) - r0), min(w - 1, int(x) - c0)] for x, y in at)
           for at in (*((p,) for p in prompts.inside), *prompts.lines_inside)):
        raise ToolAbstainedError(f"What was pointed at lies under cloud or shadow ({veil.text}): it cannot be seen. Another date "
                                 "would do.", code="TOOL_FAILED", needs={"valid_px": True, "other_date": True})


def _refuse_unseen(scene: SceneInfo, prompts: Prompts, window: Window, valid: NDArray[np.bool_]) -> None:
    """ModelError where a point inside, or the whole of a stroke, marks pixels without data: nothing is shown there."""
    c0, r0, w, h = window
    for at in (*((p,) for p in prompts.inside), *prompts.lines_inside):
        if not any(valid[min(h - 1, int(y) - r0), min(w - 1, int(x) - c0)] for x, y in at):
            x, y = at[0]
            raise ModelError(f"The prompt ({x:g}, {y:g}) marks a pixel of {scene.name} without data.", code="BAD_ARGUMENT",
                             needs={"valid_px": True})


# --- the classical method -------------------------------------------------------------------------------------------------
def marked(prompts: Prompts, window: Window, image: NDArray[np.float64], valid: NDArray[np.bool_]) -> NDArray[np.int32]:
    """(rows, columns) of the window: 1 the thing, 2 not, 0 to be decided, -1 no data."""
    c0, r0, w, h = window
    markers = np.zeros((h, w), dtype=np.int32)
    if prompts.box is not None:
        x0, y0, x1, y1 = (round(v) for v in prompts.box)
        beyond = np.ones((h, w), dtype=bool)
        beyond[max(0, y0 - r0):max(0, y1 - r0), max(0, x0 - c0):max(0, x1 - c0)] = False
        y, x = np.mgrid[:h, :w] + 0.5
        core = (((x + c0 - (x0 + x1) / 2) / max(1.0, BOX_CORE * (x1 - x0))) ** 2
                + ((y + r0 - (y0 + y1) / 2) / max(1.0, BOX_CORE * (y1 - y0))) ** 2) <= 1
        # points and scribbles know better than the guess that a thing fills the middle of its box
        if not prompts.outside and not prompts.lines_outside:
            # but for what is of another colour there than most: the thing may be no ellipse
            apart = np.abs(image - np.median(image[core], axis=0)).max(axis=-1)
            markers[core & (apart <= max(CORE_TOLERANCE, 3 * float(np.median(apart[core]))))] = 1
        elif not prompts.inside and not prompts.lines_inside:
            markers[(y0 + y1) // 2 - r0, (x0 + x1) // 2 - c0] = 1
        markers[beyond] = 2
    else:
        # what lies at the rim of the window is taken for something else, but for the picture's own rim with a scribble outside
        if not prompts.lines_outside:
            markers[[0, -1], :] = markers[:, [0, -1]] = 2
    for points, number in ((prompts.inside, 1), (prompts.outside, 2)):
        for px, py in points:
            r, c = min(h - 1, int(py) - r0), min(w - 1, int(px) - c0)
            markers[max(0, r - 1):r + 2, max(0, c - 1):c + 2] = number
    if prompts.box is None:
        _spread(markers, image, prompts, window)
    for lines, number in ((prompts.lines_inside, 1), (prompts.lines_outside, 2)):
        for stroke in lines:
            at = [(min(h - 1, int(v) - r0), min(w - 1, int(u) - c0)) for u, v in stroke]
            for (ra, ca), (rb, cb) in zip(at, at[1:] or at, strict=False):
                rows, columns = cast(Any, line)(ra, ca, rb, cb)
                markers[rows, columns] = number
    markers[~valid] = -1
    return markers


def _spread(markers: NDArray[np.int32], image: NDArray[np.float64], prompts: Prompts, window: Window) -> None:
    """Lets every point stand for its like about it: a walker that starts from one pixel is outvoted by the rim."""
    c0, r0, w, h = window
    smooth = np.stack([ndimage.gaussian_filter(image[..., k], 1.0) for k in range(image.shape[-1])], axis=-1)
    y, x = np.mgrid[:h, :w]
    for points, number in ((prompts.inside, 1), (prompts.outside, 2)):
        for px, py in points:
            r, c = min(h - 1, int(py) - r0), min(w - 1, int(px) - c0)
            like = np.abs(smooth - smooth[r, c]).max(axis=-1) < SEED_TOLERANCE
            like &= (y - r) ** 2 + (x - c) ** 2 < SEED_RADIUS_PX ** 2
            labels, _ = ndimage.label(like)
            markers[(labels == labels[r, c]) & like & (markers == 0)] = number


def _pieces(probability: NDArray[np.float64], markers: NDArray[np.int32], valid: NDArray[np.bool_]
            ) -> tuple[NDArray[np.int32], int, list[int]]:
    """(numbers of the connected pieces that are likelier the thing than not, how many, which of them hold a prompt)."""
    labels, n = ndimage.label((probability > 0.5) & valid)
    return labels, n, sorted(set(np.unique(labels[markers == 1]).tolist()) - {0})


def _grown_again(ctx: ToolContext, first: NDArray[np.bool_], prompts: Prompts, window: Window, image: NDArray[np.float64],
                 valid: NDArray[np.bool_]) -> list[dict[str, JsonValue]]:
    """How the mask comes out otherwise: by other settings of the walker, without its leaning to colours, and from marks a little
    aside. Each with its pixels and its overlap (IoU) with the first."""
    ways: list[tuple[str, Prompts, dict[str, Any]]] = [
        *((f"beta {beta:g}", prompts, {"beta": beta}) for beta in OTHER_BETAS),
        ("colours of the marks not used", prompts, {"lean": False}),
        *((f"marks moved by {dx:+d}, {dy:+d} px", prompts.moved(dx, dy, window), {}) for dx, dy in ASIDE_PX)]
    out: list[dict[str, JsonValue]] = []
    for at, (how, there, settings) in enumerate(ways):
        markers = marked(there, window, image, valid)
        again = np.zeros_like(first)
        if (markers == 1).any() and (markers == 2).any():
            labels, _, of_it = _pieces(walked(image, markers, **{"lean": True, **settings}), markers, valid)
            again = np.isin(labels, of_it)
        common, union = int((again & first).sum()), int((again | first).sum())
        out.append({"how": how, "mask_px": int(again.sum()), "iou": round(common / union, 4) if union else 1.0})
        ctx.progress(at + 1, len(ways), "Growing the mask again")
    return out


def walked(image: NDArray[np.float64], markers: NDArray[np.int32], *, lean: bool, beta: float = BETA) -> NDArray[np.float64]:
    """The walker's probability of marker 1, (rows, columns). ``lean``: how much likelier a colour is among the marked pixels of
    the thing than among the others (normal models) counts as one more band."""
    if lean:
        one, other = image[markers == 1], image[markers == 2]
        gain = np.zeros(image.shape[:2])
        for sample, sign in ((one, 1.0), (other, -1.0)):
            mean, variance = sample.mean(axis=0), sample.var(axis=0) + 0.05**2
            gain -= sign * 0.5 * (((image - mean) ** 2 / variance).sum(axis=-1) + np.log(variance).sum())
        image = np.concatenate([image, (1 / (1 + np.exp(-np.clip(gain, -20, 20))))[..., None]], axis=-1)
    if not (markers == 0).any():
        return np.asarray(markers == 1, dtype=np.float64)
    rows, columns = markers.shape
    narrow = (0, max(0, LEAST_SIDE_PX - rows)), (0, max(0, LEAST_SIDE_PX - columns))
    image, markers = np.pad(image, (*narrow, (0, 0)), mode="edge"), np.pad(markers, narrow, mode="edge")
    found = cast(NDArray[np.float64], cast(Any, random_walker)(
        image, markers, beta=beta, mode="cg_j", tol=1e-4, prob_tol=0.05, channel_axis=-1, return_full_prob=True))
    return np.asarray(found[0], dtype=np.float64)[:rows, :columns]


def _histogram(probability: NDArray[np.float64]) -> dict[str, JsonValue]:
    """How sure the walker was of the window's valid pixels: counts of 20 classes of probability, and quantiles."""
    if not probability.size:
        return {}
    counts, _ = np.histogram(probability.clip(0, 1), 20, (0, 1))
    at = (0, .1, .25, .5, .75, .9, 1)
    return {"histogram": {"counts": [int(c) for c in counts], "low": 0.0, "high": 1.0},
            "score_quantiles": [round(float(v), 4) for v in np.quantile(probability.clip(0, 1), at)]}


# --- models of the zoo ----------------------------------------------------------------------------------------------------
def _by_model(reader: RasterReader, scene: SceneInfo, name: str, prompts: Prompts, window: Window, valid: NDArray[np.bool_]
              ) -> tuple[NDArray[np.bool_], dict[str, JsonValue]]:
    """(mask of the window, what the evidence says of the model). Scribbles are given as points along them."""
    from apps.tools.perceive.objects import Pixels, colour_bands

    if name == "auto":
        held = prompt_models()
        if not held:
            raise ToolAbstainedError("The model zoo has no promptable model; add one with `./rsure models add FILE --task "
                                     "prompt`, or leave the model out for the classical method.", code="MODEL_MISSING",
                                     needs={"model": "prompt"})
        card, path = held[0]
    else:
        card, path = model_named(name)
    if card.task != "prompt":
        raise ModelError(f"{card.name} is a model for {card.task}; it takes no prompts.", code="BAD_ARGUMENT")
    bands, _ = colour_bands(scene, card)
    picture, _ = Pixels(reader, bands, scene).read(window)
    c0, r0, _, _ = window

    def local(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        return [(x - c0, y - r0) for x, y in points]

    box = prompts.box
    prompter = load_prompter(card, path)
    mask, score = prompter.mask(
        picture, inside=local([*prompts.inside, *(p for s in prompts.lines_inside for p in _along(s))]),
        outside=local([*prompts.outside, *(p for s in prompts.lines_outside for p in _along(s))]),
        box=None if box is None else (box[0] - c0, box[1] - r0, box[2] - c0, box[3] - r0))
    return mask & valid, {
        "weights": [{"name": card.name, "version": card.version, "digest": card.sha256, "licence": card.licence,
                     "task": card.task, "architecture": card.architecture}],
        "method": {"kind": card.architecture, "bands": [*bands], "guessed_iou": round(score, 4),
                   "reference": "Kirillov et al. 2023"},
        "device": prompter.device, "score": max(0.0, min(1.0, score))}


def _along(stroke: Sequence[tuple[float, float]], most: int = 8) -> list[tuple[float, float]]:
    """Up to ``most`` places evenly along a stroke."""
    at = np.asarray(stroke, float)
    if len(at) == 1:
        return [(float(at[0, 0]), float(at[0, 1]))]
    run = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(at, axis=0).T))])
    where = np.linspace(0, run[-1], min(most, max(2, len(at))))
    return [(float(np.interp(t, run, at[:, 0])), float(np.interp(t, run, at[:, 1]))) for t in where]


# --- refinement -----------------------------------------------------------------------------------------------------------
def perceive_refined(ctx: ToolContext, arguments: PerceiveArguments, scene: SceneInfo, target: str,
                     method: RegionMethod) -> ToolOutcome:
    """The mask of an earlier observation with its edge laid anew, by at most ``band_px`` pixels. ModelError without a seed on the
    scene's own grid."""
    if method.seed is None:
        raise ModelError("refine needs a seed: an earlier observation with a mask.", code="BAD_ARGUMENT", needs={"seed": True})
    parent = ctx.parent(method.seed.observation)
    if parent.status.state == "failed":
        raise ModelError(f"The observation to refine failed: {parent.status.reason}", code="TOOL_FAILED")
    masks = [x for x in parent.result.layers if x.kind == "mask" and (not method.seed.label or x.label == method.seed.label)]
    if not masks:
        raise ModelError("The observation to refine has no such mask.", code="BAD_ARGUMENT")
    if masks[0].grid is not None and masks[0].grid != scene.grid:
        raise ModelError("The mask lies on another grid than the scene; only a mask of the same scene is refined.",
                         code="BAD_ARGUMENT")
    if scene.grid.width * scene.grid.height > REFINE_LIMIT_PX:
        raise ModelError(f"{scene.name} is too large to refine a mask on: {REFINE_LIMIT_PX / 1e6:.0f} million pixels at most.",
                         code="TOO_LARGE")
    first, known = ctx.layers.read_mask(masks[0])
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    in_region = RegionMask.of(region, region_crs, scene.grid, scene.name).mask((0, 0, scene.grid.width, scene.grid.height))
    known = known & in_region
    first = first & known
    if not known.any():
        raise ToolAbstainedError("No pixel of the mask to refine is valid.", code="TOOL_FAILED", needs={"valid_px": True})
    bands = _bands(ctx, scene)
    # a mask that was drawn, or made without the veil, may hold what nobody saw
    veil = veil_of(ctx, scene, arguments)
    n_hidden = 0
    for window in _strips(scene):
        c0, r0, w, h = window
        here = np.s_[r0:r0 + h, c0:c0 + w]
        _, has_data = _planes(ctx.reader(scene.scene_id), bands, window)
        known[here] &= has_data
        if veil is not None:
            under = veil.hidden(window) & in_region[here] & has_data
            n_hidden += int(under.sum())
            known[here] &= ~under
    first = first & known
    quality, masked = tell(ctx, veil, n_hidden, n_hidden + int(known.sum()), target)
    refined, decided, sure = refine(ctx, scene, first, known, method.band_px, bands)
    n_first, n_now = int(first.sum()), int(refined.sum())
    if not decided:
        why = "it is empty" if not n_first else "it fills all that could be seen" if n_first == int(known.sum()) else (
            f"no part of it, or of what is about it, is thicker than the {method.band_px} pixels by which the edge may move")
        raise ToolAbstainedError(f"The mask to refine has no edge that could be laid anew: {why}.", code="TOOL_FAILED",
                                 needs={"seed": True})
    common = int((first & refined).sum())
    if n_first and not n_now:
        ctx.log("warning", "Nothing is left of the mask: its pieces are thinner than the band in which the edge may move.")
    layer = ctx.layers.put_mask(refined, known, scene.grid, label=target[:120], scene_id=scene.scene_id)
    pieces = int(ndimage.label(refined)[1])
    return ToolOutcome(
        configuration=Configuration(coarse="regions", fine=f"regions/{target.strip().lower().replace('/', '-')}/refine"[:240]),
        inputs=(input_ref(scene, bands if veil is None else (*bands, veil.band.index)),),
        arguments_passed={**arguments.model_dump(mode="json"), "region": dict(region) if region else None,
                          "region_crs": region_crs},
        result=Result(kind="layer", quantity=target[:120], layers=(layer,)),
        evidence=Evidence(
            source={"method": {"kind": "random_walker", "beta": BETA, "bands": [*bands], "band_px": method.band_px,
                               "seed": {"observation": parent.id, "artifact": masks[0].artifact},
                               "reference": "Grady 2006, IEEE TPAMI 28"},
                    "thresholds": {target: 0.5}, "band_mapping": _mapping(scene, bands), "sensor": scene.sensor or "unknown",
                    "resolution_m": scene.effective_gsd_m},
            # what the first mask or the new one held could be kept
            intermediate={"mask_px": n_now, "candidates": n_first + n_now - common, "kept": n_now, "polygons": pieces,
                          "valid_px": int(known.sum()), "edge_px": edge_px(refined, known), "mask_px_before": n_first,
                          "added_px": n_now - common, "removed_px": n_first - common, "decided_px": decided,
                          "iou_with_seed": common / max(1, n_first + n_now - common), "mean_sureness": min(1.0, sure),
                          "n_region_px": int(in_region.sum()), "piece_sureness": [round(min(1.0, sure), 4)],
                          "numerator": n_now, "denominator": int(known.sum()), "share": n_now / int(known.sum()),
                          "filters": [{"name": "pixels beyond the new edge dropped", "before": n_first + n_now - common,
                                       "after": n_now}],
                          "area": ground_searched(scene.grid, scene.effective_gsd_m, int(known.sum()), int(in_region.sum())),
                          **masked},
            validity={"layer_status": "complete", "class_complete": True, "geometry_valid": True, "quality_mask": quality,
                      "valid_share": float(known.sum() / max(1, in_region.sum())), "not_for": list(NOT_FOR),
                      "applicability": {"ok": True, "problems": []}}))


def _strips(scene: SceneInfo, rows: int = 512) -> list[Window]:
    return [(0, r, scene.grid.width, min(rows, scene.grid.height - r)) for r in range(0, scene.grid.height, rows)]


def refine(ctx: ToolContext, scene: SceneInfo, first: NDArray[np.bool_], known: NDArray[np.bool_], band_px: int,
           bands: Sequence[int]) -> tuple[NDArray[np.bool_], int, float]:
    """(mask, pixels that were decided anew, how sure the walker was of them). Pixels deeper than ``band_px`` inside or outside
    keep their side; thinner pieces keep their innermost pixels. Works tile by tile where an edge lies."""
    depth = ndimage.distance_transform_edt(first)
    far = ndimage.distance_transform_edt(~first)
    # the innermost pixels of thin pieces stand for them
    ridge = first & (depth >= ndimage.maximum_filter(depth, size=2 * band_px + 1)) & (depth <= band_px)
    inner, outer = (depth > band_px) | ridge, (far > band_px) & ~first
    out, decided, sureness = first.copy(), 0, 0.0
    reader = ctx.reader(scene.scene_id)
    margin = 3 * band_px + 8
    height, width = first.shape
    tiles = [(r, c) for r in range(0, height, REFINE_TILE_PX) for c in range(0, width, REFINE_TILE_PX)]
    for at, (r, c) in enumerate(tiles):
        core = np.s_[r:r + REFINE_TILE_PX, c:c + REFINE_TILE_PX]
        open_px = ~inner[core] & ~outer[core] & known[core]
        ctx.progress(at + 1, len(tiles), "Laying the edge")
        if not open_px.any():
            continue
        r0, c0 = max(0, r - margin), max(0, c - margin)
        r1, c1 = min(height, r + REFINE_TILE_PX + margin), min(width, c + REFINE_TILE_PX + margin)
        here = np.s_[r0:r1, c0:c1]
        data, valid = _planes(reader, bands, (c0, r0, c1 - c0, r1 - r0))
        valid = valid & known[here]
        markers = np.where(inner[here], 1, np.where(outer[here], 2, 0)).astype(np.int32)
        markers[~valid] = -1
        if not (markers == 1).any() or not (markers == 2).any():
            continue
        image = np.stack([_scaled(p, valid) for p in data], axis=-1)
        # the first mask counts too, the less the nearer to its edge
        signed = np.where(first[here], depth[here], -far[here]) / band_px
        probability = (1 - SEED_WEIGHT) * walked(image, markers, lean=True) + SEED_WEIGHT * (0.5 + 0.5 * np.clip(signed, -1, 1))
        part = np.s_[r - r0:r - r0 + open_px.shape[0], c - c0:c - c0 + open_px.shape[1]]
        now = probability[part]
        settled = open_px & valid[part] & np.isfinite(now)
        out[core] = np.where(settled, now > 0.5, out[core])
        decided += int(settled.sum())
        sureness += float(np.abs(now[settled] - 0.5).sum() * 2)
    return out & known, decided, sureness / max(1, decided)


def _bands(ctx: ToolContext, scene: SceneInfo) -> list[int]:
    """Up to four bands of brightness. ToolAbstainedError NEEDS_BANDS where all bands are names, flags or margins."""
    if scene.dtype.startswith("complex"):
        ctx.log("info", AMPLITUDE_NOTE)
    known = [scene.bands_with_role(r)[0].index for r in _ROLES if len(scene.bands_with_role(r)) == 1][:4]
    if known:
        return known
    bright = [b.index for b in scene.bands if b.role not in _NO_BRIGHTNESS]
    if not bright:
        raise ToolAbstainedError(f"{scene.name} has no band of brightness ({', '.join(b.role for b in scene.bands)}); numbers of "
                                 "classes and flags have no edges to follow.", code="NEEDS_BANDS", needs={"roles": ["gray"]})
    ctx.log("info", f"Edges are looked for in band {bright[0]} ({scene.bands[bright[0] - 1].role}).")
    return bright[:1]


def _mapping(scene: SceneInfo, bands: Sequence[int]) -> dict[str, JsonValue]:
    """Which bands were looked at, by role (by number where several are of one)."""
    held = [next(b for b in scene.bands if b.index == i) for i in bands]
    roles = [b.role for b in held]
    return {scene.scene_id: {b.role if roles.count(b.role) == 1 else f"band {b.index}": b.index for b in held}}


def _planes(reader: RasterReader, bands: Sequence[int], window: Window) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """float64 (bands, rows, columns), amplitude for complex samples, and where all bands are valid (rows, columns)."""
    read = reader.read(bands, window, physical=not reader.info.dtype.startswith("complex"))
    data = np.asarray(real(read.data), dtype=np.float64)
    return data, np.asarray(read.valid.all(axis=0) & np.isfinite(data).all(axis=0))


def _window(scene: SceneInfo, places: list[tuple[float, float]]) -> Window:
    xs, ys = [p[0] for p in places], [p[1] for p in places]
    left, top = max(0, int(min(xs)) - MARGIN_PX), max(0, int(min(ys)) - MARGIN_PX)
    right, bottom = min(scene.grid.width, int(max(xs)) + MARGIN_PX), min(scene.grid.height, int(max(ys)) + MARGIN_PX)
    if right - left > MAX_SIDE_PX or bottom - top > MAX_SIDE_PX:
        raise ModelError(f"The prompts span more than {MAX_SIDE_PX - 2 * MARGIN_PX} pixels; prompt smaller things one by one.",
                         code="TOO_LARGE")
    return left, top, right - left, bottom - top


def _still_window(scene: SceneInfo, about: Window) -> Window:
    """The least of MODEL_WINDOWS inside the picture that holds all of ``about``: the same for prompts that lie close by."""
    left, top, width, height = about
    side, step = next((s, d) for s, d in MODEL_WINDOWS if max(width, height) <= s - d)
    w, h = min(side, scene.grid.width), min(side, scene.grid.height)
    return min(left // step * step, scene.grid.width - w), min(top // step * step, scene.grid.height - h), w, h


def _scaled(plane: NDArray[np.float64], valid: NDArray[np.bool_]) -> NDArray[np.float64]:
    low, high = np.percentile(plane[valid], [2, 98])
    out: NDArray[np.float64] = np.clip((plane - low) / (high - low if high > low else 1.0), 0, 1)
    return np.where(valid, out, 0.5)
