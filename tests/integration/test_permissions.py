"""Every address of the site against every kind of person: what is another's reads as absent, and small roles change nothing."""

import base64
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from apps.accounts.models import Project, User
from apps.accounts.services import membership_set, token_create
from apps.imagery.models import Scene, Upload, VectorLayer
from apps.imagery.services import upload_start
from apps.imagery.vector_layers import vector_add_now
from apps.prior.models import PriorEvent
from apps.review.models import VerdictRecord
from apps.review.services import verdict_give
from apps.runs.models import Run, RunEvent
from apps.runs.selectors import run_state

OPEN_TO_ALL = {"/healthz", "/accounts/login/", "/accounts/logout/"}
# Of nobody in particular: lists of one's own, forms, and pages that everybody signed in may see.
PARAMETERS = {"z": 12, "x": 2045, "y": 1370, "kind": "json", "size": "card", "format": "json"}


def routes(patterns: Any = None, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """(route text, converters) of every pattern but the framework's admin."""
    for p in get_resolver().url_patterns if patterns is None else patterns:
        here = prefix + str(p.pattern)
        if here.startswith("admin/"):
            continue
        if isinstance(p, URLResolver):
            yield from routes(p.url_patterns, here)
        elif isinstance(p, URLPattern):
            yield here, p.pattern.converters


@pytest.fixture
def held(ask: Any, analyst: User, project: Project, fish: Scene, tmp_path: Path) -> dict[str, Any]:
    """One object of each kind, all of the analyst's project."""
    run = ask("How many hectares have NDVI above 0.4?")
    state = run_state(run.pk)
    (observation,) = state.history
    verdict = verdict_give(user=analyst, observation_id=observation.id, value="accept", enqueue=False)
    upload = upload_start(user=analyst, project=project, name="x.tif", size_bytes=10)
    token, _ = token_create(user=analyst, name="mine", days=5)
    drawn = tmp_path / "point.geojson"
    drawn.write_text('{"type": "Point", "coordinates": [-1.21, 50.735]}')
    vector = vector_add_now(project=project, path=drawn, name=drawn.name)
    return {
        "project_id": project.pk, "scene_id": fish.pk, "run_id": run.pk, "observation_id": observation.id,
        "verdict_id": verdict.pk, "upload_id": upload.pk, "token_id": token.pk, "vector_id": vector.pk, "user_id": analyst.pk,
        "event_id": PriorEvent.objects.latest("seq").pk,
        "digest": observation.observation.result.layers[0].artifact,
    } | PARAMETERS  # fmt: skip


def addresses(held: dict[str, Any]) -> Iterator[tuple[str, bool]]:
    """(address, whether it names an object of the project)."""
    for route, converters in routes():
        address = "/" + route
        for name in converters:
            value = held.get(name, "x")
            address = address.replace(f"<{name}>", str(value))
            for kind in ("uuid", "str", "int", "slug", "path", "picture", "tile"):
                address = address.replace(f"<{kind}:{name}>", str(value))
        if "<" in address or "^" in address or "(?P" in address:
            continue
        yield address, bool(set(converters) & (set(held) - set(PARAMETERS)))


def world() -> tuple[Any, ...]:
    """All that a request could have changed, but projects that the stranger made."""
    others = Project.objects.exclude(created_by__username="stranger")
    return (
        list(Run.objects.order_by("pk").values_list("pk", "status", "last_seq", "pending_cause")), RunEvent.objects.count(),
        list(Scene.objects.order_by("pk").values_list("pk", "status", "name", "hints")), Upload.objects.count(),
        list(VectorLayer.objects.order_by("pk").values_list("pk", "status")),
        list(VerdictRecord.objects.order_by("pk").values_list("pk", "undone_at")), PriorEvent.objects.count(),
        list(others.order_by("pk").values_list("pk", "name", "archived_at")),
        sorted(others.values_list("memberships__user", "memberships__role").order_by(), key=str),
    )  # fmt: skip


def answers(client: Client, address: str) -> dict[str, int]:
    tus = {"Tus-Resumable": "1.0.0", "Upload-Offset": "0", "Upload-Length": "10",
           "Upload-Metadata": "filename " + base64.b64encode(b"a.tif").decode()}  # fmt: skip
    found = {m: getattr(client, m)(address, headers=tus).status_code for m in ("get", "head", "delete", "put", "patch")}
    body = {"value": "reject", "reason": "wrong_value", "name": "taken over", "username": "stranger", "role": "administrator",
            "scene": "x", "question": "q"}  # fmt: skip
    return found | {"post": client.post(address, body, headers=tus).status_code}


def test_nobody_reaches_what_is_anothers(held: dict[str, Any], stranger: User) -> None:
    before = world()
    anonymous, other = Client(), Client()
    other.force_login(stranger)
    leaks, faults, seen = [], [], 0
    for address, is_object in addresses(held):
        if address in OPEN_TO_ALL:
            continue
        seen += 1
        for method, status in answers(anonymous, address).items():
            if status >= 500:
                faults.append(("anonymous", method, address, status))
            elif status < 300:
                leaks.append(("anonymous", method, address, status))
        for method, status in answers(other, address).items():
            if status >= 500:
                faults.append(("stranger", method, address, status))
            elif is_object and status not in (403, 404, 405, 412, 415):
                leaks.append(("stranger", method, address, status))
    assert seen > 50
    assert (leaks, faults) == ([], [])
    assert world() == before


@pytest.mark.parametrize("role", ["viewer", "analyst"])
def test_small_roles_change_nothing_of_what_needs_a_larger_one(
    held: dict[str, Any], stranger: User, project: Project, role: Any
) -> None:
    membership_set(project=project, username=stranger.username, role=role)
    before = world()
    client = Client()
    client.force_login(stranger)
    refused = ("priors/", "members/", "settings/", "archive/")
    more: tuple[str, ...] = ()
    if role == "viewer":
        more = ("change/", "confirm/", "again/", "remove/", "stack/", "cancel/", "uploads/", "scenes/", "verdict", "claim/",
                "evidence/", "correction")
    allowed = []
    for address, is_object in addresses(held):
        if is_object and any(part in address for part in (*refused, *more)):
            for method in ("post", "delete", "patch", "put"):
                status = getattr(client, method)(address, headers={"Tus-Resumable": "1.0.0"}).status_code
                if status < 400 or status >= 500:
                    allowed.append((method, address, status))
    assert allowed == []
    assert world() == before
