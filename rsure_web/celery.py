"""The Celery application; its settings are the CELERY_* ones of rsure_web.settings."""

import logging.config
import os
from typing import Any

from celery import Celery
from celery.signals import setup_logging

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "rsure_web.settings")

app = Celery("rsure")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


@setup_logging.connect
def configure_logging(**_kwargs: Any) -> None:
    """Workers log as the web does; connecting to this signal keeps Celery's own configuration away."""
    from django.conf import settings

    logging.config.dictConfig(settings.LOGGING)
