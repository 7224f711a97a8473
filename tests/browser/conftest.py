"""People, a project of theirs and real scenes for the journeys. Each browser test starts on a flushed database."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.shared import ROOT

if TYPE_CHECKING:
    from apps.accounts.models import Project, User
    from apps.imagery.models import Scene
    from apps.runs.models import Run
    from tests.stack import LiveStack

SAMPLES = ROOT / "apps" / "imagery" / "samples"
FISH = SAMPLES / "geopandas_s2a_l2a_fishbourne.tif"
FISH_ROLES = {"blue": 1, "green": 2, "red": 3, "nir": 4}
PASSPHRASE = "a long enough passphrase"


@pytest.fixture
def analyst(live_stack: "LiveStack") -> "User":
    from apps.accounts.services import user_create

    return user_create(username="analyst", password=PASSPHRASE, full_name="Ana Lyst")


@pytest.fixture
def project(analyst: "User") -> "Project":
    """The analyst's own: she may ask, ingest and judge in it."""
    from apps.accounts.services import project_create

    return project_create(user=analyst, name="Winter cover")


@pytest.fixture
def scene(project: "Project") -> "Scene":
    """Sentinel-2 over Fishbourne with its roles set and found right."""
    from apps.imagery.hints import SceneHints
    from tests.scenes import scene_of_file

    hints = SceneHints.model_validate({"roles": FISH_ROLES, "fill": "is_fill", "fill_value": 0})
    return scene_of_file(project=project, path=Path(FISH), hints=hints)


@pytest.fixture
def answered(analyst: "User", scene: "Scene") -> "Callable[..., Run]":
    """Asks about the scene and executes the run in this process: for journeys that begin with an answer."""
    from apps.runs.services import run_execute_now, run_start

    def ask(text: str, **more: Any) -> "Run":
        run = run_start(user=analyst, project=scene.project, text=text, scenes=[scene], enqueue=False, **more)
        assert run_execute_now(run_id=run.pk)
        run.refresh_from_db()
        return run

    return ask
