"""Writes of imagery: uploads, ingest, what persons say of a scene, stacks of band files, regions."""

from __future__ import annotations

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from uuid import UUID

from django.conf import settings
from django.contrib.gis.geos import GEOSGeometry
from django.core.exceptions import ValidationError as FieldError
from django.db import connection, transaction
from django.db.models import Sum
from django.utils import timezone
from kombu.exceptions import OperationalError
from pydantic import ValidationError

from apps.accounts.models import Project
from apps.artifacts.blobs import blob_path, told_when_full
from apps.artifacts.services import artifact_link, artifact_put
from apps.core.errors import FaultError, UserError
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import MAX_TIMES, RasterCounts, RasterFacts, RasterStatistics
from apps.imagery.findings import Finding
from apps.imagery.footprints import footprint
from apps.imagery.hints import SceneHints
from apps.imagery.ingest import ingest_file
from apps.imagery.inspect import finish, inspect
from apps.imagery.models import Region, Scene, Upload
from apps.imagery.nesting import Wish
from apps.imagery.quota import room_for
from apps.imagery.readers import open_scene
from apps.imagery.selectors import waiting_keys
from apps.imagery.statistics import scene_statistics
from apps.imagery.vector_kinds import is_refused_unread, kind_of_name, refusal
from apps.imagery.vector_layers import vector_create
from apps.imagery.vectors import MAX_FILE_BYTES, is_vector_name

log = logging.getLogger(__name__)

MAX_OPEN_UPLOADS = 200
# An upload that nobody went on with for so long is forgotten when its owner starts another.
UPLOAD_STALE = timedelta(days=7)
COG_TYPE = "image/tiff; application=geotiff; profile=cloud-optimized"
# Bytes that stay free on the disk whatever is uploaded.
FREE_BYTES = 2 * 2**30
MAX_CHUNK_BYTES = 64 * 2**20


def check_file(path: Path) -> None:
    """UserError UNREADABLE where there is no file of this machine at that path, or it is a folder."""
    if path.is_file():
        return
    other = kind_of_name(path.name) if path.exists() else None
    if other is not None:
        raise refusal(other, path.name)
    raise UserError(
        "UNREADABLE",
        f"There is no file “{path.name}”.",
        "It is a folder." if path.is_dir() else "The path leads to none.",
        "Name the files in it." if path.is_dir() else "Check the path.",
        status=404,
    )


# --- uploads


def upload_start(*, user: Any, project: Project, name: str, size_bytes: int, sha256: str = "", fingerprint: str = "") -> Upload:
    """Room for one file. The caller has checked that the user may ingest into the project.

    UserError: BAD_ARGUMENT for a name or size that cannot be, TOO_LARGE, OVER_QUOTA (of the person, the project or the disk).
    """
    name = clean_name(name)
    limit = min(MAX_FILE_BYTES, settings.UPLOAD_MAX_BYTES) if is_vector_name(name) else settings.UPLOAD_MAX_BYTES
    if size_bytes < 1:
        raise UserError("BAD_ARGUMENT", f"“{name}” is empty.", "It holds 0 bytes.", "Choose another file.")
    if size_bytes > limit:
        raise UserError(
            "TOO_LARGE", f"“{name}” is too large.", f"It has {size_bytes:,} bytes; the limit is {limit:,}.",
            "Cut it into parts and upload those.", status=413,
        )  # fmt: skip
    other = kind_of_name(name)
    if other is not None and is_refused_unread(name):
        raise refusal(other, name)
    if sha256 and not re.fullmatch(r"sha256:[0-9a-f]{64}", sha256):
        raise UserError("BAD_ARGUMENT", "The checksum is none.", "It must read sha256:<64 hexadecimal digits>.", "Leave it out.")
    pending = Upload.objects.filter(created_by=user, finished_at__isnull=True)
    for stale in pending.filter(updated_at__lt=timezone.now() - UPLOAD_STALE):
        upload_cancel(upload=stale)
    held = pending.aggregate(bytes=Sum("size_bytes"))["bytes"] or 0
    if pending.count() >= MAX_OPEN_UPLOADS or held + size_bytes > 2 * settings.UPLOAD_MAX_BYTES:
        raise UserError(
            "OVER_QUOTA", "Too much is being uploaded at once.",
            f"{pending.count()} uploads with {held:,} bytes are not finished.", "Finish or cancel some of them first.",
            status=413,
        )  # fmt: skip
    root: Path = settings.UPLOADS_ROOT
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    if shutil.disk_usage(root).free - size_bytes < FREE_BYTES:
        raise UserError(
            "OVER_QUOTA", "The server has no room for it.", f"“{name}” has {size_bytes:,} bytes.",
            "Ask the administrator to make room.", status=507,
        )  # fmt: skip
    upload = Upload(
        project=project, created_by=user, name=name, size_bytes=size_bytes, sha256=sha256, fingerprint=fingerprint[:200]
    )
    with transaction.atomic():
        room_for(project, name, size_bytes)
        upload.save()
        upload.folder.mkdir(mode=0o700)
        upload.path.touch(mode=0o600)
    return upload


