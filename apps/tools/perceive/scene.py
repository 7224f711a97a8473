"""perceive, mode ``scene``: what kind of place a picture shows, as calibrated probabilities over the asked classes.

The model is chosen by GSD and sensor. A large picture is looked at in windows of the size that the model knows on the ground; the
probabilities are their mean, and each label says how many windows it fills. Windows that are like none of the model's classes are
left out (their scope score lies below the threshold of the card); where most are, there is no class.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import NOT_SEEN, Configuration, Evidence, LayerRef, Result
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.tools.contract import PerceiveArguments, ToolContext, ToolOutcome, input_ref
from apps.tools.perceive.looking import AMPLITUDE_NOTE, LookedAt, look_over, on_scene, refuse_unseen, resampling_note
from apps.tools.perceive.objects import Pixels, colour_bands
from apps.tools.perceive.veil import Veil, ground_searched, tell, veil_of
from apps.tools.region import RegionMask
from apps.tools.zoo.cards import ModelCard, normal
from apps.tools.zoo.classifiers import Classifier, load_classifier
from apps.tools.zoo.detectors import resampled
from apps.tools.zoo.registry import model_named, models
from apps.tools.zoo.runtime import package_versions

MOST_WINDOWS = 49
# Patches of 64 pixels cost less; a whole Sentinel-2 granule has 29,000 of them and is sampled.
MOST_SMALL_WINDOWS = 784
# From this share of windows out of the model's scope on, the answer over the others says so.
MOST_OUTSIDE = 0.1
# A label wins only where it is this probable; below, the tool says which labels it wavers between.
LEAST_PROBABILITY = 0.5
# A strip of fewer rows or columns than this shows no place.
LEAST_SIDE_PX = 16


def choose_model(labels: Sequence[str], scene: SceneInfo, name: str = "auto") -> ModelCard:
    """The classifier that was made for this GSD and sensor and knows most labels.

    ToolAbstainedError: NEEDS_GSD where nobody knows the GSD, MODEL_MISSING where no model was made for it or knows a label.
    """
    if name != "auto":
        card = model_named(name)[0]
        if card.task != "classify":
            raise ToolAbstainedError(f"{name} is no scene classifier.", code="MODEL_MISSING", needs={"model": "scene classifier"})
        return card
    pool = [card for card, _ in models() if card.task == "classify"]
    if not pool:
        raise ToolAbstainedError("No scene classifier is in the zoo. Add one with `./rsure models add FILE`.",
                                 code="MODEL_MISSING", needs={"model": "scene classifier"})
    gsd = scene.effective_gsd_m
    made_for = "; ".join(f"{c.name}: {c.gsd_m[0]:g} to {c.gsd_m[1]:g} m, {c.sensors}" for c in pool if c.gsd_m)
    if gsd is None:
        raise ToolAbstainedError("Nobody knows how many metres a pixel has, and each scene classifier was made for one size of "
                                 f"pixel ({made_for}). Say the GSD.", code="NEEDS_GSD", needs={"gsd_m": True})
    fitting = [c for c in pool if c.is_for_gsd(gsd)]
    if not fitting:
        raise ToolAbstainedError(f"No scene classifier here was made for {gsd:g} m a pixel ({made_for}).", code="MODEL_MISSING",
                                 needs={"model": "scene classifier", "gsd_m": gsd})
    suited = [c for c in fitting if _suits_sensor(c, scene) is not False]
    if not suited:
        raise ToolAbstainedError(f"No scene classifier here was made for {scene.sensor} at {gsd:g} m a pixel ({made_for}).",
                                 code="MODEL_MISSING", needs={"model": "scene classifier", "sensor": scene.sensor})
    best = max(suited, key=lambda c: (sum(1 for w in labels if _classes_of(c, w)), c.gsd_m is not None))
    if labels and not any(_classes_of(best, w) for w in labels):
        raise ToolAbstainedError(f"No scene classifier here for {gsd:g} m a pixel knows {', '.join(labels)}; {best.name} knows "
                                 f"{', '.join(best.class_names)}.", code="MODEL_MISSING", needs={"model": "scene classifier"})
    return best


def _suits_sensor(card: ModelCard, scene: SceneInfo) -> bool | None:
    """Whether the scene's sensor is one that the model was made for; None where it is not known."""
    if not card.sensor_words:
        return True
    return any(w in scene.sensor.lower() for w in card.sensor_words) if scene.sensor else None


