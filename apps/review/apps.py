"""Django's entry to the app."""

from django.apps import AppConfig


class ReviewConfig(AppConfig):
    name = "apps.review"
    verbose_name = "Review"
    default_auto_field = "django.db.models.BigAutoField"
