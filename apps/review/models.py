"""Verdicts and claims. A verdict is never changed: a newer one or an undo stands after it."""

from __future__ import annotations

from django.conf import settings
from django.db import models

from apps.core.ids import uuid7


class VerdictRecord(models.Model):
    """What one person said of one observation; mirrored by a VerdictGiven event of the run."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    observation = models.ForeignKey("runs.ObservationRow", on_delete=models.CASCADE, related_name="verdict_records")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="verdicts")
    value = models.CharField(max_length=10)
    reason = models.CharField(max_length=40, blank=True)
    note = models.TextField(blank=True, max_length=2000)
    shown_probability = models.FloatField(default=1.0)
    is_blind = models.BooleanField(default=False)
    is_adjudication = models.BooleanField(default=False, help_text="settles two reviewers who disagree")
    prior_event = models.UUIDField(null=True, blank=True, help_text="the prior's event that it caused, if any")
    corrected_id = models.CharField(max_length=64, blank=True, help_text="the person's observation of a correction; '' for none")
    given_at = models.DateTimeField()
    undone_at = models.DateTimeField(null=True, blank=True)
    replaced_by = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="replaces")

    class Meta:
        ordering = ["given_at"]
        indexes = [models.Index(fields=["observation", "-given_at"]), models.Index(fields=["author", "-given_at"])]

    def __str__(self) -> str:
        return f"{self.value} of {self.observation_id}"


class Claim(models.Model):
    """A reviewer has an observation open; others see it as taken until the claim runs out."""

    observation = models.OneToOneField("runs.ObservationRow", on_delete=models.CASCADE, related_name="claim")
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="claims")
    until = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.observation_id} until {self.until:%H:%M}"
