"""Result layers as artifacts: ``ArtifactLayerStore(blobs)`` is the LayerStore port over any blob store.

``blobs`` needs ``put(data: bytes | Path, *, media_type) -> digest`` and ``path(digest) -> Path`` (KeyError
where absent). Masks are COGs of uint8 (1 True, 0 False, 255 invalid), rasters float32 with NaN, classes uint8
with an unused value as nodata, vectors GeoJSON FeatureCollections. The same layer always has the same digest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from apps.core.digests import canonical_json
from apps.core.errors import FaultError
from apps.core.evidence.observation import LayerRef
from apps.core.geo.bands import Band
from apps.core.geo.grid import Grid
from apps.core.geo.raster import MaskedRaster
from apps.imagery.readers import open_raster
from apps.imagery.writers import layer_bytes, png_bytes

TIFF_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
PNG_TYPE = "image/png"
GEOJSON_TYPE = "application/geo+json"
INVALID = 255


def _is_coded(coded: NDArray[np.uint8]) -> bool:
    """True where every value is 0, 1 or INVALID."""
    return bool(((coded <= 1) | (coded == INVALID)).all())


class BlobStore(Protocol):
    """Content-addressed bytes."""

    def put(self, data: bytes | Path, *, media_type: str = "") -> str: ...

    def path(self, digest: str) -> Path: ...


class ArtifactLayerStore:
    """Keeps layers in a blob store and reads them back (LayerStore)."""

    def __init__(self, blobs: BlobStore):
        self._blobs = blobs

    def put_mask(
        self,
        mask: NDArray[np.bool_],
        valid: NDArray[np.bool_],
        grid: Grid,
        *,
        label: str,
        scene_id: str | None = None,
    ) -> LayerRef:
        """``mask`` and ``valid`` (rows, columns); ``n`` of the reference counts the True and valid pixels."""
        if mask.shape != grid.shape or valid.shape != grid.shape:
            raise FaultError(
                f"mask {mask.shape} and valid {valid.shape} must have the grid's shape {grid.shape}"
            )
        coded = np.where(valid, mask, np.uint8(INVALID)).astype(np.uint8)
        digest = self._blobs.put(
            layer_bytes(
                coded[None], grid, nodata=INVALID, descriptions=("mask",), tags={"RSURE_KIND": "mask"}
            ),
            media_type=TIFF_TYPE,
        )
        return LayerRef(
            kind="mask",
            artifact=digest,
            crs=grid.crs or "image",
            label=label,
            media_type=TIFF_TYPE,
            grid=grid,
            n=int(np.count_nonzero(mask & valid)),
            source_scene_id=scene_id,
        )

    def put_raster(self, raster: MaskedRaster, *, label: str, scene_id: str | None = None) -> LayerRef:
        planes = raster.data.astype(np.float32, copy=False)
        if not raster.valid.all():
            hidden = ~(raster.valid | np.isnan(planes))
            if hidden.any():
                planes = np.where(hidden, np.float32(np.nan), planes)
        tags = {
            "RSURE_KIND": "raster",
            "RSURE_UNIT": raster.unit,
            "RSURE_BANDS": canonical_json([b.model_dump(mode="json") for b in raster.bands]),
        }
        digest = self._blobs.put(
            layer_bytes(
                planes,
                raster.grid,
                nodata=float("nan"),
                tags=tags,
                descriptions=tuple(b.role for b in raster.bands),
            ),
            media_type=TIFF_TYPE,
        )
        return LayerRef(
            kind="raster",
            artifact=digest,
            crs=raster.grid.crs or "image",
            label=label,
            media_type=TIFF_TYPE,
            grid=raster.grid,
            unit=raster.unit,
            n=raster.n_valid,
            source_scene_id=scene_id,
        )

    def put_classes(
        self,
        classes: NDArray[np.uint8],
        valid: NDArray[np.bool_],
        grid: Grid,
        names: dict[int, str],
        *,
        label: str,
        scene_id: str | None = None,
    ) -> LayerRef:
        """``names`` maps class values to names. FaultError where valid classes use all 256 values."""
        if classes.shape != grid.shape or valid.shape != grid.shape:
            raise FaultError(
                f"classes {classes.shape} and valid {valid.shape} must have the grid's shape {grid.shape}"
            )
        used = set(np.unique(classes[valid]).tolist()) | set(names)
        nodata = next((v for v in range(255, -1, -1) if v not in used), None)
        if nodata is None:
            raise FaultError("all 256 class values are in use: none is left for nodata")
        coded = np.where(valid, classes, np.uint8(nodata)).astype(np.uint8)
        tags = {
            "RSURE_KIND": "classes",
            "RSURE_CLASSES": canonical_json({str(k): v for k, v in names.items()}),
        }
        digest = self._blobs.put(
            layer_bytes(coded[None], grid, nodata=nodata, descriptions=("class",), tags=tags),
            media_type=TIFF_TYPE,
        )
        return LayerRef(
            kind="classes",
            artifact=digest,
            crs=grid.crs or "image",
            label=label,
            media_type=TIFF_TYPE,
            grid=grid,
            n=int(valid.sum()),
            source_scene_id=scene_id,
        )

    def put_image(
        self,
        rgba: NDArray[np.uint8],
        grid: Grid,
        *,
        form: Literal["geotiff", "png"],
        label: str,
        scene_id: str | None = None,
    ) -> LayerRef:
        """``rgba`` (rows, columns, 4) of uint8. FaultError where it does not fit the grid."""
        if rgba.dtype != np.uint8 or rgba.shape != (*grid.shape, 4):
            raise FaultError(f"picture {rgba.shape} of {rgba.dtype} does not fit the grid {grid.shape}")
        if form == "png":
            digest = self._blobs.put(png_bytes(rgba), media_type=PNG_TYPE)
            return LayerRef(kind="image", artifact=digest, label=label, media_type=PNG_TYPE, source_scene_id=scene_id)
        data = layer_bytes(
            np.moveaxis(rgba, 2, 0), grid, nodata=None, tags={"RSURE_KIND": "image"}, is_picture=True
        )
        digest = self._blobs.put(data, media_type=TIFF_TYPE)
        return LayerRef(
            kind="image", artifact=digest, crs=grid.crs or "image", label=label, media_type=TIFF_TYPE, grid=grid,
            source_scene_id=scene_id,
        )  # fmt: skip

    def put_features(
        self, features: list[dict[str, Any]], *, kind: str, crs: str, label: str, scene_id: str | None = None
    ) -> LayerRef:
        """``features`` are GeoJSON features with coordinates in ``crs`` (``image``: pixels, x right, y down);
        ``kind`` is boxes, polygons or points. ValueError where a number is not finite."""
        name = crs if crs == "image" else f"urn:rsure:crs:{crs}"
        document = {
            "type": "FeatureCollection",
            "crs": {"type": "name", "properties": {"name": name}},
            "features": features,
        }
        digest = self._blobs.put(canonical_json(document).encode(), media_type=GEOJSON_TYPE)
        return LayerRef.model_validate(
            {
                "kind": kind,
                "artifact": digest,
                "crs": crs,
                "label": label,
                "media_type": GEOJSON_TYPE,
                "n": len(features),
                "source_scene_id": scene_id,
            }
        )

    def read_mask(self, ref: LayerRef) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(mask, valid), both (rows, columns); mask is False where invalid. FaultError where the layer is no
        mask."""
        planes, _, _ = self._planes(ref)
        coded = planes[0]
        if planes.shape[0] != 1 or coded.dtype != np.uint8 or not _is_coded(coded):
            raise FaultError("the artifact is no mask: values other than 0, 1 and 255")
        return coded == 1, coded != INVALID

    def mask_strips(
        self, ref: LayerRef, rows: int = 512
    ) -> Iterator[tuple[int, NDArray[np.bool_], NDArray[np.bool_]]]:
        """(first row, mask, valid) of a mask of any size, ``rows`` rows at a time, all columns wide: memory for one strip.
        FaultError where the layer is no mask."""
        with open_raster(self._blobs.path(ref.artifact)) as dataset:
            if dataset.count != 1 or dataset.dtypes[0] != "uint8":
                raise FaultError("the artifact is no mask: one band of uint8 is")
            for top in range(0, dataset.height, rows):
                n = min(rows, dataset.height - top)
                coded = dataset.read(1, window=((top, top + n), (0, dataset.width)))
                if not _is_coded(coded):
                    raise FaultError("the artifact is no mask: values other than 0, 1 and 255")
                yield top, coded == 1, coded != INVALID

    def read_raster(self, ref: LayerRef) -> MaskedRaster:
        """The raster with bands and unit as put; classes and masks come as their codes."""
        planes, tags, nodata = self._planes(ref)
        valid = np.isfinite(planes) if planes.dtype.kind == "f" else planes != nodata
        held = json.loads(tags["RSURE_BANDS"]) if "RSURE_BANDS" in tags else None
        role = {"mask": "mask", "classes": "class"}.get(tags.get("RSURE_KIND", ""), "unknown")
        bands = (
            tuple(Band.model_validate(b) for b in held)
            if held
            else tuple(Band(index=i + 1, role=role) for i in range(planes.shape[0]))
        )
        return MaskedRaster(
            planes, valid, self._grid(ref, planes), bands, tags.get("RSURE_UNIT", ref.unit or "1")
        )

    def read_classes(self, ref: LayerRef) -> tuple[NDArray[np.uint8], NDArray[np.bool_], dict[int, str]]:
        """(classes, valid, names), the first two (rows, columns)."""
        planes, tags, nodata = self._planes(ref)
        names = {int(k): str(v) for k, v in json.loads(tags.get("RSURE_CLASSES", "{}")).items()}
        return planes[0].astype(np.uint8), planes[0] != nodata, names

    def read_features(self, ref: LayerRef) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self._blobs.path(ref.artifact).read_bytes())["features"]
        return found

    def read_vector(self, digest: str) -> tuple[list[dict[str, Any]], str]:
        """(features, CRS) of a kept vector file. KeyError where absent, FaultError where the artifact is none."""
        path = self._blobs.path(digest)
        try:
            document = json.loads(path.read_bytes())
            name = str(document["crs"]["properties"]["name"])
            found: list[dict[str, Any]] = document["features"]
        except (ValueError, KeyError, TypeError) as error:
            raise FaultError("the artifact is no vector layer") from error
        return found, name.removeprefix("urn:rsure:crs:")

    def size(self, ref: LayerRef) -> int:
        """Bytes of the artifact. KeyError where the store does not hold it."""
        return self._blobs.path(ref.artifact).stat().st_size

    def _planes(self, ref: LayerRef) -> tuple[NDArray[Any], dict[str, str], float | None]:
        with open_raster(self._blobs.path(ref.artifact)) as dataset:
            return dataset.read(), dict(dataset.tags()), dataset.nodata

    @staticmethod
    def _grid(ref: LayerRef, planes: NDArray[Any]) -> Grid:
        grid = ref.grid
        if grid is None or grid.shape != planes.shape[1:]:
            raise FaultError(f"the reference's grid does not fit the layer {planes.shape}")
        return grid
