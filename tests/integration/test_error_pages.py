"""What went wrong before or in a view is told as a page, a fragment or JSON, with a code, what to do and an id of the log."""

import json
import logging
import re

import pytest
from django.conf import settings
from django.test import Client

from apps.accounts.models import User
from rsure_web import pages

BODY = {"csrfmiddlewaretoken": "x", "question": "a" * (settings.DATA_UPLOAD_MAX_MEMORY_SIZE + 1)}
ID = r"[0-9a-f]{8}-[0-9a-f-]{27}"


def signed_in(user: User) -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(user)
    return client


def test_a_form_that_is_too_large_is_told_as_such(analyst: User) -> None:
    client = signed_in(analyst)
    page = client.post("/runs/ask/", BODY)
    text = page.content.decode()
    assert page.status_code == 413
    assert "TOO_LARGE" in text and "at most 16 MiB" in text and "<h1>That could not be done</h1>" in text
    fragment = client.post("/runs/ask/", BODY, headers={"HX-Request": "true"})
    assert fragment.status_code == 413
    assert fragment.content.decode().startswith('<div class="err')
    told = client.post("/runs/ask/", BODY, headers={"Accept": "application/json"}).json()["error"]
    assert (told["code"], bool(told["fix"]), bool(re.fullmatch(ID, told["id"]))) == ("TOO_LARGE", True, True)


def test_a_form_of_too_many_fields_is_told_as_such(analyst: User) -> None:
    page = signed_in(analyst).post("/runs/ask/", {f"f{k}": "1" for k in range(settings.DATA_UPLOAD_MAX_NUMBER_FIELDS + 1)})
    assert page.status_code == 413
    assert "at most 1,000 fields" in page.content.decode()


def test_a_fault_of_ours_is_a_page_with_the_id_that_is_logged(
    analyst: User, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("the disk is gone")

    monkeypatch.setattr(pages, "sample_project", broken)
    client = signed_in(analyst)
    client.cookies["rsure_theme"] = "dark"
    with caplog.at_level(logging.ERROR):
        page = client.get("/")
    text = page.content.decode()
    assert page.status_code == 500
    assert "<h1>A fault of ours</h1>" in text and 'data-theme="dark"' in text and "build/app." in text
    assert "the disk is gone" not in text
    (shown,) = re.findall(rf"id ({ID})", text)
    assert shown in {getattr(record, "error_id", "") for record in caplog.records}
    assert any(record.exc_info and "the disk is gone" in str(record.exc_info[1]) for record in caplog.records)
    assert client.get("/", headers={"HX-Request": "true"}).content.decode().startswith('<div class="err')
    told = json.loads(client.get("/", headers={"Accept": "application/json"}).content)["error"]
    assert told["code"] == "FAULT" and re.fullmatch(ID, told["id"])
