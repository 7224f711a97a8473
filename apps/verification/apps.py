"""Django's handle on the app; it has no tables."""

from django.apps import AppConfig


class VerificationConfig(AppConfig):
    name = "apps.verification"
    label = "verification"
    verbose_name = "Verification"
