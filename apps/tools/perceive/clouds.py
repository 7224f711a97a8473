"""Clouds and their shadows in one scene: by its own quality band, by the network of ukis-csmask, or by spectral tests.

The quality band goes first, since its makers saw all bands. The network is optional (requirements-ml) and brings its weights with
its package. The tests are the potential clouds of Fmask: they miss thin clouds and tell no shadows. What each reaches on a real
scene stands in docs/coverage.md.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import JsonValue

from apps.core.digests import digest_file
from apps.core.errors import ModelError
from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo
from apps.core.ports import RasterReader
from apps.tools.contract import Node, ToolCancelledError, ToolContext
from apps.tools.execute.accumulators import ClassCounts
from apps.tools.execute.graph import check_graph
from apps.tools.execute.operators_catalog import level_of_name
from apps.tools.execute.quality import DEFAULT_FLAGS, quality_band
from apps.tools.execute.streaming import Engine, LayerPixels, Program
from apps.tools.region import RegionMask

METHODS = ("auto", "qa", "csmask", "tests", "none")
# The network was trained on pixels of about this size.
NETWORK_GSD_M = 30.0
# Pixels that the network looks at at most; masks are kept whole up to MASK_PX, of larger scenes thinned to this side.
LOOK_PX = 4_000_000
MASK_PX = 25_000_000
KEPT_SIDE, TEST_SIDE = 5_000, 1_024
_SIX = ("blue", "green", "red", "nir", "swir1", "swir2")
_NAMES = {"swir1": "swir16", "swir2": "swir22"}


@dataclass(slots=True)
class Clouds:
    """``masks`` by name (cloud, shadow) with ``valid``, (rows, columns) of the look, one of whose pixels stands for ``step`` of
    the scene's along an axis; ``method`` and ``evidence`` say how they were found. ``counted``: (pixels of each name, valid
    pixels) of all pixels inside the region, where masks are kept thinned."""

    method: str
    masks: dict[str, NDArray[np.bool_]]
    valid: NDArray[np.bool_]
    step: float
    evidence: dict[str, JsonValue] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    bands: tuple[int, ...] = ()
    counted: tuple[dict[str, int], int] | None = None


def clouds_of(ctx: ToolContext, scene: SceneInfo, reader: RasterReader, wanted: str,
              inside: RegionMask) -> tuple[Clouds | None, str]:
    """(clouds, why there are none); what lies outside the region need not be looked at. ModelError where a method that was asked
    for by name cannot be served."""
    if wanted not in METHODS:
        raise ModelError(f"Clouds are looked for by {', '.join(METHODS)}; {wanted[:40]!r} is none of them.", code="BAD_ARGUMENT")
    if wanted == "none":
        return None, "not asked for"
    reasons = []
    for name, find in (("qa", _by_quality_band), ("csmask", _by_network), ("tests", _by_tests)):
        if wanted in ("auto", name):
            found, why = find(ctx, scene, reader, inside)
            if found is not None:
                return found, ""
            reasons.append(why)
    why = "; ".join(reasons)
    if wanted != "auto":
        raise ModelError(f"Clouds of {scene.name} cannot be looked for by {wanted}: {why}.", code="NEEDS_BANDS",
                         needs={"roles": list(_SIX), "scene": scene.scene_id})
    return None, why


# --- the scene's own quality band ------------------------------------------------------------------------------------------
def _by_quality_band(ctx: ToolContext, scene: SceneInfo, reader: RasterReader,
                     inside: RegionMask) -> tuple[Clouds | None, str]:
    band = quality_band(scene)
    if band is None:
        return None, "no quality band whose scheme is known"
    from apps.tools.contract import ExecuteArguments

    flags = DEFAULT_FLAGS[band.scheme]
    groups = {"cloud": tuple(f for f in flags if f not in ("shadow", "snow")), "shadow": tuple(f for f in flags if f == "shadow")}
    nodes = [Node(id="scene", op="asset.scene", params={"scene": scene.scene_id})]
    nodes += [Node(id=n, op="raster.product.qa_mask", inputs=("scene",),
                   params={"scheme": band.scheme, "flags": list(f), "band": band.index}) for n, f in groups.items() if f]
    program = check_graph(ExecuteArguments(nodes=tuple(nodes), output="cloud"), ctx)
    engine = Engine(program, reader=ctx.reader, progress=ctx.progress, is_cancelled=ctx.is_cancelled,
                    region=lambda grid: RegionMask.of(None, "image", grid))
    kept = {n: LayerPixels(scene.grid, limit_px=MASK_PX, is_mask=True) for n, f in groups.items() if f}
    engine.run([((n,), k) for n, k in kept.items()], "Reading the quality band")
    if engine.failed:
        raise ModelError(f"The quality band could not be read: {next(iter(engine.failed.values()))}")
    first = next(iter(kept.values()))
    counted = _counted(ctx, program, inside, list(kept)) if first.step > 1 else None
    return Clouds("qa", {n: np.asarray(k.data & k.valid) for n, k in kept.items()}, first.valid, float(first.step),
                  {"scheme": band.scheme, "flags": {n: list(f) for n, f in groups.items() if f}}, bands=(band.index,),
                  counted=counted), ""


def _counted(ctx: ToolContext, program: Program, inside: RegionMask, names: Sequence[str]) -> tuple[dict[str, int], int]:
    """(True pixels of masks inside the region, valid pixels there), over all pixels."""
    engine = Engine(program, reader=ctx.reader, progress=ctx.progress, is_cancelled=ctx.is_cancelled, region=lambda _: inside)
    found = {n: ClassCounts() for n in names}
    engine.run([((n,), f) for n, f in found.items()], "Counting flagged pixels")
    if engine.failed:
        raise ModelError(f"The quality band could not be read: {next(iter(engine.failed.values()))}")
    return {n: f.n.get(1, 0) for n, f in found.items()}, found[names[0]].total


# --- the network -----------------------------------------------------------------------------------------------------------
def _optical(scene: SceneInfo, roles: tuple[str, ...]) -> dict[str, Band] | None:
    """The one band of each role, all in reflectance; None where one is missing."""
    found = {r: b[0] for r in roles if len(b := scene.bands_with_role(r)) == 1}
    if "nir" in roles and "nir" not in found and len(b := scene.bands_with_role("nir08")) == 1:
        found["nir"] = b[0]
    return found if len(found) == len(roles) and all(b.unit == "reflectance" for b in found.values()) else None


@lru_cache(maxsize=8)
def _digest(path: Path) -> str:
    return digest_file(path)


def _by_network(ctx: ToolContext, scene: SceneInfo, reader: RasterReader,
                inside: RegionMask) -> tuple[Clouds | None, str]:
    bands = _optical(scene, _SIX) or _optical(scene, _SIX[:4])
    if bands is None:
        return None, "no reflectance of blue, green, red and near infrared"
    try:
        from ukis_csmask.mask import CSmask
    except ImportError:
        return None, "ukis-csmask is not installed (./rsure setup --ml)"
    gsd = scene.effective_gsd_m
    # it knows pixels of 30 m: finer ones are thinned to that, and no further, since it misses most clouds at 100 m
    step = max(1.0, NETWORK_GSD_M / gsd) if gsd is not None else 1.0
    if gsd is not None and gsd > 3 * NETWORK_GSD_M:
        return None, f"pixels of {gsd:.0f} m are too coarse for the network"
    c, r, w, h = inside.bounds_px
    height, width = max(1, round(h / step)), max(1, round(w / step))
    if height * width > LOOK_PX:
        return None, (f"{height * width / 1e6:.1f} million pixels of {NETWORK_GSD_M:.0f} m are too many for the network; give a "
                      "region")
    index = [b.index for b in bands.values()]
    read = reader.read(index, (c, r, w, h), None if step == 1 else (height, width))
    here = np.asarray(read.valid.all(axis=0))
    if not here.any():
        return None, "no valid pixel"
    level = "l2a" if level_of_name(scene.name) in ("L2A", "L2SP", "L2SR") else "l1c"
    image = np.moveaxis(np.where(here, read.data, 0.0), 0, 2).astype(np.float32)
    ctx.progress(0, 1, "Looking for clouds")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # small images are told below
        found = CSmask(image, [_NAMES.get(r, r) for r in bands], product_level=level, invalid_buffer=0,
                       providers=["CPUExecutionProvider"], intra_op_num_threads=2)
    classes = found.csm[..., 0]
    shape = (max(height, round(scene.grid.height / step)), max(width, round(scene.grid.width / step)))
    top, left = min(round(r / step), shape[0] - height), min(round(c / step), shape[1] - width)
    at = (slice(top, top + height), slice(left, left + width))

    def placed(part: NDArray[np.bool_]) -> NDArray[np.bool_]:
        out = np.zeros(shape, dtype=bool)
        out[at] = part
        return out

    evidence: dict[str, JsonValue] = {
        "weights": {"name": Path(found.model_file).name, "digest": _digest(Path(found.model_file)), "licence": "Apache-2.0",
                    "version": str(found.model_version)},
        "product_level": level, "roles": list(bands), "gsd_m": gsd * step if gsd else None,
        "is_small": min(classes.shape) < 256, "reference": "Wieland et al. 2019, RSE 230"}
    from importlib.metadata import version

    return Clouds("csmask", {"cloud": placed((classes == 1) & here), "shadow": placed((classes == 2) & here)}, placed(here), step,
                  evidence, {n: version(n) for n in ("ukis-csmask", "onnxruntime")}, tuple(index)), ""


# --- spectral tests --------------------------------------------------------------------------------------------------------
def potential_clouds(planes: Mapping[str, NDArray[np.float64]]) -> NDArray[np.bool_]:
    """Potential cloud pixels of six reflectances, without the thermal test (Zhu and Woodcock 2012, RSE 118, equations 1 to 5)."""
    blue, green, red, nir, swir1, swir2 = (planes[r] for r in _SIX)
    mean = (blue + green + red) / 3
    with np.errstate(all="ignore"):
        whiteness = (np.abs(blue - mean) + np.abs(green - mean) + np.abs(red - mean)) / mean
        ndvi, ndsi = (nir - red) / (nir + red), (green - swir1) / (green + swir1)
        rock = nir / swir1
        found = (swir2 > 0.03) & (ndsi < 0.8) & (ndvi < 0.8) & (whiteness < 0.7) & (blue - 0.5 * red - 0.08 > 0) & (rock > 0.75)
    return np.asarray(found)


def _by_tests(ctx: ToolContext, scene: SceneInfo, reader: RasterReader,
              inside: RegionMask) -> tuple[Clouds | None, str]:
    bands = _optical(scene, _SIX)
    if bands is None:
        return None, "the spectral tests need six reflectances from blue to shortwave infrared"
    index = [b.index for b in bands.values()]
    h, w = scene.grid.shape
    step = max(1, -(-max(h, w) // KEPT_SIDE)) if h * w > MASK_PX else 1
    cloud, valid = np.zeros((-(-h // step), -(-w // step)), dtype=bool), np.zeros((-(-h // step), -(-w // step)), dtype=bool)
    n_cloud = n_valid = 0
    # whole windows, each pixel tested: of large scenes the mask is kept thinned, and its share is of all pixels
    side = TEST_SIDE // step * step
    for r in range(0, h, side):
        for c in range(0, w, side):
            if ctx.is_cancelled():
                raise ToolCancelledError
            at = (c, r, min(side, w - c), min(side, h - r))
            read = reader.read(index, at)
            seen = np.asarray(read.valid.all(axis=0))
            found = potential_clouds({n: read.data[k].astype(np.float64) for k, n in enumerate(bands)}) & seen
            here = inside.mask(at)
            n_cloud, n_valid = n_cloud + int(np.count_nonzero(found & here)), n_valid + int(np.count_nonzero(seen & here))
            place = np.s_[r // step : -(-(r + at[3]) // step), c // step : -(-(c + at[2]) // step)]
            cloud[place], valid[place] = found[::step, ::step], seen[::step, ::step]
        ctx.progress(min(h, r + side), h, "Looking for clouds")
    return Clouds("tests", {"cloud": cloud}, valid, float(step), {
        "tests": "swir2 > 0.03, NDSI < 0.8, NDVI < 0.8, whiteness < 0.7, blue - 0.5 red > 0.08, nir / swir1 > 0.75",
        "reference": "Zhu and Woodcock 2012, RSE 118", "limits": "misses thin clouds; tells no shadows"}, bands=tuple(index),
        counted=({"cloud": n_cloud}, n_valid)), ""


def on_scene(mask: NDArray[Any], scene: SceneInfo) -> NDArray[Any]:
    """A mask or class map of the look on the scene's own pixels, each taking the look's pixel that its centre lies in."""
    h, w = scene.grid.shape
    if mask.shape == (h, w):
        return mask
    rows = ((np.arange(h) + 0.5) * mask.shape[0] / h).astype(np.int64)
    cols = ((np.arange(w) + 0.5) * mask.shape[1] / w).astype(np.int64)
    return np.asarray(mask[np.ix_(np.minimum(rows, mask.shape[0] - 1), np.minimum(cols, mask.shape[1] - 1))])


def shares(found: Clouds, scene: SceneInfo, inside: RegionMask) -> dict[str, Any]:
    """Shares of the valid pixels inside the region, by mask: of all, or of the look's where the method sees no more."""
    if found.counted is not None:
        held, n = found.counted
        return {"n_valid": n, "of": "all pixels",
                **{f"{name}_{what}": v for name, k in held.items() for what, v in (("px", k), ("share", k / n if n else None))}}
    valid = found.valid
    if inside.polygon is not None:
        h, w = valid.shape
        rows = ((np.arange(h) + 0.5) * scene.grid.height / h).astype(np.int64)
        cols = ((np.arange(w) + 0.5) * scene.grid.width / w).astype(np.int64)
        here = np.zeros(valid.shape, dtype=bool)
        for k, r in enumerate(rows):
            here[k] = inside.mask((0, int(r), scene.grid.width, 1))[0, cols]
        valid = valid & here
    n = int(np.count_nonzero(valid))
    out: dict[str, Any] = {"n_valid": n, "of": "all pixels" if found.step == 1 else "pixels of the look"}
    for name, mask in found.masks.items():
        out[f"{name}_px"] = int(np.count_nonzero(mask & valid))
        out[f"{name}_share"] = out[f"{name}_px"] / n if n else None
    return out
