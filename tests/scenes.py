"""Scenes for tests that are about something else than ingest.

A file is opened by the product's limited process once a run; where the same bytes come again under the same name and hints, what
that process answered serves again. All else (quota, artifacts, rows) is the product's own service. Tests of ingest call it
plainly.
"""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from apps.imagery.hints import SceneHints
    from apps.imagery.ingest import Ingested
    from apps.imagery.models import Scene

_KEPT: dict[tuple[str, str, str], "Ingested"] = {}


def _ingest_file_once(source: Path, folder: Path, name: str, hints: "SceneHints", *, scene_id: str, artifact: str) -> "Ingested":
    """As ``ingest_file``; ``artifact`` is the digest of the file's bytes."""
    from django.conf import settings

    from apps.imagery.ingest import ingest_file

    key = (artifact, name, hints.model_dump_json())
    if key not in _KEPT:
        done = ingest_file(source, folder, name, hints, scene_id=scene_id, artifact=artifact)
        kept = Path(settings.RSURE_HOME) / "kept-scenes" / f"{len(_KEPT)}.tif"
        kept.parent.mkdir(exist_ok=True)
        shutil.copyfile(done.cog, kept)
        _KEPT[key] = replace(done, cog=kept)
        return done
    held = _KEPT[key]
    cog = folder / "scene.tif"
    shutil.copyfile(held.cog, cog)
    return replace(held, cog=cog, info=held.info.model_copy(update={"scene_id": scene_id, "artifact": artifact}))


def scene_of_file(**arguments: Any) -> "Scene":
    """``scene_ingest_now`` with the same arguments, the file opened once a run."""
    from apps.imagery import services

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "ingest_file", _ingest_file_once)
        return services.scene_ingest_now(**arguments)
