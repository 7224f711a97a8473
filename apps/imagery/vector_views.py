"""Pages of vector files: their table, one file with its map and attributes, reading again, taking out."""

from __future__ import annotations

import json
from typing import Any, cast
from uuid import UUID

import numpy as np
import shapely
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.templatetags.static import static
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST
from shapely.geometry import mapping, shape

from apps.accounts.models import Project, User
from apps.accounts.selectors import access_project_by_id, can
from apps.core.errors import NotFoundError, UserError
from apps.core.geo.grid import transformer
from apps.core.geo.vector import VectorInfo
from apps.imagery.models import VectorLayer
from apps.imagery.selectors import vector_get_for_user, vector_list_for_project
from apps.imagery.vector_layers import accuracy_from_text, vector_again, vector_declare, vector_delete, vector_features

# Outlines drawn on a map, and rows of the table of attributes.
MAX_DRAWN = 5000
MAX_ROWS = 100
# Of a wide file: an outline needs no more vertices than a screen has pixels.
_SIMPLIFY = 1 / 4000
SOURCES = {
    "declared": "as the file declares", "format": "as its format says", "name": "by its column names",
    "person": "as a person said",
}  # fmt: skip


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)


def vector_rows(project: Project) -> list[dict[str, Any]]:
    """The vector files of a project as the table shows them."""
    return [{"v": v, "info": v.vector_info if v.is_ready else None} for v in vector_list_for_project(project)]


def _may_change(user: User, project: Project) -> bool:
    return can(user, project, "ingest") and (user.is_staff or not project.is_sample)


@login_required
@require_GET
def vector_table(request: HttpRequest, project_id: UUID) -> HttpResponse:
    """The table alone: fetched again while something is being read."""
    project = access_project_by_id(_user(request), project_id)
    context = {"project": project, "vectors": vector_rows(project), "may_ingest": _may_change(_user(request), project)}
    return render(request, "imagery/vectors.html", context)


@login_required
@require_GET
def vector_page(request: HttpRequest, vector_id: UUID) -> HttpResponse:
    """One vector file: where it lies, what it holds, what can be asked with it."""
    vector = vector_get_for_user(_user(request), vector_id)
    context: dict[str, Any] = {
        "vector": vector,
        "project": vector.project,
        "may_ingest": _may_change(_user(request), vector.project),
        "may_ask": can(_user(request), vector.project, "ask"),
    }
    if vector.is_ready:
        info = vector.vector_info
        features, _ = vector_features(vector)
        context |= {
            "info": info,
            "kinds": sorted(info.kinds.items(), key=lambda k: -k[1]),
            "crs_source": SOURCES.get(vector.crs_source, vector.crs_source),
            "rows": _rows(info, features),
            "n_shown": min(len(features), MAX_ROWS),
            "questions": questions_with(info),
            "config": {
                "crs": "geo", "land": static("build/land.geojson"), "graticule": True, "bounds": _padded(info.bounds),
                "layers": [{"id": "features", "name": info.name, "kind": "geojson", "style": "reference",
                            "url": reverse("vector_outlines", args=[vector.pk])}],
            },
        }  # fmt: skip
    return render(request, "imagery/vector.html", context)


def _padded(bounds: tuple[float, float, float, float]) -> list[float]:
    west, south, east, north = bounds
    margin = max(0.02 * max(east - west, north - south), 0.0005)
    return [west - margin, max(-85.0, south - margin), east + margin, min(85.0, north + margin)]


def _rows(info: VectorInfo, features: list[dict[str, Any]]) -> list[dict[str, Any]]:
    out = []
    for number, feature in enumerate(features[:MAX_ROWS], 1):
        held = feature.get("properties") or {}
        out.append({"number": number, "kind": feature["geometry"]["type"], "values": [held.get(f) for f in info.fields]})
    return out


def questions_with(info: VectorInfo) -> list[str]:
    """Questions that the planner answers with such a file beside an image."""
    if info.noun == "polygons":
        out = [f"What is the mean NDVI inside {info.name}?", f"What is the area of {info.name} in ha?"]
        return [f"Which of the polygons in {info.name} has the highest NDVI?", *out] if info.n > 1 else out
    if info.noun == "lines":
        return [f"What is the length of {info.name} in km?", f"How far is the nearest of {info.name} from the water?"]
    return [f"How many of the {info.noun} in {info.name} lie within 100 m of the water?"]


