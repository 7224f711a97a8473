"""Reports of `evaluate faults|trajectories|cases`, kept in RSURE_HOME/evaluation; the page shows the newest of each.

A report is one mapping; ``kind``, ``made_at`` (ISO, UTC) and ``revision`` are added when it is kept. ``save`` writes whole or not
at all.
"""

from __future__ import annotations

import json
import math
import os
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

KINDS = ("faults", "trajectories", "cases", "requests")
RELEASED = Path(__file__).resolve().parent / "released"
# Reports of one kind that are kept; older ones are deleted.
KEPT = 20
_NAME = re.compile(r"(?P<kind>[a-z_]+)-(?P<at>\d{8}T\d{6})(?P<more>-\d+)?\.json")


@dataclass(frozen=True, slots=True)
class Kept:
    """A report on disk."""

    kind: str
    made_at: datetime
    path: Path

    def read(self) -> dict[str, Any]:
        """The report; {} where the file was cut off."""
        try:
            found = json.loads(self.path.read_text())
        except (OSError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}


def folder() -> Path:
    """Where reports are kept; made on first use."""
    from django.conf import settings

    place: Path = Path(settings.RSURE_HOME) / "evaluation"
    place.mkdir(parents=True, exist_ok=True)
    return place


def _finite(value: Any) -> Any:
    """Infinities and NaN as null: JSON has neither."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(k): _finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(v) for v in value]
    return value


def save(kind: str, report: dict[str, Any], *, revision: str = "", now: datetime | None = None) -> Path:
    """Keeps a report. ValueError for an unknown kind."""
    if kind not in KINDS:
        raise ValueError(f"unknown report {kind!r}; one of {', '.join(KINDS)}")
    at = (now or datetime.now(UTC)).astimezone(UTC)
    whole = {"kind": kind, "made_at": at.isoformat(timespec="seconds"), "revision": revision, **_finite(report)}
    place = folder()
    stem = f"{kind}-{at:%Y%m%dT%H%M%S}"
    path, more = place / f"{stem}.json", 1
    while path.exists():
        path, more = place / f"{stem}-{more}.json", more + 1
    draft = path.with_suffix(f".{os.getpid()}.tmp")
    draft.write_text(json.dumps(whole, ensure_ascii=False, indent=1, default=str) + "\n")
    draft.replace(path)
    for old in kept(kind)[KEPT:]:
        old.path.unlink(missing_ok=True)
    return path


def kept(kind: str | None = None) -> list[Kept]:
    """Reports on disk, newest first."""
    found = []
    for path in folder().glob("*.json"):
        m = _NAME.fullmatch(path.name)
        if m and m["kind"] in KINDS and kind in (None, m["kind"]):
            found.append((m["at"], int((m["more"] or "-0")[1:]), m["kind"], path))
    found.sort(reverse=True)
    return [Kept(k, datetime.strptime(at, "%Y%m%dT%H%M%S").replace(tzinfo=UTC), p) for at, _, k, p in found]


def newest(kind: str) -> dict[str, Any] | None:
    """The newest readable report of a kind."""
    return next((report for one in kept(kind) if (report := one.read())), None)


def released(name: str) -> dict[str, Any] | None:
    """The report that came with the release, marked ``is_released``; None where none did."""
    path = RELEASED / f"{name}.json"
    return json.loads(path.read_text()) | {"is_released": True} if path.is_file() else None


def made_at(report: dict[str, Any]) -> datetime:
    """When a report was made, by its own word; the beginning of time where it does not say."""
    try:
        at = datetime.fromisoformat(str(report.get("made_at")))
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def newer(here: dict[str, Any] | None, release: dict[str, Any] | None) -> dict[str, Any] | None:
    """The one of two reports that was made later, with ``other``: where and when the one that is not shown was made. Of two of
    one moment the one of this installation is taken."""
    if here is None or release is None:
        return here or release
    shown, other = (release, here) if made_at(release) > made_at(here) else (here, release)
    place = "with the release" if other.get("is_released") else "on this machine"
    return shown | {"other": {"place": place, "made_at": other.get("made_at"), "revision": other.get("revision", "")}}


def latest(kind: str) -> dict[str, Any] | None:
    """The newest report of a kind, be it kept here or of the release."""
    return newer(newest(kind) if kind in KINDS else None, released(kind))
