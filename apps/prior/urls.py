"""Addresses of the prior's page, complete from the root."""

from django.urls import path

from apps.prior import views

urlpatterns = [
    path("priors/", views.prior_page, name="prior_table"),
    path("priors/freeze/", views.prior_version_freeze, name="prior_freeze"),
    path("priors/use/", views.prior_version_use, name="prior_use"),
    path("priors/rollback/", views.prior_version_restore, name="prior_rollback"),
    path("priors/events/<uuid:event_id>/undo/", views.prior_event_undo, name="prior_event_undo"),
    path("priors/verify/", views.prior_version_verify, name="prior_verify"),
    path("priors/import/", views.prior_upload, name="prior_upload"),
    path("priors/export/", views.prior_download, name="prior_export"),
]
