"""A person, a project and one real scene with its roles set, on the real database. Django is imported when a test asks."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from apps.accounts.models import Project, User
    from apps.imagery.models import Scene
    from apps.runs.models import Run

SAMPLES = Path(__file__).resolve().parents[2] / "apps" / "imagery" / "samples"
FISH_ROLES = {"blue": 1, "green": 2, "red": 3, "nir": 4}


@pytest.fixture
def analyst(db: None) -> "User":
    from apps.accounts.services import user_create

    return user_create(username="analyst", password="a long enough passphrase")


@pytest.fixture
def stranger(db: None) -> "User":
    from apps.accounts.services import user_create

    return user_create(username="stranger", password="another long passphrase")


@pytest.fixture
def project(analyst: "User") -> "Project":
    from apps.accounts.services import project_create

    return project_create(user=analyst, name="Winter cover")


@pytest.fixture
def fish(project: "Project") -> "Scene":
    from tests.scenes import scene_of_file

    path = next(SAMPLES.rglob("geopandas_s2a_l2a_fishbourne.tif"))
    return scene_of_file(project=project, path=path, roles=FISH_ROLES)


@pytest.fixture
def ask(analyst: "User", project: "Project", fish: "Scene") -> Any:
    """Asks about the scene and executes the run in this process."""
    from apps.runs.services import run_execute_now, run_start

    def asked(text: str, **more: Any) -> "Run":
        run = run_start(user=analyst, project=project, text=text, scenes=[fish], enqueue=False, **more)
        assert run_execute_now(run_id=run.pk)
        run.refresh_from_db()
        return run

    return asked
