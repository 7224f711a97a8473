"""Django's handle on the app."""

from django.apps import AppConfig


class PriorConfig(AppConfig):
    name = "apps.prior"
    label = "prior"
    verbose_name = "Reliability prior"
    default_auto_field = "django.db.models.BigAutoField"
