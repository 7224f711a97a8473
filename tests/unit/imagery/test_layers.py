"""Result layers come back as they were put, and equal layers have equal digests."""

from pathlib import Path

import numpy as np
import pytest

from apps.core.errors import FaultError
from apps.core.geo import Band, Grid, MaskedRaster
from apps.core.ports import LayerStore
from apps.imagery.layers import ArtifactLayerStore
from tests.unit.imagery.rasters import TRANSFORM, FolderBlobs

GRID = Grid(crs="EPSG:32630", transform=TRANSFORM, width=700, height=600)


@pytest.fixture
def store(tmp_path: Path) -> ArtifactLayerStore:
    return ArtifactLayerStore(FolderBlobs(tmp_path))


@pytest.mark.parametrize("grid", [GRID, Grid(width=700, height=600)])
def test_masks_keep_three_states(store: ArtifactLayerStore, grid: Grid) -> None:
    assert isinstance(store, LayerStore)
    rng = np.random.default_rng(0)
    mask, valid = rng.random(grid.shape) > 0.5, rng.random(grid.shape) > 0.1
    ref = store.put_mask(mask, valid, grid, label="water", scene_id="s")
    assert (ref.n, ref.crs, ref.kind) == (int((mask & valid).sum()), grid.crs or "image", "mask")
    back, known = store.read_mask(ref)
    np.testing.assert_array_equal(known, valid)
    np.testing.assert_array_equal(back, mask & valid)
    assert store.put_mask(mask, valid, grid, label="other").artifact == ref.artifact
    assert store.size(ref) > 0


def test_rasters_keep_bands_unit_and_gaps(store: ArtifactLayerStore) -> None:
    data = np.linspace(-1, 1, 2 * 600 * 700).reshape(2, 600, 700)
    valid = data > -0.5
    bands = (Band(index=1, role="ndvi", unit="1"), Band(index=2, role="index", unit="1"))
    ref = store.put_raster(MaskedRaster(data, valid, GRID, bands, "1"), label="NDVI")
    back = store.read_raster(ref)
    assert (back.bands, back.unit, back.grid) == (bands, "1", GRID)
    np.testing.assert_array_equal(back.valid, valid)
    np.testing.assert_allclose(back.data[valid], data[valid], rtol=1e-6)


def test_classes_keep_their_names_and_use_no_class_as_nodata(store: ArtifactLayerStore) -> None:
    classes = np.tile(np.array([0, 3, 255], dtype=np.uint8), 140000).reshape(600, 700)
    valid = np.ones(GRID.shape, dtype=bool)
    valid[:7] = False
    ref = store.put_classes(classes, valid, GRID, {0: "land", 3: "water", 255: "ice"}, label="cover")
    back, known, names = store.read_classes(ref)
    assert names == {0: "land", 3: "water", 255: "ice"}
    np.testing.assert_array_equal(known, valid)
    np.testing.assert_array_equal(back[valid], classes[valid])
    with pytest.raises(FaultError):
        store.read_mask(ref)


def test_features_come_back_and_refuse_what_is_no_number(store: ArtifactLayerStore) -> None:
    feature = {"type": "Feature", "geometry": {"type": "Point", "coordinates": [1.5, 2]}, "properties": {"score": 0.9}}
    ref = store.put_features([feature], kind="points", crs="image", label="trees")
    assert store.read_features(ref) == [feature]
    assert ref.n == 1
    with pytest.raises(ValueError):
        store.put_features([feature | {"properties": {"score": float("nan")}}], kind="points", crs="image", label="")


def test_shapes_must_fit(store: ArtifactLayerStore) -> None:
    with pytest.raises(FaultError):
        store.put_mask(np.zeros((2, 2), bool), np.ones((2, 2), bool), GRID, label="")
    held = store.put_features([], kind="points", crs="image", label="")
    with pytest.raises(KeyError):
        store.size(held.model_copy(update={"artifact": "sha256:" + "0" * 64}))
