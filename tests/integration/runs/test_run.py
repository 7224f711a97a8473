"""One question from words to answer, on the real stack in one process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from django.test import Client

from apps.accounts.models import Project, User
from apps.core.errors import UserError
from apps.core.evidence.events import RunStarted
from apps.imagery.hints import SceneHints
from apps.imagery.models import Scene
from apps.runs import selectors, services
from apps.runs.models import ObservationRow, Run, RunEvent
from tests.integration.conftest import SAMPLES


def test_mean_ndvi_over_valid_pixels(ask: Any) -> None:
    run = ask("What is the mean NDVI?")
    state = selectors.run_state(run.pk)
    assert run.status == Run.Status.FINISHED
    assert state.answer is not None and not state.answer.abstained
    # computed apart with numpy over the file: zeros in all bands are undeclared fill
    assert state.answer.value == pytest.approx(0.5302930955641897, abs=1e-6)
    (held,) = state.history
    assert held.observation.evidence.intermediate["valid_px"] == 40_574
    assert state.answer.based_on == (held.id,)
    assert held.decision is not None and held.decision.prior is not None and held.checks


def test_hectares_above_a_threshold(ask: Any) -> None:
    state = selectors.run_state(ask("How many hectares have NDVI above 0.4?").pk)
    assert state.answer is not None
    assert state.answer.value == pytest.approx(302.35, abs=0.1)
    assert state.answer.unit == "ha"


def test_events_count_from_one_without_a_gap_and_columns_repeat_them(ask: Any) -> None:
    run = ask("What is the mean NDVI?")
    seqs = list(RunEvent.objects.filter(run=run).values_list("seq", flat=True))
    assert seqs == list(range(1, run.last_seq + 1))
    row = ObservationRow.objects.get(run=run)
    assert (row.decision, row.verdict, row.is_under_answer) == ("accept", "", True)
    assert run.answer_text and run.task_type == "index_statistic"


def test_a_share_of_a_picture_without_crs_whose_gsd_is_known(analyst: User, project: Project, tmp_path: Path) -> None:
    from PIL import Image

    from tests.scenes import scene_of_file

    with Image.open(SAMPLES / "2019_YELL_2_541000_4977000_image_crop.png") as picture:
        picture.convert("RGB").crop((0, 0, 400, 300)).save(tmp_path / "crop.png")
    scene = scene_of_file(project=project, path=tmp_path / "crop.png", hints=SceneHints(gsd_m=0.1))
    run = services.run_start(
        user=analyst, project=project, text="What share of the image is vegetation?", scenes=[scene], enqueue=False
    )
    services.run_execute_now(run_id=run.pk)
    state = selectors.run_state(run.pk)
    failed = [c for held in state.observations.values() for c in held.checks if c.outcome == "failed"]
    assert failed == []
    assert state.answer is not None and not state.answer.abstained, state.answer
    with Image.open(tmp_path / "crop.png") as picture:
        red, green, _ = (np.asarray(band, np.float64) for band in picture.split())
    thresholds: Any = next(iter(state.observations.values())).observation.evidence.source["thresholds"]
    (threshold,) = thresholds.values()
    expected = float(((green - red) / np.maximum(green + red, 1e-12) > threshold).mean())
    assert state.answer.value == pytest.approx(expected, rel=0.02)


def test_roles_are_asked_for_and_not_guessed(analyst: User, project: Project, fish: Scene) -> None:
    info = fish.scene_info
    plain = info.model_copy(update={"bands": tuple(b.model_copy(update={"role": "unknown"}) for b in info.bands)})
    fish.info = plain.model_dump(mode="json")
    fish.save()
    run = services.run_start(user=analyst, project=project, text="What is the mean NDVI?", scenes=[fish], enqueue=False)
    services.run_execute_now(run_id=run.pk)
    answer = selectors.run_state(run.pk).answer
    assert answer is not None and answer.abstained
    assert answer.code == "NEEDS_BANDS" and set(answer.needs["roles"]) == {"red", "nir"}  # type: ignore[arg-type]
    assert ObservationRow.objects.filter(run=run).count() == 0


def test_a_question_that_is_not_understood_abstains_and_says_what_can_be_done(ask: Any) -> None:
    run = ask("Will it rain tomorrow in Fishbourne?")
    answer = selectors.run_state(run.pk).answer
    assert answer is not None and answer.abstained and answer.value is None
    assert run.is_abstained and answer.reason


@pytest.mark.parametrize("killed_at", range(1, 8))
def test_a_run_killed_after_any_event_goes_on_and_doubles_nothing(
    killed_at: int, analyst: User, project: Project, fish: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = services.run_start(
        user=analyst, project=project, text="How many hectares of water are there?", scenes=[fish], enqueue=False
    )
    services.run_execute_now(run_id=whole.pk)
    reference = selectors.run_state(whole.pk)
    run = services.run_start(
        user=analyst, project=project, text="How many hectares of water are there?", scenes=[fish], enqueue=False
    )
    real, seen = services.event_append, []

    class Killed(BaseException):
        """As abrupt as a signal: no handler of ours may catch it."""

    def dying(*, run_id: Any, event: Any) -> int:
        seq = real(run_id=run_id, event=event)
        seen.append(seq)
        if len(seen) == killed_at:
            raise Killed
        return seq

    monkeypatch.setattr(services, "event_append", dying)
    with pytest.raises(Killed):
        services.run_execute_now(run_id=run.pk)
    monkeypatch.setattr(services, "event_append", real)
    Run.objects.filter(pk=run.pk).update(heard_at=None)
    assert services.run_execute_now(run_id=run.pk)
    state = selectors.run_state(run.pk)
    assert state.status == "finished"
    assert state.answer is not None and reference.answer is not None and state.answer.value == reference.answer.value
    calls = [o.call_key for o in state.observations.values()]
    assert len(calls) == len(set(calls)) == len(reference.observations)
    assert len(state.answers) == 1
    starts = [e for _, e in selectors.run_events(run.pk) if isinstance(e, RunStarted)]
    assert len(starts) == 1


def test_a_held_run_is_left_to_its_holder(ask: Any, analyst: User, project: Project, fish: Scene) -> None:
    from django.db import connections

    run = services.run_start(user=analyst, project=project, text="What is the mean NDVI?", scenes=[fish], enqueue=False)
    other = connections.create_connection("default")  # another database session, as another process has
    other.settings_dict = connections["default"].settings_dict
    key = run.pk.int & 0x7FFF_FFFF_FFFF_FFFF
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_lock(%s)", [key])
        assert services.run_execute_now(run_id=run.pk) is False
        with other.cursor() as cursor:  # a session's end alone takes a busy server a while
            cursor.execute("SELECT pg_advisory_unlock(%s)", [key])
    finally:
        other.close()
    assert services.run_execute_now(run_id=run.pk) is True


def test_bad_questions_are_refused_with_what_to_do(analyst: User, project: Project, fish: Scene) -> None:
    for text, scenes, code in (
        ("", [fish], "BAD_QUESTION"),
        ("x" * 4001, [fish], "BAD_QUESTION"),
        ("Mean NDVI?", [], "BAD_ARGUMENT"),
    ):
        with pytest.raises(UserError) as caught:
            services.run_start(user=analyst, project=project, text=text, scenes=scenes, enqueue=False)
        assert caught.value.code == code and caught.value.fix
    assert Run.objects.count() == 0


def test_what_is_anothers_reads_as_absent(ask: Any, stranger: User, analyst: User) -> None:
    run = ask("How many hectares of water are there?")
    row = ObservationRow.objects.filter(run=run).first()
    assert row is not None
    state = selectors.run_state(run.pk)
    digest = next(ref.artifact for o in state.observations.values() for ref in o.observation.result.layers)
    scene = run.scenes.get()
    paths = [
        f"/runs/{run.pk}/",
        f"/runs/{run.pk}/rail/",
        f"/runs/{run.pk}/map/",
        f"/runs/{run.pk}/report/",
        f"/observations/{row.pk}/",
        f"/observations/{row.pk}/panel/",
        f"/api/v1/runs/{run.pk}/",
        f"/api/v1/runs/{run.pk}/events/",
        f"/tiles/scenes/{scene.pk}/10/508/342.png",
        f"/tiles/layers/{digest}/10/508/342.png",
        f"/artifacts/{digest}",
    ]
    for user, expected in ((analyst, {200, 204}), (stranger, {404})):
        client = Client()
        client.force_login(user)
        for path in paths:
            assert client.get(path).status_code in expected, (user.username, path)


def test_the_page_and_its_fragments_are_the_same_text(ask: Any, analyst: User) -> None:
    run = ask("How many hectares of water are there?")
    client = Client()
    client.force_login(analyst)
    page = client.get(f"/runs/{run.pk}/").content.decode()
    rail = client.get(f"/runs/{run.pk}/rail/").content.decode()

    def settled(text: str) -> str:
        import re

        text = re.sub(r'name="csrfmiddlewaretoken" value="[^"]*"', "", text)
        return re.sub(r"\s+", " ", text)

    assert settled(rail).strip() in settled(page)
    assert client.get(f"/runs/{run.pk}/rail/", headers={"X-Seq": str(run.last_seq)}).status_code == 204


def test_a_fragment_fetched_before_the_revision_is_taken_off_is_fetched_again(ask: Any, analyst: User) -> None:
    """The last event of a revision is announced before the run stops being due; a page that came in between must not stick."""
    import re

    run = ask("How many hectares of water are there?")
    client = Client()
    client.force_login(analyst)

    def fragment(seq: str = "") -> tuple[str, bool]:
        answer = client.get(f"/runs/{run.pk}/rail/", headers={"X-Seq": seq})
        assert answer.status_code == 200
        found = re.search(r'data-seq="(\d+)"( data-live-done)?', answer.content.decode())
        assert found is not None
        return found[1], found[2] is not None

    Run.objects.filter(pk=run.pk).update(pending_cause="a verdict")
    between, is_done = fragment()
    assert not is_done and int(between) < run.last_seq
    Run.objects.filter(pk=run.pk).update(pending_cause="")
    assert fragment(between) == (str(run.last_seq), True)
    assert client.get(f"/runs/{run.pk}/rail/", headers={"X-Seq": str(run.last_seq)}).status_code == 204


def test_a_report_as_csv_has_empty_cells_where_there_is_no_value(ask: Any, analyst: User) -> None:
    import csv
    import io

    client = Client()
    client.force_login(analyst)
    text = client.get(f"/runs/{ask('What is the mean NDVI?').pk}/report/?as=csv").content.decode()
    (row,) = csv.DictReader(io.StringIO(text))
    assert (row["interval_low"], row["interval_high"], row["verdict"], row["verdict_by"]) == ("", "", "", "")
    assert float(row["value"]) == pytest.approx(0.5302930955641897, abs=1e-6)
