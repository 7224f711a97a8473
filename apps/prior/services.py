"""Writes: the prior's log grows; nothing in it is changed. All are atomic, ordered by one lock, and keyword-only."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from apps.core.digests import digest_json
from apps.core.errors import NotFoundError, UserError
from apps.prior.models import PriorEvent, PriorVersion
from apps.prior.selectors import prior_digest, prior_head, prior_outcomes, prior_rebuild

# One writer at a time gives the log its order; readers are never blocked.
_LOCK = 0x7052494F52
_FIELDS = frozenset(
    {
        "task_type",
        "tool",
        "coarse",
        "fine",
        "success",
        "weight",
        "shown_probability",
        "source",
        "reason",
        "observation_id",
        "origin",
    }
)
TOOLS = ("perceive", "measure", "execute")


def _next_seq() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
    return prior_head() + 1


@transaction.atomic
def prior_record_verdict(
    *,
    task_type: str,
    tool: str,
    coarse: str,
    fine: str,
    is_success: bool,
    author: str,
    reason: str = "",
    observation_id: str = "",
    shown_probability: float = 1.0,
    weight: float = 1.0,
) -> PriorEvent:
    """A person's verdict moves the cell of its configuration. ``unsure`` and the machine's own accept never come here.

    ``shown_probability`` is the probability with which the observation was put before a person. UserError BAD_ARGUMENT for
    numbers out of range.
    """
    _check_numbers(weight, shown_probability)
    event = PriorEvent(
        seq=_next_seq(),
        source="verdict",
        author=author[:150],
        reason=reason[:200],
        weight=weight,
        observation_id=observation_id,
        task_type=task_type,
        tool=tool,
        coarse=coarse,
        fine=fine,
        is_success=is_success,
        shown_probability=shown_probability,
        at=timezone.now(),
    )
    event.save()
    return event


@transaction.atomic
def prior_undo(*, event_id: Any, author: str, reason: str = "") -> PriorEvent:
    """Compensates one event: the prior is as if it had never been, to the digit; the log keeps both.

    NotFoundError where there is no such event; UserError CONFLICT where it was compensated already or is itself a compensation.
    """
    seq = _next_seq()
    event = PriorEvent.objects.filter(pk=event_id).first()
    if event is None:
        raise NotFoundError("event of the prior")
    if event.source == "undo" or PriorEvent.objects.filter(compensates=event).exists():
        raise UserError(
            "CONFLICT",
            "This movement of the prior cannot be undone.",
            "It was undone already, or is an undo itself.",
            "Record a new verdict instead.",
            status=409,
        )
    undo = _echo(event, seq=seq, author=author, reason=reason, at=timezone.now(), is_undo=True)
    undo.save()
    return undo


def _echo(event: PriorEvent, *, seq: int, author: str, reason: str, at: datetime, is_undo: bool) -> PriorEvent:
    """A new event on the cell of an old one: its compensation (``is_undo``), or the same outcome recorded again. Not saved."""
    return PriorEvent(
        seq=seq,
        source="undo" if is_undo else event.source,
        author=author[:150],
        reason=reason[:200],
        weight=event.weight,
        observation_id=event.observation_id,
        task_type=event.task_type,
        tool=event.tool,
        coarse=event.coarse,
        fine=event.fine,
        is_success=None if is_undo else event.is_success,
        shown_probability=event.shown_probability,
        at=at,
        compensates=event if is_undo else None,
    )


def _check_numbers(weight: float, shown_probability: float) -> None:
    if not (math.isfinite(weight) and 0 < weight <= 1e6) or not 0 < shown_probability <= 1:
        raise UserError(
            "BAD_ARGUMENT",
            "The label's weight is out of range.",
            f"Weight {weight!r} must be positive and the probability {shown_probability!r} in (0, 1].",
            "Give a weight above 0 and a probability above 0 and up to 1.",
        )


def _line(raw: Mapping[str, Any], at: int, source: str) -> dict[str, Any]:
    unknown = set(raw) - _FIELDS
    missing = {"task_type", "tool", "coarse", "fine", "success"} - set(raw)
    if unknown or missing:
        raise UserError(
            "BAD_ARGUMENT",
            f"Line {at} is no labelled outcome.",
            f"{'Missing' if missing else 'Unknown'}: {', '.join(str(k)[:40] for k in sorted(missing or unknown)[:8])}.",
            "Give task_type, tool, coarse, fine and success on each line.",
        )
    texts = {k: raw[k] for k in ("task_type", "tool", "coarse", "fine")}
    if (
        not all(isinstance(v, str) and v for v in texts.values())
        or texts["tool"] not in TOOLS
        or not isinstance(raw["success"], bool)
    ):
        raise UserError(
            "BAD_ARGUMENT",
            f"Line {at} is no labelled outcome.",
            "The names must be texts, the tool one of the three, success true or false.",
            "Correct the line.",
        )
    if any("\x00" in str(raw.get(k, "")) for k in _FIELDS):
        raise UserError("BAD_ARGUMENT", f"Line {at} cannot be kept.", "It holds a NUL character.", "Take it out.")
    for key, most in (("task_type", 64), ("coarse", 120), ("fine", 240)):
        if len(texts[key]) > most:
            raise UserError(
                "BAD_ARGUMENT",
                f"Line {at}: {key} is too long.",
                f"{len(texts[key])} of at most {most} characters.",
                "Shorten it.",
            )
    weight, shown = raw.get("weight", 1.0), raw.get("shown_probability", 1.0)
    if not isinstance(weight, (int, float)) or not isinstance(shown, (int, float)) or isinstance(weight, bool):
        raise UserError("BAD_ARGUMENT", f"Line {at}: a weight is no number.", "Weights are numbers.", "Correct the line.")
    try:
        weight, shown = float(weight), float(shown)
    except OverflowError:
        weight = math.inf
    _check_numbers(weight, float(shown) if weight < math.inf else 1.0)
    kind = raw.get("source", source)
    return {
        **texts,
        "is_success": raw["success"],
        "weight": float(weight),
        "shown_probability": float(shown),
        "source": kind if kind in ("offline", "verdict", "import") else source,
        "reason": str(raw.get("reason", ""))[:200],
        "observation_id": str(raw.get("observation_id", ""))[:64],
        "origin": str(raw.get("origin", ""))[:128],
    }


def outcomes_from_text(text: str) -> list[dict[str, Any]]:
    """The objects of JSON Lines, for ``prior_import``. UserError BAD_ARGUMENT names the line that is none, or says that there is
    no line."""
    found: list[dict[str, Any]] = []
    # JSON keeps other ends of lines (U+2028, …) as they are, so that a text may hold them
    for at, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            raise UserError(
                "BAD_ARGUMENT", f"Line {at} is no JSON object.", "Each line is one labelled outcome.", "Correct the line."
            )
        found.append(value)
    if not found:
        raise UserError(
            "BAD_ARGUMENT", "The file holds no outcome.", "It is empty.", "Choose a file that an export of the prior wrote."
        )
    return found


@transaction.atomic
def prior_import(
    *, outcomes: Iterable[Mapping[str, Any]], author: str, reason: str = "", source: str = "offline", batch: str = ""
) -> int:
    """Appends labelled outcomes (offline feedback, or another installation's export); all or none. Returns how many were new.

    Lines are dicts of task_type, tool, coarse, fine, success and optionally weight, shown_probability, reason, observation_id,
    origin. With a ``batch`` name, or an ``origin`` a line, what was imported before is skipped. UserError BAD_ARGUMENT names the
    line that is wrong.
    """
    lines = [_line(raw, at, source) for at, raw in enumerate(outcomes, start=1)]
    if batch:
        for at, line in enumerate(lines):
            line["origin"] = line["origin"] or f"{batch[:50]}:{at}:{digest_json(line)[7:23]}"
    seq = _next_seq()
    wanted = [line["origin"] for line in lines if line["origin"]]
    known = set(PriorEvent.objects.filter(origin__in=wanted).values_list("origin", flat=True))
    events: list[PriorEvent] = []
    now = timezone.now()
    for line in lines:
        if line["origin"] and line["origin"] in known:
            continue
        known.add(line["origin"])
        events.append(
            PriorEvent(seq=seq + len(events), author=author[:150], at=now, **{**line, "reason": line["reason"] or reason[:200]})
        )
    PriorEvent.objects.bulk_create(events, batch_size=1000)
    return len(events)


@transaction.atomic
def prior_freeze(*, name: str, author: str, note: str = "", seq: int | None = None) -> PriorVersion:
    """Names a point of the log (None: its head) and keeps it for good, with the digest that a rebuild must give.

    UserError CONFLICT where the name is taken; BAD_ARGUMENT for a point beyond the log, or a name that could not be told apart
    from a point (log-…, head) or shown on a line.
    """
    head = prior_head()
    at = head if seq is None else seq
    is_name = 0 < len(name) <= 80 and name.isprintable() and name == name.strip()
    if not is_name or name.startswith("log-") or name == "head" or not 0 <= at <= head:
        raise UserError(
            "BAD_ARGUMENT",
            "The version cannot be frozen.",
            "It needs a name of up to 80 printed characters that is not “head” and does not start with log-, and a point of the "
            f"log up to {head}.",
            "Choose another name or point.",
        )
    if PriorVersion.objects.filter(name=name).exists():
        raise UserError(
            "CONFLICT",
            f"There is a version {name} already.",
            "Names of versions are used once.",
            "Choose another name.",
            status=409,
        )
    table = prior_rebuild(at)
    return PriorVersion.objects.create(
        name=name,
        seq=at,
        digest=prior_digest(table),
        is_frozen=True,
        author=author[:150],
        note=note[:500],
        made_at=timezone.now(),
    )


@transaction.atomic
def prior_use(*, name: str | None, author: str) -> PriorVersion | None:
    """Decisions see this frozen version from now on; None: the log's head again. NotFoundError for an unknown name."""
    PriorVersion.objects.select_for_update().filter(in_use=True).update(in_use=False)
    if name is None:
        return None
    version = PriorVersion.objects.select_for_update().filter(name=name).first()
    if version is None:
        raise NotFoundError("version of the prior")
    version.in_use = True
    version.save(update_fields=["in_use"])
    return version


@transaction.atomic
def prior_rollback(*, name: str, author: str, reason: str = "") -> int:
    """Compensates every outcome that came after a version, so that the head is that version again; returns how many.

    What was compensated after the version is recorded anew. NotFoundError for an unknown name.
    """
    version = PriorVersion.objects.filter(name=name).first()
    if version is None:
        raise NotFoundError("version of the prior")
    seq = _next_seq()
    now, why = timezone.now(), (reason or f"rolled back to {name}")[:200]
    later = PriorEvent.objects.filter(seq__gt=version.seq)
    undone = set(PriorEvent.objects.filter(compensates__isnull=False).values_list("compensates_id", flat=True))
    events: list[PriorEvent] = []
    for event in later.exclude(source="undo").order_by("seq"):
        if event.pk not in undone:
            events.append(_echo(event, seq=seq + len(events), author=author, reason=why, at=now, is_undo=True))
    for undo in later.filter(source="undo", compensates__seq__lte=version.seq).select_related("compensates").order_by("seq"):
        old = undo.compensates
        assert old is not None
        events.append(_echo(old, seq=seq + len(events), author=author, reason=why, at=now, is_undo=False))
    PriorEvent.objects.bulk_create(events, batch_size=1000)
    return len(events)


def prior_verify_version(*, name: str) -> bool:
    """True where a rebuild from the log gives the version's digest again."""
    version = PriorVersion.objects.filter(name=name).first()
    if version is None:
        raise NotFoundError("version of the prior")
    return prior_digest(prior_rebuild(name)) == version.digest


__all__ = [
    "prior_freeze",
    "prior_import",
    "prior_outcomes",
    "prior_record_verdict",
    "prior_rollback",
    "prior_undo",
    "prior_use",
    "prior_verify_version",
]
