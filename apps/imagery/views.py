"""Pages of imagery: files and uploads of a project, the ingest check of a scene, pictures and tiles."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from functools import wraps
from typing import Any, cast
from uuid import UUID

import numpy as np
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, HttpResponseNotModified, JsonResponse
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST, require_safe
from numpy.typing import NDArray

from apps.accounts.models import Project, User
from apps.accounts.selectors import access_project_by_id, can, projects_for_user
from apps.artifacts.blobs import blob_path
from apps.artifacts.selectors import access_artifact_by_digest
from apps.core.errors import NotFoundError, UserError
from apps.imagery import presentation, services, tiles
from apps.imagery.facts import RasterStatistics
from apps.imagery.forms import changes_from_post
from apps.imagery.models import Scene
from apps.imagery.nesting import WISHES, Wish
from apps.imagery.profiles import name_band
from apps.imagery.reread import original_kept
from apps.imagery.selectors import scene_get_for_user, scenes_unfolded, upload_list_open
from apps.imagery.vector_views import vector_rows

PREVIEW_SIZES = {"thumbnail": 128, "card": 480, "preview": 1200}
# The picture of a scene changes with what people say of it: an address without its version is asked for again, and the ETag
# answers; one with its version stays.
VERSIONED = "private, max-age=86400"
REVALIDATED = "private, no-cache"
IMMUTABLE = "private, max-age=86400, immutable"


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)


def _project(request: HttpRequest) -> Project | None:
    """The project that the address names, else the user's newest that may take imagery."""
    asked = request.GET.get("project", "")
    if asked:
        return access_project_by_id(_user(request), asked)
    mine = [p for p in projects_for_user(_user(request)) if can(_user(request), p, "ingest")]
    return next((p for p in mine if not p.is_sample), mine[0] if mine else None)


def _list_context(request: HttpRequest, project: Project | None) -> dict[str, Any]:
    scenes = list(scenes_unfolded(project)) if project else []
    may_ingest = bool(project) and can(_user(request), project, "ingest")  # type: ignore[arg-type]
    return {
        "project": project,
        "projects": projects_for_user(_user(request)),
        "scenes": scenes,
        "n_files": len(scenes) + sum(len(s.parts.all()) for s in scenes),
        "n_ready": sum(s.is_ready and not s.n_block for s in scenes),
        "is_ingesting": any(s.status == Scene.INGESTING for s in scenes),
        "uploads": upload_list_open(_user(request), project) if project and may_ingest else [],
        "may_ingest": may_ingest,
        "vectors": vector_rows(project) if project else [],
    }


@login_required
@require_GET
def scene_list(request: HttpRequest) -> HttpResponse:
    """The imagery of a project, and the place to drop more."""
    return render(request, "imagery/list.html", _list_context(request, _project(request)))


@login_required
@require_GET
def scene_table(request: HttpRequest, project_id: UUID) -> HttpResponse:
    """The list alone: fetched again while something is being ingested."""
    project = access_project_by_id(_user(request), project_id)
    return render(request, "imagery/table.html", _list_context(request, project))


def _check_context(request: HttpRequest, scene: Scene) -> dict[str, Any]:
    context = presentation.check_context(scene, bands=request.GET.get("bands", ""), stretch=request.GET.get("stretch", ""))
    others = list(scenes_unfolded(scene.project)[:60])
    return context | {
        "project": scene.project,
        "others": others if scene in others else [scene, *others],
        "n_others": scenes_unfolded(scene.project).count(),
        "n_ready": sum(s.is_ready and not s.n_block for s in others),
        "may_ingest": (can(_user(request), scene.project, "ingest") and not scene.project.is_sample)
        or (_user(request).is_staff and can(_user(request), scene.project, "ingest")),
        "original_kept": original_kept(scene),
        "may_ask": can(_user(request), scene.project, "ask"),
    }


@login_required
@require_GET
def scene_page(request: HttpRequest, scene_id: UUID) -> HttpResponse:
    """The ingest check: is it what you think it is?"""
    scene = scene_get_for_user(_user(request), scene_id)
    name = "imagery/check.html" if request.headers.get("HX-Request") else "imagery/scene.html"
    return render(request, name, _check_context(request, scene))


