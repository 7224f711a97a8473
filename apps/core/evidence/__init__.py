"""The protocol's types: observation, evidence, check result, decision, verdict, events and their fold."""

from apps.core.evidence.decision import (
    FAMILIES,
    VERDICT_REASONS,
    CheckResult,
    Decision,
    EvidenceRequest,
    PriorView,
    Verdict,
)
from apps.core.evidence.fold import ObservationState, RunState, fold
from apps.core.evidence.observation import (
    PROTOCOL,
    REQUIRED_EVIDENCE,
    Configuration,
    Evidence,
    InputRef,
    LayerRef,
    LogLine,
    Observation,
    Provenance,
    Result,
    Status,
    TaskRef,
)
from apps.core.evidence.plan import Answer, AnswerRecipe, Claim, Cost, Plan, PlanStep, Question
from apps.core.evidence.tasks import ANSWER_FORMS, TASK_TYPES

__all__ = [
    "ANSWER_FORMS",
    "FAMILIES",
    "PROTOCOL",
    "REQUIRED_EVIDENCE",
    "TASK_TYPES",
    "VERDICT_REASONS",
    "Answer",
    "AnswerRecipe",
    "CheckResult",
    "Claim",
    "Configuration",
    "Cost",
    "Decision",
    "Evidence",
    "EvidenceRequest",
    "InputRef",
    "LayerRef",
    "LogLine",
    "Observation",
    "ObservationState",
    "Plan",
    "PlanStep",
    "PriorView",
    "Provenance",
    "Question",
    "Result",
    "RunState",
    "Status",
    "TaskRef",
    "Verdict",
    "fold",
]
