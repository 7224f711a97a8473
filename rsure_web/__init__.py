"""The project: settings, ASGI, Celery, URLs. It wires and decides nothing."""

import os

# Before numpy is loaded: its linear algebra would take every core in every process, and on cores that are busy its threads wait
# for each other by spinning (a random walk of 4 s took 9 min). Work is shared out by windows and by processes instead.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from rsure_web.celery import app as celery_app

# Without this import `shared_task` binds to a default app whose broker is amqp.
__all__ = ["celery_app"]
