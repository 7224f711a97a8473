"""kill -9 of a worker process in the middle of a run, on real Celery processes: the run goes on and no event is doubled."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rasterio
from rasterio.transform import from_origin

from apps.accounts.services import project_create, user_create
from apps.imagery.models import Scene
from apps.imagery.services import scene_ingest_now
from apps.runs.models import ObservationRow, Run, RunEvent
from apps.runs.selectors import run_state
from apps.runs.services import run_start
from tests.stack import LiveStack

SIZE = 4000
QUESTION = "How many hectares have NDVI above 0.4?"


def field(path: Path) -> float:
    """Writes a scene of 4,000² pixels of 10 m, large enough that its tool works for seconds; returns the hectares above 0.4."""
    rows = np.linspace(0, 40, SIZE, dtype=np.float32)
    wave = (np.sin(rows)[:, None] + np.cos(rows * 1.3)[None, :]) / 2
    red = np.full((SIZE, SIZE), 1000, np.uint16)
    nir = (1000 * (1.6 + wave * 1.4)).astype(np.uint16)
    profile = {"driver": "GTiff", "width": SIZE, "height": SIZE, "count": 2, "dtype": "uint16", "crs": "EPSG:32630", "nodata": 0}
    profile |= {"tiled": True, "blockxsize": 512, "blockysize": 512, "transform": from_origin(600_000, 5_600_000, 10, 10)}
    with rasterio.open(path, "w", **profile) as dataset:
        dataset.write(red, 1)
        dataset.write(nir, 2)
    ndvi = (nir.astype(np.float64) - red) / (nir.astype(np.float64) + red)
    return float((ndvi > 0.4).sum() * 0.01)


def until(is_so: Callable[[], Any], what: str, seconds: float = 120, every: float = 0.02) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"{what} within {seconds} s"
        time.sleep(every)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def wide_scene(live_stack: LiveStack, tmp_path: Path) -> tuple[Scene, float]:
    user = user_create(username="analyst", password="a long enough passphrase")
    project = project_create(user=user, name="Winter cover")
    hectares = field(tmp_path / "wide.tif")
    return scene_ingest_now(project=project, path=tmp_path / "wide.tif", roles={"red": 1, "nir": 2}), hectares


@pytest.mark.slow
def test_a_killed_worker_leaves_a_run_that_another_finishes(live_stack: LiveStack, wide_scene: tuple[Scene, float]) -> None:
    scene, hectares = wide_scene
    assert live_stack.worker is not None
    for victim in ("pool process", "whole worker"):
        run = run_start(user=scene.project.memberships.get().user, project=scene.project, text=QUESTION, scenes=[scene])
        started = RunEvent.objects.filter(run=run, type="StepStarted")
        until(started.exists, "a step starts")
        time.sleep(0.15)  # well within the tool's work
        assert not RunEvent.objects.filter(run=run, type="ObservationRecorded").exists(), "killed too late to show anything"
        if victim == "pool process":
            (child,) = children_of(live_stack.worker.pid)
            os.kill(child, signal.SIGKILL)
        else:
            live_stack.worker_kill()
            assert not Run.objects.get(pk=run.pk).ended_at
            live_stack.worker_start()
        until(Run.objects.filter(pk=run.pk, status=Run.Status.FINISHED).exists, f"the run goes on after the {victim}")

        types = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("type", flat=True))
        numbers = list(RunEvent.objects.filter(run=run).order_by("seq").values_list("seq", flat=True))
        assert numbers == list(range(1, len(types) + 1))
        assert types.count("RunResumed") >= 1, "it was taken up again"
        for once in ("RunStarted", "PlanProposed", "AnswerGiven", "RunFinished"):
            assert types.count(once) == 1, (victim, once, types)
        state = run_state(run.pk)
        keys = [held.call_key for held in state.observations.values()]
        assert len(keys) == len(set(keys)) == types.count("ObservationRecorded") > 0
        assert types.count("DecisionMade") == len(keys)
        assert ObservationRow.objects.filter(run=run).count() == len(keys)
        assert state.answer is not None and state.answer.value == pytest.approx(hectares, rel=1e-9)
