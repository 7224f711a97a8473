"""The page of the prior: the table task type × configuration, a cell with its events, versions."""

from __future__ import annotations

import json
from typing import Any, cast
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.models import User
from apps.accounts.selectors import can_anywhere, require_anywhere
from apps.core.errors import UserError
from apps.prior import selectors, services
from apps.prior.models import PriorEvent
from apps.prior.plots import track_plot

LEVELS = ("tool", "coarse", "fine")
# Fewer labelled outcomes than this lean on their parent more than on themselves, and are hatched.
FEW = 20
# The colour ramp begins here: below it a configuration is no better than a coin, whatever the shade.
RAMP_FROM = 0.45
EVENTS_SHOWN = 25
CHANGES_SHOWN = 40
IMPORT_MAX_BYTES = 20_000_000


def _step(r: float) -> int:
    """Step 0 to 5 of the colour ramp."""
    return max(0, min(5, int((r - RAMP_FROM) / (1 - RAMP_FROM) * 6)))


def _column(row: selectors.PriorRow) -> str:
    """What stands over a column: tool, or tool and coarse configuration; fine ones contain theirs."""
    return {"tool": row.tool, "coarse": f"{row.tool} {row.coarse}", "fine": f"{row.tool} {row.fine}"}[row.level]


def _cell(row: selectors.PriorRow) -> dict[str, Any]:
    return {"row": row, "step": _step(row.r_hat), "is_few": row.n < FEW, "column": _column(row)}


def _matrix(rows: list[selectors.PriorRow]) -> dict[str, Any]:
    """Columns in order, and for each task type its cells under them (None: never seen)."""
    columns = sorted({_column(row) for row in rows})
    by_type: dict[str, dict[str, Any]] = {}
    for row in rows:
        by_type.setdefault(row.task_type, {})[_column(row)] = _cell(row)
    return {
        "columns": columns,
        "types": [{"name": name, "cells": [cells.get(column) for column in columns]} for name, cells in sorted(by_type.items())],
    }


def _chosen(request: HttpRequest) -> dict[str, str] | None:
    """The cell named in the address, or None."""
    key = {name: request.GET.get(name, "") for name in ("task_type", "tool", "coarse", "fine")}
    if not key["task_type"]:
        return None
    level = "fine" if key["fine"] else "coarse" if key["coarse"] else "tool"
    return {"level": level, **key}


def _cell_context(key: dict[str, str], version: str | None) -> dict[str, Any]:
    cell = selectors.prior_cell(**key, version=version)
    finer = [
        row
        for row in selectors.prior_table(version=version, task_type=key["task_type"], tool=key["tool"])
        if row.level == "fine" and (not key["coarse"] or row.coarse == key["coarse"])
    ]
    ladder = [selectors.prior_cell(level="global", version=version)]
    for level in ("tool", "coarse", "fine"):
        if level == "tool" or key[level]:
            upto = {
                name: key[name] for name in ("task_type", "tool", "coarse", "fine")[: {"tool": 2, "coarse": 3, "fine": 4}[level]]
            }
            ladder.append(selectors.prior_cell(level=level, **upto, version=version))
    events = selectors.prior_events_for_cell(**key)
    return {
        "cell": cell,
        "cell_name": key["fine"] or f"{key['tool']} {key['coarse']}".strip(),
        "finer": finer,
        "ladder": ladder,
        "track": track_plot(selectors.prior_cell_track(**key, version=version)),
        "events": events[:EVENTS_SHOWN],
        "n_events": events.count(),
    }


@login_required
@require_GET
def prior_page(request: HttpRequest) -> HttpResponse:
    """The table at a level and version, with one cell opened."""
    user = cast(User, request.user)
    require_anywhere(user, "prior_view")
    level = request.GET.get("show", "coarse")
    level = level if level in LEVELS else "coarse"
    version = request.GET.get("version") or None
    rows = [row for row in selectors.prior_table(version=version, level=level) if row.task_type]
    whole = selectors.prior_cell(level="global", version=version)
    key = _chosen(request)
    compare, against = request.GET.get("compare", ""), request.GET.get("against", "")
    versions = list(selectors.prior_versions())
    context = {
        "level": level,
        "levels": LEVELS,
        "version": whole.version,
        "asked_version": version or "",
        "versions": versions,
        "matrix": _matrix(rows) if level != "fine" else None,
        "rows": [_cell(row) for row in rows],
        "whole": whole,
        "drifting": [_cell(row) for row in rows if row.drift is not None and row.drift.is_alarm],
        "newest": PriorEvent.objects.select_related("compensates").order_by("-seq")[:12],
        "may_manage": can_anywhere(user, "prior_manage"),
        "changes": selectors.prior_compare(compare, against or version) if compare else None,
        "changes_shown": CHANGES_SHOWN,
        "compare": compare,
        "against": against,
        "head": selectors.prior_head(),
        "in_use": next((v for v in versions if v.in_use), None),
        "few": FEW,
    }
    if key:
        context |= _cell_context(key, version)
    return render(request, "prior/page.html", context)


