"""Checks, verifier and policy as one: from an observation to a decision, in the order of PROTOCOL.md section 5.

``CalibratedJudge`` implements ``core.ports.Judge``. It never raises: a crash of ours is ``unverified``, and nothing is accepted
by default.
"""

from __future__ import annotations

import concurrent.futures
import json
import logging
import math
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import ValidationError

from apps.core.evidence.decision import CheckResult, Decision, EvidenceRequest, PriorView
from apps.core.evidence.observation import PROTOCOL, Observation
from apps.core.evidence.plan import Question
from apps.core.ports import LayerStore, PriorSource, RasterReader
from apps.verification.backends import CalibratedVerifier, Opinion, Subject, Verifier, VerifierError
from apps.verification.checks import Case, Limits, run_checks
from apps.verification.features import features_of
from apps.verification.policy import Policy
from apps.verification.records.verifier import RecordOpinion, RecordVerifier, is_bare_record
from apps.verification.requests import Offer, offers, requests_for_missing

logger = logging.getLogger(__name__)

Judged = tuple[tuple[CheckResult, ...], Decision]
# verify FILE: an observation of more than this many characters is refused before it is parsed
MAX_CHARACTERS = 16_000_000


class CalibratedJudge:
    """The default judge. ``layers`` and ``reader`` are read-only doors to result layers and source pixels; without them the
    checks that need them do not apply. ``verifier=None`` with ``is_verified=False`` judges by rules alone (unverified).

    ``reader`` opens a scene of the question by id (KeyError for others). ``records`` reads observations that bring no process
    evidence at all, as other agents record them: what the record proves wrong is rejected, the rest is asked for its evidence.
    """

    def __init__(
        self,
        prior_source: PriorSource | None = None,
        layers: LayerStore | None = None,
        policy: Policy | None = None,
        *,
        reader: Callable[[str], RasterReader] | None = None,
        verifier: Verifier | None = None,
        limits: Limits | None = None,
        has_verifier: bool = True,
        records: RecordVerifier | None = None,
    ):
        self.prior_source, self.layers, self.reader = prior_source, layers, reader
        self.policy, self.limits = policy or Policy(), limits or Limits()
        self.verifier: Verifier | None = (verifier or CalibratedVerifier()) if has_verifier else None
        self.records = records or (RecordVerifier() if has_verifier else None)

    # --- the port -----------------------------------------------------------------------------------------------------------
    def judge(
        self,
        observation: Observation,
        *,
        question: Question | None = None,
        history: Sequence[Observation] = (),
        rejected: Sequence[Observation] = (),
        supporting: Sequence[Observation] = (),
        requests_made: int = 0,
    ) -> Judged:
        """Check results and decision; never raises."""
        began = time.perf_counter()
        case = Case(
            observation, question, tuple(history), tuple(rejected), tuple(supporting), self.layers, self.reader, self.limits
        )
        try:
            checks, decision = self._judge(case, requests_made)
            if self.records is not None and decision.stage != "status" and is_bare_record(observation):
                decision = self._on_record(case, decision, self.records)
        except Exception as error:
            logger.exception("the judge failed on observation %s", observation.id)
            checks, decision = (), self._unverified(f"Verification itself failed ({type(error).__name__}).", None)
            decision = self._exhausted(decision, requests_made)
        finally:
            try:
                case.close()
            except Exception:
                logger.exception("a reader did not close")
        return checks, decision.model_copy(update={"elapsed_s": round(time.perf_counter() - began, 6)})

    def offers(
        self, observation: Observation, *, question: Question | None, supporting: Sequence[Observation] = ()
    ) -> list[Offer]:
        """What a person may ask for on this observation, and why not the rest. Raises what reading the layers raises."""
        case = Case(observation, question, (), (), tuple(supporting), self.layers, self.reader, self.limits)
        try:
            return offers(case)
        finally:
            case.close()

    def _judge(self, case: Case, requests_made: int) -> Judged:
        observation = case.observation
        prior, prior_problem = self._prior(observation)
        if observation.status.state == "failed":
            reason = observation.status.reason or next(
                (line.message for line in reversed(observation.status.log) if line.level == "error"), "the tool gave no reason"
            )
            return (), Decision(
                decision="reject",
                stage="status",
                reasons=(f"The tool failed: {reason}"[:2000],),
                prior=prior,
                policy=self.policy.label,
            )
        checks, scores = run_checks(case)
        blocked = [c for c in checks if c.severity == "block" and c.outcome == "failed"]
        if blocked:
            return checks, Decision(
                decision="reject",
                stage="rules",
                prior=prior,
                policy=self.policy.label,
                reasons=tuple(_sentence(c) for c in blocked),
            )
        missing = [c for c in checks if c.severity == "block" and c.outcome in ("inconclusive", "errored")]
        if missing:
            decision = Decision(
                decision="request_evidence",
                stage="rules",
                prior=prior,
                policy=self.policy.label,
                reasons=tuple(_sentence(c) for c in missing),
                requested=requests_for_missing(missing, case),
            )
            return checks, self._exhausted(decision, requests_made)
        features = features_of(case, checks, scores, prior)
        decision = self._verified(case, checks, features, prior)
        if prior_problem:
            decision = decision.model_copy(update={"reasons": (*decision.reasons, prior_problem)})
        return checks, self._exhausted(decision, requests_made)

    def _verified(
        self, case: Case, checks: tuple[CheckResult, ...], features: dict[str, float], prior: PriorView | None
    ) -> Decision:
        if self.verifier is None:
            applicable = any(c.outcome == "passed" for c in checks)
            if applicable and self.policy.allow_rules_alone:
                return Decision(
                    decision="accept",
                    stage="rules",
                    prior=prior,
                    policy=self.policy.label,
                    features=features,
                    reasons=("All rule checks that apply passed; the policy accepts on rules alone.",),
                )
            return self._unverified("No verifier is set." if applicable else "No check applies and no verifier is set.", prior)
        try:
            opinion = self._opinion(Subject(case, checks, features, prior, self.policy))
        except VerifierError as error:
            logger.warning("verifier %s is silent on %s: %s", self.verifier.name, case.observation.id, error)
            return self._unverified(f"{self.verifier.name} did not judge: {error}"[:500], prior, features)
        except Exception as error:
            logger.exception("verifier %s failed on %s", self.verifier.name, case.observation.id)
            return self._unverified(f"{self.verifier.name} failed ({type(error).__name__}).", prior, features)
        p = opinion.p_correct
        what: Literal["accept", "reject", "request_evidence"] = (
            "accept" if p >= self.policy.accept_at else "reject" if p <= self.policy.reject_at else "request_evidence"
        )
        requested = opinion.requested
        if what == "request_evidence" and not requested:
            requested = (EvidenceRequest(kind="human", reason="Nothing that a machine could add would settle it."),)
        return Decision(
            decision=what,
            stage="verifier",
            p_correct=p,
            reasons=(f"Probability of being right {p:.2f}.", *opinion.reasons)[:20],
            requested=requested if what == "request_evidence" else (),
            prior=prior,
            verifier=self.verifier.name,
            policy=self.policy.label,
            features=features,
            contributions=dict(opinion.contributions),
        )

    def _on_record(self, case: Case, decision: Decision, records: RecordVerifier) -> Decision:
        """What a record without evidence says of itself: it may turn a request into a rejection, never into an acceptance."""
        try:
            opinion: RecordOpinion = records.opinion(case.observation, case.question, (*case.history, *case.rejected))
        except Exception:
            logger.exception("the record of observation %s could not be read", case.observation.id)
            return decision
        p = 1 - opinion.p_wrong
        seen: dict[str, Any] = {
            "p_correct": p,
            "verifier": records.name,
            "features": opinion.signs,
            "contributions": opinion.contributions,
            "reasons": (*opinion.reasons, *decision.reasons)[:20],
        }
        if decision.decision != "reject" and (opinion.faults or p <= self.policy.reject_at):
            seen |= {"decision": "reject", "stage": "rules" if opinion.faults else "verifier", "requested": ()}
        return decision.model_copy(update=seen)

    def _opinion(self, subject: Subject) -> Opinion:
        """The verifier's opinion, in time and inside its schema; VerifierError otherwise."""
        assert self.verifier is not None
        if self.verifier.is_local:
            opinion = self.verifier.verify(subject)
        else:
            pool = concurrent.futures.ThreadPoolExecutor(max_workers=1, thread_name_prefix="verifier")
            try:
                opinion = pool.submit(self.verifier.verify, subject).result(timeout=self.policy.verifier_timeout_s)
            except concurrent.futures.TimeoutError as error:
                raise VerifierError(f"no answer within {self.policy.verifier_timeout_s:g} s") from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        p = getattr(opinion, "p_correct", None)
        if not isinstance(opinion, Opinion) or not isinstance(p, float) or not math.isfinite(p) or not 0 <= p <= 1:
            raise VerifierError("its answer lies outside its schema")
        return opinion

    def _prior(self, observation: Observation) -> tuple[PriorView | None, str]:
        if self.prior_source is None:
            return None, ""
        try:
            return self.prior_source.view(
                task_type=observation.task.task_type,
                tool=observation.tool,
                coarse=observation.configuration.coarse,
                fine=observation.configuration.fine,
            ), ""
        except Exception:
            logger.exception("the prior could not be read")
            return None, "The prior could not be read; the judgement is made without it."

    def _unverified(self, reason: str, prior: PriorView | None, features: dict[str, float] | None = None) -> Decision:
        return Decision(
            decision="request_evidence",
            stage="unverified",
            reasons=(reason,),
            prior=prior,
            policy=self.policy.label,
            features=features or {},
            verifier="" if self.verifier is None else self.verifier.name,
            requested=(EvidenceRequest(kind="human", reason=f"Unverified: {reason}"[:500]),),
        )

    def _exhausted(self, decision: Decision, requests_made: int) -> Decision:
        """Section 5, point 5: after ``max_requests`` answered requests the observation is rejected or goes to a person."""
        if decision.decision != "request_evidence" or requests_made < self.policy.max_requests:
            return decision
        asked = f"Evidence was asked for {requests_made} times and did not settle it."
        if self.policy.on_exhausted == "human":
            return decision.model_copy(
                update={
                    "stage": "policy",
                    "reasons": (f"{asked} A person decides.", *decision.reasons),
                    "requested": (EvidenceRequest(kind="human", reason=asked),),
                }
            )
        return decision.model_copy(
            update={
                "decision": "reject",
                "stage": "policy",
                "requested": (),
                "reasons": (f"{asked} It is rejected by policy.", *decision.reasons),
            }
        )

    # --- verify FILE --------------------------------------------------------------------------------------------------------
    def judge_json(self, payload: Any) -> Judged:
        """Judges whatever a file holds: an observation, or ``{"observation": …, "question": …, "history": […], "rejected": […],
        "supporting": […], "requests_made": n}``, as JSON text or parsed. What is no observation is rejected with the reason;
        never raises, never accepts what it cannot read."""
        try:
            parsed, problem = _parse(payload)
        except Exception as error:  # any input at all must end in a decision
            return (), self._refused(f"It could not be read ({type(error).__name__}).")
        if problem:
            return (), self._refused(problem)
        observation, context = parsed
        return self.judge(observation, **context)

    def _refused(self, reason: str) -> Decision:
        return Decision(
            decision="reject",
            stage="status",
            reasons=(f"Not an observation of protocol {PROTOCOL}: {reason}"[:2000],),
            policy=self.policy.label,
        )


