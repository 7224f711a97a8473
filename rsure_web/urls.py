"""Addresses. Every application's urls.py holds its own, complete from the root."""

from pathlib import Path

from django.contrib import admin
from django.urls import include, path

from rsure_web import pages
from rsure_web.health import healthz

_APPS = Path(__file__).resolve().parent.parent / "apps"
_OURS = ("accounts", "artifacts", "imagery", "tools", "prior", "runs", "review", "evaluation")

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("admin/", admin.site.urls),
    path("", pages.home, name="home"),
    path("ask/scenes/", pages.scene_picker, name="scene_picker"),
    path("projects/<uuid:project_id>/", pages.project, name="project"),
    path("status/", pages.status, name="status"),
    path("status/workers/", pages.workers, name="workers"),
    *(path("", include(f"apps.{name}.urls")) for name in _OURS if (_APPS / name / "urls.py").exists()),
]
