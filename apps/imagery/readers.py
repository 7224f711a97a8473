"""Reading rasters: the only place that opens a stored scene.

``open_scene(info, path)`` gives a ``SceneReader`` (the RasterReader port of ``apps.core.ports``). ``path`` is
the scene's COG as ingest wrote it, or any plain raster whose bytes fit ``info``. ``open_raster(path)`` opens
one file with its driver pinned.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
import rasterio
from numpy.typing import NDArray
from rasterio.enums import MaskFlags, Resampling
from rasterio.env import get_gdal_config, set_gdal_config
from rasterio.errors import NotGeoreferencedWarning, RasterioError
from rasterio.io import MemoryFile
from rasterio.windows import Window as RasterioWindow

from apps.artifacts.ranges import BlobChangedError, RemoteBlob
from apps.core.errors import FaultError, UserError
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.raster import MaskedRaster, valid_mask
from apps.core.geo.scene import SceneInfo
from apps.imagery.blocks import BlockFile, BlockForm
from apps.imagery.formats import TIFF, sniff

if TYPE_CHECKING:
    from apps.core.ports import Window  # brings all contracts: too heavy for the ingest process

# Pictures without a place on the ground are ordinary here.
warnings.filterwarnings("ignore", category=NotGeoreferencedWarning)

# Nothing beside the file is looked at (sidecar .ovr, .aux.xml, .msk), and nothing is fetched.
GDAL_OPTIONS: dict[str, Any] = {
    "GDAL_DISABLE_READDIR_ON_OPEN": "EMPTY_DIR",
    "CPL_VSIL_CURL_ALLOWED_EXTENSIONS": ".none",
    "GDAL_PAM_ENABLED": False,
    "GDAL_CACHEMAX": 256 * 2**20,  # bytes: rasterio hands whole numbers over as such
    "GDAL_MAX_DATASET_POOL_SIZE": 64,
}
# Bands read at once while looking for pixels whose bands all equal the fill value.
_FILL_GROUP = 8
# What GDAL may keep of a scene that is streamed: each block is read once, so a few a thread do; a larger cache only costs
# memory, and time to fill it.
_STREAM_CACHE = (16 * 2**20, 256 * 2**20)
_BLOCKS_KEPT = 8


def open_raster(path: Path | RemoteBlob, *, cache_bytes: int | None = None) -> Any:
    """A rasterio dataset of ``path`` (a blob in object storage is read by ranges), its driver pinned by the first
    bytes. UserError UNREADABLE where it cannot be opened. ``cache_bytes`` sets what GDAL may keep of blocks (of the
    process) from here on."""
    far = path if isinstance(path, RemoteBlob) else None
    try:
        kind = sniff(path)
    except OSError as error:
        if far is None:
            raise
        raise _unreachable(error) from error
    if kind is None:
        raise UserError(
            "UNREADABLE",
            "The raster cannot be read.",
            "Its first bytes are of no raster format known here.",
            "Ingest the scene again.",
        )
    try:
        with rasterio.Env(**GDAL_OPTIONS):
            if far is not None:
                dataset = _FarDataset(far, kind.driver)
            else:
                dataset = rasterio.open(path, driver=kind.driver)
        if cache_bytes is not None:
            # an Env puts back what it found when it ends, in whichever thread: so this is said after it
            set_gdal_config("GDAL_CACHEMAX", cache_bytes)
        return dataset
    except RasterioError as error:
        if far is not None:
            raise _unreachable(far.trouble) from error
        raise UserError(
            "UNREADABLE",
            "The raster cannot be opened.",
            f"It looks like {kind.name}, but it is broken or cut off.",
            "Ingest the scene again.",
        ) from error


class _FarDataset:
    """A dataset over a remote blob, with a thread of its own: rasterio keeps what it opens by an ``opener`` in a variable of the
    thread's context, so that opening, reading and closing must be done by one and the same."""

    def __init__(self, blob: RemoteBlob, driver: str):
        self._blob, self._thread = blob, ThreadPoolExecutor(1, thread_name_prefix="far")
        try:
            self._dataset = self._in_thread(self._open, driver)
        except BaseException:
            self._thread.shutdown()
            raise

    def _open(self, driver: str) -> Any:
        dataset = rasterio.open(self._blob.name, driver=driver, opener=self._blob.opener)
        if self._blob.trouble is not None:
            # nobody will get it, and no other thread may let go of it
            dataset.close()
        return dataset

    def _in_thread(self, work: Any, *given: Any, **named: Any) -> Any:
        def done() -> Any:
            # what GDAL is told holds for the thread
            with rasterio.Env(**GDAL_OPTIONS | {"GDAL_CACHEMAX": get_gdal_config("GDAL_CACHEMAX")}):
                return work(*given, **named)

        found = self._thread.submit(done).result()
        if self._blob.trouble is not None:
            raise _unreachable(self._blob.trouble) from self._blob.trouble
        return found

    def read(self, *given: Any, **named: Any) -> Any:
        return self._in_thread(self._dataset.read, *given, **named)

    def read_masks(self, *given: Any, **named: Any) -> Any:
        return self._in_thread(self._dataset.read_masks, *given, **named)

    def close(self) -> None:
        if not self._dataset.closed:
            self._thread.submit(self._dataset.close).result()
            self._thread.shutdown()

    @property
    def closed(self) -> bool:
        return bool(self._dataset.closed)

    def __getattr__(self, name: str) -> Any:
        # some properties look into files
        return self._in_thread(getattr, self._dataset, name)


