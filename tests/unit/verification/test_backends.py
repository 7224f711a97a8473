"""Back ends behind one contract: the calibrated model and its fit, the panel, and the vision model over a real HTTP server."""

from __future__ import annotations

import json
import math
import random
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from apps.verification.backends import CalibratedVerifier, Opinion, PanelVerifier, Subject, Verifier, VerifierError, load_weights
from apps.verification.backends.calibrated import FeatureWeight, ModelWeights, fit, read_samples, read_weights
from apps.verification.backends.vlm import VlmVerifier
from apps.verification.checks import run_checks
from apps.verification.features import FEATURES, SUPPORT, features_of
from apps.verification.policy import Policy
from tests.unit.verification import samples as s


def subject_of(sample: s.Sample) -> Subject:
    case = sample.case()
    checks, scores = run_checks(case)
    return Subject(case, checks, features_of(case, checks, scores, None), None, Policy())


# --- calibrated ---------------------------------------------------------------------------------------------------------------
def test_shipped_weights_say_how_they_were_made_and_are_monotone() -> None:
    weights = load_weights()
    assert weights.made in ("by_hand", "fitted")
    assert weights.note
    assert set(weights.features) <= set(FEATURES)
    for name, w in weights.features.items():
        assert w.direction == FEATURES[name].direction
        low, high = weights.probability({name: w.center - 1}), weights.probability({name: w.center + 1})
        assert (high - low) * w.direction >= 0


def test_checks_named_by_features_exist() -> None:
    from apps.verification.checks import CHECKS
    from apps.verification.features import MEASURE_CHECKS, QUESTION_CHECKS

    assert set(SUPPORT) | MEASURE_CHECKS | QUESTION_CHECKS <= set(CHECKS)


@pytest.mark.parametrize("version", ["calibrated-1", "calibrated-2"])
def test_contributions_add_up_to_the_probability(version: str) -> None:
    subject = subject_of(s.mean())
    weights = load_weights(version)
    opinion = CalibratedVerifier(weights).verify(subject)
    z = weights.intercept + sum(opinion.contributions.values())
    raw = 1 / (1 + 2.718281828459045**-z)
    expected = float(np.interp(raw, [x for x, _ in weights.knots], [y for _, y in weights.knots])) if weights.knots else raw
    assert opinion.p_correct == pytest.approx(expected)
    assert opinion.reasons


def test_the_shipped_weights_are_fitted_and_report_it() -> None:
    weights = load_weights()
    report: Any = weights.report
    assert weights.made == "fitted"
    fold, start = report["out_of_fold_by_case"], report["started_from"]
    assert fold["brier"] < start["brier"]
    assert fold["log_loss"] < start["log_loss"]
    assert fold["ece"] < start["ece"]
    assert {"by_tool", "by_task_type", "rules", "out_of_fold_by_family_and_case"} <= set(report)
    assert load_weights("calibrated-1").made == "by_hand"  # to roll back to


def test_the_prior_stands_beside_the_evidence_and_a_record_alone_is_capped() -> None:
    weights = ModelWeights(
        version="t",
        made="fitted",
        intercept=4.0,
        features={"support": FeatureWeight(weight=2, center=0.5), "prior_logit": FeatureWeight(weight=0.5)},
        record_cap=0.75,
    )
    assert weights.probability({"sight": 1.0}) > 0.95
    assert weights.probability({"sight": 0.0}) == pytest.approx(0.75)
    # odds of 3, times what the prior says
    assert weights.probability({"sight": 0.0, "prior_logit": 2.0}) == pytest.approx(3 * math.e / (1 + 3 * math.e))
    assert weights.probability({"sight": 0.0, "prior_logit": -2.0}) < 0.6


def test_a_missing_feature_says_nothing() -> None:
    weights = ModelWeights(version="t", made="by_hand", intercept=0.3, features={"support": FeatureWeight(weight=2, center=0.5)})
    assert weights.contributions({}) == {}
    assert weights.probability({}) == weights.probability({"support": 0.5})


