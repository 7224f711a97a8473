"""Runs, their append-only events, and one row an observation with the columns that lists and queues ask for."""

from __future__ import annotations

from django.conf import settings
from django.contrib.gis.db import models
from django.contrib.postgres.fields import ArrayField
from django.db.models import CheckConstraint, Q, UniqueConstraint
from django.utils import timezone

from apps.core.ids import uuid7


class Run(models.Model):
    """One question about given scenes, and where its execution stands. The events are the record; these columns repeat them."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        RUNNING = "running"
        FINISHED = "finished"
        FAILED = "failed"
        CANCELLED = "cancelled"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    project = models.ForeignKey("accounts.Project", on_delete=models.CASCADE, related_name="runs")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="runs")
    question_text = models.TextField()
    question = models.JSONField(help_text="core.evidence.Question as it was asked")
    scenes = models.ManyToManyField("imagery.Scene", related_name="runs", blank=True)
    region = models.GeometryField(srid=4326, null=True, blank=True, geography=False)
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)
    task_type = models.CharField(max_length=64, blank=True)
    answer_text = models.TextField(blank=True)
    is_abstained = models.BooleanField(default=False)
    error_code = models.CharField(max_length=40, blank=True)
    last_seq = models.PositiveIntegerField(default=0)
    is_sample = models.BooleanField(default=False)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, blank=True)
    heard_at = models.DateTimeField(null=True, blank=True, help_text="when the newest event came")
    pending_cause = models.CharField(max_length=64, blank=True, help_text="verdict or undo whose recomputation is due")

    class Meta:
        ordering = ["-created_at"]
        indexes = [
            models.Index(fields=["project", "-created_at"]),
            models.Index(fields=["status", "heard_at"], name="runs_open", condition=Q(status__in=["queued", "running"])),
        ]

    def __str__(self) -> str:
        return self.question_text[:80]


class RunEvent(models.Model):
    """One event of a run; never changed, never deleted but with its run."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="events")
    seq = models.PositiveIntegerField()
    type = models.CharField(max_length=40)
    payload = models.JSONField()
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["run_id", "seq"]
        constraints = [
            UniqueConstraint(fields=["run", "seq"], name="runs_event_seq_once"),
            CheckConstraint(condition=Q(seq__gte=1), name="runs_event_seq_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.run_id} {self.seq} {self.type}"


class ObservationRow(models.Model):
    """Columns promoted from the events of one observation, for lists, queues and statistics."""

    id = models.CharField(primary_key=True, max_length=64)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="observation_rows")
    call_key = models.CharField(max_length=80)
    step = models.PositiveIntegerField()
    tool = models.CharField(max_length=12)
    task_type = models.CharField(max_length=64)
    coarse = models.CharField(max_length=120)
    fine = models.CharField(max_length=240)
    state = models.CharField(max_length=10)
    value_text = models.CharField(max_length=200, blank=True)
    decision = models.CharField(max_length=20, blank=True)
    stage = models.CharField(max_length=20, blank=True)
    p_correct = models.FloatField(null=True, blank=True)
    decision_reason = models.CharField(max_length=500, blank=True)
    failed_checks = ArrayField(models.CharField(max_length=80), default=list, blank=True, help_text="names of failed checks")
    verdict = models.CharField(max_length=10, blank=True, help_text="newest verdict that stands; '' while nobody has spoken")
    is_under_answer = models.BooleanField(default=False)
    audit_probability = models.FloatField(default=0.0, help_text="probability that an accepted one is drawn for audit")
    is_audit = models.BooleanField(default=False)
    recorded_at = models.DateTimeField()

    class Meta:
        ordering = ["run_id", "recorded_at"]
        constraints = [UniqueConstraint(fields=["run", "call_key"], name="runs_observation_call_once")]
        indexes = [models.Index(fields=["decision", "verdict"]), models.Index(fields=["task_type", "tool", "fine"])]

    def __str__(self) -> str:
        return f"{self.tool} {self.fine} of step {self.step}"


class ReportFile(models.Model):
    """A file of the report that a worker makes: one for each state of the run, and how it stands."""

    class Status(models.TextChoices):
        QUEUED = "queued"
        MAKING = "making"
        READY = "ready"
        FAILED = "failed"

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="report_files")
    kind = models.CharField(max_length=12)
    state_key = models.CharField(max_length=71, help_text="digest of all that the report says")
    seq = models.PositiveIntegerField(help_text="the last event that it tells of")
    is_due = models.BooleanField(default=False, help_text="whether a recomputation was due when it was asked for")
    status = models.CharField(max_length=12, choices=Status.choices, default=Status.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    artifact = models.ForeignKey("artifacts.Artifact", on_delete=models.PROTECT, null=True, related_name="+")
    error = models.JSONField(default=dict, blank=True, help_text="code, what, why, fix and status of the failure")
    asked_at = models.DateTimeField(default=timezone.now)
    heard_at = models.DateTimeField(help_text="when its status last changed, or it was offered to the workers")

    class Meta:
        ordering = ["-asked_at"]
        constraints = [UniqueConstraint(fields=["run", "kind", "state_key"], name="runs_report_file_once")]

    def __str__(self) -> str:
        return f"{self.kind} of {self.run_id} at event {self.seq}"

    @property
    def is_over(self) -> bool:
        return self.status in (self.Status.READY, self.Status.FAILED)
