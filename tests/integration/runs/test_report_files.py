"""The PDF of a report is made by a worker: one file for each state of the run, told while it waits, clear where it fails."""

import hashlib
import io
import re
from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.test import Client
from django.utils import timezone
from kombu.exceptions import OperationalError
from pypdf import PdfReader

from apps.accounts.models import User
from apps.accounts.services import token_create
from apps.artifacts.blobs import blob_path
from apps.artifacts.models import ArtifactLink
from apps.core.digests import digest_bytes
from apps.review.services import verdict_give, verdict_undo
from apps.runs import report_files, report_page, report_views, selectors, tasks
from apps.runs.models import ReportFile, Run

Held = list[str]


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Held:
    """Ids of the files that were offered to the workers; none takes them up."""
    held: Held = []
    monkeypatch.setattr(tasks.report_make, "delay", held.append)
    return held


@pytest.fixture
def run(ask: Any) -> Run:
    asked: Run = ask("How many hectares have NDVI above 0.4?")
    return asked


@pytest.fixture
def client(analyst: User) -> Client:
    found = Client()
    found.force_login(analyst)
    return found


def judged(analyst: User, run: Run) -> Any:
    first = next(iter(selectors.run_state(run.pk).observations))
    given = verdict_give(user=analyst, observation_id=first, value="unsure", note="by hand", enqueue=False)
    run.refresh_from_db()
    return given


def text_of(data: bytes) -> str:
    return "\n".join(page.extract_text() for page in PdfReader(io.BytesIO(data)).pages)


def asked_file(client: Client, run: Run) -> tuple[str, ReportFile]:
    """(address of the page that tells of it, its row) of the PDF asked for over the web."""
    sent = client.get(f"/runs/{run.pk}/report/?as=pdf")
    assert sent.status_code == 302
    place = sent["Location"]
    return place, ReportFile.objects.get(pk=place.rstrip("/").rsplit("/", 1)[1])


def aged(file: ReportFile, seconds: float) -> None:
    """As if the file had last been heard of so long ago."""
    ReportFile.objects.filter(pk=file.pk).update(heard_at=timezone.now() - timedelta(seconds=seconds))


def test_it_is_asked_for_told_while_it_waits_and_kept_by_digest(client: Client, analyst: User, run: Run, offered: Held) -> None:
    place, file = asked_file(client, run)
    assert offered == [str(file.pk)] and file.status == "queued"
    page = client.get(place)
    told = page.content.decode()
    assert page.status_code == 202 and "The PDF waits for a worker." in told
    # without JavaScript the page asks again by itself, with it its main part does
    assert re.search(r'<noscript><meta http-equiv="refresh" content="\d+"></noscript>', told) and "hx-trigger=" in told
    ReportFile.objects.update(status="making")
    assert "The PDF is being made." in client.get(place).content.decode()
    ReportFile.objects.update(status="queued")
    tasks.report_make(str(file.pk))
    file.refresh_from_db()
    assert file.status == "ready" and file.artifact_id
    polled = client.get(place, headers={"HX-Request": "true"})
    assert polled.status_code == 204 and polled["HX-Redirect"] == place
    ready = client.get(place)
    (address,) = set(re.findall(r'href="(/artifacts/[^"]+)"', ready.content.decode()))
    assert ready.status_code == 200 and f'content="0;url={address}"' in ready.content.decode()
    kept = client.get(address)
    data = b"".join(kept.streaming_content)  # type: ignore[attr-defined]
    assert kept["Content-Disposition"] == f'attachment; filename="run-{str(run.pk)[:8]}.pdf"'
    assert "sha256:" + hashlib.sha256(data).hexdigest() == file.artifact_id
    assert f"as of event {run.last_seq}" in text_of(data) and "How many hectares" in text_of(data)
    # asked for again it is there at once, and nothing is made
    again = client.get(f"/runs/{run.pk}/report/?as=pdf")
    assert again.status_code == 200 and again.content == data and again["ETag"] == f'"{file.artifact_id}"'
    assert len(offered) == 1 and ReportFile.objects.count() == 1


def test_a_verdict_makes_a_new_file_and_an_undo_another(client: Client, analyst: User, run: Run, offered: Held) -> None:
    digests = []
    given = None
    for change in ("none", "verdict", "undo"):
        if change == "verdict":
            given = judged(analyst, run)
        elif change == "undo":
            verdict_undo(user=analyst, verdict_id=given.pk, enqueue=False)  # type: ignore[union-attr]
        _, file = asked_file(client, run)
        tasks.report_make(str(file.pk))
        file.refresh_from_db()
        digests.append(file.artifact_id)
    assert len(set(digests)) == len(offered) == 3
    assert set(ArtifactLink.objects.filter(artifact_id__in=digests).values_list("project_id", flat=True)) == {run.project_id}


def test_the_file_tells_of_the_state_that_was_asked_for(client: Client, analyst: User, run: Run, offered: Held) -> None:
    _, file = asked_file(client, run)
    before = run.last_seq
    judged(analyst, run)
    assert run.last_seq > before
    tasks.report_make(str(file.pk))
    file.refresh_from_db()
    text = text_of(blob_path(str(file.artifact_id)).read_bytes())
    assert f"as of event {before}" in text and "by hand" not in text and "No person has judged" in text
    # what is made of that state a second time, by another process, has the same bytes
    assert digest_bytes(report_files._bytes_of(ReportFile.objects.select_related("run__project", "run__author").get())[1]) == (
        file.artifact_id
    )


