"""Scenes: what persons say of them, stacks, samples, pages and tiles of one's own only."""

import io
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.contrib.gis.geos import Point
from django.test import Client
from PIL import Image

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set, project_create
from apps.artifacts.services import ProjectBlobs
from apps.core.errors import NotFoundError, UserError
from apps.core.geo import MaskedRaster, SceneInfo
from apps.imagery import services
from apps.imagery.hints import SceneHints
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.models import Scene
from apps.imagery.readers import SceneReader, open_scene
from apps.imagery.sample import sample_load
from apps.imagery.selectors import scene_get_for_user, scene_paths, scenes_for_ask
from apps.imagery.stacking import common_dtype, stack_name
from tests.unit.imagery.rasters import write
from tests.unit.tools.rasters import Bench

SAMPLES = Path(__file__).resolve().parents[3] / "apps" / "imagery" / "samples"
FISH = SAMPLES / "geopandas_s2a_l2a_fishbourne.tif"


def scene_reader(info: SceneInfo) -> SceneReader:
    """A reader of the pixels that ingest kept for a scene."""
    return open_scene(info, scene_paths([info.scene_id])[info.scene_id])


@pytest.fixture
def raw(project: Project) -> Scene:
    """Fishbourne as it comes."""
    return services.scene_ingest_now(project=project, path=FISH)


def test_a_scene_can_be_read_and_found_on_the_globe(fish: Scene) -> None:
    assert Scene.objects.filter(footprint__intersects=Point(-1.22, 50.73, srid=4326)).count() == 1
    with scene_reader(fish.scene_info) as reader:
        part = reader.read([3, 4])
    red, nir = part.data
    ndvi = (nir - red) / (nir + red)
    assert int(part.valid[0].sum()) == 40574
    assert np.nanmean(ndvi) == pytest.approx(0.5303, abs=5e-4)
    assert np.nansum(ndvi > 0.4) / 100 == pytest.approx(302.35, abs=0.1)


def test_what_a_person_says_is_taken_and_can_be_taken_back(raw: Scene, analyst: User) -> None:
    assert raw.n_block == 1
    assert raw.scene_info.valid_share == pytest.approx(40574 / 60501)
    with pytest.raises(UserError) as caught:
        services.scene_confirm(scene=raw, user=analyst)
    assert caught.value.code == "CONFLICT"
    scene = services.scene_update(scene=raw, user=analyst, changes={"fill": "is_fill", "fill_value": 0})
    assert scene.n_block == 0
    assert scene.scene_info.fill_rules[0].source == "person"
    scene = services.scene_confirm(scene=scene, user=analyst)
    assert scene.confirmed_by == analyst
    scene = services.scene_update(scene=scene, user=analyst, changes={"fill": "is_real", "fill_value": None})
    assert scene.confirmed_at is None  # it was given for what stood there before
    assert scene.scene_info.valid_share == 1.0
    assert scene.statistics is not None
    assert scene.statistics["bands"][0]["low"] == 0
    scene = services.scene_update(scene=scene, user=analyst, changes={"fill": None})
    assert scene.n_block == 1
    scene = services.scene_update(scene=scene, user=analyst, changes={"acquired_at": "2019-06-01T00:00:00Z"})
    assert scene.acquired_at is not None
    assert scene.acquired_at.isoformat() == "2019-06-01T00:00:00+00:00"
    scene = services.scene_update(scene=scene, user=analyst, changes={"looks_right": ["scale"]})
    assert next(f for f in scene.findings if f["key"] == "scale")["light"] == "ok"
    with pytest.raises(UserError):
        services.scene_update(scene=scene, user=analyst, changes={"gsd_m": -1})


def test_a_run_keeps_the_copy_it_was_asked_with(raw: Scene, analyst: User) -> None:
    before = raw.scene_info
    services.scene_update(scene=raw, user=analyst, changes={"fill": "is_real"})
    with scene_reader(before) as reader:
        assert int(reader.read([1]).valid.sum()) == 40574


