"""Tiles: right pixels in the right place, the nodata policy in the alpha, nothing where nothing is."""

import io
import time
from pathlib import Path

import numpy as np
import pytest
import rasterio
from PIL import Image
from rio_tiler.io import Reader

from apps.core.errors import UserError
from apps.core.geo import Band, FillRule, Grid, SceneInfo
from apps.imagery import tiles
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.readers import open_scene
from apps.imagery.statistics import scene_statistics
from apps.imagery.writers import write_cog
from tests.unit.imagery.rasters import TRANSFORM, FolderBlobs, describe, write


def _cog(tmp_path: Path, planes: np.ndarray, **options: object) -> Path:
    source = write(tmp_path / "t.tif", planes, **options)  # type: ignore[arg-type]
    target = tmp_path / "cog.tif"
    write_cog(source, target, n_bands=planes.shape[0], dtype=planes.dtype.name)
    return target


def _centre_tile(info: SceneInfo, z: int) -> tuple[int, int, int]:
    west, south, east, north = info.grid.lonlat_bounds()
    lon, lat = np.radians((west + (east + 360 * (west > east))) / 2), np.radians((south + north) / 2)
    x = int((np.degrees(lon) + 180) / 360 * 2**z) % 2**z
    return z, x, int((1 - np.arcsinh(np.tan(lat)) / np.pi) / 2 * 2**z)


def test_a_tile_is_the_one_that_rio_tiler_makes(tmp_path: Path) -> None:
    planes = np.random.default_rng(0).integers(1, 255, (3, 900, 900)).astype(np.uint8)
    path = _cog(tmp_path, planes, photometric="RGB")
    bands = tuple(Band(index=i + 1, role=r) for i, r in enumerate(("red", "green", "blue")))
    info = describe(planes, *bands)
    with open_scene(info, path) as reader:
        statistics = scene_statistics(reader)
    z, x, y = _centre_tile(info, 14)
    rgba = tiles.scene_rgba(info, path, statistics, tiles.default_view(info), z, x, y)
    assert rgba is not None
    with Reader(str(path)) as plain:
        image = plain.tile(x, y, z)
    np.testing.assert_array_equal(rgba[..., 3] > 0, image.mask > 0)
    seen = rgba[..., 3] > 0
    assert seen.mean() > 0.3
    np.testing.assert_array_equal(np.moveaxis(rgba[..., :3], -1, 0)[:, seen], image.data[:, seen])


def test_fill_and_nodata_are_transparent_over_all_bands(tmp_path: Path) -> None:
    planes = np.random.default_rng(0).integers(100, 9000, (4, 900, 900)).astype(np.float32)
    planes[:, :450] = 0  # fill
    planes[:3, 450:600] = 0  # zeros in three bands are real: the fourth is not zero
    path = _cog(tmp_path, planes)
    info = describe(planes, fill_rules=(FillRule(kind="all_bands_equal", value=0.0),))
    with open_scene(info, path) as reader:
        statistics = scene_statistics(reader)
        shown = reader.read([1], physical=False)
    whole = tiles.scene_preview(info, path, statistics, tiles.View((1, 2, 3)), 900)
    np.testing.assert_array_equal(whole[..., 3] > 0, shown.valid[0])
    z, x, y = _centre_tile(info, 13)
    rgba = tiles.scene_rgba(info, path, statistics, tiles.View((1, 2, 3)), z, x, y)
    assert rgba is not None
    real = describe(planes)
    everything = tiles.scene_rgba(real, path, statistics, tiles.View((1, 2, 3)), z, x, y)
    assert everything is not None
    assert 0.4 < (rgba[..., 3] > 0).sum() / (everything[..., 3] > 0).sum() < 0.6


def test_a_declared_nodata_that_is_real_is_shown(tmp_path: Path) -> None:
    planes = np.full((1, 300, 300), 255, np.uint8)
    planes[0, :, :150] = 9
    path = _cog(tmp_path, planes, nodata=255)
    hidden, real = describe(planes, Band(index=1, nodata=255)), describe(planes, Band(index=1))
    with open_scene(real, path) as reader:
        statistics = scene_statistics(reader)
    z, x, y = _centre_tile(real, 12)
    counts = []
    for info in (hidden, real):
        drawn = [
            tiles.scene_rgba(info, path, statistics, tiles.View((1,)), z, x + i, y + j) for i in (-1, 0, 1) for j in (-1, 0, 1)
        ]
        counts.append(sum(int((rgba[..., 3] > 0).sum()) for rgba in drawn if rgba is not None))
    assert counts[0] == pytest.approx(counts[1] / 2, rel=0.03)
    assert counts[1] < 3 * 256 * 256  # beyond the raster nothing is shown