def _classes_of(card: ModelCard, label: str) -> list[int]:
    """Class numbers that a label covers: its own name or synonym, or every class that names the label as broader word."""
    wanted = normal(label)
    return [k for k, c in enumerate(card.classes) if wanted in {normal(w) for w in (c.name, *c.synonyms, *c.near)}]


def perceive_scene(ctx: ToolContext, args: PerceiveArguments) -> ToolOutcome:
    """The class of the first scene (or of the region in it) over ``args.label_space``, or over the model's own classes.

    The value is null where the picture is out of the model's scope or no label reaches LEAST_PROBABILITY; the reason says which.
    """
    began = time.monotonic()
    scene = ctx.scene(args.image_paths[0])
    labels = tuple(dict.fromkeys(args.label_space))
    wanted = args.options.get("classifier", "auto")
    card = choose_model(labels, scene, str(wanted))
    path = model_named(card.name)[1]
    cover = {label: _classes_of(card, label) for label in labels} if labels else {c.name: [k] for k, c in enumerate(card.classes)}
    twice = [a for i, a in enumerate(labels) for b in labels[:i] if set(cover[a]) & set(cover[b])]
    if twice:
        raise ModelError(f"The labels overlap: {', '.join(twice)} and another label mean the same class of the model.",
                         code="BAD_ARGUMENT")
    classifier = load_classifier(card, path)
    bands, grey = colour_bands(scene, card)
    region = RegionMask.of(args.region, args.region_crs, scene.grid, scene.name or "the scene")
    own = ctx.reader(scene.scene_id)
    reader = LookedAt(own)
    veil = veil_of(ctx, scene, args)
    seen = look_over(own, bands, region, ctx.is_cancelled, veil.hidden if veil is not None else None)
    refuse_unseen(seen, scene, "a kind of place", least_px=LEAST_SIDE_PX, needs_contrast=False, needs_tones=True)
    quality, masked = tell(ctx, veil, seen.hidden_px, seen.hidden_px + seen.valid_px, "the kind of place")
    if reader.is_complex:
        ctx.log("info", AMPLITUDE_NOTE)
    if reader.is_resampled:
        ctx.log("info", resampling_note(reader))
    source = Pixels(reader, bands, reader.info)
    problems = [*_misfits(card, scene, grey), *_show(source, card, scene)]
    images, windows, unseen, possible = _look(ctx, source, reader.region(region), card, reader.info, veil, reader)
    if not images:
        raise ToolAbstainedError("The scene has no window with enough valid pixels that can be seen.", code="TOOL_FAILED")
    looked = time.monotonic()
    logits, features = classifier.look(images)
    looked = time.monotonic() - looked
    view = _judge(classifier, logits, features, cover)
    ranked = sorted(((w, v) for w, v in view.p.items() if v is not None), key=lambda i: -i[1])
    top = ranked[0][0]
    unknown = [label for label in labels if not cover[label]]
    gsd, looked_gsd = scene.effective_gsd_m, reader.info.effective_gsd_m
    reason = _no_answer(view, card, ranked)
    n_outside = int((~view.inside).sum())
    if view.in_scope and n_outside > MOST_OUTSIDE * len(images):
        problems.append(f"{n_outside} of {len(images)} windows are like none of the model's classes and were left out")
    for line in (*problems, *([reason] if reason else ())):
        ctx.log("warning", line)
    items: list[dict[str, JsonValue]] = [{"class": label, "p": round(v, 4), **view.figures(label)} for label, v in ranked[:100]]
    top_k = np.argsort(-view.mean)[:5]
    layers: tuple[LayerRef, ...] = () if len(images) < 2 else (ctx.layers.put_features(
        _window_features([on_scene(w, reader) for w in windows], view), kind="polygons", crs="image", label="windows",
        scene_id=scene.scene_id),)
    if unseen:
        layers += (ctx.layers.put_features(
            [{"type": "Feature", "geometry": _rectangle(on_scene(w, reader)), "properties": {"class": NOT_SEEN}}
             for w in unseen],
            kind="polygons", crs="image", label=NOT_SEEN, scene_id=scene.scene_id),)
        ctx.log("info", f"{len(unseen)} windows lie under cloud or shadow for the most part and were left out.")
    in_range = gsd is not None and card.is_for_gsd(gsd)
    return ToolOutcome(
        configuration=Configuration(coarse="scene", fine=f"scene/{card.name}"),
        result=Result(kind="class", value=None if reason else top, quantity="kind of place", items=tuple(items), layers=layers),
        evidence=Evidence(
            source={"weights": [{"name": card.name, "version": card.version, "digest": card.sha256, "licence": card.licence,
                                 "task": card.task, "gsd_m": list(card.gsd_m) if card.gsd_m else None, "sensors": card.sensors}],
                    "thresholds": {"probability": LEAST_PROBABILITY, "scope": card.scope_threshold},
                    "sensor": scene.sensor or "unknown", "resolution_m": gsd, "stretch": source.stretch,
                    "temperature": card.temperature},
            # scores are those of what is kept, as of detections; every label's probability is in label_probabilities
            intermediate={"scores": [] if reason else [round(ranked[0][1], 4)], "classes": [] if reason else [top],
                          "label_probabilities": {label: round(v, 4) for label, v in ranked[:100]},
                          "candidates": len(ranked), "kept": 0 if reason else 1,
                          "filters": [{"name": "windows that cannot be seen", "before": len(images) + len(unseen),
                                       "after": len(images)},
                                      {"name": "windows in the model's scope", "before": len(images),
                                       "after": len(images) - n_outside},
                                      {"name": "labels that are the likeliest and likely enough", "before": len(ranked),
                                       "after": 0 if reason else 1}],
                          "probability_of_others": round(view.rest, 4),
                          "top_of_the_model": [{"class": card.classes[k].name, "p": round(float(view.mean[k]), 4)}
                                               for k in top_k.tolist()],
                          "valid_px": seen.valid_px, "n_region_px": seen.asked_px,
                          "windows": len(images), "windows_possible": possible, "windows_out_of_scope": n_outside,
                          "windows_not_seen": len(unseen),
                          "area": ground_searched(scene.grid, gsd, seen.valid_px, seen.asked_px), **masked,
                          "looked_at": reader.told(), "window_px": [round(v, 2) for v in on_scene(windows[0], reader)[2:]],
                          "window_m": None if gsd is None or looked_gsd is None else round(looked_gsd * windows[0][2], 1),
                          "scope_score": None if view.scope is None else round(view.scope, 3),
                          "agreement_of_windows": round(view.agreement, 3), "spread": round(view.spread, 3),
                          "seconds_per_window": round(looked / len(images), 5),
                          "elapsed_s": round(time.monotonic() - began, 3)},
            validity={"layer_status": "complete", "class_complete": not unknown, "geometry_valid": True,
                      "valid_share": seen.share, "quality_mask": quality,
                      "unknown_labels": list(unknown), "in_scope": view.in_scope, "gsd_known": gsd is not None,
                      "in_gsd_range": in_range, "sensor_suits": _suits_sensor(card, scene),
                      "applicability": {"ok": view.in_scope and not problems, "problems": [*problems, *(
                          [] if view.in_scope else ["the picture is like none of the model's classes"])]},
                      "not_for": list(card.not_for)}),
        inputs=(input_ref(scene, bands if veil is None else (*bands, veil.band.index)),),
        arguments_passed=args.model_dump(mode="json"),
        state="partial" if reason or unknown else "ok",
        reason=reason or (f"The model does not know {', '.join(unknown)}." if unknown else ""),
        device=classifier.device, packages=package_versions("torch", "numpy"))


