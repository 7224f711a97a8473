"""Reads a raster's header and counts its pixels; runs in the ingest process only."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import MaskFlags
from rasterio.errors import RasterioError

from apps.core.errors import UserError
from apps.imagery.facts import MISSING, BandCounts, BandFacts, FillCandidate, RasterCounts, RasterFacts
from apps.imagery.formats import JPEG, PNG, TIFF, Format, check_picture, check_size, format_of
from apps.imagery.readers import GDAL_OPTIONS

# Values that programs write for "nothing here".
SENTINELS = (0.0, -9999.0, -32768.0, -3.4028234663852886e38, 1e20, -99999.0, -999.0, 32767.0, 65535.0, 255.0)
_EDGE_PX = 1024
# Complex types that are read, with the bytes of a sample; integers of 32 bits are not, since no reader here keeps them whole.
COMPLEX_BYTES = {"complex_int16": 4, "complex64": 8, "complex128": 16}


def wavelength_of(tags: Mapping[str, str]) -> float | None:
    """Centre wavelength in nm that a band's tags tell, as ENVI's headers and GDAL's domain IMAGERY write it; None where they tell
    none. Without a unit numbers below 30 are micrometres."""
    lower = {k.lower(): v.strip() for k, v in tags.items()}
    for key, factor in (("central_wavelength_um", 1000.0), ("wavelength", None)):
        try:
            value = float(lower[key])
        except (KeyError, ValueError):
            continue
        if factor is None:
            unit = lower.get("wavelength_units", "").lower()
            factor = 1000.0 if unit.startswith(("micro", "um", "µm")) or (not unit and value < 30) else 1.0
            if unit and not unit.startswith(("micro", "um", "µm", "nano", "nm")):
                return None
        return value * factor if 0 < value * factor < 1e6 else None
    return None


def unreadable(name: str, why: str) -> UserError:
    return UserError(
        "UNREADABLE", f"“{name}” cannot be read.", why, "Export it again from where it came.", status=415
    )


def open_upload(path: Path, name: str) -> tuple[Any, Format]:
    """(dataset, format) of a hostile file: its driver pinned, its declared size checked before any pixel is
    read.

    Raises UserError UNSAFE_FILE, UNREADABLE or TOO_LARGE.
    """
    kind = format_of(path, name)
    check_picture(path, kind, name)
    try:
        with rasterio.Env(**GDAL_OPTIONS):
            dataset = rasterio.open(path, driver=kind.driver)
    except (RasterioError, ValueError, IndexError) as error:
        raise unreadable(name, f"It looks like {kind.name}, but it is broken, cut off, or of a kind not read.") from error
    try:
        if dataset.count == 0:
            raise unreadable(name, "It holds no raster band.")
        if len(set(dataset.dtypes)) > 1:
            raise unreadable(name, "Its bands have different data types; write them with one.")
        kind_of = dataset.dtypes[0]
        itemsize = COMPLEX_BYTES.get(kind_of) or np.dtype(kind_of).itemsize
        check_size(dataset.width, dataset.height, dataset.count, itemsize, name, path.stat().st_size)
    except (TypeError, UserError) as error:
        dataset.close()
        if isinstance(error, UserError):
            raise
        raise unreadable(name, "Its data type is not read here.") from error
    return dataset, kind


def read_facts(dataset: Any, kind: Format, n_bytes: int) -> RasterFacts:
    """The header of an open dataset, texts cut to a bearable length. UserError UNREADABLE for numbers that are none."""
    if not np.isfinite([*dataset.scales, *dataset.offsets, *tuple(dataset.transform)[:6]]).all():
        raise UserError(
            "UNREADABLE", "The file's header is broken.", "Its scale, offset or place is not a number.",
            "Write them anew, or export the file again from where it came.", status=415,
        )  # fmt: skip
    bands = tuple(
        BandFacts(
            description=dataset.descriptions[i] or "",
            color=dataset.colorinterp[i].name,
            nodata=None if dataset.nodatavals[i] is None else float(dataset.nodatavals[i]),
            scale=float(dataset.scales[i]),
            offset=float(dataset.offsets[i]),
            unit=dataset.units[i] or "",
            wavelength_nm=wavelength_of({**dataset.tags(i + 1), **dataset.tags(i + 1, ns="IMAGERY")}),
        )
        for i in range(dataset.count)
    )
    tags: dict[str, str] = {}
    for space in (None, "IMD", "EXIF", "IMAGERY"):
        for key, value in list((dataset.tags(ns=space) if space else dataset.tags()).items())[:200]:
            tags.setdefault(str(key)[:80], str(value))
    flags = dataset.mask_flag_enums[0]
    has_grid = not dataset.transform.is_identity
    colors = [b.color for b in bands]
    return RasterFacts(
        format=kind.name,
        n_bytes=n_bytes,
        width=dataset.width,
        height=dataset.height,
        dtype=dataset.dtypes[0],
        bands=bands,
        crs_wkt=dataset.crs.to_wkt() if dataset.crs else "",
        transform=tuple(dataset.transform)[:6] if has_grid else None,
        n_gcps=len(dataset.gcps[0]),
        n_images=max(1, len(dataset.subdatasets)),
        is_picture=kind in (PNG, JPEG),
        has_mask=MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags and MaskFlags.nodata not in flags,
        has_palette="palette" in colors,
        tags=tags,
    )


def count_pixels(path: Path, ranges: list[tuple[float, float] | None]) -> RasterCounts:
    """Counts over all pixels of our own COG at ``path``, window by window; ``ranges`` are the bands' valid
    ranges."""
    with rasterio.Env(**GDAL_OPTIONS), rasterio.open(path, driver=TIFF.driver) as dataset:
        return _Counter(dataset, ranges).run()


class _Counter:
    def __init__(self, dataset: Any, ranges: list[tuple[float, float] | None]):
        self.dataset, self.ranges = dataset, ranges
        self.dtype = np.dtype(dataset.dtypes[0])
        alphas = [i for i, c in enumerate(dataset.colorinterp) if c.name == "alpha"]
        self.planes = [i for i in range(dataset.count) if i not in alphas]
        flags = dataset.mask_flag_enums[0]
        self.has_mask = bool(alphas) or (MaskFlags.per_dataset in flags and MaskFlags.nodata not in flags)
        # a value that the data type cannot hold is no candidate
        self.candidates = [v for v in SENTINELS if self._holds(v)]

    def _holds(self, value: float) -> bool:
        if self.dtype.kind == "f":
            return bool(np.isfinite(self.dtype.type(value))) if abs(value) < 3e38 else self.dtype.itemsize >= 4
        bounds = np.iinfo(self.dtype)
        return bounds.min <= value <= bounds.max

    def run(self) -> RasterCounts:
        dataset, n = self.dataset, len(self.planes)
        n_masked = 0
        not_finite, nodata, outside = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
        low, high = np.full(n, np.inf), np.full(n, -np.inf)
        distinct = np.zeros((n, 256), dtype=bool) if self.dtype == np.uint8 else None
        fill = dict.fromkeys(self.candidates, 0)
        any_band = dict.fromkeys(self.candidates, 0)
        below = dict.fromkeys(self.candidates, -np.inf)
        above = dict.fromkeys(self.candidates, np.inf)
        for _, window in dataset.block_windows(1):
            pixels = dataset.read([p + 1 for p in self.planes], window=window)
            if self.has_mask:
                n_masked += int((dataset.dataset_mask(window=window) == 0).sum())
            for i, plane in enumerate(self.planes):
                values = pixels[i]
                usable = np.isfinite(values) if self.dtype.kind == "f" else np.ones(values.shape, dtype=bool)
                not_finite[i] += values.size - int(usable.sum())
                declared = dataset.nodatavals[plane]
                if declared is not None and np.isfinite(declared):
                    hit = values == declared
                    nodata[i] += int(hit.sum())
                    usable &= ~hit
                span = self.ranges[plane] if plane < len(self.ranges) else None
                if span is not None:
                    outside[i] += int((usable & ((values < span[0]) | (values > span[1]))).sum())
                if usable.any():
                    kept = values[usable]
                    low[i], high[i] = min(low[i], float(kept.min())), max(high[i], float(kept.max()))
                    if distinct is not None:
                        distinct[i] |= np.bincount(kept, minlength=256)[:256] > 0
            first = pixels[0]
            for value in self.candidates:
                same = self._same(pixels, value)
                fill[value] += int(same.sum())
                if value in MISSING:
                    any_band[value] += int((pixels == self.dtype.type(value)).any(axis=0).sum())
                if self.dtype.kind == "f":
                    other = first[np.isfinite(first) & (first != self.dtype.type(value))]
                else:
                    other = first[first != value]
                if other.size:
                    under, over = other[other < value], other[other > value]
                    if under.size:
                        below[value] = max(below[value], float(under.max()))
                    if over.size:
                        above[value] = min(above[value], float(over.min()))
        found = tuple(
            FillCandidate(
                value=value,
                n_px=fill[value],
                n_any_px=any_band[value],
                border_share=self._border_share(value),
                next_low=None if np.isinf(below[value]) else below[value],
                next_high=None if np.isinf(above[value]) else above[value],
            )
            for value in self.candidates
            if fill[value] > 0 or any_band[value] > 0
        )
        return RasterCounts(
            n_px=dataset.width * dataset.height,
            n_masked=n_masked,
            bands=tuple(
                BandCounts(
                    n_not_finite=int(not_finite[i]),
                    n_nodata=int(nodata[i]),
                    n_outside_range=int(outside[i]),
                    low=None if np.isinf(low[i]) else float(low[i]),
                    high=None if np.isinf(high[i]) else float(high[i]),
                    n_distinct=None if distinct is None else int(distinct[i].sum()),
                )
                for i in range(n)
            ),
            fill=found,
        )

    def _same(self, pixels: NDArray[Any], value: float) -> NDArray[np.bool_]:
        same: NDArray[np.bool_] = pixels[0] == self.dtype.type(value)
        for plane in pixels[1:]:
            if not same.any():
                break
            same &= plane == self.dtype.type(value)
        return same

    def _border_share(self, value: float) -> float | None:
        """Of the fill pixels, the share in pieces that touch the raster's edge; on an overview of at most
        _EDGE_PX²."""
        dataset = self.dataset
        scale = min(1.0, _EDGE_PX / max(dataset.width, dataset.height))
        shape = (max(1, round(dataset.height * scale)), max(1, round(dataset.width * scale)))
        same = np.ones(shape, dtype=bool)
        for plane in self.planes:
            same &= dataset.read(plane + 1, out_shape=shape) == self.dtype.type(value)
            if not same.any():
                return None
        from scipy import ndimage  # half a second that most files do not need

        pieces, _ = ndimage.label(same, structure=np.ones((3, 3)))
        edge = np.concatenate([pieces[0], pieces[-1], pieces[:, 0], pieces[:, -1]])
        touching = np.isin(pieces, np.unique(edge[edge > 0]))
        return float(touching.sum() / same.sum())