def test_stretch_from_stored_statistics(tmp_path: Path) -> None:
    planes = np.tile(np.linspace(1000, 3000, 200, dtype=np.float32), (1, 200, 1))
    path = _cog(tmp_path, planes)
    info = describe(planes)
    with open_scene(info, path) as reader:
        statistics = scene_statistics(reader)
    low, high = tiles.stretch_range(statistics, 1, "percent")
    assert (low, high) == pytest.approx((1040, 2960), abs=12)
    assert tiles.stretch_range(statistics, 1, "minmax") == (1000, 3000)
    grey = tiles.scene_preview(info, path, statistics, tiles.View((1,)), 200)[0, :, 0]
    assert (grey[0], grey[-1]) == (0, 255)
    assert np.all(np.diff(grey.astype(int)) >= 0)


def test_pixel_space_tiles_put_the_picture_together(tmp_path: Path) -> None:
    planes = np.random.default_rng(0).integers(0, 255, (3, 700, 1100)).astype(np.uint8)
    path = _cog(tmp_path, planes, crs=None, transform=None, photometric="RGB")
    bands = tuple(Band(index=i + 1, role=r) for i, r in enumerate(("red", "green", "blue")))
    info = describe(planes, *bands, crs=None).model_copy(update={"grid": Grid(width=1100, height=700)})
    with open_scene(info, path) as reader:
        statistics = scene_statistics(reader)
    full = tiles.image_zoom(1100, 700)
    assert full == 3
    canvas = np.zeros((768, 1280, 4), np.uint8)
    for x in range(5):
        for y in range(3):
            rgba = tiles.scene_image_rgba(info, path, statistics, tiles.default_view(info), full, x, y)
            assert rgba is not None
            canvas[y * 256 : y * 256 + 256, x * 256 : x * 256 + 256] = rgba
    np.testing.assert_array_equal(np.moveaxis(canvas[:700, :1100, :3], -1, 0), planes)
    assert not canvas[700:, :, 3].any()
    assert tiles.scene_image_rgba(info, path, statistics, tiles.default_view(info), full, 5, 0) is None
    assert tiles.scene_image_rgba(info, path, statistics, tiles.default_view(info), full + 1, 0, 0) is None
    least = tiles.scene_image_rgba(info, path, statistics, tiles.default_view(info), 0, 0, 0)
    assert least is not None
    assert (least[..., 3] > 0).sum() == round(700 / 8) * round(1100 / 8)


def test_a_scene_over_the_antimeridian_has_tiles_on_both_sides(tmp_path: Path) -> None:
    planes = np.full((1, 300, 300), 7, np.uint8)
    transform = (1000.0, 0.0, 150000.0, 0.0, -1000.0, 5700000.0)
    path = _cog(tmp_path, planes, crs="EPSG:32601", transform=transform)
    grid = Grid(crs="EPSG:32601", transform=transform, width=300, height=300)
    info = describe(planes).model_copy(update={"grid": grid})
    with open_scene(info, path) as reader:
        statistics = scene_statistics(reader)
    y = _centre_tile(info, 5)[2]
    left = tiles.scene_rgba(info, path, statistics, tiles.View((1,)), 5, 31, y)
    right = tiles.scene_rgba(info, path, statistics, tiles.View((1,)), 5, 0, y)
    assert left is not None
    assert right is not None
    assert left[..., 3].any()
    assert right[..., 3].any()
    assert tiles.scene_rgba(info, path, statistics, tiles.View((1,)), 5, 16, y) is None


def test_bands_of_the_address_are_checked(tmp_path: Path) -> None:
    info = describe(np.ones((4, 5, 5), np.uint8))
    assert tiles.parse_view(info, "4,3,2").bands == (4, 3, 2)
    for wrong in ("5", "1,2", "x", "1,2,3,4"):
        with pytest.raises(UserError):
            tiles.parse_view(info, wrong)