# --- one model, many windows ----------------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class _View:
    """What the windows of a scene say together; probabilities are means over the windows that are in the model's scope."""

    each: NDArray[np.float64]               # (windows, labels and one for all else)
    names: tuple[str, ...]                  # of the columns of ``each`` without the last
    mean: NDArray[np.float64]               # (classes of the model,)
    inside: NDArray[np.bool_]               # (windows,), in the model's scope
    scores: NDArray[np.float64] | None      # scope scores by window
    p: dict[str, float | None]
    agreement: float

    @property
    def in_scope(self) -> bool:
        return bool(self.inside.mean() >= 0.5)

    @property
    def scope(self) -> float | None:
        return None if self.scores is None else float(np.median(self.scores))

    @property
    def rest(self) -> float:
        return max(0.0, 1.0 - sum(v for v in self.p.values() if v is not None))

    @property
    def _counted(self) -> NDArray[np.float64]:
        return self.each[self.inside] if self.inside.any() else self.each

    @property
    def spread(self) -> float:
        """0: every window is of one kind; 1: all kinds are equally frequent. Entropy of the windows' likeliest kinds."""
        share = np.bincount(self._counted.argmax(1), minlength=self.each.shape[1]) / len(self._counted)
        share = share[share > 0]
        return float(-(share * np.log(share)).sum() / np.log(self.each.shape[1])) if len(share) > 1 else 0.0

    def figures(self, label: str) -> dict[str, JsonValue]:
        """How a label's probability lies over the windows; {} for a picture of one window."""
        if len(self.each) < 2:
            return {}
        k, rows = self.names.index(label), self._counted
        low, high = np.percentile(rows[:, k], (10, 90))
        n = int((rows.argmax(1) == k).sum())
        return {"windows": n, "share_of_windows": round(n / len(rows), 4), "p10": round(float(low), 4),
                "p90": round(float(high), 4)}


