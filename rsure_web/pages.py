"""Pages that show several applications at once: home, project, status. They gather what selectors say."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, cast
from uuid import UUID

import redis
from django.conf import settings
from django.contrib.auth.decorators import login_required
from django.contrib.gis.geos import GEOSGeometry
from django.db.models import Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.templatetags.static import static
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_GET
from shapely import LinearRing

from apps.accounts.models import Project, User
from apps.accounts.selectors import access_project_by_id, can, project_list_for_user, projects_for_user, sample_project
from apps.core.errors import UserError
from apps.core.geo.measures import geodesic_path_m, geodesic_ring_area_m2
from apps.imagery.models import Scene
from apps.imagery.selectors import MAX_VECTORS, scene_list_for_project, scene_list_for_user, vector_list_for_project
from apps.review.selectors import review_count
from apps.runs.landmarks import mark_fields
from apps.runs.models import Run
from apps.runs.prompts import prompt_field
from apps.runs.selectors import run_list_for_user
from apps.runs.suggestions import SceneGroup, group_scenes
from rsure_web.celery import app as celery
from rsure_web.health import has_broker, has_database

# Footprints drawn on the map of the home page, newest first; more would hide each other.
FOOTPRINT_LIMIT = 500
# What the map of the home page shows: the inhabited world.
WORLD: list[float] = [-150, -50, 160, 68]
QUEUES = ("light", "raster", "vision")


def _user(request: HttpRequest) -> User:
    return cast(User, request.user)


def _address(name: str, *arguments: Any) -> str:
    try:
        return reverse(name, args=arguments)
    except NoReverseMatch:
        return ""


def _view(centres: list[tuple[float, float]]) -> list[float]:
    """[west, south, east, north] around the imagery with a margin; the world where it lies far apart or there is none."""
    if not centres:
        return WORLD
    lons, lats = zip(*centres, strict=True)
    if max(lons) - min(lons) > 90:
        return WORLD
    margin = max(1.0, 0.3 * (max(lons) - min(lons)))
    return [min(lons) - margin, max(-85.0, min(lats) - margin), max(lons) + margin, min(85.0, max(lats) + margin)]


def _outline(footprint: GEOSGeometry) -> dict[str, Any]:
    """An outline as GeoJSON for a map: what strays by less than a 4000th of its side (no pixel of a screen) is left out, and
    degrees have seven decimals (1 cm)."""
    west, south, east, north = footprint.extent
    plain = footprint.simplify(max(east - west, north - south) / 4000, preserve_topology=True)
    held: dict[str, Any] = json.loads(plain.geojson)
    return held | {"coordinates": _rounded(held["coordinates"])}


def _rounded(part: Any) -> Any:
    return [_rounded(p) for p in part] if isinstance(part, list) else round(part, 7)


def _footprints(scenes: Iterable[Scene], *, is_world: bool) -> dict[str, Any]:
    """The map of where imagery lies, with a point in each outline, which may be too small to see."""
    features: list[dict[str, Any]] = []
    points: list[dict[str, Any]] = []
    centres: list[tuple[float, float]] = []
    for scene in scenes:
        if scene.footprint is None:
            continue
        properties = {"title": scene.name, "href": _address("scene", scene.pk)}
        features.append({"type": "Feature", "geometry": _outline(scene.footprint), "properties": properties})
        centre = scene.footprint.centroid
        centres.append((centre.x, centre.y))
        points.append(
            {
                "type": "Feature",
                "geometry": {"type": "Point", "coordinates": _rounded([centre.x, centre.y])},
                "properties": properties,
            }
        )
    data = {"type": "FeatureCollection", "features": features + points}
    return {
        "crs": "geo",
        "land": static("build/land.geojson"),
        "graticule": True,
        "draw": "#id_region",
        "marks": "#ask-marks",
        "prompts": "#ask-prompts",
        "bounds": WORLD if is_world else _view(centres),
        "layers": [{"id": "footprints", "name": "Footprints", "kind": "geojson", "style": "footprint", "data": data}],
    }


def _groups(project: Project) -> list[SceneGroup]:
    ready = [scene.scene_info for scene in scene_list_for_project(project) if scene.is_ready]
    return group_scenes(ready)


def _picker(project: Project | None) -> dict[str, Any]:
    groups = _groups(project) if project else []
    vectors = [v.vector_info for v in vector_list_for_project(project)[:MAX_VECTORS] if v.is_ready] if project else []
    return {
        "picker_project": project,
        "groups": groups,
        "only_group": len(groups) == 1,
        "picker_vectors": vectors,
        "marks": mark_fields(None),
        "prompts": prompt_field(None),
    }


@login_required
@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """Ask box, sample, own projects, what waits for review, what runs, footprints."""
    user = _user(request)
    sample, projects = sample_project(), list(project_list_for_user(user))
    scenes = list(scene_list_for_user(user)[:FOOTPRINT_LIMIT])
    runs = list(run_list_for_user(user))
    groups = _groups(sample) if sample else []
    with_imagery = {scene.project_id for scene in scenes if scene.is_ready}
    chosen = next((p for p in projects if p.pk in with_imagery), sample or next(iter(projects), None))
    return render(
        request,
        "home.html",
        {
            "sample": sample,
            "projects": projects,
            "sample_cards": [group for group in groups if group.questions][:4],
            "ask_projects": [p for p in projects_for_user(user) if can(user, p, "ask")],
            **_picker(chosen),
            "n_review": review_count(user),
            "running": [run for run in runs if run.status in (Run.Status.QUEUED, Run.Status.RUNNING)],
            "recent": runs[:5],
            "config": _footprints(scenes, is_world=True),
            "n_scenes": len(scenes),
            "map_scenes": scenes[:50],
        },
    )


@login_required
@require_GET
def scene_picker(request: HttpRequest) -> HttpResponse:
    """The scenes of the chosen project as check boxes: a fragment of the ask box."""
    project = access_project_by_id(_user(request), request.GET.get("project", ""), "ask")
    return render(request, "ask_picker.html", _picker(project))


@login_required
@require_GET
def project(request: HttpRequest, project_id: UUID) -> HttpResponse:
    """Imagery, questions that can be asked at once, runs, what waits for review."""
    user = _user(request)
    found = access_project_by_id(user, project_id)
    scenes = list(scene_list_for_project(found))
    return render(
        request,
        "project.html",
        {
            "project": found,
            "scenes": scenes,
            "runs": run_list_for_user(user, project_id=found.pk),
            "config": _footprints(scenes, is_world=False),
            "has_footprints": any(scene.footprint for scene in scenes),
            "may_ask": can(user, found, "ask"),
            "may_ingest": can(user, found, "ingest"),
            "can_manage": can(user, found, "manage"),
            **_picker(found),
        },
    )


# What the palette lists of each kind.
FOUND_EACH = 8
# Corners of a measured line or area; more are no hand's work.
MEASURE_MOST = 500


@login_required
@require_GET
def find(request: HttpRequest) -> JsonResponse:
    """The user's projects, scenes and runs that hold ``q``, for the palette: {found: [{kind, title, detail, url}]}."""
    user, asked = _user(request), request.GET.get("q", "").strip()[:100]
    found: list[dict[str, str]] = []
    if asked:
        mine = projects_for_user(user)
        for p in mine.filter(name__icontains=asked)[:FOUND_EACH]:
            found.append({"kind": "project", "title": p.name, "detail": "", "url": reverse("project", args=[p.pk])})
        runs = Run.objects.filter(project__in=mine).filter(Q(question_text__icontains=asked) | Q(answer_text__icontains=asked))
        for run in runs.select_related("project").order_by("-created_at")[:FOUND_EACH]:
            found.append(
                {"kind": "run", "title": run.question_text, "detail": run.answer_text[:80], "url": reverse("run", args=[run.pk])}
            )
        for scene in Scene.objects.filter(project__in=mine, name__icontains=asked).order_by("-pk")[:FOUND_EACH]:
            found.append({"kind": "scene", "title": scene.name, "detail": scene.status, "url": reverse("scene", args=[scene.pk])})
    return JsonResponse({"found": found})


