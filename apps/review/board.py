"""The review list: the queue beside the observation in focus, judged by keyboard, each verdict with an undo."""

from __future__ import annotations

import json
from typing import Any, cast
from urllib.parse import urlencode
from uuid import UUID

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_GET, require_POST

from apps.accounts.models import User
from apps.accounts.selectors import can, projects_for_user
from apps.core.errors import NotFoundError, UserError
from apps.core.evidence.decision import VERDICT_REASONS
from apps.review import services
from apps.review.selectors import VIEWS, QueueItem, review_queue, reviewers_agreement
from apps.runs.headline import detail_text, headline
from apps.runs.mapview import map_config
from apps.runs.selectors import access_observation

DECISIONS = ("accept", "request_evidence", "reject")
MACHINE = {"accept": "Accepted", "request_evidence": "Evidence asked", "reject": "Rejected"}
WORDS = {"accept": "Right", "reject": "Wrong", "unsure": "Unsure"}
# Rows of the list on the page; the count of all stands above it.
SHOWN = 100


def _filters(request: HttpRequest) -> dict[str, str]:
    """The queue's filters from the address; what is unknown reads as absent. Blind, nothing may tell the machine's word."""
    given = {name: request.GET.get(name, "") for name in ("view", "project", "task_type", "tool", "decision", "check", "blind")}
    given["blind"] = "1" if given["blind"] == "1" else ""
    if given["view"] not in VIEWS or given["blind"]:
        given["view"] = "open"
    if given["decision"] not in DECISIONS or given["blind"]:
        given["decision"] = ""
    if given["blind"]:
        given["check"] = ""
    try:
        UUID(given["project"])
    except ValueError:
        given["project"] = ""
    return given


def _query(filters: dict[str, str], **more: str) -> str:
    return urlencode({name: value for name, value in {**filters, **more}.items() if value})


def _queue(user: User, filters: dict[str, str]) -> tuple[list[QueueItem], int]:
    return review_queue(
        user,
        view=filters["view"],
        project_id=filters["project"] or None,
        task_type=filters["task_type"],
        tool=filters["tool"],
        decision=filters["decision"],
        check=filters["check"],
        is_blind=bool(filters["blind"]),
    )


def _focus(request: HttpRequest, observation_id: str) -> dict[str, Any]:
    row, state = access_observation(cast(User, request.user), observation_id)
    held = state.observations[row.id]
    main, what = headline(held.observation)
    return {
        "row": row,
        "held": held,
        "o": held.observation,
        "main": main,
        "what": what,
        "detail": detail_text(held.observation),
        "decision": held.decision,
        "verdict": held.verdict,
        "checks": held.checks,
        "config": map_config(state, only=held),
        "may_review": can(request.user, row.run.project, "verdict"),
        "reasons": VERDICT_REASONS,
    }


def _context(request: HttpRequest, chosen: str) -> dict[str, Any]:
    """Queue, neighbours of the chosen observation (or of the first where none is chosen), and the focus."""
    user, filters = cast(User, request.user), _filters(request)
    items, total = _queue(user, filters)
    ids = [item.row.id for item in items]
    focus_id = chosen or (ids[0] if ids else "")
    at = ids.index(focus_id) if focus_id in ids else -1
    context: dict[str, Any] = {
        "filters": filters,
        "views": [{"name": name, "title": title, "is_current": name == filters["view"]} for name, title in VIEWS.items()],
        "items": [
            {"item": item, "href": _query(filters, o=item.row.id), "is_current": item.row.id == focus_id}
            for item in items[:SHOWN]
        ],
        "total": total,
        "shown": min(len(items), SHOWN),
        "query": _query(filters),
        "live_query": _query(filters, o=chosen),
        "projects": projects_for_user(user),
        "is_blind": bool(filters["blind"]),
        "blind_query": _query({**filters, "blind": "" if filters["blind"] else "1"}),
        "decisions": DECISIONS,
        "checks": sorted({name for item in items for name in item.row.failed_checks} | ({filters["check"]} - {""})),
        "may_bulk": not filters["blind"] and any(can(user, project, "review") for project in {i.row.run.project for i in items}),
        "reasons": VERDICT_REASONS,
        "task_types": sorted({item.row.task_type for item in items} | ({filters["task_type"]} - {""})),
        "tools": ("perceive", "measure", "execute"),
        "position": at + 1,
        "previous": _query(filters, o=ids[at - 1]) if at > 0 else "",
        "next": _query(filters, o=ids[at + 1]) if 0 <= at < len(ids) - 1 else "",
        "is_chosen": bool(chosen),
        "agreement": reviewers_agreement(user),
        "item": items[at] if at >= 0 else None,
    }
    if focus_id:
        context["focus"] = _focus(request, focus_id)
        context["config"] = context["focus"]["config"]
    return context