def _judge(classifier: Classifier, logits: NDArray[np.float64], features: NDArray[np.float64], cover: dict[str, list[int]]
           ) -> _View:
    each = classifier.probabilities(logits)
    scope = classifier.scope_score(features)
    least = classifier.card.scope_threshold
    inside = np.ones(len(each), bool) if scope is None or least is None else scope >= least
    mean = (each[inside] if inside.any() else each).mean(axis=0)
    names = tuple(label for label, index in cover.items() if index)
    columns = [each[:, cover[label]].sum(1) for label in names]
    rest = np.clip(1 - np.sum(columns, axis=0), 0, 1)
    return _View(each=np.stack([*columns, rest], 1), names=names, mean=mean, inside=inside, scores=scope,
                 p={label: float(mean[index].sum()) if index else None for label, index in cover.items()},
                 agreement=float((each.argmax(axis=1) == int(np.argmax(mean))).mean()))


def _no_answer(view: _View, card: ModelCard, ranked: Sequence[tuple[str, float]]) -> str:
    """Why no label is the answer; empty where one is."""
    n, (top, best) = len(view.each), ranked[0]
    if not view.in_scope:
        assert view.scope is not None and card.scope_threshold is not None
        which = "The picture is" if n == 1 else f"{int((~view.inside).sum())} of {n} windows are"
        return (f"{which} like none of the {len(card.classes)} kinds of place that {card.name} was made for "
                f"(scope score {view.scope:.2f}, at least {card.scope_threshold:.2f} is asked).")
    if view.rest > best:
        return f"The picture looks like {card.classes[int(np.argmax(view.mean))].name}, which is none of the asked labels."
    # a window that is like no kind is of none: what the others show does not stand for it
    known = float(view.inside.mean())
    if best * known < LEAST_PROBABILITY:
        if n > 1:
            beside = f", {int((~view.inside).sum())} of them like none of its kinds" if known < 1 else ""
            return (f"The scene is mixed, no kind fills half of it: "
                    f"{', '.join(f'{label} {v * known:.0%}' for label, v in ranked[:3])} (mean over {n} windows{beside}).")
        second = f" and {ranked[1][0]} ({ranked[1][1]:.0%})" if len(ranked) > 1 else ""
        return f"No label is likely enough: {top} ({best:.0%}){second}."
    return ""


def _window_features(windows: Sequence[tuple[float, float, float, float]], view: _View) -> list[dict[str, Any]]:
    """One rectangle a window with its likeliest label, for the map."""
    out = []
    for k, (x, y, w, h) in enumerate(windows):
        at = int(view.each[k].argmax())
        name = "out of scope" if not view.inside[k] else view.names[at] if at < len(view.names) else "another kind"
        out.append({"type": "Feature", "geometry": _rectangle((x, y, w, h)),
                    "properties": {"class": name, "score": round(float(view.each[k, at]), 4)}})
    return out


