"""Band files of one scene as one raster: whether they fit, and the stack itself."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from apps.core.errors import UserError
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import BandFacts, RasterCounts, RasterFacts
from apps.imagery.profiles import name_band, product_name_band


def common_dtype(dtypes: Sequence[str]) -> str | None:
    """The type of the files that holds the numbers of all of them: theirs where it is one, or of whole numbers the widest where
    it can hold the others (Sentinel-2's classes are of 8 bits, its reflectance of 16). None where no file's type can."""
    if len(set(dtypes)) == 1:
        return dtypes[0]
    if any(np.dtype(d).kind not in "iu" for d in dtypes):
        return None
    widest = str(np.result_type(*(np.dtype(d) for d in dtypes)))
    return widest if widest in dtypes else None


def check_stack(infos: Sequence[SceneInfo]) -> None:
    """UserError BAD_ARGUMENT where the scenes cannot be one: too few, other grids, data types that do not fit into one."""
    if len(infos) < 2:
        raise UserError("BAD_ARGUMENT", "There is nothing to stack.", "A stack needs two files at least.", "Choose more files.")
    first = infos[0]
    for other in infos[1:]:
        if other.grid != first.grid:
            raise UserError(
                "BAD_ARGUMENT", f"“{other.name}” does not fit “{first.name}”.",
                "Their grids differ in size, place or CRS.", "Stack files of one grid only.",
            )  # fmt: skip
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


def stack_facts(facts: Sequence[RasterFacts], names: Sequence[str], name: str) -> RasterFacts:
    """The facts of the stack; a band without a description is called after its file."""
    bands: list[BandFacts] = []
    for fact, file in zip(facts, names, strict=True):
        for band in fact.bands:
            color = band.color if band.color in ("palette", "alpha") else "undefined"
            called = band.description or band_called(file) or Path(file).stem
            bands.append(band.model_copy(update={"description": called, "color": color}))
    first, dtype = facts[0], common_dtype([f.dtype for f in facts]) or facts[0].dtype
    widened = f" Numbers of fewer bits were widened to {dtype}." if any(f.dtype != dtype for f in facts) else ""
    return first.model_copy(
        update={
            "bands": tuple(bands),
            "dtype": dtype,
            "n_bytes": sum(f.n_bytes for f in facts),
            "has_palette": False,
            "is_picture": False,
            "tags": {k: v for k, v in first.tags.items() if all(f.tags.get(k) == v for f in facts)},
            "changes": (f"Stacked from {len(facts)} files.{widened}",),
        }
    )


def write_stack(paths: Sequence[Path], target: Path, names: Sequence[str]) -> RasterCounts:
    """Writes the COGs at ``paths`` as one COG at ``target`` and counts its pixels. The files are ours."""
    from apps.imagery.ingest_facts import count_pixels
    from apps.imagery.writers import join_bands

    with tempfile.TemporaryDirectory(prefix="join-", dir=target.parent) as folder:
        n = join_bands(paths, Path(folder) / "plain.tif", target, [band_called(name) for name in names])
    return count_pixels(target, [None] * n)