@login_required
@require_GET
def vector_outlines(request: HttpRequest, vector_id: UUID) -> JsonResponse:
    """The features in longitude and latitude for the map; the largest first where there are too many to draw."""
    vector = vector_get_for_user(_user(request), vector_id)
    if not vector.is_ready:
        raise NotFoundError("features of this file")
    features, crs = vector_features(vector)
    answer = JsonResponse(outlines_for_map(vector.vector_info, features, crs))
    answer["Cache-Control"] = "private, max-age=300"
    return answer


def outlines_for_map(info: VectorInfo, features: list[dict[str, Any]], crs: str) -> dict[str, Any]:
    """At most MAX_DRAWN features as GeoJSON in longitude and latitude, simplified for the screen; ``total`` tells all."""
    shapes = [shape(f["geometry"]) for f in features]
    order = range(len(shapes))
    if len(shapes) > MAX_DRAWN:
        order = np.argsort([-(g.bounds[2] - g.bounds[0]) for g in shapes], kind="stable")[:MAX_DRAWN].tolist()  # type: ignore[assignment]
    t = None if crs == "EPSG:4326" else transformer(crs, "EPSG:4326")
    west, south, east, north = info.bounds
    tolerance = max(east - west, north - south) * _SIMPLIFY
    out = []
    for i in order:
        g = shapes[i]
        if t is not None:
            g = shapely.transform(g, lambda p: np.column_stack(t.transform(p[:, 0], p[:, 1])))
        if len(shapely.get_coordinates(g)) > 200:
            g = g.simplify(tolerance)
        if not np.isfinite(shapely.get_coordinates(g)).all():
            continue
        held = features[i].get("properties") or {}
        title = str(held.get(info.name_field) or f"feature {i + 1}")
        out.append({"type": "Feature", "id": i, "geometry": mapping(g), "properties": {"title": title}})
    return {"type": "FeatureCollection", "total": len(shapes), "features": out}


def _access_to_change(request: HttpRequest, vector_id: UUID) -> VectorLayer:
    vector = vector_get_for_user(_user(request), vector_id, "ingest")
    if not _may_change(_user(request), vector.project):
        raise UserError(
            "FORBIDDEN", "The sample stays as it is.", "Everybody's answers rest on it.",
            "Add the file to a project of your own.", status=403,
        )  # fmt: skip
    return vector


@login_required
@require_POST
def vector_accuracy(request: HttpRequest, vector_id: UUID) -> HttpResponse:
    """Keeps by how many metres the points of the file may lie off, as the form says; empty takes it back."""
    vector = _access_to_change(request, vector_id)
    vector_declare(vector=vector, accuracy_m=accuracy_from_text(str(request.POST.get("accuracy_m", ""))))
    return redirect("vector", vector_id=vector.pk)


@login_required
@require_POST
def vector_read_again(request: HttpRequest, vector_id: UUID) -> HttpResponse:
    """Reads the file again, with the CRS or the layer that the form says."""
    vector = _access_to_change(request, vector_id)
    vector_again(vector=vector, crs=request.POST.get("crs", ""), layer=request.POST.get("layer", ""))
    target = reverse("vector", args=[vector.pk])
    if request.headers.get("HX-Request"):
        return HttpResponse(status=204, headers={"HX-Redirect": target})
    return redirect(target)


@login_required
@require_POST
def vector_remove(request: HttpRequest, vector_id: UUID) -> HttpResponse:
    """Takes the file out of the project."""
    vector = _access_to_change(request, vector_id)
    project = vector.project_id
    vector_delete(vector=vector)
    target = f"{reverse('scene_list')}?project={project}"
    if request.headers.get("HX-Request"):
        headers = {"HX-Redirect": target, "HX-Trigger": json.dumps({"toast": {"text": "Removed."}})}
        return HttpResponse(status=204, headers=headers)
    return redirect(target)
