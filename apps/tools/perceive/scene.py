"""perceive, mode ``scene``: what kind of place a picture shows, as calibrated probabilities over the asked classes.

A large picture is looked at in windows of the size that the model knows on the ground; the probabilities are their mean. A
picture that is like none of the model's classes gets no class: its scope score lies below the threshold of the card.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.errors import ModelError, ToolAbstainedError
from apps.core.evidence.observation import Configuration, Evidence, Result
from apps.core.geo.scene import SceneInfo
from apps.core.ports import Window
from apps.tools.contract import PerceiveArguments, ToolContext, ToolOutcome, input_ref
from apps.tools.perceive.objects import Pixels, colour_bands
from apps.tools.region import RegionMask
from apps.tools.zoo.cards import ModelCard, normal
from apps.tools.zoo.classifiers import load_classifier
from apps.tools.zoo.detectors import resampled
from apps.tools.zoo.registry import model_named, models
from apps.tools.zoo.runtime import package_versions

MOST_WINDOWS = 49
# A label wins only where it is this probable; below, the tool says which labels it wavers between.
LEAST_PROBABILITY = 0.5


def choose_model(labels: Sequence[str], scene: SceneInfo, name: str = "auto") -> ModelCard:
    """The classifier that was made for this GSD and knows most labels. ToolAbstainedError MODEL_MISSING where none fits."""
    if name != "auto":
        return model_named(name)[0]
    pool = [card for card, _ in models() if card.task == "classify"]
    if not pool:
        raise ToolAbstainedError("No scene classifier is in the zoo. Add one with `./rsure models add FILE`.",
                                 code="MODEL_MISSING", needs={"model": "scene classifier"})
    gsd = scene.effective_gsd_m

    def rank(card: ModelCard) -> tuple[int, int, float]:
        fits = 1 if gsd is None or card.gsd_m is None or card.gsd_m[0] <= gsd <= card.gsd_m[1] else 0
        return fits, sum(1 for w in labels if _classes_of(card, w)), card.gsd_m is not None

    best = max(pool, key=rank)
    if rank(best)[0] == 0:
        known = "; ".join(f"{c.name}: {c.gsd_m[0]:g} to {c.gsd_m[1]:g} m" for c in pool if c.gsd_m)
        raise ToolAbstainedError(f"No scene classifier here was made for {gsd:g} m a pixel ({known}).", code="MODEL_MISSING",
                                 needs={"model": "scene classifier", "gsd_m": gsd})
    if labels and not rank(best)[1]:
        raise ToolAbstainedError(f"No scene classifier here knows {', '.join(labels)}.", code="MODEL_MISSING",
                                 needs={"model": "scene classifier"})
    return best


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
    source = Pixels(ctx.reader(scene.scene_id), bands, scene)
    images, windows, empty = _look(ctx, source, region, card, scene)
    if not images:
        raise ToolAbstainedError("The scene has no window with enough valid pixels.", code="TOOL_FAILED")
    logits, features = classifier.look(images)
    each = classifier.probabilities(logits)
    mean = each.mean(axis=0)
    scope = classifier.scope_score(features)
    likeness = None if scope is None else float(np.median(scope))
    in_scope = card.scope_threshold is None or likeness is None or likeness >= card.scope_threshold
    p = {label: float(mean[index].sum()) if index else None for label, index in cover.items()}
    known = {label: v for label, v in p.items() if v is not None}
    rest = max(0.0, 1.0 - sum(known.values()))
    ranked = sorted(known.items(), key=lambda i: -i[1])
    top, best = ranked[0]
    unknown = [label for label in labels if not cover[label]]
    gsd = scene.effective_gsd_m
    problems = []
    if grey:
        problems.append("one grey band instead of colour")
    if gsd is None:
        problems.append("the GSD is not known; the whole picture was taken as one view")
    reason = ""
    if not in_scope:
        reason = (f"The picture is like none of the {len(card.classes)} kinds of place that {card.name} was made for "
                  f"(scope score {likeness:.2f}, at least {card.scope_threshold:.2f} is asked).")
    elif rest > best:
        other = card.classes[int(np.argmax(mean))].name
        reason = f"The picture looks like {other}, which is none of the asked labels."
    elif best < LEAST_PROBABILITY:
        second = f" and {ranked[1][0]} ({ranked[1][1]:.0%})" if len(ranked) > 1 else ""
        reason = f"No label is likely enough: {top} ({best:.0%}){second}."
    for line in (*problems, *([reason] if reason else ())):
        ctx.log("warning", line)
    items: list[dict[str, JsonValue]] = [{"class": label, "p": round(v, 4)} for label, v in ranked[:100]]
    top_k = np.argsort(-mean)[:5]
    return ToolOutcome(
        configuration=Configuration(coarse="scene", fine=f"scene/{card.name}"),
        result=Result(kind="class", value=None if reason else top, quantity="kind of place", items=tuple(items)),
        evidence=Evidence(
            source={"weights": [{"name": card.name, "version": card.version, "digest": card.sha256, "licence": card.licence,
                                 "task": card.task}],
                    "thresholds": {"probability": LEAST_PROBABILITY, "scope": card.scope_threshold},
                    "sensor": scene.sensor or "unknown", "resolution_m": gsd, "stretch": source.stretch,
                    "temperature": card.temperature},
            intermediate={"scores": [round(v, 4) for _, v in ranked[:1000]], "classes": [label for label, _ in ranked[:1000]],
                          "candidates": len(known), "kept": 0 if reason else 1, "probability_of_others": round(rest, 4),
                          "top_of_the_model": [{"class": card.classes[k].name, "p": round(float(mean[k]), 4)}
                                               for k in top_k.tolist()],
                          "windows": len(images), "windows_without_pixels": empty, "window_px": list(windows[0][2:]),
                          "scope_score": None if likeness is None else round(likeness, 3), "agreement_of_windows": round(float(
                              (each.argmax(axis=1) == int(np.argmax(mean))).mean()), 3),
                          "elapsed_s": round(time.monotonic() - began, 3)},
            validity={"layer_status": "complete", "class_complete": not unknown, "geometry_valid": True,
                      "unknown_labels": list(unknown), "in_scope": in_scope, "gsd_known": gsd is not None,
                      "applicability": {"ok": in_scope and not grey and gsd is not None, "problems": [*problems, *(
                          [] if in_scope else ["the picture is like none of the model's classes"])]},
                      "not_for": list(card.not_for)}),
        inputs=(input_ref(scene, bands),), arguments_passed=args.model_dump(mode="json"),
        state="partial" if reason or unknown else "ok",
        reason=reason or (f"The model does not know {', '.join(unknown)}." if unknown else ""),
        packages=package_versions("torch", "numpy"))


def _look(ctx: ToolContext, source: Pixels, region: RegionMask, card: ModelCard, scene: SceneInfo
          ) -> tuple[list[NDArray[np.uint8]], list[Window], int]:
    """(pictures, their windows, windows left out for want of valid pixels): a regular sample of at most MOST_WINDOWS."""
    gsd = scene.effective_gsd_m
    left, top, width, height = region.bounds_px
    work = card.classes[0].work_gsd_m
    if gsd is None or work is None:
        side_px = min(width, height)
    else:
        side_px = min(max(8, round(card.tile_px * work / gsd)), max(width, height))
    across, down = max(1, round(width / side_px)), max(1, round(height / side_px))
    if across * down > MOST_WINDOWS:
        ratio = (MOST_WINDOWS / (across * down)) ** 0.5
        across, down = max(1, int(across * ratio)), max(1, int(down * ratio))
    w, h = min(side_px, width), min(side_px, height)
    xs = np.linspace(left, left + width - w, across).round().astype(int)
    ys = np.linspace(top, top + height - h, down).round().astype(int)
    images, windows, empty = [], [], 0
    for y in ys.tolist():
        for x in xs.tolist():
            window = (x, y, w, h)
            if not region.touches(window):
                continue
            image, valid = source.read(window)
            valid = valid & region.mask(window)
            if valid.mean() < 0.5 and (across * down > 1 or not valid.any()):
                empty += 1
                continue
            if max(image.shape[:2]) > 1024:
                image = resampled(image, 1024 / max(image.shape[:2]))
            images.append(image)
            windows.append(window)
    ctx.progress(50, 100, f"{len(images)} windows")
    return images, windows, empty
