"""The sample project: real imagery that ships with the application (``samples/``, sources in SOURCES.md)."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from django.db import connection

from apps.accounts.models import Project
from apps.accounts.selectors import sample_project
from apps.accounts.services import project_create
from apps.core.digests import digest_file
from apps.imagery.hints import SceneHints
from apps.imagery.models import Scene
from apps.imagery.services import scene_ingest_now

FOLDER = Path(__file__).resolve().parent / "samples"


def sample_load(*, tell: Callable[[str], None] = lambda text: None) -> tuple[Project, int]:
    """(sample project, scenes added). Idempotent: a file that is there already, with the same bytes, is left alone."""
    project = sample_project() or project_create(
        user=None, name="Samples", description="Real imagery to try questions on; everybody who is signed in may ask.",
        is_sample=True,
    )  # fmt: skip
    listed: list[dict[str, Any]] = json.loads((FOLDER / "samples.json").read_text())
    held = set(Scene.objects.filter(project=project, status=Scene.READY).values_list("name", "original_id"))
    missing = [e for e in listed if (Path(e["file"]).name, digest_file(FOLDER / e["file"])) not in held]

    def add(entry: dict[str, Any]) -> None:
        try:
            hints = SceneHints.model_validate(entry.get("hints", {}))
            scene_ingest_now(project=project, path=FOLDER / entry["file"], hints=hints)
            tell(Path(entry["file"]).name)
        finally:
            connection.close()  # each thread has its own

    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(add, missing))
    return project, len(missing)
