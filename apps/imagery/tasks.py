"""Celery tasks of imagery (queue ``raster``): an id in, a service called."""

from __future__ import annotations

from typing import Any

from celery import shared_task
from celery.signals import worker_ready

from apps.imagery import services, vector_layers
from apps.imagery.models import VectorLayer


@shared_task(name="apps.imagery.tasks.ingest_scene")
def ingest_scene(scene_id: str) -> None:
    """Ingests one scene; does nothing where it was done before."""
    services.scene_ingest(scene_id=scene_id)


@shared_task(name="apps.imagery.tasks.ingest_vector")
def ingest_vector(vector_id: str) -> None:
    """Reads one vector file; does nothing where it was done before, or where the file was deleted meanwhile."""
    try:
        vector_layers.vector_ingest(vector_id=vector_id)
    except VectorLayer.DoesNotExist:
        return


@shared_task(name="apps.imagery.tasks.scenes_resume")
def scenes_resume(waiting_s: float = 0) -> int:
    """Takes up what waits to be ingested after a worker died or a broker lost its queue."""
    return services.scenes_resume(waiting_s=waiting_s) + vector_layers.vectors_resume(waiting_s=waiting_s)


@worker_ready.connect  # type: ignore[misc]
def _resume_at_start(**_: Any) -> None:
    scenes_resume.delay()
