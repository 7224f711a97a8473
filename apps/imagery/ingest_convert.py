"""Any accepted file to a COG of ours, and its facts; runs in the ingest process (and in tests on trusted
files)."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from rasterio.enums import ColorInterp
from rasterio.errors import RasterioError

from apps.core.errors import UserError
from apps.imagery.facts import BandFacts, RasterFacts
from apps.imagery.formats import NETCDF, PNG, TIFF, format_of
from apps.imagery.hints import SceneHints
from apps.imagery.ingest_facts import COMPLEX_BYTES, open_upload, read_facts, unreadable
from apps.imagery.writers import STREAM_OPTIONS, write_cog, write_cog_of_plain


def convert(source: Path, target: Path, name: str, hints: SceneHints) -> RasterFacts:
    """Writes the COG of ``source`` to ``target``. Stored values are kept as they are; what had to be changed
    (a palette picture becomes colours, bits become bytes, complex samples their amplitude, a netCDF variable
    becomes a raster) stands in ``changes``.

    Raises UserError UNSAFE_FILE, UNREADABLE, TOO_LARGE or BAD_ARGUMENT.
    """
    with rasterio.Env(**STREAM_OPTIONS), tempfile.TemporaryDirectory(prefix="convert-", dir=target.parent) as folder:
        plain = Path(folder) / "plain.tif"
        try:
            return _convert(source, plain, target, name, hints)
        except (RasterioError, MemoryError) as error:
            if isinstance(error, MemoryError):
                raise UserError(
                    "TOO_LARGE", f"“{name}” is too large.", "It needs more memory than ingest may use.",
                    "Cut it into parts, or store it in tiles, and upload that.", status=413,
                ) from error  # fmt: skip
            raise unreadable(name, "Its pixels are broken or cut off, or packed in a way that is not read.") from error


def _convert(source: Path, plain: Path, target: Path, name: str, hints: SceneHints) -> RasterFacts:
    if format_of(source, name) is NETCDF:
        from apps.imagery.ingest_netcdf import write_variable

        facts = write_variable(source, plain, name, hints)
        write_cog_of_plain(plain, target, n_bands=_count(plain), dtype=facts.dtype)
        return facts
    dataset, kind = open_upload(source, name)
    with dataset:
        facts = read_facts(dataset, kind, source.stat().st_size)
        bits = {dataset.tags(i, ns="IMAGE_STRUCTURE").get("NBITS") for i in dataset.indexes} - {None}
        if facts.dtype in COMPLEX_BYTES:
            facts = _amplitude(dataset, plain, facts)
        elif facts.has_palette and kind is PNG:
            facts = _expand_palette(dataset, plain, facts)
        elif any(b not in ("8", "16", "32", "64") for b in bits):
            _copy_plain(dataset, plain)
            facts = facts.model_copy(update={"changes": (f"{'/'.join(sorted(map(str, bits)))}-bit values were widened.",)})
        else:
            write_cog(dataset, target, n_bands=dataset.count, dtype=facts.dtype)
            return facts
    write_cog_of_plain(plain, target, n_bands=_count(plain), dtype=facts.dtype)
    return facts


def _count(plain: Path) -> int:
    with rasterio.open(plain, driver=TIFF.driver) as dataset:
        return int(dataset.count)


def _profile(dataset: Any, count: int) -> dict[str, Any]:
    profile: dict[str, Any] = {
        "driver": "GTiff", "width": dataset.width, "height": dataset.height, "count": count, "dtype": dataset.dtypes[0],
        "tiled": True, "blockxsize": 256, "blockysize": 256, "bigtiff": "IF_SAFER", "nodata": dataset.nodata,
    }  # fmt: skip
    if dataset.crs:
        profile["crs"] = dataset.crs
    if not dataset.transform.is_identity:
        profile["transform"] = dataset.transform
    return profile


def _copy_plain(dataset: Any, plain: Path) -> None:
    with rasterio.open(plain, "w", **_profile(dataset, dataset.count)) as out:
        for _, window in dataset.block_windows(1):
            out.write(dataset.read(window=window), window=window)
        if dataset.colorinterp[0] is ColorInterp.palette:
            out.write_colormap(1, dataset.colormap(1))


AMPLITUDE = (
    "The samples are complex numbers; the scene holds their amplitude, the root of the sum of both squares. "
    "The phase stays in the file as it was uploaded."
)


def _amplitude(dataset: Any, plain: Path, facts: RasterFacts) -> RasterFacts:
    """Amplitudes of complex samples, |scale · z + offset|, as real numbers: complex ones have no order, so no statistic,
    threshold or colour is defined on them. Pixels that are fill, masked, or no numbers become NaN: the amplitude of a fill value
    looks like data."""
    kind = "float64" if facts.dtype == "complex128" else "float32"
    with rasterio.open(plain, "w", **_profile(dataset, dataset.count) | {"dtype": kind, "nodata": float("nan")}) as out:
        for _, window in dataset.block_windows(1):
            for k, band in enumerate(facts.bands, start=1):
                z = dataset.read(k, window=window).astype(np.complex128)
                is_seen = np.isfinite(z.real) & np.isfinite(z.imag)
                if band.nodata is not None:
                    is_seen &= ~((z.real == band.nodata) & ((z.imag == 0) | (z.imag == band.nodata)))
                if facts.has_mask:
                    is_seen &= dataset.read_masks(k, window=window) != 0
                with np.errstate(over="ignore"):
                    real = np.abs(z * band.scale + band.offset).astype(kind)
                out.write(np.where(is_seen & np.isfinite(real), real, np.nan).astype(kind), k, window=window)
    bands = tuple(b.model_copy(update={"nodata": None, "scale": 1.0, "offset": 0.0, "color": "gray"}) for b in facts.bands)
    return facts.model_copy(
        update={"dtype": kind, "bands": bands, "has_mask": False, "is_amplitude": True, "changes": (AMPLITUDE,)}
    )


def _expand_palette(dataset: Any, plain: Path, facts: RasterFacts) -> RasterFacts:
    table = np.zeros((256, 4), dtype=np.uint8)
    for value, color in dataset.colormap(1).items():
        if 0 <= value < 256:
            table[value] = color
    has_alpha = bool((table[sorted(v for v in dataset.colormap(1) if 0 <= v < 256), 3] != 255).any())
    names = ("red", "green", "blue", "alpha")[: 4 if has_alpha else 3]
    with rasterio.open(plain, "w", **_profile(dataset, len(names)) | {"nodata": None}) as out:
        out.colorinterp = [ColorInterp[n] for n in names]
        for _, window in dataset.block_windows(1):
            out.write(np.moveaxis(table[dataset.read(1, window=window)][..., : len(names)], -1, 0), window=window)
    bands = tuple(BandFacts(color=n) for n in names)
    return facts.model_copy(
        update={"bands": bands, "has_palette": False, "changes": ("The picture's palette was turned into colours.",)}
    )