def test_layers_are_drawn_by_their_kind(tmp_path: Path) -> None:
    store = ArtifactLayerStore(FolderBlobs(tmp_path))
    grid = Grid(crs="EPSG:32630", transform=TRANSFORM, width=500, height=500)
    mask = np.zeros((500, 500), bool)
    mask[100:200, 100:200] = True
    valid = np.ones((500, 500), bool)
    valid[400:] = False
    path = tmp_path / store.put_mask(mask, valid, grid, label="m").artifact.removeprefix("sha256:")
    whole = tiles.layer_image_rgba(path, 1, 0, 0)
    assert whole is not None
    cyan = (whole[..., :3] == (34, 211, 238)).all(axis=-1)
    np.testing.assert_array_equal(cyan, mask[:256, :256])
    assert whole[150, 150, 3] == 92  # see-through inside
    assert whole[100, 150, 3] == 255  # a bright edge
    assert tuple(whole[99, 150]) == (11, 15, 20, 230)  # a dark halo
    assert whole[0, 0, 3] == 0
    z, x, y = _centre_tile(describe(mask[None].astype(np.uint8)), 13)
    assert tiles.layer_rgba(path, z, x, y) is not None
    assert tiles.layer_rgba(path, z, 0, 0) is None

    values = np.tile(np.linspace(-1, 1, 500, dtype=np.float32), (1, 500, 1))
    from apps.core.geo import MaskedRaster

    ref = store.put_raster(MaskedRaster(values, valid[None], grid, (Band(index=1, role="ndvi", unit="1"),), "1"), label="NDVI")
    held = tmp_path / ref.artifact.removeprefix("sha256:")
    style = tiles.layer_style(held)
    assert (style.kind, style.colors, style.unit) == ("raster", "rdbu", "1")
    assert style.low == -style.high
    stops = tiles.legend(style)
    assert [s["value"] for s in stops] == pytest.approx([style.low, style.low / 2, 0, style.high / 2, style.high], abs=1e-6)
    drawn = tiles.layer_image_rgba(held, 1, 0, 1)
    assert drawn is not None
    assert drawn[:144, :, 3].all()
    assert not drawn[144:, :, 3].any()

    classes = np.full((500, 500), 3, np.uint8)
    ref = store.put_classes(classes, valid, grid, {3: "water"}, label="c")
    held = tmp_path / ref.artifact.removeprefix("sha256:")
    picture = tiles.layer_image_rgba(held, 1, 0, 0)
    assert picture is not None
    color = "#" + "".join(f"{c:02x}" for c in picture[0, 0, :3])
    assert tiles.legend(tiles.layer_style(held)) == [{"value": 3, "label": "water", "color": color}]


def test_a_plain_raster_is_no_layer(tmp_path: Path) -> None:
    with pytest.raises(UserError):
        tiles.layer_style(write(tmp_path / "t.tif", np.ones((1, 5, 5), np.uint8)))


def test_rendering_is_bounded_in_time() -> None:
    started = time.monotonic()
    with pytest.raises(UserError) as caught:
        tiles.bounded(lambda: time.sleep(1.5), seconds=0.1)
    assert time.monotonic() - started < 1
    assert caught.value.code == "TILE_TIMEOUT"


@pytest.mark.parametrize("kind", ["png", "webp"])
def test_encoding_loses_nothing(kind: tiles.ImageFormat) -> None:
    rgba = np.random.default_rng(0).integers(0, 255, (256, 256, 4)).astype(np.uint8)
    rgba[..., 3] = 255
    back = np.asarray(Image.open(io.BytesIO(tiles.encode(rgba, kind))).convert("RGBA"))
    np.testing.assert_array_equal(back, rgba)
    assert np.asarray(Image.open(io.BytesIO(tiles.empty_tile(kind))).convert("RGBA"))[..., 3].max() == 0


def test_open_files_are_bounded(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{i}.tif", np.ones((1, 4, 4), np.uint8)) for i in range(tiles.KEEP_OPEN + 5)]
    held = [tiles._kept(("raw", str(p)), lambda p=p: rasterio.open(p)) for p in paths]  # type: ignore[misc]
    assert sum(not d.closed for d in held) == tiles.KEEP_OPEN
    assert tiles._kept(("raw", str(paths[-1])), lambda: None) is held[-1]
