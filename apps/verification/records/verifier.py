"""Verifier for records: a probability from the signs of a call, behind the contract of every back end.

It stands in only where an observation brings no process evidence at all. What it says can reject; it cannot accept, since an
observation whose evidence is missing is asked for it (PROTOCOL.md section 5).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from apps.core.evidence.observation import Observation
from apps.core.evidence.plan import Question
from apps.verification.records.faults import FAULTS, faults_in
from apps.verification.records.forest import TOOL_RATE, Forest, RecordModel, load_record_model
from apps.verification.records.memory import Call, RecordMemory, call_of
from apps.verification.records.signs import signs_of

# A fault that the record proves leaves this much room for being wrong about the tool's contract.
P_CORRECT_OF_FAULT = 0.02
RUNS_REMEMBERED = 8


def is_bare_record(observation: Observation) -> bool:
    """Whether the observation brings no process evidence: no source, no intermediate, no validity, no named input."""
    evidence = observation.evidence
    return not (evidence.source or evidence.intermediate or evidence.validity or observation.inputs)


@dataclass(frozen=True, slots=True)
class RecordOpinion:
    """``p_wrong`` in [0, 1]; ``faults`` names what the record proves; ``contributions`` are log-odds of being right."""

    p_wrong: float
    faults: tuple[str, ...]
    reasons: tuple[str, ...]
    signs: dict[str, float]
    contributions: dict[str, float]


def opinion_on(forest: Forest, call: Call, signs: Mapping[str, float], *, has_reasons: bool = True) -> RecordOpinion:
    """What the record says of one call."""
    faults = faults_in(signs)
    if call.is_failed:
        return RecordOpinion(1.0, (), ("The tool failed.",), dict(signs), {})
    p = forest.probability(signs, call.tool)
    if faults:
        p = max(p, 1 - P_CORRECT_OF_FAULT)
    if not has_reasons:
        return RecordOpinion(p, faults, (), dict(signs), {})
    against = {n: -v for n, v in forest.contributions(signs, call.tool).items()}
    reasons = [f"{name}: {FAULTS[name]}" for name in faults]
    for name, log_odds in sorted(against.items(), key=lambda item: -abs(item[1]))[:5]:
        if abs(log_odds) >= 0.1:
            value = forest.tool_rates.rate(call.tool) if name == TOOL_RATE and forest.tool_rates else signs.get(name)
            shown = "not known" if value is None else f"{value:.3g}"
            reasons.append(f"{'For' if log_odds > 0 else 'Against'}: {name} = {shown} ({log_odds:+.2f}).")
    return RecordOpinion(p, faults, tuple(reasons), dict(signs), against)


@dataclass(slots=True)
class _Read:
    """A run as far as it was read: ids in order, the memory after them, and the signs of each observation looked at."""

    ids: list[str]
    memory: RecordMemory
    signs: dict[str, dict[str, float]]


class RecordVerifier:
    """``opinion`` reads a call against the calls before it. Recent runs are remembered, so that each call is read once."""

    def __init__(self, source: Callable[[], RecordModel] = load_record_model):
        self._source = source
        self._model: RecordModel | None = None
        self._runs: OrderedDict[tuple[str, str], _Read] = OrderedDict()

    @property
    def model(self) -> RecordModel:
        """Read when it is first needed: most observations bring evidence."""
        if self._model is None:
            self._model = self._source()
        return self._model

    @property
    def name(self) -> str:
        return self.model.version

    def opinion(self, observation: Observation, question: Question | None, before: Sequence[Observation]) -> RecordOpinion:
        """``before``: the run's earlier observations, in any order, whatever was decided on them."""
        signs = self.signs(observation, question, before)
        return opinion_on(self.forest_for(_text(observation, question)), call_of(observation), signs)

    def forest_for(self, question: str) -> Forest:
        """The forest that judges the calls of this question. Evaluation puts the one in its place that has not seen the task."""
        return self.model.calls

    def signs(self, observation: Observation, question: Question | None, before: Sequence[Observation]) -> dict[str, float]:
        """Signs of one observation, by name."""
        read = self._read(observation, question, sorted(before, key=lambda o: (o.step, o.attempt)))
        return self._signs(read, observation)

    def memory(self, observation: Observation, question: Question | None, before: Sequence[Observation]) -> RecordMemory:
        """The run as it stood before the observation."""
        return self._read(observation, question, sorted(before, key=lambda o: (o.step, o.attempt))).memory

    @staticmethod
    def _signs(read: _Read, observation: Observation) -> dict[str, float]:
        held = read.signs.get(observation.id)
        if held is None:
            held = read.signs[observation.id] = signs_of(read.memory, call_of(observation))
        return held

    def _read(self, observation: Observation, question: Question | None, before: Sequence[Observation]) -> _Read:
        choices = question.choices if question else {}
        key = (observation.run_id, _text(observation, question))
        ids = [o.id for o in before]
        read = self._runs.get(key) if observation.run_id else None
        if read is None or read.ids != ids[: len(read.ids)] or read.memory.choices != choices:
            read = _Read([], RecordMemory(key[1], choices), {})
        for earlier in before[len(read.ids) :]:
            read.memory.add(call_of(earlier), self._signs(read, earlier))
            read.ids.append(earlier.id)
        if observation.run_id:
            self._runs[key] = read
            self._runs.move_to_end(key)
            while len(self._runs) > RUNS_REMEMBERED:
                self._runs.popitem(last=False)
        return read


def _text(observation: Observation, question: Question | None) -> str:
    return question.text if question else observation.task.question
