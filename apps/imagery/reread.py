"""A scene read anew: what this version makes of the kept file, and what that changes against the reading that was held.

Facts, nodata and scale are taken at ingest and stay; a later version may know more of a product. The log of readings of a scene
is append-only.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.artifacts.blobs import blob_path
from apps.artifacts.services import artifact_put
from apps.core.errors import UserError
from apps.core.geo.bands import Band, FillRule
from apps.core.geo.scene import SceneInfo
from apps.imagery.facts import RasterFacts
from apps.imagery.hints import SceneHints
from apps.imagery.ingest import ingest_file
from apps.imagery.models import Scene
from apps.imagery.services import COG_TYPE, pixels_of, scene_settle, scene_store

_OF_BANDS = (
    ("role", "role"), ("unit", "unit"), ("scale", "scale"), ("offset", "offset"), ("nodata", "nodata"),
    ("valid_range", "valid range"), ("scheme", "coding of its quality bits"), ("native_gsd_m", "measured GSD"),
)  # fmt: skip
_OF_SCENE = (("dtype", "data type"), ("acquired_at", "date"), ("sensor", "sensor"), ("gsd_m", "GSD"))
# Sentences that one reading's entry holds.
MAX_CHANGES = 60


def original_kept(scene: Scene) -> bool:
    """Whether the file that was uploaded lies in the store; of a stack, what it was made of lies in its own pixels."""
    try:
        return scene.original_id is not None and blob_path(scene.original_id).exists()
    except KeyError:
        return False


def scene_read_anew(*, scene: Scene, user: Any = None) -> tuple[str, ...]:
    """Reads the kept original as an upload is read, with what persons said of it, and appends what changed to the scene's
    readings; a confirmation of what stood there before is withdrawn. Returns the changes as sentences, none where the reading
    is the same. A stack is derived anew from the facts of its files.

    UserError CONFLICT for a scene that is not ready, NOT_FOUND where the original is not kept, and those of ingest; the reading
    that was held stays then.
    """
    if not scene.is_ready or scene.facts is None or scene.cog_id is None:
        raise UserError(
            "CONFLICT", f"“{scene.name}” cannot be read anew.", f"It is {scene.status}.", "Wait for it, or try its ingest again.",
            status=409,
        )  # fmt: skip
    if not original_kept(scene):
        raise UserError(
            "NOT_FOUND", f"The original of “{scene.name}” is not kept.", "Only its pixels as they were converted are left.",
            "Add the file again; answers made of this scene keep the reading that they were made from.", status=404,
        )  # fmt: skip
    before, hints = scene.scene_info, SceneHints.model_validate(scene.hints)
    if scene.sources:
        from apps.imagery.ingest_facts import count_pixels

        facts = RasterFacts.model_validate(scene.facts)
        counts = count_pixels(blob_path(scene.cog_id), [None] * len(facts.bands))
        scene_settle(scene, facts, counts, scene.cog_id, hints)
    else:
        _ingest_original(scene, hints)
    changes = differences(before, scene.scene_info)
    _log_reading(scene, user, changes, before)
    return changes


def _ingest_original(scene: Scene, hints: SceneHints) -> None:
    assert scene.original_id is not None
    root: Path = settings.UPLOADS_ROOT
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="job-", dir=root) as folder:
        source = blob_path(scene.original_id)
        done = ingest_file(source, Path(folder), scene.name, hints, scene_id=str(scene.pk), artifact=scene.original_id)
        cog = artifact_put(data=done.cog, project_id=scene.project_id, media_type=COG_TYPE, name=f"{Path(scene.name).stem}.tif")
    info = done.info.model_copy(update={"artifact": pixels_of(scene, done.facts, cog.digest)})
    scene_store(scene, done.facts, done.counts, cog.digest, hints, info, done.findings, done.statistics)


@transaction.atomic
def _log_reading(scene: Scene, user: Any, changes: tuple[str, ...], before: SceneInfo) -> None:
    held = Scene.objects.select_for_update().get(pk=scene.pk)
    entry = {
        "at": timezone.now().isoformat(),
        "author": getattr(user, "username", ""),
        "changes": list(changes),
        "before": before.model_dump(mode="json") if changes else None,
    }
    held.readings = [*held.readings, entry]
    if changes:
        held.confirmed_by, held.confirmed_at = None, None
    held.save(update_fields=["readings", "confirmed_by", "confirmed_at"])
    scene.readings, scene.confirmed_by, scene.confirmed_at = held.readings, held.confirmed_by, held.confirmed_at


def differences(before: SceneInfo, after: SceneInfo) -> tuple[str, ...]:
    """What of two readings of one scene differs in meaning, a sentence each."""
    out = [f"The {word}: {_text(getattr(before, f))}, now {_text(getattr(after, f))}." for f, word in _OF_SCENE
           if getattr(before, f) != getattr(after, f)]  # fmt: skip
    if before.grid != after.grid:
        out.append("The grid or its CRS is another one.")
    if len(before.bands) != len(after.bands):
        out.append(f"It had {len(before.bands)} bands, now {len(after.bands)}.")
    for old, new in zip(before.bands, after.bands, strict=False):
        out += _of_band(old, new)
    if [_rule(r) for r in before.fill_rules] != [_rule(r) for r in after.fill_rules]:
        held = [", ".join(_rule(r) for r in info.fill_rules) or "none" for info in (before, after)]
        out.append(f"Fill that no flag declares: {held[0]}, now {held[1]}.")
    if before.valid_share != after.valid_share:
        out.append(f"Valid pixels: {_share(before.valid_share)}, now {_share(after.valid_share)}.")
    return tuple(out[:MAX_CHANGES])


def _of_band(old: Band, new: Band) -> list[str]:
    named = f"band {new.index}" + (f" ({new.role})" if new.role != "unknown" else "")
    return [f"The {word} of {named}: {_text(getattr(old, f))}, now {_text(getattr(new, f))}." for f, word in _OF_BANDS
            if getattr(old, f) != getattr(new, f)]  # fmt: skip


def _rule(rule: FillRule) -> str:
    return f"{rule.kind.replace('_', ' ')}{'' if rule.value is None else f' {rule.value:g}'} ({rule.source})"


def _text(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, tuple):
        return " to ".join(_text(v) for v in value)
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _share(value: float | None) -> str:
    return "not known" if value is None else f"{100 * value:.2f} %"
