"""Celery tasks of imagery (queue ``raster``): an id in, a service called."""

from __future__ import annotations

from celery import shared_task

from apps.imagery import services


@shared_task(name="apps.imagery.tasks.ingest_scene")
def ingest_scene(scene_id: str) -> None:
    """Ingests one scene; does nothing where it was done before."""
    services.scene_ingest(scene_id=scene_id)