def clean_name(name: str) -> str:
    """A file name to show: its last part, without control characters. It is never used as a path."""
    last = re.split(r"[\\/]", name)[-1]
    kept = "".join(c for c in last if c.isprintable()).strip()
    if not kept or kept in (".", ".."):
        raise UserError("BAD_ARGUMENT", "The file has no name.", "A name tells scenes apart.", "Rename it and try again.")
    stem, suffix = os.path.splitext(kept)
    return stem[: 255 - len(suffix[:16])] + suffix[:16]


def upload_append(*, upload: Upload, offset: int, chunk: Any, length: int) -> Upload:
    """Writes ``length`` bytes read from ``chunk`` (a file) at ``offset``; finishes the upload when all bytes are there.

    UserError: CONFLICT (409) where ``offset`` is not where the upload stands, TOO_LARGE for more than was announced,
    UPLOAD_STALLED where the whole is not what was announced.
    """
    with transaction.atomic():
        held = Upload.objects.select_for_update().get(pk=upload.pk)
        if offset != held.offset_bytes:
            raise UserError(
                "CONFLICT", "The upload stands elsewhere.",
                f"It has {held.offset_bytes:,} bytes, the part starts at {offset:,}.",
                "Ask for its offset and go on from there.", status=409, detail={"offset": held.offset_bytes},
            )  # fmt: skip
        if length > MAX_CHUNK_BYTES or offset + length > held.size_bytes:
            raise UserError(
                "TOO_LARGE", "The part is too large.",
                f"It has {length:,} bytes; {held.size_bytes - offset:,} are missing, and a part may have {MAX_CHUNK_BYTES:,}.",
                "Send smaller parts.", status=413,
            )  # fmt: skip
        if length:
            held.offset_bytes = offset + _write(held.path, offset, chunk, length)
            held.save(update_fields=["offset_bytes", "updated_at"])
    return upload_finish(upload=held) if held.offset_bytes == held.size_bytes else held


def _write(path: Path, offset: int, chunk: Any, length: int) -> int:
    written = 0
    with told_when_full(), path.open("r+b") as file:
        file.seek(offset)
        while written < length and (data := chunk.read(min(1 << 20, length - written))):
            file.write(data)
            written += len(data)
        file.truncate()
    return written


def upload_finish(*, upload: Upload) -> Upload:
    """Keeps the whole file as an artifact and starts its ingest when the transaction is through. Idempotent.

    UserError UPLOAD_STALLED where its checksum is not the announced one: it begins anew then.
    """
    with transaction.atomic():
        held = Upload.objects.select_for_update().get(pk=upload.pk)
        if held.finished_at is not None or held.offset_bytes != held.size_bytes:
            return held
        artifact = artifact_put(data=held.path, project_id=held.project_id, name=held.name[:200])
        is_intact = not held.sha256 or held.sha256 == artifact.digest
        if is_intact:
            if is_vector_name(held.name):
                held.vector = vector_create(
                    project_id=held.project_id, original_digest=artifact.digest, name=held.name, user_id=held.created_by_id
                )
            else:
                scene = Scene.objects.create(
                    project_id=held.project_id, name=held.name, original=artifact, created_by_id=held.created_by_id
                )
                held.scene, key = scene, str(scene.pk)
                transaction.on_commit(lambda: _enqueue(key))
            held.finished_at, folder = timezone.now(), held.folder
            transaction.on_commit(lambda: shutil.rmtree(folder, ignore_errors=True))
        else:
            held.offset_bytes = 0
        held.save()
    if not is_intact:
        raise UserError(
            "UPLOAD_STALLED", f"“{held.name}” arrived damaged.", "Its checksum is not the announced one.", "Send it again.",
            status=409,
        )  # fmt: skip
    return held


