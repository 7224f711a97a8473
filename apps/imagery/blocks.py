"""Blocks of our own COGs, unpacked without GDAL: half the processor time of its way.

GDAL inflates a block of zstd into its cache, adds the differences of the predictor up value by value, and copies the block out.
Here a block is read where GDAL says that it lies, inflated by zstd, and added up by numpy into the array that is asked for.
Only what this module knows for certain is read so; of all else, and of a block that is not as it should be, nothing is said:
the caller asks GDAL, and so its errors are the only ones.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from backports import zstd
from numpy.typing import NDArray

# A block larger than this is not one of ours.
_MOST_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class BlockForm:
    """How the blocks of a GeoTIFF lie in its file: ``shape`` (rows, columns), ``n_bands`` of the file, whether they are
    ``is_interleaved`` by pixel, and whether rows hold ``has_differences``: each value less the one before it."""

    shape: tuple[int, int]
    n_bands: int
    dtype: np.dtype[Any]
    is_interleaved: bool
    has_differences: bool

    @property
    def samples(self) -> int:
        """Values of a pixel that lie side by side."""
        return self.n_bands if self.is_interleaved else 1

    @property
    def n_bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.samples * self.dtype.itemsize

    @classmethod
    def of(cls, dataset: Any, path: Path) -> BlockForm | None:
        """Of an open rasterio dataset; None where its blocks are not read here: other packings than zstd, floats with a
        predictor of their own, bands of several types, the other order of bytes."""
        if dataset.driver != "GTiff" or sys.byteorder != "little" or len(set(dataset.dtypes)) > 1:
            return None
        told = dataset.tags(ns="IMAGE_STRUCTURE")
        kind = np.dtype(dataset.dtypes[0])
        is_odd = any("NBITS" in dataset.tags(b, ns="IMAGE_STRUCTURE") for b in dataset.indexes[:1])
        if told.get("COMPRESSION") != "ZSTD" or kind.kind not in "iuf" or is_odd:
            return None
        predictor, layout = told.get("PREDICTOR", "1"), told.get("INTERLEAVE", "BAND" if dataset.count == 1 else "")
        if predictor not in (("1", "2") if kind.kind in "iu" else ("1",)) or layout not in ("BAND", "PIXEL"):
            return None
        with path.open("rb") as file:
            if file.read(2) != b"II":
                return None
        rows, columns = dataset.block_shapes[0]
        found = cls((rows, columns), dataset.count, kind, layout == "PIXEL" and dataset.count > 1, predictor == "2")
        return found if found.n_bytes <= _MOST_BYTES else None


class BlockFile:
    """The blocks of one raster of ``width`` × ``height`` pixels. ``read`` may be called by several threads; ``close`` when none
    reads. ``dataset`` gives an open rasterio dataset of the thread that asks; one asks, for all, where a row of blocks lies."""

    def __init__(self, path: Path, form: BlockForm, width: int, height: int, dataset: Callable[[], Any]):
        self.form, self._width, self._height, self._dataset = form, width, height, dataset
        self._file = path.open("rb", buffering=0)
        self._lock = threading.Lock()
        self._places: dict[tuple[int, int], list[tuple[int, int]]] = {}

    def close(self) -> None:
        self._file.close()

    def covers(self, window: tuple[int, int, int, int]) -> bool:
        """True where a window (column, row, width, height) is made of whole blocks, so that none is unpacked for a part of it."""
        rows, columns = self.form.shape
        c, r, w, h = window
        return c % columns == 0 and r % rows == 0 and ((c + w) % columns == 0 or c + w == self._width) and (
            (r + h) % rows == 0 or r + h == self._height)

    def read(self, bands: Sequence[int], window: tuple[int, int, int, int]) -> NDArray[Any] | None:
        """(bands, rows, columns) of the 1-based ``bands`` as they are stored; None where a block is absent or broken."""
        form = self.form
        (rows, columns), (c, r, w, h) = form.shape, window
        out = np.empty((len(bands), h, w), dtype=form.dtype)
        planes = [(1, list(enumerate(bands)))] if form.is_interleaved else [(b, [(i, b)]) for i, b in enumerate(bands)]
        for y in range(r // rows, -(-(r + h) // rows)):
            for x in range(c // columns, -(-(c + w) // columns)):
                top, left = y * rows - r, x * columns - c
                n, m = min(rows, h - top), min(columns, w - left)
                for band, wanted in planes:
                    block = self._block(band, x, y)
                    if block is None:
                        return None
                    place = out[:, top:top + n, left:left + m]
                    if not form.is_interleaved:
                        self._lay(block[:n, :m, 0], place[wanted[0][0]])
                        continue
                    whole = self._lay(block[:n, :m], np.empty((n, m, form.samples), dtype=form.dtype))
                    for i, b in wanted:
                        place[i] = whole[..., b - 1]
        return out

    def _lay(self, block: NDArray[Any], place: NDArray[Any]) -> NDArray[Any]:
        """The values of a block, in ``place``."""
        if self.form.has_differences:
            # sums wrap around, as the differences do
            np.add.accumulate(block, axis=1, dtype=self.form.dtype, out=place)
        else:
            place[...] = block
        return place

    def _places_of(self, band: int, y: int) -> list[tuple[int, int]]:
        """First byte and number of bytes of each block of a row of blocks; 0 where it is absent."""
        with self._lock:
            if (band, y) not in self._places:
                dataset, n = self._dataset(), -(-self._width // self.form.shape[1])
                told = [[dataset.get_tag_item(f"BLOCK_{what}_{x}_{y}", "TIFF", bidx=band) for what in ("OFFSET", "SIZE")]
                        for x in range(n)]  # fmt: skip
                self._places[band, y] = [(int(at or 0), int(size or 0)) for at, size in told]
            return self._places[band, y]

    def _block(self, band: int, x: int, y: int) -> NDArray[Any] | None:
        """(rows, columns, samples) as they lie in the file."""
        form = self.form
        at, n = self._places_of(band, y)[x]
        if not at or not 0 < n <= 2 * form.n_bytes + 1024:
            return None
        packed = os.pread(self._file.fileno(), n, at)
        try:
            plain = zstd.ZstdDecompressor().decompress(packed, form.n_bytes)
        except zstd.ZstdError:
            return None
        if len(packed) != n or len(plain) != form.n_bytes:
            return None
        return np.frombuffer(plain, dtype=form.dtype).reshape(*form.shape, form.samples)
