"""The review list: many at once with one undo, blind verdicts, filters, small pictures."""

import io
from typing import Any
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from django.test import Client
from PIL import Image

from apps.accounts.models import User
from apps.accounts.services import membership_set
from apps.core.errors import UserError
from apps.prior.selectors import prior_digest, prior_rebuild
from apps.review.models import VerdictRecord
from apps.review.selectors import review_queue
from apps.review.services import BULK_MOST, verdict_give, verdicts_give, verdicts_undo
from apps.runs.models import ObservationRow

HX = {"HX-Request": "true"}
# what would tell the machine's word
TELLING = (
    "Accepted",
    "Rejected",
    "Evidence asked",
    "value of information",
    "90 % interval",
    "Rule checks",
    "Probability of being right",
)


@pytest.fixture
def client(analyst: User) -> Client:
    client = Client()
    client.force_login(analyst)
    return client


@pytest.fixture
def waiting(ask: Any) -> list[str]:
    for text in (
        "How many hectares have NDVI above 0.4?",
        "What is the mean NDVI?",
        "What share of the scene has NDVI above 0.6?",
    ):
        ask(text)
    ObservationRow.objects.update(is_audit=True, audit_probability=0.5)
    return [item.row.pk for item in review_queue(User.objects.get(username="analyst"))[0]]


def test_many_at_once_and_one_undo(client: Client, waiting: list[str]) -> None:
    before = prior_digest(prior_rebuild())
    answer = client.post("/review/bulk/", {"observation": waiting[:2], "value": "reject", "reason": "missed"}, headers=HX)
    assert answer.status_code == 200
    assert "Recorded: Wrong for 2 observations." in answer["HX-Trigger"]
    given = VerdictRecord.objects.all()
    assert {(v.observation_id, v.value, v.reason, v.shown_probability) for v in given} == {
        (i, "reject", "missed", 0.5) for i in waiting[:2]
    }
    text = answer.content.decode()
    assert waiting[2] in text
    assert f'id="q-{waiting[0]}"' not in text
    import json

    undo = json.loads(answer["HX-Trigger"])["toast"]["undo_url"]
    assert len(parse_qs(urlsplit(undo).query)["ids"][0].split(",")) == 2
    undone = client.post(undo, headers=HX)
    assert "Undone: 2 verdicts." in undone["HX-Trigger"]
    assert prior_digest(prior_rebuild()) == before
    assert set(ObservationRow.objects.values_list("verdict", flat=True)) == {""}
    redo = json.loads(undone["HX-Trigger"])["toast"]["redo_url"]
    redone = client.post(redo, headers=HX)
    assert "Given again: 2 verdicts." in redone["HX-Trigger"]
    assert {(v.observation_id, v.value, v.reason) for v in VerdictRecord.objects.filter(undone_at__isnull=True)} == {
        (i, "reject", "missed") for i in waiting[:2]
    }
    assert "Given again: 0 verdicts. 2 stay taken back" in client.post(redo, headers=HX)["HX-Trigger"]
    undone = client.post(json.loads(redone["HX-Trigger"])["toast"]["undo_url"], headers=HX)
    assert "Undone: 2 verdicts." in undone["HX-Trigger"]
    assert prior_digest(prior_rebuild()) == before
    again = client.post(undo, headers=HX)
    assert "Undone: 0 verdicts. 2 stand" in again["HX-Trigger"]


def test_one_that_is_refused_keeps_the_others_not_back(waiting: list[str], analyst: User, stranger: User, project: Any) -> None:
    membership_set(project=project, username="stranger", role="reviewer")
    verdict_give(user=analyst, observation_id=waiting[0], value="accept", enqueue=False)
    done = verdicts_give(user=stranger, observation_ids=[waiting[0], "gone", waiting[1]], value="accept", enqueue=False)
    # a reviewer may settle another's verdict; what is not there is said
    assert len(done.records) == 2
    assert len(done.refused) == 1
    undone = verdicts_undo(user=stranger, verdict_ids=[str(r.pk) for r in done.records] + ["nonsense"], enqueue=False)
    assert (len(undone.records), len(undone.refused)) == (2, 1)
    # the verdict that was replaced stands again
    assert ObservationRow.objects.get(pk=waiting[0]).verdict == "accept"


def test_bulk_needs_a_selection_a_reason_and_the_role_of_a_reviewer(
    waiting: list[str], analyst: User, stranger: User, project: Any, client: Client
) -> None:
    for ids in ([], [str(i) for i in range(BULK_MOST + 1)]):
        with pytest.raises(UserError, match="BAD_ARGUMENT"):
            verdicts_give(user=analyst, observation_ids=ids, value="accept")
    with pytest.raises(UserError, match="needs a reason"):
        verdicts_give(user=analyst, observation_ids=waiting, value="reject")
    membership_set(project=project, username="stranger", role="analyst")
    with pytest.raises(UserError, match="FORBIDDEN"):
        verdicts_give(user=stranger, observation_ids=waiting, value="accept")
    assert client.post("/review/bulk/?blind=1", {"observation": waiting, "value": "accept"}, headers=HX).status_code == 400
    assert VerdictRecord.objects.count() == 0


