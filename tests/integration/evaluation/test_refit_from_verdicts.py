"""From verdicts to weights in use and back: what persons say is fitted, compared, promoted, used by the next run, rolled back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from apps.accounts.models import User
from apps.review.services import verdict_give
from apps.runs.models import ObservationRow
from apps.runs.selectors import run_state
from apps.runs.verifiers import calibrated_weights, verdict_samples

QUESTIONS = (
    "What is the mean NDVI?", "What is the maximum NDVI?", "What is the minimum NDVI?", "What is the mean NDWI?",
    "What is the maximum NDWI?", "What is the minimum NDWI?",
)  # fmt: skip


@pytest.fixture
def home(tmp_path: Path, settings: Any) -> Path:
    """Fitted weights are kept apart; artifacts stay where they are."""
    import apps.runs.verifiers as verifiers

    place = tmp_path / "home"
    place.mkdir()
    verifiers._cached.cache_clear()
    return place


def command(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    with pytest.raises(SystemExit) as ended:
        call_command("verifier", *words, "--json")
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    found: dict[str, Any] = json.loads(out)
    return found


def judged(run: Any) -> Any:
    """The verifier's decision on the run's first observation that it saw."""
    return next(
        held.decision for held in run_state(run.pk).observations.values() if held.decision is not None and held.decision.features
    )


def test_verdicts_are_fitted_promoted_used_and_rolled_back_bit_for_bit(
    ask: Any, analyst: User, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("apps.runs.verifiers.verifier_folder", lambda kind: _folder(home, kind))
    for at, text in enumerate(QUESTIONS):
        row = ObservationRow.objects.filter(run=ask(text)).exclude(decision="").first()
        assert row is not None, text
        value = "reject" if at % 3 == 2 else "accept"
        reason = "wrong_value" if value == "reject" else ""
        verdict_give(user=analyst, observation_id=row.pk, value=value, reason=reason, enqueue=False)
    samples = list(verdict_samples())
    assert len({s["group"] for s in samples}) == len(samples) == len(QUESTIONS)
    assert sum(s["label"] for s in samples) == 4

    before, shipped = judged(ask("What is the mean NDVI of this image?")), calibrated_weights()
    assert before.verifier == shipped.version
    fitted = command(capsys, "fit", "--verdicts", "--version", "people-1")
    assert fitted["samples"] == len(QUESTIONS)
    compared = command(capsys, "compare", "people-1", "--verdicts")
    assert (compared["candidate"]["version"], compared["in_use"]["version"]) == ("people-1", shipped.version)
    assert compared["candidate"]["n"] == compared["in_use"]["n"] == len(QUESTIONS)
    assert compared["candidate_cross_validated"]["n"] == len(QUESTIONS)
    assert judged(ask("What is the mean NDVI of this image?")).verifier == shipped.version, "a candidate changes nothing"

    assert command(capsys, "promote", "people-1")["in_use"] == "people-1"
    promoted, mine = judged(ask("What is the mean NDVI of this image?")), calibrated_weights()
    assert promoted.verifier == mine.version == "people-1"
    assert mine.probability(promoted.features) != shipped.probability(promoted.features)
    assert promoted.p_correct == pytest.approx(mine.probability(promoted.features), abs=1e-9)

    assert command(capsys, "rollback")["in_use"] == "shipped"
    after = judged(ask("What is the mean NDVI of this image?"))
    assert after.verifier == before.verifier
    assert (after.p_correct.hex(), after.features) == (before.p_correct.hex(), before.features)
    assert calibrated_weights() == shipped


def _folder(home: Path, kind: str) -> Path:
    place = home / kind
    place.mkdir(parents=True, exist_ok=True)
    return place