@login_required
@require_GET
def measure(request: HttpRequest) -> JsonResponse:
    """Length of a line, perimeter and area of a polygon given as ``points=lon,lat;lon,lat;…``: geodesic, on WGS 84.

    UserError BAD_ARGUMENT for what is no list of two to MEASURE_MOST positions.
    """
    try:
        points = [tuple(float(v) for v in part.split(",")) for part in request.GET.get("points", "").split(";") if part.strip()]
        if not 2 <= len(points) <= MEASURE_MOST or any(
            len(p) != 2 or not -360 <= p[0] <= 360 or not -90 <= p[1] <= 90 for p in points
        ):
            raise ValueError
    except ValueError:
        raise UserError(
            "BAD_ARGUMENT",
            "The positions cannot be measured.",
            f"It takes 2 to {MEASURE_MOST} of them as longitude,latitude in degrees, with ; between.",
            "Correct the list, for example -1.05,50.83; -1.00,50.86.",
        ) from None
    figures: dict[str, Any] = {"length_m": geodesic_path_m(points), "method": "geodesic on WGS 84 (Karney 2013)"}
    if len(points) > 2:
        figures["perimeter_m"] = geodesic_path_m([*points, points[0]])
        if LinearRing(points).is_simple:
            figures["area_m2"] = geodesic_ring_area_m2(points)
        else:
            figures["is_crossing"] = True
    return JsonResponse(figures)


