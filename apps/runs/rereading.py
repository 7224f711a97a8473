"""Scenes read anew, and the runs that rest on the older reading: each is told so by an event of its own."""

from __future__ import annotations

import logging
from typing import Any

from django.contrib.auth import get_user_model
from django.utils import timezone

from apps.core.errors import UserError
from apps.core.evidence.events import SceneReadAnew
from apps.imagery.models import Scene
from apps.imagery.reread import scene_read_anew
from apps.runs.models import Run
from apps.runs.services import event_append

log = logging.getLogger(__name__)


def scene_reread(*, scene: Scene, user: Any = None) -> tuple[tuple[str, ...], int]:
    """(what changed, number of runs that were told). Runs are told only where something changed; nothing of them is taken back.
    UserError as ``scene_read_anew`` raises it."""
    changes = scene_read_anew(scene=scene, user=user)
    if not changes:
        return changes, 0
    event = SceneReadAnew(
        at=timezone.now(), scene_id=str(scene.pk), name=scene.name, changes=changes, author=getattr(user, "username", "")
    )
    runs = Run.objects.filter(scenes=scene).values_list("pk", flat=True)
    for run_id in runs:
        event_append(run_id=run_id, event=event)
    return changes, len(runs)


def reread_by_id(*, scene_id: str, user_id: int | None) -> None:
    """For a worker: what cannot be read anew is told in the log, and the reading that was held stays."""
    scene = Scene.objects.filter(pk=scene_id).first()
    if scene is None:
        return
    user = get_user_model().objects.filter(pk=user_id).first() if user_id is not None else None
    try:
        scene_reread(scene=scene, user=user)
    except UserError as error:
        log.warning("scene %s was not read anew: %s", scene_id, error)