def _rectangle(window: tuple[float, float, float, float]) -> dict[str, Any]:
    x, y, w, h = window
    return {"type": "Polygon", "coordinates": [[[x, y], [x + w, y], [x + w, y + h], [x, y + h], [x, y]]]}


# --- pictures -------------------------------------------------------------------------------------------------------------
def _misfits(card: ModelCard, scene: SceneInfo, grey: bool) -> list[str]:
    """In which ways a scene is not what the model was made for."""
    out = []
    gsd = scene.effective_gsd_m
    if grey:
        out.append("one grey band instead of colour")
    if gsd is None:
        out.append("the GSD is not known; the whole picture was taken as one view")
    elif card.gsd_m is not None and not card.is_for_gsd(gsd):
        out.append(f"{gsd:g} m a pixel is outside the {card.gsd_m[0]:g} to {card.gsd_m[1]:g} m that {card.name} was made for")
    suits = _suits_sensor(card, scene)
    if suits is None:
        out.append(f"the sensor is not known; {card.name} was made for {card.sensors}")
    elif not suits:
        out.append(f"{scene.sensor} is not what {card.name} was made for ({card.sensors})")
    return out


def _show(source: Pixels, card: ModelCard, scene: SceneInfo) -> list[str]:
    """Shows reflectance as the model's training pictures did, and says where that cannot be done."""
    if card.reflectance_range is None:
        return []
    if scene.dtype == "uint8":
        return []
    units = {b.unit for b in scene.bands if b.index in source.bands}
    if units != {"reflectance"}:
        low, high = card.reflectance_range
        return [f"the bands are not known to be reflectance: the picture was stretched by percentiles, not {low:g} to {high:g}"]
    low, high = card.reflectance_range
    source.low, source.high = np.full(len(source.bands), low), np.full(len(source.bands), high)
    source.stretch = {"kind": "reflectance, as in the model's training pictures", "low": low, "high": high}
    return []


def _look(ctx: ToolContext, source: Pixels, region: RegionMask, card: ModelCard, scene: SceneInfo, veil: Veil | None,
          reader: LookedAt) -> tuple[list[NDArray[np.uint8]], list[Window], list[Window], int]:
    """(pictures, their windows, windows that the veil hides for the most part, how many windows there are): a regular sample, at
    most MOST_WINDOWS of 256 pixels by area."""
    gsd = scene.effective_gsd_m
    left, top, width, height = region.bounds_px
    work = card.classes[0].work_gsd_m
    if gsd is None or work is None:
        side_px = min(width, height)
    else:
        side_px = min(max(8, round(card.tile_px * work / gsd)), max(width, height))
    across, down = max(1, round(width / side_px)), max(1, round(height / side_px))
    possible = across * down
    most = max(MOST_WINDOWS, min(MOST_SMALL_WINDOWS, MOST_WINDOWS * 256**2 // card.tile_px**2))
    if possible > most:
        ratio = (most / possible) ** 0.5
        across, down = max(1, int(across * ratio)), max(1, int(down * ratio))
    w, h = min(side_px, width), min(side_px, height)
    xs = np.linspace(left, left + width - w, across).round().astype(int)
    ys = np.linspace(top, top + height - h, down).round().astype(int)
    images, windows, unseen = [], [], []
    for y in ys.tolist():
        for x in xs.tolist():
            window = (x, y, w, h)
            if not region.touches(window):
                continue
            image, valid = source.read(window)
            valid = valid & region.mask(window)
            if valid.mean() < 0.5 and (across * down > 1 or not valid.any()):
                continue
            if veil is not None and (valid & ~veil.hidden_on(reader, window)).mean() < 0.5:
                unseen.append(window)
                continue
            if max(image.shape[:2]) > 1024:
                image = resampled(image, 1024 / max(image.shape[:2]))
            images.append(image)
            windows.append(window)
    ctx.progress(50, 100, f"{len(images)} windows")
    return images, windows, unseen, possible