def _enqueue(scene_id: str) -> None:
    """A broker that is down loses nothing: the scene waits in the database, and ``scenes_resume`` takes it up."""
    from apps.imagery.tasks import ingest_scene

    try:
        ingest_scene.delay(scene_id)
    except OperationalError as error:
        log.warning("scene %s waits for the broker: %s", scene_id, error)


def upload_cancel(*, upload: Upload) -> None:
    """Forgets an unfinished upload and its bytes; a finished one is left alone."""
    if upload.finished_at is None:
        folder = upload.folder
        upload.delete()
        shutil.rmtree(folder, ignore_errors=True)


# --- ingest


def scene_ingest(*, scene_id: str) -> Scene:
    """Ingests a scene that waits for it; what goes wrong with the file is kept on the scene.

    Idempotent, and done once at a time: a task that is delivered twice finds the lock held or the work done. The lock
    goes with the connection, so a worker that dies leaves none behind.
    """
    with _alone(scene_id) as is_alone:
        scene = Scene.objects.get(pk=scene_id)
        if not is_alone or scene.status != Scene.INGESTING:
            return scene
        return _ingest_kept(scene)


@contextmanager
def _alone(scene_id: str) -> Iterator[bool]:
    key = int(UUID(scene_id)) % 2**63
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_try_advisory_lock(%s)", [key])
        is_alone = bool(cursor.fetchone()[0])
    try:
        yield is_alone
    finally:
        if is_alone:
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_unlock(%s)", [key])


def scenes_resume(*, waiting_s: float = 0) -> int:
    """Enqueues scenes that wait to be ingested for ``waiting_s`` seconds at least: at the start of a worker after workers
    died, and now and then for what a broker lost. Those in work are left alone by the lock. Returns how many."""
    waiting = waiting_keys(Scene.objects.filter(status=Scene.INGESTING), waiting_s)
    for key in waiting:
        _enqueue(key)
    return len(waiting)


def _ingest_kept(scene: Scene) -> Scene:
    try:
        _ingest(scene, SceneHints.model_validate(scene.hints))
    except UserError as error:
        Scene.objects.filter(pk=scene.pk, status=Scene.INGESTING).update(status=Scene.FAILED, error=error.as_json())
    except Exception:
        Scene.objects.filter(pk=scene.pk, status=Scene.INGESTING).update(
            status=Scene.FAILED,
            error=UserError(
                "UNREADABLE", f"“{scene.name}” could not be ingested.", "A fault of ours; it is in the log.", "Try again."
            ).as_json(),
        )
        raise
    scene.refresh_from_db()
    return scene


def scene_ingest_now(
    *,
    project: Project,
    path: Path,
    name: str = "",
    roles: dict[str, int] | None = None,
    gsd_m: float | None = None,
    acquired_at: datetime | date | None = None,
    hints: SceneHints | None = None,
    user: Any = None,
) -> Scene:
    """Ingests a file of this machine at once, for ``ask`` and the sample. ``roles`` maps roles to 1-based bands.

    Raises UserError as ingest does; no scene is left then.
    """
    check_file(path)
    if isinstance(acquired_at, date) and not isinstance(acquired_at, datetime):
        acquired_at = datetime(acquired_at.year, acquired_at.month, acquired_at.day, tzinfo=UTC)
    elif isinstance(acquired_at, datetime) and acquired_at.tzinfo is None:
        acquired_at = acquired_at.replace(tzinfo=UTC)
    given = {"roles": roles or None, "gsd_m": gsd_m, "acquired_at": acquired_at}
    said = make_hints((hints or SceneHints()).model_dump() | {k: v for k, v in given.items() if v is not None})
    with transaction.atomic():
        room_for(project, clean_name(name or path.name), path.stat().st_size)
        artifact = artifact_put(data=path, project_id=project.pk, name=path.name)
        scene = Scene.objects.create(
            project=project,
            name=clean_name(name or path.name),
            original=artifact,
            hints=said.model_dump(mode="json", exclude_defaults=True),
            created_by=user,
        )
    try:
        _ingest(scene, said)
    except BaseException:
        scene.delete()
        raise
    scene.refresh_from_db()
    return scene


