"""Addresses of the page Evaluation, complete from the root."""

from django.urls import path

from apps.evaluation import views

urlpatterns = [
    path("evaluation/", views.evaluation_page, name="evaluation"),
    path("evaluation/<slug:kind>/<int:n>/", views.evaluation_part, name="evaluation_part"),
    path("evaluation/<slug:kind>.json", views.evaluation_report, name="evaluation_report"),
]