def test_equal_bytes_are_converted_once(project: Project, raw: Scene) -> None:
    again = services.scene_ingest_now(project=project, path=FISH, roles={"red": 3, "nir": 4})
    assert again.cog_id == raw.cog_id
    assert again.scene_info.roles == {"red", "nir"}
    assert raw.scene_info.scene_id != again.scene_info.scene_id
    assert again.scene_info.scene_id == str(again.pk)


def test_a_file_that_cannot_be_read_leaves_a_failed_scene(project: Project, analyst: User, tmp_path: Path) -> None:
    from apps.artifacts.services import artifact_put

    (tmp_path / "x.tif").write_bytes(b"II*\0 nothing")
    with pytest.raises(UserError):
        services.scene_ingest_now(project=project, path=tmp_path / "x.tif")
    assert Scene.objects.count() == 0
    artifact = artifact_put(data=tmp_path / "x.tif", project_id=project.pk)
    scene = Scene.objects.create(project=project, name="x.tif", original=artifact)
    services.scene_ingest(scene_id=str(scene.pk))
    scene.refresh_from_db()
    assert scene.status == Scene.FAILED
    assert scene.error is not None
    assert scene.error["code"] == "UNREADABLE"
    with pytest.raises(UserError):
        scenes_for_ask(analyst, project, [str(scene.pk)])


@pytest.mark.django_db(transaction=True)
def test_a_task_delivered_twice_ingests_once(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    from concurrent.futures import ThreadPoolExecutor

    from django.db import connection

    from apps.artifacts.services import artifact_put
    from apps.imagery.ingest import ingest_file

    scene = Scene.objects.create(project=project, name=FISH.name, original=artifact_put(data=FISH, project_id=project.pk))
    started: list[str] = []

    def counted(*args: Any, **more: Any) -> Any:
        started.append(more["scene_id"])
        return ingest_file(*args, **more)

    monkeypatch.setattr("apps.imagery.services.ingest_file", counted)

    def deliver(_: int) -> None:
        try:
            services.scene_ingest(scene_id=str(scene.pk))
        finally:
            connection.close()

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(deliver, range(3)))
    scene.refresh_from_db()
    assert (scene.status, started) == (Scene.READY, [str(scene.pk)])