def scenes_of_times(scene: Scene) -> list[Scene]:
    """The scene and, where its file holds several times, those of the others, ingested at once, in order."""
    if not scene.facts or len(scene.facts.get("times") or ()) <= 1 or scene.hints.get("time_index") != 0:
        return [scene]
    others = Scene.objects.filter(
        project_id=scene.project_id, original_id=scene.original_id, name=scene.name, created_at__gte=scene.created_at
    ).exclude(pk=scene.pk)
    held = {int(o.hints["time_index"]): o for o in others.order_by("-created_at") if o.hints.get("time_index")}
    for other in held.values():
        if other.status != Scene.READY:
            _ingest(other, SceneHints.model_validate(other.hints))
            other.refresh_from_db()
    return [scene, *(held[k] for k in sorted(held))]


def make_hints(values: dict[str, Any]) -> SceneHints:
    """Hints from plain values. UserError BAD_ARGUMENT with the reason where they cannot be."""
    try:
        return SceneHints.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(p) for p in first["loc"]) or "value"
        raise UserError(
            "BAD_ARGUMENT", f"The {where} cannot be used.", f"{first['msg'].removeprefix('Value error, ')}.", "Correct it."
        ) from error


def _ingest(scene: Scene, hints: SceneHints) -> None:
    if scene.original_id is None:
        raise FaultError(f"scene {scene.pk} has no file")
    known = _known_conversion(scene, hints)
    if known is not None:
        facts, counts, cog_id = known
        scene_settle(scene, facts, counts, cog_id, hints)
        return
    source = blob_path(scene.original_id)
    root: Path = settings.UPLOADS_ROOT
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="job-", dir=root) as folder:
        done = ingest_file(source, Path(folder), scene.name, hints, scene_id=str(scene.pk), artifact=scene.original_id)
        cog = artifact_put(data=done.cog, project_id=scene.project_id, media_type=COG_TYPE, name=f"{Path(scene.name).stem}.tif")
    info = done.info.model_copy(update={"artifact": pixels_of(scene, done.facts, cog.digest)})
    scene_store(scene, done.facts, done.counts, cog.digest, hints, info, done.findings, done.statistics)
    if len(done.facts.times) > 1 and hints.time_index is None:
        _other_times(scene, done.facts, hints)


def _known_conversion(scene: Scene, hints: SceneHints) -> tuple[RasterFacts, RasterCounts, str] | None:
    """Facts, counts and COG of the same bytes under the same name, where they were converted before."""
    same = Scene.objects.filter(
        original_id=scene.original_id, name=scene.name, status=Scene.READY, facts__isnull=False, cog__isnull=False
    ).exclude(pk=scene.pk)
    for other in same.order_by("-created_at")[:5]:
        said = SceneHints.model_validate(other.hints)
        if (said.variable, said.time_index) == (hints.variable, hints.time_index) and other.cog_id:
            facts = RasterFacts.model_validate(other.facts)
            if len(facts.times) <= 1:
                return facts, RasterCounts.model_validate(other.counts), other.cog_id
    return None


