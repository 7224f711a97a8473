"""Band files of several resolutions as one scene: Sentinel-2 bands of 10, 20 and 60 m, Landsat bands with a panchromatic one as
USGS lays it, and by hand what the stack must hold and what answers must tell."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from django.test import Client
from numpy.typing import NDArray
from rasterio.enums import Resampling
from rasterio.transform import Affine
from rasterio.warp import reproject

from apps.accounts.models import Project
from apps.core.errors import UserError
from apps.core.geo import SceneInfo
from apps.imagery import services
from apps.imagery.models import Scene
from apps.imagery.readers import open_scene
from apps.imagery.selectors import scene_infos_of_project, scene_paths
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.unit.imagery.rasters import write

# Sides that whole pixels of 20 and 60 m fill.
SIDE = 510
STEM = "T18SVG_20200505T155911"
SIZES = {"B02": 10, "B03": 10, "B04": 10, "B08": 10, "B05": 20, "B8A": 20, "B11": 20, "B12": 20, "B01": 60}


def file_of(folder: Path, name: str, plane: NDArray[Any], size: float, corner: tuple[float, float] = (441730, 4173460),
            crs: str = "EPSG:32618", **options: Any) -> Path:  # fmt: skip
    return write(folder / name, plane[None], crs=crs, transform=(size, 0.0, corner[0], 0.0, -size, corner[1]), **options)


def stored(scene: Scene) -> tuple[SceneInfo, NDArray[Any], NDArray[np.bool_]]:
    info = scene.scene_info
    with open_scene(info, scene_paths([info.scene_id])[info.scene_id]) as reader:
        read = reader.read([b.index for b in info.bands], physical=False)
    return info, read.data, read.valid


def answered(project: Project, scene: Scene, text: str) -> Any:
    run = run_start(user=None, project=project, text=text, scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    state = run_state(run.pk)
    assert state.answer is not None
    return state


@pytest.fixture
def real(shared_data: Path) -> dict[str, NDArray[np.uint16]]:
    """Bands of a real product on 10 m; those of 20 and 60 m were repeated by who made the file, so that every second or sixth
    pixel is what was delivered."""
    with rasterio.open(shared_data / "multispectral/s2_l1c_crop512_13band_32618.tif") as src:
        return {name: src.read(k)[:SIDE, :SIDE] for k, name in enumerate(src.descriptions, 1)}


def delivered(project: Project, folder: Path, real: dict[str, NDArray[np.uint16]], *names: str) -> list[Scene]:
    out = []
    for name in names:
        step = SIZES[name] // 10
        path = file_of(folder, f"{STEM}_{name}.tif", real[name][::step, ::step], SIZES[name])
        out.append(services.scene_ingest_now(project=project, path=path))
    return out


@pytest.mark.shared_data
def test_bands_of_10_20_and_60_m_of_one_product_become_one_scene(
    project: Project, tmp_path: Path, real: dict[str, NDArray[np.uint16]]
) -> None:
    """Before, they stayed nine scenes, and NDMI was refused for want of a band."""
    names = ("B11", "B01", "B03", "B04", "B08", "B12")
    files = delivered(project, tmp_path, real, *names)
    (one,) = services.scenes_of_band_files(project=project, scenes=files)
    info, data, _ = stored(one)
    assert (info.grid.width, info.grid.height) == (SIDE, SIDE) and info.effective_gsd_m == pytest.approx(10, rel=1e-3)
    for band, name in zip(info.bands, names, strict=True):
        np.testing.assert_array_equal(data[band.index - 1], real[name])
        size = SIZES[name]
        assert band.native_gsd_m == (None if size == 10 else pytest.approx(size, rel=1e-3))
        assert band.resampled.startswith("nearest: each pixel of") == (size > 10)
    assert f"repeated {2} × {2}" in info.bands[0].resampled and "6 × 6" in info.bands[1].resampled
    assert one.facts is not None and "repeated, not interpolated" in str(one.facts["changes"])
    assert [s["resampled"] != "" for s in one.sources] == [True, True, False, False, False, True]
    for text, a, b in (("What is the mean NDMI?", "B08", "B11"), ("What is the mean NBR?", "B08", "B12"),
                       ("What is the mean MNDWI?", "B03", "B11")):  # fmt: skip
        state = answered(project, one, text)
        assert not state.answer.abstained, state.answer.text
        x, y = real[a].astype(float), real[b].astype(float)
        assert state.answer.value == pytest.approx(((x - y) / (x + y)).mean(), rel=1e-6)
        (held,) = state.history
        source = held.observation.evidence.source
        role = {"B11": "swir1", "B12": "swir2"}[b]
        assert source["native_gsd_m"][info.scene_id][role] == pytest.approx(20, rel=1e-3)
        assert "2 × 2" in source["resampling"][info.scene_id][role]
        assert "at 20 m was measured in coarser pixels" in " ".join(state.answer.warnings)
        told = {r.role: r.native_gsd_m for r in held.observation.inputs[0].bands}
        assert told[role] == pytest.approx(20, rel=1e-3)


@pytest.mark.shared_data
def test_the_outline_of_an_area_is_as_exact_as_the_measured_pixels(
    project: Project, tmp_path: Path, real: dict[str, NDArray[np.uint16]]
) -> None:
    (one,) = services.scenes_of_band_files(project=project, scenes=delivered(project, tmp_path, real, "B03", "B11"))
    state = answered(project, one, "How many hectares have MNDWI above 0?")
    assert not state.answer.abstained, state.answer.text
    g, s = (real[b].astype(float) for b in ("B03", "B11"))
    mask = (g - s) / (g + s) > 0
    assert state.answer.value == pytest.approx(mask.sum() / 100, rel=2e-3)
    # the mask's pixels that touch one outside it along a side; half of a 20 m pixel is a whole one of 10 m
    wide = np.pad(mask, 1, mode="edge")
    inner = mask & ~(wide[:-2, 1:-1] & wide[2:, 1:-1] & wide[1:-1, :-2] & wide[1:-1, 2:])
    low, _ = state.history[-1].observation.result.interval
    assert low == pytest.approx((mask.sum() - 2 * 0.5 * inner.sum()) / 100, rel=5e-3)


@pytest.mark.shared_data
def test_the_analyst_may_choose_the_coarser_grid(project: Project, tmp_path: Path, real: dict[str, NDArray[np.uint16]]) -> None:
    files = delivered(project, tmp_path, real, "B04", "B08", "B11")
    one = services.scene_stack(project=project, scenes=files, wish="coarser")
    info, data, _ = stored(one)
    assert info.grid.width == SIDE // 2 and info.bands[0].native_gsd_m == pytest.approx(10, rel=1e-3)
    for k, name in enumerate(("B04", "B08")):
        mean = real[name].reshape(SIDE // 2, 2, SIDE // 2, 2).mean(axis=(1, 3))
        np.testing.assert_array_equal(data[k], np.rint(mean))
        assert info.bands[k].resampled == "mean of 2 × 2 pixels of 10 m"
    np.testing.assert_array_equal(data[2], real["B11"][::2, ::2])
    state = answered(project, one, "What is the mean NDMI?")
    x, y = (data[k].astype(float) for k in (1, 2))
    assert state.answer.value == pytest.approx(((x - y) / (x + y)).mean(), rel=1e-6)
    assert "coarser pixels" not in " ".join(state.answer.warnings), "at 20 m nothing is finer than it was measured"


@pytest.mark.shared_data
def test_landsats_pan_lies_half_a_pixel_inside_and_is_averaged_by_area(
    project: Project, tmp_path: Path, shared_data: Path
) -> None:
    """USGS: the first pixels of 15 and 30 m share their middle, so n pixels of 30 m face 2 n - 1 of 15 m."""
    with rasterio.open(shared_data / "multispectral/landsat8_cloudy/l8_B4.tif") as src:
        red, corner, crs = src.read(1)[:90, :120], (src.transform.c, src.transform.f), src.crs.to_string()
    with rasterio.open(shared_data / "multispectral/landsat8_cloudy/l8_B3.tif") as src:
        pan = src.read(1)[: 2 * 90 - 1, : 2 * 120 - 1]
    inside = (corner[0] + 7.5, corner[1] - 7.5)
    stem = "LC08_L1TP_021036_20160101_20170301_01_T1"
    files = [services.scene_ingest_now(project=project, path=file_of(tmp_path, f"{stem}_{b}.TIF", plane, size, at, crs))
             for b, plane, size, at in (("B4", red, 30, corner), ("B8", pan, 15, inside))]  # fmt: skip
    (one,) = services.scenes_of_band_files(project=project, scenes=files)
    info, data, _ = stored(one)
    assert [b.role for b in info.bands] == ["red", "pan"] and info.grid.width == 120
    np.testing.assert_array_equal(data[0], red)
    wide = np.pad(pan.astype(float), 1, constant_values=np.nan)
    weight = np.outer([0.25, 0.5, 0.25], [0.25, 0.5, 0.25])
    for row, col in ((40, 50), (0, 0), (89, 119), (12, 0)):
        block = wide[2 * row : 2 * row + 3, 2 * col : 2 * col + 3]
        seen = np.isfinite(block)
        assert data[1, row, col] == np.rint((block * weight)[seen].sum() / weight[seen].sum())
    gdal = np.zeros((90, 120), np.float64)
    reproject(pan.astype(float), gdal, src_transform=Affine(15, 0, inside[0], 0, -15, inside[1]), src_crs=crs,
              dst_transform=Affine(30, 0, corner[0], 0, -30, corner[1]), dst_crs=crs, resampling=Resampling.average)  # fmt: skip
    assert np.abs(data[1, 1:-1, 1:-1] - gdal[1:-1, 1:-1]).max() <= 0.5 + 1e-6
    with pytest.raises(UserError, match="half a pixel"):
        services.scene_stack(project=project, scenes=files, wish="finer")


def test_classes_are_repeated_or_the_most_frequent_and_never_averaged(project: Project, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    red = rng.integers(1100, 5000, (40, 60)).astype("uint16")
    classes = rng.choice(np.array([0, 4, 8, 9, 10], np.uint8), (20, 30))
    fine = rng.choice(np.array([0, 4, 8, 9, 10], np.uint8), (40, 60))
    files = [services.scene_ingest_now(project=project, path=file_of(tmp_path, f"{STEM}_{n}.tif", p, s))
             for n, p, s in (("B04", red, 10), ("SCL", classes, 20))]  # fmt: skip
    _, data, _ = stored(services.scene_stack(project=project, scenes=files))
    np.testing.assert_array_equal(data[1], np.kron(classes, np.ones((2, 2), int)))
    files = [services.scene_ingest_now(project=project, path=file_of(tmp_path, f"{STEM}_{n}.tif", p, s))
             for n, p, s in (("B11", red[::2, ::2], 20), ("SCL", fine, 10))]  # fmt: skip
    info, data, valid = stored(services.scene_stack(project=project, scenes=files, wish="coarser"))
    assert info.bands[1].resampled == "most frequent code of 2 × 2 pixels of 10 m"
    for row in range(20):
        for col in range(30):
            block = fine[2 * row : 2 * row + 2, 2 * col : 2 * col + 2].ravel()
            kept = block[block > 0]
            assert valid[1, row, col] == (len(kept) >= 2)
            if len(kept) >= 2:
                assert data[1, row, col] == np.bincount(kept).argmax()


def test_a_mean_is_that_of_the_valid_pixels_and_half_of_them_must_be(project: Project, tmp_path: Path) -> None:
    rng = np.random.default_rng(6)
    nir = rng.integers(500, 5000, (20, 20)).astype("float32")
    nir[rng.random((20, 20)) < 0.4] = -9999
    names = ((f"{STEM}_B08.tif", nir, 10), (f"{STEM}_B11.tif", np.full((10, 10), 1500, "float32"), 20))
    files = [services.scene_ingest_now(project=project, path=file_of(tmp_path, n, p, s, nodata=-9999)) for n, p, s in names]
    _, data, valid = stored(services.scene_stack(project=project, scenes=files, wish="coarser"))
    for row in range(10):
        for col in range(10):
            block = nir[2 * row : 2 * row + 2, 2 * col : 2 * col + 2]
            held = block[block != -9999]
            assert valid[0, row, col] == (held.size >= 2)
            assert not valid[0, row, col] or data[0, row, col] == pytest.approx(held.mean())


@pytest.mark.parametrize(("size", "corner", "shape", "why"), [
    (20, (441740, 4173460), (20, 20), "differ in place"), (15, (441730, 4173460), (20, 20), "no whole number"),
    (20, (441730, 4173460), (19, 20), "differ in size")])  # fmt: skip
def test_grids_that_do_not_lie_in_each_other_are_refused_with_the_reason(
    project: Project, tmp_path: Path, size: float, corner: tuple[float, float], shape: tuple[int, int], why: str
) -> None:
    files = [services.scene_ingest_now(project=project, path=p) for p in (
        file_of(tmp_path, f"{STEM}_B08.tif", np.full((40, 40), 900, "uint16"), 10),
        file_of(tmp_path, f"{STEM}_B11.tif", np.full(shape, 900, "uint16"), size, corner))]  # fmt: skip
    with pytest.raises(UserError, match=why):
        services.scene_stack(project=project, scenes=files)
    assert services.scenes_of_band_files(project=project, scenes=files) == files


def test_a_file_with_a_mask_of_its_own_is_no_part_of_a_stack(project: Project, tmp_path: Path) -> None:
    """Before, the stack lost the mask, and what it hides counted."""
    planes = np.random.default_rng(2).integers(200, 6000, (2, 40, 40)).astype("uint16")
    paths = [file_of(tmp_path, f"LC08_L1TP_{b}.tif", p, 30) for b, p in zip(("B4", "B5"), planes, strict=True)]
    with rasterio.Env(GDAL_TIFF_INTERNAL_MASK=True), rasterio.open(paths[0], "r+") as out:
        out.write_mask(np.where(np.arange(40) < 20, 0, 255)[None].repeat(40, 0).astype("uint8"))
    files = [services.scene_ingest_now(project=project, path=p) for p in paths]
    assert files[0].scene_info.valid_share == 0.5
    with pytest.raises(UserError, match="mask of its own"):
        services.scene_stack(project=project, scenes=files)


@pytest.mark.shared_data
def test_of_a_band_at_several_resolutions_the_finest_is_taken(
    project: Project, tmp_path: Path, real: dict[str, NDArray[np.uint16]]
) -> None:
    """Level 2 holds …_B04_10m, …_B04_20m and …_B04_60m: before, no two of them were a scene."""
    files = [services.scene_ingest_now(project=project, path=file_of(
                 tmp_path, f"{STEM}_{b}_{s}m.tif", real[b][:: s // 10, :: s // 10], s))
             for b, s in (("B04", 20), ("B04", 10), ("B11", 20), ("B04", 60))]  # fmt: skip
    (one,) = services.scenes_of_band_files(project=project, scenes=files)
    info, data, _ = stored(one)
    assert [(b.role, b.native_gsd_m is None) for b in info.bands] == [("red", True), ("swir1", False)]
    np.testing.assert_array_equal(data[0], real["B04"])


def test_files_that_went_into_a_stack_are_folded_under_it_and_stay(project: Project, tmp_path: Path, analyst: Any) -> None:
    planes = np.random.default_rng(5).integers(200, 6000, (2, 40, 40)).astype("uint16")
    files = [services.scene_ingest_now(project=project, path=file_of(tmp_path, f"LC08_L1TP_{b}.tif", p, 30))
             for b, p in zip(("B4", "B5"), planes, strict=True)]  # fmt: skip
    stack = services.scene_stack(project=project, scenes=files)
    assert set(stack.parts.values_list("pk", flat=True)) == {f.pk for f in files}
    assert [i.scene_id for i in scene_infos_of_project(project.pk)] == [str(stack.pk)], "a catalogue lists no pixel twice"
    client = Client()
    client.force_login(analyst)
    page = client.get(f"/imagery/?project={project.pk}").content.decode()
    assert "1 of 1 ready" in page and "2 files it was made of" in page
    assert all(f"/imagery/{f.pk}/" in page for f in (*files, stack)), "folded, and still reached"
    assert f"/imagery/{stack.pk}/" in client.get(f"/imagery/{files[0].pk}/").content.decode()
    services.scene_delete(scene=stack)
    assert Scene.objects.filter(pk__in=[f.pk for f in files], part_of=None).count() == 2
