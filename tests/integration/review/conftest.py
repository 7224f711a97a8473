"""A person, a project and one real scene with its roles set, on the real database."""

from pathlib import Path
from typing import Any

import pytest

from apps.accounts.models import Project, User
from apps.accounts.services import project_create, user_create
from apps.imagery.models import Scene
from apps.imagery.services import scene_ingest_now
from apps.runs.models import Run
from apps.runs.services import run_execute_now, run_start

SAMPLES = Path(__file__).resolve().parents[3] / "apps" / "imagery" / "samples"
FISH_ROLES = {1: "blue", 2: "green", 3: "red", 4: "nir"}


@pytest.fixture
def analyst(db: None) -> User:
    return user_create(username="analyst", password="a long enough passphrase")


@pytest.fixture
def stranger(db: None) -> User:
    return user_create(username="stranger", password="another long passphrase")


@pytest.fixture
def project(analyst: User) -> Project:
    return project_create(user=analyst, name="Winter cover")


@pytest.fixture
def fish(project: Project) -> Scene:
    path = next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))
    return scene_ingest_now(project=project, path=path, roles=FISH_ROLES)


@pytest.fixture
def ask(analyst: User, project: Project, fish: Scene) -> Any:
    """Asks about the scene and executes the run in this process."""

    def asked(text: str, **more: Any) -> Run:
        run = run_start(user=analyst, project=project, text=text, scenes=[fish], enqueue=False, **more)
        assert run_execute_now(run_id=run.pk)
        run.refresh_from_db()
        return run

    return asked