def errors_beside(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """For htmx a UserError is shown beside the form, and the page around it stays; others get the error page."""

    @wraps(view)
    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return view(request, *args, **kwargs)
        except UserError as error:
            if not request.headers.get("HX-Request") or error.status == 404:
                raise
            context = {"code": error.code, "what": error.what, "why": error.why, "fix": error.fix}
            response = render(request, "components/error.html", context, status=error.status)
            response["HX-Retarget"] = "#stack-error" if "stack" in request.path else "#fix-error"
            response["HX-Reswap"] = "innerHTML"
            return response

    return answer


def scene_to_change(request: HttpRequest, scene_id: UUID) -> Scene:
    """The scene, for a person who may change it. UserError FORBIDDEN for the sample's, 404 for those of others."""
    scene = scene_get_for_user(_user(request), scene_id, "ingest")
    if scene.project.is_sample and not _user(request).is_staff:
        raise UserError(
            "FORBIDDEN", "The sample's imagery stays as it is.", "Everybody's answers rest on it.",
            "Add the file to a project of your own and change it there.", status=403,
        )  # fmt: skip
    return scene


def _answer(request: HttpRequest, scene: Scene, text: str) -> HttpResponse:
    if not request.headers.get("HX-Request"):
        return redirect("scene", scene_id=scene.pk)
    response = render(request, "imagery/check.html", _check_context(request, scene))
    response["HX-Trigger"] = json.dumps({"toast": {"text": text}})
    return response


@login_required
@require_POST
@errors_beside
def scene_change(request: HttpRequest, scene_id: UUID) -> HttpResponse:
    """One fix: a button's values or a small form. Everything that depends on it is derived again."""
    scene = scene_to_change(request, scene_id)
    n_bands = len(scene.scene_info.bands) if scene.info else 0
    scene = services.scene_update(scene=scene, user=_user(request), changes=changes_from_post(request.POST, n_bands))
    return _answer(request, scene, "Saved.")


@login_required
@require_POST
@errors_beside
def scene_confirmed(request: HttpRequest, scene_id: UUID) -> HttpResponse:
    """“Looks right”."""
    scene = services.scene_confirm(scene=scene_to_change(request, scene_id), user=_user(request))
    return _answer(request, scene, "Confirmed. You can ask about it now.")


@login_required
@require_POST
@errors_beside
def scene_again(request: HttpRequest, scene_id: UUID) -> HttpResponse:
    """Ingests a failed file again."""
    scene = services.scene_retry(scene=scene_to_change(request, scene_id))
    return _answer(request, scene, "Trying again.")


@login_required
@require_POST
@errors_beside
def scene_remove(request: HttpRequest, scene_id: UUID) -> HttpResponse:
    """Takes a scene out of the project."""
    scene = scene_to_change(request, scene_id)
    project = scene.project_id
    services.scene_delete(scene=scene)
    target = f"/imagery/?project={project}"
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": target})
    return redirect(target)


@login_required
@require_POST
@errors_beside
def scene_stacked(request: HttpRequest, project_id: UUID) -> HttpResponse:
    """One scene of the chosen band files."""
    project = access_project_by_id(_user(request), project_id, "ingest")
    scenes = [scene_get_for_user(_user(request), key) for key in request.POST.getlist("scene")]
    if any(s.project_id != project.pk for s in scenes):
        raise NotFoundError("scene")
    waiting = next((s for s in scenes if not s.is_ready), None)
    if waiting is not None:
        raise UserError("BAD_ARGUMENT", f"“{waiting.name}” cannot be stacked.", "It is not ready.", "Leave it out.")
    wish = request.POST.get("grid", "auto")
    if wish not in WISHES:
        raise UserError("BAD_ARGUMENT", "This grid is not known.", f"It is one of {', '.join(WISHES)}.", "Choose one of them.")
    stack = services.scene_stack(
        project=project, scenes=sorted(scenes, key=_band_order), user=_user(request), wish=cast(Wish, wish)
    )
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": f"/imagery/{stack.pk}/"})
    return redirect("scene", scene_id=stack.pk)


def _band_order(scene: Scene) -> tuple[int, str]:
    """B2 before B10, quality bands last, else by name."""
    found = re.fullmatch(r"B(\d+)(A?)", name_band(scene.name) or "")
    return (int(found[1]) * 2 + bool(found[2]) if found else 10_000, scene.name)


# --- pictures


def _picture(
    request: HttpRequest, key: str, cache: str, make: Callable[[], NDArray[np.uint8] | None], kind: tiles.ImageFormat = "png"
) -> HttpResponseBase:
    etag = f'"{hashlib.sha256(key.encode()).hexdigest()[:32]}"'
    headers = {"ETag": etag, "Cache-Control": cache, "Vary": "Cookie"}
    if etag in [part.strip() for part in request.headers.get("If-None-Match", "").split(",")]:
        return HttpResponseNotModified(headers=headers)
    rgba = tiles.bounded(make)
    data = tiles.empty_tile(kind) if rgba is None else tiles.encode(rgba, kind)
    return HttpResponse(data, content_type=f"image/{kind}", headers=headers)


def _ready(request: HttpRequest, scene_id: UUID) -> Scene:
    scene = scene_get_for_user(_user(request), scene_id)
    if not scene.is_ready or scene.cog_id is None:
        raise NotFoundError("picture of this scene")
    return scene


@login_required
@require_safe
def scene_picture(request: HttpRequest, scene_id: UUID, size: str = "thumbnail") -> HttpResponseBase:
    """The whole scene as a picture: thumbnail, card or preview; transparent where nothing is valid."""
    scene = _ready(request, scene_id)
    info, statistics = scene.scene_info, RasterStatistics.model_validate(scene.statistics)
    view = tiles.parse_view(info, request.GET.get("bands", ""), request.GET.get("stretch", ""))
    path = blob_path(cast(str, scene.cog_id))
    version = presentation.version(scene)
    return _picture(
        request, f"{version}|{size}|{view}", VERSIONED if request.GET.get("v") == version else REVALIDATED,
        lambda: tiles.scene_preview(info, path, statistics, view, PREVIEW_SIZES[size]),
    )  # fmt: skip


def _zoom(z: int) -> None:
    if z > tiles.MAX_ZOOM:
        raise NotFoundError("zoom")


def _scene_tile(request: HttpRequest, scene_id: UUID, z: int, x: int, y: int, kind: str, make: Any) -> HttpResponseBase:
    _zoom(z)
    scene = _ready(request, scene_id)
    info, statistics = scene.scene_info, RasterStatistics.model_validate(scene.statistics)
    view = tiles.parse_view(info, request.GET.get("bands", ""), request.GET.get("stretch", ""))
    path = blob_path(cast(str, scene.cog_id))
    version = presentation.version(scene)
    key = f"{make.__name__}|{version}|{view}|{z}/{x}/{y}|{kind}"
    cache = VERSIONED if request.GET.get("v") == version else "private, max-age=60"
    return _picture(
        request, key, cache, lambda: make(info, path, statistics, view, z, x, y), cast(tiles.ImageFormat, kind)
    )


@login_required
@require_safe
def tile_scene(request: HttpRequest, scene_id: UUID, z: int, x: int, y: int, kind: str = "png") -> HttpResponseBase:
    """A Web Mercator tile of a scene. ``?bands=4,3,2`` chooses, ``?stretch=minmax`` stretches."""
    return _scene_tile(request, scene_id, z, x, y, kind, tiles.scene_rgba)


@login_required
@require_safe
def tile_scene_image(request: HttpRequest, scene_id: UUID, z: int, x: int, y: int, kind: str = "png") -> HttpResponseBase:
    """A tile in pixel space, for scenes without a CRS."""
    return _scene_tile(request, scene_id, z, x, y, kind, tiles.scene_image_rgba)


def _layer_tile(request: HttpRequest, digest: str, z: int, x: int, y: int, kind: str, make: Any) -> HttpResponseBase:
    _zoom(z)
    artifact, _ = access_artifact_by_digest(_user(request), digest)
    path = blob_path(artifact.digest)
    return _picture(
        request, f"{make.__name__}|{digest}|{z}/{x}/{y}|{kind}", IMMUTABLE, lambda: make(path, z, x, y),
        cast(tiles.ImageFormat, kind),
    )  # fmt: skip


@login_required
@require_safe
def tile_layer(request: HttpRequest, digest: str, z: int, x: int, y: int, kind: str = "png") -> HttpResponseBase:
    """A Web Mercator tile of a result layer: mask, raster or classes."""
    return _layer_tile(request, digest, z, x, y, kind, tiles.layer_rgba)


@login_required
@require_safe
def tile_layer_image(request: HttpRequest, digest: str, z: int, x: int, y: int, kind: str = "png") -> HttpResponseBase:
    """A tile of a result layer in pixel space."""
    return _layer_tile(request, digest, z, x, y, kind, tiles.layer_image_rgba)


@login_required
@require_safe
def layer_legend(request: HttpRequest, digest: str) -> JsonResponse:
    """The legend of a result layer: kind, unit and stops with colours."""
    artifact, _ = access_artifact_by_digest(_user(request), digest)
    style = tiles.bounded(lambda: tiles.layer_style(blob_path(artifact.digest)))
    answer = JsonResponse({"kind": style.kind, "unit": style.unit, "low": style.low, "high": style.high,
                           "stops": tiles.legend(style)})  # fmt: skip
    answer["Cache-Control"] = "private, max-age=86400, immutable"
    return answer