def _other_times(scene: Scene, facts: RasterFacts, hints: SceneHints) -> None:
    """A netCDF variable over several times: the first became this scene, each other becomes one of its own."""
    scene.hints = scene.hints | {"time_index": 0}
    scene.save(update_fields=["hints"])
    for index in range(1, min(len(facts.times), MAX_TIMES)):
        other = Scene.objects.create(
            project_id=scene.project_id,
            name=scene.name,
            original_id=scene.original_id,
            created_by_id=scene.created_by_id,
            hints=hints.model_copy(update={"time_index": index}).model_dump(mode="json", exclude_defaults=True),
        )
        key = str(other.pk)
        transaction.on_commit(lambda key=key: _enqueue(key))  # type: ignore[misc]


def pixels_of(scene: Scene, facts: RasterFacts, cog_id: str) -> str:
    """The digest that names a scene's pixels: the file's own, but the COG's where the file holds several times or variables, of
    which the scene is one. What is kept of pixels is kept under it."""
    is_one_of_several = len(facts.times) > 1 or len(facts.variables) > 1
    return cog_id if is_one_of_several or not scene.original_id else scene.original_id


def scene_settle(scene: Scene, facts: RasterFacts, counts: RasterCounts, cog_id: str, hints: SceneHints) -> None:
    """Info, findings and statistics anew from what is known, over the COG."""
    artifact = pixels_of(scene, facts, cog_id)
    found = inspect(facts, counts, scene.name, hints, scene_id=str(scene.pk), artifact=artifact)
    statistics = _statistics(scene, found.info, cog_id)
    found = finish(found, statistics)
    artifact_link(digest=cog_id, project_id=scene.project_id, name=f"{Path(scene.name).stem}.tif")
    scene_store(scene, facts, counts, cog_id, hints, found.info, found.findings, statistics)


def _statistics(scene: Scene, info: SceneInfo, cog_id: str) -> RasterStatistics:
    old = SceneInfo.model_validate(scene.info) if scene.info else None
    if old is not None and scene.statistics and _mask_key(old) == _mask_key(info):
        return RasterStatistics.model_validate(scene.statistics)
    with open_scene(info, blob_path(cog_id)) as reader:
        return scene_statistics(reader)


def _mask_key(info: SceneInfo) -> Any:
    """What the validity of stored values depends on."""
    return (
        [(b.index, b.nodata, b.valid_range, b.role == "alpha") for b in info.bands],
        [(r.kind, r.value) for r in info.fill_rules],
    )


@transaction.atomic
def scene_store(
    scene: Scene,
    facts: RasterFacts,
    counts: RasterCounts,
    cog_id: str,
    hints: SceneHints,
    info: SceneInfo,
    findings: Sequence[Finding],
    statistics: RasterStatistics,
) -> None:
    held = Scene.objects.select_for_update().get(pk=scene.pk)
    outline = footprint(info.grid)
    held.facts, held.counts = facts.model_dump(mode="json"), counts.model_dump(mode="json")
    held.hints = hints.model_dump(mode="json", exclude_defaults=True)
    held.info, held.cog_id = info.model_dump(mode="json"), cog_id
    held.findings = [f.model_dump(mode="json") for f in findings]
    held.statistics = statistics.model_dump(mode="json")
    held.footprint = GEOSGeometry(memoryview(outline.wkb), srid=4326) if outline is not None else None
    held.acquired_at, held.status, held.error = info.acquired_at, Scene.READY, None
    held.save()
    for field in ("facts", "counts", "hints", "info", "cog_id", "findings", "statistics", "footprint", "acquired_at", "status"):
        setattr(scene, field, getattr(held, field))


# --- what persons say


