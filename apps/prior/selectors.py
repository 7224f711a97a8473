"""Reads: the prior at any point of its log, as the verifier, the page and the command see it."""

from __future__ import annotations

import re
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock
from typing import Any

from django.db.models import Max, QuerySet

from apps.core.digests import digest_json
from apps.core.errors import NotFoundError
from apps.core.evidence.decision import PriorView
from apps.prior.domain import LEVELS, Cell, Drift, Key, Outcome, Table, TrackPoint, build, cell_key, drift_of, drift_track
from apps.prior.models import PriorEvent, PriorVersion

_cache: OrderedDict[tuple[int, Any, str], Table] = OrderedDict()
_lock = Lock()
_KEPT = 8


def prior_head() -> int:
    """Sequence number of the newest event; 0 for an empty log."""
    return int(PriorEvent.objects.aggregate(m=Max("seq"))["m"] or 0)


def prior_outcomes(seq: int | None = None) -> list[Outcome]:
    """Labelled outcomes that stand at a point of the log, in order: those without a compensation up to that point."""
    events = PriorEvent.objects.order_by("seq")
    if seq is not None:
        events = events.filter(seq__lte=seq)
    undone = set(events.filter(compensates__isnull=False).values_list("compensates_id", flat=True))
    rows = events.exclude(source="undo").values_list(
        "id", "task_type", "tool", "coarse", "fine", "is_success", "weight", "shown_probability", "source"
    )
    return [
        Outcome(t, tool, c, f, bool(ok), w, p, source)
        for pk, t, tool, c, f, ok, w, p, source in rows.iterator()
        if pk not in undone
    ]


def _point(version: str | int | None) -> tuple[int, str]:
    """(sequence number, name) of a version: its name, ``log-N``, a sequence number, or None for the head.

    NotFoundError for a name that is no version and a point beyond the head: the log has no such state yet.
    """
    head = prior_head()
    at = head if version is None else version
    if isinstance(at, str):
        n = re.fullmatch("log-([0-9]{1,18})", at)
        if n is None:
            found = PriorVersion.objects.filter(name=at).first()
            if found is None:
                raise NotFoundError("version of the prior")
            return found.seq, found.name
        at = int(n[1])
    if not 0 <= at <= head:
        raise NotFoundError("version of the prior")
    return at, f"log-{at}"


def prior_rebuild(version: str | int | None = None) -> Table:
    """The prior of a version (its name, log-N, a sequence number, or None for the head), from the log alone.

    NotFoundError for what is no version.
    """
    seq, name = _point(version)
    return build(prior_outcomes(seq), name)


def prior_digest(table: Table) -> str:
    """Digest of a table's every number, to the last bit; the same for two builds of one version."""
    return digest_json(
        {
            "concentrations": {k: v.hex() for k, v in sorted(table.concentrations.items())},
            "cells": [[*key, cell.a.hex(), cell.b.hex()] for key, cell in sorted(table.cells.items())],
        }
    )


def prior_current() -> Table:
    """What decisions see now: the version in use, else the head of the log. Kept in memory by version."""
    used = PriorVersion.objects.filter(in_use=True).values_list("name", "seq").first()
    seq, name = (used[1], used[0]) if used else (prior_head(), "")
    last = PriorEvent.objects.filter(seq=seq).values_list("id", flat=True).first()
    key = (seq, last, name)
    with _lock:
        if key in _cache:
            _cache.move_to_end(key)
            return _cache[key]
    table = build(prior_outcomes(seq), name or f"log-{seq}")
    with _lock:
        _cache[key] = table
        while len(_cache) > _KEPT:
            _cache.popitem(last=False)
    return table


class DatabasePrior:
    """PriorSource over the log. ``version`` pins it; None follows what is in use."""

    def __init__(self, version: str | None = None):
        self._pinned = prior_rebuild(version) if version is not None else None

    def view(self, *, task_type: str, tool: str, coarse: str, fine: str) -> PriorView:
        table = self._pinned if self._pinned is not None else prior_current()
        return table.view(task_type=task_type, tool=tool, coarse=coarse, fine=fine)


def prior_view(*, task_type: str, tool: str, coarse: str, fine: str) -> PriorView:
    """What is known now of a configuration on a task type: r̂, 90 % interval, n, level, version."""
    return prior_current().view(task_type=task_type, tool=tool, coarse=coarse, fine=fine)