def _unreachable(error: OSError | None) -> UserError:
    if isinstance(error, BlobChangedError):
        return UserError(
            "UNREADABLE",
            "The scene changed while it was read.",
            "Its pixels lie in the object storage, and are others there than when the reading began: no figure is of one image.",
            "Ask again; if it stays so, ingest the scene again.",
        )
    return UserError(
        "UNREADABLE",
        "Pixels of the scene cannot be read.",
        "They lie in the object storage, and it did not give the part that was asked for.",
        "Try again; if it stays so, tell the administrator.",
    )


@lru_cache(maxsize=1)
def _tells_predictors() -> bool:
    """Whether this GDAL says of a GeoTIFF that its blocks hold differences; with one that does not they were taken for values."""
    try:
        with MemoryFile(ext=".tif") as held:
            form = {"width": 16, "height": 16, "count": 1, "dtype": "uint16", "compress": "ZSTD", "predictor": 2}
            with held.open(driver="GTiff", **form) as out:
                out.write(np.ones((1, 16, 16), dtype=np.uint16))
            with held.open(driver="GTiff") as dataset:
                return bool(dataset.tags(ns="IMAGE_STRUCTURE").get("PREDICTOR") == "2")
    except RasterioError:
        return False


class SceneReader:
    """Reads one scene in windows (RasterReader). Thread-safe: each thread gets a dataset of its own, opened
    once.

    In what ``read`` returns with ``physical=True`` masked samples are NaN, so that a statistic that forgets
    the mask shows it; with ``physical=False`` they keep their stored value.
    """

    def __init__(self, info: SceneInfo, path: Path | RemoteBlob):
        self._info, self._path = info, path
        self._local = threading.local()
        self._lock = threading.Lock()
        self._opened: list[Any] = []
        self._spare: list[Any] = []
        self._closed = False
        self._form: BlockForm | None = None
        self._blocks: BlockFile | None = None
        self._bands = {b.index: b for b in info.bands}
        self._cache_bytes = _STREAM_CACHE[0]
        self._alpha: int | None = None
        self._block, self._has_mask = 1, False
        try:
            self._look_at(self._dataset())
        except BaseException:
            # nobody gets this reader, so nobody would close what it has opened
            self.close()
            raise

    def _look_at(self, first: Any) -> None:
        """Holds the stored raster against the scene, and keeps what is read alike in every window."""
        info, path = self._info, self._path
        if (first.width, first.height) != (info.grid.width, info.grid.height) or first.count < max(
            self._bands, default=1
        ):
            raise FaultError(
                f"the stored raster is {first.width} × {first.height} × {first.count}, the scene says "
                f"{info.grid.width} × {info.grid.height} × {len(info.bands)}"
            )
        self._block = max(first.block_shapes[0]) if first.driver == TIFF.driver else 1
        heavy = math.prod(first.block_shapes[0]) * first.count * np.dtype(first.dtypes[0]).itemsize
        self._cache_bytes = min(max(_STREAM_CACHE[0], _BLOCKS_KEPT * heavy), _STREAM_CACHE[1])
        self._form = BlockForm.of(first, path) if isinstance(path, Path) and _tells_predictors() else None
        self._alpha = next((b.index for b in info.bands if b.role == "alpha"), None)
        flags = first.mask_flag_enums[0]
        self._has_mask = (
            MaskFlags.per_dataset in flags and MaskFlags.alpha not in flags and MaskFlags.nodata not in flags
        )
        # whoever reads first takes it over: most readers are made in one thread and read in others
        self._local.dataset = None
        self._spare.append(first)

    @property
    def info(self) -> SceneInfo:
        return self._info

    def _dataset(self) -> Any:
        held = getattr(self._local, "dataset", None)
        if held is None or held.closed:
            with self._lock:
                held = self._spare.pop() if self._spare else None
            if held is not None:
                # the cache was sized before the blocks were known
                set_gdal_config("GDAL_CACHEMAX", self._cache_bytes)
            else:
                held = open_raster(self._path, cache_bytes=self._cache_bytes)
                with self._lock:
                    if self._closed:
                        held.close()
                        raise FaultError("the reader is closed")
                    self._opened.append(held)
            self._local.dataset = held
        return held

    def rest(self) -> None:
        """Closes the files until the next read opens them again: hundreds of scenes need not be open at once. Nobody may be
        reading."""
        with self._lock:
            self._let_go()

    def _let_go(self) -> None:
        """Closes files and connections; the lock is held."""
        for dataset in self._opened:
            dataset.close()
        self._opened.clear()
        self._spare.clear()
        if self._blocks is not None:
            self._blocks.close()
            self._blocks = None
        if isinstance(self._path, RemoteBlob):
            self._path.rest()

    def read(
        self,
        bands: Sequence[int],
        window: Window | None = None,
        out_shape: tuple[int, int] | None = None,
        *,
        physical: bool = True,
    ) -> MaskedRaster:
        """(bands, rows, columns) of the 1-based ``bands``, masked by the one nodata policy.

        ``window`` is (column, row, width, height) in pixels and must lie inside the raster (ValueError
        otherwise); ``out_shape`` (rows, columns) samples nearest pixels, from overviews where they exist, so
        that each value is a stored one. ``physical`` applies scale and offset once: float32 for stored types
        of up to 16 bits and float32, else float64.
        """
        if not bands:
            raise ValueError("no bands asked")
        missing = [b for b in bands if b not in self._bands]
        if missing:
            raise ValueError(f"the scene has no band {missing[0]}")
        grid = self._info.grid
        col, row, width, height = window if window is not None else (0, 0, grid.width, grid.height)
        if (
            col < 0
            or row < 0
            or width < 1
            or height < 1
            or col + width > grid.width
            or row + height > grid.height
        ):
            raise ValueError(f"window {(col, row, width, height)} is not inside {grid.width} × {grid.height}")
        shape = out_shape if out_shape is not None else (height, width)
        part = grid.window(col, row, width, height)
        if shape != (height, width):
            a, b, c, d, e, f = part.transform
            x, y = width / shape[1], height / shape[0]
            part = Grid(
                crs=grid.crs, transform=(a * x, b * y, c, d * x, e * y, f), width=shape[1], height=shape[0]
            )
        place = RasterioWindow(col, row, width, height)
        chosen = tuple(self._bands[b] for b in bands)
        stored = self._stored(list(bands), place, shape)
        alpha = self._stored([self._alpha], place, shape)[0] if self._alpha is not None else None
        if self._has_mask:
            inner = self._dataset().read_masks(1, window=place, out_shape=shape, resampling=Resampling.nearest)
            alpha = inner if alpha is None else np.minimum(alpha != 0, inner != 0)
        valid = valid_mask(
            stored, chosen, self._info.fill_rules, alpha, self._fill(stored, bands, place, shape)
        )
        if not physical:
            return MaskedRaster(stored, valid, part, chosen, "DN")
        return MaskedRaster(_physical(stored, valid, chosen), valid, part, chosen, _unit(chosen))

    def _stored(self, bands: list[int], place: RasterioWindow, shape: tuple[int, int]) -> NDArray[Any]:
        own = self._own(bands, place, shape)
        if own is not None:
            return own
        try:
            out: NDArray[Any] = self._dataset().read(
                bands, window=place, out_shape=(len(bands), *shape), resampling=Resampling.nearest
            )
        except RasterioError as error:
            if isinstance(self._path, RemoteBlob):
                raise _unreachable(self._path.trouble) from error
            raise UserError(
                "UNREADABLE",
                "Pixels of the scene cannot be read.",
                "The stored raster is broken or cut off.",
                "Ingest the scene again.",
            ) from error
        return out

    def _own(self, bands: list[int], place: RasterioWindow, shape: tuple[int, int]) -> NDArray[Any] | None:
        """Whole blocks of a COG of ours at full resolution; None where GDAL is to read."""
        if self._form is None or shape != (place.height, place.width):
            return None
        with self._lock:
            if self._blocks is None:
                if self._closed:
                    raise FaultError("the reader is closed")
                assert isinstance(self._path, Path)
                grid = self._info.grid
                self._blocks = BlockFile(self._path, self._form, grid.width, grid.height, self._dataset)
            held = self._blocks
        window = (place.col_off, place.row_off, place.width, place.height)
        return held.read(bands, window) if held.covers(window) else None

    def _fill(
        self,
        stored: NDArray[Any],
        bands: Sequence[int],
        place: RasterioWindow,
        shape: tuple[int, int],
    ) -> NDArray[np.bool_] | None:
        """Pixels that an all_bands_equal rule masks, over *all* bands of the scene but alpha; None without
        such a rule."""
        rules = [r for r in self._info.fill_rules if r.kind == "all_bands_equal" and r.value is not None]
        if not rules:
            return None
        others = [b for b in self._bands if b not in bands and b != self._alpha]
        own = [i for i, b in enumerate(bands) if b != self._alpha]
        fill = np.zeros(shape, dtype=bool)
        for rule in rules:
            here = (stored[own] == rule.value).all(axis=0) if own else np.ones(shape, dtype=bool)
            for start in range(0, len(others), _FILL_GROUP):
                if not here.any():  # most windows hold no fill: one band tells
                    break
                here &= (
                    self._stored(others[start : start + _FILL_GROUP], place, shape) == rule.value
                ).all(axis=0)
            fill |= here
        return fill

    def windows(self, size: int = 1024) -> Iterator[Window]:
        """Windows (column, row, width, height) that cover the raster once, aligned to its blocks; row by
        row."""
        step = max(self._block, size // self._block * self._block)
        grid = self._info.grid
        for row in range(0, grid.height, step):
            for col in range(0, grid.width, step):
                yield col, row, min(step, grid.width - col), min(step, grid.height - row)

    def close(self) -> None:
        """Lets go of files and connections; a reader that is closed stays so."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._let_go()

    def __enter__(self) -> SceneReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _physical(stored: NDArray[Any], valid: NDArray[np.bool_], bands: Sequence[Band]) -> NDArray[Any]:
    wide = stored.dtype.itemsize > 2 and stored.dtype != np.float32
    out = np.empty(stored.shape, dtype=np.float64 if wide else np.float32)
    for i, band in enumerate(bands):
        if band.scale == 1.0 and band.offset == 0.0:
            out[i] = stored[i]
        else:
            out[i] = stored[i].astype(np.float64) * band.scale + band.offset
    if not valid.all():
        out[~valid] = np.nan
    return out


def _unit(bands: Sequence[Band]) -> str:
    units = {b.unit for b in bands}
    return units.pop() if len(units) == 1 else "mixed"


def open_scene(info: SceneInfo, path: Path | RemoteBlob | str) -> SceneReader:
    """A reader of the scene that ``info`` describes, over the raster at ``path``.

    Raises UserError UNREADABLE for a broken file, FaultError where size or band count contradict ``info``.
    """
    return SceneReader(info, Path(path) if isinstance(path, str) else path)