@transaction.atomic
def scene_update(*, scene: Scene, user: Any, changes: dict[str, Any]) -> Scene:
    """Takes what a person says (fields of SceneHints; None takes it back) and derives info, findings and figures anew.

    A confirmation is withdrawn: it was given for what stood there before. UserError BAD_ARGUMENT for impossible values.
    A scene whose ingest failed is ingested again with the new hints.
    """
    scene = Scene.objects.select_for_update(of=("self",)).get(pk=scene.pk)  # two persons at once: one after the other
    old = SceneHints.model_validate(scene.hints)
    values = old.model_dump()
    looked = changes.get("looks_right")
    for key, value in changes.items():
        if key == "looks_right":
            values[key] = tuple(dict.fromkeys((*old.looks_right, *(value or ()))))
        elif value is None:
            values.pop(key, None)
        else:
            values[key] = value
    if looked is None:
        settled = {"fill": "nodata", "nodata": "nodata", "acquired_at": "date", "nodata_is_real": "saturation", "gsd_m": "gsd"}
        touched = {settled.get(k, k) for k in changes}
        values["looks_right"] = tuple(k for k in values.get("looks_right", ()) if k not in touched)
    hints = make_hints(values)
    if scene.cog_id is None or scene.facts is None:
        return scene_retry(scene=scene, hints=hints)
    facts, counts = RasterFacts.model_validate(scene.facts), RasterCounts.model_validate(scene.counts)
    scene_settle(scene, facts, counts, scene.cog_id, hints)
    if looked is None:
        Scene.objects.filter(pk=scene.pk).update(confirmed_by=None, confirmed_at=None)
    log.info("scene updated", extra={"scene": str(scene.pk), "author": getattr(user, "username", ""), "changes": sorted(changes)})
    scene.refresh_from_db()
    return scene


def scene_retry(*, scene: Scene, hints: SceneHints | None = None) -> Scene:
    """Ingests a failed scene again, with other hints where given. UserError CONFLICT for one that did not fail."""
    with transaction.atomic():
        held = Scene.objects.select_for_update().get(pk=scene.pk)
        if held.status != Scene.FAILED:
            raise UserError("CONFLICT", f"“{held.name}” did not fail.", f"It is {held.status}.", "Reload the page.", status=409)
        held.status, held.error = Scene.INGESTING, None
        if hints is not None:
            held.hints = hints.model_dump(mode="json", exclude_defaults=True)
        held.save(update_fields=["status", "error", "hints"])
        key = str(held.pk)
        transaction.on_commit(lambda: _enqueue(key))
    return held


@transaction.atomic
def scene_confirm(*, scene: Scene, user: Any) -> Scene:
    """“Looks right”: a person has looked at every line. UserError CONFLICT while something red is open."""
    held = Scene.objects.select_for_update().get(pk=scene.pk)
    if not held.is_ready or held.n_block:
        raise UserError(
            "CONFLICT", f"“{held.name}” cannot be confirmed yet.",
            f"Points to settle first: {held.n_block}." if held.is_ready else "It is not ingested.",
            "Use the buttons beside what is red.", status=409,
        )  # fmt: skip
    held.confirmed_by, held.confirmed_at = user, timezone.now()
    held.save(update_fields=["confirmed_by", "confirmed_at"])
    return held


def scene_delete(*, scene: Scene) -> None:
    """Takes a scene out of its project. UserError CONFLICT where runs rest on it."""
    runs = getattr(scene, "runs", None)
    if runs is not None and runs.exists():
        raise UserError(
            "CONFLICT", f"“{scene.name}” cannot be deleted.", "Runs rest on it, and their evidence must stay.",
            "Delete those runs first, or archive the project.", status=409,
        )  # fmt: skip
    scene.delete()


# --- stacks