def _worded(value: Any) -> str:
    """A figure as it is, words without the marks of JSON, nothing as "nothing"."""
    if value is None or isinstance(value, bool):
        return {None: "nothing", True: "yes", False: "no"}[value]
    return (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))[:200]


def _sentence(c: CheckResult) -> str:
    parts = [f"{c.check}: {c.message}"]
    if c.outcome == "failed" and (c.measured is not None or c.expected is not None):
        unit = f" {c.unit}" if c.unit and c.unit != "1" else ""
        parts.append(f"Measured {_worded(c.measured)}{unit}, expected {_worded(c.expected)}{unit}.")
    if c.outcome in ("inconclusive", "errored") and c.pointers:
        parts.append("Missing: " + ", ".join(c.pointers[:6]) + ".")
    return " ".join(parts)[:1500]


def _parse(payload: Any) -> tuple[Any, str]:
    """((observation, keyword arguments of judge), '') or (None, why not)."""
    if isinstance(payload, (str, bytes, bytearray)):
        if len(payload) > MAX_CHARACTERS:
            return None, f"{len(payload)} characters are more than {MAX_CHARACTERS}."
        try:
            payload = json.loads(payload, parse_constant=_refuse_constant)
        except RecursionError:
            return None, "it is nested too deeply."
        except (ValueError, UnicodeDecodeError) as error:
            return None, f"it is no JSON ({str(error)[:200]})."
    if isinstance(payload, Observation):
        return (payload, {}), ""
    if not isinstance(payload, dict):
        return None, f"it is a {type(payload).__name__}, not an object."
    if isinstance(payload.get("observations"), list) and "tool" not in payload and "observation" not in payload:
        n = len(payload["observations"])
        return None, (
            f"it is a whole run, not an observation: its {n:,} observation{'' if n == 1 else 's'} lie under /observations; give "
            "each of them, an object a line, or their list."
        )
    context: dict[str, Any] = {}
    body = payload
    if "observation" in payload and "tool" not in payload:
        body = payload["observation"]
        unknown = set(payload) - {"observation", "question", "history", "rejected", "supporting", "requests_made"}
        if unknown:
            return None, f"unknown fields beside the observation: {', '.join(sorted(map(str, unknown)))[:200]}."
    try:
        observation = Observation.model_validate_json(json.dumps(body, allow_nan=False))
        if body is not payload:
            if payload.get("question") is not None:
                context["question"] = Question.model_validate_json(json.dumps(payload["question"], allow_nan=False))
            for key in ("history", "rejected", "supporting"):
                context[key] = tuple(
                    Observation.model_validate_json(json.dumps(o, allow_nan=False)) for o in payload.get(key) or ()
                )
            made = payload.get("requests_made", 0)
            if isinstance(made, bool) or not isinstance(made, int) or made < 0:
                return None, "requests_made is no count."
            context["requests_made"] = made
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = "/" + "/".join(str(p) for p in first["loc"])
        return None, f"{error.error_count()} fields are wrong, first {where}: {first['msg']}."
    except RecursionError:
        return None, "it is nested too deeply."
    except (ValueError, TypeError) as error:
        return None, f"{str(error)[:200]}."
    if observation.status.started_at > datetime.now(UTC) + timedelta(days=366):
        return None, "/status/started_at lies more than a year ahead."
    return (observation, context), ""


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number of JSON")