def _waiting() -> dict[str, int]:
    """Tasks in each queue that no worker has taken."""
    client = redis.Redis.from_url(settings.REDIS_URL, socket_connect_timeout=2, socket_timeout=2)
    prefix = settings.CELERY_BROKER_TRANSPORT_OPTIONS["global_keyprefix"]
    try:
        return {name: int(cast(int, client.llen(f"{prefix}{name}"))) for name in QUEUES}
    except redis.RedisError:
        return {}
    finally:
        client.close()


def _workers() -> list[dict[str, Any]]:
    """Workers that answer within a second, and the queues each serves."""
    inspect = celery.control.inspect(timeout=1.0)
    queues: dict[str, list[dict[str, Any]]] = inspect.active_queues() or {}
    active: dict[str, list[Any]] = inspect.active() or {}
    return [
        {"name": name.split("@")[0], "queues": sorted(queue["name"] for queue in served), "n_active": len(active.get(name, []))}
        for name, served in sorted(queues.items())
    ]


@login_required
@require_GET
def workers(request: HttpRequest) -> HttpResponse:
    """Who works, as a fragment: asking takes up to a second, so the page does not wait for it."""
    found = _workers()
    served = {queue for worker in found for queue in worker["queues"]}
    waiting = _waiting()
    return render(
        request,
        "workers.html",
        {
            "workers": found,
            "queues": [{"name": name, "is_served": name in served, "waiting": waiting.get(name)} for name in QUEUES],
            "is_short": request.GET.get("short") == "1",
        },
    )


@login_required
@require_GET
def status(request: HttpRequest) -> HttpResponse:
    """Health of database, broker and workers."""
    runs = run_list_for_user(_user(request), limit=200)
    return render(
        request,
        "status.html",
        {
            "parts": [
                {"name": "Database", "is_up": has_database(), "fix": "Start PostgreSQL, or correct DATABASE_URL."},
                {"name": "Broker and sockets", "is_up": has_broker(), "fix": "Start Redis or Valkey, or correct REDIS_URL."},
            ],
            "running": [run for run in runs if run.status in (Run.Status.QUEUED, Run.Status.RUNNING)],
            "failed": [run for run in runs if run.status == Run.Status.FAILED][:20],
        },
    )
