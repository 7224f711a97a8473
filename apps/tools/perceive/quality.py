"""perceive, mode ``evidence``: statistics of each band and what can be told of the image's quality, without a judgement of the
scene: valid share, saturation, blur, noise, stripes, clouds and their shadows, and whether bands are constant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
from pydantic import JsonValue

from apps.core.errors import ModelError
from apps.core.evidence.observation import Configuration, Evidence, LayerRef, Result
from apps.core.ports import RasterReader, Window
from apps.tools.contract import PerceiveArguments, ToolContext, ToolOutcome, input_ref
from apps.tools.execute.graph import effective_region
from apps.tools.perceive.clouds import MASK_PX, clouds_of, on_scene, shares
from apps.tools.perceive.modes import only_scene
from apps.tools.perceive.tallies import Tallies
from apps.tools.perceive.texture import SIDE, WINDOWS, Patch, texture, windows_over
from apps.tools.region import RegionMask

# Of larger scenes windows are looked at for what neighbours tell (noise, sharpness, stripes); statistics are of all pixels.
NEIGHBOURS_PX = 4_000_000
# From this share of jumps in common on, lines are stripes: pictures without any have 0 to 0.1.
STRIPED = 0.15
# From which shares on a quality is told as a flag.
FLAGGED: dict[str, JsonValue] = {"saturated_share": 0.01, "zero_share": 0.05, "least_valid_share": 0.5, "noise_of_std": 0.5,
                                 "cloud_share": 0.01, "stripes_in_common": STRIPED}
# shadow first: a cloud over a shadow is a cloud
CLOUD_CLASSES = {2: "shadow", 1: "cloud"}


def perceive_evidence(ctx: ToolContext, arguments: PerceiveArguments) -> ToolOutcome:
    """One item a band. ModelError where no pixel is valid."""
    scene = ctx.scene(only_scene(arguments))
    reader = ctx.reader(scene.scene_id)
    region, region_crs = effective_region(arguments.region, arguments.region_crs, ctx)
    items: list[dict[str, JsonValue]] = []
    flags: list[str] = []
    whole = RegionMask.of(region, region_crs, scene.grid, scene.name)
    tallies = Tallies(scene, scene.bands[:64], whole)
    tallies.run(reader, progress=ctx.progress, is_cancelled=ctx.is_cancelled)
    is_small = scene.grid.width * scene.grid.height <= NEIGHBOURS_PX
    for number, band in enumerate(tallies.bands):
        if ctx.is_cancelled():
            break
        ctx.progress(number + 1, len(tallies.bands), f"Band {band.index}")
        item = tallies.figures(band.index)
        if not item["n_valid"]:
            items.append({"band": band.index, "role": band.role, "unit": band.unit, "n_valid": 0})
            flags.append(f"band {band.index} has no valid pixel")
            continue
        item |= texture(_patches(reader, band.index, whole, [(0, 0, scene.grid.width, scene.grid.height)] if is_small
                                 else windows_over(whole.bounds_px)))
        items.append({"band": band.index, "role": band.role, "unit": band.unit, **item})
        flags += [f"band {band.index} {f}" for f in _flags(item)]
    if not any(item["n_valid"] for item in items):
        raise ModelError(f"No valid pixel of {scene.name} is left.", code="TOOL_FAILED", needs={"valid_px": True})
    # a pixel is valid where every band is: counted once, not once a band
    n_valid, n_all = tallies.n_everywhere, tallies.n_inside
    if len(scene.bands) > 64:
        ctx.log("warning", f"{len(scene.bands)} bands; the first 64 were looked at.")
    clouds, why_none = clouds_of(ctx, scene, reader, str(arguments.options.get("clouds", "auto")), whole)
    told: dict[str, JsonValue] = {"method": None, "why": why_none}
    layers: list[LayerRef] = []
    if clouds is not None:
        figures = shares(clouds, scene, whole)
        told = {"method": clouds.method, "step": clouds.step, **figures, **clouds.evidence}
        for name in clouds.masks:
            share = figures[f"{name}_share"]
            if share is not None and share > 0.01:
                flags.append(f"{name} covers {share:.1%} of the valid pixels (by {clouds.method})")
        if scene.grid.width * scene.grid.height <= MASK_PX:
            classes = np.zeros(clouds.valid.shape, dtype=np.uint8)
            for value, name in CLOUD_CLASSES.items():
                classes[clouds.masks.get(name, classes > 255)] = value
            layers = [ctx.layers.put_classes(on_scene(classes, scene), on_scene(clouds.valid, scene), scene.grid,
                                             {0: "clear", **CLOUD_CLASSES}, label="clouds", scene_id=scene.scene_id)]
    if scene.effective_gsd_m is None:
        flags.append("the GSD is unknown")
    if scene.acquired_at is None:
        flags.append("the date is unknown")
    if not scene.roles:
        flags.append("no band role is known")
    for f in flags:
        ctx.log("info", f[0].upper() + f[1:] + ".")
    passed: dict[str, JsonValue] = {**arguments.model_dump(mode="json"), "region": dict(region) if region else None}
    return ToolOutcome(
        configuration=Configuration(coarse="evidence", fine="evidence/statistics"), inputs=(input_ref(scene),),
        arguments_passed=passed, packages=clouds.packages if clouds is not None else {},
        result=Result(kind="table", value=n_valid / max(1, n_all), unit="1", quantity="valid share", items=tuple(items),
                      layers=tuple(layers)),
        evidence=Evidence(
            source={"method": {"kind": "statistics", "noise": "Immerkær 1996, CVIU 64",
                               "blur": "variance of the Laplacian over the variance of the image",
                               "stripes": "jumps of lines that separate parts of them have in common",
                               "pixels": "all", "neighbours": "all" if is_small else
                               f"{WINDOWS}² windows of {SIDE} px at full resolution"},
                    "thresholds": dict(FLAGGED),
                    "sensor": scene.sensor or "unknown", "resolution_m": scene.effective_gsd_m, "step": 1},
            intermediate={"features": len(items), "candidates": len(scene.bands), "kept": len(items), "valid_px": n_valid,
                          "n_px": n_all, "flags": cast(JsonValue, flags), "clouds": told,
                          "filters": [{"name": "bands looked at", "before": len(scene.bands), "after": len(items)}]},
            validity={"layer_status": "complete", "class_complete": len(items) == len(scene.bands), "geometry_valid": True,
                      "quality_mask": [f"{n} by {clouds.method}" for n in clouds.masks] if clouds is not None else None,
                      "applicability": {"ok": True, "problems": []},
                      "not_for": ["what stands in the picture: these are figures of its samples"],
                      "valid_share": n_valid / max(1, n_all)}))


def _patches(reader: RasterReader, band: int, region: RegionMask, windows: Iterable[Window]) -> Iterator[Patch]:
    """Windows of the band at full resolution, with what of them is valid and inside."""
    for window in windows:
        got = reader.read([band], window, physical=not reader.info.dtype.startswith("complex"))
        data = np.abs(got.data[0]) if np.iscomplexobj(got.data) else got.data[0]
        yield np.asarray(data, dtype=np.float64), np.asarray(got.valid[0]) & region.mask(window)


def _flags(item: dict[str, Any]) -> list[str]:
    out = []
    if item["std"] == 0:
        out.append("is constant")
    if (item.get("saturated_share") or 0) > 0.01:
        out.append(f"is saturated in {item['saturated_share']:.1%} of its pixels")
    if item["zero_share"] > 0.05:
        out.append(f"is 0 in {item['zero_share']:.1%} of its valid pixels (undeclared fill?)")
    if item["valid_share"] < 0.5:
        out.append(f"is valid in {item['valid_share']:.1%} of its pixels only")
    if item.get("noise") and item["std"] > 0 and item["noise"] / item["std"] > 0.5:
        out.append("is mostly noise")
    for key, lines in (("row_stripes", "rows"), ("column_stripes", "columns")):
        if (item.get(key) or 0) >= STRIPED:
            out.append(f"has stripes along its {lines} (jumps of {item[f'{key}_size']:.3g}, {item[key]:.0%} of them common to "
                       "whole lines)")
    return out