@dataclass(frozen=True, slots=True)
class PriorRow:
    """One cell for the page; ``fine`` and ``coarse`` are '' above their level."""

    level: str
    task_type: str
    tool: str
    coarse: str
    fine: str
    r_hat: float
    interval: tuple[float, float]
    n: float
    n_people: int
    n_offline: int
    drift: Drift | None
    version: str


def _row(cell: Cell, table: Table) -> PriorRow:
    parts = [*cell.key[1:], "", "", "", ""][:4]
    return PriorRow(
        cell.key[0],
        parts[0],
        parts[1],
        parts[2],
        parts[3],
        cell.mean,
        cell.interval(),
        cell.tally.trials,
        cell.tally.n_people,
        cell.tally.n_offline,
        drift_of(table, cell.key),
        table.version,
    )


def prior_table(*, version: str | None = None, level: str | None = None, task_type: str = "", tool: str = "") -> list[PriorRow]:
    """Cells of a version (None: what decisions see now), coarse before fine, filtered."""
    table = prior_current() if version is None else prior_rebuild(version)
    cells = sorted(table.cells.values(), key=lambda c: (c.key[1:], -LEVELS.index(c.key[0])))
    return [
        _row(c, table)
        for c in cells
        if (level is None or c.key[0] == level)
        and (not task_type or (len(c.key) > 1 and c.key[1] == task_type))
        and (not tool or (len(c.key) > 2 and c.key[2] == tool))
    ]


def prior_cell(
    *, level: str, task_type: str = "", tool: str = "", coarse: str = "", fine: str = "", version: str | None = None
) -> PriorRow:
    """One cell, also where it has no outcomes yet (its prior then)."""
    table = prior_current() if version is None else prior_rebuild(version)
    return _row(table.posterior(level, task_type, tool, coarse, fine), table)


def prior_cell_track(
    *, level: str, task_type: str = "", tool: str = "", coarse: str = "", fine: str = "", version: str | None = None
) -> list[TrackPoint]:
    """How the cell's recent outcomes lay to its earlier ones, outcome by outcome; [] while it has too few."""
    table = prior_current() if version is None else prior_rebuild(version)
    key = cell_key(level, task_type, tool, coarse, fine)
    return drift_track([o for o in table.outcomes if o.key(level) == key])


def prior_events_for_cell(
    *, level: str, task_type: str = "", tool: str = "", coarse: str = "", fine: str = ""
) -> QuerySet[PriorEvent]:
    """Events of a cell, newest first, compensations too."""
    events = PriorEvent.objects.select_related("compensates").order_by("-seq")
    wanted = {"task_type": task_type, "tool": tool, "coarse": coarse, "fine": fine}
    fields = {
        "fine": ("task_type", "tool", "coarse", "fine"),
        "coarse": ("task_type", "tool", "coarse"),
        "tool": ("task_type", "tool"),
        "global": (),
    }[level]
    return events.filter(**{f: wanted[f] for f in fields})


@dataclass(frozen=True, slots=True)
class PriorChange:
    """A cell in two versions."""

    key: Key
    before: float | None
    after: float | None
    n_before: float
    n_after: float


def prior_compare(one: str | int | None, other: str | int | None) -> list[PriorChange]:
    """Cells whose mean differs between two versions, largest change first; a cell that one of them lacks counts."""
    a, b = prior_rebuild(one), prior_rebuild(other)
    out = []
    for key in sorted(set(a.cells) | set(b.cells)):
        x, y = a.cells.get(key), b.cells.get(key)
        if x is None or y is None or x.mean != y.mean:
            out.append(
                PriorChange(
                    key, x.mean if x else None, y.mean if y else None, x.tally.trials if x else 0.0, y.tally.trials if y else 0.0
                )
            )
    return sorted(out, key=lambda c: -abs((c.before or 0.0) - (c.after or 0.0)))


def prior_versions() -> QuerySet[PriorVersion]:
    """Named versions, newest first."""
    return PriorVersion.objects.order_by("-made_at")


def prior_export(version: str | None = None) -> list[dict[str, Any]]:
    """Standing outcomes of a version (its name, log-N, or None for the head) as lines that ``prior_import`` takes.

    NotFoundError for what is no version.
    """
    seq, _ = _point(version)
    return [
        {
            "task_type": o.task_type,
            "tool": o.tool,
            "coarse": o.coarse,
            "fine": o.fine,
            "success": o.is_success,
            "weight": o.weight,
            "shown_probability": o.shown_probability,
            "source": o.source,
        }
        for o in prior_outcomes(seq)
    ]
