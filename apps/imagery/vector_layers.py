"""Vector files of a project: kept, read in a limited process, read again with what a person says, deleted."""

from __future__ import annotations

import json
import logging
import math
from pathlib import Path
from typing import Any
from uuid import UUID

from django.db import transaction
from kombu.exceptions import OperationalError

from apps.accounts.models import Project
from apps.artifacts.blobs import blob_path
from apps.artifacts.services import ProjectBlobs, artifact_put
from apps.core.errors import FaultError, UserError
from apps.core.geo.vector import VectorInfo, values_of
from apps.core.ports import LayerStore
from apps.imagery.layers import ArtifactLayerStore
from apps.imagery.models import VectorLayer
from apps.imagery.quota import room_for
from apps.imagery.selectors import waiting_keys
from apps.imagery.vectors import VectorFile, vector_read

log = logging.getLogger(__name__)


def vector_create(
    *, project_id: UUID, original_digest: str, name: str, user_id: int | None = None, crs: str = "", layer: str = ""
) -> VectorLayer:
    """A vector file that waits to be read, by a worker after the commit."""
    held = VectorLayer.objects.create(
        project_id=project_id, name=name, original_id=original_digest, created_by_id=user_id, crs_said=crs, layer_said=layer
    )
    _enqueue_later(str(held.pk))
    return held


def vector_add_now(
    *, project: Project, path: Path, name: str, user: Any = None, crs: str = "", layer: str = "", accuracy_m: float | None = None
) -> VectorLayer:
    """Reads a file of this machine at once. Raises UserError as reading does; nothing is left then. ``accuracy_m``: by how many
    metres its points may lie off, where a person says so.

    UserError NEEDS_CRS, UNSAFE_FILE, UNREADABLE, TOO_LARGE, BAD_ARGUMENT, as ``vector_read`` tells; OVER_QUOTA where the project
    has no room.
    """
    found = vector_read(path, name, crs=crs or None, layer=layer)
    with transaction.atomic():
        room_for(project, name, path.stat().st_size)
        artifact = artifact_put(data=path, project_id=project.pk, name=name[:200])
        held = VectorLayer.objects.create(
            project=project, name=name, original=artifact, created_by=user, crs_said=crs, layer_said=layer
        )
        _store(held, found)
        if accuracy_m is not None:
            vector_declare(vector=held, accuracy_m=accuracy_m)
    return held


def accuracy_from_text(text: str) -> float | None:
    """Metres, None for an empty text. UserError BAD_ARGUMENT for what is no positive number of metres."""
    if not text.strip():
        return None
    try:
        metres = float(text)
    except ValueError:
        metres = math.nan
    if not 0 < metres < 1e6:
        raise UserError(
            "BAD_ARGUMENT", f"“{text.strip()[:40]}” is no accuracy.", "It must be a positive number of metres.",
            "Give by how many metres the points of the file may lie off, such as 5, or nothing.",
        )  # fmt: skip
    return metres


def vector_declare(*, vector: VectorLayer, accuracy_m: float | None) -> VectorLayer:
    """Keeps by how many metres the points of a file may lie off, as a person says; None takes it back. Questions that were asked
    before keep what they knew. UserError CONFLICT where the file is not ready."""
    with transaction.atomic():
        held = VectorLayer.objects.select_for_update().get(pk=vector.pk)
        if not held.is_ready:
            why = "It was not read yet, or could not be read."
            raise UserError("CONFLICT", f"“{held.name}” has no coordinates yet.", why, "Wait for it.", status=409)
        held.info = held.vector_info.model_copy(update={"accuracy_m": accuracy_m}).model_dump(mode="json")
        held.save(update_fields=["info"])
    vector.info = held.info
    return held


def vector_ingest(*, vector_id: str) -> VectorLayer:
    """Reads a file that waits for it; what is wrong with it is kept on the row. Idempotent: two at once write the same."""
    held = VectorLayer.objects.get(pk=vector_id)
    if held.status != VectorLayer.READING:
        return held
    if held.original_id is None:
        raise FaultError(f"vector layer {held.pk} has no file")
    try:
        found = vector_read(blob_path(held.original_id), held.name, crs=held.crs_said or None, layer=held.layer_said)
        with transaction.atomic():
            _store(held, found)
    except UserError as error:
        _fail(held, error)
    except Exception:
        fault = "A fault of ours; it is in the log."
        _fail(held, UserError("UNREADABLE", f"“{held.name}” could not be read.", fault, "Try again."))
        raise
    return held


