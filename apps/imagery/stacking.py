"""Band files of one scene as one raster: whether they fit, and the stack itself."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from apps.core.errors import UserError
from apps.core.geo.bands import Band
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import BandFacts, RasterCounts, RasterFacts
from apps.imagery.findings import CODES
from apps.imagery.nesting import Fit, Wish, common_grid
from apps.imagery.profiles import name_band, product_name_band
from apps.imagery.resampling import read_onto


def common_dtype(dtypes: Sequence[str]) -> str | None:
    """The type of the files that holds the numbers of all of them: theirs where it is one, or of whole numbers the widest where
    it can hold the others (Sentinel-2's classes are of 8 bits, its reflectance of 16). None where no file's type can."""
    if len(set(dtypes)) == 1:
        return dtypes[0]
    if any(np.dtype(d).kind not in "iu" for d in dtypes):
        return None
    widest = str(np.result_type(*(np.dtype(d) for d in dtypes)))
    return widest if widest in dtypes else None


@dataclass(frozen=True, slots=True)
class StackPlan:
    """How scenes become one: ``at`` is the index of the scene whose grid the stack has, ``fits`` how each comes onto it."""

    at: int
    fits: tuple[Fit, ...]


def plan_stack(infos: Sequence[SceneInfo], facts: Sequence[RasterFacts], wish: Wish = "auto") -> StackPlan:
    """UserError BAD_ARGUMENT where the scenes cannot be one: too few, grids that do not lie in each other, data types that do not
    fit into one, bands that must not be averaged, masks that only a file of its own can have."""
    if len(infos) < 2:
        raise UserError("BAD_ARGUMENT", "There is nothing to stack.", "A stack needs two files at least.", "Choose more files.")
    first = infos[0]
    for other in infos[1:]:
        if common_dtype((first.dtype, other.dtype)) is None:
            raise UserError(
                "BAD_ARGUMENT", f"“{other.name}” does not fit “{first.name}”.",
                f"One holds {other.dtype}, the other {first.dtype}, and neither can hold the numbers of both.",
                "Stack files of one data type only.",
            )  # fmt: skip
    if common_dtype([i.dtype for i in infos]) is None:
        held = ", ".join(sorted({i.dtype for i in infos}))
        raise UserError(
            "BAD_ARGUMENT", "The files do not fit each other.", f"They hold {held}, and none of these can hold all the numbers.",
            "Stack files of one data type only.",
        )  # fmt: skip
    masked = next((i for i, f in zip(infos, facts, strict=True) if f.has_mask), None)
    if masked is not None:
        raise UserError(
            "BAD_ARGUMENT", f"“{masked.name}” cannot be stacked.",
            "It has a mask of its own, and the pixels that the mask hides would count in a stack.",
            "Save it with a nodata value where the mask hides pixels, and add that.",
        )  # fmt: skip
    at, fits = common_grid([i.grid for i in infos], wish)
    if isinstance(fits, str):
        other = infos[at]
        finest = min((i for i in infos if i is not other), key=lambda i: i.grid.gsd_m or math.inf)
        raise UserError(
            "BAD_ARGUMENT", f"“{other.name}” does not fit “{finest.name}”.", f"{fits[:1].upper()}{fits[1:]}.",
            "Stack files whose pixels lie in each other (10, 20 and 60 m of one product do); resample others to one grid first.",
        )  # fmt: skip
    for info, fit in zip(infos, fits, strict=True):
        if fit.step == "reduce":
            _check_averaging(info)
    return StackPlan(at, tuple(fits))


def _check_averaging(info: SceneInfo) -> None:
    for band in info.bands:
        if band.unit == "dB":
            raise UserError(
                "BAD_ARGUMENT", f"“{info.name}” cannot be brought to a coarser grid.",
                "It holds decibels, and a mean of decibels is not the mean of what was measured.",
                "Choose the finer grid, or give it as linear power.",
            )  # fmt: skip
        if band.role == "unknown" and np.dtype(info.dtype).kind in "iu":
            raise UserError(
                "BAD_ARGUMENT", f"“{info.name}” cannot be brought to a coarser grid.",
                f"Nobody has said what its band {band.index} is; classes and bits must not be averaged.",
                "Set its role on its page, or choose the finer grid.",
            )  # fmt: skip


def resampling_words(info: SceneInfo, band: Band, fit: Fit) -> str:
    """What was done to a band, or '' for nothing."""
    if fit.step == "same":
        return band.resampled
    k, gsd = fit.ratio, f"{info.effective_gsd_m:.4g} m" if info.effective_gsd_m else "the file"
    if fit.step == "repeat":
        return f"nearest: each pixel of {gsd} repeated {k} × {k}"
    if fit.is_halved:
        how = "most frequent code" if band.role in CODES else "mean"
        return f"{how} of the pixels of {gsd}, by the share of each that lies inside"
    return f"{'most frequent code' if band.role in CODES else 'mean'} of {k} × {k} pixels of {gsd}"


def finest_of_each(infos: Sequence[SceneInfo]) -> list[int]:
    """Indices of the files that are left when a band of one file's name but its resolution is taken at its finest: Sentinel-2's
    level 2 holds ``…_B02_10m``, ``…_B02_20m`` and ``…_B02_60m``."""
    best: dict[str, int] = {}
    for k, info in enumerate(infos):
        called = re.sub(r"_\d{2,3}m(?=\.[A-Za-z0-9]+$|$)", "", info.name)
        held = best.get(called)
        sizes = [(infos[i].effective_gsd_m if i is not None else None) for i in (held, k)]
        if held is None:
            best[called] = k
        elif called == info.name or sizes[0] is None or sizes[1] is None or sizes[0] == sizes[1]:
            best[f"{called} {k}"] = k
        elif sizes[1] < sizes[0]:
            best[called] = k
    return sorted(best.values())


def stack_name(names: Sequence[str]) -> str:
    """What the names have in common at the start, or the first name with a plus."""
    stems = [Path(n).stem for n in names]
    n_equal = next((i for i, letters in enumerate(zip(*stems, strict=False)) if len(set(letters)) > 1), min(map(len, stems)))
    stem = re.sub(r"[_\-. ]*(?:sr|st)?[_\-. ]*(?:(?<![a-z0-9])(?:band|b)\d+|band|b)?$", "", stems[0][:n_equal], flags=re.I)
    return f"{stem}.tif" if len(stem) >= 2 else f"{Path(names[0]).stem}+{len(names) - 1}.tif"


def band_called(file: str) -> str:
    """What the band of a file is called in a stack: as its product writes it, so that the product's scale, fill and bits go with
    it (``SR_B4``, ``QA_PIXEL``, ``sur_refl_b01``), else as the sensor does (``B4``), or ''."""
    return product_name_band(file) or name_band(file) or ""


def stack_facts(facts: Sequence[RasterFacts], infos: Sequence[SceneInfo], plan: StackPlan) -> RasterFacts:
    """The facts of the stack; a band without a description is called after its file."""
    bands: list[BandFacts] = []
    for fact, info, fit in zip(facts, infos, plan.fits, strict=True):
        for fact_band, band in zip(fact.bands, info.bands, strict=True):
            color = fact_band.color if fact_band.color in ("palette", "alpha") else "undefined"
            native = fact_band.native_gsd_m or (info.effective_gsd_m if fit.step != "same" else None)
            bands.append(fact_band.model_copy(update={
                "description": fact_band.description or band_called(info.name) or Path(info.name).stem, "color": color,
                "native_gsd_m": native, "resampled": resampling_words(info, band, fit)}))  # fmt: skip
    first, dtype = facts[plan.at], common_dtype([f.dtype for f in facts]) or facts[0].dtype
    changes = [f"Stacked from {len(facts)} files."]
    if any(f.dtype != dtype for f in facts):
        changes.append(f"Numbers of fewer bits were widened to {dtype}.")
    if any(f.step == "reduce" for f in plan.fits):
        whole = " and rounded to whole numbers" if np.dtype(dtype).kind in "iu" else ""
        changes.append(f"Finer bands were averaged{whole}, codes kept by the most frequent one; where less than half of a pixel "
                       "has a value it has none.")  # fmt: skip
    if any(f.step == "repeat" for f in plan.fits):
        changes.append("Pixels of coarser bands were repeated, not interpolated: the finer grid holds no more detail of them.")
    return first.model_copy(
        update={
            "bands": tuple(bands),
            "dtype": dtype,
            "n_bytes": sum(f.n_bytes for f in facts),
            "has_palette": False,
            "is_picture": False,
            "tags": {k: v for k, v in first.tags.items() if all(f.tags.get(k) == v for f in facts)},
            "changes": tuple(changes),
        }
    )


def write_stack(
    infos: Sequence[SceneInfo], facts: Sequence[RasterFacts], paths: Sequence[Path], plan: StackPlan, target: Path
) -> RasterCounts:
    """Writes the COGs at ``paths`` as one COG at ``target`` and counts its pixels. The files are ours."""
    from apps.imagery.ingest_facts import count_pixels
    from apps.imagery.readers import open_scene
    from apps.imagery.writers import BandSource, join_bands

    with ExitStack() as stack, tempfile.TemporaryDirectory(prefix="join-", dir=target.parent) as folder:
        sources: list[BandSource] = []
        for info, fact, path, fit in zip(infos, facts, paths, plan.fits, strict=True):
            reader = stack.enter_context(open_scene(info, path))
            sources += [
                BandSource(band.description or band_called(info.name), said.nodata,
                           partial(read_onto, reader, band.index, fit, is_code=band.role in CODES))
                for band, said in zip(info.bands, fact.bands, strict=True)
            ]  # fmt: skip
        dtype = common_dtype([i.dtype for i in infos])
        assert dtype is not None
        join_bands(sources, infos[plan.at].grid, dtype, Path(folder) / "plain.tif", target)
    return count_pixels(target, [None] * len(sources))
