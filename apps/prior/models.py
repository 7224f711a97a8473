"""The prior's log and its named points. Events are append-only: the database itself refuses to change or delete one."""

from __future__ import annotations

from typing import Any

from django.db import models

from apps.core.errors import FaultError
from apps.core.ids import uuid7


class PriorEvent(models.Model):
    """One movement of the prior: a labelled outcome, or the compensation of an earlier event."""

    SOURCES = [("offline", "offline feedback"), ("verdict", "a person's verdict"), ("undo", "compensation"), ("import", "import")]

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    seq = models.BigIntegerField(unique=True, help_text="place in the log, from 1")
    source = models.CharField(max_length=10, choices=SOURCES)
    author = models.CharField(max_length=150)
    reason = models.CharField(max_length=200, blank=True)
    weight = models.FloatField(default=1.0)
    observation_id = models.CharField(max_length=64, blank=True, db_index=True)
    task_type = models.CharField(max_length=64)
    tool = models.CharField(max_length=20)
    coarse = models.CharField(max_length=120)
    fine = models.CharField(max_length=240)
    is_success = models.BooleanField(null=True, help_text="null for compensations")
    shown_probability = models.FloatField(default=1.0)
    at = models.DateTimeField()
    compensates = models.OneToOneField("self", null=True, blank=True, on_delete=models.PROTECT, related_name="compensated_by")
    origin = models.CharField(max_length=128, blank=True, help_text="names an imported line, so that it is imported once")

    class Meta:
        ordering = ["seq"]
        indexes = [models.Index(fields=["task_type", "tool", "coarse", "fine"])]
        constraints = [
            models.UniqueConstraint(fields=["origin"], condition=~models.Q(origin=""), name="prior_event_origin_once"),
            models.CheckConstraint(
                condition=models.Q(weight__gt=0) & models.Q(shown_probability__gt=0) & models.Q(shown_probability__lte=1),
                name="prior_event_weights",
            ),
            models.CheckConstraint(
                condition=(models.Q(source="undo") & models.Q(compensates__isnull=False))
                | (~models.Q(source="undo") & models.Q(is_success__isnull=False)),
                name="prior_event_kind",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.seq}: {self.source} {self.task_type} {self.fine}"

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise FaultError("the prior's log is append-only")
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        raise FaultError("the prior's log is append-only")


class PriorVersion(models.Model):
    """A named point in the log. ``is_frozen`` ones are kept for good; the one ``in_use`` is what decisions see instead of the
    log's head."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    name = models.CharField(max_length=80, unique=True)
    seq = models.BigIntegerField(help_text="the last event that belongs to it")
    digest = models.CharField(max_length=80, help_text="of the table as it was built; a rebuild must give it again")
    is_frozen = models.BooleanField(default=False)
    in_use = models.BooleanField(default=False)
    author = models.CharField(max_length=150)
    note = models.CharField(max_length=500, blank=True)
    made_at = models.DateTimeField()

    class Meta:
        ordering = ["-made_at"]
        constraints = [
            models.UniqueConstraint(fields=["in_use"], condition=models.Q(in_use=True), name="prior_one_version_in_use")
        ]

    def __str__(self) -> str:
        return self.name
