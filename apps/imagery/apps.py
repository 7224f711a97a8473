from django.apps import AppConfig


class ImageryConfig(AppConfig):
    name = "apps.imagery"
    verbose_name = "Imagery"
