"""The button of a scene's page that reads it anew."""

from __future__ import annotations

from typing import cast
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_POST
from kombu.exceptions import OperationalError

from apps.accounts.models import User
from apps.core.errors import UserError
from apps.imagery.reread import original_kept
from apps.imagery.views import errors_beside, scene_to_change
from apps.runs.tasks import scene_reread
from apps.runs.views import toast_answer


@login_required
@require_POST
@errors_beside
def scene_again_read(request: HttpRequest, scene_id: UUID) -> HttpResponse:
    """Reads a scene anew from its kept file, in a worker; its page tells what changed."""
    scene = scene_to_change(request, scene_id)
    if not original_kept(scene):
        raise UserError(
            "NOT_FOUND", f"The original of “{scene.name}” is not kept.", "Only its pixels as they were converted are left.",
            "Add the file again.", status=410,
        )  # fmt: skip
    try:
        scene_reread.delay(str(scene.pk), cast(User, request.user).pk)
    except OperationalError as error:
        raise UserError(
            "WORKER_DOWN", "Nothing was read anew.", "The queue of the workers does not answer.", "Try again later.", status=409
        ) from error
    return toast_answer(request, f"/imagery/{scene.pk}/", "It is being read anew; reload the page for what changed.")
