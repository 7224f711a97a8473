"""Addresses. Every application's urls.py holds its own, complete from the root."""

from django.contrib import admin
from django.urls import include, path

from rsure_web import pages
from rsure_web.health import healthz

handler400 = "rsure_web.failures.bad_request"
handler500 = "rsure_web.failures.server_fault"
urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("admin/", admin.site.urls),
    path("", pages.home, name="home"),
    path("ask/scenes/", pages.scene_picker, name="scene_picker"),
    path("projects/<uuid:project_id>/", pages.project, name="project"),
    path("find/", pages.find, name="find"),
    path("measure/", pages.measure, name="measure"),
    path("status/", pages.status, name="status"),
    path("status/workers/", pages.workers, name="workers"),
    path("", include("apps.accounts.urls")),
    path("", include("apps.artifacts.urls")),
    path("", include("apps.imagery.urls")),
    path("", include("apps.prior.urls")),
    path("", include("apps.runs.urls")),
    path("", include("apps.review.urls")),
    path("", include("apps.evaluation.urls")),
]
