"""The project: settings, ASGI, Celery, URLs. It wires and decides nothing."""

from rsure_web.celery import app as celery_app

# Without this import `shared_task` binds to a default app whose broker is amqp.
__all__ = ["celery_app"]