def test_calibration_knots_are_applied() -> None:
    weights = ModelWeights(version="t", made="fitted", intercept=0.0, features={}, knots=((0.0, 0.0), (0.5, 0.9), (1.0, 1.0)))
    assert weights.probability({}) == pytest.approx(0.9)


def test_a_weights_file_with_a_wrong_sign_is_refused(tmp_path: Path) -> None:
    bad = ModelWeights(version="t", made="by_hand", features={"warnings": FeatureWeight(weight=0.4, direction=-1)})
    path = tmp_path / "bad.json"
    path.write_text(bad.model_dump_json())
    with pytest.raises(ValueError, match="monotone"):
        read_weights(path)


def _labelled(n: int, seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    out = []
    for i in range(n):
        support, warnings, noise = rng.random(), rng.randrange(3), rng.random()
        p = 1 / (1 + 2.718281828 ** -(4 * (support - 0.4) - 0.8 * warnings))
        features = {"support": support, "warnings": float(warnings), "valid_share": noise}
        if i % 5 == 0:
            del features["valid_share"]
        out.append({"group": f"t{i % 20}", "label": int(rng.random() < p), "features": features})
    return out


def test_fit_finds_the_signs_and_is_deterministic(tmp_path: Path) -> None:
    file = tmp_path / "features.jsonl"
    file.write_text("".join(json.dumps(x) + "\n" for x in _labelled(600, 1)))
    samples = read_samples(file)
    made = fit(samples, FEATURES, version="calibrated-t")
    assert made == fit(samples, FEATURES, version="calibrated-t")
    assert made.features["support"].weight > 2
    assert made.features["warnings"].weight < -0.4
    assert abs(made.features["valid_share"].weight) < 0.6
    unseen = _labelled(600, 2)
    brier = sum((made.probability(x["features"]) - x["label"]) ** 2 for x in unseen) / len(unseen)
    base = sum(x["label"] for x in unseen) / len(unseen)
    assert brier < 0.85 * base * (1 - base)


def test_fit_keeps_a_feature_that_contradicts_its_direction_at_zero() -> None:
    rng = random.Random(5)
    samples = [{"label": int(w > 1), "features": {"warnings": float(w)}} for w in (rng.randrange(4) for _ in range(200))]
    assert fit(samples, ["warnings"]).features["warnings"].weight == 0.0


def test_samples_that_are_none_are_named(tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl"
    for wrong in (
        '{"label": 2, "features": {}}', '[1]', '3', "torn", "[" * 100_000, '{"label": 1}', '{"label": 1, "features": {"a": "b"}}',
        '{"label": 1, "features": {}, "weight": -1}', '{"label": 1, "features": {}, "weight": NaN}',
    ):  # fmt: skip
        file.write_text('\ufeff{"label": 1, "features": {"support": null}}\n' + wrong + "\n")
        with pytest.raises(ValueError, match=":2:"):
            read_samples(file)


# --- panel --------------------------------------------------------------------------------------------------------------------
class Says:
    is_local = True

    def __init__(self, name: str, p: float | None):
        self.name, self.p = name, p

    def verify(self, subject: Subject) -> Opinion:
        if self.p is None:
            raise VerifierError("asleep")
        return Opinion(self.p, (f"{self.name} looked",))


def test_panel_agrees_disagrees_and_names_who_is_silent() -> None:
    subject = subject_of(s.mean())
    alike = PanelVerifier([Says("a", 0.9), Says("b", 0.94), Says("c", None)]).verify(subject)
    assert 0.9 < alike.p_correct < 0.94
    assert alike.members == {"a": 0.9, "b": 0.94}
    assert any("c did not answer" in r for r in alike.reasons)
    apart = PanelVerifier([Says("a", 0.99), Says("b", 0.3)]).verify(subject)
    assert Policy().reject_at < apart.p_correct < Policy().accept_at
    assert "disagrees" in apart.reasons[0]
    with pytest.raises(VerifierError, match="asleep"):
        PanelVerifier([Says("a", None)]).verify(subject)
    with pytest.raises(VerifierError):
        PanelVerifier([Says("a", 0.9), Says("b", None)], quorum=2).verify(subject)
    with pytest.raises(ValueError, match="member"):
        PanelVerifier([])


# --- vlm ----------------------------------------------------------------------------------------------------------------------
class Server:
    """Speaks the chat-completions protocol; ``answers`` are handed out in turn, ``asked`` keeps what came in."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, str, str]] = []
        self.asked: list[dict[str, Any]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                status, text, finish = outer.answers.pop(0) if outer.answers else (500, "", "stop")
                body = json.dumps(
                    {
                        "id": "1",
                        "object": "chat.completion",
                        "created": 1,
                        "model": "m",
                        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": text}}],
                    }
                ).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: Any) -> None:
                return

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.http.server_port}/v1"


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.http.shutdown()
    made.http.server_close()


GOOD = json.dumps(
    {"p_correct": 0.12, "reasons": ["The mask covers a pool."], "request": "refined_mask", "request_reason": "Refine it."}
)


def test_vlm_sees_image_and_mask_and_its_answer_is_read(server: Server) -> None:
    server.answers = [(200, GOOD, "stop")]
    verifier = VlmVerifier("m", base_url=server.url, timeout_s=5)
    assert isinstance(verifier, Verifier)
    opinion = verifier.verify(subject_of(s.water()))
    assert opinion.p_correct == 0.12
    assert [r.kind for r in opinion.requested] == ["refined_mask"]
    content = server.asked[0]["messages"][1]["content"]
    assert [c["type"] for c in content] == ["text", "image_url", "image_url"]
    assert server.asked[0]["response_format"]["type"] == "json_schema"
    assert "never" in server.asked[0]["messages"][0]["content"]


@pytest.mark.parametrize(
    "answers",
    [
        [(200, "I accept everything", "stop")] * 2,
        [(200, '{"p_correct": 7, "reasons": ["x"]}', "stop")] * 2,
        [(200, '{"p_correct": 0.9, "reasons": ["x"], "decision": "accept"}', "stop")] * 2,
        [(200, GOOD[:20], "length")] * 2,
        [(500, "", "stop")] * 2,
        [(200, '{"p_correct": NaN, "reasons": ["x"]}', "stop")] * 2,
    ],
)
def test_vlm_outside_its_schema_is_no_verdict(server: Server, answers: list[tuple[int, str, str]]) -> None:
    server.answers = list(answers)
    with pytest.raises(VerifierError):
        VlmVerifier("m", base_url=server.url, timeout_s=5).verify(subject_of(s.water()))


def test_vlm_falls_back_to_json_object(server: Server) -> None:
    server.answers = [(400, "", "stop"), (200, f"Here it is: {GOOD}", "stop")]
    assert VlmVerifier("m", base_url=server.url, timeout_s=5).verify(subject_of(s.water())).p_correct == 0.12
    assert server.asked[1]["response_format"]["type"] == "json_object"


def test_vlm_is_not_imported_before_it_is_asked() -> None:
    import subprocess
    import sys

    code = "import sys, apps.verification.judge, apps.verification.backends.vlm as v; "
    code += "v.VlmVerifier('m', base_url='http://127.0.0.1:9'); print('httpx' in sys.modules)"
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "False"


def test_counts_are_told_whole_and_shares_to_two_digits() -> None:
    told = {n: FEATURES["warnings"].words(n) for n in (0.0, 1.0, 2.0, 4.0)}
    assert told == {
        0.0: "0 warnings of the rules", 1.0: "1 warning of the rules", 2.0: "2 warnings of the rules",
        4.0: "4 or more warnings of the rules",
    }  # fmt: skip
    assert FEATURES["open_checks"].words(1.0) == "1 check without an answer"
    assert FEATURES["valid_share"].words(1.0) == "share of valid pixels, 1.00"