def _store(held: VectorLayer, found: VectorFile) -> None:
    store = ArtifactLayerStore(ProjectBlobs(held.project_id))
    said = held.vector_info.accuracy_m if held.info is not None else None
    info = vector_info_of(found, store, vector_id=str(held.pk), name=held.name).model_copy(update={"accuracy_m": said})
    held.info = info.model_dump(mode="json")
    held.crs_source, held.layer = found.crs_source, found.layer[:255]
    held.status, held.error = VectorLayer.READY, None
    held.save(update_fields=["info", "crs_source", "layer", "status", "error"])


def vector_info_of(found: VectorFile, store: LayerStore, *, vector_id: str, name: str) -> VectorInfo:
    """What questions know of a file that was read; its features go into the store."""
    bounds = found.lonlat_bounds()
    kind = "points" if set(found.kinds) <= {"Point", "MultiPoint"} else "polygons"
    ref = store.put_features(found.features, kind=kind, crs=found.crs, label=found.name[:120])
    field, names = found.naming()
    values, spreads = values_of((f.get("properties") or {} for f in found.features), found.fields, field)
    return VectorInfo(
        vector_id=vector_id, artifact=ref.artifact, name=name, format=found.format, crs=found.crs, n=len(found.features),
        kinds=found.kinds, fields=found.fields, name_field=field, names=names, bounds=bounds, warnings=found.warnings,
        values=values, spreads=spreads,
    )  # fmt: skip


def _fail(held: VectorLayer, error: UserError) -> None:
    held.status, held.error = VectorLayer.FAILED, error.as_json()
    VectorLayer.objects.filter(pk=held.pk, status=VectorLayer.READING).update(status=held.status, error=held.error)


def vector_again(*, vector: VectorLayer, crs: str = "", layer: str = "") -> VectorLayer:
    """Reads a file once more, with the CRS and the layer that a person says. UserError CONFLICT while it is being read."""
    with transaction.atomic():
        held = VectorLayer.objects.select_for_update().get(pk=vector.pk)
        if held.status == VectorLayer.READING:
            raise UserError("CONFLICT", f"“{held.name}” is being read.", "One reading at a time.", "Wait for it.", status=409)
        held.status, held.error = VectorLayer.READING, None
        held.crs_said, held.layer_said = crs.strip()[:4000], layer.strip()[:255]
        held.save(update_fields=["status", "error", "crs_said", "layer_said"])
        _enqueue_later(str(held.pk))
    return held


def vector_delete(*, vector: VectorLayer) -> None:
    """Takes a vector file out of its project. Runs that used it keep the features that they measured."""
    vector.delete()


def vectors_resume(*, waiting_s: float = 0) -> int:
    """Enqueues files that wait to be read for ``waiting_s`` seconds at least; returns how many."""
    waiting = waiting_keys(VectorLayer.objects.filter(status=VectorLayer.READING), waiting_s)
    for key in waiting:
        _enqueue(key)
    return len(waiting)


def _enqueue_later(key: str) -> None:
    transaction.on_commit(lambda: _enqueue(key))


def _enqueue(vector_id: str) -> None:
    """A broker that is down loses nothing: the file waits in the database, and ``vectors_resume`` takes it up."""
    from apps.imagery.tasks import ingest_vector

    try:
        ingest_vector.delay(vector_id)
    except OperationalError as error:
        log.warning("vector layer %s waits for the broker: %s", vector_id, error)


def vector_features(vector: VectorLayer) -> tuple[list[dict[str, Any]], str]:
    """(GeoJSON features, their CRS) of a file that is ready."""
    document = json.loads(blob_path(vector.vector_info.artifact).read_bytes())
    found: list[dict[str, Any]] = document["features"]
    return found, vector.vector_info.crs
