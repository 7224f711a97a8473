"""The log and its versions, read-only."""

from __future__ import annotations

from typing import Any

from django.contrib import admin

from apps.prior.models import PriorEvent, PriorVersion


class _ReadOnly(admin.ModelAdmin):  # type: ignore[type-arg]
    def has_add_permission(self, request: Any) -> bool:
        return False

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False


@admin.register(PriorEvent)
class PriorEventAdmin(_ReadOnly):
    list_display = ("seq", "source", "task_type", "fine", "is_success", "weight", "author", "at")
    list_filter = ("source", "tool", "task_type")
    search_fields = ("fine", "observation_id", "author")


@admin.register(PriorVersion)
class PriorVersionAdmin(_ReadOnly):
    list_display = ("name", "seq", "is_frozen", "in_use", "author", "made_at")