def test_others_see_neither_the_page_nor_the_file(client: Client, stranger: User, run: Run, offered: Held) -> None:
    place, file = asked_file(client, run)
    other = Client()
    other.force_login(stranger)
    _, theirs = token_create(user=stranger, name="theirs", days=5)
    mark = {"Authorization": f"Bearer {theirs}"}
    tasks.report_make(str(file.pk))
    file.refresh_from_db()
    for address in (place, f"/runs/{run.pk}/report/?as=pdf", f"/artifacts/{file.artifact_id}"):
        assert other.get(address).status_code == 404, address
    assert other.post(place).status_code == 404
    for address in (f"report/files/{file.pk}/", "report/?as=pdf"):
        assert Client().get(f"/api/v1/runs/{run.pk}/{address}", headers=mark).status_code == 404
    assert client.get(f"/runs/{run.pk}/report/files/{run.pk}/").status_code == 404


def over_the_limits(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    def broken(*_: Any) -> bytes:
        raise {"time": SoftTimeLimitExceeded(), "fault": ValueError("of ours")}[kind]

    if kind == "page":
        monkeypatch.setattr(report_page, "MOST_PAGE_CHARACTERS", 1000)
    elif kind == "bytes":
        monkeypatch.setattr(report_files, "MOST_FILE_BYTES", 1000)
    else:
        monkeypatch.setattr(report_files, "report_pdf", broken)


@pytest.mark.parametrize(
    ("kind", "code", "status", "what"),
    [
        ("time", "BUDGET_REACHED", 504, "The PDF took too long."),
        ("page", "TOO_LARGE", 413, "The report is too long for a PDF."),
        ("bytes", "TOO_LARGE", 413, "The PDF is too large."),
        ("fault", "TOOL_FAILED", 500, "The PDF could not be made."),
    ],
)
def test_a_failure_is_told_and_made_again_on_demand(
    client: Client, analyst: User, run: Run, offered: Held, monkeypatch: pytest.MonkeyPatch,
    kind: str, code: str, status: int, what: str,
) -> None:  # fmt: skip
    _, token = token_create(user=analyst, name="mine", days=5)
    mark = {"Authorization": f"Bearer {token}"}
    place, file = asked_file(client, run)
    with monkeypatch.context() as limited:
        over_the_limits(limited, kind)
        tasks.report_make(str(file.pk))
    page = client.get(place)
    assert page.status_code == 200 and what in page.content.decode() and code in page.content.decode()
    for address in (f"report/files/{file.pk}/", "report/?as=pdf"):
        answer = Client().get(f"/api/v1/runs/{run.pk}/{address}", headers=mark)
        assert answer.status_code == status and code in answer.content.decode() and what in answer.content.decode()
    # nobody asks again by only looking
    assert len(offered) == 1
    sent = client.post(place)
    assert (sent.status_code, sent["Location"]) == (302, place) and len(offered) == 2
    tasks.report_make(str(file.pk))
    assert client.get(f"/runs/{run.pk}/report/?as=pdf").content[:5] == b"%PDF-"


def test_the_api_tells_where_to_ask_and_an_old_client_waits(
    analyst: User, run: Run, offered: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = token_create(user=analyst, name="mine", days=5)
    client = Client(headers={"Authorization": f"Bearer {token}"})
    address = f"/api/v1/runs/{run.pk}/report/?as=pdf"
    told = client.get(address, headers={"Prefer": "respond-async"})
    assert told.status_code == 202 and told["Retry-After"] == "2"
    assert told.json()["status"] == "queued" and told.json()["url"] == told["Location"]
    assert client.get(told["Location"]).status_code == 202
    # who does not know of the waiting is answered with the file, as soon as it is there
    monkeypatch.setattr("apps.runs.report_views.time.sleep", lambda _: tasks.report_make(offered[0]))
    old = client.get(address)
    assert old.status_code == 200 and old["Content-Type"] == "application/pdf" and old.content[:5] == b"%PDF-"
    assert client.get(told["Location"]).content == old.content
    assert digest_bytes(old.content) == old["ETag"].strip('"')
    # one that is not there in time is told of
    judged(analyst, run)
    monkeypatch.setattr(report_views, "WAIT_S", 0.0)
    assert client.get(address).status_code == 202


def test_what_a_broker_or_a_worker_lost_is_offered_again_and_given_up(
    client: Client, run: Run, offered: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    def down(_: str) -> None:
        raise OperationalError("no broker")

    with monkeypatch.context() as broken:
        broken.setattr(tasks.report_make, "delay", down)
        place, file = asked_file(client, run)
    assert client.get(place).status_code == 202 and offered == []
    aged(file, report_files.OFFER_AGAIN_S + 1)
    assert client.get(place).status_code == 202 and offered == [str(file.pk)]
    # a worker that was killed at its work, twice
    for attempts in (1, 2):
        ReportFile.objects.update(status="making", attempts=attempts)
        aged(file, report_files.HARD_S + report_files.OFFER_AGAIN_S + 1)
        page = client.get(place)
        assert page.status_code == (202 if attempts == 1 else 200)
    assert "The PDF took too long." in page.content.decode() and len(offered) == 2
    # nobody takes it up
    ReportFile.objects.update(status="queued", asked_at=timezone.now() - timedelta(seconds=report_files.GIVE_UP_S + 1))
    aged(file, report_files.OFFER_AGAIN_S + 1)
    assert "No worker took it up within 15 minutes." in client.get(place).content.decode()
    # one that is over is not made again by a message that comes late
    tasks.report_make(str(file.pk))
    file.refresh_from_db()
    assert file.status == "failed"
