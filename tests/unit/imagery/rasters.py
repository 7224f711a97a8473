"""Small real rasters for the imagery tests."""

from pathlib import Path
from typing import Any

import rasterio
from numpy.typing import NDArray
from rasterio.transform import Affine

from apps.core.geo import Band, Grid, SceneInfo

UTM = "EPSG:32630"
TRANSFORM = (10.0, 0.0, 600000.0, 0.0, -10.0, 5600000.0)


def write(
    path: Path, planes: NDArray[Any], *, crs: str | None = UTM, transform: tuple[float, ...] | None = TRANSFORM, **options: Any
) -> Path:
    """A GeoTIFF of (bands, rows, columns)."""
    if crs:
        options["crs"] = crs
    if transform:
        options["transform"] = Affine(*transform)
    with rasterio.open(
        path, "w", driver="GTiff", count=planes.shape[0], height=planes.shape[1], width=planes.shape[2],
        dtype=planes.dtype.name, **options,
    ) as out:  # fmt: skip
        out.write(planes)
    return path


def describe(planes: NDArray[Any], *bands: Band, crs: str | None = UTM, **more: Any) -> SceneInfo:
    """A SceneInfo for planes on TRANSFORM."""
    grid = Grid(crs=crs, transform=TRANSFORM, height=planes.shape[1], width=planes.shape[2])
    held = bands or tuple(Band(index=i + 1) for i in range(planes.shape[0]))
    return SceneInfo(scene_id="s", artifact="a", name="t.tif", grid=grid, dtype=planes.dtype.name, bands=held, **more)


class FolderBlobs:
    """A blob store in a folder, by SHA-256."""

    def __init__(self, folder: Path):
        self.folder = folder

    def put(self, data: bytes | Path, *, media_type: str = "") -> str:
        from apps.core.digests import digest_bytes

        held = data if isinstance(data, bytes) else data.read_bytes()
        digest = digest_bytes(held)
        (self.folder / digest.removeprefix("sha256:")).write_bytes(held)
        return digest

    def path(self, digest: str) -> Path:
        found = self.folder / digest.removeprefix("sha256:")
        if not found.exists():
            raise KeyError(digest)
        return found
