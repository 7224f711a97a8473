"""The page Evaluation: the newest stored reports, read-only."""

from __future__ import annotations

from typing import Any, cast

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET

from apps.accounts.models import User
from apps.accounts.selectors import require_anywhere
from apps.core.errors import NotFoundError
from apps.evaluation import reports
from apps.evaluation.account import honest_account
from apps.evaluation.present import fault_tables, plain_tables, request_tables
from apps.evaluation.record_sections import SHOWN, record_sections

RECORDS = {"trajectories": "Recorded runs of other agents", "cases": "Single labelled observations"}


def _best_fault_reports() -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """(the newest whole run of the bench, else the newest part of one; the newest with faults never seen before), be it measured
    here or for the release. A part does not hide a whole run."""
    read = [r for one in reports.kept("faults") if (r := one.read())]
    seen = [r for r in read if not r.get("is_unseen")]
    whole, release = next((r for r in seen if r.get("is_whole")), None), reports.released("faults")
    if whole is None and release is not None and release.get("is_whole"):
        best: dict[str, Any] | None = release
    else:
        best = reports.newer(whole or next(iter(seen), None), release)
    return best, reports.newer(next((r for r in read if r.get("is_unseen")), None), reports.released("faults_unseen"))


def _is_fact(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@login_required
@require_GET
def evaluation_page(request: HttpRequest) -> HttpResponse:
    """Fault bench, recorded runs and single cases, as they were measured last."""
    require_anywhere(cast(User, request.user), "prior_view")
    faults, unseen = _best_fault_reports()
    records = {kind: reports.latest(kind) for kind in RECORDS}
    requests = reports.latest("requests")
    context = {
        "faults": faults,
        "fault_tables": fault_tables(faults) if faults else None,
        "unseen": unseen,
        "unseen_tables": fault_tables(unseen) if unseen else None,
        "records": [
            {
                "kind": kind,
                "title": title,
                "report": report,
                "facts": [
                    (name.replace("_", " "), value) for name, value in (report.get("data") or {}).items() if _is_fact(value)
                ],
                "sections": record_sections(report),
                "tables": plain_tables(
                    {name: value for name, value in report.items() if name not in SHOWN | {"data", "decisions", "other"}}
                ),
            }
            for kind, title in RECORDS.items()
            if (report := records[kind])
        ],
        "requests": request_tables(requests) if requests else [],
        "requests_report": requests,
        "account": honest_account(),
        "missing": [
            {"title": title, "command": command}
            for kind, title, command in (
                ("trajectories", "Recorded runs", "./rsure evaluate trajectories DIR"),
                ("cases", "Labelled observations", "./rsure evaluate cases FILE"),
            )
            if not records[kind]
        ],
    }
    return render(request, "evaluation/page.html", context)


@login_required
@require_GET
def evaluation_part(request: HttpRequest, kind: str, n: int) -> HttpResponse:
    """The n-th section (from 1) of a record: a closed part of the page is fetched as it is opened. NotFoundError for another."""
    require_anywhere(cast(User, request.user), "prior_view")
    report = reports.latest(kind) if kind in RECORDS else None
    sections = record_sections(report) if report else []
    if not 1 <= n <= len(sections):
        raise NotFoundError("part of the evaluation")
    return render(request, "evaluation/section.html", {"section": sections[n - 1], "kind": kind, "title": RECORDS[kind], "n": n})


@login_required
@require_GET
def evaluation_report(request: HttpRequest, kind: str) -> HttpResponse:
    """The newest report of a kind as JSON, whole. NotFoundError where there is none."""
    require_anywhere(cast(User, request.user), "prior_view")
    report = _best_fault_reports()[0] if kind == "faults" else reports.latest(kind) if kind in reports.KINDS else None
    if report is None:
        raise NotFoundError("report")
    return JsonResponse(report, json_dumps_params={"indent": 1})
