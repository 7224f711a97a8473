"""Scenes that an older version read, read anew: what changes is told and kept, what was made of the older reading is marked."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import rasterio
from django.core.management import call_command
from django.test import Client

from apps.accounts.models import Project, User
from apps.artifacts.blobs import blob_path
from apps.imagery import services
from apps.imagery.models import Scene
from apps.runs.models import Run
from apps.runs.rereading import scene_reread
from apps.runs.selectors import run_state
from apps.runs.services import run_execute_now, run_start
from tests.unit.imagery.rasters import write

STEM = "LC08_L2SP_008059_20191201_20200825_02_T1"


@pytest.fixture
def stale(project: Project, tmp_path: Path) -> Scene:
    """A delivered band as a version read it that knew neither its product's scale nor its fill."""
    plane = np.random.default_rng(3).integers(8000, 20000, (1, 40, 50)).astype("uint16")
    plane[:, :, :10] = 0
    scene = services.scene_ingest_now(project=project, path=write(tmp_path / f"{STEM}_SR_B4.TIF", plane, crs="EPSG:32618"))
    assert scene.info is not None
    bands = [b | {"scale": 1.0, "offset": 0.0, "unit": "DN", "nodata": None} for b in scene.info["bands"]]
    old = scene.info | {"bands": bands, "valid_share": 1.0}
    Scene.objects.filter(pk=scene.pk).update(info=old, confirmed_at="2026-01-01T00:00:00Z")
    scene.refresh_from_db()
    return scene


def mean_of(project: Project, scene: Scene) -> Run:
    run = run_start(user=None, project=project, text="What is the mean of the red band?", scenes=[scene], enqueue=False)
    assert run_execute_now(run_id=run.pk)
    return run


def test_what_an_older_version_read_is_read_anew_told_and_marked(
    project: Project, stale: Scene, analyst: User, tmp_path: Path
) -> None:
    with rasterio.open(tmp_path / f"{STEM}_SR_B4.TIF") as src:
        plane = src.read(1).astype(float)
    run = mean_of(project, stale)
    before = run_state(run.pk)
    assert before.answer is not None and before.answer.value == pytest.approx(plane.mean(), rel=1e-6), "the older reading's"
    changes, n_runs = scene_reread(scene=stale, user=analyst)
    assert n_runs == 1
    said = " ".join(changes)
    assert "The nodata of band 1 (red): none, now 0." in changes and "The scale of band 1 (red): 1, now 2.75e-05." in changes
    assert "The unit of band 1 (red): DN, now reflectance." in changes and "now 80.00 %" in said
    stale.refresh_from_db()
    (entry,) = stale.readings
    assert entry["changes"] == list(changes) and entry["author"] == analyst.username
    assert entry["before"]["bands"][0]["nodata"] is None and stale.confirmed_at is None
    after = run_state(run.pk)
    (held,) = after.observations.values()
    assert [e.changes for e in held.older_readings] == [changes] and set(after.older_readings) == {str(stale.pk)}
    assert after.answer == before.answer and held.observation == next(iter(before.observations.values())).observation
    client = Client()
    client.force_login(analyst)
    assert "Based on an older reading of" in client.get(f"/runs/{run.pk}/").content.decode()
    page = client.get(f"/imagery/{stale.pk}/").content.decode()
    assert "Read anew 1 time" in page and "none, now 0." in page and "Read the file anew" in page
    new = run_state(mean_of(project, stale).pk)
    assert new.answer is not None and not new.older_readings
    assert new.answer.value == pytest.approx((plane[plane > 0] * 2.75e-5 - 0.2).mean(), rel=1e-6)


def test_a_reading_that_is_the_same_marks_nothing_and_the_log_grows(project: Project, tmp_path: Path) -> None:
    plane = np.random.default_rng(3).integers(1, 200, (1, 20, 20)).astype("uint8")
    scene = services.scene_ingest_now(project=project, path=write(tmp_path / "plain.tif", plane))
    run = run_start(user=None, project=project, text="What is this?", scenes=[scene], enqueue=False)
    n = run.events.count()
    assert scene_reread(scene=scene) == ((), 0) and scene_reread(scene=scene) == ((), 0)
    scene.refresh_from_db()
    assert [r["changes"] for r in scene.readings] == [[], []] and run.events.count() == n


def test_the_command_reads_by_name_or_id_and_says_where_the_original_is_not_kept(project: Project, stale: Scene) -> None:
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("reread", str(stale.pk), "--json", stdout=out)
    assert ended.value.code == 0
    assert "The nodata of band 1 (red): none, now 0." in json.loads(out.getvalue())["changes"]
    assert stale.original_id is not None
    blob_path(stale.original_id).unlink()
    out = io.StringIO()
    with pytest.raises(SystemExit) as ended:
        call_command("reread", stale.name, stdout=out)
    assert ended.value.code == 2 and "is not kept" in out.getvalue()
    with pytest.raises(SystemExit) as ended:
        call_command("reread", "no such scene")
    assert ended.value.code == 2


def test_the_page_says_where_the_original_is_not_kept(stale: Scene, analyst: User) -> None:
    assert stale.original_id is not None
    blob_path(stale.original_id).unlink()
    client = Client()
    client.force_login(analyst)
    assert "is not kept, so it cannot be read anew" in client.get(f"/imagery/{stale.pk}/").content.decode()
    assert client.post(f"/runs/reread/{stale.pk}/").status_code == 410


def test_only_those_who_may_change_a_scene_may_have_it_read_anew(stale: Scene, client: Client, django_user_model: type) -> None:
    client.force_login(django_user_model.objects.create_user(username="stranger", password="x"))  # type: ignore[attr-defined]
    assert client.post(f"/runs/reread/{stale.pk}/").status_code == 404


def test_a_stack_is_derived_anew_from_its_own_pixels(project: Project, tmp_path: Path) -> None:
    planes = np.random.default_rng(5).integers(200, 6000, (2, 40, 40)).astype("uint16")
    files = [services.scene_ingest_now(project=project, path=write(tmp_path / f"LC08_L1TP_{b}.tif", p[None], crs="EPSG:32616"))
             for b, p in zip(("B4", "B5"), planes, strict=True)]  # fmt: skip
    stack = services.scene_stack(project=project, scenes=files)
    held = stack.scene_info
    assert scene_reread(scene=stack) == ((), 0)
    stack.refresh_from_db()
    assert stack.scene_info == held