def test_blind_nothing_tells_the_machines_word_until_the_verdict(client: Client, waiting: list[str]) -> None:
    seen = client.get("/review/", {"o": waiting[0]}).content.decode()
    assert all(word in seen for word in TELLING[:1] + TELLING[3:])
    for address in (
        "/review/?blind=1",
        f"/review/?blind=1&o={waiting[0]}",
        f"/review/board/?blind=1&decision=accept&o={waiting[0]}",
    ):
        blind = client.get(address).content.decode()
        assert not [word for word in TELLING if word in blind], address
        assert "hidden until your verdict" in blind
        assert "Open</a>" not in blind
    # filters and views that would tell are off
    assert client.get("/review/?blind=1&decision=reject&view=rejected").content.decode().count('class="qrow') == 3
    answer = client.post(f"/review/{waiting[0]}/verdict/?blind=1", {"value": "accept"}, headers=HX)
    assert "Blind; the machine had said: Accepted, p 0." in answer["HX-Trigger"]
    record = VerdictRecord.objects.get()
    assert record.is_blind
    assert not [word for word in TELLING if word in answer.content.decode()]


def test_the_blind_order_does_not_follow_the_value(analyst: User, waiting: list[str]) -> None:
    blind = [item.row.pk for item in review_queue(analyst, is_blind=True)[0]]
    assert sorted(blind) == sorted(waiting)
    assert blind == [item.row.pk for item in review_queue(analyst, is_blind=True)[0]]
    ObservationRow.objects.filter(pk=blind[0]).update(p_correct=0.5)
    assert [item.row.pk for item in review_queue(analyst, is_blind=True)[0]] == blind


def test_filters_by_decision_tool_and_failed_check(client: Client, analyst: User, waiting: list[str]) -> None:
    ObservationRow.objects.filter(pk=waiting[0]).update(decision="reject", failed_checks=["radiometry.fill", "contract.unit"])
    assert [i.row.pk for i in review_queue(analyst, decision="reject")[0]] == [waiting[0]]
    assert [i.row.pk for i in review_queue(analyst, check="contract.unit")[0]] == [waiting[0]]
    assert review_queue(analyst, check="contract.other")[1] == 0
    assert review_queue(analyst, decision="reject", tool="measure")[1] == 0
    page = client.get("/review/?check=contract.unit").content.decode()
    assert page.count('class="qrow') == 1
    assert '<option value="contract.unit" selected>' in page
    assert "2 failed" in page


def test_failed_checks_are_promoted_from_the_decision(ask: Any, analyst: User, fish: Any) -> None:
    from apps.runs.selectors import run_state

    run = ask("How many hectares have NDVI above 0.4?", region={"type": "Polygon", "coordinates": [_corner(fish)]})
    for held in run_state(run.pk).observations.values():
        row = ObservationRow.objects.get(pk=held.id)
        assert row.failed_checks == [c.check for c in held.checks if c.outcome == "failed"]
    assert ObservationRow.objects.filter(decision="reject").exclude(failed_checks=[]).exists()


def _corner(scene: Any) -> list[list[float]]:
    """Where nine tenths of the scene are fill."""
    west, south, east, north = scene.scene_info.grid.lonlat_bounds()
    x, y = (
        (west + 0.5 * (east - west), west + 0.98 * (east - west)),
        (south + 0.7 * (north - south), south + 0.98 * (north - south)),
    )
    return [[x[0], y[0]], [x[1], y[0]], [x[1], y[1]], [x[0], y[1]], [x[0], y[0]]]


def test_the_small_picture_shows_scene_and_mask(client: Client, ask: Any, stranger: User) -> None:
    ask("How many hectares have NDVI above 0.4?")
    row = ObservationRow.objects.get()
    answer = client.get(f"/observations/{row.pk}/thumbnail.png")
    assert answer["Content-Type"] == "image/png"
    picture = np.asarray(Image.open(io.BytesIO(answer.content)).convert("RGBA")).astype(int)
    assert max(picture.shape[:2]) == 112
    plain = client.get(f"/imagery/{row.run.scenes.get().pk}/thumbnail.png")
    scene = np.asarray(Image.open(io.BytesIO(plain.content)).convert("RGBA").resize((picture.shape[1], picture.shape[0]))).astype(
        int
    )
    # cyan of the mask lies on what was green land: more blue than the scene has
    assert (picture[..., 2] - scene[..., 2])[picture[..., 3] > 0].mean() > 20
    other = Client()
    other.force_login(stranger)
    assert other.get(f"/observations/{row.pk}/thumbnail.png").status_code == 404