def test_scenes_that_wait_are_taken_up_again(project: Project, fish: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    queued: list[str] = []
    monkeypatch.setattr("apps.imagery.tasks.ingest_scene.delay", queued.append)
    waiting = Scene.objects.create(project=project, name="x.tif")
    assert services.scenes_resume() == 1
    assert queued == [str(waiting.pk)]


@pytest.mark.shared_data
def test_band_files_become_one_scene(project: Project, shared_data: Path) -> None:
    folder = shared_data / "multispectral" / "landsat8_cloudy"
    files = [services.scene_ingest_now(project=project, path=folder / f"l8_{b}.tif") for b in ("B4", "B5", "BQA")]
    stack = services.scene_stack(project=project, scenes=files)
    info = stack.scene_info
    assert [b.role for b in info.bands] == ["red", "nir", "qa"]
    assert info.sensor == "Landsat 8/9 OLI-TIRS"
    assert [s["name"] for s in stack.sources] == ["l8_B4.tif", "l8_B5.tif", "l8_BQA.tif"]
    with scene_reader(info) as whole:
        for i, part in enumerate(files):
            with scene_reader(part.scene_info) as single:
                np.testing.assert_array_equal(whole.read([i + 1], physical=False).data, single.read([1], physical=False).data)


def test_band_files_of_one_scene_become_one_and_others_stay(project: Project, tmp_path: Path) -> None:
    planes = np.random.default_rng(5).integers(200, 6000, (2, 40, 40)).astype("uint16")
    for band, plane in zip(("B4", "B5"), planes, strict=True):
        write(tmp_path / f"LC08_L1TP_{band}.tif", plane[None], crs="EPSG:32616")
    files = [services.scene_ingest_now(project=project, path=tmp_path / f"LC08_L1TP_{b}.tif") for b in ("B4", "B5")]
    (one,) = services.scenes_of_band_files(project=project, scenes=files)
    assert [b.role for b in one.scene_info.bands] == ["red", "nir"]
    assert one.statistics is not None
    assert one.statistics["bands"][1]["mean"] == pytest.approx(planes[1].mean(dtype="float64"))
    twice = [files[0], files[0]]
    assert services.scenes_of_band_files(project=project, scenes=twice) == twice
    day = datetime(2020, 1, 1, tzinfo=UTC)
    other = services.scene_ingest_now(project=project, path=tmp_path / "LC08_L1TP_B5.tif", acquired_at=day)
    assert services.scenes_of_band_files(project=project, scenes=[files[0], other]) == [files[0], other]


def test_sentinel2_bands_and_their_classes_as_delivered_become_one_scene(project: Project, tmp_path: Path) -> None:
    """ESA writes the classes in 8 bits and the bands in 16: they are one scene, and its own classes take its clouds out."""
    rng = np.random.default_rng(8)
    red = rng.integers(1100, 5000, (1, 40, 50)).astype("uint16")
    classes = rng.choice(np.array([3, 4, 5, 6, 8, 9, 10], np.uint8), (1, 40, 50))
    red[:, :, :15], classes[:, :, :15] = 0, 0  # beside the swath
    stem = "T29UNU_20221005T115411"
    files = [services.scene_ingest_now(project=project, path=write(tmp_path / f"{stem}_{band}_60m.tif", plane, crs="EPSG:32629"))
             for band, plane in (("B04", red), ("SCL", classes))]  # fmt: skip
    assert [f.scene_info.dtype for f in files] == ["uint16", "uint8"]
    for order in (files, files[::-1]):
        (one,) = services.scenes_of_band_files(project=project, scenes=order)
        info = one.scene_info
        by_role = {b.role: b for b in info.bands}
        assert (info.dtype, info.sensor) == ("uint16", "Sentinel-2 MSI")
        assert by_role["qa"].scheme == "sentinel2_scl" and (by_role["red"].nodata, by_role["qa"].nodata) == (0.0, 0.0)
        with scene_reader(info) as reader:
            held = reader.read([by_role["red"].index, by_role["qa"].index], physical=False)
        np.testing.assert_array_equal(held.data, np.concatenate([red, classes]))
        bench = Bench((info, np.zeros((1, 1, 1))))
        path = scene_paths([info.scene_id])[info.scene_id]
        bench.box._open_scene = lambda held, path=path: open_scene(held, path)  # type: ignore[assignment,misc]
        o = bench.execute([
            ("s", "asset.scene", (), {"scene": info.scene_id}), ("r", "raster.product.band", ["s"], {"role": "red"}),
            ("m", "raster.product.qa_mask", ["s"], {"flags": ["cloud", "shadow", "cirrus"]}),
            ("c", "raster.product.apply_mask", ["r", "m"], {"keep": "false", "quality": "cloud"}),
            ("out", "raster.summarize.statistic", ["c"], {})])  # fmt: skip
        assert o.status.state == "ok", o.status.reason
        clear = (red > 0) & np.isin(classes, [4, 5, 6])
        assert o.result.value == pytest.approx((red[clear].astype(float).mean() - 1000) / 1e4, rel=1e-9)
        assert o.evidence.intermediate["valid_px"] == int(clear.sum())
    assert one.facts is not None and "widened to uint16" in str(one.facts["changes"])


def test_a_stack_of_delivered_bands_keeps_the_products_scale_fill_and_bits(project: Project, tmp_path: Path) -> None:
    """Landsat's Collection 2 as delivered: before, the stack's bands were called B4 and BQA, so reflectance was left in stored
    numbers and the bits of its clouds were read as those of another collection."""
    rng = np.random.default_rng(9)
    red, nir = (rng.integers(low, high, (1, 30, 40)).astype("uint16") for low, high in ((8000, 12000), (14000, 24000)))
    quality = rng.choice(np.array([21824, 21952, 22280, 23888, 21762, 30048, 55052], np.uint16), (1, 30, 40))
    red[:, :, :9], nir[:, :, :9], quality[:, :, :9] = 0, 0, 1  # around the tilted frame
    stem = "LC08_L2SP_008059_20191201_20200825_02_T1"
    files = [services.scene_ingest_now(project=project, path=write(tmp_path / f"{stem}_{band}.TIF", plane, crs="EPSG:32618"))
             for band, plane in (("SR_B4", red), ("SR_B5", nir), ("QA_PIXEL", quality))]  # fmt: skip
    (one,) = services.scenes_of_band_files(project=project, scenes=files)
    info = one.scene_info
    assert [(b.role, b.unit, b.scale, b.offset, b.nodata, b.scheme) for b in info.bands] == [
        ("red", "reflectance", 2.75e-5, -0.2, 0.0, ""), ("nir", "reflectance", 2.75e-5, -0.2, 0.0, ""),
        ("qa", "DN", 1.0, 0.0, 1.0, "landsat_c2")]  # fmt: skip
    bench, path = Bench((info, np.zeros((1, 1, 1)))), scene_paths([info.scene_id])[info.scene_id]
    bench.box._open_scene = lambda held: open_scene(held, path)  # type: ignore[method-assign]
    o = bench.execute([("s", "asset.scene", (), {"scene": info.scene_id}),
                       ("i", "raster.product.index", ["s"], {"index": "ndvi", "quality_mask": "auto"}),
                       ("out", "raster.summarize.statistic", ["i"], {})])  # fmt: skip
    assert o.status.state == "ok", o.status.reason
    r, n = red * 2.75e-5 - 0.2, nir * 2.75e-5 - 0.2
    clear = np.isin(quality, [21824, 21952, 30048])  # no cloud, dilated cloud or shadow (USGS LSDS-1619, table 6-3)
    assert o.result.value == pytest.approx(((n - r) / (n + r))[clear].mean(), rel=1e-6)
    assert o.evidence.intermediate["valid_px"] == int(clear.sum())


@pytest.mark.parametrize(("types", "common"), [
    (("uint8", "uint16"), "uint16"), (("uint16", "uint8", "uint8"), "uint16"), (("uint8", "int16"), "int16"),
    (("float32", "float32"), "float32"), (("int16", "uint16"), None), (("uint8", "float32"), None)])  # fmt: skip
def test_types_that_fit_into_one_of_them(types: tuple[str, ...], common: str | None) -> None:
    assert common_dtype(types) == common


@pytest.mark.parametrize(("names", "stack"), [
    (["T18TWL_20200505T155911_B02.jp2", "T18TWL_20200505T155911_B08.jp2"], "T18TWL_20200505T155911.tif"),
    (["T18TWL_20200505T155911_B11.jp2", "T18TWL_20200505T155911_B12.jp2"], "T18TWL_20200505T155911.tif"),
    (["LC08_L2SP_02_T1_SR_B4.TIF", "LC08_L2SP_02_T1_QA_PIXEL.TIF"], "LC08_L2SP_02_T1.tif"),
    (["field_band10.tif", "field_band11.tif"], "field.tif"), (["in_lab1.tif", "in_lab12.tif"], "in_lab1.tif"),
    (["B02.tif", "B03.tif"], "B02+1.tif")])  # fmt: skip
def test_a_stack_is_called_after_what_its_files_share(names: list[str], stack: str) -> None:
    assert stack_name(names) == stack


def test_what_a_person_says_of_every_file_is_said_of_their_stack(project: Project, tmp_path: Path) -> None:
    """``--unit`` of a question about band files: before, the stack was in stored numbers again."""
    files = []
    for name, role, value, sensor in (("one", "red", 0.2, "Sky"), ("two", "nir", 0.6, "Sea")):
        path = write(tmp_path / f"{name}.tif", np.full((1, 9, 9), value, np.float32))
        said = SceneHints(unit="reflectance", scale=0.5, nodata=-9.0, sensor=sensor)
        files.append(services.scene_ingest_now(project=project, path=path, roles={role: 1}, hints=said))
    info = services.scene_stack(project=project, scenes=files).scene_info
    assert [(b.unit, b.scale, b.nodata) for b in info.bands] == [("reflectance", 0.5, -9.0)] * 2
    assert "Sky" not in (info.sensor or ""), "of two words none holds for both"


def test_files_that_do_not_fit_are_no_stack(project: Project, raw: Scene, tmp_path: Path) -> None:
    other = services.scene_ingest_now(project=project, path=write(tmp_path / "t.tif", np.ones((1, 9, 9), np.float32)))
    with pytest.raises(UserError, match="grids differ"):
        services.scene_stack(project=project, scenes=[raw, other])
    with pytest.raises(UserError, match="two files"):
        services.scene_stack(project=project, scenes=[raw])


def test_scenes_come_in_the_order_of_their_dates(project: Project, analyst: User) -> None:
    names = ["landsat7_p15r32_2002-11-25.tif", "landsat7_p15r32_2002-07-20.tif"]
    scenes = [services.scene_ingest_now(project=project, path=SAMPLES / n) for n in names]
    found = scenes_for_ask(analyst, project, [str(s.pk) for s in scenes])
    assert [s.name for s in found] == names[::-1]


def test_times_of_a_netcdf_become_scenes(project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                         django_capture_on_commit_callbacks: Any) -> None:  # fmt: skip
    from tests.unit.imagery.test_netcdf import make

    monkeypatch.setattr("apps.imagery.tasks.ingest_scene.delay", lambda key: services.scene_ingest(scene_id=key))
    make(tmp_path / "t.nc", times=3)
    with django_capture_on_commit_callbacks(execute=True):
        services.scene_ingest_now(project=project, path=tmp_path / "t.nc")
    dates = sorted(s.acquired_at.date().isoformat() for s in Scene.objects.filter(status=Scene.READY) if s.acquired_at)
    assert dates == ["2001-01-01", "2001-01-31", "2001-03-02"]


def test_times_of_a_netcdf_are_all_taken_at_once_and_named_apart(project: Project, tmp_path: Path) -> None:
    from tests.unit.imagery.test_netcdf import make

    stored = make(tmp_path / "t.nc", times=3)
    scenes = services.scenes_of_times(services.scene_ingest_now(project=project, path=tmp_path / "t.nc"))
    infos = [s.scene_info for s in scenes]
    assert [str(i.acquired_at)[:10] for i in infos] == ["2001-01-01", "2001-01-31", "2001-03-02"]
    # what is kept of pixels is kept under the scene's digest: one for each time
    assert len({i.artifact for i in infos}) == 3
    for k, (scene, info) in enumerate(zip(scenes, infos, strict=True)):
        with open_scene(info, scene_paths([str(scene.pk)])[str(scene.pk)]) as reader:
            assert float(reader.read([1], (5, 5, 1, 1)).data[0, 0, 0]) == pytest.approx((stored[5, 5] + k) * 0.02 + 1)
    one = services.scene_ingest_now(project=project, path=SAMPLES / "landsat7_p15r32_2002-07-20.tif")
    assert services.scenes_of_times(one) == [one] and one.scene_info.artifact == one.original_id


@pytest.mark.django_db(transaction=True)
def test_the_sample_is_loaded_once() -> None:
    project, n = sample_load()
    assert project.is_sample
    assert n == Scene.objects.filter(project=project, status=Scene.READY).count() == 18
    assert sample_load() == (project, 0)
    assert not [s.name for s in Scene.objects.all() if s.n_block]


# --- pages and pictures


# the tile of zoom 13 that holds most of Fishbourne
TILE = "13/4068/2752"


def pixels(answer: Any) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGBA"))


def test_tiles_are_transparent_where_nothing_is_valid(client: Client, fish: Scene) -> None:
    answer = client.get(f"/tiles/scenes/{fish.pk}/{TILE}.png?bands=3,2,1")
    assert answer.status_code == 200
    assert answer["Content-Type"] == "image/png"
    assert answer["Cache-Control"].startswith("private")
    shown = pixels(answer)[..., 3] > 0
    assert 0 < shown.mean() < 1
    assert not pixels(client.get(f"/tiles/scenes/{fish.pk}/13/0/0.png"))[..., 3].any()
    assert client.get(f"/tiles/scenes/{fish.pk}/{TILE}.webp")["Content-Type"] == "image/webp"
    assert client.get(f"/tiles/scenes/{fish.pk}/{TILE}.png", HTTP_IF_NONE_MATCH="x").status_code == 200
    again = client.get(f"/tiles/scenes/{fish.pk}/{TILE}.png?bands=3,2,1", HTTP_IF_NONE_MATCH=answer["ETag"])
    assert again.status_code == 304
    assert client.get(f"/tiles/scenes/{fish.pk}/{TILE}.png?bands=9").status_code == 400
    assert client.get(f"/tiles/scenes/{fish.pk}/40/1/1.png").status_code == 404


def test_a_tile_changes_with_what_a_person_says(client: Client, fish: Scene, analyst: User) -> None:
    url = f"/tiles/scenes/{fish.pk}/{TILE}.png?bands=3,2,1"
    before = client.get(url)
    services.scene_update(scene=fish, user=analyst, changes={"fill": "is_real"})
    after = client.get(url, HTTP_IF_NONE_MATCH=before["ETag"])
    assert after.status_code == 200
    assert (pixels(after)[..., 3] > 0).sum() > (pixels(before)[..., 3] > 0).sum()


def test_layers_have_tiles_and_a_legend(client: Client, fish: Scene, project: Project) -> None:
    store = ArtifactLayerStore(ProjectBlobs(project.pk))
    with scene_reader(fish.scene_info) as reader:
        part = reader.read([4])
    mask = np.nan_to_num(part.data[0]) > 3000
    ref = store.put_mask(mask, part.valid[0], fish.scene_info.grid, label="land")
    answer = client.get(f"/tiles/layers/{ref.artifact}/{TILE}.png")
    assert (pixels(answer)[..., :3] == (34, 211, 238)).all(axis=-1).any()
    assert "immutable" in answer["Cache-Control"]
    assert client.get(f"/tiles/layers/{ref.artifact}/legend.json").json()["kind"] == "mask"
    raster = store.put_raster(MaskedRaster(part.data, part.valid, part.grid, part.bands, part.unit), label="nir")
    assert pixels(client.get(f"/tiles/layers/{raster.artifact}/{TILE}.png"))[..., 3].any()


def test_a_picture_is_a_layer_on_the_map_and_a_file(client: Client, fish: Scene, project: Project) -> None:
    store = ArtifactLayerStore(ProjectBlobs(project.pk))
    rgba = np.zeros((*fish.scene_info.grid.shape, 4), dtype=np.uint8)
    rgba[:] = (200, 30, 40, 255)
    ref = store.put_image(rgba, fish.scene_info.grid, form="geotiff", label="annotated")
    shown = pixels(client.get(f"/tiles/layers/{ref.artifact}/{TILE}.png"))
    assert (shown[shown[..., 3] > 0] == (200, 30, 40, 255)).all() and (shown[..., 3] > 0).any()
    png = store.put_image(rgba, fish.scene_info.grid, form="png", label="annotated")
    answer = client.get(f"/artifacts/{png.artifact}")
    assert answer["Content-Type"] == "image/png" and Image.open(io.BytesIO(b"".join(answer))).size == rgba.shape[1::-1]
    assert client.get(f"/artifacts/{ref.artifact}")["Content-Type"].startswith("image/tiff")


def test_the_catalogue_of_a_run_knows_the_scenes_of_its_project_alone(fish: Scene, stranger: User, project: Project) -> None:
    from apps.runs.assembly import catalogue

    (info,) = catalogue(project.pk)["project_scenes"]()
    assert info.scene_id == str(fish.pk)
    other = project_create(user=stranger, name="Elsewhere")
    assert catalogue(other.pk)["project_scenes"]() == []


def test_others_get_404_for_everything(fish: Scene, stranger: User, project: Project) -> None:
    store = ArtifactLayerStore(ProjectBlobs(project.pk))
    grid = fish.scene_info.grid
    ones = np.ones(grid.shape, bool)
    layer = store.put_mask(ones, ones, grid, label="x").artifact
    addresses = [
        f"/imagery/{fish.pk}/", f"/imagery/?project={project.pk}", f"/imagery/table/{project.pk}/",
        f"/imagery/{fish.pk}/thumbnail.png", f"/imagery/{fish.pk}/preview.png", f"/tiles/scenes/{fish.pk}/{TILE}.png",
        f"/tiles/scenes/{fish.pk}/image/0/0/0.png", f"/tiles/layers/{layer}/{TILE}.png",
        f"/tiles/layers/{layer}/image/0/0/0.png", f"/tiles/layers/{layer}/legend.json", f"/api/v1/scenes/{fish.pk}/",
        f"/api/v1/scenes/{fish.pk}/map/", f"/artifacts/{fish.cog_id}",
    ]  # fmt: skip
    other = Client()
    for address in addresses:
        assert other.get(address).status_code in (302, 401, 403)
    other.force_login(stranger)
    for address in addresses:
        assert other.get(address).status_code == 404, address
    for action in ("change", "confirm", "again", "remove"):
        assert other.post(f"/imagery/{fish.pk}/{action}/").status_code == 404
    assert other.post(f"/imagery/stack/{project.pk}/", {"scene": [str(fish.pk)]}).status_code == 404
    assert other.get("/api/v1/scenes/").json() == []
    with pytest.raises(NotFoundError):
        scene_get_for_user(stranger, fish.pk)
    membership_set(project=project, username=stranger.username, role="viewer")
    for address in addresses:
        assert other.get(address).status_code == 200, address
    assert other.post(f"/imagery/{fish.pk}/confirm/").status_code == 403


def test_the_ingest_check_shows_and_takes_fixes(client: Client, raw: Scene) -> None:
    page = client.get(f"/imagery/{raw.pk}/").content.decode()
    assert "Is it what you think it is?" in page
    assert "19,927 px (32.9 %) are 0 in every band" in page
    assert "Ask opens when nothing is red." in page
    assert client.post(f"/imagery/{raw.pk}/confirm/").status_code == 409
    fixed = client.post(
        f"/imagery/{raw.pk}/change/", {"hints": json.dumps({"fill": "is_fill", "fill_value": 0})}, HTTP_HX_REQUEST="true"
    )
    assert fixed.status_code == 200
    assert "as a person said" in fixed.content.decode()
    roles = {f"band-{i}": r for i, r in enumerate(("blue", "green", "red", "nir"), 1)}
    client.post(f"/imagery/{raw.pk}/change/", {"field": "roles", **roles})
    raw.refresh_from_db()
    assert raw.scene_info.roles == {"blue", "green", "red", "nir"}
    twice = client.post(f"/imagery/{raw.pk}/change/", {"field": "roles", **roles, "band-1": "red"}, HTTP_HX_REQUEST="true")
    assert twice.status_code == 400
    assert twice["HX-Retarget"] == "#fix-error"
    client.post(f"/imagery/{raw.pk}/change/", {"field": "acquired_at", "acquired_at": "2020-05-04"})
    client.post(f"/imagery/{raw.pk}/change/", {"field": "scale", "scale": "0.0001", "offset": "0", "unit": "reflectance"})
    raw.refresh_from_db()
    assert raw.acquired_at is not None
    assert raw.scene_info.bands[0].unit == "reflectance"
    for wrong in ({"field": "gsd_m", "gsd_m": "wide"}, {"hints": "{"}, {"hints": '{"status": "ready"}'}, {"field": "x"}):
        assert client.post(f"/imagery/{raw.pk}/change/", wrong).status_code == 400
    assert client.post(f"/imagery/{raw.pk}/confirm/").status_code == 302
    assert "found it right" in client.get(f"/imagery/{raw.pk}/").content.decode()


def test_names_and_descriptions_are_text(client: Client, project: Project, tmp_path: Path) -> None:
    path = write(tmp_path / "t.tif", np.ones((1, 9, 9), np.float32))
    evil = "<img src=x onerror=alert(1)>.tif"
    scene = services.scene_ingest_now(project=project, path=path, name=evil)
    for address in (f"/imagery/{scene.pk}/", f"/imagery/?project={project.pk}"):
        page = client.get(address).content.decode()
        assert "<img src=x" not in page
        assert "&lt;img src=x" in page


def test_the_sample_is_everybodys_and_nobody_changes_it(stranger: User) -> None:
    sample = project_create(user=None, name="Samples", is_sample=True)
    scene = services.scene_ingest_now(project=sample, path=SAMPLES / "OSBS_029.tif", hints=SceneHints())
    held = Client()
    held.force_login(stranger)
    assert held.get(f"/imagery/{scene.pk}/").status_code == 200
    assert held.post(f"/imagery/{scene.pk}/change/", {"field": "gsd_m", "gsd_m": "1"}).status_code == 403
    assert held.patch(f"/api/v1/scenes/{scene.pk}/", "{}", content_type="application/json").status_code == 403


def test_the_api_tells_and_takes(client: Client, fish: Scene) -> None:
    told = client.get(f"/api/v1/scenes/{fish.pk}/").json()
    assert told["info"]["grid"]["crs"] == "EPSG:32630"
    assert "{z}" in told["tiles"]
    layer = client.get(f"/api/v1/scenes/{fish.pk}/map/").json()
    assert layer["layer"]["kind"] == "tiles"
    assert layer["grid"]["epsg"] == "EPSG:32630"
    changed = client.patch(f"/api/v1/scenes/{fish.pk}/", {"gsd_m": 10.0}, content_type="application/json").json()
    assert changed["info"]["gsd_source"] == "person"
    assert client.patch(f"/api/v1/scenes/{fish.pk}/", {"nope": 1}, content_type="application/json").status_code == 400


def test_regions_are_kept_once_a_name(project: Project, analyst: User) -> None:
    square = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
    region = services.region_save(project=project, user=analyst, name="field", geometry=square)
    assert region.geometry.area == 1
    with pytest.raises(UserError):
        services.region_save(project=project, user=analyst, name="field", geometry=square)
    bow = {"type": "Polygon", "coordinates": [[[0, 0], [1, 1], [1, 0], [0, 1], [0, 0]]]}
    for wrong in (bow, {"type": "Nothing"}, {"type": "Point", "coordinates": [500, 0]}):
        with pytest.raises(UserError) as caught:
            services.region_save(project=project, user=analyst, name="other", geometry=wrong)
        assert caught.value.code == "BAD_REGION"


def test_a_scene_is_removed_unless_runs_rest_on_it(client: Client, raw: Scene) -> None:
    assert client.post(f"/imagery/{raw.pk}/remove/").status_code == 302
    assert not Scene.objects.filter(pk=raw.pk).exists()
