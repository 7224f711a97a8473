"""The agent's loop: from whatever the run's log says to an answer, one recorded move at a time.

Everything that the loop knows it reads from the log (``recorder.state()``). Killed at any point and started
again, it goes on from the last event: a call has one key (step, arguments, parents), an observation that was
recorded but not judged is judged, and a call that was started but not recorded is made again under the same
key.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import Lock

from apps.agent.answers import abstain, answer_from
from apps.agent.arguments import validate_plan
from apps.agent.moves import Call, CannotAnswer, Decide, Move, Settle, Stopped, asked_move, next_move
from apps.agent.policy import AgentPolicy
from apps.core.digests import canonical_json
from apps.core.errors import ModelError, UserError
from apps.core.evidence.decision import CheckResult, Decision, EvidenceRequest
from apps.core.evidence.events import (
    AnswerGiven,
    DecisionMade,
    EvidenceAnswered,
    ObservationRecorded,
    PlanProposed,
    ProgressReported,
    RunCancelled,
    RunFailed,
    RunFinished,
    RunResumed,
    RunStarted,
    StepStarted,
)
from apps.core.evidence.fold import RunState
from apps.core.evidence.observation import (
    Configuration,
    LogLine,
    Observation,
    Result,
    Status,
    TaskRef,
)
from apps.core.evidence.plan import Answer, Cost, Plan, Question
from apps.core.ids import new_id
from apps.core.ports import Judge, Planner, Recorder, ToolBox

logger = logging.getLogger(__name__)
Clock = Callable[[], datetime]


class _BudgetReachedError(Exception):
    """Inside the loop only: the run may make no further call."""


class _CancelledError(Exception):
    """Inside the loop only: a person cancelled the run."""


def run_agent(
    question: Question,
    *,
    planner: Planner,
    toolbox: ToolBox,
    judge: Judge,
    recorder: Recorder,
    run_id: str,
    policy: AgentPolicy,
    clock: Clock,
    seed: int = 0,
    revision: str = "",
    packages: Mapping[str, str] | None = None,
    cause: str = "",
) -> RunState:
    """Drives a run to its end and returns its state. Safe to call again at any time.

    ``clock`` gives aware UTC. ``cause`` names the verdict or undo that asks a finished run to be looked at
    again; a finished run without a cause is left alone. A crash of the tool box becomes a failed
    observation, a crash of the judge an unverified decision, a crash of the planner a RunFailed event: none
    of them accepts anything. What the recorder raises is raised.
    """
    return _Run(question, planner, toolbox, judge, recorder, run_id, policy, clock, cause).drive(
        seed=seed, revision=revision, packages=dict(packages or {})
    )


class _Run:
    def __init__(
        self,
        question: Question,
        planner: Planner,
        toolbox: ToolBox,
        judge: Judge,
        recorder: Recorder,
        run_id: str,
        policy: AgentPolicy,
        clock: Clock,
        cause: str,
    ):
        self.question, self.planner, self.toolbox, self.judge = question, planner, toolbox, judge
        self.recorder, self.run_id, self.policy, self.clock, self.cause = (
            recorder,
            run_id,
            policy,
            clock,
            cause,
        )
        self.began = clock()
        self.calls = 0
        self.planner_cost = Cost()
        self.withdrawn: set[str] = set()
        self.looking, self.looked_at = Lock(), self.began

    def drive(self, *, seed: int, revision: str, packages: dict[str, str]) -> RunState:
        state = self.recorder.state()
        if state.status == "cancelled" or (state.is_over and not self.cause):
            return state
        if state.started is None:
            self.recorder.append(
                RunStarted(
                    at=self.clock(),
                    run_id=self.run_id,
                    question=self.question,
                    seed=seed,
                    revision=revision,
                    packages=packages,
                    policy=self.policy.version,
                    budget=self.policy.budget(),
                )
            )
        else:
            self.question = state.question or self.question
            self.recorder.append(RunResumed(at=self.clock(), cause=self.cause or "worker"))
        try:
            answer = self._work()
        except _CancelledError:
            if self.recorder.state().status != "cancelled":
                self.recorder.append(RunCancelled(at=self.clock()))
            return self.recorder.state()
        except _PlannerFailedError as e:
            self.recorder.append(RunFailed(at=self.clock(), code=e.code, message=e.message[:2000], error_id=e.error_id))
            return self.recorder.state()
        state = self.recorder.state()
        if state.answer != answer:
            self.recorder.append(AnswerGiven(at=self.clock(), answer=answer, cause=self.cause if state.answers else ""))
        self.recorder.append(RunFinished(at=self.clock(), cost=self._cost(self.recorder.state())))
        return self.recorder.state()

    # --- the moves ----------------------------------------------------------------------------------------
    def _work(self) -> Answer:
        while True:
            if self.recorder.is_cancelled():
                raise _CancelledError
            state = self.recorder.state()
            if not state.plans:
                self._propose(self._plan())
                continue
            asked = asked_move(state)
            if asked is not None:
                self._perform_asked(state, state.plan or state.plans[-1], asked)
                continue
            plan, move = self._choose(state)
            if plan != state.plan:
                self._propose(plan)
                continue
            if isinstance(move, Stopped):
                if move.is_failed and len(state.plans) <= self.policy.max_revisions:
                    revised = self._revise(state)
                    if revised is not None:
                        self._propose(revised)
                        continue
                return self._answer(state, plan, move)
            try:
                self._perform(state, plan, move)
            except _BudgetReachedError as e:
                return abstain(str(e), "BUDGET_REACHED", needs={"budget": True})

    def _choose(self, state: RunState) -> tuple[Plan, Move]:
        """The first plan that was not found to fail, so that an undone verdict leads back to the plan it had
        made fail.
        """
        plan, move = state.plans[-1], None
        for candidate in state.plans:
            plan, move = candidate, next_move(state, candidate, self.policy)
            if not (isinstance(move, Stopped) and move.is_failed):
                break
        assert move is not None
        return plan, move

    def _perform_asked(self, state: RunState, plan: Plan, move: Move) -> None:
        """A move for what a person asked for: a budget that is used up leaves the request unanswered, not the question."""
        try:
            self._perform(state, plan, move)
        except _BudgetReachedError as e:
            assert isinstance(move, Call)
            held = next(o for o in state.observations.values() if any(a.id == move.ask_id for a in o.asks))
            request = next(a.request for a in held.asks if a.id == move.ask_id)
            self._perform(state, plan, CannotAnswer(held.id, request, "unavailable", str(e), ask_id=move.ask_id))

    def _perform(self, state: RunState, plan: Plan, move: Move) -> None:
        match move:
            case Call():
                self._call(state, plan, move)
            case Decide():
                self._decide(state, move)
            case CannotAnswer():
                before = state.observations[move.observation_id].decision
                self.recorder.append(
                    EvidenceAnswered(
                        at=self.clock(),
                        observation_id=move.observation_id,
                        request=move.request,
                        outcome="failed" if move.outcome == "failed" else "unavailable",
                        supporting_id=move.supporting_id,
                        p_before=before.p_correct if before else None,
                        message=move.message[:500],
                        ask_id=move.ask_id,
                    )
                )
            case Settle():
                self._settle(state, move)

    def _call(self, state: RunState, plan: Plan, move: Call) -> None:
        self._spend(state, move)
        parents = [state.observations[p].observation for p in move.parents]
        if not move.is_started:
            self.recorder.append(
                StepStarted(
                    at=self.clock(),
                    step=move.step,
                    attempt=move.attempt,
                    tool=move.tool,
                    arguments=move.arguments,
                    parents=move.parents,
                    call_key=move.call_key,
                )
            )
        self.calls += 1
        started_at = self.clock()
        try:
            observation = self.toolbox.call(
                tool=move.tool,
                arguments=move.arguments,
                question=self.question,
                plan=plan,
                step=move.step,
                attempt=move.attempt,
                run_id=self.run_id,
                parents=parents,
                progress=self._progress(move.step),
                is_cancelled=lambda: self.recorder.is_cancelled() or self._is_withdrawn(move),
            )
            wrong = _belongs(observation, move, self.run_id, state)
        except Exception as e:
            logger.exception("the tool box crashed in run %s, step %s", self.run_id, move.step)
            observation, wrong = None, f"The tool crashed ({type(e).__name__})."
        if self.recorder.is_cancelled():
            raise _CancelledError
        if self._is_withdrawn(move, now=True):
            return
        if observation is None or wrong:
            observation = _failed_observation(move, self.run_id, plan.task, wrong, started_at, self.clock())
        self.recorder.append(ObservationRecorded(at=self.clock(), call_key=move.call_key, observation=observation))

    def _is_withdrawn(self, move: Call, *, now: bool = False) -> bool:
        """Whether the person took back what this call is to answer. Reading threads of a tool may ask at once: while the log is
        looked at by one, or within a second of the last look, the others are told what was seen last (``now``: look anyhow)."""
        if not move.ask_id or move.ask_id in self.withdrawn:
            return bool(move.ask_id)
        is_due = now or (self.clock() - self.looked_at).total_seconds() >= self.policy.progress_every_s
        if is_due and self.looking.acquire(blocking=now):
            try:
                self.looked_at = self.clock()
                for held in self.recorder.state().observations.values():
                    self.withdrawn.update(held.withdrawn)
            finally:
                self.looking.release()
        return move.ask_id in self.withdrawn

    def _decide(self, state: RunState, move: Decide) -> None:
        held = state.observations[move.observation_id]
        checks, decision = self._judged(state, held.observation, move.supporting, move.requests_made)
        if move.answers is not None:
            request, supporting_id = move.answers
            self.recorder.append(
                EvidenceAnswered(
                    at=self.clock(),
                    observation_id=held.id,
                    request=request,
                    outcome="answered",
                    supporting_id=supporting_id,
                    p_before=held.decision.p_correct if held.decision else None,
                    p_after=decision.p_correct,
                    message=_answered_message(decision),
                    ask_id=move.ask_id,
                )
            )
        self.recorder.append(DecisionMade(at=self.clock(), observation_id=held.id, checks=checks, decision=decision))

    def _judged(
        self, state: RunState, observation: Observation, supporting: Sequence[str], requests_made: int
    ) -> tuple[tuple[CheckResult, ...], Decision]:
        try:
            checks, decision = self.judge.judge(
                observation,
                question=self.question,
                history=[o.observation for o in state.history if o.id != observation.id],
                rejected=[
                    o.observation for o in state.observations.values() if o.effective == "reject" and o.id != observation.id
                ],
                supporting=[state.observations[s].observation for s in supporting],
                requests_made=requests_made,
            )
            return checks, _heeded(state, observation, decision)
        except Exception as e:
            logger.exception("the judge crashed in run %s on observation %s", self.run_id, observation.id)
            return (), Decision(
                decision="request_evidence",
                stage="unverified",
                verifier=f"crashed: {type(e).__name__}",
                reasons=("The verifier crashed; nothing is accepted by default.",),
                requested=(EvidenceRequest(kind="human", reason="No verifier judged this observation."),),
            )

    def _settle(self, state: RunState, move: Settle) -> None:
        held = state.observations[move.observation_id]
        last = held.decision
        is_rejecting = self.policy.on_unresolved == "reject"
        reason = f"{move.message} By policy it is {'rejected' if is_rejecting else 'left to a person'}."
        self.recorder.append(
            DecisionMade(
                at=self.clock(),
                observation_id=held.id,
                checks=held.checks,
                decision=Decision(
                    decision="reject" if is_rejecting else "request_evidence",
                    stage="policy",
                    p_correct=last.p_correct if last else None,
                    reasons=(reason, *(last.reasons if last else ())),
                    requested=() if is_rejecting else (EvidenceRequest(kind="human", reason=move.message[:500]),),
                    prior=last.prior if last else None,
                    verifier=last.verifier if last else "",
                    policy=self.policy.version,
                    features=last.features if last else {},
                    contributions=last.contributions if last else {},
                ),
            )
        )

    # --- plans --------------------------------------------------------------------------------------------
    def _plan(self) -> Plan:
        try:
            plan = self.planner.plan(self.question)
            validate_plan(plan, frozenset(s.scene_id for s in self.question.scenes))
            return plan
        except UserError as e:
            raise _PlannerFailedError(e.code, f"{e.what} {e.why} {e.fix}") from e
        except ModelError as e:
            logger.warning("the planner %s gave no usable plan: %s", self.planner.name, e)
            raise _PlannerFailedError("BAD_PLAN" if e.code == "TOOL_FAILED" else e.code, str(e)) from e
        except Exception as e:
            error_id = new_id()
            logger.exception("the planner crashed in run %s (%s)", self.run_id, error_id)
            raise _PlannerFailedError("BAD_PLAN", "The planner failed; no plan was made.", error_id) from e
        finally:
            self._count_planner()

    def _revise(self, state: RunState) -> Plan | None:
        try:
            plan = self.planner.revise(self.question, state)
            if plan is None or not plan.steps or plan in state.plans:
                return None
            validate_plan(plan, frozenset(s.scene_id for s in self.question.scenes))
            return plan
        except Exception:
            # the run still ends with an honest abstention that names what is open
            logger.exception("the planner could not revise its plan in run %s", self.run_id)
            return None
        finally:
            self._count_planner()

    def _propose(self, plan: Plan) -> None:
        self.recorder.append(PlanProposed(at=self.clock(), plan=plan))

    def _answer(self, state: RunState, plan: Plan, stopped: Stopped) -> Answer:
        if not plan.steps:
            return abstain(
                plan.reason or "No plan could be made for this question.",
                plan.code or "NO_ANSWER",
                needs=dict(plan.needs),
                warnings=plan.warnings,
            )
        return answer_from(state, plan, self.question, stopped)

    # --- limits -------------------------------------------------------------------------------------------
    def _spend(self, state: RunState, move: Call) -> None:
        used = self.calls if self.cause else len(state.steps_started) - move.is_started
        if used >= self.policy.max_tool_calls:
            raise _BudgetReachedError(
                f"The run's budget of {self.policy.max_tool_calls} tool calls is used up before step "
                f"{move.step}; ask a narrower question, or raise the budget."
            )
        spent = (self.clock() - self.began).total_seconds()
        if not self.cause:
            spent = max(spent, sum(o.observation.status.elapsed_s for o in state.observations.values()))
        if spent >= self.policy.max_seconds:
            raise _BudgetReachedError(
                f"The run's budget of {self.policy.max_seconds:g} seconds is used up before step "
                f"{move.step}; ask about a smaller region or fewer dates, or raise the budget."
            )

    def _progress(self, step: int) -> Callable[[int, int, str], None]:
        last: list[datetime] = []

        def report(done: int, total: int, message: str = "") -> None:
            now = self.clock()
            if last and (now - last[0]).total_seconds() < self.policy.progress_every_s:
                return
            last[:] = [now]
            self.recorder.append(ProgressReported(at=now, step=step, done=done, total=total, message=message[:300]))

        return report

    def _count_planner(self) -> None:
        spent = getattr(self.planner, "spent", None)
        if isinstance(spent, Cost):
            self.planner_cost = spent

    def _cost(self, state: RunState) -> Cost:
        """Cost over the whole run: seconds of earlier finishes are kept, those of a killed worker are not
        known.
        """
        before = state.cost
        return Cost(
            tool_calls=len(state.observations),
            model_calls=before.model_calls + self.planner_cost.model_calls,
            tokens=before.tokens + self.planner_cost.tokens,
            elapsed_s=before.elapsed_s + max((self.clock() - self.began).total_seconds(), 0.0),
            tools_s=sum(o.observation.status.elapsed_s for o in state.observations.values()),
            verification_s=sum(d.elapsed_s for o in state.observations.values() for d in o.decisions),
        )


class _PlannerFailedError(Exception):
    """Inside the loop only: there is no plan, and this is what the person is told."""

    def __init__(self, code: str, message: str, error_id: str = ""):
        self.code, self.message, self.error_id = code, message, error_id
        super().__init__(message)


def _belongs(observation: Observation, move: Call, run_id: str, state: RunState) -> str:
    """Why an observation is not the answer to this call, or ''. What does not belong could smuggle in other
    ancestors.
    """
    if observation.id in state.observations:
        return f"The tool returned an observation under an id that the run has already ({observation.id})."
    if (observation.run_id, observation.step, observation.tool) != (run_id, move.step, move.tool):
        return "The tool returned an observation of another call."
    if set(observation.parents) != set(move.parents):
        return "The tool returned an observation with other parents than it was given."
    if canonical_json(observation.arguments) != canonical_json(move.arguments):
        return "The tool returned an observation of a call with other arguments."
    return ""


def _failed_observation(move: Call, run_id: str, task: TaskRef, reason: str, started_at: datetime, now: datetime) -> Observation:
    """What is recorded of a call that gave no observation; its status lets nothing accept it."""
    return Observation(
        id=new_id(),
        run_id=run_id,
        step=move.step,
        attempt=move.attempt,
        parents=move.parents,
        task=task,
        tool=move.tool,
        configuration=Configuration(coarse="unknown", fine="unknown"),
        arguments=move.arguments,
        status=Status(
            state="failed",
            started_at=started_at,
            elapsed_s=max((now - started_at).total_seconds(), 0.0),
            log=(LogLine(at_s=0.0, level="error", message=reason),),
            reason=reason,
        ),
        result=Result(kind="table"),
    )


def _answered_message(decision: Decision) -> str:
    return {
        "accept": "It settled the matter: accepted.",
        "reject": "It settled the matter: rejected.",
        "request_evidence": "It did not settle the matter.",
    }[decision.decision]


def _heeded(state: RunState, observation: Observation, decision: Decision) -> Decision:
    """What a person called wrong does not come back as accepted by another path: it goes to a person again."""
    if decision.decision != "accept":
        return decision
    for held in state.observations.values():
        if held.verdict is not None and held.verdict.value == "reject" and _says_the_same(held.observation, observation):
            reason = f"A person called this same result wrong at step {held.observation.step}; another path settles nothing."
            return decision.model_copy(
                update={
                    "decision": "request_evidence",
                    "stage": "policy",
                    "reasons": (reason, *decision.reasons),
                    "requested": (EvidenceRequest(kind="human", reason=reason),),
                }
            )
    return decision


def _says_the_same(one: Observation, other: Observation) -> bool:
    """Equal kind, unit and value (numbers to 1 part in 10,000) or, where there is no value, equal layers."""
    a, b = one.result, other.result
    if one.id == other.id or (a.kind, a.unit) != (b.kind, b.unit) or one.step != other.step:
        return False
    if a.value is None and b.value is None:
        mine, theirs = {x.artifact for x in a.layers}, {x.artifact for x in b.layers}
        return bool(mine) and mine == theirs
    if isinstance(a.value, int | float) and isinstance(b.value, int | float):
        return abs(a.value - b.value) <= 1e-4 * max(abs(a.value), abs(b.value))
    return a.value == b.value