def _manager(request: HttpRequest) -> User:
    user = cast(User, request.user)
    require_anywhere(user, "prior_manage")
    return user


@login_required
@require_POST
def prior_version_freeze(request: HttpRequest) -> HttpResponse:
    user = _manager(request)
    version = services.prior_freeze(
        name=request.POST.get("name", "").strip(), note=request.POST.get("note", ""), author=user.get_username()
    )
    messages.success(request, f"Version {version.name} is frozen.")
    return redirect("prior_table")


@login_required
@require_POST
def prior_version_use(request: HttpRequest) -> HttpResponse:
    """Decisions see a frozen version from now on, or the newest events again."""
    user = _manager(request)
    name = request.POST.get("name", "") or None
    services.prior_use(name=name, author=user.get_username())
    messages.success(request, f"Decisions now see {name or 'the newest events'}.")
    return redirect("prior_table")


@login_required
@require_POST
def prior_version_restore(request: HttpRequest) -> HttpResponse:
    """Compensates everything after a version."""
    user = _manager(request)
    name = request.POST.get("name", "")
    count = services.prior_rollback(name=name, author=user.get_username(), reason=f"rolled back to {name}")
    messages.success(request, f"Rolled back to {name}: {count} compensating events.")
    return redirect("prior_table")


@login_required
@require_POST
def prior_event_undo(request: HttpRequest, event_id: UUID) -> HttpResponse:
    """Compensates an offline or imported outcome. A person's verdict is undone where it was given, so that both agree."""
    user = _manager(request)
    event = PriorEvent.objects.filter(pk=event_id).first()
    if event is not None and event.source == "verdict":
        raise UserError(
            "CONFLICT",
            "This movement belongs to a verdict.",
            "Undone here alone, verdict and prior would disagree.",
            "Open the observation and undo the verdict there.",
            status=409,
        )
    services.prior_undo(event_id=event_id, author=user.get_username(), reason="undone on the page of the prior")
    messages.success(request, "Undone by a compensating event.")
    return redirect("prior_table")


@login_required
@require_POST
def prior_version_verify(request: HttpRequest) -> HttpResponse:
    """Builds a version again from the log alone and compares the digest that was kept when it was frozen."""
    _manager(request)
    name = request.POST.get("name", "")
    if services.prior_verify_version(name=name):
        messages.success(request, f"{name} was built again from the log: the same digest, bit for bit.")
    else:
        messages.error(request, f"{name} was built again from the log, and its digest differs from the kept one.")
    return redirect("prior_table")


@login_required
@require_POST
def prior_upload(request: HttpRequest) -> HttpResponse:
    """Labelled outcomes from a file of JSON Lines; all or none, and what was imported before is skipped."""
    user = _manager(request)
    file = request.FILES.get("file")
    if file is None or (file.size or 0) > IMPORT_MAX_BYTES:
        raise UserError(
            "BAD_ARGUMENT",
            "There is no file to import." if file is None else "The file is too large.",
            f"Up to {IMPORT_MAX_BYTES // 1_000_000} MB of JSON Lines are read here.",
            "Choose a file that Export or another installation wrote; larger ones: ./rsure prior import FILE.",
        )
    lines = services.outcomes_from_text(file.read().decode("utf-8-sig", "replace"))
    new = services.prior_import(
        outcomes=lines, author=user.get_username(), reason=request.POST.get("reason", "").strip(), batch=file.name or "upload"
    )
    messages.success(request, f"{new} of {len(lines)} outcomes were new and are imported.")
    return redirect("prior_table")


@login_required
@require_GET
def prior_download(request: HttpRequest) -> HttpResponse:
    """Standing outcomes as JSON Lines, which `prior import` takes."""
    require_anywhere(cast(User, request.user), "prior_manage")
    lines = selectors.prior_export(request.GET.get("version") or None)
    text = "".join(json.dumps(line, ensure_ascii=False, sort_keys=True) + "\n" for line in lines)
    response = HttpResponse(text, content_type="application/x-ndjson")
    response["Content-Disposition"] = 'attachment; filename="prior.jsonl"'
    return response