def scene_stack(*, project: Project, scenes: Sequence[Scene], user: Any = None, name: str = "", wish: Wish = "auto") -> Scene:
    """One scene of several files that each hold bands of it, in the order given: grids that lie in each other, data types that
    fit into one. ``wish`` says onto which grid bands of several sizes come; what was done to each is told by its band.

    Roles, dates and fill are derived anew over all bands; what a person said alike of every file (unit, scale, nodata, …) is
    said of the stack. The files stay as scenes of their own, as parts of it. UserError BAD_ARGUMENT where they do not fit each
    other.
    """
    from apps.imagery.stacking import plan_stack, stack_facts, stack_name, write_stack

    infos, facts = [s.scene_info for s in scenes], [RasterFacts.model_validate(s.facts) for s in scenes]
    plan = plan_stack(infos, facts, wish)
    name = clean_name(name or stack_name([i.name for i in infos]))
    root: Path = settings.UPLOADS_ROOT
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="stack-", dir=root) as folder:
        target = Path(folder) / "stack.tif"
        counts = write_stack(infos, facts, [blob_path(cast(str, s.cog_id)) for s in scenes], plan, target)
        with transaction.atomic():
            room_for(project, name, target.stat().st_size)
            cog = artifact_put(data=target, project_id=project.pk, media_type=COG_TYPE, name=f"{Path(name).stem}.tif")
    stacked = stack_facts(facts, infos, plan)
    how = iter(stacked.bands)
    sources = [
        {"name": i.name, "artifact": i.artifact, "n_bands": len(i.bands), "gsd_m": i.effective_gsd_m,
         "resampled": "; ".join(dict.fromkeys(next(how).resampled for _ in i.bands))}
        for i in infos
    ]  # fmt: skip
    dates = {i.acquired_at for i in infos if i.acquired_at}
    own = {"roles", "looks_right", "variable", "time_index"}
    said = [SceneHints.model_validate(s.hints).model_dump(exclude=own) for s in scenes]
    alike = {k: v for k, v in said[0].items() if all(one[k] == v for one in said)}
    hints = SceneHints(**{**alike, "acquired_at": dates.pop() if len(dates) == 1 else None})
    scene = Scene.objects.create(
        project=project, name=name, original_id=cog.digest, created_by=user, sources=sources,
        hints=hints.model_dump(mode="json", exclude_defaults=True),
    )  # fmt: skip
    try:
        scene_settle(scene, stacked, counts, cog.digest, hints)
    except BaseException:
        scene.delete()
        raise
    Scene.objects.filter(pk__in=[s.pk for s in scenes]).update(part_of=scene)
    scene.refresh_from_db()
    return scene


def scenes_of_band_files(*, project: Project, scenes: Sequence[Scene], wish: Wish = "auto") -> list[Scene]:
    """One stacked scene where every file holds one band of another known role, on grids that lie in each other, of types that fit
    into one and of no two dates; else the scenes as they are. A band that a product delivers at several resolutions is taken
    at its finest."""
    from apps.imagery.stacking import finest_of_each, plan_stack

    chosen = [scenes[k] for k in finest_of_each([s.scene_info for s in scenes])]
    infos = [s.scene_info for s in chosen]
    roles = [i.bands[0].role for i in infos if len(i.bands) == 1]
    is_one = (
        len(infos) > 1 and len(set(roles)) == len(infos) and "unknown" not in roles and len({i.acquired_at for i in infos}) == 1
    )
    if not is_one:
        return list(scenes)
    try:
        plan_stack(infos, [RasterFacts.model_validate(s.facts) for s in chosen], wish)
    except UserError:
        return list(scenes)
    return [scene_stack(project=project, scenes=chosen, wish=wish)]


# --- regions


def region_save(*, project: Project, user: Any, name: str, geometry: dict[str, Any]) -> Region:
    """Keeps a GeoJSON geometry (longitude, latitude) under a name. UserError BAD_REGION, CONFLICT for a name in use."""
    import json

    try:
        shape = GEOSGeometry(json.dumps(geometry), srid=4326)
        west, south, east, north = shape.extent
    except (ValueError, TypeError, FieldError) as error:
        raise UserError("BAD_REGION", "The region cannot be read.", "It is no GeoJSON geometry.", "Draw it again.") from error
    except Exception as error:  # GDAL and GEOS raise their own, without a common base
        raise UserError("BAD_REGION", "The region cannot be read.", "It is no GeoJSON geometry.", "Draw it again.") from error
    if shape.empty or not shape.valid or not (-180 <= west <= east <= 180 and -90 <= south <= north <= 90):
        raise UserError(
            "BAD_REGION", "The region cannot be used.", "It is empty, crosses itself or leaves the globe.", "Draw it again."
        )
    name = name.strip()[:120]
    if not name:
        raise UserError("BAD_ARGUMENT", "The region has no name.", "A name tells regions apart.", "Give it one.")
    if Region.objects.filter(project=project, name=name).exists():
        raise UserError(
            "CONFLICT", f"There is a region “{name}” already.", "Names are used once a project.", "Choose another.", status=409
        )
    return Region.objects.create(project=project, name=name, geometry=shape, created_by=user)