def _next_id(items: list[QueueItem], observation_id: str) -> str:
    """What comes after the judged one: the item below it, else the last one left."""
    ids = [item.row.id for item in items]
    if observation_id in ids:
        at = ids.index(observation_id)
        rest = ids[at + 1 :] or ids[:at]
    else:
        rest = ids
    return rest[0] if rest else ""


@login_required
@require_GET
def review_list(request: HttpRequest) -> HttpResponse:
    return render(request, "review/list.html", _context(request, request.GET.get("o", "")))


@login_required
@require_GET
def review_board(request: HttpRequest) -> HttpResponse:
    """The same board as a fragment; an observation that is gone falls back to the list's first."""
    try:
        context = _context(request, request.GET.get("o", ""))
    except NotFoundError:
        context = _context(request, "")
    return render(request, "review/board.html", context)


@login_required
@require_POST
def review_judge(request: HttpRequest, observation_id: str) -> HttpResponse:
    """A verdict from the list: recorded, then the next observation comes into focus, with an undo of this one."""
    user, filters = cast(User, request.user), _filters(request)
    items, _ = _queue(user, filters)
    after = _next_id(items, observation_id)
    is_blind = bool(filters["blind"])
    record = services.verdict_give(
        user=user,
        observation_id=observation_id,
        value=request.POST.get("value", ""),
        reason=request.POST.get("reason", ""),
        note=request.POST.get("note", ""),
        is_blind=is_blind,
    )
    response = render(request, "review/board.html", _context(request, after))
    row = record.observation
    machine = f" Blind; the machine had said: {MACHINE[row.decision]}{_p(row.p_correct)}." if is_blind else ""
    toast = {
        "text": f"Recorded: {WORDS[record.value]}.{machine} The run is answered again.",
        "undo_url": reverse("verdict_undo", args=[record.pk]),
    }
    response["HX-Trigger"] = json.dumps({"toast": toast})
    response["HX-Push-Url"] = f"{reverse('review_list')}?{_query(filters, o=after)}"
    return response


def _p(p_correct: float | None) -> str:
    return "" if p_correct is None else f", p {min(0.99, max(0.01, p_correct)):.2f}"


@login_required
@require_POST
def review_bulk(request: HttpRequest) -> HttpResponse:
    """One verdict on all that are selected, after a confirmation on the page; one undo takes all of it back."""
    user, filters = cast(User, request.user), _filters(request)
    if filters["blind"]:
        raise UserError(
            "BAD_ARGUMENT",
            "Blind verdicts are given one by one.",
            "Each is a look at one observation.",
            "Leave blind mode to judge several at once.",
        )
    done = services.verdicts_give(
        user=user,
        observation_ids=request.POST.getlist("observation"),
        value=request.POST.get("value", ""),
        reason=request.POST.get("reason", ""),
    )
    response = render(request, "review/board.html", _context(request, ""))
    n = len(done.records)
    text = f"Recorded: {WORDS[request.POST.get('value', '')]} for {n} observation{'' if n == 1 else 's'}."
    if done.refused:
        text += f" {len(done.refused)} left as they were: {done.refused[0]}"
    toast: dict[str, str] = {"text": text}
    if n:
        toast["undo_url"] = f"{reverse('verdicts_undo')}?ids={','.join(str(r.pk) for r in done.records)}"
    response["HX-Trigger"] = json.dumps({"toast": toast})
    response["HX-Push-Url"] = f"{reverse('review_list')}?{_query(filters)}"
    return response
